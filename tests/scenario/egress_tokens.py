#!/usr/bin/python3
"""A server that issues tokens, and checks them: egress_tokens.py FOLDER ADDRESS PORT

OAuth2, STS, installation tokens of a GitHub App, a registry's, and an interface that wants one of
them.  FOLDER/tokens.json has the valid credentials.  The server records issued tokens in
FOLDER/issued.jsonl, and accepted requests in FOLDER/seen.jsonl.  botocore computes signatures.
"""
import base64
import contextlib
import gzip
import hashlib
import http.server
import json
import re
import secrets
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

FOLDER = Path(sys.argv[1])
LOCK = threading.Condition()
GIVEN = {}                              # tokens that are good, and until when
KEYS = {}                               # key ids and what belongs to them


def note(name, **what):
    with LOCK, open(FOLDER / name, "a") as log:
        log.write(json.dumps(what) + "\n")
        LOCK.notify_all()


def jwt():
    parts = [{"alg": "ES256", "kid": "x"}, {"iss": "server", "sub": secrets.token_hex(8)}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, secrets.token_urlsafe(64)])


def registry_token(query):
    """One that docker-registry takes: signed with the key that its configuration names."""
    def coded(data):
        return base64.urlsafe_b64encode(data).decode().rstrip("=")
    certificate = (FOLDER / "registry.crt").read_text().split("-----")[2].replace("\n", "")
    now, (kind, name, actions) = int(time.time()), query["scope"].split(":")
    claims = {"iss": "tests", "sub": "me", "aud": query["service"], "exp": now + 300, "nbf": now - 10,
              "iat": now, "jti": secrets.token_hex(8),
              "access": [{"type": kind, "name": name, "actions": actions.split(",")}]}
    head = {"alg": "RS256", "typ": "JWT", "x5c": [certificate]}
    text = ".".join(coded(json.dumps(part).encode()) for part in (head, claims))
    done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(FOLDER / "registry.key")], check=True,
                          input=text.encode(), capture_output=True)
    token = f"{text}.{coded(done.stdout)}"
    note("issued.jsonl", kind="registry", token=token)
    return token


def give(kind, life=3600):
    token = {"access": lambda: "ya29.a0" + secrets.token_urlsafe(60), "jwt": jwt,
             "refresh": lambda: "1//0" + secrets.token_urlsafe(40),
             "app": lambda: "ghs_" + secrets.token_hex(18),
             "password": lambda: base64.b64encode(secrets.token_bytes(600)).decode()}[kind]()
    GIVEN[token] = time.time() + life
    note("issued.jsonl", kind=kind, token=token)
    return token


def new_key():
    key = {"id": "ASIA" + base64.b32encode(secrets.token_bytes(10)).decode(),
           "secret": base64.b64encode(secrets.token_bytes(30)).decode(),
           "token": base64.b64encode(secrets.token_bytes(300)).decode()}
    KEYS[key["id"]] = key
    note("issued.jsonl", kind="key", **key)
    return key


def wrong_signature(handler, body):
    """The fault of the signature, or None."""
    from botocore.auth import S3SigV4Auth, SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    given = handler.headers.get("authorization", "")
    if not given.startswith("AWS4-HMAC-SHA256 "):
        return "no signature"
    parts = dict(part.strip().split("=", 1) for part in given.split(" ", 1)[1].split(","))
    key_id, _, region, service, _ = parts["Credential"].split("/")
    conf = json.loads((FOLDER / "tokens.json").read_text())
    key = KEYS.get(key_id) or {**conf.get("keys", {}), "": None}.get(key_id)
    if key is None:
        return "unknown key"
    if key.get("token") and key["token"] not in (handler.headers.get("x-amz-security-token"),
                                                 handler.headers.get("x-amz-s3session-token")):
        return "wrong session token"
    request = AWSRequest(method=handler.command, data=body,
                         url=f"https://{handler.headers['host']}{handler.path}")
    for name in parts["SignedHeaders"].split(";"):
        request.headers[name] = handler.headers[name]
    request.context["timestamp"] = handler.headers["x-amz-date"]
    kind = S3SigV4Auth if service.startswith("s3") else SigV4Auth
    auth = kind(Credentials(key_id, key["secret"]), service, region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return None if auth.signature(text, request) == parts["Signature"] else "wrong signature"


def as_some_do(path):
    """Rails, Tomcat and IIS take a path in more spellings than one; others strip it."""
    path = re.sub(r"#.*|[^!-~]", "", unquote(path, "latin-1"))
    path = re.sub("//+", "/", re.sub(";[^/]*", "", path).lower())
    return re.sub(r"\.json$", "", path.rstrip("/")) or "/"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, data, kind="application/json", **fields):
        data = data if isinstance(data, bytes) else data.encode()
        self.send_response(status)
        if self.query.get("pack"):
            data = gzip.compress(data)
            fields["content_encoding"] = "gzip"
        for key, value in {"content-type": kind, "content-length": str(len(data)), **fields}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def basic(self):
        given = self.headers.get("authorization", "")
        return base64.b64decode(given[6:]).decode() if given.startswith("Basic ") else ":"

    def handle_one(self):
        url = urlsplit(self.path)
        self.query = {k: v[-1] for k, v in parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.form = {k: v[-1] for k, v in parse_qs(body.decode("latin-1")).items()}
        self.conf = json.loads((FOLDER / "tokens.json").read_text())
        note("seen.jsonl", server="tokens", method=self.command, target=self.path,
             host=self.headers["host"], fields=[[k.lower(), v] for k, v in self.headers.items()],
             body=body.decode("latin-1"))
        paths = {"/oauth2/token": self.oauth2, "/realm/token": self.oauth2, "/device/code": self.device, "/api": self.api,
                 "/": self.sts, "/token": self.registry, "/session": self.echo_session,
                 "/upgrade": self.upgrade, "/v2": self.ecr}
        if url.path.startswith("/app/installations/"):
            return self.app()
        if url.path.startswith("/signed"):
            return self.signed(body)
        self.body = body
        path = as_some_do(self.headers.get("x-rewrite-url", url.path))
        return paths.get(path, lambda: self.say(404, "{}"))()

    do_GET = do_POST = do_PUT = do_HEAD = handle_one

    # ---- OAuth2 ----
    def oauth2(self):
        grant = self.form.get("grant_type")
        password = self.basic().split(":", 1)[1] or self.form.get("client_secret")
        life = int(self.query.get("life", 3600))
        told = {"token_type": "Bearer", "expires_in": life, "scope": "all"}
        if "big" in self.query:
            return self.say(200, json.dumps({"access_token": give("access"), "more": "x" * 300000}))
        if "proto" in self.query:
            return self.say(200, b"\n" + give("access").encode(), "application/x-protobuf")
        if "nonsense" in self.query:
            return self.say(200, '{"access_token": "' + give("access") + '", ')
        if "twice" in self.query:
            token = give("access")
            return self.say(200, json.dumps({"access_token": token, "link": f"https://x/?t={token}"}),
                            x_told=token)
        if grant == "client_credentials" and password == self.conf["client_secret"]:
            kind = self.query.get("kind", "access")
            token = give(kind, life)
            return self.say(200, json.dumps({**told, "access_token": token}), x_told=token)
        if grant == "urn:ietf:params:oauth:grant-type:device_code" and \
                self.form.get("device_code") == self.conf["device_code"]:
            return self.say(200, json.dumps({**told, "access_token": give("access", life),
                                             "refresh_token": give("refresh")}))
        old = self.form.get("refresh_token")
        if grant == "refresh_token" and (old == self.conf["refresh_token"] or GIVEN.pop(old, 0)):
            return self.say(200, json.dumps({**told, "access_token": give("access", life),
                                             "refresh_token": give("refresh")}))
        return self.say(400, json.dumps({"error": "invalid_grant"}))

    def device(self):
        self.say(200, json.dumps({"device_code": self.conf["device_code"], "user_code": "ABCD",
                                  "verification_uri": "https://up.example.test/", "interval": 1}))

    def api(self):
        token = self.headers.get("authorization", " ").split(" ", 1)[1]
        if GIVEN.get(token, 0) < time.time():
            return self.say(401, json.dumps({"error": "invalid_token"}))
        return self.say(200, json.dumps({"ok": True, "token": token}), x_token=token)

    # ---- others ----
    def app(self):
        if self.headers.get("authorization") != f"Bearer {self.conf['app']}":
            return self.say(401, "{}")
        return self.say(201, json.dumps({"token": give("app"), "expires_at": self.query.get(
            "ends", "2099-01-01T00:00:00Z"), "permissions": {"contents": "read"}}))

    def registry(self):
        if self.basic() != f"me:{self.conf['password']}":
            return self.say(401, "{}")
        token = registry_token(self.query) if "repository" in self.query.get("scope", "") else give("jwt")
        return self.say(200, json.dumps({"token": token, "access_token": token, "expires_in": 300}))

    def sts(self):
        wrong = wrong_signature(self, self.body)
        if wrong:
            return self.say(403, f"<ErrorResponse><Error><Code>{wrong}</Code></Error></ErrorResponse>",
                            "text/xml")
        if "GetAuthorizationToken" in self.headers.get("x-amz-target", ""):
            token = "AWS:" + give("password")
            return self.say(200, json.dumps({"authorizationData": [{
                "authorizationToken": base64.b64encode(token.encode()).decode(), "expiresAt": 4070908800.5,
                "proxyEndpoint": f"https://{self.headers['host']}"}]}), "application/x-amz-json-1.1")
        key, ends = new_key(), self.query.get("ends") or self.conf.get("ends", "2099-01-01T00:00:00Z")
        if "session" in self.path:
            return self.say(200, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<CreateSessionResult>"
                            f"<Credentials><SessionToken>{key['token']}</SessionToken><SecretAccessKey>"
                            f"{key['secret']}</SecretAccessKey><AccessKeyId>{key['id']}</AccessKeyId>"
                            f"<Expiration>{ends}</Expiration></Credentials></CreateSessionResult>",
                            "application/xml")
        if "json" in self.headers.get("accept", ""):
            return self.say(200, json.dumps({"AssumeRoleResponse": {"AssumeRoleResult": {"Credentials": {
                "AccessKeyId": key["id"], "SecretAccessKey": key["secret"], "SessionToken": key["token"],
                "Expiration": 4070908800}}}}))
        return self.say(200, f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleResult><AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/r/s</Arn>
  <AssumedRoleId>AROA1:s</AssumedRoleId></AssumedRoleUser><Credentials>
  <AccessKeyId>{key['id']}</AccessKeyId><SecretAccessKey>{key['secret']}</SecretAccessKey>
  <SessionToken>{key['token']}</SessionToken><Expiration>{ends}</Expiration>
  </Credentials></AssumeRoleResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>
</AssumeRoleResponse>""", "text/xml")

    def ecr(self):
        user, _, password = self.basic().partition(":")
        if user != "AWS" or GIVEN.get(password, 0) < time.time():
            return self.say(401, "{}")
        return self.say(200, json.dumps({"password": password}))

    def upgrade(self):
        """Answers when a second token is given out, so that the first one has come; tells the last
        one when it is asked, twice."""
        n = len(GIVEN) + 1
        self.send_response_only(103)
        self.end_headers()
        with LOCK:
            LOCK.wait_for(lambda: len(GIVEN) > n, 60)
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("upgrade", "websocket")
        self.send_header("connection", "upgrade")
        self.send_header("sec-websocket-accept",
                         base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        for _ in range(2):
            self.rfile.read(6)          # an empty frame
            token = list(GIVEN)[-1].encode()
            self.wfile.write(bytes([0x81, len(token)]) + token)
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.unwrap()    # an end, not a cut

    def echo_session(self):
        self.say(200, json.dumps(dict(self.headers.items())))

    def signed(self, body):
        wrong = wrong_signature(self, body)
        return self.say(403 if wrong else 200, json.dumps({"wrong": wrong, "told": dict(
            self.headers.items())}))


if __name__ == "__main__":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "keys/good.crt", FOLDER / "keys/good.key")
    server = http.server.ThreadingHTTPServer((sys.argv[2], int(sys.argv[3])), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()
