"""Commits to versioned states.  Real git is the judge of what is written."""
import hashlib
import os

from states import git, states  # noqa: F401  a fixture

FILES = {"memory/notes.md": "one\ntwo\n", "CLAUDE.md": "be kind\n", "memory/deep/er/x": b"\0\xff" * 100, "empty": ""}


def listing_sum(repo, commit):
    """The SHA-256 of the listing, by git's own tools."""
    listing = b""
    for entry in git(repo, "ls-tree", "-r", "-z", commit).split("\0"):
        if entry:
            mode, _, rest = entry.split(" ", 2)
            id, path = rest.split("\t", 1)
            data = os.popen(f"git --git-dir={repo} cat-file blob {id}").buffer.read()
            listing += f"{mode} {hashlib.sha256(data).hexdigest()} ".encode() + os.fsencode(path) + b"\0"
    return hashlib.sha256(listing).hexdigest()


def test_git_reads_what_is_committed(states):  # noqa: F811
    first = states.create()
    second = states.commit_files(FILES)
    third = states.commit_files({"memory/notes.md": "one\n2\n", "CLAUDE.md": "be kinder\n"})
    assert states.head() == third
    states.git("fsck", "--full", "--strict")
    assert states.git("log", "--format=%H", "main").split() == [third, second, first]
    assert states.git("show", f"{third}:memory/notes.md") == "one\n2"
    assert states.git("diff", "--name-only", second, third).split() == ["CLAUDE.md", "memory/notes.md"]
    assert states.git("blame", "-s", "main", "--", "memory/notes.md").splitlines()[1].startswith(third[:7])
    clone = states.operator.home / "clone"
    states.operator.do("git", "clone", "-q", states.folder() / "git", clone).ok()
    assert (clone / "memory/deep/er/x").read_bytes() == FILES["memory/deep/er/x"]


def test_commits_are_signed_and_recorded(states):  # noqa: F811
    first = states.create()
    second = states.commit_files(FILES)
    for commit in (first, second):
        done = states.git("verify-commit", commit, config=states.signers(), check=False)
        assert done.returncode == 0 and "Good" in done.stderr, done
    message = states.git("log", "-1", "--format=%B", second)
    sum = listing_sum(states.folder() / "git", second)
    assert message.splitlines()[-1] == f"Tree-SHA256: {sum}"
    assert "Cell: c0ffee" in message and "Timeline-Position: 7" in message
    created, committed = states.records()
    assert (created["type"], created["commit"], created["ref"]) == ("state.created", first, "refs/heads/main")
    assert (committed["type"], committed["commit"], committed["previous"]) == ("state.committed", second, first)
    assert (committed["tree"], committed["cell"], committed["who"]) == (sum, "c0ffee", "agent")


def test_changes_are_those_of_an_overlay(states):  # noqa: F811
    states.create()
    states.commit_files({"a/one": "1", "a/two": "2", "b/three": "3", "c": "4"})
    folder = states.changes({"a/one": None, "b": None, "c/now/a": "folder"})
    commit = states.commit(folder)[0]
    assert states.git("ls-tree", "-r", "--name-only", commit).split() == ["a/two", "c/now/a"]
    folder = states.changes({"a/new": "n"})
    os.setxattr(folder / "a", "user.overlay.opaque", b"y")
    commit = states.commit(folder)[0]
    assert states.git("ls-tree", "-r", "--name-only", commit).split() == ["a/new", "c/now/a"]


def test_nothing_changed_is_no_commit(states):  # noqa: F811
    states.create()
    second = states.commit_files(FILES)
    assert states.commit_files(FILES) == second
    assert len(states.records()) == 2


def test_a_base_that_is_not_the_head_is_refused(states):  # noqa: F811
    first = states.create()
    second = states.commit_files(FILES)
    # What was committed before a crash may come again.
    assert states.commit(states.changes(FILES), base=first) == [second]
    done = states.try_commit(states.changes({"other": "x"}), base=first)
    assert done.status == 1 and "has moved from" in done.err, done
    assert states.head() == second


def test_a_checkout_has_the_files_of_a_commit(states):  # noqa: F811
    states.create()
    changes = states.changes({**FILES, "run": "#!/bin/sh\n"})
    (changes / "run").chmod(0o755)
    os.symlink("../memory/notes.md", changes / "memory" / "link")
    second = states.commit(changes)[0]
    states.commit_files({"CLAUDE.md": "other\n"})
    folder = states.checkout(second)
    assert (folder / "CLAUDE.md").read_text() == "be kind\n"
    assert (folder / "run").stat().st_mode & 0o777 == 0o755
    assert (folder / "CLAUDE.md").stat().st_mode & 0o777 == 0o644
    assert os.readlink(folder / "memory/link") == "../memory/notes.md"
    assert states.checkout(second) == folder
