"""Worlds of its own, or somebody else's."""
import pathlib
import subprocess

from ..verdict import probe

KINDS = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")


def new(how, kind):
    return lambda w: w.run("new", how, kind).said("won")


for kind in KINDS:
    probe(f"makes a {kind} namespace", name=f"unshare-{kind}", group="namespaces")(new("unshare", kind))
for kind in ("user", "mnt", "net"):
    probe(f"starts a process in a new {kind} namespace by clone", name=f"clone-{kind}",
          group="namespaces")(new("clone", kind))
probe("starts a process in a new user namespace by clone3", name="clone3-user",
      group="namespaces")(new("clone3", "user"))


@probe("joins a namespace of the box's pid 1", control="root")
def setns(w):
    return w.run("setns", w.init_pid()).said("won")


@probe("leaves its root directory by chroot", control="root")
def chroot(w):
    path, token = w.secret()
    jail = w.folder("jail") if w.control else "/tmp/jail"
    cell = w.run("chroot", jail, path)
    return token.encode() in cell.out or cell.said("won")


@probe("mounts a cgroup v1 tree and writes its release_agent (as it was)", control="root",
       may_be_vacuous="no cgroup v1 here")
def release_agent(w):
    return w.run("release-agent", w.folder("cgroup") if w.control else "/tmp/cgroup").said("won")


@probe("gives itself another map of user ids")
def uid_map(w):
    return w.run("uid-map").said("won")


@probe("mounts something that the host then sees", control="root")
def mount_outside(w):
    folder = w.folder("granted")
    cell = w.spawn("mount", folder, rw=[folder])
    cell.watch(lambda: cell.said("won") or cell.said("lost") or cell.ended(), 5)
    cell.check()
    seen = f" {folder} " in pathlib.Path("/proc/self/mountinfo").read_text()
    if seen:
        subprocess.run(["umount", folder], check=True)
    return seen
