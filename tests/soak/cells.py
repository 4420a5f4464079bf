"""The ways in which a cell may live and end.  Each is a function of one Trial, and
raises Complaint when something that must hold does not."""
import contextlib
import json
import os
import signal
import subprocess
import time

TOO_LONG = 40                   # seconds, for anything that ought to take milliseconds
WAYS = []                       # (weight, function)

SLEEP = "exec sleep 3000"
COMMANDS = (
    SLEEP,
    "trap '' TERM INT HUP; sleep 3000 & sleep 3000; sleep 3000",
    # A daemon that left the session and its parents behind.
    "(setsid sh -c 'sleep 3000 & sleep 3000' >/dev/null 2>&1 &); exec sleep 3000",
    "for i in 1 2 3 4 5 6 7 8; do sleep 3000 & done; wait",
    "while :; do /bin/true; done",
    "echo some > /tmp/some; mkdir -p ~/a/b/c; echo words; exec sleep 3000",
)


class Complaint(Exception):
    pass


def way(weight):
    def register(function):
        WAYS.append((weight, function))
        return function
    return register


def pick_way(rng):
    return rng.choices([f for _, f in WAYS], [w for w, _ in WAYS])[0]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def find_roles(pid):
    """{role: pid} of the cell that the process PID is starting, as far as it got."""
    roles, queue = {}, [(pid, "")]
    for p, parent in queue:
        name = comm(p)
        if name.startswith("cloister-superv"):
            roles.setdefault("supervisor", p)
        elif name.startswith("cloister-init") and parent.startswith("cloister-superv"):
            roles.setdefault("init", p)
        elif parent == "cloister-init":
            # Until it has become something else, it is called as its parent is.
            roles.setdefault("agent", p)
            name = "agent"
        queue += [(child, name) for child in children(p)]
    return roles


def strike(pid, sig=signal.SIGKILL):
    """Send SIG to PID; False if it is gone."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        signal.pidfd_send_signal(fd, sig)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)


class Trial:
    """One cell of the soak."""

    def __init__(self, lab, who, rng, number, token):
        self.lab, self.who, self.rng, self.number = lab, who, rng, number
        self.mark = ["-e", f"CLOISTER_SOAK={token}"]
        self.command = ["sh", "-c", rng.choice(COMMANDS)]

    def cloister(self, *argv, timeout=TOO_LONG):
        try:
            return self.who.run([self.lab.cloister, *argv], timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Complaint(f"'{' '.join(map(str, argv))}' hung") from None

    def foreground(self, *options, command=None, **more):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | more
        return self.who.popen([self.lab.cloister, "run", "-q", *self.mark, *options, "--",
                               *(command or self.command)], start_new_session=True, **streams)

    @staticmethod
    def give_up(proc):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(proc.pid, signal.SIGKILL)
        proc.communicate()

    def finish(self, proc, want=None):
        """Wait for the end of PROC and give its status; it must be WANT, if given."""
        try:
            out, _ = proc.communicate(timeout=TOO_LONG)
        except subprocess.TimeoutExpired:
            self.give_up(proc)
            raise Complaint(f"run hung: {' '.join(map(str, proc.args[1:]))}") from None
        if want is not None and proc.returncode != want:
            raise Complaint(f"status {proc.returncode}, not {want}: {(out or b'')[-300:]!r}")
        return proc.returncode

    def detached(self, *options, command=None):
        """The id of a new cell."""
        done = self.cloister("run", "-q", "-d", *self.mark, *options, "--",
                             *(command or self.command))
        if done.returncode != 0:
            raise Complaint(f"run -d: status {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip()

    def listed(self, cell):
        done = self.cloister("ps", "--json")
        if done.returncode != 0:
            raise Complaint(f"ps: status {done.returncode}: {done.stderr.strip()}")
        return next((c for c in json.loads(done.stdout) if c["cell"] == cell), None)

    def expect(self, *argv, want=0):
        done = self.cloister(*argv)
        if done.returncode != want:
            raise Complaint(f"'{' '.join(argv)}': status {done.returncode}, not {want}: "
                            f"{done.stderr.strip()}")
        return done

    def expect_gone(self, cell):
        end = time.monotonic() + TOO_LONG / 4
        while self.listed(cell):
            if time.monotonic() > end:
                raise Complaint(f"cell {cell} is still listed")
            time.sleep(0.02)
        # What was kept for the operator, if the supervisor lived to keep it.
        self.cloister("discard", cell)

    def pause(self, longest=0.03):
        time.sleep(self.rng.uniform(0, longest))

    def workspace(self):
        return self.who.home / "workspace"


@way(10)
def ends_by_itself(t):
    status = t.rng.choice((0, 0, 1, 42, 126))
    t.finish(t.foreground(command=["sh", "-c", f"echo words; exit {status}"]), want=status)


@way(5)
def command_is_missing(t):
    t.finish(t.foreground(command=["no-such-command"]), want=127)


@way(5)
def is_refused(t):
    t.finish(t.foreground("--memory", "nonsense"), want=125)


@way(5)
def command_dies_of_a_signal(t):
    t.finish(t.foreground(command=["sh", "-c", "kill -KILL $$"]), want=137)


@way(5)
def leaves_daemons(t):
    t.finish(t.foreground(command=["sh", "-c", "(setsid sleep 3000 >/dev/null 2>&1 &); exit 3"]),
             want=3)


@way(20)
def part_of_it_is_killed(t):
    """At any moment, also in the middle of being set up."""
    role = t.rng.choice(("supervisor", "init", "agent"))
    proc = t.foreground()
    t.pause()
    end = time.monotonic() + TOO_LONG / 4
    while proc.poll() is None:
        pid = find_roles(proc.pid).get(role)
        if pid and strike(pid):
            break
        if time.monotonic() > end:
            t.give_up(proc)
            raise Complaint(f"no {role} was seen")
    if t.finish(proc) == 0:
        raise Complaint(f"status 0 though the {role} was killed")


@way(10)
def is_signalled(t):
    proc = t.foreground(command=["sh", "-c", SLEEP])
    t.pause()
    strike(proc.pid, t.rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
                                   signal.SIGKILL)))
    if t.finish(proc) == 0:
        raise Complaint("status 0 though it was signalled")


@way(3)
def reader_goes_away(t):
    proc = t.foreground(command=["yes"])
    proc.stdout.read(100)
    proc.stdout.close()
    proc.stdout = None
    t.finish(proc)


@way(2)
def time_is_up(t):
    if t.finish(t.foreground("--time", "1s")) == 0:
        raise Complaint("status 0 though its time was up")


@way(10)
def changes_its_workspace(t):
    name = f"soak-{t.number}"
    command = ["sh", "-c", "echo new > new; rm old; mkdir -p d/e; echo x > d/e/f; mv kept moved"]
    t.finish(t.foreground("--name", name, "-w", t.workspace(), command=command), want=0)
    if "new" not in t.expect("diff", name).stdout:
        raise Complaint("diff does not show what was changed")
    t.expect("discard", name)


@way(8)
def is_killed_while_it_changes_its_workspace(t):
    command = ["sh", "-c", "rm old; i=0; while :; do i=$((i+1)); echo $i > $i; done"]
    role = t.rng.choice(("supervisor", "init", "agent"))
    proc = t.foreground("--name", f"soak-{t.number}", "-w", t.workspace(), command=command)
    t.pause(0.05)
    end = time.monotonic() + TOO_LONG / 4
    while proc.poll() is None and time.monotonic() < end:
        pid = find_roles(proc.pid).get(role)
        if pid and strike(pid):
            break
    t.finish(proc)
    t.cloister("discard", f"soak-{t.number}")


@way(10)
def detached_and_killed(t):
    cell = t.detached()
    t.pause()
    t.expect("kill", cell)
    t.expect_gone(cell)


@way(6)
def detached_and_stopped(t):
    cell = t.detached()
    t.pause()
    t.expect("stop", "-t", t.rng.choice(("0", "1")), cell)
    t.expect_gone(cell)


@way(6)
def detached_and_part_of_it_killed(t):
    cell = t.detached()
    found = t.listed(cell)
    if not found:
        raise Complaint("a new cell is not listed")
    t.pause()
    strike(found[t.rng.choice(("supervisor", "init", "agent"))])
    t.expect_gone(cell)


@way(6)
def visited(t):
    cell = t.detached(command=["sh", "-c", SLEEP])
    t.expect("exec", cell, "--", "true")
    t.expect("exec", cell, "--", "sh", "-c", "exit 7", want=7)
    visit = t.who.popen([t.lab.cloister, "exec", cell, "--", "sleep", "3000"],
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    t.pause()
    t.expect("kill", cell)
    if t.finish(visit) == 0:
        raise Complaint("a visit ended with status 0 though its cell was killed")
    t.expect_gone(cell)


@way(5)
def detached_and_waited_for(t):
    cell = t.detached(command=["sh", "-c", "echo words; sleep 0.05; exit 5"])
    t.cloister("wait", cell)
    if t.expect("logs", cell).stdout != "words\n":
        raise Complaint("the log is not what was printed")
    t.expect("discard", cell)


@way(2)
def outlives_its_ttl(t):
    cell = t.detached("--ttl", "1s")
    t.cloister("wait", cell)
    t.expect_gone(cell)
