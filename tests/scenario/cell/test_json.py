"""Every command with --json prints one of two shapes: one document, or lines."""
import json
import re

from operators import TREE

PAGE = (TREE / "docs" / "json.md").read_text()

# What shows the shape of a command, in a project with an ended cell `fix` and a running one `job`.
# An MCP server without a tool.
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "none", "version": "1"}}
    if "id" in asked:
        result = about if asked["method"] == "initialize" else {"tools": []}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
TRIED = {
    # Before anything is changed.
    "rebuild": ["rebuild", "plan"],
    "ps": ["ps", "-a"], "events": ["events", "fix"], "why": ["why", "fix"], "budget": ["budget", "job"],
    "approvals": ["approvals", "-a"], "diff": ["diff", "fix"], "policy": ["policy", "show", "job"],
    "profile": ["profile", "list"], "capability": ["capability", "list"], "agent": ["agent", "list"], "env": ["env", "list"], "target": ["target", "list"],
    "assign": ["assign", "thinker", "common"], "secret": ["secret", "list"], "dispatch": ["dispatch", "thinker"],
    "dispatches": ["dispatches"], "audit": ["audit", "verify", "--all"], "image": ["image", "list"], "volume": ["volume", "list"], "cache": ["cache", "list"], "state": ["state", "list"], "vm": ["vm", "list"],
    "worker": ["worker", "list"],
    "store": None,              # test_store_copy.py has it: another database is needed
    "tools": ["tools", "check", "-p", "tools.yaml"], "doctor": ["doctor"], "tree": ["tree", "fix"], "review": ["review", "fix"], "run": ["run", "-q", "--timing", "--", "true"],
}


def shapes():
    """{command: shape}, as the page has them: of the first of its rows."""
    found = {}
    for names, shape in re.findall(r"^\| (`.*?) \| (document|lines) \|", PAGE, re.M):
        for command in re.findall(r"`(\w+)", names):
            found.setdefault(command, shape)
    return found


def test_the_page_names_every_command_that_has_json(operator):
    commands = re.findall(r"^  ([a-z]+) ", operator.cloister("help").ok(), re.M)
    has = {c for c in commands if re.search(r"^ +--json", operator.cloister("help", c).ok(), re.M)}
    assert has == set(shapes()) == set(TRIED)


def test_each_prints_its_shape(operator):
    project = operator.folder("project")
    operator.file("project/thinker.yaml", "name: thinker\ncommand: ['true']\n")
    operator.file("project/common.yaml", "name: common\nvalues: {A: b}\n")
    operator.file("project/server.py", SERVER)
    operator.file("project/tools.yaml", "version: 1\ntools: {servers: {none: {command: [python3, server.py], read: [.], folder: .}}}\n")
    operator.cloister("tools", "lock", "-p", "tools.yaml", cwd=project).ok()
    for kind, file in (("agent", "thinker.yaml"), ("env", "common.yaml")):
        registered = operator.cloister(kind, "register", "--json", file, cwd=project).ok()
        assert isinstance(json.loads(registered), dict)
    operator.run("-q", "--name", "fix", "-w", ".", "--allow", "a.example", "--", "sh", "-c",
                 "getent hosts b.example; echo 1 >\"$(printf 'n\\033[2Jew')\"", cwd=project)
    operator.kept |= {c["cell"] for c in operator.cells("-a")}
    operator.cloister("plan", "export", "-o", "plan", cwd=project).ok()
    operator.detach("--name", "job", "--allow", "a.example", "--", "sleep", "1000")
    for command, words in ((command, words) for command, words in TRIED.items() if words is not None):
        at = words.index("--") if "--" in words else len(words)
        said = operator.cloister(*words[:at], "--json", *words[at:], cwd=project)
        assert said.status == 0, (words, said)
        out = said.err if command == "run" else said.out
        assert all(" " <= c <= "~" or c == "\n" for c in out), (words, out)
        assert out == "" or out.endswith("\n"), (words, out)
        values = [json.loads(line) for line in out.splitlines()]
        if shapes()[command] == "lines":
            assert all(isinstance(value, dict) for value in values), (words, out)
        else:
            assert len(values) == 1 and isinstance(values[0], (list, dict)), (words, out)
    # A cell is called by its id everywhere.
    id = next(c["cell"] for c in operator.cells("-a") if c["name"] == "fix")
    for words in (["why", "fix"], ["events", "fix"]):
        first = operator.cloister(*words, "--json").ok().splitlines()[0]
        assert json.loads(first)["cell"] == id, words


def test_states_are_the_words_of_the_page(operator):
    words = re.findall(r"^\| `(\w+)` \|", PAGE.split("## States")[1].split("## Formats")[0], re.M)
    schema = json.loads((TREE / "share/openapi.schemas.json").read_text())
    assert words == schema["Cell"]["properties"]["state"]["enum"]
