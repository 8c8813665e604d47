#!/usr/bin/env python3
"""Makes a golden data folder of the present format, format-N.tar.gz: a backup of a daemon that has timers of every kind and
state, and told.json, what each of them says when it is asked.

    TEST_BUILD=build/dev tests/golden/make.py

For a new format only. What is there already stays as it is: it stands for the folders of those who
have not upgraded yet. The due timers are due at once, the others in the year 2100.
"""

import base64
import gzip
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness

FORMAT = 10
FLAGS = ("--partitions", "3", "--retain", "3650d")
FAR = 4102444800000  # 2100-01-01
GOLDEN_PORT = 9  # discard: the test sends its webhooks elsewhere by queue


def kinds():
    """Name and body of each, all far away."""
    plain = {"at": FAR, "target": f"http://127.0.0.1:{GOLDEN_PORT}/x"}
    yield "plain", plain
    for number in range(8):
        yield f"payload-{number}", dict(plain, at=FAR + number, payload={"n": number, "s": "ä€𝄞"})
    yield "null payload", dict(plain, payload=None)
    yield "body", dict(plain, body_base64=base64.b64encode(bytes(range(256))).decode(),
                       content_type="application/octet-stream")
    yield "headers", dict(plain, headers={"X-One": "1", "X-Two": "zwei"})
    yield "method", dict(plain, method="DELETE")
    yield "labels", dict(plain, labels={"team": "checkout", "größe": "XL"})
    yield "key", dict(plain, key="order-42")
    yield "long key", dict(plain, key="k" * 200)
    yield "watch", dict(plain, watch=["order:42", "customer:7"])
    yield "retry", dict(plain, retry={"max_attempts": 3, "base": "2s", "cap": "1m", "timeout": "5s",
                                         "give_up_after": "1w"})
    yield "every", dict(plain, every="1h", count=5)
    yield "every until", dict(plain, every="1d", until="2101-01-01T00:00:00Z")
    yield "cron", {"cron": "0 12 1 1 *", "target": plain["target"]}
    yield "cron zone", {"cron": "0 30 2 1 6 *", "timezone": "Europe/Berlin", "dst": "skip",
                        "target": plain["target"]}
    yield "late", dict(plain, late={"drop_after": "5m"})
    yield "spread", dict(plain, key="spread", spread={"window": "60s"})
    yield "queue", dict(plain, target="queue:work")
    yield "reports", dict(plain, on_dead={"target": "queue:failed"}, on_success={"target": plain["target"]})
    yield "all", dict(plain, key="all", labels={"a": "b"}, watch=["e"], payload=[1, 2.5, "x"],
                      headers={"X": "y"}, retry={"max_attempts": 2})


def create(daemon, body, **headers):
    status, _, timer = daemon.call("POST", "/v1/timers", body, headers)
    assert status == 201, (body, timer)
    return timer["id"]


def populate(daemon):
    ids = {name: create(daemon, body) for name, body in kinds()}
    plain = dict(next(kinds())[1])
    ids["idempotent"] = create(daemon, plain, **{"Idempotency-Key": "once"})
    ids["moved"] = create(daemon, dict(plain, key="moved"))
    assert daemon.call("PATCH", f"/v1/timers/{ids['moved']}", {"at": FAR + 5000})[0] == 200
    ids["cancelled"] = create(daemon, dict(plain, key="cancelled"))
    assert daemon.call("DELETE", f"/v1/timers/{ids['cancelled']}")[0] == 200
    for name, target in (("fired", "queue:done"), ("dead", "queue:dead")):
        ids[name] = create(daemon, {"at": "1970-01-01T00:00:01Z", "target": target, "payload": name})
        status, _, lease = daemon.call("POST", f"/v1/queues/{target[6:]}/lease",
                                       {"max": 1, "wait": "10s"})
        assert status == 200 and len(lease["items"]) == 1, lease
        receipts = {"receipts": [lease["items"][0]["receipt"]]}
        if name == "fired":
            assert daemon.call("POST", "/v1/queues/done/ack", receipts)[0] == 200
        else:
            status, _, answer = daemon.call("POST", "/v1/queues/dead/nack",
                                            dict(receipts, dead=True, error="no such order"))
            assert status == 200, answer
    ids["runs"] = create(daemon, {"every": "10ms", "target": "queue:runs", "retry": {"max_attempts": 1}})
    for way, more in (("ack", {}), ("nack", {"error": "no such report"})):
        status, _, lease = daemon.call("POST", "/v1/queues/runs/lease", {"max": 1, "wait": "10s"})
        assert status == 200 and len(lease["items"]) == 1, lease
        receipts = {"receipts": [lease["items"][0]["receipt"]]}
        assert daemon.call("POST", f"/v1/queues/runs/{way}", dict(receipts, **more))[0] == 200
    assert daemon.call("PATCH", f"/v1/timers/{ids['runs']}", {"at": FAR})[0] == 200
    reported = create(daemon, {"at": "1970-01-01T00:00:01Z", "target": "queue:reported",
                               "on_success": {"target": "queue:reports"}})
    status, _, lease = daemon.call("POST", "/v1/queues/reported/lease", {"max": 1, "wait": "10s"})
    assert daemon.call("POST", "/v1/queues/reported/ack", {"receipts": [lease["items"][0]["receipt"]]})[0] == 200
    status, _, lease = daemon.call("POST", "/v1/queues/reports/lease", {"max": 1, "wait": "10s"})
    assert lease["items"][0]["payload"]["id"] == reported, lease
    ids["report"] = lease["items"][0]["id"]
    assert daemon.call("POST", "/v1/queues/reports/ack", {"receipts": [lease["items"][0]["receipt"]]})[0] == 200
    for name, body in (("paused", {"note": "ä"}), ("paused until", {"until": FAR - 1})):
        ids[name] = create(daemon, dict(plain, at="1970-01-01T00:00:03Z", target="queue:golden"))
        assert daemon.call("POST", f"/v1/timers/{ids[name]}/pause", body)[0] == 200
    for number in range(4):  # due, and nobody has pulled them
        ids[f"due-{number}"] = create(
            daemon, {"at": f"1970-01-01T00:00:02.{number:03}Z", "target": "queue:golden", "payload": {"due": number}})
    return ids


def tell(daemon, ids):
    told = {}
    for name, timer in ids.items():
        status, _, body = daemon.call("GET", f"/v1/timers/{timer}")
        assert status in (200, 410), body
        told[name] = {"status": status, "timer": body}
    return told


def pack(folder, path):
    """Files in order, without times and owners."""
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 9, out, 0) as packed, \
            tarfile.open(fileobj=packed, mode="w") as archive:
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def main():
    path = os.path.join(HERE, f"format-{FORMAT}.tar.gz")
    if os.path.exists(path):
        sys.exit(f"{path} is there already")
    room = tempfile.mkdtemp(prefix="tickwheel-golden-")
    try:
        with harness.Daemon(os.path.join(room, "data"), *FLAGS, "--backup-folder",
                            os.path.join(room, "backups")) as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            told = tell(daemon, populate(daemon))
            status, _, backup = daemon.call("POST", "/v1/admin/backup")
            assert status == 201, backup
        with open(os.path.join(backup["folder"], "told.json"), "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "partitions": 3, "live": backup["timers"], "timers": told},
                      file, indent=1, ensure_ascii=False)
            file.write("\n")
        pack(backup["folder"], path)
    finally:
        shutil.rmtree(room)


if __name__ == "__main__":
    main()
