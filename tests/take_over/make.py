#!/usr/bin/env python3
"""Makes format-9.tar.xz: the data folder of a daemon of format 9 that was killed, with timers of every kind and state in the
tables, in the log, and in both; told.json, the answers of that version after its next start; and one of its tables as the daemon mends it.

    TEST_BUILD=FOLDER tests/take_over/make.py

The build is one of version 0.2.0 or older, which has RocksDB. Time is virtual, so that the answers are right for ever.
"""

import hashlib
import io
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness

PATH = os.path.join(HERE, "format-9.tar.xz")
FLAGS = ("--partitions", "5", "--retain", "3650d", "--clock", "virtual=2027-03-01T00:00Z")
TENANTS = ("shop", "bank", "-")
SHUT = "http://127.0.0.1:9/hook"  # discard: nobody listens there


def token_of(tenant):
    return hashlib.sha256(f"take-over {tenant}".encode()).hexdigest()


def write_tokens(path):
    """The same tokens each time: the test makes them, too."""
    with open(path, "w", encoding="utf-8") as file:
        for tenant in TENANTS:
            digest = hashlib.sha256(token_of(tenant).encode()).hexdigest()
            file.write(f"token {tenant} schedule,read,admin,payload sha256:{digest}\n")


class Client:
    """One tenant's, which keeps the ids of what it makes."""

    def __init__(self, daemon, tenant):
        self.daemon, self.tenant, self.ids = daemon, tenant, {}

    def ask(self, method, path, body=None, **headers):
        headers["Authorization"] = f"Bearer {token_of(self.tenant)}"
        return self.daemon.call(method, path, body, headers)

    def do(self, method, path, body=None, **headers):
        status, _, answer = self.ask(method, path, body, **headers)
        assert status in (200, 201), (method, path, body, status, answer)
        return answer

    def make(self, name, **body):
        headers = body.pop("headers_of_request", {})
        if "targets" not in body:
            body.setdefault("target", "queue:later")
        if not {"after", "at", "every", "cron"} & set(body):
            body["after"] = "90d"
        self.ids[name] = self.do("POST", "/v1/timers", body, **headers)["id"]
        return self.ids[name]

    def lease(self, queue, count=1):
        items = []
        while len(items) < count:
            items += self.do("POST", f"/v1/queues/{queue}/lease", {"max": count - len(items), "wait": "10s"})["items"]
        return items

    def advance(self, **how):
        answer = self.do("POST", "/v1/clock/advance", how)
        assert answer["done"], answer


def make_kinds(client):
    """One of each kind, months away."""
    for number in range(20):
        client.make(f"plain {number}", after=f"{30 + number}d", payload={"n": number, "s": "ä€𝄞" * number})
    client.make("text", payload=None, headers={"X-One": "1"}, target=SHUT, method="PUT")
    client.make("bytes", body_base64="AAEC/w==", content_type="application/octet-stream")
    client.make("labels", labels={"team": "checkout", "größe": "XL"})
    client.make("key", key="order-42", watch=["order:42", "customer:7"])
    client.make("request", headers_of_request={"Idempotency-Key": "once"})
    client.make("key and request", key="order-43", headers_of_request={"Idempotency-Key": "twice"})
    client.make("retry", retry={"max_attempts": 3, "base": "2s", "cap": "1m", "timeout": "5s", "give_up_after": "1w"})
    client.make("every", every="1h", count=50, key="hourly")
    client.make("cron", cron="0 30 2 1 6 *", timezone="Europe/Berlin", dst="skip")
    client.make("late", late={"drop_after": "5m"})
    client.make("flow", flow={"key": "imports", "concurrency": 2})
    client.make("reports", on_dead={"target": "queue:dead-letters"}, on_success={"target": SHUT})
    client.make("several", targets=["queue:a", "queue:b", SHUT], key="several")


def make_states(client):
    """One of each state."""
    client.make("paused")
    client.do("POST", f"/v1/timers/{client.ids['paused']}/pause", {"note": "ä"})
    client.make("paused until")
    client.do("POST", f"/v1/timers/{client.ids['paused until']}/pause", {"until": "2028-01-01T00:00:00Z"})
    for name in ("moved", "touched", "touched often"):
        client.make(name, key=name.replace(" ", "-"))
    client.do("PATCH", f"/v1/timers/{client.ids['moved']}", {"after": "200d", "payload": [1]})
    client.do("POST", f"/v1/timers/{client.ids['touched']}/touch", {"after": "100d"})
    for day in range(70):
        client.do("POST", "/v1/keys/touched-often/touch", {"after": f"{100 + day}d"})
    client.make("cancelled", key="cancelled")
    client.do("DELETE", f"/v1/timers/{client.ids['cancelled']}")
    client.make("over by its event", watch=["paid"])
    client.do("POST", "/v1/watch/paid/complete", {})
    client.make("fired", after="0s", target="queue:done", payload="fired")
    client.make("dead", after="0s", target="queue:dead", payload="dead", labels={"l": "d"})
    client.make("retrying", after="0s", target="queue:again", retry={"max_attempts": 9, "base": "30d", "cap": "30d"})
    client.make("refused", after="0s", target=SHUT, retry={"max_attempts": 9, "base": "30d", "cap": "30d",
                                                         "give_up_after": "300d"})
    client.make("dead at once", after="0s", target=SHUT, retry={"max_attempts": 1}, key="dead-at-once")
    client.make("parts", after="0s", targets=["queue:a", "queue:b", SHUT], retry={"max_attempts": 1})
    client.make("runs", every="1m", target="queue:runs", retry={"max_attempts": 1}, key="runs")
    client.make("leased", after="0s", target="queue:leased", payload="leased")
    for number in range(4):
        client.make(f"due {number}", after=f"{number}ms", target="queue:due", payload={"due": number})


def live_on(client):
    """What happens to them when time passes."""
    client.advance(by="1s")
    client.do("POST", "/v1/queues/done/ack", {"receipts": [client.lease("done")[0]["receipt"]]})
    receipt = client.lease("dead")[0]["receipt"]
    client.do("POST", "/v1/queues/dead/nack", {"receipts": [receipt], "dead": True, "error": "no such order"})
    client.do("POST", "/v1/queues/again/nack", {"receipts": [client.lease("again")[0]["receipt"]], "error": "not yet"})
    client.do("POST", "/v1/queues/a/ack", {"receipts": [client.lease("a")[0]["receipt"]]})
    for way, more in (("ack", {}), ("nack", {"error": "no such report"}), ("ack", {})):
        client.advance(by="1m")
        receipts = {"receipts": [client.lease("runs")[0]["receipt"]]}
        client.do("POST", f"/v1/queues/runs/{way}", dict(receipts, **more))
    client.lease("leased")


def hold(client):
    client.do("POST", "/v1/queues/mail/pause", {"note": "the mail server moves"})
    client.do("POST", "/v1/targets/https%3A%2F%2Fshop.example/pause", {"note": "until Monday"})
    client.do("PUT", "/v1/flows/imports", {"concurrency": 4})
    client.do("PUT", "/v1/calendars/de", ["2027-12-25", "2027-12-26"])
    client.make("held", after="0s", target="queue:mail", payload="held")
    client.make("on working days", cron="0 9 * * *", timezone="Europe/Berlin", **{"except": ["calendar:de"]})


def touch(client):
    """The tables have these beside their rows."""
    for name in ("plain 7", "plain 8"):
        client.do("POST", f"/v1/timers/{client.ids[name]}/touch", {"after": "333d"})
    client.do("POST", f"/v1/timers/{client.ids['plain 8']}/touch", {"after": "334d"})


def make_later(client):
    """What only the log has, about timers that the tables have, too."""
    client.make("later", key="later", labels={"when": "later"})
    client.do("PATCH", f"/v1/timers/{client.ids['plain 3']}", {"after": "10d", "labels": {"changed": "yes"}})
    client.do("DELETE", f"/v1/timers/{client.ids['plain 4']}")
    client.do("POST", f"/v1/timers/{client.ids['plain 5']}/touch", {"after": "300d"})
    client.do("POST", f"/v1/timers/{client.ids['plain 6']}/pause", {})
    client.do("POST", f"/v1/timers/{client.ids['paused']}/resume", {})
    client.do("POST", "/v1/queues/b/ack", {"receipts": [client.lease("b")[0]["receipt"]]})
    client.do("POST", "/v1/queues/printer/pause", {})


def tell(client):
    """(method, path, status, answer) of all that it can be asked for."""
    paths = [f"/v1/timers/{one}" for one in client.ids.values()]
    paths += [f"/v1/timers/{client.ids[name]}/runs" for name in ("runs", "every")]
    paths += [f"/v1/keys/{key}/timer" for key in ("order-42", "order-43", "hourly", "several", "moved", "touched",
                                                 "touched-often", "cancelled", "later", "runs", "dead-at-once")]
    paths += ["/v1/timers?limit=1000", "/v1/timers?label=team:checkout", "/v1/timers?state=paused", "/v1/dead",
              "/v1/dead/groups", "/v1/queues", "/v1/queues/mail", "/v1/queues/due/peek", "/v1/flows", "/v1/calendars",
              "/v1/calendars/de", "/v1/schedules", "/v1/timers/count", "/v1/admin/maintenance", "/v1/clock"]
    return [[path, *client.ask("GET", path)[::2]] for path in paths]


def mend(room, data, tokens):
    """(name, contents) of the largest table as the daemon mends it when its properties are damaged: it has none then, nor the
    id by which the manifest knows it."""
    copy = os.path.join(room, "mended")
    shutil.copytree(data, copy)
    name = max((name for name in os.listdir(copy) if name.endswith(".sst")), key=lambda one: os.path.getsize(os.path.join(copy, one)))
    path = os.path.join(copy, name)
    with open(path, "r+b") as file:
        at = file.read().find(b"rocksdb.block.based")
        file.seek(at)
        file.write(bytes(16))
    with start(copy, tokens) as daemon:
        assert f"{name} was damaged at byte" in daemon.output()
        daemon.signal(signal.SIGKILL)
    with open(path, "rb") as file:
        return name, file.read()


def pack(folder, told, mended):
    with tarfile.open(PATH, "w:xz", preset=9) as archive:
        for root, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                path = os.path.join(root, name)
                if name in ("spare", "RESERVE", "probe") or "deliveries" in root:
                    continue
                with open(path, "rb") as file:
                    add(archive, os.path.relpath(path, folder), file.read())
        add(archive, "mended-" + mended[0], mended[1])
        add(archive, "told.json", json.dumps(told, indent=1, ensure_ascii=False).encode())


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    archive.addfile(info, io.BytesIO(data))


def start(data, tokens, *flags):
    daemon = harness.Daemon(data, *FLAGS, "--tokens-file", tokens, *flags)
    harness.wait_until(daemon.is_ready, 20, "ready")
    return daemon


def main():
    if os.path.exists(PATH):
        sys.exit(f"{PATH} is there already")
    room = tempfile.mkdtemp(prefix="tickwheel-golden-")
    try:
        tokens, data = os.path.join(room, "tokens"), os.path.join(room, "data")
        write_tokens(tokens)
        with start(data, tokens, "--backup-folder", os.path.join(room, "backups")) as daemon:
            clients = [Client(daemon, tenant) for tenant in TENANTS[:2]]
            for client in clients:
                make_kinds(client)
                make_states(client)
                live_on(client)
                hold(client)
            for change in (touch, make_later):
                # writes the tables; a backup has the second as its name
                harness.wait_until(lambda: clients[0].ask("POST", "/v1/admin/backup")[0] == 201, 20, "a backup")
                for client in clients:
                    change(client)
            clients[0].do("PUT", "/v1/admin/maintenance", {"note": "the warehouse moves"})
            daemon.signal(signal.SIGKILL)
        shutil.copytree(data, os.path.join(room, "copy"))
        with start(os.path.join(room, "copy"), tokens) as daemon:  # without the leases, which a stop ends
            told = {}
            for client in clients:
                client.daemon = daemon
                told[client.tenant] = {"ids": client.ids, "answers": tell(client)}
        pack(data, told, mend(room, data, tokens))
    finally:
        shutil.rmtree(room)
    print(f"{PATH}: {os.path.getsize(PATH)} bytes")


if __name__ == "__main__":
    main()
