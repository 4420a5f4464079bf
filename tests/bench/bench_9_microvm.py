"""Virtual machines: the time to the first instruction, and the memory, against QEMU started by hand.

The same kernel, initramfs and kind of machine boots and is restored by hand, outside any cell and with nothing
plugged in.  Its guest answers on its port; ours runs a program that writes one byte."""
import array
import json
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import time
from pathlib import Path

from bench import Samples, Unmeasured, group
from bench_1_start import PLAIN, oci
from lab import descendants, private_bytes, processes

MIB = 1024 * 1024
MEMORY = 256
CLONES = 8
REFUSED = struct.pack("<I", 0xffffffff)         # a message that is too long: the guest says so


def find_kernel(lab):
    """A kernel and its modules, copied to where everybody can read them."""
    kernels = sorted([*Path("/boot").glob("vmlinuz-*-cloud-*"),
                      *(lab.build / "vm").glob("linux-image-*/boot/vmlinuz-*")])
    if "CLOISTER_VM_KERNEL" in os.environ:
        kernels = [Path(os.environ["CLOISTER_VM_KERNEL"])]
    if not kernels:
        raise Unmeasured("there is no cloud kernel: install linux-image-cloud-" +
                         {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()])
    kernel = shutil.copy(kernels[-1], lab.top)
    release = kernels[-1].name.removeprefix("vmlinuz-")
    modules = next((f for f in (kernels[-1].parent.parent / "lib/modules" / release,
                                Path("/lib/modules") / release) if f.exists()), None)
    if modules is None:
        return {"CLOISTER_VM_KERNEL": str(kernel)}
    copy = lab.top / "modules"
    if not copy.exists():
        shutil.copytree(modules, copy, ignore=shutil.ignore_patterns("build", "source"))
    return {"CLOISTER_VM_KERNEL": str(kernel), "CLOISTER_VM_MODULES": str(copy)}


class ByHand:
    """QEMU with the arguments that a cell's has, and no cell."""

    def __init__(self, lab, who, arguments, files):
        self.lab, self.who, self.files = lab, who, files
        self.template, self.state = who.top / "by-hand-ram", who.top / "by-hand-state"
        self.arguments, self.running, self.kept = arguments, [], []

    def start(self, ram, *more, share="on", records=True):
        """The process, the host's end of its port, and of its control socket."""
        ends, control = socket.socketpair(), socket.socketpair()
        argv, words = ["qemu-system-" + platform.machine()], iter(self.arguments[1:])
        for word in words:
            if word in ("-S", "-incoming"):
                next(words) if word == "-incoming" else None
                continue
            if word in ("-chardev", "-mon", "-netdev"):
                next(words)
                continue
            value = word
            value = re.sub(r"mem-path=[^,]*", f"mem-path={ram}", value).replace("share=on", f"share={share}")
            value = str({"/kernel": self.files["kernel"], "/initramfs": self.files["initramfs"]}.get(value, value))
            if value.startswith("quiet "):
                value = re.sub(r" cloister\.\S+", "", value) + (" cloister.recorded" if records else "")
            argv.append(value)
        argv += ["-chardev", f"socket,id=port,fd={ends[1].fileno()}", "-chardev",
                 f"socket,id=control,fd={control[1].fileno()}", "-mon", "chardev=control,mode=control", *more]
        self.heard = b""
        process = subprocess.Popen([str(a) for a in argv], pass_fds=[ends[1].fileno(), control[1].fileno()],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.running.append(process)
        for pair in (ends, control):
            pair[1].close()
            pair[0].settimeout(120)
        return process, ends[0], control[0]

    def ask(self, control, command, fds=(), **arguments):
        text = json.dumps({"execute": command, "arguments": arguments}).encode()
        control.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        return self.await_text(control, b'"return"')

    def await_text(self, control, wanted):
        while True:
            line, _, rest = self.heard.partition(b"\n")
            if rest or self.heard.endswith(b"\n"):
                self.heard = rest
                if wanted in line:
                    return
                if b'"error"' in line:
                    raise Unmeasured(f"QEMU by hand: {line!r}")
                continue
            part = control.recv(65536)
            if not part:
                raise Unmeasured("QEMU by hand ended")
            self.heard += part

    def prepare(self, control):
        self.ask(control, "qmp_capabilities")
        self.ask(control, "migrate-set-capabilities", capabilities=[
            {"capability": name, "state": True} for name in ("x-ignore-shared", "events")])

    def boot(self):
        """Milliseconds to the guest's first word."""
        self.make_memory()
        began = time.monotonic()
        _, port, _ = self.start(self.template, records=False)
        port.send(REFUSED)
        port.recv(1)
        taken = (time.monotonic() - began) * 1000
        self.end()
        return taken

    def make_memory(self):
        with open(self.template, "wb") as file:
            file.truncate(MEMORY * MIB)

    def record(self):
        """Leaves a template behind."""
        self.make_memory()
        _, port, control = self.start(self.template)
        port.recv(1)
        self.prepare(control)
        self.ask(control, "stop")
        with open(self.state, "wb") as file:
            self.ask(control, "getfd", [file.fileno()], fdname="state")
            self.ask(control, "migrate", uri="fd:state")
            self.await_text(control, b'"completed"')
        self.end()

    def end(self):
        for process in self.running:
            process.kill()
            process.wait()
        self.running, self.kept = [], []

    def restore(self, speaks=True):
        """A copy of the template, which maps its file: the process, and milliseconds to its first and last word.
        One that does not speak waits on."""
        began = time.monotonic()
        process, port, control = self.start(self.template, "-incoming", "defer", share="off")
        self.prepare(control)
        state = os.open(self.state, os.O_RDONLY)
        self.ask(control, "getfd", [state], fdname="state")
        os.close(state)
        self.ask(control, "migrate-incoming", uri="fd:state")
        self.await_text(control, b'"completed"')
        self.ask(control, "cont")
        if speaks:
            port.send(REFUSED)
            port.recv(1)
        self.kept.append(port)
        return process.pid, (time.monotonic() - began) * 1000


def first_byte(who, argv):
    """Milliseconds until ARGV has written one."""
    began = time.monotonic()
    process = who.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    byte = process.stdout.read(1)
    taken = (time.monotonic() - began) * 1000
    _, complaint = process.communicate(timeout=120)
    if byte != b"x" or process.returncode != 0:
        raise Unmeasured(f"{argv[-1]}: {complaint.decode(errors='replace')[-300:]}")
    return taken


def monitor_of(lab, who, *how):
    """The arguments and root of the monitor of a cell, which is then killed."""
    done = who.run([lab.cloister, "run", "-q", "-d", *how, "--", "sleep", "1000"], timeout=300)
    cell = done.stdout.strip()
    if done.returncode != 0:
        raise Unmeasured(done.stderr.strip()[-300:])
    pid = next(c["init"] for c in json.loads(who.run([lab.cloister, "ps", "--json"]).stdout) if c["cell"] == cell)
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    root = Path(f"/proc/{pid}/root")
    files = {}
    for name in ("kernel", "initramfs"):
        files[name] = who.top / f"by-hand-{name}"
        files[name].write_bytes((root / name).read_bytes())
    who.run([lab.cloister, "kill", cell])
    return arguments, files


def measure_starts(report, lab, who, hand, run, engine):
    rounds = report.pick(10, 3)
    ours, peers = Samples(), Samples()
    for _ in range(report.pick(4, 2)):
        ours.append(first_byte(who, [*run, "--vm-boot", "--", "printf", "x"]))
        peers.append(hand.boot())
    report.row(f"microvm: cold start ({engine})", ours.median, "ms", ours.spread, "QEMU by hand", peers.median,
               "ratio <= 1.1")
    hand.record()
    ours, peers = Samples(), Samples()
    first_byte(who, [*run, "--", "printf", "x"])
    for _ in range(rounds):
        ours.append(first_byte(who, [*run, "--", "printf", "x"]))
        peers.append(hand.restore()[1])
        hand.end()
    report.row(f"microvm: warm start ({engine})", ours.median, "ms", ours.spread, "restored by hand", peers.median,
               "ratio <= 1.1")


def measure_runsc(report, lab, who, run, engine):
    """gVisor is the other wall with a kernel of its own; its platform needs no KVM either."""
    label = f"microvm: warm start beside runsc ({engine})"
    peer = oci(lab, "runsc", "--platform=ptrace", "--network=none", command=("printf", "x"))
    if peer is None:
        report.note(label, "runsc is not installed")
        return
    ours, peers = Samples(), Samples()
    for _ in range(report.pick(10, 3)):
        ours.append(first_byte(who, [*run, "--", "printf", "x"]))
        peers.append(first_byte(who, [*PLAIN, *peer]))
    report.row(label, ours.median, "ms", ours.spread, "runsc", peers.median)


def await_true(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Unmeasured("a machine is not ready")
        time.sleep(0.001)


def dispatched(lab, who, run, waits):
    """Milliseconds until the agent of a cell in the background has written a byte; out of a pool if one WAITS."""
    folder, policy, keeper = who.top / "pool", who.top / "pool.yaml", None
    folder.mkdir(exist_ok=True)
    (folder / "first").unlink(missing_ok=True)
    policy.write_text("version: 1\negress:\n  - allow: www.example.test\n")

    def ready():
        return any(t["waiting"] for t in json.loads(who.run([lab.cloister, "vm", "list", "--json"]).stdout))
    if waits:
        keeper = who.popen([lab.cloister, "vm", "wait", "--memory", f"{MEMORY}M"], stdin=subprocess.PIPE)
        await_true(ready)
    began = time.monotonic()
    done = who.run([*run, "-d", "--warm", "-p", policy, "-w", f"{folder}:rw", "--", "sh", "-c", "printf x >first"])
    await_true(lambda: (folder / "first").exists() and (folder / "first").stat().st_size == 1)
    taken = (time.monotonic() - began) * 1000
    if done.returncode != 0 or (waits and ready()):
        raise Unmeasured(f"the cell did not start, or not out of the pool: {done.stderr[-300:]}")
    who.run([lab.cloister, "wait", done.stdout.strip()])
    if keeper:
        keeper.communicate()
    return taken


def measure_pool(report, lab, who, run, engine):
    ours, peers = Samples(), Samples()
    dispatched(lab, who, run, False)
    for _ in range(report.pick(8, 3)):
        ours.append(dispatched(lab, who, run, True))
        peers.append(dispatched(lab, who, run, False))
    report.row(f"microvm: start out of a pool ({engine})", ours.median, "ms", ours.spread, "from its template",
               peers.median)


def private_mib(pid):
    """What a monitor alone has: its own memory, and the guest's where that is a file in memory, mapped or not."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    files = {(st.st_dev, st.st_ino): st.st_blocks * 512 for link in Path(f"/proc/{pid}/fd").iterdir()
             if os.readlink(link).startswith("/memfd:guest") for st in [link.stat()]}
    return int(re.search(r"^Anonymous:\s+(\d+)", text, re.M).group(1)) / 1024 + sum(files.values()) / MIB


def measure_memory(report, lab, who, hand, run, engine):
    for _ in range(CLONES):
        if who.run([*run, "-d", "--", "sleep", "1000"], timeout=120).returncode != 0:
            raise Unmeasured("a clone did not start")
    cells, tree = json.loads(who.run([lab.cloister, "ps", "--json"]).stdout), processes()
    copies = [hand.restore(speaks=False)[0] for _ in range(CLONES)]
    inside = Samples(private_mib(c["init"]) for c in cells)
    peer = Samples(private_mib(pid) for pid in copies)
    report.row(f"microvm: private memory of one of {CLONES} ({engine})", inside.median, "MiB", inside.spread,
               "restored by hand", peer.median, "value <= 45")
    outside = Samples(sum(private_bytes(pid) or 0 for pid in {c["supervisor"], *descendants(c["supervisor"], tree)}
                          - {c["init"]}) / MIB for c in cells)
    report.row(f"microvm: ours beside the monitor ({engine})", outside.median, "MiB", outside.spread,
               bar="value <= 4")
    who.run([lab.cloister, "kill", "--all"])


def engine_of(lab):
    """What runs root's virtual machines from here on."""
    lab.root.env.pop("CLOISTER_VM_ACCEL", None)
    usable = "kvm" in lab.root.run([lab.cloister, "doctor"]).stdout and lab.root.run(
        [lab.cloister, "run", "-q", "--boundary", "microvm", "--", "true"]).returncode == 0
    lab.root.env |= find_kernel(lab) | {"CLOISTER_VM_ACCEL": "kvm" if usable else "tcg"}
    return "KVM" if usable else "emulated"


@group("microvm")
def microvm(lab, report):
    who = lab.root
    if not who:
        report.note("microvm", "needs root, to look at the monitor")
        return
    engine = engine_of(lab)
    run = [lab.cloister, "run", "-q", "--boundary", "microvm", "--memory", f"{MEMORY}M"]
    hand = ByHand(lab, who, *monitor_of(lab, who, *run[3:]))
    try:
        measure_starts(report, lab, who, hand, run, engine)
        measure_runsc(report, lab, who, run, engine)
        measure_pool(report, lab, who, run, engine)
        measure_memory(report, lab, who, hand, run, engine)
    finally:
        hand.end()
