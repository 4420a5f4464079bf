"""The processes outside that serve a cell with a policy, should the agent have taken them over.

A debugger outside makes each of them do what its captor would."""
import os
import pathlib
import signal
import socket
import subprocess

from ..cell import NotRun, status_of
from ..verdict import probe

# A body that somebody has to look into, so that all three are there.
BODY = ("POST / HTTP/1.1\r\nHost: front.test\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n"
        "Connection: close\r\n\r\nx")
ALL = ("gate", "courier", "inspect")


def descend_from(pid):
    """Processes that PID started, or those that it started."""
    children = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                children.setdefault(int(status_of(entry.name)["PPid"]), []).append(int(entry.name))
            except OSError:
                continue
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def helpers(w, names=ALL):
    """The pids of the helpers NAMES; without a box, the pid of an ordinary process."""
    w.need_root("look into processes that hide")
    if w.control:
        return [w.victim()[0]]
    w.box.need("helpers")
    cell = w.spawn_speaker([["talk", "front.test", 80, BODY], ["hold", 30]])
    if not cell.watch(lambda: cell.said("held") or cell.ended(), 20) or cell.ended():
        raise NotRun("nothing was looked into: " + cell.tail())
    exes = {}
    for pid in descend_from(cell.process.pid):
        try:
            exes[os.path.basename(os.readlink(f"/proc/{pid}/exe"))] = pid
        except OSError:
            continue
    if not all(f"cloister-{name}" in exes for name in names):
        raise NotRun(f"only {sorted(exes)} run")
    return [exes[f"cloister-{name}"] for name in names]


def results(w, names, word, arg):
    """The result of the call in each of them, or "died"."""
    pids = helpers(w, names)
    # One that dies is the others' end, unless nobody notices.
    return inject(w, pids, word, arg, int(status_of(pids[0])["PPid"]))


def inject(w, pids, word, arg, starter):
    """The result of the call in each of PIDS, or "died"; STARTER does not notice."""
    if not w.control:
        os.kill(starter, signal.SIGSTOP)
    try:
        done = subprocess.run([w.lab.host, "inject", word, str(arg), *map(str, pids)], capture_output=True,
                              text=True, timeout=10, check=False)
    finally:
        if not w.control:
            os.kill(starter, signal.SIGCONT)
    if done.returncode != 0:
        raise NotRun(done.stderr)
    return done.stdout.split()


def succeeded(said):
    return any(r != "died" and int(r) >= 0 for r in said)


@probe("opens a file of the host's from a gate, courier or inspector that was taken over")
def taken_open(w):
    path, _ = w.secret()
    return succeeded(results(w, ALL, "open", path))


@probe("runs a program from a gate, courier or inspector that was taken over")
def taken_exec(w):
    return succeeded(results(w, ALL, "exec", "/bin/true"))


@probe("connects to the host from a gate or an inspector that was taken over")
def taken_connect(w):
    port = w.listen(socket.AF_INET, ("127.0.0.1", 0), w.token()).getsockname()[1]
    return succeeded(results(w, ("gate", "inspect"), "connect", port))


@probe("signals another process from a gate, courier or inspector that was taken over")
def taken_signal(w):
    pid, _, _ = w.victim()
    results(w, ALL, "kill", pid)
    return w.hears(b"signalled")


@probe("shares a namespace with the host, as a gate, courier or inspector")
def helper_namespaces(w):
    def shares(pid, kind):
        return os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")
    pids = helpers(w)
    dials = pids[ALL.index("courier")] if not w.control else None
    return any(shares(pid, kind) for pid in pids for kind in ("user", "mnt", "ipc", "uts", "net")
               if not (kind == "net" and pid == dials))


@probe("has a capability, as a gate, courier or inspector", control="root")
def helper_capabilities(w):
    return any(int(status_of(pid)[f"Cap{kind}"], 16) for pid in helpers(w) for kind in ("Prm", "Eff", "Amb"))


@probe("may gain privileges or ask the kernel anything, as a gate, courier or inspector")
def helper_filter(w):
    states = [status_of(pid) for pid in helpers(w)]
    return any(s["NoNewPrivs"].strip() == "0" or s["Seccomp"].strip() != "2" for s in states)


@probe("is the host's root, as a gate, courier or inspector", who=("root",))
def helper_uid(w):
    return any("0" in status_of(pid)["Uid"].split() for pid in helpers(w))


@probe("sees files of the host's, as a gate, courier or inspector")
def helper_files(w):
    path, _ = w.secret()
    return any(pathlib.Path(f"/proc/{pid}/root{path}").exists() for pid in helpers(w))
