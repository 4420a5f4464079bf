#!/usr/bin/python3
"""Sends messages of a probe to the internet: speak.py NONCE JSON

Runs inside, and reports like the C probes.  JSON is a list of attempts, each [WAY, WORD...].  All
are tried, whatever the result of the others, and the responses are printed.  The word NONCE in
them becomes NONCE-N-, N being the attempt's number.
"""
import glob
import json
import os
import socket
import ssl
import stat
import struct
import sys
import time
from urllib.parse import urlsplit

PATIENCE = 3                            # seconds for each step of an attempt
KEPT = 4096


def report(text):
    sys.stderr.write(f"@{text}\n")
    sys.stderr.flush()


def show(data):
    sys.stdout.buffer.write(data[:KEPT] + b"\n")
    sys.stdout.flush()


def secure(s, name, protocols=("http/1.1",)):
    """Accept any server: the probe tries the walls."""
    context = ssl._create_unverified_context()
    context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(s, server_hostname=name or None)


def read_all(s):
    data = b""
    while len(data) < KEPT and (piece := s.recv(65536)):
        data += piece
    return data


def talk(host, port, said, tls=None, first=None):
    """SAID to HOST; before it FIRST, and its answer, and TLS for that name."""
    with socket.create_connection((host, port), PATIENCE) as s:
        s.settimeout(PATIENCE)
        if first is not None:
            s.sendall(first.encode("latin-1"))
            got = s.recv(KEPT)
            show(got)
            if b" 200 " not in got and got[:2] != b"\5\0":
                return
        if tls is not None:
            s = secure(s, tls)
        s.sendall(said.encode("latin-1"))
        show(read_all(s))


def follow(host, port, said):
    """As talk, and then wherever the answer leads."""
    with socket.create_connection((host, port), PATIENCE) as s:
        s.sendall(said.encode("latin-1"))
        got = read_all(s)
    show(got)
    for line in got.decode("latin-1").split("\r\n"):
        if line.lower().startswith("location: "):
            url = urlsplit(line.split(" ")[1])
            to, path = url.netloc, url.path
            talk(url.hostname, url.port or 80, f"GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n")


def socks(host, port, name, to, said):
    """By SOCKS5 to the name."""
    with socket.create_connection((host, port), PATIENCE) as s:
        s.settimeout(PATIENCE)
        s.sendall(b"\5\1\0")
        s.recv(2)
        s.sendall(b"\5\1\0\3" + bytes([len(name)]) + name.encode() + struct.pack(">H", to))
        show(s.recv(10))
        s.sendall(said.encode("latin-1"))
        show(read_all(s))


def h2(host, head):
    """One request with exactly these fields."""
    import h2.config
    import h2.connection
    import h2.events
    ends = (h2.events.StreamEnded, h2.events.StreamReset, h2.events.ConnectionTerminated)
    config = h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
    link = h2.connection.H2Connection(config)
    with secure(socket.create_connection((host, 443), PATIENCE), host, ["h2"]) as s:
        link.initiate_connection()
        link.send_headers(1, [tuple(field) for field in head], end_stream=True)
        s.sendall(link.data_to_send())
        s.settimeout(PATIENCE)
        while data := s.recv(65536):
            show(data)
            if any(isinstance(event, ends) for event in link.receive_data(data)):
                break


def question(name, kind):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + labels + b"\0" + struct.pack(">HH", kind, 1)


def ask(server, name, kind):
    """A name server, both ways."""
    data = question(name, kind)
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.sendto(data, (server, 53))
        show(s.recv(KEPT))
    with socket.create_connection((server, 53), 1) as s:
        s.settimeout(1)
        s.sendall(struct.pack(">H", len(data)) + data)
        show(s.recv(KEPT))


def look_up(name):
    show(repr(socket.getaddrinfo(name, 80)).encode())


def datagram(host, port, said):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(0.3)
        s.sendto(said.encode("latin-1"), (host, port))
        show(s.recv(KEPT))


def ping(host, kinds, said):
    """Data in an echo request, by the first kind of socket that there is."""
    packet = b"\x08\0\0\0\x12\x34\0\1" + said.encode().ljust(len(said) + len(said) % 2)
    total = sum(struct.unpack(f">{len(packet) // 2}H", packet))
    total = (total >> 16) + (total & 0xffff)
    packet = packet[:2] + struct.pack(">H", ~(total + (total >> 16)) & 0xffff) + packet[4:]
    for kind in kinds:
        try:
            s = socket.socket(socket.AF_INET, getattr(socket, kind), socket.IPPROTO_ICMP)
        except OSError as e:
            report(f"lost {kind}: {e}")
            continue
        with s:
            s.settimeout(0.3)
            s.sendto(packet, (host, 0))
            show(s.recv(KEPT))
            break


def again(*words):
    for _ in range(2):
        talk(*words)


def search(*places):
    """Keys in files: in folders, or those that a pattern fits."""
    paths = [f"{folder}/{name}" for place in places for folder, _, names in os.walk(place) for name in names]
    for path in [*paths, *[path for place in places for path in glob.glob(place)]]:
        try:
            if stat.S_ISREG(os.stat(path).st_mode):
                with open(path, "rb") as f:
                    data = f.read(1 << 20)
                if b"PRIVATE KEY" in data:
                    show(data)
        except OSError:
            continue


def hold(seconds):
    report("held")
    time.sleep(seconds)


WAYS = {f.__name__: f for f in (talk, follow, socks, h2, ask, look_up, datagram, ping, again, search, hold)}


def main():
    nonce, attempts = sys.argv[1], json.loads(sys.argv[2])
    assert all(way in WAYS for way, *_ in attempts)
    report("ready")
    for number, attempt in enumerate(attempts):
        way, *words = json.loads(json.dumps(attempt).replace("NONCE", f"{nonce}-{number}-"))
        try:
            WAYS[way](*words)
        except (OSError, ValueError, ImportError) as e:
            report(f"lost {way} {words[0]}: {e}")


if __name__ == "__main__":
    main()
