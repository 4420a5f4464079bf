"""The client libraries' own tests, against a real `cloister serve`, as a user of them would have it."""
import re
import shutil
import signal
import subprocess
import sys

import pytest

from operators import SECONDS, TREE, read_until
from service import Service

NODE = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")


@pytest.fixture
def packages(operator):
    """The libraries, where the operator can read them."""
    return shutil.copytree(TREE / "clients", operator.base / "clients",
                           ignore=shutil.ignore_patterns("node_modules", "__pycache__", ".pytest_cache"))


@pytest.fixture
def clients(operator, packages):
    """A service with all its sockets, and its description for the tests."""
    token = operator.home / "token"
    service = Service(operator, "--listen", "127.0.0.1:0", "--token-file", str(token))
    yield {
        "TMPDIR": str(operator.folder("tmp")),      # the user may have no name to share one by
        "CLOISTER_TEST_SOCKET": service.socket,
        "CLOISTER_TEST_URL": f"https://127.0.0.1:{service.port}",
        "CLOISTER_TEST_TOKEN": token.read_text().strip(),
        "CLOISTER_TEST_CA": str(operator.file("ca.pem", service.certificate())),
    }
    assert service.stop() == 0, service.log()


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_javascript(operator, clients):
    done = operator.do(NODE, "--test", "--test-reporter=tap", cwd=operator.base / "clients/js", env=clients,
                       seconds=2 * SECONDS)
    assert done.status == 0 and re.search(r"^# skipped 0$", done.out, re.M), done.out


def test_python(operator, clients):
    done = operator.do(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", "tests",
                       cwd=operator.base / "clients/python", env=clients, seconds=2 * SECONDS)
    assert done.status == 0 and "skipped" not in done.out, done.out


FOLLOW_JS = """
import { Client } from './index.js';
const client = new Client();
const run = client.dispatch({ subagent: 'waiter' });
for await (const e of run) console.log(`${e.n} ${e.event}`);
console.log(await run.exitCode, JSON.stringify(await run.stdout));
"""
FOLLOW_PYTHON = """
import cloister, json
run = cloister.Client().dispatch(subagent="waiter")
for e in run:
    print(e["n"], e["event"], flush=True)
print(run.exit_code, json.dumps(run.stdout))
"""
WAITER = """name: waiter
command: [sh, -c, "echo ready; until [ -e /tmp/go ]; do sleep 0.02; done; echo done; exit 4"]
"""


@pytest.mark.parametrize("words, folder", [
    pytest.param((NODE, "--input-type=module", "-e", FOLLOW_JS), "js",
                 marks=pytest.mark.skipif(NODE is None, reason="there is no node")),
    ((sys.executable, "-c", FOLLOW_PYTHON), "python"),
], ids=["javascript", "python"])
def test_service_is_killed_and_comes_back(operator, packages, words, folder):
    """A client that follows a dispatch sees each event once, and its end."""
    service = Service(operator)
    operator.cloister("agent", "register", operator.file("waiter.yaml", WAITER)).ok()
    client = operator.spawn(*words, cwd=packages / folder, stdout=subprocess.PIPE)
    seen = read_until(client.stdout.fileno(), b"agent.output\n")
    service.stop(signal.SIGKILL)
    service.start()
    cell = operator.cells()[0]["cell"]
    operator.cloister("exec", cell, "touch", "/tmp/go")
    seen = (seen + client.communicate(timeout=SECONDS)[0]).decode().splitlines()
    assert client.returncode == 0 and seen[-1] == '4 "ready\\ndone\\n"', seen
    assert [int(line.split()[0]) for line in seen[:-1]] == list(range(1, len(seen)))
    assert seen[-2].endswith("dispatch.finished")
    assert service.stop() == 0, service.log()
