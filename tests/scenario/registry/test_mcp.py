"""`cloister mcp` over standard input and output: what is asked, what is answered, what is hostile."""
import json
import os
import select
import signal
from pathlib import Path

import pytest

from mcp_lab import AGENT, ID, META, NEWEST, Stand, Stdio, call, message
from operators import IS_STATIC, SECONDS, only_root, status_of, wait_until
from terminal import Terminal


@pytest.fixture
def stand(operator):
    stand = Stand(operator)
    yield stand
    stand.close()


# ---- revisions

@pytest.mark.parametrize("version, agreed", [("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18"),
                                             ("2024-11-05", "2025-11-25"), (NEWEST, "2025-11-25")])
def test_older_revisions_begin_with_a_session(operator, stand, version, agreed):
    client = Stdio(operator, version=version)
    result = client.begun["result"]
    assert result["protocolVersion"] == agreed
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "cloister"
    assert client.ask("ping")["result"] == {}
    assert "resultType" not in client.ask("tools/list")["result"]
    assert client.end() == 0


def test_the_newest_revision_needs_no_session(operator, stand):
    client = Stdio(operator, version=None)
    found = client.ask("server/discover", {"_meta": META})["result"]
    assert found["supportedVersions"] == [NEWEST, "2025-11-25", "2025-06-18"]
    assert found["resultType"] == "complete" and found["cacheScope"] == "public"
    tools = client.ask("tools/list", {"_meta": META})["result"]
    assert tools["resultType"] == "complete" and tools["ttlMs"] > 0
    done = client.ask("tools/call", {"_meta": META, "name": "list_agents"})["result"]
    assert done["structuredContent"]["agents"][0]["name"] == "echo"
    assert done["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "cloister"
    # What was dropped is not there, and what is missing is told.
    assert client.ask("ping", {"_meta": META})["error"]["code"] == -32601
    assert client.ask("tools/list")["error"]["code"] == -32602
    other = {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    refused = client.ask("tools/list", {"_meta": other})["error"]
    assert refused["code"] == -32022 and refused["data"]["requested"] == "2031-01-01"


# ---- tools

def test_tools_describe_their_input_and_output(operator, stand):
    for tool in Stdio(operator).ask("tools/list")["result"]["tools"]:
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert tool["outputSchema"]["type"] == "object"
        assert set(tool["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint",
                                            "openWorldHint"}
        assert tool["annotations"]["readOnlyHint"] == (tool["name"] not in ("dispatch", "cancel"))


def test_each_tool(operator, stand):
    client = Stdio(operator)
    stand.finish.set()
    agents = client.tool("list_agents", {"limit": 7})
    assert agents["structuredContent"] == {"agents": [{**AGENT, "description": "says it again"}]}
    assert json.loads(agents["content"][0]["text"]) == agents["structuredContent"]
    assert client.tool("dispatch", {"agent": "echo", "wait": False})["structuredContent"] == {
        "id": ID, "state": "queued", "agent": "echo", "hash": AGENT["hash"]}
    assert client.tool("status", {"id": ID})["structuredContent"]["exit_code"] == 0
    assert client.tool("output", {"id": ID})["structuredContent"] == {
        "id": ID, "stream": "stdout", "offset": 0, "text": "said\n"}
    assert client.tool("output", {"id": ID, "offset": 1, "max_bytes": 2})["structuredContent"] == {
        "id": ID, "stream": "stdout", "offset": 1, "text": "ai", "next_offset": 3}
    assert client.tool("result_files", {"id": ID})["structuredContent"]["files"] == [
        {"path": "a/b", "size": 5, "hash": "sha256:1"}]
    assert client.tool("result_files", {"id": ID, "path": "a/b"})["structuredContent"]["base64"] == "/wBhYmM="
    assert client.tool("cancel", {"id": ID})["structuredContent"]["state"] == "cancelled"
    assert "GET /v1/agents?limit=7" in stand.paths()
    assert client.end() == 0


def test_a_dispatch_is_waited_for(operator, stand):
    client = Stdio(operator, "--as", "anna@example.test")
    stand.lines += [{"event": "agent.output", "stream": "stdout", "text": "half way"}]
    client.send(call("dispatch", {"agent": "echo", "input": "do it", "env": ["e"], "retries": 2,
                                  "timeout_seconds": 60, "idempotency_key": "k"}, id="w",
                     _meta={"progressToken": "p"}))
    assert stand.followed.wait(SECONDS)
    # Others are answered meanwhile.
    assert client.tool("list_agents")["isError"] is False
    stand.finish.set()
    done = client.answer("w")["result"]["structuredContent"]
    assert done["state"] == "finished" and done["exit_code"] == 0 and done["stdout"] == "said\n"
    assert done["files"][0]["path"] == "a/b"
    progress = [said["params"] for said in client.aside]
    assert {p["progressToken"] for p in progress} == {"p"}
    assert [p["progress"] for p in progress] == list(range(1, len(progress) + 1))
    assert "half way" in [p["message"] for p in progress]
    assert stand.asked[0][2] == {"agent": "echo", "input": "do it", "env": ["e"], "retries": 2,
                                 "timeout": "60s", "idempotency_key": "k",
                                 "on_behalf_of": "anna@example.test"}


def test_without_a_token_there_is_no_progress(operator, stand):
    client = Stdio(operator)
    stand.finish.set()
    assert client.tool("dispatch", {"agent": "echo"})["isError"] is False
    assert client.aside == []


def test_a_request_that_is_cancelled_cancels_the_dispatch(operator, stand):
    client = Stdio(operator)
    client.send(call("dispatch", {"agent": "echo"}, id=77))
    assert stand.followed.wait(SECONDS)
    client.send(message("notifications/cancelled", {"requestId": 77, "reason": "enough"}, None))
    wait_until(lambda: f"POST /v1/dispatches/{ID}/cancel" in stand.paths(), "it is cancelled")
    # There is no answer to it, and the id is free again.
    assert client.ask("ping")["result"] == {} and client.aside == []
    client.send(call("list_agents", id=77))
    assert client.answer(77)["result"]["isError"] is False


@pytest.mark.parametrize("id", [1, "x", None, 78.5, {}, [77]])
def test_an_ended_dispatch_is_not_cancelled(operator, stand, id):
    client = Stdio(operator)
    client.send(call("dispatch", {"agent": "echo"}, id=77))
    assert stand.followed.wait(SECONDS)
    client.send(message("notifications/cancelled", {"requestId": id}, None))
    assert client.ask("ping")["result"] == {}
    stand.finish.set()
    assert client.answer(77)["result"]["structuredContent"]["state"] == "finished"


def test_a_wait_survives_a_service_that_breaks_off(operator, stand):
    client = Stdio(operator)
    stand.cut = 3
    client.send(call("dispatch", {"agent": "echo"}, id=5, _meta={"progressToken": 1}))
    wait_until(lambda: stand.cut == 0, "it broke off three times")
    stand.finish.set()
    assert client.answer(5)["result"]["structuredContent"]["state"] == "finished"
    # What was told once is not told again; the last of it may come too late to be told.
    told = [said["params"]["message"] for said in client.aside]
    assert [said["params"]["progress"] for said in client.aside] == list(range(1, len(told) + 1))
    assert len(told) >= 2 and len(set(told)) == len(told)
    assert stand.paths().count("POST /v1/dispatches") == 1


def test_the_model_sees_refusals_of_the_service(operator, stand):
    stand.answers["/v1/dispatches"] = 404, {"error": {"code": "not_found",
                                                      "message": "there is no agent 'nix'"}}
    done = Stdio(operator).tool("dispatch", {"agent": "nix"})
    assert done == {"isError": True, "content": [{"type": "text", "text": "there is no agent 'nix'"}]}


@pytest.mark.parametrize("status, body", [
    (200, b""), (200, b"x"), (200, b"[]"), (200, b'{"id": 1}'), (200, b'{"id": "../x"}'),
    (200, b'{"id": "' + b"a" * 100 + b'"}'), (500, b"<html>"), (200, b"{" * 100000),
    (200, b'{"id":"a","id":"b"}'), (200, b"9" * (6 << 20)), (302, b"")],
    ids=lambda value: repr(value)[:24])
def test_a_socket_that_is_not_a_service(operator, stand, status, body):
    client = Stdio(operator)
    stand.answers["/v1/dispatches"] = status, body
    assert client.tool("dispatch", {"agent": "echo"})["isError"] is True
    assert client.ask("ping")["result"] == {}


def test_requests_carry_the_token(operator, stand):
    client = Stdio(operator, env={"CLOISTER_MCP_TOKEN": "of-a-dispatch", "CLOISTER_TOKEN": "the-operator's"})
    client.tool("list_agents")
    assert stand.tokens == ["Bearer of-a-dispatch"]
    operator.cloister("mcp", "--as", "ann", env={"CLOISTER_MCP_TOKEN": "x"}).sentence("--as", "CLOISTER_MCP_TOKEN")


# ---- hostile input

BAD = [
    (b"x", -32700), (b"{", -32700), (b"\xff\xfe", -32700), (b"\x00", -32700), (b"[" * 5000, -32700),
    (b'{"a":' * 5000, -32700), (b"nul", -32700), (b"1e999999", -32700),
    (b'{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"a\\u0000"}', -32700),
    (b"[" + b"0," * 20000 + b"0]", -32700),
    (b"[]", -32600), (b"null", -32600), (b"{}", -32600), (b"7", -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":"' + b"i" * 300 + b'","method":"ping"}', -32600),
    (b'{"jsonrpc":"3.0","id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"' + b"m" * 300 + b'"}', -32600),
]


def test_hostile_lines(operator, stand):
    client = Stdio(operator)
    for line, code in BAD:
        client.send(line)
        said = client.read()
        assert said["error"]["code"] == code, (line[:80], said)
    assert client.ask("ping")["result"] == {}
    assert client.end() == 0


def test_unknown_methods(operator, stand):
    client = Stdio(operator)
    for method in ("resources/list", "prompts/list", "logging/setLevel", "completion/complete",
                   "sampling/createMessage", "tools/register", "", "initialize "):
        assert client.ask(method)["error"]["code"] == -32601, method
    assert client.ask("tools/call", {"name": "register"})["error"]["code"] == -32602


def test_a_message_that_is_too_long(operator, stand):
    client = Stdio(operator)
    client.send(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"y" * (9 << 20) + b'"}}')
    assert client.read()["error"]["code"] == -32700
    assert client.ask("ping")["result"] == {}
    # And one that is not, to its last byte.
    long = client.tool("dispatch", {"agent": "echo", "input": "z" * (4 << 20), "wait": False})
    assert long["isError"] is False and len(stand.asked[-1][2]["input"]) == 4 << 20


def test_an_id_that_is_in_use(operator, stand):
    client = Stdio(operator)
    client.send(call("dispatch", {"agent": "echo"}, id=9))
    assert stand.followed.wait(SECONDS)
    client.send(call("list_agents", id=9))
    assert client.read()["error"]["code"] == -32602
    stand.finish.set()
    assert client.answer(9)["result"]["isError"] is False


def test_too_many_at_once(operator, stand):
    client = Stdio(operator)
    for i in range(65):
        client.send(call("dispatch", {"agent": "echo"}, id=f"d{i}"))
    refused = client.answer("d64")
    assert refused["error"]["code"] == -32602 and "64" in refused["error"]["message"]
    stand.finish.set()
    for i in range(64):
        said = next((s for s in client.aside if s.get("id") == f"d{i}"), None) or client.answer(f"d{i}")
        assert said["result"]["isError"] is False


def test_notifications_are_not_answered(operator, stand):
    client = Stdio(operator)
    for said in (message("ping", id=None), message("tools/call", {"name": "list_agents"}, None),
                 message("notifications/nothing", id=None), {"jsonrpc": "2.0", "id": 1, "result": {}}):
        client.send(said)
    assert client.ask("ping")["result"] == {} and client.aside == []
    assert stand.asked == []


def test_line_ends(operator, stand):
    client = Stdio(operator, version=None)
    client.send(b"\r")
    client.send(b"")
    client.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r')
    assert client.read()["id"] == 1
    # The last line may lack its end.
    client.process.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')
    client.process.stdin.close()
    assert client.read()["id"] == 2
    assert client.process.wait(SECONDS) == 0


def test_requests_before_the_end_are_handled(operator, stand):
    """Also if no client waits for the result."""
    asked = operator.file("home/asked", json.dumps(call("dispatch", {"agent": "echo"}, _meta=META)) + "\n")
    with asked.open() as stdin:
        assert operator.spawn(operator.program, "mcp", stdin=stdin).wait(SECONDS) == 0
    assert stand.paths()[0] == "POST /v1/dispatches"


def test_input_and_output_may_be_files(operator, stand):
    asked = operator.file("home/asked", "".join(json.dumps(m) + "\n" for m in (
        message("ping"), call("list_agents", id=2, _meta=META))))
    said = operator.file("home/said")
    with asked.open() as stdin, said.open("w") as stdout:
        assert operator.spawn(operator.program, "mcp", stdin=stdin, stdout=stdout).wait(SECONDS) == 0
    assert [json.loads(line)["id"] for line in said.read_text().splitlines()] == [1, 2]


def test_a_client_that_does_not_listen(operator, stand):
    """Its responses are not kept without limit, and not lost either."""
    client = Stdio(operator)
    fd, n = client.process.stdin.fileno(), 0
    # Its answer is longer, but not so much longer that it takes a while to make many.
    line = json.dumps(message("tools/list", id="x")).encode().ljust(2000) + b"\n"
    # Until it has not read any more for some time.
    while n < 2000 and select.select([], [fd], [], 0.5)[1]:
        n += os.write(fd, line) // len(line)
    assert n < 2000
    for _ in range(n):
        assert client.read()["id"] == "x"
    assert client.ask("ping")["result"] == {} and client.aside == []


def test_the_end_of_the_client_is_the_end(operator, stand):
    client = Stdio(operator)
    worker = client.worker()
    client.send(call("dispatch", {"agent": "echo"}))
    assert stand.followed.wait(SECONDS)
    assert client.end() == 0
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), "the worker is gone")
    # What it dispatched goes on.
    assert not any("cancel" in path for path in stand.paths())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_killed_it_leaves_nothing(operator, stand, how):
    client = Stdio(operator)
    worker = client.worker()
    client.process.send_signal(how)
    client.process.wait(SECONDS)
    wait_until(lambda: not Path(f"/proc/{worker}/fd").exists() or
               not Path(f"/proc/{worker}/exe").exists(), "the worker is gone")


# ---- what the half that reads it may do

def test_the_process_that_reads_the_client_has_no_rights(operator, stand):
    client = Stdio(operator, env={"OPERATORS_KEY": "hidden"})
    worker = client.worker()
    status = status_of(worker)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert status["CapEff"] == status["CapPrm"] == "0" * 16
    assert sorted(int(fd) for fd in os.listdir(f"/proc/{worker}/fd")) == [0, 1, 2, 3, 4]
    assert os.readlink(f"/proc/{worker}/fd/4") == "anon_inode:[eventpoll]"


@only_root
def test_it_sees_nothing_of_the_host(operator, stand):
    client = Stdio(operator, env={"OPERATORS_KEY": "hidden"})
    worker = client.worker()
    assert Path(f"/proc/{worker}/environ").read_bytes().rstrip(b"\0") == b"" or not IS_STATIC
    assert os.listdir(f"/proc/{worker}/root") == []
    for name in ("net", "mnt", "ipc", "uts", "user"):
        assert os.readlink(f"/proc/{worker}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"), name


def test_without_a_service(operator):
    """It starts one; where that fails, it says so."""
    broken = operator.folder("broken")
    (broken / "libexec").mkdir()
    mcp = broken / "libexec" / "cloister-mcp"
    mcp.write_bytes((operator.program.parent / "libexec" / "cloister-mcp").read_bytes())
    mcp.chmod(0o755)
    done = operator.do(mcp, "mcp", "--")
    assert done.status == 125 and done.err.startswith("cloister: cannot find '"), done


def test_at_a_terminal(operator, stand):
    """A person typed it to see what it does."""
    terminal = Terminal(operator, operator.program, "mcp")
    terminal.expect("this is an MCP server, and waits")
    terminal.type("\x04")
    assert terminal.end() == 0
    terminal.close()


# ---- its options

def test_options(operator):
    operator.cloister("mcp", "x").sentence("takes options only")
    operator.cloister("mcp", "--http", "127.0.0.1:0").sentence("--token-file")
    operator.cloister("mcp", "--token-file", "x").sentence("--http")
    operator.cloister("mcp", "--as", "a\nb").sentence("principal")
    operator.cloister("mcp", "--as", "a" * 300).sentence("principal")
