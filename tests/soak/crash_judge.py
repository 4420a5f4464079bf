"""Whether all that was acknowledged is there, once, and nothing else: asked from outside, when
nothing is killed any more."""
import collections
import contextlib
import json
import os
import re
import sqlite3
import time

import remains
from crash_load import TOO_LONG

OVER = ("finished", "failed", "cancelled", "timed_out")
STATES = ["queued", "starting", "running", *OVER]
KINDS = {"envs": "env", "agents": "agent", "policies": "policy", "capabilities": "capability"}
# Why a dispatch may fail here: the cell's supervisor was killed, or there was no room.
# Any process of a supervisor's name may be struck: also its child that makes the network.
EXPECTED = "supervisor|first process|not be started|makes the cell's network|disk|space|room|could not be kept|cannot|broke the rules"


def lines_of(folder, name):
    """Records of a timeline, oldest first."""
    files = sorted(folder.glob(f"{name}.[0-9]*"), key=lambda f: int(f.suffix[1:]))
    for file in [*files, folder / name]:
        with contextlib.suppress(FileNotFoundError):
            for line in file.read_bytes().split(b"\n")[:-1]:
                yield json.loads(line)


class Judge:
    def __init__(self, load, before):
        self.load, self.who, self.before = load, load.who, before
        self.data, self.state = load.who.data, load.who.state
        self.cells = set()              # all that we know there were
        self.seen = 0                   # of what came outside
        self.ran = collections.defaultdict(set)
        self.judged = collections.Counter()
        self.known = set()              # dispatches that were judged

    def complain(self, text):
        self.load.complain(text)

    def rows(self, sql):
        path = self.data / "registry/db.sqlite"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchall()

    # ---- until all is over ----
    def settle(self):
        end = time.monotonic() + TOO_LONG
        while True:
            self.load.service.await_up()
            left = self.rows("SELECT id, state, cell FROM dispatches WHERE state < 3")
            if not left:
                break
            if time.monotonic() > end:
                self.complain(f"still not over: {left[:5]}")
                break
            time.sleep(0.1)
        for cell in self.load.traffic_cells:
            self.load.run("kill", cell)
        # Whoever opens the registry tells what was not told when somebody was killed.
        self.load.run("env", "list")

    # ---- what was acknowledged ----
    def operators(self):
        """Events of the operator's timeline, by type."""
        found = collections.defaultdict(list)
        for record in lines_of(self.data / "audit", "operator.jsonl"):
            found[record["event"]["type"]].append(record["event"])
        self.cells |= {e["cell"] for e in found["cell.started"]}
        return found

    def judge_objects(self, told):
        load = self.load
        noted = {(kind, e["name"], e["hash"]) for plural, kind in KINDS.items()
                 for e in told[f"{kind}.registered"]}
        for plural, name, hash in load.registered:
            said = load.service.ask("GET", f"/v1/{plural}/{name}@{hash}")
            if not said or said[0] != 200 or said[1]["hash"] != hash:
                self.complain(f"{plural} {name}@{hash} was acknowledged, and is gone: {said}")
        for plural, name, hash in load.retired:
            said = load.service.ask("GET", f"/v1/{plural}/{name}@{hash}")
            if not said or not said[1].get("retired"):
                self.complain(f"{plural} {name}@{hash} was retired, and is not: {said}")
        versions = self.rows("SELECT kind, names.name, hash, retired FROM versions JOIN names ON "
                             "names.id = versions.name")
        gone = {(kind, e["ref"]) for kind in KINDS.values() for e in told[f"{kind}.retired"]}
        for kind, name, hash, retired in versions:
            if (kind, name, hash) not in noted:
                self.complain(f"{kind} {name}@{hash} is registered, and not recorded")
            if retired and (kind, f"{name}@{hash}") not in gone:
                self.complain(f"{kind} {name}@{hash} is retired, and that is not recorded")
        self.judged["objects"] += len(load.registered) + len(load.retired)
        load.registered.clear()
        load.retired.clear()

    def judge_requests(self):
        """Under `audit: strict` what came outside is in a timeline."""
        came = self.load.outside.noted[self.seen:]
        by_cell = collections.defaultdict(set)
        for path in came:
            words = path.split("/")
            if words[1] == "ran":
                self.ran[words[2]].add((words[3], words[4]))
            by_cell[words[3] if words[1] == "ran" else words[2]].add(path)
        for cell, paths in by_cell.items():
            entries = [*self.state.glob(f"{cell}.*"), *(self.state / "ended").glob(f"{cell}.*")]
            told = {record["event"].get("path") for entry in entries
                    for record in lines_of(entry, "events.jsonl")}
            lost = paths - told
            if lost:
                self.complain(f"cell {cell}: {len(lost)} of {len(paths)} requests are not recorded: "
                              f"{sorted(lost)[:3]}, {entries}")
        self.seen += len(came)
        self.judged["requests"] += len(came)

    def judge_dispatches(self, told):
        rows = self.rows("SELECT id, key, state, cell, reason, exit_code FROM dispatches")
        ids = {row[0] for row in rows}
        for key, id in self.load.dispatched.items():
            if id not in ids:
                self.complain(f"{key}: {id} was acknowledged, and is gone")
        for key, n in collections.Counter(row[1] for row in rows).items():
            if n > 1:
                self.complain(f"{key}: is {n} dispatches")
        asked = {e["dispatch"] for e in told["dispatch.asked"]}
        ended = {e["dispatch"] for e in told["dispatch.ended"]}
        for id, key, state, cell, reason, code in rows:
            if id in self.known:
                continue
            self.known.add(id)
            self.judged[STATES[state]] += 1
            name = f"{key} {id} ({STATES[state]} {code}{': ' + reason if reason else ''})"
            ran = self.ran.get(id, ())
            if len(ran) > 1:
                self.complain(f"{name}: ran {len(ran)} times: {ran}")
            if STATES[state] == "finished" and ((code == 3) != bool(ran) or code not in (3, 4)):
                if code != 4:
                    self.complain(f"{name}: finished, and came outside {len(ran)} times")
            if STATES[state] == "failed" and not re.search(EXPECTED, reason):
                self.complain(f"{name}: should have finished")
            if id not in ended or id not in asked:
                self.complain(f"{name}: its {'end' if id in asked else 'beginning'} is not recorded")
            self.judge_events(id, name, STATES[state])
        for id in self.ran:
            if id not in ids:
                self.complain(f"{id} ran, and is no dispatch")

    def judge_events(self, id, name, state):
        lines = (self.data / "dispatches" / id / "events.jsonl").read_text().split("\n")
        told = [json.loads(line) for line in lines[:-1]]
        self.cells |= {e["cell"] for e in told if e["event"] == "cell.boot"}
        events = [e["event"] for e in told]
        if [e["n"] for e in told] != list(range(1, len(told) + 1)) or lines[-1]:
            self.complain(f"{name}: events have gaps")
        if events.count("dispatch.finished") != 1 or events[-1] != "dispatch.finished" or \
                told[-1]["state"] != state:
            self.complain(f"{name}: events end with {told[-1:]}")
        if "agent.output" in events and events.index("agent.output") < \
                (events.index("agent.started") if "agent.started" in events else 0):
            self.complain(f"{name}: output came before the agent was started")

    # ---- what is left ----
    def judge_audit(self):
        done = self.load.run("audit", "verify", "--all")
        wrong = [line.strip() for line in done.stdout.splitlines() if ": sound, " not in line]
        if done.returncode != 0:
            self.complain(f"audit verify: {done.returncode} {' '.join(wrong)[:600]} {done.stderr.strip()}")

    def graves(self):
        return {cell for cell, in self.rows("SELECT cell FROM graves")}

    def left(self):
        graves = self.graves()
        self.cells |= graves | self.load.traffic_cells
        said = []
        for line in self.before.left():
            if line.startswith("cgroup ") and os.path.basename(line)[len("cloister-"):][:8] not in self.cells:
                continue                # somebody else's
            if line.startswith("file ") and (not line.startswith(f"file {self.who.top}") and
                                             not line.startswith(f"file {self.who.runtime}")):
                continue
            if any(f"/state/{cell}." in line for cell in graves):
                continue
            said.append(line)
        return said

    def judge_left(self):
        """Each new cell clears what killed supervisors left."""
        end = time.monotonic() + remains.PATIENCE
        while True:
            self.load.run("run", "-q", "--", "true")
            for cell in self.load.traffic_cells:
                self.load.run("discard", cell)
            said = self.left()
            if not said or time.monotonic() > end:
                break
            time.sleep(0.25)
        for line in said[:20]:
            self.complain(f"left behind: {line}")
        running = self.load.run("ps", "--json").stdout
        if json.loads(running):
            self.complain(f"cells still run: {running[:300]}")
        for cell in self.graves():
            self.load.run("discard", cell)

    def all(self):
        self.settle()
        told = self.operators()
        self.judge_objects(told)
        self.judge_requests()
        self.judge_dispatches(told)
        self.load.service.stop()
        self.judge_audit()
        self.judge_left()
        self.load.traffic_cells.clear()
