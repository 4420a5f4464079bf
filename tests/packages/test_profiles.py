"""The profiles of contrib/apparmor and contrib/selinux: they compile, and AppArmor's hold our helpers and let cells work."""
import re
import shutil
import sys
from pathlib import Path

import pytest

from packing import BUILD, TREE, run

sys.path.insert(0, str(TREE / "tests" / "scenario"))
import vm       # noqa: E402

APPARMOR = TREE / "contrib/apparmor"
SELINUX = TREE / "contrib/selinux"
DEVEL = Path("/usr/share/selinux/devel/Makefile")
HELPERS = ("gate", "courier", "inspect", "mint", "publish", "compare", "unpack")
MODULES = ["ipv6", "overlay", "nf_tables", "nft_chain_nat", "nft_nat", "nft_ct", "nft_tproxy", "nft_reject_ipv4",
           "nft_reject_ipv6"]
LIBEXEC = "usr/libexec/cloister"
PARSER = Path("/usr/sbin/apparmor_parser")
MACHINE_SECONDS = 1800
SCRIPT = """
export PATH=/bin:/usr/bin HOME=/root
mkdir -p /var /home /www /work /sys/kernel/security /etc/apparmor
: >/etc/apparmor/parser.conf
mount -t securityfs none /sys/kernel/security
# Every denial is to be seen.
echo 0 >/proc/sys/kernel/printk_ratelimit
cp /bin/busybox /usr/bin
for a in sh wget httpd sleep cat echo; do ln -s busybox /usr/bin/$a; done
ip link set lo up
apparmor_parser -r -K /etc/apparmor.d/cloister-helpers && echo loaded
echo secret >/root/secret
echo from the machine >/www/file
httpd -p 127.0.0.1:8080 -h /www

echo "--- cells"
cat >/policy.yaml <<END
version: 1
egress:
  - allow: host.cloister.internal:8080
    methods: [GET]
  - allow: host.cloister.internal:8080
    methods: [POST]
    body: {regex: [hello]}
END
cloister run -q -p /policy.yaml -- sh -c '
    wget -qO- http://host.cloister.internal:8080/file
    wget -qO- --post-data hello http://host.cloister.internal:8080/file
    sleep 1000' 2>&1 &
i=0
until grep -qs cloister-inspect /proc/*/attr/current || [ $i = 300 ]; do i=$((i + 1)); sleep 0.1; done
cloister run -q --publish 9000:8000 -- sh -c 'echo from the cell >/tmp/file; httpd -p 127.0.0.1:8000 -h /tmp; sleep 1000' &
i=0
until wget -qO- http://127.0.0.1:9000/file 2>/dev/null || [ $i = 300 ]; do i=$((i + 1)); sleep 0.1; done
for p in /proc/[0-9]*; do
    case $(cat $p/comm 2>/dev/null) in cloister-*) echo "runs: $(cat $p/attr/current)" ;; esac
done
cd /work && echo one >file && cloister run -q -w . --name changes -- sh -c 'echo two >file' && cloister diff changes | cat
cloister image load minimal:
mkdir /home/user && chown user /home/user
su user -c 'HOME=/home/user cloister run -q --allow host.cloister.internal:8080 -- wget -qO- http://host.cloister.internal:8080/file'
cloister kill --all

echo "--- denials"
dmesg | grep -o 'apparmor="DENIED".*'
echo "--- a helper that is not itself"
for name in gate inspect compare unpack; do
    cp /bin/busybox /usr/libexec/cloister/cloister-$name
    ln -sf /usr/libexec/cloister/cloister-$name /tmp/busybox
    for words in "cat /root/secret" "sh -c /bin/true" "wget -qO- http://127.0.0.1:8080/file" "touch /root/made"; do
        /tmp/busybox $words >/dev/null 2>&1 && echo "$name: $words" || echo "$name may not: $words"
    done
done
"""


@pytest.mark.skipif(not PARSER.exists(), reason="no apparmor_parser")
def test_apparmor_profiles_compile():
    file = APPARMOR / "cloister-helpers"
    assert re.findall(r"^profile (\S+)", file.read_text(), re.M) == [f"cloister-{name}" for name in HELPERS]
    run(PARSER, "-Q", "-K", "-I", APPARMOR, "--base", "/etc/apparmor.d", file)


@pytest.mark.skipif(not DEVEL.exists(), reason="no selinux-policy-dev")
def test_selinux_module_compiles(tmp_path):
    for name in ("cloister.te", "cloister.fc"):
        shutil.copy(SELINUX / name, tmp_path)
    (tmp_path / "cloister.if").touch()
    run("make", "-f", DEVEL, "cloister.pp", cwd=tmp_path)
    types = set(re.findall(rb"cloister_(\w+)_exec_t", (tmp_path / "cloister.pp").read_bytes()))
    assert types == {name.encode() for name in HELPERS}


def machine_files():
    """The programs of a machine with AppArmor's parser, cloister and its profiles."""
    programs = [BUILD / "libexec" / f"cloister-{name}" for name in (*HELPERS, "supervisor", "init", "collect", "image", "vault")]
    files = {f"{LIBEXEC}/{p.name}": p for p in programs} | {"usr/bin/cloister": BUILD / "cloister"}
    files |= {"usr/bin/apparmor_parser": PARSER}
    files |= {path.lstrip("/"): path for path in vm.libraries(PARSER, *programs)}
    for top in ("abi", "tunables"):
        files |= {str(p).lstrip("/"): p for p in Path("/etc/apparmor.d", top).rglob("*") if p.is_file()}
    return files | {f"etc/apparmor.d/{p.relative_to(APPARMOR)}": p for p in APPARMOR.rglob("*") if p.is_file()}


@pytest.mark.skipif(not PARSER.exists(), reason="no apparmor_parser")
def test_apparmor_holds_helpers_in_a_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(vm, "BOOT_SECONDS", MACHINE_SECONDS)
    out = vm.run(tmp_path, SCRIPT, machine_files(), MODULES, disk=256, append="apparmor=1 security=apparmor")
    assert "loaded\n" in out, out
    worked, denials = out.split("--- denials\n")
    denials, intruder = denials.split("--- a helper that is not itself\n")
    for said in ("from the cell\n", "+two\n", "minimal"):
        assert said in worked, out
    assert worked.count("from the machine\n") == 2, out
    confined = set(re.findall(r"^runs: (\S+) \(enforce\)$", worked, re.M))
    assert {f"cloister-{name}" for name in ("gate", "courier", "inspect", "publish")} <= confined, out
    assert denials == "", out
    # The gate carries connections, and compare reads files; neither does anything else.
    may = set(re.findall(r"^(\w+): (.*)$", intruder, re.M))
    assert may == {("gate", "wget -qO- http://127.0.0.1:8080/file"), ("compare", "cat /root/secret")}, out
    assert len(re.findall(r"^\w+ may not: ", intruder, re.M)) == 14, out
