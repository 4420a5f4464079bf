"""What cells left behind, judged from the host."""
import os
from pathlib import Path

from operators import descendants_of, is_alive, wait_until

CGROUPS = Path("/sys/fs/cgroup")


def cgroups():
    """The cgroups of cells, in every hierarchy."""
    return {folder for folder, _, _ in os.walk(CGROUPS)
            if os.path.basename(folder).startswith("cloister-")}


def mounts():
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def look():
    return {"cgroups": cgroups(), "mounts": mounts()}


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
    return [pid for pid in descendants_of(os.getpid()) if is_alive(pid)]


def _is_somebody_elses(cgroup):
    """Whether it holds processes that no test started: other cells may run here."""
    try:
        pids = Path(cgroup, "cgroup.procs").read_text().split()
    except OSError:
        return True
    ours = set(descendants_of(os.getpid()))
    return bool(pids) and not any(int(pid) in ours for pid in pids)


def _name(pid):
    try:
        return f"{pid} {Path(f'/proc/{pid}/cmdline').read_bytes()!r}"
    except OSError:
        return str(pid)


def check(operator, before):
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
    left += [f"cgroup {name}" for name in gone(lambda: {
        c for c in cgroups() - before["cgroups"] if not _is_somebody_elses(c)})]
    left += [f"mount {line}" for line in gone(lambda: mounts() - before["mounts"])]
    if operator.kept:
        done = operator.cloister("discard", "--all")
        operator.close()
        if done.status != 0 or operator.names(operator.state):
            left.append(f"after discard --all ({done}): {operator.names(operator.state)}")
    assert not left, "left behind: " + "; ".join(left)
