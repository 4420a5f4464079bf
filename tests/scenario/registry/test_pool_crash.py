"""Workers, the service and Postgres are killed at random while dispatches run on three machines, their connections to Postgres
break or fall silent, and S3 fails: no dispatch is lost, and none runs more often than it may.  `make crash` does so for long."""
import collections
import json
import os
import random
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import dispatches
import postgres_store
import s3_servers
from operators import wait_until
from service import Service
from wire import Wire

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
STRIKES = int(os.environ.get("CLOISTER_STRIKES", "6"))
SEED = int(os.environ.get("CLOISTER_SEED", str(random.SystemRandom().randrange(10**6))))
OVER = ("finished", "failed", "cancelled", "timed_out")
MACHINES, SLOTS, RETRIES, LEASE = 3, 2, 2, 30
LONG = 240
PACE = 0.2


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def postgres(operator):
    """One that the test may kill."""
    own = postgres_store.Postgres(postgres_store.PROGRAMS[0])
    operator.database = own.new()
    operator.env["CLOISTER_STORE"] = own.url(operator.database)
    yield own
    own.close()


@pytest.fixture
def marks():
    """Each run of an agent leaves one here, outside of all that is killed: {dispatch: [cell]}."""
    found = collections.defaultdict(list)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            _, id, cell = self.path.split("/")
            found[id].append(cell)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.server_port, found
    server.shutdown()
    server.server_close()


@pytest.fixture
def front(operator, tmp_path_factory):
    """What lies before S3, for workers; the operator reaches it directly."""
    if s3_servers.missing("s3rver"):
        yield None
        return
    server = s3_servers.server_of("s3rver", tmp_path_factory)
    with s3_servers.front_of(server) as front:
        operator.env |= {"CLOISTER_BLOBS": f"s3://{s3_servers.BUCKET}/{os.urandom(4).hex()}?region={s3_servers.REGION}&timeout=3"
                                           f"&endpoint=http://127.0.0.1:{server.port}",
                         "AWS_ACCESS_KEY_ID": server.id, "AWS_SECRET_ACCESS_KEY": server.secret}
        yield front
    s3_servers.stop_all()


class Fleet:
    """Three machines with a worker each, a service, and who strikes them."""

    def __init__(self, operator, postgres, machines, front):
        self.operator, self.postgres, self.front, self.rng = operator, postgres, front, random.Random(SEED)
        self.machines, self.wires = [machines() for _ in range(MACHINES)], [Wire(postgres.folder) for _ in range(MACHINES)]
        for machine, wire in zip(self.machines, self.wires):
            machine.env["CLOISTER_STORE"] = operator.env["CLOISTER_STORE"].replace(str(postgres.folder), str(wire.folder))
            if front is not None:
                blobs = operator.env["CLOISTER_BLOBS"].rpartition(":")[0] + f":{front.port}"
                machine.env |= {k: v for k, v in operator.env.items() if k.startswith("AWS_")} | {"CLOISTER_BLOBS": blobs}
                continue
            # The policy is there, as if through S3.
            machine.cloister("agent", "list").ok()
            machine.do("cp", "-r", operator.base / "data/registry/blobs", machine.base / "data/registry")
        self.workers = [self.work(i) for i in range(MACHINES)]
        self.service = Service(operator)
        self.struck = collections.Counter()

    def work(self, i):
        return self.machines[i].spawn(self.operator.program, "worker", "--pool", "p", "--slots", str(SLOTS))

    def strike(self):
        """A worker that is killed is started again; one that is stopped goes on, perhaps when its claims are over."""
        time.sleep(self.rng.expovariate(3))
        what = self.rng.choices(["worker", "stopped", "service", "postgres", "cut", "silent", "s3"], [6, 2, 1, 1, 2, 2, 3])[0]
        i = self.rng.randrange(MACHINES)
        # Too late once in a while, where there is time for it.
        pause = LEASE + 2 if STRIKES > 100 and self.rng.random() < 0.1 else self.rng.random()
        self.struck[what] += 1
        if what == "worker":
            self.workers[i].kill()
            self.workers[i].wait()
            time.sleep(self.rng.expovariate(3))
            self.workers[i] = self.work(i)
        elif what == "stopped":
            self.workers[i].send_signal(signal.SIGSTOP)
            time.sleep(pause)
            self.workers[i].send_signal(signal.SIGCONT)
        elif what in ("cut", "silent"):
            self.wires[i].cut() if what == "cut" else self.wires[i].silence()
            time.sleep(pause)
            self.wires[i].mend()
        elif what == "s3":
            self.fail_s3()
        elif what == "service":
            self.service.stop(signal.SIGKILL)
            self.service = Service(self.operator)
        else:
            self.postgres.kill()
            self.postgres.start()
        # One that could not reach the database for too long has ended, and its machine starts it again.
        for i, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.workers[i] = self.work(i)

    def fail_s3(self):
        """Some of the next requests fail."""
        act = self.rng.choice([s3_servers.answers(500, s3_servers.error("InternalError")), s3_servers.cut(self.rng.random()),
                               s3_servers.answers(503, s3_servers.error("SlowDown")), self.slowly])
        if self.front is not None:
            self.front.plans.append(s3_servers.times(self.rng.randrange(1, 6), self.rng.choice(["GET", "PUT"]), "", act))

    def slowly(self, handler, request):
        time.sleep(self.rng.random())
        return False

    def close(self):
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            assert worker.wait(LONG) == 0
        self.service.stop()
        for wire in self.wires:
            wire.close()


def ask(operator, number):
    """A dispatch, asked for until somebody has it: its key makes it one."""
    words = ["--retries", str(RETRIES)] if number % 2 else []
    end = time.monotonic() + LONG
    while True:
        said = dispatches.dispatch(operator, "--detach", "--target", "pool:p", "--key", f"k{number}", *words, "marker")
        if said.status == 0:
            return said.out.strip()
        assert ("Postgres" in said.err or "busy" in said.err) and time.monotonic() < end, said


def complaints_about(operator, number, id, ran, has_s3):
    d, told = dispatches.show(operator, id), dispatches.events(operator, id)
    may = 1 + RETRIES if number % 2 else 1
    if len(ran) > may or len(set(ran)) != len(ran):
        yield f"ran {len(ran)} times, in {ran}"
    if d["state"] == "finished":
        out = "".join(e["text"] for e in told if e["event"] == "agent.output")
        if not ran or d["exit_code"] != 3 or not out.endswith("out\nend\n"):
            yield f"finished with {d['exit_code']}, {out!r} and {len(ran)} runs"
        if has_s3 and (kept := operator.cloister("dispatches", "output", id)).out != "out\nend\n":
            yield f"its output is {kept}"
    elif "lost" not in d["reason"]:
        yield "failed"
    if [e["n"] for e in told] != list(range(1, len(told) + 1)):
        yield f"events have gaps: {[e['n'] for e in told]}"
    ends = [e for e in told if e["event"] == "dispatch.finished"]
    if len(ends) != 1 or told[-1] != ends[0] or ends[0]["state"] != d["state"]:
        yield f"ended as {ends}"


def test_struck_at_random(operator, postgres, machines, marks, front):
    port, ran = marks
    dispatches.policy(operator, "mark", {"allow": f"host.cloister.internal:{port}"})
    dispatches.agent(operator, "marker", f"curl -sS http://host.cloister.internal:{port}/$CLOISTER_DISPATCH/$CLOISTER_CELL || exit 9;"
                     "echo out; sleep 0.2; echo end; exit 3", policy="mark")
    ids, over = {0: ask(operator, 0)}, threading.Event()
    fleet = Fleet(operator, postgres, machines, front)

    def asking():
        number = 0
        while not over.wait(PACE):
            number += 1
            id = ask(operator, number)
            # Asked for again, by the same key.
            if number % 5 == 0:
                assert ask(operator, number) == id
            ids[number] = id
    asker = threading.Thread(target=asking, daemon=True)
    asker.start()
    try:
        for _ in range(STRIKES):
            fleet.strike()
    finally:
        over.set()
        asker.join(LONG)
    found = {id: wait_until(lambda: (d := dispatches.show(operator, id))["state"] in OVER and d, f"{id} is over", LONG)
             for id in ids.values()}
    complaints = [f"{number} {id} ({found[id]['state']}: {found[id]['reason']}): {text}" for number, id in ids.items()
                  for text in complaints_about(operator, number, id, ran[id], front is not None)]
    fleet.close()
    print(f"seed {SEED}: {len(ids)} dispatches, {collections.Counter(d['state'] for d in found.values())}, struck {fleet.struck}")
    assert not complaints, (SEED, complaints)
    assert len({*ids.values()}) == len(ids) and set(ran) <= set(ids.values())
    for machine in (operator, *fleet.machines):
        assert json.loads(machine.cloister("ps", "--json").ok() or "[]") == []
        machine.cloister("audit", "verify", "--all").ok()
