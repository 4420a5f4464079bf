"""Boots a distribution's kernel in QEMU: machines, modules, an initramfs, KVM or emulation.

The scenarios' small machine (tests/scenario/vm.py) and the matrix both use this.
"""
import functools
import lzma
import os
import platform
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# A kernel is up after a second on real KVM. Devices that pretend take minutes, or hang.
KVM_SECONDS = 20

# Time passes in a counted guest as it executes, at four nanoseconds for each instruction, and
# with real time while it waits.  However busy this machine is, nothing in the guest times out for
# want of a processor.  Two counted processors of amd64 do not boot.
COUNTED = ("-icount", "shift=2", "-smp", "1")

PROBE = """#!/bin/busybox sh
/bin/busybox echo the-guest-runs
/bin/busybox poweroff -f
"""


@dataclass(frozen=True)
class Machine:
    """How QEMU is called for an architecture."""
    arch: str               # dpkg's name
    uname: str              # the kernel's name
    qemu: str
    console: str
    board: tuple
    emulated_board: tuple
    emulated_cpu: str

    @property
    def is_native(self):
        return platform.machine() == self.uname


MACHINES = {
    # The cortex-a57 boots in a second under emulation; `max` takes six.  Both have KVM of their own.
    "arm64": Machine("arm64", "aarch64", "qemu-system-aarch64", "ttyAMA0",
                     ("-M", "virt"), ("-M", "virt,virtualization=on"), "cortex-a57"),
    "amd64": Machine("amd64", "x86_64", "qemu-system-x86_64", "ttyS0",
                     ("-M", "q35"), ("-M", "q35"), "qemu64,+svm,+npt"),
}


def native_machine():
    """The machine of this architecture, or None."""
    return next((m for m in MACHINES.values() if m.is_native), None)


# ---- kernels and their modules -------------------------------------------------------------

def read_module(path):
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True).stdout
    return data


def module_name(path):
    return path.name.split(".")[0].replace("-", "_")


def find_modules(root, wanted):
    """(name, bytes) of each module that WANTED needs below ROOT, in the order to load them."""
    files = {module_name(p): p for p in root.glob("**/modules/**/*.ko*")}
    done = {}

    def add(name):
        if name in done or name not in files:
            return          # what is not a module is built in
        data = read_module(files[name])
        depends = re.search(rb"(?:^|\0)depends=([^\0]*)\0", data)
        for other in depends.group(1).decode().split(",") if depends else []:
            add(other.replace("-", "_"))
        done[name] = data

    for name in wanted:
        add(name)
    return list(done.items())


def make_cpio(entries):
    """An initramfs: the `newc` format, of (path, mode, bytes)."""
    out = bytearray()
    for number, (path, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        out += b"070701" + b"".join(b"%08X" % f for f in fields) + name
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def make_initramfs(busybox, init, modules=(), extra=()):
    """An initramfs with BUSYBOX (a file), the text INIT, modules and EXTRA cpio entries."""
    folders = {"bin", "dev", "modules", "proc", "sys"}
    folders.update(path for path, mode, _ in extra if stat.S_ISDIR(mode))
    for path, _, _ in extra:
        folders.update(str(p) for p in Path(path).parents if str(p) != ".")
    entries = [(d, 0o040755, b"") for d in sorted(folders)]
    entries += [
        ("init", 0o100755, init.encode()),
        ("bin/busybox", 0o100755, Path(busybox).read_bytes()),
        ("modules/order", 0o100644, "\n".join(n for n, _ in modules).encode()),
    ]
    entries += [(f"modules/{n}", 0o100644, data) for n, data in modules]
    entries += [e for e in extra if e[0] not in folders]
    return make_cpio(entries)


# ---- QEMU ----------------------------------------------------------------------------------

def command(machine, kernel, initramfs, *, accelerator, memory=512, append="", more=(),
            is_counted=False):
    """The command line that boots KERNEL, with the console on standard output.

    IS_COUNTED: an emulated guest's clock goes by what it executes.
    """
    is_real = accelerator == "kvm"
    cpu, board = ("host", machine.board) if is_real else (machine.emulated_cpu, machine.emulated_board)
    processors = COUNTED if is_counted and accelerator == "tcg" else ("-smp", "2")
    return [machine.qemu, *board, "-accel", accelerator, "-cpu", cpu, *processors,
            "-m", str(memory), "-nographic", "-nodefaults",
            "-serial", "stdio", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initramfs),
            "-append", f"console={machine.console} quiet panic=-1 {append}", *map(str, more)]


def disk(path, number, writable=True):
    """The words for a virtio disk; what a guest writes to a disk that is not WRITABLE is dropped."""
    snapshot = "off" if writable else "on"
    return ["-drive", f"file={path},format=raw,if=none,id=d{number},cache=unsafe,snapshot={snapshot}",
            "-device", f"virtio-blk-pci,drive=d{number}"]


def pick_accelerator(machine, kernel, busybox, device="/dev/kvm"):
    """("kvm", "") if a guest really runs with it, else ("tcg", the reason).

    The device may be there and useless (nested virtualization that is emulated), so that
    a guest has to boot before a deadline.
    """
    if not machine.is_native:
        return "tcg", f"this machine is {platform.machine()}"
    if not os.access(device, os.R_OK | os.W_OK):
        return "tcg", f"no access to {device}"
    return _probe_kvm(machine, str(kernel), str(busybox))


@functools.lru_cache(maxsize=None)
def _probe_kvm(machine, kernel, busybox):
    with tempfile.TemporaryDirectory() as folder:
        initramfs = Path(folder, "initramfs")
        initramfs.write_bytes(make_initramfs(busybox, PROBE))
        try:
            done = subprocess.run(command(machine, kernel, initramfs, accelerator="kvm"),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=KVM_SECONDS)
        except subprocess.TimeoutExpired:
            return "tcg", f"a guest with KVM did not boot in {KVM_SECONDS} s"
        except OSError as e:
            return "tcg", str(e)
    if b"the-guest-runs" not in done.stdout:
        lines = done.stdout.decode(errors="replace").split("\n")
        return "tcg", f"a guest with KVM did not boot: {' '.join(lines[-3:]).strip()[:200]}"
    return "kvm", ""


def has(program):
    return shutil.which(program) is not None
