"""What is changed in running cells over the API: who did it is in the records, agents have none of it."""
import json

import pytest

from operators import IS_ROOT, wait_until
from service import Service

# Where there are version 1 cgroups only root can freeze.
pytestmark = pytest.mark.parametrize("who", ["root" if IS_ROOT else "user"])

ME = f"uid {0 if IS_ROOT else __import__('os').geteuid()}"


@pytest.fixture
def service(operator):
    return Service(operator)


def steered(operator, cell):
    """The cell's records of what operators changed."""
    lines = operator.cloister("audit", "show", cell).ok().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    return [e for e in events if e.get("type") == "steer"]


def noted(operator, kind):
    lines = operator.cloister("audit", "show", "--operator").ok().splitlines()
    return [e for e in (json.loads(line)["event"] for line in lines) if e["type"] == kind]


# ---- secrets

def test_secrets(service, operator):
    operator.cloister("secret", "add", "KEY", "--host", "api.example.com", input="a-secret-of-some-length").ok()
    vault = service.get("/v1/secrets")
    assert [s["name"] for s in vault.ok()["secrets"]] == ["KEY"]
    assert b"a-secret-of" not in vault.data
    cell = operator.detach("--allow", "GET api.example.com", "-s", "KEY", "--", "sleep", "1000")
    other = operator.detach("--allow", "GET api.example.com", "-s", "KEY", "--", "sleep", "1000")
    bare = operator.detach("--", "sleep", "1000")
    secrets = f"/v1/cells/{cell}/secrets"
    said = service.get(secrets)
    assert b"a-secret-of" not in said.data
    secret, = said.ok()["secrets"]
    assert (secret["name"], secret["revoked"], secret["used"]) == ("KEY", False, 0)
    assert secret["hosts"] == ["api.example.com"]
    # Replaced by what the vault has; taken back, with who and why.
    operator.cloister("secret", "rotate", "KEY", input="another-secret-of-some-length").ok()
    assert service.post(f"{secrets}/KEY/rotate", {"why": "it leaked"}).ok() == {"cells": 1, "failed": []}
    assert service.post(f"{secrets}/KEY/revoke", {}).ok() == {"cells": 1, "failed": []}
    assert service.get(secrets).ok()["secrets"][0]["revoked"] is True
    assert service.get(f"/v1/cells/{other}/secrets").ok()["secrets"][0]["revoked"] is False
    assert service.get(f"/v1/cells/{bare}/secrets").ok() == {"secrets": []}
    found = steered(operator, cell)
    assert [(e["did"], e["by"]) for e in found] == [("rotate", ME), ("revoke", ME)]
    assert found[0]["why"] == "it leaked"
    assert noted(operator, "cell.revoke")[0]["secret"] == "KEY"
    # From all of them.
    answer = service.post("/v1/secrets/KEY/revoke").ok()
    assert answer["failed"] == [] and answer["cells"] >= 1
    assert service.get(f"/v1/cells/{other}/secrets").ok()["secrets"][0]["revoked"] is True
    # What is not there.
    service.post(f"{secrets}/NOSUCH/revoke").error(404, "not_found", "NOSUCH")
    service.post(f"{secrets}/NOSUCH/rotate").error(404, "not_found")
    service.post(f"/v1/cells/{bare}/secrets/KEY/revoke").error(404, "not_found")
    service.post("/v1/secrets/NOSUCH/revoke").error(404, "not_found", "NOSUCH")
    service.post("/v1/cells/nosuch/secrets/KEY/revoke").error(404, "not_found", "nosuch")
    service.post(f"{secrets}/KEY/revoke", {"value": "x"}).error(400, "invalid", "value")
    service.post(f"{secrets}/KEY/revoke", {"why": "a\nb"}).error(400, "invalid", "one line")
    service.post(f"{secrets}/KEY/revoke", socket=service.agents).error(404, "not_found")
    for id in (cell, other, bare):
        operator.cloister("kill", id).ok()
    service.post(f"{secrets}/KEY/revoke").error(409, "over")


# ---- how long

def test_ttl(service, operator):
    cell = operator.detach("--", "sleep", "1000")
    ttl = f"/v1/cells/{cell}/ttl"
    for wrong in ("", "x", "0", "0s", "-1s"):
        error = service.post(ttl, {"ttl": wrong}).error(400, "invalid", "'ttl'")
        assert error["pointer"] == "/ttl"
    service.post(ttl, {}).error(400, "invalid", "'ttl' is missing")
    service.post(ttl, {"ttl": 5}).error(400, "invalid", "text")
    service.post(ttl, {"ttl": "1h", "for": "x"}).error(400, "invalid", "'for'")
    assert service.post(ttl, {"ttl": "1h", "why": "longer"}).ok()["cells"] == 1
    assert service.post(ttl, {"ttl": "none"}).ok()["cells"] == 1
    assert operator.cell(cell)["state"] == "running"
    assert [(e["did"], e["by"]) for e in steered(operator, cell)] == [("ttl", ME)] * 2
    service.post(ttl, {"ttl": "1ms"}).ok()
    wait_until(lambda: not operator.running(), "it ends")


# ---- every cell

def test_every_cell(service, operator):
    cells = {operator.detach("--", "sleep", "1000") for _ in range(3)}

    def states():
        return {c["state"] for c in service.get("/v1/cells").ok()["cells"]}
    assert service.post("/v1/cells/freeze", {}).ok() == {"cells": 3, "failed": []}
    assert states() == {"frozen"}
    assert service.post("/v1/cells/thaw").ok() == {"cells": 3, "failed": []}
    assert states() == {"running"}
    service.post("/v1/cells/kill", {"cells": sorted(cells)}).error(400, "invalid", "'cells'")
    service.post("/v1/cells/kill", socket=service.agents).error(404, "not_found")
    assert states() == {"running"}
    assert service.post("/v1/cells/kill").ok() == {"cells": 3, "failed": []}
    wait_until(lambda: service.get("/v1/cells").ok()["cells"] == [], "all are gone")
    assert service.post("/v1/cells/kill").ok() == {"cells": 0, "failed": []}
    assert noted(operator, "cells.kill")[0]["peer"] == ME
