"""Targets on real engines: a swarm of two nodes, and one Docker Engine, each with the image of `make image`."""
import json

import pytest

import dispatches
import fake_ecs
import postgres_store
import swarm_lab
from operators import BUILD, wait_until
from service import Service
from swarm_lab import IMAGE

pytestmark = [
    pytest.mark.skipif(swarm_lab.missing() is not None, reason=str(swarm_lab.missing())),
    pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql"),
]
SLEEP = ["/usr/bin/busybox", "sleep", "10000"]


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def who():
    return "root"


@pytest.fixture
def serve(operator):
    started = []

    def serve(*options):
        started.append(Service(operator, *options))
        return started[-1]
    yield serve
    for service in started:
        if service.process.poll() is None:
            service.stop()


@pytest.fixture
def target(operator, swarm):
    """Registers the target `far` at the swarm; its services are removed afterwards."""
    def target(engine="swarm", own=None, **members):
        name = f"store-{operator.database}"
        swarm.secret(name, swarm.store(operator.database))
        own = {"host": f"unix://{swarm.nodes[0].socket}", "network": "host", "hostProc": True, **(own or {})}
        dispatches.register(operator, "target", "far", **{"engine": "swarm", "image": IMAGE, "idle": "1s", "slots": 2,
                                                          "secrets": {"CLOISTER_STORE": name}, "swarm": own, **members})
    yield target
    swarm.clear()


def status(operator):
    return json.loads(operator.cloister("target", "show", "--json", "far").ok())["status"] or {}


def asked(operator, *words):
    return dispatches.detach(operator, "--target", "far", *words, "worker")


def is_calm(operator):
    found = status(operator)
    return (found.get("workers"), found.get("error")) == (0, None)


def test_from_zero_to_a_result_and_back(operator, swarm, serve, target):
    dispatches.register(operator, "agent", "worker", command=["/usr/bin/busybox", "echo", "done"])
    target()
    serve()
    over = dispatches.await_over(operator, asked(operator))
    assert over["state"] == "finished", (over, status(operator))
    wait_until(lambda: not swarm.services(), "the worker leaves, and its service is removed")
    wait_until(lambda: is_calm(operator), "it is known to be gone")


def test_twenty_dispatches(operator, swarm, serve, target):
    dispatches.register(operator, "agent", "worker", command=["/usr/bin/busybox", "sleep", "1"])
    target(workers={"max": 3})
    serve()
    ids = [asked(operator) for _ in range(20)]
    most = 0
    while any(dispatches.show(operator, id)["state"] in ("queued", "starting", "running") for id in ids):
        most = max(most, len(swarm.services()))
    assert {dispatches.show(operator, id)["state"] for id in ids} == {"finished"}
    assert most == 3
    wait_until(lambda: not swarm.services(), "all leave")


def test_nothing_secret_is_shown(operator, swarm, serve, target):
    dispatches.register(operator, "agent", "worker", command=SLEEP)
    target()
    serve()
    id = asked(operator)
    dispatches.await_state(operator, id, "running")
    shown = json.dumps([swarm.services(), swarm.nodes[0].ask("GET", "/tasks")])
    assert swarm.store(operator.database) not in shown and "postgres" not in shown
    operator.cloister("dispatches", "cancel", id).ok()
    wait_until(lambda: not swarm.services(), "it leaves")


def test_a_service_that_starts_anew(operator, swarm, serve, target):
    dispatches.register(operator, "agent", "worker", command=SLEEP)
    target()
    service = serve()
    id = asked(operator)
    dispatches.await_state(operator, id, "running")
    before, = [one["ID"] for one in swarm.services()]
    service.process.kill()
    service.process.wait()
    # More to do than its slots: one more is started, and not two.
    more = [asked(operator) for _ in range(2)]
    serve()
    wait_until(lambda: len(swarm.services()) == 2 and status(operator)["workers"] == 2, "it finds its worker, and starts one more")
    assert before in [one["ID"] for one in swarm.services()]
    for one in (id, *more):
        operator.cloister("dispatches", "cancel", one).ok()
    wait_until(lambda: not swarm.services(), "they leave")


def test_dockerd_starts_anew(operator, swarm, serve, target):
    """The manager's dockerd, while a worker runs on the other node: it is found again, and no second one is started."""
    dispatches.register(operator, "agent", "worker", command=SLEEP)
    swarm.set_availability(swarm.nodes[0], "pause")
    target()
    serve()
    id = asked(operator)
    dispatches.await_state(operator, id, "running")
    before, = [one["ID"] for one in swarm.services()]
    swarm.nodes[0].stop()
    try:
        more = [asked(operator) for _ in range(2)]
        wait_until(lambda: status(operator).get("error"), "the error is known")
    finally:
        swarm.nodes[0].start()
    wait_until(lambda: status(operator).get("workers") == 2, "it counts again, and starts one more")
    assert len(swarm.services()) == 2 and before in [one["ID"] for one in swarm.services()]
    swarm.set_availability(swarm.nodes[0], "active")
    for one in (id, *more):
        operator.cloister("dispatches", "cancel", one).ok()
    wait_until(lambda: not swarm.services(), "they leave")


def test_a_node_is_lost(operator, swarm, serve, target):
    """Its dispatch is run again elsewhere, since it may be."""
    dispatches.register(operator, "agent", "worker", command=["/usr/bin/busybox", "sleep", "15"])
    swarm.set_availability(swarm.nodes[0], "pause")
    target()
    serve()
    id = asked(operator, "--retries", "2")
    dispatches.await_state(operator, id, "running")
    swarm.nodes[1].stop(kill=True)
    swarm.set_availability(swarm.nodes[0], "active")
    try:
        over = dispatches.await_over(operator, id)
        assert over["state"] == "finished" and over["attempts"] == 2
        wait_until(lambda: not swarm.services(), "nothing is left of the lost one")
    finally:
        swarm.nodes[1].start()
        wait_until(lambda: len(swarm.ready()) == 2, "the node is back")


def test_one_engine(operator, swarm, serve):
    """The engine `docker`, with what docs/store.md lists."""
    dispatches.register(operator, "agent", "worker", command=["/usr/bin/busybox", "echo", "done"])
    secret = swarm.base / "store"
    secret.write_text(swarm.store(operator.database) + "\n")
    node = swarm.nodes[0]
    dispatches.register(operator, "target", "far", engine="docker", image=IMAGE, idle="1s",
                        secrets={"CLOISTER_STORE": str(secret)},
                        docker={"host": f"unix://{node.socket}", "network": "host", "seccomp": str(BUILD / "image/seccomp.json")})
    told = json.loads(operator.cloister("doctor", "--target", "far", "--json").out)
    assert told["can_run"], told
    serve()
    over = dispatches.await_over(operator, asked(operator))
    assert over["state"] == "finished", (over, status(operator))
    wait_until(lambda: not node.ask("GET", "/containers/json?all=1"), "the worker leaves, and its container is removed")
    assert not node.ask("GET", "/volumes")["Volumes"]


@pytest.mark.parametrize("host_proc", [True, False])
def test_doctor(operator, swarm, target, host_proc):
    target(own={"hostProc": host_proc})
    done = operator.cloister("doctor", "--target", "far", "--json")
    told = json.loads(done.out)
    found = {check["found"]: check["state"] for check in told["checks"]}
    assert told["can_run"] == host_proc, found
    if host_proc:
        assert found["it is a manager of a swarm of 2 nodes"] == "ok"
        assert found["a worker there runs cells, and reaches the registry"] == "ok"
    else:
        assert [text for text, state in found.items() if state == "missing" and "a worker there cannot run cells" in text]
    assert not swarm.services()


def test_doctor_and_no_secret(operator, swarm, target):
    target(secrets={"CLOISTER_STORE": "nosuch"})
    told = json.loads(operator.cloister("doctor", "--target", "far", "--json").out)
    assert not told["can_run"]
    assert any("no secret 'nosuch'" in check["found"] for check in told["checks"])


@pytest.mark.skipif(fake_ecs.SigV4Auth is None, reason="there is no python3-botocore")
def test_ecs_with_containers(operator, swarm, serve):
    dispatches.register(operator, "agent", "worker", command=["/usr/bin/busybox", "echo", "done"])
    ecs = fake_ecs.FakeEcs(None, run=lambda _, words, env: swarm_lab.Task(swarm.nodes[0], words, env))
    ecs.secrets = {"arn:store": swarm.store(operator.database)}
    operator.env.update(ecs.env())
    try:
        dispatches.register(operator, "target", "far", engine="ecs", image=IMAGE, idle="1s", slots=1, workers={"max": 2},
                            secrets={"CLOISTER_STORE": "arn:store"}, ecs={"cluster": "work", "launchType": "EC2", "subnets": ["s"]})
        serve()
        ids = [asked(operator) for _ in range(4)]
        for id in ids:
            over = dispatches.await_over(operator, id)
            assert over["state"] == "finished", (over, status(operator))
        wait_until(lambda: is_calm(operator), "all leave")
        assert not ecs.wrong and len(ecs.tasks) >= 2
    finally:
        ecs.end()
