"""apparmor.sh lets cells start where AppArmor would not, says so, and sets back what it lifted."""
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
SCRIPT = TREE / "tools" / "apparmor.sh"
SECONDS = 60


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def world(tmp_path):
    """A machine that restricts ordinary users such as us, and lets sudo do anything."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "build").mkdir()
    program(tmp_path / "bin/id", "echo 1000")
    program(tmp_path / "bin/sudo", 'exec "$@"')
    program(tmp_path / "bin/apparmor_parser", f'echo "$*" >{tmp_path}/options; cat >{tmp_path}/profile')
    program(tmp_path / "build/cloister", f"test -e {tmp_path}/profile || exit 125")
    (tmp_path / "setting").write_text("1\n")
    return tmp_path


def env(world):
    return {"PATH": f"{world}/bin:{os.environ['PATH']}", "APPARMOR_SETTING": str(world / "setting")}


def run(world, *words, **how):
    return subprocess.run([SCRIPT, *words], env=env(world), capture_output=True, text=True, timeout=SECONDS,
                          check=False, **how)


def await_that(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def await_setting(world, value):
    await_that(lambda: (world / "setting").read_text() == value)


def test_a_profile_for_the_build(world):
    done = run(world, "allow", world / "build")
    assert done.returncode == 0 and str(world / "build") in done.stdout, done
    assert (world / "options").read_text() == "-r\n"
    profile = (world / "profile").read_text()
    assert f"\nprofile cloister-build {world}/build/{{cloister,libexec/cloister-*}} flags=(unconfined) {{\n" in profile
    assert "\n  userns,\n" in profile
    # Cells start now.
    (world / "options").unlink()
    assert run(world, "allow", world / "build").stdout == "" and not (world / "options").exists()


@pytest.mark.parametrize("what", ["root", "free", "none"])
def test_no_profile_where_none_is_needed(world, what):
    if what == "root":
        program(world / "bin/id", "echo 0")
    elif what == "free":
        (world / "setting").write_text("0\n")
    else:
        (world / "setting").unlink()
    done = run(world, "allow", world / "build")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (world / "profile").exists()


def test_a_name_that_would_be_a_pattern(world):
    (world / "build").rename(world / "b{uil,}d*")
    done = run(world, "allow", world / "b{uil,}d*")
    assert done.returncode == 0 and "b{uil,}d*" in done.stderr and not (world / "profile").exists()


@pytest.mark.parametrize("end, status", [("exit 3", 3), ("kill -KILL $$", -signal.SIGKILL)])
def test_lifted_while_a_command_runs(world, end, status):
    done = run(world, "lift", "sh", "-c", f"cat {world}/setting; {end}")
    assert done.returncode == status and done.stdout.endswith("\n0\n"), done
    assert "apparmor_restrict_unprivileged_userns" in done.stdout
    await_setting(world, "1\n")


def keeper_of(world, pid):
    """The process that waits for PID, and its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")[:-1]
        except OSError:
            continue
        if words[-2:] == [os.fsencode(world / "setting"), b"%d" % pid] or b"--pid=%d" % pid in words:
            yield int(path.parts[2]), words[0]


def lift(world, *command):
    return subprocess.Popen([SCRIPT, "lift", *command], env=env(world), stdout=subprocess.DEVNULL)


def test_two_at_once_leave_it_as_it_was(world):
    """The other one has lifted it while sudo asked for the password, and sets it back."""
    program(world / "bin/sudo", f'echo 0 >{world}/setting; exec "$@"')
    with lift(world, "sh", "-c", f"sleep 1; echo 1 >{world}/setting") as process:
        assert process.wait(SECONDS) == 0
    await_that(lambda: not list(keeper_of(world, process.pid)))
    assert (world / "setting").read_text() == "1\n"


def test_set_back_by_a_keeper_that_is_to_end(world):
    """As what a service has started is, whatever its session: with all the rest of it."""
    with lift(world, "sleep", "60") as process:
        try:
            await_that(lambda: b"tail" in dict(keeper_of(world, process.pid)).values())
            for pid, _ in list(keeper_of(world, process.pid)):
                os.kill(pid, signal.SIGTERM)
            await_that(lambda: not list(keeper_of(world, process.pid)))
            assert (world / "setting").read_text() == "1\n"
        finally:
            process.kill()


def test_nothing_to_lift(world):
    (world / "setting").write_text("0\n")
    program(world / "bin/sudo", "exit 1")
    done = run(world, "lift", "echo", "x")
    assert (done.returncode, done.stdout) == (0, "x\n")


def test_without_the_right_to_lift_it_a_message_explains(world):
    program(world / "bin/sudo", "echo 'not you' >&2; exit 1")
    done = run(world, "lift", "echo", "x")
    assert done.returncode == 1 and "not you" in done.stderr
