"""`cloister operator` and a server of Kubernetes that does what a real one does seldom.  tests/scenario/kubernetes has the real one."""
import json
import os
import signal
from pathlib import Path

import pytest

import dispatches
from fake_kube import Kube, Refused
from kube_lab import Authority, encoded
from operators import children_of, wait_until
from sandboxes import Box
from service import Service

CORE, MORE = "agents.x-k8s.io", "extensions.agents.x-k8s.io"
NAMESPACE = "default"


class World:
    def __init__(self, operator):
        self.operator = operator
        authority = Authority(operator.base / "pki")
        self.kube = Kube(authority.folder, authority)
        self.config = operator.own(operator.file("kubeconfig", json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {
                "server": self.kube.url, "certificate-authority-data": encoded(authority.text("ca.crt"))}}],
            "users": [{"name": "u", "user": {"token": "of-a-test"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}]})))
        self.config.chmod(0o600)
        self.service = Service(operator)
        self.service.post("/v1/agents", {"name": "box", "sandbox": True}).ok(201)
        self.log = operator.base / "operator.log"

    def start(self):
        with self.log.open("ab") as log:
            return self.operator.spawn(self.operator.program, "operator", stderr=log, env={"KUBECONFIG": str(self.config)})

    def lead(self):
        process = self.start()
        wait_until(lambda: process.poll() is None and "this operator leads" in self.log.read_text(), "it leads")
        return process

    def lead_again(self):
        process = self.start()
        wait_until(lambda: self.log.read_text().count("this operator leads") == 2, "the next one leads")
        return process

    def make(self, name, annotations=None):
        with self.kube.changed:
            self.kube.make((CORE, NAMESPACE, "sandboxes", name), {
                "metadata": {"name": name, "annotations": {"cloister.io/agent": "box", **(annotations or {})}},
                "spec": {"podTemplate": {"spec": {"containers": [{"name": "main"}]}}}})

    def get(self, name):
        return self.kube.objects.get((CORE, NAMESPACE, "sandboxes", name))

    def delete(self, name):
        with self.kube.changed:
            self.kube.remove((CORE, NAMESPACE, "sandboxes", name))

    def ready(self, name):
        conditions = (self.get(name).get("status") or {}).get("conditions") or []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def is_ready(self, *names):
        for name in names:
            wait_until(lambda name=name: self.ready(name), f"{name} is ready: {self.get(name).get('status')}")

    def running(self):
        return [d for d in dispatches.all_of(self.operator) if d["state"] in ("queued", "starting", "running")]

    def close(self):
        self.operator.cloister("kill", "--all")
        wait_until(lambda: not self.running(), "nothing runs")
        self.service.stop()
        self.kube.close()


@pytest.fixture
def world(operator):
    world = World(operator)
    yield world
    world.close()


def test_versions_that_are_forgotten(world):
    process = world.lead()
    world.make("a")
    world.is_ready("a")
    with world.kube.changed:
        # What happens meanwhile is in no event.
        world.kube.events.clear()
        world.kube.forget_versions()
        world.kube.objects[(CORE, NAMESPACE, "sandboxes", "late")] = json.loads(json.dumps(world.get("a")).replace('"a"', '"late"'))
        late = world.get("late")["metadata"]
        late.update(uid="12345678-late", finalizers=[], annotations={"cloister.io/agent": "box"})
        world.get("late").pop("status")
    world.is_ready("late")
    world.kube.oldest = 0
    world.make("b")
    world.is_ready("b")
    assert len(world.running()) == 3 and process.poll() is None


def test_changes_at_the_wrong_moment(world):
    """Each first patch of an object meets another change of it."""
    seen = set()

    def other_change(plural, name):
        with world.kube.changed:
            if (plural, name, len(seen) // 4) not in seen and (one := world.get(name)) is not None:
                seen.add((plural, name, len(seen) // 4))
                one["metadata"].setdefault("labels", {})["other"] = str(len(seen))
                world.kube.note("MODIFIED", (CORE, NAMESPACE, plural, name), one)
    world.kube.on_patch = other_change
    world.lead()
    for name in ("a", "b"):
        world.make(name)
    world.is_ready("a", "b")
    assert seen and len(dispatches.all_of(world.operator)) == 2
    world.delete("a")
    wait_until(lambda: world.get("a") is None, "it has gone")
    assert len(world.running()) == 1


def test_lines_that_are_none(world):
    nameless = {"type": "ADDED", "object": {"metadata": {"resourceVersion": "1"}}}
    huge = {"type": "ADDED", "object": {"metadata": {"name": "huge", "namespace": NAMESPACE, "uid": "u", "resourceVersion": "1"},
                                        "spec": {"text": "x" * 200_000}}}
    world.kube.garbage = [json.dumps(nameless).encode(), json.dumps(huge).encode(), json.dumps(
        {"type": "MODIFIED", "object": {"metadata": {"name": "../\x1b[2Jx", "namespace": "../y", "uid": "v", "resourceVersion": "2", "annotations": {
            "cloister.io/agent": "box"}}, "spec": {"podTemplate": {"spec": {"containers": [{"name": "main"}]}}}}}).encode()]
    process = world.lead()
    world.make("a")
    world.is_ready("a")
    assert len(dispatches.all_of(world.operator)) == 1 and "\x1b" not in world.log.read_text()
    # These break a watch off: it is listed again, later each time.
    world.kube.garbage = [b"{", b"[]", b'{"type":1}', b"\0\xff"]
    world.kube.forget_versions()
    wait_until(lambda: "an event is malformed" in world.log.read_text(), "it says so")
    world.kube.garbage, world.kube.oldest = [], 0
    world.make("b")
    world.is_ready("b")
    assert process.poll() is None and len(world.running()) == 2


def test_another_ones_dispatch(world):
    """Users write annotations: an id that is not of the Sandbox counts for nothing."""
    world.lead()
    victim = Box(world.service, "box", socket=world.service.agents)
    world.make("thief", {"cloister.io/dispatch": victim.id})
    world.is_ready("thief")
    assert len(world.running()) == 2
    with world.kube.changed:
        world.get("thief")["metadata"]["annotations"]["cloister.io/dispatch"] = victim.id
        world.kube.note("MODIFIED", (CORE, NAMESPACE, "sandboxes", "thief"), world.get("thief"))
    world.delete("thief")
    wait_until(lambda: world.get("thief") is None, "it has gone")
    assert [d["id"] for d in world.running()] == [victim.id]


def test_killed_between_the_dispatch_and_its_note(world):
    """The next operator finds the same dispatch, by its key; also if the Sandbox is deleted meanwhile."""
    process, killed = world.lead(), []

    def kill(plural, name):
        # The finalizer is there, so this is the id.
        if not killed and "cloister.io/sandbox" in world.get(name)["metadata"].get("finalizers", []):
            killed.append(name)
            process.kill()
            raise Refused(409, "it has changed meanwhile")
    world.kube.on_patch = kill
    world.make("a")
    wait_until(lambda: killed and process.wait() is not None, "it is killed")
    world.kube.on_patch = None
    ids = [d["id"] for d in world.running()]
    assert len(ids) == 1
    world.lead_again()
    world.is_ready("a")
    assert [d["id"] for d in dispatches.all_of(world.operator)] == ids
    world.delete("a")
    wait_until(lambda: world.get("a") is None, "it has gone")
    assert not world.running() and len(dispatches.all_of(world.operator)) == 1


def test_a_service_that_is_away(world):
    process = world.lead()
    world.service.stop()
    world.make("a")
    wait_until(lambda: "cannot be reached" in json.dumps((world.get("a") or {}).get("status") or {}), "it is said")
    world.service = Service(world.operator)
    world.is_ready("a")
    assert len(dispatches.all_of(world.operator)) == 1 and process.poll() is None


def is_gone(pid):
    """Whoever inherits it need not wait for it."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_it_ends_with_its_keeper(world):
    """The worker is the half that is locked down: it has an empty root, and no right that the keeper has not."""
    process = world.lead()
    worker, = children_of(process.pid)
    status = Path(f"/proc/{worker}/status").read_text()
    assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status
    names = {os.readlink(fd) for fd in Path(f"/proc/{worker}/fd").iterdir()}
    assert not any("serve.sock" in name or str(world.operator.runtime) in name for name in names), names
    process.kill()
    process.wait()
    wait_until(lambda: is_gone(worker), "it ends, too")
    # A signal gives the Lease back.
    again = world.lead_again()
    lease = ("coordination.k8s.io", NAMESPACE, "leases", "cloister-operator")
    again.send_signal(signal.SIGTERM)
    assert again.wait(30) == 0 and world.kube.objects[lease]["spec"]["holderIdentity"] == ""


def test_what_cannot_be(world):
    def refused(*options, env=None):
        done = world.operator.cloister("operator", *options, env={"KUBECONFIG": str(world.config), **(env or {})})
        assert done.status == 125, done
        return done.err
    assert "name of a namespace" in refused("--namespace", "../x")
    assert "no context 'none'" in refused("--context", "none")
    assert "takes options only" in refused("word")
    assert "no-such-folder" in refused("--agents-socket", "/no-such-folder/a.sock")
    plain = world.operator.file("plain", world.config.read_text().replace("https://", "http://"))
    plain.chmod(0o600)
    assert "TLS" in refused(env={"KUBECONFIG": str(plain)})
