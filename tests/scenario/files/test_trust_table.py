"""Every file of the host that cloister reads, runs or believes, and every way in which an agent could
have had a say in it: each is refused, or held back by `apply`."""
import os
import re
import secrets
import subprocess
from pathlib import Path

import pytest

import dispatches
from operators import IS_ROOT, wait_until

WROTE = "an agent can or could write"
RULES = "version: 1\negress: []\n"
SCRIPT = "#!/bin/sh\necho t0ken-t0ken-t0ken\n"
TABLE = (Path(__file__).parents[3] / "src/trust/trust_table.c").read_text()
ROWS = dict(re.findall(r'\{ "([a-z-]+)", (TRUST_\w+),', TABLE))


class Use:
    """The use of one row of the table. NAME: of the file, in its folder."""
    name, text, mode = "file", RULES, 0o644

    def __init__(self, operator):
        self.operator = operator

    def prepare(self, path):
        """Before anything is marked."""

    def go(self, path):
        """Use it: what was said."""

    def run(self, *options, **how):
        return self.operator.run(*options, "--", "true", **how)


class Policy(Use):
    def go(self, path):
        return self.run("-p", path)


class PolicyFound(Use):
    name = "cloister.yaml"

    def go(self, path):
        return self.run(cwd=path.parent)


class PolicyExtended(Use):
    def go(self, path):
        base = self.operator.file("base.yaml", f"version: 1\nextends: {os.path.relpath(path, self.operator.base)}\n")
        return self.run("-p", base)


class Within(Use):
    def go(self, path):
        return self.run("--allow", "a.example", "--within", path)


class SecretList(Use):
    text = RULES + "secrets: {KEY: {hosts: a.example}}\n"

    def prepare(self, path):
        self.operator.cloister("secret", "add", "KEY", "--host", "a.example", input="t0ken-t0ken-t0ken").ok()

    def go(self, path):
        return self.run("--allow", "a.example", "-p", path)


class PolicySet(Use):
    def go(self, path):
        cell = self.operator.detach("--allow", "a.example", "--", "sleep", "100")
        said = self.operator.cloister("policy", "set", cell, path)
        self.operator.cloister("kill", cell)
        return said


class SecretFile(Use):
    text, mode = "t0ken-t0ken-t0ken", 0o600
    source = "file:{}"

    def prepare(self, path):
        self.operator.cloister("secret", "add", "KEY", "--host", "a.example", "--from",
                               self.source.format(path)).ok()

    def go(self, path):
        return self.run("--allow", "a.example", "-s", "KEY")


class SecretCommand(SecretFile):
    text, mode, source = SCRIPT, 0o755, "cmd:{}"


class SecretQuoted(SecretCommand):
    source = "cmd:sh -c 'cat /dev/null; sh {}'"


class KeyCommand(Use):
    text, mode = SCRIPT, 0o755

    def prepare(self, path):
        self.operator.cloister("secret", "init", "--key", f"cmd:{path}").ok()

    def go(self, path):
        return self.operator.cloister("secret", "add", f"K{secrets.token_hex(4)}", "--host", "a.example",
                                      input="t0ken-t0ken-t0ken")


class SecretDefinition(Use):
    text = "version: 1\nsecrets: {KEY: {hosts: a.example, from: 'env:HOME'}}\n"

    def go(self, path):
        self.operator.cloister("secret", "remove", "KEY")
        return self.operator.cloister("secret", "add", "KEY", "-f", path)


class EnvFile(Use):
    text = "A=1\n"

    def go(self, path):
        return self.run("--env-file", path)


class Document(Use):
    text = '{"version": 1, "command": ["true"]}'

    def go(self, path):
        return self.operator.run("--doc", path)


class Authority(Use):
    text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

    def go(self, path):
        return self.run("--allow", "a.example", "--ca", path)


class KnownHosts(Use):
    name = ".ssh/known_hosts"
    text = "a.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC5TN2+V0v3v8S6OdLbHE4Q0Ty5ZbW0rIAHnDQkuLWrD\n"

    def prepare(self, path):
        key = self.operator.base / "key"
        if not key.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        self.operator.cloister("secret", "add", "KEY", "--scheme", "ssh", "--host", "a.example:22",
                               input=key.read_text()).ok()

    def go(self, path):
        return self.run("--allow", "a.example", "-s", "KEY", env={"HOME": str(path.parent.parent)})


class Registered(Use):
    name, text = "agent.yaml", "name: a\ncommand: ['true']\n"

    def go(self, path):
        return self.operator.cloister("agent", "register", path)


class Notify(Use):
    """The record in the timeline is what is said."""
    config = None

    def go(self, path):
        policy = self.operator.file("ask.yaml", "version: 1\negress:\n  - ask: api.example.com\n    reason: x\n")
        told = self.operator.folder("told") / "told"
        cell = self.operator.detach("-p", policy, "--", "curl", "-sS", "http://api.example.com/x", env=self.env(path))

        def look():
            lines = self.operator.cloister("events", cell, "--json").ok().splitlines()
            return told.exists() or [line for line in lines if "not_notified" in line]

        said = wait_until(look, "it was told, or not")
        self.operator.cloister("kill", cell)
        if told.exists():
            told.unlink()
        status = 0 if said is True else 125
        return type("Said", (), {"status": status, "out": "", "err": "" if said is True else said[0]})()

    def env(self, path):
        return {"XDG_CONFIG_HOME": str(self.operator.base / "config")}

    def configure(self, text):
        self.operator.file("config/cloister/notify.yaml", text).chmod(0o600)


class NotifyCommand(Notify):
    mode = 0o755

    def __init__(self, operator):
        super().__init__(operator)
        self.text = f"#!/bin/sh\necho x > {operator.base}/told/told\n"

    def prepare(self, path):
        self.configure(f"- command: ['{path}']\n")


class NotifyFile(Notify):
    name, mode = "cloister/notify.yaml", 0o600

    def __init__(self, operator):
        super().__init__(operator)
        self.text = f"- command: [sh, -c, 'echo x > {operator.base}/told/told']\n"

    def env(self, path):
        return {"XDG_CONFIG_HOME": str(path.parent.parent)}


class NotifySecret(Notify):
    text, mode = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 0o600

    def prepare(self, path):
        self.configure(f"- webhook: http://127.0.0.1:1/x\n  secret_file: {path}\n  on: [budget]\n"
                       f"- command: [sh, -c, 'echo x > {self.operator.base}/told/told']\n")


class HookCommand(Use):
    text, mode, call = SCRIPT, 0o755, "{}"

    def go(self, path):
        hook = self.call.format(path)
        file = self.operator.file("hooked.yaml", f"version: 1\negress:\n- {{allow: a.example, hook: '{hook}'}}\n")
        return self.run("-p", file)


class HookSocket(HookCommand):
    call = "unix:{}"


class Engine(Use):
    """Refused before anything connects, so there need not be a socket."""
    name = "docker.sock"

    def go(self, path):
        return self.operator.cloister("image", "load", "docker-daemon:a", env={"DOCKER_HOST": f"unix://{path}"})


class EngineOfCells(Engine):
    def go(self, path):
        return self.run("--boundary", "docker", env={"DOCKER_HOST": f"unix://{path}"})


class EngineOfTarget(Engine):
    def go(self, path):
        target = self.operator.file("told/target.yaml", "name: big\nengine: docker\nimage: x\n"
                                    f"docker: {{host: 'unix://{path}'}}\n")
        self.operator.cloister("target", "register", target).ok()
        return self.operator.cloister("doctor", "--target", "big")


class Editor(Use):
    text, mode = "#!/bin/sh\nexit 0\n", 0o755

    def go(self, path):
        policy = self.operator.file("cell.yaml", RULES)
        cell = self.operator.detach("-p", policy, "--", "sleep", "100")
        said = self.operator.cloister("policy", "edit", cell, env={"EDITOR": str(path), "VISUAL": ""})
        self.operator.cloister("kill", cell)
        return said


class Input(Use):
    def go(self, path):
        return self.run("--input", path)


class DispatchInput(Use):
    def prepare(self, path):
        dispatches.agent(self.operator, "a", "true")

    def go(self, path):
        return dispatches.dispatch(self.operator, "a", "--input", path)


class VmKernel(Use):
    """Refused before anything is read of it, so it need not be a kernel."""
    def go(self, path):
        return self.run("--boundary", "microvm", "--vm-accel", "tcg", "--vm-kernel", path)


class Registries(Use):
    name, text = "cloister/registries.yaml", "registries: {}\n"

    def go(self, path):
        return self.pull(env={"XDG_CONFIG_HOME": str(path.parent.parent)})

    def pull(self, *options, **how):
        """Nobody listens there."""
        return self.operator.do(self.operator.program.parent / "libexec/cloister-pull", *options, "localhost:1/a:t", **how)


class Logins(Registries):
    name, text = "auth.json", "{}\n"

    def go(self, path):
        return self.pull(env={"REGISTRY_AUTH_FILE": str(path)})


class LoginCommand(Registries):
    name, mode = "docker-credential-lab", 0o755
    text = "#!/bin/sh\necho '{\"Username\": \"u\", \"Secret\": \"s\"}'\n"

    def go(self, path):
        config = self.operator.file("docker/config.json", '{"credsStore": "lab"}').parent
        return self.pull(env={"DOCKER_CONFIG": str(config), "PATH": f"{path.parent}:{self.operator.env['PATH']}"})


class ImageKey(Registries):
    name, text = "key.pub", "-----BEGIN PUBLIC KEY-----\n"

    def go(self, path):
        return self.pull("--key", path)


class Runtime(Use):
    """Refused before it runs, so it need not be a runtime."""
    mode = 0o755

    def go(self, path):
        return self.run("--boundary", "oci", "--runtime", path)


class Profile(Use):
    name, text = "cloister/profiles/tester.yaml", "program: 'true'\n"

    def go(self, path):
        return self.agent(env={"XDG_CONFIG_HOME": str(path.parents[2])})

    def agent(self, **how):
        return self.operator.run("tester", cwd=self.operator.folder("project"), **how)


class Program(Profile):
    name, text, mode = "tester", "#!/bin/sh\n", 0o755

    def go(self, path):
        config = self.operator.file("config/cloister/profiles/tester.yaml", f"program: {path}\n").parents[2]
        return self.agent(env={"XDG_CONFIG_HOME": str(config)})


class Grant(Use):
    def go(self, path):
        return self.run("-v", f"{path}:/x:ro")


class ImageTool(Use):
    name, mode, text = "skopeo", 0o755, "#!/bin/sh\nexit 3\n"

    def go(self, path):
        return self.operator.cloister("image", "load", "containers-storage:a", env={"PATH": f"{path.parent}:/usr/bin:/bin"})


class Server(Use):
    """A cell whose agent asks for the server's tools."""
    name, mode, text = "server", 0o755, "#!/bin/sh\n"
    ASKS = """
import json, sys, urllib.request
def ask(id, method, **params):
    head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **session}
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
    return urllib.request.urlopen(urllib.request.Request("http://tools.cloister.internal/mcp", body, head))
session = {}
got = ask(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "x", "version": "1"})
session = {"Mcp-Session-Id": got.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
said = ask(2, "tools/call", name="test.x", arguments={}).read().decode()
print(said)
sys.exit('"error"' in said)
"""

    def go(self, path):
        policy = self.operator.file("told/policy.yaml", "version: 1\ntools: {servers: {test: {command: ['" + str(path) +
                                    "']}}}\negress: [{allow: 'tool:**'}]\n")
        return self.operator.run("-p", policy, "--", "/usr/bin/python3", "-c", self.ASKS)


USES = {"policy": Policy, "policy-found": PolicyFound, "policy-extended": PolicyExtended, "within": Within,
        "secret-list": SecretList, "policy-set": PolicySet, "secret-file": SecretFile, "secret-command": SecretCommand,
        "secret-command:quoted": SecretQuoted, "key-command": KeyCommand, "secret-definition": SecretDefinition,
        "env-file": EnvFile, "document": Document, "authority": Authority, "known-hosts": KnownHosts,
        "registered": Registered,
        "notify-command": NotifyCommand, "notify-file": NotifyFile, "notify-secret": NotifySecret, "editor": Editor,
        "hook-command": HookCommand, "hook-socket": HookSocket, "vm-kernel": VmKernel, "image-tool": ImageTool,
        "engine": Engine, "engine:cells": EngineOfCells, "engine:target": EngineOfTarget,
        "registries": Registries, "logins": Logins, "login-command": LoginCommand, "image-key": ImageKey,
        "runtime": Runtime, "server": Server, "profile": Profile, "program": Program,
        "input": Input, "dispatch-input": DispatchInput, "grant": Grant}
# Each of these is checked by the same call as another of its kind.
ELSEWHERE = {"profile-found": "as profile: test_agent_profiles.py", "answers": "as profile: test_agent_profiles.py",
             "browser": "test_serve_dashboard.py", "rootfs": "as grant: test_rootfs below"}


def test_the_table_is_covered():
    assert {name.split(":")[0] for name in USES} | set(ELSEWHERE) == set(ROWS)


# ---- the ways: each makes the file, has an agent come near it, and returns what to use ------------------

def make(operator, use, folder):
    path = operator.file(Path(folder) / use.name, use.text)
    path.chmod(use.mode)
    return path


def cell(operator, folder, script="true"):
    operator.run("-v", f"{folder}:/w", "--no-policy", "--", "sh", "-c", script).ok()


def by_grant(operator, use):
    path = make(operator, use, "work")
    use.prepare(path)
    said = use.go(path)
    assert WROTE not in said.out + said.err, said        # so far, nobody could
    cell(operator, operator.base / "work")
    return path


def by_moved_folder(operator, use):
    operator.folder("work")
    cell(operator, operator.base / "work")
    make(operator, use, "work")
    path = operator.base / "moved" / use.name
    (operator.base / "work").rename(operator.base / "moved")
    operator.folder("work")
    use.prepare(path)
    return path


def by_parent(operator, use):
    """An agent moves what is there away and puts its own in its place."""
    path = make(operator, use, "work/inner")
    use.prepare(path)
    cell(operator, operator.base / "work", f"mv /w/inner /w/away; cp -a /w/away /w/inner; echo >> /w/inner/{use.name}")
    return path


def by_link(operator, use):
    make(operator, use, "safe")
    link = operator.folder("work") / "link"
    link.symlink_to(operator.base / "safe")
    path = link / use.name
    use.prepare(path)
    cell(operator, operator.base / "work")
    return path


def by_second_name(operator, use):
    path = make(operator, use, "safe")
    use.prepare(path)
    operator.folder("work/deep")
    os.link(path, operator.base / "work/deep/other")
    cell(operator, operator.base / "work")
    return path


def by_mount(operator, use):
    make(operator, use, "work/inner")
    operator.folder("mounted")
    subprocess.run(["mount", "--bind", operator.base / "work/inner", operator.base / "mounted"], check=True)
    path = operator.base / "mounted" / use.name
    use.prepare(path)
    cell(operator, operator.base / "work")
    return path


WAYS = {"grant": by_grant, "moved": by_moved_folder, "parent": by_parent, "link": by_link, "second": by_second_name,
        "mount": by_mount}
# Only links are looked for: what these lead to may well be an agent's work.
LINKS_ONLY = {name for name, kind in ROWS.items() if kind == "TRUST_LINKS"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", USES)
def test_refused(operator, name, way):
    if way == "mount" and not IS_ROOT:
        pytest.skip("only root can mount")
    if name in LINKS_ONLY and way != "link":
        pytest.skip("only links are looked for")
    if (name, way) == ("policy-found", "link"):
        pytest.skip("a folder is looked for as it really is")
    operator.folder("told")
    use = USES[name](operator)
    try:
        path = WAYS[way](operator, use)
        said = use.go(path)
    finally:
        if way == "mount":
            subprocess.run(["umount", operator.base / "mounted"], check=False)
    assert said.status != 0 and WROTE in said.out + said.err, said


@pytest.mark.parametrize("name", sorted(set(USES) - LINKS_ONLY - {"notify-secret"}))
def test_held(operator, name):
    """`apply` does not change files that were used once."""
    operator.folder("told")
    use = USES[name](operator)
    path = make(operator, use, "work")
    use.prepare(path)
    said = use.go(path)
    assert WROTE not in said.out + said.err, said
    id = operator.change(operator.base / "work", f"echo evil > '{path}.new'; mv '{path}.new' '{path}'; echo x > plain",
                         *(["--no-policy"] if name == "policy-found" else []))
    done = operator.cloister("apply", id)
    assert done.status == 1 and "held back" in done.out, done
    assert path.read_text() == use.text and (operator.base / "work/plain").read_text() == "x\n"


# ---- other users -----------------------------------------------------------------------------------------

COMMANDS = [name for name in USES if ROWS.get(name) == "TRUST_RUN"]


@pytest.mark.parametrize("mode", [0o775, 0o757])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_that_others_may_write_is_not_run(operator, name, mode):
    operator.folder("told")
    use = USES[name](operator)
    path = make(operator, use, "work")
    use.prepare(path)
    path.chmod(mode)
    said = use.go(path)
    assert said.status != 0 and f"others may write the program '{path}': `chmod go-w` it" in said.err, said
    path.chmod(0o755)
    assert "others may write" not in use.go(path).err


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a file away")
@pytest.mark.parametrize("name", COMMANDS)
def test_the_program_of_another_user_is_not_run(operator, name):
    operator.folder("told")
    use = USES[name](operator)
    path = make(operator, use, "work")
    use.prepare(path)
    os.chown(path, 12345, -1)
    said = use.go(path)
    assert said.status != 0 and f"the program '{path}' belongs to uid 12345, neither you nor root" in said.err, said


def test_rootfs(operator):
    root, work = operator.folder("rootfs"), operator.folder("work")
    (work / "link").symlink_to(root)
    cell(operator, work)
    operator.run("--rootfs", work / "link", "--", "true").sentence(WROTE)
