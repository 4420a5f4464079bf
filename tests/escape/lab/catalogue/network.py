"""Addresses outside.  Egress is an issue of its own: here nothing goes anywhere."""
import os
import secrets
import socket

from ..cell import NotApplicable
from ..tools import free_port
from ..verdict import probe
from ..world import ROOT

METADATA = ["169.254.169.254", "0251.0376.0251.0376", "2852039166", "0xa9fea9fe", "::ffff:169.254.169.254",
            "100.100.100.200", "fd00:ec2::254"]
UNLISTED = ["203.0.113.5", "::ffff:203.0.113.5", "2001:db8::5"]
LOOPBACK = ["127.0.0.1", "127.0.0.53", "0.0.0.0", "::ffff:127.0.0.1", "::1"]


@probe("connects to a server on the host's loopback")
def loopback_tcp(w):
    token = w.token()
    port = w.listen(socket.AF_INET, ("0.0.0.0", 0), token).getsockname()[1]
    return token.encode() in w.run("connect", "tcp", port, *LOOPBACK).out


@probe("sends a datagram to a server on the host's loopback")
def loopback_udp(w):
    token = w.token()
    port = w.listen(socket.AF_INET, ("0.0.0.0", 0), token, socket.SOCK_DGRAM).getsockname()[1]
    cell = w.run("connect", "udp", port, "127.0.0.1")
    return token.encode() in cell.out or cell.nonce.encode() in w.heard


def world(w):
    """A network with all of these addresses in it, and the canary behind each."""
    w.need_root("lay out a network")
    token = w.token()
    pid = w.holder("world", token, "169.254.169.254", "100.100.100.200", "203.0.113.5", "fd00:ec2::254",
                   "2001:db8::5", who=ROOT, hear=True)
    return ["--net", pid], token.encode()


def reach(kind, addresses):
    def run(w):
        around, token = world(w)
        cell = w.run("connect", kind, 80, *addresses, around=around)
        w.serve(0.02)
        return token in cell.out or b"hit" in w.heard
    return run


for kind in ("tcp", "udp"):
    probe(f"reaches a metadata service by {kind}", name=f"metadata-{kind}", group="network")(
        reach(kind, METADATA))
    probe(f"reaches an unlisted address by {kind}", name=f"unlisted-{kind}", group="network")(
        reach(kind, UNLISTED))


@probe("gets an answer to a ping", control="root")
def unlisted_ping(w):
    around, _ = world(w)
    return w.run("ping", "203.0.113.5", around=around).said("won")


def two_boxes(w):
    if w.box.name == "cloister exec":
        raise NotApplicable("both would join the same cell")


@probe("connects to a server in another box")
def other_box(w):
    two_boxes(w)
    token, port = w.token(), free_port()
    server = w.spawn("listen", port, token)
    server.pid()
    return token.encode() in w.run("connect", "tcp", port, *LOOPBACK).out


@probe("finds files that another box left in its temporary folders")
def other_box_files(w):
    two_boxes(w)
    token, name = w.token(), "left-" + secrets.token_hex(6)
    paths = [f"/tmp/{name}", f"/var/tmp/{name}", f"/dev/shm/{name}"]
    for path in paths:
        w.stack.callback(forget, path)
    first = w.spawn("create", token, *paths).finish()
    first.check()
    return token.encode() in w.run("read", *paths).out


def forget(path):
    if os.path.exists(path):
        os.unlink(path)
