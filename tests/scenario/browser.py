"""A real Chromium, through playwright-core: browser.mjs lists its commands."""
import json
import os
import select
import shutil
import subprocess
from pathlib import Path

import pytest

import leftovers
from egress_lab import NPM
from operators import IS_ROOT, SECONDS

CHROMIUM = shutil.which("chromium")
PLAYWRIGHT = NPM / "node_modules/playwright-core/index.js"
AXE = NPM / "node_modules/axe-core/axe.min.js"

needs_browser = pytest.mark.skipif(
    CHROMIUM is None or not PLAYWRIGHT.exists() or shutil.which("node") is None,
    reason="no chromium: Debian has it" if CHROMIUM is None else "playwright-core is not in build/npm: `make npm` brings it")


class Browser:
    def __init__(self):
        self.process = subprocess.Popen(
            # Whatever it starts, and however that is orphaned, goes with it.
            ["unshare", *([] if IS_ROOT else ["-U", "-r"]), "-p", "--mount-proc", "--fork", "--kill-child",
             "node", Path(__file__).with_name("browser.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PLAYWRIGHT": str(PLAYWRIGHT), "CHROMIUM": CHROMIUM, "PATIENCE_MS": str(SECONDS * 1000)})
        leftovers.LABS.append(self.process.pid)         # it serves several tests

    def __call__(self, op, **how):
        self.process.stdin.write(json.dumps({"do": op, **how}).encode() + b"\n")
        self.process.stdin.flush()
        # Its own patience ends first, and says with what.
        assert select.select([self.process.stdout], [], [], SECONDS + 30)[0], f"the browser does not answer to {op} {how}"
        line = self.process.stdout.readline()
        assert line, "the browser is gone"
        said = json.loads(line)
        assert "error" not in said, f"{op} {how}: {said['error']}"
        return said["ok"]

    def open(self, url, **how):
        self("open", url=url, **how)

    def press(self, *keys):
        for key in keys:
            self("press", key=key)

    def type(self, text):
        self("type", text=text)

    def click(self, what):
        self("click", what=what)

    def fill(self, what, text):
        self("fill", what=what, text=text)

    def text(self, what):
        return self("text", what=what)

    def texts(self, what):
        return self("texts", what=what)

    def count(self, what):
        return self("count", what=what)

    def see(self, what):
        self("see", what=what)

    def gone(self, what):
        self("gone", what=what)

    def until(self, js):
        self("until", js=js)

    def run(self, js):
        return self("run", js=js)

    def shot(self, path):
        self("shot", path=str(path))

    def axe(self, *only):
        """The faults that an independent accessibility checker finds."""
        return self("axe", source=AXE.read_text(), only=only)

    def problems(self):
        return self("problems")

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.stdout.close()
            leftovers.LABS.remove(self.process.pid)
