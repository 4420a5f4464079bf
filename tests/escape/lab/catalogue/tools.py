"""The gateway to an agent's MCP servers, should the agent or a server have taken over the half that reads what they send;
and what a server's own cell could reach."""
import hashlib
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
    try:
        return inject(w, [pid], word, arg, int(status_of(pid)["PPid"]))
    except NotRun as why:
        if "No such process" not in str(why):
            raise
    # On a busy machine it can end before it is held.
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


# ---- the lock ----

# Touches the file that its argument names, whichever tool is called; with a second argument, by a program of that path.
SERVER = """
import json, pathlib, subprocess, sys
tool = {"name": "touch", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), {}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
    if method == "tools/list":
        result = {"tools": [tool]}
    if method == "tools/call":
        try:
            if len(sys.argv) > 2:
                subprocess.run([sys.argv[2], sys.argv[1]])
            else:
                pathlib.Path(sys.argv[1]).write_text("called")
        except OSError:
            pass
        result = {"content": []}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "own.touch", "arguments": {}}}
PINNED = '{"inputSchema":{"type":"object"},"name":"touch"}'


def touches(w, tools, per, *program):
    """Whether a call of the server's tool changed its folder; TOOLS is a function of that folder: those of the lock."""
    folder, server_py = w.folder("made"), w.file(w.folder("work") / "server.py", SERVER)
    command = ["/usr/bin/python3", "-IB", str(server_py), str(folder / "called"), *program]
    server = {"command": command, "read": [str(server_py.parent)], "write": [str(folder)], "per": per}
    w.file(w.base / "tools.lock.yaml", json.dumps({"version": 1, "servers": {"own": {"tools": tools(folder)}}}))
    policy = w.file(w.base / "tools.yaml", json.dumps({"version": 1, "egress": [{"allow": "tool:own.**"}], "tools": {
        "lock": "tools.lock.yaml", "servers": {"own": server}}}))
    lines = w.file(w.base / "lines", "".join(json.dumps(line) + "\n" for line in (
        START, {"jsonrpc": "2.0", "method": "notifications/initialized"}, CALL)))
    inside = ["/run/cloister/cloister-tools"]
    if not w.control:
        w.box.need("helpers")
        command = [w.box.tool(w), "run", "-q", "-p", policy, "--", *inside]
    with open(lines, "rb") as stdin:
        cell = w.launch(command, "none", stdin=stdin)
    # The gateway starts the server for its list, and again for the call.
    if not cell.watch(cell.ended, 30):
        raise NotRun("it does not end: " + cell.tail())
    return (folder / "called").exists()


@probe("calls a tool that is not in the lock", group="helpers")
def tools_unlocked(w):
    # With `per: call`, the cell of such a call could not write either.
    return touches(w, lambda _: {"other": {"sha256": "0" * 64, "scope": {}}}, "session")


def touch(scope):
    return {"touch": {"sha256": hashlib.sha256(PINNED.encode()).hexdigest(), "scope": scope}}


@probe("has a server write what the scope of the called tool does not have", group="helpers")
def tools_scope(w):
    return touches(w, lambda _: touch({}), "call")


@probe("has a server start a program that the scope of the called tool does not list", group="helpers")
def tools_programs(w):
    return touches(w, lambda folder: touch({"write": [str(folder)], "programs": ["true"]}), "call", "/usr/bin/touch")
