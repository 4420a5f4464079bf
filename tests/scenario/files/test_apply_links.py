"""However an agent made its tree, applying it writes nothing outside of the workspace."""
import os

import pytest

from operators import only_user
from trees import tree


@pytest.fixture
def place(operator):
    """A workspace beside something that must not change."""
    workspace = operator.folder("workspace", {"d/f": "old\n", "d/e/g": "old\n", "file": "old\n"})
    outside = operator.folder("outside", {"f": "canary\n", "e/g": "canary\n", "x": "canary\n"})
    return workspace, outside, tree(outside)


def apply_all(operator, id):
    """Every way of applying; none may do harm."""
    for words in ([id], ["--force", id], ["--force", id, "."], ["--force", id, "d"]):
        operator.cloister("apply", *words)


@pytest.mark.parametrize("script", [
    "rm -rf d; ln -s {outside} d",
    "rm -rf d; ln -s ../outside d",
    "rm file; ln -s {outside}/f file",
    "ln -s {outside} new; mkdir other; ln -s ../../outside other/l",
    "ln {outside}/f hard 2>/dev/null; ln -s ../outside/x l; cp -P l l2; mv l2 file",
    "rm -rf d; mkdir d; ln -s ../../outside/f d/f; ln -s ../../outside/e d/e",
    "rm -rf d; ln -s . d; ln -s .. up",
    "mkdir a; ln -s ../b a/x; ln -s ../../outside b; rm -rf a/y; ln -s b/e a/y",
], ids=lambda s: s[:40])
def test_links_in_place_of_folders(operator, place, script):
    workspace, outside, before = place
    id = operator.change(workspace, script.format(outside=outside))
    apply_all(operator, id)
    assert tree(outside) == before


@pytest.mark.parametrize("first, second", [
    ("rm -rf d; ln -s {outside} d", "echo evil >d/f; echo evil >d/new"),
    ("ln -s {outside} l", "mkdir l; echo evil >l/f; echo evil >l/new"),
    ("rm -rf d; ln -s {outside} d", "rm -rf d"),
    ("rm -rf d; ln -s {outside} d", "rm -rf d; mkdir d; echo evil >d/f"),
    ("rm -rf d/e; ln -s ../../outside/e d/e", "echo evil >d/e/g; chmod 777 d/e/g d/e"),
    ("rm -rf d; ln -s {outside} d", "chmod 777 d; touch d/f; rm d/e/g"),
], ids=lambda s: s[:30])
def test_one_cell_makes_the_link_another_writes_through_it(operator, place, first, second):
    """Both changes are made against the same tree, and applied one after the other."""
    workspace, outside, before = place
    one = operator.change(workspace, first.format(outside=outside))
    two = operator.change(workspace, second.format(outside=outside))
    apply_all(operator, one)
    assert any(os.path.islink(workspace / name) for name in ("d", "l", "d/e"))
    for words in ([two], ["--force", two], ["--force", two, "d"], ["--force", two, "d/f"],
                  ["--force", two, "d/e/g"], ["--force", two, "l/f"]):
        operator.cloister("apply", *words)
    operator.cloister("diff", two)
    assert tree(outside) == before


@pytest.mark.parametrize("swap", ["d", "d/e", "d/f"])
def test_the_host_puts_a_link_there(operator, place, swap):
    workspace, outside, before = place
    id = operator.change(workspace, "echo evil >>d/f; echo evil >>d/e/g; echo evil >d/new; rm file")
    operator.host(f"rm -rf {swap}; ln -s {outside / swap[2:]} {swap}", cwd=workspace)
    apply_all(operator, id)
    assert tree(outside) == before


def test_a_workspace_that_became_a_link(operator, place):
    workspace, outside, before = place
    id = operator.change(workspace, "echo evil >f; echo evil >x; rm -rf d")
    workspace.rename(operator.base / "away")
    workspace.symlink_to(outside)
    apply_all(operator, id)
    operator.cloister("diff", id)
    assert tree(outside) == before


def test_links_inside_a_cell_stay_inside(operator, place):
    workspace, outside, before = place
    done = operator.sh(f"echo $CLOISTER_CELL; ln -s {outside} l; echo evil >l/f; cat l/x; ls /",
                       "-w", workspace)
    operator.kept.add(done.out.split()[0])
    assert "canary" not in done.out and tree(outside) == before


def test_links_that_were_there_before(operator, place):
    """The operator's own link in the workspace: the agent cannot write through it."""
    workspace, outside, before = place
    (workspace / "own").symlink_to(outside)
    (workspace / "file").unlink()
    (workspace / "file").symlink_to(outside / "f")
    done = operator.sh("echo $CLOISTER_CELL; echo evil >own/f; echo evil >file; rm own; mkdir own;"
                       "echo evil >own/f; rm file; echo evil >file; exit 0", "-w", workspace)
    id = done.out.split()[0]
    operator.kept.add(id)
    apply_all(operator, id)
    assert tree(outside) == before
    assert (workspace / "own/f").read_text() == "evil\n" and not (workspace / "own").is_symlink()


def test_names_like_the_temporary_file(operator, place):
    """A file, folder or link under the name that apply writes to first."""
    workspace, outside, before = place
    for what in ("echo x >", "mkdir -p ", f"ln -s {outside}/f "):
        id = operator.change(workspace, "echo evil >>file; echo evil >>d/f;"
                             f"for p in . d; do {what}$p/.cloister-$CLOISTER_CELL.tmp; done")
        operator.cloister("apply", id).ok()
        assert (workspace / "file").read_text().endswith("evil\n")
        assert tree(outside) == before


def test_hard_links_are_not_shared_with_the_host(operator, place):
    """A file of the workspace that has another name outside keeps its contents there."""
    workspace, outside, before = place
    os.unlink(workspace / "file")
    os.link(outside / "f", workspace / "file")
    id = operator.change(workspace, "echo evil >>file; chmod 777 file")
    operator.cloister("apply", "--force", id).ok()
    assert (workspace / "file").read_text() == "canary\nevil\n"
    assert tree(outside) == before


def test_overlay_marks_of_the_agent(operator, place):
    """It may not forge what overlayfs itself would say: what it sees is what is applied."""
    workspace, outside, _ = place
    done = operator.run("-q", "-w", workspace, "--", "/usr/bin/python3", "-Ic", """
import os
for name, value in (('user.overlay.opaque', b'y'), ('user.overlay.redirect', b'/outside'),
                    ('user.overlay.metacopy', b''), ('user.overlay.whiteout', b'y'),
                    ('trusted.overlay.opaque', b'y')):
    for path in ('d', 'file', 'made'):
        if path == 'made' and not os.path.exists(path):
            os.mkdir(path)
        try: os.setxattr(path, name, value)
        except OSError: pass
try: os.mknod('d/f2', 0o20000, 0)
except OSError: pass
print(os.environ['CLOISTER_CELL'])
print(sorted(os.listdir('d')), sorted(os.listdir('.')))
""")
    id, seen = done.ok().splitlines()
    operator.kept.add(id)
    apply_all(operator, id)
    assert str(sorted(os.listdir(workspace / "d"))) in seen
    assert (workspace / "file").read_text() == "old\n" and (workspace / "d/e/g").exists()


@only_user
def test_folders_of_somebody_else(operator, place):
    """The user's rights are all that apply has."""
    if os.geteuid() != 0:
        pytest.skip("wants root to make it")
    workspace, outside, _ = place
    id = operator.change(workspace, "echo evil >>d/f")
    os.chown(workspace / "d", 4321, 4321)
    os.chown(workspace / "d/f", 4321, 4321)
    operator.cloister("apply", "--force", id).sentence("d")
    assert (workspace / "d/f").read_text() == "old\n"
