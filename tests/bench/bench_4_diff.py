"""Measures `diff` for many changed files, beside git on the same two trees."""
import time

from bench import Samples, Unmeasured, group
from bench_4_work import own
from lab import await_quiet

FORMS = {"diff": [], "diff --stat": ["--stat"]}


def trees(who, n):
    """N files of 40 lines, before and after one line was changed and one added."""
    for name in ("before", "after"):
        for i in range(n):
            lines = [f"line {j} of file {i}, as it was\n" for j in range(40)]
            if name == "after":
                lines[7:8] = [f"line 7 of file {i}, as it is now\n"]
                lines[30:30] = ["and one more\n"]
            path = who.home / "diff" / name / f"d{i // 500}" / f"f{i}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(lines))
    own(who, who.home / "diff")
    return who.home / "diff"


def timed(who, argv, cwd, statuses):
    begun = time.monotonic()
    done = who.run(argv, cwd=cwd, timeout=600)
    if done.returncode not in statuses:
        raise Unmeasured(f"{argv}: status {done.returncode}: {done.stderr.strip()[-300:]}")
    return (time.monotonic() - begun) * 1000, done.stdout


@group("diff")
def diff(lab, report):
    who, n, rounds = lab.user, report.pick(50000, 2000), report.pick(5, 3)
    folder = trees(who, n)
    made = who.run([lab.cloister, "run", "-q", "--name", "many", "--disk", "4G", "-w", "before", "-v",
                    f"{folder}/after:/mnt/after:ro", "--", "cp", "-r", "/mnt/after/.", "."], cwd=folder, timeout=600)
    if made.returncode != 0:
        raise Unmeasured(f"the cell: {made.stderr.strip()[-300:]}")
    try:
        for name, options in FORMS.items():
            ours, git = Samples(), Samples()
            await_quiet()
            for _ in range(rounds):
                for samples, argv, statuses in (
                        (ours, [lab.cloister, "diff", *options, "many"], (0,)),
                        (git, ["git", "diff", "--no-index", *options, "before", "after"], (0, 1))):
                    took, said = timed(who, argv, folder, statuses)
                    if said.count("f1.txt") == 0:
                        raise Unmeasured(f"{argv}: it shows nothing")
                    samples.append(took)
            report.row(f"diff: {n} files, {name}", min(ours), "ms", ours.spread, "git diff --no-index", min(git),
                       "ratio <= 1.5")
    finally:
        who.run([lab.cloister, "discard", "--all"])
