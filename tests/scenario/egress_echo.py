#!/usr/bin/python3
"""Gives back whatever it got, in every coding that a server may think of.

As part of egress_servers.py it is /reflect?seed=N; by itself, egress_echo.py FOLDER ADDRESS PORT, it
is a WebSocket.  The seed decides which of the ways; the judge (test_egress_echo.py) knows none of
them, and takes apart what it sees.
"""
import asyncio
import base64
import gzip
import json
import random
import ssl
import sys
import urllib.parse
import zlib


def escape_all(text):
    return "".join(f"\\u{ord(c):04x}" for c in text)


def escape_some(text, dice):
    return "".join(dice.choice([c, f"\\u{ord(c):04X}", f"\\u{ord(c):04x}"]) if c != "/" else "\\/" for c in text)


def percent_some(text, dice):
    return "".join(dice.choice([urllib.parse.quote(c), f"%{ord(c):02x}", f"%{ord(c):02X}"]) for c in text)


def render(text, dice):
    """TEXT as somebody may write it."""
    text = "".join(c for c in text if " " <= c <= "~")
    around = "".join(dice.choices("abcXYZ019 ", k=dice.randrange(7)))
    raw = (around + text + around).encode()
    return dice.choice([
        lambda: text,
        lambda: base64.b64encode(raw).decode(),
        lambda: base64.urlsafe_b64encode(raw).decode().rstrip("="),
        lambda: urllib.parse.quote(base64.b64encode(raw).decode(), safe=""),
        lambda: raw.hex(),
        lambda: raw.hex().upper(),
        lambda: urllib.parse.quote(text, safe=""),
        lambda: "".join(f"%{b:02x}" for b in raw),
        lambda: percent_some(text, dice),
        lambda: json.dumps(text),
        lambda: json.dumps({"a": [text]}).replace("/", "\\/"),
        lambda: escape_all(text),
        lambda: escape_some(text, dice),
    ])()


def pack(data, dice):
    """DATA, and how it is packed."""
    packers = {"": lambda d: d, "gzip": gzip.compress, "deflate": zlib.compress}
    for module, name in (("brotli", "br"), ("zstandard", "zstd")):
        try:
            packers[name] = __import__(module).compress
        except ImportError:
            pass
    names = dice.choices(list(packers), k=dice.choice([1, 1, 1, 2]))
    for name in names:
        data = packers[name](data)
    return data, ", ".join(name for name in names if name)


async def reflect(x):
    """Everything of the request, over and over."""
    dice = random.Random(x.query.get("seed"))
    body = b"".join([piece async for piece in x.body()]).decode("latin-1")
    got = [x.target, body, *(value for _, value in x.fields)]
    got += [base64.b64decode(value[6:]).decode("latin-1") for _, value in x.fields
            if value.startswith("Basic ")]
    filler = "".join(dice.choices("lorem ipsum \\%\"{}=&+/\n", k=dice.choice([0, 10, 40000])))
    page = "".join(render(text, dice) + dice.choice([filler, " ", "\n", ""]) for _ in range(3) for text in got)
    data, coding = pack(page.encode(), dice)
    fields = {f"x-got-{i}": render(text, dice)[:4000] for i, text in enumerate(dice.sample(got, min(3, len(got))))}
    fields["content-type"] = dice.choice(["text/plain", "application/json", "application/octet-stream"])
    if coding:
        fields["content-encoding"] = coding
    if dice.random() < 0.4:
        await x.answer(dice.choice([200, 404, 500]), data, **fields)
        return
    x.chunked(**fields, trailer="x-last")
    while data:
        n = dice.choice([1, 7, 1000, 30000])
        await x.chunk(data[:n])
        data = data[n:]
    x.write("0\r\nx-last: " + render(dice.choice(got), dice)[:4000] + "\r\n\r\n")


async def talk(peer, _path=None):
    async for message in peer:
        text = message if isinstance(message, str) else message.decode("latin-1")
        dice = random.Random(len(text))
        for _ in range(4):
            said = render(text, dice)
            if dice.random() < 0.5:
                said = said.encode()
            cut = sorted(dice.choices(range(len(said)), k=3))
            pieces = [said[a:b] for a, b in zip([0, *cut], [*cut, len(said)])]
            await peer.send(dice.choice([said, pieces]))
        await peer.ping(text[-100:])
        if "close" in text:
            await peer.close(4000, text[-100:])


async def websocket(folder, address, port):
    import websockets

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/keys/good.crt", f"{folder}/keys/good.key")
    async with websockets.serve(talk, address, port, ssl=context):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(websocket(sys.argv[1], sys.argv[2], int(sys.argv[3])))
