#!/usr/bin/python3
"""story_service.py - the service that `make demo` calls: notes, behind a key, on this machine alone.

    story_service.py KEY LOG

Prints its port.  LOG gets a line for each request: method, path, and whether the key was right."""
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY, LOG = sys.argv[1:]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        known = self.headers.get("authorization") == f"Bearer {KEY}"
        with open(LOG, "a") as log:
            log.write(f"{self.command} {self.path} {'the real key' if known else 'no key'}\n")
        status, text = {"/notes": (200, "three notes"), "/me": (200, "welcome, Ada") if known else (401, "who are you?")}.get(
            self.path, (404, "nothing here"))
        data = f"{text}\n".encode()
        self.send_response(201 if self.command == "POST" and status == 200 else status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = answer


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that goes away is no error of ours."""


server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
