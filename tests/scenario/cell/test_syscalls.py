"""`syscalls` in a policy: the agent loses calls that cloister's own filter leaves to it, and never gains one."""
import json

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
                        ("{deny: [exec]}", "a filter cannot count"),
                        ("{allow: [read]}", "add execve, exit")):
        rules = policy(operator, f"syscalls: {text}\n")
        assert error in operator.cloister("policy", "check", rules).err
        refused = operator.run("-p", rules, "--", "true")
        assert refused.status == 125 and error in refused.err
