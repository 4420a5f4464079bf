"""The network: a loopback of the cell's own that works, and no way out."""
import os
import re
import shutil
import socket
import subprocess

import pytest

from operators import SECONDS, is_alive, read_until
from terminal import Terminal

ECHO = """
import socket
family, address, kind = socket.{family}, {address!r}, socket.{kind}
server = socket.socket(family, kind)
server.bind(address)
client = socket.socket(family, kind)
if kind == socket.SOCK_STREAM:
    server.listen(1)
    client.connect(server.getsockname())
    peer, _ = server.accept()
    client.sendall(b'hello')
    print(peer.recv(10).decode())
else:
    client.sendto(b'hello', server.getsockname())
    print(server.recvfrom(10)[0].decode())
"""


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.8.7", "::1"])
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_loopback_serves(operator, address, kind):
    family = "AF_INET6" if ":" in address else "AF_INET"
    said = operator.python(ECHO.format(family=family, address=(address, 0), kind=kind))
    assert said.ok() == "hello\n"


def test_localhost_is_a_name(operator):
    said = operator.python("import socket\nfor name in ('localhost', socket.gethostname()):\n"
                           "    for family in (socket.AF_INET, socket.AF_INET6):\n"
                           "        print({a[4][0] for a in socket.getaddrinfo(name, 80, family)})")
    assert said.ok() == "{'127.0.0.1'}\n{'::1'}\n" * 2


@pytest.mark.parametrize("port", [1, 80, 443])
def test_low_ports(operator, port):
    said = operator.python(ECHO.format(family="AF_INET", address=("127.0.0.1", port),
                                       kind="SOCK_STREAM"))
    assert said.ok() == "hello\n"


def test_all_addresses_and_unix(operator):
    for family, address in (("AF_INET", ("0.0.0.0", 8080)), ("AF_INET6", ("::", 8080)),
                            ("AF_UNIX", "/tmp/s"), ("AF_UNIX", "\0abstract")):
        said = operator.python(ECHO.format(family=family, address=address, kind="SOCK_STREAM"))
        assert said.ok() == "hello\n", (family, address)


def test_served_to_another_process(operator):
    """As a development server and its tests are."""
    id = operator.detach("--", "/usr/bin/python3", "-Im", "http.server", "--bind", "127.0.0.1",
                         "8000")
    ask = ("import time, urllib.request as u\n"
           "for _ in range(600):\n"
           "    try: print(u.urlopen('http://localhost:8000/', timeout=5).status); break\n"
           "    except OSError: time.sleep(0.05)\n")
    assert operator.cloister("exec", id, "/usr/bin/python3", "-Ic", ask).ok() == "200\n"


def test_only_loopback(operator):
    said = operator.python("import socket; print(socket.if_nameindex());"
                           "print(len(open('/proc/net/route').readlines()))")
    assert said.ok() == "[(1, 'lo')]\n1\n"


@pytest.fixture
def host_server():
    """Listens on the host's loopback, and counts who comes."""
    server = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", server.getsockname()[1]))
    server.settimeout(0)
    udp.settimeout(0)
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0cloister-scenario-{os.getpid()}")
    abstract.listen(5)
    abstract.settimeout(0)
    yield server, udp, abstract
    for s in (server, udp, abstract):
        s.close()


def visitors(host_server):
    came = 0
    for server in host_server:
        try:
            server.recvfrom(10) if server.type == socket.SOCK_DGRAM else server.accept()
            came += 1
        except BlockingIOError:
            pass
    return came


TRY = """
import socket
def reach(family, kind, address):
    s = socket.socket(family, kind)
    s.settimeout(5)
    try:
        s.connect(address)
        s.send(b'x')
        print('reached', address)
    except OSError as e:
        pass
reach(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', {port}))
reach(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', {port}))
reach(socket.AF_UNIX, socket.SOCK_STREAM, '\\0cloister-scenario-{pid}')
print('tried')
"""


@pytest.mark.parametrize("options", [(), ("--root",), ("--profile", "nested")],
                         ids=["agent", "root", "nested"])
def test_the_hosts_loopback_is_another(operator, host_server, options):
    script = TRY.format(port=host_server[0].getsockname()[1], pid=os.getpid())
    assert "tried\n" in operator.python(script, *options).ok()
    assert visitors(host_server) == 0
    # The same script outside gets through: the servers are really there.
    assert operator.do("/usr/bin/python3", "-Ic", script).ok().count("reached") == 3
    assert visitors(host_server) == 3


def test_no_way_out(operator):
    said = operator.python("""
import errno, socket
for family, address in ((socket.AF_INET, '192.0.2.1'), (socket.AF_INET, '10.0.0.1'),
                        (socket.AF_INET, '169.254.169.254'), (socket.AF_INET, '255.255.255.255'),
                        (socket.AF_INET6, '2001:db8::1'), (socket.AF_INET6, 'fe80::1')):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(family, kind)
        s.settimeout(5)
        try:
            s.connect((address, 80))
            print('reached', address)
        except OSError as e:
            print(errno.errorcode[e.errno])
""")
    assert set(said.ok().split()) <= {"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EINVAL",
                                      "EACCES"}


def test_names_are_refused_at_once(operator):
    """A name that no server answers for must not hang the agent."""
    said = operator.python("import socket\ntry: socket.getaddrinfo('example.com', 80)\n"
                           "except socket.gaierror: print('no such name')", seconds=SECONDS / 2)
    assert said.ok() == "no such name\n"


TRIED = "the command tried to reach the network, but this cell has none"


@pytest.mark.parametrize("script, told", [
    ("socket.getaddrinfo('example.com', 80)", True),
    ("socket.create_connection(('93.184.216.34', 80))", True),
    ("socket.create_connection(socket.create_server(('127.0.0.1', 0)).getsockname())", False),
    ("pass", False)], ids=["name", "address", "loopback", "nothing"])
def test_a_cell_without_a_policy_prints_a_hint(operator, script, told):
    """Otherwise the operator does not know why names do not resolve."""
    words = ["--", "/usr/bin/python3", "-Ic", f"import socket\ntry: {script}\nexcept OSError: pass"]
    assert (TRIED in operator.run(*words).err) == told
    assert TRIED not in operator.run("-q", *words).err
    assert TRIED not in operator.run("--allow", "a.example", *words).err
    operator.kept |= {cell["cell"] for cell in operator.cells("-a")}


NO_NETWORK = {
    "python": ["/usr/bin/python3", "-Ic", "import socket\ntry: socket.getaddrinfo('no.example', 80)\n"
               "except socket.gaierror as e: print('EAI_NONAME' if e.errno == socket.EAI_NONAME else e)"],
    "curl": ["curl", "-sS", "https://no.example/"],
    "git": ["git", "ls-remote", "https://no.example/x"],
    "wget": ["wget", "-O-", "http://no.example/"],
    "npm": ["npm", "install", "--no-audit", "--no-update-notifier", "no-such-package"],
    "node": ["node", "-e", "const d = require('dns'); d.lookup('no.example', e => console.log(e.code));"
             "d.resolve4('no.example', e => console.log(e.code))"],
    "busybox": ["/bin/busybox", "nslookup", "no.example"],
    "pip": ["/usr/bin/python3", "-m", "pip", "download", "no-such-package"],
}
# What each says of a name that there is none of; of one that nobody answered for it says another thing.
NONE = {"python": r"^EAI_NONAME$", "curl": r"Could not resolve host", "git": r"Could not resolve host",
        "wget": r"Name or service not known", "npm": r"code ENOTFOUND", "node": r"^ENOTFOUND\nENOTFOUND$",
        "busybox": r"NXDOMAIN|can't find|can't resolve", "pip": r"Name or service not known|No matching distribution"}


@pytest.mark.parametrize("client", NO_NETWORK)
def test_clients_fail_at_once(operator, client):
    """Not one of them waits for an answer, or tries again: npm did, for two minutes."""
    words = NO_NETWORK[client]
    if shutil.which(words[0]) is None or (client == "pip" and
                                          operator.do(*words[:3], "--version").status != 0):
        pytest.skip(f"no {client} here")
    done = operator.run("-e", "PIP_DISABLE_PIP_VERSION_CHECK=1", "--", *words, seconds=SECONDS / 2)
    assert re.search(NONE[client], done.out + done.err, re.M), done
    assert done.err.count(TRIED) == 1, done
    assert "Temporary failure" not in done.out + done.err


def test_the_hint_comes_at_once(operator):
    """With the first lookup, while the command goes on; once."""
    process = operator.start("--", "sh", "-c", "getent hosts a.example; getent hosts b.example; exec sleep 1000",
                             stderr=subprocess.PIPE)
    read_until(process.stderr.fileno(), TRIED.encode())
    operator.cloister("kill", "--all").ok()
    assert process.wait() == 137 and TRIED.encode() not in process.stderr.read()


def test_the_hint_in_a_terminal(operator):
    """A line of its own, though the agent's terminal ends no lines."""
    terminal = Terminal(operator, operator.program, "run", "-t", "--", "sh", "-c", "getent hosts a.example; cat")
    terminal.expect(r"(?:^|\r\n)cloister: " + TRIED + r"[^\n]*\r\n")
    terminal.type("\x04")
    assert terminal.end() != 125
    terminal.close()


def test_the_resolver_takes_anything(operator):
    """Half a header, an answer, a giant, a flood: whoever asks properly is answered all the same."""
    script = ("import os, socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.53', 53))\n"
              "ask = bytes.fromhex('abcd01000001000000000000') + b'\\x01a\\x07example\\0\\0\\x01\\0\\x01'\n"
              "for junk in (b'', b'x', ask[:11], b'ab\\x81\\x80' + ask[4:], os.urandom(60000)): s.send(junk)\n"
              "for i in range(20000): s.send(os.urandom(11))\n"
              "s.settimeout(1)\n"
              "while True:\n    s.send(ask)\n    try: got = s.recv(4096)\n    except TimeoutError: continue\n"
              "    if got[:2] == ask[:2]: break\n"
              "print(got[2] >> 7, got[3] & 15, got[4:] == ask[4:])")
    assert operator.python(script).ok() == "1 3 True\n"


def test_cells_do_not_reach_each_other(operator):
    serve = ("import socket, time; s = socket.create_server(('127.0.0.1', 7777));"
             "a = socket.socket(socket.AF_UNIX); a.bind('\\0cell'); a.listen(); print('up',"
             " flush=True); time.sleep(1000)")
    one = operator.detach("--", "/usr/bin/python3", "-Ic", serve)
    reach = ("import socket\nfor f, a in ((socket.AF_INET, ('127.0.0.1', 7777)),"
             " (socket.AF_UNIX, '\\0cell')):\n"
             "    try: socket.socket(f).connect(a); print('reached')\n"
             "    except ConnectionRefusedError: print('refused')\n")
    again = "import time\n" + "for _ in range(600):\n    try:\n        import socket\n" \
            "        socket.socket().connect(('127.0.0.1', 7777)); break\n" \
            "    except OSError: time.sleep(0.05)\n"
    operator.cloister("exec", one, "/usr/bin/python3", "-Ic", again).ok()
    assert operator.cloister("exec", one, "/usr/bin/python3", "-Ic", reach).ok() == "reached\n" * 2
    assert operator.python(reach).ok() == "refused\n" * 2
    assert is_alive(operator.cell(one)["init"])
