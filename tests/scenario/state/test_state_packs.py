"""The objects of a state: a pack for each commit, large files beside them, and few packs after many commits."""
import os

import pytest

from states import NO_LEAKS, states  # noqa: F401  a fixture

PACKS_MAX = 32
LARGE = 2 << 20


def loose(states):  # noqa: F811
    return [path for path in (states.folder() / "git/objects").glob("??/*") if path.is_file()]


def test_a_commit_is_one_pack(states):  # noqa: F811
    states.create()
    before = set(states.packs())
    files = {f"notes/{n}": f"note {n} {os.urandom(8).hex()}" for n in range(1000)}
    commit = states.commit_files({**files, "same": files["notes/1"], "empty": ""})
    assert len(set(states.packs()) - before) == 1
    assert loose(states) == []
    states.git("fsck", "--strict", "--no-dangling")
    for name in ("notes/0", "notes/999", "same", "empty"):
        assert states.git("show", f"{commit}:{name}") == files.get(name, files["notes/1"] if name == "same" else "")
    assert states.git("count-objects", "-v").splitlines()[-2:] == ["garbage: 0", "size-garbage: 0"]


def test_unchanged_files_are_not_stored_again(states):  # noqa: F811
    states.create()
    states.commit_files({f"{n}": os.urandom(3000).hex() for n in range(50)})
    size = sum(pack.stat().st_size for pack in states.packs())
    states.commit_files({**{f"copy{n}": states.git("show", f"main:{n}") for n in range(50)}, "new": "1"})
    assert sum(pack.stat().st_size for pack in states.packs()) < size + 10000


def test_more_than_fits_into_memory_at_once(states):  # noqa: F811
    """The pack goes to the disk piece by piece, and is read there before it is complete."""
    states.create()
    data = {f"{n}": os.urandom(1 << 19).hex() for n in range(20)}
    commit = states.commit_files(data)
    states.git("fsck", "--strict", "--no-dangling")
    assert len(loose(states)) == 0
    for name, text in data.items():
        assert states.git("show", f"{commit}:{name}") == text


def test_large_files_lie_beside_the_pack(states):  # noqa: F811
    states.create()
    data = os.urandom(LARGE)
    commit = states.commit_files({"large": data, "small": "1"})
    assert len(loose(states)) == 1
    assert states.git("rev-parse", f"{commit}:large") in "".join(loose(states)[0].parts[-2:])
    states.git("fsck", "--strict", "--no-dangling")
    assert (states.checkout(commit) / "large").read_bytes() == data


def test_a_refused_commit_leaves_nothing(states):  # noqa: F811
    states.create("brain", "--max-size", "4M")
    folder = states.folder() / "git/objects"
    before = sorted(folder.rglob("*"))
    changes = states.changes({**{f"large{n}": os.urandom(LARGE) for n in range(3)}, **{f"small{n}": str(n) for n in range(100)}})
    done = states.try_commit(changes)
    assert done.status == 1 and "larger than the whole state may be" in done.err, done
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("left", ["pack/tmp_cloister_0123456789abcdef-pack", "pack/pack-" + "0" * 40 + ".pack",
                                  "tmp_cloister_0123456789abcdef/00/1"])
def test_what_a_crash_left_is_removed(states, left):  # noqa: F811
    states.create()
    path = states.folder() / "git/objects" / left
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    os.utime(path, (0, 0))
    for one in (path, path.parent, path.parent.parent):
        os.chown(one, *(lambda st: (st.st_uid, st.st_gid))(states.folder().stat()))
    states.commit_files({"file": "1"})
    assert not path.exists() and not list((states.folder() / "git/objects").glob("tmp*"))
    states.git("fsck", "--strict")


def test_many_commits_are_few_packs(states):  # noqa: F811
    states.create()
    commits = [states.commit_files({"count": str(n), f"own/{n}": os.urandom(8).hex()}) for n in range(PACKS_MAX + 5)]
    # Half of them at least were joined once.
    assert len(states.packs()) <= PACKS_MAX
    states.git("fsck", "--strict")
    assert states.git("rev-list", "main").split()[:-1] == commits[::-1]
    assert [states.git("show", f"{commit}:count") for commit in commits] == [str(n) for n in range(len(commits))]
    states.operator.cloister("state", "verify", "brain").ok()
    assert states.git("count-objects", "-v").splitlines()[-2:] == ["garbage: 0", "size-garbage: 0"]


def test_a_kill_while_packs_are_joined(states):  # noqa: F811
    states.create()
    for n in range(PACKS_MAX - 1):
        states.commit_files({"count": str(n)})
    for n in range(1, 100, 4):
        assert len(states.packs()) >= PACKS_MAX - 4
        base, folder = states.head(), states.changes({"count": f"killed {n}"})
        done = states.operator.do("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=unlinkat,renameat",
                                  "-e", f"inject=unlinkat,renameat:signal=KILL:when={n}", states.program, "brain", "main", base, folder,
                                  env=NO_LEAKS)
        states.operator.cloister("state", "show", "brain").ok()
        states.git("fsck", "--strict")
        assert states.git("cat-file", "-t", base) == "commit"
        states.operator.cloister("state", "verify", "brain").ok()
        if done.status == 0:
            assert n > 8
            return
    raise AssertionError("over 100 calls")
