#!/usr/bin/env python3
"""Goal: no target leaves a server that it installed enabled or running, a server that was there before stays as it is,
and each target installs only what it needs. Method: scripts/install-deps with stand-ins for dpkg, apt-get, systemctl and
update-rc.d, which keep a list of installed packages and log what is asked of them.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "install-deps")

# What stands in for the system; $DEPS is the folder with the list and the log.
STANDINS = {
    "id": "echo 0\n",
    "dpkg-query": """
        for each in $(sort -u "$DEPS/installed"); do
            case " $* " in *" $each "*) echo "ii  $each" ;; *"Package}\\n ") echo "ii  $each" ;; esac
        done
        """,
    "dpkg": """
        echo "/usr/share/doc/$2"
        case $2 in
        prometheus|redis-server|nginx-light) echo "/lib/systemd/system/$2.service"; echo "/etc/init.d/$2" ;;
        postgresql-common) echo /lib/systemd/system/postgresql@.service; echo /lib/systemd/system/postgresql.service ;;
        prometheus-collectors) echo /lib/systemd/system/collect.timer ;;
        esac
        """,
    "apt-get": """
        [ "$APT_FAILS" != yes ] || { echo prometheus >>"$DEPS/installed"; exit 100; }
        [ -x "$DEPS_ROOT/usr/sbin/policy-rc.d" ] && "$DEPS_ROOT/usr/sbin/policy-rc.d" || echo "forbidden $?" >>"$DEPS/log"
        for each in "$@"; do case $each in -*|install|update|Dpkg*) ;; *) echo "$each" >>"$DEPS/installed" ;; esac; done
        case " $* " in *" prometheus "*) echo prometheus-collectors >>"$DEPS/installed" ;; esac
        case " $* " in *" postgresql "*) echo postgresql-common >>"$DEPS/installed" ;; esac
        """,
    "systemctl": 'echo "systemctl $*" >>"$DEPS/log"\n',
    "update-rc.d": 'echo "update-rc.d $*" >>"$DEPS/log"\n',
}


class Dependencies(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        bin_folder = os.path.join(self.folder, "bin")
        os.makedirs(bin_folder)
        os.makedirs(os.path.join(self.folder, "usr/sbin"))
        for name, text in STANDINS.items():
            path = os.path.join(bin_folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n" + text)
            os.chmod(path, 0o755)
        self.environment = dict(os.environ, DEPS=self.folder, DEPS_ROOT=self.folder,
                                PATH=bin_folder + os.pathsep + os.environ["PATH"])

    def write(self, name, lines):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def run_script(self, purpose, **more):
        return subprocess.run([SCRIPT, purpose], env=dict(self.environment, **more), capture_output=True, text=True,
                              check=False)

    def test_a_new_server_is_disabled_and_an_old_one_is_not(self):
        self.write("installed", ["nginx-light"])
        done = self.run_script("bench")
        self.assertEqual(done.returncode, 0, done.stderr)
        log = self.read("log")
        self.assertIn("forbidden 101", log)
        disabled = {line.split()[-1] for line in log if line.startswith("systemctl") and "disable" in line}
        self.assertEqual(disabled, {"redis-server.service", "postgresql.service"})
        self.assertIn("update-rc.d redis-server disable", log)
        self.assertEqual([line for line in log if "nginx" in line], [])
        self.assertEqual(os.listdir(os.path.join(self.folder, "usr/sbin")), [])

    def test_units_of_dependencies_are_disabled(self):
        self.write("installed", [])
        self.assertEqual(self.run_script("test").returncode, 0)
        disabled = {line.split()[-1] for line in self.read("log") if line.startswith("systemctl") and "disable" in line}
        self.assertEqual(disabled, {"prometheus.service", "redis-server.service", "postgresql.service", "collect.timer"})

    def test_a_failed_install_leaves_nothing_enabled(self):
        self.write("installed", [])
        self.assertEqual(self.run_script("test", APT_FAILS="yes").returncode, 1)
        self.assertIn("systemctl --quiet disable prometheus.service", self.read("log"))

    def test_nothing_is_done_when_nothing_is_missing(self):
        self.write("installed", [])
        self.assertEqual(self.run_script("build").returncode, 0)
        self.write("log", [])
        self.assertEqual(self.run_script("build").returncode, 0)
        self.assertEqual(self.read("log"), [])

    def test_a_cluster_needs_no_tools_of_the_tests(self):
        for log, servers in (("kafka", {"maven"}), ("postgres", {"postgresql"})):
            self.write("installed", [])
            self.assertEqual(self.run_script(log).returncode, 0)
            installed = set(self.read("installed"))
            self.assertTrue({"liblz4-dev", "cmake"} <= installed)
            self.assertEqual(installed & {"prometheus", "redis-server", "nats-server", "chromium", "libcmocka-dev",
                                          "rabbitmq-server", "valgrind", "postgresql", "maven"} - servers, set())
        with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
            rules = dict(re.findall(r"^([a-z-]+):[^\n]*\n((?:\t.*\n)+)", file.read(), flags=re.M))
        self.assertIn("install-deps $(LOG)", rules["cluster"])
        self.assertEqual([name for name, lines in rules.items() if "install-deps brokers" in lines],
                         ["test-brokers", "bench-brokers"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
