"""The gateway to an agent's MCP servers, should the agent or a server have taken over the half that reads what they send;
and what a server's own cell could reach."""
import json
import os
import pathlib
import socket

from ..cell import NotRun, status_of
from ..verdict import probe
from .helpers import descend_from, inject, succeeded

WORKER = b"cloister-tools-worker"
# Asks the worker for its tools, so that the server runs.
ASK = ("POST /mcp HTTP/1.1\r\nHost: tools.cloister.internal\r\nContent-Type: application/json\r\nConnection: close\r\n"
       "Content-Length: {}\r\n{}\r\n{}")
START = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}


def words_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def worker(w):
    """The pid of the worker; without a box, of an ordinary process."""
    w.need_root("look into processes that hide")
    if w.control:
        return w.victim()[0]
    w.box.need("helpers")
    server = {"command": ["/usr/bin/sleep", "1000"]}
    w.policy = w.file(w.base / "tools.yaml", json.dumps({"version": 1, "tools": {"servers": {"own": server}},
                                                         "egress": [{"allow": "tool:own.**"}]}))
    text = json.dumps(START)
    cell = w.spawn_speaker([["talk", "tools.cloister.internal", 80, ASK.format(len(text), "", text)], ["hold", 30]])
    if not cell.watch(lambda: cell.said("held") or cell.ended(), 20) or cell.ended():
        raise NotRun("the gateway was not asked: " + cell.tail())
    found = [pid for pid in descend_from(cell.process.pid) if words_of(pid)[0] == WORKER]
    if len(found) != 1:
        raise NotRun(f"{len(found)} workers run")
    return found[0]


def result(w, word, arg):
    """The result of a call in the worker.  It stays, and so does its keeper, which is stopped meanwhile."""
    pid = worker(w)
    return inject(w, [pid], word, arg, int(status_of(pid)["PPid"]))


@probe("opens a file of the host's from the worker of the tools' gateway", group="helpers")
def tools_open(w):
    path, _ = w.secret()
    return succeeded(result(w, "open", path))


@probe("runs a program from the worker of the tools' gateway", group="helpers")
def tools_exec(w):
    return succeeded(result(w, "exec", "/bin/true"))


@probe("connects to the host from the worker of the tools' gateway", group="helpers")
def tools_connect(w):
    port = w.listen(socket.AF_INET, ("127.0.0.1", 0), w.token()).getsockname()[1]
    return succeeded(result(w, "connect", port))


@probe("signals another process from the worker of the tools' gateway", group="helpers")
def tools_signal(w):
    pid, _, _ = w.victim()
    result(w, "kill", pid)
    return w.hears(b"signalled")


@probe("sees files of the host's, shares a namespace, or has a right, as the worker of the tools' gateway", group="helpers")
def tools_walls(w):
    path, _ = w.secret()
    pid = worker(w)
    status = status_of(pid)
    shared = any(os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")
                 for kind in ("user", "mnt", "ipc", "uts", "net"))
    return (pathlib.Path(f"/proc/{pid}/root{path}").exists() or shared or status["NoNewPrivs"].strip() == "0" or
            status["Seccomp"].strip() != "2" or any(int(status[f"Cap{kind}"], 16) for kind in ("Prm", "Eff", "Amb")))
