"""More than was given.  Bounded here as well: a box that contains nothing survives it."""
import os
import pathlib
import shutil
import tempfile
import time

from ..cell import NotApplicable, status_of
from ..verdict import probe


def settled(cell, seconds=15):
    """Until it is done, one way or the other."""
    cell.watch(lambda: cell.said("won") or cell.said("lost") or cell.said("made") or cell.ended(), seconds)
    cell.check()


@probe("has more processes than --pids allows")
def limit_pids(w):
    cell = w.spawn("forks", 160, limits={"pids": 64})
    settled(cell)
    return len(cell.pids()) > 64


def memory(how):
    def run(w):
        cell = w.spawn("memory", how, 192, limits={"memory": "64M"})
        settled(cell)
        return any(int(status_of(pid).get("VmRSS", "0").split()[0]) > 128 << 10 for pid in cell.pids())
    return run


for how in ("heap", "memfd"):
    probe(f"has more memory than --memory allows: {how}", name=f"limit-memory-{how}", group="resources")(
        memory(how))


@probe("computes more than --cpus allows")
def limit_cpus(w):
    cell = w.spawn("burn", 4, 6, limits={"cpus": "0.1"})
    cell.pid()
    # Of a machine that is busy with other things, it may take a while to get so much.
    for _ in range(10 if w.control else 1):
        start, before = time.monotonic(), cpu(cell)
        cell.watch(cell.ended, 0.5)
        if (cpu(cell) - before) / (time.monotonic() - start) > 0.25:
            return True
    return False


def cpu(cell):
    total = 0
    for pid in cell.pids():
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        total += int(words[11]) + int(words[12])
    return total / os.sysconf("SC_CLK_TCK")


def held(cell, paths):
    """Bytes in PATHS, as the probe's own root shows them."""
    total = 0
    for pid in cell.pids()[:1]:
        for path in paths:
            try:
                total += os.stat(f"/proc/{pid}/root{path}").st_blocks * 512
            except OSError:
                pass
    return total


@probe("fills its temporary folders beyond --disk")
def limit_disk(w):
    folders = ["/tmp", "/var/tmp", "/dev/shm", "/home/agent", "/run", "/dev"]
    if w.control:
        folders = [w.folder("scratch")]
    cell = w.spawn("fill", 48, *folders, limits={"disk": "16M"})
    settled(cell)
    return held(cell, [f"{f}/fill" for f in folders]) > 24 << 20


@probe("fills an overlay workspace beyond --disk")
def limit_disk_workspace(w):
    w.box.need("overlay")
    work = w.folder("work")
    cell = w.spawn("fill", 48, work, workspace=work, limits={"disk": "16M"})
    settled(cell)
    return held(cell, [f"{work}/fill"]) > 24 << 20


@probe("makes more files than --disk leaves room for")
def limit_inodes(w):
    folder = memory_folder(w) if w.control else "/tmp"
    cell = w.spawn("inodes", 12000, folder, limits={"disk": "16M"})
    settled(cell)
    pids = cell.pids()
    return bool(pids) and count(pathlib.Path(f"/proc/{pids[0]}/root{folder}")) >= 12000


def memory_folder(w):
    """Where so many files take no time."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="cloister-escape-", dir="/dev/shm"))
    w.stack.callback(shutil.rmtree, path)
    return w.own(path)


def count(folder):
    return sum(len(files) for _, _, files in os.walk(folder))


@probe("fills the disk with its log")
def log_flood(w):
    w.box.need("detach")
    folder = w.folder("logs") if w.control else w.state
    if w.control:
        with open(folder / "log", "wb") as f:
            w.run("flood", 160, stdout=f)
    else:
        cell = w.spawn_detached("flood", 160)
        w.tool_run("wait", cell.name)
        cell.out += w.tool_run("logs", cell.name)[1]
        cell.check()
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) > 128 << 20


@probe("runs longer than --time allows")
def limit_time(w):
    cell = w.spawn("deaf", limits={"time": "1s"})
    cell.pid()
    cell.watch(lambda: not cell.pids(), 1.3 if w.control else 3)
    return bool(cell.pids())


EXHAUSTED = {
    "inotify": "leaves the user's other programs no inotify instance",
    "queues": "leaves the user's other programs no message queue",
    "signals": "leaves the user's other programs no queued signal",
}


def exhausted(kind):
    def run(w):
        cell = w.spawn("exhaust", kind, 200000)
        cell.watch(lambda: cell.said("made") or cell.ended(), 10)
        cell.check()
        return w.holder("have", kind) == "no"
    return run


# As a user only: for root the control would take from the whole machine.
for kind, text in EXHAUSTED.items():
    probe(text, name=f"exhaust-{kind}", group="resources", who=("user",))(exhausted(kind))


def taken(kind, count, most, each):
    """Something that the machine has a number of: does the probe hold half of it?"""
    def run(w):
        before, half = number(count), number(most) // 2
        cell = w.spawn("exhaust", kind, half + each)
        cell.watch(lambda: cell.said("made") or cell.ended() or number(count) - before > half, 10)
        cell.check()
        return number(count) - before > half
    return run


def number(path):
    if not os.path.exists(path):
        raise NotApplicable(f"no {path} here")
    return int(pathlib.Path(path).read_text())


probe("takes half of the machine's asynchronous input and output", name="exhaust-aio", group="resources")(
    taken("aio", "/proc/sys/fs/aio-nr", "/proc/sys/fs/aio-max-nr", 1000))
probe("takes half of the machine's pseudo-terminals", name="exhaust-ptys", group="resources")(
    taken("ptys", "/proc/sys/kernel/pty/nr", "/proc/sys/kernel/pty/max", 8))
