"""The boundary `process`: no namespaces, and yet nothing reaches a peer but through the gate."""
import json
import os
import secrets
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import engines
import pytest

from operators import BUILD, copy_mutant, descendants_of, is_alive, wait_until

REACH = Path(__file__).resolve().parents[1] / "process_reach.py"
ATTACKER = BUILD / "tests/process_attacker"
ROUNDS = 4000
# Kernels without these, and users without the right, cannot make them outside either.
MAY_BE_MISSING = {"make_sctp", "make_icmp", "make_vsock", "make_alg", "raw_udp", "packet", "tcp4_by_multipath", "udp4_lite",
                  "make_io_uring", "tcp4_by_sendto_fast_open", "tcp4_by_sendmsg_fast_open", "tcp4_with_a_route_of_its_own",
                  # These are about what the cell makes of it: outside they are another way of the same.
                  "unix_of_a_datagram_socket"}


class Canaries:
    """Servers of the machine that say who came."""

    def __init__(self, folder):
        self.word, self.heard, self.selector = secrets.token_hex(8), [], selectors.DefaultSelector()
        unique = secrets.token_hex(6)
        folder.chmod(0o777)
        self.targets = {"word": self.word, "address": self.own_address(), "free": self.free_port(),
                        "abstract_stream": f"s{unique}", "abstract_dgram": f"d{unique}"}
        for name, family, kind, at in (
                ("tcp4", socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0)),
                ("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
                ("udp4", socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", 0)),
                ("udp6", socket.AF_INET6, socket.SOCK_DGRAM, ("::1", 0)),
                ("unix_stream", socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "stream")),
                ("unix_seqpacket", socket.AF_UNIX, socket.SOCK_SEQPACKET, str(folder / "seqpacket")),
                ("unix_dgram", socket.AF_UNIX, socket.SOCK_DGRAM, str(folder / "dgram")),
                ("abstract_stream", socket.AF_UNIX, socket.SOCK_STREAM, f"\0s{unique}"),
                ("abstract_dgram", socket.AF_UNIX, socket.SOCK_DGRAM, f"\0d{unique}")):
            self.listen(name, family, kind, at)
        self.targets["udplite"] = self.targets["udp4"]
        self.over = os.pipe()
        self.selector.register(self.over[0], selectors.EVENT_READ, None)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def own_address(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            try:
                s.connect(("192.0.2.1", 9))
                return s.getsockname()[0]
            except OSError:
                return "127.0.0.2"

    def free_port(self):
        with socket.socket() as s:
            s.bind(("", 0))
            return s.getsockname()[1]

    def listen(self, name, family, kind, at):
        s = socket.socket(family, kind)
        s.bind(at)
        if family == socket.AF_UNIX and not at.startswith("\0"):
            os.chmod(at, 0o777)
        if kind != socket.SOCK_DGRAM:
            s.listen(128)
        s.setblocking(False)
        if name not in self.targets:
            self.targets[name] = at if family == socket.AF_UNIX else s.getsockname()[1]
        self.selector.register(s, selectors.EVENT_READ, kind)

    def serve(self):
        while True:
            for key, _ in self.selector.select():
                if key.data is None:
                    return
                try:
                    if key.data == "client" or key.data == socket.SOCK_DGRAM:
                        self.hear(key)
                    else:
                        client, _ = key.fileobj.accept()
                        client.setblocking(False)
                        self.heard.append("somebody connected")
                        self.selector.register(client, selectors.EVENT_READ, "client")
                except OSError:
                    pass

    def hear(self, key):
        said = key.fileobj.recv(4096)
        if said:
            self.heard.append(said.decode("latin-1"))
        elif key.data == "client":
            self.selector.unregister(key.fileobj)
            key.fileobj.close()

    def arrived(self):
        """The names of the ways that came through."""
        return {part.split()[0] for text in self.heard for part in text.split(self.word)[1:] if part.split()}

    def close(self):
        os.write(self.over[1], b"x")
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            if not isinstance(key.fileobj, int):
                key.fileobj.close()
        os.close(self.over[0])
        os.close(self.over[1])


@pytest.fixture
def canaries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("canaries", numbered=True)
    for parent in folder.parents:
        if parent.owner() != "root" or str(parent).startswith("/tmp/pytest"):
            parent.chmod(parent.stat().st_mode | 0o011)
    it = Canaries(folder)
    yield it
    it.close()


@pytest.fixture
def bare(operator):
    """An operator whose cells have no namespaces."""
    checks = json.loads(operator.cloister("doctor", "--json").out)["checks"]
    found = next(check for check in checks if check["name"] == "boundary process")
    if found["state"] != "ok":
        pytest.skip(found["found"])
    operator.env["CLOISTER_BOUNDARY"] = "process"
    operator.reach = operator.file("reach.py", REACH.read_text())
    return operator


def reach(operator, canaries, *ways, options=()):
    done = operator.run(*options, "-v", f"{operator.reach}:ro", "--", "python3", operator.reach,
                        json.dumps(canaries.targets), *ways)
    return dict(line.split(" ", 1) for line in done.ok().splitlines())


def control(canaries):
    """All ways, outside: those that work on this machine."""
    client = threading.Thread(target=visit, args=(canaries,))
    client.start()
    done = subprocess.run([sys.executable, REACH, json.dumps(canaries.targets)], capture_output=True, text=True, check=True)
    client.join()
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    return canaries.arrived() | {name for name, text in said.items() if text == "made"}, said


def visit(canaries, seconds=15):
    """Somebody on the machine who waits for a server of the cell."""
    deadline = threading.Event()
    for _ in range(seconds * 10):
        with socket.socket() as s:
            if s.connect_ex((canaries.targets["address"], canaries.targets["free"])) == 0:
                canaries.heard.append(s.recv(4096).decode())
                return
        if deadline.wait(0.1):
            return


def test_no_way_leads_to_a_peer(bare, canaries):
    works, said = control(canaries)
    assert set(said) - works <= MAY_BE_MISSING, {name: said[name] for name in set(said) - works - MAY_BE_MISSING}
    canaries.heard.clear()
    for options in ((), ("--allow", "example.test")):
        inside = reach(bare, canaries, *[name for name in said if name != "serve_the_machine"], options=options)
        assert set(inside) == set(said) - {"serve_the_machine"}
        assert not [name for name, text in inside.items() if text == "made"]
        assert canaries.heard == []


def test_a_server_of_the_cell_is_not_at_the_ports_of_the_machine(bare, canaries):
    process = bare.start("-v", f"{bare.reach}:ro", "--", "python3", bare.reach, json.dumps(canaries.targets),
                         "serve_the_machine")
    visit(canaries, 2)
    process.wait(20)
    assert canaries.heard == []


@pytest.mark.parametrize("what, target", [("connect", "tcp4"), ("unix", "unix_stream"), ("send", "udp4")])
def test_an_address_that_changes_meanwhile(bare, canaries, what, target):
    """Thousands of times; the attacker's own peer is reached, the machine's never."""
    attacker = attacker_of(bare)
    done = bare.run("-q", "--allow", "example.test", "-v", f"{attacker}:ro", "--", attacker, what,
                    str(canaries.targets[target]), str(ROUNDS)).ok()
    assert int(done) > 0
    assert canaries.heard == []


def test_without_the_porter_they_would(bare, canaries, ground):
    """Each layer is seen to hold: the calls go on as they are, and Landlock alone keeps TCP in."""
    bare.program = copy_mutant(ground)
    for off, arrive in (("porter", {"unix_stream"}), ("porter,landlock", {"unix_stream", "tcp4"})):
        canaries.heard.clear()
        bare.env["CLOISTER_OFF"] = off
        reach(bare, canaries, "unix_stream", "tcp4")
        assert canaries.arrived() == arrive


# ---- a hostile agent ----------------------------------------------------------------------------

def attacker_of(bare):
    attacker = bare.file("attacker", "")
    Path(attacker).write_bytes(ATTACKER.read_bytes())
    Path(attacker).chmod(0o755)
    return attacker


@pytest.mark.parametrize("off", ["", "sockets"])
def test_another_socket_in_the_place_of_the_cells_own(bare, ground, who, off):
    """One of the operator's that lies in a folder which the cell may change."""
    if who == "root":
        pytest.skip("there the cell's user is nobody else's")
    if off:
        bare.program = copy_mutant(ground)
        bare.env["CLOISTER_OFF"] = off
    attacker, folder = attacker_of(bare), bare.folder("shared")
    server = bare.spawn(sys.executable, "-c", f"""
import os, socket
s = socket.socket(socket.AF_UNIX)
s.bind({str(folder / "daemon")!r})
s.listen(128)
print("serves", flush=True)
print(s.accept()[0].recv(5).decode(), flush=True)
""", stdout=subprocess.PIPE)
    assert server.stdout.readline() == b"serves\n"
    # A file's time is no finer than the kernel's tick.
    threading.Event().wait(0.1)
    bare.run("-q", "-w", f"{folder}:rw", "-v", f"{attacker}:ro", "--", attacker, "swap", str(folder), str(ROUNDS)).ok()
    raced = bool(select.select([server.stdout], [], [], 0)[0])
    server.kill()
    server.wait()
    assert raced == bool(off)


def test_a_porter_that_an_agent_keeps_waiting(bare):
    """It answers nothing any more, and yet the cell dies when it is to."""
    attacker = attacker_of(bare)
    for how in ("kill", "supervisor"):
        process = bare.start("-v", f"{attacker}:ro", "--", attacker, "stuck", "-", "1", stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"stuck\n"
        (cell,) = bare.cells()
        inside = descendants_of(cell["supervisor"])
        assert len(inside) > 3
        if how == "kill":
            bare.cloister("kill", cell["cell"]).ok()
        else:
            os.kill(cell["supervisor"], signal.SIGKILL)
        process.wait(20)
        wait_until(lambda: not any(is_alive(pid) for pid in inside), "nothing of it is left")
    # It clears up after the last.
    bare.run("-q", "--", "true").ok()


@pytest.mark.parametrize("off", ["", "scopes"])
def test_signals_to_the_porter(bare, ground, who, off):
    """Nor does Landlock have to keep them, where the cell has a user of its own."""
    if off:
        if who != "root":
            pytest.skip("only root's cells have that")
        bare.program = copy_mutant(ground)
        bare.env["CLOISTER_OFF"] = off
    said = bare.run("-q", "--", "python3", "-c", """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
init = os.getppid()
porter = parent(init)
watcher = parent(porter)
print(open(f"/proc/{porter}/comm").read().strip(), open(f"/proc/{watcher}/comm").read().strip())
for pid in (porter, watcher, parent(watcher)):
    for number in (signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(pid, number)
            print("sent")
        except PermissionError:
            pass
for pid in (init, porter, watcher):
    for path in (f"/proc/{pid}/mem", f"/proc/{pid}/fd", f"/proc/{pid}/environ"):
        try:
            os.listdir(path) if path.endswith("fd") else open(path, "rb").read(1)
            print("read", path)
        except (PermissionError, OSError):
            pass
    if libc.ptrace(16, pid, 0, 0) == 0:
        print("traced", pid)
try:
    os.kill(-1, 0)
except ProcessLookupError:
    pass
""").ok()
    assert said == "cloister-porter cloister-porter\n"


def test_calls_of_other_tables(bare):
    attacker = attacker_of(bare)
    outside = subprocess.run([attacker, "foreign", "-", "1"], capture_output=True, text=True, check=True).stdout.split()
    if not outside:
        pytest.skip("this processor has no other tables")
    assert "made" in outside, outside
    inside = bare.run("-q", "-v", f"{attacker}:ro", "--", attacker, "foreign", "-", "1").ok().split()
    assert inside == ["killed"] * len(outside)


def test_files_by_other_calls(bare):
    """What Landlock has no right for."""
    folder = bare.folder("given", {"file": "text"})
    outside = Path(bare.file("outside", "text"))
    try:
        os.setxattr(outside, "user.note", b"secret")
    except OSError:
        pytest.skip("this file system has no attributes")
    said = bare.run("-q", "-v", f"{folder}:ro", "--", "python3", "-c", f"""
import errno, fcntl, os
for call in (lambda: os.getxattr({str(outside)!r}, "user.note"), lambda: os.listxattr({str(outside)!r})):
    try:
        print(call())
    except OSError as e:
        print(errno.errorcode[e.errno])
fd = os.open({str(folder / "file")!r}, os.O_RDONLY)
# To set a version, a seal, an encryption policy and a label; to make a subvolume and a snapshot of btrfs.
for number in (0x40087602, 0x40806685, 0x800c6613, 0x41009432, 0x5000940e, 0x50009401, 0x401c5820, 0x40047211):
    try:
        fcntl.ioctl(fd, number, bytes(1024))
        print("done")
    except OSError as e:
        print(errno.errorcode[e.errno])
""").ok().split()
    assert said == ["ENOTSUP"] * 2 + ["EPERM"] * 8


def test_a_port_that_others_share(bare):
    """The kernel's socket does not have the option: it could get the port of a server outside, and its clients."""
    said = bare.run("-q", "--", "python3", "-c", """
import socket
servers = []
for _ in range(2):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", 8080))
    s.listen()
    servers.append(s)
print(*(s.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) for s in servers))
print(socket.socket().connect_ex(("127.0.0.1", 8080)))
""").ok()
    assert said == "0 0\n0\n"


def test_grants_that_hold_others(bare):
    outer = bare.folder("outer", {"inner/file": "text"})
    done = bare.run("-q", "-w", f"{outer}:rw", "-v", f"{outer / 'inner'}:ro", "--", "true")
    assert done.status == 125 and f"'{outer / 'inner'}' cannot be read-only within '{outer}'" in done.err
    # Without a vault, which `cloister run` itself looks for.
    bare.run("-q", "--", "true").ok()
    done = bare.run("-q", "-v", f"{bare.base}:ro", "--", "true")
    assert done.status == 125 and "would show the cell cloister's own folder" in done.err, done.err


def test_a_fork_bomb(bare):
    """It dies, whatever it forks; what else its user has outside does not."""
    beside = bare.spawn("sleep", "1000")
    process = bare.start("--", "python3", "-c", """
import os, sys
print("begun", flush=True)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
""", stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"begun\n"
    (cell,) = bare.cells()
    threading.Event().wait(0.5)
    bare.cloister("kill", cell["cell"]).ok()
    process.wait(60)
    assert beside.poll() is None
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and f"cloister-cell-{cell['cell']}" in environment_of(pid)]


def environment_of(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


IN_CONTAINER = """
import os, socket, subprocess
print(os.getuid(), open("/proc/self/status").read().split("CapEff:")[1].split()[0])
print(subprocess.run(["/b/cloister", "run", "-q", "--", "true"], stderr=subprocess.DEVNULL).returncode)
def attempt(*options):
    return subprocess.run(["/b/cloister", "run", "-q", "--boundary", "process", *options, "--", "python3", "-c", '''
import socket
print(socket.getaddrinfo("example.test", 80, socket.AF_INET)[0][4][0])
s = socket.create_connection(("example.test", 80))
s.sendall(b"GET / HTTP/1.1\\\\r\\\\nHost: example.test\\\\r\\\\n\\\\r\\\\n")
print(s.recv(12).decode())
s = socket.socket()
print(s.connect_ex(("127.0.0.1", %d)))
''' % port], capture_output=True, text=True)
own = socket.create_server(("127.0.0.1", 0))
port = own.getsockname()[1]
print(attempt("--allow", "example.test").stdout)
print(attempt().returncode, [name for name in os.listdir("/tmp") if name.startswith("cloister-cell")])
"""


@pytest.mark.parametrize("uid", ["0", "1000"])
def test_in_a_container_without_rights(operator, engines_of, uid, who):
    """Docker's own filter, no capabilities, no new privileges: a cell with namespaces fails there, and this one does not."""
    if who != "root" or shutil.which("docker") is None:
        pytest.skip("only root starts an engine, and its client is needed")
    engine = engines_of("docker")
    place = operator.folder("place")
    place.chmod(0o1777)
    shown = [f"{path}:{path}:ro" for path in ("/usr", "/bin", "/lib", "/lib64", "/etc") if os.path.exists(path)]
    volumes = [word for one in [*shown, f"{operator.program.parent}:/b:ro", f"{place}:/tmp"] for word in ("-v", one)]
    done = subprocess.run(["docker", "-H", f"unix://{engine.socket}", "run", "--rm", "--network", "none", "--cap-drop", "ALL",
                           "--security-opt", "no-new-privileges", "--user", uid, "-e", "HOME=/tmp", *volumes, engines.IMAGE,
                           "/usr/bin/python3", "-c", IN_CONTAINER], capture_output=True, text=True, timeout=120)
    lines = done.stdout.split()
    assert lines[:3] == [uid, "0000000000000000", "125"], done
    # The gate has no network to go on to.  The server of the container is not reached: nobody listens in the cell.
    assert lines[3:] == ["198.18.0.16", "HTTP/1.1", "502", "111", "1", "[]"], done
