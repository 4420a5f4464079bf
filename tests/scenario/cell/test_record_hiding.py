"""Agents that hide what they do from the witness of an ordinary user: the record shows it, or marks what it does not know."""
import re
import textwrap

from operators import only_user
from test_record import events, of

HEAD = """
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)

def make(path, dir=None):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o700, dir_fd=dir))

def run(*words):
    pid = os.fork()
    if pid == 0:
        try:
            os.execve(words[0], list(words[1:]), {})
        finally:
            os._exit(126)
    return os.waitpid(pid, 0)[1]

def copy(name):
    with open("/bin/true", "rb") as true, open(name, "wb") as to:
        to.write(true.read())
    os.chmod(name, 0o700)
"""


def acts_of(operator, script, rules=(), calls=""):
    """The records of a cell in which Python runs SCRIPT, and its working folder."""
    work = operator.folder("work", {"script.py": HEAD + textwrap.dedent(script)})
    words = []
    if rules:
        policy = operator.file("rules.yaml", f"version: 1\n{calls}\nwatch:\n" + "".join(f"  - {r}\n" for r in rules))
        policy.chmod(0o600)
        words = ["-p", policy]
    done = operator.run("-q", "--name", "hiding", "--keep", *words, "-w", f"{work}:rw", "--", "/usr/bin/python3", "script.py")
    done.ok()
    records = events(operator, "hiding")
    operator.cloister("discard", "hiding").ok()
    assert of(records, "record", by="notify"), "an ordinary user's witness"
    return records, work


def fired(records, rule):
    return [r for r in records if r["type"] == "watch" and rule in r["rule"]]


@only_user
def test_a_process_that_is_not_dumpable(operator):
    """Its folders, descriptors and programs are seen all the same."""
    records, work = acts_of(operator, """
        os.mkdir("sub"); sub = os.open("sub", os.O_RDONLY)
        libc.prctl(4, 0)                # PR_SET_DUMPABLE
        make("by-cwd")
        make("by-fd", sub)
        copy("sub/program")
        fd = os.open("sub/program", os.O_RDONLY)
        os.fchmod(fd, 0o711)
        os.set_inheritable(fd, True)
        os.symlink(f"/proc/self/fd/{sub}", "link"); make("link/by-link")
        run(fd, "by-fd")
        run("sub/program", "by-path")
        """)
    made = {r["path"] for r in of(records, "file", act="create")}
    assert {f"{work}/by-cwd", f"{work}/sub/by-fd", f"{work}/sub/by-link"} <= made
    assert of(records, "file", act="mode", path=f"{work}/sub/program")
    for name in ("by-fd", "by-path"):
        one, = [r for r in of(records, "exec") if r["argv"] == [name]]
        assert (one["path"], one["from"]) == (f"{work}/sub/program", "writable") and "asked" not in one
    assert not of(records, "lost") and not [r for r in records if r.get("unknown")]


@only_user
def test_a_folder_without_a_name(operator):
    """The kernel names no path over 4 KiB: the record says that it is not known, and every rule fits."""
    records, work = acts_of(operator, """
        os.chdir("/tmp")
        for i in range(20):
            os.mkdir("d" * 250); os.chdir("d" * 250)
        make("deep")
        """, rules=["{write: /nowhere, then: notify}", "{read: /nowhere, then: notify}"])
    unknown = [r for r in of(records, "file", act="create") if r.get("unknown")]
    assert sum(r["count"] for r in unknown) == 5
    assert all(r["path"].startswith("/tmp/ddd") and r["asked"] is True for r in unknown)
    assert "ddd" in fired(records, "write")[0]["of"]
    assert not fired(records, "read")


@only_user
def test_links_through_proc(operator):
    """Links of the agent's to links of /proc lead to the file that they do for the agent."""
    records, work = acts_of(operator, """
        os.makedirs("secret"); fd = os.open("secret", os.O_RDONLY)
        os.symlink("/proc/self/cwd/secret", "one"); make("one/a")
        os.symlink("../proc/../proc/thread-self/cwd", "/tmp/two"); make("/tmp/two/secret/b")
        os.symlink(f"/dev/fd/{fd}/c", "three"); make("three")
        os.symlink("/proc/%d/cwd/secret/d" % os.getpid(), "four"); make("four")
        make("/tmp/../proc/self/cwd/secret/e")
        make("secret/f"); os.link("one/f", "again")
        libc.linkat(-100, b"one/f", -100, b"followed", 0x400)
        os.symlink("secret/f", "direct")
        libc.linkat(-100, b"direct", -100, b"two-names", 0x400)
        make("/dev/stdout")
        """, rules=["{write: secret/f, then: notify}"])
    made = [r["path"] for r in of(records, "file", act="create")]
    for name in "abcdef":
        assert f"{work}/secret/{name}" in made, made
    assert [r for r in of(records, "file", act="link", to=f"{work}/two-names") if r["path"] == f"{work}/secret/f"]
    assert [r for r in fired(records, "secret") if "two-names" in r.get("of", "")]
    assert not [r for r in records if r.get("unknown")]


@only_user
def test_renamed_folders(operator):
    """A watched file gets another name if a folder above it does."""
    records, work = acts_of(operator, """
        home = os.path.expanduser("~")
        os.makedirs(home + "/.keys/all/of", exist_ok=True); make(home + "/.keys/all/of/them")
        os.rename(home + "/.keys", home + "/other")
        os.chdir(home); os.makedirs("a/b"); os.rename("a/b", "a/c"); os.rename("a/c", ".keys")
        """, rules=["{write: ~/.keys/all/of/them, then: notify}", "{write: '/**/b/deep', then: notify}"])
    found = [r["of"] for r in fired(records, "~/.keys")]
    assert len([of_ for of_ in found if of_.startswith("rename")]) == 2, found


@only_user
def test_paths_of_sockets(operator):
    records, work = acts_of(operator, """
        os.mkdir("run"); os.chdir("run")
        s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen()
        os.symlink("run/sock", "../link"); os.chdir("..")
        c = socket.socket(socket.AF_UNIX); c.connect("link")
        c = socket.socket(socket.AF_UNIX)
        try: c.connect("\\0abstract")
        except OSError: pass
        """, rules=["{connect: '/**/run/sock', then: notify}"])
    assert of(records, "net", act="bind", address=f"{work}/run/sock")
    assert of(records, "net", act="connect", address=f"{work}/run/sock")
    assert of(records, "net", act="connect", address="@abstract")
    assert fired(records, "connect")


@only_user
def test_connections(operator):
    """TCP Fast Open connects, too; and a socket that takes the place of another does not speak for it."""
    records, work = acts_of(operator, """
        listeners = [socket.create_server(("127.0.0.1", port)) for port in (4001, 4002, 4003, 4004)]
        one = socket.socket(); one.sendto(b"x", 0x20000000, ("127.0.0.1", 4001))
        two = socket.socket(); two.sendmsg([b"x"], [], 0x20000000, ("127.0.0.1", 4002))
        good = socket.create_connection(("127.0.0.1", 4003))
        bad = socket.socket(); bad.connect_ex(("127.0.0.2", 1))
        os.dup2(good.fileno(), bad.fileno())
        os.mkdir("settled")
        # A socket that has a peer says nothing about a call that fails.
        good.connect_ex(("127.0.0.3", 2))
        # Nothing is connected by this.
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect_ex(("", 0))
        libc.connect(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).fileno(), bytes(16), 16)
        # An address that cannot be read may yet be any.
        libc.connect(socket.socket().fileno(), ctypes.c_void_p(0x10000), 16)
        """, rules=["{connect: 10.0.0.0/8, then: notify}"])
    found = of(records, "net", act="connect")
    for port in (4001, 4002):
        one, = [r for r in found if r.get("port") == port]
        assert one["address"] == "127.0.0.1" and "asked" not in one
    assert [r["count"] for r in found if r.get("port") == 4003] == [1]
    for address in ("127.0.0.2", "127.0.0.3"):
        one, = [r for r in found if r.get("address") == address]
        assert one["asked"] is True
    unknown, = [r for r in found if r.get("unknown")]
    assert unknown["error"] == "EFAULT" and len(fired(records, "connect")) == 1


@only_user
def test_a_program_that_is_exchanged(operator):
    """Whatever was asked for: a record that is not marked has the program that ran, and where that is."""
    records, work = acts_of(operator, """
        import threading
        copy("/tmp/truest")
        names = [b"/usr/bin/true\\0", b"/tmp/./truest\\0"]
        for i in range(60):
            pid = os.fork()
            if pid == 0:
                at = ctypes.create_string_buffer(names[0], 16)
                def change():
                    while True:
                        ctypes.memmove(at, names[1], 14); ctypes.memmove(at, names[0], 14)
                threading.Thread(target=change, daemon=True).start()
                argv = (ctypes.c_char_p * 2)(b"raced", None)
                libc.execve(at, argv, None)
                os._exit(99)
            os.waitpid(pid, 0)
        """)
    ran = [r for r in of(records, "exec") if r["argv"] == ["raced"]]
    assert len(ran) == 60 and [r for r in ran if r["path"] == "/tmp/truest"]
    for r in ran:
        assert r.get("asked") or r.get("from") == {"/tmp/truest": "writable"}.get(r["path"]), r


# The kernel, too, may copy a word while it is written.
EXCHANGED = re.compile("[kg][eo][pn][te]")


@only_user
def test_arguments_that_are_exchanged(operator):
    """A record that is not marked has the arguments that the program got, also if it is a script."""
    records, work = acts_of(operator, """
        import threading
        with open("script", "w") as script:
            script.write("#!/bin/sh\\necho $1 >>ran")
        os.chmod("script", 0o700)
        for i in range(80):
            pid = os.fork()
            if pid == 0:
                word = ctypes.create_string_buffer(b"kept")
                def change():
                    while True:
                        ctypes.memmove(word, b"gone", 4); ctypes.memmove(word, b"kept", 4)
                threading.Thread(target=change, daemon=True).start()
                words = [b"sh", b"-c", b"echo $0 >>ran"] if i % 2 else [b"script"]
                argv = (ctypes.c_char_p * 5)(*words)
                argv[len(words)] = ctypes.cast(word, ctypes.c_char_p)
                ctypes.cast(argv, ctypes.POINTER(ctypes.c_void_p))[len(words)] = ctypes.addressof(word)
                libc.execve(b"/bin/sh" if i % 2 else b"script", argv, None)
                os._exit(99)
            os.waitpid(pid, 0)
        """)
    ran = (work / "ran").read_text().split()
    found = [r for r in of(records, "exec") if EXCHANGED.fullmatch(r["argv"][-1])]
    assert len(found) == len(ran) == 80 and set(ran) >= {"kept", "gone"}
    assert [r for r in found if "asked" not in r and "script" in r] and [r for r in found if "asked" not in r and "script" not in r]
    for r, word in zip(found, ran):
        assert r.get("asked") or r["argv"][-1] == word, (r, word)


@only_user
def test_nothing_has_an_empty_name(operator):
    """Calls without a path are about nothing, and neither is a program that cannot be started."""
    records, work = acts_of(operator, """
        os.makedirs("sub")
        os.chdir("sub")
        for call in ("rmdir", "unlink"):
            assert getattr(libc, call)(b"") == -1
        libc.open(b"", 1); libc.symlink(b"", b"link"); libc.rename(b"", b"new"); libc.chmod(b"", 0o700); libc.rename(b"x", b"")
        with open("script", "w") as script:
            script.write("#!/no/interpreter\\n")
        os.chmod("script", 0o700)
        run("script", "lonely")
        """)
    tried = [r for r in of(records, "file", error="ENOENT") if r.get("asked")]
    assert [r["act"] for r in tried] == ["remove", "write", "link", "rename", "mode", "rename"] and tried[0]["count"] == 2
    assert not [r for r in tried if "path" in r and r["act"] != "rename"]
    assert not of(records, "file", path=f"{work}/sub", act="remove") and not of(records, "file", path=f"{work}/sub", act="write")
    lonely, = [r for r in of(records, "exec") if r["argv"] == ["lonely"]]
    assert lonely["error"] == "ENOEXEC" and of(records, "cell.end")[0]["programs"] == 1


@only_user
def test_calls_that_a_policy_refuses(operator):
    records, work = acts_of(operator, """
        import errno
        def refused(number, *args):
            assert libc.syscall(number, *args) == -1 and ctypes.get_errno() == errno.EPERM, number
        def tried(do, *args):
            try:
                do(*args)
            except OSError as e:
                return e.errno
        assert tried(socket.socket) == tried(os.memfd_create, "x") == errno.EPERM
        assert tried(os.chmod, "script.py", 0o700) == errno.EPERM
        assert libc.ptrace(16, 1, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM     # PTRACE_ATTACH
        assert libc.ptrace(0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM      # PTRACE_TRACEME
        """, rules=["{refused: [socket, 'memfd_*'], then: notify}"],
        calls="syscalls: {deny: [network, ptrace, memfd_create, files-metadata]}")
    for call in ("socket", "memfd_create", "chmod", "ptrace"):
        one, = of(records, "refused", call=call)
        assert (one["error"], one["by"]) == ("EPERM", "filter") and one["pid"] > 1
    assert len(fired(records, "socket")) == 2
    assert of(records, "cell.end")[0]["refused"] == 4
