"""Webhooks that come through --publish: signed with the real key outside, checked with the
placeholder inside."""
import base64
import hashlib
import hmac
import json
import os
import time
from pathlib import Path

import pytest

from egress_lab import CURL, await_event, helpers_of, needs, needs_python
from egress_world import NPM
from operators import IS_STATIC, over_stream_too, wait_until
from test_egress_secrets import canary, has

OPEN = "  - allow: www.example.test\n"
PORT, OUTSIDE = 8000, 18000

# Checks as the services' documents say, with what the cell was given.
SERVER = """
import base64, hashlib, hmac, http.server, json, os, sys
key = os.environ["HOOK"].encode()

def stripe(fields, url, body):
    parts = dict(p.split("=", 1) for p in fields["stripe-signature"].split(","))
    return parts["v1"] == hmac.new(key, parts["t"].encode() + b"." + body, "sha256").hexdigest()

def github(fields, url, body):
    return (fields["x-hub-signature-256"] == "sha256=" + hmac.new(key, body, "sha256").hexdigest() and
            fields.get("x-hub-signature", "sha1=" + hmac.new(key, body, "sha1").hexdigest())
            == "sha1=" + hmac.new(key, body, "sha1").hexdigest())

def slack(fields, url, body):
    text = b"v0:" + fields["x-slack-request-timestamp"].encode() + b":" + body
    return fields["x-slack-signature"] == "v0=" + hmac.new(key, text, "sha256").hexdigest()

def shopify(fields, url, body):
    made = base64.b64encode(hmac.new(key, body, "sha256").digest()).decode()
    return fields["x-shopify-hmac-sha256"] == made

def twilio(fields, url, body):
    pairs = sorted(p.split("=", 1) for p in body.decode().split("&"))
    text = "https://hooks.example.com" + url + "".join(k + v for k, v in pairs)
    return fields["x-twilio-signature"] == base64.b64encode(
        hmac.new(key, text.encode(), "sha1").digest()).decode()

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fields = {k.lower(): v for k, v in self.headers.items()}
        good = globals()[sys.argv[1]](fields, self.path, body)
        with open("/tmp/seen", "a") as log:
            print(json.dumps([self.command, self.path, fields, len(body), good]), file=log)
        size = int(fields.get("x-answer", "0"))
        said = b"x" * size if size else (b"good" if good else b"bad")
        self.send_response(200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else said)
    do_GET = do_HEAD = do_POST = answer
    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler)
open("/tmp/ready", "w").close()
server.serve_forever()
"""


class Hooks:
    """A cell whose server gets webhooks of one service."""

    def __init__(self, online, template, *options, server=None, env=()):
        self.online, self.real = online, canary()
        online.operator.cloister("secret", "add", "HOOK", "--scheme", "webhook", "--port", str(PORT),
                                 "--with", f"template={template}", *options, input=self.real).ok()
        server = server or ("/usr/bin/python3", "-c", SERVER, template)
        online.start(OPEN, *server, options=("-s", "HOOK", "--publish", f"{OUTSIDE}:{PORT}", *env))
        wait_until(lambda: online.inside("test", "-e", "/tmp/ready").status == 0, "the server")

    def send(self, body, *words, path="/hook", **fields):
        """From outside: status and answer."""
        file = self.online.operator.file("body", body)
        heads = [w for name, value in fields.items() for w in ("-H", f"{name.replace('_', '-')}: {value}")]
        data = ["--data-binary", f"@{file}"] if body else []
        done = self.online.outside(*CURL, "-w", "\n%{http_code}", *heads, *data, *words,
                                   f"http://127.0.0.1:{OUTSIDE}{path}")
        said, _, status = done.out.rpartition("\n")
        return int(status), said

    def seen(self):
        done = self.online.inside("cat", "/tmp/seen")
        return [json.loads(line) for line in done.out.splitlines()]


def mac(key, text, digest="sha256"):
    return hmac.new(key.encode(), text if isinstance(text, bytes) else text.encode(), digest)


def signed(template, key, body, path="/hook"):
    """The fields that TEMPLATE's service sends."""
    now = str(int(time.time()))
    if template == "stripe":
        # Of two keys that are rolled over.
        old = mac("whsec_old", f"{now}.{body}").hexdigest()
        return {"stripe_signature": f"t={now},v1={old},v1={mac(key, f'{now}.{body}').hexdigest()},v0=0"}
    if template == "github":
        return {"x_hub_signature_256": "sha256=" + mac(key, body).hexdigest(),
                "x_hub_signature": "sha1=" + mac(key, body, "sha1").hexdigest()}
    if template == "slack":
        return {"x_slack_request_timestamp": now,
                "x_slack_signature": "v0=" + mac(key, f"v0:{now}:{body}").hexdigest()}
    if template == "shopify":
        return {"x_shopify_hmac_sha256": base64.b64encode(mac(key, body).digest()).decode()}
    pairs = sorted(p.split("=", 1) for p in body.split("&"))
    text = "https://hooks.example.com" + path + "".join(k + v for k, v in pairs)
    return {"x_twilio_signature": base64.b64encode(mac(key, text, "sha1").digest()).decode(),
            "content_type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("template", ["stripe", "github", "slack", "shopify", "twilio"])
def test_a_webhook_signed_outside_is_valid_inside(online, template):
    options = ("--with", "url=https://hooks.example.com") if template == "twilio" else ()
    hooks = Hooks(online, template, *options)
    body = "a=1&b=2" if template == "twilio" else '{"id": "evt_1", "n": 1}'
    fields = signed(template, hooks.real, body)
    assert hooks.send(body, **fields) == (200, "good")
    (method, path, got, length, good), = hooks.seen()
    assert (method, path, length, good) == ("POST", "/hook", len(body), True)
    # Nothing of what the real key made came in.
    for value in fields.values():
        for part in value.replace("=", ",").split(","):
            assert len(part) < 20 or not part.isalnum() or part not in json.dumps(got)
    event = await_event(online, type="webhook")
    assert (event["verdict"], event["secret"], event["port"], event["path"]) == \
        ("allow", "HOOK", PORT, "/hook")


@pytest.mark.parametrize("template", ["stripe", "github"])
def test_invalid_webhooks_are_refused(online, template):
    hooks = Hooks(online, template)
    body = '{"id": "evt_1"}'
    right = signed(template, hooks.real, body)
    fake = online.inside("sh", "-c", "cat /proc/1/environ /proc/*/environ | tr '\\0' '\\n' | "
                         "sed -n 's/^HOOK=//p' | head -n1").ok().strip()
    assert len(fake) == len(hooks.real) and fake != hooks.real
    wrong = [(body.replace("1", "2"), right), (body, {}), (body, signed(template, fake, body)),
             (body, signed(template, "another", body))]
    for text, fields in wrong:
        status, said = hooks.send(text, **fields)
        assert status == 401 and json.loads(said)["error"] == "refused by cloister", said
        assert hooks.real not in said and fake not in said
    assert hooks.seen() == []
    assert hooks.send(body, **right) == (200, "good")
    assert len(hooks.seen()) == 1
    events = wait_until(lambda: len(e := online.events(type="webhook")) == 5 and e, "five events")
    assert [e["verdict"] for e in events] == ["deny"] * 4 + ["allow"]
    assert {e["why"] for e in events[:4]} == {"signature"}
    assert hooks.real not in json.dumps(events)


STRIPE = """
import http.server, os, stripe
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        event = stripe.Webhook.construct_event(body, self.headers["stripe-signature"], os.environ["HOOK"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(event["id"].encode())
server = http.server.HTTPServer(("127.0.0.1", 8000), Handler)
open("/tmp/ready", "w").close()
server.serve_forever()
"""
OCTOKIT = """
import { createServer } from "node:http";
import { writeFileSync } from "node:fs";
import { verify } from "@octokit/webhooks-methods";
const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const good = await verify(process.env.HOOK, body, request.headers["x-hub-signature-256"]);
    response.end(good ? "good" : "bad");
});
server.listen(8000, "127.0.0.1", () => writeFileSync("/tmp/ready", ""));
"""


@needs_python("stripe")
def test_stripes_own_library_is_content(online):
    """It wants an age under five minutes, too: the sender's time is kept."""
    hooks = Hooks(online, "stripe", server=("/usr/bin/python3", "-c", STRIPE))
    body = '{"id": "evt_7", "object": "event", "type": "ping"}'
    assert hooks.send(body, **signed("stripe", hooks.real, body)) == (200, "evt_7")
    # Signed as it should be, and old: that is for the library to see.
    old = f"t=1600000000,v1={mac(hooks.real, f'1600000000.{body}').hexdigest()}"
    assert hooks.send(body, stripe_signature=old)[0] == 502


@pytest.mark.skipif(not (NPM / "node_modules/@octokit/webhooks-methods").exists(),
                    reason="@octokit/webhooks-methods is not in build/npm: `make npm` brings it")
@needs("node")
def test_githubs_own_library_is_content(online):
    server = ("sh", "-c", f"cd {online.lab.folder}/npm && exec node --input-type=module -e \"$0\"", OCTOKIT)
    hooks = Hooks(online, "github", server=server, env=("-v", f"{online.lab.folder}/npm"))
    assert hooks.send("{}", **signed("github", hooks.real, "{}")) == (200, "good")


def test_other_paths_are_refused(online):
    hooks = Hooks(online, "github", "--path", "/hooks/*", "--method", "POST")
    right = signed("github", hooks.real, "{}")
    assert hooks.send("{}", path="/hooks/a", **right) == (200, "good")
    assert hooks.send("{}", path="/hooks/../x", **right)[0] == 403
    assert hooks.send("{}", path="/other", **right)[0] == 403
    assert hooks.send("{}", "-X", "PUT", path="/hooks/a", **right)[0] == 403
    assert len(hooks.seen()) == 1
    assert [e["why"] for e in online.events(type="webhook", verdict="deny")] == ["scope"] * 3


@over_stream_too
def test_bodies_and_answers_of_all_sizes(online):
    hooks = Hooks(online, "github")
    for size in (0, 1, 200_000, 1 << 20):
        body = "y" * size
        assert hooks.send(body, "-X", "POST", **signed("github", hooks.real, body)) == (200, "good"), size
    chunked = {"transfer_encoding": "chunked", "expect": "100-continue"}
    assert hooks.send("z" * 70_000, **signed("github", hooks.real, "z" * 70_000), **chunked) == (200, "good")
    for extra in ({}, {"transfer_encoding": "chunked"}):
        body = "y" * ((1 << 20) + 1)
        assert hooks.send(body, **signed("github", hooks.real, body), **extra)[0] == 413
    status, said = hooks.send("{}", **signed("github", hooks.real, "{}"), x_answer="30000000")
    assert status == 200 and len(said) == 30_000_000
    assert hooks.send("", "-I", **signed("github", hooks.real, ""))[0] == 200
    assert len(hooks.seen()) == 7


SPEAK = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(sys.stdin.buffer.read())
s.settimeout(20)
while data := s.recv(65536):
    sys.stdout.write(data.decode("latin-1"))
"""


@pytest.mark.parametrize("how", ["both lengths", "two", "bare", "upgrade", "connect", "nonsense"])
def test_ambiguous_webhooks_are_refused(online, how):
    hooks = Hooks(online, "github")
    head = f"POST /hook HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256={mac(hooks.real, '{}').hexdigest()}\r\n"
    bytes_of = {
        "both lengths": head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        # The second of two on one connection is never looked at.
        "two": (head + "Content-Length: 2\r\n\r\n{}") + "POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]",
        "bare": head.replace("\r\n", "\n") + "Content-Length: 2\n\n{}",
        "upgrade": head.replace("POST", "GET") + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "connect": "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
        "nonsense": "\x16\x03\x01\x02\x00\x01\x00" + "a" * 600 + "\r\n\r\n",
    }[how]
    done = online.outside("/usr/bin/python3", "-c", SPEAK, str(OUTSIDE), input=bytes_of)
    said = done.ok()
    if how == "two":
        assert said.count("HTTP/1.1 ") == 1 and said.endswith("good")
    else:
        assert said.split()[1] in ("400", "403", "501") and "refused by cloister" in said, said
    assert len(hooks.seen()) == (how == "two")


def test_a_port_that_is_not_published(online):
    online.operator.cloister("secret", "add", "HOOK", "--scheme", "webhook", "--port", "8000",
                             "--with", "template=github", input="x" * 20).ok()
    done = online.operator.run("-p", online.policy(OPEN), "-s", "HOOK", "--publish", "8001", "--", "true")
    assert done.status == 125 and "--publish 8000" in done.err


@pytest.mark.parametrize("words, why", [
    (("--port", "8000"), "template: github"), (("--with", "template=github"), "`ports:`"),
    (("--port", "8000", "--with", "template=nobody"), "template: github"),
    (("--port", "8000", "--with", "template=github", "--host", "a.test"), "leave `hosts` out"),
    (("--port", "8000", "--with", "template=github", "--in", "body"), "leave `in` out"),
])
def test_the_form_of_a_webhook(online, words, why):
    done = online.operator.cloister("secret", "add", "HOOK", "--scheme", "webhook", *words, input="x" * 20)
    assert done.status != 0 and why in done.err


@over_stream_too
def test_nobody_listens(online):
    hooks = Hooks(online, "github", server=("sh", "-c", ">/tmp/ready; exec sleep 1000"))
    status, said = hooks.send("{}", **signed("github", hooks.real, "{}"))
    assert status == 502 and "nothing listens" in said


def test_other_ports_are_as_they_were(online):
    """They carry any bytes, also such that are not HTTP."""
    server = ("import socket\na = socket.create_server(('127.0.0.1', 8001))\nopen('/tmp/ready', 'w')\n"
              "while True:\n    c, _ = a.accept()\n    c.sendall(b'220 ' + c.recv(100))\n    c.close()\n")
    Hooks(online, "github", server=("/usr/bin/python3", "-c", server), env=("--publish", "18001:8001"))
    done = online.outside("/usr/bin/python3", "-c", SPEAK, "18001", input="\x01HELO")
    assert done.ok() == "220 \x01HELO"


@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
def test_the_key_is_in_no_process_but_the_courier(online):
    hooks = Hooks(online, "github")
    assert not helpers_of(online.operator, online.cell)     # the webhook starts it
    assert hooks.send("{}", **signed("github", hooks.real, "{}")) == (200, "good")
    names = {}
    for pid in online.operator.pids(online.cell):
        try:
            names[os.path.basename(os.readlink(f"/proc/{pid}/exe"))] = has(pid, hooks.real.encode())
            assert hooks.real not in Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            pytest.skip("only root may look into processes")
    assert names["cloister-courier"] and "cloister-publish" in names
    assert [name for name, found in names.items() if found] == ["cloister-courier"]


def test_the_courier_may_die(online):
    hooks = Hooks(online, "github")
    right = signed("github", hooks.real, "{}")
    for _ in range(3):
        assert hooks.send("{}", **right) == (200, "good")
        pid = helpers_of(online.operator, online.cell)["courier"]
        online.operator.do("kill", "-9", str(pid))
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "its end")
