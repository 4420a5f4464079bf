"""The profiles of contrib/apparmor and contrib/selinux: they compile, and AppArmor's hold our helpers and let cells work."""
import lzma
import re
import shutil
import sys
from pathlib import Path

import pytest

from packing import ARCH, BUILD, TREE, run, systems

sys.path.insert(0, str(TREE / "tests" / "scenario"))
import vm       # noqa: E402

APPARMOR = TREE / "contrib/apparmor"
SELINUX = TREE / "contrib/selinux"
DEVEL = Path("/usr/share/selinux/devel/Makefile")
# Programs of the machine that nothing confines.
OTHERS = ("supervisor", "init", "image", "build", "vault", "stdio")
# A program in a helper's place may do this of six things, and nothing else.
READ, CONNECT, WRITE = "cat /root/secret", "wget -qO- http://127.0.0.1:8080/file", "touch /root/made"
MAY = {"gate": {CONNECT}, "courier": {CONNECT}, "inspect": set(), "mint": set(), "publish": {CONNECT}, "compare": {READ},
       "unpack": set(), "witness": {READ, CONNECT}, "collect": {READ}, "layer": {READ}, "pull": {READ, CONNECT}, "blobs": {READ, CONNECT},
       "audit": {READ, WRITE}, "tools": {READ}, "lock": {READ, CONNECT, WRITE, "sh -c /bin/true"}}
HELPERS = tuple(MAY)
# Their parts are one program.  AppArmor gives the parts that read what others wrote a profile of their own.
IN_PARTS = {"tools", "lock"}
MODULES = ["ipv6", "overlay", "nf_tables", "nft_chain_nat", "nft_nat", "nft_ct", "nft_tproxy", "nft_reject_ipv4",
           "nft_reject_ipv6"]
LIBEXEC = "usr/libexec/cloister"
PARSER = Path("/usr/sbin/apparmor_parser")
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
MACHINE_SECONDS = 1800
SCRIPT = f"""
export PATH=/bin:/usr/bin HOME=/root HELPERS="{' '.join(HELPERS)}"
""" + """mkdir -p /var /home /www /work /sys/kernel/security /etc/apparmor
: >/etc/apparmor/parser.conf
mount -t securityfs none /sys/kernel/security
# Every denial is to be seen.
echo 0 >/proc/sys/kernel/printk_ratelimit
cp /bin/busybox /usr/bin
for a in sh wget httpd sleep cat echo touch; do ln -s busybox /usr/bin/$a; done
ip link set lo up
mount -t bpf bpf /sys/fs/bpf
# Those that end soon leave a trace: they may read any file.
mkdir /etc/apparmor.d/local
for name in collect layer pull audit lock; do
    echo "audit /{,**} r," >/etc/apparmor.d/local/cloister-$name
done
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
cat >/server <<'END'
#!/bin/sh
while read -r line; do
    id=${line#*\\"id\\":}; id=${id%%,*}; id=${id%%\\}*}
    case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"hello from the tool"}]}}' ;;
    esac
done
END
cat >/calls <<'END'
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"own.hello","arguments":{}}}
END
mkdir /locked && cat >/locked/cloister.yaml <<'END'
version: 1
tools:
  lock: tools.lock.yaml
  servers: {own: {command: [sh, /server], read: [/server]}}
egress: [{allow: tool:own.**}]
END
cd /locked && cloister tools lock && cd /
cloister run -q -p /locked/cloister.yaml -v /calls:/calls:ro -- sh -c '/run/cloister/cloister-tools </calls; sleep 1000' >/called &
i=0
until grep -qs 'from the tool' /called || [ $i = 300 ]; do i=$((i + 1)); sleep 0.1; done
cat /called
for p in /proc/[0-9]*; do
    case $(cat $p/comm 2>/dev/null) in cloister-*|exe) echo "runs: $(cat $p/attr/current)" ;; esac
done
cd /work && echo one >file && cloister run -q -w . --name changes -- sh -c 'echo two >file' && cloister diff changes | cat
cloister run -q -w . --name live -- sh -c 'echo three >file; sleep 1000' &
i=0
until cloister diff live 2>/dev/null | grep -s three || [ $i = 300 ]; do i=$((i + 1)); sleep 0.1; done
cloister image load minimal:
mkdir /context && echo a file >/context/file
printf 'FROM minimal:\nCOPY file /copied\nRUN cat /copied >/written\n' >/context/Dockerfile
cloister image build -t built:1 /context
cloister run -q --image built:1 -- cat /written
cloister image save built:1 oci:/layout
mkdir -p /www/v2/pulled/manifests /www/v2/pulled/blobs && touch /www/v2/index.html
for f in /layout/blobs/sha256/*; do cp $f /www/v2/pulled/blobs/sha256:${f##*/}; done
cp /layout/blobs/sha256/$(grep -o 'sha256:[0-9a-f]*' /layout/index.json | cut -c 8-) /www/v2/pulled/manifests/1
cloister image remove built:1
cloister image pull 127.0.0.1:8080/pulled:1
cloister run -q --image 127.0.0.1:8080/pulled:1 -- echo from an image
mkdir /home/user && chown user /home/user
su user -c 'HOME=/home/user cloister run -q --name mine --allow host.cloister.internal:8080 -- wget -qO- http://host.cloister.internal:8080/file'
cloister kill --all
echo "--- records"
for who in root user; do
    [ $who = user ] || echo "cloister audit show changes" >/show
    [ $who = root ] || echo "HOME=/home/user cloister audit show mine" >/show
    su $who -s /bin/sh -c "$(cat /show)" >/shown
    echo "$who: $(grep -o '"by":"[a-z]*"' /shown) $(grep '"type":"exec"' /shown | grep -c '"sha256":"[0-9a-f]')"
done
cloister audit verify --all
cloister audit export --all >/root/exported
echo "exported $(wc -l </root/exported) records"

echo "--- denials"
dmesg | grep -o 'apparmor="DENIED".*' | sed 's/ pid=[0-9]*//' | sort -u
echo "--- confined"
dmesg | grep -o 'apparmor="AUDIT".*profile="cloister-[a-z]*"' | sed 's/.*profile="cloister-//; s/"//' | sort -u
echo "--- a helper that is not itself"
vault=/var/lib/cloister/vault/probe
mkdir -p ${vault%/*} && echo secret >$vault
for name in $HELPERS; do
    cp /bin/busybox /usr/libexec/cloister/cloister-$name
    ln -sf /usr/libexec/cloister/cloister-$name /tmp/busybox
    for words in "cat /root/secret" "cat $vault" "sh -c /bin/true" "wget -qO- http://127.0.0.1:8080/file" "touch /root/made" \\
        "touch /etc/made"; do
        rm -f /root/made
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
    assert types == {name.encode() for name in set(HELPERS) - IN_PARTS}


def kernel_of(system):
    """A folder with the kernel of SYSTEM, as vm.py keeps them."""
    cache = BUILD / "kernels" / system.name
    if cache.exists():
        return cache
    try:
        where = system.sources()[0].split()[1]
    except systems.Unreachable as e:
        pytest.skip(str(e))
    part = cache.with_name(f"{system.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if not systems.download(f"{where}/dists/{system.suite}/main/binary-{system.arch}/Packages.xz", part / "Packages.xz"):
        pytest.skip(f"no packages of {system.name} at {where}")
    text = lzma.decompress((part / "Packages.xz").read_bytes()).decode()
    found = re.findall(rf"^Filename: (\S+/(linux-image-\d\S*-cloud-{system.arch})_\S+)$", text, re.M)
    path, name = max(found, key=lambda pair: [int(n) for n in re.findall(r"\d+", pair[1])])
    if not systems.download(f"{where}/{path}", part / "kernel.deb"):
        pytest.skip(f"cannot download {where}/{path}")
    run("dpkg-deb", "-x", part / "kernel.deb", part / name)
    part.rename(cache)
    return cache


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
    for said in ("from the cell\n", "+two\n", "+three\n", "minimal", "a file\n", "from an image\n", "timelines, all sound\n",
                 "+ own.hello is new\n", "hello from the tool"):
        assert said in worked, out
    assert worked.count("from the machine\n") == 2, out
    # As root the witness sees with programs in the kernel.
    for seen in (r'^root: "by":"ebpf" [1-9]', r'^user: "by":"notify" [1-9]', r"^exported [1-9]\d+ records$"):
        assert re.search(seen, worked, re.M), out
    lasting = set(re.findall(r"^runs: cloister-(\S+) \(enforce\)$", worked, re.M))
    assert {"gate", "courier", "inspect", "publish", "witness", "tools", "tools//worker"} <= lasting, out
    assert set(confined.split()) == {"audit", "collect", "layer", "lock", "pull"}, out
    assert denials == "", out
    may = {name: set() for name in HELPERS}
    for name, words in re.findall(r"^(\w+): (.*)$", intruder, re.M):
        may[name].add(words)
    assert may == MAY, out
    assert len(re.findall(r"^\w+ may not: ", intruder, re.M)) == 6 * len(HELPERS) - sum(map(len, MAY.values())), out
