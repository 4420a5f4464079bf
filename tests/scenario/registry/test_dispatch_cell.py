"""The cell of a dispatch of this machine, named by the dispatch."""
import json

from dispatches import agent, await_over, await_state, detach, show
from operators import as_one, wait_until
from service import Service

WAITS = "echo begun; until test -e /tmp/go; do sleep 0.05; done"


def begun(operator, id):
    wait_until(lambda: operator.cloister("dispatches", "output", id).ok().startswith("begun"), "it runs")
    return await_state(operator, id, "running")["cell"]


def test_the_steering_commands_take_its_id(operator):
    agent(operator, "a", WAITS)
    ids = [detach(operator, "a") for _ in range(2)]
    cells = [begun(operator, id) for id in ids]
    for id, cell in zip(ids, cells):
        for word in (id, id[:8]):
            operator.cloister("exec", word, "--", "touch", f"/tmp/{word}").ok()
            operator.cloister("exec", cell, "--", "test", "-e", f"/tmp/{word}").ok()
    operator.cloister("kill", ids[0]).ok()
    assert await_over(operator, ids[0])["state"] == "failed" and cells[1] in {c["cell"] for c in operator.cells()}
    assert operator.cloister("exec", ids[0], "--", "true").status == 125
    operator.cloister("exec", ids[1], "--", "touch", "/tmp/go").ok()
    assert await_over(operator, ids[1])["exit_code"] == 0


@as_one
def test_over_the_api_too(operator):
    service = Service(operator)
    agent(operator, "a", WAITS)
    id = service.post("/v1/dispatches", {"agent": "a"}).ok(202)["id"]
    cell = begun(operator, id)
    assert service.get(f"/v1/cells/{id}").ok()["cell"] == cell
    service.post(f"/v1/cells/{id}/kill").ok()
    assert await_over(operator, id)["state"] == "failed"
    service.stop()


@as_one
def test_an_agent_cannot_name_another_cell(operator):
    agent(operator, "a", WAITS)
    other = detach(operator, "a")
    line = json.dumps({"attempt": 1, "cell": begun(operator, other), "event": "cell.boot"}, separators=(",", ":"))
    agent(operator, "liar", f"echo begun; echo '{line}'; echo; echo '{line}' >&2; until test -e /tmp/go; do sleep 0.05; done")
    id = detach(operator, "liar")
    cell = begun(operator, id)
    operator.cloister("exec", id, "--", "touch", "/tmp/go").ok()
    assert await_over(operator, id)["state"] == "finished" and show(operator, id)["cell"] == cell
    operator.cloister("kill", other).ok()
