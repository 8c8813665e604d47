"""The steps of generators_test.py with the client that openapi-python-client makes."""

import datetime
import sys

from tickwheel_client import AuthenticatedClient, models
from tickwheel_client.api.queues import ack_items, lease_items
from tickwheel_client.api.timers import create_timer, create_timers, delete_timer, get_timer, list_timers, patch_timer
from tickwheel_client.types import File

url, token, queue = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)

labels = models.TimerCreateLabels.from_dict({"queue": queue})
made = create_timer.sync(client=client, body=models.TimerCreate(
    after="1h", target=f"queue:{queue}", key=queue, payload={"order": 42}, labels=labels,
    retry=models.RetryPolicy(max_attempts=3, base="2s")))
assert isinstance(made, models.Timer) and made.state == "scheduled" and made.retry.max_attempts == 3, made

changed = patch_timer.sync(made.id, client=client, body=models.TimerPatch(after="2h"), if_match='"1"')
assert isinstance(changed, models.Timer) and changed.version == 2 and changed.due > made.due, changed
late = patch_timer.sync(made.id, client=client, body=models.TimerPatch(after="2h"), if_match='"1"')
assert isinstance(late, models.Problem) and late.status == 412, late

page = list_timers.sync(client=client, label=[f"queue:{queue}"], limit=10)
assert [timer.id for timer in page.timers] == [made.id] and page.next_ is None, page

assert delete_timer.sync(made.id, client=client).state == "cancelled"
gone = get_timer.sync(made.id, client=client)
assert isinstance(gone, models.GoneProblem) and gone.timer.state == "cancelled", gone

now = datetime.datetime.now(datetime.timezone.utc)
create_timer.sync(client=client, body=models.TimerCreate(at=now, target=f"queue:{queue}", payload={"order": 43}))
leased = lease_items.sync(queue, client=client, body=models.QueueLease(wait="10s", lease="1m"))
assert leased.items[0].payload == {"order": 43}, leased
done = ack_items.sync(queue, client=client, body=models.QueueAck(receipts=[leased.items[0].receipt]))
assert done.ok == 1 and done.results[0] == "ok", done
