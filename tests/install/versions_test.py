#!/usr/bin/env python3
"""Goal: the tree has one version.

Method: the version of CMakeLists.txt is compared with each place that repeats it: the changelog's newest section, the
library's header, the client libraries, and the documents that name it.
"""

import os
import re
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FULL, SHORT = r"(\d+\.\d+\.\d+)", r"(\d+\.\d+)"

# File, pattern; the pattern's group is the version, or its first two numbers.
PLACES = (
    ("CHANGELOG.md", rf"\A.*?^## \[{FULL}\]"),
    ("CHANGELOG.md", rf"libtickwheel\.so\.{SHORT}"),
    ("README.md", rf"find_package\(tickwheel {SHORT}"),
    ("lib/include/tickwheel/version.h", rf'TW_VERSION "{FULL}"'),
    ("lib/include/tickwheel/version.h", rf"libtickwheel\.so\.{SHORT}"),
    ("clients/go/client.go", rf'\bversion\s*= "{FULL}"'),
    ("clients/go/README.md", rf"@v{FULL}"),
    ("clients/java/pom.xml", rf"<artifactId>tickwheel-client</artifactId>\s*<version>{FULL}<"),
    ("clients/java/README.md", rf"<artifactId>tickwheel-client</artifactId>\s*<version>{FULL}<"),
    ("clients/java/src/main/java/tickwheel/Transport.java", rf"tickwheel-java/{FULL}"),
    ("clients/python/pyproject.toml", rf'^version = "{FULL}"'),
    ("clients/python/src/tickwheel/__init__.py", rf'__version__ = "{FULL}"'),
    ("clients/typescript/package.json", rf'"version": "{FULL}"'),
    ("clients/typescript/src/client.ts", rf'const version = "{FULL}"'),
    ("clients/typescript/README.md", rf"tickwheel-{FULL}\.tgz"),
)


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Version(unittest.TestCase):
    def test_every_place_has_it(self):
        version = re.search(rf"project\(tickwheel VERSION {FULL} ", text("CMakeLists.txt"))[1]
        for path, pattern in PLACES:
            with self.subTest(path=path, pattern=pattern):
                found = re.search(pattern, text(path), re.M | re.S)
                self.assertTrue(found, "the version is not there")
                self.assertIn(found[1], (version, version.rpartition(".")[0]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
