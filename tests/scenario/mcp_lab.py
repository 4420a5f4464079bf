"""Clients of `cloister mcp`, and a stand-in for the service behind it.

The test chooses the stand-in's answers, also answers that no service of ours would give."""
import http.client
import json
import os
import re
import select
import socket
import socketserver
import subprocess
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler

from operators import IS_ROOT, SECONDS, children_of, wait_until

NEWEST = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {}}
ID = "d1" * 8
SLOW = "50" * 8                             # a dispatch of the agent "slow": until it is cancelled
AGENT = {"name": "echo", "hash": "sha256:" + "0" * 64}


def message(method, params=None, id=1):
    said = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        said["id"] = id
    if params is not None:
        said["params"] = params
    return said


def call(tool, arguments=None, id=1, **more):
    return message("tools/call", {"name": tool, "arguments": arguments or {}, **more}, id)


class Stdio:
    """`cloister mcp`, over its standard input and output."""

    def __init__(self, operator, *options, version="2025-11-25", **how):
        self.process = operator.spawn(operator.program, "mcp", *options, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
        self.data = b""
        self.aside = []         # what came that was not asked for
        self.ids = 0
        if version:
            self.begun = self.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                                 "clientInfo": {"name": "test", "version": "1"}})
            self.send(message("notifications/initialized", id=None))

    def send(self, what):
        if not isinstance(what, bytes):
            what = (what if isinstance(what, str) else json.dumps(what)).encode()
        self.process.stdin.write(what + b"\n")
        self.process.stdin.flush()

    def read(self, seconds=SECONDS):
        """The next message; None at the end."""
        end = time.monotonic() + seconds
        while b"\n" not in self.data:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            assert ready, f"no message, only {self.data!r}"
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                assert self.data == b"", self.data
                return None
            self.data += more
        line, self.data = self.data.split(b"\n", 1)
        return json.loads(line)

    def answer(self, id):
        while True:
            said = self.read()
            assert said is not None, f"it ended before it answered {id}: {self.process.stderr.read()}"
            if said.get("id") == id and "method" not in said:
                return said
            self.aside.append(said)

    def ask(self, method, params=None):
        self.ids += 1
        self.send(message(method, params, self.ids))
        return self.answer(self.ids)

    def tool(self, name, arguments=None, **more):
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}, **more})["result"]

    def end(self):
        """Its exit status, once its input has ended."""
        self.process.stdin.close()
        return self.process.wait(SECONDS)

    def worker(self):
        """The half that reads what we send."""
        return wait_until(lambda: children_of(self.process.pid), "there is a worker")[0]


class Http:
    """`cloister mcp --http`."""
    TYPES = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def __init__(self, operator, *options):
        self.token_file = operator.base / "home" / "mcp-token"
        self.process = operator.spawn(operator.program, "mcp", "--http", "127.0.0.1:0", "--token-file",
                                      self.token_file, *options, stderr=subprocess.PIPE)
        said = self.process.stderr.readline().decode()
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)/mcp", said)[1])
        self.token = self.token_file.read_text().strip()

    def open(self, method, body=None, headers=None, token=True, path="/mcp"):
        """(connection, response): the caller closes the first."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        headers = {**({"Authorization": f"Bearer {self.token}"} if token else {}), **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        client.request(method, path, body, headers)
        return client, client.getresponse()

    def ask(self, method, body=None, headers=None, **how):
        """(status, headers, what was said: JSON, or a list of events' data)"""
        client, response = self.open(method, body, headers, **how)
        with closing(client):
            data = response.read()
        if response.headers.get("content-type") == "text/event-stream":
            return response.status, response.headers, list(events(data.decode().splitlines()))
        return response.status, response.headers, json.loads(data) if data else None

    def post(self, what, headers=None, **how):
        return self.ask("POST", what, {**self.TYPES, **(headers or {})}, **how)

    def modern(self, method, params=None, headers=None, id=1):
        """A request of the newest revision, with the fields that mirror it."""
        fields = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": method}
        if params and "name" in params:
            fields["Mcp-Name"] = params["name"]
        return self.post(message(method, {"_meta": META, **(params or {})}, id),
                         {**fields, **(headers or {})})

    def begin(self, version="2025-11-25"):
        """The fields that go with every request of a new session."""
        status, headers, said = self.post(message("initialize", {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}))
        assert status == 200 and said["result"]["protocolVersion"] == version, said
        fields = {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": version}
        status, _, said = self.post(message("notifications/initialized", id=None), fields)
        assert (status, said) == (202, None)
        return fields


class Proxy:
    """For clients that cannot send a token: adds it, and is otherwise transparent."""

    def __init__(self, server):
        self.token, self.to = server.token, server.port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(peer,), daemon=True).start()

    def carry(self, peer):
        with closing(peer), closing(socket.create_connection(("127.0.0.1", self.to))) as server:
            head = b""
            while b"\r\n\r\n" not in head:
                more = peer.recv(65536)
                if not more:
                    return
                head += more
            head, body = head.split(b"\r\n\r\n", 1)
            first, *fields = head.split(b"\r\n")
            ours, theirs = b":%d" % self.port, b":%d" % self.to
            fields = [f.replace(ours, theirs) if f.lower().startswith((b"host:", b"origin:")) else f
                      for f in fields if not f.lower().startswith(b"connection:")]
            fields += [b"Authorization: Bearer " + self.token.encode(), b"Connection: close"]
            server.sendall(b"\r\n".join([first, *fields]) + b"\r\n\r\n" + body)
            back = threading.Thread(target=self.pass_on, args=(server, peer), daemon=True)
            back.start()
            self.pass_on(peer, server)
            back.join(SECONDS)

    @staticmethod
    def pass_on(source, to):
        try:
            while data := source.recv(65536):
                to.sendall(data)
        except OSError:
            pass
        # Either end of it is the end: a client that goes has to be seen to go.
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def events(lines):
    """(id or None, data) of server-sent events."""
    id = data = None
    for line in lines:
        if line == "":
            if data is not None:
                yield id, data
            id = data = None
        elif line.startswith("id: "):
            id = line[4:]
        elif line.startswith("data:"):
            data = line[5:].strip()


class Stand:
    """Stands in for the service at agents.sock; a dispatch runs until `finish` is set."""

    def __init__(self, operator):
        self.asked = []                     # (method, path, body)
        self.tokens = []
        self.answers = {}                   # path: (status, bytes), instead of its own
        self.finish = threading.Event()
        self.cancelled = threading.Event()  # of SLOW
        self.followed = threading.Event()
        self.lines = [{"event": "dispatch.queued"}, {"event": "cell.boot"}]
        self.cut = 0                        # how many times it breaks off while events are followed
        self.state = "finished"
        stand = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def address_string(self):
                return "unix"

            def do_GET(self):
                stand.take(self, b"")

            def do_POST(self):
                stand.take(self, self.rfile.read(int(self.headers.get("content-length", 0))))

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass                        # the other side may go whenever it likes

        path = operator.runtime / "agents.sock"
        self.server = Server(str(path), Handler)
        if IS_ROOT:
            os.chown(path, operator.uid, operator.gid)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.path = path

    def close(self):
        self.finish.set()
        self.cancelled.set()
        self.server.shutdown()
        self.server.server_close()
        self.path.unlink(missing_ok=True)

    def take(self, handler, body):
        self.asked.append((handler.command, handler.path, json.loads(body) if body else None))
        self.tokens.append(handler.headers.get("authorization"))
        path = handler.path.split("?")[0]
        if path in self.answers:
            self.say(handler, *self.answers[path])
        elif path.endswith("/events"):
            self.follow(handler)
        elif handler.command == "POST" and path.endswith("/cancel"):
            self.state = "cancelled"
            (self.cancelled if SLOW in path else self.finish).set()
            self.say(handler, 202, {"id": ID, "state": "cancelled"})
        elif handler.command == "POST":
            is_slow = self.asked[-1][2]["agent"] == "slow"
            self.say(handler, 202, {"id": SLOW if is_slow else ID, "state": "queued", "agent": AGENT})
        elif path == "/v1/agents":
            self.say(handler, 200, {"items": [{**AGENT, "description": "says it again",
                                               "created": "x"}], "next": None})
        elif path.endswith("/output"):
            self.say(handler, 200, b"said\n" if "stdout" in handler.path else b"")
        elif path.endswith("/files"):
            self.say(handler, 200, {"files": [{"path": "a/b", "size": 5, "hash": "sha256:1",
                                               "executable": False}], "truncated": False})
        elif "/files/" in path:
            self.say(handler, 200, b"\xff\x00abc")
        else:
            over = self.finish.is_set()
            self.say(handler, 200, {"id": ID, "state": self.state if over else "running",
                                    "agent": AGENT, "exit_code": 0 if over else None,
                                    "reason": None, "attempts": 1})

    def say(self, handler, status, what):
        data = what if isinstance(what, bytes) else json.dumps(what).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def follow(self, handler):
        handler.send_response(200)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()

        def line(what):
            data = json.dumps(what).encode() + b"\n"
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            handler.wfile.flush()
        for n, what in enumerate(self.lines):
            line({"dispatch": ID, "n": n + 1, "time": "x", **what})
        self.followed.set()
        if self.cut > 0:
            self.cut -= 1
            handler.close_connection = True
            return
        (self.cancelled if SLOW in handler.path else self.finish).wait(SECONDS)
        line({"dispatch": ID, "n": len(self.lines) + 1, "event": "dispatch.finished"})
        handler.wfile.write(b"0\r\n\r\n")

    def paths(self):
        return [f"{method} {path}" for method, path, _ in self.asked]
