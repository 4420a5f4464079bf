"""Money: what models' answers say that they cost is counted, whatever their shape, and where they
say nothing a guess is."""
import json

from egress_lab import CURL, await_event, needs_npm
from operators import only_user, wait_until
from test_budget import policy, used
from test_egress_agents import CLAUDE, ask  # noqa: F401  a fixture

pytestmark = only_user

# A dollar for each token: nobody has to count zeros.
PRICES = "prices: {'*': {input: 1000000, output: 1000000, cache_read: 1000000, cache_write: 1000000}}\n"
DOLLAR = 1000000000
MODEL = "https://model.example.test"


def money(limit, usage="anthropic", more=""):
    return policy(f"budgets: [{{money: {limit} USD}}]\n{PRICES}egress:\n"
                  f"  - {{allow: [model.example.test, up.example.test], usage: {usage}}}\n{more}")


def post(online, path, **request):
    """What is said to the model; the status."""
    return online.inside(*CURL, "-o", "/tmp/answer", "-w", "%{http_code}", "-H",
                         "content-type: application/json", "-d", json.dumps(request), path).out


def spent(online, amount):
    """What an answer cost is known a moment after it."""
    wait_until(lambda: used(online, "cell", "money") == amount, f"{amount} being spent")


HELLO = {"model": "a-model", "messages": [{"role": "user", "content": "hello"}]}


def test_is_counted_as_answers_say(online, lab):
    """Whole ones and streams, packed ones too; and nothing goes on when it is spent."""
    online.start(money(20), "sleep", "1000")
    assert post(online, f"{MODEL}/v1/messages", **HELLO) == "200"
    spent(online, 2 * DOLLAR)
    assert post(online, f"{MODEL}/v1/messages", stream=True, **HELLO) == "200"
    spent(online, 4 * DOLLAR)
    told = await_event(online, type="usage")
    assert (told["model"], told["input"], told["output"], told["nano_usd"]) == ("a-model", 1, 1, 2 * DOLLAR)
    assert "estimated" not in told
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
    for _ in range(4):
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
    """A stream of OpenAI's without its last word, and an answer that nobody can read."""
    online.start(money(1000000), "sleep", "1000")
    chunk = json.dumps({"model": "gpt-x", "choices": [{"delta": {"content": "x" * 400}}]})
    body = f"data: {chunk}\n\ndata: [DONE]\n\n"
    path = lab.raw(f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}"
                   f"\r\n\r\n{body}".encode())
    sent = json.dumps(HELLO)
    assert post(online, f"https://up.example.test{path}", **HELLO) == "200"
    told = await_event(online, type="usage", model="gpt-x")
    assert told["estimated"] is True and told["output"] == 100
    assert told["input"] == len(sent) // 4
    path = lab.raw(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 400\r\n\r\n" + b"z" * 400)
    post(online, f"https://up.example.test{path}", **HELLO)
    told = wait_until(lambda: [e for e in online.events(type="usage") if "model" not in e], "a guess")[0]
    assert told["estimated"] is True and told["output"] == 100
    spent(online, (200 + 2 * (len(sent) // 4)) * DOLLAR)
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


def test_is_counted_of_who_does_not_wait(online, lab):
    """Whoever hangs up before the answer has asked for it all the same."""
    sent = json.dumps(HELLO)
    online.start(money(1000000), "sh", "-c", f"{' '.join(CURL)} -d '{sent}' https://up.example.test/silent?left & "
                 "pid=$!; until [ -e /tmp/go ]; do sleep 0.05; done; kill $pid; exec sleep 1000")
    wait_until(lambda: lab.seen("/silent?left"), "the server was asked")
    online.inside("touch", "/tmp/go").ok()
    told = await_event(online, type="usage")
    assert told["estimated"] is True and told["input"] == len(sent) // 4
    spent(online, len(sent) // 4 * DOLLAR)
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
    assert len(online.events(type="usage")) == 1
    spent(online, 5 * DOLLAR)
    online.operator.cloister("kill", online.cell).ok()


@needs_npm("claude")
def test_stops_claude(online, ask):  # noqa: F811
    """A real agent is told why, and does not go on."""
    rules = policy(f"budgets: [{{money: 3 USD}}]\n{PRICES}egress:\n  - include: anthropic\n")
    done = ask(online.policy(rules), *CLAUDE, "run [[echo $((6*7))]]")
    assert done.status != 0
    assert "is used up" in done.out + done.err, done
    assert online.events(type="usage") and online.events(type="budget", did="reached")
    assert online.events(why="budget", path="/v1/messages", status=429)
