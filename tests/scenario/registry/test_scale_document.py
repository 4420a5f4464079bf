"""docs/scale.md, executed: a laptop, a Postgres and a bucket, a second machine, an engine."""
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

import postgres_store
import s3_servers
from fake_engine import FakeEngine
from operators import TREE, as_one, wait_until
from ports import free_port

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
BLOCKS = re.findall(r"^```(sh|sh worker)\n(.*?)^```", (TREE / "docs/scale.md").read_text(), re.DOTALL | re.MULTILINE)


class Shell:
    """One that stays, as a person's does."""

    def __init__(self, machine):
        self.machine, self.log = machine, machine.base / "shell.log"
        machine.own(machine.file("shell.log", ""))
        machine.env["PATH"] = f"{machine.program.parent}:{machine.env['PATH']}"
        (machine.base / "work").mkdir()
        machine.own(machine.base / "work")
        self.process = machine.spawn("bash", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log.open("ab"),
                                     cwd=machine.base / "work")

    def run(self, script):
        """What it printed; no command of it may fail."""
        self.process.stdin.write(f"{{ set -e; {script}\n}} </dev/null; set +e; echo \"::$?\"\n".encode())
        self.process.stdin.flush()
        said = b""
        while not re.search(rb"::\d+\n$", said):
            line = self.process.stdout.readline()
            assert line, (script, said, self.log.read_text())
            said += line
        text, _, status = said.decode().rpartition("::")
        assert status == "0\n", (script, text, self.log.read_text())
        return text

    def says(self, what):
        wait_until(lambda: what in self.log.read_text(), f"it says {what!r}")

    def close(self):
        """What runs in the background ends first."""
        self.process.stdin.write(b"kill $(jobs -p); wait\n")
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture
def engine(operator, request):
    with tempfile.TemporaryDirectory(prefix="cloister-engine-") as folder:
        os.chmod(folder, 0o711)
        engine = FakeEngine(Path(folder) / "e.sock", lambda: request.getfixturevalue("machines")())
        yield engine
        engine.end()


@as_one
def test_the_steps_work_in_order(operator, engine, request, tmp_path_factory):
    server = s3_servers.server_of("s3rver", tmp_path_factory)
    postgres, address = postgres_store.shared(), f"127.0.0.1:{free_port()}"
    database = postgres.new()
    given = {"store": postgres.url(database), "key-id": server.id, "key": server.secret}
    files = {name: str(operator.own(operator.file(name, value + "\n"))) for name, value in given.items()}
    instead = [
        ("postgres://me@db.example.com/cloister", f"'{given['store']}'"),
        ("AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...", f"AWS_ACCESS_KEY_ID={server.id} AWS_SECRET_ACCESS_KEY={server.secret}"),
        ("s3://my-bucket/cloister?region=eu-west-1", f"s3://{s3_servers.BUCKET}/{os.urandom(4).hex()}?region={s3_servers.REGION}"
         f"&endpoint=http://127.0.0.1:{server.port}"),
        ("0.0.0.0:7879", address), ("service.example.com:7879", address), ("tcp://10.0.0.5:2376", f"unix://{engine.path}"),
        *((f"/etc/cloister/{name}", path) for name, path in files.items())]

    def true(script):
        for ours, theirs in instead:
            # A file is not a shell's word.
            plain = theirs.strip("'")
            script = "".join(part.replace(ours, plain if part.startswith("cat >") else theirs)
                             for part in re.split(r"(cat >.*?^EOF$)", script, flags=re.DOTALL | re.MULTILINE))
        return script
    first, second = Shell(operator), None
    scripts = iter(BLOCKS)

    def step(kind, shell, **more):
        of, script = next(scripts)
        assert of == kind
        for name, value in more.items():
            script = script.replace(name, value)
        return shell.run(true(script))
    assert "reviewed on" in step("sh", first)
    assert "reviewed on" in step("sh", first)
    first.says("workers find this service at")
    operator.env["CLOISTER_STORE"] = given["store"]
    token = step("sh", first).strip()
    # The same variables there.
    machine = request.getfixturevalue("machines")()
    blobs = dict(instead)["s3://my-bucket/cloister?region=eu-west-1"]
    machine.env |= {"CLOISTER_BLOBS": blobs, "AWS_ACCESS_KEY_ID": server.id, "AWS_SECRET_ACCESS_KEY": server.secret}
    second = Shell(machine)
    step("sh worker", second, TOKEN=token)
    second.says("connected to the service")
    assert "reviewed on" in step("sh", first)
    said = step("sh", first)
    assert "reviewed on" in said and "burst" in said and engine.made == 1
    assert next(scripts, None) is None
    second.close()
    first.close()
    rows = postgres.ask(database, "SELECT target, state FROM cloister.dispatches ORDER BY seq")
    assert rows == [["local", "3"], ["local", "3"], ["pool:builders", "3"], ["pool:burst", "3"]]


@pytest.fixture(scope="module", autouse=True)
def servers():
    yield
    s3_servers.stop_all()
