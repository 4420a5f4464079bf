"""How soon a secret is of no use any more, and how soon many cells stand still: for bench_9_steer.py."""
import secrets
import subprocess
import time

from bench import Samples, Unmeasured
from bench_2_crowd import populate, wait_until_gone
from bench_5_egress import NAME, Cell
from lab import await_quiet

CONNECTIONS = 32

# Requests with the placeholder of the key that it is told, one behind the other, until one is refused:
# when that was.
PROBE = """
import http.client, os, ssl, sys, time
host, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
told = False
c = http.client.HTTPSConnection(host, port, context=ssl.create_default_context(), timeout=60)
while True:
    c.request("GET", "/small", headers={"Authorization": "Bearer " + os.environ[name]})
    answer = c.getresponse()
    answer.read()
    if answer.status == 403:
        print(time.monotonic_ns())
        break
    if answer.status != 200: sys.exit(f"status {answer.status}")
    if not told:
        told = True
        print("ready", flush=True)
"""


class Keys(Cell):
    """A cell with N secrets, each good for one revocation."""

    def __init__(self, lab, top, origin, n):
        super().__init__(lab, top, origin)
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
    """Milliseconds from the command to the first request that was refused."""
    probe = cell.who.popen([*cell.prefix(), "/usr/bin/python3", "-c", PROBE, NAME, origin, name],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if probe.stdout.readline() != "ready\n":
            raise Unmeasured(f"the probe: {probe.communicate(timeout=10)[1].strip()[-200:]}")
        began = time.monotonic_ns()
        done = cell.who.run([lab.cloister, "revoke", cell.id, name])
        said = probe.communicate(timeout=60)[0].split()
    finally:
        probe.kill()
        probe.wait()
    if done.returncode != 0 or not said:
        raise Unmeasured(f"revoke: {done.stderr.strip()}")
    return (int(said[-1]) - began) / 1e6


def revoke(lab, report, top, origin, busy_with):
    n = report.pick(20, 5)
    took = Samples()
    with Keys(lab, top, origin, n) as cell:
        await_quiet()
        with busy_with(cell, f"https://{NAME}:{origin}/small", report.pick(20, 8)) as busy:
            for name in cell.names:
                took.append(revoke_one(lab, cell, origin, name))
        busy.lost()
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
