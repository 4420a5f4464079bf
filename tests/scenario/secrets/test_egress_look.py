"""Credentials are found in the head of a request, too, and no part of a request that is refused for one has left."""
import json

import pytest

from egress_lab import CURL, await_event
from operators import only_user
from test_inspect import token

pytestmark = only_user

UP = "https://up.example.test"
OPEN = "  - allow: up.example.test\n"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


def ask(online, *words):
    return json.loads(online.inside(*CURL, *words).out)


@pytest.mark.parametrize(("words", "where"), [
    (["-H", f"X-Note: {token()}", f"{UP}/echo?1"], "the header x-note"),
    (["-H", f"User-Agent: agent {token()}", f"{UP}/echo?2"], "the header user-agent"),
    ([f"{UP}/echo?a=b&q={token()}"], "the query"),
    ([f"{UP}/echo?q=%67%68p_{token()[4:]}"], "the query"),
    ([f"{UP}/echo/{token()}/x"], "the path"),
    (["-d", f"see: curl -H 'Authorization: Bearer {JWT}'", f"{UP}/echo?3"], "the body"),
    (["-d", "SERVICE_API_KEY=q8Zt3vKx0Lw7Rb2Nf5Yc9Hd4", f"{UP}/echo?4"], "the body"),
])
def test_is_found_anywhere(online, words, where):
    online.start(OPEN, "sleep", "1000")
    before = len(online.lab.lines("seen.jsonl"))
    said = ask(online, *words)
    assert said["error"] == "refused by cloister" and said["reason"].startswith(f"{where} carries"), said
    assert await_event(online, why="secret")["verdict"] == "deny"
    assert len(online.lab.lines("seen.jsonl")) == before
    online.operator.cloister("kill", online.cell).ok()


def test_is_left_where_it_belongs(online):
    """In what is named for credentials, where a rule permits it, and of what is the cell's own."""
    online.operator.cloister("secret", "add", "KEY", "--host", "up.example.test", "--in", "header:x-note",
                             input=token()).ok()
    online.start("  - allow: up.example.test\n    paths: [/echo/free]\n    secrets: allow\n" + OPEN, "sleep", "1000",
                 options=("-s", "KEY"))
    for words in (["-H", f"Authorization: Bearer {token()}", f"{UP}/echo?1"], ["-b", f"s={token()}", f"{UP}/echo?2"],
                  [f"{UP}/echo?X-Amz-Credential=AKIAQ3EGRZ7LMV5KPW2T%2F20260101&jwt={JWT}"],
                  ["-H", f"X-Note: {token()}", f"{UP}/echo/free"]):
        assert "refused by cloister" not in online.inside(*CURL, *words).ok(), words
    sent = online.inside("sh", "-c", f'{" ".join(CURL)} -o /dev/null -w "%{{http_code}}" -H "X-Note: $KEY" {UP}/echo').out
    assert sent == "200" and not online.events(why="secret")
    online.operator.cloister("kill", online.cell).ok()


def test_nothing_leaves_before_the_search_is_complete(online):
    """Also for a large body with the key at its end, and without a length."""
    online.start(OPEN, "sleep", "1000")
    before = len(online.lab.lines("seen.jsonl"))
    for words in ("--data-binary @/tmp/b", "-T /tmp/b", "-H transfer-encoding:chunked -T /tmp/b"):
        said = online.inside("sh", "-c", f"head -c 1200000 /dev/zero | tr '\\0' x >/tmp/b; echo ' {token()}' >>/tmp/b; "
                             f"{' '.join(CURL)} -H expect: {words} {UP}/echo?large").out
        assert "the body carries what looks like a credential" in said, said
    assert len(online.lab.lines("seen.jsonl")) == before
    # A large transfer is told of, whatever the policy says.
    online.inside("sh", "-c", f"head -c 6000000 /dev/zero >/tmp/b; {' '.join(CURL)} -o /dev/null -T /tmp/b {UP}/echo").ok()
    trip = await_event(online, type="steer", did="tripwire")
    assert trip["tripwire"] == "transfer" and len(online.lab.lines("seen.jsonl")) == before + 1, trip
    online.operator.cloister("kill", online.cell).ok()
