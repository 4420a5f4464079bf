"""How much is recorded of a registered agent's processes: as it says, and never less for whoever dispatches it."""
import json

import pytest

from dispatches import agent, await_over, detach, dispatch, policy, show
from operators import as_one
from sandboxes import Box
from service import Service
from test_delegation import lead, nothing_goes_on, plan  # noqa: F401

pytestmark = as_one


def recorded(operator, id):
    """(the level that was resolved, the level in the cell's own timeline) of a dispatch that is over."""
    d = await_over(operator, id)
    assert d["state"] == "finished", d
    lines = operator.cloister("audit", "show", "--json", d["cell"]).ok().splitlines()
    levels = [e["level"] for e in (json.loads(line)["event"] for line in lines) if e["type"] == "record"]
    return d["resolved"]["record"], levels[0]


@pytest.mark.parametrize("own, policys, wanted, want", [
    (None, None, None, None), ("full", None, None, "full"), ("off", None, None, "off"), ("off", None, "acts", "acts"),
    ("full", None, "acts", "full"), (None, None, "full", "full"), ("off", "full", None, "full"), ("acts", "full", "acts", "full"),
    (None, "off", None, "off"), ("acts", "off", None, "acts"), (None, "off", "acts", "acts"), (None, None, "acts", None),
])
def test_a_level_can_only_be_raised(operator, own, policys, wanted, want):
    policy(operator, "levels", **({"record": policys} if policys else {}))
    agent(operator, "a", "true", policy="levels", **({"record": own} if own else {}))
    words = ["--record", wanted] if wanted else []
    assert json.loads(dispatch(operator, "--dry-run", "--json", *words, "a").ok())["record"] == want
    # What a cell's timeline says of itself.
    assert recorded(operator, detach(operator, *words, "a")) == (want, want or "acts")


def test_wrong_levels(operator):
    agent(operator, "a", "true")
    dispatch(operator, "--record", "off", "a").sentence("a dispatch can only raise what is recorded, to acts or full, not to 'off'")
    dispatch(operator, "--record", "all", "a").sentence("not to 'all'")
    operator.env["CLOISTER_RECORD"] = "much"
    dispatch(operator, "a").sentence("CLOISTER_RECORD is off, acts or full, not 'much'")
    operator.env["CLOISTER_RECORD"] = "full"
    assert recorded(operator, detach(operator, "a")) == ("full", "full")
    agent(operator, "a", "true", record="acts")
    assert recorded(operator, detach(operator, "a")) == ("acts", "acts")
    file = operator.file("agent-b.yaml", "name: b\nrecord: all\n")
    operator.cloister("agent", "register", file).sentence("agent-b.yaml:2:9: `record` is 'off', 'acts' or 'full'")


def test_a_child_has_its_parents_level(operator):
    for name, own in (("child", None), ("off", "off"), ("acts", "acts"), ("full", "full")):
        agent(operator, name, "true", **({"record": own} if own else {}))
    names = ("child", "off", "acts", "full")
    full, usual, off = (lead(operator, names, **said) for said in ({"record": "full"}, {}, {"record": "off"}))
    assert [plan(operator, full, name)["record"] for name in names] == ["full"] * 4
    assert [plan(operator, usual, name)["record"] for name in names] == [None, "acts", "acts", "full"]
    assert [plan(operator, off, name)["record"] for name in names] == [None, "off", "acts", "full"]
    assert recorded(operator, detach(operator, "--parent", full, "off")) == ("full", "full")
    assert show(operator, full)["resolved"]["record"] == "full"


def test_over_the_service(operator):
    service = Service(operator)
    service.post("/v1/agents", {"name": "a", "command": ["true"], "record": "acts"}).ok(201)
    service.post("/v1/agents", {"name": "box", "sandbox": True, "record": "off"}).ok(201)
    assert service.get("/v1/agents/a").ok()["content"]["record"] == "acts"
    service.post("/v1/agents", {"name": "b", "record": "some"}).error(400, "invalid", "`record` is 'off', 'acts' or 'full'")
    service.post("/v1/dispatches", {"agent": "a", "record": "off"}).error(400, "invalid", "can only raise")
    service.post("/v1/dispatches", {"agent": "a", "record": True}).error(400, "invalid", "record")
    said = service.post("/v1/dispatches", {"agent": "a", "record": "full"}).ok(202)
    assert said["resolved"]["record"] == "full"
    assert recorded(operator, said["id"]) == ("full", "full")
    for more, want in (({}, "off"), ({"record": "acts"}, "acts")):
        box = Box(service, **more)
        assert box.sh("echo ran") == "ran\n"
        assert box.status()["resolved"]["record"] == want
        records = service.get(f"/v1/cells/{box.status()['cell']}/timeline?type=record&limit=9").ok()["records"]
        assert [r["event"]["level"] for r in records] == [want], records
        box.kill()
    assert service.stop() == 0, service.log()
