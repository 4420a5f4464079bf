"""`cloister doctor` and a registry in Postgres: reachable, its tables, and the rights of the role."""
import json
import re
from pathlib import Path

import pytest

import postgres_store
from operators import TREE, as_one
from ports import free_port

pytestmark = [pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql"), as_one]


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def ask(operator):
    return lambda sql: postgres_store.shared().ask(operator.database, sql)


@pytest.fixture
def role(operator, ask):
    """A role without rights, which the operator is from now on."""
    name = f"role_{operator.database}"
    ask(f"CREATE ROLE {name} LOGIN")
    operator.env["CLOISTER_STORE"] = postgres_store.shared().url(operator.database, name)
    yield name
    ask(f"REASSIGN OWNED BY {name} TO cloister; DROP OWNED BY {name}; DROP ROLE {name}")


def found(operator):
    """{name: check} of the store."""
    told = json.loads(operator.cloister("doctor", "--json").out)
    checks = {check["name"]: check for check in told["checks"] if check["name"].startswith("store")}
    for check in checks.values():
        assert (check["state"] == "ok") == (check["todo"] is None) and check["found"], check
    return checks


def made(operator):
    operator.cloister("agent", "list").ok()


def tables(ask):
    return {row[0] for row in ask("SELECT tablename FROM pg_tables WHERE schemaname = 'cloister'")}


def test_nothing_is_made(operator, ask):
    checks = found(operator)
    assert set(checks) == {"store", "store's tables"}
    assert checks["store"]["state"] == "ok" and "the role 'cloister'" in checks["store"]["found"]
    version = ask("SHOW server_version")[0][0]
    assert f"PostgreSQL {version}" in checks["store"]["found"]
    assert checks["store's tables"]["state"] == "ok" and "none yet" in checks["store's tables"]["found"]
    assert tables(ask) == set() and ask("SELECT 1 FROM pg_namespace WHERE nspname = 'cloister'") == []


def test_all_is_well(operator, ask):
    made(operator)
    checks = found(operator)
    assert {name: check["state"] for name, check in checks.items()} == dict.fromkeys(["store", "store's tables", "store's rights"], "ok")
    n = ask("SELECT n FROM cloister.migrations")[0][0]
    assert f"version {n}" in checks["store's tables"]["found"]
    said = operator.cloister("doctor").out
    assert all(check["found"] in said for check in checks.values())


def test_without_a_store(operator):
    del operator.env["CLOISTER_STORE"]
    assert found(operator) == {}


@pytest.mark.parametrize("url,part", [("postgres://me@127.0.0.1:{port}/db", "refused"), ("mysql://x/y", "this is no store"),
                                      ("postgres://me:a@b@c/db", "ambiguous")])
def test_not_to_be_reached(operator, url, part):
    operator.env["CLOISTER_STORE"] = url.format(port=free_port())
    checks = found(operator)
    assert set(checks) == {"store"} and checks["store"]["state"] == "missing" and part in checks["store"]["found"]
    assert "\n" not in checks["store"]["found"] and "a@b" not in checks["store"]["found"]


def test_another_password(operator, ask):
    """It shows none."""
    operator.env["CLOISTER_STORE"] = postgres_store.shared().url("no_such_database").replace("cloister@", "cloister:pA55w0rd@")
    said = operator.cloister("doctor", "--json").out
    assert "no_such_database" in said and "pA55w0rd" not in said


def test_read_only(operator, ask):
    made(operator)
    ask(f"ALTER DATABASE {operator.database} SET default_transaction_read_only = on")
    checks = found(operator)
    assert checks["store"]["state"] == "missing" and "takes no changes" in checks["store"]["found"]


def test_every_table_is_looked_for(operator, ask):
    made(operator)
    names = tables(ask) - {"migrations"}
    for table in names:
        ask(f"ALTER TABLE cloister.{table} RENAME TO gone_{table}")
    check = found(operator)["store's tables"]
    assert check["state"] == "missing" and set(re.findall(r"\w+", check["found"].split("missing:")[1])) == names, check


def test_versions(operator, ask, role):
    del operator.env["CLOISTER_STORE"]
    operator.env["CLOISTER_STORE"] = owner = postgres_store.shared().url(operator.database)
    made(operator)
    newest = int(ask("SELECT n FROM cloister.migrations")[0][0])
    ask(f"UPDATE cloister.migrations SET n = {newest + 1}")
    assert "newer cloister" in found(operator)["store's tables"]["found"]
    ask(f"UPDATE cloister.migrations SET n = {newest - 1}")
    check = found(operator)["store's tables"]
    assert check["state"] == "ok" and f"version {newest - 1} of {newest}" in check["found"]
    ask(f"GRANT USAGE ON SCHEMA cloister TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA cloister TO {role}")
    operator.env["CLOISTER_STORE"] = owner.replace("cloister@", f"{role}@")
    check = found(operator)["store's tables"]
    assert check["state"] == "missing" and f"'{role}' may not update" in check["found"]


def test_a_role_that_may_make_nothing(operator, ask, role):
    check = found(operator)["store's tables"]
    assert check["state"] == "missing" and "may not make them" in check["found"]
    ask(check["todo"].split(", or ")[0])
    assert found(operator)["store's tables"]["state"] == "ok"
    made(operator)
    assert found(operator)["store's rights"]["state"] == "ok"


def grants():
    """The statements for workers in docs/store.md."""
    text = (Path(TREE) / "docs" / "store.md").read_text()
    return [" ".join(line.split()) for line in text.split("CREATE ROLE worker LOGIN;")[1].split("```")[0].split(";") if line.strip()]


def test_rights_of_a_worker(operator, ask, role):
    made_by = operator.env["CLOISTER_STORE"]
    operator.env["CLOISTER_STORE"] = made_by.replace(f"{role}@", "cloister@")
    made(operator)
    operator.env["CLOISTER_STORE"] = made_by
    assert "it lacks USAGE" in found(operator)["store's tables"]["found"]
    statements = [s.replace("TO worker", f"TO {role}") for s in grants()]
    assert len(statements) == 6
    for statement in statements:
        checks = found(operator)
        assert "missing" in (checks["store's tables"]["state"], checks.get("store's rights", {}).get("state")), (statement, checks)
        ask(statement)
    check = found(operator)["store's rights"]
    assert check["state"] == "limited" and "those of a worker" in check["found"]
    # Each of them is needed.
    ask(f"REVOKE UPDATE (result) ON cloister.dispatches FROM {role}")
    check = found(operator)["store's rights"]
    assert check["state"] == "missing" and check["found"].endswith("it lacks UPDATE (result) on dispatches")
    ask(f"GRANT ALL ON ALL TABLES IN SCHEMA cloister TO {role}")
    assert found(operator)["store's rights"]["state"] == "ok"
