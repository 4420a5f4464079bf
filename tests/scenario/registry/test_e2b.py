"""E2B's API: its real SDK from npm uses sandboxes of a `cloister serve --e2b`, and strangers get nothing."""
import base64
import json
import os
import re
import shutil
import socket
import ssl
import threading
from contextlib import ExitStack, closing
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from egress_lab import needs_npm_module
from egress_world import NPM
from operators import SECONDS, TREE, wait_until
from service import Answer, Service

NODE = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")
PYTHON_SDK = os.environ.get("E2B_PYTHON")
AGENTS = [
    {"name": "base", "sandbox": True, "limits": {"time": "10m"}},
    {"name": "net", "sandbox": True, "policy": "one-name"},
    {"name": "web", "sandbox": True, "ports": [8000, 8080]},
    {"name": "closed", "command": ["true"]},
]


class E2b(Service):
    """A service with E2B's API, and a client of it."""

    def __init__(self, operator, *options):
        self.token_file = operator.home / "token"
        super().__init__(operator, "--e2b", "127.0.0.1:0", "--token-file", str(self.token_file), *options)
        self.post("/v1/policies", {"name": "one-name", "document": {
            "version": 1, "egress": [{"allow": "only.example"}]}}).ok(201)
        for agent in AGENTS:
            self.post("/v1/agents", agent).ok(201)
        self.port = int(re.search(r"E2B's API is at https://127\.0\.0\.1:(\d+)", self.log())[1])

    @property
    def key(self):
        return self.token_file.read_text().strip()

    def rest(self, method, path, body=None, **headers):
        context = ssl.create_default_context(cadata=self.certificate())
        client = HTTPSConnection("127.0.0.1", self.port, context=context, timeout=SECONDS)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        with closing(client):
            client.request(method, path, body, headers)
            return Answer(client.getresponse())

    def create(self, **more):
        return self.rest("POST", "/sandboxes", {"templateID": "base", **more}, X_API_Key=self.key).ok(201)


@pytest.fixture
def e2b(operator):
    service = E2b(operator)
    yield service
    assert service.stop() == 0, service.log()


class Canary(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()


@pytest.mark.skipif(NODE is None, reason="there is no node")
@needs_npm_module("e2b")
def test_real_sdk(operator, e2b):
    canary = operator.file("canary", "of the host")
    server = HTTPServer(("127.0.0.1", 0), Canary)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    script = shutil.copy(TREE / "tests/scenario/e2b_sdk.mjs", operator.base / "e2b_sdk.mjs")
    done = operator.do(NODE, "--test", "--test-reporter=tap", str(script), seconds=4 * SECONDS, env={
        "E2B_FROM": str(NPM), "E2B_API_URL": f"https://127.0.0.1:{e2b.port}", "E2B_API_KEY": e2b.key,
        "E2B_SANDBOX_URL": f"https://127.0.0.1:{e2b.port}", "CANARY": str(canary),
        "E2B_CA": e2b.certificate(),
        "CANARY_PORT": str(server.server_address[1]),
        "NODE_EXTRA_CA_CERTS": str(operator.file("ca.pem", e2b.certificate()))})
    server.shutdown()
    assert done.status == 0 and re.search(r"^# skipped 0$", done.out, re.M), done.out + done.err


@pytest.mark.skipif(PYTHON_SDK is None, reason="E2B_PYTHON names no folder with E2B's Python SDK (PyPI's `e2b`) and what it imports")
def test_real_python_sdk(operator, e2b):
    script = shutil.copy(TREE / "tests/scenario/e2b_sdk.py", operator.base / "e2b_sdk.py")
    done = operator.do("/usr/bin/python3", str(script), seconds=6 * SECONDS, cwd=operator.base, env={
        "PYTHONPATH": PYTHON_SDK, "E2B_API_URL": f"https://127.0.0.1:{e2b.port}", "E2B_API_KEY": e2b.key,
        "E2B_VALIDATE_API_KEY": "false", "E2B_SANDBOX_URL": f"https://127.0.0.1:{e2b.port}",
        "SSL_CERT_FILE": str(operator.file("ca.pem", e2b.certificate()))})
    assert done.status == 0 and done.out.startswith("ok Sandbox: create"), done.out + done.err


def frame(message):
    """A message of Connect's streams."""
    text = json.dumps(message).encode()
    return b"\0" + len(text).to_bytes(4, "big") + text


def frames(data):
    """Those of a response: (flags, message)."""
    while data:
        size = int.from_bytes(data[1:5], "big")
        yield data[0], json.loads(data[5:5 + size])
        data = data[5 + size:]


class Box:
    """A sandbox, as the Python SDK uses it: the same messages, and watches that it polls."""

    def __init__(self, e2b, **more):
        self.e2b = e2b
        made = e2b.create(**more)
        self.id, self.token = made["sandboxID"], made["envdAccessToken"]

    def ask(self, method, path, body=None, id=None, **headers):
        return self.e2b.rest(method, path, body, E2b_Sandbox_Id=id or self.id, X_Access_Token=self.token, **headers)

    def rpc(self, name, message):
        return self.ask("POST", name, message)

    def start(self, *command, body=None, **headers):
        message = {"process": {"cmd": command[0], "args": list(command[1:])}, "stdin": False} if command else None
        return self.ask("POST", "/process.Process/Start", frame(message) if body is None else body,
                        Content_Type="application/connect+json", **headers)

    def kill(self):
        assert self.e2b.rest("DELETE", f"/sandboxes/{self.id}", X_API_Key=self.e2b.key).status == 204


def test_strangers_get_nothing(operator, e2b):
    box = Box(e2b)
    for key in ({}, {"X_API_Key": "x" * 64}, {"X_API_Key": box.token}, {"Authorization": f"Bearer {e2b.key}"},
                {"E2b_Sandbox_Id": box.id, "X_Access_Token": box.token}):
        for method, path in (("GET", "/v2/sandboxes"), ("GET", f"/sandboxes/{box.id}"), ("DELETE", f"/sandboxes/{box.id}"),
                             ("GET", "/v1/agents"), ("GET", "/v1/cells")):
            answer = e2b.rest(method, path, **key)
            assert answer.status == 401 and answer.json["code"] == 401, (key, path, answer.data)
    # The service's own API is not behind this door, whatever the token.
    assert e2b.rest("GET", "/v1/agents", X_API_Key=e2b.key).status == 404
    # A sandbox's token is for that one, and the service's token for none.
    other = Box(e2b)
    for token in ("", "x", "0" * 64, other.token, e2b.key, box.token[:-1], box.token.upper()):
        for method, path in (("GET", "/health"), ("POST", "/process.Process/List"), ("GET", "/files?path=/etc/passwd")):
            answer = e2b.rest(method, path, {} if method == "POST" else None, E2b_Sandbox_Id=box.id, X_Access_Token=token)
            assert answer.status == 401, (token, path, answer.data)
    assert box.ask("GET", "/health").status == 204
    # Not without TLS, from a page, or under another name.
    plain = e2b.tcp("GET", "/health", tls=False)
    assert plain.status == 400 and plain.json["error"]["code"] == "tls", plain.data
    assert box.ask("GET", "/health", Origin="https://evil.example").status == 403
    assert box.ask("GET", "/health", Host=f"evil.example:{e2b.port}").status == 421
    for one in (box, other):
        one.kill()


def test_those_who_say_nothing_push_no_client_out(operator, e2b):
    """A client with a sandbox's token, which is nobody to the rest of the service, keeps its connection."""
    box = Box(e2b)
    context = ssl.create_default_context(cadata=e2b.certificate())
    ask = {"E2b-Sandbox-Id": box.id, "X-Access-Token": box.token}
    with closing(HTTPSConnection("127.0.0.1", e2b.port, context=context, timeout=SECONDS)) as known, ExitStack() as strangers:
        for i in range(400):
            if i % 100 == 0:
                known.request("GET", "/health", headers=ask)
                assert known.getresponse().read() == b""
                known.auto_open = 0         # it keeps its place
            strangers.enter_context(closing(socket.create_connection(("127.0.0.1", e2b.port), SECONDS)))
        # All of them were seen: others come in.
        assert box.ask("GET", "/health").status == 204
        known.request("GET", "/health", headers=ask)
        assert known.getresponse().status == 204
    box.kill()


def test_messages(operator, e2b):
    box = Box(e2b)
    events = list(frames(box.start("sh", "-c", "echo out; echo err >&2; exit 3").data))
    assert [next(iter(m["event"])) for _, m in events[:-1]] == ["start", "data", "data", "end"], events
    assert events[-2][1]["event"]["end"] == {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}
    assert events[-1] == (2, {})
    # The Python SDK leaves it to the server to end a stream in time.
    *_, late = frames(box.start("sleep", "1000", Connect_Timeout_Ms="100").data)
    assert late[0] == 2 and late[1]["error"]["code"] == "deadline_exceeded", late
    wait_until(lambda: box.rpc("/process.Process/List", {}).ok() == {"processes": []}, "the command is killed")
    for body in (b"", b"\0\0\0", frame({})[:-1], frame({}) + b"x", b"\1" + frame({})[1:], frame({}), frame([]), frame({"process": {}}),
                 frame({"process": {"cmd": "sh", "args": [1]}}), frame({"process": {"cmd": "sh", "envs": {"A=": "b"}}}),
                 b"\0\xff\xff\xff\xff{}", frame({"process": {"cmd": "sh"}, "pty": {"size": {"cols": 0, "rows": 1}}})):
        answer = box.start(body=body)
        (flags, end), = frames(answer.data)
        assert answer.status == 200 and flags == 2 and end["error"]["code"] in ("invalid_argument", "unimplemented"), (body, end)
    assert box.rpc("/filesystem.Filesystem/Stat", {"path": ""}).json["code"] == "invalid_argument"
    assert box.rpc("/filesystem.Filesystem/Stat", {"path": "/none"}).json["code"] == "not_found"
    # A form whose parts are no parts.
    form = {"Content_Type": "multipart/form-data; boundary=b"}
    for body in (b"", b"--b", b"--b\r\n", b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--',
                 b'--b\r\nContent-Disposition: form-data; name="file"; filename="/tmp/f"\r\n\r\nx'):
        assert box.ask("POST", "/files", body, **form).status == 400, body
    whole = b'--b\r\nContent-Disposition: form-data; name="file"; filename="/tmp/f"\r\n\r\n%s\r\n--b--\r\n'
    for data in (b"", b"x", b"\r\n--", b"\r\n--c\r\n\r\n", b"--b"):
        assert box.ask("POST", "/files", whole % data, **form).ok() == [{"name": "f", "type": "file", "path": "/tmp/f"}]
        assert box.ask("GET", "/files?path=/tmp/f").data == data
    # A watch that is polled.
    assert box.rpc("/filesystem.Filesystem/MakeDir", {"path": "/tmp/w"}).status == 200
    watch = box.rpc("/filesystem.Filesystem/CreateWatcher", {"path": "/tmp/w"}).ok()
    box.ask("POST", "/files?path=/tmp/w/new", b"x", Content_Type="application/octet-stream").ok()
    seen = []

    def look():
        seen.extend(box.rpc("/filesystem.Filesystem/GetWatcherEvents", watch).ok()["events"])
        return {"name": "new", "type": "EVENT_TYPE_WRITE"} in seen
    wait_until(look, "the change is seen")
    assert seen[0] == {"name": "new", "type": "EVENT_TYPE_CREATE"}
    assert box.rpc("/filesystem.Filesystem/RemoveWatcher", watch).status == 200
    assert box.rpc("/filesystem.Filesystem/GetWatcherEvents", watch).json["code"] == "not_found"
    box.kill()
    assert box.ask("GET", "/health").status == 502
    assert box.rpc("/process.Process/List", {}).json["code"] == "unavailable"


def test_forged_changes(operator, e2b):
    """The agent can write into the pipe of init's own program: what comes there twice, or too early, ends that watch alone."""
    box = Box(e2b)
    forge = """for p in /proc/[0-9]*; do grep -q ^cloister-watch $p/cmdline && pid=${p#/proc/}; done 2>/dev/null
            printf '{"change":"watching"}\\n' >/proc/$pid/fd/1"""
    watch = box.rpc("/filesystem.Filesystem/CreateWatcher", {"path": "/tmp"}).ok()
    box.start("sh", "-c", forge)
    wait_until(lambda: box.rpc("/filesystem.Filesystem/GetWatcherEvents", watch).status == 500, "the watch is over")
    assert box.rpc("/filesystem.Filesystem/RemoveWatcher", watch).status == 200
    # A stream of it.
    ended = []
    follows = threading.Thread(target=lambda: ended.extend(frames(box.ask(
        "POST", "/filesystem.Filesystem/WatchDir", frame({"path": "/tmp"}), Content_Type="application/connect+json").data)))
    follows.start()
    wait_until(lambda: b"stdout" in box.start("sh", "-c", "grep -l ^cloister-watch /proc/[0-9]*/cmdline").data, "it watches")
    box.start("sh", "-c", forge)
    follows.join(SECONDS)
    assert ended and ended[-1][1]["error"]["code"] == "internal", ended
    box.kill()


def test_anybodys_uploads(operator, e2b):
    """A signature is judged when its body is there: until then it is nobody's, and few and bounded."""
    path = "/files?path=/tmp/f&username=user&signature=v1_forged"
    assert e2b.rest("POST", path, b"x").status == 401
    context = ssl.create_default_context(cadata=e2b.certificate())
    clients = [HTTPSConnection("127.0.0.1", e2b.port, context=context, timeout=SECONDS) for _ in range(17)]
    for client in clients:
        client.putrequest("POST", path)
        client.putheader("Content-Length", str(64 << 20))
        client.putheader("Expect", "100-continue")
        client.endheaders()
        if client is not clients[-1]:
            # It may go on.
            assert client.sock.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert Answer(clients[-1].getresponse()).status == 429
    for client in clients:
        client.close()
    wait_until(lambda: e2b.rest("POST", path, b"x").status == 401, "their places are free")
    assert e2b.rest("POST", path, Content_Length=str(65 << 20)).status == 413


def test_agent_key(operator):
    """A key with an agent's rights has its own sandboxes, and does not see an operator's."""
    file = operator.home / "agent-token"
    e2b = E2b(operator, "--agent-token-file", str(file))
    key = file.read_text().strip()
    box = Box(e2b)
    assert e2b.rest("GET", f"/sandboxes/{box.id}", X_API_Key=key).status == 404
    assert e2b.rest("GET", "/v2/sandboxes", X_API_Key=key).ok() == []
    assert e2b.rest("DELETE", f"/sandboxes/{box.id}", X_API_Key=key).status == 404
    own = e2b.rest("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=key).ok(201)["sandboxID"]
    assert [one["sandboxID"] for one in e2b.rest("GET", "/v2/sandboxes", X_API_Key=key).ok()] == [own]
    assert {one["sandboxID"] for one in e2b.rest("GET", "/v2/sandboxes", X_API_Key=e2b.key).ok()} == {own, box.id}
    assert e2b.rest("DELETE", f"/sandboxes/{own}", X_API_Key=key).status == 204
    box.kill()
    assert e2b.stop() == 0, e2b.log()


def test_service_comes_back(operator):
    """The sandbox, its token and its variables stay; its commands were the service's."""
    e2b = E2b(operator)
    box = Box(e2b, envVars={"WHO": "kept"}, timeout=300)
    e2b.stop(9)
    e2b.start()
    e2b.port = int(re.search(r"E2B's API is at https://127\.0\.0\.1:(\d+)", e2b.log())[1])
    events = list(frames(box.start("sh", "-c", "echo $WHO").data))
    assert len(events) > 1, events
    assert events[1][1]["event"]["data"] == {"stdout": "a2VwdAo="}, events
    assert box.rpc("/process.Process/List", {}).ok() == {"processes": []}
    box.kill()
    assert e2b.stop() == 0, e2b.log()


def test_records(operator, e2b):
    """Who did it is in the cell's timeline, and who made it in the operator's."""
    box = Box(e2b, timeout=100)
    cell = e2b.get(f"/v1/dispatches/{box.id}").ok()["cell"]
    box.start("true", "of-e2b")
    records = [json.loads(line) for line in operator.cloister("events", cell, "--json").out.splitlines()]
    ran = [r for r in records if r.get("argv") == ["true", "of-e2b"] and "by" in r]
    assert ran and ran[0]["by"] == f"sandbox {box.id}", records
    assert any("ttl" in (r.get("did"), r["type"]) and r.get("by") == "token operator" for r in records), records
    box.kill()
    acts = e2b.get("/v1/audit/operator?follow=false").data.decode()
    assert all(word in acts for word in ("dispatch.asked", "cell.ttl", "dispatch.cancelled")), acts


def test_a_follower_that_reads_nothing(operator, e2b):
    """Its command waits, and the service gathers nothing for it."""
    box = Box(e2b)
    context = ssl.create_default_context(cadata=e2b.certificate())
    with closing(HTTPSConnection("127.0.0.1", e2b.port, context=context, timeout=SECONDS)) as client:
        client.request("POST", "/process.Process/Start", frame({"process": {"cmd": "dd", "args": [
            "if=/dev/zero", "bs=64k", "count=4000", "status=none"]}}), {
            "Content-Type": "application/connect+json", "E2b-Sandbox-Id": box.id, "X-Access-Token": box.token})
        assert client.getresponse().status == 200
        written = []

        def is_still():
            said = list(frames(box.start("sh", "-c", "for p in /proc/[0-9]*; do read name <$p/comm; echo $name; [ $name != dd ] || io=$p/io; done; grep wchar $io").data))
            out = b"".join(base64.b64decode(m["event"]["data"].get("stdout", "")) for _, m in said
                           if "data" in m.get("event", {})).decode()
            assert "dd" in out.split(), "it went on to its end"
            written.append(out.splitlines()[-1])
            return len(written) > 10 and len(set(written[-10:])) == 1
        wait_until(is_still, "dd waits")
    box.kill()
