"""Dispatches over the API of `cloister serve`: events, results, restarts."""
import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
from contextlib import closing

import pytest

from operators import SECONDS, is_alive, only_user, wait_until
from service import Events, Service, UnixConnection

OVER = {"finished", "failed", "cancelled", "timed_out"}


@pytest.fixture
def service(operator):
    return Service(operator)


def agent(service, script, name="worker", **more):
    return service.post("/v1/agents", {"name": name, "command": ["sh", "-c", script], **more}).ok(201)


def dispatch(service, name="worker", status=202, socket=None, **more):
    return service.post("/v1/dispatches", {"agent": name, **more}, socket=socket).ok(status)


def wait_for(service, id, states=OVER):
    def look():
        said = service.get(f"/v1/dispatches/{id}").ok()
        return said if said["state"] in states else None
    return wait_until(look, f"dispatch {id} is one of {states}")


def events(service, id, headers=None, query="", socket=None):
    stream = Events(socket or service.socket, f"/v1/dispatches/{id}/events{query}", headers)
    with closing(stream):
        return list(stream)


def test_folder_made_ahead(service, operator):
    """Once nothing runs there is a folder for whoever comes next, who begins with no events but
    its own; where somebody has written into it, nobody else is harmed."""
    top = operator.base / "data" / "dispatches"
    agent(service, "echo $CLOISTER_DISPATCH")
    taken = None
    for _ in range(3):
        id = dispatch(service)["id"]
        wait_for(service, id)
        wait_until(lambda: (top / "next" / "events.jsonl").exists(), "the next folder is there")
        assert taken in (None, (top / id).stat().st_ino)
        taken = (top / "next").stat().st_ino
        told = events(service, id)
        assert [int(e["id"]) for e in told] == list(range(1, len(told) + 1))
        assert service.get(f"/v1/dispatches/{id}/output").data.decode() == f"{id}\n"
    (top / "next" / "events.jsonl").write_text("{}\n")
    assert service.post("/v1/dispatches", {"agent": "worker"}).status >= 400
    assert wait_for(service, dispatch(service)["id"])["state"] == "finished"


def test_to_the_end(service):
    version = agent(service, "cat; echo oops >&2; mkdir /out/a; printf x >'/out/a/b c'; exit 3")
    said = dispatch(service, input="hello\n", on_behalf_of="joe@example.test")
    assert said["resolved"]["agent"] == {"name": "worker", "hash": version["hash"]}
    assert said["principal"] == "joe@example.test"
    told = events(service, said["id"])
    assert [int(e["id"]) for e in told] == list(range(1, len(told) + 1))
    names = [e["event"] for e in told]
    assert names[0] == "dispatch.queued" and names[-1] == "dispatch.finished" and "cell.boot" in names
    assert all(e["data"]["event"] == e["event"] and e["data"]["n"] == int(e["id"]) for e in told)
    assert told[-1]["data"]["exit_code"] == 3
    output = {s: "".join(e["data"].get("text", "") for e in told if e["data"].get("stream") == s)
              for s in ("stdout", "stderr")}
    assert output == {"stdout": "hello\n", "stderr": "oops\n"}
    end = service.get(f"/v1/dispatches/{said['id']}").ok()
    assert end["state"] == "finished" and end["exit_code"] == 3
    path = f"/v1/dispatches/{said['id']}"
    assert service.get(f"{path}/output").data == b"hello\n"
    assert service.get(f"{path}/output?stream=stderr").data == b"oops\n"
    files = service.get(f"{path}/files").ok()["files"]
    assert [(f["path"], f["size"]) for f in files] == [("a/b c", 1)]
    answer = service.get(f"{path}/files/a/b%20c")
    assert answer.status == 200 and answer.data == b"x"
    assert service.get(f"{path}/files/a%2Fb%20c").data == b"x"
    for bad in ("a", "nosuch", "..%2F..%2Fresult.json", "a/b%20c/x"):
        assert service.get(f"{path}/files/{bad}").status in (400, 404), bad
    assert [d["id"] for d in service.get("/v1/dispatches?state=finished").ok()["items"]] == [said["id"]]
    assert service.get("/v1/dispatches?state=running").ok()["items"] == []
    service.get("/v1/dispatches?state=odd").error(400, "invalid", "timed_out")
    service.get(f"{path}/output?stream=std").error(400, "invalid", "stdout or stderr")


def test_events_again(service):
    """A client that lost its connection gets the missed events once; a client that has all of them gets a final
    answer."""
    agent(service, "echo a; read x; echo b")
    said = dispatch(service, input="x\n")
    wait_for(service, said["id"])
    all_of_them = events(service, said["id"])
    for n in range(1, len(all_of_them)):
        rest = events(service, said["id"], {"Last-Event-ID": str(n)})
        assert rest == all_of_them[n:]
    with closing(Events(service.socket, f"/v1/dispatches/{said['id']}/events",
                        {"Last-Event-ID": str(len(all_of_them))})) as stream:
        assert stream.status == 204
    lines = service.get(f"/v1/dispatches/{said['id']}/events?after=1&limit=2").data.splitlines()
    assert [json.loads(line) for line in lines] == [e["data"] for e in all_of_them[1:3]]
    for bad in ("x", "-1", "99999999999999999999999"):
        service.get(f"/v1/dispatches/{said['id']}/events", headers={"Last-Event-ID": bad}).error(400, "invalid")


def test_live(service):
    """Events come as they happen; without `follow` there is what there is."""
    agent(service, "echo begun; while ! [ -e /tmp/go ]; do sleep 0.05; done")
    said = dispatch(service)
    with closing(Events(service.socket, f"/v1/dispatches/{said['id']}/events")) as stream:
        seen = []
        for event in stream:
            seen.append(event["event"])
            if event["data"].get("text") == "begun\n":
                break
        assert "agent.started" in seen
        now = service.get(f"/v1/dispatches/{said['id']}/events?follow=false").data.splitlines()
        assert len(now) == len(seen)
        cell = service.get(f"/v1/dispatches/{said['id']}").ok()["cell"]
        assert service.get(f"/v1/cells/{cell}").ok()["state"] == "running"
        let_go(service, cell)
        assert [e["event"] for e in stream][-1] == "dispatch.finished"


def test_bad_requests(service):
    agent(service, "true")

    def refused(status, code, *words, pointer=None, **body):
        error = service.post("/v1/dispatches", body).error(status, code, *words)
        assert error.get("pointer") == pointer, error
    refused(400, "invalid", "missing", pointer="/agent")
    refused(404, "not_found", "nosuch", agent="nosuch")
    refused(400, "invalid", "text", pointer="/agent", agent=7)
    refused(400, "invalid", "did you mean 'agent'", pointer="/agnt", agnt="worker")
    refused(400, "invalid", "list of texts", pointer="/env", agent="worker", env="x")
    refused(400, "invalid", "list of texts", pointer="/env", agent="worker", env=[1])
    refused(404, "not_found", "nosuch", agent="worker", env=["nosuch"])
    refused(400, "invalid", "retries", pointer="/retries", agent="worker", retries=-1)
    refused(400, "invalid", "whole number", pointer="/retries", agent="worker", retries=1.5)
    refused(400, "invalid", "timeout", pointer="/timeout", agent="worker", timeout="soon")
    refused(400, "invalid", "text", pointer="/timeout", agent="worker", timeout=5)
    refused(400, "invalid", "contradict", pointer="/input", agent="worker", input="", input_base64="")
    refused(400, "invalid", "base64", pointer="/input_base64", agent="worker", input_base64="a b")
    service.post("/v1/dispatches", {"agent": "worker", "target": "moon"}).error(400, "invalid", "moon")
    assert service.get("/v1/dispatches").ok()["items"] == []
    service.get("/v1/dispatches/nosuch").error(404, "not_found")
    service.get("/v1/dispatches/nosuch/events").error(404, "not_found")
    service.post("/v1/dispatches/nosuch/cancel").error(404, "not_found")


def test_binary_input(service):
    agent(service, "sha256sum")
    said = dispatch(service, input_base64="AAEC/w==")
    wait_for(service, said["id"])
    assert service.get(f"/v1/dispatches/{said['id']}/output").data.split()[0] == \
        b"3d1f57c984978ef98a18378c8166c1cb8ede02c03eeb6aee7e2f121dfeee3e56"


def test_idempotency(service):
    agent(service, "echo once")
    first = dispatch(service, idempotency_key="k1")
    assert dispatch(service, status=200, idempotency_key="k1")["id"] == first["id"]
    by_header = service.post("/v1/dispatches", {"agent": "worker"}, headers={"Idempotency-Key": "k1"})
    assert by_header.ok(200)["id"] == first["id"]
    service.post("/v1/dispatches", {"agent": "worker", "input": "x", "idempotency_key": "k1"}).error(409, "conflict")
    service.post("/v1/dispatches", {"agent": "worker", "idempotency_key": "a"},
                 headers={"Idempotency-Key": "b"}).error(400, "invalid", "contradict")
    other = dispatch(service, idempotency_key="k2")
    # An agent's keys are others.
    theirs = dispatch(service, idempotency_key="k1", socket=service.agents)
    assert len({first["id"], other["id"], theirs["id"]}) == 3
    for said in (first, other, theirs):
        wait_for(service, said["id"])


def test_cancel(service):
    agent(service, "sleep 1000")
    said = dispatch(service)
    wait_for(service, said["id"], {"running"})
    service.post(f"/v1/dispatches/{said['id']}/cancel", {"now": True}).error(400, "invalid", "now")
    service.post(f"/v1/dispatches/{said['id']}/cancel", {}).ok()
    assert wait_for(service, said["id"])["state"] == "cancelled"
    service.post(f"/v1/dispatches/{said['id']}/cancel").error(409, "over")
    assert events(service, said["id"])[-1]["data"]["state"] == "cancelled"


def test_agents_see_their_own(service):
    agent(service, "echo secret")
    theirs, own = dispatch(service), dispatch(service, socket=service.agents)
    for id in (theirs["id"], own["id"]):
        wait_for(service, id)
    for path in ("", "/events", "/output", "/files", "/files/x"):
        service.get(f"/v1/dispatches/{theirs['id']}{path}", socket=service.agents).error(404, "not_found")
    service.post(f"/v1/dispatches/{theirs['id']}/cancel", socket=service.agents).error(404, "not_found")
    assert service.get(f"/v1/dispatches/{own['id']}", socket=service.agents).ok()["state"] == "finished"
    assert service.get(f"/v1/dispatches/{own['id']}/output", socket=service.agents).data == b"secret\n"
    assert events(service, own["id"], socket=service.agents)[-1]["event"] == "dispatch.finished"


def let_go(service, cell):
    """The cell may be over before it is told that the command is."""
    assert service.operator.cloister("exec", cell, "--", "touch", "/tmp/go").status in (0, 125)


def test_killed_and_started_again(service):
    """It goes on with what runs and with what waits; nothing is run twice, nothing is lost."""
    service.stop()
    service.options = ("--concurrency", "2")
    service.start()
    agent(service, "echo begun; while ! [ -e /tmp/go ]; do sleep 0.05; done; echo done; exit 5")
    ids = [dispatch(service, idempotency_key=f"k{i}")["id"] for i in range(4)]
    running = [wait_for(service, id, {"running"}) for id in ids[:2]]
    with closing(Events(service.socket, f"/v1/dispatches/{ids[0]}/events")) as stream:
        got = [next(iter(stream))]
        service.stop(signal.SIGKILL)
    cells = [r["cell"] for r in running]
    assert {c["cell"] for c in service.operator.cells()} == set(cells)
    service.start()
    assert re.search(r"continuing", service.log())
    for i, id in enumerate(ids):
        assert dispatch(service, status=200, idempotency_key=f"k{i}")["id"] == id
    for id, cell in zip(ids, cells):
        assert service.get(f"/v1/dispatches/{id}").ok()["cell"] == cell
        let_go(service, cell)
    for id in ids[2:]:
        cell = wait_for(service, id, {"running"})["cell"]
        let_go(service, cell)
    for id in ids:
        end = wait_for(service, id)
        assert (end["state"], end["exit_code"], end["attempts"]) == ("finished", 5, 1)
        assert service.get(f"/v1/dispatches/{id}/output").data == b"begun\ndone\n"
    rest = events(service, ids[0], {"Last-Event-ID": got[-1]["id"]})
    assert [int(e["id"]) for e in rest] == list(range(2, len(rest) + 2))
    assert rest[-1]["event"] == "dispatch.finished"


def test_stopped_and_started_again(service):
    """A graceful stop ends streams, begins nothing, and leaves cells alone."""
    agent(service, "while ! [ -e /tmp/go ]; do sleep 0.05; done; echo done")
    id = dispatch(service)["id"]
    cell = wait_for(service, id, {"running"})["cell"]
    with closing(Events(service.socket, f"/v1/dispatches/{id}/events")) as stream:
        next(iter(stream))
        assert service.stop() == 0
        seen = [e["event"] for e in stream]         # its end, in order
        assert "dispatch.finished" not in seen
    assert service.operator.cell(cell)
    service.start()
    let_go(service, cell)
    end = wait_for(service, id)
    assert (end["state"], end["exit_code"]) == ("finished", 0)


@only_user
def test_slow_followers(service):
    """A client that does not read delays no other, and costs next to nothing."""
    agent(service, "head -c 6000000 /dev/zero | tr '\\0' x")
    id = dispatch(service)["id"]
    streams = [Events(service.socket, f"/v1/dispatches/{id}/events") for _ in range(20)]
    try:
        assert wait_for(service, id)["state"] == "finished"
        rss = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{service.process.pid}/status").read())[1])
        assert rss < 150_000, f"{rss} KiB"
        for stream in streams[:2]:
            told = list(stream)
            assert sum(e["data"].get("size", 0) for e in told) == 6_000_000
            assert told[-1]["event"] == "dispatch.finished"
    finally:
        for stream in streams:
            stream.close()
    wait_until(lambda: b"cloister_http_streams 0\n" in service.get("/metrics").data, "all have gone")


@only_user
def test_many_at_once(service):
    """Dispatched by many at a time: each ends, each is counted."""
    agent(service, "echo $((6*7))")
    ids, errors = [], []

    def client():
        with closing(UnixConnection(service.socket)) as c:
            for _ in range(5):
                c.request("POST", "/v1/dispatches", json.dumps({"agent": "worker"}),
                          {"Content-Type": "application/json"})
                response = c.getresponse()
                said = json.loads(response.read())
                (ids.append(said["id"]) if response.status == 202 else errors.append(said))
    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(set(ids)) == 40
    for id in ids:
        end = wait_for(service, id)
        assert (end["state"], end["exit_code"]) == ("finished", 0)
        assert service.get(f"/v1/dispatches/{id}/output").data == b"42\n"
    assert b'cloister_dispatches{state="finished"} 40\n' in service.get("/metrics").data


def sha256_by_hand(value):
    """The hash of the canonical JSON of a VALUE without fractions, by jq and sha256sum."""
    text = subprocess.run(["jq", "-cSj", "."], input=json.dumps(value).encode(), stdout=subprocess.PIPE,
                          check=True).stdout
    return "sha256:" + subprocess.run(["sha256sum"], input=text, stdout=subprocess.PIPE,
                                      check=True).stdout.decode().split()[0]


def test_recorded(service):
    """The request, its resolved versions, its cell and its result are signed."""
    version = agent(service, "echo $$")
    service.post("/v1/envs", {"name": "e", "values": {"A": "1"}}).ok(201)
    id = dispatch(service, on_behalf_of="joe", env=["e"])["id"]
    end = wait_for(service, id)
    told = [json.loads(line)["event"] for line in service.get("/v1/audit/operator").data.splitlines()]
    resolved = sha256_by_hand(end["resolved"])
    programs = "\n".join(f"{p['hash']} {p['file']}" for p in end["resolved"]["programs"])
    assert programs.endswith(os.path.realpath("/bin/sh"))
    assert [e for e in told if e["type"] == "dispatch.asked"] == [
        {"type": "dispatch.asked", "dispatch": id, "agent": "worker", "principal": "joe",
         "resolved": resolved, "programs": programs, "peer": f"uid {os.geteuid()}"}]
    assert [e for e in told if e["type"] == "dispatch.ended"] == [
        {"type": "dispatch.ended", "dispatch": id, "agent": version["hash"], "resolved": resolved,
         "cell": end["cell"], "state": "finished", "exit_code": 0,
         "result": sha256_by_hand(end["result"])}]
    assert end["cell"] in {e.get("cell") for e in told if e["type"] == "cell.started"}


def test_one_whose_row_is_damaged_ends(operator, service):
    agent(service, "until [ -e /tmp/go ]; do sleep 0.02; done; exit 4")
    id = dispatch(service)["id"]
    cell = wait_for(service, id, {"running"})["cell"]
    with closing(sqlite3.connect(operator.base / "data" / "registry" / "db.sqlite")) as db, db:
        db.execute("UPDATE dispatches SET resolved = '{' WHERE id = ?", (id,))
    assert operator.cloister("exec", cell, "touch", "/tmp/go").status in (0, 125)

    def ended():
        told = [json.loads(line)["event"] for line in service.get("/v1/audit/operator").data.splitlines()]
        return [e for e in told if e["type"] == "dispatch.ended"]
    end, = wait_until(ended, "it ended")
    assert (end["dispatch"], end["exit_code"], end["cell"], "resolved" in end) == (id, 4, cell, False)


def test_the_queue_ends_somewhere(operator, service):
    """Dispatches that are only rows, and none is due before this is over: within the longest pause of a retry."""
    agent(service, "true")
    def fill(n):
        with closing(sqlite3.connect(operator.base / "data" / "registry" / "db.sqlite")) as db, db:
            db.execute("""INSERT INTO dispatches (id, state, agent, agent_hash, principal, parent, chain,
                depth, target, policy_hash, build_hash, request_hash, resolved, retries, timeout_ms,
                created_ms, not_before_ms) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
                SELECT hex(randomblob(8)), 0, '', '', '', '', '', 0, '', '', '', '', '{}', 0, 0, 0, strftime('%s', 'now') * 1000 + 58000 FROM n""", [n])
    fill(5000)
    ask = {"agent": "worker", "input": "a body"}
    service.post("/v1/dispatches", ask, socket=service.agents).error(503, "unavailable", "5000 dispatches")
    wait_for(service, dispatch(service)["id"])
    fill(5000)
    service.post("/v1/dispatches", ask).error(503, "unavailable", "10000 dispatches")


def test_an_unknown_token_gives_no_rights(service):
    """A client with a token means to be confined: the request is not handled as if there were none."""
    agent(service, "true")
    service.ask("POST", "/v1/dispatches", {"agent": "worker"}, {"Authorization": "Bearer of-a-dispatch"},
                socket=service.agents).error(401, "unauthorized")
    assert service.get("/v1/dispatches").ok()["items"] == []


def test_agents_keys_are_apart(service):
    """However an operator calls a dispatch, no agent comes to it by its key."""
    agent(service, "true")
    ask = {"agent": "worker", "idempotency_key": "agent/k"}
    service.post("/v1/dispatches", ask).error(400, "invalid", "'agent/'")
    ids = {wait_for(service, dispatch(service, socket=s, idempotency_key=k)["id"])["id"]
           for s, k in ((service.agents, "k"), (service.agents, "agent/k"), (service.socket, "k"))}
    assert len(ids) == 3
