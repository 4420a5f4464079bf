"""The sum at the end of `make test` is right, and says so when something failed."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

RUN_TESTS = Path(__file__).resolve().parents[2] / "tools" / "run_tests.py"


def tree(tmp_path, unit="3 passed, 0 failed", status=0):
    """A small tree of the same shape, with a unit binary that says UNIT."""
    for folder in ("tools", "build/tests", "tests/scenario/cell", "tests/fuzz", "tests/seeds/x"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(RUN_TESTS, tmp_path / "tools")
    program(tmp_path / "build/tests/unit", unit, status)
    return tmp_path


def program(path, says, status=0):
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    path.chmod(0o755)


def run(top, *suites):
    env = {**os.environ, "CLOISTER_BUILD": "build"}
    done = subprocess.run([sys.executable, top / "tools/run_tests.py", *suites], env=env,
                          capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout.splitlines()[-1], done.stdout


def test_adds_up(tmp_path):
    top = tree(tmp_path)
    (top / "tests/fuzz/fuzz_x.c").write_text("")
    (top / "tests/seeds/x/one").write_text("")
    program(top / "build/tests/replay_x", "1 passed, 0 failed")
    (top / "tests/scenario/cell/test_a.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "@pytest.mark.skip(reason='not here')\n"
        "def test_other(): pass\n")
    status, last, out = run(top)
    assert (status, last) == (0, "5 passed, 0 failed")
    assert "not here" in out and out.splitlines()[-2] == "1 skipped"


def test_a_failing_scenario(tmp_path):
    top = tree(tmp_path)
    (top / "tests/scenario/cell/test_a.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def broken(): raise OSError('set-up')\n"
        "def test_bad(): assert 'the reason' == ''\n"
        "def test_broken(broken): pass\n"
        "def test_good(): pass\n")
    status, last, out = run(top)
    assert (status, last) == (1, "4 passed, 2 failed")
    assert "the reason" in out


def test_an_unsteady_scenario(tmp_path):
    top = tree(tmp_path)
    (top / "tests/scenario/cell/test_a.py").write_text(
        "import os\n"
        "def test_second_time():\n"
        "    os.mkdir('once') if not os.path.isdir('once') else None\n"
        "    n = len(os.listdir('once'))\n"
        "    open(f'once/{n}', 'w').close()\n"
        "    assert n == 1, 'the first time'\n")
    status, last, out = run(top)
    assert (status, last, out.splitlines()[-2]) == (0, "4 passed, 0 failed", "1 unsteady")
    assert "the first time" in out and "UNSTEADY tests/scenario/cell/test_a.py::test_second_time" in out


def test_many_are_no_chance(tmp_path):
    top = tree(tmp_path)
    (top / "tests/scenario/cell/test_a.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.parametrize('n', range(11))\n"
        "def test_second_time(n):\n"
        "    there = os.path.exists(f'once{n}')\n"
        "    open(f'once{n}', 'w').close()\n"
        "    assert there\n")
    status, last, _ = run(top)
    assert (status, last) == (1, "3 passed, 11 failed")


def test_an_escape_is_not_tried_again(tmp_path):
    top = tree(tmp_path)
    (top / "tests/escape").mkdir()
    (top / "tests/escape/test_a.py").write_text(
        "import os\n"
        "def test_second_time():\n"
        "    there = os.path.exists('once')\n"
        "    open('once', 'w').close()\n"
        "    assert there\n")
    status, last, _ = run(top)
    assert (status, last) == (1, "3 passed, 1 failed")


def test_a_scenario_that_cannot_be_read(tmp_path):
    top = tree(tmp_path)
    (top / "tests/scenario/cell/test_a.py").write_text("import nothing_of_this_name\n")
    status, last, _ = run(top)
    assert (status, last) == (1, "3 passed, 1 failed")


def test_failing_units(tmp_path):
    status, last, out = run(tree(tmp_path, "x.c:1: not so\n2 passed, 1 failed", 1))
    assert (status, last) == (1, "2 passed, 1 failed")
    assert "x.c:1: not so" in out


def test_a_crash_is_a_failure(tmp_path):
    status, last, _ = run(tree(tmp_path, "2 passed, 0 failed", 139))
    assert (status, last) == (1, "2 passed, 1 failed")


def test_silence_is_a_failure(tmp_path):
    status, last, _ = run(tree(tmp_path, "hello"))
    assert (status, last) == (1, "0 passed, 1 failed")


def test_a_fuzz_target_without_seeds_is_a_failure(tmp_path):
    top = tree(tmp_path)
    (top / "tests/fuzz/fuzz_x.c").write_text("")
    status, last, _ = run(top)
    assert (status, last) == (1, "3 passed, 1 failed")


def test_no_tests_at_all_is_a_failure(tmp_path):
    status, last, _ = run(tree(tmp_path, "0 passed, 0 failed"))
    assert (status, last) == (1, "0 passed, 0 failed")


def test_an_unknown_suite(tmp_path):
    assert run_status(tree(tmp_path), "unti") == 1


def run_status(top, *suites):
    return subprocess.run([sys.executable, top / "tools/run_tests.py", *suites],
                          capture_output=True, timeout=60).returncode


def test_progress_is_shown(tmp_path):
    """While a suite still runs: it ends only after its line was read."""
    top = tree(tmp_path)
    (top / "build/tests/unit").write_text(f"#!/bin/sh\nread go <{top}/go\necho '3 passed, 0 failed'\n")
    os.mkfifo(top / "go")
    env = {**os.environ, "CLOISTER_BUILD": "build", "CLOISTER_PROGRESS_SECONDS": "0.05"}
    with subprocess.Popen([sys.executable, top / "tools/run_tests.py", "unit"], env=env, text=True,
                          stdout=subprocess.PIPE) as process:
        assert next(line for line in process.stdout if line.startswith("... ")).endswith(" s: unit\n")
        (top / "go").write_text("go\n")
        assert process.stdout.read().endswith("3 passed, 0 failed\n")
