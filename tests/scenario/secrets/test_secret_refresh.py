"""Values that end are fetched again while a cell runs; the placeholder stays."""
import json
import os
from pathlib import Path

import pytest

from egress_lab import CURL, await_event, helpers_of
from operators import IS_ROOT, IS_STATIC, is_alive, only_root, wait_until
from test_egress_secrets import OPEN, UP, canary, has

SEND = f'{" ".join(CURL)} -H "Authorization: Bearer $KEY" {UP}/echo'


class Source:
    """A program of the operator's that gives values: each line of PLAN once, the last one for good.

    A line is a value and the seconds that it lives, or "fail"."""

    def __init__(self, online, *plan):
        self.online = online
        self.folder = online.operator.folder("source")
        self.plan = online.operator.file("source/plan", "".join(f"{line}\n" for line in plan))
        self.called = self.folder / "called"
        script = online.operator.file("source/give", f"""#!/usr/bin/python3
import json, sys, time
with open({str(self.called)!r}, "a") as log: log.write("x")
n = len(open({str(self.called)!r}).read())
plan = open({str(self.plan)!r}).read().splitlines()
line = plan[min(n, len(plan)) - 1].split()
if line[0] == "fail":
    print("nothing to be had", file=sys.stderr)
    sys.exit(3)
print(json.dumps({{"token": line[0], "until": int(time.time()) + int(line[1])}}))
""")
        os.chmod(script, 0o755)
        online.operator.file("source/secret.yaml", f"""version: 1
secrets:
  KEY:
    hosts: up.example.test
    in: ['header:authorization']
    from: 'cmd:{script}'
    members: {{secret: /token}}
    expires: /until
""")
        online.operator.cloister("secret", "add", "KEY", "-f", self.folder / "secret.yaml").ok()

    def calls(self):
        return len(self.called.read_text()) if self.called.exists() else 0


def keepers(online):
    """The processes that keep secrets of this operator's cells fresh."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "exe") == str(
                    online.operator.program.resolve().parent / "libexec/cloister-vault"):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def start(online):
    """A cell with the secret, and who keeps it fresh."""
    online.start(OPEN, "sh", "-c", "echo $KEY >/tmp/.key && mv /tmp/.key /tmp/key; exec sleep infinity",
                 options=["-s", "KEY"])
    wait_until(lambda: online.inside("test", "-e", "/tmp/key").status == 0, "the key was written down")
    return keepers(online)


def fetch(online):
    done = online.inside("sh", "-c", SEND)
    return json.loads(done.ok())


def test_a_new_value_takes_its_place(online):
    first, second = canary(), canary()
    source = Source(online, f"{first} 1", f"{second} 3600")
    start(online)
    fake = online.inside("cat", "/tmp/key").ok().strip()
    # Whichever is current, until the second is: nothing in the cell changes with it.
    wait_until(lambda: fetch(online) and online.lab.seen(second), "the second value was sent")
    assert online.inside("sh", "-c", "echo $KEY").ok().strip() == fake
    event = await_event(online, type="secret", verdict="allow")
    assert event["secret"] == "KEY" and second not in json.dumps(event)
    told = fetch(online)
    assert ["authorization", f"Bearer {fake}"] in told["fields"]
    assert source.calls() == 2
    assert "secret KEY" in online.operator.cloister("events", online.cell).ok()
    online.operator.cloister("kill", online.cell).ok()


def test_a_server_that_tells_the_value_before(online):
    """It is good for a while yet, as those are that have been renewed early."""
    first, second = canary(), canary()
    Source(online, f"{first} 1", f"{second} 3600")
    where = online.lab.raw(f"HTTP/1.1 200 OK\r\ncontent-length: {len(first)}\r\n\r\n{first}".encode())
    start(online)
    fake = online.inside("cat", "/tmp/key").ok().strip()
    wait_until(lambda: fetch(online) and online.lab.seen(second), "the second value was sent")
    assert online.inside(*CURL, UP + where).ok().strip() == fake
    online.operator.cloister("kill", online.cell).ok()


def test_a_value_that_lasts_is_not_fetched_again(online):
    real = canary()
    source = Source(online, f"{real} 3600")
    start(online)
    for _ in range(3):
        fetch(online)
    assert online.lab.seen(real) and source.calls() == 1
    assert online.events(type="secret") == []
    online.operator.cloister("kill", online.cell).ok()


def test_an_expired_value_is_refused_until_there_is_another(online):
    first, second = canary(), canary()
    source = Source(online, f"{first} 1", "fail")
    start(online)
    event = await_refusal(online)
    assert event["secret"] == "KEY" and "status 3" in event["note"] and event["why"] == "not-renewed"
    said = wait_until(lambda: (told := fetch(online)).get("error") and told, "it is refused")
    assert "'KEY' has ended" in said["reason"]
    assert await_event(online, type="http", verdict="deny")["why"] == "expired"
    assert "no new value" in online.operator.cloister("events", online.cell).ok()
    assert "has expired" in online.operator.cloister("why", online.cell).ok()
    # It was tried again all the time.
    source.plan.write_text(f"{second} 3600\n")
    wait_until(lambda: fetch(online) and online.lab.seen(second), "the second value was sent")
    online.operator.cloister("kill", online.cell).ok()


def await_refusal(online):
    wait_until(lambda: fetch(online) and online.events(type="secret", verdict="deny"), "it was told")
    return online.events(type="secret", verdict="deny")[0]


def test_a_program_that_another_cell_can_write_by_now(online):
    """It is checked each time, not only when the cell started."""
    source = Source(online, f"{canary()} 1")
    start(online)
    online.operator.run("-v", f"{source.folder}:/w", "--no-policy", "--", "sh", "-c", "echo evil > /w/give").ok()
    event = await_refusal(online)
    assert event["secret"] == "KEY" and "an agent can or could write" in event["note"]
    online.operator.cloister("kill", online.cell).ok()


def test_a_courier_that_starts_later_has_the_current_value(online):
    """The cell's first value has expired by then."""
    first, second, third = canary(), canary(), canary()
    Source(online, f"{first} 1", f"{second} 1", f"{third} 3600")
    start(online)
    wait_until(lambda: fetch(online) and online.lab.seen(third), "the third value was sent")
    courier = [pid for pid in online.operator.pids(online.cell)
               if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "cloister-courier"]
    os.kill(courier[0], 9)
    wait_until(lambda: not is_alive(courier[0]), "the courier is dead")
    told = wait_until(lambda: (done := online.inside("sh", "-c", SEND)).status == 0 and json.loads(done.out),
                      "there is another courier")
    assert "error" not in told, told
    online.operator.cloister("kill", online.cell).ok()


def test_the_keeper_stays_as_long_as_the_cell(online):
    real = canary()
    Source(online, f"{real} 3600")
    keeper, = start(online)
    # Nothing of the operator's terminal is open in it, and nobody but root may look.
    links = {os.readlink(fd) for fd in Path(f"/proc/{keeper}/fd").iterdir()} if IS_ROOT else set()
    assert all(link == "/dev/null" or link.startswith("socket:") for link in links)
    online.operator.cloister("kill", online.cell).ok()
    wait_until(lambda: not is_alive(keeper), "the keeper has gone")


def test_no_keeper_for_secrets_that_do_not_expire(online):
    online.operator.cloister("secret", "add", "KEY", "--host", "up.example.test", input=canary()).ok()
    assert start(online) == set()
    online.operator.cloister("kill", online.cell).ok()


def test_it_goes_with_a_cell_in_the_foreground(online):
    Source(online, f"{canary()} 3600")
    online.sh(OPEN, SEND, options=["-s", "KEY"]).ok()
    wait_until(lambda: not keepers(online), "the keeper has gone")
    # And with one that never came to be.
    online.operator.run("-p", online.policy(OPEN), "-s", "KEY", "--", "/nowhere/at/all")
    wait_until(lambda: not keepers(online), "the keeper has gone")


@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
def test_processes_that_have_the_value(online):
    """The courier and the keeper, and no process between them; expired values are nowhere."""
    first, second = canary(), canary()
    Source(online, f"{first} 1", f"{second} 3600")
    keeper, = start(online)
    wait_until(lambda: fetch(online) and online.lab.seen(second), "the second value was sent")
    courier = helpers_of(online.operator, online.cell)["courier"]
    holders = set()
    for pid in {keeper, *online.operator.pids(online.cell)}:
        try:
            holders |= {pid} if has(pid, second.encode()) else set()
        except OSError:
            pytest.skip("only root may look into processes")
    assert holders == {courier, keeper}
    assert not has(keeper, first.encode())
    online.operator.cloister("kill", online.cell).ok()


@only_root
def test_it_counts_among_the_helpers(online):
    Source(online, f"{canary()} 3600")
    keeper, = start(online)
    groups = Path(f"/proc/{keeper}/cgroup").read_text()
    assert f"cloister-{online.cell}-egress" in groups
    online.operator.cloister("kill", online.cell).ok()


def test_a_program_that_hangs_goes_too(online):
    """For a user without cgroups, nothing else would end it."""
    source = Source(online, f"{canary()} 1")
    pid = source.folder / "pid"
    script = source.folder / "give"
    script.write_text(script.read_text().replace("plan = open", f"""if n > 1:
    import os
    open({str(pid)!r}, "w").write(str(os.getpid()))
    time.sleep(1000)
plan = open"""))
    start(online)
    # It asks as it starts, and nobody waits for the answer here.
    online.operator.spawn(online.operator.program, "exec", online.cell, "--", "sh", "-c", SEND)
    hangs = int(wait_until(lambda: pid.exists() and pid.read_text(), "it hangs"))
    online.operator.cloister("kill", online.cell).ok()
    wait_until(lambda: not is_alive(hangs), "the program is dead")
