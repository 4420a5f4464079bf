"""After which attempts there is no other, however many `--retries` were asked for."""
import http.server
import json
import threading

import pytest

from dispatches import agent, await_over, await_state, detach, dispatch, events, policy, show
from operators import wait_until
from service import Service


def not_again(d, *, state="failed", exit_code=None):
    """Of one that was the last attempt of four; why."""
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
    """Of a server on this machine that answers GET."""
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
    assert [await_over(operator, id)["state"] for id in ids] == ["cancelled"] * 3
    assert operator.cells() == []
