"""WASI modules as tools: each call in a cell of its own, with no more than its scope has."""
import json

import pytest

from egress_lab import Online  # pylint: disable=unused-import
from operators import as_one
from tools.test_gateway import ECHO, Gateway, ask, call, locked, site  # pylint: disable=unused-import
from tools_lab import Bench
from tools_wasm import READS, TOOLS, growing, missing, put_module, raw_module

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture
def gateway(operator):
    made = Gateway(operator)
    made.module = put_module(operator)
    made.tools = {"test": {"wasm": str(made.module)}}
    return made


def said(got):
    return got["result"]["content"][0]["text"]


# ---- calls

def test_a_call(gateway):
    listed, echoed, counted, again = gateway.run(ask(1, "tools/list"), call(2, "test.echo", a=[1, "ä"]), call(3, "test.counts"),
                                                 call(4, "test.counts"))
    assert listed["result"]["tools"] == [dict(tool, name=f"test.{tool['name']}") for tool in TOOLS["tools"]]
    assert json.loads(said(echoed)) == {"a": [1, "ä"]}
    # Each call has a memory of its own, in a cell of its own.
    assert counted["result"]["structuredContent"] == again["result"]["structuredContent"] == {"n": 1}
    cells = {one["server_cell"] for one in gateway.records() if one["did"] == "start"}
    assert len(cells) == 4, gateway.records()


def test_a_module_that_speaks_itself(gateway):
    gateway.module.with_name("parts.wasm.json").unlink()
    listed, got = gateway.run(ask(1, "tools/list"), call(2, "test.own"))
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["test.own"]
    assert said(got) == "by itself"


def test_how_a_call_ends(gateway):
    failed, trapped, bytes_, pointed, slept, other = gateway.run(
        call(1, "test.fails"), call(2, "test.traps"), call(3, "test.bytes"), call(4, "test.points"), call(5, "test.sleeps"),
        call(6, "test.nosuch"))
    assert failed["result"] == {"content": [{"type": "text", "text": "it did not work"}], "isError": True}
    assert trapped["result"]["isError"] and "the module was ended: RuntimeError: Unreachable" in said(trapped)
    assert bytes_["result"]["isError"] and "no UTF-8" in said(bytes_)
    assert said(pointed) == "refused: 1"
    assert said(slept) == "slept"
    assert other["error"]["code"] == -32602


def test_files_of_a_folder(gateway):
    folder = gateway.operator.folder("own", {"a": "content"})
    gateway.tools["test"].update(folder=str(folder), write=[str(folder)])
    done, listed, read = gateway.run(call(1, "test.files"), call(2, "test.lists", path="."),
                                     call(3, "test.reads", path=f"{folder}/a"))
    assert said(done) == "done", done
    assert sorted(said(listed).split()) == [".", "..", "a"]
    assert said(read) == "content"


@pytest.mark.parametrize("key,text,sentence", [
    ("per", "session", "a WASI module is run for each call"), ("command", ["true"], "a server has a `command`"),
    ("wasm", "../up.wasm", "is not a plain path")])
@as_one
def test_what_a_policy_cannot_say(gateway, key, text, sentence):
    gateway.tools["test"][key] = text
    gateway.operator.run("-p", str(gateway.policy()), "--", "true").sentence(sentence)


@as_one
def test_a_module_that_is_none(gateway):
    gateway.module.write_bytes(b"#!/bin/sh\n")
    got = gateway.one(call(1, "test.echo"))
    assert "error" in got, got
    assert "the module is not WASM" in str(gateway.records())


# ---- scopes

def scoped(gateway, name, scope):
    [tool] = [one for one in TOOLS["tools"] if one["name"] == name]
    locked(gateway, {name: scope}, **{name: tool})


def test_a_scope_has_the_files(gateway):
    may, other = gateway.operator.folder("may", {"a": "content"}), gateway.operator.folder("other", {"a": "secret"})
    gateway.tools["test"].update(read=[str(other)], write=[str(may)])
    scoped(gateway, "reads", {"read": [str(may)]})
    got, no = gateway.run(call(1, "test.reads", path=f"{may}/a"), call(2, "test.reads", path=f"{other}/a"))
    assert said(got) == "content"
    assert no["result"]["isError"] and "secret" not in said(no)
    scoped(gateway, "writes", {"read": [str(may)]})
    assert gateway.one(call(1, "test.writes", path=f"{may}/b"))["result"]["isError"]
    assert not (may / "b").exists()
    scoped(gateway, "writes", {"write": [str(may)]})
    assert "isError" not in gateway.one(call(1, "test.writes", path=f"{may}/b"))["result"]
    assert (may / "b").read_text() == "written"


def test_paths_out_of_a_folder(gateway):
    folder = gateway.operator.folder("own", {"a": "content"})
    (folder / "link").symlink_to("/etc/passwd")
    gateway.tools["test"].update(folder=str(folder), read=[str(folder)])
    for path in ("../modules/parts.wasm.json", f"{folder}/../modules/parts.wasm.json", "link", "/etc/passwd", "/proc/self/environ",
                 "/run/cloister/module.wasm", "/dev/null", "./a/../../modules/parts.wasm.json", "/dev/../etc/passwd"):
        got = gateway.one(call(1, "test.reads", path=path))
        assert got["result"].get("isError") and said(got).startswith("read: "), (path, got)
    for path in ("..", "/usr", "/proc"):
        got = gateway.one(call(1, "test.lists", path=path))
        assert got["result"].get("isError"), (path, got)


def test_a_scope_has_the_requests(gateway, site):
    host = f"host.cloister.internal:{site}"
    gateway.tools["test"]["policy"] = {"egress": [{"allow": host, "scheme": "http"}]}
    wanted = {"method": "GET", "url": f"http://{host}/", "host": host}
    scoped(gateway, "http", {"egress": [{"allow": host, "scheme": "http"}]})
    got = gateway.one(call(1, "test.http", **wanted))
    assert "200" in said(got).split("\r\n")[0] and said(got).endswith("served"), got
    scoped(gateway, "http", {"egress": [{"allow": host, "scheme": "http", "paths": ["/other"]}]})
    got = gateway.one(call(1, "test.http", **wanted))
    assert "403" in said(got).split("\r\n")[0], got
    assert {one["of"] for one in gateway.records() if one["did"] == "breach"} == {"test.http"}
    # Without a scope of its own there is no network, and no policy of the agent's changes that.
    scoped(gateway, "http", {})
    assert "served" not in str(gateway.one(call(1, "test.http", **wanted)))


def test_a_placeholder_in_a_request(online):
    """Over TLS that the module knows nothing of."""
    real = "cAnary4f7d1c09b2e86a35"
    operator = online.operator
    operator.cloister("secret", "add", "KEY", "--host", "up.example.test", "--in", "header:authorization", input=real).ok()
    gateway = Gateway(operator)
    own = {"egress": [{"allow": "up.example.test"}], "secrets": ["KEY"]}
    gateway.tools = {"test": {"wasm": str(put_module(operator)), "policy": own}}
    got = gateway.one(call(1, "test.http", method="GET", url="https://up.example.test/echo", host="up.example.test"))
    assert "200" in said(got).split("\r\n")[0], got
    assert online.lab.seen(f"Bearer {real}")
    assert real not in gateway.done.out + gateway.done.err and "Bearer" in said(got)


# ---- hostile modules

def test_a_loop_ends_with_its_time(gateway):
    gateway.tools["test"]["timeout"] = "1s"
    late, other = gateway.run(call(1, "test.loops"), call(2, "test.echo", a=1))
    assert "in time" in late["error"]["message"]
    assert json.loads(said(other)) == {"a": 1}


def test_a_module_that_eats_memory(gateway):
    """Whoever the operator is: without a limit of the cell, too."""
    late, other = gateway.run(call(1, "test.eats"), call(2, "test.echo", a=1))
    assert late["result"]["isError"] and said(late) == "eat: Out of memory", late
    assert json.loads(said(other)) == {"a": 1}


def test_a_module_whose_tables_grow(gateway):
    """Tables are memory, too."""
    gateway.module.write_bytes(growing(20))
    got = gateway.one(call(1, "test.echo"))
    assert got["result"] == {"content": [{"type": "text", "text": ""}]}, got


STRUCT, ARRAY, GROUP = b"\x5f\x00", b"\x5e\x7f\x01", b"\x4e\x01\x5f\x00"


REFUSED = {
    "struct": (raw_module(b"", types=[STRUCT]), "WASM GC"), "array": (raw_module(b"", types=[ARRAY]), "WASM GC"),
    "group": (raw_module(b"", types=[GROUP]), "WASM GC"), "tag": (raw_module(b"", more=b"\x0d\x03\x01\x00\x00"), "exceptions"),
    "exceptions": (raw_module(b"", [b"\x69\x00\x00"]), "another kind of table"),
    "first": (raw_module(b"", [b"\x40\x00\x70\x00\x00\xd0\x70\x0b"]), "another kind of table"),
    "large": (raw_module(b"", [b"\x70\x00\xc0\xcf\x24"] * 2), "tables of more than"),
    "cut": (raw_module(b"", types=[b"\x60\x01"]), "not valid WASM")}


@pytest.mark.parametrize("name", REFUSED)
@as_one
def test_memory_that_cannot_be_limited(gateway, name):
    module, why = REFUSED[name]
    gateway.module.write_bytes(module)
    assert "error" in gateway.one(call(1, "test.echo"))
    assert why in str([one.get("reason") for one in gateway.records() if one["did"] == "stderr"]), gateway.records()


def test_a_module_that_prints_without_end(gateway):
    gateway.tools["test"]["result"] = "64K"
    flood, other = gateway.run(call(1, "test.floods"), call(2, "test.echo", a=1))
    assert flood["result"]["isError"] and "printed" in said(flood)
    assert json.loads(said(other)) == {"a": 1}


# ---- the lock

@pytest.fixture
def bench(operator):
    made = Bench(operator)
    made.module = put_module(operator)
    made.servers["it"] = {"wasm": str(made.module)}
    made.write({"version": 1, "tools": {"servers": made.servers}})
    return made


def test_a_lock_of_a_module(bench):
    assert f"module {bench.module}  (not locked)" in bench.tools("list").ok()
    bench.tools("lock").ok()
    server = bench.lock["servers"]["it"]
    assert server["program"]["path"] == str(bench.module) and len(server["program"]["sha256"]) == 64
    assert server["server"] == {"name": "parts", "version": "1.2"}
    assert set(server["tools"]) == {tool["name"] for tool in TOOLS["tools"]}


def only(bench, *names):
    """A module with just these tools, locked."""
    tools = dict(TOOLS, tools=[tool for tool in TOOLS["tools"] if tool["name"] in names])
    bench.operator.file("modules/parts.wasm.json", json.dumps(tools))
    bench.tools("lock").ok()


def test_a_check_of_a_module(bench):
    folder = bench.operator.folder("notes", {"a": "content"})
    bench.servers["it"].update(write=[str(folder)])
    bench.write({"version": 1, "tools": {"lock": "tools.lock.yaml", "servers": bench.servers}})
    only(bench, "reads", "writes", "http")
    example = {"method": "GET", "url": "https://api.example.com/", "host": "api.example.com"}
    bench.scope("it.http", {"egress": [{"allow": "api.example.com", "methods": ["GET"]}]}, examples=[{"arguments": example}])
    bench.scope("it.reads", {"read": [str(folder)]}, examples=[{"arguments": {"path": f"{folder}/a"}}])
    bench.scope("it.writes", {}, examples=[{"arguments": {"path": f"{folder}/b"}}])
    rules, found = bench.check()
    assert rules == [("read-only-wrote", "it", "writes")], found
    assert not (folder / "b").exists()
    bench.scope("it.http", {"egress": [{"allow": "api.example.com", "methods": ["GET"]}]},
                examples=[{"arguments": dict(example, method="POST")}])
    assert ("read-only-wrote", "it", "http") in bench.check()[0]


def test_scopes_learned_from_a_module(bench):
    folder = bench.operator.folder("notes", {"a": "content"})
    bench.servers["it"].update(write=[str(folder)])
    bench.write({"version": 1, "tools": {"lock": "tools.lock.yaml", "servers": bench.servers}})
    only(bench, "writes")
    bench.tools("learn", "it", "--", "echo", json.dumps({"tool": "writes", "arguments": {"path": f"{folder}/b"}})).ok()
    assert str(folder) in str(bench.lock["servers"]["it"]["tools"]["writes"]["scope"]["write"])


# ---- registered modules

CLIENT = """
import json, urllib.request
def post(message, session=None):
    head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **({"Mcp-Session-Id": session} if session else {})}
    request = urllib.request.Request("http://tools.cloister.internal/mcp", json.dumps(dict(message, jsonrpc="2.0")).encode(), head)
    answer = urllib.request.urlopen(request)
    return answer.headers.get("Mcp-Session-Id"), answer.read().decode()
session, _ = post({"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
post({"method": "notifications/initialized"}, session)
print(post({"id": 1, "method": "tools/call", "params": {"name": NAME, "arguments": ARGUMENTS}}, session)[1])
"""


def put_capability(operator, name="parts", more="", module="module.wasm"):
    folder = put_module(operator, f"cap-{name}").parent
    (folder / "parts.wasm").rename(folder / module)
    (folder / "parts.wasm.json").rename(folder / f"{module}.json")
    operator.file(f"cap-{name}/capability.yaml", f"name: {name}\ntype: wasm\n{more}")
    return operator.cloister("capability", "register", folder)


def dispatched(operator, name, **arguments):
    script = CLIENT.replace("NAME", json.dumps(name)).replace("ARGUMENTS", json.dumps(arguments))
    file = operator.file("caller.yaml", json.dumps({"name": "caller", "command": ["/usr/bin/python3", "-c", script],
                                             "capabilities": ["parts"]}))
    operator.cloister("agent", "register", file).ok()
    return operator.cloister("dispatch", "caller")


def test_a_registered_module_is_a_tool_of_an_agent(operator, site):
    host = f"host.cloister.internal:{site}"
    put_capability(operator, more=f"rules: [{{allow: '{host}', scheme: http}}]\n").ok()
    assert '"a":1' in dispatched(operator, "parts.echo", a=1).ok().replace("\\", "")
    # The rules are the module's, and not the agent's.
    assert "served" in dispatched(operator, "parts.http", method="GET", url=f"http://{host}/", host=host).ok()
    file = operator.file("direct.yaml", json.dumps({"name": "direct", "command": ["/usr/bin/curl", "-sS", f"http://{host}/"],
                                             "capabilities": ["parts"]}))
    operator.cloister("agent", "register", file).ok()
    assert "served" not in operator.cloister("dispatch", "direct").out


@pytest.mark.parametrize("more,module,sentence", [
    ("", "other.wasm", "has a file 'module.wasm'"), ("tools: [sh]\n", "module.wasm", "needs no programs"),
    ("type: native\n", "module.wasm", "")])
@as_one
def test_a_capability_that_is_no_module(operator, more, module, sentence):
    put_capability(operator, more=more, module=module).sentence(sentence)
