"""cloister-initramfs: the initramfs of a virtual machine, its modules in order, and its cache.

Most tests make a kernel's modules up.  One boots the real kernel of this machine.
"""
import gzip
import hashlib
import lzma
import os
import secrets
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

import vm
from operators import only_user

RELEASE = "6.1.0-1-cloud-test"
WANTED = ("virtio", "virtio_ring", "virtio_mmio", "virtio_console", "virtio_pci", "virtio_blk", "virtio_net", "virtio_rng",
          "virtio_balloon", "fuse", "virtiofs", "erofs", "overlay")
DAY = 24 * 3600

# Loads the modules in the order of their names, and reports each.
INIT = r"""
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int
main(void)
{
	struct dirent **names;
	struct stat st;
	int n = scandir("/modules", &names, NULL, alphasort);

	printf("\n%s begins\n", CANARY);
	for (int i = 0; i < n; i++) {
		char path[300];
		int fd;

		if (names[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/modules/%s", names[i]->d_name);
		fd = open(path, O_RDONLY);
		printf("%s %s\n", names[i]->d_name, syscall(SYS_finit_module, fd, "", 0) == 0 ? "loaded" : strerror(errno));
	}
	printf("console %d\n", stat("/dev/console", &st) == 0 && S_ISCHR(st.st_mode));
	printf("cloister-init %d\n", access("/cloister-init", X_OK) == 0);
	printf("%s ends\n", CANARY);
	fflush(stdout);
	reboot(RB_POWER_OFF);
}
"""


# ---- made-up kernels -----------------------------------------------------------------------

def module(name, depends=(), release=RELEASE, machine=62):
    """An ELF file with nothing but its .modinfo."""
    names = b"\0.modinfo\0.shstrtab\0"
    info = f"name={name}\0depends={','.join(depends)}\0vermagic={release} SMP mod_unload\0".encode()
    at = 64 + len(info) + len(names)
    header = struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 1, machine, 1, 0, 0, at, 0, 64, 0, 0, 64, 3, 2)
    return header + info + names + bytes(64) + \
        struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 64, len(info), 0, 0, 1, 0) + \
        struct.pack("<IIQQQQIIQQ", 10, 3, 0, 0, 64 + len(info), len(names), 0, 0, 1, 0)


def zstd(data):
    if not shutil.which("zstd"):
        return data
    return subprocess.run(["zstd", "-cq"], input=data, stdout=subprocess.PIPE, check=True).stdout


class Maker:
    """The program, a made-up kernel and its modules."""

    def __init__(self, operator):
        self.operator = operator
        self.program = operator.program.parent / "libexec" / "cloister-initramfs"
        self.kernel = operator.file(f"boot/vmlinuz-{RELEASE}", "a kernel")
        self.modules = operator.folder("modules/" + RELEASE)
        self.cache = operator.home / "cache"
        self.programs = operator.file("init", b"init"), operator.file("inner", b"inner program")
        self.builtin(*(f"kernel/x/{name}.ko" for name in WANTED[3:]))
        for name, *depends in ("virtio",), ("virtio_ring", "virtio"), ("virtio_mmio", "virtio_ring"):
            self.add(f"{name}.ko", module(name, depends))

    def builtin(self, *paths):
        self.operator.file(f"modules/{RELEASE}/modules.builtin", "".join(f"{p}\n" for p in paths))

    def add(self, path, data):
        return self.operator.file(f"modules/{RELEASE}/kernel/{path}", data)

    def words(self, **change):
        words = {"kernel": self.kernel, "modules": self.modules, "init": self.programs[0],
                 "cloister-init": self.programs[1], "cache": self.cache, "form": "file", **change}
        return [self.program, *(word for name, value in words.items() for word in (f"--{name}", value))]

    def make(self, **change):
        kernel, initramfs, *sums = self.operator.do(*self.words(**change)).ok().splitlines()
        assert kernel == str(self.kernel)
        assert Path(initramfs).parent == self.cache
        assert sums == [sha256(kernel), sha256(initramfs)]
        return Path(initramfs)

    def kept(self):
        """The names in the cache, without those of the sums, which all of them have."""
        names = set(os.listdir(self.cache))
        kept = {name for name in names if not name.endswith(".sums")}
        assert {f"{name}.sums" for name in kept if len(name) == 64} >= names - kept
        return kept

    def refuse(self, *parts, **change):
        return self.operator.do(*self.words(**change)).sentence(*parts)


@pytest.fixture
def maker(operator):
    return Maker(operator)


def sha256(path):
    return "sha256:" + hashlib.sha256(Path(path).read_bytes()).hexdigest()


def entries(path):
    """{name: (mode, device, contents)} of a cpio, in its order."""
    data, at, found = path.read_bytes(), 0, {}
    while True:
        assert data[at:at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, major, minor, n = fields[1], fields[6], fields[9], fields[10], fields[11]
        name = data[at + 110:at + 110 + n - 1].decode()
        at = (at + 110 + n + 3) // 4 * 4
        if name == "TRAILER!!!":
            assert at == len(data)
            return found
        found[name] = (mode, (major, minor), data[at:at + size])
        at = (at + size + 3) // 4 * 4


def modules_of(path):
    return [name.removeprefix("modules/") for name in entries(path) if name.startswith("modules/")]


def test_contents(maker):
    made = maker.make()
    found = entries(made)
    assert made.stat().st_mode & 0o7777 == 0o444
    assert [(n, m) for n, (m, _, _) in found.items() if m & 0o170000 == 0o040000] == \
        [(n, 0o040755) for n in ("dev", "proc", "sys", "host", "modules")]
    assert found["dev/console"] == (0o020600, (5, 1), b"")
    assert found["init"] == (0o100755, (0, 0), b"init")
    assert found["cloister-init"] == (0o100755, (0, 0), b"inner program")
    assert found["modules/01-virtio_ring.ko"] == (0o100644, (0, 0), module("virtio_ring", ["virtio"]))


def test_order(maker):
    """Each module comes behind those it depends on, also those that nobody asked for by name."""
    maker.builtin(*(f"kernel/x/{name}.ko" for name in WANTED[4:]))
    maker.add("virtio.ko", module("virtio", ["deep-one"]))
    maker.add("a/b/deep_one.ko.gz", gzip.compress(module("deep_one", ["deeper"])))
    maker.add("deeper.ko.xz", lzma.compress(module("deeper", ["virtio_blk"])))
    maker.add("c/virtio-console.ko.zst" if shutil.which("zstd") else "c/virtio-console.ko",
              zstd(module("virtio_console", ["virtio_ring", "deeper"])))
    maker.add("unused.ko", b"is never read")
    made = maker.make()
    assert modules_of(made) == ["00-deeper.ko", "01-deep_one.ko", "02-virtio.ko", "03-virtio_ring.ko",
                                "04-virtio_mmio.ko", "05-virtio_console.ko"]
    assert entries(made)["modules/00-deeper.ko"][2] == module("deeper", ["virtio_blk"])
    assert entries(made)["modules/01-deep_one.ko"][2] == module("deep_one", ["deeper"])
    assert entries(made)["modules/05-virtio_console.ko"][2] == module("virtio_console", ["virtio_ring", "deeper"])


def test_all_built_in(maker):
    maker.builtin(*(f"kernel/x/{name}.ko" for name in WANTED))
    shutil.rmtree(maker.modules / "kernel")
    assert modules_of(maker.make()) == []


def test_a_kernel_with_its_list_beside_it(maker):
    """A kernel with everything built in has no folder of modules."""
    maker.operator.file("boot/modules.builtin", "".join(f"kernel/x/{name}.ko\n" for name in WANTED))
    assert modules_of(maker.make(modules="")) == []
    maker.operator.file("boot/modules.builtin", "".join(f"kernel/x/{name}.ko\n" for name in WANTED[1:]))
    maker.refuse(RELEASE, "no module 'virtio'", modules="")
    maker.operator.file("boot/modules.builtin", "").chmod(0o666)
    maker.refuse("modules.builtin", "chmod go-w", modules="")


def test_the_kernel_that_is_installed_with_the_programs(operator, ground):
    """It is preferred to those in /boot."""
    maker = Maker(operator)
    installed = shutil.copytree(ground / "bin", ground / f"installed-{operator.who}") / "libexec"
    maker.program = installed / "cloister-initramfs"
    maker.kernel = installed / "vm" / "vmlinuz-6.1.9-cloister"
    maker.kernel.parent.mkdir()
    maker.kernel.write_text("our kernel")
    (maker.kernel.parent / "modules.builtin").write_text("".join(f"kernel/x/{name}.ko\n" for name in WANTED))
    assert modules_of(maker.make(kernel="", modules="")) == []
    maker.kernel.chmod(0o666)
    done = operator.do(*maker.words(kernel="", modules=""))
    assert str(maker.kernel) not in done.out


def test_refused_modules(maker):
    maker.add("virtio.ko", module("virtio", ["virtio_mmio"]))
    maker.refuse("virtio.ko", "depends on itself")
    maker.add("virtio.ko", module("virtio", ["elsewhere"]))
    maker.refuse(RELEASE, "no module 'elsewhere'")
    maker.add("virtio.ko", module("virtio", ["a/b"]))
    maker.refuse("virtio.ko", "'a/b'")
    maker.add("virtio.ko", module("virtio", release=RELEASE + "x"))
    maker.refuse("virtio.ko", f"'{RELEASE}x'", f"not '{RELEASE}'")
    maker.add("virtio.ko", module("virtio")[:-1])
    maker.refuse("virtio.ko", "no kernel module")
    maker.add("virtio.ko", module("virtio")).chmod(0o666)
    maker.refuse("virtio.ko", "chmod go-w")
    (maker.modules / "kernel/virtio.ko").unlink()
    maker.add("virtio.ko.xz", lzma.compress(module("virtio"))[:-1])
    maker.refuse("virtio.ko.xz", "cannot be decompressed")
    maker.add("virtio.ko.xz", lzma.compress(bytes(65 << 20), preset=0))
    maker.refuse("virtio.ko.xz", "over 64 MiB")
    (maker.modules / "kernel/virtio.ko.xz").unlink()
    (maker.modules / "kernel/virtio.ko").symlink_to(maker.add("elsewhere", module("virtio")))
    maker.refuse(RELEASE, "no module 'virtio'")
    assert not maker.cache.exists() or os.listdir(maker.cache) == []


def test_refused_kernels(maker):
    maker.refuse("none", "No such file", kernel=maker.operator.home / "none")
    maker.refuse("modules.builtin", modules=maker.operator.folder("empty"))
    maker.refuse(f"/lib/modules/{RELEASE}", "linux-image-cloud-", modules="")
    maker.refuse("not vmlinuz-RELEASE", kernel=maker.operator.file("bzImage", "a kernel"), modules="")
    maker.kernel.chmod(0o622)
    maker.refuse("chmod go-w")
    maker.kernel.chmod(0)
    if not maker.operator.is_root:
        maker.refuse(f"may not read the kernel '{maker.kernel}'", "chmod a+r")


def test_usage(maker):
    words = maker.words()
    for wrong in words[:1], words[:-2], [*words, "--kernel", "x"], [*words[:-2], "--other", "x"]:
        done = maker.operator.do(*wrong)
        assert done.status == 125 and done.out == "" and "by cloister only" in done.err


# ---- the cache -----------------------------------------------------------------------------

def test_it_is_made_once(maker):
    first = maker.make()
    sums, inode, data = first.with_name(first.name + ".sums"), first.stat().st_ino, first.read_bytes()
    os.utime(sums, (time.time() - DAY,) * 2)
    # What is there is not looked at again, and counts as used.
    assert maker.make() == first and first.stat().st_ino == inode and time.time() - sums.stat().st_mtime < DAY / 2
    first.unlink()
    assert maker.make() == first and first.read_bytes() == data
    assert maker.kept() == {first.name} and len(first.name) == 64


def test_a_changed_one_is_made_again(maker):
    """So the hash in a cell's record is that of the initramfs that it boots."""
    first = maker.make()
    sums, data = first.with_name(first.name + ".sums"), first.read_bytes()
    whole = sums.read_text()
    times = first.stat().st_atime_ns, first.stat().st_mtime_ns
    first.chmod(0o644)
    first.write_bytes(data[::-1])
    os.utime(first, ns=times)
    assert maker.make() == first and first.read_bytes() == data
    for text in "", whole[:-1], whole[1:], "0" * 64 + whole[64:-2], sums.read_text() + "\n", whole.upper():
        sums.write_text(text)
        assert maker.make() == first and sums.read_text() not in (text, whole)
    sums.unlink()
    assert maker.make() == first and sums.exists()
    assert maker.kept() == {first.name}


def test_another_input_is_another_file(maker):
    made = {maker.make()}
    for name, data in ("init", b"inix"), ("inner", b"inner"):
        maker.operator.file(name, data)
        made.add(maker.make())
    maker.add("virtio.ko", module("virtio"))
    os.utime(maker.modules / "kernel/virtio.ko", (1, 1))
    made.add(maker.make())
    maker.builtin(*(f"kernel/x/{name}.ko" for name in WANTED))
    made.add(maker.make())
    maker.kernel = maker.operator.file("boot/vmlinuz-6.1.0-2-cloud-test", "a kernel")
    made.add(maker.make())
    # The file itself, because its hash is recorded.
    times = maker.kernel.stat().st_atime_ns, maker.kernel.stat().st_mtime_ns
    maker.kernel.write_text("A KERNEL")
    os.utime(maker.kernel, ns=times)
    made.add(maker.make())
    assert len(made) == 7 and {p.name for p in made} == maker.kept()


def test_two_at_once(maker):
    running = [maker.operator.spawn(*maker.words(), stdout=subprocess.PIPE) for _ in range(8)]
    said = {p.communicate(timeout=60)[0] for p in running}
    assert [p.returncode for p in running] == [0] * 8 and len(said) == 1
    assert maker.kept() == {Path(said.pop().decode().split()[1]).name}


def test_unused_ones_go(maker):
    first = maker.make()
    old, young, used = (maker.operator.file(f"home/cache/{digit * 64}") for digit in "abc")
    old_sums, used_sums, lost = (maker.operator.file(f"home/cache/{digit * 64}.sums") for digit in "acd")
    part, foreign = maker.operator.file("home/cache/part-1"), maker.operator.file("home/cache/notes")
    for path, days in (old, 31), (old_sums, 31), (lost, 31), (part, 31), (foreign, 31), (young, 29), (used, 31), \
                      (used_sums, 29):
        os.utime(path, (time.time() - days * DAY,) * 2)
    os.utime(first, (time.time() - 31 * DAY,) * 2)
    maker.operator.file("init", b"new")
    second = maker.make()
    assert maker.kept() == {p.name for p in (first, second, young, used, foreign)}
    assert not old_sums.exists() and not lost.exists() and used_sums.exists()


def bzimage(payload, has_size=True):
    """A kernel for amd64: the header of the boot protocol, and the compressed kernel."""
    payload += b"\0\1\2\3" if has_size else b""
    head = bytearray(1024 + 16)
    head[0x1f1] = 1
    head[0x202:0x208] = b"HdrS\x0f\x02"
    head[0x248:0x250] = struct.pack("<II", 16, len(payload))
    return bytes(head) + payload + b"behind it"


LAST = b"the very end"


def lz4_legacy(data):
    """Literals, then 3000 bytes that repeat the last four of them, then twelve literals."""
    many = len(data) - 15
    block = bytes([0xff]) + bytes([255] * (many // 255) + [many % 255]) + data + struct.pack("<H", 4)
    more = 3000 - 4 - 15
    block += bytes([255] * (more // 255) + [more % 255]) + b"\xc0" + LAST
    return b"\x02!L\x18" + struct.pack("<I", len(block)) + block, data + data[-4:] * 750 + LAST


def test_the_kernel_itself(maker):
    """Firecracker boots no bzImage, but the ELF file in it."""
    plain = b"\x7fELF" + os.urandom(5000)
    packed, longer = lz4_legacy(plain)
    for data, want in ((bzimage(gzip.compress(plain), False), plain), (bzimage(lzma.compress(plain)), plain),
                       (bzimage(packed), longer), (plain, plain)):
        maker.kernel.write_bytes(data)
        for _ in range(2):
            kernel, _, hashed, _ = maker.operator.do(*maker.words(form="elf")).ok().splitlines()
            assert Path(kernel).read_bytes() == want and hashed == sha256(kernel) and Path(kernel).parent == maker.cache
    for data in (b"no kernel", bzimage(b"\x1f\x8b and no more", False), bzimage(packed[:-19]), bzimage(packed)[:2000],
                 bzimage(lzma.compress(b"no ELF")), bzimage(b"\x02!L\x18" + struct.pack("<I", 4) + b"\x0f\1\0\0")):
        maker.kernel.write_bytes(data)
        maker.refuse(form="elf")


def test_a_cache_that_others_can_write(maker):
    maker.operator.folder("home/cache").chmod(0o777)
    maker.refuse(str(maker.cache), "writable by somebody else")


# ---- a real kernel -------------------------------------------------------------------------

def tsc_khz():
    """Without it, the emulated kernel measures its clock, and hangs if this machine is busy."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("cpu MHz"):
            return int(float(line.split(":")[1]) * 1000)
    return 2000000


def command(machine, kernel, initramfs):
    if machine.arch == "amd64":
        board = ["-M", "microvm,acpi=on", "-global", "virtio-mmio.force-legacy=false"]
        more = f" reboot=t tsc_early_khz={tsc_khz()}"
    else:
        board, more = list(machine.board), ""
    return [machine.qemu, *board, "-cpu", machine.emulated_cpu, "-accel", "tcg", "-m", "256", "-nodefaults",
            "-no-user-config", "-nographic", "-no-reboot", "-kernel", kernel, "-initrd", initramfs,
            "-append", f"console={machine.console} quiet panic=-1{more}", "-serial", "stdio"]


@only_user
def test_a_real_kernel_loads_all(operator, tmp_path):
    kernel, modules = vm.find_kernel()
    machine = vm.boot.native_machine()
    if machine is None or not vm.boot.has(machine.qemu) or not vm.boot.has("gcc"):
        pytest.skip("no virtual machine for this architecture: no QEMU, or no gcc")
    canary = secrets.token_hex(8)
    (tmp_path / "init.c").write_text(INIT)
    subprocess.run(["gcc", "-static", "-O1", f'-DCANARY="{canary}"', "-o", tmp_path / "init", tmp_path / "init.c"],
                   check=True)
    init = operator.file("init", (tmp_path / "init").read_bytes())
    libexec = operator.program.parent / "libexec"
    said = operator.do(libexec / "cloister-initramfs", "--kernel", kernel, "--modules", modules, "--init", init,
                       "--cloister-init", libexec / "cloister-init", "--cache", operator.home / "cache", "--form", "file").ok()
    kernel, initramfs, *_ = said.splitlines()
    out = operator.do(*command(machine, kernel, initramfs), seconds=vm.BOOT_SECONDS)
    assert out.status == 0, out
    lines = out.out.replace("\r", "").splitlines()
    lines = lines[lines.index(f"{canary} begins") + 1:lines.index(f"{canary} ends")]
    assert lines[-2:] == ["console 1", "cloister-init 1"]
    loaded = dict(line.split(" ", 1) for line in lines[:-2])
    assert list(loaded) == modules_of(Path(initramfs)) and set(loaded.values()) <= {"loaded"}, loaded
    names = {name[3:-3] for name in loaded}
    builtin = (modules / "modules.builtin").read_text().replace("-", "_")
    assert all(name in names or f"/{name}.ko\n" in builtin for name in WANTED), names
