"""What tests add to the image of workers, so that a worker there is like this machine: its shell, by which dispatches are
resolved, and busybox with everything else."""
import functools
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

BUSYBOX = "/usr/bin/busybox"


def add_link(tar, path, to):
    info = tarfile.TarInfo(path)
    info.type, info.linkname = tarfile.SYMTYPE, to
    tar.addfile(info)


def add_program(tar, path, file):
    info, data = tarfile.TarInfo(path), Path(file).read_bytes()
    info.size, info.mode = len(data), 0o755
    tar.addfile(info, io.BytesIO(data))


@functools.cache
def layer():
    """A tar archive.  The shell's library is in the image: cloister's programs load it, too."""
    applets = subprocess.run([shutil.which("busybox"), "--list"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        add_link(tar, "bin", "usr/bin")
        add_program(tar, BUSYBOX[1:], shutil.which("busybox"))
        add_program(tar, "usr/bin/sh", "/bin/sh")
        for name in applets:
            if name not in ("busybox", "sh"):
                add_link(tar, f"usr/bin/{name}", "busybox")
    return out.getvalue()
