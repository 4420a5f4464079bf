"""Our new signatures equal botocore's, on thousands of random requests; and an independent checker of signed chunks
judges ours."""
import hashlib
import hmac
import json
import random
import re
import subprocess
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from operators import BUILD

ROUNDS = 1500
# One that is always the same, and one that never was before.
SEEDS = (1, random.randrange(1 << 32))

PLACEHOLDER = {"id": "AKIAPLACEHOLDER12345", "secret": "placeholder/secret+0123456789", "token": ""}
REAL = {"id": "AKIAREALREALREALREAL", "secret": "real/secret+ABCDEFGHIJKLMNOPQR", "token": ""}
TOKENS = ("", "IQoJb3JpZ2luX2VjE/token+with=all==", "t")


class Resigner:
    def __init__(self):
        program = BUILD / "tests" / "resign"
        if not program.exists():
            pytest.fail(f"there is no {program}: run `make tests`")
        self.proc = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request):
        self.proc.stdin.write(json.dumps(request).encode() + b"\n")
        self.proc.stdin.flush()
        return json.loads(self.proc.stdout.readline())

    def close(self):
        self.proc.stdin.close()
        assert self.proc.wait(60) == 0


@pytest.fixture(scope="module")
def resigner():
    it = Resigner()
    yield it
    it.close()


# ---- random requests --------------------------------------------------------------------

ASCII = "".join(map(chr, range(0x20, 0x7f)))
WIDE = "äßéñ€漢字кирпич😀\u200b\u0301"
HOSTS = {"s3": "bucket.s3.eu-west-1.amazonaws.com", "dynamodb": "dynamodb.eu-west-1.amazonaws.com",
         "execute-api": "abc123.execute-api.eu-west-1.amazonaws.com", "s3-outposts": "h-1.example.com",
         "es": "search-x.eu-west-1.es.amazonaws.com"}


def text(rng, letters, least=0, most=12):
    return "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))


def path(rng, s3):
    """Backslashes and zero bytes, and what may be read as dot segments, never get past the gate."""
    parts = []
    for _ in range(rng.randint(0, 5)):
        part = text(rng, rng.choice((ASCII, ASCII + WIDE, "abc"))).replace("\\", "")
        if not re.search(r"(^|\W)\.", part):
            parts.append(part)
    whole = "/" + "/".join(parts) + rng.choice(("", "/"))
    if s3:
        return quote(whole, safe="/~")
    # Other services' clients leave more as it is.
    return quote(whole, safe=rng.choice(("/~", "/~:@!$&'()*+,=-._")))


def fields(rng):
    names = [f"x-amz-meta-{text(rng, 'abcdef-_.!#', 1, 6)}" for _ in range(rng.randint(0, 4))]
    names += rng.choices(("Content-Type", "Range", "If-Match", "Cache-Control", "X-Custom"),
                         k=rng.randint(0, 2))
    once, result = set(), []
    for name in names:
        if name.lower() in once and name in ("Content-Type", "Range"):
            continue
        once.add(name.lower())
        # Not what Python's str.split() takes for blanks and AWS does not.
        value = text(rng, ASCII + "\t   " + WIDE, 0, 30).strip(" \t")
        result.append((name, value))
    return result


def unsigned(rng, service, scheme):
    s3 = service.startswith("s3")
    port = rng.choice((None, None, 8443 if scheme == "https" else 9000))
    url = f"{scheme}://{HOSTS[service]}{f':{port}' if port else ''}{path(rng, s3)}"
    method = rng.choice(("GET", "PUT", "POST", "DELETE", "HEAD", "PATCH"))
    body = text(rng, ASCII + WIDE, 1, 40).encode() if method in ("PUT", "POST", "PATCH") else b""
    query = [(text(rng, ASCII + WIDE, 1, 8), text(rng, ASCII + WIDE, 0, 10))
             for _ in range(rng.choice((0, 0, 1, 2, 5)))]
    context = {}
    if s3 and rng.random() < 0.3:
        context["client_config"] = SimpleNamespace(s3={"payload_signing_enabled": False})
    if s3 and body and rng.random() < 0.3:
        context["checksum"] = {"request_algorithm": {"in": "trailer", "name": "x-amz-checksum-crc32"}}
    if not s3 and rng.random() < 0.2:
        context["payload_signing_enabled"] = False
    return {"method": method, "url": url, "fields": fields(rng), "body": body, "query": query,
            "context": context}


def sign(what, signer, time):
    """As the signer's add_auth, at a given time: the request as it goes out."""
    request = AWSRequest(method=what["method"], url=what["url"], data=what["body"] or None,
                         params=what["query"])
    for name, value in what["fields"]:
        request.headers[name] = value
    request.context.update(what["context"], timestamp=time)
    signer._modify_request_before_signing(request)
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    signer._inject_signature_to_request(request, signature)
    url = urlsplit(request.prepare().url)
    return {"method": what["method"], "host": url.hostname,
            "port": url.port or (443 if url.scheme == "https" else 80), "tls": url.scheme == "https",
            "path": url.path + (f"?{url.query}" if url.query else ""), "body": what["body"].hex(),
            "fields": [[name.lower(), value] for name, value in request.headers.items()
                       if name.lower() not in ("host", "content-length", "transfer-encoding")]}


def signer(kind, key, service):
    credentials = Credentials(key["id"], key["secret"], key["token"] or None)
    return kind(credentials, service, "eu-west-1")


def compare(resigner, seed, kinds, expected_next):
    rng = random.Random(seed)
    seen = set()
    ambiguous = 0
    for i in range(ROUNDS):
        service = rng.choice(list(HOSTS))
        kind = kinds[service.startswith("s3")]
        what = unsigned(rng, service, rng.choice(("https", "http")))
        if "Query" in kind.__name__:
            # A URL carries no body parameters, and botocore keeps one value of each name.
            what.update(query=list(dict(what["query"]).items()), body=b"", context={})
        time = f"2026{rng.randint(1, 12):02}{rng.randint(1, 28):02}T{rng.randint(0, 235959):06}Z"
        mine = dict(PLACEHOLDER, token=rng.choice(TOKENS))
        real = dict(REAL, token=rng.choice(TOKENS))
        before = sign(what, signer(kind, mine, service), time)
        want = sign(what, signer(kind, real, service), time)
        got = resigner.ask(scheme="sigv4", **{"from": mine}, to=real, **before)
        note = f"seed {seed}, request {i}: {what}"
        # An escaped per cent sign may be the beginning of an escaped dot.
        if "path is ambiguous" in got.get("error", "") and "%25" in before["path"]:
            ambiguous += 1
            continue
        assert "error" not in got, f"{note}\n{got}"
        assert got["path"] == normal(want["path"]), note
        assert sorted(map(tuple, got["fields"])) == sorted(map(tuple, want["fields"])), note
        assert got["next"] == expected_next(what, service, before), note
        seen.add((got["next"], service.startswith("s3"), bool(mine["token"]), bool(real["token"])))
        # The other key is not taken for this one.
        if i % 10 == 0:
            wrong = dict(mine, secret=mine["secret"][:-1])
            refused = resigner.ask(scheme="sigv4", **{"from": wrong}, to=real, **before)
            assert "signature is wrong" in refused["error"], note
    assert ambiguous < ROUNDS / 50
    assert {s[2:] for s in seen} == {(a, b) for a in (False, True) for b in (False, True)}
    return seen


def normal(wire):
    """The gate's form of a path: botocore's paths need no more."""
    return re.sub("%7E", "~", wire)


@pytest.mark.parametrize("seed", SEEDS)
def test_in_fields(resigner, seed):
    def expected(what, service, before):
        declared = any(name == "x-amz-content-sha256" for name, _ in before["fields"])
        return "done" if declared or not what["body"] else "body"

    seen = compare(resigner, seed, (auth.SigV4Auth, auth.S3SigV4Auth), expected)
    assert {s[:2] for s in seen} == {("done", True), ("done", False), ("body", False)}


@pytest.mark.parametrize("seed", SEEDS)
def test_in_the_query(resigner, seed):
    compare(resigner, seed, (auth.SigV4QueryAuth, auth.S3SigV4QueryAuth), lambda *_: "done")


# ---- signed chunks ------------------------------------------------------------------------

SCOPE = "20260102/eu-west-1/s3/aws4_request"
TIME = "20260102T030405Z"


def mac(key, message):
    return hmac.new(key, message.encode(), "sha256").digest()


def signing_key(secret):
    key = b"AWS4" + secret.encode()
    for word in SCOPE.split("/"):
        key = mac(key, word)
    return key


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Chain:
    """Each signature covers the one before."""

    def __init__(self, secret, seed):
        self.key, self.last = signing_key(secret), seed

    def chunk(self, data):
        self.last = mac(self.key, "\n".join(("AWS4-HMAC-SHA256-PAYLOAD", TIME, SCOPE, self.last,
                                             sha(b""), sha(data)))).hex()
        return self.last

    def trailer(self, canonical):
        return mac(self.key, "\n".join(("AWS4-HMAC-SHA256-TRAILER", TIME, SCOPE, self.last,
                                        sha(canonical)))).hex()


def write_chunks(rng, chain, data, trailer, style):
    body, at = b"", 0
    while True:
        size = rng.choice((1, 100, 8192, 65536, 131072))
        piece = data[at:at + size]
        at += size
        digits = format(len(piece), rng.choice(("x", "X", "08x")))
        body += f"{digits};chunk-signature={chain.chunk(piece)}\r\n".encode() + piece
        if not piece:
            break
        body += b"\r\n"
    if trailer is None:
        return body + b"\r\n"
    line = b"x-amz-checksum-crc32:" + trailer
    signature = f"x-amz-trailer-signature:{chain.trailer(line + bytes([10]))}\r\n".encode()
    return body + line + (b"\r\n", b"\n\r\n")[style] + signature + b"\r\n"


def check_chunks(chain, body, trailer):
    """The data of a body whose every signature is right."""
    data = b""
    while True:
        line, body = body.split(b"\r\n", 1)
        size, signature = re.fullmatch(rb"([0-9a-fA-F]+);chunk-signature=([0-9a-f]{64})", line).groups()
        piece, body = body[:int(size, 16)], body[int(size, 16):]
        assert chain.chunk(piece) == signature.decode()
        data += piece
        if not piece:
            break
        assert body.startswith(b"\r\n")
        body = body[2:]
    if trailer is None:
        assert body == b"\r\n"
        return data
    match = re.fullmatch(rb"x-amz-checksum-crc32:(.*?)\r?\n(?:\r\n)?x-amz-trailer-signature:"
                         rb"([0-9a-f]{64})\r\n\r\n", body)
    assert match[1] == trailer
    assert match[2].decode() == chain.trailer(b"x-amz-checksum-crc32:" + trailer + b"\n")
    return data


def upload(rng, trailer, style):
    """A request, its seed signed by hand, and its body."""
    word = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("" if trailer is None else "-TRAILER")
    data = rng.randbytes(rng.choice((0, 1, 70000, 400000)))
    head = [["content-encoding", "aws-chunked"], ["x-amz-content-sha256", word],
            ["x-amz-date", TIME], ["x-amz-decoded-content-length", str(len(data))]]
    if trailer is not None:
        head.append(["x-amz-trailer", "x-amz-checksum-crc32"])
    seed = seed_of(PLACEHOLDER, head)
    body = write_chunks(rng, Chain(PLACEHOLDER["secret"], seed), data, trailer, style)
    names = ";".join(sorted(["host", *(name for name, _ in head)]))
    head.append(["authorization", f"AWS4-HMAC-SHA256 Credential={PLACEHOLDER['id']}/{SCOPE}, "
                 f"SignedHeaders={names}, Signature={seed}"])
    return data, {"method": "PUT", "host": HOSTS["s3"], "port": 443, "tls": True, "path": "/key",
                  "fields": head, "body": body.hex()}


def seed_of(key, head):
    lines = sorted([["host", HOSTS["s3"]], *head])
    canonical = "\n".join(("PUT", "/key", "", *(f"{n}:{v}" for n, v in lines), "",
                           ";".join(n for n, _ in lines), dict(head)["x-amz-content-sha256"]))
    return mac(signing_key(key["secret"]), "\n".join(("AWS4-HMAC-SHA256", TIME, SCOPE,
                                                      sha(canonical.encode())))).hex()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("trailer", (None, b"AAAAAA==", b"hash with blanks"))
def test_chunks(resigner, seed, trailer):
    rng = random.Random(seed)
    for i in range(12):
        data, request = upload(rng, trailer, rng.randrange(2))
        got = resigner.ask(scheme="sigv4", **{"from": PLACEHOLDER}, to=REAL,
                           piece=rng.choice((1000, 65536, 1 << 20)), **request)
        assert got.get("next") == "chunks", f"seed {seed}, upload {i}: {got}"
        credential, _, signature = dict(got["fields"])["authorization"].split(", ")
        assert REAL["id"] in credential
        plain = [pair for pair in got["fields"] if pair[0] != "authorization"]
        assert signature == f"Signature={seed_of(REAL, plain)}"
        chain = Chain(REAL["secret"], signature.removeprefix("Signature="))
        assert check_chunks(chain, bytes.fromhex(got["body"]), trailer) == data


@pytest.mark.parametrize("trailer", (None, b"AAAAAA=="))
def test_changed_chunks_are_refused(resigner, trailer):
    """Wherever a bit is turned over; only how the lines end is not signed, and some of it
    is taken in more than one way."""
    rng = random.Random(SEEDS[1])
    _, request = upload(rng, trailer, 0)
    body = bytes.fromhex(request["body"])
    for _ in range(300):
        at = rng.randrange(len(body))
        bad = bytearray(body)
        bad[at] ^= 1 << rng.randrange(8)
        got = resigner.ask(scheme="sigv4", **{"from": PLACEHOLDER}, to=REAL, piece=1 << 16,
                           **dict(request, body=bad.hex()))
        if "error" not in got:
            # A size or a trailer's name in other letters, and a blank for a line's CR, are
            # the same.
            def plain(text):
                return re.sub(rb"[ \t\r]", b"", re.sub(rb"[0-9a-fA-F]+;chunk|^x-amz[^:]*",
                                                      lambda m: m[0].lower(), text, flags=re.M | re.I))
            assert plain(bytes(bad)) == plain(body), f"seed {SEEDS[1]}, byte {at}"
