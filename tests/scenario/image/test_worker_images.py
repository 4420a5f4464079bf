"""Images that a worker lacks: it pulls them by the digest that was resolved elsewhere."""
import json

import pytest

import dispatches
import postgres_store
from egress_lab import needs
from images import Store, busybox, layout
from operators import as_one
from registry_lab import Registry, skopeo

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")


@pytest.fixture
def registry_place():
    return "postgres"


def work(machine):
    return machine.spawn(machine.program, "worker", "--pool", "p", "--once")


def asked(operator, name):
    return dispatches.detach(operator, "--target", "pool:p", name)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    server = Registry(tmp_path_factory.mktemp("registry") / "plain")
    yield server
    server.close()


@needs("docker-registry", "skopeo")
@as_one
def test_a_worker_pulls_an_image(operator, machines, images):
    """By its digest, whatever the tag has become meanwhile."""
    machine, alone = machines(), machines()
    skopeo("copy", "--dest-tls-verify=false", f"oci:{layout(operator, busybox())}", f"docker://{images.host}/a/tiny:1")
    for one in operator, machine:
        one.file("home/.config/cloister/registries.yaml",
                 json.dumps({"registries": {images.host: {"insecure": True}}})).chmod(0o600)
    dispatches.agent(operator, "tiny", '[ "$(busybox | head -c 7)" = BusyBox ]', root={"image": f"{images.host}/a/tiny:1"})
    id = asked(operator, "tiny")
    digest = dispatches.show(operator, id)["resolved"]["image"]["digest"]
    before = len(images.requests())
    worker = work(machine)
    over = dispatches.await_over(operator, id)
    assert (over["state"], over["exit_code"]) == ("finished", 0), over["reason"]
    assert worker.wait(60) == 0
    asked_for = images.requests()[before:]
    assert any(path.endswith(f"/manifests/{digest}") for _, path in asked_for)
    assert not any(path.endswith("/manifests/1") for _, path in asked_for)
    # Once it is there, it is not asked for again.
    before = len(images.requests())
    again = asked(operator, "tiny")
    worker = work(machine)
    assert dispatches.await_over(operator, again)["state"] == "finished" and worker.wait(60) == 0
    assert images.requests()[before:] == []
    # A worker that does not reach the registry says so.
    refused = asked(operator, "tiny")
    images.close()
    worker = work(alone)
    over = dispatches.await_over(operator, refused)
    assert over["state"] == "failed" and "does not have the image" in over["reason"], over
    worker.wait(60)


@as_one
def test_an_image_of_no_registry(operator, machines):
    digest = Store(operator).add("", busybox())
    dispatches.agent(operator, "tiny", "echo ran", root={"image": digest})
    machine = machines()
    lacks = asked(operator, "tiny")
    worker = work(machine)
    over = dispatches.await_over(operator, lacks)
    assert over["state"] == "failed" and "is not on this worker" in over["reason"] and "image load" in over["reason"], over
    worker.wait(60)
    # One that has it needs no registry.
    assert Store(machine).add("", busybox()) == digest
    has = asked(operator, "tiny")
    worker = work(machine)
    assert dispatches.await_over(operator, has)["state"] == "finished" and worker.wait(60) == 0
