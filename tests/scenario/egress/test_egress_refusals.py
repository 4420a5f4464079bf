"""Every refusal leaves an event, and a flood of refusals hides nothing."""
import json
import uuid

import pytest

from egress_lab import CURL, await_event, needs_python
from operators import wait_until

OPEN = "  - allow: '*.example.test'\n"

# Sends each of the arguments, as hex, over a connection of its own to port 80.
SEND = """
import socket, sys
for data in sys.argv[2:]:
    with socket.create_connection((sys.argv[1], 80), 10) as s:
        s.settimeout(10)
        try:
            s.sendall(bytes.fromhex(data))
            while got := s.recv(65536):
                print(got.decode().partition('\\r\\n\\r\\n')[2], end='')
        except OSError:
            pass
"""
H = b"Host: up.example.test\r\n"
PLAIN = "Send it in its plain form."
REFUSED = {
    "length-and-chunks": (400, PLAIN, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "two-hosts": (400, PLAIN, b"GET / HTTP/1.1\r\n" + H + b"Host: evil.test\r\n\r\n"),
    "escaped-backslash": (400, PLAIN, b"GET /%5c HTTP/1.1\r\n" + H + b"\r\n"),
    "large-head": (431, "Send fewer or shorter fields.", b"GET / HTTP/1.1\r\n" + H + b"X: y\r\n" * 300 + b"\r\n"),
    "version": (505, "Use HTTP/2 or HTTP/1.1.", b"GET / HTTP/3.0\r\n" + H + b"\r\n"),
    "coding": (501, "Send the body with a content-length, or only chunked.",
               b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: gzip, chunked\r\n\r\n"),
    "expectation": (417, "Send it without an expect field.",
                    b"POST / HTTP/1.1\r\n" + H + b"Expect: more\r\nContent-Length: 1\r\n\r\n"),
    "connect": (400, "Send the request itself, or use the proxy: gate.cloister.internal:3128.",
                b"CONNECT x.test:443 HTTP/1.1\r\nHost: x.test:443\r\n\r\n"),
    "bad-chunk": (400, PLAIN, b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\n"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_of_the_gate_are_recorded(online, name):
    status, hint, data = REFUSED[name]
    done = online.python(OPEN, SEND, "up.example.test", data.hex())
    event = online.refusal(why="malformed")
    assert (event["type"], event["host"], event["port"], event["status"]) == \
        ("http", "up.example.test", 80, status)
    assert event["note"] and "refused 1 time" in done.err
    assert json.loads(done.ok()) == {"error": "refused by cloister", "what": "http://up.example.test",
                                     "reason": event["note"], "hint": hint}
    said = online.operator.cloister("why", online.cell).ok()
    assert "No rule changes that" in said and "allow:" not in said


def test_a_resolver_that_no_rule_allows(online):
    """The first address that everybody tries: the reason is that no rule allows it."""
    done = online.curl("  - deny: 8.8.8.8\n    reason: not there\n" + OPEN, "http://1.1.1.1/", "https://8.8.8.8/",
                       "http://1.1.1.1/dns-query?dns=AAAB")
    told = [json.loads(line)["reason"] for line in done.out.splitlines()]
    assert told[:2] == ["no rule allows it", "not there"] and "resolved by the machine" in told[2]
    assert [e["why"] for e in online.events(type="http")] == ["no-rule", "rule", "doh"]
    first = online.events(type="http")[0]["n"]
    said = online.operator.cloister("why", online.cell, str(first)).ok()
    assert "No rule allows the request" in said and "nothing is ever sent to this host" in said and "allow:" not in said
    # Where a rule would have let it through, that is not why.
    online.curl("  - allow: 0.0.0.0/0\n", "http://1.1.1.1/")
    event = online.refusal(type="http")
    assert event["why"] == "doh" and "rule" not in event


@needs_python("h2")
def test_the_same_over_http2(online):
    online.python(OPEN, """
import h2.connection, h2.config, socket, ssl
context = ssl.create_default_context()
context.set_alpn_protocols(['h2'])
def ask(fields):
    s = context.wrap_socket(socket.create_connection(('up.example.test', 443), 10),
                            server_hostname='up.example.test')
    s.settimeout(10)
    c = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False,
                                                             normalize_outbound_headers=False))
    c.initiate_connection()
    c.send_headers(1, fields, end_stream=True)
    s.sendall(c.data_to_send())
    try:
        while data := s.recv(65536):
            if any(getattr(e, 'stream_id', None) == 1 and 'End' in type(e).__name__ + 'Reset'
                   or type(e).__name__ == 'StreamReset' for e in c.receive_data(data)):
                break
    except OSError:
        pass
base = [(':method', 'GET'), (':scheme', 'https'), (':authority', 'up.example.test')]
ask(base + [(':path', '/%5c')])
ask(base + [(':path', '/'), ('Upper', 'x')])
""")
    found = online.events(why="malformed", host="up.example.test")
    assert [e.get("status") for e in found] == [400, None], online.events()


def question(flags, name, n=1):
    return b"\x12\x34" + flags + bytes([0, n]) + bytes(6) + name + b"\0\1\0\1"


QUESTIONS = {
    "an-answer": question(b"\x80\0", b"\1a\0"),
    "an-update": question(b"\x28\0", b"\1a\0"),
    "two-questions": question(b"\1\0", b"\1a\0", 2),
    "an-odd-name": question(b"\1\0", b"\3a\x01b\0"),
    "cut": b"\x12\x34\1",
}


def test_questions_that_cannot_be_read(online):
    online.python(OPEN, """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for data in sys.argv[1:]:
    s.sendto(bytes.fromhex(data), ('198.18.0.1', 53))
# What was asked later is answered later.
socket.getaddrinfo('up.example.test', 80)
""", *[data.hex() for data in QUESTIONS.values()])
    assert len(online.events(type="dns", why="malformed", verdict="deny")) == len(QUESTIONS)


def test_a_name_that_is_not_a_host(online):
    online.python(OPEN, """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
s.sendto(b'\\x12\\x34\\1\\0\\0\\1' + bytes(6) + b'\\6da=ta!\\4test\\0' + b'\\0\\1\\0\\1', ('198.18.0.1', 53))
assert s.recv(512)[3] & 15 == 3
""").ok()
    assert online.refusal(type="dns")["host"] == "da=ta!.test"


def test_a_flood_is_counted(online):
    """One important event, then thousands of refusals: all are reported, in a few lines."""
    online.python(OPEN, """
import http.client, sys, urllib.request
urllib.request.urlopen('http://up.example.test/204')
c = http.client.HTTPConnection('up.example.test')
def ask(path, host='up.example.test'):
    c.request('GET', path, headers={'Host': host})
    answer = c.getresponse()
    answer.read()
    assert answer.status == 403, answer.status
for i in range(1500):
    ask('/same', 'other.test')
for i in range(1500):
    ask('/%d' % i + 'x' * 500, 'other.test')
""", seconds=120).ok()
    events = online.events()
    refused = [e for e in events if e["verdict"] != "allow"]
    assert any(e["type"] == "http" and e["path"] == "/204" for e in events)
    assert sum(e.get("count", 1) for e in refused) == 3000
    assert len(refused) < 1000, len(refused)
    same = [e for e in refused if e.get("path") == "/same"]
    assert sum(e.get("count", 1) for e in same) == 1500 and len(same) < 100
    assert [e["n"] for e in events] == sorted({e["n"] for e in events})
    told = online.operator.cloister("events", online.cell).ok()
    assert "refusals of all kinds" in told and " times" in told


# ---- fields that a rule speaks of ---------------------------------------------------------------

HEADERS = "  - allow: up.example.test\n    headers: {x-debug: absent}\n  - allow: www.example.test\n"
CHUNKS = b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n"


@pytest.mark.parametrize("name, passes", [("x-debug", False), ("X_Debug", False), ("x.debug", False),
                                          ("x-other", True)])
def test_a_field_that_a_rule_mentions_cannot_be_a_trailer(online, lab, name, passes):
    mark = uuid.uuid4().hex
    data = CHUNKS.replace(b"/echo", b"/echo?" + mark.encode()) + f"{name}: 1\r\n\r\n".encode()
    online.python(HEADERS, SEND, "up.example.test", data.hex())
    assert [e["verdict"] for e in online.events(type="http")] == ["allow" if passes else "deny"]
    assert bool(lab.seen(mark)) == passes


@pytest.mark.parametrize("name", ["x-debug", "x_debug", "x.debug"])
def test_a_field_in_another_spelling(online, name):
    done = online.curl(HEADERS, "-o", "/dev/null", "-w", "%{http_code}", "-H", f"{name}: 1",
                       "https://up.example.test/204")
    assert done.ok() == "403"


@pytest.mark.parametrize("address", ["64:ff9b::5db8:d70e", "2002:5db8:d70e::1"], ids=["nat64", "6to4"])
def test_a_denied_address_inside_another(online, address):
    """A denied address is denied through an address translator too."""
    rules = "  - deny: 93.184.215.0/24\n  - allow: '::/0'\n"
    done = online.curl(rules, "-g", "-o", "/dev/null", "-w", "%{http_code}", f"http://[{address}]/")
    assert done.out == "403", done
    assert "denies" in online.refusal(type="http")["note"]


# ---- clients that wait for the server ------------------------------------------------------------

GREETED = """
import socket, sys, time
began = time.monotonic()
try:
    print(socket.create_connection(('up.example.test', int(sys.argv[1])), 12).recv(100))
except ConnectionError:
    print('refused after', int(time.monotonic() - began))
"""


@pytest.mark.parametrize("rules, why", [
    (OPEN, "no-rule"), ("  - deny: up.example.test:7\n    reason: no echo\n" + OPEN, "rule")], ids=["none", "denied"])
def test_a_port_that_nothing_may_go_to_is_refused_soon(online, rules, why):
    """Its client waits for a greeting; one that speaks HTTP has an answer that it can read."""
    said = online.python(rules, GREETED, "7").ok()
    assert said.startswith("refused after ") and int(said.split()[-1]) < 6, said
    event = online.refusal(type="tcp")
    assert (event["host"], event["port"], event["why"]) == ("up.example.test", 7, why)
    done = online.curl(rules, "-w", "\n%{http_code}", "http://up.example.test:7/")
    body, _, status = done.ok().rpartition("\n")
    assert status == "403" and json.loads(body)["error"] == "refused by cloister"


# ---- refusals of what is still being sent -------------------------------------------------------

LARGE = 64 << 20


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("how", ["denied", "too-large", "too-large-unannounced"])
def test_a_refused_upload_is_answered(online, version, how):
    """The client goes on sending for a while, and still gets its answer, not a reset."""
    rules = OPEN if how != "denied" else "  - deny: up.example.test\n    reason: not there\n"
    source = ["-T", "-"] if how == "too-large-unannounced" else ["-T", "/dev/shm/large"]
    script = f'head -c {LARGE} /dev/zero >/dev/shm/large; exec "$@" </dev/shm/large'
    done = online.run(rules, "sh", "-c", script, "sh", *CURL, version, *source, "-H", "Expect:",
                      "-w", "\n%{http_code}", "https://up.example.test/echo", seconds=60)
    body, _, status = done.out.rpartition("\n")
    assert (done.status, status) == (0, "403"), done
    assert json.loads(body)["error"] == "refused by cloister"
    assert online.refusal(type="http")["why"] == ("rule" if how == "denied" else "too-large")
