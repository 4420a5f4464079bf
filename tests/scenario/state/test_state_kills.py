"""Kills at random places of whatever writes a state, or of the process that reads what agents wrote: nothing is lost, nothing is
half done, and git, the record and the signatures agree.

CLOISTER_TEST_KILLS says how many there are, a fifth of each kind.  A place is a system call and how often it was called: no clock decides."""
import contextlib
import os
import random
import re
import subprocess

import pytest

from operators import end, wait_until
from states import NO_LEAKS, states  # noqa: F401  a fixture
from test_state_cells import saver_of

KILLS = int(os.environ.get("CLOISTER_TEST_KILLS", 20)) // 5
CALLS = ["fsync", "renameat", "unlinkat", "write", "openat", "openat2", "sendmsg", "recvmsg", "mkdirat", "newfstatat", "flock"]


class Kills:
    def __init__(self, states):  # noqa: F811
        self.states, self.seed = states, random.randrange(1 << 32)
        print(f"seed {self.seed}")
        self.chance, self.done, self.known = random.Random(self.seed), 0, set()

    def place(self):
        call = self.chance.choice(CALLS)
        times = 1 + int(self.chance.expovariate(1 / 12))
        return ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={times}"]

    def strike(self, *argv):
        """Run ARGV, and kill it on the way, or a process that it started."""
        done = self.states.operator.do("strace", "-f", "-qq", "-o", "/dev/null", *self.place(), *argv, env=NO_LEAKS)
        self.done += done.status != 0
        return done

    def check(self, known=()):
        """The judges: git, the record; now and then each signature."""
        states = self.states  # noqa: F811
        states.operator.cloister("state", "show", "brain").ok()
        self.known |= set(known)
        states.git("fsck", "--strict", "--no-dangling")
        assert self.known <= set(states.git("rev-list", "--branches", "--tags").split()), "a commit is lost"
        assert not (states.folder() / "pending").exists()
        last = [e for e in states.records() if e.get("ref") == "refs/heads/main" and e["state"] == "brain"][-1]
        assert last["commit"] == states.head()
        states.operator.cloister("audit", "verify").ok()
        if self.done % 25 == 0:
            states.operator.cloister("state", "verify", "brain").ok()
        self.known.add(states.head())


@pytest.fixture
def kills(states):  # noqa: F811
    states.create()
    states.commit_files({"file": "0"})
    return Kills(states)


def test_of_commits(kills):
    states, n = kills.states, 0  # noqa: F811
    while kills.done < KILLS:
        n += 1
        was = states.git("show", "main:file")
        folder = states.changes({"file": str(n), f"more/{n}": str(n), "large": os.urandom(1 << 20) + str(n).encode()})
        done = kills.strike(states.program, "brain", "main", states.head(), folder)
        kills.check(done.out.split()[:1] if done.status == 0 else ())
        assert states.git("show", "main:file") in {was, str(n)}
    states.operator.cloister("state", "verify", "brain").ok()


def test_of_rollbacks(kills):
    states = kills.states  # noqa: F811
    one, two = states.head(), states.commit_files({"file": "1"})
    while kills.done < KILLS:
        was = states.git("show", "main:file")
        kills.strike(states.operator.program, "state", "rollback", "brain", one if was == "1" else two)
        kills.check([one, two])
        assert states.git("show", "main:file") in {"0", "1"}
    states.operator.cloister("state", "verify", "brain").ok()


def test_of_merges(kills):
    states, n = kills.states, 0  # noqa: F811
    while kills.done < KILLS:
        n += 1
        states.operator.cloister("state", "branch", "brain", f"side{n}").ok()
        theirs = states.commit_files({f"side{n}": "theirs"}, branch=f"side{n}")
        ours = states.commit_files({f"main{n}": "ours"})
        kills.strike(states.operator.program, "state", "merge", "brain", f"side{n}")
        kills.check([ours])
        assert states.head(branch=f"side{n}") == theirs
        files = states.git("ls-tree", "--name-only", "main").split()
        assert f"main{n}" in files and (f"side{n}" in files) == (theirs in states.git("rev-list", "main").split())
        states.operator.cloister("state", "branch", "--remove", "brain", f"side{n}").ok()
    states.operator.cloister("state", "verify", "brain").ok()


def test_of_imports(kills):
    states = kills.states  # noqa: F811
    folder = states.changes({"a": "1", "b/c": "2", "large": os.urandom(1 << 21)})
    while kills.done < KILLS:
        kills.strike(states.operator.program, "state", "import", "other", folder)
        kills.check()
        states.operator.cloister("audit", "verify").ok()
        if (states.data / "states" / "other").exists():
            again = states.operator.cloister("state", "import", "other", folder)
            assert again.status == 0 or re.search("there is a state", again.err), again
            states.git("fsck", "--strict", name="other")
            states.operator.cloister("state", "verify", "other").ok()
            states.operator.cloister("state", "remove", "--yes", "other").ok()


@contextlib.contextmanager
def attached(operator, pid, place):
    """PID is killed at PLACE."""
    with open(operator.base / "strace", "w+b") as said:
        process = subprocess.Popen(["strace", "-f", "-o", "/dev/null", *place, "-p", str(pid)], stderr=said)
        wait_until(lambda: b"attached" in (operator.base / "strace").read_bytes(), "strace has it")
        try:
            yield
        finally:
            end(process.pid)
            process.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may trace the saver")
def test_of_checkpoints(operator, kills):
    """What the agent wrote is there in the next session, whichever of the processes died."""
    states, n = kills.states, 0  # noqa: F811
    while kills.done < KILLS:
        n += 1
        cell = operator.detach("--state", "brain", "--", "sh", "-c", f"echo {n} >~/brain/file; echo {n} >~/brain/more{n}; sleep 600")
        wait_until(lambda: operator.cloister("exec", cell, "--", "test", "-s", f"/home/agent/brain/more{n}").status == 0, "it wrote")
        saver = saver_of(cell, operator)
        with attached(operator, saver, kills.place()):
            kills.done += operator.cloister("state", "checkpoint", cell).status != 0
        operator.cloister("kill", cell).ok()
        wait_until(lambda: operator.cell(cell) is None, "the cell has ended")
        operator.kept.add(cell)
        assert operator.sh(f"cat ~/brain/file ~/brain/more{n}", "--state", "brain", "-q").ok() == f"{n}\n{n}\n"
        kills.check()
    states.operator.cloister("state", "verify", "brain").ok()
