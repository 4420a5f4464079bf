"""Many cells alive at once: what each holds in memory, and how fast all of them die."""
import json
import os
import select
import time

from bench import Samples, Unmeasured, group, in_parallel
from lab import await_quiet, descendants, private_bytes, processes

MIB = 1024 * 1024


def populate(lab, who, n):
    """N sleeping cells, as `ps` shows them."""
    argv = [lab.cloister, "run", "-q", "-d", "--", "sleep", "1000"]
    in_parallel(lab, who, argv, 4, total=n)
    listed = who.run([lab.cloister, "ps", "--json"])
    cells = json.loads(listed.stdout) if listed.returncode == 0 else []
    if len(cells) != n:
        raise Unmeasured(f"{len(cells)} of {n} cells are alive: {listed.stderr.strip()}")
    return cells


def outside_agent(cells):
    """Private MiB of each cell's processes but the agent's own; none if they are not
    for us to look at."""
    tree = processes()
    sizes = Samples()
    for cell in cells:
        agent = set(descendants(cell["agent"], tree))
        own = {cell["supervisor"], cell["init"], *descendants(cell["supervisor"], tree)} - agent
        parts = [private_bytes(pid) for pid in own]
        if None in parts:
            return Samples()
        sizes.append(sum(parts) / MIB)
    return sizes


def bwrap_size(who):
    """The same of a bubblewrap with a sleep in it."""
    proc = who.popen(["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/",
                      "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "sleep", "1000"])
    try:
        time.sleep(0.3)
        tree = descendants(proc.pid, processes())
        parts = [private_bytes(pid) or 0 for pid in tree
                 if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "bwrap"]
        return sum(parts) / MIB
    finally:
        proc.kill()
        proc.wait()


def available():
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))


def await_exit(pid):
    """Popen.wait(timeout) looks every 50 ms; this wakes at once."""
    fd, exited = os.pidfd_open(pid), select.poll()
    exited.register(fd, select.POLLIN)
    try:
        if not exited.poll(60_000):
            raise Unmeasured(f"process {pid} still runs after 60 s")
    finally:
        os.close(fd)


def kill_all(lab, who, cells):
    """Milliseconds until `kill --all` has returned; every process must be dead then."""
    doomed = select.poll()
    names, fds = {}, []
    for cell in cells:
        for role in ("agent", "init", "supervisor"):
            fd = os.pidfd_open(cell[role])
            doomed.register(fd, select.POLLIN)
            names[fd] = role
            fds.append(fd)
    try:
        begin = time.monotonic()
        proc = who.popen([lab.cloister, "kill", "--all"])
        await_exit(proc.pid)
        dead = {fd for fd, _ in doomed.poll(0)}
        took = (time.monotonic() - begin) * 1e3
        proc.wait()
        if proc.returncode != 0:
            raise Unmeasured(f"kill --all: status {proc.returncode}")
        alive = [names[fd] for fd in fds if fd not in dead]
        if "agent" in alive or "init" in alive:
            raise Unmeasured(f"kill --all returned with {alive.count('agent')} agents and "
                             f"{alive.count('init')} inits alive of {len(cells)}")
        return took, len(alive)
    finally:
        for fd in fds:
            os.close(fd)


def wait_until_gone(lab, who, seconds=30):
    for _ in range(seconds * 10):
        if who.run([lab.cloister, "ps", "--json"]).stdout.strip() == "[]":
            break
        time.sleep(0.1)
    else:
        raise Unmeasured("cells are listed long after kill --all")
    who.run([lab.cloister, "discard", "--all"])


def report_memory(report, who, cells, bar):
    name = f"crowd: private memory of each of {len(cells)} cells ({who.name})"
    sizes = outside_agent(cells)
    if sizes:
        report.row(name, sizes.median, "MiB", sizes.spread, "bwrap", bwrap_size(who), bar)
    else:
        report.note(name, "only root may look")


@group("crowd")
def crowd(lab, report):
    n = report.pick(500, 50)
    for who in lab.users:
        ours = who is lab.user
        times, lingering, noisy = Samples(), Samples(), 0
        for i in range(report.pick(3, 1)):
            before = available()
            cells = populate(lab, who, n)
            if i == 0:
                report_memory(report, who, cells, "value <= 1.5" if ours else None)
                report.row(f"crowd: all memory of each, roughly ({who.name})",
                           (before - available()) / n / MIB, "MiB")
            noisy += not await_quiet()
            took, supervisors = kill_all(lab, who, cells)
            times.append(took)
            lingering.append(supervisors)
            wait_until_gone(lab, who)
        report.row(f"crowd: kill --all of {n} cells ({who.name})", times.median, "ms",
                   times.spread, bar="value < 200" if ours else None)
        if noisy:
            report.note(f"crowd: kill --all ({who.name})",
                        f"{noisy} of {len(times)} times something else was running beside it")
        report.row(f"crowd: supervisors still ending after it ({who.name})", max(lingering), "")
