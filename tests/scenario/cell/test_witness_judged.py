"""The record against judges of other making: strace beside stress-ng in the same cell, and bpftrace outside."""
import collections
import json
import os
import re
import shutil
import subprocess

import pytest

from operators import SECONDS, only_root, wait_until

# Calls of the stressors, and what the record calls them.
KINDS = {"rename": "rename renameat renameat2", "link": "link linkat symlink symlinkat", "mode": "chmod fchmod fchmodat",
         "times": "utime utimes utimensat futimesat", "remove": "unlink unlinkat rmdir", "memory": "memfd_create"}
KIND = {call: kind for kind, calls in KINDS.items() for call in calls.split()}
STRESS = ("--rename 1 --rename-ops 200 --symlink 1 --symlink-ops 1 --chmod 1 --chmod-ops 20 --dir 1 --dir-ops 3 --utime 1 --utime-ops 50 "
          "--memfd 1 --memfd-ops 2").split()
LINE = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed>).* = (-?\d+)(?: (E\w+))?")


def events(operator, name):
    return [json.loads(line) for line in operator.cloister("events", "--json", name).ok().splitlines()]


def attempts(log):
    """What strace saw: ({kind: attempts}, {kind: those that succeeded})."""
    tried, done = collections.Counter(), collections.Counter()
    for line in log.read_text(errors="replace").splitlines():
        found = LINE.match(line)
        # A call that a signal restarts is one call.
        if found and found[1] in KIND and found[3] not in ("ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND"):
            tried[KIND[found[1]]] += 1
            done[KIND[found[1]]] += not found[2].startswith("-")
    return tried, done


def recorded(all_events):
    """({kind: recorded}, how many acts were left out)"""
    found, lost = collections.Counter(), 0
    for e in all_events:
        if e["type"] == "file" and e["act"] in KINDS:
            found[e["act"]] += e["count"]
        elif e["type"] in ("refused", "danger") and e["call"] in KIND:
            found[KIND[e["call"]]] += e["count"]
        elif e["type"] == "lost":
            lost += e["count"]
    return found, lost


@pytest.mark.skipif(shutil.which("stress-ng") is None or shutil.which("strace") is None, reason="there is no stress-ng or strace")
@pytest.mark.parametrize("level", ["acts", "full"])
def test_nothing_is_lost_unannounced(operator, level):
    folder = operator.folder("judge")
    operator.run("-q", "--name", "stressed", "--record", level, "-v", f"{folder}:{folder}:rw", "--", "strace", "-f", "-o",
                 folder / "log", "-e", "trace=" + ",".join(KIND), "stress-ng", "--quiet", "--temp-path", "/tmp", "--timeout",
                 "60", *STRESS).ok()
    tried, done = attempts(folder / "log")
    assert all(tried[kind] > 10 for kind in KINDS), tried
    seen = events(operator, "stressed")
    by = next(e["by"] for e in seen if e["type"] == "record")
    found, lost = recorded(seen)
    for kind in KINDS:
        # By notify it is unknown which calls failed, so that all of them count.  By eBPF those that no wall refused and that
        # came to nothing are left out on purpose.
        least = tried[kind] if by == "notify" else done[kind]
        assert found[kind] <= tried[kind], (by, kind, found, tried, done)
        assert lost or found[kind] >= least, (by, kind, found, tried, done)
    assert sum(found.values()) + lost >= sum((tried if by == "notify" else done).values()), (found, lost, tried, done)


# The kernel counts, so that no execution is lost on its way to bpftrace.  It ends by its own exit(): a signal that comes
# while it does not wait for events is forgotten.
WATCH = """tracepoint:sched:sched_process_exec /strncmp(str(args->filename), "FOLDER/", LENGTH) == 0/ {
  @ran[str(args->filename)] = count();
}
tracepoint:sched:sched_process_exec /str(args->filename) == "FOLDER/ready"/ { printf("watching\\n"); }
tracepoint:sched:sched_process_exec /str(args->filename) == "FOLDER/last"/ { exit(); }
"""
COUNTED = re.compile(r"^@ran\[.*/(.*)\]: (\d+)$", re.MULTILINE)


@only_root
@pytest.mark.skipif(shutil.which("bpftrace") is None, reason="there is no bpftrace")
def test_bpftrace_sees_the_same_executions(operator):
    folder, out = operator.folder("programs"), operator.base / "watched"
    programs = [f"program-{i}" for i in range(5)]
    for name in [*programs, "ready", "last"]:
        shutil.copy("/bin/true", folder / name)
    # Of these alone: on a busy machine it would lose some of all.
    script = operator.file("watch.bt", WATCH.replace("FOLDER", str(folder)).replace("LENGTH", str(len(str(folder)) + 1)))
    # Its own view of the kernel's tracepoints, which not every machine has mounted.
    watcher = subprocess.Popen(["unshare", "-m", "sh", "-c", "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs "
                                "/sys/kernel/tracing; exec bpftrace -B line \"$0\"", str(script)], stdout=out.open("w"),
                               stderr=subprocess.STDOUT, env={**os.environ, "BPFTRACE_STRLEN": "200", "BPFTRACE_MAX_STRLEN": "200"})

    def watches():
        subprocess.run([folder / "ready"], check=True)
        return watcher.poll() is not None or "watching" in out.read_text()
    try:
        wait_until(watches, "bpftrace watches")
        if watcher.poll() is not None:
            pytest.skip("bpftrace cannot watch here: " + out.read_text().strip()[-200:])
        operator.run("-q", "--name", "judged", "--record", "full", "-v", f"{folder}:{folder}:ro", "--", "sh", "-c",
                     f"for i in 0 1 2 3 4; do for n in $(seq $((i * 7 + 1))); do echo {folder}/program-$i; done; done | "
                     f"xargs -P 4 -n 1 sh -c '\"$0\"'; {folder}/program-0; {folder}/none; true").ok()
        subprocess.run([folder / "last"], check=True)
        assert watcher.wait(SECONDS) == 0, out.read_text()
    finally:
        watcher.kill()
        watcher.wait()
    judged = collections.Counter({name: int(n) for name, n in COUNTED.findall(out.read_text()) if name in programs})
    assert judged == {name: i * 7 + 1 + (i == 0) for i, name in enumerate(programs)}, out.read_text()
    seen = events(operator, "judged")
    assert next(e["by"] for e in seen if e["type"] == "record") == "ebpf"
    found = collections.Counter(e["path"].rsplit("/", 1)[-1] for e in seen
                                if e["type"] == "exec" and e["path"].startswith(f"{folder}/") and "error" not in e)
    lost = sum(e["count"] for e in seen if e["type"] == "lost" and e["what"] in ("exec", "acts"))
    assert found <= judged and (judged - found).total() <= lost, (found, judged, lost)
