"""The cell's small internet: routes, the authorities that programs trust, ports of the host, trusted
policies, and the helpers, which come and go with the cell."""
import calendar
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from egress_lab import CURL, await_event, helpers_of, needs
from operators import (IS_STATIC, SECONDS, is_alive, only_root, only_user, over_stream_too,
                       read_until, status_of, wait_until)
from ports import check_idle_limit, free_port

ALLOW = ("--allow", "www.example.test")
GATE, CELL = "198.18.0.1", "198.18.0.2"
BUNDLE, CA = "/etc/ssl/certs/ca-certificates.crt", "/etc/cloister/ca.crt"


@pytest.fixture
def keep(operator):
    """These cells leave only timelines, which may stay until the test is over."""
    yield
    operator.kept |= {name.split(".")[0] for name in operator.names(operator.state)}


# ---- without a policy ----------------------------------------------------------------------------

def test_without_a_policy_nothing_is_there(operator):
    said = operator.sh("cat /etc/resolv.conf; ls /etc/cloister; env; cat /proc/net/fib_trie; ls /etc/pki")
    assert "cloister" not in said.err.replace("/etc/cloister", "")
    assert "198.18." not in said.out and "CERT" not in said.out
    id = operator.detach("--", "sleep", "1000")
    assert len(operator.pids(id)) == 3      # the supervisor, init, the agent


# ---- what leads where ------------------------------------------------------------------------------

REACH = """
import socket, sys, time
for word in sys.argv[1:]:
    host, port = word.rsplit('/', 1)
    began = time.monotonic()
    try:
        s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)
        s.settimeout(20)
        s.connect((host, int(port)))
        found = 'connected'
    except OSError as e:
        found = e.strerror
    print(word, found, 'late' if time.monotonic() - began > 10 else 'soon')
"""


@pytest.mark.usefixtures("keep")
def test_every_address_leads_to_the_gate(operator):
    to = ["93.184.216.34/443", "10.0.0.1/22", "169.254.169.254/80", "203.0.113.9/65535", "1.1.1.1/1",
          f"{GATE}/3128", f"{GATE}/1080", f"{GATE}/53", f"{GATE}/1", "2001:db8::1/443", "fd00::1/80",
          "::ffff:1.2.3.4/80"]
    said = operator.run(*ALLOW, "--", "/usr/bin/python3", "-Ic", REACH, *to).ok()
    assert said.splitlines() == [f"{word} connected soon" for word in to]


@pytest.mark.usefixtures("keep")
def test_loopback_is_the_cells_own(operator):
    """So are all addresses that the cell has itself."""
    script = f"""
import socket
for family, bound, name in ((socket.AF_INET, '127.0.0.1', '127.0.0.1'), (socket.AF_INET, '0.0.0.0', '127.3.4.5'),
                            (socket.AF_INET, '0.0.0.0', '{CELL}'), (socket.AF_INET, '0.0.0.0', '0.0.0.0'),
                            (socket.AF_INET6, '::1', '::1'), (socket.AF_INET6, '::', '::1')):
    server = socket.socket(family)
    server.bind((bound, 0))
    server.listen()
    client = socket.socket(family)
    client.connect((name, server.getsockname()[1]))
    print(server.accept()[1][0] == client.getsockname()[0])
for address in (('127.0.0.1', 9), ('::1', 9), ('{CELL}', 9)):
    try: socket.create_connection(address)
    except ConnectionRefusedError: print('refused')
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('127.0.0.1', 53))
v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
v.sendto(b'own', ('127.0.0.1', 53))
print(u.recv(10).decode())
"""
    assert operator.python(script, *ALLOW).ok() == "True\n" * 6 + "refused\n" * 3 + "own\n"
    assert operator.names(operator.state) == []     # nothing was decided, nothing is kept


@pytest.mark.parametrize("to", [("8.8.8.8", 443), ("8.8.8.8", 123), (GATE, 54), ("224.0.0.251", 5353),
                                ("2001:4860:4860::8888", 443), ("10.0.0.1", 443)])
@pytest.mark.usefixtures("keep")
def test_udp_is_refused_at_once(operator, to):
    script = f"""
import socket, time
family = socket.AF_INET6 if ':' in {to[0]!r} else socket.AF_INET
began = time.monotonic()
for connected in (False, True):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(20)
    try:
        if connected:
            s.connect({to!r})
            s.send(b'x')
        else:
            s.sendto(b'x', {to!r})
        s.recv(1)
    except OSError as e:
        print(type(e).__name__)
print(time.monotonic() - began < 5)
"""
    assert operator.python(script, *ALLOW).ok() == "PermissionError\nPermissionError\nTrue\n"


@pytest.mark.usefixtures("keep")
def test_no_other_protocols(operator):
    script = """
import socket
for kind, protocol in ((socket.SOCK_RAW, 1), (socket.SOCK_DGRAM, 1), (socket.SOCK_RAW, 6), (socket.SOCK_STREAM, 132),
                       (socket.SOCK_RAW, 255)):
    try: socket.socket(socket.AF_INET, kind, protocol); print('made')
    except OSError as e: print(e.strerror)
"""
    assert "made" not in operator.python(script, *ALLOW).ok()


def test_names(online):
    """A name that a rule mentions gets an address of its own; any other name is refused at once."""
    script = """
import socket, time
began = time.monotonic()
for name in ('www.example.test', 'evil.test', 'gate.cloister.internal', 'localhost'):
    for family in (socket.AF_INET, socket.AF_INET6):
        try: print(name, socket.getaddrinfo(name, 80, family)[0][4][0].rsplit('.', 2)[0])
        except socket.gaierror as e: print(name, 'unknown')
print(time.monotonic() - began < 10)
"""
    before = online.lab.asked("evil.test")
    said = online.python("  - allow: www.example.test\n", script).ok().splitlines()
    assert said[0].startswith("www.example.test 198.1") and said[1].startswith("www.example.test fd63:")
    assert said[2:] == ["evil.test unknown"] * 2 + [
        "gate.cloister.internal 198.18", "gate.cloister.internal fd63:6c6f:6973:7465::1",
        "localhost 127.0", "localhost ::1", "True"]
    assert online.events(type="dns", host="evil.test", verdict="deny")
    assert online.lab.asked("evil.test") == before


def test_resolvers_elsewhere_are_the_gate_too(online):
    """A program that asks 8.8.8.8 gets the same answer."""
    script = """
import socket, struct
q = struct.pack('>6H', 77, 0x100, 1, 0, 0, 0) + b'\\3www\\7example\\4test\\0' + struct.pack('>2H', 1, 1)
for family, where in ((socket.AF_INET, '8.8.8.8'), (socket.AF_INET6, '2001:4860:4860::8888')):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.sendto(q, (where, 53))
    a, by = s.recvfrom(512)
    print(by[0] == where, socket.inet_ntoa(a[-4:]).startswith('198.1'))
    t = socket.create_connection((where, 53), timeout=10)
    t.sendall(struct.pack('>H', len(q)) + q)
    print(socket.inet_ntoa(t.recv(512)[-4:]).startswith('198.1'))
"""
    assert online.python("  - allow: www.example.test\n", script).ok() == "True True\nTrue\n" * 2


# ---- whom programs trust -----------------------------------------------------------------------------

def certificates(text):
    return text.count("-----BEGIN CERTIFICATE-----")


def test_the_cells_authority(operator):
    """One for each cell, among the system's own, with its key nowhere inside."""
    script = (f"cat {CA}; echo; echo ===; grep -c BEGIN {BUNDLE}; for f in /etc/ssl/cert.pem /etc/ssl/ca-bundle.pem "
              "/etc/pki/tls/certs/ca-bundle.crt /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem; do "
              f"cmp $f {BUNDLE}; done; grep -rls 'PRIVATE KEY' /etc /tmp /home /run /dev/shm; ls -A /etc/cloister; "
              f"touch {CA} 2>/dev/null && echo changed")
    one, two = (operator.sh(script, *ALLOW).out.split("===\n") for _ in range(2))
    assert certificates(one[0]) == 1 and one[0] != two[0]
    with open(BUNDLE) as system:
        assert one[1].split() == [str(certificates(system.read()) + 1), "ca.crt"]


@needs("openssl")
def test_the_authority_is_one(operator):
    said = operator.sh(f"openssl x509 -in {CA} -noout -text -checkend 0", *ALLOW, "--time", "2h").ok()
    said = said.replace("CN=", "CN = ")     # OpenSSL since 3.2
    for word in ("CN = cloister cell ", "CA:TRUE, pathlen:0", "Certificate Sign", "id-ecPublicKey", "256 bit",
                 "Certificate will not expire"):
        assert word in said, word
    assert "Digital Signature" not in said
    # Backdated by a day, for clocks that differ, and over a day after the cell's time is.
    assert operator.sh(f"openssl x509 -in {CA} -noout -checkend $((25*3600))", *ALLOW, "--time", "2h").status == 0
    assert operator.sh(f"openssl x509 -in {CA} -noout -checkend $((27*3600))", *ALLOW, "--time", "2h").status == 1


@needs("openssl")
def test_openssl_finds_it_by_file_and_by_folder(operator):
    script = (f"openssl verify -no-CApath -CAfile {BUNDLE} {CA}; unset SSL_CERT_FILE; "
              f"openssl verify -no-CAfile -CApath /etc/ssl/certs {CA}")
    assert operator.sh(script, *ALLOW).ok() == f"{CA}: OK\n" * 2


def test_the_systems_folder_is_still_there(operator):
    inside = set(operator.sh("ls /etc/ssl/certs", *ALLOW).ok().split())
    assert set(os.listdir("/etc/ssl/certs")) < inside and len(inside) == len(os.listdir("/etc/ssl/certs")) + 1
    assert operator.sh("touch /etc/ssl/certs/x", *ALLOW).status != 0


@pytest.mark.skipif(not os.path.exists("/etc/ssl/certs/java/cacerts"), reason="there is no Java")
def test_java_trusts_it(operator):
    def entries(said):
        return int(said.split("Your keystore contains ")[1].split()[0])

    listed = "keytool -list -cacerts -storepass changeit 2>&1"
    assert entries(operator.sh(listed, *ALLOW).ok()) == entries(operator.host(listed)) + 1
    said = operator.sh(f"keytool -printcert -file {CA} | grep SHA256: | cut -d' ' -f3 >/tmp/one; "
                       f"{listed} | grep -cf /tmp/one", *ALLOW)
    assert said.ok() == "1\n"


@needs("chromium")
def test_chromium_trusts_it(online):
    """It has a list of its own, and asks no file that the others ask."""
    said = online.run("  - allow: www.example.test\n", "chromium", "--headless", "--no-sandbox", "--disable-gpu",
                      "--dump-dom", "https://www.example.test/hello")
    assert "hello from www.example.test" in said.out, said


def test_variables(operator):
    said = operator.sh("env", *ALLOW, "-e", "SSL_CERT_FILE=/mine", "-e", "PIP_CERT=").ok().splitlines()
    assert "SSL_CERT_FILE=/mine" in said and "PIP_CERT=" in said        # the operator's word is the last
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
                 "NIX_SSL_CERT_FILE", "DENO_CERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"):
        assert f"{name}={BUNDLE}" in said
    for name in ("NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE"):
        assert f"{name}={CA}" in said


@needs("openssl")
def test_authorities_of_the_operators_own(operator):
    operator.host("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout own.key -out own.crt "
                  "-subj /CN=own -days 1 2>&1; cat own.crt own.key >both.pem; echo nothing >none.pem")
    own, home = operator.home / "own.crt", operator.home
    plain = int(operator.sh(f"grep -c BEGIN {BUNDLE}", *ALLOW).ok())
    assert int(operator.sh(f"grep -c BEGIN {BUNDLE}", *ALLOW, "--ca", own).ok()) == plain + 1
    assert operator.sh("openssl verify /dev/stdin", *ALLOW, "--ca", own, input=own.read_bytes()).ok()
    operator.run(*ALLOW, "--ca", home / "both.pem", "--", "true").sentence("private key")
    operator.run(*ALLOW, "--ca", home / "none.pem", "--", "true").sentence("none.pem", "certificates")
    operator.run(*ALLOW, "--ca", home / "nowhere", "--", "true").sentence("nowhere")
    operator.run("--ca", own, "--", "true").sentence("--ca")


@pytest.mark.skipif(not IS_STATIC or not os.path.exists("/bin/busybox"), reason="no static programs")
@pytest.mark.parametrize("etc", [False, True])
def test_trust_in_another_root(operator, etc):
    root = operator.folder("root")
    for name in ("bin", "etc/ssl/certs", "usr") if etc else ("bin", "usr"):
        operator.folder(f"root/{name}")
    shutil.copy("/bin/busybox", root / "bin/sh")
    operator.own(root / "bin/sh")
    if etc:
        operator.file("root/etc/ssl/certs/ca-certificates.crt", "-----BEGIN CERTIFICATE-----\nits own\n")
        operator.file("root/etc/ssl/certs/other.pem", "x")
    said = operator.run("--rootfs", root, *ALLOW, "--", "/bin/sh", "-c",
                        f"grep -c BEGIN {BUNDLE}; grep 'its own' {BUNDLE}; ls /etc/ssl/certs | grep other; "
                        f"grep -c BEGIN {CA}; cat /etc/resolv.conf").out
    if etc:
        assert said.startswith("2\nits own\nother.pem\n1\n"), said
    assert f"nameserver {GATE}" in said and int(said.split()[0]) > 1


# ---- ports of the host ---------------------------------------------------------------------------------

SERVE = """
import socket, sys, threading
def serve(c):
    data = b''
    while more := c.recv(1 << 16):
        data += more
        if data.endswith(b'.'): break
    c.sendall(str(len(data)).encode() + b' ' + data)
    c.close()
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen()
print('ready', flush=True)
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""


def served(operator, *options, at="127.0.0.1", port=8000):
    """A cell with a server; its id."""
    id = operator.detach(*options, "--", "/usr/bin/python3", "-Ic", SERVE, at, str(port))
    wait_until(lambda: "ready" in operator.cloister("logs", id).out, "the server is ready")
    return id


def talk(to, data):
    with socket.create_connection(to, timeout=SECONDS) as s:
        s.sendall(data)
        got = b""
        while more := s.recv(1 << 16):
            got += more
    return got


@pytest.mark.parametrize("at, policy, boundary", [
    *((at, policy, "namespace") for at in ("127.0.0.1", "::1", "0.0.0.0") for policy in (False, True)),
    ("127.0.0.1", False, "stream"), ("::1", True, "stream"),
])
def test_published(operator, at, policy):
    """Both ways, from both of the host's loopback addresses, whatever the server listens on."""
    port = free_port()
    id = served(operator, "--publish", f"{port}:8000", *(ALLOW if policy else ()), at=at)
    assert operator.cell(id)["ports"] == [{"cell": 8000, "host": port}]
    assert operator.cell(id)["policy"] is policy
    assert f"[{port}:8000]" in operator.cloister("ps").out
    for name in ("127.0.0.1", "::1"):
        assert talk((name, port), b"hello.") == b"6 hello."
    data = os.urandom(3 << 20).replace(b".", b",") + b"."
    assert talk(("127.0.0.1", port), data) == str(len(data)).encode() + b" " + data
    operator.cloister("kill", id).ok()
    with pytest.raises(OSError):
        talk(("127.0.0.1", port), b".")


def test_published_to_this_machine_only(operator):
    port = free_port()
    served(operator, "--publish", f"{port}:8000")
    said = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    assert {line.split()[3] for line in said.splitlines()} == {f"127.0.0.1:{port}", f"[::1]:{port}"}


@pytest.mark.parametrize("option", ["8000", "0:8000"])
def test_published_at_a_free_port(operator, option):
    """The same port if it is free; the port is printed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        for wanted in (number, free_port()):
            word = option.replace("8000", str(wanted))
            process = operator.start("--publish", word, "--", "sleep", "1000", stderr=subprocess.PIPE)
            said = process.stderr.readline().decode()
            while "shown only once" in said:
                said = process.stderr.readline().decode()
            host = int(said.split("127.0.0.1:")[1].split()[0])
            assert said.startswith(f"cloister: the cell's port {wanted} is ")
            assert (host == wanted) is (wanted != number)
            cell = wait_until(operator.cells, "it runs")[0]
            assert cell["ports"] == [{"cell": wanted, "host": host}]
            operator.cloister("kill", cell["cell"]).ok()
            process.wait()


def test_published_where_it_cannot_be(operator):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        operator.run("--publish", f"{number}:80", "--", "true").sentence(number, "in use",
                                                                            "another port of this machine: --publish PORT:80")
    if not operator.is_root:
        operator.run("--publish", "80:80", "--", "true").sentence("only root", "--publish PORT:80")
    for word in ("x", "0", "65536", "65536:80", "80:", ":80", "80:0", "80:81:82", "-1"):
        operator.run(f"--publish={word}", "--", "true").sentence("--publish", word)
    operator.run("--publish", "8000:80", "--publish", "8000:81", "--", "true").sentence("8000", "twice")


@over_stream_too
def test_a_published_port_without_a_listener(operator):
    port = free_port()
    operator.detach("--publish", f"{port}:8000", "--", "sleep", "1000")
    with pytest.raises(ConnectionError):
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as s:
            if s.recv(1) == b"":
                raise ConnectionResetError


@over_stream_too
def test_published_many_at_once(operator):
    port = free_port()
    served(operator, "--publish", f"{port}:8000")
    sockets = [socket.create_connection(("127.0.0.1", port), timeout=SECONDS) for _ in range(100)]
    for i, s in enumerate(sockets):
        s.sendall(b"%d." % i)
    for i, s in enumerate(sockets):
        want = b"%d." % i
        got = b""
        while more := s.recv(100):
            got += more
        assert got == b"%d " % len(want) + want
        s.close()


@over_stream_too
@only_user
def test_published_half_closed(operator):
    """A client that has sent everything still gets the answer."""
    port = free_port()
    served(operator, "--publish", f"{port}:8000")
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as s:
        s.sendall(b"no end")
        s.shutdown(socket.SHUT_WR)
        assert s.makefile("rb").read() == b"6 no end"


@over_stream_too
@only_user
def test_published_to_a_client_that_does_not_read(operator):
    """It holds up only itself, and in the end gets everything."""
    port = free_port()
    served(operator, "--publish", f"{port}:8000")
    data = bytes(8 << 20) + b"."
    with socket.socket() as slow:
        slow.settimeout(SECONDS)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        slow.connect(("127.0.0.1", port))
        slow.sendall(data)
        assert talk(("127.0.0.1", port), b"hello.") == b"6 hello."
        assert slow.makefile("rb").read() == b"%d " % len(data) + data


@pytest.mark.parametrize("boundary", ["stream"])
def test_published_and_silent(operator):
    """Its hour is a second and a half in the mutant build."""
    port = free_port()
    operator.env["CLOISTER_OFF"] = "idle-hour"
    served(operator, "--publish", f"{port}:8000")
    check_idle_limit(port)


@over_stream_too
def test_the_carrier_is_locked_in(operator):
    port = free_port()
    id = served(operator, "--publish", f"{port}:8000")
    pid = next(p for p in operator.pids(id)
               if os.readlink(f"/proc/{p}/exe").endswith("cloister-publish"))
    check_locked(operator, pid)
    cell = operator.cell(id)
    for kind in ("net", "user"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/{cell['init']}/ns/{kind}")


# ---- whose word a policy is ------------------------------------------------------------------------------

DENY_ALL = "version: 1\negress: []\n"


def has_policy(operator, *options, **how):
    said = operator.run(*options, "--", "cat", "/etc/resolv.conf", **how)
    assert said.status == 0, said
    return GATE in said.out


def test_found_in_the_workspace_or_here(operator):
    project = operator.folder("project", {"cloister.yaml": DENY_ALL})
    other = operator.folder("other")
    assert has_policy(operator, cwd=project)
    assert not has_policy(operator, "--no-policy", cwd=project)
    assert has_policy(operator, "-w", project, cwd=other)
    assert has_policy(operator, "-w", f"{project}:ro", cwd=other)
    # The workspace's, and no other.
    assert not has_policy(operator, "-w", other, cwd=project)
    assert has_policy(operator, "-w", other, "-p", project / "cloister.yaml", cwd=other)
    operator.run("-p", project / "cloister.yaml", "--no-policy", "--", "true").sentence("--no-policy")


def test_a_policy_that_an_agent_can_write_is_refused(operator):
    """So is one that an agent could once write: it would set the rules of the next cell."""
    project = operator.folder("project", {"cloister.yaml": DENY_ALL, "below/cloister.yaml": DENY_ALL})
    assert has_policy(operator, "-w", project)
    operator.run("-w", f"{project}:rw", "--", "true").sentence("this cell could change", "cloister.yaml", "-p")
    # No agent ran, so nothing was written.
    assert has_policy(operator, "-w", project)
    assert not has_policy(operator, "-w", f"{project}:rw", "--no-policy")
    for options in ((), ("-w", project), ("-w", f"{project}:ro"), ("-w", project / "below"),
                    ("-p", project / "cloister.yaml")):
        operator.run(*options, "--", "true", cwd=project).sentence("cloister.yaml", "agent")
    assert not has_policy(operator, "-w", project, "--no-policy")
    operator.cloister("trust", "--yes", project).ok()
    assert has_policy(operator, "-w", project)


def test_a_policy_that_extends_an_agents_file_is_refused(operator):
    """The policy, which was found, extends a file that an agent could write."""
    project = operator.folder("project", {"cloister.yaml": "version: 1\nextends: ../shared/base.yaml\n"})
    shared = operator.folder("shared", {"base.yaml": DENY_ALL})
    assert has_policy(operator, cwd=project)
    operator.run("-v", f"{shared}:/x", "--no-policy", "--", "true").ok()
    for options in ((), ("-p", project / "cloister.yaml")):
        operator.run(*options, "--", "true", cwd=project).sentence("cloister.yaml:2:", "base.yaml", "agent")
    operator.cloister("trust", "--yes", shared).ok()
    assert has_policy(operator, cwd=project)


def test_writable_folders_must_be_recorded(operator):
    """Otherwise a later cell would trust files that this one wrote."""
    folder = operator.folder("work")
    operator.run("-v", f"{folder}:/x", "--", "true", env={"CLOISTER_STATE_DIR": "/proc/nowhere"}).sentence("/proc/nowhere")


def test_a_policy_in_a_writable_volume_is_refused(operator):
    project = operator.folder("project", {"cloister.yaml": DENY_ALL})
    operator.run("-v", f"{project}:/x:ro", "--", "true").ok()
    assert has_policy(operator, cwd=project)
    operator.run("-v", f"{operator.base}/project:/x", "--", "true").ok()
    operator.run("--", "true", cwd=project).sentence("cloister.yaml")


def test_a_policy_that_others_can_write_is_refused(operator):
    project = operator.folder("project", {"cloister.yaml": DENY_ALL})
    for mode in (0o664, 0o646):
        (project / "cloister.yaml").chmod(mode)
        operator.run("--", "true", cwd=project).sentence("others may write", "`chmod go-w` it")
    (project / "cloister.yaml").unlink()
    (project / "cloister.yaml").symlink_to(operator.file("elsewhere.yaml", DENY_ALL))
    operator.run("--", "true", cwd=project).sentence("cloister.yaml", "regular file")


@only_root
def test_a_policy_of_another_user_is_refused(operator):
    project = operator.folder("project", {"cloister.yaml": DENY_ALL})
    os.chown(project / "cloister.yaml", 12345, 12345)
    operator.run("--", "true", cwd=project).sentence("cloister.yaml", "somebody else")


def test_changes_to_it_are_held_back(operator):
    project = operator.folder("project", {"cloister.yaml": DENY_ALL, "a": "1"})
    cell = operator.change(project, "echo 2 >a; echo 'version: 1' >cloister.yaml; mkdir b; cp cloister.yaml b")
    said = operator.cloister("apply", cell)
    assert (project / "a").read_text() == "2\n"
    assert (project / "cloister.yaml").read_text() == DENY_ALL and not (project / "b/cloister.yaml").exists()
    assert "cloister.yaml" in said.out + said.err


def test_limits_of_a_policy(operator):
    policy = operator.file("p.yaml", "version: 1\negress: []\nlimits: {time: 1s, disk: 1M}\n")
    done = operator.run("-p", policy, "--", "sleep", "100")
    assert done.status == 137 and "--time 1s" in done.err
    write = "head -c 3000000 /dev/zero >/tmp/x"
    assert operator.sh(write, "-p", policy).status != 0
    # What the command line says goes before it.
    assert operator.sh(write, "-p", policy, "--disk", "64M").status == 0


# ---- the helpers --------------------------------------------------------------------------------------------

def check_locked(operator, pid):
    status = status_of(pid)
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[kind], 16) == 0, kind
    if operator.is_root and operator.lab is None:
        assert all(int(uid) >= 0x70000000 for uid in status["Uid"].split() + status["Gid"].split())
        assert status["Groups"] == ""
    if os.geteuid() == 0:
        assert os.listdir(f"/proc/{pid}/root") == [] or "etc" in os.listdir(f"/proc/{pid}/root")
        assert not os.path.exists(f"/proc/{pid}/root/etc/passwd")


@pytest.mark.usefixtures("keep")
def test_helpers_are_locked_in(operator):
    id = operator.detach(*ALLOW, "--", "sleep", "1000")
    # The process that will start them waits, and is nobody's to look into.
    waiting = [p for p in operator.pids(id)[1:] if os.readlink(f"/proc/{p}/exe").endswith("supervisor")]
    assert len(waiting) == 1
    wait_until(lambda: status_of(waiting[0])["NoNewPrivs"] == "1", "it gains nothing any more")
    operator.cloister("exec", id, "--", "/usr/bin/python3", "-Ic", REACH, "1.2.3.4/443").ok()
    found = wait_until(lambda: len(f := helpers_of(operator, id)) >= 2 and f, "gate and courier run")
    for pid in found.values():
        wait_until(lambda: status_of(pid)["Seccomp"] == "2", "it is locked in")
        check_locked(operator, pid)
        assert os.getsid(pid) == pid
    nets = {name: os.readlink(f"/proc/{pid}/ns/net") for name, pid in found.items()}
    assert nets["courier"] == os.readlink("/proc/self/ns/net")
    assert nets["gate"] not in (nets["courier"], os.readlink(f"/proc/{operator.cell(id)['init']}/ns/net"))


@pytest.mark.parametrize("victim", ["gate", "courier"])
@pytest.mark.usefixtures("keep")
def test_one_dies_and_all_are_there_again(operator, victim):
    id = operator.detach(*ALLOW, "--", "sleep", "1000")

    def reach():
        return operator.cloister("exec", id, "--", "/usr/bin/python3", "-Ic", REACH, "1.2.3.4/443").ok()

    assert "connected soon" in reach()
    first = wait_until(lambda: len(f := helpers_of(operator, id)) >= 2 and f, "gate and courier run")
    os.kill(first[victim], signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in first.values()), "they die together")
    assert "connected soon" in reach()
    again = wait_until(lambda: len(f := helpers_of(operator, id)) >= 2 and f, "they run again")
    assert not set(again.values()) & set(first.values())


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.usefixtures("keep")
def test_the_starter_is_killed(operator, used):
    """Then connections are refused and do not hang, and the cell continues."""
    id = operator.detach(*ALLOW, "--", "sleep", "1000")

    def reach():
        return operator.cloister("exec", id, "--", "/usr/bin/python3", "-Ic", REACH, "1.2.3.4/443").ok()

    if used:
        assert "connected soon" in reach()
        wait_until(lambda: len(helpers_of(operator, id)) >= 2, "gate and courier run")
    pids = operator.pids(id)
    starter = next(p for p in pids[1:] if os.readlink(f"/proc/{p}/exe").endswith("supervisor"))
    os.kill(starter, signal.SIGKILL)
    wait_until(lambda: "Connection refused soon" in reach(), "it is refused")
    assert helpers_of(operator, id) == {} and operator.cell(id) is not None
    operator.cloister("kill", id).ok()


@pytest.mark.usefixtures("keep")
def test_keys_of_the_terminal_do_not_reach_them(operator):
    """They are in no process group that a shell knows of."""
    process = operator.start(*ALLOW, "--", "/usr/bin/python3", "-Ic",
                             REACH + "print('there', flush=True); time.sleep(1000)", "1.2.3.4/443",
                             stdout=subprocess.PIPE)
    read_until(process.stdout.fileno(), b"there")
    id = operator.cells()[0]["cell"]
    found = wait_until(lambda: len(f := helpers_of(operator, id)) >= 2 and f, "gate and courier run")
    assert os.getpgid(process.pid) not in {os.getpgid(pid) for pid in found.values()}
    operator.cloister("kill", id).ok()
    process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in found.values()), "they end with the cell")


@pytest.mark.parametrize("how", ["kill", "exit", "supervisor"])
@pytest.mark.usefixtures("keep")
def test_nothing_is_left_when_the_cell_ends(operator, how):
    port = free_port()
    id = operator.detach(*ALLOW, "--publish", f"{port}:80", "--", "/usr/bin/python3", "-Ic",
                         REACH + f"time.sleep({0 if how == 'exit' else 1000})", "1.2.3.4/443")
    if how == "exit":
        operator.cloister("wait", id).ok()
        return
    wait_until(lambda: len(helpers_of(operator, id)) >= 2, "gate and courier run")
    pids = operator.pids(id)
    began = time.monotonic()
    if how == "kill":
        operator.cloister("kill", id).ok()
        assert time.monotonic() - began < 5
        assert not any(is_alive(pid) for pid in pids[1:])      # the supervisor itself is the one that told
    else:
        os.kill(pids[0], signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in pids), "all of it dies")
        operator.run("--", "true").ok()         # clears what is left of the crash


# ---- the timeline ----------------------------------------------------------------------------------------------

def test_the_timeline(online):
    online.curl("  - allow: www.example.test\n", "https://www.example.test/hello", "https://evil.test/x")
    entry = next((online.operator.state / "ended").glob(f"{online.cell}.*"))
    assert sorted(os.listdir(entry)) == ["events.jsonl", "policy"]
    lines = (entry / "events.jsonl").read_text().splitlines()
    for n, event in enumerate(map(json.loads, lines), 1):
        assert event["n"] == n and event["cell"] == online.cell
        when = calendar.timegm(time.strptime(event["time"][:19], "%Y-%m-%dT%H:%M:%S"))
        assert abs(time.time() - when) < 600 and re.fullmatch(r"\.\d{3}Z", event["time"][19:])
    assert os.stat(entry / "events.jsonl").st_mode & 0o777 == 0o600


def test_the_timeline_grows_while_the_cell_runs(online):
    online.start("  - allow: www.example.test\n", "sleep", "1000")
    online.inside(*CURL, "-o", "/dev/null", "https://www.example.test/hello").ok()
    assert await_event(online, type="http", verdict="allow")["status"] == 200
    online.inside(*CURL, "https://evil.test/")
    assert await_event(online, type="dns", verdict="deny")["host"] == "evil.test"


@only_user
def test_root_of_a_user_namespace_goes_out(online):
    """As in a container without root: there is one id, for operator, cell and helpers alike."""
    operator = online.operator
    done = operator.do("unshare", "-U", "-r", operator.program, "run", "-q", "-p",
                       online.policy("  - allow: www.example.test\n"), "--", "curl", "-sS",
                       "--max-time", "20", "https://www.example.test/hello")
    operator.kept |= {name.split(".")[0] for name in operator.names(operator.state)}
    assert done.ok().startswith("hello from www.example.test"), done
