"""Where things are, and the two C programs built when they are out of date."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", ROOT / "build")).resolve()
OUT = BUILD / "tests" / "escape"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

sys.path.append(str(ROOT / "tests" / "scenario"))
from ports import free_port  # noqa: E402, F401  (the probes ask for it here)


def build(name, folder):
    """Compile FOLDER/*.c into one static program; no Makefile needs to know."""
    sources = sorted(folder.glob("*.c"))
    target = OUT / name
    newest = max(f.stat().st_mtime for f in folder.glob("*.[ch]"))
    if target.exists() and target.stat().st_mtime >= newest:
        return target
    OUT.mkdir(parents=True, exist_ok=True)
    fresh = OUT / f".{name}.{os.getpid()}"
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=gnu17", "-O1", "-static", "-Wall", "-Wextra",
                    "-o", fresh, *sources], check=True)
    os.replace(fresh, target)
    return target


def programs():
    return build("probe", HERE / "probes"), build("host", HERE / "host")


def product(mutant=False):
    """The folder that holds `cloister` and `libexec/`."""
    return BUILD / "mutant" if mutant else BUILD


def copy_product(source, target):
    """A copy that belongs to whoever runs it, as a developer's own build does."""
    target.mkdir(parents=True)
    shutil.copy2(source / "cloister", target / "cloister")
    shutil.copytree(source / "libexec", target / "libexec")
    return target
