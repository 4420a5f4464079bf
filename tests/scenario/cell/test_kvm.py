"""KVM itself: an emulated CPU with AMD-V has a genuine device, and the kernel's own driver behind it."""
import json
import platform
import re

import pytest

import microvm
import vm
from operators import IS_STATIC
from test_initramfs import WANTED

# The probe's deadline is for real processors: on a busy machine it is tried again.
SCRIPT = """
export HOME=/tmp/home PATH=/bin:/opt/cloister
mkdir -p $HOME
mount -t cgroup2 none /sys/fs/cgroup
for i in 1 2 3 4 5; do
    cloister doctor --json >/tmp/doctor
    grep -q "runs guests" /tmp/doctor && break
done
echo "--- works"; cat /tmp/doctor
for i in 1 2 3; do
    echo "--- run"
    cloister run --boundary microvm --cpus 1 --memory 256M -- \\
        sh -c 'read canary; echo $(uname -r) $canary; exit 7' <<END
canary
END
    status=$?
    [ $status = 125 ] || break
done
echo "--- status $status"
find /sys/fs/cgroup -name 'cloister*'
ls /run/cloister | grep -v slots
rmmod kvm_amd
echo "--- unloaded"; cloister doctor --json
"""


def kvm_row(text):
    return next(check for check in json.loads(text)["checks"] if check["name"] == "kvm")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it emulates AMD-V; the matrix has KVM of arm64")
@pytest.mark.skipif(not IS_STATIC, reason="the sanitizers' programs want the host's libraries")
def test_a_genuine_device(tmp_path):
    """One boot for all: `doctor` finds out that it works, a cell runs in a guest, and nothing is left."""
    files, release = microvm.programs(WANTED)
    said = vm.run(tmp_path, SCRIPT, files, modules=["kvm_amd", "overlay", "fuse"], memory=1536,
                  cpu="qemu64,+svm,+npt")
    rows = {name: kvm_row(text) for name, text in re.findall(r"--- (\w+)\n(\{.*\})\n", said)}
    assert rows["works"]["state"] == "ok" and "runs guests" in rows["works"]["found"], rows
    assert rows["unloaded"]["state"] == "missing" and "modprobe kvm_amd" in rows["unloaded"]["todo"], rows
    # The kernel's messages are among the lines.
    assert re.search(rf"^{re.escape(release)} canary\n(\[.*\n)*--- status 7\n(\[.*\n)*--- unloaded$", said, re.M), said
