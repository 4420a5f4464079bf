"""Every cell's timeline: its contents, its timing, and a full disk.  test_audit.py shows that changes
to a timeline are found."""
import ctypes
import hashlib
import json
import os
import signal
import subprocess
import time
import uuid

import pytest

from egress_lab import CURL, await_event, helpers_of
from operators import IS_ROOT, is_alive, only_user, read_until, wait_until
from test_limits import can_limit

OPEN = "  - allow: up.example.test\n  - allow: www.example.test\n"
only_root = pytest.mark.skipif(not IS_ROOT, reason="mounts, or looks into what others do")


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(text):
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def records(operator, cell=None):
    """Of CELL, or of the only cell that has ended: the records, in order."""
    entries = [*operator.state.glob(f"{cell or '*'}.*"),
               *(operator.state / "ended").glob(f"{cell or '*'}.*")]
    assert len(entries) == 1, entries
    files = sorted(entries[0].glob("events.jsonl.[0-9]*"), key=lambda f: int(f.suffix[1:]))
    lines = [line for file in [*files, entries[0] / "events.jsonl"]
             for line in file.read_text().splitlines()]
    found = [json.loads(line) for line in lines]
    assert [canonical(record) for record in found] == lines
    assert [record["n"] for record in found] == list(range(1, len(found) + 1))
    return found


def of_operator(operator, kind):
    text = (operator.base / "data/audit/operator.jsonl").read_text()
    return [e for e in (json.loads(line)["event"] for line in text.splitlines()) if e["type"] == kind]


def types(found):
    return [r["event"]["type"] if r["event"]["type"] != "cell" else r["event"]["did"] for r in found]


def verify(operator):
    operator.cloister("audit", "verify", "--all").ok()


# ---- what is in it ---------------------------------------------------------------------

def test_a_plain_cell(operator):
    operator.sh("exit 3", "--record", "off", "-e", "TOKEN=not-to-be-seen", "--name", "plain", "-v", "/etc/hostname:/h:ro")
    found = records(operator)
    assert types(found) == ["cell.boot", "record", "cell.end", "checkpoint"]
    boot, end = found[0]["event"], found[2]["event"]
    grant = boot["grant"]
    assert grant["argv"] == ["sh", "-c", "exit 3"] and "TOKEN" in grant["env"] and grant["name"] == "plain"
    assert grant["grants"] == [{"access": "ro", "cell": "/h", "host": "/etc/hostname"}]
    assert grant["limits"]["pids"] == 1024 and "policy" not in grant and len(boot["build"]) == 40
    assert boot["uid"] == operator.uid and boot["hash"] == digest(canonical(grant))
    assert end == {"status": 3, "type": "cell.end"}
    assert "not-to-be-seen" not in json.dumps(found)
    started, ended = of_operator(operator, "cell.started"), of_operator(operator, "cell.ended")
    assert [s["cell"] for s in started] == [found[0]["cell"]] and started[0]["grant"] == boot["hash"]
    assert started[0]["key"] == found[3]["event"]["key"]
    assert ended[0]["size"] == 4 and ended[0]["status"] == 3
    verify(operator)
    shown = operator.cloister("events", "plain").ok().splitlines()
    assert "cell started: sh -c exit 3" in shown[0] and "cell ended with 3" in shown[2] and len(shown) == 3
    # Only what is in force.
    limited = {"cpus_milli", "io", "memory"} if can_limit(operator) else set()
    assert set(grant["limits"]) == {"disk", "pids", "time_ms"} | limited


def test_actions_on_a_cell(operator):
    cell = operator.detach("--record", "off", "--", "sh", "-c", "echo ready; exec sleep 1000")
    wait_until(lambda: "ready" in operator.cloister("logs", cell).out, "it runs")
    operator.cloister("exec", cell, "--", "echo", "a b").ok()
    frozen = operator.cloister("freeze", cell).status == 0
    if frozen:
        operator.cloister("thaw", cell).ok()
    operator.cloister("stop", cell).ok()
    found = records(operator, cell)
    did = ["exec", *(["frozen", "thawed"] if frozen else []), "stopped"]
    assert types(found) == ["cell.boot", "record", *did, "cell.end", "checkpoint"]
    assert found[2]["event"]["argv"] == ["echo", "a b"]
    for record in found[2:-2]:
        assert record["event"]["by"].startswith(f"uid {operator.uid}, pid "), record
    assert found[-2]["event"]["status"] == 143
    assert found[-2]["event"]["cause"] == "an operator ended it"
    verify(operator)
    # What is discarded is not what happened.
    operator.cloister("discard", cell).ok()
    assert records(operator, cell) == found
    verify(operator)


def test_a_cell_that_is_killed(operator):
    cell = operator.detach("--record", "off", "--", "sleep", "1000")
    operator.cloister("kill", cell).ok()
    operator.cloister("wait", cell)
    found = records(operator, cell)
    assert types(found)[-3:] == ["killed", "cell.end", "checkpoint"]
    assert found[-2]["event"]["status"] == 137


@pytest.mark.parametrize("options, cause", [
    (["--time", "200ms"], "time limit"), (["--pids", "3"], "limit of processes")], ids=["time", "pids"])
def test_a_limit_that_struck(operator, options, cause):
    operator.run(*options, "--", "sh", "-c", "for i in 1 2 3 4 5 6; do sleep 2 & done; wait")
    end = records(operator)[-2]["event"]
    if options[0] == "--pids" and "cause" not in end:
        pytest.skip("processes are not counted here")
    assert cause in end["cause"]


def test_a_cell_that_cannot_start(operator):
    operator.run("--", "/no/such/program")
    assert records(operator)[-2]["event"]["status"] == 127
    verify(operator)


def test_without_a_place_for_it(operator):
    """A cell without a network needs none to run."""
    operator.state.chmod(0o500)
    operator.env["CLOISTER_STATE_DIR"] = "/proc/none"
    done = operator.sh("echo out")
    operator.state.chmod(0o700)
    assert done.status == 0 and done.out == "out\n" and "timeline" in done.err


def test_a_killed_supervisor(operator):
    process = operator.start("-q", "--record", "off", "--", "sh", "-c", "echo ready; exec sleep 1000", stdout=subprocess.PIPE)
    read_until(process.stdout.fileno(), b"ready")
    wait_until(lambda: types(records(operator)) == ["cell.boot", "record"], "it has a timeline")
    cell = records(operator)[0]["cell"]
    process.kill()
    process.wait()
    entry = next(operator.state.glob(f"{cell}.*"))
    with open(entry / "events.jsonl", "ab") as file:
        file.write(b'{"cell":"' + cell.encode() + b'","event":{"ty')        # it was killed at that
    operator.run("--", "true").ok()
    lost = of_operator(operator, "cell.lost")
    assert [(e["cell"], e["size"]) for e in lost] == [(cell, 2)]
    assert types(records(operator, cell)) == ["cell.boot", "record"]
    verify(operator)
    operator.run("--", "true").ok()
    assert len(of_operator(operator, "cell.lost")) == 1


# ---- how long it is kept -------------------------------------------------------------------

def test_the_oldest_go(operator):
    ended = operator.folder("state/ended")
    ended.chmod(0o700)
    for n in range(1100):
        entry = ended / f"old{n:05}."
        entry.mkdir(mode=0o700)
        operator.own(entry)
        operator.own(entry / "events.jsonl") if (entry / "events.jsonl").write_text("") else None
    operator.run("--", "true").ok()
    if os.stat(ended).st_nlink < 3:
        pytest.skip("folders are not counted here, so it is now and then")
    assert len(os.listdir(ended)) == 1000
    gone = of_operator(operator, "cell.pruned")
    assert len(gone) == 101 and all(e["why"] == "retention" for e in gone)
    operator.run("--", "true").ok()
    # Now and then somebody looks even where it is not yet time.
    assert len(os.listdir(ended)) in (1000, 1001)


# ---- strict ------------------------------------------------------------------------------------

STRICT = OPEN + "audit: strict\n"
# What the server finds in the timeline at the moment that a request comes.
LOOK = """
import glob, json
def judge(method, url, fields, body):
    lines = [line for name in glob.glob(STATE + "/*/events.jsonl") for line in open(name)]
    found = [json.loads(line)["event"] for line in lines]
    path = url.split(".test", 1)[1]
    return [e for e in found if e.get("path") == path and e["type"] == "intent"]
"""


@only_root
def test_the_record_is_there_before_the_request(online):
    path = online.lab.judge(LOOK, STATE=str(online.operator.state))
    online.start(STRICT, "sleep", "1000")
    for n in range(3):
        for scheme, method in (("http", "GET"), ("http", "POST")):
            words = ["-d", "body"] if method == "POST" else []
            said = online.inside(*CURL, *words, f"{scheme}://up.example.test{path}/{n}{method}").ok()
            found = json.loads(said)
            assert len(found) == 1 and found[0]["method"] == method and found[0]["of"] == "http"
    done = [await_event(online, type="http", path=f"{path}/{n}GET") for n in range(3)]
    intents = online.events(type="intent", method="GET")
    assert [e["request"] for e in done] == [e["request"] for e in intents]
    # And not so where nobody asked for it.
    online.start(OPEN, "sleep", "1000")
    assert json.loads(online.inside(*CURL, f"http://up.example.test{path}/x").ok()) == []
    verify(online.operator)


@only_root
@pytest.mark.parametrize("mode", ["strict", "batched"])
def test_records_are_on_the_disk(online, mode):
    """The test waited for each of them, one after the other."""
    urls = [f"http://up.example.test/204?{n}" for n in range(5)]
    log = online.operator.home / "trace"
    policy = online.policy(f"{OPEN}audit: {mode}\n")
    done = online.operator.do("strace", "-f", "-qq", "-e", "trace=fdatasync", "-e", "signal=none", "-o", log,
                              online.operator.program, "run", "-q", "-p", policy, "--", *CURL, *urls)
    if "ptrace" in done.err:
        pytest.skip("nobody may be traced here")
    assert done.status == 0, done
    made = sum("fdatasync(" in line for line in log.read_text().splitlines())
    # The operator's timeline is signed now and then.
    assert made >= len(urls) if mode == "strict" else made < 3


def test_one_alone_after_many(online):
    """It waits for others that do not come, not for long."""
    online.start(STRICT, "sleep", "1000")
    for n in range(3):
        online.inside("curl", "-sS", "-Z", "--parallel-max", "32", "-o", "/dev/null", "--max-time", "20",
                      f"http://up.example.test/204?{n}-[1-64]").ok()
        online.inside("curl", "-sS", "--max-time", "20", f"http://up.example.test/204?{n}-alone").ok()
    assert len(online.events(type="intent")) == 3 * 65


def test_strict_with_a_tunnel(online):
    rules = "  - allow: up.example.test:80\n    protocol: tcp\naudit: strict\n"
    online.run(rules, "/usr/bin/python3", "-c", """
import socket
s = socket.create_connection(("up.example.test", 80))
s.sendall(b"GET /204 HTTP/1.1\\r\\nHost: up.example.test\\r\\nConnection: close\\r\\n\\r\\n")
print(s.recv(100).split(b"\\r\\n")[0].decode())
""").ok()
    kinds = [(e["type"], e.get("of")) for e in online.events() if e["type"] in ("intent", "tcp")]
    assert kinds == [("intent", "tcp"), ("tcp", None)]


LOAD = ["sh", "-c", "for i in 1 2 3 4; do (while :; do curl -s -o /dev/null --max-time 5 "
        "'http://up.example.test/204?'$i-[1-50]; done) & done; echo ready; wait"]


def kill_all_of(operator, cell):
    pids = operator.pids(cell)
    os.kill(operator.cell(cell)["supervisor"], signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)), "all of it is gone")


@only_root
@pytest.mark.parametrize("victim", ["courier", "supervisor"])
def test_killed_under_load(online, victim):
    """Every request that the server saw was recorded before, and the records form one chain."""
    operator = online.operator
    seen = len(online.lab.seen("/204?"))
    online.start(STRICT, *LOAD)
    for _ in range(4 if victim == "courier" else 1):
        before = len(online.lab.seen("/204?"))
        wait_until(lambda: len(online.lab.seen("/204?")) > before + 50, "it is at work")
        if victim == "courier":
            os.kill(wait_until(lambda: helpers_of(operator, online.cell).get("courier"), "it is there"),
                    signal.SIGKILL)
    if victim == "courier":
        operator.cloister("kill", online.cell).ok()
        operator.cloister("wait", online.cell)
    else:
        kill_all_of(operator, online.cell)
        operator.run("--", "true").ok()
    asked = len(online.lab.seen("/204?")) - seen
    intents = [r for r in records(operator, online.cell) if r["event"]["type"] == "intent"]
    assert len(intents) >= asked > 50
    verify(operator)


PACKED = ("printf x | gzip -c >/tmp/x; curl -s -o /dev/null -H 'Content-Encoding: gzip' "
          "--data-binary @/tmp/x http://up.example.test/echo")


def say_as(pid, fd, word):
    """As if the process, which may say nothing there, had been taken over."""
    libc = ctypes.CDLL(None, use_errno=True)
    other = libc.syscall(438, os.pidfd_open(pid), fd, 0)    # pidfd_getfd
    assert other >= 0, os.strerror(ctypes.get_errno())
    os.write(other, word)
    os.close(other)


@pytest.mark.parametrize("victim", ["gate", "inspect", "courier", pytest.param("liar", marks=only_root)])
def test_a_helper_ends(online, victim):
    """A helper that reads the agent's bytes cannot take the record of a request under way with it, and its end is
    recorded."""
    operator = online.operator
    online.start(OPEN, "sleep", "1000")
    online.inside("sh", "-c", PACKED).ok()
    mark = uuid.uuid4().hex
    under_way = operator.spawn(operator.program, "exec", online.cell, "--", *CURL,
                               f"http://up.example.test/stall?{mark}", stdout=-1, stderr=-1)
    wait_until(lambda: online.lab.seen(mark), "the request arrives")
    if victim == "liar":
        say_as(helpers_of(operator, online.cell)["gate"], 3, b"x")
    else:
        os.kill(helpers_of(operator, online.cell)[victim], signal.SIGKILL)
    under_way.communicate(timeout=20)
    assert under_way.returncode != 0
    end = await_event(online, type="cell", did="egress broke off")
    if victim != "liar":
        assert (end["by"], end["note"]) == ({"inspect": "inspector"}.get(victim, victim), "signal 9")
    cut = [e["note"] for e in online.events(type="http", path="/stall")]
    assert cut == ([] if victim == "courier" else ["it was cut off"])


@only_root
@pytest.mark.parametrize("left", ["nothing", "zeros"])
def test_the_machine_stops(online, left):
    """The disk may have the size of a growing file and not its contents, or neither: only synced data is certain."""
    operator = online.operator
    seen = len(online.lab.seen("/204?"))
    online.start(STRICT, *LOAD)
    wait_until(lambda: len(online.lab.seen("/204?")) > seen + 100, "it is at work")
    verify(operator)
    kill_all_of(operator, online.cell)
    asked = len(online.lab.seen("/204?")) - seen
    entry, = operator.state.glob(f"{online.cell}.*")
    timeline, copy = entry / "events.jsonl", entry / "events.jsonl.sync"
    place = int(copy.read_bytes().split(b"\n")[0])
    size = timeline.stat().st_size
    assert place < size
    os.truncate(timeline, place)
    if left == "zeros":
        os.truncate(timeline, size)
    operator.run("--", "true").ok()
    intents = [r for r in records(operator, online.cell) if r["event"]["type"] == "intent"]
    assert len(intents) >= asked > 100
    assert not [*operator.state.rglob(copy.name)]
    verify(operator)


# ---- no room ---------------------------------------------------------------------------------------

@pytest.fixture
def small(online):
    """The operator's state folder is a small disk; what fills it, and what empties it again."""
    if not IS_ROOT:
        pytest.skip("only root mounts")
    operator, enter = online.operator, online.lab.enter

    def do(*argv):
        return subprocess.run([*enter, "--", *argv], check=True, stdout=subprocess.PIPE, text=True).stdout

    do("mount", "-t", "tmpfs", "-o", f"size=1m,mode=700,uid={operator.uid},gid={operator.gid}", "tmpfs",
       str(operator.state))

    class Small:
        @staticmethod
        def fill():
            do("sh", "-c", f"head -c 2000000 /dev/zero >{operator.state}/filler 2>/dev/null || :")

        @staticmethod
        def empty():
            do("rm", f"{operator.state}/filler")

        @staticmethod
        def policy(cell):
            """The hash of the policy beside the timeline; "" without one."""
            words = do("sh", "-c", f"cd {operator.state}; sha256sum {cell}.*/policy ended/{cell}.*/policy 2>/dev/null || :")
            return words and "sha256:" + words.split()[0]

        @staticmethod
        def records(cell):
            text = do("sh", "-c", f"cat {operator.state}/{cell}.*/events.jsonl || "
                      f"cat {operator.state}/ended/{cell}.*/events.jsonl")
            return [json.loads(line)["event"] for line in text.splitlines()]

    yield Small
    operator.close()
    wait_until(lambda: not operator.running(), "all cells are gone")
    for _ in range(100):
        if subprocess.run([*enter, "--", "umount", str(operator.state)], check=False).returncode == 0:
            break
        time.sleep(0.05)


def ask(online, path="/204"):
    """The status of a request, and what is said."""
    done = online.inside(*CURL, "-w", "\n%{http_code}", f"http://up.example.test{path}")
    said, _, status = done.out.rpartition("\n")
    return status, said


@pytest.mark.parametrize("mode", ["strict", "batched"])
def test_a_full_disk_stops_egress(online, small, mode):
    online.start(f"{OPEN}audit: {mode}\n", "sleep", "1000")
    assert ask(online)[0] == "204"
    small.fill()
    # What there is room for goes on; then it is told.
    long = "/204?" + "x" * 10
    for _ in range(400):
        status, said = ask(online, "/echo" + "/y" * 500)
        if status == "403":
            break
    assert status == "403" and "no room on the disk" in json.loads(said)["reason"], said
    saw = len(online.lab.seen(long))
    assert [ask(online, long)[0] for _ in range(20)] == ["403"] * 20
    assert len(online.lab.seen(long)) == saw
    stopped = [e for e in small.records(online.cell) if e.get("did") == "egress stopped"]
    assert len(stopped) == 1 and "no room" in stopped[0]["note"]
    # The kill switch and all else do not wait for a disk.
    assert online.inside("echo", "alive").ok() == "alive\n"
    small.empty()
    wait_until(lambda: ask(online)[0] == "204", "it goes on")
    kinds = [e.get("did") or e["type"] for e in small.records(online.cell)]
    assert kinds.index("egress stopped") < kinds.index("egress resumed")
    counted = wait_until(lambda: [e for e in small.records(online.cell) if e.get("why") == "audit"], "it is told")
    assert counted[0]["type"] == "many" and counted[0]["count"] >= 20
    verify(online.operator)


@pytest.mark.parametrize("mode", ["strict", "batched"])
def test_a_cell_that_starts_on_a_full_disk(online, small, mode):
    """Nothing leaves before its timeline and its policy are stored, also if there is room later."""
    small.fill()
    online.start(f"{OPEN}audit: {mode}\n", "sleep", "1000")
    assert ask(online)[0] == "403"
    small.empty()
    wait_until(lambda: ask(online)[0] == "204", "it goes on")
    [boot] = [e for e in small.records(online.cell) if e["type"] == "cell.boot"]
    assert small.policy(online.cell) == boot["grant"]["policy"]
    # The room for the last records is kept from now on.
    small.fill()
    online.operator.cloister("stop", online.cell).ok()
    assert [e["type"] for e in small.records(online.cell)[-2:]] == ["cell.end", "checkpoint"]
    verify(online.operator)
    small.empty()


def test_a_cell_that_ends_on_a_full_disk(online, small):
    online.start(OPEN, "sleep", "1000")
    assert ask(online)[0] == "204"
    small.fill()
    online.operator.cloister("stop", online.cell).ok()
    found = small.records(online.cell)
    assert [e["type"] for e in found[-2:]] == ["cell.end", "checkpoint"]
    verify(online.operator)
    small.empty()


# ---- the policy beside it ------------------------------------------------------------------------------

@pytest.mark.parametrize("changed", [False, True])
def test_the_policy_is_the_one_that_is_recorded(online, changed):
    operator = online.operator
    online.start(OPEN, "sleep", "1000")
    assert ask(online)[0] == "204"
    if changed:
        operator.cloister("deny", online.cell, "up.example.test").ok()
        assert ask(online)[0] == "403"
    operator.cloister("stop", online.cell).ok()
    verify(operator)
    found = [r["event"] for r in records(operator, online.cell)]
    newest = [e for e in found if e["type"] == "steer"][-1] if changed else found[0]["grant"]
    [path] = operator.state.glob(f"**/{online.cell}.*/policy")
    assert newest["policy"] == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    said = operator.cloister("audit", "verify", online.cell)
    assert said.status == 1 and f"{path}: this is not the policy that record" in said.out, said


# ---- how much ------------------------------------------------------------------------------------------

def test_a_timeline_has_an_end(online):
    online.start(OPEN + "audit: {max: 1M}\n", "sleep", "1000")
    path = "/echo" + "/x" * 500
    online.inside(*CURL, "-o", "/dev/null", f"http://up.example.test{path}/[1-900]", seconds=120)
    status, said = ask(online)
    assert status == "403" and "audit: {max: 1M}" in json.loads(said)["reason"]
    entry = next(online.operator.state.glob(f"{online.cell}.*"))
    assert (1 << 20) - 4096 < (entry / "events.jsonl").stat().st_size < (1 << 20) + 65536
    for _ in range(20):
        assert ask(online)[0] == "403"
    online.operator.cloister("stop", online.cell).ok()
    found = records(online.operator, online.cell)
    assert types(found)[-2:] == ["cell.end", "checkpoint"]
    assert [r["event"]["count"] for r in found if r["event"].get("why") == "audit"][0] >= 20
    verify(online.operator)


def test_a_flood_of_refusals_is_counted(online):
    many = 3000
    online.run("  - deny: up.example.test\n    paths: [/same]\n" + OPEN, "/usr/bin/python3", "-c", f"""
import http.client
c = http.client.HTTPConnection("up.example.test")
for n in range({many}):
    c.request("GET", "/same")
    assert c.getresponse().read()
""", seconds=120).ok()
    denied = online.events(type="http", verdict="deny")
    assert len(denied) < 200 and sum(e.get("count", 1) for e in denied) == many
    verify(online.operator)


@only_user
def test_a_service_user_without_a_home(operator):
    """`adduser --system --no-create-home` gives one that does not exist: what to set is said, and helps."""
    def run(*more):
        return operator.do("env", *(f"--unset={name}" for name in ("CLOISTER_STATE_DIR", "CLOISTER_DATA_DIR", "XDG_STATE_HOME",
                                                                   "XDG_DATA_HOME")), "HOME=/nonexistent", *more, operator.program,
                           "run", "--no-policy", "--name", "svc", "--", "true")
    told = run()
    assert "the cell has no timeline: cannot make '/nonexistent'" in told.err
    assert "set CLOISTER_RUNTIME_DIR or CLOISTER_STATE_DIR" in told.err and "set CLOISTER_DATA_DIR" in told.err
    folders = [f"CLOISTER_STATE_DIR={operator.base}/data/svc-state", f"CLOISTER_DATA_DIR={operator.base}/data/svc"]
    told = run(*folders)
    assert told.status == 0 and "timeline" not in told.err, told
    events = operator.do("env", *folders, operator.program, "audit", "show", "svc")
    assert "boot" in events.ok(), events
