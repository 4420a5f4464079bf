"""The workspace: three ways to grant it, and what `diff` shows of the default one."""
import contextlib
import json
import os
import subprocess

import pytest

from operators import only_root
from terminal import Terminal
from trees import seen_inside, tree

FILES = {"a": "one\n", "d/b": "two\n", "d/e/c": "three\n", "with space": "x\n"}


@pytest.fixture
def workspace(operator):
    return operator.folder("workspace", FILES)


def changes(operator, id, *words):
    return operator.cloister("diff", "--name-status", id, *words).ok().splitlines()


# ---- modes -----------------------------------------------------------------------

def test_overlay_is_the_default(operator, workspace):
    before = tree(workspace)
    id = operator.change(workspace, "echo more >>a; rm d/b; mkdir n; echo x >n/x; chmod 600 d/e/c")
    assert tree(workspace) == before
    assert changes(operator, id) == ["M a", "D d/b", "M d/e/c", "A n/", "A n/x"]


def test_overlay_said(operator, workspace):
    id = operator.change(f"{workspace}:overlay", "echo x >new")
    assert not (workspace / "new").exists() and changes(operator, id) == ["A new"]


def test_rw(operator, workspace):
    operator.sh("echo more >>a; rm d/b; echo x >new", "-w", f"{workspace}:rw").ok()
    assert (workspace / "a").read_text() == "one\nmore\n"
    assert not (workspace / "d/b").exists() and (workspace / "new").stat().st_uid == operator.uid
    assert operator.cells("-a") == []


def test_ro(operator, workspace):
    before = tree(workspace)
    done = operator.sh("cat a; echo more >>a; rm d/b; touch new; exit 0", "-w", f"{workspace}:ro")
    assert done.ok() == "one\n" and done.err.count("Read-only file system") == 3
    assert tree(workspace) == before and operator.cells("-a") == []


@pytest.mark.parametrize("mode", ["", ":overlay", ":rw", ":ro"])
def test_same_path_and_working_folder(operator, workspace, mode):
    said = operator.run("-w", f"{workspace}{mode}", "--", "sh", "-c", "/bin/pwd; ls; stat -c %U .")
    assert said.ok() == f"{workspace}\na\nd\nwith space\nagent\n"


def test_the_agent_sees_the_files_as_they_are(operator, workspace):
    """No extra files, no changed modes, whatever the kind of grant."""
    (workspace / "link").symlink_to("d/b")
    (workspace / "a").chmod(0o751)
    (workspace / "d").chmod(0o700)
    for mode in ("", ":rw", ":ro"):
        assert seen_inside(operator, workspace, ["-w", f"{workspace}{mode}"]) == tree(workspace)


def test_forms(operator, workspace):
    operator.folder("home/here", {"f": "x"})
    for word in ("here", "./here", "here/", "../home/here"):
        assert operator.run("-w", word, "--", "cat", "f").ok() == "x"
    assert operator.run("-w", ".", "--", "cat", "f", cwd=operator.home / "here").ok() == "x"
    assert operator.run("-whome/here:ro", "--", "cat", "f", cwd=operator.base).ok() == "x"
    link = operator.base / "link"
    link.symlink_to(workspace)
    assert operator.run("-w", link, "--", "pwd").ok() == f"{workspace}\n"


@pytest.mark.parametrize("name", ["with space", "ünï", "line\nbreak", "comma,colon", "back\\slash",
                                  "a:b", "quote'\""], ids=repr)
def test_names_of_the_folder(operator, name):
    folder = operator.folder(name, {"f": "x\n"})
    id = operator.change(folder, "echo y >>f; echo z >new")
    assert changes(operator, id) == ["M f", "A new"]
    operator.cloister("apply", id).ok()
    assert (folder / "f").read_text() == "x\ny\n" and (folder / "new").read_text() == "z\n"


@pytest.mark.parametrize("word", ["", "no-such", "/", "/proc", "/dev", "/sys", "/etc/passwd", ":rw"])
def test_folders_that_cannot_be(operator, word):
    operator.run("-w", word, "--", "true").sentence("'")


def test_twice(operator, workspace):
    operator.run("-w", workspace, "-w", f"{workspace}:ro", "--", "true").sentence("twice")


def test_two_workspaces(operator, workspace):
    other = operator.folder("other", {"f": "x"})
    done = operator.sh(f"pwd; echo $CLOISTER_CELL; echo 1 >{workspace}/a; echo 2 >{other}/f",
                       "-w", workspace, "-w", other)
    where, id = done.ok().split()
    operator.kept.add(id)
    assert where == str(workspace)
    assert sorted(changes(operator, id)) == sorted(["M a", f"M {other}/f"])
    operator.cloister("apply", id, workspace / "a").ok()
    assert (workspace / "a").read_text() == "1\n" and (other / "f").read_text() == "x"
    operator.cloister("apply", id).ok()
    assert (other / "f").read_text() == "2\n"


def test_a_grant_in_the_workspace(operator, workspace):
    cache = operator.folder("cache", {"f": "x"})
    done = operator.sh("echo $CLOISTER_CELL; cat d/e/f; echo y >d/e/f; echo new >new", "-w", workspace,
                       "-v", f"{cache}:{workspace}/d/e")
    id = done.ok().split("\n")[0]
    operator.kept.add(id)
    assert (cache / "f").read_text() == "y\n"
    assert changes(operator, id) == ["A new"]


@only_root
def test_somebody_elses_workspace(operator, workspace):
    """Root's cell works on a user's folder; what is applied is that user's."""
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, 4321, 5432)
    id = operator.change(workspace, "echo more >>a; mkdir n; echo x >n/x; ln -s a l")
    operator.cloister("apply", id).ok()
    for path in (workspace, *workspace.rglob("*")):
        st = path.lstat()
        assert (st.st_uid, st.st_gid) == (4321, 5432), path


# ---- what is kept ----------------------------------------------------------------

def test_without_changes_nothing_is_kept(operator, workspace):
    done = operator.sh("cat a d/b >/dev/null; find . | wc -l", "-w", workspace)
    assert done.status == 0 and operator.names(operator.state) == []
    assert "cloister diff" not in done.err


def test_a_change_that_was_undone(operator, workspace):
    id = operator.change(workspace, "cp -p a saved; echo x >a; cp -p saved a; rm saved")
    done = operator.cloister("diff", id)
    assert done.status == 0 and done.out + done.err == ""


@pytest.mark.parametrize("options", [(), ("-d",), ("--keep",)], ids=["", "detached", "kept"])
def test_diff_and_apply_of_no_change(operator, workspace, options):
    operator.run(*options, "--name", "idle", "-w", workspace, "--", "cat", "a").ok()
    operator.cloister("wait", "idle")
    (id,) = {c["cell"] for c in operator.cells("-a")} or {"idle"}
    operator.kept.add(id)
    for words in (["diff"], ["diff", "--name-status"], ["apply"], ["apply", "-n"]):
        done = operator.cloister(*words, "idle")
        assert done.status == 0 and done.out == "", done
        assert done.err in ("", "cloister: there is nothing to apply\n")
    assert operator.cloister("diff", "--json", "idle").ok() == "[]\n"
    t = Terminal(operator, operator.program, "diff", "idle")
    assert t.end() == 0 and t.text.replace("\r", "") == "cloister: nothing was changed\n"
    t.close()
    for command in ("diff", "apply"):
        assert "change" in operator.cloister(command, "idle", "a").sentence("at 'a'")


@pytest.mark.parametrize("options", [(), ("-d",), ("--keep",), ("-w", "WORKSPACE:rw")],
                         ids=["", "detached", "kept", "rw"])
def test_a_cell_without_an_overlay(operator, workspace, options):
    operator.run(*[word.replace("WORKSPACE", str(workspace)) for word in options], "--name", "bare", "--", "true").ok()
    operator.cloister("wait", "bare")
    operator.kept |= {c["cell"] for c in operator.cells("-a")}
    for command in ("diff", "apply"):
        operator.cloister(command, "bare").sentence("'bare' had no overlay workspace")


def test_files_of_a_deleted_folder(operator, workspace):
    """Each file is shown, so that a patch of text files is complete."""
    operator.host("mkdir -p gone/deep; echo in >gone/deep/f; ln -s deep/f gone/link", cwd=workspace)
    twin = operator.folder("twin")
    operator.host(f"cp -a {workspace}/. .", cwd=twin)
    id = operator.change(workspace, "rm -r d; rm -r gone; echo now a file >gone; echo more >>a")
    assert operator.cloister("diff", "--name-status", id).ok() == "M a\nD d/\nM gone\n"
    said = operator.cloister("diff", id).ok()
    assert "D d/\nD d/b\n--- a/d/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\nD d/e/c\n" in said
    assert "D gone/deep/f\n--- a/gone/deep/f\n" in said and "D gone/link\n--> deep/f\n" in said
    # As `patch` and `git apply` would have it, but for the link.
    operator.file("patch", said)
    operator.host("rm gone/link; git apply ../patch", cwd=twin)
    operator.cloister("apply", id).ok()
    assert tree(twin) == tree(workspace)


def test_files_left_out_are_reported(operator, workspace):
    """With -q, nothing is printed at the end of the cell."""
    told = "cloister: of the changes, 2 were left out: devices, sockets, FIFOs, "
    script = "mkfifo one d/two"
    done = operator.sh(f"echo $CLOISTER_CELL; {script}", "-w", workspace)
    assert told.replace("the changes", "the workspace's changes") in done.err
    operator.kept.add(done.out.strip())
    for command in ("diff", "apply"):
        done = operator.cloister(command, operator.change(workspace, f"{script}; echo x >new"))
        assert done.status == 0 and told in done.err and "new" in done.out, done
    done = operator.sh("echo $CLOISTER_CELL; mkfifo one", "-w", workspace)
    operator.kept.add(done.out.strip())
    one = told.replace("2 were", "1 was")
    assert one.replace("the changes", "the workspace's changes") in done.err
    assert one in operator.cloister("diff", done.out.strip()).err
    # Not called nothing, where there is nothing else.
    id = operator.change(workspace, script)
    for words in (["diff"], ["diff", "--json"]):
        done = operator.cloister(*words, id)
        assert done.status == 0 and done.err.startswith(told) and done.err.count("\n") == 1, done


@only_root
def test_changes_without_room_are_not_called_kept(operator, workspace):
    if "count towards the cell's --disk" not in operator.cloister("doctor").ok():
        pytest.skip("changes are on the disk from the start")
    small = operator.folder("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M,mode=700", "none", small], check=True)
    env = {"CLOISTER_STATE_DIR": str(small)}
    try:
        done = operator.cloister("run", "-w", workspace, "--name", "part", "--", "sh", "-c",
                                 "head -c 3000000 /dev/urandom >huge; echo x >new", env=env)
        assert "cloister: cannot keep all changes of the workspace: cannot keep 'huge': No space left" in done.err
        assert "cloister: a part of the workspace's changes is kept: `cloister diff part`" in done.err
        with open(small / "fill", "wb", buffering=0) as f, contextlib.suppress(OSError):
            while f.write(bytes(4096)):
                pass
        done = operator.cloister("run", "-q", "-w", workspace, "--name", "none", "--", "sh", "-c", "echo x >new",
                                 env=env)
        assert "cloister: what the cell left is lost: " in done.err and "kept" not in done.err, done
        operator.cloister("diff", "none", env=env).sentence("the disk was full", "are lost")
    finally:
        subprocess.run(["umount", small], check=True)


def test_discarded_changes_are_not_called_unchanged(operator, workspace):
    id = operator.change(workspace, "echo x >new")
    operator.cloister("discard", id).ok()
    for command in ("diff", "apply"):
        operator.cloister(command, id).sentence("only its events are kept")


def test_the_operator_sees_a_message(operator, workspace):
    done = operator.sh("echo $CLOISTER_CELL; touch x", "-w", workspace)
    id = done.out.strip()
    operator.kept.add(id)
    assert done.err.count("\n") == 1
    for command in ("diff", "apply", "discard"):
        assert f"cloister {command} {id}" in done.err


def test_kept_however_it_ended(operator, workspace):
    for script, status in (("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)):
        done = operator.sh(f"echo $CLOISTER_CELL; echo x >new; {script}", "-q", "-w", workspace)
        operator.kept.add(done.out.strip())
        assert done.status == status
        assert changes(operator, done.out.strip()) == ["A new"]


def test_discard(operator, workspace):
    before = tree(workspace)
    id = operator.change(workspace, "rm -rf *; mkdir -m 0 closed; echo x >new; chmod 0 new")
    assert [c["changes"] for c in operator.cells("-a")] == [True]
    assert operator.cloister("discard", id).ok() == ""
    assert operator.names(operator.state) == [] and tree(workspace) == before
    for command in ("diff", "apply", "discard"):
        operator.cloister(command, id).sentence(id)


# ---- diff ------------------------------------------------------------------------

def test_text(operator, workspace):
    id = operator.change(workspace, "echo more >>a; rm d/b; echo x >new; ln -s a link;"
                         "chmod +x d/e/c")
    assert operator.cloister("diff", id).ok() == """\
M a
--- a/a
+++ b/a
@@ -1 +1,2 @@
 one
+more
D d/b
--- a/d/b
+++ /dev/null
@@ -1 +0,0 @@
-two
M d/e/c
  mode 0644 -> 0755
A link
+-> a
A new
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+x
"""


def test_json(operator, workspace):
    id = operator.change(workspace, "echo more >>a; rm d/b; mkdir -m 750 n; ln -s x l; echo y >.envrc")
    told = {c["path"]: c for c in json.loads(operator.cloister("diff", "--json", id).ok())}
    assert set(told) == {"a", "d/b", "n", "l", ".envrc"}
    assert told["a"] == {"workspace": str(workspace), "path": "a", "change": "modified",
                         "type": "file", "mode": "0644", "size": 9, "held": False,
                         "changed_here": False, "renamed_from": None}
    assert (told["d/b"]["change"], told["d/b"]["mode"]) == ("deleted", None)
    assert (told["n"]["type"], told["n"]["mode"]) == ("folder", "0750")
    assert told["l"]["type"] == "link" and told[".envrc"]["held"] is True


def test_only_some_paths(operator, workspace):
    id = operator.change(workspace, "echo x >>a; echo x >>d/b; echo x >>d/e/c; echo x >dd")
    assert changes(operator, id, "d") == ["M d/b", "M d/e/c"]
    assert changes(operator, id, "d/e/") == ["M d/e/c"]
    assert changes(operator, id, "a", "dd") == ["M a", "A dd"]
    assert changes(operator, id, str(workspace / "d/e")) == ["M d/e/c"]
    assert changes(operator, id, ".") == ["M a", "M d/b", "M d/e/c", "A dd"]
    operator.cloister("diff", id, "/elsewhere").sentence("/elsewhere")


def test_a_folder_that_is_replaced(operator, workspace):
    assert changes(operator, operator.change(workspace, "rm -rf d; mkdir d; echo x >d/new")) == [
        "D d/b", "D d/e/", "A d/new"]
    assert changes(operator, operator.change(workspace, "rm -rf d; echo x >d"))[-1] in ("M d", "A d")
    assert changes(operator, operator.change(workspace, "mv d moved")) == [
        "D d/", "A moved/", "R d/b -> moved/b", "A moved/e/", "R d/e/c -> moved/e/c"]
    assert changes(operator, operator.change(workspace, "rm a; mkdir a; echo x >a/x")) == [
        "M a/", "A a/x"]


def test_held_is_marked(operator, workspace):
    id = operator.change(workspace, "echo x >.envrc; mkdir .vscode; echo {} >.vscode/tasks.json")
    shown = changes(operator, id)
    assert all("held back" in line for line in shown) and len(shown) >= 2


NASTY = {"esc\x1b[2Jape": "x", "bell\x07": "x", "line\nbreak": "x", "\x9b31m": "x", "tab\t": "x",
         "\u202egnp.exe": "x", "\x7f": "x", "bs\x08\x08": "x"}


def test_names_cannot_disturb_a_terminal(operator, workspace):
    script = "import os\nfor n in %r: open(n, 'w').write('contents \\x1b[31m \\x07\\n')\n" % (
        [os.fsencode(n) for n in NASTY] + [b"\xff\xfe", b"\xc2\x9b1m"])
    done = operator.run("-q", "-w", workspace, "--", "/usr/bin/python3", "-Ic",
                        script + "print(os.environ['CLOISTER_CELL'])")
    id = done.ok().strip()
    operator.kept.add(id)
    for words in (["diff", "--name-status", id], ["diff", id], ["apply", "-n", id]):
        said = operator.cloister(*words)
        assert said.status == 0
        for text in (said.out, said.err):
            bad = {c for c in text if c not in "\n\t" and (not c.isprintable() or c in "\u202e")}
            assert not bad, (words, bad)
        assert said.out.count("\n") >= 10
    assert {c["path"] for c in json.loads(operator.cloister("diff", "--json", id).ok())} >= {
        "esc\x1b[2Jape", "line\nbreak", "\u202egnp.exe"}
    assert operator.cloister("apply", id).status == 0
    assert set(NASTY) <= set(os.listdir(workspace))


def test_names_cannot_forge_a_patch(operator, workspace):
    """They are quoted as git does, which makes of it what the cell did."""
    names = ["a\n+++ forged", 'quote"back\\slash', "tab\t", "esc\x1b", "\udcff", "\u202e", "\u00fc"]
    twin = operator.folder("twin", FILES)
    script = "import os\nfor n in %r: open(n, 'w').write('contents\\n')\n" % [
        os.fsencode(n) for n in names]
    done = operator.run("-q", "-w", workspace, "--", "/usr/bin/python3", "-Ic",
                        script + "print(os.environ['CLOISTER_CELL'])")
    id = done.ok().strip()
    operator.kept.add(id)
    said = operator.cloister("diff", id).ok()
    assert '+++ "b/a\\012+++ forged"\n' in said and "+++ b/\u00fc\n" in said
    assert "\n+++ forged" not in said and said.count("\n+++ ") == len(names)
    operator.host(f"{operator.program} diff {id} | git apply -", cwd=twin)
    operator.cloister("apply", id).ok()
    assert set(os.listdir(twin)) == set(FILES) - {"d/b", "d/e/c"} | {"d"} | set(names)
    assert tree(twin) == tree(workspace)


def test_colours_only_on_a_terminal(operator, workspace):
    id = operator.change(workspace, "printf 'more \\033[31m\\n' >>a")
    t = Terminal(operator, operator.program, "diff", id)
    assert t.end() == 0
    assert "\x1b[32m+more " in t.text and "more \x1b[31m" not in t.text
    t.close()
    t = Terminal(operator, operator.program, "diff", id, env={"NO_COLOR": "1"})
    assert t.end() == 0 and "\x1b" not in t.text
    t.close()


def test_binary_files(operator, workspace):
    id = operator.change(workspace, "head -c 100000 /dev/urandom >bin; head -c 100000 /dev/zero >>a")
    said = operator.cloister("diff", id).ok()
    assert "Binary" in said or "binary" in said
    assert len(said) < 2000


def test_no_newline_at_the_end(operator, workspace):
    id = operator.change(workspace, "printf 'one' >a")
    assert "No newline at end of file" in operator.cloister("diff", id).ok()


def test_much_text(operator, workspace):
    id = operator.change(workspace, "seq 300000 >numbers")
    said = operator.cloister("diff", id).ok()
    assert said.count("\n+") >= 300000 and "+300000\n" in said


def test_a_path_that_is_too_long(operator, workspace):
    """It cannot be opened by its path; what comes behind it is shown all the same."""
    done = operator.run("-q", "-w", workspace, "--", "/usr/bin/python3", "-Ic", """
import os
open('zz', 'w').write('behind\\n')
for i in range(20): os.mkdir('e' * 250); os.chdir('e' * 250)
open('f', 'w').write('x\\n'); os.symlink('x', 'l'); print(os.environ['CLOISTER_CELL'])""")
    id = done.ok().strip()
    operator.kept.add(id)
    said = operator.cloister("diff", id)
    assert said.status == 125 and "2 files could not be shown" in said.err
    assert said.out.count("  (contents not shown: File name too long)\n") == 2
    assert said.out.endswith("A zz\n--- /dev/null\n+++ b/zz\n@@ -0,0 +1 @@\n+behind\n")
    assert operator.cloister("apply", id).status == 0 and (workspace / "zz").exists()
    operator.host("rm -rf e*", cwd=workspace)   # which Python cannot


def test_diff_cut_short(operator, workspace):
    id = operator.change(workspace, "seq 300000 >numbers")
    assert operator.host(f"{operator.program} diff {id} | head -2").startswith("A numbers\n")


def test_links_are_not_followed(operator, workspace):
    """Not by the text of a diff either: a link to a secret shows its name only."""
    secret = operator.file("home/secret", "top secret\n")
    id = operator.change(workspace, f"rm a; ln -s {secret} a; rm -rf d; ln -s {secret.parent} d;"
                         f"ln -s {secret} new")
    said = operator.cloister("diff", id).ok()
    assert "top secret" not in said and str(secret) in said


# ---- sizes -----------------------------------------------------------------------

def test_sparse_file(operator, workspace):
    id = operator.change(workspace, "truncate -s 1G sparse; printf end | dd of=sparse bs=1 "
                         "seek=1000000000 conv=notrunc 2>/dev/null")
    kept = sum(f.stat().st_blocks * 512 for f in operator.state.rglob("*"))
    assert kept < 1 << 20
    operator.cloister("apply", id).ok()
    st = (workspace / "sparse").stat()
    assert st.st_size == 1 << 30 and st.st_blocks * 512 < 1 << 20
    with open(workspace / "sparse", "rb") as f:
        f.seek(1000000000)
        assert f.read(4) == b"end\0"


def test_invalid_workspaces(operator, workspace):
    operator.run("-w", f"{workspace}:rx", "--", "true").sentence("there is no mode 'rx'", "overlay, rw or ro")
    operator.run("-w", "/", "--", "true").sentence("'/' is the whole machine")
    operator.run("-w", f"{workspace}/none", "--", "true").sentence("No such file")
    id = operator.change(workspace, "touch x")
    told = operator.cloister("diff", id, "y")
    told.sentence(f"cell {id} changed nothing at 'y'", "relative to its workspace")
    assert "relative" not in operator.cloister("diff", id, f"{workspace}/y").err
    operator.cloister("apply", id, "y").sentence("the workspace has no changes at 'y'")


def test_deep_tree(operator, workspace):
    id = operator.change(workspace, "mkdir -p $(seq -s / 200) && echo x >$(seq -s / 200)/f")
    operator.cloister("apply", id).ok()
    deepest = "/".join(str(n) for n in range(1, 201))
    assert (workspace / deepest / "f").read_text() == "x\n"


def test_many_files(operator, workspace):
    id = operator.change(workspace, "for i in $(seq 1000); do echo $i >$i; done")
    assert len(changes(operator, id)) == 1000
    operator.cloister("apply", id).ok()
    assert len(os.listdir(workspace)) == 1003 and (workspace / "999").read_text() == "999\n"


def test_large_file(operator, workspace):
    id = operator.change(workspace, "head -c 64M /dev/urandom >big; sha256sum big >sum")
    operator.cloister("apply", id).ok()
    assert operator.host(f"cd {workspace}; sha256sum -c --quiet sum") == ""
