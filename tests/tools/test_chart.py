"""The chart for Helm keeps to what tools/chart.py understands, and the plain manifests are made of it."""
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TREE = Path(__file__).resolve().parents[2]
CHART = TREE / "contrib/helm/cloister"
sys.path.insert(0, str(TREE / "tools"))
import chart  # noqa: E402


def objects(*changes):
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(chart.chart(changes))}


def test_the_plain_manifests_are_of_the_chart():
    made = subprocess.run([sys.executable, TREE / "tools/chart.py"], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert (TREE / "contrib/kubernetes/cloister.yaml").read_text() == made, "tools/chart.py >contrib/kubernetes/cloister.yaml"


def test_the_profile_is_that_of_the_image():
    assert json.loads((CHART / "seccomp.json").read_text()) == json.loads((TREE / "packaging/image/seccomp.json").read_text())
    data = objects()["ConfigMap", "cloister-seccomp"]["data"]["worker.json"]
    assert json.loads(data) == json.loads((CHART / "seccomp.json").read_text())


def test_the_version_is_ours():
    version = next(line.split('"')[1] for line in (TREE / "src/base/version.h").read_text().splitlines()
                   if "define CLOISTER_VERSION " in line)
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == version
    assert yaml.safe_load((CHART / "values.yaml").read_text())["image"] == f"cloister-worker:{version}"


def test_every_value_is_used():
    templates = "".join(path.read_text() for path in (CHART / "templates").glob("*.yaml"))

    def check(values, path):
        for name, value in values.items():
            if isinstance(value, dict):
                check(value, f"{path}.{name}")
            else:
                assert f".Values{path}.{name}" in templates, f"{path}.{name}"
    check(yaml.safe_load((CHART / "values.yaml").read_text()), "")


def test_parts_can_be_left_out():
    kinds = {kind for kind, _ in objects(("seccomp.install", False), ("networkPolicy", False))}
    assert not kinds & {"DaemonSet", "ConfigMap", "NetworkPolicy", "Deployment"}
    assert objects(("pool.enabled", True), ("pool.slots", 9))["Deployment", "cloister-pool"]


def test_whom_workers_reach():
    """Each rule says whom, and private addresses are those that the operator names."""
    def rules(*changes):
        return objects(*changes)["NetworkPolicy", "cloister-worker"]["spec"]["egress"]
    for changes in ((), (("store.network", "10.1.2.3/32"), ("store.port", 6432))):
        for rule in rules(*changes):
            assert rule["to"] and all(to for to in rule["to"]), rule
            for to in rule["to"]:
                assert "ipBlock" in to or (to["namespaceSelector"]["matchLabels"] and to["podSelector"]["matchLabels"]), to
    wide, own = ([r for r in rules(*changes) if "ipBlock" in r["to"][0]] for changes in
                 ((), (("store.network", "10.1.2.3/32"), ("store.port", 6432))))
    assert len(wide) == 1 and "10.0.0.0/8" in wide[0]["to"][0]["ipBlock"]["except"]
    assert [r for r in own if r not in wide] == [{"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}], "ports": [{"port": 6432}]}]


def test_images_of_others_have_a_digest():
    for (kind, _), one in objects(("pool.enabled", True)).items():
        pod = one.get("spec", {}).get("template", {}).get("spec", {}) if kind != "Service" else {}
        for container in pod.get("containers", []):
            assert "@sha256:" in container["image"] or container["image"].startswith("cloister-worker:"), container


def test_the_service_may_read_no_secret():
    for (kind, _), one in objects().items():
        assert kind not in ("ClusterRole", "ClusterRoleBinding")
        for rule in one.get("rules", []) if kind == "Role" else []:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            if "secrets" in rule["resources"]:
                assert rule["verbs"] == ["create"]


@pytest.mark.parametrize("text", ["{{ .Values.image | upper }}", "{{ include \"x\" . }}", "{{ .Values.no }}", "{{ .Values.pool }}",
                                  "{{- range .Values.image }}", "{{- if .Values.networkPolicy }}\na: b"])
def test_anything_else_is_an_error(text):
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    with pytest.raises((AssertionError, KeyError, TypeError)):
        chart.render(text, values)
