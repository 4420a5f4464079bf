"""Databases in the world of the egress tests: a real Postgres, a real Redis, and a stranger that
records everything it gets."""
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import leftovers
from egress_world import DATABASES, STRANGER
from operators import IS_ROOT, wait_until

POSTGRES = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1:]
needs_postgres = pytest.mark.skipif(not POSTGRES or shutil.which("psql") is None,
                                    reason="there is no postgresql")
needs_redis = pytest.mark.skipif(not all(map(shutil.which, ("redis-server", "redis-cli"))),
                                 reason="there is no redis")

HBA = """
hostssl   all  scram,plus,app all  scram-sha-256
hostssl   all  mdfive        all  md5
hostssl   all  clear         all  password
hostnossl all  unsafe        all  scram-sha-256
hostnossl all  unsafemd      all  md5
hostnossl all  unsafeclear   all  password
"""


def as_nobody():
    """Postgres does not run as root, not even as root of a user namespace."""
    if IS_ROOT:
        return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return ["unshare", "-U", "--map-user=1000", "--map-group=1000"]


class Server:
    """A program in the lab's world, with a folder of its own."""

    def __init__(self, lab, folder, address):
        self.lab, self.folder, self.address = lab, folder, address
        folder.mkdir()
        self.own(folder)

    def own(self, path):
        if IS_ROOT:
            os.chown(path, 65534, 65534)

    def keys(self):
        for end in ("crt", "key"):
            path = self.folder / f"server.{end}"
            path.write_bytes((self.lab.folder / f"keys/good.{end}").read_bytes())
            path.chmod(0o600)
            self.own(path)

    def run(self, *argv, **how):
        return subprocess.run([*self.lab.enter, *as_nobody(), *map(str, argv)], check=True,
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=120, **how)

    def start(self, *argv, port):
        log = open(self.folder / "log", "ab")
        # With the terminal's group it would get what is typed there.
        self.process = subprocess.Popen([*self.lab.enter, *as_nobody(), *map(str, argv)], cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        start_new_session=True)
        leftovers.LABS.append(self.process.pid)
        wait_until(lambda: self.answers(port), f"{argv[0]} listens: {self.folder}")

    def answers(self, port):
        assert self.process.poll() is None, self.log()
        return subprocess.run([*self.lab.enter, sys.executable, "-c", "import socket, sys; "
                               f"socket.create_connection(('{self.address}', {port}), 1)"],
                              capture_output=True, check=False).returncode == 0

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def close(self):
        # Postgres would wait for its clients at SIGTERM.
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        leftovers.LABS.remove(self.process.pid)


class Postgres(Server):
    def __init__(self, lab, folder, passwords):
        super().__init__(lab, folder, DATABASES)
        self.data = folder / "data"
        bin_ = POSTGRES[0]
        self.run(f"{bin_}/initdb", "-D", self.data, "-U", "admin", "--auth=reject", "-E", "UTF8",
                 "--locale=C", "--no-sync")
        self.keys()
        (self.data / "pg_hba.conf").write_text(HBA)
        (self.data / "postgresql.conf").write_text(f"""
listen_addresses = '{self.address}'
unix_socket_directories = ''
ssl = on
ssl_cert_file = '{folder}/server.crt'
ssl_key_file = '{folder}/server.key'
log_connections = on
fsync = off
""")
        sql = ["CREATE TABLE things (n int);"]
        for user, password in passwords.items():
            how = "md5" if user in ("mdfive", "unsafemd") else "scram-sha-256"
            sql += [f"SET password_encryption = '{how}';", f"CREATE ROLE {user} LOGIN PASSWORD '{password}';"]
        sql += ["CREATE DATABASE app;"]
        self.run(f"{bin_}/postgres", "--single", "-D", self.data, "postgres",
                 input="\n".join(sql).encode() + b"\n")
        self.start(f"{bin_}/postgres", "-D", self.data, port=5432)


class Redis(Server):
    def __init__(self, lab, folder, password, others):
        super().__init__(lab, folder, DATABASES)
        self.keys()
        users = "".join(f"user {name} on >{word} ~* &* +@all\n" for name, word in others.items())
        conf = folder / "redis.conf"
        conf.write_text(f"""
bind {self.address}
port 6379
tls-port 6380
tls-cert-file {folder}/server.crt
tls-key-file {folder}/server.key
tls-ca-cert-file {folder}/server.crt
tls-auth-clients no
requirepass {password}
{users}
save ""
dir {folder}
""")
        self.own(conf)
        self.start("redis-server", conf, port=6379)


# A program of its own, because nobody may not read the folder that this is in.
BE_STRANGER = r"""
import socket, sys, threading
def serve(peer):
    with peer:
        while data := peer.recv(65536):
            print(repr(data), flush=True)
            if data[4:8] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30"):
                peer.sendall(b"N")
            elif data[4:8] == b"\0\3\0\0":
                peer.sendall(b"R\0\0\0\x08\0\0\0\3")
            elif b"WHOLE" in data or data.startswith((b"*", b"AUTH", b"HELLO")):
                peer.sendall(b"+OK\r\n")
def accept(server):
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
*others, last = [socket.create_server((sys.argv[1], port)) for port in (7000, 6379, 5432)]
for server in others:
    threading.Thread(target=accept, args=(server,), daemon=True).start()
accept(last)
"""


class Stranger(Server):
    """Takes every connection, asks clients of Postgres for their password as it is, tells others
    "+OK", and writes down what comes."""

    def __init__(self, lab, folder):
        super().__init__(lab, folder, STRANGER)
        self.start(sys.executable, "-c", BE_STRANGER, STRANGER, port=5432)

    def heard(self):
        return self.log()


@pytest.fixture(scope="module")
def stranger(lab, ground):
    stranger = Stranger(lab, ground / f"stranger-{os.urandom(4).hex()}")
    yield stranger
    stranger.close()
