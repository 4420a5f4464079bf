#!/usr/bin/python3
"""The internet that probes try to reach: internet.py FOLDER TOKEN, in a network namespace of its own.

One server is behind every name and every address, and writes down what reaches it, in FOLDER/seen:
one JSON object per line.  It answers TOKEN.  There is a name server, and a proxy that asks nothing,
where a cell has its gate.  Says "ready", and ends when standard input does.
"""
import itertools
import json
import socket
import ssl
import struct
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PUBLIC, PUBLIC6, RESOLVER = "93.184.216.10", "2606:2800:220:1::10", "93.184.216.53"
GATE, GATE6 = "198.18.0.1", "fd63:6c6f:6973:7465::1"
ADDRESSES = [PUBLIC, RESOLVER, GATE, GATE6, "8.8.8.8", "10.0.0.5", "192.168.0.5", "100.64.0.5", "100.100.100.200",
             "169.254.169.254", PUBLIC6, "fd00:ec2::254", "fd12::5", "64:ff9b::a00:5", "64:ff9b::a9fe:a9fe"]
# What a name leads to; any other leads to PUBLIC.
NAMES = {
    "inner.test": "10.0.0.5", "loop.test": "127.0.0.1", "meta.test": "169.254.169.254",
    "alibaba.test": "100.100.100.200", "shared.test": "100.64.0.5", "zero.test": "0.0.0.0",
    "meta6.test": "fd00:ec2::254", "unique.test": "fd12::5", "loop6.test": "::1",
    "mapped.test": "::ffff:10.0.0.5", "nat64.test": "64:ff9b::a00:5", "nat64meta.test": "64:ff9b::a9fe:a9fe",
    "host.cloister.internal": "127.0.0.1",
}
PORTS = [22, 80, 443, 853, 7000, 8080]
UDP_PORTS = [80, 123, 443, 4500]
SEEN_MAX = 1 << 16                      # bytes of one request that are kept


class World:
    def __init__(self, folder, token):
        self.folder, self.token = Path(folder), token
        self.log = open(self.folder / "seen", "a", buffering=1)
        self.lock = threading.Lock()
        self.turns = itertools.cycle((PUBLIC, "10.0.0.5"))

    def note(self, **what):
        with self.lock:
            self.log.write(json.dumps(what) + "\n")


# ---- the ground ------------------------------------------------------------------------

def run(*argv, **how):
    subprocess.run([str(a) for a in argv], check=True, stdin=how.pop("stdin", subprocess.DEVNULL),
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **how)


def make_addresses():
    lines = ["link set lo up"]
    lines += [f"addr add {a}/{'128 dev lo nodad' if ':' in a else '32 dev lo'}" for a in ADDRESSES]
    run("ip", "-batch", "-", stdin=None, input="\n".join(lines).encode())


def make_certificate(folder, name, extensions, authority=None):
    key, crt, csr, conf = (folder / f"{name}.{end}" for end in ("key", "crt", "csr", "cnf"))
    conf.write_text("\n".join(extensions) + "\n")
    run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-keyout", key, "-out", csr, "-subj", f"/CN={name}")
    signer = (["-CA", folder / f"{authority}.crt", "-CAkey", folder / f"{authority}.key", "-CAcreateserial"]
              if authority else ["-signkey", key])
    run("openssl", "x509", "-req", "-in", csr, *signer, "-days", 30, "-extfile", conf, "-out", crt)


def make_certificates(folder):
    leaf = "subjectAltName=" + ",".join(f"DNS:{n}" for n in ("front.test", "evil.test", "pinned.test",
                                                             "*.wide.test", "rebind.test", *NAMES))
    make_certificate(folder, "ca", ["basicConstraints=critical,CA:TRUE"])
    make_certificate(folder, "good", [leaf], "ca")
    make_certificate(folder, "selfsigned", ["subjectAltName=DNS:selfsigned.test"])


def make_context(world, name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(world.folder / f"{name}.crt", world.folder / f"{name}.key")
    try:
        import h2  # noqa: F401
        context.set_alpn_protocols(["h2", "http/1.1"])
    except ImportError:
        context.set_alpn_protocols(["http/1.1"])
    return context


# ---- one server for all ------------------------------------------------------------------

def serve_h2(world, peer, seen):
    import h2.config
    import h2.connection
    import h2.events
    # What a strict server would refuse is what is to be seen.
    config = h2.config.H2Configuration(client_side=False, validate_inbound_headers=False,
                                       normalize_inbound_headers=False, header_encoding="latin-1")
    link = h2.connection.H2Connection(config)
    link.initiate_connection()
    peer.sendall(link.data_to_send())
    while data := peer.recv(65536):
        for event in link.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                world.note(**seen, text=" ".join(f"{k}: {v}" for k, v in event.headers))
                link.send_headers(event.stream_id, [(":status", "200")])
                link.send_data(event.stream_id, world.token.encode(), end_stream=True)
            elif isinstance(event, h2.events.DataReceived):
                world.note(**seen, text=event.data.decode("latin-1"))
        peer.sendall(link.data_to_send())


def answer(world, head):
    """A redirect for whoever asks for one, else the token."""
    target = head.split(b" ")[1].decode("latin-1") if head.count(b" ") > 1 else ""
    to = parse_qs(urlsplit(target).query).get("to")
    if "/away" in target and to:
        return f"HTTP/1.1 302 Away\r\nlocation: {to[0]}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
    return (f"HTTP/1.1 200 Word\r\ncontent-length: {len(world.token)}\r\nconnection: close\r\n\r\n"
            f"{world.token}").encode()


def whole(data):
    """Whether all of a request has come: its head, and as much of a body as that says."""
    head, end, rest = data.partition(b"\r\n\r\n")
    length = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end) and (not length or len(rest) >= int(length[0]))


def serve_one(world, client):
    at, port = client.getsockname()[:2]
    seen = {"at": at.removeprefix("::ffff:"), "port": port, "sni": ""}
    client.settimeout(10)
    if client.recv(1, socket.MSG_PEEK) == b"\x16":
        def pick(connection, name, _context):
            seen["sni"] = name or ""
            connection.context = make_context(world, "selfsigned" if name == "selfsigned.test" else "good")
        context = make_context(world, "good")
        context.sni_callback = pick
        client = context.wrap_socket(client, server_side=True)
        world.note(**seen, text="handshake")
        if client.selected_alpn_protocol() == "h2":
            serve_h2(world, client, seen)
            return
    data = b""
    try:
        while not whole(data) and len(data) < SEEN_MAX and (piece := client.recv(65536)):
            data += piece
            if b" HTTP/1" not in data:      # whoever speaks otherwise wants an answer at once
                break
    finally:
        world.note(**seen, text=data.decode("latin-1"))
    client.sendall(answer(world, data))
    client.close()


def serve(world, port, handle):
    server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)

    def guarded(client):
        try:
            with client:
                handle(client)
        except (OSError, ValueError):
            pass

    def loop():
        while True:
            client, _ = server.accept()
            threading.Thread(target=guarded, args=(client,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()


def serve_datagrams(world, port, handle):
    server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", port))

    def loop():
        while True:
            data, peer = server.recvfrom(4096)
            said = handle(data)
            if said:
                server.sendto(said, peer)
    threading.Thread(target=loop, daemon=True).start()


def watch_pings(world):
    server = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    while True:
        world.note(at="ping", port=0, sni="", text=server.recv(4096).decode("latin-1"))


# ---- names --------------------------------------------------------------------------------

def name_in(query):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
        at += 1 + query[at]
    return ".".join(labels), at + 1


def resolve(world, query):
    try:
        name, end = name_in(query)
        kind, = struct.unpack(">H", query[end:end + 2])
    except (IndexError, struct.error):
        world.note(at="dns", port=53, sni="", text=query.decode("latin-1"))
        return b"?"
    world.note(at="dns", port=53, sni="", text=f"{kind} {name}")
    address = NAMES.get(name.lower(), PUBLIC)
    if name.lower() == "rebind.test" and kind == 1:
        address = next(world.turns)
    family, wanted = (socket.AF_INET6, 28) if ":" in address else (socket.AF_INET, 1)
    found = kind == wanted
    head = query[:2] + b"\x81\x80\0\1" + struct.pack(">HHH", found, 0, 0) + query[12:end + 4]
    data = socket.inet_pton(family, address) if found else b""
    return head + (b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(data)) + data if found else b"")


def resolve_stream(world, client):
    size, = struct.unpack(">H", client.recv(2, socket.MSG_WAITALL))
    said = resolve(world, client.recv(size, socket.MSG_WAITALL))
    client.sendall(struct.pack(">H", len(said)) + said)


# ---- a proxy without a policy ----------------------------------------------------------------

def dial(host, port):
    host = (host or "").strip("[]")
    is_address = ":" in host or host.replace(".", "").isdigit()
    return socket.create_connection((host if is_address else NAMES.get(host, PUBLIC), port), 5)


def carry(one, other):
    def way(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
    back = threading.Thread(target=way, args=(other, one), daemon=True)
    back.start()
    way(one, other)
    back.join()


def serve_proxy(world, client):
    client.settimeout(10)
    data = b""
    while not whole(data) and (piece := client.recv(65536)):
        data += piece
    method, target, _ = data.split(b"\r\n")[0].decode("latin-1").split(" ", 2)
    if method == "CONNECT":
        host, _, port = target.rpartition(":")
        world.note(at="name", port=0, sni="", text=host)
        with dial(host, int(port)) as other:
            client.sendall(b"HTTP/1.1 200 Go\r\n\r\n")
            carry(client, other)
        return
    url = urlsplit(target)
    world.note(at="name", port=0, sni="", text=str(url.hostname))
    other = dial(url.hostname, url.port or (443 if url.scheme == "https" else 80))
    if url.scheme == "https":
        context = ssl._create_unverified_context()
        other = context.wrap_socket(other, server_hostname=url.hostname)
    with other:
        other.sendall(data.replace(target.encode("latin-1"), (url.path or "/").encode("latin-1"), 1))
        while piece := other.recv(65536):
            client.sendall(piece)


def serve_socks(world, client):
    client.settimeout(10)
    n = client.recv(2, socket.MSG_WAITALL)[1]
    client.recv(n, socket.MSG_WAITALL)
    client.sendall(b"\5\0")
    client.recv(4, socket.MSG_WAITALL)                  # only names come here
    host = client.recv(client.recv(1)[0], socket.MSG_WAITALL).decode("latin-1")
    port, = struct.unpack(">H", client.recv(2, socket.MSG_WAITALL))
    world.note(at="name", port=0, sni="", text=host)
    with dial(host, port) as other:
        client.sendall(b"\5\0\0\1\0\0\0\0\0\0")
        carry(client, other)


def main():
    world = World(sys.argv[1], sys.argv[2])
    make_addresses()
    make_certificates(world.folder)
    for port in PORTS:
        serve(world, port, lambda client: serve_one(world, client))
    for port in UDP_PORTS:
        def heard(data, port=port):
            world.note(at="udp", port=port, sni="", text=data.decode("latin-1"))
            return world.token.encode()
        serve_datagrams(world, port, heard)
    serve_datagrams(world, 53, lambda data: resolve(world, data))
    serve(world, 53, lambda client: resolve_stream(world, client))
    serve(world, 3128, lambda client: serve_proxy(world, client))
    serve(world, 1080, lambda client: serve_socks(world, client))
    threading.Thread(target=watch_pings, args=(world,), daemon=True).start()
    (world.folder / "resolv.conf").write_text(f"nameserver {RESOLVER}\noptions timeout:2 attempts:1\n")
    (world.folder / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
