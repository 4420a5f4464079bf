"""Secrets of the service for a worker's cell: sealed for one claim, and nowhere else.  Real canaries are looked for from
outside, and a worker that is not what it should be is played by this file."""
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import dispatches
import postgres_store
import tools_wasm
from egress_lab import CURL
from operators import Operator, as_one, wait_until
from service import Service
from test_secret_refresh import Source

hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
from cryptography.exceptions import InvalidTag  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey  # noqa: E402
from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: E402
from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: E402
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: E402

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
UP = "https://up.example.test"
DATA, OPEN, CLOSE = 1, 8, 9                             # frames
SECRETS, BOX, REFUSES = 1, 1, 2                         # a talk, and its messages
FOREVER = "while :; do sleep 1; done"


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def machines(online):
    operator, made = online.operator, []

    def machine():
        other = Operator(operator.who, operator.base / f"machine{len(made)}", operator.program)
        other.env["CLOISTER_STORE"] = operator.env["CLOISTER_STORE"]
        other.enter(online.lab)
        made.append(other)
        return other
    yield machine
    for other in made:
        other.close()


@pytest.fixture
def service(online):
    service = Service(online.operator, "--workers", "127.0.0.1:0")
    yield service
    if service.process.poll() is None:
        service.stop()


class Worker:
    def __init__(self, machine, *options, join=None):
        self.machine, self.said = machine, machine.base / "worker.log"
        if join is not None:
            options += ("--join", join.cloister("worker", "token").ok().strip())
        with self.said.open("wb") as said:
            self.process = machine.spawn(machine.program, "worker", "--pool", "p", *options, stderr=said)
        if join is not None:
            self.says("connected to the service")

    def says(self, what):
        wait_until(lambda: what in self.said.read_text(), f"the worker says {what!r}")

    def end(self):
        self.process.terminate()
        return self.process.wait(60) == 0


def canary():
    return "cAnary" + secrets.token_hex(17)


def give(operator, value, name="KEY"):
    operator.cloister("secret", "add", name, "--host", "up.example.test", "--in", "header:authorization",
                      input=value).ok()


def agent(operator, name, script, secret="KEY"):
    dispatches.policy(operator, "web", {"allow": "up.example.test"})
    dispatches.agent(operator, name, script, policy="web", secrets=[secret])


def asked(operator, name, *machines):
    """With its policy on MACHINES, as if they had S3 in common."""
    id = dispatches.detach(operator, "--target", "pool:p", name)
    for machine in machines:
        machine.cloister("agent", "list").ok()
        shutil.copytree(operator.base / "data/registry/blobs", machine.base / "data/registry/blobs", dirs_exist_ok=True)
        for path in [machine.base / "data/registry/blobs", *(machine.base / "data/registry/blobs").rglob("*")]:
            machine.own(path)
    return id


def fetch(path, name="KEY"):
    return " ".join([*CURL, f'-H "Authorization: Bearer ${name}"', f"{UP}/{path}"])


def finishes(operator, id):
    over = dispatches.await_over(operator, id)
    assert over["state"] == "finished" and over["exit_code"] == 0, (over["reason"], over["state"])


def row(operator, id, *columns):
    return postgres_store.shared().ask(operator.database, f"SELECT {', '.join(columns)} FROM cloister.dispatches "
                                       f"WHERE id = '{id}'")[0]


def set_row(operator, id, said):
    postgres_store.shared().ask(operator.database, f"UPDATE cloister.dispatches SET {said} WHERE id = '{id}'")


def home_of(machine):
    return (machine.base / "data/registry/home").read_text().strip()


# ---- where the value is -----------------------------------------------------------------------

def files_with(word, *folders):
    return [path for folder in folders for path in Path(folder).rglob("*")
            if path.is_file() and word.encode() in path.read_bytes()]


def processes_with(word):
    """Names of those with WORD in their memory or environment, of all of this machine's processes of cloister."""
    found = set()
    for proc in Path("/proc").iterdir():
        try:
            exe = os.readlink(proc / "exe") if proc.name.isdigit() else ""
            if "cloister" not in os.path.basename(exe):
                continue
            regions = [line.split() for line in (proc / "maps").read_text().splitlines()]
            with (proc / "mem").open("rb", 0) as memory:
                parts = [(proc / "environ").read_bytes(), (proc / "cmdline").read_bytes()]
                for region in regions:
                    start, end = (int(n, 16) for n in region[0].split("-"))
                    if "r" in region[1] and "[v" not in region[-1]:
                        memory.seek(start)
                        parts.append(memory.read(end - start))
        except OSError:
            continue
        if any(word.encode() in part for part in parts):
            found.add(os.path.basename(exe).removesuffix(" (deleted)"))
    return found


@pytest.mark.parametrize("who", [pytest.param("root", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can look"))])
def test_the_value_is_where_it_is_used_and_nowhere_else(online, machines, service):
    operator, machine, real, others = online.operator, machines(), canary(), canary()
    give(operator, real)
    give(operator, others, "OTHER")
    agent(operator, "uses", f"echo $KEY; {fetch('echo?first')}; {FOREVER}")
    id = asked(operator, "uses", machine)
    worker = Worker(machine, join=operator)
    wait_until(lambda: online.lab.seen(real), "the server has seen it")
    assert processes_with(real) == {"cloister-courier"} and not online.lab.seen(others) and not processes_with(others)
    fake = wait_until(lambda: [e["text"] for e in dispatches.events(operator, id) if e["event"] == "agent.output"],
                      "the agent printed its placeholder")[0].split("\n")[0]
    assert len(fake) == len(real) and fake != real and not online.lab.seen(fake)
    dump = postgres_store.shared().run("pg_dump", "-h", postgres_store.shared().folder, "-U", "cloister", operator.database)
    assert id in dump
    for word in (real, others):
        assert word not in dump and not files_with(word, machine.base, operator.base)
    # It is recorded who got it, and only that.
    told = [e for e in operator_events(operator) if e["type"] == "secret.lent"]
    assert [(e["secret"], e["dispatch"], e["worker"]) for e in told] == [("KEY", id, home_of(machine))]
    operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    dispatches.await_over(operator, id)
    assert worker.end()


def operator_events(operator):
    return [json.loads(line)["event"] for line in operator.cloister("audit", "show", "--operator").ok().splitlines()]


def test_a_worker_that_has_joined_has_none_of_its_own(online, machines, service):
    operator, machine, real, own = online.operator, machines(), canary(), canary()
    give(operator, real)
    give(machine, own)
    give(machine, own, "ONLYHERE")
    agent(operator, "uses", fetch("echo?joined"))
    agent(operator, "missing", fetch("echo?missing", "ONLYHERE"), "ONLYHERE")
    uses, missing = asked(operator, "uses", machine), asked(operator, "missing", machine)
    worker = Worker(machine, join=operator)
    finishes(operator, uses)
    assert online.lab.seen(real) and not online.lab.seen(own)
    over = dispatches.await_over(operator, missing)
    assert over["state"] == "failed" and "the service's vault" in over["reason"], over
    assert worker.end() and not online.lab.seen(own)


@as_one
def test_a_worker_without_a_service_has_its_own(online, machines):
    operator, machine, own = online.operator, machines(), canary()
    give(machine, own)
    agent(operator, "uses", fetch("echo?own"))
    id = asked(operator, "uses", machine)
    worker = Worker(machine)
    finishes(operator, id)
    assert online.lab.seen(own) and worker.end()


@as_one
def test_a_service_that_is_away_for_a_moment(online, machines, service):
    operator, machine, real = online.operator, machines(), canary()
    give(operator, real)
    agent(operator, "uses", fetch("echo?away"))
    assert Worker(machine, join=operator).end()
    port = next(word for word in service.log().split() if word.startswith("127.0.0.1:"))
    service.stop()
    id = asked(operator, "uses", machine)
    worker = Worker(machine)
    worker.says("cannot be reached")
    wait_until(lambda: row(operator, id, "state") == ["1"], "a worker begins it")
    again = Service(operator, "--workers", port)
    finishes(operator, id)
    assert online.lab.seen(real) and worker.end()
    again.stop()


@as_one
def test_a_value_that_expires(online, machines, service):
    """The cell's keeper asks the service again; the source is on the service's machine alone."""
    operator, machine, first, second = online.operator, machines(), canary(), canary()
    source = Source(online, f"{first} 3", f"{second} 1000")
    agent(operator, "uses", f"while :; do {fetch('echo?again')}; sleep 0.2; done")
    id = asked(operator, "uses", machine)
    worker = Worker(machine, join=operator)
    wait_until(lambda: online.lab.seen(first), "the first value is used")
    wait_until(lambda: online.lab.seen(second), "the second one is, in the same cell")
    assert source.calls() == 2 and dispatches.show(operator, id)["attempts"] == 1
    told = [e for e in operator_events(operator) if e["type"] == "secret.lent"]
    assert [e["dispatch"] for e in told] == [id, id]
    assert not files_with(first, machine.base) and not files_with(second, machine.base)
    operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    dispatches.await_over(operator, id)
    assert worker.end()


def far_cell(operator, id):
    """The cell of dispatch ID, as the operator's machine sees it."""
    def seen():
        cells = {c["cell"]: c["state"] for c in json.loads(operator.cloister("ps", "--json").ok())}
        return cells.get(cell := dispatches.show(operator, id)["cell"]) in ("running", "waiting") and cell
    return wait_until(seen, "its cell is there")


@pytest.mark.parametrize("who", [pytest.param("root", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can look"))])
def test_a_value_that_is_rotated(online, machines, service):
    """The new one is sealed like the first, and in no process between the two."""
    operator, machine, first, second, others = online.operator, machines(), canary(), canary(), canary()
    give(operator, first)
    give(operator, others, "OTHER")
    give(machine, others)
    agent(operator, "uses", f"while :; do {fetch('echo?rotated')}; sleep 0.2; done")
    id = asked(operator, "uses", machine)
    worker = Worker(machine, join=operator)
    wait_until(lambda: online.lab.seen(first), "the first value is used")
    cell = far_cell(operator, id)
    operator.cloister("secret", "rotate", "KEY", input=second).ok()
    operator.cloister("rotate", cell, "KEY").ok()
    wait_until(lambda: online.lab.seen(second), "the second one is, in the same cell")
    assert dispatches.show(operator, id)["cell"] == cell
    wait_until(lambda: processes_with(second) == {"cloister-courier"}, "only the courier has it")
    assert not files_with(second, machine.base, operator.base) and not online.lab.seen(others)
    acts = [json.loads(line)["event"] for line in machine.cloister("audit", "show", "--operator").ok().splitlines()]
    assert [(a["type"], a["by"]) for a in acts if a["type"] == "cell.rotate"] == [("cell.rotate", f"uid {operator.uid}")]
    # What the dispatch does not give it does not come this way.
    operator.cloister("rotate", cell, "OTHER").sentence("gives its cell no secret 'OTHER'")
    assert not online.lab.seen(others)
    operator.cloister("revoke", cell, "KEY").ok()
    operator.cloister("rotate", cell, "KEY").sentence("was revoked")
    operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    dispatches.await_over(operator, id)
    assert worker.end()


@as_one
@pytest.mark.parametrize("dies", ["worker", "service"])
def test_a_value_that_expires_after_a_restart(online, machines, service, dies):
    """Cells that a worker finds get new values, and so do those of a service that comes back."""
    operator, machine, first, second = online.operator, machines(), canary(), canary()
    Source(online, f"{first} 25", f"{second} 1000")
    agent(operator, "uses", f"while :; do {fetch('echo?again')}; sleep 0.2; done")
    id = asked(operator, "uses", machine)
    worker, again = Worker(machine, join=operator), service
    wait_until(lambda: online.lab.seen(first), "the first value is used")
    cell = dispatches.show(operator, id)["cell"]
    if dies == "worker":
        worker.process.kill()
        worker.process.wait()
        worker = Worker(machine)
    else:
        port = next(word for word in service.log().split() if word.startswith("127.0.0.1:"))
        service.stop(signal.SIGKILL)
        again = Service(operator, "--workers", port)
    wait_until(lambda: online.lab.seen(second), "the second one is, in the same cell")
    assert dispatches.show(operator, id)["cell"] == cell and not files_with(second, machine.base)
    operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    dispatches.await_over(operator, id)
    assert worker.end()
    if dies == "service":
        again.stop()


# An agent that has a module with a secret make one request.
CALLER = """
import json, urllib.request
def post(message, session=None):
    head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **({"Mcp-Session-Id": session} if session else {})}
    request = urllib.request.Request("http://tools.cloister.internal/mcp", json.dumps(dict(message, jsonrpc="2.0")).encode(), head)
    answer = urllib.request.urlopen(request, timeout=60)
    return answer.headers.get("Mcp-Session-Id"), answer.read().decode()
session, _ = post({"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
post({"method": "notifications/initialized"}, session)
print(post({"id": 1, "method": "tools/call", "params": {"name": "parts.http", "arguments": ARGUMENTS}}, session)[1])
"""


@pytest.mark.skipif(tools_wasm.missing() is not None, reason=tools_wasm.missing() or "")
@as_one
def test_secrets_of_mcp_servers(online, machines, service):
    """A server's own cell gets them as the agent's does: none of the worker's vault."""
    operator, machine, real, own, agents = online.operator, machines(), canary(), canary(), canary()
    give(operator, real)
    give(operator, agents, "AGENTS")
    for name in "KEY", "AGENTS":
        give(machine, own, name)
    folder = tools_wasm.put_module(operator, "cap-parts").parent
    (folder / "parts.wasm").rename(folder / "module.wasm")
    (folder / "parts.wasm.json").rename(folder / "module.wasm.json")
    operator.file("cap-parts/capability.yaml", "name: parts\ntype: wasm\nsecrets: [KEY]\nrules: [{allow: up.example.test}]\n")
    operator.cloister("capability", "register", folder).ok()
    script = CALLER.replace("ARGUMENTS", json.dumps({"method": "GET", "url": f"{UP}/echo?server", "host": "up.example.test"}))
    dispatches.policy(operator, "web", {"allow": "up.example.test"})
    dispatches.register(operator, "agent", "calls", command=["/usr/bin/python3", "-c", script], policy="web",
                        capabilities=["parts"], secrets=["AGENTS"])
    id = asked(operator, "calls", machine)
    worker = Worker(machine, join=operator)
    finishes(operator, id)
    assert online.lab.seen(real) and not online.lab.seen(own)
    told = [(e["secret"], e["dispatch"]) for e in operator_events(operator) if e["type"] == "secret.lent"]
    assert sorted(set(told)) == [("AGENTS", id), ("KEY", id)]
    assert worker.end() and not files_with(real, machine.base) and not files_with(own, operator.base)


# ---- a worker that is not what it should be ------------------------------------------------------

def text(word):
    return struct.pack("<I", len(word)) + word.encode() + b"\0"


# Between its standard input, a socket, and a host and port.
WAY = """
import os, select, socket, sys
near, far = socket.socket(fileno=0), socket.create_connection(sys.argv[1:])
while True:
    for one in select.select([near, far], [], [])[0]:
        data = one.recv(65536)
        if not data:
            sys.exit()
        (far if one is near else near).sendall(data)
"""


def names(*wanted):
    return struct.pack("<I", len(wanted)) + b"".join(text(name) for name in wanted)


class Played:
    """The stream of a worker, whose key and certificate this is."""

    def __init__(self, machine):
        folder, = (f for f in (machine.base / "data/worker").iterdir())
        self.machine, self.home, self.last = machine, home_of(machine), 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        host, _, port = (folder / "service").read_text().split()[0].rpartition(":")
        # The connection is made in the world of the machine.
        near, far = socket.socketpair()
        self.way = subprocess.Popen([*(machine.lab.enter if machine.lab else []), sys.executable, "-c", WAY, host, port], stdin=far)
        far.close()
        near.settimeout(60)
        self.tls = context.wrap_socket(near)
        self.take(struct.unpack("<I", self.take(4))[0])         # its welcome

    def take(self, n):
        data = b""
        while len(data) < n:
            more = self.tls.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def frame(self):
        stream, type, length = struct.unpack("<III", self.take(12))
        return stream, type, self.take(length)

    def send(self, stream, type, body=b""):
        self.tls.sendall(struct.pack("<III", stream, type, len(body)) + body)

    def ask(self, id, claim, key, wanted=("KEY",)):
        """The type and the body of the answer."""
        self.last += 1
        self.send(self.last, OPEN, struct.pack("<I", SECRETS) + text(id) + struct.pack("<Q", claim) + key + names(*wanted))
        data = b""
        while True:
            stream, type, body = self.frame()
            if stream == self.last and type == CLOSE:
                length, kind = struct.unpack("<II", data[:8])
                assert len(data) == 4 + length
                return kind, data[8:]
            if stream == self.last and type == DATA:
                data += body

    def close(self):
        # A thread may be reading.
        with contextlib.suppress(OSError):
            self.tls.shutdown(socket.SHUT_RDWR)
        self.tls.close()
        self.way.wait()


def open_box(private, box, id, claim, service, worker):
    one_off, to = box[:32], private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    kind = "cloister lends secrets, 1"
    key = HKDF(hashes.SHA256(), 32, one_off + to, kind.encode()).derive(
        private.exchange(X25519PublicKey.from_public_bytes(one_off)))
    known = text(kind) + text(id) + struct.pack("<Q", claim) + text(service) + text(worker)
    return AESGCM(key).decrypt(box[32:44], box[44:], known)


@pytest.fixture
def held(online, machines, service):
    """Two workers that have joined, and one's claim of a dispatch with a secret."""
    operator, real = online.operator, canary()
    give(operator, real)
    give(operator, canary(), "OTHER")
    agent(operator, "uses", "true")
    both = [machines(), machines()]
    for machine in both:
        assert Worker(machine, join=operator).end()
    id = asked(operator, "uses")
    set_row(operator, id, f"home = '{home_of(both[0])}', claims = 3, lease_ms = {2 ** 60}, ended_ms = {2 ** 60}")
    yield operator, real, id, both
    set_row(operator, id, "home = '', lease_ms = 0")
    operator.cloister("dispatches", "cancel", id).ok()


@as_one
def test_a_box_is_for_one_claim(held):
    operator, real, id, (machine, _) = held
    private, worker = X25519PrivateKey.generate(), Played(machine)
    key = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    kind, box = worker.ask(id, 3, key)
    assert kind == BOX and real.encode() not in box
    whole = (id, 3, home_of(operator), home_of(machine))
    opened = open_box(private, box, *whole)
    # That secret, and no other of the vault.
    assert real.encode() in opened and b"KEY" in opened and b"OTHER" not in opened
    for at, other in ((0, "0" * len(id)), (1, 4), (2, home_of(machine)), (3, home_of(operator))):
        with pytest.raises(InvalidTag):
            open_box(private, box, *whole[:at], other, *whole[at + 1:])
    with pytest.raises(InvalidTag):
        open_box(X25519PrivateKey.generate(), box, *whole)
    # Another box each time.
    assert worker.ask(id, 3, key)[1][:32] != box[:32]
    worker.close()


@as_one
def test_whoever_has_no_claim_gets_nothing(held):
    operator, _, id, (machine, stranger) = held
    key = X25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    worker, other = Played(machine), Played(stranger)

    def refused(who, id, claim, key=key, why="to the worker that has the dispatch"):
        kind, body = who.ask(id, claim, key)
        assert kind == REFUSES and why.encode() in body, (kind, body)
    refused(other, id, 3)
    refused(worker, id, 2)
    refused(worker, id, 4)
    refused(worker, "nosuchdispatch00", 3)
    refused(worker, id, 3, bytes(32), "of no use")
    for said in ("state = 3", "state = 0, cancel = 1", "cancel = 0, origin = 'x'",
                 f"origin = '{home_of(operator)}', target = 'local'"):
        set_row(operator, id, said)
        refused(worker, id, 3)
    set_row(operator, id, "target = 'pool:p'")
    assert worker.ask(id, 3, key)[0] == BOX
    # Both are still heard.
    refused(other, id, 3)
    # A claim that is over, and is not renewed.
    set_row(operator, id, "lease_ms = 1")
    refused(worker, id, 3)
    worker.close()
    other.close()


@as_one
def test_whoever_writes_to_the_database_gets_no_other_secret(held):
    operator, real, id, (machine, _) = held
    private, worker = X25519PrivateKey.generate(), Played(machine)
    key = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    columns = ("state, agent, agent_hash, principal, parent, chain, depth, target, policy_hash, build_hash, request_hash, "
               "resolved, retries, timeout_ms, created_ms, origin, home, claims, lease_ms, ended_ms")
    forged = "2" * len(id)
    postgres_store.shared().ask(operator.database, f"INSERT INTO cloister.dispatches (id, {columns}) SELECT '{forged}', "
                                f"{columns} FROM cloister.dispatches WHERE id = '{id}'")
    # Its events are looked at, too, which makes a folder.
    operator.cloister("dispatches", "events", forged)
    kind, why = worker.ask(forged, 3, key)
    assert kind == REFUSES and b"was not asked for on this machine" in why, (kind, why)
    set_row(operator, forged, "state = 5")
    set_row(operator, id, "resolved = replace(resolved, '\"KEY\"', '\"KEY\",\"OTHER\"')")
    assert row(operator, id, "resolved")[0].count("OTHER") > 0
    kind, box = worker.ask(id, 3, key)
    opened = open_box(private, box, id, 3, home_of(operator), home_of(machine))
    assert kind == BOX and real.encode() in opened and b"OTHER" not in opened
    worker.close()


@as_one
def test_whoever_writes_to_the_database_starts_nothing_on_the_services_machine(online, service):
    operator = online.operator
    trace = operator.base / "trace"
    dispatches.agent(operator, "real", "true")
    id = dispatches.detach(operator, "real")
    finishes(operator, id)
    columns = ("agent, agent_hash, principal, parent, chain, depth, target, policy_hash, build_hash, request_hash, retries, "
               "timeout_ms, created_ms, origin, home")
    forged = "3" * len(id)
    postgres_store.shared().ask(operator.database, f"INSERT INTO cloister.dispatches (id, state, resolved, {columns}) SELECT "
                                f"'{forged}', 0, replace(resolved, '\"true\"', '\"touch {trace}\"'), {columns} FROM "
                                f"cloister.dispatches WHERE id = '{id}'")
    service.stop()
    again = Service(operator, "--workers", "127.0.0.1:0")
    over = dispatches.await_over(operator, forged)
    assert over["state"] == "failed" and "was not asked for on this machine" in over["reason"], over
    again.stop()


@as_one
def test_questions_in_vain_hold_up_nobody(held):
    operator, _, id, (machine, _) = held
    key = X25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    worker = Played(machine)
    # As many as are sealed at a time, and behind them what is refused at once.
    for stream, claim in enumerate([3] * 4 + [7] * 40 + [3], 1):
        body = struct.pack("<I", SECRETS) + text(id) + struct.pack("<Q", claim) + key + names("KEY")
        worker.send(stream, OPEN, body)
    waits = set(range(1, 46))
    while waits:
        stream, type, _ = worker.frame()
        waits -= {stream} if type == CLOSE else set()
    worker.close()


@as_one
def test_frames_that_no_worker_sends(held, service):
    operator, _, id, (machine, stranger) = held
    key = X25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    question = struct.pack("<I", SECRETS) + text(id) + struct.pack("<Q", 3) + key
    good = question + names("KEY")

    def cells(stream):
        return struct.pack("<IIII", stream, OPEN, 4, 2)
    def asks(said):
        return struct.pack("<III", 1, OPEN, len(said)) + said
    wrong = (asks(question), asks(question + names()), asks(question + struct.pack("<I", 2 ** 32 - 1)),
             asks(question + names(*["KEY"] * 65)), asks(question + names("not a name")),
             struct.pack("<III", 1, OPEN, len(good) - 1) + good[:-1], struct.pack("<III", 1, OPEN, len(good) + 1) + good + b"x",
             struct.pack("<III", 1, OPEN, 2 ** 31), struct.pack("<III", 1, OPEN, 4) + struct.pack("<I", 77),
             struct.pack("<III", 2 ** 31 + 1, OPEN, len(good)) + good, struct.pack("<III", 1, DATA, 2 ** 20),
             struct.pack("<III", 1, OPEN, 8) + struct.pack("<II", SECRETS, 2 ** 32 - 1),
             b"".join(struct.pack("<III", n, OPEN, len(good)) + good for n in range(1, 2000)),
             # What would be kept in memory until it is whole.
             cells(1) + cells(2), cells(1) + struct.pack("<IIII", 1, DATA, 4, 2 ** 20),
             struct.pack("<III", 1, OPEN, len(good)) + good + struct.pack("<IIII", 1, DATA, 4, 2 ** 20))
    for said in wrong:
        worker = Played(machine)
        worker.tls.sendall(said)
        with pytest.raises((EOFError, OSError)) as ended:
            while True:
                worker.frame()
        assert not isinstance(ended.value, TimeoutError), said[:100]
        worker.close()
        # Nobody else is disturbed.
        assert service.get("/healthz").status == 200
    other = Played(stranger)
    assert other.ask(id, 3, key)[0] == REFUSES
    other.close()


@as_one
def test_the_name_of_anothers_folder(held, machines):
    """A worker's claims are known by its data folder's name."""
    operator, _, _, (machine, _) = held
    for victim, said in ((machine, "has joined already"), (operator, "of its own")):
        thief = machines()
        thief.cloister("agent", "list").ok()
        (thief.base / "data/registry/home").write_text(home_of(victim) + "\n")
        done = thief.cloister("worker", "--pool", "p", "--join", operator.cloister("worker", "token").ok().strip())
        assert done.status == 125 and said in done.err, done
