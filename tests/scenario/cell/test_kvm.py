"""`cloister doctor` runs a guest to find out whether KVM works."""
import json
import platform
import re

import pytest

import vm
from operators import CLOISTER, IS_STATIC

SCRIPT = """
show() { echo "--- $1"; cloister doctor --json; }
mkdir -p /tmp/home && export HOME=/tmp/home
show works
rmmod kvm_amd
show unloaded
"""


def kvm_row(text):
    return next(check for check in json.loads(text)["checks"] if check["name"] == "kvm")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="QEMU emulates virtualisation of amd64 only")
@pytest.mark.skipif(not IS_STATIC, reason="the sanitizers' programs want the host's libraries")
def test_a_genuine_device(tmp_path):
    """An emulated CPU with AMD-V, and the kernel's own driver."""
    said = vm.run(tmp_path, SCRIPT, {"bin/cloister": CLOISTER}, modules=["kvm_amd"], cpu="qemu64,+svm,+npt")
    rows = {name: kvm_row(text) for name, text in re.findall(r"--- (\w+)\n(\{.*\})\n", said)}
    assert rows["works"]["state"] == "ok" and "runs guests" in rows["works"]["found"], rows
    assert rows["unloaded"]["state"] == "missing" and "modprobe kvm_amd" in rows["unloaded"]["todo"], rows
