"""The engine `kubernetes`: workers as Jobs of a real one, from none to a dispatch's result and back."""
import json
import os
import signal
import subprocess

import dispatches
import fleet_client
import pytest
from alike import BUSYBOX
from kube_lab import NODE
from operators import BUILD, wait_until
from workers import needs, place  # noqa: F401  fixtures

pytestmark = needs
SLOW = 120
ADMIN_OF_WORKERS = [("batch", ["jobs"], ["create", "list", "get", "delete"]), ("", ["pods"], ["list"])]


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def who():
    return "root"


def started(place, id):
    """Its agent runs in a pod."""
    return wait_until(lambda: any(e["kind"] == "agent.started" for e in dispatches.events(place.operator, id)),
                      f"{id} runs: {place.why()}", SLOW)


def test_a_dispatch_from_no_worker_to_its_result(place):
    place.agent("hello", BUSYBOX, "echo", "from a pod")
    id = place.dispatch("hello")
    fleet = place.fleet(once=True, config=place.limited(*ADMIN_OF_WORKERS))
    assert fleet.count() == (0, 0, "")
    worker, = fleet.start("")
    assert fleet.count()[0] == 1
    place.is_over(id)
    assert any("from a pod" in event.get("text", "") for event in dispatches.events(place.operator, id))
    wait_until(lambda: fleet.look(worker)[:2] == (True, 0), "the worker exits", SLOW)
    assert fleet.count() == (0, 0, "")
    wait_until(place.is_empty, "nothing is left of it", SLOW)


def test_several_workers_and_back_to_none(place):
    place.agent("hello", BUSYBOX, "sleep", "1")
    ids = [place.dispatch("hello") for _ in range(6)]
    fleet = place.fleet(slots=1, idle="1s")
    fleet.start("", "", "")
    assert fleet.count()[0] == 3
    for id in ids:
        place.is_over(id)
    wait_until(lambda: fleet.count() == (0, 0, ""), "workers without work exit", SLOW)
    wait_until(place.is_empty, "nothing is left of them", SLOW)


def test_the_server_knows_all_of_a_worker(place):
    """kubectl compares it with the server's schema, and the server takes it as it is."""
    fleet = place.fleet(cpus="0.1", memory="256M", env={"A": "$(HOME) $$"}, kubernetes={"nodeSelector": {"kubernetes.io/os": "linux"}})
    worker, = fleet.start("a token")
    job, = place.get("jobs")
    pod = job["spec"]["template"]["spec"]
    container, = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "procMount": "Unmasked", "readOnlyRootFilesystem": True}
    assert pod["securityContext"]["seccompProfile"] == {"type": "Localhost", "localhostProfile": "cloister/worker.json"}
    assert container["resources"] == {kind: {"cpu": "100m", "memory": str(256 << 20)} for kind in ("limits", "requests")}
    again = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "again", "namespace": place.name},
             "spec": {**job["spec"], "selector": None, "template": {"spec": pod}}}
    del again["spec"]["selector"]
    place.kubectl("apply", "--dry-run=server", "--validate=true", "-f", "-", input=json.dumps(again))
    # The token is in no Job and no pod, and goes with the Job.
    assert "a token" not in json.dumps([place.get("jobs"), place.get("pods")])
    secret, = [s for s in place.get("secrets") if s["metadata"]["name"] == worker]
    assert secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"] and secret["immutable"]
    fleet.stop(worker)
    wait_until(place.is_empty, "its Secret and its pod go with it", SLOW)


def test_a_pod_that_is_deleted_finishes_its_work(place):
    place.agent("long", BUSYBOX, "sleep", "8")
    id = place.dispatch("long")
    fleet = place.fleet(once=True)
    fleet.start("")
    started(place, id)
    pod, = place.get("pods")
    place.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    place.is_over(id)
    assert dispatches.show(place.operator, id)["attempts"] == 1


def test_a_kubelet_that_is_killed(place, cluster):  # noqa: F811
    """Its workers go on, and the dispatch has its result; workers of a node that is lost do not count."""
    place.agent("long", BUSYBOX, "sleep", "15")
    id = place.dispatch("long")
    fleet = place.fleet(idle="1s")
    fleet.start("")
    started(place, id)
    cluster.kill("kubelet")
    try:
        place.is_over(id)
        wait_until(lambda: fleet.count()[0] == 0, "the worker of a lost node is not alive", SLOW)
        assert NODE in fleet.count()[2], fleet.count()
    finally:
        cluster.again("kubelet")
        wait_until(cluster.is_ready, "the node is ready again", SLOW)
    wait_until(lambda: fleet.count() == (0, 0, ""), "the kubelet tells that the worker has ended", SLOW)


def test_a_worker_that_cannot_work_says_why(place):
    fleet = place.fleet(secrets={"CLOISTER_STORE": "bad-store"})
    place.secret("bad-store", CLOISTER_STORE=place.store.replace(place.operator.database, "no_such_database"))
    probe, = fleet.start("", probes=True)
    assert fleet.count() == (0, 0, ""), "a probe is no worker"
    ended, status, text = wait_until(lambda: (o := fleet.look(probe))[0] and o, "the probe ends", SLOW)
    assert status == 121 and "no_such_database" in text and "\n" not in text, text
    fleet.stop(probe)
    fleet.start("")
    alive, failed, why = wait_until(lambda: (c := fleet.count())[1] and c, "the worker fails", SLOW)
    assert (alive, failed) == (0, 1) and "no_such_database" in why, why
    assert fleet.count() == (0, 0, "")


@pytest.mark.parametrize("said, part", [
    ({"image": "nobody/has:this"}, "nobody/has"),
    ({"kubernetes": {"seccomp": "no/such.json"}}, "no/such.json"),
    ({"kubernetes": {"nodeSelector": {"no": "such"}}}, "didn't match"),
    ({"secrets": {"CLOISTER_STORE": "no-such-secret"}}, "no-such-secret"),
    ({"secrets": {"CLOISTER_STORE": "cloister-store/no-such-key"}}, "no-such-key"),
    ({"kubernetes": {"runtimeClass": "no-such-class"}}, "no-such-class"),
    ({"kubernetes": {"serviceAccount": "no-such-account"}}, "no-such-account"),
])
def test_a_worker_that_does_not_start_says_why(place, said, part):
    fleet = place.fleet(**said)
    probe, = fleet.start("", probes=True)
    outcome = wait_until(lambda: (o := fleet.look(probe))[2] and o, "there is a reason", SLOW)
    # A node may come that it fits on; nothing else is over by waiting.
    assert outcome[0] == ("nodeSelector" not in str(said)) and part in outcome[2], outcome
    fleet.stop(probe)
    with pytest.raises(Exception, match="not found"):
        fleet.look(probe)


def test_a_runtime_class(place, cluster):  # noqa: F811
    cluster.apply({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "other"}, "handler": "other"})
    place.agent("hello", BUSYBOX, "true")
    id = place.dispatch("hello")
    fleet = place.fleet(once=True, kubernetes={"runtimeClass": "other"})
    assert fleet.missing() == []
    fleet.start("")
    assert wait_until(lambda: place.get("pods"), "there is a pod")[0]["spec"]["runtimeClassName"] == "other"
    place.is_over(id)


def test_workers_of_another_store_are_left_alone(place):
    fleet = place.fleet()
    other = fleet_client.Fleet(place.target(), {"KUBECONFIG": str(place.cluster.admin)}, tag="f" * 16)
    place.fleets.append(other)
    worker, = fleet.start("")
    assert (fleet.count()[0], other.count()[0]) == (1, 0)
    fleet.stop(worker)


# ---- what is missing


def test_nothing_is_missing(place):
    assert place.fleet().missing() == []
    assert place.fleet(config=place.limited(*ADMIN_OF_WORKERS)).missing() == []


def test_too_few_rights(place):
    config = place.limited(("batch", ["jobs"], ["list"]))
    fleet = place.fleet(config=config, service="service.example:1")
    said, = fleet.missing()
    assert "may not create jobs, get jobs, delete jobs, list pods, create secrets" in said and "rbac.yaml" in said, said
    with pytest.raises(Exception, match='cannot create resource "jobs"'):
        fleet.start("")
    assert fleet.count() == (0, 0, "")


def test_no_right_to_make_secrets(place):
    """A worker that could not join is not left behind."""
    fleet = place.fleet(config=place.limited(*ADMIN_OF_WORKERS), service="service.example:1")
    assert "may not create secrets" in fleet.missing()[0]
    with pytest.raises(Exception, match='cannot create resource "secrets"'):
        fleet.start("a token")
    assert fleet.count() == (0, 0, "")
    wait_until(place.is_empty, "nothing is left of it", SLOW)


def test_no_namespace(place):
    said, = place.fleet(kubernetes={"namespace": "no-such-place"}).missing()
    assert said.startswith("there is no namespace 'no-such-place'"), said


@pytest.mark.parametrize("said, part", [
    ({"kubernetes": {"runtimeClass": "no-such-class"}}, "there is no RuntimeClass 'no-such-class'"),
    ({"kubernetes": {"serviceAccount": "no-such-account"}}, "there is no ServiceAccount 'no-such-account'"),
    ({"kubernetes": {"pullSecrets": ["no-such-login"]}}, "there is no Secret 'no-such-login'"),
    ({"secrets": {"CLOISTER_STORE": "no-such-secret/x"}}, "there is no Secret 'no-such-secret'"),
    ({"kubernetes": {"hostUsers": False}}, "leaves out `hostUsers`"),
    ({"kubernetes": {"runtimeClass": "Not_A_Name"}}, "no Job can be made"),
])
def test_something_is_missing(place, said, part):
    assert any(part in one for one in place.fleet(**said).missing()), place.fleet(**said).missing()


def test_a_quota(place):
    place.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
                 "spec": {"hard": {"count/jobs.batch": "0", "limits.memory": "1Gi"}}})
    wait_until(lambda: "used" in place.get("resourcequotas")[0].get("status", {}), "the quota is in force")
    missing = place.fleet().missing()
    assert any("the quota 'few'" in one and "0 of 0 count/jobs.batch" in one for one in missing), missing
    assert any("give the target `memory`" in one for one in missing), missing
    with pytest.raises(Exception, match="exceeded quota: few"):
        place.fleet().start("")


def test_pods_beyond_a_quota(place):
    """The Job is made, and its pod is not: only an event says so."""
    place.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    wait_until(lambda: "used" in place.get("resourcequotas")[0].get("status", {}), "the quota is in force")
    fleet = place.fleet()
    worker, = fleet.start("")
    assert "exceeded quota: none" in wait_until(lambda: fleet.count()[2], "there is a reason", SLOW)
    fleet.stop(worker)


def test_pod_security(place, cluster):  # noqa: F811
    cluster.kubectl("label", "namespace", place.name, "pod-security.kubernetes.io/enforce=restricted")
    missing = place.fleet().missing()
    assert any("the Pod Security level 'restricted'" in one for one in missing), missing


# ---- credentials


def refused(place, config):
    with pytest.raises(Exception) as caught:
        place.fleet(config=config).count()
    return str(caught.value)


def test_credentials_that_the_server_does_not_know(place, cluster):  # noqa: F811
    config = cluster.configured("stranger", {"token": "nobody"}, place.name)
    said = refused(place, config)
    assert "does not know who asks" in said and str(config) in said and "nobody" not in said, said


def test_another_authority(place, cluster):  # noqa: F811
    """Without one in the kubeconfig, those of this machine count."""
    config = cluster.base / "pki" / "another.config"
    text = json.loads(cluster.admin.read_text())
    del text["clusters"][0]["cluster"]["certificate-authority-data"]
    config.write_text(json.dumps(text))
    assert "is not trusted" in refused(place, config)


def test_a_token_that_is_renewed(place, cluster):  # noqa: F811
    good = cluster.token("default", place.name)
    file = cluster.base / "run" / "tokens"
    file.mkdir(exist_ok=True)
    (file / "token").write_text("expired\n")
    fleet = place.fleet(config=cluster.configured("renewed", {"tokenFile": str(file / "token")}, place.name))
    with pytest.raises(Exception, match="does not know who asks"):
        fleet.count()
    # As the kubelet does it: another file takes the name.
    (file / "new").write_text(good)
    os.rename(file / "new", file / "token")
    with pytest.raises(Exception, match="system:serviceaccount:.*cannot list"):
        fleet.count()


def test_in_a_pod(place, cluster, ground):  # noqa: F811
    """With the files of a service account, where every pod has them."""
    place.limited(*ADMIN_OF_WORKERS)
    account = cluster.base / "run" / "account"
    (account / "..data").mkdir(parents=True)
    for name, text in (("token", cluster.token("limited", place.name)), ("ca.crt", cluster.authority.text("ca.crt")),
                       ("namespace", place.name)):
        (account / "..data" / name).write_text(text)
        (account / name).symlink_to(f"..data/{name}")
    program = ground / f"in-a-pod-{place.name}"
    program.write_text(f"""#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount &&
mount --bind {account} /run/secrets/kubernetes.io/serviceaccount && exec {BUILD}/libexec/cloister-fleet'
""")
    program.chmod(0o755)

    target = place.target()
    del target["kubernetes"]["namespace"]
    fleet = fleet_client.Fleet(target, {"KUBERNETES_SERVICE_HOST": cluster.node, "KUBERNETES_SERVICE_PORT": "443", "HOME": "/nowhere"},
                               program=str(program))
    place.fleets.append(fleet)
    assert fleet.missing() == []
    worker, = fleet.start("")
    assert [job["metadata"]["name"] for job in place.get("jobs")] == [worker]
    fleet.stop(worker)


def test_no_configuration(place):

    with pytest.raises(fleet_client.Refused, match="there is no kubeconfig for the engine `kubernetes`"):
        fleet_client.Fleet(place.target(), {"HOME": "/nowhere"})
