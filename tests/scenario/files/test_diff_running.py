"""The changes of a cell that runs: one moment of it, and no harm to it."""
import json
import re

from operators import wait_until

# Two files that always have the same content, but not between two writes; and things that move.
BUSY = """
import os
os.makedirs("d/e", exist_ok=True)
n = 0
while True:
    n += 1
    for name in ("one", "two"):
        with open(name, "w") as f:
            f.write("%d\\n" % n * 200)
    for kind in (lambda: open("moving", "w").close(), lambda: os.mkdir("moving"), lambda: os.mkfifo("moving"),
                 lambda: os.symlink("/etc/passwd", "moving")):
        kind()
        os.rename("moving", "d/moved")
        os.rmdir("d/moved") if os.path.isdir("d/moved") and not os.path.islink("d/moved") else os.unlink("d/moved")
"""


def test_one_moment_of_a_busy_cell(operator):
    work = operator.folder("work", {"one": "0\n", "two": "0\n"})
    id = operator.detach("-w", work, "--", "/usr/bin/python3", "-Ic", BUSY)
    can_freeze = operator.cell(id)["can_freeze"]
    state = operator.state / next(name for name in operator.names(operator.state) if name.startswith(id))

    def numbers():
        said = operator.cloister("diff", id)
        assert said.status == 0, said
        return said.out.split("\n", 1)[0], {int(n) for n in re.findall(r"^\+(\d+)$", said.out, re.M)}
    wait_until(lambda: numbers()[1], "its first change")
    last = 0
    for _ in range(5):
        first, found = numbers()
        assert re.match(rf"# cell {id} still runs; as of \d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d: ", first), first
        assert "it was frozen" in first or not can_freeze
        # Each file is whole, and the two are at most one write apart.
        if "they may not fit together" not in first:
            assert len(found) <= 2 and max(found) - min(found) <= 1 and min(found) >= last, found
            last = max(found)
        assert not [name for name in operator.names(state) if name.startswith("now")]
    # It goes on, and nobody else noticed.
    assert operator.cell(id)["state"] == "running"
    assert "frozen" not in operator.cloister("events", id).out
    operator.cloister("apply", id).sentence("still running")
    # What one that was killed has left is removed by the next.
    operator.do("mkdir", state / "now.999999999").ok()
    operator.cloister("diff", id).ok()
    assert not [name for name in operator.names(state) if name.startswith("now")]
    # For programs, on their own streams.
    said = operator.cloister("diff", "--json", id)
    assert {"one", "two"} <= {c["path"] for c in json.loads(said.out) if c["as_of"] > 1.7e9}
    assert said.err.startswith(f"cloister: cell {id} still runs")

    # At its end, the changes are the real ones.
    operator.cloister("kill", id).ok()
    assert not operator.cloister("diff", id).ok().startswith("#")
    assert all("as_of" not in c for c in json.loads(operator.cloister("diff", "--json", id).ok()))


def test_a_quiet_cell_and_a_frozen_one(operator):
    work = operator.folder("work", {"kept": "", "gone": ""})
    id = operator.detach("-w", work, "--", "sh", "-c", "rm gone; mkdir new; echo x >new/file; exec sleep 1000")
    want = "D gone\nA new/\nA new/file\n"
    wait_until(lambda: operator.cloister("diff", "--name-status", id).out == want, "its changes")
    said = operator.cloister("diff", "--name-status", id)
    if not operator.cell(id)["can_freeze"]:
        assert "nothing was changed while" in said.err
        return
    operator.cloister("freeze", id).ok()
    said = operator.cloister("diff", "--name-status", id)
    assert said.out == want and "it was frozen" in said.err
    # It stays so.
    assert operator.cell(id)["state"] == "frozen"
