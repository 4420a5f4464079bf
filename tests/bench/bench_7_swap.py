"""The search for placeholders and keys in what passes by."""
import os
import subprocess

from bench import Unmeasured, group


@group("swap")
def swap(lab, report):
    program = lab.build / "tests" / "swap"
    if not os.access(program, os.X_OK):
        raise Unmeasured(f"there is no {program}: run `make bench`")
    run = subprocess.run([program], capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        raise Unmeasured(f"swap: status {run.returncode}: {run.stderr.strip()}")
    for line in run.stdout.splitlines():
        name, _, value = line.rpartition(": ")
        if "head" in name:
            report.row(name, float(value) / 1000, "us", bar="value < 10")
        else:
            text = "16 " in name and name.endswith(", text")
            report.row(name, float(value), "GB/s", bar="value >= 2" if text else None)
