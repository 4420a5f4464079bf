"""A cloister.yaml is found from the folders below it; one of another user is not."""
import os

import pytest

from operators import IS_ROOT, only_root, only_user

GATE = "198.18.0.1"
DENY_ALL = "version: 1\negress: []\n"


def has_policy(operator, *options, **how):
    said = operator.run(*options, "--", "cat", "/etc/resolv.conf", **how)
    assert said.status == 0, said
    return GATE in said.out


@pytest.fixture
def below(operator):
    """A folder two below one that has a policy."""
    operator.folder("top")
    operator.folder("top/project", {"cloister.yaml": DENY_ALL})
    operator.folder("top/project/src")
    return operator.folder("top/project/src/deep")


def test_from_below(operator, below):
    project = below.parent.parent
    said = operator.run("--", "cat", "/etc/resolv.conf", cwd=below)
    assert GATE in said.ok()
    # Not only on a terminal: it is not where one stands.
    assert said.err == f"cloister: the policy is {project}/cloister.yaml\n"
    assert operator.run("-q", "--", "true", cwd=below).err == ""
    assert has_policy(operator, "-w", below)
    assert not has_policy(operator, "--no-policy", cwd=below)
    # The cell can write where it works, and not the policy.
    assert has_policy(operator, "-w", f"{below}:rw")


def test_the_nearest(operator, below):
    operator.file("top/project/src/cloister.yaml", DENY_ALL)
    assert f"{below.parent}/cloister.yaml" in operator.run("--", "true", cwd=below).err


def test_a_file_that_an_agent_can_write_is_not_used(operator, below):
    operator.run("-w", f"{below.parent.parent}:rw", "--no-policy", "--", "true").ok()
    operator.run("--", "true", cwd=below).sentence("project/cloister.yaml", "agent", "cloister trust", "--no-policy",
                                                     "no cell was started")


def test_a_file_in_the_home_folder_is_not_used(operator):
    """It would apply to every project."""
    operator.file("home/cloister.yaml", DENY_ALL)
    project = operator.folder("home/project")
    assert not has_policy(operator, cwd=project)
    assert has_policy(operator, cwd=operator.home)
    operator.file("home/project/cloister.yaml", DENY_ALL)
    assert has_policy(operator, cwd=operator.folder("home/project/src"))


def test_folders_above_the_home_folder_are_not_searched(operator, below):
    assert not has_policy(operator, cwd=below, env={"HOME": str(below.parent)})
    assert not has_policy(operator, cwd=below, env={"HOME": str(below)})
    assert has_policy(operator, cwd=below, env={"HOME": "/nowhere"})


def test_folders_that_everybody_may_write_are_not_searched(operator, below):
    """As /tmp: the first user to write there would choose for all."""
    below.parent.parent.chmod(0o1777)
    assert not has_policy(operator, cwd=below)
    # Nor from beyond it.
    operator.file("top/cloister.yaml", DENY_ALL)
    (below.parent.parent / "cloister.yaml").unlink()
    assert not has_policy(operator, cwd=below)


@only_root
def test_other_file_systems_are_not_searched(operator, below):
    said = operator.do("unshare", "-m", "sh", "-c", f"mount -t tmpfs none {below} && cd {below} && "
                       f"exec {operator.program} run -- cat /etc/resolv.conf")
    assert GATE not in said.ok()


@only_root
def test_folders_of_other_users_are_not_searched(operator, below):
    os.chown(below.parent.parent, 12345, 12345)
    assert not has_policy(operator, cwd=below)


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files away")
@only_user
def test_folders_of_root_are_not_searched(operator, below):
    os.chown(below.parent.parent, 0, 0)
    assert not has_policy(operator, cwd=below)
    os.chown(below.parent.parent, operator.uid, operator.gid)
    # A stranger's file in one's own folder is not passed over.
    os.chown(below.parent.parent / "cloister.yaml", 12345, 12345)
    operator.run("--", "true", cwd=below).sentence("cloister.yaml", "somebody else")


def test_check_and_test_find_it_too(operator, below):
    assert operator.cloister("policy", "check", cwd=below).ok() == "../../cloister.yaml: 0 rules\n"
    operator.file("top/project/cloister.test.yaml", "- {request: GET https://a.example/, expect: deny}\n")
    assert operator.cloister("policy", "test", cwd=below).ok() == "1 case passed\n"
    below.parent.parent.chmod(0o1777)
    operator.cloister("policy", "check", cwd=below).sentence("there is no cloister.yaml here")
