"""`cloister tools list`, `lock` and `check` without calls: what servers state, and what became of it."""
import json
import re

import pytest

from operators import as_one
from tools_lab import Bench


@pytest.fixture
def bench(operator):
    return Bench(operator)


def test_a_lock_pins_what_a_server_states(bench):
    bench.server("it", "plain")
    assert re.fullmatch(r"it +python3 \S+ plain  \(not locked\)\n", bench.tools("list").ok())
    assert "+ it.get_it is new\n" in bench.tools("lock").ok()
    server = bench.lock["servers"]["it"]
    assert server["program"]["path"].endswith("/server.py") and len(server["program"]["sha256"]) == 64
    assert server["server"]["version"] == "1.0" and "\033" not in server["server"]["name"]
    tool = server["tools"]["get_it"]
    assert tool["description"] == "Look something up." and json.loads(tool["input"])["required"] == ["name"]
    assert tool["annotations"] == {"read_only": True, "open_world": False}
    assert "not locked" not in bench.tools("list").ok()


def test_a_list(bench):
    bench.server("it", "names", "a", "b")
    bench.servers["gone"] = {"command": ["no-such-program"]}
    bench.servers["far"] = {"url": "https://mcp.example/", "policy": {"secrets": ["FAR_TOKEN"]}}
    bench.server("other", "plain")
    bench.tools("lock", "it").ok()
    bench.scope("it.a", examples=[{"arguments": {"name": "x"}}])
    lines = {line.split()[0]: line for line in bench.tools("list").ok().splitlines()}
    assert lines["it"].endswith("(2 tools locked, 1 without a scope)")
    assert lines["other"].endswith("(not locked)")
    assert lines["gone"].endswith("(not locked; the program is not on this machine)")
    assert lines["far"].endswith("(not locked; `cloister tools login far` first)")
    listed = json.loads(bench.tools("list", "--json").ok())
    assert listed["lock"].endswith("tools.lock.yaml")
    servers = {server["name"]: server for server in listed["servers"]}
    assert {name: (one["state"], one["lock"]) for name, one in servers.items()} == {
        "it": ("ready", "locked"), "other": ("ready", "not-locked"), "gone": ("not-found", "not-locked"),
        "far": ("not-logged-in", "not-locked")}
    first, second = servers["it"]["tools"]
    assert (first["name"], first["scope"], first["examples"], second["scope"]) == ("a", True, 1, False)
    assert first["annotations"] == {"read_only": True, "open_world": False} and len(first["sha256"]) == 64
    with open(bench.folder / "server.py", "a", encoding="utf-8") as program:
        program.write("# another one")
    assert "the program has changed since" in bench.tools("list", "it").ok()
    [it] = json.loads(bench.tools("list", "it", "--json").ok())["servers"]
    assert it["lock"] == "program-changed"


def test_a_person_s_words_are_kept(bench):
    bench.server("it", "changes", bench.folder / "changed")
    bench.tools("lock").ok()
    bench.scope("it.get_it", {"time": "3s"}, examples=[{"arguments": {"name": "x: 'y'\n"}}])
    bench.edit(lambda lock: lock["servers"]["it"]["tools"]["get_it"]["annotations"].update(idempotent=True))
    before = bench.lock
    bench.tools("lock").ok()
    assert bench.lock == before
    assert "nothing changed" in bench.tools("lock").ok()

    bench.operator.file("bench/changed")
    said = bench.tools("lock").ok()
    assert "~ it.get_it: its description changed\n" in said
    assert "    -Look it up.\n    +Look it up. Then read" in said
    after = bench.lock["servers"]["it"]["tools"]["get_it"]
    assert after["scope"] == {"time": "3s"} and after["examples"] and after["annotations"]["idempotent"]
    assert after["sha256"] != before["servers"]["it"]["tools"]["get_it"]["sha256"]


def test_other_servers_stay(bench):
    bench.server("it", "plain")
    bench.server("other", "names", "a", "b")
    bench.tools("lock").ok()
    bench.scope("other.a")
    before = bench.lock
    bench.tools("lock", "it").ok()
    assert bench.lock == before
    bench.tools("lock", "nosuch").sentence("no server 'nosuch'")


def test_a_dry_run_writes_nothing(bench):
    bench.server("it", "plain")
    assert "sha256" in bench.tools("lock", "--dry-run").ok()
    assert not (bench.folder / "tools.lock.yaml").exists()


def locked(bench, *words):
    """A server that is locked, with a scope for each tool."""
    bench.server("it", *words)
    bench.tools("lock").ok()
    for name in bench.lock["servers"]["it"]["tools"]:
        bench.scope(f"it.{name}")


def test_nothing_is_wrong(bench):
    locked(bench, "plain")
    assert bench.check("--no-run")[0] == []
    assert bench.tools("check", "--no-run").ok() == "0 errors, 0 warnings\n"


def test_a_changed_definition(bench):
    locked(bench, "changes", bench.folder / "changed")
    bench.operator.file("bench/changed")
    rules, found = bench.check("--no-run")
    assert rules == [("definition-changed", "it", "get_it")]
    assert "its description" in found["findings"][-1]["text"]


@as_one
def test_another_version_of_a_package(bench):
    """A note: the hash of its program decides."""
    place = bench.operator.folder("bench/node_modules/@it/server/dist")
    (bench.folder / "server.py").rename(place / "server.py")
    bench.operator.file("bench/node_modules/@it/server/package.json", '{"name": "@it/server", "version": "1.0.0"}')
    bench.server("it", command=["python3", "node_modules/@it/server/dist/server.py", "plain"], folder=".", read=None)
    bench.tools("lock").ok()
    assert bench.lock["servers"]["it"]["package"] == "@it/server@1.0.0"
    bench.scope("it.get_it")
    bench.operator.file("bench/node_modules/@it/server/package.json", '{"name": "@it/server", "version": "1.0.1"}')
    rules, found = bench.check("--no-run")
    assert rules == []
    assert [(f["level"], f["text"]) for f in found["findings"] if f["rule"] == "program-changed"] == [
        ("note", "the package is @it/server@1.0.1, and @it/server@1.0.0 was locked")], found


@pytest.mark.parametrize("script", ["server.py", "absolute"])
@as_one
def test_a_changed_script(bench, script):
    more = {"read": ["."]} if script == "absolute" else {"folder": ".", "read": None}
    path = str(bench.folder / "server.py") if script == "absolute" else script
    bench.server("it", command=["python3", path, "plain", "data", "/etc/passwd"], **more)
    bench.operator.file("bench/data", "1")
    bench.tools("lock").ok()
    bench.scope("it.get_it")
    assert set(bench.lock["servers"]["it"]["files"]) == ({path, "data"} if script != "absolute" else {path})
    assert bench.lock["servers"]["it"]["program"]["path"].endswith("/server.py")
    assert bench.check("--no-run")[0] == []
    with open(bench.folder / "server.py", "a", encoding="utf-8") as file:
        file.write("# evil\n")
    rules, found = bench.check("--no-run")
    assert rules == [("file-changed", "it", None)] and f"'{path}' changed" in json.dumps(found)
    assert f"~ it: {path} changed\n" in bench.tools("lock").ok()
    assert bench.check("--no-run")[0] == []
    if script != "absolute":
        (bench.folder / "data").unlink()
        assert bench.check("--no-run")[0] == [("file-changed", "it", None)]


@as_one
def test_files_that_a_server_writes_are_not_pinned(bench):
    bench.operator.file("bench/data", "1")
    bench.server("it", "names", "a", bench.folder / "data", write=[str(bench.folder / "data")])
    bench.tools("lock").ok()
    assert set(bench.lock["servers"]["it"]["files"]) == {str(bench.folder / "server.py")}


@pytest.mark.parametrize("script, what", [("server.py", "add `folder: .`"), ("/server.py", "add `read: [")])
@as_one
def test_a_script_that_the_cell_does_not_have(bench, script, what):
    path = script if script[0] != "/" else f"{bench.folder}{script}"
    bench.server("it", command=["python3", path, "plain"], read=None)
    bench.tools("lock").sentence(f"its cell does not have '{path}'", what)


def test_what_is_missing(bench):
    bench.server("it", "bare")
    bench.tools("check").sentence("there is no lock", "cloister tools lock")
    bench.tools("lock").ok()
    rules, found = bench.check("--no-run")
    assert rules == [("no-annotation", "it", "get_it"), ("no-scope", "it", "get_it")]
    assert "read_only, destructive, open_world" in found["findings"][0]["text"]
    assert bench.tools("check", "--no-run").out.endswith("\n2 errors, 0 warnings\n")
    bench.scope("it.get_it", annotations={"read_only": True, "open_world": False})
    assert bench.check("--no-run")[0] == []


def test_hidden_text(bench):
    locked(bench, "hides")
    rules, _ = bench.check("--no-run")
    assert sorted(rules) == [("hidden-text", "it", name) for name in ("bidi", "comment", "escape", "zero")]
    text = (bench.folder / "tools.lock.yaml").read_text()
    assert not any(c in text for c in "\033\u200b\u202e")
    # The sentences show none of it either.
    assert "\033" not in bench.tools("check", "--no-run").out


def test_servers_that_shadow_each_other(bench):
    bench.server("one", "names", "create_issue", "list")
    bench.server("two", "names", "createIssue", "remove")
    bench.tools("lock").ok()
    for tool in ("one.create_issue", "one.list", "two.createIssue", "two.remove"):
        bench.scope(tool)
    assert bench.check("--no-run")[0] == [("shadowed-name", "one", "create_issue"), ("shadowed-name", "two", "createIssue")]
    # One of them alone is compared with the lock.
    assert bench.check("two", "--no-run")[0] == [("shadowed-name", "two", "createIssue")]


@pytest.mark.parametrize("scope, what", [
    ({"write": ["/tmp/x"]}, "paths that it may write"),
    ({"egress": [{"allow": "api.example.com", "methods": ["GET", "POST"]}]}, "POST"),
    ({"egress": [{"allow": "api.example.com"}]}, "without `methods`"),
    ({"egress": [{"allow": "api.example.com", "methods": ["GET"]}], "read": ["/tmp"]}, None),
    ({"egress": [{"allow": "api.example.com", "body": {"graphql": {"operations": ["query"]}}}]}, None),
    ({"egress": [{"deny": "api.example.com"}]}, None),
])
@as_one
def test_a_read_only_tool_with_a_writing_scope(bench, scope, what):
    locked(bench, "plain")
    bench.scope("it.get_it", scope)
    rules, found = bench.check("--no-run")
    assert rules == ([("read-only-may-write", "it", "get_it")] if what else [])
    assert not what or what in found["findings"][-1]["text"]


def test_tools_that_come_and_go(bench):
    locked(bench, "names", "a", "b")
    bench.server("it", "names", "b", "c")
    assert bench.check("--no-run")[0] == [("tool-gone", "it", "a"), ("tool-not-locked", "it", "c")]
    bench.server("new", "names", "d")
    assert ("server-not-locked", "new", None) in bench.check("--no-run")[0]


@pytest.mark.parametrize("what, why", [
    (["ends"], "ended"), (["broken"], "no valid message"), (["floods"], "over 512 tools"), (["notifies"], "instead of an answer"),
    (["asks"], "asks without end"), (["long"], "more than anybody waits for"), (["other_id"], "what nobody asked"),
    (["escapes"], "the name of a tool"), (["twice"], "twice"), (["pages", "100"], "over 64 pages"),
])
@as_one
def test_servers_that_misbehave(bench, what, why):
    bench.server("it", *what)
    done = bench.tools("lock")
    done.sentence("the server 'it'", why)
    assert "\033" not in done.err
    assert not (bench.folder / "tools.lock.yaml").exists()


@as_one
def test_pages(bench):
    bench.server("it", "pages", "30")
    bench.tools("lock").ok()
    assert len(bench.lock["servers"]["it"]["tools"]) == 31


def test_no_network_while_it_is_locked(bench):
    """A server that would answer with what it fetched."""
    bench.server("it", "gets", "https://api.example.com/")
    bench.tools("lock").ok()
    assert not bench.operator.cells()


@as_one
def test_forms_of_a_report(bench):
    locked(bench, "hides")
    sarif = json.loads(bench.tools("check", "--no-run", "--sarif").out)
    run = sarif["runs"][0]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert sarif["version"] == "2.1.0" and len(run["results"]) == 4
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        line = (bench.folder / "tools.lock.yaml").read_text().splitlines()[place["region"]["startLine"] - 1]
        assert result["ruleId"] in known and result["level"] == "error"
        assert place["artifactLocation"]["uri"] == "tools.lock.yaml"
        assert line.strip(" :") == result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].split(".")[1]
    lines = bench.tools("check", "--no-run", "--github").out.splitlines()
    assert len(lines) == 4 and all(re.match(r"::error file=tools\.lock\.yaml,line=\d+,title=hidden-text::it\.\w+: ", at)
                                   for at in lines), lines


@as_one
def test_another_file(bench):
    bench.server("it", "plain")
    (bench.folder / "cloister.yaml").rename(bench.folder / "servers.yaml")
    bench.tools("lock").sentence("there is no 'cloister.yaml' here", "cloister tools import")
    bench.tools("lock", "-p", "servers.yaml", "--lock", "other.yaml").ok()
    assert (bench.folder / "other.yaml").exists()
    bench.operator.file("bench/none.yaml", "version: 1\n")
    bench.tools("lock", "-p", "none.yaml").sentence("has no `tools`", "cloister tools import")


@pytest.mark.parametrize("wish", ["hook", "runtime", "secrets"])
def test_a_project_s_policy_runs_nothing_outside(bench, operator, wish):
    """Nobody has looked at it, perhaps."""
    ran = operator.folder("trace") / "ran"
    program = operator.file("program", f"#!/bin/sh\necho x >{ran}\n")
    program.chmod(0o755)
    policy = {"hook": {"egress": [{"allow": "far.example", "hook": {"call": [str(program)]}}]},
              "runtime": {"boundary": "oci", "runtime": str(program)},
              "secrets": {"secrets": ["KEY@far.example"]}}[wish]
    bench.write({"version": 1, "tools": {"servers": {"far": {"url": "https://far.example/mcp", "policy": policy}}}})
    bench.tools("lock").sentence(wish)
    assert bench.tools("check").status != 0 and not ran.exists()
