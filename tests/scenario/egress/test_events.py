"""`cloister events` and `cloister why` on records as they may be found: odd, cut and hostile."""
import fcntl
import json
import os
import time

import pytest

from terminal import Terminal

EVENT = {"n": 1, "time": "2026-11-15T12:03:01.250Z", "cell": "abcd1234", "type": "http",
         "verdict": "deny", "why": "no-rule", "method": "POST", "scheme": "https",
         "host": "a.example", "port": 443, "path": "/x", "status": 403}


@pytest.fixture
def record(operator):
    """Write the events of a cell that has ended, and forget it at the end."""
    entries = []

    def write(*events, cell="abcd1234", name="", file="events.jsonl"):
        lines = [event if isinstance(event, bytes) else
                 json.dumps({"cell": cell, **event}).encode() + b"\n" for event in events]
        operator.file(f"state/{cell}.{name}/{file}", b"".join(lines))
        entries.append(operator.state / f"{cell}.{name}")
        entries[-1].chmod(0o700)
        return entries[-1]
    yield write
    for entry in set(entries):
        for file in entry.iterdir():
            file.unlink()
        entry.rmdir()


def numbers(operator, *words):
    said = operator.cloister("events", "--json", *words).ok()
    return [json.loads(line)["n"] for line in said.splitlines()]


def shown(operator, *words, columns=120, **how):
    terminal = Terminal(operator, operator.program, "events", *words, columns=columns, **how)
    assert terminal.end() == 0
    terminal.close()
    return terminal.text.replace("\r\n", "\n").splitlines()


def test_on_a_terminal(operator, record):
    """A head, days, colours, and no dashes for missing values."""
    record({**EVENT, "time": "2020-11-15T12:03:01.250Z"},
           {**EVENT, "n": 2, "time": "2020-11-16T12:03:01.250Z", "verdict": "allow", "sent": 0, "received": 5, "ms": 3},
           {"n": 3, "time": "2020-11-16T12:04:01.250Z", "type": "cell", "did": "killed", "by": "uid 7", "verdict": "allow"})
    env = {"NO_COLOR": "1", "TZ": "UTC"}
    lines = shown(operator, "abcd1234", env=env)
    assert lines == ["    N TIME     VERDICT EVENT",
                     "      2020-11-15",
                     "    1 12:03:01 deny    POST https://a.example/x  no rule allows it",
                     "      2020-11-16",
                     "    2 12:03:01 allow   POST https://a.example/x  403, 0B sent, 5B received, 3ms",
                     "    3 12:04:01         cell killed by uid 7"]
    # Which cell it is, if nobody said.
    assert shown(operator, env=env) == ["cell abcd1234", *lines]
    lines = shown(operator, env={"TZ": "UTC"})
    assert "\x1b[31mdeny   \x1b[0m POST" in lines[3] and "\x1b[32mallow" in lines[5] and "  \x1b[33m403\x1b[0m, 0B sent" in lines[5]
    piped = operator.cloister("events", env={"TZ": "UTC"}).ok().splitlines()
    assert len(piped) == 3 and piped[2] == "    3 12:04:01 -            -       -        -       -  cell killed by uid 7"


def test_long_lines_keep_their_column(operator, record):
    """Between words, and within one that is too long for any line; colours take no room."""
    argv = ["sh", "-c", "one two three four five six seven eight nine ten", "x" * 60, "end"]
    record({"n": 1, "time": EVENT["time"], "type": "exec", "pid": 2, "path": "/bin/sh", "argv": argv},
           {"n": 2, "time": EVENT["time"], "type": "exit", "pid": 2, "status": 0, "ms": 1})
    env = {"NO_COLOR": "1", "TZ": "UTC"}
    head, day, *lines = shown(operator, "abcd1234", env=env, columns=70)
    assert len(lines) == 4 and all(len(line) <= 70 for line in lines) and {line[:23] for line in lines[1:-1]} == {" " * 23}
    whole = " ".join(line[23:] for line in lines[:-1]).replace(" ", "")
    assert whole == "2exec/bin/sh-c'onetwothreefourfivesixseveneightnineten'" + "x" * 60 + "end"
    assert lines[0].endswith(" four five six") and lines[1].startswith(" " * 23 + "seven eight nine ten' xxxx")
    # Too narrow for a column of its own: as the terminal does it.
    assert len(shown(operator, "abcd1234", env=env, columns=40)) == 4
    # With colours, the lines are the same; the end of a process that went well is dim.
    coloured = shown(operator, "abcd1234", env={"TZ": "UTC"}, columns=70)[2:]
    assert [line.replace("\x1b[2m", "").replace("\x1b[0m", "") for line in coloured] == lines and "\x1b[2m2 ended" in coloured[-1]


def test_today_is_not_said(operator, record):
    record({**EVENT, "time": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())})
    assert len(shown(operator, "abcd1234", env={"TZ": "UTC"})) == 2


def test_nothing_recorded(operator):
    operator.cloister("events").sentence("no cell has any records")
    operator.cloister("why").sentence("no cell has any records")
    operator.cloister("events", "x").sentence("there is no cell 'x'", "audit verify")


def test_the_newest_is_meant(operator, record):
    for i, cell in enumerate(("aaaa1111", "bbbb2222", "cccc3333")):
        entry = record({**EVENT, "n": i + 1}, cell=cell)
        os.utime(entry / "events.jsonl", (1000 + i * (-1) ** i, 1000 + i * (-1) ** i))
    assert numbers(operator) == [3]
    assert "(event 3, " in operator.cloister("why").ok()
    assert numbers(operator, "bbbb") == [2]


def test_why_for_programs(operator, record):
    record(EVENT, {**EVENT, "n": 2, "why": "budget", "note": "spent"})
    said = json.loads(operator.cloister("why", "--json", "abcd1234", "1").ok())
    assert said["suggested_rule"].startswith("  - allow: a.example\n") and said["explanation"].startswith("No rule allows")
    assert {key: said[key] for key in ("cell", "event", "result", "what", "why", "rule", "note")} == {
        "cell": "abcd1234", "event": 1, "result": "refused", "what": "POST https://a.example/x", "why": "no-rule",
        "rule": None, "note": None}
    said = json.loads(operator.cloister("why", "--json").ok())
    assert (said["event"], said["note"], said["suggested_rule"]) == (2, "spent", None)


def test_a_name_used_again_means_the_newest(operator, record):
    for i, cell in enumerate(("aaaa1111", "bbbb2222")):
        entry = record({**EVENT, "n": i + 1}, cell=cell, name="out")
        os.utime(entry / "events.jsonl", (1000 + i, 1000 + i))
    assert numbers(operator, "out") == [2]


def test_hostile_lines(operator, record):
    steer = {**EVENT, "host": "\x1b[2J\u202e\x9b", "path": "/\x1b]0;x\x07", "method": "\x1b[31m",
             "why": "rule", "rule": "\x1b[1m", "rule_text": "\x1b[1m", "reason": "a\x1b[1mb\nc",
             "note": "\x1b[1m", "verdict": "\x1b[31m", "type": "http"}
    record(steer, {**steer, "n": 2, "type": "\x1b[1m"}, {**steer, "n": 3, "type": "dns"})
    for words in (["events"], ["events", "--json"], ["why", "1"], ["why", "2"], ["why", "3"],
                  ["why", "--json", "1"]):
        done = operator.cloister(*words)
        for character in "\x1b\x9b\x07\u202e":
            assert character not in done.out + done.err, (words, done)


def test_lines_that_cannot_be_read(operator, record):
    record(EVENT, b"nonsense\n", b"[1]\n", b"\xff\xfe\n", b'{"n":1,"n":2}\n', b"\n",
           b'{"n":' + b"9" * 100 + b"}\n", b"{" * 100_000 + b"\n", b"x" * 300_000 + b"\n",
           {**EVENT, "n": 2}, b'{"n":3,"type":"ht')
    done = operator.cloister("events", "--json")
    assert done.status == 0 and [json.loads(line)["n"] for line in done.out.splitlines()] == [1, 2]
    assert done.err == "cloister: 8 lines of the record could not be read\n"


@pytest.mark.parametrize("value", [None, True, 1, -1, 1.5, [], {}, "x" * 5000, 10 ** 18],
                         ids=["null", "true", "one", "negative", "fraction", "list", "map", "long", "large"])
def test_members_of_every_kind(operator, record, value):
    """A member of a wrong type causes no crash."""
    record({**dict.fromkeys(EVENT, value), "n": 1, "verdict": "deny"}, {**EVENT, "n": 2, "host": value})
    assert len(operator.cloister("events").ok().splitlines()) == 2
    assert operator.cloister("why", "1").status in (0, 125)
    assert operator.cloister("why", "2").status in (0, 125)


def test_both_halves(operator, record):
    record(*[{**EVENT, "n": n} for n in (1, 2)], file="events.jsonl.1")
    record(*[{**EVENT, "n": n} for n in (3, 4)])
    assert numbers(operator) == [1, 2, 3, 4]


def test_a_name_that_is_a_number(operator, record):
    record(EVENT, cell="aaaa1111", name="7")
    entry = record({**EVENT, "n": 7}, {**EVENT, "n": 8}, cell="bbbb2222")
    os.utime(entry / "events.jsonl", (4e9, 4e9))
    assert "in cell 7 (event 1, " in operator.cloister("why", "7").ok()
    assert "in cell bbbb2222 (event 8, " in operator.cloister("why", "8").ok()
    assert "in cell bbbb2222 (event 7, " in operator.cloister("why", "bbbb", "7").ok()


def test_events_of_a_cells_life_are_not_decisions(operator, record):
    befell = [{"type": "cell.boot"}, {"type": "cell.end", "status": 0}, {"type": "setup.ran", "status": 0},
              {"type": "cell", "verdict": "allow", "did": "frozen", "by": "uid 0"},
              {"type": "steer", "did": "allow", "by": "uid 0", "why": "to read"},
              {"type": "approval", "did": "asked"}, {"type": "budget", "did": "reached"}]
    record(EVENT, *[{"n": n, "time": EVENT["time"], **event} for n, event in enumerate(befell, 2)], name="job")
    for n in range(2, 2 + len(befell)):
        operator.cloister("why", "job", str(n)).sentence(f"event {n} of cell job is not a decision",
                                                         "`cloister events job`", "`cloister why job`")
    assert "(event 1, " in operator.cloister("why", "job").ok()


CAUSES = {"no-rule": True, "rule": True, "ask": True, "private-address": True, "secret": True,
          "too-large": True, "mismatch": False, "unreadable": False, "certificate": False,
          "unresolved": False, "unreachable": False, "protocol": False, "doh": False,
          "malformed": False, "many": False, "budget": False, "rate": False}


@pytest.mark.parametrize("why", CAUSES)
def test_why_in_words(operator, record, why):
    place = {"rule": "c.yaml:3:5", "rule_text": "deny a.example", "reason": "because"}
    record({**EVENT, "why": why, **(place if why in ("rule", "ask") else {})})
    said = operator.cloister("why").ok()
    assert "\n    POST https://a.example/x\n" in said
    assert ("  - allow: a.example\n" in said) == CAUSES[why]
    assert ("put in front of the one at c.yaml:3:5" in said) == (why in ("rule", "ask"))
    assert ("because" in said) == (why in ("rule", "ask"))
    if CAUSES[why]:
        # What it prints is a rule that is one.
        policy = operator.file("p.yaml", "version: 1\negress:\n" + said[said.index("  - allow: "):])
        operator.cloister("policy", "check", policy).ok()


@pytest.mark.parametrize("end, helps", [("", True), ("; no rule changes that for a name", True),
                                        ("; no rule changes that", False)])
def test_private_addresses_that_a_rule_can_allow(operator, record, end, helps):
    record({**EVENT, "why": "private-address", "note": "the name leads to 203.0.113.80, which is special" + end})
    assert ("private: true" in operator.cloister("why").ok()) == helps


@pytest.mark.parametrize("event", [
    {"type": "dns", "host": "b.example"}, {"type": "tcp", "host": "db.example", "port": 5432},
    {"type": "tls", "host": "pin.example", "port": 443}, {"type": "tcp", "host": "10.0.0.5", "port": 22},
    {"type": "http", "scheme": "http", "method": "GET", "host": "a.example", "port": 8080, "path": "/a b"},
    {"type": "http", "scheme": "https", "method": "GET", "host": "[2606:2800:220:1::10]", "port": 443, "path": "/"},
    {"type": "http", "scheme": "https", "method": "M-SEARCH", "host": "a.example", "port": 443, "path": "/?"},
], ids=["dns", "tcp", "tls", "address", "plain", "address6", "method"])
def test_suggested_rules_are_rules(operator, record, event):
    record({"n": 1, "time": EVENT["time"], "verdict": "deny", "why": "no-rule", **event})
    said = operator.cloister("why").ok()
    policy = operator.file("p.yaml", "version: 1\negress:\n" + said[said.index("  - allow: "):])
    operator.cloister("policy", "check", policy).ok()


@pytest.mark.parametrize("path, suggests", [("/**", None), ("/a%2Ab", None), ("/%2Fx", "['/%2Fx', //x]")])
def test_no_wider_rule_is_suggested(operator, record, path, suggests):
    record({**EVENT, "path": path})
    said = operator.cloister("why").ok()
    assert (f"paths: {suggests}\n" in said) if suggests else ("allow:" not in said)
    assert "paths: [/*" not in said


def test_dropped_records_are_reported(operator, record):
    record({**EVENT, "n": 5})
    done = operator.cloister("events")
    assert done.status == 0 and "events 1 to 4 are no longer kept" in done.err


def test_following_a_cell_to_its_end(operator, record):
    """The lock of a running cell's supervisor says that more may come."""
    entry = record({**EVENT, "n": 1})
    lock = os.open(entry, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    process = operator.spawn(operator.program, "events", "-f", "--json", "abcd", stdout=-1)
    assert json.loads(process.stdout.readline())["n"] == 1
    with open(entry / "events.jsonl", "a") as file:
        file.write('{"n":2,')
        file.flush()
        time.sleep(0.05)
        file.write('"type":"dns"}\n')
    assert json.loads(process.stdout.readline())["n"] == 2
    # Turned over.
    os.rename(entry / "events.jsonl", entry / "events.jsonl.1")
    operator.file(f"state/{entry.name}/events.jsonl", b'{"n":3}\n')
    assert json.loads(process.stdout.readline())["n"] == 3
    os.close(lock)
    assert process.stdout.read() == b"" and process.wait(10) == 0
