"""Workspaces where tmpfs keeps no attributes, as before Linux 6.6: changes go to the disk at once.

The mutant build leaves the attributes out on any kernel.
"""
import pytest

from operators import copy_mutant
from trees import tree

FILES = {"a": "one\n", "d/b": "two\n", "d/e/c": "three\n"}
CHANGE = """echo more >>a; rm d/b; mkdir -m 750 n; echo x >n/x; chmod 600 d/e/c; ln -s a l; ln a h; mkfifo f
mv d/e n/e; chmod 0 n/x; mkdir closed; echo y >closed/y; chmod 0 closed"""


@pytest.fixture
def program(ground):
    """In place of the fixture that `operator` uses."""
    return copy_mutant(ground)


def change_and_apply(operator, name, off):
    operator.env["CLOISTER_OFF"] = off
    workspace = operator.folder(name, FILES)
    cell = operator.change(workspace, CHANGE)
    operator.cloister("apply", cell).ok()
    return tree(workspace)


def test_changes_are_kept(operator):
    """As on a kernel that has the attributes."""
    assert change_and_apply(operator, "older", "tmpfs-xattr") == change_and_apply(operator, "newer", "")
