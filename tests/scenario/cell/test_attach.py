"""A cell with a terminal and nobody at it: people join, leave, and join again."""
import json
import re
import signal

import pytest

from operators import over_stream_too, wait_until
from terminal import Terminal

# Echoes lines, and reports its size.
AGENT = r"""
import os, signal, sys
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"%d %d\n" % os.get_terminal_size()[::-1]))
print("\033[?2004h\033[6nnobody saw this", flush=True)
for line in sys.stdin:
    print("got", line, end="", flush=True)
    if line == "end\n":
        sys.exit(7)
"""


@pytest.fixture
def terminal(operator):
    opened = []

    def start(*words, **how):
        opened.append(Terminal(operator, operator.program, *words, **how))
        return opened[-1]
    yield start
    operator.close()
    for t in opened:
        t.close()


def did(operator, id):
    lines = operator.cloister("events", "--json", id).ok().splitlines()
    return [e["did"] for e in map(json.loads, lines) if "did" in e]


@over_stream_too
def test_join_leave_and_join_again(operator, terminal):
    # No terminal is needed to start it.
    id = operator.detach("-t", "--", "/usr/bin/python3", "-Ic", AGENT)
    wait_until(lambda: "nobody saw this" in operator.cloister("logs", id).out, "its first line")
    first = terminal("attach", id, rows=33, columns=101)
    # Old output is drawn again, without its questions to the terminal, and its modes are set.
    shown = first.expect("(?s)^(.*)nobody saw this\r\n")[1]
    assert "\033[?2004h" in shown and "\033[6n" not in shown
    first.expect("33 101\r\n")
    first.type("one\r")
    first.expect("got one\r\n")
    first.resize(40, 90)
    first.expect("40 90\r\n")

    # A second one sees the same, and its size counts.
    second = terminal("attach", "--detach-keys", "ctrl-a,d", id, rows=20, columns=70)
    first.expect("20 70\r\n")
    second.type("two\r")
    first.expect("got two\r\n")
    second.expect("got two\r\n")
    second.type("\x10\x11three\r")
    first.expect("got .*three\r\n")
    second.type("\x01d")
    assert second.end() == 0
    # The terminal is as it was, and the person knows how to come back.
    assert "\033[?2004l" in second.text and f"`cloister attach {id}`" in second.text
    assert second.settings() == second.before

    # One that dies has left; output goes on meanwhile.
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    wait_until(lambda: did(operator, id).count("detached") == 2, "its end to be noticed")
    assert did(operator, id).count("attached") == 2

    third = terminal("attach", id)
    third.expect("got one\r\n(?s:.*)got two\r\n")
    third.type("end\r")
    assert third.end() == 7
    assert "got end\r\n" in third.text and third.settings() == third.before
    assert "got end" in operator.cloister("logs", id).out


def test_run_can_be_left(operator, terminal):
    t = terminal("run", "-q", "--name", "left", "--detach-keys", "ctrl-p,ctrl-q", "--", "cat")
    t.type("one\r")
    t.expect("one\r\none\r\n")
    # As a terminal sends it to a program that asked for longer forms.
    t.type("\033[112;5u\033[113;5u")
    assert t.end() == 0
    id, = [c["cell"] for c in operator.cells() if c["name"] == "left"]
    again = terminal("attach", "left")
    again.expect("one\r\n")
    again.type("two\r\x04")
    assert again.end() == 0 and "two" in again.text
    # One that has ended before it is joined.
    t = terminal("run", "-q", "--detach-keys", "ctrl-p,ctrl-q", "--", "sh", "-c", "echo quick; exit 3")
    assert t.end() == 3 and "quick" in t.text
    # One that closes its terminal goes on.
    t = terminal("run", "-q", "--detach-keys", "ctrl-p,ctrl-q", "--", "sh", "-c",
                 "exec </dev/null >/dev/null 2>&1; seq 300000 | sort -R; exit 4")
    assert t.end() == 4, t.text
    terminal("attach", id).expect("has ended")
    operator.kept.update(c["cell"] for c in operator.cells("-a"))


def test_a_client_that_reads_nothing_does_not_hold_up_the_agent(operator, terminal):
    """It is stopped: the agent waits for it, and then it has left."""
    if operator.is_root:
        pytest.skip("it takes ten seconds, and is the same")
    id = operator.detach("-t", "--", "sh", "-c", "read go; seq 300000; touch /tmp/done; sleep 1000")
    t = terminal("attach", id)
    t.type("go\r")
    t.expect("\n100\r\n")
    t.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: operator.cloister("exec", id, "test", "-e", "/tmp/done").status == 0, "the agent to go on", 30)
    t.process.send_signal(signal.SIGCONT)
    assert t.end() != 0 and "took no output" in t.text


def test_refusals(operator, terminal):
    plain = operator.detach("--", "sleep", "1000")
    t = terminal("attach", plain)
    assert t.end() != 0 and "has no terminal" in t.text
    front = terminal("run", "-q", "--name", "front", "--", "sh", "-c", "echo ready; sleep 1000")
    front.expect("ready")
    t = terminal("attach", "front")
    assert t.end() != 0 and "its `cloister run`" in re.sub(r"\s+", " ", t.text)
    operator.cloister("kill", "front").ok()
    front.end()
    operator.cloister("attach", plain).sentence("attach needs a terminal", f"cloister logs -f {plain}")
    operator.run("-d", "-t", "--streams", "--", "true").sentence("--streams")
    operator.run("-d", "--detach-keys", "ctrl-x", "--", "true").sentence("--detach-keys")
    operator.run("-d", "-t", "--detach-keys", "alt-x", "--", "true").sentence("alt-x")
