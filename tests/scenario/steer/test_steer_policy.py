"""The policy of a running cell: shown, changed in front, replaced, edited; what is under way, and
what a courier that dies leaves to the next."""
import json
import os
import re
import signal
import struct
import subprocess

import pytest

from egress_lab import CURL, await_event, helpers_of, needs
from operators import wait_until
from test_control_socket import text
from test_steer_channel import DONE, GET_POLICY, SET_POLICY, ask

# Where root makes no difference.
pytestmark = pytest.mark.parametrize("who", ["user"])

WWW, UP = "https://www.example.test", "https://up.example.test"
POLICY = """\
version: 1
# Only what is needed.
egress:
  - allow: www.example.test   # pages
    methods: [GET]
  - deny: up.example.test
    paths: [/echo]
    reason: it talks back
limits: {pids: 200}
"""


def code(online, url, *words):
    return online.inside(*CURL, "-o", "/dev/null", "-w", "%{http_code}", *words, url).out


def show(online):
    return json.loads(online.operator.cloister("policy", "show", online.cell, "--json").ok())


def steered(online):
    return online.events(type="steer")


def test_rules_in_front(online):
    operator = online.operator
    cell = online.start(online.policy(POLICY), "sleep", "1000", options=("--name", "worker"))
    assert [code(online, f"{WWW}/hello"), code(online, f"{UP}/echo"), code(online, f"{UP}/204")] == \
        ["200", "403", "403"]
    # A short form, by the cell's name; the diff is what is printed.
    done = operator.cloister("allow", "worker", f"GET {UP[8:]}/echo", "--why", "the demo")
    assert done.ok().splitlines() == ["@@ 1", " version: 1", " egress:",
        "+  - allow: 'up.example.test'", "+    paths: '/echo'", "+    methods: [GET]",
        "   - allow: www.example.test", "     methods: [GET]"]
    assert re.search(r"the policy is sha256:[0-9a-f]{64}\n$", done.err)
    assert [code(online, f"{UP}/echo"), code(online, f"{UP}/echo", "-d", "x")] == ["200", "403"]
    # A map in one line.
    operator.cloister("deny", cell, "{deny: www.example.test, paths: [/hello], reason: 'no more'}").ok()
    assert code(online, f"{WWW}/hello") == "403"
    assert "no more" in online.inside(*CURL, f"{WWW}/hello").out
    # What was written stays as it was written, and says how often each rule decided.
    text = operator.cloister("policy", "show", cell).ok()
    assert "# Only what is needed.\negress:\n  - {deny: www.example.test, paths: [/hello], reason: " \
        "'no more'}  # hits: 2\n" in text
    assert re.search(r"allow: www.example.test   # pages  # hits: 1\n", text)
    assert re.search(r"deny: up.example.test  # hits: 2\n", text)
    rules = show(online)["rules"]
    assert [(r["verb"], r["hits"], r["layer"]) for r in rules] == [
        ("deny", 2, 0), ("allow", 1, 0), ("allow", 1, 0), ("deny", 2, 0)]
    assert rules[0]["reason"] == "no more" and rules[0]["place"] == "live policy:4:5"
    # Said twice, a rule stands there once, and nothing is recorded; what says less is another one.
    again = operator.cloister("deny", cell, "{deny: www.example.test, paths: [/hello], reason: 'no more'}")
    assert again.ok() == "" and "is in front already" in again.err
    assert len(show(online)["rules"]) == 4
    assert "+  - deny: www.example.test" in operator.cloister(
        "deny", cell, "{deny: www.example.test, paths: [/hello]}", "--dry-run").ok()
    # What was shown can be given back: nothing changes.
    file = operator.file("shown.yaml", text)
    assert operator.cloister("policy", "set", cell, file).ok() == ""
    lines = operator.cloister("events", cell).ok().splitlines()
    assert any(re.search(r"steer: allow GET up.example.test/echo by uid \d+, pid \d+  the demo$", line)
               for line in lines), lines
    # Why an operator did something is no refusal to be explained.
    said = operator.cloister("why", cell).ok()
    assert "hello" in said and "The rule at live policy, line 4 refuses it" in said
    # What would allow it is a command, too.
    [does] = re.findall(r"^  cloister allow (\S+) '(\{.*\})'$", operator.cloister("why", cell).ok(), re.M)
    assert "+    paths: [/hello]" in operator.cloister("allow", *does, "--dry-run").ok()
    told = steered(online)
    assert [(e["did"], e["rule"]) for e in told] == [
        ("allow", "GET up.example.test/echo"),
        ("deny", "{deny: www.example.test, paths: [/hello], reason: 'no more'}")]
    assert told[0]["why"] == "the demo" and told[0]["by"].startswith(f"uid {operator.uid}, pid ")
    assert told[1]["before"] == told[0]["policy"] and told[1]["policy"] == show(online)["hash"]
    operator.cloister("kill", cell).ok()


def test_a_name_of_both_a_cell_and_a_registered_policy(online):
    operator = online.operator
    file = online.policy(POLICY)
    online.start(file, "sleep", "1000", options=("--name", "both"))
    assert "# hits: 0" in operator.cloister("policy", "show", "both").ok()
    operator.cloister("policy", "register", "-n", "both", file).ok()
    operator.cloister("policy", "show", "both").sentence("is a running cell and a registered policy", "--cell")
    assert "# hits: 0" in operator.cloister("policy", "show", "--cell", "both").ok()
    # The cell's id and what is registered under no cell's name are what they were.
    assert "# hits: 0" in operator.cloister("policy", "show", online.cell).ok()
    operator.cloister("kill", "both").ok()
    assert "hits" not in operator.cloister("policy", "show", "both").ok()
    operator.cloister("policy", "show", "bothh").sentence("no running cell and no registered policy",
                                                          "'bothh'")


def test_an_invalid_rule_changes_nothing(online):
    operator = online.operator
    cell = online.start(online.policy(POLICY), "sleep", "1000")
    before = show(online)
    for verb, rule, *said in (
            ("allow", "get x.y", "methods stand in front of the host"),
            ("deny", "preset:npm", "a preset can only be allowed"),
            ("allow", "{deny: x.y}", "no rule with `allow:`"),
            ("allow", "{allow: x.y, methods: [FLY], colour: red}", "colour"),
            ("allow", "{allow: x.y", "x.y")):
        operator.cloister(verb, cell, rule).sentence(*said)
    wrong = operator.file("wrong.yaml", "version: 1\negress:\n  - permit: x.y\n  - allow: 'a b'\n")
    done = operator.cloister("policy", "set", cell, wrong)
    assert done.status == 1 and re.findall(r"wrong.yaml:(\d+):", done.err) == ["3", "4"], done.err
    limits = operator.file("limits.yaml", "version: 1\negress: []\nlimits: {pids: 300}\n")
    done = operator.cloister("policy", "set", cell, limits)
    assert done.status == 1 and "limits.yaml: `limits` is settled when a cell starts" in done.err
    assert show(online) == before and not steered(online)
    # Only shown.
    assert "+  - allow: 'x.y'" in operator.cloister("allow", "--dry-run", cell, "x.y").ok()
    assert show(online) == before
    silent = operator.detach("--no-policy", "--", "sleep", "1000")
    operator.cloister("allow", silent, "x.y").sentence("without a policy", "start another one with -p or --allow")
    operator.cloister("kill", cell, silent).ok()


def test_set_and_edit(online):
    operator = online.operator
    cell = online.start(online.policy(POLICY), "sleep", "1000", options=("--allow", "extra.example.test"))
    # What the command line added is part of it.
    assert "extra.example.test" in operator.cloister("policy", "show", cell).ok()
    operator.file("base.yaml", "version: 1\negress:\n  - allow: www.example.test\n")
    new = operator.file("new.yaml", "version: 1\nextends: base.yaml\negress:\n  - deny: www.example.test\n"
                        "    paths: [/hello]\n")
    done = operator.cloister("policy", "set", cell, new, "--why", "narrower")
    assert "-  - allow: 'extra.example.test'" in done.ok()
    assert [code(online, f"{WWW}/hello"), code(online, f"{WWW}/up/echo")] == ["403", "200"]
    text = operator.cloister("policy", "show", cell).ok()
    # Files that it names are written out, and what cannot be changed has stayed.
    assert "extends" not in text and "limits: {pids: 200}" in text
    assert operator.cloister("policy", "check", operator.file("again.yaml", text)).ok()
    editor = operator.file("editor", "#!/bin/sh\nsed -i 's/deny: www/allow: www/' \"$1\"\n")
    os.chmod(editor, 0o755)
    done = operator.cloister("policy", "edit", cell, "--why", "was wrong", env={"EDITOR": f"sh {editor}"})
    assert "+  - allow: www.example.test" in done.ok()
    assert code(online, f"{WWW}/hello") == "200"
    # An editor that leaves nonsense behind.
    done = operator.cloister("policy", "edit", cell, env={"VISUAL": "sh -c 'echo egress >>\"$0\"'"})
    assert done.status == 1 and "nothing was changed" in done.err
    os.unlink(re.search(r"is in (\S+)", done.err)[1])
    done = operator.cloister("policy", "edit", cell, env={"EDITOR": "false"})
    assert done.status == 1 and "the editor 'false' failed" in done.err and "draft" not in done.err
    assert [(e["did"], e["why"]) for e in steered(online)] == [("policy", "narrower"), ("policy", "was wrong")]
    operator.cloister("kill", cell).ok()


def test_layers_around_it_stay(online):
    operator = online.operator
    outer = online.policy("  - allow: www.example.test\n    principal: alice\n  - allow: up.example.test\n",
                          "outer.yaml")
    cell = online.start(online.policy("  - deny: '*'\n    reason: nothing\n"), "sleep", "1000",
                        options=("--within", outer, "--principal", "bob"))
    done = operator.cloister("allow", cell, "{allow: '*.example.test', principal: bob}")
    assert "+  - allow: '*.example.test'" in done.ok() and "is within other policies" in done.err
    assert [code(online, f"{UP}/echo"), code(online, f"{WWW}/hello")] == ["200", "000"]
    # For somebody else it opens nothing.
    operator.cloister("deny", cell, "{deny: up.example.test, principal: alice}").ok()
    assert code(online, f"{UP}/echo") == "200"
    assert "# within policy 1, which stays as it is:\n#   allow www.example.test" in \
        operator.cloister("policy", "show", cell).ok()
    assert [r["layer"] for r in show(online)["rules"]] == [0, 0, 0, 1, 1]
    operator.cloister("kill", cell).ok()


def test_a_courier_that_is_killed_leaves_it_to_the_next(online):
    operator = online.operator
    cell = online.start(online.policy(POLICY), "sleep", "1000")
    assert code(online, f"{WWW}/hello") == "200"
    operator.cloister("deny", cell, "www.example.test").ok()
    courier = helpers_of(operator, cell)["courier"]
    os.kill(courier, signal.SIGKILL)
    wait_until(lambda: helpers_of(operator, cell).get("courier") != courier, "the end of the courier")
    # Also what is changed while there is none.
    operator.cloister("allow", cell, "up.example.test").ok()
    assert [code(online, f"{WWW}/hello"), code(online, f"{UP}/echo")] == ["403", "200"]
    assert [r["hits"] for r in show(online)["rules"]] == [1, 1, 1, 0]
    operator.cloister("kill", cell).ok()


def test_a_courier_that_is_killed_in_the_middle(online):
    """Whichever messages it had got."""
    operator = online.operator
    cell = online.start(online.policy(POLICY), "sleep", "1000")

    def answer():
        return wait_until(lambda: (code(online, f"{WWW}/hello").replace("000", "") or None), "an answer")

    for verb, wanted in (("deny", "403"), ("allow", "200"), ("deny", "403")):
        assert answer() != wanted
        os.kill(helpers_of(operator, cell)["courier"], signal.SIGKILL)
        operator.cloister(verb, cell, "www.example.test").ok()
        assert answer() == wanted
    assert [e["did"] for e in steered(online)] == ["deny", "allow", "deny"]
    operator.cloister("kill", cell).ok()


def test_now_cuts_requests_under_way(online):
    operator = online.operator
    url = f"{UP}/events?n=1000000&every=0.01"
    cell = online.start(online.policy("  - allow: up.example.test\n"), "sh", "-c",
                        f"{' '.join(CURL)} --max-time 1000 -N -o /tmp/got '{url}'; echo $? >/tmp/status; "
                        "exec sleep 1000")

    def flows():
        return int(online.inside("sh", "-c", "stat -c %s /tmp/got 2>/dev/null || echo 0").out)

    wait_until(lambda: flows() > 100, "the download")
    operator.cloister("deny", cell, "up.example.test").ok()
    # It goes on, under the policy that let it go, while what is new is refused.
    assert code(online, f"{UP}/echo") == "403"
    before = flows()
    wait_until(lambda: flows() > before + 100, "more of the download")
    assert online.inside("test", "-e", "/tmp/status").status == 1
    # What the new one allows is left alone.
    operator.cloister("allow", cell, "{allow: up.example.test, paths: [/events]}", "--now").ok()
    before = flows()
    wait_until(lambda: flows() > before + 100, "more of the download")
    operator.cloister("deny", cell, "{deny: up.example.test, reason: it is enough}", "--now").ok()
    status = wait_until(lambda: online.inside("sh", "-c", "cat /tmp/status 2>/dev/null").out.strip(), "its end")
    assert status in ("18", "56", "92")
    event = await_event(online, type="http", path="/events")
    assert event["verdict"] == "deny" and event["why"] == "rule" and event["reason"] == "it is enough"
    assert [e.get("now", False) for e in steered(online)] == [False, True, True]
    operator.cloister("kill", cell).ok()


LOAD = """
import http.client, json, ssl, sys, threading
context = ssl.create_default_context()
done, lock, stop = {}, threading.Lock(), threading.Event()
def work(name, host, *request, **more):
    c = http.client.HTTPSConnection(host, context=context, timeout=60)
    while not stop.is_set():
        c.request(*request, **more)
        r = c.getresponse()
        body = r.read().decode()
        key = f"{name} {r.status}" + ("" if r.status == 200 else " " + json.loads(body).get("reason", body))
        with lock:
            done[key] = done.get(key, 0) + 1
head = ("head", "www.example.test", "GET", "/hello")
body = ("body", "up.example.test", "POST", "/echo", json.dumps({"kind": "x"}))
threads = [threading.Thread(target=work, args=head, kwargs={"headers": {"x-a": "1", "x-b": "1"}}) for _ in range(5)]
threads += [threading.Thread(target=work, args=body, kwargs={"headers": {"content-type": "application/json"}})
            for _ in range(3)]
[t.start() for t in threads]
print("busy", flush=True)
sys.stdin.readline()
stop.set()
[t.join() for t in threads]
print(json.dumps(done), flush=True)
"""
FIRST = """\
version: 1
egress:
  - {deny: www.example.test, headers: {x-a: '1'}, reason: first}
  - {allow: www.example.test, headers: {x-b: absent}}
  - {deny: up.example.test, body: {json: {/kind: x}}, reason: first}
  - {allow: up.example.test}
"""
SECOND = """\
version: 1
egress:
  - {deny: www.example.test, headers: {x-a: absent}, reason: mixture}
  - {allow: www.example.test, headers: {x-b: '1'}}
  - {deny: up.example.test, body: {json: {/kind: y}}, reason: mixture}
  - {allow: up.example.test, body: {json: {/kind: x}}}
"""


def test_no_request_is_decided_by_a_mixture_and_none_is_dropped(online):
    """The same requests are refused by each rule of one policy that they meet, and let through by
    each of the other; by rules or findings of both, there would be a third answer."""
    operator = online.operator
    files = [operator.file("first.yaml", FIRST), operator.file("second.yaml", SECOND)]
    cell = online.start(files[0], "sleep", "1000")
    load = operator.spawn(operator.program, "exec", cell, "--", "/usr/bin/python3", "-c", LOAD,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert load.stdout.readline() == b"busy\n"
    done = [operator.cloister("policy", "set", cell, files[(i + 1) % 2]).ok() for i in range(40)]
    out, _ = load.communicate(b"\n", 60)
    seen = json.loads(out)
    assert all("@@" in diff for diff in done)
    assert set(seen) == {"head 403 first", "head 200", "body 403 first", "body 200"}, seen
    # A record may come after its answer; refusals that come in floods are told later, and counted.
    allowed = seen["head 200"] + seen["body 200"]
    wait_until(lambda: len(online.events(type="http", verdict="allow")) == allowed, "each is recorded once")
    events = online.events(type="http")
    assert {(e["verdict"], e["rule"]) for e in events} == {
        ("deny", "first.yaml:3:5"), ("deny", "first.yaml:5:5"), ("allow", "second.yaml:4:5"),
        ("allow", "second.yaml:6:5")}
    operator.cloister("kill", cell).ok()


@needs("h2load")
def test_no_http2_stream_is_decided_by_a_mixture(online):
    """Many at once on each connection, to a server that speaks it, too."""
    operator = online.operator
    # A refusal by a mixture would be one of many; what a mixture lets through has a line of its own.
    other = SECOND.replace("{deny: up.example.test, body: {json: {/kind: y}}, reason: mixture}",
                           "{allow: up.example.test, body: {json: {/kind: y}}}")
    assert other != SECOND
    files = [operator.file("first.yaml", FIRST), operator.file("second.yaml", other)]
    cell = online.start(files[0], "sh", "-c", "echo '{\"kind\": \"x\"}' >/tmp/body; exec sleep 1000")
    # As the supervisor has them: swapped by hand, hundreds of times, and not by a command each.
    _, _, first = ask(operator, cell, GET_POLICY)
    operator.cloister("policy", "set", cell, files[1]).ok()
    _, _, second = ask(operator, cell, GET_POLICY)
    rest = text("policy") + text("") + text("") + struct.pack("<III", 0, 0, 0)

    def load(n, *words):
        return operator.spawn(operator.program, "exec", cell, "--", "h2load", "-c4", "-m8", f"-n{n}", *words,
                              stdout=subprocess.PIPE)
    loads = {"head": load(4000, "-Hx-a: 1", "-Hx-b: 1", f"{WWW}/hello"),
             "body": load(2000, "-d/tmp/body", "-Hcontent-type: application/json", f"{UP}/echo")}
    n = 0
    while any(process.poll() is None for process in loads.values()) or n < 4:
        assert ask(operator, cell, SET_POLICY, rest, (first, second)[n % 2])[0] == DONE
        n += 1
    for fd in first + second:
        os.close(fd)
    told = {}
    for name, wanted in (("head", 4000), ("body", 2000)):
        out = loads[name].stdout.read().decode()
        went, refused = map(int, re.search(r"status codes: (\d+) 2xx, 0 3xx, (\d+) 4xx, 0 5xx", out).groups())
        assert went + refused == wanted and ", 0 errored, 0 timeout" in out, out
        told[name] = went, refused
    assert all(went and refused for went, refused in told.values()), (told, n)
    # A record may come after its answer.
    allowed = sum(went for went, _ in told.values())
    wait_until(lambda: len(online.events(type="http", verdict="allow")) == allowed, "each is recorded once")
    events = online.events(type="http")
    assert {e["version"] for e in events} == {"2"}
    assert {(e["verdict"], e["rule"]) for e in events} == {
        ("deny", "first.yaml:3:5"), ("deny", "first.yaml:5:5"), ("allow", "second.yaml:4:5"),
        ("allow", "second.yaml:6:5")}
    operator.cloister("kill", cell).ok()
