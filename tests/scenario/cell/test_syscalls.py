"""`syscalls` in a policy: the agent loses calls that cloister's own filter leaves to it, and never gains one."""
import json

from operators import wait_until

PROBE = """
import errno, json, os, socket
def tried(do):
    try:
        do()
    except OSError as e:
        return errno.errorcode[e.errno]
    return "done"
open("/tmp/x", "w").close()
print(json.dumps({"chmod": tried(lambda: os.chmod("/tmp/x", 0o600)), "utime": tried(lambda: os.utime("/tmp/x")),
                  "socket": tried(socket.socket), "pair": tried(socket.socketpair),
                  "memfd": tried(lambda: os.memfd_create("x")), "link": tried(lambda: os.symlink("x", "/tmp/y")),
                  "child": os.waitstatus_to_exitcode(os.system("true")),
                  "unshare": tried(lambda: os.unshare(os.CLONE_NEWUSER)) if hasattr(os, "unshare") else "EPERM"}))
"""
FREE = {"chmod": "done", "utime": "done", "socket": "done", "pair": "done", "memfd": "done", "link": "done", "child": 0,
        "unshare": "EPERM"}
CALLS = """execve exit exit_group rt_sigreturn read write close openat mmap mprotect munmap brk fstat newfstatat statx pread64
 access faccessat faccessat2 arch_prctl set_tid_address set_robust_list prlimit64 getrandom rseq futex""".split()


def policy(operator, text, name="syscalls.yaml"):
    path = operator.file(name, "version: 1\n" + text)
    path.chmod(0o600)
    return path


def test_calls_are_taken_away(operator):
    """From the agent, from its children and from commands of the operator; nothing is widened."""
    probe = ["python3", "-c", PROBE]
    rules = policy(operator, "syscalls: {deny: [network, files-metadata, memfd_create, namespaces]}\n")
    assert json.loads(operator.run("-q", "-p", rules, "--", *probe).ok()) == \
        FREE | {"chmod": "EPERM", "utime": "EPERM", "socket": "EPERM", "memfd": "EPERM"}
    # An outer policy takes away more, and an inner one that allows more gets nothing back.
    wide = policy(operator, "syscalls: {deny: [links]}\n", "inner.yaml")
    rules = policy(operator, "syscalls: {deny: [network]}\n")
    id = operator.detach("-p", wide, "--within", rules, "--", "sleep", "1000")
    assert json.loads(operator.cloister("exec", id, "--", *probe).ok()) == FREE | {"socket": "EPERM", "link": "EPERM"}
    # It is settled when the cell starts.
    change = policy(operator, "syscalls: {deny: [ptrace]}\n")
    assert "settled when a cell starts" in operator.cloister("policy", "set", id, change).err
    operator.cloister("kill", id).ok()


def test_a_list_of_ones_own(operator):
    rules = policy(operator, f"syscalls: {{allow: [{', '.join(CALLS)}]}}\n")
    assert operator.run("-q", "-p", rules, "--", "/bin/echo", "hello").ok() == "hello\n"
    assert "Function not implemented" in operator.run("-q", "-p", rules, "--", "/bin/mkdir", "/tmp/x").err


def test_mistakes_are_errors_before_the_start(operator):
    for text, error in (("{deny: [execve]}", "no program starts without the system call 'execve'"),
                        ("{deny: [ptrac]}", "did you mean 'ptrace'?"),
                        ("{allow: [read]}", "add execve, exit")):
        rules = policy(operator, f"syscalls: {text}\n")
        assert error in operator.cloister("policy", "check", rules).err
        refused = operator.run("-p", rules, "--", "true")
        assert refused.status == 125 and error in refused.err


# ---- exec: the first program and no other ----

EXECS = """
import ctypes, errno, json, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
NR = {"x86_64": (59, 322), "aarch64": (221, 281)}[os.uname().machine]
fd = os.open("/bin/true", os.O_PATH)
words = (ctypes.c_char_p * 2)(b"true", None)
def tried(do):
    pid = os.fork()
    if pid == 0:
        try:
            do()
        except OSError as e:
            os._exit(e.errno)
        os._exit(ctypes.get_errno())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def guess(*pass_):
    return lambda: libc.syscall(NR[0], b"/bin/true", words, None, *map(ctypes.c_ulonglong, pass_))
print(json.dumps({
    "execve": tried(lambda: os.execve("/bin/true", ["true"], {})),
    "execveat": tried(lambda: libc.syscall(NR[1], fd, b"", words, None, 0x1000)),
    "fd": tried(lambda: os.execve(fd, ["true"], {})),
    "guess": tried(guess(0, 0, 0)), "ones": tried(guess(2**64 - 1, 2**64 - 1, 2**64 - 1)),
    "spawn": tried(lambda: os.posix_spawn("/bin/true", ["true"], {})),
    "fork": tried(lambda: os._exit(0))}))
"""
EPERM = {"execve": 1, "execveat": 1, "fd": 1, "guess": 1, "ones": 1, "spawn": 1, "fork": 0}
LOOK = """
import os, sys, time
mine = os.getpid()
print("ready", flush=True)
while True:
    for pid in (p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, mine)):
        said = []
        for name in ("syscall", "environ"):
            try:
                open(f"/proc/{pid}/{name}", "rb").read()
                said.append("read")
            except OSError as e:
                said.append(e.strerror)
        if open(f"/proc/{pid}/comm").read() == "sleep\\n":
            print(*said, flush=True)
            sys.exit()
    time.sleep(0.01)
"""


def test_exec(operator):
    rules = policy(operator, "syscalls: {deny: [exec]}\n")
    python = ["python3", "-c", EXECS]
    free = json.loads(operator.run("-q", "--", *python).ok())
    assert free == dict.fromkeys(EPERM, 0), free
    assert json.loads(operator.run("-q", "-p", rules, "--", *python).ok()) == EPERM
    # Names, paths and scripts are found as ever, and a shell keeps what is built in.
    assert operator.run("-q", "-p", rules, "--", "sh", "-c", "echo one; true; /bin/true; echo $?").out == "one\n126\n"
    assert operator.run("-q", "-p", rules, "-e", "PATH=/nowhere:/tmp:/bin", "--", "echo", "two").ok() == "two\n"
    assert operator.run("-q", "-p", rules, "--", "no-such-program").status == 127
    assert operator.run("-q", "-p", rules, "--", "/etc").status == 126
    folder = operator.folder("scripts", {"direct": "#!/bin/sh\necho three\n", "by-env": "#!/usr/bin/env sh\necho four\n"})
    for file in folder.iterdir():
        file.chmod(0o755)
    grant = ["-v", f"{folder}:{folder}:ro"]
    assert operator.run("-q", "-p", rules, *grant, "--", folder / "direct").ok() == "three\n"
    assert "Operation not permitted" in operator.run("-q", "-p", rules, *grant, "--", folder / "by-env").err
    # Commands of an operator are first programs, too.
    id = operator.detach("-p", rules, "--", "sleep", "1000")
    assert json.loads(operator.cloister("exec", id, "--", *python).ok()) == EPERM
    operator.cloister("kill", id).ok()
    # An outer policy's counts, and no other filter of the policy gets in its way.
    inner = policy(operator, f"syscalls: {{allow: [{', '.join(CALLS)}, ioctl, getuid, geteuid, getgid, getegid, sysinfo, uname, "
                   "getcwd, lseek, readlink, rt_sigaction, rt_sigprocmask, getpid, getppid, wait4, fcntl, dup2, dup3, clone, "
                   "vfork, fork]}\n", "inner.yaml")
    assert operator.run("-q", "-p", inner, "--within", rules, "--", "sh", "-c", "echo one; /bin/true").out == "one\n"
    refused = operator.run("-p", rules, "--profile", "nested", "--", "true")
    refused.sentence("--profile nested is for programs that start others in namespaces of their own")


def test_programs_that_run_do_not_see_the_next_one_start(operator):
    """Its registers are in /proc while it starts, and the word that starts programs is in them."""
    rules = policy(operator, "syscalls: {deny: [exec]}\n")
    for words, want in (([], "read read"), (["-p", rules], "Operation not permitted Permission denied")):
        id = operator.detach("-q", *words, "--", "python3", "-c", LOOK)
        wait_until(lambda: "ready" in operator.cloister("logs", id).out, "it looks")
        operator.cloister("exec", id, "--", "sleep", "3")
        assert operator.cloister("logs", id).out.splitlines()[1] == want
