"""The judge itself: it must not take silence for safety."""
import pytest

from lab import box, catalogue, verdict, world  # noqa: F401
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
