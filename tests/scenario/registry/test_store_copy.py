"""`cloister store copy`: the registry goes to another database, and its blobs to another place, and back."""
import contextlib
import json
import os
import shutil
import signal
import sqlite3

import pytest

import dispatches
import postgres_store
import s3_servers
from operators import wait_until
from s3_servers import BUCKET, Place
from service import Service

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
TABLES = {"names": "id", "versions": "id", "dispatches": "seq", "graves": "cell", "notes": "id", "events": "dispatch, n"}
TEXTS = ["", "ü ☃ 𝄞", "it's \"quoted\" \\ $1 ? ?2", "a\nb\tc\r", "NULL"]
LONG = ("content", "resolved", "line")


@pytest.fixture(scope="module", autouse=True)
def servers():
    yield
    s3_servers.stop_all()


@pytest.fixture
def registry_place():
    return "sqlite"


@pytest.fixture
def postgres():
    return postgres_store.shared()


@pytest.fixture
def s3rver(tmp_path_factory):
    return s3_servers.server_of("s3rver", tmp_path_factory)


def db_file(operator):
    return operator.base / "data/registry/db.sqlite"


def copy(operator, *words, **how):
    return operator.cloister("store", "copy", *words, seconds=240, **how)


def sqlite_rows(operator):
    with contextlib.closing(sqlite3.connect(db_file(operator))) as db:
        db.row_factory = sqlite3.Row
        return {table: [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY {key}")] for table, key in TABLES.items()}


def postgres_rows(postgres, name):
    return {table: [json.loads(row[0] if len(row) == 1 else "|".join(row)) for row in
                    postgres.ask(name, f"SELECT row_to_json(t) FROM cloister.{table} t ORDER BY {key}")]
            for table, key in TABLES.items()}


def fill(operator, n=40):
    """Random rows in all columns of all tables, as if all dispatches were over."""
    with contextlib.closing(sqlite3.connect(db_file(operator))) as db:
        for table in TABLES:
            columns = db.execute(f"PRAGMA table_info({table})").fetchall()
            for i in range(n):
                values = []
                for _, name, kind, required, _, is_key in columns:
                    if kind == "INTEGER":
                        values.append(3 if name == "state" else 10 * i + 7 if is_key or name == "name" else
                                      int.from_bytes(os.urandom(8), "big", signed=True))
                    elif not required and i % 3 == 0:
                        values.append(None)
                    elif name in ("home", "origin"):
                        values.append("" if i % 2 else "f" * 32)
                    else:
                        values.append(TEXTS[i % len(TEXTS)] + os.urandom(4).hex() * (50_000 if name in LONG else 1))
                db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        db.commit()


def renamed(rows, old, new):
    def named(row):
        return {name: new if name in ("home", "origin") and value == old else value for name, value in row.items()}
    return {table: [named(row) for row in all] for table, all in rows.items()}


def test_all_rows_there_and_back(operator, postgres):
    operator.cloister("agent", "list").ok()
    dispatches.agent(operator, "worker", "echo by $CLOISTER_DISPATCH")
    assert dispatches.dispatch(operator, "worker").status == 0
    fill(operator)
    before = sqlite_rows(operator)
    name = postgres.new()
    told = json.loads(copy(operator, "--to", postgres.url(name), "--json").ok())
    assert {t["table"]: t["rows"] for t in told["tables"]} == {table: len(rows) for table, rows in before.items()}
    home = (operator.base / "data/registry/home").read_text()
    assert postgres_rows(postgres, name) == renamed(before, "", home)
    assert sqlite_rows(operator) == before

    # It goes on there: new rows get new numbers.  Those random events are none.
    postgres.ask(name, "DELETE FROM cloister.notes")
    operator.env["CLOISTER_STORE"] = postgres.url(name)
    dispatches.agent(operator, "second", "echo second")
    assert dispatches.dispatch(operator, "second").ok() == "second\n"
    rows = postgres_rows(postgres, name)
    assert rows["dispatches"][-1]["seq"] == before["dispatches"][-1]["seq"] + 1
    assert rows["names"][-1]["id"] == before["names"][-1]["id"] + 1

    # And back.
    db_file(operator).rename(operator.base / "old")
    for rest in db_file(operator).parent.glob("db.sqlite-*"):
        rest.unlink()
    copy(operator, "--to", "sqlite").ok()
    assert sqlite_rows(operator) == renamed(rows, home, "")
    del operator.env["CLOISTER_STORE"]
    assert dispatches.dispatch(operator, "worker").status == 0


def blobs_of(operator):
    folder = operator.base / "data/registry/blobs"
    return {a.name + b.name: b.read_bytes() for a in folder.iterdir() for b in a.iterdir()}


def test_blobs_there_and_back(operator, s3rver):
    contents = [os.urandom(8).hex() for _ in range(20)]
    dispatches.capability(operator, "c", {f"f{i}": content for i, content in enumerate(contents)})
    before = blobs_of(operator)
    place = Place(operator, s3rver, s3rver.port)
    del operator.env["CLOISTER_BLOBS"]
    told = json.loads(copy(operator, "--to-blobs", place.url, "--json").ok())
    assert told == {"tables": [], "blobs": {"n": len(before), "bytes": sum(map(len, before.values()))}}
    assert all(place.has(content) for content in contents)

    shutil.rmtree(operator.base / "data/registry/blobs")
    operator.env["CLOISTER_BLOBS"] = place.url
    copy(operator, "--to-blobs", "folder").ok()
    assert blobs_of(operator) == before


def test_a_blob_that_is_damaged(operator, s3rver):
    content = f"good {os.urandom(8).hex()}"
    dispatches.capability(operator, "c", {"f": content})
    place = Place(operator, s3rver, s3rver.port)
    del operator.env["CLOISTER_BLOBS"]
    path = operator.base / "data/registry" / place.key(content)[len(place.prefix) + 1:]
    path.chmod(0o600)
    path.write_text(content.replace("good", "evil"))
    assert "is damaged: remove it" in copy(operator, "--to-blobs", place.url).sentence()
    assert place.server.keys(place.prefix) == set()


def test_a_place_that_gives_back_something_else(operator, s3rver):
    content = f"good {os.urandom(8).hex()}"
    dispatches.capability(operator, "c", {"f": content})
    place = Place(operator, s3rver, s3rver.port)
    del operator.env["CLOISTER_BLOBS"]
    place.server.client().put_object(Bucket=BUCKET, Key=place.key(content), Body=content.replace("good", "evil").encode())
    assert "somebody has changed it there" in copy(operator, "--to-blobs", place.url).sentence()


def test_blobs_that_stay_in_s3_are_the_new_databases(operator, postgres, s3rver):
    content = os.urandom(8).hex()
    Place(operator, s3rver, s3rver.port)
    dispatches.capability(operator, "c", {"f": content})
    dispatches.agent(operator, "a", "cat /capabilities/c/f", capabilities=["c"])
    name = postgres.new()
    copy(operator, "--to", postgres.url(name)).ok()
    # The database that was left may not remove anything there.
    assert "are those of another database" in operator.cloister("dispatches", "prune", seconds=240).sentence()
    operator.env["CLOISTER_STORE"] = postgres.url(name)
    assert dispatches.dispatch(operator, "a", seconds=240).ok() == content
    dispatches.capability(operator, "c2", {"f": os.urandom(8).hex()})


def test_both_at_once_with_a_service(operator, postgres, s3rver):
    content = os.urandom(8).hex()
    dispatches.capability(operator, "c", {"f": content})
    dispatches.agent(operator, "a", "cat /capabilities/c/f; echo left >/out/file", capabilities=["c"])
    id = dispatches.detach(operator, "a")
    dispatches.await_over(operator, id)
    place, name = Place(operator, s3rver, s3rver.port), postgres.new()
    del operator.env["CLOISTER_BLOBS"]
    copy(operator, "--to", postgres.url(name), "--to-blobs", place.url).ok()
    shutil.rmtree(operator.base / "data/registry/blobs")
    service = Service(operator, "--store", postgres.url(name), "--blobs", place.url)
    assert service.get(f"/v1/dispatches/{id}/files/file").data == b"left\n"
    again = service.post("/v1/dispatches", {"agent": "a"}).ok(202)["id"]
    wait_until(lambda: service.get(f"/v1/dispatches/{again}").json["state"] == "finished", "it is finished")
    assert content in service.get(f"/v1/dispatches/{again}/output?stream=stdout").data.decode()
    assert service.stop() == 0


def test_what_is_in_use_is_not_copied(operator, postgres):
    dispatches.agent(operator, "stays", "while :; do sleep 1; done")
    service = Service(operator)
    url = postgres.url(postgres.new())
    assert "the service runs, as process" in copy(operator, "--to", url).sentence()
    id = service.post("/v1/dispatches", {"agent": "stays"}).ok(202)["id"]
    dispatches.await_state(operator, id, "running")
    service.stop(signal.SIGKILL)
    assert f"the dispatch '{id}' is not over" in copy(operator, "--to", url).sentence()
    service = Service(operator)
    service.post(f"/v1/dispatches/{id}/cancel").ok()
    dispatches.await_over(operator, id)
    service.stop()
    copy(operator, "--to", url).ok()
    assert "there is something in it already (in the table 'names')" in copy(operator, "--to", url).sentence()


def test_a_database_that_changes_rows(operator, postgres):
    dispatches.agent(operator, "worker", "true")
    name = postgres.new()
    operator.cloister("agent", "list", env={**operator.env, "CLOISTER_STORE": postgres.url(name)}).ok()
    postgres.ask(name, "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.created = 'x'; RETURN NEW; "
                 "END $$; CREATE TRIGGER change BEFORE INSERT ON cloister.versions FOR EACH ROW EXECUTE FUNCTION change()")
    assert "the table 'versions' is not there as it is here" in copy(operator, "--to", postgres.url(name)).sentence()
    assert not any(postgres_rows(postgres, name).values())


def test_places_that_cannot_be(operator, postgres):
    dispatches.agent(operator, "worker", "true")
    url = postgres.url(postgres.new())
    for words, why in [([], "where to?"), (["--to", "sqlite"], "the registry is in 'sqlite' already"),
                       (["--to-blobs", "folder"], "the blobs are in 'folder' already"),
                       (["--to", "postgres://me@127.0.0.1:1/db"], "cannot copy the registry: the registry's Postgres: connection"),
                       (["--to", "mysql://x"], "this is no store"), (["--to-blobs", "ftp://x"], "--to-blobs 'ftp://x'"),
                       (["--to", "postgres://me:secret@localhost/db"], "every user of this machine can read a password")]:
        assert why in copy(operator, *words).sentence()
    operator.env["CLOISTER_STORE"] = url
    assert "already" in copy(operator, "--to", url).sentence()


def test_the_same_place_in_another_spelling(operator, postgres):
    """Both the database and the bucket; a copy onto itself would own up to nothing."""
    name, folder = postgres.new(), postgres.folder
    link = operator.base / "link"
    link.symlink_to(folder)
    operator.env["CLOISTER_STORE"] = f"postgres://cloister@/{name}?host={folder}"
    dispatches.agent(operator, "worker", "true")
    before = postgres_rows(postgres, name)
    for url in (f"postgresql://cloister@/{name}?host={folder}", f"postgres://cloister@/{name}?host={folder}/",
                f"postgres://cloister@/{name}?host={link}", f"postgres://cloister@/{name}?host={folder}&port=5432",
                f"postgres://cloister@:5432/{name}?host={folder}", f"postgres:///{name}?host={folder}&user=cloister",
                f"postgres://cloister@/?host={folder}&dbname={name}"):
        assert "already" in copy(operator, "--to", url).sentence()
    assert postgres_rows(postgres, name) == before
    operator.env |= {"CLOISTER_BLOBS": "s3://bucket/a/b?endpoint=http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x",
                     "AWS_SECRET_ACCESS_KEY": "y"}
    for url in ("s3://bucket/a/b/?endpoint=http://127.0.0.1:9", "s3://bucket/a/b?endpoint=http://localhost:9",
                "s3://bucket/a/b?endpoint=http://127.0.0.1:9/", "s3://bucket/a/b?endpoint=http://[::1]:9&style=path",
                "s3://bucket/a/b?endpoint=http://127.0.0.1:9&region=eu-west-1&timeout=3", "s3://bucket/a/b?endpoint=http://LOCALHOST:9"):
        assert "the blobs are in" in copy(operator, "--to-blobs", url).sentence()
    operator.env["CLOISTER_BLOBS"] = "s3://bucket/a"
    for url in ("s3://bucket/a/?region=eu-west-1", "s3://bucket/a?endpoint=https://s3.us-east-1.amazonaws.com:443",
                "s3://bucket/a?style=path"):
        assert "the blobs are in" in copy(operator, "--to-blobs", url).sentence()
