"""The judge itself: it must not take silence for safety."""
import fnmatch
import json

import pytest

from lab import box, catalogue, score, verdict, world  # noqa: F401
from lab.cell import NotApplicable

READ = verdict.PROBES["read-outside"]


class Open(box.Box):
    """A box that holds nothing in."""
    name = "open"


class Broken(box.Box):
    """A box that never starts anything."""
    name = "broken"

    def command(self, world, request):
        return ["false"]


def anybody():
    return world.everybody()[-1]


def test_an_open_box_is_escaped(judge):
    assert judge.judge(READ, anybody(), Open()).word == verdict.ESCAPED


def test_a_box_that_does_not_start_proves_nothing(judge):
    found = judge.judge(READ, anybody(), Broken())
    assert found.word == verdict.ERROR and not found.ok(READ)


def test_a_probe_that_fails_outside_proves_nothing(judge):
    hopeless = verdict.Probe("hopeless", "none", "reads what is not there",
                             lambda w: b"canary" in w.run("read", "/no/such/file").out)
    found = judge.judge(hopeless, anybody(), Open())
    assert found.word == verdict.VACUOUS and not found.ok(hopeless)


def test_nothing_is_left_behind(lab):
    with world.World(anybody(), Open(), lab) as w:
        paths, _ = w.scatter()
        cell = w.spawn("deaf")
        pid = cell.pid()
    assert not any(p.exists() for p in paths) and not w.base.exists()
    assert pid not in cell.pids()


@pytest.mark.parametrize("who", world.everybody(), ids=lambda w: w.name)
def test_a_policy_lets_allowed_traffic_through(lab, who):
    """Otherwise a wall could not be distinguished from a broken cell."""
    attempts = [["talk", host, port, f"GET /NONCE HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
                 host if port == 443 else None]
                for host, port in (("front.test", 80), ("front.test", 443), ("a.wide.test", 80), ("pinned.test", 443))]
    try:
        with world.World(who, box.CloisterPolicy(), lab) as w:
            cell, seen = w.speak(*attempts)
    except NotApplicable as e:
        pytest.skip(str(e))
    came = [n for n in range(len(attempts)) if any(f"{cell.nonce}-{n}-" in entry["text"] for entry in seen)]
    assert came == list(range(len(attempts))), cell.tail()
    assert cell.out.count(lab.internet().token.encode()) == len(attempts)


# ---- whether a record shows an attempt ----

ALONE = [{"type": "record", "by": "ebpf"}, {"type": "exec", "path": "/probe"}, {"type": "exit", "status": 0}]


@pytest.mark.parametrize("more, want", [
    ([], ("no", "ebpf")),
    ([{"type": "exec", "path": "/other"}], ("yes", "ebpf")),
    ([{"type": "refused", "call": "mount"}], ("yes", "ebpf")),
    ([{"type": "exit", "signal": "SYS"}], ("yes", "ebpf")),
    ([{"type": "exit", "signal": "KILL"}, {"type": "cell.end", "cause": "an operator ended it"}], ("no", "ebpf")),
    ([{"type": "cell.end", "cause": "it reached its time limit (--time 1s)"}], ("yes", "ebpf")),
])
def test_what_counts_as_seen(tmp_path, more, want):
    lines = "".join(json.dumps({"event": e}) + "\n" for e in [*ALONE, *more])
    (tmp_path / "events.jsonl").write_text(lines)
    assert score.seen(tmp_path) == want
    (tmp_path / "events.jsonl").write_text(lines.replace('"ebpf"', '"none"'))
    assert score.seen(tmp_path)[0] == score.UNRECORDED
    (tmp_path / "events.jsonl").unlink()
    assert score.seen(tmp_path)[0] == score.NO_CELL


def result(probe, who, seen, by):
    return {"probe": probe, "box": "cloister", "who": who, "seen": seen, "by": by, "verdict": "CONTAINED"}


def test_what_is_not_seen_has_a_reason():
    """The witness that sees the most must see it, unless the probe is known to try nothing."""
    results = [result("call-mount", "root", "yes", "ebpf"), result("call-mount", "user", "no", "notify"),
               result("call-bpf", "root", "no", "ebpf"), result("call-bpf", "user", "yes", "notify"),
               result("wall-pid", "root", "no", "ebpf"), result("call-kcmp", "root", "yes", "notify")]
    assert score.unseen(results) == {"call-mount": ["user"], "call-bpf": ["root"], "wall-pid": ["root"]}
    assert score.why_unseen(results, "call-mount") == score.BY_NOTIFY
    assert score.why_unseen(results, "call-bpf") == score.UNEXPLAINED
    assert "tries nothing" in score.why_unseen(results, "wall-pid")
    for pattern in score.UNSEEN:
        assert fnmatch.filter(verdict.PROBES, pattern), f"there is no probe {pattern}"
