"""`run --restart`: a new cell after each that ends, until somebody ends the series for good."""
import json
import os
import re
import secrets
import signal
from pathlib import Path

import pytest

from operators import SECONDS, is_alive, only_root, wait_until
from service import Service


def keepers(mark):
    """The processes that start cells again, by a word of their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--restart" in words and mark.encode() in words and not any(w.startswith(b"--attempt=") for w in words):
            found.append(int(entry.name))
    return found


def perpetual(operator, script="exit 3", *options):
    """A detached cell that is started again: its first id, its name and its keeper.  Each attempt adds a line to `runs`."""
    work = operator.folder("work")
    name = "p" + secrets.token_hex(4)
    id = operator.detach("--restart", "--name", name, "-w", f"{work}:rw", *options, "--", "sh", "-c",
                         f"echo run >> {work}/runs; {script}")
    # For a moment there are copies of it, which start others.
    keeper, = wait_until(lambda: len(found := keepers(name)) == 1 and found, "one process keeps it")
    return id, name, keeper, work / "runs"


def runs(file):
    return len(file.read_text().splitlines()) if file.exists() else 0


def restarting(operator):
    return [c for c in operator.cells() if c["state"] == "restarting"]


def over(operator, keeper, file):
    """Nothing of the series is left, and nothing starts after this."""
    wait_until(lambda: not is_alive(keeper), "the keeper has ended")
    count = runs(file)
    assert operator.cells() == [] and runs(file) == count
    operator.kept.update(c["cell"] for c in operator.cells("-a"))
    assert not [name for name in os.listdir(operator.runtime) if name.startswith("restart")]


def started(operator, id):
    lines = operator.cloister("events", "--json", id).ok().splitlines()
    return next(e["grant"] for e in map(json.loads, lines) if "grant" in e)


def test_failures_start_a_new_cell(operator):
    """At most N times; then the status is the last cell's."""
    done = operator.sh("echo $CLOISTER_CELL; exit 3", "--restart", "2")
    ids = done.out.split()
    assert done.status == 3 and len(set(ids)) == 3
    assert len(re.findall("the cell ended with status 3, and starts again in [12] s", done.err)) == 2
    assert operator.cells() == []


def test_success_ends_it(operator):
    done = operator.sh("echo once", "--restart")
    assert (done.status, done.out) == (0, "once\n")


def test_always_starts_after_success_too(operator):
    done = operator.sh("echo again", "-q", "--restart", "always:1")
    assert (done.status, done.out, done.err) == (0, "again\nagain\n", "")


def test_each_cell_is_new_and_linked_in_the_record(operator):
    """Nothing but the grants is the same; `restart_of` names the cell before."""
    policy = operator.file("p.yaml", "version: 1\n")
    done = operator.sh("ls /tmp; touch /tmp/left; echo $CLOISTER_CELL; exit 1", "-q", "--restart", "1", "-p", policy)
    first, second = done.out.split()
    assert started(operator, first).get("restart_of") is None
    assert started(operator, second)["restart_of"] == first


def test_logs_of_a_series_are_those_of_the_newest(operator):
    first, name, keeper, file = perpetual(operator, "wc -l <runs; test $(wc -l <runs) -lt 3 || exec sleep 600; exit 3")
    wait_until(lambda: runs(file) == 3, "the third cell")
    wait_until(lambda: operator.cloister("logs", name).ok() == "3\n", "its log")
    assert operator.cloister("logs", first).ok() == "1\n"
    operator.cloister("kill", name).ok()
    over(operator, keeper, file)
    assert operator.cloister("logs", name).ok() == "3\n"


def test_a_command_line_that_is_wrong_is_not_tried_again(operator):
    done = operator.run("-d", "--restart", "--memory", "1", "--", "true")
    assert done.status == 125 and done.err.count("too small") == 1 and keepers("true") == []


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_one_end_is_for_good_while_a_cell_runs(operator, verb):
    id, name, keeper, file = perpetual(operator, "sleep 1000")
    wait_until(lambda: runs(file) == 1, "it runs")
    operator.cloister(verb, name).ok()
    over(operator, keeper, file)
    assert runs(file) == 1


@pytest.mark.parametrize("words", [("kill", "--all"), ("stop", "--all"), ("kill", "NAME"), ("stop", "ID")])
def test_one_end_is_for_good_between_two_cells(operator, words):
    id, name, keeper, file = perpetual(operator)
    waiting = wait_until(lambda: restarting(operator), "no cell runs")
    assert [(c["cell"], c["name"]) for c in waiting] == [(id, name)]
    operator.cloister(*[{"NAME": name, "ID": id}.get(word, word) for word in words]).ok()
    over(operator, keeper, file)


def test_a_limit_of_time_starts_the_next(operator):
    id, name, keeper, file = perpetual(operator, "sleep 1000", "--time", "1s")
    wait_until(lambda: runs(file) == 2, "the second runs")
    operator.cloister("kill", name).ok()
    over(operator, keeper, file)


def test_ttl_is_an_end(operator):
    id, name, keeper, file = perpetual(operator, "sleep 1000", "--ttl", "1s")
    over(operator, keeper, file)
    assert runs(file) == 1


def test_a_cell_of_an_ended_series_does_not_start(operator):
    """The moment between the keeper's last look and the cell that it starts: the cell itself looks again."""
    work = operator.folder("work")
    done = operator.run("--attempt", "abcd1234", "-w", f"{work}:rw", "--", "touch", f"{work}/ran")
    assert done.status == 125 and "because it was stopped" in done.err
    assert list(work.iterdir()) == [] and operator.running() == []


def test_a_supervisor_that_dies_is_followed_by_a_new_cell(operator):
    id, name, keeper, file = perpetual(operator, "sleep 1000")
    wait_until(lambda: runs(file) == 1, "it runs")
    os.kill(operator.cell(id)["supervisor"], signal.SIGKILL)
    wait_until(lambda: runs(file) == 2, "the next one runs")
    operator.cloister("kill", name).ok()
    over(operator, keeper, file)


def test_a_keeper_that_dies_leaves_its_cell_alone(operator):
    id, name, keeper, file = perpetual(operator, "while [ ! -e go ]; do sleep 0.05; done; exit 3")
    wait_until(lambda: runs(file) == 1, "it runs")
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: not is_alive(keeper), "the keeper is gone")
    assert operator.cell(id)["state"] == "running"
    (file.parent / "go").touch()
    assert operator.cloister("wait", id, seconds=SECONDS).status == 3
    assert operator.cells() == [] and runs(file) == 1


def test_a_command_that_does_not_exist_is_not_tried_again(operator):
    done = operator.run("--restart", "--", "missing-" + secrets.token_hex(4))
    assert done.status == 127 and "starts again" not in done.err


@pytest.mark.parametrize("words, reason", [
    (["--restart", "--id", "abcd1234"], "--restart and --id do not go together"),
    (["--restart=often"], "is not a number, `always` or `always:N`"),
    (["--restart=0"], "is not a number"),
    (["--attempt", "x"], "is for `run --restart`"),
])
def test_bad_words(operator, words, reason):
    done = operator.run(*words, "--", "true")
    assert done.status == 125 and reason in done.err and done.err.count("\n") == 1


def while_another_starts(operator):
    """Returns after three cells of another series, which is longer than the first pauses are."""
    other = operator.folder("other")
    id = operator.detach("--restart", "-w", f"{other}:rw", "--", "sh", "-c", f"echo run >> {other}/runs; exit 3")
    wait_until(lambda: runs(other / "runs") == 3, "another series goes on")
    operator.cloister("kill", id).ok()


@pytest.mark.parametrize("word", ["--all", "NAME"])
def test_freeze_holds_the_next_cell_back(operator, word):
    """The emergency stop: between two cells there is nothing to freeze but the series."""
    id, name, keeper, file = perpetual(operator)
    wait_until(lambda: restarting(operator), "no cell runs")
    word = {"NAME": name}.get(word, word)
    operator.cloister("freeze", word).ok()
    count = runs(file)
    while_another_starts(operator)
    assert runs(file) == count and is_alive(keeper)
    operator.cloister("thaw", word).ok()
    wait_until(lambda: runs(file) > count, "the next one runs")
    operator.cloister("kill", name).ok()
    over(operator, keeper, file)


@only_root
def test_no_cell_follows_a_frozen_one_whose_time_runs_out(operator):
    id, name, keeper, file = perpetual(operator, "sleep 1000", "--time", "5s")
    wait_until(lambda: runs(file) == 1, "it runs")
    operator.cloister("freeze", name).ok()
    wait_until(lambda: restarting(operator), "its time is over")
    while_another_starts(operator)
    assert runs(file) == 1
    operator.cloister("thaw", name).ok()
    wait_until(lambda: runs(file) == 2, "the next one runs")
    operator.cloister("kill", "--all").ok()
    over(operator, keeper, file)


def test_kill_ends_a_series_that_is_held(operator):
    id, name, keeper, file = perpetual(operator)
    wait_until(lambda: restarting(operator), "no cell runs")
    operator.cloister("freeze", "--all").ok()
    operator.cloister("kill", "--all").ok()
    over(operator, keeper, file)


def test_the_service_holds_it_back_too(operator):
    service = Service(operator)
    id, name, keeper, file = perpetual(operator)
    wait_until(lambda: restarting(operator), "no cell runs")
    service.post("/v1/cells/freeze").ok()
    count = runs(file)
    while_another_starts(operator)
    assert runs(file) == count and is_alive(keeper)
    service.post("/v1/cells/thaw").ok()
    wait_until(lambda: runs(file) > count, "the next one runs")
    service.post("/v1/cells/kill").ok()
    over(operator, keeper, file)
    service.stop()
