"""A terminal that works: the cell has one of its own, and the operator's is as it was."""
import os
import re
import signal
import subprocess
import termios

import pytest

from operators import SECONDS, is_alive, status_of, wait_until
from terminal import Terminal

PIPE = subprocess.PIPE


@pytest.fixture
def terminal(operator):
    """Starts a program on a new terminal."""
    opened = []

    def start(*argv, **how):
        opened.append(Terminal(operator, *argv, **how))
        return opened[-1]
    yield start
    operator.close()
    for t in opened:
        t.close()


@pytest.fixture(params=["run", "exec"])
def inside(request, operator):
    if request.param == "run":
        return [operator.program, "run", "-q"]
    return [operator.program, "exec", operator.detach("--", "sleep", "1000")]


def test_it_is_a_terminal(operator, terminal, inside):
    t = terminal(*inside, "sh", "-c", "for n in 0 1 2; do test -t $n && echo t$n; done;"
                 "tty; echo $TERM")
    assert t.end() == 0
    assert t.text == "t0\r\nt1\r\nt2\r\n/dev/pts/0\r\nxterm-test\r\n"


@pytest.mark.parametrize("allowed", [False, True])
def test_the_clipboard_is_the_operators(operator, terminal, inside, allowed):
    """A terminal that obeys would put it there."""
    words = [*inside[:2], "--clipboard", *inside[2:]] if allowed else inside
    t = terminal(*words, "printf", r"before\033]52;c;c3VkbyBybQ==\007after\033]0;title\007")
    assert t.end() == 0
    assert t.text == ("before\033]52;c;c3VkbyBybQ==\007after\033]0;title\007" if allowed else
                      "beforeafter\033]0;title\007")


def test_it_is_the_controlling_terminal(operator, terminal, inside):
    t = terminal(*inside, "sh", "-c", "echo to the terminal >/dev/tty; ps -o tpgid= -p $$; echo $$")
    assert t.end() == 0
    words = t.text.split()
    assert words[:3] == ["to", "the", "terminal"] and words[3] == words[4]


def test_the_operators_own_is_not_there(operator, terminal, inside):
    """Neither by name, nor by descriptor: what could be typed there would run outside."""
    t = terminal(*inside, "/usr/bin/python3", "-Ic", """
import os
print(os.listdir('/dev/pts'))
print({os.fstat(0).st_dev == os.stat('/dev/pts').st_dev for n in (0, 1, 2)})
print(sorted(os.listdir('/proc/self/fd'))[:-1])
""")
    assert t.end() == 0
    lines = t.text.split("\r\n")
    assert sorted(eval(lines[0])) == ["0", "ptmx"]
    assert lines[1:3] == ["{True}", "['0', '1', '2']"]


def test_window_size(operator, terminal, inside):
    t = terminal(*inside, "sh", "-c", "stty size; trap 'stty size' WINCH; echo ready; "
                 "while :; do sleep 0.01; done", rows=33, columns=101)
    t.expect("33 101\r\nready\r\n")
    t.resize(55, 131)
    t.expect("55 131\r\n")
    t.resize(10, 20)
    t.expect("10 20\r\n")
    t.type("\x03")
    assert t.end() == 130


def test_control_c_reaches_the_foreground_job(operator, terminal, inside):
    t = terminal(*inside, "sh", "-c", "trap 'echo caught; exit 7' INT; echo ready;"
                 "while :; do sleep 0.01; done")
    t.expect("ready")
    t.type("\x03")
    t.expect("caught")
    assert t.end() == 7


def test_control_c_ends_a_program_that_does_not_catch_it(operator, terminal, inside):
    t = terminal(*inside, "sh", "-c", "echo ready; exec sleep 1000")
    t.expect("ready")
    t.type("\x03")
    assert t.end() == 130


def test_control_d_is_the_end_of_input(operator, terminal, inside):
    t = terminal(*inside, "sh", "-c", "echo ready; exec cat")
    t.expect("ready\r\n")
    t.type("hello\n")
    t.expect("hello\r\nhello\r\n")
    t.type("\x04")
    assert t.end() == 0


def test_control_backslash(operator, terminal):
    t = terminal(operator.program, "run", "-q", "sh", "-c", "echo ready; exec sleep 1000")
    t.expect("ready")
    t.type("\x1c")
    assert t.end() == 128 + signal.SIGQUIT


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_job_control(operator, terminal, inside, shell):
    t = terminal(*inside, shell, "-i")
    t.type("PS1='pr''ompt:'\n")
    t.expect("prompt:")
    t.type("/usr/bin/python3 -Ic 'import os, signal as s; s.pthread_sigmask(s.SIG_BLOCK, [s.SIGCONT]);"
           " s.signal(s.SIGINT, s.SIG_DFL); os.write(1, b\"first\\n\"); s.sigwait([s.SIGCONT]); os.write(1, b\"resumed\\n\");"
           " s.pause()'\n")
    t.expect("\r\nfirst\r\n")
    t.type("\x1a")
    t.expect("(?i)stopped|suspended")
    t.type("jobs; echo aft''er\n")
    t.expect("(?i)(stopped|suspended)(.|\r\n)*after\r\n")
    t.type("fg\n")
    t.expect("\r\nresumed\r\n")
    t.type("\x03")
    t.expect("prompt:")
    t.type("exit 9\n")
    assert t.end() == 9
    assert "no job control" not in t.text


def test_background_processes_do_not_hold_the_terminal(operator, terminal, inside):
    """The shell is left, a server goes on in the cell: the operator has the prompt back."""
    t = terminal(*inside, "sh", "-c", "trap '' HUP; sleep 1000 & echo started; exit 4")
    assert t.end(SECONDS / 4) == 4
    assert t.text == "started\r\n"


def test_stty(operator, terminal, inside):
    t = terminal(*inside, "sh", "-c", "stty -echo; echo ready; read x; echo got $x; stty echo")
    t.expect("ready\r\n")
    t.type("secret\n")
    t.expect("got secret\r\n")
    assert "secret\r\nsecret" not in t.text
    assert t.end() == 0


def test_raw_programs(operator, terminal):
    """As an editor: every byte arrives as it was typed."""
    t = terminal(operator.program, "run", "-q", "sh", "-c",
                 "stty raw -echo; echo ready; head -c 6 | od -An -tx1")
    t.expect("ready")
    t.type("\x03\x1a\x04\r\x1bx")
    t.expect("03 1a 04 0d 1b 78")
    assert t.end() == 0


@pytest.mark.parametrize("word", ["a" * 200, "\u00fc" * 200], ids=["ascii", "utf-8"])
def test_ps_keeps_to_the_line(operator, terminal, word):
    operator.detach("--name", "long", "--", "sh", "-c", "sleep 1000", word)
    t = terminal(operator.program, "ps", columns=90)
    assert t.end() == 0
    shown = re.sub("\x1b\\[[0-9]*m", "", t.text)
    line = [line for line in shown.splitlines() if " long " in line][0]
    assert len(line) == 90 and line.endswith(f"{word[0]}..."), line
    # Elsewhere nothing is cut.
    assert word in operator.cloister("ps").ok()


def test_settings_are_as_before(operator, terminal, inside):
    t = terminal(*inside, "sh", "-c", "echo ready; read x")
    t.expect("ready")
    wait_until(lambda: t.settings()[3] & termios.ICANON == 0, "raw while it runs")
    t.type("\r")
    assert t.end() == 0
    assert t.settings() == t.before


@pytest.mark.parametrize("way", ["exit 3", "kill -9 $$", "no-such-command"])
def test_settings_are_as_before_however_it_ends(operator, terminal, way):
    words = ["sh", "-c", way] if " " in way else [way]
    t = terminal(operator.program, "run", *words)
    assert t.end() in (3, 137, 127)
    assert t.settings() == t.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_settings_are_as_before_when_it_is_ended_from_outside(operator, terminal, number):
    t = terminal(operator.program, "run", "-q", "sh", "-c", "echo ready; exec sleep 1000")
    t.expect("ready")
    t.process.send_signal(number)
    assert t.end() == 128 + number
    assert t.settings() == t.before


def test_settings_are_as_before_a_kill(operator, terminal):
    t = terminal(operator.program, "run", "-q", "--name", "k", "sh", "-c", "echo ready; sleep 1000")
    t.expect("ready")
    operator.cloister("kill", "k").ok()
    assert t.end() == 137
    assert t.settings() == t.before


def test_the_agent_may_leave_the_terminal_wild(operator, terminal):
    """Its terminal is its own: what it sets there stays there."""
    t = terminal(operator.program, "run", "-q", "sh", "-c", "stty raw -echo -opost; stty 300; echo x")
    assert t.end() == 0
    assert t.settings() == t.before


def test_hang_up(operator, terminal):
    """The window is closed: the cell ends."""
    t = terminal(operator.program, "run", "-q", "sh", "-c", "echo ready; exec sleep 1000")
    t.expect("ready")
    pid = t.process.pid
    spare = os.dup(t.slave)
    os.close(t.slave)
    os.close(t.master)
    t.master, t.slave = os.dup(spare), spare
    assert t.process.wait(SECONDS) in (128 + signal.SIGHUP, 128 + signal.SIGKILL)
    assert not is_alive(pid)


# ---- when there is none, or it is not wanted -------------------------------------

def test_no_tty(operator, terminal, inside):
    t = terminal(*inside[:2], "-T", *inside[2:], "sh", "-c",
                 "for n in 0 1 2; do test -t $n && echo t$n; done; echo no; echo ${TERM-unset};"
                 "ls /dev/pts")
    assert t.end() == 0
    assert t.text == "no\r\nunset\r\nptmx\r\n"
    assert t.settings() == t.before


def test_no_tty_carries_typed_input(operator, terminal, inside):
    t = terminal(*inside[:2], "-T", *inside[2:], "cat")
    t.type("hello\n")
    t.expect("hello\r\nhello\r\n")
    t.type("\x04")
    assert t.end() == 0


def test_no_tty_control_c(operator, terminal):
    t = terminal(operator.program, "run", "-q", "-T", "sh", "-c", "echo ready; exec sleep 1000")
    t.expect("ready")
    t.type("\x03")
    assert t.end() == 130


@pytest.mark.parametrize("redirected", ["stdin", "stdout"])
def test_a_terminal_is_requested_without_one(operator, terminal, inside, redirected):
    with open("/dev/null", "r+") as null:
        t = terminal(*inside[:2], "-t", *inside[2:], "true", **{redirected: null})
        assert t.end() == 125
    assert "cloister: -t " in t.text and t.text.count("\n") == 1
    operator.do(*inside[:2], "-t", *inside[2:], "true").sentence("-t", "terminal")


def test_output_redirected(operator, terminal):
    """`cloister run ... >file` on a terminal: no terminal inside, and the file is clean."""
    file = operator.file("out")
    with open(file, "w") as f:
        t = terminal(operator.program, "run", "-q", "sh", "-c", "test -t 1 || echo clean", stdout=f)
        assert t.end() == 0
    assert file.read_text() == "clean\n"
    assert t.settings() == t.before


def test_errors_redirected(operator, terminal, inside):
    """`cloister run ... 2>file`: errors go there, the rest to the terminal."""
    file = operator.file("err")
    with open(file, "w") as f:
        t = terminal(*inside, "sh", "-c", "test -t 0 && test -t 1 && ! test -t 2 && echo shown;"
                     "echo hidden >&2", stderr=f)
        assert t.end() == 0
    assert (t.text, file.read_text()) == ("shown\r\n", "hidden\n")


def test_term_is_unset_if_the_operator_has_none(operator, terminal):
    t = terminal("env", "-u", "TERM", operator.program, "run", "-q", "sh", "-c", "echo ${TERM-unset}")
    assert t.end() == 0 and t.text == "unset\r\n"


# ---- in a shell of the operator's ------------------------------------------------

@pytest.fixture
def shell(operator, terminal):
    """The operator's own interactive shell."""
    t = terminal("bash", "--norc", "--noprofile", "-i", env={"PS1": "$ ", "HISTFILE": "", "C":
                                                            str(operator.program)})
    t.expect(r"\$ ")
    return t


def leave(t):
    t.type("exit 0\n")
    assert t.end() == 0


def test_in_the_background(operator, shell):
    """It neither stops nor takes input that is typed into the shell."""
    shell.type("$C run -q sh -c 'sleep 0.2; echo from the ce''ll' &\n")
    for word in ("one", "two"):
        shell.type(f"echo {word[:1]}''{word[1:]}\n")
        shell.expect(f"{word}\r\n")
    shell.type("wait $!; echo status $?\n")
    shell.expect("from the cell\r\n")
    shell.expect("status 0\r\n")
    leave(shell)


def test_in_the_background_while_text_waits(operator, shell):
    """Text that no program has read yet is there for the next one in front."""
    shell.type("$C run -q sh -c 'sleep 1; echo from the ce''ll' & wait $!; read -r line; "
               "echo g''ot $line\n")
    wait_until(lambda: operator.running(), "the cell runs")
    shell.type("for the shell\n")
    shell.expect("from the cell\r\n")
    shell.expect("got for the shell\r\n")
    leave(shell)


def test_in_the_background_and_reading(operator, shell):
    """Like any program: it is stopped until it is brought to the front, and then it reads."""
    shell.type("$C run -q -T cat &\n")
    shell.expect(r"\$ ")
    shell.type("echo still he''re\n")
    shell.expect("still here\r\n")
    shell.type("fg\n")
    shell.expect("cat\r\n")
    shell.type("for the cell\n")
    shell.expect("for the cell\r\nfor the cell\r\n")
    shell.type("\x04")
    shell.expect(r"\$ ")
    leave(shell)


def test_in_the_foreground_after_another(operator, shell):
    for n in range(3):
        shell.type("$C run -q sh -c 'read x; echo g''ot $x'\n")
        wait_until(lambda: operator.running(), "the cell runs")
        shell.type(f"word{n}\n")
        shell.expect(f"got word{n}\r\n")
        shell.expect(r"\$ ")
    leave(shell)


def test_in_a_pipe_line(operator, shell):
    shell.type("$C run -q sh -c 'echo down; test -t 1 || echo the pi''pe' | $C run -q cat\n")
    shell.expect("down\r\nthe pipe\r\n")
    shell.expect(r"\$ ")
    leave(shell)


def test_stopped_and_continued(operator, terminal):
    """SIGSTOP and SIGCONT of the supervisor by hand: it goes on, the terminal too."""
    t = terminal(operator.program, "run", "-q", "sh", "-c", "echo ready; exec cat")
    t.expect("ready\r\n")
    t.type("one\n")
    t.expect("one\r\none\r\n")
    t.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: status_of(t.process.pid)["State"].startswith("T"), "stopped")
    t.process.send_signal(signal.SIGCONT)
    t.type("two\n")
    t.expect("two\r\ntwo\r\n")
    t.type("\x04")
    assert t.end() == 0
