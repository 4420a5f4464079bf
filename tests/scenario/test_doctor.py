"""`cloister doctor` tells what this machine can enforce, and whether cells can run."""
import ctypes
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CLOISTER_BUILD", ROOT / "build")).resolve()
CLOISTER = BUILD / "cloister"
USER = 12345
NAMES = ["kernel", "processes", "user namespaces", "apparmor", "overlay workspaces",
         "id-mapped mounts", "cgroups", "freezer", "seccomp", "landlock", "terminals",
         "crashes", "nftables", "kvm"]


def doctor(*args, before=(), uid=None):
    as_user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
    return subprocess.run([*before, CLOISTER, "doctor", *args], capture_output=True, text=True,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, timeout=60, **as_user)


def checks(**how):
    out = doctor("--json", **how)
    report = json.loads(out.stdout)
    assert out.returncode == (0 if report["can_run"] else 1)
    return report, {c["name"]: c for c in report["checks"]}


def someone():
    """Root and an ordinary user; or only ourselves, who are one already."""
    return [None, USER] if os.geteuid() == 0 else [None]


@pytest.mark.parametrize("uid", someone())
def test_json(uid):
    report, found = checks(uid=uid)
    assert [c["name"] for c in report["checks"]] == NAMES
    for c in report["checks"]:
        assert c["state"] in ("ok", "limited", "missing") and c["found"]
        assert c["todo"] is None or c["todo"]
    # What the rest of the tests stands on.
    assert report["can_run"] and report["obstacle"] is None
    for name in ("user namespaces", "seccomp", "processes", "terminals"):
        assert found[name]["state"] == "ok"


def test_user_without_a_group_is_told_what_to_do():
    if os.geteuid() != 0:
        pytest.skip("not root")
    _, found = checks(uid=USER)
    assert found["cgroups"]["state"] == "missing"
    assert "cannot be limited" in found["cgroups"]["found"]
    assert "root" in found["cgroups"]["todo"]


@pytest.mark.parametrize("uid", someone())
def test_table_is_plain_and_aligned(uid):
    out = doctor(uid=uid)
    table, verdict = out.stdout.split("\n\n")
    assert verdict == "Cells can run here.\n"
    assert out.returncode == 0 and out.stderr == "" and "\033" not in out.stdout
    column = 9 + max(map(len, NAMES)) + 2
    names = []
    for line in table.splitlines():
        if line.startswith(" "):
            assert line[:column].strip() == "" and line[column:].startswith("-> ")
            continue
        names.append(line[9:column].strip())
        assert line[:9].strip() in ("ok", "limited", "missing")
        assert line[column] != " " and line[column - 2:column] == "  "
    assert names == NAMES


def test_terminal_has_colour_and_is_not_overrun():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
    with subprocess.Popen([CLOISTER, "doctor"], stdout=theirs, env={"TERM": "xterm"}) as proc:
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 4096):
                text += chunk
        except OSError:
            pass                # the last writer has gone
    os.close(ours)
    assert proc.returncode == 0
    shown = text.decode().replace("\r\n", "\n")
    assert "\033[32mok" in shown
    assert max(len(l) for l in re.sub(r"\033\[\d+m", "", shown).splitlines()) <= 70


def test_no_user_namespaces_means_no_cells():
    """The number of them is limited by user namespace: in one of our own, to none."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    inner = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
             'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh"]
    report, found = checks(before=inner)
    assert not report["can_run"]
    assert report["obstacle"] == "user namespaces"
    row = found["user namespaces"]
    assert row["state"] == "missing" and "No space left" in row["found"]
    assert row["todo"] == "as root: sysctl -w user.max_user_namespaces=10000"
    assert found["overlay workspaces"]["state"] == "missing"
    out = doctor(before=inner)
    assert out.returncode == 1
    assert out.stdout.endswith("\n\nCells cannot run here: see 'user namespaces'.\n")


def forbid_mounts():
    """A Landlock domain about files, however lenient, forbids every mount."""
    libc = ctypes.CDLL(None, use_errno=True)
    rights = ctypes.c_uint64(1 << 11)           # LANDLOCK_ACCESS_FS_MAKE_BLOCK
    fd = libc.syscall(444, ctypes.byref(rights), 8, 0)
    if fd < 0 or libc.prctl(38, 1, 0, 0, 0) != 0 or libc.syscall(446, fd, 0) != 0:
        os._exit(77)


def test_forbidden_mounts_mean_no_cells():
    """As with AppArmor: the namespace can be made, but nothing mounted in it."""
    out = subprocess.run([CLOISTER, "doctor", "--json"], stdout=subprocess.PIPE, text=True,
                         preexec_fn=forbid_mounts, timeout=60)
    if out.returncode == 77:
        pytest.skip("no Landlock")
    report = json.loads(out.stdout)
    row = {c["name"]: c for c in report["checks"]}["user namespaces"]
    assert out.returncode == 1 and report["obstacle"] == "user namespaces"
    assert "one can be made, but nothing mounted in it" in row["found"] and row["todo"]


def test_nothing_is_left():
    doctor()
    assert [p for p in Path("/sys/fs/cgroup").glob("**/cloister-doctor-*")] == []


@pytest.mark.parametrize("args, text", [
    (["--jsn"], "did you mean '--json'?"),
    (["now"], "takes no argument: 'now'"),
    (["--json=1"], "takes no value"),
])
def test_bad_input(args, text):
    out = doctor(*args)
    assert out.returncode == 125 and out.stdout == ""
    assert out.stderr.startswith("cloister: ") and text in out.stderr
    assert out.stderr.count("\n") == 1
