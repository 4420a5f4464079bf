"""Data for dashboards: pages of timelines, sums over time, and one stream for all cells."""
import json
import signal
import time
from contextlib import closing

import pytest

from operators import IS_ROOT, SECONDS, wait_until
from service import Events, Service

# Where there are version 1 cgroups only root can freeze.
pytestmark = pytest.mark.parametrize("who", ["root" if IS_ROOT else "user"])


@pytest.fixture
def service(operator):
    return Service(operator)


def record(n, event, second=None):
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_800_000_000 + (n if second is None else second)))
    return json.dumps({"cell": "ab12cd34", "event": event, "n": n, "prev": "0" * 64, "time": f"{at}.000Z"},
                      separators=(",", ":"), sort_keys=True)


def write_timeline(operator, n, ident="ab12cd34"):
    """A timeline of N records of a cell that has ended: every tenth is a refusal."""
    folder = operator.folder(f"state/ended/{ident}.old")
    with open(folder / "events.jsonl", "w", encoding="utf-8") as out:
        for i in range(1, n + 1):
            if i % 10 == 0:
                event = {"type": "dns", "host": f"no{i}.example", "verdict": "deny", "why": "no-rule"}
            else:
                event = {"type": "http", "host": "api.example", "method": "GET", "path": f"/item/{i}", "port": 443,
                         "scheme": "https", "verdict": "allow", "status": 200, "sent": 10, "received": 1000}
            out.write(record(i, event) + "\n")
    for path in (operator.state / "ended", folder, folder / "events.jsonl"):
        operator.own(path)
    return folder


# ---- timelines

def test_timeline(service, operator):
    write_timeline(operator, 100_000)
    page = "/v1/cells/ab12cd34/timeline"

    def numbers(query=""):
        answer = service.get(page + query).ok()
        return [r["n"] for r in answer["records"]], answer["more"], answer["next"]
    assert numbers("?limit=3") == ([100000, 99999, 99998], True, 99998)
    assert numbers("?limit=2&before=99998") == ([99997, 99996], True, 99996)
    assert numbers("?limit=2&after=99998") == ([99999, 100000], False, None)
    assert numbers("?limit=2&after=5") == ([6, 7], True, 7)
    assert numbers("?after=100000") == ([], False, None)
    assert numbers("?before=3") == ([2, 1], False, None)
    assert len(numbers()[0]) == 100
    assert numbers("?search=/ITEM/77777") == ([77777], False, None)
    assert numbers("?search=no10.example&type=dns") == ([10], False, None)
    assert numbers("?search=no10.example&type=http") == ([], False, None)
    assert numbers("?type=refusal&limit=2") == ([100000, 99990], True, 99981)
    assert numbers("?type=tcp,dns&limit=1&before=11") == ([10], False, None)
    assert numbers("?search=verdict") == ([], False, None)
    first = service.get(page + "?limit=1&before=2").ok()["records"][0]
    assert first == json.loads(record(1, first["event"]))
    assert numbers("?type=&search=&limit=1") == ([100000], True, 100000)
    # All of it, in pages.
    seen, before = 0, ""
    while True:
        found, more, following = numbers(f"?limit=1000&type=http{before}")
        seen += len(found)
        if not more:
            break
        before = f"&before={following}"
    assert seen == 90_000


def test_timeline_errors(service, operator):
    write_timeline(operator, 5)
    service.get("/v1/cells/nosuch/timeline").error(404, "not_found", "nosuch")
    page = "/v1/cells/ab12cd34/timeline"
    service.get(page + "?limit=0").error(400, "invalid", "'limit'")
    service.get(page + "?limit=1001").error(400, "invalid", "'limit'")
    service.get(page + "?after=x").error(400, "invalid", "'after'")
    service.get(page + "?before=0").error(400, "invalid", "'before'")
    service.get(page + f"?search={'x' * 300}").error(400, "invalid", "'search'")
    service.get(page + "?what=x").error(400, "invalid", "'what'")
    service.get(page, socket=service.agents).error(404, "not_found")
    service.get("/v1/cells/ab12cd34/traffic?buckets=0").error(400, "invalid", "'buckets'")


def test_traffic(service, operator):
    folder = write_timeline(operator, 1000)
    traffic = service.get("/v1/cells/ab12cd34/traffic").ok()
    n = len(traffic["requests"])
    assert traffic["since"] == 1_800_000_001 and 30 <= n <= 60 and n * traffic["step_s"] >= 1000
    assert sum(traffic["requests"]) == 900 and sum(traffic["refused"]) == 100
    assert sum(traffic["bytes_in"]) == 900_000 and sum(traffic["bytes_out"]) == 9000
    assert all(len(traffic[name]) == n for name in ("refused", "bytes_in", "bytes_out"))
    # What comes to be added is read, and the rest is not read again; also over a turn.
    with open(folder / "events.jsonl", "a", encoding="utf-8") as out:
        out.write(record(1001, {"type": "http", "verdict": "allow", "sent": 1, "received": 1}) + "\n")
    assert sum(service.get("/v1/cells/ab12cd34/traffic?buckets=1").ok()["requests"]) == 901
    (folder / "events.jsonl").rename(folder / "events.jsonl.1")
    (folder / "events.jsonl").write_text(record(1002, {"type": "tcp", "verdict": "deny"}) + "\n")
    operator.own(folder / "events.jsonl")
    traffic = service.get("/v1/cells/ab12cd34/traffic?buckets=2").ok()
    assert (sum(traffic["requests"]), sum(traffic["refused"])) == (902, 101)
    # The same id again is another cell.
    folder.rename(operator.base / "away")
    write_timeline(operator, 10)
    assert sum(service.get("/v1/cells/ab12cd34/traffic").ok()["requests"]) == 9


# ---- the stream

class Live(Events):
    def __init__(self, service):
        super().__init__(service.socket, "/v1/live")
        assert self.status == 200
        self.events = iter(self)

    def __iter__(self):
        """Also where it only says that it is still there: who waits looks at the clock."""
        event = {}
        for line in self.response:
            key, _, value = line.decode().rstrip("\n").partition(": ")
            if key == "":
                yield event
                event = {}
            else:
                event[key] = json.loads(value) if key == "data" else value

    def until(self, wanted):
        """The data of the first event that WANTED is true of, given its name and its data."""
        end = time.monotonic() + SECONDS
        for event in self.events:
            assert time.monotonic() < end, "it does not come"
            if "event" in event and wanted(event["event"], event["data"]):
                return event["data"]
        raise AssertionError("the stream has ended")


def test_live(service, operator):
    """All cells at the beginning, then what changes in them."""
    cell = operator.detach("--name", "first", "--allow", "GET a.example", "--", "sh", "-c", "sleep 1000")
    with closing(Live(service)) as live:
        cells = live.until(lambda name, data: name == "cells")["cells"]
        assert [c["id"] for c in cells] == [cell]
        assert cells[0]["name"] == "first" and cells[0]["command"] == ["sh", "-c", "sleep 1000"]
        assert cells[0]["state"] == "running" and cells[0]["policy"] is True
        assert (cells[0]["requests"], cells[0]["refused"], cells[0]["last_refusal"]) == (0, 0, None)
        operator.cloister("freeze", cell).ok()
        live.until(lambda name, data: name == "cell" and data["id"] == cell and data["state"] == "frozen")
        operator.cloister("thaw", cell).ok()
        live.until(lambda name, data: name == "cell" and data["id"] == cell and data["state"] == "running")
        # Refusals: the last, and how many.
        operator.cloister("exec", cell, "--", "sh", "-c", "for i in 1 2 3; do getent hosts no$i.example; done; true")
        refusal = live.until(lambda name, data: name == "refusal")
        assert refusal["cell"] == cell and refusal["name"] == "first" and refusal["count"] >= 1
        assert "example" in refusal["what"] and refusal["time"].endswith("Z")
        second = operator.detach("--", "sleep", "1000")
        live.until(lambda name, data: name == "cell" and data["id"] == second)
        operator.cloister("kill", second).ok()
        live.until(lambda name, data: name == "gone" and data["id"] == second)
    # Who comes later sees how it is.
    with closing(Live(service)) as live:
        cells = live.until(lambda name, data: name == "cells")["cells"]
        assert cells[0]["refused"] >= 3 and cells[0]["last_refusal"]["time"] >= refusal["time"]
    operator.cloister("kill", cell).ok()
    assert service.stop() == 0


def test_live_of_nothing(service):
    with closing(Live(service)) as live:
        assert live.until(lambda name, data: name == "cells") == {"cells": []}
        service.process.send_signal(signal.SIGTERM)
        assert list(live.events) is not None        # it ends
    assert service.process.wait(30) == 0


def test_live_busy_timeline(service, operator):
    """A cell that does very much is one event now and then, and the numbers come out right."""
    cell = operator.detach("--allow", "GET a.example", "--", "sleep", "1000")
    entry = wait_until(lambda: next(operator.state.glob(f"{cell}.*/events.jsonl"), None), "it has a timeline")
    service.operator.cloister("freeze", cell).ok()
    with closing(Live(service)) as live:
        live.until(lambda name, data: name == "cells")
        start = sum(1 for _ in open(entry)) + 1000
        told = 0
        with open(entry, "a", encoding="utf-8") as out:
            for i in range(50_000):
                out.write(record(start + i, {"type": "http", "verdict": "allow", "sent": 1, "received": 2}) + "\n")

        def all_there(name, data):
            nonlocal told
            told += name == "cell"
            return name == "cell" and data["requests"] == 50_000
        data = live.until(all_there)
        assert (data["bytes_out"], data["bytes_in"]) == (50_000, 100_000)
        assert told < 500
    operator.cloister("kill", cell)


def test_live_slow_reader(service, operator):
    """A client that does not read delays no other, and gets the current state when it reads again."""
    cell = operator.detach("--", "sleep", "1000")
    with closing(Live(service)) as slow, closing(Live(service)) as live:
        live.until(lambda name, data: name == "cells")
        for state in ("frozen", "running") * 3:
            operator.cloister("freeze" if state == "frozen" else "thaw", cell).ok()
            live.until(lambda name, data: name == "cell" and data["state"] == state)
        assert slow.until(lambda name, data: name == "cells")["cells"]
    operator.cloister("kill", cell).ok()


def test_live_is_the_operators(service):
    service.get("/v1/live", socket=service.agents).error(404, "not_found")
    service.get("/v1/live").error(406, "not_acceptable", "text/event-stream")


# ---- verification

def test_audit_state(service, operator):
    """The state is determined in the background, and sent to clients that follow."""
    operator.cloister("run", "--name", "tried", "--", "true").ok()
    with closing(Live(service)) as live:
        state = live.until(lambda name, data: name == "audit" and data["state"] != "checking")
        assert state["state"] == "verified" and state["timelines"] >= 2 and state["records"] >= 4
        assert state["detail"] is None and state["at"] > 0
    assert service.get("/v1/audit/state").ok()["state"] == "verified"
    service.get("/v1/audit/state", socket=service.agents).error(404, "not_found")


def test_audit_state_broken(service, operator):
    operator.cloister("run", "--name", "tried", "--", "true").ok()
    path = next(operator.state.glob("ended/*.tried/events.jsonl"))
    path.write_bytes(path.read_bytes().replace(b'"argv":["true"]', b'"argv":["evil"]'))
    state = wait_until(lambda: (s := service.get("/v1/audit/state").ok())["state"] != "checking" and s, "it is known")
    assert state["state"] == "broken" and "changed" in state["detail"], state
    assert path.parent.name.split(".")[0] in state["detail"]
