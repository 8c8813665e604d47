{{- define "tickwheel.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tickwheel.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tickwheel.labels" -}}
{{ include "tickwheel.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tickwheel.tokens" -}}
{{- if .Values.auth.existingSecret }}{{ .Values.auth.existingSecret }}{{ else if .Values.auth.tokens }}{{ include "tickwheel.name" . }}-tokens{{ end }}
{{- end }}

{{- /* Refuses values that cannot work, in one sentence each. */ -}}
{{- define "tickwheel.check" -}}
{{- $ways := list }}
{{- if .Values.auth.tokens }}{{ $ways = append $ways "auth.tokens" }}{{ end }}
{{- if .Values.auth.existingSecret }}{{ $ways = append $ways "auth.existingSecret" }}{{ end }}
{{- if .Values.auth.unprotected }}{{ $ways = append $ways "auth.unprotected" }}{{ end }}
{{- if ne (len $ways) 1 }}{{ fail "Set exactly one of auth.tokens, auth.existingSecret and auth.unprotected: it decides who may call." }}{{ end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.cluster.enabled) }}{{ fail "More than one replica needs cluster.enabled: a single node shares its timers with no other." }}{{ end }}
{{- if and .Values.cluster.enabled (not .Values.cluster.brokers) }}{{ fail "cluster.enabled needs cluster.brokers, the addresses of the Kafka brokers." }}{{ end }}
{{- if and .Values.cluster.enabled (not .Values.cluster.existingSecret) }}{{ fail "cluster.enabled needs cluster.existingSecret, a Secret with the key secret." }}{{ end }}
{{- range $name, $value := .Values.config }}
{{- if has $name (list "data_folder" "listen_address" "listen_port" "tokens_file" "tls_certificate" "tls_key" "listen_unprotected" "cluster_brokers" "cluster_log" "cluster_log_file" "cluster_listen" "cluster_node_id" "cluster_secret" "cluster_secret_file" "partitions") }}{{ fail (printf "config.%s is set by the chart; remove it." $name) }}{{ end }}
{{- end }}
{{- end }}
