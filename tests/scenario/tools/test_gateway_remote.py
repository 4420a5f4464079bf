"""The gateway to a remote MCP server: over TLS, with a bearer token of which the server's cell has a placeholder."""
import json

import pytest

from egress_lab import NPM
from operators import TREE

HERE = TREE / "tests/scenario"
TOKEN = "mcp-9f2c7b1e4d6a8035"
EVERYTHING = NPM / "node_modules/@modelcontextprotocol/server-everything"
STEPS = [
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "far-off.echo", "arguments": {"message": "hi"}}},
]

pytestmark = pytest.mark.skipif(not EVERYTHING.exists(), reason="the server is not in build/npm: `make npm` brings it")


@pytest.fixture(scope="module")
def remote(lab):
    with lab.serve("egress_front.py", "mcp", TOKEN):
        yield lab


def ask(online, path="/mcp", secrets=("FAR_OFF_TOKEN",)):
    own = {"egress": [{"allow": "forge.example.test"}], "secrets": list(secrets)}
    servers = {"far-off": {"url": f"https://forge.example.test{path}", "policy": own, "timeout": "20s"}}
    file = online.operator.file("tools.yaml", f"version: 1\ntools: {json.dumps({'servers': servers})}\negress: [{{allow: tool:**}}]\n")
    client = online.operator.folder("client", {"client.py": (HERE / "tools_client.py").read_text()})
    done = online.operator.run("--tools", file, "-w", f"{client}:ro", "--", "/usr/bin/python3", "client.py", json.dumps(STEPS),
                               seconds=120)
    assert done.status == 0, done
    return done, [json.loads(line) for line in done.out.splitlines()]


def test_a_server_elsewhere_with_a_token(online, remote):
    online.operator.cloister("secret", "add", "FAR_OFF_TOKEN", "--host", "forge.example.test", input=TOKEN).ok()
    done, got = ask(online)
    listed = [one for one in got if one.get("id") == 1]
    assert "far-off.echo" in [tool["name"] for tool in listed[0]["result"]["tools"]], done
    [called] = [one for one in got if one.get("id") == 2]
    assert called["result"]["content"][0]["text"] == "Echo: hi", done
    assert TOKEN not in done.out + done.err


def test_a_server_elsewhere_refuses_a_wrong_token(online, remote):
    online.operator.cloister("secret", "add", "FAR_OFF_TOKEN", "--host", "forge.example.test", input="mcp-another000000").ok()
    done, got = ask(online)
    [called] = [one for one in got if one.get("id") == 2]
    assert "401" in called["error"]["message"], done
