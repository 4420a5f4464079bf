"""Many virtual machines, started and ended in every way there is: nothing of them may be left."""
import os
import random
import signal
import subprocess

import pytest

import leftovers
from operators import IS_ROOT, SECONDS, is_alive, wait_until

pytestmark = pytest.mark.skipif(not os.environ.get("CLOISTER_TEST_VM"), reason="takes long: `make test-vm`")
STARTS = int(os.environ.get("CLOISTER_VM_STARTS", "1000"))
EACH = 20               # starts between two looks
LONG = SECONDS * 6
SIZE = ("--memory", "256M")


@pytest.fixture
def boundary():
    return "microvm"


def exits(operator):
    assert operator.run("-q", *SIZE, "--", "sh", "-c", "exit 3", seconds=LONG).status == 3


def is_killed(operator):
    id = operator.detach(*SIZE, "--", "sleep", "100000", seconds=LONG)
    operator.cloister("kill", id).ok()


def loses(which):
    """A process of the cell dies: the supervisor, the monitor or the file server."""
    def lose(operator):
        id = operator.detach(*SIZE, "--", "sleep", "100000", seconds=LONG)
        pids = operator.pids(id)
        os.kill(pids[which], signal.SIGKILL)
        for pid in pids:
            wait_until(lambda: not is_alive(pid), "all of it is gone")
    return lose


def is_killed_while_it_boots(operator):
    """At any moment of the start."""
    process = operator.start("-q", *SIZE, "--", "true", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(random.uniform(0, 3))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


WAYS = [exits, is_killed, loses(0), loses(1), loses(2), is_killed_while_it_boots]


def look(operator, mounts, data):
    """What is there now that was not before.  The first command clears what a killed supervisor left."""
    operator.run("--boundary", "namespace", "--", "true").ok()
    operator.cloister("discard", "--all").ok()
    operator.kept.clear()
    wait_until(lambda: not leftovers.processes(operator), "no process is left")
    wait_until(lambda: leftovers.mounts() <= mounts, "no mount is left")
    wait_until(lambda: not leftovers.cgroups(operator.witness.names(), ("", "-egress")), "no cgroup is left")
    assert operator.running() == [] and operator.names(operator.state) == []
    assert sorted(path.name for path in (operator.base / "data/vm").iterdir()) == data


@pytest.mark.parametrize("who", ["root", "user"] if IS_ROOT else ["user"])
def test_nothing_is_left(operator, who):
    mounts = leftovers.mounts()
    exits(operator)
    data = sorted(path.name for path in (operator.base / "data/vm").iterdir())
    for n in range(STARTS // (2 if IS_ROOT else 1)):
        WAYS[n % len(WAYS)](operator)
        if n % EACH == EACH - 1:
            look(operator, mounts, data)
    look(operator, mounts, data)
