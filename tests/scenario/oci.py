"""Containers of OCI runtimes as walls: what `run --boundary oci` needs."""
import os
import shutil

import pytest

from operators import IS_STATIC

RUNTIMES = ["crun", "runc", "runsc"]
FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"

# docs/runtimes.md says so too.
NOT_IN_CONTAINERS = {}
NOT_IN_GVISOR = {}


def find(runtime):
    """The runtime's program; another runsc than the system's if CLOISTER_TEST_RUNSC names one."""
    path = os.environ.get("CLOISTER_TEST_RUNSC") if runtime == "runsc" else None
    path = path or shutil.which(runtime, path=FOLDERS)
    if path is None:
        pytest.skip(f"no {runtime} here")
    return path


def environment(runtime, test=""):
    """Variables that make every cell a container of this runtime."""
    if not IS_STATIC:
        pytest.skip("the sanitizers' programs are not static, and a container may have no libraries")
    if test in NOT_IN_CONTAINERS:
        pytest.skip(NOT_IN_CONTAINERS[test])
    if runtime == "runsc" and test in NOT_IN_GVISOR:
        pytest.skip(NOT_IN_GVISOR[test])
    return {"CLOISTER_BOUNDARY": "oci", "CLOISTER_RUNTIME": find(runtime)}


def is_container(operator):
    return "CLOISTER_RUNTIME" in operator.env


def is_sandboxed(operator):
    """Whether the agent has a kernel of its own, which this machine does not see into."""
    return os.path.basename(operator.env.get("CLOISTER_RUNTIME", "")) == "runsc"
