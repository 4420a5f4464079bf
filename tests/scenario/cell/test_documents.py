"""The README, the documents and the man pages are correct."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import images
import vm
from operators import BUILD, CLOISTER, TREE

MAN = TREE / "man"
DOCUMENTS = sorted([*TREE.glob("*.md"), *TREE.glob("docs/**/*.md")])
PAGES = sorted(MAN.glob("*.[0-9]"))


def names(paths):
    return [str(path.relative_to(TREE)) for path in paths]


def help_of(*command):
    return subprocess.run([CLOISTER, "help", *command], capture_output=True, text=True,
                          check=True).stdout


COMMANDS = re.findall(r"^  (\w+) ", help_of(), flags=re.M)


def help_options(command):
    """{"--name": (its line, "-n" or None)}, as `cloister help COMMAND` has them."""
    lines = re.findall(r"^  (?:(-\w),|   ) (--[\w-]+)(.*)$", help_of(command), flags=re.M)
    return {name: (rest, letter or None) for letter, name, rest in lines}


def page_options(command):
    """The same from the man page: {"--name": (its item's text, "-n" or None)}."""
    found = {}
    text = (MAN / f"cloister-{command}.1").read_text()
    for item in re.split(r"^\.It ", text, flags=re.M)[1:]:
        head, _, body = item.partition("\n")
        flags = re.findall(r"\bFl (-?[\w-]+)", head)
        long = [f"-{flag}" for flag in flags if flag.startswith("-")]
        letters = [f"-{flag}" for flag in flags if not flag.startswith("-")]
        if flags:
            assert len(long) == 1 and len(letters) <= 1, head
            found[long[0]] = (head + "\n" + body, letters[0] if letters else None)
    return found


# ---- man pages -------------------------------------------------------------------------

def test_there_are_commands():
    assert {"run", "ps", "exec", "kill", "diff", "apply", "doctor"} <= set(COMMANDS)


def test_every_command_has_a_man_page_and_every_page_a_command():
    assert {page.name for page in PAGES} == \
        {"cloister.1", "cloister-oci.8", "cloister.yaml.5", *(f"cloister-{command}.1" for command in COMMANDS)}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_overview_names_the_command(command):
    assert f"\n.It Cm {command}\n" in (MAN / "cloister.1").read_text()
    assert f".Xr cloister-{command} 1" in (MAN / "cloister.1").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_man_page_have_the_same_options(command):
    in_help = {name: letter for name, (_, letter) in help_options(command).items()}
    in_page = {name: letter for name, (_, letter) in page_options(command).items()}
    assert in_help == in_page


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_man_page_have_the_same_values(command):
    page = page_options(command)
    for name, (rest, _) in help_options(command).items():
        value = re.match(r" ([A-Z]\S*)", rest)
        shown = re.sub(r"\s*(?:\b(?:Ns|Op|Oo|Oc|Ar|Cm)\b)\s*", "", page[name][0].split("\n")[0])
        if value:
            assert re.sub(r"[\[\]]", "", value.group(1)) in shown, name
        default = re.search(r"\((\d+\w*)\)$", rest)
        if default:
            assert re.search(rf"\bCm {default.group(1)}\b", page[name][0]), name


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc")
@pytest.mark.parametrize("page", names(PAGES))
def test_the_man_page_is_clean(page):
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", TREE / page], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0 and done.stdout == "", done.stdout


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
@pytest.mark.parametrize("page", names(PAGES))
def test_the_man_page_fits_a_terminal(page):
    """A word that is too long for its line is a complaint in front of the page."""
    done = subprocess.run(["groff", "-mandoc", "-Tutf8", "-rLL=78n", TREE / page],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("page", names(PAGES))
def test_the_man_page_refers_to_pages_that_exist(page):
    for name in re.findall(r"^\.Xr (cloister\S*) 1", (TREE / page).read_text(), flags=re.M):
        assert (MAN / f"{name}.1").exists(), name


# ---- documents ---------------------------------------------------------------------------

def anchors(text):
    """What GitHub calls a document's headings."""
    heads = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S),
                       flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", names(DOCUMENTS))
def test_links_in_the_document_lead_somewhere(document):
    path = TREE / document
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        to = path.parent / name if name else path
        assert to.exists(), target
        assert not anchor or anchor in anchors(to.read_text()), target


@pytest.mark.parametrize("document", names([*DOCUMENTS, *PAGES]))
def test_the_document_knows_nothing_of_this_machine(document):
    text = (TREE / document).read_text()
    home = Path.home()
    for path in (TREE, BUILD, home if home.parts[1:2] in (("home",), ("root",)) else TREE):
        assert path == Path("/home/agent") or f"{path}" not in text, path


# Of other programs.
FOREIGN = {"--no-sandbox", "--box", "--user", "--scope", "--help", "--version", "--unshare-all",
           "--unix-socket", "--security-opt", "--cacert", "--arg", "--argjson", "--slurpfile", "--dangerously-skip-permissions",
           "--dangerously-bypass-approvals-and-sandbox", "--cli", "--method", "--transport", "--header",
           "--cached", "--headless", "--disable-gpu", "--dump-dom", "--force", "--delete", "--no-audit", "--no-fund", "--index-url",
           "--disable-pip-version-check", "--from", "--chown", "--chmod", "--mount", "--network", "--annotation", "--runtime", "--runtime-flag",
           "--from-literal", "--set", "--target", "--create-namespace", "--for", "--only",
           "--executable-path", "--isolated", "--cap-drop", "--env", "--pids-limit", "--read-only", "--rm", "--tmpfs", "--volume"}


def matrix_options():
    said = subprocess.run([sys.executable, TREE / "tests/matrix/run.py", "--help"], capture_output=True,
                          text=True, check=True).stdout
    return set(re.findall(r"--[a-z][a-z0-9-]+", said))


def oci_options():
    """Those of cloister-oci, which are not cloister's."""
    source = (TREE / "src/proc/oci/main.c").read_text()
    return {f"--{name}" for name in re.findall(r'{ "([a-z0-9-]{2,})", [A-Z_]+, ', source)}


@pytest.mark.parametrize("document", names([*DOCUMENTS, *PAGES]))
def test_options_in_the_document_exist(document):
    known = FOREIGN | {name for command in COMMANDS for name in help_options(command)}
    if document in ("docs/runtimes.md", "man/cloister-oci.8"):
        known |= oci_options()
    if document == "docs/testing.md":
        known |= matrix_options()
    if document == "docs/install.md":
        known |= set(re.findall(r"--[a-z][a-z0-9-]+", (TREE / "packaging/install.sh").read_text()))
    text = (TREE / document).read_text()
    # In mdoc, "Fl -" by itself is "--".
    said = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))
    said |= {f"-{name}" for name in re.findall(r"\bFl (-[a-z][a-z0-9-]+)", text)}
    assert said <= known


def test_the_architecture_names_every_folder_and_program():
    text = (TREE / "docs/architecture.md").read_text()
    folders = [p.name for p in (TREE / "src").iterdir() if p.is_dir()]
    assert [f for f in folders if f"{f}/" not in text] == []
    assert [p.name for p in (CLOISTER.parent / "libexec").glob("cloister-*")
            if p.name not in text] == []


def documented_variables():
    page = (MAN / "cloister-run.1").read_text()
    section = page[page.index(".Sh ENVIRONMENT"):page.index(".Sh EXIT STATUS")]
    in_page = set(re.findall(r"[A-Z_]+", " ".join(re.findall(r"^\.It Ev (.*)$", section,
                                                             flags=re.M))))
    row = re.search(r"^\| environment \| (.*)$", (TREE / "docs/tour.md").read_text(), flags=re.M)
    in_tour = {word for code in re.findall(r"`([A-Z_ ]+)`", row.group(1))
                 for word in code.split()}
    assert in_page == in_tour
    return in_page


def test_the_documented_variables_are_those_of_a_cell(operator):
    said = operator.run("--", "env", "-0").ok()
    found = {entry.split("=")[0] for entry in said.split("\0") if entry}
    assert found == documented_variables() - {"TERM"}


VALUE = "0123456789abcdef"             # of a secret that an example adds


HELD_BACK = 1                   # of `apply`, where a part of the examples' changes is held back


# ---- the README's examples, and the tour's, which goes on from there ------------------------------

def blocks(document):
    return re.findall(r"^```sh\n(.*?)^```$", (TREE / document).read_text(), flags=re.M | re.S)


def steps():
    """The steps of a reader, in order: (file, text) to write, and (None, command) to type."""
    text = "".join((TREE / document).read_text() for document in ("README.md", "docs/tour.md"))
    for file, content, script in re.findall(r"[Ii]n `(\w+\.yaml)`[^`]*^```yaml\n(.*?)^```$|^```sh\n(.*?)^```$",
                                            text, flags=re.M | re.S):
        if file:
            yield file, content
        for line in script.splitlines():
            if re.match(r"(build/)?cloister\b", line):
                yield None, re.sub(r" -- claude .*", " -- true", line)      # which is somebody's own


def test_the_readme_has_the_important_examples():
    said = " ".join(text for file, text in steps() if file is None)
    for command in ("run", "diff", "apply", "discard", "ps", "exec", "logs", "stop", "kill", "events",
                    "why", "secret", "state", "agent", "dispatch", "audit"):
        assert f"cloister {command} " in said + " ", command
    assert [file for file, _ in steps() if file] == ["cloister.yaml", "upper.yaml"]


def install_claude(operator):
    """An agent of that name, which is somebody's own; a folder for PATH."""
    operator.file("home/bin/claude", "#!/bin/sh\n").chmod(0o755)
    return operator.home / "bin"


def test_the_readmes_examples_work_in_order(operator):
    operator.env["PATH"] = f"{install_claude(operator)}:{operator.env['PATH']}"
    operator.env["XDG_CONFIG_HOME"] = str(operator.folder("config"))
    project = operator.folder("project", {"README": "A project.\n"})
    diffs = []
    for file, text in steps():
        if file:
            operator.file(f"project/{file}", text)
            continue
        said = operator.cloister(*shlex.split(text)[1:], cwd=project,
                                 input=VALUE if "secret add" in text else None)
        operator.kept |= {cell["cell"] for cell in operator.cells("-a")}
        assert said.status == (HELD_BACK if text.strip() == "cloister apply fix" else 0), (text, said)
        if text.startswith("cloister diff "):
            diffs.append(said.out)
    # What the text around them promises.
    assert (project / "README").read_text() == "A project.\nIt works.\n"
    assert sorted(os.listdir(project)) == ["README", "cloister.yaml", "upper.yaml"]
    assert ["+It works.\n" in diff for diff in diffs] == [True, False]
    assert ["A .envrc  (held back" in diff for diff in diffs] == [True, True]
    assert operator.cells("-a") == []
    assert operator.cloister("state", "cat", "brain", "NOTES.md").ok() == "Tests are in tests/.\n"
    assert operator.cloister("secret", "list", "--json").ok().count(VALUE) == 0


def run_script(operator, text):
    operator.file("script", text)
    path = f"{operator.program.parent}:/usr/bin:/bin"
    return operator.do("sh", "-e", operator.base / "script", cwd=operator.folder("scripts"), env={"PATH": path})


@pytest.mark.skipif(CLOISTER.name != "cloister", reason="it is another program")
def test_scripts_of_the_documents_work(operator):
    """From nothing to a result, by what stands there alone."""
    script, = (block for block in blocks("docs/registry.md") if "<<" in block)
    said = run_script(operator, script)
    assert said.status == 0 and "How many words?\n" in said.out and "1 file of /out (2B)" in said.err, said
    script, = (block for block in blocks("docs/registry.md") if "cloister assign" in block)
    run_script(operator, script).ok()
    script, = (block for block in blocks("docs/images.md") if "image load minimal:" in block)
    assert "cloister.internal/minimal:latest" in run_script(operator, script).ok()
    script, = (block for block in blocks("docs/audit.md") if "verify_proof" in block)
    operator.file("scripts/docs/verify_proof.py", (TREE / "docs/verify_proof.py").read_text())
    assert run_script(operator, script).ok().startswith("proved: ")


# ---- the man pages' examples ---------------------------------------------------------------------

def page_examples():
    """Everything that is typed in them, lines put together."""
    text = "".join(re.sub(r"\|\n +", "| ", page.read_text()) for page in PAGES)
    return sorted(set(re.findall(r"^(?:\.Dl )?\$ (cloister .*|cell=.*)$", text, flags=re.M)))


# What an example runs is somebody's own.
OWN = r"(?<=-- )(agent|npm ci|make test|make|\./job\.sh|\./check)(?=\)|$)"
# The cells that they speak of.
CHANGES = "mkdir -p src .vscode; echo 1 >src/main.c; echo {} >.vscode/tasks.json"
CELLS = {"fix": ["-w", ".", "--no-policy", "--", "sh", "-c", CHANGES],
         "try": ["-w", ".", "--no-policy", "--", "touch", "x"],
         "job": ["-d", "--allow", "a.example", "--", "sh", "-c", "getent hosts b.example; exec sleep $0"]}


@pytest.mark.parametrize("line", page_examples())
def test_the_examples_of_man_pages_work(operator, line):
    if "jq" in line and shutil.which("jq") is None:
        pytest.skip("no jq")
    if re.search("--memory|cloister freeze", line) and not operator.is_root:
        pytest.skip("ordinary users may have no cgroup here")
    if re.search("cloister (pause|resume|fork)", line):
        pytest.skip("it needs a virtual machine: test_microvm_pause.py and test_microvm_fork.py have some")
    runs_on = "1000" if re.search(r"cloister (exec|stop|kill|ps|freeze|thaw|ttl|allow|deny|revoke|rotate|policy show)", line) else "0"
    project = operator.folder("project")
    if re.search(r"cloister\.yaml|policy (test|trust)$", line):
        operator.file("project/cloister.yaml", "version: 1\negress: []\n")
        operator.file("project/cloister.test.yaml", "- {request: https://x.y, expect: deny}\n")
    if re.search("cloister (capability|agent|env|target|assign|dispatch)", line):
        operator.folder("project/web-search", {"capability.yaml": "name: web-search\n"})
        operator.file("project/question.txt", "why?\n")
        operator.file("project/researcher.yaml", "name: researcher\ncommand: [cp, /etc/hostname, /out]\n")
        operator.file("project/common.yaml", "name: common\nvalues: {}\n")
        operator.file("project/builders.yaml", "name: builders\nengine: swarm\nimage: worker:1\n")
        for kind, file in (("capability", "web-search"), ("agent", "researcher.yaml"), ("env", "common.yaml"),
                           ("target", "builders.yaml")):
            operator.cloister(kind, "register", file, cwd=project).ok()
    if re.search("cloister state (tag|rollback)", line):
        operator.cloister("state", "create", "brain").ok()
        if "rollback" in line:
            operator.cloister("state", "tag", "brain", "known-good").ok()
    if "cloister rebuild" in line:
        operator.cloister("plan", "export", "--with-data", "-o", "backup", cwd=project).ok()
    if "cloister trust" in line:
        operator.run("-v", f"{operator.own(operator.folder('home/project'))}:/w", "--", "true").ok()
    if "run claude" in line:
        operator.cloister("secret", "add", "ANTHROPIC_API_KEY", input=VALUE).ok()
    with_secret = re.search(r"cloister (revoke|rotate|secret rotate)", line)
    if with_secret:
        operator.cloister("secret", "add", "GITHUB_TOKEN", input=VALUE).ok()
    (operator.home / ".cache/thing").mkdir(parents=True, exist_ok=True)
    for name, words in CELLS.items():
        if f"--name {name}" not in line:
            secret = ["-s", "GITHUB_TOKEN"] if with_secret and name == "job" else []
            operator.run("-q", "--name", name, *secret, *words, *([runs_on] if name == "job" else []),
                         cwd=project).ok()
    if runs_on == "0":
        operator.cloister("wait", "job")
    if "cloister tools" in line:
        shutil.copy(TREE / "tests/scenario/hostile_tools.py", project / "server.py")
        operator.file("project/.mcp.json", '{"mcpServers": {"it": {"command": "python3", "args": ["server.py", "names"]}}}')
        servers = "{it: {command: [python3, server.py, names], folder: .}}"
        operator.file("project/cloister.yaml", f"version: 1\ntools:\n  servers: {servers}\n" if "import" not in line
                      else "version: 1\n")
        if "check" in line:
            operator.cloister("tools", "lock", cwd=project).ok()
    script = re.sub(OWN, "true", line).replace("cloister learn", "cloister learn -o new.yaml")
    if "cloister cache fill" in line:
        script = script.replace("-- true", "-- touch /cache/web/package")
    done = operator.do("sh", "-c", f"cell=job; {script}", cwd=project,
                       input=VALUE if re.search("secret (add|rotate)", line) else "", env={
                           "PATH": f"{operator.program.parent}:{install_claude(operator)}:{os.environ['PATH']}",
                           "XDG_CONFIG_HOME": str(operator.folder("config")), "API_KEY": VALUE,
                           "GITHUB_TOKEN": VALUE,
                           "CLOISTER_DATA_DIR": operator.env["CLOISTER_DATA_DIR"]})
    operator.cloister("kill", "--all").ok()
    operator.cloister("discard", "--all").ok()
    assert done.status == (HELD_BACK if script == "cloister apply fix" else 0), (script, done)


# ---- older kernels -------------------------------------------------------------------------------

MAIN = """
export PATH=/bin:/opt HOME=/root
mkdir -p /dev/pts && mount -t devpts pts /dev/pts
mkdir -p /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /usr /var/lib /w/gone /home/user/w/gone && chown -R user:user /home/user
echo "kernel $(uname -r)"

cat >/bin/work <<'END'
cd $1
cloister run -w . --name w -- sh -c 'rmdir gone && mkdir gone && id -un >gone/new' 2>&1
cloister apply w >/dev/null
echo "found $(id -un) $(cat gone/new)"
cloister run --disk 1M -w . -- true 2>&1
echo "asked $(id -un) $?"
mkdir -p $1/data/images && cd $1/data/images && mkdir -p blobs/sha256 layers/LOWER/fs/bin layers/UPPER/fs/srv uses parts
cp /opt/image/* blobs/sha256/ && mv blobs/sha256/index.json . && chmod -R go= $1/data
cp /bin/busybox layers/LOWER/fs/bin/ && ln -s busybox layers/LOWER/fs/bin/sh && chmod -R a+rX layers/*/fs
export CLOISTER_DATA_DIR=$1/data
cloister run --image old -v $1/gone:/srv/made:ro -- /bin/sh -c 'cd /srv && echo image * && echo >x' 2>&1
END
sh /bin/work /w
su -s /bin/sh user -c "HOME=/home/user sh /bin/work /home/user/w"
"""


def old_image(folder, layers):
    """{path in the machine: file} of the documents of an image."""
    entry, blobs = images.documents(layers)
    index = {"schemaVersion": 2, "manifests": [entry | {"annotations": {images.NAME: "docker.io/library/old:latest"}}]}
    files = {images.hex_of(images.digest_of(data)): data for data in blobs} | {"index.json": json.dumps(index).encode()}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return {f"opt/image/{name}": folder / name for name in files}


def test_messages_on_older_kernels(tmp_path):
    """Debian 12's kernel, whose tmpfs cannot hold the changes of an overlay.  A cell of an image needs none of that."""
    if b"__asan_init" in CLOISTER.read_bytes():
        pytest.skip("the sanitizers' programs are not static")
    helpers = {f"opt/libexec/{path.name}": path for path in (CLOISTER.parent / "libexec").iterdir()}
    layers = [images.digest_of(name.encode()) for name in ("lower", "upper")]
    script = MAIN.replace("LOWER", images.hex_of(layers[0])).replace("UPPER", images.hex_of(layers[1]))
    out = vm.run(tmp_path, script, {"opt/cloister": CLOISTER, **helpers, **old_image(tmp_path, layers)},
                 modules=["ext4", "overlay"], disk=256)
    kernel = re.search(r"^kernel (\d+)\.(\d+)", out, flags=re.M)
    assert kernel, out
    is_older = (int(kernel.group(1)), int(kernel.group(2))) < (6, 6)
    for who in ("root", "user"):
        assert f"found {who} agent\n" in out
        assert f"asked {who} {125 if is_older else 0}\n" in out
    assert out.count("\nimage made\n") == out.count("Read-only file system") == 2, out
    assert ("have no limit on disk here" in out) == is_older
    assert "--disk cannot be enforced on an overlay workspace" in out or not is_older
