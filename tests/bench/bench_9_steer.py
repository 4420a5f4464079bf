"""How soon what an operator changes about a running cell is in force, while it is busy."""
import re
import secrets
import shutil
import subprocess
import threading
import time

from bench import Samples, Unmeasured, group, in_turn
from bench_2_crowd import populate, wait_until_gone
from bench_5_egress import NAME, ORIGIN, Cell, free_port, make_certificates, nginx, running
from lab import await_quiet

CONNECTIONS = 32


class Busy:
    """Requests out of a cell over CONNECTIONS at once, as long as something else is measured."""

    def __init__(self, cell, url, seconds):
        self.argv = [*cell.prefix(), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", url]
        self.who, self.seconds = cell.who, seconds

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        self.done = self.who.run(self.argv, timeout=self.seconds + 60)

    def __exit__(self, *_):
        self.was_busy = self.thread.is_alive()
        self.thread.join()

    def lost(self):
        """How many requests were not answered as they should be."""
        said = self.done.stdout
        if "Requests/sec" not in said or not self.was_busy:
            raise Unmeasured(f"wrk: {(said + self.done.stderr).strip()[-300:]}")
        numbers = re.findall(r"(?:Non-2xx or 3xx responses:|connect|read|write|timeout) (\d+)", said)
        return sum(map(int, numbers))


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


def revoke(lab, report, top, origin):
    n = report.pick(20, 5)
    took = Samples()
    with Keys(lab, top, origin, n) as cell:
        await_quiet()
        with Busy(cell, f"https://{NAME}:{origin}/small", report.pick(20, 8)) as busy:
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


@group("steer")
def steer(lab, report):
    for tool in ("nginx", "wrk", "openssl"):
        if shutil.which(tool) is None:
            raise Unmeasured(f"{tool} is missing")
    top = lab.top / "steer"
    (top / "www").mkdir(parents=True)
    top.chmod(0o755)
    make_certificates(top)
    origin = free_port()
    files = {}
    for name in ("one", "other"):
        files[name] = top / f"{name}.yaml"
        files[name].write_text(f"version: 1\negress:\n  - deny: {name}.example.test\n  - allow: {NAME}:{origin}\n")
        files[name].chmod(0o644)
    seconds, swaps = report.pick((10, 200), (3, 25))
    with running(nginx(top, "origin", ORIGIN.format(port=origin, top=top)), origin), \
         Cell(lab, top, origin) as cell:
        await_quiet()
        commands = {name: [lab.cloister, "policy", "set", cell.id, file] for name, file in files.items()}
        with Busy(cell, f"https://{NAME}:{origin}/small", seconds) as busy:
            took = in_turn(lab, lab.user, commands, swaps)
        lost = busy.lost()
        revoke(lab, report, top, origin)
    freeze(lab, report)
    both = Samples(took["one"] + took["other"])
    report.row(f"policy swap, {CONNECTIONS} connections busy", both.median, "ms", both.spread,
               bar="value < 5")
    report.row("requests lost by it", lost, "", bar="value <= 0")
