#!/usr/bin/python3
"""deb_root.py FOLDER SYSTEM - makes a root to build the Debian packages of SYSTEM in, such as debian13-arm64.

The root is a folder in FOLDER with this machine's architecture and, if SYSTEM has another, with the cross compiler and
the libraries of that one.  It stays as long as the list of packages is the same.  The last line printed is its path.
"""
import json
import shutil
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE / "tests" / "matrix"))

import systems                                  # noqa: E402
from image import Failure, keyring, run         # noqa: E402

LISTS = ("build", "deb")
# The compilers, and the libraries of the generators that run while cloister is built.
NATIVE = ("gcc", "make", "pkg-config", "clang", "llvm", "libseccomp-dev", "libnftnl-dev", "libmnl-dev")
ALWAYS = ("build-essential", "fakeroot", "ccache", "ca-certificates")
CROSS = {"arm64": "crossbuild-essential-arm64", "amd64": "crossbuild-essential-amd64"}


def packages(system, native):
    """The packages of a root that builds for SYSTEM, on a machine of the architecture NATIVE."""
    listed = systems.listed_packages(systems.PACKAGES.read_text(), LISTS, system)
    names = [name for name, _ in listed if name not in ("mmdebstrap", "libc6-dev", "linux-libc-dev")]
    if system.arch == native:
        return sorted({*ALWAYS, *names})
    return sorted({*ALWAYS, CROSS[system.arch], *(
        f"{name}:{system.arch}" if name.endswith("-dev") and name not in NATIVE else name for name in names)})


def is_made(folder, stamp):
    try:
        return json.loads((folder / "stamp").read_text()) == stamp
    except (OSError, ValueError):
        return False


def make_root(system, folder):
    """The path of the root; raises Failure or Unreachable."""
    native = subprocess.run(["dpkg", "--print-architecture"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout.strip()
    architectures = list(dict.fromkeys([native, system.arch]))
    stamp = [system.suite, architectures, packages(system, native)]
    root = folder / "root"
    if is_made(folder, stamp):
        return root
    system.check_reachable()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    options = ['APT::Install-Recommends "false"', *systems.apt_options()]
    run(["mmdebstrap", "--mode=root", "--variant=apt", f"--architectures={','.join(architectures)}",
         f"--keyring={keyring(system, folder)}", f"--include={','.join(stamp[2])}",
         *(f"--aptopt={option}" for option in options), "--dpkgopt=force-unsafe-io",
         system.suite, root, *system.sources()], folder / "log.txt", f"mmdebstrap for {system.name}")
    (folder / "stamp").write_text(json.dumps(stamp))
    return root


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in systems.SYSTEMS:
        sys.exit(f"usage: deb_root.py FOLDER {'|'.join(systems.SYSTEMS)}")
    system = systems.SYSTEMS[sys.argv[2]]
    try:
        print(make_root(system, Path(sys.argv[1]).resolve() / system.name))
    except (Failure, systems.Unreachable) as e:
        sys.exit(f"deb_root.py: {e}")


if __name__ == "__main__":
    main()
