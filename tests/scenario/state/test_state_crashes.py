"""Commits and rollbacks that are killed: nothing is lost, nothing is half done, and the record agrees with the ref."""
import os
import random
import re
import signal
import subprocess

import pytest

from operators import wait_until
from states import states  # noqa: F401  a fixture

KILLS = int(os.environ.get("CLOISTER_TEST_KILLS", 12))
# The calls between which a crash leaves something else behind.
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}   # the leak sanitizer fails under strace
BOUNDARIES = ["syncfs", "fsync", "fdatasync", "renameat", "unlinkat"]


def check(states, wanted):  # noqa: F811
    """Whatever happened, the state is sound after its next use, and has one of the commits' files."""
    states.operator.cloister("state", "show", "brain").ok()
    assert not (states.folder() / "pending").exists()
    states.git("fsck", "--strict")
    head = states.head()
    last = [e for e in states.records() if e.get("ref") == "refs/heads/main"][-1]
    assert last["commit"] == head
    states.operator.cloister("audit", "verify").ok()
    states.operator.cloister("state", "verify", "brain").ok()
    assert states.git("show", f"{head}:file", check=False).stdout in wanted
    return head


@pytest.mark.parametrize("call", BOUNDARIES)
def test_a_kill_at_each_boundary_of_a_commit(states, call):  # noqa: F811
    states.create()
    states.commit_files({"file": "0"})
    for n in range(1, 40):
        base, text = states.head(), str(n)
        was = states.git("show", f"{base}:file")
        folder = states.changes({"file": text})
        # The N-th such call kills instead.
        done = states.operator.do("strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                                  "-e", f"inject={call}:signal=KILL:when={n}", states.program, "brain", "main", base, folder,
                                  env=NO_LEAKS)
        head = check(states, {was, text})
        # Nothing is lost: the changes can be committed again.
        states.commit(folder, base=base if states.git("show", f"{head}:file") == text else head)
        assert states.git("show", "main:file") == text
        if done.status == 0:
            assert n > 1, f"a commit never calls {call}"
            return
    raise AssertionError(f"over 40 calls of {call}")


@pytest.mark.parametrize("call", BOUNDARIES)
def test_a_kill_at_each_boundary_of_a_rollback(states, call):  # noqa: F811
    states.create()
    one = states.commit_files({"file": "1"})
    two = states.commit_files({"file": "2"})
    for n in range(1, 40):
        target, text = (one, "1") if states.git("show", "main:file") == "2" else (two, "2")
        done = states.operator.do("strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                                  "-e", f"inject={call}:signal=KILL:when={n}", states.operator.program, "state", "rollback",
                                  "brain", target)
        check(states, {"1", "2"})
        if done.status == 0:
            assert n > 1, f"a rollback never calls {call}"
            assert states.git("show", "main:file") == text
            return
    raise AssertionError(f"over 40 calls of {call}")


def test_random_kills(states):  # noqa: F811
    states.create()
    states.commit_files({"file": "0"})
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    for n in range(1, KILLS + 1):
        base, text = states.head(), str(n)
        was = states.git("show", f"{base}:file")
        folder = states.changes({"file": text, **{f"more/{n}/{i}": str(i) for i in range(30)}})
        process = states.operator.spawn(states.program, "brain", "main", base, folder, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        # At some number of its objects or files: a point that no clock decides.
        objects = sum(len(files) for _, _, files in os.walk(states.folder() / "git/objects"))
        after = chance.randrange(40)
        wait_until(lambda: process.poll() is not None or
                   sum(len(f) for _, _, f in os.walk(states.folder() / "git/objects")) >= objects + after, "the commit goes on")
        process.send_signal(signal.SIGKILL)
        process.wait()
        check(states, {was, text})


def test_half_of_a_state_is_made_again(states):  # noqa: F811
    for n in range(1, 30):
        done = states.operator.do("strace", "-qq", "-o", "/dev/null", "-e", "trace=renameat,mkdirat,unlinkat",
                                  "-e", f"inject=renameat,mkdirat,unlinkat:signal=KILL:when={n}", states.operator.program, "state",
                                  "create", f"s{n}")
        again = states.operator.cloister("state", "create", f"s{n}")
        assert again.status == 0 or re.search("there is a state", again.err), again
        states.operator.cloister("state", "show", f"s{n}").ok()
        states.operator.cloister("audit", "verify").ok()
        if done.status == 0:
            return
    raise AssertionError("over 30 calls")


def test_a_removal_that_was_killed_is_completed(states):  # noqa: F811
    for n in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233):
        states.create()
        states.commit_files({f"file{i}": str(i) for i in range(5)})
        done = states.operator.do("strace", "-qq", "-o", "/dev/null", "-e", "trace=renameat,unlinkat",
                                  "-e", f"inject=renameat,unlinkat:signal=KILL:when={n}", states.operator.program, "state",
                                  "remove", "--yes", "brain")
        if states.folder().exists():
            states.operator.cloister("state", "remove", "--yes", "brain").ok()
        states.operator.cloister("audit", "verify").ok()
        if done.status == 0:
            assert os.listdir(states.folder().parent) == []
            return
    raise AssertionError("over 233 calls")
