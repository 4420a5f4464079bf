"""Changes to a running cell, as requests to its supervisor: in force when it answers, and still in
force after the courier is replaced."""
import os
import signal
import socket
import struct

import pytest

from egress_lab import CURL, helpers_of
from operators import wait_until
from test_control_socket import connect, text

SET_POLICY, GET_POLICY, DONE, REFUSED = 32, 33, 14, 15
WWW = "https://www.example.test/hello"

# Where root makes no difference.
pytestmark = pytest.mark.parametrize("who", ["user"])


def ask(operator, cell, kind, rest=b"", fds=(), by="", why=""):
    """The answer: its type, what it carries, and its descriptors."""
    with connect(operator, cell) as peer:
        socket.send_fds(peer, [struct.pack("<I", kind) + text(by) + text(why) + bytes(4) + rest], list(fds))
        data, got, _, _ = socket.recv_fds(peer, 65536, 4)
        return struct.unpack("<I", data[:4])[0], data[4:], got


def code(online, cell, url=WWW):
    done = online.operator.cloister("exec", cell, "--", *CURL, "-o", "/dev/null", "-w",
                                    "%{http_code}", url)
    return done.out


def cells(online):
    """One that may, and one that may not, of which the events are asked for."""
    both = [online.operator.detach("-p", online.policy(rules, name), "--", "sleep", "1000")
            for name, rules in (("may.yaml", "  - allow: www.example.test\n"),
                                ("not.yaml", "  - deny: www.example.test\n    reason: no\n"))]
    online.cell = both[1]
    return both


def count_of(fd):
    return struct.unpack("<Q", os.pread(fd, 8, 0))[0]


def test_a_policy_is_in_force_when_the_supervisor_confirms_it(online):
    operator = online.operator
    may, may_not = cells(online)
    kind, data, allowing = ask(operator, may, GET_POLICY)
    assert kind == DONE and b"sha256:" in data and len(allowing) == 3
    _, _, denying = ask(operator, may_not, GET_POLICY)
    # Nothing of it runs yet: it is kept for whom it is for.
    rest = text("policy") + text("") + text("") + struct.pack("<III", 0, 0, 0)
    kind, data, _ = ask(operator, may_not, SET_POLICY, rest, allowing, why="it asked nicely")
    assert kind == DONE
    assert code(online, may_not) == "200"
    for fds, wanted in ((denying, "403"), (allowing, "200")):
        assert ask(operator, may_not, SET_POLICY, rest, fds, by="token ops")[0] == DONE
        assert code(online, may_not) == wanted
    # A courier that is killed leaves it to the next.
    assert ask(operator, may_not, SET_POLICY, rest, denying)[0] == DONE
    courier = helpers_of(operator, may_not)["courier"]
    os.kill(courier, signal.SIGKILL)
    wait_until(lambda: helpers_of(operator, may_not).get("courier") != courier, "its end")
    before = count_of(denying[2])
    assert code(online, may_not) == "403"
    assert count_of(denying[2]) == before + 1
    steered = online.events(type="steer")
    assert [e["did"] for e in steered] == ["policy"] * 4
    assert steered[0]["why"] == "it asked nicely" and steered[0]["by"].startswith("uid ")
    assert steered[1]["by"] == "token ops" and steered[1]["before"] == steered[0]["policy"]
    assert steered[0]["policy"] == steered[2]["policy"] != steered[1]["policy"]
    operator.cloister("kill", may, may_not).ok()


def test_an_invalid_policy_changes_nothing(online):
    operator = online.operator
    may, may_not = cells(online)
    assert code(online, may_not) == "403"
    _, _, allowing = ask(operator, may, GET_POLICY)
    _, _, denying = ask(operator, may_not, GET_POLICY)
    rest = text("policy") + text("") + text("") + struct.pack("<III", 0, 0, 0)
    # A text is no policy, and the courier says so.
    kind, data, _ = ask(operator, may_not, SET_POLICY, rest, [allowing[1], allowing[1], allowing[2]])
    assert kind == REFUSED, data
    # What could still be written is not taken at all.
    loose = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.write(loose, os.pread(allowing[0], 1 << 20, 0))
    with connect(operator, may_not) as peer:
        socket.send_fds(peer, [struct.pack("<I", SET_POLICY) + text("") + text("") + rest],
                        [loose, *allowing[1:]])
        assert peer.recv(100) == b""
    os.close(loose)
    # Nor what was meant for another policy than there is.
    stale = text("policy") + text("") + text("sha256:" + "0" * 64) + struct.pack("<III", 0, 0, 0)
    kind, data, _ = ask(operator, may_not, SET_POLICY, stale, allowing)
    assert kind == REFUSED and b"somebody else has changed" in data
    assert code(online, may_not) == "403"
    assert not online.events(type="steer")
    operator.cloister("kill", may, may_not).ok()
