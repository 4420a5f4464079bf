"""A real Postgres on a socket of its own, with a database for each operator."""
import atexit
import contextlib
import glob
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import clocks
import leftovers
from operators import IS_ROOT, children_of, end, wait_until

PROGRAMS = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1:]
NOBODY = 65534
numbers = itertools.count(1)


class Postgres:
    """A cluster without a password: its socket is in a folder of the test run's.  With HAS_CLOCK, a test sets its clock."""

    def __init__(self, programs, has_clock=False):
        self.programs, self.folder = Path(programs), Path(tempfile.mkdtemp(prefix="cloister-store-"))
        self.process, self.clock = None, clocks.Clock(self.folder / "clock") if has_clock else None
        if IS_ROOT:
            os.chown(self.folder, NOBODY, NOBODY)
            # Operators of tests are other users.
            self.folder.chmod(0o711)
        self.run("initdb", "-D", self.folder / "data", "-A", "trust", "-U", "cloister", "--no-sync", "--locale=C.UTF-8")
        self.start()

    def command(self, program, *words):
        # Postgres does not run as root.
        nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if IS_ROOT else []
        lies = ["env", *(f"{name}={value}" for name, value in self.clock.env.items())] if self.clock else []
        return [*nobody, *lies, str(self.programs / program), *map(str, words)]

    def run(self, program, *words):
        return subprocess.run(self.command(program, *words), check=True, cwd=self.folder, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self.command("postgres", "-D", self.folder / "data", "-k", self.folder, "-c", "listen_addresses=",
                             "-c", "fsync=off", "-c", "max_connections=200"),
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        leftovers.LABS.append(self.process.pid)
        wait_until(lambda: subprocess.run(self.command("pg_isready", "-q", "-h", self.folder), check=False,
                                          cwd=self.folder).returncode == 0, "Postgres answers")

    def kill(self):
        """As by `kill -9`: every process of it is gone."""
        children = children_of(self.process.pid)
        self.process.kill()
        for pid in children:
            end(pid)
        self.process.wait()

    def url(self, database, user="cloister"):
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def ask(self, database, sql):
        """Its rows, each a list of texts."""
        out = self.run("psql", "-h", self.folder, "-U", "cloister", "-d", database, "-X", "-A", "-t", "-c", sql)
        return [line.split("|") for line in out.splitlines()]

    @contextlib.contextmanager
    def holding(self, database, sql):
        """Another client, which has done SQL and stays."""
        client = subprocess.Popen(self.command("psql", "-h", self.folder, "-U", "cloister", "-d", database, "-X", "-q"),
                                  cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        try:
            client.stdin.write(sql + ";\n\\echo done\n")
            client.stdin.flush()
            while "done" not in client.stdout.readline():
                assert client.poll() is None, "psql ended"
            yield
        finally:
            client.communicate()

    def new(self):
        """The name of a new database."""
        name = f"store{os.getpid()}_{next(numbers)}"
        self.ask("postgres", f"CREATE DATABASE {name}")
        return name

    def close(self):
        self.process.send_signal(signal.SIGINT)         # without waiting for others to leave
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.clock is not None:
            clocks.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


_shared = []


def shared():
    """One for all tests of this process; None: it is not installed."""
    if not _shared and PROGRAMS:
        _shared.append(Postgres(PROGRAMS[0]))
        atexit.register(_shared[0].close)
    return _shared[0] if _shared else None
