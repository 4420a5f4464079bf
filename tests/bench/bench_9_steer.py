"""Measures how soon an operator's change to a busy cell is in force."""
import contextlib
import re
import shutil
import threading

from bench import Samples, Unmeasured, group, in_turn
from bench_5_egress import NAME, Cell, free_port, make_certificates, nginx, running
from lab import await_quiet
from steer_stop import freeze, revoke

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
        """The number of requests that did not get the right response."""
        said = self.done.stdout
        if "Requests/sec" not in said or not self.was_busy:
            raise Unmeasured(f"wrk: {(said + self.done.stderr).strip()[-300:]}")
        numbers = re.findall(r"(?:Non-2xx or 3xx responses:|connect|read|write|timeout) (\d+)", said)
        return sum(map(int, numbers))


ANSWER = """
    server {{ listen 127.0.0.1:{port} ssl; root {top}/www;
              location = /small {{ return 200 "hello, this is the origin\\n"; }}
              location = /answer {{ default_type application/json;
                  return 200 '{{"model":"claude-sonnet-4-5","usage":{{"input_tokens":12,"output_tokens":3}}}}'; }} }}
"""
# So much of everything that none of it is ever used up.
BUDGETS = """
budgets:
  - {per: cell, requests: 1000000000, bytes_in: 1T, bytes_out: 1T, hosts: 100, money: 100000}
"""


def metering(lab, report, top, origin):
    """The cost of counting: budgets of all kinds, and reading the cost in each response."""
    seconds, rounds = report.pick((4, 5), (1, 1))
    cells, rates = {}, {}
    with contextlib.ExitStack() as stack:
        for name, more in (("without", ""), ("with", BUDGETS)):
            cells[name] = Cell(lab, top, origin)
            file = top / f"{name}.yaml"
            file.write_text(f"version: 1\naudit: {{max: 16G}}\negress:\n  - allow: {NAME}:{origin}\n"
                            "    usage: anthropic\n" + more)
            file.chmod(0o644)
            cells[name].options = ["-p", file, "--ca", top / "ca.pem"]
            stack.enter_context(cells[name])
        await_quiet()
        for _ in range(rounds):
            for path, words in (("small", []), ("answer", ["-s", "/tmp/post.lua"])):
                for name, cell in cells.items():
                    rates.setdefault((path, name), Samples()).append(load(cell, words, path, origin, seconds))
    for path, what in (("small", "budgets counted"), ("answer", "and answers read for what they cost")):
        report.row(f"requests, {CONNECTIONS} connections, {what}", rates[path, "with"].median, "/s",
                   rates[path, "with"].spread, "without", rates[path, "without"].median,
                   "ratio >= 0.95")


def load(cell, words, path, origin, seconds):
    script = "printf 'wrk.method = \"POST\"\\nwrk.body = \"{}\"\\n' >/tmp/post.lua; exec \"$@\""
    done = cell.who.run([*cell.prefix(), "sh", "-c", script, "sh", "wrk", "-t1", f"-c{CONNECTIONS}",
                         f"-d{seconds}s", *words, f"https://{NAME}:{origin}/{path}"], timeout=seconds + 60)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    if not rate or "Non-2xx" in done.stdout:
        raise Unmeasured(f"wrk: {(done.stdout + done.stderr).strip()[-300:]}")
    return float(rate[1])


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
    with running(nginx(top, "origin", ANSWER.format(port=origin, top=top)), origin), \
         Cell(lab, top, origin) as cell:
        await_quiet()
        commands = {name: [lab.cloister, "policy", "set", cell.id, file] for name, file in files.items()}
        with Busy(cell, f"https://{NAME}:{origin}/small", seconds) as busy:
            took = in_turn(lab, lab.user, commands, swaps)
        lost = busy.lost()
        metering(lab, report, top, origin)
        revoke(lab, report, top, origin)
    freeze(lab, report)
    both = Samples(took["one"] + took["other"])
    report.row(f"policy swap, {CONNECTIONS} connections busy", both.median, "ms", both.spread,
               bar="value < 5")
    report.row("requests lost by it", lost, "", bar="value <= 0")
