"""Images of other tools, and other tools that read ours: they agree on every digest."""
import json
import os
import platform
import shutil
import subprocess
import tarfile

import pytest

import image_lab
from image_lab import Entry, Layout, archive, folder, images, store, symlink
from operators import IS_STATIC, as_one, only_root, wait_until

BASE = archive(folder("bin"), Entry("bin/x", b"#!/bin/sh\n", mode=0o755), symlink("sh", "bin/x"))
UPPER = archive(Entry("bin/.wh.x"), Entry("new", b"y" * 5000))


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} here")


def do(*words, **how):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, **how)
    assert done.returncode == 0, done
    return done.stdout


def skopeo(*words, **how):
    need("skopeo")
    return do("skopeo", "--insecure-policy", *words, **how)


def digest_of(ref, **how):
    return json.loads(skopeo("inspect", "--no-tags", ref, **how))["Digest"]


def load(operator, ref, *words, **how):
    return json.loads(operator.cloister("image", "load", ref, *words, "--json", **how).ok())


@pytest.fixture
def layout(operator):
    made = Layout(operator.base / "made", BASE, UPPER, name="example.org/a:1", config={"Cmd": ["/bin/x"]})
    return made


@as_one
def test_skopeo_reads_the_store(operator, layout):
    load(operator, layout.ref)
    assert digest_of(f"oci:{store(operator)}:example.org/a:1") == layout.digest


@as_one
@pytest.mark.parametrize("kind", ["oci", "oci-archive", "dir"])
def test_saved_and_read_back(operator, layout, kind):
    load(operator, layout.ref)
    path = operator.base / "out"
    operator.cloister("image", "save", "example.org/a:1", f"{kind}:{path}").ok()
    assert digest_of(f"{kind}:{path}") == layout.digest
    copy = operator.base / "copy"
    skopeo("copy", "--preserve-digests", f"{kind}:{path}", f"oci:{copy}")
    operator.cloister("image", "remove", layout.digest).ok()
    assert load(operator, f"oci:{copy}")["digest"] == layout.digest
    operator.cloister("image", "remove", layout.digest).ok()
    assert load(operator, f"{kind}:{path}")["digest"] == layout.digest
    operator.cloister("image", "save", layout.digest, f"{kind}:{path}").sentence("cannot save")


@as_one
def test_saved_for_docker(operator, layout):
    load(operator, layout.ref)
    path = operator.base / "out.tar"
    operator.cloister("image", "save", "example.org/a:1", f"docker-archive:{path}").ok()
    told = json.loads(skopeo("inspect", "--config", f"docker-archive:{path}:example.org/a:1"))
    assert told["rootfs"]["diff_ids"] == layout.diff_ids and told["config"]["Cmd"] == ["/bin/x"]
    assert load(operator, f"docker-archive:{path}")["name"] == "example.org/a:1"


@as_one
@pytest.mark.parametrize("kind", ["oci-archive", "docker-archive", "dir", "oci"])
def test_skopeos_formats_are_loaded(operator, layout, kind):
    path = operator.base / "copy"
    skopeo("copy", layout.ref, f"{kind}:{path}" + (":example.org/a:1" if kind == "docker-archive" else ""))
    got = load(operator, f"{kind}:{path}")
    assert got["digest"] == digest_of(f"{kind}:{path}")
    if kind != "docker-archive":
        assert got["digest"] == layout.digest
    top = image_lab.tree(operator, layout.diff_ids[0])
    assert (top / "bin/x").read_bytes() == b"#!/bin/sh\n"


@as_one
def test_several_platforms(operator, layout):
    """skopeo's copy of an index, and the manifest of this machine in it."""
    index = {"schemaVersion": 2, "manifests": [
        {"mediaType": image_lab.MANIFEST, "digest": "sha256:" + "0" * 64, "size": 7,
         "platform": {"os": "linux", "architecture": "z80"}},
        {"mediaType": image_lab.MANIFEST, "digest": layout.digest, "size": len(layout.manifest),
         "platform": {"os": "linux", "architecture": image_lab.ARCHITECTURE}}]}
    text = json.dumps(index).encode()
    (layout.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
        {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": layout.put(text), "size": len(text)}]}))
    assert digest_of(layout.ref) == image_lab.digest(text)
    assert load(operator, layout.ref)["digest"] == layout.digest


@only_root
def test_umoci(operator):
    need("umoci")
    image, tree = operator.base / "umoci", operator.folder("tree", {"etc/x": "from umoci\n", "etc/y": "y"})
    (tree / "etc/x").chmod(0o640)
    do("umoci", "init", "--layout", image)
    do("umoci", "new", "--image", f"{image}:a")
    do("umoci", "insert", "--image", f"{image}:a", tree, "/usr")
    do("umoci", "insert", "--whiteout", "--image", f"{image}:a", "/usr/etc/y")
    do("umoci", "config", "--image", f"{image}:a", "--config.cmd", "/bin/x")
    got = load(operator, f"oci:{image}:a", "--name", "localhost/umoci")
    assert got["digest"] == digest_of(f"oci:{image}:a") and got["name"] == "localhost/umoci:latest"
    shown = json.loads(operator.cloister("image", "show", "localhost/umoci", "--json").ok())
    lower, upper = (image_lab.tree(operator, part["diff_id"]) for part in shown["layers"])
    assert (lower / "usr/etc/x").read_text() == "from umoci\n" and (lower / "usr/etc/x").stat().st_mode & 0o777 == 0o640
    assert (upper / "usr/etc/y").is_char_device() and shown["config"]["Cmd"] == ["/bin/x"]


@only_root
@pytest.mark.skipif(not IS_STATIC, reason="this init is not static")
def test_mmdebstrap(operator):
    """A root file system of Debian's, devices and all, from the mirror that this machine uses."""
    need("mmdebstrap")
    if not os.environ.get("CLOISTER_TEST_ENGINES"):
        pytest.skip("only `make test-docker` downloads it")
    tar, suite = operator.base / "root.tar", platform.freedesktop_os_release().get("VERSION_CODENAME", "stable")
    made = subprocess.run(["mmdebstrap", "--mode=root", "--variant=extract", "--include=base-files,dash,coreutils", suite, tar],
                          capture_output=True, text=True, timeout=600)
    if made.returncode != 0:
        pytest.skip(f"mmdebstrap cannot reach its mirror: {made.stderr[-200:]}")
    layout = Layout(operator.base / "debian", tar.read_bytes(), config={"Cmd": ["/bin/dash", "-c", "cat /etc/debian_version"]})
    got = load(operator, layout.ref, "--name", "localhost/debian:1")
    with tarfile.open(tar) as archive_:
        files = {entry.name.lstrip("./"): entry for entry in archive_ if entry.isfile()}
        version = archive_.extractfile(files["etc/debian_version"]).read().decode()
    assert operator.run("-q", "--image", got["digest"]).ok() == version
    top = image_lab.tree(operator, layout.diff_ids[0])
    for name, entry in files.items():
        st = (top / name).lstat()
        assert (st.st_size, st.st_uid, st.st_gid, st.st_mode & 0o1777) == (entry.size, entry.uid, entry.gid, entry.mode & 0o1777), name


# ---- engines: Podman with a storage of the test's own ----

@pytest.fixture
def podman(operator):
    need("podman", "skopeo")
    place = operator.folder("podman")
    config = place / "storage.conf"
    config.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{place}/graph"\nrunroot = "{place}/run"\n')
    env = {**os.environ, "CONTAINERS_STORAGE_CONF": str(config), "HOME": str(operator.home), "TMPDIR": str(place)}
    yield env
    shutil.rmtree(place, ignore_errors=True)


@only_root
def test_containers_storage(operator, layout, podman):
    skopeo("copy", layout.ref, "containers-storage:example.org/a:1", env=podman)
    got = load(operator, "containers-storage:example.org/a:1", env=podman)
    assert got["name"] == "example.org/a:1"
    told = json.loads(skopeo("inspect", "--config", "containers-storage:example.org/a:1", env=podman))
    assert told["rootfs"]["diff_ids"] == layout.diff_ids
    operator.cloister("image", "load", "containers-storage:example.org/none", env=podman)
    # Without skopeo, podman is asked; without both, the error explains it.
    programs = operator.folder("programs")
    (programs / "podman").symlink_to(shutil.which("podman"))
    operator.cloister("image", "remove", got["digest"]).ok()
    again = load(operator, "containers-storage:example.org/a:1", env={**podman, "PATH": str(programs)})
    assert again["name"] == "example.org/a:1"
    shown = json.loads(operator.cloister("image", "show", again["digest"], "--json").ok())
    assert [part["diff_id"] for part in shown["layers"]] == layout.diff_ids
    operator.cloister("image", "load", "containers-storage:example.org/a:1", env={"PATH": "/nowhere"}).sentence("install one")


@only_root
def test_docker_daemon(operator, layout, podman):
    """Podman's service speaks Docker's API."""
    skopeo("copy", layout.ref, "containers-storage:example.org/a:1", env=podman)
    socket = operator.base / "podman/docker.sock"
    service = subprocess.Popen(["podman", "system", "service", "--time=0", f"unix://{socket}"], env=podman,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: socket.exists() or service.poll() is not None, "podman serves")
        if service.poll() is not None:
            pytest.skip(f"podman does not serve here: {service.stderr.read()[-200:]}")
        env = {"DOCKER_HOST": f"unix://{socket}"}
        got = load(operator, "docker-daemon:example.org/a:1", env=env)
        assert got["name"] == "example.org/a:1"
        shown = json.loads(operator.cloister("image", "show", got["digest"], "--json").ok())
        assert [part["diff_id"] for part in shown["layers"]] == layout.diff_ids
        operator.cloister("image", "load", "docker-daemon:example.org/none:1", env=env).sentence("example.org/none:1")
    finally:
        service.terminate()
        service.wait(60)
        service.stderr.close()


@only_root
def test_podman_loads_what_we_save(operator, layout, podman):
    load(operator, layout.ref)
    for kind in ("oci-archive", "docker-archive"):
        path = operator.base / f"{kind}.tar"
        operator.cloister("image", "save", "example.org/a:1", f"{kind}:{path}").ok()
        do("podman", "load", "-q", "-i", path, env=podman)
        told, = json.loads(do("podman", "image", "inspect", "example.org/a:1", env=podman))
        assert told["RootFS"]["Layers"] == layout.diff_ids
        do("podman", "rmi", "-f", "example.org/a:1", env=podman)
