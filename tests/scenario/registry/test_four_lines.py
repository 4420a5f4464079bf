"""The four lines that people know from elsewhere: an agent is registered, dispatched and awaited, with a root that has
nothing of the host's.  A row of TARGETS is a place where that must work."""
import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import engines
import images
from dispatches import agent, all_of, await_over, await_state, capability, detach, dispatch, events, register, show
from operators import TREE
from service import Service

NODE = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")
IMAGE = "tiny:1"
# Where it runs, and with which image; "" is cloister's own.
TARGETS = [("local", ""), ("local", IMAGE), ("docker", ""), ("docker", IMAGE)]
PROGRAMS = {
    "javascript": ("four_lines.mjs", [NODE], "target: 'local', workerImage: ''", "target: '{}', workerImage: '{}'"),
    "python": ("four_lines.py", [sys.executable], "target='local', worker_image=''", "target='{}', worker_image='{}'"),
}
HELLO = "#!/bin/sh\necho hello from agora-worker\n"


@pytest.fixture
def image(operator):
    """An image with a shell, in the operator's store."""
    return images.Store(operator).add("docker.io/library/" + IMAGE, images.busybox())


@pytest.mark.parametrize("target, name", TARGETS, ids=["-".join(filter(None, row)) for row in TARGETS])
@pytest.mark.parametrize("language", [
    pytest.param("javascript", marks=pytest.mark.skipif(NODE is None, reason="there is no node")), "python"])
def test_four_lines(operator, engines_of, image, language, target, name):
    if target == "docker" and operator.is_root:
        engine = engines_of("docker")
        engine.take(IMAGE)
        operator.env["DOCKER_HOST"] = f"unix://{engine.socket}"
    elif target == "docker":
        pytest.skip("the engine is root's")
    if target == "docker" and len(engines.KINDS) == 1 and (language, name) != ("javascript", ""):
        pytest.skip("`make test-docker` has it")
    file, words, said, given = PROGRAMS[language]
    shutil.copytree(TREE / "clients", operator.base / "clients",
                    ignore=shutil.ignore_patterns("node_modules", "__pycache__", ".pytest_cache"))
    text = (TREE / "tests/scenario" / file).read_text()
    assert said in text
    text = text.replace(said, given.format(target, name))
    service = Service(operator)
    done = operator.do(*words, operator.file(file, text), cwd=operator.base,
                       env={"PYTHONPATH": str(operator.base / "clients/python")})
    assert service.stop() == 0, service.log()
    hash = r"sha256:[0-9a-f]{64}"
    assert re.fullmatch("\n".join([
        "=== resolved ===",
        rf'\{{"subagent":\{{"name":"echo","contentHash":"{hash}"\}},'
        rf'"capabilities":\[\{{"name":"echo-cap","contentHash":"{hash}"\}}\],'
        rf'"env":\[\{{"name":"minimal","contentHash":"{hash}"\}}\]\}}',
        "=== stdout ===",
        r'\{"kind":"worker\.boot",.*\}',
        re.escape(r'{"kind":"setup-script.ran","exitCode":0,"stdout":"hello from agora-worker\n"}'),
        re.escape('{"kind":"dispatch.finished","exitCode":0}'), ""]), done.ok()), done.out


# ---- types

# Of node's own types, the client's mention one.
BUFFER = "declare class Buffer extends Uint8Array {}\n"
CHECKERS = {
    "typescript": (["four_lines_types.ts", "sandbox_types.ts"],
                   ["tsc", "--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--target", "es2022",
                    "--module", "es2022", "--moduleResolution", "node", "--lib", "es2022,dom", "four_lines_types.ts",
                    "sandbox_types.ts", "node.d.ts"],
                   [NODE, "four_lines_types.js", "sandbox_types.js"]),
    "mypy": (["four_lines_types.py", "sandbox_types.py"],
             ["mypy", "--strict", "--no-warn-return-any", "--cache-dir=/dev/null", "four_lines_types.py", "sandbox_types.py"],
             [sys.executable, "four_lines_types.py", "sandbox_types.py"]),
}


@pytest.mark.parametrize("checker", [pytest.param(name, marks=pytest.mark.skipif(
    shutil.which(words[0]) is None or run[0] is None, reason=f"there is no {words[0]}"))
    for name, (_, words, run) in CHECKERS.items()])
def test_types(operator, checker):
    """A program that uses every shape of the four lines passes the check of its types, and its types are true."""
    files, check, (program, *runs) = CHECKERS[checker]
    if not operator.is_root and os.geteuid() == 0:
        pytest.skip("a compiler does not mind who runs it")
    shutil.copytree(TREE / "clients", operator.base / "clients",
                    ignore=shutil.ignore_patterns("node_modules", "__pycache__", ".pytest_cache"))
    operator.file("node.d.ts", BUFFER)
    operator.file("package.json", '{"type": "module"}')
    for file in files:
        operator.file(file, (TREE / "tests/scenario" / file).read_text())
    found = {"cwd": operator.base, "env": {name: str(operator.base / "clients/python") for name in ("PYTHONPATH", "MYPYPATH")}}
    checked = operator.do(*check, **found)
    assert checked.status == 0, checked.out + checked.err
    operator.cloister("secret", "add", "KEY", "--host", "a.example", input="s3cret\n").ok()
    service = Service(operator)
    for run in runs:
        assert operator.do(program, run, **found).ok() == "ok\n"
    assert service.stop() == 0, service.log()


# ---- set-up

def test_setups_run_in_order(operator):
    """agora-setup.sh, then setup.sh, of each capability; an empty one counts as run."""
    capability(operator, "b", {"setup.sh": "#!/bin/sh\necho b2; echo oops >&2\n", "agora-setup.sh": "#!/bin/sh\necho b1\n"})
    capability(operator, "a", {"agora-setup.sh": "", "setup.sh": "#!/bin/sh\necho a2\n"})
    agent(operator, "x", "echo agent; echo error >&2", capabilities=["b", "a"])
    assert dispatch(operator, "x").ok() == "b1\nb2\na2\nagent\n"
    told = events(operator, all_of(operator)[0]["id"])
    assert [(e["path"], e["exitCode"], e["stdout"], e["stderr"]) for e in told if e["kind"] == "setup-script.ran"] == [
        ("/capabilities/b/agora-setup.sh", 0, "b1\n", ""), ("/capabilities/b/setup.sh", 0, "b2\n", "oops\n"),
        ("/capabilities/a/agora-setup.sh", 0, "", ""), ("/capabilities/a/setup.sh", 0, "a2\n", "")]
    # No event has both a set-up's output and the agent's.
    assert [e["text"] for e in told if e["kind"] == "agent.output" and e["offset"] >= 9] == ["agent\n"]


def test_output_of_a_setup_is_whole_and_its_own(operator):
    """What it printed just before it ended belongs to it; bytes that are no text, and what is too long, are told."""
    capability(operator, "c", {"setup.sh": r"#!/bin/sh" "\n" r"printf 'a\377\0b'; head -c 100000 /dev/zero | tr '\0' x" "\n"})
    agent(operator, "x", "echo agent", capabilities=["c"])
    dispatch(operator, "x").ok()
    (ran,) = [e for e in events(operator, all_of(operator)[0]["id"]) if e["kind"] == "setup-script.ran"]
    assert ran["stdout"] == "a��b" + "x" * (65536 - 4) and ran["stdout_cut"] is True and ran["stdout_to"] == 100004


def test_an_agent_without_a_command(operator):
    """It ends after its set-up, with 0; and so does one without any."""
    capability(operator, "c", {"setup.sh": "#!/bin/sh\necho done >/out/file\n"})
    register(operator, "agent", "two", capabilities=["c"])
    register(operator, "agent", "none")
    assert dispatch(operator, "two").ok() == dispatch(operator, "none").ok() == ""
    one, two = all_of(operator)
    assert operator.cloister("dispatches", "files", two["id"], "file").ok() == "done\n"
    assert [e["kind"] for e in events(operator, one["id"])][2:] == ["worker.boot", "dispatch.finished"]
    assert events(operator, one["id"])[-1]["exitCode"] == 0


def test_a_setup_that_fails(operator):
    capability(operator, "c", {"agora-setup.sh": "#!/bin/sh\necho half; exit 3\n"})
    register(operator, "agent", "x", capabilities=["c"])
    assert dispatch(operator, "x").status == 125
    told = events(operator, all_of(operator)[0]["id"])
    assert [(e["exitCode"], e["stdout"]) for e in told if e["kind"] == "setup-script.ran"] == [(3, "half\n")]
    assert told[-1]["exitCode"] is None and told[-1]["state"] == "failed"


# ---- roots

HOSTS = "/usr/bin/python3"                # a program that only the host has
LOOK = f"""#!/bin/sh
ls /capabilities
[ ! -e {HOSTS} ] || echo {HOSTS}
echo "$LOG_LEVEL"
cat /proc/self/mountinfo
"""


def test_nothing_of_the_host(operator, image):
    """With an image, and with cloister's own root, a cell has the granted files and the granted env."""
    capability(operator, "c", {"agora-setup.sh": LOOK})
    register(operator, "env", "e", values={"LOG_LEVEL": "info"})
    register(operator, "agent", "x", capabilities=["c"])
    for name in "", IMAGE:
        said = dispatch(operator, "x", "--env", "e", "--image", name).ok()
        assert said.startswith("c\ninfo\n"), said
        places = [line.split()[4] for line in said.splitlines()[2:]]
        assert "/capabilities/c" in places and "/out" in places
        assert not [p for p in places if p.startswith(("/usr", "/etc", "/lib", "/opt", "/bin"))], places
    roots = [show(operator, d["id"])["resolved"] for d in all_of(operator)]
    assert [r["image"]["name"] for r in roots] == ["docker.io/library/" + IMAGE, "cloister.internal/minimal:latest"]
    assert roots[0]["image"]["digest"] == image and roots[1]["root"] == "minimal"


@pytest.mark.parametrize("root, said", [
    ("host", "host"), ("none", "capability"), ("minimal", "busybox"), ({"image": IMAGE}, "busybox"),
    ("image:" + IMAGE, "busybox"), ({"capability": "root"}, "capability"), ("capability:root", "capability")])
def test_registered_roots(operator, image, root, said):
    shell = Path(shutil.which("busybox")).read_bytes()
    capability(operator, "root", {"bin/sh": shell})
    capability(operator, "tools", {"sh": shell})
    script = f"if [ -e {HOSTS} ]; then echo host; elif [ -e /bin/busybox ]; then echo busybox; else echo capability; fi"
    command = ["/capabilities/tools/sh" if root == "none" else "/bin/sh", "-c", script]
    for file in "capability-root/bin/sh", "capability-tools/sh":
        (operator.base / file).chmod(0o755)
        operator.cloister("capability", "register", operator.base / file.split("/")[0]).ok()
    register(operator, "agent", "x", capabilities=["tools"], root=root, command=command)
    assert dispatch(operator, "x").ok() == said + "\n"


def test_wrong_roots(operator):
    for root in "debian:12", {"image": ""}, {"image": "a b"}, {"capability": "A"}, {"image": "a", "capability": "b"}, [], 7:
        file = operator.file("x.yaml", json.dumps({"name": "x", "root": root}))
        operator.cloister("agent", "register", file).sentence("x.yaml:1")
    register(operator, "agent", "x", root={"capability": "missing"})
    dispatch(operator, "x").sentence("missing")


def test_an_unknown_target_is_refused_at_once(operator):
    agent(operator, "x", "true")
    dispatch(operator, "x", "--target", "moon").sentence("no target 'moon'", "local")
    assert all_of(operator) == []


# ---- grants for one dispatch

def test_grants_of_one_dispatch(operator):
    granted = capability(operator, "c", {"f": "granted\n"})
    capability(operator, "d", {"f": "other\n"})
    agent(operator, "x", "cat /capabilities/*/f 2>/dev/null; true", grantable={"capabilities": ["c"]})
    agent(operator, "closed", "true")
    assert dispatch(operator, "x", "--capability", "c").ok() == "granted\n"
    resolved = show(operator, all_of(operator)[0]["id"])["resolved"]
    assert resolved["granted"] == {"capabilities": ["c"], "secrets": []}
    assert [c["hash"] for c in resolved["capabilities"]] == [granted]
    assert dispatch(operator, "x").ok() == ""
    dispatch(operator, "x", "--capability", "d").sentence("the capability 'd' cannot be granted to the agent 'x'")
    dispatch(operator, "closed", "--capability", "c").sentence("cannot be granted to the agent 'closed'", "grantable")
    dispatch(operator, "x", "--secret", "KEY").sentence("the secret 'KEY' cannot be granted")
    assert len(all_of(operator)) == 2


def test_a_granted_version(operator):
    """A bare name in `grantable` is the newest version; an agent's own capability needs no permission."""
    old = capability(operator, "c", {"f": "1"})
    new = capability(operator, "c", {"f": "2"})
    agent(operator, "newest", "true", grantable={"capabilities": ["c"]})
    agent(operator, "pinned", "true", grantable={"capabilities": ["c@" + old]})
    agent(operator, "own", "true", capabilities=["c"])
    dispatch(operator, "newest", "--capability", "c").ok()
    dispatch(operator, "newest", "--capability", "c@" + old).sentence("cannot be granted")
    dispatch(operator, "pinned", "--capability", "c@" + old).ok()
    dispatch(operator, "pinned", "--capability", "c").sentence("cannot be granted")
    dispatch(operator, "own", "--capability", "c").ok()
    assert "granted" in show(operator, all_of(operator)[0]["id"])["resolved"]
    assert new in json.dumps(show(operator, all_of(operator)[0]["id"])["resolved"]["capabilities"])


def test_a_granted_secret(operator):
    operator.cloister("secret", "add", "KEY", "--host", "a.example", input="s3cret\n").ok()
    told = {"policy": "web", "grantable": {"secrets": ["KEY"]}}
    operator.cloister("policy", "register", "--name", "web", operator.file("web.yaml", json.dumps(
        {"version": 1, "egress": [{"allow": "a.example"}]}))).ok()
    agent(operator, "x", 'test -n "$KEY"', **told)
    assert dispatch(operator, "x").status == 1
    dispatch(operator, "x", "--secret", "KEY").ok()
    assert show(operator, all_of(operator)[0]["id"])["resolved"]["granted"]["secrets"] == ["KEY"]


def test_a_granted_secret_goes_where_the_operator_lets_it(operator):
    operator.cloister("secret", "add", "KEY", "--host", "a.example", input="s3cret\n").ok()
    operator.cloister("policy", "register", "--name", "web", operator.file("web.yaml", json.dumps(
        {"version": 1, "egress": [{"allow": "*.example"}]}))).ok()
    agent(operator, "bare", "true", policy="web", grantable={"secrets": ["KEY"]})
    agent(operator, "narrow", "true", policy="web", grantable={"secrets": ["KEY@a.example"]})
    for name in ("bare", "narrow"):
        dispatch(operator, name, "--secret", "KEY@evil.example").sentence("cannot be granted", "its `grantable` has it as")
    for word in ("KEY", "KEY@a.example"):
        told = json.loads(dispatch(operator, "--dry-run", "--json", "narrow", "--secret", word).ok())
        assert (told["secrets"], told["granted"]["secrets"]) == (["KEY@a.example"], ["KEY"])


def test_a_key_means_the_same_grants(operator):
    capability(operator, "c", {"f": "1"})
    agent(operator, "x", "true", grantable={"capabilities": ["c"]})
    id = detach(operator, "--key", "k", "x")
    assert detach(operator, "--key", "k", "x") == id
    dispatch(operator, "--key", "k", "x", "--capability", "c").sentence("was used for another request")
    await_over(operator, id)


def test_children_get_no_more_than_their_parents_have(operator):
    """A grant for one dispatch is handed on only by an agent that has it."""
    capability(operator, "c", {"f": "1"})
    agent(operator, "child", "true", grantable={"capabilities": ["c"], "secrets": ["KEY"]})
    agent(operator, "poor", "until [ -e /tmp/go ]; do sleep 0.05; done", delegate={"agents": ["child"]})
    agent(operator, "rich", "until [ -e /tmp/go ]; do sleep 0.05; done", delegate={"agents": ["child"]}, capabilities=["c"])
    ids = {name: detach(operator, name) for name in ("poor", "rich")}
    cells = {name: await_state(operator, id, "running")["cell"] for name, id in ids.items()}
    dispatch(operator, "child", "--parent", ids["poor"], "--capability", "c").sentence(
        "'poor' does not have the capability 'c' itself")
    dispatch(operator, "child", "--parent", ids["rich"], "--capability", "c").ok()
    for name, cell in cells.items():
        operator.cloister("exec", cell, "touch", "/tmp/go")
        await_over(operator, ids[name])


def test_an_agent_without_the_host_starts_none_with_it(operator, image):
    agent(operator, "child", "true")
    agent(operator, "parent", "until [ -e /tmp/go ]; do sleep 0.05; done", delegate={"agents": ["child"]},
          root={"image": IMAGE})
    id = detach(operator, "parent")
    cell = await_state(operator, id, "running")["cell"]
    dispatch(operator, "child", "--parent", id).sentence("'parent' has none of the host's files")
    operator.cloister("exec", cell, "touch", "/tmp/go")
    await_over(operator, id)


def test_agents_grant_nothing(operator):
    """Neither with a grant nor with an image: these are operators' words."""
    capability(operator, "c", {"f": "1"})
    agent(operator, "x", "true", grantable={"capabilities": ["c"]})
    service = Service(operator)
    agents = os.path.join(os.path.dirname(service.socket), "agents.sock")
    for more, words in (({"capabilities": ["c"]}, "only an operator grants"), ({"worker_image": ""}, "cannot choose the image")):
        service.ask("POST", "/v1/dispatches", {"agent": "x", **more}, socket=agents).error(403, "forbidden", words)
    assert service.ask("POST", "/v1/agents/x/assign", {"capabilities": ["c"]}, socket=agents).status in (403, 404)
    await_over(operator, service.ask("POST", "/v1/dispatches", {"agent": "x", "capabilities": ["c"]}).ok(202)["id"])
    assert service.stop() == 0, service.log()


# ---- assign

def test_assign(operator):
    for name in "c", "both":
        capability(operator, name, {"f": name})
    for name in "e", "both":
        register(operator, "env", name, values={"K": name})
    first = agent(operator, "x", "true")
    told = operator.cloister("assign", "x", "c", "e", "KEY").ok()
    hash = re.fullmatch(r"agent x@(sha256:[0-9a-f]{64})\n", told)[1]
    content = json.loads(operator.cloister("agent", "show", "--json", "x").ok())
    assert content["hash"] == hash != first and content["number"] == 2
    assert [content["content"][k] for k in ("capabilities", "env", "secrets")] == [["c"], ["e"], ["KEY"]]
    # The same again is the same version; one of the same name is replaced.
    assert operator.cloister("assign", "x", "capability:c").ok() == f"agent x@{hash} was registered already\n"
    old = json.loads(operator.cloister("capability", "show", "--json", "c").ok())["hash"]
    operator.cloister("assign", "x", f"c@{old}", "secret:KEY=OTHER").ok()
    content = json.loads(operator.cloister("agent", "show", "--json", "x").ok())["content"]
    assert (content["capabilities"], content["secrets"]) == ([f"c@{old}"], ["KEY=OTHER"])
    for words, sentence in ((["x", "both"], "both a capability and an env"), (["x", "none"], "no capability or env 'none'"),
                            (["x"], "takes AGENT"), (["nobody", "c"], "no agent 'nobody'"),
                            (["x@" + first, "c"], "the agent's name alone"), (["x", "env:none"], "no env 'none'")):
        operator.cloister("assign", *words).sentence(sentence)


def test_assign_over_the_api(operator):
    capability(operator, "c", {"f": "1"})
    agent(operator, "x", "true")
    service = Service(operator)
    told = service.ask("POST", "/v1/agents/x/assign", {"capabilities": ["c"], "secrets": ["KEY"]}).ok(201)
    assert told["new"] is True and told["number"] == 2
    service.ask("POST", "/v1/agents/x/assign", {"capabilities": ["c"]}).ok(200)
    service.ask("POST", "/v1/agents/x/assign", {"env": ["none"]}).error(404, "not_found", "none")
    service.ask("POST", "/v1/agents/x/assign", {"envs": []}).error(400, "invalid", "envs")
    assert service.stop() == 0, service.log()


# ---- the bytes that ran

def sha256(path):
    return "sha256:" + hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_programs_are_resolved(operator):
    """The interpreters of scripts, and the command, as the host has them."""
    capability(operator, "c", {"setup.sh": "#! /bin/sh -e\ntrue\n", "run": "#!/usr/bin/env python3\n", "data": "#!/bin/cat\n"})
    (operator.base / "capability-c/run").chmod(0o755)
    operator.cloister("capability", "register", operator.base / "capability-c").ok()
    register(operator, "agent", "x", capabilities=["c"], command=["/capabilities/c/run"])
    register(operator, "agent", "y", command=["python3", "-V"])
    told = json.loads(dispatch(operator, "x", "--dry-run", "--json").ok())["programs"]
    assert [p["path"] for p in told[:2]] == ["/bin/sh", "/usr/bin/env"] and told[2]["path"].endswith("/python3")
    told += json.loads(dispatch(operator, "y", "--dry-run", "--json").ok())["programs"]
    for program in told:
        assert program["file"] == os.path.realpath(program["path"]) and program["hash"] == sha256(program["path"])
    assert told[-1]["path"].endswith("/python3")


def test_a_changed_program_is_not_run(operator, image):
    """One that changes between the resolution and the start is an error before the agent runs."""
    shell = images.busybox()
    store = images.Store(operator)
    store.add("docker.io/library/" + IMAGE, shell)
    file = store.tree(store.layer(shell)) / "bin/busybox"
    capability(operator, "c", {"agora-setup.sh": HELLO})
    agent(operator, "waiter", "until [ -e /tmp/go ]; do sleep 0.05; done")
    register(operator, "agent", "x", capabilities=["c"], root={"image": IMAGE})
    one = {"env": {"CLOISTER_CONCURRENCY": "1"}}
    waiter = detach(operator, "waiter", **one)
    cell = await_state(operator, waiter, "running")["cell"]
    id = detach(operator, "x", **one)
    assert show(operator, id)["resolved"]["programs"] == [
        {"path": "/bin/sh", "file": "/bin/busybox", "hash": sha256(file)}]
    with file.open("ab") as out:
        out.write(b"\0")
    operator.cloister("exec", cell, "touch", "/tmp/go")
    assert "'/bin/sh' is not the one that was resolved" in await_over(operator, id)["reason"]
    assert not [e for e in events(operator, id) if e["kind"] == "worker.boot"]
    found = operator.cloister("audit", "verify")
    assert found.status == 1 and f"program {file}: changed" in found.out, found.out
    told = json.loads(operator.cloister("audit", "verify", "--json").out)
    assert not told["sound"] and [(p["file"], p["now"], p["state"], p["finding"]) for p in told["programs"]] == [
        (str(file), sha256(file), "changed", True)]


OTHER = "opt/sh"                # a second shell, because a set-up executes the first one meanwhile
WAIT = "#!/bin/sh\nuntil [ -e /tmp/go ]; do sleep 0.02; done\n"


def write_to(file):
    with file.open("ab") as out:
        out.write(b"\0")


def replace(file):
    new = file.with_name("new")
    new.write_bytes(file.read_bytes() + b"\0")
    new.chmod(0o755)
    new.rename(file)


@pytest.mark.parametrize("swap", [write_to, replace, None])
@pytest.mark.parametrize("part", ["command", "setup", "env"])
def test_a_program_that_is_swapped_while_a_setup_runs(operator, part, swap):
    """The file that the kernel executes is compared, whatever was there when the cell was made."""
    shell = images.busybox()
    shell[OTHER] = shell["bin/busybox"]
    # A busybox would execute itself for the name of one of its own.
    shell["opt/runner"] = f'#!/{OTHER}\n. "$1"\n'
    store = images.Store(operator)
    store.add("docker.io/library/" + IMAGE, shell, config={"Env": ["PATH=/opt:/bin"]})
    file = store.tree(store.layer(shell)) / OTHER
    capability(operator, "a", {"setup.sh": WAIT})
    capability(operator, "b", {"setup.sh": f"#!/{OTHER}\necho ran\n" if part == "setup" else "",
                               "run": "#!/bin/env runner\necho ran\n"})
    (operator.base / "capability-b/run").chmod(0o755)
    operator.cloister("capability", "register", operator.base / "capability-b").ok()
    command = {"command": ["/" + OTHER, "-c", "echo ran"], "setup": [], "env": ["/capabilities/b/run"]}[part]
    register(operator, "agent", "x", capabilities=["a", "b"], root={"image": IMAGE}, command=command)
    id = detach(operator, "x")
    cell = await_state(operator, id, "running")["cell"]
    if swap is not None:
        swap(file)
    operator.cloister("exec", cell, "touch", "/tmp/go")
    over = await_over(operator, id)
    ran = operator.cloister("dispatches", "output", id).out
    if swap is None:
        assert (over["state"], over["exit_code"], ran) == ("finished", 0, "ran\n"), over
    else:
        assert over["state"] == "failed" and "is not the one that was resolved" in over["reason"], over
        assert ran == ""


def test_audit_verify_recomputes(operator, image):
    """A sound store is sound; a changed manifest is found; an image that was removed is only told."""
    register(operator, "agent", "x", root={"image": IMAGE}, command=["sh", "-c", "true"])
    dispatch(operator, "x").ok()
    assert "program" not in operator.cloister("audit", "verify").ok()
    blob = operator.base / "data/images/blobs/sha256" / image.removeprefix("sha256:")
    text = blob.read_bytes()
    blob.write_bytes(text + b" ")
    found = operator.cloister("audit", "verify")
    assert found.status == 1 and str(blob) in found.out
    blob.unlink()
    told = operator.cloister("audit", "verify").ok()
    assert f"program {blob}: gone" in told and "1 program cannot be computed again" in told


def test_audit_verify_after_an_upgrade(operator):
    """A program of the host that was replaced is reported with a state of its own; the record is sound."""
    if not operator.is_root:
        pytest.skip("the host's programs are root's")
    file = Path("/usr/local/bin/cloister-test-upgrade")
    try:
        shutil.copy(shutil.which("true"), file)
        before = sha256(file)
        register(operator, "agent", "x", command=[str(file)])
        dispatch(operator, "x").ok()
        replace(file)
        told = operator.cloister("audit", "verify").ok()
        assert f"program {file}: replaced" in told and "1 program cannot be computed again" in told
        told = json.loads(operator.cloister("audit", "verify", "--json").ok())
        assert told["sound"] and told["not_recomputed"] == 1 and told["programs"] == [
            {"file": str(file), "hash": before, "now": sha256(file), "state": "replaced", "finding": False}]
    finally:
        file.unlink(missing_ok=True)
