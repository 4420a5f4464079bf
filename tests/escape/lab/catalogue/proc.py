"""Probes of /proc and /sys: facts that they reveal, and actions through them."""
import pathlib
import secrets

from ..cell import NotApplicable, gone
from ..verdict import probe
from .files import kernel_log, loop_device

# Opened for writing and left at that.
DANGEROUS = {
    "core-pattern": ["/proc/sys/kernel/core_pattern"],
    "sysrq": ["/proc/sysrq-trigger", "/proc/sys/kernel/sysrq"],
    "uevent-helper": ["/sys/kernel/uevent_helper"],
    "kernel-settings": ["/proc/sys/kernel/modprobe", "/proc/sys/kernel/panic", "/proc/sys/kernel/printk",
                        "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory",
                        "/proc/sys/fs/suid_dumpable", "/proc/sys/kernel/randomize_va_space",
                        "/proc/sys/kernel/threads-max", "/proc/sys/fs/protected_symlinks"],
    "interrupts": ["/proc/irq/default_smp_affinity", "/proc/mtrr"],
}


def open_write(paths):
    return lambda w: w.run("open-write", *paths).said("won")


OPTIONAL = {"uevent-helper": "not in this kernel", "sysrq": "not in this kernel"}
for title, where in DANGEROUS.items():
    probe(f"opens {where[0]} for writing", name=title, group="proc", control="root",
          may_be_vacuous=OPTIONAL.get(title, ""))(open_write(where))


@probe("opens a release_agent of the host's cgroups for writing", control="root",
       may_be_vacuous="no cgroup v1 here")
def cgroup_agent(w):
    found = [str(p) for p in pathlib.Path("/sys/fs/cgroup").glob("*/release_agent")]
    return w.run("open-write", "/sys/fs/cgroup/release_agent", *found).said("won")


@probe("opens cgroup files for writing, to move itself or lift its limits", control="root")
def cgroup_files(w):
    names = ("cgroup.procs", "memory.max", "pids.max", "tasks")
    folders = [pathlib.Path("/sys/fs/cgroup"), *pathlib.Path("/sys/fs/cgroup").glob("*")]
    return w.run("open-write", *[f / n for f in folders for n in names]).said("won")


@probe("reads the kernel's log", control="root")
def kmsg(w):
    token = kernel_log(w)
    return token in w.run("kmsg").out


@probe("reads the kernel's memory", control="root", may_be_vacuous="no /proc/kcore here")
def kcore(w):
    return b"\x7fELF" in w.run("read", "/proc/kcore").out


def told_lines(w, path):
    """Lines of a root-only view of PATH; those of zeros say nothing."""
    w.need_root(f"know what {path} says")
    lines = [x for x in pathlib.Path(path).read_bytes().splitlines()[:400]
             if len(x) > 12 and x.strip(b"0-: ") and not x.startswith(b"0000000000000000")]
    if not lines:
        raise NotApplicable(f"{path} says nothing on this machine")
    return lines


@probe("learns where the kernel is in memory", control="root")
def kallsyms(w):
    lines = told_lines(w, "/proc/kallsyms")
    out = w.run("read", "/proc/kallsyms").out
    return any(line in out for line in lines)


def address_map(path):
    def run(w):
        if not pathlib.Path(path).exists():
            raise NotApplicable(f"no {path} in this kernel")
        lines = [x for x in told_lines(w, path) if b"0x" in x or b"-" in x or b"#" in x]
        out = w.run("read", path).out
        return any(line in out for line in lines)
    return run


for file in ("iomem", "vmallocinfo", "timer_list"):
    probe(f"reads the kernel's addresses in /proc/{file}", name=f"proc-{file}", group="proc",
          control="root")(address_map(f"/proc/{file}"))


@probe("learns the host's boot id, which all its cells would share")
def boot_id(w):
    path = "/proc/sys/kernel/random/boot_id"
    return pathlib.Path(path).read_bytes().strip() in w.run("read", path).out


@probe("sees a disk of the host's in /proc")
def proc_disks(w):
    major, minor, _ = loop_device(w, pages=secrets.randbelow(900) + 100)
    line = next(x for x in pathlib.Path("/proc/partitions").read_bytes().splitlines()
                if x.split()[:2] == [b"%d" % major, b"%d" % minor])
    return line in w.run("read", "/proc/partitions").out


@probe("sees a key of the host's in /proc/keys")
def proc_keys(w):
    name = w.token()
    w.holder("key", name, "x")
    return name.encode() in w.run("read", "/proc/keys").out


@probe("sees a cgroup of the host's in /sys")
def sys_cgroups(w):
    w.need_root("make a cgroup")
    token = "canary" + secrets.token_hex(8)
    for tree in ("freezer", "unified", "."):
        folder = pathlib.Path("/sys/fs/cgroup") / tree
        if (folder / "cgroup.procs").exists():
            (folder / token).mkdir()
            w.stack.callback((folder / token).rmdir)
            return token.encode() in w.run("list", 3, "/sys/fs/cgroup").out
    raise NotApplicable("no cgroups here")


@probe("sees the host's devices in /sys")
def sys_devices(w):
    names = {str(p).encode() for p in pathlib.Path("/sys/devices").iterdir()}
    names |= {str(p).encode() for p in pathlib.Path("/sys/module").iterdir()}
    return bool(names & set(w.run("list", 2, "/sys").out.splitlines()))


@probe("reads the environment, command line, files and root of a host process")
def other_processes(w):
    path, token = w.secret()
    _, _, other = w.victim()
    out = w.run("processes", path).out
    return token.encode() in out or other.encode() in out


@probe("reads the memory of a host process")
def other_memory(w):
    pid, address, token = w.victim()
    return token.encode() in w.run("memory-of", pid, address).out


@probe("learns from its mounts where the host keeps what was not granted", control="root")
def mount_paths(w):
    around = ["--bind", f"{w.state}:/mnt"] if w.control else []
    work = None if w.control or "overlay" not in w.box.has else w.folder("work")
    out = w.run("read", "/proc/self/mountinfo", "/proc/1/mountinfo", "/proc/self/mounts",
                around=around, workspace=work).out
    return w.state_token.encode() in out


INIT = {
    "maps": "reads the memory map of the box's pid 1",
    "mem": "opens the memory of the box's pid 1 for writing",
    "ptrace": "traces the box's pid 1",
    "vm": "reads the memory of the box's pid 1",
    "getfd": "takes a descriptor from the box's pid 1",
    "kcmp": "compares kernel objects with the box's pid 1",
}


def hold_of_init(op):
    return lambda w: w.run("init", op, w.init_pid()).said("won")


for op, text in INIT.items():
    probe(text, name=f"init-{op}", group="proc",
          may_be_vacuous="no kcmp in this kernel" if op == "kcmp" else "")(hold_of_init(op))


@probe("reads the environment of the box's pid 1")
def init_environment(w):
    token = w.token()
    if w.control:
        pid, _, token = w.victim()
        return token.encode() in w.run("read", f"/proc/{pid}/environ").out
    return token.encode() in w.run("read", "/proc/1/environ", env={"HOST_SECRET": token}).out


@probe("kills the box's pid 1")
def init_killed(w):
    pid = w.init_pid()
    cell = w.spawn("kill", pid)
    cell.watch(lambda: cell.said("ready") or cell.said("none") or cell.ended(), 10)
    if w.control:
        return cell.watch(lambda: gone(pid), 2)
    ended = cell.watch(cell.ended, 0.3)
    cell.check()
    return ended


CHANGED_PROGRAM = {
    "chmod": "changes the mode of the program that pid 1 runs",
    "xattr": "puts an attribute on the program that pid 1 runs",
}


def change_program(op):
    def run(w):
        tool = w.private_tool()
        before = w.snapshot(tool)
        w.run("init", f"exe-{op}", w.init_pid())
        return w.snapshot(tool) != before
    return run


for op, text in CHANGED_PROGRAM.items():
    probe(text, name=f"init-exe-{op}", group="proc",
          may_be_vacuous="the file system has no attributes" if op == "xattr" else "")(change_program(op))


@probe("opens the program that pid 1 runs for writing (busy or not)")
def init_exe_write(w):
    w.private_tool()
    return w.run("init", "exe-write", w.init_pid()).said("won")
