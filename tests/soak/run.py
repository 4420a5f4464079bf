#!/usr/bin/python3
"""Starts and ends thousands of cells in every way there is, kills parts of them at
random, and then looks for anything that is left.

    run.py [--cells 5000] [--seed N] [--width 4] [--shared]

Half of them as root and half as an ordinary user, when run as root.  A seed picks
the same ways again; the moments at which signals strike differ.  60 cells make a
quick check.  Status 1 and a list, when something was left or went wrong."""
import argparse
import collections
import json
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "bench")]

import cells                    # noqa: E402
import remains                  # noqa: E402
from lab import Lab, NoProduct  # noqa: E402

SHOWN_MAX = 40                  # complaints printed of each kind


def make_workspaces(lab):
    for who in lab.users:
        folder = who.home / "workspace"
        folder.mkdir()
        for name in ("old", "kept"):
            (folder / name).write_text(name)
        for path in (folder, *folder.iterdir()):
            os.chown(path, who.uid, who.gid)


def spoilt_workspaces(lab):
    return [f"{who.name}'s workspace was changed: {sorted(os.listdir(who.home / 'workspace'))}"
            for who in lab.users if sorted(os.listdir(who.home / "workspace")) != ["kept", "old"]]


class Soak:
    def __init__(self, lab, args):
        self.lab, self.args = lab, args
        self.token = f"soak-{os.getpid()}-{args.seed}"
        self.complaints, self.ways = [], collections.Counter()
        self.done, self.begin = 0, time.monotonic()
        self.stopping = threading.Event()

    def trial(self, number):
        if self.stopping.is_set():
            return
        rng = random.Random(f"{self.args.seed} {number}")
        who = self.lab.users[number % len(self.lab.users)]
        way = cells.pick_way(rng)
        self.ways[way.__name__] += 1
        try:
            way(cells.Trial(self.lab, who, rng, number, self.token))
        except cells.Complaint as e:
            self.complaints.append(f"cell {number} ({who.name}, {way.__name__}): {e}")
        except Exception as e:
            self.complaints.append(f"cell {number} ({who.name}, {way.__name__}): {e!r}")

    def progress(self):
        self.done += 1
        step = max(1, self.args.cells // (200 if sys.stdout.isatty() else 10))
        if self.done % step and self.done != self.args.cells:
            return
        line = (f"{self.done}/{self.args.cells} cells, {time.monotonic() - self.begin:.0f} s, "
                f"{len(self.complaints)} complaints")
        print(f"\r{line}" if sys.stdout.isatty() else line,
              end="" if sys.stdout.isatty() else "\n", flush=True)

    def run(self):
        pool = ThreadPoolExecutor(self.args.width)
        try:
            trials = [pool.submit(self.trial, n) for n in range(self.args.cells)]
            for future in as_completed(trials):
                future.result()
                self.progress()
        except BaseException:
            # Interrupted: the trials under way wait for their cells.
            self.stopping.set()
            self.lab.kill_all()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        if sys.stdout.isatty():
            print()

    def last_run(self):
        """The next start clears the remains of killed supervisors."""
        for who in self.lab.users:
            for argv, want in ((["run", "-q", "--", "true"], None), (["discard", "--all"], None),
                               (["ps", "-a", "--json"], [])):
                done = who.run([self.lab.cloister, *argv])
                if done.returncode != 0:
                    self.complaints.append(f"{who.name}: last '{' '.join(argv)}': status "
                                           f"{done.returncode}: {done.stderr.strip()}")
                elif want is not None and json.loads(done.stdout) != want:
                    self.complaints.append(f"{who.name}: ps -a still lists {done.stdout[:500]}")


def show(title, lines):
    print(f"{title}: {len(lines)}")
    for line in sorted(lines)[:SHOWN_MAX]:
        print(f"  {line}")
    if len(lines) > SHOWN_MAX:
        print(f"  and {len(lines) - SHOWN_MAX} more")


def soak(args):
    with Lab("cloister-soak-") as lab:
        make_workspaces(lab)
        run = Soak(lab, args)
        before = remains.Before(lab, run.token, args.cells, args.shared)
        try:
            run.run()
            seconds = time.monotonic() - run.begin
            run.last_run()
            left = before.left_in_the_end() + spoilt_workspaces(lab)
        finally:
            for pid in remains.our_processes(str(lab.top), run.token):
                cells.strike(pid, signal.SIGKILL)
        print(f"{args.cells} cells in {seconds:.0f} s ({args.cells / seconds:.0f}/s), "
              f"seed {args.seed}, as {' and '.join(who.name for who in lab.users)}")
        for way, n in run.ways.most_common():
            print(f"  {n:5} {way.replace('_', ' ')}")
        print(f"kernel objects: {before.figures()}")
        show("complaints", run.complaints)
        show("left behind", left)
        return 1 if run.complaints or left else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--width", type=int, default=4, help="how many at a time")
    parser.add_argument("--shared", action="store_true",
                        help="others start cells on this machine meanwhile")
    try:
        return soak(parser.parse_args())
    except NoProduct as e:
        print(e, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
