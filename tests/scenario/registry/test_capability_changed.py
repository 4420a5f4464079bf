"""The files that a dispatch gives to its cell have the hash that is recorded of them, or it is refused."""
import json
import os
import secrets

import pytest

import dispatches


@pytest.fixture
def tree(operator):
    """An agent that says what its capability has; and the folder of that."""
    operator.said = secrets.token_hex()
    hash = dispatches.capability(operator, "tool", {"tool.sh": f"echo {operator.said}\n"})
    dispatches.agent(operator, "user", "sh /capabilities/tool/tool.sh", capabilities=["tool"])
    assert operator.said in dispatches.dispatch(operator, "user").ok()
    operator.cloister("audit", "verify").ok()
    return operator.base / "data/registry/trees" / hash.removeprefix("sha256:")


def change(tree):
    """As anybody with the operator's uid can."""
    file, forged = tree / "files/tool.sh", secrets.token_hex()
    times = file.stat()
    mode = tree.stat().st_mode
    for folder in (tree, tree / "files"):
        folder.chmod(0o700)
    other = tree / "files/other"
    other.write_text(f"echo {forged}\n")
    other.chmod(0o444)
    os.chown(other, times.st_uid, times.st_gid)
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.rename(file)
    (tree / "files").chmod(0o555)
    tree.chmod(mode)
    return forged


def test_a_changed_file_is_not_run(operator, tree):
    forged = change(tree)
    said = dispatches.dispatch(operator, "user")
    assert said.status != 0 and forged not in said.out
    assert "tool.sh" in said.err + said.out + json.dumps(dispatches.all_of(operator))
    found = operator.cloister("audit", "verify")
    assert found.status == 1 and f"capability {tree.name}: changed" in found.out and "tool.sh" in found.out
    told = json.loads(operator.cloister("audit", "verify", "--json").out)
    assert not told["sound"] and [c["hash"] for c in told["capabilities"]] == [tree.name]


def test_a_file_that_is_changed_while_it_runs(operator, tree):
    """And then put back: what ran is not known any more."""
    dispatches.agent(operator, "waiter", "until test -e /tmp/go; do sleep 0.1; done; true", capabilities=["tool"])
    for touch in (False, True):
        id = dispatches.detach(operator, "waiter")
        cell = dispatches.await_state(operator, id, "running")["cell"]
        operator.cloister("exec", cell, "--", "true").ok()
        if touch:
            was = tree / "files/tool.sh"
            (tree / "files").chmod(0o700)
            was.rename(tree / "files/away")
            (tree / "files/away").rename(was)
            (tree / "files").chmod(0o555)
        operator.cloister("exec", cell, "--", "touch", "/tmp/go")
        over = dispatches.await_over(operator, id)
        assert over["state"] == ("failed" if touch else "finished"), over
        assert not touch or "capability" in json.dumps(over)
    operator.cloister("audit", "verify").ok()


def test_a_forged_list_of_files(operator, tree):
    """It has the hash that the folder is called by, or is none."""
    change(tree)
    tree.chmod(0o700)
    content = tree / "content.json"
    content.chmod(0o600)
    content.write_text(content.read_text().replace("sha256:", "sha256:0", 1))
    assert "changed" in operator.cloister("audit", "verify").out
    content.unlink()
    assert "cannot be checked" in operator.cloister("audit", "verify").out
    assert dispatches.dispatch(operator, "user").status != 0


def test_removed_files_are_made_again(operator, tree):
    change(tree)
    operator.do("chmod", "-R", "u+w", tree)
    operator.do("rm", "-r", tree)
    assert operator.said in dispatches.dispatch(operator, "user").ok()
    operator.cloister("audit", "verify").ok()
