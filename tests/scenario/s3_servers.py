"""S3 servers that others wrote, started on this machine, and a front that records what reaches them and misbehaves."""
import email.utils
import hashlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import leftovers
import swift_lab
from egress_lab import has_module
from egress_world import NPM
from operators import IS_ROOT, SECONDS
from ports import free_port

HERE = Path(__file__).parent
BUCKET, REGION = "blob-box", "eu-west-1"
NODE = next(iter(sorted(NPM.glob("node_modules/node-linux-*/bin/node"))), shutil.which("node"))


class Server:
    """ID and SECRET are its key.  PORT is its own, without a front."""

    def __init__(self, folder, name):
        self.folder, self.name, self.port = folder, name, free_port()
        folder.mkdir()
        if name == "swift":
            self.id, self.secret = "team:cloister", os.urandom(20).hex()
            ports = {"proxy": self.port, **{part: free_port() for part in ("memcache", *swift_lab.PARTS)}}
            argv = ["unshare", "-m" if IS_ROOT else "-Urm", sys.executable, HERE / "swift_lab.py", folder / "swift", self.id,
                    self.secret, json.dumps(ports)]
        else:
            self.id = self.secret = "S3RVER"            # it knows no other
            argv = [NODE, "--openssl-legacy-provider", HERE / "s3rver.mjs", folder, self.port, BUCKET]
        with open(folder.parent / f"{name}.log", "wb") as log:
            self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, env={**os.environ, "NPM": str(NPM)}, start_new_session=True)
        leftovers.LABS.append(self.process.pid)
        assert b"ready" in self.process.stdout.readline(), (folder.parent / f"{name}.log").read_text()
        if name == "swift":
            self.client().create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def client(self):
        """Amazon's own, past the front."""
        import boto3
        from botocore.config import Config
        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", region_name=REGION,
                            aws_access_key_id=self.id, aws_secret_access_key=self.secret,
                            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))

    def keys(self, prefix):
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix + "/")
        return {o["Key"][len(prefix) + 1:] for page in pages for o in page.get("Contents", ())}

    def age(self, key, seconds=30 * 3600):
        """As if KEY had been put long ago."""
        assert self.name == "s3rver"
        then = time.time() - seconds
        os.utime(self.folder / BUCKET / f"{key}._S3rver_object", (then, then))

    def stop(self):
        self.process.stdin.close()
        self.process.wait(SECONDS)
        self.process.stdout.close()


class Place:
    """A prefix of its own, for an operator."""

    def __init__(self, operator, server, port, **options):
        self.operator, self.server, self.prefix = operator, server, f"test/{os.urandom(4).hex()}"
        options = {"endpoint": f"http://127.0.0.1:{port}", "region": REGION, **options}
        self.url = f"s3://{BUCKET}/{self.prefix}?" + "&".join(f"{name}={value}" for name, value in options.items())
        operator.env |= {"CLOISTER_BLOBS": self.url, "AWS_ACCESS_KEY_ID": server.id, "AWS_SECRET_ACCESS_KEY": server.secret}

    def key(self, content, folder="blobs"):
        digest = hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()
        return f"{self.prefix}/{folder}/{digest[:2]}/{digest[2:]}"

    def has(self, content, folder="blobs"):
        return self.key(content, folder)[len(self.prefix) + 1:] in self.server.keys(self.prefix)


def missing(name):
    """Why the server NAME cannot be had, or None."""
    if name == "swift" and [p for p in swift_lab.NEEDS if not shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin")]:
        return "Swift is not installed: `make npm` brings it"
    if name == "s3rver" and not (NPM / "node_modules/@20minutes/s3rver").exists():
        return "s3rver is not in build/npm: `make npm` brings it"
    return None if has_module("boto3") else "there is no boto3"


running = {}


def server_of(name, tmp_path_factory):
    """Started once."""
    why = missing(name)
    if why is not None:
        pytest.skip(why)
    if name not in running:
        running[name] = Server(tmp_path_factory.mktemp("s3") / name, name)
    return running[name]


def stop_all():
    for server in running.values():
        server.stop()
    running.clear()


# ---- in front of it ---------------------------------------------------------------------------


class Seen:
    def __init__(self, handler, body):
        self.method, self.path, self.body = handler.command, handler.path, body
        self.fields = {name.lower(): value for name, value in handler.headers.items()}

    def is_for(self, method, part):
        return self.method == method and part in self.path


def error(code, **more):
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in {"Code": code, **more}.items())
    return f'<?xml version="1.0"?><Error>{inner}</Error>'.encode()


class Front:
    """Passes requests on.  `plans`: functions of the handler and the request, each of which may answer it (and returns
    true)."""

    def __init__(self, port):
        front = self
        self.seen, self.plans, self.upstream = [], [], port
        self.closing = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body=b"", fields=(), length=None):
                self.send_response_only(status)
                for name, value in fields:
                    self.send_header(name, value)
                if "date" not in {name.lower() for name, _ in fields}:
                    self.send_header("Date", email.utils.formatdate(usegmt=True))
                self.send_header("Content-Length", str(len(body) if length is None else length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)
                return True

            def pass_on(self, request):
                upstream = http.client.HTTPConnection("127.0.0.1", front.upstream, timeout=SECONDS)
                upstream.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("connection", "expect"):
                        upstream.putheader(name, value)
                upstream.endheaders(request.body or None)
                response = upstream.getresponse()
                body = response.read()
                upstream.close()
                return response, body

            def do(self):
                request = Seen(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                front.seen.append(request)
                for plan in list(front.plans):
                    if plan(self, request):
                        return
                # One of both may be gone.
                with suppress(ConnectionError):
                    response, body = self.pass_on(request)
                    fields = [(name, value) for name, value in response.getheaders()
                              if name.lower() not in ("connection", "content-length", "transfer-encoding", "keep-alive")]
                    self.answer(response.status, body, fields, response.getheader("content-length") or len(body))

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def requests(self, method, part=""):
        return [request for request in list(self.seen) if request.is_for(method, part)]

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


def times(n, method, part, act):
    """A plan that acts on the first N of these requests."""
    left = [n]

    def plan(handler, request):
        if left[0] == 0 or not request.is_for(method, part):
            return False
        left[0] -= 1
        return act(handler, request)
    return plan


def answers(status, body=b"", fields=()):
    return lambda handler, request: handler.answer(status, body, fields)


def cut(share):
    """The connection breaks after this share of the body."""
    def act(handler, request):
        response, body = handler.pass_on(request)
        handler.send_response_only(response.status)
        for name, value in response.getheaders():
            if name.lower() in ("content-length", "content-range", "etag", "last-modified", "date"):
                handler.send_header(name, value)
        with suppress(ConnectionError):
            handler.end_headers()
            handler.wfile.write(body[:int(len(body) * share)])
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True
        return True
    return act


def stall(front):
    """Nothing comes until the end of the test."""
    def act(handler, request):
        front.closing.wait(SECONDS)
        handler.close_connection = True
        return True
    return act


@contextmanager
def front_of(server):
    front = Front(server.port)
    try:
        yield front
    finally:
        front.close()
