"""The profiles of contrib/apparmor: they compile, hold our helpers, and let cells work.  test_selinux.py has those for SELinux."""
import re
from pathlib import Path

import pytest

from confined import (CONNECT, EXECUTE, HELPERS, INTRUDER, MACHINE_SECONDS, MODULES, READ, WORK, WRITE, check_intruder, check_work,
                      kernel_of, vm)
from packing import ARCH, BUILD, TREE, run, systems

APPARMOR = TREE / "contrib/apparmor"
# Programs of the machine that nothing confines.
OTHERS = ("supervisor", "init", "image", "build", "vault", "stdio")
MAY = {"gate": {CONNECT}, "courier": {CONNECT}, "inspect": set(), "mint": set(), "publish": {CONNECT}, "compare": {READ},
       "unpack": set(), "witness": {READ, CONNECT}, "collect": {READ}, "layer": {READ}, "pull": {READ, CONNECT}, "state": {READ}, "blobs": {READ, CONNECT},
       "link": {CONNECT}, "audit": {READ, WRITE}, "tools": {READ}, "lock": {READ, CONNECT, WRITE, EXECUTE}}
LIBEXEC = "usr/libexec/cloister"
PARSER = Path("/usr/sbin/apparmor_parser")
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
SCRIPT = f"""
export PATH=/bin:/usr/bin HOME=/root HELPERS="{' '.join(HELPERS)}"
""" + """mkdir -p /var /home /www /work /sys/kernel/security /etc/apparmor
: >/etc/apparmor/parser.conf
mount -t securityfs none /sys/kernel/security
# Every denial is to be seen.
echo 0 >/proc/sys/kernel/printk_ratelimit
cp /bin/busybox /usr/bin
for a in sh wget httpd sleep cat echo touch od tr head; do ln -s busybox /usr/bin/$a; done
ip link set lo up
mount -t bpf bpf /sys/fs/bpf
# Those that end soon leave a trace: they may read any file, or libraries.
mkdir /etc/apparmor.d/local
for name in collect layer pull audit lock; do
    echo "audit /{,**} r," >/etc/apparmor.d/local/cloister-$name
done
echo "audit /{usr/,}lib{,32,64}/** mr," >/etc/apparmor.d/local/cloister-link
apparmor_parser -r -K /etc/apparmor.d/cloister-helpers && echo loaded
echo secret >/root/secret
echo from the machine >/www/file
httpd -p 127.0.0.1:8080 -h /www
""" + WORK + """
echo "--- denials"
dmesg | grep -o 'apparmor="DENIED".*' | sed 's/ pid=[0-9]*//' | sort -u
echo "--- confined"
dmesg | grep -o 'apparmor="AUDIT".*profile="cloister-[a-z]*"' | sed 's/.*profile="cloister-//; s/"//' | sort -u
""" + INTRUDER + """
echo "--- the registry"
registry=/var/lib/cloister/registry
mkdir -p $registry/trees/0/files
for file in registry.db trees/0/files/module.wasm; do echo something >$registry/$file; done
for name in $HELPERS; do
    ln -sf /usr/libexec/cloister/cloister-$name /tmp/busybox
    for file in registry.db trees/0/files/module.wasm; do
        /tmp/busybox cat $registry/$file 2>/dev/null | grep -q something && echo "$name reads $file"
    done
    /tmp/busybox touch $registry/trees/0/files/made.$name 2>/dev/null && echo "$name writes to trees"
done
"""
# Modules and programs of capabilities are in trees.  cloister-blobs brings any of it to S3.
READS = {**dict.fromkeys(("witness", "tools", "lock"), {"trees/0/files/module.wasm"}),
         "blobs": {"registry.db", "trees/0/files/module.wasm"}}


@pytest.mark.skipif(not PARSER.exists(), reason="no apparmor_parser")
def test_apparmor_profiles_compile():
    file = APPARMOR / "cloister-helpers"
    assert re.findall(r"^profile (\S+)", file.read_text(), re.M) == [f"cloister-{name}" for name in HELPERS]
    run(PARSER, "-Q", "-K", "-I", APPARMOR, "--base", "/etc/apparmor.d", file)


def machine_files():
    """The programs of a machine with AppArmor's parser, cloister and its profiles."""
    programs = [BUILD / "libexec" / f"cloister-{name}" for name in (*HELPERS, *OTHERS)]
    files = {f"{LIBEXEC}/{p.name}": p for p in programs} | {"usr/bin/cloister": BUILD / "cloister"}
    files |= {"usr/bin/apparmor_parser": PARSER, "etc/ssl/certs/ca-certificates.crt": AUTHORITIES}
    files |= {path.lstrip("/"): path for path in vm.libraries(PARSER, *programs)}
    for top in ("abi", "tunables"):
        files |= {str(p).lstrip("/"): p for p in Path("/etc/apparmor.d", top).rglob("*") if p.is_file()}
    return files | {f"etc/apparmor.d/{p.relative_to(APPARMOR)}": p for p in APPARMOR.rglob("*") if p.is_file()}


@pytest.mark.skipif(not PARSER.exists(), reason="no apparmor_parser")
@pytest.mark.parametrize("release", ["debian12", "debian13"])
def test_apparmor_holds_helpers_in_a_machine(release, tmp_path, monkeypatch):
    """Newer kernels ask AppArmor more: since 6.7 whether a mount may be attached, for one."""
    monkeypatch.setattr(vm, "BOOT_SECONDS", MACHINE_SECONDS)
    monkeypatch.setattr(vm, "CACHE", kernel_of(systems.SYSTEMS[f"{release}-{ARCH}"]))
    out = vm.run(tmp_path, SCRIPT, machine_files(), MODULES, disk=256, append="apparmor=1 security=apparmor")
    assert "loaded\n" in out, out
    assert "--- a helper that is not itself\n" in out, out
    worked, denials = out.split("--- denials\n")
    denials, confined = denials.split("--- confined\n")
    confined, intruder = confined.split("--- a helper that is not itself\n")
    check_work(worked)
    lasting = set(re.findall(r"^runs: cloister-(\S+) \(enforce\)$", worked, re.M))
    assert {"gate", "courier", "inspect", "publish", "witness", "tools", "tools//worker"} <= lasting, out
    assert set(confined.split()) == {"audit", "collect", "layer", "link", "lock", "pull"}, out
    assert denials == "", out
    intruder, registry = intruder.split("--- the registry\n")
    check_intruder(intruder, MAY)
    assert set(re.findall(r"^(\w+) (?:reads|writes to) (\S+)$", registry, re.M)) == {
        (name, file) for name, files in READS.items() for file in files}, out
