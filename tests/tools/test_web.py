"""The dashboard's modules: each can be read, and has what the others import from it."""
import shutil
import subprocess
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "web"

# Linking does not run them: they need a browser.
LINK = """
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { SourceTextModule } from "node:vm";

const known = new Map();
function load(path) {
	if (!known.has(path))
		known.set(path, new SourceTextModule(readFileSync(path, "utf8"), { identifier: path }));
	return known.get(path);
}
for (const path of process.argv.slice(1)) {
	const m = load(resolve(path));
	if (m.status === "unlinked")
		await m.link((name, from) => load(resolve(dirname(from.identifier), name)));
}
console.log(known.size);
"""


def link(*modules):
    return subprocess.run(["node", "--no-warnings", "--experimental-vm-modules", "--input-type=module", "-e", LINK, *modules],
                          capture_output=True, text=True, timeout=60)


pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="no node")


def test_modules_link():
    modules = sorted(WEB.glob("*.js"))
    done = link(*modules)
    assert (done.returncode, done.stdout) == (0, f"{len(modules)}\n"), done.stderr


@pytest.mark.parametrize("text", [
    'import { absent } from "./b.js";\n', 'import { present } from "./b.js";\nfunction present() {}\n', "const = 1;\n"])
def test_a_mistake_is_found(tmp_path, text):
    (tmp_path / "b.js").write_text("export const present = 1;\n")
    (tmp_path / "a.js").write_text(text)
    assert "SyntaxError" in link(tmp_path / "a.js").stderr
