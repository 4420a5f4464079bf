"""--boundary docker: the cell is a container that an engine makes, with everything that other cells have."""
import base64
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import engines
import pytest
from engines import IMAGE
from leftovers import LABS
from operators import children_of, only_root, status_of, wait_until
from registry_lab import HTPASSWD, PASSWORD, login
from registry_lab import USER as REGISTRY_USER

in_all = pytest.mark.skipif(len(engines.KINDS) == 1, reason="`make test-docker` has it")
only_roots = pytest.mark.parametrize("engine", [kind for kind in engines.KINDS if kind != "rootless"], indirect=True)


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
    (told,) = operator.cells("-a")
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
    for options in ["--root", "none"], ["--root", "host"], ["--rootfs", operator.folder("root")]:
        operator.sh("true", "--boundary", "docker", *options).sentence("--image")
    operator.sh("true", "--boundary", "docker", "--image", "no-such-image:1").sentence("no-such-image")
    policy = operator.file("p.yaml", "version: 1\nboundary: microvm\n")
    cell("true", "-p", policy).sentence("weaker")
    policy = operator.file("p.yaml", "version: 1\nboundary: docker\n")
    cell("true", "-p", policy).sentence("no stronger")
    policy = operator.file("p.yaml", "version: 1\nboundary: namespace\n")
    assert cell("true", "-p", policy).ok() == ""
    policy = operator.file("p.yaml", "version: 1\nimages: {require: digest}\n")
    cell("true", "-p", policy).sentence("requires a digest")
    policy = operator.file("p.yaml", "version: 1\nimages: {require: signature, keys: [/key.pub]}\n")
    cell("true", "-p", policy).sentence("requires a signature")


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


def warden_of(supervisor):
    """The child that runs no program of its own."""
    line = Path(f"/proc/{supervisor}/cmdline").read_bytes()
    (pid,) = [pid for pid in children_of(supervisor) if Path(f"/proc/{pid}/cmdline").read_bytes() == line]
    return pid


def test_nothing_is_left_without_a_warden(operator, engine, cell):
    """If both are killed, a container that cannot end by itself stays until the next cell."""
    if not operator.is_root:
        return
    id = detached(operator, "--", "sleep", "1000")
    supervisor = supervisor_of(operator, id)
    operator.cloister("freeze", id).ok()
    for pid in warden_of(supervisor), supervisor:
        os.kill(pid, signal.SIGKILL)
    assert list(engine.containers()) == [id]
    cell("true").ok()
    assert engine.containers() == {}
    assert [e.name for e in operator.runtime.iterdir() if e.name.startswith(id)] == []


@in_all
def test_a_supervisor_that_does_not_answer(operator, engine, cell):
    id = detached(operator, "--", "sleep", "1000")
    pid = supervisor_of(operator, id)
    if operator.is_root:
        operator.cloister("freeze", id).ok()
    os.kill(pid, signal.SIGSTOP)
    operator.cloister("kill", id).ok()
    assert engine.containers() == {}
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not operator.cloister("ps", "--json").ok().strip("[]\n"), "the supervisor ends")


@in_all
def test_containers_of_others_stay(operator, engine, cell):
    """Only containers of cells that nobody knows any more are cleared, and only old ones."""
    engine.make("cloister-abcdefgh", "true", body={"Labels": {engines.LABEL: "abcdefgh",
                                                               engines.FOLDER_LABEL: str(operator.runtime)}})
    engine.make("bystander", "true", body={})
    cell("true").ok()
    assert list(engine.containers()) == ["abcdefgh"]
    engine.ask("GET", "/containers/bystander/json")
    for name in "cloister-abcdefgh", "bystander":
        engine.ask("DELETE", f"/containers/{name}")


@pytest.fixture
def middleman(operator, engine):
    """Between cloister and the engine, from now on."""
    started = []

    def start(**how):
        started.append(engines.Middleman(engine, operator.base / "middleman.sock", **how))
        operator.own(operator.base / "middleman.sock")
        operator.env["DOCKER_HOST"] = f"unix://{operator.base}/middleman.sock"

    yield start
    for one in started:
        one.close()


@only_roots
def test_old_containers_of_nobody_are_cleared(operator, engine, cell, middleman):
    """One that no cell has any more, and that is older than a start takes."""
    def older(method, path, data):
        if not path.startswith("/containers/json"):
            return data
        return json.dumps([{**c, "Created": c["Created"] - 3600} for c in json.loads(data)]).encode()

    middleman(tell=older)
    running = detached(operator, "--", "sleep", "1000")
    own = {engines.FOLDER_LABEL: str(operator.runtime)}
    engine.make("cloister-abcdefgh", "true", body={"Labels": {engines.LABEL: "abcdefgh", **own}})
    # That of another runtime folder: a cell may run there.
    engine.make("cloister-ijkmnpqr", "true", body={"Labels": {engines.LABEL: "ijkmnpqr", engines.FOLDER_LABEL: "/x"}})
    cell("true").ok()
    assert set(engine.containers()) == {running, "ijkmnpqr"}
    engine.ask("DELETE", "/containers/cloister-ijkmnpqr")
    operator.cloister("kill", running).ok()


@in_all
def test_an_images_volume_is_no_dev(operator, engine, cell):
    """An image whose author makes /dev a volume would choose what the cell's devices are."""
    names = "null", "zero", "full", "random", "urandom", "tty"
    engine.take("devices:1", *((f"dev/{name}", "no zeros", 0o666, 0, 0) for name in names), change="VOLUME /dev")
    done = operator.sh("cat /dev/zero", "--boundary", "docker", "--image", "devices:1")
    assert done.status == 125 and "is not the device" in done.err and done.out == "", done


@only_roots
def test_another_image_is_refused(operator, engine, cell, middleman):
    """A container that the engine makes of another image than the one that was resolved."""
    engine.take("other:1", ("other", "", 0o644, 0, 0))

    def other(method, path, body):
        if not path.startswith("/containers/create"):
            return body
        return json.dumps({**json.loads(body), "Image": "other:1"})

    middleman(ask=other)
    cell("true").sentence("another image", engine.image_id("other:1"))


@in_all
@pytest.mark.parametrize("user, ids", [("app", "1234 1235"), ("1234", "1234 1234"), ("1234:77", "1234 77"), ("app:tools", "1234 78"),
                                       ("root", "1000 1000"), ("0:5", "1000 1000"), ("2000:0", "2000 2000")])
def test_the_images_user(operator, engine, cell, user, ids):
    """The agent is the image's user, whose files are its own; but never root."""
    name = "user-" + user.replace(":", "-") + ":1"
    engine.take(name, ("etc/passwd", "root:x:0:0::/:/bin/sh\napp:x:1234:1235::/:/bin/sh\n", 0o644, 0, 0),
                ("etc/group", "tools:x:78:\nothers:x:79:app\n", 0o644, 0, 0), ("own", "its own\n", 0o600, int(ids.split()[0]), 0),
                change=f"USER {user}")
    workspace = operator.folder("ws", {"a": "old\n"})
    done = operator.sh('echo $(id -u) $(id -g) $(id -un) $(id -G | wc -w); cat /own; echo new >a; stat -c "%u %U" a $HOME',
                       "--boundary", "docker", "--image", name, "-w", workspace)
    uid = ids.split()[0]
    assert done.ok() == f"{ids} agent 1\nits own\n{uid} agent\n{uid} agent\n", done
    (told,) = operator.cells("-a")
    operator.kept.add(told["cell"])
    operator.cloister("apply", told["cell"]).ok()
    assert (workspace / "a").read_text() == "new\n" and (workspace / "a").stat().st_uid == operator.uid
    engine.take("user:2", change="USER nobody-knows")
    operator.sh("true", "--boundary", "docker", "--image", "user:2").sentence("nobody-knows")


@pytest.fixture
def registry(operator, engine):
    """A registry with a login, in the engine's network; the engine has put its image there."""
    folder = operator.base / "registry"
    folder.mkdir()
    (folder / "htpasswd").write_text(HTPASSWD)
    (folder / "config.yml").write_text(f"""version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: '{engines.REGISTRY}', secret: x}}
auth: {{htpasswd: {{realm: lab, path: {folder}/htpasswd}}}}
""")
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(["nsenter", f"--net=/proc/{engine.process.pid}/ns/net", "docker-registry", "serve",
                                    folder / "config.yml"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    LABS.append(process.pid)
    wait_until(lambda: b"listening on" in (folder / "log").read_bytes(), "the registry listens")
    name = f"{engines.REGISTRY}/p/box"
    engine.ask("POST", f"/images/{IMAGE}/tag?repo={name}&tag=1")
    header = base64.urlsafe_b64encode(json.dumps({"username": REGISTRY_USER, "password": PASSWORD}).encode()).decode()
    pushed = engine.ask("POST", f"/images/{name}/push?tag=1&tlsVerify=false", **{"X-Registry-Auth": header})
    assert b'"error"' not in pushed, pushed
    engine.ask("DELETE", f"/images/{name}:1?noprune=true")
    yield f"{name}:1"
    LABS.remove(process.pid)
    process.kill()
    process.wait()


@only_roots
def test_a_private_registry(operator, engine, cell, registry):
    """The engine pulls with the operator's own login, of auth.json or of a helper."""
    run = ["--boundary", "docker", "--image", registry]
    operator.sh("true", *run).sentence("the engine cannot fetch the image")
    operator.file("home/.config/containers/auth.json", json.dumps({"auths": {engines.REGISTRY: login(password="wrong")}}))
    operator.sh("true", *run).sentence("the engine cannot fetch the image")
    operator.file("home/.config/containers/auth.json", json.dumps({"auths": {engines.REGISTRY: login()}}))
    assert operator.sh("echo here", *run).ok() == "here\n"
    engine.ask("DELETE", f"/images/{registry}?noprune=true")


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


@pytest.mark.skipif(not engines.APART, reason="`make test-docker` has it")
@pytest.mark.parametrize("engine", engines.APART, indirect=True)
def test_ids_of_its_own(operator, engine, cell):
    """An engine of root's with user namespaces: outside, the agent is nobody."""
    workspace = operator.folder("ws", {"a": "old\n", "sub/b": "b\n"})
    grant = operator.folder("grant", {"file": "granted\n"})
    grant.chmod(0o700)
    id = detached(operator, "-w", workspace, "-v", f"{grant}:/data:rw", "--", "sh", "-c",
                  "id -u; cat /data/file; echo new >a; rm sub/b; echo there >/data/b; stat -c %U a /data/b; sleep 1000")
    wait_until(lambda: operator.cloister("logs", id).ok().count("\n") == 4, "it has begun")
    assert operator.cloister("logs", id).ok() == "1000\ngranted\nagent\nagent\n"
    pid = json.loads(engine.ask("GET", f"/containers/cloister-{id}/json"))["State"]["Pid"]
    assert engines.IDS <= int(status_of(pid)["Uid"].split()[0]) < engines.IDS + 655360
    operator.cloister("freeze", id).ok()
    operator.cloister("thaw", id).ok()
    operator.cloister("kill", id).ok()
    assert (grant / "b").read_text() == "there\n" and (grant / "b").stat().st_uid == 0
    operator.cloister("apply", id).ok()
    assert (workspace / "a").read_text() == "new\n" and not (workspace / "sub/b").exists()
