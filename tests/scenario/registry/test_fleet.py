"""Registered targets: `cloister serve` has an engine start workers while dispatches wait, and they leave by themselves."""
import json
import os
import re
import ssl
import subprocess
import tempfile
from pathlib import Path

import pytest

import dispatches
import postgres_store
from fake_engine import FakeEngine
from operators import TREE, as_one, wait_until
from service import Service

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def engine(machines):
    # A socket's path is short.
    with tempfile.TemporaryDirectory(prefix="cloister-engine-") as folder:
        os.chmod(folder, 0o711)
        engine = FakeEngine(Path(folder) / "e.sock", machines)
        yield engine
        engine.end()


@pytest.fixture
def serve(operator):
    """Starts services that end with the test."""
    started = []

    def serve(*options, of=operator):
        started.append(Service(of, *options))
        return started[-1]
    yield serve
    for service in started:
        if service.process.poll() is None:
            service.stop()


def target(operator, engine, name="far", **members):
    """A target at ENGINE; the store's address is a secret of the engine."""
    secret = operator.own(operator.file("secret", operator.env["CLOISTER_STORE"] + "\n"))
    return dispatches.register(operator, "target", name, **{
        "engine": "docker", "image": "worker:1", "idle": "1s", "secrets": {"CLOISTER_STORE": str(secret)},
        "docker": {"host": f"unix://{engine.path}"}, **members})


def status(operator, name="far"):
    return json.loads(operator.cloister("target", "show", "--json", name).ok())["status"]


def asked(operator, *words, name="worker", to="far"):
    return dispatches.detach(operator, "--target", to, *words, name)


def test_from_zero_to_a_result_and_back(operator, engine, serve):
    dispatches.agent(operator, "worker", "echo done")
    target(operator, engine)
    serve()
    id = asked(operator)
    over = dispatches.await_over(operator, id)
    assert (over["state"], over["target"]) == ("finished", "pool:far")
    assert engine.most == 1
    wait_until(lambda: not engine.containers, "the worker leaves, and its container is removed")
    wait_until(lambda: status(operator) == {"workers": 0, "wanted": 0, "reserved": 0, "free": 0, "error": None, "since": None}, "it is known to be gone")


def test_an_agents_own_target(operator, engine, serve):
    dispatches.agent(operator, "worker", "true", target="far")
    dispatches.agent(operator, "other", "true", target="nowhere")
    target(operator, engine)
    serve()
    assert dispatches.await_over(operator, dispatches.detach(operator, "worker"))["target"] == "pool:far"
    dispatches.dispatch(operator, "--detach", "other").sentence("the agent 'other'", "no target 'nowhere'", "target list")


def test_up_to_the_bound(operator, engine, serve):
    """Twenty dispatches, two at a time each, and at most three workers."""
    dispatches.agent(operator, "worker", "true")
    target(operator, engine, workers={"max": 3}, slots=2)
    ids = [asked(operator) for _ in range(20)]
    serve()
    for id in ids:
        assert dispatches.await_over(operator, id)["state"] == "finished"
    assert engine.most == 3
    wait_until(lambda: not engine.containers, "all leave")


def test_what_workers_get(operator, engine, serve):
    """Nothing secret is in a container's words, labels or variables."""
    dispatches.agent(operator, "worker", "true")
    target(operator, engine, env={"LANG": "C"}, cpus=2, memory="1G", pool="p", slots=3, idle="1h")
    serve()
    dispatches.await_over(operator, asked(operator))
    body = next(iter(engine.containers.values())).body
    assert body["Cmd"] == ["--pool", "p", "--idle", "1h", "--slots", "3"]
    assert sorted(body["Env"]) == ["CLOISTER_STORE_FILE=/run/secrets/CLOISTER_STORE", "LANG=C"]
    assert {name: value for name, value in body["Labels"].items() if name != "io.cloister.fleet"} == {"io.cloister.target": "far"}
    host = body["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["CapDrop"]) == (2_000_000_000, 2 ** 30, ["ALL"])
    assert operator.env["CLOISTER_STORE"] not in json.dumps(body)


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_service_that_starts_anew_finds_its_workers(operator, engine, serve, way):
    dispatches.agent(operator, "worker", "while [ ! -e /tmp/never ]; do sleep 0.1; done")
    target(operator, engine)
    service = serve()
    id = asked(operator)
    dispatches.await_state(operator, id, "running")
    if way == "stop":
        service.stop()
    else:
        service.process.kill()
        service.process.wait()
    before = len(engine.asked)
    serve()
    wait_until(lambda: ("GET", "/containers/json") in engine.asked[before:], "it counts")
    wait_until(lambda: status(operator)["workers"] == 1, "it finds the worker")
    assert engine.made == 1
    operator.cloister("dispatches", "cancel", id).ok()
    wait_until(lambda: not engine.containers, "it leaves")


def test_one_of_two_services_scales(operator, engine, serve, machines):
    """The other one does not even ask the engine."""
    dispatches.agent(operator, "worker", "while :; do sleep 1; done")
    target(operator, engine, once=True, workers={"max": 20})
    ids = [asked(operator) for _ in range(4)]
    serve()
    serve(of=machines())
    for id in ids:
        dispatches.await_state(operator, id, "running")
    counts = engine.asked.count(("GET", "/containers/json"))
    wait_until(lambda: engine.asked.count(("GET", "/containers/json")) >= counts + 4, "both have looked")
    # Each cloister-fleet asks for it once.
    assert engine.asked.count(("GET", "/version")) == 1 and engine.made == 4
    for id in ids:
        operator.cloister("dispatches", "cancel", id).ok()


def test_another_service_takes_over(operator, engine, serve, machines):
    """One that stops lets others go on at once."""
    other = machines()
    dispatches.agent(operator, "worker", "true")
    target(operator, engine)
    first = serve()
    wait_until(lambda: status(operator) is not None, "the first has it")
    serve(of=other)
    first.stop()
    assert dispatches.await_over(operator, asked(operator))["state"] == "finished"


def test_an_engine_that_fails(operator, engine, serve):
    """Shown once, and tried again."""
    dispatches.agent(operator, "worker", "true")
    target(operator, engine)
    engine.instead = lambda method, path: (500, {"message": "no\nroom\x1b[31m"}) if path == "/containers/create" else None
    service = serve()
    id = asked(operator)
    sentence = wait_until(lambda: (status(operator) or {}).get("error"), "the error is known")
    assert sentence.endswith("answers POST /containers/create with 500: no room [31m")
    wait_until(lambda: len([c for c in engine.asked if c[1] == "/containers/create"]) >= 3, "it tries again")
    assert service.log().count("target far: ") == 1
    assert 'cloister_target_failing{target="far"} 1' in service.get("/metrics").data.decode()
    assert operator.cloister("target", "show", "far").ok().splitlines()[-1].startswith("failing")
    assert service.get("/v1/targets/far").ok()["status"]["error"] == sentence
    engine.instead = None
    assert dispatches.await_over(operator, id)["state"] == "finished"


def test_an_engine_that_is_not_there(operator, engine, serve):
    dispatches.agent(operator, "worker", "true")
    target(operator, engine)
    engine.close()
    serve()
    id = asked(operator)
    assert "cannot reach" in wait_until(lambda: (status(operator) or {}).get("error"), "the error is known")
    # As after dockerd was started again: another socket with the name of the old.
    engine.open()
    assert dispatches.await_over(operator, id)["state"] == "finished"


def test_workers_that_cannot_start(operator, engine, serve):
    """Their last words are shown, and there are not more and more of them."""
    dispatches.agent(operator, "worker", "true")
    nowhere = operator.own(operator.file("nowhere", "postgres://me@/none?host=/nonexistent\n"))
    target(operator, engine, secrets={"CLOISTER_STORE": str(nowhere)})
    serve()
    asked(operator)
    assert "nonexistent" in wait_until(lambda: (status(operator) or {}).get("error"), "the error is known")
    assert engine.made <= 3


def test_a_worker_that_is_lost(operator, engine, serve):
    dispatches.agent(operator, "worker", "echo $$ >>/out/ran; [ -e /out/never ] || sleep 2")
    target(operator, engine)
    serve()
    id = asked(operator, "--retries", "1")
    dispatches.await_state(operator, id, "running")
    engine.kill(engine.running()[0])
    wait_until(lambda: engine.made == 2, "another one is started")


def test_workers_join_the_service(operator, engine, serve):
    dispatches.agent(operator, "worker", "true")
    service = serve("--workers", "127.0.0.1:0")
    port = wait_until(lambda: [line for line in service.log().splitlines() if "workers find this service at" in line],
                      "it listens")[0].rsplit(":", 1)[1].split()[0]
    target(operator, engine, service=f"127.0.0.1:{port}", once=True)
    ids = [asked(operator) for _ in range(2)]
    for id in ids:
        assert dispatches.await_over(operator, id)["state"] == "finished"
    joined = json.loads(operator.cloister("worker", "list", "--json").ok())
    assert len(joined) == 2 and {worker["pool"] for worker in joined} == {"far"}


def test_a_service_that_lets_no_worker_in(operator, engine, serve):
    dispatches.agent(operator, "worker", "true")
    target(operator, engine, service="127.0.0.1:7")
    serve()
    asked(operator)
    assert "--workers" in wait_until(lambda: (status(operator) or {}).get("error"), "the error is known")
    assert engine.made == 0


def test_a_minimum(operator, engine, serve):
    target(operator, engine, workers={"min": 2, "max": 3}, idle="1h")
    serve()
    wait_until(lambda: len(engine.running()) == 2, "they wait for work")
    wait_until(lambda: status(operator) == {"workers": 2, "wanted": 2, "reserved": 0, "free": 8, "error": None, "since": None}, "it is known")




# ---- TLS ---------------------------------------------------------------------------------------------

def certificates(folder, *names):
    """An authority in FOLDER, and for each of NAMES a key and a certificate of it."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    openssl("req", "-x509", *new, "-subj", "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem")
    for name in names:
        openssl("req", "-x509", *new, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-addext",
                "basicConstraints=critical,CA:FALSE", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-keyout", f"{name}-key.pem",
                "-out", f"{name}.pem")


@pytest.fixture
def tls(operator, engine, tmp_path):
    """Its port, and the folder that DOCKER_CERT_PATH names."""
    certificates(tmp_path, "server", "client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server-key.pem")
    context.load_verify_locations(tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    folder = operator.folder("certificates", {"ca.pem": (tmp_path / "ca.pem").read_text(), "cert.pem": (tmp_path / "client.pem").read_text(),
                                              "key.pem": (tmp_path / "client-key.pem").read_text()})
    for file in folder.iterdir():
        file.chmod(0o600)
    operator.env |= {"DOCKER_HOST": f"tcp://127.0.0.1:{engine.open_tls(context)}", "DOCKER_CERT_PATH": str(folder)}
    return folder


def test_an_engine_over_tls(operator, engine, serve, tls):
    dispatches.agent(operator, "worker", "true")
    target(operator, engine, docker={})
    serve()
    assert dispatches.await_over(operator, asked(operator))["state"] == "finished"


@pytest.mark.parametrize("what", ["another authority", "another client", "nothing"])
def test_an_engine_and_wrong_certificates(operator, engine, tls, tmp_path, what):
    other = tmp_path / "other"
    other.mkdir()
    certificates(other, "client")
    if what == "another authority":
        (tls / "ca.pem").write_text((other / "ca.pem").read_text())
    elif what == "another client":
        (tls / "cert.pem").write_text((other / "client.pem").read_text())
        (tls / "key.pem").write_text((other / "client-key.pem").read_text())
    else:
        del operator.env["DOCKER_CERT_PATH"]
    target(operator, engine, docker={})
    can_run, found = doctor(operator)
    assert not can_run and not engine.asked
    assert ("is not trusted" in next(iter(found))) == (what == "another authority"), found


def test_an_engine_of_another_machine_without_tls(operator, engine):
    target(operator, engine, docker={"host": "tcp://192.0.2.1:2375"})
    can_run, found = doctor(operator)
    assert not can_run and "use TLS" in next(iter(found))


@as_one
@pytest.mark.parametrize("engine_of", ["docker", "swarm"])
@pytest.mark.parametrize("host", ["http://192.0.2.1:2375", "https://192.0.2.1:2376", "http://localhost:2375", "192.0.2.1:2375",
                                  "unix://relative", "tcp://me@192.0.2.1:2376", "tcp://192.0.2.1:2376/path", "tcp://", "fd://3"])
def test_an_engines_host_is_a_socket_or_tcp(operator, engine_of, host):
    file = operator.file("far.json", json.dumps({"name": "far", "engine": engine_of, "image": "worker:1", engine_of: {"host": host}}))
    operator.cloister("target", "register", file).sentence("far.json", "`host` is unix:///PATH, or tcp://HOST:PORT")


# ---- cloister doctor --target ----------------------------------------------------------------------

def doctor(operator, name="far"):
    done = operator.cloister("doctor", "--target", name, "--json")
    told = json.loads(done.out)
    assert done.status == (0 if told["can_run"] else 1), done
    return told["can_run"], {check["found"]: check["state"] for check in told["checks"]}


def test_doctor_tries_a_worker(operator, engine):
    target(operator, engine, docker={"host": f"unix://{engine.path}", "seccomp": "unconfined"})
    can_run, found = doctor(operator)
    assert can_run and found["a worker there runs cells, and reaches the registry"] == "ok"
    assert engine.made == 1 and not engine.containers
    said = operator.cloister("doctor", "--target", "far").ok()
    assert said.startswith("ok       the engine at ") and said.endswith("\nWorkers can run there.\n")


def test_doctor_says_what_is_missing(operator, engine):
    nowhere = operator.own(operator.file("nowhere", "postgres://me@/none?host=/nonexistent\n"))
    target(operator, engine, secrets={"CLOISTER_STORE": str(nowhere)})
    can_run, found = doctor(operator)
    missing = [text for text, state in found.items() if state == "missing"]
    assert not can_run and len(missing) == 2, found
    assert "seccomp profile" in missing[0] and "cannot reach the registry" in missing[1] and "nonexistent" in missing[1]
    assert not engine.containers
    engine.close()
    can_run, found = doctor(operator)
    assert not can_run and ["cannot reach the engine" in text for text in found] == [True]
    operator.cloister("doctor", "--target", "none").sentence("there is no target 'none'")


DEEP = [[[[]]]]
HOSTILE = [None, [], {}, 1, "text", [None, 1, "x", DEEP, {}], {"Id": "../../x", "ApiVersion": "1.99999999999", "State": DEEP},
           {"Id": 5, "Status": 7, "SecurityOptions": [1, {}], "ApiVersion": "1.41", "State": {"Status": "exited", "ExitCode": "x"}},
           {"Id": "a" * 4000, "message": "\x1b[31m" * 5000, "State": {"Status": "exited", "ExitCode": 2 ** 62, "Error": "e" * 9000}}]


@pytest.mark.parametrize("path", ["/version", "/info", "/images/worker", "/containers/create", "/json"])
def test_what_a_hostile_engine_answers(operator, engine, path):
    """cloister-fleet says something of it, whatever it is, and ends no other way than by itself."""
    target(operator, engine)
    for status in (200, 500):
        # A worker whose end nobody reports is waited for.
        for value in HOSTILE[-2:] if path == "/json" else HOSTILE:
            engine.instead = lambda method, at, said=(status, value): said if at.startswith(path) or at.endswith(path) else None
            _, found = doctor(operator)
            assert found and not any("has ended" in text or "\x1b" in text for text in found), (value, found)
            for container in list(engine.containers.values()):
                container.end()


# ---- docs/targets.md -------------------------------------------------------------------------------

def test_examples_of_the_document(operator):
    """Each can be registered."""
    blocks = re.findall(r"```yaml\n(name: .*?)```", (TREE / "docs/targets.md").read_text(), re.S)
    assert len(blocks) >= 4
    for block in blocks:
        operator.cloister("target", "register", operator.file("example.yaml", block)).ok()
