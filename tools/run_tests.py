#!/usr/bin/python3
"""Runs all kinds of tests and adds them up: run_tests.py [SUITE...]

Several suites run at a time: most tests wait for something.  A line of progress every few
seconds; one line per suite; all that a failing one said; at the end one line for all.
A few scenarios that failed are tried once more, alone, when the rest is over: one that passes
then was unsteady, which is said, and is a defect to be mended.  Escapes are not: one is enough.
CLOISTER_BUILD names the build folder, CLOISTER the executable in it.
"""
import os
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CLOISTER_BUILD", "build"))
SUITE_SECONDS = int(os.environ.get("CLOISTER_SUITE_SECONDS", "3600"))
SHOWN_MAX = 200_000     # characters of a failing suite's output; the log has all
AGAIN_MAX = 10          # so many failures may be chance
PROGRESS_SECONDS = float(os.environ.get("CLOISTER_PROGRESS_SECONDS", "15"))

LOCK = threading.Lock()         # of what is printed, and of:
UNDER_WAY = []                  # processes to be killed with us
RUNNING = {}                    # {suite: its log}

TALLY = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)


def run(argv, log):
    """The exit status, or None when it had to be killed."""
    with open(log, "ab") as out:
        with LOCK:
            proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                    start_new_session=True)
            UNDER_WAY.append(proc)
        try:
            return proc.wait(SUITE_SECONDS)
        except subprocess.TimeoutExpired:
            out.write(f"killed after {SUITE_SECONDS} seconds\n".encode())
            end(proc)
    return None


def end(proc):
    if proc.poll() is None:
        os.killpg(proc.pid, signal.SIGKILL)
        proc.wait()


def tally(argv, log):
    """Counts of a program that ends with `N passed, N failed`."""
    before = log.stat().st_size
    status = run(argv, log)
    found = TALLY.findall(log.read_bytes()[before:].decode(errors="replace"))
    if not found:
        return 0, 1, 0
    passed, failed, skipped = (int(n or 0) for n in found[-1])
    if status != 0 and failed == 0:
        failed = 1
    return passed, failed, skipped


def unit(log):
    return tally([BUILD / "tests" / "unit"], log)


def seeds(log):
    """Every fuzz target on every stored input; a target without any is a failure."""
    total = (0, 0, 0)
    for source in sorted(ROOT.glob("tests/fuzz/fuzz_*.c")):
        name = source.stem.removeprefix("fuzz_")
        inputs = sorted((ROOT / "tests" / "seeds" / name).glob("*"))
        if not inputs:
            log.write_text(f"{log.read_text()}tests/seeds/{name} is empty\n")
            counts = 0, 1, 0
        else:
            counts = tally([BUILD / "tests" / f"replay_{name}", *inputs], log)
        total = tuple(map(sum, zip(total, counts)))
    return total


def pytest(folder, part=0, parts=1):
    """The files of FOLDER, or every PARTS-th of them: so that the longest are not the last ones alone."""
    def suite(log):
        files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / folder).rglob("test_*.py"))][part::parts]
        if not files:
            return 0, 0, 0
        report = log.with_suffix(".xml")
        report.unlink(missing_ok=True)
        return run_pytest(files, report, log)
    return suite


def run_pytest(what, report, log):
    status = run([sys.executable, "-m", "pytest", "-q", "--tb=short", "-rfEs",
                  "-p", "no:cacheprovider", f"--junitxml={report}", *what], log)
    if status is None or not report.exists():
        return 0, 1, 0
    count = xml.etree.ElementTree.parse(report).getroot().find("testsuite").attrib
    failed = int(count["failures"]) + int(count["errors"])
    skipped = int(count["skipped"])
    passed = int(count["tests"]) - failed - skipped
    if status != 0 and failed == 0:
        failed = 1
    return passed, failed, skipped


def failures(report):
    """The scenarios that failed, as pytest names them."""
    if not report.exists():
        return []
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    return [f"{case.get('classname').replace('.', '/')}.py::{case.get('name')}" for case in cases
            if case.get("classname", "").startswith("tests.scenario.")
            and (case.find("failure") is not None or case.find("error") is not None)]


def try_again(logs, results):
    """Corrects RESULTS by scenarios that pass alone; how many there were."""
    found = {name: failures(logs / f"{name}.xml") for name in results}
    if sum(counts[1] for counts in results.values()) > AGAIN_MAX:
        return 0
    unsteady = 0
    for name, tests in found.items():
        for test in tests:
            log = logs / f"{name}.again.txt"
            log.write_text("")
            if run_pytest([test], log.with_suffix(".xml"), log)[:2] == (1, 0):
                passed, failed, skipped = results[name]
                results[name] = passed + 1, failed - 1, skipped
                unsteady += 1
                print(f"UNSTEADY {test}: it failed beside others and passed alone", flush=True)
    return unsteady


# Those that take long first.
SUITES = {
    "secrets": pytest("tests/scenario/secrets"),
    "egress": pytest("tests/scenario/egress"),
    "cell-1": pytest("tests/scenario/cell", 0, 2),
    "cell-2": pytest("tests/scenario/cell", 1, 2),
    "registry-1": pytest("tests/scenario/registry", 0, 2),
    "registry-2": pytest("tests/scenario/registry", 1, 2),
    "steer": pytest("tests/scenario/steer"),
    "files": pytest("tests/scenario/files"),
    "image": pytest("tests/scenario/image"),
    "state": pytest("tests/scenario/state"),
    "mcp": pytest("tests/scenario/tools"),
    "escape": pytest("tests/escape"),
    "unit": unit,
    "seeds": seeds,
    "tools": pytest("tests/tools"),
}
LANES = 5


def describe(passed, failed, skipped):
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def show(log):
    text = log.read_bytes().decode(errors="replace")
    if len(text) > SHOWN_MAX:
        text = f"(the end of {log})\n" + text[-SHOWN_MAX:]
    print(text, flush=True)


def reasons(log):
    """Why tests were skipped: a skip that nobody sees is a test that nobody has."""
    for line in log.read_text(errors="replace").splitlines():
        if re.match(r"SKIPPED|skipped: ", line):
            print(f"           {line}", flush=True)


def how_far(log):
    """How much of a suite is done, from what it has printed so far."""
    text = log.read_bytes()[-4096:].decode(errors="replace")
    percent = re.findall(r"\[ *(\d+%)\]", text)
    return f" {percent[-1]}" if percent else ""


def show_progress(ended):
    """Prints where the suites are, until ENDED is set."""
    began = time.monotonic()
    while not ended.wait(PROGRESS_SECONDS):
        with LOCK:
            parts = ", ".join(f"{name}{how_far(log)}" for name, log in sorted(RUNNING.items()))
            print(f"... {time.monotonic() - began:.0f} s: {parts}", flush=True)


def run_lane(logs, names, results):
    while True:
        with LOCK:
            if not names:
                return
            name = names.pop(0)
            log = logs / f"{name}.txt"
            log.write_text("")
            RUNNING[name] = log
        began = time.monotonic()
        counts = SUITES[name](log)
        results[name] = counts
        with LOCK:
            del RUNNING[name]
            print(f"{name:<10} {describe(*counts)}  ({time.monotonic() - began:.1f} s)", flush=True)
            if counts[1]:
                show(log)
            elif counts[2]:
                reasons(log)


def main():
    names = sys.argv[1:] or list(SUITES)
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        sys.exit(f"no suite '{unknown[0]}': there are {', '.join(SUITES)}")
    os.chdir(ROOT)
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    logs = BUILD / "tests" / "log"
    logs.mkdir(parents=True, exist_ok=True)
    results = {}
    print(f"running {', '.join(names)}: {LANES} at a time", flush=True)
    left = list(names)
    ended = threading.Event()
    threading.Thread(target=show_progress, args=(ended,), daemon=True).start()
    lanes = [threading.Thread(target=run_lane, args=(logs, left, results), daemon=True)
             for _ in range(LANES)]
    try:
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        ended.set()
        unsteady = try_again(logs, results)
    finally:
        ended.set()
        for proc in UNDER_WAY:
            end(proc)
    total = tuple(map(sum, zip((0, 0, 0), *results.values())))
    # A suite that said nothing has not passed.
    if len(results) < len(set(names)):
        total = (total[0], total[1] + 1, total[2])
    for count, what in ((total[2], "skipped"), (unsteady, "unsteady")):
        if count:
            print(f"{count} {what}")
    print(f"{total[0]} passed, {total[1]} failed")
    sys.exit(1 if total[1] or not total[0] else 0)


if __name__ == "__main__":
    # So that the suite under way is killed with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
