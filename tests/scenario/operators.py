"""An operator: root, or an ordinary user, with a home, folders and cells of their own."""
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CLOISTER_BUILD", TREE / "build")).resolve()
CLOISTER = Path(os.environ.get("CLOISTER", BUILD / "cloister")).resolve()

# The sanitizers' programs want the host's libraries.
IS_STATIC = not CLOISTER.exists() or b"__asan_init" not in CLOISTER.read_bytes()
IS_ROOT = os.geteuid() == 0
# A number that nobody else on the machine is likely to be at the same time.
USER = 20000 + os.getpid() % 40000 if IS_ROOT else os.geteuid()

# How long anything may take before it is called broken: a bound, never a pause.
SECONDS = int(os.environ.get("CLOISTER_TEST_SECONDS", 60))

only_root = pytest.mark.parametrize("who", [pytest.param("root", marks=pytest.mark.skipif(
    not IS_ROOT, reason="only root can check this"))])
only_user = pytest.mark.parametrize("who", ["user"])
# For tests to which it does not matter.
as_one = pytest.mark.parametrize("who", ["root"] if IS_ROOT else ["user"])
# Also with walls that pass no descriptors: the mutant build's boundary `stream`.
over_stream_too = pytest.mark.parametrize("boundary", ["namespace", "stream"])


def wait_until(condition, what, seconds=SECONDS):
    """CONDITION's first true value."""
    end = time.monotonic() + seconds
    pause = 0.001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"still not so after {seconds} s: {what}")
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def text_of(data):
    return data.decode("utf-8", "surrogateescape")


@dataclass
class Result:
    """The exit status and the output of a program."""
    status: int
    out: str
    err: str

    def ok(self):
        """Its output, if it succeeded."""
        assert self.status == 0, self
        return self.out

    def sentence(self, *parts):
        """The one sentence with which cloister refused; each of PARTS is in it."""
        assert self.status == 125, self
        assert self.out == "", self
        assert self.err.startswith("cloister: ") and self.err.endswith("\n"), self
        assert self.err.count("\n") == 1, self
        for part in parts:
            assert str(part) in self.err, self
        return self.err[len("cloister: "):-1]


def read_until(fd, wanted, seconds=SECONDS):
    """Bytes from FD until they contain WANTED; AssertionError at the end of it."""
    data, end = b"", time.monotonic() + seconds
    while wanted not in data:
        ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
        more = os.read(fd, 65536) if ready else b""
        assert more, f"no {wanted!r} in {data!r}"
        data += more
    return data


def is_alive(pid):
    """Whether PID runs: a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def status_of(pid):
    """/proc/PID/status as a dictionary."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}


def children_of(pid):
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants_of(pid):
    found = []
    for child in children_of(pid):
        found += [child, *descendants_of(child)]
    return found


def is_witness(pid):
    """Whether it is cloister-witness, or its process that answers the kernel."""
    try:
        return Path(f"/proc/{pid}/comm").read_text() in ("cloister-witnes\n", "cloister-answer\n")
    except FileNotFoundError:
        return False


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Operator:
    def __init__(self, who, base, program):
        self.who = who
        self.is_root = who == "root"
        self.uid = self.gid = 0 if self.is_root else USER
        if not IS_ROOT:
            self.gid = os.getegid()
        self.base = base
        self.program = program
        self.processes = []
        self.shown_once = []
        self.kept = set()           # ids of cells of which something may be left
        self.lab = None             # the namespaces that everything is run in, if any
        self.groups = []            # beside the operator's own
        self.database = None        # the Postgres that has the registry, if it is not a file
        base.mkdir()
        base.chmod(0o711)
        for name in ("home", "runtime", "state", "xdg", "data"):
            self.folder(name).chmod(0o700)
        self.home, self.runtime, self.state = base / "home", base / "runtime", base / "state"
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(base / "xdg"),
            "CLOISTER_RUNTIME_DIR": str(self.runtime),
            "CLOISTER_STATE_DIR": str(self.state),
            "CLOISTER_DATA_DIR": str(self.base / "data"),
            # The host's own git has no name and must not look for one.
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        if "CLOISTER_OFF" in os.environ:        # of the mutants
            self.env["CLOISTER_OFF"] = os.environ["CLOISTER_OFF"]

    # ---- the operator's own files ------------------------------------------------
    def own(self, path):
        if IS_ROOT:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        return path

    def folder(self, name, files=None):
        """A folder of the operator's, with FILES: {relative path: text or bytes}."""
        path = self.base / name
        path.mkdir(parents=True, exist_ok=True)
        self.own(path)
        for file, data in (files or {}).items():
            self.file(Path(name) / file, data)
        return path

    def file(self, name, data=""):
        path = self.base / name
        for parent in reversed(path.relative_to(self.base).parents[:-1]):
            if not (self.base / parent).exists():
                self.folder(parent)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return self.own(path)

    # ---- processes ---------------------------------------------------------------
    def enter(self, lab):
        """Do everything in the namespaces of LAB from now on."""
        self.lab = lab
        self.becoming = [] if not IS_ROOT else [
            "setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "--"]

    def spawn(self, *argv, env=None, **how):
        """A process of the operator's; stopped at the test's end if it still runs."""
        how.setdefault("stdin", subprocess.DEVNULL)
        how.setdefault("cwd", self.home)
        if self.lab:
            argv = [*self.lab.enter, f"--wdns={how['cwd']}", "--", *self.becoming, *argv]
        elif IS_ROOT:
            how = {"user": self.uid, "group": self.gid, "extra_groups": self.groups, **how}
        process = subprocess.Popen([str(a) if isinstance(a, Path) else a for a in argv],
                                   env={**self.env, **(env or {})}, **how)
        self.processes.append(process)
        return process

    def do(self, *argv, input=None, seconds=SECONDS, binary=False, **how):
        """Run ARGV to its end."""
        if input is not None:
            how["stdin"] = subprocess.PIPE
            input = input.encode() if isinstance(input, str) else input
        process = self.spawn(*argv, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                                       **how})
        try:
            out, err = process.communicate(input, timeout=seconds)
        except subprocess.TimeoutExpired:
            for pid in [process.pid, *descendants_of(process.pid)]:
                end(pid)
            out, err = process.communicate()
            raise AssertionError(f"{argv} did not end in {seconds} s: {out!r} {err!r}") from None
        out, err = out or b"", err or b""
        if binary:
            return Result(process.returncode, out, err)
        return Result(process.returncode, text_of(out), self.put_aside(text_of(err)))

    def put_aside(self, err):
        """ERR without the messages that are shown only once: they would come with whichever command runs first."""
        lines = err.splitlines(keepends=True)
        self.shown_once += [line for line in lines if "shown only once" in line]
        return "".join(line for line in lines if "shown only once" not in line)

    def host(self, script, **how):
        """A shell script outside any cell; what it printed."""
        return self.do("/bin/sh", "-ec", script, **how).ok()

    # ---- cloister ----------------------------------------------------------------
    def cloister(self, *words, **how):
        return self.do(self.program, *words, **how)

    def run(self, *words, **how):
        return self.cloister("run", *words, **how)

    def sh(self, script, *options, **how):
        """A shell script in a cell."""
        return self.run(*options, "--", "sh", "-c", script, **how)

    def python(self, script, *options, **how):
        return self.run(*options, "--", "/usr/bin/python3", "-Ic", script, **how)

    def start(self, *words, **how):
        """`cloister run`, not waited for."""
        return self.spawn(self.program, "run", *words, **how)

    def detach(self, *words, **how):
        """`cloister run -d`: the cell's id."""
        told = self.run("-d", *words, **how).ok()
        assert re.fullmatch(r"[a-z0-9]{8}\n", told), told
        self.kept.add(told.strip())
        return told.strip()

    def change(self, workspace, script, *options, **how):
        """A script in an overlay workspace; the cell's id."""
        done = self.sh(f"echo $CLOISTER_CELL; {script}", "-q", "-w", workspace, *options, **how)
        assert done.status == 0 and done.err == "", done
        cell = done.out.split("\n")[0]
        self.kept.add(cell)
        return cell

    def cells(self, *options):
        """Running cells; with "-a", ended ones of which more than the events is left, too."""
        return [c for c in json.loads(self.cloister("ps", "--json", *options).ok()) if c.get("kept", True)]

    def cell(self, id):
        """The entry of a running cell in `ps`; None if it does not run."""
        return next((c for c in self.cells() if c["cell"] == id), None)

    def pids(self, id):
        """Everything that runs for a cell, but what records it; the supervisor first."""
        supervisor = self.cell(id)["supervisor"]
        return [supervisor, *(pid for pid in descendants_of(supervisor) if not is_witness(pid))]

    def names(self, folder):
        """The names in FOLDER, except the list of folders that agents could write, the timelines of ended cells, and the
        empty folder of copies of MCP servers, which stay."""
        try:
            return sorted(name for name in os.listdir(folder)
                          if name not in ("writable", "believed", "ended", "profiles")
                          and (name != "tools" or os.listdir(Path(folder) / name)))
        except FileNotFoundError:
            return []

    def running(self):
        """The runtime folder's entries: one for each cell that runs or that crashed."""
        return [name for name in self.names(self.runtime)
                if name not in ("slots", "warm", "serve.sock", "agents.sock") and not name.startswith("told")]

    # ---- the end -----------------------------------------------------------------
    def close(self):
        """End what still runs."""
        for process in self.processes:
            if process.poll() is None and process.stdin:
                process.stdin.close()
        if self.running():
            self.cloister("kill", "--all")
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()


def copy_programs(to, program=CLOISTER):
    """A copy that everybody may run, and that no build changes meanwhile."""
    beside = program.parent / "libexec"
    if not beside.is_dir():
        return program              # installed
    shutil.copytree(beside, to / "libexec")
    shutil.copy2(program, to / "cloister")
    for path in [to, to / "libexec", to / "cloister", *(to / "libexec").iterdir()]:
        path.chmod(0o755)
    return to / "cloister"


def copy_mutant(ground):
    """The mutant build's programs, whose controls CLOISTER_OFF switches off, in GROUND."""
    if not IS_STATIC:
        pytest.skip("the mutant build is made of the plain one")
    if not (BUILD / "mutant" / "cloister").exists():
        subprocess.run(["make", "-C", TREE, "mutant"], check=True, stdout=subprocess.DEVNULL)
    (ground / "mutant").mkdir(exist_ok=True)
    if (ground / "mutant" / "cloister").exists():
        return ground / "mutant" / "cloister"
    return copy_programs(ground / "mutant", BUILD / "mutant" / "cloister")
