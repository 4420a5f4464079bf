"""The container image of `cloister worker`: a real engine runs it with little, and cells in it have all their walls."""
import hashlib
import json
import os
import tarfile

import pytest

import dispatches
import engines
import postgres_store
from operators import BUILD, IS_ROOT, wait_until

IMAGES = sorted((BUILD / "image").glob("*.tar"))
MEGA = 1_000_000
USER = "10001:10001"
PLACES = ["CLOISTER_DATA_DIR=/data/cloister", "CLOISTER_STATE_DIR=/data/state", "CLOISTER_RUNTIME_DIR=/run/cloister/cells"]
pytestmark = [
    pytest.mark.skipif(not IMAGES, reason="there is no image: `make image`"),
    pytest.mark.skipif(not IS_ROOT, reason="only root can start an engine of its own"),
    pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql"),
]


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def who():
    return "root"


@pytest.fixture(params=["docker", *(kind for kind in engines.KINDS if kind == "podman")])
def engine(request, engines_of):
    engine = engines_of(request.param)
    engine.ask("POST", "/images/load", IMAGES[0].read_bytes(), "application/x-tar")
    return engine


@pytest.fixture(scope="module")
def layout():
    with tarfile.open(IMAGES[0]) as tar:
        return {name: tar.extractfile(name).read() for name in tar.getnames()}


def name_of(layout):
    return json.loads(layout["manifest.json"])[0]["RepoTags"][0]


class Container:
    """A worker of the pool `p`, with what docs/store.md lists and no more."""

    def __init__(self, engine, layout, operator, *words, seccomp=True, paths=True, **host):
        self.engine = engine
        # Podman reads the file itself, has another word for paths, and its tmpfs is everybody's: see docs/store.md.
        is_docker, profile = engine.kind in engines.DOCKERS, BUILD / "image/seccomp.json"
        rules = [f"seccomp={profile.read_text() if is_docker else profile}"] if seccomp else []
        rules += [] if is_docker or not paths else ["unmask=ALL"]
        mine = "mode=0700,uid=10001,gid=10001" if is_docker else ""
        places = [] if is_docker else PLACES
        body = {"Image": name_of(layout), "Cmd": list(words), "User": USER,
                "Env": [f"CLOISTER_STORE=postgresql://cloister@/{operator.database}?host=/pg", *places],
                "HostConfig": {"Binds": [f"{postgres_store.shared().folder}:/pg"], "NetworkMode": "none", "CapDrop": ["ALL"],
                               "SecurityOpt": [*rules, "no-new-privileges"], "ReadonlyRootfs": True, "PidsLimit": 1000,
                               "LogConfig": {"Type": "json-file" if is_docker else "k8s-file"},
                               "Tmpfs": {"/data": mine, "/tmp": "", "/run/cloister": mine},
                               **({"MaskedPaths": [], "ReadonlyPaths": []} if paths else {}), **host}}
        self.id = json.loads(engine.ask("POST", f"/containers/create?name=w{os.urandom(4).hex()}", json.dumps(body)))["Id"]
        engine.ask("POST", f"/containers/{self.id}/start")

    def state(self):
        return json.loads(self.engine.ask("GET", f"/containers/{self.id}/json"))["State"]

    def logs(self):
        return "".join(engines.streams(self.engine.ask("GET", f"/containers/{self.id}/logs?stdout=1&stderr=1")))

    def ends(self):
        wait_until(lambda: not self.state()["Running"], "the container ends")
        return self.state()["ExitCode"]

    def remove(self):
        self.engine.ask("DELETE", f"/containers/{self.id}?force=true")


@pytest.fixture
def container(engine, layout, operator):
    made = []

    def container(*words, **how):
        made.append(Container(engine, layout, operator, *words, **how))
        return made[-1]
    yield container
    for one in made:
        one.remove()


def test_what_is_in_it(layout):
    index = json.loads(layout["index.json"])
    manifest = json.loads(layout["blobs/sha256/" + index["manifests"][0]["digest"][7:]])
    config = json.loads(layout["blobs/sha256/" + manifest["config"]["digest"][7:]])
    for path, data in layout.items():
        if path.startswith("blobs/"):
            assert hashlib.sha256(data).hexdigest() == path.rsplit("/", 1)[1]
    assert sum(one["size"] for one in manifest["layers"]) < 40 * MEGA
    assert config["config"]["User"] == USER
    assert config["config"]["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    sbom, = (BUILD / "image").glob("*.cdx.json")
    named = {part["name"]: part for part in json.loads(sbom.read_text())["components"]}
    assert {"libpq5", "libssl3", "libc6", "usr/bin/cloister"} <= set(named)


@pytest.mark.parametrize("word, code", [("version", 0), ("nosuch", 125)])
def test_a_dispatch_in_it(operator, container, word, code):
    dispatches.register(operator, "agent", "worker", command=["/usr/bin/cloister", word])
    id = dispatches.detach(operator, "--target", "pool:p", "worker")
    worker = container("--pool", "p", "--once")
    assert worker.ends() == 0, worker.logs()
    shown = dispatches.show(operator, id)
    assert (shown["state"], shown["exit_code"]) == ("finished", code), (shown["reason"], worker.logs())
    said = [event["text"] for event in dispatches.events(operator, id) if event["kind"] == "agent.output"]
    assert any("cloister" in text for text in said), said


@pytest.mark.parametrize("lacks", ["seccomp", "paths"])
def test_an_engine_that_allows_too_little(operator, container, lacks):
    """It says what is missing, and takes no dispatch."""
    dispatches.register(operator, "agent", "worker", command=["/usr/bin/cloister", "version"])
    id = dispatches.detach(operator, "--target", "pool:p", "worker")
    worker = container("--pool", "p", "--once", **{lacks: False})
    assert worker.ends() == 125
    assert "cloister: cells cannot run here: " in worker.logs() and "`cloister doctor`" in worker.logs(), worker.logs()
    assert dispatches.show(operator, id)["state"] == "queued"
