"""Against a real `cloister serve`: CLOISTER_TEST_SOCKET is where it listens.  With CLOISTER_TEST_URL,
CLOISTER_TEST_TOKEN and CLOISTER_TEST_CA also over TLS."""
import hashlib
import json
import os
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import cloister

SOCKET, URL = os.environ.get("CLOISTER_TEST_SOCKET"), os.environ.get("CLOISTER_TEST_URL")
pytestmark = pytest.mark.skipif(SOCKET is None, reason="CLOISTER_TEST_SOCKET is not set")


@pytest.fixture
def client():
    return cloister.Client(socket=SOCKET)


def agent(client, word, script, **more):
    """An agent that runs SCRIPT."""
    client.subagent.register(**{"name": f"py-{word}", "command": ["sh", "-c", script], **more})
    return f"py-{word}"


def refused(call, *words, **how):
    with pytest.raises(cloister.CloisterError) as caught:
        call(*words, **how)
    return caught.value


def until_output(run):
    for event in run:
        if event["event"] == "agent.output":
            return


def test_everything(client):
    capability = client.capabilities.register(name="py-notes", files={
        "notes/a.txt": "first\n", "notes/b.bin": b"\x00\xff\n",
        "setup.sh": {"content": "#!/bin/sh\necho setting up\ncp -r /capabilities/py-notes/notes ~/\n", "executable": True}})
    assert (capability["kind"], capability["name"]) == ("capability", "py-notes")
    env = client.env.register(name="py-values", values={"WORD": "über"})
    subagent = client.subagent.register(name="py-reader", capabilities=["py-notes"], command=[
        "sh", "-c", 'cat; cat ~/notes/a.txt; echo "$WORD"; echo problem >&2; mkdir /out/sub; '
        'cp ~/notes/b.bin "/out/sub/b ü.bin"; exit 3'])
    run = client.dispatch(subagent="py-reader", env="py-values", target="local", input="the input\n")
    resolved = run.resolved
    assert resolved["agent"] == {**resolved["agent"], "name": "py-reader", "hash": subagent["hash"]}
    assert [c["hash"] for c in resolved["capabilities"]] == [capability["hash"]]
    assert [e["hash"] for e in resolved["envs"]] == [env["hash"]]
    assert run.exit_code == 3
    assert run.stdout == "setting up\nthe input\nfirst\nüber\n" and run.stderr == "problem\n"
    hash = "sha256:" + hashlib.sha256(b"\x00\xff\n").hexdigest()
    assert [(f["path"], f["size"], f["hash"]) for f in run.files()["files"]] == [("sub/b ü.bin", 3, hash)]
    assert run.file("sub/b ü.bin") == b"\x00\xff\n"
    assert refused(run.file, "sub/none").code == "not_found"
    assert (run.status()["state"], run.status()["exit_code"]) == ("finished", 3)


def test_a_result_is_values(client):
    assert client.agents is client.subagent
    client.capabilities.register(name="py-setup", tools=["sh"], files={
        "agora-setup.sh": "#!/bin/sh\necho first\necho oops >&2\n", "setup.sh": ""})
    run = client.dispatch(subagent=agent(client, "lines", "echo agent; echo x >/out/f; exit 3", capabilities=["py-setup"]))
    result = run.result()
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0]["kind"] == "worker.boot" and lines[1:] == [
        {"kind": "setup-script.ran", "exitCode": 0, "stdout": "first\n", "stderr": "oops\n"},
        {"kind": "setup-script.ran", "exitCode": 0, "stdout": ""},
        {"kind": "agent.started"},
        {"kind": "agent.output", "stream": "stdout", "text": "agent\n"},
        {"kind": "dispatch.finished", "exitCode": 3}]
    assert (result.state, result.exit_code, result.reason) == ("finished", 3, None)
    assert result.output == {"stdout": "first\nagent\n", "stderr": "oops\n"}
    assert list(result.resolved) == ["subagent", "capabilities", "env"]
    assert result.resolved["capabilities"][0]["contentHash"] == result.resolution["capabilities"][0]["hash"]
    assert result.file("f") == b"x\n"
    # What there was before is still there.
    assert run.stdout == "first\nagent\n" and run.resolved["agent"]["name"] == "py-lines" and run.result() is result


def test_a_result_that_is_not_well(client):
    client.capabilities.register(name="py-broken", files={"setup.sh": "#!/bin/sh\necho half\nexit 9\n"})
    client.subagent.register(name="py-broken", capabilities=["py-broken"])
    result = client.dispatch(subagent="py-broken").result()
    assert (result.state, result.exit_code) == ("failed", None)
    assert [json.loads(line) for line in result.stdout.splitlines()][1:] == [
        {"kind": "setup-script.ran", "exitCode": 9, "stdout": "half\n"},
        {"kind": "dispatch.finished", "exitCode": None, "state": "failed", "reason": result.reason}]


def test_grants(client):
    client.capabilities.register(name="py-more", files={"f": "more\n"})
    name = agent(client, "granted", "cat /capabilities/py-more/f", grantable={"capabilities": ["py-more"]})
    assert client.dispatch(subagent=name).exit_code == 1
    assert client.dispatch(subagent=name, capabilities=["py-more"]).stdout == "more\n"
    assert refused(client.dispatch, subagent=name, secrets=["KEY"]).code == "forbidden"
    assert client.agents.assign(name, capabilities=["py-more"])["number"] == 2
    assert client.dispatch(subagent=name).stdout == "more\n"


def test_level_of_the_record(client):
    name = agent(client, "quiet", "true", record="off")
    assert client.dispatch(subagent=name).resolved["record"] == "off"
    assert client.dispatch(subagent=name, record="full").resolved["record"] == "full"
    assert refused(client.dispatch, subagent=name, record="off").code == "invalid"


def test_events(client):
    run = client.dispatch(subagent=agent(client, "teller", "echo one; echo two >&2"))
    live = list(run)
    assert [e["n"] for e in live] == list(range(1, len(live) + 1))
    assert live[0]["event"] == "dispatch.queued"
    assert (live[-1]["event"], live[-1]["exit_code"]) == ("dispatch.finished", 0)
    assert {"dispatch.resolved", "cell.boot", "agent.output"} <= {e["event"] for e in live}
    texts = {stream: "".join(e["text"] for e in live if e.get("stream") == stream) for stream in ("stdout", "stderr")}
    assert texts == {"stdout": "one\n", "stderr": "two\n"}
    assert list(client.dispatches.get(run.id)) == live


def test_event_before_the_end(client):
    run = client.dispatch(subagent=agent(client, "waiter", "echo ready; exec sleep 1000"))
    until_output(run)
    assert run.status()["state"] in ("starting", "running")
    run.cancel()
    assert refused(lambda: run.exit_code).code == "cancelled"
    assert run.ended["state"] == "cancelled" and run.stdout == "ready\n"


def test_one_key_is_one_dispatch(client):
    subagent, key = agent(client, "once", "echo ran"), f"py-{os.getpid()}-{time.monotonic_ns()}"
    runs = [client.dispatch(subagent=subagent, idempotency_key=key) for _ in range(4)]
    assert len({run.id for run in runs}) == 1 and runs[0].stdout == "ran\n"
    assert refused(client.dispatch, subagent=agent(client, "other", "true"), idempotency_key=key).status == 409


def test_versions(client):
    first = client.env.register(name="py-versions", values={"A": "1"})
    again = client.env.register(name="py-versions", values={"A": "1"})
    assert (first["new"], again["new"], again["hash"]) == (True, False, first["hash"])
    second = client.env.register(name="py-versions", values={"A": "2"})
    said = json.dumps(client.env.versions("py-versions"))
    assert first["hash"] in said and second["hash"] in said
    assert '"A": "1"' in json.dumps(client.env.get(f"py-versions@{first['hash']}"))
    assert '"A": "2"' in json.dumps(client.env.get("py-versions"))
    assert client.env.diff("py-versions", from_=first["hash"], to=second["hash"])
    assert "py-versions" in json.dumps(client.env.list(limit=1000))
    client.env.retire("py-versions")
    refused(client.dispatch, subagent=agent(client, "retired", "true"), env="py-versions")


def test_policy(client):
    client.policies.register(name="py-policy", document={"version": 1, "egress": [{"allow": "a.example"}]})
    run = client.dispatch(subagent=agent(client, "governed", "true", policy="py-policy"))
    assert run.resolved["policy"]["hash"].startswith("sha256:") and run.exit_code == 0


def test_what_a_new_user_does_wrong(client):
    error = refused(client.subagent.get, "py-none")
    assert (error.code, error.status) == ("not_found", 404) and "py-none" in error.message
    assert "py-none" in refused(client.dispatch, subagent="py-none").message
    assert refused(client.env.register, name="py-bad", values={"A": 1}).pointer == "/values/A"
    assert refused(client.env.register, name="../x", values={}).pointer == "/name"
    assert "comand" in refused(client.subagent.register, name="py-bad", comand=["x"]).message
    run = client.dispatch(subagent=agent(client, "missing", "", command=["no-such-program"]))
    error = refused(lambda: run.exit_code)
    assert error.code == "failed" and "no-such-program" in error.message


def test_cells(client):
    run = client.dispatch(subagent=agent(client, "sleeper", "echo ready; exec sleep 1000"))
    until_output(run)
    cell = run.status()["cell"]
    assert cell in [c["cell"] for c in client.cells.list()["cells"]]
    assert client.cells.get(cell)["state"] == "running"
    client.cells.ttl(cell, "1h", why="it is slow")
    page = client.cells.timeline(cell, type="steer", limit=5)
    assert page["records"][0]["event"]["why"] == "it is slow" and page["more"] is False
    assert client.cells.secrets(cell) == {"secrets": []}
    assert client.cells.budget(cell) == {"budgets": []}
    assert client.approvals.list(cell=cell, state="pending") == {"approvals": []}
    for call in (lambda: client.cells.policy(cell), lambda: client.cells.allow(cell, "a.example")):
        with pytest.raises(cloister.CloisterError) as told:
            call()
        assert told.value.code == "no_policy"
    for call in (lambda: client.cells.revoke(cell, "KEY"), lambda: client.approvals.approve(f"{cell}-1"),
                 lambda: client.approvals.refuse(f"{cell}-1", "no")):
        with pytest.raises(cloister.CloisterError) as told:
            call()
        assert told.value.code == "not_found"
    client.cells.kill(cell)
    refused(lambda: run.exit_code)


@pytest.mark.skipif(URL is None, reason="CLOISTER_TEST_URL is not set")
def test_over_tls_with_a_token(client):
    with open(os.environ["CLOISTER_TEST_CA"]) as file:
        ca = file.read()
    far = cloister.Client(url=URL, token=os.environ["CLOISTER_TEST_TOKEN"], ca=ca)
    assert far.dispatch(subagent=agent(far, "far", "echo far")).stdout == "far\n"
    assert refused(cloister.Client(url=URL, token="wrong", ca=ca).version).status == 401
    assert refused(cloister.Client(url=URL, token="x").version).code == "unreachable"
