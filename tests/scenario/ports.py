"""Ports of this machine that a test is about to listen on."""
import random
import socket

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
