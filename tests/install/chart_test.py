#!/usr/bin/env python3
"""Goal: the Helm chart makes objects that Kubernetes takes and a daemon that starts with them, for each of packaging/helm/tickwheel/ci;
and values that cannot work are refused with a sentence.

Method: helm lints and renders; kubernetes-validate, which has Kubernetes' own schemas, checks strictly; the daemon of this
build checks the settings. No cluster runs it. Skips where helm, which `make chart` builds, or the schemas cannot be had.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness
import python_tools

CHART = os.path.join(ROOT, "packaging", "helm", "tickwheel")
CASES = sorted(glob.glob(os.path.join(CHART, "ci", "*.yaml")))
HELM = shutil.which("helm") or os.path.join(ROOT, "build", "tools", "helm")
VALIDATE = "1.33.1"  # of the package kubernetes-validate, which has the schemas of these releases of Kubernetes:
RELEASES = ("1.28", "1.33")
TO_JSON = "import json, sys, yaml; print(json.dumps([each for each in yaml.safe_load_all(sys.stdin) if each]))"
KINDS = {"ConfigMap", "Service", "StatefulSet"}
MORE = {"single": {"Secret", "ServiceMonitor"}, "cluster": {"PodDisruptionBudget"}, "open": set()}


def helm(*arguments):
    # One that go built takes the cluster for an old release.
    return subprocess.run([HELM, *arguments, "--kube-version", RELEASES[0]], capture_output=True, text=True, timeout=harness.PATIENCE_S, check=False)


class Chart(unittest.TestCase):
    def rendered(self, path):
        done = helm("template", "shop", CHART, "--namespace", "timers", "--values", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def objects(self, path):
        python = python_tools.program("kubernetes-validate", VALIDATE, "python")
        done = subprocess.run([python, "-c", TO_JSON], input=self.rendered(path), capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def test_lint(self):
        for path in CASES:
            done = helm("lint", "--strict", CHART, "--values", path)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_kubernetes_takes_its_objects(self):
        validate = python_tools.program("kubernetes-validate", VALIDATE, "kubernetes-validate")
        with tempfile.TemporaryDirectory() as folder:
            for path in CASES:
                name = os.path.basename(path)[:-5]
                objects = self.objects(path)
                self.assertEqual({each["kind"] for each in objects}, KINDS | MORE[name])
                for each in objects:
                    if each["apiVersion"].startswith("monitoring.coreos.com/"):
                        continue  # of an operator: Kubernetes has no schema of it
                    file = os.path.join(folder, f"{name}-{each['kind']}-{each['metadata']['name']}.yaml")
                    with open(file, "w", encoding="utf-8") as opened:
                        json.dump(each, opened)
            files = glob.glob(os.path.join(folder, "*.yaml"))
            self.assertGreater(len(files), 10)
            for release in RELEASES:
                done = subprocess.run([validate, "--strict", "-k", release, *files], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            wrong = os.path.join(folder, "wrong.yaml")  # the check can fail
            with open(wrong, "w", encoding="utf-8") as opened:
                json.dump({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"prots": []}}, opened)
            self.assertNotEqual(subprocess.run([validate, "--strict", "-k", RELEASES[0], wrong], capture_output=True,
                                               check=False).returncode, 0)

    def test_the_daemon_takes_its_settings(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in CASES:
                objects = self.objects(path)
                [pod] = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "StatefulSet"]
                [main] = pod["containers"]
                self.assertEqual((pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]), (8463, True))
                self.assertEqual(main["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                           "capabilities": {"drop": ["ALL"]}})
                self.assertEqual([main[probe]["httpGet"]["path"] for probe in
                                  ("livenessProbe", "readinessProbe", "startupProbe")], ["/healthz", "/readyz", "/healthz"])
                [lines] = [each["data"]["tickwheeld.conf"] for each in objects if each["kind"] == "ConfigMap"]
                settings = {each["name"]: each.get("value", "") for each in main["env"]}
                self.assertEqual(set(re.findall(r"/etc/tickwheel/(\w+)/", " ".join(settings.values()))),
                                 {each["mountPath"].rsplit("/", 1)[1] for each in main["volumeMounts"]
                                  if each["mountPath"].startswith("/etc/tickwheel/")})
                with open(os.path.join(folder, "tickwheeld.conf"), "w", encoding="utf-8") as file:
                    file.write(lines)
                settings = {name: value.replace("$(POD_IP)", "10.1.2.3") for name, value in settings.items()
                            if not re.search(r"(TOKENS_FILE|TLS_\w+|SECRET_FILE|POD_IP|CLUSTER_LISTEN)$", name)}
                settings["TICKWHEEL_CONFIG"] = os.path.join(folder, "tickwheeld.conf")
                settings["TICKWHEEL_LISTEN_UNPROTECTED"] = "yes"  # the files with tokens are the cluster's
                done = subprocess.run([harness.find("tickwheeld"), "--check-config"], env=settings, capture_output=True,
                                      text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_cannot_work_is_refused(self):
        for values, why in (("", "Set exactly one of auth.tokens"),
                            ("auth.unprotected=true,auth.tokens=x", "Set exactly one of auth.tokens"),
                            ("auth.unprotected=true,replicas=2", "needs cluster.enabled"),
                            ("auth.unprotected=true,cluster.enabled=true", "needs cluster.brokers"),
                            ("auth.unprotected=true,cluster.enabled=true,cluster.brokers=k:9092", "needs cluster.existingSecret"),
                            ("auth.unprotected=true,config.data_folder=/x", "config.data_folder is set by the chart"),
                            ("auth.unprotected=true,replica=2", "replica"), ("auth.unprotected=true,replicas=0", "replicas")):
            done = helm("template", "shop", CHART, *(["--set", values] if values else []))
            self.assertNotEqual(done.returncode, 0, values)
            self.assertIn(why, done.stderr)

    def test_an_image_like_that_of_make_image(self):
        with open(os.path.join(ROOT, "packaging/container/Containerfile"), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            version = re.search(r"VERSION (\d+\.\d+\.\d+)", file.read())[1]
        [main] = [each["spec"]["template"]["spec"]["containers"][0] for each in self.objects(CASES[0])
                  if each["kind"] == "StatefulSet"]
        self.assertEqual(main["image"], f"tickwheeld:{version}")
        self.assertIn("USER 8463:8463", text)
        self.assertIn("/var/lib/tickwheel", [each["mountPath"] for each in main["volumeMounts"]])


if __name__ == "__main__":
    if not os.access(HELM, os.X_OK) and subprocess.run([os.path.join(ROOT, "scripts", "chart")], check=False).returncode:
        print("chart_test: skipped, there is neither helm nor go to build it with")
        sys.exit(77)
    if not python_tools.program("kubernetes-validate", VALIDATE, "python"):
        print("chart_test: skipped, kubernetes-validate cannot be had")
        sys.exit(77)
    unittest.main(verbosity=2)
