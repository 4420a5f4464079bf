"""`cloister policy`: check, test, explain, presets, schema."""
import json
import os
import re

import pytest

from operators import IS_ROOT, TREE

POLICY = """\
version: 1
egress:
  - allow: api.github.com
    methods: [GET]
    paths: [/repos/**]
  - allow: api.github.com
    paths: [/graphql]
    body: {graphql: {operations: [query]}}
  - ask: api.github.com
    reason: writes to GitHub need a person
  - allow: github.com
    git: {push: [refs/heads/agent/*]}
  - allow: host.cloister.internal:5432
    protocol: tcp
  - allow: up.example
    secrets: allow
  - allow: '*.example'
"""
# Of the right shape, and nobody's: its checksum is that of a real one.
PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 24 + \
    "\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def policy(operator):
    return operator.file("p/cloister.yaml", POLICY)


def words(*lines):
    return "version: 1\negress:\n" + "".join(f"  {line}\n" for line in lines)


# ---- check -------------------------------------------------------------------------------------

def test_check(operator, policy):
    other = operator.file("p/other.yaml", words("- allow: x.y"))
    said = operator.cloister("policy", "check", policy, other).ok()
    assert said == f"{policy}: 7 rules\n{other}: 1 rule\n"


def test_check_mentions_a_port_without_a_scheme(operator):
    plain = operator.file("p/plain.yaml", words("- allow: x.y", "- allow: x.y:8443", "- ask: [a.b, c.d]", "  ports: [8000-8010]",
                                                "- allow: t.y:22", "  protocol: tcp"))
    done = operator.cloister("policy", "check", plain)
    assert done.status == 0 and done.out == f"{plain}: 4 rules\n"
    assert done.err == ("plain.yaml:4:5 and 1 more: a rule with a port and without a scheme allows plain HTTP and TLS; "
                        "`scheme: https` allows only TLS\n")
    note, = json.loads(operator.cloister("policy", "check", "--json", plain).ok())[0]["notes"]
    assert note == done.err.strip()
    tls = operator.file("p/tls.yaml", words("- allow: x.y:8443", "  scheme: https", "- deny: x.y:8444"))
    assert operator.cloister("policy", "check", tls).err == ""


def test_check_tells_the_place(operator, policy):
    bad = operator.file("p/bad.yaml", words("- allow: x.y", "  method: [GET]"))
    done = operator.cloister("policy", "check", policy, bad)
    assert done.status == 1 and done.out == f"{policy}: 7 rules\n"
    assert done.err == (f"{bad}:4:5: there is no key 'method' in a rule: "
                        "did you mean 'methods'?\n")


def test_check_for_programs(operator, policy):
    bad = operator.file("p/bad.yaml", words("- alow: x.y"))
    done = operator.cloister("policy", "check", "--json", policy, bad, "nosuch.yaml")
    assert done.status == 1 and done.err == ""
    good, broken, missing = json.loads(done.out)
    assert good == {"file": str(policy), "ok": True, "rules": 7}
    assert broken == {"file": str(bad), "ok": False, "errors": [
        {"at": str(bad), "line": 3, "column": 5,
         "error": "there is no key 'alow' in a rule: did you mean 'allow'?"}]}
    assert missing["ok"] is False and "No such file" in missing["errors"][0]["error"]


def test_check_tells_everything(operator):
    """All that is wrong in one go, up to a bound."""
    base = operator.file("p/base.yaml", words("- alow: a.b", "- deny: [x"))
    bad = operator.file("p/bad.yaml", "version: 1\nlimits: {memory: x, tim: 2}\nfoo: 1\negress:\n"
                                      "  - alow: a.b\n  - allow: q\n    paths: [x]\n"
                                      "  - include: [none.yaml, base.yaml]\n"
                                      "  - allow: a.b\n  - allow: a.b\n")
    done = operator.cloister("policy", "check", bad)
    places = [line.split(": ")[0] for line in done.err.splitlines()]
    assert done.status == 1 and places == [
        f"{bad}:3:1", f"{bad}:2:18", f"{bad}:2:21", f"{bad}:5:5", f"{bad}:7:13",
        f"{bad}:8:15", f"{base}:5:1", f"{bad}:10:5"], done.err
    assert "none.yaml: cannot open this policy: No such file" in done.err
    many = operator.file("p/many.yaml", words(*["- alow: a.b"] * 50))
    lines = operator.cloister("policy", "check", many).err.splitlines()
    assert len(lines) == 21 and lines[20] == "there are more errors after these 20: fix these first"
    keys = operator.file("p/keys.yaml", "version: 1\nsecrets:\n  a: {hosts: a.b, shap: x}\n  b: {hosts: a.b}\n"
                                        "  c: {hosts: '*'}\negress: []\n")
    done = operator.cloister("policy", "check", keys)
    assert [line.split(": ")[0] for line in done.err.splitlines()] == [f"{keys}:3:19", f"{keys}:5:14"], done.err
    # Whoever runs it is told the first.
    operator.run("-p", bad, "--", "true").sentence("bad.yaml:3:1: there is no key 'foo'")


def test_check_of_a_narrowing_policy(operator):
    """A file that may have less than a policy, and has more."""
    operator.file("p/after.yaml", "version: 1\nsecrets: [KEY]\nlimits: {time: 1h}\negress: []\n")
    path = operator.file("p/cloister.yaml", words("- allow: a.example", "  then: {narrow: after.yaml}"))
    done = operator.cloister("policy", "check", path)
    assert done.status == 1, done
    assert re.findall(r"after.yaml:(\d):1: a policy that `narrow` names has rules only", done.err) == ["2", "3"], done


def test_check_of_this_folder(operator, policy):
    done = operator.cloister("policy", "check", cwd=policy.parent)
    assert done.ok() == "cloister.yaml: 7 rules\n"
    operator.file("p/cloister.test.yaml", CASES)
    assert operator.cloister("policy", "test", cwd=policy.parent).ok() == "11 cases passed\n"


def test_check_unreachable(operator):
    bad = operator.file("p/bad.yaml", words("- allow: x.y", "- deny: x.y"))
    done = operator.cloister("policy", "check", bad)
    assert done.status == 1
    assert done.err.startswith(f"{bad}:4:5: this rule is never reached: the one at bad.yaml:3:5")


def test_others_must_not_write_it(operator, policy):
    policy.chmod(0o664)
    done = operator.cloister("policy", "check", policy)
    assert done.status == 1 and "others may write this policy" in done.err
    policy.chmod(0o644)
    if IS_ROOT and not operator.is_root:
        os.chown(policy, 4242, 4242)
        done = operator.cloister("policy", "check", policy)
        assert done.status == 1 and "belongs to uid 4242" in done.err


def test_files_in_files(operator):
    operator.file("p/base/rules.yaml", words("- deny: b.x"))
    main = operator.file("p/main.yaml", "version: 1\nextends: base/rules.yaml\negress:\n"
                                        "  - include: [npm, base/rules.yaml]\n")
    # From wherever it is called.
    assert operator.cloister("policy", "check", main, cwd="/").ok() == f"{main}: 4 rules\n"
    operator.file("p/base/rules.yaml", "version: 1\nextends: ../main.yaml\n")
    done = operator.cloister("policy", "check", main)
    assert done.status == 1 and "names itself by way of" in done.err


def test_hostile_text_is_shown_as_text(operator):
    bad = operator.file("p/bad.yaml", b"version: 1\n\"\\e[31mx\": 1\n")
    done = operator.cloister("policy", "check", bad)
    assert done.status == 1 and "\x1b" not in done.err
    bad = operator.file("p/b\x1b[31m.yaml", b"version: 2\n")
    done = operator.cloister("policy", "check", bad)
    assert done.status == 1 and "\x1b" not in done.err


# ---- test --------------------------------------------------------------------------------------

CASES = """\
- request: GET https://api.github.com/repos/x/y
  expect: allow
  rule: 3
- request: POST https://api.github.com/repos/x/y
  expect: ask
- method: POST
  url: https://api.github.com/graphql
  headers: {content-type: application/json}
  body: '{"query": "query { viewer { login } }"}'
  expect: allow
- request: POST https://api.github.com/graphql
  headers: {content-type: application/json}
  body: '[{"query": "query { a }"}, {"query": "mutation { b }"}]'
  expect: ask
  rule: cloister.yaml:9
- request: GET https://github.com/o/r.git/info/refs?service=git-receive-pack
  expect: allow
- request: https://github.com/o/r
  push: [refs/heads/agent/x, refs/heads/agent/y]
  expect: allow
- request: https://github.com/o/r
  push: [refs/heads/agent/x, refs/heads/main]
  expect: deny
- request: https://github.com/o/r
  delete: refs/heads/agent/x
  expect: deny
- request: tcp://host.cloister.internal:5432
  expect: allow
- request: tcp://host.cloister.internal:5433
  expect: deny
- request: wss://a.example/
  expect: deny
"""


def test_cases(operator, policy):
    operator.file("p/cloister.test.yaml", CASES)
    assert operator.cloister("policy", "test", policy).ok() == "11 cases passed\n"
    rows = json.loads(operator.cloister("policy", "test", "--json", policy).ok())
    assert [row["passed"] for row in rows] == [True] * 11
    assert rows[0]["rule"] == "cloister.yaml:3:5" and rows[-1]["rule"] is None


def test_cases_with_push_options(operator):
    policy = operator.file("o/cloister.yaml", words(
        "- allow: a.example", "  git: {push: ['refs/heads/**'], options: true}",
        "- allow: b.example", "  git: {push: ['refs/heads/**'], delete: true}"))
    operator.file("o/cloister.test.yaml", "".join(
        f"- {{request: 'https://{host}/o/r', {how}, expect: {verdict}}}\n" for host, how, verdict in (
            ("a.example", "push: refs/heads/x, options: [ci.skip, merge_request.create]", "allow"),
            ("b.example", "push: refs/heads/x, options: ci.skip", "deny"),
            ("b.example", "push: refs/heads/x", "allow"),
            ("b.example", "delete: refs/heads/x, options: ci.skip", "deny"),
            ("b.example", "delete: refs/heads/x", "allow"))))
    assert operator.cloister("policy", "test", policy).ok() == "5 cases passed\n"


def test_cases_that_fail(operator, policy):
    cases = operator.file("else.yaml", "- request: POST https://api.github.com/x\n"
                                       "  expect: allow\n"
                                       "- name: wrong rule\n"
                                       "  request: https://api.github.com/repos/x\n"
                                       "  expect: allow\n"
                                       "  rule: 99\n"
                                       "- request: https://other.test/\n"
                                       "  expect: deny\n")
    done = operator.cloister("policy", "test", policy, "--cases", cases)
    assert done.status == 1 and done.err == ""
    assert done.out == (
        f"{cases}:1:3: POST https://api.github.com/x\n"
        "- allow\n"
        "+ ask by cloister.yaml:9:5 (ask api.github.com)\n"
        f"{cases}:3:3: wrong rule: https://api.github.com/repos/x\n"
        "- allow by line 99\n"
        "+ allow by cloister.yaml:3:5 (allow api.github.com methods [GET] paths [/repos/**])\n"
        "2 of 3 cases failed\n")


def test_secrets_in_cases(operator, policy):
    operator.file("p/cloister.test.yaml", json.dumps([
        {"request": "POST https://a.example/", "body": PRIVATE_KEY, "expect": "allow"},
        {"request": "POST https://a.example/", "body": "nothing", "expect": "allow"},
        {"request": "POST https://up.example/", "body": PRIVATE_KEY, "expect": "allow"}]))
    done = operator.cloister("policy", "test", policy)
    assert done.status == 1, done
    assert "looks like a credential" in done.out and "1 of 3 cases failed" in done.out


@pytest.mark.parametrize("case, error", [
    ("- request: GET https://x.y", "1:3: a case needs `expect`"),
    ("- {url: https://x.y, expect: maybe}", "1:30: 'maybe' is not allow, deny or ask"),
    ("- {expect: deny}", "1:3: a case needs a `request`"),
    ("- {requst: https://x.y, expect: deny}", "1:4: there is no key 'requst' in a case: "
                                              "did you mean 'request'?"),
    ("- {request: ftp://x.y, expect: deny}", "1:3: 'ftp://x.y' is not an http, https, ws, wss, tcp or tls URL"),
    ("- {request: 'https://1.2.3/', expect: deny}", "1:3: "),
    ("- {request: https://x.y, push: main, expect: deny}", "1:32: this must be a ref"),
    ("- {request: https://x.y, options: a, expect: deny}", "1:35: `options` needs"),
    ("- {request: https://x.y, push: refs/a, options: '', expect: deny}", "1:49: this must be an option"),
    ("[]", "1:1: cases are a list"),
    ("a: b", "1:1: cases are a list"),
])
def test_invalid_cases(operator, policy, case, error):
    cases = operator.file("c.yaml", case)
    done = operator.cloister("policy", "test", policy, "--cases", cases)
    assert done.status == 125 and f"c.yaml:{error}" in done.err, done


def test_no_cases(operator, policy):
    operator.cloister("policy", "test", policy).sentence("there are no test cases",
                                                         "cloister.test.yaml")


# ---- explain -----------------------------------------------------------------------------------

def test_explain_takes_a_request_in_one_word(operator, policy):
    """As in the cases of a policy's tests: the method and the URL, with a space between them."""
    apart = operator.cloister("policy", "explain", policy, "POST", "https://api.github.com/x").ok()
    assert operator.cloister("policy", "explain", policy, "POST https://api.github.com/x").ok() == apart


def test_explain_finds_the_policy(operator, policy):
    for words in (["POST", "https://api.github.com/x"], ["POST https://api.github.com/x"], ["https://api.github.com/x"]):
        said = operator.cloister("policy", "explain", *words, cwd=policy.parent).ok()
        assert said == operator.cloister("policy", "explain", "cloister.yaml", *words, cwd=policy.parent).ok()
    operator.cloister("policy", "explain", "https://api.github.com/x").sentence("there is no cloister.yaml here or above")


def test_explain(operator, policy):
    said = operator.cloister("policy", "explain", policy, "POST", "https://api.github.com/x").ok()
    assert said == (
        "  cloister.yaml:3:5  allow api.github.com methods [GET] paths [/repos/**]\n"
        "      no: the method is POST\n"
        "  cloister.yaml:6:5  allow api.github.com paths [/graphql] graphql query\n"
        "      no: the path is /x\n"
        "  cloister.yaml:9:5  ask api.github.com\n"
        "      yes\n"
        "  4 rules are after it\n"
        "ask, by cloister.yaml:9:5\n"
        "asked: 1 of any operator, for 10m\n"
        "reason: writes to GitHub need a person\n")
    # In one word, as in cases.
    assert operator.cloister("policy", "explain", policy,
                             "POST https://api.github.com/x").ok() == said
    said = operator.cloister("policy", "explain", policy, "https://nosuch.test").ok()
    assert said == "  7 rules are about other hosts\ndeny: no rule allows it\n"


def test_resolvers_are_refused_as_in_a_cell(operator):
    path = operator.file("p/p.yaml", words("- deny: dns.google", "- allow: dns.sb:22", "  protocol: tcp",
                                           "- allow: ['*', 0.0.0.0/0, '::/0']"))
    operator.cloister("policy", "check", path).ok()
    why = "it asks for names over HTTPS or TLS, which would hide them, and no rule changes that"
    for url in ("https://1.1.1.1/foo", "https://[2606:4700:4700::1111]/", "http://[::ffff:8.8.8.8]/",
                "https://x.example/dns-query?dns=AA"):
        said = operator.cloister("policy", "explain", path, url).ok()
        assert said.endswith(f"\ndeny: {why}\n"), said
    said = operator.cloister("policy", "explain", path, "tcp://dns.sb:22").ok()
    assert said.endswith("\nallow, by p.yaml:4:5\n"), said
    said = operator.cloister("policy", "explain", path, "https://dns.google/").ok()
    assert said.endswith("\ndeny, by p.yaml:3:5\n"), said
    operator.file("p/p.test.yaml", "- {request: 'https://9.9.9.9/', expect: allow}\n")
    done = operator.cloister("policy", "test", path)
    assert done.status == 1 and f"\n- allow\n+ deny: {why}\n" in done.out


def test_explain_bodies(operator, policy):
    graphql = ("policy", "explain", policy, "POST", "https://api.github.com/graphql")
    json_type = ("-H", "Content-Type: application/json")
    assert operator.cloister(*graphql).ok().endswith("it depends on the body: give one with --body\n")
    said = operator.cloister(*graphql, *json_type, "--body", '{"query": "{ a }"}').ok()
    assert said.endswith("allow, by cloister.yaml:6:5\n")
    body = operator.file("body.json", '{"query": "mutation { a }"}')
    said = operator.cloister(*graphql, *json_type, "-b", f"@{body}").ok()
    assert "no: the body does not match\n" in said and "ask, by cloister.yaml:9:5" in said
    said = operator.cloister("policy", "explain", policy, "https://a.example", "-b",
                             PRIVATE_KEY).ok()
    assert "deny, by cloister.yaml:17:5: its body contains what looks like a credential" in said


def test_explain_for_programs(operator, policy):
    said = json.loads(operator.cloister("policy", "explain", "--json", policy,
                                        "wss://api.github.com/repos/x").ok())
    assert said["verdict"] == "ask" and said["rule"] == "cloister.yaml:9:5"
    assert said["reason"] == "writes to GitHub need a person" and not said["needs_body"]
    steps = [(rule["step"], rule["key"]) for rule in said["rules"]]
    assert steps[:3] == [("key", "upgrade"), ("key", "paths"), ("decides", None)]
    assert set(steps[3:]) == {("behind", None)}


def test_explain_refuses(operator, policy):
    for url in ("ftp://x", "https://", "https://a b/", "tcp://x", "https://1.2.3/"):
        operator.cloister("policy", "explain", policy, url).sentence()
    operator.cloister("policy", "explain", policy).sentence("[FILE] [METHOD] URL")
    operator.cloister("policy", "explain", policy, "-H", "x", "https://x").sentence("'x'")


# ---- rewrites and hooks ------------------------------------------------------------------------

REWRITES = """version: 1
egress:
- allow: api.example.com
  hook: {call: [/usr/bin/check, strict], body: 1K}
  rewrite:
    host: gateway.example.com:8443
    path: {from: /v1/, to: /o/}
    query: {remove: debug}
    headers: {set: {x-team: red}}
    json: {set: {/store: false}, max: {/max_tokens: 10}}
"""


def test_check_notes_that_a_hook_needs_p(operator):
    file = operator.file("rewrites.yaml", REWRITES)
    done = operator.cloister("policy", "check", file)
    assert done.ok() == f"{file}: 1 rule\n"
    assert done.err == "rewrites.yaml:3:3: `cloister run` accepts a policy with a hook only with -p or --within\n"
    [note] = json.loads(operator.cloister("policy", "check", "--json", file).ok())[0]["notes"]
    assert note == done.err.strip()
    # Without -p the policy of the folder is found, and refused.
    folder = operator.folder("found", {"cloister.yaml": REWRITES})
    operator.cloister("run", "--", "true", cwd=folder).sentence("-p or --within")


def test_explain_shows_the_rewritten_request(operator):
    file = operator.file("rewrites.yaml", REWRITES)
    request = ["POST", "https://api.example.com/v1/x?debug=1", "-H", "content-type: application/json",
               "--body", '{"max_tokens": 99, "n": [1]}']
    out = operator.cloister("policy", "explain", file, *request).ok()
    assert "if the hook of rewrites.yaml:3:3 agrees: /usr/bin/check strict\n" in out
    assert out.endswith("""
sent as: POST https://gateway.example.com:8443/o/x
  content-type: application/json
  x-team: red
  {"max_tokens": 10, "n": [1],"store":false}
""")
    explained = json.loads(operator.cloister("policy", "explain", "--json", file, *request).ok())
    assert explained["sent"]["url"] == "https://gateway.example.com:8443/o/x"
    assert json.loads(explained["sent"]["body"]) == {"max_tokens": 10, "n": [1], "store": False}
    assert explained["sent"]["rewritten"][-1] == "json /max_tokens max 10"
    assert explained["hooks"] == [{"rule": "rewrites.yaml:3:3", "program": ["/usr/bin/check", "strict"],
                                   "timeout_ms": 5000, "body": 1024}]


@pytest.mark.parametrize("url, body, why", [
    ("https://api.example.com/v2/x", "{}", "does not begin with '/v1/'"),
    ("https://api.example.com/v1/x", "[]", "is not a JSON object"),
    ("https://api.example.com/v1/x", '{"max_tokens": "99"}', "is not a number"),
])
def test_a_request_that_cannot_be_rewritten_is_denied(operator, url, body, why):
    file = operator.file("rewrites.yaml", REWRITES)
    out = operator.cloister("policy", "explain", file, "POST", url, "-H", "content-type: application/json",
                            "--body", body).ok()
    assert re.search(f"^deny, by rewrites.yaml:3:3: .*{re.escape(why)}", out, flags=re.M), out


def test_cases_see_rewrites(operator):
    file = operator.file("rewrites.yaml", REWRITES)
    operator.file("rewrites.test.yaml", """
- {request: GET https://api.example.com/v1/x, expect: allow}
- {request: GET https://api.example.com/v2/x, expect: deny}
""")
    first, second = json.loads(operator.cloister("policy", "test", "--json", file).ok())
    assert first["sent"]["url"] == "https://gateway.example.com:8443/o/x"
    assert "sent" not in second and "does not begin with" in second["why"]


def test_outer_policies_judge_the_rewritten_request(operator):
    file = operator.file("rewrites.yaml", REWRITES)
    request = ["POST", "https://api.example.com/v1/x", "-H", "content-type: application/json", "--body", "{}"]
    for outer, verdict in (("- allow: api.example.com", "deny"),
                           ("- allow: [api.example.com, 'gateway.example.com:8443']", "allow"),
                           ("- allow: api.example.com\n- {allow: 'gateway.example.com:8443', body: {json: {/store: true}}}",
                            "deny"),
                           ("- allow: api.example.com\n- {allow: 'gateway.example.com:8443', body: {json: {/store: false}}}",
                            "allow")):
        within = operator.file("outer.yaml", words(*outer.splitlines()))
        got = json.loads(operator.cloister("policy", "explain", "--json", file, "--within", within, *request).ok())
        assert got["verdict"] == verdict, (outer, got)


def test_only_policies_that_are_named_have_hooks(operator):
    folder = operator.file("found/cloister.yaml", REWRITES).parent
    operator.run("--", "true", cwd=folder).sentence("only a policy that is given with -p or --within")
    operator.run("-p", folder / "cloister.yaml", "--", "true").sentence("the program of this hook, cannot be run")
    cell = operator.detach("--allow", "a.example", "--", "sleep", "100")
    done = operator.cloister("policy", "set", cell, folder / "cloister.yaml")
    assert done.status == 1 and "cloister.yaml:3:3: the hooks are settled when a cell starts" in done.err
    operator.cloister("kill", cell).ok()


def test_a_live_change_keeps_the_hooks_of_a_cell(operator):
    file = operator.file("hooked.yaml", words("- {allow: a.example, hook: /bin/cat}"))
    cell = operator.detach("-p", file, "--", "sleep", "100")
    operator.cloister("allow", cell, "b.example").ok()
    assert "hook" in operator.cloister("policy", "show", cell).ok()
    done = operator.cloister("policy", "set", cell, operator.file("other.yaml", file.read_text().replace("cat", "true")))
    assert done.status == 1 and "the hooks are settled" in done.err
    operator.cloister("kill", cell).ok()


# ---- presets and schema ------------------------------------------------------------------------

def test_presets(operator):
    listed = re.findall(r"^([a-z-]+) ", operator.cloister("policy", "presets").ok(), re.M)
    assert {"read-only", "npm", "pypi", "github", "anthropic", "openai"} <= set(listed)
    rows = json.loads(operator.cloister("policy", "presets", "--json").ok())
    assert [row["name"] for row in rows] == listed
    for row in rows:
        file = operator.file(f"{row['name']}.yaml", row["text"])
        done = operator.cloister("policy", "check", file)
        assert done.status == 0 or (row["name"] == "read-only-tools" and "add `lock: tools.lock.yaml`" in done.err)
        assert operator.cloister("policy", "presets", row["name"]).ok() == row["text"]
    operator.cloister("policy", "presets", "nmp").sentence("did you mean 'npm'?")


def keys_of(operator, text):
    """The keys that the loader takes where TEXT has the unknown one."""
    file = operator.file("keys.yaml", text)
    done = operator.cloister("policy", "check", file)
    return set(re.search(r"it takes (.*)\n", done.err).group(1).split(", "))


def test_the_schema_is_of_the_same_policies(operator):
    text = operator.cloister("policy", "schema").ok()
    assert text == (TREE / "share" / "policy.schema.json").read_text()
    schema = json.loads(text)
    rule = schema["definitions"]["rule"]["properties"]
    unknown = "qqqqqqqqqqqqqqqqqqqq: 1"
    git, hook = ([part for part in rule[key]["anyOf"] if "properties" in part][0] for key in ("git", "hook"))
    rewrite = rule["rewrite"]["properties"]
    for text, part in (
            (f"version: 1\n{unknown}", schema),
            (f"version: 1\nlimits: {{{unknown}}}", schema["properties"]["limits"]),
            (f"version: 1\nsecrets: {{x: {{{unknown}}}}}", schema["definitions"]["secret"]),
            (words(f"- {{allow: x.y, {unknown}}}"), {"properties": rule}),
            (words(f"- {{allow: x.y, body: {{{unknown}}}}}"), rule["body"]),
            (words(f"- {{allow: x.y, git: {{{unknown}}}}}"), git),
            (words(f"- {{allow: x.y, grpc: {{{unknown}}}}}"), rule["grpc"]),
            (words(f"- {{allow: x.y, hook: {{{unknown}}}}}"), hook),
            (words(f"- {{allow: x.y, rewrite: {{{unknown}}}}}"), rule["rewrite"]),
            *((words(f"- {{allow: x.y, rewrite: {{{part}: {{{unknown}}}}}}}"), rewrite[part])
              for part in ("query", "headers", "json")),
            (words(f"- {{allow: x.y, body: {{graphql: {{{unknown}}}}}}}"),
             rule["body"]["properties"]["graphql"]),
            (words(f"- {{allow: x.y, body: {{jsonrpc: {{{unknown}}}}}}}"),
             rule["body"]["properties"]["jsonrpc"])):
        assert keys_of(operator, text) == set(part["properties"]), text


def test_words(operator, policy):
    operator.cloister("policy").sentence("check, test, explain, presets, schema, trust, set, edit, register")
    operator.cloister("policy", "chekc", policy).sentence("did you mean 'check'?")
    operator.cloister("policy", "check", cwd="/").sentence("there is no cloister.yaml here")
    operator.cloister("policy", "test", policy, policy).sentence("takes one policy")
    operator.cloister("policy", "schema", "x").sentence("takes no arguments")


# ---- short forms ---------------------------------------------------------------------------------

@pytest.mark.parametrize("rule, error", [
    ("-x", "'-x' is not the name of a host"),
    ("db:5432/udp", "UDP never leaves a cell"),
    ("db:5432", "db:5432/tcp"),
    ("github.com:22", "github.com:22/tcp"),
    ("[fd00::1]:22", "[fd00::1]:22/tcp"),
    ("ftp://x.example", "there is no ftp here"),
])
def test_short_forms_that_mean_something_else(operator, rule, error):
    operator.run(f"--allow={rule}", "--", "true").sentence(error)


def test_the_end_of_options_is_not_a_value(operator):
    operator.run("--allow", "--", "true").sentence("'--allow' needs a value: RULE")
    operator.run("--allow", "fd00::22", "--allow", "GET x.y:22", "--", "true").ok()


# ---- the courier has no loader -----------------------------------------------------------------

def test_the_courier_cannot_load_policies(operator):
    courier = operator.program.parent / "libexec" / "cloister-courier"
    if not courier.exists():
        pytest.skip("it is an installed one")
    assert b"libyaml" not in courier.read_bytes()
    assert b"libpcre2" not in courier.read_bytes()
