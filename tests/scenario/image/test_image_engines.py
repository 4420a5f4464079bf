"""Images that container engines build, and engines that run ours: `make test` has Docker, `make test-docker` also Podman."""
import json
import urllib.parse

import engines
import pytest
from image_lab import archive, Entry
from operators import IS_STATIC, only_root
from test_image_judges import digest_of, load, need, skopeo

pytestmark = [only_root, pytest.mark.skipif(not IS_STATIC, reason="this init is not static")]

# The same in a container and in a cell.
SHOW = "cd /; ls -ln bin/sh made made/* t t/a w; cat made/x w/g t/a/b; pwd; echo $A; cat made/id"
DOCKERFILE = f"""FROM %s
ENV A=b
WORKDIR /w
COPY tree /t/
COPY --chown=3:4 f /w/g
RUN mkdir /made && echo x >/made/x && chmod 2750 /made && rm -r /t/gone && ln -s x /made/l && ln /made/x /made/h
RUN rm -r /t/again && mkdir /t/again && id -u >/made/id
RUN touch -d @86400 /made /made/* /t /t/* /w /w/*
CMD ["/bin/sh", "-c", "{SHOW}"]
"""
FILES = {"f": "f", "tree/a/b": "b", "tree/gone/x": "x", "tree/c": "c", "tree/again/x": "x"}


@pytest.fixture(params=[kind for kind in engines.KINDS if kind != "rootless"])
def engine(request, engines_of):
    return engines_of(request.param)


def build(engine, name):
    """An image that the engine builds; its runtime's containers have no network."""
    context = archive(*[Entry(path, text.encode()) for path, text in FILES.items()],
                      Entry("Dockerfile", (DOCKERFILE % engines.IMAGE).encode()))
    said = engine.ask("POST", f"/build?t={name}&networkmode=none&rm=1", context, "application/x-tar")
    assert b"Successfully" in said, said


def run(engine, name, *words):
    """The output of a container of the image NAME."""
    body = {"Image": name, "HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": "json-file"}}, "Tty": True,
            **({"Cmd": words} if words else {})}
    id = json.loads(engine.ask("POST", "/containers/create", json.dumps(body)))["Id"]
    try:
        engine.ask("POST", f"/containers/{id}/start")
        status = json.loads(engine.ask("POST", f"/containers/{id}/wait"))["StatusCode"]
        said = engine.ask("GET", f"/containers/{id}/logs?stdout=1&stderr=1").decode().replace("\r\n", "\n")
        assert status == 0, said
        return said
    finally:
        engine.ask("DELETE", f"/containers/{id}?force=1")


def forget(engine, *names):
    for name in names:
        engine.ask("DELETE", f"/images/{urllib.parse.quote(name, safe='')}?force=1")


def test_an_image_that_an_engine_built(operator, engine):
    build(engine, "theirs:1")
    try:
        theirs = run(engine, "theirs:1")
        path = operator.file("theirs.tar", engine.ask("GET", "/images/theirs:1/get"))
        got = load(operator, f"docker-archive:{path}", "--name", "localhost/theirs:1")
        layers = json.loads(engine.ask("GET", "/images/theirs:1/json"))["RootFS"]["Layers"]
        shown = json.loads(operator.cloister("image", "show", got["digest"], "--json").ok())
        assert [part["diff_id"] for part in shown["layers"]] == layers
        asked = load(operator, "docker-daemon:theirs:1", env={"DOCKER_HOST": f"unix://{engine.socket}"})
        assert asked["digest"] == got["digest"]
    finally:
        forget(engine, "theirs:1")
    assert operator.run("-q", "--root", "--image", "localhost/theirs:1").ok() == theirs


def test_an_engine_runs_what_we_built(operator, engine):
    need("skopeo")
    context = operator.folder("c", {**FILES, "Dockerfile": DOCKERFILE % "minimal:"})
    digest = operator.cloister("image", "build", "-t", "localhost/ours:1", context).ok().strip()
    ours = operator.run("-q", "--root", "--image", "localhost/ours:1").ok()
    shown = json.loads(operator.cloister("image", "show", digest, "--json").ok())
    path = operator.base / "ours.tar"
    operator.cloister("image", "save", "localhost/ours:1", f"docker-archive:{path}").ok()
    engine.ask("POST", "/images/load", path.read_bytes(), "application/x-tar")
    try:
        layers = json.loads(engine.ask("GET", "/images/localhost/ours:1/json"))["RootFS"]["Layers"]
        assert layers == [part["diff_id"] for part in shown["layers"]]
        assert run(engine, "localhost/ours:1") == ours
    finally:
        forget(engine, "localhost/ours:1")
    # Out and in again, it is the same image.
    operator.cloister("image", "save", digest, f"oci-archive:{operator.base}/out.tar").ok()
    skopeo("copy", "--preserve-digests", f"oci-archive:{operator.base}/out.tar", f"oci:{operator.base}/copy:x")
    assert digest_of(f"oci:{operator.base}/copy:x") == digest
    operator.cloister("image", "remove", digest).ok()
    assert load(operator, f"oci:{operator.base}/copy:x")["digest"] == digest
