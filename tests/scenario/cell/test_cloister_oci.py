"""cloister-oci as engines use it: containers are cells, and nothing of the bundle can change that."""
import json
import os
import pty
import shutil
import socket
import stat
import subprocess

import pytest

from bundles import Bundle, bundle, end_of, needs_busybox, root_folder  # noqa: F401  a fixture
from operators import IS_ROOT, IS_STATIC, as_one, only_root, read_until, wait_until

pytestmark = [needs_busybox, pytest.mark.skipif(not IS_STATIC, reason="it takes static programs")]


# ---- life ----------------------------------------------------------------------------

def test_from_create_to_delete(bundle):  # noqa: F811
    """The process waits for its start; whoever started the runtime reaps it, with its status."""
    pid = bundle.create("c1", argv=["sh", "-c", "echo ran; exit 7"], annotations={"a.b": "c"})
    state = bundle.state("c1")
    assert {**state, "created": "", "cell": ""} == {
        "ociVersion": "1.0.2", "id": "c1", "status": "created", "pid": pid, "bundle": str(bundle.folder),
        "created": "", "cell": "", "annotations": {"a.b": "c"}}
    assert bundle.out("c1") == ""
    assert [c["name"] for c in bundle.operator.cells()] == ["c1"]
    bundle.start("c1")
    assert os.waitstatus_to_exitcode(end_of(pid)) == 7
    assert bundle.out("c1") == "ran\n"
    assert (bundle.state("c1")["status"], bundle.state("c1")["pid"]) == ("stopped", 0)
    assert "c1" in bundle.do("list").ok()
    assert "it has ended" in bundle.refused("start", "c1")
    assert "container not running" in bundle.refused("kill", "c1")
    bundle.do("delete", "c1").ok()
    assert "does not exist" in bundle.refused("state", "c1")
    assert "does not exist" in bundle.refused("delete", "c1")
    bundle.do("delete", "--force", "c1").ok()


@pytest.mark.parametrize("signal, status", [("TERM", 143), ("SIGKILL", 137), ("10", 138), ("WINCH", None)])
def test_signals(bundle, signal, status):  # noqa: F811
    pid = bundle.create("c1", argv=["sleep", "1000"])
    bundle.start("c1")
    assert bundle.state("c1")["status"] == "running"
    assert "was started already" in bundle.refused("start", "c1")
    assert "runs: kill it first" in bundle.refused("delete", "c1")
    assert "container with id exists" in bundle.refused("create", "--bundle", bundle.folder, "c1")
    assert "there is no signal" in bundle.refused("kill", "c1", "NOSUCH")
    bundle.do("kill", "c1", signal).ok()
    if status is None:
        assert bundle.state("c1")["status"] == "running"
        bundle.do("delete", "--force", "c1").ok()
        end_of(pid)
        return
    assert os.waitstatus_to_exitcode(end_of(pid)) == status
    bundle.do("delete", "c1").ok()


def test_a_container_that_was_never_started(bundle):  # noqa: F811
    pid = bundle.create("c1", argv=["sh", "-c", "echo ran"])
    bundle.do("delete", "c1").ok()
    assert os.waitstatus_to_exitcode(end_of(pid)) == 137
    assert bundle.out("c1") == ""


def test_a_command_that_does_not_exist(bundle):  # noqa: F811
    pid = bundle.create("c1", argv=["nosuch"])
    assert "cannot run 'nosuch'" in bundle.refused("start", "c1")
    assert os.waitstatus_to_exitcode(end_of(pid)) == 127
    bundle.do("delete", "c1").ok()


def test_run(bundle):  # noqa: F811
    done = bundle.sh("echo out; echo err >&2; cat; exit 3")
    assert (done.status, done.out, done.err) == (3, "out\n", "err\n")
    assert os.listdir(bundle.states) == []


def test_resource_limits(bundle):  # noqa: F811
    """They bind the process, also if the engine writes "no limit"; none is above the cell's own."""
    bundle.config["process"]["rlimits"] = [
        {"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200}, {"type": "RLIMIT_FSIZE", "soft": 1024, "hard": 1024},
        {"type": "RLIMIT_CORE", "soft": 2**64 - 1, "hard": 2**64 - 1},
        {"type": "RLIMIT_STACK", "soft": 4 << 20, "hard": 2**64 - 1}]
    done = bundle.sh("ulimit -Sn; ulimit -Hn; ulimit -Hf; ulimit -Hc; ulimit -Ss")
    nofile, hard, fsize, core, stack = done.ok().split()
    assert (nofile, hard, stack) == ("100", "200", "4096") and fsize in ("1", "2") and core in ("0", "1")


@as_one
def test_what_engines_ask_first(bundle):  # noqa: F811
    assert bundle.do("--version").status == 1
    assert bundle.operator.do(bundle.runtime, "--version").ok().splitlines()[1] == "spec: 1.0.2"
    assert "create" in bundle.operator.do(bundle.runtime, "--help").ok()
    assert json.loads(bundle.do("features").ok())["hooks"] == []
    assert json.loads(bundle.do("list", "--format", "json").ok()) == []
    assert "no option '--nosuch'" in bundle.refused("--nosuch", "state", "x")
    assert "no command 'checkpoint'" in bundle.refused("checkpoint", "x")
    assert "cannot be a container's id" in bundle.refused("state", "../x")
    log = bundle.operator.home / "log"
    bundle.refused("--log", log, "--log-format", "json", "state", "x")
    assert json.loads(log.read_text())["msg"] == "container 'x' does not exist"


def test_other_processes(bundle):  # noqa: F811
    """`exec` as a shim uses it, and as people do; `ps`, `pause` and `resume`."""
    pid = bundle.create("c1", argv=["sleep", "1000"])
    assert "container not running" in bundle.refused("exec", "c1", "true")
    bundle.start("c1")
    done = bundle.do("exec", "-e", "A=b", "--cwd", "/tmp", "c1", "sh", "-c", "echo $A; pwd; exit 4")
    assert (done.status, done.out) == (4, "b\n/tmp\n")
    assert "cannot run 'nosuch'" in bundle.refused("exec", "c1", "nosuch")
    process = {"args": ["sh", "-c", "id -u; exit 5"], "env": ["PATH=/bin"], "cwd": "/", "user": {"uid": 0, "gid": 0}}
    file = bundle.operator.file("process.json", json.dumps(process))
    with open(bundle.operator.file("exec.out"), "wb") as out:
        bundle.do("exec", "--process", file, "--detach", "--pid-file", bundle.operator.home / "exec.pid", "c1",
                  stdout=out).ok()
    assert os.waitstatus_to_exitcode(end_of(int((bundle.operator.home / "exec.pid").read_text()))) == 5
    assert (bundle.operator.base / "exec.out").read_text() == "0\n"
    file = bundle.operator.file("process.json", json.dumps({**process, "user": {"uid": 12, "gid": 0}}))
    assert "as no other" in bundle.refused("exec", "--process", file, "c1")
    assert len(json.loads(bundle.do("ps", "--format", "json", "c1").ok())) == 1
    if bundle.operator.is_root:
        bundle.do("pause", "c1").ok()
        assert bundle.state("c1")["status"] == "paused"
        bundle.do("resume", "c1").ok()
        assert bundle.state("c1")["status"] == "running"
    bundle.do("delete", "--force", "c1").ok()
    end_of(pid)


def console(operator):
    """A socket that takes a terminal, and how to get it."""
    path = str(operator.home / "console.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o777)
    listener.listen(1)

    def terminal():
        connection, _ = listener.accept()
        _, fds, _, _ = socket.recv_fds(connection, 64, 1)
        connection.close()
        listener.close()
        return fds[0]
    return path, terminal


def test_a_terminal(bundle):  # noqa: F811
    """The engine gets a master side at `create`; the process has a terminal of the cell's own."""
    bundle.config["process"] |= {"terminal": True, "consoleSize": {"height": 31, "width": 77}}
    path, terminal = console(bundle.operator)
    pid = bundle.create("c1", "--console-socket", path, argv=["sh", "-c", "tty; stty size; read x; echo got $x"])
    master = terminal()
    bundle.start("c1")
    told = read_until(master, b"31 77\r\n")
    assert told.startswith(b"/dev/pts/0\r\n")
    os.write(master, b"word\r")
    assert b"got word" in read_until(master, b"got word\r\n")
    assert os.waitstatus_to_exitcode(end_of(pid)) == 0
    os.close(master)
    bundle.do("delete", "c1").ok()


def test_a_terminal_for_another_process(bundle):  # noqa: F811
    pid = bundle.create("c1", argv=["sleep", "1000"])
    bundle.start("c1")
    path, terminal = console(bundle.operator)
    process = {"args": ["sh", "-c", "tty; exit 6"], "terminal": True, "cwd": "/", "env": ["PATH=/bin"]}
    file = bundle.operator.file("process.json", json.dumps(process))
    bundle.do("exec", "--process", file, "--detach", "--console-socket", path, "--pid-file",
              bundle.operator.home / "exec.pid", "c1").ok()
    master = terminal()
    assert b"/dev/pts/" in read_until(master, b"\n")
    assert os.waitstatus_to_exitcode(end_of(int((bundle.operator.home / "exec.pid").read_text()))) == 6
    os.close(master)
    bundle.do("delete", "--force", "c1").ok()
    end_of(pid)


# ---- files, ids, limits ------------------------------------------------------------------

def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_the_engines_folder_stays_as_it_is(bundle):  # noqa: F811
    before = files_of(bundle.root)
    done = bundle.sh("touch /new /etc/new && echo x >/etc/passwd && mkdir /a && hostname && cat /etc/hostname")
    assert (done.status, done.out) == (0, "box\nbox\n"), done
    assert files_of(bundle.root) == before
    assert (bundle.root / "etc/passwd").read_text() != "x\n"


def test_mounts(bundle):  # noqa: F811
    bundle.operator.folder("given", {"file": "of the host"})
    bundle.operator.folder("lent", {"file": "of the host"})
    bundle.config["mounts"] += [
        {"destination": "/ro", "type": "bind", "source": str(bundle.operator.base / "given"), "options": ["rbind", "ro"]},
        {"destination": "/rw/deep", "source": str(bundle.operator.base / "lent"), "options": ["bind", "rprivate"]},
        {"destination": "/scratch", "type": "tmpfs", "source": "tmpfs", "options": ["size=1m", "mode=1777"]},
        {"destination": "/scratch/file", "type": "bind", "options": ["bind"],
         "source": str(bundle.operator.base / "given/file")},
        {"destination": "/etc/resolv.conf", "type": "bind", "source": "/nowhere", "options": ["bind"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["mode=1777"]}]
    done = bundle.sh("cat /ro/file; echo no >/ro/file; echo yes >/rw/deep/file; echo a >/scratch/a; cat /scratch/file;"
                     "echo b >/dev/shm/b; ls /scratch", root={"path": "rootfs", "readonly": True})
    assert done.out == "of the hostof the hosta\nfile\n", done
    assert done.err == "sh: can't create /ro/file: Read-only file system\n"
    assert (bundle.operator.base / "given/file").read_text() == "of the host"
    assert (bundle.operator.base / "lent/file").read_text() == "yes\n"
    assert "Read-only" in bundle.sh("touch /x", root={"path": "rootfs", "readonly": True}).err


@only_root
def test_owners_stay_who_they_are(bundle):  # noqa: F811
    """Ids of the image and of grants are the same inside, and a process that got out would be nobody."""
    os.chown(bundle.root / "root", 33, 34)
    bundle.config["process"]["user"] = {"uid": 33, "gid": 34, "additionalGids": [44]}
    bundle.config["mounts"] += [{"destination": "/rw", "type": "bind", "options": ["bind"],
                                 "source": str(bundle.operator.folder("lent"))}]
    os.chown(bundle.operator.base / "lent", 33, 34)
    done = bundle.sh("id; touch /root/a /rw/a; stat -c '%u %g' /bin/sh /root/a /rw; touch /b || echo no")
    assert done.out == "uid=33 gid=34 groups=44\n0 0\n33 34\n33 34\nno\n", done
    assert os.stat(bundle.operator.base / "lent/a").st_uid == 33
    pid = bundle.create("c1", argv=["sleep", "1000"])
    bundle.start("c1")
    agent = json.loads(bundle.do("ps", "--format", "json", "c1").ok())[0]
    assert os.stat(f"/proc/{agent}").st_uid >= 0x70000000
    bundle.do("delete", "--force", "c1").ok()
    end_of(pid)


@only_root
def test_the_layers_of_an_overlay(bundle):  # noqa: F811
    """What the engine's layers remove is not there, and its upper folder stays as it is."""
    base = bundle.operator.base
    for name in ("upper", "work", "merged"):
        bundle.operator.folder(f"overlay/{name}")
    (bundle.root / "etc/old").mkdir()
    (bundle.root / "etc/old/file").write_text("old")
    script = (f"mount -t overlay overlay -o lowerdir={bundle.root},upperdir={base}/overlay/upper,"
              f"workdir={base}/overlay/work {base}/overlay/merged; cd {base}/overlay/merged; rm -r etc/old bin/env;"
              'mkdir etc/old; echo made >etc/made; cd /; exec "$@"')
    bundle.write("sh", "-c", "ls /etc /etc/old /bin/env; touch /etc/more",
                 root={"path": str(base / "overlay/merged")})
    done = bundle.operator.do("unshare", "--mount", "sh", "-ec", script, "sh", bundle.runtime, *bundle.options, "run",
                              "--bundle", bundle.folder, "c1")
    assert done.out.replace("\n", " ") == "/etc: hostname hosts made old passwd resolv.conf  /etc/old: ", done
    assert sorted(os.listdir(base / "overlay/upper/etc")) == ["made", "old"]
    assert stat.S_ISCHR(os.lstat(base / "overlay/upper/bin/env").st_mode)


def test_limits(bundle):  # noqa: F811
    resources = {"pids": {"limit": 5}, "memory": {"limit": -1}, "cpu": {"shares": 2}}
    done = bundle.sh("for i in 1 2 3 4 5 6 7 8; do sleep 10 & done", linux={"resources": resources})
    assert done.status != 0 and "can't fork" in done.err, done


@only_root
def test_memory(bundle):  # noqa: F811
    done = bundle.sh("dd if=/dev/zero of=/dev/shm/x bs=1M count=64 2>/dev/null",
                     linux={"resources": {"memory": {"limit": 16 << 20}}})
    assert done.status == 137, done


# ---- what an image, or an engine, must not be able to do --------------------------------------

REFUSED = {
    "a network of the engine's": ({"linux": {"namespaces": [{"type": "network", "path": "/proc/1/ns/net"}]}},
                                  "which a cell cannot: use --network none"),
    "a hook": ({"hooks": {"createRuntime": [{"path": "/bin/true"}]}}, "createRuntime hook, '/bin/true'"),
    "a device": ({"linux": {"devices": [{"path": "/dev/fuse", "type": "c"}]}}, "asks for devices"),
    "a masked file": ({"linux": {"maskedPaths": ["/etc/secret"]}}, "maskedPaths has '/etc/secret'"),
    "many ranges": ({"linux": {"uidMappings": [{"containerID": 0, "hostID": 1, "size": 1},
                                               {"containerID": 1, "hostID": 9, "size": 1}]}}, "more than one range"),
    "an unknown option": ({"mounts": [{"destination": "/x", "type": "bind", "source": "/usr", "options": ["idmap"]}]},
                          "does not know: idmap"),
    "an unknown type": ({"mounts": [{"destination": "/x", "type": "nfs", "source": "a:/b"}]}, "type nfs"),
    "a mount in /proc": ({"mounts": [{"destination": "/proc/x", "type": "bind", "source": "/usr"}]}, "nothing can be"),
    "dots": ({"mounts": [{"destination": "/a/../proc/x", "type": "bind", "source": "/usr"}]}, "absolute path"),
    "no process": ({"process": None}, "nothing to run"),
    "another version": ({"ociVersion": "2.0.0"}, "knows 1.x"),
    "no root": ({"root": {"path": "nowhere"}}, "cannot use"),
    "a word for namespaces": ({"annotations": {"io.cloister.namespaces": "host"}}, "use own"),
}


@as_one
@pytest.mark.parametrize("what", REFUSED)
def test_refused(bundle, what):  # noqa: F811
    changes, sentence = REFUSED[what]
    bundle.write(**changes)
    assert sentence in bundle.refused("create", "--bundle", bundle.folder, "c1")
    assert not bundle.states.exists() or os.listdir(bundle.states) == []


@as_one
def test_ignored(bundle):  # noqa: F811
    """Dockerd's own hook, rights that a cell does not give, and members of a later specification."""
    bundle.config["process"] |= {"capabilities": {"bounding": ["CAP_SYS_ADMIN"]}, "oomScoreAdj": 100, "later": 1}
    hook = {"path": "/bin/false", "args": ["libnetwork-setkey", "x"]}
    network = {"type": "network", "path": "/proc/1/ns/net"}
    done = bundle.sh("cat /proc/self/status; readlink /proc/self/ns/net", later={"a": 1}, hooks={"prestart": [hook]},
                     annotations={"io.cloister.namespaces": "own"},
                     linux={"namespaces": [network], "seccomp": {}, "sysctl": {"net.ipv4.ip_forward": "1"}})
    assert done.status == 0 and "CapBnd:\t0000000000000000" in done.out, done
    assert os.readlink("/proc/self/ns/net") not in done.out


@pytest.mark.parametrize("name", ["dev", "proc", "sys"])
def test_a_link_of_the_image_leads_nowhere(bundle, name):  # noqa: F811
    outside = bundle.operator.folder("outside")
    (bundle.root / name).symlink_to(outside)
    bundle.write("true")
    assert f"no folder '/{name}'" in bundle.refused("create", "--bundle", bundle.folder, "c1")
    assert os.listdir(outside) == []


def test_links_in_etc_lead_nowhere(bundle):  # noqa: F811
    """Neither the names that the cell has, nor a grant, are written through a link of the image."""
    outside = bundle.operator.folder("outside", {"hosts": "of the host", "resolv.conf": "of the host"})
    (bundle.root / "etc/hosts").symlink_to(outside / "hosts")
    (bundle.root / "etc/resolv.conf").symlink_to(outside / "resolv.conf")
    (bundle.root / "data").symlink_to(outside)
    bundle.config["mounts"] += [{"destination": "/data/sub", "type": "bind", "source": "/usr/share", "options": ["ro"]}]
    assert "cannot make '/data'" in bundle.sh("true").err
    (bundle.root / "data").unlink()
    done = bundle.sh("cat /etc/hosts; ls /data")
    assert "localhost" in done.out and done.out.endswith("sub\n"), done
    assert sorted(os.listdir(outside)) == ["hosts", "resolv.conf"]
    assert (outside / "hosts").read_text() == (outside / "resolv.conf").read_text() == "of the host"


def test_etc_is_no_descriptor_of_the_builder(bundle):  # noqa: F811
    """A link to what the builder has open, such as the host's folders, leads nowhere."""
    shutil.rmtree(bundle.root / "etc")
    before = sorted(bundle.operator.base.rglob("hosts"))
    for number in range(3, 24):
        (bundle.root / "etc").symlink_to(f"/proc/self/fd/{number}")
        done = bundle.sh("true")
        assert done.status != 0 and "cannot open '/etc' in the container: No such file" in done.err, (number, done)
        assert sorted(bundle.operator.base.rglob("hosts")) == before
        (bundle.root / "etc").unlink()


def test_a_mount_replaces_a_link_of_the_image(bundle):  # noqa: F811
    """It never covers the link's target."""
    for folder in "usr", "usr/bin":
        bundle.operator.folder(f"bundle/rootfs/{folder}")
    for name, to in ("usr/bin/env", "/bin/busybox"), ("data", "/bin"):
        (bundle.root / name).symlink_to(to)
    granted = bundle.operator.folder("granted", {"f": "granted\n"})
    bundle.config["mounts"] += [
        {"destination": at, "type": "bind", "source": str(source), "options": ["ro", "rbind"]}
        for at, source in (("/usr/bin/env", granted / "f"), ("/data", granted))]
    done = bundle.sh("cat /usr/bin/env /data/f; /bin/busybox echo yes")
    assert done.status == 0 and done.out.endswith("granted\ngranted\nyes\n"), done


def test_cloisters_own_folders_are_no_layer(bundle):  # noqa: F811
    folder = root_folder(bundle.operator, "data/images/rootfs")
    bundle.write("sleep", "3", root={"path": str(folder)})
    assert "cloister keeps its own records" in bundle.refused("create", "--bundle", bundle.folder, "c1")


# ---- policies ---------------------------------------------------------------------------------

RULES = "version: 1\negress:\n  - {allow: www.example.test, paths: ['/oci/**']}\n"
POLICY, SECRETS = "io.cloister.policy", "io.cloister.secrets"


def test_a_policy_by_annotation(online, operator):
    """Requests pass the gate, and the timeline has them; without a policy there is no network."""
    online.lab.file("oci/x", "from the world")
    box = Bundle(operator)
    operator.folder("policies", {"web.yaml": RULES})
    box.options += ["--policies", str(operator.base / "policies")]
    script = ("echo $CLOISTER_CELL; wget -qO- http://www.example.test/oci/x; echo; wget -qO- http://www.example.test/other;"
              "test -s /etc/ssl/certs/ca-certificates.crt")
    done = box.sh(script, annotations={POLICY: "web"})
    cell, body, *_ = done.out.splitlines()
    online.cell = cell
    operator.kept.add(cell)
    assert body == "from the world" and "403" in done.err and done.status == 0, done
    assert [(e["verdict"], e["path"]) for e in online.events(type="http")] == [("allow", "/oci/x"), ("deny", "/other")]
    assert "bad address" in box.sh("wget -qO- http://www.example.test/oci/x").err


@as_one
def test_who_chooses_the_policy(bundle):  # noqa: F811
    """An image may have annotations: they choose among what the operator put into one folder."""
    operator = bundle.operator
    operator.folder("policies", {"web.yaml": RULES, "loose.yaml": RULES})
    operator.folder("elsewhere", {"any.yaml": RULES})
    (operator.base / "policies/loose.yaml").chmod(0o666)
    (operator.base / "policies/link.yaml").symlink_to(operator.base / "elsewhere/any.yaml")
    bundle.options += ["--policies", str(operator.base / "policies")]

    def refused(*options, **annotations):
        bundle.write("true", annotations={k.replace("_", "."): v for k, v in annotations.items()})
        return bundle.refused(*options, "create", "--bundle", bundle.folder, "c1")
    for name in ("nosuch", "../elsewhere/any.yaml", str(operator.base / "elsewhere/any.yaml"), "link", ".", ""):
        assert "there is no policy" in refused(io_cloister_policy=name)
    assert "can be changed by others" in refused(io_cloister_policy="loose")
    assert "for every container" in refused("--policy", "web", io_cloister_policy="loose")
    assert "needs a policy" in refused(io_cloister_secrets="TOKEN")
    assert "names 'TOKEN'" in refused(io_cloister_policy="web", io_cloister_secrets="TOKEN")
    assert "names 'OTHER'" in refused("--secret", "TOKEN", io_cloister_policy="web", io_cloister_secrets="TOKEN,OTHER")
    (operator.base / "policies").chmod(0o777)
    assert "can be changed by others" in refused(io_cloister_policy="web")
    assert os.listdir(bundle.states) == []


@as_one
@pytest.mark.parametrize("required", ["digest", "signature, keys: [/key.pub]"])
def test_a_policy_that_requires_a_signed_image(bundle, required):  # noqa: F811
    """The bundle of an engine has neither a digest nor a signature."""
    bundle.operator.folder("policies", {"web.yaml": f"version: 1\nimages: {{require: {required}}}\n"})
    bundle.options += ["--policies", str(bundle.operator.base / "policies")]
    bundle.write("true", annotations={POLICY: "web"})
    assert "a folder as root has none" in bundle.refused("create", "--bundle", bundle.folder, "c1")
    assert os.listdir(bundle.states) == []


@as_one
def test_secrets_by_annotation(bundle):  # noqa: F811
    operator = bundle.operator
    operator.cloister("secret", "add", "TOKEN", "--host", "www.example.test", input="real-value-1234567890").ok()
    operator.folder("policies", {"web.yaml": RULES})
    bundle.options += ["--policies", str(operator.base / "policies"), "--policy", "web", "--secret", "TOKEN"]
    done = bundle.sh("echo $CLOISTER_CELL $TOKEN", annotations={SECRETS: "TOKEN"})
    operator.kept.add(done.out.split()[0])
    assert done.status == 0 and len(done.out.split()) == 2 and "real-value" not in done.out, done
