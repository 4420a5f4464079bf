"""Podman and Docker with cloister-oci as their runtime: their containers are cells, with a policy."""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess

import pytest

from bundles import needs_busybox, root_folder, runtime_of
from operators import IS_ROOT, IS_STATIC, SECONDS, TREE, end, only_root, only_user, wait_until
from terminal import Terminal

pytestmark = [needs_busybox,
              pytest.mark.skipif(not IS_ROOT or not IS_STATIC, reason="it takes root, and static programs")]

RULES = "version: 1\negress:\n  - {allow: www.example.test, paths: ['/oci/**']}\n"
ASK = "echo $CLOISTER_CELL; wget -qO- http://www.example.test/oci/x; echo; wget -qO- http://www.example.test/no; exit 9"
# The engines' own runtimes refuse machines that have both versions of cgroups.
ENTER = ["unshare", "--mount", "sh", "-ec", 'umount /sys/fs/cgroup/unified 2>/dev/null || true; exec "$@"', "sh"]
OWN_RUN = ["sh", "-ec", 'mount -t tmpfs tmpfs /run; exec "$@"', "sh"]
CONF = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
"""


def example(kind):
    """The document's example for people who set an engine up."""
    text = (TREE / "docs/runtimes.md").read_text()
    text = text[text.index("## cloister as an OCI runtime"):]
    return re.search(rf"^```{kind}\n(.*?)^```$", text, flags=re.M | re.S).group(1)


class Engine:
    """A client of an engine: NAME RUNTIME-OPTIONS... CLIENT-WORDS."""

    def __init__(self, online, words, runtime, policy):
        self.online, self.operator = online, online.operator
        self.words, self.runtime, self.policy = words, runtime, policy

    def do(self, *words, **how):
        return self.operator.do(*self.words, *words, **how)

    def run(self, *words, policy=False, **how):
        return self.do("run", *(self.policy if policy else self.runtime), "--network", "none", *words, **how)


def import_image(engine):
    root = root_folder(engine.operator, "image")
    archive = engine.operator.base / "image.tar"
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    engine.do("import", archive, "box").ok()


def judge(engine):
    """The same life of a container with every engine."""
    online, operator = engine.online, engine.operator
    online.lab.file("oci/x", "from the world")
    import_image(engine)
    # Its output, its status, its input, its user, its limits.
    done = engine.run("--rm", "box", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.status, done.out, done.err) == (7, "out\n", "err\n")
    assert engine.run("--rm", "-i", "box", "cat", input="words").ok() == "words"
    assert engine.run("--rm", "--user", "33:44", "box", "sh", "-c", "id -u; id -g").ok() == "33\n44\n"
    done = engine.run("--rm", "-m", "16m", "box", "dd", "if=/dev/zero", "of=/dev/shm/x", "bs=1M", "count=64")
    assert done.status == 137, done
    assert "nosuch" in engine.run("--rm", "box", "nosuch").err
    terminal = Terminal(operator, *engine.words, "run", *engine.runtime, "--rm", "-t", "--network", "none", "box", "tty")
    assert terminal.end() == 0 and "/dev/pts/0" in terminal.text
    terminal.close()
    # A policy, and the timeline's record.
    done = engine.run("--rm", "box", "sh", "-c", ASK, policy=True)
    online.cell = done.out.split()[0]
    operator.kept.add(online.cell)
    assert done.out.splitlines()[1] == "from the world" and "403" in done.err and done.status == 9, done
    assert [(e["verdict"], e["path"]) for e in online.events(type="http")] == [("allow", "/oci/x"), ("deny", "/no")]
    assert "No rule allows" in operator.cloister("why", online.cell).ok()
    # A container that goes on.
    engine.run("-d", "--name", "long", "box", "sh", "-c", "echo begun; exec sleep 1000").ok()
    wait_until(lambda: engine.do("logs", "long").out == "begun\n", "the container's log")
    done = engine.do("exec", "long", "sh", "-c", "echo $0; exit 5")
    assert (done.status, done.out) == (5, "sh\n")
    assert engine.do("exec", "-i", "long", "cat", input="words").ok() == "words"
    assert [c["state"] for c in operator.cells()] == ["running"]
    engine.do("pause", "long").ok()
    assert [c["state"] for c in operator.cells()] == ["frozen"]
    engine.do("unpause", "long").ok()
    engine.do("kill", "--signal", "TERM", "long").ok()
    assert engine.do("wait", "long").ok() == "143\n"
    engine.do("start", "long").ok()
    cell = operator.cells()[0]["cell"]
    operator.cloister("kill", cell).ok()
    assert engine.do("wait", "long").ok() == "137\n"
    engine.do("rm", "-f", "long").ok()
    assert operator.cells() == []


@pytest.fixture
def policies(operator):
    return operator.folder("policies", {"web.yaml": RULES})


needs_podman = pytest.mark.skipif(shutil.which("podman") is None or shutil.which("conmon") is None, reason="no podman")


@only_root
@needs_podman
def test_podman(online, policies):
    operator = online.operator
    conf = operator.file("containers.conf", CONF)
    storage = operator.file("storage.conf", f'[storage]\ndriver = "overlay"\nrunroot = "{operator.base}/pod-run"\n'
                                            f'graphroot = "{operator.base}/pod"\n')
    operator.env |= {"CONTAINERS_CONF": str(conf), "CONTAINERS_STORAGE_CONF": str(storage),
                     "TMPDIR": str(operator.folder("tmp"))}
    # Podman starts its runtime with hardly a variable.
    runtime = operator.file("wrapper", "#!/bin/sh\n" + "".join(
        f"export {name}='{operator.env[name]}'\n" for name in operator.env if name.startswith("CLOISTER")) +
        f'exec {runtime_of(operator)} "$@"\n')
    runtime.chmod(0o755)
    words = [*ENTER, "podman", "--tmpdir", str(operator.folder("pod-tmp")), "--runtime", str(runtime), "--runtime-flag", f"policies={policies}"]
    said = shlex.split(example("").replace("\\\n", ""))
    assert said[:2] == ["podman", "--runtime"] and said[3:6] == ["run", "--network", "none"]
    engine = Engine(online, words, [], said[6:8])
    judge(engine)
    assert "use --network none" in engine.do("run", "--rm", "--network", f"ns:/proc/{os.getpid()}/ns/net", "box", "true").err
    # An image can have annotations too: they choose among the policies of one folder.
    done = engine.run("--rm", "--annotation", f"io.cloister.policy={operator.base}/policy.yaml", "box", "true")
    assert "there is no policy" in done.err


@only_user
@needs_podman
@pytest.mark.skipif(shutil.which("newuidmap") is None or not os.environ.get("CLOISTER_TEST_ENGINES"),
                    reason="no uidmap, or no time (see `make test-oci-engines`)")
def test_podman_without_root(operator):
    """The runtime is root of Podman's user namespace, and an ordinary user: the cell has one user."""
    conf = operator.file("containers.conf", CONF)
    storage = operator.file("storage.conf", f'[storage]\ndriver = "vfs"\nrunroot = "{operator.home}/pod-run"\n'
                                            f'graphroot = "{operator.home}/pod"\n')
    env = {"CONTAINERS_CONF": str(conf), "CONTAINERS_STORAGE_CONF": str(storage)}
    become = ["setpriv", f"--reuid={operator.uid}", f"--regid={operator.gid}", "--clear-groups"]

    def podman(*words):
        # Only root can hide a mount, and then becomes the user.
        return operator.do(*ENTER, *become, "podman", "--runtime", runtime_of(operator), *words, env=env, user=0, group=0)
    try:
        archive = operator.base / "image.tar"
        subprocess.run(["tar", "-C", root_folder(operator, "image"), "--owner=0", "--group=0", "-cf", archive, "."], check=True)
        podman("import", archive, "box").ok()
        done = podman("run", "--rm", "--network", "none", "box", "sh", "-c", "id -u; touch /x && ls /x; exit 4")
        assert (done.status, done.out) == (4, "0\n/x\n"), done
    finally:
        # It holds the user namespace open from command to command.
        for file in operator.base.rglob("pause.pid"):
            end(int(file.read_text()))


@contextlib.contextmanager
def dockerd(operator, policies):
    base, runtime = operator.folder("docker"), str(runtime_of(operator))
    config = json.loads(example("json"))
    for row in config["runtimes"].values():
        row["path"] = runtime
        row["runtimeArgs"] = ["--policies", str(policies), *row.get("runtimeArgs", [])]
    config = operator.file("docker/daemon.json", json.dumps(config))
    options = ["--config-file", config, "--data-root", base / "data", "--exec-root", base / "exec", "--pidfile",
               base / "pid", "-H", f"unix://{base}/sock", "--bridge=none", "--iptables=false", "--ip-forward=false"]
    with open(base / "log", "wb") as log:
        daemon = operator.spawn(*ENTER, *OWN_RUN, "dockerd", *options, stdout=log, stderr=log)
    try:
        words = ["docker", "-H", f"unix://{base}/sock"]
        wait_until(lambda: daemon.poll() is not None or operator.do(*words, "version").status == 0, "dockerd")
        assert daemon.poll() is None, (base / "log").read_text()
        yield words
    finally:
        if (base / "pid").exists():
            os.kill(int((base / "pid").read_text()), signal.SIGTERM)
        daemon.wait(SECONDS)


@only_root
@pytest.mark.skipif(shutil.which("dockerd") is None or shutil.which("docker") is None, reason="no docker")
def test_docker(online, policies):
    """It has no annotations: each policy is a runtime of its own."""
    with dockerd(online.operator, policies) as words:
        judge(Engine(online, words, ["--runtime", "cloister"], ["--runtime", "cloister-web"]))
