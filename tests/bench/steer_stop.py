"""Measures how soon a revoked secret is useless, and how soon many cells are frozen: for bench_9_steer.py."""
import secrets
import subprocess
import threading
import time

from bench import Samples, Unmeasured
from bench_2_crowd import populate, wait_until_gone
from bench_5_egress import NAME, Cell
from lab import await_quiet

CONNECTIONS = 32

# Says so when the first answer came, and when the first refusal did.
PROBE = """
local began, refused = false, false
function say(word) io.stdout:write(word .. "\\n"); io.stdout:flush() end
function response(status)
    if not began then began = true; say("ready") end
    if status == 403 and not refused then refused = true; say("refused") end
end
"""


class Keys(Cell):
    """A cell with N secrets, each good for one revocation."""

    def __init__(self, lab, top, origin, n):
        super().__init__(lab, top, origin)
        probe = top / "probe.lua"
        probe.write_text(PROBE)
        probe.chmod(0o644)
        self.options += ["-v", f"{probe}:/tmp/probe.lua:ro"]
        self.names = [f"KEY{i}" for i in range(n)]
        self.env = {**self.who.env, **{name: "sk_live_" + secrets.token_hex(24) for name in self.names}}
        for name in self.names:
            self.options += ["-s", f"{name}@{NAME}:{origin}"]

    def __enter__(self):
        done = self.who.run([self.lab.cloister, "run", "-q", "-d", *self.options, "--", "sleep", "1000"],
                            env=self.env)
        if done.returncode != 0:
            raise Unmeasured(f"run -d: {done.stderr.strip()}")
        self.id = done.stdout.strip()
        return self


def revoke_one(lab, cell, origin, name):
    """Milliseconds from the command to the first request that was refused, of all connections."""
    busy = cell.who.popen([*cell.prefix(), "sh", "-c", 'exec wrk -t1 -c"$1" -d2s -s /tmp/probe.lua '
                           f'-H "Authorization: Bearer ${name}" "$2"', "sh", CONNECTIONS,
                           f"https://{NAME}:{origin}/small"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    heard = {}
    ready = threading.Event()

    def hear():
        for line in busy.stdout:
            heard.setdefault(line.strip(), time.monotonic_ns())
            if "ready" in heard:
                ready.set()
        ready.set()
    listener = threading.Thread(target=hear)
    listener.start()
    ready.wait()
    time.sleep(0.5)
    # A shell that is there already: Python takes its time to start something.
    shell = cell.who.popen(["sh", "-c", 'read go; exec "$@"', "sh", lab.cloister, "revoke", cell.id, name],
                           stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    time.sleep(0.2)
    began = time.monotonic_ns()
    said = shell.communicate("\n")[1]
    listener.join()
    said += busy.stderr.read()
    busy.wait()
    if shell.returncode != 0 or "refused" not in heard:
        raise Unmeasured(f"revoke: {said.strip()[-200:]}")
    return (heard["refused"] - began) / 1e6


def revoke(lab, report, top, origin):
    took = Samples()
    with Keys(lab, top, origin, report.pick(20, 5)) as cell:
        await_quiet()
        for name in cell.names:
            took.append(revoke_one(lab, cell, origin, name))
    report.row(f"revoke to the first refusal, {CONNECTIONS} connections busy", took.median, "ms", took.spread,
               bar="value < 5")


def freeze(lab, report):
    """As root: where users have no cgroup of their own, theirs cannot be frozen."""
    who = next((who for who in lab.users if who is not lab.user), lab.user)
    n, took = report.pick(500, 50), {"freeze": Samples(), "thaw": Samples()}
    populate(lab, who, n)
    try:
        await_quiet()
        for _ in range(report.pick(5, 2)):
            for verb, samples in took.items():
                began = time.monotonic_ns()
                done = who.run([lab.cloister, verb, "--all"])
                samples.append((time.monotonic_ns() - began) / 1e6)
                if done.returncode != 0:
                    raise Unmeasured(f"{verb} --all: {done.stderr.strip()[-200:]}")
    finally:
        who.run([lab.cloister, "kill", "--all"])
        wait_until_gone(lab, who)
    report.row(f"freeze --all of {n} cells", took["freeze"].median, "ms", took["freeze"].spread,
               bar="value < 500")
    report.row(f"thaw --all of {n} cells", took["thaw"].median, "ms", took["thaw"].spread)
