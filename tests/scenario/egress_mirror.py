#!/usr/bin/python3
"""A server that reflects what it got into one part of its answer: egress_mirror.py FOLDER ADDRESS H1 H2

`?to=` names the part, `?as=` how it is written there.  On the port H1 it speaks HTTP/1.1, on H2
HTTP/2.  It knows nothing of secrets: it gives back every long word of a request.
"""
import asyncio
import base64
import gzip
import html
import json
import re
import ssl
import sys
import zlib
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

FOLDER = Path(sys.argv[1]) if __name__ == "__main__" else None


def twice(raw):
    return base64.b64encode(base64.b64encode(b"ab" + raw) + b"=" * 2)


def lines_of(raw):
    """As mails have it: base64 in lines."""
    return base64.encodebytes(b"0123456789" * 4 + raw + b"0123456789")


def quoted(raw, every):
    """Quoted-printable, with soft line breaks after each EVERY characters, but in no escape."""
    text = [b"=3D" if b == ord("=") else bytes([b]) for b in raw]
    return b"=\r\n".join(b"".join(text[i:i + every]) for i in range(0, len(text), every))


# How a server may write a text in a body.
WRITINGS = {
    "raw": lambda raw: raw,
    "hex": lambda raw: raw.hex().encode(),
    "HEX": lambda raw: raw.hex().upper().encode(),
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
    "base64 inside": lambda raw: base64.b64encode(b"user:" + raw + b";"),
    "base64 twice": twice,
    "base64 in lines": lines_of,
    "percent": lambda raw: b"".join(b"%%%02X" % b for b in raw),
    "json": lambda raw: b"".join(b"\\u%04x" % b for b in raw),
    "json slashes": lambda raw: json.dumps(raw.decode("latin-1")).replace("/", "\\/").encode(),
    "javascript": lambda raw: b"".join(b"\\x%02x" % b for b in raw),
    "javascript braces": lambda raw: b"".join(b"\\u{%x}" % b for b in raw),
    "octal": lambda raw: b"".join(b"\\%03o" % b for b in raw),
    "html": lambda raw: html.escape(raw.decode("latin-1")).replace("/", "&#x2F;").replace("+", "&#43;").encode(),
    "html decimal": lambda raw: b"".join(b"&#%d;" % b for b in raw),
    "html hex": lambda raw: b"".join(b"&#x%X;" % b for b in raw),
    "html names": lambda raw: raw.replace(b"/", b"&sol;").replace(b"+", b"&plus;").replace(b"=", b"&equals;"),
    "quoted-printable": lambda raw: quoted(raw, 20),
    "quoted-printable 3": lambda raw: quoted(raw, 3),
    "quoted-printable all": lambda raw: b"".join(b"=%02X" % b for b in raw),
    "utf-16-le": lambda raw: raw.decode("latin-1").encode("utf-16-le"),
    "utf-16-be": lambda raw: raw.decode("latin-1").encode("utf-16-be"),
    "upper": bytes.upper,
    "lower": bytes.lower,
}


# Of these, what is not looked for; docs/secrets-scrubbing.md explains why.
UNSEEN = ["base64 twice", "base64 in lines"]
# The parts of an answer.
PARTS = ["reason", "name", "value", "location", "challenge", "interim", "trailer", "trailer name", "extension",
         "bad name", "bad value", "gzip", "deflate", "br", "zstd", "body"]


def name_of(word):
    """WORD as a part of the name of a field."""
    return "x-" + re.sub(r"[^A-Za-z0-9_.~%-]", "-", word)[:400]


def packed(data, coding):
    if coding in ("br", "zstd"):
        return __import__({"br": "brotli", "zstd": "zstandard"}[coding]).compress(data)
    return {"gzip": gzip.compress, "deflate": zlib.compress}[coding](data)


class Answer:
    """Its parts, in the order in which they are sent."""

    def __init__(self):
        self.interim = self.reason = self.extension = ""
        self.status, self.fields, self.trailers, self.data = 200, [], [], b"ok"


def reflected(words, to, writing):
    """WORDS in the part TO of an answer."""
    answer = Answer()
    text = " ".join(words)
    if to == "reason":
        answer.reason = text
    elif to == "name":
        answer.fields = [(name_of(word), "1") for word in words]
    elif to == "value":
        answer.fields = [("x-got", text), ("set-cookie", f"k={words[0] if words else ''}"), ("content-disposition", text)]
    elif to == "location":
        answer.status, answer.fields = 302, [("location", "/?" + "&".join(words))]
    elif to == "challenge":
        answer.status, answer.fields = 401, [("www-authenticate", f'Basic realm="{text}"')]
    elif to == "interim":
        answer.interim = [("link", f"<{text}>")] + [(name_of(word), "1") for word in words]
    elif to == "trailer":
        answer.trailers = [("x-last", text)]
    elif to == "trailer name":
        answer.trailers = [(name_of(word), "1") for word in words]
    elif to == "extension":
        answer.extension = "".join(f';x="{word}"' for word in words)
    elif to == "bad name":
        answer.fields = [(name_of(word) + "(", "1") for word in words]
    elif to == "bad value":
        answer.fields = [("content-length", text)]
    elif to in ("gzip", "deflate", "br", "zstd"):
        answer.fields, answer.data = [("content-encoding", to)], packed(text.encode("latin-1"), to)
    else:
        answer.data = b"\r\n<" + b">\r\n<".join(WRITINGS[writing](word.encode("latin-1")) for word in words) + b">"
    return answer


def words_of(target, fields, body):
    """All that is long enough to be something."""
    got = [unquote(target), unquote(body), body, *(value for _, value in fields)]
    for _, value in fields:
        if value.startswith("Basic "):
            got.append(base64.b64decode(value[6:]).decode("latin-1"))
    found = []
    for text in got:
        found += [word for word in re.findall(r"[A-Za-z0-9_.~+/=%-]{20,}", text) if word not in found]
    return found


def answer_to(method, target, fields, body):
    query = {key: values[-1] for key, values in parse_qs(urlsplit(target).query).items()}
    with open(FOLDER / "seen.jsonl", "a") as log:
        log.write(json.dumps({"server": "mirror", "method": method, "target": target, "fields": fields,
                              "body": body}) + "\n")
    return reflected(words_of(target, fields, body), query.get("to", "body"), query.get("as", "raw"))


# ---- HTTP/1.1 ----------------------------------------------------------------------------

async def read_body(reader, fields):
    named = dict(fields)
    if "chunked" not in named.get("transfer-encoding", ""):
        return await reader.readexactly(int(named.get("content-length", 0)))
    data = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        data += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass
    return data


def lines(fields):
    return "".join(f"{name}: {value}\r\n" for name, value in fields)


async def serve_h1(reader, writer):
    try:
        while line := await reader.readline():
            method, target, _ = line.decode("latin-1").split(" ", 2)
            fields = []
            while (line := await reader.readline()).strip():
                name, _, value = line.decode("latin-1").partition(":")
                fields.append((name.lower(), value.strip()))
            body = await read_body(reader, fields)
            a = answer_to(method, target, fields, body.decode("latin-1"))
            said = f"HTTP/1.1 103 Early\r\n{lines(a.interim)}\r\n" if a.interim else ""
            said += f"HTTP/1.1 {a.status} {a.reason}\r\n{lines(a.fields)}transfer-encoding: chunked\r\n\r\n"
            data = said.encode("latin-1") + f"{len(a.data):x}{a.extension}\r\n".encode("latin-1") + a.data
            writer.write(data + f"\r\n0{a.extension}\r\n{lines(a.trailers)}\r\n".encode("latin-1"))
            await writer.drain()
    except (ConnectionError, ValueError, asyncio.IncompleteReadError, ssl.SSLError):
        pass
    finally:
        writer.close()


# ---- HTTP/2 ------------------------------------------------------------------------------

def send_h2(c, stream, a):
    if a.interim:
        c.send_headers(stream, [(":status", "103"), *((n.lower(), v) for n, v in a.interim)])
    c.send_headers(stream, [(":status", str(a.status)), *((n.lower(), v) for n, v in a.fields)])
    for i in range(0, len(a.data), 16000):
        c.send_data(stream, a.data[i:i + 16000])
    if a.trailers:
        c.send_headers(stream, [(n.lower(), v) for n, v in a.trailers], end_stream=True)
    else:
        c.end_stream(stream)


async def serve_h2(reader, writer):
    import h2.config
    import h2.connection
    import h2.events
    c = h2.connection.H2Connection(h2.config.H2Configuration(
        client_side=False, header_encoding="latin-1", validate_outbound_headers=False,
        normalize_outbound_headers=False))
    c.initiate_connection()
    writer.write(c.data_to_send())
    heads, bodies = {}, {}
    try:
        while data := await reader.read(65536):
            for event in c.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    heads[event.stream_id], bodies[event.stream_id] = event.headers, b""
                elif isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] += event.data
                    c.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    head = dict(heads[event.stream_id])
                    fields = [(n, v) for n, v in heads[event.stream_id] if not n.startswith(":")]
                    send_h2(c, event.stream_id, answer_to(head[":method"], head[":path"], fields,
                                                          bodies[event.stream_id].decode("latin-1")))
            writer.write(c.data_to_send())
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def main(address, h1, h2):
    for port, serve, protocol in ((h1, serve_h1, "http/1.1"), (h2, serve_h2, "h2")):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(FOLDER / "keys/good.crt", FOLDER / "keys/good.key")
        context.set_alpn_protocols([protocol])
        await asyncio.start_server(serve, address, int(port), ssl=context)
    print("ready", flush=True)
    # Its tests have ended when there is no more to read.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[2:]))
