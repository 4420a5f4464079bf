"""The cases of the matrix: what each runs in a guest, and in which places.

A place is how somebody came to a shell: `root` and `user` have logged in (PAM and logind gave
them a session), and `delegated` is the user in a scope of their own systemd, whose cgroups are
delegated to them.
"""
from dataclasses import dataclass

PLACES = ("root", "user", "delegated")

HERE = "tests/matrix"
PYTEST = "/usr/bin/python3 -m pytest -q --tb=short -rfEs -p no:cacheprovider"
# As `make run` does where AppArmor restricts user namespaces: the build gets a profile.
ALLOW = "tools/apparmor.sh allow build &&"
# As `make test` calls a test: the build, and AppArmor's restriction lifted where there is one.
JUDGE = "CLOISTER_BUILD=build CLOISTER=build/cloister tools/apparmor.sh lift"


@dataclass(frozen=True)
class Case:
    name: str
    about: str
    command: str                # for a shell, in the tree
    places: tuple = PLACES
    seconds: int = 900          # under emulation
    accelerators: tuple = ("kvm", "tcg")    # under which it runs if no case is asked for


def scenario(name, about, files, *, places=("root", "user"), seconds=3600, k=""):
    """Some scenarios. As root they also run as an ordinary user without a session."""
    only = f"-k '{k}' " if k else ""
    paths = " ".join(f"tests/scenario/*/{file}.py" for file in files.split())
    return Case(name, about, f"{JUDGE} {PYTEST} --junitxml=$RESULT.xml {only}{paths}", places, seconds,
                ("tcg",))


# Under emulation this was done before the boot.  The user's, so that everybody can use it.
BUILD = Case("build", "make, in the guest", "make all && make tests mutant", ("user",), 3600, ("kvm",))

CASES = {case.name: case for case in (
    BUILD,
    Case("system", "pure cgroup v2, AppArmor, a session and what is delegated to it",
         f"/usr/bin/python3 {HERE}/check_system.py"),
    Case("data-loss", "an agent's changes to a workspace are kept, whatever calls made them",
         f"{ALLOW} {HERE}/data_loss.sh"),
    Case("closed-folder", "as above, in a folder that the agent closed to its own owner",
         f"{ALLOW} {HERE}/data_loss.sh closed"),
    Case("run", "make run", "make run", seconds=1800),
    Case("doctor", "cloister doctor", f"{ALLOW} build/cloister doctor"),
    Case("limits", "memory, processes and CPU time of a cell are limited by cgroup v2",
         f"{ALLOW} {HERE}/limits.sh"),
    Case("microvm", "cells with a kernel of their own: templates, the gate, files, a boot and a kill",
         f"{ALLOW} {HERE}/microvm.sh", ("root", "user"), seconds=3600),
    Case("apparmor", "installed, with AppArmor's restrictions in force",
         f"{HERE}/apparmor.sh", ("user",)),
    Case("verity", "a registered capability's bytes on a file system with fs-verity",
         f"{HERE}/verity.sh", ("root",)),
    Case("unit", "the unit tests", "build/tests/unit", ("root", "user"), seconds=3600,
         accelerators=("tcg",)),
    scenario("workspace", "overlay workspaces, diff and apply", "test_workspace test_apply"),
    scenario("cells", "a cell's life, its files, its limits, its network",
             "test_life test_files test_limits test_freeze test_network test_stdio"),
    scenario("lasting", "what outlives a cell: states, volumes",
             "test_state_commands test_state_commits test_state_cells test_volumes"),
    scenario("systemd", "the units of contrib/systemd", "test_systemd", places=("root",)),
    Case("test", "make test, all of it", "make test", ("root", "user"), seconds=7200,
         accelerators=("kvm",)),
)}

def chosen(accelerator, only=()):
    """The cases to run, in order."""
    if only:
        first = [BUILD] if accelerator == "kvm" and BUILD.name not in only else []
        return first + [CASES[name] for name in only]
    return [case for case in CASES.values() if accelerator in case.accelerators]


def plan(accelerator, only=()):
    """The plan that guest.py reads."""
    steps = [{"case": case.name, "place": place, "command": case.command,
              "seconds": case.seconds}
             for case in chosen(accelerator, only) for place in case.places]
    # What is one second elsewhere takes twenty or more under emulation.
    seconds = "60" if accelerator == "kvm" else "600"
    return {"steps": steps, "env": {"CLOISTER_TEST_SECONDS": seconds, "CLOISTER_SUITE_SECONDS": "7200"}}
