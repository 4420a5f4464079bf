"""The operator's terminal, or rather one that may be spoilt."""
import fcntl
import os
import struct
import termios

from ..verdict import probe

TIOCLINUX, TIOCSETD, TIOCSTI, TIOCCONS = 0x541C, 0x5423, 0x5412, 0x541D
NO_TIOCSTI = "this kernel has TIOCSTI switched off"


def typed(slave):
    """The input that waits for the operator's shell."""
    os.set_blocking(slave, False)
    try:
        return os.read(slave, 4096)
    except BlockingIOError:
        return b""


@probe("types a command into the operator's terminal", may_be_vacuous=NO_TIOCSTI)
def terminal_type(w):
    terminal, token = w.terminal(), w.token()
    w.run("type", token, terminal=terminal)
    return token.encode() in typed(terminal[1])


@probe("types into the terminal of the session, its own streams being pipes", may_be_vacuous=NO_TIOCSTI)
def session_type(w):
    (_, slave), token = w.terminal(), w.token()
    w.run("type", token, fds=[slave], around=["--terminal", slave])
    return token.encode() in typed(slave)


@probe("writes to the terminal of the session, its own streams being pipes")
def session_write(w):
    (master, slave), token = w.terminal(), w.token()
    w.run("session", token, fds=[slave], around=["--terminal", slave])
    os.set_blocking(master, False)
    try:
        return token.encode() in os.read(master, 4096)
    except BlockingIOError:
        return False


@probe("resizes the operator's terminal")
def terminal_resize(w):
    master, slave = w.terminal()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    w.run("resize", 61, terminal=(master, slave))
    return struct.unpack("HHHH", fcntl.ioctl(master, termios.TIOCGWINSZ, b"\0" * 8))[0] == 61


@probe("holds the operator's terminal itself")
def terminal_held(w):
    """From outside: is the probe's standard input the device that was given?"""
    terminal = w.terminal()
    pid = w.spawn("hold", terminal=terminal).pid()
    return os.stat(f"/proc/{pid}/fd/0").st_rdev == os.fstat(terminal[1]).st_rdev and \
        os.stat(f"/proc/{pid}/fd/0").st_dev == os.fstat(terminal[1]).st_dev


REQUESTS = {
    "tiocsti": (TIOCSTI, "same", NO_TIOCSTI), "tioclinux": (TIOCLINUX, "same", ""),
    "tiocsetd": (TIOCSETD, "same", ""), "tiocsti-upper-bits": (1 << 32 | TIOCSTI, "same", NO_TIOCSTI),
    "tioclinux-upper-bits": (1 << 32 | TIOCLINUX, "same", ""),
}


def request(number):
    return lambda w: w.run("request", f"{number:x}", terminal=w.terminal()).said("won")


for title, (number, control, excuse) in REQUESTS.items():
    probe(f"has its terminal answer {title.split('-')[0].upper()}", name=f"ioctl-{title}", group="terminal",
          control=control, may_be_vacuous=excuse)(request(number))
