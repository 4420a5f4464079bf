"""The control socket: whatever is said to it, the supervisor stays, and so does the cell."""
import os
import random
import socket
import struct

from operators import wait_until


def connect(operator, cell):
    entry = next(e for e in operator.runtime.iterdir() if e.name.startswith(cell + "."))
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(20)
    peer.connect(str(entry / "control"))
    return peer


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


def words(values):
    return struct.pack("<I", len(values)) + b"".join(map(text, values))


def hostile_messages(rng):
    yield b"\1"                                     # no type
    yield struct.pack("<I", 0)
    yield struct.pack("<I", 0xffffffff)
    yield struct.pack("<II", 1, 7)                  # INFO with something behind it
    yield struct.pack("<I", 4)                      # STOP without its time
    yield struct.pack("<II", 10, 9)                 # SIGNAL before any exec
    yield struct.pack("<I", 7) + b"\xff" * 64       # EXEC of nonsense
    yield struct.pack("<I", 7) + b"\0" * 100_000
    for kind in range(14):
        yield struct.pack("<I", kind) + rng.randbytes(rng.randrange(200)) if kind not in (
            3, 4, 5) else struct.pack("<I", kind) + rng.randbytes(7)
    for kind in (14, 15, 31, 32, 33, 34, *range(39, 50), *range(55, 61)):
        yield struct.pack("<I", kind) + rng.randbytes(rng.randrange(100))
        yield struct.pack("<I", kind) + text("") + text("why") + rng.randbytes(rng.randrange(40))
    for _ in range(200):
        yield struct.pack("<I", 7) + rng.randbytes(rng.randrange(4000))


def test_hostile_messages_are_dropped(operator):
    rng = random.Random(20260)
    cell = operator.detach("sleep", "1000")
    for message in hostile_messages(rng):
        with connect(operator, cell) as peer:
            peer.send(message)
            # An answer or the end, never silence while it waits for more.
            try:
                peer.recv(65536)
            except ConnectionResetError:
                pass
    assert operator.cloister("exec", cell, "--", "echo", "alive").ok() == "alive\n"
    operator.cloister("kill", cell).ok()


def test_descriptors_other_than_pipes_are_refused(operator):
    cell = operator.detach("sleep", "1000")
    body = struct.pack("<IIII", 7, 0, 0, 0) + text("/") + words(["true"]) + words([])
    folder = os.open("/", os.O_RDONLY)
    with connect(operator, cell) as peer:
        socket.send_fds(peer, [body], [folder, folder, folder])
        assert peer.recv(65536) == b""
    os.close(folder)
    assert operator.cloister("exec", cell, "--", "echo", "alive").ok() == "alive\n"
    operator.cloister("kill", cell).ok()


def test_many_connections_do_not_starve_the_operator(operator):
    cell = operator.detach("sleep", "1000")
    peers = [connect(operator, cell) for _ in range(60)]
    assert operator.cloister("exec", cell, "--", "echo", "alive").ok() == "alive\n"
    for peer in peers:
        peer.close()
    wait_until(lambda: operator.cloister("exec", cell, "--", "true").status == 0, "exec works")
    operator.cloister("kill", cell).ok()


def test_a_kill_of_a_dead_cell_is_answered(operator):
    """While the supervisor still waits for the client that killed it first."""
    kill, dead = struct.pack("<I", 5), struct.pack("<I", 6)
    cell = operator.detach("sleep", "1000")
    first, second = connect(operator, cell), connect(operator, cell)
    first.send(kill)
    assert first.recv(64) == dead
    second.send(kill)
    assert second.recv(64) == dead
    first.close()
    second.close()
    wait_until(lambda: not operator.cells(), "it has ended")
