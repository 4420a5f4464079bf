"""`freeze: true`: the whole cell stands still while somebody is asked, and goes on afterwards."""
from approvals import UP, Asking
from operators import only_root, wait_until
from test_freeze import is_frozen, state

RULES = "  - ask: up.example.test\n    freeze: true\n"


@only_root
def test_the_cell_stands_still(online):
    a = Asking(online, RULES)
    process, shown = a.ask(f"{UP}/204")
    assert shown["frozen"] and state(a.operator, a.cell) == "frozen"
    wait_until(lambda: is_frozen(a.cell), "all of it is frozen")
    assert "the cell is frozen" in a.operator.cloister("approvals").ok()
    a.operator.cloister("exec", a.cell, "--", "true").sentence("stands still", "cloister approvals")
    a.answer("approve", shown["id"]).ok()
    assert a.outcome(process) == "204" and state(a.operator, a.cell) == "running"
    # Refused, it goes on as well.
    process, shown = a.ask(f"{UP}/204")
    a.answer("refuse", shown["id"], "--reason", "no").ok()
    assert a.outcome(process) == "403" and not is_frozen(a.cell)
    # An operator's word stays: frozen before the answer, it is frozen after it.
    process, shown = a.ask(f"{UP}/204")
    a.operator.cloister("freeze", a.cell).ok()
    a.answer("approve", shown["id"]).ok()
    assert a.list() == [] and state(a.operator, a.cell) == "frozen" and is_frozen(a.cell)
    a.operator.cloister("thaw", a.cell).ok()
    assert a.outcome(process) == "204"
    # And thawed, it waits like any other.
    process, shown = a.ask(f"{UP}/204")
    a.operator.cloister("thaw", a.cell).ok()
    assert state(a.operator, a.cell) == "waiting"
    a.operator.cloister("exec", a.cell, "--", "true").ok()
    a.answer("approve", shown["id"]).ok()
    assert a.outcome(process) == "204"
    did = [(e["did"], e.get("note", "").startswith(a.cell)) for e in online.events(type="cell")
           if e["did"] in ("frozen", "thawed")]
    assert did == [("frozen", True), ("thawed", True)] * 2 + [("frozen", True), ("frozen", False),
                   ("thawed", False), ("frozen", True), ("thawed", False)]
    # It can be ended as it stands.
    process, shown = a.ask(f"{UP}/204")
    a.operator.cloister("kill", a.cell).ok()
    assert a.operator.cell(a.cell) is None
