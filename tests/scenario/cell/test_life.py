"""A cell's life: found, watched, entered, ended, and gone without a trace."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import oci
from leftovers import cgroups
from operators import (SECONDS, children_of, descendants_of, end, is_alive, is_witness, only_root, read_until,
                       status_of, wait_until)
from terminal import Terminal

PIPE = subprocess.PIPE
LOG_MAX = 8 << 20

# Says that it is told to end, and takes its time.
STUBBORN = "trap 'echo told' TERM INT HUP; echo ready; while :; do sleep 0.05; done"
# Everything that a daemon does to get away.
DAEMON = """
import os, time
for n in range(3):
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        os.chdir('/')
        for fd in range(3): os.close(fd)
        while True: time.sleep(1000)
    os.waitpid(child, 0)
print('ready', flush=True)
time.sleep(1000)
"""


def is_vm(operator):
    return operator.env.get("CLOISTER_BOUNDARY") == "microvm"


def is_bare(operator):
    """Whether it has no namespaces, and so no /tmp and no overlays of its own."""
    return operator.env.get("CLOISTER_BOUNDARY") == "process"


def is_hidden(operator):
    """Whether its agent has no pid outside."""
    return is_vm(operator) or oci.is_sandboxed(operator)


def are_all(operator, pids, n):
    """Whether they are the N processes of an ordinary cell, and the keeper of a container, or the porter and its watcher; in gVisor,
    there are as many as it likes."""
    return len(pids) >= 3 if oci.is_sandboxed(operator) else len(pids) == n + oci.is_container(operator) + 2 * is_bare(operator)


def daemons(operator, *options):
    """A detached cell whose processes all run; its id and all its pids."""
    id = operator.detach(*options, "--", "/usr/bin/python3", "-Ic", DAEMON)
    wait_until(lambda: "ready" in operator.cloister("logs", id).out, "the daemons run")
    # supervisor, init, the agent, 3 daemons; or supervisor, monitor, file server
    assert are_all(operator, operator.pids(id), 3 if is_vm(operator) else 6)
    return id, operator.pids(id)


def gone(pids):
    return not any(is_alive(pid) for pid in pids)


def check_gone(supervisor, *pids):
    """The cell's processes are gone already, its supervisor is about to be."""
    assert gone(pids)
    wait_until(lambda: gone([supervisor]), "the supervisor is gone")


def ended(operator, id):
    return next((c for c in operator.cells("-a")
                 if c["cell"] == id and c["state"] == "ended"), None)


def let_go(operator, id):
    """The agent waits for a file; as it ends, the command that made it may be cut short."""
    assert operator.cloister("exec", id, "touch", "/tmp/go").status in (0, 125)


# ---- detached --------------------------------------------------------------------

def test_detach_returns_at_once(operator):
    id = operator.detach("--", "sh", "-c", "echo hello; sleep 1000")
    assert operator.cell(id)["state"] == "running"
    wait_until(lambda: operator.cloister("logs", id).ok() == "hello\n", "it printed")


def test_detached_cell_has_nothing_of_the_caller(operator):
    """No terminal, no input, a session of its own; the caller's pipes are closed."""
    process = operator.start("-d", "--", "sh", "-c", "cat; echo end of input; sleep 1000",
                             stdin=PIPE, stdout=PIPE, stderr=PIPE)
    out, _ = process.communicate(timeout=SECONDS)
    id = out.decode().strip()
    operator.kept.add(id)
    wait_until(lambda: "end of input" in operator.cloister("logs", id).ok(), "cat has ended")
    supervisor = operator.cell(id)["supervisor"]
    assert os.getsid(supervisor) == supervisor


def test_detached_cell_that_ends(operator):
    id = operator.detach("--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert operator.cloister("wait", id).status == 7
    assert operator.cells() == []
    kept = ended(operator, id)
    assert kept["status"] == 7 and kept["cause"] is None and kept["changes"] is False
    assert operator.cloister("logs", id).ok() == "out\nerr\n"
    operator.cloister("discard", id).ok()
    assert operator.cells("-a") == [] and operator.names(operator.state) == []


def test_foreground_cell_leaves_nothing(operator):
    operator.sh("exit 3")
    assert operator.cells("-a") == []


# ---- ps --------------------------------------------------------------------------

def test_ps_shows_cells(operator):
    workspace = operator.folder("workspace")
    id = operator.detach("--name", "worker", "-w", f"{workspace}:ro", "--", "sh", "-c", "sleep 1000",
                         "\x1b[1m")
    told = operator.cells()
    assert len(told) == 1
    told = told[0]
    assert told["cell"] == id and told["name"] == "worker" and told["state"] == "running"
    assert told["command"] == ["sh", "-c", "sleep 1000", "\x1b[1m"] and told["detached"] is True
    assert told["workspace"] == [str(workspace)] and told["user"] == operator.uid
    assert told["init"] in children_of(told["supervisor"])
    # A virtual machine's agent has no pid outside.  A container has a keeper around its init.
    outer = children_of(told["init"])[:1] if oci.is_container(operator) else [told["init"]]
    assert told["agent"] in ([None] if is_hidden(operator) else children_of(outer[0]))
    assert abs(told["started"] - time.time()) < 600
    assert {"memory", "pids"} <= set(told)
    lines = operator.cloister("ps").ok().splitlines()
    assert lines[0].split()[:3] == ["CELL", "NAME", "STATE"]
    assert lines[1].split()[:3] == [id, "worker", "running"] and "sh -c sleep 1000" in lines[1]
    assert "\x1b" not in lines[1]


def test_ps_of_nothing(operator):
    assert operator.cells() == [] and operator.cells("-a") == []
    assert operator.cloister("ps").ok().count("\n") == 1


def test_ps_all(operator):
    runs = operator.detach("--", "sleep", "1000")
    over = operator.detach("--", "false")
    operator.cloister("wait", over)
    assert {c["cell"]: c["state"] for c in operator.cells("-a")} == {runs: "running", over: "ended"}
    assert [c["cell"] for c in operator.cells()] == [runs]
    shown = operator.cloister("ps", "-a").ok()
    assert re.search(rf"^{over} +- +ended 1 +(<1|\d+)s ago +-", shown, re.M)
    assert re.search(rf"^{runs} +- +running +(<1|\d+)s +[^a]", shown, re.M)


def test_ps_all_tells_when_it_ended(operator):
    """Not how long ago it began."""
    began = time.time()
    id = operator.detach("--", "sleep", "3")
    operator.cloister("wait", id).ok()
    shown = operator.cloister("ps", "-a").ok()
    ago = re.search(rf"^{id} +- +ended 0 +(\S+)s ago", shown, re.M)[1]
    assert ago == "<1" or int(ago) <= time.time() - began - 3


def test_ps_on_a_terminal(operator):
    """Coloured, and the star is explained; elsewhere neither."""
    workspace = operator.folder("workspace")
    operator.change(workspace, "echo 1 >a")
    id = operator.detach("--", "sleep", "1000")
    terminal = Terminal(operator, operator.program, "ps", "-a")
    assert terminal.end() == 0
    assert f"{id}  -            \x1b[32mrunning    \x1b[0m " in terminal.text
    assert " ended 0* " in terminal.text and "* changed its workspace: see `cloister diff CELL`\r\n" in terminal.text
    terminal.close()
    plain = Terminal(operator, operator.program, "ps", "-a", env={"NO_COLOR": "1"})
    assert plain.end() == 0 and "\x1b" not in plain.text
    plain.close()
    shown = operator.cloister("ps", "-a").ok()
    assert "\x1b" not in shown and "changed its workspace" not in shown


def test_ps_shows_foreground_cells_too(operator):
    process = operator.start("-q", "--", "sh", "-c", "echo ready; sleep 1000", stdout=PIPE)
    read_until(process.stdout.fileno(), b"ready")
    told = operator.cells()
    assert len(told) == 1 and told[0]["supervisor"] == process.pid and not told[0]["detached"]
    process.terminate()
    assert process.wait(SECONDS) == 143


def test_ps_that_cannot_list_shows_nothing(operator):
    """Half a list, or a header over none, looks like a whole one."""
    file = operator.file("file")
    for options in ((), ("-a",), ("--json",)):
        operator.cloister("ps", *options, env={"CLOISTER_RUNTIME_DIR": file}).sentence(file)
    operator.cloister("ps", "-a", env={"CLOISTER_STATE_DIR": file}).sentence(file)
    assert operator.cloister("ps", "-a", env={"CLOISTER_STATE_DIR": f"{file}.none"}).ok().count("\n") == 1


@pytest.mark.parametrize("verb", ["events", "why", "diff", "apply", "logs", "discard"])
def test_state_that_cannot_be_opened(operator, verb):
    """The message differs from that for a cell that never existed."""
    file = operator.file("file")
    operator.cloister(verb, "x", env={"CLOISTER_STATE_DIR": file}).sentence(file)
    operator.cloister(verb, "x", env={"CLOISTER_STATE_DIR": f"{file}.none"}).sentence("there is no cell 'x'")


# ---- logs ------------------------------------------------------------------------

def test_logs_follow_ends_with_the_cell(operator):
    id = operator.detach("--", "sh", "-c", "echo one; while ! test -e /tmp/go; do sleep 0.01; done;"
                         "echo two")
    process = operator.spawn(operator.program, "logs", "-f", id, stdout=PIPE)
    assert read_until(process.stdout.fileno(), b"one\n") == b"one\n"
    assert process.poll() is None
    let_go(operator, id)
    assert process.communicate(timeout=SECONDS)[0] == b"two\n" and process.returncode == 0


def test_logs_follow_of_an_ended_cell(operator):
    id = operator.detach("--", "echo", "hello")
    operator.cloister("wait", id).ok()
    assert operator.cloister("logs", "-f", id).ok() == "hello\n"
    assert operator.cloister("logs", id, "-f").ok() == "hello\n"


def test_logs_of_a_killed_cell(operator):
    id = operator.detach("--", "sh", "-c", "echo said; sleep 1000")
    wait_until(lambda: operator.cloister("logs", id).ok() == "said\n", "it printed")
    operator.cloister("kill", id).ok()
    assert operator.cloister("logs", id).ok() == "said\n"


def test_logs_are_bounded(operator):
    """A flood costs no more than two logs, and its end is kept."""
    id = operator.detach("--", "sh", "-c", "seq -f '%040.0f' 1000000; echo the end")
    operator.cloister("wait", id).ok()
    said = operator.cloister("logs", id).ok()
    assert said.endswith(f"{1000000:040}\nthe end\n")
    assert LOG_MAX // 2 <= len(said) <= 2 * LOG_MAX
    sizes = sum(f.stat().st_size for f in operator.state.rglob("*") if f.is_file())
    assert sizes <= 2 * LOG_MAX + 65536
    lines = said.split("\n")[1:-2]
    assert [int(n) for n in lines] == list(range(int(lines[0]), 1000001))


def test_logs_follow_through_a_flood(operator):
    id = operator.detach("--", "sh", "-c", "while ! test -e /tmp/go; do sleep 0.01; done;"
                         "seq -f '%040.0f' 300000; echo the end")
    process = operator.spawn(operator.program, "logs", "-f", id, stdout=PIPE)
    let_go(operator, id)
    out = process.communicate(timeout=SECONDS)[0]
    assert out.endswith(b"the end\n") and process.returncode == 0


def test_logs_of_a_foreground_cell(operator):
    workspace = operator.folder("workspace")
    id = operator.change(workspace, "touch x")
    operator.cloister("logs", id).sentence(id, "log")


# ---- exec ------------------------------------------------------------------------

def test_exec(operator):
    workspace = operator.folder("workspace", {"f": "x"})
    id = operator.detach("-w", f"{workspace}:ro", "--hostname", "there", "--", "sleep", "1000")
    said = operator.cloister("exec", id, "--", "sh", "-c",
                             "pwd; hostname; cat f; echo $0 $CLOISTER_CELL")
    assert said.ok() == f"{workspace}\nthere\nxsh {id}\n"
    assert operator.cloister("exec", id, "cat", input="through").ok() == "through"


def test_exec_of_nothing(operator):
    operator.cloister("exec").sentence("no cell is given, and no command")
    operator.cloister("exec", "job").sentence("no command is given for cell 'job'")
    operator.cloister("exec", "job", "--").sentence("no command is given for cell 'job'")


def test_exec_words_are_the_commands(operator):
    id = operator.detach("--", "sleep", "1000")
    assert operator.cloister("exec", id, "echo", "-e", "--", "-t").ok() == "-- -t\n"
    assert operator.cloister("exec", id, "--", "echo", "--", "x").ok() == "-- x\n"


def test_exec_shares_everything(operator):
    id = operator.detach("--", "sh", "-c", "echo here >/tmp/f; echo ready; sleep 1000")
    wait_until(lambda: "ready" in operator.cloister("logs", id).out, "the file is there")
    said = operator.cloister("exec", id, "sh", "-c", "cat /tmp/f; ls /proc | grep -c '^[0-9]'")
    assert said.ok().startswith("here\n") and int(said.out.split()[1]) >= 4


def test_many_execs_at_once(operator):
    id = operator.detach("--", "sleep", "1000")
    processes = [operator.spawn(operator.program, "exec", id, "sh", "-c", f"echo {n}; exit {n}",
                                stdout=PIPE) for n in range(20)]
    for n, process in enumerate(processes):
        assert process.communicate(timeout=SECONDS)[0] == f"{n}\n".encode()
        assert process.returncode == n


def test_exec_ends_with_the_cell(operator):
    id = operator.detach("--", "sleep", "1000")
    process = operator.spawn(operator.program, "exec", id, "sh", "-c", "echo ready; sleep 1000",
                             stdout=PIPE, stderr=PIPE)
    read_until(process.stdout.fileno(), b"ready")
    operator.cloister("kill", id).ok()
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode in (125, 137)
    assert process.returncode == 137 or err.decode().count("\n") == 1


def test_exec_that_is_interrupted(operator):
    """Signals reach the command; a client that dies takes its command along."""
    id = operator.detach("--", "sleep", "1000")
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
        process = operator.spawn(operator.program, "exec", id, "sh", "-c",
                                 "echo ready; exec sleep 999", stdout=PIPE)
        read_until(process.stdout.fileno(), b"ready")
        process.send_signal(number)
        assert process.wait(SECONDS) == status
        wait_until(lambda: are_all(operator, operator.pids(id), 3), "only the agent is left")


def test_exec_does_not_outlive_and_does_not_keep(operator):
    """The agent ends: the cell ends, whatever exec started."""
    id = operator.detach("--", "sh", "-c", "while ! test -e /tmp/go; do sleep 0.01; done; exit 4")
    process = operator.spawn(operator.program, "exec", id, "sh", "-c", "touch /tmp/go; sleep 1000")
    assert operator.cloister("wait", id).status == 4
    assert process.wait(SECONDS) in (125, 137)


# ---- stop, kill, wait ------------------------------------------------------------

def test_stop(operator):
    id = operator.detach("--", "sh", "-c", "trap 'echo told; exit 5' TERM; echo ready;"
                         "while :; do sleep 0.01; done")
    wait_until(lambda: "ready" in operator.cloister("logs", id).out, "it catches TERM")
    pids = operator.pids(id)
    assert operator.cloister("stop", id).ok() == ""
    check_gone(*pids)
    assert operator.cloister("logs", id).ok() == "ready\ntold\n"
    assert ended(operator, id)["status"] == 5
    assert "operator" in ended(operator, id)["cause"]


def test_stop_again(operator):
    """The last one counts, and the cell can still be reached between them."""
    id = operator.detach("--", "sh", "-c", "trap 'echo told' TERM; echo ready; while :; do sleep 0.01; done")
    wait_until(lambda: "ready" in operator.cloister("logs", id).out, "it catches TERM")
    stopping = []
    for n in range(1, 4):
        stopping.append(operator.spawn(operator.program, "stop", "-t", "1h", id))
        wait_until(lambda: operator.cloister("logs", id).ok() == "ready\n" + n * "told\n", "it is told again")
        operator.cloister("exec", id, "true").ok()
    operator.cloister("stop", "-t", "100ms", id).ok()
    assert [p.wait(SECONDS) for p in stopping] == [0] * 3
    assert ended(operator, id)["status"] == 128 + signal.SIGKILL


def test_stop_kills_a_cell_that_ignores_it(operator, boundary):
    # An emulated machine on a busy host needs time to say that it was told.
    patience = 5 if boundary == "microvm" else 0.3
    id = operator.detach("--", "sh", "-c", STUBBORN)
    wait_until(lambda: "ready" in operator.cloister("logs", id).out, "it catches TERM")
    pids = operator.pids(id)
    before = time.monotonic()
    operator.cloister("stop", "-t", f"{round(patience * 1000)}ms", id).ok()
    assert time.monotonic() - before >= patience
    check_gone(*pids)
    assert operator.cloister("logs", id).ok() == "ready\ntold\n"
    assert ended(operator, id)["status"] == 137


def test_stop_without_waiting(operator):
    id, pids = daemons(operator)
    operator.cloister("stop", "-t", "0", id).ok()
    check_gone(*pids)


def test_stop_of_several(operator):
    ids = [operator.detach("--", "sh", "-c", STUBBORN) for _ in range(4)]
    operator.cloister("stop", "-t", "200ms", *ids).ok()
    assert operator.cells() == []


def test_stop_of_a_stopped_process(operator):
    """SIGSTOP inside does not save it."""
    if is_hidden(operator):
        pytest.skip("the agent has no pid outside")
    id = operator.detach("--", "sh", "-c", "kill -STOP $$")
    wait_until(lambda: status_of(operator.cell(id)["agent"])["State"].startswith("T"), "stopped")
    operator.cloister("stop", "-t", "100ms", id).ok()
    assert operator.cells() == []


@pytest.mark.parametrize("value", ["", "x", "-1", "2d", "99999999999999999999"])
def test_stop_with_an_unusable_time(operator, value):
    assert operator.cloister("stop", "-t", value, "x").sentence("--time").count(f"'{value}'") == 1


def test_kill(operator):
    id, pids = daemons(operator)
    assert operator.cloister("kill", id).ok() == ""
    check_gone(*pids)
    assert cgroups({id}) == set() and operator.running() == []
    assert ended(operator, id)["status"] == 137


def test_kill_all(operator):
    """The emergency stop."""
    cells = [daemons(operator) for _ in range(4)]
    process = operator.start("-q", "--", "sh", "-c", STUBBORN, stdout=PIPE)
    read_until(process.stdout.fileno(), b"ready")
    assert operator.cloister("kill", "--all").ok() == "killed 5 cells\n"
    for id, pids in cells:
        check_gone(*pids)
        assert cgroups({id}) == set()
    assert process.wait(SECONDS) == 137
    assert operator.cells() == [] and operator.running() == []


def test_stop_all(operator):
    """Each is asked, and has its time; who does not listen is killed."""
    polite = operator.detach("--", "sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")
    wait_until(lambda: "ready" in operator.cloister("logs", polite).ok(), "the trap is set")
    deaf = operator.detach("--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    wait_until(lambda: "ready" in operator.cloister("logs", deaf).ok(), "the trap is set")
    assert operator.cloister("stop", "--all", "-t", "500ms").ok() == "stopped 2 cells\n"
    assert operator.cells() == []
    assert [ended(operator, id)["status"] for id in (polite, deaf)] == [7, 137]


def test_all_of_nothing(operator):
    assert operator.cloister("kill", "--all").ok() == "killed 0 cells\n"
    assert operator.cloister("stop", "--all").ok() == "stopped 0 cells\n"
    for verb in "kill", "stop":
        operator.cloister(verb, "--all", "x").sentence("remove 'x'")
        operator.cloister(verb).sentence("no cell is given")


def test_kill_one_of_two(operator):
    one, two = operator.detach("--", "sleep", "1000"), operator.detach("--", "sleep", "1000")
    operator.cloister("kill", one).ok()
    assert [c["cell"] for c in operator.cells()] == [two]


def test_kill_goes_on_after_an_unknown_one(operator):
    id = operator.detach("--", "sleep", "1000")
    done = operator.cloister("kill", "nosuch", id)
    assert done.status == 125 and "nosuch" in done.err
    assert operator.cells() == []


def test_kill_while_the_output_is_unread(operator):
    process = operator.start("-q", "--name", "full", "--", "yes", stdout=PIPE)
    read_until(process.stdout.fileno(), b"y")
    operator.cloister("kill", "full", seconds=15).ok()
    assert process.wait(SECONDS) == 137


def test_wait(operator):
    id = operator.detach("--", "sh", "-c", "while ! test -e /tmp/go; do sleep 0.01; done; exit 6")
    process = operator.spawn(operator.program, "wait", id)
    other = operator.spawn(operator.program, "wait", id[:6])
    let_go(operator, id)
    assert process.wait(SECONDS) == 6 and other.wait(SECONDS) == 6
    assert operator.cloister("wait", id).status == 6


def test_wait_for_several(operator):
    ids = [operator.detach("--", "sh", "-c", f"exit {n}") for n in (1, 2, 3)]
    assert operator.cloister("wait", *ids).status == 3
    operator.cloister("wait", ids[0], "nosuch").sentence("nosuch")


def test_wait_for_a_killed_one(operator):
    id = operator.detach("--", "sleep", "1000")
    process = operator.spawn(operator.program, "wait", id)
    operator.cloister("kill", id).ok()
    assert process.wait(SECONDS) == 137


# ---- names -----------------------------------------------------------------------

def test_names(operator):
    id = operator.detach("--name", "worker-1", "--", "sleep", "1000")
    assert operator.cloister("exec", "worker-1", "echo", "x").ok() == "x\n"
    operator.run("--name", "worker-1", "--", "true").sentence("worker-1", "choose another name")
    operator.run("-d", "--name", "worker-1", "--", "true").sentence("worker-1")
    assert operator.cell(id)
    operator.cloister("kill", "worker-1").ok()
    again = operator.detach("--name", "worker-1", "--", "true")
    assert operator.cloister("wait", again).status == 0


def test_prefixes(operator):
    id = operator.detach("--", "sleep", "1000")
    for length in range(4, 9):
        assert operator.cloister("exec", id[:length], "true").status == 0
    # A slip of the finger is not to hit any cell.
    for length in range(1, 4):
        operator.cloister("exec", id[:length], "true").sentence(f"'{id[:length]}'", "4 letters")
    operator.cloister("exec", id + "x", "true").sentence(id)
    operator.cloister("exec", "", "true").sentence("''")


def test_ambiguous_prefixes(operator):
    ids = [operator.detach("--id", f"same{n}", "--", "sleep", "1000") for n in ("aaaa", "bbbb")]
    operator.cloister("kill", "same").sentence("'same'", "could be any of")
    assert len(operator.cells()) == len(ids)


def test_a_name_before_a_prefix(operator):
    one = operator.detach("--", "sleep", "1000")
    two = operator.detach("--name", one[:3], "--", "sleep", "1000")
    operator.cloister("kill", one[:3]).ok()
    assert [c["cell"] for c in operator.cells()] == [one] and two


def test_ended_cells_of_one_name(operator):
    """A name may come again: it must not stand for any one of several."""
    ids = [operator.detach("--name", "again", "--", "sh", "-c", f"echo {n}; exit {n}")
           for n in (1,)]
    operator.cloister("wait", ids[0])
    ids.append(operator.detach("--name", "again", "--", "sh", "-c", "echo 2; exit 2"))
    operator.cloister("wait", ids[1])
    for words in (["logs", "again"], ["wait", "again"], ["discard", "again"]):
        done = operator.cloister(*words)
        assert done.out in ("", "2\n"), words           # the last one, or a refusal
        assert done.status in (0, 2, 125), words
    if operator.cloister("logs", ids[0]).status != 0:
        raise AssertionError("the older one was discarded")


# ---- discard ---------------------------------------------------------------------

def test_discard(operator):
    runs = operator.detach("--", "sleep", "1000")
    over = operator.detach("--", "true")
    operator.cloister("wait", over).ok()
    operator.cloister("discard", runs).sentence(runs, "still running")
    operator.cloister("discard", over).ok()
    operator.cloister("discard", over).sentence(over)
    another = operator.detach("--", "true")
    operator.cloister("wait", another).ok()
    operator.cloister("discard", "--all").ok()
    assert [c["cell"] for c in operator.cells("-a")] == [runs]
    operator.cloister("discard", "--all", runs).sentence(f"remove '{runs}'")
    operator.detach("--name", "called", "--", "sleep", "1000")
    for verb in ("discard", "apply"):
        operator.cloister(verb, "called").sentence("cell 'called' is still running: `cloister stop called`")
    operator.cloister("diff", "called").sentence("cell 'called' has no overlay workspace")


# ---- many ------------------------------------------------------------------------

def test_twenty_at_once(operator):
    if is_vm(operator):
        pytest.skip("twenty emulated boots take too long")
    processes = [operator.start("-q", "--", "sh", "-c", "echo $CLOISTER_CELL; cat; exit 3",
                                stdin=PIPE, stdout=PIPE) for _ in range(20)]
    ids = [read_until(p.stdout.fileno(), b"\n").decode().strip() for p in processes]
    assert len(set(ids)) == 20
    assert sorted(c["cell"] for c in operator.cells()) == sorted(ids)
    for process in processes:
        process.stdin.close()
    assert [process.wait(SECONDS) for process in processes] == [3] * 20


def test_one_after_the_other(operator):
    for n in range(15):
        assert operator.sh(f"exit {n}").status == n


# ---- signals to `run` ------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
                                    signal.SIGUSR1, signal.SIGUSR2])
def test_signals_are_passed_on(operator, number):
    process = operator.start("-q", "--", "sh", "-c", f"trap 'echo got it; exit 9' {int(number)};"
                             "echo ready; while :; do sleep 0.01; done", stdout=PIPE)
    read_until(process.stdout.fileno(), b"ready\n")
    process.send_signal(number)
    assert process.communicate(timeout=SECONDS)[0] == b"got it\n"
    assert process.returncode == 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_a_program_that_does_not_catch_them(operator, number):
    process = operator.start("-q", "--", "sh", "-c", "echo ready; exec sleep 1000", stdout=PIPE)
    read_until(process.stdout.fileno(), b"ready")
    process.send_signal(number)
    assert process.wait(SECONDS) == 128 + number


@pytest.mark.parametrize("verb", [["run", "-q", "--"], ["exec"]])
def test_interrupt_reaches_the_command_of_a_shell(operator, verb):
    """As Ctrl-C on a terminal: a shell waits for its command, which has to get the signal too."""
    cell = [operator.detach("--", "sleep", "1000")] if verb == ["exec"] else []
    process = operator.spawn(operator.program, *verb, *cell, "sh", "-c",
                             "(echo ready; exec sleep 1000); echo not interrupted", stdout=PIPE)
    read_until(process.stdout.fileno(), b"ready\n")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=SECONDS)[0] == b""
    assert process.returncode == 130


def test_stopped_supervisor_does_not_stop_the_cell(operator):
    id = operator.detach("--", "sh", "-c", "n=0; while :; do n=$((n+1)); echo $n >/tmp/n; done")
    supervisor = operator.cell(id)["supervisor"]
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGCONT)
    assert operator.cloister("exec", id, "cat", "/tmp/n").status == 0


# ---- crashes ---------------------------------------------------------------------

def test_supervisor_killed(operator):
    """The cell dies with it, and the next run clears what is left."""
    workspace = operator.folder("workspace")
    id, pids = daemons(operator, "-w", workspace)
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: gone(pids), "everything is dead")
    assert operator.cells() == []
    assert operator.sh("echo next").ok() == "next\n"
    assert operator.running() == [] and cgroups({id}) == set()
    assert operator.names(operator.state) == []
    operator.cloister("wait", id).sentence(id)


def test_foreground_supervisor_killed(operator):
    process = operator.start("--", "/usr/bin/python3", "-Ic", DAEMON, stdout=PIPE)
    read_until(process.stdout.fileno(), b"ready")
    pids = [pid for pid in descendants_of(process.pid) if not is_witness(pid)]
    assert are_all(operator, pids, 2 if is_vm(operator) else 5)
    process.kill()
    wait_until(lambda: gone(pids), "everything is dead")
    operator.run("--", "true").ok()
    assert operator.running() == []


def test_waiting_for_one_whose_supervisor_is_killed(operator):
    id, pids = daemons(operator)
    waiting = operator.spawn(operator.program, "wait", id, stderr=PIPE)
    entered = operator.spawn(operator.program, "exec", id, "sh", "-c", "echo ready; sleep 1000",
                             stdout=PIPE, stderr=PIPE)
    following = operator.spawn(operator.program, "logs", "-f", id, stdout=PIPE)
    read_until(entered.stdout.fileno(), b"ready")
    os.kill(pids[0], signal.SIGKILL)
    for process in (waiting, entered):
        _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 125 and err.decode().count("\n") == 1, err
    following.communicate(timeout=SECONDS)
    operator.run("--", "true").ok()


def test_init_killed(operator):
    id, pids = daemons(operator)
    os.kill(pids[1], signal.SIGKILL)
    assert operator.cloister("wait", id).status == 137
    check_gone(*pids)
    assert operator.running() == [] and cgroups({id}) == set()


def test_agent_killed(operator):
    if is_hidden(operator):
        pytest.skip("the agent has no pid outside")
    id, pids = daemons(operator)
    os.kill(operator.cell(id)["agent"], signal.SIGKILL)
    assert operator.cloister("wait", id).status == 137
    check_gone(*pids)
    assert operator.running() == [] and cgroups({id}) == set()


def test_agent_cannot_end_init(operator):
    done = operator.sh("kill -9 1; kill -15 1; kill -2 1; kill -STOP 1; echo still here")
    assert done.out == "still here\n" and done.status == 0


def test_run_killed_during_its_start(operator):
    """At any moment: nothing lives on, and the next run clears the rest."""
    for n in range(30):
        process = operator.start("--", "sleep", "1000", stderr=subprocess.DEVNULL)
        time.sleep(n / 1000)
        pids = [process.pid, *descendants_of(process.pid)]
        end(process.pid)
        process.wait(SECONDS)
        wait_until(lambda: gone(pids), "everything is dead")
    operator.run("--", "true").ok()
    assert operator.running() == [] and operator.names(operator.state) == []
    assert cgroups(operator.witness.names()) == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_ended_during_its_start(operator, number):
    """Gently, at any moment: it leaves nothing even without a next run."""
    for n in range(30):
        process = operator.start("-q", "--", "sleep", "1000", stderr=subprocess.DEVNULL)
        time.sleep(n / 1000)
        process.send_signal(number)
        assert process.wait(SECONDS) in (-number, 128 + number)
    assert operator.running() == []


def test_remains_of_several_crashes_are_cleared_at_once(operator):
    cells = [daemons(operator) for _ in range(3)]
    alive = operator.detach("--", "sleep", "1000")
    for _, pids in cells:
        os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: all(gone(pids) for _, pids in cells), "everything is dead")
    operator.run("--", "true").ok()
    assert [c["cell"] for c in operator.cells()] == [alive]
    assert len(operator.running()) == 1
    assert cgroups({id for id, _ in cells}) == set()


def forget(operator, id):
    """The cell's runtime entry goes, as with a folder that somebody clears; its cgroups, which stay."""
    [entry] = [operator.runtime / name for name in operator.running() if name.startswith(id)]
    for file in entry.iterdir():
        file.unlink()
    entry.rmdir()
    return cgroups({id}, ("", "-egress"))


def make_old(paths, seconds):
    for path in paths:
        os.utime(path, (time.time() - seconds,) * 2)


@only_root
def test_unknown_cgroups_are_removed(operator):
    id = operator.detach("--allow", "a.example", "--", "sleep", "1000")
    pids = operator.pids(id)
    other = operator.detach("--", "sleep", "1000")
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: gone(pids), "everything is dead")
    left = forget(operator, id)
    assert len(left) > 2
    # It might be a cell of another runtime folder, and just be starting.
    operator.run("--", "true").ok()
    assert cgroups({id}, ("", "-egress")) == left
    make_old(left, 100)
    beside = cgroups({other})
    make_old(beside, 100)
    operator.run("--", "true").ok()
    assert cgroups({id}, ("", "-egress")) == set() and cgroups({other}) == beside


@only_root
def test_cgroups_of_a_cell_that_runs_are_left_alone(operator):
    """Even if its runtime entry is gone."""
    process = operator.start("--allow", "a.example", "--", "sh", "-c", "echo ready; sleep 1000", stdout=PIPE)
    read_until(process.stdout.fileno(), b"ready")
    id = operator.cells()[0]["cell"]
    left = forget(operator, id)
    make_old(left, 100)
    operator.run("--", "true").ok()
    assert left and cgroups({id}, ("", "-egress")) == left
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 143
    assert cgroups({id}, ("", "-egress")) == set()


def test_changes_of_a_killed_cell_are_kept(operator):
    """A kill by the operator is an ordinary end: the changes can still be examined."""
    workspace = operator.folder("workspace")
    id = operator.detach("-w", workspace, "--", "sh", "-c", "echo x >made; echo ready; sleep 1000")
    wait_until(lambda: "ready" in operator.cloister("logs", id).out, "the file is there")
    operator.cloister("apply", id).sentence(id, "still running")
    operator.cloister("kill", id).ok()
    assert operator.cloister("diff", "--name-status", id).ok() == "A made\n"
    assert json.loads(operator.cloister("ps", "-a", "--json").ok())[0]["changes"] is True
