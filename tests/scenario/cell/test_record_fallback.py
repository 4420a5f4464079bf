"""The kernel's programs cannot be used, or another build's are there too: cells are recorded all the same."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from operators import BUILD, only_root, wait_until

pytestmark = [only_root, pytest.mark.skipif(not (BUILD / "gen/witness_programs.h").exists(), reason="this build has no eBPF")]

PINS = ("cells", "rings", "links", "full", "executed", "exited", "call_done")
# Pins arrays where the programs and maps of this build are to be.
SPOIL = """\
import ctypes, os, struct, sys
libc, nr = ctypes.CDLL(None, use_errno=True), {"x86_64": 321, "aarch64": 280}[os.uname().machine]
def bpf(command, *values):
    attributes = struct.pack(*values).ljust(120, b"\\0")
    fd = libc.syscall(nr, command, ctypes.c_char_p(attributes), len(attributes))
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd
os.makedirs(sys.argv[1], 0o700)
for name in sys.argv[2:]:
    path = ctypes.create_string_buffer(os.fsencode(f"{sys.argv[1]}/{name}"))
    bpf(6, "=QII", ctypes.addressof(path), bpf(0, "=IIII", 2, 4, 4, 1), 0)
"""
WRAP = 'mount --make-rprivate / && mount -t bpf bpf /sys/fs/bpf && mkdir -m 700 /sys/fs/bpf/cloister && exec sleep infinity'


@pytest.fixture
def machine(operator):
    """Runs commands where /sys/fs/bpf is a bpffs of the test's own."""
    holder = subprocess.Popen(["unshare", "-m", "sh", "-c", WRAP])
    own = Path(f"/proc/{holder.pid}/root/sys/fs/bpf/cloister")
    wait_until(lambda: holder.poll() is not None or own.is_dir(), "the machine has a bpffs")
    if holder.poll() is not None:
        pytest.skip("no bpffs can be mounted here")
    id = re.search(r'ID "(\w+)"', (BUILD / "gen/witness_programs.h").read_text())[1]
    try:
        yield own / id, lambda *words: operator.do("nsenter", "-t", str(holder.pid), "-m", operator.program, "run", *words)
    finally:
        holder.kill()
        holder.wait()


def records(operator, name):
    return [json.loads(line) for line in operator.cloister("events", "--json", name).ok().splitlines()]


def is_recorded(seen, by):
    header, = [r for r in seen if r["type"] == "record"]
    return header["by"] == by and [r for r in seen if r["type"] == "exec" and r.get("argv") == ["true", "seen"]]


def test_programs_that_cannot_be_used(operator, machine):
    pins, run = machine
    subprocess.run(["/usr/bin/python3", "-c", SPOIL, pins, *PINS], check=True)
    policy = operator.file("p.yaml", "version: 1\nrecord: full\n")
    run("-q", "--name", "blind", "-p", policy, "--", "true", "seen").ok()
    seen = records(operator, "blind")
    assert is_recorded(seen, "notify")
    assert "cannot" in seen[1]["why"]
    assert f"by notify, because {seen[1]['why']}" in operator.cloister("events", "blind").ok()


def test_two_builds(operator, machine):
    """Programs of another build stay for its cells, and go after them, whatever they are called there."""
    pins, run = machine
    other = pins.parent / "0123456789abcdef"
    first = run("-q", "-d", "--name", "first", "--", "sleep", "600").ok().strip()
    operator.kept.add(first)
    os.rename(pins, other)
    os.rename(other / "exited", other / "renamed")
    run("-q", "--name", "second", "--", "true", "seen").ok()
    assert pins.is_dir() and other.is_dir() and len(list(other.iterdir())) == len(PINS)
    assert is_recorded(records(operator, "second"), "ebpf")
    operator.cloister("kill", first).ok()
    operator.cloister("wait", first)
    # Of a third build, after the first one's cells.
    os.rename(pins, pins.parent / "fedcba9876543210")
    run("-q", "--name", "third", "--", "true", "seen").ok()
    assert is_recorded(records(operator, "third"), "ebpf")
    assert [folder.name for folder in pins.parent.iterdir()] == [pins.name]
