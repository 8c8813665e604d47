"""The contract of all client libraries (clients/contract), with Client and with AsyncClient, on a real daemon."""

import asyncio
import base64
import glob
import itertools
import json
import os
import unittest
import uuid

from tickwheel import AsyncClient, Client, TickwheelError
from tickwheel.webhooks import is_valid

URL = os.environ["TICKWHEEL_URL"]


def fill_in(value, names):
    """`value` with ${name} replaced."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("${" + name + "}", text)
        return value
    if isinstance(value, list):
        return [fill_in(one, names) for one in value]
    if isinstance(value, dict):
        return {name: fill_in(one, names) for name, one in value.items()}
    return value


def as_json(value):
    """What a call returned, in the names of the API."""
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if hasattr(value, "existed"):
        return {"id": value.id, "existed": value.existed, **({"error": value.error.body | {
            "type": value.error.type}} if value.error else {})}
    return getattr(value, "json", value)


def find(value, path):
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else value[part]
    return value


class Contract(unittest.TestCase):
    maxDiff = None

    def check(self, expected, seen, where):
        """Everything that is expected is there; there may be more."""
        if isinstance(expected, dict):
            self.assertIsInstance(seen, dict, where)
            for name, value in expected.items():
                self.assertIn(name, seen, where)
                self.check(value, seen[name], f"{where}.{name}")
        elif isinstance(expected, list):
            self.assertEqual(len(expected), len(seen), f"{where}: {seen}")
            for i, value in enumerate(expected):
                self.check(value, seen[i], f"{where}[{i}]")
        else:
            self.assertEqual(expected, seen, where)

    async def run_step(self, call, step, names, where):
        given = fill_in(step["with"], names)
        try:
            seen = as_json(await call(step["do"], given))
        except TickwheelError as error:
            self.assertIn("error", step, f"{where}: {error!r}")
            timer = getattr(error, "timer", None)
            self.check(fill_in(step["error"], names), {**getattr(error, "body", {}), "type": error.type,
                       **({"timer": timer.json} if timer else {})}, where)
            return
        self.assertNotIn("error", step, f"{where}: {seen}")
        if "expect" in step:
            self.check(fill_in(step["expect"], names), seen, where)
        for name, path in step.get("save", {}).items():
            names[name] = str(find(seen, path))

    async def run_all(self, call):
        files = sorted(glob.glob(os.path.join(os.environ["TICKWHEEL_CONTRACT"], "*.json")))
        self.assertTrue(files)
        for path in files:
            with open(path, encoding="utf-8") as file:
                cases = json.load(file)
            for case in cases:
                with self.subTest(case["name"]):
                    names = {"run": uuid.uuid4().hex[:12]}
                    for i, step in enumerate(case["steps"]):
                        await self.run_step(call, step, names, f"{case['name']}, step {i + 1}, {step['do']}")

    # How a step is called; the arguments that have no place of their own are fields.
    @staticmethod
    def arguments(do, given):
        given = dict(given) if isinstance(given, dict) else given
        for fields in (given, given.get("patch")) if isinstance(given, dict) else ():
            if fields and "except" in fields:  # a word of the language
                fields["except_"] = fields.pop("except")
        if do == "create":
            return (given.pop("targets", None) or given.pop("target"),), given
        if do == "put":
            return (given.pop("key"), given.pop("targets", None) or given.pop("target")), given
        if do == "change":
            patch = given.pop("patch")
            return (), {**given, **patch}
        if do == "complete":
            return (given.pop("event"),), given
        if do == "complete_many":
            return (given.pop("events"),), given
        if do == "batch":
            return (given["timers"],), {}
        if do == "dead_delete_one":
            return (given["id"],), {}
        if do in ("queue", "peek", "queue_pause", "queue_resume"):
            return (given.pop("queue"),), given
        if do in ("target_pause", "target_resume", "target_reset"):
            return (given.pop("target"),), given
        if do == "flow_set":
            return (given.pop("key"), given.pop("limits")), given
        if do == "named_target_set":
            return (given.pop("name"), given.pop("definition")), given
        if do in ("named_target_get", "named_target_remove"):
            return (given.pop("name"),), given
        if do in ("calendar", "calendar_put", "calendar_delete"):
            return (given.pop("calendar"),), given
        if do in ("answer_ack", "answer_nack", "answer_extend"):
            return (given.pop("url"),), given
        if do == "lease":
            return (given.pop("queue"),), given
        if do == "metrics":
            return (), {}
        if do in ("list", "preview"):
            words = {"flow_key": "flow", "except": "except_"}
            return (), {words.get(name, name): value for name, value in given.items()}
        if do in ("backfill", "backfill_count"):
            span = {"start": given.pop("from"), "end": given.pop("to")}
            return (), {**given, **span}
        if do in ("ack", "nack", "extend"):
            return (given.pop("queue"), given.pop("receipts")), given
        return (), given

    NAMES = {"dead_list": "dead", "dead_redrive": "redrive", "dead_delete": "delete_dead",
             "dead_delete_one": "delete_dead_letter", "queue_pause": "pause_queue", "queue_resume": "resume_queue",
             "flow_set": "set_flow", "flow_remove": "remove_flow", "flow_pause": "pause_flow", "flow_resume": "resume_flow",
             "target_pause": "pause_target", "target_resume": "resume_target", "target_reset": "reset_target",
             "named_target_get": "named_target", "named_target_set": "set_named_target",
             "named_target_rotate": "rotate_named_target",
             "named_target_remove": "remove_named_target", "named_targets_reseal": "reseal_named_targets", "token_keys_rotate": "rotate_token_keys",
             "calendar_put": "put_calendar", "calendar_delete": "delete_calendar",
             "cluster_drain": "drain_node", "cluster_undrain": "undrain_node",
             "maintenance_begin": "begin_maintenance", "maintenance_end": "end_maintenance"}

    @staticmethod
    def value_of(do, given, value):
        """The texts of metrics change; a step asks whether they have one."""
        return given["has"] in value if do == "metrics" else value

    def special(self, do, given):
        if do == "verify":
            return is_valid(given["secret"], given["headers"], base64.b64decode(given["body_base64"]))
        import httpx
        return httpx.post(URL + "/_faults", json=given).json()

    def test_a_bare_number_is_no_duration(self):
        with Client(URL) as client:
            for call in (lambda: client.create("queue:a", after=30), lambda: client.create("queue:a", every=1.5),
                         lambda: client.create("queue:a", after="1h", retry={"base": 5}), lambda: client.lease("a", wait=5),
                         lambda: client.create("queue:a", after="1h", late={"drop_after": 5}), lambda: client.touch("a", after=1),
                         lambda: client.nack("a", [], delay=1), lambda: client.extend("a", [], lease=30)):
                with self.assertRaisesRegex(TypeError, "is no duration"):
                    call()

    def test_client(self):
        with Client(URL, pause=0.001) as client:
            async def call(do, given):
                if do in ("verify", "faults"):
                    return self.special(do, given)
                take = given.pop("take", None) if do == "events" else None
                positional, named = self.arguments(do, given)
                value = getattr(client, self.NAMES.get(do, do))(*positional, **named)
                value = self.value_of(do, given, value)
                return list(itertools.islice(value, take)) if hasattr(value, "__next__") else value

            asyncio.run(self.run_all(call))

    def test_async_client(self):
        async def run():
            async with AsyncClient(URL, pause=0.001) as client:
                async def call(do, given):
                    if do in ("verify", "faults"):
                        return self.special(do, given)
                    take = given.pop("take", None) if do == "events" else None
                    positional, named = self.arguments(do, given)
                    value = getattr(client, self.NAMES.get(do, do))(*positional, **named)
                    if not hasattr(value, "__anext__"):
                        return self.value_of(do, given, await value)
                    found = []
                    async for one in value:
                        found.append(one)
                        if len(found) == take:
                            await value.aclose()
                            break
                    return found

                await self.run_all(call)

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
