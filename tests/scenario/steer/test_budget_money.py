"""Money: what models' answers say that they cost is counted, whatever their shape, and where they
say nothing a guess is."""
import gzip
import json
import subprocess
import uuid

import pytest

from egress_lab import CURL, await_event, needs_npm
from operators import SECONDS, only_user, wait_until
from test_budget import policy, used
from test_egress_agents import CLAUDE, ask  # noqa: F401  a fixture

pytestmark = only_user

# A dollar for each token: nobody has to count zeros.
PRICES = "prices: {'*': {input: 1000000, output: 1000000, cache_read: 1000000, cache_write: 1000000}}\n"
DOLLAR = 1000000000
BYTES = 3       # of a token, where nobody says how many there were
MODEL = "https://model.example.test"


def money(limit, usage="anthropic", more=""):
    return policy(f"budgets: [{{money: {limit} USD}}]\n{PRICES}egress:\n"
                  f"  - {{allow: [model.example.test, up.example.test], usage: {usage}}}\n{more}")


def post(online, path, **request):
    """Send a message to the model; returns the status."""
    return online.inside(*CURL, "-o", "/tmp/answer", "-w", "%{http_code}", "-H",
                         "content-type: application/json", "-d", json.dumps(request), path).out


def metered(online, **what):
    """The records of requests that say what they cost."""
    return [e for e in online.events(type="http", **what) if "nano_usd" in e]


def spent(online, amount):
    """The cost of a response is known a moment after it."""
    wait_until(lambda: used(online, "cell", "money") == amount, f"{amount} being spent")


HELLO = {"model": "a-model", "messages": [{"role": "user", "content": "hello"}]}


def test_is_counted_as_answers_say(online, lab):
    """Whole ones and streams, packed ones too; and nothing goes on when it is spent."""
    online.start(money(20), "sleep", "1000")
    assert post(online, f"{MODEL}/v1/messages", **HELLO) == "200"
    spent(online, 2 * DOLLAR)
    assert post(online, f"{MODEL}/v1/messages", stream=True, **HELLO) == "200"
    spent(online, 4 * DOLLAR)
    for told in wait_until(lambda: len(metered(online)) == 2 and metered(online), "two records"):
        assert (told["path"], told["model"], told["nano_usd"]) == ("/v1/messages", "a-model", 2 * DOLLAR)
        assert (told["input_tokens"], told["output_tokens"]) == (1, 1)
        assert "estimated" not in told and "cache_read_tokens" not in told
    shown = online.operator.cloister("events", online.cell).ok()
    assert "/v1/messages" in shown and "(a-model: 1 tokens in, 1 out, 2.00 USD)" in shown
    # As OpenAI and Gemini have it.
    for number, usage in enumerate(('"usage":{"prompt_tokens":3,"completion_tokens":1}',
                                    '"usageMetadata":{"promptTokenCount":2,"candidatesTokenCount":1,'
                                    '"thoughtsTokenCount":1},"modelVersion":"gemini-x"')):
        body = '{"model":"b-model",' + usage + "}"
        path = lab.raw(f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
                       f"\r\n\r\n{body}".encode())
        assert post(online, f"https://up.example.test{path}", **HELLO) == "200"
        spent(online, (8 + 4 * number) * DOLLAR)
    # An answer that is none costs nothing.
    assert post(online, f"{MODEL}/v1/nothing", **HELLO) == "404"
    spent(online, 12 * DOLLAR)
    # What is packed, or large, is read elsewhere, and its record waits for that.
    for body, head in ((gzip.compress(b'{"model":"c-model","usage":{"input_tokens":1}}'), "content-encoding: gzip\r\n"),
                       (b'{"text":"' + b"x" * 20000 + b'","model":"d-model","usage":{"input_tokens":1}}', "")):
        path = lab.raw(f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{head}content-length: {len(body)}"
                       "\r\n\r\n".encode() + body)
        assert post(online, f"https://up.example.test{path}", **HELLO) == "200"
    for model in ("c-model", "d-model"):
        told = await_event(online, type="http", model=model)
        assert (told["verdict"], told["input_tokens"], told["output_tokens"]) == ("allow", 1, 0)
    assert not online.events(type="usage")
    for _ in range(3):
        assert post(online, f"{MODEL}/v1/messages", stream=True, **HELLO) == "200"
    # The next waits until what the last one cost is known, and so does not leave.
    assert post(online, f"{MODEL}/v1/messages", **HELLO) == "429"
    answer = json.loads(online.inside("cat", "/tmp/answer").out)
    assert answer["reason"] == "the budget 'cell' is used up: 20.00 USD of 20.00 USD"
    assert await_event(online, type="budget", kind="money", percent=100)
    head = online.inside(*CURL, "-i", "-d", "{}", f"{MODEL}/v1/messages").out
    assert "x-should-retry: false" in head
    online.operator.cloister("kill", online.cell).ok()


def test_is_guessed_where_nothing_is_said(online, lab):
    """A stream of OpenAI without its last event, and an unreadable response."""
    online.start(money(1000000), "sleep", "1000")
    chunk = json.dumps({"model": "gpt-x", "choices": [{"delta": {"content": "x" * 400}}]})
    body = f"data: {chunk}\n\ndata: [DONE]\n\n"
    path = lab.raw(f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}"
                   f"\r\n\r\n{body}".encode())
    sent = json.dumps(HELLO)
    assert post(online, f"https://up.example.test{path}", **HELLO) == "200"
    told = [await_event(online, type="http", model="gpt-x")]
    assert told[0]["estimated"] is True and told[0]["output_tokens"] >= 400 // BYTES
    assert told[0]["input_tokens"] == len(sent) // BYTES
    path = lab.raw(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 400\r\n\r\n" + b"z" * 400)
    post(online, f"https://up.example.test{path}", **HELLO)
    told += wait_until(lambda: [e for e in metered(online) if e["model"] == "a-model"], "a guess")
    assert told[1]["estimated"] is True and told[1]["output_tokens"] >= 400 // BYTES
    # A conversation that the provider keeps: as long as the longest that is known, here none.
    for answer, least in (({"previous_response_id": "resp_1"}, 200000 + len(sent) // BYTES),
                          ({"background": True, "usage": None}, 32768)):
        body = json.dumps({"model": f"gpt-{least}", **answer})
        path = lab.raw(f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
                       f"\r\n\r\n{body}".encode())
        assert post(online, f"https://up.example.test{path}", **HELLO) == "200"
        told.append(await_event(online, type="http", model=f"gpt-{least}"))
        assert told[-1]["estimated"] is True
        assert max(told[-1]["input_tokens"], told[-1]["output_tokens"]) == least
    spent(online, sum(e["nano_usd"] for e in told))
    assert used(online, "cell", "money") == sum(e["input_tokens"] + e["output_tokens"] for e in told) * DOLLAR
    online.operator.cloister("kill", online.cell).ok()


def test_is_counted_of_known_hosts(online):
    """Without a word in the rule, and at whatever path; a WebSocket cannot be metered."""
    online.start(policy(f"budgets: [{{money: 1000 USD}}]\n{PRICES}egress:\n"
                        "  - {allow: [api.anthropic.com, api.openai.com], websocket: true}\n"),
                 "sleep", "1000")
    assert post(online, "https://api.anthropic.com/v1/messages", **HELLO) == "200"
    spent(online, 2 * DOLLAR)
    done = online.inside(*CURL, "-o", "/dev/null", "-w", "%{http_code}", "--http1.1", "-H", "upgrade: websocket",
                         "-H", "connection: upgrade", "-H", "sec-websocket-version: 13", "-H",
                         "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==", "https://api.openai.com/v1/responses")
    assert done.out == "403"
    assert "cannot be metered" in online.events(why="budget")[-1]["note"]
    online.operator.cloister("kill", online.cell).ok()


def test_a_client_that_does_not_wait_is_counted(online, lab):
    """A client that hangs up before the response has made its request all the same."""
    sent = json.dumps(HELLO)
    online.start(money(1000000), "sh", "-c", f"{' '.join(CURL)} -d '{sent}' https://up.example.test/silent?left & "
                 "pid=$!; until [ -e /tmp/go ]; do sleep 0.05; done; kill $pid; exec sleep 1000")
    wait_until(lambda: lab.seen("/silent?left"), "the server was asked")
    online.inside("touch", "/tmp/go").ok()
    told = wait_until(lambda: metered(online), "its record")[0]
    assert told["estimated"] is True and told["input_tokens"] == len(sent) // BYTES
    spent(online, told["nano_usd"])
    # A server that goes may have thought about it, too, if it had all of the request.
    gone = f"https://up.example.test{lab.raw(b'')}"
    left = wait_until(lambda: post(online, gone, **HELLO) == "502" and online.events(type="usage"), "an estimate")[0]
    assert left["estimated"] is True and left["input_tokens"] == len(sent) // BYTES
    wait_until(lambda: used(online, "cell", "money") == told["nano_usd"] +
               sum(e["nano_usd"] for e in online.events(type="usage")), "all of it being spent")
    online.operator.cloister("kill", online.cell).ok()


def test_is_counted_where_it_comes_later(online, lab):
    """A batch cannot be metered, unless somebody says what one costs; what is fetched later can."""
    online.start(policy(f"budgets: [{{money: 1000 USD}}]\n{PRICES}egress:\n"
                        "  - {allow: api.anthropic.com, paths: [/v1/messages/batches], methods: [PUT], price: 1}\n"
                        "  - {allow: [api.anthropic.com, api.openai.com]}\n"
                        "  - {allow: up.example.test, usage: openai}\n"), "sleep", "1000")
    for path in ("api.anthropic.com/v1/messages/batches", "api.openai.com/v1/batches",
                 "api.anthropic.com/v1/messages/b%61tches/"):
        assert post(online, f"https://{path}", requests=[]) == "403"
        assert "batch" in online.events(why="budget")[-1]["note"]
    assert online.inside(*CURL, "-X", "PUT", "-d", "{}", "-o", "/dev/null", "-w", "%{http_code}",
                         "https://api.anthropic.com/v1/messages/batches").out == "501"
    spent(online, DOLLAR)
    body = '{"model":"b","usage":{"input_tokens":3,"output_tokens":1}}'
    path = lab.raw(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
    online.inside(*CURL, f"https://up.example.test{path}").ok()
    spent(online, 5 * DOLLAR)
    # What says nothing of it is not taken for an answer of a model's.
    online.inside(*CURL, "https://up.example.test/echo").ok()
    assert len(metered(online)) == 1
    spent(online, 5 * DOLLAR)
    online.operator.cloister("kill", online.cell).ok()


@needs_npm("claude")
def test_stops_claude(online, ask):  # noqa: F811
    """A real agent gets the reason, and stops."""
    rules = policy(f"budgets: [{{money: 3 USD}}]\n{PRICES}egress:\n  - include: anthropic\n")
    done = ask(online.policy(rules), *CLAUDE, "run [[echo $((6*7))]]")
    assert done.status != 0
    assert "is used up" in done.out + done.err, done
    assert metered(online, path="/v1/messages") and online.events(type="budget", did="reached")
    assert online.events(why="budget", path="/v1/messages", status=429)


def announced(online):
    return [(e["did"], e["percent"], e["used"]) for e in online.events(type="budget", kind="money")]


def test_is_announced_as_it_was_spent(online):
    """The reserved cost of a request is not reported; the end of the budget is, once."""
    online.start(money(9), "sleep", "1000")
    asked = {**HELLO, "max_tokens": 5}
    for number in range(4):
        assert post(online, f"{MODEL}/v1/messages", **asked) == "200"
        spent(online, (number + 1) * 2 * DOLLAR)
    assert announced(online) == [("warned", 80, 8 * DOLLAR)]
    assert post(online, f"{MODEL}/v1/messages", **asked) == "200"
    spent(online, 10 * DOLLAR)
    assert [post(online, f"{MODEL}/v1/messages", **asked) for _ in range(3)] == ["429"] * 3
    assert announced(online) == [("warned", 80, 8 * DOLLAR), ("reached", 100, 10 * DOLLAR)]
    online.operator.cloister("kill", online.cell).ok()


def test_is_released_by_raising_it(online):
    """Requests that wait for people leave when there is enough; no answer is needed any more."""
    online.start(policy(f"budgets: [{{money: 2 USD, then: ask}}]\n{PRICES}egress:\n"
                        "  - {allow: model.example.test, usage: anthropic}\n"), "sleep", "1000")
    assert post(online, f"{MODEL}/v1/messages", **HELLO) == "200"
    spent(online, 2 * DOLLAR)
    operator = online.operator
    waits = operator.spawn(operator.program, "exec", online.cell, "--", *CURL, "-o", "/dev/null", "-w", "%{http_code}",
                           "-d", json.dumps(HELLO), f"{MODEL}/v1/messages", stdout=subprocess.PIPE)
    wait_until(lambda: operator.cloister("approvals", "--json", online.cell).ok(), "its being asked for")
    operator.cloister("budget", online.cell, "--raise", "cell", "money=+1").ok()
    assert waits.communicate(timeout=SECONDS)[0] == b"200"
    spent(online, 4 * DOLLAR)
    assert await_event(online, type="approval", did="gone")
    operator.cloister("kill", online.cell).ok()


def test_requests_of_unknown_cost(online):
    """A request that may cost something at a model provider, whose response does not show it, is refused unless it
    has a price."""
    online.start(policy(f"budgets: [{{money: 1000 USD}}]\n{PRICES}egress:\n"
                        "  - {allow: api.openai.com, paths: [/v1/audio/speech], price: 3}\n"
                        "  - {allow: [api.anthropic.com, api.openai.com]}\n"), "sleep", "1000")
    for path in ("/v1/videos", "/v1/images/generations", "/v1/evals", "/v1/vector_stores", "/v2/anything"):
        assert post(online, f"https://api.openai.com{path}", model="m") == "403"
        assert "its rule needs a price" in online.events(why="budget")[-1]["note"]
    spent(online, 0)
    assert post(online, "https://api.openai.com/v1/audio/speech", model="m") == "404"
    spent(online, 3 * DOLLAR)
    # What is known to be free is not refused, nor is what only looks.
    assert post(online, "https://api.anthropic.com/v1/messages/count_tokens", **HELLO) == "200"
    assert post(online, "https://api.openai.com/v1/moderations", input="x") == "404"
    assert online.inside(*CURL, "-o", "/dev/null", "-w", "%{http_code}", "https://api.openai.com/v1/videos/1").out == "404"
    spent(online, 3 * DOLLAR)
    online.operator.cloister("kill", online.cell).ok()


ONE = f"{' '.join(CURL)} -d \"$1\" \"$2\""
TWO = f"for i in 1 2; do {' '.join(CURL)} --max-time 3 -d \"$1\" \"$2\" & done; wait"


def leaving(online, lab, path, **request):
    """The number of requests out of three that leave while the first is unanswered; the other two give up."""
    mark = f"mark={uuid.uuid4().hex}"
    words = "sh", json.dumps(request), f"https://up.example.test{path}{mark}"
    operator = online.operator
    first = operator.spawn(operator.program, "exec", online.cell, "--", "sh", "-c", ONE, *words)
    wait_until(lambda: lab.seen(mark), "the first has left")
    online.inside("sh", "-c", TWO, *words)
    n_left = len(lab.seen(mark))
    assert first.poll() is None
    first.kill()
    return n_left


@pytest.mark.parametrize("usage, path, limit, n_left", [
    ("openai", "/silent?", {"max_tokens": 1}, 3),
    ("openai", "/silent?a=/responses&", {"max_output_tokens": 1}, 1),
    ("anthropic", "/silent?", {"max_tokens": 1}, 3),
    ("anthropic", "/silent?", {"generationConfig": {"maxOutputTokens": 1}}, 1),
    ("gemini", "/silent?", {"max_tokens": 1}, 1)])
def test_a_limit_that_the_server_does_not_look_at(online, lab, usage, path, limit, n_left):
    """It is none, and without a limit one request leaves at a time."""
    online.start(money(100000, usage=usage), "sleep", "1000")
    assert leaving(online, lab, path, model="a-model", **limit) == n_left
    online.operator.cloister("kill", online.cell).ok()


AT_ONCE = f"for i in 1 2 3; do {' '.join(CURL)} -d \"$1\" \"$2&i=$i\" & done; wait"


def test_input_of_one_byte_tokens(online, lab):
    """The agent may write what has a token for each byte: the limit holds all the same."""
    online.start(money(1000, usage="openai"), "sleep", "1000")
    request = json.dumps({**HELLO, "max_tokens": 1, "more": "x" * 500})
    path = lab.judge("def judge(method, url, fields, body):\n"
                     "    return {'model': 'm', 'usage': {'prompt_tokens': SIZE, 'completion_tokens': 1}}\n",
                     SIZE=len(request))
    online.inside("sh", "-c", AT_ONCE, "sh", request, f"https://up.example.test{path}?").ok()
    most = (len(request) + 1) * DOLLAR
    wait_until(lambda: used(online, "cell", "money") > 1000 * DOLLAR, "it is spent")
    assert used(online, "cell", "money") < 1000 * DOLLAR + most
    online.operator.cloister("kill", online.cell).ok()
