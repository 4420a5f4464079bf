"""Dispatches on the target docker do what they do on local: one table of scenarios for both."""
import hashlib
import json
import os
import shutil
import signal
import socket
from contextlib import closing
from pathlib import Path

import engines
import pytest
from dispatches import agent, all_of, await_over, await_state, capability, detach, dispatch, events, policy, register, show
from operators import wait_until
from sandboxes import Box
from service import Service, read_all
from test_docker import supervisor_of

# `make test` has a part of it; `make test-docker` the whole table.
IS_WHOLE = len(engines.KINDS) > 1
TARGETS = ["local", *engines.KINDS] if IS_WHOLE else engines.KINDS


@pytest.fixture(params=TARGETS)
def target(request, engines_of):
    return None if request.param == "local" else engines_of(request.param)


@pytest.fixture
def who(target):
    return "root" if target is None else target.who


@pytest.fixture
def on(operator, target):
    """The words of a dispatch there.  Nothing may be left in the engine."""
    if target is None:
        yield ["--target", "local", "--image", ""]
        return
    operator.env["DOCKER_HOST"] = f"unix://{target.socket}"
    yield ["--target", "docker", "--image", engines.IMAGE]
    assert target.containers() == {}


def output(operator, on):
    agent(operator, "x", "echo out; echo err >&2; exit 3")
    done = dispatch(operator, "x", *on)
    assert (done.status, done.out) == (3, "out\n") and "err\n" in done.err
    d = show(operator, all_of(operator)[0]["id"])
    assert d["state"] == "finished" and d["exit_code"] == 3
    kinds = [e["kind"] for e in events(operator, d["id"])]
    assert kinds[-1] == "dispatch.finished" and "worker.boot" in kinds and "agent.output" in kinds


def result(operator, on):
    agent(operator, "x", "mkdir /out/a; cat >/out/a/f; ln -s /etc /out/link")
    id = detach(operator, "x", "--input", operator.file("input", "given"), *on)
    await_over(operator, id)
    assert operator.cloister("dispatches", "files", id, "a/f").ok() == "given"
    assert show(operator, id)["result"]["files"]["skipped"] == 1


def granted(operator, on):
    capability(operator, "b", {"setup.sh": "#!/bin/sh\necho b >>/tmp/order\n", "file": "text\n"})
    capability(operator, "a", {"agora-setup.sh": "#!/bin/sh\necho a >>/tmp/order\n"})
    register(operator, "env", "e", values={"LOG_LEVEL": "info"})
    agent(operator, "x", "cat /tmp/order /capabilities/b/file; echo $LOG_LEVEL; touch /capabilities/b/x 2>/dev/null || "
          "echo no; ls /work /usr/bin/python3 2>/dev/null", capabilities=["b", "a"])
    assert dispatch(operator, "x", "--env", "e", *on).out == "b\na\ntext\ninfo\nno\n"


def refused(operator, on):
    policy(operator, "web", {"allow": "allowed.example"})
    agent(operator, "x", "wget -qO- http://refused.example/ 2>/dev/null || echo refused", policy="web")
    assert dispatch(operator, "x", *on).ok() == "refused\n"
    cell = show(operator, all_of(operator)[0]["id"])["cell"]
    assert "refused.example" in operator.cloister("events", cell).ok()


def limits(operator, on):
    if operator.is_root:
        agent(operator, "big", "head -c 200m /dev/zero | tail -c 200m >/dev/null", limits={"memory": "64M"})
        dispatch(operator, "big", *on)
        assert "memory" in json.dumps(show(operator, all_of(operator)[0]["id"])), "it is named"
    agent(operator, "long", "sleep 1000", limits={"time": "1s"})
    dispatch(operator, "long", *on)
    assert show(operator, all_of(operator)[0]["id"])["state"] == "timed_out"


def secret(operator, on):
    operator.cloister("secret", "init").ok()
    operator.cloister("secret", "add", "TOKEN", "--host", "allowed.example", input="the-real-value-of-it").ok()
    policy(operator, "web", {"allow": "allowed.example"})
    agent(operator, "x", 'test -n "$TOKEN" && env | grep -c the-real', secrets=["TOKEN"], policy="web")
    assert dispatch(operator, "x", *on).out == "0\n"


def cancelled(operator, on):
    agent(operator, "x", "echo begun; sleep 1000")
    id = detach(operator, "x", *on)
    await_state(operator, id, "running")
    cell = wait_until(lambda: show(operator, id)["cell"], "it has a cell")
    if operator.is_root:
        wait_until(lambda: operator.cloister("freeze", cell).status == 0, "it is frozen")
        assert "frozen" in operator.cloister("ps").ok()
        operator.cloister("thaw", cell).ok()
    operator.cloister("dispatches", "cancel", id).ok()
    assert await_over(operator, id)["state"] == "cancelled"


def killed(operator, on):
    """Its supervisor is: the dispatch fails, and nothing runs any more."""
    agent(operator, "x", "echo begun; sleep 1000")
    id = detach(operator, "x", *on)
    wait_until(lambda: any(e["kind"] == "agent.output" for e in events(operator, id)), "it runs")
    cell = show(operator, id)["cell"]
    os.kill(supervisor_of(operator, cell), signal.SIGKILL)
    assert await_over(operator, id)["state"] == "failed"
    operator.run("--", "true").ok()


def crashed(operator, on):
    """The service is: the cell goes on, and the next service ends the dispatch."""
    agent(operator, "x", "echo begun; until [ -e /tmp/go ]; do sleep 0.05; done; exit 5")
    service = Service(operator)
    request = {"agent": "x", "target": on[1], "worker_image": on[3]}
    id = service.post("/v1/dispatches", request).ok(202)["id"]
    cell = wait_until(lambda: (d := service.get(f"/v1/dispatches/{id}").ok())["state"] == "running" and d["cell"], "it runs")
    service.stop(signal.SIGKILL)
    assert [c["cell"] for c in operator.cells()] == [cell]
    service.start()
    wait_until(lambda: operator.cloister("exec", cell, "--", "touch", "/tmp/go").status == 0, "it may end")
    end = wait_until(lambda: (d := service.get(f"/v1/dispatches/{id}").ok())["state"] not in ("queued", "running") and d,
                     "it has ended")
    assert (end["state"], end["exit_code"], end["attempts"]) == ("finished", 5, 1)
    assert service.stop() == 0, service.log()


def sandbox(operator, on):
    """Commands, files and ports are those of the container."""
    register(operator, "agent", "box", sandbox=True)
    service = Service(operator)
    box = Box(service, target=on[1], worker_image=on[3])
    assert box.write("/tmp/a/f", b"\x00given").status == 204 and box.read("/tmp/a/f").data == b"\x00given"
    assert [e["name"] for e in box.list("/tmp/a").ok()["entries"]] == ["f"]
    assert box.exec("sh", "-c", "cat; ls /usr/bin/python3 2>/dev/null; exit 3", input="in") == (3, "in", "")
    client, response, _ = box.open("sh", "-c", "while :; do echo answer | nc -l -p 8000; done")
    port = box.ask("POST", "publish", {"port": 8000}).ok()["port"]

    def ask():
        with closing(socket.create_connection(("127.0.0.1", port))) as sock:
            sock.shutdown(socket.SHUT_WR)
            return read_all(sock) == b"answer\n"
    wait_until(ask, "the server answers")
    client.close()
    response.close()
    box.kill()
    assert service.stop() == 0, service.log()


SCENARIOS = [granted, killed, *([sandbox, output, result, refused, limits, secret, cancelled, crashed] if IS_WHOLE else [])]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_dispatch(operator, target, on, scenario):
    scenario(operator, on)
    if target is not None:
        wait_until(lambda: target.containers() == {}, "its containers are gone")


def test_resolved_image(operator, target, on):
    """The image by its id: the container is made of that one, whatever has its name by then."""
    if target is None:
        return
    capability(operator, "c", {"setup.sh": "#!/bin/ash\n"})
    agent(operator, "x", "true", capabilities=["c"])
    dispatch(operator, "x", *on).ok()
    resolved = show(operator, all_of(operator)[0]["id"])["resolved"]
    assert resolved["image"] == {"name": engines.IMAGE, "digest": target.image_id()} and resolved["boundary"] == "docker"
    # The bytes of the command and of the interpreter.
    program = "sha256:" + hashlib.sha256(Path(shutil.which("busybox")).read_bytes()).hexdigest()
    assert resolved["programs"] == [{"path": f"/bin/{name}", "file": "/bin/busybox", "hash": program} for name in ("ash", "sh")]
    dispatch(operator, "x", "--target", "docker", "--image", "no-such-image:1").sentence("no-such-image")
    agent(operator, "strong", "true", boundary="microvm")
    dispatch(operator, "strong", *on).sentence("weaker")
    agent(operator, "hosts", "true", root="host")
    dispatch(operator, "hosts", "--target", "docker").sentence("minimal")


@pytest.mark.skipif(not IS_WHOLE, reason="`make test-docker` has it")
def test_a_changed_program(operator, target, on):
    """The engine's image is another one than the one that was resolved."""
    if target is None:
        return
    target.take("changed:1", ("changed", target.kind, 0o644, 0, 0))
    layer = Path(json.loads(target.ask("GET", "/images/changed:1/json"))["GraphDriver"]["Data"]["UpperDir"])
    agent(operator, "waiter", "until [ -e /tmp/go ]; do sleep 0.05; done")
    agent(operator, "x", "true")
    one = {"env": {"CLOISTER_CONCURRENCY": "1"}}
    cell = await_state(operator, detach(operator, "waiter", *on, **one), "running")["cell"]
    id = detach(operator, "x", "--target", "docker", "--image", "changed:1", **one)
    with (layer / "bin/busybox").open("ab") as out:
        out.write(b"\0")
    wait_until(lambda: operator.cloister("exec", cell, "touch", "/tmp/go").status == 0, "it may end")
    assert "'/bin/sh' is not the one that was resolved" in await_over(operator, id)["reason"]
