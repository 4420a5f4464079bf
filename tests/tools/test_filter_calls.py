"""A filter allows a function of the C library on both architectures, or on neither.

On amd64 chmod() makes the system call chmod; on arm64 it makes fchmodat.  A filter that names only one
of them kills a helper on the other architecture.  These tests read the machine code of both C libraries
and the generated filters, so each architecture finds the defects of the other.
"""
import os
import re
from pathlib import Path

import pytest

from libc_calls import library_calls

ROOT = Path(__file__).resolve().parents[2]
FILTERS = Path(os.environ.get("CLOISTER_BUILD", ROOT / "build")) / "gen" / "filter_bpf.h"
# An architecture's C library is where its own packages or those for cross-compiling put it.
PLACES = ["/usr/lib/{0}-linux-gnu/libc.a", "/usr/{0}-linux-gnu/lib/libc.a"]
TOKENS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Here the caller passes the number.  Our own code uses names.
CALLER_CHOOSES = {"syscall.o", "nptl_setxid.o", "aio_notify.o"}

# These run before main() only, and no filter is loaded yet.
AT_START = {"libc-tls.o"}
# On arm64 these functions call another one, which makes this call.
ARM64_CALLS = {"epoll_wait.o": 22, "alarm.o": 103, "time.o": 113, "getpgrp.o": 155,
               "syscall_clock_gettime.o": 113}
# arm64 has no such function, its C library does not use it, or nobody calls it (`make lint` refuses creat).
AMD64_ONLY = {"ioperm.o", "iopl.o", "modify_ldt.o", "arch_prctl.o", "clone3.o", "creat64.o"}

ALLOW = 0x7FFF0000
LOAD, AND, JUMP, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
NUMBER_AT, ARCH_AT = 0, 4


def read_filters():
    """{(architecture, profile): instructions}"""
    found = {}
    for name, body in re.findall(r"sock_filter filter_(\w+)\[\d+\] = \{(.*?)\n\};", FILTERS.read_text(), re.S):
        arch = next(arch for arch in TOKENS if name.startswith(arch))
        if "mutant" not in name:
            found[arch, name[len(arch) + 1:]] = [tuple(int(word, 0) for word in row.split(","))
                                                 for row in re.findall(r"\{ ([^{}]+) \}", body)]
    return found


def allows(code, arch, number):
    """Whether the filter lets this call through for some arguments."""
    ways = [(0, 0)]                     # instruction, accumulator: None where it is an argument
    while ways:
        at, value = ways.pop()
        op, if_true, if_false, operand = code[at]
        if op == RETURN:
            if operand == ALLOW:
                return True
        elif op == LOAD:
            ways.append((at + 1, {NUMBER_AT: number, ARCH_AT: TOKENS[arch]}.get(operand)))
        elif op == AND:
            ways.append((at + 1, None if value is None else value & operand))
        elif op == JUMP:
            ways.append((at + 1 + operand, value))
        elif value is None:
            ways += [(at + 1 + if_true, None), (at + 1 + if_false, None)]
        else:
            holds = value == operand if op == EQUAL else value >= operand
            ways.append((at + 1 + (if_true if holds else if_false), value))
    return False


def find_library(arch):
    found = [path for path in (place.format(arch) for place in PLACES) if os.path.exists(path)]
    assert found, f"there is no libc.a for {arch}: `make deps-test` installs it"
    return found[0]


@pytest.fixture(scope="module")
def libraries():
    """{architecture: {object file: calls}}"""
    found = {arch: library_calls(arch, find_library(arch)) for arch in TOKENS}
    for arch, (_, open_ended) in found.items():
        assert open_ended <= CALLER_CHOOSES, f"{arch}: cannot read the calls of {open_ended}"
    calls = {arch: calls for arch, (calls, _) in found.items()}
    for member, number in ARM64_CALLS.items():
        calls["aarch64"].setdefault(member, {number})
    assert set(calls["x86_64"]) ^ set(calls["aarch64"]) <= AMD64_ONLY, "say what the other architecture does"
    return calls


# Refused on both: by its number on amd64, and by the flags of clone or unlinkat on arm64.
BY_FLAGS = {"monitor": {"vfork.o"}, "disk": {"vfork.o"}, "hypervisor": {"vfork.o", "rmdir.o"}}


def lopsided(filters, libraries, profile):
    """Functions that the filter allows on one architecture only."""
    for member in sorted(set(libraries["x86_64"]) & set(libraries["aarch64"]) - AT_START - AMD64_ONLY -
                         BY_FLAGS.get(profile, set())):
        refused = {arch: {number for number in libraries[arch][member]
                          if not allows(filters[arch, profile], arch, number)} for arch in TOKENS}
        if bool(refused["x86_64"]) != bool(refused["aarch64"]):
            yield f"{member}: " + ", ".join(f"{arch} {sorted(refused[arch])}" for arch in TOKENS)


@pytest.mark.parametrize("profile", sorted({profile for _, profile in read_filters()}))
def test_both_architectures_allow_the_same_functions(libraries, profile):
    assert list(lopsided(read_filters(), libraries, profile)) == []


def test_a_call_of_one_architecture_is_found(libraries):
    """Without chmod in its table, the collector is killed on amd64 only."""
    filters = read_filters()
    without = dict(filters)
    chmod = next(iter(libraries["x86_64"]["chmod.o"]))
    without["x86_64", "collect"] = [(LOAD, 0, 0, NUMBER_AT), (EQUAL, 0, 1, chmod), (RETURN, 0, 0, 0x80000000),
                                    *filters["x86_64", "collect"]]
    assert [line for line in lopsided(without, libraries, "collect") if line.startswith("chmod.o")]
