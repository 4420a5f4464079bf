"""A client of Postgres holds a placeholder; the server is shown the real password, and no other
server is."""
import secrets
import subprocess

import pytest

from egress_databases import Postgres, needs_postgres, stranger  # noqa: F401  a fixture
from egress_lab import helpers_of, needs_python
from egress_world import NPM
from operators import IS_STATIC, SECONDS, only_user, wait_until
from test_egress_secrets import has

pytestmark = needs_postgres

RULES = """
  - allow: [db.example.test, db2.example.test, db.other.test, stranger.example.test]
    ports: [5432]
    protocol: tcp
"""
USERS = ("scram", "plus", "mdfive", "clear", "unsafe", "unsafemd", "unsafeclear")
# By default it tries once more without TLS whatever went wrong with it.
PSQL = "PGSSLMODE=${PGSSLMODE-require} psql -X -A -t -w -h db.example.test -d app"


@pytest.fixture(scope="module")
def passwords():
    return {user: f"cAnary{secrets.token_hex(12)}" for user in USERS}


@pytest.fixture(scope="module")
def server(lab, ground, passwords):
    server = Postgres(lab, ground / "postgres", passwords)
    yield server
    server.close()


@pytest.fixture
def db(online, server, passwords):
    """A cell's operator with a secret for one user of the server."""
    def give(user, *options, host="db.example.test"):
        online.operator.cloister("secret", "add", "DB", "--like", "postgres", "--host", host, *options,
                                 input=passwords[user]).ok()
        return passwords[user]
    online.give = give
    online.server = server
    return online


def sh(online, script, options=("-s", "DB")):
    done = online.sh(RULES, f'echo "$PGPASSWORD"; {script}', options=options)
    fake, _, said = done.out.partition("\n")
    return done, fake, said


@pytest.mark.parametrize("user, how, tls", [
    ("scram", "scram-sha-256", ()), ("mdfive", "md5", ()), ("clear", "password", ()),
    ("unsafe", "scram-sha-256", ("--with", "tls=off")), ("unsafemd", "md5", ("--with", "tls=off")),
])
@pytest.mark.parametrize("sslmode", ["verify-full", "disable"])
def test_every_kind_of_login(db, user, how, tls, sslmode):
    real = db.give(user, *tls)
    done, fake, said = sh(db, f"export PGSSLROOTCERT=$SSL_CERT_FILE PGSSLMODE={sslmode}; {PSQL} -U {user} "
                          "-c 'select current_user, 6*7'")
    assert said.strip() == f"{user}|42", done
    assert fake != real and real not in done.out + done.err
    log = db.server.log()
    assert f'identity="{user}" method={how}' in log.replace("authenticated:", "")
    encrypted = [line for line in log.splitlines() if f"authorized: user={user} " in line]
    assert ("SSL enabled" in encrypted[-1]) == (tls == ())
    event, = db.events(type="tcp", verdict="allow", user=user)
    assert event["service"] == "postgres" and event["secret"] == "DB" and event["database"] == "app"
    assert real not in str(db.events()) and fake not in str(db.events())


def test_a_url(db):
    db.give("scram")
    done, fake, said = sh(db, 'psql -XAtw "postgres://scram:$PGPASSWORD@db.example.test/app?sslmode=require" '
                          "-c 'select 1'")
    assert said.strip() == "1"


def test_the_user_that_it_is_for(db):
    db.give("scram", "--id", "scram")
    done, fake, said = sh(db, f"{PSQL} -c 'select 5'; {PSQL} -U mdfive -c 'select 6'")
    assert said.strip() == "5", done
    assert "not of a secret of the user 'mdfive'" in done.err
    assert db.refusal()["why"] == "login"


def test_a_wrong_password(db):
    db.give("scram")
    done, fake, said = sh(db, f"PGPASSWORD=guess {PSQL} -U scram -c 'select 1'")
    assert "refused by cloister: the password is not the placeholder" in done.err
    event = db.refusal()
    assert event["why"] == "login" and event["user"] == "scram"
    told = db.operator.cloister("why", event["cell"]).ok()
    assert "the login failed" in told and "egress:" not in told


def test_a_server_that_refuses(db, passwords):
    db.give("mdfive")
    done, fake, said = sh(db, f"{PSQL} -U scram -c 'select 1'")
    assert "the server refuses the login: password authentication failed" in done.err
    assert passwords["mdfive"] not in done.err


def test_a_server_without_tls_gets_no_secret(db):
    db.give("unsafeclear", "--with", "tls=off")
    done, fake, said = sh(db, f"{PSQL} -U unsafeclear -c 'select 1'")
    assert "only over TLS" in done.err


def test_a_server_without_tls(db, stranger):
    db.give("scram", host="stranger.example.test")
    done, fake, said = sh(db, "psql -Xw -h stranger.example.test -U scram -d app -c 'select 1'")
    assert "the server speaks no TLS" in done.err
    assert "scram" not in stranger.heard()


def test_a_server_that_is_not_the_one(db, passwords):
    """Its certificate is for other names: it is shown nothing."""
    before = db.server.log().count("connection received")
    db.give("clear", host="db.other.test")
    done, fake, said = sh(db, "PGSSLMODE=require psql -Xw -h db.other.test -U clear -d app -c 'select 1'")
    assert "certificate is not good: it is for another name" in done.err
    assert db.refusal()["why"] == "certificate"
    assert "authorized: user=clear" not in "".join(db.server.log().split("connection received")[before + 1:])


def test_a_handshake_for_another_name(db):
    db.give("scram")
    done = db.python(RULES, "import socket, ssl\n"
                     "s = socket.create_connection(('db.example.test', 5432))\n"
                     "ssl.create_default_context().wrap_socket(s, server_hostname='www.example.test')",
                     options=("-s", "DB"))
    assert done.status != 0 and "ssl.SSLError" in done.err, done


def test_another_host(db, stranger):
    """It asks for the password as it is, and gets nothing."""
    real = db.give("scram")
    done, fake, said = sh(db, "psql -Xw -h stranger.example.test -U scram -d app -c 'select 1'")
    assert done.err and said == ""
    assert db.refusal()["why"] == "exfiltration"
    assert "scram" in stranger.heard()
    assert fake not in stranger.heard() and real not in stranger.heard()


def test_the_same_server_by_another_name(db):
    db.give("scram")
    done, fake, said = sh(db, "psql -Xw 'host=db2.example.test user=scram dbname=app sslmode=disable' -c 'select 1'; "
                          "psql -Xw 'host=db2.example.test user=scram dbname=app' -c 'select 1'")
    assert said == "" and done.err.count("failed") >= 2, done


@pytest.mark.parametrize("where", ["-c \"select '$PGPASSWORD'\"", "-c 'select 1' -d \"$PGPASSWORD\"",
                                   "-c 'select 1' -U \"x$PGPASSWORD\""])
def test_a_placeholder_where_it_does_not_belong(db, where):
    db.give("scram")
    done, fake, said = sh(db, f"{PSQL} -U scram {where}")
    assert fake not in said
    assert db.refusal()["why"] == "exfiltration"
    assert fake not in db.server.log()


BULK = """
import os, psycopg2, threading
def connect():
    return psycopg2.connect(host="db.example.test", dbname="app", user="scram", sslmode="require",
                            password=os.environ["PGPASSWORD"])
c = connect()
with c.cursor() as cur:
    cur.execute("create temp table t (n int, s text)")
    cur.executemany("insert into t values (%s, %s)", [(i, "x" * 1000) for i in range(500)])
    cur.execute("select sum(length(s)) from t")
    print(cur.fetchone()[0])
    cur.execute("select repeat('y', 20000000)")
    print(len(cur.fetchone()[0]))
cs = [connect() for _ in range(10)]
for other in cs:
    with other.cursor() as cur:
        cur.execute("select 1")
print("many")
threading.Timer(0.3, c.cancel).start()
try:
    with c.cursor() as cur:
        cur.execute("select pg_sleep(60)")
except psycopg2.extensions.QueryCanceledError:
    print("cancelled")
"""


@needs_python("psycopg2")
def test_a_program(db):
    """Much in both directions, many at once, and a query that is cancelled."""
    db.give("scram")
    done = db.python(RULES, BULK, options=("-s", "DB"))
    assert done.ok().split() == ["500000", "20000000", "many", "cancelled"]
    assert [e for e in db.events(type="tcp") if e.get("cancel")]


DIRECT = """
import os, socket, ssl, struct
context = ssl.create_default_context()
context.set_alpn_protocols(["postgresql"])
with context.wrap_socket(socket.create_connection(("db.example.test", 5432)),
                         server_hostname="db.example.test") as s:
    print(s.selected_alpn_protocol())
    start = struct.pack(">I", 0x30002) + b"user\\0scram\\0database\\0app\\0_pq_.new\\0x\\0\\0"
    s.sendall(struct.pack(">I", len(start) + 4) + start)
    def message():
        head = s.recv(5)
        return head[:1], s.recv(struct.unpack(">I", head[1:])[0] - 4)
    print(message())
    print(message())
    word = os.environ["PGPASSWORD"].encode() + b"\\0"
    s.sendall(b"p" + struct.pack(">I", len(word) + 4) + word)
    print(message())
"""


def test_tls_at_once_and_a_newer_protocol(db):
    """As newer clients do it, which this machine may not have."""
    db.give("scram")
    alpn, version, ask, ok = db.python(RULES, DIRECT, options=("-s", "DB")).ok().splitlines()
    assert alpn == "postgresql"
    assert version == repr((b"v", b"\0\0\0\0\0\0\0\1_pq_.new\0"))
    assert ask == repr((b"R", b"\0\0\0\3")) and ok == repr((b"R", b"\0\0\0\0"))


@pytest.mark.parametrize("data", ["b'\\0\\0\\0\\x08\\x04\\xd2\\x16\\x30' * 2", "b'GET / HTTP/1.1\\r\\n\\r\\n'",
                                  "b'\\0\\0\\0\\x0d\\0\\3\\0\\0a\\0b\\0\\0'"])
def test_bytes_that_are_not_postgres(db, data):
    db.give("scram")
    done = db.python(RULES, "import socket\n"
                     "s = socket.create_connection(('db.example.test', 5432))\n"
                     "s.sendall(%s)\n"
                     "print(s.recv(1) == b'N' and s.recv(1))\n"
                     # What was noted is recorded before this is answered.
                     "socket.create_connection(('db.example.test', 5432)).sendall(b'x')\n" % data,
                     options=("-s", "DB"))
    assert "E" in done.out or "False" in done.out
    assert db.refusal()["why"] == "malformed"


NODE = """
const fs = require("fs"), { Pool } = require("/opt/npm/node_modules/pg");
const ssl = process.argv[1] === "tls" && { ca: fs.readFileSync(process.env.NODE_EXTRA_CA_CERTS) };
const url = `postgres://scram:${process.env.PGPASSWORD}@db.example.test/app`;
const pool = new Pool({ connectionString: url, ssl });
Promise.all([1, 2, 3].map((n) => pool.query("select $1::int * 2 as n", [n])))
    .then((all) => console.log(all.map((r) => r.rows[0].n).join(" ")))
    .then(() => pool.end());
"""


@pytest.mark.skipif(not (NPM / "node_modules/pg").is_dir(), reason="pg is not in build/npm: `make npm` brings it")
@pytest.mark.parametrize("tls", ["tls", "plain"])
def test_node(db, tls):
    db.give("scram")
    done = db.run(RULES, "node", "-e", NODE, tls,
                  options=("-s", "DB", "-v", f"{db.lab.folder / 'npm'}:/opt/npm:ro"))
    assert done.ok().split() == ["2", "4", "6"]


def test_a_server_cannot_return_the_secret(db):
    real = db.give("clear")
    done, fake, said = sh(db, f"{PSQL} -U clear -c \"select '{real[:10]}' || '{real[10:]}'\"")
    assert said.strip() == fake and real not in done.out


@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
def test_it_is_in_no_process_but_the_courier(db):
    real = db.give("scram")
    before = db.server.log().count("authorized: user=scram")
    db.start(RULES, "sh", "-c", f"{PSQL} -U scram -c 'select 1'; {PSQL} -U scram -c 'select pg_sleep(1000)'",
             options=("-s", "DB"))
    wait_until(lambda: db.server.log().count("authorized: user=scram") >= before + 2, "it has logged in")
    helpers = helpers_of(db.operator, db.cell)
    try:
        holders = {pid for pid in db.operator.pids(db.cell) if has(pid, real.encode())}
    except OSError:
        pytest.skip("only root may look into processes")
    assert holders == {helpers["courier"]}


class Session:
    """A psql in the cell that stays logged in."""

    def __init__(self, db):
        words = f"exec env {PSQL} -U scram".replace("${PGSSLMODE-require}", "require")
        self.process = db.operator.spawn(db.operator.program, "exec", db.cell, "--", "sh", "-c", words,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, sql):
        self.process.stdin.write(sql.encode() + b";\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()

    def end(self):
        """The output until its end, which it reaches by itself."""
        _, err = self.process.communicate(b"select 'nobody hears this';\n", timeout=SECONDS)
        return self.process.returncode, err.decode()


@only_user
def test_rotated_and_revoked(db, passwords):
    """A logged-in client stays so when the password is rotated, and not when it is revoked."""
    db.give("scram")
    db.start(RULES, "sleep", "infinity", options=("-s", "DB"))

    def login():
        return db.inside("sh", "-c", f"{PSQL} -U scram -c 'select 5'")
    early = Session(db)
    assert early.ask("select 1") == "1"
    db.operator.cloister("rotate", "--new", db.cell, "DB", input="not-the-password").ok()
    assert early.ask("select 2") == "2"
    assert "the server refuses the login" in login().err
    db.operator.cloister("rotate", "--new", db.cell, "DB", input=passwords["scram"]).ok()
    assert login().ok() == "5\n"
    late = Session(db)
    assert late.ask("select 3") == "3" and early.ask("select 4") == "4"
    db.operator.cloister("revoke", db.cell, "DB").ok()
    for session in (early, late):
        status, err = session.end()
        assert status == 2 and "connection" in err, (status, err)
    assert "nobody hears" not in db.server.log()
    assert "'DB' has been revoked" in login().err
    wait_until(lambda: len(db.events(type="tcp", why="revoked")) == 3, "all three being recorded")
    assert [e["did"] for e in db.events(type="steer")] == ["rotate", "rotate", "revoke"]
    db.operator.cloister("kill", db.cell).ok()
