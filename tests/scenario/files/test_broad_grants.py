"""Grants that are broader than a project: a warning with a narrower form, and an error with --strict."""
import os
import socket

import pytest

from operators import only_root


def try_grant(operator, *grant, strict=False):
    return operator.cloister("run", *(["--strict"] if strict else []), *grant, "--", "true",
                             env={"HOME": str(operator.base / "home")})


@pytest.fixture
def home(operator):
    home = operator.folder("home", {"project/a": "a\n", "keys/id_ed25519": "no key\n"})
    for name in ".aws", ".config/gh":
        operator.folder(f"home/{name}")
    return home


BROAD = {
    "home": (["-w", "{home}"], "is your whole home, with keys in it (.aws)", "-w ~/project"),
    "above": (["-v", "{home}/..:/srv/x:ro"], "is far more than a project", "-w ~/project"),
    "machine": (["-v", "/etc:/srv/x:ro"], "is far more than a project", "-w ~/project"),
    "store": (["-v", "{home}/.config/gh:ro"], "is a place of keys", "cloister secret add NAME"),
    "keys": (["-w", "{home}/keys"], "holds keys ('id_ed25519')", "cloister secret add NAME"),
}


@pytest.mark.parametrize("case", BROAD)
def test_is_noticed(operator, home, case):
    grant, says, narrower = BROAD[case]
    grant = [word.format(home=home) for word in grant]
    done = try_grant(operator, *grant)
    assert done.status == 0 and done.err.count("\n") == 1 and says in done.err and narrower in done.err, done.err
    assert try_grant(operator, "-q", *grant).err == ""
    try_grant(operator, *grant, strict=True).sentence(says, "--strict")


def test_an_engines_socket(operator, home):
    path = operator.folder("run") / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        operator.own(path)
        assert "command a container engine" in try_grant(operator, "-v", str(path)).err
        try_grant(operator, "-v", str(path), strict=True).sentence("command a container engine")


def test_a_link_is_no_way_around(operator, home):
    link = operator.base / "link"
    os.symlink(home, link)
    assert "is your whole home" in try_grant(operator, "-w", str(link)).err


@pytest.mark.parametrize("strict", [False, True])
def test_a_project_is_no_broad_grant(operator, home, strict):
    done = try_grant(operator, "-w", str(home / "project"), strict=strict)
    assert done.status == 0 and done.err == ""


@only_root
def test_the_whole_machine(operator):
    try_grant(operator, "-v", "/:/srv/x:ro", strict=True).sentence("'/' is far more than a project")
