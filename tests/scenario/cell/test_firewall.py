"""The rules of `cloister doctor --firewall` in a real Docker's machine: what workers and others reach before, with and after
them, by servers and clients of this file."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from engines import ALONE, Engine, Middleman, missing
from operators import end, only_root, wait_until

pytestmark = [only_root, pytest.mark.skipif(missing("docker") is not None or shutil.which("iptables") is None,
                                            reason=missing("docker") or "there is no iptables")]
WORLD, PRIVATE, METADATA = "203.0.113.2", "10.9.0.2", "169.254.169.254"
WORLD6, PRIVATE6 = "2001:db8:1::2", "fd00:9::2"
SERVER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
while True:
    client, _ = listener.accept()
    client.sendall(b"here")
    client.close()
"""
CLIENT = """
import os, socket, sys, threading
def ask(address, port):
    try:
        with socket.create_connection((address, int(port)), 3) as s:
            if s.recv(9) == b"here":
                os.write(1, f"{address} {port}\\n".encode())
    except OSError:
        pass
threads = [threading.Thread(target=ask, args=pair) for pair in zip(sys.argv[1::2], sys.argv[2::2])]
for t in threads:
    t.start()
for t in threads:
    t.join()
"""


def run(*words, check=True):
    return subprocess.run([str(word) for word in words], check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


class Bridged(Engine):
    """A dockerd with bridges and rules, in a network namespace with a link to the world."""

    def __init__(self, base, form):
        self.form, self.clients = form, []
        super().__init__("docker", base)

    def script(self):
        own, tools = self.base / "own", self.base / "tools"
        tools.mkdir()
        for family in "iptables", "ip6tables":
            for end_ in "", "-save", "-restore":
                (tools / f"{family}{end_}").symlink_to(shutil.which(f"{family}-{self.form}{end_}"))
        (self.base / "containerd.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        return (f"{ALONE} export PATH={tools}:$PATH; ip link set lo up; containerd -c {self.base}/containerd.toml "
                f"--root {own}/containerd --state {own}/run/containerd --address {own}/containerd.sock & "
                f"until [ -S {own}/containerd.sock ]; do sleep 0.1; done; PATH={tools}:$PATH exec dockerd "
                f"--containerd {own}/containerd.sock --data-root {own}/root --exec-root {own}/run -H unix://{self.socket} "
                f"-p {own}/pid --userland-proxy=false")

    def inside(self, pid=None):
        return ["nsenter", f"--net=/proc/{pid or self.process.pid}/ns/net"]

    def network(self, name, **more):
        self.ask("POST", "/networks/create", json.dumps({"Name": name, "Driver": "bridge", **more}))

    def container(self, name, network, **more):
        """Its pid."""
        host = {"NetworkMode": network, "AutoRemove": True, **more}
        self.make(name, "sleep", "100000", body={"HostConfig": host, "ExposedPorts": {"5432/tcp": {}}})
        self.ask("POST", f"/containers/{name}/start")
        return json.loads(self.ask("GET", f"/containers/{name}/json"))["State"]["Pid"]

    def address(self, name):
        (network,) = json.loads(self.ask("GET", f"/containers/{name}/json"))["NetworkSettings"]["Networks"].values()
        return network["IPAddress"]

    def serve(self, where, address, port):
        self.clients.append(subprocess.Popen([*where, sys.executable, "-c", SERVER, address, str(port)]))
        probe = "::1" if address == "::" else "127.0.0.1" if address == "0.0.0.0" else address
        wait_until(lambda: self.reaches(where, probe, port), f"{address}:{port} is served")

    @staticmethod
    def reached(where, places):
        """The names of the PLACES (address, port) that answer."""
        said = run(*where, sys.executable, "-c", CLIENT, *[word for place in places.values() for word in place]).splitlines()
        return {name for name, (address, port) in places.items() if f"{address} {port}" in said}

    def reaches(self, where, address, port):
        return bool(self.reached(where, {"it": (address, port)}))

    def stop(self):
        for client in self.clients:
            end(client.pid)
            client.wait()
        super().stop()


class Machine:
    """With workers in the network `builders`, a database in its own, and a stranger in a third."""

    def __init__(self, operator, base, form):
        self.operator, self.form = operator, form
        self.engine = engine = Bridged(base, form)
        self.host = engine.inside()
        self.out = subprocess.Popen(["unshare", "-n", "sleep", "1000000"])
        engine.clients.append(self.out)
        wait_until(lambda: os.readlink(f"/proc/{self.out.pid}/ns/net") != os.readlink("/proc/self/ns/net"), "it is apart")
        self.outside = outside = engine.inside(self.out.pid)
        run("ip", "link", "add", "out0", "netns", engine.process.pid, "type", "veth", "peer", "name", "in0", "netns", self.out.pid)
        for where, name, addresses in ((self.host, "out0", ("203.0.113.1/24", "10.9.0.1/24", "2001:db8:1::1/64", "fd00:9::1/64")),
                                       (outside, "in0", (f"{WORLD}/24", f"{PRIVATE}/24", f"{METADATA}/32", f"{WORLD6}/64",
                                                         f"{PRIVATE6}/64"))):
            for address in addresses:
                run(*where, "ip", "address", "add", address, "dev", name, *(["nodad"] if ":" in address else []))
            run(*where, "ip", "link", "set", name, "up")
        run(*outside, "ip", "link", "set", "lo", "up")
        run(*outside, "ip", "route", "add", "default", "via", "203.0.113.1")
        run(*outside, "ip", "route", "add", "default", "via", "2001:db8:1::1")
        run(*self.host, "ip", "route", "add", METADATA, "dev", "out0")
        run(*self.host, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        engine.network("builders", EnableIPv6=True, IPAM={"Config": [{"Subnet": "172.30.0.0/24"}, {"Subnet": "fd00:5::/64"}]})
        engine.network("databases", IPAM={"Config": [{"Subnet": "172.31.0.0/24"}]})
        engine.network("others", IPAM={"Config": [{"Subnet": "172.29.0.0/24"}]}, Options={"com.docker.network.bridge.name": "strange0"})
        self.worker = engine.inside(engine.container("worker", "builders"))
        self.second = engine.inside(engine.container("second", "builders"))
        self.stranger = engine.inside(engine.container("stranger", "others"))
        database = engine.inside(engine.container("database", "databases", PortBindings={"5432/tcp": [{"HostPort": "5432"}]}))
        self.database = engine.address("database")
        for where, address, port in ((self.host, "0.0.0.0", 7879), (self.host, "0.0.0.0", 2222), (self.host, "::", 7880),
                                     (self.host, "127.0.0.1", 7878), (outside, WORLD, 443), (outside, PRIVATE, 443),
                                     (outside, PRIVATE, 9000), (outside, METADATA, 80), (outside, WORLD6, 443),
                                     (outside, PRIVATE6, 443), (database, self.database, 5432),
                                     (database, self.database, 5433), (self.worker, "172.30.0.2", 8000),
                                     (self.second, "172.30.0.3", 8000)):
            engine.serve(where, address, port)

    def doctor(self, *words):
        return self.operator.do(*self.host, self.operator.program, "doctor", "--firewall", *words,
                                env={"DOCKER_HOST": f"unix://{self.engine.socket}"})

    def rules(self):
        """All rules that there are, in their order, and chains of cloister's."""
        saved = [run(*self.host, f"{family}-{form}-save") for family in ("iptables", "ip6tables") for form in ("nft", "legacy")]
        return [re.findall(r"^-A .*|^:CLOISTER[^ ]*", text, flags=re.M) for text in saved]

    def reached(self):
        """Who reaches what."""
        from_worker = {"world": (WORLD, 443), "world6": (WORLD6, 443), "private": (PRIVATE, 443), "private6": (PRIVATE6, 443),
                       "named": (PRIVATE, 9000), "metadata": (METADATA, 80), "service": ("172.30.0.1", 7879),
                       "ssh": ("172.30.0.1", 2222), "ssh6": ("fd00:5::1", 7880), "published": ("203.0.113.1", 5432),
                       "database": (self.database, 5432), "other database": (self.database, 5433), "second": ("172.30.0.3", 8000)}
        from_others = {"service": ("203.0.113.1", 7879), "ssh": ("203.0.113.1", 2222), "world": (WORLD, 443),
                       "private": (PRIVATE, 443), "worker": ("172.30.0.2", 8000), "loopback": ("127.0.0.1", 7878)}
        found = self.engine.reached(self.worker, from_worker)
        for who, where in ("stranger", self.stranger), ("outside", self.outside), ("host", self.host):
            found |= {f"{who}: {name}" for name in self.engine.reached(where, from_others)}
        return found


OPTIONS = "--network", "builders", "--to", f"{PRIVATE}:9000", "--to", "203.0.113.1:5432"
HOSTS = {"host: service", "host: ssh", "host: world", "host: private", "host: worker", "host: loopback"}
# Docker's own rules: its networks are apart, and the rest is open.
BEFORE = HOSTS | {"world", "world6", "private", "private6", "named", "metadata", "service", "ssh", "ssh6", "second",
                  "stranger: service", "stranger: ssh", "stranger: world", "stranger: private",
                  "outside: service", "outside: ssh", "outside: world", "outside: private"}
WITH = HOSTS | {"world", "world6", "named", "service", "published", "second",
                "stranger: ssh", "stranger: world", "stranger: private",
                "outside: service", "outside: ssh", "outside: world", "outside: private"}




@pytest.fixture
def machine(operator, tmp_path_factory, request):
    made = Machine(operator, operator.base / "docker", request.param)
    yield made
    made.engine.stop()


@pytest.mark.parametrize("machine", ["nft", "legacy"], indirect=True)
def test_docker_and_workers_side_by_side(operator, machine):
    first, before = machine.rules(), machine.reached()
    assert before - {"outside: worker"} == BEFORE, before ^ BEFORE
    # What is printed changes nothing, and is what is applied.
    script = machine.doctor(*OPTIONS).ok()
    said = json.loads(machine.doctor("--json", *OPTIONS).ok())
    assert said == {"network": "builders", "removes": False, "applied": False, "script": script}
    assert machine.rules() == first
    run(*machine.host, "sh", "-n", operator.file("rules.sh", script))
    assert machine.doctor("--apply", *OPTIONS).ok() == ""
    with_ = machine.rules()
    assert machine.reached() == WITH, machine.reached() ^ WITH
    # Again, as it is printed: nothing comes twice.
    run(*machine.host, "sh", operator.file("rules.sh", script))
    assert machine.rules() == with_
    # A container that leads its loopback to its bridge does not reach that of the machine.
    knock(machine)
    # What the worker asks for through the service's port lasts, as do connections over new rules; Docker starts anew.
    assert machine.doctor("--apply", "--network", "builders", "--service", "2222").ok() == ""
    others = machine.reached()
    assert {"ssh", "world"} <= others and not others & {"service", "named", "published", "stranger: ssh"} and "stranger: service" in others
    # The inverse leaves nothing, and can be repeated.
    for _ in range(2):
        assert machine.doctor("--remove", "--apply").ok() == ""
        assert machine.rules() == first
    assert machine.reached() == before


@pytest.mark.skipif(shutil.which("nft") is None, reason="there is no nft")
@pytest.mark.parametrize("machine", ["nft"], indirect=True)
def test_with_a_table_of_nftables(operator, machine):
    """As with Docker's own nftables backend, whose table has this name.  It refuses, and permits nothing that Docker refuses."""
    before = machine.reached()
    run(*machine.host, "nft", "add", "table", "ip", "docker-bridges")
    assert machine.doctor("--apply", *OPTIONS).ok() == ""
    table = run(*machine.host, "nft", "list", "table", "inet", "cloister")
    assert "CLOISTER" not in str(machine.rules())
    assert machine.reached() == WITH - {"published"}, machine.reached() ^ WITH
    assert machine.doctor("--apply", *OPTIONS).ok() == ""
    assert run(*machine.host, "nft", "list", "table", "inet", "cloister") == table
    knock(machine)
    for _ in range(2):
        assert machine.doctor("--remove", "--apply").ok() == ""
    assert "cloister" not in run(*machine.host, "nft", "list", "ruleset")
    run(*machine.host, "nft", "delete", "table", "ip", "docker-bridges")
    assert machine.reached() == before


@pytest.mark.parametrize("machine", ["nft"], indirect=True)
def test_cells_need_no_rule(operator, machine):
    """Whatever Docker forwards: their requests leave through sockets of the machine."""
    def asks():
        return operator.do(*machine.host, operator.program, "run", "--allow", f"{WORLD}:443/tcp", "--", sys.executable, "-c", CLIENT,
                           WORLD, "443").ok().strip()
    assert asks() == f"{WORLD} 443"
    machine.doctor("--apply", *OPTIONS).ok()
    assert asks() == f"{WORLD} 443"
    machine.doctor("--apply", "--network", "builders").ok()
    assert asks() == f"{WORLD} 443"


@pytest.mark.parametrize("machine", ["nft"], indirect=True)
def test_what_cannot_be(operator, machine):
    def refused(*words):
        return machine.doctor(*words).sentence
    refused("--network", "nowhere")("no network 'nowhere'", "docker network ls")
    refused("--network", "host")("driver 'host'", "docker network create")
    refused("--network", "none")("driver 'null'")
    refused("--network", "builders", "--to", "db.example.com:5432")("db.example.com:5432", "no address with a port")
    refused("--to", "10.0.0.1:1")("--network")
    refused("--service", "0")("--service '0'")
    refused("--target", "x")("--target")
    operator.cloister("doctor", "--apply").sentence("are for --firewall")
    operator.cloister("doctor", "--firewall", env={"DOCKER_HOST": "unix:///nowhere"}).sentence("no engine answers")
    # An engine that lies is not run as a script.
    for name in ("x; touch /tmp/owned", "$(id)", "-j", "x" * 16, "a b", "a\nb", "END"):
        lie = Middleman(machine.engine, operator.base / "lie", tell=lambda method, path, data, name=name: json.dumps(
            [{"Name": "builders", "Id": "a" * 64, "Driver": "bridge", "Options": {"com.docker.network.bridge.name": name}}]).encode()
            if path == "/networks" else data)
        said = operator.cloister("doctor", "--firewall", "--network", "builders", env={"DOCKER_HOST": f"unix://{operator.base}/lie"})
        assert said.status == (0 if name == "END" else 125) and (name == "END" or "names no interface" in said.err), said
        lie.close()
        (operator.base / "lie").unlink()
    # Tasks of a swarm leave through a bridge of their own.
    swarm = Middleman(machine.engine, operator.base / "lie", tell=lambda method, path, data: json.dumps(
        [{"Name": "work", "Id": "a" * 64, "Driver": "overlay"}, {"Name": "docker_gwbridge", "Id": "b" * 64, "Driver": "bridge",
         "Options": {"com.docker.network.bridge.name": "docker_gwbridge"}}, {"Name": "own", "Id": "c" * 64, "Driver": "bridge"}]
        ).encode() if path == "/networks" else data)
    script = operator.cloister("doctor", "--firewall", "--network", "work", env={"DOCKER_HOST": f"unix://{operator.base}/lie"}).ok()
    swarm.close()
    assert "-A CLOISTER-FORWARD -i docker_gwbridge -d 10.0.0.0/8 -j REJECT\n" in script
    assert "-A CLOISTER-INPUT -i br-cccccccccccc -p tcp --dport 7879 -j REJECT\n" in script
    assert script.count("-i docker_gwbridge -p tcp --dport 7879") == 1
    # Without Docker's chain, nothing is changed.
    lone = subprocess.run(["unshare", "-n", "sh", "-c", machine.doctor().ok()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, text=True)
    assert lone.returncode == 1 and "There is no chain DOCKER-USER" in lone.stdout, lone


def knock(machine):
    """As root of the stranger's container with NET_ADMIN, over a bridge with route_localnet."""
    bridge, gate = "strange0", "172.29.0.1"
    run(*machine.host, "sysctl", "-qw", f"net.ipv4.conf.{bridge}.route_localnet=1")
    where = machine.engine.inside(json.loads(machine.engine.ask("GET", "/containers/stranger/json"))["State"]["Pid"])
    run(*where, "sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
    run(*where, "ip", "address", "del", "127.0.0.1/8", "dev", "lo")
    run(*where, "ip", "route", "del", "local", "127.0.0.0/8", "table", "local", check=False)
    run(*where, "ip", "route", "add", "127.0.0.0/8", "via", gate)
    assert not machine.engine.reaches(where, "127.0.0.1", 7878)
    machine.doctor("--remove", "--apply").ok()
    assert machine.engine.reaches(where, "127.0.0.1", 7878), "it is the rules that refuse"
    machine.doctor("--apply", *OPTIONS).ok()
    run(*where, "ip", "route", "del", "127.0.0.0/8")
    run(*where, "ip", "address", "add", "127.0.0.1/8", "dev", "lo")
