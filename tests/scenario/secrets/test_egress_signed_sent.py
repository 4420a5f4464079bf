"""The signed request is the request that is sent: signed fields that proxies often drop, unusual
spellings of paths, and two signatures in one request.

The client is in the cell; the server that checks with the real key is outside."""
import base64
import hashlib
import hmac
import json

import pytest

from egress_lab import NPM, needs, needs_npm_module, needs_python
from test_egress_signed import (JUDGE_EXCHANGE, JUDGE_JWT, JUDGE_MESSAGE, OPEN, UP, give, give_aws, run,
                                word)
from test_egress_webhooks import Hooks

# ---- fields --------------------------------------------------------------------------------

# In the cell: signed by botocore, sent with these fields and no others, over HTTP/1.1 or 2.
SIGNED_FIELDS = """
import json, os, sys, httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
class Signer(SigV4Auth):
    def headers_to_sign(self, request):
        fields = super().headers_to_sign(request)
        for name, value in request.headers.items():
            if name.lower() not in fields:
                fields[name.lower()] = value
        return fields
method, url, version, *fields = sys.argv[1:]
body = b"some of it" if method == "PUT" else b""
request = AWSRequest(method, url, dict(field.split(": ", 1) for field in fields), body)
key = Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
Signer(key, "execute-api", "eu-west-1").add_auth(request)
client = httpx.Client(http2=version == "2", verify=os.environ["SSL_CERT_FILE"])
sent = client.build_request(method, url, content=body or None)
sent.headers = httpx.Headers([(name, value) for name, value in request.headers.items()] +
                             [("host", sent.url.netloc.decode())])
answer = client.send(sent)
assert answer.http_version == "HTTP/" + ("2" if version == "2" else "1.1"), answer.http_version
print(json.dumps({**answer.json(), "signed": request.headers["Authorization"].split("SignedHeaders=")[1].split(",")[0]}))
"""
JUDGE_FIELDS = """
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
def judge(method, url, fields, body):
    names = fields["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    class Signer(SigV4Auth):
        def headers_to_sign(self, request):
            return {name: value for name, value in request.headers.items() if name in names}
        def canonical_headers(self, signed):
            return "\\n".join(f"{name}:{signed[name]}" for name in names)
        def signed_headers(self, signed):
            return ";".join(names)
    signer = Signer(Credentials(ID, SECRET), "execute-api", "eu-west-1")
    request = AWSRequest(method, url, {name: value for name, value in fields.items() if name != "authorization"}, body)
    request.context["timestamp"] = fields["x-amz-date"]
    for name in names:
        assert name in fields, name
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert signer.signature(text, request) == fields["authorization"].split("Signature=")[1]
    return {"got": {name: fields[name] for name in names}}
"""


def send_fields(online, method, url, version, *fields):
    done = online.run(OPEN, "/usr/bin/python3", "-c", SIGNED_FIELDS, method, url, version, *fields,
                      options=("-s", "AWS"))
    return json.loads(done.ok())


@needs_python("botocore", "httpx", "h2")
@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH"])
def test_a_signed_length_without_a_body(online, method, version):
    where = online.lab.judge(JUDGE_FIELDS, **give_aws(online))
    said = send_fields(online, method, UP + where, version, "content-length: 0")
    assert "got" in said, said
    assert "content-length" in said["signed"] and said.get("got", said)["content-length"] == "0", said
    assert online.lab.judgements(where) == [200]


@needs_python("botocore", "httpx", "h2")
@pytest.mark.parametrize("field", ["accept-encoding: br", "te: trailers", "cookie: a=b; c=d", "expect: 100-continue",
                                   "trailer: x-sum", "via: 1.1 here", "accept: */*"])
def test_signed_fields_that_are_sent_as_they_are(online, field):
    where = online.lab.judge(JUDGE_FIELDS, **give_aws(online))
    name, value = field.split(": ")
    # A body does not wait here until the server says that it may come.
    said = send_fields(online, *(("PUT", UP + where, "1", "content-length: 10") if name == "expect" else
                                 ("GET", UP + where, "1")), field)
    assert said.get("got", said)[name] == value


@needs_python("botocore", "httpx", "h2")
@pytest.mark.parametrize("field", ["connection: keep-alive", "keep-alive: timeout=5", "proxy-connection: close",
                                   "te: gzip, trailers"])
def test_signed_fields_that_are_not_sent_are_refused(online, field):
    where = online.lab.judge(JUDGE_FIELDS, **give_aws(online))
    said = send_fields(online, "GET", UP + where, "1", field)
    assert said["error"] == "refused by cloister" and online.refusal()["why"] == "credential"
    name = field.split(":")[0]
    assert (f"covers the field '{name}', which the request does not have, or which is not sent on as it is"
            in said["reason"]) or name == "te"
    assert online.lab.judgements(where) == []


# ---- message signatures ------------------------------------------------------------------------

MESSAGE = """
const { httpbis, createSigner } = require("/opt/npm/node_modules/http-message-signatures");
(async () => {
	const [method, url, cover, ...given] = process.argv.slice(2), fields = cover.split(",");
	const headers = Object.fromEntries(given.map(field => field.split(": ")));
	const request = await httpbis.signMessage({ key: createSigner(process.env.KEY, "hmac-sha256", "my-key"),
		name: "sig1", fields }, { method, url, headers });
	const sent = require("https").request({ method, host: new URL(url).host, path: url.slice(new URL(url).origin.length),
		headers: request.headers, ca: require("fs").readFileSync(process.env.SSL_CERT_FILE) }, answer => {
		let text = "";
		answer.on("data", data => text += data).on("end", () => console.log(text));
	});
	sent.end();
})();
"""


def send_message(online, method, path, cover, *fields):
    key = word()
    give(online, key, "--scheme", "message", "--id", "my-key").ok()
    where = online.lab.judge(JUDGE_MESSAGE, KEY=key, ALG="hmac-sha256", MODULES=str(NPM / "node_modules"))
    done = online.run(OPEN, "node", "-e", MESSAGE, "x", method, f"{UP}{where}{path}", cover, *fields,
                      options=("-s", "KEY", "-v", f"{online.lab.folder / 'npm'}:/opt/npm:ro"))
    return json.loads(done.ok()), where


@needs("node")
@needs_npm_module("http-message-signatures")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_length_of_none_in_a_message_signature(online, method):
    said, where = send_message(online, method, "", "@method,content-length", "content-length: 0")
    assert said == {"right": True} and online.lab.judgements(where) == [200]


@needs("node")
@needs_npm_module("http-message-signatures")
@pytest.mark.parametrize("cover", ["@path", "@query", "@target-uri", "@request-target"])
def test_a_path_in_a_spelling_of_its_own(online, cover):
    """The signature is checked over what the client sent, and made over what the server gets."""
    said, where = send_message(online, "GET", "/%7Euser/%2d%c3%a4?q=%7e%2D%c3%a4&r=%41", cover)
    assert said == {"right": True} and online.lab.judgements(where) == [200]
    # And that is what rules decide on, and what is recorded.
    assert online.lab.seen("/~user/-%C3%A4?q=~-%C3%A4&r=A")


# ---- HMAC over a query, and over the address of a webhook -----------------------------------------

RESPELT = """
import hashlib, hmac
text = "symbol=%4cTC%7eBTC&side=%c3%a4"
mac = hmac.new(os.environ["KEY"].encode(), text.encode(), hashlib.sha256).hexdigest()
print(json.dumps(fetch(sys.argv[1] + "?" + text + "&signature=" + mac, X_MBX_APIKEY=os.environ["KEY_ID"])))
"""


def test_a_query_in_a_spelling_of_its_own(online):
    key_id, secret = word(64), word(64)
    where = online.lab.judge(JUDGE_EXCHANGE, ID=key_id, SECRET=secret)
    give(online, f"{key_id}\n{secret}\n", "--scheme", "hmac", "--with", "template=binance").ok()
    assert json.loads(run(online, RESPELT, UP + where).ok()) == {"signed": True}
    assert online.lab.judgements(where) == [200]


def test_a_path_with_dots_in_it_is_not_signed_as_another(online):
    """Resolved it would be another path than the one that was signed."""
    key_id, secret = word(64), word(64)
    where = online.lab.judge(JUDGE_EXCHANGE, ID=key_id, SECRET=secret)
    give(online, f"{key_id}\n{secret}\n", "--scheme", "hmac", "--with",
         "message={method}{path}", "--with", "at=header:x-sum", "--with", "id=header:x-mbx-apikey").ok()
    script = """
import hashlib, hmac, http.client, ssl
path = sys.argv[1]
mac = hmac.new(os.environ["KEY"].encode(), ("GET" + path).encode(), hashlib.sha256).hexdigest()
c = http.client.HTTPSConnection("up.example.test")
c.request("GET", path, headers={"x-mbx-apikey": os.environ["KEY_ID"], "x-sum": mac})
print(c.getresponse().read().decode())
"""
    for dots in ("/a/../b", "/a/%2e%2E/b", "/./b"):
        said = json.loads(run(online, script, where + dots).ok())
        assert "signature is not the placeholder's" in said["reason"]
    assert json.loads(run(online, script, where + "/%62").ok()) == {"signed": False}
    assert online.lab.judgements(where) == [200]


def test_a_webhook_for_an_address_in_a_spelling_of_its_own(online):
    hooks = Hooks(online, "twilio", "--with", "url=https://hooks.example.com")
    path, body = "/hook/%7ebox?to=%2b1%2d2&x=%c3%a4", "Body=hello&From=me"
    text = "https://hooks.example.com" + path + "BodyhelloFromme"
    made = base64.b64encode(hmac.new(hooks.real.encode(), text.encode(), hashlib.sha1).digest()).decode()
    fields = {"content-type": "application/x-www-form-urlencoded", "x-twilio-signature": made}
    assert hooks.send(body, path=path, **fields) == (200, "good")
    assert hooks.send(body, path=path.replace("%7e", "%7f"), **fields)[0] == 401


# ---- two that sign ----------------------------------------------------------------------------

FORM_HMAC = """
import hashlib, hmac
body = urllib.parse.urlencode({"amount": "17", **EXTRA}).encode()
mac = hmac.new(os.environ["PAY"].encode(), body, hashlib.sha256).hexdigest()
print(json.dumps(fetch(sys.argv[1], body, x_sum=mac, **FIELDS)))
"""
JUDGE_FORM = """
import hashlib, hmac, jwt, urllib.parse
def judge(method, url, fields, body):
    form = dict(urllib.parse.parse_qsl(body.decode()))
    token = form.get("assertion") or fields.get("authorization", "").partition("Bearer ")[2]
    claims = jwt.decode(token, JW, algorithms=["HS256"]) if token else None
    assert fields["x-sum"] == hmac.new(PAY.encode(), body, hashlib.sha256).hexdigest()
    return {"claims": claims}
"""
TOKEN = """
import jwt
token = jwt.encode({"iss": "me"}, os.environ["JW"], algorithm="HS256")
"""


@needs_python("jwt")
@pytest.mark.parametrize("order", [("JW", "PAY"), ("PAY", "JW")], ids="-".join)
@pytest.mark.parametrize("token", ["none", "bearer", "form"])
def test_a_token_and_a_signature_of_the_body(online, order, token):
    """Whichever secret is named first; the body's is of the body with the token in it."""
    keys = {"JW": word(), "PAY": word()}
    give(online, keys["JW"], "--scheme", "jwt", name="JW").ok()
    give(online, keys["PAY"], "--scheme", "hmac", "--with", "message={body}", "--with", "at=header:x-sum",
         name="PAY").ok()
    where = online.lab.judge(JUDGE_FORM, **keys)
    script = {"none": "EXTRA, FIELDS = {}, {}\n",
              "bearer": TOKEN + "EXTRA, FIELDS = {}, {'authorization': 'Bearer ' + token}\n",
              "form": TOKEN + "EXTRA, FIELDS = {'assertion': token}, {}\n"}[token] + FORM_HMAC
    options = [option for name in order for option in ("-s", name)]
    said = json.loads(run(online, script, UP + where, options=options).ok())
    assert said == {"claims": {"iss": "me"} if token != "none" else None}
    assert online.lab.judgements(where) == [200]
    # A token of somebody else's does not go with it.
    done = run(online, script.replace('os.environ["JW"]', '"my own"'), UP + where, options=options)
    if token != "none":
        assert "not the placeholder's" in json.loads(done.ok())["reason"]
        assert online.lab.judgements(where) == [200]


@needs_python("jwt")
@pytest.mark.parametrize("order", [("ONE", "TWO"), ("TWO", "ONE")], ids="-".join)
def test_two_that_sign_forms(online, order):
    """One has its signature in the form, the other in a field: a form without the one has the other's."""
    keys = {"ONE": word(), "TWO": word()}
    give(online, keys["ONE"], "--scheme", "hmac", "--with", "message={body}", "--with", "at=param:sum", name="ONE").ok()
    give(online, keys["TWO"], "--scheme", "hmac", "--with", "message={body}", "--with", "at=header:x-sum",
         name="TWO").ok()
    where = online.lab.judge(JUDGE_FORM, JW="", PAY=keys["TWO"])
    script = "EXTRA, FIELDS = {}, {}\n" + FORM_HMAC.replace("PAY", "TWO")
    options = [option for name in order for option in ("-s", name)]
    assert json.loads(run(online, script, UP + where, options=options).ok()) == {"claims": None}
    assert online.lab.judgements(where) == [200]


def test_a_form_that_is_not_signed_has_the_real_id(online):
    key_id, secret = word(64), word(64)
    where = online.lab.judge(JUDGE_EXCHANGE, ID=key_id, SECRET=secret)
    give(online, f"{key_id}\n{secret}\n", "--scheme", "hmac", "--with", "template=binance").ok()
    script = 'print(json.dumps(fetch(sys.argv[1], b"symbol=LTCBTC", X_MBX_APIKEY=os.environ["KEY_ID"])))'
    assert json.loads(run(online, script, UP + where).ok()) == {"signed": False}
    assert online.lab.judgements(where) == [200]
