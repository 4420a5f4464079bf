"""How soon what an operator changes about a running cell is in force, while it is busy."""
import re
import shutil
import threading

from bench import Samples, Unmeasured, group, in_turn
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
    both = Samples(took["one"] + took["other"])
    report.row(f"policy swap, {CONNECTIONS} connections busy", both.median, "ms", both.spread,
               bar="value < 5")
    report.row("requests lost by it", lost, "", bar="value <= 0")
