"""Runs probes and says what came of it."""
import dataclasses
import os

from . import score
from .box import Box
from .cell import NotApplicable, NotRun
from .world import ROOT, World

CONTAINED, ESCAPED, VACUOUS, NA, ERROR = "CONTAINED", "ESCAPED", "VACUOUS", "N/A", "ERROR"


@dataclasses.dataclass
class Verdict:
    word: str
    why: str = ""
    seen: str = ""                      # whether the cell's record shows the attempt

    def ok(self, probe):
        """Whether nothing is wrong: not escaped, and not left unproved without excuse."""
        return self.word in (CONTAINED, NA) or (self.word == VACUOUS and bool(probe.may_be_vacuous))


@dataclasses.dataclass(frozen=True)
class Probe:
    name: str
    group: str
    says: str
    run: object                         # World -> bool: did the effect happen?
    control: str = "same"               # who must succeed outside: "same" or "root"
    who: tuple = ("root", "user")
    may_be_vacuous: str = ""            # why some machines cannot show it at all


PROBES = {}


def probe(says, name=None, group=None, **how):
    """Register the function that follows."""
    def register(function):
        kind = group or function.__module__.rsplit(".", 1)[-1]
        title = name or function.__name__.replace("_", "-")
        assert title not in PROBES, title
        PROBES[title] = Probe(title, kind, says, function, **how)
        return function
    return register


class Judge:
    def __init__(self, lab):
        self.lab = lab
        self.controls = {}
        self.seen = ""

    def attempt(self, probe, who, box):
        """(happened, reason)"""
        self.seen = ""
        with World(who, box, self.lab) as world:
            try:
                happened = bool(probe.run(world))
                lost = [c.tail() for c in world.cells]
                return happened, (lost[-1] if lost else "")
            except NotRun as e:
                return None, str(e)
            finally:
                self.seen = score.seen(world.state) if box.name == "cloister" else ""

    def control(self, probe, who):
        """Whether the probe works where nothing is in its way; tried once."""
        whose = ROOT if probe.control == "root" else who
        if whose is ROOT and os.geteuid() != 0:
            raise NotApplicable("its control needs root")
        key = (probe.name, whose)
        if key not in self.controls:
            try:
                self.controls[key] = self.attempt(probe, whose, Box())
            except NotApplicable as e:
                self.controls[key] = e
        if isinstance(self.controls[key], NotApplicable):
            raise self.controls[key]
        return self.controls[key]

    def judge(self, probe, who, box):
        if who.name not in probe.who:
            return Verdict(NA, f"only as {probe.who[0]}")
        if box.missing(who):
            return Verdict(NA, box.missing(who))
        try:
            happened, why = self.control(probe, who)
            if not happened:
                return Verdict(VACUOUS, probe.may_be_vacuous or f"its control failed: {why}")
            happened, why = self.attempt(probe, who, box)
        except NotApplicable as e:
            return Verdict(NA, str(e))
        if happened is None:
            return Verdict(ERROR, why)
        return Verdict(ESCAPED if happened else CONTAINED, why, self.seen)
