"""The examples of README.md run, one after the other in one namespace, against a real daemon. Those that need a database run
in transaction_test.py."""

import os
import re
import unittest

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "README.md")


class ReadmeTest(unittest.TestCase):
    def test_examples(self):
        with open(README, encoding="utf-8") as file:
            examples = [one for one in re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL) if "in_transaction" not in one]
        self.assertGreater(len(examples), 4)
        names = {}
        for number, example in enumerate(examples, 1):
            source = example.replace("http://localhost:8463", os.environ["TICKWHEEL_URL"])
            exec(compile(source, f"example {number}", "exec"), names)  # pylint: disable=exec-used
        self.assertEqual(names["failed"], [])


if __name__ == "__main__":
    unittest.main()
