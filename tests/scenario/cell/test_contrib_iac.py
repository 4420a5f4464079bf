"""contrib/ansible, cloud-init and compose: their own tools read them, and they are applied: to a machine with a real systemd,
and to a real engine."""
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from operators import BUILD, CLOISTER, IS_ROOT, TREE, wait_until
from systemd_lab import NEEDS, boot

ANSIBLE = TREE / "contrib/ansible"
CLOUD = TREE / "contrib/cloud-init/worker.yaml"
COMPOSE = TREE / "contrib/compose/compose.yaml"
ENGLISH = ("env", "LC_ALL=C.UTF-8", "ANSIBLE_NOCOLOR=1", "ANSIBLE_HOME=/root/ansible", "ANSIBLE_LOCAL_TEMP=/root/ansible/tmp")
STORE = 'postgres://cloister:pa"ss\\w$rd%@db.example/cloister'


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"there is no {program}: `make deps-test`")


@pytest.fixture
def archive(tmp_path):
    """As `make tarball` makes it, of the programs that are built."""
    files = {"bin/cloister": CLOISTER, **{f"libexec/cloister/{p.name}": p for p in (CLOISTER.parent / "libexec").iterdir()},
             "install.sh": TREE / "packaging/install.sh",
             **{f"share/doc/cloister/{p.relative_to(TREE / 'contrib')}": p
                for p in (TREE / "contrib/systemd").rglob("*") if p.is_file()}}
    sums = "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {name}\n" for name, p in sorted(files.items()))
    file = tmp_path / "cloister.tar.gz"
    with tarfile.open(file, "w:gz", compresslevel=1) as tar:
        for name, path in files.items():
            tar.add(path, f"cloister-1/{name}")
        info = tarfile.TarInfo("cloister-1/SHA256SUMS")
        info.size = len(sums)
        tar.addfile(info, io.BytesIO(sums.encode()))
    return file, hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def machine(tmp_path, archive):
    """One without cloister, whose curl fetches the archive."""
    units = tmp_path / "units"
    units.mkdir()
    (units / "none.target").write_text("[Unit]\n")
    with boot(tmp_path, units) as machine:
        home = Path(f"/proc/{machine.pid}/root/root")
        assert machine.do("rm", "-rf", "/usr/local/bin/cloister", "/usr/local/libexec/cloister", "/etc/cloister")[0] == 0
        shutil.copytree(TREE / "contrib", home / "contrib")
        shutil.copy(archive[0], home / "cloister.tar.gz")
        curl = Path(f"/proc/{machine.pid}/root/usr/local/bin/curl")
        curl.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; cp /root/cloister.tar.gz "$2"\n')
        curl.chmod(0o755)
        yield machine


def has_units(machine):
    assert machine.do("systemctl", "is-enabled", "cloister-worker@builders.service")[1] == "enabled"
    # There is no such database, so systemd starts the worker again and again: as its user, and with its variables.
    wait_until(lambda: machine.do("systemctl", "show", "-p", "ExecMainStatus", "--value",
                                  "cloister-worker@builders.service")[1] in ("1", "125"), "the worker was started")
    assert machine.do("stat", "-c", "%a %U", "/etc/cloister/worker.env") == (0, "600 root")


# ---- Ansible

@needs("ansible-lint")
def test_ansible_lint():
    done = subprocess.run(["ansible-lint", "--offline", "--profile", "production", "--nocolor"], cwd=ANSIBLE, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS
@needs("ansible-playbook")
@pytest.mark.skipif("CLOISTER_TEST_PACKAGES" not in os.environ, reason="takes long: `make test-packages`")
def test_ansible(machine, archive):
    given = {"cloister_archive": "/root/cloister.tar.gz", "cloister_sha256": archive[1], "cloister_service": True,
             "cloister_service_options": ["--concurrency", "3"], "cloister_service_env": {"WORD": "s3cret-word"},
             "cloister_pools": ["builders"], "cloister_worker_env": {"CLOISTER_STORE": STORE}}

    def play(*words, **more):
        return machine.do(*ENGLISH, "ansible-playbook", "-i", "localhost,", "-c", "local", "-e", json.dumps({**given, **more}),
                          *words, "/root/contrib/ansible/site.yml")
    for more, why in (({"cloister_sha256": ""}, "Set cloister_archive"), ({"cloister_sha256": "0" * 64}, "not the one with this hash"),
                      ({"cloister_worker_env": {}}, "CLOISTER_STORE")):
        status, said = play(**more)
        assert status != 0 and why in said, said
        assert machine.do("test", "-e", "/usr/local/bin/cloister")[0] == 1
    status, said = play("--check")
    assert status == 0 and "failed=0" in said, said
    assert machine.do("test", "-e", "/usr/local/bin/cloister")[0] == 1 and STORE not in said
    status, said = play()
    assert status == 0 and "failed=0" in said, said
    assert STORE not in said and "s3cret-word" not in said
    # Again: nothing changes.
    status, said = play()
    assert status == 0 and "changed=0" in said, said
    status, said = play("--check")
    assert status == 0 and "changed=0" in said, said
    has_units(machine)
    assert machine.ask("GET", "/v1/version")["api"] == ["v1"]
    pid = machine.show("MainPID")
    assert machine.do("sh", "-c", f"tr '\\0' '\\n' </proc/{pid}/cmdline")[1].endswith("--concurrency=3\n--"), \
        machine.do("sh", "-c", f"tr '\\0' '\\n' </proc/{pid}/cmdline")
    assert "WORD=s3cret-word" in machine.do("sh", "-c", f"tr '\\0' '\\n' </proc/{pid}/environ")[1].splitlines()
    # What a variable has is what the unit gets.
    said = machine.do("systemd-run", "--wait", "--pipe", "--quiet", "-p", "EnvironmentFile=/etc/cloister/worker.env", "printenv",
                      "CLOISTER_STORE")
    assert said == (0, STORE)


# ---- cloud-init

@needs("cloud-init")
def test_cloud_init_schema():
    done = subprocess.run(["cloud-init", "schema", "--config-file", str(CLOUD)], text=True, capture_output=True, check=False)
    assert done.returncode == 0 and "Valid" in done.stdout, done.stdout + done.stderr


# What cloud-init itself does with the two parts, and nothing else of it: it would look after disks and networks.
APPLY = """import sys, yaml, subprocess
from cloudinit import util
from cloudinit.config import cc_write_files
config = yaml.safe_load(open(sys.argv[1]))
cc_write_files.write_files('test', config['write_files'], 'root')
open('/root/runcmd', 'w').write(util.shellify(config['runcmd']))
sys.exit(subprocess.call(['sh', '-e', '/root/runcmd']))
"""


@NEEDS
@needs("cloud-init")
def test_cloud_init(machine, archive):
    text = CLOUD.read_text()
    for word, value in (("SHA256", archive[1]), ("USER:PASSWORD@DATABASE.EXAMPLE", "me:secret@db.example")):
        assert word in text
        text = text.replace(f", {word},", f", {value},") if word == "SHA256" else text.replace(word, value)
    home = Path(f"/proc/{machine.pid}/root/root")
    (home / "apply.py").write_text(APPLY)
    for hash, fits in (("0" * 64, False), (archive[1], True)):
        (home / "user-data").write_text(text.replace(archive[1], hash))
        status, said = machine.do(sys.executable, "/root/apply.py", "/root/user-data")
        assert (status == 0) == fits, said
        assert (machine.do("test", "-e", "/usr/local/bin/cloister")[0] == 0) == fits, said
    has_units(machine)
    assert machine.do("cat", "/etc/cloister/worker.env")[1] == "CLOISTER_STORE=postgres://me:secret@db.example/cloister"


# ---- compose

@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(COMPOSE.parent, folder)
    seccomp = next(iter((BUILD / "image").glob("seccomp.json")), None)
    (folder / "seccomp.json").write_text(seccomp.read_text() if seccomp else '{"defaultAction": "SCMP_ACT_ALLOW"}')
    for name, text in (("password", "secret"), ("worker.env", "CLOISTER_STORE=postgres://me@db/cloister\n"), ("s3.env", "")):
        (folder / name).write_text(text)
    return folder


def compose(project, *words, **env):
    done = subprocess.run(["docker-compose", *words], cwd=project, text=True, capture_output=True, check=False,
                          env={**os.environ, **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs("docker-compose")
def test_compose_is_read(project):
    yaml = pytest.importorskip("yaml")
    said = yaml.safe_load(compose(project, "config"))
    assert said["services"]["worker"]["environment"] == {"CLOISTER_STORE": "postgres://me@db/cloister"}
    # Version 2 leaves out what has another profile.
    assert all(service.get("profiles") == (["s3"] if name == "s3" else None) for name, service in said["services"].items())
    said = yaml.safe_load(compose(project, "--profile", "s3", "config"))
    assert set(said["services"]) == {"db", "worker", "s3"}
    # Nothing is open to the network.
    assert [str(port) for service in said["services"].values() for port in service.get("ports", [])] == [
        "127.0.0.1:5432:5432/tcp", "127.0.0.1:9000:9000/tcp"]


@needs("docker-compose")
@pytest.mark.skipif(not IS_ROOT, reason="only root can start an engine of its own")
def test_compose_is_created(project, engines_of):
    """A real engine takes every word of it; the images are stand-ins."""
    engine = engines_of("docker")
    for name in ("postgres:15", "cloister-worker:0.1.0"):
        engine.take(name, change='CMD ["true"]')
    # Compose 1, which Debian has, knows nothing of system paths; Docker itself and Compose 2 do.
    text = (project / "compose.yaml").read_text()
    assert ', "systempaths=unconfined"' in text
    (project / "compose.yaml").write_text(text.replace(', "systempaths=unconfined"', ""))
    # The tests' engine has no bridge.
    (project / "net.yaml").write_text('version: "3.8"\nservices:\n  db: {network_mode: none}\n  worker: {network_mode: none}\n')
    where = {"DOCKER_HOST": f"unix://{engine.socket}", "COMPOSE_FILE": "compose.yaml:net.yaml"}
    try:
        compose(project, "up", "--no-start", "--scale", "worker=2", **where)
        made = [json.loads(engine.ask("GET", f"/containers/{one['Id']}/json"))
                for one in json.loads(engine.ask("GET", "/containers/json?all=true"))]
        workers = [one for one in made if one["Config"]["Image"] == "cloister-worker:0.1.0"]
        assert len(workers) == 2 and len(made) == 3, made
        for one in workers:
            host = one["HostConfig"]
            assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and host["PidsLimit"] == 4096, host
            assert one["Config"]["Cmd"] == ["--pool", "builders", "--slots", "4"]
            assert not host["Privileged"] and any(word.startswith("seccomp={") for word in host["SecurityOpt"]), host["SecurityOpt"]
    finally:
        compose(project, "down", "--volumes", **where)
