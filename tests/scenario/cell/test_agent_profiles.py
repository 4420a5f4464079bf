"""`cloister run NAME`: an agent by its profile, wherever its program is installed."""
import json
import os
import re

import pytest

from operators import as_one
from terminal import Terminal

# What a made-up agent does: its words, then what the first word asks for.
AGENT = """#!/bin/sh
echo "$0: $*" >&2
shift
eval "$*"
"""
KEY = "sk-ant-api03-" + "x1Y2z3-_W4" * 9 + "abcdeAA"
PROFILE = """version: 1
about: An agent of the tests
program: tester
install: {npm: '@tests/tester'}
args: [--first]
env: {TESTER_HOME: ~/.tester, TESTER_MODE: quiet}
home:
  keep: [.tester, .config/tester]
  read: [.tester/rules.md, .gitconfig]
limits: {pids: 300}
"""
SECRET = "allow: ['preset:anthropic']\nsecrets: [[ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN]]\n"
PROJECTS = ".cloister/profiles"


class Agents:
    """An operator with a program `tester`, and profiles."""

    def __init__(self, operator):
        self.operator = operator
        operator.env["XDG_CONFIG_HOME"] = str(operator.folder("config"))
        operator.env["PATH"] = f"{operator.home}/.local/bin:{operator.env['PATH']}"
        self.project = operator.folder("project")

    def install(self, text=AGENT, name="tester"):
        self.operator.file(f"home/.local/bin/{name}", text).chmod(0o755)

    def profile(self, text=PROFILE, name="tester"):
        return self.operator.file(f"config/cloister/profiles/{name}.yaml", text)

    def run(self, *words, options=(), cwd=None, **how):
        return self.operator.run("-q", *options, "tester", *words, cwd=cwd or self.project, **how)

    def cloister(self, *words, **how):
        return self.operator.cloister("profile", *words, **{"cwd": self.project, **how})

    def doc(self, *options, name="tester"):
        """The cell that it would be."""
        return json.loads(self.operator.run(*options, "--print-doc", name, cwd=self.project).ok())

    def answers(self):
        return self.operator.base / "config/cloister/agents/tester.yaml"

    def terminal(self, *words):
        return Terminal(self.operator, self.operator.program, "run", "tester", *words, cwd=self.project)


@pytest.fixture
def agents(operator):
    return Agents(operator)


@pytest.fixture
def agent(agents):
    """With a program and a profile of the operator's own."""
    agents.install()
    agents.profile()
    return agents


# ---- where the program is -----------------------------------------------------------

def npm(agents, prefix, interpreter="#!/bin/sh"):
    operator = agents.operator
    operator.file(f"{prefix}/lib/node_modules/@tests/tester/cli.js",
                  AGENT.replace("#!/bin/sh", interpreter)).chmod(0o755)
    link = operator.folder(f"{prefix}/bin") / "tester"
    if not link.is_symlink():
        link.symlink_to("../lib/node_modules/@tests/tester/cli.js")
    return operator.base / prefix / "bin"


def in_npm(agents):
    return [npm(agents, "home/.npm-global")]


def in_nvm(agents):
    folder = npm(agents, "home/.nvm/versions/node/v1", "#!/usr/bin/env runner")
    agents.operator.file("home/.nvm/versions/node/v1/bin/runner", "#!/bin/sh\nexec sh \"$@\"\n").chmod(0o755)
    return [folder]


def in_dot_local(agents):
    return [npm(agents, "home/.local")]


def in_npm_with_nvm(agents):
    folder = npm(agents, "home/.npm-global", "#!/usr/bin/env runner")
    agents.operator.file("home/.nvm/v1/bin/runner", "#!/bin/sh\nexec sh \"$@\"\n").chmod(0o755)
    agents.operator.folder("home/.nvm/v1/lib")
    return [folder, agents.operator.home / ".nvm/v1/bin"]


def venv(agents, folder):
    """A virtual environment, whose Python is a link of uv's to a folder of a minor version."""
    operator = agents.operator
    python = operator.home / ".local/share/uv/python"
    operator.file("home/.local/share/uv/python/cpython-3.1.2/bin/python3", "#!/bin/sh\nexec sh \"$@\"\n").chmod(0o755)
    operator.folder("home/.local/share/uv/python/cpython-3.1.2/lib")
    (python / "cpython-3.1").symlink_to("cpython-3.1.2")
    place = operator.home / folder
    operator.folder(f"home/{folder}/lib")
    tool = operator.file(f"home/{folder}/bin/tester", AGENT.replace("/bin/sh", f"{place}/bin/python"))
    tool.chmod(0o755)
    (place / "bin/python").symlink_to(python / "cpython-3.1/bin/python3")
    operator.file(f"home/{folder}/pyvenv.cfg", f"home = {python}/cpython-3.1.2/bin\n")
    link = operator.folder("home/.local/bin") / "tester"
    link.symlink_to(tool)
    return [link.parent]


def in_uv(agents):
    return venv(agents, ".local/share/uv/tools/tester")


def in_pipx(agents):
    return venv(agents, ".local/share/pipx/venvs/tester")


def in_one_file(agents):
    agents.operator.file("home/.local/share/tester/versions/1.2.3", AGENT).chmod(0o755)
    link = agents.operator.folder("home/.local/bin") / "tester"
    link.symlink_to(agents.operator.home / ".local/share/tester/versions/1.2.3")
    return [link.parent]


@pytest.mark.parametrize("place", [in_npm, in_nvm, in_npm_with_nvm, in_dot_local, in_uv, in_pipx, in_one_file])
def test_wherever_it_is_installed(agents, place):
    """It runs with the profile's words and the user's, and cannot write its own files."""
    folders = place(agents)
    agents.profile()
    agents.operator.env["PATH"] = ":".join(map(str, [*folders, "/usr/bin", "/bin"]))
    done = agents.run('echo "hello from $TESTER_MODE"; echo x 2>/dev/null >>"$(realpath "$0")" || echo read only')
    assert done.status == 0, done
    assert done.out == "hello from quiet\nread only\n", done
    assert "tester" in done.err and ": --first echo" in done.err, done


def test_not_installed(agents):
    agents.profile()
    agents.run("true").sentence("'tester', the program of the profile 'tester', is not installed here",
                                "`npm install -g @tests/tester`")


@as_one
def test_behind_two_dashes_is_a_plain_command(agent):
    done = agent.operator.run("--", "tester", cwd=agent.project)
    assert done.status == 127 and "grant it with -v" in done.err


# ---- the project --------------------------------------------------------------------

def test_the_current_folder_is_the_workspace(agent):
    agent.operator.file("project/file", "before")
    agent.run("cat file; pwd; touch made").ok()
    assert not (agent.project / "made").exists()
    [cell] = [c for c in agent.operator.cells("-a") if c["state"] != "running"]
    agent.operator.kept.add(cell["cell"])
    assert "made" in agent.operator.cloister("diff", "--stat", cell["cell"]).ok()


@as_one
def test_neither_home_nor_everything(agent):
    agent.run("true", cwd=agent.operator.home).sentence("this is your home folder, not a project", "-w")
    agent.run("true", cwd="/").sentence("this is the whole machine, not a project")
    assert agent.run("pwd", cwd="/", options=["-w", str(agent.project)]).ok() == f"{agent.project}\n"


# ---- the home -----------------------------------------------------------------------

def test_it_keeps_its_state_for_one_project(agent):
    write = "echo mine >~/.tester/state; mkdir -p ~/.config/tester/a; echo x >~/.config/tester/a/b; echo y >~/other"
    assert agent.run(write).ok() == ""
    assert agent.run("cat ~/.tester/state ~/.config/tester/a/b; ls ~").ok() == "mine\nx\n"
    other = agent.operator.folder("other")
    assert agent.run("ls -A ~/.tester ~/.config/tester", cwd=other).ok().count("state") == 0
    assert not (agent.operator.home / ".tester").exists()
    # A file is replaced as programs do it.
    assert agent.run("echo new >~/.tester/new; mv ~/.tester/new ~/.tester/state; cat ~/.tester/state").ok() == "new\n"
    agent.cloister("forget", "tester").ok()
    assert agent.run("ls -A ~/.tester").ok() == ""


def test_agents_may_do_as_they_like_in_their_state(agent):
    """Modes, links and folders of its own do not stop the next run, and lead nowhere."""
    secret = agent.operator.file("home/secret", "secret")
    agent.operator.file("home/.tester/rules.md", "rules")
    agent.run(f"rm -f ~/.tester/rules.md; chmod 0777 ~/.tester; ln -s {secret} ~/.tester/link; "
              "mkdir ~/.tester/deep; chmod 0 ~/.tester/deep").ok()
    done = agent.run("cat ~/.tester/rules.md; cat ~/.tester/link 2>&1")
    assert done.out.startswith("rules") and "secret\n" not in done.out.replace("/secret", ""), done


def test_the_operators_own_files_are_read_only(agent):
    agent.operator.file("home/.tester/rules.md", "be kind\n")
    agent.operator.file("home/.tester/history", "private\n")
    agent.operator.file("home/.gitconfig", "[user]\nname = Ada\n")
    done = agent.run("cat ~/.tester/rules.md; git config --global user.name; ls -A ~/.tester; "
                     "(echo x >~/.tester/rules.md) 2>/dev/null || echo read only")
    assert done.ok() == "be kind\nAda\nrules.md\nread only\n"
    assert (agent.operator.home / ".tester/rules.md").read_text() == "be kind\n"


def test_a_file_with_a_key_is_not_given(agent):
    agent.operator.file("home/.gitconfig", f"[user]\nname = Ada\ntoken = {KEY}\n")
    assert agent.run("cat ~/.gitconfig 2>/dev/null; echo").ok() == "\n"


@as_one
def test_what_agents_kept_is_not_believed(agent):
    """The homes are in cloister's own folder, but agents write there."""
    agent.run("echo 'version: 1' >~/.tester/policy.yaml").ok()
    [policy] = (agent.operator.base / "data/homes").rglob("policy.yaml")
    agent.operator.run("-p", policy, "--", "true").sentence("an agent can or could write")


@as_one
def test_purge_removes_what_agents_kept(agent):
    agent.run("touch ~/.tester/x").ok()
    assert "what agents keep between runs" in agent.operator.cloister("purge", "--yes").ok()
    assert not (agent.operator.base / "data/homes").exists()


# ---- options ------------------------------------------------------------------------

@as_one
def test_options_win_over_the_profile(agent):
    doc = agent.doc("-e", "TESTER_MODE=loud", "--pids", "77", "--profile", "default")
    env = {v["name"]: v["value"] for v in doc["env"]}
    assert env["TESTER_HOME"] == "/home/agent/.tester"
    assert [v["value"] for v in doc["env"] if v["name"] == "TESTER_MODE"][-1] == "loud"
    assert doc["limits"]["pids"] == 77
    assert agent.doc()["limits"]["pids"] == 300
    mine = agent.operator.folder("mine")
    grants = agent.doc("-v", f"{mine}:/home/agent/.tester")["grants"]
    assert [g["host"] for g in grants if g.get("cell") == "/home/agent/.tester"] == [str(mine)]


@as_one
def test_profiles_of_cloister(agents):
    for name in ("claude", "codex", "gemini", "opencode", "aider", "goose", "qwen", "copilot", "cursor-agent", "amp",
                 "openhands"):
        shown = json.loads(agents.cloister("show", name, "--json").ok())
        assert shown["origin"] == "built in" and shown["about"] and shown["install"] and shown["keep"], name
        agents.install(name=shown["program"])
        doc = agents.doc(name=name)
        assert doc["command"][0].endswith(shown["program"]) and doc["secrets"] and doc["policy"], name
        assert doc["command"][1:] == shown["args"], name
    agents.cloister("check").ok()


@as_one
def test_mcp_servers_are_known_in_the_cell_only(agent):
    """Each form as its agent reads it, with a rule for the server on the network."""
    servers = "{docs: {url: 'https://mcp.example/mcp'}, here: {command: [run, 'a b'], env: {LEVEL: low}}}"
    program = {"command": "run", "args": ["a b"], "env": {"LEVEL": "low"}}

    def doc(form):
        agent.profile(PROFILE + f"mcp: {{as: {form}, servers: {servers}}}\n")
        doc = agent.doc()
        assert "https://mcp.example" in doc["policy"] or "mcp.example" in json.dumps(doc["policy"])
        return doc["command"][2:], {v["name"]: v["value"] for v in doc["env"]}
    [word], _ = doc("claude")
    assert json.loads(word.removeprefix("--mcp-config=")) == {"mcpServers": {
        "docs": {"type": "http", "url": "https://mcp.example/mcp"}, "here": program}}
    words, _ = doc("codex")
    assert words == ["-c", 'mcp_servers.docs.url="https://mcp.example/mcp"', "-c", 'mcp_servers.here.command="run"',
                     "-c", 'mcp_servers.here.args=["a b"]', "-c", 'mcp_servers.here.env.LEVEL="low"']
    _, env = doc("opencode")
    assert json.loads(env["OPENCODE_CONFIG_CONTENT"])["mcp"]["here"]["command"] == ["run", "a b"]
    agent.profile(PROFILE + f"mcp: {{as: gemini, servers: {servers}}}\n")
    read = "cat ~/.gemini/extensions/cloister/gemini-extension.json"
    told = json.loads(agent.run(read).ok())
    assert told == {"name": "cloister", "version": "1.0.0",
                    "mcpServers": {"docs": {"httpUrl": "https://mcp.example/mcp"}, "here": program}}
    assert not (agent.operator.home / ".gemini").exists()
    agent.operator.run("--print-doc", "tester", cwd=agent.project).sentence("which reads them from a file")
    # Where it is kept, a start without servers takes them away.
    keeps = PROFILE.replace("keep: [.tester,", "keep: [.tester, .gemini,")
    for servers, known in (("{docs: {url: 'https://mcp.example/mcp'}}", ["docs"]), ("{}", [])):
        agent.profile(keeps + f"mcp: {{as: gemini, servers: {servers}}}\n")
        assert list(json.loads(agent.run(read).ok())["mcpServers"]) == known


# ---- keys ---------------------------------------------------------------------------

def test_a_missing_key(agent):
    agent.profile(PROFILE + SECRET)
    agent.run("true").sentence("tester needs a key that is not in the vault",
                               "`cloister secret add ANTHROPIC_API_KEY` or `cloister secret add CLAUDE_CODE_OAUTH_TOKEN`")


@as_one
def test_a_missing_key_with_hosts(agent):
    agent.profile(PROFILE + "allow: [a.example]\nsecrets: ['OWN_KEY@a.example,b.example']\n")
    agent.run("true").sentence("`cloister secret add OWN_KEY --host 'a.example' --host 'b.example'`")


def test_a_login_of_the_operator_is_a_placeholder(agent):
    """A file of the same form, where the agent looks for it; the tokens stay outside."""
    token = "sk-ant-oat01-" + "aB3_x-Y9z7" * 8 + "abcdeAA"
    mine = {"claudeAiOauth": {"accessToken": token, "refreshToken": KEY, "expiresAt": 4102444800000, "scopes": ["a"]}}
    login = "login: {file: .claude/.credentials.json, secret: claude-login, expires: /claudeAiOauth/expiresAt}\n"
    agent.profile(PROFILE.replace("keep: [", "keep: [.claude, ") + SECRET + login)
    agent.run("true").sentence("tester needs a key that is not in the vault")
    file = agent.operator.file("home/.claude/.credentials.json", json.dumps(mine))
    # Whatever the agent left there is replaced, and no link of its is followed.
    agent.run("rm -rf ~/.claude/.cred*; ln -s /etc/passwd ~/.claude/.credentials.json; "
              "ln -s /etc/passwd ~/.claude/.credentials.json.new").ok()
    agent.run("rm ~/.claude/.cred*; mkdir -p ~/.claude/.credentials.json/a ~/.claude/.credentials.json.new/b; "
              "touch ~/.claude/.credentials.json/a/file; chmod 0 ~/.claude/.credentials.json/a; "
              "mkdir -p ~/.tester/rules.md/a; chmod 0 ~/.claude ~/.tester").ok()
    agent.operator.file("home/.tester/rules.md", "rules")
    assert agent.run("cat ~/.tester/rules.md").ok() == "rules"
    given = json.loads(agent.run("cat ~/.claude/.credentials.json").ok())["claudeAiOauth"]
    assert given["accessToken"].startswith("sk-ant-oat01-") and len(given["accessToken"]) == len(token)
    assert given["accessToken"] != token and KEY not in given.values() and given["expiresAt"] > 4e12
    assert json.loads(file.read_text()) == mine
    # A key in the vault goes first, and a file that an agent could write is never read.
    agent.operator.run("-w", f"{file.parent}:rw", "--no-policy", "--", "true").ok()
    agent.run("true").sentence("an agent can or could write")
    agent.operator.cloister("secret", "add", "CLAUDE_CODE_OAUTH_TOKEN", input=KEY).ok()
    agent.run("true").ok()


def test_the_key_is_a_placeholder(agent):
    agent.profile(PROFILE + SECRET)
    agent.operator.cloister("secret", "add", "CLAUDE_CODE_OAUTH_TOKEN", input=KEY).ok()
    shown = agent.run("env | grep -E 'ANTHROPIC|CLAUDE'").ok()
    assert "sk-ant-" in shown and KEY not in shown


# ---- the first run ------------------------------------------------------------------

def test_the_first_run_asks_and_later_ones_do_not(agent):
    agent.profile(PROFILE + SECRET + "login: {file: .tester-login, secret: claude-login}\n")
    agent.operator.file("home/.gitconfig", "[user]\nname = Ada\n")
    term = agent.terminal("echo it runs")
    first = term.expect("(?s)An agent of the tests.*hosts[^\n]*\n[^\n]*\n").group()
    for line in ("kept +~/.tester",
                 "read +~/.gitconfig", "log in by browser instead.*`tester` outside",
                 "2\\) CLAUDE_CODE_OAUTH_TOKEN", "Which key"):
        term.expect(line)
    term.type("2\n")
    term.expect("(?i)value|CLAUDE_CODE_OAUTH_TOKEN")
    term.type(KEY + "\n")
    # Neither the details of the secret, nor a hint about grants that are the profile's.
    shown = term.expect("(?s)not shown.*: --first").group()
    assert "CLAUDE_CODE_OAUTH_TOKEN is in the vault" in shown
    assert "fingerprint" not in shown and "has this path in the cell too" not in shown
    term.expect("it runs")
    assert term.end() == 0, term.text
    assert KEY not in term.text
    assert "CLAUDE_CODE_OAUTH_TOKEN" in agent.answers().read_text()
    assert "ANTHROPIC_API_KEY or CLAUDE" in first, first
    term.close()
    # Once it is known, the key is named that is used.
    agent.profile(PROFILE + SECRET + "login: {file: .tester-login, secret: claude-login}\nnested: false\n")
    known = agent.terminal("echo it runs")
    known.expect("key +CLAUDE_CODE_OAUTH_TOKEN, as a placeholder")
    known.expect("it runs")
    assert known.end() == 0, known.text
    known.close()
    again = agent.terminal("echo it runs")
    again.expect("it runs")
    assert again.end() == 0
    assert "hosts" not in again.text
    again.close()
    assert agent.run("echo it runs").ok() == "it runs\n"


@as_one
def test_a_changed_profile_is_shown_again(agent):
    term = agent.terminal("echo it runs")
    term.expect("kept +~/.tester")
    assert term.end() == 0
    term.close()
    agent.profile(PROFILE.replace("quiet", "loud"))
    term = agent.terminal("echo it runs")
    term.expect("kept +~/.tester")
    assert term.end() == 0
    term.close()


# ---- the project's profiles ---------------------------------------------------------

def test_a_projects_profile_is_used_once_it_is_accepted(agents):
    agents.install()
    file = agents.operator.file(f"project/{PROJECTS}/tester.yaml", PROFILE)
    agents.run("true").sentence("comes with the project", str(file), "`cloister profile trust tester`")
    shown = agents.cloister("trust", "tester").ok()
    assert "program: tester" in shown
    assert agents.run("echo it runs").ok() == "it runs\n"
    below = agents.operator.folder("project/below")
    assert agents.run("echo it runs", cwd=below).ok() == "it runs\n"
    assert "profile.trusted" in agents.operator.cloister("audit", "show", "--operator").ok()
    # Any other content is another profile.
    agents.operator.file(f"project/{PROJECTS}/tester.yaml", PROFILE + "nested: true\n")
    agents.run("true").sentence("nobody has accepted it as it is")


def test_a_projects_profile_at_a_terminal(agents):
    agents.install()
    agents.operator.file(f"project/{PROJECTS}/tester.yaml", PROFILE)
    term = agents.terminal("echo it runs")
    term.expect("Use it\\? \\[y/N\\]")
    term.type("\n")
    assert term.end() == 125
    assert "was not accepted" in term.text and "it runs" not in term.text
    term.close()
    term = agents.terminal("echo it runs")
    term.expect("kept +~/.tester")
    term.expect("Use it\\? \\[y/N\\]")
    term.type("y\n")
    term.expect("it runs")
    assert term.end() == 0
    term.close()
    assert agents.run("echo it runs").ok() == "it runs\n"


@as_one
def test_files_that_an_agent_could_write(agents):
    """Neither a project's profile nor remembered answers count then, whatever is in them."""
    agents.install()
    agents.operator.file(f"project/{PROJECTS}/tester.yaml", PROFILE)
    agents.cloister("trust", "tester").ok()
    assert agents.run("echo it runs").ok() == "it runs\n"
    agents.operator.run("-w", f"{agents.project}:rw", "--", "true").ok()
    agents.run("true").sentence("an agent can or could write", "the project's profile of the agent")
    agents.profile()
    agents.operator.file("config/cloister/agents/tester.yaml", "version: 1\n")
    assert agents.run("echo it runs").ok() == "it runs\n"
    agents.operator.run("-v", agents.answers().parent, "--", "true").ok()
    agents.run("true").sentence("an agent can or could write", "the remembered answers about the agent")


@as_one
def test_ones_own_profile_comes_first(agents):
    agents.install()
    agents.operator.file(f"project/{PROJECTS}/tester.yaml", PROFILE)
    agents.profile(PROFILE.replace("quiet", "mine"))
    assert agents.run("echo $TESTER_MODE").ok() == "mine\n"


# ---- verbs --------------------------------------------------------------------------

@as_one
def test_list_and_show(agents):
    agents.profile()
    agents.operator.file(f"project/{PROJECTS}/theirs.yaml", PROFILE)
    rows = {row["name"]: row for row in json.loads(agents.cloister("list", "--json").ok())}
    assert rows["tester"]["origin"] == "your own" and not rows["tester"]["installed"]
    assert rows["theirs"]["origin"] == "the project's" and not rows["theirs"]["trusted"]
    assert rows["claude"]["origin"] == "built in"
    assert "not accepted" in agents.cloister("list").ok()
    shown = agents.cloister("show", "tester").ok()
    assert shown.startswith("# ") and shown.endswith(PROFILE)
    agents.cloister("show", "nothing").sentence("there is no profile 'nothing'")


@as_one
def test_check(agents):
    file = agents.profile("program: tester\nargs: x\n")
    done = agents.cloister("check")
    assert done.status == 1 and done.err == f"{file}:2:7: `args` is a list of at most 64 items\n", done
    assert agents.cloister("check", file).status == 1
    agents.profile("program: tester\nsecrets: ['no name']\n")
    assert "a secret is given as" in agents.cloister("check").err
    assert agents.cloister("check", "tester").status == 1
    agents.profile()
    assert agents.cloister("check").ok() == "" and agents.cloister("check", "tester", "claude").ok() == ""
    agents.cloister("check", "nothing").sentence("there is no file 'nothing', and no profile of that name")
    agents.cloister("check", "./nothing.yaml").sentence("cannot open './nothing.yaml'")


@as_one
def test_a_slip_in_the_name(agents):
    agents.operator.run("claud", cwd=agents.project).sentence("there is no profile 'claud'", "did you mean the profile 'claude'?")
    # A command of the cell's own is none, nor is one of this machine.
    assert agents.operator.run("--", "claud", cwd=agents.project).status == 127
    agents.operator.run("true", cwd=agents.project).ok()


@as_one
def test_a_broken_profile_does_not_run(agents):
    agents.install()
    file = agents.profile("program: tester\nsandbox: off\n")
    agents.run("true").sentence(f"{file}:2:1: there is no key 'sandbox' in a profile")


@as_one
def test_new_and_edit(agents):
    file = agents.cloister("new", "mine", "--like", "claude").ok().strip()
    assert "program: claude" in open(file, encoding="utf-8").read()
    agents.cloister("new", "mine").sentence("cannot write", "exists")
    agents.cloister("new", "draft").ok()
    agents.cloister("check").ok()
    agents.cloister("new", "Bad").sentence("cannot be the name of a profile")
    agents.cloister("new", "x", "--like", "nothing").sentence("there is no profile 'nothing'")
    editor = agents.operator.file("editor", "#!/bin/sh\necho 'nested: true' >>\"$1\"\n")
    editor.chmod(0o755)
    agents.cloister("edit", "codex", env={"VISUAL": str(editor)}).ok()
    assert json.loads(agents.cloister("show", "codex", "--json").ok())["nested"] is True
    agents.operator.file("editor", "#!/bin/sh\necho 'what: 1' >>\"$1\"\n").chmod(0o755)
    done = agents.cloister("edit", "codex", env={"VISUAL": str(editor)})
    assert done.status == 1 and "there is no key 'what'" in done.err


@as_one
def test_forget_all(agent):
    agent.run("touch ~/.tester/x").ok()
    agent.run("touch ~/.tester/x", cwd=agent.operator.folder("other")).ok()
    term = Terminal(agent.operator, agent.operator.program, "profile", "forget", "tester", cwd=agent.project)
    assert term.end() == 0 and "forgot what tester kept for this folder" in term.text, term.text
    term.close()
    assert agent.cloister("forget", "tester", "--all").ok() == ""
    assert os.listdir(agent.operator.base / "data/homes/tester") == []
    assert "kept nothing" in agent.cloister("forget", "tester").ok()


def test_why_names_the_line_of_the_profile(agents):
    agents.install("#!/bin/sh\ncurl -s -X POST http://192.0.2.9/ok; curl -s http://192.0.2.9/ok\n")
    file = agents.profile("version: 1\nprogram: tester\nallow:\n  - a.example\n  - GET http://192.0.2.9/ok\n")
    agents.run(options=("--name", "told"))
    refused, private = [e for e in map(json.loads, agents.operator.cloister("events", "--json", "told").ok().splitlines())
                        if e["type"] == "http"]
    why = agents.operator.cloister("why", "told", str(refused["n"])).ok()
    assert refused["why"] == "no-rule" and f"    profile {file}:5  allow " in why, why
    why = agents.operator.cloister("why", "told", str(private["n"])).ok()
    assert private["rule"] == f"profile {file}:5" and f"The rule of the profile {file}:5 is: allow" in why, why


def test_why_names_the_profile_and_its_preset(agents):
    agents.install("#!/bin/sh\ncurl -s -X PUT http://registry.npmjs.org/mine\n")
    file = agents.profile("version: 1\nprogram: tester\nallow:\n  - preset:npm\n")
    agents.run(options=("--name", "told"))
    refused, = [e for e in map(json.loads, agents.operator.cloister("events", "--json", "told").ok().splitlines())
                if e["type"] == "http"]
    why = agents.operator.cloister("why", "told", str(refused["n"])).ok()
    assert re.search(rf"^    profile {re.escape(str(file))}:4, preset:npm:\d+:\d+  allow ", why, re.M), why
