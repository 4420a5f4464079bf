"""Cloister neither runs nor reads files that an agent could have written."""
import os
import secrets
import subprocess

import pytest

from operators import wait_until
from terminal import Terminal

WROTE = "an agent can or could write"
THIS_CELL = "this cell could change"


@pytest.fixture
def work(operator):
    """A folder with a program that gives a value and leaves a trace."""
    operator.ran = operator.folder("trace") / "ran"
    folder = operator.folder("work")
    operator.folder("safe")
    for name in ("work/tok.sh", "safe/tok.sh"):
        script = operator.file(name, f"#!/bin/sh\necho x >> {operator.ran}\necho t0ken-t0ken-t0ken\n")
        script.chmod(0o755)
    return folder


def write_once(operator, folder):
    """An agent could write there, once."""
    operator.run("-w", f"{folder}:rw", "--no-policy", "--", "true").ok()


def secret(operator, name, source):
    operator.cloister("secret", "add", name, "--host", "a.example", "--from", source).ok()


def use(operator, name, *options, **how):
    return operator.run("--allow", "a.example", "-s", name, *options, "--", "true", **how)


WAYS = ("{f}", "sh {f}", "sh -c 'sh {f}'", 'sh -c "cd {d} && ./tok.sh"', "env X={d} sh {f}")


@pytest.mark.parametrize("way", WAYS)
def test_the_program_of_a_secret(operator, work, way):
    secret(operator, "KEY", "cmd:" + way.format(f=work / "tok.sh", d=work))
    secret(operator, "SAFE", f"cmd:{operator.base}/safe/tok.sh")
    use(operator, "KEY").ok()
    assert operator.ran.read_text() == "x\n"
    # This very cell may write it.
    use(operator, "KEY", "-v", f"{work}:/w").sentence(THIS_CELL, "the program that gives a secret")
    use(operator, "KEY").ok()
    write_once(operator, work)
    operator.ran.unlink()
    use(operator, "KEY").sentence(WROTE, work, "cloister trust")
    assert not operator.ran.exists()
    use(operator, "SAFE").ok()


def test_a_relative_program(operator, work):
    """In the current folder, from which no program takes any other file."""
    secret(operator, "KEY", "cmd:sh tok.sh")
    secret(operator, "HERE", "cmd:sh -c pwd")
    use(operator, "KEY", cwd=work).ok()
    write_once(operator, work)
    use(operator, "KEY", cwd=work).sentence(WROTE)
    where = operator.file("safe/where.sh", f"pwd > {operator.base}/safe/where; echo t0ken-t0ken-t0ken\n")
    secret(operator, "WHERE", f"cmd:sh {where}")
    use(operator, "WHERE", cwd=work).ok()
    assert (operator.base / "safe/where").read_text() == "/\n"
    use(operator, "WHERE", cwd=operator.home).ok()
    assert (operator.base / "safe/where").read_text() == f"{operator.home}\n"


def test_the_vaults_key(operator, work):
    operator.cloister("secret", "init", "--key", f"cmd:{work}/tok.sh").ok()
    operator.cloister("secret", "add", "KEY", "--host", "a.example", input="t0ken-of-mine").ok()
    write_once(operator, work)
    operator.ran.unlink()
    operator.cloister("secret", "list").sentence(WROTE, "vault's key")
    assert not operator.ran.exists()


def test_commands_of_notifications(operator, work):
    """While a cell that can write the program runs, and after it."""
    operator.env["XDG_CONFIG_HOME"] = str(operator.folder("config"))
    operator.file("config/cloister/notify.yaml", f"- command: ['{work}/tok.sh']\n").chmod(0o600)
    policy = operator.file("policy.yaml", "version: 1\negress:\n  - ask: api.example.com\n    reason: people only\n")
    ask = ["-p", policy, "--", "curl", "-sS", "http://api.example.com/x"]

    def told(*options):
        cell = operator.detach(*options, *ask)
        wait_until(lambda: operator.cloister("approvals", "--json").ok(), "it asks")
        notes = wait_until(lambda: operator.ran.exists() or [
            line for line in operator.cloister("events", cell, "--json").ok().splitlines()
            if "not_notified" in line], "it is told")
        operator.cloister("kill", cell).ok()
        return notes

    assert told() is True
    operator.ran.unlink()
    assert WROTE in told("-v", f"{work}:/w")[0]
    assert WROTE in told()[0]
    assert not operator.ran.exists()
    operator.cloister("trust", "--yes", work).ok()
    assert told() is True


def test_a_refused_cell_marks_nothing(operator):
    folder = operator.folder("project", {"cloister.yaml": "version: 1\negress: []\n"})
    said = operator.run("-w", f"{folder}:rw", "--", "true").sentence(THIS_CELL, ":overlay", "-p")
    assert "cloister trust" not in said         # there is nothing to clear
    operator.run("--", "true", cwd=folder).ok()
    operator.run("-w", folder, "--", "true").ok()


# ---- looking and clearing ---------------------------------------------------------------------------

def test_nothing_is_marked(operator):
    """A message says so on a terminal; a program reads an empty list."""
    assert operator.cloister("trust").ok() == ""
    terminal = Terminal(operator, operator.program, "trust")
    terminal.expect("no folder is marked")
    assert terminal.end() == 0
    terminal.close()


def test_look_and_clear(operator, work):
    assert operator.cloister("trust").ok() == ""
    operator.file("work/old", "old")
    name = secrets.token_hex(8)
    operator.run("-v", f"{work}:/w", "--", "sh", "-c", f"echo x > /w/{name}; mkdir /w/sub; echo x > /w/sub/y; "
                 "ln -s /etc/passwd /w/$(printf 'l\\033k')").ok()
    assert str(work) in operator.cloister("trust").ok()
    # Nobody said yes.
    said = operator.cloister("trust", work)
    assert said.status == 125 and "--yes" in said.err
    for shown in (name, "sub/y"):
        assert shown in said.out, said
    assert "old" not in said.out and "\033" not in said.out
    operator.run("-p", operator.file("work/p.yaml", "version: 1\negress: []\n"), "--", "true").sentence(
        WROTE, f"cloister trust {work}")
    assert name in operator.cloister("trust", "--yes", work).ok()
    operator.run("-p", work / "p.yaml", "--", "true").ok()
    assert operator.cloister("trust").ok() == ""
    operator.cloister("trust", "--yes", work).sentence("no agent could write")
    assert "folder.trusted" in operator.cloister("audit", "show", "--operator").ok()


def test_trust_is_refused_while_a_cell_can_write(operator, work):
    cell = operator.detach("-v", f"{work}:/w", "--", "sleep", "100")
    operator.cloister("trust", "--yes", work).sentence("running", "stop")
    assert "running" in operator.cloister("trust").ok()
    operator.cloister("kill", cell).ok()
    wait_until(lambda: operator.cloister("trust", "--yes", work).status == 0, "it has ended")


def test_a_folder_in_a_marked_folder(operator, work):
    write_once(operator, work.parent / "work")
    inner = operator.folder("work/inner")
    operator.cloister("trust", "--yes", inner).sentence(str(work))
    outer = operator.cloister("trust", "--yes", work.parent).ok()
    assert str(work) in outer
    assert operator.cloister("trust").ok() == ""


def test_a_folder_exchanged_for_a_link_meanwhile(operator, work):
    """The agent of another cell exchanges them all the time, and asks for cells that get the folder."""
    secret_folder = operator.folder("outside", {"file": "canary"})
    operator.folder("work/docs", {"file": "own"})
    (work / "link").symlink_to(secret_folder)
    operator.own(work)
    write_once(operator, work)
    exchange = ("import ctypes, sys; c = ctypes.CDLL(None); print('go', flush=True)\n"
                "while True: c.renameat2(-100, b'docs', -100, b'link', 2)")
    racer = operator.spawn("/usr/bin/python3", "-Ic", exchange, cwd=work, stdout=subprocess.PIPE)
    racer.stdout.readline()
    said = {operator.run("-v", f"{work}/docs:/docs:ro", "--no-policy", "--", "cat", "/docs/file").out for _ in range(40)}
    racer.kill()
    assert "canary" not in said and "own" in said
