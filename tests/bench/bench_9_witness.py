"""Measures the cost of recording a cell: a compile, single calls, the start, and the witness's memory.

The peers record the same compile outside of any cell.  `kernel' rows measure the eBPF source alone, with
witness_watch: a process in a pid namespace, without walls."""
import os
import re
import shutil
import subprocess
import time

from bench import Samples, Unmeasured, group, in_turn
from bench_4_work import Place, interleave, sources
from lab import descendants, private_bytes, processes

COMPILE = ["make", "-s", "-j2"]
BARS = {"acts": "ratio <= 1.03", "full": "ratio <= 1.05"}
PEERS = {
    "strace": ["strace", "-f", "-o", "/dev/null"],
    "strace, counts": ["strace", "-f", "-c", "-o", "/dev/null"],
    "perf trace": ["perf", "trace", "-o", "/dev/null"],
    "bpftrace, counts": ["bpftrace", "-o", "/dev/null", "-e",
                         "tracepoint:raw_syscalls:sys_exit { @[pid, args->id] = count(); }", "-c"],
}
# These start no program, but watch them all.
BESIDE = {"sysdig": ["sysdig", "-w", "/dev/null"]}
PROCESSES = 1000


def can_record(lab):
    return "--record" in lab.user.run([lab.cloister, "run", "--help"]).stdout


class Recorded(Place):
    """A place with a record of LEVEL."""

    def __init__(self, lab, who, folder, level):
        super().__init__(lab, who, folder, ":rw")
        self.argv[2:2] = ["--record", level]


def compiles(lab, report, who, levels):
    folder = sources(who)
    places = {level: Recorded(lab, who, folder, level) for level in ("off", *levels)}
    interleave(places, report.pick(9, 2), lambda: shutil.rmtree(folder / "out", ignore_errors=True),
               ["-n", 1], COMPILE)
    for level in levels:
        # By notification, what `full' costs is reported only.
        bar = None if who is not lab.root and level == "full" else BARS[level]
        report.row(f"witness: compile, {level}, {who.name}", min(places[level].walls), "ms",
                   places[level].walls.spread, "off", min(places["off"].walls), bar)
    return folder


def peers(lab, report, folder):
    """The best of a few compiles each, outside."""
    def best(prefix):
        times = Samples()
        command = [shutil.which(COMPILE[0]), *COMPILE[1:]]
        if prefix[:1] == ["bpftrace"]:
            command = [" ".join(command)]
        for _ in range(report.pick(3, 1)):
            shutil.rmtree(folder / "out", ignore_errors=True)
            begin = time.monotonic()
            done = lab.root.run([*prefix, *command], cwd=folder, timeout=600)
            if done.returncode != 0:
                raise Unmeasured(done.stderr.strip()[-200:])
            times.append((time.monotonic() - begin) * 1e3)
        return times

    def beside(argv):
        watcher = lab.root.popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            times = best([])
            if watcher.poll() is not None:
                raise Unmeasured(f"{argv[0]} does not work here")
            return times
        finally:
            watcher.kill()
            watcher.wait()

    alone = best([])
    for name, argv in (PEERS | BESIDE).items():
        try:
            if argv[0] == "sysdig" and not os.path.exists("/proc/modules"):
                raise Unmeasured("sysdig reads from a kernel module of its own, and this kernel loads none (CONFIG_MODULES)")
            if shutil.which(argv[0]) is None:
                raise Unmeasured(f"{argv[0]} is not installed")
            times = beside(argv) if name in BESIDE else best(argv)
            report.row(f"witness: compile, {name}", min(times), "ms", times.spread, "without", min(alone))
        except Unmeasured as e:
            report.note(f"witness: compile, {name}", str(e))


def getpid_cost(who, argv):
    run = who.run(argv)
    found = re.search(r"^getpid ([\d.]+)$", run.stdout, re.M)
    if run.returncode != 0 or found is None:
        raise Unmeasured(f"syscall_loop: status {run.returncode}: {run.stderr.strip()[-200:]}")
    return float(found[1])


def calls(report, who, name, commands):
    """COMMANDS: by level; each is compared with `off'."""
    costs = {level: Samples() for level in commands}
    for _ in range(report.pick(7, 2)):
        for level, argv in commands.items():
            costs[level].append(getpid_cost(who, argv))
    for level in commands:
        if level != "off":
            report.row(f"witness: one getpid, {name}{level}", min(costs[level]), "ns", costs[level].spread, "off",
                       min(costs["off"]), "ratio <= 1.3")


def starts(lab, report, who):
    times = in_turn(lab, who, {level: [lab.cloister, "run", "-q", "--record", level, "--", "true"]
                               for level in ("off", "acts")}, report.pick(100, 10))
    report.row(f"witness: start, acts, {who.name}", times["acts"].median, "ms", times["acts"].spread, "off",
               times["off"].median, "ratio <= 1.05")


def memory(lab, report, who):
    """Of the witness, while its cell has many processes."""
    cell = who.popen([lab.cloister, "run", "-q", "--record", "full", "--", "sh", "-c",
                      f"for i in $(seq {PROCESSES}); do sleep 600 & done; echo there; wait"], stdout=-1)
    try:
        if cell.stdout.readline() != b"there\n":
            raise Unmeasured("the cell did not start")
        # The last ones are seen some milliseconds later.
        time.sleep(1)
        sizes = []
        for pid in descendants(cell.pid, processes()):
            with open(f"/proc/{pid}/comm") as comm:
                if comm.read().startswith("cloister-witne"):
                    sizes.append(private_bytes(pid))
        if not sizes or None in sizes:
            raise Unmeasured("there is no witness")
        report.row(f"witness: memory, {PROCESSES} processes, {who.name}", sum(sizes) / 2**20, "MiB",
                   bar="value <= 4")
    finally:
        who.run([lab.cloister, "kill", "--all"])
        cell.stdout.close()
        cell.wait(timeout=60)


def kernel(lab, report):
    """The source of eBPF alone."""
    watch = lab.build / "tests/witness_watch"
    if not watch.exists():
        report.note("witness: kernel", "there is no witness_watch: run make tests")
        return
    how = {"off": ["-n"], "acts": [], "full": ["-f"]}
    calls(report, lab.root, "kernel, ", {level: [watch, *options, lab.bin / "syscall_loop"]
                                         for level, options in how.items()})
    opened = Samples()
    for _ in range(report.pick(50, 5)):
        found = re.match(r"open ([\d.]+) ms", lab.root.run([watch, "-q", "/bin/true"]).stdout)
        if found is None:
            raise Unmeasured("witness_watch did not work")
        opened.append(float(found[1]))
    report.row("witness: kernel, a cell is added", opened.median, "ms", opened.spread)


@group("witness")
def witness(lab, report):
    if lab.root is not None:
        kernel(lab, report)
    if not can_record(lab):
        report.note("witness", "this build does not record what cells do")
        return
    for who in lab.users:
        folder = compiles(lab, report, who, ("acts", "full"))
        loop = [lab.bin / "syscall_loop"]
        calls(report, who, f"{who.name}, ", {
            level: [lab.cloister, "run", "-q", "--record", level, "-v", f"{lab.bin}:{lab.bin}:ro", "--", *loop]
            for level in ("off", "acts", "full")})
        starts(lab, report, who)
        memory(lab, report, who)
    if lab.root is not None:
        peers(lab, report, folder)
