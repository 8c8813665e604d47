"""The steps of generators_test.py with the client that openapi-generator makes for Python."""

import datetime
import sys

import openapi_client
from openapi_client import QueueAck, QueueLease, RetryPolicy, TimerCreate, TimerPatch

url, token, queue = sys.argv[1:]
client = openapi_client.ApiClient(openapi_client.Configuration(host=url, access_token=token))
timers, queues = openapi_client.TimersApi(client), openapi_client.QueuesApi(client)

made = timers.create_timer(TimerCreate(
    after="1h", target=f"queue:{queue}", key=queue, payload={"order": 42}, labels={"queue": queue},
    retry=RetryPolicy(max_attempts=3, base="2s")))
assert made.state == "scheduled" and made.retry.max_attempts == 3, made

changed = timers.patch_timer(made.id, TimerPatch(after="2h"), if_match='"1"')
assert changed.version == 2 and changed.due > made.due, changed
try:
    timers.patch_timer(made.id, TimerPatch(after="2h"), if_match='"1"')
    raise AssertionError("an old version was changed")
except openapi_client.ApiException as problem:
    assert problem.status == 412 and problem.data.type == "/problems/version-mismatch", problem

page = timers.list_timers(label=[f"queue:{queue}"], limit=10)
assert [timer.id for timer in page.timers] == [made.id] and page.next is None, page

assert timers.delete_timer(made.id).state == "cancelled"
try:
    timers.get_timer(made.id)
    raise AssertionError("a cancelled timer is there")
except openapi_client.ApiException as gone:
    assert gone.status == 410 and gone.data.timer.state == "cancelled", gone

now = datetime.datetime.now(datetime.timezone.utc)
timers.create_timer(TimerCreate(at=now, target=f"queue:{queue}", payload={"order": 43}))
leased = queues.lease_items(queue, QueueLease(wait="10s", lease="1m"))
assert leased.items[0].payload == {"order": 43}, leased
done = queues.ack_items(queue, QueueAck(receipts=[leased.items[0].receipt]))
assert done.ok == 1 and done.results[0] == "ok", done
