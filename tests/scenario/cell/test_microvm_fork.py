"""`cloister fork`: copies of a running virtual machine, each a cell with an identity of its own."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

import microvm
import vm
from egress_lab import CURL, Online
from operators import IS_ROOT, SECONDS, children_of, descendants_of, is_alive, wait_until
from test_egress_secrets import UP, canary, give
from test_microvm_pause import program

LONG = SECONDS * 6
VM = pytest.mark.skipif(not os.environ.get("CLOISTER_TEST_VM"), reason="takes long: `make test-vm`")
pytestmark = pytest.mark.parametrize("who", ["root"] if IS_ROOT else ["user"])
# A count that goes on, on its standard output, beside random bytes that are the same in all copies.
AGENT = """
head -c 3000000 /dev/urandom >/tmp/random; sha256sum /tmp/random >/tmp/sum; exec 3</tmp/sum; rm /tmp/sum
n=0; while :; do n=$((n+1)); echo line $n; echo $n >/tmp/count; [ -e /tmp/fast ] || sleep 0.1; done
"""
LOOK = """cat /proc/sys/kernel/random/boot_id; od -An -N16 -tx1 /dev/urandom; echo $CLOISTER_CELL; cat /proc/$(cat /tmp/pid)/fd/3
echo -; sha256sum /tmp/random"""


def rootfs_of(operator):
    folder = microvm.small_rootfs(operator)
    for name in "head", "sha256sum", "rm", "od", "sed", "ip", "env", "kill", "hostname", "dd":
        (folder / "bin" / name).symlink_to("busybox")
    for path in ("/usr/bin/curl", *vm.libraries("/usr/bin/curl")):
        to = folder / path.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(path), to)
    if not (folder / "lib64").exists():
        loader = next(path for path in vm.libraries("/usr/bin/curl") if "/ld-linux" in path)
        (folder / loader.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    for path in (folder, *folder.rglob("*")):
        operator.own(path)
    return folder


class Source:
    def __init__(self, operator, *options, script=AGENT, start=None):
        self.operator = operator
        words = ("--boundary", "microvm", "--memory", "256M", "--rootfs", rootfs_of(operator), "--forkable", *options)
        script = f"echo $$ >/tmp/pid\n{script}"
        self.id = start(words, script) if start else operator.detach(*words, "--", "sh", "-c", script, seconds=LONG)
        wait_until(lambda: self.count(self.id) > 0, "it counts", LONG)

    def do(self, *words, **how):
        return self.operator.cloister(*words, seconds=LONG, **how)

    def exec(self, id, script):
        return self.do("exec", id, "sh", "-c", script).ok()

    def count(self, id):
        return int(self.do("exec", id, "sh", "-c", "cat /tmp/count 2>/dev/null || echo 0").out or 0)

    def goes_on(self, id):
        before = self.count(id)
        wait_until(lambda: self.count(id) > before, f"{id} goes on", LONG)

    def fork(self, *options):
        ids = self.do("fork", self.id, *options).ok().split()
        self.operator.kept.update(ids)
        return ids

    def records(self, id):
        return [json.loads(line) for line in self.do("events", id, "--json").ok().splitlines()]


@pytest.fixture
def boundary():
    return "microvm"


@VM
def test_copies_of_one_moment(operator):
    """The same memory and processes, with an id, boot id, random numbers and an end of their own."""
    source = Source(operator)
    copies = source.fork("--count", "3", "--name", "copy")
    names = {cell["cell"]: cell["name"] for cell in operator.cells()}
    assert sorted(names[id] for id in copies) == ["copy-1", "copy-2", "copy-3"] and len(set(copies)) == 3
    looks = [source.exec(id, LOOK).splitlines() for id in (source.id, *copies)]
    for own in range(3):                                            # boot id, random numbers, cell id
        assert len({look[own] for look in looks}) == 4, looks
    assert [look[2] for look in looks] == [source.id, *copies]
    assert len({tuple(look[3:]) for look in looks}) == 1            # the file that is open, and its contents
    assert looks[0][3].split()[0] == looks[0][-1].split()[0]
    for id in (source.id, *copies):
        source.goes_on(id)
    # Each ends alone; its source does too.
    source.do("kill", copies[0]).ok()
    source.do("exec", copies[1], "sh", "-c", "kill $(cat /tmp/pid)")
    assert source.do("wait", copies[1]).status == 143
    source.do("kill", source.id).ok()
    source.goes_on(copies[2])
    # The records name each other.
    boot = source.records(copies[2])[0]["grant"]
    assert boot["fork_of"] == source.id
    at = source.records(source.id)[boot["fork_at"] - 1]
    assert at["did"] == "forked"
    source.do("audit", "verify").ok()


@VM
def test_a_copy_holds_what_its_monitor_cannot_change(operator):
    """All copies map one file, which is sealed; what none of them writes is there once."""
    source = Source(operator)
    copies = source.fork("--count", "2")
    shared = set()
    for id in copies:
        monitor, = [pid for pid in descendants_of(operator.cell(id)["supervisor"]) if "/qemu-system-" in program(pid)]
        with open(f"/proc/{monitor}/maps") as maps:
            shared |= {(line.split()[1][3], line.split()[4]) for line in maps if "memfd:memory" in line}
        for fd in os.listdir(f"/proc/{monitor}/fd"):
            path = f"/proc/{monitor}/fd/{fd}"
            if "memfd:memory" in os.readlink(path):
                with pytest.raises(PermissionError), open(path, "r+b") as file:
                    os.pwrite(file.fileno(), b"x", 0)
    (how, _), = shared
    assert how == "p"


@VM
def test_output_is_neither_lost_nor_doubled(operator):
    """While it writes as fast as it can, the log of a copy goes on where that of its source stood."""
    source = Source(operator)
    source.exec(source.id, "echo >/tmp/fast")
    copies = [*source.fork(), *source.fork()]
    for id in (source.id, *copies):
        source.exec(id, "rm /tmp/fast")

    def lines(id):
        # Its first and last line may be parts.
        return [int(line.split()[1]) for line in source.do("logs", id).ok().splitlines()[1:-1]]

    whole = lines(source.id)
    assert whole == list(range(whole[0], whole[0] + len(whole)))
    for id in copies:
        wait_until(lambda id=id: len(lines(id)) > 5, "its log has lines", LONG)
        own = lines(id)
        assert own == list(range(own[0], own[0] + len(own))) and whole[0] < own[0] <= whole[-1] + 5


@VM
def test_its_placeholders_and_keys_are_its_own(operator, lab):
    """A placeholder of the source's is worth nothing in a copy, and the other way round."""
    online, real = Online(operator, lab), canary()
    give(online, real)
    policy = online.policy("  - allow: '*.example.test'\n")

    def start(words, script):
        return operator.detach("-p", policy, "-s", "KEY", *words, "--", "sh", "-c", script, seconds=LONG)

    source = Source(operator, start=start)
    ask = " ".join([*CURL, "-w", "'%{http_code}'", "-o", "/dev/null"])

    def asks(id, fake):
        """The status, and whether the real value got there."""
        path = lab.judge("def judge(method, url, fields, body):\n    assert fields.get('authorization') == REAL\n", REAL=real)
        return source.exec(id, f"{ask} -H 'Authorization: {fake}' {UP}{path}").strip()

    fakes = {source.id: source.exec(source.id, "echo $KEY").strip()}
    assert asks(source.id, fakes[source.id]) == "200"
    first, second = source.fork("--count", "2")
    for id in first, second:
        fakes[id] = source.exec(id, "echo $KEY").strip()
    assert len(set(fakes.values())) == 3
    # TLS works: each has the certificate authority of its own, which no other has.
    authorities = {id: source.exec(id, "cat /etc/ssl/certs/ca-certificates.crt") for id in fakes}
    assert len(set(authorities.values())) == 3
    for cell in fakes:
        for owner, fake in fakes.items():
            assert (asks(cell, fake) == "200") is (cell == owner), (cell, owner)


@VM
@pytest.mark.parametrize("how", ["revoke", "deny", "consequence"])
def test_a_copy_does_not_get_lost_rights_back(operator, lab, how):
    """It would have them beside what its source has read."""
    online = Online(operator, lab)
    give(online, canary())
    policy = online.policy("  - allow: up.example.test\n    paths: ['/secret/*']\n    then: {narrow: [{deny: other.example.test}]}\n"
                           "  - allow: '*.example.test'\n")

    def start(words, script):
        return operator.detach("-p", policy, "-s", "KEY", *words, "--", "sh", "-c", script, seconds=LONG)

    source = Source(operator, start=start)
    source.fork()
    if how == "revoke":
        source.do("revoke", source.id, "KEY").ok()
    elif how == "deny":
        source.do("deny", source.id, "up.example.test").ok()
    else:
        source.exec(source.id, " ".join([*CURL, "-o", "/dev/null", f"{UP}/secret/1"]))
    cells = len(operator.cells())
    done = source.do("fork", source.id)
    assert done.status == 125 and "would have all of its rights again" in done.err, done
    assert len(operator.cells()) == cells
    source.goes_on(source.id)


@VM
def test_whatever_dies_the_source_goes_on(operator):
    """A client that goes away, and a keeper and a copy that are killed at some moment."""
    source = Source(operator)
    supervisor = operator.cell(source.id)["supervisor"]
    for _ in range(5):
        asks = operator.spawn(operator.program, "fork", source.id, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        asks.send_signal(signal.SIGKILL)
        operator.kept.update(asks.communicate()[0].decode().split())
    source.goes_on(source.id)
    copy, = source.fork()
    source.goes_on(copy)
    monitor, = [pid for pid in descendants_of(operator.cell(copy)["supervisor"]) if "/qemu-system-" in program(pid)]
    os.kill(monitor, signal.SIGKILL)
    assert source.do("wait", copy).status == 137
    # Without the keeper there is no copy.
    qemu, = [pid for pid in descendants_of(supervisor) if "/qemu-system-" in program(pid)]
    for keeper in children_of(qemu):
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)
    done = source.do("fork", source.id)
    assert done.status == 125 and "could not be copied" in done.err, done
    source.goes_on(source.id)


@VM
def test_what_cannot_be_forked(operator):
    source = Source(operator)
    copy, = source.fork()
    assert f"fork cell {source.id} again" in source.do("fork", copy).err
    assert "no fork can be paused" in source.do("pause", copy).err
    source.do("freeze", source.id).ok()
    assert "is frozen" in source.do("fork", source.id).err
    source.do("thaw", source.id).ok()
    # A paused one is resumed first.
    source.do("pause", source.id).ok()
    again, = source.fork()
    source.goes_on(again)
    # Another disk than that of the source.
    (operator.base / "rootfs/etc/motd").write_text("changed\n")
    done = source.do("fork", source.id)
    assert done.status == 125 and "was started with another kernel, disk" in done.err


@pytest.mark.parametrize("words, wanted", [
    ((), "use --boundary microvm"), (("--boundary", "microvm"), "programs on a disk"),
    (("--boundary", "microvm", "--vm-boot"), "without --vm-boot")])
def test_forkable_explains_what_it_needs(operator, words, wanted):
    operator.env["CLOISTER_BOUNDARY"] = "namespace"
    for how in (("-d", "--forkable", *words), ("--forkable", *words)):
        done = operator.run(*how, "--", "true")
        assert done.status == 125 and re.match("cloister: --forkable needs ", done.err), done
    assert wanted in operator.run("-d", "--forkable", *words, "--", "true").err
    assert operator.cells() == []


def test_a_cell_that_is_not_forkable(operator):
    operator.env["CLOISTER_BOUNDARY"] = "namespace"
    id = operator.detach("--", "sleep", "1000")
    done = operator.cloister("fork", id)
    assert done.status == 125 and done.err == "cloister: only a cell that was started with --forkable can be forked\n"
    assert is_alive(operator.cell(id)["supervisor"])
    assert "no cell 'nobody'" in operator.cloister("fork", "nobody").err
    assert "name one cell" in operator.cloister("fork").err
    assert "'0'" in operator.cloister("fork", id, "--count", "0").err
