"""After which attempts there is no other, however many `--retries` were asked for."""
import http.server
import threading

import pytest

from dispatches import agent, await_over, await_state, detach, dispatch, events, policy, show
from operators import wait_until


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
