"""Hostile layers: nothing outside the store changes, the error is clear, and nothing half stored stays.

The layers are made by hand.  The judge is the file system: canaries of random content beside the store, and a picture
of everything that the operator has.
"""
import gzip
import os
import secrets
import subprocess
import tarfile

import pytest

import image_lab
from image_lab import Entry, Layout, archive, digest, folder, leftovers, link, picture, squeeze, store, symlink
from operators import IS_ROOT, as_one, status_of, wait_until

CANARY = "canary"


@pytest.fixture
def place(operator):
    """The operator's folder with canaries, and a folder for layouts."""
    operator.file(CANARY, secrets.token_hex(16))
    operator.file("home/.profile", secrets.token_hex(16))
    operator.folder("images")
    return operator


def before(place):
    return picture(place.base, place.base / "data", place.base / "images", place.runtime, place.state)


def load(place, *archives, **how):
    name = secrets.token_hex(4)
    layout = Layout(place.base / "images" / name, *archives, **how)
    return layout, place.cloister("image", "load", layout.ref)


def refused(place, layer, *parts):
    layout, result = load(place, layer) if isinstance(layer, bytes) else load(place, **layer)
    result.sentence("cannot load", *parts)
    assert image_lab.images(place) == [] and leftovers(place) == []


BASE = "\0"                             # in names, stands for the operator's folder
OUT = "../" * 12
REFUSED = {
    "traversal": ([Entry(f"../{CANARY}", b"x")], "would leave"),
    "traversal inside": ([Entry(f"a/../../{CANARY}", b"x")], "would leave"),
    "traversal that stays": ([folder("a"), Entry("a/../b", b"x")], "would leave"),
    "many steps": ([Entry(f"{OUT}tmp/{CANARY}", b"x")], "would leave"),
    "only dots": ([folder("..")], "would leave"),
    "folder link": ([symlink("a", BASE), Entry(f"a/{CANARY}", b"x")], "beneath", "'a'", "no folder"),
    "relative folder link": ([symlink("a", OUT), Entry(f"a/tmp/{CANARY}", b"x")], "beneath"),
    "folder through a link": ([symlink("a", BASE), folder("a/new")], "beneath"),
    "link through a link": ([symlink("a", BASE), symlink("a/new", "x")], "beneath"),
    "whiteout through a link": ([symlink("a", BASE), Entry(f"a/.wh.{CANARY}")], "beneath"),
    "opaque through a link": ([symlink("a", BASE), Entry("a/.wh..wh..opq")], "beneath"),
    "chain of links": ([symlink("a", "b"), symlink("b", BASE), Entry(f"a/{CANARY}", b"x")], "beneath"),
    "proc's links": ([symlink("a", "/proc/self/root"), Entry("a/tmp/x", b"x")], "beneath"),
    "beneath a file": ([Entry("a", b"x"), Entry("a/b", b"x")], "beneath"),
    "hard link out": ([link("a", f"../{CANARY}")], "would leave"),
    "absolute hard link": ([link("a", f"{BASE}/{CANARY}")], "no file of the layer"),
    "hard link through a link": ([symlink("a", BASE), link("b", f"a/{CANARY}")], "beneath"),
    "hard link to nothing": ([link("a", "b")], "no file of the layer"),
    "hard link to a folder": ([folder("a"), link("b", "a")], "no file of the layer"),
    "hard link to the top": ([link("a", ".")], "no file of the layer"),
    "hard link to a whiteout": ([Entry(".wh.a"), link("b", "a")], "no file of the layer"),
    "hard link to a whiteout's name": ([Entry("a"), link("b", ".wh.a")], "no file of the layer"),
    "whiteout of the parent": ([Entry(".wh...")], "folder above"),
    "whiteout of itself": ([Entry(".wh..")], "folder above"),
    "whiteout of nothing": ([Entry("a/.wh.")], "folder above"),
    "whiteout as a folder": ([Entry(".wh.a/b", b"x")], "name of a whiteout"),
    "the top as a file": ([Entry(".", b"x")], "replace its folder"),
    "the top as a link": ([symlink(".", "/")], "replace its folder"),
    "the top as a hard link": ([Entry("a"), link("./", "a")], "replace its folder"),
    "an empty link": ([symlink("a", "")], "no target"),
    "too deep": ([Entry("d/" * 300 + "x")], "too deep"),
    "a long name": ([Entry("n" * 256)], "too long"),
    "a long path": ([Entry("/".join(["n" * 200] * 30))], "too long"),
    "many attributes": ([Entry("a", pax={f"SCHILY.xattr.user.a{i}": "x" for i in range(70)})], "attributes"),
}


def fill(place, entry):
    entry = Entry(**vars(entry))
    entry.name, entry.link = (text.replace(BASE, str(place.base)) for text in (entry.name, entry.link))
    return entry


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_entries_that_lead_out_are_refused(place, format):
    was = before(place)
    for name, (entries, *parts) in REFUSED.items():
        if "attributes" in name and format != tarfile.PAX_FORMAT:
            continue
        layer = archive(folder("first"), *(fill(place, entry) for entry in entries), format=format)
        try:
            refused(place, layer, *parts)
        except AssertionError as error:
            raise AssertionError(name) from error
        assert before(place) == was, name


def test_entries_that_are_made_harmless(place):
    """These are legal in archives: they become what a cell may have."""
    was = before(place)
    layer = archive(
        Entry(f"{place.base}/{CANARY}", b"inside"), Entry("/etc/passwd", b"root"),
        Entry("sticky", b"x", mode=0o7755, uid=1000), folder("shared", 0o7777),
        Entry("dev/null", type=tarfile.CHRTYPE), Entry("dev/sda", type=tarfile.BLKTYPE), Entry("pipe", type=tarfile.FIFOTYPE),
        symlink("away", "/etc/passwd"), symlink("up", "../" * 20), link("away2", "away"),
        Entry("x", b"x", pax={"SCHILY.xattr.user.kept": "1", "SCHILY.xattr.user.overlay.redirect": "/etc",
                              "SCHILY.xattr.security.capability": "x", "SCHILY.xattr.trusted.overlay.opaque": "y"}),
        Entry("owner", b"x", uid=70000), Entry(".wh..wh.plnk", b"x"), folder("closed", 0), Entry("closed/in", b"x", mode=0))
    layout, result = load(place, layer)
    assert result.status == 0 and "2 devices or sockets of a layer were left out" in result.err, result
    top = image_lab.tree(place, layout.diff_ids[0])
    assert before(place) == was
    assert top.joinpath(str(place.base)[1:], CANARY).read_bytes() == b"inside"
    assert (top / "etc/passwd").read_bytes() == b"root"
    assert sorted(os.listdir(top / "dev")) == [] and (top / "pipe").is_fifo()
    assert os.readlink(top / "away") == "/etc/passwd" and os.readlink(top / "away2") == "/etc/passwd"
    assert (top / "sticky").stat().st_mode & 0o7777 == 0o755 and (top / "shared").stat().st_mode & 0o6000 == 0
    assert os.listxattr(top / "x") == ["user.kept"] and os.getxattr(top / "x", "user.kept") == b"1"
    assert not (top / ".wh..wh.plnk").exists()
    owners = (top / "sticky").stat().st_uid, (top / "owner").stat().st_uid
    assert owners == ((1000, 0) if place.is_root else (place.uid, place.uid))
    if not place.is_root:
        assert (top / "closed/in").stat().st_mode & 0o777 == 0o400
    place.cloister("image", "remove", layout.digest).ok()
    assert leftovers(place) == [] and before(place) == was


def test_the_last_of_equal_paths_counts(place):
    layer = archive(
        Entry("a", b"one"), Entry("a", b"two"), Entry("b", b"file"), folder("b"), Entry("b/in", b"x"),
        folder("c"), Entry("c/in", b"x"), Entry("c", b"file"), symlink("d", "/etc"), folder("d"), Entry("d/in", b"x"),
        Entry("e", b"first"), link("f", "e"), Entry("f", b"other"), symlink("g", f"{place.base}/{CANARY}"), Entry("g", b"new"),
        Entry("./h//i/./j", b"x"), Entry("h/i/j", b"last"))
    was = before(place)
    layout, result = load(place, layer)
    result.ok()
    top = image_lab.tree(place, layout.diff_ids[0])
    assert {name: (top / name).read_bytes() for name in "aecfg"} == {
        "a": b"two", "e": b"first", "c": b"file", "f": b"other", "g": b"new"}
    assert (top / "b/in").is_file() and (top / "d/in").is_file() and not (top / "d").is_symlink()
    assert (top / "h/i/j").read_bytes() == b"last" and before(place) == was


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_names_are_kept_byte_by_byte(place, format):
    names = ["caf\u00e9", "\udcff\udcfe", "a\nb", "\x1b[31m", "n" * 255, "d/" * 40 + "e" * 200, " ", "-rf", "*"]
    layout, result = load(place, archive(*(Entry(name, b"x") for name in names), format=format))
    result.ok()
    top = image_lab.tree(place, layout.diff_ids[0])
    for name in names:
        assert os.path.exists(os.fsencode(top) + b"/" + os.fsencode(name)), ascii(name)


def test_a_name_in_an_error_is_safe_for_a_terminal(place):
    _, result = load(place, archive(Entry("\x1b]0;title\x07/../x", b"x")))
    assert "\x1b" not in result.sentence("would leave") and "\\x1b" in result.err


def test_whiteouts(place):
    """They hide what lower layers have, and nothing of their own layer."""
    layer = archive(
        Entry(".wh.gone"), Entry("deep/er/.wh.gone"), folder("opaque"), Entry("opaque/.wh..wh..opq"), Entry("opaque/new"),
        Entry("file", b"x"), Entry(".wh.file"), Entry(".wh.later"), Entry("later", b"x"), folder("new"), Entry(".wh.new"),
        Entry(".wh.implied"), Entry("implied/in", b"x"), Entry(".wh..wh.file", b"x"))
    layout, result = load(place, layer)
    result.ok()
    top = image_lab.tree(place, layout.diff_ids[0])
    for name in ("gone", "deep/er/gone"):
        assert (top / name).is_char_device() and (top / name).stat().st_rdev == 0
    for name in ("opaque", "new", "implied"):
        assert os.getxattr(top / name, "user.overlay.opaque") == b"y"
    assert (top / "file").read_bytes() == (top / "later").read_bytes() == b"x"
    assert not (top / ".wh..wh.file").exists() and os.listxattr(top) == []


# ---- bytes ----

def test_a_wrong_digest_is_refused(place):
    layer = archive(Entry("a", b"x"))
    was = before(place)
    refused(place, {"blobs": [squeeze(layer)], "diff_ids": [digest(b"other")]}, "its contents are", digest(layer))
    # A byte behind the end of the archive counts too.
    refused(place, {"blobs": [squeeze(layer + b"\0")], "diff_ids": [digest(layer)]}, "its contents are")
    layout = Layout(place.base / "images/changed", layer)
    path = layout.blobs / layout.layers[0].removeprefix("sha256:")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    place.cloister("image", "load", layout.ref).sentence(layout.layers[0], "is not what came")
    path.write_bytes(b"")
    place.cloister("image", "load", layout.ref).sentence("0 bytes")
    path.write_bytes(squeeze(layer) + b"more")
    place.cloister("image", "load", layout.ref).sentence("longer")
    assert image_lab.images(place) == [] and leftovers(place) == [] and before(place) == was


def test_streams_that_are_cut_short(place):
    layer = archive(Entry("a", secrets.token_bytes(5000)), Entry("b", b"x"))
    whole = squeeze(layer)
    for cut in (1, 5, 20, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        refused(place, {"blobs": [whole[:cut]], "diff_ids": [digest(layer)]}, "layer 1")
    # Not compressed, and in the middle of a file: the digest is that of what is there.
    refused(place, {"blobs": [layer[:3000]], "diff_ids": [digest(layer[:3000])]}, "layer 1", "cannot be read")
    refused(place, {"blobs": [b"no archive" * 100], "diff_ids": [digest(b"no archive" * 100)]}, "layer 1", "tar archive")
    refused(place, {"blobs": [squeeze(layer) + b"garbage"], "diff_ids": [digest(layer)]}, "gzip data is malformed")


def test_layers_in_several_members_and_codings(place):
    """zstd in frames, gzip in members, and none: whatever the media type says."""
    zstandard = pytest.importorskip("zstandard")
    layer = archive(Entry("a", b"x" * 3000))
    pack = zstandard.ZstdCompressor().compress
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    for blob in (pack(layer), skipped + pack(layer[:700]) + skipped + pack(layer[700:]),
                 squeeze(layer[:512]) + squeeze(layer[512:]), layer):
        layout, result = load(place, blobs=[blob], diff_ids=[digest(layer)])
        result.ok()
        assert (image_lab.tree(place, layout.diff_ids[0]) / "a").read_bytes() == b"x" * 3000
        place.cloister("image", "remove", layout.digest).ok()
    refused(place, {"blobs": [pack(layer)[:-3]], "diff_ids": [digest(layer)]}, "layer 1")


# ---- bombs ----

def sparse(size):
    """A file of SIZE bytes, all of it a hole (GNU's sparse format 1.0)."""
    return Entry("GNUSparseFile.0/hole", (b"1\n%d\n0\n" % size).ljust(512, b"\0"), pax={
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "hole", "GNU.sparse.realsize": str(size)})


@as_one
def test_holes_stay_holes_and_are_bounded(place):
    layout, result = load(place, archive(sparse(4 << 30)))
    result.ok()
    hole = image_lab.tree(place, layout.diff_ids[0]) / "hole"
    assert hole.stat().st_size == 4 << 30 and hole.stat().st_blocks < 100
    place.cloister("image", "remove", layout.digest).ok()
    refused(place, archive(sparse(1 << 40)), "'hole'", "over 16 GiB")
    many = [Entry(**{**vars(sparse(15 << 30)), "name": f"h{i}"}) for i in range(5)]
    for i, entry in enumerate(many):
        entry.pax = {**entry.pax, "GNU.sparse.name": f"h{i}"}
    refused(place, archive(*many), "its files are over 64 GiB")


@as_one
def test_a_bomb_is_stopped(place):
    """One member of zeroes, many times: over a gibibyte in, and a few bytes of it."""
    info = tarfile.TarInfo("zeroes")
    info.size = 15 << 30
    member = gzip.compress(bytes(32 << 20), 9)
    refused(place, {"blobs": [squeeze(info.tobuf(tarfile.GNU_FORMAT)) + member * 40], "diff_ids": [digest(b"")]}, "bomb")


@as_one
def test_a_million_entries_are_too_many(place):
    """Devices, which cost nothing to leave out."""
    info = Entry("dev", type=tarfile.CHRTYPE).info()
    block = info.tobuf(tarfile.GNU_FORMAT)
    members = squeeze(block * 5000)
    refused(place, {"blobs": [members * 201], "diff_ids": [digest(b"")]}, "over 1000000 entries")


# ---- the process ----

def locked(pid):
    status = status_of(pid)
    return status if status["Seccomp"] == "2" else None


@pytest.mark.skipif(not IS_ROOT, reason="only root sees a process that nobody may trace")
def test_the_unpackers_walls(place):
    """It waits for the first byte of a layer, and has given up everything else."""
    layer = place.folder("layer")
    helper = place.program.parent / "libexec/cloister-unpack"
    words = ["--diff-id", "any", "--owners", "keep" if place.is_root else "mine"]
    process = place.spawn("/bin/sh", "-c", f'exec "$0" "$@" 3<{layer}', helper, *words, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE)
    status = wait_until(lambda: locked(process.pid), "it is locked down")
    assert os.readlink(f"/proc/{process.pid}/root") == str(layer) == os.readlink(f"/proc/{process.pid}/cwd")
    chown_and_fowner = 1 << 0 | 1 << 3
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == (chown_and_fowner if place.is_root else 0)
    assert status["NoNewPrivs"] == "1" and int(status["CapInh"], 16) == 0
    files = {os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")}
    assert {name for name in files if not name.startswith("pipe:")} == {str(layer)}
    out, _ = process.communicate(archive(Entry("a", b"x")), timeout=60)
    assert out == b"done 1 1 0\n" and (layer / "a").read_bytes() == b"x"


# ---- archives around images ----

def outer(place, name, *entries):
    path = place.file(f"images/{name}.tar", archive(*entries))
    return str(path)


def test_hostile_archives_of_images(place):
    was = before(place)
    secret = place.base / CANARY
    cases = {
        "leaves": ([Entry(f"../{CANARY}", b"x")], "would leave"),
        "no image": ([Entry("a", b"x")], "cannot open its file"),
        "linked index": ([symlink("index.json", str(secret)), symlink("manifest.json", str(secret))], "cannot open its file"),
        "a pipe": ([Entry("index.json", type=tarfile.FIFOTYPE), Entry("manifest.json", type=tarfile.FIFOTYPE)], "no file"),
        "deep JSON": ([Entry("index.json", b"[" * 100000), Entry("manifest.json", b"[" * 100000)], ""),
        "large JSON": ([Entry("index.json", b" " * (5 << 20)), Entry("manifest.json", b" " * (5 << 20))], ""),
    }
    for name, (entries, part) in cases.items():
        path = outer(place, name.replace(" ", "-"), *entries)
        for kind in ("oci-archive", "docker-archive"):
            told = place.cloister("image", "load", f"{kind}:{path}").sentence("cannot load", part)
            assert secret.read_text() not in told
            assert leftovers(place) == [] and before(place) == was, name


def test_a_docker_archive_that_lies(place):
    layer = archive(Entry("a", b"x"))
    config = Layout(place.base / "images/l", layer).config
    good = [Entry("c.json", config), Entry("l.tar", layer)]
    lies = {
        '[{"Config":"../canary","RepoTags":[],"Layers":["l.tar"]}]': "cannot open its file",
        '[{"Config":"/etc/passwd","RepoTags":[],"Layers":["l.tar"]}]': "cannot open its file",
        '[{"Config":"c.json","RepoTags":[],"Layers":["../../../../etc/passwd"]}]': "cannot open its file",
        '[{"Config":"c.json","RepoTags":[],"Layers":["c.json"]}]': "layer 1",
        '[{"Config":"c.json","RepoTags":[],"Layers":[]}]': "layers",
        '[{"Config":"c.json","RepoTags":[],"Layers":[7]}]': "without a path",
        '[{"Config":7}]': "names no configuration",
        "[]": "lists no images",
        "{}": "lists no images",
    }
    for i, (text, part) in enumerate(lies.items()):
        path = outer(place, f"lie{i}", *good, Entry("manifest.json", text.encode()))
        place.cloister("image", "load", f"docker-archive:{path}").sentence(part)
        assert leftovers(place) == []


def test_documents_that_lie(place):
    layer = archive(Entry("a", b"x"))
    layout = Layout(place.base / "images/l", layer)
    index = layout.path / "index.json"
    good = index.read_text()
    for old, new in ((layout.digest, "sha256:../../canary"), (layout.digest, digest(b"absent")), ("schemaVersion", "x"),
                     (layout.digest, layout.layers[0])):
        index.write_text(good.replace(old, new))
        place.cloister("image", "load", layout.ref).sentence("cannot load")
        assert leftovers(place) == []
    index.write_text(good)
    place.cloister("image", "load", layout.ref).ok()


def test_no_image_takes_a_name_of_cloisters_own(place):
    layout = Layout(place.base / "images/l", archive(Entry("a", b"x")), name="cloister.internal/minimal:latest")
    place.cloister("image", "load", layout.ref).ok()
    assert [image["name"] for image in image_lab.images(place)] == [None]
    own = "cloister.internal/minimal:latest"
    for words in (["load", layout.ref, "--name", own], ["pull", own], ["pull", "docker://cloister.internal/x"],
                  ["build", "-t", own, place.folder("context", {"Dockerfile": "FROM scratch\nCOPY Dockerfile /\n"})]):
        place.cloister("image", *words).sentence("cloister's own")
    assert [image["name"] for image in image_lab.images(place)] == [None]


# ---- names -------------------------------------------------------------------------

PIN = "docker.io/library/debian@" + digest(b"another image")


def names(place):
    return {image["name"]: image["digest"] for image in image_lab.images(place)}


def resolve(place, word):
    return place.do(place.program.parent / "libexec/cloister-image", "--resolve", word)


@pytest.mark.parametrize("name", [PIN, PIN.replace("@", ":12@"), digest(b"x"), digest(b"x")[:20]])
def test_no_image_brings_a_digest_along(place, name):
    layout = Layout(place.base / "images/l", archive(Entry("a", b"x")), name=name)
    place.cloister("image", "load", f"{layout.ref}:{name}" if ":" not in name else layout.ref).ok()
    assert names(place) == {None: layout.digest}


def test_a_name_with_a_digest_is_that_image(place):
    """Even if the store says otherwise."""
    layout = Layout(place.base / "images/l", archive(Entry("a", b"x")), name="localhost/a:1")
    place.cloister("image", "load", layout.ref).ok()
    index = store(place) / "index.json"
    index.write_text(index.read_text().replace("localhost/a:1", PIN))
    place.cloister("image", "show", PIN).sentence("there is no image")
    pinned = f"localhost/other@{layout.digest}"
    assert layout.digest in place.cloister("image", "show", pinned).ok()
    assert layout.digest in resolve(place, pinned).ok()


@as_one
def test_a_digest_is_no_name_in_a_registry(place):
    for word in (digest(b"x"), digest(b"x")[:20]):
        resolve(place, word).sentence("there is no image")
        place.cloister("image", "pull", word).sentence("a digest stands behind a name")


@pytest.mark.parametrize("kind", ["oci", "oci-archive"])
def test_an_image_that_is_used_takes_no_name(place, kind):
    """Only `image load` gives names."""
    good = Layout(place.base / "images/good", archive(Entry("a", b"good")), name="localhost/a:1")
    place.cloister("image", "load", good.ref).ok()
    evil = Layout(place.base / "images/evil", archive(Entry("a", b"evil")), name="localhost/a:1")
    ref = evil.ref
    if kind == "oci-archive":
        ref = f"oci-archive:{place.base}/evil.tar"
        subprocess.run(["tar", "-C", evil.path, "-cf", place.base / "evil.tar", "."], check=True)
    for _ in range(2):
        assert evil.digest in resolve(place, ref).ok()
        assert names(place) == {"localhost/a:1": good.digest, None: evil.digest}


def test_a_name_goes_before_digits(place):
    """A stranger's image may be called as another's digest begins, and the other way round."""
    one = Layout(place.base / "images/one", archive(Entry("a", b"one")), name="localhost/one:1")
    two = Layout(place.base / "images/two", archive(Entry("a", b"two")), name="localhost/two:1")
    digits = one.digest[7:13]
    place.cloister("image", "load", one.ref).ok()
    assert one.digest in place.cloister("image", "show", digits).ok()
    place.cloister("image", "load", two.ref, "--name", digits).ok()
    for word, layout in ((digits, two), (f"sha256:{digits}", one), (one.digest, one), (one.digest[7:], one)):
        assert layout.digest in place.cloister("image", "show", word).ok()
        assert layout.digest in resolve(place, word).ok()
