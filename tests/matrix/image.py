"""Makes a guest's system from its distribution's packages, and keeps it.

For each system the cache has `root`, the system as a folder (the product is built in it), and
`disk`, the same as an ext4 image (the guest boots from a copy-on-write view of it).
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import systems
from systems import Unreachable

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("MATRIX_CACHE") or
             Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cloister/matrix")
DISK_GIB = 12       # sparse: what is not used takes no room here

# In a mount namespace of its own: adds the packages $NEEDED and $OPTIONAL to the system in $1.
ADD = """set -eu
cd "$1"
mount -t proc none proc
mount --rbind /dev dev
mount --bind /etc/resolv.conf etc/resolv.conf
printf '#!/bin/sh\\nexit 101\\n' >usr/sbin/policy-rc.d
chmod 755 usr/sbin/policy-rc.d
apt() { chroot . env DEBIAN_FRONTEND=noninteractive apt-get -qy "$@"; }
apt update
[ -z "$NEEDED" ] || apt install --no-install-recommends $NEEDED
for package in $OPTIONAL; do
    apt install --no-install-recommends "$package" || echo "no $package"
done
apt clean
rm -rf usr/sbin/policy-rc.d var/lib/apt/lists/*
"""

BINFMT = Path("/proc/sys/fs/binfmt_misc")


class Failure(Exception):
    """A step of the host's part failed; one sentence."""


def run(argv, log, what):
    with open(log, "ab") as out:
        done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.STDOUT)
    if done.returncode != 0:
        tail = Path(log).read_bytes()[-3000:].decode(errors="replace")
        raise Failure(f"{what} failed ({log}):\n{tail}")


class Image:
    def __init__(self, system, accelerator):
        self.system = system
        # The guests that run everything have more packages.
        kind = "full" if accelerator == "kvm" else "small"
        self.folder = CACHE / f"{system.name}-{kind}"
        self.root, self.disk = self.folder / "root", self.folder / "disk"
        self.needed, self.optional = systems.guest_packages(system, accelerator)

    @property
    def kernel(self):
        return max(self.root.glob("boot/vmlinuz-*"))

    @property
    def busybox(self):
        return next(p for p in (self.root / "bin/busybox", self.root / "usr/bin/busybox")
                    if p.exists())

    def digest(self):
        """The digest of everything that the image is made from, except its packages."""
        parts = [self.system.suite, self.system.kernel, DISK_GIB, (HERE / "setup.sh").read_text()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def missing(self):
        """The packages that it lacks, or None if there is no image to add them to."""
        try:
            stamp = json.loads((self.folder / "stamp").read_text())
        except (OSError, ValueError):
            return None
        if stamp["digest"] != self.digest():
            return None
        return sorted({*self.needed, *self.optional} - {*stamp["packages"]})

    def is_made(self):
        return self.missing() == []

    def make(self, say, fresh=False):
        """Make it unless it is there; raises Failure or Unreachable."""
        missing = None if fresh else self.missing()
        if missing == []:
            return
        self.system.check_reachable()
        if not self.system.machine.is_native:
            register_emulator(self.system.machine)
        log = self.folder / "log.txt"
        if missing is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            say(f"making the system from {len(self.needed)} packages and those that they need")
            run(self.bootstrap_command(), log, f"mmdebstrap of {self.system.name}")
        else:
            say(f"adding {' '.join(missing)}")
            (self.folder / "stamp").unlink()
            lists = [f"NEEDED={' '.join(p for p in missing if p in self.needed)}",
                     f"OPTIONAL={' '.join(p for p in missing if p in self.optional)}"]
            run(["env", *lists, "unshare", "--mount", "--propagation", "private", "sh", "-c", ADD,
                 "sh", self.root], log, "the installation")
        say("making its disk")
        self.disk.unlink(missing_ok=True)
        run(["mke2fs", "-q", "-t", "ext4", "-d", self.root, "-E", "lazy_itable_init=1",
             self.disk, f"{DISK_GIB}G"], log, "mke2fs")
        (self.folder / "stamp").write_text(json.dumps(
            {"digest": self.digest(), "packages": [*self.needed, *self.optional]}))

    def bootstrap_command(self):
        hook = " ".join([str(HERE / "setup.sh"), '"$1"', self.system.name, self.system.kernel,
                         *self.optional])
        options = ['APT::Install-Recommends "false"', *systems.apt_options()]
        return ["mmdebstrap", "--mode=root", "--variant=apt", f"--architectures={self.system.arch}",
                f"--keyring={keyring(self.system, self.folder)}",
                f"--include={','.join(self.needed)}",
                *(f"--aptopt={option}" for option in options),
                "--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/man/*",
                "--dpkgopt=path-exclude=/usr/share/doc/*", f"--customize-hook={hook}",
                self.system.suite, self.root, *self.system.sources()]


# ---- keys ----------------------------------------------------------------------------------

def keyring(system, folder):
    """The keyring to check SYSTEM's packages with: this machine's, or the mirror's if it has
    exactly the keys that we know."""
    distribution = system.distribution
    here = Path("/usr/share/keyrings") / distribution.keyring
    if here.exists():
        return here
    if not distribution.fingerprints:
        raise Unreachable(f"no {here}: install {distribution.key_package}")
    where = systems.mirror(distribution.name)
    index = folder / "Packages.xz"
    if not systems.download(f"{where}/dists/{system.suite}/main/binary-amd64/Packages.xz", index):
        raise Unreachable(f"{where} has no {system.suite}")
    text = subprocess.run(["xz", "-dc", index], stdout=subprocess.PIPE, check=True).stdout.decode()
    entry = re.search(rf"^Package: {distribution.key_package}\n.*?^Filename: (\S+)$", text,
                      re.M | re.S)
    deb, unpacked = folder / "keys.deb", folder / "keys"
    if not entry or not systems.download(f"{where}/{entry.group(1)}", deb):
        raise Unreachable(f"{where} has no {distribution.key_package}")
    subprocess.run(["dpkg-deb", "-x", deb, unpacked], check=True)
    found = unpacked / "usr/share/keyrings" / distribution.keyring
    check_keys(found, distribution.fingerprints)
    return found


def check_keys(file, known):
    listed = subprocess.run(["gpg", "--batch", "--with-colons", "--show-keys", file],
                            capture_output=True, text=True).stdout
    keys = set(re.findall(r"^pub:.*\n(?:.*\n)*?fpr:+([0-9A-F]{40}):", listed, re.M))
    if not keys or not keys <= known:
        raise Failure(f"{file} has keys that are not known: {', '.join(sorted(keys - known))}")


# ---- programs of another architecture ------------------------------------------------------

def register_emulator(machine):
    """Let the kernel run MACHINE's programs, as the package qemu-user-static does at boot."""
    name = f"qemu-{machine.uname}"
    if not (BINFMT / "register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT], check=False)
    if (BINFMT / name).exists():
        return
    try:
        (BINFMT / "register").write_bytes(Path(f"/usr/lib/binfmt.d/{name}.conf").read_bytes())
    except OSError as e:
        raise Failure(f"cannot run programs of {machine.arch} here: {e}") from e
