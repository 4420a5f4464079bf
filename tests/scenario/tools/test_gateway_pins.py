"""What a server runs is what was locked, whatever an agent writes."""
import json

import pytest
import yaml

from operators import TREE
from tools.test_gateway import Gateway, call
from tools_wasm import missing, module_bytes, put_module

SPOIL = 'if name == "echo":\n        return text("EVIL")\n    if name == "die":'


class Pinned(Gateway):
    """The agent may write the folder `servers`, and runs attack.py."""

    def __init__(self, operator):
        super().__init__(operator)
        operator.folder("policy")

    def lock_it(self, *words):
        self.lock = None
        self.operator.cloister("tools", "lock", "-p", self.policy(), *words).ok()
        self.lock = "tools.lock.yaml"
        lock = yaml.safe_load((self.operator.base / "policy" / self.lock).read_text())
        assert "program" in lock["servers"]["test"], lock

    def policy(self):
        tools = {"servers": self.tools, **({"lock": self.lock} if self.lock else {})}
        return self.operator.file("policy/policy.yaml", f"version: 1\ntools: {json.dumps(tools)}\n{self.rules}")

    def attack(self, script, mode="rw"):
        """What SCRIPT printed.  It has say(n): the text of a call of test.echo in a session of its own, or the error."""
        self.operator.file("agent/attack.py", f"""
import json, os, shutil, subprocess, sys, threading
SERVERS = {str(self.servers)!r}
EVIL = open(SERVERS + "/server.py").read().replace('if name == "die":', {SPOIL!r}) if os.path.exists(SERVERS + "/server.py") else ""
def steps(*steps):
    start = {{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {{"protocolVersion": "2025-11-25", "capabilities": {{}},
             "clientInfo": {{"name": "test", "version": "1"}}}}}}
    note = {{"jsonrpc": "2.0", "method": "notifications/initialized"}}
    done = subprocess.run([sys.executable, "client.py", json.dumps([start, note, *steps])], capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()][2:]
def text(got):
    return got["result"]["content"][0]["text"] if "result" in got else "ERROR " + got["error"]["message"]
def say(n):
    [got] = steps({{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "test.echo", "arguments": {{"n": n}}}}}})
    return text(got)
def put(path, text):
    with open(path + ".new", "wb" if isinstance(text, bytes) else "w") as file:
        file.write(text)
    os.rename(path + ".new", path)
{script}
""")
        words = self.words([], ["-v", f"{self.servers}:{self.servers}:{mode}"])
        self.done = self.operator.run(*words[:-2], "attack.py")
        assert self.done.status == 0, self.done
        return self.done.out.splitlines()

    def failed(self):
        return [one["reason"] for one in self.records() if one["did"] == "failed"]


@pytest.fixture
def gateway(operator):
    return Pinned(operator)


BETWEEN = """
print(say(1))
good = open(SERVERS + "/server.py").read()
put(SERVERS + "/server.py", EVIL)
print(say(2))
put(SERVERS + "/server.py", good)
print(say(3))
"""


@pytest.mark.parametrize("per", ["session", "call"])
def test_a_script_that_the_agent_changes(gateway, per):
    gateway.tools["test"] = gateway.server(per=per)
    gateway.lock_it()
    first, second, third = gateway.attack(BETWEEN)
    assert first == '{"n": 1}' and third == '{"n": 3}', (first, third)
    assert second.startswith("ERROR") and "server.py' is not what was locked: its SHA-256 begins with" in second, second
    assert "cloister tools check" in second
    assert [one for one in gateway.failed() if "is not what was locked" in one], gateway.records()


def test_a_script_in_a_folder_that_the_agent_exchanges(gateway):
    inner = gateway.operator.folder("servers/inner", {"server.py": (gateway.servers / "server.py").read_text()})
    gateway.tools["test"] = gateway.server(command=["/usr/bin/python3", str(inner / "server.py"), str(gateway.servers)])
    gateway.lock_it()
    first, second = gateway.attack("""
print(say(1))
os.mkdir(SERVERS + "/evil")
put(SERVERS + "/evil/server.py", EVIL)
os.rename(SERVERS + "/inner", SERVERS + "/away")
os.symlink("evil", SERVERS + "/inner")
print(say(2))
""")
    assert first == '{"n": 1}'
    assert second.startswith("ERROR") and "is not what was locked" in second, second


def test_a_script_that_the_agent_keeps_exchanging(gateway):
    """Whatever the moment: what runs is what was compared."""
    gateway.lock_it()
    said = gateway.attack("""
good, over = open(SERVERS + "/server.py").read(), False
def flip():
    while not over:
        put(SERVERS + "/server.py", EVIL)
        put(SERVERS + "/server.py", good)
flipping = threading.Thread(target=flip)
flipping.start()
for n in range(12):
    print(say(n))
over = True
flipping.join()
""")
    assert len(said) == 12 and "EVIL" not in said, said
    assert all(one.startswith(("ERROR", '{"n"')) for one in said), said


def test_a_script_that_is_not_locked(gateway):
    assert gateway.attack("print(say(1))", mode="ro") == ['{"n": 1}']
    [refused] = gateway.attack("print(say(1))")
    assert "an agent can or could write" in refused and "a program of an MCP server" in refused, refused
    assert "cloister tools lock" in refused
    assert [one for one in gateway.failed() if "could write" in one]
    # The mark stays behind: the agent is gone, and what it wrote is not.
    [refused] = gateway.attack("print(say(1))", mode="ro")
    assert "an agent can or could write" in refused, refused
    gateway.operator.cloister("trust", "--yes", gateway.servers)


def test_a_program_that_the_agent_may_write(gateway):
    program = gateway.servers / "program"
    program.write_text("#!/usr/bin/python3\n" + (gateway.servers / "server.py").read_text())
    program.chmod(0o755)
    gateway.operator.own(program)
    gateway.tools["test"] = gateway.server(command=[str(program), str(gateway.servers)])
    gateway.lock_it()
    first, second = gateway.attack("""
print(say(1))
with open(SERVERS + "/program", "a") as file:
    file.write("#")
print(say(2))
""")
    assert first == '{"n": 1}' and "program' is not what was locked" in second, (first, second)


@pytest.mark.parametrize("way", ["word", "first line"])
def test_an_interpreter_behind_a_link_of_the_agent(gateway, way):
    """The script is locked and elsewhere; what runs it is found by a link that the agent may exchange."""
    (gateway.servers / "python3").symlink_to("/usr/bin/python3")
    safe = gateway.operator.folder("safe", {"server.py": (gateway.servers / "server.py").read_text()})
    script = safe / "server.py"
    command = [str(gateway.servers / "python3"), str(script)]
    if way == "first line":
        script.write_text(f"#!{gateway.servers}/python3\n" + script.read_text())
        script.chmod(0o755)
        command = [str(script)]
    gateway.tools["test"] = gateway.server(command=[*command, str(gateway.servers)], read=[str(gateway.servers), str(safe)])
    gateway.lock_it()
    assert gateway.attack("print(say(1))", mode="ro") == ['{"n": 1}']
    [refused] = gateway.attack("print(say(1))")
    assert "could write" in refused and "python3" in refused, refused


def test_a_script_that_a_person_changes(gateway):
    """No agent could write it: it is compared where it is."""
    gateway.lock_it()
    assert gateway.text(call(1, "test.echo", a=1)) == '{"a": 1}'
    path = gateway.servers / "server.py"
    was = path.read_text()
    path.write_text(was + "# more\n")
    assert "is not what was locked" in gateway.one(call(1, "test.echo"))["error"]["message"]
    path.write_text(was)
    assert gateway.text(call(1, "test.echo", a=1)) == '{"a": 1}'
    path.unlink()
    assert "its program was locked" in gateway.one(call(1, "test.echo"))["error"]["message"] or \
           "was locked" in gateway.one(call(1, "test.echo"))["error"]["message"]


def test_a_command_that_was_not_locked(gateway):
    gateway.lock_it()
    other = gateway.operator.file("servers/other.py", (gateway.servers / "server.py").read_text() + "#\n")
    gateway.tools["test"] = gateway.server(command=["/usr/bin/python3", str(other), str(gateway.servers)])
    assert "the server's command does not name it" in gateway.one(call(1, "test.echo"))["error"]["message"]


def test_the_copies_go_with_the_cell(gateway):
    gateway.lock_it()
    assert gateway.attack("print(say(1))") == ['{"n": 1}']
    left = list(gateway.operator.state.glob("tools/*"))
    assert left == [], left


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_module_that_the_agent_changes(gateway):
    module = put_module(gateway.operator, "servers")
    gateway.tools["test"] = {"wasm": str(module)}
    gateway.lock_it()
    first, second, third = gateway.attack("""
path = SERVERS + "/parts.wasm"
print(say(1))
good = open(path, "rb").read()
# A section without a meaning: the module still works.
put(path, good + bytes([0, 5, 4]) + b"evil")
print(say(2))
put(path, good)
print(say(3))
""")
    assert json.loads(first) == {"n": 1} and json.loads(third) == {"n": 3}, (first, third)
    assert "parts.wasm' is not what was locked" in second, second
    gateway.lock = None
    assert "could write" in gateway.attack("print(say(1))")[0]
    assert module.read_bytes() == module_bytes() and TREE
