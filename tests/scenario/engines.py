"""Container engines that the tests start themselves: Docker's and Podman's of root, and Podman's of an ordinary user.

Each has its own mount namespace, folders and socket.  Containers are made without a network, so none needs a bridge.
"""
import functools
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import urllib.parse
from pathlib import Path

import pytest
from leftovers import LABS
from operators import IS_ROOT, USER, wait_until

IMAGE = "box:1"
CONFIG = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
log_driver = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
# Neither engine's runtime knows hosts with both versions of cgroups.
ALONE = "umount /sys/fs/cgroup/unified 2>/dev/null; "
LABEL = "io.cloister.cell"
# `make test` has the first; `make test-docker` all.
KINDS = ["docker", "podman", "rootless"] if os.environ.get("CLOISTER_TEST_ENGINES") else ["docker"]


def missing(kind):
    """Why this machine cannot run that engine, or None."""
    if not IS_ROOT:
        return "only root can start an engine of its own"
    needed = ["dockerd", "runc"] if kind == "docker" else ["podman", "crun"]
    if kind == "rootless":
        needed.append("newuidmap")
    lacking = [name for name in [*needed, "busybox", "unshare"] if shutil.which(name) is None]
    return f"there is no {lacking[0]}" if lacking else None


@functools.cache
def busybox():
    """A tar archive of a root file system with nothing but busybox."""
    out = io.BytesIO()
    program = Path(shutil.which("busybox"))
    applets = subprocess.run([program, "--list"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in "bin", "usr", "etc":
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        info = tarfile.TarInfo("bin/busybox")
        info.mode, info.size = 0o755, program.stat().st_size
        tar.addfile(info, io.BytesIO(program.read_bytes()))
        for name in applets:
            if name != "busybox":
                info = tarfile.TarInfo(f"bin/{name}")
                info.type, info.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(info)
    return out.getvalue()


@functools.cache
def start(kind, ground):
    return Engine(kind, ground / f"engine-{kind}")


@pytest.fixture(scope="session")
def engines_of(ground):
    """Starts an engine of that kind, once."""
    started = []

    def engine_of(kind):
        if (why := missing(kind)) is not None:
            pytest.skip(why)
        if (engine := start(kind, ground)) not in started:
            started.append(engine)
        return engine

    yield engine_of
    for engine in started:
        engine.stop()


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self.path))


class Engine:
    def __init__(self, kind, base):
        self.kind, self.base = kind, base
        self.who = "user" if kind == "rootless" else "root"
        base.mkdir()
        base.chmod(0o711)
        for name in "own", "own/run", "own/home":
            (base / name).mkdir()
            if self.who == "user":
                os.chown(base / name, USER, USER)
        self.socket = base / "own" / "engine.sock"
        self.log = (base / "log").open("wb")
        self.process = subprocess.Popen(
            ["unshare", "-m", *([] if self.who == "user" else ["-n"]), "sh", "-c", self.script()],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        self.servers = [self.process.pid]
        LABS.append(self.process.pid)
        wait_until(self.answers, f"{kind} answers at {self.socket}: {(base / 'log').read_text()}")
        self.take(IMAGE)
        # A rootless engine keeps its namespaces by a process of its own.
        if (pause := base / "own" / "run" / "libpod" / "tmp" / "pause.pid").exists():
            self.servers.append(int(pause.read_text()))
            LABS.append(self.servers[-1])

    def script(self):
        own = self.base / "own"
        if self.kind == "docker":
            return (f"{ALONE} ip link set lo up; exec dockerd --data-root {own}/root --exec-root {own}/run "
                    f"-H unix://{self.socket} -p {own}/pid --iptables=false --bridge=none")
        (self.base / "containers.conf").write_text(CONFIG)
        (self.base / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\nrunroot = "{own}/run/c"\ngraphroot = "{own}/home/c"\n')
        env = (f"env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME={own}/home XDG_RUNTIME_DIR={own}/run TMPDIR={own}/home "
               f"CONTAINERS_CONF={self.base}/containers.conf CONTAINERS_STORAGE_CONF={self.base}/storage.conf")
        service = f"podman system service --time 0 unix://{self.socket}"
        if self.who == "root":
            return f"{ALONE} ip link set lo up; exec {env} {service}"
        # A user whom newuidmap knows, with ids of its own.
        (self.base / "passwd").write_text(Path("/etc/passwd").read_text() + f"tester:x:{USER}:{USER}::{own}/home:/bin/sh\n")
        (self.base / "subid").write_text("tester:300000000:65536\n")
        binds = "".join(f"mount --bind {self.base}/{file} /etc/{name}; " for file, name in (
            ("passwd", "passwd"), ("subid", "subuid"), ("subid", "subgid")))
        return (f"{ALONE} touch /etc/subuid /etc/subgid; {binds} "
                f"exec setpriv --reuid={USER} --regid={USER} --clear-groups {env} {service}")

    def answers(self):
        assert self.process.poll() is None, (self.base / "log").read_text()
        try:
            return self.ask("GET", "/_ping") is not None
        except OSError:
            return False

    def ask(self, method, path, body=None, type="application/json"):
        connection = Connection(self.socket)
        connection.request(method, path, body, {"Content-Type": type})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status < 300, (method, path, data)
        return data

    def take(self, name):
        """An image of busybox with that name."""
        self.ask("POST", f"/images/create?fromSrc=-&repo={name}", busybox(), "application/x-tar")

    def containers(self):
        """The cells of containers that there are."""
        filters = urllib.parse.quote(json.dumps({"label": [LABEL]}))
        return {c["Labels"][LABEL]: c for c in json.loads(self.ask("GET", f"/containers/json?all=true&filters={filters}"))}

    def volumes(self):
        return json.loads(self.ask("GET", "/volumes"))["Volumes"] or []

    def image_id(self, name=IMAGE):
        id = json.loads(self.ask("GET", f"/images/{name}/json"))["Id"]
        return id if id.startswith("sha256:") else "sha256:" + id

    def make(self, name, *words, body=None):
        """A container of somebody else's."""
        return json.loads(self.ask("POST", f"/containers/create?name={name}", json.dumps({"Image": IMAGE, "Cmd": words, **body})))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()
        for pid in self.servers:
            LABS.remove(pid)
        for pid in self.servers[1:]:
            os.kill(pid, signal.SIGKILL)
        subprocess.run(["rm", "-rf", "--one-file-system", self.base], check=False)
