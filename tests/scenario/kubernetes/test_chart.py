"""The chart, as tools/chart.py renders it, on a real Kubernetes: its API server takes every object, and the service starts
workers with the rights that the chart gives it."""
import json
import sys

import pytest
import yaml
from alike import BUSYBOX
from operators import TREE, wait_until
from workers import IMAGE, needs, place  # noqa: F401  fixtures

sys.path.insert(0, str(TREE / "tools"))
import chart  # noqa: E402

pytestmark = needs
SLOW = 120


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def who():
    return "root"


def newer_than_the_server(text):
    """Our server is old: `autoscaling/v2` has the form of v2beta2 there."""
    return text.replace("autoscaling/v2\n", "autoscaling/v2beta2\n")


@pytest.fixture
def installed(place):  # noqa: F811
    """Installs the chart in the namespace of PLACE, with workers in another."""
    of_workers = f"{place.name}-workers"

    def install(*changes):
        values = [("image", IMAGE), ("workersNamespace", of_workers), ("seccomp.image", "docker.io/library/box:1"), *changes]
        objects = list(yaml.safe_load_all(chart.chart(values, place.name)))
        place.cluster.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return of_workers
    yield install
    place.cluster.kubectl("delete", "namespace", of_workers, "--wait=false", check=False)


@pytest.mark.parametrize("changes", [[], [("pool.enabled", True)]])
def test_the_server_takes_all_of_it(place, cluster, changes):  # noqa: F811
    """With its own schema, without a warning about a key."""
    cluster.make_namespace("cloister-workers")
    objects = list(yaml.safe_load_all(chart.chart(changes, place.name)))
    said = cluster.kubectl("apply", "--dry-run=server", "--validate=true", "-f", "-",
                           input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert said.out.count("(server dry run)") == len(objects) and said.err.count("Warning") <= 1, said


def test_the_autoscaler(place, cluster):  # noqa: F811
    cluster.make_namespace("cloister-workers")
    text = newer_than_the_server((TREE / "contrib/kubernetes/autoscaler.yaml").read_text())
    cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=text)


def test_a_schema_that_is_violated(place, cluster):  # noqa: F811
    """So that the others mean something."""
    objects = list(yaml.safe_load_all(chart.chart([], place.name)))
    wrong = next(one for one in objects if one["kind"] == "StatefulSet")
    wrong["spec"]["template"]["spec"]["containers"][0]["securityContexts"] = {}
    assert "unknown field" in cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=json.dumps(wrong), check=False).err


def test_the_profile_comes_to_the_node(place, cluster, installed):  # noqa: F811
    profile = cluster.profiles() / "cloister/worker.json"
    profile.unlink(missing_ok=True)
    installed()
    wait_until(profile.exists, "the DaemonSet writes it", SLOW)
    assert json.loads(profile.read_text()) == json.loads((TREE / "packaging/image/seccomp.json").read_text())


def exec_in(place, *words, input=None):
    return place.kubectl("exec", "-i", "cloister-0", "--", "/usr/bin/cloister", *words, input=input).out


def test_the_service_starts_workers(place, cluster, installed):  # noqa: F811
    """In a pod, with the token of its account, and workers that join it."""
    volume = cluster.base / "run" / f"volume-{place.name}"
    volume.mkdir()
    volume.chmod(0o777)
    cluster.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": place.name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(volume)},
        # Not of another test's claim that still waits.
        "claimRef": {"namespace": place.name, "name": "data-cloister-0"}}})
    of_workers = installed()
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloister-store", "namespace": of_workers},
                   "stringData": {"CLOISTER_STORE": place.store}})

    def pod():
        return next((p for p in place.get("pods") if p["metadata"]["name"] == "cloister-0"), {"status": {}})
    wait_until(lambda: any(c["type"] == "Ready" and c["status"] == "True" for c in pod()["status"].get("conditions", [])),
               f"the service is ready: {place.why()}", SLOW)
    # There is no proxy for services here: its name and address would not lead to it.
    target = place.target(idle="1s", service=f"{pod()['status']['podIP']}:7879", kubernetes={"namespace": of_workers})
    exec_in(place, "target", "register", "-", input=json.dumps(target))
    exec_in(place, "agent", "register", "-", input=json.dumps({"name": "hello", "command": [BUSYBOX, "echo", "from a pod"]}))
    said = exec_in(place, "dispatch", "--target", "builders", "hello")
    assert "from a pod" in said, said
    workers = json.loads(exec_in(place, "worker", "list", "--json"))
    assert len(workers) == 1 and workers[0]["name"].startswith("cloister-builders-"), workers
    wait_until(lambda: not place.cluster.get("jobs", of_workers), "the worker leaves", SLOW)
