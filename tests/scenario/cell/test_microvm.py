"""A virtual machine as the innermost wall, emulated: the same promises behind a kernel of its own."""
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

import microvm
import test_egress_ssh
from operators import IS_ROOT, SECONDS, TREE, copy_mutant, descendants_of, is_alive, read_until, wait_until
from test_capture import SERVE
from test_egress_ssh import HOST, RULES, SSH, fingerprint, servers, world  # noqa: F401  fixtures

LONG = SECONDS * 6
# chown, dac_override, fowner, fsetid, setgid, setuid, mknod, setfcap: to act for the guest's users.
FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 27 | 1 << 31
# Each start is a boot, so most tests run for one kind of operator.
as_root = pytest.mark.parametrize("who", ["root"] if IS_ROOT else ["user"])
as_user = pytest.mark.parametrize("who", ["user"])
in_test_vm = pytest.mark.skipif("CLOISTER_TEST_VM" not in os.environ, reason="it boots: in `make test-vm`")
# The other operator's boot is left to `make test-vm`.
as_either = pytest.mark.parametrize("who", ["root", pytest.param("user", marks=in_test_vm)] if IS_ROOT else ["user"])


@pytest.fixture
def boundary():
    return "microvm"


def sha256(path):
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def guest(operator):
    """A cell that waits, with a workspace; what is checked in it is run with `exec`."""
    workspace = operator.folder("workspace", {"old": "old\n"})
    shown = operator.folder("shown", {"secret": "to read only\n"})
    id = operator.detach("--memory", "256M", "-w", str(workspace), "-v", f"{shown}:/srv/shown:ro",
                         "--", "sleep", "100000", seconds=LONG)

    class Guest:
        def run(self, script):
            return operator.cloister("exec", id, "--", "sh", "-c", script, seconds=LONG)

    guest = Guest()
    guest.id, guest.workspace = id, workspace
    return guest


def replace_guest(operator, ground, source, more=b""):
    """The guest's first process is another from now on: a program made of SOURCE, with bytes appended."""
    programs = shutil.copytree(ground / "bin", ground / f"{Path(source).stem}-{operator.who}")
    first = programs / "libexec/cloister-guest"
    first.unlink()
    subprocess.run(["cc", "-O1", "-static", "-o", first, TREE / "tests/scenario" / source], check=True)
    with open(first, "ab") as file:
        file.write(more)
    operator.program = programs / "cloister"


@as_either
def test_promises(operator, guest):
    """One boot for many questions: an emulated one takes seconds."""
    release = guest.run("uname -r").ok().strip()
    assert release != platform.release() and operator.env["CLOISTER_VM_KERNEL"].endswith(release)
    assert operator.cell(guest.id)["boundary"] == "microvm"
    assert '"boundary":"microvm"' in operator.cloister("events", "--json", guest.id).ok()
    told = guest.run("id -u; id -g; id -G").ok().split()
    assert told == ["1000", "1000", "1000"]
    status = guest.run("cat /proc/self/status").ok()
    assert set(re.findall(r"^Cap\w+:\s+(\w+)", status, re.M)) == {"0" * 16}
    assert "NoNewPrivs:\t1\n" in status and "Seccomp:\t2\n" in status
    # Init is cloister's own, and out of reach.
    assert "cloister-init" in guest.run("tr '\\0' ' ' </proc/1/cmdline").ok()
    assert guest.run("cat /proc/1/environ").status != 0
    # The root cannot be written; what is private can.
    assert guest.run("touch /x /usr/x /etc/x").status != 0
    assert guest.run("touch /tmp/x /var/tmp/x /dev/shm/x ~/x && echo so").ok() == "so\n"
    # What the host's /etc has for programs can be read.
    assert guest.run("test -f /etc/services && find /etc -type f -exec cat {} + >/dev/null && echo so").ok() == "so\n"
    # Nothing of the host: neither its paths nor its devices.
    mounts = guest.run("cat /proc/mounts").ok()
    assert str(operator.base) not in mounts.replace(str(guest.workspace), "")
    assert guest.run("ls /dev").ok().split() == sorted("fd full null ptmx pts random shm stderr stdin stdout tty "
                                                        "urandom zero".split())
    assert guest.run("ls -A /sys /run").ok() == "/run:\n\n/sys:\n"
    # A grant to read, and no more than it.
    assert guest.run("cat /srv/shown/secret").ok() == "to read only\n"
    assert guest.run("echo x >>/srv/shown/secret").status != 0
    # No network without a policy, and a loopback that works.
    interfaces = guest.run("ls /sys/class/net 2>/dev/null; cat /proc/net/dev").ok()
    assert "lo:" in interfaces and "eth0" not in interfaces
    # Limits: memory is the guest's own.
    total = int(guest.run("grep MemTotal /proc/meminfo").ok().split()[1])
    assert total < 256 * 1024
    assert abs(int(guest.run("date +%s").ok()) - time.time()) < 120


@as_user
def test_monitor_and_file_server_are_confined(operator, guest):
    """Seen from outside: what an attacker would have who broke out of the guest."""
    _, monitor, server = operator.pids(guest.id)
    for pid, name, rights in (monitor, "qemu-system", 0), (server, "virtiofsd", FILE_RIGHTS):
        status = Path(f"/proc/{pid}/status").read_text()
        assert name in os.readlink(f"/proc/{pid}/exe")
        for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
            held = int(re.search(rf"^Cap{kind}:\s+(\w+)", status, re.M).group(1), 16)
            assert held & ~rights == 0, (name, kind, hex(held))
        assert "NoNewPrivs:\t1\n" in status and "Seccomp:\t2\n" in status
        # Its network is the cell's, its root has nothing of the operator's.
        assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
        assert str(operator.base) not in "".join(os.listdir(f"/proc/{pid}/root"))
        # Nothing is mounted above it, where ".." would lead.
        places = [line.split()[4] for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
        assert places.count("/") == 1, places
        assert Path(f"/proc/{pid}/environ").read_bytes() == b""
        open_files = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
        assert not [f for f in open_files if "timeline" in f or "events" in f or "policy" in f], open_files


IDENTITY = ("cat /proc/sys/kernel/random/boot_id; ip -o link show eth0 | grep -o 'ether [0-9a-f:]*'; "
            "head -c 16 /dev/urandom | od -An -tx1")


def is_restored(operator, id):
    return b"-incoming" in Path(f"/proc/{operator.cell(id)['init']}/cmdline").read_bytes()


@as_user
def test_cells_from_one_template(operator):
    """A template is made once, has nothing of a cell in it, and each copy is someone else."""
    canary = os.urandom(16).hex()
    workspace = operator.folder(canary, {canary: canary})

    def start(*how):
        id = operator.detach("--memory", "256M", "--allow", f"{canary}.test", "-w", str(workspace), "-e",
                             f"CANARY={canary}", *how, "--", "sleep", "100000", seconds=LONG)
        told = operator.cloister("exec", id, "--", "sh", "-c", IDENTITY, seconds=LONG).ok().splitlines()
        assert len(told) == 3 and all(told)
        return id, set(told)

    first, told_first = start()
    template = microvm.last_template(operator)
    before = template.stat()
    second, told_second = start()
    assert is_restored(operator, first) and is_restored(operator, second)
    assert not told_first & told_second
    assert microvm.last_template(operator) == template and template.stat().st_ino == before.st_ino
    assert stat.S_IMODE(before.st_mode) == 0o400 and before.st_uid == operator.uid
    assert canary.encode() not in template.read_bytes()
    # Sparse: most of a guest's memory was never written.
    assert before.st_blocks * 512 < before.st_size // 2


def replace(operator, template, data, seconds_ago):
    """A template of this test's own: others share theirs."""
    template.unlink()
    template.write_bytes(data)
    operator.own(template)
    now = time.time()
    os.utime(template, (now, now - seconds_ago))
    return template.stat().st_ino


NETWORK = """
import socket, sys, urllib.request
print(urllib.request.urlopen("http://www.example.test/small").read().decode())
for family in socket.AF_INET, socket.AF_INET6:
    (address,) = {found[4][:2] for found in socket.getaddrinfo("www.example.test", 80, family)}
    with socket.create_connection(address) as s:
        s.sendall(b"GET /small HTTP/1.0\\r\\nHost: www.example.test\\r\\n\\r\\n")
        print(s.makefile("rb").read().split(b"\\r\\n\\r\\n")[1].decode())
try:
    socket.getaddrinfo("unknown.example.test", 80)
except socket.gaierror:
    print("no such name")
for family, address in ((socket.AF_INET, "8.8.8.8"), (socket.AF_INET6, "2001:4860:4860::8888")):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        # A resolver that the agent chooses itself: type A, class IN.
        s.settimeout(60)
        s.connect((address, 53))
        s.send(bytes([7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + b"\\3www\\7example\\4test\\0\\0\\1\\0\\1")
        answer = s.recv(512)
        print(answer[:2] == b"\\7\\7", socket.inet_ntoa(answer[-4:]).rsplit(".", 2)[0])
print(len(urllib.request.urlopen("http://www.example.test/large").read()))
try:
    with socket.create_connection(("93.184.216.77", 80)) as s:
        s.sendall(b"GET / HTTP/1.0\\r\\nHost: other.example.test\\r\\n\\r\\n")
        print(s.recv(12).decode())
except OSError:
    print("reset")
"""


@pytest.mark.parametrize("kind, who", [("user", "user"), ("tap", "user"), *([pytest.param("tap", "root", marks=in_test_vm)] if IS_ROOT else [])])
def test_network(online, kind):
    """Every packet meets the gate with the destination that the agent chose."""
    if kind == "tap":
        microvm.open_taps()
    online.lab.file("small", "small file")
    online.lab.file("large", bytes(3 << 20))
    done = online.python("  - allow: www.example.test\n", NETWORK, options=("--memory", "256M", "--vm-net", kind),
                         seconds=LONG)
    assert done.ok().splitlines() == ["small file"] * 3 + ["no such name"] + ["True 198.18"] * 2 + [
        str(3 << 20), "HTTP/1.1 403"]
    refused = [e for e in online.events() if e.get("verdict") == "deny"]
    assert any("93.184.216.77" in str(e) or "other.example.test" in str(e) for e in refused), refused


@in_test_vm
@as_root
def test_old_and_broken_templates(operator):
    operator.run("--memory", "256M", "--", "true", seconds=LONG).ok()
    template = microvm.last_template(operator)
    data = template.read_bytes()
    # A day is too long for kernels that all have one layout.
    old = replace(operator, template, data, 25 * 3600)
    operator.run("--memory", "256M", "--", "true", seconds=LONG).ok()
    assert template.stat().st_ino != old
    replace(operator, template, data[:256 << 20] + bytes(len(data) - (256 << 20)), 0)
    operator.run("--memory", "256M", "--", "true", seconds=LONG).sentence("the virtual machine did not start")
    assert not template.exists()


@in_test_vm
@as_root
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only there a kernel measures its timer")
def test_a_guest_without_a_timer_is_no_template(operator, ground):
    """As on a busy host: its kernel finds its timer too slow.  Copies of such a guest would never wake up."""
    for path in microvm.templates(operator):
        path.unlink()
    operator.program = copy_mutant(ground)
    operator.env["CLOISTER_VM_WORDS"] = " nolapic_timer"
    operator.run("--memory", "256M", "--", "true", seconds=LONG).sentence("the guest could not get ready")
    assert microvm.templates(operator) == []
    operator.run("--memory", "256M", "--vm-boot", "--", "true", seconds=LONG).sentence("found no timer")


def program_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


@as_user
@pytest.mark.parametrize("how", [[], ["--vm-boot"]])
def test_interrupted_while_it_boots(operator, how):
    """The fixture looks for what is left."""
    for path in microvm.templates(operator):
        path.unlink()
    process = operator.start("--memory", "256M", *how, "--", "true", stderr=subprocess.PIPE)
    wait_until(lambda: any("qemu" in program_of(pid) for pid in descendants_of(process.pid)), "QEMU")
    process.send_signal(signal.SIGINT)
    assert b"interrupted" in process.communicate(timeout=LONG)[1]
    assert process.returncode == 128 + signal.SIGINT


def test_workspace_is_reviewed(operator):
    workspace = operator.folder("workspace", {"old": "old\n", "gone": "gone\n"})
    shared = operator.folder("shared", {"one": "1\n"})
    done = operator.run("--memory", "256M", "-w", str(workspace), "-v", f"{shared}:/shared", "--", "sh", "-c",
                        "echo new >new; echo more >>old; rm gone; mkdir -p a/b; ln -s ../old a/link; "
                        "cd /shared && mv one two && ln two three && mkdir in && mv three in && exit 3", seconds=LONG)
    assert done.status == 3, done
    assert sorted(p.name for p in shared.rglob("*")) == ["in", "three", "two"]
    assert {p.stat().st_uid for p in shared.rglob("*")} == {operator.uid}
    assert sorted(p.name for p in workspace.iterdir()) == ["gone", "old"]
    (cell,) = (c["cell"] for c in operator.cells("-a"))
    told = operator.cloister("diff", "--stat", cell).ok()
    assert all(name in told for name in ("new", "old", "gone", "a/link"))
    # What it ran in is on the record, by the hashes of the files themselves.
    boot = json.loads(operator.cloister("events", "--json", cell).ok().splitlines()[0])
    vm, kernel = boot["grant"]["vm"], Path(operator.env["CLOISTER_VM_KERNEL"])
    made = {sha256(p) for p in (operator.base / "data/vm").iterdir() if len(p.name) == 64}
    assert boot["grant"]["boundary"] == "microvm" and vm["emulated"] is True and "/qemu-system-" in vm["monitor"]
    assert vm["kernel"] == kernel.name and vm["kernel_hash"] == sha256(kernel)
    assert vm["initramfs_hash"] in made
    assert f"started in an emulated virtual machine with {kernel.name}: sh -c" in operator.cloister("events", cell).ok()
    operator.cloister("apply", cell).ok()
    assert (workspace / "old").read_text() == "old\nmore\n" and not (workspace / "gone").exists()
    assert (workspace / "new").read_text() == "new\n" and os.readlink(workspace / "a/link") == "../old"


@as_root
def test_terminal_streams_and_large_output(operator):
    """What is written arrives whole, though the machine ends at once; input ends; errors are apart."""
    done = operator.run("--memory", "256M", "--", "sh", "-c", "cat; echo error >&2; head -c 2000000 /dev/zero; exit 5",
                        input=b"typed\n", binary=True, seconds=LONG)
    assert done.status == 5 and done.out == b"typed\n" + bytes(2000000) and b"error\n" in done.err


@as_user
def test_killed_monitor_leaves_nothing(operator, guest):
    """Nothing is left of a machine whose monitor dies: the fixture looks."""
    (cell,) = operator.cells()
    os.kill(cell["init"], signal.SIGKILL)
    assert operator.cloister("wait", guest.id, seconds=LONG).status == 137
    assert not is_alive(cell["init"]) and operator.cells() == []


@as_root
def test_killed_file_server_ends_the_cell(operator):
    """A guest without its files would hang: the monitor ends with the server."""
    process = operator.start("--memory", "256M", "--", "sh", "-c", "echo here; sleep 100000",
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    read_until(process.stdout.fileno(), b"here\n", LONG)
    (cell,) = operator.cells()
    _, monitor, server = operator.pids(cell["cell"])
    os.kill(server, signal.SIGKILL)
    _, told = process.communicate(timeout=LONG)
    assert process.returncode == 137 and b"its virtual machine ended before its command did" in told
    assert not is_alive(monitor) and operator.cells() == []


@as_user
def test_panic_hurts_nobody(operator, ground):
    """Root of the guest panics its kernel: the cell ends, with a record, and another one does not notice."""
    guest = (ground / "bin/libexec/cloister-guest").read_bytes()
    replace_guest(operator, ground, "microvm_panic.c", guest + len(guest).to_bytes(8, "little"))
    other = operator.detach("--boundary", "namespace", "--", "sleep", "100000")
    workspace = operator.folder("workspace")
    id = operator.detach("--memory", "256M", "-w", str(workspace), "--", "sh", "-c",
                         "echo kept >kept; echo here; sleep 100000", seconds=LONG)
    wait_until(lambda: "here" in operator.cloister("logs", id).ok(), "the agent runs", LONG)
    operator.cloister("exec", id, "--", "sh", "-c", "sleep 100000; : panic-please", seconds=LONG)
    assert operator.cloister("wait", id, seconds=LONG).status == 137
    assert [cell["cell"] for cell in operator.cells()] == [other]
    assert operator.cloister("exec", other, "--", "echo", "well").ok() == "well\n"
    records = [json.loads(line) for line in operator.cloister("events", "--json", id).ok().splitlines()]
    (end,) = (record for record in records if record["type"] == "cell.end")
    assert end["status"] == 137 and end["cause"] == "its virtual machine ended before its command did"
    # Written before the panic, and outside of the guest: it is there to be reviewed.
    assert "kept" in operator.cloister("diff", "--stat", id).ok()


@as_root
def test_kill_and_freeze(operator, guest):
    if operator.cloister("freeze", guest.id).status == 0:
        assert operator.cell(guest.id)["state"] == "frozen"
        operator.cloister("thaw", guest.id).ok()
        assert guest.run("echo again").ok() == "again\n"
    operator.cloister("kill", guest.id).ok()
    assert operator.cells() == []


# A client of SERVE: prints how much came back, or that nobody listens.
TALK = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])) as s:
        s.sendall(bytes(300000) + b".")
        got = s.makefile("rb").read()
    print(len(got) if got else "closed")
except ConnectionError:
    print("closed")
"""


@pytest.mark.parametrize("who", [pytest.param("root", marks=test_egress_ssh.pytestmark)])
def test_published_ports_and_the_ssh_agent(world):  # noqa: F811
    """Both go over the machine's port; the server checks the signature."""
    world.give()
    operator, policy = world.operator, world.online.policy(RULES)
    cell = operator.detach("-p", policy, "-s", "KEY", "--publish", "18000:8000", "--publish", "18001:8001", "--memory",
                           "256M", "--", "/usr/bin/python3", "-Ic", SERVE, "::1", "8000", seconds=LONG)
    operator.kept.add(cell)

    def inside(script):
        return operator.cloister("exec", cell, "--", "sh", "-c", script, seconds=LONG)

    def talk(address, port):
        return operator.do("/usr/bin/python3", "-Ic", TALK, address, str(port), str(LONG), seconds=LONG).ok().strip()

    said = inside(f'ssh-add -l; {SSH} {HOST} "id -un"; rm -f $SSH_AUTH_SOCK || echo kept').ok().splitlines()
    assert fingerprint(world.key) in said[0] and said[1:] == ["git", "kept"]
    assert world.up.said("Accepted publickey for git", fingerprint(world.key))
    wait_until(lambda: "ready" in operator.cloister("logs", cell).out, "the server is ready", LONG)
    want = str(len(b"300001 ") + 300001)
    assert [talk(address, 18000) for address in ("127.0.0.1", "::1")] == [want] * 2
    assert talk("127.0.0.1", 18001) == "closed"


@as_user
def test_what_it_cannot_do_is_refused(operator):
    # No emulated machine boots in a second, and its time counts from the start.
    operator.run("--time", "1s", "--memory", "256M", "--vm-boot", "--", "true", seconds=LONG).sentence("not ready in time")
    operator.env.pop("CLOISTER_BOUNDARY")
    operator.run("--vm-kernel", "/boot/x", "--", "true").sentence("--vm-kernel needs --boundary microvm")
    operator.run("--vm-accel", "steam", "--", "true").sentence("'steam'", "use kvm")
    operator.run("--vm-net", "pigeons", "--", "true").sentence("'pigeons'", "use user or tap")
    operator.run("--boundary", "microvm", "--vm-kernel", "/nowhere/vmlinuz", "--", "true").sentence("/nowhere/vmlinuz")


@as_either
def test_root_of_the_guest_has_no_more_than_the_grants(operator, ground):
    """A kernel exploit is assumed: the attacker has the guest's kernel, and talks to the file server."""
    replace_guest(operator, ground, "microvm_attacker.c")
    opened, closed = operator.folder("opened"), operator.folder("closed", {"old": "old\n"})
    done = operator.run("-v", f"{opened}:/srv/open:rw", "-v", f"{closed}:/srv/closed:ro", "--memory", "256M",
                        "--vm-boot", "--", "true", seconds=LONG)
    # The attacker never says that it is ready.
    assert done.status == 125 and (opened / "done").exists(), done
    for entry in opened.iterdir():
        found = entry.lstat()
        assert found.st_mode & (stat.S_ISUID | stat.S_ISGID) == 0, entry
        assert not stat.S_ISCHR(found.st_mode) and not stat.S_ISBLK(found.st_mode), entry
        assert found.st_uid == operator.uid, entry
        assert "security.capability" not in os.listxattr(entry, follow_symlinks=False)
    assert [(f.name, f.read_text()) for f in closed.iterdir()] == [("old", "old\n")]
    assert stat.S_IMODE((closed / "old").stat().st_mode) & 0o7000 == 0
    assert not [f for f in ("/etc/attacker", "/usr/attacker", "/attacker", "/tmp/attacker") if os.path.lexists(f)]
