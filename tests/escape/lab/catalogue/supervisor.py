"""Probes of processes and files that outlive their box."""
import os
import secrets
import signal

from ..cell import NotApplicable, NotRun, gone, status_of
from ..verdict import probe


@probe("leaves a daemon behind when its command ends")
def daemon_left(w):
    if w.box.name == "cloister exec":
        raise NotApplicable("its cell goes on, and so may what was started in it")
    cell = w.spawn("daemon")
    cell.watch(cell.ended, 10)
    cell.check()
    cell.watch(lambda: not cell.pids(), 0.2 if w.control else 1)
    return bool(cell.pids())


@probe("goes on when whoever supervises it is killed")
def supervisor_killed(w):
    if w.box.name == "cloister exec":
        raise NotApplicable("the same as for run")
    cell = under_a_shell(w) if w.control else w.spawn("deaf")
    os.kill(supervisor_of(cell.pid()), signal.SIGKILL)
    return not cell.watch(lambda: not cell.pids(), 0.3 if w.control else 1)


@probe("goes on when whoever supervises it is killed, and its pid 1 is stuck")
def supervisor_killed_stuck(w):
    if w.box.name == "cloister exec":
        raise NotApplicable("the same as for run")
    cell = under_a_shell(w) if w.control else w.spawn("deaf")
    pid = cell.pid()
    supervisor, first = supervisor_of(pid), first_of(pid)
    if first != pid:
        os.kill(first, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    over = cell.watch(lambda: not cell.pids(), 0.3 if w.control else 1)
    if not over and first != pid:
        os.kill(first, signal.SIGKILL)
    return not over


def first_of(pid):
    """Pid 1 of its pid namespace; itself where it has none of its own."""
    outer = pid
    while len(status_of(outer)["NSpid"].split()) > len(status_of(os.getpid())["NSpid"].split()):
        if status_of(outer)["NSpid"].split()[-1] == "1":
            return outer
        outer = int(status_of(outer)["PPid"])
    return pid


def under_a_shell(w):
    nonce, request = w.request(["deaf"])
    return w.launch(["sh", "-c", '"$@" & wait', "sh", *request.argv], nonce)


def supervisor_of(pid):
    """The first of its forebears that is not in the box's pid namespace."""
    depth = len(status_of(os.getpid())["NSpid"].split())
    if len(status_of(pid)["NSpid"].split()) == depth:
        return int(status_of(pid)["PPid"])
    while len(status_of(pid)["NSpid"].split()) > depth:
        pid = int(status_of(pid)["PPid"])
    assert pid not in (1, os.getpid())
    return pid


@probe("ends another cell of the same user, the folder with its control socket having been granted")
def control_socket(w):
    """A user may well grant $XDG_RUNTIME_DIR, for the sockets of other programs in it."""
    w.box.need("detach")
    if w.box.name == "cloister exec":
        raise NotApplicable("the same as for run")
    tool = w.lab.product(w.who, False) / "cloister"
    victim = detached_cell(w, tool)
    script = ["sh", "-c", '"$@"; echo @ready >&2', "sh", tool, "kill", victim.name]
    for grant in (["-v", w.runtime], ["-v", w.base], ["-w", f"{w.base}:rw"]):
        grants = [*grant, "-v", f"{tool.parent}:{tool.parent}:ro",
                  "-e", f"CLOISTER_RUNTIME_DIR={w.runtime}"]
        inside = [w.box.tool(w), "run", "-q", *w.box.words(w), *grants, "--"] if not w.control else []
        attacker = w.launch([*inside, *script], "none").finish()
        if "cannot be granted" not in attacker.tail():
            attacker.check()
    return victim.watch(lambda: not victim.pids(), 0.3)


def detached_cell(w, tool):
    nonce, request = w.request(["deaf"])
    grant = f"{w.lab.probe}:{w.lab.probe}:ro"
    name = "v" + secrets.token_hex(6)
    cell = w.launch([tool, "run", "-q", "-d", "--name", name, "-v", grant, "--", *request.argv], nonce)
    cell.name = name
    if not cell.watch(lambda: cell.pids(), 5):
        raise NotRun(f"no other cell: {cell.tail()}")
    return cell


@probe("survives `cloister kill`: a daemon that hears no signal")
def daemon_killed(w):
    w.box.need("detach")
    return survives(w, "kill")


@probe("survives `cloister stop`: a daemon that hears no signal")
def daemon_stopped(w):
    w.box.need("detach")
    return survives(w, "stop", "-t", "0")


def survives(w, verb, *options):
    if w.control:
        cell = w.spawn("deaf")
        os.kill(cell.pid(), signal.SIGTERM)
        return not cell.watch(lambda: gone(cell.pids()[0]) if cell.pids() else True, 0.3)
    cell = w.spawn_detached("deaf")
    w.tool_run(verb, *options, cell.name)
    return not cell.watch(lambda: not cell.pids(), 1)
