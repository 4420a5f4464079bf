"""One program under way in a box, watched from outside."""
import contextlib
import errno
import os
import pathlib
import selectors
import signal
import time


class NotRun(Exception):
    """The probe never reached its attempt: nothing can be said about it."""


class NotApplicable(Exception):
    """This box has no such thing to try, with the reason."""


def processes_of(nonce):
    """Host pids of the probe that was given NONCE."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            words = pathlib.Path(entry.path, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if nonce.encode() in words[1:] and words[0].rsplit(b"/", 1)[-1] in (
                b"probe", b"helper", b"foreign", b"python3"):
            found.append(int(entry.name))
    return sorted(found)


def status_of(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def gone(pid):
    """Dead, whether or not anybody has waited for it."""
    try:
        return status_of(pid)["State"].strip()[0] in "ZX"
    except OSError:
        return True


class Cell:
    """PROCESS writes to the file descriptors OUTS, which are read here."""

    def __init__(self, world, process, nonce, outs, terminal=False):
        self.world, self.process, self.nonce = world, process, nonce
        self.terminal = terminal
        self.stopped = False
        self.out = b""
        self.open = set(outs)
        # Its end wakes the judge at once.
        self.pidfd = os.pidfd_open(process.pid)
        world.selector.register(self.pidfd, selectors.EVENT_READ, self._end)
        for fd in outs:
            os.set_blocking(fd, False)
            world.selector.register(fd, selectors.EVENT_READ, lambda fd=fd: self._read(fd))

    def _read(self, fd):
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return
        except OSError as e:
            if e.errno != errno.EIO:        # EIO: the other side of a terminal is gone
                raise
            data = b""
        self.out += data
        if not data:
            self.close(fd)

    def _end(self):
        self.world.selector.unregister(self.pidfd)
        os.close(self.pidfd)
        self.process.wait()

    def close(self, fd):
        self.world.selector.unregister(fd)
        self.open.discard(fd)
        os.close(fd)

    def watch(self, until, seconds):
        """Serve the listeners and read, until UNTIL() or for so long."""
        end = time.monotonic() + seconds
        while not until():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.world.serve(min(left, 0.02))
        return True

    def said(self, word):
        return b"\n@" + word.encode() in b"\n" + self.out.replace(b"\r", b"")

    def pids(self):
        return processes_of(self.nonce)

    def pid(self):
        """The one host pid of a probe that holds still."""
        if not self.watch(lambda: self.said("ready") or self.ended(), 10) or self.ended():
            self.check()
            raise NotRun("it ended before it could be looked at: " + self.tail())
        pids = self.pids()
        if not pids:
            raise NotRun("its process cannot be found")
        return pids[0]

    def ended(self):
        return self.process.returncode is not None

    def finish(self, seconds=10):
        self.watch(self.ended, seconds)
        # A terminal has no end of file while the judge holds its other side.
        self.watch(lambda: not self.open, 0.05 if self.terminal else 0.5)
        self.stop()
        return self

    def tail(self):
        return self.out.decode(errors="replace").strip()[-300:]

    def check(self):
        self.watch(lambda: not self.open or self.said("ready"), 0.5)
        if self.said("none"):
            raise NotApplicable(self.out.split(b"@none ")[1].split(b"\n")[0].decode())
        if not self.said("ready"):
            self.world.box.excuse(self)
            raise NotRun(f"status {self.process.returncode}: {self.tail()}")

    def stop(self):
        """Whatever is left of it ends here; only what was started here is touched."""
        if self.stopped:
            return
        self.stopped = True
        for attempt in range(20):
            pids = self.pids()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if self.watch(self.ended, 0.25) and not pids:
                break
            if not pids:
                self.process.send_signal(signal.SIGTERM if attempt < 3 else signal.SIGKILL)
        self.watch(lambda: not self.open, 0 if self.terminal else 0.2)
        for fd in list(self.open):
            self.close(fd)
