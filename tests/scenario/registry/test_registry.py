"""`cloister capability|agent|env|policy|target`: versions that never change, named by their content."""
import hashlib
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess

import pytest

import postgres_store
from operators import IS_ROOT, TREE, only_root, wait_until

KINDS = ["capability", "agent", "env", "policy", "target"]
RULES = [{"allow": "api.example.com", "methods": ["GET"], "ports": 8443}]


def about(**members):
    """A capability.yaml, or anything else that is written as YAML."""
    return json.dumps(members)


def capability(operator, name="search", files=None, **members):
    return operator.folder(name, {"capability.yaml": about(name=name, **members),
                                  **(files or {"main.py": "print(1)\n"})})


def written(operator, kind, name, text="1"):
    """Something of this kind that can be registered, with TEXT in it."""
    if kind == "capability":
        return capability(operator, name, {"file": text})
    if kind == "policy":
        return operator.file(f"{name}.yaml", f"version: 1\negress:\n- allow: a{text}.example\n")
    if kind == "target":
        members = {"engine": "swarm", "image": "worker:1", "description": text}
        return operator.file(f"{name}.{kind}.yaml", about(name=name, **members))
    members = {"values": {"A": text}} if kind == "env" else {"command": ["x", text]}
    return operator.file(f"{name}.{kind}.yaml", about(name=name, **members))


def registered(operator, kind, *words):
    return json.loads(operator.cloister(kind, "register", *words, "--json").ok())


def listed(operator, kind, *words):
    return json.loads(operator.cloister(kind, "list", "--json", *words).ok())


def history(operator, kind, name):
    return json.loads(operator.cloister(kind, "history", name, "--json").ok())


def shown(operator, kind, ref):
    return json.loads(operator.cloister(kind, "show", ref, "--json").ok())


def registry(operator):
    return operator.base / "data" / "registry"


# ---- the life of what is registered ------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS)
def test_life(operator, kind):
    operator.cloister(kind, "show", "x1").sentence("'x1'", "no running cell and no registered policy"
                                                   if kind == "policy" else f"there is no {kind}"
                                                   if operator.database else "nothing is registered yet")
    assert operator.cloister(kind, "list").ok() == "" and listed(operator, kind) == []
    first = registered(operator, kind, written(operator, kind, "x1"))
    assert first["new"] and first["newest"] and first["number"] == 1 and first["retired"] is None
    again = registered(operator, kind, written(operator, kind, "x1"))
    assert again == {**first, "new": False}
    second = registered(operator, kind, written(operator, kind, "x1", "2"))
    assert second["new"] and second["number"] == 2 and second["hash"] != first["hash"]
    assert [v["number"] for v in history(operator, kind, "x1")] == [2, 1]
    assert shown(operator, kind, "x1")["hash"] == second["hash"]
    for cut in (8, 12, 64):
        ref = f"x1@{first['hash'][:7 + cut]}"
        assert shown(operator, kind, ref)["hash"] == first["hash"]

    changed = json.loads(operator.cloister(kind, "diff", "x1", "--json").ok())
    assert changed["from"]["hash"] == first["hash"] and changed["to"]["hash"] == second["hash"]
    assert changed["diff"] and all(entry["path"].startswith("/") for entry in changed["diff"])
    told = operator.cloister(kind, "diff", f"x1@{second['hash']}", f"x1@{first['hash']}").ok()
    assert told.startswith(f"--- x1@{second['hash']}\n+++ x1@{first['hash']}\n") and "\n+ /" in told

    operator.cloister(kind, "retire", f"x1@{second['hash']}").ok()
    assert shown(operator, kind, "x1")["hash"] == first["hash"]
    assert shown(operator, kind, f"x1@{second['hash']}")["retired"]
    operator.cloister(kind, "register", written(operator, kind, "x1", "2")).sentence("retired", "--undo")
    operator.cloister(kind, "retire", "x1").ok()
    assert listed(operator, kind) == [] and [v["name"] for v in listed(operator, kind, "--all")] == ["x1"]
    assert len(history(operator, kind, "x1")) == 2
    operator.cloister(kind, "retire", "--undo", f"x1@{second['hash'][:15]}").ok()
    assert [v["hash"] for v in listed(operator, kind)] == [second["hash"]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_hash_covers_the_shown_content(operator, kind):
    version = registered(operator, kind, written(operator, kind, "x1"))
    text = operator.cloister(kind, "show", "x1", "--canonical", binary=True).out
    assert version["hash"] == "sha256:" + hashlib.sha256(text).hexdigest()
    assert version["size"] == len(text)
    content = shown(operator, kind, "x1")["content"]
    assert json.loads(text) == content and content["kind"] == kind
    assert text == json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def test_shown_content_can_be_registered(operator):
    version = registered(operator, "agent", written(operator, "agent", "x1"))
    text = operator.cloister("agent", "show", "x1", "--canonical").ok()
    assert registered(operator, "agent", operator.file("again", text))["hash"] == version["hash"]


def test_for_people(operator):
    for name in ("short", "a-much-longer-name"):
        registered(operator, "env", written(operator, "env", name))
    lines = operator.cloister("env", "list").ok().splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "a-much-longer-name", "short"]
    assert len({line.index("sha256:") for line in lines[1:]} | {lines[0].index("HASH")}) == 1
    assert "newest" in operator.cloister("env", "history", "short").ok()
    told = operator.cloister("env", "show", "short").ok()
    assert "the newest" in told and '"A": "1"' in told
    operator.cloister("env", "diff", "short").sentence("one version only")


def test_pages(operator):
    names = [f"e{i}" for i in range(7)]
    operator.cloister("env", "register", *(written(operator, "env", name) for name in names)).ok()
    found, after = [], []
    while True:
        done = operator.cloister("env", "list", "--limit", "3", "--json", *after)
        found += [v["name"] for v in json.loads(done.out)]
        if done.err == "":
            break
        assert done.err == f"there are more: --after {found[-1]}\n"
        after = ["--after", found[-1]]
    assert found == names
    done = operator.cloister("env", "list", "-l2")
    assert done.status == 0 and "--after e1" in done.err
    for text in "234":
        registered(operator, "env", written(operator, "env", "e0", text))
    done = operator.cloister("env", "history", "e0", "--limit=3", "--json")
    assert [v["number"] for v in json.loads(done.out)] == [4, 3, 2] and "--after 2" in done.err
    done = operator.cloister("env", "history", "e0", "--after=2", "--json")
    assert [v["number"] for v in json.loads(done.out)] == [1] and done.err == ""


# ---- hashes, by others -------------------------------------------------------------------

def script_of_document():
    text = (TREE / "docs" / "registry.md").read_text()
    return re.search(r"```sh\n(# capability-hash FOLDER\n.*?)```", text, re.S).group(1)


def test_script_of_jq_and_sha256sum(operator):
    script = operator.file("capability-hash", script_of_document())
    folder = capability(operator, "search", {
        "main.py": "print(1)\n", "lib/a/b.txt": os.urandom(5000), "lib-a": "", "lib/a-b": "x",
        "setup.sh": "#!/bin/sh\n", "a file \u00e9 \U0001f600 \ufb33 \"'\\": "y", "bin/run": "#!/bin/sh\n"},
        description="finds \u00e9 \"things\"\n\\ \u2028"[:-1], rules=RULES, secrets=["KEY", "prod=DB"],
        limits={"memory": "1G", "cpus": 1.5, "pids": 10}, tools=["python3"])
    (folder / "bin/run").chmod(0o755)
    version = registered(operator, "capability", folder)
    assert operator.do("/bin/sh", script, folder).ok().strip() == version["hash"]
    told = operator.host(f"{operator.program} capability show search --json | jq -jcS .content | sha256sum")
    assert "sha256:" + told.split()[0] == version["hash"]
    (folder / "main.py").write_text("print(2)\n")
    assert operator.do("/bin/sh", script, folder).ok().strip() != version["hash"]


def test_numbers_are_written_as_javascript_writes_them(operator):
    """A number that is not in its shortest form is refused, so node and we agree on each of these."""
    script = """
        const numbers = [];
        for (let e = -1074; e < 53; e++) numbers.push(2 ** e, -(2 ** e) * 1.1);
        const view = new DataView(new ArrayBuffer(8));
        while (numbers.length < 5000) {
            view.setUint32(0, Math.random() * 2 ** 32); view.setUint32(4, Math.random() * 2 ** 32);
            const number = view.getFloat64(0);
            if (Math.abs(number) < Number.MAX_SAFE_INTEGER) numbers.push(number);
        }
        const json = {};
        for (let i = 0; i < numbers.length; i += 250) json["/" + i] = numbers.slice(i, i + 250);
        console.log(JSON.stringify({version: 1, egress: [{allow: "a.example", body: {json}}]}));"""
    text = operator.do("node", "-e", script).ok()
    registered(operator, "policy", operator.file("numbers.yaml", text))
    stored = operator.cloister("policy", "show", "numbers", "--canonical").ok()
    numbers = re.search(r'"/0":\[(.*?)\]', text).group(1)
    assert f'"/0":[{numbers}]' in stored


def test_files_of_a_capability(operator):
    folder = capability(operator, "c", {"b/x": "1", "a": "22", "setup.sh": "", "b-": "", "b/deep/y": ""})
    (folder / "a").chmod(0o744)
    operator.folder("c/empty")
    content = shown(operator, "capability", registered(operator, "capability", folder)["name"])["content"]
    files = content["files"]
    assert [f["path"] for f in files] == ["a", "b-", "b/deep/y", "b/x", "setup.sh"]
    assert [f["executable"] for f in files] == [True, False, False, False, True]
    assert [f["size"] for f in files] == [2, 0, 0, 1, 0] and content["setup"]
    for file in files:
        data = (folder / file["path"]).read_bytes()
        assert file["hash"] == "sha256:" + hashlib.sha256(data).hexdigest()
        blob = registry(operator) / "blobs" / file["hash"][7:9] / file["hash"][9:]
        assert blob.read_bytes() == data
    # Times, owners and empty folders are not part of it.
    os.utime(folder / "a", (1, 1))
    (folder / "empty").rmdir()
    assert not registered(operator, "capability", folder)["new"]
    (folder / "a").chmod(0o644)
    assert registered(operator, "capability", folder)["new"]


def test_policies_stand_by_themselves(operator):
    operator.file("base.yaml", "version: 1\nlimits: {memory: 1G}\negress:\n- deny: c.example\n")
    web = operator.file("web.yaml", "version: 1\nextends: base.yaml\negress:\n- include: preset:npm\n"
                                    "- allow: a.example\n  headers: {x-debug: absent}\n")
    version = registered(operator, "policy", web)
    document = shown(operator, "policy", "web")["content"]["document"]
    rules = json.dumps(document["egress"])
    assert "include" not in rules and "registry.npmjs.org" in rules and "extends" not in document
    assert document["egress"][-2:] == [{"allow": "a.example", "headers": {"x-debug": {"absent": True}}},
                                       {"deny": "c.example"}]
    assert document["limits"] == {"memory": "1G"}
    # It is a policy like any other, and explains the same.
    alone = operator.file("alone.yaml", json.dumps(document))
    operator.cloister("policy", "check", alone).ok()
    assert registered(operator, "policy", alone, "--name", "web")["hash"] == version["hash"]
    operator.file("base.yaml", "version: 1\negress:\n- deny: d.example\n")
    assert registered(operator, "policy", web)["new"]
    operator.file("x.yaml", "version: 1\negress:\n- allow: a.example\n  query: {v: 1.10}\n")
    operator.cloister("policy", "register", operator.base / "x.yaml").sentence(
        "x.yaml:4:14:", "'1.10'", "1.1")
    operator.file("X.yaml", "version: 1\n")
    operator.cloister("policy", "register", operator.base / "X.yaml").sentence("--name")
    operator.cloister("policy", "register", operator.base / "X.yaml", "--name", "x").ok()


def test_examples_of_the_documents(operator):
    """The examples of docs/registry.md and the man pages can be registered."""
    texts = [re.findall(r"^```yaml\n(.*?)^```$", (TREE / "docs/registry.md").read_text(), re.M | re.S)]
    texts += [re.findall(r"^\.Bd .*?\n(name: .*?)^\.Ed$", (TREE / f"man/cloister-{kind}.1").read_text(),
                         re.M | re.S) for kind in ("capability", "agent", "env")]
    assert [len(blocks) for blocks in texts] == [4, 1, 1, 1]
    for number, text in enumerate(text for blocks in texts for text in blocks):
        kind = "agent" if "\ncommand:" in text else "env" if "\nvalues:" in text else "capability"
        name = f"x{number}/capability.yaml" if kind == "capability" else f"x{number}"
        operator.file(name, text)
        if "type: wasm" in text:
            operator.file(f"x{number}/module.wasm", "\0asm\1\0\0\0")
            operator.file(f"x{number}/module.wasm.json", '{"tools": []}')
        operator.cloister(kind, "register", operator.base / f"x{number}").ok()


# ---- bad input ---------------------------------------------------------------------------

def nothing_is_kept(operator):
    for kind in KINDS:
        assert listed(operator, kind, "--all") == []
    assert not list(registry(operator).glob("blobs/*/*")) and not list(registry(operator).glob("tmp/*"))


@pytest.mark.parametrize("name", ["", "..", "../x", "/etc/passwd", "A", "a b", "a\u00e9", "-a", ".a", "a" * 64,
                                  "a@b", "a;drop table names", "a'", "a\n", "a\x1b[2J", "*", "a/b"])
def test_hostile_names(operator, name):
    registered(operator, "env", written(operator, "env", "good"))
    for kind in ("env", "agent"):
        members = {"values": {}} if kind == "env" else {"command": ["x"]}
        file = operator.file("x.yaml", about(name=name, **members))
        said = operator.cloister(kind, "register", file).sentence("x.yaml:1:")
        assert "\x1b" not in said
    operator.cloister("capability", "register", capability(operator, "c")).ok()
    operator.file("c/capability.yaml", about(name=name))
    operator.cloister("capability", "register", operator.base / "c").sentence("capability.yaml:1:")
    if name != "":
        for verb in ("show", "history", "retire", "diff"):
            operator.cloister("env", verb, "--", name).sentence()
        operator.cloister("policy", "register", "--name", name,
                          operator.file("p.yaml", "version: 1\n")).sentence()
    assert [v["name"] for v in listed(operator, "env")] == ["good"]


WRONG = [
    ("env", "name: e\nname: f\nvalues: {}\n", "x.yaml:2:1: 'name' is here twice"),
    ("env", "name: e\nvalues: {A: 1, A: 2}\n", "x.yaml:2:16: 'A' is here twice"),
    ("env", "name: e\nvalues: [A]\n", "x.yaml:2:9: "),
    ("env", "name: e\nvalues: {A: {B: C}}\n", "x.yaml:2:13: "),
    ("env", "name: e\nvalues: {A: ~}\n", "x.yaml:2:13: "),
    ("env", "name: e\nvalues: {'A=B': x}\n", "x.yaml:2:10: "),
    ("env", "name: e\nvalues: {A: x}\nvlaues: {}\n", "did you mean 'values'"),
    ("env", "name: [e]\nvalues: {}\n", "x.yaml:1:7: "),
    ("env", "name: e\nvalues: {A: &a b, C: *a}\n", "anchors"),
    ("env", "name: e\nvalues: {A: !!binary aGk=}\n", "tags"),
    ("env", "name: e\n---\nname: f\n", "second document"),
    ("env", "name: e\nvalues: {A: \"\\x1b[2J\"}\n", "control character"),
    ("env", b"name: e\nvalues: {A: \xff}\n", "not UTF-8"),
    ("env", b"\x00", ""),
    ("env", "", "`name`"),
    ("env", "name: e\nvalues: {A: '" + "x" * 200_000 + "'}\n", "longer than"),
    ("env", "#" * 2_000_000, "over 1048576 bytes"),
    ("env", "[" * 100 + "]" * 100, "nested too deeply"),
    ("env", "name: e\nvalues: {" + ", ".join(f"A{i}: x" for i in range(1500)) + "}\n", "at most 1024"),
    ("agent", "name: a\ncommand: ['']\n", "x.yaml:2:11: "),
    ("agent", "name: a\nroot: debian\n", "x.yaml:2:7: "),
    ("agent", "name: a\nroot: {image: debian, more: 1}\n", "`root`"),
    ("agent", "name: a\nsandbox: yes\n", "`sandbox` is true or false"),
    ("agent", "name: a\ngrantable: [c]\n", "x.yaml:2:12: "),
    ("agent", "name: a\ngrantable: {env: [e]}\n", "in `grantable`"),
    ("agent", "name: a\ncommand: ls -l\n", "x.yaml:2:10: "),
    ("agent", "name: a\ncommand: [x]\ncapabilities: [../x]\n", "x.yaml:3:16: "),
    ("agent", "name: a\ncommand: [x]\ncapabilities: ['b@sha256:00']\n", "x.yaml:3:16: "),
    ("agent", "name: a\ncommand: [x]\nsecrets: ['a b']\n", "x.yaml:3:11: "),
    ("agent", "name: a\ncommand: [x]\nlimits: {memory: lots}\n", "x.yaml:3:18: "),
    ("agent", "name: a\ncommand: [x]\nworkspace: {path: relative}\n", "x.yaml:3:19: "),
    ("agent", "name: a\ncommand: [x]\nworkspace: {path: /a/../../etc}\n", "x.yaml:3:19: "),
    ("agent", "name: a\ncommand: [x]\nboundary: none\n", "x.yaml:3:11: "),
    ("agent", "name: a\ncommand: [x]\nsecret: {}\n", "did you mean 'secrets'"),
    ("policy", "version: 1\negress:\n- alow: a.example\n", "x.yaml:3:3: "),
    ("policy", "version: 1\nextends: x.yaml\n", "names itself"),
    ("policy", "egress: []\n", "version: 1"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_files(operator, case):
    kind, text, part = WRONG[case]
    file = operator.file("x.yaml", text)
    operator.cloister(kind, "register", file.name, cwd=operator.base).sentence(part)
    nothing_is_kept(operator)


WRONG_ABOUT = [
    ("rules: [{allow: a.example, metod: GET}]", "capability.yaml:2:28: "),
    ("rules: [{include: ../../etc/passwd}]", "capability.yaml:2:19: "),
    ("rules: {allow: a.example}", "capability.yaml:2:8: "),
    ("secrets: {KEY: {hosts: a.example}}", "capability.yaml:2:10: "),
    ("limits: [1]", "capability.yaml:2:9: "),
    ("tools: git", "capability.yaml:2:8: "),
    ("files: []", "capability.yaml:2:1: "),
    ("setup: true", "capability.yaml:2:1: "),
]


@pytest.mark.parametrize("case", range(len(WRONG_ABOUT)))
def test_wrong_capabilities(operator, case):
    text, part = WRONG_ABOUT[case]
    folder = operator.folder("c", {"capability.yaml": f"name: c\n{text}\n", "file": "x"})
    operator.cloister("capability", "register", folder).sentence(part)
    nothing_is_kept(operator)


def make_fifo(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def make_device(path):
    if not IS_ROOT:
        pytest.skip("only root makes devices")
    os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))


@pytest.mark.parametrize("make, said", [
    (lambda path: path.symlink_to("/etc/passwd"), "a link"),
    (lambda path: path.symlink_to("main.py"), "a link"),
    (lambda path: path.symlink_to("/etc"), "a link"),
    (lambda path: path.symlink_to("/nowhere"), "a link"),
    (make_fifo, "a pipe"), (make_socket, "a socket"), (make_device, "a device"),
], ids=["file", "within", "folder", "nowhere", "fifo", "socket", "device"])
def test_only_plain_files(operator, make, said):
    folder = capability(operator, "c")
    operator.folder("c/sub")
    make(folder / "sub" / "x")
    operator.cloister("capability", "register", folder).sentence("c/sub/x'", said, "plain files")
    assert listed(operator, "capability", "--all") == []


def test_strange_folders(operator):
    operator.cloister("capability", "register", operator.base / "none").sentence("none'", "No such file")
    operator.cloister("capability", "register", operator.folder("empty")).sentence("capability.yaml")
    operator.cloister("capability", "register", operator.file("file")).sentence("file'")
    folder = operator.folder("linked")
    (folder / "capability.yaml").symlink_to(operator.file("about", "name: c\n"))
    operator.cloister("capability", "register", folder).sentence("not a plain file")
    operator.cloister("agent", "register", operator.folder("c")).sentence("is a folder")
    operator.cloister("agent", "register", operator.base / "none").sentence("none'")
    folder = capability(operator, "names")
    (folder / "line\nbreak").write_text("")
    operator.cloister("capability", "register", folder).sentence("control characters")
    folder = capability(operator, "bytes")
    with open(os.fsencode(folder) + b"/\xff", "w"):
        pass
    operator.cloister("capability", "register", folder).sentence("UTF-8")
    deep = capability(operator, "deep")
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    operator.cloister("capability", "register", operator.base / "deep").sentence("folders deep")
    secret = capability(operator, "closed")
    (secret / "main.py").chmod(0)
    if not operator.is_root:
        operator.cloister("capability", "register", secret).sentence("closed/main.py'", "Permission denied")
    assert listed(operator, "capability", "--all") == []


@only_root
def test_too_much(operator):
    folder = capability(operator, "huge")
    with open(folder / "hole", "wb") as hole:
        hole.truncate((1 << 30) + 1)
    operator.cloister("capability", "register", folder).sentence("huge/hole'", "1024 MiB")
    (folder / "hole").unlink()
    for i in range(10_001):
        (folder / f"f{i}").touch()
    operator.cloister("capability", "register", folder).sentence("10000 files")
    assert listed(operator, "capability", "--all") == []
    assert not list(registry(operator).glob("tmp/*"))


def test_commands_as_new_users_type_them(operator):
    operator.cloister("agent").sentence("register, list, show, diff, history or retire")
    operator.cloister("agent", "regsiter", "x").sentence("did you mean 'register'")
    operator.cloister("policy", "regsiter", "x").sentence("did you mean 'register'")
    operator.cloister("agent", "register").sentence("FILE")
    operator.cloister("capability", "register").sentence("FOLDER")
    operator.cloister("agent", "show").sentence("NAME")
    file = operator.file("a.yaml", "name: a\ncommand: ls\n")
    operator.cloister("agent", "register", file).sentence("a.yaml:2:10", "must be a list")
    operator.cloister("capability", "register", file).sentence("not a folder", "capability.yaml")
    file = operator.file("p.yaml", "name: web\nversion: 1\negress: []\n")
    operator.cloister("policy", "register", file).sentence("p.yaml:1:1", "-n NAME")
    file = operator.file("b.yaml", "name: b\ncommand: [ls]\npolicy: web\n")
    early = operator.cloister("agent", "register", file)
    assert early.ok().startswith("agent b@sha256:")
    assert early.err == "cloister: the agent 'b' cannot be dispatched yet: there is no policy 'web': " \
                        "see `cloister policy list`\n"
    operator.cloister("policy", "register", "-n", "web", operator.file("p.yaml", "version: 1\negress: []\n")).ok()
    assert operator.cloister("agent", "register", file).err == ""
    operator.cloister("agent", "list", "x").sentence("no words")
    operator.cloister("agent", "list", "--undo").sentence("has no option --undo")
    operator.cloister("agent", "list", "--limit", "none").sentence("--limit")
    operator.cloister("agent", "list", "--nosuch").sentence("--nosuch")
    operator.cloister("policy", "check", "--undo").sentence("--undo")
    registered(operator, "agent", written(operator, "agent", "researcher"))
    operator.cloister("agent", "show", "reseacher").sentence("did you mean 'researcher'")
    operator.cloister("agent", "show", "zzz").sentence("agent list")
    operator.cloister("agent", "show", "researcher@sha256:00000000").sentence("agent history")
    operator.cloister("agent", "show", "researcher@0123").sentence("sha256:")
    operator.cloister("agent", "register", "--name", "x", *[written(operator, "agent", "a")] * 2).sentence(
        "--name is for one")


# ---- permissions and forms of the folder ---------------------------------------------------

def test_nobody_else_looks_into_it(operator):
    registered(operator, "capability", capability(operator))
    for folder, folders, files in os.walk(registry(operator)):
        for name in [".", *folders, *files]:
            path = os.path.join(folder, name)
            assert os.stat(path).st_mode & 0o077 == 0, path
    for mode, said in ((0o750, "chmod 700"), (0o777, "writable")):
        registry(operator).chmod(mode)
        operator.cloister("capability", "list").sentence(said)
    registry(operator).chmod(0o700)
    assert len(listed(operator, "capability")) == 1


@only_root
def test_somebody_elses_registry(operator):
    registered(operator, "env", written(operator, "env", "e"))
    os.chown(registry(operator), 12345, 12345)
    operator.cloister("env", "list").sentence("somebody else")


def test_not_a_database(operator):
    registered(operator, "env", written(operator, "env", "e"))
    for suffix in ("", "-wal", "-shm"):
        (registry(operator) / f"db.sqlite{suffix}").unlink(missing_ok=True)
    operator.file("data/registry/db.sqlite", "this is no database" * 100)
    operator.cloister("env", "list").sentence("db.sqlite", "not a database")


def test_content_that_does_not_match_its_hash(operator):
    version = registered(operator, "env", written(operator, "env", "e", "1"))
    with sqlite3.connect(registry(operator) / "db.sqlite") as db:
        db.execute("UPDATE versions SET content = replace(content, '\"1\"', '\"2\"')")
        assert db.total_changes == 1
    db.close()
    for ref in ("e", f"e@{version['hash']}"):
        operator.cloister("env", "show", ref).sentence("another hash", version["hash"])


# Never change this: it is what is on somebody's disk.
FIRST_VERSION = """
CREATE TABLE names (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,
	UNIQUE (kind, name)) STRICT;
CREATE TABLE versions (id INTEGER PRIMARY KEY, name INTEGER NOT NULL REFERENCES names (id),
	number INTEGER NOT NULL, turn INTEGER NOT NULL, hash TEXT NOT NULL, size INTEGER NOT NULL,
	created TEXT NOT NULL, retired TEXT, content TEXT NOT NULL, UNIQUE (name, number),
	UNIQUE (name, hash)) STRICT;
CREATE UNIQUE INDEX versions_by_turn ON versions (name, turn);
CREATE INDEX versions_live ON versions (name, turn) WHERE retired IS NULL;
INSERT INTO names VALUES (1, 'env', 'old');
PRAGMA user_version = 1;
"""


def test_registries_of_earlier_versions(operator):
    if sqlite3.sqlite_version_info < (3, 37):
        pytest.skip("python's SQLite is too old")
    text = '{"kind":"env","name":"old","values":{"A":"1"},"version":1}'
    digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    operator.folder("data/registry").chmod(0o700)
    database = registry(operator) / "db.sqlite"
    with sqlite3.connect(database) as db:
        db.executescript(FIRST_VERSION)
        db.execute("INSERT INTO versions VALUES (1, 1, 1, 1, ?, ?, '2026-01-01T00:00:00.000Z', NULL, ?)",
                   (digest, len(text), text))
    db.close()
    operator.own(database)
    assert shown(operator, "env", "old")["content"]["values"] == {"A": "1"}
    again = registered(operator, "env", operator.file("e.yaml", text))
    assert again["hash"] == digest and not again["new"]
    assert registered(operator, "env", written(operator, "env", "old", "2"))["number"] == 2
    with sqlite3.connect(database) as db:
        newest = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version = {newest + 1}")
    db.close()
    operator.cloister("env", "list").sentence("newer cloister")


# ---- many at once, and killed --------------------------------------------------------------

def contents(operator):
    """The hash and the content of every version, in a database that is sound."""
    if operator.database:
        return postgres_store.shared().ask(operator.database, "SELECT hash, content FROM cloister.versions")
    with sqlite3.connect(f"file:{registry(operator)}/db.sqlite?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        rows = db.execute("SELECT hash, content FROM versions").fetchall()
    db.close()
    return rows


def check_whole(operator):
    """The database has every content that it names."""
    for digest, content in contents(operator):
        assert digest == "sha256:" + hashlib.sha256(content.encode()).hexdigest()
        for file in json.loads(content).get("files", []):
            blob = registry(operator) / "blobs" / file["hash"][7:9] / file["hash"][9:]
            assert "sha256:" + hashlib.sha256(blob.read_bytes()).hexdigest() == file["hash"]


def test_registering_at_the_same_time(operator):
    files = [written(operator, "env", "e", str(i)) and
             operator.file(f"e{i}.yaml", about(name="e", values={"A": str(i)})) for i in range(12)]
    folder = capability(operator, "c", {f"f{i}": str(i) for i in range(20)})
    # Each content by two, and the registry is made by whoever is first.
    crowd = [operator.spawn(operator.program, "env", "register", "--json", file, stdout=subprocess.PIPE)
             for file in files * 2]
    crowd += [operator.spawn(operator.program, "capability", "register", "--json", folder,
                             stdout=subprocess.PIPE) for _ in range(6)]
    told = [json.loads(process.communicate()[0]) for process in crowd]
    assert all(process.returncode == 0 for process in crowd)
    envs, capabilities = told[:24], told[24:]
    assert sum(v["new"] for v in envs) == 12 and len({v["hash"] for v in envs}) == 12
    assert sorted(v["number"] for v in history(operator, "env", "e")) == list(range(1, 13))
    assert sum(v["new"] for v in capabilities) == 1 and len(history(operator, "capability", "c")) == 1
    check_whole(operator)
    assert not list(registry(operator).glob("tmp/*"))


def test_killed_while_registering(operator):
    """Acknowledged versions are there; others are there completely or not at all."""
    count = 30
    for i in range(count):
        capability(operator, f"c{i}", {f"f{k}": f"{i} {k}" for k in range(3)})
    acknowledged, at = [], 0
    while at < count:
        script = f"for i in $(seq {at} {count - 1}); do {operator.program} capability register " \
                 f"{operator.base}/c$i || exit; done"
        process = operator.spawn("/bin/sh", "-c", script, stdout=subprocess.PIPE, start_new_session=True)
        enough = random.randint(1, 8)
        for line in process.stdout:
            acknowledged.append(line.decode().split()[1])
            enough -= 1
            if enough == 0:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        check_whole(operator)
        at = max(int(ref.split("@")[0][1:]) for ref in acknowledged) + 1
    assert len(acknowledged) >= count // 2
    there = {f"{v['name']}@{v['hash']}" for v in listed(operator, "capability")}
    assert set(acknowledged) <= there
    for i in range(count):
        operator.cloister("capability", "register", operator.base / f"c{i}").ok()
    check_whole(operator)


def test_killed_in_the_middle_of_one(operator):
    folder = capability(operator, "big", {f"f{i}": str(i) for i in range(400)})
    for enough in (1, 50, 200, 401):
        process = operator.spawn(operator.program, "capability", "register", folder,
                                 stdout=subprocess.PIPE)
        wait_until(lambda: process.poll() is not None or enough <= len(
            [*registry(operator).glob("tmp/*"), *registry(operator).glob("blobs/*/*")]),
            "some files are kept")
        process.kill()
        told, _ = process.communicate()
        assert bool(listed(operator, "capability")) >= bool(told)
        if not told:
            check_whole(operator)
    version = registered(operator, "capability", folder)
    assert len(shown(operator, "capability", "big")["content"]["files"]) == 400 and version["number"] == 1
    check_whole(operator)


@only_root
def test_full_disk(operator):
    """Nothing is reported as stored that is not."""
    data = operator.folder("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "none", data], check=True)
    try:
        env = {"CLOISTER_DATA_DIR": str(data)}
        told, refused = [], 0
        for i in range(12):
            folder = capability(operator, f"c{i}", {"file": os.urandom(60_000)})
            done = operator.cloister("capability", "register", folder, "--json", env=env)
            if done.status == 0:
                told.append(json.loads(done.out)["hash"])
            else:
                done.sentence()
                refused += 1
        assert told and refused
        there = json.loads(operator.cloister("capability", "list", "--json", env=env).ok())
        assert {v["hash"] for v in there} == set(told)
    finally:
        subprocess.run(["umount", data], check=True)


def test_from_standard_input(operator):
    done = operator.cloister("env", "register", "--json", "-", input="{name: e, values: {A: b}}")
    assert json.loads(done.ok())["name"] == "e"
    operator.cloister("policy", "register", "--name", "p", "-", input="version: 1\negress: [{allow: a.example}]").ok()
    operator.cloister("env", "register", "-", input="{name: e, valus: {}}").sentence("/dev/stdin:1:11: ")
    operator.cloister("capability", "register", "-", input="").sentence("a capability is a folder")
