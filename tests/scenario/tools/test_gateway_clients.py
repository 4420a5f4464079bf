"""The gateway between real clients and real servers: both SDKs, the inspector, and servers from npm."""
import json

import pytest

from egress_lab import NPM
from operators import IS_ROOT, TREE

HERE = TREE / "tests/scenario"
MODULES = NPM / "node_modules/@modelcontextprotocol"
NODE = next(iter(sorted(NPM.glob("node_modules/node-linux-*/bin/node"))), None)
RULES = """egress:
  - allow: tool:**
  - allow: resource:**
  - allow: prompt:**
"""

pytestmark = [
    pytest.mark.skipif(NODE is None or not (MODULES / "server-everything").exists(),
                       reason="the servers are not in build/npm: `make npm` brings them"),
    # They are not where every user can read them.
    pytest.mark.parametrize("who", ["root" if IS_ROOT else "user"])]


def tools(operator, **servers):
    rows = {name: {"command": [str(NODE), str(MODULES / f"server-{name}/dist/index.js"), *words], "read": [str(NPM)], **keys}
            for name, (words, keys) in servers.items()}
    return operator.file("tools.yaml", f"version: 1\ntools: {json.dumps({'servers': rows})}\n{RULES}")


def node(operator, file, *words, input=""):
    return operator.run("--tools", str(file), "-v", f"{NPM}:{NPM}:ro", "-e", "MCP_CATALOG_PATH=/tmp/catalog", "-e",
                        f"PATH={NODE.parent}:/usr/bin:/bin", "--", str(NODE), *map(str, words), input=input, seconds=120)


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("which", ["v1", "v2", "v2-auto"])
def test_the_sdks(operator, which, transport):
    done = operator.run("--tools", str(tools(operator, everything=([], {}))), "-w", f"{NPM}:ro",
                        "--", str(NODE), "--input-type=module", "-", which, transport,
                        input=(HERE / "tools_sdk.mjs").read_text(), seconds=120)
    seen = json.loads(done.ok())
    assert "everything.echo" in seen["tools"] and seen["echo"] == "Echo: hello" and "5" in seen["sum"]
    assert "sampled" in seen["sampled"] and "sampling/createMessage" in seen["asked"]
    assert "parsnip" in seen["elicited"] and "elicitation/create" in seen["asked"]
    assert seen["version"] in (None, "2025-11-25")      # the newest that the gateway speaks
    # An SDK that reads progress and the result at once may deal with the result first.
    assert seen["progress"] and seen["progress"] == [1, 2][:len(seen["progress"])]
    assert seen["resources"] > 0 and seen["read"] and seen["prompt"] > 0
    assert all(name.startswith("everything.") for name in [*seen["tools"], *seen["prompts"]])


def inspector(operator, file, target, *words):
    return json.loads(node(operator, file, NPM / "node_modules/.bin/mcp-inspector", "--cli", *target, *words).ok())


@pytest.mark.parametrize("target", [["http://tools.cloister.internal/mcp", "--transport", "http"],
                                    ["/run/cloister/cloister-tools"]], ids=["http", "stdio"])
def test_the_inspector(operator, target):
    shared = operator.folder("shared", {"a.txt": "parsnip"})
    file = tools(operator, filesystem=([str(shared)], {"write": [str(shared)]}), memory=([], {}))
    names = [tool["name"] for tool in inspector(operator, file, target, "--method", "tools/list")["tools"]]
    assert "filesystem.read_text_file" in names and "memory.create_entities" in names
    read = inspector(operator, file, target, "--method", "tools/call", "--tool-name", "filesystem.read_text_file",
                     "--tool-arg", f"path={shared}/a.txt")
    assert read["content"][0]["text"] == "parsnip"
    inspector(operator, file, target, "--method", "tools/call", "--tool-name", "filesystem.write_file",
              "--tool-arg", f"path={shared}/b.txt", "--tool-arg", "content=turnip")
    assert (shared / "b.txt").read_text() == "turnip"
