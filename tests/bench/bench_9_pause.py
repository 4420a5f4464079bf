"""Virtual machines that go to the disk and come back, and copies of a running one.

The bars hold where the machine has KVM.  Emulated, the times are reported without."""
import shutil
import time

from bench import Samples, Unmeasured, group
from bench_9_microvm import MEMORY, engine_of

COPIES = 10


def timed(who, argv):
    """Milliseconds, and the output."""
    began = time.monotonic()
    done = who.run(argv, timeout=300)
    taken = (time.monotonic() - began) * 1000
    if done.returncode != 0:
        raise Unmeasured(done.stderr.strip()[-300:])
    return taken, done.stdout.split()


def rootfs(who):
    """Programs for a disk: a busybox."""
    busybox = shutil.which("busybox")
    if busybox is None or shutil.which("mkfs.erofs") is None:
        raise Unmeasured("no busybox (package busybox-static), or no mkfs.erofs (package erofs-utils)")
    folder = who.top / "rootfs"
    if not folder.exists():
        (folder / "bin").mkdir(parents=True)
        shutil.copy(busybox, folder / "bin")
        for name in "sh", "sleep", "true":
            (folder / "bin" / name).symlink_to("busybox")
    return folder


def measure_pause(report, lab, who, run, engine, bars):
    _, (cell,) = timed(who, [*run, "--", "sh", "-c", "head -c 100000000 /dev/urandom >/tmp/x; exec sleep 1000"])
    there, back = Samples(), Samples()
    for _ in range(report.pick(10, 3)):
        there.append(timed(who, [lab.cloister, "pause", cell])[0])
        back.append(timed(who, [lab.cloister, "resume", cell])[0])
    who.run([lab.cloister, "kill", cell])
    report.row(f"microvm: pause of {MEMORY} MiB ({engine})", there.median, "ms", there.spread, bar=bars and "value <= 500")
    report.row(f"microvm: resume of {MEMORY} MiB ({engine})", back.median, "ms", back.spread, bar=bars and "value <= 200")


def measure_forks(report, lab, who, run, engine, bars):
    _, (cell,) = timed(who, [*run, "--rootfs", rootfs(who), "--forkable", "--", "sleep", "1000"])
    ours = Samples()
    for _ in range(report.pick(5, 2)):
        taken, copies = timed(who, [lab.cloister, "fork", cell, "--count", str(COPIES)])
        ours.append(taken)
        who.run([lab.cloister, "kill", *copies])
    who.run([lab.cloister, "kill", cell])
    report.row(f"microvm: {COPIES} forks of one moment ({engine})", ours.median, "ms", ours.spread, bar=bars and "value <= 1000")


@group("pause")
def pause(lab, report):
    who = lab.root
    if not who:
        report.note("pause", "needs root")
        return
    engine = engine_of(lab)
    run = [lab.cloister, "run", "-q", "-d", "--boundary", "microvm", "--memory", f"{MEMORY}M"]
    for measure in (measure_pause, measure_forks):
        measure(report, lab, who, run, engine, engine == "KVM" or None)
