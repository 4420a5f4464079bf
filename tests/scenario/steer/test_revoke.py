"""`revoke` and `rotate`: a secret is taken back from a cell that uses it, or has another value."""
import json
import os
import re

from egress_lab import CURL, await_event, helpers_of, needs_npm
from operators import is_alive, only_user, wait_until
from test_egress_agents import CLAUDE
from test_egress_secrets import OPEN, UP, canary, give

SEND = f'{" ".join(CURL)} -H "Authorization: Bearer $KEY" {UP}/echo'
# What goes on until it is cut, each in a thread: all that the cell sends goes with the secret.
BUSY = """
import http.client, os, ssl, sys, threading, time
key, n = os.environ["KEY"], int(sys.argv[1])
began = threading.Barrier(n + 1)
told = [None] * n

def upload(i):
    c = http.client.HTTPSConnection("up.example.test", context=ssl.create_default_context(), timeout=60)
    def pieces():
        yield b"begun"
        began.wait()
        while not os.path.exists("/tmp/enough"):
            yield b"x" * 1000
            time.sleep(0.01)
    try:
        c.request("POST", "/echo", pieces(), {"Authorization": "Bearer " + key}, encode_chunked=True)
        told[i] = "went"
    except OSError as error:
        told[i] = type(error).__name__
    # What it was told is there all the same.
    try:
        answer = c.sock and c.getresponse()
        told[i] = str(answer.status) + answer.read().decode().strip()
    except Exception:
        pass

threads = [threading.Thread(target=upload, args=(i,)) for i in range(n)]
for t in threads: t.start()
began.wait()
open("/tmp/began", "w").close()
for t in threads: t.join()
open("/tmp/told.part", "w").write("\\n".join(told))
os.rename("/tmp/told.part", "/tmp/told")
"""
# Requests one after the other on several connections, until /tmp/stop is there.
LOAD = """
import http.client, json, os, ssl, sys, threading
key, where, n = os.environ["KEY"], sys.argv[1], int(sys.argv[2])
failed, done = [], [0] * n

def work(i):
    c = http.client.HTTPSConnection("up.example.test", context=ssl.create_default_context(), timeout=60)
    while not os.path.exists("/tmp/stop"):
        try:
            c.request("POST", where, b"some", {"Authorization": "Bearer " + key})
            answer = c.getresponse()
            body = answer.read().decode()
            if answer.status != 200: failed.append(f"{answer.status} {body}")
        except Exception as error:
            failed.append(repr(error))
            c.close()
        done[i] += 1
        if done[i] == 3: open(f"/tmp/ready{i}", "w").close()

threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
for t in threads: t.start()
for t in threads: t.join()
print(json.dumps({"done": sum(done), "failed": failed[:5]}))
"""
JUDGE = """
def judge(method, url, fields, body):
    assert fields["authorization"] in GOOD, "a key that is not valid"
    return {"you sent": fields["authorization"]}
"""


def start(online, script, *words, options=("-s", "KEY")):
    """A cell that runs SCRIPT in the background; the secret's real value."""
    # Bodies that are not searched are not held.
    online.start(OPEN + "    secrets: allow\n", "/usr/bin/python3", "-c", script, *words, options=options)


def await_file(online, name):
    wait_until(lambda: online.inside("test", "-e", name).status == 0, f"{name} is there")


def listed(online):
    return json.loads(online.operator.cloister("secret", "list", "--cell", online.cell, "--json").ok())


def inside(online):
    return json.loads(online.inside("sh", "-c", SEND).ok())


@only_user
def test_requests_under_way_are_cut(online):
    """32 uploads with the secret, and none of them continues."""
    real = canary()
    give(online, real)
    start(online, BUSY + "\nimport time\ntime.sleep(1000)", "32")
    await_file(online, "/tmp/began")
    wait_until(lambda: len(online.lab.seen(real)) == 32, "all have begun")
    assert online.operator.cloister("revoke", online.cell, "KEY", "--why", "it leaked").ok() == \
        f"KEY: revoked in cell {online.cell}\n"
    online.inside("touch", "/tmp/enough").ok()
    await_file(online, "/tmp/told")
    told = online.inside("cat", "/tmp/told").ok().splitlines()
    assert len(told) == 32 and "went" not in told
    assert all("has been revoked" in line or line in ("BrokenPipeError", "ConnectionResetError",
                                                      "SSLEOFError") for line in told), told
    # The placeholder is known, and of no use; nothing of the real one is in the cell.
    said = inside(online)
    assert said["error"] == "refused by cloister" and "'KEY' has been revoked" in said["reason"]
    assert "it leaked" not in json.dumps(said)
    wait_until(lambda: len(online.lab.seen(real)) == 32, "all have begun")
    event = await_event(online, type="http", why="revoked")
    assert event["verdict"] == "deny" and real not in json.dumps(event)
    steer, = online.events(type="steer")
    assert (steer["did"], steer["secret"], steer["why"]) == ("revoke", "KEY", "it leaked")
    assert "uid" in steer["by"]
    assert "revoked" in online.operator.cloister("why", online.cell).ok()
    # What does not go with it goes on.
    online.inside(*CURL, f"{UP}/echo").ok()
    online.operator.cloister("rotate", online.cell, "KEY").sentence(f"was revoked in cell {online.cell}")
    online.operator.cloister("kill", online.cell).ok()


@only_user
def test_a_revocation_stays(online):
    """Before the first courier, and after one that died."""
    real = canary()
    give(online, real)
    online.start(OPEN, "sleep", "infinity", options=["-s", "KEY"])
    online.operator.cloister("revoke", online.cell, "OTHER").sentence("has no secret 'OTHER'",
                                                                     f"secret list --cell {online.cell}")
    online.operator.cloister("revoke", online.cell, "KEY").ok()
    assert "has been revoked" in inside(online)["reason"]
    courier = helpers_of(online.operator, online.cell)["courier"]
    os.kill(courier, 9)
    wait_until(lambda: not is_alive(courier), "the courier is dead")
    told = wait_until(lambda: (done := online.inside("sh", "-c", SEND)).status == 0 and json.loads(done.out),
                      "there is another courier")
    assert "has been revoked" in told["reason"]
    assert not online.lab.seen(real)
    online.operator.cloister("kill", online.cell).ok()


@only_user
def test_in_every_cell(online):
    first, second = canary(), canary()
    give(online, first)
    give(online, second, name="OTHER")
    with_it = [online.start(OPEN, "sleep", "infinity", options=["-s", "KEY"]) for _ in range(2)]
    without = online.start(OPEN, "sleep", "infinity", options=["-s", "OTHER=KEY"])
    online.cell = with_it[0]
    inside(online)
    wait_until(lambda: listed(online)[0]["used"] == 1, "it is counted")
    assert listed(online) == [{"name": "KEY", "scheme": "swap", "hosts": ["up.example.test"], "used": 1,
                               "revoked": False}]
    assert online.operator.cloister("revoke", "--all", "KEY").ok() == "revoked in 2 cells\n"
    for cell in with_it:
        online.cell = cell
        assert "has been revoked" in inside(online)["reason"]
    assert [(s["used"], s["revoked"]) for s in listed(online)] == [(0, True)]
    told = online.operator.cloister("secret", "list", "--cell", with_it[0]).ok()
    assert re.fullmatch(r"NAME +SCHEME +USED +STATE +HOSTS\nKEY +swap +1 +revoked +up\.example\.test\n", told)
    assert first not in told
    online.cell = without
    assert "error" not in inside(online) and online.lab.seen(second)
    online.operator.cloister("revoke", "--all", "NONE").sentence("no running cell has a secret 'NONE'")
    online.operator.cloister("revoke", "--all", "KEY", "value").sentence("never given on the command line")
    online.operator.cloister("kill", "--all").ok()


@only_user
def test_rotate_under_load(online):
    """No request is lost, and the judge sees valid keys only."""
    values = [canary() for _ in range(5)]
    where = online.lab.judge(JUDGE, GOOD=[f"Bearer {value}" for value in values])
    give(online, values[0])
    online.start(OPEN, "sh", "-c", "/usr/bin/python3 -c \"$0\" \"$@\" >/tmp/out; touch /tmp/done; "
                 "exec sleep infinity", LOAD, where, "8", options=["-s", "KEY"])
    for i in range(8):
        await_file(online, f"/tmp/ready{i}")
    for value in values[1:-1]:
        online.operator.cloister("secret", "rotate", "KEY", input=value).ok()
        assert online.operator.cloister("rotate", online.cell, "KEY").ok() == f"KEY: rotated in cell {online.cell}\n"
        wait_until(lambda: any(value in line for line in online.lab.seen(where)), "the new value was sent")
    # In one step, and into the vault.
    online.operator.cloister("rotate", "--new", online.cell, "KEY", input=values[-1]).ok()
    seen = len(online.lab.seen(where))
    wait_until(lambda: len(online.lab.seen(where)) > seen + 20, "it goes on")
    late = [line for line in online.lab.seen(where)[seen + 20:] if '"http"' in line]
    assert all(values[-1] in line for line in late)
    online.inside("touch", "/tmp/stop").ok()
    await_file(online, "/tmp/done")
    told = json.loads(online.inside("cat", "/tmp/out").ok())
    assert told["failed"] == [] and told["done"] == len(online.lab.judgements(where))
    assert set(online.lab.judgements(where)) == {200}
    assert [e["did"] for e in online.events(type="steer")] == ["rotate"] * 4
    assert not any(value in online.inside("cat", "/tmp/out").out for value in values)
    # A courier that comes later has it too.
    courier = helpers_of(online.operator, online.cell)["courier"]
    os.kill(courier, 9)
    wait_until(lambda: not is_alive(courier), "the courier is dead")
    again = SEND.replace("/echo", where)
    told = wait_until(lambda: (done := online.inside("sh", "-c", again)).status == 0 and json.loads(done.out),
                      "there is another courier")
    assert "you sent" in told and values[-1] in online.lab.seen(where)[-2]
    online.operator.cloister("kill", online.cell).ok()


@only_user
def test_how_long_it_lives(online):
    cell = online.start(OPEN, "sleep", "infinity", options=["--ttl", "1h"])
    assert online.operator.cloister("ttl", cell, "never").sentence().count("never") == 1
    online.operator.cloister("ttl", cell, "0").sentence("cloister stop")
    assert online.operator.cloister("ttl", cell, "none").ok() == f"cell {cell} has no time to live any more\n"
    assert online.operator.cloister("ttl", cell, "100ms", "--why", "enough").ok() == f"cell {cell} will be stopped in 100ms\n"
    assert online.operator.cloister("wait", cell).status != 0
    assert "time to live was over" in str(online.operator.cloister("ps", "-a", "--json").ok())
    assert [(e["did"], e["ttl_ms"]) for e in online.events(type="steer")] == [("ttl", 0), ("ttl", 100)]


@only_user
@needs_npm("claude")
def test_a_real_agent_is_revoked_in_its_session(online, request):
    """It works with its placeholder; after the revocation its next request ends the session."""
    real = "sk-ant-api03-" + canary()
    keys = online.lab.folder / "model.keys"
    keys.write_text(real)
    request.addfinalizer(keys.unlink)
    online.operator.cloister("secret", "add", "ANTHROPIC_API_KEY", "--like", "anthropic", input=real).ok()
    words = [*CLAUDE, "run [[touch /tmp/asked; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo done]]"]
    options = ["-v", f"{online.lab.folder / 'npm'}:/opt/npm:ro", "-s", "ANTHROPIC_API_KEY",
               "-e", "PATH=/opt/npm/node_modules/.bin:/usr/bin:/bin"]
    online.start("  - include: anthropic\n", "sh", "-c",
                 '"$@" >/tmp/out 2>&1; echo $? >/tmp/status; exec sleep infinity', "sh", *words,
                 options=options)
    wait_until(lambda: online.inside("test", "-e", "/tmp/asked").status == 0, "its tool runs", 60)
    assert online.events(type="http", path="/v1/messages", verdict="allow")
    online.operator.cloister("revoke", online.cell, "ANTHROPIC_API_KEY").ok()
    online.inside("touch", "/tmp/go").ok()
    wait_until(lambda: online.inside("test", "-s", "/tmp/status").status == 0, "it has given up", 120)
    assert online.inside("cat", "/tmp/status").ok().strip() != "0"
    assert "has been revoked" in online.inside("cat", "/tmp/out").ok()
    assert online.events(type="http", path="/v1/messages", why="revoked")
    online.operator.cloister("kill", online.cell).ok()
