"""Rules for calls of MCP tools: what is refused, asked and recorded, and the rules that follow from it."""
import json
import re

import pytest

from approvals import Asking
from egress_lab import CURL

MCP = "http://tools.cloister.internal/mcp"
JSON = ["-H", "content-type: application/json"]
RULES = """\
  - allow: tool:github.get_*
  - ask: tool:github.create_issue
    args: {/title: 'x*', /count: {min: 1, max: 3}}
  - allow: resource:docs/file:///srv/**
  - allow: '*'
"""


def message(method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def call(tool, /, **arguments):
    return message("tools/call", name=tool, arguments=arguments)


def post(body, *more):
    return [*CURL, "-o", "/dev/null", "-w", "%{http_code}", *JSON, *more, "--data-binary", body, MCP]


def last_http(online):
    return online.events(type="http")[-1]


@pytest.mark.parametrize("body, key, value", [
    (call("github.delete_repo", name="x"), "tool", "github.delete_repo"),
    (call("github.create_issue", title="y"), "tool", "github.create_issue"),
    (call("github.create_issue", title="x", count=4), "tool", "github.create_issue"),
    (message("prompts/get", name="github.review"), "prompt", "github.review"),
    (message("resources/read", uri="mcp://docs/file:///etc/shadow"), "resource", "docs/file:///etc/shadow"),
    (message("tasks/get"), "rpc", "tasks/get"),
], ids=["tool", "argument", "range", "prompt", "resource", "method"])
def test_a_call_that_no_rule_allows_is_refused_and_recorded_by_its_name(online, body, key, value):
    assert online.run(RULES, *post(body)).out == "403"
    event = last_http(online)
    assert (event["verdict"], event["why"], event[key]) == ("deny", "no-rule", value)
    assert event.get("server") == (None if key == "rpc" else value.replace("/", ".").split(".")[0])


@pytest.mark.parametrize("body", [
    "[" + call("github.get_issue") + "]",
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"github.get_issue","Name":"github.delete"}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"github.get_issue"}} {}',
], ids=["batch", "two-names", "two-messages"])
def test_a_body_that_can_be_read_in_two_ways_is_no_call_that_a_rule_allows(online, body):
    assert online.run("  - allow: tool:github.get_*\n  - allow: '*'\n", *post(body)).out == "403"


def test_a_permitted_call_passes_the_rules_and_hosts_rules_allow_none(online):
    for body in (call("github.get_issue", number=7), message("initialize"), message("tools/list"),
                 message("resources/read", uri="mcp://docs/file:///srv/x")):
        assert online.run(RULES, *post(body)).out != "403", body
    assert online.run("  - allow: '*'\n", *post(call("github.get_issue"))).out == "403"


def test_a_person_is_asked_about_the_call_and_sees_its_arguments_masked(online):
    asking = Asking(online, RULES)
    process, asked = asking.ask(*JSON, "--data-binary", call("github.create_issue", title="xy", count=2, password="hunter22"), MCP)
    shown = asking.answer("approvals", asking.cell).ok()
    assert asked["path"] == "/mcp#tool:github.create_issue" and "tool:github.create_issue" in shown
    text = json.dumps(asked)
    assert "xy" in text and "hunter22" not in text and "jsonrpc" not in text
    asking.answer("refuse", asked["id"], "--reason", "no").ok()
    assert asking.outcome(process) == "403"


def test_why_suggests_a_rule_for_the_tool(online):
    online.run(RULES, *post(call("github.delete_repo")))
    assert "- allow: tool:github.delete_repo\n" in online.operator.cloister("why").ok()


def codes(online, rules, *bodies):
    """The status of each of these calls, from one cell."""
    online.start(rules, "sleep", "infinity")
    return [online.inside(*post(body)).out for body in bodies]


def test_a_budget_counts_calls(online):
    first, second, other = codes(online, "version: 1\negress:\n  - allow: tool:github.get_*\n    budget: {requests: 1}\n  - allow: tool:docs.*\n",
                                 call("github.get_issue"), call("github.get_label"), call("docs.read"))
    assert first != "403" and second == "429" and other not in ("403", "429")


@pytest.mark.parametrize("narrow", ["[{deny: 'tool:**'}]", "[{deny: '*'}]", "{egress: [{allow: 'tool:docs.*'}]}"])
def test_a_call_can_narrow_what_is_allowed_after_it(online, narrow):
    rules = f"version: 1\negress:\n  - allow: tool:github.get_*\n    then: {{narrow: {narrow}}}\n  - allow: tool:docs.*\n"
    first, second, third, listing = codes(online, rules, call("github.get_issue"), call("github.get_issue"), call("docs.read"),
                                          message("tools/list"))
    assert first != "403" and second == "403"
    # Only what denies everything denies messages that call nothing.
    assert (third == "403") == ("docs" not in narrow) and (listing == "403") == ("'*'" in narrow)


TOOLS = """\
version: 1
tools:
  lock: tools.lock.yaml
  servers:
    docs: {command: ['true'], read: .}
extends: preset:read-only-tools
"""
LOCK = """\
version: 1
servers:
  docs:
    tools:
      read: {sha256: HASH, annotations: {read_only: true}}
      write: {sha256: HASH, annotations: {read_only: false}}
      odd: {sha256: HASH}
""".replace("HASH", "0123456789abcdef" * 4)


def faults(operator, policy):
    done = operator.cloister("policy", "check", policy)
    assert done.status == 1
    return done.err


def test_read_only_tools_are_those_of_the_lock(operator):
    policy = operator.file("tools.yaml", TOOLS)
    lock = operator.file("tools.lock.yaml", LOCK)
    for tool, verdict in (("read", "allow"), ("write", "deny"), ("odd", "deny"), ("other", "deny")):
        told = json.loads(operator.cloister("policy", "explain", "--json", policy, f"tool:docs.{tool}").ok())
        assert told["verdict"] == verdict, tool
    lock.write_text(LOCK.replace("read_only: false", "read_only: no way"))
    assert re.fullmatch(r".*/tools.lock.yaml:6:\d+: 'read_only' is true or false\n", faults(operator, policy))
    lock.unlink()
    assert re.fullmatch(r".*/tools.yaml:3:9: the lock .tools.lock.yaml. does not exist: `cloister tools lock -p tools.yaml` writes it\n", faults(operator, policy))


def test_a_lock_that_others_can_write_is_refused(operator):
    policy = operator.file("tools.yaml", TOOLS)
    operator.file("tools.lock.yaml", LOCK).chmod(0o666)
    assert "/tools.lock.yaml: others may write" in faults(operator, policy)


def test_a_policy_that_was_only_found_has_no_servers(operator):
    project = operator.folder("project")
    operator.file("project/cloister.yaml", TOOLS)
    operator.file("project/tools.lock.yaml", LOCK)
    operator.run("--", "true", cwd=project).sentence("cloister.yaml:3:3", "-p or --within")
