#!/usr/bin/env python3
"""Goal: `make site` makes a site with every page, whose search finds them, whose links lead somewhere and whose pages load
nothing from elsewhere; a broken link fails it.

Method: scripts/site on this tree, read by a browser; and on small trees with one fault each. Skips
where MkDocs cannot be had.
"""

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import browser
import harness

SCRIPT = os.path.join(ROOT, "scripts", "site")
TOOLS = os.path.join(ROOT, "build", "site-tools")
PAGE = os.path.join("docs", "c.md")


def make(script, folder):
    return subprocess.run([script, folder], capture_output=True, text=True, timeout=600, check=False)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tickwheel-site-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        done = make(SCRIPT, os.path.join(cls.folder, "site"))
        if done.returncode and "No matching distribution" in done.stderr:
            print("site_test: skipped, MkDocs cannot be had")
            sys.exit(77)
        assert done.returncode == 0, done.stdout + done.stderr

    def path(self, *names):
        return os.path.join(self.folder, "site", *names)

    def test_every_page_is_there(self):
        done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True)
        pages = done.stdout.split()
        self.assertGreater(len(pages), 30)
        for page in pages:
            html = page.removesuffix("README.md") + "index.html" if page.endswith("README.md") else page[:-3] + ".html"
            self.assertTrue(os.path.exists(self.path(html)), html)

    def test_its_search_finds_a_page(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=self.path()))
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        reader = browser.Browser()
        self.addCleanup(reader.close)
        reader.open(f"http://127.0.0.1:{server.server_port}/index.html?q=backup_cron")
        harness.wait_until(lambda: "operations.html" in reader.run(
            "[...document.querySelectorAll('.md-search-result__link')].map(each => each.href).join(' ')"), 60, "a result")
        loaded = json.loads(reader.run("JSON.stringify(performance.getEntriesByType('resource').map(each => each.name))"))
        self.assertGreater(len(loaded), 3)
        self.assertEqual([url for url in loaded if not url.startswith(f"http://127.0.0.1:{server.server_port}/")], [])

    def small(self, page):
        """What the script says of a tree with this page."""
        with tempfile.TemporaryDirectory() as tree:
            for folder in ("scripts", "docs", "build"):
                os.mkdir(os.path.join(tree, folder))
            shutil.copy(SCRIPT, os.path.join(tree, "scripts", "site"))
            os.symlink(TOOLS, os.path.join(tree, "build", "site-tools"))
            for name, text in (("README.md", "# A\n"), ("docs/README.md", "# B\n"), (PAGE, page)):
                with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
                    file.write(text)
            for command in (["init", "-q"], ["add", "-A", "README.md", "docs", "scripts"]):
                subprocess.run(["git", *command], cwd=tree, check=True)
            done = make(os.path.join(tree, "scripts", "site"), os.path.join(tree, "build", "site"))
            return done.returncode, done.stdout + done.stderr

    def test_a_broken_link_fails_it(self):
        self.assertEqual(self.small("# C\n\n[a](../README.md) [s](../scripts/site)\n\n## D\n\n[d](#d)\n")[0], 0)
        for page, why in (("# C\n\n[x](none.md)\n", "none.md"), ("# C\n\n[x](../README.md#none)\n", "#none"),
                          ("# C\n\n[x](#none)\n", "#none"), ("# C\n\n[x](../build/site)\n", "build/site"),
                          ('# C\n\n<img src="https://shop.example/x.png">\n', "loads from elsewhere")):
            code, text = self.small(page)
            self.assertEqual((code, why in text), (1, True), page + text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
