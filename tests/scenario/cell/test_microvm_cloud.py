"""Cloud Hypervisor itself, where it is installed: in a machine whose emulated processor has AMD-V, as in test_kvm.py."""
import os
import platform
import re
import shutil
import subprocess

import pytest

import microvm
import vm
from operators import BUILD, IS_STATIC, TREE
from test_initramfs import WANTED

pytestmark = pytest.mark.skipif(not os.environ.get("CLOISTER_TEST_VM"), reason="takes long: `make test-vm`")
PROGRAM = shutil.which(os.environ.get("CLOISTER_TEST_CLOUD", "cloud-hypervisor"))
VSOCK = ("vmw_vsock_virtio_transport",)
# A policy needs these of the outer machine's kernel.
NETWORK = ("tun", "nf_tables", "nft_chain_nat", "nft_tproxy", "nft_reject_ipv4", "nft_reject_ipv6", "nft_ct", "nft_nat")
EACH = 900      # seconds, of an emulated processor that emulates another

# A busy machine may take longer than a start may: it is tried again.
SCRIPT = """
export HOME=/tmp/home PATH=/bin:/opt/cloister
mkdir -p $HOME
mount -t cgroup2 none /sys/fs/cgroup
chmod 0666 /dev/net/tun
start() {
    what=$1
    shift
    for i in 1 2 3; do
        echo "--- $what"
        cloister run --boundary microvm --vm-monitor cloud-hypervisor --cpus 1 --memory 256M "$@" <<END
canary
END
        status=$?
        [ $status = 125 ] || break
    done
    echo "status $status"
}
start restored --allow www.example.test -- sh -c 'nslookup www.example.test; nslookup denied.example.test; exit 9'
start booted --vm-boot -- sh -c 'read canary; echo $(uname -r) $canary; exit 7'
cloister vm list
echo "--- left"
find /sys/fs/cgroup -name 'cloister*'
ls /run/cloister | grep -v slots
echo "--- end"
"""


def build(target, *options):
    subprocess.run(["cc", "-O1", *options, "-o", target, TREE / "tests/scenario/vm_xsave.c"], check=True)
    return target


def files_of_machine(tmp_path):
    files, release = microvm.programs(WANTED + VSOCK)
    helpers = [path for path in (BUILD / "libexec").iterdir() if path.name.startswith("cloister-")]
    files |= {f"opt/cloister/libexec/{path.name}": path for path in helpers}
    files |= {path.lstrip("/"): path for path in vm.libraries(PROGRAM, *helpers)}
    files["usr/lib/cloud-hypervisor"] = PROGRAM
    files["usr/lib/vm_xsave.so"] = build(tmp_path / "library", "-shared", "-fPIC")
    files["usr/bin/cloud-hypervisor"] = build(tmp_path / "program", "-static", '-DPROGRAM="/usr/lib/cloud-hypervisor"',
                                              '-DLIBRARY="/usr/lib/vm_xsave.so"')
    return files, release


@pytest.mark.skipif(not PROGRAM, reason="no Cloud Hypervisor: install it, or name it in CLOISTER_TEST_CLOUD")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="QEMU emulates virtualisation of amd64 only")
@pytest.mark.skipif(not IS_STATIC, reason="the sanitizers' programs want the host's libraries")
def test_the_program(tmp_path, monkeypatch):
    """It makes a template and starts a cell from that, with files and a network; and it boots another."""
    monkeypatch.setattr(vm, "BOOT_SECONDS", EACH)
    files, release = files_of_machine(tmp_path)
    said = vm.run(tmp_path, SCRIPT, files, modules=["kvm_amd", "overlay", "fuse", *NETWORK], memory=1536,
                  cpu="qemu64,+svm,+npt")
    # The kernel's messages are among the lines.
    parts = dict(re.findall(r"^--- (\w+)\n((?:(?!--- ).*\n)*)", re.sub(r"^\[ .*\n", "", said, flags=re.M), re.M))
    assert parts["booted"].startswith(f"{release} canary\nstatus 7\nTEMPLATE"), said
    assert re.search(r"Name:\s+www\.example\.test\nAddress.*\d", parts["restored"]), said
    assert "NXDOMAIN" in parts["restored"] and parts["restored"].endswith("status 9\n"), said
    assert parts["left"] == "", said
