"""A state as real git sees it, and cells that have one."""
import json
import os
import subprocess

from operators import wait_until


class State:
    def __init__(self, operator, name):
        self.operator, self.name = operator, name
        self.folder = operator.base / "data" / "states" / name

    def git(self, *words):
        """Real git, as root: what it printed."""
        done = subprocess.run(["git", "-c", "safe.directory=*", f"--git-dir={self.folder / 'git'}", *words],
                              capture_output=True, env={"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nowhere"})
        assert done.returncode == 0, done
        return done.stdout.decode("utf-8", "surrogateescape")

    def head(self, branch="main"):
        return self.git("rev-parse", branch).strip()

    def files(self, branch="main"):
        """{path: text}, of one commit, also while the branch moves."""
        commit = self.head(branch)
        names = self.git("ls-tree", "-r", "-z", "--name-only", commit).split("\0")[:-1]
        return {name: self.git("show", f"{commit}:{name}") for name in names}

    def log(self, branch="main"):
        """The messages, newest first."""
        return self.git("log", "--format=%B%x00", branch).split("\0\n")[:-1]

    def check(self):
        self.git("fsck", "--strict", "--no-dangling")

    def branches(self):
        return sorted(self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split())


def events(operator, cell, kind="cell.state"):
    lines = operator.cloister("events", "--json", cell).ok().splitlines()
    return [event for event in map(json.loads, lines) if event["type"] == kind]


def saver_of(cell, operator):
    """The pid of a running cell's cloister-saver."""
    def find():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/exe").endswith("/cloister-saver") and \
                        any(cell in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")):
                    return int(pid)
            except OSError:
                continue
        return None
    return wait_until(find, "the saver is there")
