"""Clocks that are wrong, or are set while dispatches run: nothing is lost, and nothing runs twice.  libfaketime gives a process
another wall clock; those that only go on stay as they are."""
import signal

import pytest

import clocks
import dispatches
import postgres_store
from operators import as_one, wait_until
from service import Service
from test_far import begun, ps
from test_link import Worker, joined, port_of

FOREVER = "while :; do sleep 0.05; done"

pytestmark = [pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql"),
              pytest.mark.skipif(clocks.LIBRARY is None, reason="there is no libfaketime (package faketime)")]


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def postgres(operator):
    """One of the operator's own, whose clock can be set."""
    server = postgres_store.Postgres(postgres_store.PROGRAMS[0], has_clock=True)
    operator.database = server.new()
    operator.env["CLOISTER_STORE"] = server.url(operator.database)
    yield server
    server.close()


def row(postgres, operator, id, *columns):
    return postgres.ask(operator.database, f"SELECT {', '.join(columns)} FROM cloister.dispatches WHERE id = '{id}'")[0]


NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


@as_one
@pytest.mark.parametrize("jump", [3600, -3600])
def test_the_databases_clock_is_set(operator, machines, postgres, jump):
    """All claims are over by that clock, or last an hour longer: those who have them renew them, and keep them."""
    dispatches.agent(operator, "stays", "echo begun; [ $CLOISTER_ATTEMPT = 1 ] || exit 7; " + FOREVER)
    dispatches.agent(operator, "again", "[ $CLOISTER_ATTEMPT = 2 ]")
    service = Service(operator, "--workers", "127.0.0.1:0")
    machine = machines()
    worker = joined(operator, machine)
    id = dispatches.detach(operator, "--target", "pool:p", "--retries", "1", "stays")
    cell = begun(operator, id)
    before = int(postgres.ask(operator.database, f"SELECT {NOW}")[0][0])
    postgres.clock.set(jump)
    now = int(postgres.ask(operator.database, f"SELECT {NOW}")[0][0])
    assert abs(now - before - jump * 1000) < 600_000, "the clock was set"
    # For several rounds of those who look for what was lost.
    seen = set()

    def renewed():
        seen.add(row(postgres, operator, id, "lease_ms")[0])
        return len(seen) > 3
    wait_until(renewed, "it is renewed")
    assert row(postgres, operator, id, "claims", "state", "attempts", "cell") == ["1", "2", "1", cell]
    assert int(max(seen, key=int)) > now and cell in ps(machine)
    # Others run, and are tried again, as before.
    other = dispatches.await_over(operator, dispatches.detach(operator, "--target", "pool:p", "--retries", "1", "again"))
    assert (other["state"], other["exit_code"], other["attempts"]) == ("finished", 0, 2)
    operator.cloister("kill", cell).ok()
    assert dispatches.await_over(operator, id)["attempts"] == 1
    assert worker.end() == 0
    service.stop()


@as_one
@pytest.mark.parametrize("whose", ["worker", "service"])
@pytest.mark.parametrize("offset", [-3 * 86400, 9000 * 86400])
def test_a_machine_whose_clock_is_wrong(operator, machines, whose, offset):
    """Worker and service find each other, and dispatches are run and tried again, whatever one of them thinks that it is."""
    dispatches.agent(operator, "stays", "echo begun; " + FOREVER)
    dispatches.agent(operator, "again", "[ $CLOISTER_ATTEMPT = 2 ]")
    machine = machines()
    env = clocks.shifted(offset)
    (machine if whose == "worker" else operator).env |= env
    service = Service(operator, "--workers", "127.0.0.1:0")
    port = port_of(service)
    said = operator.cloister("worker", "token", "--address", f"127.0.0.1:{port}").ok().strip()
    worker = Worker(machine, "--join", said)
    worker.says("connected to the service")
    id = dispatches.detach(operator, "--target", "pool:p", "stays")
    cell = begun(operator, id)
    ask = f"SELECT {'started_ms' if whose == 'worker' else 'created_ms'} - {NOW} FROM cloister.dispatches WHERE id = '{id}'"
    assert abs(int(postgres_store.shared().ask(operator.database, ask)[0][0])) > 2 * 86_400_000, "its clock is wrong"
    other = dispatches.await_over(operator, dispatches.detach(operator, "--target", "pool:p", "--retries", "1", "again"))
    assert (other["state"], other["exit_code"], other["attempts"]) == ("finished", 0, 2)
    # Its clock is right again after it was killed, and it goes on with what it has.
    for name in env:
        (machine if whose == "worker" else operator).env.pop(name)
    if whose == "worker":
        worker.end(signal.SIGKILL)
        worker = Worker(machine)
        worker.says("connected to the service")
    else:
        service.stop(signal.SIGKILL)
        service = Service(operator, "--workers", f"127.0.0.1:{port}")
    wait_until(lambda: ps(operator).get(cell, {}).get("state") == "running", "it is there")
    operator.cloister("kill", cell).ok()
    over = dispatches.await_over(operator, id)
    assert (over["attempts"], over["cell"]) == (1, cell) and worker.end() == 0
    service.stop()


@as_one
def test_an_attempt_that_waits_for_a_clock_that_was_set_back(operator, machines):
    dispatches.agent(operator, "short", "true")
    id = dispatches.detach(operator, "--target", "pool:p", "short")
    postgres_store.shared().ask(operator.database, f"UPDATE cloister.dispatches SET not_before_ms = {2 ** 60} WHERE id = '{id}'")
    worker = machines().spawn(operator.program, "worker", "--pool", "p", "--once")
    assert dispatches.await_over(operator, id)["state"] == "finished" and worker.wait(60) == 0
