"""The same ten scenarios on every target and store, with the same results and hashes: what a place says of each is compared
with what all others said."""
import json
import os

import pytest

import engines
import fake_ecs
import postgres_store
import s3_servers
import workers
from dispatches import agent, await_over, capability, events, policy, register, show
from operators import wait_until
from ten_places import EcsPlace, FarPlace, InEcs, InEngine, InKubernetes, InSwarm, Place

# Place: its store, and the S3 server behind it.  `make test` has some; `make test-docker` all but Kubernetes, which
# `make test-kubernetes` compares with local cells.
SOME = {"local": ("sqlite", None), "workers, Postgres and s3rver": ("postgres", "s3rver"),
        "workers without namespaces": ("postgres", "s3rver")}
ALL = SOME | {"local, Postgres and s3rver": ("postgres", "s3rver"), "workers, Postgres and swift": ("postgres", "swift"),
              "docker": ("sqlite", None), "ecs, as its stand-in starts workers": ("postgres", "s3rver"),
              "ecs, as its stand-in starts containers": ("postgres", "s3rver"), "swarm": ("postgres", "s3rver"),
              "one engine": ("postgres", "s3rver")}
IN_CONTAINERS = {"swarm": InSwarm, "one engine": InEngine, "ecs, as its stand-in starts containers": InEcs}
KUBERNETES = {"local": ("sqlite", None), "kubernetes": ("postgres", "s3rver")}
PLACES = KUBERNETES if os.environ.get("CLOISTER_TEST_KUBERNETES") else ALL if os.environ.get("CLOISTER_TEST_ENGINES") else SOME
# What differs where the worker is a container, with which its cells end: how it is elsewhere, and there.
DIFFERS = {"driver_killed": {"attempts": (1, 2)}}
# Where cells have no /tmp.
TMP = "${TMPDIR:-/tmp}"
CLAIM = 180                             # seconds, more than a claim lasts
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
    # It has mounts, which would look like a cell's remains if it began after the operator.
    if request.param in IN_CONTAINERS or request.param == "kubernetes":
        request.getfixturevalue("swarm" if request.param in IN_CONTAINERS else "cluster")
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


@pytest.fixture
def place(request, operator, place_name, machines, tmp_path_factory):
    name = PLACES[place_name][1]
    if name is not None:
        server = s3_servers.server_of(name, tmp_path_factory)
        operator.env |= {"CLOISTER_BLOBS": f"s3://{s3_servers.BUCKET}/{os.urandom(4).hex()}?endpoint=http://127.0.0.1:"
                                           f"{server.port}&region={s3_servers.REGION}",
                         "AWS_ACCESS_KEY_ID": server.id, "AWS_SECRET_ACCESS_KEY": server.secret}
        # Puts the object `owner`: s3rver shows a half of one that two write at the same time.
        capability(operator, "first", {"file": "text\n"})
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
    if place_name in IN_CONTAINERS:
        place = FarPlace(operator, IN_CONTAINERS[place_name](operator, request.getfixturevalue("swarm")), server)
    elif place_name == "kubernetes":
        place = FarPlace(operator, InKubernetes(operator, workers.Place(request.getfixturevalue("cluster"), operator)), server)
    elif place_name.startswith("ecs"):
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


def let_end(place, id, cell):
    def is_told():
        said = place.operator.cloister("exec", cell, "--", "sh", "-c", f"touch {TMP}/go")
        d = show(place.operator, id)
        assert d["state"] in ("running", "finished"), (said, d["state"], d["reason"])
        return said.status == 0
    wait_until(is_told, "it may end")


def begins_again(place, id):
    """Another worker has it, once the claim of the first is over: its new cell."""
    def second():
        d = show(place.operator, id)
        return d["attempts"] == 2 and d["state"] == "running" and d["cell"]
    cell = wait_until(second, "it runs again", CLAIM)
    wait_until(lambda: [e["kind"] for e in events(place.operator, id)].count("agent.output") == 2, "its agent has begun", CLAIM)
    return cell


def assert_lost(place, id):
    """It may have run, and has no retry left."""
    wait_until(lambda: show(place.operator, id)["state"] != "running", "its claim is over", CLAIM)
    d = show(place.operator, id)
    assert (d["state"], d["attempts"], d["exit_code"]) == ("failed", 1, None) and "worker" in d["reason"], d


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
    place.run_another()
    return d


def driver_killed(place):
    """The cell goes on, and so does the dispatch.  Where the worker is a container, its cells end with it: the dispatch is
    lost, and another worker runs it again if it has a retry left."""
    agent(place.operator, "x", f"echo begun; until [ -e {TMP}/go ]; do sleep 0.05; done; exit 5")
    id = place.runs("x", *(["--retries", "1"] if place.is_contained else []))
    cell, once = begins(place, id), None
    if place.is_contained:
        once = place.runs("x")
        begins(place, once)
    place.restart()
    if place.is_contained:
        cell = begins_again(place, id)
        assert_lost(place, once)
    let_end(place, id, cell)
    d = told(place, id)
    assert (d["state"], d["exit_code"]) == ("finished", 5)
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
    now = scenario(place)
    for member, expected in DIFFERS.get(scenario.__name__, {}).items():
        assert now[member] == expected[place.is_contained]
        now[member] = expected[0]
    now = json.dumps(now, sort_keys=True, indent=1)
    first, then = said.setdefault(scenario, (place_name, now))
    assert now == then, f"{place_name} differs from {first}"
