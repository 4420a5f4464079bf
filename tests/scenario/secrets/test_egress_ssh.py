"""SSH from a cell: an agent's socket that holds no key, and signs towards the hosts that a key is for."""
import base64
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

import leftovers
from egress_lab import PATH, helpers_of
from egress_world import UP, WS
from operators import IS_ROOT, IS_STATIC, SECONDS, USER, only_user, over_stream_too, wait_until

pytestmark = [
    pytest.mark.skipif(not IS_ROOT, reason="sshd becomes its users as root only"),
    pytest.mark.skipif(any(shutil.which(p, path=PATH) is None for p in ("sshd", "ssh", "ssh-keygen")),
                       reason="there is no OpenSSH"),
]

RULES = "  - allow: ['up.example.test:22', 'ws.example.test:22']\n    protocol: tcp\n"
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=20"
HOST = "git@up.example.test"


def keygen(path, *options, passphrase=""):
    options = options or ("-t", "ed25519")
    subprocess.run(["ssh-keygen", "-q", "-N", passphrase, "-C", "somebody", "-f", path, *options],
                   check=True, stdin=subprocess.DEVNULL)
    return Path(path)


def fingerprint(path):
    told = subprocess.run(["ssh-keygen", "-lf", path], check=True, capture_output=True, text=True)
    return told.stdout.split()[1]


def patience():
    """Since OpenSSH 9.8 who fails a few times is not let in for a while."""
    told = subprocess.run(["ssh", "-V"], check=True, capture_output=True, text=True).stderr
    version = [int(n) for n in re.match(r"OpenSSH_(\d+)\.(\d+)", told).groups()]
    return "PerSourcePenalties no\n" if version >= [9, 8] else ""


class Sshd:
    """A server of OpenSSH's, with the one user git."""

    def __init__(self, lab, folder, address):
        self.folder = folder
        folder.mkdir(mode=0o755)
        for name in ("home", "keys"):
            (folder / name).mkdir(mode=0o755)
        os.chown(folder / "home", USER, USER)
        self.host_key = keygen(folder / "host")
        self.authorized = folder / "keys/authorized"
        self.authorized.touch()
        users = f"{Path('/etc/passwd').read_text()}git:*:{USER}:{USER}::{folder}/home:/bin/sh\n"
        (folder / "passwd").write_text(users)
        (folder / "config").write_text(
            f"ListenAddress {address}:22\nListenAddress {address}:2222\nHostKey {self.host_key}\nPidFile none\nUsePAM no\n"
            f"StrictModes no\nLogLevel VERBOSE\nAuthorizedKeysFile {self.authorized}\n"
            "AuthenticationMethods publickey\nAcceptEnv GIT_PROTOCOL\n" + patience())
        # It wants a folder of its own under /run, and to find its user.
        script = (f"mount --bind {folder}/passwd /etc/passwd && mount -t tmpfs tmpfs /run && "
                  f"mkdir /run/sshd && exec $(command -v sshd) -D -f {folder}/config -E {folder}/log")
        self.process = subprocess.Popen(
            [*lab.enter, "unshare", "-m", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.DEVNULL, env={"PATH": PATH})
        leftovers.LABS.append(self.process.pid)
        wait_until(lambda: self.said("Server listening") or self.process.poll() is not None, "sshd listens")
        assert self.process.poll() is None

    def said(self, *words):
        """The lines of its log with all of WORDS in them."""
        try:
            lines = (self.folder / "log").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line for line in lines if all(word in line for word in words)]

    def permit(self, key):
        with self.authorized.open("a") as file:
            file.write(key.with_suffix(".pub").read_text())

    def public(self):
        return " ".join(self.host_key.with_suffix(".pub").read_text().split()[:2])

    def close(self):
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def servers(lab, ground):
    """At up.example.test and ws.example.test."""
    # Other modules have servers of their own.
    folder = Path(tempfile.mkdtemp(prefix="sshd-", dir=ground))
    folder.chmod(0o755)
    servers = Sshd(lab, folder / "up", UP), Sshd(lab, folder / "ws", WS)
    yield servers
    for server in servers:
        server.close()


class Ground:
    """An operator who knows the servers, with a key that both of them take."""

    def __init__(self, online, servers):
        self.online, self.operator = online, online.operator
        self.up, self.ws = servers
        self.know(f"up.example.test {self.up.public()}\nws.example.test {self.ws.public()}\n")

    def know(self, text):
        self.operator.file("home/.ssh/known_hosts", text)

    def give(self, *options, kind=("-t", "ed25519"), form=(), name="KEY"):
        """A new key that may be used towards up.example.test."""
        self.key = keygen(self.operator.base / name, *kind)
        if form:
            subprocess.run(["ssh-keygen", "-q", "-p", "-N", "", "-f", self.key, *form], check=True,
                           stdout=subprocess.DEVNULL)
        for server in (self.up, self.ws):
            server.permit(self.key)
        self.add(*options, name=name).ok()
        return self.key

    def add(self, *options, name="KEY", key=None):
        return self.operator.cloister("secret", "add", name, "--scheme", "ssh", "--host",
                                      "up.example.test:22", *options,
                                      input=(key or self.key).read_text())

    def sh(self, script, options=("-s", "KEY"), rules=RULES):
        return self.online.sh(rules, script, options=options)

    def events(self, **wanted):
        return self.online.events(type="ssh", **wanted)

    def refusal(self):
        event, = self.events(verdict="deny")
        assert not self.events(verdict="allow")
        assert event["fingerprint"] == fingerprint(self.key)
        return event


@pytest.fixture
def world(online, servers):
    return Ground(online, servers)


# ---- where it may go ---------------------------------------------------------------------

@pytest.mark.parametrize("kind, form", [
    (("-t", "ed25519"), ()), (("-t", "ecdsa", "-b", "256"), ()), (("-t", "ecdsa", "-b", "384"), ("-m", "PEM")),
    (("-t", "ecdsa", "-b", "521"), ("-m", "PKCS8")), (("-t", "rsa", "-b", "2048"), ()),
    (("-t", "rsa", "-b", "3072"), ("-m", "PEM")),
])
def test_a_login(world, kind, form):
    key = world.give(kind=kind, form=form)
    done = world.sh(f'{SSH} {HOST} "id -un"; echo "$KEY"; ssh-add -L; ls -A ~/.ssh 2>/dev/null; true')
    who, told, listed, *rest = done.ok().splitlines()
    assert who == "git" and rest in ([], ["known_hosts"])
    public = key.with_suffix(".pub").read_text().split()[:2]
    assert told.split() == listed.split() == [*public, "KEY"]
    # The server, which checked the signature.
    assert world.up.said("Accepted publickey for git", fingerprint(key))
    event, = world.events()
    assert event["verdict"] == "allow" and "note" not in event
    assert (event["secret"], event["user"], event["host"], event["port"]) == ("KEY", "git", "up.example.test", 22)
    assert event["fingerprint"] == fingerprint(key)
    assert event["host_key"] == fingerprint(world.up.host_key)


@pytest.mark.parametrize("options, boundary", [((), "namespace"), (("--root",), "namespace"), ((), "stream")])
def test_git_over_ssh(world, options):
    world.give("--with", "user=git")
    bare = world.up.folder / "home" / f"repo-{os.urandom(4).hex()}.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", bare], check=True)
    done = world.sh(f"set -e; git clone -q {HOST}:{bare} work; cd work; echo text >file; git add file; "
                    "git -c user.name=a -c user.email=a@b commit -qm first; git push -q origin HEAD:main; "
                    f"git ls-remote {HOST}:{bare} main", options=("-s", "KEY", *options))
    commit = done.ok().split()[0]
    told = subprocess.run(["git", "-C", bare, "-c", "safe.directory=*", "rev-parse", "main"], check=True,
                          capture_output=True, text=True)
    assert told.stdout.strip() == commit
    assert [e["verdict"] for e in world.events()] == ["allow"] * 3


@over_stream_too
def test_the_first_thing_that_a_cell_asks_for(world):
    """The socket starts the gate, as a connection does."""
    world.give()
    done = world.sh("ssh-add -l; stat -c %F $SSH_AUTH_SOCK; rm -f $SSH_AUTH_SOCK; mv $SSH_AUTH_SOCK /tmp; "
                    "chmod 600 $SSH_AUTH_SOCK; ssh-add -l >/dev/null && echo still")
    listed, kind, still = done.ok().splitlines()
    assert fingerprint(world.key) in listed and kind == "socket" and still == "still"
    assert done.err.count("Read-only file system") == 3


def test_names_that_are_hashed_and_other_ports(world):
    world.know(f"unknown.example.test {world.ws.public()}\nup.example.test {world.up.public()}\n")
    known = world.operator.home / ".ssh/known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    world.operator.own(known)
    assert "up.example" not in known.read_text()
    world.give()
    assert world.sh(f"{SSH} {HOST} echo hello").ok() == "hello\n"


@pytest.mark.parametrize("scope, known", [
    ("up.example.test:2222", "[up.example.test]:2222"), ("up.example.test:2222", "up.example.test"),
    ("*.example.test:2222", "[up.example.test]:2222"), (UP + ":2222", f"[{UP}]:2222"),
])
def test_another_port(world, scope, known):
    world.know(f"{known} {world.up.public()}\n")
    world.give()
    world.operator.cloister("secret", "remove", "KEY").ok()
    world.operator.cloister("secret", "add", "KEY", "--scheme", "ssh", "--host", scope,
                            input=world.key.read_text()).ok()
    host = UP if scope.startswith(UP) else "up.example.test"
    rules = f"  - allow: ['{host}:2222', '{host}:22']\n    protocol: tcp\n"
    done = world.sh(f"{SSH} -p 2222 git@{host} echo in; {SSH} -o StrictHostKeyChecking=no git@{host} echo out",
                    rules=rules)
    assert done.out == "in\n"
    assert [(e["verdict"], e["port"]) for e in world.events()] == [("allow", 2222), ("deny", 22)]


def test_several_keys(world):
    """Each for hosts of its own; ssh tries them one after the other."""
    world.give(name="OTHER")
    world.operator.cloister("secret", "remove", "OTHER").ok()
    world.operator.cloister("secret", "add", "OTHER", "--scheme", "ssh", "--host", "ws.example.test:22",
                            input=world.key.read_text()).ok()
    world.give()
    done = world.sh(f"ssh-add -l | wc -l; {SSH} {HOST} echo in; {SSH} git@ws.example.test echo in",
                    options=("-s", "KEY", "-s", "OTHER"))
    assert done.ok().split() == ["2", "in", "in"]
    assert [(e["secret"], e["host"]) for e in world.events(verdict="allow")] == [
        ("KEY", "up.example.test"), ("OTHER", "ws.example.test")]


def test_a_host_key_in_the_definition(world):
    world.know("")
    world.give("--with", f"host-keys={world.up.public()}")
    done = world.sh(f"{SSH} {HOST} echo hello; cat /etc/ssh/ssh_known_hosts")
    assert done.ok() == f"hello\nup.example.test {world.up.public()}\n"


def test_commits_are_signed_if_the_definition_allows_it(world):
    world.give("--with", "sign=git")
    script = ("git init -q; git -c gpg.format=ssh -c user.signingkey=\"key::$KEY\" -c user.name=a "
              "-c user.email=a@b commit -q -S --allow-empty -m signed; "
              'echo "a@b $KEY" >allowed; git -c gpg.format=ssh -c gpg.ssh.allowedSignersFile=allowed '
              "verify-commit HEAD")
    done = world.sh(script)
    assert done.status == 0 and 'Good "git" signature' in done.err + done.out, done
    event, = world.events()
    assert event["verdict"] == "allow" and event["sign"] == "git" and "host" not in event


# ---- where it may not --------------------------------------------------------------------

def test_another_host_gets_nothing(world):
    """Though it would take the key, is known, and may be reached."""
    world.give()
    done = world.sh(f"{SSH} -o StrictHostKeyChecking=no git@ws.example.test echo hello")
    assert done.status == 255 and "hello" not in done.out
    event = world.refusal()
    assert event["why"] == "exfiltration" and event["host"] == "ws.example.test"
    assert not world.ws.said("Accepted publickey", fingerprint(world.key))
    # With the key itself it would have been let in.
    told = subprocess.run([*world.online.lab.enter, *SSH.split(), "-o", "StrictHostKeyChecking=no", "-o",
                           "UserKnownHostsFile=/dev/null", "-i", world.key, "git@ws.example.test", "echo hello"],
                          capture_output=True, text=True, check=False)
    assert told.stdout == "hello\n", told


def test_the_policy_decides_what_happens_to_the_cell(world):
    """Though no placeholder was sent."""
    world.give()
    done = world.sh(f"{SSH} -o StrictHostKeyChecking=no git@ws.example.test echo hello; exec sleep infinity",
                    rules=f"version: 1\nexfiltration: kill\negress:\n{RULES}")
    assert done.status == 137 and world.refusal()["why"] == "exfiltration"
    assert [e["by"] for e in world.online.events(type="cell", did="killed")] == ["exfiltration"]


def test_a_host_with_another_key_gets_nothing(world):
    """Even if it has the name, or its address."""
    world.know(f"up.example.test {world.ws.public()}\n")
    world.give()
    done = world.sh(f"{SSH} -o StrictHostKeyChecking=no {HOST} echo hello")
    assert done.status == 255 and "hello" not in done.out
    assert world.refusal()["why"] == "unknown-host"
    assert not world.up.said("Accepted publickey", fingerprint(world.key))


def test_a_key_that_was_revoked(world):
    world.know(f"up.example.test {world.up.public()}\n@revoked * {world.up.public()}\n")
    world.give()
    policy = world.online.policy(RULES)
    world.operator.run("-p", policy, "-s", "KEY", "--", "true").sentence("up.example.test", "ssh-keyscan")


def test_another_user(world):
    world.give("--with", "user=somebody")
    assert world.sh(f"{SSH} {HOST} echo hello").status == 255
    event = world.refusal()
    assert event["why"] == "exfiltration" and event["user"] == "git"


def test_a_host_that_the_policy_does_not_name(world):
    world.give()
    done = world.sh(f"{SSH} {HOST} echo hello", rules="  - allow: ['ws.example.test:22']\n    protocol: tcp\n")
    assert done.status == 255 and world.events() == []


def test_an_agent_that_is_forwarded(world):
    world.give()
    done = world.sh(f"{SSH} -A {HOST} 'ssh-add -l; {SSH} -o StrictHostKeyChecking=no {HOST} echo in; true'")
    assert "no identities" in done.out and "in\n" not in done.out, done
    assert [e["verdict"] for e in world.events()] == ["allow"]


def test_nothing_is_signed_besides(world):
    world.give()
    assert world.sh('echo text | ssh-keygen -q -Y sign -n git -f <(echo "$KEY")'.replace("<(echo \"$KEY\")", "k.pub")
                    .replace("echo text", 'echo "$KEY" >k.pub; echo text')).status != 0
    event = world.refusal()
    assert event["why"] == "exfiltration" and "sign: git" in event["note"]
    world.operator.cloister("secret", "remove", "KEY").ok()
    world.add("--with", "sign=git").ok()
    assert world.sh('echo "$KEY" >k.pub; echo text | ssh-keygen -q -Y sign -n file -f k.pub').status != 0
    assert "purpose" in world.refusal()["note"]


# ---- clients that lie --------------------------------------------------------------------

# Speaks with the agent by hand: LISTENER is one that ssh takes for it, and that keeps what it heard.
CLIENT = r"""
import base64, os, socket, struct, subprocess, sys, threading, time
def s(data): return struct.pack(">I", len(data)) + data
def read(sock):
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        more = sock.recv(65536)
        if not more: return None
        data += more
    return data[4:]
def connect():
    sock = socket.socket(socket.AF_UNIX); sock.connect("/run/cloister/ssh-agent"); return sock
def ask(sock, message):
    sock.sendall(s(message)); return read(sock)
def strings(data, n):
    out = []
    for _ in range(n):
        size, = struct.unpack(">I", data[:4]); out.append(data[4:4 + size]); data = data[4 + size:]
    return out
KEY = base64.b64decode(os.environ["KEY"].split()[1])
HOST_KEY = base64.b64decode(open("/etc/ssh/ssh_known_hosts").read().split()[2])
def login(session, user=b"git"):
    return (s(session) + b"\x32" + s(user) + s(b"ssh-connection") + s(b"publickey") + b"\x01" +
            s(b"ssh-ed25519") + s(KEY))
def sign(sock, data, flags=0, key=KEY):
    return ask(sock, b"\x0d" + s(key) + s(data) + struct.pack(">I", flags))
def bind(sock, host_key, session, signature, forwarding=0):
    return ask(sock, b"\x1b" + s(b"session-bind@openssh.com") + s(host_key) + s(session) + s(signature) +
               bytes([forwarding]))
def relay(path):
    heard = []
    listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen()
    def serve():
        client, _ = listener.accept(); agent = connect()
        while (message := read(client)) is not None:
            heard.append(message); client.sendall(s(ask(agent, message)))
    threading.Thread(target=serve, daemon=True).start()
    return heard
"""


def lie(world, script):
    """What SCRIPT prints, which speaks with the agent itself."""
    return world.online.python(RULES, CLIENT + script, options=("-s", "KEY")).ok().split()


def test_a_client_that_does_not_name_its_host(world):
    world.give()
    assert lie(world, "print(sign(connect(), login(os.urandom(32)))[0])") == ["5"]
    event = world.refusal()
    assert event["why"] == "unbound" and "8.9" in event["note"]


def test_a_session_that_no_host_has_signed(world):
    world.give()
    script = """
session, sock = os.urandom(32), connect()
print(bind(sock, HOST_KEY, session, s(b"ssh-ed25519") + s(os.urandom(64)))[0], sign(sock, login(session))[0])
"""
    assert lie(world, script) == ["6", "5"]
    assert world.refusal()["why"] == "forged"


def test_a_client_that_is_somebody_elses(world):
    world.give()
    script = """
session, sock = os.urandom(32), connect()
signature = s(b"ssh-ed25519") + s(os.urandom(64))
print(bind(sock, HOST_KEY, session, signature, 1)[0], ask(sock, b"\\x0b")[1:].hex(),
      bind(sock, HOST_KEY, os.urandom(32), signature)[0], sign(sock, login(session))[0])
"""
    assert lie(world, script) == ["6", "00000000", "5", "5"]
    event = world.refusal()
    assert event["why"] == "unbound" and "forwarded" in event["note"]


def test_a_login_that_names_another_host(world):
    world.give()
    script = """
session, sock = os.urandom(32), connect()
bind(sock, HOST_KEY, session, s(b"ssh-ed25519") + s(os.urandom(64)))
print(sign(sock, login(session).replace(s(b"publickey"), s(b"publickey-hostbound-v00@openssh.com")) + s(KEY))[0])
"""
    assert lie(world, script) == ["5"]
    event, = world.events()
    assert event["why"] == "malformed" and "another host" in event["note"]


def test_a_session_of_another_time(world):
    """A host's old signature is not valid later, nor for another session."""
    world.give()
    script = """
heard = relay("/tmp/relay")
subprocess.run([*sys.argv[1:]], env={**os.environ, "SSH_AUTH_SOCK": "/tmp/relay"}, check=True)
was = next(m for m in heard if m[:1] == b"\\x1b")
_, host_key, session, signature = strings(was[1:], 4)
sock = connect()
print(bind(sock, host_key, session, signature)[0], sign(sock, login(os.urandom(32)))[0])
# Until the connection is over.
while sign(sock, login(session))[0] != 5: time.sleep(0.05)
"""
    done = world.online.python(RULES, CLIENT + script, *SSH.split(), HOST, "echo in", options=("-s", "KEY"))
    assert done.ok().split() == ["in", "6", "5"]
    assert [e["why"] for e in world.events(verdict="deny")] == ["forged", "exfiltration"]
    assert "no connection" in world.events()[-1]["note"]


def bind_of_a_session_outside(world):
    """The message of a client on another machine to its agent, about a session with up.example.test."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(world.up.folder / f"agent-{os.urandom(4).hex()}"))
        listener.listen()
        listener.settimeout(SECONDS)
        client = subprocess.Popen([*world.online.lab.enter, *SSH.split(), "-o", "StrictHostKeyChecking=no", "-o",
                                   "UserKnownHostsFile=/dev/null", HOST], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL,
                                  env={"PATH": PATH, "SSH_AUTH_SOCK": listener.getsockname()})
        with listener.accept()[0] as agent, agent.makefile("rb") as heard:
            told = heard.read(int.from_bytes(heard.read(4), "big"))
        client.wait()
    assert told[0] == 27 and b"session-bind" in told
    return told[1:]


def test_a_session_of_another_machine(world):
    """Though it is with the same host, to which the cell has a connection too."""
    world.give()
    script = """
_, host_key, session, signature = strings(bytes.fromhex(sys.argv[1]), 4)
server, sock = socket.create_connection(("up.example.test", 22)), connect()
assert server.recv(4) == b"SSH-"
print(bind(sock, host_key, session, signature)[0], sign(sock, login(session))[0])
"""
    bind = bind_of_a_session_outside(world)
    done = world.online.python(RULES, CLIENT + script, bind.hex(), options=("-s", "KEY"))
    assert done.ok().split() == ["6", "5"]
    event = world.refusal()
    assert event["why"] == "exfiltration" and "no connection" in event["note"] and "host" not in event


# A server of one connection, that says what it is told to.
SAYS = r"""
import socket, sys
listener = socket.create_server((sys.argv[1], 2223))
print("ready", flush=True)
client, _ = listener.accept()
client.sendall(bytes.fromhex(sys.argv[2]))
while client.recv(4096): pass
"""


@pytest.mark.parametrize("before, signs", [("", True), ("0000000c0a15" + "00" * 10, False)])
def test_a_signature_that_comes_after_the_handshake(world, before, signs):
    """A logged-in client knows the key, so it can choose the encrypted bytes."""
    world.know(f"[up.example.test]:2223 {world.up.public()}\n")
    world.key = keygen(world.operator.base / "KEY")
    world.operator.cloister("secret", "add", "KEY", "--scheme", "ssh", "--host", "up.example.test:2223",
                            input=world.key.read_text()).ok()
    bind = bind_of_a_session_outside(world)
    script = """
_, host_key, session, signature = strings(bytes.fromhex(sys.argv[1]), 4)
server, sock, data = socket.create_connection(("up.example.test", 2223)), connect(), b""
while signature not in data: data += server.recv(4096)
print(bind(sock, host_key, session, signature)[0], sign(sock, login(session))[0])
"""
    reply = b"\x04\x1f" + bind
    says = b"Hello\r\nSSH-2.0-test\r\n" + bytes.fromhex(before) + len(reply).to_bytes(4, "big") + reply
    with subprocess.Popen([*world.online.lab.enter, "/usr/bin/python3", "-c", SAYS, UP, says.hex()],
                          stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"ready\n"
        done = world.online.python("  - allow: ['up.example.test:2223']\n    protocol: tcp\n", CLIENT + script,
                                   bind.hex(), options=("-s", "KEY"))
    # The first is the positive control: the session is another machine's, but nobody could know.
    assert done.ok().split() == ["6", "14" if signs else "5"]


@pytest.mark.parametrize("data", [
    'b"anything"', 'b""', 'login(os.urandom(32)) + b"x"', 'login(os.urandom(32)).replace(b"-conn", b"-cnon")',
    'b"SSHSIG" + s(b"git") + s(b"") + s(b"md5") + s(bytes(16))', 'login(os.urandom(8))',
])
def test_other_bytes_are_not_signed(world, data):
    world.give()
    assert lie(world, f"print(sign(connect(), {data})[0])") == ["5"]
    event, = world.events()
    assert event["verdict"] == "deny" and event["why"] == "malformed"


@over_stream_too
def test_other_requests_are_refused(world):
    """To add a key, to remove all, to lock, with too much, and in pieces."""
    world.give()
    script = """
sock = connect()
print(*(ask(sock, m)[0] for m in (b"\\x11" + bytes(40), b"\\x13", b"\\x16" + s(b"x"), b"\\x1b" + s(b"query"))))
for byte in s(b"\\x0b"): sock.sendall(bytes([byte]))
print(read(sock)[0])
sock.sendall(struct.pack(">I", 1 << 20))
print(read(sock))
"""
    assert lie(world, script) == ["5"] * 4 + ["12", "None"]


@over_stream_too
@only_user
def test_more_clients_than_are_served_at_once(world):
    """The others wait for their turn."""
    world.give()
    script = """
socks = [connect() for _ in range(50)]
for sock in socks:
    print(ask(sock, b"\\x0b")[0])
    sock.close()
"""
    assert lie(world, script) == ["12"] * 50


# ---- the key -----------------------------------------------------------------------------

def has(pid, needles):
    """Whether any of NEEDLES is in the memory of PID."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, mode = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if "r" not in mode or "[v" in line:
                continue
            try:
                memory.seek(start)
                data = memory.read(end - start)
            except OSError:
                continue
            if any(needle in data for needle in needles):
                return True
    return False


@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
def test_the_key_is_in_no_process_but_the_courier(world):
    key = world.give()
    told = subprocess.run(["ssh-keygen", "-p", "-q", "-N", "", "-m", "PKCS8", "-f", shutil.copy(key, f"{key}8")],
                          check=True, capture_output=True)
    assert told.returncode == 0
    pem = subprocess.run(["openssl", "pkey", "-in", f"{key}8", "-outform", "DER"], capture_output=True, check=False)
    raw = base64.b64decode("".join(key.read_text().splitlines()[1:-1]))
    seed = raw[raw.rindex(b"\0\0\0@") + 4:][:32]
    assert pem.returncode != 0 or seed in pem.stdout
    needles = [seed, key.read_bytes()[100:160], base64.b64encode(bytes.fromhex("302e020100300506032b657004220420") + seed)]
    world.online.start(RULES, "sh", "-c", f"{SSH} {HOST} 'echo in'; sleep 1000 | {SSH} {HOST} cat", options=("-s", "KEY"))
    wait_until(lambda: len(world.events(verdict="allow")) == 2, "it has logged in twice")
    helpers = helpers_of(world.operator, world.online.cell)
    holders = {pid for pid in world.operator.pids(world.online.cell) if has(pid, needles)}
    assert holders == {helpers["courier"]}
    state = world.operator.state
    assert not [f for f in state.rglob("*") if f.is_file() and any(n in f.read_bytes() for n in needles)]


def test_a_key_with_a_passphrase(world):
    for form in ((), ("-m", "PEM"), ("-m", "PKCS8")):
        key = keygen(world.operator.base / f"locked{len(form)}{''.join(form)}", "-t", "rsa", *form, passphrase="secret")
        world.add(key=key).sentence("passphrase", "without one")


def test_values_that_are_not_keys(world):
    key = keygen(world.operator.base / "key")
    world.add(key=key.with_suffix(".pub")).sentence("no private key", ".pub")
    text = key.read_text()
    key.write_text(text[:80] + ("A" if text[80] != "A" else "B") + text[81:])
    world.add(key=key).sentence("damaged")
    world.add("--with", "users=git", key=key).sentence("'users'", "user")


def test_a_host_of_which_no_key_is_known(world):
    world.know("")
    world.give()
    policy = world.online.policy(RULES)
    told = world.operator.run("-p", policy, "-s", "KEY", "--", "true").sentence("up.example.test", "ssh-keyscan")
    assert "known_hosts" in told


def test_a_cell_without_such_a_key_has_no_agent(world):
    done = world.online.sh(RULES, 'echo "$SSH_AUTH_SOCK."; ls -A /run; ls /etc/ssh')
    assert done.out == ".\n"


def test_events_in_words(world):
    world.give()
    world.sh(f"{SSH} {HOST} true; {SSH} -o StrictHostKeyChecking=no git@ws.example.test true")
    told = world.operator.cloister("events", world.online.cell).ok()
    assert "ssh KEY git@up.example.test" in told and "ssh KEY git@ws.example.test" in told, told
    assert json.loads(world.operator.cloister("events", "--json", world.online.cell).ok().splitlines()[0])
