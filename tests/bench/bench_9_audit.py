"""Verifying a long timeline."""
import subprocess
import sys
import time
from pathlib import Path

from bench import Samples, Unmeasured, group

sys.path.append(str(Path(__file__).resolve().parents[1] / "scenario"))


def write(path, n):
    """A cell's timeline of N records and the checkpoints between them; the key's hex digits."""
    try:
        from audit_world import Key, Timeline
    except ImportError as error:
        raise Unmeasured(f"{error}: install python3-cryptography")
    timeline = Timeline("cell/ab12cd34", Key(bytes(32)))
    with open(path, "wb") as out:
        while timeline.tree.size < n - 1:
            timeline.add({"type": "http", "verdict": "allow", "method": "GET", "scheme": "https",
                          "host": "api.example.com", "port": 443, "rule": "cloister.yaml:4",
                          "path": f"/v1/items/{timeline.tree.size}", "status": 200, "ms": 12,
                          "sent": 312, "received": 5120 + timeline.tree.size % 1000})
            if timeline.tree.size % 257 == 256:
                timeline.checkpoint()
            if len(timeline.lines) > 1000:
                out.write(timeline.bytes())
                timeline.lines = []
        timeline.checkpoint()
        out.write(timeline.bytes())
    return timeline.key.hex


@group("audit")
def audit(lab, report):
    n = report.pick(1_000_000, 100_000)
    path = lab.top / "timeline.jsonl"
    key = write(path, n)
    samples = Samples()
    for _ in range(report.pick(5, 2)):
        start = time.monotonic()
        run = subprocess.run([lab.cloister, "audit", "verify", path, "--key", key],
                             capture_output=True, text=True, timeout=120)
        samples.append(time.monotonic() - start)
        if run.returncode != 0 or f"{n} records" not in run.stdout:
            raise Unmeasured(f"audit verify: status {run.returncode}: {run.stdout}{run.stderr}")
    path.unlink()
    report.row(f"{n:,} records verified", samples.median, "s", spread=samples.spread,
               bar="value < 5" if n == 1_000_000 else None)
