"""A registered target on a real Kubernetes: `cloister serve` starts workers while dispatches wait."""
import json
import signal

import dispatches
import pytest
from alike import BUSYBOX
from operators import wait_until
from ports import free_port
from service import Service
from workers import needs, place  # noqa: F401  fixtures

pytestmark = needs
SLOW = 120


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def who():
    return "root"


@pytest.fixture
def serve(place):  # noqa: F811
    """Starts services that end with the test, and have an account of the namespace with the chart's rights."""
    started = []

    def serve(*options, config=None):
        config = config or place.limited(("batch", ["jobs"], ["create", "list", "get", "delete"]), ("", ["pods"], ["list"]),
                                         ("", ["secrets"], ["create"]))
        started.append(Service(place.operator, *options, env={"KUBECONFIG": str(config)}))
        return started[-1]
    yield serve
    for service in started:
        if service.process.poll() is None:
            service.stop()


def register(place, **said):
    content = place.target(idle="1s", **said)
    dispatches.register(place.operator, "target", content.pop("name"), **content)


def asked(place, agent):
    return dispatches.detach(place.operator, "--target", "builders", agent)


def status(place):
    return json.loads(place.operator.cloister("target", "show", "--json", "builders").ok())["status"]


def test_from_zero_to_a_result_and_back(place, serve):
    place.agent("hello", BUSYBOX, "true")
    register(place)
    serve()
    place.is_over(asked(place, "hello"))
    wait_until(place.is_empty, "the worker leaves, and nothing is left of it", SLOW)


def test_to_the_bound_and_back(place, serve):
    place.agent("hello", BUSYBOX, "sleep", "1")
    register(place, workers={"max": 2}, slots=1)
    ids = [asked(place, "hello") for _ in range(6)]
    serve()
    most = 0
    while any(dispatches.show(place.operator, id)["state"] in ("queued", "running") for id in ids):
        most = max(most, len([job for job in place.get("jobs") if job["status"].get("active")]))
    assert most == 2, most
    for id in ids:
        place.is_over(id)
    wait_until(place.is_empty, "all leave", SLOW)


def test_workers_join_the_service(place, serve, cluster):  # noqa: F811
    """Each with a token of its own, from a Secret; the service then steers their cells."""
    place.agent("long", BUSYBOX, "sleep", "600")
    port = free_port()
    register(place, service=f"{cluster.here}:{port}")
    serve("--workers", f"{cluster.here}:{port}")
    id = asked(place, "long")
    shown = wait_until(lambda: json.loads(place.operator.cloister("ps", "--json").ok()), f"its cell is listed: {place.why()}", SLOW)
    assert shown[0]["machine"].startswith("cloister-builders-"), shown
    said = place.operator.cloister("exec", shown[0]["cell"], "--", BUSYBOX, "echo", "in a pod").ok()
    assert said == "in a pod\n"
    secret, = [s for s in place.get("secrets") if s["metadata"]["name"].startswith("cloister-builders-")]
    assert set(secret["data"]) == {"token"}
    place.operator.cloister("kill", shown[0]["cell"]).ok()
    place.is_over(id, "failed")
    wait_until(place.is_empty, "its Secret is gone, too", SLOW)


def test_a_service_that_is_killed_finds_its_workers(place, serve):
    place.agent("long", BUSYBOX, "sleep", "600")
    register(place)
    service = serve()
    id = asked(place, "long")
    dispatches.await_state(place.operator, id, "running")
    service.stop(signal.SIGKILL)
    serve()
    wait_until(lambda: status(place)["workers"] == 1, "it finds the worker", SLOW)
    assert len(place.get("jobs")) == 1
    place.operator.cloister("dispatches", "cancel", id).ok()
    wait_until(place.is_empty, "it leaves", SLOW)


def test_too_few_rights_are_said(place, serve):
    place.agent("hello", BUSYBOX, "true")
    register(place)
    serve(config=place.limited(("batch", ["jobs"], ["list"])))
    id = asked(place, "hello")
    error = wait_until(lambda: status(place)["error"], "the error is known", SLOW)
    assert 'cannot create resource "jobs"' in error, error
    assert dispatches.show(place.operator, id)["state"] == "queued"
    place.operator.cloister("dispatches", "cancel", id).ok()


# ---- cloister doctor --target


def doctor(place, config=None):
    done = place.operator.cloister("doctor", "--target", "builders", "--json", env={"KUBECONFIG": str(config or place.cluster.admin)})
    told = json.loads(done.out)
    return told["can_run"], [check["found"] for check in told["checks"] if check["state"] == "missing"]


def test_doctor_tries_a_worker(place):
    register(place)
    assert doctor(place) == (True, [])
    wait_until(place.is_empty, "nothing is left of it", SLOW)


def test_doctor_says_what_is_missing(place):
    register(place, secrets={"CLOISTER_STORE": "bad-store"})
    place.secret("bad-store", CLOISTER_STORE=place.store.replace(place.operator.database, "no_such_database"))
    can_run, missing = doctor(place)
    assert not can_run and len(missing) == 1 and "no_such_database" in missing[0], missing
    config = place.limited(("batch", ["jobs"], ["list"]))
    can_run, missing = doctor(place, config)
    assert not can_run and "may not create jobs" in missing[0], missing


def test_doctor_without_the_seccomp_profile(place):
    register(place, kubernetes={"seccomp": "no/such.json"})
    can_run, missing = doctor(place)
    assert not can_run and any("no/such.json" in one for one in missing), missing


def test_the_nodes_own_proc(place):
    """Where the server knows no `procMount`."""
    register(place, kubernetes={"seccomp": "unconfined", "hostProc": True})
    assert doctor(place) == (True, [])
