"""The module of contrib/selinux: with SELinux in force it holds our helpers, and lets cells work."""
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from confined import (CONNECT, EXECUTE, HELPERS, INTRUDER, MACHINE_SECONDS, MODULES, READ, WORK, WRITE, check_intruder, check_work,
                      kernel_of, vm)
from packing import ARCH, BUILD, TREE, clean_root, run, systems

SELINUX = TREE / "contrib/selinux"
DEVEL = Path("/usr/share/selinux/devel/Makefile")
PACKAGES = ("selinux-policy-default", "selinux-policy-dev", "policycoreutils", "semodule-utils", "checkpolicy", "make", "m4",
            "busybox-static", "ca-certificates", "iproute2", "mount", "procps", "util-linux")
MAY = {"gate": set(), "courier": {CONNECT}, "inspect": set(), "mint": set(), "publish": {CONNECT}, "compare": {READ},
       "unpack": set(), "witness": {READ}, "collect": {READ}, "layer": {READ}, "pull": {READ, CONNECT}, "blobs": {READ, CONNECT},
       "link": {CONNECT}, "audit": {READ}, "tools": {READ}, "lock": {READ, CONNECT, WRITE, EXECUTE}}
# These end too soon to be seen, so the kernel writes down each start of theirs.
SHORT = {"audit", "collect", "compare", "layer", "link", "lock", "lock_part", "mint", "pull", "unpack"}
MODULE = r"""set -e
mount -t proc proc "$1/proc"
chroot "$1" make -s -C /module -f /usr/share/selinux/devel/Makefile cloister.pp
chroot "$1" semodule -n -s default -i /module/cloister.pp
chroot "$1" setfiles -F /etc/selinux/default/contexts/files/file_contexts /
umount "$1/proc"
"""
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
for m in $(cat /modules/order); do insmod /modules/$m; done
mkdir /new
mount -t ext4 /dev/vda /new
mount --move /dev /new/dev
exec switch_root /new /start
"""
# What init does elsewhere; then the script runs as an operator's login would.
START = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 run /run
# Every denial is to be seen.
echo 0 >/proc/sys/kernel/printk_ratelimit
load_policy -i
mount -t bpf bpf /sys/fs/bpf
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
restorecon -R /dev /run /sys/fs 2>/dev/null
chcon -t user_tty_device_t "/dev/$CONSOLE"
chmod 1777 /tmp
ip link set lo up
echo
echo "--- the script"
runcon unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023 sh -c "exec </dev/null >/dev/$CONSOLE 2>&1; . /script"
sync
busybox poweroff -f
"""
SCRIPT = f"""
export HELPERS="{' '.join(HELPERS)}"
""" + """dmesg -c >/dev/null
setenforce 1
echo "it is $(getenforce), I am $(id -Z)"
mkdir -p /www /work
echo from the machine >/www/file
for a in wget httpd; do ln -s busybox /usr/bin/$a; done
httpd -p 127.0.0.1:8080 -h /www
""" + WORK + """
echo "--- denials"
dmesg | grep -o 'avc:  denied.*' | sed 's/ pid=[0-9]*//; s/ ino=[0-9]*//' | sort -u
echo "--- confined"
dmesg | grep -o 'avc:  granted.*' | grep -o 'tcontext=[^ ]*' | grep -o 'cloister_[a-z_]*_t' | sort -u
dmesg -c >/dev/null
""" + INTRUDER + """
echo "--- refused"
dmesg | grep -o 'avc:  denied.*' | grep -o 'scontext=[^ ]*' | grep -o 'cloister_[a-z_]*_t' | sort -u
echo "--- the registry"
registry=/var/lib/cloister/registry
rm -rf $registry
mkdir -p $registry/blobs/00 $registry/tmp/x/files $registry/trees
for file in registry.db tmp/blob tmp/x/files/module.wasm; do echo something >$registry/$file; done
mv $registry/tmp/blob $registry/blobs/00
mv $registry/tmp/x $registry/trees/0
echo something >$registry/tmp/staged
relabel=$(restorecon -Rnv $registry)
for name in $HELPERS; do
    ln -sf /usr/libexec/cloister/cloister-$name /tmp/busybox
    for file in registry.db blobs/00/blob tmp/staged trees/0/files/module.wasm; do
        /tmp/busybox cat $registry/$file 2>/dev/null | grep -q something && echo "$name reads $file"
    done
    /tmp/busybox touch $registry/trees/0/files/made.$name $registry/tmp/made.$name $registry/made.$name 2>/dev/null
done
echo "made: $(find $registry -name 'made.*')"
echo "relabel: $relabel"
echo "--- end"
"""
# Modules and programs of capabilities are in trees.  link reads registry/home, which has the type of database and blobs.
READ_REGISTRY = {("witness", "trees/0/files/module.wasm"), ("tools", "trees/0/files/module.wasm"),
                 ("lock", "trees/0/files/module.wasm"), ("link", "registry.db"), ("link", "blobs/00/blob")}


@pytest.mark.skipif(not DEVEL.exists(), reason="no selinux-policy-dev")
def test_selinux_module_compiles(tmp_path):
    for name in ("cloister.te", "cloister.fc"):
        shutil.copy(SELINUX / name, tmp_path)
    (tmp_path / "cloister.if").touch()
    run("make", "-f", DEVEL, "cloister.pp", cwd=tmp_path)
    types = set(re.findall(rb"cloister_(\w+)_exec_t", (tmp_path / "cloister.pp").read_bytes()))
    assert types == {name.encode() for name in HELPERS}


def this_system():
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    suite = release.get("VERSION_CODENAME", "").strip('"')
    found = [s for s in systems.SYSTEMS.values() if (s.suite, s.arch) == (suite, ARCH)]
    if not found or found[0].distribution is not systems.DEBIAN:
        pytest.skip("this machine's release has no SELinux policy that is known to this test")
    return found[0]


def library_packages():
    """The packages that bring the shared libraries of our programs."""
    files = vm.libraries(*(path for path in (BUILD / "libexec").iterdir()))
    real = {name for path in files for name in (path, os.path.realpath(path))}
    said = subprocess.run(["dpkg-query", "-S", *sorted(real)], capture_output=True, text=True, check=False).stdout
    return sorted({line.split(":")[0] for line in said.splitlines()})


@pytest.fixture
def disk(tmp_path):
    """A small Debian with its own policy, our programs as `make install` puts them, and our module; everything is labelled."""
    system = this_system()
    try:
        system.check_reachable()
    except systems.Unreachable as e:
        pytest.skip(str(e))
    root = tmp_path / "root"
    clean_root(system, root, [*PACKAGES, *library_packages()])
    run("make", "-s", f"B={BUILD}", "install", f"DESTDIR={root}", "PREFIX=/usr", cwd=TREE)
    (root / "module").mkdir()
    for name in ("cloister.te", "cloister.fc"):
        shutil.copy(SELINUX / name, root / "module")
    (root / "module/cloister.if").touch()
    with open(root / "module/cloister.te", "a", encoding="utf-8") as module:
        module.write("gen_require(`attribute domain;')\n")
        module.write("".join(f"auditallow domain cloister_{name}_t:process transition;\n" for name in sorted(SHORT)))
    run("chroot", root, "useradd", "-u", "1000", "-m", "user")
    for name, text in (("start", START.replace("$CONSOLE", vm.boot.native_machine().console)), ("script", SCRIPT)):
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    run("unshare", "--mount", "--propagation", "private", "sh", "-c", MODULE, "sh", root)
    made = tmp_path / "disk"
    run("mke2fs", "-q", "-t", "ext4", "-d", root, made, "2G")
    return system, made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes such roots")
def test_selinux_holds_helpers_in_a_machine(disk, tmp_path):
    system, image = disk
    machine, folder = vm.boot.native_machine(), kernel_of(system)
    folder = next(path for path in folder.iterdir() if (path / "boot").exists())
    kernel = next((folder / "boot").glob("vmlinuz-*"))
    busybox = shutil.which("busybox")
    modules = vm.boot.find_modules(folder, [*MODULES, "virtio_pci", "virtio_blk", "ext4"])
    (tmp_path / "initramfs").write_bytes(vm.boot.make_initramfs(busybox, INIT, modules, [("new", stat.S_IFDIR | 0o755, b"")]))
    accelerator, _ = vm.boot.pick_accelerator(machine, kernel, busybox)
    words = vm.boot.command(machine, kernel, tmp_path / "initramfs", accelerator=accelerator, memory=1024, is_counted=True,
                            append="security=selinux selinux=1", more=vm.boot.disk(image, 0))
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=MACHINE_SECONDS, check=False)
    out = done.stdout.decode(errors="replace").replace("\r\n", "\n").partition("--- the script\n")[2]
    assert "it is Enforcing, I am unconfined_u:unconfined_r:unconfined_t:" in out, done.stdout[-4000:]
    assert "--- refused\n" in out, out
    worked, denials = out.split("--- denials\n")
    denials, confined = denials.split("--- confined\n")
    confined, intruder = confined.split("--- a helper that is not itself\n")
    intruder, refused = intruder.split("--- refused\n")
    refused, registry = refused.split("--- the registry\n")
    check_work(worked)
    lasting = set(re.findall(r"^runs: \S+:cloister_(\w+)_t:", worked, re.M))
    assert {"gate", "courier", "inspect", "publish", "witness", "tools", "tools_worker"} <= lasting, out
    # And what is not to be confined is not.
    assert re.search(r"^runs: \S+:unconfined_t:", worked, re.M), out
    assert {f"cloister_{name}_t" for name in SHORT} == set(confined.split()), out
    assert denials == "", out
    check_intruder(intruder, MAY)
    assert {f"cloister_{name}_t" for name in HELPERS} <= set(refused.split()), out
    # Restoring labels would change none of those that the files got when they were made.
    assert set(registry.partition("--- end\n")[0].splitlines()) == {
        *(f"{name} reads {file}" for name, file in READ_REGISTRY), "made: ", "relabel: "}, out
