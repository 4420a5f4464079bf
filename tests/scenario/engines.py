"""Container engines that the tests start themselves: Docker's and Podman's of root, and Podman's of an ordinary user.
Those in APART give each container a user namespace.

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
import socketserver
import subprocess
import tarfile
import threading
import urllib.parse
from pathlib import Path

import pytest
from leftovers import LABS
from operators import IS_ROOT, SECONDS, USER, children_of, end, wait_until

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
FOLDER_LABEL = "io.cloister.runtime"
# `make test` has the first; `make test-docker` all.
KINDS = ["docker", "podman", "rootless"] if os.environ.get("CLOISTER_TEST_ENGINES") else ["docker"]
APART = ["remap", "auto"] if os.environ.get("CLOISTER_TEST_ENGINES") else []
DOCKERS = "docker", "remap"
REGISTRY = "localhost:5000"         # in the engine's own network
IDS = 300_000_000


def missing(kind):
    """Why this machine cannot run that engine, or None."""
    if not IS_ROOT:
        return "only root can start an engine of its own"
    needed = ["dockerd", "containerd", "runc"] if kind in DOCKERS else ["podman", "crun"]
    if kind == "rootless":
        needed.append("newuidmap")
    lacking = [name for name in [*needed, "busybox", "unshare"] if shutil.which(name) is None]
    return f"there is no {lacking[0]}" if lacking else None


@functools.cache
def busybox(*files):
    """A tar archive of a root file system with nothing but busybox, and FILES: (path, text, mode, uid, gid)."""
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
        for path, text, mode, uid, gid in files:
            info = tarfile.TarInfo(path)
            info.mode, info.uid, info.gid, info.size = mode, uid, gid, len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
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


def streams(data):
    """What a program printed, and its errors: Docker puts a head of 8 bytes before each part."""
    said = {1: b"", 2: b""}
    while data:
        size = int.from_bytes(data[4:8], "big")
        said[data[0]] += data[8:8 + size]
        data = data[8 + size:]
    return said[1].decode(), said[2].decode()


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
            # conmon writes "oom" into its folder.
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True, cwd=base / "own")
        self.servers = [self.process.pid]
        LABS.append(self.process.pid)
        try:
            self.begin()
        except BaseException:
            self.stop()
            raise

    def begin(self):
        kind, base = self.kind, self.base
        wait_until(self.answers, f"{kind} answers at {self.socket}: {(base / 'log').read_text()}")
        self.take(IMAGE)
        # A rootless engine keeps its namespaces by a process of its own.
        if (pause := base / "own" / "run" / "libpod" / "tmp" / "pause.pid").exists():
            self.servers.append(int(pause.read_text()))
            LABS.append(self.servers[-1])

    def script(self):
        own = self.base / "own"
        # A user whom newuidmap knows, with ids of its own; root's Podman takes those of "containers".
        (self.base / "passwd").write_text(Path("/etc/passwd").read_text() + f"tester:x:{USER}:{USER}::{own}/home:/bin/sh\n")
        (self.base / "group").write_text(Path("/etc/group").read_text() + f"tester:x:{USER}:\n")
        (self.base / "subid").write_text(f"{'containers' if self.kind == 'auto' else 'tester'}:{IDS}:655360\n")
        binds = "touch /etc/subuid /etc/subgid; " + "".join(f"mount --bind {self.base}/{file} /etc/{name}; " for file, name in (
            ("passwd", "passwd"), ("group", "group"), ("subid", "subuid"), ("subid", "subgid")))
        if self.kind in DOCKERS:
            remap = " --userns-remap=tester:tester" if self.kind == "remap" else ""
            # dockerd would wait for its own containerd for 15 seconds only.
            (self.base / "containerd.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
            return (f"{ALONE} {binds if remap else ''} ip link set lo up; containerd -c {self.base}/containerd.toml "
                    f"--root {own}/containerd --state {own}/run/containerd --address {own}/containerd.sock & "
                    f"until [ -S {own}/containerd.sock ]; do sleep 0.1; done; exec dockerd --containerd {own}/containerd.sock "
                    f"--data-root {own}/root --exec-root {own}/run -H unix://{self.socket} -p {own}/pid --iptables=false "
                    f"--bridge=none{remap}")
        (self.base / "containers.conf").write_text(CONFIG)
        (self.base / "registries.conf").write_text(f'[[registry]]\nlocation = "{REGISTRY}"\ninsecure = true\n')
        (self.base / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\nrunroot = "{own}/run/c"\ngraphroot = "{own}/home/c"\n')
        env = (f"env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME={own}/home XDG_RUNTIME_DIR={own}/run TMPDIR={own}/home "
               f"CONTAINERS_CONF={self.base}/containers.conf CONTAINERS_STORAGE_CONF={self.base}/storage.conf "
               f"CONTAINERS_REGISTRIES_CONF={self.base}/registries.conf")
        service = f"podman system service --time 0 unix://{self.socket}"
        if self.who == "root":
            return f"{ALONE} {binds if self.kind == 'auto' else ''} ip link set lo up; exec {env} {service}"
        return (f"{ALONE} {binds} "
                f"exec setpriv --reuid={USER} --regid={USER} --clear-groups {env} {service}")

    def answers(self):
        assert self.process.poll() is None, (self.base / "log").read_text()
        try:
            return self.ask("GET", "/_ping") is not None
        except OSError:
            return False

    def exchange(self, method, path, body=None, **fields):
        connection = Connection(self.socket)
        connection.request(method, path, body, {"Content-Type": "application/json", **fields})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data

    def ask(self, method, path, body=None, type="application/json", **fields):
        status, data = self.exchange(method, path, body, **{"Content-Type": type, **fields})
        assert status < 300, (method, path, data)
        return data

    def take(self, name, *files, change=""):
        """An image of busybox and FILES with that name."""
        changes = f"&changes={urllib.parse.quote(change)}" if change else ""
        self.ask("POST", f"/images/create?fromSrc=-&repo={name}{changes}", busybox(*files), "application/x-tar")

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
        beside = children_of(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()
        for pid in beside:
            end(pid)
        for pid in self.servers:
            LABS.remove(pid)
        for pid in self.servers[1:]:
            end(pid)
        subprocess.run(["rm", "-rf", "--one-file-system", self.base], check=False)


class Middleman:
    """A socket of an engine that lies.  ASK changes the body of a request, and TELL that of an answer."""

    def __init__(self, engine, path, ask=None, tell=None):
        self.engine = engine
        self.change_ask = ask or (lambda method, path, body: body)
        self.change_tell = tell or (lambda method, path, data: data)
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                outer.serve(self.rfile, self.wfile)

        self.server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def serve(self, reader, writer):
        line = reader.readline().decode().split()
        if not line:
            return
        fields = http.client.parse_headers(reader)
        body = reader.read(int(fields.get("Content-Length", 0)))
        method, path = line[0], line[1]
        status, data = self.engine.exchange(method, path, self.change_ask(method, path, body),
                                            **{"Content-Type": fields.get("Content-Type", "application/json")})
        data = self.change_tell(method, path, data)
        # These have no body.
        length = "" if status == 204 else f"Content-Length: {len(data)}\r\n"
        writer.write(f"HTTP/1.1 {status} So\r\n{length}Connection: close\r\n\r\n".encode() + (data if length else b""))

    def close(self):
        self.server.shutdown()
        self.server.server_close()
