"""The examples of docs/sandbox.md and of the clients' READMEs work, as they stand there."""
import re
import shutil
import subprocess
import sys

import pytest

from operators import CLOISTER, SECONDS, TREE
from service import Service

NODE = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")


def blocks(document, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (TREE / document).read_text(), flags=re.M | re.S)


@pytest.fixture
def place(operator):
    """A folder in which both clients are installed."""
    clients = shutil.copytree(TREE / "clients", operator.base / "clients",
                              ignore=shutil.ignore_patterns("node_modules", "__pycache__", ".pytest_cache"))
    folder = operator.folder("place")
    modules = operator.folder("place/node_modules")
    (modules / "cloister-client").symlink_to(clients / "js")
    operator.env["PYTHONPATH"] = str(clients / "python")
    (operator.base / "xdg/cloister").symlink_to(operator.runtime)       # where an example looks for the socket
    return folder


def javascript(operator, place, text):
    operator.file("place/example.mjs", text)
    return operator.do(NODE, "example.mjs", cwd=place, seconds=SECONDS).ok()


def python(operator, place, text):
    return operator.do(sys.executable, "-c", text, cwd=place, seconds=SECONDS).ok()


@pytest.mark.skipif(NODE is None or CLOISTER.name != "cloister", reason="there is no node, or it is another program")
def test_examples(operator, place):
    service = Service(operator)
    path = f"{operator.program.parent}:/usr/bin:/bin"
    register, desk, api = blocks("docs/sandbox.md", "sh")
    operator.do("sh", "-ec", register + desk, cwd=place, env={"PATH": path}).ok()
    first, terminal = blocks("docs/sandbox.md", "python")
    assert "42\r\nexit\r\n 0\n" in python(operator, place, "import cloister\n" + terminal)
    for said in (javascript(operator, place, blocks("docs/sandbox.md", "js")[0]), python(operator, place, first)):
        assert re.search(r"^0 42\n.*^stdout one\n.*^stderr two\n", said, re.M | re.S), said
    first, *rest = blocks("clients/js/README.md", "js")
    said = [javascript(operator, place, block) for block in (first, *rest)]
    assert "dispatch.finished" in said[0] and "0 hello" in said[1]
    whole = ["3 9", "stdout hello", "created /tmp/site/index.html", "<h1>hello</h1>", "index.html file 15"]
    assert all(word in said[-1] for word in whole) and said[-1].endswith("cancelled\n") and said[-1].count("<h1>") == 2, said[-1]
    said = python(operator, place, "\n".join(blocks("clients/python/README.md", "python")))
    assert all(word in said for word in ["dispatch.finished", *whole]) and said.count("<h1>") == 2, said
    old = "invalid option" in subprocess.run(["curl", "--json"], capture_output=True, text=True, check=False).stderr
    api = api.replace("--json", "-H Content-Type:application/json -d") if old else api
    said = operator.do("sh", "-ec", api + '\napi /v1/dispatches/$id/cancel -X POST; api /v1/dispatches/$id/events',
                       cwd=place, env={"PATH": path}).ok()
    assert '"text":"hello\\n"' in said and '"name":"note"' in said, said
    assert service.stop() == 0, service.log()
