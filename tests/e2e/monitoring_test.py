#!/usr/bin/env python3
"""The alert rules fire when they should, and only then; each names its section of the runbooks; rules and board name only
metrics that a real daemon exports, with labels that those have; each query of the board has data. Method: promtool plays
series to the rules, healthy ones and, for each alert, the same with a fault. Prometheus, with the settings of the compose
file, scrapes a daemon at work and answers the board's queries. Grafana itself does not run.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness
from daemon_case import DaemonCase

RULES = os.path.join(ROOT, "packaging", "prometheus", "tickwheel.rules.yml")
BOARD = os.path.join(ROOT, "packaging", "grafana", "tickwheel.json")
RUNBOOKS = os.path.join(ROOT, "docs", "runbooks.md")
SETTINGS = os.path.join(ROOT, "packaging", "container", "prometheus.yml")
PROMTOOL = shutil.which("promtool")
PROMETHEUS_SERVER = shutil.which("prometheus")
RATE_INTERVAL = "10s"  # of a scrape each second

# A daemon without trouble, a sample each minute for three hours: promtool's notation. Histograms and counters grow.
HEALTHY = {
    "up": "1x180",
    "tickwheel_ready": "1x180",
    'tickwheel_oldest_overdue_seconds{kind="webhook"}': "2x180",
    'tickwheel_oldest_overdue_seconds{kind="broker"}': "0x180",
    'tickwheel_oldest_overdue_seconds{kind="queue"}': "20x180",
    'tickwheel_oldest_overdue_seconds{kind="catch_up"}': "400-2x180",  # it catches up
    'tickwheel_lateness_seconds_bucket{stage="schedule",le="0.002"}': "0+600x180",
    'tickwheel_lateness_seconds_bucket{stage="schedule",le="2"}': "0+600x180",
    'tickwheel_lateness_seconds_bucket{stage="schedule",le="+Inf"}': "0+600x180",
    'tickwheel_lateness_seconds_bucket{stage="transfer",le="+Inf"}': "0+600x180",
    # A target fails for hours: what waits for it is not slow.
    'tickwheel_lateness_seconds_bucket{stage="breaker",le="0.002"}': "0+300x180",
    'tickwheel_lateness_seconds_bucket{stage="breaker",le="+Inf"}': "0+600x180",
    "tickwheel_timers_dead_total": "0x60 3x120",
    "tickwheel_dead_dropped_total": "0x180",
    "tickwheel_breakers_open": "0x60 1x5 0x115",
    'tickwheel_webhook_attempts_total{class="2xx"}': "0+600x180",
    'tickwheel_webhook_attempts_total{class="5xx"}': "0+30x180",
    'tickwheel_webhook_attempts_total{class="none"}': "0+30x180",
    "tickwheel_disk_free_bytes": "50000000000-1000000x180",
    'tickwheel_refused_total{reason="disk-full"}': "0x180",
    'tickwheel_refused_total{reason="overloaded"}': "0+1x180",
    'tickwheel_refused_total{reason="connections"}': "0x180",
    'tickwheel_refused_total{reason="unauthenticated"}': "0+600x180",
    "tickwheel_storage_failures_total": "0x180",
    "tickwheel_storage_lost": "0x180",
    "tickwheel_missed_found_total": "0x180",
    "tickwheel_partitions_unreadable": "0x180",
    "tickwheel_storage_damaged_blocks": "0x180",
    "tickwheel_storage_lost_writes": "0x180",
    "tickwheel_records_corrupt_total": "0x180",
    "process_open_fds": "100x180",
    "process_max_fds": "10240x180",
    "tickwheel_build_info": "1x180",
    "tickwheel_backups_failed_total": "0x180",
    "tickwheel_maintenance": "0x60 1x30 0x90",
    "tickwheel_sources_still": "0x180",
    "tickwheel_cluster_nodes": "3x180",
    "tickwheel_cluster_planner": "1x180",
    "tickwheel_cluster_partitions_planned": "8x180",
    "tickwheel_cluster_partitions_owned": "8x180",
    "tickwheel_cluster_partitions_restoring": "0x60 2x10 0x110",
    "tickwheel_cluster_partitions_broken": "0x180",
    "tickwheel_cluster_behind_records": "10x180",
    "tickwheel_cluster_trims_failed_total": "0x180",
    "tickwheel_cluster_sweeps_failed_total": "0x180",
}

# What a fault changes, and the alerts that fire at the end. Of an alert with several causes each is played.
FAULTS = [
    ("TickwheelDown", {"up": "1x170 0x10"}),
    ("TickwheelNotReady", {"tickwheel_ready": "1x170 0x10"}),
    ("TickwheelLate", {'tickwheel_oldest_overdue_seconds{kind="webhook"}': "2x160 61x20"}),
    ("TickwheelLate", {'tickwheel_oldest_overdue_seconds{kind="broker"}': "2x160 300x20"}),
    ("TickwheelSlow", {'tickwheel_lateness_seconds_bucket{stage="schedule",le="0.002"}': "0+500x180"}),
    ("TickwheelQueueLate", {'tickwheel_oldest_overdue_seconds{kind="queue"}': "20x160 301x20"}),
    ("TickwheelCatchUpSlow", {'tickwheel_oldest_overdue_seconds{kind="catch_up"}': "0+10x180"}),
    ("TickwheelDeadRising", {"tickwheel_timers_dead_total": "0x170 0+2x10"}),
    ("TickwheelDeadDropped", {"tickwheel_dead_dropped_total": "0x170 1x10"}),
    ("TickwheelBreakerOpen", {"tickwheel_breakers_open": "0x160 1x20"}),
    ("TickwheelWebhooksFail", {'tickwheel_webhook_attempts_total{class="5xx"}': "0+700x180"}),
    ("TickwheelWebhooksFail", {'tickwheel_webhook_attempts_total{class="none"}': "0+700x180"}),
    ("TickwheelDiskLow", {"tickwheel_disk_free_bytes": "2000000000x180"}),
    ("TickwheelDiskLow", {"tickwheel_disk_free_bytes": "50000000000-250000000x180"}),
    ("TickwheelDiskFull", {'tickwheel_refused_total{reason="disk-full"}': "0x178 5x2"}),
    ("TickwheelStorageFails", {"tickwheel_storage_failures_total": "0x178 1x2"}),
    ("TickwheelStorageFails", {"tickwheel_storage_lost": "0x178 1x2"}),
    ("TickwheelMissedFound", {"tickwheel_missed_found_total": "0x178 3x2"}),
    ("TickwheelDamaged", {"tickwheel_partitions_unreadable": "0x178 1x2"}),
    ("TickwheelDamaged", {"tickwheel_storage_damaged_blocks": "0x178 1x2"}),
    ("TickwheelDamaged", {"tickwheel_storage_lost_writes": "1x180"}),
    ("TickwheelDamaged", {"tickwheel_records_corrupt_total": "0x178 1x2"}),
    ("TickwheelOverloaded", {'tickwheel_refused_total{reason="overloaded"}': "0x160 0+120x20"}),
    ("TickwheelOverloaded", {'tickwheel_refused_total{reason="connections"}': "0x160 0+120x20"}),
    ("TickwheelFilesShort", {"process_open_fds": "100x160 9500x20"}),
    ("TickwheelBackupFailed", {"tickwheel_backups_failed_total": "0x150 1x30"}),
    ("TickwheelMaintenanceLong", {"tickwheel_maintenance": "0x60 1x120"}),
    ("TickwheelSourceStill", {"tickwheel_sources_still": "0x170 1x10"}),
    ("TickwheelLogBroken", {"tickwheel_cluster_partitions_broken": "0x178 1x2"}),
    ("TickwheelPartitionsUnowned", {"tickwheel_cluster_partitions_owned": "8x170 7x10"}),
    ("TickwheelPlannerMissing", {"tickwheel_cluster_planner": "1x170 0x10"}),
    ("TickwheelCopyBehind", {"tickwheel_cluster_partitions_restoring": "0x140 1x40"}),
    ("TickwheelCopyBehind", {"tickwheel_cluster_behind_records": "10x140 20000x40"}),
    ("TickwheelTrimFails", {"tickwheel_cluster_trims_failed_total": "0x170 1x10"}),
    ("TickwheelTrimFails", {"tickwheel_cluster_sweeps_failed_total": "0x170 1x10"}),
    # Maintenance explains why timers are late.
    ("TickwheelMaintenanceLong", {"tickwheel_maintenance": "0x60 1x120",
                                  'tickwheel_oldest_overdue_seconds{kind="webhook"}': "0x60 0+60x120",
                                  'tickwheel_oldest_overdue_seconds{kind="queue"}': "0x60 0+60x120"}),
]

# Names of PromQL that are no metrics, and no functions, which have a bracket behind them.
KEYWORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"}
PROMETHEUS = {"up": {"job", "instance"}}  # the metrics that Prometheus itself adds


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def labelled(series):
    """The name of a series with the labels of a scrape."""
    name, _, labels = series.partition("{")
    return f'{name}{{job="tickwheel",instance="one"{"," + labels if labels else "}"}'


def rule_test(faults, alert):
    """A test of promtool: with these faults, this alert fires at the end, and no other."""
    series = {**HEALTHY, **faults}
    return {
        "interval": "1m",
        "input_series": [{"series": labelled(name), "values": values} for name, values in series.items()],
        "promql_expr_test": [{
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": "179m",
            "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []}]}


def expressions_of_rules():
    """The expressions of the rules, each on one line."""
    return [" ".join(found[1].split()) for found in re.finditer(
        r"\n        expr: (?:>\n)?(.*?)\n        (?:for|labels): ", read(RULES), re.S)]


def expressions_of_board():
    board = json.loads(read(BOARD))
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    for variable, value in (("$job", "tickwheel"), ("$instance", ".+"), ("$__rate_interval", RATE_INTERVAL)):
        found = [one.replace(variable, value) for one in found]
    return found


def metrics_of(expression):
    """The metrics that an expression names, each with the labels of its selector."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    bare = re.sub(r"\b(by|on|without|ignoring)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\[[^\]]*\]", "", bare)
    found = []
    for name in re.finditer(r"\b([a-zA-Z_:][\w:]*)\b\s*(\(|\{([^}]*)\})?", re.sub(r"\{[^}]*\}", keep_labels, bare)):
        if name[2] != "(" and name[1] not in KEYWORDS:
            found.append((name[1], set((name[3] or "").split())))
    return found


def keep_labels(selector):
    """Of a selector only the names of its labels."""
    return "{" + " ".join(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector[0])) + "}"


def variables_of_board():
    """The queries of its variables: (metric, label)."""
    return [re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
            for variable in json.loads(read(BOARD))["templating"]["list"] if variable["type"] == "query"]


class MonitoringTest(unittest.TestCase):
    def promtool(self, *arguments):
        if not PROMTOOL:
            self.skipTest("promtool is not installed: scripts/install-deps test")
        result = subprocess.run([PROMTOOL, *arguments], text=True, capture_output=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def write(self, name, content):
        folder = tempfile.mkdtemp(prefix="tickwheel-monitoring-")
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)  # JSON is YAML
        return path

    # proves: alerts
    def test_alerts_fire_on_their_faults_only(self):
        self.promtool("check", "rules", RULES)
        tests = [rule_test({}, None)] + [rule_test(faults, alert) for alert, faults in FAULTS]
        self.promtool("test", "rules", self.write("test.yml", {
            "rule_files": [os.path.abspath(RULES)], "evaluation_interval": "1m", "tests": tests}))

    def test_each_alert_has_a_fault_and_a_runbook(self):
        text = read(RULES)
        alerts = re.findall(r"- alert: (\w+)\n", text)
        self.assertEqual(len(set(alerts)), len(alerts))
        self.assertEqual(set(alerts), {alert for alert, _ in FAULTS})
        self.assertEqual(len(expressions_of_rules()), len(alerts))
        self.assertEqual(re.findall(r"runbook_url: \S.*?/ui/runbooks#(\w+)\"?\n", text, re.S), [alert.lower() for alert in alerts])
        self.assertEqual(re.findall(r"^## (.*)$", read(RUNBOOKS), re.M), alerts)

    # proves: alerts
    def test_promtool_parses_the_board(self):
        found = expressions_of_board()
        self.assertGreater(len(found), 30)
        self.promtool("check", "rules", self.write("board.yml", {"groups": [{"name": "board", "rules": [
            {"record": f"board:{number}", "expr": one} for number, one in enumerate(found)]}]}))

    # proves: alerts
    def test_rules_and_board_name_what_the_daemon_exports(self):
        data = tempfile.mkdtemp(prefix="tickwheel-monitoring-")
        self.addCleanup(shutil.rmtree, data)
        with harness.Daemon(data) as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            page = daemon.call("GET", "/metrics")[2]
        exported = dict(PROMETHEUS)
        for line in page.splitlines():
            if not line.startswith("#"):
                name, _, labels = line.rpartition(" ")[0].partition("{")
                exported.setdefault(name, {"job", "instance"}).update(re.findall(r'(\w+)="', labels))
        named = [one for expression in expressions_of_rules() + expressions_of_board() for one in metrics_of(expression)]
        named += [one for query, _ in variables_of_board() for one in metrics_of(query)]
        self.assertGreater(len(named), 60)
        for name, labels in named:
            self.assertIn(name, exported)
            self.assertLessEqual(labels, exported[name], name)

    def test_names_are_found_in_expressions(self):
        self.assertEqual(metrics_of('sum by (x) (rate(a_total{j="$k, {", l=~"m"}[5m])) / b > 1 unless on (i) c == 1'),
                         [("a_total", {"j", "l"}), ("b", set()), ("c", set())])


@unittest.skipUnless(PROMETHEUS_SERVER, "prometheus is not installed: scripts/install-deps test")
class BoardTest(DaemonCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.mkdtemp(prefix="tickwheel-prometheus-")
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(RULES, folder)
        settings = os.path.join(folder, "prometheus.yml")
        with open(settings, "w", encoding="utf-8") as file:
            file.write("global: {scrape_interval: 1s, evaluation_interval: 1s}\n" +
                       read(SETTINGS).replace('"tickwheeld:8463"', f'"127.0.0.1:{self.daemon.port}"'))
        prometheus = harness.Program([PROMETHEUS_SERVER, f"--config.file={settings}", f"--storage.tsdb.path={folder}/data",
                                      "--web.listen-address=127.0.0.1:0"])
        self.addCleanup(prometheus.close)
        prometheus.find_in_output("Server is ready")
        self.url = f"http://127.0.0.1:{prometheus.find_port(r'Listening on.* address=127.0.0.1:([0-9]+)')}/api/v1/"

    def ask(self, path, **query):
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def has_data(self, expression):
        return any(math.isfinite(float(found["value"][1])) for found in self.ask("query", query=expression)["result"])

    def work(self):
        """A webhook, an item that is acknowledged, and one that stays; a refused request."""
        self.create(after=0)
        for _ in range(2):
            self.create(target="queue:mail", after=0)
        leased = self.call(200, "POST", "/v1/queues/mail/lease", {"wait": "5s"})[1]["items"]
        self.call(200, "POST", "/v1/queues/mail/ack", {"receipts": [item["receipt"] for item in leased]})
        self.call(422, "POST", "/v1/timers", {"target": "gopher://a"})

    # proves: alerts
    def test_each_query_of_the_board_has_data(self):
        silent = expressions_of_board()

        def all_have_data():
            self.work()
            silent[:] = [one for one in silent if not self.has_data(one)]
            return not silent
        try:
            harness.wait_until(all_have_data, 60, "data for each query")
        except TimeoutError:
            self.fail("without data: " + "\n".join(silent))
        for query, label in variables_of_board():
            self.assertTrue(self.ask(f"label/{label}/values", **{"match[]": query.replace("$job", "tickwheel")}), query)
        rules = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
        self.assertEqual({rule["health"] for rule in rules}, {"ok"})
        self.assertEqual(len(rules), len(expressions_of_rules()))


if __name__ == "__main__":
    unittest.main()
