"""A place to measure in: a copy of the product that any user can read, the small
helpers compiled, users with folders of their own, and nothing left of it after.

Every cell started here is registered in the lab's own runtime folders, so that
`kill --all` at the end never touches anybody else's."""
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent
ORDINARY_UID = 12345
SEP = "::"                      # what separates spawn_loop's commands
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


class NoProduct(Exception):
    """There is nothing to measure."""


class Who:
    """Somebody who starts cells."""

    def __init__(self, name, uid, gid, top, memory, change):
        self.name, self.uid, self.gid = name, uid, gid
        self.top = top / name
        self.home, self.state = self.top / "home", self.top / "state"
        # In memory, as /run is.
        self.runtime = memory / name
        for folder in (self.top, self.home, self.state, self.runtime):
            folder.mkdir()
            folder.chmod(0o700)
            os.chown(folder, uid, gid)
        self.env = {
            "PATH": PATH, "HOME": str(self.home), "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.home),
            "CLOISTER_RUNTIME_DIR": str(self.runtime),
            "CLOISTER_STATE_DIR": str(self.state),
            "CLOISTER_DATA_DIR": str(self.top / "data"),
        }
        self.becoming = {"user": uid, "group": gid, "extra_groups": []} if change else {}

    def popen(self, argv, **more):
        more = {"stdin": subprocess.DEVNULL, "env": self.env, "cwd": self.home} | more
        return subprocess.Popen([str(a) for a in argv], **self.becoming, **more)

    def run(self, argv, timeout=120, **more):
        """Both streams captured as text; never raises for a status."""
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | more
        proc = self.popen(argv, start_new_session=True, **more)
        try:
            out, err = proc.communicate(timeout=timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(proc.pid, signal.SIGKILL)
            proc.wait()
            raise
        return subprocess.CompletedProcess(argv, proc.returncode, out, err)


class Lab:
    """with Lab() as lab: ...   `users` is the ordinary one, then root if we are."""

    def __init__(self, prefix, helpers=()):
        self.build = Path(os.environ.get("CLOISTER_BUILD", TREE / "build")).resolve()
        self.prefix, self.helpers = prefix, helpers

    def __enter__(self):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, lambda n, _: sys.exit(128 + n))
        # A shell's background job ignores these, and its children would too.
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        # On a disk rather than in a /tmp that may be a tmpfs: as real work is.
        self.top = Path(tempfile.mkdtemp(prefix=self.prefix, dir="/var/tmp"))
        self.memory = Path(tempfile.mkdtemp(prefix=self.prefix, dir="/dev/shm"))
        try:
            for folder in (self.top, self.memory):
                folder.chmod(0o755)
            self.bin = self.top / "bin"
            self.bin.mkdir()
            self._copy_product()
            self._compile_helpers()
            self._make_users()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, signal.SIG_IGN)
        self.kill_all()
        self._remove()

    def kill_all(self):
        for who in self.users:
            with contextlib.suppress(subprocess.TimeoutExpired):
                who.run([self.cloister, "kill", "--all"], timeout=30)

    def _remove(self):
        def unlock(function, path, _):
            # A cell may leave folders without permission in its changes.
            os.chmod(os.path.dirname(path), 0o700)
            os.chmod(path, 0o700)
            function(path)

        for folder in (self.top, self.memory):
            try:
                shutil.rmtree(folder, onerror=unlock)
            except OSError as e:
                print(f"cannot remove {folder}: {e}", file=sys.stderr)

    def _copy_product(self):
        if not (self.build / "cloister").exists():
            raise NoProduct(f"{self.build / 'cloister'} is missing: run make first")
        self.cloister = self.bin / "cloister"
        shutil.copy2(self.build / "cloister", self.cloister)
        shutil.copytree(self.build / "libexec", self.bin / "libexec",
                        ignore=lambda _, names: [n for n in names if "." in n])
        for path in [self.cloister, self.bin / "libexec", *(self.bin / "libexec").iterdir()]:
            path.chmod(0o755)

    def _compile_helpers(self):
        for name in self.helpers:
            # Static, so that the same file runs in any cell.
            subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=gnu17", "-O2", "-static",
                            "-o", self.bin / name, HERE / f"{name}.c"], check=True)

    def _make_users(self):
        root = os.geteuid() == 0
        uid = ORDINARY_UID if root else os.geteuid()
        places = self.top, self.memory
        self.user = Who("user", uid, uid if root else os.getegid(), *places, root)
        self.root = Who("root", 0, 0, *places, False) if root else None
        self.users = [w for w in (self.user, self.root) if w]


def busy_share(seconds=0.5):
    """The share of all CPUs' time that was used, from 0 to 1, over the next while."""
    def read():
        with open("/proc/stat") as f:
            times = [int(word) for word in f.readline().split()[1:9]]
        return sum(times), times[3] + times[4]

    total, idle = read()
    time.sleep(seconds)
    total_after, idle_after = read()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def await_quiet(seconds=20, share=0.1):
    """Until nothing else uses the CPUs: what the kernel still takes down of cells that
    ended before counts too.  False if that moment did not come."""
    end = time.monotonic() + seconds
    while busy_share() > share:
        if time.monotonic() > end:
            return False
    return True


def processes():
    """{pid: parent} of everything."""
    tree = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as f:
                tree[int(name)] = int(f.read().rpartition(b")")[2].split()[1])
    return tree


def descendants(pid, tree):
    """PID and all beneath it, parents first."""
    children = {}
    for child, parent in tree.items():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for p in found:
        found += children.get(p, [])
    return found


def private_bytes(pid):
    """The memory that only PID has; None if we may not look."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f
                       if line.startswith(("Private_Clean", "Private_Dirty")))
    except OSError:
        return None
