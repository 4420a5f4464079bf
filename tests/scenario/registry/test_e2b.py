"""E2B's API: its real SDK from npm uses sandboxes of a `cloister serve --e2b`, and strangers get nothing."""
import json
import re
import shutil
import ssl
import threading
from contextlib import closing
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from egress_lab import needs_npm_module
from egress_world import NPM
from operators import SECONDS, TREE, wait_until
from service import Answer, Service

NODE = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")
AGENTS = [
    {"name": "base", "sandbox": True, "limits": {"time": "10m"}},
    {"name": "net", "sandbox": True, "policy": "one-name"},
    {"name": "closed", "command": ["true"]},
]


class E2b(Service):
    """A service with E2B's API, and a client of it."""

    def __init__(self, operator, *options):
        self.token_file = operator.home / "token"
        super().__init__(operator, "--e2b", "127.0.0.1:0", "--token-file", str(self.token_file), *options)
        self.post("/v1/policies", {"name": "one-name", "document": {
            "version": 1, "egress": [{"allow": "only.example"}]}}).ok(201)
        for agent in AGENTS:
            self.post("/v1/agents", agent).ok(201)
        self.port = int(re.search(r"E2B's API is at https://127\.0\.0\.1:(\d+)", self.log())[1])

    @property
    def key(self):
        return self.token_file.read_text().strip()

    def rest(self, method, path, body=None, **headers):
        context = ssl.create_default_context(cadata=self.certificate())
        client = HTTPSConnection("127.0.0.1", self.port, context=context, timeout=SECONDS)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        with closing(client):
            client.request(method, path, body, headers)
            return Answer(client.getresponse())

    def create(self, **more):
        return self.rest("POST", "/sandboxes", {"templateID": "base", **more}, X_API_Key=self.key).ok(201)


@pytest.fixture
def e2b(operator):
    service = E2b(operator)
    yield service
    assert service.stop() == 0, service.log()


class Canary(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()


@pytest.mark.skipif(NODE is None, reason="there is no node")
@needs_npm_module("e2b")
def test_real_sdk(operator, e2b):
    canary = operator.file("canary", "of the host")
    server = HTTPServer(("127.0.0.1", 0), Canary)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    script = shutil.copy(TREE / "tests/scenario/e2b_sdk.mjs", operator.base / "e2b_sdk.mjs")
    done = operator.do(NODE, "--test", "--test-reporter=tap", str(script), seconds=4 * SECONDS, env={
        "E2B_FROM": str(NPM), "E2B_API_URL": f"https://127.0.0.1:{e2b.port}", "E2B_API_KEY": e2b.key,
        "E2B_SANDBOX_URL": f"https://127.0.0.1:{e2b.port}", "CANARY": str(canary),
        "CANARY_PORT": str(server.server_address[1]),
        "NODE_EXTRA_CA_CERTS": str(operator.file("ca.pem", e2b.certificate()))})
    server.shutdown()
    assert done.status == 0 and re.search(r"^# skipped 0$", done.out, re.M), done.out + done.err
