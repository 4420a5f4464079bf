"""What the machines of AppArmor and of SELinux both do, and what a confined helper may do in them."""
import lzma
import re
import shutil
import sys

import pytest

from packing import BUILD, TREE, run, systems

sys.path.insert(0, str(TREE / "tests" / "scenario"))
import vm       # noqa: E402, F401

# The programs that a profile confines: contrib/apparmor/cloister-helpers and contrib/selinux/cloister.te.
HELPERS = ("gate", "courier", "inspect", "mint", "publish", "compare", "unpack", "witness", "collect", "layer", "pull", "state", "blobs",
           "link", "audit", "tools", "lock")
# What a program in a helper's place tries: INTRUDER.
READ, CONNECT, WRITE, EXECUTE = "read", "connect", "write", "execute"
TRIES = 6
MODULES = ["ipv6", "overlay", "nf_tables", "nft_chain_nat", "nft_nat", "nft_ct", "nft_tproxy", "nft_reject_ipv4",
           "nft_reject_ipv6"]
MACHINE_SECONDS = 1800
# Cells with a policy, tools, changes and images, as root and as a user; each helper runs.
WORK = """
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
until grep -qs cloister.inspect /proc/*/attr/current || [ $i = 300 ]; do i=$((i + 1)); sleep 0.1; done
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
mkdir /root/locked && cat >/root/locked/cloister.yaml <<'END'
version: 1
tools:
  lock: tools.lock.yaml
  servers: {own: {command: [sh, /server], read: [/server]}}
egress: [{allow: tool:own.**}]
END
cd /root/locked && cloister tools lock && cd /
cloister run -q -p /root/locked/cloister.yaml -v /calls:/calls:ro -- sh -c '/run/cloister/cloister-tools </calls; sleep 1000' >/tmp/called &
i=0
until grep -qs 'from the tool' /tmp/called || [ $i = 300 ]; do i=$((i + 1)); sleep 0.1; done
cat /tmp/called
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
mkdir -p /home/user && chown user /home/user
su user -c 'HOME=/home/user cloister run -q --name mine --allow host.cloister.internal:8080 -- wget -qO- http://host.cloister.internal:8080/file'
cloister worker token --address 127.0.0.1:1 | cat >/tmp/token
echo "token of $(wc -l </tmp/token) line, authority of $(ls /var/lib/cloister/serve/workers | wc -l) files"
cloister kill --all
echo "--- records"
for who in root user; do
    [ $who = user ] || echo "cloister audit show changes" >/tmp/show
    [ $who = root ] || echo "HOME=/home/user cloister audit show mine" >/tmp/show
    su $who -s /bin/sh -c "$(cat /tmp/show)" >/tmp/shown
    echo "$who: $(grep -o '"by":"[a-z]*"' /tmp/shown) $(grep '"type":"exec"' /tmp/shown | grep -c '"sha256":"[0-9a-f]')"
done
cloister audit verify --all
cloister audit export --all >/root/exported
echo "exported $(wc -l </root/exported) records"

"""
# Another program in the place of each helper.
INTRUDER = """
echo "--- a helper that is not itself"
random() {
    head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \\n'
}
vault=/var/lib/cloister/vault/probe
mkdir -p ${vault%/*}
for name in $HELPERS; do
    cp /bin/busybox /usr/libexec/cloister/cloister-$name
    ln -sf /usr/libexec/cloister/cloister-$name /tmp/busybox
    secret=$(random) sealed=$(random) made=/root/made.$(random)
    echo $secret >/root/secret
    echo $sealed >$vault
    say() {
        [ "$2" = 0 ] && echo "$name: $1" || echo "$name may not: $1"
    }
    /tmp/busybox cat /root/secret 2>/dev/null | grep -q $secret; say read $?
    /tmp/busybox cat $vault 2>/dev/null | grep -q $sealed; say "read the vault" $?
    /tmp/busybox sh -c "/bin/echo $secret" 2>/dev/null | grep -q $secret; say execute $?
    /tmp/busybox wget -qO- http://127.0.0.1:8080/file 2>/dev/null | grep -q "from the machine"; say connect $?
    /tmp/busybox touch $made 2>/dev/null; [ -e $made ]; say write $?
    /tmp/busybox sh -c ": >/etc/made" 2>/dev/null; [ -e /etc/made ]; say "write for the system" $?
    grep -q $sealed $vault || echo "$name: changes the vault"
    rm -f /etc/made $made
done
"""


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


def check_work(worked):
    """All that WORK does works, without an alarm."""
    for said in ("from the cell\n", "+two\n", "+three\n", "minimal", "a file\n", "from an image\n", "timelines, all sound\n",
                 "+ own.hello is new\n", "hello from the tool", "token of 1 line, authority of "):
        assert said in worked, worked
    assert worked.count("from the machine\n") == 2, worked
    # As root the witness sees with programs in the kernel.
    for seen in (r'^root: "by":"ebpf" [1-9]', r'^user: "by":"notify" [1-9]', r"^exported [1-9]\d+ records$"):
        assert re.search(seen, worked, re.M), worked


def check_intruder(said, may):
    """Of what a program in a helper's place tries, that happens which MAY lists, and nothing else."""
    done = {name: set() for name in HELPERS}
    for name, what in re.findall(r"^(\w+): (.*)$", said, re.M):
        done[name].add(what)
    assert done == may, said
    assert len(re.findall(r"^\w+ may not: ", said, re.M)) == TRIES * len(HELPERS) - sum(map(len, may.values())), said
