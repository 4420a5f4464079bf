"""Timelines with the records of the witness, written by hand: see docs/audit-format.md."""
from audit_world import Timeline, Key


def at(second, ms=0):
    return "2026-11-15T16:%02d:%02d.%03dZ" % (second // 60, second % 60, ms)


BOOT = {"type": "cell.boot", "grant": {"argv": ["sh", "-c", "make"], "boundary": "namespace"}}
# A shell that runs git and a hostile program.
ACTS = [
    {"type": "record", "level": "acts", "by": "ebpf", "unseen": ["reads outside of grants"]},
    {"type": "exec", "pid": 2, "parent": 1, "path": "/bin/sh", "argv": ["sh", "-c", "git fetch; evil"],
     "cwd": "/work", "sha256": "a" * 64},
    {"type": "exec", "pid": 3, "parent": 2, "path": "/usr/bin/git", "argv": ["git", "fetch"], "cwd": "/work",
     "sha256": "b" * 64},
    {"type": "net", "pid": 3, "act": "connect", "address": "10.0.0.1", "port": 443, "local": 40000},
    {"type": "http", "verdict": "allow", "method": "GET", "scheme": "https", "host": "git.example", "port": 443,
     "path": "/x/info/refs", "status": 200, "sent": 0, "received": 2000, "ms": 30, "from": 40000, "pid": 3,
     "rule": "cloister.yaml:4:5", "rule_text": "allow git.example"},
    {"type": "file", "pid": 3, "act": "write", "path": "/work/.git/FETCH_HEAD", "grant": "/work", "count": 3},
    {"type": "exit", "pid": 3, "parent": 2, "status": 0, "ms": 1200, "cpu_ms": 40, "peak": 5 << 20},
    {"type": "exec", "pid": 4, "parent": 2, "path": "/tmp/evil", "argv": ["evil", "a b\x1b[2J\n"],
     "from": "writable", "sha256": "c" * 64},
    {"type": "danger", "pid": 4, "call": "memfd_create", "args": "\"x\", 0", "count": 1},
    {"type": "refused", "pid": 4, "call": "ptrace", "args": "PTRACE_ATTACH, 1", "error": "EPERM", "by": "filter",
     "count": 7},
    {"type": "file", "pid": 4, "act": "rename", "path": "/work/a\x1b]0;b", "to": "/work/b", "grant": "/work", "count": 1},
    {"type": "tcp", "verdict": "deny", "why": "no-rule", "host": "evil.example", "port": 22, "from": 40001},
    {"type": "resources", "cpu_ms": 900, "memory": 3 << 20, "peak": 9 << 20, "processes": 3, "read": 4096,
     "written": 8192, "pressure_cpu": 150},
    {"type": "lost", "what": "file", "count": 20, "why": "the buffer was full"},
    {"type": "watch", "rule": "watch: write .git/hooks/**", "then": "freeze", "of": "write /work/.git/hooks/x", "pid": 4},
    {"type": "calls", "pid": 4, "ms": 1000, "counts": ["read 100", "write 3"]},
    {"type": "exit", "pid": 4, "parent": 2, "signal": "KILL", "ms": 900},
    {"type": "exit", "pid": 2, "parent": 1, "status": 1, "ms": 3000, "cpu_ms": 60, "peak": 1 << 20},
]
END = {"type": "cell.end", "status": 1, "cpu_ms": 1000, "peak": 9 << 20, "processes": 3, "programs": 3, "refused": 7,
       "read": 4096, "written": 8192}


def witnessed(cell="abcdefgh", acts=None, boot=BOOT, end=END):
    """A whole timeline; a record each second."""
    timeline = Timeline(f"cell/{cell}", Key())
    for second, event in enumerate([boot, *(ACTS if acts is None else acts), *([end] if end else [])]):
        timeline.add(event, at(second))
    timeline.checkpoint()
    return timeline
