"""MCP's conformance suite finds the same faults with a server behind the gateway as with the server itself."""
import json
import os
import re
import subprocess

import pytest

from operators import IS_ROOT
from ports import free_port
from tools.test_gateway_clients import HERE, MODULES, NODE, NPM, RULES

SUITE = MODULES / "conformance/dist/index.js"
SERVER = HERE / "conformance_server.mjs"
SDK = MODULES / "sdk/dist/esm"
# The suite has no fault to find in an answer that is plain JSON; the gateway sends events only when it must.
MAY = {("server-sse-multiple-streams", "server-sse-streams-functional"): "INFO"}

pytestmark = [
    pytest.mark.skipif(NODE is None or not SUITE.exists(), reason="the suite is not in build/npm: `make npm` brings it"),
    pytest.mark.parametrize("who", ["root" if IS_ROOT else "user"])]


def words(port, version, results):
    return [str(NODE), str(SUITE), "server", "--url", f"http://127.0.0.1:{port}/mcp", "--suite", "all", "--spec-version",
            version, "-o", str(results)]


def verdicts(folder):
    """{(scenario, check): (status, why)}"""
    found = {}
    for file in folder.glob("*/checks.json"):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name)
        for check in json.loads(file.read_text()):
            found[scenario, check["id"]] = (check["status"], check.get("errorMessage", ""))
    return found


def direct(operator, version):
    port, results = free_port(), operator.folder("direct")
    with subprocess.Popen([NODE, SERVER, str(port)], env={"MCP_SDK": str(SDK)}, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline() == "ready\n"
            operator.do(*words(port, version, results), cwd=NPM)
        finally:
            server.kill()
    return verdicts(results)


def through(operator, version):
    results, scripts = operator.folder("through"), operator.folder("scripts", {
        name: (HERE / name).read_text() for name in ("conformance_server.mjs", "conformance_names.mjs")})
    server = {"command": [str(NODE), str(scripts / "conformance_server.mjs")], "read": [str(NPM), str(scripts)],
              "env": {"MCP_SDK": str(SDK)}}
    file = operator.file("tools.yaml", f"version: 1\ntools: {json.dumps({'servers': {'conf': server}})}\n{RULES}")
    script = f'mkfifo /tmp/ready; "$1" {scripts}/conformance_names.mjs 8099 conf >/tmp/ready & read ready </tmp/ready; shift; "$@"'
    done = operator.run("--tools", str(file), "-v", f"{NPM}:{NPM}:ro", "-v", f"{scripts}:{scripts}:ro", "-v",
                 f"{results}:{results}", "--", "sh", "-c", script, "sh", str(NODE),
                 *words(8099, version, results),
                 seconds=120)
    assert "=== SUMMARY ===" in done.out, done
    return verdicts(results)


# The newer revision has all scenarios of the older one.
ONCE = pytest.mark.skipif(not os.environ.get("CLOISTER_TEST_BOTH"), reason="the same at length: `make test-both`")


@pytest.mark.parametrize("version", [pytest.param("2025-06-18", marks=ONCE), "2025-11-25"])
def test_the_suite_sees_no_difference(operator, version):
    alone, behind = direct(operator, version), through(operator, version)
    passed = {key for key, (status, _) in alone.items() if status == "SUCCESS"}
    assert len(passed) > 25, alone
    worse = {key: behind.get(key) for key in passed
             if behind.get(key, (None,))[0] not in ("SUCCESS", MAY.get(key, "SUCCESS"))}
    assert worse == {}
