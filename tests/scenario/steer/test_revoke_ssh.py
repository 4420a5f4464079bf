"""`revoke` and `rotate` of a key for SSH: sessions that were logged in with it, and git's."""
import os
import subprocess

import test_egress_ssh
from operators import SECONDS, USER, only_user, wait_until
from test_egress_ssh import HOST, RULES, SSH, fingerprint, keygen, servers, world  # noqa: F401  fixtures

# Where root makes no difference.
pytestmark = [*test_egress_ssh.pytestmark, only_user]


def session(world, host):  # noqa: F811
    """A login that gives back every line."""
    process = world.operator.spawn(world.operator.program, "exec", world.online.cell, "--", "sh", "-c",
                                   f"exec {SSH} -o StrictHostKeyChecking=no {host} cat", stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert says(process, "first")
    return process


def says(process, word):
    process.stdin.write(word.encode() + b"\n")
    process.stdin.flush()
    return process.stdout.readline().decode() == word + "\n"


def bare_repository(server):
    """A repository whose server is busy with a push until it gets a signal to finish."""
    bare = server.folder / "home" / f"repo-{os.urandom(4).hex()}.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)
    hook = bare / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\ntouch {bare}/began\nuntil [ -e {bare}/over ]; do sleep 0.05; done; exit 1\n")
    hook.chmod(0o755)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", bare], check=True)
    return bare


def test_sessions_and_a_push(world):  # noqa: F811
    world.give()
    second = keygen(world.operator.base / "second")
    world.up.permit(second)
    other = keygen(world.operator.base / "other")
    world.ws.permit(other)
    world.operator.cloister("secret", "add", "OTHER", "--scheme", "ssh", "--host", "ws.example.test:22",
                            input=other.read_text()).ok()
    cell = world.online.start(RULES, "sleep", "infinity", options=("-s", "KEY", "-s", "OTHER"))
    bare = bare_repository(world.up)
    early, elsewhere = session(world, HOST), session(world, "git@ws.example.test")
    # Another key: who is in stays in, who comes shows the new one.
    world.operator.cloister("rotate", "--new", cell, "KEY", input=second.read_text()).ok()
    assert says(early, "still")
    late = session(world, HOST)
    assert world.up.said("Accepted publickey", fingerprint(second))
    push = world.operator.spawn(
        world.operator.program, "exec", cell, "--", "sh", "-c", "cd; git init -q work; cd work; git -c user.name=a "
        f"-c user.email=a@b commit -q --allow-empty -m first; git push -q {HOST}:{bare} HEAD:main",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until((bare / "began").exists, "the push being under way")
    world.operator.cloister("revoke", cell, "KEY").ok()
    for process in (early, late):
        assert process.wait(SECONDS) == 255
    _, err = push.communicate(timeout=SECONDS)
    (bare / "over").touch()
    assert push.returncode != 0 and b"hung up" in err and b"declined" not in err, err
    assert says(elsewhere, "alive")
    done = world.online.inside("sh", "-c", f"{SSH} -o StrictHostKeyChecking=no {HOST} echo in")
    assert done.status == 255 and "in\n" not in done.out
    event, = world.events(why="revoked")
    assert event["verdict"] == "deny" and event["secret"] == "KEY"
    wait_until(lambda: len(world.online.events(type="tcp", why="revoked")) == 3, "all three being recorded")
    world.operator.cloister("kill", cell).ok()


def test_a_budget_of_a_key(world):  # noqa: F811
    """A login is what a key is used for."""
    world.give()
    policy = "version: 1\nbudgets: [{secret: KEY, requests: 1}]\negress:\n" + RULES
    done = world.sh(f"{SSH} {HOST} echo one; {SSH} {HOST} echo two", rules=policy)
    assert done.out == "one\n"
    event, = world.events(verdict="deny")
    assert event["why"] == "budget" and "the budget 'secret:KEY' is used up" in event["note"]
