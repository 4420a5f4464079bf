"""A `cloister serve` of an operator's, and clients for it."""
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
from contextlib import closing

from operators import SECONDS, wait_until


class UnixConnection(http.client.HTTPConnection):
    """Python's own client, over a unix socket."""

    def __init__(self, path, timeout=SECONDS):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = connect(self.path, self.timeout)


def connect(path, timeout=SECONDS):
    """A socket's path may be longer than an address can be."""
    sock = socket.socket(socket.AF_UNIX)
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    except OSError:
        sock.close()
        raise
    finally:
        os.close(folder)
    sock.settimeout(timeout)
    return sock


def crowd(port, *said):
    """300 connections to PORT, each of which says one of SAID, takes what is answered to all but its last
    part, and then nothing."""
    crowd = []
    for i in range(300):
        *whole, half = said[i % len(said)]
        try:
            sock = socket.create_connection(("127.0.0.1", port), timeout=1)
            crowd.append(sock)
            for part in whole:
                sock.sendall(part)
                assert sock.recv(4096).startswith(b"HTTP/1.1 ")
            sock.sendall(half)
            if i >= 290:                    # one that has not been heard yet could make room
                sock.settimeout(0.1)
                sock.recv(1)
        except TimeoutError:                # nothing is said, or there is no more room
            pass
    return crowd


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.data = response.read()

    @property
    def json(self):
        return json.loads(self.data)

    def ok(self, status=200):
        assert self.status == status, (self.status, self.data)
        return self.json

    def error(self, status, code, *parts):
        """The one sentence with which the service refused."""
        assert self.status == status, (self.status, self.data)
        assert self.headers["content-type"] == "application/json"
        error = self.json["error"]
        assert set(error) <= {"code", "message", "pointer"}, error
        assert error["code"] == code, error
        for part in parts:
            assert part in error["message"], error
        return error


class Service:
    def __init__(self, operator, *options, env=None, **how):
        self.operator = operator
        self.options = options
        self.socket = str(operator.runtime / "serve.sock")
        self.agents = str(operator.runtime / "agents.sock")
        self.port = self.process = None
        self.start(env=env, **how)

    def start(self, env=None, **how):
        said = tempfile.TemporaryFile()
        self.process = self.operator.spawn(self.operator.program, "serve", *self.options,
                                           stdout=said, stderr=subprocess.STDOUT, env=env, **how)
        self.said = said
        wait_until(self.is_up, "the service answers")
        found = re.search(r"https?://127\.0\.0\.1:(\d+)", self.log())
        self.port = int(found[1]) if found else None

    def log(self):
        self.said.seek(0)
        return self.said.read().decode()

    def is_up(self):
        assert self.process.poll() is None, self.log()
        try:
            return self.get("/healthz").status == 200
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(SECONDS)

    def stop_begins(self, how):
        """It has got the signal, and accepts no more connections."""
        self.process.send_signal(how)
        return wait_until(lambda: not os.path.exists(self.socket), "it stops")

    # ---- clients
    def ask(self, method, path, body=None, headers=None, socket=None):
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        headers = dict(headers or {})
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        with closing(UnixConnection(socket or self.socket)) as client:
            client.request(method, path, body, headers)
            return Answer(client.getresponse())

    def get(self, path, **how):
        return self.ask("GET", path, **how)

    def post(self, path, body=None, **how):
        return self.ask("POST", path, body, **how)

    def raw(self, data, socket=None, shut=False):
        """All that comes back for these bytes."""
        with closing(connect(socket or self.socket)) as sock:
            sock.sendall(data)
            if shut:
                sock.shutdown(1)
            return read_all(sock)

    def tcp(self, method, path, token=None, headers=None, body=None, tls=True):
        context = ssl.create_default_context(cadata=self.certificate()) if tls else None
        client = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=SECONDS) \
            if tls else http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        with closing(client):
            client.request(method, path, body, headers)
            return Answer(client.getresponse())

    def certificate(self):
        return (self.operator.base / "data" / "serve" / "cert.pem").read_text()


def read_all(sock):
    data = b""
    while True:
        try:
            more = sock.recv(65536)
        except ConnectionResetError:
            return data
        if not more:
            return data
        data += more


class Events:
    """Server-sent events of a connection, one after the other."""

    def __init__(self, path, target, headers=None):
        self.client = UnixConnection(path)
        self.client.request("GET", target, headers={"Accept": "text/event-stream", **(headers or {})})
        self.response = self.client.getresponse()
        self.status = self.response.status

    def __iter__(self):
        event = {}
        for line in self.response:
            line = line.decode().rstrip("\n")
            if line == "":
                if event:
                    yield event
                event = {}
            elif not line.startswith(":"):
                key, value = line.split(": ", 1)
                event[key] = json.loads(value) if key == "data" else value

    def close(self):
        self.client.close()
