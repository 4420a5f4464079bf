"""Some attempts are the last ones, however many `--retries` there are."""
import http.server
import json
import threading

import pytest

from dispatches import agent, await_over, await_state, detach, dispatch, events, policy, register, show
from operators import end, only_user, wait_until
from service import Service


def not_again(d, *, state="failed", exit_code=None):
    """The reason why the dispatch had one attempt out of four."""
    assert (d["state"], d["exit_code"], d["attempts"]) == (state, exit_code, 1)
    assert "it was not tried again" in d["reason"]
    return d["reason"]


@pytest.mark.parametrize("words", [["kill"], ["stop"], ["stop", "-t", "100ms"]])
@pytest.mark.parametrize("script", ["sleep 1000", "trap 'exit 3' TERM; while :; do sleep 0.1; done"])
def test_one_that_an_operator_ended(operator, words, script):
    agent(operator, "a", "echo begun; " + script)
    id = detach(operator, "a", "--retries", "3")
    wait_until(lambda: operator.cloister("dispatches", "output", id).out == "begun\n", "it runs")
    operator.cloister(*words, show(operator, id)["cell"]).ok()
    assert not_again(await_over(operator, id)) == "an operator ended it; it was not tried again"
    assert [e["event"] for e in events(operator, id)].count("attempt.failed") == 0


@pytest.fixture
def port():
    """The port of a server on this machine that answers GET."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_one_that_a_budget_ended(operator, port):
    policy(operator, "p", {"allow": f"host.cloister.internal:{port}"},
           budgets=[{"per": "cell", "requests": 2, "then": "kill"}])
    agent(operator, "a", f"for i in 1 2 3 4; do curl -s http://host.cloister.internal:{port}/; done; sleep 1000",
          policy="p")
    id = detach(operator, "a", "--retries", "3")
    assert "budget" in not_again(await_over(operator, id))


def test_one_that_an_alarm_ended(operator, port):
    operator.cloister("secret", "add", "KEY", "--host", "api.example.com", input="a-secret-of-some-length").ok()
    policy(operator, "p", {"allow": f"host.cloister.internal:{port}"}, exfiltration="kill")
    agent(operator, "a", f'curl -s -d "$KEY" http://host.cloister.internal:{port}/; sleep 1000', policy="p",
          secrets=["KEY"])
    id = detach(operator, "a", "--retries", "3")
    assert "it sent a secret" in not_again(await_over(operator, id))


# ---- what was taken back is not to be had again by breaking what comes after -----------

HARVEST = """
import os
home = os.getcwd()
os.chdir("/out")
open("fine", "w").write("ok")
for _ in range(%d):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
for i in range(%d):
    open(str(i), "w").close()
print("begun", flush=True)
os.chdir(home)
while not os.path.exists("go"):
    os.system("sleep 0.1")
raise SystemExit(3)
"""


def lose(operator, id):
    """Something is taken from the running dispatch ID."""
    wait_until(lambda: operator.cloister("dispatches", "output", id).out == "begun\n", "it runs")
    operator.cloister("deny", show(operator, id)["cell"], "www.example.com").ok()


def lose_and_end(operator, id):
    lose(operator, id)
    operator.file("go/go")
    return await_over(operator, id)


def taken(operator, folders, files):
    """The id of a dispatch that loses something, and leaves so many FILES beneath so many FOLDERS."""
    policy(operator, "p", {"allow": "www.example.com"})
    register(operator, "agent", "a", policy="p", command=["/usr/bin/python3", "-c", HARVEST % (folders, files)],
             workspace={"path": str(operator.folder("go")), "mode": "ro"})
    return detach(operator, "a", "--retries", "3")


def files_of(operator, id):
    found = json.loads(operator.cloister("dispatches", "files", "--json", id).ok())
    return [f["path"] for f in found["files"]], found["skipped"], found["truncated"]


def test_a_path_that_no_system_call_takes(operator):
    id = taken(operator, 20, 1)
    assert "an operator changed its policy" in not_again(lose_and_end(operator, id), state="finished", exit_code=3)
    assert operator.cloister("dispatches", "output", id).ok() == "begun\n"
    assert files_of(operator, id) == (["fine"], 1, False)


@only_user
def test_more_paths_than_can_be_listed(operator):
    id = taken(operator, 250, 4400)
    assert "an operator changed its policy" in not_again(lose_and_end(operator, id), state="finished", exit_code=3)
    assert operator.cloister("dispatches", "output", id).ok() == "begun\n"
    assert files_of(operator, id) == ([], 0, True)


def test_results_that_cannot_be_kept(operator):
    """The process that gathers them cannot even begin."""
    id = taken(operator, 0, 1)
    lose(operator, id)
    registry, told = operator.base / "data/registry", operator.base / f"data/dispatches/{id}/events.jsonl"
    (registry / "tmp").rename(registry / "aside")
    (registry / "tmp").touch()
    operator.file("go/go")
    wait_until(lambda: "attempt.failed" in told.read_text() or "dispatch.finished" in told.read_text(), "it is over")
    (registry / "tmp").unlink()
    (registry / "aside").rename(registry / "tmp")
    over = await_over(operator, id)
    reason = not_again(over)
    assert "an operator changed its policy" in reason
    # Nothing is lost.
    assert f"what the agent left is still in the cell {over['cell']}: cannot open" in reason
    assert operator.cloister("logs", over["cell"]).ok() == "begun\n"
    operator.cloister("discard", over["cell"]).ok()


def test_unknown_effects_of_a_killed_cell(operator):
    """The supervisor, which would have reported them, was killed."""
    agent(operator, "a", "echo begun; sleep 1000")
    id = detach(operator, "a", "--retries", "3")
    cell = await_state(operator, id, "running")["cell"]
    end(operator.cell(cell)["supervisor"])
    reason = not_again(await_over(operator, id))
    assert "supervisor" in reason and "not known" in reason
    wait_until(lambda: operator.sh("true") and not operator.running(), "it was cleared")


# ---- the emergency stop --------------------------------------------------------------

STUBBORN = "trap '' TERM; echo begun; while :; do sleep 0.1; done"


def crowd(operator):
    """One that runs and would be tried again, one that waits for its next attempt, one for a place."""
    agent(operator, "failing", "exit 1")
    agent(operator, "a", STUBBORN)
    one = {"CLOISTER_CONCURRENCY": "1"}
    again = detach(operator, "failing", "--retries", "1", env=one)
    wait_until(lambda: "attempt.failed" in [e["event"] for e in events(operator, again)], "it failed")
    runs = detach(operator, "a", "--retries", "3", env=one)
    await_state(operator, runs, "running")
    return [again, runs, detach(operator, "a", env=one)]


def test_nothing_runs_after_the_emergency_stop(operator):
    ids = crowd(operator)
    assert operator.cloister("kill", "--all").ok() == "killed 1 cell\ncancelled 3 dispatches\n"
    assert [await_over(operator, id)["state"] for id in ids] == ["cancelled"] * 3
    assert operator.cells() == [] and [show(operator, id)["attempts"] for id in ids] == [1, 1, 0]
    noted = [json.loads(line)["event"] for line in operator.cloister("audit", "show", "--operator").ok().splitlines()]
    assert [e["dispatches"] for e in noted if e["type"] == "dispatches.cancelled"] == [3]
    assert operator.cloister("kill", "--all").ok() == "killed 0 cells\n"
    # What is asked for afterwards is another matter.
    assert dispatch(operator, "failing").status == 1


def test_nothing_runs_after_the_emergency_stop_of_the_service(operator):
    service = Service(operator, "--concurrency", "1")
    agent(operator, "a", STUBBORN)
    ids = [service.post("/v1/dispatches", {"agent": "a", "retries": 3}).ok(202)["id"] for _ in range(3)]
    await_state(operator, ids[0], "running")
    assert service.post("/v1/cells/kill").ok()["failed"] == []
    # Cells come first: its driver may have written its end before it was cancelled.
    first, *others = (await_over(operator, id)["state"] for id in ids)
    assert first in ("cancelled", "failed") and others == ["cancelled"] * 2
    assert operator.cells() == []
