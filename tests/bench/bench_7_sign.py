"""Checking a request's signature with the placeholder, and signing it with the real key."""
import os
import subprocess

from bench import Unmeasured, group


@group("sign")
def sign(lab, report):
    loop = lab.build / "tests" / "sign_loop"
    if not os.access(loop, os.X_OK):
        raise Unmeasured(f"there is no {loop}: run `make bench`")
    run = subprocess.run([loop], capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise Unmeasured(f"sign_loop: status {run.returncode}: {run.stderr.strip()}")
    for line in run.stdout.splitlines():
        name, _, ns = line.rpartition(": ")
        # ECDSA, and hashing a chunk, cost what they cost.
        bar = None if name == "SigV4A" or name.startswith("chunk") else "value < 60"
        report.row(f"verify and re-sign, {name}", int(ns) / 1000, "us", bar=bar)
