"""What an agent may leave in a state: nothing of it runs, limits hold, and errors are clear."""
import json
import os
import socket

import pytest

from operators import SECONDS, as_one
from states import git, states  # noqa: F401  a fixture

CANARY = "ran-on-the-host"
REFUSED_NAMES = [".git", ".GIT", ".Git", "git~1", "GIT~2", ".git ", ".git.", ".git . ", ".git::$INDEX_ALLOCATION", ".git:x", ".g\u200cit",
                 "\ufeff.git", ".gitmodule\u017f", ".gitattribute\u017f.", ".gi\u202et", "a\\.git\\b", "..\\up", ".gitmodules", ".GITMODULES", "gitmod~1", "gi7eba~1", ".gitattributes",
                 "GITATT~1", "gi7d2~10"]
KEPT_NAMES = ["git", ".gitignore", ".git2", "a.git", "new\nline", "tab\there", "-option", "--upload-pack=x", "\x1b[31mred", "\u00e9",
              ".gitx", "git~x", "back\\slash", "con", "a b", "'", '"', "$(touch x)", "%s%n"]


def hooks(folder):
    """Everything by which git could run something."""
    for name in ("post-commit", "pre-commit", "post-checkout", "reference-transaction", "fsmonitor-watchman"):
        path = folder / ".git" / "hooks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch /tmp/{CANARY}\n")
        path.chmod(0o755)
    (folder / ".git/config").write_text(f'[core]\n\tfsmonitor = "touch /tmp/{CANARY}"\n[filter "x"]\n\tsmudge = touch /tmp/{CANARY}\n'
                                        f'\tclean = touch /tmp/{CANARY}\n')
    (folder / ".git/objects/info").mkdir(parents=True)
    (folder / ".git/objects/info/alternates").write_text("/etc\n")
    (folder / ".gitattributes").write_text("* filter=x\n")
    (folder / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = ext::touch x\n\tupdate = !touch x\n')


def exported(states):  # noqa: F811
    """An export, which git finds sound, and the clone of it."""
    states.exports = getattr(states, "exports", 0) + 1
    place = states.operator.home / f"export{states.exports}"
    states.operator.cloister("state", "export", "brain", place).ok()
    git(place, "fsck", "--full", "--strict")
    clone = states.operator.home / f"clone{states.exports}"
    states.operator.do("git", "clone", "-q", place, clone).ok()
    return clone


def test_nothing_of_a_git_folder_is_stored_or_runs(states):  # noqa: F811
    states.create()
    folder = states.changes({"notes": "x", "sub/notes": "y"})
    hooks(folder)
    hooks(folder / "sub")
    lines = states.commit(folder)
    assert {line.split(": ")[0] for line in lines[1:-1]} == {
        ".git", ".gitattributes", ".gitmodules", "sub/.git", "sub/.gitattributes", "sub/.gitmodules"}
    aside = states.folder() / "aside" / lines[-1].removeprefix("aside ")
    assert CANARY in (aside / ".git/config").read_text() and CANARY in (aside / "sub/.git/hooks/post-commit").read_text()
    assert not os.access(aside / ".git/hooks/post-commit", os.X_OK) or states.operator.is_root
    assert (aside / ".git/hooks/post-commit").stat().st_mode & 0o777 == 0o600
    assert sorted(states.git("ls-tree", "-r", "--name-only", "main").split()) == ["notes", "sub/notes"]
    exported(states)
    states.operator.cloister("state", "rollback", "brain", "main~1").ok()
    assert not os.path.exists(f"/tmp/{CANARY}")


def test_names_that_some_system_takes_for_gits_own_are_refused(states):  # noqa: F811
    states.create()
    folder = states.changes({f"{i}/{name}": "x" for i, name in enumerate(REFUSED_NAMES)})
    lines = states.commit(folder)
    assert len(lines) == len(REFUSED_NAMES) + 2, lines
    assert states.git("ls-tree", "-r", "--name-only", "main") == ""


def test_other_names_are_kept_as_they_are(states):  # noqa: F811
    states.create()
    commit = states.commit_files({f"folder/{name}": name for name in KEPT_NAMES})
    names = states.git("ls-tree", "-r", "-z", "--name-only", commit).split("\0")[:-1]
    assert sorted(names) == sorted(f"folder/{name}" for name in KEPT_NAMES)
    clone = exported(states)
    assert sorted(os.listdir(clone / "folder")) == sorted(KEPT_NAMES)
    for verb in (("files", "brain"), ("diff", "brain"), ("show", "brain", "main")):
        out = states.operator.cloister("state", *verb).ok()
        assert "\x1b" not in out and "\\x1b[31mred" in out
    listed = json.loads(states.operator.cloister("state", "files", "brain", "--json").ok())
    assert sorted(entry["path"] for entry in listed) == sorted(f"folder/{name}" for name in KEPT_NAMES)


def test_links_out_are_refused(states):  # noqa: F811
    states.create()
    folder = states.changes({"a/b/file": "x"})
    bad = {"abs": "/etc/passwd", "up": "../x", "a/b/three": "../../../x", "a/late": "b/../../../x", "a/late2": "b/../file"}
    good = {"a/b/two": "../../a", "same": "a/b/file", "a/dot": "./b", "dangling": "nowhere"}
    for path, target in {**bad, **good}.items():
        os.symlink(target, folder / path)
    lines = states.commit(folder)
    assert {line.split(": ")[0] for line in lines[1:-1]} == set(bad)
    checkout = states.checkout(lines[0])
    for path, target in good.items():
        assert os.readlink(checkout / path) == target
    aside = states.folder() / "aside" / lines[-1].removeprefix("aside ")
    assert os.readlink(aside / "abs") == "/etc/passwd"


def test_sockets_and_pipes_are_not_stored(states):  # noqa: F811
    states.create()
    folder = states.changes({"file": "x"})
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as s:
        os.chdir(folder)
        s.bind("socket")
        os.chdir("/")
    lines = states.commit(folder)
    assert {line.split(": ")[0] for line in lines[1:-1]} == {"pipe", "socket"}
    assert states.git("ls-tree", "-r", "--name-only", lines[0]) == "file"


def test_a_sparse_file_over_the_limit_is_put_aside(states):  # noqa: F811
    states.create()
    folder = states.changes({"small": "x"})
    with open(folder / "large", "wb") as f:
        f.truncate(4 << 30)
        f.seek(1 << 30)
        f.write(b"canary")
    lines = states.commit(folder)
    assert "large: it has 4G, and a file may have 64M" in lines
    aside = states.folder() / "aside" / lines[-1].removeprefix("aside ")
    kept = (aside / "large").stat()
    assert kept.st_size == 4 << 30 and kept.st_blocks < 1000, kept
    assert states.git("ls-tree", "-r", "--name-only", lines[0]) == "small"


def test_limits_of_a_state_hold(states):  # noqa: F811
    states.create("brain", "--max-size", "1000", "--max-files", "3")
    first = states.head()
    done = states.try_commit(states.changes({"one": "x" * 600, "two": "y" * 600}))
    assert done.status == 1 and "larger than the whole state may be (1000 bytes)" in done.err, done
    done = states.try_commit(states.changes({f"file{i}": "" for i in range(4)}))
    assert done.status == 1 and "the state would have 4 files, and may have 3" in done.err, done
    assert states.head() == first
    states.commit_files({"one": "x" * 600})
    done = states.try_commit(states.changes({"two": "y" * 600}))
    assert done.status == 1 and "the state would have 1.2K, and may have 1000" in done.err, done
    assert states.operator.cloister("state", "create", "--max-files", "0", "other").status == 125


def test_deep_folders_and_long_paths_are_put_aside(states):  # noqa: F811
    states.create()
    folder = states.changes({"file": "x"})
    deep = folder / "/".join(["d"] * 70)
    deep.mkdir(parents=True)
    (deep / "bottom").write_text("canary")
    path = folder / "/".join(["n" * 200] * 6)
    path.mkdir(parents=True)
    (path / "end").write_text("canary")
    lines = states.commit(folder)
    aside = states.folder() / "aside" / lines[-1].removeprefix("aside ")
    assert len(lines) == 4 and "nested deeper" in lines[1] and "its path is longer" in lines[2], lines
    assert (aside / deep.relative_to(folder) / "bottom").read_text() == "canary"
    assert (aside / path.relative_to(folder) / "end").read_text() == "canary"


@as_one
def test_a_hundred_thousand_files(states):  # noqa: F811
    states.create("brain", "--max-files", "100000")
    folder = states.changes({"first": "x"})
    for i in range(100):
        (folder / f"{i}").mkdir()
        for j in range(1000):
            (folder / f"{i}" / f"{j}").touch()
    done = states.try_commit(folder, seconds=10 * SECONDS)
    assert done.status == 1 and "may have 100000" in done.err, done
    (folder / "first").unlink()
    commit = states.commit(folder, seconds=10 * SECONDS)[0]
    assert states.git("ls-tree", "-r", "--name-only", commit).count("\n") == 99999


@pytest.mark.parametrize("bare", [True, False])
def test_a_hostile_repository_is_imported_as_data(states, bare):  # noqa: F811
    source = states.operator.home / "source"
    states.operator.host(f"""
        git init -q {source}; cd {source}
        git config user.name x; git config user.email x@x
        mkdir sub; echo one >file; echo two >sub/file; ln -s /etc/passwd out; ln -s file in
        git add -A; git commit -qm first
        printf '#!/bin/sh\\ntouch /tmp/{CANARY}\\n' >.git/hooks/post-checkout; chmod 755 .git/hooks/post-checkout
        blob=$(git hash-object -w --literally --stdin </dev/null)
        commit=$(git rev-parse HEAD)
        printf '100644 blob %s\\t.GIT\\n160000 commit %s\\tsubmodule\\n100644 blob %s\\tfile\\n' $blob $commit $blob |
            git mktree --missing >tree
        git update-ref refs/heads/hostile $(git commit-tree -m hostile $(cat tree)); rm tree
        printf '[include]\n\tpath = /etc/passwd\n' >>.git/config
        echo /etc >.git/objects/info/alternates
    """)
    place = source / ".git" if bare else source
    states.operator.cloister("state", "import", "--json", "brain", place).ok()
    assert states.git("ls-tree", "-r", "--name-only", "main").split() == ["file", "in", "sub/file"]
    done = json.loads(states.operator.cloister("state", "import", "--json", "--ref", "hostile", "other", place).ok())
    assert {r["path"] for r in done["refused"]} == {".GIT", "submodule"}
    assert states.git("ls-tree", "-r", "--name-only", "main", name="other").split() == ["file"]
    assert not os.path.exists(f"/tmp/{CANARY}")


def test_a_folder_is_imported(states):  # noqa: F811
    folder = states.operator.folder("home/plain", {"a": "1", "sub/b": "2"})
    os.symlink("/etc/passwd", folder / "out")
    done = json.loads(states.operator.cloister("state", "import", "--json", "brain", folder).ok())
    assert [r["path"] for r in done["refused"]] == ["out"]
    assert states.git("ls-tree", "-r", "--name-only", "main").split() == ["a", "sub/b"]
    states.operator.cloister("state", "import", "brain", folder).sentence("there is a state 'brain' already")
    states.operator.cloister("state", "import", "third", "/nonexistent").sentence("cannot open '/nonexistent'")
    assert not states.folder("third").exists()


@as_one
def test_refused_files_without_bytes_are_counted(states):  # noqa: F811
    """Each takes an inode, and the limit of bytes never comes."""
    states.create()
    first = states.head()
    folder = states.changes({"small": "x"})
    for i in range(101):
        (folder / f".git/{i}").mkdir(parents=True)
        for j in range(1000):
            (folder / f".git/{i}/{j}").touch()
    done = states.try_commit(folder, seconds=10 * SECONDS)
    assert done.status == 1 and "what is aside would have over 100000 files" in done.err, done
    assert states.head() == first


def test_a_worker_that_reads_changes_writes_no_checkout(states):  # noqa: F811
    """Cells read checkouts, and nothing compares them with the commit again."""
    states.create()
    commit = states.commit_files({"file": "canary"})
    refused, path = states.operator.do(states.program, "--reads", "brain", commit, states.changes({})).ok().splitlines()
    assert "cannot" in refused and "Permission denied" in refused, refused
    assert open(f"{path}/file").read() == "canary"


@pytest.mark.parametrize("options, files", [(("--max-files", "3"), {str(i): "x" for i in range(4)}), (("--max-size", "1000"), {"large": "x" * 2000})])
def test_nothing_is_aside_after_a_failure(states, options, files):  # noqa: F811
    """The changes stay with their cell, and each further attempt would put them aside again."""
    states.create("brain", *options)
    folder = states.changes({**files, ".git/config": "x"})
    assert states.try_commit(folder).status == 1
    assert os.listdir(states.folder() / "aside") == []
