"""`cloister mcp` and the real service behind it: agents run in cells, and their results come back."""
import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcp_lab import Http, Stdio, call, message
from operators import SECONDS, descendants_of, is_alive, only_user, wait_until
from service import Service


@pytest.fixture
def service(operator):
    return Service(operator)


def register(operator, name, script, **more):
    text = json.dumps({"name": name, "command": ["sh", "-c", script], "description": f"does {name}", **more})
    return operator.cloister("agent", "register", operator.file(f"home/{name}.yaml", text)).ok()


def test_an_agent_is_dispatched(operator, service):
    register(operator, "worker", "cat; echo oops >&2; mkdir /out/a; printf 'x\\377' >'/out/a/b c'; exit 3")
    client = Stdio(operator, "--as", "joe@example.test")
    agents = client.tool("list_agents")["structuredContent"]["agents"]
    assert [(a["name"], a["description"]) for a in agents] == [("worker", "does worker")]
    done = client.tool("dispatch", {"agent": "worker", "input": "hello\n"},
                       _meta={"progressToken": 1})["structuredContent"]
    assert done["state"] == "finished" and done["exit_code"] == 3 and done["attempts"] == 1
    assert done["agent"] == "worker" and done["hash"] == agents[0]["hash"]
    assert (done["stdout"], done["stderr"]) == ("hello\n", "oops\n")
    assert [(f["path"], f["size"]) for f in done["files"]] == [("a/b c", 2)]
    assert {"its cell runs", "hello\n"} <= {s["params"]["message"] for s in client.aside}
    id = done["id"]
    assert client.tool("status", {"id": id})["structuredContent"]["exit_code"] == 3
    assert client.tool("output", {"id": id, "stream": "stderr"})["structuredContent"]["text"] == "oops\n"
    assert client.tool("output", {"id": id, "offset": 1, "max_bytes": 2})["structuredContent"]["text"] == "el"
    assert client.tool("result_files", {"id": id, "path": "a/b c"})["structuredContent"]["base64"] == "eP8="
    assert service.get(f"/v1/dispatches/{id}").ok()["principal"] == "joe@example.test"
    assert client.end() == 0


def test_unsupported_requests(operator, service):
    client = Stdio(operator)
    for tool, arguments in (("dispatch", {"agent": "nix"}), ("status", {"id": "nix"}),
                            ("output", {"id": "0" * 16}), ("result_files", {"id": "a/../../agents"}),
                            ("cancel", {"id": "nix"})):
        done = client.tool(tool, arguments)
        assert done["isError"] is True and "nix" in done["content"][0]["text"] or tool in (
            "output", "result_files"), (tool, done)


def test_cancelling(operator, service):
    register(operator, "sleeper", "echo up; sleep 1000")
    client = Stdio(operator)

    def state(id):
        return client.tool("status", {"id": id})["structuredContent"]["state"]

    def last():
        return service.get("/v1/dispatches").ok()["items"][0]["id"]
    # By its tool,
    id = client.tool("dispatch", {"agent": "sleeper", "wait": False})["structuredContent"]["id"]
    wait_until(lambda: state(id) == "running", "it runs")
    assert client.tool("cancel", {"id": id})["isError"] is False
    wait_until(lambda: state(id) == "cancelled", "it is cancelled")
    # which may be said again,
    assert client.tool("cancel", {"id": id})["structuredContent"]["state"] == "cancelled"
    # by giving up the request that waits,
    client.send(call("dispatch", {"agent": "sleeper"}, id="w", _meta={"progressToken": 1}))
    while client.read()["params"]["message"] != "up\n":
        pass
    client.send(message("notifications/cancelled", {"requestId": "w"}, None))
    wait_until(lambda: state(last()) == "cancelled", "it is cancelled")
    # and not by going.
    client.send(call("dispatch", {"agent": "sleeper"}, id="x", _meta={"progressToken": 1}))
    while client.read()["params"]["message"] != "up\n":
        pass
    assert client.end() == 0
    assert service.get(f"/v1/dispatches/{last()}").ok()["state"] in ("starting", "running")
    service.post(f"/v1/dispatches/{last()}/cancel").ok()
    wait_until(lambda: service.get(f"/v1/dispatches/{last()}").ok()["state"] == "cancelled", "it is over")


def test_the_same_key_is_the_same_dispatch(operator, service):
    register(operator, "quick", "echo once")
    client = Stdio(operator)
    ids = {client.tool("dispatch", {"agent": "quick", "idempotency_key": "k"})["structuredContent"]["id"]
           for _ in range(3)}
    assert len(ids) == 1


def words_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""                      # it has just ended


@contextmanager
def started_services():
    """Those that `cloister mcp` starts; they are ended afterwards."""
    def found():
        return [pid for pid in descendants_of(os.getpid())
                if b"cloister-serve\0" in words_of(pid)]
    try:
        yield found
    finally:
        for pid in found():
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not found(), "the service has ended")


@only_user
def test_a_wait_outlives_the_service(operator, service):
    """Killed, another is started, and goes on where it was."""
    work = operator.folder("work")
    register(operator, "slow", "echo up; while [ ! -e go ]; do sleep 0.02; done; echo done",
             workspace={"path": str(work), "mode": "rw"})
    client = Stdio(operator)
    client.send(call("dispatch", {"agent": "slow"}, id="w", _meta={"progressToken": 1}))
    while client.read()["params"]["message"] != "up\n":
        pass
    with started_services():
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait(SECONDS)
        operator.file("work/go")
        done = client.answer("w")["result"]["structuredContent"]
    assert done["state"] == "finished" and done["stdout"] == "up\ndone\n" and done["attempts"] == 1
    # What had been told was not told again.
    assert not {"it is queued", "its cell runs"} & {s["params"]["message"] for s in client.aside}


def test_over_http(operator, service):
    register(operator, "worker", "cat")
    server = Http(operator)
    fields = server.begin()
    status, _, said = server.post(call("dispatch", {"agent": "worker", "input": "hi"}), fields)
    assert status == 200
    assert json.loads(said[-1][1])["result"]["structuredContent"]["stdout"] == "hi"


def test_a_service_is_started(operator):
    """If none runs. It is independent, and ends by itself when no client needs it."""
    register(operator, "quick", "echo here")
    client = Stdio(operator)
    with started_services() as services:
        done = client.tool("dispatch", {"agent": "quick"})
        assert done["structuredContent"]["stdout"] == "here\n"
        [started] = services()
        assert b"idle-exit=60s" in words_of(started)
        assert client.end() == 0
        assert is_alive(started)
        # Another client finds it.
        again = Stdio(operator)
        assert again.tool("list_agents")["isError"] is False
        assert again.end() == 0
