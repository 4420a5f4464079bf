"""cloister-inspect by itself, with this test in the courier's place."""
import gzip
import os
import socket
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from operators import IS_ROOT, SECONDS, USER, wait_until

DATA = 1
POLICY, BODY, END, RESULT, DROP = range(8, 13)
SECRETS, RULES = 1, 2
CLEAN, SECRET, UNREADABLE = range(3)
PIECE = 64 * 1024

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def token():
    """A GitHub token that never was one, with its checksum."""
    text = "".join(DIGITS[(7 * i * i + 31 * i + 5) % 62] for i in range(30))
    crc = zlib.crc32(text.encode())
    return "ghp_" + text + "".join(DIGITS[crc // 62 ** i % 62] for i in range(5, -1, -1))


class Inspect:
    def __init__(self, who, program):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        user = {"user": USER, "group": USER, "extra_groups": []} if who == "user" and IS_ROOT else {}

        def place():
            os.dup2(theirs.fileno(), 3)

        self.proc = subprocess.Popen([program.parent / "libexec" / "cloister-inspect"],
                                     preexec_fn=place, pass_fds=[3], **user)
        theirs.close()
        self.channel = ours
        self.channel.settimeout(SECONDS)
        self.last = 0

    def close(self):
        self.channel.close()
        try:
            return self.proc.wait(SECONDS)
        finally:
            self.proc.kill()
            self.proc.wait()

    def send(self, stream, kind, body=b""):
        self.channel.sendall(struct.pack("<III", stream, kind, len(body)) + body)

    def ask(self, coding="", wanted=SECRETS, path="/x"):
        self.last += 1
        words = ("POST", path, "application/json", coding)
        body = b"".join(struct.pack("<I", len(w)) + w.encode() + b"\0" for w in words)
        self.send(self.last, BODY, body + struct.pack("<I", wanted))
        return self.last

    def take(self, n):
        data = b""
        while len(data) < n:
            more = self.channel.recv(n - len(data))
            assert more, "it has gone"
            data += more
        return data

    def answer(self):
        """The next: (stream, result, what)."""
        while True:
            stream, kind, n = struct.unpack("<III", self.take(12))
            body = self.take(n)
            if kind == RESULT:
                result, size = struct.unpack_from("<II", body)
                return stream, result, body[8:8 + size].decode()

    def look(self, body, coding="", wanted=SECRETS):
        stream = self.ask(coding, wanted)
        for at in range(0, len(body), PIECE):
            self.send(stream, DATA, body[at:at + PIECE])
        self.send(stream, END)
        got, result, what = self.answer()
        assert got == stream
        return result, what

    def status(self):
        lines = Path(f"/proc/{self.proc.pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@pytest.fixture
def inspect(who, program):
    inspect = Inspect(who, program)
    yield inspect
    inspect.close()


def test_finds_secrets_in_packed_bodies(inspect):
    body = ('{"text": "%s"}' % token()).encode()
    assert inspect.look(body) == (SECRET, "GitHub token")
    assert inspect.look(gzip.compress(body), "gzip") == (SECRET, "GitHub token")
    assert inspect.look(zlib.compress(body), "deflate") == (SECRET, "GitHub token")
    assert inspect.look(gzip.compress(b"hello"), "gzip") == (CLEAN, "")
    assert inspect.look(b"") == (CLEAN, "")


def test_is_locked_down(inspect):
    assert inspect.look(b"hello") == (CLEAN, "")
    status = inspect.status()
    assert status["Seccomp"] == "2"
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == 0 and int(status["CapPrm"], 16) == 0
    if IS_ROOT:
        assert os.listdir(f"/proc/{inspect.proc.pid}/root") == []
        assert os.readlink(f"/proc/{inspect.proc.pid}/ns/net") != os.readlink("/proc/self/ns/net")


def test_bombs_are_given_up(inspect):
    bomb = gzip.compress(bytes(80 << 20))
    for _ in range(3):
        result, what = inspect.look(bomb, "gzip")
        assert result == UNREADABLE and "200 times" in what
    assert inspect.look(gzip.compress(gzip.compress(bytes(80 << 20))), "gzip, gzip")[0] == UNREADABLE
    assert inspect.look(b"hello", "compress") == (UNREADABLE, "its content coding is not known here")
    assert inspect.look(b"hello") == (CLEAN, "")
    assert int(inspect.status()["VmHWM"].split()[0]) < 64 * 1024


def test_the_number_of_bodies_is_limited(inspect):
    """Dropped bodies make room again."""
    streams = [inspect.ask() for _ in range(128)]
    late = inspect.ask()
    assert inspect.answer() == (late, UNREADABLE, "too many bodies are being inspected")
    for stream in streams:
        inspect.send(stream, DROP)
        inspect.send(stream, DATA, b"too late")
        inspect.send(stream, END)
    assert inspect.look(b"hello") == (CLEAN, "")


def test_answers_before_the_end(inspect):
    stream = inspect.ask()
    inspect.send(stream, DATA, token().encode() + b" and so on")
    assert inspect.answer() == (stream, SECRET, "GitHub token")


@pytest.mark.parametrize("frame", [
    (1, 77, b""), (0, 77, b""), (1, POLICY, b"\0\0\0\0"), (0, POLICY, b"\0\0\0\0nonsense"),
    (1, BODY, b""), (1, BODY, b"\4\0\0\0POST\0"), (1, RESULT, b""),
], ids=lambda frame: f"{frame[0]}-{frame[1]}-{len(frame[2])}")
def test_nonsense_ends_it(inspect, frame):
    inspect.send(*frame)
    wait_until(lambda: inspect.proc.poll() is not None, "it ends")
    assert inspect.proc.returncode == 0


def test_rules_before_a_policy_end_it(inspect):
    inspect.ask(wanted=RULES)
    wait_until(lambda: inspect.proc.poll() is not None, "it ends")
    assert inspect.proc.returncode == 0


def test_ends_with_the_courier(inspect):
    assert inspect.look(b"hello") == (CLEAN, "")
    assert inspect.close() == 0
