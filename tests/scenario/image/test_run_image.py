"""`cloister run --image`: a cell whose files are those of an image, and nothing of the host."""
import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

import images
import microvm
from images import FOLDER, WHITEOUT, Store
from operators import IS_ROOT, IS_STATIC, SECONDS, TREE, as_one

pytestmark = pytest.mark.skipif(not IS_STATIC, reason="this init is not static")

NAME = "docker.io/library/tiny:1"
OWN = {"dev", "etc", "home", "proc", "run", "sys", "tmp", "usr", "var"}


@pytest.fixture
def store(operator):
    return Store(operator)


@pytest.fixture
def tiny(store):
    """Three layers; the upper ones change the lower."""
    store.base = store.layer({**images.busybox(), "etc/passwd": "node:x:4321:4322::/home/node:/bin/sh\n",
                              "etc/own.conf": "its own\n", "etc/gone.conf": "x", "opt/old/a": "x", "opt/old/b": "x",
                              "srv/f": "lower\n", "home/node/.profile": "node's\n", "var/lib/f": "kept\n",
                              "top": "a file\n", "root/.x": "root's\n"})
    store.middle = store.layer({"opt/old/c": "new\n", "etc/gone.conf": WHITEOUT, "srv/f": "upper\n"}, opaque=["opt/old"])
    store.digest = store.add(NAME, store.base, store.middle, {"app/main": "#!/bin/sh\necho main $*\n"})
    return store


def listing(text):
    return set(text.split("\n")[:-1])


def sh(operator, script, *options, **how):
    return operator.run("--image", "tiny:1", *options, "--", "sh", "-c", script, **how)


# ---- files -----------------------------------------------------------------------

def test_only_the_images_files(operator, tiny):
    said = operator.run("--image", "tiny:1", "--", "ls", "-A", "/").ok()
    assert listing(said) == OWN | {"bin", "opt", "srv", "top", "root", "app"}
    said = sh(operator, "cat /top /etc/own.conf /srv/f /home/node/.profile /var/lib/f; ls -A /usr /tmp ~ /dev/shm")
    assert said.ok() == "a file\nits own\nupper\nnode's\nkept\n/dev/shm:\n\n/home/agent:\n\n/tmp:\n\n/usr:\n"


def test_whiteouts_and_opaque_folders(operator, tiny):
    assert sh(operator, "ls -A /opt/old; test -e /etc/gone.conf; echo $?; ls -A /etc | head -50").ok().startswith("c\n1\n")
    assert "gone.conf" not in sh(operator, "ls -A /etc").ok()


def test_nothing_of_the_host(operator, tiny):
    canary = operator.file("home/canary", "host")
    places = [canary, operator.base, tiny.top, operator.program, "/usr/bin", "/lib", "/boot", "/mnt", "/etc/shadow",
              "/etc/machine-id", "/etc/alternatives", "/etc/ld.so.cache", "/var/log", "/.lower", "/.changes"]
    said = operator.run("--image", "tiny:1", "--", "sh", "-c", 'for p; do test -e "$p" && echo "$p"; done; exit 0', "sh",
                        *map(str, places))
    assert said.ok() == ""
    # Nothing is mounted above the root, where ".." would lead to it.
    assert sh(operator, "ls -Ai / /.. /../../dev/..").ok().split("\n\n")[1].split("\n")[1:] == \
        operator.run("--image", "tiny:1", "--", "ls", "-Ai", "/").ok().split("\n")[:-1]
    # Nor does the list of mounts mention a path of it.
    told = sh(operator, "cat /proc/self/mountinfo /proc/self/mounts").ok()
    assert str(operator.base) not in told and images.hex_of(tiny.base)[:12] not in told


@pytest.mark.parametrize("options", [(), ("--root",), ("--profile", "nested")], ids=["agent", "root", "nested"])
def test_read_only_but_for_scratch(operator, tiny, options):
    def state():
        return sorted((str(p), p.lstat().st_mtime_ns) for p in (tiny.top / "layers").rglob("*"))

    before = state()
    said = sh(operator, "for p in / /bin /opt/old /etc /usr /var /var/lib /home /home/node /root /app /dev /sys /run; do"
              " touch $p/made 2>/dev/null && echo $p; done; (echo x >/top) 2>/dev/null && echo top;"
              " for p in /tmp /var/tmp /dev/shm ~; do touch $p/made || echo $p; done", *options)
    assert said.ok() == ""
    assert state() == before


def test_generated_files_are_above_the_images(operator, tiny):
    said = sh(operator, "cat /etc/passwd; id -un; cat /etc/hostname; ls -l /dev/null; readlink /var/run")
    assert "node:" not in said.ok() and "\nagent\ncell\n" in said.out and said.out.endswith("/run\n")


def test_grants_anywhere_in_it(operator, tiny):
    folder = operator.folder("granted", {"f": "x"})
    said = sh(operator, "cat /opt/old/here/f /data/f /app/main; touch /data/made", "-v", f"{folder}:/opt/old/here:ro",
              "-v", f"{folder}:/data", "-v", f"{folder / 'f'}:/app/main:ro")
    assert said.ok() == "xxx" and (folder / "made").exists()
    assert not (tiny.tree(tiny.middle) / "opt/old/here").exists()


@pytest.mark.parametrize("to", ["/bin/busybox", "busybox", "/no/such"])
def test_a_grant_replaces_a_link_of_the_image(operator, store, to):
    """It never covers the link's target, on which other paths depend."""
    store.add(NAME, {**images.busybox(), "bin/tool": Path(to), "data": Path("/bin"), "opt/link": Path("/bin")})
    granted = operator.folder("granted", {"f": "granted\n"})
    said = sh(operator, "cat /bin/tool /data/f /opt/link/new; ls /bin | wc -l; test -L /bin/tool || test -L /data; echo $?",
              "-v", f"{granted / 'f'}:/bin/tool:ro", "-v", f"{granted}:/data:ro", "-v", f"{granted / 'f'}:/opt/link/new:ro")
    assert said.ok() == f"granted\ngranted\ngranted\n{len(images.APPLETS) + 3}\n1\n"


def test_a_working_folder_that_is_a_link(operator, store):
    store.add(NAME, {**images.busybox(), "app": Path("/srv/app"), "srv/app/f": "x"}, config={"WorkingDir": "/app"})
    assert sh(operator, "pwd -P; cat f").ok() == "/srv/app\nx"


def test_workspace_in_an_image(operator, tiny):
    folder = operator.folder("work", {"f": "old\n"})
    cell = operator.run("--image", "tiny:1", "-q", "-w", folder, "--", "sh", "-c",
                        "echo $CLOISTER_CELL; pwd; echo new >f").ok().split("\n")
    operator.kept.add(cell[0])
    assert cell[1] == str(folder) and (folder / "f").read_text() == "old\n"
    assert "+new" in operator.cloister("diff", cell[0]).ok()


@pytest.mark.parametrize("trick", ["dev", "etc", "tmp", "proc", "var", "home", "home/agent", "sys", ".lower"])
def test_links_in_place_of_cloisters_own_folders(operator, store, trick):
    """Whoever made the image gets nothing outside it, and breaks nothing."""
    target = operator.folder("target")
    store.add(NAME, {**images.busybox(), trick: Path(target), "x": FOLDER})
    assert sh(operator, "ls -A /dev | wc -l; touch /tmp/x ~/x; cat /etc/hostname").ok().endswith("cell\n")
    assert not os.listdir(target)


def test_files_in_place_of_cloisters_own(operator, store):
    store.add(NAME, {**images.busybox(), "dev/null": "not a device", "dev/pts/x": "x", "sys/x": "x", "proc/x": "x",
                     "run/cloister/x": "x", "etc/hostname": FOLDER, "etc/resolv.conf/x": "x", "var/run/x": "x"})
    said = sh(operator, "echo gone >/dev/null; cat /dev/null; ls -A /sys; ls /dev/pts; cat /etc/hostname; cat /proc/1/comm")
    assert said.ok() == "ptmx\ncell\ncloister-init\n"


def test_many_layers(operator, store):
    layers = [{f"n/{i}": str(i), "last": f"{i}\n"} for i in range(127)]
    store.add(NAME, images.busybox(), *layers)
    assert sh(operator, "ls /n | wc -l; cat /last").ok() == "127\n126\n"


def test_set_id_bits_do_nothing(operator, store):
    layer = store.layer(images.busybox())
    (store.tree(layer) / "bin/busybox").chmod(0o6755)
    store.add(NAME, layer)
    assert "nosuid" in [line for line in sh(operator, "cat /proc/self/mounts").ok().split("\n") if " / " in line][0]


# ---- its configuration -----------------------------------------------------------

def test_entrypoint_and_cmd(operator, tiny):
    config = {"Entrypoint": ["/bin/echo", "entry"], "Cmd": ["cmd 1", "2"]}
    tiny.add("docker.io/library/both:latest", tiny.base, config=config)
    tiny.add("docker.io/library/cmd:latest", tiny.base, config={"Cmd": ["echo", "cmd"]})
    assert operator.run("--image", "both").ok() == "entry cmd 1 2\n"
    assert operator.run("--image", "both", "--", "mine").ok() == "entry mine\n"
    assert operator.run("--image", "both", "--entrypoint", "pwd").ok() == "/home/agent\n"
    assert operator.run("--image", "both", "--entrypoint", "", "--", "echo", "a").ok() == "a\n"
    assert operator.run("--image", "cmd").ok() == "cmd\n"
    assert operator.run("--image", "cmd", "--", "pwd").ok() == "/home/agent\n"


def test_an_image_without_a_command(operator, tiny):
    operator.run("--image", "tiny:1").sentence("'tiny:1'", "no command")
    operator.run("--entrypoint", "x", "--", "true").sentence("--entrypoint", "--image")


def test_variables(operator, tiny):
    tiny.add(NAME, tiny.base, config={"Env": ["PATH=/app:/bin", "A=image", "B=im=age", "HOME=/root", "malformed", "=x",
                                              "USER=x", "CLOISTER_CELL=x"]})
    said = operator.run("--image", "tiny:1", "-e", "A=mine", "--", "env").ok().split("\n")
    assert {"PATH=/app:/bin", "A=mine", "B=im=age", "HOME=/home/agent", "USER=agent"} <= set(said)
    assert "malformed" not in said and "=x" not in said and "CLOISTER_CELL=x" not in said


def test_its_path_finds_the_command(operator, tiny):
    tiny.add(NAME, tiny.base, {"app/hello": "#!/bin/sh\necho hello\n"}, config={"Env": ["PATH=/app:/bin"], "Cmd": ["hello"]})
    assert operator.run("--image", "tiny:1").ok() == "hello\n"


def test_certificates_with_a_policy(operator, tiny):
    """The image's own authorities, and the cell's."""
    bundle = "etc/ssl/certs/ca-certificates.crt"
    tiny.add(NAME, tiny.base, {bundle: "lower\n"}, {bundle: "of the image\n"})
    said = sh(operator, f"cat /{bundle}; ls -A /etc/ssl/certs; cat /etc/resolv.conf; env", "--allow", "a.example").ok()
    assert said.startswith("of the image\n-----BEGIN CERTIFICATE") and "lower" not in said
    assert f"SSL_CERT_FILE=/{bundle}\n" in said and "nameserver" in said and "java" not in said
    tiny.add(NAME, tiny.base, {"etc/ssl/certs/java/cacerts": "x"})
    assert "cacerts" in sh(operator, "find /etc/ssl/certs/java -size +0", "--allow", "a.example").ok()


def test_secrets_in_variables_are_flagged(operator, tiny):
    key = "ghp_" + "a" * 36
    tiny.add(NAME, tiny.base, config={"Env": [f"OPENAI_API_KEY={key}", "LEVEL=info", f"X={'AKIA'}Z7QXRT5WPLMN3VKD"]})
    said = operator.run("--image", "tiny:1", "--", "env")
    assert f"OPENAI_API_KEY={key}" in said.ok()
    lines = said.err.split("\n")
    assert "OPENAI_API_KEY" in lines[0] and "looks like a secret" in lines[0] and key not in said.err
    assert "LEVEL" not in said.err
    assert operator.run("-q", "--image", "tiny:1", "--", "env").err == ""


def test_working_folder(operator, tiny):
    tiny.add(NAME, tiny.base, config={"WorkingDir": "/srv", "Cmd": ["pwd"]})
    assert operator.run("--image", "tiny:1").ok() == "/srv\n"
    folder = operator.folder("work")
    assert operator.run("--image", "tiny:1", "-w", f"{folder}:ro").ok() == f"{folder}\n"
    for made in "/new/deep", "/tmp/here", "/opt/old/new":
        tiny.add(NAME, tiny.base, config={"WorkingDir": made, "Cmd": ["pwd"]})
        assert operator.run("--image", "tiny:1").ok() == f"{made}\n"
    tiny.add(NAME, tiny.base, config={"WorkingDir": "not/absolute", "Cmd": ["pwd"]})
    operator.run("--image", "tiny:1").sentence("not/absolute")


@pytest.mark.parametrize("user", ["4321:4322", "node", "4321", ""])
def test_files_of_its_user_are_the_agents(operator, tiny, user):
    mine, other = ("node/file", "theirs") if user else ("theirs", "node/file")
    layer = tiny.layer({"node/file": "x", "theirs": "x"}, owners={"node/file": 4321})
    tiny.add(NAME, tiny.base, layer, config={"User": user})
    said = sh(operator, f"id -u; stat -c %U /{mine} /{other}; stat -c %u /{other}").ok().split("\n")
    assert said[:2] == ["1000", "agent"]
    if operator.is_root:
        assert said[2] != "agent" and said[3] == ("0" if user else "4321")
    assert sh(operator, "id -u", "--root").ok() == "0\n"


def test_a_user_that_is_not_there(operator, tiny):
    tiny.add(NAME, tiny.base, config={"User": "nobody-here"})
    sh(operator, "true").sentence("'nobody-here'", "/etc/passwd")


def test_a_shell_less_image(operator, store):
    static = images.busybox()["bin/busybox"]
    store.add(NAME, {"echo": static}, config={"Entrypoint": ["/echo", "from scratch"]})
    assert operator.run("--image", "tiny:1").ok() == "from scratch\n"
    done = operator.run("--image", "tiny:1", "--entrypoint", "sh")
    assert done.status == 127 and done.err == "cloister: cannot run 'sh': there is no such command in the image" \
        f" '{NAME}'\n"


def mappings(pid):
    """The parts of /proc/PID/smaps: path, mode, and sizes in KiB."""
    found = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            found.append({"mode": words[1], "path": words[5] if len(words) > 5 else ""})
        elif words[-1] == "kB":
            found[-1][words[0].rstrip(":")] = int(words[1])
    return found


# ---- the store -------------------------------------------------------------------

def test_two_cells_share_one_copy(operator, tiny):
    file = tiny.tree(tiny.base) / "bin/busybox"
    ids = [operator.detach("--image", "tiny:1", "--", "sleep", "1000") for _ in range(2)]
    for id in ids:
        assert operator.cloister("exec", id, "stat", "-c", "%i", "/bin/busybox").ok() == f"{file.stat().st_ino}\n"
    # Mapped by both at once, and each page is there once.
    pids = [next(p for p in operator.pids(id) if Path(f"/proc/{p}/comm").read_text() == "sleep\n") for id in ids]
    for pid in pids:
        parts = [part for part in mappings(pid) if part["path"] == "/bin/busybox" and "x" in part["mode"]]
        assert parts and all(part["Rss"] == part["Shared_Clean"] + part["Shared_Dirty"] > part["Pss"]
                             for part in parts), parts


def test_it_is_held_while_the_cell_runs(operator, tiny):
    use = tiny.top / "uses" / images.hex_of(tiny.digest)
    id = operator.detach("--image", "tiny:1", "--", "sleep", "1000")
    assert operator.do("flock", "-n", use, "true").status == 1
    operator.cloister("kill", id).ok()
    assert operator.do("flock", "-w", "20", use, "true").status == 0


def test_a_missing_layer(operator, tiny):
    (tiny.top / "layers" / images.hex_of(tiny.middle)).rename(tiny.top / "aside")
    assert operator.run("--image", "tiny:1", "--", "true").status == 125


def test_by_digest(operator, tiny):
    assert operator.run("--image", tiny.digest, "--", "cat", "/top").ok() == "a file\n"
    assert operator.run("--image", f"tiny@{tiny.digest}", "--", "cat", "/top").ok() == "a file\n"
    operator.run("--image", "sha256:" + "0" * 64, "--", "true").sentence("not in the store")


def test_another_architecture(operator, tiny):
    tiny.add(NAME, tiny.base, architecture="s390x")
    sh(operator, "true").sentence("s390x")


# ---- records and documents -------------------------------------------------------

@as_one
def test_what_is_recorded(operator, tiny):
    cell = operator.detach("--image", "tiny:1", "--", "sh", "-c", "true")
    operator.cloister("wait", cell)
    boot = next(e for e in map(json.loads, operator.cloister("events", cell, "--json").ok().splitlines())
                if e["type"] == "cell.boot")
    assert boot["grant"]["image"] == {"name": NAME, "digest": tiny.digest}


def test_its_document(operator, tiny):
    tiny.digest = tiny.add(NAME, tiny.base, config={"Entrypoint": ["echo", "entry"], "Cmd": ["cmd"]})
    doc = json.loads(operator.run("--image", "tiny:1", "--print-doc").ok())
    assert doc["image"] == {"name": NAME, "digest": tiny.digest} and doc["command"] == ["echo", "entry", "cmd"]
    file = operator.file("doc.json", json.dumps(doc))
    assert operator.run("--doc", file).ok() == "entry cmd\n"
    # The name may be another image's by now.
    tiny.add(NAME, {"x": "y"})
    assert operator.run("--doc", file).ok() == "entry cmd\n"
    for image, part in ({"digest": "sha256:" + "1" * 64}, "not in the store"), ({}, "'name' or 'digest'"), ("x", "object"):
        operator.file("doc.json", json.dumps(doc | {"image": image}))
        operator.run("--doc", file).sentence(part)
    operator.file("doc.json", json.dumps(doc | {"rootfs": "/srv"}))
    operator.run("--doc", file).sentence("'image' and 'rootfs'")


# ---- other roots -----------------------------------------------------------------

@pytest.fixture
def static(operator):
    path = operator.file("static", images.busybox()["bin/busybox"])
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("words", [("--root", "none"), ("--root=none",)])
def test_no_root(operator, static, words):
    said = operator.run(*words, "-v", f"{static}:/busybox:ro", "--", "/busybox", "ls", "-A", "/").ok()
    assert listing(said) == OWN | {"busybox"}
    said = operator.run(*words, "-v", f"{static}:/busybox:ro", "--", "/busybox", "sh", "-c",
                        "cd /; /busybox find usr var home run sys etc ! -type d; /busybox touch /tmp/x ~/x; /busybox id -u")
    made = listing(said.ok())
    assert made == {"etc/passwd", "etc/group", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/nsswitch.conf",
                    "var/run", "1000"}


def test_no_root_without_a_program(operator):
    done = operator.run("--root", "none", "--", "ls")
    assert done.status == 127 and "--root none" in done.err


@as_one
def test_no_root_in_a_document(operator, static):
    words = ["-v", f"{static}:/busybox:ro", "--", "/busybox", "echo", "hello"]
    doc = json.loads(operator.run("--root", "none", "--print-doc", *words).ok())
    assert doc["root"] == "none"
    assert operator.run("--doc", operator.file("doc.json", json.dumps(doc))).ok() == "hello\n"
    operator.run("--doc", operator.file("doc.json", json.dumps(doc | {"root": "some"}))).sentence("root", "none")
    operator.run("--root", "--root", "none", "--print-doc", *words).sentence("--root none")


def test_the_word_root_alone(operator):
    assert operator.run("--root", "--", "id", "-u").ok() == "0\n"
    assert operator.run("--root", "id", "-u").ok() == "0\n"
    assert operator.run("--root", "host", "id", "-u").ok() == "1000\n"
    assert operator.run("--root", "--root=host", "id", "-u").ok() == "0\n"
    operator.run("--root=other", "--", "true").sentence("'other'", "none", "minimal")


def test_words_that_are_no_command(operator):
    done = operator.run("--root", "minmal", "--", "ls")
    assert done.status == 127 and "host, none or minimal" in done.err
    done = operator.run("debian:12", "sh")
    assert done.status == 127 and "--image debian:12" in done.err
    assert "--image ghcr.io/a/b:1" in operator.run("ghcr.io/a/b:1", "sh").err


def test_one_root_at_a_time(operator, tiny):
    for words in ("--image", "tiny:1", "--root", "none"), ("--image", "tiny:1", "--rootfs", operator.home), \
            ("--root", "none", "--rootfs", operator.home):
        operator.run(*words, "--", "true").sentence("one root")


# ---- with `cloister image` -------------------------------------------------------

def test_from_a_layout(operator, store):
    """It is unpacked on first use."""
    folder = images.layout(operator, {**images.busybox(), "etc/own.conf": "x", "old/a": "x"},
                           {"etc/.wh.own.conf": "", "old/.wh..wh..opq": "", "old/b": "x"}, config={"Cmd": ["sh"]})
    said = operator.run("--image", f"oci:{folder}", "--", "sh", "-c", "test -e /etc/own.conf; echo $?; ls -A /old").ok()
    assert said == "1\nb\n"
    digest = json.loads(operator.cloister("image", "list", "--json").ok())
    assert images.hex_of(json.loads((folder / "index.json").read_text())["manifests"][0]["digest"]) in str(digest)


def test_what_runs_is_not_removed(operator, tiny):
    tiny.add(None, {"x": "y"})
    id = operator.detach("--image", "tiny:1", "--", "sleep", "1000")
    operator.cloister("image", "remove", "tiny:1").sentence("running cell")
    operator.cloister("image", "prune").ok()
    assert operator.cloister("exec", id, "cat", "/srv/f").ok() == "upper\n"
    assert sh(operator, "cat /srv/f").ok() == "upper\n"
    operator.cloister("kill", id).ok()
    operator.cloister("wait", id)
    operator.cloister("image", "remove", "tiny:1").ok()
    operator.cloister("image", "prune").ok()
    assert operator.run("--image", tiny.digest, "--", "true").status == 125 and not tiny.tree(tiny.middle).exists()


def test_the_minimal_root(operator):
    said = operator.run("--root", "minimal", "--", "sh", "-c", "ls -A / /usr; busybox true; cat /etc/hostname").ok()
    assert listing(said.split("\n\n")[0] + "\n") - {"/:"} <= OWN | {"bin", "sbin"} and said.endswith("cell\n")


def test_no_such_image(operator):
    done = operator.run("--image", "oci:/no/such", "--", "true")
    assert done.status == 125 and "/no/such" in done.err and done.err.count("\n") == 1
    operator.run("--image", "UPPER CASE", "--", "true").sentence("'UPPER CASE'")


@as_one
def test_the_documents_examples(operator, tiny):
    """Each line of docs/images-run.md, with images of these names."""
    python = "#!/bin/sh\necho python3 $*\n"
    tiny.add("docker.io/library/debian:12", tiny.base, {"etc/debian_version": "12.0\n"})
    tiny.add("docker.io/library/python-tool:latest", tiny.base, {"bin/python3": python}, config={"Entrypoint": ["python3"]})
    text = (TREE / "docs/images-run.md").read_text()
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```$", text, flags=re.M | re.S) for line in block.splitlines()]
    said = [operator.cloister(*shlex.split(line)[1:]).ok() for line in lines]
    assert said[0] == "12.0\n" and said[2:4] == ["python3 -c print(1)\n", "hello\n"] and '"digest"' in said[4], said


# ---- in a virtual machine --------------------------------------------------------

LONG = SECONDS * 6
LOOK = "ls -A / | wc -l; cat /srv/f; ls -A /opt/old; test -e /etc/gone.conf; echo $?; pwd; stat -c %u /srv/f /home/node/.profile;" \
       "touch /tmp/x && echo written; touch /srv/x 2>/dev/null; touch /x 2>/dev/null; ls -A /.. | wc -l; cat /etc/hostname"


@pytest.mark.parametrize("who", [*(["root"] if IS_ROOT else []), pytest.param("user", marks=pytest.mark.skipif(
    not os.environ.get("CLOISTER_TEST_VM"), reason="make test-vm"))])
def test_in_a_virtual_machine(operator, tiny, ground):
    """From a disk that has the merged layers, made once for an image."""
    if shutil.which("mkfs.erofs") is None:
        pytest.skip("no mkfs.erofs (package erofs-utils)")
    tiny.add(NAME, tiny.base, tiny.middle, tiny.layer({"x": "x"}, owners={"x": 4321}),
             config={"User": "node", "WorkingDir": "/new/folder"})
    operator.env |= microvm.environment(ground)
    microvm.begin(operator, ground)
    try:
        said = sh(operator, LOOK + "; stat -c %u /x", "--memory", "256M", seconds=LONG).ok().split("\n")
        (disk,) = microvm.disks(operator)
        mounts = sh(operator, "cat /proc/mounts", "--memory", "256M", seconds=LONG).ok()
        assert microvm.disks(operator) == [disk] and "virtiofs" not in mounts and mounts.startswith("image / overlay ro,")
    finally:
        microvm.end(operator, ground)
    owner = "0" if operator.is_root else "1000"
    assert said[1:9] == ["upper", "c", "1", "/new/folder", owner, owner, "written", said[0]]
    assert said[9:11] == ["cell", "1000"]
