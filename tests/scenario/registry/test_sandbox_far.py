"""Sandboxes of a pool: a worker has the cell, and the service carries commands, terminals, files and ports to it."""
import json
import os
import re
import shutil
import signal
import urllib.request

import pytest

import dispatches
import postgres_store
from egress_lab import needs_npm_module
from egress_world import NPM
from operators import SECONDS, TREE, as_one, wait_until
from sandboxes import OCTETS, Box
from service import Service
from test_e2b import E2b, NODE
from test_far import ps
from test_lend import set_row
from test_link import Worker, joined, port_of
from test_sandbox_terminal import AGENT, Seat

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
POOL = "pool:p"


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def service(operator):
    service = Service(operator, "--workers", "127.0.0.1:0")
    service.post("/v1/agents", {"name": "box", "sandbox": True, "target": POOL}).ok(201)
    yield service
    if service.process.poll() is None:
        service.stop()


@pytest.fixture
def far(operator, machines, service):
    """A sandbox of a pool, the worker that has it, and that worker's machine."""
    machine = machines()
    worker = joined(operator, machine)
    box = Box(service)
    yield box, worker, machine
    if worker.process.poll() is None:
        box.kill()
        assert worker.end() == 0, worker.log()


def refused(answer, status, code, *words):
    said = answer.json["error"]
    assert (answer.status, said["code"]) == (status, code) and all(w in said["message"] for w in words), answer.data


def test_commands(operator, far):
    box, _, machine = far
    cell = box.status()["cell"]
    assert cell in ps(machine) and ps(operator)[cell]["machine"]
    assert box.exec("sh", "-c", "cat; echo $WHO $(pwd); echo e >&2; exit 4", input="é\n", env={"WHO": "me"}, cwd="/tmp") == \
        (4, "é\nme /tmp\n", "e\n")
    assert box.exec("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")[1] == "x" * 3_000_000
    refused(box.ask("POST", "exec", {"command": ["no-such-program"]}), 400, "invalid", "no such command")
    # Input, step by step, a terminal with its size, and signals.
    client, response, id = box.open("sh", "-c", "stty size; read a; echo got $a; exec sleep 1000", tty={"rows": 33, "columns": 101})
    said = ""

    def expect(part):
        nonlocal said
        while part not in said:
            event = json.loads(response.readline())
            said += event.get("text", "")
            assert event["event"] == "exec.output", (event, said)
    expect("33 101")
    assert box.ask("POST", f"exec/{id}/resize", {"rows": 40, "columns": 90}).status == 204
    assert box.ask("POST", f"exec/{id}/input", b"one\r", OCTETS).status == 204
    expect("got one")
    assert box.ask("POST", f"exec/{id}/signal", {"signal": "KILL"}).status == 204
    while (event := json.loads(response.readline()))["event"] == "exec.output":
        pass
    assert event["exit_code"] == 137, event
    client.close()
    # A client that hangs up leaves nothing behind.
    client, response, _ = box.open("sleep", "1000")
    client.close()
    response.close()
    wait_until(lambda: "sleep" not in box.sh("cat /proc/[0-9]*/comm 2>/dev/null; true").split(), "it is killed")
    answer = box.ask("POST", "exec", {"command": ["sleep", "1000"], "timeout": "100ms"})
    assert json.loads(answer.data.splitlines()[-1])["timed_out"], answer.data
    # The worker's own record names who asked: these tests are root.
    wait_until(lambda: any(e.get("argv") == ["sleep", "1000"] and e.get("by") == "uid 0" for e in map(
        json.loads, machine.cloister("events", "--json", cell).ok().splitlines())), "it is recorded there")


def test_files_and_ports(operator, far):
    box, _, _ = far
    data = os.urandom(3 << 20)
    assert box.write("/tmp/new/bin", data).status == 204 and box.read("/tmp/new/bin").data == data
    assert box.write("/tmp/empty", b"").status == 204 and box.read("/tmp/empty").data == b""
    assert [(e["name"], e["type"], e["size"]) for e in box.list("/tmp/new").ok()["entries"]] == [("bin", "file", len(data))]
    refused(box.read("/tmp/none"), 404, "not_found", "/tmp/none")
    # A file of the operator's is none of the cell's.
    assert box.read(operator.file("canary", "of the host")).status == 404
    client, response, _ = box.open("sh", "-c", "cd /tmp/new && exec python3 -m http.server -b 127.0.0.1 8000")
    port = box.ask("POST", "publish", {"port": 8000}).ok()["port"]

    def fetched():
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/bin").read() == data
        except OSError:
            return False
    wait_until(fetched, "the server in the cell answers")
    client.close()


def test_a_terminal(operator, far):
    box, _, _ = far
    service = box.service
    service.post("/v1/agents", {"name": "desk", "sandbox": True, "terminal": True, "target": POOL,
                                "command": ["/usr/bin/python3", "-Ic", AGENT]}).ok(201)
    desk = Box(service, "desk")
    wait_until(lambda: any(e["event"] == "agent.output" for e in dispatches.events(operator, desk.id)), "its first line")
    seat = Seat(service, desk.at("attach"), 33, 101)
    assert "\033[?2004h" in seat.expect("nobody saw this\r\n")
    seat.expect("33 101\r\n")
    seat.type("one\r")
    seat.expect("got one\r\n")
    seat.ask("resize", {"rows": 40, "columns": 90})
    seat.expect("40 90\r\n")
    seat.leave()
    again = Seat(service, desk.at("attach"))
    again.expect("got one\r\n")
    again.type("end\r")
    assert again.end()["exit_code"] == 7
    wait_until(lambda: desk.status()["state"] == "finished", "it has ended")


def test_its_end(operator, far):
    box, _, machine = far
    service = box.service
    short = Box(service, timeout="1s")
    other = Box(service)
    assert wait_until(lambda: (s := short.status())["state"] not in ("running", "starting") and s, "its time is over")["state"] == \
        "timed_out"
    other.kill()
    wait_until(lambda: set(ps(machine)) == {box.status()["cell"]} == set(ps(operator)), "nothing is left of them")
    refused(other.ask("POST", "exec", {"command": ["true"]}), 409, "over", other.id)


def test_agents_use_their_own(operator, far):
    box, _, _ = far
    own = Box(box.service, socket=box.service.agents)
    assert own.exec("echo", "mine")[1] == "mine\n"
    assert box.service.ask("POST", box.at("exec"), {"command": ["true"]}, socket=box.service.agents).status == 404
    own.kill()


def end_claim(operator, id):
    set_row(operator, id, "lease_ms = 1")


@as_one
def test_a_worker_that_dies(operator, far):
    box, worker, machine = far
    cell = box.status()["cell"]
    client, response, _ = box.open("sleep", "1000")
    worker.end(signal.SIGKILL)
    # A command ends with its connection; others find nobody who answers.
    assert json.loads(response.readline())["event"] == "exec.lost"
    client.close()
    assert box.ask("POST", "exec", {"command": ["true"]}).status >= 500
    # It comes back within its claim, and goes on.
    again = Worker(machine)
    again.says("connected to the service")
    wait_until(lambda: ps(operator)[cell]["state"] == "running", "it is here again")
    assert box.exec("echo", "still")[1] == "still\n"
    again.end(signal.SIGKILL)
    end_claim(operator, box.id)
    over = dispatches.await_over(operator, box.id)
    assert over["state"] == "failed" and "its worker was lost" in over["reason"], over
    refused(box.ask("POST", "exec", {"command": ["true"]}), 409, "over")
    assert machine.cloister("kill", cell).status == 0


@as_one
def test_the_service_comes_back(operator, far):
    box, worker, _ = far
    port = port_of(box.service)
    box.service.stop(signal.SIGKILL)
    again = Service(operator)
    box.service = again
    # Workers cannot reach this one.
    refused(box.ask("POST", "exec", {"command": ["true"]}), 503, "unavailable", box.id, "is not connected")
    again.stop()
    box.service = Service(operator, "--workers", f"127.0.0.1:{port}")
    wait_until(lambda: box.status()["cell"] in ps(operator), "its worker is back")
    assert box.exec("echo", "again")[1] == "again\n"
    box.kill()
    assert worker.end() == 0
    box.service.stop()


@pytest.mark.skipif(NODE is None, reason="there is no node")
@needs_npm_module("e2b")
@as_one
def test_the_sdk_of_e2b(operator, machines):
    """The same program as on this machine, with workers behind its templates."""
    e2b = E2b(operator, "--workers", "127.0.0.1:0")
    e2b.post("/v1/agents", {"name": "base", "sandbox": True, "limits": {"time": "10m"}, "target": POOL}).ok(201)
    machine = machines()
    worker = joined(operator, machine, "--slots", "32")
    script = shutil.copy(TREE / "tests/scenario/e2b_sdk.mjs", operator.base / "e2b_sdk.mjs")
    done = operator.do(NODE, "--test", "--test-reporter=tap", str(script), seconds=4 * SECONDS, env={
        "E2B_FROM": str(NPM), "E2B_API_URL": f"https://127.0.0.1:{e2b.port}", "E2B_API_KEY": e2b.key,
        "E2B_SANDBOX_URL": f"https://127.0.0.1:{e2b.port}", "CANARY": str(operator.file("canary", "of the host")),
        "CANARY_PORT": "9", "NODE_EXTRA_CA_CERTS": str(operator.file("ca.pem", e2b.certificate()))})
    assert done.status == 0 and re.search(r"^# skipped 0$", done.out, re.M), done.out + done.err
    assert {d["target"] for d in dispatches.all_of(operator)} >= {POOL}
    assert worker.end() == 0 and e2b.stop() == 0, e2b.log()
