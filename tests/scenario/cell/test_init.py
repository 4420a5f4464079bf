"""`cloister init`: a policy for a project, by files that an agent may have written; and `cloister run` without words."""
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess

import pytest

from operators import TREE, as_one
from terminal import Terminal

REMOTE = '[core]\n\tbare = false\n[remote "origin"]\n\turl = git@github.com:acme/site.git\n'
PACKAGE = {"name": "site", "version": "1.0.0",
           "dependencies": {"left-pad": "^1", "fork": "acme/fork#v1", "odd": "https://cdn.evil.test/odd.tgz"}}
MCP = {"mcpServers": {"docs": {"url": "https://mcp.evil.test/mcp"}, "local": {"command": "npx", "args": ["x"]}}}
PROFILE = "version: 1\nprogram: tester\nargs: [-c]\n"
POLICY = "version: 1\nrun: tester\negress:\n  - allow: a.example\n"


class Project:
    def __init__(self, operator):
        self.operator = operator
        operator.env["XDG_CONFIG_HOME"] = str(operator.folder("config"))
        self.folder = operator.folder("project")

    def file(self, name, text):
        return self.operator.file(f"project/{name}", text if isinstance(text, str) else json.dumps(text))

    def init(self, *words, **how):
        return self.operator.cloister("init", *words, **{"cwd": self.folder, **how})

    def policy(self, *words):
        return self.operator.cloister("policy", *words, cwd=self.folder)

    def verdict(self, *request):
        return self.policy("explain", "cloister.yaml", *request).out

    def text(self):
        return (self.folder / "cloister.yaml").read_text()

    def names(self):
        return {name for name in os.listdir(self.folder) if name.startswith((".cloister", "cloister"))}


@pytest.fixture
def project(operator):
    return Project(operator)


# ---- what is written ----------------------------------------------------------------

def test_a_policy_whose_cases_pass(project):
    """Build, tests and forge, and nothing else; a host that only the project's files name asks a person."""
    for name, text in (("package.json", PACKAGE), (".mcp.json", MCP), (".git/config", REMOTE), ("pyproject.toml", ""),
                       ("Cargo.toml", '[dependencies]\nx = {git = "https://git.evil.test/x/y"}\n'), ("go.mod", "module x\n"),
                       ("Dockerfile", "FROM debian:12\n"), ("CLAUDE.md", "Be kind.\n"),
                       (".npmrc", "registry=https://npm.evil.test/npm/\n")):
        project.file(name, text)
    dry = project.init("--dry-run").ok()
    assert not project.names() and "run: claude" in dry and "canary.example" in dry
    shown = project.init()
    assert shown.status == 0 and project.names() == {"cloister.yaml", "cloister.test.yaml"}, shown
    for line in ("package.json", "npm packages", "github.com/acme/site, push to branches agent/*", "cdn.evil.test", "CLAUDE.md",
                 "Note: Dockerfile", "cloister policy trust"):
        assert line in shown.err, (line, shown.err)
    assert dry.startswith(project.text())
    project.policy("check").ok()
    assert "cases passed" in project.policy("test").ok()
    # Comments say why each rule is there.
    for line in ("# package.json: npm packages", "# a server in .mcp.json", "# .npmrc: read from npm.evil.test/npm"):
        assert line in project.text(), line
    evil = [rule for rule in project.text().split("\n  - ") if "evil.test" in rule.split("\n")[0]]
    assert len(evil) == 4 and all(rule.startswith("ask: ") for rule in evil), project.text()
    assert "no rule" in project.verdict("GET", "https://canary.example/")
    # The cases notice a policy that lets more through.
    wide = project.text().replace("include: preset:npm", "allow: '*.example'\n  - include: preset:npm")
    project.file("cloister.yaml", wide)
    assert project.policy("test").status == 1
    # Nothing is overwritten.
    project.init().sentence("there is a 'cloister.yaml' already", "--force")
    assert project.text() == wide
    project.init("--force", "--agent", "codex").ok()
    assert "run: codex" in project.text() and "cases passed" in project.policy("test").ok()


@as_one
def test_files_that_are_no_files(project):
    """Links are not followed, pipes do not block, and a text of any kind stays out of the YAML."""
    secret = project.operator.file("home/secret.json", json.dumps(PACKAGE))
    (project.folder / "package.json").symlink_to(secret)
    os.mkfifo(project.folder / "requirements.txt")
    (project.folder / "cloister.yaml").symlink_to(project.operator.home / "elsewhere")
    project.file("Cargo.toml", "x" * (2 << 20))
    project.file(".git/config", '[remote "a: b\\n- allow: evil.test"]\nurl = https://x.evil.test/a/b"]}\n  - allow: y.evil.test\n')
    project.init().sentence("there is a 'cloister.yaml' already")
    project.init("--force").ok()
    assert not (project.operator.home / "elsewhere").exists() and not (project.folder / "cloister.yaml").is_symlink()
    assert "evil" not in project.text() and "preset:npm" not in project.text() and "over 1 MiB" in project.text()
    assert "cases passed" in project.policy("test").ok()
    project.init(cwd=project.operator.home).sentence("your home folder, not a project")


@as_one
def test_projects_of_real_tools(project):
    """What npm, cargo, go and git write themselves."""
    env = {**os.environ, "HOME": str(project.operator.home), "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    if shutil.which("cargo"):
        env.setdefault("RUSTUP_HOME", os.path.expanduser("~/.rustup"))
    made = set()
    for words, preset in ((["npm", "init", "-y"], "npm"), (["cargo", "init", "--vcs", "none", "--name", "it"], "crates"),
                          (["go", "mod", "init", "example.com/it"], "go"), (["git", "init", "-q"], None),
                          (["git", "remote", "add", "origin", "https://gitlab.com/acme/it.git"], None)):
        if shutil.which(words[0]) and subprocess.run(words, cwd=project.folder, env=env, capture_output=True,
                                                     check=False).returncode == 0 and preset:
            made.add(preset)
    project.operator.own(project.folder)
    assert made, "none of the tools is installed"
    project.init().ok()
    for preset in made:
        assert f"include: preset:{preset}" in project.text()
    assert "repos: ['acme/it']" in project.text() and "cases passed" in project.policy("test").ok()


# ---- `cloister run` -----------------------------------------------------------------

@pytest.fixture
def agent(project):
    project.operator.file("home/bin/tester", "#!/bin/sh\necho \"it runs: $*\"\ncat /etc/resolv.conf; env\n").chmod(0o755)
    project.operator.env["PATH"] = f"{project.operator.home}/bin:{project.operator.env['PATH']}"
    project.operator.file("config/cloister/profiles/tester.yaml", PROFILE)
    return project


def test_the_projects_agent_runs_once_its_policy_is_accepted(agent):
    run = lambda *words: agent.operator.run(*words, cwd=agent.folder)  # noqa: E731
    run().sentence("no command is given")
    agent.init("--agent", "tester").ok()
    run().sentence("comes with the project, and nobody has accepted it", "`cloister policy trust`")
    run("tester").sentence("nobody has accepted it")
    # A plain command needs no more than before, and so does a policy that is named or left out.
    run("--", "true").ok()
    run("--no-policy").sentence("no command is given")
    assert "it runs: -c\n" in run("-p", "cloister.yaml").ok()
    accepted = agent.policy("trust")
    assert "run: tester" in accepted.ok() and "accepted: `cloister run NAME` uses it" in accepted.err
    assert "it runs: -c\n" in run().ok() and "198.18.0.1" in run("tester").ok()
    assert "policy.trusted" in agent.operator.cloister("audit", "show", "--operator").ok()
    # Any other content is another policy, also in a file that it names.
    agent.file("more.yaml", "version: 1\negress: []\n")
    agent.file("cloister.yaml", "version: 1\nrun: tester\nextends: more.yaml\n")
    agent.policy("trust").ok()
    run().ok()
    agent.file("more.yaml", "version: 1\negress: [{allow: evil.test}]\n")
    run().sentence("nobody has accepted it")
    # None of them has a part that is not shown.
    agent.file("cloister.yaml", "version: 1\nrun: tester\nextends: more.yaml\nsecrets: [A_KEY]\n")
    agent.file("more.yaml", "version: 1\nsecrets: {HIDDEN: {from: 'file:/etc/passwd', hosts: a.example}}\n")
    agent.policy("trust").sentence("more.yaml:2:", "list", "map")
    # A person has chosen the secrets, too.
    agent.operator.cloister("secret", "add", "A_KEY", "--host", "a.example", input="of-the-tests-of-the-tests").ok()
    agent.file("cloister.yaml", POLICY + "secrets: [A_KEY]\n")
    agent.policy("trust").ok()
    assert "A_KEY=" in run().ok() and "of-the-tests-of-the-tests" not in run().ok()
    # A policy that an agent could have written never counts.
    agent.policy("trust").ok()
    agent.operator.run("-w", f"{agent.folder}:rw", "--no-policy", "--", "true").ok()
    run().sentence("an agent can or could write")


def test_tools_of_an_accepted_policy(agent):
    canary = secrets.token_hex(8)
    start = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "mine.echo", "arguments": {"a": canary}}}
    agent.operator.file("home/bin/tester", f"#!/bin/sh\nexec /usr/bin/python3 client.py '{json.dumps([start, call])}'\n").chmod(0o755)
    for name in ("client", "server"):
        agent.file(f"{name}.py", (TREE / f"tests/scenario/tools_{name}.py").read_text())
    server = {"command": ["/usr/bin/python3", f"{agent.folder}/server.py"], "read": [str(agent.folder)]}
    echo = {"description": "says it again", "inputSchema": {"type": "object"}, "name": "echo"}
    digest = hashlib.sha256(json.dumps(echo, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    lock = {"version": 1, "servers": {"mine": {"tools": {"echo": {"sha256": digest, "scope": {}}}}}}
    policy = {"version": 1, "run": "tester", "egress": [{"allow": "tool:mine.*"}],
              "tools": {"lock": "tools.lock.yaml", "servers": {"mine": server}}}
    agent.file("cloister.yaml", policy)
    agent.file("tools.lock.yaml", lock)
    run = lambda *words: agent.operator.run(*words, cwd=agent.folder)  # noqa: E731
    run().sentence("comes with the project, and nobody has accepted it")
    run("--", "true").sentence("only a policy that is given with -p", "accepted for an agent")
    shown = agent.policy("trust").ok()
    assert f"{agent.folder}/server.py" in shown and digest in shown, shown
    assert canary in run().ok()
    # What a person has not seen does not start: another lock, another server.
    agent.file("tools.lock.yaml", {**lock, "servers": {"mine": {"tools": {"echo": {"sha256": "0" * 64}}}}})
    run().sentence("nobody has accepted it")
    agent.file("tools.lock.yaml", lock)
    assert canary in run().ok()
    agent.file("cloister.yaml", {**policy, "tools": {**policy["tools"], "servers": {"mine": {**server, "env": {"A": "b"}}}}})
    run().sentence("nobody has accepted it")
    # A hook runs outside of any cell.
    agent.file("cloister.yaml", {**policy, "egress": [{"allow": "tool:mine.*", "hook": {"call": ["/bin/true"]}}]})
    agent.policy("trust").ok()
    run().sentence("a hook is the operator's own program")


@as_one
def test_servers_that_lead_elsewhere(agent):
    """The acceptance of servers is for this project, these programs, and where the grants lead now."""
    for name in ("one", "two"):
        agent.file(f"{name}/text", name)
    agent.file("server.py", "first")
    (agent.folder / "docs").symlink_to("one")
    policy = {"version": 1, "run": "tester", "tools": {"servers": {"mine": {
        "command": ["/usr/bin/python3", "server.py"], "folder": ".", "read": ["docs"]}}}}
    agent.file("cloister.yaml", policy)
    run = lambda folder=agent.folder: agent.operator.run(cwd=folder)  # noqa: E731
    shown = agent.policy("trust").ok()
    script = hashlib.sha256(b"first").hexdigest()
    assert f"#   program 'server.py' -> '{agent.folder}/server.py' sha256:{script}\n" in shown, shown
    assert f"#   read 'docs' -> '{agent.folder}/one'\n" in shown and f"#   folder '.' -> '{agent.folder}'\n" in shown, shown
    run().ok()
    agent.file("server.py", "other")
    run().sentence("nobody has accepted it")
    agent.file("server.py", "first")
    run().ok()
    (agent.folder / "docs").unlink()
    (agent.folder / "docs").symlink_to("two")
    run().sentence("nobody has accepted it")
    (agent.folder / "docs").unlink()
    (agent.folder / "docs").symlink_to("one")
    run().ok()
    # The same files in another project.
    copy = agent.operator.folder("copy", {"cloister.yaml": (agent.folder / "cloister.yaml").read_text(), "server.py": "first"})
    agent.operator.folder("copy/one", {"text": "one"})
    (copy / "docs").symlink_to("one")
    run(copy).sentence("nobody has accepted it")
    # A script that is a link to another.
    (agent.folder / "server.py").unlink()
    agent.file("evil.py", "evil")
    (agent.folder / "server.py").symlink_to("evil.py")
    run().sentence("nobody has accepted it")


@as_one
def test_at_a_terminal(agent):
    agent.file("cloister.yaml", POLICY)
    for answer, status in (("\n", 125), ("y\n", 0)):
        term = Terminal(agent.operator, agent.operator.program, "run", cwd=agent.folder)
        term.expect("allow: a.example")
        term.expect("Use it\\? \\[y/N\\]")
        term.type(answer)
        assert term.end() == status, term.text
        assert ("it runs" in term.text) == (status == 0)
        term.close()
    agent.operator.run(cwd=agent.folder).ok()
    # `init` asks, too, and shows what it is about.
    term = Terminal(agent.operator, agent.operator.program, "init", "--force", "--agent", "tester", cwd=agent.folder)
    term.expect("run: tester")
    term.expect("Accept this policy.*\\[y/N\\]")
    term.type("y\n")
    assert term.end() == 0
    term.close()
    agent.operator.run(cwd=agent.folder).ok()


# ---- an origin over SSH -------------------------------------------------------------

def test_git_uses_https_for_an_origin_over_ssh(project):
    """Rules cannot restrict git over SSH, so the cell's git does not use it, and nothing advises to open it."""
    project.file(".git/config", REMOTE)
    project.init("--agent", "claude").ok()
    shown = "git ls-remote --get-url git@github.com:acme/site.git; git ls-remote --get-url ssh://git@github.com/acme/site; "
    # What was found is a table.
    rows = [line for line in project.init("--force").err.splitlines() if line.startswith("  ")]
    assert len(rows) == 2 and len({re.match("  .*?  +", row).end() for row in rows}) == 1, rows
    asked = project.operator.run("-p", "cloister.yaml", "--", "sh", "-c", shown, cwd=project.folder).ok()
    assert asked.split() == ["https://github.com/acme/site.git", "https://github.com/acme/site"]
    # Another configuration of that kind stays as it is.
    own = project.operator.run("-p", "cloister.yaml", "-e", "GIT_CONFIG_COUNT=0", "--", "sh", "-c", shown + "env",
                               cwd=project.folder).ok()
    assert "ssh://git@github.com/acme/site\n" in own and "GIT_CONFIG_KEY" not in own
    cell = project.operator.detach("-p", "cloister.yaml", "--", "sleep", "600", cwd=project.folder)
    assert project.operator.cloister("exec", cell, "--", "sh", "-c", shown).ok() == asked
    # A program that uses SSH all the same.
    dial = "import socket; s = socket.create_connection(('github.com', 22)); s.recv(1)"
    project.operator.run("--name", "ssh", "-p", "cloister.yaml", "--", "python3", "-c", dial, cwd=project.folder)
    told = project.operator.cloister("why", "ssh").ok()
    assert "allows git on github.com over HTTPS" in told and "git config url.https://github.com/.insteadOf git@github.com:" in told
    assert "protocol: tcp" not in told, told
    said = json.loads(project.operator.cloister("why", "--json", "ssh").ok())
    assert said["suggested_rule"] is None, said
    # Its review is with the policy that it had, which is still there; a file that has changed since is named.
    reviewed = project.operator.cloister("review", "ssh", cwd=project.folder).ok()
    assert reviewed == project.operator.cloister("review", "-p", "cloister.yaml", "ssh", cwd=project.folder).ok()
    assert "--- cloister.yaml" in reviewed, reviewed
    text = project.text()
    project.file("cloister.yaml", text + "  - allow: more.example\n")
    reviewed = project.operator.cloister("review", "ssh", cwd=project.folder).ok()
    assert "'cloister.yaml', the file of these rules, has changed since: add `-p`" in reviewed and "+++" not in reviewed, reviewed
    project.file("cloister.yaml", text)
    # Where a rule opens the port, git uses it.
    project.file("cloister.yaml", project.text() + "  - {allow: 'github.com:22', protocol: tcp}\n")
    assert "git@github.com" in project.operator.run("-p", "cloister.yaml", "--", "sh", "-c", shown, cwd=project.folder).ok()
