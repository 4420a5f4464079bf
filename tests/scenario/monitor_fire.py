#!/usr/bin/python3
"""Plays Firecracker for the contract test: its API as the program publishes it, strictly.

The test puts it behind the parts of monitor_cloud.py that are the same for both.  It plays the guest too.
"""
# flake8: noqa: F821  names of monitor_cloud.py
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 2, 0x1000, 0x4000
TUNSETIFF = 0x400454ca
EROFS = 0xe0f5e1e2
HAS_NET, HAS_SHARE, HAS_DISK, TRUST = 1, 2, 4, 8

SCHEMA = {
    "MachineConfiguration": ({"vcpu_count", "mem_size_mib"},
                             {"vcpu_count": int, "mem_size_mib": int, "smt": bool, "track_dirty_pages": bool,
                              "cpu_template": str, "huge_pages": ("None", "Transparent", "2M")}),
    "BootSource": ({"kernel_image_path"}, dict.fromkeys(("kernel_image_path", "initrd_path", "boot_args"), str)),
    "Drive": ({"drive_id", "is_root_device"},
              {"drive_id": str, "is_root_device": bool, "is_read_only": bool, "path_on_host": str, "partuuid": str,
               "cache_type": ("Unsafe", "Writeback"), "io_engine": ("Sync", "Async"), "socket": str}),
    "NetworkInterface": ({"iface_id", "host_dev_name"},
                         {"iface_id": str, "host_dev_name": str, "guest_mac": str, "mtu": int}),
    "Vsock": ({"guest_cid", "uds_path"}, {"guest_cid": int, "uds_path": str, "vsock_id": str}),
    "EntropyDevice": (set(), {}),
    "Balloon": ({"amount_mib", "deflate_on_oom"},
                {"amount_mib": int, "deflate_on_oom": bool, "stats_polling_interval_s": int,
                 "free_page_hinting": bool, "free_page_reporting": bool}),
    "InstanceActionInfo": ({"action_type"}, {"action_type": ("FlushMetrics", "InstanceStart", "SendCtrlAltDel")}),
}
BODIES = {"machine-config": "MachineConfiguration", "boot-source": "BootSource", "drives": "Drive",
          "network-interfaces": "NetworkInterface", "vsock": "Vsock", "entropy": "EntropyDevice",
          "balloon": "Balloon", "actions": "InstanceActionInfo"}
# The last part of a path is the object's own name.
NAMED = {"drives": "drive_id", "network-interfaces": "iface_id"}


class FireApi(Api):
    def request(self):
        first, fields, body = self.read()
        method, path, version = first.split(" ")
        if (method, version) != ("PUT", "HTTP/1.1") or not body or fields.get("content-type") != "application/json":
            raise Broken(f"request {first!r}")
        _, call, *name = path.split("/")
        config = json.loads(body)
        if call not in BODIES or len(name) != (call in NAMED) or (name and config.get(NAMED[call]) != name[0]):
            raise Broken(f"no {method} {path}")
        return call, config

    def answer(self, status, fault=None):
        body = b"" if fault is None else json.dumps({"fault_message": fault}).encode()
        head = f"HTTP/1.1 {status} \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.connection.sendall(head.encode() + b"\r\n" + body)

    def take(self, call, config):
        if call == "machine-config" and not 1 <= config["vcpu_count"] <= 32:
            raise Broken("out of range")
        if call == "boot-source":
            with open(config["kernel_image_path"], "rb") as kernel, open(config["initrd_path"], "rb") as initrd:
                if os.uname().machine == "x86_64" and kernel.read(4) != b"\x7fELF":
                    raise Broken("the kernel is no ELF file")
                initrd.read(1)
        if call == "drives":
            with open(config["path_on_host"], "rb") as disk:
                disk.seek(1024)
                if struct.unpack("<I", disk.read(4)) != (EROFS,) or not config["is_read_only"]:
                    raise Broken("the disk is no erofs, or can be written")
        if call == "network-interfaces":
            self.tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            ask = struct.pack("16sH22x", config["host_dev_name"].encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
            name = fcntl.ioctl(self.tap, TUNSETIFF, ask)[:16].rstrip(b"\0").decode()
            self.seen.append(f"[{name}]")
        if call == "vsock":
            # The program makes its own socket there.
            self.vsock = socket.socket(socket.AF_UNIX)
            self.vsock.bind(config["uds_path"])
            self.vsock.listen()
        if call == "actions" and (config["action_type"] != "InstanceStart" or
                                  not {"machine-config", "boot-source", "drives", "vsock"} <= set(self.config)):
            raise Broken(f"{config} too early")

    def serve(self):
        self.config = {}
        while "actions" not in self.seen:
            call, config = self.request()
            judge(config, BODIES[call], call)
            if self.behaviour == "is older" and config.pop("free_page_reporting", None):
                self.answer(400, "unknown field `free_page_reporting`")
                continue
            self.take(call, config)
            self.seen.append(call)
            self.config[call] = config
            if self.behaviour == f"refuse {call}":
                self.answer(400, f"no {call}\nhere")
            elif self.behaviour == "garbage":
                self.connection.sendall(b"220 smtp.example.test ESMTP\r\n\r\n")
            else:
                self.answer(204)


def fire(behaviour):
    option, path = sys.argv[1:]
    assert option == "--api-sock", sys.argv
    if behaviour == "die":
        sys.exit("the monitor has no KVM")
    ends = os.pipe()
    if behaviour == "stay silent":
        os.read(ends[0], 1)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    api = FireApi(listener, behaviour)
    try:
        api.serve()
        guest = Guest(f"{api.config['vsock']['uds_path']}_{PORT}")
        version, _, flags = struct.unpack("<IQI", guest.greeting()[:16])
        balloon = api.config["balloon"]
        guest.fail(f"kept: {' '.join(api.seen)}; greeted with version {version}, {flags}; "
                   f"{api.config['machine-config']['mem_size_mib']} MiB, {balloon.get('free_page_reporting', False)}")
        # It runs until the cell ends.
        os.read(ends[0], 1)
    except Broken as e:
        api.answer(400, f"broken: {e}")
    except ConnectionError:
        # Whoever was refused has left, and has said why.
        sys.exit(0)


fire(BEHAVIOUR)     # the first line, which the test writes
