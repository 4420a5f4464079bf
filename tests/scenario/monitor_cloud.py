#!/usr/bin/python3
"""Plays Cloud Hypervisor for the contract test: its API as the program publishes it, strictly.

The first line of the file says how it behaves.  It also plays the guest: once the machine is booted or resumed it
takes the first message at the port, and answers as a guest that cannot start, with its verdict as the reason.  A guest
that becomes a template announces itself, and connects again after that.
"""
import fcntl
import json
import os
import socket
import struct
import sys

INIT_FAILED = 2
TUNGETIFF = 0x800454d2
PORT = 1024

# Components of the schema: what is required, and the type of each property that a driver could use.
SCHEMA = {
    "VmConfig": ({"payload"}, {"payload": "PayloadConfig", "cpus": "CpusConfig", "memory": "MemoryConfig",
                               "rng": "RngConfig", "balloon": "BalloonConfig", "serial": "ConsoleConfig",
                               "console": "ConsoleConfig", "fs": ["FsConfig"], "vsock": "VsockConfig",
                               "net": ["NetConfig"], "disks": [dict], "iommu": bool, "watchdog": bool,
                               "pvpanic": bool, "landlock_enable": bool}),
    "PayloadConfig": (set(), dict.fromkeys(("firmware", "kernel", "cmdline", "initramfs"), str)),
    "CpusConfig": ({"boot_vcpus", "max_vcpus"}, {"boot_vcpus": int, "max_vcpus": int, "nested": bool}),
    "MemoryConfig": ({"size"}, {"size": int, "shared": bool, "mergeable": bool, "hugepages": bool, "prefault": bool,
                                "reserve": bool, "thp": bool, "zones": ["MemoryZoneConfig"]}),
    "MemoryZoneConfig": ({"id", "size"}, {"id": str, "size": int, "file": str, "shared": bool, "mergeable": bool,
                                          "hugepages": bool, "prefault": bool}),
    "VmSnapshotConfig": (set(), {"destination_url": str}),
    "RestoreConfig": ({"source_url"}, {"source_url": str, "prefault": bool}),
    "RngConfig": ({"src"}, {"src": str, "iommu": bool}),
    "BalloonConfig": ({"size"}, {"size": int, "deflate_on_oom": bool, "free_page_reporting": bool}),
    "ConsoleConfig": ({"mode"}, {"mode": ("Off", "Pty", "Tty", "File", "Socket", "Null"), "file": str, "socket": str}),
    "FsConfig": ({"num_queues", "queue_size", "socket", "tag"},
                 {"num_queues": int, "queue_size": int, "socket": str, "tag": str, "id": str}),
    "VsockConfig": ({"cid", "socket"}, {"cid": int, "socket": str, "id": str}),
    "NetConfig": (set(), {"tap": str, "mac": str, "mtu": int, "num_queues": int, "queue_size": int, "id": str}),
}
BODIES = {"vm.create": "VmConfig", "vm.add-net": "NetConfig", "vm.add-fs": "FsConfig",
          "vm.snapshot": "VmSnapshotConfig", "vm.restore": "RestoreConfig"}
EMPTY = {"vm.boot", "vm.pause", "vm.resume", "vmm.shutdown"}
# Whatever comes before a request; the last of these that was seen counts.
AFTER = {"vm.boot": ("vm.create",), "vm.pause": ("vm.boot",), "vm.snapshot": ("vm.pause",),
         "vm.add-fs": ("vm.restore",), "vm.add-net": ("vm.create", "vm.restore"), "vm.resume": ("vm.restore",)}
STATE = {"memory": "outside"}
MARK = b"written by the guest"


class Broken(Exception):
    """The contract is."""


def judge(value, kind, where):
    if isinstance(kind, list):
        if not isinstance(value, list):
            raise Broken(f"{where} is no array")
        for entry in value:
            judge(entry, kind[0], where)
    elif isinstance(kind, tuple):
        if value not in kind:
            raise Broken(f"{where} is {value!r}")
    elif isinstance(kind, str):
        required, properties = SCHEMA[kind]
        if not isinstance(value, dict) or not required <= set(value) <= set(properties):
            raise Broken(f"{where} has {sorted(value)}")
        for name, entry in value.items():
            judge(entry, properties[name], f"{where}.{name}")
    elif type(value) is not kind:
        raise Broken(f"{where} is {value!r}")


class Api:
    def __init__(self, listener, behaviour):
        self.connection, _ = listener.accept()
        self.behaviour, self.data, self.fds, self.seen, self.config = behaviour, b"", [], [], None
        self.is_recorded = False

    def more(self):
        data, fds, _, _ = socket.recv_fds(self.connection, 65536, 4)
        if not data:
            sys.exit(0)
        self.data += data
        self.fds += fds

    def read(self):
        """The first line of a request, its fields and its body."""
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        first, *lines = head.decode("ascii").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(fields.get("content-length", 0))
        while len(self.data) < length:
            self.more()
        body, self.data = self.data[:length], self.data[length:]
        return first, fields, body

    def request(self):
        first, fields, body = self.read()
        method, path, version = first.split(" ")
        if version != "HTTP/1.1" or "host" not in fields or self.data:
            raise Broken(f"request {first!r}")
        if method != "PUT" or not path.startswith("/api/v1/"):
            raise Broken(f"no {method} {path}")
        if body and fields.get("content-type") != "application/json":
            raise Broken("the body is not declared as JSON")
        return path.removeprefix("/api/v1/"), body

    def answer(self, status, body=b""):
        self.connection.sendall(f"HTTP/1.1 {status}\r\nServer: Cloud Hypervisor API\r\nConnection: keep-alive\r\n"
                                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
                                if body else f"HTTP/1.1 {status}\r\nServer: Cloud Hypervisor API\r\n"
                                "Connection: keep-alive\r\n\r\n".encode())

    def create(self, config):
        if self.config is not None:
            raise Broken("created twice")
        for path in config["payload"]["kernel"], config["payload"]["initramfs"], config["rng"]["src"]:
            with open(path, "rb") as file:
                file.read(1)
        self.is_recorded = "cloister.recorded" in config["payload"]["cmdline"].split()
        memory = config["memory"]
        if self.is_recorded == ("fs" in config) or self.is_recorded == ("zones" not in memory):
            raise Broken("a template has memory with a name, and no files")
        if (memory["size"] == 0) != self.is_recorded:
            raise Broken("memory is either given by zones or by its size")
        if any(part.get("shared") is not True for part in memory.get("zones", [memory])):
            raise Broken("a file server needs shared memory")
        if not 1 <= config["cpus"]["boot_vcpus"] <= config["cpus"]["max_vcpus"] or config["vsock"]["cid"] < 3:
            raise Broken("out of range")
        for share in config.get("fs", []):
            self.add_fs(share)
        self.begin(config)

    def begin(self, config):
        # The program makes its own socket there.
        self.vsock = socket.socket(socket.AF_UNIX)
        self.vsock.bind(config["vsock"]["socket"])
        self.vsock.listen()
        self.config = config
        for zone in config["memory"].get("zones", []):
            self.memory = open(zone["file"], "r+b", buffering=0)
            if os.fstat(self.memory.fileno()).st_size != zone["size"]:
                raise Broken("the memory's file has another size")

    @staticmethod
    def add_fs(config):
        with socket.socket(socket.AF_UNIX) as share:
            share.connect(config["socket"])

    def snapshot(self, config):
        """Memory in a shared file with a name is not saved."""
        folder = config["destination_url"].removeprefix("file://")
        for name, value in ("config", self.config), ("state", STATE):
            with open(f"{folder}/{name}.json", "x") as file:
                json.dump(value, file)

    def restore(self, config):
        folder = config["source_url"].removeprefix("file://")
        files = [json.load(open(f"{folder}/{name}.json")) for name in ("config", "state")]
        self.begin(files[0])
        if files[1] != STATE or self.memory.read(len(MARK)) != MARK:
            raise Broken("it is not what was recorded")

    def add_net(self, config):
        if self.config is None or len(self.fds) != 1 or config.get("num_queues", 2) != 2 * len(self.fds):
            raise Broken(f"a network with {len(self.fds)} descriptors")
        name = fcntl.ioctl(self.fds[0], TUNGETIFF, bytes(40))[:16].rstrip(b"\0").decode()
        self.seen.append(f"[{name}]")

    def serve(self, *last):
        while not set(last) & set(self.seen):
            call, body = self.request()
            if call not in BODIES and (call not in EMPTY or body):
                raise Broken(f"{call} with {len(body)} bytes")
            if call in AFTER and not set(AFTER[call]) & set(self.seen):
                raise Broken(f"{call} too early")
            if call in BODIES:
                config = json.loads(body)
                judge(config, BODIES[call], call)
                getattr(self, call.removeprefix("vm.").replace("-", "_"))(config)
            self.seen.append(call)
            if self.behaviour == f"refuse {call}":
                self.answer("400 Bad Request", json.dumps(["Error from API", f"no {call}\nhere"]).encode())
            elif self.behaviour == "garbage":
                self.connection.sendall(b"220 smtp.example.test ESMTP\r\n\r\n")
            else:
                self.answer("204 No Content")


class Guest:
    """A guest that cannot start."""

    def __init__(self, path):
        self.path, self.port = path, socket.socket(socket.AF_UNIX)
        self.port.connect(path)

    def become_template(self, api):
        """No connection may be part of it."""
        api.memory.write(MARK)
        self.port.sendall(b"\0")
        if self.port.recv(1):
            raise Broken("a template gets no message")
        try:
            Guest(self.path)
        except ConnectionRefusedError:
            api.serve("vm.snapshot")
        else:
            raise Broken("somebody listens while a template is made")

    def take(self, n):
        data = b""
        while len(data) < n:
            data += self.port.recv(n - len(data)) or sys.exit("the port ended")
        return data

    def greeting(self):
        (length,) = struct.unpack("<I", self.take(4))
        return self.take(length)

    def fail(self, why):
        text = why.encode()[:400]
        message = struct.pack("<III", INIT_FAILED, 5, len(text)) + text + b"\0"
        self.port.sendall(struct.pack("<I", len(message)) + message)
        self.port.close()


def main(behaviour):
    option, socket_at = sys.argv[1:]
    assert option == "--api-socket" and socket_at.startswith("fd="), sys.argv
    if behaviour == "die":
        sys.exit("the monitor has no KVM")
    ends = os.pipe()
    if behaviour == "stay silent":
        os.read(ends[0], 1)
    api = Api(socket.socket(fileno=int(socket_at.removeprefix("fd="))), behaviour)
    try:
        api.serve("vm.boot", "vm.resume")
        guest = Guest(f"{api.config['vsock']['socket']}_{PORT}")
        if api.is_recorded:
            guest.become_template(api)
        else:
            greeting = guest.greeting()
            memory = api.config["memory"].get("zones", [api.config["memory"]])
            guest.fail(f"kept: {' '.join(api.seen)}; greeted with version {struct.unpack('<I', greeting[:4])[0]}; "
                       f"{memory[0]['size'] >> 20} MiB")
        call, body = api.request()
        if (call, body) == ("vmm.shutdown", b""):
            api.answer("204 No Content")
    except Broken as e:
        api.answer("500 Internal Server Error", json.dumps([f"broken: {e}"]).encode())


main(BEHAVIOUR)     # noqa: F821  the first line, which the test writes
