"""No real value comes into the cell, whatever part of a request a server reflects, and wherever.

Each secret is sent in each part of a request; the server (egress_mirror.py) returns it in each part of
a response, in each encoding.  The judge knows neither: it decodes everything that came."""
import base64
import html
import itertools
import json
import quopri
import random
import re
import secrets
import urllib.parse

import pytest

from egress_lab import needs_python
from egress_mirror import PARTS, UNSEEN, WRITINGS
from egress_world import PROXY, WS

H1, H2 = 8445, 8446
WHERE = "ws.example.test"
RULES = f"  - allow: ['{WHERE}:{H1}', '{WHERE}:{H2}']\n"
SHOWN = 12                              # characters in a row that give a value away


@pytest.fixture(scope="module")
def mirror(lab):
    with lab.serve("egress_mirror.py", WS, str(H1), str(H2)) as lab:
        yield lab


# ---- the judge ---------------------------------------------------------------------------

def decoded(text):
    """What TEXT may be read as, undone once."""
    yield urllib.parse.unquote(text, "latin-1")
    yield html.unescape(text)
    yield quopri.decodestring(text.encode("latin-1", "replace")).decode("latin-1")
    yield text.replace("\0", "")
    yield re.sub(r"\\u\{?([0-9a-fA-F]{1,4})\}?|\\x([0-9a-fA-F]{2})",
                 lambda m: chr(int(m[1] or m[2], 16)), text).replace("\\/", "/")
    yield re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8) & 255), text)
    for run in re.findall(r"[0-9a-fA-F]{24,}", text):
        for skip in (0, 1):
            yield bytes.fromhex(run[skip:][:len(run[skip:]) // 2 * 2]).decode("latin-1")
    for run in re.findall(r"[A-Za-z0-9+/_-]{16,}", text.replace("\r", "").replace("\n", "")):
        run = run.replace("-", "+").replace("_", "/")
        for skip in range(4):
            yield base64.b64decode(run[skip:][:len(run[skip:]) // 4 * 4]).decode("latin-1")


def readings(text):
    seen, level = {text}, {text}
    for _ in range(2):
        level = {reading for one in level for reading in decoded(one) if reading not in seen}
        seen |= level
    return seen


def shows(text, real):
    """The part of REAL that can be read in TEXT, in either case, or None."""
    real = real.lower()
    parts = [real[i:i + SHOWN] for i in range(len(real) - SHOWN + 1)]
    return next((part for reading in readings(text) for part in parts if part in reading.lower()), None)


def test_the_judge_sees():
    real = secrets.token_urlsafe(30) + "+/="
    for name, write in WRITINGS.items():
        assert shows("some " + write(real.encode()).decode("latin-1") + " more", real), name
    assert not shows(secrets.token_urlsafe(300), real)


# ---- secrets that are sent -------------------------------------------------------------------

ASK = r"""
import base64, json, os, socket, ssl, sys, urllib.parse
host, port = sys.argv[1], int(sys.argv[2])
key, tests = os.environ["KEY"], json.loads(sys.argv[3])
quoted = urllib.parse.quote(key, safe="")
def basic(text):
    return "authorization: Basic " + base64.b64encode(text.encode()).decode()
REQUESTS = {                            # path, query, fields, body
    "bearer": ("", "", [f"authorization: Bearer {key}"], ""),
    "header": ("", "", [f"x-key: {key}"], ""),
    "cookie": ("", "", [f"cookie: a=b; k={key}"], ""),
    "user": ("", "", [basic(f"{key}:")], ""),
    "password": ("", "", [basic(f"someone:{key}")], ""),
    "query": ("", f"&k={quoted}", [], ""),
    "path": (f"/{quoted}/x", "", [], ""),
    "form": ("", "", ["content-type: application/x-www-form-urlencoded"], f"a=b&k={quoted}"),
    "json": ("", "", ["content-type: application/json"], json.dumps({"k": key})),
    "text": ("", "", ["content-type: text/plain"], f"my key is {key} ."),
}
for request, to, writing in tests:
    path, query, fields, body = REQUESTS[request]
    s = ssl.create_default_context().wrap_socket(socket.create_connection((host, port)), server_hostname=host)
    target = f"/mirror{path}?to={urllib.parse.quote(to)}&as={urllib.parse.quote(writing)}{query}"
    method = "POST" if body else "GET"
    head = [f"{method} {target} HTTP/1.1", f"host: {host}:{port}", "connection: close", *fields]
    s.sendall("\r\n".join(head + ([f"content-length: {len(body)}"] if body else []) + ["", body]).encode())
    got = b""
    while data := s.recv(65536):
        got += data
    print(json.dumps([request, to, writing, base64.b64encode(got).decode()]))
"""
SENT = ["bearer", "header", "cookie", "user", "password", "query", "path", "form", "json", "text"]


def give(online, real):
    places = [word for place in ("header", "basic-user", "basic-password", "query", "path", "body")
              for word in ("--in", place)]
    hosts = ("--host", f"{WHERE}:{H1}", "--host", f"{WHERE}:{H2}")
    online.operator.cloister("secret", "add", "KEY", *hosts, *places, input=real).ok()


def values():
    """All kinds of values: words that names can have, base64, hex, capitals."""
    yield "Kq9" + secrets.token_urlsafe(30).replace("-", "Q")
    yield base64.b64encode(secrets.token_bytes(21)).decode()[:-3] + "/k+B=a"
    yield secrets.token_hex(20)


@needs_python("h2")
@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "by a proxy"])
@pytest.mark.parametrize("port", [H1, H2], ids=["1.1", "2"])
def test_a_secret_that_is_sent(online, mirror, port, proxied):
    real = random.choice(list(values()))
    give(online, real)
    # A few of all combinations each time, by chance.
    tests = random.sample(list(itertools.product(SENT, PARTS, ["raw"])), 30) + [("bearer", part, "raw") for part in PARTS] + \
        [("bearer", "body", writing) for writing in WRITINGS if writing not in UNSEEN]
    env = {"HTTPS_PROXY": f"http://{PROXY}:3128"} if proxied else {}
    done = online.python(RULES, ASK, WHERE, str(port), json.dumps(tests), options=("-s", "KEY"), env=env)
    told = [json.loads(line) for line in done.ok().splitlines()]
    assert len(told) == len(tests)
    seen = "".join(online.lab.seen('"mirror"'))
    assert seen.count(real) + seen.count(urllib.parse.quote(real, safe="")) > len(tests) // 2
    leaks = [(request, to, writing, shown) for request, to, writing, data in told
             if (shown := shows(base64.b64decode(data).decode("latin-1"), real))]
    assert not leaks
    # They did come through, but for answers that nobody could read.
    for request, to, writing, data in told:
        if "bad" not in to and to != "extension":
            assert re.match(rb"HTTP/1.1 (103|200|302|401) ", base64.b64decode(data)), (to, base64.b64decode(data))


# ---- signatures that are made anew -----------------------------------------------------------

SIGN = r"""
import base64, hashlib, hmac, json, os, subprocess, sys, time, urllib.parse
scheme, host, tests = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
key, key_id = os.environ.get("KEY", ""), os.environ.get("KEY_ID", "")
def mac(secret, text, how="sha256"):
    return hmac.digest(secret, text.encode(), how)
def aws(url):
    return [url, "--aws-sigv4", "aws:amz:eu-west-1:execute-api", "-u", f"{key_id}:{key}"]
def presigned(url):
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    request = AWSRequest("GET", url)
    SigV4QueryAuth(Credentials(key_id, key), "execute-api", "eu-west-1", expires=600).add_auth(request)
    return [request.url]
def exchange(url):
    url += f"&timestamp={int(time.time() * 1000)}"
    return [f"{url}&signature={mac(key.encode(), url.partition('?')[2]).hex()}", "-H", f"X-MBX-APIKEY: {key_id}"]
def exchange_body(url):
    where, _, query = url.partition("?")
    text = f"symbol=LTCBTC&timestamp={int(time.time() * 1000)}"
    return [url, "-H", f"X-MBX-APIKEY: {key_id}", "-d",
            f"{text}&signature={mac(key.encode(), query + text).hex()}"]
def azure(url):
    parts = urllib.parse.urlsplit(url)
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    fields = [f"x-ms-date:{date}", "x-ms-version:2021-08-06"]
    account = "acct"
    resource = f"/{account}{parts.path}" + "".join(
        f"\n{k}:{v}" for k, v in sorted(urllib.parse.parse_qsl(parts.query)))
    text = "GET" + "\n" * 12 + "\n".join(fields) + "\n" + resource
    signed = base64.b64encode(mac(base64.b64decode(key), text)).decode()
    return [url, "-H", f"authorization: SharedKey {account}:{signed}", *(w for f in fields for w in ("-H", f))]
def message(url):
    parts = urllib.parse.urlsplit(url)
    names = '("@method" "@authority" "@path" "@query");created=%d;keyid="%s";alg="hmac-sha256"' % (time.time(), "my-key")
    text = f'"@method": GET\n"@authority": {parts.netloc}\n"@path": {parts.path}\n"@query": ?{parts.query}\n' \
        f'"@signature-params": {names}'
    signed = base64.b64encode(mac(key.encode(), text)).decode()
    return [url, "-H", f"signature-input: sig1={names}", "-H", f"signature: sig1=:{signed}:"]
def oauth1(url):
    import oauthlib.oauth1
    secret, token_secret = key.split("&")
    client = oauthlib.oauth1.Client(key_id, secret, os.environ["KEY_TOKEN"], token_secret)
    url, fields, _ = client.sign(url)
    return [url, "-H", "authorization: " + fields["Authorization"]]
for to, writing in tests:
    url = f"https://{host}/mirror?as={urllib.parse.quote(writing)}&to={urllib.parse.quote(to)}"
    done = subprocess.run(["curl", "-sS", "-i", "--raw", "--max-time", "20", *globals()[scheme](url)], capture_output=True)
    print(json.dumps([to, writing, base64.b64encode(done.stdout).decode()]))
"""
WORD = secrets.token_hex
# How it is given, and where the server finds its signature.
SCHEMES = {
    "aws": (["--like", "aws"], r"Signature=([0-9a-f]{64})"),
    "presigned": (["--like", "aws"], r"X-Amz-Signature=([0-9a-f]{64})"),
    "exchange": (["--scheme", "hmac", "--with", "template=binance"], r"signature=([0-9a-f]{64})"),
    "exchange_body": (["--scheme", "hmac", "--with", "template=binance"], r"signature=([0-9a-f]{64})"),
    "azure": (["--scheme", "azure-sharedkey", "--id", "acct"], r"SharedKey \w*:([\w+/]{43})"),
    "message": (["--scheme", "message", "--id", "my-key"], r"sig1=:([\w+/]{43})"),
    "oauth1": (["--scheme", "oauth1"], r'oauth_signature=\\"([\w%]+)'),
}


def value_for(scheme):
    if scheme == "message":
        return WORD(20)
    if scheme == "azure":
        return base64.b64encode(secrets.token_bytes(64)).decode()
    if scheme == "oauth1":
        return f"{WORD(16)}\n{WORD(16)}&{WORD(16)}\n{WORD(16)}\n"
    return f"AKIA{base64.b32encode(secrets.token_bytes(10)).decode()}\n{WORD(20)}\n"


@needs_python("h2", "botocore", "oauthlib")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_signature_that_is_made_anew(online, mirror, scheme):
    """A presigned URL is good for whoever has it: none of its signature comes back."""
    port = random.choice([H1, H2])
    options, pattern = SCHEMES[scheme]
    online.operator.cloister("secret", "add", "KEY", "--host", f"{WHERE}:{port}", *options, "--env", "KEY",
                             input=value_for(scheme)).ok()
    tests = [(part, "raw") for part in PARTS if part not in ("gzip", "deflate", "br", "zstd")] + \
        [("body", writing) for writing in WRITINGS if writing not in UNSEEN]
    before = len(mirror.seen('"mirror"'))
    done = online.python(RULES, SIGN, scheme, f"{WHERE}:{port}", json.dumps(tests), options=("-s", "KEY"))
    told = [json.loads(line) for line in done.ok().splitlines()]
    # A request whose answer nobody can read may be sent twice.
    sent = {}
    for line in mirror.seen('"mirror"')[before:]:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(json.loads(line)["target"]).query)
        sent.setdefault((query["to"][0], query["as"][0]), []).append(urllib.parse.unquote(re.search(pattern, line)[1]))
    assert [(to, writing) for to, writing, _ in told] == tests, online.events(type="http")
    assert set(sent) == set(tests)
    leaks = [(to, writing) for to, writing, data in told for real in sent[to, writing]
             if shows(base64.b64decode(data).decode("latin-1"), real)]
    assert not leaks
