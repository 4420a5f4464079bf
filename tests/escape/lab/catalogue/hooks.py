"""Hooks: the operator's own programs and services that judge requests, outside of the cell."""
import json
import subprocess

from ..cell import NotRun
from ..verdict import probe
from .egress import arrived, get

# Answers every question with VERDICT, notes its pid in the file "pid", and signals in "signalled".
PROGRAM = """#!/usr/bin/python3 -IB
import json, os, pathlib, signal, sys
there = pathlib.Path({folder!r})
signal.signal(signal.SIGURG, lambda *_: there.joinpath("signalled").write_text("yes"))
there.joinpath("pid").write_text(str(os.getpid()) + chr(10))
for line in sys.stdin:
    print(json.dumps(dict(id=json.loads(line)["id"], verdict={verdict!r})), flush=True)
"""
# Serves the socket as the operator's service would, and notes what it is asked.
SERVICE = """
import json, pathlib, socketserver
class Judge(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            pathlib.Path({folder!r}, "asked").write_bytes(line)
            self.wfile.write(json.dumps(dict(id=json.loads(line)["id"], verdict="allow")).encode() + b"\\n")
server = socketserver.ThreadingUnixStreamServer({folder!r} + "/sock", Judge)
pathlib.Path({folder!r}, "serves").write_text("yes")
server.serve_forever()
"""
ASK = ["talk", "front.test", 80, get("front.test")]


def set_hook(w, call):
    """Cells of W have a rule with this hook, and no other rule."""
    rule = {"allow": "front.test", "hook": str(call)}
    w.policy = w.file(w.base / "hooked.yaml", json.dumps({"version": 1, "egress": [rule]}))


def make_program(w, verdict):
    folder = w.folder("notes")
    return folder, w.file(w.folder("work") / "hook", PROGRAM.format(folder=str(folder), verdict=verdict), 0o755)


def other_cell(w, folder, *argv):
    """A cell of the same operator that was granted FOLDER runs ARGV; outside, ARGV just runs."""
    inside = [] if w.control else [w.box.tool(w), "run", "-q", "--no-policy", "-v", f"{folder}:{folder}", "--"]
    return w.launch([*inside, *argv], "none")


def await_file(cell, path, seconds=10):
    return cell.watch(path.exists, seconds)


@probe("sends a request that a hook denies", group="egress")
def hook_denied(w):
    if not w.control:
        set_hook(w, make_program(w, "deny")[1])
    return arrived(w, [ASK], lambda entry: True)


@probe("signals the program of a hook", group="helpers")
def hook_process(w):
    w.box.need("helpers")
    folder, program = make_program(w, "allow")
    set_hook(w, program)
    # Outside, somebody else starts the program and keeps its input open.
    if w.control:
        caller = w.launch([program], "none", stdin=subprocess.PIPE)
    else:
        caller = w.spawn_speaker([ASK, ["hold", 30]])
    # The file is there before its text is.
    pid = folder / "pid"
    if not caller.watch(lambda: pid.exists() and pid.read_text().endswith("\n"), 10):
        raise NotRun("the hook was not started: " + caller.tail())
    w.run("signal", int(pid.read_text()))
    return await_file(caller, folder / "signalled", 0.5)


@probe("has its own program run in the place of a hook's, outside", group="helpers")
def hook_program(w):
    """It was granted the folder after the other cell had started with the hook."""
    w.box.need("helpers")
    folder, program = make_program(w, "allow")
    set_hook(w, program)
    ran = w.folder("outside") / "ran"
    held = None if w.control else w.spawn_speaker([["hold", 4], ASK, ["hold", 30]])
    if held is not None and not held.watch(lambda: held.said("held") or held.ended(), 10):
        raise NotRun("the cell did not start: " + held.tail())
    script = f"printf '#!/bin/sh\\ntouch {ran}\\n' > {program}; echo @ready >&2"
    other_cell(w, program.parent, "sh", "-c", script).finish().check()
    if "touch" not in program.read_text():
        raise NotRun("it could not write the program")
    if (folder / "pid").exists():
        raise NotRun("the hook was asked before that")
    if w.control:
        held = w.launch([program], "none")
    return await_file(held, ran, 8)


@probe("serves the socket of a hook itself, and answers", group="helpers", who=("user",))
def hook_socket(w):
    """It was granted the folder after the other cell had started with the hook."""
    w.box.need("helpers")
    folder = w.folder("work")
    set_hook(w, f"unix:{folder}/sock")
    held = None if w.control else w.spawn_speaker([["hold", 2], ASK] * 3 + [["hold", 30]])
    if held is not None and not held.watch(lambda: held.said("held") or held.ended(), 10):
        raise NotRun("the cell did not start: " + held.tail())
    server = other_cell(w, folder, "/usr/bin/python3", "-IB", "-c", SERVICE.format(folder=str(folder)))
    if not await_file(server, folder / "serves"):
        raise NotRun("nobody serves the socket: " + server.tail())
    if w.control:
        script = f"import socket; s = socket.socket(1); s.connect('{folder}/sock'); s.send(b'{{\"id\": 1}}\\n'); s.recv(9)"
        held = w.launch(["/usr/bin/python3", "-IB", "-c", script], "none")
    return await_file(held, folder / "asked", 8)
