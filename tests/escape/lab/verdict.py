"""Runs probes and says what came of it."""
import dataclasses
import os
import time

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
    by: str = ""                        # and how the witness looked

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
        self.seen, self.by = "", ""

    def attempt(self, probe, who, box):
        """(happened, reason)"""
        self.seen, self.by = "", ""
        with World(who, box, self.lab) as world:
            try:
                happened = bool(probe.run(world))
                lost = [c.tail() for c in world.cells]
                return happened, (lost[-1] if lost else "")
            except NotRun as e:
                return None, str(e)
            finally:
                if box.name == "cloister":
                    self.seen, self.by = self.look(world)

    def look(self, world):
        """Whether its record shows it: once the cells have ended, because a process is recorded when it ends."""
        for cell in world.cells:
            cell.stop()
        end = time.monotonic() + 1
        while not score.has_ended(world.state) and time.monotonic() < end:
            world.serve(0.02)
        return score.seen(world.state)

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
        return Verdict(ESCAPED if happened else CONTAINED, why, self.seen, self.by)
