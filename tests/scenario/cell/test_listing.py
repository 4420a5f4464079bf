"""Several cells at once: their events in one stream, and all of them in a list."""
import json
import re
import time

from operators import read_until


def test_events_of_several_cells_in_their_order(operator):
    first = operator.detach("--name", "first", "--", "sh", "-c", "read x </tmp/fifo || mkfifo /tmp/fifo; cat /tmp/fifo")
    second = operator.detach("--name", "second", "--", "sleep", "1000")
    follows = operator.spawn(operator.program, "events", "-f", "first", second, stdout=-1)
    every = operator.spawn(operator.program, "events", "-f", "--all", "--json", "--since", "0s", stdout=-1)
    # What each uses, if a cgroup counts it: null is unknown.
    used = operator.cell(first)
    assert {"cpu_ms", "peak", "disk", "read", "written", "pressure_cpu", "pressure_io", "pressure_memory"} <= used.keys()
    head, line = operator.cloister("ps").ok().splitlines()[:2]
    column = head.split().index("CPU")
    assert re.fullmatch(r"-" if used["cpu_ms"] is None else r"\d+m?s", line.split()[column]) and "READ/WRITTEN" in head
    assert operator.cloister("ps", "--format", "{peak}").ok().split()[0] == "-" or used["peak"] is not None
    operator.cloister("ttl", "second", "1h").ok()
    third = operator.detach("--name", "third", "--", "true")
    operator.cloister("wait", "third")
    operator.cloister("stop", "-t", "0s", "second").ok()
    operator.cloister("kill", "first").ok()
    lines = follows.communicate(timeout=60)[0].decode().splitlines()
    assert list(dict.fromkeys(line.split()[0] for line in lines)) == ["first", "second"] and "ended" in lines[-1]
    times = [line.split()[2] for line in lines]
    assert times == sorted(times)
    # A stream of all cells also has one that started meanwhile, and does not end by itself.
    seen, text = [], b""
    while {third, first} - {e["cell"] for e in seen if e["type"] == "cell.end"}:
        *lines, text = (text + read_until(every.stdout.fileno(), b"\n")).split(b"\n")
        seen += [json.loads(line) for line in lines]
    assert every.poll() is None
    every.kill()
    every.communicate()
    # In one list, and by a template.
    said = operator.cloister("events", "--all", "--format", "{cell} {type}").ok().splitlines()
    assert f"{third} cell.end" in said and f"{second} cell.boot" in said
    assert operator.cloister("events", "--all", "--since", "2000-01-01", "--json").ok().count("cell.boot") == 3
    assert operator.cloister("events", "--all", "--since", "2999-01-01").ok() == ""
    records = operator.cloister("audit", "show", "first").ok()
    assert operator.cloister("audit", "show", "--since", "2000-01-01", "first").ok() == records != ""
    assert operator.cloister("audit", "show", "--since", "2999-01-01", "first").ok() == ""
    operator.cloister("audit", "verify", "--since", "1h").sentence("--since")
    operator.cloister("events", "--all", "first").sentence("--all")
    operator.cloister("events", "--since", "noon", "first").sentence("noon")


def test_ps_lists_cells_with_nothing_but_events(operator):
    operator.sh("exit 3", "--name", "gone")
    kept = operator.detach("--name", "kept", "--", "true")
    operator.cloister("wait", "kept")
    listed = {c["name"]: c for c in json.loads(operator.cloister("ps", "-a", "--json").ok())}
    assert {name: (c["state"], c["status"], c["kept"]) for name, c in listed.items()} == {
        "gone": ("ended", 3, False), "kept": ("ended", 0, True)}
    assert listed["gone"]["command"] == ["sh", "-c", "exit 3"] and listed["gone"]["changes"] is False
    assert abs(listed["gone"]["ended"] - time.time()) < 1000
    shown = operator.cloister("ps", "-a").ok()
    assert re.search(r"^\w+ +gone +ended 3 .* ago +- +- +- +- +sh -c exit 3$", shown, re.M)
    assert operator.cloister("ps", "-a", "--format", "{name}={status}").ok() == "gone=3\nkept=0\n"
    assert operator.cloister("ps", "-a", "--since", "2999-01-01", "--format", "{name}").ok() == ""
    assert operator.cloister("ps", "--format", "{name}").ok() == ""
    operator.cloister("ps", "--json", "--format", "{id}").sentence("--format")
    assert kept
