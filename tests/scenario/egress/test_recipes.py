"""The recipes of docs/recipes: each page is executed from top to bottom, as a reader would do it.

A block of `sh` is run, one of `text` is in what the command before it printed, and any other is a file, whose name is in
the line above.  `sh fails` is a command that fails, `sh file` is a file, and `sh await approvals` waits for a request."""
import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile

import pytest

from egress_databases import Postgres, needs_postgres
from egress_lab import needs, needs_npm_module
from operators import SECONDS, TREE, only_root, wait_until
from test_egress_clients import apt_repository, refs  # noqa: F401  a fixture
from test_real_programs import wheel
from tools_lab import copy_package

RECIPES = TREE / "docs/recipes"
VALUE = "cAnary0123456789abcdef0123456789"
LONG = 120              # package managers and browsers, on a busy machine

# The tests' world has these names for those of a reader.
WORLD = {"example.com": "example.test"}


@pytest.fixture
def who():
    """One kind of operator is enough: the other tests have both."""
    return "user"


def localized(text):
    for theirs, ours in WORLD.items():
        text = text.replace(theirs, ours)
    return text


def blocks(page):
    """(language, what else is said about it, the file's name or None, text) of each block of PAGE."""
    text = localized((RECIPES / page).read_text())
    for block in re.finditer(r"^```(\w+)([^\n]*)\n(.*?)^```$", text, flags=re.M | re.S):
        above = text[:block.start()].rstrip().rsplit("\n", 1)[-1]
        name = re.search(r"`([~\w./-]+\.\w+|\.npmrc)`", above)
        yield block[1], block[2].strip(), name and name[1], block[3]


def shows(said, wanted):
    """Whether the lines of WANTED are in those of SAID, in this order; '...' is anything."""
    lines = iter(said.splitlines())
    for line in wanted.splitlines():
        form = ".*".join(re.escape(re.sub(r"\s+", " ", part)) for part in line.strip().split("..."))
        if not any(re.search(form, re.sub(r"\s+", " ", said)) for said in lines):
            return False
    return True


class Reader:
    """Somebody with a project, who follows a recipe."""

    def __init__(self, online):
        self.online, self.operator = online, online.operator
        self.project = self.operator.folder("home/project")
        self.operator.env |= {"PATH": f"{self.operator.home}/bin:{self.operator.program.parent}:{self.operator.env['PATH']}",
                              "XDG_CONFIG_HOME": str(self.operator.folder("home/.config"))}

    def program(self, name, text):
        self.operator.file(f"home/bin/{name}", text).chmod(0o755)

    def write(self, name, text):
        place = name.replace("~/", "home/") if name.startswith("~/") else f"home/project/{name}"
        self.operator.file(place, text).chmod(0o600)

    def await_approval(self):
        wait_until(lambda: self.operator.cloister("approvals", "--json").ok(), "a request waits")

    def type(self, script, fails=False):
        done = self.operator.do("sh", "-ec", f"exec 2>&1\n{script}", cwd=self.project, input=VALUE, seconds=LONG)
        self.operator.kept |= {cell["cell"] for cell in self.operator.cells("-a")}
        assert (done.status != 0) == fails, (script, done)
        return done.out

    def follow(self, page, change=lambda script: script):
        """All of PAGE; what was printed."""
        said, everything = None, ""
        for language, how, name, text in blocks(page):
            if language == "text":
                assert shows(said, text), (page, text, said)
            elif language == "sh" and how != "file":
                if how == "await approvals":
                    self.await_approval()
                said = self.type(change(text), how == "fails")
                everything += said
            else:
                assert name, (page, text)
                self.write(name, text)
        assert said is not None, f"nothing in {page} is executed"
        return everything

    def events(self, cell, **wanted):
        self.online.cell = cell
        return self.online.events(**wanted)


@pytest.fixture
def reader(online):
    return Reader(online)


def test_every_recipe_is_executed_and_listed():
    pages = {path.name for path in RECIPES.glob("*.md")} - {"README.md"}
    here = open(__file__).read()
    listed = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (RECIPES / "README.md").read_text()))
    assert pages == listed == set(re.findall(r'"([a-z-]+\.md)"', here))


# ---- agents --------------------------------------------------------------------------------------

# Each asks its provider as the real one does, writes a file, and looks for more than it was given.
AGENT = """#!/bin/sh
curl -sS --fail {request} -H 'content-type: application/json' >/tmp/answer || exit 1
grep -q 'hello from the model' /tmp/answer || exit 2
echo done >notes.txt
cat ~/.ssh/id_ed25519 2>&1
echo "key ${variable}"
getent hosts paste.example
exit 0
"""
ANTHROPIC = """https://api.anthropic.com/v1/messages -H "x-api-key: $ANTHROPIC_API_KEY" \
 -d '{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'"""
OPENAI = """https://api.openai.com/v1/responses -H "authorization: Bearer $CODEX_API_KEY" \
 -d '{"model": "m", "input": [{"role": "user", "content": "hi"}]}'"""
GEMINI = """https://generativelanguage.googleapis.com/v1beta/models/m:generateContent -H "x-goog-api-key: $GEMINI_API_KEY" \
 -d '{"contents": [{"parts": [{"text": "hi"}]}]}'"""


def stand_in(reader, name, request, variable):
    reader.program(name, AGENT.replace("{request}", request).replace("{variable}", variable))
    reader.operator.file("home/.ssh/id_ed25519", "an operator's key")


@needs("jq")
@pytest.mark.parametrize("page, name, request_, variable, host", [
    ("claude.md", "claude", ANTHROPIC, "ANTHROPIC_API_KEY", "api.anthropic.com"),
    ("codex.md", "codex", OPENAI, "CODEX_API_KEY", "api.openai.com"),
    ("gemini.md", "gemini", GEMINI, "GEMINI_API_KEY", "generativelanguage.googleapis.com"),
    ("opencode.md", "opencode", ANTHROPIC, "ANTHROPIC_API_KEY", "api.anthropic.com")],
    ids=["claude", "codex", "gemini", "opencode"])
def test_agents(reader, page, name, request_, variable, host):
    stand_in(reader, name, request_, variable)
    said = reader.follow(page)
    assert "No such file" in said and VALUE not in said and "an operator's key" not in said
    assert (reader.project / "notes.txt").read_text() == "done\n"
    assert [e["status"] for e in reader.events("fix", type="http", host=host)] == [200]
    sent = [line for line in map(json.loads, reader.online.lab.seen(host)) if line["server"] == "model"]
    assert VALUE in sent[-1]["key"]


def test_ci(reader):
    """"github-actions.md": the step that runs the agent."""
    stand_in(reader, "claude", ANTHROPIC, "ANTHROPIC_API_KEY")
    (_, _, name, workflow), = blocks("github-actions.md")
    step = re.search(r"- name: Run the agent\n.*?run: \|\n(.*?)^      - ", workflow, flags=re.M | re.S)[1]
    said = reader.type(f"export ANTHROPIC_API_KEY={VALUE}\n" + re.sub(r"^ {10}", "", step, flags=re.M))
    assert name.endswith("agent.yml") and "Cells can run here." in said
    assert "+done" in (reader.project / "agent.patch").read_text()
    assert VALUE not in (reader.project / "agent.jsonl").read_text()


def test_editor(reader):
    """Flags as `cloister doctor` has them, and tasks that run."""
    stand_in(reader, "claude", ANTHROPIC, "ANTHROPIC_API_KEY")
    reader.operator.cloister("secret", "add", "ANTHROPIC_API_KEY", input=VALUE).ok()
    reader.follow("devcontainer.md")
    container = json.loads((reader.project / ".devcontainer/devcontainer.json").read_text())
    assert f"`{' '.join(container['runArgs'])}` (Docker)" in \
        re.sub(r'"\s*"', "", (TREE / "src/boundary/place.c").read_text())
    tasks = json.loads((reader.project / ".vscode/tasks.json").read_text())["tasks"]
    assert "+done" in [reader.type(task["command"]) for task in tasks][-1]


# ---- package managers ------------------------------------------------------------------------------

def npm_package(name, url, **more):
    """A package whose script reaches for another host: its tarball, and what a registry says of it."""
    about = {"name": name, "version": "1.2.3", **more}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for file, text in (("package/package.json", json.dumps(about)), ("package/index.js", "module.exports = 1\n")):
            info = tarfile.TarInfo(file)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    dist = {"tarball": url, "shasum": hashlib.sha1(data.getvalue()).hexdigest()}
    versions = {"1.2.3": {**about, "dist": dist}}
    return data.getvalue(), json.dumps({"name": name, "dist-tags": {"latest": "1.2.3"}, "versions": versions})


@needs("node", "npm")
def test_npm(reader):
    script = {"scripts": {"postinstall": "getent hosts paste.example || true"}}
    data, index = npm_package("tool", "https://registry.npmjs.org/tool/-/tool-1.2.3.tgz", **script)
    reader.online.lab.file("hosts/registry.npmjs.org/tool/-/tool-1.2.3.tgz", data)
    reader.online.lab.file("hosts/registry.npmjs.org/tool/index.json", index)
    reader.write("package.json", json.dumps({"name": "p", "version": "1.0.0", "dependencies": {"tool": "*"}}))
    reader.follow("npm.md")
    assert (reader.project / "node_modules/tool/index.js").exists()


@needs("node", "npm")
def test_private_registry(reader):
    lab = reader.online.lab
    data, index = npm_package("@acme/inner", "https://forge.example.test/inner.tgz")
    (lab.folder / "private/@acme").mkdir(parents=True)
    (lab.folder / "private/inner.tgz").write_bytes(data)
    (lab.folder / "private/@acme/inner").write_text(index)
    (lab.folder / "registry.token").write_text(VALUE)
    with lab.serve("egress_packages.py"):
        said = reader.follow("private-registry.md")
    assert VALUE not in said
    assert {e["status"] for e in reader.events("install", type="http")} == {200}


def test_pip(reader):
    pytest.importorskip("ensurepip")
    reader.online.lab.file("hosts/pypi.org/simple/local-thing/local_thing-0.1-py3-none-any.whl", wheel())
    reader.online.lab.file("hosts/pypi.org/simple/local-thing/index.html",
                           '<a href="local_thing-0.1-py3-none-any.whl">local_thing-0.1-py3-none-any.whl</a>')
    reader.follow("pip.md")


def cargo():
    """The toolchain's folder, if cargo knows sparse registries."""
    words = ["rustc", "--print", "sysroot"]
    try:
        version = subprocess.run(["cargo", "--version"], check=True, capture_output=True, text=True).stdout
        root = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return root if tuple(map(int, re.findall(r"\d+", version)[:2])) >= (1, 68) else None


@pytest.mark.skipif(cargo() is None, reason="there is no cargo 1.68 or later")
@only_root              # whose toolchain it may be
def test_cargo(reader):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for file, text in (("Cargo.toml", '[package]\nname = "tool"\nversion = "0.1.0"\nedition = "2021"\n'),
                           ("src/lib.rs", "")):
            info = tarfile.TarInfo(f"tool-0.1.0/{file}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    line = {"name": "tool", "vers": "0.1.0", "deps": [], "features": {}, "yanked": False,
            "cksum": hashlib.sha256(data.getvalue()).hexdigest()}
    lab = reader.online.lab
    lab.file("hosts/index.crates.io/config.json", json.dumps({"dl": "https://static.crates.io/crates",
                                                              "api": "https://crates.io"}))
    lab.file("hosts/index.crates.io/to/ol/tool", json.dumps(line) + "\n")
    lab.file("hosts/static.crates.io/crates/tool/0.1.0/download", data.getvalue())
    reader.write("Cargo.toml", '[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\ntool = "*"\n')
    reader.write("src/lib.rs", "")
    reader.follow("cargo.md", lambda script: script.replace(
        "-- cargo", f"-v {cargo()}:/opt/rust:ro -e PATH=/opt/rust/bin:/usr/bin:/bin -- cargo"))
    assert [e["status"] for e in reader.events("build", type="http", host="static.crates.io")] == [200]


@needs("apt-get", "dpkg-deb")
def test_apt(reader, apt_repository):
    files = reader.online.lab.folder / "files"
    shutil.copytree(files / "deb", files / "hosts/deb.debian.org/debian", dirs_exist_ok=True)
    reader.follow("apt.md")


# ---- servers ---------------------------------------------------------------------------------------

@needs("git", "fcgiwrap")
def test_git(reader, tmp_path):
    bare = reader.online.lab.folder / "git/team/site.git"
    work = tmp_path / "site"
    git = ["git", "-c", "user.name=o", "-c", "user.email=o@example.org", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q", "--bare", bare], ["init", "-q", work]):
        subprocess.run([*git, *words], check=True)
    (work / "file").write_text("one\n")
    for words in (["add", "."], ["commit", "-q", "-m", "one"], ["push", "-q", bare, "main"]):
        subprocess.run([*git, "-C", work, *words], check=True)
    subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], check=True)
    reader.follow("git-push.md")
    assert refs(reader.online, "site") == {"refs/heads/main": "one", "refs/heads/agent": "more"}


@needs_postgres
def test_database(reader, ground):
    server = Postgres(reader.online.lab, ground / "recipe-postgres", {"app": VALUE})
    try:
        said = reader.follow("database.md")
    finally:
        server.close()
    assert VALUE not in said


@needs("chromium")
def test_browser(reader):
    reader.online.lab.file("page.html", "<script>document.write('<h1>It ' + 'works</h1>')</script>"
                           "<img src=https://paste.example/x.png>")
    reader.follow("browser.md")
    assert [e["host"] for e in reader.events("browse", type="dns", verdict="deny") if "paste" in e["host"]]


@needs("chromium", "node")
@needs_npm_module("@playwright/mcp")
def test_browser_tools(reader):
    reader.online.lab.file("page.html", "<script>document.title = 'It ' + 'works'</script>"
                           "<img src=https://paste.example/x.png>")
    copy_package("@playwright/mcp", reader.project / "node_modules", set())
    subprocess.run(["chown", "-R", f"{reader.operator.uid}", reader.project], check=True)
    reader.follow("browser-tools.md")
    [server] = {event["server_cell"] for event in reader.events("browse", type="tool") if event["did"] == "start"}
    assert [e["host"] for e in reader.events(server, type="dns", verdict="deny") if "paste" in e["host"]]
    assert {e["host"] for e in reader.events("browse", type="http")} == {"tools.cloister.internal"}


@needs("jq")
def test_phone(reader):
    reader.follow("phone.md")
    [rung] = wait_until(lambda: reader.online.lab.seen("my-topic"), "the phone rings", SECONDS)
    fields = dict(json.loads(rung)["fields"])
    assert fields["title"].endswith(": POST up.example.test/echo")
    assert [e["status"] for e in reader.events("job", type="http", verdict="allow")] == [200]


# ---- teams ------------------------------------------------------------------------------------------

def test_many_agents(reader):
    reader.follow("many-agents.md")


def test_team(reader):
    said = reader.follow("team-policies.md")
    assert "ceiling.yaml" in said


@needs("jq")
def test_siem(reader):
    reader.follow("siem.md")
    lines = [json.loads(line) for line in (reader.project / "ecs.jsonl").read_text().splitlines()]
    assert {line["event"]["outcome"] for line in lines} == {"success", "failure"}
