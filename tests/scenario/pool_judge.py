"""Whether all that dispatches of a pool were promised is so, when nothing is struck any more: asked from outside."""
import base64
import collections
import json
import re
import subprocess
from dataclasses import dataclass, field

OVER = ("finished", "failed", "cancelled", "timed_out")
STATES = ("queued", "starting", "running", *OVER)
LOST = "its worker was lost"
# The columns of a row that say how it ended.
END = "state", "exit_code", "reason", "result", "cell", "attempts"


@dataclass
class Evidence:
    asked: dict                     # number: the dispatch's id, as a client was told
    rows: dict                      # id: the row in the database
    first: dict                     # id: END of the row, when it was first seen over
    events: dict                    # id: its events, as the operator has them
    outputs: dict                   # id: the blob of its output, by the hash in its result
    ran: dict                       # id: the cells in which its agent ran, in order
    real: set                       # cells whose request had the secret's real value
    acts: dict                      # type: events of the operator's timeline
    own: dict                       # cell: its timeline on its worker's machine
    sent: dict                      # cell: its timeline on the operator's machine
    owed: list                      # what workers still have to send
    wrong: list = field(default_factory=list)       # timelines that do not verify
    left: list = field(default_factory=list)        # cells that still run
    secrets: list = field(default_factory=list)     # files that contain one


def state_of(row):
    return STATES[row["state"]]


def end_of(row):
    return {name: row[name] for name in END}


def complaints_about_run(e, number, id, retries):
    """It ran as often as it may, and its client's answer was true."""
    row, ran = e.rows[id], e.ran.get(id, [])
    may = 1 + (retries if number % 2 else 0)
    if len(ran) > may or len(set(ran)) != len(ran) or row["attempts"] > may:
        yield f"may run {may} times, has {row['attempts']} attempts and ran in {ran}"
    if state_of(row) == "finished" and row["cell"] not in ran:
        yield f"finished with {row['cell']}, and ran in {ran}"
    if wrong := [cell for cell in ran if cell not in e.real]:
        yield f"ran without its secret in {wrong}"


def complaints_about_end(e, id):
    """One end, of its last attempt, which stays as it was."""
    row = e.rows[id]
    if state_of(row) not in OVER:
        yield "is not over"
        return
    if e.first.get(id, end_of(row)) != end_of(row):
        yield f"was over with {e.first[id]}, and is so with {end_of(row)}"
    if state_of(row) == "finished":
        if row["exit_code"] != 3 or not row["result"]:
            yield f"finished with {row['exit_code']} and {row['result']}"
        if e.outputs.get(id) != f"{row['cell']}\nend\n":
            yield f"its output is {e.outputs.get(id)!r}, of {row['cell']}"
    elif state_of(row) != "failed" or LOST not in row["reason"] or row["result"] is not None:
        yield f"{row['reason']}, with {row['result']}"


def complaints_about_events(e, id):
    row, told = e.rows[id], e.events.get(id, [])
    if [one["n"] for one in told] != list(range(1, len(told) + 1)):
        yield f"events have gaps: {[one['n'] for one in told]}"
    ends = [one for one in told if one["event"] == "dispatch.finished"]
    if len(ends) != 1 or told[-1] != ends[0] or ends[0]["state"] != state_of(row):
        yield f"its events end with {told[-1:]}, and it has {len(ends)} ends"
    said = "".join(one["text"] for one in told if one["event"] == "agent.output")
    if state_of(row) == "finished" and not said.endswith(f"{row['cell']}\nend\n"):
        yield f"its events have the output {said!r}"


def complaints_about_records(e, id):
    for act in ("dispatch.asked", "dispatch.ended"):
        if not any(one["dispatch"] == id for one in e.acts.get(act, [])):
            yield f"there is no {act} in the operator's timeline"
    for cell in e.ran.get(id, []):
        if f"/{id}/{cell}" not in e.own.get(cell, ""):
            yield f"the request of {cell} is not in its timeline"
    cell = e.rows[id]["cell"]
    if state_of(e.rows[id]) == "finished" and (cell not in e.own or e.sent.get(cell) != e.own[cell]):
        yield f"{len(e.sent.get(cell, ''))} bytes of the timeline of {cell} are here, of {len(e.own.get(cell, ''))}"


def complaints(e, retries):
    """One sentence for each thing that is not as it was promised."""
    for number, id in e.asked.items():
        if id not in e.rows:
            yield f"{number} {id}: is lost"
            continue
        for kind in (complaints_about_run(e, number, id, retries), complaints_about_end(e, id),
                     complaints_about_events(e, id), complaints_about_records(e, id)):
            yield from (f"{number} {id} ({state_of(e.rows[id])}): {text}" for text in kind)
    for id in set(e.rows) - set(e.asked.values()):
        yield f"{id}: nobody asked for it"
    for id in set(e.ran) - set(e.rows):
        yield f"{id}: ran, and is no dispatch"
    for id, n in collections.Counter(e.asked.values()).items():
        if n > 1:
            yield f"{id}: is {n} dispatches"
    yield from (f"owed: {one}" for one in e.owed)
    yield from (f"audit verify: {line}" for line in e.wrong)
    yield from (f"still runs: {cell}" for cell in e.left)
    yield from (f"a secret is in {path}" for path in e.secrets)


# ---- each of them can be seen -------------------------------------------------------------------

def tampered(e):
    """(what was done, evidence with it, words of the complaint) of each way in which E could be wrong."""
    id = next(id for id, row in e.rows.items() if state_of(row) == "finished" and id in e.ran)
    number = next(number for number, one in e.asked.items() if one == id)
    row, told, cell = e.rows[id], e.events[id], e.rows[id]["cell"]
    other = "zzzzzzzz"

    def so(**changed):
        return Evidence(**{**e.__dict__, **changed})

    def as_row(**changed):
        return {**e.rows, id: {**row, **changed}}
    yield "a dispatch is gone", so(rows={i: r for i, r in e.rows.items() if i != id}), "is lost"
    yield "two requests are one dispatch", so(asked={**e.asked, -1: id}), "is 2 dispatches"
    yield "nobody asked", so(asked={n: i for n, i in e.asked.items() if n != number}), "nobody asked for it"
    yield "it waits for ever", so(rows=as_row(state=0)), "is not over"
    yield "it ran too often", so(ran={**e.ran, id: [f"cell{n}" for n in range(9)]}), "may run"
    yield "it began too often", so(rows=as_row(attempts=9)), "may run"
    yield "a cell ran twice", so(ran={**e.ran, id: [cell, cell]}), "may run"
    yield "it did not run", so(ran={**e.ran, id: []}), "and ran in []"
    yield "no dispatch ran", so(ran={**e.ran, other: [cell]}), "is no dispatch"
    yield "the secret was not there", so(real=e.real - {cell}), "without its secret"
    yield "it has no result", so(rows=as_row(result=None)), "finished with 3"
    yield "the output is another's", so(outputs={**e.outputs, id: f"{other}\nend\n"}), "its output is"
    yield "the end changed", so(first={**e.first, id: {**end_of(row), "state": 4}}), "was over with"
    yield "it failed otherwise", so(rows=as_row(state=4, reason="it rained")), "it rained"
    yield "one that was lost has a result", so(rows=as_row(state=4, reason=LOST)), LOST
    yield "an event is missing", so(events={**e.events, id: told[:1] + told[2:]}), "events have gaps"
    yield "no event is the last", so(events={**e.events, id: told[:-1]}), "its events end with"
    yield "it ended twice", so(events={**e.events, id: [*told, {**told[-1], "n": len(told) + 1}]}), "2 ends"
    for act in ("dispatch.asked", "dispatch.ended"):
        acts = {**e.acts, act: [one for one in e.acts[act] if one["dispatch"] != id]}
        yield f"{act} is not recorded", so(acts=acts), f"no {act}"
    yield "the request is not recorded", so(own={**e.own, cell: ""}), "is not in its timeline"
    yield "the timeline did not come", so(sent={}), "bytes of the timeline"
    yield "its last line did not come", so(sent={**e.sent, cell: e.own[cell].rpartition("\n{")[0]}), "bytes of the timeline"
    yield "a record is owed", so(owed=["cell"]), "owed"
    yield "a timeline was changed", so(wrong=["cell"]), "audit verify"
    yield "a cell was forgotten", so(left=[cell]), "still runs"
    yield "a secret was written", so(secrets=["/file"]), "a secret is in"


# ---- collected ----------------------------------------------------------------------------------

def forms(secret):
    """How it may be written, to be looked for in files."""
    data = secret.encode()
    found = {data, data.hex().encode()}
    for before in range(3):
        # The characters that depend on nothing around it.
        coded = base64.b64encode(b"\0" * before + data)
        found.add(coded[(0, 2, 3)[before]:len(coded) // 4 * 4 - 4])
    return found


def files_with(secrets, *folders):
    """Those that contain one of SECRETS, plainly or coded."""
    lines = b"\n".join(form for secret in secrets for form in forms(secret))
    done = subprocess.run(["grep", "-rlaF", "-D", "skip", "-f", "-", "--", *map(str, folders)], input=lines, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.stdout.decode().splitlines()


def timelines(*machines):
    """{cell: the lines of its timeline}, of all cells there."""
    found = {}
    for machine in machines:
        for entry in [*machine.state.glob("*.*"), *(machine.state / "ended").glob("*.*")]:
            files = sorted(entry.glob("events.jsonl.[0-9]*"), key=lambda f: int(f.suffix[1:]))
            whole = [*files, *([entry / "events.jsonl"] if (entry / "events.jsonl").exists() else [])]
            if whole:
                found[entry.name.split(".")[0]] = "".join(file.read_text() for file in whole)
    return found


def acts(operator):
    found = collections.defaultdict(list)
    folder = operator.base / "data/audit"
    files = sorted(folder.glob("operator.jsonl.[0-9]*"), key=lambda f: int(f.suffix[1:]))
    for file in [*files, folder / "operator.jsonl"]:
        for line in file.read_text().splitlines():
            event = json.loads(line)["event"]
            found[event["type"]].append(event)
    return found


def events_of(operator, id):
    path = operator.base / "data/dispatches" / id / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def not_sound(machine):
    """What `audit verify` says of timelines that are not as they were."""
    done = machine.cloister("audit", "verify", "--all", seconds=600)
    lines = [line.strip() for line in done.out.splitlines() if not re.search(r": sound, ", line)]
    return [] if done.status == 0 else [f"{done.status} {done.err.strip()}", *lines[:10]]
