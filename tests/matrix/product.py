"""Brings the source tree to a guest, built for it where the guest is emulated.

A build in an emulated guest would take an hour.  There the tree is built beforehand, in the
guest's own system as a folder: its make, headers, libraries and linker.  On this machine's own
architecture its compiler is used too.  For another one all of this runs under qemu-user, but for
the compiler: this machine's clang takes its place under the name `gcc`, at full speed, and
compiles against the guest's headers.  As `clang` it compiles what runs in the kernel.  `make` in
the guest then finds everything up to date.
"""
import json
import os
import shutil
import subprocess
from pathlib import Path

from image import Failure, run
from systems import TREE

# Where the tree is in a guest, and while it is built.
PLACE = "srv/cloister"
TESTER = 1000
DISK_MIB = 4096

# What the cases under emulation need besides the product: no replays of seeds, which are many.
TEST_PROGRAMS = ("build/tests/unit", "build/tests/resign", "build/tests/audit_append",
                 "build/tests/state_commit")

# In a mount namespace of its own: $1 the guest's system, $2 the tree, $3 a folder for changes.
CHROOT = """set -eu
root=$1 tree=$2 scratch=$3
shift 3
mount -t tmpfs none "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
mount -t overlay -o "lowerdir=$root,upperdir=$scratch/upper,workdir=$scratch/work" none "$scratch/root"
cd "$scratch/root"
mkdir -p srv/cloister
mount --bind "$tree" srv/cloister
mount -t proc none proc
mount --rbind /dev dev
mount -t tmpfs none tmp
chmod 1777 tmp
LEND
exec chroot --userspec=TESTER:TESTER . env -i HOME=/tmp PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$@"
""".replace("TESTER", str(TESTER))

# The compiler of this machine: its files have no namesakes in a system of another architecture.
LEND = """
for path in {paths}; do
    if [ -d "$path" ]; then mkdir -p "./$path"; else mkdir -p ".${{path%/*}}"; : >"./$path"; fi
    mount --bind "$path" "./$path"
done
mkdir -p usr/local/bin
mount -t tmpfs none usr/local/bin
printf '#!/bin/sh\\nexec {clang} --target={triplet} --sysroot=/ "$@"\\n' >usr/local/bin/gcc
printf '#!/bin/sh\\nexec {clang} "$@"\\n' >usr/local/bin/clang
chmod 755 usr/local/bin/gcc usr/local/bin/clang
"""


def sources():
    """The files of the tree, relative to it."""
    listed = subprocess.run(["git", "-C", TREE, "-c", f"safe.directory={TREE}", "ls-files", "-zco",
                             "--exclude-standard"], capture_output=True)
    if listed.returncode == 0:
        names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
        return {name for name in names if (TREE / name).is_file()}
    return {str(path.relative_to(TREE)) for path in TREE.rglob("*")
            if path.is_file() and path.relative_to(TREE).parts[0] not in ("build", ".git")}


def copy_sources(to):
    """Make TO a copy of the tree; what it has in build/ stays, so that the next build is short."""
    wanted = sources()
    for path in list(to.rglob("*")):
        name = path.relative_to(to)
        if name.parts[0] != "build" and not path.is_dir() and str(name) not in wanted:
            path.unlink()
    for name in wanted:
        source, target = TREE / name, to / name
        if is_same(source, target):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    for folder, folders, files in os.walk(to):
        for name in [".", *files]:
            os.chown(os.path.join(folder, name), TESTER, TESTER, follow_symlinks=False)


def is_same(a, b):
    """Whether B is A's copy; not by the time alone, which differs in another work tree."""
    if not b.is_file() or a.lstat().st_size != b.lstat().st_size or a.lstat().st_mode != b.lstat().st_mode:
        return False
    return a.lstat().st_mtime_ns == b.lstat().st_mtime_ns or a.read_bytes() == b.read_bytes()


class Product:
    def __init__(self, image):
        self.image = image
        self.folder = image.folder.with_name(f"{image.folder.name}.tree")
        self.tree = self.folder / "cloister"
        self.disk = self.folder / "disk"

    def build(self, say):
        """Build in the guest's system; raises Failure."""
        self.tree.mkdir(parents=True, exist_ok=True)
        copy_sources(self.tree)
        say(f"building {self.compiler()}")
        self.inside("make", f"-j{os.cpu_count()}", "all", *TEST_PROGRAMS)

    def copy(self):
        """Only the sources: the guest builds them."""
        shutil.rmtree(self.tree, ignore_errors=True)
        self.tree.mkdir(parents=True)
        copy_sources(self.tree)

    def compiler(self):
        if self.image.system.machine.is_native:
            return "with its own compiler"
        return "with this machine's clang and its own linker and libraries, which are emulated"

    def inside(self, *words):
        lend = "" if self.image.system.machine.is_native else lend_clang(self.image.system.machine)
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        log = self.folder / "log.txt"
        log.unlink(missing_ok=True)
        run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
             CHROOT.replace("LEND", lend), "sh", self.image.root, self.tree, scratch,
             *words[:1], "-C", f"/{PLACE}", *words[1:]], log, "the build")

    def make_disk(self, plan):
        """An image of the tree and of PLAN, what the guest is to do."""
        (self.folder / "plan.json").write_text(json.dumps(plan, indent=1))
        staging = self.folder / "staging"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        subprocess.run(["cp", "-al", self.tree, staging / "cloister"], check=True)
        shutil.copy(self.folder / "plan.json", staging)
        self.disk.unlink(missing_ok=True)
        run(["mke2fs", "-q", "-t", "ext4", "-d", staging, "-E", "lazy_itable_init=1", self.disk,
             f"{DISK_MIB}M"], self.folder / "log.txt", "mke2fs")
        shutil.rmtree(staging)


def lend_clang(machine):
    """Shell lines that put this machine's clang into another architecture's system."""
    clang = shutil.which("clang")
    if clang is None:
        raise Failure("no clang here to build for another architecture: install it")
    clang = Path(clang).resolve()
    if not clang.name.startswith("clang"):
        raise Failure(f"clang here is {clang}, which needs more than its own folder: take it out of PATH")
    here = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True).stdout.strip()
    loader = subprocess.run(["ldd", clang], capture_output=True, text=True).stdout
    loader = next(line.split()[0] for line in loader.splitlines() if "/ld-linux" in line)
    paths = [f"/usr/lib/{here}", str(clang.parents[1]), loader]
    return LEND.format(paths=" ".join(paths), clang=clang, triplet=f"{machine.uname}-linux-gnu")
