"""A registry of 100,000 versions: how long it takes to list and to resolve."""
import hashlib
import json
import os
import sqlite3

from bench import Unmeasured, group, in_turn

VERSIONS = 100_000


def env(name, value):
    text = json.dumps({"kind": "env", "name": name, "values": {"A": value}, "version": 1},
                      sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest(), text


def fill(who, database):
    """Half of them are names with one version, half are versions of one name."""
    half = VERSIONS // 2
    with sqlite3.connect(database) as db:
        db.execute("DELETE FROM versions")
        db.execute("DELETE FROM names")
        db.executemany("INSERT INTO names (id, kind, name) VALUES (?, 'env', ?)",
                       [(i + 1, f"env-{i:05}") for i in range(half)] + [(half + 1, "many")])
        rows = [(i + 1, 1, 1, *env(f"env-{i:05}", "1")) for i in range(half)]
        rows += [(half + 1, i + 1, i + 1, *env("many", str(i))) for i in range(half)]
        db.executemany("INSERT INTO versions (name, number, turn, hash, size, created, content) "
                       "VALUES (?, ?, ?, ?, 100, '2026-01-01T00:00:00.000Z', ?)", rows)
    db.close()
    for path in database.parent.glob("db.sqlite*"):
        os.chown(path, who.uid, who.gid)


@group("registry")
def registry(lab, report):
    who = lab.users[0]
    file = who.home / "e.yaml"
    file.write_text("name: e\nvalues: {}\n")
    made = who.run([lab.cloister, "env", "register", file])
    if made.returncode != 0:
        raise Unmeasured(made.stderr.strip())
    fill(who, who.top / "data" / "registry" / "db.sqlite")
    old = env("many", "7")[0]
    commands = {
        "the program alone": [lab.cloister, "version"],
        "resolve a name": [lab.cloister, "env", "show", "env-33333", "--json"],
        "resolve the newest of 50,000": [lab.cloister, "env", "show", "many", "--json"],
        "resolve a hash": [lab.cloister, "env", "show", f"many@{old}", "--json"],
        "resolve 12 digits of one": [lab.cloister, "env", "show", f"many@{old[:19]}", "--json"],
        "list 100 of 50,000": [lab.cloister, "env", "list", "-l100", "--after=env-25000", "--json"],
        "history, 100 of 50,000": [lab.cloister, "env", "history", "many", "-l100", "--json"],
    }
    rounds = report.pick(100, 10)
    for name, samples in in_turn(lab, who, commands, rounds).items():
        report.row(f"100,000 versions, {name}", samples.median, "ms", spread=samples.spread)
