"""Policies end to end: each matcher, the text of a refusal, and the messages for people."""
import gzip
import json
import os
import re

import pytest

from egress_lab import CURL, needs_python
from test_inspect import token

CODE = ["-o", "/dev/null", "-w", "%{http_code}"]
WWW, UP = "https://www.example.test", "https://up.example.test"


def codes(online, rules, *requests, options=()):
    """The status of each of REQUESTS (lists of curl's words), in one cell."""
    lines = [" ".join(f"'{word}'" for word in [*CURL, *CODE, *words])
             for words in requests]
    return online.sh(rules, "; echo; ".join(lines), options=options).out.split()


# A rule for each kind of matcher, what it lets through, and what it does not.
MATCHERS = {
    "host": ("allow: www.example.test", [f"{WWW}/hello"], ["https://api.example.test/hello"]),
    "label": ("allow: '*.example.test'", [f"{WWW}/hello"], ["https://a.b.example.test/hello",
                                                            "https://evil.test/hello"]),
    "depth": ("allow: '**.example.test'", [f"{WWW}/hello", "https://a.b.example.test/hello"],
              ["https://evil.test/hello"]),
    "any": ("allow: '*'", ["https://evil.test/hello"], ["http://93.184.216.10/hello"]),
    "address": ("allow: 93.184.216.10", ["http://93.184.216.10/hello"], ["http://93.184.216.20/echo"]),
    "range": ("allow: 93.184.216.0/27", ["http://93.184.216.10/hello", "http://93.184.216.20/echo"],
              ["http://93.184.216.99/"]),
    "address6": ("allow: '2606:2800:220:1::/64'", ["http://[2606:2800:220:1::10]/hello"],
                 ["http://93.184.216.10/hello"]),
    "port": ("allow: www.example.test:80", ["http://www.example.test/hello"], [f"{WWW}/hello"]),
    "ports": ("allow: www.example.test\n    ports: [80, 8000-9000]",
              ["http://www.example.test/hello"], [f"{WWW}/hello"]),
    "scheme": ("allow: www.example.test\n    scheme: https", [f"{WWW}/hello"],
               ["http://www.example.test/hello"]),
    "methods": ("allow: up.example.test\n    methods: [GET, HEAD]", [f"{UP}/echo", ["-I", f"{UP}/echo"]],
                [["-d", "x", f"{UP}/echo"], ["-X", "DELETE", f"{UP}/echo"]]),
    "path": ("allow: up.example.test\n    paths: [/echo]", [f"{UP}/echo", f"{UP}/%65cho",
                                                            f"{UP}/x/../echo"],
             [f"{UP}/echo/x", f"{UP}/204", ["--path-as-is", f"{UP}/echo/../204"],
              ["--path-as-is", f"{UP}/echo/%2e%2e/204"]]),
    "path-glob": ("allow: www.example.test\n    paths: ['/up/*']", [f"{WWW}/up/echo"],
                  [f"{WWW}/up/echo/x", f"{WWW}/hello"]),
    "path-globs": ("allow: www.example.test\n    paths: ['/up/**']", [f"{WWW}/up/echo"], [f"{WWW}/hello"]),
    "query": ("allow: up.example.test\n    query: 'a=*'", [f"{UP}/echo?a=1"], [f"{UP}/echo", f"{UP}/echo?b=1"]),
    "params": ("allow: up.example.test\n    query: {a: '1', b: absent}", [f"{UP}/echo?a=1&c=2"],
               [f"{UP}/echo?a=2", f"{UP}/echo?a=1&b=1", f"{UP}/echo?a=1&a=2"]),
    "headers": ("allow: up.example.test\n    headers: {x-team: [red, blue]}",
                [["-H", "X-Team: red", f"{UP}/echo"]],
                [f"{UP}/echo", ["-H", "X-Team: green", f"{UP}/echo"]]),
    "no-header": ("allow: up.example.test\n    headers: {authorization: absent}", [f"{UP}/echo"],
                  [["-H", "Authorization: x", f"{UP}/echo"]]),
    "content-type": ("allow: up.example.test\n    content_type: application/json",
                     [["-H", "Content-Type: application/json; charset=utf-8", "-d", "{}", f"{UP}/echo"]],
                     [["-d", "x", f"{UP}/echo"]]),
    "size": ("allow: up.example.test\n    body: {max: 10}", [["-d", "short", f"{UP}/echo"]],
             [["-d", "longer than that", f"{UP}/echo"],
              ["-H", "Transfer-Encoding: chunked", "-d", "longer than that", f"{UP}/echo"]]),
    "json": ("allow: up.example.test\n    body: {json: {/model: 'small-*', /n: 1}}",
             [["-H", "Content-Type: application/json", "-d", '{"model": "small-1", "n": 1}', f"{UP}/echo"]],
             [["-H", "Content-Type: application/json", "-d", '{"model": "big", "n": 1}', f"{UP}/echo"],
              ["-H", "Content-Type: application/json", "-d", '{"model": "small-1", "n": 2}', f"{UP}/echo"],
              ["-H", "Content-Type: application/json", "-d", '{"n": 1}', f"{UP}/echo"],
              ["-H", "Content-Type: application/json", "-d",
               '{"model": "big", "n": 1, "model": "small-1"}', f"{UP}/echo"],
              ["-d", "model=small-1", f"{UP}/echo"]]),
    "regex": ("allow: up.example.test\n    body: {regex: '^hello [a-z]+$'}",
              [["-d", "hello world", f"{UP}/echo"]], [["-d", "hello 123", f"{UP}/echo"]]),
    "graphql": ("allow: up.example.test\n    body: {graphql: {operations: [query]}}",
                [["-H", "Content-Type: application/json", "-d", '{"query": "{ me { name } }"}', f"{UP}/echo"]],
                [["-H", "Content-Type: application/json", "-d",
                  '{"query": "mutation { remove(id: 1) }"}', f"{UP}/echo"],
                 ["-H", "Content-Type: application/json", "-d",
                  '[{"query": "{ me }"}, {"query": "mutation { remove }"}]', f"{UP}/echo"]]),
    "jsonrpc": ("allow: up.example.test\n    body: {jsonrpc: {methods: ['get*']}}",
                [["-H", "Content-Type: application/json", "-d",
                  '{"jsonrpc": "2.0", "id": 1, "method": "getThing"}', f"{UP}/echo"]],
                [["-H", "Content-Type: application/json", "-d",
                  '{"jsonrpc": "2.0", "id": 1, "method": "setThing"}', f"{UP}/echo"],
                 ["-H", "Content-Type: application/json", "-d",
                  '[{"jsonrpc": "2.0", "id": 1, "method": "getThing"},'
                  ' {"jsonrpc": "2.0", "id": 2, "method": "setThing"}]', f"{UP}/echo"]]),
}


@pytest.mark.parametrize("name", MATCHERS)
def test_matcher(online, name):
    rule, allowed, refused = MATCHERS[name]

    def words(request):
        return [request] if isinstance(request, str) else request
    got = codes(online, f"  - {rule}\n", *map(words, [*allowed, *refused]))
    assert got[:len(allowed)] == ["200"] * len(allowed), (got, online.events())
    # A name that no rule mentions does not resolve: there is nobody to answer then.
    assert all(code in ("403", "000", "400") for code in got[len(allowed):]), got
    assert len(got) == len(allowed) + len(refused)


def test_the_first_match_wins(online):
    rules = ("  - deny: www.example.test\n    paths: [/hello]\n"
             "  - allow: www.example.test\n"
             "  - deny: '*'\n")
    assert codes(online, rules, [f"{WWW}/hello"], [f"{WWW}/up/echo"],
                 ["https://api.example.test/hello"]) == ["403", "200", "000"]


def test_bodies_of_several_rules(online):
    """The first rule that the body fits, whichever it is."""
    def post(body):
        return ["-H", "Content-Type: application/json", "-d", body, f"{UP}/echo"]
    rules = ("  - deny: up.example.test\n    body: {json: {/kind: evil}}\n    reason: no evil\n"
             "  - allow: up.example.test\n    body: {json: {/kind: good}}\n"
             "  - allow: up.example.test\n    methods: [GET]\n")
    assert codes(online, rules, post('{"kind": "evil"}'), post('{"kind": "good"}'),
                 post('{"kind": "other"}'), [f"{UP}/echo"]) == ["403", "200", "403", "200"]


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_packed_bodies_are_looked_into(online, coding):
    text = b'{"kind": "evil"}'
    if coding == "gzip":
        data = gzip.compress(text)
    elif coding == "br":
        data = pytest.importorskip("brotli").compress(text)
    else:
        data = pytest.importorskip("zstandard").compress(text)
    file = online.operator.file("body", data)
    rules = "  - deny: up.example.test\n    body: {json: {/kind: evil}}\n  - allow: up.example.test\n"
    post = ["-H", "Content-Type: application/json", "-H", f"Content-Encoding: {coding}",
            "--data-binary", "@/tmp/body", f"{UP}/echo"]
    assert codes(online, rules, post, [f"{UP}/echo"],
                 options=("-v", f"{file}:/tmp/body:ro")) == ["403", "200"]


def test_packed_bodies_are_held_as_far_as_the_rule_permits(online):
    """And where they are not, the rule that `why` prints makes them pass."""
    folder = online.operator.folder("packed", {
        f"{mib}M.gz": gzip.compress(os.urandom(mib << 20), 1) for mib in (5, 12, 65)})

    def post(mib, *words):
        return ["-H", "Content-Encoding: gzip", *words, "-H", "Expect:", "-T", f"/b/{mib}M.gz", f"{UP}/echo"]

    def tried(rules, *requests):
        return codes(online, rules, *requests, options=("-v", f"{folder}:/b:ro"))
    rules = "  - allow: up.example.test\n"
    chunked = ("-H", "Transfer-Encoding: chunked")
    assert tried(rules, post(5), post(5, *chunked), post(12), post(12, *chunked)) == ["200", "200", "403", "403"]
    events = online.events(type="http", why="too-large")
    assert len(events) == 2 and events[0]["size"] > 12 << 20 and events[1]["size"] > 10 << 20
    for event in events:
        said = online.operator.cloister("why", online.cell, str(event["n"])).ok()
        assert "body: {max: 16M}" in said and "secrets" not in said
    rule = said[said.index("  - allow: "):].split("\n\n")[0] + "\n"
    assert tried(rule + rules, post(12), post(12, *chunked), post(65)) == ["200", "200", "403"]
    # No rule has more of it held.
    rules = "  - allow: up.example.test\n    body: {max: 1G}\n"
    for words in ((), chunked):
        assert tried(rules, post(65, *words)) == ["403"]
        assert online.refusal(type="http")["note"] == \
            "the body is packed, and too large to be looked into: over 64M"
        said = online.operator.cloister("why").ok()
        assert "secrets: allow\n    body: {max: 128M}" in said and "looked into: over 64M" in said
    rule = said[said.index("  - allow: "):].split("\n\n")[0] + "\n"
    assert tried(rule + rules, post(65)) == ["200"]


def test_log_observes_and_goes_on(online):
    rules = "  - log: www.example.test\n    methods: [GET]\n  - allow: '*.example.test'\n"
    assert codes(online, rules, [f"{WWW}/hello"]) == ["200"]
    event, = online.events(type="http")
    assert event["logged"] == ["policy.yaml:3:5"] and event["rule"] == "policy.yaml:5:5"


# ---- refusals ----------------------------------------------------------------------------------

def test_a_refusal_tells_the_agent(online):
    rules = ("  - allow: up.example.test\n    methods: [GET]\n"
             "  - deny: up.example.test\n    reason: writes need a person\n")
    done = online.curl(rules, "-i", "-d", "x", f"{UP}/echo?token=hidden")
    head, _, body = done.ok().partition("\r\n\r\n")
    assert " 403" in head.split("\r\n")[0]
    assert "x-cloister-verdict: deny" in head.lower()
    assert "content-type: application/json" in head.lower()
    told = json.loads(body)
    assert told["error"] == "refused by cloister"
    assert told["what"].startswith("POST https://up.example.test/echo")
    assert told["rule"] == "policy.yaml:5:5" and told["reason"] == "writes need a person"
    assert told["hint"]
    event = online.refusal(type="http")
    assert (event["verdict"], event["why"], event["rule"], event["reason"], event["path"]) == (
        "deny", "rule", "policy.yaml:5:5", "writes need a person", "/echo")
    assert event["status"] == 403
    assert not online.lab.seen("token=hidden")


def test_no_rule_at_all(online):
    done = online.curl("  - allow: up.example.test\n    paths: [/204]\n", f"{UP}/echo")
    told = json.loads(done.ok())
    assert told["rule"] is None and told["error"] == "refused by cloister"
    assert online.refusal(type="http")["why"] == "no-rule"


def test_an_unanswered_approval(online):
    rules = "  - ask: up.example.test\n    timeout: 1s\n    reason: somebody must look\n"
    told = json.loads(online.curl(rules, f"{UP}/echo").ok())
    assert told["reason"] == "somebody must look (nobody approved it within 1s)"
    event = online.refusal(type="http")
    assert (event["verdict"], event["why"], event["reason"], event["note"]) == (
        "ask", "ask", "somebody must look", "nobody approved it within 1s")
    # Without a reason it says that it is about people.
    told = json.loads(online.curl("  - ask: up.example.test\n    timeout: 1s\n", f"{UP}/echo").ok())
    assert told["reason"] == "a person has to approve this, and nobody did within 1s"


def test_a_name_that_no_rule_mentions_never_leaves(online):
    """Data in its labels would."""
    name = f"secret-{online.operator.who}.evil.test"
    done = online.curl("  - allow: www.example.test\n", f"https://{name}/")
    assert done.status == 6
    assert online.lab.asked(name) == []
    event = online.refusal(type="dns")
    assert (event["host"], event["why"]) == (name, "no-rule")
    assert f"name {name}" in online.operator.cloister("events", online.cell).ok()


def test_why_of_a_name_that_another_port_was_wanted_of(online):
    """Only the name is known then; the rule for it says what to write for another port."""
    talk = ["/usr/bin/python3", "-c", "import socket\n"
            "print(socket.create_connection(('up.example.test', 7), 12).recv(100))"]
    assert online.run("  - allow: www.example.test\n", *talk).status != 0
    said = online.operator.cloister("why", online.cell).ok()
    assert "  - allow: up.example.test\n    # its ports are 80 and 443; for another write up.example.test:PORT, " \
        "with `protocol: tcp` if it is not HTTP\n" in said
    rule = said[said.index("  - allow: "):].split("\n\n")[0] + "\n"
    assert codes(online, rule, [f"{UP}/echo"]) == ["200"]
    rule = "  - allow: up.example.test:7\n    protocol: tcp\n"
    assert online.run(rule, *talk).ok() == "b'220 welcome\\r\\n'\n"


@pytest.mark.parametrize("rule, advice, stays", [
    ("deny: up.example.test", "in place of", False), ("deny: '*.example.test'", "put in front of", True),
], ids=["just it", "a pattern"])
def test_a_name_that_a_rule_denies(online, rule, advice, stays):
    """The advice leads to a rule that is reached."""
    done = online.curl(f"  - {rule}\n  - allow: www.test\n", f"{UP}/echo")
    assert done.status == 6
    assert "name up.example.test  a rule denies it (policy.yaml:3:5)\n" in done.err, done.err
    event = online.refusal(type="dns")
    assert (event["why"], event["rule"]) == ("rule", "policy.yaml:3:5")
    said = online.operator.cloister("why", online.cell).ok()
    assert f"The rule at policy.yaml:3:5 refuses it: {rule.replace(':', '', 1).replace(chr(39), '')}\n" in said
    assert f"This rule, {advice} the one at policy.yaml:3:5, would allow it:" in said
    rules = said[said.index("  - allow:"):] + (f"  - {rule}\n" if stays else "")
    assert codes(online, rules, [f"{UP}/echo"]) == ["200"]


def test_a_name_of_which_a_rule_denies_a_part(online):
    online.curl("  - deny: up.example.test\n    methods: [POST]\n", f"{UP}/echo")
    assert online.refusal(type="dns")["why"] == "no-rule"


def test_an_empty_policy_denies_everything(online):
    policy = online.policy("version: 1\negress: []\n")
    assert online.curl(policy, f"{WWW}/hello").status == 6
    assert online.curl(policy, *CODE, "http://93.184.216.10/hello").out in ("403", "000")


def test_events_never_hold_values(online):
    """Neither bodies, nor headers, nor queries."""
    online.curl("  - allow: up.example.test\n", "-H", "X-Thing: canary-header", "-d", "canary-body",
                f"{UP}/echo?q=canary-query").ok()
    said = str(online.events())
    assert "/echo" in said and "canary" not in said


# ---- what people are told ------------------------------------------------------------------------

def test_the_summary(online):
    rules = "  - allow: up.example.test\n    methods: [GET]\n"
    done = online.sh(rules, f"for i in 1 2 3; do {' '.join(CURL)} -o /dev/null -d x {UP}/echo; done; "
                     f"{' '.join(CURL)} https://other.test/ 2>/dev/null; :")
    assert done.status == 0
    lines = done.err.splitlines()
    assert lines[0].startswith("cloister: refused ") and lines[0].endswith("times:"), done.err
    assert any(f"POST {UP}/echo (3 times)" in line for line in lines)
    assert any("name other.test" in line for line in lines)
    assert f"cloister why {online.cell}" in lines[-1]
    assert all(line.startswith("cloister: ") for line in lines)
    # Nothing was refused: nothing is said.
    assert online.curl(rules, "-o", "/dev/null", f"{UP}/echo").err == ""
    assert online.curl(rules, "-o", "/dev/null", "-d", "x", f"{UP}/echo", options=("-q",)).err == ""


def test_why(online):
    rules = ("  - allow: up.example.test\n    methods: [GET]\n"
             "  - deny: up.example.test\n    reason: writes need a person\n")
    assert codes(online, rules, [f"{UP}/echo"], ["-d", "x", f"{UP}/echo"]) == ["200", "403"]
    said = online.operator.cloister("why").ok()
    assert said == online.operator.cloister("why", online.cell).ok()
    assert f"POST {UP}/echo\n" in said
    assert "policy.yaml:5:5" in said and "writes need a person" in said
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", said)
    number = online.refusal(type="http")["n"]
    assert online.operator.cloister("why", online.cell, str(number)).ok() == said
    assert online.operator.cloister("why", str(number)).ok() == said
    # The rule that it prints, put where it says, does what it says.
    rule = said[said.index("  - allow: "):]
    policy = online.policy(rule + rules, "again.yaml")
    assert online.operator.cloister("policy", "check", policy).status == 0
    assert codes(online, policy, ["-d", "x", f"{UP}/echo"], ["-X", "DELETE", f"{UP}/echo"]) == [
        "200", "403"]


def test_why_explains_an_allowed_request(online):
    online.curl("  - allow: up.example.test\n", "-o", "/dev/null", f"{UP}/echo").ok()
    online.operator.cloister("why", online.cell).sentence("nothing was refused in cell")
    number = online.events(type="http")[0]["n"]
    said = online.operator.cloister("why", online.cell, str(number)).ok()
    assert said.startswith("Allowed") and "policy.yaml:3:5" in said
    online.operator.cloister("why", online.cell, "4711").sentence("has no event 4711")
    online.operator.cloister("why", "nosuchcell").sentence("there is no cell 'nosuchcell'")
    online.operator.cloister("why", online.cell, "x").sentence("'x'")
    online.operator.cloister("why", "a", "1", "b").sentence("remove 'b'")


def test_events_for_people(online):
    rules = "  - allow: up.example.test\n    methods: [GET]\n"
    codes(online, rules, [f"{UP}/echo"], ["-d", "x", f"{UP}/echo"])
    lines = online.operator.cloister("events", "--type", "http", online.cell).ok().splitlines()
    assert not any("\033" in line for line in lines)
    http = [line for line in lines if "://" in line and "cell started" not in line]
    assert len(http) == 2
    assert re.match(rf" +\d+ \d\d:\d\d:\d\d allow +200 +0B .* GET {UP}/echo( \(process \d+\))?$", http[0]), http[0]
    assert re.match(rf" +\d+ \d\d:\d\d:\d\d deny +403 .* POST {UP}/echo( \(process \d+\))?  no rule allows it$", http[1])
    assert online.operator.cloister("events", "--type", "http").ok().splitlines() == lines
    online.operator.cloister("events", "nosuchcell").sentence("there is no cell 'nosuchcell'")
    online.operator.cloister("events", online.cell, "x").sentence("there is no cell 'x'")


def test_events_can_be_followed(online):
    cell = online.start("  - allow: up.example.test\n", "sh", "-c",
                        f"sleep 0.5; {' '.join(CURL)} -o /dev/null {UP}/echo; sleep 0.3; "
                        f"{' '.join(CURL)} -o /dev/null {UP}/204")
    said = online.operator.cloister("events", "-f", "--json", "--type", "http", cell).ok()
    paths = [json.loads(line).get("path") for line in said.splitlines()]
    assert [p for p in paths if p] == ["/echo", "/204"]


def test_hostile_text_in_events(online):
    """Names and paths of an agent cannot control the operator's terminal."""
    send = """
import socket
s = socket.create_connection(('up.example.test', 80))
s.sendall(b'GET /a%1b%5b31m%e2%80%ae HTTP/1.1\\r\\nHost: up.example.test\\r\\nConnection: close\\r\\n\\r\\n')
s.recv(1000)
"""
    online.python("  - allow: up.example.test\n", send)
    for words in (["events"], ["events", "--json"], ["why", online.cell, "1"]):
        said = online.operator.cloister(*words)
        assert "\033" not in said.out and "\u202e" not in said.out


# ---- policy files ----------------------------------------------------------------------------------

@pytest.mark.parametrize("text, parts", [
    ("egress:\n  - allow: a.test\n    metods: [GET]\n", ["policy.yaml:4:5", "methods"]),
    ("egress:\n  - alow: a.test\n", ["policy.yaml:3:5", "allow"]),
    ("egress:\n  - allow: '*'\n  - deny: a.test\n", ["policy.yaml:4:5"]),
    ("egress:\n  - allow: a.test\n    protocol: udp\n", ["policy.yaml:4:15", "UDP"]),
    ("egress: [\n", ["policy.yaml:"]),
])
def test_a_policy_with_an_error_starts_nothing(online, text, parts):
    policy = online.policy("version: 1\n" + text)
    said = online.operator.run("-p", policy, "--", "touch", "/tmp/x").sentence(*parts)
    assert "policy.yaml:" in said
    done = online.operator.cloister("policy", "check", policy)
    assert done.status != 0 and all(part in done.out + done.err for part in parts)


def test_a_policy_that_others_may_write_is_refused(online):
    policy = online.policy("  - allow: a.test\n")
    policy.chmod(0o666)
    online.operator.run("-p", policy, "--", "true").sentence("policy.yaml")


def test_a_policy_carries_limits(online):
    policy = online.policy("version: 1\negress: []\nlimits: {time: 1s}\n")
    done = online.operator.run("-p", policy, "--", "sleep", "20")
    assert done.status == 137 and "--time 1s" in done.err


# ---- learning ----------------------------------------------------------------------------------------

LEARNED = f"""
set -e
{' '.join(CURL)} -o /dev/null {UP}/echo
{' '.join(CURL)} -o /dev/null -d x {UP}/echo?q=1
{' '.join(CURL)} -o /dev/null {WWW}/hello
{' '.join(CURL)} -o /dev/null http://www.example.test/hello
"""


def learn(online, *words, **how):
    online.operator.folder("learning")
    done = online.operator.cloister("learn", *words, cwd=online.operator.base / "learning", **how)
    online.operator.kept |= {n.split(".")[0] for n in online.operator.names(online.operator.state)}
    return done


def test_learn(online):
    done = learn(online, "--", "sh", "-c", LEARNED)
    assert done.status == 0, done
    assert done.out == ""
    lines = done.err.splitlines()
    assert lines[0] == "cloister: learning: everything public is allowed, and recorded"
    assert "learned from 4 requests" in done.err and "cloister.yaml" in done.err
    policy = online.operator.base / "learning/cloister.yaml"
    text = policy.read_text()
    assert text.startswith("#") and "up.example.test" in text
    assert online.operator.cloister("policy", "check", policy).status == 0
    # It allows the same, and not more.
    assert online.sh(policy, LEARNED).status == 0
    assert {e["verdict"] for e in online.events(type="http")} == {"allow"}
    assert codes(online, policy, ["-X", "DELETE", f"{UP}/echo"], [f"{UP}/204"],
                 ["https://api.example.test/hello"]) == ["403", "403", "000"]


LOCAL = "curl -s -o /dev/null http://host.cloister.internal:8099/x; curl -s -o /dev/null http://host.cloister.internal:8099/y; true"


def test_learn_names_what_it_did_not_open(online):
    """A server on this machine is opened by name alone, and a policy of nothing is no success."""
    done = learn(online, "-o", "local.yaml", "--", "sh", "-c", LOCAL)
    assert done.status == 125, done
    assert "refused: to learn them, use `cloister learn --allow host.cloister.internal:8099 -- CMD`" in done.err, done
    assert not (online.operator.base / "learning/local.yaml").exists()
    online.operator.cloister("secret", "add", "NOTES", "--host", "host.cloister.internal:8099", "--plain", input="x" * 20).ok()
    done = learn(online, "-o", "local.yaml", "--allow", "host.cloister.internal:8099", "-s", "NOTES", "--", "sh", "-c", LOCAL)
    assert done.status == 0 and "cloister run -p local.yaml -s NOTES -- CMD" in done.err, done
    policy = online.operator.base / "learning/local.yaml"
    assert "allow: host.cloister.internal:8099\n    scheme: http\n" in policy.read_text(), policy.read_text()
    checked = online.operator.cloister("policy", "check", policy)
    assert checked.status == 0 and checked.err == "", checked


def test_learn_overwrites_nothing(online):
    online.operator.folder("learning", {"cloister.yaml": "mine\n"})
    policy = online.operator.base / "learning/cloister.yaml"
    fetch = ["--", *CURL, "-o", "/dev/null", f"{UP}/echo"]
    done = learn(online, *fetch)
    assert done.status == 125 and "exists" in done.err and "--force" in done.err
    assert policy.read_text() == "mine\n"
    assert learn(online, "-o", "other.yaml", *fetch).status == 0
    assert "up.example.test" in (online.operator.base / "learning/other.yaml").read_text()
    assert policy.read_text() == "mine\n"
    assert learn(online, "--force", *fetch).status == 0
    assert "up.example.test" in policy.read_text()
    assert sorted(n.name for n in (online.operator.base / "learning").iterdir()) == [
        "cloister.yaml", "other.yaml"]


def test_learn_a_protocol_that_begins_with_a_word(online):
    """Its first bytes could become HTTP, and do not."""
    done = learn(online, "--", "/usr/bin/python3", "-c", """
import socket
s = socket.create_connection(('up.example.test', 7))
s.sendall(b'HELLO')
got = b''
while not got.endswith(b'HELLO') and (more := s.recv(100)):
    got += more
print(got)
""")
    assert done.ok() == "b'220 welcome\\r\\nHELLO'\n"
    text = (online.operator.base / "learning/cloister.yaml").read_text()
    assert "up.example.test:7" in text and "protocol: tcp" in text


def test_learn_is_the_command_in_all_else(online):
    done = learn(online, "-q", "-e", "WORD=said", "--", "sh", "-c", "echo $WORD; exit 7")
    assert (done.status, done.out, done.err) == (7, "said\n", "")
    assert not (online.operator.base / "learning/cloister.yaml").exists()
    for option, words in (("detach", ["-d"]), ("policy", ["-p", "a.yaml"])):
        learn(online, *words, "--", "true").sentence(f"remove --{option}")
    learn(online).sentence("no command is given")
    # Before the command is run.
    told = ["--", "sh", "-c", "echo run"]
    learn(online, "-o", "/nonexistent/x", *told).sentence("/nonexistent/x")
    learn(online, "--force", "-o", "/tmp", *told).sentence("'/tmp' is a folder")


def test_learn_prints(online):
    done = learn(online, "-o", "-", "--", *CURL, "-o", "/dev/null", "-w", "%{http_code}\n", f"{UP}/echo")
    assert done.status == 0 and done.out.startswith("200\n# written by"), done
    assert "learned from 1 request\n" in done.err
    assert list((online.operator.base / "learning").iterdir()) == []
    policy = online.operator.file("printed.yaml", done.out[len("200\n"):])
    assert codes(online, policy, [f"{UP}/echo"]) == ["200"]


def test_learn_lets_no_credential_out(online):
    """Packed or not; the policy that is written says so where it would have gone."""
    before = online.lab.seen(token())       # of tests that may send it
    text = json.dumps({"key": token(), "pad": "x" * 2_000_000})
    folder = online.operator.folder("bodies", {"plain": text, "packed": gzip.compress(text.encode()),
                                               "none": gzip.compress(os.urandom(2 << 20))})
    post = f"{' '.join(CURL)} -o /dev/null -w '%{{http_code}}\n' -H 'Content-Type: application/json'"
    gz, where = "-H 'Content-Encoding: gzip'", f"{UP}/echo?{online.operator.who}-learned"
    done = learn(online, "-v", f"{folder}:/b:ro", "--", "sh", "-c",
                 f"{post} --data-binary @/b/plain {where}-plain; "
                 f"{post} -X PUT {gz} --data-binary @/b/packed {where}-packed; "
                 f"{post} -X PATCH {gz} --data-binary @/b/none {where}-none")
    assert done.out.split() == ["403", "403", "200"], done
    assert "refused 2 times" in done.err
    assert online.lab.seen(token()) == before and not online.lab.seen(f"{online.operator.who}-learned-packed")
    assert online.lab.seen(f"{online.operator.who}-learned-none")
    policy = online.operator.base / "learning/cloister.yaml"
    written = policy.read_text()
    assert "    # a body looked like a credential, and was refused: `secrets: allow` would let it out\n" in written
    assert "\n    secrets: allow" not in written
    assert codes(online, policy, ["-d", "x", f"{UP}/echo"], ["-X", "PUT", "-d", "x", f"{UP}/echo"],
                 ["-d", token(), f"{UP}/echo"]) == ["200", "200", "403"]


def test_learn_from_this_machine(online):
    """A host that is closed without a rule is opened by one, and learned."""
    url = "http://host.cloister.internal:8080/echo"
    words = ["--", *CURL, "-o", "/dev/null", "-w", "%{http_code}\n", url]
    assert "can allow host.cloister.internal" in json.loads(learn(online, "--", *CURL, url).out)["hint"]
    assert learn(online, "--allow", "host.cloister.internal:8080", *words).out == "200\n"
    policy = online.operator.base / "learning/cloister.yaml"
    assert online.run(policy, *words[1:]).ok() == "200\n", policy.read_text()


def test_learn_from_a_server_that_speaks_first(online):
    """Nobody has said so, and the client waits for it, though not for long."""
    talk = ["/usr/bin/python3", "-c", "import socket\n"
            "print(socket.create_connection(('up.example.test', 7), 12).recv(100))"]
    assert learn(online, "--", *talk).out == "b'220 welcome\\r\\n'\n"
    policy = online.operator.base / "learning/cloister.yaml"
    assert online.run(policy, *talk).ok() == "b'220 welcome\\r\\n'\n", policy.read_text()


def test_learn_leaves_out_invalid_names(online):
    learn(online, "--", "sh", "-c", f"{' '.join(CURL)} -o /dev/null {UP}/echo; "
          f"{' '.join(CURL)} -o /dev/null https://nosuch.example.test/")
    policy = (online.operator.base / "learning/cloister.yaml").read_text()
    assert "allow: up.example.test" in policy and "allow: nosuch" not in policy


# ---- what `why` and refusals say ---------------------------------------------------------------------

def test_why_knows_upgrades(online):
    """The rule that it prints lets the WebSocket through."""
    words = ["-o", "/dev/null", "-w", "%{http_code}\n", "-H", "Connection: Upgrade", "-H", "Upgrade: websocket",
             "-H", "Sec-WebSocket-Version: 13", "-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
             "--http1.1", "--max-time", "2", "https://ws.example.test/x"]
    rules = "  - allow: ws.example.test\n    methods: [GET]\n"
    assert online.curl(rules, *words).out == "403\n"
    said = online.operator.cloister("why", online.cell).ok()
    assert "GET https://ws.example.test/x (WebSocket)" in said and "upgrade: websocket" in said
    online.curl(said[said.index("  - allow:"):] + rules, *words)
    assert [e["verdict"] for e in online.events(upgrade=True)] == ["allow"]


@pytest.mark.parametrize("more, words, said", [
    ("methods: [GET]", ["-d", "x"], "no: the method is POST"),
    ("paths: [/other]", [], "no: the path is /echo"),
    ("headers: {x-a: b}", [], "no: its query or headers do not match"),
    ("body: {json: {/a: 1}}", ["-H", "content-type: application/json", "-d", '{"a": 2}'], "no: its body does not match"),
], ids=["method", "path", "header", "body"])
def test_why_shows_the_rules_that_nearly_match(online, more, words, said):
    rules = f"  - allow: www.example.test\n  - allow: up.example.test\n    {more}\n"
    assert online.curl(rules, *CODE, *words, f"{UP}/echo").out == "403"
    told = online.operator.cloister("why", online.cell).ok()
    assert "The rules about this host:\n    policy.yaml:4:5  allow up.example.test" in told, told
    assert f"\n        {said}\n" in told and "policy.yaml:3:5" not in told


PROXY = ["-x", "http://198.18.0.1:3128"]


@pytest.mark.parametrize("words, rule, hint, helps", [
    (["http://meta.example.test/"], "meta.example.test", "Do not try again.", False),
    (["http://169.254.169.254/echo"], "0.0.0.0/0", "can name the address in a rule", True),
    (["http://inner.example.test/echo"], "inner.example.test", "can say `private: true` in its rule", True),
    (["http://10.0.0.5/echo"], "0.0.0.0/0", "can name the address in a rule", True),
    ([*PROXY, "http://127.0.0.1:8080/echo"], "0.0.0.0/0:8080",
     "can allow host.cloister.internal with its port", False),
], ids=["metadata", "the metadata address", "private", "a private address", "loopback"])
def test_advice_for_addresses(online, words, rule, hint, helps):
    done = online.curl(f"  - allow: {rule}\n", *words)
    hinted = json.loads(done.out)["hint"]
    assert hint in hinted and ("private: true" in hinted) == ("private: true" in hint), done
    said = online.operator.cloister("why", online.cell).ok()
    assert ("- allow: " in said) == helps, said
    if helps:
        rules = said[said.index("  - allow:"):] + f"  - allow: {rule}\n"
        assert codes(online, rules, words) == ["200"]


def test_advice_if_a_rule_denies_the_address(online):
    deny, allow = "  - deny: 93.184.216.0/24\n", "  - allow: up.example.test\n"
    done = online.curl(deny + allow, f"{UP}/echo")
    assert "find another way" in json.loads(done.out)["hint"], done
    said = online.operator.cloister("why", online.cell).ok()
    assert "must be in front of the one that denies" in said and "- allow: " not in said, said
    assert "which a rule denies: policy.yaml:3:5\n" in said
    assert codes(online, allow + deny, [f"{UP}/echo"]) == ["200"]


def test_the_other_scheme_is_hinted_at(online):
    done = online.curl("  - allow: www.example.test:80\n", "https://www.example.test:80/hello")
    assert "use http://" in json.loads(done.out)["hint"], done
    done = online.curl("  - allow: up.example.test:443\n", "http://up.example.test:443/echo")
    assert "use https://" in json.loads(done.out)["hint"], done


def test_learn_shows_requests_that_are_refused_anyway(online):
    done = learn(online, "--", "sh", "-c", f"{' '.join(CURL)} -o /dev/null {UP}/echo; "
                 f"{' '.join(CURL)} -o /dev/null http://inner.example.test/echo")
    policy = (online.operator.base / "learning/cloister.yaml").read_text()
    assert "up.example.test" in policy and "inner.example.test" not in policy
    assert done.status == 0 and "GET http://inner.example.test/echo" in done.err, done


WEBSOCKET = """
import asyncio, websockets
async def go():
    async with websockets.connect('wss://ws.example.test/x') as ws:
        print(await ws.recv())
asyncio.run(go())
"""
GRPC = """
import grpc
channel = grpc.secure_channel('grpc.example.test:443', grpc.ssl_channel_credentials())
print(channel.unary_unary('/test.Echo/Unary')(b'hello', timeout=20))
"""
BIG_UPLOAD = f"head -c 20000000 /dev/zero | {' '.join(CURL)} -o /dev/null -H Expect: -T - {UP}/echo"


@pytest.mark.parametrize("words", [
    pytest.param(["/usr/bin/python3", "-c", WEBSOCKET], marks=needs_python("websockets"), id="websocket"),
    pytest.param(["/usr/bin/python3", "-c", GRPC], marks=needs_python("grpc"), id="grpc"),
    pytest.param(["sh", "-c", BIG_UPLOAD], id="upload"),
    pytest.param([*CURL, "-o", "/dev/null", "http://93.184.216.10/hello"], id="address"),
    pytest.param([*CURL, "-fo", "/dev/null", f"{UP}/echo?a=b", f"{UP}/echo%20x"], id="escapes")])
def test_learn_from_other_things(online, words):
    """A request that passed once passes again."""
    first = learn(online, "-q", "--", *words)
    policy = online.operator.base / "learning/cloister.yaml"
    again = online.run(policy, *words)
    assert (again.status, again.out) == (first.status, first.out), (policy.read_text(), again)
    assert {e["verdict"] for e in online.events()} == {"allow"}, policy.read_text()
