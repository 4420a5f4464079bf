"""`cloister audit`: whatever is done to a timeline is found, and said where.

The timelines here are written by audit_world.py, which shares nothing with cloister but
docs/audit-format.md; the proofs and statements (docs/audit.md) are checked likewise."""
import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: E402

from audit_world import Key, Timeline, canonical    # noqa: E402
from operators import CLOISTER, TREE, Result, is_alive, status_of, wait_until  # noqa: E402

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def number_id(n):
    """The Nth id of a cell."""
    return "".join(LETTERS[n >> 5 * i & 31] for i in range(7, -1, -1))


def small(cell, key=None, n=6, clock=0):
    """A timeline of a few records: some signed, the last one a checkpoint."""
    timeline = Timeline(f"cell/{cell}", key or Key())
    timeline.clock = clock
    for i in range(n):
        timeline.add({"type": "http", "verdict": "allow" if i else "deny", "host": "ä\n\"x.example",
                      "status": 200 + i, "nested": {"a": [1, True, None]}})
        if i == n // 2:
            timeline.checkpoint()
    timeline.checkpoint()
    return timeline


class World:
    """The folders of an operator, filled by hand."""

    def __init__(self, base):
        self.state, self.audit = base / "state", base / "data" / "audit"
        for folder in (base, base / "data", self.state, self.audit):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(base),
                    "CLOISTER_STATE_DIR": str(self.state), "CLOISTER_DATA_DIR": str(base / "data"),
                    "CLOISTER_RUNTIME_DIR": str(base / "runtime")}
        self.key = Key()
        self.operator = Timeline("operator", self.key)
        self.operator.add({"type": "log.begun", "key": self.key.hex})

    def start(self, timeline):
        self.operator.add({"type": "cell.started", "cell": timeline.timeline[5:],
                           "key": timeline.key.hex, "grant": "sha256:" + "5" * 64})

    def end(self, timeline, kind="cell.ended", **more):
        self.operator.add({"type": kind, "cell": timeline.timeline[5:],
                           "head": timeline.head.hex(), "root": timeline.tree.root().hex(),
                           "size": timeline.tree.size, **more})

    def keep(self, timeline, data=None, cell=None, name="events.jsonl"):
        folder = self.state / f"{cell or timeline.timeline[5:]}."
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / name).write_bytes(timeline.bytes() if data is None else data)
        return folder / name

    def cell(self, cell="abcdefgh", data=None):
        """An ended one, noted and kept."""
        timeline = small(cell)
        self.start(timeline)
        self.end(timeline, status=0)
        self.keep(timeline, data and data(timeline.bytes()))
        return timeline

    def finish(self):
        """Write the operator's timeline to disk."""
        self.operator.checkpoint()
        (self.audit / "key").write_bytes(self.key.seed)
        (self.audit / "key").chmod(0o600)
        (self.audit / "operator.jsonl").write_bytes(self.operator.bytes())
        self.keep_head()

    def keep_head(self):
        head = {"head": self.operator.head.hex(), "log": "operator", "n": self.operator.tree.size}
        (self.audit / "operator.head").write_text(canonical(head) + "\n")

    def cloister(self, *words, **how):
        run = subprocess.run([CLOISTER, *map(str, words)], env=self.env, capture_output=True,
                             timeout=120, **how)
        return Result(run.returncode, run.stdout.decode(), run.stderr.decode())

    def verify(self, *words):
        """{timeline: what was said of it}; the exit status must agree."""
        run = self.cloister("audit", "verify", "--json", *words)
        assert run.status in (0, 1) and run.err == "", run
        said = json.loads(run.out)
        found = [t["finding"] for t in said["timelines"] if t["finding"]]
        assert said["sound"] == (not found) == (run.status == 0), run
        return {t["timeline"]: t for t in said["timelines"]}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "w")


@pytest.mark.parametrize("words", [("show", "abcdefgh"), ("export", "--all")])
def test_the_reader_of_timelines_is_locked_down(world, words):
    """Agents have written in them. The reader is examined while its output is blocked."""
    timeline = small("abcdefgh", n=2000)
    world.start(timeline)
    world.end(timeline, status=0)
    world.keep(timeline)
    world.finish()
    with subprocess.Popen([CLOISTER, "audit", *words], env=world.env, stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1)
        status = status_of(process.pid)
        process.stdout.read()
    assert (status["Name"], status["NoNewPrivs"], status["Seccomp"]) == ("cloister-audit", "1", "2")
    assert process.returncode == 0


# ---- what is as it was ----

def test_a_file_that_is_not_a_timeline_is_named(world, tmp_path):
    """Its first line does not identify its owner."""
    (tmp_path / "o\x1bdd.json").write_text("{}\n")
    said = world.cloister("audit", "verify", tmp_path / "o\x1bdd.json")
    assert said.status == 1 and said.out.startswith("o\\x1bdd.json: changed\n"), said


def test_a_timeline_by_another_writer_is_sound(world):
    timeline = world.cell()
    world.finish()
    seen = world.verify()
    assert seen["cell/abcdefgh"]["records"] == seen["cell/abcdefgh"]["signed"] == 8
    assert seen["cell/abcdefgh"]["state"] == "ended"
    assert seen["operator"]["records"] == 4
    text = world.cloister("audit", "verify").ok()
    assert "cell/abcdefgh: sound, ended, 8 records\n" in text
    assert world.cloister("audit", "show", "abcdefgh").ok().encode() == timeline.bytes()
    assert world.cloister("audit", "export", "--all").ok().encode() == timeline.bytes()
    assert world.cloister("audit", "export", "--operator").ok().encode() == world.operator.bytes()
    assert world.cloister("audit", "show", "abcdefgh", "3").ok().encode() == \
        timeline.lines[2] + b"\n"
    assert world.cloister("audit", "show", "--json", "abcdefgh").ok().encode() == timeline.bytes()
    world.cloister("audit", "show", "abcdefgh", "99").sentence("no record 99", "the last one is 8")
    world.cloister("audit", "show", "nosuch").sentence("'nosuch'", "audit verify")
    assert world.cloister("audit", "key").ok() == world.key.hex + "\n"


def test_files_that_were_turned_over_are_one_timeline(world):
    timeline = Timeline("cell/abcdefgh", Key())
    world.start(timeline)
    parts = []
    for part in range(12):
        begun = len(timeline.lines)
        if part:
            timeline.checkpoint()
        for i in range(5):
            timeline.add({"type": "x", "i": i})
        parts.append(b"".join(line + b"\n" for line in timeline.lines[begun:]))
    timeline.add({"type": "records.dropped", "through": 5})
    timeline.checkpoint()
    for i, data in enumerate(parts, 1):
        world.keep(timeline, data, name=f"events.jsonl.{i}")
    last = b"".join(line + b"\n" for line in timeline.lines[-2:])
    newest = world.keep(timeline, last)
    world.end(timeline, status=0)
    world.finish()
    assert world.verify()["cell/abcdefgh"]["finding"] is None
    assert world.cloister("audit", "show", "abcdefgh").ok().encode() == timeline.bytes()
    # The first file is said to be gone, and may be.
    (newest.parent / "events.jsonl.1").unlink()
    seen = world.verify()["cell/abcdefgh"]
    assert seen["finding"] is None and seen["first"] == 6
    # The second is not.
    second = (newest.parent / "events.jsonl.2").read_bytes()
    (newest.parent / "events.jsonl.2").unlink()
    assert world.verify()["cell/abcdefgh"]["finding"]["what"] == "removed"
    (newest.parent / "events.jsonl.2").write_bytes(second)
    (newest.parent / "events.jsonl.3").unlink()
    finding = world.verify()["cell/abcdefgh"]["finding"]
    assert finding["what"] == "removed" and finding["file"].endswith("events.jsonl.4")
    assert finding["record"] == 12
    # However many there seem to be.
    (newest.parent / "events.jsonl.4294967294").touch()
    assert world.verify()["cell/abcdefgh"]["finding"] == finding


def test_a_crash_is_not_tampering(world):
    """A killed writer leaves half a line at the end."""
    lost, running = small("abcdefgh"), small("bcdefghi")
    for timeline in (lost, running):
        world.start(timeline)
        world.keep(timeline, timeline.bytes() + b'{"cell":"abcd')
    world.end(lost, "cell.lost")
    world.finish()
    with open(world.audit / "operator.jsonl", "ab") as out:
        out.write(b'{"event":')
    seen = world.verify()
    assert [t["finding"] for t in seen.values()] == [None] * 3
    assert [t["torn_bytes"] for t in seen.values()].count(13) == 2
    assert seen["operator"]["torn_bytes"] == 9
    assert "as a crash leaves it" in world.cloister("audit", "verify").ok()


def test_a_timeline_from_before_is_left_alone(world):
    world.keep(small("abcdefgh"), b'{"n":1,"time":"x","cell":"abcdefgh"}\n')
    world.finish()
    assert list(world.verify()) == ["operator"]
    assert "1 timeline cannot be verified" in world.cloister("audit", "verify").ok()


# ---- what is not ----

def variants_of(data, lines):
    """Possible damages to a timeline: (name, bytes, line where it shows)."""
    ends = [i for i, byte in enumerate(data) if byte == 10]
    for at in range(len(data)):
        line = 1 + sum(end < at for end in ends)
        for flip in (1, 0x20):
            yield f"byte {at} ^ {flip}", data[:at] + bytes([data[at] ^ flip]) + data[at + 1:], line
        yield f"cut at {at}", data[:at], None
    for i in range(len(lines)):
        rest = lines[:i] + lines[i + 1:]
        yield f"record {i + 1} removed", rest, None
        for k in range(len(lines) + 1):
            yield f"record {i + 1} again at {k}", lines[:k] + [lines[i]] + lines[k:], None
        for k in range(i):
            swapped = list(lines)
            swapped[i], swapped[k] = swapped[k], swapped[i]
            yield f"records {k + 1} and {i + 1} swapped", swapped, k + 1


def joined(data):
    return data if isinstance(data, bytes) else b"".join(line + b"\n" for line in data)


def test_every_change_of_a_cells_timeline_is_found(world):
    """Each of thousands of cells has had something done to it; one has not."""
    wanted, key = {}, Key()
    model = small("aaaaaaaa", key, n=3)
    cases = [("untouched", model.bytes(), None), *variants_of(model.bytes(), model.lines)]
    assert len(cases) > 5000
    # A change of the model, moved to a cell of its own: ids are of one length, so places stay.
    for i, (name, data, line) in enumerate(cases):
        timeline = small(number_id(i), key, n=3)
        world.start(timeline)
        world.end(timeline, status=0)
        lines = {old: new for old, new in zip(model.lines, timeline.lines)}
        if isinstance(data, list):
            data = [lines[line_] for line_ in data]
        elif name != "untouched":
            at = int(name.split()[-1] if name.startswith("cut") else name.split()[1])
            own = timeline.bytes()
            assert len(own) == len(model.bytes())
            data = own[:at] if name.startswith("cut") else \
                own[:at] + bytes([own[at] ^ int(name.split()[-1])]) + own[at + 1:]
        else:
            data = timeline.bytes()
        world.keep(timeline, joined(data))
        wanted[timeline.timeline] = name, line
    world.finish()
    seen = world.verify()
    assert len(seen) == len(cases) + 1
    missed = [name for cell, (name, _) in wanted.items() if seen[cell]["finding"] is None]
    assert missed == ["untouched"]
    # And it is where it is said to be.
    for cell, (name, line) in wanted.items():
        finding = seen[cell]["finding"]
        if line is not None:
            assert finding["line"] in (line, line + 1), (name, finding)
            assert f"/{cell[5:]}./events.jsonl" in finding["file"]
        # A record that comes once more before its place is one too early, as far as one can see.
        kinds = {"cut": {"truncated"}, "record": {"removed", "added", "truncated", "reordered"},
                 "records": {"reordered", "removed"}}
        if name.split()[0] in kinds:
            assert finding["what"] in kinds[name.split()[0]], (name, finding)


def test_every_change_of_the_operators_timeline_is_found(world, tmp_path):
    world.cell()
    world.finish()
    data = world.operator.bytes()
    path = world.audit / "operator.jsonl"
    missed = []
    # The bytes that each line ends and begins with, and some between; and where it is cut.
    for name, changed, _ in variants_of(data, world.operator.lines):
        if name.startswith(("byte", "cut")) and int(name.split()[-1 if name[0] == "c" else 1]) % 61:
            continue
        path.write_bytes(joined(changed))
        if world.verify("--operator")["operator"]["finding"] is None:
            missed.append(name)
    assert missed == []
    path.write_bytes(data)
    assert world.verify("--operator")["operator"]["finding"] is None
    # Nor may the note of its end be taken away, or be another.
    world.operator.checkpoint()
    path.write_bytes(world.operator.bytes())
    world.keep_head()
    head = (world.audit / "operator.head").read_bytes()
    for at in range(len(head)):
        (world.audit / "operator.head").write_bytes(head[:at] + bytes([head[at] ^ 1]) + head[at + 1:])
        assert world.verify("--operator")["operator"]["finding"], at
    (world.audit / "operator.head").unlink()
    assert world.verify("--operator")["operator"]["finding"]["what"] == "missing"


def test_a_forger_without_the_key_is_found(world):
    """Records changed, and all hashes behind them made to fit."""
    timeline = world.cell()
    world.finish()
    events = [json.loads(line)["event"] for line in timeline.lines]
    for sign in ("keep", "own", "lie"):
        key = Key()
        if sign == "lie":               # signed by somebody else, in the cell's name
            key.hex = timeline.key.hex
        forger = Timeline("cell/abcdefgh", key)
        for event in events:
            if event["type"] == "checkpoint" and sign != "keep":
                forger.checkpoint()
            else:
                forger.add(dict(event, status=299) if event.get("status") == 201 else event)
        path = world.keep(forger)
        finding = world.verify("abcdefgh")["cell/abcdefgh"]["finding"]
        assert finding["what"] == ("swapped" if sign == "own" else "changed"), finding
        assert sign != "lie" or "signature" in finding["message"]
        alone = world.cloister("audit", "verify", path, "--key", timeline.key.hex)
        assert alone.status == 1
        if sign == "own":
            by_itself = world.cloister("audit", "verify", path)
    # By itself, without the key, it is as good as the true one: that is what the key is for.
    assert "by the key it names itself" in by_itself.ok()


def test_files_of_cells_that_changed_places_are_found(world):
    one, two = small("abcdefgh"), small("bcdefghi")
    for timeline in (one, two):
        world.start(timeline)
        world.end(timeline, status=0)
    world.keep(one, two.bytes())
    world.keep(two, one.bytes())
    stranger = small("cdefghij")
    world.keep(stranger)
    world.finish()
    seen = world.verify()
    assert seen["cell/abcdefgh"]["finding"]["what"] == "swapped"
    assert seen["cell/bcdefghi"]["finding"]["what"] == "swapped"
    assert seen["cell/cdefghij"]["finding"]["what"] == "swapped"
    assert "has no start of a cell" in seen["cell/cdefghij"]["finding"]["message"]


def test_a_timeline_that_is_gone_is_missed(world):
    gone, pruned = small("abcdefgh"), small("bcdefghi")
    for timeline in (gone, pruned):
        world.start(timeline)
        world.end(timeline, status=0)
    world.operator.add({"type": "cell.pruned", "cell": "bcdefghi", "why": "retention"})
    world.finish()
    seen = world.verify()
    assert set(seen) == {"operator", "cell/abcdefgh"}
    finding = seen["cell/abcdefgh"]["finding"]
    assert finding["what"] == "missing"
    assert world.verify("abcdefgh")["cell/abcdefgh"]["finding"] == finding
    # Where it was, but for the cell's name.
    assert finding["file"] == str(world.state / "abcdefgh.*" / "events.jsonl")
    world.cloister("audit", "verify", "bcdefghi")


def test_other_files_in_a_timelines_place_are_found(world):
    """Known cells: each has something under its name that is not its timeline."""
    cells = [world.cell(number_id(i)) for i in range(3)]
    never_ended = small(number_id(3))
    world.start(never_ended)
    world.finish()
    folders = [world.state / f"{number_id(i)}." for i in range(3)]
    # One that claims to be from before there were records, a link, and a file.
    (folders[0] / "events.jsonl").write_bytes(b'{"n":1,"time":"x","cell":"%s"}\n'
                                              % number_id(0).encode())
    for folder in folders[1:]:
        (folder / "events.jsonl").unlink()
        folder.rmdir()
    folders[1].symlink_to(folders[0])
    folders[2].touch()
    what = {name[5:]: t["finding"] and t["finding"]["what"] for name, t in world.verify().items()
            if name != "operator"}
    assert what == {number_id(0): "changed", number_id(1): "missing", number_id(2): "missing",
                    number_id(3): "missing"}
    # Somebody has it still, and puts it back.
    world.keep(never_ended)
    (folders[0] / "events.jsonl").write_bytes(cells[0].bytes())
    seen = world.verify()
    assert seen[f"cell/{number_id(0)}"]["finding"] is None
    assert seen[f"cell/{number_id(3)}"]["finding"] is None


def spoil(path, how):
    """Put something that is not a timeline in the place of one."""
    path.unlink()
    if how == "link":
        path.symlink_to("/dev/null")
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    else:
        path.touch(mode=0)


ODD = ["link", "fifo", "folder", pytest.param("mode", marks=pytest.mark.skipif(
    os.geteuid() == 0, reason="root may read everything"))]


@pytest.mark.parametrize("how", ODD)
@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.1"])
def test_an_odd_file_is_found_and_hides_no_other(world, how, name):
    cells = [number_id(i) for i in range(4)]
    for cell in cells:
        world.cell(cell)
    changed = small(cells[3])
    world.keep(changed, b"x")
    world.finish()
    path = world.state / f"{cells[1]}." / name
    path.touch()
    spoil(path, how)
    seen = world.verify("--all")
    assert set(seen) == {"operator", *(f"cell/{cell}" for cell in cells)}
    finding = seen[f"cell/{cells[1]}"]["finding"]
    assert (finding["what"], finding["file"], finding["record"]) == ("unreadable", str(path), 0)
    assert [seen[f"cell/{cells[i]}"]["finding"] for i in (0, 2)] == [None, None]
    assert seen[f"cell/{cells[3]}"]["finding"]["what"] == "truncated"
    assert world.verify(cells[1])[f"cell/{cells[1]}"]["finding"] == finding
    said = world.cloister("audit", "verify")
    assert said.status == 1 and f"cell/{cells[1]}: unreadable\n  {path}: " in said.out, said


def keep_in_three(world, record):
    """A timeline that was turned over twice; which lines are in which file."""
    lines = record.lines
    files = {"events.jsonl.1": lines[:3], "events.jsonl.2": lines[3:6], "events.jsonl": lines[6:]}
    for file, part in files.items():
        world.keep(record, joined(part), name=file)
    return files


@pytest.mark.parametrize("how", ODD)
@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.1", "events.jsonl.2"])
def test_an_odd_file_hides_nothing_else_from_readers(world, how, name):
    """Readable records are shown and exported, and then the unreadable ones are reported."""
    cells = {cell: world.cell(cell) for cell in map(number_id, range(3))}
    world.finish()
    odd = number_id(1)
    files = keep_in_three(world, cells[odd])
    spoil(world.state / f"{odd}." / name, how)
    left = b"".join(joined(part) for file, part in files.items() if file != name)
    for words in (("show", odd), ("export", odd)):
        done = world.cloister("audit", *words)
        assert (done.status, done.out.encode()) == (125, left) and done.err.count("\n") == 1, done
        assert f"'{name}'" in done.err, done
    others = cells[number_id(0)].bytes(), cells[number_id(2)].bytes()
    for words in (("--all",), cells):
        done = world.cloister("audit", "export", *words)
        assert done.status == 125 and f"cell '{odd}'" in done.err and f"'{name}'" in done.err, done
        assert all(part in done.out.encode() for part in (left, *others)), done
        assert len(done.out.encode()) == len(left + b"".join(others))
    # One record is shown where it is.
    n = 8 if name != "events.jsonl" else 1
    assert world.cloister("audit", "show", odd, n).ok().encode() == cells[odd].lines[n - 1] + b"\n"
    spoil(world.state / f"{number_id(2)}." / "events.jsonl", how)
    done = world.cloister("audit", "export", "--all")
    assert done.status == 125 and "2 timelines are not sound" in done.err, done


@pytest.mark.parametrize("name", ["events.jsonl.1", "events.jsonl.2"])
def test_half_a_line_hides_nothing_behind_it_from_readers(world, name):
    """In an older file it is damage; in the newest file it is the normal result of a crash."""
    cells = {cell: world.cell(cell) for cell in map(number_id, range(2))}
    world.finish()
    torn = number_id(0)
    files = keep_in_three(world, cells[torn])
    with open(world.state / f"{torn}." / name, "r+b") as f:
        f.truncate(len(joined(files[name])) - 9)
    left = b"".join(joined(part[:-1] if file == name else part) for file, part in files.items())
    for words in (("show", torn), ("export", torn)):
        done = world.cloister("audit", *words)
        assert (done.status, done.out.encode()) == (125, left) and done.err.count("\n") == 1, done
        assert f"'{name}' ends in half a line" in done.err, done
    done = world.cloister("audit", "export", "--all")
    assert done.status == 125 and f"cell '{torn}'" in done.err, done
    assert len(done.out.encode()) == len(left + cells[number_id(1)].bytes()), done
    assert world.cloister("audit", "show", torn, 8).ok().encode() == cells[torn].lines[7] + b"\n"
    world.keep(cells[torn], joined(files[name]), name=name)
    with open(world.state / f"{torn}." / "events.jsonl", "ab") as f:
        f.write(b'{"at"')
    assert world.cloister("audit", "show", torn).ok().encode() == cells[torn].bytes()


@pytest.mark.parametrize("how", ODD)
def test_an_odd_file_in_the_operators_place_is_found(world, how):
    """Cells are then reported as unverifiable, not as swapped."""
    world.cell()
    world.finish()
    path = world.audit / "operator.jsonl"
    spoil(path, how)
    seen = world.verify("--all")
    finding = seen["operator"]["finding"]
    assert (finding["what"], finding["file"]) == ("unreadable", str(path))
    assert seen["cell/abcdefgh"]["finding"]["what"] == "untied"


def test_cells_are_not_to_blame_for_the_operators_timeline(world):
    """One record of it is gone: cells behind that cannot be tied to it, those before it can."""
    world.cell("abcdefgh")
    pruned = small("cdefghij")
    world.start(pruned)
    world.cell("bcdefghi")
    world.end(pruned, status=0)
    world.operator.add({"type": "cell.pruned", "cell": "cdefghij", "why": "retention"})
    world.finish()
    lines = list(world.operator.lines)
    del lines[4]
    (world.audit / "operator.jsonl").write_bytes(joined(lines))
    seen = world.verify()
    assert seen["operator"]["finding"]["what"] == "removed" and seen["operator"]["records"] == 4
    assert seen["cell/abcdefgh"]["finding"] is None
    finding = seen["cell/bcdefghi"]["finding"]
    assert finding["what"] == "untied" and "the operator's timeline, which is not sound" in finding["message"]
    finding = seen["cell/cdefghij"]["finding"]
    assert finding["what"] == "missing" and "it is unknown" in finding["message"]
    # What was done to a cell's own is told of it as ever.
    world.keep(small("bcdefghi"), small("bcdefghi").bytes().replace(b'"status":201', b'"status":202'))
    assert world.verify()["cell/bcdefghi"]["finding"]["what"] == "changed"
    # All of it gone, with the key: nothing is known of anybody.
    for path in world.audit.iterdir():
        path.unlink()
    finding = world.verify()["cell/abcdefgh"]["finding"]
    assert finding["what"] == "untied" and "no operator's timeline" in finding["message"]


def test_the_sound_part_ends_before_the_change(world):
    timeline = world.cell()
    world.finish()
    for n in (2, 3):
        changed = timeline.lines[n - 1].replace(b'"type":"http"', b'"type":"httq"')
        world.keep(timeline, joined([*timeline.lines[:n - 1], changed, *timeline.lines[n:]]))
        seen = world.verify("abcdefgh")["cell/abcdefgh"]
        assert (seen["finding"]["record"], seen["records"]) == (n, n - 1)
        assert f"sound before that: {n - 1} record{'s' if n > 2 else ''}, of" in world.cloister("audit", "verify").out


@pytest.mark.parametrize("key", [None, b"", bytes(31)], ids=["gone", "empty", "short"])
def test_an_operators_key_that_is_gone_is_missed(world, key):
    """Without it whoever wrote a timeline vouches for it."""
    world.cell()
    world.key = world.operator.key = Key()
    world.finish()
    (world.audit / "key").unlink()
    if key is not None:
        (world.audit / "key").write_bytes(key)
        (world.audit / "key").chmod(0o600)
    finding = world.verify()["operator"]["finding"]
    assert finding["what"] == "missing" and finding["file"].endswith("/key")


def test_cells_of_one_id_are_distinguished(world):
    """A chosen id can be chosen again; the earlier cell is kept among the ended ones."""
    cells = []
    for i in range(3):
        timeline = small("abcdefgh", n=4 + i)
        world.start(timeline)
        world.end(timeline, status=i)
        folder = world.state / "ended" if i < 2 else world.state
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / ("abcdefgh.2" if i == 1 else "abcdefgh.")
        path.mkdir(mode=0o700)
        (path / "events.jsonl").write_bytes(timeline.bytes())
        cells.append((timeline, path))
    world.finish()

    def findings():
        said = json.loads(world.cloister("audit", "verify", "--json").out)
        return [t["finding"] and t["finding"]["what"] for t in said["timelines"][1:]]

    assert findings() == [None] * 3
    # An older one in the place of a newer is sound, but the newer is missing.
    for older, newer in ((0, 1), (0, 2), (1, 2), (1, 0)):
        (cells[newer][1] / "events.jsonl").write_bytes(cells[older][0].bytes())
        assert sorted(map(str, findings())) == ["None"] * 3 + ["missing"]
        (cells[newer][1] / "events.jsonl").write_bytes(cells[newer][0].bytes())
    statements = world.cloister("audit", "export", "--all", "--format", "dsse").ok().splitlines()
    heads = {json.loads(base64.b64decode(json.loads(line)["payload"]))["subject"][0]["digest"]["sha256"]
             for line in statements}
    assert heads == {timeline.head.hex() for timeline, _ in cells}
    # One of them is gone, then that is noted.
    (cells[0][1] / "events.jsonl").unlink()
    cells[0][1].rmdir()
    assert sorted(map(str, findings())) == ["None", "None", "missing"]
    world.operator.add({"type": "cell.pruned", "cell": "abcdefgh", "why": "retention"})
    world.finish()
    assert findings() == [None] * 2


# ---- the policy beside it ----

def with_policy(world, text, later=(), used=True, stopped=False, end="cell.ended"):
    """A cell that was given a policy, perhaps others later: the file is the newest."""
    timeline = Timeline("cell/abcdefgh", Key())
    world.start(timeline)
    grant = {"argv": ["x"]} if text is None else {"argv": ["x"], "policy": name_of(text)}
    timeline.add({"type": "cell.boot", "grant": grant})
    if used:
        timeline.add({"type": "http", "verdict": "allow", "host": '","policy":"sha256:0'})
    if stopped:
        timeline.add({"type": "cell", "did": "egress stopped", "note": "no room"})
    for before, text_ in zip((text, *later), later):
        timeline.add({"type": "steer", "did": "allow", "policy": name_of(text_), "before": name_of(before)})
    timeline.add({"type": "steer", "did": "ttl", "ttl_ms": 1000})
    timeline.checkpoint()
    if end:
        world.end(timeline, end, status=0)
    path = world.keep(timeline).parent / "policy"
    world.finish()
    return path


def name_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def policy_finding(world):
    finding = world.verify()["cell/abcdefgh"]["finding"]
    return finding and (finding["what"], Path(finding["file"]).name)


@pytest.mark.parametrize("later", [(), (b"two",), (b"two", b"three")])
def test_the_policy_is_the_newest_in_the_records(world, later):
    texts = (b"one", *later)
    path = with_policy(world, b"one", later)
    for text in (*texts, texts[-1] + b"x", b"", b"x" * (9 << 20)):
        path.write_bytes(text)
        assert policy_finding(world) == (None if text == texts[-1] else ("changed", "policy")), text[:9]
    for how in ("link", "fifo", "folder"):
        if path.exists():
            path.rename(path.with_name("policy.away"))
        path.touch()
        spoil(path, how)
        assert policy_finding(world) == ("unreadable", "policy")
        path.rename(path.with_name(f"was a {how}"))
    # Where it was changed there may have been no room for the newer one.
    assert policy_finding(world) == (None if later else ("missing", "policy"))
    assert later or name_of(b"one") in world.verify()["cell/abcdefgh"]["finding"]["message"]


@pytest.mark.parametrize("how, there, what", [
    (dict(used=False), False, None), (dict(used=False), True, "changed"),
    (dict(stopped=True), False, None), (dict(stopped=True), True, "changed"),
    (dict(end="cell.lost"), True, None), (dict(end=None), True, None),
    (dict(text=None), False, None), (dict(text=None), True, "added")])
def test_a_policy_that_may_be_gone_or_be_another(world, how, there, what):
    path = with_policy(world, **{"text": b"one", **how})
    if there:
        path.write_bytes(b"another")
    assert policy_finding(world) == (what and (what, "policy"))


# ---- files that somebody was given ----

@pytest.fixture
def given(world, tmp_path):
    """Three ended cells and one that runs, exported: op.jsonl, all.jsonl and one file of each."""
    cells = [world.cell(number_id(0))]
    world.operator.checkpoint()
    cells += [world.cell(number_id(1)), world.cell(number_id(2)), small(number_id(3))]
    world.start(cells[3])
    world.keep(cells[3])
    world.finish()
    for words in (("--operator",), ("--all",), *((number_id(i),) for i in range(4))):
        name = "op" if words[0] == "--operator" else words[0].strip("-")
        (tmp_path / f"{name}.jsonl").write_text(world.cloister("audit", "export", *words).ok())
    world.cells, world.files = cells, tmp_path
    # Whoever was given them has nothing else.
    world.env = dict(world.env, CLOISTER_STATE_DIR=str(tmp_path / "none"),
                     CLOISTER_DATA_DIR=str(tmp_path / "none"))
    return world


def findings(seen):
    return {name: t["finding"] and t["finding"]["what"] for name, t in seen.items()}


def test_a_cells_export_is_verified_with_the_operators_key(given):
    op, key = given.files / "op.jsonl", ("--key", given.key.hex)
    cell = given.files / f"{number_id(1)}.jsonl"
    name = given.cells[1].timeline
    # Whichever comes first.
    for words in ((op, cell), (cell, op)):
        seen = given.verify(*words, *key)
        assert list(seen) == ["operator", name] and findings(seen) == {"operator": None, name: None}
        assert seen[name]["state"] == "by the key that the operator's timeline tells"
        assert (seen["operator"]["state"], seen[name]["records"]) == ("by that key", 8)
    assert findings(given.verify(op, cell)) == {"operator": None, name: None}
    # Alone, it is not called what it is not.
    said = given.cloister("audit", "verify", cell, *key)
    assert said.status == 1 and "swapped" not in said.out, said
    assert f"{name}: untied\n" in said.out and "cloister audit export --operator" in said.out
    assert given.verify(cell, "--key", given.cells[1].key.hex)[name]["finding"] is None


def test_changes_to_an_export_are_found(given):
    op, key = given.files / "op.jsonl", ("--key", given.key.hex)
    cell, name = given.files / f"{number_id(1)}.jsonl", given.cells[1].timeline
    true = cell.read_bytes()
    forger = small(number_id(1))
    short = joined(given.cells[1].lines[:5])
    for data, what in ((forger.bytes(), "swapped"), (short, "truncated"), (true[:-9], "truncated"),
                       (joined(given.cells[1].lines[:2]), "truncated"),
                       (true + given.cells[1].lines[0] + b"\n", "added"),
                       (true.replace(b'"status":201', b'"status":202'), "changed"),
                       (small("zzzzzzzz").bytes(), "untied")):
        cell.write_bytes(data)
        seen = given.verify(op, cell, *key)
        assert seen.pop("operator")["finding"] is None
        assert list(findings(seen).values()) == [what], data
    # Somebody who forges the cell's forges the operator's too: but not with the operator's key.
    cell.write_bytes(forger.bytes())
    operator = Timeline("operator", Key())
    operator.add({"type": "log.begun", "key": operator.key.hex})
    operator.add({"type": "cell.started", "cell": number_id(1), "key": forger.key.hex})
    operator.checkpoint()
    true_op = op.read_bytes()
    op.write_bytes(operator.bytes())
    assert findings(given.verify(op, cell, *key)) == {"operator": "swapped", name: "untied"}
    assert findings(given.verify(op, cell)) == {"operator": None, name: None}
    # Or puts it behind what is signed: that tells nothing of cells.
    given.operator.add({"type": "cell.started", "cell": "zzzzzzzz", "key": forger.key.hex})
    forger = small("zzzzzzzz", forger.key)
    cell.write_bytes(forger.bytes())
    op.write_bytes(true_op + given.operator.lines[-1] + b"\n")
    assert findings(given.verify(op, cell, *key)) == {"operator": None, "cell/zzzzzzzz": "untied"}
    # The operator's is damaged: what is signed before that counts.
    cell.write_bytes(true)
    lines = true_op.splitlines()
    lines[4] = lines[4].replace(b"sha256:5", b"sha256:6")
    op.write_bytes(joined(lines))
    seen = given.verify(op, cell, given.files / f"{number_id(0)}.jsonl", *key)
    assert findings(seen) == {"operator": "changed", name: "untied", given.cells[0].timeline: None}
    assert "is not sound" in seen[name]["finding"]["message"]


def test_many_timelines_in_one_file(given):
    op, all_, key = given.files / "op.jsonl", given.files / "all.jsonl", ("--key", given.key.hex)
    names = {cell.timeline for cell in given.cells}
    sound = {name: None for name in names}
    assert findings(given.verify(all_)) == sound
    assert findings(given.verify(op, all_, *key)) == dict(sound, operator=None)
    assert set(findings(given.verify(all_, *key)).values()) == {"untied"}
    both = given.files / "both.jsonl"
    both.write_bytes(op.read_bytes() + all_.read_bytes())
    assert findings(given.verify(both, *key)) == dict(sound, operator=None)
    # One was changed, one cut: that is told of them, and of no other.
    one, two = given.cells[0], given.cells[2]
    data = [cell.bytes() for cell in given.cells]
    data[0] = data[0].replace(b'"status":201', b'"status":202')
    data[2] = joined(two.lines[:-1])
    all_.write_bytes(b"".join(data))
    want = dict(sound, operator=None)
    want[one.timeline], want[two.timeline] = "changed", "truncated"
    seen = given.verify(op, all_, *key)
    assert findings(seen) == want and seen[one.timeline]["finding"]["line"] in (2, 3)
    # A record of one among those of another.
    all_.write_bytes(joined([*given.cells[0].lines[:3], two.lines[3], *given.cells[0].lines[3:]]) + data[1])
    assert findings(given.verify(all_)) == {one.timeline: "changed", given.cells[1].timeline: None}


def test_cells_of_one_id_are_distinguished_in_a_file(world, tmp_path):
    cells = [small("abcdefgh", n=4 + i, clock=100 * i) for i in range(3)]
    for timeline in cells:
        world.start(timeline)
        world.end(timeline, status=0)
    world.finish()
    (tmp_path / "op.jsonl").write_bytes(world.operator.bytes())

    def verify(order):
        (tmp_path / "all.jsonl").write_bytes(b"".join(timeline.bytes() for timeline in order))
        said = world.cloister("audit", "verify", "--json", tmp_path / "op.jsonl", tmp_path / "all.jsonl",
                              "--key", world.key.hex)
        return [(t["records"], t["finding"] and t["finding"]["what"])
                for t in json.loads(said.out)["timelines"][1:]]

    assert verify(cells) == [(6, None), (7, None), (8, None)]
    assert verify([cells[2], cells[0]]) == [(8, None), (6, None)]
    # The same twice is one too many.
    assert verify([cells[0], cells[0]]) == [(6, "added")]


# ---- proofs and statements ----

def proof_of(world, *words):
    path = world.audit.parent / "proof.json"
    path.write_text(world.cloister("audit", "prove", *words).ok())
    return path


def check_apart(key, path):
    """docs/verify_proof.py knows nothing of cloister."""
    return subprocess.run([sys.executable, TREE / "docs" / "verify_proof.py", key, path],
                          capture_output=True, text=True, timeout=60)


def test_the_independent_verifier_is_read_in_a_minute():
    assert len((TREE / "docs" / "verify_proof.py").read_text().splitlines()) <= 50


def test_the_independent_verifier_explains_its_use(tmp_path):
    for key, path in (("nokey", tmp_path / "none"), ("0" * 64, tmp_path / "none"), ("0" * 64, TREE / "LICENSE")):
        run = check_apart(key, path)
        assert run.returncode == 1 and run.stderr.count("\n") == 1, run


@pytest.mark.parametrize("n", range(1, 8))
def test_a_proof_convinces_somebody_else(world, n):
    timeline = world.cell()
    world.finish()
    path = proof_of(world, "abcdefgh", n)
    run = check_apart(world.key.hex, path)
    assert run.returncode == 0 and run.stderr == "", run
    assert json.loads(run.stdout.removeprefix("proved: ")) == json.loads(timeline.lines[n - 1])
    assert "proves record" in world.cloister("audit", "verify", path, "--key", world.key.hex).ok()
    assert check_apart(Key().hex, path).returncode != 0
    assert world.cloister("audit", "verify", path, "--key", Key().hex).status == 1


def test_a_proof_of_something_else_convinces_nobody(world):
    world.cell()
    world.finish()
    path = proof_of(world, "abcdefgh", 2)
    proof = json.loads(path.read_text())

    def changes():
        for part in (proof, proof["anchor"]):
            yield part, "record", part["record"].replace('"status":201', '"status":202').replace(
                "sha256:5", "sha256:6")
            yield part, "index", part["index"] + 1
            yield part, "timeline", "cell/bcdefghi"
            yield part, "path", part["path"][:-1]
            yield part, "path", part["path"] + [part["path"][0]]
            yield part["checkpoint"], "size", part["checkpoint"]["size"] + 1
            yield part["checkpoint"], "root", "0" * 64
            yield part["checkpoint"], "key", Key().hex
            yield part["checkpoint"], "signature", base64.b64encode(
                Key().private.sign(b"x")).decode()
            yield part["checkpoint"], "time", "2027" + part["checkpoint"]["time"][4:]
        yield proof, "anchor", None

    for part, name, value in list(changes()):
        true, part[name] = part[name], value
        path.write_text(json.dumps(proof))
        part[name] = true
        if value == true:
            continue
        assert check_apart(world.key.hex, path).returncode != 0, (name, value)
        path.write_text(path.read_text().replace('{"checkpoint', '{"anchor', 0))
        mine = world.cloister("audit", "verify", path, "--key", world.key.hex)
        assert mine.status in (1, 125), (name, value, mine)


def test_proofs_that_cannot_be_made(world):
    world.cell()
    world.finish()
    world.cloister("audit", "prove", "abcdefgh", 99).sentence("no record 99", "8")
    world.cloister("audit", "prove", "abcdefgh", 8).sentence("no checkpoint")
    world.cloister("audit", "prove", "abcdefgh").sentence("a cell and the number")
    world.cloister("audit", "prove", "nothere", 1).sentence("nothere")
    # The operator's own is signed when it is asked for.
    assert check_apart(world.key.hex, proof_of(world, "--operator", 3)).returncode == 0


def test_a_proof_behind_dropped_records(world):
    timeline = Timeline("cell/abcdefgh", Key())
    world.start(timeline)
    for i in range(5):
        timeline.add({"i": i})
    timeline.checkpoint()
    for i in range(9):
        timeline.add({"i": i, "type": "later"})
    timeline.add({"type": "records.dropped", "through": 5})
    timeline.checkpoint()
    world.keep(timeline, joined(timeline.lines[5:]))
    world.finish()
    for n in (6, 7, 12, 15):
        run = check_apart(world.key.hex, proof_of(world, "abcdefgh", n))
        assert run.returncode == 0, run
        assert f'"n": {n},' in run.stdout
    world.cloister("audit", "prove", "abcdefgh", 3).sentence("dropped")


def test_statements_are_signed_as_dsse_says(world):
    timeline = world.cell()
    running = small("bcdefghi")
    world.start(running)
    world.keep(running)
    world.finish()
    lines = world.cloister("audit", "export", "--format", "dsse", "--all").ok().splitlines()
    assert len(lines) == 1
    envelope = json.loads(lines[0])
    payload, kind = base64.b64decode(envelope["payload"], validate=True), envelope["payloadType"]
    assert kind == "application/vnd.in-toto+json"
    pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    signature = envelope["signatures"][0]
    assert signature["keyid"] == world.key.hex
    Ed25519PublicKey.from_public_bytes(world.key.public).verify(
        base64.b64decode(signature["sig"], validate=True), pae)
    statement = json.loads(payload)
    assert canonical(statement).encode() == payload
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] == [{"name": "cell/abcdefgh",
                                     "digest": {"sha256": timeline.head.hex()}}]
    predicate = statement["predicate"]
    assert predicate["events"] == {"checkpoint": 2, "http": 6} and predicate["refused"] == 1
    assert predicate["grant"] == "sha256:" + "5" * 64 and predicate["status"] == 0
    assert predicate["key"] == timeline.key.hex and predicate["size"] == 8
    world.cloister("audit", "export", "--format", "dsse", "bcdefghi").sentence("does not record the end")
    # Nothing is vouched for that is not sound.
    world.keep(timeline, timeline.bytes().replace(b'"status":201', b'"status":202'))
    world.cloister("audit", "export", "--format", "dsse", "abcdefgh").sentence("not sound")


def state(key, payload, kind="application/vnd.in-toto+json", keyid=None):
    """A DSSE envelope, made without cloister."""
    pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    return canonical({"payload": base64.b64encode(payload).decode(), "payloadType": kind, "signatures": [
        {"keyid": keyid or key.hex, "sig": base64.b64encode(key.private.sign(pae)).decode()}]}).encode()


@pytest.fixture
def stated(world, tmp_path):
    """Statements about three cells, and their records in the operator's timeline."""
    for i in range(3):
        world.cell(number_id(i))
    world.finish()
    world.path, world.op = tmp_path / "dsse.jsonl", tmp_path / "op.jsonl"
    world.path.write_text(world.cloister("audit", "export", "--all", "--format", "dsse").ok())
    world.op.write_text(world.cloister("audit", "export", "--operator").ok())
    lines = world.path.read_bytes().splitlines()
    world.statement = json.loads(base64.b64decode(json.loads(lines[0])["payload"]))

    def said(*words, data=None):
        """[(line, cell, what is wrong)] of the statements in a file."""
        if data is not None:
            world.path.write_bytes(data)
        run = world.cloister("audit", "verify", "--json", world.path, *words)
        assert run.err == "", run
        items = [item for item in json.loads(run.out)["timelines"] if "stated" in item]
        assert all(item["file"] == str(world.path) for item in items)
        assert all(item["stated"] == (item["message"] is None) for item in items)
        assert json.loads(run.out)["sound"] == (run.status == 0)
        assert run.status == (any(item["message"] for item in items)), run
        return [(item["line"], item["timeline"], item["message"]) for item in items]

    world.said = said
    return world


def test_statements_are_verified(stated):
    lines = stated.path.read_bytes().splitlines(True)
    cells = [json.loads(base64.b64decode(json.loads(line)["payload"]))["predicate"]["cell"] for line in lines]
    assert sorted(cells) == [number_id(i) for i in range(3)]
    sound = [(i + 1, f"cell/{cell}", None) for i, cell in enumerate(cells)]
    key = ("--key", stated.key.hex)
    # With the key that was noted, with the one on this machine, and with all that is known of the cells.
    for words in (key, (), (stated.op, *key)):
        assert stated.said(*words) == sound
    text = stated.cloister("audit", "verify", stated.path, *key).ok()
    assert f"dsse.jsonl:2: states that cell/{cells[1]} ended with status 0, after 8 records\n" in text
    # The last newline says nothing; half an envelope is none.
    data = b"".join(lines)
    assert stated.said(*key, data=data[:-1]) == sound
    seen = stated.said(*key, data=data[:-9])
    assert seen[:2] == sound[:2] and seen[2][:2] == (3, "") and "no JSON" in seen[2][2]
    # Who was given it has no key of the operator's but what they noted.
    stated.env = dict(stated.env, CLOISTER_DATA_DIR=str(stated.path.parent / "none"))
    stated.cloister("audit", "verify", stated.path).sentence("--key")


def test_changes_to_a_statement_are_found(stated):
    key, good = ("--key", stated.key.hex), stated.path.read_bytes().splitlines()[1]
    payload = canonical(stated.statement).encode()
    changed = canonical(dict(stated.statement, predicate=dict(stated.statement["predicate"], status=1)))
    swapped = json.loads(state(stated.key, payload))
    swapped["payload"] = base64.b64encode(changed.encode()).decode()
    nobody = Key()
    for line, why in (
            (canonical(swapped).encode(), "signature does not hold"),
            (state(nobody, payload), "not signed with the operator's key"),
            (state(nobody, payload, keyid=stated.key.hex), "signature does not hold"),
            (canonical(dict(swapped, signatures=[])).encode(), "not signed with the operator's key"),
            (canonical(dict(swapped, signatures=[1, "x", {}])).encode(), "not signed"),
            (canonical(dict(swapped, signatures={})).encode(), "signatures is missing"),
            (canonical(dict(swapped, payload="!")).encode(), "payload is missing"),
            (state(stated.key, payload, "text/plain"), "payloadType"),
            (state(stated.key, b"[]"), "no canonical JSON"),
            (state(stated.key, payload.replace(b",", b", ")), "no canonical JSON"),
            (b"nothing", "no JSON"), (b"", "no JSON"), (b"x" * 200000, "not that long")):
        seen = stated.said(*key, data=good + b"\n" + line + b"\n" + good + b"\n")
        assert [at for at, _, message in seen if message] == [2] and why in seen[1][2], (line, seen)
    # One of many signatures is enough, whoever the others say that they are.
    two = json.loads(state(stated.key, payload))
    two["signatures"].insert(0, json.loads(state(nobody, payload))["signatures"][0])
    assert stated.said(*key, data=canonical(two).encode())[0][2] is None


def test_a_false_statement_is_found(stated):
    """The operator's key signed it, but it differs from what export writes, or from the timeline."""
    key = ("--key", stated.key.hex)

    def one(words, **change):
        predicate = dict(stated.statement["predicate"])
        for name, value in change.pop("predicate", {}).items():
            predicate.pop(name) if value is None else predicate.update({name: value})
        statement = dict(stated.statement, predicate=predicate, **change)
        (_, _, message), = stated.said(*words, data=state(stated.key, canonical(statement).encode()) + b"\n")
        return message

    assert one(key) is None
    for name in stated.statement["predicate"]:
        # What the cell was given may be unknown.
        assert (one(key, predicate={name: None}) is None) == (name == "grant"), name
    subject = stated.statement["subject"][0]
    for change, why in (
            ({"_type": "x"}, "_type"), ({"predicateType": "urn:cloister:cell:v2"}, "predicateType"),
            ({"subject": []}, "subject"), ({"subject": [subject, subject]}, "subject"),
            ({"subject": [dict(subject, name="cell/zzzzzzzz")]}, "subject"),
            ({"subject": [dict(subject, digest={"sha1": "0"})]}, "sha256"),
            ({"predicate": {"cell": "a\nb"}}, "cell"), ({"predicate": {"refused": 9}}, "refused"),
            ({"predicate": {"events": {"http": 6, "checkpoint": 3}}}, "events")):
        assert why in one(key, **change), change
    # What only the operator's timeline can tell.
    for change, why in (({"size": 9}, "size"), ({"root": "0" * 64}, "root"), ({"key": "0" * 64}, "key"),
                        ({"status": 1}, "status"), ({"grant": None}, "grant"),
                        ({"started": "2026-11-15T16:00:00.000Z"}, "started"),
                        ({"ended": "2026-11-15T16:00:00.000Z"}, "ended")):
        assert one(key, predicate=change) is None
        assert f"tells another {why}" in one((stated.op, *key), predicate=change)
    subject = {"subject": [dict(subject, digest={"sha256": "0" * 64})]}
    assert one(key, **subject) is None and "another subject's sha256" in one((stated.op, *key), **subject)
    other = {"subject": [{"name": "cell/zzzzzzzz", "digest": {"sha256": "0" * 64}}],
             "predicate": {"cell": "zzzzzzzz"}}
    assert one(key, **other) is None and "has no cell/zzzzzzzz" in one((stated.op, *key), **other)


def test_one_that_was_changed_does_not_hide_the_others(world):
    world.cell("abcdefgh")
    world.cell("bcdefghi", lambda data: data.replace(b'"status":201', b'"status":202'))
    world.cell("cdefghij")
    world.finish()
    done = world.cloister("audit", "export", "--format", "dsse", "--all")
    assert done.status == 125 and len(done.out.splitlines()) == 2, done
    assert "the timeline of cell 'bcdefghi' is not sound" in done.err, done


# ---- mistakes ----

def test_common_mistakes(world):
    world.finish()
    world.cloister("audit").sentence("verify, show, export, prove or key")
    world.cloister("audit", "verfy").sentence("did you mean 'verify'")
    world.cloister("audit", "export", "--format", "pdf", "x").sentence("jsonl, ocsf, otel or dsse")
    world.cloister("audit", "export").sentence("takes cells, --all or --operator")
    world.cloister("audit", "show").sentence("a cell or --operator")
    world.cloister("audit", "verify", "x", "--key", "12").sentence("64 hex digits")
    world.cloister("audit", "verify", "--all", "x").sentence("remove them")
    world.cloister("audit", "verify", "./nothing.jsonl").sentence("nothing.jsonl")
    world.cloister("audit", "show", "--format", "dsse", "x").sentence("no --format")
    world.cloister("audit", "verify", "nothere").sentence("nothere")


def test_names_and_a_total(world):
    timeline = world.cell("abcdefgh")
    named = world.keep(timeline).parent
    named.rename(named.with_name("abcdefgh.desk"))
    world.finish()
    said = world.cloister("audit", "verify", "--all").ok().splitlines()
    assert said[1].startswith("cell/abcdefgh (desk): sound, ended, ") and said[-1] == "2 timelines, all sound"
    assert "timelines" not in world.cloister("audit", "verify", "desk").ok()
    events = named.with_name("abcdefgh.desk") / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b"a", b"b", 1))
    bad = world.cloister("audit", "verify")
    assert bad.status == 1 and bad.out.splitlines()[-1] == "2 timelines, 1 not sound"
    assert "cell/abcdefgh (desk): " in bad.out


def test_nothing_was_recorded_yet(world):
    assert world.cloister("audit", "verify").ok() == "nothing was recorded yet\n"
    world.cloister("audit", "verify", "--operator").sentence("no operator's timeline")
    # Asking for the key makes it, and the timeline begins with it.
    key = world.cloister("audit", "key").ok().strip()
    first = json.loads(world.cloister("audit", "show", "--operator", 1).ok())
    assert first["event"] == {"key": key, "type": "log.begun"}
    assert world.verify()["operator"]["records"] == 2


# ---- many at once, killed ----

def test_killed_writers_lose_nothing_that_was_acknowledged(world):
    """Many add to the operator's timeline at once and are killed at any moment."""
    appender = CLOISTER.parent / "tests" / "audit_append"
    if not appender.exists():
        pytest.skip(f"there is no {appender}: run `make tests`")
    acknowledged = []
    for round_ in range(int(os.environ.get("CLOISTER_CRASH_ROUNDS", 60))):
        writers = [subprocess.Popen([appender, f"{round_}.{i}"], env=world.env,
                                    stdout=subprocess.PIPE) for i in range(3)]
        # After so many words of one of them, all end at once.
        for _ in range(round_ % 7):
            acknowledged.append(writers[0].stdout.readline())
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            lines = writer.stdout.read().splitlines(keepends=True)
            acknowledged += [line for line in lines if line.endswith(b"\n")]
            writer.wait()
    world.cloister("audit", "key").ok()
    seen = world.verify("--operator")["operator"]
    assert seen["finding"] is None, seen
    kept = {json.loads(line)["event"].get("who")
            for line in world.cloister("audit", "show", "--operator").ok().splitlines()}
    said = {line.decode().strip() for line in acknowledged}
    assert len(said) > 100 and said <= kept, sorted(said - kept)[:5]


# ---- what operators do ----

def told(operator):
    """The events of the operator's timeline, which is sound."""
    assert operator.cloister("audit", "verify", "--operator").status == 0
    lines = operator.cloister("audit", "show", "--operator").ok().splitlines()
    return [json.loads(line)["event"] for line in lines]


def test_secrets_are_recorded_without_their_values(operator):
    secret = "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"
    operator.cloister("secret", "add", "KEY", "--host", "api.example.com", input=secret).ok()
    operator.cloister("secret", "rotate", "KEY", input=secret[::-1]).ok()
    operator.cloister("secret", "remove", "KEY").ok()
    assert operator.cloister("secret", "remove", "KEY").status == 125
    events = [e for e in told(operator) if e["type"].startswith("secret.")]
    assert [(e["type"], e["secret"], e["uid"]) for e in events] == [
        (f"secret.{did}", "KEY", operator.uid) for did in ("added", "rotated", "removed")]
    assert "api.example.com" in events[0]["scope"]
    kept = b"".join(p.read_bytes() for p in Path(operator.env["CLOISTER_DATA_DIR"]).rglob("*")
                    if p.is_file() and p.parent.name == "audit")
    assert secret.encode() not in kept and secret[::-1].encode() not in kept


def test_applied_and_discarded_changes_are_recorded(operator):
    workspace = operator.folder("workspace", {"a": "1\n"})
    for verb, kind in (("apply", "changes.applied"), ("discard", "changes.discarded")):
        id = operator.run("-q", "-w", workspace, "--", "sh", "-c",
                          "date +%N >>a; echo $CLOISTER_CELL").ok().strip()
        operator.kept.add(id)
        assert operator.cloister(verb, id).status == 0
        last = [e for e in told(operator) if e["type"].startswith("changes.")][-1]
        assert (last["type"], last["cell"], last["uid"]) == (kind, id, operator.uid)
        assert verb == "discard" or (last["applied"], last["force"]) == (1, False)


def test_a_name_that_means_an_older_version_again_is_recorded(operator):
    for text in "121":
        operator.cloister("env", "register",
                          operator.file("e.yaml", f"name: e\nvalues: {{A: '{text}'}}\n")).ok()
    hashes = [e["hash"] for e in told(operator) if e["type"] == "env.registered"]
    assert len(hashes) == 3 and hashes[0] == hashes[2] != hashes[1]


def test_actions_that_cannot_be_recorded_are_refused(operator):
    operator.cloister("audit", "key").ok()
    folder = Path(operator.env["CLOISTER_DATA_DIR"]) / "audit"
    log = folder / "operator.jsonl"
    log.write_bytes(log.read_bytes()[:-30] + b"x" + log.read_bytes()[-29:])
    said = operator.cloister("secret", "add", "KEY", "--host", "api.example.com", input="x" * 20)
    said.sentence("the operator's timeline", "damaged", "cloister audit verify")


# ---- real cells ----

def sound(operator, *words):
    said = operator.cloister("audit", "verify", "--json", *words)
    assert said.status == 0, said
    return {t["timeline"]: t for t in json.loads(said.out)["timelines"]}


def test_real_cells_however_they_end(operator):
    workspace = operator.folder("workspace", {"a": "1\n"})
    changed = operator.run("-q", "-w", workspace, "--", "sh", "-c",
                           "echo 2 >a; echo $CLOISTER_CELL; exit 3").out.strip()
    operator.kept.add(changed)
    running = operator.detach("--", "sleep", "1000")
    operator.cloister("exec", running, "true").ok()
    seen = sound(operator)
    assert seen[f"cell/{changed}"]["state"] == "ended"
    assert seen[f"cell/{running}"]["state"] == "running"
    operator.cloister("kill", running).ok()
    operator.cloister("discard", "--all").ok()
    seen = sound(operator)
    assert {seen[f"cell/{id}"]["state"] for id in (changed, running)} == {"ended"}
    # Each record can be proved to somebody else.
    key = operator.cloister("audit", "key").ok().strip()
    lines = operator.cloister("audit", "show", running).ok().splitlines()
    assert ["exec", "killed"] == [e["did"] for e in (json.loads(line)["event"] for line in lines)
                                  if "did" in e]
    proof = operator.file("proof.json", operator.cloister("audit", "prove", running, "2").ok())
    assert json.loads(check_apart(key, proof).stdout.removeprefix("proved: ")) == json.loads(lines[1])
    statement = json.loads(operator.cloister("audit", "export", "--format", "dsse", changed).ok())
    statement = json.loads(base64.b64decode(statement["payload"]))
    assert statement["predicate"]["status"] == 3


def test_real_cells_are_verified_elsewhere(operator):
    for i in range(3):
        operator.run("--name", f"tried{i}", "--", "true").ok()
    running = operator.detach("--", "sleep", "1000")
    key = operator.cloister("audit", "key").ok().strip()
    folder = operator.folder("given", {name: operator.cloister("audit", "export", word).ok()
                                       for name, word in (("op", "--operator"), ("all", "--all"), ("one", "tried1"))})
    operator.cloister("kill", running).ok()
    seen = sound(operator, folder / "op", folder / "all", "--key", key)
    assert len(seen) == 5 and f"cell/{running}" in seen
    assert len(sound(operator, folder / "one", folder / "op", "--key", key)) == 2
    assert operator.cloister("audit", "verify", folder / "one", "--key", key).status == 1


def test_a_cell_whose_supervisor_was_killed(operator):
    id = operator.detach("--", "sleep", "1000")
    pids = operator.pids(id)
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)), "everything is dead")
    # The next one finds it, and notes how far it came.
    operator.run("--", "true").ok()
    seen = sound(operator)
    assert f"cell/{id}" not in seen or seen[f"cell/{id}"]["state"] == "lost"
    assert [e["cell"] for e in told(operator) if e["type"] == "cell.lost"] == [id]
