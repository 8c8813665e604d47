"""The corpora of the fuzz targets, against the form that scripts/corpus writes."""

import os
import subprocess

import rules

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "scripts/corpus")


def fuzz_corpora(root):
    """Each fuzz target has a corpus beside it, each corpus a target, and its text is the one that scripts/corpus writes."""
    targets = [path[:-2] for path in rules.files(root, "_fuzz.c")]
    corpora = [path[:-7] for path in rules.files(root, ".corpus")]
    wrong = [f"{path}.c: no corpus beside it" for path in targets if path not in corpora]
    wrong += [f"{path}.corpus: no target beside it" for path in corpora if path not in targets]
    done = subprocess.run([SCRIPT, "check", *[path + ".corpus" for path in corpora]], cwd=root, capture_output=True,
                          text=True, check=False)
    return wrong + done.stdout.splitlines() + done.stderr.splitlines()[:1]
