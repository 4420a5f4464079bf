"""Containers of OCI runtimes as walls: what `run --boundary oci` needs."""
import functools
import os
import re
import shutil
import subprocess

import pytest

from operators import IS_STATIC

RUNTIMES = ["crun", "runc", "runsc"]
FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"

# docs/runtimes.md says so too.
NOT_IN_CONTAINERS = {
    "test_each_cell_has_a_boot_id_of_its_own": "runtimes can only mask it: it is empty",
    "test_defaults_are_finite": "the cell's cgroup also has room for the keeper",
    "test_memory_and_processes_as_asked": "the cell's cgroup also has room for the keeper",
    "test_the_hosts_loopback_is_another": "one of them is for --profile nested",
    "test_read_only_but_for_scratch": "one of them is for --profile nested",
    "test_proc_masks": "boot_id is /dev/null, which can be written",
    "test_no_command_reads_the_operators_input_unasked": "input is sent ahead to the container",
}
NOT_IN_CRUN = {
    "test_mounts_are_quiet": "crun mounts the root again without nosuid and nodev, and nothing with set-id is in it",
}
DULL = "gVisor's terminals send no signals and know no end of input"
NOT_IN_GVISOR = {
    "test_exec_shares_everything": "ls fails in Debian 12's version",
    "test_no_descriptor_above_2": "the agent has no pid here",
    "test_memory_of_a_child": "the kernel kills gVisor, and not one of its processes",
    "test_processes_are_named": "gVisor does not count refused processes",
    "test_processes_are_in_the_cgroup": "the agent's processes are not this machine's",
    "test_fork_bomb": "the agent's processes are not this machine's",
    "test_skeleton_cannot_be_filled": "gVisor's /dev counts as memory",
    "test_signals_are_as_new": "its /proc has no signals",
    "test_soft_limits_and_priority_are_the_usual": "gVisor has priorities of its own",
    "test_long_slices_and_the_operators_niceness": "gVisor has priorities of its own",
    "test_the_operators_policy_stays": "gVisor has priorities of its own",
    "test_other_devices": "gVisor has devices of its own",
    "test_mounts_are_quiet": "gVisor shows no flags of mounts",
    "test_it_is_the_controlling_terminal": "gVisor's /dev/tty cannot be opened",
    "test_control_backslash": DULL,
    "test_control_c_ends_a_program_that_does_not_catch_it": DULL,
    "test_control_c_reaches_the_foreground_job": DULL,
    "test_control_d_is_the_end_of_input": DULL,
    "test_job_control": DULL,
    "test_stopped_and_continued": DULL,
    "test_window_size": DULL,
    "test_the_hint_in_a_terminal": DULL,
    "test_no_tty": "ls fails in Debian 12's version",
    "test_agent_cannot_end_init": "in gVisor, an agent can end its own cell so",
}
# They need ls and stat, which fail in versions of gVisor that refuse a flag of statx.
NOT_IN_OLD_GVISOR = {"test_workspace", "test_files"}
NEW = 2023


def find(runtime):
    """The runtime's program; another runsc than the system's if CLOISTER_TEST_RUNSC names one."""
    path = os.environ.get("CLOISTER_TEST_RUNSC") if runtime == "runsc" else None
    path = path or shutil.which(runtime, path=FOLDERS)
    if path is None:
        pytest.skip(f"no {runtime} here")
    return path


@functools.cache
def is_old(runsc):
    """Whether it is of a year before NEW: "runsc version 0.0~20221219.0", "runsc version release-20240729.0"."""
    said = subprocess.run([runsc, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"(20[0-9]{2})[0-9]{4}", said)
    return found is not None and int(found[1]) < NEW


def environment(runtime, test="", module=""):
    """Variables that make every cell a container of this runtime."""
    if not IS_STATIC:
        pytest.skip("the sanitizers' programs are not static, and a container may have no libraries")
    if test in NOT_IN_CONTAINERS:
        pytest.skip(NOT_IN_CONTAINERS[test])
    if runtime == "crun" and test in NOT_IN_CRUN:
        pytest.skip(NOT_IN_CRUN[test])
    if runtime == "runsc" and test in NOT_IN_GVISOR:
        pytest.skip(NOT_IN_GVISOR[test])
    if runtime == "runsc" and is_old(find(runtime)) and (module in NOT_IN_OLD_GVISOR or test == "test_disk"):
        pytest.skip("ls and stat fail in this version of gVisor")
    return {"CLOISTER_BOUNDARY": "oci", "CLOISTER_RUNTIME": find(runtime)}


def is_container(operator):
    return "CLOISTER_RUNTIME" in operator.env


def is_sandboxed(operator):
    """Whether the agent has a kernel of its own, which this machine does not see into."""
    return os.path.basename(operator.env.get("CLOISTER_RUNTIME", "")) == "runsc"
