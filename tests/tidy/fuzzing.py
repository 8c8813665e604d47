"""The rules on what fuzzers begin with: their corpora, in the form that scripts/corpus writes, and their words: each field of
a request's body, and each word that a field may be."""

import os
import re
import subprocess

import rules
from tables import fields_of, openapi, resolved

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "scripts/corpus")
SCHEMAS = {
    "src/api/timers/dead_json_fuzz.dict": ("Redrive",),
    "src/api/queues/queues_json_fuzz.dict": ("QueueLease", "QueueAck", "QueueNack", "QueueExtend"),
    "src/api/json/timer_json_fuzz.dict": ("TimerCreate", "TimerPatch"),
    "src/api/json/timer_json_restore_fuzz.dict": ("Timer", "Run"),
}


def fuzz_corpora(root):
    """Each fuzz target has a corpus beside it, each corpus a target, and its text is the one that scripts/corpus writes."""
    targets = [path[:-2] for path in rules.files(root, "_fuzz.c")]
    corpora = [path[:-7] for path in rules.files(root, ".corpus")]
    wrong = [f"{path}.c: no corpus beside it" for path in targets if path not in corpora]
    wrong += [f"{path}.corpus: no target beside it" for path in corpora if path not in targets]
    done = subprocess.run([SCRIPT, "check", *[path + ".corpus" for path in corpora]], cwd=root, capture_output=True,
                          text=True, check=False)
    return wrong + done.stdout.splitlines() + done.stderr.splitlines()[:1]


def fuzz_words(root):
    """A fuzzer of bodies is given the words of the contract."""
    document, wrong = openapi(root), []
    if not document:
        return wrong
    for path, names in SCHEMAS.items():
        given = rules.read(root, path) if os.path.exists(os.path.join(root, path)) else ""
        for name in names:
            schema = resolved(document, document["components"]["schemas"].get(name, {}))
            words = (re.split("[.=]", field)[-1] for field in fields_of(schema, name))
            wrong += [f"{path}: lacks {word}" for word in words if f'\\"{word}\\"' not in given]
    return list(dict.fromkeys(wrong))
