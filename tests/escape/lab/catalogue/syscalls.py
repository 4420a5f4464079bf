"""Probes of the parts of the kernel that answer.

If a call has no effect that is visible outside, the report of the probe counts, and the same
probe outside is its control."""
import os
import pathlib
import platform
import re

from ..verdict import probe

OLD = "the kernel is too old for this call"
ABSENT = "not in this kernel"

# Calls that reach their own code without any privilege, and why they might not.
CALLS = {
    "io_uring_setup": ABSENT, "io_uring_fd": ABSENT, "bpf": ABSENT, "perf": ABSENT, "userfaultfd": ABSENT,
    "keyctl": "", "add_key": "", "request_key": "", "mount": "", "umount": "", "open_tree": "",
    "mount_setattr": OLD, "open_tree_attr": OLD, "statmount": OLD, "listmount": OLD, "chroot": "",
    "setns": "", "handle_open": "", "fanotify": "", "pidfd_getfd": "",
    "settimeofday": "", "clock_settime": "", "lsm_list": OLD, "notify": "", "prctl_mm": ABSENT,
    "quotactl": ABSENT,
}
# Calls where even root is told apart only by what it lacks.
ROOT_CALLS = {
    "move_mount": "", "fsopen": "", "fspick": "", "pivot_root": "", "kexec": ABSENT, "reboot": "",
    "swapon": ABSENT, "swapoff": ABSENT, "acct": ABSENT, "init_module": ABSENT, "finit_module": ABSENT,
    "sethostname": "", "alarm_timer": "no clock here that wakes the machine",
}


def surface(call):
    return lambda w: w.run("surface", call).said("won")


for calls, control in ((CALLS, "same"), (ROOT_CALLS, "root")):
    for call, excuse in calls.items():
        probe(f"reaches the kernel's {call.replace('_', ' ')}", name="call-" + call.replace("_", "-"),
              group="syscalls", control=control, may_be_vacuous=excuse)(surface(call))

# Family, type, protocol; who must manage it outside.
UPPER = 1 << 32                         # the kernel drops these bits, a filter must too
SOCKETS = {
    "alg": (38, 5, 0, "same"), "alg-upper-bits": (UPPER | 38, UPPER | 5, 0, "same"),
    "vsock": (40, 1, 0, "same"), "packet": (17, 3, 0, "root"), "xdp": (44, 3, 0, "root"),
    "raw": (2, 3, 1, "root"),
}


def open_socket(family, kind, protocol):
    return lambda w: w.run("socket", f"{family:x}", f"{kind:x}", f"{protocol:x}").said("won")


for title, (family, kind, protocol, control) in SOCKETS.items():
    probe(f"opens a socket of the kind {title}", name=f"socket-{title}", group="syscalls", control=control,
          may_be_vacuous=ABSENT)(open_socket(family, kind, protocol))


@probe("opens a socket of any other family")
def socket_families(w):
    return w.run("families").said("won")


@probe("opens a netlink socket other than route's")
def socket_netlink(w):
    return w.run("netlink").said("won")


@probe("runs a program of the other word size", may_be_vacuous="no 32-bit programs on this machine")
def foreign_program(w):
    return w.run("foreign").said("won")


for entry in ("x32", "int80") if platform.machine() == "x86_64" else ():
    probe(f"enters the kernel by {entry}", name=f"entry-{entry}", group="syscalls", may_be_vacuous=ABSENT)(
        lambda w, entry=entry: w.run("entry", entry).said("won"))


@probe("has data made executable and page zero mapped for what it runs")
def personality(w):
    cell = w.spawn("personality", "0500000")      # READ_IMPLIES_EXEC, MMAP_PAGE_ZERO
    pid = cell.pid()
    cell.watch(lambda: told(cell), 2)
    return int(pathlib.Path(f"/proc/{pid}/personality").read_text(), 16) != 0


def told(cell):
    return cell.said("won") or cell.said("lost") or cell.ended()


@probe("sets the limit that keeps a crash from running the host's handler")
def core_limit(w):
    cell = w.spawn("core-limit")
    pid = cell.pid()
    cell.watch(lambda: cell.said("made"), 2)
    limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
    return re.search(r"Max core file size +(\S+)", limits)[1] != "1"


@probe("raises its priority, or becomes a real-time process", control="root")
def priority(w):
    cell = w.spawn("priority")
    pid = cell.pid()
    cell.watch(lambda: told(cell), 0.2)
    return os.sched_getscheduler(pid) == os.SCHED_FIFO or os.getpriority(os.PRIO_PROCESS, pid) < 0


@probe("reads a key of the user's")
def key_user(w):
    name, token = w.token(), w.token()
    serial = w.holder("key", name, token)
    return token.encode() in w.run("key", name, serial).out


@probe("reads a key of the session that it was started from")
def key_session(w):
    name, token = w.token(), w.token()
    return token.encode() in w.run("key", name, 0, around=["--session-key", f"{name}={token}"]).out
