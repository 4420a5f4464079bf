"""`cloister top`: the cells and what waits for an answer, on a terminal, without a service."""
import re
import time

import pytest

from approvals import UP, Asking
from operators import SECONDS, only_root, only_user, wait_until
from terminal import Terminal

pyte = pytest.importorskip("pyte", reason="Python has no pyte: Debian's python3-pyte")


class Top(Terminal):
    """A person's view: the screen, as a terminal has it."""

    def __init__(self, operator, rows=40, columns=132, env=None):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        super().__init__(operator, operator.program, "top", rows=rows, columns=columns,
                         env={"TERM": "linux", "LANG": "C.UTF-8", **(env or {})})

    def _read(self, seconds):
        before = len(self.text)
        got = super()._read(seconds)
        self.stream.feed(self.text[before:].encode("utf-8", "surrogateescape"))
        return got

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def see(self, pattern):
        """The first line that matches, once one does."""
        end = time.monotonic() + SECONDS
        while True:
            for line in self.lines():
                if re.search(pattern, line):
                    return line
            assert time.monotonic() < end, f"no {pattern!r} on the screen:\n" + "\n".join(self.lines())
            self._read(0.2)

    def gone(self, pattern):
        end = time.monotonic() + SECONDS
        while any(re.search(pattern, line) for line in self.lines()):
            assert time.monotonic() < end, f"still {pattern!r} on the screen:\n" + "\n".join(self.lines())
            self._read(0.2)

    def press(self, key, pattern):
        """A key that counts only once what it is about has been in view, which is marked then."""
        self.see("^>")
        self.type(key)
        self.see(pattern)


@only_root                       # a user's cells may have no cgroup that can be frozen
def test_cells_live(operator):
    first = operator.detach("--name", "first", "--", "sleep", "infinity")
    top = Top(operator)
    top.see(r"cloister +1 cell +0 frozen +0 waiting")
    top.see(r"^ running +first .* sleep infinity$")
    second = operator.detach("--name", "second", "--", "sh", "-c", ': \x1b[2J\u202e; sleep infinity')
    # Newest first, whatever an agent's command has in it.
    top.see(r" second .*\\x1b\[2J\\xe2\\x80\\xae")
    top.see(r"cloister +2 cells")
    top.type("kk")
    top.type("z")
    top.see("froze second")
    top.see(r"^ frozen +second ")
    wait_until(lambda: [c["state"] for c in operator.cells() if c["name"] == "second"] == ["frozen"], "it is frozen")
    top.type("z")
    top.see(r"^ running +second ")
    if operator.cell(second)["cpu_ms"] is not None:
        top.type("\r")
        top.see(r"used +cpu \d+\S+, memory at most \S+, disk \S+")
        top.type("q")
        top.see(r"^ running +second ")
    top.type("K")
    top.see("press K again to kill this cell")
    top.type("j")
    top.type("K")                                # another cell: asked anew
    top.see("press K again")
    top.type("K")
    top.see("killed first")
    top.gone(r"^ \w+ +first ")
    assert operator.cell(first) is None
    top.type("!")
    top.see("press ! again to freeze every cell")
    top.type("!")
    top.see("froze 1 cell:")
    top.type("?")
    top.see("! +freeze every cell \\(press twice\\)")
    top.type("x")
    top.see(r"^ frozen +second ")
    top.type("q")
    assert top.end() == 0
    assert top.settings() == top.before
    top.close()


@only_user
def test_approvals_with_a_key(online):
    a = Asking(online, "version: 1\negress:\n  - ask: up.example.test\n    reason: somebody must look\n"
               "budgets:\n  - {per: cell, requests: 8, then: refuse}\n", "--name", "desk")
    top = Top(online.operator, columns=160)
    top.see(r" desk .* 0% requests ")
    one = a.curl("-H", "Content-Type: application/json", "-d", '{"to": "ann"}', f"{UP}/echo?page=2")
    top.see(r"^[ >]POST up\.example\.test/echo .* desk .* left$")
    for part in ("1 waits for an answer", "cell +desk", "reason +somebody must look", r"rule +ask up\.example\.test", "body +application/json 13",
                 'to: "ann"', 'page = "2"', "approvers +any operator"):
        top.see(part)
    top.press("a", "approved once: POST up.example.test/echo")
    assert a.end(one)[0] == "200"
    top.gone("left$")
    two = a.curl(f"{UP}/two")
    top.see(r"^[ >]GET up\.example\.test/two")
    top.press("r", "Reason, which")
    top.type("not tod\x7fday")
    top.see("Reason, which.* not today$")
    top.type("\r")
    code, told = a.end(two)
    assert code == "403" and "not today" in told
    three = a.curl(f"{UP}/three")
    top.see(r"^[ >]GET up\.example\.test/three")
    top.press("f", "approved for 10 minutes")
    assert a.end(three)[0] != "403"
    four = a.curl(f"{UP}/four")
    assert a.end(four)[0] != "403"               # nobody is asked
    top.see(r" desk .* 1 .* \d\d% requests +GET https://up.example.test/two")
    top.type("q")
    assert top.end() == 0
    top.close()


@only_user
def test_the_oldest_is_asked_first(online):
    """Whichever cell is examined first."""
    cells = [Asking(online, "  - ask: up.example.test\n") for _ in range(2)]
    for first, second in (cells, reversed(cells)):
        waiting = [(cell, cell.curl(f"{UP}/{name}"), cell.wait()) for cell, name in ((first, "one"), (second, "two"))]
        top = Top(online.operator)
        top.see(r"^ 2 wait for an answer")
        top.see(r"^>GET up\.example\.test/one")
        assert [line.split()[1][-3:] for line in top.lines() if line.endswith(" left")] == ["one", "two"]
        top.type("q")
        assert top.end() == 0
        top.close()
        for cell, process, shown in waiting:
            cell.answer("refuse", shown["id"], "--reason", "no").ok()
            cell.end(process)


@only_user                       # whose cells may have no cgroup: their processes are measured
def test_measured_sorted_filtered_and_looked_at(operator):
    operator.detach("--name", "busy", "--", "sh", "-c", "while :; do :; done")
    operator.detach("--name", "idle", "--", "sleep", "infinity")
    top = Top(operator, columns=160)
    top.see(r"^ running +busy +\S+ +[1-9]\d*% +[\d.]+[KM] ")
    top.see(r"^ running +idle +\S+ +0% +[\d.]+[KM] ")

    def order():
        return [line.split()[1] for line in top.lines() if line.startswith(" running ")]
    assert order() == ["idle", "busy"]                  # the newest first
    top.type("ss")
    top.see("sorted by processor time")
    wait_until(lambda: top._read(0.2) is not None and order() == ["busy", "idle"], "the busy one is first")
    top.type("/IDL")
    top.see("Show only cells with: IDL")
    top.gone(r"^ running +busy")
    top.type("\r")
    top.see("filter: IDL")
    top.type("\r")
    top.see("command +sleep infinity")
    top.see(r"^  \d\d:\d\d:\d\d +cell\.boot")
    top.see("q back")
    top.type("q")
    top.see(r"^ running +idle")
    top.type("/\x1b")
    top.see(r"^ running +busy")
    top.type("q")
    assert top.end() == 0
    top.close()


@only_user
def test_errors(operator):
    operator.cloister("top").sentence("needs a terminal", "cloister ps")
    operator.cloister("top", "x").sentence("takes no argument", "x")
    top = Top(operator, env={"TERM": "no-such-terminal"})
    top.expect("cloister: the terminal type 'no-such-terminal' is unknown: set TERM")
    assert top.end() == 125
    top.close()


@only_user
def test_small_and_resized(operator):
    operator.detach("--name", "cell", "--", "sleep", "infinity")
    top = Top(operator, rows=6, columns=30)
    top.see(" cell")
    top.screen.resize(30, 100)
    top.resize(30, 100)
    top.see("sleep infinity")
    top.type("q")
    assert top.end() == 0
    top.close()


def test_freezing_every_cell_holds_those_that_start_again(operator):
    """Another series is the clock: its third cell comes later than the next one of the first would."""
    work = operator.folder("work")

    def series(name):
        return operator.detach("--restart", "-w", f"{work}:rw", "--", "sh", "-c", f"echo run >>{work}/{name}; exit 3")

    def runs(name):
        return len((work / name).read_text().splitlines()) if (work / name).exists() else 0

    first = series("first")
    top = Top(operator)
    wait_until(lambda: [c["state"] for c in operator.cells()] == ["restarting"], "no cell runs")
    top.type("!")
    top.see("press ! again to freeze every cell")
    top.type("!")
    top.see("froze 0 cells")
    count = runs("first")
    second = series("second")
    wait_until(lambda: runs("second") == 3, "the other series goes on")
    assert runs("first") == count
    operator.cloister("kill", first, second).ok()
    top.type("q")
    assert top.end() == 0
    wait_until(lambda: operator.cells() == [], "both have ended")
    operator.kept.update(c["cell"] for c in operator.cells("-a"))
