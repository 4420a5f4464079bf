"""A terminal with somebody at it: starts a program there, types, and reads the screen."""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

from operators import IS_ROOT, SECONDS, text_of


class Terminal:
    def __init__(self, operator, *argv, rows=24, columns=80, env=None, **how):
        self.master, self.slave = pty.openpty()
        if IS_ROOT:
            os.fchown(self.slave, operator.uid, operator.gid)
        self.name = os.ttyname(self.slave)
        self.text = ""
        self.resize(rows, columns)
        self.before = self.settings()
        self.process = operator.spawn(
            *argv, env={"TERM": "xterm-test", **(env or {})}, start_new_session=True,
            preexec_fn=self._take, **{"stdin": self.slave, "stdout": self.slave,
                                          "stderr": self.slave, **how})

    def _take(self):
        """In the new process: the terminal becomes its controlling one."""
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def settings(self):
        return termios.tcgetattr(self.slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def _read(self, seconds):
        """Take what is on the screen; whether there was anything."""
        ready, _, _ = select.select([self.master], [], [], max(0, seconds))
        if not ready:
            return False
        self.text += text_of(os.read(self.master, 65536))
        return True

    def expect(self, pattern, seconds=SECONDS):
        """The first match of PATTERN in what is not yet matched."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            assert self._read(end - time.monotonic()) or time.monotonic() < end, \
                f"no {pattern!r} on the screen: {self.text!r}"
        self.text = self.text[found.end():]
        return found

    def end(self, seconds=SECONDS):
        """The program's status, once it has ended; the rest of the screen is in `text`."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert self._read(0.02) or time.monotonic() < end, f"has not ended: {self.text!r}"
        while self._read(0):
            pass
        return self.process.returncode

    def close(self):
        os.close(self.slave)
        os.close(self.master)
