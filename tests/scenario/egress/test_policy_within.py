"""A policy within others: a cell does only what all of them allow; judged by what servers saw."""
import json
import re

import pytest

from egress_lab import CURL
from test_egress_policy import CODE, UP, WWW
from test_egress_secrets import canary, give
from test_limits import MIB, cgroup_value, limited  # noqa: F401

WIDE = "  - allow: '*.example.test'\n"


def within(online, child, *outer, options=()):
    """A policy file, and the options that put it within OUTER, the nearest first."""
    files = [online.policy(text, f"outer{i}.yaml") for i, text in enumerate(outer)]
    return online.policy(child), [*options, *(w for file in files for w in ("--within", file))]


def codes(online, child, outer, *requests):
    """The status of each of REQUESTS (lists of curl's words), in one cell."""
    lines = [" ".join(f"'{word}'" for word in [*CURL, *CODE, *words]) for words in requests]
    policy, options = within(online, child, *outer)
    return online.sh(policy, "; echo; ".join(lines), options=options).out.split()


def test_only_requests_that_both_allow(online):
    mine, theirs, both = canary(), canary(), canary()
    got = codes(online, "  - allow: up.example.test\n  - allow: www.example.test\n    methods: [GET]\n",
                ["  - {allow: up.example.test, methods: [GET]}\n"
                 "  - {deny: up.example.test, reason: only reading}\n"
                 "  - allow: www.example.test\n    paths: [/hello]\n  - allow: api.example.test\n"],
                [f"{UP}/echo?{both}"], ["-d", mine, f"{UP}/echo?{mine}"],
                [f"{WWW}/hello"], [f"{WWW}/files/x"], ["-d", "x", f"{WWW}/hello"],
                [f"https://api.example.test/echo?{theirs}"])
    assert got == ["200", "403", "200", "403", "403", "000"]
    assert online.lab.seen(both) and not online.lab.seen(mine) and not online.lab.seen(theirs)
    refused = online.events(why="rule")
    assert [(e["rule"], e["reason"], e["layer"]) for e in refused] == [("outer0.yaml:4:5", "only reading", 1)]
    assert {e.get("layer", 0) for e in online.events(why="no-rule", type="http")} == {0, 1}
    # Each rule of the policy itself says no more in `why` than it can keep.
    assert "each of them must allow it" in online.operator.cloister("why", online.cell).ok()


def test_three_deep(online):
    got = codes(online, WIDE, [WIDE, "  - {ask: up.example.test, paths: [/echo], timeout: 1s}\n" + WIDE],
                [f"{WWW}/hello"], [f"{UP}/echo"], [f"{UP}/204"])
    assert got == ["200", "403", "204"]
    assert online.refusal(type="http")["why"] == "ask"


def test_bodies_fit_all(online):
    """Each layer's rules look into the same body; the numbers of their rules do not get mixed up."""
    child = ("  - deny: [nowhere.test, other.test]\n"
             "  - allow: up.example.test\n    body: {json: {/model: [small-*, tiny]}}\n")
    outer = ("  - allow: up.example.test\n    body: {json: {/model: [tiny, large-*]}}\n"
             "  - allow: up.example.test\n    methods: [GET]\n")
    json_ = ["-H", "Content-Type: application/json"]
    got = codes(online, child, [outer], *([*json_, "-d", json.dumps({"model": m}), f"{UP}/echo"]
                                          for m in ("tiny", "small-1", "large-1", "other")))
    assert got == ["200", "403", "403", "403"]


def test_addresses_that_an_outer_one_denies(online):
    mark = canary()
    got = codes(online, WIDE, ["  - deny: 93.184.216.20/32\n" + WIDE], [f"{WWW}/hello"], [f"{UP}/echo?{mark}"])
    assert got == ["200", "403"] and not online.lab.seen(mark)
    assert "outer0.yaml:3:5" in online.refusal(type="http")["note"]


def test_names_that_no_outer_rule_mentions(online):
    policy, options = within(online, WIDE, "  - allow: www.example.test\n")
    done = online.sh(policy, "getent hosts www.example.test >&2; getent hosts up.example.test", options=options)
    assert done.status == 2 and "www.example.test" in done.err
    assert [e["verdict"] for e in online.events(type="dns", host="up.example.test")] == ["deny"]


def test_raw_bytes_only_where_both_say_so(online):
    child = "  - {allow: up.example.test:80, protocol: tcp}\n"
    script = "import socket; s = socket.create_connection(('up.example.test', 80)); " \
             "s.sendall(b'GET /echo?%s HTTP/1.0\\r\\nHost: up.example.test\\r\\n\\r\\n'); print(s.recv(99))"
    for outer, through in ((child, True), ("  - allow: up.example.test\n", False)):
        mark = canary()
        policy, options = within(online, child, outer)
        online.python(policy, script % mark, options=options)
        assert bool(online.lab.seen(mark)) == through, outer


def test_the_smaller_limits(limited):
    """Also than the command line's."""
    policy = limited.file("p.yaml", "version: 1\nlimits: {pids: 200, memory: 500M}\n")
    outer = limited.file("o.yaml", "version: 1\nlimits: {pids: 300, memory: 300M}\n")
    id = limited.detach("-p", policy, "--within", outer, "--pids", "290", "--", "sleep", "1000")
    assert int(cgroup_value(limited, id, "memory.max", "memory.limit_in_bytes")) == 300 * MIB
    assert int(cgroup_value(limited, id, "pids.max")) in (290, 291)
    more = limited.detach("-p", policy, "--within", outer, "--pids", "310", "--memory", "1G", "--", "sleep", "1000")
    assert int(cgroup_value(limited, more, "memory.max", "memory.limit_in_bytes")) == 300 * MIB
    assert int(cgroup_value(limited, more, "pids.max")) in (300, 301)


SECRET = "version: 1\negress:\n" + WIDE + "secrets: {}\n"


def with_secrets(online, secrets, name):
    return online.policy(SECRET.replace("{}", secrets), name)


def send(online, policy, outer, host, *options):
    """The value of the secret KEY that the server at HOST got."""
    return online.sh(policy, f'{" ".join(CURL)} -H "Authorization: Bearer ${{KEY-none}}" https://{host}/echo',
                     options=["-q", "--within", outer, *options])


def test_secrets_that_both_give(online):
    real, other = canary(), canary()
    give(online, real)
    give(online, other, name="MORE")
    child = with_secrets(online, "[KEY, MORE]", "policy.yaml")
    outer = with_secrets(online, "[KEY]", "o.yaml")
    send(online, child, outer, "up.example.test")
    assert online.lab.seen(real)
    done = online.operator.run("-p", child, "--within", outer, "--", "sh", "-c", 'echo "${MORE-none}"')
    assert done.out == "none\n" and done.err == f"cloister: the cell does not get the secret 'MORE': {outer} " \
        "does not give it\n"
    # Nor does the command line add one.
    done = online.sh(online.policy(WIDE), 'echo "${MORE-none}"', options=["-q", "-s", "MORE", "--within", outer])
    assert done.out == "none\n"
    # One that none of them gives is not asked for at all.
    done = send(online, child, online.policy(WIDE, "bare.yaml"), "up.example.test")
    assert "Bearer none" in done.out


@pytest.mark.parametrize("mine, theirs", [("'*.example.test'", "up.example.test"),
                                          ("up.example.test", "'*.example.test'")])
def test_a_secret_goes_where_both_say(online, mine, theirs):
    """The scope is that of both, whoever is the narrower one."""
    real = canary()
    give(online, real)
    child = with_secrets(online, f"{{KEY: {{hosts: {mine}}}}}", "policy.yaml")
    outer = with_secrets(online, f"{{KEY: {{hosts: {theirs}}}}}", "o.yaml")
    assert "refused by cloister" in send(online, child, outer, "www.example.test").out
    assert online.refusal(type="http")["why"] == "exfiltration" and not online.lab.seen(real)
    send(online, child, outer, "up.example.test")
    assert online.lab.seen(real)


def test_a_secret_of_the_same_name_is_not_the_same(online):
    file = online.operator.file("home/token", canary())
    child = with_secrets(online, f"{{KEY: {{hosts: up.example.test, from: 'file:{file}'}}}}", "policy.yaml")
    outer = with_secrets(online, "{KEY: {hosts: up.example.test}}", "o.yaml")
    online.operator.run("-p", child, "--within", outer, "--", "true").sentence("'KEY' is not the same")


def test_errors_are_reported(online):
    policy = online.policy(WIDE)
    wrong = online.policy("  - alow: x\n", "wrong.yaml")
    online.operator.run("-p", policy, "--within", wrong, "--", "true").sentence(f"{wrong}:3:5:", "did you mean 'allow'")
    many = [word for _ in range(8) for word in ("--within", policy)]
    online.operator.run("-p", policy, *many, "--", "true").sentence("--within", "more than 7 times")
    online.operator.cloister("learn", "--within", policy, "--", "true").sentence("--within", "`learn`")


# ---- `cloister policy` ------------------------------------------------------------------

def test_pairs(operator):
    child = operator.file("c.yaml", "version: 1\negress:\n  - {allow: a.x, methods: [GET, POST]}\n"
                          "  - {ask: b.x}\n  - deny: '*'\n")
    outer = operator.file("o.yaml", "version: 1\negress:\n  - {allow: a.x, methods: [GET]}\n  - allow: '*.x'\n")
    done = operator.cloister("policy", "explain", child, "--within", outer)
    assert done.ok().splitlines() == [
        "c.yaml:3:5  allow a.x methods [GET, POST]",
        "    allow  o.yaml:3:5  allow a.x methods [GET]",
        "    allow  o.yaml:4:5  allow *.x",
        "c.yaml:4:5  ask b.x",
        "    ask    o.yaml:4:5  allow *.x",
        f"    deny   all other requests: no rule matches in {outer}",
        "c.yaml:5:5  deny *",
        "    deny   by itself"]
    pairs = json.loads(operator.cloister("policy", "explain", child, "--within", outer, "--json").ok())
    assert [(r["rule"], [(p["rule"], p["verdict"]) for p in r["within"]]) for r in pairs] == [
        ("c.yaml:3:5", [("o.yaml:3:5", "allow"), ("o.yaml:4:5", "allow")]),
        ("c.yaml:4:5", [("o.yaml:4:5", "ask"), (None, "deny")]), ("c.yaml:5:5", [(None, "deny")])]
    assert operator.cloister("policy", "check", child, "--within", outer).ok() == \
        f"{child}: 3 rules, within {outer} (2 rules)\n"


def test_a_request_through_the_layers(operator):
    child = operator.file("c.yaml", "version: 1\negress:\n  - allow: a.x\n")
    outer = operator.file("o.yaml", "version: 1\negress:\n  - {allow: a.x, methods: [GET]}\n")
    cases = operator.file("cases.yaml", "- {request: GET https://a.x/, expect: allow}\n"
                          "- {request: POST https://a.x/, expect: deny}\n")
    done = operator.cloister("policy", "explain", child, "--within", outer, "POST", "https://a.x/").ok()
    assert re.search(r"yes\nwithin .*o.yaml\n.*\n.*no: the method is POST\ndeny: no rule allows it in .*o.yaml\n", done)
    test = ["policy", "test", child, "--cases", cases]
    assert operator.cloister(*test, "--within", outer).ok() == "2 cases passed\n"
    assert operator.cloister(*test).status == 1


def test_principal_and_chain(operator):
    child = operator.file("c.yaml", "version: 1\negress:\n  - {allow: a.x, principal: '*@acme.example'}\n"
                          "  - {allow: b.x, chain: [lead, worker-*]}\n")
    # Whom an outer one is for is asked of the chain as it was then.
    outer = operator.file("o.yaml", "version: 1\negress:\n  - {allow: '*.x', chain: lead}\n")

    def verdict(host, *options):
        done = operator.cloister("policy", "explain", child, f"https://{host}/", "--json", *options)
        return json.loads(done.ok())["verdict"]
    assert verdict("a.x") == verdict("b.x") == "deny"
    assert verdict("a.x", "--principal", "ann@acme.example") == "allow"
    assert verdict("b.x", "--chain", "lead/tester") == verdict("b.x", "--chain", "x/worker-2") == "allow"
    assert verdict("b.x", "--chain", "leader") == "deny"
    assert verdict("b.x", "--within", outer, "--chain", "lead/worker-1") == "allow"
    assert verdict("b.x", "--within", outer, "--chain", "worker-1/lead") == "deny"


def test_rules_for_principals(online):
    policy = online.policy("  - {allow: up.example.test, principal: '*@acme.example'}\n"
                           "  - {allow: www.example.test, chain: lead}\n")
    outer = online.policy("  - {allow: '*.example.test', chain: lead}\n", "o.yaml")

    def got(*options):
        return online.sh(policy, "; echo; ".join(" ".join([*CURL, *CODE, url]) for url in (f"{UP}/204", f"{WWW}/hello")),
                         options=options).out.split()
    assert got() == ["000", "000"]
    assert got("--principal", "ann@acme.example") == ["204", "000"]
    assert got("--chain", "lead/helper") == ["000", "200"]
    assert got("--principal", "a@acme.example", "--chain", "lead/helper", "--within", outer) == ["204", "200"]
    assert got("--principal", "a@acme.example", "--chain", "helper/lead", "--within", outer) == ["000", "000"]


@pytest.mark.parametrize("mine, theirs, strict", [("", "audit: strict\n", True), ("audit: strict\n", "", True),
                                                  ("", "audit: batched\n", False)])
def test_the_stricter_audit(online, mine, theirs, strict):
    policy, options = within(online, f"version: 1\negress:\n{WIDE}{mine}", f"version: 1\negress:\n{WIDE}{theirs}")
    assert online.curl(policy, f"{UP}/204", options=options).status == 0
    grant = next(e["grant"] for e in online.events(type="cell.boot") if "grant" in e)
    assert (grant.get("audit") == "strict") == strict
