"""`cloister plan export` and `cloister rebuild`: from one machine to an empty one."""
import base64
import hashlib
import json
import os
import re
import secrets
import subprocess

import pytest

import audit_world
from operators import wait_until
from test_state_guards import INJECTED, token


class Machine:
    """An operator with data of their own: as if on another machine."""

    def __init__(self, like, name):
        self.operator = like
        self.folders = {f"CLOISTER_{kind}_DIR": str(like.folder(f"{name}/{kind.lower()}")) for kind in ("DATA", "STATE", "RUNTIME")}
        for folder in self.folders.values():
            os.chmod(folder, 0o700)

    def cloister(self, *words, **how):
        return self.operator.cloister(*words, env=self.folders, **how)

    def rebuild(self, plan, *options, status=0):
        """{(kind, name): (result, note)}"""
        done = self.cloister("rebuild", "--json", *options, plan)
        assert done.status == status, done
        return {(row["kind"], row["name"]): (row["result"], row["note"]) for row in json.loads(done.out)}

    def tree(self):
        """Everything in the data folder, but the timeline."""
        top = self.folders["CLOISTER_DATA_DIR"]
        found = {}
        for at, _, files in os.walk(top):
            for file in files:
                path = os.path.join(at, file)
                if "/audit" not in path and not file.endswith(("-wal", "-shm", "db.sqlite")) and not os.path.islink(path):
                    try:
                        with open(path, "rb") as opened:
                            found[os.path.relpath(path, top)] = opened.read()
                    except FileNotFoundError:
                        continue        # a rebuild that runs has removed it
        return found

    def close(self):
        self.cloister("kill", "--all")


@pytest.fixture
def empty(operator):
    machine = Machine(operator, "other")
    yield machine
    machine.close()


@pytest.fixture
def full(operator):
    """A machine with one of everything; the canaries are what must come along."""
    machine = Machine(operator, "one")
    machine.canary = secrets.token_hex(16)
    notes = operator.folder("notes", {"capability.yaml": "name: notes\n", "list": machine.canary + "\n", "setup.sh": ""})
    machine.cloister("capability", "register", notes).ok()
    pinned = json.loads(machine.cloister("capability", "show", "notes", "--json").ok())["hash"]
    operator.file("notes/list", machine.canary + " newer\n")
    machine.cloister("capability", "register", notes).ok()
    machine.cloister("policy", "register", operator.file("web.yaml", "version: 1\negress:\n  - allow: a.example\n")).ok()
    machine.cloister("agent", "register", operator.file("reader.yaml", f"""
name: reader
capabilities: ['notes@{pinned}']
policy: web
command: [sh, -c, 'cat /capabilities/notes/list']
""")).ok()
    machine.cloister("env", "register", operator.file("common.yaml", "name: common\nvalues: {PORT: 8080}\n")).ok()
    memory = operator.folder("memory", {"CLAUDE.md": f"good {machine.canary}\n", "deep/a": "1"})
    os.symlink("CLAUDE.md", memory / "AGENTS.md")
    machine.cloister("state", "import", "brain", memory, "--max-size", "10M").ok()
    machine.cloister("state", "tag", "brain", "known-good").ok()
    run(machine, "--state", "brain:/mem", "echo later >/mem/later; rm /mem/deep/a")
    machine.cloister("volume", "create", "deps", "--size", "2M", "--ttl", "7d").ok()
    run(machine, "--volume-name", "deps:/deps", f"mkdir -p /deps/d; echo {machine.canary} >/deps/d/f; chmod 750 /deps/d/f; ln -s d/f /deps/l")
    machine.cloister("volume", "snapshot", "deps@first").ok()
    run(machine, "--volume-name", "deps:/deps", "rm /deps/l; echo new >/deps/new")
    machine.cloister("secret", "add", "TOKEN", "--host", "a.example", input="the-value-of-the-secret").ok()
    yield machine
    machine.close()


def run(machine, *words):
    machine.cloister("run", *words[:-1], "--", "sh", "-ec", words[-1]).ok()


def plan_of(machine, name="plan", *options):
    path = machine.operator.base / "home" / name
    machine.cloister("plan", "export", "-o", path, *options).ok()
    return path


def payload(path):
    return json.loads(base64.b64decode(json.loads(path.read_text())["payload"]))


def key_of(machine):
    return machine.cloister("audit", "key").ok().strip()


def test_a_folder_is_counted_and_never_replaced(full):
    path = full.operator.base / "home" / "folder"
    said = full.cloister("plan", "export", "--with-data", "-o", path).ok()
    counts = re.findall(r"(\d+) (object|state|volume|run|secret)(s?)\b", said)
    assert len(counts) == 5 and all((n == "1") == (end == "") for n, _, end in counts), said
    full.cloister("plan", "export", "--with-data", "-o", path).sentence("exists already: name a new folder")


def test_a_plan_that_is_not_there(full):
    full.cloister("rebuild", "nosuch").sentence("the plan 'nosuch': cannot open it: No such file")


def test_an_empty_machine_becomes_what_the_plan_has(full, empty):
    plan = plan_of(full, "plan", "--with-data")
    told = empty.rebuild(plan, "--dry-run", "--key", key_of(full), status=1)
    assert {result for result, _ in told.values()} == {"absent", "missing"}
    assert empty.tree() == {}
    told = empty.rebuild(plan, "--key", key_of(full), status=1)
    assert told[("secret", "TOKEN")] == ("missing", "add it: cloister secret add TOKEN")
    del told[("secret", "TOKEN")]
    assert {result for result, _ in told.values()} == {"made"} and len(told) == 6
    # What was made is what was there: by cloister's own words, by git, and in cells.
    for words in (["agent", "show", "reader"], ["capability", "show", "notes"], ["policy", "show", "web"], ["env", "show", "common"]):
        assert empty.cloister(*words, "--canonical").ok() == full.cloister(*words, "--canonical").ok()
    assert empty.cloister("dispatch", "reader").ok() == full.canary + "\n"
    for at in ([], ["known-good"]):
        assert empty.cloister("state", "files", "brain", *at).ok() == full.cloister("state", "files", "brain", *at).ok()
    assert empty.cloister("state", "cat", "brain", "CLAUDE.md").ok() == f"good {full.canary}\n"
    empty.cloister("state", "verify").ok()
    show = "cd /deps; find . -mindepth 1 -printf '%p %m %l\\n' | sort; cat $(find . -type f | sort)"
    for volume in ("deps", "deps@first"):
        a, b = (m.cloister("run", "-q", "--volume-name", f"{volume}:/deps:ro", "--", "sh", "-c", show).ok() for m in (full, empty))
        assert a == b and full.canary in a
    shown = json.loads(empty.cloister("volume", "show", "deps", "--json").ok())
    assert (shown["size"], shown["ttl_ms"]) == (2 << 20, 7 * 24 * 3600 * 1000)
    empty.cloister("audit", "verify", "--all").ok()


def test_files_that_no_cell_could_commit_are_rebuilt(full, empty):
    """A person imported or accepted them."""
    memory = full.operator.folder("found", {"a": f"use {token()}\n", "b": f"{INJECTED}\n"})
    full.cloister("state", "import", "notes", memory).ok()
    plan = plan_of(full, "plan", "--with-data")
    told = empty.rebuild(plan, "--key", key_of(full), status=1)
    assert told[("state", "notes")] == ("made", None)
    assert empty.cloister("state", "cat", "notes", "a").ok() == (memory / "a").read_text()
    assert empty.cloister("state", "review", "notes").ok() == ""


@pytest.mark.parametrize("script", ["truncate -s 65G /bad/x", "echo 1 >/bad/x; chmod 0 /bad/x"])
def test_an_agent_does_not_prevent_a_plan(full, operator, script):
    full.cloister("volume", "create", "bad").ok()
    run(full, "--volume-name", "bad:/bad", script)
    path = operator.base / "home/plan"
    done = full.cloister("plan", "export", "-o", path, seconds=600)
    if "chmod" in script and operator.is_root:
        assert done.status == 0, done
        return
    assert done.status == 1 and "the volume 'bad' is not in the plan: cannot read '" in done.err, done
    assert [v["name"] for v in payload(path)["volumes"]] == ["deps"] and len(payload(path)["states"]) == 1


def test_a_second_run_changes_nothing(full, empty):
    plan = plan_of(full, "plan", "--with-data")
    empty.cloister("secret", "add", "TOKEN", "--host", "a.example", input="another").ok()
    empty.rebuild(plan, "--key", key_of(full))
    before, timeline = empty.tree(), empty.cloister("audit", "show", "--operator").ok()
    told = empty.rebuild(plan, "--key", key_of(full))
    assert {result for result, _ in told.values()} == {"same"}
    assert empty.tree() == before and empty.cloister("audit", "show", "--operator").ok() == timeline
    table = empty.cloister("rebuild", "--key", key_of(full), plan).ok()
    assert [line.split()[0] for line in table.splitlines()] == ["same"] * 7
    # And what was rebuilt is exported as the same set: commits alone are others.
    first, second = payload(plan / "plan.json"), payload(plan_of(empty, "again", "--with-data") / "plan.json")
    for whole in (first, second):
        for state in whole["states"]:
            for ref in state["refs"]:
                del ref["commit"]
    assert first == second


def test_the_same_set_gives_the_same_bytes(full):
    one, two = plan_of(full, "one.plan"), plan_of(full, "two.plan")
    assert one.read_bytes() == two.read_bytes()
    whole = plan_of(full, "folder", "--with-data")
    assert (whole / "plan.json").read_bytes() == one.read_bytes()
    # Each file is named by its SHA-256: coreutils are the judge.
    for file in (whole / "data").iterdir():
        assert subprocess.run(["sha256sum", file], capture_output=True, text=True).stdout.split()[0] == file.name
    assert b"the-value-of-the-secret" not in b"".join(p.read_bytes() for p in whole.rglob("*") if p.is_file())
    assert payload(one)["secrets"] == ["TOKEN"]


def test_a_plan_without_data_reports_what_is_missing(full, empty):
    plan = plan_of(full)
    assert {result for result, _ in full.rebuild(plan).values()} == {"same"}
    told = empty.rebuild(plan, "--key", key_of(full), status=1)
    assert told[("state", "brain")][0] == told[("volume", "deps")][0] == told[("capability", "notes")][0] == "missing"
    assert "--with-data" in told[("state", "brain")][1]
    assert told[("policy", "web")][0] == "made"


def test_what_differs_is_left_alone_without_replace(full, empty):
    plan = plan_of(full, "plan", "--with-data")
    operator = full.operator
    empty.cloister("state", "import", "brain", operator.folder("mine", {"mine": "mine"})).ok()
    empty.cloister("state", "tag", "brain", "known-good").ok()
    empty.cloister("volume", "create", "deps").ok()
    empty.cloister("env", "register", operator.file("common.yaml", "name: common\nvalues: {PORT: 9}\n")).ok()
    mine = empty.cloister("state", "log", "--json", "brain").ok()
    told = empty.rebuild(plan, "--key", key_of(full), status=1)
    differs = {("state", "brain"), ("volume", "deps"), ("env", "common")}
    assert {item for item, (result, _) in told.items() if result == "differs"} == differs
    assert empty.cloister("state", "log", "--json", "brain").ok() == mine
    assert json.loads(empty.cloister("volume", "show", "deps", "--json").ok())["entries"] == 0
    assert json.loads(empty.cloister("env", "show", "common", "--json").ok())["content"]["values"] == {"PORT": "9"}
    told = empty.rebuild(plan, "--key", key_of(full), "--replace", status=1)
    assert {item for item, (result, _) in told.items() if result == "replaced"} == differs
    assert empty.cloister("state", "cat", "brain", "later").ok() == "later\n"
    assert empty.cloister("state", "files", "brain", "known-good").ok() == full.cloister("state", "files", "brain", "known-good").ok()
    # Its own history is still there.
    assert {c["commit"] for c in json.loads(mine)} <= {c["commit"] for c in json.loads(empty.cloister("state", "log", "--json", "brain").ok())}


def test_a_changed_byte_stops_everything_before_anything_is_changed(full, empty):
    whole = plan_of(full, "plan", "--with-data")
    for file in sorted((whole / "data").iterdir()):
        good = file.read_bytes()
        if good == b"":
            continue
        bad = bytearray(good)
        bad[len(bad) // 2] ^= 1
        file.write_bytes(bad)
        empty.cloister("rebuild", "--key", key_of(full), whole).sentence(file.name, "changed")
        file.write_bytes(good)
    assert empty.tree() == {}


def test_only_the_right_key_counts(full, empty):
    plan = plan_of(full)
    empty.cloister("rebuild", plan).sentence("not signed with this machine's key", key_of(full), "--key")
    empty.cloister("rebuild", "--key", "0" * 64, plan).sentence("not signed with the operator's key")
    envelope = json.loads(plan.read_text())
    text = base64.b64decode(envelope["payload"]).replace(b'"TOKEN"', b'"OTHER"')
    envelope["payload"] = base64.b64encode(text).decode()
    plan.write_text(json.dumps(envelope))
    empty.cloister("rebuild", "--key", key_of(full), plan).sentence("signature does not hold")
    assert empty.tree() == {}


def test_cells_that_are_started_again_run_again(full, empty):
    folder = full.operator.folder("project", {"file": ""})
    full.cloister("run", "-d", "--restart=always:5", "--name", "bot", "-w", folder, "-e", "A=b", "--", "sleep", "1000").ok()
    plan = plan_of(full)
    [wanted] = payload(plan)["runs"]
    assert (wanted["name"], wanted["restart"]) == ("bot", "always:5")
    assert full.rebuild(plan, status=0)[("run", "bot")][0] == "same"
    told = empty.rebuild(plan, "--key", key_of(full), status=1)
    assert told[("run", "bot")][0] == "made"
    [cell] = json.loads(empty.cloister("ps", "--json").ok())
    assert cell["name"] == "bot"
    assert empty.rebuild(plan, "--key", key_of(full), status=1)[("run", "bot")][0] == "same"
    assert payload(plan_of(empty, "again"))["runs"] == [wanted]
    empty.cloister("kill", "bot").ok()
    empty.cloister("run", "-d", "--restart", "--name", "bot", "--", "sleep", "2000").ok()
    assert empty.rebuild(plan, "--key", key_of(full), status=1)[("run", "bot")][0] == "differs"
    assert empty.rebuild(plan, "--key", key_of(full), "--replace", status=1)[("run", "bot")][0] == "replaced"
    # One that cannot be in a plan, because a key is in its command line, is an error of the export, and another one for rebuild.
    empty.cloister("run", "-d", "--restart", "--name", "keyed", "-e", "GITHUB_TOKEN=ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8", "--",
                   "sleep", "2000").ok()
    empty.cloister("plan", "export", "-o", full.operator.home / "no").sentence("keyed", "cannot be in a plan", "cloister secret add")
    assert empty.rebuild(plan, "--key", key_of(full), status=1)[("run", "bot")][0] == "same"
    empty.cloister("kill", "keyed").ok()
    # Its document stays while it may start again, and no longer.
    other = plan_of(empty, "without")
    assert "rebuild/run.bot.json" in empty.tree()
    empty.cloister("kill", "bot").ok()
    none = plan_of(empty, "none")
    empty.rebuild(none)
    assert "rebuild/run.bot.json" not in empty.tree() and payload(other)["runs"] == [wanted]


def test_a_rebuild_that_was_killed_is_completed_by_the_next(full, empty):
    plan = plan_of(full, "plan", "--with-data")
    key, kills = key_of(full), 0
    empty.cloister("secret", "add", "TOKEN", "--host", "a.example", input="another").ok()
    for wait in range(400):
        process = empty.operator.spawn(empty.operator.program, "rebuild", "--key", key, plan, env=empty.folders,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # It is struck when it has changed one more thing than at the last strike.
        changed = lambda: len(empty.tree()) > wait or process.poll() is not None
        wait_until(changed, "a change")
        if process.poll() is not None:
            assert process.returncode == 0, empty.cloister("rebuild", "--key", key, plan).out
            break
        process.kill()
        process.wait()
        kills += 1
    assert kills > 5
    assert {result for result, _ in empty.rebuild(plan, "--key", key).values()} <= {"same"}
    assert empty.cloister("state", "files", "brain").ok() == full.cloister("state", "files", "brain").ok()
    empty.cloister("state", "verify").ok()
    empty.cloister("audit", "verify", "--all").ok()


class Forger:
    """Writes plans that the operator's key has signed, with whatever is in them."""

    def __init__(self, machine):
        folder = machine.folders["CLOISTER_DATA_DIR"]
        self.machine, self.key = machine, audit_world.Key(open(f"{folder}/audit/key", "rb").read())

    def write(self, plan, folder, data=None):
        text = plan if isinstance(plan, bytes) else json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()
        kind = b"application/vnd.cloister.plan+json"
        signature = self.key.private.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(text), text))
        envelope = {"payload": base64.b64encode(text).decode(), "payloadType": kind.decode(),
                    "signatures": [{"keyid": key_of(self.machine), "sig": base64.b64encode(signature).decode()}]}
        folder = self.machine.operator.folder(folder)
        self.machine.operator.folder(folder / "data", {hash_of(item): item for item in data or []})
        return self.machine.operator.file(folder / "plan.json", json.dumps(envelope)).parent


def hash_of(data):
    return hashlib.sha256(data).hexdigest()


def listing(*entries):
    return b"".join(b"%s %s %s\0" % (mode, hash_of(data).encode(), path) for mode, data, path in entries)


@pytest.fixture
def forger(empty):
    plan_of(empty, "of-the-empty-machine")     # makes the key
    return Forger(empty)


EMPTY = {"objects": [], "runs": [], "secrets": [], "states": [], "version": 1, "volumes": []}


def volume_of(files, **members):
    return {**EMPTY, "volumes": [{"files": hash_of(files), "name": "evil", "size": 1 << 20, "snapshots": [], "ttl_ms": 0, **members}]}


def test_plans_of_another_form_are_refused(forger):
    document = '{"command":["true"],"version":1}'
    one_run = {"document": document, "hash": "sha256:" + hash_of(document.encode()), "name": "bot", "restart": ""}
    cases = {
        "version 2": ({**EMPTY, "version": 2}, "version"),
        "does not know": ({**EMPTY, "more": []}, "member"),
        "there is twice": (volume_of(b""), None),
        "no 'runs'": ({key: value for key, value in EMPTY.items() if key != "runs"}, "has no"),
        "not a list": ({**EMPTY, "secrets": {}}, "list"),
        "name": (volume_of(b"", name="../x"), "name"),
        "twice": ({**EMPTY, "secrets": ["A", "A"]}, "twice"),
        "escape": ({**EMPTY, "secrets": ["A\x1b[2J"]}, "is not a name"),
        "dash": ({**EMPTY, "secrets": ["--all"]}, "is not a name"),
        "command": ({**EMPTY, "secrets": ["A; sh"]}, "is not a name"),
        "hash": ({**EMPTY, "runs": [{**one_run, "document": document.replace("true", "sh")}]}, "hash"),
        "option": ({**EMPTY, "runs": [{**one_run, "name": "--rm"}]}, "name"),
        "restart": ({**EMPTY, "runs": [{**one_run, "restart": "always:1 --root"}]}, "restart"),
        "document": ({**EMPTY, "runs": [{**one_run, "document": "{}", "hash": "sha256:" + hash_of(b"{}")}]}, "command"),
        "json": (b"{", "plan"),
        "deep": (b"[" * 100000 + b"]" * 100000, "plan"),
        "main": ({**EMPTY, "states": [{"name": "a", "refs": [], "limits": {"bytes": 1, "depth": 1, "disk": 1, "file_bytes": 1, "files": 1,
                                                                           "path": 1}}]}, "main"),
    }
    before = forger.machine.tree()
    for name, (plan, part) in cases.items():
        if part is None:
            plan["volumes"] *= 2
            part = "twice"
        folder = forger.write(plan, f"forged-{name}".replace(" ", "-").replace("'", ""))
        forger.machine.cloister("rebuild", folder).sentence(part)
    assert forger.machine.tree() == before


def test_a_listing_leads_nowhere_else(forger):
    canary = secrets.token_hex(16)
    outside = forger.machine.operator.folder("outside", {"file": canary})
    target = str(outside).encode()
    cases = {
        "up": listing((b"100644", b"x", b"../up")),
        "absolute": listing((b"100644", b"x", target + b"/file")),
        "dots": listing((b"100644", b"x", b"a/../../up")),
        "empty": listing((b"100644", b"x", b"a//b")),
        "device": listing((b"020644", b"x", b"a")),
        "setuid": listing((b"104755", b"x", b"a")),
        "twice": listing((b"100644", b"x", b"a"), (b"100644", b"x", b"a")),
        "cut": listing((b"100644", b"x", b"a"))[:-1],
        "missing": listing((b"100644", b"not there", b"a")),
    }
    for name, files in cases.items():
        plan = forger.write(volume_of(files), f"listing-{name}", [files, b"x"])
        assert forger.machine.cloister("rebuild", plan).sentence("listing" if name != "missing" else "missing among"), name
    # A path through a link, or through a file, is found when it is made: nothing is written through it.
    for name, files in {"link": listing((b"120000", target, b"a"), (b"100644", b"x", b"a/file")),
                        "file": listing((b"100644", b"x", b"a"), (b"100644", b"x", b"a/file"))}.items():
        plan = forger.write(volume_of(files), f"through-{name}", [files, b"x", target])
        assert forger.machine.rebuild(plan, status=1)[("volume", "evil")][0] == "failed"
        assert (outside / "file").read_text() == canary
        forger.machine.cloister("volume", "remove", "evil")
    # A link itself is the volume's business: it is made, and not followed.
    files = listing((b"120000", target, b"a"))
    plan = forger.write(volume_of(files), "link", [files, target])
    assert forger.machine.rebuild(plan)[("volume", "evil")][0] == "made"
    # The plan's files are not links, either.
    files = listing((b"100644", canary.encode(), b"a"))
    plan = forger.write(volume_of(files), "linked", [files])
    (plan / "data" / hash_of(canary.encode())).symlink_to(outside / "file")
    forger.machine.cloister("rebuild", plan).sentence("cannot open")


def test_a_volume_of_a_plan_is_no_larger_than_it_says(forger):
    big = b"x" * (2 << 20)
    files = listing((b"100644", big, b"a"))
    plan = forger.write(volume_of(files), "big", [files, big])
    result, note = forger.machine.rebuild(plan, status=1)[("volume", "evil")]
    assert result == "failed" and "larger" in note


def test_a_state_of_a_plan_has_nothing_that_a_state_may_not_have(forger):
    files = listing((b"100644", b"[core]", b".git/config"))
    limits = {"bytes": 1 << 20, "depth": 9, "disk": 1 << 30, "file_bytes": 1 << 20, "files": 9, "path": 99}
    plan = {**EMPTY, "states": [{"limits": limits, "name": "evil", "refs": [
        {"commit": "0" * 40, "files": hash_of(files), "ref": "refs/heads/main"}]}]}
    result, note = forger.machine.rebuild(forger.write(plan, "git", [files, b"[core]"]), status=1)[("state", "evil")]
    assert result == "failed" and "not what the plan says" in note
    assert forger.machine.cloister("state", "files", "evil").ok() == ""
