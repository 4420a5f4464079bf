"""A server that gives everything back, in every coding: nothing real is ever seen in the cell."""
import base64
import hmac
import json
import re
import secrets
import subprocess
import urllib.parse

import pytest

import leftovers
from egress_lab import HERE, WEBSOCKET, needs_python
from egress_world import WS
from operators import read_until

PORT = 8444
RULES = (f"  - allow: 'ws.example.test:{PORT}'\n    websocket: true\n"
         "  - allow: '*.example.test'\n    body: {max: 64M}\n")
SHOWN = 10                              # characters in a row that give a value away


def give(online, real, name="KEY"):
    """A secret that may be anywhere in a request."""
    places = [word for place in ("header", "basic-user", "basic-password", "query", "path", "body", "websocket")
              for word in ("--in", place)]
    hosts = ("--host", "up.example.test", "--host", "www.example.test", "--host", f"ws.example.test:{PORT}")
    online.operator.cloister("secret", "add", name, *hosts, *places, input=real).ok()


# ---- the judge ---------------------------------------------------------------------------

def unescape(text):
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), text).replace("\\/", "/")


def readings(text):
    """What TEXT may be read as."""
    for plain in {text, urllib.parse.unquote(text, "latin-1"), unescape(text)}:
        yield plain
        for run in re.findall(r"[0-9a-fA-F]{16,}", plain):
            for skip in (0, 1):
                part = run[skip:]
                yield bytes.fromhex(part[:len(part) // 2 * 2]).decode("latin-1")
        for run in re.findall(r"[A-Za-z0-9+/_-]{16,}", plain):
            run = run.replace("-", "+").replace("_", "/")
            for skip in range(4):
                part = run[skip:]
                yield base64.b64decode(part[:len(part) // 4 * 4]).decode("latin-1")


def shows(text, real):
    """The part of REAL that can be read in TEXT, or None."""
    parts = [real[i:i + SHOWN] for i in range(len(real) - SHOWN + 1)]
    for reading in readings(text):
        for part in parts:
            if part in reading:
                return part
    return None


def test_the_judge_sees():
    real = secrets.token_urlsafe(30) + "+/="
    raw = real.encode()
    for text in (real, raw.hex(), raw.hex().upper(), urllib.parse.quote(real, safe=""),
                 "".join(f"%{b:02X}" for b in raw), "".join(f"\\u{b:04x}" for b in raw),
                 *(base64.b64encode(b"abcd"[:n] + raw).decode() for n in range(4)),
                 base64.urlsafe_b64encode(raw).decode(), json.dumps(real).replace("/", "\\/")):
        assert shows(f"some {text} more", real)
    assert not shows(secrets.token_urlsafe(300), real)


# ---- HTTP --------------------------------------------------------------------------------

ASK = r"""
import base64, json, os, random, subprocess, sys, urllib.parse
key, other = os.environ["KEY"], "me"
where, seeds = sys.argv[1], sys.argv[2:]
for seed in seeds:
    dice = random.Random(int(seed))
    coded = urllib.parse.quote(key, safe="")
    url = f"{where}?seed={seed}"
    words = []
    if dice.random() < 0.6:
        words += ["-H", f"Authorization: Bearer {key}"]
    elif dice.random() < 0.5:
        words += ["-u", f"me:{key}"]
    else:
        words += ["-u", f"{key}:"]
    if dice.random() < 0.5:
        words += ["-H", f"X-Key: {key}"]
    if dice.random() < 0.5:
        url += f"&key={coded}"
    if dice.random() < 0.6:
        words += dice.choice([
            ["-d", f"a=b&key={coded}"], ["--data-binary", key * 3],
            ["-H", "content-type: application/json", "-d", json.dumps({"k": key})],
            ["-H", "transfer-encoding: chunked", "-H", "content-type: text/plain", "-d", f"{key} {key}"]])
    words += ["--http1.1" if dice.random() < 0.5 or "/up/" not in where else "--http2"]
    done = subprocess.run(["curl", "-sS", "--max-time", "20", "-D", "head", "-o", "body", *words, url],
                          capture_output=True)
    told = b"".join(open(name, "rb").read() for name in ("head", "body") if os.path.exists(name))
    print(json.dumps([seed, done.returncode, base64.b64encode(told).decode()]))
    for name in ("head", "body"):
        if os.path.exists(name):
            os.unlink(name)
"""


@pytest.mark.parametrize("where", ["https://up.example.test/reflect", "https://www.example.test/up/reflect"])
def test_nothing_real_comes_back(online, where):
    real = "sk_" + secrets.token_hex(8) + secrets.token_urlsafe(30)
    give(online, real)
    seeds = [str(secrets.randbits(30)) for _ in range(25)]
    done = online.python(RULES, ASK, where, *seeds, options=("-s", "KEY"))
    told = [json.loads(line) for line in done.ok().splitlines()]
    # The server did get it: or there would be nothing to see.
    assert len(online.lab.seen(real)) > 10
    assert len(told) == len(seeds)
    for seed, status, data in told:
        data = base64.b64decode(data).decode("latin-1")
        assert status == 0 and "x-got-" in data, (seed, status, data[:2000])
        assert not shows(data, real), (seed, shows(data, real))


ASSERT = r"""
import base64, hashlib, hmac, json, os, subprocess, sys, time
def coded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
for seed in sys.argv[2:]:
    text = ".".join(coded(json.dumps(part).encode()) for part in ({"alg": "HS256"}, {"iss": "me", "jti": seed}))
    token = f"{text}.{coded(hmac.digest(os.environ['KEY'].encode(), text.encode(), 'sha256'))}"
    words = [["-H", f"Authorization: Bearer {token}"], ["-d", f"assertion={token}"]][int(seed) % 2]
    done = subprocess.run(["curl", "-sS", "-i", "--raw", "--max-time", "20", *words, f"{sys.argv[1]}?seed={seed}"],
                          capture_output=True)
    print(json.dumps([seed, done.returncode, text, base64.b64encode(done.stdout).decode()]))
"""


def test_no_token_that_was_made_comes_back(online):
    """A JWT that is signed anew is as good as a key: nothing of its signature is seen."""
    key = secrets.token_hex(20)
    online.operator.cloister("secret", "add", "KEY", "--scheme", "jwt", "--host", "up.example.test", input=key).ok()
    seeds = [str(secrets.randbits(30)) for _ in range(16)]
    done = online.python(RULES, ASSERT, "https://up.example.test/reflect", *seeds, options=("-s", "KEY"))
    n_seen = 0
    for seed, status, text, data in map(json.loads, done.ok().splitlines()):
        data = base64.b64decode(data).decode("latin-1")
        assert status == 0 and "x-got-" in data, (seed, status, data[:2000])
        real = hmac.digest(key.encode(), text.encode(), "sha256")
        real = base64.urlsafe_b64encode(real).decode().rstrip("=")
        assert not shows(data, real), (seed, shows(data, real))
        n_seen += len(online.lab.seen(f"{text}.{real}"))
    # The server did get it.
    assert n_seen > 0


# ---- WebSocket ---------------------------------------------------------------------------

TALK = WEBSOCKET + """
import json
key = os.environ["KEY"]
async def main():
    seen = []
    async with websockets.connect(sys.argv[1], **{FIELDS: {"Authorization": f"Bearer {key}"}}) as ws:
        for message in (key, key.encode(), [key[:9], key[9:]], "close " + key):
            await asyncio.wait_for(await ws.ping(key), 10)
            await ws.send(message)
            try:
                for _ in range(4):
                    got = await ws.recv()
                    seen.append(got if isinstance(got, str) else got.decode("latin-1"))
            except websockets.ConnectionClosed:
                pass
        try:
            await ws.recv()
        except websockets.ConnectionClosed:
            pass
        seen.append(str(ws.close_reason))
    print(json.dumps([key, seen]))
asyncio.run(main())
"""


@pytest.fixture
def talker(lab):
    process = subprocess.Popen([*lab.enter, "/usr/bin/python3", "-B", str(HERE / "egress_echo.py"),
                                str(lab.folder), WS, str(PORT)], stdout=subprocess.PIPE)
    leftovers.LABS.append(process.pid)
    read_until(process.stdout.fileno(), b"ready\n")
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@needs_python("websockets")
def test_nothing_real_comes_in_messages(online, talker):
    real = "sk_" + secrets.token_hex(8) + secrets.token_urlsafe(30)
    give(online, real)
    done = online.python(RULES, TALK, f"wss://ws.example.test:{PORT}/", options=("-s", "KEY"))
    fake, seen = json.loads(done.ok())
    assert len(seen) >= 14
    for text in seen:
        assert not shows(text, real)
    # Pings came back as they were sent, and so did what was said at the end.
    assert seen[-1].endswith(fake)


@needs_python("websockets")
def test_a_ping_where_it_may_not_be(online, talker):
    real = "sk_" + secrets.token_hex(8) + secrets.token_urlsafe(30)
    online.operator.cloister("secret", "add", "KEY", "--host", f"ws.example.test:{PORT}", "--in",
                             "header:authorization", input=real).ok()
    done = online.python(RULES, TALK, f"wss://ws.example.test:{PORT}/", options=("-s", "KEY"))
    assert done.status != 0
    assert online.refusal()["why"] == "exfiltration"


# Sends beginnings of the value, and tells how many bytes of each do not come back until more does.
GUESS = r"""
import json, socket, ssl, sys
s = ssl.create_default_context().wrap_socket(socket.create_connection(('up.example.test', 443)),
                                             server_hostname='up.example.test')
s.sendall(b'POST /turn HTTP/1.1\r\nHost: up.example.test\r\nTransfer-Encoding: chunked\r\n\r\n')
raw, got, sent = b'', 0, 0

def take():
    global raw, got
    raw += s.recv(65536)
    if raw.startswith(b'HTTP/'):
        head, end, rest = raw.partition(b'\r\n\r\n')
        raw = rest if end else raw
    while b'\r\n' in raw and not raw.startswith(b'HTTP/'):
        size, _, rest = raw.partition(b'\r\n')
        if len(rest) < int(size, 16) + 2:
            return
        got, raw = got + int(size, 16), rest[int(size, 16) + 2:]

def say(word, seconds):
    global sent
    s.sendall(b'%x\r\n%s\r\n' % (len(word), word))
    sent += len(word)
    s.settimeout(seconds)
    try:
        while got < sent:
            take()
    except TimeoutError:
        pass
    return sent - got

say(b'hello\n', 10)
held = []
for word in json.loads(sys.argv[1]):
    before = sent - got
    held.append(say(word.encode(), 0.5) - before)
    say(b'\n', 0.5)
print(json.dumps(held))
"""


def test_held_bytes_reveal_no_value(online):
    """The beginning of a value in a response waits for the rest. An agent that could try that as often as it likes
    would find the value soon."""
    real = "key_" + secrets.token_hex(16)
    give(online, real)
    wrong = real[:-14] + "".join("0" if c != "0" else "1" for c in real[-14:])
    words = [wrong[:30], real[:30], wrong[:30], real[:30], real[:30], wrong[:30], real[:30]]
    # A request that is echoed while it is sent: its body is not held to be searched.
    rules = RULES + "    secrets: allow\n"
    held = json.loads(online.python(rules, GUESS, json.dumps(words), options=["-s", "KEY"]).ok())
    # Twice it can be told.
    assert held[0] < 5 < held[1] and held[2] < 5 < held[3]
    assert all(n >= 30 for n in held[4:]), held
    event, = online.events(type="secret")
    assert (event["verdict"], event["why"]) == ("deny", "guessed")
    assert "tried out prefixes of a secret's value" in online.operator.cloister("why", online.cell).ok()
