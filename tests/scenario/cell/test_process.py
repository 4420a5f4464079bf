"""The boundary `process`: no namespaces, and yet nothing reaches a peer but through the gate."""
import json
import os
import secrets
import selectors
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import engines
import pytest

from operators import BUILD, copy_mutant

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
    attacker = bare.file("attacker", "")
    Path(attacker).write_bytes(ATTACKER.read_bytes())
    Path(attacker).chmod(0o755)
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
