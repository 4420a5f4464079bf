"""What the programs in the kernel see of a process agrees with strace(1)."""
import collections
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from operators import BUILD, IS_ROOT

WATCH = BUILD / "tests/witness_watch"
pytestmark = pytest.mark.skipif(not IS_ROOT or not WATCH.exists() or not Path("/sys/kernel/btf/vmlinux").exists(),
                                reason="needs root and a kernel that describes its types")

# A compiler starts programs, which write files with random names; a script starts others.
WORK = """\
cd "$1" && cc -o hello hello.c && ./hello >out && cp out copy && ./script.sh two && sed -i s/e/o/ copy && rm hello
"""
SCRIPT = """#!/bin/sh
exec cat out >>copy
"""

# Loads a filter that refuses mkdir(2) and setsid(2), and meets it.
REFUSED = """\
import ctypes, os, struct
SYS = {sys}
libc = ctypes.CDLL(None, use_errno=True)
code = [(0x20, 0, 0, 0), (0x15, 1, 0, SYS["mkdirat"]), (0x15, 0, 1, SYS["setsid"]),
        (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
program = b"".join(struct.pack("HBBI", *line) for line in code)
keep = ctypes.create_string_buffer(program)
fprog = struct.pack("HxxxxxxP", len(code), ctypes.addressof(keep))
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, fprog) == 0
libc.syscall(SYS["setsid"])
libc.mkdirat(-100, b"new\\nline", 0o777)
os.setresuid(65534, 65534, 65534)
for path in ("/etc/shadow", "/proc/1/environ"):
    try:
        open(path)
    except OSError:
        pass
os._exit(7)
"""


def numbers():
    """The numbers of system calls by name."""
    macros = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-"], input="", capture_output=True,
                            text=True, check=True).stdout
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)$", macros, re.M)}


def watch(*command, options=(), status=0):
    done = subprocess.run([WATCH, *options, *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return acts_of(done.stdout.splitlines())


def acts_of(lines):
    acts = []
    for line in lines:
        if re.match(r"(exec|exit|file|net|refused|danger|calls|lost) pid=", line):
            kind, *words = line.split(" ")
            acts.append({"kind": kind, **dict(word.split("=", 1) for word in words if "=" in word),
                         "counts": dict(word.split(":") for word in words if re.fullmatch(r"\d+:\d+", word))})
    assert not [act for act in acts if act["kind"] == "lost"]
    return acts


def same(path):
    """A path, with the random part of a temporary file left out."""
    return re.sub(r"/(cc|sed)\w{6}\b", r"/\1", os.path.realpath(path))


@pytest.fixture
def work(tmp_path):
    (tmp_path / "hello.c").write_text('int puts(const char *); int main(void) { return puts("hello") < 0; }\n')
    (tmp_path / "script.sh").write_text(SCRIPT)
    (tmp_path / "script.sh").chmod(0o755)
    return tmp_path


def strace(work):
    """The programs that were executed, and the files that were opened to write, as strace sees them."""
    log = work / "strace"
    subprocess.run(["strace", "-f", "-y", "-s", "9999", "-e", "trace=execve,execveat,open,openat,creat", "-o", log,
                    "sh", "-c", WORK, "sh", work], check=True, capture_output=True, timeout=60)
    text = log.read_text()
    execs = re.findall(r'execve\("(.*?)", .* = 0$', text, re.M)
    writes = re.findall(r"open(?:at)?\(.*O_(?:WRONLY|RDWR).* = \d+<(.*)>$", text, re.M)
    return (collections.Counter(same(work / path) for path in execs),
            collections.Counter(same(path) for path in writes))


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_programs_and_files_as_strace_sees_them(work):
    acts = watch("sh", "-c", WORK, "sh", str(work))
    execs = collections.Counter(same(act.get("script") or act["path"]) for act in acts
                                if act["kind"] == "exec" and "error" not in act)
    writes = collections.Counter(same(act["path"]) for act in acts
                                 if act["kind"] == "file" and act["act"] in ("write", "create"))
    wanted_execs, wanted_writes = strace(work)
    assert sum(wanted_execs.values()) > 6 and sum(wanted_writes.values()) > 6
    assert execs == wanted_execs
    assert writes == wanted_writes
    # sed -i moves its copy over the file.
    assert [act["to"] for act in acts if act.get("act") == "rename"] == [f"{work}/copy"]
    ended = [act["pid"] for act in acts if act["kind"] == "exit"]
    assert len(set(ended)) == len(ended)
    assert {act["pid"] for act in acts} == set(ended)


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_counts_as_strace_counts(tmp_path):
    command = ["/usr/bin/find", "/usr/share/zoneinfo", "-name", "nothing"]
    log = tmp_path / "strace"
    subprocess.run(["strace", "-f", "-c", "-U", "calls,name", "-o", log, *command], check=True, timeout=60)
    wanted = {name: int(n) for n, name in re.findall(r"^ *(\d+) +(\w+)$", log.read_text(), re.M) if name != "total"}
    names = {str(number): name for name, number in numbers().items()}
    counts = collections.Counter()
    for act in watch(*command, options=["-f"]):
        if act["kind"] == "calls" and act["pid"] == "2":
            counts.update({names[nr]: int(n) for nr, n in act["counts"].items()})
    assert counts["getdents64"] > 10
    # A forked process calls it before it executes anything.
    counts["set_robust_list"] -= 1
    assert counts == wanted


def test_refused_calls(tmp_path):
    calls = numbers()
    script = tmp_path / "refused.py"
    script.write_text(REFUSED.format(sys=calls))
    acts = watch("/usr/bin/python3", "-B", str(script), status=7)
    refused = {(int(act["nr"]), act["by"], act.get("text"), act["error"]) for act in acts if act["kind"] == "refused"}
    assert (calls["setsid"], "0", None, "EPERM") in refused
    assert (calls["mkdirat"], "0", "new\\012line", "EPERM") in refused
    assert {(text, by, error) for _, by, text, error in refused} >= {
        ("/etc/shadow", "2", "EACCES"), ("/proc/1/environ", "2", "EACCES")}
    assert [act["status"] for act in acts if act["kind"] == "exit" and act["pid"] == "2"] == ["7"]
    assert [act for act in acts if act["kind"] == "danger" and int(act["nr"]) == calls["setresuid"]]


def test_many_cells_at_once_and_one_whose_witness_is_killed():
    """Each sees its own processes only, and nothing is lost, whatever becomes of the others."""
    command = ["sh", "-c", "read line; /bin/true; /bin/true"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started = [subprocess.Popen([WATCH, "-f", *command], text=True, **pipes) for _ in range(6)]
    killed = started.pop()
    # It has printed the program's start, so it watches.
    killed.stdin.close()
    assert killed.stdout.readline().startswith("exec ")
    killed.kill()
    killed.stdout.close()
    killed.wait()
    started.append(subprocess.Popen([WATCH, *command], text=True, **pipes))
    for one in started:
        lines = one.communicate("\n", timeout=60)[0].splitlines()
        assert one.returncode == 0
        seen = [re.search(r"path=(\S+)", line)[1] for line in lines if line.startswith("exec ") and "error" not in line]
        assert seen == [os.path.realpath(shutil.which("sh"))] + [os.path.realpath("/bin/true")] * 2
        assert not [line for line in lines if line.startswith("lost ")]


# Each line uses a name that leads elsewhere, and most have it gone before anyone could look.
LINKS = """\
import ctypes, os, sys
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def follow(old, new):
    assert libc.linkat(-100, old, -100, new, 0x400) == 0
os.symlink("secret", "l1"); os.chmod("l1/one", 0o600); os.remove("l1"); os.mkdir("l1")
os.symlink(os.path.abspath("secret/two"), "l2"); os.chmod("l2", 0o640); os.utime("l2"); os.remove("l2")
os.mkdir("d"); os.symlink("../secret", "d/l3"); os.rename("d", "e"); os.rename("e/l3/three", "e/l3/moved")
os.remove("e/l3"); os.rmdir("e")
os.symlink("secret/four", "l4"); follow(b"l4", b"hard"); os.link("l4", "copy", follow_symlinks=False); os.remove("l4")
os.truncate("copy", 0); os.remove("copy")
os.remove("there/five")
os.symlink("here", "l6"); os.symlink("secret", "here"); os.mkdir("l6/new"); os.remove("here"); os.remove("l6")
os.symlink("secret", "l7"); os.chmod("l7/../l7/seven", 0o600); os.remove("l7")
sys.stdin.read()        # links that were there before are looked up, and where is gone with the last process
"""


def test_names_that_lead_through_links(tmp_path):
    """The files that were changed are recorded, although the links are gone."""
    work = tmp_path / "work"
    secret = work / "secret"
    secret.mkdir(parents=True)
    for name in ("one", "two", "three", "four", "five", "seven"):
        (secret / name).write_text("x")
    (work / "there").symlink_to("secret")
    script = tmp_path / "links.py"
    script.write_text(LINKS)
    with subprocess.Popen([WATCH, "-f", "/usr/bin/python3", "-B", str(script), str(work)], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as watched:
        lines = []
        for line in watched.stdout:
            lines.append(line.rstrip("\n"))
            if f" act=remove path={work}/l7" in line:
                watched.stdin.close()
                break
        lines += watched.stdout.read().splitlines()
    assert watched.returncode == 0
    acts = {(act["act"], act["path"], act.get("to")) for act in acts_of(lines) if act["kind"] == "file"}
    wanted = {("mode", f"{secret}/one"), ("mode", f"{secret}/two"), ("times", f"{secret}/two"),
              ("write", f"{secret}/four"), ("remove", f"{secret}/five"), ("create", f"{secret}/new"),
              ("mode", f"{secret}/seven"), ("remove", f"{work}/l2"), ("remove", f"{work}/copy")}
    assert wanted <= {act[:2] for act in acts}
    assert ("rename", f"{secret}/three", f"{secret}/moved") in acts
    assert ("link", f"{secret}/four", f"{work}/hard") in acts
    assert not [act for act in acts if act[0] == "mode" and "/l" in act[1]]


SOCKETS = """\
import os, socket, sys
os.chdir(sys.argv[1])
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
port = server.getsockname()[1]
quick = socket.socket(); quick.setblocking(False)
try:
    quick.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port))
except BlockingIOError:
    pass
os.mkdir("d"); os.symlink("d", "l")
named = socket.socket(socket.AF_UNIX); named.bind("l/sock"); named.listen()
os.chdir("d")
client = socket.socket(socket.AF_UNIX); client.connect("sock")
try:
    socket.socket(socket.AF_UNIX).connect("none")
except FileNotFoundError:
    pass
print("port", port)
"""


def test_sockets(tmp_path):
    script = tmp_path / "sockets.py"
    script.write_text(SOCKETS)
    acts = [act for act in watch("/usr/bin/python3", "-B", str(script), str(tmp_path)) if act["kind"] == "net"]
    listened, = [act for act in acts if act["act"] == "listen" and act["family"] == "2"]
    assert listened["address"] == "7f000001" and listened["port"] == listened["local"] != "0"
    connected = [act for act in acts if act["act"] == "connect"]
    # By sending (TCP Fast Open).
    assert [act for act in connected if (act["address"], act["port"]) == ("7f000001", listened["port"])]
    assert [act["path"] for act in acts if act["act"] == "listen" and act["family"] == "1"] == [f"{tmp_path}/d/sock"]
    assert {act["path"] for act in connected if act["family"] == "1"} == {f"{tmp_path}/d/sock", f"{tmp_path}/d/none"}


# The filter ends the process at settimeofday(2), which does not return; two others only get the same signal.
KILLED = """\
import ctypes, os, signal, struct, time
nr = {nr}
libc = ctypes.CDLL(None, use_errno=True)
def in_child(act):
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    return pid
def forbidden():
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, nr), (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7fff0000)]
    program = b"".join(struct.pack("HBBI", *line) for line in code)
    keep = ctypes.create_string_buffer(program)
    libc.prctl(38, 1, 0, 0, 0)
    assert libc.prctl(22, 2, struct.pack("HxxxxxxP", len(code), ctypes.addressof(keep))) == 0
    libc.syscall(nr, 0, 0)
os.waitpid(in_child(forbidden), 0)
os.waitpid(in_child(lambda: os.kill(os.getpid(), signal.SIGSYS)), 0)
other = in_child(signal.pause)
os.kill(other, signal.SIGSYS)
os.waitpid(other, 0)
"""


def test_a_call_that_ends_its_process(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED.format(nr=numbers()["settimeofday"]))
    acts = watch("/usr/bin/python3", "-B", str(script))
    assert [(int(act["nr"]), act["pid"], act["by"]) for act in acts if act["kind"] == "refused"] == [
        (numbers()["settimeofday"], "3", "0")]
    assert [act["pid"] for act in acts if act["kind"] == "exit" and act.get("signal") == "31"] == ["3", "4", "5"]
