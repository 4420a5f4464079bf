"""Who may use a sandbox, what is recorded of it, and when it ends."""
import json
import re
import signal
import socket
from contextlib import closing

import pytest

from operators import only_root, wait_until
from ports import check_idle_limit
from sandboxes import OCTETS, Box
from service import Service, read_all

CANARY = "canary"

SERVE = """
import socket, threading
def serve(c):
    data = b''
    while more := c.recv(1 << 16):
        data += more
        if data.endswith(b'.'): break
    c.sendall(b'%d' % len(data))
    c.close()
s = socket.create_server(("127.0.0.1", 8000))
print('ready', flush=True)
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""


def every_request(box):
    """(method, word, body, headers, query) of each request that uses the cell."""
    return [("POST", "exec", {"command": ["true"]}, None, {}), ("GET", "file", None, None, {"path": "/tmp/canary"}),
            ("PUT", "file", b"x", OCTETS, {"path": "/tmp/canary"}), ("GET", "folder", None, None, {"path": "/tmp"}),
            ("GET", "watch", None, None, {"path": "/tmp"}), ("POST", "publish", {"port": 80}, None, {}),
            ("POST", "exec/abcd2345/input", b"x", OCTETS, {}), ("POST", "exec/abcd2345/signal", {"signal": "KILL"}, None, {}),
            ("POST", "exec/abcd2345/resize", {"rows": 1, "columns": 1}, None, {})]


def test_who_may_use_it(operator):
    token = operator.home / "agents-token"
    service = Service(operator, "--listen", "127.0.0.1:0", "--agent-token-file", str(token))
    service.post("/v1/agents", {"name": "box", "sandbox": True, "limits": {"time": "10m"}}).ok(201)
    service.post("/v1/agents", {"name": "plain", "command": ["sleep", "1000"]}).ok(201)
    box = Box(service, timeout="20m")
    box.write("/tmp/canary", CANARY.encode())
    assert box.status()["resolved"]["limits"]["time"] == "10m"          # never longer
    # To an agent, the operator's sandbox does not exist; and no token is no agent's.
    for method, word, body, headers, query in every_request(box):
        answer = service.ask(method, box.at(word, **query), body, headers, socket=service.agents)
        answer.error(404, "not_found")
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        fields = headers or ({"Content-Type": "application/json"} if body is not None else {})
        assert service.tcp(method, box.at(word, **query), "wrong", fields, data).status == 401
        assert service.tcp(method, box.at(word, **query), token.read_text().strip(), fields, data).status == 404
    assert box.read("/tmp/canary").data == CANARY.encode()
    # An agent's own, which is nobody else's either, and whose ports stay in it.
    own = Box(service, socket=service.agents)
    assert own.sh("echo ran") == "ran\n"
    own.ask("POST", "publish", {"port": 80}).error(404, "not_found")
    # The registration decides, whoever asks.
    service.post("/v1/dispatches", {"agent": "plain", "sandbox": True}).error(403, "forbidden", "is no sandbox")
    plain = service.post("/v1/dispatches", {"agent": "plain"}).ok(202)["id"]
    for method, word, body, headers, query in every_request(box):
        answer = service.ask(method, box.at(word, **query).replace(box.id, plain), body, headers)
        answer.error(403, "forbidden", "`sandbox: true`")
    # A caller cannot bring what the operator does not grant.
    for more in ({"secrets": ["KEY"]}, {"capabilities": ["none"]}, {"worker_image": "no-such-image:1"}, {"boundary": "namespace"},
                 {"policy": "web"}, {"workspace": {"path": "/"}}):
        assert service.post("/v1/dispatches", {"agent": "box", "sandbox": True, **more}).status >= 400, more
    # Who did what is in the cell's record.
    seen = [r["event"] for r in service.get(f"/v1/cells/{own.status()['cell']}/timeline?type=cell&limit=50").ok()["records"]]
    assert any(e.get("did") == "exec" and re.fullmatch(r"uid \d+", e["by"]) and "echo ran" in " ".join(e["argv"]) for e in seen), seen
    wrong = {"exec": [{"command": []}, {"command": "ls"}, {"command": ["a"], "tty": {"rows": 0, "columns": 1}},
                      {"command": ["a"], "env": {"A=B": "x"}}, {"command": ["a"], "cwd": "tmp"}, {"comand": ["a"]},
                      {"command": ["a"], "timeout": "never"}, {"command": ["a"], "input": "x", "input_base64": "eA=="}],
             "publish": [{"port": 0}, {"port": 65536}, {}]}
    for word, bodies in wrong.items():
        for body in bodies:
            assert box.ask("POST", word, body).error(400, "invalid"), body
    service.post(f"/v1/dispatches/{plain}/cancel").ok()
    wait_until(lambda: service.get(f"/v1/dispatches/{plain}").ok()["state"] == "cancelled", "it has ended")
    own.kill()
    box.kill()
    assert service.stop() == 0, service.log()


@only_root
def test_ends_and_outlives(operator):
    """A sandbox outlives the service, is used again, and ends with its time, even if it is frozen."""
    service = Service(operator)
    service.post("/v1/agents", {"name": "box", "sandbox": True}).ok(201)
    box = Box(service)
    assert box.status()["resolved"]["limits"]["time"] == "1h"
    port = box.ask("POST", "publish", {"port": 9999}).ok()["port"]
    client, response, _ = box.open("sleep", "1000")
    service.stop(signal.SIGKILL)
    assert response.readline() == b""
    client.close()
    service.start()
    assert box.sh("echo again") == "again\n"
    with closing(socket.socket()) as sock:                              # ports end with the service
        assert sock.connect_ex(("127.0.0.1", port)) != 0
    # In a frozen cell nothing runs: a command is refused, one that runs times out.
    cell = box.status()["cell"]
    client, response, _ = box.open("sleep", "1000", timeout="1s")
    operator.cloister("freeze", cell).ok()
    assert box.ask("POST", "exec", {"command": ["true"]}).status == 409
    assert json.loads(response.readline())["timed_out"]
    client.close()
    operator.cloister("thaw", cell).ok()
    # A port of the cell where nobody listens, and one of a cell that is gone.
    port = box.ask("POST", "publish", {"port": 9999}).ok()["port"]
    with closing(socket.create_connection(("127.0.0.1", port))) as sock:
        assert read_all(sock) == b""
    service.post(f"/v1/cells/{cell}/ttl", {"ttl": "1s"}).ok()
    wait_until(lambda: box.status()["state"] in ("timed_out", "failed", "cancelled"), "its time is over")
    wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) != 0, "nobody listens")
    assert service.stop() == 0, service.log()


def test_without_any_program(operator):
    """A cell that has no programs has files all the same."""
    service = Service(operator)
    service.post("/v1/agents", {"name": "box", "sandbox": True, "root": "none"}).ok(201)
    box = Box(service)
    assert box.write("/tmp/a/b", CANARY.encode()).status == 204 and box.read("/tmp/a/b").data == CANARY.encode()
    assert [e["name"] for e in box.list("/tmp/a").ok()["entries"]] == ["b"]
    assert box.ask("POST", "exec", {"command": ["sh"]}).error(400, "invalid", "no such command")
    box.kill()
    assert service.stop() == 0, service.log()


@pytest.mark.parametrize("boundary", ["stream"])
def test_a_published_port_that_is_silent(operator):
    """Its hour is a second and a half in the mutant build."""
    operator.env["CLOISTER_OFF"] = "idle-hour"
    service = Service(operator)
    service.post("/v1/agents", {"name": "box", "sandbox": True}).ok(201)
    box = Box(service)
    client, response, _ = box.open("/usr/bin/python3", "-Ic", SERVE)
    assert json.loads(response.readline())["text"] == "ready\n"
    check_idle_limit(box.ask("POST", "publish", {"port": 8000}).ok()["port"])
    client.close()
    box.kill()
    assert service.stop() == 0, service.log()
