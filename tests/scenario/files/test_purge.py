"""`purge`: removes all that cloister keeps for a user, after asking, and nothing else."""
import os
import secrets

import pytest

import dispatches
from operators import wait_until
from service import Service
from terminal import Terminal
from trees import tree

PARTS = ["audit", "budgets", "dispatches", "registry", "serve", "vault"]


@pytest.fixture
def filled(operator):
    """An operator with something in every part; the secret's value is a canary."""
    operator.canary = secrets.token_hex(16)
    operator.cloister("secret", "add", "KEY", "--host", "a.example", input=operator.canary).ok()
    dispatches.agent(operator, "short", "echo done")
    dispatches.dispatch(operator, "short").ok()
    operator.folder("data/serve", {"token": "t"}).chmod(0o700)
    operator.folder("data/budgets", {"0" * 64: "b"}).chmod(0o700)
    workspace = operator.folder("workspace", {"a": "old\n"})
    operator.change(workspace, "echo new >a; mkdir shut; echo x >shut/x; chmod 0 shut", "--name", "unread")
    assert sorted(os.listdir(operator.base / "data")) == PARTS
    return operator


def left(operator):
    """The folders themselves stay where the folder above them is somebody else's."""
    there = [p for p in ("data", "state") if (operator.base / p).exists()]
    return [p for p in there if operator.is_root or os.listdir(operator.base / p)]


def test_all_of_it(filled):
    workspace = tree(filled.base / "workspace")
    said = filled.cloister("purge", "--yes").ok()
    assert all(f"{filled.base}/data/{part}  (" in said for part in PARTS) and f"{filled.state}  (" in said, said
    assert "still be applied are those of: unread\n" in said
    assert left(filled) == [] and tree(filled.base / "workspace") == workspace
    assert filled.cloister("purge", "--yes").ok() == "there is nothing to remove\n"
    # And cloister works as on the first day.
    assert filled.sh("echo again").ok() == "again\n"
    assert filled.cloister("secret", "list").ok() == ""


def test_foreign_files_stay(filled):
    mine = [filled.file(f"{folder}/{name}", filled.canary) for folder in ("data", "state") for name in
            ("thesis.txt", "vault.bak/key", "abc/file")]
    filled.cloister("purge", "--yes").ok()
    assert all(path.read_text() == filled.canary for path in mine)
    for folder in ("data", "state"):
        assert sorted(os.listdir(filled.base / folder)) == ["abc", "thesis.txt", "vault.bak"]
    filled.host(f"rm -r {filled.state}/*")


def test_a_link_is_not_followed(filled):
    elsewhere = filled.folder("elsewhere", {"precious": filled.canary})
    filled.host(f"rm -r {filled.base}/data/serve; ln -s {elsewhere} {filled.base}/data/serve")
    filled.cloister("purge", "--yes").ok()
    assert (elsewhere / "precious").read_text() == filled.canary and left(filled) == []


def test_it_asks(filled):
    before = tree(filled.base / "data")
    for typed in ("no", "y", "purge it", ""):
        terminal = Terminal(filled, filled.program, "purge")
        terminal.expect(r'Type "purge" to go on: ')
        terminal.type(typed + "\n")
        assert terminal.end() == 125 and "nothing was removed" in terminal.text
        terminal.close()
    assert tree(filled.base / "data") == before
    terminal = Terminal(filled, filled.program, "purge")
    terminal.expect(r"This permanently deletes:")
    terminal.expect(r'Type "purge" to go on: ')
    terminal.type("purge\n")
    assert terminal.end() == 0, terminal.text
    terminal.close()
    assert left(filled) == []


def test_nobody_to_be_asked(filled):
    before = tree(filled.base / "data")
    done = filled.cloister("purge", input="purge\n")
    assert done.status == 125 and done.err.count("\n") == 1 and "`cloister purge --yes`" in done.err
    assert "/vault" in done.out and tree(filled.base / "data") == before


def test_the_list_comes_before_the_refusal(filled):
    said = filled.host(f"{filled.program} purge </dev/null 2>&1 || true")
    assert said.startswith("This permanently deletes:") and "nothing was removed" in said.splitlines()[-1]


def test_while_a_cell_runs(filled):
    before = tree(filled.base / "data" / "vault")
    cell = filled.detach("--", "sleep", "1000")
    filled.cloister("purge", "--yes").sentence("cells are running", "`cloister kill --all`")
    # Nor with another runtime folder, as of a session without one.
    other = filled.folder("other")
    other.chmod(0o700)
    filled.cloister("purge", "--yes", env={"CLOISTER_RUNTIME_DIR": str(other)}).sentence(f"cell {cell} is running")
    assert tree(filled.base / "data" / "vault") == before
    filled.cloister("kill", cell).ok()
    filled.cloister("purge", "--yes").ok()
    assert left(filled) == []


def test_right_after_the_emergency_stop(filled):
    filled.detach("--", "sleep", "1000")
    filled.cloister("kill", "--all").ok()
    filled.cloister("purge", "--yes").ok()
    assert left(filled) == []


def test_no_cell_starts_meanwhile(filled):
    terminal = Terminal(filled, filled.program, "purge")
    terminal.expect(r"to go on: ")
    filled.run("--", "true").sentence("`cloister purge`")
    terminal.type("no\n")
    assert terminal.end() == 125
    terminal.close()
    filled.run("--", "true").ok()


def test_while_the_service_runs(filled):
    service = Service(filled)
    filled.cloister("purge", "--yes").sentence("the service is running", "stop it first")
    service.stop()
    filled.cloister("purge", "--yes").ok()


def test_while_a_dispatch_is_driven(filled):
    dispatches.agent(filled, "long", "sleep 1000")
    id = dispatches.detach(filled, "long")
    dispatches.await_state(filled, id, "running")
    assert filled.cloister("purge", "--yes").status == 125
    filled.cloister("dispatches", "cancel", id).ok()
    dispatches.await_over(filled, id)
    wait_until(lambda: filled.cloister("purge", "--yes").status == 0, "it is over")
    assert left(filled) == []


def test_words(operator):
    operator.cloister("purge", "x").sentence("`cloister discard x`")
    assert operator.cloister("purge").ok() == "there is nothing to remove\n"
