"""`apply`: writes what the cell changed, all of it or none, and nothing else."""
import os
import random
import re
import resource
import signal
import stat
import subprocess
import time
from shlex import quote

import pytest

from operators import CLOISTER, SECONDS, end, read_until
from terminal import Terminal
from trees import seen_inside, tree

FILES = {"a": "one\n", "d/b": "two\n", "d/e/c": "three\n"}

# Everything that can happen to a folder.
WORK = """
set -e
echo more >>a
mkdir -p new/deep/er empty
echo x >new/deep/er/file
ln -s ../a new/link
ln -s /nowhere dangling
chmod 755 d/b
echo secret >private; chmod 600 private
rm -rf d/e; mkdir d/e; echo fresh >d/e/fresh
ln a hard
mv d/b d/renamed
printf 'no newline' >plain
head -c 300000 /dev/urandom >binary
touch -d 2001-02-03T04:05:06Z dated
"""


@pytest.fixture
def workspace(operator):
    return operator.folder("workspace", FILES)


def temporaries(workspace):
    return [p for p in workspace.rglob(".cloister*")]


def test_everything(operator, workspace):
    done = operator.run("-q", "-w", workspace, "--", "sh", "-c",
                        f"{WORK}\necho $CLOISTER_CELL")
    id = done.ok().strip()
    operator.kept.add(id)
    said = operator.cloister("apply", id)
    assert said.status == 0 and said.err == ""
    after = tree(workspace)
    # The same script in a plain copy of the folder gives the same tree.
    twin = operator.folder("twin", FILES)
    operator.host(WORK, cwd=twin)
    expected = tree(twin)
    for path in (b"binary",):
        after.pop(path), expected.pop(path)
    assert after == expected
    assert (workspace / "dated").stat().st_mtime == 981173106
    assert (workspace / "hard").samefile(workspace / "a") or \
        (workspace / "hard").read_text() == "one\nmore\n"
    assert {p.lstat().st_uid for p in workspace.rglob("*")} == {operator.uid}
    assert operator.names(operator.state) == [] and temporaries(workspace) == []


def test_the_next_cell_sees_it(operator, workspace):
    id = operator.change(workspace, "rm -rf d; mkdir d; echo x >d/x; chmod 700 d")
    operator.cloister("apply", id).ok()
    assert seen_inside(operator, workspace, ["-w", workspace]) == tree(workspace)


def test_apply_prints_the_paths_that_it_writes(operator, workspace):
    id = operator.change(workspace, "echo more >>a; rm d/b; echo x >new")
    assert operator.cloister("apply", id).ok() == "M a\nD d/b\nA new\n"


def test_dry_run(operator, workspace):
    before = tree(workspace)
    id = operator.change(workspace, "echo more >>a; rm d/b; echo x >new")
    for option in ("--dry-run", "-n"):
        assert operator.cloister("apply", option, id).ok() == "M a\nD d/b\nA new\n"
    assert tree(workspace) == before
    operator.cloister("apply", id).ok()
    assert (workspace / "new").exists()


def test_by_path(operator, workspace):
    id = operator.change(workspace, "echo more >>a; rm d/b; echo x >d/new; echo y >new")
    operator.cloister("apply", id, "a").ok()
    assert (workspace / "a").read_text() == "one\nmore\n" and (workspace / "d/b").exists()
    assert operator.cloister("diff", "--name-status", id).ok() == "D d/b\nA d/new\nA new\n"
    operator.cloister("apply", id, "d/", str(workspace / "new")).ok()
    assert not (workspace / "d/b").exists() and (workspace / "d/new").exists()
    assert (workspace / "new").exists() and operator.names(operator.state) == []


def test_options_stand_anywhere_before_two_dashes(operator, workspace):
    id = operator.change(workspace, "echo more >>a; echo x >-n")
    assert operator.cloister("diff", id, "--name-status").ok() == "A -n\nM a\n"
    assert operator.cloister("diff", id, "--name-status", "--", "-n").ok() == "A -n\n"
    assert operator.cloister("apply", id, "-n", "a").ok() == "M a\n"
    assert operator.cloister("apply", id, "a", "-n", "--", "-n").ok() == "A -n\nM a\n"
    operator.cloister("apply", id, "--nothing").sentence("--nothing")
    assert not (workspace / "-n").exists()
    operator.cloister("apply", "--", id, "-n").ok()
    assert (workspace / "-n").read_text() == "x\n" and (workspace / "a").read_text() == "one\n"
    operator.cloister("discard", id, "--all").sentence("every cell", f"remove '{id}'")
    operator.cloister("kill", "no-such", "--all").sentence("remove 'no-such'")


def test_discarding_all_is_reported_on_a_terminal(operator, workspace):
    operator.change(workspace, "echo more >>a")
    operator.cloister("run", "-d", "--name", "busy", "--", "sleep", "infinity").ok()
    terminal = Terminal(operator, operator.program, "discard", "--all")
    assert (terminal.end(), terminal.text) == (0, "discarded the kept data of 1 cell\r\n")
    operator.cloister("kill", "busy").ok()
    assert operator.cloister("discard", "--all").ok() == ""
    # Of what has ended, and left nothing but its events, that is said.
    operator.cloister("secret", "list", "--cell", "busy").sentence("cell 'busy' has ended",
                                                                           "`cloister events busy`")


def test_a_path_that_did_not_change(operator, workspace):
    id = operator.change(workspace, "echo more >>a; echo x >new")
    for path in ("d/b", "no-such", "d"):
        operator.cloister("apply", id, path).sentence(path)
    done = operator.cloister("apply", id, "a", "no-such")
    assert done.status == 125 and (workspace / "a").read_text() == "one\n"


def test_a_path_outside(operator, workspace):
    id = operator.change(workspace, "echo more >>a")
    canary = operator.file("canary", "x")
    for path in ("../canary", str(canary), "/etc/passwd", "d/../../canary", "", "/"):
        operator.cloister("apply", id, path).sentence("'")
    assert canary.read_text() == "x" and (workspace / "a").read_text() == "one\n"


def test_twice(operator, workspace):
    id = operator.change(workspace, "echo more >>a")
    operator.cloister("apply", id).ok()
    for command in ("apply", "diff", "discard", "logs"):
        operator.cloister(command, id).sentence(id, "only its events are kept", f"`cloister events {id}`")
    assert "cell ended with 0" in operator.cloister("events", id).ok()


def test_cells_of_the_same_name(operator, workspace):
    """The commands in the messages can be pasted as they are."""
    first, second = (operator.run("--name", "fix", "-w", workspace, "--", "sh", "-c",
                                  f"echo {n} >>a; echo $CLOISTER_CELL") for n in (1, 2))
    ids = {first.ok().strip(), second.ok().strip()}
    operator.kept |= ids
    assert "`cloister diff fix`" in first.err
    assert f"`cloister diff {second.out.strip()}`" in second.err and " fix`" not in second.err
    operator.cloister("diff", "fix").sentence("2 cells are called 'fix'", *ids)
    for number in range(4):
        operator.run("-q", "--name", "fix", "-w", workspace, "--", "sh", "-c", f"echo {number} >>a").ok()
    operator.cloister("diff", "fix").sentence("6 cells are called 'fix'", "...)")
    operator.cloister("discard", "--all").ok()


def test_apply_on_a_running_cell(operator, workspace):
    id = operator.detach("-w", workspace, "--", "sh", "-c", "echo x >new; sleep 1000")
    operator.cloister("apply", id).sentence(id, "still running")


def test_the_log_of_a_detached_cell_stays(operator, workspace):
    id = operator.detach("-w", workspace, "--", "sh", "-c", "echo said; echo x >new")
    operator.cloister("wait", id).ok()
    operator.cloister("apply", id).ok()
    assert (workspace / "new").exists()
    assert operator.cloister("logs", id).ok() == "said\n"
    assert [c["changes"] for c in operator.cells("-a")] == [False]


def test_a_workspace_that_is_gone(operator, workspace):
    id = operator.change(workspace, "echo more >>a")
    workspace.rename(operator.base / "moved")
    operator.cloister("apply", id).sentence(workspace)
    operator.cloister("diff", id).sentence(workspace)
    (operator.base / "moved").rename(workspace)
    operator.cloister("apply", id).ok()
    assert (workspace / "a").read_text() == "one\nmore\n"


def test_a_link_on_the_way(operator):
    """Another cell may have put one there: what is applied does not go where that leads."""
    operator.folder("outer/inner", FILES)
    workspace, elsewhere = operator.base / "outer/inner", operator.folder("elsewhere/inner", FILES)
    id = operator.change(workspace, "echo more >>a")
    (operator.base / "outer").rename(operator.base / "before")
    (operator.base / "outer").symlink_to(elsewhere.parent)
    for verb in ("apply", "diff"):
        operator.cloister(verb, id).sentence(workspace)
    assert (elsewhere / "a").read_text() == "one\n"
    (operator.base / "outer").unlink()
    (operator.base / "before").rename(operator.base / "outer")
    operator.cloister("apply", id).ok()
    assert (workspace / "a").read_text() == "one\nmore\n"


# ---- modes -----------------------------------------------------------------------

def test_modes(operator, workspace):
    id = operator.change(workspace, """
        chmod 755 a; chmod 700 d; echo x >r; chmod 0 r
        echo x >s; mkdir g; chmod 6755 s 2>/dev/null; chmod 2775 g 2>/dev/null
        mkdir f; echo x >f/x; chmod 500 f; mkdir -m 0 closed""")
    operator.cloister("apply", id).ok()

    def mode(name):
        return stat.S_IMODE((workspace / name).stat().st_mode)
    assert (mode("a"), mode("d"), mode("r"), mode("f"), mode("closed")) == (
        0o755, 0o700, 0, 0o500, 0)
    assert mode("s") & 0o6000 == 0, "setuid would be an agent's program run as the operator"
    assert mode("g") & 0o6000 in (0, 0o2000)
    (workspace / "f").chmod(0o700)


def test_strange_files_are_left_out(operator, workspace):
    id = operator.change(workspace, """
        mkfifo fifo; mkdir d2; mkfifo d2/fifo; echo x >d2/f; rm a; mkfifo a
        /usr/bin/python3 -Ic "import socket; socket.socket(socket.AF_UNIX).bind('sock')" """)
    operator.cloister("apply", id, seconds=SECONDS).ok()
    for path in workspace.rglob("*"):
        assert stat.S_ISREG(path.stat().st_mode) or stat.S_ISDIR(path.stat().st_mode), path
    assert (workspace / "d2/f").read_text() == "x\n"


# ---- what would run on the host --------------------------------------------------

HELD = [".git/hooks/pre-commit", ".git/config", ".envrc", ".vscode/tasks.json",
        ".idea/runConfigurations/x.xml", "d/.envrc", ".githooks/pre-push", ".husky/pre-commit",
        ".claude/settings.json", ".mcp.json", ".npmrc", ".bashrc", "sub/.git/hooks/post-checkout"]


def test_held_back(operator, workspace):
    operator.host("git init -q .", cwd=workspace)
    before = {p: (workspace / p).read_bytes() for p in HELD if (workspace / p).exists()}
    script = "".join(f"mkdir -p $(dirname {p}); echo evil >>{p};" for p in HELD)
    id = operator.change(workspace, f"{script} echo fine >fine")
    done = operator.cloister("apply", id)
    assert done.status == 1 and (workspace / "fine").exists()
    for path in HELD:
        if path in before:
            assert (workspace / path).read_bytes() == before[path], path
        else:
            assert not (workspace / path).exists(), path
    assert "held back" in done.err and f"cloister diff {id}" in done.err
    assert operator.cells("-a")[0]["changes"] is True
    # Naming what is above does not release it, its own name does.
    operator.cloister("apply", id, ".")
    assert not (workspace / ".envrc").exists()
    operator.cloister("apply", id, ".envrc", ".git/hooks").ok()
    assert (workspace / ".envrc").read_text() == "evil\n"
    assert (workspace / ".git/hooks/pre-commit").read_text() == "evil\n"
    assert (workspace / ".git/config").read_bytes() == before[".git/config"]
    operator.cloister("discard", id).ok()


def test_force_does_not_release(operator, workspace):
    id = operator.change(workspace, "echo evil >.envrc")
    operator.cloister("apply", "--force", id)
    assert not (workspace / ".envrc").exists()


def test_held_by_way_of_another_name(operator, workspace):
    """A folder that is renamed to a held name, a link in its place, another case."""
    operator.folder("workspace/tools", {"pre-commit": "#!/bin/sh\n"})
    operator.host("git init -q .", cwd=workspace)
    id = operator.change(workspace, "mv tools .githooks; rm -rf .git/hooks; ln -s ../d .git/hooks;"
                         "echo evil >.ENVRC; ln -s a .envrc; ln -s tools .vscode")
    operator.cloister("apply", id)
    assert not (workspace / ".githooks").exists() and not (workspace / ".ENVRC").exists()
    assert not (workspace / ".git/hooks").is_symlink()
    for name in (".envrc", ".vscode"):
        assert not os.path.lexists(workspace / name), name


def test_held_by_gits_configuration(operator, workspace):
    """Files that the real repository's configuration names run on the next commit."""
    operator.host("mkdir -p scripts/hooks; echo '#!/bin/sh' >scripts/hooks/pre-commit; git init -q .;"
                  "git config core.hooksPath scripts/hooks; git config filter.x.clean 'sh tools/clean.sh %f'", cwd=workspace)
    id = operator.change(workspace, "echo evil >>scripts/hooks/pre-commit; mkdir tools;"
                         "echo evil >tools/clean.sh; echo fine >tools/fine")
    assert "M scripts/hooks/pre-commit  (held back" in operator.cloister("diff", id).ok()
    done = operator.cloister("apply", id)
    assert done.status == 1 and "2 changes are held back" in done.err and "may not be held back" not in done.err
    assert (workspace / "scripts/hooks/pre-commit").read_text() == "#!/bin/sh\n"
    assert not (workspace / "tools/clean.sh").exists() and (workspace / "tools/fine").exists()
    operator.cloister("apply", id, "scripts/hooks", "tools/clean.sh").ok()
    assert (workspace / "tools/clean.sh").exists()


def test_targets_of_an_alias_are_not_held(operator, workspace):
    """What `make test` runs is in the Makefile, not in a folder called test."""
    operator.host("mkdir test lib; git init -q .; git config alias.t '!make test'; git config alias.u '!cd lib && ./x'",
                  cwd=workspace)
    id = operator.change(workspace, "echo x >test/new; echo x >lib/x; echo x >make")
    done = operator.cloister("apply", id)
    assert done.out == "! lib/x  (held back)\n! make  (held back)\nA test/new\n"
    assert (workspace / "test/new").exists() and not (workspace / "lib/x").exists()


def test_gits_configuration_cannot_be_read(operator, workspace):
    operator.folder("workspace/.git", {"config": "what\nis = \"this\n"})
    id = operator.change(workspace, "echo fine >fine")
    for word in ("diff", "apply"):
        done = operator.cloister(word, id)
        assert done.status == 0 and "may not be held back" in done.err
        assert ".git/config': line 2 is not as git writes it" in done.err
    assert (workspace / "fine").exists()


RULES = "version: 1\negress:\n  - allow: a.example\n"


def test_files_of_the_cells_policy_are_held(operator, workspace):
    """All files of the policy, not only cloister.yaml."""
    key = f"secrets: {{KEY: {{hosts: a.example, from: 'file:{workspace}/p/token'}}}}\n"
    operator.folder("workspace/p", {
        "base.yaml": RULES, "far.yaml": RULES, "plain.yaml": RULES, "token": "t0ken-t0ken-t0ken",
        "outer.yaml": "version: 1\nextends: more.yaml\n" + key, "more.yaml": RULES,
        "given.yaml": "version: 1\nextends: link.yaml\n" + key})
    operator.folder("workspace", {"cloister.yaml": "version: 1\nextends: [p/base.yaml]\n"})
    (workspace / "p/link.yaml").symlink_to("far.yaml")
    (workspace / "p/token").chmod(0o600)
    everything = "for f in p/*; do rm $f; echo evil >$f; done"
    before = tree(workspace)
    # Found there, and what it extends.
    id = operator.change(workspace, everything)
    operator.cloister("apply", id, "p/plain.yaml").ok()
    assert "! p/base.yaml  (held back)" in operator.cloister("apply", "-n", id).out
    operator.cloister("discard", id).ok()
    (workspace / "p/plain.yaml").write_text(RULES)
    # Given with -p, from another folder, and --within.
    done = operator.run("-q", "-w", workspace, "-p", "p/given.yaml", "--within", "./p/outer.yaml",
                        "--", "sh", "-c", f"{everything}; echo $CLOISTER_CELL", cwd=workspace)
    id = done.ok().strip()
    operator.kept.add(id)
    done = operator.cloister("apply", id)
    assert done.status == 1 and "held back, because this machine would run" in done.err and "cloister apply" in done.err
    changed = {p for p, was in tree(workspace).items() if was[-1] != before[p][-1]}
    # What was read for the first of these cells is held back, too.
    assert changed == {b"p/plain.yaml"}


def test_held_where_the_vaults_values_come_from(operator, workspace):
    """A change to it gives the operator another secret, or another program to run."""
    sources = {"TOLD": f"file:{workspace}/p/told", "LINKED": f"file:{workspace}/p/link",
               "MADE": f"cmd:/bin/sh {workspace}/p/make", "UNUSED": f"file:{workspace}/p/unused"}
    operator.folder("workspace/p", {"told": "t0ken-t0ken-t0ken", "far": "another-t0ken-of-ours",
                                    "make": "echo t0ken-that-is-made", "unused": "t0ken-of-others"})
    (workspace / "p/link").symlink_to("far")
    for file in "told", "far", "unused":
        (workspace / "p" / file).chmod(0o600)
    for name, source in sources.items():
        operator.cloister("secret", "add", name, "--host", "a.example", "--from", source).ok()
    # The policy may say where it goes, and the vault have its value.
    rules = operator.file("rules.yaml", RULES + "secrets: {MADE: {hosts: a.example}}\n")
    before = tree(workspace)
    id = operator.change(workspace, "for f in p/*; do rm $f; echo evil >$f; done", "-p", rules,
                         "-s", "TOLD", "-s", "LINKED@a.example")
    assert "! p/told  (held back)" in operator.cloister("apply", "-n", id).out
    done = operator.cloister("apply", id)
    assert done.status == 1 and "held back, because this machine would run" in done.err, done
    assert {p for p, was in tree(workspace).items() if was[-1] != before[p][-1]} == {b"p/unused"}
    operator.cloister("apply", id, "p/told").ok()
    assert (workspace / "p/told").read_text() == "evil\n"


def test_hard_links_do_not_fill_the_disk(operator, workspace):
    """Each name is written as a file: more than the cell could have had is not."""
    id = operator.change(workspace, "head -c 3M /dev/urandom >big; for i in $(seq 6); do ln big big$i;"
                         "done; echo small >small", "--disk", "16M")
    done = operator.cloister("apply", id)
    assert done.status == 125 and "hard links would become separate files of 21" in done.err
    assert tree(workspace).keys() == {b"a", b"d", b"d/b", b"d/e", b"d/e/c"}
    operator.cloister("apply", id, "big", "big1", "small").ok()
    assert (workspace / "big1").stat().st_size == 3 << 20
    operator.cloister("apply", "--force", id).ok()
    assert len(os.listdir(workspace)) == 10


# ---- conflicts -------------------------------------------------------------------

def test_conflict(operator, workspace):
    id = operator.change(workspace, "echo agent >>a; echo agent >>d/b; echo x >new")
    (workspace / "a").write_text("operator's own\n")
    shown = "! a  (conflict: the same lines changed here)\nM d/b\nA new\n"
    assert operator.cloister("apply", "-n", id).ok() == shown
    said = operator.cloister("apply", id)
    assert (said.status, said.out) == (1, shown) and "1 change is left alone" in said.err and "--force" in said.err
    assert (workspace / "a").read_text() == "operator's own\n"
    assert (workspace / "d/b").read_text() == "two\nagent\n" and (workspace / "new").exists()
    operator.cloister("apply", "--force", id).ok()
    assert (workspace / "a").read_text() == "one\nagent\n"


@pytest.mark.parametrize("agent, host", [
    ("echo x >new", "echo y >new"),
    ("echo x >new", "mkdir new"),
    ("mkdir new; echo x >new/x", "echo y >new"),
    ("rm a", "echo y >a"),
    ("rm -rf d", "echo y >d/added"),
    ("rm -rf d", "echo y >d/e/c"),
    ("rm -rf d; echo x >d", "echo y >d/e/c"),
    ("echo x >>a", "rm a; mkdir a; echo y >a/y"),
    ("echo x >>a", "echo y >y; mv y a"),
    ("rm a; ln -s b a", "echo y >>a"),
], ids=lambda w: w)
def test_conflicts(operator, workspace, agent, host):
    """The operator's own changes in the meantime are not lost silently."""
    id = operator.change(workspace, agent)
    operator.host(host, cwd=workspace)
    before = tree(workspace)
    done = operator.cloister("apply", id)
    assert tree(workspace) == before and done.status == 1 and "left alone" in done.err, done
    operator.cloister("apply", "--force", id).ok()
    assert operator.names(operator.state) == []


@pytest.mark.parametrize("agent, host", [
    ("echo x >new", "echo x >new"),
    ("rm a", "rm a"),
    ("rm -rf d", "rm -rf d"),
    ("echo x >>a", "echo x >>a"),
    ("echo x >>a", "echo y >unrelated; echo y >>d/b"),
    ("mkdir -p n; echo x >n/x", "mkdir -p n; echo y >n/y"),
], ids=lambda w: w)
def test_no_conflicts(operator, workspace, agent, host):
    id = operator.change(workspace, agent)
    operator.host(host, cwd=workspace)
    done = operator.cloister("apply", id)
    assert done.status == 0, done
    assert operator.names(operator.state) == []


def test_the_operators_modes_are_not_undone(operator, workspace):
    """The agent wrote in a folder, the operator closed it meanwhile: it stays closed."""
    id = operator.change(workspace, "echo x >d/new; echo x >>d/b")
    (workspace / "d").chmod(0o700)
    operator.cloister("apply", id)
    assert stat.S_IMODE((workspace / "d").stat().st_mode) == 0o700


def test_a_write_just_before_the_start_is_not_a_conflict(operator, workspace):
    """A file is saved, and the cell started in the same instant, over and over."""
    for n in range(25):
        for text in ("draft", f"{n}\n"):
            (workspace / "a").write_text(text)
            (workspace / "a").stat()
        id = operator.change(workspace, "echo agent >>a")
        operator.cloister("apply", id).ok()
        assert (workspace / "a").read_text() == f"{n}\nagent\n"


def test_a_write_just_after_the_start_is_a_conflict(operator, workspace):
    for n in range(10):
        done = operator.start("-q", "-w", workspace, "--", "sh", "-c",
                              "echo $CLOISTER_CELL; read x; echo agent >>a", stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
        id = read_until(done.stdout.fileno(), b"\n").decode().strip()
        operator.kept.add(id)
        (workspace / "a").write_text(f"operator {n}\n")
        done.communicate(b"\n", timeout=SECONDS)
        said = operator.cloister("apply", id)
        assert said.status == 1 and said.out == "! a  (it changed here while the cell ran, so it cannot be merged)\n"
        operator.cloister("discard", id).ok()


# ---- interruptions ---------------------------------------------------------------

MANY = """
rm -rf d; echo more >>a; seq 200000 >big
for i in $(seq 20); do
    mkdir n$i; ln -s $i n$i/l
    for j in $(seq 25); do echo $i.$j >n$i/$j; done
done
"""


def test_killed_and_repeated(operator, workspace):
    """At random moments: every file is old or new, and a repetition completes."""
    id = operator.change(workspace, MANY)
    twin = operator.folder("twin", FILES)
    operator.host(MANY, cwd=twin)
    expected, old = tree(twin), tree(workspace)
    chance, interrupted = random.Random(7), 0
    whole = 0.01
    for _ in range(100):
        process = operator.spawn(operator.program, "apply", id, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE)
        try:
            process.wait(chance.random() * whole)
            said = process.stderr.read()
            # The one before may have been killed when all was done, and nothing kept of the cell.
            assert process.returncode == 0 or interrupted and b"only its events are kept" in said, said
            break
        except subprocess.TimeoutExpired:
            end(process.pid)
            process.wait(SECONDS)
            interrupted += 1
        whole *= 1.2
        for path, what in tree(workspace).items():
            assert what in (old.get(path), expected.get(path)) or b".cloister-" in path, path
    else:
        operator.cloister("apply", id).ok()
    assert interrupted > 0
    assert tree(workspace) == expected
    assert temporaries(workspace) == [] and operator.names(operator.state) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_gently(operator, workspace, number):
    id = operator.change(workspace, MANY)
    process = operator.spawn(operator.program, "apply", id, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=SECONDS)
    if process.returncode not in (0, -number):
        assert process.returncode == 125 and err.decode().count("\n") == 1, err
        assert temporaries(workspace) == []
    if process.returncode != 0:
        operator.cloister("apply", id).ok()
    assert len(list(workspace.rglob("*"))) == 20 * 27 + 2


def test_killed_and_discarded(operator, workspace):
    """The operator thinks better of it: no temporary file stays behind."""
    id = operator.change(workspace, "head -c 100M /dev/zero | tr '\\0' x >big")
    for _ in range(20):
        process = operator.spawn(operator.program, "apply", id, stdout=subprocess.DEVNULL)
        time.sleep(0.02)
        end(process.pid)
        process.wait(SECONDS)
        if process.returncode == 0 or temporaries(workspace):
            break
    if process.returncode == 0:
        return                      # too fast to be caught
    operator.cloister("discard", id).ok()
    assert temporaries(workspace) == []


def test_two_at_once(operator, workspace):
    """Both want to write: one does, the other finds it done or is refused."""
    id = operator.change(workspace, MANY)
    both = [operator.spawn(operator.program, "apply", id, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE) for _ in range(2)]
    results = [(p.communicate(timeout=SECONDS)[1], p.returncode) for p in both]
    assert 0 in [status for _, status in results], results
    twin = operator.folder("twin", FILES)
    operator.host(MANY, cwd=twin)
    assert tree(workspace) == tree(twin) and temporaries(workspace) == []


def test_an_error_in_the_middle(operator, workspace):
    """Said in a sentence, nothing half written, and it can be repeated."""
    id = operator.change(workspace, "echo x >>a; head -c 300000 /dev/zero >big; echo x >z")

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
    done = operator.cloister("apply", id, preexec_fn=little_room)
    assert done.status == 125 and re.search(r"^cloister: .*big.*$", done.err, re.M), done
    assert not (workspace / "big").exists() and temporaries(workspace) == []
    operator.cloister("apply", id).ok()
    assert (workspace / "big").stat().st_size == 300000 and (workspace / "z").exists()


# ---- incomplete ---------------------------------------------------------------------

def complete(operator, done, workspace):
    """Paste the command that DONE offers."""
    assert done.status == 1 and "not everything was applied" in done.err, done
    command = done.err.splitlines()[-1]
    assert command.startswith("  cloister apply "), done
    return operator.do("bash", "-c", command, cwd=workspace,
                       env={"PATH": f"{operator.program.parent}:/usr/bin:/bin"}) if CLOISTER.name == "cloister" else None


@pytest.mark.skipif(CLOISTER.name != "cloister", reason="it is another program")
def test_a_venv(operator, workspace):
    """It is broken without what is held back, which is said; and whole after one command."""
    id = operator.change(workspace, "python3 -m venv --without-pip .venv; echo 'print(6 * 7)' >job.py", "--name", "env")
    done = operator.cloister("apply", "env")
    assert not (workspace / ".venv/bin").exists() and (workspace / "job.py").exists()
    assert done.err.splitlines()[-1] == "  cloister apply env -- .venv/bin"
    assert complete(operator, done, workspace).ok().count("\n") > 3
    assert operator.do(workspace / ".venv/bin/python", "job.py", cwd=workspace).ok() == "42\n"
    assert operator.host(". .venv/bin/activate; echo $VIRTUAL_ENV", cwd=workspace) == f"{workspace}/.venv\n"
    assert operator.cloister("diff", id).status == 125          # nothing is left


@pytest.mark.skipif(CLOISTER.name != "cloister", reason="it is another program")
def test_the_command_that_completes_takes_any_name(operator, workspace):
    names = ["a b", "it's", "$(touch owned)", "`touch owned`", "-n", "new\nline", "esc\x1b[2J", "\u00fc", "back\\slash", "~", "*"]
    volume = operator.folder("volume of theirs", {"x": "1\n"})
    script = "".join(f"mkdir -p -- {quote(n)}; echo evil >{quote('./' + n + '/.envrc')};" for n in names)
    id = operator.change(workspace, script + f"echo evil >{quote(str(volume))}/.npmrc; echo >'-n/.envrc.x'",
                         "-v", f"{volume}:{volume}:overlay")
    done = operator.cloister("apply", id, ".", volume)
    assert "\x1b" not in done.err and done.err.count("\n") == 2, done
    complete(operator, done, workspace).ok()
    for n in names:
        assert (workspace / n / ".envrc").read_text() == "evil\n", n
    assert (volume / ".npmrc").exists() and not (workspace / "owned").exists()


def test_complete_is_status_0(operator, workspace):
    id = operator.change(workspace, "echo x >x; echo evil >.envrc")
    assert operator.cloister("apply", "-n", id).status == 0
    operator.cloister("apply", id, "x").ok()
    assert operator.cloister("apply", id).status == 1
    assert operator.cloister("apply", id, ".envrc").ok() == "A .envrc\n"
