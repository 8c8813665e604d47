/*
 * config.h - every setting of the daemon in one table: its name, type, default, limits and meaning.
 *
 * The table makes the fields of `struct config`, the flags (--listen-address), the environment
 * (TICKWHEEL_LISTEN_ADDRESS), the keys of the config file (listen_address), --help,
 * docs/configuration.md and the example file. Flags win over the environment, the environment over
 * the file, the file over the default.
 *
 * Errors     ERROR_INVALID for an unknown name (the text offers the nearest one) and for a value
 *            out of its limits (the text names them).
 * Ownership  A config holds its texts itself: it can be copied, and there is nothing to free.
 * Threads    Immutable once loaded: any.
 */
#ifndef TICKWHEEL_OPS_CONFIG_H
#define TICKWHEEL_OPS_CONFIG_H

#include "base/bytes.h"
#include "base/error.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define SECOND_MS UINT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS   (60 * MINUTE_MS)
#define DAY_MS    (24 * HOUR_MS)

enum config_storage_sync {
    CONFIG_STORAGE_SYNC_ALWAYS,
    CONFIG_STORAGE_SYNC_NEVER,
};

enum config_storage_damage {
    CONFIG_STORAGE_DAMAGE_REFUSE,
    CONFIG_STORAGE_DAMAGE_SKIP,
};

enum config_metrics_access {
    CONFIG_METRICS_ACCESS_ADMIN,
    CONFIG_METRICS_ACCESS_OPEN,
};

enum config_listen_unprotected {
    CONFIG_LISTEN_UNPROTECTED_NO,
    CONFIG_LISTEN_UNPROTECTED_YES,
};

enum config_webhook_cloudevents {
    CONFIG_WEBHOOK_CLOUDEVENTS_OFF,
    CONFIG_WEBHOOK_CLOUDEVENTS_BINARY,
};

enum config_cluster_durability {
    CONFIG_CLUSTER_DURABILITY_REPLICATED,
    CONFIG_CLUSTER_DURABILITY_SERVER,
};

enum config_log_level {
    CONFIG_LOG_LEVEL_INFO,
    CONFIG_LOG_LEVEL_DEBUG,
};

/* SECTION(name, sentence) opens a section of the file and of the docs.
 * FIELD(type, name, default, min, max, help) is one setting:
 *
 *     U32       a number                                      uint32_t name
 *     U64       a number                                      uint64_t name
 *     DURATION  "500ms", "10s", "1h30m"; limits in ms         uint64_t name_ms
 *     BYTES     "4096", "64K", "256M", "1G"                   uint64_t name
 *     TEXT      limits are its length in bytes                char name[max + 1]
 *     LIST      a TEXT of parts separated by commas           char name[max + 1]
 *     SECRET    a TEXT that is never shown                    char name[max + 1]
 *     CHOICE    the words, the first one is the default       enum config_<name> name */
#define CONFIG_TABLE(SECTION, FIELD)                                                              \
    SECTION("server", "Where clients connect, and limits per request and connection.")            \
    FIELD(TEXT, listen_address, "127.0.0.1", 1, 45, "IPv4 or IPv6 address to listen on")          \
    FIELD(U32, listen_port, "8463", 0, 65535, "port to listen on; 0 takes any free one")          \
    FIELD(U32, connections_max, "4096", 1, 1000000,                                               \
          "limit of client connections; a further one is answered 503")                           \
    FIELD(DURATION, http_idle, "60s", SECOND_MS, DAY_MS,                                          \
          "limit of a client's silence, of the time for a head, and for each 4 KiB of a body")    \
    FIELD(BYTES, header_bytes_max, "32K", 4 * KIB, MIB,                                           \
          "limit of the request line and headers of a request; beyond it 431")                    \
    FIELD(BYTES, body_bytes_max, "2M", KIB, GIB,                                                  \
          "limit of the body of a request, and of a line of a batch; beyond it 413")              \
    FIELD(BYTES, batch_bytes_max, "1G", KIB, 1024 * GIB,                                          \
          "limit of the body of a batch; beyond it 413 after the lines before it")                \
    FIELD(U32, batch_lines_max, "1000000", 1, 100000000,                                          \
          "limit of lines in a batch; beyond it 413 after the lines before it")                   \
    FIELD(U32, batches_max, "256", 1, 65536, "limit of batches in flight; beyond it 503")         \
    FIELD(U32, inflight_max, "200000", 1, 100000000,                                              \
          "limit of timers, events and receipts in unanswered requests; beyond it 503")           \
    FIELD(BYTES, bodies_bytes_max, "256M", MIB, 1024 * GIB,                                       \
          "limit of all request bodies over 16 KiB in memory; beyond it 503")                     \
    FIELD(BYTES, answers_bytes_max, "512M", MIB, 1024 * GIB,                                      \
          "limit of all answers not sent yet; beyond it lists, leases and batches get 503")       \
    FIELD(DURATION, drain, "10s", 0, HOUR_MS,                                                     \
          "how long a stop waits for requests and deliveries in flight")                          \
    SECTION("access",                                                                             \
            "Authentication and encryption; see security.md. SIGHUP reads the files again.")      \
    FIELD(TEXT, tokens_file, "", 0, 4000,                                                         \
          "file of tokens; without it every client may do everything")                            \
    FIELD(TEXT, tls_certificate, "", 0, 4000,                                                     \
          "PEM file of the server certificate; turns TLS on and plain HTTP off")                  \
    FIELD(TEXT, tls_key, "", 0, 4000, "PEM file of the private key of tls_certificate")           \
    FIELD(CHOICE, metrics_access, "admin|open", 0, 0,                                             \
          "with tokens_file: whether /metrics needs a token with scope admin, or no token")       \
    FIELD(CHOICE, listen_unprotected, "no|yes", 0, 0,                                             \
          "whether to listen on other addresses than loopback without tokens")                    \
    FIELD(LIST, allowed_hosts, "", 0, 4000,                                                       \
          "without tokens_file: more hosts by which clients may call, without ports")             \
    FIELD(LIST, allowed_origins, "", 0, 4000,                                                     \
          "origins whose web pages may change timers, such as https://shop.example")              \
    FIELD(SECRET, secrets_keys, "", 0, 1000,                                                      \
          "keys that seal secrets of named targets: NAME=BASE64 of 32 bytes; the first seals")    \
    FIELD(TEXT, secrets_keys_file, "", 0, 4000, "file to read secrets_keys from")                 \
    FIELD(TEXT, secrets_folder, "", 0, 4000,                                                      \
          "folder of the files that secret_ref names; that of a tenant is in it")                 \
    FIELD(TEXT, named_targets_file, "", 0, 4000,                                                  \
          "JSON file of named targets of this node; see webhooks.md")                             \
    FIELD(LIST, sensitive_headers, "", 0, 4000,                                                   \
          "more headers of timers that are shown as ***, such as x-token")                        \
    SECTION("timers", "Limits of timers, and how they are kept in memory.")                       \
    FIELD(BYTES, payload_bytes_max, "1M", 1, 64 * MIB,                                            \
          "limit of the payload of a timer; beyond it 413")                                       \
    FIELD(U32, target_bytes_max, "2048", 16, 65535,                                               \
          "limit of the target of a timer; beyond it 422")                                        \
    FIELD(U32, labels_max, "64", 0, 1024, "limit of the labels of a timer; beyond it 422")        \
    FIELD(BYTES, headers_bytes_max, "16K", 0, MIB,                                                \
          "limit of the webhook headers of a timer, each with 3 bytes more; beyond it 422")       \
    FIELD(U64, pending_max, "0", 0, UINT64_MAX,                                                   \
          "limit of live timers, of all nodes; beyond it creates get 429; 0 is no limit")         \
    FIELD(DURATION, retain, "1h", 0, 3650 * DAY_MS,                                               \
          "how long the final state of a timer is kept and answered with 410 instead of 404")     \
    FIELD(DURATION, dead_retain, "30d", 0, 3650 * DAY_MS,                                         \
          "how long a dead letter is kept, shown and can be redriven")                            \
    FIELD(BYTES, dead_bytes_max, "256M", 0, 1024 * GIB,                                           \
          "limit of the dead letters that are kept, divided among partitions and tenants; the "   \
          "oldest go")                                                                            \
    FIELD(U32, partitions, "4", 1, 256,                                                           \
          "partitions that share the timers; fixed when the data folder is created")              \
    FIELD(U32, shards, "1", 0, 64,                                                                \
          "threads, each with its partitions and connections; 0: as many as cores; at most "      \
          "`partitions`")                                                                         \
    FIELD(TEXT, clock, "real", 4, 48,                                                             \
          "real; for tests virtual, or virtual=2027-01-01T00:00Z; see testing.md")                \
    FIELD(DURATION, window, "10s", 100, DAY_MS,                                                   \
          "how far ahead timers are kept in memory; later timers are on disk only")               \
    FIELD(BYTES, near_bytes_max, "256M", MIB, 1024 * GIB,                                         \
          "limit of memory for timers within the window; beyond it creates get 503, or wait on "  \
          "disk")                                                                                 \
    FIELD(TEXT, zoneinfo_folder, "/usr/share/zoneinfo", 1, 1000,                                  \
          "folder of the tz database. A change in it counts within two minutes")                  \
    FIELD(TEXT, calendars, "", 0, 8000,                                                           \
          "calendars of holidays as NAME=FILE, separated by spaces; see recurrence.md")           \
    SECTION("storage", "Where timers are stored.")                                                \
    FIELD(TEXT, data_folder, "./data", 1, 4000,                                                   \
          "folder of the embedded storage; created if missing")                                   \
    FIELD(CHOICE, storage_sync, "always|never", 0, 0,                                             \
          "when commits are synced to disk; never is faster, and a power cut then loses seconds") \
    FIELD(DURATION, commit_linger, "1ms", 0, SECOND_MS,                                           \
          "how long a commit may wait for more writes while many requests are in flight")         \
    FIELD(DURATION, watermark_interval, "1s", 10, HOUR_MS,                                        \
          "how often the watermark moves and final states older than retain are trimmed")         \
    FIELD(BYTES, storage_memory_bytes, "64M", MIB, 1024 * GIB,                                    \
          "limit of changes in memory that are not yet in a run")                                 \
    FIELD(BYTES, disk_reserve_bytes, "256M", 0, 1024 * GIB,                                       \
          "free disk below which creates get 503; at least 160M, or 9 % of a disk below 2G")      \
    FIELD(CHOICE, storage_damage, "refuse|skip", 0, 0,                                            \
          "if the log lost acknowledged writes: refuse to start, or start without those writes")  \
    FIELD(TEXT, backup_folder, "", 0, 4000,                                                       \
          "folder where backups are put; without it POST /v1/admin/backup is refused")            \
    FIELD(TEXT, backup_cron, "", 0, 256,                                                          \
          "when backups are made, such as `0 3 * * *`; without it only when asked for")           \
    FIELD(TEXT, backup_timezone, "UTC", 1, 63, "time zone of backup_cron")                        \
    FIELD(U32, backup_keep, "7", 1, 1000,                                                         \
          "how many backups made by backup_cron are kept; older ones are deleted after the next") \
    SECTION("delivery", "How due timers reach their targets.")                                    \
    FIELD(U32, deliveries_max, "4096", 1, 1000000,                                                \
          "limit of webhooks in flight, of all nodes; the next waits")                            \
    FIELD(U32, target_deliveries_max, "128", 1, 1000000,                                          \
          "limit of webhooks in flight of a tenant to an origin (scheme, host, port)")            \
    FIELD(U32, target_rate_max, "0", 0, 1000000,                                                  \
          "limit of webhooks per second of a tenant to an origin; 0 is no limit")                 \
    FIELD(U32, target_breaker_failures, "20", 0, 1000000,                                         \
          "failures in a row that open a breaker; 0 turns breakers off")                          \
    FIELD(DURATION, target_breaker_pause, "10s", 100, HOUR_MS,                                    \
          "how long a breaker stays open before one webhook is tried; doubled at each failure")   \
    FIELD(DURATION, target_breaker_pause_max, "5m", 100, DAY_MS, "limit of that doubled pause")   \
    FIELD(U32, catch_up_rate_max, "0", 0, 10000000,                                               \
          "limit of overdue timers delivered per second after an outage; 0 is no limit")          \
    FIELD(U32, queue_leases_max, "100000", 1, 100000000,                                          \
          "limit of leases of all queues and nodes, shared among tenants")                        \
    FIELD(DURATION, queue_wait_max, "20s", 0, HOUR_MS,                                            \
          "limit of `wait` of a lease request; beyond it 422")                                    \
    FIELD(BYTES, queue_bytes_max, "4M", 1, GIB,                                                   \
          "limit of the items of a lease request; the item that reaches it is the last")          \
    FIELD(LIST, webhook_allow, "", 0, 4000,                                                       \
          "private networks that webhooks may call, such as 10.0.0.0/8,::1/128")                  \
    FIELD(SECRET, webhook_secret, "", 0, 32000,                                                   \
          "keys that sign webhooks: whsec_..., whsk_..., TENANT=whsec_...; two while rotating")   \
    FIELD(TEXT, webhook_secret_file, "", 0, 4000, "file to read webhook_secret from")             \
    FIELD(TEXT, webhook_token_issuer, "", 0, 1000,                                                \
          "URL of this service as issuer of tokens (JWT), which webhooks then carry")             \
    FIELD(TEXT, webhook_token_keys_file, "", 0, 4000,                                             \
          "PEM file of private keys, P-256 or RSA; the first signs tokens; empty: own keys")      \
    FIELD(DURATION, webhook_token_life, "5m", MINUTE_MS, HOUR_MS,                                 \
          "time until a token expires; it is used for half of that")                              \
    FIELD(CHOICE, webhook_cloudevents, "off|binary", 0, 0,                                        \
          "whether webhooks carry ce- headers, which make them CloudEvents 1.0")                  \
    FIELD(TEXT, webhook_cloudevents_source, "/tickwheel", 1, 256,                                 \
          "value of ce-source: a URI reference that names this service")                          \
    FIELD(TEXT, webhook_ca_file, "", 0, 4000,                                                     \
          "PEM file of the authorities to trust for https targets; default: the system's")        \
    FIELD(TEXT, public_url, "", 0, 256,                                                           \
          "URL by which receivers reach this API, for `Tickwheel-Ack: later`; empty: none do")    \
    FIELD(DURATION, ack_timeout, "1h", SECOND_MS, 12 * HOUR_MS,                                   \
          "time that a receiver has for a later answer, if the timer has no `ack_timeout`")       \
    FIELD(U32, webhook_connections_max, "4096", 1, 1000000,                                       \
          "limit of open connections to webhook targets; the next delivery waits")                \
    FIELD(DURATION, webhook_connection_age_max, "5m", 1000, DAY_MS,                               \
          "age at which a connection to a webhook target takes no further request")               \
    FIELD(U32, webhook_connection_requests_max, "500", 1, 1000000000,                             \
          "limit of webhooks sent over one connection; HTTP/2 streams in flight may exceed it")   \
    FIELD(DURATION, webhook_connect_timeout, "10s", 10, HOUR_MS,                                  \
          "time limit of connecting to a webhook target; then the attempt has failed")            \
    FIELD(BYTES, webhook_response_bytes_max, "64K", 0, GIB,                                       \
          "limit of the bytes read of the body of a webhook answer; the rest is not read")        \
    FIELD(SECRET, broker_connections, "", 0, 8000,                                                \
          "message brokers as NAME=URL, separated by spaces; see brokers.md")                     \
    FIELD(TEXT, broker_connections_file, "", 0, 4000, "file to read broker_connections from")     \
    FIELD(U32, broker_inflight_max, "1024", 1, 1000000,                                           \
          "limit of messages in flight to a broker connection, of all nodes")                     \
    FIELD(BYTES, broker_inflight_bytes_max, "64M", KIB, 64 * GIB,                                 \
          "limit of the payload of messages in flight to a broker connection")                    \
    FIELD(DURATION, broker_connect_timeout, "5s", 10, MINUTE_MS,                                  \
          "time limit of connecting to a broker; no attempt is spent")                            \
    FIELD(BYTES, delivery_log_bytes, "256M", 0, 1024 * GIB,                                       \
          "limit of the delivery log on disk; below 1M there is none")                            \
    FIELD(U32, delivery_log_answer_bytes, "256", 0, 4096,                                         \
          "bytes of the body of a webhook's answer that it keeps; 0 for none")                    \
    FIELD(U32, delivery_log_days, "7", 1, 3650, "age in days beyond which it drops deliveries")   \
    SECTION("sources", "Where timers come from besides the API; see postgres.md and brokers.md.") \
    FIELD(SECRET, sources, "", 0, 8000,                                                           \
          "outboxes, queues: NAME=postgres://... or NAME:TENANT=amqp://..., separated by spaces") \
    FIELD(TEXT, sources_file, "", 0, 4000, "file to read sources from")                           \
    SECTION("cluster", "A node of a cluster; see cluster.md.")                                    \
    FIELD(SECRET, cluster_log, "", 0, 4000,                                                       \
          "PostgreSQL database of the log as postgres://...; empty: cluster_brokers")             \
    FIELD(TEXT, cluster_log_file, "", 0, 4000, "file to read cluster_log from")                   \
    FIELD(LIST, cluster_brokers, "", 0, 4000,                                                     \
          "Kafka brokers of the log as host:port, with commas; empty: cluster_log, or one node")  \
    FIELD(CHOICE, cluster_durability, "replicated|server", 0, 0,                                  \
          "replicated: cluster_log must have a synchronous standby; server: it may have none")    \
    FIELD(TEXT, cluster_name, "tickwheel", 1, 64,                                                 \
          "name of the cluster; its log is the topic NAME.log or the table NAME_log")             \
    FIELD(U32, cluster_node_id, "1", 0, UINT32_MAX,                                               \
          "number of this node, another one for each; 0 or auto: a free one, kept in "            \
          "data_folder")                                                                          \
    FIELD(DURATION, cluster_lease, "2s", 500, 30 * SECOND_MS,                                     \
          "how long an owner of a partition may act without an append to the log; equal on all "  \
          "nodes")                                                                                \
    FIELD(U32, cluster_replicas, "3", 1, 15,                                                      \
          "brokers that keep each record; --cluster-create waits for as many")                    \
    FIELD(U32, cluster_standbys, "1", 0, 3,                                                       \
          "copies of a partition beside that of its owner; equal on all nodes")                   \
    FIELD(TEXT, cluster_zone, "", 0, 64,                                                          \
          "where this node is, such as a rack; copies of a partition lie in different zones")     \
    FIELD(U32, cluster_weight, "1", 1, 1000,                                                      \
          "a node of weight 2 gets twice the partitions of one of weight 1")                      \
    FIELD(TEXT, cluster_listen, "", 0, 64,                                                        \
          "address and port for other nodes, such as 10.0.0.5:8464; empty: requests stay here")   \
    FIELD(TEXT, cluster_address, "", 0, 255,                                                      \
          "host:port by which other nodes reach cluster_listen; default: cluster_listen")         \
    FIELD(SECRET, cluster_secret, "", 0, 1000,                                                    \
          "secret of all nodes of the cluster, 16 bytes or more; needed with cluster_listen")     \
    FIELD(TEXT, cluster_secret_file, "", 0, 4000, "file to read cluster_secret from")             \
    FIELD(TEXT, cluster_tls_certificate, "", 0, 4000,                                             \
          "PEM file of the certificate of cluster_listen; turns TLS on")                          \
    FIELD(TEXT, cluster_tls_key, "", 0, 4000,                                                     \
          "PEM file of the private key of cluster_tls_certificate")                               \
    FIELD(TEXT, cluster_ca_file, "", 0, 4000,                                                     \
          "PEM file of the authorities to trust for other nodes; read for each connection")       \
    FIELD(DURATION, cluster_wait, "4500ms", 100, MINUTE_MS,                                       \
          "how long a request waits for the owner of its partition; then it gets 503")            \
    FIELD(BYTES, cluster_sweep_bytes_min, "256M", 0, 64 * 1024 * GIB,                             \
          "size of the log of a partition from which it is swept; 0: never")                      \
    FIELD(U32, cluster_sweep_factor, "2", 2, 1000,                                                \
          "times that the log of a partition may be larger than its live rows")                   \
    FIELD(U32, cluster_copy_records_min, "256", 0, 1000000000,                                    \
          "records of a log from which a node that has none of them gets a copy; 0: never")       \
    SECTION("otlp",                                                                               \
            "Spans for OpenTelemetry; see operations.md. Its OTEL_ variables set them too.")      \
    FIELD(TEXT, otlp_endpoint, "", 0, 1000,                                                       \
          "URL that takes spans, such as http://127.0.0.1:4318/v1/traces; empty: no spans")       \
    FIELD(SECRET, otlp_headers, "", 0, 4000, "headers for it: NAME=VALUE, with commas")           \
    FIELD(TEXT, otlp_headers_file, "", 0, 4000, "file to read otlp_headers from")                 \
    FIELD(DURATION, otlp_timeout, "10s", 10, MINUTE_MS, "time limit of a request to it")          \
    FIELD(TEXT, otlp_service_name, "", 0, 255, "service.name of the spans; empty: tickwheeld")    \
    FIELD(LIST, otlp_resource_attributes, "", 0, 4000,                                            \
          "more attributes of this service: NAME=VALUE, with commas")                             \
    FIELD(TEXT, otlp_sampler, "parentbased_always_on", 1, 40,                                     \
          "sampler of OpenTelemetry: always_on, always_off, traceidratio; parentbased_...")       \
    FIELD(TEXT, otlp_sample_ratio, "1", 1, 20, "part of new traces that traceidratio exports")    \
    SECTION("log", "The log of the daemon, written to standard error.")                           \
    FIELD(CHOICE, log_level, "info|debug", 0, 0, "least level of events that are logged")

#define CONFIG_FIELD_U32(name, max)      uint32_t name;
#define CONFIG_FIELD_U64(name, max)      uint64_t name;
#define CONFIG_FIELD_DURATION(name, max) uint64_t name##_ms;
#define CONFIG_FIELD_BYTES(name, max)    uint64_t name;
#define CONFIG_FIELD_TEXT(name, max)     char name[(max) + 1];
#define CONFIG_FIELD_LIST(name, max)     char name[(max) + 1];
#define CONFIG_FIELD_SECRET(name, max)   char name[(max) + 1];
#define CONFIG_FIELD_CHOICE(name, max)   enum config_##name name;

struct config {
#define SECTION(name, sentence)
#define FIELD(type, name, preset, min, max, help) CONFIG_FIELD_##type(name, max)
    CONFIG_TABLE(SECTION, FIELD)
#undef SECTION
#undef FIELD
};

/* Sets all fields to their defaults. */
void config_init(struct config *ret_config);

/* Sets one field, by its name in the table (listen_address), from text. On failure nothing
 * changes. */
enum error_code config_set(struct config *config, const char *name, const char *value,
                           struct error *ret_error);

/* Append texts that are made from the table. */
void config_format(const struct config *config, struct buffer *buffer); /* omits secrets */
void config_format_help(struct buffer *buffer);
void config_format_docs(struct buffer *buffer);
void config_format_example(struct buffer *buffer);

/* True if the daemon is a node of a cluster. */
static inline bool config_is_cluster(const struct config *config)
{
    return *config->cluster_brokers || *config->cluster_log;
}

#endif
