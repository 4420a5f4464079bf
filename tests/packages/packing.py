"""Helpers for tests of packages: commands, hashes, and roots to install in."""
import hashlib
import os
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests" / "matrix"))
import boot         # noqa: E402
import image        # noqa: E402
import systems      # noqa: E402, F401

ARCH = boot.native_machine().arch
BUILD = Path(os.environ["CLOISTER_BUILD"]).resolve()
SECONDS = 3600


def run(*argv, **how):
    done = subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
                          check=False, **how)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def sums(folder, pattern):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob(pattern)}


def clean_root(system, root, packages):
    """Install the files PACKAGES in a new root of SYSTEM (tests/matrix/systems.py), and nothing but what they need."""
    folder = root.with_name("keys")
    folder.mkdir()
    # The root sees the files of the packages while it is made.
    run("mmdebstrap", "--variant=apt", "--mode=root", f"--architectures={system.arch}",
        f"--keyring={image.keyring(system, folder)}", '--aptopt=APT::Install-Recommends "false"',
        "--hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount", *(f"--include={path}" for path in packages),
        system.suite, root, *system.sources())


def in_root(root, *argv):
    """Run ARGV in ROOT, as chroot does, but with a root folder that is a mount: in a chroot there are no cells."""
    return run("bwrap", "--bind", root, "/", "--bind", "/proc", "/proc", "--dev-bind", "/dev", "/dev", "--bind", "/sys", "/sys",
               "--tmpfs", "/tmp", "--tmpfs", "/run", "--cap-add", "ALL", *argv)


def check_cell(root, cloister="/usr/bin/cloister"):
    """The cloister of ROOT works, and a cell of it has the programs of ROOT."""
    assert in_root(root, cloister, "version").startswith("cloister ")
    (root / "usr/bin/of-this-root").write_text("#!/bin/sh\necho from the root\n")
    (root / "usr/bin/of-this-root").chmod(0o755)
    assert in_root(root, cloister, "run", "-q", "--", "of-this-root") == "from the root\n"


def pack(out, key, mask="022"):
    run("sh", "-c", f'umask {mask}; exec tools/tarball.sh "$@"', "sh", out, key, cwd=TREE)
    return out
