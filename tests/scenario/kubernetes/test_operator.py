"""`cloister operator` with a real API server: the objects of agent-sandbox become sandboxes of a service.

The definitions of the objects are upstream's, if CLOISTER_AGENT_SANDBOX names a checkout of it. They are not kept here: without
it, definitions with the same names take any members.
"""
import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path

import dispatches
import pytest
import yaml
from operators import IS_ROOT, TREE, wait_until
from sandboxes import Box
from service import Service

sys.path.insert(0, str(TREE / "tools"))
import chart  # noqa: E402

pytestmark = [pytest.mark.skipif(not IS_ROOT, reason="only root can start a Kubernetes of its own")]
UPSTREAM = os.environ.get("CLOISTER_AGENT_SANDBOX")
CORE, MORE, VERSION = "agents.x-k8s.io", "extensions.agents.x-k8s.io", "v1beta1"
KINDS = {"Sandbox": (CORE, "sandboxes"), "SandboxClaim": (MORE, "sandboxclaims"), "SandboxTemplate": (MORE, "sandboxtemplates"),
         "SandboxWarmPool": (MORE, "sandboxwarmpools")}
SLOW = 60
numbers = itertools.count(1)
POD = {"containers": [{"name": "main"}]}


@pytest.fixture
def who():
    return "root"


def without_rules(schema):
    """This server is of 1.20: it knows no rules in CEL, and takes a default that is an empty text for none, which keys of lists
    must have."""
    if isinstance(schema, list):
        return [without_rules(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_rules(value) for key, value in schema.items()
            if not key.startswith(("x-kubernetes-validations", "x-kubernetes-list-")) and not (key == "default" and value == "")}


def upstreams(group, plural):
    """Its definition, without the webhook of a controller that does not run here and the version that it converts."""
    whole = yaml.safe_load((Path(UPSTREAM) / f"k8s/crds/{group}_{plural}.yaml").read_text())
    spec = whole["spec"]
    spec.pop("conversion", None)
    spec["versions"] = [without_rules(v) for v in spec["versions"] if v["name"] == VERSION]
    whole["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/agent-sandbox"}
    return whole


def any_members(kind, group, plural):
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}
    subresources = {} if kind == "SandboxTemplate" else {"subresources": {"status": {}, **(
        {"scale": scale} if kind == "SandboxWarmPool" else {})}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {
        "name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural,
                                                         "singular": kind.lower()},
        "versions": [{"name": VERSION, "served": True, "storage": True, **subresources, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": loose, "status": loose}}}}]}}


@pytest.fixture(scope="session")
def definitions(kubernetes):
    for kind, (group, plural) in KINDS.items():
        kubernetes.kubectl("create", "-f", "-", input=json.dumps(
            upstreams(group, plural) if UPSTREAM else any_members(kind, group, plural)))
    for group, plural in KINDS.values():
        kubernetes.kubectl("wait", "--for=condition=Established", f"crd/{plural}.{group}")
    wait_until(lambda: kubernetes.kubectl("get", "sandboxclaims.extensions.agents.x-k8s.io", check=False).status == 0,
               "the kinds are served")
    return kubernetes


class World:
    """A namespace, a service with an agent `box`, and operators of it."""

    def __init__(self, cluster, operator):
        self.cluster, self.operator = cluster, operator
        self.name = f"sandboxes-{next(numbers)}"
        cluster.make_namespace(self.name)
        self.service = Service(operator)
        self.service.post("/v1/agents", {"name": "box", "sandbox": True}).ok(201)
        self.config = self.limited()
        self.operators = []

    def limited(self):
        """An account that has the rights of contrib in this namespace alone."""
        about = {"name": "operator", "namespace": self.name}
        given = yaml.safe_load_all((TREE / "contrib/kubernetes/operator.yaml").read_text())
        rules = [rule for one in given if one["kind"].endswith("Role") for rule in one["rules"]]
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": about, "rules": rules},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": about,
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
             "subjects": [{"kind": "ServiceAccount", **about}]})
        wait_until(lambda: "secrets" in self.cluster.kubectl("-n", self.name, "get", "serviceaccount", "operator", "-o", "json").out,
                   "it has a token")
        return self.cluster.configured(f"operator-{self.name}", {"token": self.cluster.token("operator", self.name)}, self.name)

    def start(self):
        said = self.operator.base / f"operator-{len(self.operators)}.log"
        with said.open("wb") as log:
            process = self.operator.spawn(self.operator.program, "operator", "--namespace", self.name, stderr=log,
                                          env={"KUBECONFIG": str(self.config)})
        self.operators.append((process, said))
        return process, said

    def lead(self):
        process, said = self.start()
        wait_until(lambda: process.poll() is None and "this operator leads" in said.read_text(), "it leads", SLOW)
        return process, said

    def apply(self, kind, name, spec, **annotations):
        group, _ = KINDS[kind]
        return self.cluster.apply({"apiVersion": f"{group}/{VERSION}", "kind": kind, "spec": spec, "metadata": {
            "name": name, "namespace": self.name, "annotations": annotations}})

    def kubectl(self, *words, **how):
        return self.cluster.kubectl("-n", self.name, *words, **how)

    def get(self, kind, name):
        """The object; None if there is none."""
        group, plural = KINDS[kind]
        done = self.kubectl("get", f"{plural}.{group}", name, "-o", "json", check=False)
        return json.loads(done.out) if done.status == 0 else None

    def patch(self, kind, name, patch):
        group, plural = KINDS[kind]
        return self.kubectl("patch", f"{plural}.{group}", name, "--type=merge", "-p", json.dumps(patch))

    def delete(self, kind, name):
        group, plural = KINDS[kind]
        self.kubectl("delete", f"{plural}.{group}", name, "--wait=false")

    def condition(self, kind, name, type="Ready"):
        for one in ((self.get(kind, name) or {}).get("status") or {}).get("conditions") or []:
            if one["type"] == type:
                return one
        return {}

    def is_ready(self, kind, name):
        wait_until(lambda: self.condition(kind, name).get("status") == "True", f"{kind} {name} is ready", SLOW)

    def pool(self, name="pool", agent="box", pod=POD, **spec):
        self.apply("SandboxTemplate", name, {"podTemplate": {"spec": pod}, **spec}, **{"cloister.io/agent": agent})
        self.apply("SandboxWarmPool", name, {"replicas": 0, "sandboxTemplateRef": {"name": name}})

    def is_warm(self, name, slots, ready):
        def numbers():
            status = self.get("SandboxWarmPool", name).get("status") or {}
            return status.get("replicas", 0), status.get("readyReplicas", 0)
        wait_until(lambda: numbers() == (slots, ready), f"{name} has {slots} replicas, and {ready} are ready", SLOW)

    def reserves(self):
        return sorted(item["slots"] for item in self.service.get("/v1/reserves").ok()["items"])

    def claim(self, name, pool="pool", **spec):
        self.apply("SandboxClaim", name, {"warmPoolRef": {"name": pool}, **spec})

    def dispatch_of(self, name):
        return self.get("Sandbox", name)["metadata"]["annotations"]["cloister.io/dispatch"]

    def box(self, name):
        """Its sandbox, for commands."""
        box = Box.__new__(Box)
        box.service, box.socket, box.id = self.service, None, self.dispatch_of(name)
        return box

    def all(self):
        return dispatches.all_of(self.operator)

    def running(self):
        return [d for d in self.all() if d["state"] in ("queued", "starting", "running")]

    def close(self):
        if not any(p.poll() is None for p, _ in self.operators):
            self.start()
        # Claims first: one whose Sandbox is deleted gets another one.
        self.kubectl("delete", "sandboxclaims.extensions.agents.x-k8s.io", "--all")
        for group, plural in KINDS.values():
            self.kubectl("delete", f"{plural}.{group}", "--all", "--wait=false", check=False)
        wait_until(lambda: not self.kubectl("get", "sandboxes.agents.x-k8s.io", "-o", "name").out, "nothing is left", SLOW)
        for process, said in self.operators:
            if process.poll() is None:
                process.terminate()
                assert process.wait(SLOW) == 0, said.read_text()
        assert not self.running(), self.running()
        assert self.service.stop() == 0, self.service.log()
        self.cluster.kubectl("delete", "namespace", self.name, "--wait=false", check=False)


@pytest.fixture
def world(definitions, operator):
    made = World(definitions, operator)
    yield made
    made.close()


def test_from_a_claim_to_a_command_and_its_end(world):
    world.lead()
    world.pool()
    world.claim("first")
    world.is_ready("SandboxClaim", "first")
    sandbox, claim = world.get("Sandbox", "first"), world.get("SandboxClaim", "first")
    assert claim["status"]["sandbox"]["name"] == "first"
    assert sandbox["metadata"]["ownerReferences"][0]["uid"] == claim["metadata"]["uid"]
    assert world.condition("Sandbox", "first")["reason"] == "DependenciesReady"
    assert world.box("first").exec("echo", "here") == (0, "here\n", "")
    # It is an agent's dispatch, of this object alone.
    shown = world.service.get(f"/v1/dispatches/{world.dispatch_of('first')}", socket=world.service.agents).ok()
    assert shown["principal"] == f"kubernetes:{world.name}/first:{sandbox['metadata']['uid']}"
    # Another claim has another one.
    world.claim("second")
    world.is_ready("SandboxClaim", "second")
    assert world.dispatch_of("second") != world.dispatch_of("first") and len(world.running()) == 2
    id = world.dispatch_of("first")
    world.delete("SandboxClaim", "first")
    wait_until(lambda: world.get("Sandbox", "first") is None, "it has gone", SLOW)
    assert dispatches.show(world.operator, id)["state"] == "cancelled"
    assert [d["id"] for d in world.running()] == [world.dispatch_of("second")]


def test_a_sandbox_without_a_claim_and_its_end(world):
    world.lead()
    world.service.post("/v1/agents", {"name": "short", "sandbox": True, "command": ["sh", "-c", "cat /tmp/go 2>/dev/null; exit 3"]}).ok(201)
    world.apply("Sandbox", "own", {"podTemplate": {"spec": POD}}, **{"cloister.io/agent": "box"})
    world.apply("Sandbox", "short", {"podTemplate": {"spec": POD}}, **{"cloister.io/agent": "short"})
    world.is_ready("Sandbox", "own")
    wait_until(lambda: world.condition("Sandbox", "short", "Finished").get("status") == "True", "it is over", SLOW)
    assert world.condition("Sandbox", "short", "Finished")["reason"] == "PodFailed"
    assert world.condition("Sandbox", "short")["status"] == "False"
    # Nothing is suspended, and the object says so.
    world.patch("Sandbox", "own", {"spec": {"operatingMode": "Suspended"}})
    wait_until(lambda: world.condition("Sandbox", "own", "Suspended").get("reason") == "NotSupported", "it is said", SLOW)
    assert world.condition("Sandbox", "own")["status"] == "True"


def test_warm_pools(world):
    """Of an agent of this machine, which has 32 places."""
    process, said = world.lead()
    world.pool()
    world.apply("SandboxWarmPool", "other", {"replicas": 3, "sandboxTemplateRef": {"name": "pool"}})
    world.apply("SandboxWarmPool", "lost", {"replicas": 3, "sandboxTemplateRef": {"name": "none"}})
    world.is_warm("other", 3, 3)
    world.is_warm("pool", 0, 0)
    wait_until(lambda: "lost is not kept warm: there is no SandboxTemplate 'none'" in said.read_text(), "it says why", SLOW)
    # As an autoscaler does it, which wants a selector, too.
    world.kubectl("scale", "sandboxwarmpools.extensions.agents.x-k8s.io/pool", "--replicas=40")
    world.is_warm("pool", 32, 29)
    pool = world.get("SandboxWarmPool", "pool")
    assert pool["status"]["selector"] == f"cloister.io/warm-pool={pool['metadata']['uid']}"
    world.claim("a")
    world.is_ready("SandboxClaim", "a")
    world.is_warm("pool", 32, 28)
    # Nothing is written without a change.
    version = world.get("SandboxWarmPool", "other")["metadata"]["resourceVersion"]
    world.kubectl("scale", "sandboxwarmpools.extensions.agents.x-k8s.io/pool", "--replicas=2")
    world.is_warm("pool", 2, 2)
    assert world.get("SandboxWarmPool", "other")["metadata"]["resourceVersion"] == version
    process.kill()
    process.wait()
    world.kubectl("scale", "sandboxwarmpools.extensions.agents.x-k8s.io/pool", "--replicas=5")
    world.start()
    world.is_warm("pool", 5, 5)
    world.delete("SandboxWarmPool", "pool")
    wait_until(lambda: world.reserves() == [3], "it is released", SLOW)
    world.delete("SandboxTemplate", "pool")
    world.is_warm("other", 0, 0)
    assert world.reserves() == []


def test_a_finalizer_that_a_user_removes(world):
    world.lead()
    world.apply("Sandbox", "a", {"podTemplate": {"spec": POD}}, **{"cloister.io/agent": "box"})
    world.is_ready("Sandbox", "a")
    world.kubectl("delete", "sandboxes.agents.x-k8s.io", "a", "--wait=false")
    # The operator may have been quicker.
    world.kubectl("patch", "sandboxes.agents.x-k8s.io", "a", "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=False)
    wait_until(lambda: world.get("Sandbox", "a") is None and not world.running(), "it ends all the same", SLOW)


def test_shutdown_times(world):
    world.lead()
    world.pool()
    world.claim("kept")
    world.claim("deleted")
    for name in ("kept", "deleted"):
        world.is_ready("SandboxClaim", name)
    over = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 5))
    world.patch("SandboxClaim", "kept", {"spec": {"lifecycle": {"shutdownTime": over, "shutdownPolicy": "Retain"}}})
    world.patch("SandboxClaim", "deleted", {"spec": {"lifecycle": {"shutdownTime": over, "shutdownPolicy": "Delete"}}})
    wait_until(lambda: world.get("SandboxClaim", "deleted") is None and world.get("Sandbox", "deleted") is None, "it has gone", SLOW)
    wait_until(lambda: world.condition("SandboxClaim", "kept").get("reason") == "ClaimExpired", "it is kept", SLOW)
    wait_until(lambda: world.get("Sandbox", "kept") is None, "its sandbox is not", SLOW)
    assert not world.running()
    # And of a Sandbox itself.
    world.apply("Sandbox", "own", {"podTemplate": {"spec": POD}, "shutdownTime": over}, **{"cloister.io/agent": "box"})
    wait_until(lambda: world.condition("Sandbox", "own").get("reason") == "SandboxExpired", "it never begins", SLOW)


def test_what_is_refused(world):
    world.lead()
    container = POD["containers"][0]
    wrong = {
        "privileged": {"containers": [{**container, "securityContext": {"privileged": True}}]},
        "volumes": {**POD, "volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
        "hostnetwork": {**POD, "hostNetwork": True},
        "account": {**POD, "serviceAccountName": "admin"},
        "token": {**POD, "automountServiceAccountToken": True},
        "env": {"containers": [{**container, "env": [{"name": "A", "value": "b"}]}]},
        "image": {"containers": [{**container, "image": "docker.io/library/box:1"}]},
        "two": {"containers": [container, {"name": "more"}]},
        "init": {**POD, "initContainers": [container]},
    }
    for name, pod in wrong.items():
        world.pool(name, pod=pod)
        world.claim(name, name)
    world.pool("nameless", agent="")
    world.claim("nameless", "nameless")
    world.pool("unknown", agent="nobody")
    world.claim("unknown", "unknown")
    world.claim("poolless", "none")
    world.pool("good", pod={"containers": [{**container, "image": "cloister.io/box"}], "restartPolicy": "Never"})
    world.claim("variables", "good", env=[{"name": "A", "value": "b"}])
    reasons = {**{name: "ReconcilerError" for name in [*wrong, "nameless", "unknown"]}, "poolless": "WarmPoolNotFound",
               "variables": "EnvVarsInjectionRejected"}
    for name, reason in reasons.items():
        wait_until(lambda name=name, reason=reason: world.condition("SandboxClaim", name).get("reason") == reason,
                   f"{name} is refused: {world.condition('SandboxClaim', name)}", SLOW)
        assert world.condition("SandboxClaim", name)["status"] == "False"
    assert "nobody" in world.condition("SandboxClaim", "unknown")["message"]
    assert "'volumes'" in world.condition("SandboxClaim", "volumes")["message"]
    assert not world.all()
    # What is missing may come.
    world.pool("none")
    world.is_ready("SandboxClaim", "poolless")
    world.claim("good", "good")
    world.is_ready("SandboxClaim", "good")
    # Beside a template: a Sandbox is checked, too.
    world.apply("Sandbox", "own", {"podTemplate": {"spec": wrong["privileged"]}}, **{"cloister.io/agent": "box"})
    wait_until(lambda: "securityContext" in world.condition("Sandbox", "own").get("message", ""), "it is refused", SLOW)
    assert len(world.all()) == 2


def test_another_ones_dispatch(world):
    """Users write annotations: an id that is not of the Sandbox counts for nothing."""
    world.lead()
    victim = Box(world.service, "box", socket=world.service.agents)
    world.apply("Sandbox", "thief", {"podTemplate": {"spec": POD}}, **{"cloister.io/agent": "box", "cloister.io/dispatch": victim.id})
    world.is_ready("Sandbox", "thief")
    assert world.dispatch_of("thief") != victim.id
    world.patch("Sandbox", "thief", {"metadata": {"annotations": {"cloister.io/dispatch": victim.id}}})
    world.delete("Sandbox", "thief")
    wait_until(lambda: world.get("Sandbox", "thief") is None, "it has gone", SLOW)
    assert [d["id"] for d in world.running()] == [victim.id]
    victim.kill()


def test_an_operator_that_is_killed(world):
    process, _ = world.lead()
    world.pool()
    for i in range(4):
        world.claim(f"c{i}")
    # At any moment: the next one goes on.
    wait_until(lambda: len(world.all()) >= 2, "some have begun", SLOW)
    process.kill()
    process.wait()
    world.delete("SandboxClaim", "c3")
    again, said = world.start()
    for i in range(3):
        world.is_ready("SandboxClaim", f"c{i}")
    wait_until(lambda: world.get("Sandbox", "c3") is None, "it has gone", SLOW)
    assert again.poll() is None, said.read_text()
    ids = {world.dispatch_of(f"c{i}") for i in range(3)}
    assert len(ids) == 3 and {d["id"] for d in world.running()} == ids and len(world.all()) <= 4


def test_one_of_two_leads(world):
    first, said = world.lead()
    second, other = world.start()
    wait_until(lambda: "serving the objects" in other.read_text(), "it runs")
    world.pool()
    world.claim("a")
    world.is_ready("SandboxClaim", "a")
    assert "leads" not in other.read_text()
    # One that ends gives the Lease back.
    first.send_signal(signal.SIGTERM)
    assert first.wait(SLOW) == 0
    wait_until(lambda: "this operator leads" in other.read_text(), "the other one leads", SLOW)
    world.claim("b")
    world.is_ready("SandboxClaim", "b")
    assert len(world.all()) == 2


def test_a_version_that_is_too_old(world):
    """The server forgets versions, and answers 410: all is listed again."""
    _, said = world.lead()
    world.pool()
    world.claim("a")
    world.is_ready("SandboxClaim", "a")
    world.cluster.kill("kube-apiserver")
    world.cluster.again("kube-apiserver")
    wait_until(lambda: world.cluster.kubectl("get", "--raw", "/readyz", check=False).status == 0, "it answers again", 180)
    world.claim("b")
    world.is_ready("SandboxClaim", "b")
    assert len(world.running()) == 2


def test_the_chart(definitions):
    """The server takes it, and its rights are those that the other tests have."""
    definitions.make_namespace("cloister-workers")
    definitions.make_namespace("cloister")
    objects = list(yaml.safe_load_all(chart.chart([("operator.enabled", True)])))
    said = definitions.kubectl("apply", "--dry-run=server", "--validate=true", "-f", "-",
                               input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert said.out.count("(server dry run)") == len(objects), said
    plain = list(yaml.safe_load_all((TREE / "contrib/kubernetes/operator.yaml").read_text()))
    assert [one for one in objects if one["metadata"]["name"] == "cloister-operator"] == plain
    pod = next(one for one in objects if one["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    assert [c["name"] for c in pod["containers"]] == ["service", "operator"]
