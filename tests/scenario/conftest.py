"""Each test that asks for `operator` runs as root and as an ordinary user.

When it is over, nothing may be left of its cells: no process, no cgroup, no mount, no
entry in the runtime folder, and in the state folder only what was asked to be kept.
"""
import ctypes
import itertools
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

# Tests of one folder use what those of another have.
sys.path[:0] = sorted(str(path) for path in Path(__file__).parent.iterdir() if path.is_dir())

import leftovers  # noqa: E402
import microvm  # noqa: E402
from egress_lab import lab, online  # noqa: E402, F401  fixtures
from operators import CLOISTER, IS_ROOT, Operator, copy_mutant, copy_programs  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36


def pytest_configure(config):
    # Asked to end, end what was started, as for an interrupt.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell's background job ignores these, and what it starts would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # Many distributions' users have 002, and a policy that a group may write is refused.
    os.umask(0o022)
    # Whatever a test starts stays below this process, however it is orphaned.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@pytest.fixture(scope="session")
def ground():
    """A folder that everybody may pass through."""
    path = Path(tempfile.mkdtemp(prefix="cloister-scenario-")).resolve()
    path.chmod(0o711)
    (path / "bin").mkdir()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def program(ground):
    if not CLOISTER.exists():
        pytest.exit(f"there is no {CLOISTER}: run `make` first", 2)
    return copy_programs(ground / "bin")


@pytest.fixture(params=["root", "user"] if IS_ROOT else ["user"])
def who(request):
    return request.param


# These run a second time with walls that pass no descriptors: the mutant build's boundary `stream`.
# With CLOISTER_TEST_VM (`make test-vm`) they run in virtual machines too.
OVER_BOTH = {"test_life", "test_terminal"}
IN_VMS = ["microvm"] if os.environ.get("CLOISTER_TEST_VM") else []
BOUNDARIES = ["namespace", "stream", *IN_VMS]
# These only with CLOISTER_TEST_VM.
OVER_VMS = {"test_environment", "test_identity", "test_network", "test_stdio", "test_workspace", "test_files"}


def pytest_generate_tests(metafunc):
    if "boundary" not in metafunc.fixturenames:
        return
    if metafunc.module.__name__ in OVER_BOTH:
        metafunc.parametrize("boundary", BOUNDARIES)
    elif metafunc.module.__name__ in OVER_VMS and IN_VMS:
        metafunc.parametrize("boundary", ["namespace", *IN_VMS])


@pytest.fixture
def boundary():
    return "namespace"


numbers = itertools.count(1)


@pytest.fixture
def operator(who, ground, program, boundary):
    mounts = leftovers.mounts()
    if boundary == "stream":
        program = copy_mutant(ground)
    operator = Operator(who, ground / f"{who}{next(numbers)}", program)
    if boundary != "namespace":
        operator.env["CLOISTER_BOUNDARY"] = boundary
    if boundary == "microvm":
        operator.env |= microvm.environment(ground)
        microvm.begin(operator, ground)
        # As the group that may open /dev/kvm.
        operator.groups = [] if operator.is_root else [operator.gid + 1]
    operator.witness = leftovers.Witness(operator.runtime)
    yield operator
    operator.close()
    if boundary == "microvm":
        microvm.end(operator, ground)
    try:
        leftovers.check(operator, mounts)
    finally:
        operator.witness.close()
        # An agent's folders may be closed to their own owner.
        for folder, folders, _ in os.walk(operator.base):
            for name in folders:
                if not os.path.islink(os.path.join(folder, name)):
                    os.chmod(os.path.join(folder, name), 0o700)
        shutil.rmtree(operator.base, ignore_errors=True)
