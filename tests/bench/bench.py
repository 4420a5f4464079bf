"""Defines benchmarks and their reports.

A group of benchmarks is a file bench_*.py here with functions under @group("name").
Such a function takes (lab, report) and calls report.row() for each measurement.
Comparisons are interleaved, A B A B, so that a busy machine affects both alike."""
import operator
import statistics

from lab import SEP

GROUPS = {}                     # name -> function, in order of registration


def group(name):
    def register(function):
        GROUPS[name] = function
        return function
    return register


class Unmeasured(Exception):
    """The thing to be measured did not work."""


class Samples(list):
    """Numbers of one kind, from one thing."""

    @property
    def median(self):
        return statistics.median(self)

    @property
    def spread(self):
        """The middle half."""
        if len(self) < 4:
            return min(self), max(self)
        q = statistics.quantiles(self, n=4)
        return q[0], q[2]


class Report:
    COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt}

    def __init__(self, quick, say):
        self.quick, self.say, self.rows = quick, say, []

    def pick(self, full, quick):
        """The number of rounds: the real one, or the one for a first look."""
        return quick if self.quick else full

    def row(self, name, value, unit, spread=None, peer=None, peer_value=None, bar=None):
        """BAR is like "ratio <= 1.5" or "value >= 200"; without one OK is null."""
        ratio = value / peer_value if peer_value else None
        ok = None
        if bar:
            what, compare, limit = bar.split()
            ok = self.COMPARE[compare](ratio if what == "ratio" else value, float(limit))
        self.rows.append({
            "name": name, "value": value, "unit": unit,
            "spread": list(spread) if spread else None,
            "peer": peer, "peer_value": peer_value, "ratio": ratio, "bar": bar, "ok": ok})
        self.say(self.rows[-1])

    def note(self, name, why):
        """Something that could not be measured, and need not be."""
        self.say({"name": name, "note": why})


def in_turn(lab, who, commands, rounds, warmup=3, piped=False, prefix=()):
    """Time COMMANDS (a dict) against each other; {name: Samples of milliseconds}.

    All of them must succeed, always: a failure is often faster."""
    for name, argv in commands.items():
        probe = who.run([*prefix, *argv])
        if probe.returncode != 0:
            raise Unmeasured(f"{name}: status {probe.returncode}: {probe.stderr.strip()[-300:]}")
    argv = [*prefix, lab.bin / "spawn_loop", "-n", rounds, "-w", warmup, *(["-p"] if piped else [])]
    for command in commands.values():
        argv += [SEP, *command]
    run = who.run(argv, timeout=600)
    names = list(commands)
    result = {name: Samples() for name in names}
    for line in run.stdout.splitlines():
        which, wall, _, status = map(int, line.split())
        if status != 0:
            raise Unmeasured(f"{names[which]}: status {status} in the middle of it")
        result[names[which]].append(wall / 1e6)
    if any(len(samples) != rounds for samples in result.values()):
        raise Unmeasured(f"spawn_loop: status {run.returncode}: {run.stderr.strip()}")
    return result


def in_parallel(lab, who, argv, workers, total=None, ms=None, prefix=()):
    """Keep WORKERS busy with ARGV; (how many were done, in how many seconds)."""
    limit = ["-n", total] if total else ["-s", ms]
    run = who.run([*prefix, lab.bin / "spawn_loop", "-j", workers, *limit, SEP, *argv], timeout=600)
    try:
        done, failed, ns = map(int, run.stdout.split())
    except ValueError:
        raise Unmeasured(f"spawn_loop: status {run.returncode}: {run.stderr.strip()}") from None
    if failed:
        why = who.run(argv).stderr.strip()[-300:]
        raise Unmeasured(f"{failed} of {done} failed" + (f": {why}" if why else ""))
    return done, ns / 1e9
