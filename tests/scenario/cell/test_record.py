"""The record of what a cell's processes do: programs, files, refused calls, resources, and its limits."""
import ctypes
import errno
import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from operators import descendants_of, wait_until

ACTS = {"exec", "exit", "file", "net", "refused", "danger", "calls", "lost", "resources"}


def events(operator, cell):
    return [json.loads(line) for line in operator.cloister("events", "--json", cell).ok().splitlines()]


def of(records, kind, **members):
    return [r for r in records if r["type"] == kind and all(r.get(k) == v for k, v in members.items())]


def witness_of(supervisor):
    found = [pid for pid in descendants_of(supervisor)
             if b"cloister-witness" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found[0] if found else None


SCRIPT = r"""
echo one >new; echo two >>new; echo three >>new
mv new "$(printf 'odd\n\033[2Jname')"
chmod 700 run.sh; ./run.sh
mount -t tmpfs none /mnt 2>/dev/null
exit 3
"""


def source(operator, level):
    """Root's cells are seen by the kernel's programs, if these stay for the next cell or every call is wanted."""
    return "ebpf" if operator.is_root and (level == "full" or os.path.ismount("/sys/fs/bpf")) else "notify"


def is_hashed(record, key, want):
    """Or the record explains why not: on a busy machine a program may have ended before it could be read."""
    return record[key] == want if key in record else bool(record["unhashed"])


@pytest.mark.parametrize("level", ["acts", "full"])
def test_acts_are_recorded(operator, level):
    work = operator.folder("work", {"run.sh": "#!/bin/sh\nexec /bin/ls / >/dev/null\n", "old": "x"})
    words = ["--record", level] if level == "full" else []
    assert operator.run("-q", "--name", "acts", "--keep", *words, "-w", f"{work}:rw", "--", "sh", "-c", SCRIPT).status == 3
    records = events(operator, "acts")
    boot, header, *acts, end = records
    assert (boot["type"], header["type"], end["type"]) == ("cell.boot", "record", "cell.end")
    assert (header["level"], header["by"]) == (level, source(operator, level)) and header["unseen"]
    assert {r["type"] for r in acts} <= ACTS

    # The agent is the first program; each has the hash of its file, and its parent.
    started = [r for r in of(records, "exec") if "error" not in r]
    shell = hashlib.sha256(Path("/bin/sh").resolve().read_bytes()).hexdigest()
    assert started[0]["argv"] == ["sh", "-c", SCRIPT] and is_hashed(started[0], "sha256", shell)
    ls, = [r for r in started if r["argv"][:1] == ["/bin/ls"]]
    script, = [r for r in started if "script" in r]
    assert is_hashed(script, "script_sha256", hashlib.sha256((work / "run.sh").read_bytes()).hexdigest())
    assert is_hashed(script, "sha256", shell) and script["parent"] == started[0]["pid"] and script["pid"] == ls["pid"]
    assert end["programs"] == len(started)
    assert of(records, "exit", pid=started[0]["pid"], status=3) and of(records, "exit", pid=ls["pid"], status=0)

    # Repeats are counted, and each file names its grant.
    written = of(records, "file", path=f"{work}/new", grant=str(work))
    assert sum(r["count"] for r in written if r["act"] in ("write", "create")) == 3 and len(written) <= 3
    moved, = of(records, "file", act="rename")
    assert moved["to"] == f"{work}/odd\n\x1b[2Jname"
    assert of(records, "file", act="mode", path=f"{work}/run.sh")
    mount, = of(records, "refused", call="mount", by="filter")
    assert mount["error"] == "EPERM" and end["refused"] >= 1
    # No byte of the agent's harms a terminal.
    said = operator.cloister("events", "acts").ok()
    assert all(c == "\n" or c.isprintable() for c in said)
    operator.cloister("audit", "verify", "acts").ok()
    operator.cloister("discard", "acts").ok()


@pytest.mark.parametrize("level", ["acts", "full"])
def test_a_search_for_a_program_is_one_record(operator, level):
    """Neither `env`, which tries one folder after the other, nor what it did before is lost."""
    words = ["env", "PATH=/none/a:/none/b:/usr/bin"]
    operator.run("-q", "--name", "search", "--keep", "--record", level, "--", "sh", "-c",
                 f"{' '.join(words)} true found; {' '.join(words)} neither; echo >/tmp/new; /none/x/alone; "
                 """perl -e 'no warnings; for ("/none/truest", "/none/true", "/usr/bin/true") { exec {$_} "last" }'""").ok()
    records = events(operator, "search")
    found, = [r for r in of(records, "exec") if r.get("argv") == ["true", "found"]]
    assert (found["searched"], found["path"]) == (2, os.path.realpath("/usr/bin/true"))
    failed = of(records, "exec", error="ENOENT")
    # A name that only begins like the one before is another search.
    assert [(r["path"], r["count"]) for r in failed] == [("/usr/bin/neither", 3), ("/none/x/alone", 1), ("/none/truest", 1)]
    last, = [r for r in of(records, "exec") if r.get("argv") == ["last"] and "error" not in r]
    assert last["searched"] == 1
    ended, = of(records, "exit", pid=failed[0]["pid"])
    assert records.index(failed[0]) < records.index(ended)
    lines = operator.cloister("events", "search").ok()
    assert "(not in 2 other folders)" in lines and "failed with ENOENT, 3 times" in lines
    assert of(records, "cell.end")[0]["programs"] == 6
    operator.cloister("discard", "search").ok()


class Regs(ctypes.Structure):
    """struct user_regs_struct of x86-64."""
    _fields_ = [(name, ctypes.c_ulonglong) for name in (
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs").split()]


def force(pid, call, argument):
    """Has a process that waits in a call make another one first; its result."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def ptrace(request, data=None):
        assert libc.ptrace(request, pid, None, data) == 0, os.strerror(ctypes.get_errno())
    regs, own = Regs(), Regs()
    ptrace(16)                                          # PTRACE_ATTACH
    os.waitpid(pid, 0x40000000)                         # __WALL
    ptrace(12, ctypes.addressof(own))                   # PTRACE_GETREGS
    ptrace(12, ctypes.addressof(regs))
    regs.rip, regs.rax, regs.orig_rax, regs.rdi = own.rip - 2, call, 2 ** 64 - 1, argument
    ptrace(13, ctypes.addressof(regs))                  # PTRACE_SETREGS
    for _ in range(2):                                  # its beginning and its end
        ptrace(24)                                      # PTRACE_SYSCALL
        os.waitpid(pid, 0x40000000)
    ptrace(12, ctypes.addressof(regs))
    own.rip, own.rax, own.orig_rax = own.rip - 2, own.orig_rax, 2 ** 64 - 1
    ptrace(13, ctypes.addressof(own))
    ptrace(17)                                          # PTRACE_DETACH
    return ctypes.c_longlong(regs.rax).value


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the test knows the registers of x86-64 alone")
@pytest.mark.parametrize("level", ["acts", "full"])
def test_init_that_is_taken_over(operator, level):
    """It makes no call that its filter refuses: such a call shows what has become of it."""
    if not operator.is_root:
        pytest.skip("only root looks into init")
    cell = operator.detach("--record", level, "--", "sleep", "600")
    init = operator.cell(cell)["init"]
    assert force(init, 272, 0x10000000) == -errno.EPERM             # unshare(CLONE_NEWUSER)
    operator.cloister("kill", cell).ok()
    operator.cloister("wait", cell)
    refused, = of(events(operator, cell), "refused")
    assert (refused["pid"], refused["call"], refused["by"]) == (1, "unshare", "filter")
    operator.cloister("discard", cell)


def test_nothing_is_recorded(operator):
    operator.run("-q", "--record", "off", "--name", "off", "--keep", "--", "true").ok()
    records = events(operator, "off")
    assert [r["type"] for r in records] == ["cell.boot", "record", "cell.end"]
    assert records[1]["level"] == "off" and "programs" not in records[2]
    operator.cloister("discard", "off").ok()
    operator.run("--record", "some", "--", "true").sentence("--record", "off, acts or full", "some")


def test_a_policy_demands_it(operator):
    """The witness dies: the cell is frozen, or killed.  The option cannot lower the level."""
    then = "freeze" if operator.is_root else "kill"
    policy = operator.file("p.yaml", f"version: 1\nrecord: {{level: acts, lost: {then}}}\n")
    cell = operator.detach("--record", "off", "-p", policy, "--", "sleep", "60")
    wait_until(lambda: of(events(operator, cell), "exec"), "the agent's start being recorded")
    os.kill(witness_of(operator.cell(cell)["supervisor"]), signal.SIGKILL)
    if operator.is_root:
        wait_until(lambda: of(events(operator, cell), "cell", did="frozen", by="witness"), "the cell being frozen")
        operator.cloister("kill", cell).ok()
    assert operator.cloister("wait", cell).status == 128 + signal.SIGKILL
    records = events(operator, cell)
    assert records[1]["level"] == "acts" and of(records, "cell", did="witness lost")
    assert operator.is_root or "record" in of(records, "cell.end")[0]["cause"]
    operator.file("p.yaml", "version: 1\nrecord: much\n")
    operator.run("-p", policy, "--", "true").sentence("off", "acts", "full")


@pytest.mark.skipif(not list(Path("/sys/fs/cgroup").glob("**/pids.peak")), reason="the kernel does not keep the most processes")
def test_the_most_processes_at_once(operator):
    """Also of a moment: `cloister review` proposes a limit by it."""
    if not operator.is_root:
        pytest.skip("cgroups of an ordinary user need a session of systemd")
    operator.run("-q", "--name", "peak", "--keep", "--", "sh", "-c",
                 "for i in $(seq 40); do sleep 0.2 & done; wait").ok()
    end, = of(events(operator, "peak"), "cell.end")
    assert 42 <= end["processes"] <= 46
    operator.cloister("discard", "peak").ok()


def test_each_request_names_its_process(operator):
    """However soon it is answered, and its program ends, and however busy the machine is."""
    policy = operator.folder("policy", {"p.yaml": "version: 1\negress: []\n"}) / "p.yaml"
    operator.run("-q", "--name", "quick", "-p", policy, "--", "sh", "-c",
                 "for i in $(seq 20); do curl -s -o /dev/null http://192.0.2.1/$i; done").ok()
    records = events(operator, "quick")
    programs = {r["argv"][-1]: r["pid"] for r in of(records, "exec", path="/usr/bin/curl")}
    asked = {f"http://192.0.2.1{r['path']}": r.get("pid") for r in of(records, "http")}
    assert len(asked) == 20
    if of(records, "record")[0]["by"] == "notify":
        assert asked == programs
    else:                                               # the kernel does not wait for the witness
        assert {url: pid for url, pid in asked.items() if pid is not None}.items() <= programs.items()
    # So do the connections, though their sockets are closed at once.
    assert {r["pid"] for r in of(records, "net", act="connect", port=80) if "asked" not in r} == set(programs.values())
