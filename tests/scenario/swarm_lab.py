"""A swarm of two nodes, each a dockerd in a network namespace of its own, joined by a veth pair.  Workers there reach the
tests' Postgres through a forwarder at the first node's address."""
import base64
import io
import json
import os
import shutil
import subprocess
import tarfile

import pytest

import alike
import postgres_store
from engines import ALONE, Connection, streams
from forward import Forward
from leftovers import LABS
from operators import BUILD, IS_ROOT, Result, end, wait_until

IMAGES = sorted((BUILD / "image").glob("*.tar"))
IMAGE = "cloister-box:1"


@pytest.fixture(scope="module")
def swarm(ground):
    """With the image of `make image`."""
    if (why := missing()) is not None:
        pytest.skip(why)
    swarm = Swarm(ground / "swarm")
    swarm.load(IMAGES[0], IMAGE)
    yield swarm
    swarm.stop()


def missing():
    """Why there can be no swarm here, or None."""
    if not IS_ROOT:
        return "only root can start an engine of its own"
    if not IMAGES:
        return "there is no image: `make image`"
    lacking = [name for name in ("dockerd", "containerd", "runc", "ip", "unshare") if shutil.which(name) is None]
    return f"there is no {lacking[0]}" if lacking else None


def load_name(image):
    with tarfile.open(image) as tar:
        return json.loads(tar.extractfile("manifest.json").read())[0]["RepoTags"][0]


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE if check else subprocess.DEVNULL)


class Node:
    def __init__(self, base, name, address):
        self.base, self.name, self.address, self.process = base, name, address, None
        base.mkdir()
        base.chmod(0o711)
        self.socket = base / "e.sock"

    def start(self):
        own = self.base
        (own / "containerd.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        script = (f"{ALONE} containerd -c {own}/containerd.toml --root {own}/containerd --state {own}/run/containerd "
                  f"--address {own}/containerd.sock & until [ -S {own}/containerd.sock ]; do sleep 0.1; done; "
                  f"exec dockerd --containerd {own}/containerd.sock --data-root {own}/root --exec-root {own}/run "
                  f"-H unix://{self.socket} -p {own}/pid --iptables=false --bridge=none "
                  f"--seccomp-profile={BUILD / 'image/seccomp.json'}")
        (own / "containerd.sock").unlink(missing_ok=True)
        with (own / "log").open("ab") as log:
            self.process = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.name}", "unshare", "-m", "sh", "-c", script],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        LABS.append(self.process.pid)
        wait_until(self.answers, f"{self.name} answers: {(own / 'log').read_text()[-2000:]}")

    def answers(self):
        assert self.process.poll() is None, (self.base / "log").read_text()[-2000:]
        try:
            return self.ask("GET", "/_ping") is not None
        except OSError:
            return False

    def ask(self, method, path, body=None, type="application/json"):
        connection = Connection(self.socket)
        connection.request(method, path, body if isinstance(body, bytes) or body is None else json.dumps(body), {"Content-Type": type})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status < 300, (method, path, data)
        return json.loads(data) if data[:1] in (b"{", b"[") and type == "application/json" else data

    def inside(self, id, *words):
        """A command in a container of its engine."""
        id = self.ask("POST", f"/containers/{id}/exec", {"Cmd": words, "AttachStdout": True, "AttachStderr": True})["Id"]
        said = streams(self.ask("POST", f"/exec/{id}/start", {}))
        return Result(self.ask("GET", f"/exec/{id}/json")["ExitCode"], *said)

    def stop(self, kill=False):
        """With KILL, as a machine that loses power: everything on it is gone at once."""
        if self.process is None:
            return
        pids = [int(line.split()[0]) for line in subprocess.run(
            ["ps", "-eo", "pid,sid"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[1:]
            if int(line.split()[1]) == self.process.pid]
        if not kill:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                kill = True
        for pid in [*pids, *(self.processes() if kill else [])]:
            end(pid)
        self.process.wait()
        LABS.remove(self.process.pid)
        self.process = None

    def processes(self):
        """All processes in its network namespace."""
        out = subprocess.run(["ip", "netns", "pids", self.name], stdout=subprocess.PIPE, check=False, text=True).stdout
        return [int(pid) for pid in out.split()]


class Swarm:
    def __init__(self, base):
        self.nodes, self.forward, self.base = [], None, base
        base.mkdir()
        base.chmod(0o711)
        self.tag = f"csw{os.getpid()}"
        try:
            self.begin()
        except BaseException:
            self.stop()
            raise

    def begin(self):
        names = [f"{self.tag}-{i}" for i in (1, 2)]
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "veth0", "netns", names[0], "type", "veth", "peer", "name", "veth0", "netns", names[1])
        for i, name in enumerate(names, 1):
            ip("-n", name, "address", "add", f"10.99.0.{i}/24", "dev", "veth0")
            ip("-n", name, "link", "set", "veth0", "up")
            self.nodes.append(Node(self.base / f"n{i}", name, f"10.99.0.{i}"))
        for node in self.nodes:
            node.start()
        first, second = self.nodes
        first.ask("POST", "/swarm/init", {"ListenAddr": first.address, "AdvertiseAddr": first.address})
        tokens = first.ask("GET", "/swarm")["JoinTokens"]
        second.ask("POST", "/swarm/join", {"ListenAddr": second.address, "AdvertiseAddr": second.address,
                                           "RemoteAddrs": [f"{first.address}:2377"], "JoinToken": tokens["Worker"]})
        self.forward = self.lead_to(postgres_store.shared().folder / ".s.PGSQL.5432", 5432)

    def lead_to(self, server, port=0):
        """A port at the first node's address that leads to SERVER of this machine."""
        first = self.nodes[0]
        return Forward(first.address, server, port, f"/run/netns/{first.name}")

    def load(self, image, name):
        """The image of workers, with what agents need to do something, as NAME."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for path, data in (("Dockerfile", f"FROM {load_name(image)}\nADD layer.tar /\n".encode()), ("layer.tar", alike.layer())):
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(data), 0o755
                tar.addfile(info, io.BytesIO(data))
        for node in self.nodes:
            node.ask("POST", "/images/load", image.read_bytes(), "application/x-tar")
            said = node.ask("POST", f"/build?t={name}", out.getvalue(), "application/x-tar")
            assert b"Successfully built" in said, said

    def services(self):
        return self.nodes[0].ask("GET", "/services")

    def clear(self):
        for service in self.services():
            self.nodes[0].ask("DELETE", f"/services/{service['ID']}")

    def secret(self, name, value):
        self.nodes[0].ask("POST", "/secrets/create", {"Name": name, "Data": base64.b64encode(value.encode()).decode()})

    def set_availability(self, node, availability):
        """NODE is active, or gets no tasks (pause)."""
        found, = [one for one in self.nodes[0].ask("GET", "/nodes") if one["Status"]["Addr"] == node.address or
                  one.get("ManagerStatus", {}).get("Addr", "").startswith(node.address)]
        self.nodes[0].ask("POST", f"/nodes/{found['ID']}/update?version={found['Version']['Index']}",
                          {**found["Spec"], "Availability": availability})

    def store(self, database):
        """The address of the tests' Postgres, as the nodes have it."""
        return f"postgresql://cloister@{self.nodes[0].address}/{database}?sslmode=disable"

    def ready(self):
        return [node for node in self.nodes[0].ask("GET", "/nodes") if node["Status"]["State"] == "ready"]

    def stop(self):
        for node in reversed(self.nodes):
            node.stop()
            for pid in node.processes():
                end(pid)
        if self.forward is not None:
            self.forward.close()
        for i in (1, 2):
            ip("netns", "del", f"{self.tag}-{i}", check=False)
        for path in self.base.rglob("*"):
            if path.is_mount():
                subprocess.run(["umount", "-l", path], check=False)
        subprocess.run(["rm", "-rf", "--one-file-system", self.base], check=False)


class Task:
    """A task of the stand-in for ECS: a container of a node's engine, as the agent of ECS starts it on EC2."""

    def __init__(self, node, words, env):
        self.node = node
        body = {"Image": IMAGE, "Cmd": words, "Env": [f"{name}={value}" for name, value in env.items()],
                "HostConfig": {"NetworkMode": "host", "CapDrop": ["ALL"], "MaskedPaths": [], "ReadonlyPaths": []}}
        self.id = node.ask("POST", "/containers/create", body)["Id"]
        node.ask("POST", f"/containers/{self.id}/start")

    def state(self):
        return self.node.ask("GET", f"/containers/{self.id}/json")["State"]

    def over(self):
        return not self.state()["Running"]

    def status(self):
        return self.state()["ExitCode"]

    def inside(self, *words):
        return self.node.inside(self.id, *words)

    def kill(self):
        self.node.ask("POST", f"/containers/{self.id}/kill")

    def end(self):
        self.node.ask("DELETE", f"/containers/{self.id}?force=true&v=true")
