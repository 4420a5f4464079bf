"""`cloister tools import` and `learn`, and the checks of contrib in a clean clone."""
import json
import shutil

import pytest
import yaml

from operators import TREE, as_one
from tools_lab import SERVER, Bench

TOKEN = "ghp_" + "a1B2c3D4" * 4 + "0000"
REMOTE = "abcdefghijklmnop"


@pytest.fixture
def bench(operator):
    return Bench(operator)


def policy(bench):
    return yaml.safe_load((bench.folder / "cloister.yaml").read_text())


def file_of(bench, name=".mcp.json", **servers):
    bench.operator.file(f"bench/{name}", json.dumps({"mcpServers": servers}))


GITHUB = {"command": "node", "args": ["it.js"], "env": {"GITHUB_TOKEN": TOKEN, "LEVEL": "quiet"}}


def test_keys_are_moved(bench):
    file_of(bench, GitHub=GITHUB, far={"type": "http", "url": "https://mcp.example.com/mcp",
                                       "headers": {"Authorization": f"Bearer {REMOTE}"}})
    bench.tools("import").sentence("GITHUB_TOKEN, FAR_TOKEN look like credentials", "--yes", "--no-secrets")
    assert not (bench.folder / "cloister.yaml").exists()
    said = bench.tools("import", "--yes").ok()
    assert TOKEN not in said and REMOTE not in said
    assert said.splitlines() == ["GITHUB_TOKEN: moved into the vault", "FAR_TOKEN: moved into the vault",
                                 "cloister.yaml has 2 more servers: state what each may read, write and reach, then run "
                                 "`cloister tools lock`"]
    assert policy(bench)["tools"]["servers"] == {
        "github": {"command": ["node", "it.js"], "env": {"LEVEL": "quiet"}, "policy": {"secrets": ["GITHUB_TOKEN"]}},
        "far": {"url": "https://mcp.example.com/mcp",
                "policy": {"egress": [{"allow": "mcp.example.com"}], "secrets": ["FAR_TOKEN"]}}}
    text = (bench.folder / ".mcp.json").read_text()
    assert TOKEN not in text and REMOTE not in text
    assert json.loads(text)["mcpServers"]["far"]["headers"] == {"Authorization": "Bearer ${FAR_TOKEN}"}
    listed = json.loads(bench.operator.cloister("secret", "list", "--json").ok())
    assert {s["name"] for s in listed} == {"GITHUB_TOKEN", "FAR_TOKEN"}
    assert "has it already" in bench.tools("import", "--yes").ok()


@as_one
def test_a_project_works_after_import(bench):
    """Before and after the lock is written.  The server gets the folder of its script."""
    bench.operator.file("bench/cloister.yaml", "version: 1\negress: []\n")
    file_of(bench, it={"command": "python3", "args": ["server.py", "plain"]}, other={"command": "x", "args": ["plain", "/etc"]})
    bench.tools("import").ok()
    assert policy(bench)["tools"]["servers"]["it"] == {"command": ["python3", "server.py", "plain"], "folder": "."}
    assert policy(bench)["tools"]["servers"]["other"] == {"command": ["x", "plain", "/etc"]}
    bench.operator.cloister("policy", "trust", cwd=bench.folder).ok()
    assert "cloister.yaml names the lock now" in bench.tools("lock", "it").ok()
    assert policy(bench)["tools"]["lock"] == "tools.lock.yaml"
    bench.operator.cloister("policy", "trust", cwd=bench.folder).ok()
    (bench.folder / "tools.lock.yaml").unlink()
    done = bench.operator.cloister("policy", "trust", cwd=bench.folder)
    done.sentence("the lock 'tools.lock.yaml' does not exist: `cloister tools lock` writes it")
    bench.operator.run("--", "true", cwd=bench.folder).sentence("`cloister run -p cloister.yaml -- COMMAND`")


def imported(bench, **server):
    """What the policy has of it."""
    (bench.folder / "cloister.yaml").unlink(missing_ok=True)
    file_of(bench, it=server)
    bench.tools("import").ok()
    return policy(bench)["tools"]["servers"]["it"]


@as_one
def test_a_script_outside_the_project(bench):
    """The server's cell has it, and what it loads."""
    package, home = bench.operator.folder("elsewhere/it/dist").parent, bench.operator.home
    shutil.copy(SERVER, package / "dist/server.py")
    shutil.copy(SERVER, home / "server.py")
    for file in (package / "dist/server.py", home / "server.py"):
        bench.operator.own(file)
    run = {"command": "python3", "args": ["-B", str(package / "dist/server.py"), "plain"]}
    assert imported(bench, **run) == {"command": ["python3", *run["args"]], "read": [str(package / "dist")]}
    bench.operator.file("elsewhere/it/package.json", "{}")
    assert imported(bench, **run)["read"] == [str(package)]
    bench.tools("lock").ok()
    assert list(bench.lock["servers"]["it"]["tools"]) == ["get_it"]
    # The home folder has much more.
    run["args"][1] = str(home / "server.py")
    assert imported(bench, **run)["read"] == [run["args"][1]]
    bench.tools("lock").ok()
    # What every cell has, data, and a script that is not there.
    for args in (["/usr/bin/env"], ["x", str(home / "server.py")], ["/nowhere/x.py"]):
        assert "read" not in imported(bench, command="python3", args=args)


@as_one
def test_a_program_of_the_operator_s_own(bench):
    """As nvm and uv install them: it is on the operator's PATH, and its interpreter is beside it."""
    tool = bench.operator.folder("home/.tool")
    for name in ("bin", "lib"):
        bench.operator.folder(f"home/.tool/{name}")
    bench.operator.file("home/.tool/lib/server.py", SERVER.read_text())
    for name, text in (("it", f"#!/usr/bin/env its-python\nimport runpy, sys\nsys.argv[0] = '{tool}/lib/server.py'\n"
                              "runpy.run_path(sys.argv[0], run_name='__main__')\n"), ("its-python", "#!/bin/sh\nexec python3 \"$@\"\n")):
        bench.operator.file(f"home/.tool/bin/{name}", text).chmod(0o755)
    file_of(bench, it={"command": "it", "args": ["plain"]})
    bench.tools("import", env={"PATH": f"{tool}/bin:/usr/bin:/bin"}).ok()
    assert policy(bench)["tools"]["servers"]["it"] == {
        "command": [f"{tool}/bin/it", "plain"], "read": [str(tool)],
        "env": {"PATH": f"{tool}/bin:/usr/local/bin:/usr/bin:/bin"}}
    bench.tools("lock").ok()
    assert list(bench.lock["servers"]["it"]["tools"]) == ["get_it"]


@as_one
def test_a_lock_that_the_policy_cannot_name(bench):
    bench.operator.file("bench/cloister.yaml", 'version: 1\ntools: {servers: {it: {command: [python3, server.py, plain], folder: .}}}\n')
    before = (bench.folder / "cloister.yaml").read_text()
    assert "cloister.yaml does not name the lock" in bench.tools("lock").ok()
    assert "does not name the lock" in bench.tools("lock").ok() and (bench.folder / "cloister.yaml").read_text() == before
    bench.operator.file("bench/other.yaml", before.replace("{servers", "{lock: null, servers"))
    assert "does not name" not in bench.tools("lock", "-p", "other.yaml").ok()


@as_one
def test_keys_stay(bench):
    file_of(bench, it=GITHUB)
    before = (bench.folder / ".mcp.json").read_text()
    assert "cloister secret add GITHUB_TOKEN" in bench.tools("import", "--no-secrets").ok()
    assert (bench.folder / ".mcp.json").read_text() == before
    assert TOKEN not in (bench.folder / "cloister.yaml").read_text()


@as_one
def test_a_key_of_nowhere(bench):
    file_of(bench, it={"command": "x", "env": {"SOME_API_KEY": "0123456789abcdef"}})
    bench.tools("import", "--yes").sentence("--host SOME_API_KEY=HOST")
    bench.tools("import", "--yes", "--host", "SOME_API_KEY=api.example.com").ok()
    # The server may reach the host that its key is for.
    assert policy(bench)["tools"]["servers"]["it"]["policy"] == {"egress": [{"allow": "api.example.com"}],
                                                                "secrets": ["SOME_API_KEY"]}


@as_one
def test_comments_and_other_files(bench):
    bench.operator.file("bench/.vscode/mcp.json", '// VS Code\n{"servers": {"a": {"command": "x", /* y */ "args": ["//"],},},}')
    bench.tools("import").ok()
    assert policy(bench)["tools"]["servers"]["a"]["command"] == ["x", "//"]
    bench.operator.file("claude.json", json.dumps({"projects": {str(bench.folder): {"mcpServers": {"b": {"command": "y"}}},
                                                                "/other": {"mcpServers": {"c": {"command": "z"}}}}}))
    bench.tools("import", bench.operator.base / "claude.json").ok()
    assert set(policy(bench)["tools"]["servers"]) == {"a", "b"}


@as_one
def test_a_policy_keeps_its_text(bench):
    text = "# mine\nversion: 1\ntools:\n  servers:\n    # first\n    a:\n      command: [x]\negress: []\n"
    bench.operator.file("bench/cloister.yaml", text)
    file_of(bench, b={"command": "y"})
    bench.tools("import").ok()
    after = (bench.folder / "cloister.yaml").read_text()
    assert after.replace("    b:\n      command: ['y']\n", "") == text, after


@as_one
def test_a_command_without_its_words(bench):
    bench.server("it", "plain")
    bench.tools("learn", "it").sentence("it is `cloister tools learn SERVER -- SCRIPT...`")
    bench.tools("login").sentence("it is `cloister tools login SERVER`")
    bench.tools("import").sentence("name the file, such as ~/.claude.json")


@as_one
def test_learn(bench):
    out = bench.operator.folder("bench/out")
    bench.server("it", "writes", out / "written")
    bench.tools("lock").ok()
    calls = '{"tool": "get_it", "arguments": {"name": "x"}}\n'
    bench.tools("learn", "it", "--", "printf", calls).ok()
    tool = bench.lock["servers"]["it"]["tools"]["get_it"]
    assert tool["scope"] == {"write": [str(out / "written")]} and tool["examples"] == [{"arguments": {"name": "x"}}]
    assert not (out / "written").exists()
    bench.tools("learn", "it", "--", "echo", "nonsense").sentence("line 1")
    bench.tools("learn", "it", "--", "false").sentence("no calls")
    bench.tools("learn", "it", "--", "echo", '{"tool": "other"}').sentence("no tool 'other'")


@as_one
def test_a_failed_call_changes_no_scope(bench):
    bench.server("it", "fails_for", "me")
    bench.tools("lock").ok()
    bench.scope("it.get_it", {"secrets": ["NOTES_KEY"], "time": "9s"})
    before = bench.lock
    calls = ["printf", r"%s\n", '{"tool": "get_it", "arguments": {"name": "you"}}', '{"tool": "get_it", "arguments": {"name": "me"}}']
    done = bench.tools("learn", "it", "--", *calls)
    assert done.status == 1 and done.out == "" and bench.lock == before, done
    assert done.err == "cloister: it.get_it: a call got the error 'not for you': its scope is not changed\n"
    bench.tools("learn", "it", "--", *calls[:3]).ok()
    # What no record shows is kept.
    assert bench.lock["servers"]["it"]["tools"]["get_it"]["scope"] == {"time": "9s"}


@as_one
def test_contrib_in_a_clean_clone(bench):
    """The commands of the action and of the hook, as they run there."""
    bench.server("it", "changes", bench.folder / "changed")
    bench.tools("lock").ok()
    bench.scope("it.get_it")
    for name in ("github/tools/check.sh", "pre-commit/tools-check.sh"):
        (bench.folder / "contrib" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / "contrib" / name, bench.folder / "contrib" / name)
    operator = bench.operator
    git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main"
    operator.host(f"{git} init -q && {git} add . && {git} commit -qm x && git clone -q . ../clone", cwd=bench.folder)
    clone, env = operator.base / "clone", {"PATH": f"{operator.program.parent}:/usr/bin:/bin", "SARIF": "out.sarif"}
    for script in ("contrib/github/tools/check.sh", "contrib/pre-commit/tools-check.sh"):
        done = operator.do("sh", script, cwd=clone, env=env)
        assert done.status == 0, done
    assert json.loads((clone / "out.sarif").read_text())["runs"][0]["results"] == []
    operator.file("bench/changed")
    done = operator.do("sh", "contrib/github/tools/check.sh", cwd=clone, env=env)
    assert done.status == 1 and done.out.startswith("::error file=tools.lock.yaml,line="), done
    assert json.loads((clone / "out.sarif").read_text())["runs"][0]["results"]
    assert operator.do("sh", "contrib/pre-commit/tools-check.sh", cwd=clone, env=env).status == 1
