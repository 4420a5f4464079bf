"""--boundary docker: the cell is a container that an engine makes, with everything that other cells have."""
import json
import os
import signal
import socket
from pathlib import Path

import engines
import pytest
from engines import IMAGE
from operators import only_root, wait_until

in_all = pytest.mark.skipif(len(engines.KINDS) == 1, reason="`make test-docker` has it")


@pytest.fixture(params=engines.KINDS)
def engine(request, engines_of):
    return engines_of(request.param)


@pytest.fixture
def who(engine):
    return engine.who


@pytest.fixture
def cell(operator, engine):
    """`cloister run` in a container.  Nothing of it may be left in the engine."""
    operator.env["DOCKER_HOST"] = f"unix://{engine.socket}"
    before = engine.volumes()

    def run(script, *options, **how):
        return operator.sh(script, "--boundary", "docker", "--image", IMAGE, *options, **how)

    yield run
    assert engine.containers() == {}
    assert engine.volumes() == before


def detached(operator, *words):
    return operator.detach("--boundary", "docker", "--image", IMAGE, *words)


def test_a_cell(operator, engine, cell):
    """Who runs, with which rights, files, environment and limits; and what is recorded of it."""
    workspace = operator.folder("ws", {"a": "old\n"})
    grant = operator.folder("grant", {"file": "granted\n"})
    grant.chmod(0o700)
    done = cell("""id -u; grep -E 'CapBnd|NoNewPrivs' /proc/self/status; echo "$X"; hostname
        cat a /data/file; echo new >a; echo no >/data/b; ls -A /; echo no >/file; ls /.. >/dev/null
        wc -l <$(echo /proc/self/mountinfo); grep -c overlay2 /proc/self/mountinfo; ip link | grep -c '^[0-9]'; exit 7""",
                "-e", "X=y", "-w", workspace, "-v", f"{grant}:/data:ro", "--hostname", "there")
    lines = done.out.splitlines()
    assert done.status == 7 and lines[0] == "1000", done
    assert {" ".join(line.split()) for line in lines[1:3]} == {"CapBnd: 0000000000000000", "NoNewPrivs: 1"}
    assert lines[3:7] == ["y", "there", "old", "granted"]
    shown = lines[7:-3]
    assert {"bin", "data", "dev", "etc", "home", "proc", "tmp"} <= set(shown)
    assert not {".cloister-init", ".cloister-port", "root", "boot"} & set(shown)
    # No path of the engine's, and no interface but loopback.
    assert lines[-2:] == ["0", "1"]
    assert (workspace / "a").read_text() == "old\n" and sorted(p.name for p in grant.iterdir()) == ["file"]
    (told,) = json.loads(operator.cloister("ps", "-a", "--json").ok())
    operator.kept.add(told["cell"])
    assert "+new" in operator.cloister("diff", told["cell"]).ok()
    operator.cloister("apply", told["cell"]).ok()
    assert (workspace / "a").read_text() == "new\n"
    events = [json.loads(line) for line in operator.cloister("events", "--json", told["cell"]).ok().splitlines()]
    (start,) = [e["grant"] for e in events if e["type"] == "cell.boot"]
    assert start["boundary"] == "docker" and start["image"] == {"name": IMAGE, "digest": engine.image_id()}


def test_cloisters_own_image(operator, engine, cell):
    """Without an image the container has that of busybox, which the engine gets from cloister."""
    done = operator.sh("ls /bin/busybox; ls /usr/bin/python3", "--boundary", "docker")
    assert done.out == "/bin/busybox\n" and done.status == 1, done


def test_network(operator, cell):
    """There is none but ours: what a policy refuses is on the timeline."""
    done = cell("wget -qO- http://refused.example/; nslookup allowed.example | grep -c '^Address: 198.18'; wget -qO- http://1.2.3.4/",
                "--allow", "allowed.example")
    assert done.out == "1\n" and "refused.example" in done.err, done
    assert "1.2.3.4" in operator.cloister("events").ok()


@in_all
def test_limits(operator, cell):
    done = cell("head -c 20m /dev/zero >/tmp/x; stat -c %s /tmp/x", "--disk", "5M")
    assert done.out == "5242880\n" and "--disk 5M" in done.err, done
    if not operator.is_root:
        # Its engine has no cgroups here, and that is said.
        cell("true", "--memory", "64M").sentence("--memory", "cgroup")
        return
    done = cell("head -c 200m /dev/zero | tail -c 200m | wc -c", "--memory", "64M")
    assert "--memory 64M" in done.err, done
    done = cell("for i in $(seq 30); do sleep 100 & done; true", "--pids", "20")
    assert "--pids 20" in done.err, done
    assert "--time" in cell("sleep 100", "--time", "1s").err


def test_refused(operator, cell):
    """What a container cannot carry is an error before the start."""
    for options, word in ((["--root"], "--root"), (["--io", "1M"], "--io"), (["--profile", "nested"], "--nested")):
        cell("true", *options).sentence(word)
    operator.sh("true", "--boundary", "docker", "--root", "none").sentence("--image")
    operator.sh("true", "--boundary", "docker", "--image", "no-such-image:1").sentence("no-such-image")
    policy = operator.file("p.yaml", "version: 1\nboundary: microvm\n")
    cell("true", "-p", policy).sentence("weaker")
    policy = operator.file("p.yaml", "version: 1\nboundary: docker\n")
    cell("true", "-p", policy).sentence("no stronger")
    policy = operator.file("p.yaml", "version: 1\nboundary: namespace\n")
    assert cell("true", "-p", policy).ok() == ""


def supervisor_of(operator, cell):
    """The pid of the process that holds the lock on the cell's entry."""
    (entry,) = [e for e in operator.runtime.iterdir() if e.name.startswith(cell + ".")]
    inode = entry.stat().st_ino
    pids = [int(line.split()[4]) for line in Path("/proc/locks").read_text().splitlines()
            if int(line.split()[5].split(":")[2]) == inode]
    return pids[0]


def test_freeze_exec_kill(operator, engine, cell):
    id = detached(operator, "--", "sh", "-c", "while :; do date +%s%N >/tmp/now; done")
    assert list(engine.containers()) == [id]
    done = operator.cloister("exec", id, "--", "sh", "-c", "echo $CLOISTER_CELL; exit 3")
    assert (done.status, done.out) == (3, id + "\n")
    if operator.is_root:
        operator.cloister("freeze", id).ok()
        assert "frozen" in operator.cloister("ps").ok()
    operator.cloister("kill", id).ok()
    assert engine.containers() == {}


@pytest.mark.parametrize("frozen", [pytest.param(False, marks=in_all), True])
def test_nothing_is_left_of_a_killed_supervisor(operator, engine, cell, frozen):
    id = detached(operator, "--", "sleep", "1000")
    if frozen and operator.is_root:
        operator.cloister("freeze", id).ok()
    os.kill(supervisor_of(operator, id), signal.SIGKILL)
    wait_until(lambda: engine.containers() == {}, "the container is gone")
    # The next cell clears its entry and its groups.
    cell("true").ok()
    assert [e.name for e in operator.runtime.iterdir() if e.name.startswith(id)] == []


@in_all
def test_a_supervisor_that_does_not_answer(operator, engine, cell):
    id = detached(operator, "--", "sleep", "1000")
    pid = supervisor_of(operator, id)
    os.kill(pid, signal.SIGSTOP)
    operator.cloister("kill", id).ok()
    assert engine.containers() == {}
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not operator.cloister("ps", "--json").ok().strip("[]\n"), "the supervisor ends")


@in_all
def test_containers_of_others_stay(operator, engine, cell):
    """Only containers of cells that nobody knows any more are cleared, and only old ones."""
    engine.make("cloister-abcdefgh", "true", body={"Labels": {engines.LABEL: "abcdefgh"}})
    engine.make("bystander", "true", body={})
    cell("true").ok()
    assert list(engine.containers()) == ["abcdefgh"]
    engine.ask("GET", "/containers/bystander/json")
    for name in "cloister-abcdefgh", "bystander":
        engine.ask("DELETE", f"/containers/{name}")


@in_all
def test_the_container_is_as_it_was_asked_for(operator, engine, cell):
    limits = ["--memory", "100M", "--pids", "50", "--cpus", "1"] if operator.is_root else []
    id = detached(operator, *limits, "--", "sleep", "1000")
    about = json.loads(engine.ask("GET", f"/containers/cloister-{id}/json"))
    host = about["HostConfig"]
    assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"] and not host["Privileged"]
    assert about["Config"]["User"] == "1000:1000" and about["Image"].removeprefix("sha256:") == \
        engine.image_id().removeprefix("sha256:")
    assert {m["Destination"] for m in about["Mounts"]} == {"/dev/.cloister-init", "/dev/.cloister-port"}
    assert not any(m["RW"] for m in about["Mounts"])
    if operator.is_root:
        assert host["Memory"] == 100 << 20 and host["PidsLimit"] == 51
    operator.cloister("kill", id).ok()


@in_all
def test_secrets_are_placeholders(operator, cell):
    operator.cloister("secret", "init").ok()
    operator.cloister("secret", "add", "token", "--host", "allowed.example", input="the-real-value-of-it").ok()
    done = cell("echo $TOKEN; env | grep -c the-real", "-s", "token=TOKEN", "--allow", "allowed.example")
    assert done.out.splitlines()[-1] == "0" and "the-real" not in done.out, done


@in_all
def test_terminal_and_published_ports(operator, cell):
    id = detached(operator, "--publish", "8000", "--", "sh", "-c", "while :; do echo hello | nc -l -p 8000; done")
    operator.kept.add(id)
    (told,) = json.loads(operator.cloister("ps", "--json").ok())
    port = told["ports"][0]["host"]

    def answer():
        try:
            with socket.create_connection(("127.0.0.1", port), 10) as connection:
                return connection.recv(100)
        except OSError:
            return None

    wait_until(lambda: answer() == b"hello\n", "it answers")
    operator.cloister("kill", id).ok()


def test_doctor(operator, engine, cell):
    found = json.loads(operator.cloister("doctor", "--json").out)
    (row,) = [f for f in found["checks"] if f["name"] == "container engine"]
    assert str(engine.socket) in row["found"] and row["state"] == "ok", row


@only_root
def test_an_engine_of_another_user(operator, engine, cell):
    if operator.is_root != (engine.who == "root"):
        return
    operator.env["DOCKER_HOST"] = "tcp://127.0.0.1:1"
    cell("true").sentence("DOCKER_HOST", "unix:///PATH")
    operator.env["DOCKER_HOST"] = f"unix://{operator.base}/none"
    cell("true").sentence("no engine answers")
