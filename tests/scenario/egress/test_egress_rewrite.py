"""Requests that a rule rewrites: what arrives, what is recorded, and what is refused."""
import base64
import hashlib
import json
import secrets

import pytest

from approvals import Asking
from egress_lab import CURL, needs_python
from operators import wait_until
from test_egress_secrets import canary, give
from test_egress_signed import give_aws

UP = "https://up.example.test"
JSON = ["-H", "Content-Type: application/json"]


def rule(rewrite, more=""):
    return f"  - allow: up.example.test\n    rewrite: {rewrite}{more}"


def ask(online, rules, *words, **how):
    """The request as the server reports it; its fields as a map."""
    told = json.loads(online.curl(rules, *words, **how).ok())
    told["fields"] = {name.lower(): value for name, value in told["fields"]}
    return told


def event(online):
    return [e for e in online.events(type="http")][-1]


HEADS = {
    "set": ("{headers: {set: {X-Team: red}}}", [f"{UP}/echo"], {"x-team": "red"}, "/echo"),
    "replace": ("{headers: {set: {x-team: red}}}", ["-H", "X-Team: blue", f"{UP}/echo"], {"x-team": "red"}, "/echo"),
    "remove": ("{headers: {remove: [X-Debug]}}", ["-H", "x-debug: 1", f"{UP}/echo"], {"x-debug": None}, "/echo"),
    "query": ("{query: {set: {a: 'b c'}, remove: [drop]}}", [f"{UP}/echo?drop=1&a=2&keep=%2F"], {},
              "/echo?a=b%20c&keep=%2F"),
    "path": ("{path: {from: /old/, to: /}}", [f"{UP}/old/echo?x=1"], {}, "/echo?x=1"),
    "host": ("{host: www.example.test, path: {from: /, to: /up/}}", [f"{UP}/echo"],
             {"host": "www.example.test"}, "/echo"),
}


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("what", HEADS)
def test_the_head_arrives_rewritten(online, what, version):
    rewrite, words, fields, target = HEADS[what]
    told = ask(online, rule(rewrite), version, *words)
    for name, value in fields.items():
        if what != "host":
            assert told["fields"].get(name) == value, told
    assert told["target"].replace("+", "%20") == target, told
    seen = event(online)
    assert seen["verdict"] == "allow" and seen["rewritten"], seen
    assert seen["host"] == ("www.example.test" if what == "host" else "up.example.test"), seen
    # Where it was meant to go is not lost.
    assert (seen.get("made_host"), seen.get("made_port")) == (("up.example.test", 443) if what == "host" else (None, None)), seen
    shown = online.operator.cloister("events", online.cell).ok()
    moved = " (sent to www.example.test)" if what == "host" else ""
    assert f"GET https://up.example.test{seen['path']}{'?...' if seen.get('query') else ''}{moved}" in shown, shown


def test_nothing_is_noted_if_nothing_changed(online):
    ask(online, rule("{headers: {remove: [x-debug]}}"), f"{UP}/echo")
    assert "rewritten" not in event(online)


BODY = '{"max_tokens": 9000, "model": "big", "keep" : [1,  2], "user": "me"}'
WANTED = '{"max_tokens": 100, "model": "small", "keep" : [1,  2]'


@pytest.mark.parametrize("chunked", [False, True])
def test_the_body_arrives_rewritten(online, chunked):
    rewrite = "{json: {max: {/max_tokens: 100}, set: {/model: small, /store: false}, remove: [/user]}}"
    coding = ["-H", "Transfer-Encoding: chunked"] if chunked else []
    told = ask(online, rule(rewrite), *JSON, *coding, "-d", BODY, f"{UP}/echo")
    wanted = [WANTED + end for end in (',"store":false}', ', "store": false}', ', "store":false}')]
    assert told["sha256"] in [hashlib.sha256(w.encode()).hexdigest() for w in wanted], told
    assert told["fields"]["content-length"] == str(told["size"])
    assert len(event(online)["rewritten"]) == 4, event(online)


def test_a_body_that_cannot_be_rewritten_is_refused(online):
    rules = rule("{json: {set: {/store: false}}}")
    for body in ('{"a": 1, "store": true, "store": false}', "{", "[" * 5000):
        told = online.curl(rules, *JSON, "-d", body, f"{UP}/echo").out
        assert "cannot be changed" in told, (body, told)
        assert online.refusal()["why"] == "rewrite"


def test_the_body_decides_first(online):
    """The rule is known after the inspection, and the request is decided on as it came."""
    rules = rule("{json: {set: {/model: small}}}", "\n    body: {json: {/model: big}}")
    told = ask(online, rules, *JSON, "-d", '{"model":"big"}', f"{UP}/echo")
    assert told["sha256"] == hashlib.sha256(b'{"model":"small"}').hexdigest()
    online.curl(rules, *JSON, "-d", '{"model":"small"}', f"{UP}/echo")
    assert online.refusal()["why"] == "no-rule"


def test_the_outer_policy_judges_the_rewritten_request(online):
    """An inner layer cannot rewrite a request into one that an outer layer refuses."""
    outer = online.policy("  - allow: up.example.test\n    paths: [/a/**, /echo]", name="outer.yaml")
    inner = online.policy("  - allow: up.example.test\n    rewrite: {path: {from: /a/, to: /}}")
    told = online.run(inner, *CURL, f"{UP}/a/echo", options=("--within", outer))
    assert '"target": "/echo"' in told.out, told
    told = online.run(inner, *CURL, f"{UP}/a/204", options=("--within", outer))
    assert "no rule of those who started this agent allows it" in told.out, told
    assert online.refusal()["path"] == "/204"


def test_the_secret_scan_sees_the_rewritten_request(online):
    """A rewrite may remove a credential before the scan looks for it."""
    key = "ghp_" + "x" * 36
    rules = rule("{headers: {remove: [x-note]}}")
    assert "x-note" not in ask(online, rules, "-H", f"X-Note: {key}", f"{UP}/echo")["fields"]


# In the cell: a request that botocore signs with the key in the environment, or with one of its own.
SIGNED = """
import os, sys, urllib.request
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
url, body = sys.argv[1], b'{"max_tokens": 9000}'
request = AWSRequest("POST", url, {"content-type": "application/json", "x-debug": "1"}, body)
key = Credentials(*sys.argv[2:] or (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]))
SigV4Auth(key, "execute-api", "eu-west-1").add_auth(request)
try:
    print(urllib.request.urlopen(urllib.request.Request(url, body, dict(request.headers))).read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
"""
JUDGE = """
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
def judge(method, url, fields, body):
    assert body == b'{"max_tokens": 5}', body
    names = fields["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    class Signer(SigV4Auth):
        def headers_to_sign(self, request):
            return {name: fields[name] for name in names}
        def canonical_headers(self, signed):
            return "\\n".join(f"{name}:{signed[name]}" for name in names)
        def signed_headers(self, signed):
            return ";".join(names)
    signer = Signer(Credentials(ID, SECRET), "execute-api", "eu-west-1")
    request = AWSRequest(method, url, {name: value for name, value in fields.items() if name != "authorization"}, body)
    request.context["timestamp"] = fields["x-amz-date"]
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert signer.signature(text, request) == fields["authorization"].split("Signature=")[1]
    return {"signed": True}
"""
CAPPED = rule("{json: {max: {/max_tokens: 5}}}")


@needs_python("botocore")
def test_the_rewritten_request_is_signed_again(online):
    """The agent's signature is checked over its own request, and a new one is made over the request that is sent."""
    where = online.lab.judge(JUDGE, **give_aws(online))
    told = online.python(CAPPED, SIGNED, UP + where, options=("-s", "AWS")).ok()
    assert json.loads(told) == {"signed": True}


@needs_python("botocore")
def test_a_rewrite_of_an_agents_own_signature_is_refused(online):
    """The agent signed with its own key: the rewrite would break its signature."""
    told = online.python(CAPPED, SIGNED, f"{UP}/echo", "AKIAIOSFODNN7EXAMPLE", "not a key of the cell").out
    assert "has signed" in told, told
    assert online.refusal()["why"] == "rewrite"


# ---- ways around ---------------------------------------------------------------------------

# In the cell: bytes as they are, over TLS; what came back.
RAW = """
import base64, os, socket, ssl, sys
s = ssl.create_default_context().wrap_socket(socket.create_connection(("up.example.test", 443), 20),
                                             server_hostname="up.example.test")
s.sendall(base64.b64decode(sys.argv[1]).replace(b"$KEY", os.environ.get("KEY", "").encode()))
out = b""
while more := s.recv(65536):
    out += more
print(out.decode("latin-1"))
"""


def with_trailers(online, rules, *trailers, body="abc", content_type="text/plain", **how):
    """A request in chunks that ends with TRAILERS."""
    end = "".join(f"{line}\r\n" for line in trailers)
    text = (f"POST /echo HTTP/1.1\r\nHost: up.example.test\r\nContent-Type: {content_type}\r\n"
            f"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n{end}\r\n")
    return online.python(rules, RAW, base64.b64encode(text.encode()).decode(), **how).out


def test_a_query_without_a_body_is_judged(online):
    """GraphQL in the URL; also if the server does not answer before the inspection."""
    rules = "  - allow: up.example.test\n    body: {graphql: {operations: [query]}}"
    code = ["-g", "-o", "/dev/null", "-w", "%{http_code}"]
    assert online.curl(rules, *code, f"{UP}/echo?query=query{{a}}").out == "200"
    for path in ("/echo", "/silent"):
        assert online.curl(rules, *code, f"{UP}{path}?query=mutation{{a}}").out == "403"
        assert online.refusal()["why"] == "no-rule"


def test_trailers_do_not_undo_a_rewrite(online):
    rules = rule("{headers: {set: {x-team: red}, remove: [x-debug]}}")
    for trailer in ("X-Team: blue", "X-Debug: 1"):
        assert "cannot be a trailer" in with_trailers(online, rules, trailer)
    assert " 200 " in with_trailers(online, rules, "X-Sum: 1")


def test_placeholders_in_trailers_are_found_beside_a_rewrite(online):
    give(online, canary())
    rules = rule("{json: {remove: [/zz]}}")
    how = {"body": "{}", "content_type": "application/json", "options": ("-s", "KEY")}
    assert " 403 " in with_trailers(online, rules, "X-Sum: $KEY", **how)
    assert online.refusal()["why"] == "exfiltration"


def test_the_question_of_an_outer_policy_is_asked(online):
    """It asks about the request as it came, and the inner layer rewrites that."""
    outer = online.policy("  - ask: up.example.test\n    paths: [/a/**]\n  - allow: up.example.test\n"
                          "    paths: [/echo]\n", name="outer.yaml")
    inner = online.policy("  - allow: up.example.test\n    rewrite: {path: {from: /a/, to: /}}")
    done = online.run(inner, "curl", "-sS", "--max-time", "3", f"{UP}/a/echo", options=("--within", outer))
    assert done.status == 28, done
    assert online.refusal(type="http")["verdict"] == "ask"


def test_a_list_on_the_way_to_a_field_is_refused(online):
    rules = rule("{json: {remove: [/a/b]}}")
    assert "list on the way" in online.curl(rules, *JSON, "-d", '{"a":[{"b":1}]}', f"{UP}/echo").out


def test_dns_over_https_is_refused_after_a_rewrite(online):
    rules = rule("{path: {from: /q/, to: /}}")
    words = ["-H", "Content-Type: application/dns-message", "--data-binary", "x", f"{UP}/q/dns-query"]
    online.curl(rules, *words)
    assert online.refusal()["why"] == "doh"


@pytest.mark.parametrize("body", ["", "{}"])
def test_a_chunked_body_that_may_be_empty(online, body):
    rules = rule("{json: {set: {/a: 1}}, headers: {set: {x-team: red}}}")
    told = json.loads(online.curl(rules, *JSON, "-H", "Transfer-Encoding: chunked", "-d", body, f"{UP}/echo").ok())
    # An empty body has no field to set, and stays empty.
    sent = '{"a":1}' if body else ""
    assert (told["size"], told["sha256"]) == (len(sent), hashlib.sha256(sent.encode()).hexdigest())
    assert dict(told["fields"])["x-team"] == "red"


# ---- a policy that changes -------------------------------------------------------------------

def test_a_live_change_brings_a_rewrite(online):
    """What is under way was not rewritten, so it ends with --now; what follows is."""
    operator = online.operator
    cell = online.start("  - allow: up.example.test", "sh", "-c", f"{' '.join(CURL)} --max-time 1000 -N -o /tmp/got "
                        f"'{UP}/events?n=1000000&every=0.01'; echo $? >/tmp/status; exec sleep 1000")
    wait_until(lambda: online.inside("sh", "-c", "stat -c %s /tmp/got 2>/dev/null || echo 0").out > "1", "the download")
    policy = online.policy(rule("{headers: {set: {x-team: red}}, json: {set: {/a: 1}}}"), name="next.yaml")
    operator.cloister("policy", "set", cell, policy).ok()
    told = json.loads(online.inside(*CURL, *JSON, "-d", "{}", f"{UP}/echo").ok())
    assert dict(told["fields"])["x-team"] == "red" and told["size"] == len('{"a":1}')
    assert online.inside("test", "-e", "/tmp/status").status == 1
    policy = online.policy(rule("{headers: {set: {x-team: blue}}}"), name="last.yaml")
    operator.cloister("policy", "set", cell, policy, "--now").ok()
    wait_until(lambda: online.inside("test", "-e", "/tmp/status").status == 0, "its end")
    cut = wait_until(lambda: online.events(type="http", path="/events"), "its record")[-1]
    assert cut["verdict"] == "deny" and "has a hook or a rewrite for this request" in cut["note"], cut
    assert dict(json.loads(online.inside(*CURL, f"{UP}/echo").ok())["fields"])["x-team"] == "blue"


def test_a_question_waits_and_the_policy_brings_a_rewrite(online):
    """People saw another request than would be sent: it is refused, not sent as it was."""
    outer = online.policy("  - ask: up.example.test", name="outer.yaml")
    asking = Asking(online, "  - allow: up.example.test", "--within", outer)
    path = f"/echo?waits{secrets.token_hex(8)}"
    process, approval = asking.ask(f"{UP}{path}")
    policy = online.policy(rule("{headers: {set: {x-team: red}}}"), name="next.yaml")
    online.operator.cloister("policy", "set", asking.cell, policy, "--now").ok()
    asking.answer("approve", approval["id"])
    code, body = asking.end(process)
    assert code == "403" and "send it again" in body, body
    assert not online.lab.seen(path)


# ---- `policy explain` makes the same request -------------------------------------------------

OUTER = {
    # The rule of the outer policy is chosen by the request as the inner one made it.
    "another rule": "  - {allow: up.example.test, paths: [/a/**], rewrite: {headers: {set: {x-rule: a}}}}\n"
                    "  - {allow: up.example.test, rewrite: {headers: {set: {x-rule: b}}}}",
    "another body": "  - {allow: up.example.test, body: {json: {/team: green}}, rewrite: {headers: {set: {x-rule: a}}}}\n"
                    "  - {allow: up.example.test, body: {json: {/team: red}}, rewrite: {headers: {set: {x-rule: b}}}}",
    "a rule that denies other bodies": "  - {deny: up.example.test, body: {json: {/team: blue}}}\n"
                                       "  - {allow: up.example.test, rewrite: {headers: {set: {x-rule: b}}}}",
    "a rule that asks about other bodies": "  - {ask: up.example.test, body: {json: {/team: blue}}}\n"
                                           "  - {allow: up.example.test, rewrite: {headers: {set: {x-rule: b}}}}",
}


@pytest.mark.parametrize("outer", OUTER)
def test_explain_shows_what_is_sent(online, outer):
    outer = online.policy(OUTER[outer], name="outer.yaml")
    inner = online.policy("  - allow: up.example.test\n    rewrite: {path: {from: /a/, to: /}, json: {set: {/team: red}}}")
    words = ["-H", "Content-Type: application/json", "-d", '{"team":"green"}', f"{UP}/a/echo"]
    told = json.loads(online.run(inner, *CURL, *words, options=("--within", outer)).ok())
    explained = json.loads(online.operator.cloister(
        "policy", "explain", inner, "--within", outer, "--json", "--body", '{"team":"green"}',
        "--header", "content-type: application/json", "POST", f"{UP}/a/echo").ok())
    assert explained["verdict"] == "allow"
    assert dict(told["fields"])["x-rule"] == "b" and ["x-rule", "b"] in explained["sent"]["headers"], explained
    assert told["target"] == "/echo" and explained["sent"]["url"] == f"{UP}/echo"
    assert told["sha256"] == hashlib.sha256(explained["sent"]["body"].encode()).hexdigest()
    assert explained["sent"]["rewritten"] == event(online)["rewritten"]


def test_explain_refuses_what_asks_for_names_once_rewritten(online):
    inner = online.policy(rule("{path: {from: /q/, to: /dns-query/}}"))
    online.run(inner, *CURL, "-d", "x", f"{UP}/q/")
    assert online.refusal()["why"] == "doh"
    told = online.operator.cloister("policy", "explain", inner, "--body", "x", "POST", f"{UP}/q/").ok()
    assert "deny" in told and "asks for names over HTTPS" in told, told
