"""Each test that asks for `operator` runs as root and as an ordinary user.

When it is over, nothing may be left of its cells: no process, no cgroup, no mount, no
entry in the runtime folder, and in the state folder only what was asked to be kept.
"""
import ctypes
import inspect
import itertools
import os
import shutil
import signal
import sys
import tempfile
import zlib
from pathlib import Path

import pytest

# Tests of one folder use what those of another have.
sys.path[:0] = sorted(str(path) for path in Path(__file__).parent.iterdir() if path.is_dir())

import leftovers  # noqa: E402
import microvm  # noqa: E402
import oci  # noqa: E402
import postgres_store  # noqa: E402
from egress_lab import lab, online  # noqa: E402, F401  fixtures
from engines import engines_of  # noqa: E402, F401  a fixture
from kube_lab import kubernetes  # noqa: E402, F401  a fixture
from operators import CLOISTER, IS_ROOT, Operator, copy_mutant, copy_programs  # noqa: E402
from swarm_lab import swarm  # noqa: E402, F401  a fixture
from workers import cluster  # noqa: E402, F401  a fixture

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
OVER_BOTH = {"test_life", "test_terminal", "test_sandbox"}
IN_VMS = ["microvm"] if os.environ.get("CLOISTER_TEST_VM") else []
# With CLOISTER_TEST_OCI (`make test-oci`) they run in containers of OCI runtimes.
IN_CONTAINERS = oci.RUNTIMES if os.environ.get("CLOISTER_TEST_OCI") else []
BOUNDARIES = ["namespace", "stream", *IN_VMS, *IN_CONTAINERS]
# These only with CLOISTER_TEST_VM or CLOISTER_TEST_OCI.
OVER_VMS = {"test_environment", "test_network", "test_stdio", "test_workspace", "test_files", "test_limits",
            "test_freeze"}
# docs/boundaries.md says so too.
NOT_IN_VMS = {
    "test_no_descriptor_above_2": "the agent has no pid here",
    "test_where_a_file_of_the_home_is_in_the_cell": "an emulated machine says so on a terminal",
    "test_long_slices_and_the_operators_niceness": "the monitor has the operator's priority, not the agent",
    "test_the_operators_policy_stays": "the monitor has the operator's priority, not the agent",
    "test_soft_limits_and_priority_are_the_usual": "the monitor has the operator's priority, not the agent",
    "test_a_cell_without_a_policy_prints_a_hint": "nothing outside hears of a lookup",
    "test_clients_fail_at_once": "without a policy the guest has no resolver",
    "test_the_hint_comes_at_once": "nothing outside hears of a lookup",
    "test_the_hint_in_a_terminal": "nothing outside hears of a lookup",
    "test_the_resolver_takes_anything": "without a policy the guest has no resolver",
    "test_defaults_are_finite": "the cell's cgroup also has room for the monitor",
    "test_swap_is_not_added": "the cell's cgroup also has room for the monitor",
    "test_memory_and_processes_as_asked": "the cell's cgroup also has room for the monitor",
    "test_processes_are_named": "the guest's kernel does not count refused processes",
    "test_processes_are_in_the_cgroup": "the guest's processes are not this machine's",
    "test_fork_bomb": "the guest's processes are not this machine's",
    "test_time": "its limit is over before the guest has started",
    "test_ttl_is_gentle": "its limit is over before the guest has started",
    "test_a_budget_of_processors": "its limit is over before the guest has started",
    "test_ttl_of_a_detached_cell": "its limit is over before the guest has started",
    "test_no_command_reads_the_operators_input_unasked": "input is sent ahead to the guest",
}




# And these without namespaces, but for those that need what is not there then: docs/process-boundary.md says so too.
OVER_PROCESSES = {"test_life"}
NO_OVERLAYS, NO_TMP = "it has an overlay workspace", "it writes to /tmp"
NOT_IN_PROCESSES = {
    "test_ps_shows_cells": NO_OVERLAYS,
    "test_ps_on_a_terminal": NO_OVERLAYS,
    "test_supervisor_killed": NO_OVERLAYS,
    "test_logs_of_a_foreground_cell": NO_OVERLAYS,
    "test_changes_of_a_killed_cell_are_kept": NO_OVERLAYS,
    "test_logs_follow_ends_with_the_cell": NO_TMP,
    "test_logs_follow_through_a_flood": NO_TMP,
    "test_exec": NO_TMP,
    "test_exec_shares_everything": NO_TMP,
    "test_stopped_supervisor_does_not_stop_the_cell": NO_TMP,
    "test_wait": NO_TMP,
    "test_exec_does_not_outlive_and_does_not_keep": NO_TMP,
}


def pytest_generate_tests(metafunc):
    if "boundary" not in metafunc.fixturenames:
        return
    if metafunc.module.__name__ in OVER_BOTH:
        bare = ["process"] if metafunc.module.__name__ in OVER_PROCESSES else []
        metafunc.parametrize("boundary", BOUNDARIES + bare)
    elif metafunc.module.__name__ in OVER_VMS and (IN_VMS or IN_CONTAINERS):
        metafunc.parametrize("boundary", ["namespace", *IN_VMS, *IN_CONTAINERS])


# What these show depends little on who the operator is: each test runs as root or as a user.  With
# CLOISTER_TEST_BOTH (`make test-both`) it runs as both.
AS_EITHER = {"egress", "secrets", "registry", "image", "steer", "tools"}
ASK_WHO = ("is_root", "who", "getuid")


def _is_for_either(item):
    return (Path(item.fspath).parent.name in AS_EITHER and hasattr(item, "callspec") and "who" in item.callspec.params
            and not any(word in inspect.getsource(item.function) for word in ASK_WHO))


def pytest_collection_modifyitems(config, items):
    if os.environ.get("CLOISTER_TEST_BOTH"):
        return
    alike = {}
    for item in filter(_is_for_either, items):
        rest = [(name, str(value)) for name, value in item.callspec.params.items() if name != "who"]
        alike.setdefault(f"{Path(item.fspath).name} {item.originalname} {rest}", []).append(item)
    out = set()
    for name, pair in alike.items():
        if len(pair) == 2:
            out.add(pair[zlib.crc32(name.encode()) % 2])
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


# With CLOISTER_TEST_BOUNDARY=process, a test that is given to one boundary alone runs with that.
@pytest.fixture
def boundary():
    return os.environ.get("CLOISTER_TEST_BOUNDARY", "namespace")


# Where the registry is: with CLOISTER_TEST_STORE=postgres (`make test-store`), in Postgres.
@pytest.fixture
def registry_place():
    return os.environ.get("CLOISTER_TEST_STORE") or "sqlite"


def use_postgres(request, operator):
    postgres = postgres_store.shared()
    if "CLOISTER_TEST_STORE" in os.environ and "db.sqlite" in inspect.getsource(request.node.function):
        pytest.skip("it looks into db.sqlite")
    if postgres is None:
        pytest.skip("there is no postgresql")
    operator.database = postgres.new()
    operator.env["CLOISTER_STORE"] = postgres.url(operator.database)


numbers = itertools.count(1)


@pytest.fixture
def operator(request, who, ground, program, boundary, registry_place):
    mounts = leftovers.mounts()
    if boundary == "microvm" and request.node.originalname in NOT_IN_VMS:
        pytest.skip(NOT_IN_VMS[request.node.originalname])
    if boundary == "process" and request.node.originalname in NOT_IN_PROCESSES:
        pytest.skip(NOT_IN_PROCESSES[request.node.originalname])
    if boundary == "stream":
        program = copy_mutant(ground)
    operator = Operator(who, ground / f"{who}{next(numbers)}", program)
    if boundary in oci.RUNTIMES:
        operator.env |= oci.environment(boundary, request.node.originalname, request.module.__name__)
    elif boundary != "namespace":
        operator.env["CLOISTER_BOUNDARY"] = boundary
    if registry_place == "postgres":
        use_postgres(request, operator)
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


@pytest.fixture
def machines(operator):
    """Makes other machines with the operator's registry: folders of their own."""
    made = []

    def machine():
        other = Operator(operator.who, operator.base / f"machine{len(made)}", operator.program)
        other.env["CLOISTER_STORE"] = operator.env["CLOISTER_STORE"]
        made.append(other)
        return other
    yield machine
    for other in made:
        other.close()
