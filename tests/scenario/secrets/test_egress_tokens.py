"""Tokens that come back stay outside: the cell gets placeholders that work where they may, and
nowhere else."""
import base64
import gzip
import hashlib
import json
import subprocess

import pytest

import leftovers
from egress_lab import CURL, HERE, helpers_of, needs, needs_python
from egress_world import UP
from operators import IS_STATIC, read_until, wait_until
from test_egress_secrets import canary, fetch, has

PORT = 8443
AUTH, API = f"https://up.example.test:{PORT}", f"https://up2.example.test:{PORT}"
OPEN = f"  - allow: '*.example.test'\n    ports: [443, {PORT}]\n"
BASIC = "in: [basic-password, body]"


class Tokens:
    """The server of tokens, and what it gave out."""

    def __init__(self, lab):
        self.folder = lab.folder
        self.right = {"client_secret": canary(), "refresh_token": "1//0" + canary(), "app": canary(),
                      "device_code": "device-" + canary(), "password": canary(),
                      "keys": {"AKIA" + "A" * 16: {"secret": canary()[:40]}}}
        self.save()
        self.process = subprocess.Popen(
            [*lab.enter, "/usr/bin/python3", "-B", str(HERE / "egress_tokens.py"), str(lab.folder), UP,
             str(PORT)], stdout=subprocess.PIPE)
        leftovers.LABS.append(self.process.pid)
        read_until(self.process.stdout.fileno(), b"ready\n")

    def save(self):
        (self.folder / "tokens.json").write_text(json.dumps(self.right))

    def issued(self, kind=None):
        """Real values, the latest last."""
        path = self.folder / "issued.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [one for one in map(json.loads, lines) if kind in (None, one["kind"])]

    def values(self):
        return [value for one in self.issued() for key, value in one.items() if key != "kind"]


@pytest.fixture(scope="module")
def server(lab):
    tokens = Tokens(lab)
    yield tokens
    tokens.process.kill()
    tokens.process.wait()
    tokens.process.stdout.close()


def define(online, value, rest, name="KEY"):
    """A secret that goes to the server of tokens; REST of its definition."""
    file = online.operator.file("secrets.yaml", "version: 1\nsecrets:\n  %s: {hosts: ['up.example.test:%d'], "
                                "env: KEY, %s}\n" % (name, PORT, rest))
    online.operator.cloister("secret", "add", name, "-f", file, input=value).ok()


OAUTH2 = BASIC + ", captures: {kind: oauth2, for: {hosts: ['up2.example.test:%d'], " \
         "in: ['header:authorization'], shape: 'ya29.{u40+}'}}" % PORT
GET_TOKEN = fetch("-d grant_type=client_credentials", '-u "me:$KEY"')


def clean(server, *texts):
    """Nothing that was given out is in TEXTS."""
    for value in server.values():
        for text in texts:
            assert value not in text


def test_oauth2_client_credentials(online, server):
    define(online, server.right["client_secret"], OAUTH2)
    script = f"""{GET_TOKEN} -D head {AUTH}/oauth2/token >told; cat head told; echo
TOKEN=$(sed 's/.*"access_token": *"\\([^"]*\\)".*/\\1/' told); echo $TOKEN
{fetch('-i -H "Authorization: Bearer $TOKEN"')} {API}/api; echo
{fetch('-H "Authorization: Bearer $TOKEN"')} https://www.example.test/hello
{fetch('-H "Authorization: Bearer $TOKEN"')} {AUTH}/api; echo"""
    done = online.sh(OPEN, script, options=("-s", "KEY"))
    real = server.issued("access")[-1]["token"]
    lines = done.out.splitlines()
    token = next(line for line in lines if line.startswith("ya29"))
    # The agent's view: a token of the same looks, also where the server told it apart.
    assert len(token) == len(real) and token != real
    assert f"x-told: {token}" in lines
    assert any(line.startswith("{") and json.loads(line).get("token") == token for line in lines)
    assert f"x-token: {token}" in lines
    clean(server, done.out, done.err)
    # The server's view: it got what it had given.
    assert online.lab.seen(f"Bearer {real}") and not online.lab.seen(token)
    refused = [json.loads(line) for line in lines if "refused by cloister" in line]
    assert len(refused) == 2 and all("may not go" in one["reason"] for one in refused)
    assert [e["why"] for e in online.events(verdict="deny")] == ["exfiltration"] * 2
    for event in online.events():
        clean(server, json.dumps(event))


@pytest.mark.parametrize("how", ["twice", "nonsense", "big", "proto"])
def test_unreadable_responses_are_not_forwarded(online, server, how):
    define(online, server.right["client_secret"], OAUTH2)
    done = online.sh(OPEN, f"{GET_TOKEN} -i '{AUTH}/oauth2/token?{how}=1'", options=("-s", "KEY"))
    told = json.loads(done.out.splitlines()[-1])
    assert "cannot be passed on: tokens of the secret 'KEY' may be in it" in told["reason"]
    assert " 502 " in done.out.splitlines()[0]
    clean(server, done.out, done.err)


@pytest.mark.parametrize("path", ["/oauth2/token/", "//oauth2//token", "/OAuth2/TOKEN", "/oauth2/token.json",
                                  "/oauth2;a=b/token;c", "/oauth2/%54oken%2ejson/"])
def test_however_the_endpoint_is_spelled(online, server, path):
    define(online, server.right["client_secret"], OAUTH2)
    before = len(server.issued("access"))
    done = online.sh(OPEN, f"{GET_TOKEN} --path-as-is '{AUTH}{path}'", options=("-s", "KEY"))
    assert json.loads(done.out)["access_token"].startswith("ya29.")
    assert len(server.issued("access")) == before + 1
    clean(server, done.out)


@pytest.mark.parametrize("path", ["/Realm/Token", "/realm/token", "/Realm/Token/", "/REALM/TOKEN.json",
                                  "/Realm/Token%0a", "/Realm/%09Token%20%ff", "/Realm/Token%23x",
                                  "/Realm/Token" + "%20" * 3000])
def test_an_endpoint_with_capital_letters(online, server, path):
    """Also with characters in it that servers overlook: nginx takes "$" for the place before a last newline."""
    define(online, server.right["client_secret"],
           OAUTH2.replace("kind: oauth2", "kind: oauth2, at: {paths: [/Realm/Token]}"))
    before = len(server.issued("access"))
    done = online.sh(OPEN, f"{GET_TOKEN} --path-as-is '{AUTH}{path}'", options=("-s", "KEY"))
    assert json.loads(done.out)["access_token"].startswith("ya29.")
    assert len(server.issued("access")) == before + 1
    clean(server, done.out)


@pytest.mark.parametrize("path, field", [
    ("/oauth2/token", "X-Original-URL: /x"), ("/x", "X-Rewrite-URL: /oauth2/token"),
    ("/oauth2/token", "X-HTTP-Method-Override: GET"), ("/oauth2/token", "Range: bytes=0-9")])
def test_other_members_of_the_request(online, server, path, field):
    define(online, server.right["client_secret"], OAUTH2)
    before = len(server.issued("access"))
    done = online.sh(OPEN, f"{GET_TOKEN} -H '{field}' '{AUTH}{path}'", options=("-s", "KEY"))
    assert json.loads(done.out)["access_token"].startswith("ya29.")
    assert len(server.issued("access")) == before + 1
    clean(server, done.out)


def test_other_answers_of_the_endpoint(online, server):
    """An error, or a response without a token, is forwarded unchanged."""
    define(online, server.right["client_secret"], OAUTH2)
    done = online.sh(OPEN, fetch("-d grant_type=none", f"-w '%{{http_code}}' {AUTH}/oauth2/token"),
                     options=("-s", "KEY"))
    assert done.out == '{"error": "invalid_grant"}400'


def test_a_packed_answer_with_a_token(online, server):
    define(online, server.right["client_secret"], OAUTH2)
    done = online.sh(OPEN, f"{GET_TOKEN} -i --http1.1 '{AUTH}/oauth2/token?pack=1'", options=("-s", "KEY"))
    assert "content-encoding" not in done.out and "ya29." in done.out
    clean(server, done.out)


def test_a_token_that_has_ended(online, server):
    define(online, server.right["client_secret"], OAUTH2)
    script = f"""TOKEN=$({GET_TOKEN} '{AUTH}/oauth2/token?life=0' | sed 's/.*"access_token": *"\\([^"]*\\)".*/\\1/')
{fetch('-w "%{http_code}" -H "Authorization: Bearer $TOKEN"')} {API}/api?ended"""
    done = online.sh(OPEN, script, options=("-s", "KEY"))
    assert "the token that was given for the secret 'KEY' has ended" in done.out
    assert done.out.endswith("401")
    assert online.refusal()["why"] == "expired"
    assert not online.lab.seen("/api?ended")


LATE = """
import base64, json, os, socket, ssl, sys
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
auth, api = map(urlsplit, sys.argv[1:])
def new_token():
    basic = base64.b64encode(("me:" + os.environ["KEY"]).encode()).decode()
    with urlopen(Request(auth.geturl() + "/oauth2/token", b"grant_type=client_credentials",
                         {"authorization": "Basic " + basic})) as answer:
        return json.load(answer)["access_token"]
peer = ssl.create_default_context().wrap_socket(socket.create_connection((auth.hostname, auth.port)),
                                                server_hostname=auth.hostname)
peer.sendall(f"GET /upgrade HTTP/1.1\\r\\nHost: {auth.netloc}\\r\\nConnection: upgrade\\r\\nUpgrade: websocket\\r\\n"
             "Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n".encode())
def read_head():
    told = b""
    while b"\\r\\n\\r\\n" not in told:
        told += peer.recv(1)
    return told.split()[1].decode()
print(read_head())
new_token()
new_token()
print(read_head())
messages = peer.makefile("rb")
for _ in range(2):
    token = new_token()
    peer.sendall(b"\\x89\\x80mask")
    print(messages.read(messages.read(2)[1]).decode() == token)
print(messages.read())
with urlopen(Request(api.geturl() + "/api", headers={"authorization": "Bearer " + token})) as answer:
    print(json.load(answer)["token"] == token)
"""


def test_tokens_that_come_while_an_upgrade_waits(online, server):
    """Its answer goes by what is known then, and so does each of its messages."""
    define(online, server.right["client_secret"], OAUTH2)
    rule = f"  - allow: '*.example.test'\n    ports: [443, {PORT}]\n    websocket: true\n"
    done = online.python(rule, LATE, AUTH, API, options=("-s", "KEY"))
    assert done.ok().split() == ["103", "101", "True", "True", "b''", "True"]
    clean(server, done.out, done.err)


DEVICE = """
import json, os, sys, urllib.parse, urllib.request
def post(url, **form):
    with urllib.request.urlopen(url, urllib.parse.urlencode(form).encode()) as answer:
        return json.load(answer)
auth = sys.argv[1]
code = post(auth + "/device/code", client_id="me")["device_code"]
told = post(auth + "/oauth2/token", client_id="me", device_code=code,
            grant_type="urn:ietf:params:oauth:grant-type:device_code")
print(json.dumps(told))
for _ in range(3):
    told = post(auth + "/oauth2/token", grant_type="refresh_token", refresh_token=told["refresh_token"])
    print(json.dumps(told))
"""


def test_oauth2_device_code_and_rotation(online, server):
    """No secret is sent at all, and what comes back is captured; each refresh token serves once."""
    define(online, server.right["client_secret"], OAUTH2)
    done = online.python(OPEN, DEVICE, AUTH, options=("-s", "KEY"))
    told = [json.loads(line) for line in done.ok().splitlines()]
    assert len({one["refresh_token"] for one in told}) == 4
    clean(server, done.out, done.err)
    real = [one["token"] for one in server.issued("refresh")]
    for one in told:
        assert one["refresh_token"] not in real and not online.lab.seen(one["refresh_token"])


OAUTHLIB = """
import os, sys
from requests_oauthlib import OAuth2Session
auth, api = sys.argv[1:]
told = []
session = OAuth2Session("me", token={"access_token": "old", "refresh_token": os.environ["KEY"],
                                     "token_type": "Bearer", "expires_in": -30},
                        auto_refresh_url=auth + "/oauth2/token", token_updater=told.append)
print(session.get(api + "/api").json()["ok"], told[-1]["access_token"], told[-1]["refresh_token"])
session.token = {**told[-1], "expires_at": 1}
print(session.get(api + "/api").json()["ok"], told[-1]["access_token"], told[-1]["refresh_token"])
"""
GOOGLE = """
import os, sys
import google.oauth2.credentials
from google.auth.transport.requests import AuthorizedSession
auth, api = sys.argv[1:]
given = google.oauth2.credentials.Credentials(None, refresh_token=os.environ["KEY"], client_id="me",
                                              client_secret="no secret", token_uri=auth + "/oauth2/token")
print(AuthorizedSession(given).get(api + "/api").json()["ok"], given.token, given.refresh_token)
"""


@pytest.mark.parametrize("script", [
    pytest.param(OAUTHLIB, marks=needs_python("requests_oauthlib"), id="requests-oauthlib"),
    pytest.param(GOOGLE, marks=needs_python("google.oauth2.credentials", "requests"), id="google-auth"),
])
def test_a_refresh_token_of_the_operators(online, server, script):
    define(online, server.right["refresh_token"], OAUTH2)
    done = online.python(OPEN, script, AUTH, API, options=("-s", "KEY"))
    for line in done.ok().splitlines():
        ok, access, refresh = line.split()
        assert ok == "True" and not online.lab.seen(access) and not online.lab.seen(refresh)
    assert online.lab.seen("Bearer " + server.issued("access")[-1]["token"])
    clean(server, done.out, done.err)


MANY = """
import json, os, sys, urllib.parse, urllib.request
auth, api = sys.argv[1:]
password = urllib.request.HTTPPasswordMgrWithPriorAuth()
password.add_password(None, auth, "me", os.environ["KEY"], is_authenticated=True)
opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(password))
def get():
    with opener.open(auth + "/oauth2/token", b"grant_type=client_credentials") as answer:
        return json.load(answer)["access_token"]
def use(token):
    with urllib.request.urlopen(urllib.request.Request(api + "/api", headers={"Authorization": f"Bearer {token}"})) as answer:
        return json.load(answer)["token"] == token
tokens = [get() for _ in range(66)]
print(*[use(token) for token in (tokens[0], tokens[-1])])
"""


def test_none_that_is_good_is_forgotten(online, server):
    define(online, server.right["client_secret"], OAUTH2)
    done = online.python(OPEN, MANY, AUTH, API, options=("-s", "KEY"))
    assert done.ok() == "True True\n"
    clean(server, done.out, done.err)


@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
def test_tokens_are_in_no_process_but_the_courier(online, server):
    define(online, server.right["client_secret"], OAUTH2)
    before = len(server.issued("access"))
    online.start(OPEN, "sh", "-c", f"{GET_TOKEN} {AUTH}/oauth2/token >told; exec sleep 1000", options=("-s", "KEY"))
    wait_until(lambda: online.inside("sh", "-c", "test -s told").status == 0, "a token has come")
    real = server.issued("access")[before]["token"].encode()
    holders = set()
    for pid in online.operator.pids(online.cell):
        try:
            holders |= {pid} if has(pid, real) else set()
        except OSError:
            pytest.skip("only root may look into processes")
    assert holders == {helpers_of(online.operator, online.cell)["courier"]}


# ---- others ------------------------------------------------------------------------------

APP = ("in: ['header:authorization'], captures: {kind: github-app, for: {hosts: ['up2.example.test:%d'], "
       "in: [basic-password, 'header:authorization'], shape: ['ghs_{w30}{crc62}', 'ghs_{w36}']}}" % PORT)


def test_an_installation_token(online, server):
    define(online, server.right["app"], APP)
    script = f"""TOKEN=$({fetch('-X POST -H "Authorization: Bearer $KEY"')} '{AUTH}/app/installations/7/access_tokens' |
sed 's/.*"token": *"\\([^"]*\\)".*/\\1/'); echo $TOKEN
{fetch('-H "Authorization: token $TOKEN"')} {API}/api; echo
TOKEN=$({fetch('-X POST -H "Authorization: Bearer $KEY"')} '{AUTH}/app/installations/7/access_tokens?ends=2020-01-01T00:00:00Z' |
sed 's/.*"token": *"\\([^"]*\\)".*/\\1/')
{fetch('-H "Authorization: token $TOKEN"')} {API}/api
{fetch('-H "X-Other: $TOKEN"')} https://www.example.test/hello"""
    done = online.sh(OPEN, script, options=("-s", "KEY"))
    token, told, ended, elsewhere = done.out.splitlines()
    assert token.startswith("ghs_") and len(token) == 40 and json.loads(told)["token"] == token
    assert online.lab.seen("token " + server.issued("app")[-2]["token"])
    assert "has ended" in json.loads(ended)["reason"]
    assert "may not go" in json.loads(elsewhere)["reason"]
    clean(server, done.out, done.err)


REGISTRY = "in: [basic-password], captures: {kind: registry, for: {hosts: ['up2.example.test:%d']}}" % PORT


def test_a_registry_s_token(online, server):
    """It comes under two names, and is a JWT."""
    define(online, server.right["password"], REGISTRY)
    script = f"""TOLD=$({fetch('-u "me:$KEY"')} '{AUTH}/token?service=x&scope=y'); echo "$TOLD"
TOKEN=$(echo "$TOLD" | sed 's/.*"access_token": *"\\([^"]*\\)".*/\\1/')
{fetch('-H "Authorization: Bearer $TOKEN"')} {API}/api"""
    done = online.sh(OPEN, script, options=("-s", "KEY"))
    told, used = map(json.loads, done.out.splitlines())
    # What is scrubbed keeps its length.
    assert told["token"] == told["access_token"] and told["token"].startswith(used["token"])
    assert told["token"].startswith("eyJ") and told["token"].count(".") == 2
    head = told["token"].split(".")[0]
    assert json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))["alg"] == "ES256"
    assert online.lab.seen("Bearer " + server.issued("jwt")[-1]["token"])
    clean(server, done.out, done.err)


REGISTRY_PORT = 5443
REGISTRY_CONF = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: '{address}:{port}', tls: {{certificate: {folder}/keys/good.crt, key: {folder}/keys/good.key}}}}
auth:
  token: {{realm: '{realm}', service: images, issuer: tests, rootcertbundle: {folder}/registry.crt}}
log: {{level: error}}
"""


@pytest.fixture
def images(lab, server):
    """Debian's registry, which wants a token of the server's."""
    folder = lab.folder
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=tests", "-days", "9",
                    "-keyout", folder / "registry.key", "-out", folder / "registry.crt"], check=True,
                   capture_output=True)
    (folder / "registry.yml").write_text(REGISTRY_CONF.format(folder=folder, address=UP, port=REGISTRY_PORT,
                                                              realm=f"{AUTH}/token"))
    process = subprocess.Popen([*lab.enter, "docker-registry", "serve", str(folder / "registry.yml")],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    leftovers.LABS.append(process.pid)
    yield folder
    process.kill()
    process.wait()


def image():
    """The smallest image that skopeo copies, as files."""
    blobs = [json.dumps({"architecture": "arm64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [
        "sha256:" + hashlib.sha256(bytes(1024)).hexdigest()]}}).encode(), gzip.compress(bytes(1024), mtime=0)]
    config, layer = ({"mediaType": f"application/vnd.docker.{kind}", "size": len(blob), "digest":
                      "sha256:" + hashlib.sha256(blob).hexdigest()} for kind, blob in zip(
                          ("container.image.v1+json", "image.rootfs.diff.tar.gzip"), blobs))
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                "config": config, "layers": [layer]}
    files = {hashlib.sha256(blob).hexdigest(): blob for blob in blobs}
    return {**files, "manifest.json": json.dumps(manifest), "version": "Directory Transport Version: 1.1\n"}


@needs("skopeo", "docker-registry", "openssl")
def test_skopeo_and_docker_registry(online, server, images):
    """The registry says where tokens are had; what it then gets is one, and it checks that."""
    define(online, server.right["password"], "in: [basic-password], captures: {kind: registry, for: {hosts: ["
           "'up2.example.test:%d'], in: ['header:authorization']}}" % REGISTRY_PORT)
    folder = online.operator.folder("image", image())
    rules = OPEN.replace("[443,", f"[{REGISTRY_PORT}, 443,") + "    secrets: allow\n"
    place = f"docker://up2.example.test:{REGISTRY_PORT}/some/thing:1"
    wait_until(lambda: online.outside(*CURL, f"https://up2.example.test:{REGISTRY_PORT}/v2/").status == 0,
               "the registry is there")
    done = online.sh(rules, f"""cd /tmp; skopeo --insecure-policy copy --dest-creds "me:$KEY" dir:/image {place}
skopeo inspect --creds "me:$KEY" {place}""", options=("-s", "KEY", "-v", f"{folder}:/image:ro"))
    assert json.loads(done.ok()[done.out.index("{"):])["Os"] == "linux", done
    assert (images / "images/docker/registry/v2/repositories/some/thing").is_dir()
    assert server.issued("registry")
    clean(server, done.out, done.err)


# ---- AWS ---------------------------------------------------------------------------------

def define_aws(online, server, ends="2099-01-01T00:00:00Z", captures=""):
    """A key, and when the sets end that are given for it."""
    server.right["ends"] = ends
    server.save()
    key, = server.right["keys"].items()
    file = online.operator.file("secrets.yaml", "version: 1\nsecrets:\n  AWS: {like: aws, hosts: ["
                                f"'up.example.test:{PORT}', 'up2.example.test:{PORT}']{captures}}}\n")
    online.operator.cloister("secret", "add", "AWS", "-f", file, input=f"{key[0]}\n{key[1]['secret']}\n").ok()


ASSUME = f"""
export AWS_DEFAULT_REGION=eu-west-1 HOME=/home/agent
aws --endpoint-url {AUTH} sts assume-role --role-arn arn:aws:iam::1:role/r --role-session-name some --output json >told
cat told
pick() {{ sed -n 's/.*"'$1'": "\\([^"]*\\)".*/\\1/p' told; }}
AWS_ACCESS_KEY_ID=$(pick AccessKeyId) AWS_SECRET_ACCESS_KEY=$(pick SecretAccessKey) AWS_SESSION_TOKEN=$(pick SessionToken)
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
"""


@needs("aws")
@needs_python("botocore")
def test_sts_with_the_aws_command(online, server):
    """Requests signed with the returned set are signed again with the real one."""
    define_aws(online, server)
    done = online.sh(OPEN, ASSUME + f"""aws --endpoint-url {API} s3api get-object --bucket b --key signed out; cat out
{fetch("--aws-sigv4 aws:amz:eu-west-1:execute-api", '-u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"',
       '-H "x-amz-security-token: $AWS_SESSION_TOKEN"')} {API}/signed/by/curl; echo
{fetch("--aws-sigv4 aws:amz:eu-west-1:execute-api", '-u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"',
       '-H "x-amz-security-token: $AWS_SESSION_TOKEN"')} https://www.example.test/hello""", options=("-s", "AWS"))
    real = server.issued("key")[-1]
    told = json.loads(done.out[:done.out.index("\n}") + 2])["Credentials"]
    for field, kind in (("AccessKeyId", "id"), ("SecretAccessKey", "secret"), ("SessionToken", "token")):
        assert len(told[field]) == len(real[kind]) and told[field] != real[kind]
    assert told["AccessKeyId"].startswith("ASIA")
    curl = json.loads(done.out.splitlines()[-2])
    assert curl["wrong"] is None and curl["told"]["x-amz-security-token"] == told["SessionToken"]
    assert "refused by cloister" in done.out.splitlines()[-1]
    assert online.lab.seen(f"Credential={real['id']}/")
    clean(server, done.out, done.err)
    assert online.events(verdict="deny")[-1]["why"] == "exfiltration"


@needs("aws")
@needs_python("botocore")
def test_a_password_of_ecr(online, server):
    """As the aws command takes it apart; also where the request looks like another kind's."""
    define_aws(online, server, captures=", captures: [sts, s3-session, {kind: ecr, for: {hosts: "
               f"['up2.example.test:{PORT}'], in: [basic-password]}}}}]")
    done = online.sh(OPEN, f"""
export AWS_DEFAULT_REGION=eu-west-1 HOME=/home/agent
PASSWORD=$(aws --endpoint-url {AUTH} ecr get-login-password); echo "$PASSWORD"
{fetch('-u "AWS:$PASSWORD"')} {API}/v2/; echo
{fetch('-u "AWS:$PASSWORD"')} https://www.example.test/hello; echo
{fetch("--aws-sigv4 aws:amz:eu-west-1:ecr", '-u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"', "-d {}",
       '-H "x-amz-target: X.GetAuthorizationToken"')} '{AUTH}/?session=1'""", options=("-s", "AWS"))
    password, told, elsewhere, data = filter(None, done.ok().splitlines())
    assert json.loads(told) == {"password": password}
    assert "'www.example.test' is not among its hosts" in json.loads(elsewhere)["reason"]
    assert base64.b64decode(json.loads(data)["authorizationData"][0]["authorizationToken"]).startswith(b"AWS:")
    clean(server, done.out, done.err)
    for one in server.issued("password"):
        assert base64.b64encode(f"AWS:{one['token']}".encode()).decode() not in done.out


BOTO = """
import json, sys
import boto3
auth, api, accept = sys.argv[1:]
import urllib.request
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.session import Session
def ask(credentials, url, body, service, **fields):
    request = AWSRequest("POST", url, data=body, headers={"content-type": "application/x-www-form-urlencoded", **fields})
    SigV4Auth(credentials, service, "eu-west-1").add_auth(request)
    try:
        return urllib.request.urlopen(urllib.request.Request(url, body, dict(request.headers))).read().decode()
    except urllib.error.HTTPError as e:
        return json.dumps({"status": e.code, "reason": e.read().decode()})
told = ask(Session().get_credentials(), auth + "/", b"Action=AssumeRole", "sts", Accept=accept)
import re
from botocore.credentials import Credentials
words = [re.search(f'{name}(?:>|": ?")([^<"]*)', told)[1] for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
print(ask(Credentials(*words), api + "/signed", b"", "execute-api"))
print(json.dumps(words))
"""


@needs_python("boto3")
@pytest.mark.parametrize("accept", ["application/json", "text/xml", "text/xml, ended"])
def test_sts_in_json_and_xml(online, server, accept):
    ended = "ended" in accept
    define_aws(online, server, "2020-01-01T00:00:00Z" if ended else "2099-01-01T00:00:00Z")
    done = online.python(OPEN, BOTO, AUTH, API, accept, options=("-s", "AWS"))
    told, words = map(json.loads, done.ok().splitlines())
    real = server.issued("key")[-1]
    if ended:
        assert told["status"] == 401 and "has ended" in told["reason"]
        assert not online.lab.seen(f"Credential={real['id']}/")
    else:
        assert told["wrong"] is None and online.lab.seen(real["token"])
    clean(server, done.out, done.err)


SESSION = """
import json, re, sys, urllib.request
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.session import Session
def ask(credentials, url, service, **fields):
    request = AWSRequest("GET", url, headers=fields)
    S3SigV4Auth(credentials, service, "eu-west-1").add_auth(request)
    return urllib.request.urlopen(urllib.request.Request(url, headers=dict(request.headers))).read().decode()
told = ask(Session().get_credentials(), sys.argv[1] + "/?session", "s3")
words = [re.search(f"{name}>([^<]*)", told)[1] for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
print(ask(Credentials(*words[:2]), sys.argv[2] + "/signed", "s3express", **{"x-amz-s3session-token": words[2]}))
"""


@needs_python("botocore")
def test_a_session_of_s3(online, server):
    define_aws(online, server)
    done = online.python(OPEN, SESSION, AUTH, API, options=("-s", "AWS"))
    assert json.loads(done.ok())["wrong"] is None
    assert online.lab.seen(server.issued("key")[-1]["token"])
    clean(server, done.out, done.err)
