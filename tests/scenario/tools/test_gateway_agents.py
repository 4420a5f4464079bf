"""Real agents call tools behind the gateway: each is told of it in its own way, in the cell only."""
import json
import re

import pytest

from egress_lab import needs_npm
from operators import TREE, only_user

HERE = TREE / "tests/scenario"
RULES = """egress:
  - allow: tool:**
  - allow: resource:**
  - allow: prompt:**
"""
PROMPT = 'use <<test.echo {"word": "parsnip"}>>'


@pytest.mark.parametrize("name, words, key", [
    pytest.param("claude", ["--dangerously-skip-permissions", "-p"], ["ANTHROPIC_API_KEY"], marks=needs_npm("claude")),
    pytest.param("codex", ["exec", "--skip-git-repo-check", "-m", "a-model"], ["OPENAI_API_KEY"], marks=needs_npm("codex")),
    pytest.param("gemini", ["-p"], ["GEMINI_API_KEY"], marks=needs_npm("gemini")),
    pytest.param("opencode", ["run"], ["ANTHROPIC_API_KEY"], marks=needs_npm("opencode"))])
@only_user      # each starts an agent
def test_an_agent_calls_a_tool(online, name, words, key):
    operator = online.operator
    servers = operator.folder("servers", {"server.py": (HERE / "tools_server.py").read_text()})
    tools = {"servers": {"test": {"command": ["/usr/bin/python3", str(servers / "server.py"), str(servers)],
                                  "read": [str(servers)]}}}
    file = operator.file("tools.yaml", f"version: 1\ntools: {json.dumps(tools)}\n{RULES}")
    operator.env["XDG_CONFIG_HOME"] = str(operator.folder("config"))
    operator.env["PATH"] = f"{online.lab.folder / 'npm/node_modules/.bin'}:{operator.env['PATH']}"
    operator.cloister("secret", "add", *key, input="of-the-tests-of-the-tests").ok()
    done = operator.run("--name", "agent", "--keep", "--tools", str(file),
                        # It would load their definitions only after a search.
                        "-e", "ENABLE_TOOL_SEARCH=false", name, *words, PROMPT,
                        cwd=operator.folder("project"), seconds=120)
    operator.kept |= {cell["cell"] for cell in operator.cells("-a")}
    print(done.out)
    assert re.search(r"the tool said: .*parsnip", done.out, re.S), done
    texts = [path.read_text(errors="replace") for path in operator.home.rglob("*") if path.is_file()]
    assert not any("tools.cloister.internal" in text for text in texts), "a file of the operator's has the server"


EDITOR = """
import json, pathlib
for file in (".config/Code/User/mcp.json", ".vscode-server/data/User/mcp.json"):
    path = pathlib.Path.home() / file
    print(path.read_text().strip() if path.exists() else "none")
"""


def test_vs_code_has_a_file(operator):
    """In the form of its documentation, in the user's folders of the desktop and of the server."""
    text = {"version": 1, "tools": {"servers": {"test": {"command": ["true"]}}}, "egress": [{"allow": "tool:**"}]}
    file = operator.file("tools.yaml", json.dumps(text))
    read = ["python3", "-c", EDITOR]
    files = [json.loads(line) for line in operator.run("--tools", str(file), "--", *read).ok().splitlines()]
    assert files == [{"servers": {"cloister": {"type": "http", "url": "http://tools.cloister.internal/mcp"}}}] * 2
    assert operator.run("--", *read).ok().split() == ["none"] * 2
    assert not list(operator.home.rglob("mcp.json"))
