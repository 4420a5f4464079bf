"""Hooks: the operator's own programs and services judge requests."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from approvals import UP, Asking
from egress_lab import CURL, helpers_of
from operators import TREE, copy_programs, descendants_of, is_alive, only_user, wait_until
from test_egress_secrets import canary, give

CODE = [*CURL, "-w", "\n%{http_code}"]
ECHO = f"{UP}/echo"

# A program that runs BODY for each question; each question is in a file, with the process.
PROGRAM = """#!/usr/bin/python3
import json, os, sys, time
count = 0

def say(verdict, **more):
    print(json.dumps(dict(id=question["id"], verdict=verdict, **more)), flush=True)

for line in sys.stdin:
    count += 1
    question = json.loads(line)
    with open({seen!r}, "a") as seen:
        seen.write(json.dumps([os.getpid(), question]) + "\\n")
    {body}
"""
ALLOW = "say('allow')"


class Hook:
    """A program of the operator's, and the rule that asks it."""

    def __init__(self, online, body=ALLOW, name="hook", **keys):
        self.online, self.operator = online, online.operator
        self.folder = self.operator.folder("hooks")
        self.seen = self.operator.file(f"hooks/{name}.seen")
        self.path = self.operator.file(f"hooks/{name}", PROGRAM.format(seen=str(self.seen), body=body))
        self.path.chmod(0o755)
        self.rules = self.rule(**keys)

    def rule(self, host="up.example.test", **keys):
        return f"  - allow: {host}\n    hook: " + json.dumps({"call": str(self.path), **keys}) + "\n"

    def questions(self):
        return [json.loads(line) for line in self.seen.read_text().splitlines()]

    def curl(self, *words, rules=None, **how):
        """The status and the body of one request, in a cell of its own."""
        done = self.online.run(rules or self.rules, *CODE, *words, **how)
        body, _, code = done.out.rpartition("\n")
        assert code, done
        return int(code), body

    def start(self, rules=None):
        self.online.start(rules or self.rules, "sleep", "infinity")

    def inside(self, *words):
        body, _, code = self.online.inside(*CODE, *words).out.rpartition("\n")
        return int(code), body


def hook_process(operator, cell):
    """The pid of the cell's cloister-hook, or None."""
    for pid in operator.pids(cell):
        try:
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "cloister-hook":
                return pid
        except OSError:
            continue
    return None


# ---- verdicts -----------------------------------------------------------------------------

def test_a_hook_allows_a_request(online):
    hook = Hook(online)
    code, body = hook.curl("-H", "x-a: 1", "-H", "authorization: Bearer abc", ECHO + "?q=1")
    assert code == 200
    [[_, question]] = hook.questions()
    assert question["version"] == 1 and question["cell"] == online.cell
    assert (question["method"], question["url"]) == ("GET", ECHO + "?q=1")
    assert (question["host"], question["port"]) == ("up.example.test", 443)
    assert ["x-a", "1"] in question["headers"] and ["authorization", None] in question["headers"]
    assert "allow up.example.test" in question["rule"] and "policy.yaml" in question["place"]
    assert "body" not in question and "Bearer abc" not in json.dumps(question)


def test_a_hook_is_asked_only_for_requests_of_its_rule(online):
    hook = Hook(online, body="say('deny')")
    rules = "  - allow: up.example.test\n    methods: [GET]\n" + hook.rules
    assert hook.curl(ECHO, rules=rules)[0] == 200
    assert hook.questions() == []
    assert hook.curl("-d", "x", ECHO, rules=rules)[0] == 403
    assert len(hook.questions()) == 1


def test_a_hook_denies_with_a_reason(online):
    hook = Hook(online, body="say('deny', reason='not on Fridays')")
    code, body = hook.curl(ECHO)
    assert code == 403 and "not on Fridays" in body
    refusal = online.refusal(type="http")
    assert "not on Fridays" in json.dumps(refusal)


def test_a_hook_gets_the_body(online):
    hook = Hook(online, "say('deny' if 'drop' in question['body'] else 'allow')")
    rules = hook.rule(body="1K")
    code, body = hook.curl("-d", "select", ECHO, rules=rules)
    assert code == 200 and json.loads(body)["size"] == len("select")
    assert hook.curl("-d", "drop", ECHO, rules=rules)[0] == 403
    assert [question["body"] for _, question in hook.questions()] == ["select", "drop"]
    # A larger body is not cut: the request is refused, and the hook not asked.
    assert hook.curl("-d", "x" * 1025, ECHO, rules=rules)[0] != 200
    assert len(hook.questions()) == 2


@pytest.mark.parametrize("keys", [{}, {"body": "1M"}], ids=["head", "body"])
@pytest.mark.parametrize("size", [0, 300000])
def test_a_denied_body_is_searched_for_placeholders(online, keys, size):
    """As that of any refused request, also if the hook had it already."""
    give(online, canary())
    hook = Hook(online, "say('deny', reason='not on Fridays')")
    rules = hook.rule(**keys)
    online.sh(rules, f"(printf %s \"$KEY\"; head -c {size} /dev/zero) | tr '\\0' a >/tmp/b; "
              + " ".join([*CURL, "--data-binary", "@/tmp/b", ECHO]), options=("-s", "KEY"))
    refusal = online.refusal(type="http")
    assert refusal["why"] == "exfiltration" and "in the body" in refusal["note"], refusal
    assert len(hook.questions()) == 1
    # Without a placeholder, the reason is that of the hook.
    assert hook.curl("-d", "some", ECHO, rules=rules, options=("-s", "KEY"))[0] == 403
    assert online.refusal(type="http")["why"] == "hook"


def test_a_hook_asks_people(online):
    hook = Hook(online, body="say('ask', reason='a large order')")
    asking = Asking(online, hook.rules)
    process, approval = asking.ask(ECHO)
    assert approval["reason"] == "a large order"
    assert approval["rule"] == "a hook asks for approval" and approval["place"].endswith("policy.yaml:3:5")
    asking.answer("approve", approval["id"]).ok()
    assert asking.outcome(process) == "200"
    process, approval = asking.ask(ECHO)
    asking.answer("refuse", approval["id"], "--reason", "no").ok()
    assert asking.outcome(process) == "403"


def test_people_see_the_body_that_a_hook_asks_about(online):
    """As with a rule that asks; the shape is that of the body as it would be sent."""
    hook = Hook(online, """say("ask", rewrite={"json": {"max": {"/amount": 100}}})""")
    asking = Asking(online, hook.rules)
    order = ["-H", "Content-Type: application/json", "-d", '{"to":"ann","amount":700}', ECHO]
    process, approval = asking.ask(*order)
    shape = approval["body"]["shape"]
    assert 'to: "ann"' in shape and "amount: 100" in shape and "700" not in shape, approval
    asking.answer("approve", approval["id"]).ok()
    assert asking.outcome(process) == "200"


@pytest.mark.parametrize("body", ["", "x"])
@pytest.mark.parametrize("keys", [{}, {"body": "1K"}], ids=["head", "body"])
def test_a_chunked_body_that_may_be_empty(online, keys, body):
    hook = Hook(online)
    code, told = hook.curl("-H", "Transfer-Encoding: chunked", "-d", body, ECHO, rules=hook.rule(**keys))
    assert code == 200 and json.loads(told)["size"] == len(body)
    [[_, question]] = hook.questions()
    assert question.get("body") == (body if keys else None)


def test_a_hook_rewrites_a_request(online):
    hook = Hook(online, body="""say("allow", rewrite={
        "headers": {"set": {"x-judged": "yes"}, "remove": ["x-internal"]},
        "query": {"set": {"limit": "10"}}})""")
    rules = hook.rules.rstrip() + "\n    rewrite: {query: {set: {safe: 'on'}}}\n"
    code, _ = hook.curl("-H", "x-internal: 1", ECHO + "?limit=1000", rules=rules)
    assert code == 200
    sent = [json.loads(line) for line in (online.lab.folder / "seen.jsonl").read_text().splitlines()
            if '"target": "/echo?' in line][-1]
    fields = dict(sent["fields"])
    assert fields["x-judged"] == "yes" and "x-internal" not in fields
    assert "limit=10" in sent["target"] and "limit=1000" not in sent["target"] and "safe=on" in sent["target"]


# ---- failures -----------------------------------------------------------------------------

FAILURES = {
    "late": ("time.sleep(1000)", "did not answer in time"),
    "crash": ("sys.exit(3)", "ended with status 3 before it answered"),
    "killed": ("os.kill(os.getpid(), 9)", "ended with signal 9 before it answered"),
    "garbage": ("print('yes', flush=True)", "not one JSON object"),
    "verdict": ("say('maybe')", "not allow, deny or ask"),
    "two lines": ("line = json.dumps(dict(id=question['id'], verdict='allow')); print(line + '\\n' + line, flush=True)",
                  "more than one line"),
    "long": ("say('allow', reason='x' * 40000)", "too much"),
    "zero": ("""print('{"verdict": "allow"}\\0', flush=True)""", "zero byte"),
    "no id": ("""print('{"verdict": "allow"}', flush=True)""", "answered without the id of the question"),
    "wrong id": ("question['id'] = '0' * 32; say('allow')", "answered another question"),
    "number as id": ("question['id'] = 1; say('allow')", "answered another question"),
    "two ids": ("""print('{"id": "%s", "id": "%s", "verdict": "allow"}' % (question["id"], question["id"]), flush=True)""",
                "answered with two ids"),
}


@only_user
@pytest.mark.parametrize("failure", FAILURES)
def test_a_request_without_a_valid_answer_is_refused(online, failure):
    body, why = FAILURES[failure]
    hook = Hook(online, body=body, **({"timeout": "300ms"} if failure == "late" else {}))
    code, told = hook.curl(ECHO)
    # The agent sees that there was no answer, and nothing of the program.
    assert code == 403 and "gave no valid answer" in told and str(hook.folder) not in told, told
    assert why in json.dumps(online.refusal(type="http"))
    # It was asked once: a hook may have side effects.
    assert len(hook.questions()) == 1


@only_user
def test_a_hook_that_failed_is_asked_the_next_question(online):
    """In a new process."""
    hook = Hook(online, body="sys.exit(1) if '/204' in question['url'] else " + ALLOW)
    hook.start()
    assert hook.inside(f"{UP}/204")[0] == 403
    assert hook.inside(ECHO)[0] == 200
    pids = [pid for pid, _ in hook.questions()]
    assert len(pids) == 2 and pids[0] != pids[1]


@only_user
def test_the_answer_to_another_question_is_not_taken(online):
    """Neither by the request that waits now, nor by the next one: that process is ended."""
    hook = Hook(online, body="first = question if count == 1 else first; question = first; say('allow')")
    hook.start()
    assert hook.inside(ECHO)[0] == 200
    assert hook.inside("-d", "x", ECHO)[0] == 403
    assert "answered another question" in json.dumps(online.refusal(type="http"))
    assert hook.inside(ECHO)[0] == 200
    pids = [pid for pid, _ in hook.questions()]
    assert pids[0] == pids[1] != pids[2]


@only_user
def test_a_program_that_is_not_there_is_an_error(online):
    rules = "version: 1\negress:\n  - {allow: up.example.test, hook: /nonexistent/hook}\n"
    policy = online.operator.file("policy.yaml", rules)
    online.operator.run("-p", policy, "--", "true").sentence("policy.yaml:3:", "/nonexistent/hook")


def test_a_program_that_others_may_write_is_an_error(online):
    hook = Hook(online)
    hook.path.chmod(0o777)
    policy = online.policy(hook.rules)
    online.operator.run("-p", policy, "--", "true").sentence("others may write", str(hook.path))


def test_why_suggests_no_rule_without_the_hook(online):
    hook = Hook(online, body="say('deny', reason='not on Fridays')")
    assert hook.curl(ECHO)[0] == 403
    told = online.operator.cloister("why", online.cell).ok()
    assert "hook" in told and "would allow it" not in told, told


@only_user
def test_a_hook_sees_everything_that_is_sent(online):
    """So a request that it judges has no trailers."""
    hook = Hook(online)
    told = online.python(hook.rules, """
import socket, ssl
s = ssl.create_default_context().wrap_socket(socket.create_connection(("up.example.test", 443), 20),
                                             server_hostname="up.example.test")
s.sendall(b"POST /echo HTTP/1.1\\r\\nHost: up.example.test\\r\\nTransfer-Encoding: chunked\\r\\n"
          b"Connection: close\\r\\n\\r\\n3\\r\\nabc\\r\\n0\\r\\nX-Admin: yes\\r\\n\\r\\n")
out = b""
while more := s.recv(65536):
    out += more
print(out.decode())
""").out
    assert "does not see trailers" in told, told


@only_user
def test_a_large_head_and_a_large_answer_are_refused_together(online):
    hook = Hook(online, body="""say("allow", rewrite={"json": {"set": {
        "/a" + str(i): "x" * 900 for i in range(30)}}})""")
    hook.start()
    before = helpers_of(online.operator, online.cell)
    told = online.inside("sh", "-c", "printf 'content-type: application/json; x=' >/tmp/h; head -c 45000 /dev/zero | "
                         f"tr '\\0' a >>/tmp/h; curl -sS --http1.1 -H @/tmp/h -d '{{}}' {ECHO}").out
    assert "too large together" in told, told
    after = helpers_of(online.operator, online.cell)
    assert all(after[name] == pid for name, pid in before.items()), (before, after)


# ---- pools --------------------------------------------------------------------------------

@only_user
def test_many_requests_share_few_processes(online):
    hook = Hook(online, body="time.sleep(0.05); " + ALLOW, timeout="60s")
    hook.start()
    with concurrent.futures.ThreadPoolExecutor(6) as workers:
        codes = list(workers.map(lambda _: online.inside("sh", "-c", f"for i in 1 2 3 4 5; do curl -sS -o /dev/null "
                                                         f"-w '%{{http_code}} ' {ECHO} & done; wait").out, range(6)))
    assert "".join(codes).split() == ["200"] * 30
    asked = hook.questions()
    assert len(asked) == 30
    assert 1 < len({pid for pid, _ in asked}) <= 4


@only_user
def test_rules_with_the_same_program_share_its_processes(online):
    hook = Hook(online)
    hook.start(hook.rules + hook.rule("www.example.test", timeout="1s"))
    assert hook.inside(ECHO)[0] == 200
    assert hook.inside("https://www.example.test/hello")[0] == 200
    [first, _], [second, _] = hook.questions()
    assert first == second


# ---- services -----------------------------------------------------------------------------

SERVICE = """
import json, os, socketserver, sys

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            question = json.loads(line)
            allowed = question["method"] == "GET"
            answer = {"id": question["id"], "verdict": "allow" if allowed else "deny"}
            self.wfile.write(json.dumps(answer).encode() + b"\\n")

server = socketserver.ThreadingUnixStreamServer(sys.argv[1], Handler)
server.daemon_threads = True
print("ready", flush=True)
server.serve_forever()
"""


def serve(operator, script, *words):
    """A service of the operator's that runs until the test ends."""
    process = operator.spawn("/usr/bin/python3", "-u", "-c", script, *words, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_service_judges(online):
    path = online.operator.folder("hooks") / "sock"
    service = serve(online.operator, SERVICE, str(path))
    online.start(f"  - allow: up.example.test\n    hook: unix:{path}\n", "sleep", "infinity")
    code = lambda *words: online.inside(*CODE, "-o", "/dev/null", *words, ECHO).out.strip()
    assert [code(), code("-d", "x"), code()] == ["200", "403", "200"]
    service.kill()
    service.wait()
    assert "gave no valid answer" in online.inside(*CODE, ECHO).out
    assert "cannot connect to the hook" in json.dumps(online.events(why="hook")[-1])


# ---- trust --------------------------------------------------------------------------------

@only_user
def test_a_program_that_an_agent_could_have_changed_is_not_run(online):
    """Also if that was after the start of the cell."""
    hook = Hook(online)
    hook.start()
    online.operator.run("-v", f"{hook.folder}:/w", "--", "true").ok()
    code, told = hook.inside(ECHO)
    assert code == 403 and str(hook.path) not in told
    assert str(hook.path) in json.dumps(online.refusal(type="http"))
    assert hook.questions() == []
    policy = online.policy(hook.rules)
    online.operator.run("-p", policy, "--", "true").sentence(str(hook.path))


@only_user
def test_a_live_change_adds_no_hook(online):
    hook, other = Hook(online), Hook(online, name="other")
    hook.start(hook.rules + "  - allow: www.example.test\n")
    operator = online.operator
    # Another order is fine.
    policy = online.policy("  - allow: www.example.test\n" + hook.rules, "second.yaml")
    operator.cloister("policy", "set", online.cell, policy).ok()
    assert hook.inside(ECHO)[0] == 200 and len(hook.questions()) == 1
    policy = online.policy(other.rules, "third.yaml")
    refused = operator.cloister("policy", "set", online.cell, policy)
    assert refused.status == 1 and "the hooks are settled when a cell starts" in refused.err, refused


# ---- life ---------------------------------------------------------------------------------

def test_without_hooks_there_is_no_cloister_hook(operator):
    cell = operator.detach("--allow", "a.example", "--", "sleep", "infinity")
    assert hook_process(operator, cell) is None


def test_the_programs_end_with_the_cell(online):
    hook = Hook(online, body="os.fork() or (time.sleep(1000), os._exit(0)); " + ALLOW)
    hook.start()
    assert hook.inside(ECHO)[0] == 200
    asker = hook_process(online.operator, online.cell)
    [[pid, _]] = hook.questions()
    assert is_alive(asker) and is_alive(pid)
    children = wait_until(lambda: descendants_of(pid), "it has a child")
    online.operator.cloister("kill", online.cell).ok()
    online.operator.cloister("wait", online.cell)
    wait_until(lambda: not any(is_alive(p) for p in (asker, pid, *children)), "they ended")


def test_cloister_hook_ends_with_the_cell(operator):
    program = operator.file("hooks/hook", "#!/bin/sh\nexec cat\n")
    program.chmod(0o755)
    policy = operator.file("policy.yaml", f"version: 1\negress:\n  - {{allow: a.example, hook: {program}}}\n")
    for how in ("stop", "kill"):
        cell = operator.detach("-p", policy, "--", "sleep", "infinity")
        pid = hook_process(operator, cell)
        assert pid is not None and is_alive(pid)
        operator.cloister(how, cell).ok()
        operator.cloister("wait", cell)
        wait_until(lambda: not is_alive(pid), "it ended")
    # And with the supervisor, however that ends.
    cell = operator.detach("-p", policy, "--", "sleep", "infinity")
    pid, supervisor = hook_process(operator, cell), operator.cell(cell)["supervisor"]
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "it ended")
    # The next cell removes the rest.
    operator.run("--", "true").ok()


@only_user
def test_without_cloister_hook_the_cell_does_not_start(operator, tmp_path):
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    operator.program = copy_programs(tmp_path)
    program = operator.file("hooks/hook", "#!/bin/sh\nexec cat\n")
    program.chmod(0o755)
    policy = operator.file("policy.yaml", f"version: 1\negress:\n  - {{allow: a.example, hook: {program}}}\n")
    operator.run("-p", policy, "--", "true").ok()
    helper = tmp_path / "libexec" / "cloister-hook"
    helper.write_bytes(pathlib.Path("/bin/false").read_bytes())
    operator.run("-p", policy, "--", "true").sentence("cloister-hook did not start, and the policy has hooks")
    helper.unlink()
    operator.run("-p", policy, "--", "true").sentence("cannot run 'cloister-hook'")
    operator.run("--allow", "a.example", "--", "true").ok()


@only_user
def test_a_restarted_courier_asks_again(online):
    hook = Hook(online)
    hook.start()
    assert hook.inside(ECHO)[0] == 200
    courier = helpers_of(online.operator, online.cell)["courier"]
    os.kill(courier, signal.SIGKILL)
    wait_until(lambda: helpers_of(online.operator, online.cell).get("courier") != courier, "it is gone")
    assert wait_until(lambda: hook.inside(ECHO)[0] == 200, "the next one works")
    pids = [pid for pid, _ in hook.questions()]
    assert len(pids) >= 2 and len(set(pids)) == 1


@only_user
def test_without_cloister_hook_requests_are_refused(online):
    hook = Hook(online)
    hook.start(hook.rules + "  - allow: www.example.test\n")
    assert hook.inside(ECHO)[0] == 200
    os.kill(hook_process(online.operator, online.cell), signal.SIGKILL)
    wait_until(lambda: hook.inside(ECHO)[0] == 403, "it is refused")
    assert hook.inside("https://www.example.test/hello")[0] == 200
    # Also by the next courier.
    courier = helpers_of(online.operator, online.cell)["courier"]
    os.kill(courier, signal.SIGKILL)
    wait_until(lambda: helpers_of(online.operator, online.cell).get("courier") != courier, "it is gone")
    assert wait_until(lambda: hook.inside("https://www.example.test/hello")[0] == 200, "the next one works")
    assert hook.inside(ECHO)[0] == 403


@only_user
def test_a_program_gets_the_operators_environment_and_no_descriptors(online):
    online.operator.env["TEAM"] = "blue"
    about = online.operator.folder("hooks") / "about"
    hook = Hook(online, f"json.dump([os.environ.get('TEAM'), os.listdir('/proc/self/fd')], open({str(about)!r}, 'w')); {ALLOW}")
    assert hook.curl(ECHO)[0] == 200
    team, fds = json.loads(about.read_text())
    # The folder that it lists, and the file that it writes.
    assert team == "blue" and {int(fd) for fd in fds} <= {0, 1, 2, 3, 4}


# ---- documents ----------------------------------------------------------------------------

def blocks(language):
    text = (TREE / "docs/hooks.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.M | re.S)


@only_user
def test_the_examples_of_the_document_work(online):
    operator = online.operator
    folder = operator.folder("hooks")
    local = lambda text: text.replace("/home/me/hooks", str(folder)) \
        .replace("shop.example.com", "up.example.test").replace("api.example.com", "www.example.test")
    [policy], [program, service] = blocks("yaml"), blocks("python")
    operator.file("hooks/judge.py", program).chmod(0o755)
    process = operator.spawn("/usr/bin/python3", "-c", local(service))
    wait_until(lambda: (folder / "judge.sock").exists(), "it listens")
    asking = Asking(online, local(policy))
    order = lambda amount: ["-d", json.dumps({"amount": amount}), ECHO]
    code, body = asking.end(asking.curl(*order(5)))
    assert code == "200"
    code, body = asking.end(asking.curl(*order(5000)))
    assert code == "403" and "only people order for more than 1000" in body
    waiting, approval = asking.ask(*order(500))
    assert "an order for 500" in json.dumps(approval)
    asking.answer("approve", approval["id"]).ok()
    assert asking.outcome(waiting) == "200"
    assert asking.end(asking.curl("https://www.example.test/hello"))[0] == "200"
    code, body = asking.end(asking.curl("https://www.example.test/admin/x"))
    assert code == "403" and "not the administration" in body
    process.kill()
    process.wait()
