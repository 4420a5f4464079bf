"""Decisions of policies with 1,000 rules."""
import os
import subprocess

from bench import Unmeasured, group


@group("policy")
def policy(lab, report):
    decide = lab.build / "tests" / "decide"
    if not os.access(decide, os.X_OK):
        raise Unmeasured(f"there is no {decide}: run `make bench`")
    run = subprocess.run([decide], capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise Unmeasured(f"decide: status {run.returncode}: {run.stderr.strip()}")
    for line in run.stdout.splitlines():
        name, _, ns = line.rpartition(": ")
        report.row(f"1,000 rules, {name}", int(ns) / 1000, "us", bar="value < 5")
