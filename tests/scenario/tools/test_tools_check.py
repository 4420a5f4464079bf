"""`cloister tools check` with calls: what servers do, against what the lock promises."""
import json
import os

import pytest

from operators import as_one
from tools_lab import Bench


@pytest.fixture
def bench(operator):
    return Bench(operator)


def locked(bench, scope, *words, annotations=None, examples=None, **more):
    bench.server("it", *words, **more)
    bench.tools("lock").ok()
    entry = {"annotations": annotations} if annotations else {}
    bench.scope("it.get_it", scope, **entry, **({"examples": examples} if examples else {}))


WRITES = {"read_only": False, "destructive": False, "open_world": False}
OPEN = {"read_only": True, "open_world": True}
GET = {"egress": [{"allow": "api.example.com", "methods": ["GET"]}]}


def test_a_tool_that_does_what_it_promises(bench):
    locked(bench, GET, "gets", "https://api.example.com/items")
    assert bench.check()[0] == []
    assert bench.operator.cells("-a") == []


def test_read_only_and_wrote(bench):
    """In a folder that it has: nothing of the operator's is changed."""
    locked(bench, {}, "writes", bench.folder / "written")
    rules, found = bench.check()
    assert rules == [("read-only-wrote", "it", "get_it")]
    assert "written" in found["findings"][0]["text"]
    assert not (bench.folder / "written").exists()


def test_read_only_and_posted(bench):
    locked(bench, GET, "posts", "https://api.example.com/items?all=1")
    rules, found = bench.check()
    assert rules == [("read-only-wrote", "it", "get_it"), ("outside-scope", "it", "get_it")]
    assert "POST https://api.example.com/items" in found["findings"][0]["text"]


@pytest.mark.parametrize("scheme", ["https", "http"])
@as_one
def test_it_calls_home(bench, scheme):
    locked(bench, GET, "home", f"{scheme}://home.example.net/")
    rules, found = bench.check()
    assert rules == [("left-its-hosts", "it", "get_it")] * 2, found
    bench.scope("it.get_it", GET, annotations=OPEN)
    assert bench.check()[0] == [("outside-scope", "it", "get_it")] * 2


@as_one
def test_it_looks_up_a_name(bench):
    locked(bench, GET, "looks_up", "secret-in-a-name.example.net")
    assert bench.check()[0] == [("left-its-hosts", "it", "get_it")]


def test_writes_within_its_scope(bench):
    path = bench.operator.folder("bench/out")
    locked(bench, {"write": [str(path)]}, "writes", path / "written", annotations=WRITES)
    assert bench.check()[0] == []
    assert os.listdir(path) == []
    bench.scope("it.get_it", {}, annotations=WRITES)
    assert bench.check()[0] == [("outside-scope", "it", "get_it")]


@as_one
def test_posts_within_its_scope(bench):
    scope = {"egress": [{"allow": "api.example.com", "methods": ["GET", "POST"], "paths": ["/items"]}]}
    locked(bench, scope, "posts", "https://api.example.com/items", annotations=WRITES)
    assert bench.check()[0] == []
    bench.scope("it.get_it", {"egress": [{**scope["egress"][0], "paths": ["/other"]}]}, annotations=WRITES)
    assert bench.check()[0] == [("outside-scope", "it", "get_it")] * 2


def test_answers_of_an_example(bench):
    """The first request decides what the next one is."""
    example = {"arguments": {"name": "x"}, "upstream": [
        {"request": "GET https://api.example.com/first", "body": {"next": "https://api.example.com/second"}},
        {"request": "GET https://api.example.com/second", "status": 404, "body": "nothing"}]}
    locked(bench, GET, "follows", "https://api.example.com/first", examples=[example])
    assert bench.check()[0] == []
    example["upstream"][0]["body"]["next"] = "https://other.example.com/second"
    bench.scope("it.get_it", GET, examples=[example])
    assert ("left-its-hosts", "it", "get_it") in bench.check()[0]


@pytest.mark.parametrize("login", ["Bearer not-a-secret", "Basic bTp4", "token " + "x" * 300])
@as_one
def test_answers_to_requests_with_a_login(bench, login):
    """What the server does after an answer that only a logged-in client gets."""
    example = {"upstream": [{"request": "GET https://api.example.com/me", "body": {"then": "https://other.example.com/"}}]}
    locked(bench, GET, "logs_in", "https://api.example.com/me", "then", login, examples=[example])
    assert set(bench.check()[0]) == {("left-its-hosts", "it", "get_it")}


def test_a_call_that_never_ends(bench):
    locked(bench, {"time": "1s"}, "silent_call")
    rules, found = bench.check()
    assert rules == [("not-observed", "it", "get_it")]
    assert "did not answer in time" in found["findings"][0]["text"]


@as_one
def test_a_server_that_does_not_start(bench):
    locked(bench, {}, "plain")
    bench.server("it", "ends")
    assert {rule for rule, _, _ in bench.check()[0]} == {"server-failed", "not-observed"}


@as_one
def test_an_error_is_a_warning(bench):
    locked(bench, {}, "fails")
    rules, found = bench.check()
    assert rules == [("call-failed", "it", "get_it")] and found["errors"] == 0
    text = found["findings"][0]["text"]
    assert "'no,  [31mred: xxx" in text and "xxx...'" in text, text


@as_one
def test_arguments_come_from_the_example_or_the_schema(bench):
    """The server writes down what it was called with, where the record has it: in a name that it looks up."""
    locked(bench, {}, "echoes_name")
    assert "example.test" in json.dumps(bench.check()[1])
    bench.scope("it.get_it", {}, examples=[{"arguments": {"name": "mine"}}, {"arguments": {"name": "yours"}}])
    found = json.dumps(bench.check()[1])
    assert "mine.test" in found and "yours.test" in found and "example.test" not in found


@as_one
def test_programs(bench):
    locked(bench, {"programs": ["true"]}, "runs", "/bin/true")
    assert bench.check()[0] == []
    locked(bench, {"programs": ["true"]}, "runs", "/bin/false")
    assert bench.check()[0] == [("outside-scope", "it", "get_it")]


@as_one
def test_secrets_of_a_server_are_not_needed(bench):
    """In CI there is no vault: a text stands for each secret."""
    policy = {"egress": [{"allow": "api.example.com"}], "secrets": ["A_TOKEN"]}
    locked(bench, GET, "needs", "A_TOKEN", policy=policy)
    assert bench.check()[0] == []
