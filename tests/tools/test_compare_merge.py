"""`cloister-compare` merges as `git merge-file` does, over random texts."""
import array
import os
import random
import socket
import struct
import subprocess

import pytest

COMPARE = os.path.join(os.environ.get("CLOISTER_BUILD", "build"), "libexec", "cloister-compare")
COMPARE_TEXT, COMPARE_DONE, COMPARE_MERGE, COMPARE_PICK = 2, 3, 4, 5
SEEDS = 10
CASES = 15                              # for each seed


class Compare:
    """A running cloister-compare, asked over its channel."""

    def __init__(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = ours
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$0" 3<&{theirs.fileno()}', COMPARE],
            pass_fds=[theirs.fileno()])
        theirs.close()

    def close(self):
        self.channel.close()
        assert self.process.wait() == 0

    def ask(self, kind, body, texts):
        """The numbers of the answer and its text."""
        files = [os.memfd_create("text") for _ in texts]
        for fd, text in zip(files, texts):
            os.write(fd, text)
            os.lseek(fd, 0, os.SEEK_SET)
        self.channel.sendmsg([struct.pack("<I", kind) + body],
                             [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
        for fd in files:
            os.close(fd)
        text = b""
        while True:
            data = self.channel.recv(1 << 18)
            kind, = struct.unpack_from("<I", data)
            if kind == COMPARE_TEXT:
                text += data[4:]
                continue
            assert kind == COMPARE_DONE
            failed, binary, one, _ = struct.unpack_from("<IIQQ", data, 4)
            assert failed == 0
            return binary, one, text + data[28:]

    def merge(self, base, ours, theirs, labels=("", "")):
        body = b"".join(struct.pack("<I", len(label)) + label.encode() + b"\0" for label in labels)
        return self.ask(COMPARE_MERGE, body, (base, ours, theirs))


@pytest.fixture(name="compare", scope="module")
def a_process():
    process = Compare()
    yield process
    process.close()


def edited(rng, lines, words):
    """A copy of LINES with a few of them changed, added, removed or moved."""
    lines = list(lines)
    for _ in range(rng.randint(0, 4)):
        at = rng.randint(0, len(lines))
        span = rng.randint(1, 3)
        kind = rng.randint(0, 3)
        if kind == 0:
            lines[at:at] = [rng.choice(words) for _ in range(span)]
        elif kind == 1:
            del lines[at:at + span]
        elif kind == 2:
            lines[at:at + span] = [rng.choice(words) for _ in range(span)]
        else:
            piece = lines[at:at + span]
            del lines[at:at + span]
            to = rng.randint(0, len(lines))
            lines[to:to] = piece
    text = "".join(f"{line}\n" for line in lines).encode()
    return text[:-1] if text and rng.random() < 0.1 else text


def triple(rng, vocabulary):
    """A base and two texts made of it."""
    words = [f"line {i}" if rng.random() < 0.9 else "}" for i in range(vocabulary)]
    base = [rng.choice(words) for _ in range(rng.randint(0, 40))]
    if rng.random() < 0.6:
        base = list(dict.fromkeys(base))
    ours, theirs = edited(rng, base, words), edited(rng, base, words)
    if rng.random() < 0.1:
        theirs = ours
    return "".join(f"{word}\n" for word in base).encode(), ours, theirs


def by_git(folder, base, ours, theirs):
    for name, text in ("base", base), ("ours", ours), ("theirs", theirs):
        (folder / name).write_bytes(text)
    done = subprocess.run(["git", "merge-file", "-p", "-L", "here", "-L", "base", "-L", "cell",
                           "ours", "base", "theirs"], cwd=folder, capture_output=True, check=False)
    assert done.returncode < 128, done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize("seed", range(SEEDS))
def test_merges_as_git_does(compare, tmp_path, seed):
    rng = random.Random(seed)
    for case in range(CASES):
        texts = triple(rng, 400)
        conflicts, merged = by_git(tmp_path, *texts)
        assert compare.merge(*texts, ("here", "cell")) == (0, conflicts, merged), (seed, case, texts)
        assert compare.merge(*texts) == (0, conflicts, b"" if conflicts else merged), (seed, case, texts)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_lines_that_repeat(compare, tmp_path, seed):
    """If most lines are equal, conflicts may begin at another one of them."""
    rng = random.Random(seed)
    for case in range(CASES):
        texts = triple(rng, rng.choice((4, 20)))
        conflicts, merged = by_git(tmp_path, *texts)
        ours = compare.merge(*texts)
        assert (ours[1] > 0) == (conflicts > 0) and ours[2] == (b"" if conflicts else merged), (seed, case, texts)


def test_binary_files_are_not_merged(compare):
    assert compare.merge(b"a\n", b"b\n", b"\0\n")[0] == 1
