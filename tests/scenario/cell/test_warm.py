"""`cloister serve --warm`: virtual machines that wait for dispatches."""
import json
import os
import signal
from pathlib import Path

import pytest

from dispatches import agent, all_of, await_over, detach, policy, show
from operators import IS_ROOT, SECONDS, descendants_of, is_alive, wait_until
from service import Service
from test_microvm import IDENTITY, LONG, boundary, in_test_vm  # noqa: F401  a fixture

as_either = pytest.mark.parametrize("who", ["root", pytest.param("user", marks=in_test_vm)] if IS_ROOT else ["user"])
as_root = pytest.mark.parametrize("who", ["root"] if IS_ROOT else ["user"])
AGENT = f"({IDENTITY}; date +%s) >seen; : >told; until [ -e go ]; do sleep 0.1; done"


def waiting(operator):
    """{supervisor: monitor} of the machines that wait."""
    found = {}
    for path in (operator.runtime / "warm").glob("*"):
        supervisor = int(path.name.split(".")[-1])
        monitors = [pid for pid in descendants_of(supervisor) if "/qemu-system-" in program_of(pid)]
        if monitors and is_alive(supervisor):
            found[supervisor] = monitors[0]
    return found


def program_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def await_waiting(operator, n, but=()):
    """N machines wait, none of which is in BUT."""
    return wait_until(lambda: len(found := waiting(operator)) == n and not set(found.values()) & set(but) and found,
                      f"{n} machines wait", LONG)


@pytest.fixture
def begin(operator):
    """Starts a service with N machines, and agents that tell who they are, and then wait."""
    services = []

    def begin(n):
        policy(operator, "web", {"allow": "www.example.test"})
        services.append(Service(operator, "--warm", str(n), "--warm-memory", "256M"))
        return services[-1]
    yield begin
    for service in services:
        if service.process.poll() is None:
            assert service.stop() == 0
    wait_until(lambda: not waiting(operator), "no machine waits", SECONDS)


class Work:
    """A dispatch of an agent that runs until it is told to end."""

    def __init__(self, operator, name, **said):
        self.operator, self.folder = operator, operator.folder(f"work-{name}")
        self.go = self.folder / "go"
        said = {"policy": "web", "limits": {"memory": "256M"}, **said}
        agent(operator, name, AGENT, workspace={"path": str(self.folder), "mode": "rw"}, boundary="microvm",
              **{key: value for key, value in said.items() if value})
        self.id = detach(operator, name, seconds=LONG)

    def cell(self):
        """The cell, once its agent has told all."""
        wait_until((self.folder / "told").exists, "the agent's words", LONG)
        return self.operator.cell(show(self.operator, self.id)["cell"])

    def seen(self):
        return (self.folder / "seen").read_text().splitlines()

    def end(self):
        self.go.touch()
        self.operator.own(self.go)
        assert await_over(self.operator, self.id)["state"] == "finished"


@as_either
def test_dispatches_take_machines_that_wait(operator, begin):
    """Each takes one, once; the next is ready for the next, and is someone else."""
    begin(1)
    ((supervisor, monitor),) = await_waiting(operator, 1).items()
    assert [t["waiting"] for t in json.loads(operator.cloister("vm", "list", "--json").ok())].count(1) == 1
    first = Work(operator, "first")
    cell = first.cell()
    assert (cell["supervisor"], cell["init"]) == (supervisor, monitor)
    ((_, other),) = await_waiting(operator, 1, but=[monitor]).items()
    second = Work(operator, "second")
    assert second.cell()["init"] == other
    # The boot id, the card's address, random numbers, and the time.
    *one, before = first.seen()
    *two, after = second.seen()
    assert len(one) == len(two) == 3 and not set(one) & set(two) and all(one + two) and int(before) <= int(after)
    # Another shape starts as ever.
    plain = Work(operator, "plain", policy=None)
    assert plain.cell()["init"] not in (monitor, other)
    for work in first, second, plain:
        work.end()


@in_test_vm
@as_root
def test_two_dispatches_never_share_a_machine(operator, begin):
    begin(2)
    monitors = set(await_waiting(operator, 2).values())
    works = [Work(operator, f"w{i}") for i in range(3)]
    cells = [work.cell()["init"] for work in works]
    assert len(set(cells)) == 3
    assert monitors & set(cells)
    for work in works:
        work.end()


@in_test_vm
@as_root
def test_a_killed_machine_is_replaced(operator, begin):
    begin(1)
    ((supervisor, monitor),) = await_waiting(operator, 1).items()
    os.kill(monitor, signal.SIGKILL)
    ((other, _),) = await_waiting(operator, 1, but=[monitor]).items()
    assert other != supervisor
    os.kill(other, signal.SIGKILL)
    await_waiting(operator, 1, but=[monitor])
    work = Work(operator, "a")
    work.cell()
    work.end()


@in_test_vm
@as_root
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_machines_end_with_the_service(operator, begin, how):
    """One that a dispatch has taken goes on."""
    service = begin(1)
    (taken,) = await_waiting(operator, 1).values()
    work = Work(operator, "a")
    assert work.cell()["init"] == taken
    (left,) = await_waiting(operator, 1, but=[taken]).values()
    service.stop(how)
    wait_until(lambda: not is_alive(left), "the machine ends", SECONDS)
    assert is_alive(taken)
    work.go.touch()
    operator.own(work.go)
    wait_until(lambda: not is_alive(taken), "the cell ends", LONG)
    assert len(all_of(operator)) == 1


@pytest.mark.parametrize("who", ["user"])
def test_mistakes(operator):
    operator.cloister("serve", "--warm", "65").sentence("--warm")
    operator.cloister("serve", "--warm-memory", "1G").sentence("--warm N")
    assert not Path(operator.runtime / "warm").exists()
