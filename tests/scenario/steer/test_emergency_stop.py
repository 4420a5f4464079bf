"""The emergency stop never lies: what it calls dead is dead, whatever keeps the supervisor busy, silent or
stopped; and no limit depends on a supervisor that stands still."""
import fcntl
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from dispatches import agent, await_over, detach
from operators import as_one, children_of, descendants_of, end, is_alive, only_root, only_user, wait_until
from service import Service
from terminal import Terminal
from test_control_socket import connect
from test_freeze import await_frozen, is_frozen

SEATS = 64                      # for those who wait
BOUND = 10                      # seconds: what a stop may take on a busy machine


def start(operator, *options, command=("sleep", "infinity")):
    """A detached cell: its id, and the pids of its supervisor and of what is in it, init first."""
    cell = operator.detach(*options, "--", *command)
    info = operator.cell(cell)
    return cell, info["supervisor"], [info["init"], *descendants_of(info["init"])]


def is_over(pids):
    return not any(is_alive(pid) for pid in pids)


def state_of(operator, cell):
    """As people see it."""
    for line in operator.cloister("ps").ok().splitlines()[1:]:
        if line.startswith(cell):
            return line
    return None


def stat_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def seconds_left(init):
    """Until the cell's init ends the cell, whatever its supervisor does; 0: it is over."""
    for file in Path(f"/proc/{init}/fdinfo").iterdir():
        for line in file.read_text().splitlines():
            if line.startswith("it_value: ("):
                return int(line.split("(")[1].split(",")[0])
    raise AssertionError("init has no timer")


def stop_process(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: stat_of(pid) == "T", f"{pid} is stopped")


# ---- a control socket with everybody at it -------------------------------------------------

@pytest.mark.parametrize("verb", [["kill"], ["stop", "-t", "1s"], ["kill", "--all"]])
def test_whoever_waits_takes_no_seat_of_the_stop(operator, verb):
    cell, _, pids = start(operator)
    waiting = [operator.spawn(operator.program, "wait", cell, stderr=subprocess.DEVNULL) for _ in range(SEATS + 16)]
    # Some of them are sent away; the others sit there.
    wait_until(lambda: sum(p.poll() is not None for p in waiting) >= 16, "all seats are taken")
    assert state_of(operator, cell) and "running" in state_of(operator, cell)
    done = operator.cloister(*verb, *([] if "--all" in verb else [cell]), seconds=BOUND)
    assert done.status == 0 and done.err == "", done
    assert done.out == ("killed 1 cell\n" if "--all" in verb else "")
    assert is_over(pids)
    assert sorted({p.wait() for p in waiting}) == [125, 143 if "stop" in verb else 137]


def test_a_client_that_cannot_wait_gets_an_error(operator):
    cell, _, pids = start(operator)
    waiting = [operator.spawn(operator.program, "wait", cell, stderr=subprocess.PIPE) for _ in range(SEATS + 4)]
    first = wait_until(lambda: next((p for p in waiting if p.poll() is not None), None), "one is sent away")
    said = first.stderr.read().decode()
    assert said.startswith("cloister: ") and f"{SEATS} clients" in said and said.count("\n") == 1, said
    operator.cloister("exec", cell, "--", "true").sentence(f"{SEATS} clients")
    operator.cloister("kill", cell).ok()
    assert is_over(pids)


def knock(operator, cell):
    try:
        return connect(operator, cell)
    except BlockingIOError:
        return None


def test_silence_takes_no_seat(operator):
    """A client that connects and sends nothing makes room for one that does."""
    cell, _, pids = start(operator)
    peers = [wait_until(lambda: knock(operator, cell), "there is room in the queue") for _ in range(3 * SEATS)]
    assert operator.cell(cell)["state"] == "running"
    assert operator.cloister("exec", cell, "--", "echo", "alive").ok() == "alive\n"
    assert operator.cloister("kill", "--all", seconds=BOUND).ok() == "killed 1 cell\n"
    assert is_over(pids)
    for peer in peers:
        peer.close()


@only_root
def test_all_seats_taken_and_frozen(operator):
    cell, _, pids = start(operator)
    waiting = [operator.spawn(operator.program, "wait", cell, stderr=subprocess.DEVNULL) for _ in range(SEATS + 16)]
    wait_until(lambda: sum(p.poll() is not None for p in waiting) >= 16, "all seats are taken")
    assert operator.cloister("freeze", "--all").ok() == "froze 1 cell\n"
    await_frozen(cell)
    operator.cloister("thaw", cell).ok()
    assert operator.cell(cell)["state"] == "running"
    operator.cloister("kill", cell).ok()
    assert is_over(pids)


def test_without_its_socket_it_is_still_killed(operator):
    """As while a cell starts: there is an agent, and nothing listens yet."""
    cell, supervisor, pids = start(operator)
    entry = next(e for e in operator.runtime.iterdir() if e.name.startswith(cell + "."))
    (entry / "control").unlink()
    assert "silent" in state_of(operator, cell)
    done = operator.cloister("kill", "--all", seconds=BOUND)
    assert done.status == 0 and done.out == "killed 1 cell\n" and "did not answer" in done.err, done
    assert is_over(pids)
    wait_until(lambda: not is_alive(supervisor), "its supervisor is gone, too")


def test_a_crashed_cell_does_not_count(operator):
    """Its entry is still there, and no process holds its lock."""
    cell, supervisor, pids = start(operator)
    end(supervisor)
    wait_until(lambda: is_over(pids), "the cell dies with it")
    assert operator.cells() == [] and operator.running() != []
    assert operator.cloister("kill", "--all").ok() == "killed 0 cells\n"
    operator.cloister("kill", cell).sentence("has just ended")
    assert operator.run("--", "true").status == 0       # and it clears what is left


def test_more_cells_than_descriptors(operator):
    cells = [start(operator) for _ in range(20)]
    few = lambda *words: operator.do("/bin/sh", "-c", 'ulimit -n 20; exec "$@"', "sh", operator.program, *words)
    if operator.is_root:
        assert few("freeze", "--all").ok() == "froze 20 cells\n"
    assert few("kill", "--all").ok() == "killed 20 cells\n"
    assert all(is_over(pids) for _, _, pids in cells)


# ---- a supervisor that stands still -----------------------------------------------------

@pytest.mark.parametrize("verb", [["kill"], ["stop"], ["kill", "--all"]])
def test_a_stopped_supervisor_keeps_nothing_alive(operator, verb):
    cell, supervisor, pids = start(operator)
    stop_process(supervisor)
    assert "silent" in state_of(operator, cell)
    info, = operator.cells()
    assert (info["cell"], info["state"], info["supervisor"]) == (cell, "silent", supervisor)
    done = operator.cloister(*verb, *([] if "--all" in verb else [cell]), seconds=BOUND)
    assert done.status == 0 and done.out == ("killed 1 cell\n" if "--all" in verb else ""), done
    assert cell in done.err and "did not answer" in done.err and done.err.count("\n") == 1, done
    assert is_over(pids)
    # It goes on, and tidies up.
    wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")
    ended, = operator.cells("-a")
    assert (ended["state"], ended["status"], ended["cause"]) == ("ended", 137, "an operator ended it")


def test_its_changes_are_kept(operator):
    workspace = operator.folder("work", {"file": "before\n"})
    cell, supervisor, pids = start(operator, "-w", workspace,
                                   command=["sh", "-c", "echo after > file; exec sleep infinity"])
    wait_until(lambda: operator.cloister("exec", cell, "--", "grep", "after", workspace / "file").status == 0, "written")
    stop_process(supervisor)
    assert operator.cloister("kill", cell, seconds=BOUND).status == 0
    assert is_over(pids)
    wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")
    assert "+after" in operator.cloister("diff", cell).ok()


@pytest.mark.parametrize("verb", ["kill", "stop"])
def test_a_supervisor_that_tidies_up_is_waited_for(operator, verb):
    """A supervisor that copies changes does not answer, and there is nothing left to kill."""
    workspace = operator.folder("work")
    cell, supervisor, pids = start(operator, "-w", workspace, command=[
        "sh", "-c", "head -c 200M /dev/zero > large; touch done; exec sleep infinity"])
    wait_until(lambda: operator.cloister("exec", cell, "--", "test", "-e", workspace / "done").status == 0, "written")
    process = operator.spawn(operator.program, verb, cell, stderr=subprocess.PIPE)
    collector = wait_until(lambda: next((pid for pid in children_of(supervisor) if name_of(pid) == "cloister-collec"),
                                        None), "changes are copied")
    stop_process(collector)
    assert is_over(pids)
    second = operator.spawn(operator.program, verb, cell, stderr=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    os.kill(collector, signal.SIGCONT)
    assert [(p.communicate(timeout=60)[1], p.returncode) for p in (process, second)] == [(b"", 0)] * 2
    assert "large" in operator.cloister("diff", "--stat", cell).ok()


def test_a_full_queue_of_connections_does_not_matter(operator):
    """The kernel's queue for the socket is full: a new client would wait."""
    cell, supervisor, pids = start(operator)
    stop_process(supervisor)
    peers = []
    entry = next(e for e in operator.runtime.iterdir() if e.name.startswith(cell + "."))
    with pytest.raises(BlockingIOError):
        for _ in range(1000):
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            peer.setblocking(False)
            peers.append(peer)
            peer.connect(str(entry / "control"))
    assert "silent" in operator.cloister("ps", seconds=BOUND).ok()
    operator.cloister("exec", cell, "--", "true", seconds=BOUND).sentence("not answering")
    assert operator.cloister("kill", "--all", seconds=BOUND).ok() == "killed 1 cell\n"
    assert is_over(pids)
    for peer in peers:
        peer.close()


def test_others_do_not_wait_for_it(operator):
    stopped, supervisor, pids = start(operator)
    others = [start(operator) for _ in range(4)]
    stop_process(supervisor)
    process = operator.spawn(operator.program, "kill", "--all", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: all(is_over(other[2]) for other in others), "the others are dead")
    out, _ = process.communicate(timeout=BOUND)
    assert out == b"killed 5 cells\n" and is_over(pids)


@pytest.mark.parametrize("option", ["--time", "--ttl"])
def test_limits_hold_without_it(operator, option):
    cell, supervisor, pids = start(operator, option, "2s", command=["sh", "-c", "trap '' TERM; sleep 604 & wait; wait"])
    stop_process(supervisor)
    wait_until(lambda: is_over(pids), "its limit ends it", seconds=60)
    assert stat_of(supervisor) == "T"
    os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")
    ended, = operator.cells("-a")
    assert ended["status"] == 137 and ended["cause"].endswith(f"({option} 2s)"), ended


def test_a_ttl_that_is_changed_holds_without_it(operator):
    cell, supervisor, pids = start(operator, "--ttl", "1h")
    operator.cloister("ttl", cell, "1s").ok()
    stop_process(supervisor)
    wait_until(lambda: is_over(pids), "its limit ends it", seconds=60)
    os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")
    # And one that is taken back does not strike.
    cell, supervisor, pids = start(operator, "--ttl", "1s")
    operator.cloister("ttl", cell, "none").ok()
    wait_until(lambda: seconds_left(pids[0]) > 3600, "init has the new limit")
    assert all(is_alive(pid) for pid in pids)
    operator.cloister("kill", cell).ok()


def with_budget(operator, text):
    """The option that gives a cell this budget."""
    file = operator.home / "budget.yaml"
    file.write_text(f"version: 1\negress: [{{allow: www.test}}]\nbudgets: [{{{text}}}]\n")
    return "-p", str(file)


@pytest.mark.parametrize("then", ["kill", "freeze"])
def test_a_budget_of_time_holds_without_it(operator, then):
    cell, supervisor, pids = start(operator, *with_budget(operator, f"time: 3s, then: {then}"))
    stop_process(supervisor)
    wait_until(lambda: is_over(pids), "its budget ends it", seconds=60)
    assert stat_of(supervisor) == "T"
    os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")
    ended, = operator.cells("-a")
    assert ended["status"] == 137 and "the budget 'cell' is used up" in ended["cause"], ended


@only_root
def test_a_budget_of_processors_holds_without_it(operator):
    cell, supervisor, pids = start(operator, *with_budget(operator, "cpu: 3s, then: kill"),
                                   command=["sh", "-c", "while :; do :; done"])
    stop_process(supervisor)
    wait_until(lambda: is_over(pids), "its budget ends it", seconds=60)
    os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")
    ended, = operator.cells("-a")
    # On a busy machine it did not get as much.
    assert "of processors" in ended["cause"] or "could have been used up" in ended["cause"], ended


@only_root
def test_time_that_it_was_frozen_counts_for_no_budget(operator):
    cell, supervisor, pids = start(operator, *with_budget(operator, "time: 2s, then: freeze"))
    await_frozen(cell)
    wait_until(lambda: seconds_left(pids[0]) == 0, "init would end it if it could")
    operator.cloister("budget", cell, "--raise", "cell", "time=+1h").ok()
    operator.cloister("thaw", cell).ok()
    operator.cloister("exec", cell, "--", "true").ok()
    assert not is_over(pids)
    operator.cloister("kill", cell).ok()


@only_root
@pytest.mark.parametrize("version", [1, 2])
def test_a_frozen_supervisor(operator, version):
    root = Path("/sys/fs/cgroup/freezer" if version == 1 else "/sys/fs/cgroup/unified")
    root = root if root.exists() else Path("/sys/fs/cgroup")
    if version == 1 and not (root / "release_agent").exists():
        pytest.skip("this machine has no cgroups of version 1")
    cell, supervisor, pids = start(operator)
    group = root / f"still-{cell}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(supervisor))
        (group / ("freezer.state" if version == 1 else "cgroup.freeze")).write_text("FROZEN" if version == 1 else "1")
        done = operator.cloister("kill", cell, seconds=BOUND)
        assert done.status == 0 and "did not answer" in done.err, done
        assert is_over(pids)
        assert "silent" in state_of(operator, cell)
    finally:
        (group / ("freezer.state" if version == 1 else "cgroup.freeze")).write_text("THAWED" if version == 1 else "0")
        wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
        group.rmdir()


@only_root
def test_frozen_cell_and_stopped_supervisor(operator):
    cell, supervisor, pids = start(operator)
    operator.cloister("freeze", cell).ok()
    await_frozen(cell)
    stop_process(supervisor)
    operator.cloister("freeze", cell, seconds=2 * BOUND).sentence("not answering", f"`cloister kill {cell}`")
    assert operator.cloister("kill", cell, seconds=BOUND).status == 0
    assert is_over(pids)
    wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")


@only_root
def test_a_frozen_cell_of_version_1_and_a_stopped_supervisor(operator):
    if not Path("/sys/fs/cgroup/unified/cgroup.procs").exists() or not Path("/sys/fs/cgroup/freezer").exists():
        pytest.skip("this machine has no version 1")
    cell = operator.do("unshare", "-m", "--propagation", "private", "sh", "-c",
                       'umount /sys/fs/cgroup/unified && exec "$@"', "sh", operator.program, "run", "-d", "--",
                       "sh", "-c", "sleep infinity & wait").ok().strip()
    operator.kept.add(cell)
    supervisor, *pids = operator.pids(cell)
    operator.cloister("freeze", cell).ok()
    await_frozen(cell)
    stop_process(supervisor)
    assert operator.cloister("kill", cell, seconds=BOUND).status == 0
    assert is_over(pids)
    wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")


def test_over_the_api(operator):
    service = Service(operator)
    cells = [start(operator) for _ in range(4)]
    for _, supervisor, _ in cells:
        stop_process(supervisor)
    assert {c["state"] for c in service.get("/v1/cells").ok()["cells"]} == {"silent"}
    for (cell, _, pids), verb in zip(cells, ("kill", "stop")):
        answer = service.ask("POST", f"/v1/cells/{cell}/{verb}").ok()
        assert answer["status"] == 137 and "did not answer" in answer["cause"], answer
        assert is_over(pids)
    service.ask("POST", f"/v1/cells/{cells[2][0]}/freeze").error(503, "unavailable", "not answering")
    told = service.ask("POST", "/v1/cells/freeze").ok()
    assert told["cells"] == 0 and told["failed"], told
    assert service.ask("POST", "/v1/cells/kill").ok() == {"cells": 2, "failed": []}
    assert all(is_over(pids) for _, _, pids in cells)
    for _, supervisor, _ in cells:
        wait_until(lambda: not is_alive(supervisor), "its supervisor has tidied up")
    service.stop()


def test_a_dispatch_is_cancelled(operator):
    agent(operator, "a", "echo begun; trap '' TERM; sleep 1000 & wait; wait")
    id = detach(operator, "a")
    wait_until(lambda: operator.cloister("dispatches", "output", id).ok() == "begun\n", "it runs")
    info, = operator.cells()
    pids = descendants_of(info["supervisor"])
    stop_process(info["supervisor"])
    operator.cloister("dispatches", "cancel", id, seconds=BOUND).ok()
    assert is_over(pids)
    assert await_over(operator, id)["state"] == "cancelled"


def test_a_dispatch_without_a_seat(operator):
    """Its driver learns of its end all the same."""
    agent(operator, "a", "until test -e /tmp/go; do sleep 0.05; done; exit 7")
    id = detach(operator, "a")
    info = wait_until(lambda: next(iter(operator.cells()), None), "it runs")
    waiting = [operator.spawn(operator.program, "wait", info["cell"], stderr=subprocess.DEVNULL)
               for _ in range(SEATS + 8)]
    wait_until(lambda: sum(p.poll() is not None for p in waiting) >= 8, "all seats are taken")
    for process in waiting[:SEATS]:
        process.kill()
    wait_until(lambda: operator.cloister("exec", info["cell"], "--", "touch", "/tmp/go").status == 0, "there is a seat")
    assert await_over(operator, id)["exit_code"] == 7


# ---- nobody reads what the supervisor says ------------------------------------------------

def test_a_full_pipe_for_its_words(operator):
    """Its message about a limit must not keep the limit from taking effect, nor the cell from ending."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 65536)
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)
    process = operator.start("--time", "1s", "--", "sleep", "604", stderr=writer, stdout=subprocess.PIPE)
    os.close(writer)
    assert process.wait(timeout=60) == 137
    os.close(reader)


# ---- a terminal's keys --------------------------------------------------------------------

def in_terminal(operator, *options, command="sleep 604"):
    """`true | cloister run`, the foreground job of an interactive shell."""
    terminal = Terminal(operator, "/bin/bash", "--norc", "--noprofile", "-i", env={"PS1": "$ ", "HOME": str(operator.home)})
    terminal.expect(r"\$ ")
    terminal.type(f"true | {operator.program} run {' '.join(options)} -- {command}\n")
    info = wait_until(lambda: next(iter(operator.cells()), None), "the cell runs")
    wait_until(lambda: operator.cells()[0]["agent"], "the agent runs")
    return terminal, info["cell"], info["supervisor"], [info["init"], *descendants_of(info["init"])]


@only_root
def test_ctrl_z_stops_the_agent_with_it(operator):
    terminal, cell, supervisor, pids = in_terminal(operator)
    terminal.type("\x1a")
    terminal.expect("Stopped")
    await_frozen(cell)
    assert stat_of(supervisor) == "T"
    terminal.type("fg\n")
    wait_until(lambda: stat_of(supervisor) != "T" and not is_frozen(cell), "it goes on")
    wait_until(lambda: operator.cell(cell)["state"] == "running", "and says so")
    assert all(is_alive(pid) for pid in pids)
    terminal.type("\x1a")
    terminal.expect("Stopped")
    assert operator.cloister("kill", "--all", seconds=BOUND).ok() == "killed 1 cell\n"
    assert is_over(pids)
    terminal.type("exit\nexit\n")
    terminal.end()
    terminal.close()


def test_ctrl_z_suspends_no_limit(operator):
    terminal, cell, supervisor, pids = in_terminal(operator, "--time", "3s")
    terminal.type("\x1a")
    wait_until(lambda: is_frozen(cell) or is_over(pids), "it does nothing any more", seconds=60)
    terminal.type("fg\n")
    wait_until(lambda: is_over(pids) and not is_alive(supervisor), "and its limit has ended it")
    terminal.expect("it reached its time limit")
    terminal.type("exit\nexit\n")
    terminal.end()
    terminal.close()


# ---- an agent that stops whatever init starts ---------------------------------------------

STOPPER = """
import os, signal
open("/tmp/ready", "w").close()
while not os.path.exists("/tmp/enough"):
    try:
        os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError:
        pass
"""


def test_an_agent_that_stops_everything_cannot_stop_init(operator):
    """Between its fork and its exec, a process that init starts can be stopped like any other."""
    cell, supervisor, pids = start(operator, command=["/usr/bin/python3", "-c", STOPPER])
    tries = [operator.spawn(operator.program, "exec", cell, "--", "true", stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE) for _ in range(12)]
    init = pids[0]

    def started_all():
        """Each of them runs its command, though it is stopped, or got the reason why it does not."""
        names = [Path(f"/proc/{pid}/comm").read_text() for pid in children_of(init) if Path(f"/proc/{pid}").exists()]
        return "cloister-init\n" not in names and len(names) - 1 + sum(t.poll() is not None for t in tries) >= 12
    wait_until(started_all, "init is not held up", seconds=60)
    for t in tries:
        t.kill()
    # Its end is seen.
    os.kill(pids[1], signal.SIGKILL)
    wait_until(lambda: not is_alive(supervisor), "the agent's end is the cell's", seconds=BOUND)
    ended, = operator.cells("-a")
    assert ended["status"] == 137


@as_one
def test_a_slow_exec_is_not_given_up(operator):
    """init's 5 seconds are for processes that something in the cell stops.  This one waits for a lease of the host."""
    folder = operator.folder("programs")
    program = operator.own(Path(shutil.copy("/bin/true", folder)))
    cell, _, _ = start(operator, "-v", f"{folder}:/opt/programs:ro")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
    with open(program, "rb") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        process = operator.spawn(operator.program, "exec", cell, "--", "/opt/programs/true")
        signal.sigwait([signal.SIGIO])
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(6)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert process.wait(60) == 0


# ---- what the kernel counts for all of a user's processes ------------------------------------

UNDER_WAY = """
import array, resource, socket, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
null = open("/dev/null")
one = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null.fileno()] * 250))]
sockets = []
try:
    for _ in range(200):
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        sockets += [a, b]
        a.setblocking(False)
        a.sendmsg([b"x"], one)
except OSError:
    pass
print("under way", flush=True)
time.sleep(1000)
"""


@only_user
@pytest.mark.parametrize("soft", ["1024", "$(ulimit -Hn)"])
def test_with_descriptors_of_the_user_under_way(operator, soft):
    """An agent that sends descriptors to itself leaves enough of them for the operator, who is the same user."""
    def limited(*words):
        return operator.do("sh", "-c", f"ulimit -Sn {soft}; exec {shlex.join([str(operator.program), *words])}").ok()
    cell = operator.detach("--", "/usr/bin/python3", "-Ic", UNDER_WAY)
    wait_until(lambda: "under way" in operator.cloister("logs", cell).out, "descriptors are under way")
    assert limited("exec", cell, "--", "echo", "here") == "here\n"
    assert limited("run", "--", "echo", "another") == "another\n"
    operator.cloister("kill", cell).ok()
