"""`cloister worker`: dispatches that other machines' services asked for.  Each operator here is a machine: folders of
their own, and one Postgres."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

import dispatches
import postgres_store
import s3_servers
from operators import as_one, wait_until
from service import Service

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
LOCK_CHANGES = "7166351, 1"             # what transactions take, as in db_postgres.c
FOREVER = "while :; do sleep 1; done"


@pytest.fixture(scope="module", autouse=True)
def servers():
    yield
    s3_servers.stop_all()


@pytest.fixture
def registry_place():
    return "postgres"


def work(machine, *options):
    return machine.spawn(machine.program, "worker", "--pool", "p", *options)


def ends(worker):
    worker.send_signal(signal.SIGTERM)
    return worker.wait(60) == 0


def asked(operator, name="worker", *words):
    return dispatches.detach(operator, "--target", "pool:p", *words, name)


def rows(operator, id, *columns):
    return postgres_store.shared().ask(operator.database, f"SELECT {', '.join(columns)} FROM cloister.dispatches "
                                       f"WHERE id = '{id}'")[0]


def set_row(operator, id, said):
    postgres_store.shared().ask(operator.database, f"UPDATE cloister.dispatches SET {said} WHERE id = '{id}'")


def role_of_the_docs(operator, name):
    """The address of the database for a worker's role, made as docs/store.md says."""
    text = (Path(__file__).parents[3] / "docs/store.md").read_text()
    sql, = re.findall(r"```sql\n(CREATE ROLE worker .*?)```", text, re.DOTALL)
    server = postgres_store.shared()
    server.ask(operator.database, re.sub(r"\bworker\b", name, sql))
    return server.url(operator.database, name)


def is_running(operator, id):
    return dispatches.show(operator, id)["state"] == "running"


def cells_of(machine):
    return [c for c in json.loads(machine.cloister("ps", "--json").ok() or "[]")]


def kinds(told):
    return [e["event"] for e in told]


def test_a_worker_runs_what_was_asked_for_elsewhere(operator, machines):
    machine = machines()
    dispatches.agent(operator, "worker", "echo out; echo err >&2; exit 3")
    id = asked(operator)
    assert dispatches.show(operator, id)["state"] == "queued"
    worker = work(machine, "--once")
    over = dispatches.await_over(operator, id)
    assert (over["state"], over["exit_code"], over["attempts"], over["target"]) == ("finished", 3, 1, "pool:p")
    assert worker.wait(60) == 0
    told = dispatches.events(operator, id)
    assert [e["n"] for e in told] == list(range(1, len(told) + 1))
    assert kinds(told)[:2] == ["dispatch.queued", "dispatch.resolved"] and kinds(told)[-1] == "dispatch.finished"
    said = {e["stream"]: e["text"] for e in told if e["event"] == "agent.output"}
    assert said == {"stdout": "out\n", "stderr": "err\n"}
    # Nothing of it is left there.
    assert not (machine.base / "data" / "dispatches" / id).exists()
    # Every machine knows the same.
    assert dispatches.events(machine, id) == told


def ended(operator):
    """What the operator's timeline on this machine says about ends."""
    lines = (operator.base / "data/audit/operator.jsonl").read_text().splitlines()
    return [e for e in (json.loads(line)["event"] for line in lines) if e["type"] == "dispatch.ended"]


@pytest.mark.parametrize("is_lost", [False, True], ids=["finished", "lost"])
def test_its_end_is_recorded_where_it_was_asked_for(operator, machines, is_lost):
    """Also if the service was away when it ended, and if its worker was lost."""
    machine = machines()
    dispatches.agent(operator, "worker", FOREVER if is_lost else "exit 3")
    service = Service(operator)
    id = asked(operator)
    service.stop(signal.SIGKILL)
    worker = work(machine)
    if is_lost:
        wait_until(lambda: is_running(operator, id), "it runs")
        worker.kill()
        worker.wait()
        machine.cloister("kill", dispatches.show(operator, id)["cell"]).ok()
        set_row(operator, id, "lease_ms = 1")
        worker = work(machines())
    wait_until(lambda: dispatches.show(operator, id)["state"] in ("finished", "failed"), "it is over")
    assert not ended(operator)
    service = Service(operator)
    told, = wait_until(lambda: ended(operator), "it is recorded")
    shown = dispatches.show(operator, id)
    assert (told["dispatch"], told["state"], told["cell"]) == (id, "failed" if is_lost else "finished", shown["cell"])
    assert ("result" in told) != is_lost and ends(worker) and service.stop() == 0
    # Once.
    service = Service(operator)
    assert service.stop() == 0 and ended(operator) == [told]
    operator.cloister("audit", "verify").ok()


def test_the_command_waits_for_it(operator, machines):
    worker = work(machines())
    dispatches.agent(operator, "worker", "echo here; exit 4")
    told = dispatches.dispatch(operator, "--target", "pool:p", "worker")
    assert told.status == 4 and "here" in told.out
    assert ends(worker)


def test_a_service_and_three_workers(operator, machines):
    """Each runs once, on whichever machine."""
    workers = [work(machines(), "--slots", "2") for _ in range(3)]
    service = Service(operator)
    dispatches.agent(operator, "worker", "echo $CLOISTER_DISPATCH")
    ids = [service.post("/v1/dispatches", {"agent": "worker", "target": "pool:p"}).ok(202)["id"] for _ in range(12)]
    for id in ids:
        over = dispatches.await_state(operator, id, "finished")
        assert over["attempts"] == 1 and rows(operator, id, "claims") == ["1"]
    assert all(map(ends, workers))
    service.stop()


def test_an_agents_own_target(operator, machines):
    """What a dispatch says comes first."""
    dispatches.agent(operator, "worker", "true", target="pool:p")
    waits = dispatches.detach(operator, "worker")
    assert dispatches.await_over(operator, dispatches.detach(operator, "--target", "local", "worker"))["state"] == "finished"
    assert dispatches.show(operator, waits)["state"] == "queued"
    worker = work(machines(), "--once")
    assert dispatches.await_over(operator, waits)["state"] == "finished" and worker.wait(60) == 0
    dispatches.agent(operator, "lost", "true", target="moon")
    dispatches.dispatch(operator, "lost").sentence("'lost'", "no target 'moon'")


def test_other_pools_and_targets_are_left_alone(operator, machines):
    machine = machines()
    dispatches.agent(operator, "worker", "true")
    other = dispatches.detach(operator, "--target", "pool:q", "worker")
    worker = work(machine)
    dispatches.await_over(operator, asked(operator))
    assert dispatches.show(operator, other)["state"] == "queued"
    assert dispatches.await_over(operator, dispatches.detach(operator, "worker"))["state"] == "finished"
    assert ends(worker)
    operator.cloister("dispatches", "cancel", other).ok()


def test_cancelled_before_and_while_a_worker_has_it(operator, machines):
    dispatches.agent(operator, "stays", FOREVER)
    waits = asked(operator, "stays")
    operator.cloister("dispatches", "cancel", waits).ok()
    over = dispatches.await_over(operator, waits)
    assert over["state"] == "cancelled" and over["attempts"] == 0
    assert kinds(dispatches.events(operator, waits))[-1] == "dispatch.finished"
    machine = machines()
    worker = work(machine)
    runs = asked(operator, "stays")
    wait_until(lambda: is_running(operator, runs), "it runs")
    operator.cloister("dispatches", "cancel", "--time", "1s", runs).ok()
    assert dispatches.await_over(operator, runs)["state"] == "cancelled"
    assert cells_of(machine) == [] and ends(worker)


def drivers_of(operator):
    """Processes that drive dispatches here."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.joinpath("comm").read_text() == "cloister-dispat\n" and \
                    f"{operator.base}/".encode() in process.joinpath("environ").read_bytes():
                found.append(process.joinpath("cmdline").read_text())
        except OSError:
            pass
    return found


def test_what_waits_for_a_worker_needs_no_process(operator):
    dispatches.agent(operator, "worker", "true")
    ids = [asked(operator) for _ in range(4)]
    assert drivers_of(operator) == []
    for id in ids:
        operator.cloister("dispatches", "cancel", id).ok()
        assert dispatches.await_over(operator, id)["state"] == "cancelled"


def test_a_pool_without_a_worker(operator):
    dispatches.agent(operator, "worker", "true")
    asking = operator.spawn(operator.program, "dispatch", "--target", "pool:p", "worker", stderr=subprocess.PIPE, text=True)
    assert any("it waits for a worker of the pool 'p'" in line for line in asking.stderr)
    (d,) = dispatches.all_of(operator)
    assert re.search("^state +queued\ntarget +pool:p$", operator.cloister("dispatches", "show", d["id"]).ok(), re.M)
    asking.send_signal(signal.SIGINT)
    assert "cancelled" in asking.stderr.read() and asking.wait(60) != 0


@pytest.mark.parametrize("retries", [0, 1])
def test_a_worker_that_dies(operator, machines, retries):
    """What may have run is not run again, unless its dispatch says so."""
    first, second = machines(), machines()
    service = Service(operator)
    dispatches.agent(operator, "stays", "[ $CLOISTER_ATTEMPT = 2 ] && exit 7; " + FOREVER)
    worker = work(first)
    id = asked(operator, "stays", "--retries", str(retries))
    wait_until(lambda: is_running(operator, id), "it runs")
    worker.kill()
    worker.wait()
    cell = cells_of(first)[0]["cell"]
    set_row(operator, id, "lease_ms = 1")           # as if its time were over
    other = work(second)
    over = dispatches.await_over(operator, id)
    if retries:
        assert (over["state"], over["exit_code"], over["attempts"]) == ("finished", 7, 2)
    else:
        assert (over["state"], over["attempts"]) == ("failed", 1) and "worker was lost" in over["reason"]
    told = dispatches.events(operator, id)
    assert [e["n"] for e in told] == list(range(1, len(told) + 1)) and kinds(told)[-1] == "dispatch.finished"
    assert ends(other)
    service.stop()
    first.cloister("kill", cell).ok()


@pytest.mark.parametrize("retries", [0, 1])
def test_a_worker_that_dies_between_its_last_event_and_the_row(operator, machines, retries):
    """What everybody can read of its end is its end: it is neither failed nor run again."""
    dispatches.agent(operator, "worker", "echo said; exit 5")
    id = asked(operator, "worker", "--retries", str(retries))
    assert work(machines(), "--once").wait(60) == 0
    told = dispatches.events(operator, id)
    result = rows(operator, id, "result")
    set_row(operator, id, "state = 2, exit_code = -1, result = NULL, ended_ms = 0, lease_ms = 1")
    worker = work(machines())
    wait_until(lambda: rows(operator, id, "state", "exit_code") != ["2", "-1"], "it is taken back")
    assert rows(operator, id, "state", "exit_code") == ["3", "5"]
    assert dispatches.events(operator, id) == told and rows(operator, id, "result") == result
    assert ends(worker)


def test_a_worker_that_comes_back_too_late(operator, machines):
    """Its cell is killed, and what it would say is not taken."""
    machine = machines()
    dispatches.agent(operator, "stays", FOREVER)
    worker = work(machine)
    id = asked(operator, "stays")
    wait_until(lambda: is_running(operator, id), "it runs")
    os.kill(worker.pid, signal.SIGSTOP)
    set_row(operator, id, "home = 'another', lease_ms = lease_ms + 100000")
    os.kill(worker.pid, signal.SIGCONT)
    wait_until(lambda: not cells_of(machine), "its cell is gone")
    assert rows(operator, id, "home", "state") == ["another", "2"]
    wait_until(lambda: not left_of(machine, id), "nothing is left of it")
    assert ends(worker)
    set_row(operator, id, "cancel = 1, lease_ms = 1")
    service = Service(operator)
    assert dispatches.await_over(operator, id)["state"] == "cancelled"
    service.stop()


def left_of(machine, id):
    """What a worker's folders have of a dispatch, but for its cell's timeline."""
    return [p for p in ((machine.base / "data/dispatches" / id), *machine.state.glob("????????.*")) if p.exists()]


def test_a_worker_that_was_killed_and_lost_its_claim(operator, machines):
    """The next worker with its folder kills the cell, which nobody has any more, and removes what was kept of it."""
    machine = machines()
    dispatches.agent(operator, "stays", FOREVER)
    dispatches.agent(operator, "short", "true")
    worker = work(machine)
    id = asked(operator, "stays")
    wait_until(lambda: is_running(operator, id), "it runs")
    worker.kill()
    worker.wait()
    assert cells_of(machine) and left_of(machine, id)
    set_row(operator, id, "home = 'another', lease_ms = lease_ms + 100000")
    worker = work(machine)
    wait_until(lambda: not cells_of(machine), "its cell is gone")
    wait_until(lambda: not left_of(machine, id), "nothing is left of it")
    other = asked(operator, "short")
    assert dispatches.await_over(operator, other)["state"] == "finished" and ends(worker)
    assert rows(operator, id, "home", "state") == ["another", "2"]
    set_row(operator, id, "cancel = 1, lease_ms = 1")
    service = Service(operator)
    assert dispatches.await_over(operator, id)["state"] == "cancelled"
    service.stop()


def test_a_worker_that_gets_again_what_it_lost(operator, machines):
    """It begins with what the database has of it."""
    machine = machines()
    dispatches.agent(operator, "stays", "[ $CLOISTER_ATTEMPT = 2 ] && exit 7; " + FOREVER)
    worker = work(machine)
    id = asked(operator, "stays", "--retries", "1")
    wait_until(lambda: is_running(operator, id), "it runs")
    os.kill(worker.pid, signal.SIGSTOP)
    set_row(operator, id, "home = '', state = 0, lease_ms = 0, claims = claims + 1")
    os.kill(worker.pid, signal.SIGCONT)
    over = dispatches.await_over(operator, id)
    assert (over["state"], over["exit_code"], over["attempts"]) == ("finished", 7, 2)
    told = dispatches.events(operator, id)
    assert [e["n"] for e in told] == list(range(1, len(told) + 1)) and ends(worker)
    assert len({e["cell"] for e in told if e["event"] == "cell.boot"}) == 2 and not left_of(machine, id)


def test_a_worker_that_cannot_begin_it(operator, machines):
    """It does not keep the claim."""
    first, second = machines(), machines()
    dispatches.agent(operator, "worker", "true")
    id = asked(operator)
    folder = first.base / "data" / "dispatches"
    folder.mkdir(mode=0o700)
    os.chown(folder, first.uid, first.gid)
    (folder / id).write_text("not a folder")
    worker = work(first)
    wait_until(lambda: rows(operator, id, "claims") != ["0"], "it was claimed")
    other = work(second)
    assert dispatches.await_over(operator, id)["state"] == "finished"
    assert ends(worker) and ends(other)


def test_another_worker_with_its_folder_goes_on(operator, machines):
    machine = machines()
    dispatches.agent(operator, "stays", "echo once; " + FOREVER)
    worker = work(machine)
    id = asked(operator, "stays")
    wait_until(lambda: is_running(operator, id), "it runs")
    other = work(machine)
    worker.kill()
    worker.wait()
    operator.cloister("dispatches", "cancel", "--time", "1s", id).ok()
    over = dispatches.await_over(operator, id)
    assert over["state"] == "cancelled" and over["attempts"] == 1
    assert ends(other)


def test_what_it_recorded_before_a_worker_that_began_nothing(operator, machines):
    """It was killed between the claim and its first file."""
    machine = machines()
    dispatches.agent(operator, "worker", "true")
    id = asked(operator)
    machine.cloister("agent", "list").ok()
    home = (machine.base / "data" / "registry" / "home").read_text()
    set_row(operator, id, f"home = '{home}', lease_ms = {2 ** 60}, claims = 1, state = 0")
    worker = work(machine)
    assert dispatches.await_over(operator, id)["state"] == "finished"
    told = dispatches.events(operator, id)
    assert [e["n"] for e in told] == list(range(1, len(told) + 1))
    assert "cell.boot" in kinds(told) and kinds(told)[-1] == "dispatch.finished"
    assert ends(worker)


def test_events_do_not_wait_for_others_changes(operator, machines):
    machine = machines()
    dispatches.agent(operator, "worker", "until [ -e /tmp/go ]; do sleep 0.01; done; seq 20000; " + FOREVER)
    worker = work(machine)
    id = asked(operator)
    wait_until(lambda: is_running(operator, id), "it runs")
    with postgres_store.shared().holding(operator.database, f"SELECT pg_advisory_lock({LOCK_CHANGES})"):
        machine.cloister("exec", cells_of(machine)[0]["cell"], "touch", "/tmp/go").ok()
        wait_until(lambda: "20000\n" in "".join(e.get("text", "") for e in dispatches.events(operator, id)),
                   "all output came")
    told = dispatches.events(operator, id)
    assert [e["n"] for e in told] == list(range(1, len(told) + 1))
    operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    assert dispatches.await_over(operator, id)["state"] == "cancelled" and ends(worker)


def test_events_with_numbers_that_are_not_theirs(operator, machines):
    """They are left out, and not copied again and again."""
    worker = work(machines(), "--once")
    dispatches.agent(operator, "worker", "true")
    id = asked(operator)
    dispatches.await_over(operator, id)
    assert worker.wait(60) == 0
    told = dispatches.events(operator, id)
    for n, line in ((1000, '{"n":3,"event":"agent.output"}'), (1001, "no event"), (1002, "")):
        postgres_store.shared().ask(operator.database,
                                    f"INSERT INTO cloister.events VALUES ('{id}', {n}, '{line}')")
    for _ in range(3):
        assert dispatches.events(operator, id) == told


def test_half_a_line_of_events(operator, machines):
    """Whoever copied them was killed, or its disk was full."""
    dispatches.agent(operator, "worker", "true")
    id = asked(operator)
    assert work(machines(), "--once").wait(60) == 0
    told = dispatches.events(operator, id)
    path = operator.base / "data" / "dispatches" / id / "events.jsonl"
    os.truncate(path, path.stat().st_size - 10)
    assert dispatches.events(operator, id) == told


class Way:
    """To the Postgres, until it is cut for whoever takes it."""

    def __init__(self, to):
        self.folder = Path(tempfile.mkdtemp(prefix="way-"))
        self.folder.chmod(0o711)
        self.at, self.to, self.ends = self.folder / ".s.PGSQL.5432", str(to / ".s.PGSQL.5432"), []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.at))
        self.at.chmod(0o777)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.to)
            self.ends += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    @staticmethod
    def carry(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass

    def cut(self):
        self.at.unlink()
        self.listener.shutdown(socket.SHUT_RDWR)
        for end in self.ends:
            end.shutdown(socket.SHUT_RDWR)
        shutil.rmtree(self.folder)


def test_a_worker_that_cannot_reach_the_database(operator, machines):
    """Its cells are gone before another machine may begin them, however much it has to tell."""
    machine, way = machines(), Way(postgres_store.shared().folder)
    machine.env["CLOISTER_STORE"] = machine.env["CLOISTER_STORE"].replace(str(postgres_store.shared().folder),
                                                                          str(way.folder))
    dispatches.agent(operator, "talks", "while :; do echo x; sleep 0.1; done")
    worker = work(machine)
    ids = [asked(operator, "talks") for _ in range(3)]
    for id in ids:
        wait_until(lambda: is_running(operator, id), "it runs")
    way.cut()
    wait_until(lambda: not cells_of(machine), "its cells are gone", 120)
    for id in ids:
        assert rows(operator, id, f"lease_ms > {time.time_ns() // 1000000}") == ["t"]
    worker.kill()
    worker.wait()
    for id in ids:
        set_row(operator, id, "lease_ms = 1")
        operator.cloister("dispatches", "cancel", id).ok()
        assert dispatches.await_over(operator, id)["state"] == "cancelled"


def test_a_worker_that_starts_again_goes_on(operator, machines):
    machine = machines()
    dispatches.agent(operator, "stays", "echo once; " + FOREVER)
    worker = work(machine)
    id = asked(operator, "stays")
    wait_until(lambda: is_running(operator, id), "it runs")
    worker.kill()
    worker.wait()
    worker = work(machine)
    operator.cloister("dispatches", "cancel", "--time", "1s", id).ok()
    over = dispatches.await_over(operator, id)
    assert over["state"] == "cancelled" and over["attempts"] == 1
    assert ends(worker)


@pytest.mark.parametrize("name", ["s3rver", "swift"])
def test_files_go_through_s3(operator, machines, tmp_path_factory, name):
    """A capability, input and a policy reach the worker, and output and files come back."""
    server = s3_servers.server_of(name, tmp_path_factory)
    where = {"CLOISTER_BLOBS": f"s3://{s3_servers.BUCKET}/{os.urandom(4).hex()}?endpoint=http://127.0.0.1:{server.port}"
                               f"&region={s3_servers.REGION}",
             "AWS_ACCESS_KEY_ID": server.id, "AWS_SECRET_ACCESS_KEY": server.secret}
    machine = machines()
    operator.env |= where
    machine.env |= where
    word, said = os.urandom(8).hex(), os.urandom(8).hex()
    dispatches.capability(operator, "tool", {"say": f"echo {word}\n"})
    dispatches.policy(operator, "none", {"deny": "*"})
    dispatches.agent(operator, "worker", "cat; sh /capabilities/tool/say; env | grep -cE 'AWS_(ACC|SEC)|CLOISTER_(BLOBS|STORE)'; head -c 3000000 /dev/zero "
                     "| tr '\\0' x > /out/much", capabilities=["tool"], policy="none")
    id = dispatches.detach(operator, "--target", "pool:p", "--input", operator.file("input", said + "\n"), "worker")
    machine.env["CLOISTER_STORE"] = role_of_the_docs(operator, f"files{operator.database}")
    worker = work(machine)
    over = dispatches.await_over(operator, id)
    assert over["state"] == "finished", over
    assert operator.cloister("dispatches", "output", id).ok() == f"{said}\n{word}\n0\n"
    operator.cloister("dispatches", "files", id, "--to", operator.base / "got").ok()
    assert (operator.base / "got" / "much").read_bytes() == b"x" * 3_000_000
    assert ends(worker)


def test_s3_that_stalls_holds_up_no_other_dispatch(operator, machines, tmp_path_factory):
    """A worker keeps its claims, and begins what others want, while the files of one dispatch do not come."""
    server, machine = s3_servers.server_of("s3rver", tmp_path_factory), machines()
    with s3_servers.front_of(server) as front:
        where = {"CLOISTER_BLOBS": f"s3://{s3_servers.BUCKET}/{os.urandom(4).hex()}?region={s3_servers.REGION}&timeout=3600"
                                   "&endpoint=http://127.0.0.1:", "AWS_ACCESS_KEY_ID": server.id,
                 "AWS_SECRET_ACCESS_KEY": server.secret}
        for who, port in ((operator, server.port), (machine, front.port)):
            who.env |= where | {"CLOISTER_BLOBS": f"{where['CLOISTER_BLOBS']}{port}"}
        dispatches.capability(operator, "slow", {"say": f"echo {os.urandom(8).hex()}\n"})
        dispatches.agent(operator, "waits", "sh /capabilities/slow/say", capabilities=["slow"])
        dispatches.agent(operator, "goes", "exit 5")
        front.plans.append(lambda handler, request: request.is_for("GET", "blobs/") and s3_servers.stall(front)(handler, request))
        worker = work(machine)
        waits = asked(operator, "waits")
        wait_until(lambda: front.requests("GET", "blobs/"), "its file is asked for")
        until = int(rows(operator, waits, "lease_ms")[0])
        over = dispatches.await_over(operator, asked(operator, "goes"))
        assert (over["state"], over["exit_code"]) == ("finished", 5)
        wait_until(lambda: int(rows(operator, waits, "lease_ms")[0]) > until, "its claim is renewed")
        assert rows(operator, waits, "state", "claims") == ["1", "1"]
        front.plans.clear()
        worker.kill()
        worker.wait()
        worker = work(machine)
        over = dispatches.await_over(operator, waits)
        assert (over["state"], over["exit_code"], over["attempts"]) == ("finished", 0, 1), over
        # What never comes is said so.
        dispatches.capability(operator, "lost", {"say": f"echo {os.urandom(8).hex()}\n"})
        dispatches.agent(operator, "fails", "true", capabilities=["lost"])
        front.plans.append(lambda handler, request: request.is_for("GET", "blobs/") and
                           s3_servers.answers(403, s3_servers.error("AccessDenied"))(handler, request))
        over = dispatches.await_over(operator, asked(operator, "fails"))
        assert over["state"] == "failed" and "the blob sha256:" in over["reason"], over
        assert ends(worker)


def test_the_stores_password_ends_with_the_worker(operator, machines):
    machine, canary = machines(), os.urandom(12).hex()
    machine.env["PGPASSWORD"] = canary
    dispatches.agent(operator, "stays", FOREVER)
    worker = work(machine)
    id = asked(operator, "stays")
    wait_until(lambda: is_running(operator, id), "it runs")
    cell = cells_of(machine)[0]["cell"]
    for pid in (machine.cell(cell)["supervisor"], *machine.pids(cell)):
        env = Path(f"/proc/{pid}/environ").read_text()
        assert canary not in env and "CLOISTER_STORE" not in env, pid
    assert canary in Path(f"/proc/{worker.pid}/environ").read_text()
    operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    assert dispatches.await_over(operator, id)["state"] == "cancelled" and ends(worker)


def the_docs_role(operator, name):
    """The address of the database for a worker's role, as docs/store.md makes it."""
    text = (Path(__file__).parents[3] / "docs/store.md").read_text()
    sql, = re.findall(r"```sql\n(CREATE ROLE worker .*?)```", text, re.DOTALL)
    server = postgres_store.shared()
    server.ask(operator.database, sql.replace("worker", name))
    return server.url(operator.database, name)


@as_one
def test_a_worker_with_a_role_of_few_rights(operator, machines):
    server, name, machine = postgres_store.shared(), f"few{os.getpid()}", machines()
    dispatches.agent(operator, "worker", "exit 3")
    dispatches.agent(operator, "stays", FOREVER)
    machine.env["CLOISTER_STORE"] = role_of_the_docs(operator, name)
    ended, cancelled = asked(operator), asked(operator, "stays")
    worker = work(machine)
    over = dispatches.await_over(operator, ended)
    assert (over["state"], over["exit_code"]) == ("finished", 3)
    wait_until(lambda: is_running(operator, cancelled), "it runs")
    operator.cloister("dispatches", "cancel", "--time", "0s", cancelled).ok()
    assert dispatches.await_over(operator, cancelled)["state"] == "cancelled" and ends(worker)
    for sql in ("UPDATE cloister.dispatches SET resolved = ''", "UPDATE cloister.dispatches SET target = 'local'",
                "UPDATE cloister.dispatches SET origin = home", "INSERT INTO cloister.dispatches (id) VALUES ('x')",
                "DELETE FROM cloister.dispatches", "UPDATE cloister.versions SET content = ''", "DELETE FROM cloister.events",
                "INSERT INTO cloister.names (kind, name) VALUES ('agent', 'x')", "UPDATE cloister.events SET line = ''",
                "INSERT INTO cloister.notes (event) VALUES ('{}')", "UPDATE cloister.places SET owner = ''"):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            server.run("psql", "-h", server.folder, "-U", name, "-d", operator.database, "-c", sql)
        assert "permission denied" in refused.value.stdout, (sql, refused.value.stdout)


@as_one
def test_what_a_worker_cannot_have(operator):
    def refused(name, *parts, **said):
        dispatches.agent(operator, name, "true", **said)
        dispatches.dispatch(operator, "--target", "pool:p", name).sentence(f"'{name}'", *parts)
    folder = operator.folder("work")
    refused("folder", "no worker has", workspace={"path": str(folder), "mode": "overlay"})
    refused("delegates", "dispatches others", delegate={"agents": ["folder"], "depth": 1, "fan_out": 8})
    dispatches.policy(operator, "remembers", state="brain")
    refused("state", "has a state", "target local", policy="remembers")
    dispatches.policy(operator, "mounts", volumes=["v:/data"])
    refused("volumes", "has volumes", "target local", policy="mounts")
    dispatches.agent(operator, "worker", "true")
    dispatches.dispatch(operator, "--target", "pool:UP", "worker").sentence("no name of a pool")
    del operator.env["CLOISTER_STORE"]
    dispatches.agent(operator, "worker", "true")
    dispatches.dispatch(operator, "--target", "pool:p", "worker").sentence("pool:p", "--store")
    operator.cloister("worker", "--pool", "p").sentence("--store")
    operator.cloister("worker").sentence("which pool?")


def test_metrics_of_pools(operator, machines):
    """What waits and what was taken, for whoever starts workers."""
    def numbers():
        found = {}
        for line in service.get("/metrics").data.decode().splitlines():
            if line.startswith("cloister_pool_"):
                name, value = line.rsplit(" ", 1)
                found[name.removeprefix("cloister_pool_")] = int(value)
        return found
    dispatches.agent(operator, "stays", FOREVER)
    service = Service(operator)
    assert numbers() == {}
    ids = [asked(operator, "stays") for _ in range(3)]
    other = dispatches.detach(operator, "--target", "pool:q", "stays")
    worker = work(machines(), "--slots", "1")
    taken = wait_until(lambda: [id for id in ids if is_running(operator, id)], "one runs")
    set_row(operator, other, "created_ms = created_ms - 100000")
    said = numbers()
    assert said.pop('oldest_seconds{pool="q"}') in range(90, 200)
    assert said.pop('oldest_seconds{pool="p"}') < 90
    assert said == {'waiting{pool="p"}': 2, 'taken{pool="p"}': 1, 'waiting{pool="q"}': 1, 'taken{pool="q"}': 0}
    operator.cloister("dispatches", "cancel", "--time", "0s", *ids, other).ok()
    for id in (*ids, other):
        dispatches.await_over(operator, id)
    assert numbers() == {} and len(taken) == 1
    assert ends(worker)
    service.stop()
