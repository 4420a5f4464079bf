"""`cloister pause` of a virtual machine: its memory goes to the disk, and comes back to the same processes."""
import contextlib
import hashlib
import hmac
import os
import re
import secrets
import signal
import socket
import subprocess
import urllib.request

import pytest

from egress_lab import CURL, Online
from operators import IS_ROOT, SECONDS, children_of, descendants_of, is_alive, wait_until
from ports import free_port
from test_egress_secrets import UP, canary, give
from test_egress_webhooks import SERVER as HOOK_SERVER

pytestmark = [pytest.mark.skipif(not os.environ.get("CLOISTER_TEST_VM"), reason="takes long: `make test-vm`"),
              pytest.mark.parametrize("who", ["root"] if IS_ROOT else ["user"])]
LONG = SECONDS * 6
MIB = 1 << 20
# How often a process is killed: CLOISTER_TEST_KILLS makes it more.
KILLS = int(os.environ.get("CLOISTER_TEST_KILLS", 50))
# Random bytes in the guest's memory, and a count that goes on.
AGENT = """
head -c 40000000 /dev/urandom >/tmp/random; sha256sum /tmp/random >sum; exec 3<sum; rm sum
n=0; while :; do n=$((n+1)); echo $n >count; sleep 0.1; done
"""


@pytest.fixture
def boundary():
    return "microvm"


class Machine:
    def __init__(self, operator, script=AGENT, *options):
        self.operator, self.work = operator, operator.folder("work")
        self.id = operator.detach("--memory", "256M", "-w", f"{self.work}:rw", *options, "--", "sh", "-c", script,
                                  seconds=LONG)
        self.supervisor = operator.cell(self.id)["supervisor"]
        self.monitor, = [pid for pid in descendants_of(self.supervisor) if "/qemu-system-" in program(pid)]

    def do(self, *words, **how):
        return self.operator.cloister(*words, seconds=LONG, **how)

    def state(self):
        cell = self.operator.cell(self.id)
        return cell and cell["state"]

    def is_settled(self):
        """No process moves its memory."""
        return not any(program(pid).endswith("-supervisor") for pid in children_of(self.supervisor))

    def count(self):
        return int((self.work / "count").read_text() or 0) if (self.work / "count").exists() else 0

    def goes_on(self):
        before = self.count()
        wait_until(lambda: self.count() > before, "it goes on", LONG)

    def shared(self):
        """Bytes of the guest's memory that are in this machine's."""
        with open(f"/proc/{self.monitor}/smaps_rollup") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Shmem:"))

    def file(self):
        """(Size on the disk, mode) of the file with the memory, which has no name; None: there is none."""
        for fd in os.listdir(f"/proc/{self.supervisor}/fd"):
            path = f"/proc/{self.supervisor}/fd/{fd}"
            if os.readlink(path).endswith("/memory (deleted)"):
                found = os.stat(path)
                return found.st_blocks * 512, found.st_mode & 0o777
        return None


def program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def test_memory_goes_to_the_disk_and_comes_back(operator):
    """The same processes, files and open descriptors; a request wakes it, and an operator's freeze outlasts that."""
    m = Machine(operator)
    wait_until(lambda: m.count() > 0, "it counts", LONG)
    assert m.shared() > 40 * MIB
    m.do("pause", m.id).ok()
    assert m.state() == "paused" and m.shared() < MIB
    size, mode = m.file()
    assert size > 40 * MIB and mode == 0o600
    stands = m.count()
    assert m.do("pause", m.id).ok() == ""                      # it is already
    assert "resume" in m.do("thaw", m.id).err and m.count() == stands
    m.do("resume", m.id).ok()
    assert m.state() == "running" and m.file() is None
    m.goes_on()
    check = "sha256sum /tmp/random; cat /proc/$(pgrep -of count)/fd/3"
    mine, first = m.do("exec", m.id, "sh", "-c", check).ok().split("/tmp/random\n")[:2]
    assert mine.split() == first.split()
    # An exec wakes it.
    m.do("pause", m.id).ok()
    assert m.do("exec", m.id, "echo", "awake").ok() == "awake\n" and m.state() == "running"
    # Not if an operator froze it.
    m.do("pause", m.id).ok()
    m.do("freeze", m.id).ok()
    assert "is frozen" in m.do("exec", m.id, "true").err and m.state() == "paused"
    m.do("resume", m.id).ok()
    assert m.state() == "frozen"
    m.do("thaw", m.id).ok()
    m.goes_on()
    # `thaw` takes that back, and the cell stays paused.
    m.do("pause", m.id).ok()
    m.do("freeze", m.id).ok()
    m.do("thaw", m.id).ok()
    assert m.state() == "paused" and "resume" in m.do("thaw", m.id).err
    assert m.do("exec", m.id, "echo", "awake").ok() == "awake\n" and m.state() == "running"
    m.goes_on()
    assert [line for line in m.do("events", m.id).ok().splitlines() if "cell paused by" in line]


def test_whatever_dies_leaves_no_half(operator):
    """The process that moves the memory is killed on its way; then the monitor of a paused cell."""
    m = Machine(operator)
    wait_until(lambda: m.count() > 0, "it counts", LONG)

    def kill_mover(verb):
        before = set(children_of(m.supervisor))
        asks = operator.spawn(operator.program, verb, m.id, stderr=subprocess.PIPE)
        while asks.poll() is None:
            for pid in set(children_of(m.supervisor)) - before:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return asks.returncode, asks.stderr.read().decode()

    status, said = kill_mover("pause")
    if status == 125:
        assert "could not be saved" in said and m.state() == "running" and m.file() is None
        m.goes_on()
    m.do("pause", m.id).ok()
    status, said = kill_mover("resume")
    if status == 125:
        assert "could not be brought back" in said and m.state() == "paused" and m.file() is not None
        m.do("resume", m.id).ok()
    m.goes_on()
    m.do("pause", m.id).ok()
    os.kill(m.monitor, signal.SIGKILL)
    assert m.do("wait", m.id).status == 137
    wait_until(lambda: not is_alive(m.supervisor), "the supervisor is gone")


@pytest.mark.parametrize("words", [("kill", "ID"), ("stop", "ID"), ("kill", "--all"), "-9"])
def test_a_paused_cell_ends(operator, words):
    m = Machine(operator)
    m.do("pause", m.id).ok()
    if words == "-9":
        os.kill(m.supervisor, signal.SIGKILL)
        wait_until(lambda: not is_alive(m.monitor) or operator.cell(m.id) is None, "it is over")
        operator.run("--boundary", "namespace", "--", "true").ok()      # clears what is left
    else:
        m.do(*[m.id if word == "ID" else word for word in words]).ok()
    wait_until(lambda: not is_alive(m.monitor) and not is_alive(m.supervisor), "nothing runs")
    assert operator.cell(m.id) is None


def test_a_full_disk_refuses_and_the_cell_goes_on(operator):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "tmpfs", operator.state], check=True)
    try:
        m = Machine(operator)
        wait_until(lambda: m.count() > 0, "it counts", LONG)
        done = m.do("pause", m.id)
        assert done.status == 125 and "cannot write the memory of the cell" in done.err and "No space" in done.err
        assert m.state() == "running" and m.file() is None
        m.goes_on()
        m.do("kill", m.id).ok()
    finally:
        subprocess.run(["umount", "-l", operator.state], check=True)


def test_connections_are_reset_and_a_client_wakes_it(operator):
    """The gate and the courier end with the pause; a connection to a published port resumes the cell."""
    port = free_port()
    script = ("python3 -m http.server 8000 >/dev/null 2>&1 & "
              "until curl -so /dev/null http://web.example.test/no; do sleep 0.1; done; echo x >asked; "
              "n=0; while :; do n=$((n+1)); echo $n >count; sleep 0.1; done")
    m = Machine(operator, script, "--allow", "GET web.example.test/yes", "--publish", f"{port}:8000")
    wait_until(lambda: m.count() > 0, "it counts", LONG)

    def helpers():
        return [pid for pid in descendants_of(m.supervisor) if program(pid).endswith(("-gate", "-courier"))]

    def fetch():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/asked", timeout=LONG) as answer:
                return answer.read()
        except OSError:
            return None

    wait_until(lambda: fetch() == b"x\n", "the server answers", LONG)
    assert helpers() != []
    m.do("pause", m.id).ok()
    wait_until(lambda: helpers() == [], "they have ended")
    assert fetch() == b"x\n"
    assert m.state() == "running"
    asked = m.do("exec", m.id, "curl", "-so", "/dev/null", "-w", "%{http_code}", "http://web.example.test/no")
    assert asked.out == "403"


# It is busy, has an open connection to the gate, and then does nothing.  Each takes three times the time of --idle-pause.
RESTS = """
export LONGER=6
end=$(($(date +%s)+LONGER)); while [ $(date +%s) -lt $end ]; do :; done; echo x >busy
python3 -c 'import os, socket, time
with socket.create_connection(("web.example.test", 80)): time.sleep(int(os.environ["LONGER"]))'
echo x >talked
exec python3 -c 'import os, socket, time
server = socket.create_server(("127.0.0.1", 8000))
open("serves", "w").close()
while True:
    with server.accept()[0] as client:
        time.sleep(int(os.environ["LONGER"]))
        client.sendall(b"late")'
"""


def test_it_is_paused_when_it_does_nothing(operator):
    """Neither while it computes, nor with a connection to the gate, to a port, or a command of exec."""
    port = free_port()
    m = Machine(operator, RESTS, "--allow", "web.example.test", "--idle-pause", "2s", "--publish", f"{port}:8000")

    def await_pause(number):
        wait_until(lambda: m.do("events", m.id).ok().count("cell paused by --idle-pause") == number, "it is paused", LONG)
        assert m.state() == "paused"

    await_pause(1)
    assert all((m.work / name).exists() for name in ("busy", "talked", "serves"))
    assert m.do("exec", m.id, "sh", "-c", "sleep 6; echo done").ok() == "done\n"
    await_pause(2)
    with socket.create_connection(("127.0.0.1", port), timeout=LONG) as client:
        assert client.recv(9) == b"late"
    await_pause(3)
    assert m.do("events", m.id).ok().count("cell resumed by a request") == 2


def test_a_webhook_wakes_it(operator):
    """The courier that checks its signature starts anew, with the key of then."""
    port, key = free_port(), os.urandom(12).hex()
    operator.cloister("secret", "add", "HOOK", "--scheme", "webhook", "--port", "8000", "--with", "template=github",
                      input=key).ok()
    operator.file("work/server.py", HOOK_SERVER)
    m = Machine(operator, "exec python3 server.py github", "--allow", "web.example.test", "-s", "HOOK", "--publish",
                f"{port}:8000")
    m.do("exec", m.id, "sh", "-c", "until [ -e /tmp/ready ]; do sleep 0.1; done").ok()
    m.do("pause", m.id).ok()

    def post(by):
        body = b"{}"
        signed = hmac.new(by.encode(), body, hashlib.sha256).hexdigest()
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/", data=body,
                                       headers={"X-Hub-Signature-256": f"sha256={signed}"})
        try:
            with urllib.request.urlopen(asked, timeout=LONG) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, b""

    assert post(key) == (200, b"good") and m.state() == "running"
    m.do("pause", m.id).ok()
    assert post("another")[0] in (401, 403)


def test_freeze_all_holds_a_paused_cell(operator):
    m = Machine(operator)
    wait_until(lambda: m.count() > 0, "it counts", LONG)
    m.do("pause", m.id).ok()
    m.do("freeze", "--all").ok()
    assert m.state() == "paused" and "is frozen" in m.do("exec", m.id, "true").err
    m.do("resume", m.id).ok()
    stands = m.count()
    assert m.state() == "frozen" and m.count() == stands
    m.do("thaw", "--all").ok()
    m.goes_on()


def test_changes_during_a_pause_are_in_force_afterwards(operator, lab):
    """A rule, a revoked secret and a budget."""
    online, real = Online(operator, lab), canary()
    lab.file("pausing", "here")
    give(online, real)
    policy = online.policy("  - allow: '*.example.test'\nbudgets:\n  - {per: cell, requests: 100}\n")
    m = Machine(operator, "echo $KEY >key; exec sleep 1000", "-p", policy, "-s", "KEY")
    wait_until(lambda: (m.work / "key").exists() and (m.work / "key").stat().st_size > 0, "it runs", LONG)
    path = lab.judge("def judge(method, url, fields, body):\n    assert fields.get('authorization') == REAL\n", REAL=real)

    def asks(*words):
        return m.do("exec", m.id, *CURL, "-o", "/dev/null", "-w", "%{http_code}", *words).out

    secret = ("-H", f"Authorization: {(m.work / 'key').read_text().strip()}", f"{UP}{path}")

    assert asks(*secret) == "200" and asks("https://www.example.test/pausing") == "200"
    m.do("pause", m.id).ok()
    m.do("revoke", m.id, "KEY").ok()
    m.do("deny", m.id, "www.example.test").ok()
    m.do("budget", m.id, "--raise", "cell", "requests=+7").ok()
    assert m.state() == "paused"
    assert asks("https://www.example.test/pausing") == "403" and m.state() == "running"
    assert asks(*secret) != "200"
    assert re.search(r"requests +\d+ +107 ", m.do("budget", m.id).ok())


def test_random_kills(operator):
    """The mover, or the client that asked, is killed at some moment of a pause or a resume: the guest has what it had."""
    m = Machine(operator)
    wait_until(lambda: m.count() > 0, "it counts", LONG)
    for _ in range(KILLS):
        paused = m.state() == "paused"
        before = set(children_of(m.supervisor))
        asks = operator.spawn(operator.program, "resume" if paused else "pause", m.id, stderr=subprocess.DEVNULL)
        for _ in range(secrets.randbelow(200)):
            movers = [pid for pid in set(children_of(m.supervisor)) - before if program(pid).endswith("-supervisor")]
            if movers:
                break
        for pid in [asks.pid] if secrets.randbelow(2) else movers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        asks.wait()
        wait_until(lambda: m.state() in ("running", "paused") and m.is_settled(), "it is done", LONG)
    if m.state() == "paused":
        m.do("resume", m.id).ok()
    m.goes_on()
    first, mine = m.do("exec", m.id, "sh", "-c", "cat /proc/$(pgrep -of count)/fd/3; sha256sum /tmp/random").ok().splitlines()
    assert first.split()[0] == mine.split()[0]
