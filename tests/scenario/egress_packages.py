#!/usr/bin/python3
"""A private registry of npm packages, for the recipes: egress_packages.py FOLDER

It answers 401 without the token in FOLDER/registry.token.  Files are in FOLDER/private."""
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from egress_world import FRONT

FOLDER = Path(sys.argv[1])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        known = self.headers.get("authorization") == f"Bearer {(FOLDER / 'registry.token').read_text()}"
        path = FOLDER / "private" / unquote(self.path).lstrip("/")
        data = path.read_bytes() if known and path.is_file() else b"{}"
        self.send_response(401 if not known else 200 if path.is_file() else 404)
        self.send_header("content-type", "application/octet-stream" if path.suffix == ".tgz" else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main():
    server = ThreadingHTTPServer((FRONT, 443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "keys/services.crt", FOLDER / "keys/services.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print("ready", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
