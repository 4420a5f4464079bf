"""The stream between a service and its workers: who may join, who is let in, and what happens when it breaks."""
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

import dispatches
import postgres_store
from operators import as_one, descendants_of, wait_until
from service import Service

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def service(operator):
    service = Service(operator, "--workers", "127.0.0.1:0")
    yield service
    if service.process.poll() is None:
        service.stop()


class Worker:
    def __init__(self, machine, *options):
        self.said = machine.base / "worker.log"
        self.begins = self.said.stat().st_size if self.said.exists() else 0
        with self.said.open("ab") as said:
            self.process = machine.spawn(machine.program, "worker", "--pool", "p", *options, stderr=said)
        self.machine = machine

    def log(self):
        return self.said.read_text()[self.begins:]

    def says(self, what):
        wait_until(lambda: what in self.log(), f"the worker says {what!r}")

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(60)


def port_of(service):
    return int(re.search(r"workers find this service at 127\.0\.0\.1:(\d+)", service.log())[1])


def token(operator, *options):
    return operator.cloister("worker", "token", *options).ok().strip()


def workers(operator):
    """Without what changes with their connections."""
    changing = ("connected", "connected_since", "last_connected")
    return [{key: value for key, value in one.items() if key not in changing} for one in presence(operator)]


def presence(operator):
    return json.loads(operator.cloister("worker", "list", "--json").ok())


def joined(operator, machine, *options):
    worker = Worker(machine, "--join", token(operator), *options)
    worker.says("connected to the service")
    return worker


def test_it_joins_and_comes_back_without_a_token(operator, machines, service):
    machine = machines()
    worker = joined(operator, machine)
    (known,) = workers(operator)
    assert known["pool"] is None and re.fullmatch("[0-9a-f]{16}", known["id"])
    wait_until(lambda: f"worker {known['id']} ({known['name']}) is connected" in service.log(), "the service knows it")
    assert worker.end() == 0
    wait_until(lambda: f"worker {known['id']} ({known['name']}) is gone" in service.log(), "the service has seen it go")
    worker = Worker(machine)
    worker.says("connected to the service")
    assert workers(operator) == [known] and worker.end() == 0
    # Nobody else can read its key.
    (folder,) = [f for f in (machine.base / "data" / "worker").iterdir()]
    assert all(f.stat().st_mode & 0o077 == 0 for f in (folder, *folder.iterdir()))


def test_who_is_connected(operator, machines, service):
    worker = joined(operator, machines())
    wait_until(lambda: presence(operator)[0]["connected"], "it is shown as connected")
    (known,) = presence(operator)
    assert known["connected_since"] >= known["joined"] and known["last_connected"]
    assert f"since {known['connected_since']}" in operator.cloister("worker", "list").ok()
    assert worker.end() == 0
    wait_until(lambda: not presence(operator)[0]["connected"], "it is shown as gone")
    (gone,) = presence(operator)
    assert gone["connected_since"] is None and gone["last_connected"] >= known["connected_since"]
    assert f"last {gone['last_connected']}" in operator.cloister("worker", "list").ok()
    worker = Worker(worker.machine)
    wait_until(lambda: presence(operator)[0]["connected"], "it is back")
    # Nobody is connected to a service that was killed.
    (link,) = [p for p in descendants_of(service.process.pid) if Path(f"/proc/{p}/comm").read_text() == "cloister-link\n"]
    os.kill(link, signal.SIGSTOP)               # it cannot note the end
    service.stop(signal.SIGKILL)
    assert not presence(operator)[0]["connected"] and presence(operator)[0]["last_connected"]
    os.kill(link, signal.SIGCONT)
    assert worker.end() == 0


def test_one_that_was_removed_while_it_was_away_takes_nothing(operator, machines, service):
    """It hears so before its first claim."""
    dispatches.agent(operator, "waits", "true")
    worker = joined(operator, machines())
    assert worker.end() == 0
    (known,) = workers(operator)
    operator.cloister("worker", "remove", known["id"]).ok()
    id = dispatches.detach(operator, "--target", "pool:p", "waits")
    again = Worker(worker.machine)
    again.says("has removed this worker")
    assert again.process.wait(60) == 0
    told = operator.database and postgres_store.shared().ask(operator.database, f"SELECT state, claims FROM cloister.dispatches WHERE id = '{id}'")
    assert told == [["0", "0"]]
    # Another one takes it, also while the service is away.
    other = joined(operator, machines())
    assert dispatches.await_over(operator, id)["state"] == "finished"
    assert other.end() == 0
    service.stop()
    id = dispatches.detach(operator, "--target", "pool:p", "waits")
    other = Worker(other.machine)
    other.says("cannot be reached")
    assert dispatches.await_over(operator, id)["state"] == "finished" and other.end() == 0


def test_a_token_is_good_once(operator, machines, service):
    said = token(operator)
    worker = Worker(machines(), "--join", said)
    worker.says("connected to the service")
    other = Worker(machines(), "--join", said)
    assert other.process.wait(60) == 125 and "token was used" in other.log()
    assert len(workers(operator)) == 1 and worker.end() == 0
    # The one that has used it starts again with the same words.
    again = Worker(worker.machine, "--join", said)
    again.says("connected to the service")
    assert again.end() == 0


def test_only_the_hash_of_a_token_is_kept(operator, service):
    secret = token(operator).split("_")[1]
    kept = [f.read_text() + f.name for f in (operator.base / "data" / "serve" / "workers").rglob("*") if f.is_file()]
    assert kept and not any(secret in text for text in kept)


@as_one
def test_a_token_for_one_pool_and_one_that_is_too_old(operator, machines, service):
    of_q = token(operator, "--pool", "q")
    worker = Worker(machines(), "--join", of_q)
    assert worker.process.wait(60) == 125 and "pool 'q'" in worker.log()
    # That did not use it up.
    right = Worker(machines(), "--pool", "q", "--join", of_q)
    right.says("connected to the service")
    assert right.end() == 0
    operator.cloister("worker", "remove", workers(operator)[0]["id"]).ok()
    said = token(operator)
    for kept in (operator.base / "data" / "serve" / "workers" / "tokens").iterdir():
        kept.write_text("1 -\n")                # as if its time were over
    worker = Worker(machines(), "--join", said)
    assert worker.process.wait(60) == 125 and "too old" in worker.log()
    assert workers(operator) == []
    worker = Worker(machines(), "--join", token(operator, "--pool", "p"))
    worker.says("connected to the service")
    assert workers(operator)[0]["pool"] == "p" and worker.end() == 0


def test_a_removed_worker_is_cut_off_and_may_not_come_back(operator, machines, service):
    worker = joined(operator, machines())
    (known,) = workers(operator)
    operator.cloister("worker", "remove", known["id"]).ok()
    worker.says("has removed this worker")
    wait_until(lambda: f"({known['name']}) is gone" in service.log(), "its stream is over")
    # It takes nothing more, and ends by itself.
    assert workers(operator) == [] and worker.process.wait(60) == 0
    operator.cloister("worker", "remove", known["id"]).sentence(known["id"], "worker list")
    worker = joined(operator, worker.machine)
    assert len(workers(operator)) == 1 and worker.end() == 0


@as_one
def test_another_service_than_the_tokens(operator, machines, service, tmp_path):
    """The worker finds the authority's fingerprint, and tells nobody else its secret."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=service.cloister.internal", "-addext", "subjectAltName=DNS:service.cloister.internal", "-keyout",
                    tmp_path / "key", "-out", tmp_path / "cert"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    heard, listener = [], socket.create_server(("127.0.0.1", 0))

    def listen():
        near, _ = listener.accept()
        try:
            with context.wrap_socket(near, server_side=True) as tls:
                heard.append(tls.recv(4096))
        except OSError as e:
            heard.append(e)
    thread = threading.Thread(target=listen)
    thread.start()
    said = token(operator).rsplit(":", 1)[0] + f":{listener.getsockname()[1]}"
    worker = Worker(machines(), "--join", said)
    assert worker.process.wait(60) == 125 and "certificate is not good" in worker.log()
    thread.join(60)
    listener.close()
    assert isinstance(heard[0], OSError) or heard == [b""]


@as_one
def test_what_is_not_tls_1_3_or_no_worker_of_it(operator, service, tmp_path):
    port = port_of(service)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError), socket.create_connection(("127.0.0.1", port)) as raw:
        context.wrap_socket(raw)
    # A certificate of somebody else's.
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=0123456789abcdef", "-keyout",
                    tmp_path / "key", "-out", tmp_path / "cert"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port)) as raw:
        tls = context.wrap_socket(raw)
        assert tls.recv(4096) != b""
        raise AssertionError("it was let in")
    # No certificate, and no token either.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for said in (b"\xff" * 64, b"\x04\0\0\0\x03\0\0\0", b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port)) as raw, context.wrap_socket(raw) as tls:
            tls.sendall(said)
            assert tls.recv(4096) == b""
    assert service.get("/healthz").status == 200


def test_those_who_say_nothing_keep_nobody_out(operator, service):
    address = ("127.0.0.1", port_of(service))
    silent = [socket.create_connection(address, 60) for _ in range(64)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection(address, 60)) as last:
        assert last.version() == "TLSv1.3"
        # The first made room; the others are still waited for.
        assert silent[0].recv(1) == b""
        silent[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[1].recv(1)
    for one in silent:
        one.close()


def test_it_comes_back_after_a_service_that_was_killed(operator, machines, service):
    worker = joined(operator, machines())
    port = port_of(service)
    service.stop(signal.SIGKILL)
    worker.says("cannot be reached")
    again = Service(operator, "--workers", f"127.0.0.1:{port}")
    wait_until(lambda: worker.log().count("connected to the service") == 2, "it is connected again")
    assert worker.end() == 0
    again.stop()


def test_helpers_that_are_killed_are_started_again(operator, machines, service):
    worker = joined(operator, machines())

    def link_of(process):
        (pid,) = [p for p in descendants_of(process.pid)
                  if Path(f"/proc/{p}/comm").read_text() == "cloister-link\n"]
        return pid
    os.kill(link_of(worker.process), signal.SIGKILL)
    wait_until(lambda: worker.log().count("connected to the service") == 2, "its stream is back")
    os.kill(link_of(service.process), signal.SIGKILL)
    wait_until(lambda: worker.log().count("connected to the service") == 3, "its stream is back")
    assert worker.end() == 0


@as_one
def test_a_helper_can_do_little(operator, machines, service):
    worker = joined(operator, machines())
    for process in (worker.process, service.process):
        (pid,) = [p for p in descendants_of(process.pid)
                  if Path(f"/proc/{p}/comm").read_text() == "cloister-link\n"]
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1"
        assert int(status["CapEff"], 16) == 0
    assert worker.end() == 0


@as_one
def test_what_cannot_be(operator, machines, service):
    operator.cloister("worker", "token", "--ttl", "31d").sentence("--ttl", "30d")
    operator.cloister("worker", "token", "--pool", "a/b").sentence("a/b")
    operator.cloister("worker", "token", "--address", "nowhere").sentence("nowhere", "HOST:PORT")
    for everywhere in ("0.0.0.0:7000", "[::]:7000", "[::0]:7000", "[0:0:0:0:0:0:0:0]:7000", "[::ffff:0.0.0.0]:7000", "0:7000"):
        operator.cloister("worker", "token", "--address", everywhere).sentence(everywhere, "nobody can dial")
    operator.cloister("worker", "token", "more").sentence("more")
    operator.cloister("worker", "remove", "x").sentence("x")
    assert token(operator, "--address", "service.example.com:7000").endswith("_service.example.com:7000")
    machine = machines()
    machine.cloister("worker", "token").sentence("--workers")
    machine.cloister("serve", "--workers", "example.com:1").sentence("--workers", "example.com:1")
    machine.cloister("serve", "--workers", "1").sentence("ADDRESS:PORT")
    del machine.env["CLOISTER_STORE"]
    machine.cloister("serve", "--workers", "127.0.0.1:0").sentence("--workers", "--store")


@as_one
def test_an_agents_own_target_still_runs(operator, machines, service):
    dispatches.agent(operator, "worker", "echo $CLOISTER_DISPATCH")
    worker = joined(operator, machines())
    id = dispatches.detach(operator, "--target", "pool:p", "worker")
    assert dispatches.await_over(operator, id)["state"] == "finished" and worker.end() == 0


@as_one
@pytest.mark.parametrize("everywhere", ["0.0.0.0", "[::]", "[::0]"])
def test_a_service_at_all_addresses(operator, everywhere):
    """It prints no address that nobody can dial, and no token has one."""
    service = Service(operator, "--workers", f"{everywhere}:0")
    port, = re.findall(r"workers find this service at port (\d+) of each address", service.log())
    assert "0.0.0.0" not in service.log() and "[::" not in service.log() and f"--address HOST:{port}" in service.log()
    operator.cloister("worker", "token").sentence(f"--address HOST:{port}")
    assert token(operator, "--address", f"127.0.0.1:{port}").endswith(f"_127.0.0.1:{port}")
    service.stop()
