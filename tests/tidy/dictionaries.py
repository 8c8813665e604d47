"""The rule on the words that fuzzers are given: each field of a request's body, and each word that a field may be."""

import json
import os
import re

from contract import fields_of
from rules import read
from tables import DOCUMENT, resolved

SCHEMAS = {
    "src/api/timers/dead_json_fuzz.dict": ("Redrive",),
    "src/api/queues/queues_json_fuzz.dict": ("QueueLease", "QueueAck", "QueueNack", "QueueExtend"),
    "src/api/json/timer_json_fuzz.dict": ("TimerCreate", "TimerPatch"),
}


def fuzz_words(root):
    """A fuzzer of bodies is given the words of the contract."""
    document = json.loads(read(root, DOCUMENT))
    wrong = []
    for path, names in SCHEMAS.items():
        given = read(root, path) if os.path.exists(os.path.join(root, path)) else ""
        for name in names:
            schema = resolved(document, document["components"]["schemas"].get(name, {}))
            words = (re.split("[.=]", field)[-1] for field in fields_of(schema, name))
            wrong += [f"{path}: lacks {word}" for word in words if f'\\"{word}\\"' not in given]
    return list(dict.fromkeys(wrong))
