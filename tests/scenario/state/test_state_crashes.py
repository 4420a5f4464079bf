"""Commits and rollbacks that are killed: nothing is lost, nothing is half done, and the record agrees with the ref."""
import os
import re

import pytest

from states import NO_LEAKS, states  # noqa: F401  a fixture

# The calls between which a crash leaves something else behind.
BOUNDARIES = ["fsync", "fdatasync", "renameat", "unlinkat"]


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


@pytest.mark.parametrize("call", ["openat", "write", "fsync", "renameat"])
def test_a_kill_of_whichever_process_comes_first(states, call):  # noqa: F811
    """Of cloister-state, too: its objects are all there, or none is."""
    states.create()
    states.commit_files({"file": "0"})
    large = os.urandom(1 << 21)
    n = 0
    while n < 5000:
        n += 1 + n // 3
        base, text = states.head(), str(n)
        was = states.git("show", f"{base}:file")
        folder = states.changes({"file": text, "large": large + text.encode(), "more/a": text})
        done = states.operator.do("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                                  "-e", f"inject={call}:signal=KILL:when={n}", states.program, "brain", "main", base, folder,
                                  env=NO_LEAKS)
        check(states, {was, text})
        if done.status == 0:
            assert n > 1, f"a commit never calls {call}"
            # It has removed what the others left.
            assert not [path for path in (states.folder() / "git").rglob("*") if "tmp" in path.name or path.name.endswith(".lock")]
            packs = states.folder() / "git/objects/pack"
            # A pack that got no index is not one; it goes when it is an hour old.
            assert {path.stem for path in packs.glob("*.idx")} <= {path.stem for path in packs.glob("*.pack")}
            return
    raise AssertionError(f"over 5000 calls of {call}")


def test_files_of_a_killed_commit_are_written_again(states):  # noqa: F811
    """Git reads each pack that has an index: objects in one that is removed soon must not count as there."""
    states.create()
    states.commit_files({"first": "1"})
    for n in range(1, 40):
        # The same files each time, and a folder.
        files = {"file": f"{n}", "folder/one": "one", "folder/two": "two"}
        done = states.operator.do("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat",
                                  "-e", f"inject=renameat:signal=KILL:when={n}", states.program, "brain", "main", states.head(),
                                  states.changes(files), env=NO_LEAKS)
        states.operator.cloister("state", "show", "brain").ok()
        if states.git("ls-tree", "--name-only", "main", "file") == "":
            # Another commit, or it would be the same object.
            states.commit(states.changes(files), cell="another")
        assert states.git("show", "main:folder/two") == "two" and states.git("show", "main:file") == str(n)
        states.git("fsck", "--strict")
        states.operator.cloister("state", "verify", "brain").ok()
        if done.status == 0:
            assert n > 1
            return
        states.operator.cloister("state", "remove", "--yes", "brain").ok()
        states.create()
        states.commit_files({"first": "1"})
    raise AssertionError("over 40 calls of renameat")


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
