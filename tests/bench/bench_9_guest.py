"""Requests from a virtual machine: through the gate, and from the same guest through nginx.

The guest beside ours has the same kernel, memory, processor and network, and runs the load from its initramfs.  TLS is
on both sides of either proxy."""
import contextlib
import re
import shutil
import subprocess

from bench import Samples, Unmeasured, group
from bench_5_egress import NAME, ORIGIN, PROXY, make_certificates, nginx, running
from bench_9_microvm import MEMORY, ByHand, engine_of, monitor_of
from ports import free_port

CONNECTIONS = 8
RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
HOST = "10.0.2.2"                               # the host's loopback, for a guest of QEMU's user network
INIT = """#!/busybox sh
/busybox mount -t proc proc /proc
/busybox mount -t devtmpfs dev /dev
/busybox mount -t sysfs sys /sys
for module in /modules/*; do /busybox insmod $module; done
/busybox ip link set lo up
/busybox ip link set eth0 up
/busybox ip address add 10.0.2.15/24 dev eth0
until port=$(echo /dev/vport*p1) && [ -c $port ]; do :; done
exec /wrk {options} >$port 2>&1
"""


def libraries(program):
    """What PROGRAM is linked with, and its loader."""
    text = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", text)


def initramfs(base, top, options):
    """BASE with a load generator in the place of what prepares a cell."""
    tree = top / "guest"
    tree.mkdir()
    for source, name in (("/bin/busybox", "busybox"), (shutil.which("wrk"), "wrk"),
                         *((path, path.lstrip("/")) for path in libraries(shutil.which("wrk")))):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, tree / name)
    (tree / "init").write_text(INIT.format(options=options))
    (tree / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    archive = subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=tree, check=True, capture_output=True,
                             input=names.encode()).stdout
    whole = top / "guest.cpio"
    whole.write_bytes(base.read_bytes() + archive)
    return whole


def rate_in(text, what):
    found = RATE.search(text)
    if not found or "Non-2xx" in text:
        raise Unmeasured(f"wrk {what}: {text.strip()[-300:]}")
    return float(found[1])


def through_nginx(hand, seconds):
    hand.make_memory()
    _, port, _ = hand.start(hand.template, "-netdev", "user,id=net", "-device", "virtio-net-device,netdev=net",
                            records=False)
    port.settimeout(seconds + 120)
    text = ""
    while not RATE.search(text) or not text.endswith("\n"):
        part = port.recv(4096)
        if not part:
            raise Unmeasured(f"the guest beside ours ended: {text.strip()[-300:]}")
        text += part.decode(errors="replace")
    hand.end()
    return rate_in(text, "through nginx")


@group("guest")
def guest(lab, report):
    if not lab.root:
        report.note("guest", "needs root, to look at the monitor")
        return
    for tool in ("nginx", "wrk", "openssl", "busybox"):
        if shutil.which(tool) is None:
            raise Unmeasured(f"{tool} is missing")
    engine, who, seconds = engine_of(lab), lab.root, report.pick(6, 2)
    top = lab.top / "guest"
    (top / "www").mkdir(parents=True)
    make_certificates(top)
    origin, proxy = free_port(), free_port()
    options = f"-t1 -c{CONNECTIONS} -d{seconds}s"
    run = [lab.cloister, "run", "-q", "--boundary", "microvm", "--memory", f"{MEMORY}M", "--allow", f"{NAME}:{origin}",
           "--ca", top / "ca.pem"]
    ours, peers = Samples(), Samples()
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(nginx(top, "origin", ORIGIN.format(port=origin, top=top)), origin))
        stack.enter_context(running(nginx(top, "proxy", PROXY.format(port=proxy, origin=origin, top=top, name=NAME)),
                                    proxy))
        arguments, files = monitor_of(lab, who, *run[3:7])
        files["initramfs"] = initramfs(files["initramfs"], top, f"{options} https://{HOST}:{proxy}/small")
        hand = ByHand(lab, who, arguments, files)
        stack.callback(hand.end)
        for _ in range(report.pick(4, 1)):
            done = who.run([*run, "--", "wrk", *options.split(), f"https://{NAME}:{origin}/small"],
                           timeout=seconds + 240)
            ours.append(rate_in(done.stdout + done.stderr, "through the gate"))
            peers.append(through_nginx(hand, seconds))
    report.row(f"guest: requests, {CONNECTIONS} connections ({engine})", ours.median, "/s", ours.spread, "nginx",
               peers.median, "ratio >= 0.7")
