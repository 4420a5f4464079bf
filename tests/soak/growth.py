#!/usr/bin/python3
"""Sends a hundred thousand requests out of one cell, of every kind, and watches whether the
memory or the descriptors of the processes that serve them grow.

    growth.py [--requests 100000] [--rounds 10]

HTTP/1.1 and HTTP/2, connections that are kept and that are not, bodies that are looked into,
refusals.  The first fifth warms up; after it, no process may gain more than 1 MiB of private
memory or 8 descriptors.  Status 1, and a list, if one does."""
import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent / "bench")]

from bench import Unmeasured    # noqa: E402
from bench_5_egress import (NAME, ORIGIN, Cell, free_port, make_certificates, nginx,  # noqa: E402
                            running)
from lab import Lab, NoProduct, descendants, private_bytes, processes  # noqa: E402

MEMORY_MAX = 1 << 20            # bytes more, after warming up
FILES_MAX = 8                   # descriptors more
WIDTH = 16
SETTLE = 20                     # seconds for the last connections to be taken down
WATCHED = ("supervisor", "gate", "courier", "inspect")
POLICY = """version: 1
egress:
  - deny: {name}:{port}
    paths: [/refused]
    reason: so that refusals are among them
  - allow: {name}:{port}
    paths: [/looked-into]
    body: {{json: {{/a: [1]}}}}
  - allow: {name}:{port}
"""


class Grown(Exception):
    """Something grew, or a request was not answered as it should be."""


def h2load(cell, url, n, *words, want="2xx"):
    done = cell.who.run([*cell.prefix(), "h2load", f"-n{n}", f"-c{min(n, WIDTH)}", *words, url],
                        timeout=600)
    found = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", done.stdout)
    got = dict(zip(("2xx", "3xx", "4xx", "5xx"), map(int, found.groups()))) if found else {}
    if got.get(want) != n:
        raise Grown(f"of {n} requests for {url} not all were {want}: {got or done.stderr[-400:]}")


def fresh_connections(cell, url, n):
    script = (f"seq {n} | sed 's|.*|url={url}\\noutput=/dev/null|' | "
              f"curl -sS -f --no-keepalive -H 'Connection: close' -Z --parallel-max {WIDTH} -K -")
    done = cell.who.run([*cell.prefix(), "sh", "-c", script], timeout=600)
    if done.returncode != 0:
        raise Grown(f"requests on connections of their own: {done.stderr[-400:]}")


def load(cell, base, n):
    """N requests: most of them plain, a few percent of what is dear."""
    few = max(1, n // 40)
    plain = (n - 4 * few) // 2
    h2load(cell, f"{base}/small", plain, "--h1")
    h2load(cell, f"{base}/small", n - 4 * few - plain, "-m8")
    h2load(cell, f"{base}/looked-into", few, "-d", "/tmp/body", "-H", "content-type: application/json")
    h2load(cell, f"{base}/refused", few, want="4xx")
    h2load(cell, f"{base}/refused", few, "--h1", want="4xx")
    fresh_connections(cell, f"{base}/small", few)


def helpers(cell):
    """{"gate": pid, ...}"""
    listed = json.loads(cell.who.run([cell.lab.cloister, "ps", "--json"]).stdout)
    top = next(c for c in listed if c["cell"] == cell.id)["supervisor"]
    found = {}
    for pid in descendants(top, processes()):
        with contextlib.suppress(OSError):
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe")).removeprefix("cloister-")
            # The starter is a fork of the supervisor, and comes after it.
            if name in WATCHED:
                found.setdefault(name, pid)
    return found


def files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def look(pids, before=None):
    """{name: (private bytes, descriptors)}, once the descriptors have settled."""
    end = time.monotonic() + SETTLE
    while before and time.monotonic() < end and any(
            files(pid) > before[name][1] + FILES_MAX for name, pid in pids.items()):
        time.sleep(0.05)
    return {name: (private_bytes(pid) or 0, files(pid)) for name, pid in pids.items()}


def show(done, seconds, seen):
    print(f"{done:>8} requests {seconds:>5.0f} s " + "  ".join(
        f"{name} {memory >> 10} KiB, {n} files" for name, (memory, n) in seen.items()), flush=True)


def growth(cell, base, args):
    each = args.requests // args.rounds
    warm = max(1, args.rounds // 5)
    began, before, pids = time.monotonic(), None, None
    for number in range(1, args.rounds + 1):
        load(cell, base, each)
        now = helpers(cell)
        if pids not in (None, now):
            raise Grown(f"a process died on the way: {pids} before, {now} after")
        pids = now
        seen = look(pids, before)
        show(number * each, time.monotonic() - began, seen)
        if number == warm:
            before = seen
    said = [f"{name} grew from {before[name][0]} to {memory} bytes and {before[name][1]} to {n} files"
            for name, (memory, n) in seen.items()
            if memory > before[name][0] + MEMORY_MAX or n > before[name][1] + FILES_MAX]
    missing = set(WATCHED) - set(seen)
    if missing:
        said.append(f"never seen: {', '.join(sorted(missing))}")
    if said:
        raise Grown("; ".join(said))
    print(f"{args.rounds * each} requests: nothing grew")


def run(args):
    missing = [tool for tool in ("nginx", "h2load", "curl", "openssl") if shutil.which(tool) is None]
    if missing:
        raise Unmeasured(f"not installed: {', '.join(missing)}")
    with Lab("cloister-growth-") as lab, contextlib.ExitStack() as stack:
        top = lab.top / "egress"
        (top / "www").mkdir(parents=True)
        top.chmod(0o755)
        make_certificates(top)
        (top / "body").write_text('{"a": 1}')
        port = free_port()
        origin = ORIGIN.format(port=port, top=top).replace("location = /small",
                                                           "location ~ ^/(small|looked-into)$")
        stack.enter_context(running(nginx(top, "origin", origin), port))
        cell = Cell(lab, top, port)
        cell.policy.write_text(POLICY.format(name=NAME, port=port))
        cell.options += ["-v", f"{top / 'body'}:/tmp/body:ro"]
        growth(stack.enter_context(cell), f"https://{NAME}:{port}", args)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10, help="looks on the way, at least 5")
    args = parser.parse_args()
    if args.rounds < 5 or args.requests < args.rounds * 40:
        parser.error("at least 5 rounds of 40 requests")
    try:
        run(args)
    except (Grown, Unmeasured, NoProduct) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
