"""The judge itself: it must not take silence for safety."""
from lab import box, catalogue, verdict, world  # noqa: F401

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
