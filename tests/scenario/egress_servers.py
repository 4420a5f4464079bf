#!/usr/bin/python3
"""Servers with manners, good and bad, for the egress tests: egress_servers.py KIND FOLDER

KIND is http, sink, websocket, grpc or proxy.  Started by egress_world.py.
"""
import asyncio
import hashlib
import inspect
import json
import socket
import ssl
import sys
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from egress_echo import reflect
from egress_world import GRPC, HAS_IPV6, PRIVATE, PRIVATE6, PROXY, SINK_PORT, UP, UP6, WS

FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else None
PIECE = b"0123456789abcdef" * 4096


def tls(protocols=("http/1.1",)):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "keys/good.crt", FOLDER / "keys/good.key")
    context.set_alpn_protocols(list(protocols))
    return context


# ---- HTTP/1.1, each path a behaviour -----------------------------------------------------

class Exchange:
    """One request on a connection."""

    def __init__(self, reader, writer, method, target, fields):
        self.reader, self.writer = reader, writer
        self.method, self.target, self.fields = method, target, fields
        url = urlsplit(target)
        self.path, self.query = url.path, {k: v[-1] for k, v in parse_qs(url.query).items()}

    def field(self, name):
        return next((value for key, value in self.fields if key == name), "")

    async def body(self):
        """The request's body, piece by piece; trailers go to the fields."""
        if "chunked" in self.field("transfer-encoding"):
            while size := int((await self.reader.readline()).split(b";")[0], 16):
                while size:
                    piece = await self.reader.read(min(size, 1 << 20))
                    if not piece:
                        raise ConnectionError("cut")
                    size -= len(piece)
                    yield piece
                await self.reader.readline()
            while (line := await self.reader.readline()).strip():
                key, _, value = line.decode("latin-1").partition(":")
                self.fields.append((key.lower(), value.strip()))
            return
        left = int(self.field("content-length") or 0)
        while left:
            piece = await self.reader.read(min(left, 1 << 20))
            if not piece:
                raise ConnectionError("cut")
            left -= len(piece)
            yield piece

    async def answer(self, status, data=b"", **fields):
        data = data if isinstance(data, bytes) else data.encode()
        head = {"content-type": "text/plain", "content-length": str(len(data)),
                **{key.replace("_", "-"): value for key, value in fields.items()}}
        self.write(f"HTTP/1.1 {status} Word\r\n" +
                   "".join(f"{key}: {value}\r\n" for key, value in head.items()) + "\r\n")
        if self.method != "HEAD":
            self.writer.write(data)
        await self.writer.drain()

    def write(self, text):
        self.writer.write(text.encode("latin-1") if isinstance(text, str) else text)

    async def chunk(self, data):
        data = data if isinstance(data, bytes) else data.encode()
        self.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    def chunked(self, **fields):
        self.write("HTTP/1.1 200 Word\r\ntransfer-encoding: chunked\r\n" +
                   "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in fields.items()) + "\r\n")


async def echo(x):
    """What arrived, as JSON."""
    digest, size = hashlib.sha256(), 0
    async for piece in x.body():
        digest.update(piece)
        size += len(piece)
    told = {"method": x.method, "target": x.target, "fields": x.fields, "size": size,
            "sha256": digest.hexdigest()}
    await x.answer(int(x.query.get("status", 200)), json.dumps(told),
                   content_type="application/json")


async def generate(x):
    left = int(x.query["n"])
    x.write(f"HTTP/1.1 200 Word\r\ncontent-length: {left}\r\n\r\n")
    while left > 0:
        x.writer.write(PIECE[:left])
        left -= len(PIECE)
        await x.writer.drain()


async def turn_around(x):
    """Each piece of the body goes back as it comes."""
    x.chunked(content_type="application/octet-stream")
    async for piece in x.body():
        await x.chunk(piece)
    x.write("0\r\n\r\n")


async def events(x):
    x.chunked(content_type="text/event-stream", cache_control="no-cache")
    for i in range(int(x.query.get("n", 3))):
        await x.chunk(f"id: {i}\ndata: event {i}\n\n")
        await asyncio.sleep(float(x.query.get("every", 0.1)))
    x.write("0\r\n\r\n")


async def trailers(x):
    x.chunked(trailer="x-sum")
    await x.chunk("with trailers\n")
    x.write("0\r\nx-sum: 14\r\n\r\n")


async def hints(x):
    x.write("HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n")
    await x.answer(200, "after hints\n")


async def refuse_early(x):
    """Before the body is there; what comes of it is thrown away for a while."""
    await x.answer(413, "too much\n", connection="close")
    try:
        async with asyncio.timeout(1):
            while await x.reader.read(1 << 20):
                pass
    except TimeoutError:
        pass
    raise ConnectionError("done")


async def stall(x):
    """The head and some of the body, then nothing for long."""
    x.write("HTTP/1.1 200 Word\r\ncontent-length: 100\r\n\r\nsome")
    await x.writer.drain()
    await asyncio.sleep(float(x.query.get("for", 600)))


async def silent(x):
    await asyncio.sleep(float(x.query.get("for", 600)))
    await x.answer(200, "late\n")


def cut(x):
    """A reset, not an end."""
    plain = x.writer.transport.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    x.writer.transport.abort()
    raise ConnectionError("cut")


async def reset(x):
    if "after" in x.query:
        x.write("HTTP/1.1 200 Word\r\ncontent-length: 100\r\n\r\n" + "x" * int(x.query["after"]))
        await x.writer.drain()
        await asyncio.sleep(0.05)
    cut(x)


async def short(x):
    x.write("HTTP/1.1 200 Word\r\ncontent-length: 100\r\n\r\nonly this")
    raise ConnectionError("short")


async def until_close(x):
    x.write("HTTP/1.1 200 Word\r\nconnection: close\r\ncontent-type: text/plain\r\n\r\nto the end\n")
    raise ConnectionError("done")


async def no_content(x):
    x.write("HTTP/1.1 204 Word\r\n\r\n")


async def not_modified(x):
    x.write('HTTP/1.1 304 Word\r\netag: "1"\r\n\r\n')


async def away(x):
    await x.answer(302, "", location=x.query["to"])


async def locked(x):
    """For who says who they are: most clients say so only when they are asked."""
    if x.field("authorization"):
        await x.answer(404, "no such thing\n")
    else:
        await x.answer(401, "who are you?\n", www_authenticate='Basic realm="x"')


async def raw(x):
    """Bytes that a test put into FOLDER/raw/NAME; with &bare=1 TLS ends without close_notify."""
    x.write((FOLDER / "raw" / x.query["name"]).read_bytes())
    if "bare" in x.query:
        await x.writer.drain()
        await asyncio.sleep(0.05)
        x.writer.transport.abort()
    raise ConnectionError("done")


async def judged(x):
    """At /judge/NAME/...: code that a test put into FOLDER/judge/NAME says what it thinks of it."""
    body = b"".join([piece async for piece in x.body()])
    space = {}
    exec((FOLDER / "judge" / x.path.split("/")[2]).read_text(), space)
    try:
        status, told = 200, space["judge"](x.method, f"https://{x.field('host')}{x.target}",
                                           dict(x.fields), body)
    except Exception as error:
        status, told = 401, {"error": repr(error)}
    note(server="judge", target=x.target, status=status, body=body.decode("latin-1"), told=told)
    await x.answer(status, json.dumps(told), content_type="application/json")


PATHS = {"/echo": echo, "/generate": generate, "/turn": turn_around, "/events": events,
         "/trailers": trailers, "/hints": hints, "/refuse": refuse_early, "/stall": stall,
         "/silent": silent, "/reset": reset, "/short": short, "/until-close": until_close,
         "/204": no_content, "/304": not_modified, "/away": away, "/raw": raw, "/reflect": reflect,
         "/locked.git/info/refs": locked}


def note(**what):
    with open(FOLDER / "seen.jsonl", "a") as log:
        log.write(json.dumps(what) + "\n")


async def serve_http(reader, writer):
    try:
        while line := await reader.readline():
            method, target, _ = line.decode("latin-1").split(" ", 2)
            fields = []
            while (line := await reader.readline()).strip():
                key, _, value = line.decode("latin-1").partition(":")
                fields.append((key.lower(), value.strip()))
            x = Exchange(reader, writer, method, target, fields)
            note(server="http", at=writer.get_extra_info("sockname")[0], method=method,
                 target=target, host=x.field("host"), fields=fields)
            if x.field("expect") == "100-continue" and x.path != "/refuse":
                x.write("HTTP/1.1 100 Continue\r\n\r\n")
            known = judged if x.path.startswith("/judge/") else PATHS.get(x.path)
            await (known or (lambda x: x.answer(404, "no such thing\n")))(x)
            await writer.drain()
            if "close" in x.field("connection"):
                break
    except (ConnectionError, ValueError, asyncio.IncompleteReadError, ssl.SSLError):
        pass
    finally:
        try:
            writer.close()
        except RuntimeError:
            pass


async def http():
    await asyncio.start_server(serve_http, "127.0.0.1", 8000)
    for address in (UP, *([UP6] if HAS_IPV6 else []), *PRIVATE, *PRIVATE6):
        await asyncio.start_server(serve_http, address, 80)
        await asyncio.start_server(serve_http, address, 443, ssl=tls())
    # A server that talks first, and echoes, as many protocols' do.
    await asyncio.start_server(serve_greeting, UP, 7)
    # The machine's own: for host.cloister.internal.
    await asyncio.start_server(serve_http, "127.0.0.1", 8080)
    await asyncio.start_server(serve_greeting, "127.0.0.1", 7)
    await asyncio.Event().wait()


async def serve_greeting(reader, writer):
    note(server="tcp", at=writer.get_extra_info("sockname")[0])
    writer.write(b"220 welcome\r\n")
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write(b"bye\r\n")
        writer.close()
    except ConnectionError:
        pass


# ---- a sink -----------------------------------------------------------------------------

def serve_sink(connection, context):
    """Bodies of a known length, as fast as Python can."""
    try:
        peer = context.wrap_socket(connection, server_side=True)
    except OSError:
        return
    with peer:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = peer.recv(65536)
            if not piece:
                return
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        left, room = int(fields[b"content-length"]) - len(rest), memoryview(bytearray(1 << 20))
        if fields.get(b"expect"):
            peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while left > 0:
            n = peer.recv_into(room)
            if n == 0:
                return
            left -= n
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nall of it")


def sink():
    server, context = socket.create_server((UP, SINK_PORT)), tls()
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve_sink, args=(connection, context), daemon=True).start()


# ---- WebSocket ---------------------------------------------------------------------------

async def websocket():
    import websockets

    async def talk(peer, _path=None):
        await peer.send("welcome")
        async for message in peer:
            if message == "bye":
                await peer.close(4000, "as you wish")
                return
            elif isinstance(message, str) and message.startswith("send "):
                await peer.send("x" * int(message.split()[1]))
            else:
                if len(message) < 200:
                    note(server="websocket", target="", host="", message=repr(message))
                await peer.send(message)

    async def log(path, request):
        """Called with a path and headers by old versions, else with a connection and a request."""
        headers = getattr(request, "headers", request)
        note(server="websocket", target=getattr(request, "path", path), host=headers.get("host"),
             authorization=headers.get("authorization"))
    for port, context in ((443, tls()), (80, None)):
        await websockets.serve(talk, WS, port, ssl=context, process_request=log, max_size=1 << 26)
    await asyncio.Event().wait()


# ---- gRPC ---------------------------------------------------------------------------------

def grpc():
    from concurrent import futures

    import grpc as g

    def unary(request, context):
        context.set_trailing_metadata((("x-length", str(len(request))),))
        if request == b"fail":
            context.abort(g.StatusCode.FAILED_PRECONDITION, "as you wish")
        return b"echo " + request

    def stream_out(request, _context):
        for i in range(int(request)):
            yield b"%d" % i

    def stream_in(requests, _context):
        return b"%d" % sum(len(request) for request in requests)

    def stream_both(requests, _context):
        for request in requests:
            yield b"echo " + request
    methods = {"Unary": g.unary_unary_rpc_method_handler(unary),
               "Out": g.unary_stream_rpc_method_handler(stream_out),
               "In": g.stream_unary_rpc_method_handler(stream_in),
               "Both": g.stream_stream_rpc_method_handler(stream_both)}
    server = g.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((g.method_handlers_generic_handler("test.Echo", methods),))
    pair = ((FOLDER / "keys/good.key").read_bytes(), (FOLDER / "keys/good.crt").read_bytes())
    server.add_secure_port(f"{GRPC}:443", g.ssl_server_credentials((pair,)))
    server.add_insecure_port(f"{GRPC}:50051")
    server.start()
    server.wait_for_termination()


# ---- a company's proxy -------------------------------------------------------------------

async def carry(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except (OSError, RuntimeError):
        writer.close()


async def serve_proxy(reader, writer):
    """CONNECT, and nothing else; with a password if the port is 3129, to names only if it is 3127."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split("\r\n")[0].split(" ")
        note(server="proxy", method=method, target=target,
             authorized="proxy-authorization: basic dTpw".lower() in head.lower())
        if method != "CONNECT":
            writer.write(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n")
            writer.close()
            return
        if writer.get_extra_info("sockname")[1] == 3129 and "dTpw" not in head:
            writer.write(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
            writer.close()
            return
        host, _, port = target.rpartition(":")
        if writer.get_extra_info("sockname")[1] == 3127 and not host[-1].isalpha():
            writer.write(b"HTTP/1.1 403 By name\r\ncontent-length: 0\r\n\r\n")
            writer.close()
            return
        there = await asyncio.open_connection(host.strip("[]"), int(port))
        writer.write(b"HTTP/1.1 200 Go on\r\n\r\n")
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))
        there[1].close()
        writer.close()
    except (OSError, ValueError, asyncio.IncompleteReadError):
        writer.close()


async def proxy():
    for port in (3127, 3128, 3129):
        await asyncio.start_server(serve_proxy, PROXY, port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    kind = {"http": http, "sink": sink, "websocket": websocket, "grpc": grpc, "proxy": proxy}[
        sys.argv[1]]
    if inspect.iscoroutinefunction(kind):
        asyncio.run(kind())
    else:
        kind()
