"""`cloister image`: what the store keeps, shows, saves and removes."""
import fcntl
import hashlib
import json
import os
import pty
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import image_lab
from image_lab import Entry, Layout, archive, folder, images, leftovers, picture, store, symlink
from operators import IS_STATIC, as_one, only_root, only_user

BASE = archive(folder("etc"), Entry("etc/a", b"one"), Entry("etc/b", b"two"), folder("old"), Entry("old/in", b"x"),
               Entry("same", b"x" * 70000), symlink("link", "etc"))
UPPER = archive(Entry("etc/a", b"ONE"), Entry("etc/.wh.b"), Entry("new", b"x"), folder("old"), Entry("old/.wh..wh..opq"),
                Entry("old/other", b"y"), symlink("link", "old"))


def load(operator, *layers, name, **how):
    layout = Layout(operator.base / "layouts" / secrets.token_hex(4), *layers, name=f"example.org/{name}", **how)
    assert operator.cloister("image", "load", layout.ref).ok() == f"example.org/{name}\n"
    return layout


def resolve(operator, ref):
    helper = operator.program.parent / "libexec/cloister-image"
    return operator.do(helper, "--resolve", ref)


def names(operator):
    return [image["name"] for image in images(operator)]


def test_load_list_show(operator):
    assert operator.cloister("image", "list", "--json").ok() == "[]\n" and operator.cloister("image", "list").ok() == ""
    layout = load(operator, BASE, UPPER, name="a:1", config={"Env": ["A=b"], "Cmd": ["/bin/x", "y"], "User": "7",
                                                             "WorkingDir": "/w", "ExposedPorts": {"80/tcp": {}}})
    listed, = images(operator)
    assert (listed["name"], listed["digest"], listed["layers"], listed["running"]) == (
        "example.org/a:1", layout.digest, 2, False)
    head, row = operator.cloister("image", "list").ok().splitlines()
    assert head.split() == ["NAME", "DIGEST", "SIZE", "LAYERS", "CREATED", "RUNNING"]
    assert row.index(layout.digest[7:19]) == head.index("DIGEST") and row.endswith("no")
    shown = json.loads(operator.cloister("image", "show", "example.org/a:1", "--json").ok())
    assert shown["config"]["Cmd"] == ["/bin/x", "y"] and [part["diff_id"] for part in shown["layers"]] == layout.diff_ids
    assert all(part["unpacked"] for part in shown["layers"])
    text = operator.cloister("image", "show", layout.digest[7:15]).ok()
    for part in ("example.org/a:1", layout.digest, '["/bin/x","y"]', "A=b", "/w", "80/tcp", "linux/"):
        assert part in text


def test_resolve(operator):
    layout = load(operator, BASE, UPPER, name="a:1")
    for ref in ("example.org/a:1", layout.digest, layout.digest[7:20], layout.ref):
        answer = json.loads(resolve(operator, ref).ok())
        assert answer["digest"] == layout.digest
        assert answer["name"] == (ref if ref == layout.ref else "example.org/a:1")
        assert [part["diff_id"] for part in answer["layers"]] == layout.diff_ids
        assert all(os.path.isdir(part["path"]) for part in answer["layers"])
    # What is missing of its layers is unpacked again.
    operator.host(f"chmod -R u+rwX {store(operator)}/layers && rm -r {store(operator)}/layers/*")
    answer = json.loads(resolve(operator, "example.org/a:1").ok())
    assert sorted(os.listdir(answer["layers"][0]["path"])) == ["etc", "link", "old", "same"]


def test_a_layer_that_hides_all_others(operator):
    """overlayfs does not know an opaque top: so lower layers are not named."""
    layout = load(operator, BASE, archive(Entry(".wh..wh..opq"), Entry("alone", b"x")), name="a:1")
    assert [part["diff_id"] for part in json.loads(resolve(operator, "example.org/a:1").ok())["layers"]] == layout.diff_ids[1:]


@as_one
def test_foreign_images_do_not_run(operator):
    layout = Layout(operator.base / "l", BASE)
    config = json.loads(layout.config)
    config["architecture"] = "z80"
    path = layout.blobs / hashlib.sha256(layout.config).hexdigest()
    raw = json.dumps(config).encode()
    manifest = json.loads(layout.manifest)
    manifest["config"] |= {"digest": layout.put(raw), "size": len(raw)}
    data = json.dumps(manifest).encode()
    index = json.loads((layout.path / "index.json").read_text())
    index["manifests"][0] |= {"digest": layout.put(data), "size": len(data)}
    (layout.path / "index.json").write_text(json.dumps(index))
    path.unlink()
    resolve(operator, layout.ref).sentence("for z80")


def test_diff(operator):
    load(operator, BASE, name="base:1")
    load(operator, BASE, UPPER, name="more:1")
    want = {"added": ["/new", "/old/other"], "removed": ["/etc/b", "/old/in"], "changed": ["/etc/a", "/link"]}
    words = ("example.org/base:1", "example.org/more:1")
    assert json.loads(operator.cloister("image", "diff", *words, "--json").ok()) == want
    assert json.loads(operator.cloister("image", "diff", words[1], "--json").ok()) == want
    assert json.loads(operator.cloister("image", "diff", *words[::-1], "--json").ok())["added"] == want["removed"]
    assert operator.cloister("image", "diff", words[0], words[0]).ok() == ""
    assert "changed  /etc/a\n" in operator.cloister("image", "diff", *words).ok()
    # The same files in other layers are no difference.
    both = archive(folder("etc"), Entry("etc/a", b"ONE"), Entry("new", b"x"), folder("old"), Entry("old/other", b"y"),
                   Entry("same", b"x" * 70000), symlink("link", "old"))
    load(operator, both, name="flat:1")
    assert operator.cloister("image", "diff", "example.org/more:1", "example.org/flat:1").ok() == ""


# ---- removal ----

def test_layers_are_shared_and_go_with_their_last_image(operator):
    one, two = load(operator, BASE, name="a:1"), load(operator, BASE, UPPER, name="b:1")
    assert one.diff_ids[0] == two.diff_ids[0]
    operator.cloister("image", "remove", "example.org/a:1").ok()
    assert names(operator) == ["example.org/b:1"]
    assert sorted(os.listdir(store(operator) / "layers")) == sorted(d[7:] for d in two.diff_ids)
    operator.cloister("image", "remove", two.digest[:20]).ok()
    assert names(operator) == [] and leftovers(operator) == []


def test_a_name_moves_and_prune_removes_what_has_none(operator):
    one, two = load(operator, BASE, name="a:1"), load(operator, BASE, UPPER, name="a:1")
    assert {(i["name"], i["digest"]) for i in images(operator)} == {(None, one.digest), ("example.org/a:1", two.digest)}
    pruned = json.loads(operator.cloister("image", "prune", "--json").ok())
    # The manifest and the configuration; the layer is the other's too.
    assert pruned["blobs"] == 2 and pruned["layers"] == 0
    assert names(operator) == ["example.org/a:1"]


def test_the_last_name_takes_the_image_along(operator):
    layout = load(operator, BASE, name="a:1")
    operator.cloister("image", "load", layout.ref, "--name", "example.org/b:2").ok()
    assert names(operator) == ["example.org/a:1", "example.org/b:2"]
    operator.cloister("image", "remove", "example.org/a:1").ok()
    assert names(operator) == ["example.org/b:2"] and image_lab.tree(operator, layout.diff_ids[0]).is_dir()
    operator.cloister("image", "remove", "example.org/b:2").ok()
    assert leftovers(operator) == []


def test_what_runs_stays(operator):
    """A running cell holds a shared lock on its image."""
    layout = load(operator, BASE, name="a:1")
    use = operator.file(f"data/images/uses/{layout.digest[7:]}")
    with use.open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert images(operator)[0]["running"]
        operator.cloister("image", "remove", "example.org/a:1").sentence("a running cell uses it")
        load(operator, UPPER, name="a:1")
        operator.cloister("image", "prune").ok()
        assert image_lab.tree(operator, layout.diff_ids[0]).is_dir() and len(images(operator)) == 2
    operator.cloister("image", "prune").ok()
    assert not image_lab.tree(operator, layout.diff_ids[0]).exists() and len(images(operator)) == 1


def test_leftovers_of_killed_commands(operator):
    load(operator, BASE, name="a:1")
    for name in (".new-0123456789abcdef", ".new-0123456789abcdef/fs", ".new-0123456789abcdef/fs/closed"):
        part = operator.folder(f"data/images/layers/{name}")
    part.chmod(0)
    operator.file("data/images/parts/" + "0" * 64, "half")
    operator.file("data/images/blobs/sha256/" + "1" * 64, "stray")
    operator.file("data/images/.new-fedcba9876543210", "{")
    # The step of a build whose layer is gone.
    step = operator.file("data/images/builds/" + "2" * 64, json.dumps({"digest": "sha256:" + "3" * 64}))
    pruned = json.loads(operator.cloister("image", "prune", "--json").ok())
    assert (pruned["leftovers"], pruned["blobs"], pruned["bytes"]) == (4, 1, 10)
    assert not step.parent.exists()
    assert [i["name"] for i in images(operator)] == ["example.org/a:1"]
    assert not part.exists()


@as_one
def test_killed_at_any_moment(operator):
    """Whatever was killed, the store is whole, and the same command completes."""
    layout = Layout(operator.base / "l", BASE, UPPER, name="example.org/a:1")
    whole, killed = None, 0
    for call in ("openat", "renameat", "renameat2", "fsync", "unlinkat", "mkdirat", "syncfs"):
        for when in (1, 3, 6):
            for words in (("load", layout.ref), ("remove", "example.org/a:1")):
                done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                       f"inject={call}:signal=KILL:when={when}", operator.program, "image", *words],
                                      env=operator.env, capture_output=True, timeout=60)
                killed += done.returncode == -signal.SIGKILL
                # A layer that has its name has all of its files.
                operator.cloister("image", "load", layout.ref).ok()
                trees = [picture(image_lab.tree(operator, diff_id)).keys() for diff_id in layout.diff_ids]
                whole = whole or trees
                assert trees == whole, (call, when, words)
            operator.cloister("image", "remove", "example.org/a:1").ok()
            operator.cloister("image", "prune").ok()
            assert leftovers(operator) == [], (call, when)
    assert killed > 20


def test_a_sweep_waits_for_nobody_who_adds(operator):
    load(operator, BASE, name="a:1")
    stray = operator.file("data/images/blobs/sha256/" + "1" * 64, "being added")
    with (store(operator) / "adding").open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        operator.cloister("image", "prune").sentence("adds an image now")
        removed = operator.cloister("image", "remove", "example.org/a:1")
        assert removed.status == 0 and "frees the space later" in removed.err
        assert stray.exists()
    operator.cloister("image", "prune").ok()
    assert leftovers(operator) == []


def test_at_the_same_time(operator):
    """All of them succeed, and there is one image."""
    big = archive(Entry("big", secrets.token_bytes(8 << 20)))
    layout = Layout(operator.base / "l", big, BASE, name="example.org/a:1")
    running = [operator.spawn(operator.program, "image", "load", layout.ref, stdout=subprocess.DEVNULL) for _ in range(6)]
    assert [process.wait(60) for process in running] == [0] * 6
    assert names(operator) == ["example.org/a:1"] and len(os.listdir(store(operator) / "layers")) == 2
    assert os.listdir(store(operator) / "parts") == []


@as_one
def test_a_blob_that_was_changed(operator):
    """The error is about the disk, not about whoever made the image."""
    layout = load(operator, BASE, name="a:1")
    shutil.rmtree(image_lab.tree(operator, layout.diff_ids[0]).parent)
    blob = store(operator) / "blobs/sha256" / layout.layers[0].removeprefix("sha256:")
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 255
    blob.write_bytes(data)
    assert f"the blob {layout.layers[0]} has been changed" in resolve(operator, "example.org/a:1").err


# ---- the minimal image ----

def test_the_minimal_image(operator):
    answer = json.loads(resolve(operator, "minimal:").ok())
    assert answer["name"] == "cloister.internal/minimal:latest" and len(answer["layers"]) == 1
    top = answer["layers"][0]["path"]
    assert os.readlink(f"{top}/bin/sh") == "busybox" and os.access(f"{top}/bin/busybox", os.X_OK)
    assert operator.host(f"{top}/bin/busybox echo yes") == "yes\n"
    again = json.loads(resolve(operator, "minimal:").ok())
    assert again == answer
    # Made anew, it is the same.
    operator.cloister("image", "remove", "minimal:").ok()
    assert leftovers(operator) == []
    assert json.loads(resolve(operator, "minimal:").ok()) == answer


@only_root
@pytest.mark.skipif(not IS_STATIC, reason="this init is not static")
def test_the_minimal_image_follows_the_busybox_of_the_machine(operator):
    path = shutil.which("busybox")
    if path is None:
        pytest.skip("no busybox (package busybox-static)")
    other = operator.file("busybox", Path(path).read_bytes() + b"another")
    other.chmod(0o755)
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    elsewhere = ["unshare", "--mount", "sh", "-c", script, "sh", other, os.path.realpath(path)]
    count = [operator.program, "run", "-q", "--root", "minimal", "--", "stat", "-c", "%s", "/bin/busybox"]
    sizes = [int(operator.do(*words, *count).ok()) for words in ([], elsewhere, [])]
    assert sizes == [os.path.getsize(path), os.path.getsize(other), os.path.getsize(path)]
    name = ["image", "show", "cloister.internal/minimal:latest", "--json"]
    digest = json.loads(operator.cloister(*name).ok())["digest"]
    helper = operator.program.parent / "libexec/cloister-image"
    answer = json.loads(operator.do(*elsewhere, helper, "--resolve", "cloister.internal/minimal:latest").ok())
    assert answer["digest"] != digest


# ---- what takes long ----

def traced(operator, log, *words):
    """The programs that cloister-image --resolve starts."""
    helper = operator.program.parent / "libexec/cloister-image"
    done = operator.do("strace", "-f", "-qq", "-o", log, "-e", "trace=execve,execveat", helper, "--resolve", *words)
    started = Path(log).read_text().splitlines()
    return json.loads(done.ok()), [line for line in started if "cloister-unpack" in line]


@as_one
@pytest.mark.parametrize("kind", ["oci-archive", "docker-archive"])
def test_an_archive_is_read_once(operator, kind):
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    layout, path, log = load(operator, BASE, name="a:1"), operator.base / "a.tar", operator.base / "log"
    other = load(operator, UPPER, name="b:1")
    operator.cloister("image", "save", "example.org/a:1", f"{kind}:{path}").ok()
    operator.cloister("image", "save", "example.org/b:1", f"{kind}:{operator.base}/b.tar").ok()
    operator.cloister("image", "remove", layout.digest, other.digest).ok()
    first, started = traced(operator, log, f"{kind}:{path}")
    assert len(started) == 2 and first["name"] == f"{kind}:{path}"
    assert traced(operator, log, f"{kind}:{path}") == (first, [])
    # Names do not matter.  Another archive, or no image any more: it is read again.
    operator.cloister("image", "load", f"{kind}:{operator.base}/b.tar", "--name", "example.org/a:1").ok()
    assert traced(operator, log, f"{kind}:{path}") == (first, [])
    os.replace(operator.base / "b.tar", path)
    second, started = traced(operator, log, f"{kind}:{path}")
    assert started and second["name"] == first["name"] and second["digest"] != first["digest"]
    assert traced(operator, log, f"{kind}:{path}") == (second, [])
    operator.cloister("image", "remove", second["digest"]).ok()
    assert len(traced(operator, log, f"{kind}:{path}")[1]) == 2
    operator.cloister("image", "remove", first["digest"], second["digest"]).ok()
    assert list((store(operator) / "made").iterdir()) == []


@as_one
@pytest.mark.parametrize("words, call, shown", [(["diff", "example.org/a:1", "example.org/b:1"], "openat2", "comparing: "),
                                                (["prune"], "unlinkat", "removing: ")])
def test_progress(operator, words, call, shown):
    """On a terminal, once it has taken two seconds: here a call takes that long."""
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    load(operator, BASE, name="a:1")
    load(operator, UPPER, name="b:1")
    for digit in "12":
        operator.file("data/images/blobs/sha256/" + digit * 64, "stray")
    leader, terminal = pty.openpty()
    os.set_blocking(leader, False)
    try:
        done = operator.do("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                           f"inject={call}:delay_enter=2100000:when=1", operator.program, "image", *words, stderr=terminal)
        # BlockingIOError: nothing was shown.
        assert done.status == 0 and shown.encode() in os.read(leader, 65536)
    finally:
        os.close(leader)
        os.close(terminal)


# ---- mistakes ----

@only_user
def test_paths_in_place_of_references(operator):
    layout = Layout(operator.base / "images/l", archive(Entry("a", b"x")))
    operator.cloister("image", "load", layout.path).sentence(f"oci:{layout.path}")
    file = operator.file("image.tar", archive(Entry("manifest.json", b"[]")))
    operator.cloister("image", "load", file).sentence(f"oci-archive:{file}", f"docker-archive:{file}")
    operator.cloister("image", "load", f"oci-archive:{file}").sentence(f"docker-archive:{file}")


@only_user
def test_an_image_without_a_name(operator):
    layout = Layout(operator.base / "images/l", archive(Entry("a", b"x")))
    done = operator.cloister("image", "load", layout.ref)
    assert done.ok() == layout.digest + "\n" and "--name" in done.err
    assert operator.cloister("image", "prune").ok().startswith("removed 1 image without a name: 3 blobs (")
    assert json.loads(operator.cloister("image", "prune", "--json").ok())["images"] == 0


@only_user
def test_mistakes(operator):
    load(operator, BASE, name="a:1")
    for words, part in ((["fry"], "no 'fry': it has build,"), ([], "say what to do: build,"), (["show"], "takes one image"),
                        (["list", "x"], "takes no words"), (["show", "example.org/b"], "there is no image"),
                        (["remove", "000000"], "there is no image"), (["load", "debian:12"], "image pull"),
                        (["load", "oci:/nowhere"], "/nowhere"), (["load", "oci-archive:/nowhere"], "/nowhere"),
                        (["save", "example.org/a:1", "debian:12"], "no place to save to"),
                        (["show", "example.org/a:1", "--name", "x"], "no option --name"),
                        (["load", "oci:x", "--name", "A"], "no name of an image"),
                        (["load", "docker-daemon:x"], "Docker engine"), (["pull", "oci:x"], "image load")):
        operator.cloister("image", *words, env={"DOCKER_HOST": "unix:///nowhere"}).sentence(part)
