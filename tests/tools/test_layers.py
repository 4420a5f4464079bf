"""The layer check stops an include that points up, and lets the others through."""
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_layers.sh"


def check(tmp_path, name, line):
    source = tmp_path / "src" / name
    source.parent.mkdir(parents=True)
    source.write_text(f"/* x */\n{line}\n")
    return subprocess.run([CHECK, source], capture_output=True, text=True)


@pytest.mark.parametrize("name, include", [
    ("base/a.c", "loop/loop.h"),
    ("loop/a.c", "cell/cell.h"),
    ("ipc/a.c", "http/uri.h"),
    ("policy/a.h", "boundary/boundary.h"),
    ("boundary/namespace/a.c", "cli/cli.h"),
    ("cell/a.c", "boundary/boundary.h"),
    ("workspace/a.c", "boundary/boundary.h"),
    ("cell/a.c", "workspace/workspace.h"),
    ("cli/a.c", "proc/init/init.h"),
    ("proc/supervisor/a.c", "proc/init/init.h"),
    ("cli/a.c", "../base/err.h"),
    ("cli/a.c", "nowhere/x.h"),
    ("nowhere/a.c", "base/err.h"),
])
def test_refused(tmp_path, name, include):
    done = check(tmp_path, name, f'#include "{include}"')
    assert done.returncode == 1
    assert f"src/{name}:" in done.stderr


@pytest.mark.parametrize("name, include", [
    ("base/a.c", "base/err.h"),
    ("loop/a.c", "base/err.h"),
    ("boundary/namespace/a.c", "boundary/boundary.h"),
    ("boundary/namespace/a.c", "cell/cell.h"),
    ("confine/a.c", "filter_bpf.h"),
    ("policy/a.c", "ipc/ipc.h"),
    ("cli/a.c", "boundary/boundary.h"),
    ("proc/init/a.c", "proc/init/init.h"),
    ("proc/init/a.c", "ipc/ipc.h"),
])
def test_passed(tmp_path, name, include):
    done = check(tmp_path, name, f'#include "{include}"')
    assert (done.returncode, done.stderr) == (0, "")


def test_system_headers_and_comments_are_no_concern(tmp_path):
    done = check(tmp_path, "base/a.c", '#include <sys/stat.h>\n/* "cli/cli.h" */')
    assert done.returncode == 0
