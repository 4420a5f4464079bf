"""docs/tools.md, typed from top to bottom: each block with `file=` is written, each command runs, and prints what the page
shows."""
import json
import re
import shlex

import pytest
import yaml

from egress_lab import needs_npm_module
from operators import TREE, as_one
from tools_lab import Bench, copy_package

PAGE = TREE / "docs" / "tools.md"
SERVER = "@modelcontextprotocol/server-github"
pytestmark = needs_npm_module(SERVER)
TOKEN = "ghp_" + "a1B2c3D4" * 4 + "0000"


def blocks():
    """The tutorial's: (word, attributes, text)."""
    text = PAGE.read_text().split("## Tutorial")[1].split("\n## ")[0]
    for info, body in re.findall(r"^```(\S+[^\n]*)\n(.*?)^```$", text, re.M | re.S):
        word, *rest = info.split()
        yield word, dict((r.split("=", 1) if "=" in r else (r, True)) for r in rest), body


@pytest.fixture
def bench(operator):
    bench = Bench(operator, "project")
    (bench.folder / "server.py").unlink()
    copy_package(SERVER, bench.folder / "node_modules", set())
    return bench


def shows(page, said):
    """Each line of PAGE is in SAID, in order; "..." stands for any text at its begin or end, alone for any lines."""
    at = 0
    for line in page.splitlines():
        if line == "...":
            continue
        found = said.find(line.strip(".") + ("\n" if not line.endswith("...") else ""), at)
        assert found >= 0, (line, said)
        at = found


@as_one
def test_the_tutorial(bench):
    said = ""
    for word, how, body in blocks():
        if "file" in how:
            bench.operator.file(f"project/{how['file']}", body.replace("@TOKEN@", TOKEN))
        elif "lock" in how:
            entry = yaml.safe_load(body)
            bench.scope(how["lock"], entry.pop("scope"), **entry)
        elif word == "sh":
            done = bench.operator.cloister(*shlex.split(body)[1:], cwd=bench.folder)
            bench.operator.kept |= {cell["cell"] for cell in bench.operator.cells("-a")}
            assert done.status == (1 if "fails" in how else 0), done
            said = done.out
        elif word == "output":
            shows(body, said)
    files = "".join(p.read_text() for p in bench.folder.glob("*.*") if p.is_file())
    files += (bench.folder / ".mcp.json").read_text()
    assert TOKEN not in files and "${GITHUB_PERSONAL_ACCESS_TOKEN}" in files
    # Those of the page are as it says, and nothing else is wrong with them.
    findings = [f for f in json.loads(bench.tools("check", "--json").out)["findings"] if f["level"] == "error"]
    assert not [f for f in findings if f["tool"] == "get_issue"], findings
    assert {f["rule"] for f in findings if f["tool"] == "create_issue"} == {"read-only-wrote", "outside-scope"}
