"""`diff` of many files: one process reads them all, and says what diff(1) and git say."""
import os
import random
import re

import pytest

from operators import IS_STATIC, wait_until

N = 300


def edited(dice, lines):
    """LINES with a few edits of the kinds that people make."""
    lines = list(lines)
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(lines) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            lines[at:at] = [f"new {dice.random()}\n" for _ in range(dice.randrange(1, 5))]
        elif kind == 1:
            del lines[at:at + dice.randrange(1, 5)]
        elif kind == 2:
            lines[at:at + 1] = [f"changed {dice.random()}\n"]
        else:
            lines[at:at] = lines[at:at + dice.randrange(1, 6)]
    return lines


@pytest.fixture
def trees(operator):
    """A workspace, and what becomes of it."""
    dice = random.Random(7)
    old, new = {}, {}
    for i in range(N):
        lines = [f"{dice.choice(['{', '}', '', 'return;', f'line {dice.randrange(40)}'])}\n"
                 for _ in range(dice.randrange(0, 80))]
        old[f"d{i % 7}/f{i}"] = "".join(lines)
        new[f"d{i % 7}/f{i}"] = "".join(edited(dice, lines))
    return operator.folder("workspace", old), operator.folder("new", new)


def changed(operator, trees):
    workspace, new = trees
    return operator.change(workspace, "cp -r /mnt/new/. .", "-v", f"{new}:/mnt/new:ro")


def test_patch_makes_the_same_of_it(operator, trees):
    workspace, new = trees
    id = changed(operator, trees)
    operator.file("patch", operator.cloister("diff", id).ok())
    twin = operator.folder("twin")
    operator.host(f"cp -r {workspace}/. {twin}; cd {twin}; patch -s -p1 <../patch; find . -name '*.orig' -delete")
    assert operator.do("diff", "-r", twin, new).ok() == ""


def test_no_more_lines_than_necessary(operator, trees):
    workspace, new = trees
    id = changed(operator, trees)
    said = operator.cloister("diff", "--stat", id).ok()
    minimal = operator.do("diff", "-rd", workspace, new).out
    added, removed = (len(re.findall(f"^{sign}", minimal, re.M)) for sign in (">", "<"))
    assert f" {added} insertions(+), {removed} deletions(-)\n" in said


def test_one_process_reads_them_all(operator, trees):
    id = changed(operator, trees)
    done = operator.do("strace", "-f", "-qq", "-e", "trace=clone,clone3,fork,vfork", operator.program, "diff", id)
    if "ptrace" in done.err and done.status != 0:
        pytest.skip("no strace here")
    assert len(re.findall(r"(?:clone3?|v?fork)\(", done.err)) <= 2, done.err


def test_the_reader_is_confined(operator):
    """While it reads: no other root, network or file of the operator's, no privileges."""
    workspace = operator.folder("workspace", {"a": "old\n"})
    id = operator.change(workspace, "echo new >a; seq 300000 | sed 's/$/ and more/' >b")
    read, write = os.pipe()
    process = operator.spawn(operator.program, "diff", id, stdout=write)
    os.close(write)
    try:
        # Its output is not read: it waits.
        reader = wait_until(lambda: [p for p in os.listdir("/proc") if p.isdigit() and is_reader(p, process.pid)],
                            "it reads")[0]
        wait_until(lambda: "\nSeccomp:\t2\n" in status(reader), "it is confined")
        assert "\nNoNewPrivs:\t1\n" in status(reader) and "\nCapEff:\t0000000000000000\n" in status(reader)
        if os.geteuid() == 0:
            assert os.listdir(f"/proc/{reader}/root") == []
            assert os.readlink(f"/proc/{reader}/ns/net") != os.readlink("/proc/self/ns/net")
    finally:
        while os.read(read, 1 << 20):
            pass
        os.close(read)
    assert process.wait() == 0


def is_reader(pid, parent):
    try:
        text = status(pid)
    except OSError:
        return False
    return text.startswith("Name:\tcloister-compar") and f"\nPPid:\t{parent}\n" in text


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return file.read()


@pytest.mark.skipif(not IS_STATIC, reason="the sanitizers need more memory")
def test_a_file_too_large_for_it(operator):
    """One file is not compared; those behind it are."""
    workspace = operator.folder("workspace", {"a": "a\n", "b": "b\n", "c": "c\n"})
    id = operator.change(workspace, "for f in a b c; do echo x >>$f; done; yes 'some line' | head -c 100M >b")
    done = operator.do("prlimit", f"--as={80 << 20}", operator.program, "diff", "--stat", id)
    assert done.status == 125 and "1 file could not be shown" in done.err, done
    assert re.search(r"^ a +\| +1 \+$", done.out, re.M) and re.search(r"^ c +\| +1 \+$", done.out, re.M), done
    assert "not compared" in done.out
