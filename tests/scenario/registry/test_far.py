"""Cells of workers, steered on the machine of the service that asked for them, with the commands for its own cells."""
import json
import os
import shutil
import signal
import struct
import subprocess
import threading
from pathlib import Path

import pytest

import dispatches
import postgres_store
from operators import as_one, read_until, wait_until
from test_lend import CLOSE, DATA, OPEN, Played, home_of, set_row, text
from test_link import Worker, joined, port_of
from service import Service

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
CELLS, FETCH = 2, 4                       # talks of a worker
HAS, HAD, MESSAGE, PART = 1, 3, 1, 1    # their messages
IS, REFUSED, SAYS, DONE = 2, 15, 16, 14 # of control_channel.h
FOREVER = "while :; do sleep 0.05; done"


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def service(operator):
    service = Service(operator, "--workers", "127.0.0.1:0")
    yield service
    if service.process.poll() is None:
        service.stop()


def ps(operator):
    return {c["cell"]: c for c in json.loads(operator.cloister("ps", "--json").ok())}


def begun(operator, id):
    """The same, once its agent has said something."""
    wait_until(lambda: any(e["event"] == "agent.output" for e in dispatches.events(operator, id)), "its agent has begun")
    return far_cell(operator, id)


def far_cell(operator, id):
    """The cell of dispatch ID, as the operator's machine sees it."""
    def seen():
        cell = dispatches.show(operator, id)["cell"]
        return cell in ps(operator) and ps(operator)[cell]["state"] == "running" and cell
    return wait_until(seen, "its cell is there")


@pytest.fixture
def far(operator, machines, service):
    dispatches.agent(operator, "stays", "echo begun; " + FOREVER)
    machine = machines()
    worker = joined(operator, machine)
    id = dispatches.detach(operator, "--target", "pool:p", "stays")
    yield machine, worker, id, begun(operator, id)
    operator.cloister("dispatches", "cancel", "--time", "0s", id)
    dispatches.await_over(operator, id)
    assert worker.end() == 0
    wait_until(lambda: not ps(operator), "no entry is left")


def test_it_is_there_as_any_other(operator, far):
    machine, _, _, cell = far
    seen, own = ps(operator)[cell], ps(machine)[cell]
    assert seen["machine"] and own["machine"] is None
    # Numbers of processes are those of the other machine.
    assert own["supervisor"] and seen["supervisor"] is None and seen["init"] is None and seen["agent"] is None
    assert {k: seen[k] for k in ("command", "started")} == {k: own[k] for k in ("command", "started")}
    assert seen["machine"] in operator.cloister("ps").ok()


def test_it_is_named_by_its_dispatch(operator, far):
    """By the whole id or the beginning of it, while it runs and afterwards."""
    machine, _, id, cell = far
    for word in (id, id[:4]):
        assert operator.cloister("exec", word, "--", "echo", "said").ok() == "said\n"
    assert cell in operator.cloister("ttl", id[:8], "1h").ok()
    wait_until(lambda: operator.cloister("logs", id).out == "begun\n", "its output is here")
    operator.cloister("ttl", id[:3], "1h").sentence("write 4 letters at least")
    operator.cloister("ttl", id + "a", "1h").sentence("there is no cell")
    operator.cloister("kill", id).ok()
    dispatches.await_over(operator, id)
    wait_until(lambda: is_proved(operator, machine, cell), "its timeline is here")
    assert operator.cloister("audit", "show", id).out == operator.cloister("audit", "show", cell).out
    assert operator.cloister("logs", id[:6]).ok() == operator.cloister("logs", cell).ok() == "begun\n"


def test_exec(operator, far):
    _, _, _, cell = far
    done = operator.cloister("exec", cell, "--", "sh", "-c", "cat; echo err >&2; exit 7", input="said\n")
    assert (done.status, done.out, done.err) == (7, "said\n", "err\n")
    done = operator.cloister("exec", cell, "--", "sh", "-c", "echo again >/dev/stdout")
    assert done.ok() == "again\n"
    # More than a window of a lane, in both directions.
    much = os.urandom(1_500_000)
    done = operator.cloister("exec", cell, "--", "cat", input=much, binary=True)
    assert done.status == 0 and done.out == much
    assert operator.cloister("exec", cell, "--", "head", "-c", "1", input="ab" * 500_000).out == "a"
    assert operator.cloister("exec", cell, "--", "no-such-program").status == 127


def test_freeze_and_thaw(operator, far):
    machine, _, _, cell = far
    operator.cloister("freeze", cell).ok()
    assert ps(operator)[cell]["state"] == ps(machine)[cell]["state"] == "frozen"
    operator.cloister("thaw", cell).ok()
    assert ps(operator)[cell]["state"] == ps(machine)[cell]["state"] == "running"


RULES = [{"ask": "ask.example.com", "secrets": "allow"}, {"ask": "late.example.com", "timeout": "1s"},
         {"allow": "open.example.com"}]


@pytest.fixture
def ruled(operator, machines, service):
    """The same, with a policy, a budget and a secret.  Both machines have its policy, as if by S3."""
    operator.cloister("secret", "add", "KEY", "--host", "ask.example.com", input="a-secret-of-some-length").ok()
    dispatches.policy(operator, "web", *RULES, budgets=[{"per": "cell", "requests": 5}])
    dispatches.agent(operator, "ruled", "echo begun; " + FOREVER, policy="web", secrets=["KEY"])
    machine = machines()
    id = dispatches.detach(operator, "--target", "pool:p", "ruled")
    copy_blobs(operator, machine)
    worker = joined(operator, machine)
    yield machine, id, begun(operator, id)
    operator.cloister("dispatches", "cancel", "--time", "0s", id)
    dispatches.await_over(operator, id)
    assert worker.end() == 0


def copy_blobs(operator, machine):
    machine.cloister("agent", "list").ok()
    shutil.copytree(operator.base / "data/registry/blobs", machine.base / "data/registry/blobs", dirs_exist_ok=True)
    for path in [machine.base / "data/registry/blobs", *(machine.base / "data/registry/blobs").rglob("*")]:
        machine.own(path)


def test_rules_approvals_budgets_and_secrets(operator, ruled):
    machine, _, cell = ruled
    by = f"uid {operator.uid}"

    def asks(n):
        operator.spawn(operator.program, "exec", cell, "--", "curl", "-sS", "-m", "20", f"http://ask.example.com/{n}")
        wait_until(lambda: f"{cell}-{n}" in operator.cloister("approvals").ok(), "it asks")
        return f"{cell}-{n}"
    first, second = asks(1), asks(2)
    assert ps(operator)[cell]["state"] == "waiting" and ps(operator)[cell]["waiting"] == 2
    operator.cloister("approve", first).ok()
    operator.cloister("refuse", second, "--reason", "not today").ok()
    operator.cloister("deny", cell, "open.example.com").ok()
    assert "open.example.com" in operator.cloister("policy", "show", cell).ok()
    assert operator.cloister("policy", "show", cell).ok() == machine.cloister("policy", "show", cell).ok()
    operator.cloister("allow", cell, "GET docs.example.com", "--why", "to read").ok()
    operator.cloister("budget", cell, "--raise", "cell", "requests=+4").ok()
    assert operator.cloister("budget", cell).ok() == machine.cloister("budget", cell).ok()
    operator.cloister("ttl", cell, "1h").ok()
    operator.cloister("rotate", cell, "KEY").ok()
    operator.cloister("revoke", cell, "KEY").ok()
    done = operator.cloister("secret", "list", "--cell", cell, "--json").ok()
    assert done == machine.cloister("secret", "list", "--cell", cell, "--json").ok() and '"revoked":true' in done.replace(" ", "")
    # Each is recorded there, with who asked.
    acts = [e for line in machine.cloister("audit", "show", "--operator").ok().splitlines()
            if (e := json.loads(line)["event"]).get("cell") == cell and "by" in e]
    assert [e["type"] for e in acts] == ["approval.approve", "approval.refuse", "cell.deny", "cell.allow", "cell.budget",
                                         "cell.ttl", "cell.rotate", "cell.revoke"] and {e["by"] for e in acts} == {by}


@as_one
def test_asks_while_the_service_is_away(operator, ruled, service):
    """They wait, and time out, as on any machine; a service that comes back has them again."""
    machine, _, cell = ruled
    port = port_of(service)
    service.stop(signal.SIGKILL)
    asks = machine.spawn(machine.program, "exec", cell, "--", "curl", "-sS", "-m", "60", "http://ask.example.com/")
    wait_until(lambda: f"{cell}-1" in machine.cloister("approvals").ok(), "it asks")
    said = machine.cloister("exec", cell, "--", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "http://late.example.com/")
    assert said.out == "403", said
    assert f"{cell}-1" in machine.cloister("approvals").ok() and asks.poll() is None
    again = Service(operator, "--workers", f"127.0.0.1:{port}")
    wait_until(lambda: f"{cell}-1" in operator.cloister("approvals").out, "it is here again")
    operator.cloister("refuse", f"{cell}-1", "--reason", "too late").ok()
    assert asks.wait(60) == 0
    told = [json.loads(line) for line in machine.cloister("events", "--json", cell).ok().splitlines()]
    assert any("too late" in json.dumps(e) and "ask.example.com" in json.dumps(e) for e in told)
    operator.cloister("kill", cell).ok()
    again.stop()


def test_kill(operator, far):
    machine, _, id, cell = far
    operator.cloister("kill", cell).ok()
    assert ps(machine) == {}
    over = dispatches.await_over(operator, id)
    assert over["state"] in ("failed", "cancelled") and not ps(operator)


def records(machine, cell):
    return machine.cloister("audit", "show", cell).ok().splitlines()


def is_proved(operator, machine, cell):
    """Whether all that the worker has is on the service's machine, which proves it."""
    done = operator.cloister("audit", "verify", cell)
    return done.status == 0 and records(operator, cell) == records(machine, cell)


def test_its_timeline_is_here_too(operator, far):
    machine, _, id, cell = far
    wait_until(lambda: operator.cloister("events", cell).status == 0, "it has begun")
    follows = operator.spawn(operator.program, "events", "-f", "--json", cell, stdout=subprocess.PIPE)
    operator.cloister("exec", cell, "--", "true").ok()
    read_until(follows.stdout.fileno(), b'"exec"')
    wait_until(lambda: len(records(machine, cell)) > 2 and
               operator.cloister("audit", "show", cell).out == machine.cloister("audit", "show", cell).out, "it is copied")

    def kinds(who):
        return [json.loads(line)["type"] for line in who.cloister("events", "--json", cell).ok().splitlines()]
    wait_until(lambda: "exec" in (here := kinds(operator)) and here == kinds(machine), "its events are the same")
    operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    dispatches.await_over(operator, id)
    wait_until(lambda: is_proved(operator, machine, cell), "all of it is here")
    assert not list((machine.base / "data/owed").iterdir())
    assert operator.cloister("audit", "verify").status == 0
    # What somebody changes here later shows.
    path, = (operator.state / "ended").glob(f"{cell}.*/events.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"true"', b'"rm"', 1) if b'"true"' in path.read_bytes() else path.read_bytes()[:-9])
    assert operator.cloister("audit", "verify", cell).status != 0


@as_one
def test_its_policy_is_here_too(operator, ruled):
    """`audit verify` compares it with the timeline, which names it."""
    machine, id, cell = ruled
    operator.cloister("exec", cell, "--", "curl", "-sS", "-m", "5", "http://open.example.com/")
    operator.cloister("kill", cell).ok()
    dispatches.await_over(operator, id)
    wait_until(lambda: list((operator.state / "ended").glob(f"{cell}.*/kept")), "all of it is here")
    there, = [*machine.state.glob(f"{cell}.*/policy"), *(machine.state / "ended").glob(f"{cell}.*/policy")]
    here, = (operator.state / "ended").glob(f"{cell}.*/policy")
    assert here.read_bytes() == there.read_bytes()
    operator.cloister("audit", "verify", cell).ok()
    here.unlink()
    assert "the policy is gone" in operator.cloister("audit", "verify", cell).out


@as_one
def test_its_output_is_here_too(operator, machines, service):
    dispatches.agent(operator, "talks", "mkfifo /tmp/go; echo begun; echo wrong >&2; cat /tmp/go; head -c 3000000 /dev/zero | "
                     "tr '\\0' x; echo last; " + FOREVER)
    dispatches.agent(operator, "mute", FOREVER)
    machine = machines()
    worker = joined(operator, machine)
    id, mute = (dispatches.detach(operator, "--target", "pool:p", name) for name in ("talks", "mute"))
    cell, quiet = begun(operator, id), far_cell(operator, mute)
    wait_until(lambda: operator.cloister("logs", cell).out == "begun\n", "it is here")
    assert operator.cloister("logs", cell).err == "wrong\n"
    wait_until(lambda: operator.cloister("logs", quiet).status == 0, "there is no output yet")
    assert operator.cloister("logs", quiet).out == ""
    with open(operator.base / "followed", "wb") as out:
        follows = operator.spawn(operator.program, "logs", "-f", cell, stdout=out)
    operator.cloister("exec", cell, "--", "sh", "-c", "echo go >/tmp/go").ok()
    wait_until(lambda: (operator.base / "followed").read_bytes().endswith(b"last\n"), "it follows")
    operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    assert follows.wait(60) == 0
    whole = b"begun\ngo\n" + b"x" * 3_000_000 + b"last\n"
    assert (operator.base / "followed").read_bytes() == whole
    assert operator.cloister("logs", cell).out.encode() == whole
    shown = operator.cloister("replay", cell).ok()
    assert "begun" in shown and "wrong" in shown and "last" in shown
    operator.cloister("dispatches", "cancel", "--time", "0s", mute).ok()
    dispatches.await_over(operator, id)
    dispatches.await_over(operator, mute)
    assert worker.end() == 0


@as_one
def test_a_timeline_that_was_removed_is_not_asked_for_for_ever(operator, machines, service):
    dispatches.agent(operator, "short", "true")
    machine = machines()
    worker, port = joined(operator, machine), port_of(service)
    service.stop()
    missed = dispatches.await_over(operator, dispatches.detach(operator, "--target", "pool:p", "short"))["cell"]
    assert [f.name.split(".")[-1] for f in (machine.base / "data/owed").iterdir()] == [missed]
    for entry in (machine.state / "ended").glob(f"{missed}.*"):
        shutil.rmtree(entry)
    again = Service(operator, "--workers", f"127.0.0.1:{port}")
    worker.says("is not there any more: its service does not get it")
    wait_until(lambda: not list((machine.base / "data/owed").iterdir()), "it is not owed any more")
    assert worker.end() == 0
    again.stop()


@as_one
def test_records_are_delivered_later(operator, machines, service):
    """The service dies while a cell runs; another cell begins and ends meanwhile."""
    dispatches.agent(operator, "stays", FOREVER)
    dispatches.agent(operator, "short", "true")
    machine = machines()
    worker, port = joined(operator, machine), port_of(service)
    id = dispatches.detach(operator, "--target", "pool:p", "stays")
    cell = far_cell(operator, id)
    wait_until(lambda: len(records(operator, cell)) > 1, "it has begun")
    service.stop(signal.SIGKILL)
    for _ in range(20):
        machine.cloister("exec", cell, "--", "true").ok()
    short = dispatches.detach(operator, "--target", "pool:p", "short")
    missed = dispatches.await_over(operator, short)["cell"]
    assert operator.cloister("audit", "show", missed).status != 0
    worker.end(signal.SIGKILL)
    worker = Worker(machine)
    again = Service(operator, "--workers", f"127.0.0.1:{port}")
    wait_until(lambda: operator.cloister("audit", "show", missed).status == 0 and is_proved(operator, machine, missed),
               "the one that was missed is here")
    wait_until(lambda: operator.cloister("audit", "show", cell).out == machine.cloister("audit", "show", cell).out,
               "the other goes on")
    operator.cloister("kill", cell).ok()
    dispatches.await_over(operator, id)
    wait_until(lambda: is_proved(operator, machine, cell), "all of it is here")
    numbers = [json.loads(line)["n"] for line in records(operator, cell)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 20
    assert operator.cloister("audit", "verify").status == 0
    assert not list((machine.base / "data/owed").iterdir()) and worker.end() == 0
    again.stop()


@as_one
def test_records_of_a_claim_that_was_lost(operator, machines, service):
    """Its worker removes what it has of the dispatch, and still owes the timeline; nobody else can say that it had the cell."""
    dispatches.agent(operator, "stays", FOREVER)
    machine, thief = machines(), machines()
    worker, port = joined(operator, machine), port_of(service)
    assert joined(operator, thief).end() == 0
    id = dispatches.detach(operator, "--target", "pool:p", "stays")
    cell = far_cell(operator, id)
    service.stop(signal.SIGKILL)
    for _ in range(5):
        machine.cloister("exec", cell, "--", "true").ok()
    set_row(operator, id, f"home = 'another', cell = 'zyxwvuts', lease_ms = {2 ** 60}")
    wait_until(lambda: not ps(machine), "its cell is killed")
    wait_until(lambda: not (machine.base / "data/dispatches" / id).exists(), "its folder is removed")
    assert len(records(machine, cell)) > 5
    again = Service(operator, "--workers", f"127.0.0.1:{port}")
    wait_until(lambda: is_proved(operator, machine, cell), "all of it is here")
    wait_until(lambda: not list((machine.base / "data/owed").iterdir()), "nothing is owed")
    assert cell not in ps(operator)
    # Neither the other worker's cell nor this one's is a third one's.
    hostile = Hostile(thief)
    hostile.had(id, "zyxwvuts")
    hostile.had(id, cell)
    assert again.get("/v1/cells").status == 200
    hostile.close()
    assert not list((operator.state / "ended").glob("zyxwvuts.*")) and is_proved(operator, machine, cell)
    set_row(operator, id, "state = 4, ended_ms = 1")
    assert worker.end() == 0
    again.stop()


@as_one
def test_kill_all_says_who_did_not_answer(operator, machines, service):
    dispatches.agent(operator, "stays", FOREVER)
    both, ids = [machines(), machines()], []
    workers = []
    for machine in both:
        workers.append(joined(operator, machine, "--slots", "1"))
        ids.append(dispatches.detach(operator, "--target", "pool:p", "stays"))
        far_cell(operator, ids[-1])
    assert len(ps(operator)) == 2
    stopped, cell = workers[0], next(iter(ps(both[0])))
    os.kill(stopped.process.pid, signal.SIGSTOP)
    done = operator.cloister("kill", "--all")
    assert done.status != 0 and cell in done.err and "does not answer" in done.err, done
    assert ps(both[1]) == {} and cell in ps(both[0])
    os.kill(stopped.process.pid, signal.SIGCONT)
    # The dispatches were cancelled, too.
    for id in ids:
        assert dispatches.await_over(operator, id)["state"] in ("cancelled", "failed")
    assert all(w.end() == 0 for w in workers)


@as_one
def test_a_service_that_comes_back(operator, machines, service):
    dispatches.agent(operator, "stays", FOREVER)
    machine = machines()
    worker = joined(operator, machine)
    id = dispatches.detach(operator, "--target", "pool:p", "stays")
    cell, port = far_cell(operator, id), port_of(service)
    service.stop(signal.SIGKILL)
    assert cell not in ps(operator) and cell in ps(machine)
    again = Service(operator, "--workers", f"127.0.0.1:{port}")
    assert far_cell(operator, id) == cell
    # A worker that comes back says what it has.
    worker.process.kill()
    worker.process.wait()
    wait_until(lambda: ps(operator)[cell]["state"] == "silent", "it does not answer")
    worker = Worker(machine)
    assert far_cell(operator, id) == cell
    operator.cloister("kill", cell).ok()
    dispatches.await_over(operator, id)
    assert worker.end() == 0
    again.stop()


class Hostile(Played):
    """It says what it has, and answers every request with the same bytes."""

    def __init__(self, machine):
        super().__init__(machine)
        self.answer = None
        self.send(1, OPEN, struct.pack("<I", CELLS))
        threading.Thread(target=self.go_on, daemon=True).start()

    def go_on(self):
        try:
            while True:
                stream, type, body = self.frame()
                if type == OPEN and body[:4] == struct.pack("<I", FETCH):
                    self.say(stream, struct.pack("<I", PART) + b'{"cell":"abcdefgh","event":{},"n":1}\n')
                elif type == OPEN and self.answer is not None:
                    self.say(stream, self.answer)
        except (EOFError, OSError, ValueError):
            pass

    def say(self, stream, message):
        self.send(stream, DATA, struct.pack("<I", len(message)) + message)

    def has(self, id, cell):
        self.say(1, struct.pack("<I", HAS) + text(id) + text(cell))

    def had(self, id, cell):
        self.say(1, struct.pack("<I", HAD) + text(id) + text(cell))


@as_one
def test_a_hostile_worker(operator, machines, service):
    """It has only cells that the database gives it, and its answers reach no terminal as they are."""
    dispatches.agent(operator, "stays", FOREVER)
    own = operator.detach("--", "sleep", "1000")
    machine, thief = machines(), machines()
    assert joined(operator, machine).end() == 0 and joined(operator, thief).end() == 0
    id, other, stolen, path = (dispatches.detach(operator, "--target", "pool:p", "stays") for _ in range(4))
    set_row(operator, id, f"home = '{home_of(machine)}', claims = 1, lease_ms = {2 ** 60}, state = 2, cell = 'abcdefgh', "
            f"ended_ms = {2 ** 60}")
    set_row(operator, stolen, f"home = '{home_of(thief)}', claims = 1, state = 4, cell = 'abcdefgh', "
            f"ended_ms = {2 ** 60}")
    set_row(operator, path, f"home = '{home_of(machine)}', claims = 1, lease_ms = {2 ** 60}, state = 2, "
            f"cell = '../../zz', ended_ms = {2 ** 60}")
    set_row(operator, other, f"home = 'another', claims = 1, lease_ms = {2 ** 60}, state = 2, cell = 'zyxwvuts', "
            f"ended_ms = {2 ** 60}")
    worker = Hostile(machine)
    for said in ((other, "zyxwvuts"), (id, "zyxwvuts"), (id, own), (id, "../../.."), (path, "../../zz"),
                 ("x" * 5000, "y" * 5000), ("", "")):
        worker.has(*said)
    worker.has(id, "abcdefgh")
    wait_until(lambda: "abcdefgh" in ps(operator), "that one is there")
    assert set(ps(operator)) == {own, "abcdefgh"} and ps(operator)["abcdefgh"]["state"] == "silent"
    assert ps(operator)[own]["machine"] is None

    # Nothing of what is no timeline is kept, and it is not tried again and again.
    wait_until(lambda: "timeline of cell abcdefgh" in service.log(), "its timeline is refused")
    worker.has(id, "abcdefgh")

    def answered(type, body, *words, fds=b""):
        worker.answer = struct.pack("<II", MESSAGE, len(fds) // 8) + fds + struct.pack("<I", type) + body
        return operator.cloister(*words)
    escape = "\x1b]0;owned\x07\x1b[2J"
    done = answered(REFUSED, struct.pack("<I", 1) + text(escape + "no"), "freeze", "abcdefgh")
    assert done.status == 125 and "no" in done.err and "\x1b" not in done.err and "\x07" not in done.err
    for type, body, fds in ((IS, b"", b""), (IS, b"\0" * 5000, b""), (IS, b"\xff" * 100_000, b""), (99, b"", b""), (1, b"", b""),
                            (SAYS, b"\xff\xff\xff\xff", b""), (DONE, b"", struct.pack("<II", 2, 0)),
                            (DONE, b"", struct.pack("<II", 77, 0)), (DONE, b"", struct.pack("<II", 1, 0) * 500)):
        assert answered(type, body, "policy", "show", "abcdefgh", fds=fds).status == 125
        answered(type, body, "ps", "--json", fds=fds).ok()
    worker.answer = None
    assert service.log().count("timeline of cell abcdefgh") == 1 and records(operator, own)
    assert not list(operator.base.rglob("zz.*"))
    other_worker = Hostile(thief)
    other_worker.had(stolen, "abcdefgh")
    wait_until(lambda: "a cell of another worker had that id" in service.log(), "nobody else goes on with it")
    other_worker.close()
    assert not any(f.stat().st_size for f in (operator.state / "ended").glob("abcdefgh.*/events.jsonl"))
    assert operator.cloister("audit", "verify").status == 0
    assert service.get("/healthz").status == 200 and service.get("/v1/cells").status == 200
    worker.close()
    # It does not answer, and nothing of this machine is killed in its place.
    done = operator.cloister("kill", "abcdefgh")
    assert done.status == 125 and "does not answer" in done.err and own in ps(operator), done
    set_row(operator, id, "state = 4")
    set_row(operator, other, "state = 4")
    set_row(operator, path, "state = 4")
    wait_until(lambda: "abcdefgh" not in ps(operator), "it is over")
    operator.cloister("kill", own).ok()


class Mute(Hostile):
    """It opens nothing, answers no request for a timeline, and knows which were asked for."""

    def __init__(self, machine):
        self.fetches = {}
        super().__init__(machine)

    def go_on(self):
        try:
            while True:
                stream, type, body = self.frame()
                if type == OPEN and body[:4] == struct.pack("<I", FETCH):
                    self.fetches[stream] = body[8:16].decode()
        except (EOFError, OSError, ValueError):
            pass

    def finish(self, streams):
        for stream in streams:
            del self.fetches[stream]
            self.send(stream, CLOSE)


@as_one
def test_a_worker_with_many_timelines_holds_few_at_once(operator, machines, service):
    """Whatever it says that it has: the rest waits, and none is left out."""
    dispatches.agent(operator, "stays", FOREVER)
    machine = machines()
    assert joined(operator, machine).end() == 0
    cells = {}
    for n in range(150):
        id = service.post("/v1/dispatches", {"agent": "stays", "target": "pool:p"}).json["id"]
        cells[f"many{n:04}"] = id
    postgres_store.shared().ask(operator.database, "UPDATE cloister.dispatches SET state = 2, claims = 1, "
        f"home = '{home_of(machine)}', lease_ms = {2 ** 60}, ended_ms = {2 ** 60}, cell = CASE id " +
        " ".join(f"WHEN '{id}' THEN '{cell}'" for cell, id in cells.items()) + " END")
    worker, before = Mute(machine), len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))
    for cell, id in cells.items():
        worker.has(id, cell)
    wait_until(lambda: len(worker.fetches) >= 4 * 127 and all(any(operator.runtime.glob(f"{cell}*")) for cell in cells), "all are known")
    assert service.get("/healthz").status == 200
    assert len(worker.fetches) == 4 * 127      # and room for the policy of each
    assert len(list(Path(f"/proc/{service.process.pid}/fd").iterdir())) < before + 2 * 512 + 2 * len(cells) + 50
    seen = set(worker.fetches.values())
    assert len(seen) == 127
    # Those of cells that are over make room.
    worker.finish([s for s, cell in worker.fetches.items() if cell < "many0040"])
    wait_until(lambda: set(worker.fetches.values()) | seen == set(cells), "all others are asked for")
    worker.close()
    postgres_store.shared().ask(operator.database, "UPDATE cloister.dispatches SET state = 4")
