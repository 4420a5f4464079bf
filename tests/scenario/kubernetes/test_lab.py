"""The cluster that the other tests here use is a real one."""
import json

from kube_lab import BOX
from operators import wait_until


def test_a_pod_runs_to_its_end(kubernetes):
    kubernetes.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hello"},
                      "spec": {"restartPolicy": "Never", "containers": [
                          {"name": "c", "image": BOX, "command": ["/bin/busybox", "sh", "-c", "echo hello; ip route"]}]}})

    def phase():
        return json.loads(kubernetes.kubectl("get", "pod", "hello", "-o", "json").out)["status"]["phase"]
    wait_until(lambda: phase() == "Succeeded", "it ends")
    said = kubernetes.kubectl("logs", "hello").out
    assert said.startswith("hello\n") and kubernetes.pods in said, said
    kubernetes.kubectl("delete", "pod", "hello", "--wait=false")
