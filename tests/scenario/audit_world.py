"""Timelines made without cloister: docs/audit-format.md written down once more, in another language."""
import base64
import hashlib
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (Encoding, NoEncryption, PrivateFormat,
                                                          PublicFormat)


def canonical(value):
    """RFC 8785, for values of ASCII names and whole numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def leaf(line):
    return hashlib.sha256(b"\0" + line).digest()


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


class Tree:
    """The complete parts of RFC 6962's tree, the largest first: (leaves, root)."""

    def __init__(self):
        self.parts, self.size = [], 0

    def add(self, hash_):
        self.size += 1
        width = 1
        while self.parts and self.parts[-1][0] == width:
            hash_ = node(self.parts.pop()[1], hash_)
            width *= 2
        self.parts.append((width, hash_))

    def root(self):
        if not self.parts:
            return hashlib.sha256(b"").digest()
        root = self.parts[-1][1]
        for _, part in reversed(self.parts[:-1]):
            root = node(part, root)
        return root


class Key:
    def __init__(self, seed=None):
        self.private = (Ed25519PrivateKey.from_private_bytes(seed) if seed else
                        Ed25519PrivateKey.generate())
        self.seed = self.private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        self.public = self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.hex = self.public.hex()


class Timeline:
    """Lines of a timeline, each without its newline."""

    def __init__(self, timeline, key):
        self.timeline, self.key = timeline, key
        self.tree, self.head, self.lines = Tree(), bytes(32), []
        self.clock = 0

    def time(self):
        self.clock += 1
        return "2026-11-15T16:%02d:%02d.%03dZ" % (self.clock // 60000 % 60, self.clock // 1000 % 60,
                                                  self.clock % 1000)

    def add(self, event, time=None):
        record = {"event": event, "n": self.tree.size + 1, "prev": self.head.hex(),
                  "time": time or self.time()}
        if self.timeline == "operator":
            record["log"] = "operator"
        else:
            record["cell"] = self.timeline.removeprefix("cell/")
        line = canonical(record).encode()
        self.head = leaf(line)
        self.tree.add(self.head)
        self.lines.append(line)
        return line

    def checkpoint(self):
        size, root, time = self.tree.size, self.tree.root().hex(), self.time()
        text = f"cloister checkpoint v1\n{self.timeline}\n{size}\n{root}\n{time}\n"
        self.add({"type": "checkpoint", "key": self.key.hex, "root": root, "size": size,
                  "tree": [part.hex() for _, part in self.tree.parts],
                  "signature": base64.b64encode(self.key.private.sign(text.encode())).decode()},
                 time)

    def bytes(self):
        return b"".join(line + b"\n" for line in self.lines)
