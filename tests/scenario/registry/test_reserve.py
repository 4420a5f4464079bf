"""Slots in reserve: workers that are ready before a sandbox is asked for.  A reserve is over when nobody repeats it."""
import json
import time

import pytest

import postgres_store
from operators import wait_until
from sandboxes import Box
from service import Service
from test_fleet import engine, serve, status, target  # noqa: F401

needs_postgres = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")


@pytest.fixture
def registry_place(request):
    return "sqlite" if request.node.originalname.endswith("_here") else "postgres"


def reserve(service, name, slots, agent="box", socket=None, **more):
    body = {"slots": slots, **({"agent": agent} if agent else {}), **more}
    return service.ask("PUT", f"/v1/reserves/{name}", body, socket=socket or service.agents)


def age(operator, name):
    """As if nobody had repeated it for a minute."""
    postgres_store.shared().run("psql", "-h", postgres_store.shared().folder, "-U", "cloister", "-d", operator.database, "-qc",
                                f"UPDATE cloister.reserves SET until_ms = until_ms - 61000 WHERE name = '{name}'")


@needs_postgres
def test_workers_are_ready(operator, engine, serve):
    """From none to those that are reserved; idle ones stay while they are, and leave then."""
    target(operator, engine, slots=2, workers={"max": 3})
    service = serve()
    service.post("/v1/agents", {"name": "box", "sandbox": True, "target": "far"}).ok(201)
    answer = reserve(service, "a", 3).ok()
    assert answer == {"name": "agents/a", "target": "pool:far", "slots": 3, "free": 0, "seconds": 60}
    wait_until(lambda: reserve(service, "a", 3).ok()["free"] == 3, "there are free slots")
    assert engine.made == 2 and status(operator)["reserved"] == 3 and status(operator)["free"] == 4
    assert "reserved   3 slots, 4 free\n" in operator.cloister("target", "show", "far").ok()
    assert service.get("/v1/targets/far").ok()["status"]["reserved"] == 3
    assert 'cloister_pool_reserved{pool="far"} 3' in service.get("/metrics").data.decode()
    item, = service.get("/v1/reserves").ok()["items"]
    assert 0 < item.pop("left_ms") <= 60000
    assert item == {"name": "agents/a", "target": "pool:far", "agent": "box", "slots": 3}
    # They would leave after a second: `idle`.
    first = set(engine.containers)
    looks = len(engine.asked)
    wait_until(lambda: len(engine.asked) > looks + 10, "time passes")
    assert set(engine.containers) == first
    # What is used comes on top of it.
    box = Box(service, socket=service.agents)
    wait_until(lambda: reserve(service, "a", 3).ok()["free"] == 3, "another slot is free")
    box.kill()
    age(operator, "agents/a")
    wait_until(lambda: not engine.containers, "they leave")
    assert status(operator)["reserved"] == 0 and service.get("/v1/reserves").ok() == {"items": []}
    # Once, and not with each renewal.
    noted = [json.loads(line)["event"] for line in operator.cloister("audit", "show", "--operator").ok().splitlines()]
    assert [(e["name"], e["agent"], e["slots"]) for e in noted if e["type"] == "reserve.changed"] == [("agents/a", "box", "3")]


@needs_postgres
def test_no_more_than_the_target_has(operator, engine, serve):
    target(operator, engine, slots=2, workers={"max": 2}, idle="1h")
    service = serve()
    service.post("/v1/agents", {"name": "box", "sandbox": True, "target": "far"}).ok(201)
    assert reserve(service, "big", 10000).ok()["slots"] == 4
    assert reserve(service, "small", 1).ok()["slots"] == 1
    wait_until(lambda: status(operator)["workers"] == 2, "all that it may have")
    # A large one takes nothing from a small one, and together they have no more than there is.
    wait_until(lambda: status(operator)["free"] == 4, "they are ready")
    assert [reserve(service, name, n).ok()["free"] for name, n in (("small", 1), ("big", 9))] == [1, 3]
    assert engine.made == 2
    # A reserve is no claim: whoever dispatches has the slots.
    boxes = [Box(service) for _ in range(4)]
    assert [reserve(service, name, n).ok()["free"] for name, n in (("small", 1), ("big", 9))] == [0, 0]
    for box in boxes:
        box.kill()
    assert reserve(service, "big", 0, agent=None).ok() == {"name": "agents/big", "target": None, "slots": 0, "free": 0, "seconds": 0}
    assert [i["name"] for i in service.get("/v1/reserves").ok()["items"]] == ["agents/small"]


@needs_postgres
def test_workers_that_somebody_started(operator, machines, serve):
    """Of a pool that no target has: the reserve starts nothing, and shows what is free."""
    service = serve()
    service.post("/v1/agents", {"name": "box", "sandbox": True, "target": "pool:own"}).ok(201)
    assert reserve(service, "a", 5).ok()["free"] == 0
    machine = machines()
    worker = machine.spawn(machine.program, "worker", "--pool", "own", "--slots", "2", "--idle", "1s")
    wait_until(lambda: reserve(service, "a", 5).ok()["free"] == 2, "it is seen")
    until = time.monotonic() + 3
    wait_until(lambda: time.monotonic() > until or worker.poll() is not None, "its idle time is over")
    assert worker.poll() is None and reserve(service, "a", 5).ok()["free"] == 2
    assert reserve(service, "a", 0).ok()["slots"] == 0
    assert worker.wait(60) == 0
    assert reserve(service, "a", 5).ok()["free"] == 0


def test_this_machine_here(operator):
    service = Service(operator, "--concurrency", "2")
    service.post("/v1/agents", {"name": "box", "sandbox": True}).ok(201)
    assert reserve(service, "a", 5).ok() == {"name": "agents/a", "target": "local", "slots": 2, "free": 2, "seconds": 60}
    box = Box(service)
    assert reserve(service, "a", 5).ok()["free"] == 1
    box.kill()
    # The operator's own have names of their own.
    assert reserve(service, "a", 1, socket=service.socket).ok()["name"] == "a"
    assert sorted((i["name"], i["slots"]) for i in service.get("/v1/reserves").ok()["items"]) == [("a", 1), ("agents/a", 2)]
    service.stop()


def test_what_is_refused_here(operator):
    token = operator.own(operator.file("token", "t" * 40))
    token.chmod(0o600)
    service = Service(operator, "--listen", "127.0.0.1:0", "--no-tls", "--agent-token-file", str(token))
    service.post("/v1/agents", {"name": "box", "sandbox": True}).ok(201)
    service.post("/v1/agents", {"name": "plain", "command": ["true"]}).ok(201)
    reserve(service, "a", 1, agent="plain").error(403, "forbidden", "is no sandbox")
    reserve(service, "a", 1, agent="none").error(404, "not_found", "no agent 'none'")
    reserve(service, "a", 1, agent=None).error(400, "invalid", "which agent?")
    reserve(service, "a", -1).error(400, "invalid", "'slots'")
    reserve(service, "a", 10001).error(400, "invalid", "'slots'")
    reserve(service, "a", "1").error(400, "invalid", "'slots'")
    reserve(service, "x" * 89, 1).error(400, "invalid", "the name of a reserve")
    reserve(service, "a%20b", 1).error(400, "invalid", "the name of a reserve")
    assert service.ask("GET", "/v1/reserves", socket=service.agents).status in (404, 405)
    answer = service.tcp("PUT", "/v1/reserves/a", "t" * 40, {"Content-Type": "application/json"}, '{"agent": "box", "slots": 1}', tls=False)
    answer.error(403, "forbidden", "over the service's sockets only")
    assert service.get("/v1/reserves").ok() == {"items": []}
    for i in range(128):
        reserve(service, f"n{i}", 1).ok()
    reserve(service, "more", 1).error(507, "no_space", "there are 128 reserves already")
    # Agents leave some to the operator.
    for i in range(128):
        reserve(service, f"n{i}", 1, socket=service.socket).ok()
    reserve(service, "more", 1, socket=service.socket).error(507, "no_space", "there are 256 reserves already")
    reserve(service, "n7", 2).ok()
    reserve(service, "n7", 0).ok()
    reserve(service, "more", 1).ok()
    assert len(service.get("/v1/reserves").ok()["items"]) == 256
    service.stop()
