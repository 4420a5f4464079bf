"""Looks for remains of cells on a host."""
import contextlib
import os
import re
import time
from pathlib import Path

PATIENCE = 30                   # seconds: the kernel takes namespaces down by and by
SLABS = ("pid_namespace", "user_namespace", "net_namespace", "mnt_cache", "nsproxy", "ovl_inode")
PER_CELL = {"mnt_cache": 20, "ovl_inode": 20}
# Locks of the living, what a user was told once, and which folders agents could write: one of each
# per user.
LASTING = ("slots", "told-limits", "told-disk", "writable", "believed")
# Of ended cells, per user: 1000 are kept, and at most 100 more until the next one ends.
TIMELINES, TIMELINES_MAX = "ended", 1100
KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts", "time")


def mounts():
    """(root, place, type, source) of each; ids differ from boot to boot only."""
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        words = before.split()
        found.add((words[3], words[4], *after.split()[:2]))
    return found


def cgroups():
    found = set()
    for root, place, kind, _ in mounts():
        if kind in ("cgroup", "cgroup2"):
            for path, folders, _ in os.walk(place):
                found |= {os.path.join(path, f) for f in folders if f.startswith("cloister")}
    return found


def abandoned(found):
    """Those of FOUND whose cell has no process in any hierarchy."""
    living = set()
    for cgroup in found:
        for path, _, _ in os.walk(cgroup):
            # A group that goes away meanwhile was nobody's remains.
            try:
                alive = Path(path, "cgroup.procs").read_text().strip()
            except OSError:
                alive = True
            if alive:
                living.add(os.path.basename(cgroup))
    return {cgroup for cgroup in found if os.path.basename(cgroup) not in living}


def namespaces():
    """{"net:[4026]": a process in it}"""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            for kind in KINDS:
                with contextlib.suppress(OSError):
                    found[os.readlink(f"/proc/{name}/ns/{kind}")] = int(name)
    return found


def slabs():
    """Objects in use; approximate, but thousands of leaked ones show."""
    found = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/slabinfo").read_text().splitlines():
            words = line.split()
            if words[0] in SLABS:
                found[words[0]] = int(words[1])
    return found


def keys():
    text = Path("/proc/key-users").read_text()
    return sum(int(n) for n in re.findall(r"^\s*\d+:\s+\d+\s+(\d+)/", text, re.M))


def describe(pid):
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return f"{pid} ({b' '.join(words).decode(errors='replace').strip()[:80]})"
    return str(pid)


def ours(pid, top, token):
    """Whether PID is the lab's executable, or was given our mark in its environment."""
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/{pid}/exe").startswith(top):
            return True
    with contextlib.suppress(OSError):
        return token.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False


def our_processes(top, token):
    """Zombies have neither an executable nor an environment: they do not count."""
    return [int(name) for name in os.listdir("/proc")
            if name.isdigit() and int(name) != os.getpid() and ours(name, top, token)]


class Before:
    """The host as it was; left() says what is there now that was not.

    SHARED: others start cells here meanwhile, so that only what is certainly ours,
    or abandoned, is complained of."""

    def __init__(self, lab, token, cells, shared):
        self.lab, self.token, self.shared = lab, token, shared
        self.slack = max(200, cells // 10)
        self.mounts, self.cgroups, self.namespaces = mounts(), cgroups(), set(namespaces())
        self.slabs, self.keys, self.ptys = slabs(), keys(), self._ptys()

    @staticmethod
    def _ptys():
        return int(Path("/proc/sys/kernel/pty/nr").read_text())

    def left(self):
        """A list of sentences."""
        top, memory = str(self.lab.top), str(self.lab.memory)
        said = [f"process {describe(pid)}" for pid in our_processes(top, self.token)]
        said += [f"mount {place} ({kind})" for _, place, kind, _ in mounts() - self.mounts
                 if not self.shared or "cloister" in place]
        found = cgroups() - self.cgroups
        said += [f"cgroup {path}" for path in (abandoned(found) if self.shared else found)]
        if not self.shared:
            said += [f"namespace {name} of process {describe(pid)}"
                     for name, pid in namespaces().items() if name not in self.namespaces]
            if self._ptys() > self.ptys:
                said.append(f"{self._ptys() - self.ptys} pseudo-terminals")
        said += self._sockets(memory) + self._files()
        said += [f"{now - self.slabs[name]} more {name} in the kernel"
                 for name, now in slabs().items()
                 if now - self.slabs[name] > self.slack * PER_CELL.get(name, 1)]
        if keys() - self.keys > self.slack:
            said.append(f"{keys() - self.keys} more keys")
        return said

    @staticmethod
    def _sockets(folder):
        with open("/proc/net/unix") as f:
            return [f"socket {line.split()[-1]}" for line in f if folder in line]

    def _files(self):
        said = []
        for who in self.lab.users:
            for place in (who.runtime, who.state):
                for path, folders, files in os.walk(place):
                    if path == str(who.state) and TIMELINES in folders:
                        folders.remove(TIMELINES)
                        said += self._timelines(who.state / TIMELINES)
                    said += [f"file {path}/{name}" for name in (*folders, *files)
                             if name not in LASTING]
            # Where it would be if our own folders had been disregarded.
            for stray in (who.home / "cloister", who.home / ".local"):
                if stray.exists():
                    said.append(f"file {stray}")
        return said

    @staticmethod
    def _timelines(folder):
        n = len(os.listdir(folder))
        return [f"{n} timelines in {folder}"] if n > TIMELINES_MAX else []

    def left_in_the_end(self):
        end = time.monotonic() + PATIENCE
        while (said := self.left()) and time.monotonic() < end:
            time.sleep(0.25)
        return said

    def figures(self):
        grown = {name: now - self.slabs[name] for name, now in slabs().items()}
        grown["keys"] = keys() - self.keys
        return ", ".join(f"{name} {n:+d}" for name, n in grown.items())
