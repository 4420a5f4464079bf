"""Changes to running cells over the API: the records name the operator, and agents cannot make any."""
import json
import os
from contextlib import closing

import pytest

from approvals import UP, Asking
from egress_lab import CURL
from operators import IS_ROOT, wait_until
from service import Service
from test_serve_live import Live

# Where there are version 1 cgroups only root can freeze.
pytestmark = pytest.mark.parametrize("who", ["root" if IS_ROOT else "user"])

ME = f"uid {os.geteuid()}"              # whoever runs the client


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
    # All of them: the new value, where it was not taken back, and then that too.
    answer = service.post("/v1/secrets/KEY/rotate", {"why": "everywhere"}).ok()
    assert (answer["cells"], len(answer["failed"])) == (1, 1), answer
    assert [(e["did"], e["why"]) for e in steered(operator, other)] == [("rotate", "everywhere")]
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


# ---- policy

WWW = "https://www.example.test/hello"


def code(online, cell, url=WWW):
    return online.operator.cloister("exec", cell, "--", *CURL, "-o", "/dev/null", "-w", "%{http_code}", url).out


def test_policy(online):
    """Looked at, checked, changed: what is answered is in force."""
    operator = online.operator
    service = Service(operator)
    cell = online.start("  - deny: www.example.test\n    reason: not yet\n", "sleep", "infinity")
    policy = f"/v1/cells/{cell}/policy"
    assert code(online, cell) == "403"
    shown = service.get(policy).ok()
    assert shown["hash"].startswith("sha256:") and "deny: www.example.test" in shown["text"]
    rule = shown["rules"][0]
    assert (rule["verb"], rule["hits"], rule["reason"], rule["layer"]) == ("deny", 1, "not yet", 0)
    # As it is typed.
    def check(text):
        return service.post(f"{policy}/check", {"text": text}).ok()
    good = "version: 1\negress:\n  - allow: www.example.test\n"
    said = check(good)
    assert said["ok"] is True and said["faults"] == [], said
    assert "-" in said["diff"] and "allow: www.example.test" in said["diff"]
    said = check("version: 1\negress:\n  - allw: www.example.test\n")
    assert said["ok"] is False and said["diff"] == ""
    fault = said["faults"][0]
    assert (fault["line"], fault["column"]) == (3, 5) and "allw" in fault["message"]
    assert not fault["message"].startswith("policy:")
    assert check("egress: [")["faults"][0]["line"] >= 1
    assert check("")["ok"] is False
    assert service.get(policy).ok()["hash"] == shown["hash"]
    # Changed, with who and why.
    changed = service.ask("PUT", policy, {"text": good, "why": "it is time", "hash": shown["hash"]}).ok()
    assert changed["hash"] != shown["hash"] and "+" in changed["diff"]
    assert code(online, cell) == "200"
    assert service.get(policy).ok()["hash"] == changed["hash"]
    service.ask("PUT", policy, {"text": good, "hash": shown["hash"]}).error(409, "conflict", "read it again")
    assert service.ask("PUT", policy, {"text": good}).ok() == {"hash": changed["hash"], "diff": ""}
    # One rule in front.
    assert "deny" in service.post(f"/v1/cells/{cell}/deny", {"rule": "www.example.test", "why": "no"}).ok()["diff"]
    assert code(online, cell) == "403"
    assert service.post(f"/v1/cells/{cell}/allow", {"rule": "GET www.example.test", "now": True}).ok()["hash"]
    assert code(online, cell) == "200"
    found = [e for e in steered(operator, cell) if e["did"] in ("policy", "allow", "deny")]
    assert [(e["did"], e["by"]) for e in found] == [("policy", ME), ("deny", ME), ("allow", ME)]
    assert found[0]["why"] == "it is time"
    assert noted(operator, "cell.allow")[0]["rule"] == "GET www.example.test"
    # As a new user would get it wrong.
    error = service.ask("PUT", policy, {"text": "egress: [x"}).error(400, "invalid")
    assert error["pointer"] == "/text"
    error = service.post(f"/v1/cells/{cell}/allow", {"rule": "GET a.example b.example"}).error(400, "invalid")
    assert error["pointer"] == "/rule"
    service.post(f"/v1/cells/{cell}/allow", {"rules": ["x"]}).error(400, "invalid", "did you mean 'rule'")
    service.ask("PUT", policy, {"text": good, "now": "yes"}).error(400, "invalid", "true or false")
    service.ask("PUT", policy, good).error(400, "invalid", "JSON")
    service.get("/v1/cells/nosuch/policy").error(404, "not_found", "nosuch")
    service.get(policy, socket=service.agents).error(404, "not_found")
    bare = operator.detach("--", "sleep", "1000")
    service.get(f"/v1/cells/{bare}/policy").error(409, "no_policy")
    service.post(f"/v1/cells/{bare}/policy/check", {"text": good}).error(409, "no_policy")
    service.post(f"/v1/cells/{bare}/allow", {"rule": "a.example"}).error(409, "no_policy")
    operator.cloister("kill", bare, cell).ok()
    service.get(policy).error(409, "over")
    service.stop()


# ---- approvals

def test_approvals(online):
    """They come by the stream, are answered, and what was asked goes on or does not."""
    operator = online.operator
    service = Service(operator)
    a = Asking(online, "  - ask: up.example.test\n    reason: somebody must look\n", "--name", "desk")
    assert service.get("/v1/approvals").ok() == {"approvals": []}
    with closing(Live(service)) as live:
        live.until(lambda name, data: name == "cells")
        process = a.curl("-d", "hello", f"{UP}/echo")
        told = live.until(lambda name, data: name == "approval" and data["state"] == "pending")
        assert (told["cell"], told["host"], told["reason"]) == (a.cell, "up.example.test", "somebody must look")
        found, = service.get(f"/v1/approvals?state=pending&cell={a.cell}").ok()["approvals"]
        assert found == told
        # Who comes now is told of it, too.
        with closing(Live(service)) as late:
            assert late.until(lambda name, data: name == "approval") == told
        answer = f"/v1/approvals/{told['id']}"
        # What a new user would get wrong.
        for body, part in (({"how": "always"}, "once, for or rule"), ({"how": "for"}, "'for' is missing"),
                           ({"for": "10m"}, "'for' needs"), ({"how": "for", "for": "9d"}, "7 days"),
                           ({"how": "for", "for": "x"}, "7 days"), ({"yes": True}, "'yes'")):
            service.post(f"{answer}/approve", body).error(400, "invalid", part)
        service.post(f"{answer}/refuse", {}).error(400, "invalid", "'reason' is missing")
        service.post(f"{answer}/refuse", {"why": "x"}).error(400, "invalid", "'why'")
        service.post(f"/v1/approvals/{a.cell}-77/approve").error(404, "not_found", "77")
        service.post("/v1/approvals/nosuch-1/approve").error(404, "not_found", "nosuch")
        service.post("/v1/approvals/rubbish/approve").error(404, "not_found", "CELL-N")
        service.post(f"{answer}/approve", socket=service.agents).error(404, "not_found")
        assert process.poll() is None
        # Approved: it goes on.
        done = service.post(f"{answer}/approve", {"why": "fine"}).ok()
        assert (done["id"], done["state"]) == (told["id"], "approved")
        assert a.outcome(process) == "200"
        live.until(lambda name, data: name == "approval" and data["state"] == "approved")
        service.post(f"{answer}/approve").error(409, "over", "nothing left")
        # Refused: the agent is told why.
        process = a.curl("-d", "again", f"{UP}/echo")
        told = live.until(lambda name, data: name == "approval" and data["state"] == "pending")
        done = service.post(f"/v1/approvals/{told['id']}/refuse", {"reason": "not today"}).ok()
        assert done["state"] == "refused"
        status, said = a.end(process)
        assert status == "403" and "not today" in said
        # For a time: the next ones are not held.
        process = a.curl(f"{UP}/echo")
        told = live.until(lambda name, data: name == "approval" and data["state"] == "pending")
        assert service.post(f"/v1/approvals/{told['id']}/approve", {"how": "for", "for": "10m"}).ok()
        assert a.outcome(process) == "200"
        assert a.outcome(a.curl(f"{UP}/echo")) == "200"
    assert service.get("/v1/approvals?state=pending").ok() == {"approvals": []}
    assert len(service.get("/v1/approvals").ok()["approvals"]) == 3
    service.get("/v1/approvals?state=open").error(400, "invalid", "pending")
    service.get("/v1/approvals?cell=nosuch").error(404, "not_found")
    assert [(e["did"], e["by"]) for e in steered(operator, a.cell)] == [
        ("approve", ME), ("refuse", ME), ("approve", ME)]
    service.stop()


def test_approvers(online):
    """The person behind a token approves: two approvals need two people."""
    operator = online.operator
    service = Service(operator, "--listen", "127.0.0.1:0", "--no-tls")
    token = (operator.base / "data" / "serve" / "token").read_text().strip()
    a = Asking(online, "  - ask: up.example.test\n    approvers: ['token:operator', 'uid:%d']\n"
               "    approvals: 2\n" % os.geteuid())
    process = a.curl(f"{UP}/echo")
    told = wait_until(lambda: service.get("/v1/approvals?state=pending").ok()["approvals"], "it waits")[0]
    assert told["needs"] == 2

    def approve():
        return online.operator.do("curl", "-sS", "-X", "POST", "-H", f"Authorization: Bearer {token}",
                                  f"http://127.0.0.1:{service.port}/v1/approvals/{told['id']}/approve").out
    assert json.loads(approve())["state"] == "pending"
    assert json.loads(approve())["error"]["code"] == "over"         # the same once more
    assert process.poll() is None
    done = service.post(f"/v1/approvals/{told['id']}/approve").ok()
    assert done["state"] == "approved"
    assert [g["by"] for g in done["given"]][0] == "token:operator"
    assert a.outcome(process) == "200"
    service.stop()


# ---- budgets

def test_budget(online):
    """The used amount is shown, and updated as it grows; raising the budget lets requests continue."""
    operator = online.operator
    service = Service(operator)
    path = operator.file("budget.yaml", "version: 1\nbudgets:\n  - {per: cell, requests: 2}\n  - {per: cell, money: 5 USD}\n"
                         "egress:\n  - allow: www.example.test\n")
    cell = operator.detach("-p", path, "--", "sleep", "infinity")
    budget = f"/v1/cells/{cell}/budget"

    def line(kind, said=None):
        return next(b for b in (said or service.get(budget).ok())["budgets"] if b["kind"] == kind)
    with closing(Live(service)) as live:
        first = live.until(lambda name, data: name == "cells")["cells"][0]
        assert first["budget"]["fraction"] == 0
        assert code(online, cell) == "200"
        assert (line("requests")["used"], line("requests")["limit"], line("requests")["reached"]) == (1, 2, False)
        assert (line("money")["used"], line("money")["limit"]) == (0, 5)
        told = live.until(lambda name, data: name == "cell" and data["budget"]["fraction"] == 0.5)
        assert told["budget"]["kind"] == "requests"
        assert code(online, cell) == "200"
        assert code(online, cell) in ("403", "429")
        assert line("requests")["reached"] is True
        said = service.post(budget, {"name": line("requests")["name"], "kind": "requests", "limit": 10,
                                     "why": "more"}).ok()
        assert (line("requests", said)["limit"], line("requests", said)["raised"]) == (10, True)
        assert code(online, cell) == "200"
        live.until(lambda name, data: name == "cell" and data["budget"]["fraction"] < 0.5)
    said = service.post(budget, {"name": line("money")["name"], "kind": "money", "limit": "7.50 USD"}).ok()
    assert line("money", said)["limit"] == 7.5
    found = [e for e in steered(operator, cell) if e["did"] == "budget"]
    assert [e["by"] for e in found] == [ME, ME] and found[0]["why"] == "more"
    # As a new user would get it wrong.
    name = line("requests")["name"]
    for body, pointer in (({"name": name, "kind": "request", "limit": "9"}, "/kind"),
                          ({"name": name, "kind": "requests", "limit": "x"}, "/limit"),
                          ({"name": name, "kind": "requests", "limit": [1]}, "/limit"),
                          ({"name": name, "kind": "requests", "limit": "1"}, "/limit"),
                          ({"name": name, "kind": "requests"}, "/limit")):
        assert service.post(budget, body).error(400, "invalid")["pointer"] == pointer, body
    service.post(budget, {"name": "nosuch", "kind": "requests", "limit": "99"}).error(404, "not_found")
    service.post(budget, {"name": name, "kind": "hosts", "limit": "99"}).error(404, "not_found")
    service.get(budget, socket=service.agents).error(404, "not_found")
    bare = operator.detach("--", "sleep", "1000")
    assert service.get(f"/v1/cells/{bare}/budget").ok() == {"budgets": []}
    service.post(f"/v1/cells/{bare}/budget", {"name": "cell", "kind": "requests", "limit": "9"}).error(409, "no_policy")
    operator.cloister("kill", bare, cell).ok()
    service.stop()
