"""Ports of this machine: those that a test is about to listen on, and those that lead into a cell."""
import random
import socket
import time

DICE = random.SystemRandom()


def free_port():
    """A free port outside the range that the kernel takes ports for connections from.

    A port from that range can be taken again, by any connection of another test, before it is used.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first, last = map(int, f.read().split())
    ports = [port for port in range(10000, 65536) if not first <= port <= last]
    for _ in range(1000):
        port = DICE.choice(ports)
        with socket.socket() as v4, socket.socket(socket.AF_INET6) as v6:
            try:
                v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                v4.bind(("0.0.0.0", port))
                v6.bind(("::", port))
                return port
            except OSError:
                continue
    raise OSError("no port of this machine is free")


def check_idle_limit(port):
    """Of the connections to a server in a cell that answers only after a ".", the silent one ends, and one that is not
    stays: the limit is 1.5 s with CLOISTER_OFF=idle-hour in the mutant build."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as silent, \
            socket.create_connection(("127.0.0.1", port), timeout=60) as busy:
        began = time.monotonic()
        silent.sendall(b"x")
        silent.settimeout(0.1)
        ended = None
        while ended is None and time.monotonic() < began + 30:
            busy.sendall(b"x")
            try:
                ended = silent.recv(1) == b""
            except TimeoutError:
                pass
            except ConnectionError:
                ended = True
        assert ended and time.monotonic() > began + 1, "a silent connection stays"
        busy.sendall(b".")
        assert busy.recv(100).split() != [], "a connection that is not silent has ended"
