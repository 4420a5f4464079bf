"""A throwaway machine: Debian's cloud kernel in QEMU, and a busybox.

For what this machine's own kernel is not: another version, or cgroup v2 alone.
The kernel's package is unpacked into the build folder, never installed.
"""
import lzma
import os
import platform
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from operators import BUILD

CACHE = Path(os.environ.get("CLOISTER_VM_CACHE", BUILD / "vm"))
BOOT_SECONDS = 240

MACHINES = {
    # The cortex-a57 boots in a second under emulation; `max` takes six.
    "aarch64": ("qemu-system-aarch64", "linux-image-cloud-arm64", "ttyAMA0",
                ["-M", "virt", "-cpu", "cortex-a57"]),
    "x86_64": ("qemu-system-x86_64", "linux-image-cloud-amd64", "ttyS0",
               ["-M", "q35", "-cpu", "qemu64"]),
}

# The root moves from the initramfs, which cannot be left by pivot_root, to the disk
# or a tmpfs.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/
mount -t devtmpfs dev /dev
for m in $(cat /modules/order); do insmod /modules/$m; done
mkdir /new
if [ -b /dev/vda1 ]; then
    mke2fs /dev/vda1 >/dev/null 2>&1
    mount -t ext4 /dev/vda1 /new
else
    mount -t tmpfs none /new
fi
for f in *; do [ $f = new ] || [ $f = dev ] || cp -a $f /new; done
mkdir /new/dev
mount --move /dev /new/dev
exec switch_root /new /start
"""
START = """#!/bin/busybox sh
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs run /run
chmod 1777 /tmp
. /script
sync
poweroff -f
"""


def _package(name):
    """The package that NAME depends on and that holds a kernel."""
    out = subprocess.run(["apt-cache", "depends", name], capture_output=True, text=True)
    found = re.search(r"Depends: (linux-image-\d\S+)", out.stdout)
    return found.group(1) if found else None


def _unpack(name):
    """The folder with NAME's boot/ and lib/modules/; skips if it cannot be had."""
    CACHE.mkdir(parents=True, exist_ok=True)
    have = sorted(CACHE.glob("linux-image-*/boot/vmlinuz-*"))
    if have:
        return have[-1].parent.parent
    package = _package(name) if shutil.which("apt-cache") else None
    if package is None:
        pytest.skip(f"no kernel to boot: no package {name} here")
    got = subprocess.run(["apt-get", "download", "-q", package], cwd=CACHE, timeout=300,
                         capture_output=True, text=True)
    debs = sorted(CACHE.glob(f"{package}_*.deb"))
    if got.returncode != 0 or not debs:
        pytest.skip(f"no kernel to boot: cannot download {package}")
    # Moved into place whole: an interrupted run must not leave half a kernel.
    part = CACHE / f"part.{os.getpid()}"
    subprocess.run(["dpkg-deb", "-x", debs[0], part], check=True)
    debs[0].unlink()
    if not (CACHE / package).exists():
        part.rename(CACHE / package)
    return CACHE / package


def _read_module(path):
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _modules(root, wanted):
    """(name, bytes) of each module that WANTED needs, in the order to load them."""
    files = {p.name.split(".")[0].replace("-", "_"): p
             for p in root.glob("**/modules/**/*.ko*")}
    done = {}

    def add(name):
        if name in done or name not in files:
            return          # what is not a module is built in
        data = _read_module(files[name])
        depends = re.search(rb"(?:^|\0)depends=([^\0]*)\0", data)
        for other in depends.group(1).decode().split(",") if depends else []:
            add(other.replace("-", "_"))
        done[name] = data

    for name in wanted:
        add(name)
    return list(done.items())


def _cpio(entries):
    """An initramfs: the `newc` format, of (path, mode, bytes)."""
    out = bytearray()
    for number, (path, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        out += b"070701" + b"".join(b"%08X" % f for f in fields) + name
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def _initramfs(files, script, modules):
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no busybox (package busybox-static)")
    folders = {"bin", "dev", "etc", "modules", "proc", "root", "run", "sys", "tmp"}
    for path in files:
        folders.update(str(p) for p in Path(path).parents if str(p) != ".")
    entries = [(d, 0o040755, b"") for d in sorted(folders)]
    entries += [
        ("init", 0o100755, INIT.encode()),
        ("start", 0o100755, START.encode()),
        ("script", 0o100644, script.encode()),
        ("bin/busybox", 0o100755, Path(busybox).read_bytes()),
        ("etc/passwd", 0o100644, b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"),
        ("etc/group", 0o100644, b"root:x:0:\nuser:x:1000:\n"),
        ("modules/order", 0o100644, "\n".join(n for n, _ in modules).encode()),
    ]
    entries += [(f"modules/{n}", 0o100644, data) for n, data in modules]
    entries += [(path, 0o100755, Path(source).read_bytes()) for path, source in files.items()]
    return _cpio(entries)


def _disk(path, mebibytes):
    """An image with one partition, which is all but the first mebibyte."""
    sectors = mebibytes * 2048
    entry = struct.pack("<B3sB3sII", 0, b"\0\x20\x21", 0x83, b"\xfe\xff\xff", 2048,
                        sectors - 2048)
    with open(path, "wb") as f:
        f.truncate(sectors * 512)
        f.seek(446)
        f.write(entry)
        f.seek(510)
        f.write(b"\x55\xaa")


def run(tmp_path, script, files, modules=(), disk=0, memory=512, append=""):
    """Boot, run the shell SCRIPT as root, power off; returns what was printed.

    FILES: {path in the machine: path here}, all made executable.  DISK: mebibytes
    of a /dev/vda, the one partition of which then is the root.  APPEND: words for the kernel.
    """
    if platform.machine() not in MACHINES:
        pytest.skip(f"no virtual machine for {platform.machine()}")
    qemu, package, console, flags = MACHINES[platform.machine()]
    if shutil.which(qemu) is None:
        pytest.skip(f"no {qemu}")
    root = _unpack(package)
    wanted = list(modules)
    if disk:
        wanted += ["virtio_pci", "virtio_blk"]
        _disk(tmp_path / "disk", disk)
        flags = [*flags, "-drive", f"file={tmp_path / 'disk'},format=raw,if=none,id=d",
                 "-device", "virtio-blk-pci,drive=d"]
    (tmp_path / "initramfs").write_bytes(_initramfs(files, script, _modules(root, wanted)))
    kernel = next((root / "boot").glob("vmlinuz-*"))
    try:
        out = subprocess.run(
            [qemu, *flags, "-m", str(memory), "-smp", "2", "-nographic", "-nodefaults",
             "-serial", "stdio", "-no-reboot", "-kernel", kernel,
             "-initrd", tmp_path / "initramfs",
             "-append", f"console={console} quiet panic=-1 {append}"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=BOOT_SECONDS)
    except subprocess.TimeoutExpired as e:
        pytest.fail(f"the machine did not finish:\n{(e.stdout or b'').decode(errors='replace')}")
    assert out.returncode == 0, out.stderr.decode(errors="replace")
    return out.stdout.decode(errors="replace").replace("\r\n", "\n")
