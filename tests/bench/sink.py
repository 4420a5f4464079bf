#!/usr/bin/python3
"""Swallows uploads over TLS as fast as Python can: sink.py PORT CERTIFICATE KEY"""
import socket
import ssl
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scenario"))

from egress_servers import serve_sink   # noqa: E402


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    while True:
        threading.Thread(target=serve_sink, args=(server.accept()[0], context), daemon=True).start()


if __name__ == "__main__":
    main()
