"""Clients sign with a placeholder; servers check with the real key, and find it right.

The client is in the cell; the server, and what it checks with, is outside."""
import base64
import binascii
import json
import os
import re
import subprocess
import xml.etree.ElementTree
from pathlib import Path

import pytest

from egress_lab import CURL, NPM, needs, needs_npm_module, needs_python

OPEN = "  - allow: '*.example.test'\n"
UP = "https://up.example.test"
OTHER = "https://up2.example.test"      # the same server, where no secret may go
DOCS = Path(__file__).resolve().parents[3] / "docs"


def word(n=32):
    return binascii.hexlify(os.urandom(n // 2)).decode()


def give(online, value, *options, name="KEY", hosts=("up.example.test",)):
    hosts = [word for host in hosts for word in ("--host", host)]
    return online.operator.cloister("secret", "add", name, *hosts, *options, input=value)


def make_key(*how):
    """A private key in PEM, and its public half."""
    private = subprocess.run(["openssl", "genpkey", *how], check=True, capture_output=True,
                             text=True).stdout
    public = subprocess.run(["openssl", "pkey", "-pubout"], check=True, capture_output=True,
                            text=True, input=private).stdout
    return private, public


def run(online, script, *words, options=("-s", "KEY"), rules=OPEN):
    return online.python(rules, FETCH + script, *words, options=options)


# In the cell: a request, and what came of it.
FETCH = """
import json, os, sys, time, urllib.request, urllib.parse
def fetch(url, data=None, **fields):
    request = urllib.request.Request(url, data, {k.replace("_", "-"): v for k, v in fields.items()})
    try:
        return json.load(urllib.request.urlopen(request))
    except urllib.error.HTTPError as error:
        return json.load(error)
"""


def reason_of(done):
    """Why a request was refused: as we say it, or in the error document of a cloud's service."""
    said = done.out.strip()
    if said.startswith("<"):
        return xml.etree.ElementTree.fromstring(said).findtext(".//{*}Message")
    said = json.loads(said.splitlines()[-1])
    return f"{said['error']}: {said['reason']}" if "error" in said else said["message"]


def check_other(online, done):
    """The request to the other host was refused as exfiltration."""
    assert "refused by cloister" in reason_of(done), done
    assert online.refusal()["why"] == "exfiltration"


# ---- JWT ---------------------------------------------------------------------------------

KEYS = {
    "RS256": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
    "ES256": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "EdDSA": ("-algorithm", "ED25519"),
    "PS256": ("-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048"),
}
BEARER = """
import jwt
token = jwt.encode({"iss": "12345", "aud": AUD, "iat": int(time.time()) - 60, "exp": int(time.time()) + 540},
                   os.environ[VAR], algorithm=ALG, headers={"kid": "one"})
print(json.dumps({"sent": token, **fetch(sys.argv[1], authorization="Bearer " + token)}))
"""
JUDGE_JWT = """
import jwt
def judge(method, url, fields, body):
    token = fields["authorization"].partition("Bearer ")[2]
    return {"claims": jwt.decode(token, KEY, algorithms=[ALG], audience="judge"), "told": token}
"""


def bearer(algorithm, audience="judge", variable="KEY"):
    return f"ALG, AUD, VAR = {algorithm!r}, {audience!r}, {variable!r}\n{BEARER}"


@needs_python("jwt")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA", "HS256"])
def test_a_jwt(online, algorithm):
    private, public = make_key(*KEYS[algorithm]) if algorithm in KEYS else (word(), None)
    give(online, private, "--scheme", "jwt").ok()
    where = online.lab.judge(JUDGE_JWT, KEY=public or private, ALG=algorithm)
    said = json.loads(run(online, bearer(algorithm), UP + where).ok())
    # The one that is good, which the server tells, does not come back.
    assert said["claims"]["iss"] == "12345" and said["told"] == said["sent"]
    assert online.lab.judgements(where) == [200]
    # Without the courier's help it is worth nothing.
    check_other(online, run(online, bearer(algorithm), OTHER + where))
    assert online.lab.judgements(where) == [200]


MESSAGE_PSS = """
import base64, cryptography.hazmat.primitives as p
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
key = serialization.load_pem_private_key(os.environ["KEY"].encode(), None)
params = '("@method" "@path");keyid="my-key";alg="rsa-pss-sha512"'
text = '"@method": GET\\n"@path": ' + urllib.parse.urlsplit(sys.argv[1]).path + '\\n"@signature-params": ' + params
made = key.sign(text.encode(), padding.PSS(padding.MGF1(hashes.SHA512()), 64), hashes.SHA512())
print(json.dumps(fetch(sys.argv[1], signature_input="sig=" + params,
                       signature="sig=:" + base64.b64encode(made).decode() + ":")))
"""
JUDGE_PSS = """
import base64, urllib.parse
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
def judge(method, url, fields, body):
    text = '"@method": GET\\n"@path": ' + urllib.parse.urlsplit(url).path + \\
        '\\n"@signature-params": ' + fields["signature-input"].partition("=")[2]
    serialization.load_pem_public_key(KEY.encode()).verify(
        base64.b64decode(fields["signature"].split(":")[1]), text.encode(),
        padding.PSS(padding.MGF1(hashes.SHA512()), 64), hashes.SHA512())
    return {"right": True}
"""


@needs_python("cryptography")
def test_a_key_for_pss_only(online):
    private, public = make_key(*KEYS["PS256"])
    give(online, private, "--scheme", "message", "--id", "my-key").ok()
    where = online.lab.judge(JUDGE_PSS, KEY=public)
    assert json.loads(run(online, MESSAGE_PSS, UP + where).ok()) == {"right": True}


@needs_python("jwt")
def test_a_github_app(online):
    private, public = make_key(*KEYS["RS256"])
    where = online.lab.judge(JUDGE_JWT, KEY=public, ALG="RS256")
    give(online, private, "--like", "github-app", "--path", where + "/app/**").ok()
    script = bearer("RS256", variable="GITHUB_APP_PRIVATE_KEY")
    assert "claims" in json.loads(run(online, script, f"{UP}{where}/app/installations").ok())
    # Not where an app has nothing to say, and not with another algorithm than GitHub's.
    check_other(online, run(online, script, f"{UP}{where}/repos"))
    done = run(online, bearer("RS512", variable="GITHUB_APP_PRIVATE_KEY"), f"{UP}{where}/app/x")
    assert "for RS256 only" in json.loads(done.ok())["reason"]
    assert online.lab.judgements(where) == [200]


@needs_python("jwt")
def test_a_jwt_for_another_audience(online):
    key = word()
    give(online, key, "--scheme", "jwt", "--with", "audience=judge").ok()
    where = online.lab.judge(JUDGE_JWT, KEY=key, ALG="HS256")
    assert "claims" in json.loads(run(online, bearer("HS256"), UP + where).ok())
    said = json.loads(run(online, bearer("HS256", "another"), UP + where).ok())
    assert "not for the audience 'judge'" in said["reason"] and online.refusal()["why"] == "credential"


@needs_python("jwt")
def test_the_secret_of_a_jwt(online):
    """The secret whose placeholder signed it is used; a token that none signed is refused."""
    keys = {name: word() for name in ("ONE", "TWO", "FAR")}
    for name, key in keys.items():
        give(online, key, "--scheme", "jwt", name=name,
             hosts=("up2.example.test" if name == "FAR" else "up.example.test",)).ok()
    options = [option for name in keys for option in ("-s", name)]
    for name in ("ONE", "TWO"):
        where = online.lab.judge(JUDGE_JWT, KEY=keys[name], ALG="HS256")
        done = run(online, bearer("HS256", variable=name), UP + where, options=options)
        assert "claims" in json.loads(done.ok())
    done = run(online, bearer("HS256", variable="FAR"), UP + where, options=options)
    check_other(online, done)
    done = run(online, 'os.environ["MINE"] = "my own"\n' + bearer("HS256", variable="MINE"), UP + where,
               options=options)
    assert "not the placeholder's" in json.loads(done.ok())["reason"]
    assert online.refusal()["why"] == "credential"


@needs_python("jwt")
def test_a_jwt_that_is_a_secret_itself(online):
    """Beside a secret that signs: no placeholder signed it, and its real value is sent."""
    head, part = (base64.urlsafe_b64encode(data).decode().rstrip("=")
                  for data in (b'{"alg":"RS256"}', json.dumps({"canary": word()}).encode()))
    token = f"{head}.{part}.{word()}"
    give(online, make_key(*KEYS["ES256"])[0], "--scheme", "jwt").ok()
    give(online, token, "--in", "header:authorization", "--shape", "jwt", name="TOKEN").ok()
    script = 'print(json.dumps(fetch(sys.argv[1], authorization="Bearer " + os.environ["TOKEN"])))'
    done = run(online, script, f"{UP}/echo", options=("-s", "KEY", "-s", "TOKEN"))
    assert json.loads(done.ok())["method"] == "GET" and online.lab.seen(f"Bearer {token}")


GOOGLE = """
import google.auth.transport.requests
from google.oauth2 import service_account
account = service_account.Credentials.from_service_account_info({
    "type": "service_account", "client_email": "agent@project.iam.gserviceaccount.com",
    "private_key": os.environ["KEY"], "token_uri": sys.argv[1]}, scopes=["https://example.test/x"])
account.refresh(google.auth.transport.requests.Request())
print(account.valid)
"""
JUDGE_GOOGLE = """
import jwt, urllib.parse
def judge(method, url, fields, body):
    form = dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True))
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    claims = jwt.decode(form["assertion"], KEY, algorithms=["RS256"], audience=AUDIENCE or url)
    assert claims["iss"] == "agent@project.iam.gserviceaccount.com"
    return {"access_token": "not a secret here", "expires_in": 3600, "token_type": "Bearer"}
"""


@needs_python("google.auth", "google.oauth2", "jwt", "requests")
def test_a_google_service_account(online):
    import google.oauth2.service_account
    private, public = make_key(*KEYS["RS256"])
    # Newer versions name Google's own, wherever they send it.
    audience = getattr(google.oauth2.service_account, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", "")
    where = online.lab.judge(JUDGE_GOOGLE, KEY=public, AUDIENCE=audience)
    account = {"client_email": "agent@project.iam.gserviceaccount.com", "private_key": private}
    give(online, json.dumps(account), "--like", "google-service-account", "--with", "algorithm=RS256",
         "--with", f"audience={audience or UP + where}", "--env", "KEY").ok()
    assert run(online, GOOGLE, UP + where).ok() == "True\n"
    # A form is only held where the secret may go: there it is as good as unsigned.
    assert run(online, GOOGLE, OTHER + where).status != 0
    assert online.lab.judgements(where) == [200, 401]
    assert not any("PRIVATE KEY" in line for line in online.lab.seen(where))


def test_forms_that_have_no_jwt(online):
    """For every client, length and host."""
    give(online, make_key(*KEYS["ES256"])[0], "--scheme", "jwt").ok()
    script = 'for n in (3, 60000, 300000): print(fetch(sys.argv[1], b"a" * n + b"=b")["sha256"])'
    said = [run(online, script, where + "/echo").ok() for where in (UP, OTHER)]
    outside = online.outside("/usr/bin/python3", "-c", "import hashlib\nfor n in (3, 60000, 300000): "
                             "print(hashlib.sha256(b'a' * n + b'=b').hexdigest())")
    assert said == [outside.ok()] * 2


@needs_python("jwt")
def test_a_jwt_and_another_secret_beside_it(online):
    """A token's signature covers nothing but the token."""
    key, other = word(), "cAnary" + word()
    give(online, key, "--scheme", "jwt").ok()
    give(online, other, "--in", "header:x-api-key", "--in", "body", name="API").ok()
    where = online.lab.judge(JUDGE_JWT + """
    assert fields["x-api-key"] == API and API.encode() in body
""".replace("    assert", "_judge = judge\ndef judge(method, url, fields, body):\n    assert") +
                             "    return _judge(method, url, fields, body)\n", KEY=key, ALG="HS256", API=other)
    script = bearer("HS256").replace("authorization=", 'json.dumps({"k": os.environ["API"]}).encode(), '
                                     'x_api_key=os.environ["API"], content_type="application/json", authorization=')
    assert "claims" in json.loads(run(online, script, UP + where, options=("-s", "KEY", "-s", "API")).ok())


# ---- OAuth 1.0a ----------------------------------------------------------------------------

OAUTH = """
import requests_oauthlib
secret, token_secret = os.environ["KEY"].split("&")
session = requests_oauthlib.OAuth1Session(os.environ["KEY_ID"], secret, os.environ["KEY_TOKEN"], token_secret,
                                          signature_method=sys.argv[2], signature_type=sys.argv[3])
for how in ({}, {"params": {"a b": "c&d", "e": "%7e"}}, {"data": {"status": "hello & good-bye"}}):
    answer = session.request("POST" if "data" in how else "GET", sys.argv[1], **how)
    print(answer.status_code, answer.text)
    if answer.status_code != 200: break
"""
JUDGE_OAUTH = """
from oauthlib import oauth1
class Validator(oauth1.RequestValidator):
    enforce_ssl = True
    allowed_signature_methods = ("HMAC-SHA1", "HMAC-SHA256", "PLAINTEXT")
    client_key_length = access_token_length = nonce_length = (1, 99)
    def check_client_key(self, key): return True
    def check_access_token(self, token): return True
    check_nonce = check_client_key
    dummy_client = dummy_access_token = "nobody"
    def validate_client_key(self, key, request): return key == ID
    def validate_access_token(self, key, token, request): return token == TOKEN
    def validate_timestamp_and_nonce(self, *args, **kwargs): return True
    def validate_realms(self, *args, **kwargs): return True
    def get_client_secret(self, key, request): return SECRET
    def get_access_token_secret(self, key, token, request): return TOKEN_SECRET
def judge(method, url, fields, body):
    endpoint = oauth1.ResourceEndpoint(Validator())
    fields = {key.title(): value for key, value in fields.items()}
    right, request = endpoint.validate_protected_resource_request(url, method, body.decode(), fields)
    assert right, url
    return {"for": "the right one"}
"""


@needs_python("requests_oauthlib", "oauthlib")
@pytest.mark.parametrize("method", ["HMAC-SHA1", "HMAC-SHA256"])
@pytest.mark.parametrize("where_to", ["AUTH_HEADER", "QUERY"])
def test_oauth1(online, method, where_to):
    real = {"ID": word(), "SECRET": word(), "TOKEN": word(), "TOKEN_SECRET": word()}
    where = online.lab.judge(JUDGE_OAUTH, **real)
    give(online, f"{real['ID']}\n{real['SECRET']}&{real['TOKEN_SECRET']}\n{real['TOKEN']}\n", "--scheme",
         "oauth1").ok()
    done = run(online, OAUTH, UP + where, method, where_to)
    assert [line.split()[0] for line in done.ok().splitlines()] == ["200"] * 3, done
    assert not any(value in done.out for value in real.values())
    done = run(online, OAUTH, OTHER + where, method, where_to)
    assert done.out.startswith("403 ") and online.refusal()["why"] == "exfiltration"
    assert online.lab.judgements(where) == [200] * 3


@needs_python("requests_oauthlib", "oauthlib")
def test_oauth1_in_plain_text_is_refused(online):
    where = online.lab.judge(JUDGE_OAUTH, ID="", SECRET="", TOKEN="", TOKEN_SECRET="")
    give(online, f"{word()}\n{word()}&{word()}\n{word()}\n", "--scheme", "oauth1").ok()
    done = run(online, OAUTH, UP + where, "PLAINTEXT", "AUTH_HEADER")
    assert "PLAINTEXT is no signature" in done.ok() and online.lab.judgements(where) == []


# ---- HMAC ----------------------------------------------------------------------------------

EXCHANGE = """
import hashlib, hmac
def signed(text): return hmac.new(os.environ["KEY"].encode(), text.encode(), hashlib.sha256).hexdigest()
def order(url, in_body, **what):
    text = urllib.parse.urlencode({**what, "timestamp": int(time.time() * 1000)})
    text += "&signature=" + signed(text)
    target = url if in_body else url + "?" + text
    return fetch(target, text.encode() if in_body else None, X_MBX_APIKEY=os.environ["KEY_ID"])
print(json.dumps(order(sys.argv[1], False, symbol="LTCBTC", side="BUY")))
print(json.dumps(order(sys.argv[1], True, symbol="LTCBTC", quantity="1.5")))
print(json.dumps(fetch(sys.argv[1] + "?symbol=LTCBTC", X_MBX_APIKEY=os.environ["KEY_ID"])))
"""
JUDGE_EXCHANGE = """
import hashlib, hmac, urllib.parse
def judge(method, url, fields, body):
    assert fields["x-mbx-apikey"] == ID
    text, mark, signature = (urllib.parse.urlsplit(url).query or body.decode()).partition("&signature=")
    assert not mark or signature == hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()
    return {"signed": bool(mark)}
"""


def test_an_exchange(online):
    key_id, secret = word(64), word(64)
    where = online.lab.judge(JUDGE_EXCHANGE, ID=key_id, SECRET=secret)
    give(online, f"{key_id}\n{secret}\n", "--scheme", "hmac", "--with", "template=binance").ok()
    done = run(online, EXCHANGE, UP + where)
    # The last is not signed, and has the key's name all the same.
    assert [json.loads(line) for line in done.ok().splitlines()] == [{"signed": True}] * 2 + [{"signed": False}]
    assert online.lab.judgements(where) == [200] * 3
    done = run(online, EXCHANGE, OTHER + where)
    assert {json.loads(line)["error"] for line in done.ok().splitlines()} == {"refused by cloister"}
    assert {event["why"] for event in online.events(verdict="deny")} == {"exfiltration"}
    assert online.lab.judgements(where) == [200] * 3


def test_a_wrong_hmac_is_refused(online):
    where = online.lab.judge(JUDGE_EXCHANGE, ID="", SECRET="")
    give(online, f"{word(64)}\n{word(64)}\n", "--scheme", "hmac", "--with", "template=binance").ok()
    script = 'print(json.dumps(fetch(sys.argv[1] + "?a=1&signature=" + "0" * 64, X_MBX_APIKEY=os.environ["KEY_ID"])))'
    assert "signature is not the placeholder's" in json.loads(run(online, script, UP + where).ok())["reason"]
    assert online.refusal()["why"] == "credential" and online.lab.judgements(where) == []


def documented():
    """The example of docs/secrets-signing.md: the definition."""
    return re.search(r"```yaml\n(version: 1\nsecrets:\n  PAYMENTS:\n.*?)```",
                     (DOCS / "secrets-signing.md").read_text(), re.S).group(1)


PAYMENTS = """
import hashlib, hmac
body, stamp = json.dumps({"amount": 17}).encode(), str(int(time.time()))
text = stamp + "\\n" + "POST" + "\\n" + urllib.parse.urlsplit(sys.argv[1]).path + "\\n" + hashlib.sha256(body).hexdigest()
mac = hmac.new(os.environ["PAYMENTS"].encode(), text.encode(), hashlib.sha512).hexdigest()
print(json.dumps(fetch(sys.argv[1], body, x_key=os.environ["PAYMENTS_ID"], x_time=stamp, x_signature="v1=" + mac)))
"""
JUDGE_PAYMENTS = """
import hashlib, hmac, urllib.parse
def judge(method, url, fields, body):
    assert fields["x-key"] == ID
    text = "\\n".join([fields["x-time"], method, urllib.parse.urlsplit(url).path, hashlib.sha256(body).hexdigest()])
    assert fields["x-signature"] == "v1=" + hmac.new(SECRET.encode(), text.encode(), hashlib.sha512).hexdigest()
    return {"amount": 17}
"""


def test_the_documented_template(online):
    key_id, secret = word(), word()
    where = online.lab.judge(JUDGE_PAYMENTS, ID=key_id, SECRET=secret)
    file = online.operator.file("secrets.yaml", documented().replace("api.example.com", "up.example.test"))
    online.operator.cloister("secret", "add", "PAYMENTS", "--file", file, input=f"{key_id}\n{secret}\n").ok()
    options = ("-s", "PAYMENTS")
    assert json.loads(run(online, PAYMENTS, UP + where, options=options).ok()) == {"amount": 17}
    check_other(online, run(online, PAYMENTS, OTHER + where, options=options))
    assert online.lab.judgements(where) == [200]


@pytest.mark.parametrize("change, said", [
    (("{sha256.hex:{body}}", "{sha256.hex:{bdy}}"), ":6:12: "),
    (("digest: sha512", "digest: md5"), "sha1, sha256, sha384 or sha512"),
    (("at: ", "att: "), "did you mean 'at'?"),
    (("timestamp: ", "nonce: "), "where the timestamp stands"),
])
def test_a_bad_template_is_reported_when_it_is_read(operator, change, said):
    text = documented()
    assert change[0] in text
    file = operator.file("secrets.yaml", text.replace(*change))
    operator.cloister("secret", "add", "PAYMENTS", "--file", file, input="a\nb\n").sentence(f"{file}:", said)


# ---- message signatures -----------------------------------------------------------------------

MESSAGE = """
const { httpbis, createSigner } = require("/opt/npm/node_modules/http-message-signatures");
(async () => {
	const [url, algorithm] = process.argv.slice(-2), body = '{"hello": "world"}';
	const hash = require("crypto").createHash("sha256").update(body).digest("base64");
	const request = await httpbis.signMessage({
		key: createSigner(process.env.KEY, algorithm, "my-key"), name: "sig1",
		fields: ["@method", "@authority", "@path", "@query", "content-type", "content-digest"],
	}, { method: "POST", url, headers: { "content-type": "application/json",
	                                     "content-digest": `sha-256=:${hash}:` } });
	const answer = await fetch(url, { method: "POST", headers: request.headers, body });
	console.log(await answer.text());
})();
"""
JUDGE_MESSAGE = """
import json, subprocess
def judge(method, url, fields, body):
    code = 'const { httpbis, createVerifier } = require(process.argv[2] + "/http-message-signatures");' + \
        'const [, , , key, algorithm, request] = process.argv;' + \
        'httpbis.verifyMessage({ keyLookup: async () => ({ id: "my-key", algs: [algorithm], ' + \
        'verify: createVerifier(key, algorithm) }) }, JSON.parse(request)).then(x => console.log(x))'
    said = subprocess.run(["node", "-e", code, "x", MODULES, KEY, ALG, json.dumps(
        {"method": method, "url": url, "headers": fields})], capture_output=True, text=True)
    assert said.stdout == "true\\n", said
    return {"right": True}
"""


@needs("node")
@needs_npm_module("http-message-signatures")
@pytest.mark.parametrize("algorithm", ["ed25519", "hmac-sha256"])
def test_a_message_signature(online, algorithm):
    private, public = make_key(*KEYS["EdDSA"]) if algorithm == "ed25519" else (word(),) * 2
    give(online, private, "--scheme", "message", "--id", "my-key").ok()
    where = online.lab.judge(JUDGE_MESSAGE, KEY=public, ALG=algorithm, MODULES=str(NPM / "node_modules"))

    def post(url):
        options = ("-s", "KEY", "-v", f"{online.lab.folder / 'npm'}:/opt/npm:ro")
        return online.run(OPEN, "node", "-e", MESSAGE, "x", url, algorithm, options=options)
    assert json.loads(post(f"{UP}{where}?a=b%20c").ok()) == {"right": True}
    check_other(online, post(OTHER + where))
    assert online.lab.judgements(where) == [200]


# ---- SigV4's relatives, and its scope -----------------------------------------------------------

# curl signs as AWS does, and as those do that have other names for the same.
SIGV4 = " ".join([*CURL, "--http1.1", '--aws-sigv4 "$1" -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"', '"$2"',
                  '-H "x-$3-content-sha256: UNSIGNED-PAYLOAD"'])
JUDGE_SIGV4 = """
import hashlib, hmac, urllib.parse
def judge(method, url, fields, body):
    label, _, rest = fields["authorization"].partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    key_id, *scope = parts["Credential"].split("/")
    assert (label, key_id) == (f"{NAME}4-HMAC-SHA256", ID)
    stamp = next(fields[name] for name in ("x-amz-date", "x-goog-date") if name in fields)
    signed = parts["SignedHeaders"]
    canonical = "\\n".join([method, urllib.parse.urlsplit(url).path, "",
                           *(f"{name}:{fields[name]}" for name in signed.split(";")), "", signed,
                           "UNSIGNED-PAYLOAD"])
    text = "\\n".join([label, stamp, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"{NAME}4{SECRET}".encode()
    for part in scope:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    assert parts["Signature"] == hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return {"scope": scope}
"""


def give_aws(online, *options):
    key_id, secret = "AKIA" + base64.b32encode(os.urandom(10)).decode(), word(40)
    give(online, f"{key_id}\n{secret}\n", "--like", "aws", *options, name="AWS").ok()
    return {"ID": key_id, "SECRET": secret}


def curl_signed(online, how, url):
    return online.run(OPEN, "sh", "-c", SIGV4, "sh", how, url, how.split(":")[1], options=("-s", "AWS"))


@pytest.mark.parametrize("how, name", [("aws:amz:eu-west-1:execute-api", "AWS"),
                                       ("goog:goog:eu-west-1:storage", "GOOG")])
def test_a_relative_of_sigv4(online, how, name):
    where = online.lab.judge(JUDGE_SIGV4, NAME=name, **give_aws(online))
    assert "scope" in json.loads(curl_signed(online, how, UP + where).ok())
    check_other(online, curl_signed(online, how, OTHER + where))
    assert online.lab.judgements(where) == [200]


def test_two_slashes_in_a_path(online):
    """curl signs them as they are, AWS's own libraries as one."""
    where = online.lab.judge(JUDGE_SIGV4, NAME="AWS", **give_aws(online))
    for path in ("//", "/a//b///c"):
        assert "scope" in json.loads(curl_signed(online, "aws:amz:eu-west-1:execute-api", UP + where + path).ok())
    assert online.lab.judgements(where) == [200] * 2


# As Google's documents have it, with its library's key.
GOOGLE_URL = """
import hashlib, datetime
from google.oauth2 import service_account
account = service_account.Credentials.from_service_account_info({
    "type": "service_account", "client_email": "agent@project.iam.gserviceaccount.com",
    "private_key": os.environ["KEY"], "token_uri": "https://oauth2.googleapis.com/token"})
def quoted(text): return urllib.parse.quote(text, safe="~")
host, path = urllib.parse.urlsplit(sys.argv[1])[1:3]
now = datetime.datetime.now(datetime.timezone.utc)
stamp, scope = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d") + "/auto/storage/goog4_request"
query = "&".join(f"{quoted(k)}={quoted(v)}" for k, v in sorted({
    "X-Goog-Algorithm": "GOOG4-RSA-SHA256", "X-Goog-Credential": account.service_account_email + "/" + scope,
    "X-Goog-Date": stamp, "X-Goog-Expires": "600", "X-Goog-SignedHeaders": "host"}.items()))
request = "\\n".join(["GET", path, query, "host:" + host, "", "host", "UNSIGNED-PAYLOAD"])
text = "\\n".join(["GOOG4-RSA-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
url = sys.argv[1] + "?" + query + "&X-Goog-Signature=" + account.sign_bytes(text.encode()).hex()
try:
    print(urllib.request.urlopen(url).read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
"""
JUDGE_GOOGLE_URL = """
import hashlib, urllib.parse
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
def judge(method, url, fields, body):
    parts = urllib.parse.urlsplit(url)
    query, _, signature = parts.query.partition("&X-Goog-Signature=")
    given = dict(urllib.parse.parse_qsl(query))
    assert sorted(query.split("&")) == query.split("&")
    request = "\\n".join([method, parts.path, query, "host:" + fields["host"], "", "host", "UNSIGNED-PAYLOAD"])
    text = "\\n".join(["GOOG4-RSA-SHA256", given["X-Goog-Date"], given["X-Goog-Credential"].partition("/")[2],
                       hashlib.sha256(request.encode()).hexdigest()])
    serialization.load_pem_public_key(KEY.encode()).verify(bytes.fromhex(signature), text.encode(),
                                                           padding.PKCS1v15(), hashes.SHA256())
    return {"by": given["X-Goog-Credential"].partition("/")[0]}
"""


@needs_python("google.auth", "google.oauth2", "cryptography")
def test_a_url_that_a_service_account_signs(online):
    private, public = make_key(*KEYS["RS256"])
    account = {"client_email": "agent@project.iam.gserviceaccount.com", "private_key": private}
    give(online, json.dumps(account), "--like", "google-service-account", "--env", "KEY").ok()
    where = online.lab.judge(JUDGE_GOOGLE_URL, KEY=public)
    assert json.loads(run(online, GOOGLE_URL, UP + where).ok()) == {"by": account["client_email"]}
    said = run(online, GOOGLE_URL, OTHER + where).ok()
    assert "refused by cloister" in said and online.refusal()["why"] == "exfiltration"
    # With a key of its own it is nobody's.
    done = run(online, GOOGLE_URL.replace("account.sign_bytes(text.encode())", "account.sign_bytes(b'another')"),
               UP + where)
    assert "signature is wrong" in done.ok()
    assert online.lab.judgements(where) == [200]


def test_a_service_and_a_region(online):
    where = online.lab.judge(JUDGE_SIGV4, NAME="AWS", **give_aws(
        online, "--with", "service=execute-api", "--with", "region=eu-*"))
    assert "scope" in json.loads(curl_signed(online, "aws:amz:eu-west-1:execute-api", UP + where).ok())
    for how, what in (("aws:amz:us-east-1:execute-api", "region 'us-east-1'"),
                      ("aws:amz:eu-west-1:sts", "service 'sts'")):
        assert what in reason_of(curl_signed(online, how, UP + where))
        assert online.refusal()["why"] == "credential"
    assert online.lab.judgements(where) == [200]


def test_a_large_body_is_signed(online):
    """It is held until all of it is there: as much as the rule permits, and 64M whatever that is."""
    give_aws(online)
    script = ('head -c "$1" /dev/zero >/dev/shm/body; exec ' + SIGV4[:SIGV4.index(" -H")].replace('"$1"', '"$3"') +
              " --data-binary @/dev/shm/body")

    def post(size, rules):
        return online.run(rules, "sh", "-c", script, "sh", str(size), f"{UP}/echo",
                          "aws:amz:eu-west-1:execute-api", options=("-s", "AWS"))
    assert json.loads(post(3 << 20, OPEN).ok())["size"] == 3 << 20
    assert ("the body is too large for a secret to sign it or be put into it: over 64M; no rule changes that" in
            reason_of(post(65 << 20, OPEN + "    body: {max: 1G}\n")))
    assert online.refusal()["size"] == 65 << 20
    assert "- allow" not in online.operator.cloister("why", online.cell).ok()


# ---- what is signed and what is put in -------------------------------------------------------

def test_no_value_is_put_into_signed_text(online):
    """Otherwise a signature could show whether a guess of the value is right."""
    other = "cAnary" + word()
    where = online.lab.judge(JUDGE_EXCHANGE, ID="", SECRET="")
    give(online, f"{word(64)}\n{word(64)}\n", "--scheme", "hmac", "--with", "template=binance").ok()
    give(online, other, "--in", "query", "--in", "body", "--in", "header:x-other", name="OTHER").ok()
    options = ("-s", "KEY", "-s", "OTHER")
    for script in (
            # signed with what the agent holds, and with a guess that would be right
            'print(json.dumps(order(sys.argv[1], False, a=os.environ["OTHER"])))',
            'print(json.dumps(order(sys.argv[1], True, a=os.environ["OTHER"])))',
            f'text = "a=" + {other!r}; print(json.dumps(fetch(sys.argv[1] + "?a=" + os.environ["OTHER"] + '
            '"&signature=" + signed(text), X_MBX_APIKEY=os.environ["KEY_ID"])))'):
        done = run(online, EXCHANGE.partition("print(")[0] + script, UP + where, options=options)
        said = json.loads(done.ok())["reason"]
        assert ("is signed, so the placeholder of the secret 'OTHER'" in said or
                "signature is not the placeholder's" in said), said
        assert online.refusal()["why"] == "credential"
    assert online.lab.judgements(where) == []


STRAY = "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"


@pytest.mark.parametrize("rule", ["", "    body: {regex: some}\n"])
def test_a_body_with_a_secret_and_another_credential(online, rule):
    """Where one may stand, no other may."""
    real = "cAnary" + word()
    give(online, real, "--in", "body").ok()
    rules = "  - allow: up.example.test\n" + rule
    script = 'print(json.dumps(fetch(sys.argv[1], ("some " + os.environ["KEY"] + sys.argv[2]).encode())))'
    assert json.loads(run(online, script, f"{UP}/echo?fine", " more", rules=rules).ok())["size"] == 5 + len(real) + 5
    done = run(online, script, f"{UP}/echo?stray", " " + STRAY, rules=rules)
    assert "looks like a credential" in json.loads(done.ok())["reason"]
    assert online.refusal()["why"] == "secret" and not online.lab.seen(STRAY)


def test_a_body_with_a_secret_that_looks_like_one(online):
    """The inserted value is not mistaken for a stray credential."""
    give(online, STRAY, "--in", "body").ok()
    script = 'print(json.dumps(fetch(sys.argv[1], json.dumps({"k": os.environ["KEY"]}).encode())))'
    assert json.loads(run(online, script, f"{UP}/echo").ok())["size"] == len(STRAY) + 9
