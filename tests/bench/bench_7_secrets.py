"""Placeholders: minting one, RSA aside."""
import os
import subprocess

from bench import Unmeasured, group


@group("secrets")
def secrets(lab, report):
    mint = lab.build / "tests" / "mint"
    if not os.access(mint, os.X_OK):
        raise Unmeasured(f"there is no {mint}: run `make bench`")
    run = subprocess.run([mint], capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise Unmeasured(f"mint: status {run.returncode}: {run.stderr.strip()}")
    for line in run.stdout.splitlines():
        name, _, ns = line.rpartition(": ")
        report.row(f"mint a placeholder: {name}", int(ns) / 1000, "us", bar="value < 1000")
