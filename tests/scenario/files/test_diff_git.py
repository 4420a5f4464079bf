"""`diff` and `apply` of a cell in which the agent committed: what happens to refs, in a few lines."""
import json
import re
import shutil

import pytest

from git_lab import AGENT, git, make_repo
from terminal import Terminal
from trees import tree

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git")

UNSEEN = ("git: commits and staged changes are not shown: see `git log -p` and `git diff --cached` in a cell "
          "before it ends, or here after apply\n")


@pytest.fixture
def repo(operator):
    return make_repo(operator, {"a": "one\n", "d/b": "two\n", "d/c": "three\n"})


def commit(operator, folder, script):
    return operator.change(folder, f"set -e; {AGENT} {script}")


def ids(operator, repo, id, *refs):
    """The values of refs, in twelve digits, once the changes are applied."""
    operator.cloister("apply", id).ok()
    return [git(operator, repo, f"rev-parse {ref}")[:12] for ref in refs]


def test_a_commit(operator, repo):
    first = git(operator, repo, "rev-parse main")[:12]
    id = commit(operator, repo, "echo more >>a; git add a; git commit -q -m x; git commit -q --allow-empty -m y;"
                "git branch topic")
    said = operator.cloister("diff", id).ok()
    main, = ids(operator, repo, id, "main")
    assert said == f"""\
git: .git/refs/heads/main {first} -> {main}, 2 steps by its log
git: .git/refs/heads/topic (new) -> {main}, 1 step by its log
git: 4 objects added, 5 other files of its own; `cloister diff {id} .git` names each
{UNSEEN}\
M a
--- a/a
+++ b/a
@@ -1 +1,2 @@
 one
+more
"""


def test_the_patch_is_still_valid(operator, repo):
    """Git takes no patch of files in .git."""
    twin = operator.folder("twin")
    operator.host(f"cp -a {repo}/. .", cwd=twin)
    id = commit(operator, repo, "echo more >>a; rm d/b; echo new >new; git add .; git commit -q -m x")
    operator.host(f"{operator.program} diff {id} | git apply -", cwd=twin)
    operator.cloister("apply", id).ok()
    for path in (twin, repo):
        shutil.rmtree(path / ".git")
    assert tree(twin) == tree(repo)


def test_programs_get_everything(operator, repo):
    id = commit(operator, repo, "echo more >>a; git commit -q -a -m x")
    paths = {c["path"] for c in json.loads(operator.cloister("diff", "--json", id).ok())}
    assert {"a", ".git/index", ".git/refs/heads/main", ".git/logs/HEAD"} < paths
    assert sum(re.fullmatch(r"\.git/objects/../[0-9a-f]{38}", p) is not None for p in paths) == 3
    names = operator.cloister("diff", "--name-status", id).ok().splitlines()
    assert {n[2:].rstrip("/") for n in names} == paths


@pytest.mark.parametrize("path", [".git", ".git/", ".git/refs/heads/main", ".git/refs", "WORKSPACE/.git"])
def test_named_it_is_shown_file_by_file(operator, repo, path):
    id = commit(operator, repo, "echo more >>a; git commit -q -a -m x")
    said = operator.cloister("diff", id, path.replace("WORKSPACE", str(repo))).ok()
    assert "M .git/refs/heads/main\n--- a/.git/refs/heads/main\n" in said and "git: " not in said


def test_held_and_unknown_files_are_shown(operator, repo):
    id = commit(operator, repo, "echo x >>a; git commit -q -a -m x; git config x.y z; echo evil >.git/hooks/pre-commit;"
                "echo hidden >.git/hidden; echo '#!/bin/sh' >.git/logs/HEAD; chmod +x .git/logs/HEAD;"
                "echo junk >.git/refs/heads/junk; printf x >.git/objects/junk")
    for options in ([], ["--stat"]):
        said = operator.cloister("diff", *options, id).ok()
        assert "git: .git/refs/heads/main " in said
        for path in ("config", "hooks/pre-commit", "hidden", "logs/HEAD", "refs/heads/junk", "objects/junk"):
            assert f" .git/{path} " in said or f" .git/{path}\n" in said, (options, path)


def test_refs_of_every_kind(operator, repo):
    git(operator, repo, "branch gone; git branch packed; git pack-refs --all; git branch loose; git tag old")
    first = git(operator, repo, "rev-parse main")[:12]
    id = commit(operator, repo, "git commit -q --allow-empty -m x; git branch -D gone loose >/dev/null;"
                "git branch -f packed main; git tag -a -m t v1; git checkout -q --detach; git update-ref refs/x/y HEAD;"
                "git gc -q")
    said = operator.cloister("diff", id).ok()
    main, tag = ids(operator, repo, id, "main", "v1")
    told = dict(re.findall(r"^git: \.git/(\S+) (.*?)(?:, \d+ steps? by its log)?$", said, re.M))
    assert {k: v for k, v in told.items() if k == "HEAD" or k.startswith("refs/")} == {
        "HEAD": f"refs/heads/main -> {main}",
        "refs/heads/gone": f"{first} -> (deleted)", "refs/heads/loose": f"{first} -> (deleted)",
        "refs/heads/main": f"{first} -> {main}", "refs/heads/packed": f"{first} -> {main}",
        "refs/tags/v1": f"(new) -> {tag}", "refs/x/y": f"(new) -> {main}"}
    assert re.search(r"^git: .*1 pack added, .*names each$", said, re.M) and said.count("git: ") == 9


def test_many_refs(operator, repo):
    id = commit(operator, repo, "for i in $(seq 50); do git branch b$i; done")
    said = operator.cloister("diff", id).ok()
    assert said.count("(new)") == 20 and "git: and 30 more refs\n" in said


def test_names_of_refs_cannot_disturb_a_terminal(operator, repo):
    """Nor forge a line of a patch: git has no such names, so these files are shown as others are."""
    id = commit(operator, repo, "cd .git/refs/heads; for n in \"$(printf 'a\\033[2Jb')\" \"$(printf 'a\\n+++ b')\" "
                "\"$(printf '\\342\\200\\256')\" ' x'; do cat main >\"$n\"; done")
    said = operator.cloister("diff", id).ok()
    assert all(c == "\n" or (c.isprintable() and c != "\u202e") for c in said.replace("\t", ""))
    assert "\n+++ b\n" not in said and said.count("(new)") == 1


def test_a_linked_worktree(operator, repo):
    operator.folder("trees")
    git(operator, repo, "worktree add -q ../trees/linked -b topic")
    id = commit(operator, operator.base / "trees/linked", "echo more >>a; git commit -q -a -m x; git checkout -q -b b")
    said = operator.cloister("diff", id).ok()
    assert re.search(rf"^git: {repo}/.git/refs/heads/topic \w+ -> \w+, 1 step by its log$", said, re.M)
    assert f"git: {repo}/.git/worktrees/linked/HEAD refs/heads/topic -> refs/heads/b\n" in said
    assert said.count(UNSEEN) == 1
    named = re.findall(r"`(cloister diff \S+ \S+)`", said)
    assert [n.split()[-1] for n in named] == [f"{repo}/.git/", f"{repo}/.git/worktrees/linked"]
    for words in named:
        assert "git: " not in operator.cloister(*words.split()[1:]).ok()


def test_a_repository_within(operator, repo):
    id = commit(operator, repo, "git init -q -b main n; cd n; echo x >f; git add .; git commit -q -m x")
    said = operator.cloister("diff", id).ok()
    assert re.search(r"^git: n/\.git/refs/heads/main \(new\) -> \w+, 1 step by its log$", said, re.M)
    assert "A n/.git/config  (held back" in said and "objects/" not in said


@pytest.mark.parametrize("name", ["$(touch said)", "x; touch said;", "'; touch said; '", "a` names each", "plain-1.0"])
def test_the_command_that_it_names_is_one_word(operator, repo, name):
    """Somebody will copy it to their shell."""
    id = operator.change(repo, f"{AGENT} n=$(cat); mkdir -p \"$n\"; cd \"$n\"; git init -q .;"
                         "git commit -q --allow-empty -m x", input=name)
    said = operator.cloister("diff", id).ok()
    command = re.search(r"`cloister (diff .*)` names each$", said, re.M).group(1)
    assert ("'" in command) == (name != "plain-1.0")
    files = operator.host(f"{operator.program} {command}", cwd=operator.home)
    assert f"A {name}/.git/HEAD" in files and not (operator.home / "said").exists()


def test_a_folder_like_a_repository_hides_nothing(operator, repo):
    id = commit(operator, repo, "mkdir -p s/objects/ab s/logs; echo 'ref: refs/heads/x' >s/HEAD; echo evil >s/index;"
                "echo evil >s/logs/HEAD; echo evil >s/objects/ab/$(printf %038d 0)")
    said = operator.cloister("diff", id).ok()
    assert said.count("+evil\n") == 3 and "git: " not in said


def test_a_status_is_not_a_commit(operator, repo):
    """It writes the index, which may be shown, but no ref."""
    id = operator.change(repo, "echo x >new; git add new")
    said = operator.cloister("diff", id).ok()
    assert said.startswith("git: 1 object added, 1 other file of its own; ") and UNSEEN in said
    done = operator.cloister("apply", "-n", id)
    assert done.err.startswith("cloister: git's objects would change, and `cloister diff` does not show commits: ")


def test_apply_tells_of_commits(operator, repo):
    id = commit(operator, repo, "echo x >>a; git commit -q -a -m x; git tag v1; echo y >>a")
    told = "and `cloister diff` does not show commits: see `git log -p`, and `git diff --cached` for staged changes\n"
    assert operator.cloister("apply", "-n", id).err == f"cloister: 2 refs of git would move, {told}"
    assert operator.cloister("apply", id, "a").err == ""
    done = operator.cloister("apply", id)
    assert done.status == 0 and done.err == f"cloister: 2 refs of git moved, {told}"


def test_objects_that_are_replaced(operator, repo):
    """Git believes an object by its name."""
    blob = git(operator, repo, "rev-parse main:a").strip()
    path = f".git/objects/{blob[:2]}/{blob[2:]}"
    id = operator.change(repo, f"chmod u+w {path}; echo other >{path}; chmod u-w {path}")
    assert operator.cloister("diff", id).ok().startswith("git: 1 object changed; ")


def test_hostile_files_of_refs(operator, repo):
    """Too large, without end, not text, not files: shown, or counted as not shown, and never read whole."""
    git(operator, repo, "pack-refs --all")
    id = operator.change(repo, "truncate -s 3G .git/packed-refs; truncate -s 1G .git/refs/heads/big;"
                         "head -c 1024 /dev/urandom >.git/refs/heads/noise; ln -s /etc/passwd .git/refs/heads/link;"
                         "mkdir .git/refs/heads/folder.lock; cp .git/logs/HEAD .git/logs/refs/heads/big;"
                         "truncate -s 1G .git/logs/refs/heads/main; : >.git/refs/heads/empty")
    done = operator.cloister("diff", id, ".git/refs")
    for said in (operator.cloister("diff", id), operator.cloister("diff", "--stat", id)):
        assert "packed-refs" in said.out and "root:" not in said.out
        for name in ("big", "noise", "link", "empty"):
            assert f".git/refs/heads/{name}" in said.out, (name, said)
    assert "root:" not in done.out


def test_bold_on_a_terminal(operator, repo):
    id = commit(operator, repo, "git commit -q --allow-empty -m x")
    t = Terminal(operator, operator.program, "diff", id)
    assert t.end() == 0 and "\x1b[1mgit: .git/refs/heads/main " in t.text
    t.close()
