"""`cloister image build`: images from Dockerfiles and YAML, whose commands run in cells."""
import base64
import contextlib
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

import images
from images import Store
from operators import IS_STATIC, SECONDS, TREE, as_one, only_root, read_until

pytestmark = pytest.mark.skipif(not IS_STATIC, reason="this init is not static")

BASE = "minimal:"
NOTES = "io.cloister.build."


def needs(*programs):
    missing = [p for p in programs if shutil.which(p) is None]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)}")


class Builder:
    def __init__(self, operator):
        if shutil.which("busybox") is None:
            pytest.skip("no busybox (package busybox-static)")
        self.operator = operator
        self.store = Store(operator)

    def context(self, name, files):
        return self.operator.folder(name, files)

    def build(self, files, *options, name="context", **how):
        """Build from FILES; `how` as of Operator.cloister()."""
        return self.operator.cloister("image", "build", *options, self.context(name, files), **how)

    def blob(self, digest):
        return self.store.top / "blobs/sha256" / images.hex_of(digest)

    def manifest(self, digest):
        return json.loads(self.blob(digest).read_text())

    def config(self, digest):
        return json.loads(self.blob(self.manifest(digest)["config"]["digest"]).read_text())

    def entries(self, digest, layer=-1):
        """The entries of a layer: {path: TarInfo}."""
        blob = self.blob(self.manifest(digest)["layers"][layer]["digest"]).read_bytes()
        with tarfile.open(fileobj=io.BytesIO(blob)) as archive:
            return {entry.name: entry for entry in archive}

    def digest(self, files, *options, **how):
        return self.build(files, *options, **how).ok().strip()

    def sh(self, digest, script):
        return self.operator.run("-q", "--image", digest, "--entrypoint", "", "--", "/bin/sh", "-c", script).ok()


@pytest.fixture
def builder(operator):
    return Builder(operator)


# ---- instructions ------------------------------------------------------------------

def test_a_dockerfile(builder):
    digest = builder.digest({"Dockerfile": f"""
ARG BASE={BASE}
FROM $BASE
ARG WHO=nobody
ENV A=1 B="two words" C=$A/${{WHO}}
WORKDIR /srv/here
COPY a.txt sub ./
RUN echo "$A $B $C $WHO" >out; pwd >>out; cat a.txt b.txt >>out
LABEL org.example.x="y z"
EXPOSE 80 53/udp
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["cat out"]
""", "a.txt": "a\n", "sub/b.txt": "b\n"}, "--build-arg", "WHO=me", "-t", "test:1")
    config = builder.config(digest)["config"]
    assert config["Env"][-3:] == ["A=1", "B=two words", "C=/me"]
    assert config["WorkingDir"] == "/srv/here" and config["Labels"] == {"org.example.x": "y z"}
    assert config["ExposedPorts"] == {"80/tcp": {}, "53/udp": {}}
    assert builder.operator.run("-q", "--image", "test:1").ok() == "1 two words /me me\n/srv/here\na\nb\n"


def test_stages(builder):
    digest = builder.digest({"Dockerfile": f"""
FROM {BASE} AS one
RUN mkdir -p /out/deep && echo one >/out/deep/f && ln -s deep/f /out/link
FROM {BASE} AS unused
RUN exit 1
FROM one AS two
RUN rm /out/deep/f && echo two >/out/g
FROM {BASE}
COPY --from=two /out /two
COPY --from=0 /out /one
"""})
    said = builder.sh(digest, "cd /two; ls; ls deep; cat g; cd /one; ls; cat link")
    assert said == "deep\ng\nlink\ntwo\ndeep\nlink\none\n"
    # Of several stages, only those that are needed.
    assert "unused" not in builder.build({}, "--target", "two", name="context").ok()


def test_entrypoint_drops_the_commands_of_the_base(builder):
    builder.digest({"Dockerfile": f"FROM {BASE}\nENV X=1\nCMD [\"a\"]\nCOPY Dockerfile /x"}, "-t", "base:1")
    config = builder.config(builder.digest({"Dockerfile": "FROM base:1\nENTRYPOINT run it\n"}, name="two"))["config"]
    assert config["Entrypoint"] == ["/bin/sh", "-c", "run it"] and "Cmd" not in config and "X=1" in config["Env"]


def test_copy(builder):
    """Modes, owners, patterns, links in the context and links in the image."""
    builder.digest({"Dockerfile": f"FROM {BASE}\nRUN ln -s usr/bin /sbin2 && echo app:x:77:88::/:/bin/sh >/etc/passwd"
                                  " && echo staff:x:99: >/etc/group && chmod 1777 /tmp && touch /tmp/x"}, "-t", "b:1")
    context = builder.context("c", {"Dockerfile": """FROM b:1
COPY tool /sbin2/
COPY --chown=app --chmod=0750 tool /one/tool
COPY --chown=app:staff *.txt /texts/
COPY links /links/
COPY tool /tmp/
COPY ignored /ignored
""", "tool": "t", "a.txt": "a", "b.txt": "b", ".dockerignore": "**/*.md\n**/secret\n", "ignored/x.md": "",
                                   "ignored/keep": "k", "ignored/secret": "s", "links/f": "f", "c.md": ""})
    (context / "links/abs").symlink_to("/etc/passwd")
    (context / "links/out").symlink_to("../../../../../../etc/shadow")
    digest = builder.operator.cloister("image", "build", context).ok().strip()
    entries = {layer: builder.entries(digest, layer) for layer in range(2, 8)}
    assert set(entries[2]) == {"usr", "usr/bin", "usr/bin/tool"}
    tool = entries[3]["one/tool"]
    assert (tool.uid, tool.gid, tool.mode) == (77, 77, 0o750)
    assert {n: (e.uid, e.gid) for n, e in entries[4].items()} == {n: (77, 99) for n in
                                                                 ("texts", "texts/a.txt", "texts/b.txt")}
    assert entries[5]["links/abs"].linkname == "/etc/passwd" and entries[5]["links/out"].issym()
    assert entries[6]["tmp"].mode == 0o1777
    assert set(entries[7]) == {"ignored", "ignored/keep"}
    assert {e.mtime for layer in entries.values() for e in layer.values()} == {0}


@pytest.mark.parametrize("source", ["../secret", "/../../secret", "link", "folder/../../secret"])
def test_nothing_outside_the_context_is_copied(builder, source):
    builder.operator.file("secret", "outside")
    context = builder.context("c", {"Dockerfile": f"FROM {BASE}\nCOPY {source} /x\n", "folder/f": ""})
    (context / "link").symlink_to("../secret")
    said = builder.operator.cloister("image", "build", context)
    assert said.status == 125 and "No such file" in said.err, said


def test_add_unpacks_archives(builder):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        entry = tarfile.TarInfo("in/side")
        entry.size, entry.mode = 2, 0o640
        archive.addfile(entry, io.BytesIO(b"hi"))
    files = {"Dockerfile": f"FROM {BASE}\nADD x.tar.gz /a/\nADD x.txt /b\nCOPY x.tar.gz /c/\n", "x.txt": "t"}
    context = builder.context("c", files)
    builder.operator.file("c/x.tar.gz", data.getvalue())
    digest = builder.operator.cloister("image", "build", context).ok().strip()
    assert set(builder.entries(digest, -3)) == {"a", "a/in", "a/in/side"}
    assert set(builder.entries(digest, -2)) == {"b"} and set(builder.entries(digest, -1)) == {"c", "c/x.tar.gz"}


@as_one
@pytest.mark.parametrize("text, words", [
    ("FROM minimal:\nVOLUME /x", ["Dockerfile:2", "VOLUME is not supported: leave it out"]),
    ("FROM minimal:\n\nFOO x", ["Dockerfile:3", "no instruction 'FOO'"]),
    ("FROM minimal:\nRUN <<EOF\nx\nEOF", ["Dockerfile:2", "here-documents"]),
    ("FROM minimal:\nRUN --mount=type=bind,target=/x y", ["Dockerfile:2", "--mount"]),
    ("FROM minimal:\nADD https://example.com/x /", ["Dockerfile:2", "only files of the build context"]),
    ("FROM minimal:\nCOPY none /", ["Dockerfile:2", "'none'"]),
    ("FROM minimal:\nCOPY *.none /", ["Dockerfile:2", "no file matches"]),
    ("FROM minimal:\nCOPY --chown=who Dockerfile /x", ["Dockerfile:2", "no 'who' in the image's /etc/passwd"]),
    ("FROM minimal:\nCOPY --chmod=rwx Dockerfile /x", ["Dockerfile:2", "'rwx' is not a mode"]),
    ("FROM minimal:\nCOPY Dockerfile /bin/busybox/x", ["Dockerfile:2", "Not a directory"]),
    ("FROM minimal:\nEXPOSE x", ["Dockerfile:2", "'x' is not a port"]),
    ("FROM --platform=linux/s390x minimal:\nENV A=b", ["Dockerfile:1", "linux/s390x"]),
    ("FROM scratch\nRUN true", ["Dockerfile:2", "empty image"]),
    ("FROM scratch\nENV A=b", ["would be empty"]),
])
def test_errors(builder, text, words):
    said = builder.build({"Dockerfile": text})
    assert said.status == 125 and all(word in said.err for word in words), said


@as_one
def test_a_failed_command_leaves_nothing(builder):
    said = builder.build({"Dockerfile": f"FROM {BASE}\nRUN echo said; exit 7\n"}, "-t", "test:1")
    assert said.status == 125 and "Dockerfile:2" in said.err and "status 7" in said.err and "said\n" in said.err
    assert "test:1" not in builder.operator.cloister("image", "list").ok()
    left = json.loads((builder.store.top / "index.json").read_text())["manifests"]
    assert [e["annotations"][images.NAME] for e in left] == ["cloister.internal/minimal:latest"]


@as_one
def test_an_interrupted_build_leaves_nothing(builder):
    operator = builder.operator
    context = builder.context("c", {"Dockerfile": f"FROM {BASE}\nRUN echo runs; sleep 1000\n"})
    folder = operator.folder("temporary")
    build = operator.spawn(operator.program, "image", "build", context, env={"TMPDIR": str(folder)},
                           start_new_session=True, stderr=subprocess.PIPE)
    read_until(build.stderr.fileno(), b"\nruns\n")
    os.killpg(build.pid, signal.SIGINT)
    assert b"interrupted" in build.stderr.read() and build.wait(SECONDS) == 125
    assert list(folder.iterdir()) == [] and operator.cells() == []
    assert len(json.loads((builder.store.top / "index.json").read_text())["manifests"]) == 1


@as_one
def test_builds_with_the_same_image_in_between(builder):
    """Nobody else sees it, so nobody takes it away."""
    operator = builder.operator
    text = f"FROM {BASE}\nCOPY f /f\nRUN echo runs"
    context = builder.context("slow", {"Dockerfile": f"{text}; sleep 1000\n", "f": "f"})
    build = operator.spawn(operator.program, "image", "build", context, start_new_session=True, stderr=subprocess.PIPE)
    try:
        read_until(build.stderr.fileno(), b"\nruns\n")
        assert [image["name"] for image in json.loads(operator.cloister("image", "list", "--json").ok())] == [
            "cloister.internal/minimal:latest"]
        builder.digest({"Dockerfile": f"{text}\n", "f": "f"}, name="quick")
        assert build.poll() is None
    finally:
        os.killpg(build.pid, signal.SIGINT)
        assert build.wait(SECONDS) == 125


# ---- cells ---------------------------------------------------------------------------

def test_the_changes_of_a_command(builder):
    """Removed files, replaced folders, hard links, modes; and nothing of cloister's own."""
    builder.digest({"Dockerfile": f"FROM {BASE}\nRUN mkdir -p /d/e /gone && touch /d/a /d/e/f /gone/x /f"}, "-t", "b:1")
    digest = builder.digest({"Dockerfile": "FROM b:1\nRUN rm /f && rm -r /gone /d && mkdir /d && echo b >/d/b"
                                           " && ln /d/b /d/c && chmod 4711 /d/b && ln -s b /d/l && mkfifo /d/p"
                                           " && echo x >/tmp/t && echo x >/etc/own && touch /run/r /dev/shm/s\n"},
                            name="two")
    entries = builder.entries(digest)
    assert set(entries) == {"d", "d/.wh..wh..opq", "d/b", "d/c", "d/l", "d/p", "etc", "etc/own", "tmp", "tmp/t",
                            ".wh.f", ".wh.gone"}
    assert entries["d/b"].mode == 0o4711 and entries["d/c"].islnk() and entries["d/p"].isfifo()
    assert entries["tmp"].mode == 0o1777
    assert [n.replace(".wh.", "") for n in entries if "opq" not in n] == sorted(
        n.replace(".wh.", "") for n in entries if "opq" not in n)
    assert builder.sh(digest, "ls /d; test -e /f || test -e /gone; echo $?").split() == ["b", "c", "l", "p", "1"]


def test_owners(builder):
    """Root's cells have ids of their own.  For anybody else, giving files away succeeds and does nothing."""
    digest = builder.digest({"Dockerfile": f"FROM {BASE}\nRUN touch /a && chown 12:34 /a && touch /b\nUSER 55:66\n"
                                           "RUN id >/tmp/id\n"})
    a, mine = builder.entries(digest, -2)["a"], builder.entries(digest)["tmp/id"]
    assert (a.uid, a.gid) == ((12, 34) if builder.operator.is_root else (0, 0))
    assert (mine.uid, mine.gid) == (55, 66)
    with tarfile.open(builder.blob(builder.manifest(digest)["layers"][-1]["digest"])) as archive:
        assert archive.extractfile("tmp/id").read() == b"uid=55 gid=66\n"


@as_one
def test_a_command_has_no_network_and_no_host(builder):
    digest = builder.digest({"Dockerfile": f"FROM {BASE}\n"
                             "RUN (ls /home /root /usr/bin; wget -q -O- http://host.cloister.internal:1; cat /proc/net/route)"
                             " >/out 2>&1; true\n"})
    said = builder.sh(digest, "cat /out")
    assert "busybox" not in said and "bad address" in said, said


@as_one
def test_limits_hold(builder):
    files = {"Dockerfile": f"FROM {BASE}\nRUN head -c 3000000 /dev/zero >/big\n"}
    said = builder.build(files, "--disk", "1M")
    assert said.status == 125 and "failed with status 1" in said.err, said
    builder.build(files, "--disk", "16M").ok()
    # A cell that does not even start is not the command's fault.
    policy = builder.operator.file("policy.yaml", "version: 1\nsecrets: [NO_SUCH_KEY]\n")
    said = builder.build(files, "-p", policy)
    assert said.status == 125 and f"no cell could be started for the command, with the policy '{policy}'" in said.err, said


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@contextlib.contextmanager
def served(folder):
    """FOLDER over HTTP on loopback: the port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Quiet(*a, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_policy_and_its_record(builder):
    builder.operator.folder("www", {"f": "from outside\n"})
    with served(builder.operator.base / "www") as port:
        policy = builder.operator.file("policy.yaml", f"version: 1\negress:\n  - allow: host.cloister.internal:{port}\n")
        files = {"Dockerfile": f"FROM {BASE}\nRUN wget -q -O /got http://host.cloister.internal:{port}/f\n"}
        refused = builder.build(files)
        assert refused.status == 125 and "Dockerfile:2" in refused.err
        digest = builder.digest(files, "--policy", policy, "-t", "test:1")
    assert builder.sh(digest, "cat /got") == "from outside\n"
    notes = builder.manifest(digest)["layers"][-1]["annotations"]
    assert set(notes) == {NOTES + "cell", NOTES + "policy", NOTES + "timeline"}
    assert builder.config(digest)["history"][-1]["comment"] == f"{NOTES}policy={notes[NOTES + 'policy']}"
    assert notes[NOTES + "policy"].startswith("sha256:")
    shown = builder.operator.cloister("image", "show", "test:1").ok()
    assert notes[NOTES + "cell"] in shown and notes[NOTES + "timeline"][7:19] in shown
    # The record is that of a timeline which can be verified.
    cell = notes[NOTES + "cell"]
    builder.operator.cloister("audit", "verify", cell).ok()
    events = next(builder.operator.base.rglob(f"ended/{cell}.*/events.jsonl")).read_bytes()
    assert notes[NOTES + "timeline"] == "sha256:" + hashlib.sha256(b"\0" + events.splitlines()[-1]).hexdigest()
    assert f"http://host.cloister.internal:{port}/f" in events.decode() or "/f" in events.decode()


# ---- the same inputs, the same image -----------------------------------------------------

def test_reproducible(builder):
    files = {"Dockerfile": f"FROM {BASE}\nCOPY . /src\nRUN mkdir /o && cp -r /src /o/a && date >/dev/null && rm /bin/ls\n",
             "a/b": "b", "c": "c", "d/e/f": "f"}
    one = builder.digest(files, name="one")
    shutil.rmtree(builder.operator.base / "one")
    for path in list((builder.store.top / "builds").iterdir()):
        path.unlink()
    other = dict(reversed(files.items()))
    two = builder.digest(other, "--no-cache", name="two")
    assert builder.manifest(one)["config"] == builder.manifest(two)["config"]
    plain = [[{k: v for k, v in layer.items() if k != "annotations"} for layer in builder.manifest(d)["layers"]]
             for d in (one, two)]
    assert plain[0] == plain[1]


@as_one
def test_source_date_epoch(builder):
    digest = builder.digest({"Dockerfile": f"FROM {BASE}\nRUN echo $SOURCE_DATE_EPOCH >/e\n"},
                            env={"SOURCE_DATE_EPOCH": "1000000000"})
    assert builder.entries(digest)["e"].mtime == 1000000000
    assert builder.config(digest)["created"] == "2001-09-09T01:46:40Z"
    assert builder.sh(digest, "cat /e") == "1000000000\n"


@as_one
def test_cache(builder):
    files = {"Dockerfile": f"FROM {BASE}\nARG V=1\nRUN echo first\nCOPY f /f\nRUN echo second\nRUN echo $V\n", "f": "1"}
    steps = lambda said: [json.loads(line) for line in said.ok().splitlines()]     # noqa: E731
    ran = lambda said: [s["instruction"] for s in steps(said) if s.get("state") == "begun" and "RUN" in s["instruction"]]  # noqa: E731
    assert len(ran(builder.build(files, "--json"))) == 3
    assert ran(builder.build(files, "--json")) == []
    assert ran(builder.build({**files, "f": "2"}, "--json")) == ["RUN echo second", "RUN echo $V"]
    assert len(ran(builder.build(files, "--json", "--no-cache"))) == 3
    assert len(ran(builder.build(files, "--json", "--allow", "example.com"))) == 3
    assert len(ran(builder.build(files, "--json", "--build-arg", "V=2"))) == 3
    last = steps(builder.build(files, "--json"))[-1]
    assert last["digest"].startswith("sha256:") and last["name"] is None


# ---- YAML --------------------------------------------------------------------------------

def test_yaml(builder):
    digest = builder.digest({"image.yaml": """
base: "minimal:"
env: {GREETING: it's $HOME}
files:
  - {from: a*, to: /opt/, owner: '7:8', mode: '0600'}
run: ['echo "$GREETING" >/greeting']
workdir: /opt
user: '9'
entrypoint: [/bin/cat]
cmd: [/greeting]
labels: {a: b}
""", "a1": "1", "a2": "2", "b": "3"})
    entry = builder.entries(digest, -2)["opt/a1"]
    assert (entry.uid, entry.gid, entry.mode) == (7, 8, 0o600) and "opt/b" not in builder.entries(digest, -2)
    config = builder.config(digest)["config"]
    assert config["User"] == "9" and config["WorkingDir"] == "/opt" and config["Labels"] == {"a": "b"}
    assert builder.sh(digest, "cat /greeting") == "it's $HOME\n"


def test_yaml_packages_are_commands(builder):
    """The commands that are run.  Debian has no apk: of that one, this is all that is tested."""
    tools = "".join(f"RUN printf '#!/bin/sh\\necho {tool} \"$@\" >>/calls\\n' >/bin/{tool} && chmod 755 /bin/{tool}\n"
                    for tool in ("apk", "python3", "npm"))
    builder.digest({"Dockerfile": f"FROM {BASE}\n{tools}"}, "-t", "tools:1")
    digest = builder.digest({"image.yaml": "base: tools:1\npackages:\n  apk: [curl, 'jq>1']\n  pip: [a==1]\n  npm: ['@x/y@2']\n"},
                            "--allow", "example.org", name="two")
    assert builder.sh(digest, "cat /calls").splitlines() == [
        "apk add --no-cache curl jq>1",
        "python3 -m pip install --no-cache-dir --root-user-action=ignore --disable-pip-version-check a==1",
        "npm install --global --no-audit --no-fund --no-update-notifier @x/y@2"]


@as_one
def test_packages_need_a_network(builder):
    said = builder.build({"image.yaml": 'base: "minimal:"\npackages: {apk: [curl]}\n'})
    assert said.status == 125 and "image.yaml:2" in said.err and "--allow" in said.err and "[1/" not in said.err, said


@as_one
def test_what_yaml_steps_do_is_shown(builder):
    said = builder.build({"image.yaml": 'base: "minimal:"\nenv: {A: b c}\nworkdir: /w\nentrypoint: [/bin/cat, x]\n'}, "--json")
    lines = [json.loads(line) for line in said.ok().splitlines()]
    assert [(e["instruction"], e["state"]) for e in lines[:-1]] == [
        (text, state) for text in ("ENV A='b c'", "WORKDIR /w", "ENTRYPOINT '/bin/cat' 'x'") for state in ("begun", "done")]


# ---- mistakes ----------------------------------------------------------------------------

@as_one
@pytest.mark.parametrize("options, words", [
    (["-t", "BAD:1"], ["no name of an image"]), (["-t", "cloister.internal/minimal"], ["cloister's own"]),
    (["--allow", "bad host"], ["bad host"]), (["--memory", "1X"], ["1X"]), (["--time", "soon"], ["soon"]),
])
def test_options_are_checked_first(builder, options, words):
    said = builder.build({"Dockerfile": f"FROM {BASE}\nRUN true\n"}, *options)
    said.sentence(*words)
    assert "Dockerfile" not in said.err


@as_one
def test_a_refusal_is_explained(builder):
    """That of a network that there is not, and that of a rule."""
    files = {"Dockerfile": f"FROM {BASE}\nRUN wget -q -O- http://example.org/\n"}
    said = builder.build(files, "--json", "--build-arg", "UNUSED=x")
    assert "this cell has none" in said.err and "no ARG UNUSED" in said.err, said
    assert "Dockerfile:2: the command failed" in json.loads(said.out.splitlines()[-1])["error"]
    said = builder.build(files, "--allow", "example.com")
    assert "no rule allows it" in said.err and "cloister why " in said.err, said


# ---- apt ---------------------------------------------------------------------------------

APT = ["/usr/bin/apt-get", "/usr/bin/apt-config", "/usr/bin/dpkg", "/usr/bin/dpkg-deb", "/usr/bin/dpkg-split",
       "/usr/bin/dpkg-query", "/usr/bin/tar", "/usr/bin/dash", "/usr/bin/rm", "/usr/bin/cat", "/usr/bin/ls",
       "/usr/bin/gzip", "/usr/bin/diff", "/usr/sbin/ldconfig", "/usr/sbin/start-stop-daemon", "/usr/bin/stat", "/usr/bin/sort"]


def programs_with_libraries():
    """Paths of programs, and of the libraries that they need."""
    paths = [Path(p) for p in APT] + list(Path("/usr/lib/apt/methods").iterdir())
    if not all(p.exists() for p in paths):
        pytest.skip("this machine has no apt")
    return paths + [Path(p) for p in libraries_of(*paths)]


def add_apt(root):
    for path in programs_with_libraries():
        real = path.resolve()
        to = root / str(real.parent).lstrip("/") / real.name
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            shutil.copy(real, to)
        link = root / str(path.parent.resolve()).lstrip("/") / path.name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(os.path.relpath(to, link.parent))
    for name in ("bin", "sbin", "lib", "lib64"):
        if Path("/" + name).is_symlink():
            (root / name).symlink_to("usr/" + name)
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
    (root / "usr/bin/sh").symlink_to("dash")
    shutil.copytree("/usr/share/dpkg", root / "usr/share/dpkg")
    for name in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d", "var/lib/apt/lists/partial",
                 "var/cache/apt/archives/partial", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log/apt", "tmp"):
        (root / name).mkdir(parents=True)
    for name in ("var/lib/dpkg/status", "var/lib/dpkg/available", "etc/group"):
        (root / name).write_text("")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n_apt:x:42:65534::/:/bin/false\n")


def make_package(folder, operator):
    """A package with a set-id program, a file of another owner and a script; and its index."""
    tree = folder / "hello"
    for name, text in {"DEBIAN/control": "Package: hello\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@example.org>\n"
                                         "Description: hello\n",
                       "DEBIAN/postinst": "#!/bin/sh\necho configured >/var/lib/hello\n", "usr/bin/hello": "#!/bin/sh\necho hi\n",
                       "usr/bin/plain": "x"}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tree / "usr/bin/hello").chmod(0o4755)
    env = {**os.environ, "SOURCE_DATE_EPOCH": "500000000"}
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", str(tree), str(folder / "hello.deb")], check=True,
                   capture_output=True, env=env)
    data = (folder / "hello.deb").read_bytes()
    control = (tree / "DEBIAN/control").read_text().rstrip("\n")
    (folder / "Packages").write_text(f"{control}\nFilename: ./hello.deb\nSize: {len(data)}\n"
                                     f"SHA256: {hashlib.sha256(data).hexdigest()}\n\n")


@needs("dpkg-deb", "ldd")
def test_apt_behind_a_policy(builder):
    operator = builder.operator
    repository = operator.folder("repository")
    make_package(repository, operator)
    context = operator.folder("base")
    (context / "root").mkdir()
    add_apt(context / "root")
    (context / "Dockerfile").write_text("FROM scratch\nCOPY root /\n")
    for path in [*context.rglob("*"), *repository.rglob("*")]:
        if not path.is_symlink():
            operator.own(path)
    with served(repository) as port:
        (context / "root/etc/apt/sources.list").write_text(
            f"deb [trusted=yes] http://host.cloister.internal:{port}/ ./\n")
        operator.cloister("image", "build", "-t", "apt:1", context).ok()
        files = {"image.yaml": "base: apt:1\npackages: {apt: [hello]}\n"}
        refused = builder.build(files, name="build")
        assert refused.status == 125 and "image.yaml:2" in refused.err, refused
        allow = ["--allow", f"host.cloister.internal:{port}"]
        digests = [builder.digest(files, *allow, "--no-cache", name="build") for _ in range(2)]
    entries = builder.entries(digests[0])
    assert entries["usr/bin/hello"].mode == 0o4755 and entries["usr/bin/hello"].mtime == 0
    assert {"usr/bin/plain", "var/lib/hello", "var/lib/dpkg/status"} <= set(entries)
    assert not [name for name in entries if name.startswith(("run/", "etc/ssl", "etc/cloister", "var/lib/apt/lists/host"))]
    assert builder.manifest(digests[0])["config"] == builder.manifest(digests[1])["config"]


# ---- pip and npm -------------------------------------------------------------------------

def libraries_of(*paths):
    found = subprocess.run(["ldd", *map(str, paths)], capture_output=True, text=True, check=False).stdout
    return sorted({word for line in found.splitlines() if not line.endswith(":") for word in line.split()
                   if word.startswith("/") and ".so" in word})


def base_with(builder, name, *paths, links=None):
    """An image of busybox and of these files and folders of the machine, without a copy of its layers as archives."""
    diff_id = images.digest_of(name.encode())
    top = builder.store.folder(f"layers/{images.hex_of(diff_id)}") / "fs"
    top.mkdir()
    leave_out = shutil.ignore_patterns("__pycache__", "test", "tests", "idlelib", "tkinter", "config-3*", "docs", "man")
    for path in map(Path, paths):
        to = top / str(path).lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, to, symlinks=True, ignore=leave_out, dirs_exist_ok=True)
        elif not to.exists():
            shutil.copy(path, to)
    for link, target in (links or {}).items():
        (top / link).parent.mkdir(parents=True, exist_ok=True)
        (top / link).symlink_to(target)
    if not builder.operator.is_root:
        for path in [top, *top.rglob("*")]:
            if not path.is_symlink():
                builder.operator.own(path)
    builder.store.add(f"docker.io/library/{name}", images.busybox(), diff_id, config={"Env": ["PATH=/usr/bin:/bin"]})


def install(builder, base, packages, env, port):
    """The digest of BASE with PACKAGES, which only come with a policy."""
    lines = "".join(f"  {name}: {value}\n" for name, value in env.items())
    files = {"image.yaml": f"base: {base}\nenv:\n{lines}packages: {packages}\n"}
    refused = builder.build(files, name="build")
    assert refused.status == 125 and "image.yaml:" in refused.err, refused
    return builder.digest(files, "--allow", f"host.cloister.internal:{port}", name="build")


@as_one
@needs("ldd")
def test_pip_behind_a_policy(builder):
    program, pip = Path("/usr/bin/python3").resolve(), Path("/usr/lib/python3/dist-packages/pip")
    modules = Path("/usr/lib") / program.name
    if not modules.is_dir() or not pip.is_dir():
        pytest.skip("no python3-pip of Debian's")
    base_with(builder, "python:1", program, modules, pip, *libraries_of(program, *modules.glob("lib-dynload/*.so")),
              links={"usr/bin/python3": program.name})
    index = builder.operator.folder("index/simple/hello")
    with zipfile.ZipFile(index / "hello-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in {"hello.py": "def say():\n    print('hello from a wheel')\n",
                           "hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
                           "hello-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                           "hello-1.0.dist-info/entry_points.txt": "[console_scripts]\nhello = hello:say\n",
                           "hello-1.0.dist-info/RECORD": ""}.items():
            wheel.writestr(name, text)
    with served(builder.operator.base / "index") as port:
        digest = install(builder, "python:1", "{pip: [hello==1.0]}", {
            "PIP_INDEX_URL": f"http://host.cloister.internal:{port}/simple", "PIP_TRUSTED_HOST": "host.cloister.internal",
            "PIP_RETRIES": "'0'"}, port)
    assert builder.sh(digest, "python3 -c 'import hello; hello.say()'; /usr/local/bin/hello") == "hello from a wheel\n" * 2
    assert builder.manifest(digest)["layers"][-1]["annotations"][NOTES + "policy"].startswith("sha256:")


@as_one
@needs("ldd", "node", "npm")
def test_npm_behind_a_policy(builder):
    node, npm = Path(shutil.which("node")).resolve(), Path(shutil.which("npm")).resolve().parents[1]
    base_with(builder, "node:1", npm, *libraries_of(node), links={"usr/bin/npm": f"{npm}/bin/npm-cli.js", "usr/bin/env": "/bin/busybox"})
    fs = builder.store.tree(images.digest_of(b"node:1"))
    shutil.copy(node, fs / "usr/bin/node")
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in {"package.json": '{"name": "hello", "version": "1.0.0", "bin": {"hello": "cli.js"}}',
                           "cli.js": "#!/usr/bin/env node\nconsole.log('hello from a package')\n"}.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    builder.operator.file("registry/hello.tgz", data.getvalue())
    with served(builder.operator.base / "registry") as port:
        address = f"http://host.cloister.internal:{port}"
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()
        builder.operator.file("registry/hello", json.dumps({"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {
            "1.0.0": {"name": "hello", "version": "1.0.0", "bin": {"hello": "cli.js"},
                      "dist": {"tarball": f"{address}/hello.tgz", "integrity": integrity}}}}))
        digest = install(builder, "node:1", "{npm: [hello@1.0.0]}", {
            "NPM_CONFIG_REGISTRY": address, "NPM_CONFIG_FETCH_RETRIES": "'0'"}, port)
    assert builder.sh(digest, "/usr/bin/hello; test -e /root/.npm || echo no cache") == "hello from a package\nno cache\n"
    assert "usr/lib/node_modules/hello/cli.js" in builder.entries(digest)


# ---- judges ------------------------------------------------------------------------------

JUDGED = f"""FROM docker-archive-base
ENV A=b
WORKDIR /w
COPY tree /t/
COPY --chown=3:4 f /w/g
RUN mkdir /made && echo x >/made/x && chmod 2750 /made && rm -r /t/gone && ln -s x /made/l && ln /made/x /made/h
USER 7
CMD ["/bin/cat", "/made/x"]
"""


def tree_of(folder):
    """{path: (mode, uid, gid, content)} of a root file system, but for what engines add."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.split("/")[0] in ("dev", "proc", "sys", "run") or name in ("etc", "etc/hosts", "etc/hostname", "etc/resolv.conf"):
            continue
        st = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[name] = (oct(st.st_mode), st.st_uid, st.st_gid, content)
    return found


def buildah(operator, *words):
    top = operator.base / "buildah"
    env = {**os.environ, "BUILDAH_ISOLATION": "chroot", "TMPDIR": str(operator.base)}
    return subprocess.run(["buildah", "--storage-driver", "vfs", "--root", top / "root", "--runroot", top / "run", *words], env=env, check=True,
                          capture_output=True, text=True).stdout.strip()


@only_root
@needs("buildah", "skopeo", "umoci")
def test_buildah_makes_the_same_files(builder):
    operator = builder.operator
    operator.cloister("run", "-q", "--root", "minimal", "--", "true").ok()
    base = operator.base / "base.tar"
    operator.cloister("image", "save", "cloister.internal/minimal:latest", f"oci-archive:{base}").ok()
    context = builder.context("c", {"f": "f", "tree/a/b": "b", "tree/gone/x": "x", "tree/c": "c"})
    (context / "tree/a").chmod(0o700)
    (context / "tree/link").symlink_to("a/b")
    (context / "Dockerfile").write_text(JUDGED.replace("docker-archive-base", "minimal:"))
    (context / "Theirs").write_text(JUDGED.replace("docker-archive-base", f"oci-archive:{base}"))
    operator.cloister("image", "build", "-t", "ours:1", context).ok()
    ours = operator.base / "ours.tar"
    operator.cloister("image", "save", "ours:1", f"oci-archive:{ours}").ok()
    inspected = json.loads(subprocess.run(["skopeo", "inspect", f"oci-archive:{ours}"], check=True, capture_output=True,
                                          text=True).stdout)
    assert len(inspected["Layers"]) == 5 and "A=b" in inspected["Env"]
    buildah(operator, "build", "-f", context / "Theirs", "-t", "theirs", context)
    trees = []
    for image in (f"oci-archive:{ours}", "localhost/theirs"):
        container = buildah(operator, "from", "--pull-never" if image.startswith("localhost") else "--pull", image)
        trees.append(tree_of(Path(buildah(operator, "mount", container))))
        buildah(operator, "umount", container)
    assert trees[0] == trees[1]


@only_root
@needs("buildah", "skopeo")
def test_an_image_of_buildah_runs(builder):
    operator = builder.operator
    operator.cloister("image", "load", "minimal:").ok()
    base = operator.base / "base.tar"
    operator.cloister("image", "save", "minimal:", f"oci-archive:{base}").ok()
    context = builder.context("c", {"f": "f", "tree/a/b": "b", "tree/gone/x": "x", "tree/c": "c", "Dockerfile": JUDGED.replace(
        "docker-archive-base", f"oci-archive:{base}").replace("USER 7\n", "")})
    buildah(operator, "build", "--format", "oci", "-t", "theirs", context)
    digests = set()
    for kind in ("oci", "docker-archive"):
        to = f"{kind}:{operator.base}/{kind}" + (":localhost/theirs:1" if kind == "docker-archive" else "")
        buildah(operator, "push", "localhost/theirs", to)
        got = json.loads(operator.cloister("image", "load", f"{kind}:{operator.base}/{kind}", "--name", f"localhost/{kind}:1",
                                           "--json").ok())
        inspected = subprocess.run(["skopeo", "inspect", "--no-tags", to], check=True, capture_output=True, text=True).stdout
        assert got["digest"] == json.loads(inspected)["Digest"]
        digests.add(got["digest"])
        assert operator.run("-q", "--image", f"localhost/{kind}:1").ok() == "x\n"
        assert operator.run("-q", "--root", "--image", f"localhost/{kind}:1", "--", "stat", "-c", "%a %u %g", "/made", "/w/g"
                            ).ok() == "750 0 0\n644 3 4\n"
        assert operator.run("-q", "--image", f"localhost/{kind}:1", "--", "ls", "/t").ok() == "a\nc\n"
    assert len(digests) == 2


# ---- the document ------------------------------------------------------------------------

@as_one
def test_the_examples_of_the_document_work(builder):
    text = (TREE / "docs/images-build.md").read_text()
    operator = builder.operator
    said = ""
    for script in re.findall(r"^```sh\n(.*?)^```$", text, flags=re.M | re.S):
        operator.file("script", script)
        said += operator.do("sh", "-e", operator.base / "script", cwd=operator.folder("scripts"),
                            env={"PATH": f"{operator.program.parent}:/usr/bin:/bin"}).ok()
    assert "HELLO FROM A CELL\n" in said
    assert operator.run("-q", "--image", "tool:1").ok() == "hello\n"


@as_one
def test_the_document_names_all_kinds_of_steps(builder):
    text = (TREE / "docs/images-build.md").read_text()
    names = re.findall(r'\[BUILD_\w+\] = "(\w+)"', (TREE / "src/image/build_plan.c").read_text())
    assert len(names) == 11 and all(re.search(rf"`[^`\n]*\b{name}\b", text) for name in names)


# ---- strangers' files ------------------------------------------------------------------

@pytest.mark.parametrize("scheme", ["oci:", "oci-archive:", "docker-archive:", "dir:", "docker-daemon:",
                                    "containers-storage:"])
def test_a_file_names_no_archives_and_engines(builder, scheme):
    """They are read with the operator's rights."""
    evil = images.layout(builder.operator, {**images.busybox(), "x": "x"}, name="evil")
    subprocess.run(["tar", "-C", evil, "-cf", evil.parent / "evil.tar", "."], check=True)
    ref = scheme + ("evil:1" if scheme[0] in "dc" and "-a" not in scheme and scheme != "dir:" else
                    str(evil.parent / "evil.tar") if "archive" in scheme else str(evil))
    for files in ({"Dockerfile": f"FROM {ref}\nCOPY Dockerfile /y"}, {"image.yaml": f'base: "{ref}"\nenv: {{A: b}}\n'},
                  {"Dockerfile": f"ARG A={ref}\nFROM $A\nCOPY Dockerfile /y"},
                  {"Dockerfile": f"FROM {BASE}\nCOPY --from={ref} /x /x"}):
        said = builder.build(files, name=f"context{len(str(files))}").err
        assert "images of the store and of registries only" in said, files
    if "archive" in scheme or scheme == "oci:":
        builder.operator.cloister("image", "load", f"oci:{evil}", "--name", "evil:1").ok()
        builder.digest({"Dockerfile": "FROM evil:1\nCOPY Dockerfile /y"}, name="named")


def test_a_policy_for_images_is_for_bases(builder):
    operator = builder.operator
    pinned = operator.file("pinned.yaml", "version: 1\nimages: {require: digest}\n")
    signed = operator.file("signed.yaml", f"version: 1\nimages: {{require: signature, keys: ['{operator.base}/k.pub']}}\n")
    operator.file("k.pub", subprocess.run(["openssl", "pkey", "-pubout"], check=True, capture_output=True, input=subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519"], check=True, capture_output=True).stdout).stdout)
    digest = builder.digest({"Dockerfile": f"FROM {BASE}\nCOPY Dockerfile /x"}, "-t", "localhost/base:1", name="base")
    for number, lines in enumerate(("FROM localhost/base:1\nCOPY Dockerfile /y", "FROM localhost/base:1\nRUN true",
                                    f"FROM {BASE}\nCOPY --from=localhost/base:1 /x /y")):
        files = {"Dockerfile": lines}
        assert "the policy requires a digest" in builder.build(files, "-p", pinned, name=f"c{number}").err
        done = builder.build(files, "-p", signed, name=f"c{number}")
        assert done.status != 0 and "localhost/base:1" in done.err
    builder.digest({"Dockerfile": f"FROM localhost/base@{digest}\nCOPY Dockerfile /y\nRUN touch /z"}, "-p", pinned, name="pin")
    # Cloister's own image needs neither.
    builder.digest({"Dockerfile": f"FROM {BASE}\nRUN touch /z"}, "-p", signed, name="own")


@as_one
def test_the_cache_knows_the_whole_policy(builder):
    operator = builder.operator
    policy = operator.file("policy.yaml", "version: 1\nextends: [more.yaml]\n")
    context = builder.context("c", {"Dockerfile": f"FROM {BASE}\nRUN touch /z"})
    seen = set()
    for host in ("a.example", "b.example"):
        operator.file("more.yaml", f"version: 1\negress:\n  - allow: {host}\n")
        for cached in False, True:
            done = operator.cloister("image", "build", "-p", policy, context)
            assert ("(cached)" in done.err) == cached, done
        seen.add(builder.manifest(done.ok().strip())["layers"][-1]["annotations"][NOTES + "policy"])
    assert len(seen) == 2


@pytest.mark.parametrize("how", ["run", "copy"])
def test_a_layer_that_could_not_be_unpacked(builder, how):
    """It is refused before its zeroes are written out."""
    for size, why in (900, "has over 16 GiB"), (15, "mostly holes"):
        context = builder.context(f"c{size}", {"Dockerfile": f"FROM {BASE}\n" + {
            "run": f"RUN truncate -s {size}G /x", "copy": "COPY x /x"}[how]})
        if how != "run":
            with open(context / "x", "wb") as file:
                file.truncate(size << 30)
        done = builder.operator.cloister("image", "build", context)
        assert done.status == 125 and why in done.err
        assert not list((builder.store.top / "parts").glob("*"))
