"""`pause` and `resume` where there is no virtual machine."""
import json

from operators import only_root


@only_root
def test_other_walls_have_a_sentence(operator):
    id = operator.detach("--", "sleep", "1000")
    done = operator.cloister("pause", id)
    assert done.status == 125 and done.err == (
        f"cloister: a cell with the boundary `{operator.cell(id)['boundary']}` cannot be paused: only `microvm` can; "
        "`cloister freeze` stops it and keeps its memory\n")
    done = operator.cloister("resume", id)
    assert done.status == 125 and done.err == "cloister: the cell is not paused: `cloister ps` shows its state\n"
    assert operator.cell(id)["state"] == "running"


def test_a_cell_that_is_not_there(operator):
    for verb in "pause", "resume":
        assert operator.cloister(verb).err == f"cloister: no cell is given: cloister {verb} CELL..., or cloister {verb} --all\n"
        assert "there is no cell 'nobody'" in operator.cloister(verb, "nobody").err


def test_doctor_tells_what_can_be_paused(operator):
    said = operator.cloister("doctor").out
    assert "`cloister pause` works for --boundary microvm with QEMU" in said or "virtual machines" in said


def test_idle_pause_needs_walls_that_can(operator):
    """It is refused before there is a cell, and so is a time that is none, and a cell in the foreground."""
    done = operator.run("-d", "--idle-pause", "10m", "--", "sleep", "1000")
    assert done.status == 125 and "--idle-pause does not work with the boundary `" in done.err
    assert "use --boundary microvm" in done.err and operator.cells() == []
    assert "'0' must be greater than 0" in operator.run("-d", "--idle-pause", "0", "--", "true").err
    assert "add -d" in operator.run("--idle-pause", "1m", "--", "true").err
    doc = operator.cloister("run", "-d", "--idle-pause", "90s", "--print-doc", "--", "true").ok()
    assert json.loads(doc)["limits"]["idle_pause_ms"] == 90000


def test_all_are_those_that_can(operator):
    """A cell of other walls is none of them, and runs on."""
    id = operator.detach("--", "sleep", "1000")
    boundary = operator.cell(id)["boundary"]
    if boundary != "microvm":
        assert operator.cloister("pause", "--all").ok() == "paused 0 cells\n"
        assert operator.cloister("resume", "--all").ok() == "resumed 0 cells\n"
    assert operator.cell(id)["state"] == "running"
    assert "remove" in operator.cloister("pause", "--all", id).err
