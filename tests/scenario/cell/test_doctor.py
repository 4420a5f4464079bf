"""The doctor: what this machine can enforce, and for the rest what to do."""
import json
import platform
import re

import pytest

from operators import only_user


@pytest.fixture
def report(operator):
    return json.loads(operator.cloister("doctor", "--json").ok())


def state(report, name):
    return next((check["state"] for check in report["checks"] if check["name"] == name), None)


def test_no_kernel_for_a_guest(operator):
    report = json.loads(operator.cloister("doctor", "--json", env={"CLOISTER_VM_KERNEL": "/no/such"}).ok())
    if state(report, "virtual machines") != "ok":
        pytest.skip("no QEMU")
    assert state(report, "guest kernel") == "missing"


def test_for_programs(report):
    assert report["can_run"] is True and report["obstacle"] is None
    names = {check["name"] for check in report["checks"]}
    assert {"user namespaces", "apparmor", "cgroups", "landlock", "nftables", "kvm", "virtual machines", "record", "wasm"} <= names
    assert ("guest kernel" in names) == (state(report, "virtual machines") == "ok")
    for check in report["checks"]:
        assert check["state"] in ("ok", "limited", "missing") and check["found"], check
        if check["state"] != "ok":
            assert check["todo"], check
    kvm = next(c for c in report["checks"] if c["name"] == "kvm")
    assert platform.machine() == "x86_64" or "kvm_intel" not in (kvm["todo"] or "")


def test_cgroups_of_version_1(report):
    cgroups = next(c for c in report["checks"] if c["name"] == "cgroups")
    if "version 1" not in cgroups["found"]:
        pytest.skip("this machine has none")
    assert "boot with cgroup version 2 alone" in cgroups["todo"]


def test_for_people(operator, report):
    said = operator.cloister("doctor").ok()
    for check in report["checks"]:
        assert check["name"] in said and (check["todo"] or "") in said
    assert all(line == line.rstrip() for line in said.splitlines())


def test_it_leaves_nothing(operator):
    """It tries features of the machine; the fixture finds any remains."""
    operator.cloister("doctor").ok()
    assert operator.names(operator.state) == []


def test_a_limit_that_cannot_be_enforced_comes_with_advice(operator):
    missing = operator.run("--memory", "1G", "--", "true")
    said = operator.cloister("doctor").out
    if missing.status == 0:
        assert re.search(r"memory.* can be limited", said)
    else:
        assert "cannot be limited" in said and re.search(r"as root|systemd-run|Delegate", said)


def test_a_machine_where_cells_cannot_run(operator):
    """No namespaces to be had: said in the first line that matters, with the status."""
    done = operator.do("unshare", "-Ur", "sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces;"
                       f"{operator.program} doctor; echo $?; {operator.program} doctor --json")
    assert "\n125\n" in done.out or "\n1\n" in done.out, done
    told = json.loads(done.out.splitlines()[-1])
    assert told["can_run"] is False and told["obstacle"]
    check = next(c for c in told["checks"] if c["name"] == "user namespaces")
    assert check["state"] != "ok" and check["todo"]


@only_user
def test_a_cell_that_fails_though_its_parts_work(operator):
    """As in a container, where a part of /proc is hidden: the last word is a real cell's."""
    done = operator.do("unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /proc/fs || exit 77;"
                       f"{operator.program} run -q -- true; echo run $?; {operator.program} doctor; echo doctor $?;"
                       f"container=podman {operator.program} doctor --json")
    if done.status == 77 or "run 0\n" in done.out:
        pytest.skip("cells run even so")
    assert "\ndoctor 1\n" in done.out, done
    told = json.loads(done.out.splitlines()[-1])
    check = next(c for c in told["checks"] if c["name"] == "a real cell")
    assert told["can_run"] is False and told["obstacle"], told
    if told["obstacle"] == "a real cell":
        assert done.err.startswith("cloister: ") and done.err.splitlines()[0][len("cloister: "):] in check["found"]
        assert "--security-opt seccomp=unconfined --security-opt unmask=ALL" in check["todo"]


def test_a_real_cell(operator, report):
    check = next(c for c in report["checks"] if c["name"] == "a real cell")
    assert (check["state"] == "ok") == (operator.run("-q", "--", "true").status == 0)


def test_words_too_many(operator):
    operator.cloister("doctor", "x").sentence("'x'")
