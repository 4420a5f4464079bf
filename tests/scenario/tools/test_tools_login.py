"""`cloister tools login`: a remote server's OAuth, done outside of any cell, against an authorization server of our own."""
import base64
import hashlib
import http.server
import json
import os
import pty
import re
import subprocess
import threading
import urllib.parse
import urllib.request

import pytest

from operators import as_one, read_until
from tools_lab import Bench


class Authority:
    """An MCP server and its authorization server; DOES changes what they answer."""

    def __init__(self):
        self.does, self.asked, self.codes = {}, [], {}
        self.life, self.refresh, self.n = 3600, "refresh-0", 0
        authority = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def say(self, status, document=None, **fields):
                body = json.dumps(document).encode() if document is not None else b""
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                authority.get(self)

            def do_POST(self):
                length = int(self.headers.get("content-length", 0))
                authority.post(self, self.rfile.read(length).decode())

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def get(self, to):
        path, _, query = to.path.partition("?")
        self.asked.append(path)
        if path == "/mcp":
            return to.say(401, WWW_Authenticate=f'Bearer resource_metadata="{self.url}/about"')
        if path == "/about":
            return to.say(200, {"resource": f"{self.url}/mcp", "authorization_servers": [f"{self.url}/as"],
                                "scopes_supported": ["read", "write"], **self.does.get("resource", {})})
        if path == "/.well-known/oauth-authorization-server/as":
            return to.say(200, {"issuer": f"{self.url}/as", "authorization_endpoint": f"{self.url}/authorize",
                                "token_endpoint": f"{self.url}/token", "registration_endpoint": f"{self.url}/register",
                                "code_challenge_methods_supported": ["S256"], **self.does.get("issuer", {})})
        if path == "/authorize":
            asked = dict(urllib.parse.parse_qsl(query))
            assert asked["code_challenge_method"] == "S256" and asked["resource"] == f"{self.url}/mcp"
            assert asked["client_id"] == "client-1" and asked["scope"] == "read write" and len(asked["state"]) == 43
            self.codes["code 1"] = asked["code_challenge"]
            back = {"code": "code 1", "state": asked["state"], "iss": f"{self.url}/as", **self.does.get("back", {})}
            return to.say(302, Location=f"{asked['redirect_uri']}?{urllib.parse.urlencode(back)}")
        return to.say(404)

    def post(self, to, body):
        self.asked.append(to.path)
        if to.path == "/register":
            asked = json.loads(body)
            assert asked["redirect_uris"][0].startswith("http://127.0.0.1:") and asked["token_endpoint_auth_method"] == "none"
            return to.say(201, {"client_id": "client-1"})
        form = dict(urllib.parse.parse_qsl(body))
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            right = self.codes.pop(form["code"], None) == base64.urlsafe_b64encode(digest).decode().rstrip("=")
        else:
            right = form["refresh_token"] == self.refresh
        if not right:
            return to.say(400, {"error": "invalid_grant"})
        self.n += 1
        self.refresh = f"refresh-{self.n}"          # each can be used once
        return to.say(200, {"access_token": f"access-{self.n}", "token_type": "Bearer", "expires_in": self.life,
                            "refresh_token": self.refresh, **self.does.get("token", {})})


@pytest.fixture
def authority():
    authority = Authority()
    yield authority
    authority.close()


@pytest.fixture
def bench(operator, authority):
    bench = Bench(operator)
    bench.write({"version": 1, "tools": {"servers": {"far-away": {"url": f"{authority.url}/mcp"}}}})
    return bench


def log_in(bench, *words, visits=True):
    """`tools login` with a browser; (status, output, errors)."""
    process = bench.operator.spawn(bench.operator.program, "tools", "login", "far-away", *words, cwd=bench.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = ""
    while visits:
        line = process.stderr.readline().decode()
        said += line
        if not line or line.startswith("http://"):
            break
    if visits and said.count("\n") >= 2:
        address = said.splitlines()[-1]
        # Somebody else's request does not end it.
        back = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)["redirect_uri"][0]
        with urllib.request.urlopen(f"{back}?code=x&state=wrong", timeout=10):
            pass
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert b"close this page" in answer.read()
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), said + err.decode()


def secrets(bench):
    return {s["name"]: s for s in json.loads(bench.operator.cloister("secret", "list", "--json").ok())}


def token(bench):
    return json.loads(bench.tools("token", "FAR_AWAY_LOGIN").ok())


def test_a_login(bench, authority):
    status, out, err = log_in(bench)
    assert status == 0, err
    assert "secrets: [FAR_AWAY_TOKEN]" in out
    assert set(secrets(bench)) == {"FAR_AWAY_LOGIN", "FAR_AWAY_TOKEN"}
    assert not re.search(r"access-|refresh-", out + err)
    assert token(bench)["access_token"] == "access-1"
    assert authority.asked.count("/token") == 1


def test_it_is_renewed(bench, authority):
    """The authority rotates refresh tokens, so each new one is kept."""
    authority.life = 60
    assert log_in(bench)[0] == 0
    assert token(bench)["access_token"] == "access-2"
    assert token(bench)["access_token"] == "access-3"
    authority.refresh = "revoked"
    bench.tools("token", "FAR_AWAY_LOGIN").sentence("log in again")
    assert log_in(bench, "--yes")[0] == 0
    assert token(bench)["access_token"] == "access-5"


def test_a_login_that_is_there_is_replaced_only_if_a_person_says_so(bench, authority):
    assert log_in(bench)[0] == 0
    status, _, err = log_in(bench, visits=False)
    assert status == 125 and "the vault has FAR_AWAY_TOKEN already: --yes replaces it" in err, err
    assert token(bench)["access_token"] == "access-1" and authority.asked.count("/authorize") == 1
    assert at_terminal(bench, "n") == 125 and authority.asked.count("/authorize") == 1
    # A person's own secret by that name.
    bench.operator.cloister("secret", "remove", "FAR_AWAY_TOKEN").ok()
    bench.operator.cloister("secret", "add", "FAR_AWAY_TOKEN", "--host", "other.example", input="mine-0123456789abcdef").ok()
    assert log_in(bench, visits=False)[0] == 125
    assert "other.example" in str(secrets(bench)["FAR_AWAY_TOKEN"])
    assert log_in(bench, "--yes")[0] == 0
    assert "other.example" not in str(secrets(bench)["FAR_AWAY_TOKEN"])
    assert token(bench)["access_token"] == "access-2"


def at_terminal(bench, answer):
    """The status of a login at a terminal, where a person gives ANSWER to the question."""
    ours, theirs = pty.openpty()
    process = bench.operator.spawn(bench.operator.program, "tools", "login", "far-away", cwd=bench.folder, stdin=theirs,
                                   stdout=theirs, stderr=theirs)
    os.close(theirs)
    read_until(ours, b"Replace it? [y/N] ")
    os.write(ours, f"{answer}\n".encode())
    status = process.wait(timeout=60)
    os.close(ours)
    return status


def test_a_cell_gets_a_placeholder(bench, authority):
    assert log_in(bench)[0] == 0
    done = bench.operator.sh("echo $FAR_AWAY_TOKEN", "-q", "-s", "FAR_AWAY_TOKEN", "--allow", "api.example.com")
    assert done.status == 0 and "access-1" not in done.out and done.out.strip(), done


@pytest.mark.parametrize("does, why", [
    ({"resource": {"resource": "http://127.0.0.1:1/mcp"}}, "another resource"),
    ({"resource": {"authorization_servers": ["http://other.example.com/"]}}, "no valid authorization server"),
    ({"resource": {"authorization_servers": []}}, "no valid authorization server"),
    ({"issuer": {"issuer": "https://other.example.com"}}, "another issuer"),
    ({"issuer": {"code_challenge_methods_supported": ["plain"]}}, "PKCE"),
    ({"issuer": {"token_endpoint": "http://169.254.169.254/token"}}, "token_endpoint"),
    ({"issuer": {"authorization_endpoint": "javascript:alert(1)"}}, "authorization_endpoint"),
    ({"issuer": {"registration_endpoint": None}}, "--client-id"),
])
@as_one
def test_discovery_that_lies(bench, authority, does, why):
    authority.does = does
    status, out, err = log_in(bench, visits=False)
    assert status == 125 and why in err and out == "", err
    assert secrets(bench) == {}


@pytest.mark.parametrize("does, why", [
    ({"back": {"iss": "https://other.example.com"}}, None),
    ({"back": {"error": "access_denied"}}, "refused the login"),
    ({"token": {"token_type": "mac"}}, "no bearer token"),
    ({"token": {"access_token": "a\r\nb"}}, "no bearer token"),
])
@as_one
def test_answers_that_lie(bench, authority, does, why):
    authority.does = does
    if why is None:
        # Another server's answer is passed over, as one with a wrong state is: nobody is logged in.
        process = bench.operator.spawn(bench.operator.program, "tools", "login", "far-away", cwd=bench.folder,
                                       stderr=subprocess.PIPE)
        process.stderr.readline()
        urllib.request.urlopen(process.stderr.readline().decode().strip(), timeout=10).close()
        assert process.poll() is None and "/token" not in authority.asked
        process.terminate()
        process.wait()
        return
    status, _, err = log_in(bench)
    assert status == 125 and why in err, err
    assert secrets(bench) == {}


@as_one
def test_a_client_that_is_registered(bench, authority):
    assert log_in(bench, "--client-id", "client-1")[0] == 0
    assert "/register" not in authority.asked


@as_one
def test_what_is_no_remote_server(bench):
    bench.server("near", "plain")
    bench.tools("login", "near").sentence("no remote server")
    bench.tools("login").sentence("cloister tools login SERVER")
    assert bench.tools("token", "NOSUCH_LOGIN").status == 125
