"""`cloister mcp --http`: access, sessions of the older revisions, streams."""
import json
import socket
import time
from contextlib import closing

import pytest

from mcp_lab import ID, META, NEWEST, Http, Stand, call, events, message
from operators import SECONDS, wait_until
from service import crowd


@pytest.fixture
def stand(operator):
    stand = Stand(operator)
    yield stand
    stand.close()


@pytest.fixture
def server(operator, stand):
    return Http(operator)


# ---- who may come in

def test_the_token(operator, server):
    assert server.token_file.stat().st_mode & 0o777 == 0o600 and len(server.token) >= 32
    assert server.post(message("ping"), token=False)[0] == 401
    for wrong in ("Bearer x", f"Basic {server.token}", f"Bearer {server.token}x", "Bearer"):
        status, headers, _ = server.post(message("ping"), {"Authorization": wrong}, token=False)
        assert status == 401 and "Bearer" in headers["www-authenticate"]
    assert server.modern("server/discover")[0] == 200


def test_clients_without_a_token_keep_nobody_out(operator, server):
    """Nor do clients with something like a token and a body that never comes."""
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{server.port}\r\n"
    looks = (head + f"Authorization: Bearer {'a' * 16}.{'0' * 64}\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\nContent-Length: 9\r\n\r\n{")
    strangers = crowd(server.port, [head.encode()], [looks.encode()])
    began = time.monotonic()
    assert server.modern("server/discover")[0] == 200
    assert time.monotonic() - began < 5
    for sock in strangers:
        sock.close()


@pytest.mark.parametrize("headers, status", [
    ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
    ({"Origin": "http://localhost.evil.example"}, 403), ({"Host": "evil.example"}, 421),
    ({"Host": "localhost.evil.example:80"}, 421), ({"Origin": "http://localhost:8080"}, 200)])
def test_pages_of_a_browser(operator, server, headers, status):
    assert server.modern("server/discover", headers=headers)[0] == status


def test_unknown_paths(operator, server):
    assert server.ask("GET", path="/")[0] == 404
    assert server.ask("POST", message("ping"), server.TYPES, path="/mcp/x")[0] == 404
    for method in ("PUT", "PATCH", "OPTIONS", "GET", "DELETE"):
        status, headers, _ = server.ask(method)
        assert status == 405 and "POST" in headers["allow"], method


def test_types(operator, server):
    assert server.ask("POST", message("ping"), {"Accept": "*/*"})[0] == 415
    assert server.ask("POST", message("ping"), {"Content-Type": "application/json"})[0] == 406
    assert server.ask("POST", message("ping"), {**server.TYPES, "Accept": "application/json"})[0] == 406


def test_only_this_machine(operator):
    for address in ("0.0.0.0:0", "10.0.0.1:80", "x:1", "127.0.0.1:99999", ":1"):
        operator.cloister("mcp", "--http", address, "--token-file", "t").sentence("127.0.0.1")


# ---- the newest revision

def test_fields_must_agree_with_the_message(operator, server):
    good = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": "tools/call", "Mcp-Name": "list_agents"}
    asked = call("list_agents", _meta=META)
    assert server.post(asked, good)[0] == 200
    for name in good:
        status, _, said = server.post(asked, {k: v for k, v in good.items() if k != name})
        assert (status, said["error"]["code"], said["id"]) == (400, -32020, 1), name
        status, _, said = server.post(asked, {**good, name: "x"})
        assert (status, said["error"]["code"]) == (400, -32020), name


def test_no_session_is_made(operator, server):
    status, headers, said = server.modern("tools/list")
    assert status == 200 and "mcp-session-id" not in headers and said["result"]["resultType"] == "complete"
    status, _, said = server.modern("initialize", {"protocolVersion": NEWEST})
    assert (status, said["error"]["code"]) == (404, -32601)


def test_a_client_that_goes_away_cancels(operator, server, stand):
    client, response = server.open("POST", call("dispatch", {"agent": "echo"},
                                                _meta={**META, "progressToken": 1}),
                                   {**server.TYPES, "MCP-Protocol-Version": NEWEST,
                                    "Mcp-Method": "tools/call", "Mcp-Name": "dispatch"})
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-accel-buffering"] == "no"
    assert b"notifications/progress" in response.readline()
    assert stand.followed.wait(SECONDS)
    client.sock.shutdown(socket.SHUT_RDWR)
    client.close()
    wait_until(lambda: f"POST /v1/dispatches/{ID}/cancel" in stand.paths(), "it is cancelled")
    assert server.modern("server/discover")[0] == 200


def test_a_stream_has_the_answer_at_its_end(operator, server, stand):
    stand.finish.set()
    _, _, said = server.modern("tools/call", {"name": "dispatch", "arguments": {"agent": "echo"},
                                              "_meta": {**META, "progressToken": "p"}})
    assert [id for id, _ in said] == [None] * len(said)
    *progress, last = [json.loads(data) for _, data in said]
    assert {p["method"] for p in progress} == {"notifications/progress"}
    assert last["result"]["structuredContent"]["state"] == "finished"
    assert last["result"]["resultType"] == "complete"


def test_a_large_answer_on_a_stream(operator, server, stand):
    stand.finish.set()
    stand.answers[f"/v1/dispatches/{ID}/output"] = 200, "ü".encode() * 100_000
    _, _, said = server.modern("tools/call", {"name": "dispatch", "arguments": {"agent": "echo"}})
    result = json.loads(said[-1][1])["result"]["structuredContent"]
    assert len(result["stdout"].encode()) == 64 << 10 and result["stdout_truncated"] is True


# ---- sessions of the older revisions

@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_session(operator, server, version):
    fields = server.begin(version)
    assert len(fields["Mcp-Session-Id"]) >= 32
    assert server.post(message("ping"), fields)[2]["result"] == {}
    assert server.post(call("list_agents"), fields)[2]["result"]["isError"] is False
    # Without it, and with one that there is not.
    assert server.post(message("ping"))[0] == 400
    assert server.post(message("ping"), {"Mcp-Session-Id": "0" * 32})[0] == 404
    assert server.post(message("ping"), {**fields, "MCP-Protocol-Version": "1999-01-01"})[0] == 400
    assert server.ask("DELETE", headers=fields)[0] == 204
    assert server.post(message("ping"), fields)[0] == 404
    assert server.ask("DELETE", headers=fields)[0] == 404


def test_sessions_do_not_know_each_other(operator, server, stand):
    one, two = server.begin(), server.begin()
    client, response = server.open("POST", call("dispatch", {"agent": "echo"}, id=3),
                                   {**server.TYPES, **one})
    with closing(client):
        assert stand.followed.wait(SECONDS)
        assert server.post(message("notifications/cancelled", {"requestId": 3}, None), two)[0] == 202
        assert server.post(message("ping"), two)[0] == 200
        assert not any("cancel" in path for path in stand.paths())
        assert server.post(message("notifications/cancelled", {"requestId": 3}, None), one)[0] == 202
        wait_until(lambda: any("cancel" in path for path in stand.paths()), "it is cancelled")
        # The stream ends without an answer.
        assert "result" not in response.read().decode()


def test_many_sessions(operator, server):
    """The one that was silent the longest makes room."""
    first = server.begin()
    others = [server.begin() for _ in range(64)]
    assert server.post(message("ping"), first)[0] == 404
    assert server.post(message("ping"), others[0])[0] == 200
    assert server.post(message("ping"), others[-1])[0] == 200


def test_a_broken_connection_is_resumed(operator, server, stand):
    fields = server.begin()
    client, response = server.open("POST", call("dispatch", {"agent": "echo"}, id=3,
                                                _meta={"progressToken": 1}), {**server.TYPES, **fields})
    seen = []
    for id, data in events(line.decode().rstrip("\n") for line in response):
        seen.append(id)
        if len(seen) == 2:
            break
    assert data and seen[0].endswith("-0")
    client.sock.shutdown(socket.SHUT_RDWR)
    client.close()
    assert stand.followed.wait(SECONDS)
    stand.finish.set()
    # It goes on behind what was seen, on the same stream, to its end; and can be heard again.
    for _ in range(2):
        status, _, said = server.ask("GET", headers={**fields, "Accept": "text/event-stream",
                                                     "Last-Event-ID": seen[-1]})
        assert status == 200
        number = seen[-1].split("-")[0]
        assert [id for id, _ in said] == [f"{number}-{n}" for n in range(2, 2 + len(said))]
        assert json.loads(said[-1][1])["result"]["structuredContent"]["state"] == "finished"
    assert not any("cancel" in path for path in stand.paths())


def test_nothing_else_is_resumed(operator, server, stand):
    fields, other = server.begin(), server.begin()
    stand.finish.set()
    _, _, said = server.post(call("dispatch", {"agent": "echo"}), fields)
    last = said[0][0]
    for known, id in ((fields, "9-0"), (fields, "x"), (fields, "0-99"), (fields, last + "x"),
                      (fields, "-1--1"), (other, last)):
        assert server.ask("GET", headers={**known, "Last-Event-ID": id})[0] == 404, id
    assert server.ask("GET", headers={"Last-Event-ID": last})[0] == 405
    assert server.ask("GET", headers={"Mcp-Session-Id": "x", "Last-Event-ID": last})[0] == 404


# ---- hostile input

def repr_short(value):
    return repr(value)[:24]


@pytest.mark.parametrize("body, status", [
    (b"", 400), (b"x", 400), (b"[]", 400), (b"{}", 400), (b"[" * 100_000, 400),
    (b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]', 400), (b"\xff" * 10, 400),
    (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}', 200),
    (b" " * (2 << 20), 413)], ids=repr_short)
def test_hostile_bodies(operator, server, body, status):
    got, headers, said = server.post(body)
    assert got == status and "mcp-session-id" not in headers
    assert "error" in said
    assert server.modern("server/discover")[0] == 200


def test_hostile_bytes(operator, server):
    for data in (b"\0" * 100, b"GET /mcp HTTP/9.9\r\n\r\n", b"POST /mcp HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
                 b"A" * 100_000, b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"):
        with closing(socket.create_connection(("127.0.0.1", server.port), SECONDS)) as peer:
            try:
                peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
                answer = peer.recv(65536)
            except ConnectionError:
                answer = b""
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 5")
    assert server.modern("server/discover")[0] == 200
