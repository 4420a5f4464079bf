"""Files that were not granted, and changes that were not."""
import os
import pathlib
import secrets
import shutil
import stat
import subprocess

from ..cell import NotApplicable
from ..verdict import probe

OTHER = 23456                           # an id that is nobody here

NEWER = "the kernel is too old for this call"
FIXED = "this kernel has the fix"
CHANGES = {
    "write": "", "append": "", "truncate": "", "reopen": "", "chmod": "", "utimes": "", "unlink": "",
    "rename": "", "mkdir": "", "symlink": "", "fifo": "", "create": "",
    "tmpfile": "the file system has no unnamed files", "xattr": "the file system has no attributes",
    "flags": "the file system has no flags", "fchmodat2": NEWER, "xattrat": NEWER, "file_setattr": NEWER,
    "pipe": FIXED, "cow": FIXED,
}


@probe("reads canaries in a dozen places of the host")
def read_outside(w):
    paths, token = w.scatter()
    return token.encode() in w.run("read", *paths).out


@probe("reads a canary by way of /proc, descriptors and ..")
def climb_outside(w):
    path, token = w.secret()
    return token.encode() in w.run("climb", path).out


@probe("plants a file in folders of the host")
def create_outside(w):
    paths = [place / f"cloister-escape-{secrets.token_hex(6)}" for place in w.places()]
    for path in paths:
        w.stack.callback(path.unlink, missing_ok=True)
    w.run("create", "planted", *paths)
    return any(path.exists() for path in paths)


def granted(w):
    folder = w.folder("granted")
    w.file(folder / "file", w.token())
    return folder


def change(op):
    def run(w):
        folder = granted(w)
        before = w.snapshot(folder)
        w.run("change", op, folder / "file", "changed", ro=[folder])
        return w.snapshot(folder) != before
    return run


for op, excuse in CHANGES.items():
    probe(f"changes a read-only grant: {op}", name=f"readonly-{op}", group="files",
          may_be_vacuous=excuse)(change(op))


@probe("makes a read-only grant writable by mounting it again", control="root")
def readonly_remount(w):
    folder = granted(w)
    before = w.snapshot(folder)
    around = ["--bind", f"{folder}:{folder}:ro"] if w.control else []
    w.run("remount", folder, folder / "file", "changed", ro=[folder], around=around)
    return w.snapshot(folder) != before


@probe("makes the host wait for a file that it may only read")
def readonly_lease(w):
    folder = granted(w)
    cell = w.spawn("lease", folder / "file", ro=[folder])
    cell.watch(lambda: cell.said("made") or cell.ended(), 10)
    cell.check()
    try:
        os.close(os.open(folder / "file", os.O_WRONLY | os.O_NONBLOCK))
    except BlockingIOError:
        return True
    return False


@probe("gives a read-only file a second name in a writable grant")
def hard_link(w):
    folder, writable = granted(w), w.folder("writable")
    w.run("link", folder / "file", writable / "link", ro=[folder], rw=[writable])
    return (folder / "file").stat().st_nlink > 1


@probe("makes a device node in a writable grant (0:0, which needs no privilege)")
def device_whiteout(w):
    writable = w.folder("writable")
    w.run("mknod", writable, "c", 0, 0, rw=[writable])
    return (writable / "node").exists() and stat.S_ISCHR((writable / "node").stat().st_mode)


@probe("makes a node for the kernel's log and reads it", control="root")
def device_kmsg(w):
    token = kernel_log(w)
    writable = w.folder("writable")
    return token in w.run("mknod", writable, "c", 1, 11, rw=[writable]).out


def kernel_log(w):
    """A canary in the kernel's own log."""
    w.need_root("write to the kernel's log")
    token = w.token().encode()
    try:
        with open("/dev/kmsg", "wb", buffering=0) as f:
            f.write(b"<7>" + token + b"\n")
    except OSError as e:
        raise NotApplicable(f"/dev/kmsg: {e.strerror}") from e
    return token


def loop_device(w, pages=1):
    """A disk with a canary on it: its number and the canary."""
    w.need_root("attach a disk")
    token = w.token()
    path = w.file(w.base / "disk", token + "\n" * 4096 * pages)
    done = subprocess.run(["losetup", "--find", "--show", path], capture_output=True, text=True)
    if done.returncode != 0:
        raise NotApplicable("no loop devices here")
    name = done.stdout.strip()
    w.stack.callback(subprocess.run, ["losetup", "--detach", name])
    rdev = os.stat(name).st_rdev
    return os.major(rdev), os.minor(rdev), token.encode()


@probe("makes a node for a disk and reads it", control="root")
def device_disk(w):
    major, minor, token = loop_device(w)
    writable = w.folder("writable")
    return token in w.run("mknod", writable, "b", major, minor, rw=[writable]).out


@probe("reads a disk by a node that was in a grant")
def device_granted(w):
    major, minor, token = loop_device(w)
    folder = w.folder("granted")
    os.mknod(folder / "node", stat.S_IFBLK | 0o600, os.makedev(major, minor))
    w.own(folder / "node")
    return token in w.run("device", folder / "node", rw=[folder]).out


@probe("reads another's file with a setuid program that was in a grant",
       may_be_vacuous="the file system has no setuid")
def setuid_granted(w):
    w.need_root("make a setuid program")
    folder, token = w.folder("granted"), w.token()
    helper = shutil.copy2(w.lab.probe, folder / "helper")
    w.own(helper, OTHER)
    os.chmod(helper, 0o4755)
    w.own(w.file(folder / "loot", token, 0o600), OTHER)
    return token.encode() in w.run("setuid", helper, folder / "loot", rw=[folder]).out


def planted(mode):
    def run(w):
        writable = w.folder("writable")
        w.run("suid", writable, f"{mode:o}", rw=[writable])
        return any(p.stat().st_mode & mode & 0o7000 for p in writable.iterdir())
    return run


for title, mode in (("setuid", 0o4755), ("setgid", 0o2755)):
    probe(f"leaves a {title} program of its caller's in a writable grant", name=f"{title}-planted",
          group="files")(planted(mode))


@probe("changes what is mounted beneath a read-only grant")
def readonly_submount(w):
    w.need_root("mount beneath a grant")
    folder = granted(w)
    below = folder / "below"
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0777", "escape", below], check=True)
    w.stack.callback(subprocess.run, ["umount", below], check=True)
    w.file(below / "file", "below", 0o666)
    cell = w.spawn("change", "write", below / "file", "changed", ro=[folder]).finish()
    if b"No such file" in cell.out:
        raise NotApplicable("what is mounted beneath a grant is not shown")
    cell.check()
    return (below / "file").read_text() != "below"


@probe("opens a file by its handle, past every path", control="root")
def handle_open(w):
    path, token = w.secret()
    folder = w.folder("granted")
    kind, handle = subprocess.run([w.lab.host, "handle", path], capture_output=True, text=True,
                                  check=True).stdout.split()
    return token.encode() in w.run("handle", folder, kind, handle, rw=[folder]).out


def system_file(w, text, mode, name="canary"):
    """A file in the part of the system that every box shows."""
    w.need_root("leave a file beneath /usr")
    folder = pathlib.Path("/usr/local/share") / f"cloister-escape-{secrets.token_hex(6)}"
    folder.mkdir()
    w.stack.callback(shutil.rmtree, folder)
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


@probe("writes a file of the system's own tree that its mode would let anybody write")
def system_write(w):
    path = system_file(w, "system", 0o666)
    w.run("change", "write", path, "changed")
    return path.read_text() != "system"


@probe("reads root's file with a setuid program of the system's",
       may_be_vacuous="the file system has no setuid")
def setuid_system(w):
    token = w.token()
    loot = system_file(w, token, 0o600)
    helper = shutil.copy2(w.lab.probe, loot.parent / "helper")
    os.chmod(helper, 0o4755)
    return token.encode() in w.run("setuid", helper, loot).out


@probe("reads a system file that only the caller's other groups may read", who=("root",))
def groups_kept(w):
    token = w.token()
    path = system_file(w, token, 0o640)
    os.chown(path, OTHER + 1, OTHER)
    return token.encode() in w.run("read", path, groups=[OTHER]).out
