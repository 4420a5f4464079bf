"""The registry in Postgres: several services, a server that dies, and what is said when it cannot be used."""
import contextlib
import os
import signal
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest

import dispatches
import postgres_store
from operators import as_one, children_of, wait_until
from service import Service

needs_postgres = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
pytestmark = needs_postgres
AGENT = "name: stopped\ncommand: ['true']\n"
FOREVER = "while :; do sleep 1; done"


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def own(operator):
    """A Postgres that the test may kill, with the operator's registry in it."""
    postgres = postgres_store.Postgres(postgres_store.PROGRAMS[0])
    operator.env["CLOISTER_STORE"] = postgres.url(postgres.new())
    yield postgres
    postgres.close()


@pytest.fixture
def other(machines):
    """Another machine's operator, with folders of their own, and the same registry."""
    return machines()


def state(operator, id):
    return dispatches.show(operator, id)["state"]


def closing_service(operator):
    service = Service(operator)
    service.close = service.stop
    return closing(service)


def test_two_services_share_a_registry(operator, other):
    with closing_service(operator) as first, closing_service(other) as second:
        dispatches.agent(operator, "worker", "echo by $CLOISTER_DISPATCH")
        here, there = (s.post("/v1/dispatches", {"agent": "worker"}).ok(202)["id"] for s in (first, second))
        for id in (here, there):
            for who in (operator, other):
                wait_until(lambda: state(who, id) == "finished", f"{id} is finished")
        # Each ran once, where it was asked for.
        assert first.get(f"/v1/dispatches/{here}/output").data.decode() == f"by {here}\n"
        assert second.get(f"/v1/dispatches/{there}/output").data.decode() == f"by {there}\n"
        assert {d["id"] for d in dispatches.all_of(operator)} == {here, there}
        assert [d["attempts"] for d in dispatches.all_of(other)] == [1, 1]


def test_others_leave_a_dispatch_to_its_own_service(operator, other):
    dispatches.agent(operator, "stays", FOREVER)
    dispatches.agent(operator, "worker", "true")
    first = Service(operator)
    id = first.post("/v1/dispatches", {"agent": "stays"}).ok(202)["id"]
    wait_until(lambda: state(operator, id) == "running", "it runs")
    first.stop(signal.SIGKILL)
    with closing_service(other) as second:
        later = second.post("/v1/dispatches", {"agent": "worker"}).ok(202)["id"]
        wait_until(lambda: state(other, later) == "finished", "the other's is over")
        assert state(other, id) == "running"
        assert not (other.base / "data" / "dispatches" / id).exists()
    with closing_service(operator) as again:
        again.post(f"/v1/dispatches/{id}/cancel").ok()
        wait_until(lambda: state(operator, id) == "cancelled", "its own service ends it")
    assert dispatches.show(operator, id)["attempts"] == 1


def test_cancelled_by_another_service(operator, other):
    dispatches.agent(operator, "stays", FOREVER)
    with closing_service(operator) as first, closing_service(other) as second:
        id = first.post("/v1/dispatches", {"agent": "stays"}).ok(202)["id"]
        wait_until(lambda: state(other, id) == "running", "it runs")
        second.post(f"/v1/dispatches/{id}/cancel").ok()
        wait_until(lambda: state(other, id) == "cancelled", "it is cancelled")


def test_a_server_that_dies_and_comes_back(operator, own):
    dispatches.agent(operator, "worker", "echo here")
    with closing_service(operator) as service:
        def ask():
            return service.post("/v1/dispatches", {"agent": "worker"})
        before = ask().ok(202)["id"]
        own.kill()
        again = threading.Thread(target=own.start)
        again.start()
        # Whatever is asked meanwhile is either done or refused with a reason.
        said = ask()
        assert said.status == 202 or "Postgres" in said.json["error"]["message"], said.data
        again.join()
        after = ask().ok(202)["id"]
        for id in (before, after):
            wait_until(lambda: state(operator, id) == "finished", f"{id} is finished")
            assert dispatches.show(operator, id)["attempts"] == 1


def test_a_process_that_is_stopped_in_a_change(operator, own):
    """Its machine sleeps, say: others wait for a while, and then go on."""
    database = operator.env["CLOISTER_STORE"].split("@/")[1].split("?")[0]
    dispatches.agent(operator, "first", "true")
    with own.holding(database, "BEGIN; LOCK TABLE cloister.names"):
        stopped = operator.spawn(operator.program, "agent", "register", operator.file("stopped.yaml", AGENT), stderr=subprocess.PIPE)
        wait_until(lambda: own.ask(database, "SELECT 1 FROM pg_stat_activity WHERE application_name = 'cloister' AND "
                                   "wait_event_type = 'Lock'"), "it waits")
        os.kill(stopped.pid, signal.SIGSTOP)
    dispatches.agent(operator, "second", "true")
    os.kill(stopped.pid, signal.SIGCONT)
    assert b"the registry's Postgres" in stopped.communicate()[1] and stopped.returncode == 125
    operator.cloister("agent", "register", operator.base / "stopped.yaml").ok()


@as_one
def test_a_server_that_does_not_answer(operator, own):
    """Its disk hangs, say: whoever waits is told, and the next question goes to another of its processes."""
    dispatches.agent(operator, "worker", "echo here")
    with closing_service(operator) as service:
        for pid in children_of(own.process.pid):
            if b"cloister" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b":", 1)[1]:
                os.kill(pid, signal.SIGSTOP)
        said = service.get("/v1/dispatches")
        assert said.status == 200 or "has not answered" in said.json["error"]["message"], said.data
        id = service.post("/v1/dispatches", {"agent": "worker"}).ok(202)["id"]
        wait_until(lambda: state(operator, id) == "finished", f"{id} is finished")
        for pid in children_of(own.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_the_agent_does_not_learn_where_the_registry_is(operator):
    dispatches.agent(operator, "nosy", "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
    told = dispatches.dispatch(operator, "nosy").ok()
    assert "CLOISTER_DISPATCH" in told
    assert "CLOISTER_STORE" not in told and str(postgres_store.shared().folder) not in told


def columns_of_sqlite(path):
    with closing(sqlite3.connect(path)) as db:
        tables = [name for name, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {(table, column[1], bool(column[3])) for table in tables if not table.startswith("sqlite_")
                for column in db.execute(f"PRAGMA table_info({table})") if not column[5]}


def columns_of_postgres(name):
    told = postgres_store.shared().ask(
        name, "SELECT table_name, column_name, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'cloister' AND table_name <> 'migrations'")
    keys = {tuple(row) for row in postgres_store.shared().ask(
        name, "SELECT k.table_name, k.column_name FROM information_schema.key_column_usage k JOIN "
        "information_schema.table_constraints c USING (constraint_name, table_name) "
        "WHERE c.constraint_type = 'PRIMARY KEY' AND k.table_schema = 'cloister'")}
    return {(table, column, null == "NO") for table, column, null in told if (table, column) not in keys}


@as_one
def test_both_kinds_have_the_same_tables(operator, tmp_path):
    dispatches.agent(operator, "worker", "true")
    del operator.env["CLOISTER_STORE"]
    dispatches.agent(operator, "worker", "true")
    ours = columns_of_sqlite(operator.base / "data" / "registry" / "db.sqlite")
    assert ours == columns_of_postgres(operator.database) and len(ours) > 30


@as_one
def test_a_store_that_cannot_be_used(operator):
    url = operator.env["CLOISTER_STORE"]

    def said(store, *parts):
        operator.env["CLOISTER_STORE"] = store
        return operator.cloister("agent", "list").sentence(*parts)
    said("mysql://here", "no store", "postgres://USER@HOST/DATABASE")
    said(url.replace(operator.database, "nosuch"), "Postgres", '"nosuch" does not exist')
    said(url.replace("cloister@", "stranger@"), "Postgres", '"stranger" does not exist')
    said("postgresql://cloister@/x?host=/nowhere", "Postgres", "/nowhere")
    said("postgresql://cloister@/x?nonsense=1", "nonsense")
    # libpq would quote these.
    for malformed in ("me:cAnary@[::1]x/db", "me:cAn%zzary@db/x", "me:cAn/ary@db/x", "me:cAn@ary@db/x", "me:cAn/a?ry@db/x",
                      "me:cAnary@db/x?nonsense=1"):
        told = said("postgres://" + malformed, "address", "malformed" if malformed.count("@") == 1 and "/ary" not in malformed else "ambiguous")
        assert "cAn" not in told and "ary" not in told, told
    postgres_store.shared().ask(operator.database, "CREATE SCHEMA cloister; CREATE TABLE cloister.migrations (n BIGINT); "
                                "INSERT INTO cloister.migrations VALUES (99)")
    said(url, "newer cloister", "99")


@as_one
def test_no_password_on_a_command_line(operator):
    for url in ("postgres://me:secret@db/x", "postgres://me:secret?@db/x", "postgres://db/x?user=me&password=secret",
                "postgres://db/x?p%61ssword=secret"):
        said = operator.cloister("serve", "--store", url).sentence("--store", "password", "PGPASSWORD")
        assert "secret" not in said
    operator.cloister("serve", "--store", "mysql://x").sentence("--store", "no store")


@as_one
def test_many_come_first_at_the_same_time(operator):
    """Each would make the tables."""
    crowd = [operator.spawn(operator.program, "agent", "list", "--json") for _ in range(8)]
    assert [process.wait() for process in crowd] == [0] * 8
    [[rows, done]] = postgres_store.shared().ask(operator.database, "SELECT count(*), max(n) FROM cloister.migrations")
    assert rows == "1" and int(done) > 1


def test_what_was_said_to_one_is_in_that_ones_timeline(operator, other):
    dispatches.agent(operator, "mine", "true")
    dispatches.agent(other, "theirs", "true")
    for who, name, stranger in ((operator, "mine", "theirs"), (other, "theirs", "mine")):
        told = (who.base / "data" / "audit" / "operator.jsonl").read_text()
        assert f'"{name}"' in told and f'"{stranger}"' not in told
