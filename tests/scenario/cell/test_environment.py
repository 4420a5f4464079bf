"""Nothing ambient comes along: not the environment, descriptors, mask or signals."""
import ctypes
import fcntl
import os
import platform
import signal
import struct
import subprocess
import uuid

import pytest

from operators import SECONDS
from terminal import Terminal

FEW = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/home/agent",
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/sh",
    "LANG": "C.UTF-8",
    # Without a network, nothing is gained by trying again.
    "NPM_CONFIG_FETCH_RETRIES": "0", "PIP_RETRIES": "0", "CARGO_NET_RETRY": "0",
}
CANARIES = {
    "CANARY": "5ecret", "AWS_SECRET_ACCESS_KEY": "5ecret", "SSH_AUTH_SOCK": "/tmp/5ecret",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/5ecret", "LD_LIBRARY_PATH": "/5ecret",
    "TERM": "5ecret", "LC_ALL": "C", "TZ": "5ecret", "HTTPS_PROXY": "http://5ecret", "IFS": "5ecret",
}


def environment(said):
    """The variables that `env -0` printed, but for the cell's own id."""
    found = dict(entry.split("=", 1) for entry in said.ok().split("\0") if entry)
    assert len(found.pop("CLOISTER_CELL")) == 8
    return found


def test_documented_few_and_nothing_else(operator):
    assert environment(operator.run("--", "env", "-0", env=CANARIES)) == FEW


def test_root_of_the_cell(operator):
    said = environment(operator.run("--root", "--", "env", "-0"))
    assert said == {**FEW, "USER": "root", "LOGNAME": "root"}


def test_no_process_of_the_cell_shows_the_hosts(operator):
    said = operator.sh("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null", env=CANARIES)
    assert "5ecret" not in said.out and "CLOISTER_CELL" in said.out


def test_soft_limits_and_priority_are_the_usual(operator):
    """The operator's own habits stay outside; hard limits and a lower priority stay in force."""
    script = "ulimit -Sn; ulimit -Ss; ulimit -Sf; ulimit -Hn; nice"
    set_up = "ulimit -Sn 3000; ulimit -Hn 4000; ulimit -Ss 4096; ulimit -Sf 100000; exec \"$@\""
    said = operator.do("/bin/sh", "-c", set_up, "sh", operator.program, "run", "--", "sh", "-c", script).ok()
    # Descriptors under way are counted with those of an operator who is the same user, and keeps some.
    assert said.splitlines() == ["1024", "8192", "unlimited", "4000" if operator.is_root else "3000", "0"]
    assert operator.do("nice", "-n", "5", operator.program, "run", "--", "nice").ok() == "5\n"
    if operator.is_root:
        assert operator.do("nice", "-n", "-5", operator.program, "run", "--", "nice").ok() == "0\n"


def test_each_cell_has_a_boot_id_of_its_own(operator):
    path = "/proc/sys/kernel/random/boot_id"
    found = {operator.run("--", "cat", path).ok() for _ in range(2)}
    with open(path) as host:
        assert len(found | {host.read()}) == 3 and all(uuid.UUID(text.strip()).version == 4 for text in found)


def test_given_variables(operator):
    given = {"A": "1", "EMPTY": "", "EQUALS": "x=y=z", "LINES": "a\nb", "_x9": "ä €",
             "PATH": "/opt/bin:/usr/bin"}
    options = [word for name, value in given.items() for word in ("-e", f"{name}={value}")]
    assert environment(operator.run(*options, "--", "env", "-0")) == {**FEW, **given}


def test_forms_of_the_option(operator):
    said = operator.run("-eA=1", "--env", "B=2", "--env=C=3", "--", "env", "-0")
    assert environment(said) == {**FEW, "A": "1", "B": "2", "C": "3"}


def test_the_last_of_a_name_counts(operator):
    said = operator.run("-e", "A=1", "-e", "A=2", "-e", "HOME=/tmp", "--", "env", "-0")
    assert environment(said) == {**FEW, "A": "2", "HOME": "/tmp"}


def test_name_alone_copies(operator):
    said = operator.run("-e", "CANARY", "-e", "TZ", "--", "env", "-0", env=CANARIES)
    assert environment(said) == {**FEW, "CANARY": "5ecret", "TZ": "5ecret"}


def test_name_alone_that_is_not_set(operator):
    operator.run("-e", "NOT_SET_ANYWHERE", "--", "true").sentence("NOT_SET_ANYWHERE", "-e")


@pytest.mark.parametrize("word", ["", "=x", "1A=x", "A B=x", "A-B=x", "ä=x", " A=x"])
def test_bad_name(operator, word):
    operator.run("-e", word, "--", "true").sentence(f"'{word}'")


def test_command_is_found_by_the_agents_own_path(operator):
    folder = operator.folder("tools", {"hello": "#!/bin/sh\necho from the tools\n"})
    (folder / "hello").chmod(0o755)
    said = operator.run("-v", f"{folder}:/tools:ro", "-e", "PATH=/tools:/usr/bin", "--", "hello")
    assert said.ok() == "from the tools\n"


def test_exec_has_the_few_and_its_own(operator):
    id = operator.detach("--", "sleep", "1000")
    said = operator.cloister("exec", "-e", "A=1", "-e", "CANARY", id, "--", "env", "-0",
                             env=CANARIES)
    assert environment(said) == {**FEW, "A": "1", "CANARY": "5ecret"}


def test_words_arrive_untouched(operator):
    words = ["", " ", "a b", "-x", "--", "*", "$HOME", "'\"\\", "ä€", "line\nbreak", b"\xff\xfe"]
    said = operator.run("--", "/usr/bin/python3", "-Ic", "import os, sys;"
                        "print(*(os.fsencode(a) for a in sys.argv[1:]), sep='\\n')", *words)
    assert said.ok() == "".join(f"{os.fsencode(w)!r}\n" for w in words)


def test_no_descriptor_above_2(operator):
    look = ("import os; print({int(n) for n in os.listdir('/proc/self/fd')"
            " if os.path.exists('/proc/self/fd/' + n)})")
    opened = [os.open("/etc", os.O_RDONLY), *os.pipe()]
    opened += [fcntl.fcntl(opened[0], fcntl.F_DUPFD, at) for at in (100, 255, 800)]

    def crowded(*words):
        """cloister, started by a shell that has more open than it should."""
        return operator.do("sh", "-c", 'exec 3</etc 4<>/dev/zero 5>&4 9</etc/passwd; exec "$@"',
                           "sh", operator.program, *words, pass_fds=opened)
    try:
        assert crowded("run", "--", "/usr/bin/python3", "-Ic", look).ok() == "{0, 1, 2}\n"
        id = crowded("run", "-d", "--", "sleep", "1000").ok().strip()
        operator.kept.add(id)
        assert crowded("exec", id, "/usr/bin/python3", "-Ic", look).ok() == "{0, 1, 2}\n"
    finally:
        for fd in opened:
            os.close(fd)
    agent = operator.cell(id)["agent"]
    assert set(os.listdir(f"/proc/{agent}/fd")) == {"0", "1", "2"}


@pytest.mark.parametrize("mask", [0, 0o077, 0o777])
def test_mask_is_the_cells(operator, mask):
    assert operator.run("--", "sh", "-c", "umask", umask=mask).ok() == "0022\n"


def ignore_and_block():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM,
                   signal.SIGUSR1, signal.SIGALRM, signal.SIGTSTP, signal.SIGTTOU,
                   signal.SIGRTMIN, signal.SIGRTMAX):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR2,
                                              signal.SIGALRM, signal.SIGRTMAX})


def test_signals_are_as_new(operator):
    said = operator.run("--", "cat", "/proc/self/status", preexec_fn=ignore_and_block,
                        restore_signals=False).ok()
    for name in ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"):
        assert f"{name}:\t{0:016x}\n" in said


def test_ignored_child_signal(operator):
    """Some supervisors start programs so: a cell must still notice its own end."""
    done = operator.sh("sh -c 'exit 2'; exit $(($? + 1))", seconds=SECONDS / 4,
                       preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.status == 3


@pytest.mark.parametrize("scheduler", [os.SCHED_RR, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK])
def test_no_real_time(operator, scheduler):
    """The operator's processes of that class may keep a processor from others; no agent may."""
    def hurry():
        os.sched_setscheduler(0, scheduler, os.sched_param(10))
    try:
        said = operator.run("--", "/usr/bin/python3", "-Ic", "import os; print(os.sched_getscheduler(0))",
                            preexec_fn=hurry)
    except subprocess.SubprocessError:
        pytest.skip("this user may not use real-time classes")
    assert said.ok() == f"{os.SCHED_OTHER}\n"


def test_working_folder(operator):
    assert operator.run("--", "/bin/pwd", cwd="/usr").ok() == "/home/agent\n"


def test_working_folder_that_is_gone(operator):
    assert operator.run("--", "/bin/pwd", preexec_fn=leave_a_removed_folder).ok() == "/home/agent\n"


def leave_a_removed_folder():
    path = f"gone-{os.getpid()}"
    os.mkdir(path)
    os.chdir(path)
    os.rmdir(f"../{path}")


def test_a_key_that_is_passed_as_it_is_gets_a_hint(operator):
    hint = "cloister: the cell gets the value of OPENAI_API_KEY; to give it a placeholder instead, " \
           "use `cloister secret add OPENAI_API_KEY` and -s OPENAI_API_KEY\n"
    operator.run("--", "true").ok()     # messages that are shown only once have been shown
    for words, env in (["OPENAI_API_KEY=sk-1"], {}), (["OPENAI_API_KEY"], {"OPENAI_API_KEY": "sk-2"}):
        done = operator.run("-e", *words, "--", "true", env=env)
        assert (done.status, done.err) == (0, hint)
    for words in (["-q", "-e", "OPENAI_API_KEY=x"], ["-e", "OPENAI_API_KEY="], ["-e", "OPENAI=x"],
                  ["-e", "GOOGLE_APPLICATION_CREDENTIALS=/run/key.json"], ["-e", "EDITOR=vi"]):
        assert operator.run(*words, "--", "true").err == "", words


def test_where_a_file_of_the_home_is_in_the_cell(operator):
    home = operator.folder("home", {".gitconfig": "[user]\n\tname = Ann\n\temail = ann@example.com\n", "x": ""})
    config, program = home / ".gitconfig", [operator.program, "run"]
    inside = f"{config}:/home/agent/.gitconfig:ro"
    operator.run("--", "true").ok()     # messages that are shown only once have been shown
    terminal = Terminal(operator, *program, "-v", f"{config}:ro", "--", "true", env={"HOME": str(home)}, columns=500)
    assert terminal.end() == 0
    assert terminal.text == f"cloister: {config} has this path in the cell too, where the home is /home/agent: for it " \
                            f"to be there, -v {inside}\r\n"
    for words in (["-v", inside], ["-q", "-v", f"{config}:ro"], ["-v", f"{home / 'x'}:ro"], ["-q", "-w", str(home)]):
        terminal = Terminal(operator, *program, *words, "--", "true", env={"HOME": str(home)})
        assert (terminal.end(), terminal.text) == (0, ""), words
    who = operator.run("-v", inside, "--", "git", "config", "user.email", env={"HOME": str(home)})
    assert who.ok() == "ann@example.com\n" and who.err == ""


# ---- how it is scheduled -----------------------------------------------------------

def scheduling(pid):
    """Policy, niceness and slice (in nanoseconds; 0 before Linux 6.12) of PID."""
    number = {"x86_64": 315, "aarch64": 275}[platform.machine()]
    attr = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(number, pid, attr, 48, 0) == 0
    _, policy, _, nice, _, slice, _, _ = struct.unpack("IIQiIQQQ", attr)
    return policy, nice, slice


def agent_of(operator, *how):
    """The pid of an agent whose cell was started by HOW, a command before ours."""
    process = operator.spawn(*how, operator.program, "run", "-q", "-d", "--", "sleep", "1000",
                             stdout=subprocess.PIPE)
    id = process.communicate(timeout=SECONDS)[0].decode().strip()
    operator.kept.add(id)
    return operator.cell(id)["agent"]


def test_long_slices_and_the_operators_niceness(operator):
    _, nice, slice = scheduling(0)
    if slice == 0:
        pytest.skip("this kernel has no slices to ask for")
    found = scheduling(agent_of(operator, "nice", "-n", "7"))
    assert found == (os.SCHED_OTHER, min(19, nice + 7), 5_000_000)


@pytest.mark.parametrize("option, policy", [("-i", os.SCHED_IDLE), ("-b", os.SCHED_BATCH)])
def test_the_operators_policy_stays(operator, option, policy):
    assert scheduling(agent_of(operator, "chrt", option, "0"))[0] == policy
