"""Measures placeholders: minting one, RSA aside; and the search for placeholders in requests and for values in
responses."""
import contextlib
import json
import os
import random
import secrets as randomness
import shutil
import subprocess
import sys
from pathlib import Path

from bench import Samples, Unmeasured, group
from bench_5_egress import (MIB, NAME, ORIGIN, Cell, free_port, make_certificates, nginx, running,
                            wrk)
from lab import await_quiet

BULK = 256 * MIB
# At most a tenth of the requests and a quarter of the bytes of plain proxying.
BARS = {"requests": "ratio >= 0.9", "download": "ratio >= 0.75", "upload": "ratio >= 0.75"}


def mint(lab, report):
    program = lab.build / "tests" / "mint"
    if not os.access(program, os.X_OK):
        raise Unmeasured(f"there is no {program}: run `make bench`")
    run = subprocess.run([program], capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise Unmeasured(f"mint: status {run.returncode}: {run.stderr.strip()}")
    for line in run.stdout.splitlines():
        name, _, ns = line.rpartition(": ")
        report.row(f"mint a placeholder: {name}", int(ns) / 1000, "us", bar="value < 1000")


class Holder(Cell):
    """A cell with N secrets; the first one's placeholder, or as many letters, is in KEY."""

    def __init__(self, lab, top, ports, n):
        super().__init__(lab, top, ports[0])
        self.policy = top / f"policy{n}.yaml"
        self.policy.write_text("version: 1\negress:\n" + "".join(
            f"  - allow: {NAME}:{port}\n    body: {{max: 4G}}\n" for port in ports))
        values = {f"KEY{i}": "sk_live_" + randomness.token_hex(24) for i in range(max(n, 1))}
        names = list(values)[:n]
        self.options = ["-p", self.policy, "--ca", top / "ca.pem", "-v", f"{top / 'www/bulk'}:/tmp/bulk:ro"]
        self.env = {**self.who.env, **values}
        where = ",".join(f"{NAME}:{port}" for port in ports)
        for name in names:
            self.options += ["-s", f"{name}@{where}"]
        if not names:
            self.options += ["-e", f"KEY0={values['KEY0']}"]

    def __enter__(self):
        argv = [self.lab.cloister, "run", "-q", "-d", *self.options, "--", "sh", "-c",
                "echo $KEY0 >/tmp/key; exec sleep 1000"]
        done = self.who.run(argv, env=self.env)
        if done.returncode != 0:
            raise Unmeasured(f"run -d: {done.stderr.strip()}")
        self.id = done.stdout.strip()
        return self

    def prefix(self):
        """Every command gets the key in a header."""
        return [*super().prefix(), "sh", "-c",
                'p=$1; shift; exec "$p" -H "Authorization: Bearer $(cat /tmp/key)" "$@"', "sh"]

    def check(self, top, url):
        """The origin got another key than the cell has, where there is a secret."""
        self.who.run([*self.prefix(), "curl", "-sS", "-o", "/dev/null", url])
        sent = self.who.run([*super().prefix(), "cat", "/tmp/key"]).stdout.strip()
        got = (top / "origin.seen").read_text().split()[-1]
        swapped = any(word == "-s" for word in self.options)
        if (sent == got) is swapped or not got.startswith("sk_live_"):
            raise Unmeasured(f"sent {len(sent)} letters, and the origin got {'the same' if sent == got else 'others'}")


def curl(who, prefix, *words):
    done = who.run([*prefix, "curl", "-sS", "-f", "--http1.1", "-o", "/dev/null",
                    "-w", "%{size_download} %{size_upload} %{time_total}", *words], timeout=120)
    try:
        down, up, seconds = done.stdout.split()
    except ValueError:
        raise Unmeasured(f"curl: {done.stderr.strip()[-300:]}") from None
    if max(int(down), int(up)) != BULK:
        raise Unmeasured(f"curl: {down} bytes came and {up} went, not {BULK}: {done.stderr.strip()[-300:]}")
    return BULK / float(seconds) / 1e6


def write_bulk(path):
    """As logs and answers of services are: JSON, with numbers that are never the same."""
    rng = random.Random(1)
    words = "the request of a user was answered with status and took time in service at host".split()
    lines = []
    while sum(map(len, lines[-1000:])) < MIB and len(lines) < 8000:
        lines.append(json.dumps({"id": f"{rng.getrandbits(128):032x}", "time": rng.random(),
                                 "path": "/" + "/".join(rng.choices(words, k=4)), "text": " ".join(
                                     rng.choices(words, k=12)), "n": rng.getrandbits(30)}) + "\n")
    block = "".join(lines).encode()[:MIB]
    block += b" " * (MIB - len(block))
    with open(path, "wb") as f:
        for _ in range(BULK // MIB):
            f.write(block)


def compare(report, cells, small, bulk, upload):
    seconds, rounds = report.pick((3, 5), (1, 1))
    seen = {(what, name): Samples() for what in BARS for name in cells}
    for _ in range(rounds):
        for name, cell in cells.items():
            prefix = cell.prefix()
            rate, _ = wrk(cell.who, prefix, small, 32, seconds)
            seen["requests", name].append(rate)
            seen["download", name].append(curl(cell.who, prefix, bulk))
            seen["upload", name].append(curl(cell.who, prefix, "-T", "/tmp/bulk", upload))
    for what, bar in BARS.items():
        for name in list(cells)[1:]:
            samples = seen[what, name]
            report.row(f"secrets: {what}, {name}", samples.median, "/s" if what == "requests" else "MB/s",
                       samples.spread, "no secret", seen[what, "none"].median, bar)


def proxying(lab, report):
    for tool in ("nginx", "wrk", "curl", "openssl"):
        if shutil.which(tool) is None:
            raise Unmeasured(f"{tool} is missing")
    top = lab.top / "secrets"
    (top / "www").mkdir(parents=True)
    top.chmod(0o755)
    make_certificates(top)
    write_bulk(top / "www/bulk")
    origin, sink = free_port(), free_port()
    conf = ORIGIN.format(port=origin, top=top).replace(
        "location = /small", f"location = /seen {{ access_log {top}/origin.seen seen; return 200; }}\n"
        "              location = /small")
    conf = "    log_format seen '$http_authorization';\n" + conf
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(nginx(top, "origin", conf), origin))
        stack.enter_context(running([sys.executable, Path(__file__).parent / "sink.py", sink, top / "leaf.pem",
                                     top / "leaf.key"], sink))
        cells = {name: stack.enter_context(Holder(lab, top, (origin, sink), n))
                 for name, n in (("none", 0), ("one", 1), ("ten", 10))}
        base = f"https://{NAME}:{origin}"
        for cell in cells.values():
            cell.check(top, f"{base}/seen")
        await_quiet()
        compare(report, cells, f"{base}/small", f"{base}/bulk", f"https://{NAME}:{sink}/")


@group("secrets")
def secrets(lab, report):
    mint(lab, report)
    proxying(lab, report)
