"""`revoke` and `rotate` of what is under way by other means than a plain request: WebSockets, streams of
HTTP/2, client certificates, an upload without end, and what waits for people."""
import json
import subprocess

from approvals import Asking
from egress_lab import CURL, WEBSOCKET, await_event, needs_python
from operators import SECONDS, only_user, wait_until
from test_egress_mtls import SAVE
from test_egress_secrets import UP, canary, give, give_ws

# Where root makes no difference.
pytestmark = only_user


class Inside:
    """A program in the cell that answers each line with a line."""

    def __init__(self, online, script):
        operator = online.operator
        self.process = operator.spawn(operator.program, "exec", online.cell, "--", "/usr/bin/python3", "-c",
                                      script, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *words):
        self.process.stdin.write(" ".join(words).encode() + b"\n")
        self.process.stdin.flush()
        told = self.process.stdout.readline().decode()
        assert told.endswith("\n"), words
        return told[:-1]

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(SECONDS) == 0


# Each line is a verb and words for it.
LINES = """
async def lines(do):
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        verb, _, rest = line.strip().partition(" ")
        try:
            told = await asyncio.wait_for(do[verb](*rest.split()), 60)
        except Exception as error:
            told = type(error).__name__
        print(told, flush=True)
"""
TALK = WEBSOCKET + LINES + """
peers = {}
async def connect(name, key=""):
    fields = {"Authorization": "Bearer " + os.environ["KEY"]} if key else {}
    peers[name] = await websockets.connect("wss://ws.example.test/" + name, **{FIELDS: fields})
    return await peers[name].recv()
async def say(name, text):
    await peers[name].send(text.replace("KEY", os.environ["KEY"]))
    return await peers[name].recv()
async def end(name):
    # Until it ends by itself.
    async for _ in peers[name]: pass
    return "ended"
asyncio.run(lines({"connect": connect, "say": say, "end": end}))
"""


@needs_python("websockets")
def test_websockets(online):
    first, second = canary(), canary()
    give_ws(online, first, "--in", "websocket")
    cell = online.start("  - allow: ws.example.test\n    websocket: true\n", "sleep", "infinity",
                        options=["-s", "KEY"])
    talk = Inside(online, TALK)
    assert talk.ask("connect", "early", "key") == talk.ask("connect", "bare") == "welcome"
    assert talk.ask("say", "early", "my-KEY").startswith("my-") and online.lab.seen(f"my-{first}")
    # Another value: what is open goes on with what it began with, what begins has the new one.
    online.operator.cloister("rotate", "--new", cell, "KEY", input=second).ok()
    assert talk.ask("say", "early", "still") == "still"
    assert talk.ask("connect", "late", "key") == "welcome"
    assert [(first in line, second in line) for path in ("/early", "/late")
            for line in online.lab.seen(f'"target": "{path}"') if "Bearer" in line] == [(True, False), (False, True)]
    assert talk.ask("say", "late", "now-KEY").startswith("now-") and online.lab.seen(f"now-{second}")
    # Taken back: all that carried it is cut, and nothing else.
    online.operator.cloister("revoke", cell, "KEY").ok()
    assert {talk.ask("end", "early"), talk.ask("end", "late")} <= {"ended", "ConnectionClosedError"}
    assert talk.ask("say", "bare", "alive") == "alive"
    assert talk.ask("connect", "again", "key") in ("InvalidStatusCode", "InvalidStatus")
    # A message with it, on one that began without.
    assert talk.ask("say", "bare", "it-is-KEY").startswith("ConnectionClosed")
    assert not online.lab.seen("it-is-") and not online.lab.seen("/again")
    wait_until(lambda: [e["why"] for e in online.events(verdict="deny", type="http")] == ["revoked"] * 4,
               "all four being recorded")
    talk.close()
    online.operator.cloister("kill", cell).ok()


# Streams of one connection; of each, what has come is told, or how it ended.
STREAMS = """
import asyncio, os, sys, httpx
""" + LINES + """
client = httpx.AsyncClient(http2=True, timeout=60)
seen, ends = {}, {}
async def follow(name, fields):
    try:
        async with client.stream("GET", f"https://www.example.test/up/events?n=100000&every=0.01&{name}",
                                 headers=fields) as r:
            assert r.http_version == "HTTP/2" and r.status_code == 200
            async for piece in r.aiter_bytes():
                seen[name] = seen.get(name, 0) + 1
        ends[name] = "whole"
    except Exception as error:
        ends[name] = type(error).__name__
tasks = []
async def begin(*names):
    fields = {"Authorization": "Bearer " + os.environ["KEY"]}
    for name in names:
        tasks.append(asyncio.create_task(follow(name, fields if name.startswith("with") else {})))
    while len(seen) < len(names): await asyncio.sleep(0.01)
    return "all"
async def more(name):
    # Some more of it comes.
    before = seen[name]
    while seen[name] < before + 5 and name not in ends: await asyncio.sleep(0.01)
    return ends.get(name, "flows")
async def end(name):
    while name not in ends: await asyncio.sleep(0.01)
    return ends[name]
async def get(key=""):
    r = await client.get("https://www.example.test/up/echo", headers={"Authorization": "Bearer " + os.environ["KEY"]})
    return f"{r.status_code} {r.http_version}"
asyncio.run(lines({"begin": begin, "more": more, "end": end, "get": get}))
"""


@needs_python("httpx", "h2")
def test_streams_of_one_connection(online):
    """The server has one connection with all of them."""
    first, second = canary(), canary()
    online.operator.cloister("secret", "add", "KEY", "--host", "www.example.test", "--in", "header:authorization",
                             input=first).ok()
    cell = online.start("  - allow: www.example.test\n", "sleep", "infinity", options=["-s", "KEY"])
    streams = Inside(online, STREAMS)
    withs, others = [f"with{n}" for n in range(4)], [f"bare{n}" for n in range(4)]
    assert streams.ask("begin", *withs, *others) == "all"
    assert streams.ask("get") == "200 HTTP/2" and len(online.lab.seen(first)) == 5
    online.operator.cloister("rotate", "--new", cell, "KEY", input=second).ok()
    assert {streams.ask("more", name) for name in withs} == {"flows"}
    assert streams.ask("get") == "200 HTTP/2" and len(online.lab.seen(second)) == 1
    online.operator.cloister("revoke", cell, "KEY").ok()
    assert {streams.ask("end", name) for name in withs} == {"RemoteProtocolError"}
    assert {streams.ask("more", name) for name in others} == {"flows"}
    assert streams.ask("get") == "403 HTTP/2" and len(online.lab.seen(second)) == 1
    assert len(online.events(why="revoked", path="/up/events")) == 4
    # As the server saw them.
    assert {line.split("|")[4] for line in online.lab.seen("/up/events") if line.startswith("good|")} == {"HTTP/2.0"}
    online.operator.cloister("kill", cell).ok()
    streams.process.wait(SECONDS)


def certificate(online, name):
    """One more that the server lets in."""
    keys, made = online.lab.folder / "keys", online.operator.folder("made")
    online.operator.host(f"cd {made} && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k "
                         f"-out csr -subj '/CN={name}' 2>&1")
    subprocess.run(["openssl", "x509", "-req", "-in", made / "csr", "-CA", keys / "client-ca.crt", "-CAkey",
                    keys / "client-ca.key", "-set_serial", "77", "-days", "2", "-out", made / "crt"], check=True,
                   capture_output=True)
    return (made / "crt").read_text() + (made / "k").read_text()


def test_a_client_certificate(online):
    """Connections that showed it are not used again, and end with it."""
    keys = online.lab.folder / "keys"
    first = (keys / "client.crt").read_text() + (keys / "client.key").read_text()
    second = certificate(online, "another client")
    online.operator.cloister("secret", "add", "CLIENT", "--scheme", "mtls", "--host", "mtls.example.test",
                             input=first).ok()
    flow = " ".join([*CURL, "-N", "--max-time", "1000", "--cert ~/client.pem -o /tmp/got",
                     "'https://mtls.example.test/up/events?n=1000000&every=0.01'; echo $? >/tmp/status; exec sleep 1000"])
    cell = online.start("  - allow: '*.example.test'\n", "sh", "-c", "cd; " + SAVE + "touch /tmp/saved; " + flow,
                        options=["-s", "CLIENT"])

    def fetch():
        return online.inside("sh", "-c", " ".join([*CURL, "--cert ~/client.pem https://mtls.example.test/x"])).out

    def size():
        return int(online.inside("sh", "-c", "stat -c %s /tmp/got 2>/dev/null || echo 0").out)
    wait_until(lambda: size() > 100, "the download")
    assert fetch().startswith("CN=the real client SUCCESS")
    online.operator.cloister("rotate", "--new", cell, "CLIENT", input=second).ok()
    assert fetch().startswith("CN=another client SUCCESS")
    before = size()
    wait_until(lambda: size() > before + 100, "more of the download")
    online.operator.cloister("revoke", cell, "CLIENT").ok()
    status = wait_until(lambda: online.inside("sh", "-c", "cat /tmp/status 2>/dev/null").out.strip(), "its end")
    assert status in ("18", "56", "92")
    assert "'CLIENT' has been revoked" in json.loads(fetch())["reason"]
    assert {e["why"] for e in online.events(verdict="deny")} == {"revoked"}
    online.operator.cloister("kill", cell).ok()


def test_an_upload_without_end(online):
    """Not one byte of it passes once the command has returned."""
    real = canary()
    give(online, real)
    send = ("head -c 64G /dev/zero | " + " ".join([*CURL, "--max-time", "1000", "-T", "-", "-o", "/tmp/told", "-w",
            "'%{http_code} %{size_upload}'", '-H "Authorization: Bearer $KEY"', f"{UP}/echo?big"]) +
            " >/tmp/sent 2>&1; touch /tmp/over; exec sleep 1000")
    cell = online.start("  - allow: up.example.test\n    body: {max: 64G}\n", "sh", "-c", send, options=["-s", "KEY"])

    def passed():
        told = json.loads(online.operator.cloister("budget", "--json", cell).ok())
        return told["used"]["bytes_out"]
    wait_until(lambda: passed() > 32 << 20, "much of it")
    online.operator.cloister("revoke", cell, "KEY").ok()
    at_once = passed()
    wait_until(lambda: online.inside("test", "-e", "/tmp/over").status == 0, "its end")
    assert passed() == at_once < 64 << 30
    sent = online.inside("cat", "/tmp/sent").out
    assert "200 " not in sent
    event = await_event(online, type="http", why="revoked")
    assert event["verdict"] == "deny" and event["path"] == "/echo"
    online.operator.cloister("kill", cell).ok()


def test_requests_that_wait_for_people(online):
    """A secret that is revoked in the meantime does not leave with an approval; a rotated one leaves with its new
    value."""
    first, second = canary(), canary()
    give(online, first)
    a = Asking(online, "  - ask: up.example.test\n", "-s", "KEY")

    def ask(path, n):
        process = a.operator.spawn(
            a.operator.program, "exec", a.cell, "--", "sh", "-c", 'curl -sS --max-time 60 -w "\\n%{http_code}" '
            f'-H "Authorization: Bearer $KEY" {UP}{path}', stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return process, a.wait(n)
    rotated, shown = ask("/echo?rotated", 1)
    assert shown["secrets"] == ["KEY"]
    a.operator.cloister("rotate", "--new", a.cell, "KEY", input=second).ok()
    a.answer("approve", shown["id"]).ok()
    assert a.outcome(rotated) == "200"
    line, = [line for line in online.lab.seen("/echo?rotated") if "fields" in line]
    assert (first in line) != (second in line)
    revoked, shown = ask("/echo?revoked", 1)
    a.operator.cloister("revoke", a.cell, "KEY").ok()
    code, told = a.end(revoked)
    assert code == "403" and "'KEY' has been revoked" in json.loads(told)["reason"]
    a.await_state(shown["id"], "gone")
    a.answer("approve", shown["id"]).sentence("no longer waits")
    assert not online.lab.seen("/echo?revoked")
    # And nobody is asked for what cannot go.
    assert a.outcome(a.operator.spawn(
        a.operator.program, "exec", a.cell, "--", "sh", "-c", 'curl -sS -w "\\n%{http_code}" -H '
        f'"Authorization: Bearer $KEY" {UP}/echo?never', stdout=subprocess.PIPE, stderr=subprocess.PIPE)) == "403"
    assert a.list() == [] and len(a.list("-a")) == 2
