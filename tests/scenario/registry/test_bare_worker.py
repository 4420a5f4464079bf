"""Dispatches on workers whose cells have the boundary `process`, and which leave to others what that cannot hold."""
import json
import os
import shutil
import signal
import subprocess

import pytest

import engines
import postgres_store
import s3_servers
from dispatches import agent, await_over, await_state, capability, detach, events, policy, show
from operators import wait_until
from service import Service
from test_link import joined
from test_ten import skip_unless_bare

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture(scope="module", autouse=True)
def servers():
    yield
    s3_servers.stop_all()


@pytest.fixture
def service(operator, tmp_path_factory):
    server = s3_servers.server_of("s3rver", tmp_path_factory)
    operator.env |= {"CLOISTER_BLOBS": f"s3://{s3_servers.BUCKET}/{os.urandom(4).hex()}?endpoint=http://127.0.0.1:"
                                       f"{server.port}&region={s3_servers.REGION}",
                     "AWS_ACCESS_KEY_ID": server.id, "AWS_SECRET_ACCESS_KEY": server.secret}
    operator.cloister("secret", "add", "TOKEN", "--host", "allowed.example", input="the-real-value-of-it").ok()
    service = Service(operator, "--workers", "127.0.0.1:0")
    yield service
    if service.process.poll() is None:
        assert service.stop() == 0, service.log()


def machine_of(operator, machines):
    machine = machines()
    machine.env |= {k: v for k, v in operator.env.items() if k.startswith(("CLOISTER_BLOBS", "AWS_"))}
    return machine


@pytest.fixture
def bare(operator, machines, service):
    """A worker that has joined the service."""
    skip_unless_bare(operator)
    worker = joined(operator, machine_of(operator, machines), "--boundary", "process")
    yield worker
    assert worker.end() == 0, worker.log()


def runs(operator, name, *words):
    return detach(operator, "--target", "pool:p", *words, name)


def boot_of(operator, id):
    cell = show(operator, id)["cell"]
    told = wait_until(lambda: [json.loads(line) for line in operator.cloister("events", "--json", cell).out.splitlines()],
                      "its timeline is there")
    return next(event for event in told if event["type"] == "cell.boot")


def output_of(operator, id):
    return operator.cloister("dispatches", "output", id).ok()


def test_what_it_is_given_and_leaves(operator, bare):
    capability(operator, "tool", {"setup.sh": '#!/bin/sh\necho set up >"$TMPDIR/order"\n', "deep/file": "text\n",
                                  "run.sh": '#!/bin/sh\ncat "$(dirname "$0")/deep/file"\n'}, tools=["sh"])
    agent(operator, "x", 'cat "$TMPDIR/order"; sh /capabilities/tool/run.sh; touch /capabilities/tool/x 2>/dev/null || echo no; '
          'cat >/out/given; mkdir -p "$CLOISTER_OUT/a"; echo b>/out/a/b', capabilities=["tool"])
    id = runs(operator, "x", "--input", operator.file("input", "words"))
    d = await_over(operator, id)
    assert (d["state"], output_of(operator, id)) == ("finished", "set up\ntext\nno\n"), d["reason"]
    assert operator.cloister("dispatches", "files", id, "given").ok() == "words"
    assert operator.cloister("dispatches", "files", id, "a/b").ok() == "b\n"
    assert [name for name in os.listdir("/tmp") if name == f"cloister-cell-{d['cell']}"] == []


def test_secrets_and_rules(operator, bare):
    policy(operator, "web", {"allow": "allowed.example"})
    agent(operator, "x", 'test -n "$TOKEN" && env | grep -c the-real; wget -qO- http://refused.example/ 2>/dev/null || echo refused',
          secrets=["TOKEN"], policy="web")
    id = runs(operator, "x")
    d = await_over(operator, id)
    assert (d["state"], output_of(operator, id)) == ("finished", "0\nrefused\n"), d["reason"]
    assert boot_of(operator, id)["grant"]["boundary"] == "process"
    wait_until(lambda: "refused.example" in operator.cloister("events", d["cell"]).out, "it is recorded")


def test_steering(operator, bare):
    agent(operator, "x", "echo begun; while :; do sleep 0.1; done")
    id = runs(operator, "x")
    wait_until(lambda: any(e["kind"] == "agent.output" for e in events(operator, id)), "it runs")
    cell = show(operator, id)["cell"]
    assert operator.cloister("exec", cell, "--", "sh", "-c", "echo there >/out/f; cat /out/f").ok() == "there\n"
    frozen = operator.cloister("freeze", cell)
    if frozen.status == 0:
        operator.cloister("thaw", cell).ok()
    else:
        assert "cgroup" in frozen.err, frozen.err
    operator.cloister("kill", cell).ok()
    assert await_over(operator, id)["state"] == "failed"


@pytest.mark.parametrize("asks", [{"boundary": "namespace"}, {"boundary": "microvm"}, {"root": "minimal"}],
                         ids=lambda asks: next(iter(asks.values())))
def test_what_needs_more_is_left_to_others(operator, bare, machines, asks):
    agent(operator, "more", "echo walls", **asks)
    agent(operator, "less", "echo bare")
    left, taken = runs(operator, "more"), runs(operator, "less")
    assert await_over(operator, taken)["state"] == "finished"
    bare.says(f"dispatch {left} needs ")
    assert "it is left to other workers" in bare.log() and bare.log().count(left) == 1
    assert show(operator, left)["state"] == "queued"
    if asks == {"boundary": "microvm"}:
        operator.cloister("dispatches", "cancel", left).ok()
        return
    other = joined(operator, machine_of(operator, machines))
    d = await_over(operator, left)
    assert other.end() == 0
    assert d["reason"] is None or "minimal" in asks.values(), d


def test_a_supervisor_that_is_killed(operator, bare):
    """Nothing of the cell goes on, and the next one clears up."""
    agent(operator, "x", "echo $$; while :; do sleep 0.1; done")
    id = runs(operator, "x")
    wait_until(lambda: any(e["kind"] == "agent.output" for e in events(operator, id)), "it runs")
    cell = show(operator, id)["cell"]
    pid = int(next(e for e in events(operator, id) if e["kind"] == "agent.output")["text"])
    os.kill(bare.machine.cell(cell)["supervisor"], signal.SIGKILL)
    assert await_over(operator, id)["state"] == "failed"
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the agent is dead")
    agent(operator, "y", "true")
    assert await_over(operator, runs(operator, "y"))["state"] == "finished"
    assert not os.path.exists(f"/tmp/cloister-cell-{cell}")


# ---- in a container, as on Fargate: the engine's own filter, no right beyond its default, and no namespace.  Its engine has a
# network of its own, so there is nothing of S3 and of the service there ----

@pytest.mark.parametrize("user, options", [("0", []), ("0", ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]), ("1000", [])],
                         ids=["root", "root without rights", "user"])
def test_in_a_container(operator, engines_of, who, user, options):
    if who != "root" or shutil.which("docker") is None:
        pytest.skip("only root starts an engine, and its client is needed")
    engine = engines_of("docker")
    agent(operator, "x", "wget -qO- http://refused.example/ 2>/dev/null || echo refused; id -u; echo result >/out/f && cat /out/f; exit 3")
    agent(operator, "more", "true", boundary="namespace")
    left, id = runs(operator, "more"), runs(operator, "x")
    place = operator.folder("place")
    place.chmod(0o1777)
    shown = [f"{path}:{path}:ro" for path in ("/usr", "/bin", "/lib", "/lib64", "/etc") if os.path.exists(path)]
    volumes = [word for one in [*shown, f"{operator.program.parent}:/b:ro", f"{place}:/tmp", f"{postgres_store.shared().folder}:/pg"]
               for word in ("-v", one)]
    store = f"postgresql://cloister@/{operator.database}?host=/pg"
    def worker(*words):
        return subprocess.run(["docker", "-H", f"unix://{engine.socket}", "run", "--rm", "--network", "none", "--user", user, *options,
                               "-e", "HOME=/tmp", "-e", f"CLOISTER_STORE={store}", *volumes, engines.IMAGE, "/b/cloister", "worker",
                               "--pool", "p", "--once", *words], capture_output=True, text=True, timeout=120)
    done = worker()
    assert done.returncode == 125 and "cells cannot run here" in done.stderr, done
    done = worker("--boundary", "process")
    assert done.returncode == 0, done
    d = show(operator, id)
    assert (d["state"], d["exit_code"]) == ("finished", 3), (d["reason"], done.stderr)
    said = " ".join(e["text"] for e in events(operator, id) if e["kind"] == "agent.output").split()
    assert [said[0], said[2]] == ["refused", "result"] and d["result"]["files"]["count"] == 1
    # Root that may become others has a user for each cell.
    assert int(said[1]) == int(user) if user != "0" or options else int(said[1]) >= 0x70000000
    assert show(operator, left)["state"] == "queued"
    assert f"dispatch {left} needs the boundary 'namespace'" in done.stderr
    assert [name for name in os.listdir(place) if name.startswith("cloister-cell")] == []
