"""Finds the remains of cells, from the host."""
import ctypes
import os
import struct
from pathlib import Path

from operators import descendants_of, is_alive, wait_until

CGROUPS = Path("/sys/fs/cgroup")
LABS = []                   # pids of servers that stay for all tests


class Witness:
    """Sees every cell that appears in a runtime folder, however short it lives."""
    IN_CREATE, IN_NONBLOCK, IN_CLOEXEC = 0x100, 0o4000, 0o2000000

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(self.IN_NONBLOCK | self.IN_CLOEXEC)
        self.seen = set()
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(folder), self.IN_CREATE) < 0:
            raise OSError(ctypes.get_errno(), "cannot watch", str(folder))

    def names(self):
        """The ids so far."""
        try:
            while data := os.read(self.fd, 65536):
                while data:
                    length = struct.unpack_from("iIII", data)[3]
                    name = data[16:16 + length].rstrip(b"\0").decode()
                    if "." in name:
                        self.seen.add(name.split(".")[0])
                    data = data[16 + length:]
        except BlockingIOError:
            pass
        return self.seen

    def close(self):
        os.close(self.fd)


def cgroups(cells, kinds=("",)):
    """The cgroups of CELLS, in every hierarchy; of KINDS "-egress" is the helpers' beside a cell's."""
    names, found = {f"cloister-{id}{kind}" for id in cells for kind in kinds}, set()

    def look(folder):
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return                  # gone meanwhile, as cgroups do
        found.update(e.path for e in entries if e.name in names)
        for entry in entries:
            if not entry.name.startswith("cloister-") and entry.is_dir(follow_symlinks=False):
                look(entry.path)
    if names:
        look(CGROUPS)
    return found


def mounts():
    """But for the folder that the first `ip netns add` of a machine mounts: it stays, and any test may be the first."""
    return {line for line in Path("/proc/self/mountinfo").read_text().splitlines() if line.split()[4] != "/run/netns"}


def _reap(known):
    """Orphans of the test: this process is who reaps them."""
    for pid in descendants_of(os.getpid()):
        if pid not in known and not is_alive(pid):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def processes(operator):
    _reap({p.pid for p in operator.processes})
    servers = {pid for lab in LABS for pid in (lab, *descendants_of(lab))}
    return [pid for pid in descendants_of(os.getpid()) if is_alive(pid) and pid not in servers]


def _name(pid):
    try:
        return f"{pid} {Path(f'/proc/{pid}/cmdline').read_bytes()!r}"
    except OSError:
        return str(pid)


def check(operator, mounts_before):
    """Nothing is left but what the test said that it keeps."""
    left = []

    def gone(look, seconds=10):
        """What LOOK finds even after a while."""
        try:
            wait_until(lambda: not look(), "", seconds)
            return []
        except AssertionError:
            return sorted(look())

    left += [f"process {_name(pid)}" for pid in gone(lambda: processes(operator))]
    left += [f"runtime entry {name}" for name in operator.running()]
    left += [f"state entry {name}" for name in operator.names(operator.state)
             if name.split(".")[0] not in operator.kept]
    cells = operator.witness.names()
    left += [f"cgroup {name}" for name in gone(lambda: cgroups(cells, ("", "-egress")))]
    left += [f"mount {line}" for line in gone(lambda: mounts() - mounts_before)]
    if operator.kept:
        done = operator.cloister("discard", "--all")
        operator.close()
        if done.status != 0 or operator.names(operator.state):
            left.append(f"after discard --all ({done}): {operator.names(operator.state)}")
    assert not left, "left behind: " + "; ".join(left)
