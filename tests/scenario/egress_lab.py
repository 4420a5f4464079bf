"""The ground of the egress tests: an internet of their own, and cells that go out to it.

The whole of the operator's side runs in network and mount namespaces in which
addresses of the real internet are the loopback's (egress_world.py), so that nothing ever
leaves the machine, and cells see names, addresses and certificates as they would outside.
"""
import contextlib
import functools
import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

import leftovers
from egress_world import NPM
from operators import IS_ROOT, IS_STATIC, SECONDS, read_until, wait_until

HERE = Path(__file__).resolve().parent
NEEDED = ["nginx", "openssl", "curl", "ip", "nsenter", "unshare", "setpriv"]
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
CURL = ["curl", "-sS", "--max-time", "20"]
# What a client of the websockets library calls the fields that it adds.
WEBSOCKET = """
import asyncio, os, sys, websockets, websockets.version
FIELDS = "extra_headers" if int(websockets.version.version.split(".")[0]) < 14 else "additional_headers"
"""


def needs(*programs):
    """Skip unless all are installed where a cell sees them."""
    missing = [p for p in programs if shutil.which(p, path=PATH) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not under /usr: {', '.join(missing)}")


@functools.cache
def has_module(name):
    return subprocess.run(["/usr/bin/python3", "-Ic", f"import {name}"], check=False,
                          capture_output=True).returncode == 0


def needs_python(*modules):
    """Skip unless the system's Python has all of MODULES."""
    missing = [m for m in modules if not has_module(m)]
    return pytest.mark.skipif(bool(missing), reason=f"Python has no {', '.join(missing)}")


def needs_npm(program):
    """Skip unless `make npm` brought PROGRAM."""
    return pytest.mark.skipif(not (NPM / "node_modules/.bin" / program).exists(),
                              reason=f"{program} is not in build/npm: `make npm` brings it")


def needs_npm_module(module):
    """Skip unless `make npm` brought MODULE."""
    return pytest.mark.skipif(not (NPM / "node_modules" / module).exists(),
                              reason=f"{module} is not in build/npm: `make npm` brings it")


class Lab:
    """The world that runs, and what its servers saw."""

    def __init__(self, folder, env=None):
        self.folder = folder
        folder.mkdir()
        folder.chmod(0o755)
        for name in ("files", "git", "raw"):
            (folder / name).mkdir()
        # With its first process, all that it started dies.
        spaces = ["-n", "-m", "--propagation", "private", "-p", "--fork", "--kill-child"]
        # An ordinary user is root in a user namespace, and the cells' operator in it too.
        if not IS_ROOT:
            spaces += ["-U", "-r"]
        self.process = subprocess.Popen(
            ["unshare", *spaces, "/usr/bin/python3", "-B", str(HERE / "egress_world.py"),
             str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})})
        try:
            read_until(self.process.stdout.fileno(), b"ready\n")
        except AssertionError:
            self.close()
            raise
        spaces = ["--net", "--mount"] + ([] if IS_ROOT else ["--user", "--preserve-credentials"])
        self.enter = ["nsenter", f"--target={self.process.pid}", *spaces]

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    @contextlib.contextmanager
    def serve(self, program, *words):
        """A server of tests/scenario in this world that says when it is ready, with what it starts."""
        argv = [*self.enter, "unshare", "-p", "--fork", "--kill-child", "/usr/bin/python3", "-B",
                str(HERE / program), str(self.folder), *words]
        with open(self.folder / "servers.err", "ab") as log:
            server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        leftovers.LABS.append(server.pid)
        try:
            read_until(server.stdout.fileno(), b"ready\n")
            yield self
        finally:
            server.stdin.close()
            server.stdout.close()
            server.wait(SECONDS)
            leftovers.LABS.remove(server.pid)

    # ---- what can be had there ----------------------------------------------------
    def file(self, name, data):
        """A file of the web server's: https://www.example.test/NAME"""
        path = self.folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def raw(self, data):
        """Bytes that http://up.example.test/raw?name=... answers with; the address."""
        name = uuid.uuid4().hex
        (self.folder / "raw" / name).write_bytes(data)
        return f"/raw?name={name}"

    def judge(self, code, **constants):
        """Where up.example.test judges requests by CODE, which defines judge(method, url, fields,
        body): what it returns is told with 200, what it raises with 401.  The path of it."""
        name = uuid.uuid4().hex
        (self.folder / "judge").mkdir(exist_ok=True)
        (self.folder / "judge" / name).write_text(
            "".join(f"{key} = {value!r}\n" for key, value in constants.items()) + code)
        return f"/judge/{name}"

    def judgements(self, path):
        """The statuses of all requests that came there."""
        return [line["status"] for line in map(json.loads, self.seen(path))
                if line["server"] == "judge"]

    @property
    def ca(self):
        return self.folder / "keys/ca.crt"

    # ---- what the servers saw ------------------------------------------------------
    def lines(self, name):
        try:
            return (self.folder / name).read_text().splitlines()
        except FileNotFoundError:
            return []

    def seen(self, word):
        """The lines with WORD that any server wrote."""
        return [line for name in ("nginx.log", "seen.jsonl") for line in self.lines(name)
                if word in line]

    def asked(self, name):
        """The questions for NAME that reached the name server."""
        return [q["type"] for q in map(json.loads, self.lines("dns.jsonl")) if q["name"] == name]


@contextlib.contextmanager
def world(folder, **env):
    missing = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    lab = Lab(folder, env)
    leftovers.LABS.append(lab.process.pid)
    yield lab
    lab.close()


@pytest.fixture(scope="session")
def lab(ground):
    with world(ground / "world") as lab:
        yield lab


class Online:
    """An operator in the lab's world, and cells with a policy."""

    def __init__(self, operator, lab):
        self.operator, self.lab = operator, lab
        operator.enter(lab)

    def policy(self, text, name="policy.yaml"):
        """A policy file of the operator's; TEXT is the list under `egress:`, or all of it."""
        if "egress:" not in text:
            text = "version: 1\negress:\n" + text
        return self.operator.file(name, text)

    def run(self, rules, *words, options=(), **how):
        """A command in a cell that may do what RULES say; the cell's id is kept."""
        policy = rules if isinstance(rules, Path) else self.policy(rules)
        # The cell's own words come first, so that its events can be found afterwards; before them
        # there may be a hint.
        done = self.operator.run("-p", policy, *options, "--", "sh", "-c",
                                 'echo "$CLOISTER_CELL" >&2; exec "$@"', "sh", *words, **how)
        end, ours = ("\n", "cloister: ") if isinstance(done.err, str) else (b"\n", b"cloister: ")
        first, _, rest = done.err.partition(end)
        if first.startswith(ours):
            first, _, rest = rest.partition(end)
        assert len(first) == 8, done
        self.cell = first if isinstance(first, str) else first.decode()
        self.operator.kept.add(self.cell)
        done.err = rest
        return done

    def sh(self, rules, script, **how):
        return self.run(rules, "sh", "-c", script, **how)

    def python(self, rules, script, *words, **how):
        return self.run(rules, "/usr/bin/python3", "-c", script, *words, **how)

    def curl(self, rules, *words, **how):
        return self.run(rules, *CURL, *words, **how)

    def outside(self, *words, **how):
        """The same command without a cell, in the same world: a positive control."""
        return self.operator.do(*words, **how)

    def start(self, rules, *words, options=()):
        """A cell that goes on; its id."""
        policy = rules if isinstance(rules, Path) else self.policy(rules)
        self.cell = self.operator.detach("-p", policy, *options, "--", *words)
        return self.cell

    def inside(self, *words, **how):
        """Another command in the cell that was started."""
        return self.operator.cloister("exec", self.cell, "--", *words, **how)

    # ---- what was recorded -----------------------------------------------------------
    def events(self, **wanted):
        """The cell's events that have all of WANTED; of what is not asked for, decisions only."""
        told = self.operator.cloister("events", "--json", self.cell).ok()
        return [e for e in map(json.loads, told.splitlines())
                if all(e.get(key) == value for key, value in wanted.items()) and
                (wanted or ("verdict" in e and e["type"] != "cell"))]

    def refusal(self, **wanted):
        """The one refusal among the events."""
        found = [e for e in self.events(**wanted) if e.get("verdict", "allow") != "allow"]
        assert len(found) == 1, self.events()
        return found[0]


@pytest.fixture
def online(operator, lab):
    return Online(operator, lab)


def helpers_of(operator, cell):
    """The helpers of a cell's egress that run: {"gate": pid, ...}."""
    found = {}
    for pid in operator.pids(cell):
        try:
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            continue
        if name in ("cloister-gate", "cloister-courier", "cloister-inspect"):
            found[name.removeprefix("cloister-")] = pid
    return found


def memory_of(operator, cell, of=None):
    """The private memory of each helper of a cell, in bytes; nothing that could be judged if they
    are sanitized."""
    found = {}
    for name, pid in (of or helpers_of(operator, cell)).items():
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        found[name] = sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))
    return found if IS_STATIC else dict.fromkeys(found, 0)


def await_event(online, **wanted):
    return wait_until(lambda: online.events(**wanted), f"an event with {wanted}", SECONDS)[-1]

