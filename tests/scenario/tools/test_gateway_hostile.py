"""Hostile agents and hostile servers at the gateway."""
import pytest

from tools.test_gateway import ECHO, Gateway, ask, call, locked, site  # pylint: disable=unused-import

OLD = """
import json, time, urllib.request
HOST = "http://tools.cloister.internal"
stream = urllib.request.urlopen(urllib.request.Request(HOST + "/mcp", headers={"Accept": "text/event-stream"}))
def line():
    while True:
        one = stream.readline()
        if one.startswith(b"data: "):
            return one[6:].strip().decode()
where = line()
def post(message):
    request = urllib.request.Request(HOST + where, json.dumps(dict(message, jsonrpc="2.0")).encode(), {"Content-Type": "application/json"})
    return urllib.request.urlopen(request).status
post({"id": 1, "method": "initialize", "params": {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
line()
"""


@pytest.fixture
def gateway(operator):
    return Gateway(operator)


def script(gateway, text, *options):
    gateway.operator.file("agent/attack.py", text)
    return gateway.operator.run("-p", str(gateway.policy()), "-w", f"{gateway.folder}:rw", *options, "--", "/usr/bin/python3", "attack.py")


def test_an_old_client_goes_before_its_answer(gateway):
    done = script(gateway, OLD + """
for n in range(20):
    post({"id": 2 + n, "method": "tools/call", "params": {"name": "test.slow", "arguments": {"s": 0.2}}})
stream.fp.raw._sock.shutdown(2)
stream.close()
stream = urllib.request.urlopen(urllib.request.Request(HOST + "/mcp", headers={"Accept": "text/event-stream"}))
where = line()
post({"id": 1, "method": "initialize", "params": {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
line()
print(post({"id": 99, "method": "tools/call", "params": {"name": "test.echo", "arguments": {"a": 1}}}))
print(line())
""")
    assert '"id":99' in done.out.replace(" ", "") , done


def test_a_grant_that_the_agent_swaps(gateway):
    secret = gateway.operator.folder("home-secret", {"key": "TOP-SECRET"})
    (gateway.folder / "docs").mkdir()
    gateway.operator.own(gateway.folder / "docs")
    gateway.tools["test"] = gateway.server(read=[str(gateway.servers), str(gateway.folder / "docs")])
    gateway.operator.file("servers/server.py", (gateway.servers / "server.py").read_text().replace(
        'if name == "die":', f'if name == "echo":\n        return text(open("{gateway.folder}/docs/key").read())\n    if name == "die":'))
    done = script(gateway, f"""
import os, subprocess, sys, json
os.rmdir("docs")
os.symlink("{secret}", "docs")
START = {{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {{"protocolVersion": "2025-11-25", "capabilities": {{}}, "clientInfo": {{"name": "test", "version": "1"}}}}}}
CALL = {{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "test.echo", "arguments": {{}}}}}}
subprocess.run([sys.executable, "client.py", json.dumps([START, CALL])])
""")
    assert "TOP-SECRET" not in done.out, done


LEAK = "taken-from-the-workspace"


def test_nothing_reaches_a_server_without_a_rule(gateway):
    """Messages that need no rule carry no data of the agent's to servers; a call carries its arguments only."""
    gateway.rules = "egress:\n  - allow: tool:test.echo\n    args: {/a: 1}\n"
    gateway.tools["test"] = {"command": gateway.server()["command"], "write": [str(gateway.servers)]}
    server = (gateway.servers / "server.py").read_text().replace(
        "    message = json.loads(line)\n    if message.get(\"method\") == \"notifications/init",
        f"    open('{gateway.servers}/heard', 'a').write(line)\n    message = json.loads(line)\n"
        "    if message.get(\"method\") == \"notifications/init")
    gateway.operator.file("servers/server.py", server)
    got = gateway.run(
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "clientInfo": {"name": LEAK, "version": LEAK}, "capabilities": {
                "sampling": {LEAK: {}, "tools": {LEAK: {}}}, "roots": {"listChanged": True, LEAK: 1}, LEAK: {},
                "elicitation": {"form": LEAK}}}},
        dict(call(1, "test.echo", meta={"progressToken": LEAK, LEAK: LEAK}, a=1), **{LEAK: 1}),
        ask(2, "tools/call", name="test.echo", arguments={"a": 1}, task={"ttl": 1, LEAK: LEAK}),
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed", "params": {LEAK: LEAK}, LEAK: LEAK},
        ask(3, "tools/list", **{LEAK: LEAK}),
        ask(4, "completion/complete", ref={"type": "ref/prompt", "name": "test.p"}, argument={"name": "x", "value": LEAK}),
        ask(5, "completion/complete", ref={"type": "ref/resource", "uri": "mcp://test/x"}, argument={"name": "x", "value": LEAK}),
        start=False)
    assert len(got) == 7, (got, gateway.done)
    assert "result" in got[1] and "result" in got[2], (got, gateway.done)
    heard = (gateway.servers / "heard").read_text()
    assert "roots/list_changed" in heard and '"progressToken"' in heard and '"listChanged":true' in heard, heard
    assert LEAK not in heard, heard


def test_a_coded_message_is_refused(gateway):
    done = script(gateway, """
import gzip, json, urllib.error, urllib.request
body = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "test.echo"}}).encode())
try:
    urllib.request.urlopen(urllib.request.Request("http://tools.cloister.internal/mcp", body, {
        "Content-Type": "application/json", "Accept": "*/*", "Content-Encoding": "gzip"}))
except urllib.error.HTTPError as error:
    print(error.code)
""")
    assert done.out == "415\n", done


@pytest.mark.parametrize("does", [
    r"""sed -u 's/.*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\1,"error":{"code":1,"message":"no"}}/'""",
    "read -r line", "for n in $(seq 30); do echo no message; done; sleep 100"],
    ids=["refuses", "ends", "babbles"])
def test_a_server_that_fails_is_not_started_for_ever(gateway, does):
    gateway.tools["test"] = {"command": ["/bin/sh", "-c", does]}
    got = gateway.run(*[call(n, "test.echo") for n in range(1, 9)])
    assert all("error" in one for one in got), got
    assert sum(one["did"] == "start" for one in gateway.records()) == 5, gateway.records()


MANY = OLD.split("stream = ")[0] + """
import threading
def session():
    stream = urllib.request.urlopen(urllib.request.Request(HOST + "/mcp", headers={"Accept": "text/event-stream"}))
    def line():
        while True:
            one = stream.readline()
            if one.startswith(b"data: "):
                return one[6:].strip().decode()
    where = line()
    def post(message):
        request = urllib.request.Request(HOST + where, json.dumps(dict(message, jsonrpc="2.0")).encode(), {"Content-Type": "application/json"})
        return urllib.request.urlopen(request).status
    post({"id": 0, "method": "initialize", "params": {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
    line()
    for n in range(60):
        post({"id": 2 + n, "method": "tools/call", "params": {"name": "test.echo", "arguments": {"a": 1}}})
    got = [json.loads(line()) for n in range(60)]
    print(sum("result" in one for one in got), flush=True)
threads = [threading.Thread(target=session) for n in range(SESSIONS)]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""


def test_many_locked_calls_at_once(gateway):
    locked(gateway, echo=ECHO)
    done = script(gateway, MANY.replace("SESSIONS", "6"))
    assert done.out.split() == ["60"] * 6, done


def test_many_calls_at_once(gateway):
    """Two calls that are read in one round of the gateway's loop must not stop it."""
    calls = [call(n, "test.echo", a=n) for n in range(1, 41)]
    got = gateway.run(call(100, "test.echo"), *[{"do": "together", "steps": calls[n:n + 20]} for n in (0, 20)])
    assert len(got) == 41 and all("result" in one for one in got), (got, gateway.done)


@pytest.mark.parametrize("per", ["session", "call"])
def test_a_scope_gives_no_more_than_the_server_has(gateway, site, per):
    host = f"host.cloister.internal:{site}"
    locked(gateway, {"fetch": {"egress": [{"allow": host, "scheme": "http"}]}}, fetch=dict(ECHO, name="fetch"))
    gateway.tools["test"] = gateway.server(per=per)
    assert "Error" in gateway.text(call(1, "test.fetch", url=f"http://{host}/"))
