"""States: what a commit adds to the end of a session, and how long a rollback takes; against git on the same files."""
import subprocess
import tempfile
import time
from pathlib import Path

from bench import Samples, Unmeasured, group
from lab import PATH

GIT = {"PATH": PATH, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
       **{f"GIT_{who}_{what}": "bench@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}
# Each file is a line or two, as notes are.  What is printed is when the agent is done.
WRITE = ('mkdir -p "$0/notes"; i=0; while [ $i -lt $1 ]; do echo "note $i of round $2: the build takes four minutes" '
         '>"$0/notes/$i.md"; i=$((i+1)); done; date +%s%N')


def write_in_cell(lab, who, state, files, n):
    """Milliseconds from when the agent has written FILES files until `run` is over."""
    options, place = (["--state", f"{state}:/srv/memory"], "/srv/memory") if state else ([], "/tmp/memory")
    run = who.run([lab.cloister, "run", "-q", *options, "--", "sh", "-c", WRITE, place, str(files), str(n)])
    over = time.time_ns()
    if run.returncode != 0:
        raise Unmeasured(run.stderr.strip()[-300:])
    return (over - int(run.stdout)) / 1e6


class Git:
    def __init__(self, lab):
        self.folder = Path(tempfile.mkdtemp(prefix="git-", dir=lab.top))
        self.run("init", "-q")

    def run(self, *words):
        done = subprocess.run(["git", *words], cwd=self.folder, env=GIT, capture_output=True, text=True)
        if done.returncode != 0:
            raise Unmeasured(f"git: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    def write(self, files, n):
        subprocess.run(["sh", "-c", WRITE, str(self.folder), str(files), str(n)], check=True, stdout=subprocess.DEVNULL)

    def commit(self):
        begin = time.perf_counter()
        self.run("add", "-A")
        self.run("commit", "-q", "-m", "changed")
        return (time.perf_counter() - begin) * 1000


def ends(lab, who, report):
    files, rounds, git = 1000, report.pick(30, 3), Git(lab)
    samples = {"without": Samples(), "with": Samples(), "git": Samples()}
    for n in range(rounds + 2):
        git.write(files, n)
        took = {"without": write_in_cell(lab, who, None, files, n), "with": write_in_cell(lab, who, "ends", files, n),
                "git": git.commit()}
        for name, ms in took.items():
            if n >= 2:
                samples[name].append(ms)
    alone = samples["without"].median
    added = Samples(ms - alone for ms in samples["with"])
    report.row(f"state: the end with {files} changed files", added.median, "ms", added.spread, "git add, commit",
               samples["git"].median, "value <= 50")
    report.row("state: the end of the same run without", alone, "ms", samples["without"].spread)


def rollbacks(lab, who, report):
    files, rounds, git = report.pick(10_000, 1000), report.pick(5, 3), Git(lab)
    samples = {"cloister": Samples(), "git": Samples()}
    for n in range(2):
        write_in_cell(lab, who, "back", files, n)
        git.write(files, n)
        git.commit()
    for _ in range(rounds):
        begin = time.perf_counter()
        run = who.run([lab.cloister, "state", "rollback", "back", "main~1"])
        samples["cloister"].append((time.perf_counter() - begin) * 1000)
        if run.returncode != 0:
            raise Unmeasured(run.stderr.strip()[-300:])
        begin = time.perf_counter()
        git.run("checkout", "-q", "HEAD~1", "--", ".")
        git.run("commit", "-q", "-m", "back")
        samples["git"].append((time.perf_counter() - begin) * 1000)
    report.row(f"state: rollback of {files} files", samples["cloister"].median, "ms", samples["cloister"].spread,
               "git checkout, commit", samples["git"].median, "value <= 1000")


@group("state")
def state(lab, report):
    ends(lab, lab.users[0], report)
    rollbacks(lab, lab.users[0], report)
