"""Speaks with cloister-fleet as src/ipc/fleet_channel.h says: for tests of an engine without a service."""
import json
import socket
import struct
import subprocess

from operators import CLOISTER, SECONDS

OPEN, COUNT, START, LOOK, STOP, CHECK = range(1, 7)
DONE, FAILED = 100, 101
TAG = "0123456789abcdef"
GOOD, NOTE, MISSING = range(3)


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


class Reader:
    def __init__(self, data):
        self.data = data

    def u32(self):
        value, = struct.unpack_from("<I", self.data)
        self.data = self.data[4:]
        return value

    def text(self):
        n = self.u32()
        value, self.data = self.data[:n].decode(), self.data[n + 1:]
        return value


class Refused(Exception):
    """The one sentence with which a question was refused."""


class Fleet:
    """One cloister-fleet, with the target CONTENT, whose missing members are the defaults."""

    def __init__(self, content, env, tag=TAG, **how):
        content = {"pool": content["name"], "workers": {"min": 0, "max": 10}, "slots": 4, "once": False, "idle": "5m",
                   "service": None, "cpus": None, "memory": None, "env": {}, "secrets": {}, content["engine"]: {}, **content}
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(SECONDS)
        # It has descriptor 3, and no other; sh knows only numbers of one digit.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec 3<&{theirs.fileno()} {theirs.fileno()}<&-; exec "$0"', how.pop("program", CLOISTER.parent /
                                                                                            "libexec" / "cloister-fleet")],
            env={"PATH": "/usr/bin:/bin", **env}, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, **how)
        theirs.close()
        try:
            self.ask(OPEN, text(json.dumps(content)) + text(tag))
        except BaseException:
            self.close()
            raise

    def ask(self, type, body=b""):
        self.channel.send(struct.pack("<I", type) + body)
        answer = Reader(self.channel.recv(1 << 18))
        assert answer.data, "cloister-fleet ended"
        kind = answer.u32()
        if kind == FAILED:
            answer.u32()
            raise Refused(answer.text())
        assert kind == DONE, kind
        return answer

    def count(self):
        """Those alive, those that failed, and why."""
        answer = self.ask(COUNT)
        return answer.u32(), answer.u32(), answer.text()

    def start(self, *tokens, probes=False):
        """The ids of new workers, one for each of TOKENS."""
        answer = self.ask(START, struct.pack("<II", int(probes), len(tokens)) + b"".join(map(text, tokens)))
        ids = [answer.text() for _ in range(answer.u32())]
        code, why = answer.u32(), answer.text()
        if code:
            raise Refused(why)
        return ids

    def look(self, id):
        """Whether it has ended, its exit status, and a sentence."""
        answer = self.ask(LOOK, text(id))
        return bool(answer.u32()), answer.u32(), answer.text()

    def stop(self, id):
        self.ask(STOP, text(id))

    def check(self):
        """Level and sentence of each finding."""
        answer = self.ask(CHECK)
        return [(answer.u32(), answer.text()) for _ in range(answer.u32())]

    def missing(self):
        return [said for level, said in self.check() if level == MISSING]

    def close(self):
        self.channel.close()
        self.process.wait(SECONDS)
