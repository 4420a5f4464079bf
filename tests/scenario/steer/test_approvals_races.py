"""Answers that race: with the end of their time, with other answers, and with the client."""
import concurrent.futures
import datetime
import json
import os
import random
import signal
import struct
import subprocess
import time

import pytest

from approvals import UP, Asking
from egress_lab import helpers_of
from operators import SECONDS, only_root, only_user, wait_until
from test_approvals import by_token
from test_control_socket import connect, text
from test_egress_secrets import canary, give

DONE, REFUSED = 14, 15
INFO, REFUSE, REVOKE = 1, 43, 56
STEERS_MAX = 256                    # under way at once
# So many requests at once, each with a path of its own; what each was answered with, by its path.
MANY = """
import http.client, json, ssl, sys, threading
told, n = {}, int(sys.argv[1])
context = ssl.create_default_context()
def go(path):
    c = http.client.HTTPSConnection("up.example.test", context=context, timeout=60)
    c.request("GET", path)
    answer = c.getresponse()
    told[path] = [answer.status, answer.read().decode()]
threads = [threading.Thread(target=go, args=(f"/n/{i}",)) for i in range(n)]
for t in threads: t.start()
for t in threads: t.join()
print(json.dumps(told))
"""


class Many:
    """Requests that wait; of each its approval, and what it was answered with."""

    def __init__(self, a, n):
        self.process = a.operator.spawn(a.operator.program, "exec", a.cell, "--", "/usr/bin/python3", "-c", MANY,
                                        str(n), stdout=subprocess.PIPE)
        self.asked = wait_until(lambda: len(found := self.new(a)) == n and found, "all of them waiting")

    def new(self, a):
        return {x["path"]: x for x in a.list("-a") if x["id"] not in a.known}

    def end(self, a):
        out, _ = self.process.communicate(timeout=SECONDS)
        a.known |= {x["id"] for x in self.asked.values()}
        return json.loads(out)


def refuse(a, id):
    with connect(a.operator, a.cell) as peer:
        peer.send(struct.pack("<I", REFUSE) + text("token ops") + text("no") +
                  struct.pack("<IQ", 0, int(id.split("-")[1])))
        return struct.unpack("<I", peer.recv(65536)[:4])[0]


@only_user
def test_while_its_time_is_up(online):
    """It is one of the two, and the same one to the approver, to the agent and in the record."""
    a = Asking(online, "  - ask: up.example.test\n    timeout: 1s\n")
    a.known, ends, rng = set(), [], random.Random(7)

    def approve(shown):
        end = datetime.datetime.fromisoformat(shown["asked"].replace("Z", "+00:00")).timestamp() + 1
        time.sleep(max(0, end + rng.uniform(-0.03, 0.03) - time.time()))
        return by_token(a, shown["id"])
    for turn in range(8):
        many = Many(a, 40)
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            said = dict(zip(many.asked, pool.map(approve, many.asked.values())))
        told = many.end(a)
        states = {x["path"]: x["state"] for x in a.list("-a") if x["id"] in {y["id"] for y in many.asked.values()}}
        for path, answer in said.items():
            # Nobody has such a page: whoever says so was reached.
            wanted = (404, "approved") if answer == DONE else (403, "timed_out")
            assert (told[path][0], states[path]) == wanted, (path, answer, told[path], states[path])
            ends.append(answer)
        if turn > 0 and {DONE, REFUSED} == set(ends):
            break
    assert set(ends) == {DONE, REFUSED}
    assert len([e for e in online.events(type="approval") if e["did"] == "timed_out"]) == ends.count(REFUSED)
    assert len(online.events(type="steer", did="approve")) == ends.count(DONE)
    assert len(online.lab.seen('"/n/')) >= ends.count(DONE)
    online.operator.cloister("kill", a.cell).ok()


@only_user
def test_one_of_several_answers_counts(online):
    a = Asking(online, "  - ask: up.example.test\n    approvals: 1\n")
    a.known = set()
    many = Many(a, 24)

    def both(shown):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            verbs = [by_token, refuse] if int(shown["path"][3:]) % 2 else [refuse, by_token]
            said = {verb: pool.submit(verb, a, shown["id"]) for verb in verbs}
            return [said[verb].result() for verb in (by_token, refuse)]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        said = dict(zip(many.asked, pool.map(both, many.asked.values())))
    told = many.end(a)
    for path, (yes, no) in said.items():
        assert {yes, no} == {DONE, REFUSED}
        assert told[path][0] == (404 if yes == DONE else 403)
    # The same person at many places is one person.
    online.operator.cloister("policy", "set", a.cell, online.policy(
        "  - ask: up.example.test\n    approvals: 2\n", "two.yaml")).ok()
    process, shown = a.ask("https://up.example.test/204")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: by_token(a, shown["id"]), range(8)))
    assert sorted(said) == [DONE] + [REFUSED] * 7 and process.poll() is None
    a.answer("approve", shown["id"]).ok()
    assert a.outcome(process) == "204"
    online.operator.cloister("kill", a.cell).ok()


@only_user
def test_a_client_hangs_up_during_an_approval(online):
    """An approval that comes as the client leaves sends the request once or not at all, and later requests are
    answered as usual."""
    a = Asking(online, "  - ask: up.example.test\n")
    for turn in range(6):
        process, shown = a.ask(f"https://up.example.test/hung-up/{turn}")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            said = pool.submit(by_token, a, shown["id"])
            online.operator.cloister("exec", a.cell, "--", "pkill", "curl")
            said = said.result()
        process.communicate(timeout=SECONDS)
        state = wait_until(lambda: (s := a.state(shown["id"])["state"]) != "pending" and s, "its end")
        assert state == ("approved" if said == DONE else "gone")
        assert len(online.lab.seen(f"/hung-up/{turn}")) <= (said == DONE)
    process, shown = a.ask("https://up.example.test/204")
    a.answer("approve", shown["id"]).ok()
    assert a.outcome(process) == "204"
    online.operator.cloister("kill", a.cell).ok()


def own(online, principal, *whos):
    """None of WHOS may answer what a cell for PRINCIPAL asks; somebody else may."""
    a = Asking(online, "  - ask: up.example.test\n", "--principal", principal)
    process, shown = a.ask("https://up.example.test/204")
    for by in whos:
        assert by_token(a, shown["id"], by=by) == REFUSED, (principal, by)
    assert a.list()[0]["state"] == "pending"
    assert by_token(a, shown["id"], by="token nobody-else") == DONE
    assert a.outcome(process) == "204"
    assert [e["approver"] for e in online.events(type="steer")] == ["token:nobody-else"]
    online.operator.cloister("kill", a.cell).ok()


@only_root
def test_nobody_by_another_name(online):
    """By whatever name the principal was written down, and by whichever way they come."""
    for principal in ("root", "user:root", "uid:0"):
        own(online, principal, "", "uid 0")
    for principal in ("ops", "token:ops"):
        own(online, principal, "token ops")


@only_user
@pytest.mark.parametrize("free", [0, 1, 2])
def test_a_rule_is_not_half_opened(online, free):
    """A client whose request was too large at once has opened nothing."""
    give(online, canary())
    a = Asking(online, "  - ask: up.example.test\n", "-s", "KEY")
    process, shown = a.ask(f"{UP}/204")
    courier = helpers_of(a.operator, a.cell)["courier"]
    os.kill(courier, signal.SIGSTOP)
    for _ in range(STEERS_MAX - free):
        with connect(a.operator, a.cell) as peer:
            peer.send(struct.pack("<I", REVOKE) + text("token ops") + text("") + struct.pack("<I", 0) + text("KEY"))
        with connect(a.operator, a.cell) as peer:
            peer.send(struct.pack("<I", INFO))
            peer.recv(65536)            # the one before was heard
    approval = a.operator.spawn(a.operator.program, "approve", "--rule", shown["id"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
    if free < 2:
        assert b"too much is being changed" in approval.communicate(timeout=SECONDS)[1]
    os.kill(courier, signal.SIGCONT)
    if free == 2:
        assert approval.wait(SECONDS) == 0 and a.outcome(process) == "204"
        return
    other, _ = a.ask(f"{UP}/204", n=2)
    for waits in a.list():
        assert by_token(a, waits["id"]) == DONE
    assert {a.outcome(process), a.outcome(other)} == {"204"}
