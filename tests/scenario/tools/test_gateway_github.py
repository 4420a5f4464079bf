"""The GitHub server from npm behind the gateway: it holds a placeholder, and GitHub sees the real token."""
import json
import random

import pytest
import yaml

from egress_lab import NPM, needs_npm_module
from operators import TREE, only_user
from tools_lab import copy_package

HERE = TREE / "tests/scenario"
SERVER = "@modelcontextprotocol/server-github"
NODE = next((path.relative_to(NPM) for path in NPM.glob("node_modules/node-linux-*/bin/node")), None)
TOKEN = "GITHUB_PERSONAL_ACCESS_TOKEN"
START = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"}]
pytestmark = [only_user, needs_npm_module(SERVER),
              pytest.mark.skipif(NODE is None, reason="node is not in build/npm: `make npm` brings it")]


@pytest.fixture(scope="module")
def github(lab):
    with lab.serve("egress_saas.py"):
        yield lab


def call(n, name, **arguments):
    return {"jsonrpc": "2.0", "id": n, "method": "tools/call",
            "params": {"name": f"github.{name}", "arguments": {"owner": "me", "repo": "it", **arguments}}}


class Project:
    """A folder with the server and a policy, and a client."""

    def __init__(self, online):
        self.online, self.operator = online, online.operator
        self.real = f"ghp_{random.randbytes(18).hex()}"
        self.operator.cloister("secret", "add", TOKEN, "--host", "api.github.com", input=self.real).ok()
        (online.lab.folder / "saas.keys").write_text(json.dumps({"api.github.com": self.real}))
        self.before = len(online.lab.lines("saas.jsonl"))
        self.folder = self.operator.folder("project")
        copy_package(SERVER, self.folder / "node_modules", set())
        node = online.lab.folder / "npm" / NODE
        self.server = {"command": [str(node), f"node_modules/{SERVER}/dist/index.js"], "folder": ".", "read": [str(node)],
                       "policy": {"egress": [{"allow": "api.github.com"}], "secrets": [TOKEN]}}
        self.client = self.operator.folder("client", {"client.py": (HERE / "tools_client.py").read_text()})

    def write(self, **tools):
        tools["servers"] = {"github": self.server}
        self.operator.file("project/cloister.yaml", yaml.safe_dump({"version": 1, "tools": tools, "egress": [
            {"allow": "tool:github.*"}]}))

    def run(self, *steps):
        """The results or errors of calls, as text."""
        done = self.operator.run("--name", "agent", "--keep", "-p", "cloister.yaml", "-v", f"{self.client}:/client:ro", "--",
                                 "/usr/bin/python3", "/client/client.py", json.dumps([*START, *steps]), cwd=self.folder,
                                 seconds=120)
        self.operator.kept |= {cell["cell"] for cell in self.operator.cells("-a")}
        assert done.status == 0 and self.real not in done.out + done.err, done
        got = {one["id"]: one for one in map(json.loads, done.out.splitlines()) if "id" in one}
        return [one["error"]["message"] if "error" in one else one["result"]["content"][0]["text"]
                for one in (got[step["id"]] for step in steps)]

    def asked(self):
        """The paths that GitHub was asked for, always with the real token."""
        told = [json.loads(line) for line in self.online.lab.lines("saas.jsonl")[self.before:]]
        assert all(one["ok"] and one["key"] == self.real for one in told), told
        return [one["target"] for one in told]


@pytest.fixture
def project(online, github):
    return Project(online)


def test_github_sees_the_real_token(project):
    project.write()
    created, read = map(json.loads, project.run(call(1, "create_issue", title="A bug"), call(2, "get_issue", issue_number=7)))
    assert created["title"] == "A bug" and read["number"] == 7
    assert project.asked() == ["/repos/me/it/issues", "/repos/me/it/issues/7"]


def test_a_call_without_the_secret(project):
    """In the same running server, another tool may use it."""
    project.write(lock="tools.lock.yaml")
    project.operator.cloister("tools", "lock", cwd=project.folder).ok()
    lock = yaml.safe_load((project.folder / "tools.lock.yaml").read_text())
    tools = lock["servers"]["github"]["tools"]
    tools["create_issue"]["scope"] = {"egress": [{"allow": "api.github.com", "methods": ["POST"]}], "secrets": [TOKEN]}
    tools["get_issue"]["scope"] = {"egress": [{"allow": "api.github.com", "methods": ["GET"]}]}
    project.operator.file("project/tools.lock.yaml", yaml.safe_dump(lock))
    created, refused = project.run(call(1, "create_issue", title="A bug"), call(2, "get_issue", issue_number=7))
    assert json.loads(created)["title"] == "A bug" and "Permission Denied" in refused, refused
    assert project.asked() == ["/repos/me/it/issues"]
    told = project.operator.cloister("events", "agent", "--type", "tool").out
    assert "github.get_issue breach: annotation broken" in told and "does not name it in `uses`" in told
