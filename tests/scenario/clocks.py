"""Clocks that are wrong, for programs of this machine that are not static: libfaketime lies between them and the kernel's."""
import contextlib
import glob
import os

LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)


def shifted(seconds):
    """Variables for a program whose clock is SECONDS away, and for those that it starts.  Time passes as it does."""
    if LIBRARY is None or seconds == 0:
        return {}
    return {**ALIKE, "FAKETIME": f"{seconds:+d}"}


class Clock:
    """One that can be set while programs run with it."""

    def __init__(self, path):
        self.path = path
        self.set(0)
        self.env = {} if LIBRARY is None else {**ALIKE, "FAKETIME_TIMESTAMP_FILE": str(path), "FAKETIME_NO_CACHE": "1"}

    def set(self, seconds):
        """SECONDS away from this machine's, at once."""
        new = self.path.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.chmod(0o644)
        new.replace(self.path)


def clear():
    """What the library leaves in /dev/shm of processes that were killed."""
    for left in glob.glob("/dev/shm/*faketime_*_*"):
        if not os.path.exists(f"/proc/{left.rpartition('_')[2]}"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)


# Timers count the time that passes.
ALIKE = {"LD_PRELOAD": LIBRARY, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}
