"""Cells in containers of OCI runtimes: the promises of any cell, kept by a runtime that has no rights outside it.

`make test-oci` runs the scenarios of other boundaries over them too."""
import json
import os
import signal

import pytest

import oci
import test_egress_ssh
from dispatches import agent, all_of, dispatch, policy, show
from leftovers import cgroups
from operators import is_alive, wait_until
from terminal import Terminal
from test_capture import SERVE
from test_egress_ssh import HOST, RULES, SSH, fingerprint, servers, world  # noqa: F401  fixtures

# Most runtimes are like crun.
UNLIKE = ["crun", "runsc"]
LOOK = """
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(os.getuid(), os.uname().nodename, os.getcwd(), int(status["CapBnd"], 16) | int(status["CapEff"], 16),
      int(status["Seccomp"]), os.getppid() == 1)
for path in ("/x", "/etc/x", "/usr/x", "/run/x"):
    try:
        os.mkdir(path)
    except OSError as e:
        print(e.errno in (13, 30))
for path in ("/tmp/x", "/var/tmp/x", "/home/agent/x", "/dev/shm/x"):
    os.mkdir(path)
print(sorted(set(os.listdir("/")) - set("bin sbin lib lib32 lib64 libx32".split())))
import ctypes
print(ctypes.CDLL(None).unshare(0x10000000))
"""
SEEN = """1000 cell /home/agent 0 2 True
True
True
True
True
['dev', 'etc', 'home', 'proc', 'run', 'sys', 'tmp', 'usr', 'var']
-1
"""
NAMES = """
import socket
try:
    socket.getaddrinfo("denied.example", 80)
except socket.gaierror as e:
    print(e.errno == socket.EAI_NONAME)
try:
    socket.create_connection(("192.0.2.9", 81), 10).recv(1)
except OSError as e:
    print("refused")
"""
# A client of SERVE: prints how much arrived there, or that nobody listens.
TALK = """
import socket, sys
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        s.sendall(bytes(300000) + b".")
        print(s.makefile("rb").read().decode().split(" ")[0] or "closed")
except ConnectionError:
    print("closed")
"""


@pytest.fixture
def runtime(request, operator):
    operator.env |= oci.environment(request.param)
    return request.param


def boot(operator, id):
    """What the cell was granted."""
    return json.loads(operator.cloister("events", "--json", id).ok().splitlines()[0])["grant"]


def sandboxed(runtime):
    return "gvisor" if runtime == "runsc" else "oci"


@pytest.mark.parametrize("runtime", oci.RUNTIMES, indirect=True)
def test_promises_of_any_cell(operator, runtime):
    assert operator.python(LOOK).ok() == SEEN
    assert operator.sh("cat; echo to >&2; exit 7", input="here").status == 7


@pytest.mark.parametrize("runtime", UNLIKE, indirect=True)
def test_names_and_refusals(operator, runtime):
    id = operator.detach("--keep", "--allow", "a.example", "--", "/usr/bin/python3", "-Ic", NAMES)
    operator.cloister("wait", id).ok()
    assert operator.cloister("logs", id).ok() == "True\nrefused\n"
    events = [json.loads(line) for line in operator.cloister("events", "--json", id).ok().splitlines()]
    assert [e.get("verdict") for e in events].count("deny") == 2
    assert "192.0.2.9" in json.dumps(events)
    granted = boot(operator, id)
    assert (granted["boundary"], os.path.basename(granted["runtime"])) == (sandboxed(runtime), runtime)
    operator.cloister("discard", id).ok()


@pytest.mark.parametrize("runtime", UNLIKE, indirect=True)
def test_changes_of_a_workspace(operator, runtime):
    workspace = operator.folder("workspace", {"old": "1\n", "gone": "1\n"})
    id = operator.change(workspace, "echo 2 >old; rm gone; mkdir d; echo 3 >d/new")
    assert (workspace / "old").read_text() == "1\n"
    said = operator.cloister("diff", id).ok()
    assert "+2" in said and "d/new" in said
    operator.cloister("apply", id).ok()
    assert (workspace / "old").read_text() == "2\n" and (workspace / "d/new").read_text() == "3\n"
    assert not (workspace / "gone").exists()


@pytest.mark.parametrize("runtime", UNLIKE, indirect=True)
def test_grants_stay_as_they_were_given(operator, runtime):
    read, write = operator.folder("read", {"f": "1"}), operator.folder("write")
    said = operator.sh("cat /r/f; echo 2 >/r/f || echo read-only; echo 3 >/w/f", "-v", f"{read}:/r:ro", "-v",
                       f"{write}:/w")
    assert said.out == "1read-only\n" and (read / "f").read_text() == "1"
    assert (write / "f").read_text() == "3\n" and (write / "f").stat().st_uid == operator.uid


@pytest.mark.parametrize("runtime", ["crun", "runc"], indirect=True)
def test_the_root_is_read_only_and_quiet(operator, runtime):
    """crun mounts it again, read-only and without the other flags."""
    (flags,) = (line.split()[5] for line in operator.run("--", "cat", "/proc/self/mountinfo").ok().splitlines()
                if line.split()[4] == "/")
    assert {"ro", *(["nosuid", "nodev"] if runtime == "runc" else [])} <= set(flags.split(",")), flags


@pytest.mark.parametrize("runtime", UNLIKE, indirect=True)
def test_terminal_and_exec(operator, runtime):
    terminal = Terminal(operator, operator.program, "run", "-q", "--", "sh", "-c", "tty; stty size; read x; echo got $x")
    terminal.expect("/dev/pts/[0-9]+\r\n24 80")
    terminal.type("word\n")
    terminal.expect("got word")
    assert terminal.end() == 0
    terminal.close()
    id = operator.detach("--", "sleep", "1000")
    assert operator.cloister("exec", id, "sh", "-c", "id -u; exit 3").status == 3
    operator.cloister("kill", id).ok()


@pytest.mark.parametrize("runtime", UNLIKE, indirect=True)
def test_frozen_and_killed_without_its_supervisor(operator, runtime):
    id = operator.detach("--", "sleep", "1000")
    pids = operator.pids(id)
    if operator.is_root:
        operator.cloister("freeze", id).ok()
        assert operator.cell(id)["state"] == "frozen"
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in pids[1:]) or operator.is_root, "everything is dead")
    operator.run("--", "true").ok()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "everything is dead")
    assert cgroups({id}) == set() and operator.running() == []


@pytest.mark.parametrize("runtime", UNLIKE, indirect=True)
@pytest.mark.parametrize("who", [pytest.param(who, marks=test_egress_ssh.pytestmark) for who in ("root", "user")])
def test_published_ports_and_the_ssh_agent(world, runtime):  # noqa: F811
    """Both come over init's stream; the server checks the signature."""
    world.give()
    operator = world.operator
    id = operator.detach("-p", world.online.policy(RULES), "-s", "KEY", "--publish", "8000", "--publish", "8001", "--",
                         "/usr/bin/python3", "-Ic", SERVE, "::1", "8000")
    operator.kept.add(id)
    wait_until(lambda: "ready" in operator.cloister("logs", id).out, "the server is ready")
    served, closed = (port["host"] for port in operator.cell(id)["ports"])
    assert operator.do("/usr/bin/python3", "-Ic", TALK, str(served)).ok() == "300001\n"
    assert operator.do("/usr/bin/python3", "-Ic", TALK, str(closed)).ok() == "closed\n"
    script = f'ssh-add -l; {SSH} {HOST} "id -un"; rm -f $SSH_AUTH_SOCK || echo kept'
    said = operator.cloister("exec", id, "--", "sh", "-c", script).ok().splitlines()
    # gVisor has no Landlock: there, an agent can remove its own socket.
    assert fingerprint(world.key) in said[0] and said[1:] == ["git", *(["kept"] if runtime == "crun" else [])]
    assert world.up.said("Accepted publickey for git", fingerprint(world.key))


# ---- the runtime -----------------------------------------------------------------

def fake(operator, script):
    path = operator.file("own/runtime", "#!/bin/sh\ntest \"$1\" = --version && exit\n" + script)
    path.chmod(0o755)
    return str(path)


def test_a_runtime_has_nothing_of_the_host(operator):
    """It is root of the cell, and sees programs, the cell's tree and a network in which every way leads to the gate."""
    script = "echo `id -u` `find /home /root /etc /mnt /srv /opt -mindepth 1 2>/dev/null | grep -vc agent` `grep -c ' / /[a-z]* .* ext4 ' /proc/self/mountinfo` " \
             "`ls -d /cell/usr` `ls /proc | grep -c '^[0-9]'` >&2; exit 1"
    said = operator.run("--boundary", "oci", "--runtime", fake(operator, script), "--", "true").sentence("the runtime")
    assert said.startswith("the runtime could not make the cell's container: 0 0 0 /cell/usr ")
    assert int(said.split()[-1]) < 9


@pytest.mark.parametrize("script,why", [
    ("exit 3", "it ended with 3"),
    ("echo 'time=\"x\" level=error msg=\"no such thing\"' >&2; exit 1", "the cell's container: no such thing"),
    ("echo 1 >/run/pid; exit 0", "named no process"),
    ("test $3 = create && sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/run/pid; exit 0", "made no container"),
])
def test_a_runtime_that_fails(operator, script, why):
    operator.run("--boundary", "oci", "--runtime", fake(operator, script), "--", "true").sentence(why)


@pytest.mark.parametrize("options,why", [
    (["--boundary", "oci", "--runtime", "cardboard"], "the OCI runtime 'cardboard' is not installed"),
    (["--boundary", "oci", "--runtime", "/no/such"], "cannot run the OCI runtime '/no/such'"),
    (["--runtime", "crun"], "--runtime needs --boundary oci or gvisor"),
    (["--boundary", "gvisor", "--runtime", "crun"], "the boundary 'gvisor' needs the runtime runsc"),
    (["--boundary", "oci", "--runtime", "crun", "--profile", "nested"], "--profile nested"),
])
def test_what_cannot_be_is_refused(operator, options, why):
    oci.find("crun")
    operator.run(*options, "--", "true").sentence(why)


@pytest.mark.parametrize("demand,options,gets", [
    ("gvisor", ["--boundary", "oci", "--runtime", "crun"], None),
    ("gvisor", ["--boundary", "oci", "--runtime", "runsc"], "gvisor"),
    ("oci", [], "oci"),
    ("oci", ["--boundary", "namespace"], None),
    ("namespace", ["--boundary", "oci", "--runtime", "crun"], "oci"),
])
def test_a_policy_demands_a_strength(operator, demand, options, gets):
    for name in ("crun", "runsc"):
        oci.find(name)
    file = operator.file("p.yaml", f"version: 1\nboundary: {demand}\negress: []\n")
    if gets is None:
        operator.run("-p", file, *options, "--", "true").sentence("which is weaker than the policy's")
        return
    id = operator.detach("-p", file, *options, "--", "sleep", "1000")
    assert operator.cell(id)["boundary"] == gets
    operator.cloister("kill", id).ok()


# ---- the sources of a runtime ----------------------------------------------------------

@pytest.mark.parametrize("asked,demanded,gets", [
    (["--boundary", "oci"], "crun", "crun"),
    ([], "runc", "runc"),
    (["--boundary", "oci", "--runtime", "crun"], "runc", None),
    # It is gVisor, though the policy calls it a runtime like others; and gVisor is stronger than what it demands.
    ([], "runsc", "runsc"),
    (["--boundary", "gvisor"], "crun", "runsc"),
])
def test_a_policy_demands_a_runtime(operator, asked, demanded, gets):
    for name in oci.RUNTIMES:
        oci.find(name)
    file = operator.file("p.yaml", f"version: 1\nboundary: oci\nruntime: {demanded}\n")
    if gets is None:
        operator.run("-p", file, *asked, "--", "true").sentence(
            f"--runtime asks for the OCI runtime '{asked[-1]}', and the policy demands '{demanded}'")
        return
    id = operator.detach("-p", file, *asked, "--", "sleep", "1000")
    cell = operator.cell(id)
    assert (cell["boundary"], os.path.basename(cell["runtime"])) == (sandboxed(gets), gets)
    operator.cloister("kill", id).ok()


def test_a_policys_program_is_not_run_outside_of_the_cell(operator):
    """A policy may come with a project: unlike that of an option, its runtime is not asked what it is."""
    ran = operator.folder("own") / "ran"
    path = operator.file("own/other", f"#!/bin/sh\ntouch {ran}; exit 3\n")
    path.chmod(0o755)
    file = operator.file("p.yaml", f"version: 1\nboundary: oci\nruntime: {path}\n")
    operator.run("-p", file, "--", "true").sentence("the runtime could not make the cell's container")
    assert not ran.exists()
    operator.run("--boundary", "oci", "--runtime", path, "--", "true").sentence("the runtime could not make")
    assert ran.exists()


def test_a_document_names_its_runtime(operator):
    oci.find("crun")
    text = operator.run("--boundary", "oci", "--runtime", "crun", "--print-doc", "--", "sleep", "1000").ok()
    doc = json.loads(text)
    assert (doc["boundary"], doc["runtime"]) == ("oci", "crun")
    operator.env["CLOISTER_RUNTIME"] = "runc"
    id = operator.detach("--doc", operator.file("doc.json", text))
    assert os.path.basename(operator.cell(id)["runtime"]) == "crun"
    operator.cloister("kill", id).ok()
    for change, why in [({"boundary": "microvm"}, "a runtime needs the boundary oci or gvisor"), ({"runtime": "./crun"}, "absolute path"),
                        ({"policy": {"name": "p", "text": "version: 1\nboundary: oci\nruntime: runc\n"}},
                         "the document asks for the OCI runtime 'crun', and the policy demands 'runc'")]:
        operator.run("--doc", operator.file("doc.json", json.dumps(doc | change))).sentence(why)
    operator.run("--runtime", "crun", "--print-doc", "--", "true").sentence("--runtime needs --boundary oci or gvisor")


def test_a_registered_agent_names_its_runtime(operator):
    oci.find("crun")
    agent(operator, "contained", "cat /proc/1/cmdline", boundary="oci", runtime="crun")
    agent(operator, "other", "true", boundary="oci", runtime="runc", policy="strict")
    policy(operator, "strict", boundary="oci", runtime="crun")
    # The first process there is the init that the runtime started.
    assert dispatch(operator, "contained").ok().startswith("/run/cloister-init\0")
    (one,) = all_of(operator)
    shown = show(operator, one["id"])
    assert (shown["resolved"]["boundary"], shown["resolved"]["runtime"]) == ("oci", "crun")
    assert os.path.basename(boot(operator, shown["cell"])["runtime"]) == "crun"
    dispatch(operator, "other").sentence("the agent 'other' asks for the OCI runtime 'runc', and the policy demands 'crun'")
    bad = operator.file("bad.yaml", json.dumps({"name": "bad", "boundary": "microvm", "runtime": "crun"}))
    operator.cloister("agent", "register", bad).sentence("a runtime needs the boundary oci or gvisor")


@pytest.mark.parametrize("text,why", [
    ("boundary: microvm\nruntime: crun\n", "a runtime needs the boundary oci or gvisor beside it"),
    ("runtime: crun\n", "a runtime needs the boundary oci or gvisor beside it"),
    ("boundary: gvisor\nruntime: crun\n", "the boundary 'gvisor' needs the runtime runsc"),
    ("boundary: oci\nruntime: bin/crun\n", "absolute path"),
])
def test_policy_check_looks_at_the_runtime(operator, text, why):
    said = operator.cloister("policy", "check", operator.file("p.yaml", "version: 1\n" + text))
    assert said.status == 1 and why in said.out + said.err, said
    operator.cloister("policy", "check", operator.file("p.yaml", "version: 1\nboundary: oci\nruntime: crun\n")).ok()
