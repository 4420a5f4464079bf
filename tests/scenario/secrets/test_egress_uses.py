"""`uses` of a rule: requests use only the secrets that it names, in each way in which a secret is used."""
import json

import pytest

from egress_databases import Postgres, Redis, needs_postgres, needs_redis
from egress_lab import CURL, needs_python
from operators import only_user, wait_until
from test_egress_mtls import SAVE
from test_egress_mtls import give as give_certificate
from test_egress_secrets import UP, canary, give, give_ws
from test_egress_signed import JUDGE_JWT, bearer, run, word
from test_egress_signed import give as give_signer
from test_egress_ssh import HOST, SSH, servers, world  # noqa: F401  fixtures
from test_egress_ssh import pytestmark as ssh_marks
from test_revoke_kinds import LINES, TALK, Inside

NOT_NAMED = "does not name it in `uses`"


def refusal(online, **wanted):
    event = online.refusal(**wanted)
    assert event["why"] == "exfiltration" and NOT_NAMED in event["note"], event
    return event


def with_body(first, second):
    """The body decides which of two rules it is."""
    return (f"  - {{allow: up.example.test, body: {{json: {{/kind: a}}}}, uses: {first}}}\n"
            f"  - {{allow: up.example.test, uses: {second}}}\n")


@only_user
@pytest.mark.parametrize("first, second, kind, goes", [
    ("[KEY]", "[]", "a", True), ("[KEY]", "[]", "b", False), ("[]", "[KEY]", "a", False), ("[]", "[KEY]", "b", True)])
def test_a_body_that_decides(online, first, second, kind, goes):
    real = canary()
    give(online, real)
    send = " ".join([*CURL, '-H "Authorization: Bearer $KEY" -H "Content-Type: application/json" -d',
                     f"'{json.dumps({'kind': kind})}'", f"{UP}/echo"])
    done = online.sh(with_body(first, second), send, options=("-s", "KEY"))
    assert bool(online.lab.seen(real)) == goes, done
    if not goes:
        assert not online.lab.seen('"kind": "' + kind) and refusal(online, type="http")["misplaced"]


@only_user
@needs_python("jwt")
def test_a_signature(online):
    give_signer(online, word(), "--scheme", "jwt").ok()
    where = online.lab.judge(JUDGE_JWT, KEY="", ALG="HS256")
    run(online, bearer("HS256"), UP + where, rules="  - {allow: up.example.test, uses: []}\n")
    assert online.lab.judgements(where) == [] and refusal(online, type="http")


@only_user
def test_a_certificate(online):
    give_certificate(online)
    online.sh("  - {allow: '*.example.test', uses: []}\n",
              SAVE + " ".join([*CURL, "--cert client.pem https://mtls.example.test/x"]), options=("-s", "CLIENT"))
    assert refusal(online, type="http")


def change(online, cell, rules):
    """The rules of a running cell are others, at once."""
    online.operator.cloister("policy", "set", cell, online.policy(rules, "other.yaml"), "--now").ok()


@only_user
@needs_python("websockets")
def test_a_websocket_that_is_open(online):
    """With the policy, what may go on changes: a connection that carried the secret ends."""
    real = canary()
    give_ws(online, real, "--in", "websocket")
    rule = "  - {{allow: ws.example.test, websocket: true, uses: {}}}\n"
    cell = online.start(rule.format("[KEY]"), "sleep", "infinity", options=["-s", "KEY"])
    talk = Inside(online, TALK)
    assert talk.ask("connect", "early", "key") == talk.ask("connect", "bare") == "welcome"
    change(online, cell, rule.format("[KEY, OTHER]"))
    assert talk.ask("say", "early", "on") == "on"
    change(online, cell, rule.format("[]"))
    assert talk.ask("end", "early") in ("ended", "ConnectionClosedError")
    assert talk.ask("say", "bare", "alive") == "alive"
    assert talk.ask("say", "bare", "it-is-KEY").startswith("ConnectionClosed") and not online.lab.seen("it-is-")
    wait_until(lambda: len(online.events(why="exfiltration", type="http")) == 2, "both being recorded")
    talk.close()
    online.operator.cloister("kill", cell).ok()


# A connection to a server that is kept; Redis talks in lines.
KEPT = "import asyncio, os, socket, sys\n" + LINES + """
async def login():
    global peer
    peer = socket.create_connection(("db.example.test", 6379), 60)
    return await say("AUTH", os.environ["REDISCLI_AUTH"])
async def say(*words):
    peer.sendall(" ".join(words).encode() + b"\\r\\n")
    return peer.recv(4096).decode().strip() or "gone"
asyncio.run(lines({"login": login, "say": say}))
"""
DATABASE = "  - {{allow: db.example.test, ports: [{}], protocol: tcp, uses: {}}}\n"


@only_user
@needs_redis
def test_a_login_to_redis(online, lab, ground):
    password = canary()
    server = Redis(lab, ground / f"redis-{word(8)}", password, {})
    online.operator.cloister("secret", "add", "KV", "--like", "redis", "--host", "db.example.test", input=password).ok()
    cell = online.start(DATABASE.format(6379, "[KV]"), "sleep", "infinity", options=["-s", "KV"])
    kept, late = Inside(online, KEPT), Inside(online, KEPT)
    assert kept.ask("login") == "+OK" and kept.ask("say", "PING") == "+PONG"
    change(online, cell, DATABASE.format(6379, "[]"))
    assert kept.ask("say", "PING") in ("gone", "ConnectionResetError", "BrokenPipeError")
    assert NOT_NAMED in late.ask("login")
    wait_until(lambda: [NOT_NAMED in e["note"] for e in online.events(why="exfiltration", type="tcp")] == [True] * 2,
               "both being recorded")
    online.operator.cloister("kill", cell).ok()
    server.close()


@only_user
@needs_postgres
def test_a_login_to_postgres(online, lab, ground):
    """No byte of the placeholder is in what its client sends."""
    password = canary()
    server = Postgres(lab, ground / f"postgres-{word(8)}", {"scram": password})
    online.operator.cloister("secret", "add", "DB", "--like", "postgres", "--host", "db.example.test",
                             input=password).ok()
    for uses, goes in [("[]", False), ("[DB]", True)]:
        done = online.sh(DATABASE.format(5432, uses), "PGSSLMODE=require psql -XAtw -h db.example.test -U scram "
                         "-d app -c 'select 7'", options=("-s", "DB"))
        assert ("7\n" in done.out) == goes, done
        if not goes:
            assert "authorized: user=scram" not in server.log()
            assert refusal(online, type="tcp")
    server.close()


class TestSsh:
    pytestmark = ssh_marks

    def test_a_login(self, world):  # noqa: F811  a fixture
        world.give()
        rule = "  - {{allow: 'up.example.test:22', protocol: tcp, uses: {}}}\n"
        assert world.sh(f"{SSH} {HOST} echo in", rules=rule.format("[KEY]")).ok() == "in\n"
        assert world.sh(f"{SSH} {HOST} echo in", rules=rule.format("[]")).out == ""
        event = world.refusal()
        assert event["why"] == "exfiltration" and event["misplaced"] and NOT_NAMED in event["note"]
