"""Budgets: what is used up is counted before it leaves, and stays counted whoever dies."""
import json
import os
import re
import signal

import pytest

import leftovers
from egress_lab import CURL, await_event, helpers_of
from operators import SECONDS, only_user, wait_until

# Where root makes no difference.
pytestmark = only_user

WWW = "https://www.example.test/hello"
UP = "https://up.example.test"
ALL = """
egress:
  - allow: [www.example.test, api.example.test, git.example.test]
  - allow: up.example.test
"""
CODE = [*CURL, "-o", "/dev/null", "-w", "%{http_code}"]

# 32 threads that keep their connections, each with so many requests; how many were answered how.
CROWD = """
import collections, http.client, ssl, sys, threading
codes, lock, start = collections.Counter(), threading.Lock(), threading.Barrier(32)
context = ssl.create_default_context()
def go():
    c = http.client.HTTPSConnection("www.example.test", context=context)
    c.connect()
    start.wait()
    for i in range(int(sys.argv[1])):
        c.request("GET", "/hello")
        answer = c.getresponse()
        answer.read()
        with lock:
            codes[answer.status] += 1
threads = [threading.Thread(target=go) for i in range(32)]
for t in threads: t.start()
for t in threads: t.join()
print(*(f"{code}={n}" for code, n in sorted(codes.items())))
"""


def policy(text):
    return "version: 1\n" + text + (ALL if "egress:" not in text else "")


def code(online, url=WWW, *words):
    return online.inside(*CODE, *words, url).out


def budget(online, cell=None):
    """{(name, kind): line}"""
    told = json.loads(online.operator.cloister("budget", "--json", cell or online.cell).ok())
    return {(line["name"], line["kind"]): line for line in told["budgets"]}


def used(online, name, kind, cell=None):
    return budget(online, cell)[name, kind]["used"]


def reached(online):
    return [(e["budget"], e["kind"], e["percent"]) for e in online.events(type="budget")]


def test_requests_by_32_connections_at_once(online, lab):
    """Not one request too many passes. The limit is reported once, survives a crash, and can be raised."""
    before = len(lab.seen("/hello"))
    cell = online.start(policy("budgets: [{per: cell, requests: 100, warn: [50%, 80%]}]"),
                        "sleep", "1000")
    done = online.inside("/usr/bin/python3", "-c", CROWD, "10")
    assert done.ok() == "200=100 429=220\n"
    assert len(lab.seen("/hello")) - before == 100
    assert reached(online) == [("cell", "requests", 50), ("cell", "requests", 80),
                               ("cell", "requests", 100)]
    refused = json.loads(online.inside(*CURL, WWW).out)
    assert refused["reason"] == "the budget 'cell' is used up: 100 of 100 requests"
    assert online.events(why="budget", verdict="deny", status=429)
    # Whoever dies, it stays counted.
    courier = helpers_of(online.operator, cell)["courier"]
    os.kill(courier, signal.SIGKILL)
    wait_until(lambda: helpers_of(online.operator, cell).get("courier") != courier, "its end")
    assert code(online) == "429"
    assert used(online, "cell", "requests") == 100
    # More of it, by somebody and for a reason.
    told = online.operator.cloister("budget", cell, "--raise", "cell", "requests=+2", "--why",
                                    "it does well").ok()
    assert told == "cell requests: 102, before 100\n"
    assert [code(online) for _ in range(3)] == ["200", "200", "429"]
    line = budget(online)["cell", "requests"]
    assert (line["used"], line["limit"], line["reached"], line["raised"]) == (102, 102, True, True)
    steered = await_event(online, type="steer", did="budget")
    assert steered["why"] == "it does well" and steered["by"].startswith("uid ")
    assert (steered["budget"], steered["kind"], steered["limit"]) == ("cell", "requests", 102)
    assert re.search(r"steer: budget cell requests to 102 by uid \d+, pid \d+  it does well\n",
                     online.operator.cloister("events", cell).ok())
    why = online.operator.cloister("why", cell).ok()
    assert "a budget of the policy does not" in why and "would allow it" not in why
    shown = online.operator.cloister("budget", cell).ok()
    assert "102           102   100%  refuse  raised  used up" in shown
    for words, why in ((["cell", "requests=50"], "no more than there is"),
                       (["cell", "money=5"], "says nothing of money"),
                       (["rule", "requests=5"], "has no budget 'rule'"),
                       (["requests=5"], "--raise NAME requests=5, with a NAME from the first column"),
                       (["cell", "bananas=5"], "is not KIND=VALUE")):
        online.operator.cloister("budget", cell, "--raise", *words).sentence(why)
    online.operator.cloister("kill", cell).ok()


def test_hosts_rules_and_prices(online):
    cell = online.start(policy("""
budgets:
  - {per: cell, hosts: 3, money: 1.30 USD}
egress:
  - {allow: www.example.test, budget: {requests: 2}, price: 0.4}
  - {allow: api.example.test, price: 0.15}
  - {allow: [git.example.test, up.example.test]}
"""), "sleep", "1000")
    assert [code(online) for _ in range(3)] == ["200", "200", "429"]
    said = json.loads(online.inside(*CURL, WWW).out)["reason"]
    assert said == "the budget 'rule:policy.yaml:6:5' is used up: 2 of 2 requests"
    # 0.80 are spent.
    assert [code(online, "https://api.example.test/hello") for _ in range(4)] == ["200"] * 3 + ["429"]
    assert used(online, "cell", "money") == 1250000000
    # Two hosts so far: one more, and no fourth; the first ones are known again.
    assert code(online, "https://git.example.test/hello") != "429"
    assert code(online, f"{UP}/echo") == "429"
    assert "3 of 3 hosts" in online.inside(*CURL, f"{UP}/echo").out
    assert code(online, "https://git.example.test/hello") != "429"
    assert used(online, "rule:policy.yaml:6:5", "requests") == 2
    online.operator.cloister("kill", cell).ok()


def test_bytes(online):
    """Bytes over the limit are cut off as they pass, and nothing more leaves."""
    cell = online.start(policy("budgets: [{bytes_in: 1M, bytes_out: 100K}]"), "sleep", "1000")
    # A body of which the length is told does not leave at all.
    big = "head -c 200000 /dev/zero | curl -sS -o /dev/null -w '%{http_code} %{size_upload}' "
    told = online.inside("sh", "-c", f"{big} -H 'expect:' --data-binary @- {UP}/echo").out
    assert told.startswith("429 ")
    assert used(online, "cell", "bytes_out") == 0
    assert code(online, f"{UP}/echo", "--data", "x" * 1000) == "200"
    assert used(online, "cell", "bytes_out") == 1000
    # One of which nobody knows how long it will be is cut.
    online.inside("sh", "-c", f"{big} -T - {UP}/echo")
    assert await_event(online, type="budget", kind="bytes_out", did="reached")
    assert 100 << 10 < used(online, "cell", "bytes_out") < 500000
    assert "of 100K of requests" in online.inside(*CURL, WWW).out
    online.operator.cloister("budget", cell, "--raise", "cell", "bytes_out=10M").ok()
    done = online.inside(*CURL, "-o", "/dev/null", "-w", "%{size_download}",
                         f"{UP}/generate?n=50000000")
    assert done.status != 0 and int(done.out) < 20000000
    assert await_event(online, type="budget", kind="bytes_in", did="reached")
    assert code(online) == "429"
    online.operator.cloister("kill", cell).ok()


def test_a_principal_and_a_secret(online):
    """A principal's budget is shared by all of its cells, and outlives them."""
    online.operator.cloister("secret", "add", "WWW_KEY", "--host", "www.example.test", input="value-of-it").ok()
    text = policy("budgets: [{per: principal, requests: 3}, {secret: WWW_KEY, requests: 1}]")
    options = ("--principal", "ann@example.test", "--secret", "WWW_KEY")
    first = online.start(text, "sleep", "1000", options=options)
    with_secret = ["sh", "-c", f"curl -sS -o /dev/null -w '%{{http_code}}' -H \"authorization: Bearer $WWW_KEY\" {WWW}"]
    assert [online.inside(*with_secret).out for _ in range(2)] == ["200", "429"]
    assert used(online, "secret:WWW_KEY", "requests") == 1
    assert code(online) == "200"
    online.operator.cloister("kill", first).ok()
    second = online.start(text, "sleep", "1000", options=options)
    assert [code(online) for _ in range(2)] == ["200", "429"]
    assert budget(online)["principal", "requests"]["of"] == "ann@example.test"
    other = online.start(text, "sleep", "1000", options=("--principal", "bob", "--secret", "WWW_KEY"))
    assert code(online) == "200"
    # Raised in one cell, it is for all of that principal.
    online.operator.cloister("budget", second, "--raise", "principal", "requests=4").ok()
    online.cell = second
    assert [code(online) for _ in range(2)] == ["200", "429"]
    online.operator.cloister("kill", second, other).ok()


@pytest.mark.parametrize("then", ["freeze", "kill"])
def test_actions_at_the_limit(online, who, then):
    operator = online.operator
    cell = online.start(policy(f"budgets: [{{requests: 1, then: {then}}}]"), "sh", "-c",
                        f"curl -sS {WWW}; curl -sS -m 20 {WWW}; sleep 1000")
    if then == "kill":
        assert operator.cloister("wait", cell).status != 0
        assert await_event(online, type="cell", did="killed")["by"] == "budget"
        operator.cloister("discard", cell)
        return
    # Who has no cgroup cannot be frozen, and is killed.
    did = wait_until(lambda: [e for e in online.events(type="cell") if e["did"] in ("frozen", "killed")],
                     "its being stopped")[0]
    assert did["by"] == "budget"
    operator.cloister("kill", cell)


def test_a_budget_that_asks(online):
    """A person raises it, once or for good."""
    operator = online.operator
    text = policy("budgets: [{requests: 1, then: ask}]")
    cell = online.start(text, "sh", "-c", f"for i in 1 2 3 4; do curl -sS -w '%{{http_code}}\\n' "
                        f"-o /dev/null {WWW}; done; sleep 1000")

    def waits():
        told = operator.cloister("approvals", "--json", cell).ok()
        return [a for a in map(json.loads, told.splitlines()) if a["state"] == "pending"]

    asked = wait_until(waits, "its being asked for")[0]
    assert "the budget 'cell' is used up: 1 of 1 requests" in asked["reason"]
    operator.cloister("approve", asked["id"]).ok()
    again = wait_until(lambda: [a for a in waits() if a["id"] != asked["id"]], "the next")[0]
    operator.cloister("refuse", again["id"], "--reason", "enough").ok()
    last = wait_until(lambda: [a for a in waits() if a["id"] not in (asked["id"], again["id"])], "the last")[0]
    operator.cloister("approve", "--rule", last["id"]).ok()
    logs = wait_until(lambda: [text for text in [operator.cloister("logs", cell).out] if text.count("\n") == 4],
                      "all of them being answered")[0]
    assert logs.split() == ["200", "200", "403", "200"]
    assert code(online) == "200"
    assert used(online, "cell", "requests") == 4
    operator.cloister("kill", cell).ok()
    operator.cloister("discard", cell)


def test_time(online):
    cell = online.start(policy("budgets: [{time: 2s, then: kill}]"), "sleep", "1000")
    assert online.operator.cloister("wait", cell).status != 0
    assert await_event(online, type="budget", kind="time", did="reached")["limit"] == 2000
    online.operator.cloister("discard", cell)


def test_time_refuses(online):
    """Only later requests are refused. Processor time is counted separately."""
    cell = online.start(policy("budgets: [{time: 1s}]"), "sleep", "1000")
    wait_until(lambda: code(online) == "429", "its time being over")
    assert "of 1s" in online.inside(*CURL, WWW).out
    # Another policy while it runs: what was used stays so.
    other = online.policy(policy("budgets: [{time: 1h, requests: 2}]"), "other.yaml")
    online.operator.cloister("policy", "set", cell, other).ok()
    assert used(online, "cell", "requests") > 0
    online.operator.cloister("budget", cell, "--raise", "cell", "requests=+1000").ok()
    assert code(online) == "200"
    ends = online.policy(policy("budgets: [{time: 1s, then: kill}]"), "ends.yaml")
    online.operator.cloister("policy", "set", cell, ends).ok()
    online.operator.cloister("wait", cell)
    assert await_event(online, type="cell", did="killed")["by"] == "budget"
    online.operator.cloister("discard", cell)


def test_rate(online):
    cell = online.start(policy("limits: {rate: 3/h}"), "sleep", "1000")
    assert [code(online) for _ in range(4)] == ["200", "200", "200", "429"]
    head = online.inside(*CURL, "-i", WWW).out
    assert 1000 < int(head.lower().split("retry-after: ")[1].split()[0]) <= 1200
    assert online.events(why="rate", status=429)
    online.operator.cloister("kill", cell).ok()
    # The command line goes before the file, also in what `policy show` tells.
    cell = online.start(policy("limits: {rate: 300/h}"), "sleep", "1000", options=("--rate", "1/h"))
    assert [code(online) for _ in range(2)] == ["200", "429"]
    assert "rate: 1/h" in online.operator.cloister("policy", "show", cell).ok()
    online.operator.cloister("kill", cell).ok()
    for words in (["--rate", "fast"], ["--bandwidth", "0"], ["--rate", "1/s"]):
        online.operator.run("--no-policy", *words, "--", "true").sentence(words[0])


def test_how_fast_is_changed_while_it_runs(online, lab):
    cell = online.start(policy("limits: {rate: 1/h}"), "sleep", "1000")
    assert [code(online) for _ in range(2)] == ["200", "429"]

    def change(limits):
        online.operator.cloister("policy", "set", cell, online.policy(policy(limits), "other.yaml")).ok()
    change("limits: {rate: 1000/s, bandwidth: 100M}")
    assert [code(online) for _ in range(3)] == ["200"] * 3
    # What passes at once is paid for by a pause of minutes, which another bandwidth ends.
    change("limits: {bandwidth: 500}")
    slow = online.operator.spawn(online.operator.program, "exec", cell, "--", *CURL, "--max-time", "1000", "-o",
                                 "/tmp/slow", f"{UP}/generate?n=5000000")
    wait_until(lambda: online.inside("test", "-s", "/tmp/slow").status == 0, "some of it")
    assert slow.poll() is None
    change("limits: {bandwidth: 500M}")
    assert slow.wait(SECONDS) == 0
    assert online.inside("stat", "-c", "%s", "/tmp/slow").out == "5000000\n"
    online.operator.cloister("kill", cell).ok()


def test_processor_time_that_is_not_counted(online):
    """If it cannot be counted, such a budget is refused: before the cell starts, and when it is set."""
    cell = online.start(policy(""), "sleep", "1000")
    if leftovers.cgroups([cell]):
        pytest.skip("this user has cgroups")
    of_cpu = online.policy(policy("budgets: [{cpu: 1h}]"), "cpu.yaml")
    online.operator.run("-p", of_cpu, "--", "true").sentence("no count without a cgroup")
    assert code(online) == "200"
    done = online.operator.cloister("policy", "set", cell, of_cpu)
    assert done.status == 125 and "'cell' cannot be counted" in done.err, done
    assert code(online) == "200" and not online.events(type="steer")
    online.operator.cloister("kill", cell).ok()


@pytest.mark.parametrize("url", [f"{UP}/generate?n=1500000", "https://big.example.test/1m"])
def test_bandwidth(online, lab, url):
    """Both ways together, and nothing is lost."""
    lab.file("1m", b"x" * 1500000)
    done = online.curl(policy("limits: {bandwidth: 1M}\negress:\n  - allow: '**.example.test'\n"),
                       "-o", "/dev/null", "-w", "%{size_download} %{time_total}",
                       url.replace("big.example.test", "www.example.test"))
    size, seconds = done.ok().split()
    assert size == "1500000"
    # A tenth of a second's worth passes at once.
    assert float(seconds) > 1.2


def test_a_request_that_waited_counts_once_for_the_rate(online):
    """A request for which people raised the budget counts once."""
    cell = online.start(policy("limits: {rate: 2/h}\nbudgets: [{requests: 1, then: ask}]"), "sh", "-c",
                        f"{' '.join(CODE)} {WWW} >/tmp/first; {' '.join(CODE)} {WWW} >/tmp/second; exec sleep 1000")
    waits = wait_until(lambda: online.operator.cloister("approvals", "--json", cell).ok(), "it asks")
    online.operator.cloister("approve", json.loads(waits)["id"]).ok()
    wait_until(lambda: online.inside("test", "-s", "/tmp/second").status == 0, "it is over")
    assert online.inside("cat", "/tmp/first", "/tmp/second").out == "200200"
    assert code(online) == "429"
    online.operator.cloister("kill", cell).ok()


def test_a_secret_in_a_body(online, lab):
    """Also one that is found only as the body passes."""
    online.operator.cloister("secret", "add", "KEY", "--host", "up.example.test", "--in", "body",
                             input="the-real-one-0123456789abcdef").ok()
    online.start(policy("budgets: [{secret: KEY, requests: 2}]\n" + ALL), "sleep", "1000", options=["-s", "KEY"])
    send = " ".join([*CODE, "-H", "transfer-encoding:chunked", "-H", "content-type:text/plain", "-d", '"my $KEY"',
                     UP + "/echo?in-body"])
    assert [online.inside("sh", "-c", send).out for _ in range(4)] == ["200", "200", "429", "429"]
    assert used(online, "secret:KEY", "requests") == 2
    assert code(online, UP + "/echo", "-H", "transfer-encoding:chunked", "-d", "x") == "200"
    assert used(online, "secret:KEY", "requests") == 2
    online.operator.cloister("kill", online.cell).ok()
