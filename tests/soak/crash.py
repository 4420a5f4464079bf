#!/usr/bin/python3
"""Kills at random moments under load, and then looks whether anything was lost, run twice, or left
behind.

    crash.py [--mode all] [--rounds 1000] [--seed N] [--batch 50]

Half of it as root and half as an ordinary user, when run as root, which all modes but drivers need.

  drivers     dispatches without a service: killed are the processes that drive them, those that
              start their cells, those that gather results, and some supervisors
  serve       the service, while objects are registered and agents dispatched through it
  supervisor  supervisors of cells that do so
  courier     couriers, gates and inspectors of cells whose requests are recorded before they leave
  disk        there is no room for a while; some of all of the above are killed meanwhile

Rounds are kills, of drivers dispatches, and of the disk how often it was full.  Each dispatch has a
key; its agent leaves a mark outside each time it runs.  Status 1 and a list, when something is not
as it must be."""
import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "bench")]

import crash_modes              # noqa: E402
import remains                  # noqa: E402
from cells import strike        # noqa: E402
from lab import Lab, NoProduct  # noqa: E402

SHOWN_MAX = 40
TOO_LONG = 300                  # seconds, until all that was taken in is over
OVER = ("finished", "failed", "cancelled", "timed_out")
# Long enough for each part of a dispatch to be struck, and short enough for thousands.
SCRIPT = "echo $CLOISTER_DISPATCH $CLOISTER_CELL >>ran; echo out; echo r >/out/r; sleep 0.02; echo end; exit 3"
DRIVERS, SUPERVISOR = ("cloister-dispat", "cloister"), "cloister-superv"


def comm(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as f:
        return f.read().strip()
    return ""


def parent(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[1]
    return "0"


class Crash:
    def __init__(self, lab, args):
        self.lab, self.args = lab, args
        self.token = f"crash-{os.getpid()}-{args.seed}"
        self.killed = collections.Counter()
        self.complaints = []
        self.lock = threading.Lock()
        self.acknowledged = {}          # (who, key): id
        self.cells = set()              # all that there were
        self.over = threading.Event()
        for who in lab.users:
            who.env["CRASH"] = self.token

    def complain(self, text):
        with self.lock:
            self.complaints.append(text)

    def cloister(self, who, *words, **how):
        return who.run([self.lab.cloister, *words], **how)

    # ---- what is there to be dispatched ----
    def register(self):
        for who in self.lab.users:
            who.work = who.home / "work"
            who.work.mkdir()
            os.chown(who.work, who.uid, who.gid)
            file = who.home / "agent.yaml"
            file.write_text(json.dumps({"name": "marker", "command": ["sh", "-c", SCRIPT],
                                        "workspace": {"path": str(who.work), "mode": "rw"}}))
            os.chown(file, who.uid, who.gid)
            done = self.cloister(who, "agent", "register", file)
            if done.returncode != 0:
                sys.exit(f"cannot register an agent: {done.stderr}")

    # ---- killing ----
    def victims(self, name_of):
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and comm(name) in name_of:
                with contextlib.suppress(OSError):
                    if self.token.encode() in Path(f"/proc/{name}/environ").read_bytes():
                        found.append(int(name))
        return found

    def killer(self, seed):
        rng = random.Random(seed)
        while not self.over.is_set():
            time.sleep(rng.expovariate(1 / 0.06))
            supervisors = rng.random() < self.args.supervisors
            found = self.victims((SUPERVISOR,) if supervisors else DRIVERS)
            # A process that a supervisor forks has its name until it becomes the first process or the
            # collector of the cell.  Its end is not that of a supervisor: results may be incomplete.
            found = [pid for pid in found if comm(parent(pid)) != SUPERVISOR]
            if found:
                victim = rng.choice(found)
                name = comm(victim)
                if strike(victim, signal.SIGKILL):
                    self.killed[name] += 1

    # ---- dispatching ----
    def ask(self, who, key, rng):
        """One `cloister dispatch`, which may well be killed; its id if it said one."""
        words = ["--detach"] if rng.random() < 0.5 else ["--json"]
        proc = who.popen([self.lab.cloister, "dispatch", "marker", "--key", key, *words],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, err = proc.communicate(timeout=TOO_LONG)
        except subprocess.TimeoutExpired:
            strike(proc.pid)
            proc.communicate()
            self.complain(f"{who.name} {key}: did not end")
            return None
        if proc.returncode == 125 and "SIGKILL" not in err and words == ["--detach"]:
            self.complain(f"{who.name} {key}: {err.strip()}")
        first = out.split("\n")[0] if "\n" in out else ""
        if words == ["--detach"]:
            return first or None
        with contextlib.suppress(ValueError):
            return json.loads(first)["dispatch"]
        return None

    def trial(self, number):
        rng = random.Random(f"{self.args.seed} {number}")
        who = self.lab.users[number % len(self.lab.users)]
        key = f"key-{number}"
        seen = set()
        for _ in range(rng.choice([1, 1, 2, 3])):
            id = self.ask(who, key, rng)
            if id:
                seen.add(id)
                self.acknowledged[who.name, key] = id
        if len(seen) > 1:
            self.complain(f"{who.name} {key}: became several dispatches: {seen}")

    def run(self):
        killers = [threading.Thread(target=self.killer, args=(f"{self.args.seed} killer {n}",), daemon=True)
                   for n in range(2)]
        for k in killers:
            k.start()
        try:
            with ThreadPoolExecutor(self.args.width) as pool:
                for future in [pool.submit(self.trial, n) for n in range(self.args.dispatches)]:
                    future.result()
        finally:
            self.over.set()
            for k in killers:
                k.join()

    # ---- judging ----
    def clear(self):
        """Each new cell clears what killed supervisors left."""
        for who in self.lab.users:
            self.cloister(who, "run", "-q", "--", "true")

    def left(self, before):
        """Only cgroups of our own cells: others may be at work here."""
        end = time.monotonic() + remains.PATIENCE
        while True:
            self.clear()
            said = [line for line in before.left() if not line.startswith("cgroup ") or
                    os.path.basename(line)[len("cloister-"):][:8] in self.cells]
            if not said or time.monotonic() > end:
                return said
            time.sleep(0.25)

    def rows(self, who):
        """The list of dispatches; asking for it has abandoned ones adopted."""
        found = {}
        done = self.cloister(who, "dispatches", "--json", "--limit", "1000")
        assert done.returncode == 0, done.stderr
        path = who.top / "data/registry/db.sqlite"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            for id, key, state, cell, reason in db.execute("SELECT id, key, state, cell, reason FROM dispatches"):
                found[id] = (key, ["queued", "starting", "running", *OVER][state], cell, reason)
            graves = {cell for cell, in db.execute("SELECT cell FROM graves")}
        return found, graves

    def settle(self, who):
        """Nothing is killed any more: until all is over."""
        end = time.monotonic() + TOO_LONG
        while True:
            rows, graves = self.rows(who)
            if all(row[1] in OVER for row in rows.values()) and not self.victims(DRIVERS):
                return rows, graves
            if time.monotonic() > end:
                self.complain(f"{who.name}: still not over: "
                              f"{[(i, r) for i, r in rows.items() if r[1] not in OVER][:5]}")
                return rows, graves
            time.sleep(0.2)

    def judge_one(self, who, id, row, ran):
        key, state, cell, reason = row
        name = f"{who.name} {key} {id} ({state}{': ' + reason if reason else ''})"
        if len(ran) > 1:
            self.complain(f"{name}: ran {len(ran)} times: {ran}")
        if state == "finished":
            if len(ran) != 1:
                self.complain(f"{name}: finished without having run")
            out = self.cloister(who, "dispatches", "output", id).stdout
            file = self.cloister(who, "dispatches", "files", id, "r").stdout
            if (out, file) != ("out\nend\n", "r\n"):
                self.complain(f"{name}: gave {out!r} and {file!r}")
        elif not re.search("supervisor|first process|not be started|makes the cell's network", reason) and \
                not (self.killed["cloister-init"] and reason == "its cell was killed"):
            # A supervisor that is struck may just have become the first process, or be its child that makes the network.
            self.complain(f"{name}: should have finished")
        lines = (who.top / "data/dispatches" / id / "events.jsonl").read_text().split("\n")
        told = [json.loads(line) for line in lines[:-1]]
        self.cells |= {cell} | {e["cell"] for e in told if e["event"] == "cell.boot"}
        if [e["n"] for e in told] != list(range(1, len(told) + 1)) or lines[-1]:
            self.complain(f"{name}: events have gaps")
        if [e["event"] for e in told].count("dispatch.finished") != 1 or told[-1]["event"] != "dispatch.finished":
            self.complain(f"{name}: events end with {told[-1]}")
        elif told[-1]["state"] != state:
            self.complain(f"{name}: events say {told[-1]['state']}")

    def judge(self, who):
        rows, graves = self.settle(who)
        ran = collections.defaultdict(list)
        with contextlib.suppress(FileNotFoundError):
            for line in (who.work / "ran").read_text().splitlines():
                ran[line.split()[0]].append(line.split()[1])
        for (name, key), id in self.acknowledged.items():
            if name == who.name and id not in rows:
                self.complain(f"{name} {key}: {id} was lost")
        keys = collections.Counter(row[0] for row in rows.values())
        for key, n in keys.items():
            if n > 1:
                self.complain(f"{who.name} {key}: is {n} dispatches")
        for id in ran:
            if id not in rows:
                self.complain(f"{who.name}: {id} ran, and is in no row")
        for id, row in rows.items():
            self.judge_one(who, id, row, ran.get(id, []))
        self.cells |= graves
        self.clear()
        left = {entry.split(".")[0] for entry in os.listdir(who.state)
                if entry not in ("writable", "believed", "ended")} - graves
        if left:
            self.complain(f"{who.name}: state of cells is left: {sorted(left)[:10]}")
        if json.loads(self.cloister(who, "ps", "--json").stdout):
            self.complain(f"{who.name}: cells still run")
        for cell in graves:
            self.cloister(who, "discard", cell)
        return collections.Counter(row[1] for row in rows.values()), len(graves)


def crash(args):
    with Lab("cloister-crash-") as lab:
        run = Crash(lab, args)
        run.register()
        before = remains.Before(lab, run.token, args.dispatches, True)
        begin = time.monotonic()
        states, graves = collections.Counter(), 0
        try:
            run.run()
            seconds = time.monotonic() - begin
            for who in lab.users:
                more, n = run.judge(who)
                states += more
                graves += n
            left = run.left(before)
        finally:
            for pid in remains.our_processes(str(lab.top), run.token):
                strike(pid, signal.SIGKILL)
        print(f"{args.dispatches} dispatches in {seconds:.0f} s, seed {args.seed}: {dict(states)}; "
              f"killed {dict(run.killed)}; {graves} cells buried")
        for title, lines in (("complaints", run.complaints), ("left behind", left)):
            print(f"{title}: {len(lines)}")
            for line in lines[:SHOWN_MAX]:
                print(f"  {line}")
        return 1 if run.complaints or left else 0


def run_mode(mode, args):
    if mode == "drivers":
        return crash(args)
    if os.geteuid() != 0:
        print(f"{mode}: only root can find all processes of cells")
        return 0
    return crash_modes.Run(mode, args).all()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=["all", "drivers", *crash_modes.MODES], default="all")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=50, help="strikes between two looks")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--width", type=int, default=4, help="drivers: how many at a time")
    parser.add_argument("--supervisors", type=float, default=0.1,
                        help="drivers: share of kills that strike supervisors")
    args = parser.parse_args()
    args.dispatches = args.rounds
    if args.mode in ("all", "disk") and os.geteuid() == 0:
        crash_modes.in_own_mounts()
    try:
        modes = ["drivers", *crash_modes.MODES] if args.mode == "all" else [args.mode]
        return max([run_mode(mode, args) for mode in modes])
    except NoProduct as e:
        print(e, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
