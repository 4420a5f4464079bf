"""What no well-behaved service does on demand: connections that break, answers that make no sense."""
import http.server
import json
import os
import socketserver
import sys
import threading

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import cloister
from cloister.client import _list_files
from cloister.events import parse
from cloister.transport import default_socket, path


class Stub(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers each request with the next of ANSWERS; remembers what it was asked."""
    daemon_threads = True

    def __init__(self, at, answers):
        self.answers, self.asked = list(answers), []
        super().__init__(at, Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.command, self.path, dict(self.headers), json.loads(body or "null")))
        self.server.answers.pop(0)(self)
        self.close_connection = True

    do_GET = do_POST = do_DELETE = handle_any

    def log_message(self, *_):
        pass

    def answer(self, status, type, data):
        self.send_response(status)
        self.send_header("Content-Type", type)
        self.end_headers()
        self.wfile.write(data)


def as_json(value, status=200):
    return lambda handler: handler.answer(status, "application/json", json.dumps(value).encode())


def hang_up(handler):
    pass


def events(*listed, rest=b""):
    data = b"".join(b"id: %d\ndata: %s\n\n" % (e["n"], json.dumps(e).encode()) for e in listed) + rest
    return lambda handler: handler.answer(200, "text/event-stream", data)


def event(n, name):
    return {"dispatch": "d1", "event": name, "n": n, "time": ""}


@pytest.fixture
def stub(tmp_path, monkeypatch):
    servers = []
    # A path from here, because the whole one may be too long for an address.
    monkeypatch.chdir(tmp_path)

    def make(*answers):
        server = Stub("serve.sock", answers)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return cloister.Client(socket=str(tmp_path / "serve.sock")), server
    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def test_answer_that_was_lost(stub):
    client, server = stub(as_json({"version": "x"}), hang_up, as_json({"id": "d1", "resolved": {"a": 1}}, 202))
    client.version()
    run = client.dispatch(subagent="a", env="e", input=b"\x00\xff", on_behalf_of="me", timeout="1m")
    assert run.id == "d1" and run.resolved == {"a": 1}
    first, second = (asked[3] for asked in server.asked[1:])
    assert first == second and len(first.pop("idempotency_key")) == 36
    assert first == {"agent": "a", "env": ["e"], "input_base64": "AP8=", "on_behalf_of": "me", "timeout": "1m"}


def test_events_go_on_behind_the_last(stub):
    all = [event(1, "dispatch.queued"), event(2, "cell.boot"), event(3, "agent.output"), event(4, "dispatch.finished")]
    client, server = stub(as_json({"id": "d1"}, 202), events(all[0], rest=b'data: {"ha'), hang_up, events(all[1]),
                          events(all[2], all[3], event(5, "never")))
    assert list(client.dispatch(subagent="a")) == all
    assert [asked[2].get("Last-Event-ID") for asked in server.asked[1:]] == [None, "1", "1", "2"]


def test_how_a_dispatch_ended(stub):
    end = {"id": "d1", "state": "timed_out", "exit_code": None, "reason": "it took over 1 s"}
    client, _ = stub(as_json({"id": "d1"}, 202), events(event(1, "dispatch.finished")), as_json(end), as_json("so far"))
    run = client.dispatch(subagent="a")
    with pytest.raises(cloister.CloisterError) as caught:
        run.exit_code
    assert (caught.value.code, caught.value.message, caught.value.dispatch) == ("timed_out", end["reason"], end)
    assert run.ended == end and run.stdout == '"so far"'


def test_errors_are_one_class(stub, tmp_path):
    error = {"code": "invalid", "message": "there is no such agent", "pointer": "/agent"}
    client, _ = stub(as_json({"error": error}, 404), as_json([], 500), lambda h: h.answer(200, "text/plain", b"{"))
    with pytest.raises(cloister.CloisterError) as caught:
        client.subagent.get("x")
    assert {k: getattr(caught.value, k) for k in error} == error and caught.value.status == 404
    for status in (500, None):
        with pytest.raises(cloister.CloisterError) as caught:
            client.subagent.get("x")
        assert (caught.value.code, caught.value.status) == ("protocol", status)
    with pytest.raises(cloister.CloisterError, match="cloister serve") as caught:
        cloister.Client(socket=str(tmp_path / "none")).version()
    assert caught.value.code == "unreachable"
    for wrong in ({"url": "ftp://x"}, {"url": "http://x/y"}, {"url": "http://x", "socket": "/y"}):
        with pytest.raises(cloister.CloisterError) as caught:
            cloister.Client(**wrong)
        assert caught.value.code == "invalid"


def test_path_that_is_too_long_for_an_address(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.chdir(long)
    server = Stub("serve.sock", [as_json({"version": "x"})])
    threading.Thread(target=server.handle_request, daemon=True).start()
    assert cloister.Client(socket=str(long / "serve.sock")).version() == {"version": "x"}
    server.server_close()


def test_events_are_parsed():
    text = ": hello\nid: 1\nevent: a\ndata: {\"x\":\"ü\"}\n\nid: 2\r\ndata:one\r\ndata: two\r\n\r\ndata: unfinished\n\n".encode()
    lines = text.splitlines(keepends=True)
    assert list(parse(lines[:-1])) == [("1", '{"x":"ü"}'), ("2", "one\ntwo")]
    assert list(parse(lines)) == [("1", '{"x":"ü"}'), ("2", "one\ntwo"), ("2", "unfinished")]


def test_files_paths_and_sockets():
    script = {"content": "#!/bin/sh\n", "executable": True}
    want = [{"path": "a/b", "content": "text"}, {"path": "c", "content_base64": "AP8="}, {"path": "setup.sh", **script}]
    assert _list_files({"a/b": "text", "c": b"\x00\xff", "setup.sh": script}) == want
    assert _list_files([{"path": "a/b", "content": "text"}, {"path": "c", "content": b"\x00\xff"},
                        {"path": "setup.sh", **script}]) == want
    with pytest.raises(cloister.CloisterError, match="'a' is neither"):
        _list_files({"a": 3})
    assert path(["agents", "a/../b", "x@y"]) == "/v1/agents/a%2F..%2Fb/x%40y"
    assert path(["cells"], {"all": True, "x": None, "y": "a b"}) == "/v1/cells?all=true&y=a+b"
    assert default_socket({"CLOISTER_RUNTIME_DIR": "/x"}, 0) == "/x/serve.sock"
    assert default_socket({}, 0) == "/run/cloister/serve.sock"
    assert default_socket({"XDG_RUNTIME_DIR": "/run/user/5"}, 5) == "/run/user/5/cloister/serve.sock"
    assert default_socket({}, 5) == "/tmp/cloister-5/serve.sock"
