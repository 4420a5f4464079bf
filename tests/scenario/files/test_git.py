"""Git in a workspace: commits, worktrees, and what a hostile repository cannot reach."""
import os
import re
import shutil

import pytest

from git_lab import AGENT, git, make_repo
from trees import tree

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git")


@pytest.fixture
def repo(operator):
    return make_repo(operator, {"a": "one\n", "d/b": "two\n", ".gitignore": "build/\n"})


def test_nothing_looks_changed(operator, repo):
    """No extra files, no files that git thinks are new: owners, times and modes agree."""
    for mode in ("", ":rw", ":ro"):
        said = operator.sh("git status --porcelain --ignored; git diff --stat; git log --format=%s;"
                           "git fsck", "-q", "-w", f"{repo}{mode}")
        assert said.ok() == "first\n" and "dubious" not in said.err, mode
    operator.kept.update(c["cell"] for c in operator.cells("-a"))


def test_add_everything_and_commit(operator, repo):
    id = operator.change(repo, f"{AGENT} echo more >>a; echo new >new; rm d/b; git add .;"
                         "git commit -q -m second; git branch topic; git tag v1;"
                         "test -z \"$(git status --porcelain)\"")
    assert git(operator, repo, "log --format=%s") == "first\n"
    done = operator.cloister("apply", id)
    assert done.status == 0 and re.fullmatch(r"cloister: 3 refs of git moved, .*\n", done.err), done
    assert git(operator, repo, "log --format=%s%an") == "secondagent\nfirstA\n"
    assert git(operator, repo, "status --porcelain") == ""
    assert git(operator, repo, "ls-files") == ".gitignore\na\nnew\n"
    assert git(operator, repo, "rev-parse v1 topic main").count("\n") == 3
    git(operator, repo, "fsck --strict")
    assert operator.names(operator.state) == []


def test_branches_merges_and_packing(operator, repo):
    id = operator.change(repo, f"{AGENT} git checkout -q -b topic;"
                         "for i in $(seq 30); do echo $i >f$i; git add f$i; git commit -q -m $i; done;"
                         "git checkout -q main;"
                         "git merge -q --no-ff -m merge topic; git gc -q; git branch -d topic")
    operator.cloister("apply", id).ok()
    git(operator, repo, "fsck --strict")
    assert git(operator, repo, "log --oneline").count("\n") == 32
    assert git(operator, repo, "status --porcelain") == ""


def test_clone_and_new_repository(operator, repo):
    # Hard links to what is below an overlay are copies, and git notices.
    id = operator.change(repo, f"{AGENT} git clone -q --no-hardlinks . sub; mkdir n; cd n; git init -q;"
                         "echo x >f; git add .; git commit -q -m x; git clone -q . ../sub2; git fsck")
    operator.cloister("apply", id)
    # What would run on the host is held; the files are there.
    assert (repo / "n/f").exists() and (repo / "sub/a").exists() and (repo / "sub2/f").exists()


def test_hooks_and_config_are_held(operator, repo):
    before = (repo / ".git/config").read_text()
    id = operator.change(repo, f"{AGENT} echo x >f; git add f; git commit -q -m second;"
                         "printf '#!/bin/sh\\ntouch /tmp/evil\\n' >.git/hooks/pre-commit;"
                         "chmod +x .git/hooks/pre-commit; git config core.fsmonitor 'touch /tmp/evil';"
                         "git config alias.status '!touch /tmp/evil'")
    done = operator.cloister("apply", id)
    assert done.status == 1 and "held back" in done.err
    assert (repo / ".git/config").read_text() == before
    assert not (repo / ".git/hooks/pre-commit").exists()
    assert git(operator, repo, "log --format=%s") == "second\nfirst\n"
    git(operator, repo, "fsck --strict")


# ---- linked worktrees ------------------------------------------------------------

@pytest.fixture
def worktree(operator, repo):
    operator.folder("trees")
    git(operator, repo, "worktree add -q ../trees/linked -b topic")
    return operator.base / "trees/linked"


def test_worktree(operator, repo, worktree):
    assert (worktree / ".git").is_file()
    id = operator.change(worktree, f"{AGENT} git status --porcelain; git log --format=%s;"
                         "echo more >>a; git add .; git commit -q -m second")
    assert git(operator, worktree, "log --format=%s") == "first\n"
    done = operator.cloister("apply", id)
    assert done.status == 0, done
    assert git(operator, worktree, "log --format=%s") == "second\nfirst\n"
    assert git(operator, worktree, "status --porcelain") == ""
    assert git(operator, repo, "log --format=%s main") == "first\n"
    assert git(operator, repo, "status --porcelain") == ""
    git(operator, repo, "fsck --strict")
    assert operator.names(operator.state) == []


def test_worktree_config_and_hooks_are_held(operator, repo, worktree):
    before = (repo / ".git/config").read_text()
    id = operator.change(worktree, f"{AGENT} echo x >f; git add f; git commit -q -m second;"
                         "git config core.pager 'touch /tmp/evil';"
                         f"echo evil >{repo}/.git/hooks/post-commit")
    done = operator.cloister("apply", id)
    assert done.status == 1 and "held back" in done.err
    assert (repo / ".git/config").read_text() == before
    assert not (repo / ".git/hooks/post-commit").exists()
    assert git(operator, worktree, "log --format=%s") == "second\nfirst\n"


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_worktree_other_modes(operator, repo, worktree, mode):
    said = operator.sh(f"{AGENT} git log --format=%s;"
                       "echo x >f && git add f && git commit -q -m second; git log --format=%s", "-w", f"{worktree}:{mode}")
    assert said.out == ("first\nsecond\nfirst\n" if mode == "rw" else "first\nfirst\n")
    assert git(operator, worktree, "log --format=%s").startswith(
        "second" if mode == "rw" else "first")
    git(operator, repo, "fsck --strict")


def test_only_the_git_folder_of_a_worktree_is_granted(operator, repo, worktree):
    said = operator.sh(f"ls -A {repo}; cat {repo}/a", "-w", worktree)
    assert said.out == ".git\n"


def test_worktree_of_the_agents_own(operator, repo):
    """In the workspace: it comes whole, and is git's, not a folder of strangers in the main one."""
    id = operator.change(repo, f"{AGENT} git worktree add -q trees/mine; cd trees/mine; echo z >z; git add .;"
                         "git commit -q -m mine; test -z \"$(git status --porcelain)\"")
    done = operator.cloister("apply", id)
    assert done.status == 0 and re.fullmatch(r"cloister: 2 refs of git moved, .*\n", done.err), done
    assert git(operator, repo, "status --porcelain") == "?? trees/\n"       # as git says of any
    assert "mine/z" not in git(operator, repo, "add -n .")
    assert git(operator, repo / "trees/mine", "log --format=%s") == "mine\nfirst\n"
    assert git(operator, repo / "trees/mine", "status --porcelain") == ""
    assert "prunable" not in git(operator, repo, "worktree list --porcelain")
    git(operator, repo, "fsck --strict")
    assert operator.names(operator.state) == []


@pytest.mark.parametrize("spoil", [
    "echo /tmp/evil >.git/worktrees/mine/commondir",
    "printf '../..\\n../../..\\n' >.git/worktrees/mine/commondir",
    "echo 'gitdir: /tmp/evil/.git/worktrees/mine' >mine/.git",
    "echo \"gitdir: $PWD/.git/worktrees/../../evil\" >mine/.git",
    "echo \"gitdir: $PWD/.git/worktrees/mine/../../../evil\" >mine/.git",
    "echo \"gitdir: $PWD/evil\" >mine/.git",
    "rm mine/.git; ln -s ../.git/worktrees/mine mine/.git",
    "rm .git/worktrees/mine/commondir",
    "mkdir .vscode; mv mine/.git .vscode/.git",
])
def test_worktree_that_leads_elsewhere_is_held(operator, repo, spoil):
    id = operator.change(repo, f"{AGENT} git worktree add -q mine; {spoil}")
    done = operator.cloister("apply", id)
    assert done.status == 1 and "held back" in done.err, done
    assert not os.path.lexists(repo / "mine/.git") and not os.path.lexists(repo / ".vscode/.git")
    if "commondir" in spoil:
        assert not os.path.lexists(repo / ".git/worktrees/mine/commondir")


def test_files_that_run_are_held_in_the_agents_own_worktree_too(operator, repo):
    id = operator.change(repo, f"{AGENT} git worktree add -q mine; cd .git/worktrees/mine; mkdir hooks;"
                         "echo x >hooks/post-checkout; printf '[core]\\npager = x\\n' >config.worktree;"
                         "cp config.worktree config")
    assert "held back" in operator.cloister("apply", id).err
    folder = repo / ".git/worktrees/mine"
    assert (folder / "commondir").read_text() == "../..\n"
    assert not any((folder / name).exists() for name in ("hooks/post-checkout", "config.worktree", "config"))


# ---- a hostile repository --------------------------------------------------------

@pytest.mark.parametrize("pretence", ["bare", "worktree", "relative", "link"])
def test_git_file_that_points_elsewhere(operator, pretence):
    """A checked-out `.git` file says that its folder is elsewhere: that grants nothing."""
    secret = operator.folder("secret", {"HEAD": "ref: refs/heads/main\n", "objects/x": "",
                                        "refs/x": "", "key": "top secret\n",
                                        "worktrees/w/gitdir": "/elsewhere/.git\n"})
    workspace = operator.folder("workspace")
    where = {"bare": str(secret), "worktree": f"{secret}/worktrees/w",
             "relative": "../secret/worktrees/w", "link": f"{secret}/worktrees/w"}[pretence]
    if pretence == "link":
        operator.file("target", f"gitdir: {where}\n")
        (workspace / ".git").symlink_to("../target")
    else:
        operator.file("workspace/.git", f"gitdir: {where}\n")
    before = tree(secret)
    done = operator.sh(f"cat {secret}/key; ls {secret}; echo x >{secret}/config; exit 0",
                       "-w", f"{workspace}:rw")
    assert done.status == 0 and done.out == "", done
    assert tree(secret) == before


def test_git_file_made_by_the_agent(operator, repo):
    """One cell forges it, it is applied, and the next cell is granted no more for it."""
    workspace = operator.folder("workspace", {"f": "x"})
    id = operator.change(workspace, f"echo 'gitdir: {repo}/.git/worktrees/w' >.git")
    operator.cloister("apply", "--force", id)
    operator.cloister("apply", "--force", id, ".git")
    done = operator.sh(f"cat {repo}/.git/config; ls {repo}", "-w", f"{workspace}:rw")
    assert done.out == ""


def test_git_folder_that_is_a_link(operator, repo):
    workspace = operator.folder("workspace", {"f": "x"})
    (workspace / ".git").symlink_to(repo / ".git")
    before = tree(repo)
    done = operator.sh("cat .git/config; echo evil >>.git/config; exit 0", "-w", f"{workspace}:rw")
    assert done.out == "" and tree(repo) == before


def test_not_a_repository(operator):
    for text in ("", "gitdir: ", "gitdir: /no/such\n", "x" * 10000, "gitdir: \0\n"):
        workspace = operator.folder("workspace")
        operator.file("workspace/.git", text)
        assert operator.sh("echo works", "-w", workspace).ok() == "works\n"
        os.unlink(workspace / ".git")
