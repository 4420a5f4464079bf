"""The consequences of a request (`then`), and tripwires: both only ever take rights away."""
import json
import os
import signal
import subprocess

import pytest

from approvals import Asking
from cell_states import State, saver_of
from egress_lab import CURL, await_event, helpers_of
from operators import SECONDS, is_alive, only_root, only_user, wait_until
from test_approvals_notify import configure
from test_egress_s3 import STRAY
from test_egress_secrets import UP, canary, give
from test_freeze import await_frozen

# "After reading payroll, no more writes to GitHub."
PAYROLL = """
  - allow: payroll.example.test
    methods: [GET]
    then:
      narrow:
        - deny: up.example.test
          methods: [POST, PUT]
          reason: no writes after payroll was read
  - allow: '*.example.test'
"""
CURL_CODE = [*CURL, "-o", "/dev/null", "-w", "%{http_code}"]


def code(online, *words):
    return online.inside(*CURL_CODE, *words).out


def restart_courier(online, url=UP + "/echo"):
    courier = helpers_of(online.operator, online.cell)["courier"]
    os.kill(courier, 9)
    wait_until(lambda: not is_alive(courier), "the courier is dead")
    wait_until(lambda: code(online, url) == "200", "there is another courier")


@only_user
def test_after_reading_payroll(online):
    payroll, write = "https://www.example.test/hello", (UP + "/echo", "-d", "x")
    rules = PAYROLL.replace("payroll.", "www.")
    online.start(rules, "sleep", "infinity")
    assert code(online, *write) == "200"
    assert code(online, payroll) == "200"
    # Before the next one leaves.
    assert code(online, *write) == "403"
    said = json.loads(online.inside(*CURL, *write).ok())
    assert said["reason"] == "no writes after payroll was read"
    assert code(online, UP + "/echo") == "200" and code(online, payroll) == "200"
    steer, = online.events(type="steer")
    assert (steer["did"], steer["by"], steer["of"], steer["narrows"]) == \
        ("consequence", "policy", "GET www.example.test", True)
    assert steer["rule"].startswith("policy.yaml:")
    # Whatever becomes of the courier, and of the policy.
    restart_courier(online)
    assert code(online, *write) == "403"
    online.operator.cloister("allow", online.cell, "up.example.test").ok()
    assert code(online, *write) == "403"
    assert len(online.events(type="steer", did="consequence")) == 1
    online.operator.cloister("kill", online.cell).ok()


# A body that goes on once payroll was read, as an upload and over a connection that was upgraded.
AROUND = """
import http.client, os, ssl, sys, time
c = http.client.HTTPSConnection("up.example.test", context=ssl.create_default_context(), timeout=60)
def pieces():
    yield b"before"
    open("/tmp/began", "w").close()
    while not os.path.exists("/tmp/read"):
        time.sleep(0.05)
    yield b"payroll"
try:
    c.request("POST", "/echo?around", pieces(), encode_chunked=True)
except OSError:
    pass
try:
    answer = c.getresponse()
    told = f"{answer.status} {answer.read().decode()}"
except (OSError, http.client.HTTPException) as error:
    told = type(error).__name__
open("/tmp/told.part", "w").write(told)
os.rename("/tmp/told.part", "/tmp/told")
time.sleep(1000)
"""


@only_user
def test_requests_from_before_take_nothing_out(online):
    """A write under way could carry data that was read in the meantime; responses may still come in."""
    # What is not searched is not held.
    rules = PAYROLL.replace("payroll.", "www.") + "    secrets: allow\n"
    online.start(rules, "/usr/bin/python3", "-c", AROUND)
    wait_until(lambda: online.inside("test", "-e", "/tmp/began").status == 0, "it has begun")
    wait_until(lambda: online.lab.seen("/echo?around"), "the server was asked")
    assert code(online, "https://www.example.test/hello") == "200"
    online.inside("touch", "/tmp/read").ok()
    wait_until(lambda: online.inside("test", "-e", "/tmp/told").status == 0, "it is over")
    told = online.inside("cat", "/tmp/told").ok()
    assert told.startswith("403") and "no writes after payroll was read" in told
    assert code(online, UP + "/echo") == "200"
    online.operator.cloister("kill", online.cell).ok()


@only_user
def test_another_policy_and_a_secret(online):
    """A file, with what it allows and nothing else; and what was given is taken back."""
    real = canary()
    give(online, real)
    online.operator.file("after.yaml", "version: 1\negress:\n  - allow: up.example.test\n")
    online.start("  - deny: mail.example.test\n    then: {narrow: after.yaml, revoke: [KEY, NONE], notify: true}\n"
                 "  - allow: '*.example.test'\n", "sleep", "infinity", options=["-s", "KEY"])
    send = " ".join([*CURL_CODE, '-H "Authorization: Bearer $KEY"', UP + "/echo"])
    assert online.inside("sh", "-c", send).out == "200"
    assert code(online, "https://www.example.test/hello") == "200"
    assert code(online, "https://mail.example.test/") == "403"
    assert code(online, "https://www.example.test/hello") == "000"      # not even its name
    assert online.inside("sh", "-c", send).out == "403" and len(online.lab.seen(real)) == 1
    assert await_event(online, type="http", why="revoked")
    assert code(online, UP + "/echo") == "200"
    restart_courier(online)
    said = json.loads(online.inside("sh", "-c", send.replace(" ".join(CURL_CODE), " ".join(CURL))).ok())
    assert "a request to mail.example.test led to that" in said["reason"]
    steer, = online.events(type="steer")
    assert steer["revoked"] == ["KEY", "NONE"]
    # What is written down stands by itself.
    shown = online.operator.cloister("policy", "show", online.cell).ok()
    assert "up.example.test" in shown and "after.yaml" not in shown
    online.operator.cloister("kill", online.cell).ok()


@only_root
def test_it_freezes(online):
    online.start("  - log: www.example.test\n    then: {freeze: true}\n  - allow: '*.example.test'\n",
                 "sh", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done; "
                 f"{' '.join(CURL)} https://www.example.test/hello; exec sleep infinity")
    online.inside("touch", "/tmp/go").ok()
    wait_until(lambda: online.operator.cell(online.cell)["state"] == "frozen", "it is frozen")
    steer, = online.events(type="steer")
    assert steer["did"] == "consequence" and steer["freeze"] is True
    assert online.events(type="cell", did="frozen")[0]["by"] == "consequence"
    online.operator.cloister("thaw", online.cell).ok()
    online.operator.cloister("kill", online.cell).ok()


@only_user
def test_it_asks_from_then_on(online):
    """For every protocol, also if a rule allows it; if a rule asks, the consequence comes with the approval."""
    rules = ("  - ask: www.example.test\n    paths: [/hello]\n    then: {ask: [up.example.test]}\n"
             "  - allow: '*.example.test'\n  - allow: 'up.example.test:7'\n    protocol: tcp\n")
    a = Asking(online, rules)
    assert code(online, UP + "/echo") == "200"
    process, shown = a.ask("https://www.example.test/hello")
    assert code(online, UP + "/echo") == "200" and not online.events(type="steer")
    a.answer("refuse", shown["id"], "--reason", "no").ok()
    assert a.outcome(process) == "403" and code(online, UP + "/echo") == "200"
    process, shown = a.ask("https://www.example.test/hello")
    a.answer("approve", shown["id"]).ok()
    assert a.outcome(process) == "200"
    steer, = online.events(type="steer", did="consequence")
    assert steer["of"] == "GET www.example.test" and steer["narrows"] is True
    assert code(online, "https://www.example.test/up/echo") == "200"
    process, shown = a.ask(UP + "/204")
    assert process.poll() is None and shown["host"] == "up.example.test"
    a.answer("refuse", shown["id"], "--reason", "payroll was read").ok()
    assert a.end(process)[0] == "403"
    raw = ("import socket; s = socket.create_connection(('up.example.test', 7)); print(s.recv(99))")
    process = a.operator.spawn(a.operator.program, "exec", a.cell, "--", "/usr/bin/python3", "-c", raw,
                               stdout=subprocess.PIPE)
    shown = a.wait()
    assert (shown["protocol"], shown["port"]) == ("tcp", 7)
    a.answer("approve", shown["id"]).ok()
    assert b"welcome" in process.communicate(timeout=SECONDS)[0]
    restart_courier(online, "https://www.example.test/up/echo")
    process, shown = a.ask(UP + "/204")
    a.answer("approve", shown["id"], "--rule").ok()
    assert a.outcome(process) == "204" and code(online, UP + "/204") == "204"
    online.operator.cloister("kill", online.cell).ok()


@only_user
def test_consequences_are_notified(operator):
    """Consequences and tripwires, to everybody who wants them; also for a host that is only denied."""
    told = operator.folder("out")
    configure(operator, f"- command: [sh, -c, 'cat >{told}/$CLOISTER_EVENT']\n  on: [consequence, tripwire]\n")
    policy = operator.file("policy.yaml", "version: 1\negress:\n  - deny: api.example.com\n    then: {notify: true}\n"
                           "tripwires:\n  refusals: {count: 1, within: 10m, then: notify}\n")
    cell = operator.detach("-p", policy, "--name", "loud", "--", "sh", "-c",
                           "curl -sS http://api.example.com/x; exec sleep 1000")

    def heard(event):
        file = told / event
        return wait_until(lambda: file.exists() and file.read_text().strip().endswith("}") and json.loads(file.read_text()),
                          f"its being told of {event}")
    consequence, tripwire = heard("consequence"), heard("tripwire")
    assert (consequence["type"], consequence["data"]["cell"], consequence["data"]["name"]) == ("consequence", cell, "loud")
    assert consequence["data"]["of"] == "GET api.example.com"
    assert (tripwire["data"]["tripwire"], tripwire["data"]["then"]) == ("refusals", "notify")
    operator.cloister("kill", cell).ok()


TRIPWIRES = """version: 1
egress:
  - allow: '*.example.test'
tripwires:
  credential: notify
  transfer: {over: 5x, least: 100K, then: refuse}
  refusals: {count: 6, within: 10m, then: kill}
"""


@only_user
def test_tripwires(online):
    """A transfer like no other, a credential, and a burst of refusals."""
    online.start(TRIPWIRES, "sleep", "infinity")
    send = 'head -c "$1" /dev/zero | tr "\\0" a | ' + " ".join([*CURL_CODE, "-T", "-", UP + "/echo"])
    assert online.inside("sh", "-c", send, "sh", "90000").out == "200"
    assert online.inside("sh", "-c", send, "sh", "900000").out == "403"
    assert "on the average" in await_event(online, type="http", why="transfer")["note"]
    tripped = await_event(online, type="steer", did="tripwire")
    assert (tripped["tripwire"], tripped["then"]) == ("transfer", "refuse")
    # One of a known size does not even begin.
    known = 'head -c "$1" /dev/zero >/tmp/f; ' + " ".join([*CURL_CODE, "--data-binary", "@/tmp/f", UP + "/echo"])
    assert online.inside("sh", "-c", known, "sh", "120000").out == "200"
    assert online.inside("sh", "-c", known, "sh", "5000000").out == "403"
    assert code(online, UP + "/echo", "-d", f"token={STRAY}") == "403"
    assert await_event(online, type="steer", tripwire="credential")["then"] == "notify"
    for _ in range(3):
        online.inside(*CURL_CODE, UP + "/echo", "-d", f"token={STRAY}")
    wait_until(lambda: online.cell not in online.operator.cloister("ps").ok(), "it is killed")
    assert "refusals came" in online.operator.cloister("ps", "-a", "--json").ok()


ALL_OF_THEM = """version: 1
egress:
  - allow: '*.example.test'
tripwires:
  exfiltration: {then}
  credential: {then}
  transfer: {{over: 5x, least: 100K, then: {then}}}
  refusals: {{count: 2, within: 10m, then: {then}}}
"""


LEADS = {"credential": f"curl -sS -d token={STRAY} {UP}/echo",
         "transfer": f"head -c 900000 /dev/zero | curl -sS -T - {UP}/echo",
         "exfiltration": f'curl -sS -d "$KEY" {UP}/echo'}


@only_user
def test_tripwires_that_only_notify(online):
    """They refuse nothing; requests that are refused anyway still are."""
    give(online, canary())
    online.start(ALL_OF_THEM.format(then="notify").replace("exfiltration: notify", "exfiltration: refuse"), "sleep",
                 "infinity", options=["-s", "KEY"])
    assert code(online, UP + "/echo", "-d", "x") == "200"
    told = {which: online.inside("sh", "-c", does).out for which, does in LEADS.items()}
    assert '"size": 900000' in told["transfer"]
    assert "refused by cloister" in told["credential"] and "refused by cloister" in told["exfiltration"]
    wait_until(lambda: {e["tripwire"] for e in online.events(type="steer", did="tripwire")} >=
               {"credential", "transfer", "refusals"}, "all of them being recorded")
    assert online.operator.cell(online.cell)["state"] == "running"
    online.operator.cloister("kill", online.cell).ok()


@only_user
@pytest.mark.parametrize("which", ["credential", "transfer", "exfiltration"])
def test_a_tripwire_that_kills(online, which):
    give(online, canary())
    cell = online.start(ALL_OF_THEM.format(then="kill").replace("count: 2", "count: 20"), "sh", "-c",
                        f"curl -sS -d x {UP}/echo; {LEADS[which]}; exec sleep infinity", options=["-s", "KEY"])
    assert online.operator.cloister("wait", cell).status == 137
    assert online.events(type="cell", did="killed")[0]["by"] in ("tripwire", "exfiltration")
    assert online.refusal(type="http")["why"] == {"credential": "secret"}.get(which, which)


def roll(online, which, before="", tag=True):
    """A cell that writes its state, and then trips; the events of its states."""
    brain = State(online.operator, "brain")
    give(online, canary())
    online.operator.sh("echo good >~/brain/a", "--state", "brain", "-q").ok()
    if tag:
        online.operator.cloister("state", "tag", "brain", "known-good").ok()
        online.operator.sh("echo later >~/brain/b", "--state", "brain", "-q").ok()
    cell = online.start(ALL_OF_THEM.format(then="rollback").replace("count: 2", "count: 20"), "sh", "-c",
                        f"curl -sS -d x {UP}/echo; echo bad >~/brain/a; {before}{LEADS[which]}; exec sleep infinity",
                        options=["-s", "KEY", "--state", "brain"])
    return brain, cell


@pytest.mark.parametrize("which", ["credential", "transfer", "exfiltration"])
def test_a_tripwire_that_takes_a_state_back(online, which):
    brain, cell = roll(online, which)
    assert online.operator.cloister("wait", cell).status == 137
    wait_until(lambda: online.operator.cell(cell) is None, "the cell has ended")
    assert brain.files() == {"a": "good\n"}
    # Nothing is lost: what it had written is in the history.
    assert brain.files("main~1") == {"a": "bad\n", "b": "later\n"}
    assert "Reason: tripwire" in brain.log()[0] and f"tripwire {which}: " in brain.log()[0]
    told, = online.events(type="cell.state")
    assert (told["commit"], told["reason"]) == (brain.head(), "tripwire") and told["went_back"].startswith(f"tripwire {which}: ")
    assert online.events(type="steer", did="tripwire")[0]["then"] == "rollback"
    assert online.operator.sh("cat ~/brain/a; ls ~/brain", "--state", "brain", "-q").ok() == "good\na\n"
    online.operator.cloister("audit", "verify").ok()


@only_user
def test_a_tripwire_without_a_good_tag_takes_the_state_to_where_the_cell_began(online):
    brain, cell = roll(online, "credential", tag=False)
    assert online.operator.cloister("wait", cell).status == 137
    wait_until(lambda: online.operator.cell(cell) is None, "the cell has ended")
    assert brain.files() == {"a": "good\n"} and brain.files("main~1") == {"a": "bad\n"}


@only_user
def test_a_tripwire_takes_a_state_back_if_the_supervisor_dies_then(online):
    """The saver has heard of it before the cell is dead."""
    brain, cell = roll(online, "credential", before="while [ ! -e /tmp/go ]; do sleep 0.05; done; ")
    operator = online.operator
    supervisor = operator.cell(cell)["supervisor"]
    saver, first = saver_of(cell, operator), brain.head()
    os.kill(saver, signal.SIGSTOP)
    operator.cloister("exec", cell, "--", "touch", "/tmp/go").ok()
    wait_until(lambda: online.events(type="steer", did="tripwire"), "it has tripped")
    wait_until(lambda: online.events(type="cell", did="killed"), "it is killed")
    os.kill(supervisor, signal.SIGKILL)
    os.kill(saver, signal.SIGCONT)
    wait_until(lambda: len(brain.git("rev-list", f"{first}..main").split()) == 2, "the state has gone back")
    wait_until(lambda: operator.cell(cell) is None, "the cell has ended")
    assert brain.files() == {"a": "good\n"}
    assert brain.files("main~1")["a"] == "bad\n"
    # The next cell removes what the supervisor left, and begins there.
    assert operator.sh("cat ~/brain/a", "--state", "brain", "-q").ok() == "good\n"


@only_user
def test_a_tripwire_takes_a_state_back_if_the_saver_dies(online):
    brain, cell = roll(online, "credential", before="while [ ! -e /tmp/go ]; do sleep 0.05; done; ")
    os.kill(saver_of(cell, online.operator), signal.SIGKILL)
    online.operator.cloister("exec", cell, "--", "touch", "/tmp/go").ok()
    assert online.operator.cloister("wait", cell).status == 137
    wait_until(lambda: online.operator.cell(cell) is None or online.operator.cell(cell)["state"] != "running", "the cell has ended")
    assert online.operator.sh("cat ~/brain/a", "--state", "brain", "-q").ok() == "good\n"
    assert brain.files("main~1")["a"] == "bad\n"


@only_root
def test_causes_of_freezing(online):
    """Tripwires, and a budget; a frozen cell's time continues."""
    give(online, canary())
    cell = online.start("version: 1\nbudgets: [{requests: 6, then: freeze}]\n" +
                        ALL_OF_THEM.format(then="freeze").removeprefix("version: 1\n").replace("count: 2", "count: 20"),
                        "sleep", "infinity", options=["-s", "KEY"])
    assert code(online, UP + "/echo", "-d", "x") == "200"

    def freezes(by, does, count):
        process = online.operator.spawn(online.operator.program, "exec", cell, "--", "sh", "-c", does,
                                        stdout=subprocess.PIPE)
        wait_until(lambda: len(online.events(type="cell", did="frozen")) == count, f"{by} freezing it")
        await_frozen(cell)
        assert online.events(type="cell", did="frozen")[-1]["by"] == by
        online.operator.cloister("thaw", cell).ok()
        out, _ = process.communicate(timeout=SECONDS)
        assert b"refused by cloister" in out, out
    freezes("tripwire", LEADS["transfer"], 1)
    freezes("tripwire", LEADS["credential"], 2)
    freezes("exfiltration", LEADS["exfiltration"], 3)
    freezes("budget", f"while curl -sSf -o /dev/null {UP}/echo; do :; done; echo refused by cloister", 4)
    online.operator.cloister("freeze", cell).ok()
    online.operator.cloister("ttl", cell, "100ms").ok()
    assert online.operator.cloister("wait", cell).status != 0
