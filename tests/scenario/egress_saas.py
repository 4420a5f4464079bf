#!/usr/bin/python3
"""Services as their own libraries know them, for the egress tests: egress_saas.py FOLDER

As much of Stripe, GitHub and Slack as their clients need to succeed or fail.  A request with the
key of its host in FOLDER/saas.keys succeeds; FOLDER/saas.jsonl records each request and its key.
"""
import base64
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qsl

from egress_world import SAAS


def stripe(path, body, _key):
    if path == "/v1/customers":
        return {"id": "cus_1", "object": "customer", "email": dict(parse_qsl(body)).get("email")}
    return {"object": "balance", "livemode": True, "available": [{"amount": 4200, "currency": "eur"}]}


def github(path, body, key):
    if path == "/graphql":
        return {"data": {"viewer": {"login": "tester"}}}
    if path.startswith("/user"):
        # A careless service: it says what it was told.
        return {"login": "tester", "id": 1, "type": "User", "your_token": key}
    return {"number": 7, "state": "open", **json.loads(body or "{}")}


def slack(path, body, key):
    if path == "/api/auth.test":
        return {"ok": True, "user": "tester", "url": "https://slack.com/", "told": key}
    return {"ok": True, "channel": "C1", "ts": "1.2", "message": {"text": dict(parse_qsl(body)).get("text")}}


REFUSED = {"api.stripe.com": (401, {"error": {"type": "invalid_request_error", "message": "no such key"}}),
           "api.github.com": (401, {"message": "Bad credentials"}),
           "slack.com": (200, {"ok": False, "error": "invalid_auth"})}
SERVICES = {"api.stripe.com": stripe, "api.github.com": github, "slack.com": slack}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def key(self):
        word, _, value = self.headers.get("authorization", "").partition(" ")
        if word == "Basic":
            return base64.b64decode(value).decode().rstrip(":")
        return value

    def do_any(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        host, key = self.headers["host"], self.key()
        right = json.loads((self.server.folder / "saas.keys").read_text()).get(host) == key
        with open(self.server.folder / "saas.jsonl", "a") as log:
            log.write(json.dumps({"host": host, "target": self.path, "key": key, "ok": right}) + "\n")
        status, told = 200, None
        if right:
            told = SERVICES[host](self.path.partition("?")[0], body, key)
        else:
            status, told = REFUSED[host]
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_any


def main():
    folder = Path(sys.argv[1])
    server = ThreadingHTTPServer((SAAS, 443), Handler)
    server.daemon_threads, server.folder = True, folder
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "keys/services.crt", folder / "keys/services.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
