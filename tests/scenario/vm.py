"""A throwaway machine: Debian's cloud kernel in QEMU, and a busybox.

For what this machine's own kernel is not: another version, or cgroup v2 alone.
The kernel's package is unpacked into the build folder, never installed.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from operators import BUILD, TREE

sys.path.insert(0, str(TREE / "tests" / "matrix"))
import boot     # noqa: E402

CACHE = Path(os.environ.get("CLOISTER_VM_CACHE", BUILD / "vm"))
BOOT_SECONDS = 240

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
echo
echo "--- the script"
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


def find_kernel():
    """The newest cloud kernel that is installed, or else one unpacked; and the folder of its modules."""
    machine = boot.native_machine()
    if machine is None:
        pytest.skip("no virtual machine for this architecture")
    for root in (lambda: Path("/")), (lambda: _unpack(f"linux-image-cloud-{machine.arch}")):
        for kernel in sorted((root() / "boot").glob("vmlinuz-*-cloud-*"), reverse=True):
            release = kernel.name.removeprefix("vmlinuz-")
            for modules in root() / "lib/modules" / release, root() / "usr/lib/modules" / release:
                if modules.is_dir() and os.access(kernel, os.R_OK):
                    return kernel, modules
    pytest.skip("no kernel to boot")


def libraries(*programs):
    """The shared libraries that PROGRAMS need; a static one needs none."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", said)))


def module_files(folder, names):
    """The files of the modules NAMES, and of those that they need."""
    wanted = {name for name, _ in boot.find_modules(folder.parent.parent, names)}
    return [path for path in folder.glob("kernel/**/*.ko*") if boot.module_name(path) in wanted]


def _initramfs(files, script, modules):
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no busybox (package busybox-static)")
    folders = [(d, 0o040755, b"") for d in ("etc", "root", "run", "tmp")]
    return boot.make_initramfs(busybox, INIT, modules, [
        *folders,
        ("start", 0o100755, START.encode()),
        ("script", 0o100644, script.encode()),
        ("etc/passwd", 0o100644, b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"),
        ("etc/group", 0o100644, b"root:x:0:\nuser:x:1000:\n"),
        *((path, 0o100755, _stripped(source)) for path, source in files.items()),
    ])


def _stripped(file):
    """The bytes of FILE; of a program, without debugging information: an emulated machine unpacks it slowly."""
    data = Path(file).read_bytes()
    # ELF, and no module of a kernel, which is for linking.
    if not data.startswith(b"\x7fELF") or data[16] == 1:
        return data
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        subprocess.run(["strip", "-o", copy, file], check=True)
        return copy.read_bytes()


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


def run(tmp_path, script, files, modules=(), disk=0, memory=512, append="", cpu=None):
    """Boot, run the shell SCRIPT as root, power off; returns what was printed.

    FILES: {path in the machine: path here}, all made executable.  DISK: mebibytes
    of a /dev/vda, the one partition of which then is the root.  APPEND: words for the kernel.
    CPU: emulate this one, and no other.
    """
    machine = boot.native_machine()
    if machine is None or not boot.has(machine.qemu):
        pytest.skip("no virtual machine for this architecture: no QEMU, or none that is known")
    root = _unpack(f"linux-image-cloud-{machine.arch}")
    wanted, more = list(modules), []
    if disk:
        wanted += ["virtio_pci", "virtio_blk"]
        _disk(tmp_path / "disk", disk)
        more = boot.disk(tmp_path / "disk", 0)
    (tmp_path / "initramfs").write_bytes(_initramfs(files, script, boot.find_modules(root, wanted)))
    kernel = next((root / "boot").glob("vmlinuz-*"))
    if cpu:
        # Not counted (boot.COUNTED): its clock would stand still while it runs a guest of its own.
        machine, accelerator = replace(machine, emulated_cpu=cpu), "tcg"
    else:
        accelerator, _ = boot.pick_accelerator(machine, kernel, shutil.which("busybox"))
    try:
        out = subprocess.run(
            boot.command(machine, kernel, tmp_path / "initramfs", accelerator=accelerator,
                         memory=memory, append=append, more=more, is_counted=cpu is None),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=BOOT_SECONDS)
    except subprocess.TimeoutExpired as e:
        pytest.fail(f"the machine did not finish:\n{(e.stdout or b'').decode(errors='replace')}")
    assert out.returncode == 0, out.stderr.decode(errors="replace")
    text = out.stdout.decode(errors="replace").replace("\r\n", "\n")
    # Firmware clears the screen, without a newline after it.
    _, begin, said = text.partition("\n--- the script\n")
    assert begin, text
    return said
