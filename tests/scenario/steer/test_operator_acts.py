"""The operators' actions on running cells are in their own timeline, too, without any service: the
operator, the reason, the cell, and the number of the record in the cell's timeline."""
import hashlib
import json

import pytest

from operators import IS_ROOT, wait_until

# Where there are version 1 cgroups only root can freeze.
pytestmark = pytest.mark.parametrize("who", ["root" if IS_ROOT else "user"])

POLICY = """
version: 1
budgets: [{per: cell, requests: 100}]
egress:
  - ask: api.example.com
    secrets: allow
"""


def told(operator):
    """The events of the operator's timeline, which is sound."""
    operator.cloister("audit", "verify").ok()
    lines = operator.cloister("audit", "show", "--operator").ok().splitlines()
    return [json.loads(line)["event"] for line in lines]


def acts(operator, before=0):
    kinds = ("cell.started", "cell.ended", "secret.added")
    return [e for e in told(operator) if e["type"].startswith(("cell", "approval")) and
            e["type"] not in kinds][before:]


def ask(operator, cell, n):
    operator.spawn(operator.program, "exec", cell, "--", "curl", "-sS", "http://api.example.com/x")
    wait_until(lambda: f"{cell}-{n}" in operator.cloister("approvals", cell).out, "it asks")
    return f"{cell}-{n}"


def test_each_act(operator):
    operator.cloister("secret", "add", "KEY", "--host", "api.example.com", input="a-secret-of-some-length").ok()
    policy = operator.file("policy.yaml", POLICY)
    cell = operator.detach("-p", policy, "-s", "KEY", "--", "sleep", "1000")
    do = lambda *words: operator.cloister(*words).ok()
    do("allow", cell, "GET docs.example.com", "--why", "to read")
    do("deny", cell, "evil.example.com")
    do("policy", "set", cell, policy)
    do("approve", ask(operator, cell, 1), "--why", "the release")
    do("refuse", ask(operator, cell, 2), "--reason", "not now")
    do("budget", cell, "--raise", "cell", "requests=+5", "--why", "nearly done")
    do("rotate", cell, "KEY")
    do("revoke", cell, "KEY", "--why", "seen in a paste")
    do("ttl", cell, "1h")
    freezes = operator.cloister("freeze", cell).status == 0
    if freezes:
        do("freeze", cell)                      # it is already: nothing was done
        do("thaw", cell)
    do("kill", cell)
    found = acts(operator)
    assert [e["type"] for e in found] == [
        "cell.allow", "cell.deny", "cell.policy", "approval.approve", "approval.refuse", "cell.budget",
        "cell.rotate", "cell.revoke", "cell.ttl", *(["cell.freeze", "cell.thaw"] if freezes else []), "cell.kill"]
    assert all(e["cell"] == cell and e["by"].startswith(f"uid {operator.uid}, pid ") for e in found)
    whys = {e["type"]: e["why"] for e in found if "why" in e}
    assert whys == {"cell.allow": "to read", "approval.approve": "the release", "approval.refuse": "not now",
                    "cell.budget": "nearly done", "cell.revoke": "seen in a paste"}
    by_type = {e["type"]: e for e in found}
    assert by_type["cell.allow"]["rule"] == "GET docs.example.com" and by_type["cell.ttl"]["ttl_ms"] == 3600000
    assert by_type["approval.approve"]["approval"] == f"{cell}-1" and by_type["cell.revoke"]["secret"] == "KEY"
    # Each names the record of the cell's timeline that tells of it.
    records = {hashlib.sha256(b"\0" + line.encode()).hexdigest(): json.loads(line)["event"]
               for line in operator.cloister("audit", "show", cell).ok().splitlines()}
    for e in found:
        did = {"kill": "killed", "freeze": "frozen", "thaw": "thawed"}.get(e["type"][5:], e["type"].split(".")[1])
        assert records[e["record"]]["did"] == did and records[e["record"]]["by"] == e["by"]


def test_all_at_once_is_one_act(operator):
    operator.cloister("secret", "add", "KEY", "--host", "api.example.com", input="a-secret-of-some-length").ok()
    cells = [operator.detach("--allow", "api.example.com", "-s", "KEY", "--", "sleep", "1000") for _ in range(3)]
    do = lambda *words: operator.cloister(*words).ok()
    do("rotate", "--all", "KEY", "--why", "it is time")
    do("revoke", "--all", "KEY", "--why", "a leak")
    freezes = operator.cloister("freeze", "--all").status == 0
    if freezes:
        do("thaw", "--all")
    do("stop", "--all")
    for _ in cells:
        operator.detach("--", "sleep", "1000")
    do("kill", "--all")
    wait_until(lambda: not operator.running(), "all are gone")
    found = acts(operator)
    assert [(e["type"], e["cells"], e["uid"], e.get("why")) for e in found] == [
        (type, len(cells), operator.uid, why) for type, why in (
            ("cells.rotate", "it is time"), ("cells.revoke", "a leak"),
            *((("cells.freeze", None), ("cells.thaw", None)) if freezes else ()), ("cells.stop", None), ("cells.kill", None))]
    # With nothing to do it to, nothing was done.
    do("kill", "--all")
    assert len(acts(operator)) == len(found)
