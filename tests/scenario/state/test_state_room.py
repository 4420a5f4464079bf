"""A state's room on the disk: its history has a limit, and cached files that no cell uses are removed."""
import fcntl
import os

from operators import wait_until
from states import states  # noqa: F401  a fixture

KEPT = 4
MIB = 1 << 20


def trees(states):  # noqa: F811
    return sorted(path.name for path in (states.folder() / "tree").iterdir())


def test_the_history_has_a_limit(states):  # noqa: F811
    states.create("brain", "--max-disk", "8M")
    first, n = states.commit_files({"note": "1"}), 0
    while True:
        n += 1
        changes = states.changes({"large": os.urandom(3 * MIB)})
        done = states.try_commit(changes)
        if done.status != 0:
            break
    assert 2 <= n <= 4 and "on the disk, and may have 8M" in done.err and "cloister state limit --max-disk" in done.err, done
    head = states.head()
    states.git("fsck", "--strict")
    states.operator.cloister("state", "verify", "brain").ok()
    # It says how to go on, and going back works without.
    states.operator.cloister("state", "rollback", "brain", first).ok()
    assert states.git("show", "main:note") == "1" and states.head() != head
    states.operator.cloister("state", "limit", "--max-disk", "64M", "brain").ok()
    states.commit(changes)
    assert states.git("cat-file", "-s", "main:large") == str(3 * MIB)


def test_cached_files_go_when_others_come(states):  # noqa: F811
    states.create()
    commits = [states.commit_files({"n": str(n)}) for n in range(KEPT + 4)]
    used = states.checkout(commits[0])
    holder = os.open(used, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_SH)
    for n, commit in enumerate(commits[1:], 1):
        assert (states.checkout(commit) / "n").read_text() == str(n)
    # The newest, four before it, and the one that is used.
    assert trees(states) == sorted([commits[0], *commits[-KEPT - 1:]])
    assert (used / "n").read_text() == "0"
    os.close(holder)
    # One that has gone is made again, and now the first can go.
    assert (states.checkout(commits[1]) / "n").read_text() == "1"
    assert commits[0] not in trees(states) and len(trees(states)) == KEPT + 1


def test_a_cell_keeps_its_files(operator, states):  # noqa: F811
    states.create()
    first = states.commit_files({"n": "first"})
    cell = operator.detach("--state", "brain", "--", "sleep", "600")
    wait_until(lambda: first in trees(states), "it has the files")
    for n in range(KEPT + 3):
        states.checkout(states.commit_files({"n": str(n)}, branch="side") if n else
                        (states.operator.cloister("state", "branch", "brain", "side").ok(), states.head(branch="side"))[1])
    assert first in trees(states)
    assert operator.cloister("exec", cell, "--", "cat", "/home/agent/brain/n").ok() == "first"
    operator.cloister("kill", cell).ok()
    wait_until(lambda: operator.cell(cell) is None, "the cell has ended")
    for n in range(KEPT + 2):
        states.checkout(states.commit_files({"n": f"again {n}"}, branch="side"))
    assert first not in trees(states)


def test_a_cell_that_only_reads_keeps_its_files(operator, states):  # noqa: F811
    states.create()
    first = states.commit_files({"n": "first"})
    writer = operator.detach("--state", "brain", "--", "sleep", "600")
    policy = operator.file("p.yaml", "version: 1\nstate: {brain: {on_busy: read-only}}\n")
    reader = operator.detach("-p", policy, "--", "sleep", "600")
    operator.cloister("kill", writer).ok()
    wait_until(lambda: operator.cell(writer) is None, "it has ended")
    for n in range(KEPT + 3):
        states.checkout(states.commit_files({"n": str(n)}))
    assert first in trees(states)
    assert operator.cloister("exec", reader, "--", "cat", "/home/agent/brain/n").ok() == "first"
    operator.cloister("kill", reader).ok()
    wait_until(lambda: operator.cell(reader) is None, "it has ended, too")
    for n in range(KEPT + 2):
        states.checkout(states.commit_files({"n": f"again {n}"}))
    assert first not in trees(states)


def test_a_removal_that_was_killed_is_completed(states):  # noqa: F811
    states.create()
    left = states.folder() / "tree/.gone"
    left.mkdir()
    (left / "half").write_text("x")
    for one in (left, left / "half"):
        os.chown(one, *(lambda st: (st.st_uid, st.st_gid))(states.folder().stat()))
    states.checkout(states.commit_files({"n": "1"}))
    assert not left.exists()


def test_a_limit_is_not_nothing(states):  # noqa: F811
    states.operator.cloister("state", "create", "--max-disk", "0", "brain").sentence("a limit of a state is not 0")
    states.create()
    states.operator.cloister("state", "limit", "--max-size", "1M", "brain").ok()
    done = states.try_commit(states.changes({f"{n}": os.urandom(MIB // 2) for n in range(3)}))
    assert done.status == 1 and "larger than the whole state may be" in done.err, done
