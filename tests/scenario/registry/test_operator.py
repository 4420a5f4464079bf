"""`cloister operator` and a server of Kubernetes that does what a real one does seldom.  tests/scenario/kubernetes has the real one."""
import json
import os
import signal
from pathlib import Path

import pytest

import dispatches
import postgres_store
from fake_kube import Kube, Refused
from kube_lab import Authority, encoded
from operators import children_of, wait_until
from sandboxes import Box
from service import Service
from test_fleet import engine, target  # noqa: F401

CORE, MORE = "agents.x-k8s.io", "extensions.agents.x-k8s.io"
NAMESPACE, POOLS = "default", "sandboxwarmpools"


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

    def get(self, name, plural="sandboxes"):
        return self.kube.objects.get((CORE if plural == "sandboxes" else MORE, NAMESPACE, plural, name))

    def delete(self, name, plural="sandboxes"):
        with self.kube.changed:
            self.kube.remove((CORE if plural == "sandboxes" else MORE, NAMESPACE, plural, name))

    def template(self, name, agent="box", pod=None):
        with self.kube.changed:
            self.kube.make((MORE, NAMESPACE, "sandboxtemplates", name), {
                "metadata": {"name": name, "annotations": {"cloister.io/agent": agent}},
                "spec": {"podTemplate": {"spec": pod or {"containers": [{"name": "main"}]}}}})

    def pool(self, name, replicas, template="box"):
        """A new one, or its next version."""
        spec = {"sandboxTemplateRef": {"name": template}, **({} if replicas is None else {"replicas": replicas})}
        with self.kube.changed:
            if self.get(name, POOLS) is None:
                self.kube.make((MORE, NAMESPACE, POOLS, name), {"metadata": {"name": name}, "spec": spec})
            else:
                one = {**self.get(name, POOLS), "spec": spec}
                one["metadata"]["generation"] += 1
                self.kube.objects[(MORE, NAMESPACE, POOLS, name)] = one
                self.kube.note("MODIFIED", (MORE, NAMESPACE, POOLS, name), one)

    def is_warm(self, name, slots, ready):
        def found():
            one = self.get(name, POOLS)
            status = one.get("status") or {}
            return (status.get("replicas"), status.get("readyReplicas"), status.get("observedGeneration")) == \
                (slots, ready, one["metadata"]["generation"])
        wait_until(found, f"{name} has {slots} replicas, and {ready} are ready: {self.get(name, POOLS)}")

    def reserves(self):
        return sorted((item["agent"], item["slots"]) for item in self.service.get("/v1/reserves").ok()["items"])

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
def registry_place(request):
    return "postgres" if request.node.originalname.endswith("_of_postgres") else "sqlite"


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


def test_a_finalizer_that_a_user_removes(world):
    """The dispatch ends all the same, and so does that of a Sandbox that gave its name to another one."""
    world.lead()
    for name in ("a", "b", "stays"):
        world.make(name)
    world.is_ready("a", "b", "stays")
    stays = world.get("stays")["metadata"]["annotations"]["cloister.io/dispatch"]
    ids = {d["id"] for d in world.running()}
    with world.kube.changed:
        for name in ("a", "b"):
            world.get(name)["metadata"]["finalizers"] = []
            world.kube.remove((CORE, NAMESPACE, "sandboxes", name))
        # In the next list, there is another one of this name.
        world.kube.events.clear()
        world.kube.forget_versions()
        world.make("b")
    world.is_ready("b")
    wait_until(lambda: len(world.running()) == 2, "the other ones end")
    world.is_ready("stays")
    left = {d["id"] for d in world.running()}
    assert left & ids == {stays}, (left, ids)


def test_a_mode_that_is_not_supported(world):
    world.lead()
    with world.kube.changed:
        world.make("a")
        world.get("a")["spec"]["operatingMode"] = "Suspended"
    world.is_ready("a")

    def condition():
        return next((c for c in world.get("a")["status"]["conditions"] if c["type"] == "Suspended"), None)
    assert (condition()["status"], condition()["reason"]) == ("False", "NotSupported") and "goes on" in condition()["message"]
    with world.kube.changed:
        one = world.get("a")
        one["spec"] = {**one["spec"], "operatingMode": "Running"}
        world.kube.note("MODIFIED", (CORE, NAMESPACE, "sandboxes", "a"), one)
    wait_until(lambda: condition() is None and world.ready("a"), "it goes on, and is not said to be suspended")
    assert len(world.running()) == 1


# ---- warm pools

def test_pools_and_their_templates(world):
    """Slots of this machine; the service has 32."""
    world.pool("early", 2)
    world.template("odd", pod={"containers": [{"name": "main"}], "volumes": [{"name": "v"}]})
    world.template("none", agent="nobody")
    world.pool("odd", 2, "odd")
    world.pool("nobody", 2, "none")
    process = world.lead()
    for name in ("early", "odd", "nobody"):
        world.is_warm(name, 0, 0)
    assert world.reserves() == []
    wait_until(lambda: world.log.read_text().count(" is not kept warm: ") == 3, "it says why, once each")
    said = world.log.read_text()
    assert "default/early is not kept warm: there is no SandboxTemplate 'box'" in said and "'volumes'" in said and "'nobody'" in said
    # What is missing may come.
    world.template("box")
    world.is_warm("early", 2, 2)
    assert world.get("early", POOLS)["status"]["selector"] == "cloister.io/warm-pool=" + world.get("early", POOLS)["metadata"]["uid"]
    # Several of one template, and one that does not say how many; changes, and none.
    world.pool("large", 1000)
    world.pool("one", None)
    world.is_warm("large", 32, 29)
    world.is_warm("one", 1, 1)
    assert world.reserves() == [("box", 1), ("box", 2), ("box", 32)]
    world.pool("large", 3)
    world.is_warm("large", 3, 3)
    world.pool("large", 0)
    world.is_warm("large", 0, 0)
    assert world.reserves() == [("box", 1), ("box", 2)]
    # What is used is not ready, and a pool may lose its template.
    world.pool("large", 40)
    for name in ("a", "b"):
        world.make(name)
    world.is_ready("a", "b")
    world.is_warm("large", 32, 27)
    world.delete("large", POOLS)
    world.delete("early", POOLS)
    wait_until(lambda: world.reserves() == [("box", 1)], "they are released")
    world.delete("box", "sandboxtemplates")
    world.is_warm("one", 0, 0)
    assert world.reserves() == [] and process.poll() is None


def test_a_page_of_large_objects(world):
    """One user's: a hundred of them are more than an answer may be."""
    for i in range(60):
        world.template(f"large{i}")
        world.get(f"large{i}", "sandboxtemplates")["metadata"]["annotations"]["text"] = "x" * 250_000
    world.template("box")
    world.pool("a", 2)
    world.pool("b", 1, "large7")
    process = world.lead()
    world.is_warm("a", 2, 2)
    world.is_warm("b", 1, 1)
    assert "cannot follow" not in world.log.read_text() and process.poll() is None


def test_pools_of_an_operator_that_is_killed(world):
    world.template("box")
    world.pool("stays", 3)
    world.pool("goes", 4)
    process = world.lead()
    world.is_warm("stays", 3, 3)
    world.is_warm("goes", 4, 4)
    versions = [world.get(name, POOLS)["metadata"]["resourceVersion"] for name in ("stays", "goes")]
    process.kill()
    process.wait()
    world.delete("goes", POOLS)
    world.pool("stays", 5)
    world.lead_again()
    world.is_warm("stays", 5, 5)
    # That of the other one is over when its minute is.
    assert world.reserves() == [("box", 4), ("box", 5)]
    assert int(world.get("stays", POOLS)["metadata"]["resourceVersion"]) > int(versions[0])


def test_pools_of_one_namespace_are_bounded(world):
    """The service has few reserves for all."""
    world.template("box")
    for i in range(35):
        world.pool(f"p{i}", 1)
    world.lead()
    wait_until(lambda: len(world.reserves()) == 32, "so many have one")
    wait_until(lambda: world.log.read_text().count("32 other pools of its namespace") == 3, "and the others do not")
    cold = next(f"p{i}" for i in range(35) if not (world.get(f"p{i}", POOLS).get("status") or {}).get("replicas"))
    warm = next(f"p{i}" for i in range(35) if (world.get(f"p{i}", POOLS).get("status") or {}).get("replicas"))
    world.delete(warm, POOLS)
    wait_until(lambda: sum((world.get(f"p{i}", POOLS) or {}).get("status", {}).get("replicas", 0) for i in range(35)) == 32,
               f"another one takes its place, as {cold}")


def test_a_definition_without_the_generation(world):
    """An older server drops what it does not know: the status is not written again and again."""
    change, patches = world.kube.change, []

    def change_less(at, said, method, of_status):
        if of_status:
            patches.append(at[3])
            (said.get("status") or {}).pop("observedGeneration", None)
        return change(at, said, method, of_status)
    world.kube.change = change_less
    world.template("box")
    world.pool("a", 2)
    world.lead()
    wait_until(lambda: (world.get("a", POOLS).get("status") or {}).get("readyReplicas") == 2, "it is warm")
    world.make("b")
    world.is_ready("b")
    world.pool("c", 1)
    wait_until(lambda: (world.get("c", POOLS).get("status") or {}).get("readyReplicas") == 1, "it is warm")
    assert patches.count("a") <= 2, patches


@pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
def test_warm_workers_of_postgres(world, operator, engine):
    """The pool has workers started, which stay; a claim takes one of their slots."""
    target(operator, engine, slots=1, workers={"max": 4})
    world.service.post("/v1/agents", {"name": "far", "sandbox": True, "target": "far"}).ok(201)
    world.template("far", agent="far")
    world.pool("far", 2, "far")
    world.lead()
    world.is_warm("far", 2, 2)
    assert engine.made == 2
    with world.kube.changed:
        world.kube.make((MORE, NAMESPACE, "sandboxclaims", "mine"), {"metadata": {"name": "mine"}, "spec": {"warmPoolRef": {"name": "far"}}})
    wait_until(lambda: world.get("mine") is not None and world.ready("mine"), "the claim has a sandbox")
    # The pool is filled again.
    wait_until(lambda: engine.made == 3, "another worker is started")
    world.is_warm("far", 2, 2)
    world.delete("mine", "sandboxclaims")
    wait_until(lambda: world.get("mine") is None, "it has gone")
    world.pool("far", 0, "far")
    wait_until(lambda: not engine.running(), "the workers leave")
    world.is_warm("far", 0, 0)


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
