"""The agent's identity: an ordinary user inside, nobody outside, with no rights in either."""
import os
import socket
from pathlib import Path

import pytest

from operators import children_of, is_witness, only_root, status_of

RANGE = 65536
FIRST = 0x70000000
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")


def numbers(text):
    return [int(n) for n in text.split()]


def test_agent_is_an_ordinary_user(operator):
    said = operator.sh("id -u; id -g; id -G; id -un; id -gn; echo ~").ok()
    assert said.split("\n") == ["1000", "1000", "1000", "agent", "agent", "/home/agent", ""]


def test_root_is_root_of_the_cell_only(operator):
    said = operator.sh("id -u; id -g; id -G; id -un; cat /proc/self/status", "--root").ok()
    assert said.startswith("0\n0\n0\nroot\n")
    for name in CAPABILITIES:
        assert f"{name}:\t{0:016x}\n" in said


@only_root
def test_supplementary_groups_stay_outside(operator):
    said = operator.sh("id -G", extra_groups=[4, 27, 1234])
    assert said.ok() == "1000\n"


@pytest.mark.parametrize("options", [(), ("--root",), ("--profile", "nested")],
                         ids=["agent", "root", "nested"])
def test_ids_outside(operator, options):
    cell = operator.cell(operator.detach(*options, "--", "sleep", "1000"))
    inside = 0 if "--root" in options else 1000
    for pid in (cell["agent"], cell["init"]):
        status = status_of(pid)
        uids, gids = numbers(status["Uid"]), numbers(status["Gid"])
        assert len(set(uids + gids)) == 1
        if operator.is_root:
            assert uids[0] >= FIRST and (uids[0] - FIRST) % RANGE == inside
            assert numbers(status["Groups"]) == []
        else:
            assert uids[0] == operator.uid


@only_root
def test_each_cell_has_ids_of_its_own(operator):
    agents = [operator.cell(operator.detach("--", "sleep", "1000"))["agent"] for _ in range(5)]
    bases = {(numbers(status_of(pid)["Uid"])[0] - FIRST) // RANGE for pid in agents}
    assert len(bases) == len(agents)


@pytest.mark.parametrize("options", [(), ("--root",), ("--profile", "nested")],
                         ids=["agent", "root", "nested"])
def test_no_rights(operator, options):
    cell = operator.cell(operator.detach(*options, "--", "sleep", "1000"))
    for pid in (cell["agent"], cell["init"]):
        status = status_of(pid)
        for name in CAPABILITIES:
            assert int(status[name], 16) == 0, (pid, name)
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"


def test_supervisor_gives_up_its_own_rights(operator):
    status = status_of(operator.cell(operator.detach("--", "sleep", "1000"))["supervisor"])
    dac_override = 1 << 1
    assert int(status["CapEff"], 16) == (dac_override if operator.is_root else 0)
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_exec_has_no_more_rights_than_the_agent(operator):
    id = operator.detach("--", "sleep", "1000")
    said = operator.cloister("exec", id, "--", "sh", "-c",
                             "id -u; id -G; cat /proc/self/status; readlink /proc/self/ns/*")
    agent = status_of(operator.cell(id)["agent"])
    assert said.ok().startswith("1000\n1000\n")
    for name in (*CAPABILITIES, "NoNewPrivs", "Seccomp"):
        assert f"{name}:\t{agent[name]}\n" in said.out
    for name in NAMESPACES:
        assert os.readlink(f"/proc/{operator.cell(id)['agent']}/ns/{name}") + "\n" in said.out


def test_a_setuid_program_is_nothing_special(operator):
    folder = operator.folder("granted")
    (folder / "id").write_bytes(Path("/usr/bin/id").read_bytes())
    (folder / "id").chmod(0o6755)
    said = operator.sh("/granted/id -u; /granted/id -G; id -u", "-v", f"{folder}:/granted")
    assert said.ok() == "1000\n1000\n1000\n"


def test_namespaces_are_the_cells_own(operator):
    agents = [operator.cell(operator.detach("--", "sleep", "1000"))["agent"] for _ in range(2)]
    for name in NAMESPACES:
        links = {os.readlink(f"/proc/{pid}/ns/{name}") for pid in ["self", *agents]}
        assert len(links) == 3, name


def test_only_the_cells_processes_are_seen(operator):
    said = operator.sh("cd /proc; echo [0-9]*; cat 1/comm").ok()
    pids, first = said.split("\n")[:2]
    assert numbers(pids)[0] == 1 and len(numbers(pids)) == 2
    assert first == "cloister-init"


def test_one_process_beside_the_agent(operator):
    cell = operator.cell(operator.detach("--", "sleep", "1000"))
    assert [pid for pid in children_of(cell["supervisor"]) if not is_witness(pid)] == [cell["init"]]
    assert children_of(cell["init"]) == [cell["agent"]]


def test_host_name(operator):
    assert operator.sh("hostname; cat /etc/hostname").ok() == "cell\ncell\n"
    said = operator.sh("hostname; cat /etc/hostname; getent hosts lab-7", "--hostname", "lab-7")
    assert said.ok().startswith("lab-7\nlab-7\n") and "::1" in said.out
    assert socket.gethostname() not in ("cell", "lab-7")


@pytest.mark.parametrize("name", ["", "-a", "a.b", "a b", "x" * 64, "ä"])
def test_host_name_that_cannot_be(operator, name):
    operator.run("--hostname", name, "--", "true").sentence("host name")
