"""`cloister mcp` before those who made the protocol: both SDKs, the inspector, the conformance suite.

They come with `make npm`, and so does a Node that is new enough for them."""
import json
import os
import re

import pytest

from egress_world import NPM
from mcp_lab import Http, Proxy, Stand
from operators import IS_ROOT, SECONDS, TREE

NODE = next(iter(sorted(NPM.glob("node_modules/node-linux-*/bin/node"))), None)
MODULES = NPM / "node_modules/@modelcontextprotocol"
TOOLS = ["list_agents", "dispatch", "status", "output", "result_files", "cancel"]

pytestmark = [
    pytest.mark.skipif(NODE is None or not (MODULES / "conformance").exists(),
                       reason="MCP's own judges are not in build/npm: `make npm` brings them"),
    # They are not where every user can read them.
    pytest.mark.parametrize("who", ["root" if IS_ROOT else "user"])]


@pytest.fixture
def stand(operator):
    stand = Stand(operator)
    stand.finish.set()
    yield stand
    stand.close()


def node(operator, *argv, input=None, env=None):
    path = {"PATH": f"{NODE.parent}:{os.environ['PATH']}", "MCP_CATALOG_PATH": str(operator.home / "catalog")}
    return operator.do(NODE, *argv, input=input, cwd=NPM, env={**path, **(env or {})})


# ---- SDKs

def judge(operator, which, server, env=None):
    """The observations of the SDK; SERVER is None for standard input and output."""
    where = ["stdio", operator.program] if server is None else \
        ["http", f"http://127.0.0.1:{server.port}/mcp"]
    script = (TREE / "tests/scenario/mcp_sdk.mjs").read_text()
    token = {"MCP_TOKEN": server.token} if server else {}
    return json.loads(node(operator, "--input-type=module", "-", which, *where, input=script,
                           env={**token, **(env or {})}).ok())


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("which, version", [("v1", "2025-11-25"), ("v2", "2026-07-28"),
                                            ("v2-auto", "2026-07-28")])
def test_the_sdks(operator, stand, transport, which, version):
    seen = judge(operator, which, Http(operator) if transport == "http" else None)
    assert seen["tools"] == TOOLS and seen["server"] == "cloister" and seen["agents"] == ["echo"]
    assert seen["version"] == version or (which, transport, seen["version"]) == ("v1", "stdio", None)
    assert seen["done"]["state"] == "finished" and seen["done"]["stdout"] == "said\n"
    # An SDK that reads progress and the result at once deals with the result first, and then no
    # longer knows what the progress was of.
    said = ["it is queued", "its cell runs", "it is over"]
    assert seen["progress"] == said[:len(seen["progress"])]
    assert seen["status"]["exit_code"] == 0 and seen["output"]["text"] == "said\n"
    assert [file["path"] for file in seen["files"]] == ["a/b"]
    assert seen["bad"] == [True, "'id' is to be of type string"] and seen["unknown"] == -32602
    assert [error for error in seen["errors"] if "progress notification for an unknown" not in error] == []


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("which", ["v1", "v2"])
def test_an_sdk_gives_up(operator, stand, transport, which):
    """In each revision's way: a notification, or the end of the connection."""
    seen = judge(operator, which, Http(operator) if transport == "http" else None, {"MCP_SLOW": "slow"})
    assert seen["given_up"] == "given up"
    assert stand.cancelled.wait(SECONDS)


# ---- the inspector

def inspect(operator, server, *words):
    options = ["--transport", "http", "--header", f"Authorization: Bearer {server.token}"] if server else \
        ["-e", f"CLOISTER_RUNTIME_DIR={operator.runtime}"]
    target = [f"http://127.0.0.1:{server.port}/mcp"] if server else [operator.program, "mcp"]
    return node(operator, NPM / "node_modules/.bin/mcp-inspector", "--cli", *target, *options, *words)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector(operator, stand, transport):
    server = Http(operator) if transport == "http" else None
    listed = inspect(operator, server, "--method", "tools/list", "--strict")
    assert [tool["name"] for tool in json.loads(listed.ok())["tools"]] == TOOLS
    assert listed.err == ""
    called = inspect(operator, server, "--method", "tools/call", "--tool-name", "dispatch",
                     "--tool-arg", "agent=echo")
    assert json.loads(called.ok())["structuredContent"]["stdout"] == "said\n"


# ---- the conformance suite

# It is made for a server that has everything, with tools of its own.  What is failed for the lack
# of those is no fault; anything else is.
LACKING = re.compile(r"there is no such (tool|method)|^Not testable: |"
                     r"^Tool '\w+' not found|^Prerequisite failed: could not get initial InputRequired|"
                     r"^Expected InputRequiredResult|was not exercised: resources/list failed|"
                     # -32601 where -32602 or more was hoped for: there are no resources, and no tool
                     # that asks back.
                     r"\(Invalid Params\), got -32601|Error data\.uri is undefined|"
                     r"instead of re-requesting via InputRequiredResult|"
                     r"^$")
# What is not lacking; each has to be there, and to have passed.
PASSES = {
    "2025-06-18": {"server-initialize", "server-session-initialized-accepted", "ping", "tools-list"},
    "2025-11-25": {"server-initialize", "ping", "tools-list", "localhost-host-rebinding-rejected",
                   "localhost-host-valid-accepted"},
    "2026-07-28": {"tools-list", "localhost-host-rebinding-rejected", "localhost-host-valid-accepted",
                   "sep-2549-tools-list-caching-hints", "sep-2575-server-implements-discover",
                   "sep-2575-server-unsupported-version-error", "sep-2575-http-server-header-mismatch-400",
                   "sep-2575-http-server-method-not-found-404",
                   "sep-2575-discover-capabilities-match-handlers", "sep-2243-header-name-case-insensitive"},
}


@pytest.mark.parametrize("version", sorted(PASSES))
def test_conformance(operator, stand, version):
    proxy = Proxy(Http(operator))
    results = operator.folder("results")
    done = node(operator, MODULES / "conformance/dist/index.js", "server", "--url",
                f"http://127.0.0.1:{proxy.port}/mcp", "--suite", "all", "--spec-version", version, "-o",
                results)
    proxy.close()
    assert "=== SUMMARY ===" in done.out, done
    checks = [check for file in results.glob("*/checks.json") for check in json.loads(file.read_text())]
    passed = {check["id"] for check in checks if check["status"] == "SUCCESS"}
    failed = [(check["id"], check.get("errorMessage", "")) for check in checks
              if check["status"] not in ("SUCCESS", "INFO")]
    faults = [(id, why) for id, why in failed if not LACKING.search(why)]
    assert faults == []
    assert PASSES[version] - passed == set(), sorted(passed)
