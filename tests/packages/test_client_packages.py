"""The clients as packages: the same sources give the same bytes, and what is installed from them can be used."""
import os
import shutil
import sys

import pytest

from packing import TREE, run, sums

NO_NETWORK = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
JS = """
import { Client, Sandbox } from 'cloister-client';
const client = new Client({ socket: '/nowhere' });
await Sandbox.create({ agent: 'x', client }).catch((error) => console.log(error.code));
"""
PYTHON = """
import cloister
try:
    cloister.Sandbox.create("x", cloister.Client(socket="/nowhere"))
except cloister.CloisterError as error:
    print(error.code)
"""


@pytest.mark.parametrize("kind, pattern", [("npm", "*.tgz"), ("wheel", "*.whl")])
def test_the_same_again_and_installed(tmp_path, kind, pattern):
    if shutil.which("npm" if kind == "npm" else "pyproject-build") is None:
        pytest.skip(f"there is nothing to make a {kind} with")
    env = {**os.environ, **NO_NETWORK, "HOME": str(tmp_path), "PYTHON": sys.executable}
    for name, mask in (("one", "022"), ("two", "077")):
        run("sh", "-c", f"umask {mask}; exec tools/clients.sh {kind} {tmp_path / name}", cwd=TREE, env=env)
    assert sums(tmp_path / "one", pattern) == sums(tmp_path / "two", pattern) != {}
    (package,) = (tmp_path / "one").glob(pattern)
    clean = tmp_path / "clean"
    clean.mkdir()
    if kind == "npm":
        run("npm", "install", "--offline", "--no-audit", "--no-fund", package, cwd=clean, env=env)
        (clean / "use.mjs").write_text(JS)
        said = run("node", "use.mjs", cwd=clean, env=env)
        assert (clean / "node_modules/cloister-client/index.d.ts").exists()
    else:
        run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target", clean, package, env=env)
        said = run(sys.executable, "-c", PYTHON, cwd=clean, env=env)
        assert (clean / "cloister/py.typed").exists()
    assert said == "unreachable\n"
