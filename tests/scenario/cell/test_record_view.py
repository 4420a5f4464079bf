"""The commands that look at the record of a cell's processes: events, tree, replay, audit export."""
import json

import pytest

pytest.importorskip("cryptography")
from record_world import ACTS, witnessed    # noqa: E402
from test_audit import World                # noqa: E402


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "w")


def is_printable(text):
    return all(c == "\n" or c.isprintable() for c in text)


# ---- events ----

LINES = ["record: acts by ebpf; not seen: reads outside of grants",
         "2 exec /bin/sh -c 'git fetch; evil'",
         "3 connect 10.0.0.1:443",
         "GET https://git.example/x/info/refs (process 3)",
         "3 write /work/.git/FETCH_HEAD (grant /work), 3 times",
         "3 ended with 0 after 1s, CPU 40ms, memory 5M",
         "4 exec /tmp/evil 'a b\\x1b[2J\\x0a' (from a writable place)",
         "4 danger memfd_create(\"x\", 0)",
         "4 refused ptrace(PTRACE_ATTACH, 1): EPERM by filter, 7 times",
         "4 rename /work/a\\x1b]0;b to /work/b (grant /work)",
         "resources: CPU 900ms, memory 3M, peak 9M, 3 processes, read 4K, written 8K, CPU pressure 1.50%",
         "lost: 20 file  the buffer was full",
         "4 watch: write /work/.git/hooks/x: watch: write .git/hooks/**: freeze",
         "4 calls in 1s: read 100, write 3",
         "4 killed by KILL after 900ms",
         "cell ended with 1; CPU 1s, peak 9M, 3 programs, 3 processes, 7 refused calls, read 4K, written 8K"]


def test_events_prints_acts_as_lines_of_text(world):
    world.keep(witnessed())
    said = world.cloister("events", "abcdefgh").ok()
    assert is_printable(said) and len(said.splitlines()) == len(ACTS) + 2
    assert [line for line in LINES if f"  {line}\n" not in said] == [], said
    # They are no decisions, so there is no reason to explain.
    assert "tcp evil.example:22" in world.cloister("why", "abcdefgh").ok()
    assert "is not a decision" in world.cloister("why", "abcdefgh", "3").err


def test_events_of_chosen_types(world):
    world.keep(witnessed())
    world.keep(witnessed("bbbbbbbb"))
    said = world.cloister("events", "--json", "--type", "exec,danger,cell", "abcdefgh", "bbbbbbbb").ok()
    events = [json.loads(line) for line in said.splitlines()]
    for cell in ("abcdefgh", "bbbbbbbb"):
        assert [e["type"] for e in events if e["cell"] == cell] == ["cell.boot", "exec", "exec", "exec", "danger", "cell.end"]
    assert world.cloister("events", "-f", "--type", "refused", "abcdefgh").ok().count("\n") == 1
    for wrong, hint in (("exek", "did you mean 'exec'?"), ("exec,", "there is no type ''"), ("x" * 99, "there is no type")):
        assert hint in world.cloister("events", "--type", wrong).err
