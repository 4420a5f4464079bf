"""Measures the cost of `audit: strict`: no request leaves before its record is on the disk."""
import shutil

from bench import Samples, Unmeasured, group
from bench_5_egress import NAME, ORIGIN, Cell, free_port, make_certificates, nginx, running, wrk
from lab import await_quiet

CONNECTIONS = 32


@group("strict")
def strict(lab, report):
    for tool in ("nginx", "wrk", "openssl"):
        if shutil.which(tool) is None:
            raise Unmeasured(f"{tool} is missing")
    top = lab.top / "strict"
    (top / "www").mkdir(parents=True)
    top.chmod(0o755)
    make_certificates(top)
    origin = free_port()
    url = f"https://{NAME}:{origin}/small"
    seconds, rounds = report.pick((4, 5), (1, 1))
    rates = {"strict": Samples(), "batched": Samples()}
    with running(nginx(top, "origin", ORIGIN.format(port=origin, top=top)), origin), \
         Cell(lab, top, origin, "strict") as one, Cell(lab, top, origin, "batched") as other:
        await_quiet()
        for _ in range(rounds):
            for name, cell in (("strict", one), ("batched", other)):
                rates[name].append(wrk(lab.user, cell.prefix(), url, CONNECTIONS, seconds)[0])
    report.row(f"audit: strict: requests, {CONNECTIONS} connections", rates["strict"].median, "/s",
               rates["strict"].spread, "batched", rates["batched"].median, "ratio >= 0.7")
