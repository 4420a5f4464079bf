"""Virtual machines as walls: what `run --boundary microvm` needs where KVM is of no use."""
import os
import shutil
from pathlib import Path

import pytest

import vm
from operators import BUILD, CLOISTER, IS_STATIC

SERVERS = [Path("/usr/lib/qemu/virtiofsd"), Path("/usr/libexec/virtiofsd")]
FIRMWARE = Path("/usr/share/qemu")
HELPERS = ("supervisor", "init", "guest", "initramfs")


# A kernel with everything built in, such as `make vm-kernel` builds, instead of Debian's.
WHOLE_KERNEL = os.environ.get("CLOISTER_TEST_KERNEL")


def _bring_kernel(folder):
    if WHOLE_KERNEL:
        folder.mkdir()
        shutil.copy(WHOLE_KERNEL, folder)
        shutil.copy(Path(WHOLE_KERNEL).with_name("modules.builtin"), folder)
        return
    kernel, modules = vm.find_kernel()
    shutil.copytree(modules, folder / modules.name, ignore=shutil.ignore_patterns("build", "source"))
    shutil.copy(kernel, folder)


def open_taps():
    """Everybody may make taps where udev runs.  Elsewhere root gives the device the mode that udev would."""
    device = Path("/dev/net/tun")
    if device.exists() and device.stat().st_mode & 0o006 != 0o006 and os.geteuid() == 0:
        device.chmod(0o666)
    if not os.access(device, os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun is missing, or not for everybody")


def environment(ground):
    """Variables that make every cell an emulated virtual machine.  The kernel and its modules are copied
    to where an ordinary user can read them."""
    if not IS_STATIC:
        pytest.skip("the sanitizers' programs are not static, and a guest has no libraries when it begins")
    if not any(shutil.which(f"qemu-system-{name}") for name in ("x86_64", "aarch64")):
        pytest.skip("no QEMU for this architecture")
    folder = ground / "kernel"
    if not folder.exists():
        _bring_kernel(folder)
        folder.chmod(0o755)
    (kernel,) = folder.glob("vmlinuz-*")
    settings = {"CLOISTER_BOUNDARY": "microvm", "CLOISTER_VM_ACCEL": "tcg", "CLOISTER_VM_KERNEL": str(kernel)}
    if not WHOLE_KERNEL:
        settings["CLOISTER_VM_MODULES"] = str(folder / kernel.name.removeprefix("vmlinuz-"))
    return settings


def _share(come_from, go_to):
    for path in come_from.glob("*"):
        if not path.name.startswith(("part-", "disk-")) and not (go_to / path.name).exists():
            os.link(path, go_to / path.name)


def begin(operator, ground):
    """Gives an operator the templates that earlier tests of this run have made: each costs a boot."""
    store = ground / f"templates-{operator.who}"
    store.mkdir(mode=0o700, exist_ok=True)
    folder = operator.folder("data/vm")
    folder.chmod(0o700)
    _share(store, folder)


def end(operator, ground):
    _share(operator.base / "data/vm", ground / f"templates-{operator.who}")


def templates(operator):
    return sorted((operator.base / "data/vm").glob("template-*"))


def disks(operator):
    return sorted(path for path in (operator.base / "data/vm").glob("disk-*") if path.suffix != ".sums")


def small_rootfs(operator):
    """A root file system with a busybox, and files that no cell is shown."""
    busybox = shutil.which("busybox")
    if busybox is None or shutil.which("mkfs.erofs") is None:
        pytest.skip("no busybox (package busybox-static), or no mkfs.erofs (package erofs-utils)")
    folder = operator.folder("rootfs", {"etc/motd": "hello\n", "home/secret": "canary\n", "usr/note": "note\n"})
    (folder / "bin").mkdir(exist_ok=True)
    shutil.copy(busybox, folder / "bin/busybox")
    for name in "sh", "true", "cat", "sleep", "touch", "stat", "ls":
        (folder / "bin" / name).symlink_to("busybox")
    for path in (folder, *folder.rglob("*")):
        operator.own(path)
    return folder


def last_template(operator):
    """The one that was used last: there is one for each kind of network."""
    return max(templates(operator), key=lambda path: path.stat().st_atime_ns)


def programs(wanted):
    """({path: file}, the kernel's release): all that `run --boundary microvm` needs in a machine without anything.
    WANTED are a guest's modules."""
    server = next((path for path in SERVERS if path.exists()), None)
    qemu = shutil.which("qemu-system-x86_64")
    if not qemu or not server:
        pytest.skip("no QEMU, or no virtiofsd")
    kernel, modules = vm.find_kernel()
    helpers = [BUILD / "libexec" / f"cloister-{name}" for name in HELPERS]
    files = {path: path for path in (qemu, server, *vm.libraries(qemu, server, *helpers))}
    files |= {path: os.path.realpath(path) for path in (FIRMWARE / "bios-microvm.bin", FIRMWARE / "pvh.bin",
                                                         FIRMWARE / "linuxboot_dma.bin")}
    files |= {f"/opt/cloister/libexec/{path.name}": path for path in helpers}
    files |= {"/opt/cloister/cloister": CLOISTER, f"/boot/{kernel.name}": kernel}
    own = Path("/lib/modules") / modules.name
    files[own / "modules.builtin"] = modules / "modules.builtin"
    files |= {own / path.relative_to(modules): path for path in vm.module_files(modules, wanted)}
    return {str(path).lstrip("/"): file for path, file in files.items()}, modules.name
