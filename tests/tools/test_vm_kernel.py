"""vm_kernel.sh: a kernel is built when its input has changed, and only then; the configuration is kept to."""
import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
RELEASE = "6.1.5-cloister"
# What the guest's programs and walls rest on: cloister-guest, cloister-init and the templates.
NEEDED = """SMP VIRTIO_MMIO VIRTIO_MMIO_CMDLINE_DEVICES PCI VIRTIO_PCI VIRTIO_CONSOLE VIRTIO_NET VIRTIO_BLK VIRTIO_FS VIRTIO_BALLOON
PAGE_REPORTING HW_RANDOM_VIRTIO EROFS_FS OVERLAY_FS TMPFS_XATTR DEVTMPFS UNIX INET IPV6 SECCOMP_FILTER SECURITY_LANDLOCK
USER_NS PID_NS NET_NS CGROUPS UNIX98_PTYS SYSVIPC POSIX_MQUEUE INOTIFY_USER RANDOMIZE_BASE STRICT_KERNEL_RWX
HARDENED_USERCOPY INIT_ON_ALLOC_DEFAULT_ON STACKPROTECTOR_STRONG""".split()
NEVER = "MODULES KEXEC IO_URING BPF_SYSCALL FANOTIFY USERFAULTFD IA32_EMULATION COMPAT".split()


class Builder:
    """The script with its configuration, and around it programs that only look like the real ones."""

    def __init__(self, base):
        self.base, self.out = base, base / "out"
        (base / "vm-kernel").mkdir()
        (base / "bin").mkdir()
        script = (TOOLS / "vm_kernel.sh").read_text()
        (base / "vm_kernel.sh").write_text(script)
        for name, text in ("common", 'CONFIG_A=y\nCONFIG_NAME="x"\n'), ("amd64", "CONFIG_B=y\n"), ("arm64", "CONFIG_C=y\n"):
            (base / f"vm-kernel/config-{name}").write_text(f"# a comment\n{text}")
        self.version("6.1.5-1")
        self.fake("dpkg", "echo amd64")
        self.fake("gcc", "exit 1")
        self.fake("apt-get", "touch linux-source-6.1_1_all.deb")
        self.fake("dpkg-deb", 'mkdir -p "$3"')
        self.fake("tar", "mkdir linux-source-6.1")
        self.compiler()

    def fake(self, name, body):
        (self.base / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.base / "bin" / name).chmod(0o755)

    def version(self, text):
        self.fake("apt-cache", f"echo '  Candidate: {text}'")

    def compiler(self, overrule="none"):
        """A make that configures all but OVERRULE, and whose kernel is its number of calls."""
        self.fake("make", f"""
            for word; do case $word in
            O=*) out=${{word#O=}} ;;
            KCONFIG_ALLCONFIG=*) grep -v '{overrule}' "${{word#*=}}" >"$out/.config"; exit ;;
            esac; done
            echo "$@" >>{self.base}/asked
            mkdir -p "$out/arch/x86/boot" "$out/arch/arm64/boot" "$out/include/config"
            wc -l <{self.base}/asked | tee "$out/arch/x86/boot/bzImage" >"$out/arch/arm64/boot/Image"
            echo {RELEASE} >"$out/include/config/kernel.release"
            echo kernel/x.ko >"$out/modules.builtin"
        """)

    def run(self, *words):
        env = {"PATH": f"{self.base}/bin:/usr/bin:/bin"}
        return subprocess.run(["sh", self.base / "vm_kernel.sh", self.out, *words], env=env, capture_output=True,
                              text=True, timeout=60, check=False)

    def builds(self, *words):
        """Runs it: how many times a kernel was made until now."""
        done = self.run(*words)
        assert done.returncode == 0, done
        return int((self.out / f"vmlinuz-{RELEASE}").read_text())

    def refuses(self, *parts):
        done = self.run()
        assert done.returncode == 1 and all(part in done.stderr for part in parts), done
        assert not (self.out / "work").exists()


@pytest.fixture
def builder(tmp_path):
    return Builder(tmp_path)


def test_result(builder):
    assert builder.builds() == 1
    assert sorted(os.listdir(builder.out)) == ["SHA256SUMS", "build.log", f"config-{RELEASE}", "key", "modules.builtin",
                                               f"vmlinuz-{RELEASE}"]
    sums = dict(reversed(line.split()) for line in (builder.out / "SHA256SUMS").read_text().splitlines())
    assert sums[f"vmlinuz-{RELEASE}"] == hashlib.sha256(b"1\n").hexdigest() and len(sums) == 3
    assert "CONFIG_A=y" in (builder.out / f"config-{RELEASE}").read_text()
    assert "bzImage" in (builder.base / "asked").read_text()


def test_it_is_built_once(builder):
    assert builder.builds() == builder.builds() == 1
    builder.version("6.1.6-1")
    assert builder.builds() == builder.builds() == 2
    with (builder.base / "vm-kernel/config-amd64").open("a") as config:
        config.write("CONFIG_D=y\n")
    assert builder.builds() == builder.builds() == 3
    with (builder.base / "vm-kernel/config-arm64").open("a") as config:
        config.write("CONFIG_D=y\n")
    assert builder.builds() == 3
    # One that was changed by hand is not what the configuration makes.
    (builder.out / f"vmlinuz-{RELEASE}").write_text("changed")
    assert builder.builds() == 4
    builder.fake("aarch64-linux-gnu-gcc", "exit 1")
    assert builder.builds("arm64") == 5
    assert "ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-" in (builder.base / "asked").read_text()


def test_an_overruled_line_is_an_error(builder):
    assert builder.builds() == 1
    builder.compiler("CONFIG_NAME")
    builder.version("6.1.6-1")
    builder.refuses('lacks: CONFIG_NAME="x"')
    # The one before is whole.
    assert (builder.out / f"vmlinuz-{RELEASE}").read_text() == "1\n"


def test_what_is_missing_is_named(builder):
    builder.fake("make", "echo the compiler is unwell; exit 2")
    builder.refuses("the compiler is unwell", "build.log")
    builder.version("(none)")
    builder.refuses("no package linux-source-6.1")
    assert "no configuration" in builder.run("riscv64").stderr


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_the_configuration(arch):
    lines = [line for name in ("common", arch) for line in (TOOLS / f"vm-kernel/config-{name}").read_text().splitlines()
             if line and not line.startswith("#")]
    assert all(re.fullmatch(r'CONFIG_\w+=(y|\d+|".*")', line) for line in lines)
    names = [line.split("=")[0].removeprefix("CONFIG_") for line in lines]
    assert len(set(names)) == len(names)
    assert set(NEEDED) <= set(names) and not set(NEVER) & set(names)
    assert 'CONFIG_LSM="landlock"' in lines and 'CONFIG_LOCALVERSION="-cloister"' in lines
