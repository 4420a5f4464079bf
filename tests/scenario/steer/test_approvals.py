"""`ask`: a request is held until people have answered, and goes on or is refused as they say."""
import json
import os
import signal
import struct
import subprocess
import time

import pytest

from approvals import UP, Asking
from dispatches import agent, policy
from egress_lab import helpers_of
from operators import SECONDS, read_until, wait_until
from terminal import Terminal
from test_control_socket import connect, text
from test_inspect import token

# Where root makes no difference.
pytestmark = pytest.mark.parametrize("who", ["user"])

JSON = ["-H", "Content-Type: application/json"]


def me(operator):
    return f"uid:{operator.uid}"


def test_an_empty_list_is_explained_to_people(operator):
    terminal = Terminal(operator, operator.program, "approvals")
    terminal.expect("no request waits for approval\r\n")
    assert terminal.end() == 0
    assert operator.cloister("approvals").ok() == ""


def test_approve_refuse_and_show(online):
    a = Asking(online, "  - ask: up.example.test\n    reason: somebody must look\n"
               "    secrets: allow\n", "--name", "desk")
    body = {"to": "ann", "amount": 7, "note": f"my key is {token()}", "password": "hunter2"}
    process, shown = a.ask(*JSON, "-H", "Authorization: Bearer hunter2", "-b", "session=hunter2", "-A", "desk/1.0",
                           "-H", f"X-Note: {token()}", "-d", json.dumps(body), f"{UP}/echo?page=2&key={token()}")
    assert shown["id"] == f"{a.cell}-1" and (shown["cell"], shown["name"]) == (a.cell, "desk")
    assert (shown["method"], shown["host"], shown["port"], shown["path"]) == (
        "POST", "up.example.test", 443, "/echo")
    assert shown["state"] == "pending" and shown["reason"] == "somebody must look"
    assert shown["rule"] == "ask up.example.test secrets" and shown["place"] == "policy.yaml:3:5"
    assert shown["body"]["type"] == "application/json"
    assert shown["body"]["size"] == len(json.dumps(body))
    shape = shown["body"]["shape"]
    assert 'to: "ann"' in shape and "amount: 7" in shape and "GitHub token" in shape
    assert 'page = "2"' in shown["query"]
    for line in ('user-agent: "desk/1.0"', 'accept: "*/*"', 'content-type: "application/json"',
                 "authorization: (masked by its name, 14 bytes)", "cookie: (masked by its name, 15 bytes)",
                 f"x-note: (GitHub token, {len(token())} bytes)"):
        assert line in shown["headers"].splitlines(), shown["headers"]
    assert token() not in json.dumps(shown) and "hunter2" not in json.dumps(shown)
    assert (shown["needs"], shown["given"], shown["approvers"], shown["frozen"]) == (1, [], [], False)
    said = a.operator.cloister("approvals").ok()
    for part in (f"{a.cell}-1  POST https://up.example.test/echo", "desk", "somebody must look",
                 'to: "ann"', "left", 'headers  ', 'user-agent: "desk/1.0"'):
        assert part in said
    assert process.poll() is None
    assert a.answer("refuse", shown["id"], "--reason", "take the key out").ok() == f"{shown['id']}: refused\n"
    code, told = a.end(process)
    told = json.loads(told)
    assert code == "403" and told["reason"] == \
        f"somebody must look ({me(a.operator)} refused this: take the key out)"
    assert told["rule"] == "policy.yaml:3:5" and told["error"] == "refused by cloister"
    event = online.refusal(type="http")
    assert (event["verdict"], event["why"], event["refused_by"]) == ("ask", "ask", me(a.operator))
    assert not a.online.lab.seen("amount")

    process, shown = a.ask(*JSON, "-d", '{"to": "bob"}', f"{UP}/echo")
    assert a.answer("approve", shown["id"], "--why", "he is fine").ok() == f"{shown['id']}: approved\n"
    code, told = a.end(process)
    assert code == "200" and json.loads(told)["size"] == len('{"to": "bob"}')
    event = online.events(type="http", verdict="allow")[-1]
    assert event["approval"] == shown["id"] and event["approved_by"] == me(a.operator)
    asked = [(e["did"], e["approval"]) for e in online.events(type="approval")]
    assert asked == [("asked", f"{a.cell}-1"), ("asked", f"{a.cell}-2")]
    steered = online.events(type="steer")
    assert [(e["did"], e["approval"]) for e in steered] == [
        ("refuse", f"{a.cell}-1"), ("approve", f"{a.cell}-2")]
    assert steered[1]["why"] == "he is fine" and steered[1]["approver"] == me(a.operator)
    assert a.list() == [] and [x["state"] for x in a.list("-a")] == ["refused", "approved"]
    # Twice, of nobody, and what is none.
    a.answer("approve", shown["id"]).sentence(shown["id"], "was approved by", "nothing left")
    a.answer("refuse", f"{a.cell}-1", "--reason", "x").sentence("was refused by")
    a.answer("approve", f"{a.cell}-77").sentence(f"there is no approval {a.cell}-77")
    a.answer("approve", "nobody-1").sentence("nobody")
    a.answer("approve", "rubbish").sentence("is not the id of an approval")
    a.answer("refuse", f"{a.cell}-1").sentence("a reason for the agent is needed")
    a.answer("approve", "--once", "--rule", f"{a.cell}-1").sentence("exclude each other")
    a.answer("approve", "--for", "9d", f"{a.cell}-1").sentence("at most 7d")


def test_no_question_about_requests_that_are_refused_anyway(online):
    a = Asking(online, "  - ask: up.example.test\n    body: {max: 1K}\n")
    assert a.outcome(a.curl(*JSON, "-d", json.dumps({"key": token()}), f"{UP}/echo")) == "403"
    assert a.outcome(a.curl("-d", "x" * 1025, f"{UP}/echo")) == "403"
    # What would not be seen whole.
    code, told = a.end(a.curl(f"{UP}/echo/harmless{'/' + 'a' * 1024}/harmful?x"))
    assert code == "403" and "too long to be shown" in json.loads(told)["reason"]
    assert a.list("-a") == []
    assert [e["why"] for e in online.events(type="http")] == ["secret", "too-large", "ask"]
    process, shown = a.ask(f"{UP}/echo?{'a' * 2000}")
    assert shown["path"] == "/echo"
    a.answer("approve", shown["id"]).ok()
    assert a.outcome(process) == "200"


def test_for_a_time_and_for_the_rule(online):
    rules = ("  - ask: up.example.test\n    paths: [/echo]\n    body: {json: {/kind: [a, b]}}\n"
             "  - ask: up.example.test\n    paths: [/echo]\n    methods: [GET]\n"
             "  - ask: up.example.test\n    paths: [/204]\n")
    a = Asking(online, rules)
    first = a.curl(f"{UP}/echo")
    a.wait(1)
    second = a.curl(f"{UP}/echo?x=2")
    other = a.wait(2)
    # All that wait for the rule go with the one.
    assert a.answer("approve", other["id"], "--for", "1h").ok() == \
        f"{other['id']}: approved, and all that the same rule asks for in the next 1h\n"
    assert a.outcome(first) == a.outcome(second) == "200"
    assert a.state(f"{a.cell}-1")["answer"]["how"] == "for"
    assert a.outcome(a.curl(f"{UP}/echo")) == "200" and len(a.list("-a")) == 2
    # Others are asked for as before.
    process, shown = a.ask(f"{UP}/204")
    # A courier that comes after this one knows.
    assert "asks for while the cell lives\n" in a.answer("approve", shown["id"], "--rule").ok()
    assert a.outcome(process) == "204"
    before = helpers_of(a.operator, a.cell)
    os.kill(before["courier"], signal.SIGKILL)
    wait_until(lambda: not set(before.values()) & set(helpers_of(a.operator, a.cell).values()), "the end of all of them")
    assert a.outcome(a.curl(f"{UP}/204")) == "204" and a.outcome(a.curl(f"{UP}/echo")) == "200"
    process, shown = a.ask(*JSON, "-d", '{"kind": "a"}', f"{UP}/echo")
    assert 'kind: "a"' in shown["body"]["shape"] and "json /kind" in shown["rule"]
    a.answer("approve", shown["id"], "--for", "1s").ok()
    assert a.outcome(process) == "200"
    # Its time is up: the same rule asks again.
    wait_until(lambda: a.curl(*JSON, "-d", '{"kind": "b"}', f"{UP}/echo") and a.list(), "it asks again")


def test_approvers(online):
    uid = online.operator.uid
    rules = ("  - ask: up.example.test\n    paths: [/204]\n    approvers: [root, 'token:ops']\n"
             f"  - ask: up.example.test\n    approvers: ['uid:{uid}', 'token:ops']\n    approvals: 2\n")
    a = Asking(online, rules)
    process, shown = a.ask(f"{UP}/204")
    assert shown["approvers"] == ["root", "token:ops"]
    a.answer("approve", shown["id"]).sentence(f"uid:{uid} is not among the approvers")
    a.answer("refuse", shown["id"], "--reason", "x").sentence("is not among the approvers")
    by_token(a, shown["id"])
    assert a.outcome(process) == "204"
    # Two people, and not one of them twice.
    process, shown = a.ask(f"{UP}/echo")
    assert shown["needs"] == 2
    assert "others must approve it too" in a.answer("approve", shown["id"], "--rule").ok()
    a.answer("approve", shown["id"]).sentence("has approved it already")
    assert [g["by"] for g in a.list()[0]["given"]] == [f"uid:{uid}"]
    assert process.poll() is None
    by_token(a, shown["id"])
    assert a.outcome(process) == "200"
    # The least that both say counts: --rule and once is once.
    process, shown = a.ask(f"{UP}/echo")
    a.answer("refuse", shown["id"], "--reason", "enough").ok()
    assert a.outcome(process) == "403"
    records = online.events(type="steer", did="approve")
    assert [(r["approver"], r["enough"]) for r in records] == [
        ("token:ops", True), (f"uid:{uid}", False), ("token:ops", True)]


def test_all_that_wait_for_a_rule(online):
    """Opening the rule approves the others, too; the wait for people does not count as the server's time."""
    a = Asking(online, "  - ask: up.example.test\n")
    first, shown = a.ask(f"{UP}/204")
    second, _ = a.ask(f"{UP}/204?2", n=2)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1, "somebody thinks about it")
    a.answer("approve", shown["id"], "--rule").ok()
    assert [a.outcome(first), a.outcome(second)] == ["204", "204"]
    assert [r["enough"] for r in online.events(type="steer", did="approve")] == [True, True]
    assert [[g["by"] for g in x["given"]] for x in a.list("-a")] == [[me(a.operator)]] * 2
    for event in online.events(type="http"):
        assert event["upstream_ms"] <= event["ms"] - 500, event


def test_secrets_that_go_with_it(online):
    """In its head, in its body, or not at all."""
    online.operator.cloister("secret", "add", "KEY", "--host", "up.example.test", input="a-secret-of-some-length").ok()
    a = Asking(online, "  - ask: up.example.test\n", "-s", "KEY")
    for n, (words, secrets) in enumerate((('-H "Authorization: Bearer $KEY"', ["KEY"]), ('-d "k=$KEY"', ["KEY"]),
                                          ("-d k=none", [])), 1):
        process = a.operator.spawn(a.operator.program, "exec", a.cell, "--", "sh", "-c",
                                   f"curl -sS {words} {UP}/echo", stdout=subprocess.PIPE)
        shown = a.wait()
        assert shown["secrets"] == secrets, words
        a.answer("approve", shown["id"]).ok()
        process.communicate(timeout=SECONDS)


def by_token(a, id, kind=42, by="token ops", rest=b""):
    """Ask as cloister-serve does, for the holder of that token."""
    with connect(a.operator, a.cell) as peer:
        peer.send(struct.pack("<I", kind) + text(by) + text("") +
                  struct.pack("<IQ", 0, int(id.split("-")[1])) + (rest or struct.pack("<IQ", 0, 0)))
        kind, = struct.unpack("<I", peer.recv(65536)[:4])
        return kind


def test_nobody_approves_their_own(online):
    uid = online.operator.uid
    rules = "  - ask: up.example.test\n"
    a = Asking(online, rules, "--principal", f"uid:{uid}")
    process, shown = a.ask(f"{UP}/204")
    assert shown["principal"] == f"uid:{uid}"
    a.answer("approve", shown["id"]).sentence("nobody approves their own requests")
    assert by_token(a, shown["id"], by=f"uid {uid}") == 15
    assert by_token(a, shown["id"]) == 14
    assert a.outcome(process) == "204"


def test_time_is_up(online):
    a = Asking(online, "  - ask: up.example.test\n    timeout: 1s\n    reason: people only\n")
    code, told = a.end(a.curl(f"{UP}/204"))
    told = json.loads(told)
    assert code == "403" and told["reason"] == "people only (nobody approved it within 1s)"
    assert "ask the operator" in told["hint"]
    shown = a.state(f"{a.cell}-1")
    assert shown["state"] == "timed_out"
    a.answer("approve", shown["id"]).sentence("has timed out")
    assert [e["did"] for e in online.events(type="approval")] == ["asked", "timed_out"]
    # It may be answered while its time is up: either way it is one of the two, and the same to all.
    ends = set()
    for _ in range(6):
        process, shown = a.ask(f"{UP}/204")
        asked = wait_until(lambda: a.answer("approve", shown["id"]), "an answer")
        code = a.outcome(process)
        assert (code == "204") == (asked.status == 0), (code, asked)
        ends.add(code)
    assert ends <= {"204", "403"}


def test_a_client_that_hangs_up_withdraws_its_request(online):
    a = Asking(online, "  - ask: up.example.test\n")
    for words in ([f"{UP}/204"], ["--http2", f"{UP}/204"], ["-d", "x=1", f"{UP}/echo"]):
        process, shown = a.ask(*words, seconds=1)
        process.communicate(timeout=SECONDS)
        assert "no longer waits" in a.await_state(shown["id"], "gone")["answer"]["why"]
    a.answer("approve", shown["id"]).sentence("no longer waits")
    assert not online.lab.seen("x=1")
    # Nobody has allowed it, and the record does not say so.
    told = online.events(type="http")
    assert [(e["verdict"], e["why"]) for e in told] == [("ask", "ask")] * 3, told
    assert all("the client went away" in e["note"] for e in told)
    # Killed, over plain HTTP too, and with a body that nobody has read yet.
    a.operator.cloister("exec", a.cell, "--", "sh", "-c", "head -c 3145728 /dev/zero > /tmp/big").ok()
    plain = "http://up.example.test"
    for words in ([f"{plain}/echo?gone-1"], ["-d", "gone-2", f"{plain}/echo"], [f"{UP}/echo?gone-3"],
                  ["-T", "/tmp/big", f"{plain}/echo?gone-4"], ["-T", "/tmp/big", f"{UP}/echo?gone-5"]):
        process, shown = a.ask(*words)
        a.operator.cloister("exec", a.cell, "--", "sh", "-c", "for p in /proc/[0-9]*; do read -r name < "
                            "$p/comm; [ \"$name\" != curl ] || kill -KILL ${p#/proc/}; done").ok()
        process.communicate(timeout=SECONDS)
        assert "no longer waits" in a.await_state(shown["id"], "gone")["answer"]["why"], words
        a.answer("approve", shown["id"]).sentence("no longer waits")
    assert not online.lab.seen("gone-")
    # Who closes its side and waits is told what to do.
    script = ("import socket; s = socket.create_connection(('up.example.test', 80)); s.sendall(b'GET /204 "
              "HTTP/1.1\\r\\nHost: up.example.test\\r\\n\\r\\n'); s.shutdown(1); print(s.recv(9999))")
    told = a.operator.cloister("exec", a.cell, "--", "/usr/bin/python3", "-c", script).ok()
    assert "403" in told and "leave it open until the answer comes" in told


def test_the_courier_dies_and_the_cell_ends(online):
    a = Asking(online, "  - ask: up.example.test\n")
    process, shown = a.ask(f"{UP}/204")
    os.kill(helpers_of(a.operator, a.cell)["courier"], signal.SIGKILL)
    assert "courier has gone" in a.await_state(shown["id"], "gone")["answer"]["why"]
    assert a.end(process)[0] == "000"
    a.answer("approve", shown["id"]).sentence("no longer waits")
    process, shown = a.ask(f"{UP}/204")
    assert shown["id"] == f"{a.cell}-2"
    a.operator.cloister("kill", a.cell).ok()
    process.communicate(timeout=SECONDS)
    a.answer("approve", shown["id"]).sentence("has ended")
    gone = [e for e in online.events(type="approval") if e["did"] == "gone"]
    assert len(gone) == 2


def test_large_bodies_and_raw_connections(online):
    rules = ("  - ask: up.example.test\n    body: {max: 20M}\n"
             "  - ask: up.example.test:9000\n    protocol: tcp\n")
    a = Asking(online, rules)
    data = os.urandom(1 << 20) * 3
    a.operator.cloister("exec", a.cell, "--", "sh", "-c", "head -c 3145728 /dev/zero > /tmp/big; "
                        "mkfifo /tmp/pipe; cat /tmp/big >/tmp/pipe 2>&1 </dev/null &").ok()
    for name, size in (("big", len(data)), ("pipe", None)):
        process, shown = a.ask("-T", f"/tmp/{name}", f"{UP}/echo")
        assert shown["method"] == "PUT" and shown["body"].get("size") == size
        assert "shape" not in shown["body"]
        a.answer("approve", shown["id"]).ok()
        code, told = a.end(process)
        assert code == "200" and json.loads(told)["size"] == len(data)
    # Small ones of unknown length are held, and shown.
    process, shown = a.ask(*JSON, "-H", "Transfer-Encoding: chunked", "-d", '{"a": [1, 2]}', f"{UP}/echo")
    assert "a: [" in shown["body"]["shape"] and shown["body"]["size"] == 13
    a.answer("approve", shown["id"]).ok()
    assert json.loads(a.end(process)[1])["size"] == 13
    # Bytes that nobody reads.
    script = ("import socket; s = socket.create_connection(('up.example.test', 9000)); s.sendall(b'\\0\\0');"
              " s.shutdown(1); print(s.recv(9))")
    process = a.operator.spawn(a.operator.program, "exec", a.cell, "--", "/usr/bin/python3", "-c", script,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    shown = a.wait()
    assert (shown["protocol"], shown["host"], shown["port"]) == ("tcp", "up.example.test", 9000)
    assert "method" not in shown
    a.answer("approve", shown["id"]).ok()
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err


def test_the_policy_is_another_one(online):
    rules = "  - ask: up.example.test\n    paths: [/204]\n  - ask: up.example.test\n"
    a = Asking(online, rules)
    files = {name: online.policy(text, f"{name}.yaml") for name, text in (
        # The same rule elsewhere; none; another one.
        ("same", "  - log: '*'\n  - ask: up.example.test\n    paths: [/204]\n"),
        ("deny", "  - deny: up.example.test\n    reason: not today\n"),
        ("allow", "  - allow: up.example.test\n"))}

    def swap(name):
        a.operator.cloister("policy", "set", a.cell, files[name]).ok()

    process, shown = a.ask(f"{UP}/204")
    second = a.curl(f"{UP}/echo")
    a.wait(2)
    swap("same")
    # Which no rule has a word for now.
    code, told = a.end(second)
    assert code == "403" and "no rule" in json.loads(told)["reason"]
    assert [x["id"] for x in a.list()] == [shown["id"]]
    a.answer("approve", shown["id"]).ok()
    assert a.outcome(process) == "204"
    process, shown = a.ask(f"{UP}/204")
    swap("deny")
    code, told = a.end(process)
    assert code == "403" and json.loads(told)["reason"] == "not today"
    assert a.await_state(shown["id"], "gone")
    swap("same")
    process, shown = a.ask(f"{UP}/204")
    swap("allow")
    code, told = a.end(process)
    assert code == "403" and "send it again" in json.loads(told)["reason"]
    assert a.outcome(a.curl(f"{UP}/204")) == "204"


def test_following(online):
    a = Asking(online, "  - ask: up.example.test\n")
    process, shown = a.ask(f"{UP}/204")
    follower = a.operator.spawn(a.operator.program, "approvals", "-f", "--json", stdout=subprocess.PIPE)
    out = follower.stdout.fileno()
    assert json.loads(read_until(out, b"\n"))["id"] == shown["id"]
    # Also what begins later, in a cell that begins later.
    b = Asking(online, "  - ask: up.example.test\n    approvals: 2\n")
    late = b.curl(f"{UP}/204")
    told = json.loads(read_until(out, b"\n"))
    assert (told["cell"], told["state"]) == (b.cell, "pending")
    a.answer("approve", shown["id"]).ok()
    assert json.loads(read_until(out, b"\n"))["state"] == "approved"
    b.answer("approve", told["id"]).ok()
    assert [g["by"] for g in json.loads(read_until(out, b"\n"))["given"]] == [me(a.operator)]
    b.answer("refuse", told["id"], "--reason", "no").ok()
    assert json.loads(read_until(out, b"\n"))["state"] == "refused"
    assert a.outcome(process) == "204" and b.outcome(late) == "403"


def test_too_many_wait(online):
    a = Asking(online, "  - ask: up.example.test\n")
    urls = [f"{UP}/204?n={n}" for n in range(66)]
    process = a.operator.spawn(
        a.operator.program, "exec", a.cell, "--", "curl", "-sS", "-Z", "--parallel-max", "80", "-o", "/dev/null",
        "-w", "%{http_code}\n", *urls, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: len(a.list()) == 64, "as many as may wait")
    a.answer("approve", a.list()[0]["id"], "--rule").ok()
    out, _ = process.communicate(timeout=SECONDS)
    codes = sorted(code for code in out.decode().split() if code)
    assert codes.count("204") >= 64 and codes.count("403") <= 2
    assert any("too many requests wait" in e.get("note", "") for e in online.events(type="http")) or \
        codes.count("204") == 66


def test_other_commands_mention_waiting_requests(online):
    a = Asking(online, "  - ask: up.example.test\n", "--name", "desk")
    process, shown = a.ask(f"{UP}/204")
    wanted = f"cloister: a person has to approve GET up.example.test: `cloister approvals`, then " \
             f"`cloister approve {shown['id']}` or `cloister refuse {shown['id']} --reason TEXT`\n"
    listed = a.operator.cloister("ps").ok().splitlines()[-1]
    assert listed.split()[1:4] == ["desk", "waiting", "(1)"], listed
    [cell] = json.loads(a.operator.cloister("ps", "--json").ok())
    assert (cell["state"], cell["waiting"]) == ("waiting", 1)
    a.answer("approve", shown["id"]).ok()
    out, err = process.communicate(timeout=SECONDS)
    assert out.decode().strip() == "204" and err.decode() == wanted
    [cell] = json.loads(a.operator.cloister("ps", "--json").ok())
    assert cell["waiting"] == 0 and "running" in a.operator.cloister("ps").ok()


def test_the_dispatcher_mentions_waiting_requests(online):
    operator = online.operator
    policy(operator, "asks", {"ask": "up.example.test"})
    agent(operator, "poster", f"curl -s -o /dev/null {UP}/204; curl -s {UP}/204; curl -s https://no.example.test/;"
          " echo done", policy="asks")
    process = operator.spawn(operator.program, "dispatch", "poster", stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    said = ""
    for n, answer in (1, ["approve"]), (2, ["refuse", "--reason", "once is enough"]):
        told = read_until(process.stderr.fileno(), f"-{n} --reason TEXT`\n".encode()).decode()
        assert "cloister: a person has to approve GET up.example.test: `cloister approvals`" in told
        said += told
        id = told.rpartition("cloister refuse ")[2].removesuffix(" --reason TEXT`\n")
        operator.cloister(answer[0], id, *answer[1:]).ok()
    cell = id.rpartition("-")[0]
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and out.endswith(b"done\n")
    said += err.decode()
    assert "cloister: refused 2 times:\ncloister:   GET https://up.example.test/204  " in said, said
    assert "once is enough" in said and "cloister:   name no.example.test  no rule allows it" in said
    assert f"`cloister why {cell}` explains the last one" in said
    assert said.splitlines()[-1].startswith("cloister: dispatch ") and "finished" in said.splitlines()[-1]
    events = [json.loads(line) for line in
              operator.cloister("dispatches", "events", "--json", said.split("dispatch ")[1].split()[0]).ok()
              .splitlines()]
    assert [e["approval"] for e in events if e["event"] == "approval.asked"] == [f"{cell}-1", f"{cell}-2"]
    [refused] = [e for e in events if e["event"] == "cell.refused"]
    assert (refused["cell"], refused["times"], len(refused["refusals"])) == (cell, 2, 2)
    operator.cloister("why", cell).ok()
