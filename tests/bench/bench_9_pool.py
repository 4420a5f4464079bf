"""Pools: dispatches that workers take from one Postgres, against services that run their own; and stores that are full."""
import contextlib
import glob
import json
import os
import re
import secrets
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import scale_model
from bench import Samples, Unmeasured, group
from bench_8_dispatch import Client, submit, until_over
from lab import Who, await_quiet, descendants, processes

PROGRAMS = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1:]
NOBODY = 65534
POOL, SLOTS, WORKERS, CLIENTS = "bench", 8, 4, 8
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"    # of ids


# ---- machines and their store -----------------------------------------------------------------

class Postgres:
    """As it is by default: what it has answered is on the disk.  It logs how long each statement took."""

    def __init__(self, lab):
        if not PROGRAMS:
            raise Unmeasured("there is no postgresql")
        self.folder = Path(tempfile.mkdtemp(prefix="store-", dir=lab.top))
        self.as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
        self.folder.chmod(0o711)
        self.run("initdb", "-D", self.folder / "data", "-A", "trust", "-U", "cloister", "--locale=C.UTF-8")
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(self.command(
                "postgres", "-D", self.folder / "data", "-k", self.folder, "-c", "listen_addresses=", "-c",
                "max_connections=400"), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 30
        while subprocess.run(self.command("pg_isready", "-q", "-h", self.folder), check=False).returncode != 0:
            if time.monotonic() > end:
                raise Unmeasured("Postgres does not start")
            time.sleep(0.05)

    def command(self, program, *words):
        return [*self.as_nobody, f"{PROGRAMS[0]}/{program}", *map(str, words)]

    def run(self, program, *words):
        return subprocess.run(self.command(program, *words), check=True, cwd="/", stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900).stdout

    def ask(self, database, *sql):
        words = [word for one in sql for word in ("-c", one)]
        return self.run("psql", "-h", self.folder, "-U", "cloister", "-d", database, "-X", "-A", "-t", "-q", *words)

    def new(self):
        name = f"b{secrets.token_hex(4)}"
        self.ask("postgres", f"CREATE DATABASE {name}")
        return name, f"postgresql://cloister@/{name}?host={self.folder}"

    def cpu(self):
        return cpu_of(self.process.pid)

    def close(self):
        self.process.terminate()
        self.process.wait(60)


class Machine(Who):
    """Folders of their own; STORE is the address of a database, or None."""

    def __init__(self, lab, name, store=None):
        super().__init__(name, lab.user.uid, lab.user.gid, lab.top, lab.memory, os.geteuid() == 0)
        self.lab, self.said = lab, self.top / "said"
        if store is not None:
            self.env["CLOISTER_STORE"] = store

    @contextlib.contextmanager
    def running(self, says, *words):
        """A process of cloister's, from when it SAYS that it is ready."""
        with open(self.said, "wb") as said:
            process = self.popen([self.lab.cloister, *words], stderr=said)
        try:
            self.await_word(process, says)
            yield process
        finally:
            process.terminate()
            process.wait(120)

    def await_word(self, process, word):
        end = time.monotonic() + 60
        while word not in self.said.read_text():
            if process.poll() is not None or time.monotonic() > end:
                raise Unmeasured(f"{self.name}: {self.said.read_text()[-300:]}")
            time.sleep(0.01)

    def service(self, *words):
        return self.running("serving at", "serve", *words)

    def worker(self, *words, says="working for"):
        return self.running(says, "worker", "--pool", POOL, *words)

    def client(self):
        return Client(self.runtime / "serve.sock")


def cpu_of(pid):
    """Seconds that PID and its descendants have used, with those that are over and were waited for."""
    total = 0
    for one in descendants(pid, processes()):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15] if one == pid else fields[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


# ---- how many in a second -----------------------------------------------------------------------

def run_all(machines, total, target):
    """Seconds until TOTAL dispatches, which MACHINES' services share, are over."""
    share = total // len(machines)
    await_quiet()
    begin = time.monotonic()
    submit([m.runtime / "serve.sock" for m in machines for _ in range(CLIENTS // len(machines))], total // CLIENTS,
           {"agent": "nothing", "target": target})
    for machine in machines:
        if until_over(machine.client(), share, 0.1) != share:
            raise Unmeasured("not all of them finished")
    return time.monotonic() - begin


def local_sum(lab, total):
    with contextlib.ExitStack() as stack:
        machines = [Machine(lab, f"alone{n}") for n in range(WORKERS)]
        for machine in machines:
            stack.enter_context(machine.service("--concurrency", str(SLOTS)))
            machine.client().ask("POST", "/v1/agents", {"name": "nothing", "command": ["true"]})
        return total / run_all(machines, total, "local")


def pooled(lab, postgres, total):
    """The rate, and what one dispatch costs each part: seconds of a processor."""
    _, store = postgres.new()
    with contextlib.ExitStack() as stack:
        front = Machine(lab, "front", store)
        service = stack.enter_context(front.service())
        front.client().ask("POST", "/v1/agents", {"name": "nothing", "command": ["true"]})
        workers = [stack.enter_context(Machine(lab, f"worker{n}", store).worker("--slots", str(SLOTS))) for n in range(WORKERS)]
        before = postgres.cpu(), cpu_of(service.pid), sum(cpu_of(w.pid) for w in workers)
        took = run_all([front], total, f"pool:{POOL}")
        after = postgres.cpu(), cpu_of(service.pid), sum(cpu_of(w.pid) for w in workers)
        return total / took, [(b - a) / total for a, b in zip(before, after)]


# ---- how soon -----------------------------------------------------------------------------------

def said_at(client, id):
    """When the agent ran, in ns: it printed that."""
    until_over_of(client, id)
    events = (json.loads(line) for line in client.ask("GET", f"/v1/dispatches/{id}/events").splitlines() if line)
    return int("".join(e["text"] for e in events if e["event"] == "agent.output"))


def until_over_of(client, id):
    end = time.monotonic() + 60
    while json.loads(client.ask("GET", f"/v1/dispatches/{id}"))["state"] in ("queued", "starting", "running"):
        if time.monotonic() > end:
            raise Unmeasured("a dispatch does not end")
        time.sleep(0.005)


def first_instruction(lab, postgres, report):
    _, store = postgres.new()
    front, rounds = Machine(lab, "soon", store), report.pick(100, 10)
    samples = {"local": Samples(), f"pool:{POOL}": Samples()}
    with front.service(), Machine(lab, "taker", store).worker():
        client = front.client()
        client.ask("POST", "/v1/agents", {"name": "now", "command": ["date", "+%s%N"]})
        for i in range(rounds + 3):
            for target, took in samples.items():
                begin = time.time_ns()
                answer = json.loads(client.ask("POST", "/v1/dispatches", {"agent": "now", "target": target}))
                ms = (said_at(client, answer["id"]) - begin) / 1e6
                if i >= 3:
                    took.append(ms)
    local, pool = samples.values()
    report.row("pool: request to the first instruction", pool.median, "ms", pool.spread, "local", local.median)
    report.row("pool: beyond local", pool.median - local.median, "ms", bar="value <= 15")


# ---- idle workers -------------------------------------------------------------------------------

def idle(lab, postgres, report):
    _, store = postgres.new()
    n, seconds = report.pick(100, 5), report.pick(30, 3)
    front = Machine(lab, "host", store)
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(front.service("--workers", "127.0.0.1:0"))
        for i in range(n):
            token = front.run([lab.cloister, "worker", "token"])
            if token.returncode != 0:
                raise Unmeasured(token.stderr)
            stack.enter_context(Machine(lab, f"idle{i}", store).worker("--join", token.stdout.strip(),
                                                                       says="connected to the service"))
        await_quiet(60)
        before = cpu_of(service.pid), postgres.cpu()
        time.sleep(seconds)
        after = cpu_of(service.pid), postgres.cpu()
        shares = [(b - a) / seconds * 100 for a, b in zip(before, after)]
        report.row(f"service, {n} idle workers", shares[0], "% CPU", bar="value <= 1")
        report.row(f"Postgres, {n} idle workers", shares[1], "% CPU")
    return shares


# ---- a store that is full -----------------------------------------------------------------------

# Each N becomes an id; one in 100 has failed.
FILL = ("INSERT INTO {table} ({columns}) SELECT {id}, CASE n % 100 WHEN 0 THEN 4 ELSE 3 END, {rest} FROM {table} d, {numbers} "
        "WHERE d.id = '{model}'")
REST = ("agent, agent_hash, principal, parent, chain, depth, target, policy_hash, build_hash, request_hash, resolved, retries, "
        "attempts, timeout_ms, cell, boot, created_ms, started_ms, ended_ms, exit_code, reason, result, home, origin, claims")


def make_model(lab, machine):
    with machine.service():
        client = machine.client()
        client.ask("POST", "/v1/agents", {"name": "nothing", "command": ["true"]})
        id = json.loads(client.ask("POST", "/v1/dispatches", {"agent": "nothing"}))["id"]
        until_over_of(client, id)
    return id


def fill_postgres(postgres, database, model, n):
    id = "translate(lpad(to_hex(n), 16, '0'), '0123456789', 'ghijklmnop')"
    postgres.ask(database, FILL.format(table="cloister.dispatches", columns=f"id, state, {REST}", id=id, rest=REST, model=model,
                                       numbers=f"generate_series(1, {n}) n"), "ANALYZE cloister.dispatches")


def fill_sqlite(machine, model, n):
    with contextlib.closing(sqlite3.connect(machine.top / "data/registry/db.sqlite")) as db:
        db.create_function("to_id", 1, lambda n: f"{n:016x}".translate(str.maketrans("0123456789", "ghijklmnop")))
        db.execute(FILL.format(table="dispatches", columns=f"id, state, {REST}", id="to_id(n)", rest=REST, model=model, numbers=(
            f"(WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {n}) SELECT n FROM c)")))
        db.execute("ANALYZE")
        db.commit()
    for path in (machine.top / "data/registry").glob("db.sqlite*"):
        os.chown(path, machine.uid, machine.gid)


def ask_often(client, report, name, path, rounds):
    took = Samples()
    for _ in range(rounds + 3):
        begin = time.perf_counter()
        client.ask("GET", path)
        took.append((time.perf_counter() - begin) * 1000)
    del took[:3]
    report.row(name, took.median, "ms", took.spread, bar="value <= 10")


def look_around(machine, report, kind, model, n):
    rounds = report.pick(50, 5)
    with machine.service():
        client = machine.client()
        ask_often(client, report, f"{kind}, {n} dispatches: list", "/v1/dispatches?limit=50", rounds)
        ask_often(client, report, f"{kind}, {n} dispatches: failed ones", "/v1/dispatches?state=failed&limit=50", rounds)
        ask_often(client, report, f"{kind}, {n} dispatches: one by id", f"/v1/dispatches/{model}", rounds)
        ask_often(client, report, f"{kind}, {n} dispatches: by a prefix", f"/v1/dispatches/{model[:10]}", rounds)


def full_store(lab, postgres, report):
    n = report.pick(1_000_000, 20_000)
    local = Machine(lab, "full")
    model = make_model(lab, local)
    fill_sqlite(local, model, n)
    look_around(local, report, "SQLite", model, n)
    database, store = postgres.new()
    shared = Machine(lab, "fuller", store)
    model = make_model(lab, shared)
    fill_postgres(postgres, database, model, n)
    look_around(shared, report, "Postgres", model, n)
    claims(lab, postgres, report, database, store, n)
    return renewal(postgres, database)


def renewal(postgres, database, n=1000):
    """Seconds of Postgres to renew one claim, as it measures a statement that renews N."""
    said = postgres.ask(database, "EXPLAIN ANALYZE UPDATE cloister.dispatches SET lease_ms = lease_ms + 1 WHERE seq IN (SELECT "
                        f"seq FROM cloister.dispatches ORDER BY seq DESC LIMIT {n})")
    return float(re.search(r"Execution Time: ([0-9.]+) ms", said)[1]) / 1000 / n


def claims(lab, postgres, report, database, store, n):
    """As Postgres itself measures the statement."""
    rounds = report.pick(50, 5)
    postgres.ask(database, f"ALTER DATABASE {database} SET log_min_duration_statement = 0")
    front = Machine(lab, "asks", store)
    with front.service(), Machine(lab, "claims", store).worker():
        client = front.client()
        for _ in range(rounds):
            until_over_of(client, json.loads(client.ask("POST", "/v1/dispatches", {
                "agent": "nothing", "target": f"pool:{POOL}"}))["id"])
    text = (postgres.folder / "log").read_text(errors="replace")
    took = Samples(float(ms) for ms in re.findall(
        r"duration: ([0-9.]+) ms  execute [^:]*: WITH w AS MATERIALIZED \(SELECT id FROM dispatches WHERE target", text))
    if len(took) < rounds:
        raise Unmeasured("Postgres has not logged the claims")
    report.row(f"Postgres, {n} dispatches: claim", took.median, "ms", took.spread, bar="value <= 10")


@group("pool")
def pool(lab, report):
    postgres = Postgres(lab)
    try:
        total = report.pick(10_000, 80)
        alone = local_sum(lab, total)
        rate, costs = pooled(lab, postgres, total)
        report.row(f"pool: {total} over {WORKERS} workers", rate, "/s", None, f"{WORKERS} services", alone, "ratio >= 0.9")
        first_instruction(lab, postgres, report)
        shares = idle(lab, postgres, report)
        renewing = full_store(lab, postgres, report)
        workers = report.pick(100, 5)
        for name, value, unit in scale_model.rows(*costs, *(share / 100 / workers for share in shares), renewing):
            report.row(name, value, unit)
    finally:
        postgres.close()
