"""Paths that some servers read as dot segments: no rule ever sees one.

The judges are decoders that we did not write: Python's unquote, its codecs and its NFKC, in any
order and as often as it takes, as lenient servers combine them.
"""
import json
import random
import re
import unicodedata
from urllib.parse import quote, unquote_to_bytes

import pytest

POLICY = "version: 1\negress:\n  - allow: a.example\n    paths: [/allowed/**]\n"

SPELLINGS = [
    "..%09", "..%20", "..%0d%0a", ".%09.", "..%7f", "%c0%ae%c0%ae", "%e0%80%ae.", "..%c0%af..", "..%c1%9cx",
    "%f0%80%80%ae.", "%252e%252e", ".%252e", "%25252e.", "..%252f", "\uff0e\uff0e", "..\uff0fx", "\u2025", "..;",
    "..;a=b", "..%3b", "..%2f", "%%32%65.", "%u002e.", "..\u200b", "..%ff", "..%3fx",
]

INNOCENT = ["file.txt", "v1%252e2", "a%252Fb", "@scope%2fname", "100%25", "ä.ö", "...", "c++", "%D0%90.%D0%A1.", ".well-known",
        "a..b", "%20", "main...fix", "x;y=.."]


def escaped(path):
    """As most clients send it; a file of cases has no invisible characters."""
    return quote(path, safe="/%+;:@&=$,!*'().~")


def verdicts(operator, paths):
    """The policy's verdict on each path, and the reason."""
    policy = operator.file("p/p.yaml", POLICY)
    operator.file("p/p.test.yaml", "".join(
        f"- {{url: {json.dumps('https://a.example' + escaped(path))}, expect: allow}}\n" for path in paths))
    done = operator.cloister("policy", "test", "--json", policy)
    return [(case["got"], case["why"]) for case in json.loads(done.out)]


def is_traversal(text):
    return re.search(r"(?:^|/)\.\.?(?:$|/)", text) is not None


def overlong(data):
    """The result of UTF-8 decoders that only shift and mask."""
    out, i = bytearray(), 0
    while i < len(data):
        lead = data[i]
        n = 2 if lead >> 5 == 6 else 3 if lead >> 4 == 14 else 4 if lead >> 3 == 30 else 1
        code = lead & (0x7f >> n) if n > 1 else lead
        rest = data[i + 1:i + n]
        if n > 1 and len(rest) == n - 1 and all(c >> 6 == 2 for c in rest):
            for c in rest:
                code = code << 6 | c & 63
            if code < 128:
                out.append(code)
                i += n
                continue
        out.append(lead)
        i += 1
    return bytes(out)


def long_escapes(data):
    return re.sub(rb"%[uU]([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)).encode("utf-8", "ignore"), data)


DECODERS = [
    unquote_to_bytes,
    long_escapes,
    overlong,
    lambda data: re.sub(rb"[\x00-\x20\x7f]", b"", data),
    lambda data: data.replace(b"+", b" "),
    lambda data: data.replace(b"\\", b"/"),
    lambda data: re.sub(rb"[;?#\x00].*?(?=/|$)", b"", data, flags=re.S),
    lambda data: data.decode("utf-8", "ignore").encode(),
    lambda data: unicodedata.normalize("NFKC", data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"),
    lambda data: "".join(c for c in data.decode("utf-8", "surrogateescape")
                         if unicodedata.category(c) not in ("Cc", "Cf", "Zs")).encode("utf-8", "surrogateescape"),
]


def readings(path, most=400):
    """Everything that the decoders can make of PATH."""
    seen, todo = {path}, [path]
    while todo and len(seen) < most:
        data = todo.pop()
        for decode in DECODERS:
            made = decode(data)
            if made not in seen:
                seen.add(made)
                todo.append(made)
    return seen


def resolved(path):
    """As RFC 3986 has it, with what is unreserved decoded: this much everybody does."""
    path = re.sub(rb"%([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)])
                  if re.match(rb"[\w.~-]", bytes([int(m[1], 16)])) and int(m[1], 16) < 128 else m[0], path)
    out = []
    for part in path.split(b"/")[1:]:
        if part == b"..":
            out = out[:-1]
        elif part != b".":
            out.append(part)
    return b"/" + b"/".join(out)


def test_every_spelling_is_refused_with_the_reason(operator):
    for got, why in verdicts(operator, [f"/allowed/{s}/secret" for s in SPELLINGS]):
        assert got == "deny" and "some servers read a part of it as '.' or '..'" in why


def test_innocent_dots_pass(operator):
    assert {got for got, _ in verdicts(operator, [f"/allowed/{s}/x" for s in INNOCENT])} == {"allow"}


def test_explain_tells_why(operator):
    policy = operator.file("p/p.yaml", POLICY)
    said = operator.cloister("policy", "explain", policy, "https://a.example/allowed/..%09/x").ok()
    assert said.startswith("deny: ") and "some servers read" in said


ATOMS = [".", ".", "..", "%2e", "%252e", "%25", "%", "2e", "2", "e", "/", "%2f", "%252f", "%255c", ";", "%3b", "+", "%09",
         "%20", "%0a", "%7f", "%c0%ae", "%c0", "%ae", "%e0%80%ae", "%c0%af", "%f0%80%80", "\uff0e", "\uff0f", "\uff05", "\uff12",
         "\uff45", "\u2024", "\u2025", "\u200b", "\u00a0", "\u3000", "\u00b2", "\u1d49", "\u2488", "%u002e", "%u", "ff0e", "%ff",
         "%e2%80", "%a4", "%25e2", "%2580", "%25a4", "%3f", "%23", "%2500", "a", "\u00e9"]


@pytest.mark.parametrize("seed", range(4))
def test_no_decoder_finds_dots_in_accepted_paths(operator, seed):
    rng = random.Random(seed)
    paths = ["/allowed/" + "".join(rng.choices(ATOMS, k=rng.randint(1, 6))) for _ in range(4000)]
    accepted = [p for p, (got, why) in zip(paths, verdicts(operator, paths)) if why is None]
    assert len(accepted) > 400, "a test of nothing"
    for path in accepted:
        sent = resolved(escaped(path).encode())
        for reading in readings(sent):
            text = reading.decode("utf-8", "replace")
            assert not is_traversal(text), f"{path!r} is accepted, sent as {sent!r}, and can be read as {text!r}"
