"""`watch`: rules over what the cell's processes do, and what they lead to."""
import json
import subprocess

from operators import SECONDS, only_root, only_user, wait_until
from test_freeze import await_frozen

RULES = """
version: 1
watch:
  - write: /tmp/watched
    then: notify
  - exec: downloaded
    then: ask
    reason: nobody knows this program
  - write: ~/.ssh
    then: freeze
"""
KILL = "version: 1\nwatch: [{write: /tmp/other, then: kill}]\n"


def policy(operator, text, name="watch.yaml"):
    path = operator.file(name, text)
    path.chmod(0o600)
    return path


def fired(operator, id, of):
    """The records of rules that fitted an act on OF."""
    lines = operator.cloister("events", "--json", id).ok().splitlines()
    found = [e.get("event", e) for e in map(json.loads, lines)]
    return [e for e in found if e["type"] == "watch" and of in e["of"]]


def begin(operator, id, script):
    return operator.spawn(operator.program, "exec", id, "--", "sh", "-c", script, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)


def questions(operator):
    return [json.loads(line) for line in operator.cloister("approvals", "--json").ok().splitlines()]


@only_root
def test_what_a_process_does_has_consequences(operator):
    id = operator.detach("-p", policy(operator, RULES), "--", "sleep", "1000")
    operator.cloister("exec", id, "--", "sh", "-c", "echo x >/tmp/watched").ok()
    one, *_ = wait_until(lambda: fired(operator, id, "/tmp/watched"), "a rule fires")
    assert (one["rule"], one["then"]) == ("watch write [/tmp/watched] then notify", "notify") and one["pid"] > 1
    # A person lets the cell go on.
    runs = begin(operator, id, "cp /bin/true /tmp/t; /tmp/t; echo went on")
    asked, = wait_until(lambda: questions(operator), "a question")
    assert (asked["protocol"], asked["method"], asked["reason"]) == ("watch", "exec", "nobody knows this program")
    assert "/tmp/t" in asked["host"]
    operator.cloister("approve", asked["id"]).ok()
    assert runs.communicate(timeout=SECONDS)[0] == b"went on\n"
    begin(operator, id, "mkdir -p ~/.ssh; sleep 1000")
    await_frozen(id)
    operator.cloister("thaw", id).ok()
    # A live change brings other rules, and takes these away.
    before = len(fired(operator, id, "/tmp/watched"))
    operator.cloister("policy", "set", id, policy(operator, KILL, "other.yaml")).ok()
    operator.cloister("exec", id, "--", "sh", "-c", "echo x >/tmp/watched").ok()
    begin(operator, id, "echo x >/tmp/other; sleep 1000")
    wait_until(lambda: id not in str(operator.cells()), "the cell is killed")
    assert fired(operator, id, "/tmp/other") and len(fired(operator, id, "/tmp/watched")) == before


@only_user
def test_a_users_cell_is_killed(operator):
    id = operator.detach("-p", policy(operator, KILL), "--", "sleep", "1000")
    begin(operator, id, "echo x >/tmp/other; sleep 1000")
    wait_until(lambda: id not in str(operator.cells()), "the cell is killed")
    assert fired(operator, id, "/tmp/other")[0]["then"] == "kill"
