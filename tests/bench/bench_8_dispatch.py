"""Dispatches through the service: how soon the agent runs, and how many go through in a second."""
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time

from bench import Samples, Unmeasured, group
from lab import await_quiet


class Client(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self.path))

    def ask(self, method, path, body=None):
        self.request(method, path, json.dumps(body) if body is not None else None,
                     {"Content-Type": "application/json"} if body is not None else {})
        answer = self.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise Unmeasured(f"{method} {path}: {answer.status} {data[:300]!r}")
        return data


@contextlib.contextmanager
def service(lab, who, *options):
    """A client of a service of WHO's."""
    process = who.popen([lab.cloister, "serve", *options], stderr=subprocess.PIPE)
    path = who.runtime / "serve.sock"
    end = time.monotonic() + 20
    try:
        while not path.exists() or process.poll() is not None:
            if process.poll() is not None or time.monotonic() > end:
                raise Unmeasured(f"serve: {process.communicate()[1]!r}")
            time.sleep(0.01)
        yield Client(path)
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def stamp(mark):
    """When the agent said that it ran; the file is gone then."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError, ValueError):
            when = int(mark.read_text())
            mark.unlink()
            return when
        time.sleep(0.0005)
    raise Unmeasured("the agent did not run")


def until_over(client, n, pause):
    """Until N dispatches are over; how many of them finished."""
    while True:
        text = client.ask("GET", "/metrics").decode()
        counts = {line.split('"')[1]: int(line.split()[-1]) for line in text.splitlines()
                  if line.startswith("cloister_dispatches{")}
        over = sum(counts[s] for s in ("finished", "failed", "cancelled", "timed_out"))
        if over >= n:
            return counts["finished"]
        time.sleep(pause)


# Python copies all of itself to start a program as somebody else, a millisecond that nobody else pays.
STARTER = """import subprocess, sys, time
for line in sys.stdin:
    begin = time.time_ns()
    print(begin, subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL), flush=True)"""


class Starter:
    """Starts COMMAND as WHO again and again."""

    def __init__(self, who, command):
        self.process = who.popen(["python3", "-c", STARTER, *command], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def start(self):
        """When it began, once it is over."""
        print(file=self.process.stdin, flush=True)
        begin, status = map(int, self.process.stdout.readline().split())
        if status != 0:
            raise Unmeasured("run failed")
        return begin

    def close(self):
        self.process.communicate()


def first_instruction(lab, who, report, client):
    folder = who.home / "first"
    folder.mkdir()
    shutil.copy2(lab.bin / "stamp", folder / "stamp")
    for path in (folder, folder / "stamp"):
        os.chown(path, who.uid, who.gid)
    mark = folder / "mark"
    command = [str(folder / "stamp"), str(mark)]
    client.ask("POST", "/v1/agents", {"name": "first", "command": command,
                                      "workspace": {"mode": "rw", "path": str(folder)}})
    ours, direct, done = Samples(), Samples(), 0
    starter = Starter(who, [lab.cloister, "run", "-q", "-w", f"{folder}:rw", "--", *command])
    for i in range(report.pick(200, 20) + 3):
        begin = time.time_ns()
        client.ask("POST", "/v1/dispatches", {"agent": "first"})
        took = (stamp(mark) - begin) / 1e6
        done += 1
        until_over(client, done, 0.005)
        begin = starter.start()
        plain = (stamp(mark) - begin) / 1e6
        if i >= 3:
            ours.append(took)
            direct.append(plain)
    starter.close()
    report.row(f"dispatch to the first instruction ({who.name})", ours.median, "ms", ours.spread,
               "cloister run", direct.median, "ratio <= 1.5")
    return done


def submit(paths, n, body):
    """N dispatches by a client of its own at each of PATHS, all at once."""
    failures = []

    def one(path):
        with contextlib.closing(Client(path)) as client:
            try:
                for _ in range(n):
                    client.ask("POST", "/v1/dispatches", body)
            except (Unmeasured, OSError) as e:
                failures.append(str(e))
    threads = [threading.Thread(target=one, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Unmeasured(failures[0])


def sustained(lab, who, report, client, before):
    total, clients = report.pick(1000, 96), 8
    client.ask("POST", "/v1/agents", {"name": "nothing", "command": ["true"]})
    await_quiet()
    begin = time.monotonic()
    submit([client.path] * clients, total // clients, {"agent": "nothing"})
    finished = until_over(client, before + total, 0.1)
    took = time.monotonic() - begin
    if finished != before + total:
        raise Unmeasured(f"{finished} of {before + total} finished")
    report.row(f"dispatches a second, all of it ({who.name})", total / took, "/s", bar="value >= 100")


@group("dispatch")
def dispatch(lab, report):
    for who in lab.users:
        with service(lab, who) as client:
            done = first_instruction(lab, who, report, client)
            sustained(lab, who, report, client, done)
