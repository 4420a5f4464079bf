"""Dispatches run on three machines while all of them are struck at random: workers, the service and Postgres are killed or
stopped, the wires between each two of them break or fall silent, S3 fails, and clocks jump.  No dispatch is lost, none runs more
often than it may, and nothing of what is recorded is missing.  `make crash` does so for long."""
import base64
import collections
import contextlib
import hashlib
import heapq
import itertools
import json
import os
import random
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import clocks
import dispatches
import pool_judge
import postgres_store
import s3_servers
from operators import as_one, wait_until
from ports import free_port
from service import Service
from wire import PortWire, PostgresWire

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
STRIKES = int(os.environ.get("CLOISTER_STRIKES", "12"))
SEED = int(os.environ.get("CLOISTER_SEED", str(random.SystemRandom().randrange(10**6))))
# What a run for long has beside: faults that last longer than a claim, and more of each.
IS_LONG = STRIKES > 100
MACHINES, SLOTS, RETRIES, LEASE = 3, 2, 2, 30
LONG = 240
# Seconds between two strikes and between two dispatches, on average.
STRIKE, PACE = 0.4, 1.0 if IS_LONG else 0.3
# A worker that cannot reach its service for a minute lets dispatches fail that need secrets.
LONGEST = {"postgres": LEASE + 3, "service": 10, "s3": 10}
SKEWS = -3000, -40, 0, 0, 40, 3000
KEPT = 900                              # timelines of ended cells are kept on each machine, at least
WEIGHTS = {"worker": 6, "stopped": 3, "late": 3, "service": 1, "postgres": 1, "cut": 4, "silent": 3, "s3": 3, "clock": 2}


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def postgres(operator):
    """One that the test may kill, and whose clock it may set."""
    own = postgres_store.Postgres(postgres_store.PROGRAMS[0], has_clock=True)
    operator.database = own.new()
    operator.env["CLOISTER_STORE"] = own.url(operator.database)
    yield own
    own.close()


class Marks:
    """Each run of an agent leaves one here, outside of all that is struck: {dispatch: [cell]}."""

    def __init__(self, secret):
        self.ran, self.real = collections.defaultdict(list), set()
        marks = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                _, id, cell = self.path.split("/")
                marks.ran[id].append(cell)
                if self.headers["X-Token"] == secret:
                    marks.real.add(cell)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *words):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def secret():
    return "sk-" + random.SystemRandom().randbytes(20).hex()


@pytest.fixture
def marks(secret):
    marks = Marks(secret)
    yield marks
    marks.close()


@pytest.fixture
def front(operator, tmp_path_factory):
    """What lies before S3, or None."""
    if s3_servers.missing("s3rver"):
        yield None
        return
    server = s3_servers.server_of("s3rver", tmp_path_factory)
    with s3_servers.front_of(server) as front:
        front.folder, front.prefix = server.folder, os.urandom(4).hex()
        operator.env |= {"AWS_ACCESS_KEY_ID": server.id, "AWS_SECRET_ACCESS_KEY": server.secret}
        yield front
    s3_servers.stop_all()


class Node:
    """A machine, and its wires to the others."""

    def __init__(self, machine, operator, postgres, front):
        self.machine, self.wires = machine, {"postgres": PostgresWire(postgres.folder)}
        machine.env["CLOISTER_STORE"] = postgres.url(operator.database).replace(str(postgres.folder),
                                                                                str(self.wires["postgres"].folder))
        if front is None:
            return
        self.wires["s3"] = PortWire(front.port)
        machine.env |= {k: v for k, v in operator.env.items() if k.startswith("AWS_")}
        machine.env["CLOISTER_BLOBS"] = (f"s3://{s3_servers.BUCKET}/{front.prefix}?region={s3_servers.REGION}&timeout=3"
                                         f"&endpoint=http://127.0.0.1:{self.wires['s3'].port}")

    def home(self):
        return (self.machine.base / "data/registry/home").read_text().strip()

    def mend(self):
        for wire in self.wires.values():
            wire.mend()

    def close(self):
        for wire in self.wires.values():
            wire.close()


class Fleet:
    """Three machines with a worker each, a service, and who strikes them."""

    def __init__(self, operator, postgres, machines, front):
        self.operator, self.postgres, self.front, self.rng = operator, postgres, front, random.Random(SEED)
        self.here = Node(operator, operator, postgres, front)
        self.nodes = [Node(machines(), operator, postgres, front) for _ in range(MACHINES)]
        self.struck, self.due, self.numbers = collections.Counter(), [], itertools.count()
        self.port, self.service, self.workers, self.stopped = free_port(), None, [None] * MACHINES, {}
        self.tokens, self.first, self.late, self.away = [], {}, 0, None
        self.took = collections.Counter()       # seconds, of each kind of strike

    def start(self):
        self.serve()
        for node in self.nodes:
            node.wires["service"] = PortWire(self.port)
            self.tokens.append(self.operator.cloister("worker", "token", "--address", f"127.0.0.1:{node.wires['service'].port}")
                               .ok().strip())
            if self.front is None:
                # The policy is there, as if through S3.
                node.machine.cloister("agent", "list").ok()
                node.machine.do("cp", "-r", self.operator.base / "data/registry/blobs", node.machine.base / "data/registry")
        for i in range(MACHINES):
            self.work(i, "--join", self.tokens[i], skew=0)
        for i, node in enumerate(self.nodes):
            wait_until(lambda node=node: "connected to the service" in self.said(node), f"worker {i} has joined")

    @staticmethod
    def said(node):
        return (node.machine.base / "said").read_text()

    def serve(self, skew=0):
        """One that cannot reach its database when it starts ends, and its machine starts it again."""
        self.here.mend()
        for last in (False, False, True):
            try:
                self.service = Service(self.operator, "--workers", f"127.0.0.1:{self.port}", env=clocks.shifted(skew))
                return
            except AssertionError as e:
                if last or "Postgres" not in str(e):
                    raise

    def work(self, i, *words, skew=None):
        """With a clock of its own: what is stored is that of another one."""
        machine = self.nodes[i].machine
        with (machine.base / "said").open("ab") as said:
            self.workers[i] = machine.spawn(machine.program, "worker", "--pool", "p", "--slots", str(SLOTS), *words, stderr=said,
                                            env=clocks.shifted(self.rng.choice(SKEWS) if skew is None else skew))

    @staticmethod
    def end(process):
        process.kill()
        process.wait()

    # ---- strikes

    def later(self, seconds, act, *words):
        heapq.heappush(self.due, (time.monotonic() + seconds, next(self.numbers), act, words))

    def pass_time(self, seconds):
        """Faults that are over end meanwhile."""
        end = time.monotonic() + seconds
        while self.due and self.due[0][0] <= end:
            time.sleep(max(0, self.due[0][0] - time.monotonic()))
            _, _, act, words = heapq.heappop(self.due)
            act(*words)
        time.sleep(max(0, end - time.monotonic()))

    def strike(self):
        self.pass_time(self.rng.expovariate(1 / STRIKE))
        what = self.rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        began = time.monotonic()
        self.struck[what] += bool(getattr(self, f"strike_{what}")())
        self.took[what] += time.monotonic() - began
        # One that could not reach the database for too long has ended, and its machine starts it again.
        for i, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.work(i)

    def strike_worker(self):
        """It is killed, and started again, at once or when its claims are over."""
        i = self.rng.choice([i for i in range(MACHINES) if i != self.away])
        self.stopped.pop(i, None)
        self.end(self.workers[i])
        if self.rng.random() < 0.3:
            time.sleep(self.rng.random())
        self.work(i)
        return True

    def strike_stopped(self):
        i = self.rng.randrange(MACHINES)
        if i in self.stopped:
            return False
        self.stopped[i] = self.workers[i]
        self.workers[i].send_signal(signal.SIGSTOP)
        self.later(self.rng.expovariate(1), self.go_on, i, self.workers[i], [])
        return True

    def go_on(self, i, worker, had):
        """HAD: the claims with which it was stopped.  It goes on only when they are not its own any more."""
        if self.stopped.get(i) is not worker:
            return                      # it was killed meanwhile
        if had:
            home = self.nodes[i].home()
            rows = {row["id"]: row for row in self.rows()}
            if any(rows[id]["home"] == home and rows[id]["state"] < 3 for id in had):
                self.later(1, self.go_on, i, worker, had)
                return
            self.late += len(had)
            self.away = None
            self.look()
        del self.stopped[i]
        worker.send_signal(signal.SIGCONT)

    def strike_late(self):
        """A worker stops with work in its hands, and comes back when others have it."""
        if not IS_LONG or self.away is not None:
            return False
        rows = self.rows()
        had = {i: [row["id"] for row in rows if row["home"] == node.home() and row["state"] < 3] for i, node in enumerate(self.nodes)}
        some = [i for i, ids in had.items() if ids and i not in self.stopped]
        if not some:
            return False
        i = self.away = self.rng.choice(some)
        worker = self.stopped[i] = self.workers[i]
        worker.send_signal(signal.SIGSTOP)
        self.later(LEASE + 2, self.go_on, i, worker, had[i])
        return True

    def strike_service(self):
        self.end(self.service.process)
        self.serve(self.rng.choice(SKEWS))
        return True

    def strike_postgres(self):
        self.postgres.kill()
        self.postgres.start()
        return True

    def strike_wire(self, how):
        node = self.rng.choice([self.here, *self.nodes])
        to = self.rng.choice([*node.wires])
        is_long = IS_LONG and self.rng.random() < 0.05
        getattr(node.wires[to], how)()
        self.later(LONGEST[to] if is_long else self.rng.expovariate(2), node.wires[to].mend)
        self.struck[f"{'service' if node is self.here else 'worker'}-{to}"] += 1
        return True

    def strike_cut(self):
        return self.strike_wire("cut")

    def strike_silent(self):
        return self.strike_wire("silence")

    def strike_clock(self):
        """The database's jumps, and with it the end of every claim."""
        if clocks.LIBRARY is None:
            return False
        self.postgres.clock.set(self.rng.choice([-LEASE, -5, 0, 5, LEASE + 5]))
        return True

    def strike_s3(self):
        """Some of the next requests fail."""
        act = self.rng.choice([s3_servers.answers(500, s3_servers.error("InternalError")), s3_servers.cut(self.rng.random()),
                               s3_servers.answers(503, s3_servers.error("SlowDown")), self.slowly])
        if self.front is not None:
            self.front.plans.append(s3_servers.times(self.rng.randrange(1, 6), self.rng.choice(["GET", "PUT"]), "", act))
        return self.front is not None

    def slowly(self, handler, request):
        time.sleep(self.rng.random())
        return False

    # ---- what there is

    def rows(self):
        out = self.postgres.run("psql", "-h", self.postgres.folder, "-U", "cloister", "-d", self.operator.database, "-X", "-A", "-t",
                                "-c", "SELECT row_to_json(d) FROM cloister.dispatches d")
        return [json.loads(line) for line in out.splitlines()]

    def look(self):
        """Whatever is over stays so."""
        rows = self.rows()
        for row in rows:
            if pool_judge.state_of(row) in pool_judge.OVER:
                self.first.setdefault(row["id"], pool_judge.end_of(row))
        return rows

    def calm(self):
        """Nothing is struck any more."""
        while self.due:
            _, _, act, words = heapq.heappop(self.due)
            act(*words)
            if act == self.go_on and self.due:
                self.pass_time(0.1)
        if self.front is not None:
            self.front.plans.clear()

    def close(self):
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            assert worker.wait(LONG) == 0
        assert self.service.stop() == 0, self.service.log()


class Asker(threading.Thread):
    """Asks for dispatches, again and again."""

    def __init__(self, operator):
        super().__init__(daemon=True)
        self.operator, self.ids, self.over, self.refused = operator, {}, threading.Event(), collections.Counter()
        self.failure = None

    def ask(self, number):
        """A dispatch, asked for until somebody has it: its key makes it one."""
        words = ["--retries", str(RETRIES)] if number % 2 else []
        end = time.monotonic() + LONG
        while True:
            said = dispatches.dispatch(self.operator, "--detach", "--target", "pool:p", "--key", f"k{number}", *words, "marker")
            if said.status == 0:
                return said.out.strip()
            self.refused[said.err.strip()] += 1
            assert any(word in said.err for word in ("Postgres", "busy", "S3", "s3://")) and time.monotonic() < end, said

    def run(self):
        try:
            for number in itertools.count():
                self.ids[number] = id = self.ask(number)
                # Asked for again, by the same key.
                if number % 5 == 0:
                    assert self.ask(number) == id
                if self.over.wait(PACE):
                    return
        except BaseException as e:
            self.failure = e


def blob(fleet, hash):
    """A file by its hash, which its contents must have: S3 keeps it, or the machine that wrote it."""
    name = f"blobs/{hash[:2]}/{hash[2:]}"
    paths = ([fleet.front.folder / s3_servers.BUCKET / fleet.front.prefix / f"{name}._S3rver_object"] if fleet.front else
             [node.machine.base / "data/registry" / name for node in fleet.nodes])
    data = next((path.read_bytes() for path in paths if path.exists()), b"")
    return data.decode() if hashlib.sha256(data).hexdigest() == hash else None


def outputs(operator, fleet, rows):
    """Through S3 itself; the command's words for some."""
    found = {}
    for row in rows:
        stdout = json.loads(row["result"] or "{}").get("stdout")
        if stdout:
            found[row["id"]] = blob(fleet, stdout["hash"].removeprefix("sha256:"))
    for id in [*found][:5] if fleet.front else []:
        assert operator.cloister("dispatches", "output", id).ok() == found[id]
    return found


def owed(fleet):
    """Timelines that workers have not sent to their end, of dispatches that they finished."""
    rows = {row["id"]: row for row in fleet.rows()}
    found = []
    for node in fleet.nodes:
        for note in (node.machine.base / "data/owed").glob("*.*"):
            with contextlib.suppress(FileNotFoundError):
                row = rows.get(note.read_text().strip())
                if row and pool_judge.state_of(row) == "finished" and note.name.endswith(row["cell"]):
                    found.append(note.name)
    return found


def gather(operator, fleet, marks, asker, secret):
    """Everything that is there at the end."""
    def over():
        noted = {one["dispatch"] for one in pool_judge.acts(operator)["dispatch.ended"]}
        return [row for row in fleet.look() if row["state"] < 3 or row["id"] not in noted]
    try:
        wait_until(lambda: not over(), "all are over, and their ends are recorded", LONG)
        wait_until(lambda: not owed(fleet), "nothing is owed", LONG)
    except AssertionError as e:
        names = "id", "state", "reason", "home", "claims", "lease_ms", "not_before_ms", "attempts"
        waiting = [({name: row[name] for name in names}, [e["event"] for e in pool_judge.events_of(operator, row["id"])]) for row in over()]
        logs = [fleet.said(node)[-1000:] for node in fleet.nodes]
        raise AssertionError(f"{waiting}, {owed(fleet)}, {logs}, {fleet.service.log()[-1000:]}") from e
    ids = {*asker.ids.values()}
    rows = fleet.rows()
    fleet.close()
    machines = [node.machine for node in fleet.nodes]
    return pool_judge.Evidence(
        asked=dict(asker.ids), rows={row["id"]: row for row in rows}, first=fleet.first,
        events={id: pool_judge.events_of(operator, id) for id in ids}, outputs=outputs(operator, fleet, rows),
        ran=dict(marks.ran), real=marks.real, acts=pool_judge.acts(operator), own=pool_judge.timelines(*machines),
        sent=pool_judge.timelines(operator), owed=[],
        wrong=[line for machine in (operator, *machines) for line in pool_judge.not_sound(machine)],
        left=[cell["cell"] for machine in (operator, *machines) for cell in json.loads(machine.cloister("ps", "--json").ok() or "[]")],
        secrets=pool_judge.files_with([secret, *(token.split("_")[1] for token in fleet.tokens)], operator.base,
                                      fleet.postgres.folder, *([fleet.front.folder] if fleet.front else [])))


@pytest.fixture
def fleet(operator, postgres, machines, front):
    fleet = Fleet(operator, postgres, machines, front)
    yield fleet
    for node in (fleet.here, *fleet.nodes):
        node.close()


@pytest.mark.parametrize("form", range(5))
def test_a_secret_is_found_however_it_is_written(tmp_path, secret, form):
    """Among other bytes: as it is, in hex, and in base64 at each of the three places where it can begin there."""
    data = secret.encode()
    texts = [data, data.hex().encode(), *(base64.b64encode(b"x" * n + data + b"rest") for n in range(3))]
    (tmp_path / "other").write_bytes(b"\0" + os.urandom(1000))
    (tmp_path / "file").write_bytes(b"\0before" + texts[form] + b"after")
    assert pool_judge.files_with([secret], tmp_path) == [str(tmp_path / "file")]


@as_one
def test_struck_at_random(operator, fleet, marks, secret):
    operator.cloister("secret", "add", "TOKEN", "--host", f"host.cloister.internal:{marks.port}", "--in", "header:x-token", "--plain",
                      input=secret).ok()
    dispatches.policy(operator, "mark", {"allow": f"host.cloister.internal:{marks.port}"})
    dispatches.agent(operator, "marker", f'curl -sS -H "X-Token: $TOKEN" http://host.cloister.internal:{marks.port}/'
                     "$CLOISTER_DISPATCH/$CLOISTER_CELL || exit 9; echo $CLOISTER_CELL; sleep 0.2; echo end; exit 3",
                     policy="mark", secrets=["TOKEN"])
    asker = Asker(operator)
    # The first request stores the policy in force, which workers without S3 get by a copy.
    asker.ask(0)
    fleet.start()
    began = time.monotonic()
    asker.start()
    try:
        for number in range(STRIKES):
            fleet.strike()
            assert asker.failure is None, asker.failure
            if number % 10 == 0:
                fleet.look()
            if number % 50 == 49:
                print(f"{number + 1} strikes, {len(asker.ids)} dispatches, {time.monotonic() - began:.0f} s", flush=True)
    finally:
        asker.over.set()
    fleet.calm()
    asker.join(LONG)
    assert asker.failure is None, asker.failure
    struck = time.monotonic() - began
    e = gather(operator, fleet, marks, asker, secret)
    print(f"seed {SEED}: {len(e.asked)} dispatches, {collections.Counter(pool_judge.state_of(row) for row in e.rows.values())}, "
          f"{sum(map(len, e.ran.values()))} runs, struck in {struck:.0f} s: {dict(fleet.struck)}; {fleet.late} claims were late, "
          f"{len(e.sent)} timelines came; s: { {k: round(v) for k, v in fleet.took.items()} }; {time.monotonic() - began:.0f} s in all")
    print("refused: ", dict(asker.refused.most_common(8)))
    found = list(pool_judge.complaints(e, RETRIES))
    print(*found, sep="\n")
    assert not found, SEED
    # Each of these could have been seen.
    for what, evidence, words in pool_judge.tampered(e):
        assert any(words in text for text in pool_judge.complaints(evidence, RETRIES)), what
