"""Whoever drives dispatches is killed, again and again: none is lost, none is run twice, and no cell
is left.  A short run of tests/soak/crash.py, which does it thousands of times."""
import os
import subprocess
import sys

from operators import BUILD, TREE


def test_killed_drivers():
    done = subprocess.run([sys.executable, TREE / "tests/soak/crash.py", "--dispatches", "60"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500,
                          env={**os.environ, "CLOISTER_BUILD": str(BUILD)})
    assert done.returncode == 0, done.stdout
