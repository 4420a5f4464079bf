"""The verbs of `cloister state`."""
import json
import os
import subprocess

from operators import read_until
from states import git, states  # noqa: F401  a fixture

TEXT = "a\nb\nc\nd\ne\nf\n"


def test_rollback_is_a_new_commit_with_the_old_files(states):  # noqa: F811
    states.create()
    good = states.commit_files({"memory": "good\n", "other": "x"})
    states.operator.cloister("state", "tag", "brain", "known-good").ok()
    bad = states.commit_files({"memory": "poisoned\n"})
    states.operator.cloister("state", "rollback", "brain", "known-good").ok()
    head = states.head()
    assert states.git("log", "--format=%H", "main").split()[:3] == [head, bad, good]
    assert states.git("diff", "--name-only", good, head) == ""
    assert states.git("verify-commit", head, config=states.signers(), check=False).returncode == 0
    record = states.records()[-1]
    assert (record["type"], record["commit"], record["previous"], record["source"]) == ("state.rolled_back", head, bad, good)
    assert (states.checkout(head) / "memory").read_text() == "good\n"
    # A second time, nothing changes.
    states.operator.cloister("state", "rollback", "brain", "known-good").ok()
    assert states.head() == head


def test_a_branch_that_a_cell_may_write_is_not_rolled_back(states):  # noqa: F811
    first = states.create()
    second = states.commit_files({"a": "1"})
    states.operator.cloister("state", "branch", "brain", "side").ok()
    writer = states.operator.spawn(states.program, "--hold", "brain", "main", "cell1234", stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
    read_until(writer.stdout.fileno(), b"held")
    states.operator.cloister("state", "rollback", "brain", first).sentence("cell cell1234 may write branch 'main' of state 'brain'")
    states.operator.cloister("state", "merge", "brain", "side").sentence("cell1234")
    states.operator.cloister("state", "remove", "--yes", "brain").sentence("cell1234")
    assert states.head() == second
    shown = json.loads(states.operator.cloister("state", "show", "--json", "brain").ok())
    assert {b["name"]: b["writer"] for b in shown["branches"]} == {"main": "cell1234", "side": None}
    states.operator.cloister("state", "rollback", "-b", "side", "brain", first).ok()
    writer.stdin.close()
    assert writer.wait() == 0
    states.operator.cloister("state", "rollback", "brain", first).ok()


def test_merge_is_three_way_and_never_half(states):  # noqa: F811
    states.create()
    states.commit_files({"text": TEXT, "kept": "k", "gone": "g"})
    states.operator.cloister("state", "branch", "brain", "side").ok()
    theirs = states.commit_files({"text": TEXT.replace("f", "F"), "theirs": "t"}, branch="side")
    ours = states.commit_files({"text": TEXT.replace("a", "A"), "ours": "o"})
    states.operator.cloister("state", "merge", "brain", "side").ok()
    merged = states.head()
    assert states.git("show", f"{merged}:text") == TEXT.replace("a", "A").replace("f", "F").strip()
    assert states.git("log", "-1", "--format=%P", merged).split() == [ours, theirs]
    # Git itself merges to the same files.
    tree = states.git("merge-tree", "--write-tree", ours, theirs, check=False)
    if tree.returncode == 0:
        assert states.git("diff", "--name-only", tree.stdout.split()[0], merged) == ""
    states.commit_files({"text": "theirs\n", "bin": b"\0a"}, branch="side")
    ours = states.commit_files({"text": "ours\n", "bin": b"\0b"})
    done = states.operator.cloister("state", "merge", "brain", "side")
    assert done.status == 1 and "nothing was merged" in done.err, done
    assert sorted(line.split()[1] for line in done.out.splitlines()) == ["bin", "text"]
    assert states.head() == ours


def test_exports_are_git_repositories(states):  # noqa: F811
    states.create()
    commit = states.commit_files({"memory/a": "1\n2\n", "b": "2"})
    states.operator.cloister("state", "tag", "brain", "good").ok()
    last = states.commit_files({"memory/a": "1\ntwo\n"})
    repository, bundle = states.operator.home / "repository", states.operator.home / "bundle"
    states.operator.cloister("state", "export", "brain", repository).ok()
    states.operator.cloister("state", "export", "--bundle", "brain", bundle).ok()
    git(repository, "fsck", "--full", "--strict")
    states.operator.do("git", "-C", states.folder() / "git", "bundle", "verify", bundle).ok()
    for source in (repository, bundle):
        clone = states.operator.home / f"of-{source.name}"
        states.operator.do("git", "clone", "-q", source, clone).ok()
        assert git(clone, "rev-parse", "HEAD", "good").split() == [last, commit]
        assert git(clone, "verify-commit", last, config=states.signers(), check=False).returncode == 0
        assert git(clone, "blame", "-s", "memory/a").splitlines()[1].startswith(last[:7])
    states.operator.cloister("state", "export", "brain", repository).sentence("exists already: name a new one")
    line = states.operator.cloister("state", "signers").ok()
    assert line == (states.operator.base / "signers").read_text()
    assert not (states.folder() / "aside/.export").exists()


def test_files_diff_and_cat(states):  # noqa: F811
    states.create()
    states.commit_files({"a": "1\n", "sub/b": "2\n"})
    states.commit_files({"a": "one\n", "c": b"\0\1"})
    out = states.operator.cloister("state", "diff", "brain").ok()
    assert "M a\n--- a/a\n+++ b/a\n" in out and "-1\n+one\n" in out and "binary: 0 bytes, then 2" in out, out
    changes = json.loads(states.operator.cloister("state", "diff", "--json", "brain", "main~2").ok())
    assert {c["path"]: c["change"] for c in changes} == {"a": "added", "c": "added", "sub/b": "added"}
    assert states.operator.cloister("state", "cat", "brain", "a").ok() == "one\n"
    assert states.operator.cloister("state", "cat", "brain", "a", "main~1").ok() == "1\n"
    states.operator.cloister("state", "cat", "brain", "sub").sentence("of state 'brain' has no file 'sub'", "`cloister state files brain`")
    log = json.loads(states.operator.cloister("state", "log", "--json", "brain").ok())
    assert [c["subject"] for c in log] == ["A test's commit", "A test's commit", "Create the state"]
    assert log[0]["cell"] == "c0ffee" and log[0]["timeline_position"] == "7"
    assert [s["state"] for s in json.loads(states.operator.cloister("state", "list", "--json").ok())] == ["brain"]


def test_audit_verify_finds_rewritten_history(states):  # noqa: F811
    first = states.create()
    second = states.commit_files({"a": "1"})
    states.operator.cloister("audit", "verify").ok()
    ref = states.folder() / "git/refs/heads/main"
    for id in (first, "0" * 40):
        ref.write_text(id + "\n")
        done = states.operator.cloister("audit", "verify")
        assert done.status == 1 and "its history was rewritten" in done.out, done
    ref.write_text(second + "\n")
    states.operator.cloister("audit", "verify").ok()
    (states.folder() / "git/refs/heads/own").write_text(first + "\n")
    done = states.operator.cloister("audit", "verify", "--json")
    found = json.loads(done.out)
    assert done.status == 1 and [s["ref"] for s in found["states"]] == ["refs/heads/own"] and not found["sound"]
    (states.folder() / "git/refs/heads/own").unlink()
    os.rename(states.folder(), states.data / "elsewhere")
    done = states.operator.cloister("audit", "verify")
    assert done.status == 1 and "no record says that it was removed" in done.out, done
    os.rename(states.data / "elsewhere", states.folder())
    states.operator.cloister("state", "remove", "--yes", "brain").ok()
    states.operator.cloister("audit", "verify").ok()


def test_verify_finds_other_files_and_signatures(states):  # noqa: F811
    states.create()
    second = states.commit_files({"a": "1"})
    states.operator.cloister("state", "verify").ok()
    repo = states.folder() / "git"
    # A commit of somebody else's, with the same message.
    message = states.git("log", "-1", "--format=%B", second)
    tree = states.git("rev-parse", f"{second}^{{tree}}")
    who = {f"GIT_{who}_{what}": "x@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    forged = states.operator.do("git", "-C", repo, "commit-tree", "-p", second, "-m", message, tree,
                                env={**who, "TZ": "UTC"}).ok().strip()
    (repo / "refs/heads/main").write_text(forged + "\n")
    done = states.operator.cloister("state", "verify", "brain")
    assert done.status == 1 and "is not signed with your key" in done.out, done
    (repo / "refs/heads/main").write_text(second + "\n")
    blob = states.git("rev-parse", f"{second}:a")
    states.damage(blob)
    assert states.operator.cloister("state", "verify", "brain").status == 1


def test_errors_are_one_sentence(states):  # noqa: F811
    cloister = states.operator.cloister
    cloister("state", "log", "brain").sentence("there is no state 'brain'")
    states.create()
    cloister("state", "create", "brain").sentence("there is a state 'brain' already")
    for name in ("", ".", "..", "a/b", "-x", "a b", "x" * 64, "x.lock", "a..b"):
        cloister("state", "create", "--", name).sentence("cannot be the name of a state")
    cloister("state", "rollback", "brain", "nothing").sentence("no tag, branch or commit 'nothing'")
    cloister("state", "rollback", "brain", "main~5").sentence("does not go back so far")
    cloister("state", "branch", "--remove", "brain", "main").sentence("is the state itself")
    cloister("state", "tag", "--remove", "brain", "x").sentence("no tag 'x'")
    cloister("state", "log", "--bundle", "brain").sentence("has no option --bundle")
    cloister("state", "remove", "brain").sentence("add --yes")


def test_drift_counts_what_git_counts(states):  # noqa: F811
    states.create()
    good = states.commit_files({"a": TEXT, "gone": "g\n", "bin": b"\0one"})
    states.operator.cloister("state", "drift", "brain").sentence("no tag 'known-good'", "cloister state tag brain known-good")
    states.operator.cloister("state", "tag", "brain", "known-good").ok()
    assert states.operator.cloister("state", "drift", "brain").ok().startswith("no file differs")
    second = states.commit_files({"a": TEXT.replace("a", "A") + "more\n", "deep/new": "1\n2\n"})
    third = states.commit_files({"gone": None, "bin": b"\0two!"})
    told = json.loads(states.operator.cloister("state", "drift", "--json", "brain").ok())
    assert (told["from"], told["commit"], told["tag"]) == (good, third, "known-good")
    numbers = dict(reversed(line.rsplit("\t", 1)) for line in states.git("diff", "--numstat", good, third).splitlines())
    assert {f["path"]: "-\t-" if f["binary"] else f"{f['lines_added']}\t{f['lines_removed']}" for f in told["files"]} == numbers
    letters = {"added": "A", "changed": "M", "removed": "D"}
    assert sorted(f"{letters[f['change']]}\t{f['path']}" for f in told["files"]) == sorted(
        states.git("diff", "--name-status", "--no-renames", good, third).splitlines())
    sizes = {commit: (p["files"], p["bytes"]) for p in told["history"] for commit in [p["commit"]]}
    assert sizes[good] == (0, 0) and sizes[second] == (2, len(TEXT) + 5 + 4) and sizes[third] == (4, len(TEXT) + 5 + 4 + 2 + 5)
    assert [p["commit"] for p in told["history"]] == states.git("log", "--first-parent", "--format=%H", "main").split()
    # For people: the files, and a line for each commit, the newest last.
    text = states.operator.cloister("state", "drift", "brain", "-l", "2").ok()
    assert text.splitlines()[-1].startswith(third[:12]) and "4 files" in text.splitlines()[-1] and good[:12] not in text
    assert "D  +0 -1" in text
    # From another tag or commit, and of a branch.
    assert "no file differs" in states.operator.cloister("state", "drift", "brain", third).ok()
    states.operator.cloister("state", "drift", "brain", "nothing").sentence("nothing")
