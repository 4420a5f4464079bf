"""Budgets that many reach at once, in one cell and in several, and that outlive whoever dies."""
import json
import os
import signal
import subprocess

from egress_lab import CURL, helpers_of
from operators import SECONDS, is_alive, only_user, wait_until
from service import Service
from test_budget import UP, code, policy, used
from test_budget_money import DOLLAR, HELLO, MODEL

# Where root makes no difference.
pytestmark = only_user

# 32 connections that begin together, each with so many requests; how many were answered how.
CROWD = """
import collections, http.client, json, ssl, sys, threading
host, path, n, body = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4].encode() or None
codes, lock, start = collections.Counter(), threading.Lock(), threading.Barrier(33)
context = ssl.create_default_context()
def go():
    c = http.client.HTTPSConnection(host, context=context, timeout=60)
    c.connect()
    start.wait()
    for i in range(n):
        try:
            c.request("POST" if body else "GET", path, body, {"content-type": "application/json"} if body else {})
            answer = c.getresponse()
            answer.read()
            how = str(answer.status)
        except (OSError, http.client.HTTPException):
            how = "cut"
            c.close()
        with lock:
            codes[how] += 1
threads = [threading.Thread(target=go) for i in range(32)]
for t in threads: t.start()
print("ready", flush=True)
sys.stdin.readline()
start.wait()
for t in threads: t.join()
print(json.dumps(codes))
"""


class Crowd:
    def __init__(self, online, cell, host, path, n, body=""):
        operator = online.operator
        self.process = operator.spawn(operator.program, "exec", cell, "--", "/usr/bin/python3", "-c", CROWD, host,
                                      path, str(n), body, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"

    def go(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return self

    def end(self):
        out, _ = self.process.communicate(timeout=SECONDS)
        return {"200": 0, "429": 0, **json.loads(out)}


def test_bytes_and_money_by_32_connections(online, lab):
    """Only bytes in flight pass beyond the limit; for money, one request may."""
    cell = online.start(policy(f"""
budgets: [{{bytes_out: 100K, money: 20 USD}}]
prices: {{'*': {{input: 0, output: 1000000, cache_read: 0, cache_write: 0}}}}
egress:
  - allow: up.example.test
  - {{allow: model.example.test, usage: anthropic}}
"""), "sleep", "1000")
    # A dollar an answer, of which nothing is known when a request leaves.
    crowd = Crowd(online, cell, "model.example.test", "/v1/messages", 2, json.dumps(HELLO))
    codes = crowd.go().end()
    seen = len([line for line in lab.seen('"/v1/messages"') if '"model"' in line])
    assert set(codes) == {"200", "429"} and sum(codes.values()) == 64
    # The most that one may cost is more than the budget: so they go one after the other.
    assert codes["200"] == 20, codes
    wait_until(lambda: used(online, "cell", "money") == codes["200"] * DOLLAR, "all of it being counted")
    assert code(online, f"{MODEL}/v1/messages", "-d", "{}") == "429"
    assert len([line for line in lab.seen('"/v1/messages"') if '"model"' in line]) == seen
    # Bytes are counted as they pass: beyond the limit there is what the others had begun to send.
    online.operator.cloister("budget", cell, "--raise", "cell", "money=1000").ok()
    codes = Crowd(online, cell, "up.example.test", "/echo?crowd", 2, "x" * 4000).go().end()
    arrived = len(lab.seen("/echo?crowd"))
    assert sum(codes.values()) == 64 and codes["429"] > 0 and codes["200"] <= arrived, codes
    assert used(online, "cell", "bytes_out") <= (100 << 10) + 31 * 4000
    assert code(online, f"{UP}/echo?crowd", "-d", "x") == "429" and len(lab.seen("/echo?crowd")) == arrived
    assert online.inside(*CURL, f"{UP}/echo", "-d", "x" * 9000).out.count("of 100K of requests") == 1
    online.operator.cloister("kill", cell).ok()


def test_a_principal_by_cells_at_once(online, lab):
    """One budget for all of its cells: a cell that is killed has counted what it sent."""
    text = policy("budgets: [{per: principal, requests: 100}]")
    options = ("--principal", "crowd@example.test")
    before = len(lab.seen("/hello"))
    cells = [online.start(text, "sleep", "1000", options=options) for _ in range(2)]
    crowds = [Crowd(online, cell, "www.example.test", "/hello", 3) for cell in cells]
    for crowd in crowds:
        crowd.go()
    codes = [crowd.end() for crowd in crowds]
    assert sum(c["200"] for c in codes) == 100 and sum(c["429"] for c in codes) == 92, codes
    assert len(lab.seen("/hello")) - before == 100
    # The supervisor of one dies, and its cell with it; what was used stays.
    supervisor = online.operator.cell(cells[0])["supervisor"]
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not is_alive(supervisor), "its end")
    online.cell = cells[1]
    assert code(online) == "429" and used(online, "principal", "requests") == 100
    third = online.start(text, "sleep", "1000", options=options)
    assert code(online) == "429"
    online.operator.cloister("budget", third, "--raise", "principal", "requests=+5").ok()
    # And whoever serves is killed, too.
    service = Service(online.operator)
    told = service.get(f"/v1/cells/{third}/budget").ok()["budgets"]
    assert [(b["used"], b["limit"], b["of"]) for b in told] == [(100, 105, "crowd@example.test")]
    service.stop(signal.SIGKILL)
    service.start()
    assert service.get(f"/v1/cells/{cells[1]}/budget").ok()["budgets"] == told
    assert [code(online) for _ in range(2)] == ["200", "200"]
    online.cell = cells[1]
    assert [code(online) for _ in range(4)] == ["200"] * 3 + ["429"]
    assert [b["used"] for b in service.get(f"/v1/cells/{third}/budget").ok()["budgets"]] == [105]
    service.stop()
    online.operator.cloister("kill", "--all").ok()
    online.operator.cloister("discard", "--all")


def test_a_courier_that_dies_under_load(online, lab):
    """Everything it sent is counted, whenever it is killed: not one request beyond the budget arrives."""
    before = len(lab.seen("/hello"))
    cell = online.start(policy("budgets: [{requests: 200}, {bytes_out: 1K}]"), "sleep", "1000")
    crowd = Crowd(online, cell, "www.example.test", "/hello", 40)
    crowd.go()
    for n in (20, 60, 100):
        wait_until(lambda n=n: used(online, "cell", "requests") >= n, f"{n} of them")
        courier = helpers_of(online.operator, cell).get("courier")
        if courier is not None:
            os.kill(courier, signal.SIGKILL)
    codes = crowd.end()
    assert codes["429"] > 0
    wait_until(lambda: code(online) == "429", "there is another courier")
    assert used(online, "cell", "requests") == 200
    arrived = len(lab.seen("/hello")) - before
    # Of those that were in flight when it was struck, some were counted and did not leave.
    assert codes["200"] <= arrived <= 200
    online.operator.cloister("kill", cell).ok()


def test_a_certificate(online):
    """It is used by connections, not by the bytes on them."""
    keys = online.lab.folder / "keys"
    online.operator.cloister("secret", "add", "CLIENT", "--scheme", "mtls", "--host", "mtls.example.test",
                             input=(keys / "client.crt").read_text() + (keys / "client.key").read_text()).ok()
    online.start(policy("budgets: [{secret: CLIENT, requests: 2}]\negress: [{allow: '*.example.test'}]\n"), "sleep",
                 "1000", options=["-s", "CLIENT"])
    fetch = 'printf %s "$CLIENT" >/tmp/c.pem; ' + " ".join(
        [*CURL, "--cert /tmp/c.pem -o /dev/null -w '%{http_code}'", "https://mtls.example.test/x"])
    assert [online.inside("sh", "-c", fetch).out for _ in range(3)] == ["200", "200", "429"]
    assert code(online) == "200" and used(online, "secret:CLIENT", "requests") == 2
    online.operator.cloister("kill", online.cell).ok()
