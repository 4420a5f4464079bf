"""The walls themselves, read from outside off a probe that holds still."""
import os

from ..cell import status_of
from ..verdict import probe


def look(says, name, **how):
    def register(judge):
        def run(w):
            return judge(w, w.spawn("hold", groups=how.get("groups", ())).pid())
        extra = {k: v for k, v in how.items() if k != "groups"}
        probe(says, name=name, group="walls", **extra)(run)
        return judge
    return register


for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
    @look(f"shares the host's {kind} namespace", f"wall-{kind}")
    def same(w, pid, kind=kind):
        return os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")


@look("is the host's root", "wall-uid", who=("root",))
def uid(w, pid):
    return "0" in status_of(pid)["Uid"].split()


@look("has a group of whoever started it", "wall-groups", who=("root",), groups=(23457,))
def groups(w, pid):
    return "23457" in status_of(pid)["Groups"].split()


@look("has a capability", "wall-capabilities", control="root")
def capabilities(w, pid):
    status = status_of(pid)
    return any(int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"))


@look("may gain privileges by running a program", "wall-privileges")
def privileges(w, pid):
    return status_of(pid)["NoNewPrivs"].strip() == "0"


@look("has no system-call filter", "wall-filter")
def filter_on(w, pid):
    return status_of(pid)["Seccomp"].strip() != "2"
