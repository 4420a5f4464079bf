"""The cells of MCP servers: from an image, and in a virtual machine of their own."""
import json
import os

import pytest

import images
import microvm
from images import Store
from operators import IS_STATIC
from tools.test_gateway import ECHO, Gateway, ask, call, locked  # pylint: disable=unused-import

# A server for busybox.  What it knows of its place is its answer.
SERVER = r"""#!/bin/sh
while read -r line; do
	id=${line#*\"id\":}
	id=${id%%,*}
	case $line in
	*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"tiny","version":"1"}}' ;;
	*'"tools/list"'*) result='{"tools":[{"name":"where","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*) result="{\"content\":[{\"type\":\"text\",\"text\":\"$(echo $(ls /) $(cat /app/name))\"}]}" ;;
	*) continue ;;
	esac
	echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
"""


@pytest.fixture
def gateway(operator):
    return Gateway(operator)


@pytest.mark.skipif(not IS_STATIC, reason="this init is not static")
@pytest.mark.parametrize("command", [[], ["/bin/sh", "/app/main"]], ids=["its-own", "named"])
def test_a_server_from_an_image(gateway, command):
    """Its command, its files, and nothing of the host."""
    Store(gateway.operator).add("docker.io/library/tiny:1", {**images.busybox(), "app/main": SERVER, "app/name": "tiny"},
                                config={"Cmd": ["/app/main"]})
    gateway.tools = {"tiny": {"image": "tiny:1", **({"command": command} if command else {})}}
    listed, called = gateway.run(ask(1, "tools/list"), call(2, "tiny.where"))
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["tiny.where"], (gateway.done, gateway.records())
    *places, name = called["result"]["content"][0]["text"].split()
    assert name == "tiny" and "app" in places and "lib" not in places, called


def test_an_image_that_is_not_there(gateway):
    gateway.tools = {"tiny": {"image": "nowhere:1"}}
    refused = gateway.one(call(1, "tiny.where"))
    assert "could not be started" in refused["error"]["message"]
    assert any("nowhere" in one.get("reason", "") for one in gateway.records()), gateway.records()


@pytest.mark.skipif(not os.environ.get("CLOISTER_TEST_VM"), reason="takes long: `make test-vm`")
def test_a_server_in_a_microvm(gateway, ground):
    """One virtual machine for each server: neither shares a kernel with the agent, nor with the other."""
    operator = gateway.operator
    operator.env |= {name: value for name, value in microvm.environment(ground).items() if name != "CLOISTER_BOUNDARY"}
    text = (gateway.servers / "server.py").read_text().replace('if name == "die":', 'if name == "echo":\n        return text('
        '" ".join([os.uname().release, open("/proc/sys/kernel/random/boot_id").read().strip()]))\n    if name == "die":')
    operator.file("servers/server.py", text)
    policy = {"boundary": "microvm", "limits": {"memory": "256M"}}
    gateway.tools = {name: gateway.server(timeout="5m", **({"policy": policy} if name != "plain" else {}))
                     for name in ("one", "two", "plain")}
    got = gateway.run(*[call(n, f"{name}.echo") for n, name in enumerate(("one", "two", "plain", "one"), 1)])
    assert all("result" in one for one in got), (got, gateway.records())
    one, two, plain, again = [answer["result"]["content"][0]["text"].split() for answer in got]
    assert plain[0] == os.uname().release and one[0] == two[0] != plain[0], got
    assert len({one[1], two[1], plain[1]}) == 3 and one == again, got
    cells = {row["of"]: row["server_cell"] for row in gateway.records() if row["did"] == "start"}
    assert len(set(cells.values())) == 3, cells
