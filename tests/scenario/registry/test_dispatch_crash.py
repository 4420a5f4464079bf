"""The drivers of dispatches are killed, again and again: no dispatch is lost or run twice, and no cell
is left.  These are short runs of tests/soak/crash.py, and the bugs that it found."""
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dispatches import agent, detach, events, show
from operators import BUILD, SECONDS, TREE, children_of, is_alive, only_user, wait_until
from service import Service


@pytest.mark.parametrize("mode, rounds", [("drivers", 60), ("serve", 4), ("supervisor", 4), ("courier", 4),
                                          ("disk", 4)])
def test_struck_at_random(mode, rounds):
    if mode != "drivers" and os.geteuid() != 0:
        pytest.skip("only root can find all processes of cells")
    done = subprocess.run([sys.executable, TREE / "tests/soak/crash.py", "--mode", mode, "--rounds",
                           str(rounds)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500,
                          env={**os.environ, "CLOISTER_BUILD": str(BUILD)})
    assert done.returncode == 0, done.stdout


def find_harvest(driver):
    """The process that gathers what the dispatch left."""
    for pid in children_of(driver):
        with contextlib.suppress(OSError):
            if b"harvest" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return pid
    return None


@only_user
def test_killed_while_it_harvests(operator):
    """The process that gathers results ends with its driver, and a follower continues the dispatch."""
    agent(operator, "leaves", "head -c 30000000 /dev/urandom >/out/much")
    id = detach(operator, "leaves")
    driver = wait_until(lambda: who_locked(operator.base / "data" / "dispatches" / id), "it is driven")
    end, harvest = time.monotonic() + SECONDS, None
    while harvest is None and time.monotonic() < end:       # without a pause: it may be quick
        harvest = find_harvest(driver)
    os.kill(harvest, signal.SIGSTOP)
    os.kill(driver, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):           # it may not have tied itself to the driver yet
        os.kill(harvest, signal.SIGCONT)
    wait_until(lambda: not is_alive(harvest), "who gathered is gone")
    told = operator.cloister("dispatches", "events", "-f", "--json", id).ok().splitlines()
    assert json.loads(told[-1])["state"] == "finished"
    assert show(operator, id)["result"]["files"]["size"] == 30_000_000


def test_a_follower_takes_over_an_abandoned_dispatch(operator):
    """`dispatch --key` found another driver, which is then killed."""
    agent(operator, "waits", "while ! [ -e /tmp/go ]; do sleep 0.02; done; echo done; exit 3")
    id = detach(operator, "waits", "--key", "k")
    cell = wait_until(lambda: (d := show(operator, id))["state"] == "running" and d["cell"], "it runs")
    follower = operator.spawn(operator.program, "dispatch", "waits", "--key", "k", "--json",
                              stdout=subprocess.PIPE)
    follower.stdout.readline()
    os.kill(wait_until(lambda: who_locked(operator.base / "data" / "dispatches" / id), "it is driven"), signal.SIGKILL)
    operator.cloister("exec", cell, "--", "touch", "/tmp/go")
    out, _ = follower.communicate(timeout=SECONDS)
    assert follower.returncode == 3, out


def who_locked(path):
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5].endswith(f":{path.stat().st_ino}"):
            return int(words[4])
    return None


def test_output_events_follow_the_start(operator):
    agent(operator, "speaks", "echo spoken")
    for _ in range(10):
        id = detach(operator, "speaks")
        operator.cloister("dispatches", "events", "-f", id).ok()
        told = [e["event"] for e in events(operator, id)]
        assert told.index("agent.started") < told.index("agent.output"), told


@only_user
def test_killed_before_anybody_knew_of_the_cell(operator):
    """The operator's timeline knows of a cell before anything is recorded of it."""
    operator.run("--", "true").ok()
    with open(operator.base / "data" / "audit" / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        supervisor = operator.start("--", "sleep", "1000")
        entry = wait_until(lambda: [*operator.state.glob("????????.")], "there is an entry")[0]
        wait_until((entry / "events.jsonl").exists, "its timeline is begun")
        supervisor.kill()
        supervisor.wait(SECONDS)
    operator.cloister("audit", "verify", "--all").ok()
    operator.run("--", "true").ok()             # clears what was left
    operator.cloister("audit", "verify", "--all").ok()


# ---- the service ----

def operators(operator, type):
    path = operator.base / "data" / "audit" / "operator.jsonl"
    return [e for line in path.read_text().splitlines() if (e := json.loads(line)["event"])["type"] == type]


@only_user
def test_killed_before_it_was_recorded(operator):
    """A registration is recorded, if need be by the next service."""
    service = Service(operator)
    with open(operator.base / "data" / "audit" / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Thread(target=register, args=(service,), daemon=True).start()
        wait_until(lambda: service.get("/v1/envs/kept").status == 200, "it is there")
        service.stop(signal.SIGKILL)
        assert operators(operator, "env.registered") == []
    service.start()
    wait_until(lambda: operators(operator, "env.registered"), "it is recorded")
    told = operators(operator, "env.registered")
    assert [e["name"] for e in told] == ["kept"] and told[0]["peer"].startswith("uid ")
    operator.cloister("audit", "verify", "--all").ok()


def register(service):
    """Nobody hears the answer."""
    try:
        service.post("/v1/envs", {"name": "kept", "values": {}})
    except OSError:
        pass


@only_user
def test_a_request_is_recorded_first(operator):
    """As long as it cannot be recorded, nothing is dispatched."""
    agent(operator, "any", "true")
    service = Service(operator)
    timeline = operator.base / "data" / "audit" / "operator.jsonl"
    timeline.chmod(0o400)
    service.post("/v1/dispatches", {"agent": "any"}).error(500, "internal", "timeline")
    operator.cloister("dispatch", "any").sentence("timeline")
    timeline.chmod(0o600)
    assert service.get("/v1/dispatches").ok()["items"] == []
    assert not any((operator.base / "data" / "dispatches").glob("????????????????"))


@only_user
def test_signed_when_it_stops(operator):
    """The service signs records of the operator's timeline that cells left unsigned."""
    service = Service(operator)
    operator.run("--", "true").ok()
    service.stop()
    last = (operator.base / "data" / "audit" / "operator.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["event"]["type"] == "checkpoint"


@only_user
def test_a_second_service(operator):
    service = Service(operator)
    said = operator.cloister("serve").sentence("already")
    assert str(service.process.pid) in said


@only_user
def test_a_cell_is_listed_once(operator):
    """At its end there is a record of it while it still runs."""
    ended = operator.detach("--", "true")
    wait_until(lambda: not operator.cells(), "it has ended")
    running = operator.detach("--", "sleep", "1000")
    entry = {c: next(operator.state.glob(f"{c}.*")) for c in (ended, running)}
    operator.own(shutil.copy(entry[ended] / "record", entry[running] / "record"))
    assert [c["cell"] for c in operator.cells("-a")] == [running, ended]
    service = Service(operator)
    assert [c["cell"] for c in service.get("/v1/cells?all=true").ok()["cells"]] == [running, ended]
    (entry[running] / "record").unlink()
    operator.cloister("kill", running).ok()
