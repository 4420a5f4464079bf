#!/usr/bin/python3
"""Swallows uploads over TLS as fast as Python can: sink.py PORT CERTIFICATE KEY"""
import socket
import ssl
import sys
import threading


def serve(connection, context):
    try:
        peer = context.wrap_socket(connection, server_side=True)
    except OSError:
        return
    room = memoryview(bytearray(1 << 20))
    with peer:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = peer.recv(65536)
            if not piece:
                return
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if fields.get(b"expect"):
            peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        left = int(fields[b"content-length"]) - len(rest)
        while left > 0:
            n = peer.recv_into(room)
            if n == 0:
                return
            left -= n
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    while True:
        threading.Thread(target=serve, args=(server.accept()[0], context), daemon=True).start()


if __name__ == "__main__":
    main()
