"""The check of what is owned finds a return before it is set, and nothing else."""
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_owned.py"


def check(tmp_path, body):
    source = tmp_path / "a.c"
    source.write_text(f"int\nf(int x)\n{{\n{body}\n}}\n")
    return subprocess.run([CHECK, source], capture_output=True, text=True)


@pytest.mark.parametrize("declared", [
    "OWN(buf_free) struct buf b;", "OWN(freep) char *a = NULL, *b;", "OWN(closep) int b, a = f(1, 2);",
])
def test_found(tmp_path, declared):
    done = check(tmp_path, f"\t{declared}\n\n\tif (x)\n\t\treturn 0;\n\tset(&b);\n\treturn 1;")
    assert done.returncode == 1 and "a.c:7: returns before 'b' of line 4" in done.stdout


@pytest.mark.parametrize("body", [
    "\tOWN(buf_free) struct buf b = {0};\n\n\tif (x)\n\t\treturn 0;\n\tset(&b);",
    "\tOWN(buf_free) struct buf b;\n\n\tset(&b);\n\treturn 1;",
    "\tOWN(freep) char *a = NULL, *b = f(1, 2);\n\n\treturn 1;",
    "\tstruct buf b;\n\n\treturn 1;",
])
def test_let_through(tmp_path, body):
    assert check(tmp_path, body).returncode == 0
