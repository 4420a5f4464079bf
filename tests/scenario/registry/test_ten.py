"""The same ten scenarios on every target and store, with the same results and hashes: what a place says of each is compared
with what all others said."""
import json
import os
import signal

import pytest

import engines
import fake_ecs
import fake_engine
import postgres_store
import s3_servers
from dispatches import agent, await_over, await_state, capability, detach, dispatch, events, policy, register, show
from operators import wait_until
from ports import free_port
from service import Service
from test_link import Worker, joined, port_of

# Place: its store, and the S3 server behind it.  `make test` has some; `make test-docker` all.
SOME = {"local": ("sqlite", None), "workers, Postgres and s3rver": ("postgres", "s3rver"),
        "workers without namespaces": ("postgres", "s3rver")}
ALL = SOME | {"local, Postgres and s3rver": ("postgres", "s3rver"), "workers, Postgres and swift": ("postgres", "swift"),
              "docker": ("sqlite", None), "ecs, as its stand-in starts workers": ("postgres", "s3rver")}
PLACES = ALL if os.environ.get("CLOISTER_TEST_ENGINES") else SOME
# Where cells have no /tmp.
TMP = "${TMPDIR:-/tmp}"
FOREVER = "echo begun; while :; do sleep 0.1; done"
said = {}                               # by scenario: what the first place said, and which that was


@pytest.fixture(params=list(PLACES))
def place_name(request):
    if request.param == "docker" and engines.missing("docker"):
        pytest.skip(engines.missing("docker"))
    if request.param.startswith("ecs") and fake_ecs.SigV4Auth is None:
        pytest.skip("there is no python3-botocore")
    if PLACES[request.param][0] == "postgres" and not postgres_store.PROGRAMS:
        pytest.skip("there is no postgresql")
    return request.param


@pytest.fixture
def who(place_name):
    return "root" if os.geteuid() == 0 else "user"


@pytest.fixture
def registry_place(place_name):
    return PLACES[place_name][0]


@pytest.fixture(scope="module", autouse=True)
def servers():
    yield
    s3_servers.stop_all()


def skip_unless_bare(operator):
    checks = json.loads(operator.cloister("doctor", "--json").out)["checks"]
    found = next(check for check in checks if check["name"] == "boundary process")
    if found["state"] != "ok":
        pytest.skip(found["found"])


class Place:
    """A service, and what runs its dispatches: itself, or a worker with folders of its own."""

    def __init__(self, operator, words, machine=None, options=()):
        self.operator, self.words, self.machine, self.options = operator, words, machine or operator, options
        operator.cloister("secret", "add", "TOKEN", "--host", "allowed.example", input="the-real-value-of-it").ok()
        self.service = Service(operator, *(["--workers", "127.0.0.1:0"] if machine else []))
        self.worker = joined(operator, machine, *options) if machine else None

    def runs(self, name, *words):
        return detach(self.operator, *self.words, *words, name)

    def restart(self):
        """What drives the dispatch is killed, and started again."""
        if self.worker is None:
            self.service.stop(signal.SIGKILL)
            self.service = Service(self.operator)
            return
        self.worker.end(signal.SIGKILL)
        self.worker = Worker(self.machine, *self.options)
        self.worker.says("connected to the service")

    def kill_supervisor(self, cell):
        os.kill(self.machine.cell(cell)["supervisor"], signal.SIGKILL)

    def close(self):
        if self.worker is not None:
            assert self.worker.end() == 0
        assert self.service.stop() == 0, self.service.log()


class EcsPlace(Place):
    """A service whose target has tasks of tests/scenario/fake_ecs.py run workers: from none, for each scenario."""

    def __init__(self, operator, machines):
        self.tasks, self.ecs = [], fake_ecs.FakeEcs(machines, run=self.start)
        # Both have their key in the same variables.
        self.ecs.key |= {"id": operator.env["AWS_ACCESS_KEY_ID"], "secret": operator.env["AWS_SECRET_ACCESS_KEY"]}
        names = "CLOISTER_STORE", "CLOISTER_BLOBS", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
        self.ecs.secrets = {f"arn:{name}": operator.env[name] for name in names}
        operator.env.update(self.ecs.env())
        at = f"127.0.0.1:{free_port()}"
        register(operator, "target", "far", engine="ecs", image="worker:1", idle="2s", workers={"max": 1}, service=at,
                 secrets={name: f"arn:{name}" for name in names}, ecs={"cluster": "work", "subnets": ["s"], "launchType": "EC2"})
        operator.cloister("secret", "add", "TOKEN", "--host", "allowed.example", input="the-real-value-of-it").ok()
        self.operator, self.words, self.service = operator, ["--target", "far"], Service(operator, "--workers", at)

    def start(self, machines, words, env):
        task = fake_engine.worker_of(machines, words, env)
        task.how = words, env
        self.tasks.append(task)
        return task

    @property
    def machine(self):
        return self.tasks[-1].machine

    def restart(self):
        """Its worker is killed, and a worker with its folder, which is a volume's, starts."""
        task = self.tasks[-1]
        task.end()
        words, env = task.how
        task.__init__(task.machine, words, env)
        wait_until(lambda: "connected to the service" in (task.machine.base / "said").read_text(), "it is connected")

    def close(self):
        self.ecs.end()
        assert self.service.stop() == 0, self.service.log()
        assert not self.ecs.wrong, self.ecs.wrong


@pytest.fixture
def place(request, operator, place_name, machines, tmp_path_factory):
    name = PLACES[place_name][1]
    if name is not None:
        server = s3_servers.server_of(name, tmp_path_factory)
        operator.env |= {"CLOISTER_BLOBS": f"s3://{s3_servers.BUCKET}/{os.urandom(4).hex()}?endpoint=http://127.0.0.1:"
                                           f"{server.port}&region={s3_servers.REGION}",
                         "AWS_ACCESS_KEY_ID": server.id, "AWS_SECRET_ACCESS_KEY": server.secret}
    machine, words, options = None, ["--target", "local"], ()
    if place_name == "docker":
        engine = request.getfixturevalue("engines_of")("docker")
        operator.env["DOCKER_HOST"] = f"unix://{engine.socket}"
        words = ["--target", "docker", "--image", engines.IMAGE]
    elif place_name.startswith("workers"):
        machine, words = machines(), ["--target", "pool:p"]
        machine.env |= {k: v for k, v in operator.env.items() if k.startswith(("CLOISTER_BLOBS", "AWS_"))}
    if place_name.endswith("without namespaces"):
        skip_unless_bare(operator)
        options = ("--boundary", "process")
    if place_name.startswith("ecs"):
        place = EcsPlace(operator, machines)
    else:
        place = Place(operator, words, machine, options)
    yield place
    place.close()


# ---- what is compared ---------------------------------------------------------------------------

def told(place, id):
    """What is the same wherever it runs."""
    d = await_over(place.operator, id)
    resolved, result = d["resolved"], d["result"] or {}
    files = result.get("files") or {}
    return {"state": d["state"], "exit_code": d["exit_code"], "attempts": d["attempts"],
            "agent": resolved["agent"]["hash"], "policy": (resolved["policy"] or {}).get("hash"),
            "capabilities": [c["hash"] for c in resolved["capabilities"]], "envs": [e["hash"] for e in resolved["envs"]],
            "input": (resolved["input"] or {}).get("hash"),
            **{stream: (result.get(stream) or {}).get("hash") for stream in ("stdout", "stderr")},
            "files": files.get("hash"), "skipped": files.get("skipped")}


def output_of(place, id):
    return place.operator.cloister("dispatches", "output", id).ok()


def begins(place, id):
    wait_until(lambda: any(e["kind"] == "agent.output" for e in events(place.operator, id)), "it runs")
    return show(place.operator, id)["cell"]


# ---- the ten ------------------------------------------------------------------------------------

def output(place):
    agent(place.operator, "x", "echo out; echo err >&2; exit 3")
    id = place.runs("x")
    d = told(place, id)
    assert (d["state"], d["exit_code"], output_of(place, id)) == ("finished", 3, "out\n")
    return d


def files(place):
    agent(place.operator, "x", "mkdir /out/a; cat >/out/a/f; ln -s /etc /out/link; head -c 300000 /dev/zero >/out/much")
    id = place.runs("x", "--input", place.operator.file("input", "given"))
    d = told(place, id)
    assert place.operator.cloister("dispatches", "files", id, "a/f").ok() == "given" and d["skipped"] == 1
    return d


def granted(place):
    operator = place.operator
    capability(operator, "b", {"setup.sh": f"#!/bin/sh\necho b >>{TMP}/order\n", "file": "text\n"})
    capability(operator, "a", {"agora-setup.sh": f"#!/bin/sh\necho a >>{TMP}/order\n"})
    register(operator, "env", "e", values={"LOG_LEVEL": "info"})
    agent(operator, "x", f"cat {TMP}/order /capabilities/b/file; echo $LOG_LEVEL; touch /capabilities/b/x 2>/dev/null || echo no",
          capabilities=["b", "a"])
    id = place.runs("x", "--env", "e")
    d = told(place, id)
    assert output_of(place, id) == "b\na\ntext\ninfo\nno\n"
    return d


def refused(place):
    policy(place.operator, "web", {"allow": "allowed.example"})
    agent(place.operator, "x", "wget -qO- http://refused.example/ 2>/dev/null || echo refused", policy="web")
    id = place.runs("x")
    d = told(place, id)
    assert output_of(place, id) == "refused\n"
    cell = show(place.operator, id)["cell"]
    wait_until(lambda: "refused.example" in place.operator.cloister("events", cell).out, "it is recorded")
    return d


def secret(place):
    policy(place.operator, "web", {"allow": "allowed.example"})
    agent(place.operator, "x", 'test -n "$TOKEN" && env | grep -c the-real', secrets=["TOKEN"], policy="web")
    id = place.runs("x")
    d = told(place, id)
    assert output_of(place, id) == "0\n"
    return d


def timed_out(place):
    agent(place.operator, "x", "echo begun; sleep 1000", limits={"time": "1s"})
    d = told(place, place.runs("x"))
    assert d["state"] == "timed_out"
    return d


def cancelled(place):
    agent(place.operator, "x", FOREVER)
    id = place.runs("x")
    begins(place, id)
    place.operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    d = told(place, id)
    assert d["state"] == "cancelled"
    return d


def killed(place):
    """The supervisor of its cell is."""
    agent(place.operator, "x", FOREVER)
    id = place.runs("x")
    place.kill_supervisor(begins(place, id))
    d = told(place, id)
    assert d["state"] == "failed" and d["attempts"] == 1
    # The next cell there clears up after it.
    place.machine.run("--", "true").ok()
    return d


def driver_killed(place):
    """The cell goes on, and so does the dispatch."""
    agent(place.operator, "x", f"echo begun; until [ -e {TMP}/go ]; do sleep 0.05; done; exit 5")
    id = place.runs("x")
    cell = begins(place, id)
    place.restart()
    wait_until(lambda: place.operator.cloister("exec", cell, "--", "sh", "-c", f"touch {TMP}/go").status == 0, "it may end")
    d = told(place, id)
    assert (d["state"], d["exit_code"], d["attempts"]) == ("finished", 5, 1)
    return d


def many(place):
    """Asked for twice with the same keys: each runs once."""
    agent(place.operator, "x", "cat; echo >>/out/ran")
    ids = []
    for i in [*range(8), *range(8)]:
        ids.append(place.runs("x", "--key", f"k{i}", "--input", place.operator.file(f"input{i}", f"number {i}\n")))
    assert ids[:8] == ids[8:] and len(set(ids)) == 8
    all_told = [told(place, id) for id in ids[:8]]
    assert [output_of(place, id) for id in ids[:8]] == [f"number {i}\n" for i in range(8)]
    return all_told


TEN = [output, files, granted, refused, secret, timed_out, cancelled, killed, driver_killed, many]


@pytest.mark.parametrize("scenario", TEN, ids=lambda scenario: scenario.__name__)
def test_it_is_the_same_everywhere(place, place_name, scenario):
    now = json.dumps(scenario(place), sort_keys=True, indent=1)
    first, then = said.setdefault(scenario, (place_name, now))
    assert now == then, f"{place_name} differs from {first}"
