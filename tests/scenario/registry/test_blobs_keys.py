"""Where the key to S3 comes from: variables, files, and the services of containers and machines."""
import datetime
import hashlib
import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dispatches import capability
from fake_ecs import REGION, SigV4Auth
from fake_sts import Sts
from ports import free_port
from s3_servers import error, front_of, server_of, stop_all, times
from test_blobs_s3 import Place, fails

TOKEN = "/latest/api/token"
ROLES = "/latest/meta-data/iam/security-credentials/"


@pytest.fixture(scope="module", autouse=True)
def servers():
    yield
    stop_all()


@pytest.fixture
def place(operator, tmp_path_factory):
    """A place whose key is in no variable."""
    server = server_of("swift", tmp_path_factory)
    place = Place(operator, server, server.port)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del operator.env[name]
    operator.env["AWS_EC2_METADATA_DISABLED"] = "true"
    return place


class Service:
    """Of a machine or a container: answers GET and PUT of PATHS with a status and a body, and records its requests."""

    def __init__(self, paths):
        self.seen = seen = []

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                seen.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
                status, body = paths.get((self.command, self.path.partition("?")[0]), lambda _: (404, ""))(seen[-1][2])
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_PUT = do_GET

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def answer_of(server, seconds=3600, secret=None):
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return json.dumps({"Code": "Success", "AccessKeyId": server.id, "SecretAccessKey": secret or server.secret, "Token": "",
                       "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ")})


def profile(name, server, secret=None):
    return f"[{name}]\naws_access_key_id = {server.id}\naws_secret_access_key={secret or server.secret}\n"


def register(operator):
    operator.folder("c", {"capability.yaml": '{"name": "c"}', "f": "x"})
    return operator.cloister("capability", "register", operator.base / "c")


# ---- files -----------------------------------------------------------------------------------------


def test_the_file_of_the_home(operator, place):
    operator.file("home/.aws/credentials", "# keys\n" + profile("other", place.server, "wrong") +
                  profile("default", place.server))
    capability(operator, "c", {"f": "x"})
    assert place.has("x")
    operator.env["AWS_PROFILE"] = "other"
    operator.file("capability-c/f", "y")
    assert "is another one" in fails(operator, "capability", "register", operator.base / "capability-c")


def test_a_profile_of_another_file(operator, place):
    operator.env |= {"AWS_SHARED_CREDENTIALS_FILE": str(operator.file("keys", profile("box", place.server))), "AWS_PROFILE": "box"}
    assert register(operator).status == 0 and place.has("x")
    operator.env["AWS_PROFILE"] = "none"
    operator.file("c/f", "y")
    assert "no profile 'none'" in fails(operator, "capability", "register", operator.base / "c")


@pytest.mark.parametrize("text, part", [
    ("[default]\nrole_arn = arn:aws:iam::1:role/x\n", "it needs source_profile"),
    ("[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = none\n", "no profile 'none'"),
    ("[default]\nrole_arn = r\nsource_profile = b\n[b]\nrole_arn = s\n", "roles behind each other"),
    ("[default]\naws_access_key_id = a\n", "no key in the profile 'default'"),
    ("[default]\nsso_account_id = 1\nsso_role_name = r\n", "needs sso_session or sso_start_url"),
    ("", "no profile 'default'"),
    ("[default]\naws_access_key_id = a b\naws_secret_access_key = c\n", "a character that it cannot have"),
])
def test_files_without_a_key(operator, place, text, part):
    operator.file("home/.aws/credentials", text)
    assert part in register(operator).sentence()


def test_one_variable_is_not_enough(operator, place):
    operator.env["AWS_ACCESS_KEY_ID"] = "id"
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY need each other" in register(operator).sentence()


def test_no_key(operator, place):
    assert "there is no key to S3" in register(operator).sentence()


def test_a_file_that_was_renewed(operator, tmp_path_factory):
    """The server calls the key expired, and the file has a new one meanwhile."""
    server = server_of("s3rver", tmp_path_factory)
    with front_of(server) as front:
        place = Place(operator, server, front.port)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del operator.env[name]
        path = operator.file("home/.aws/credentials", "[default]\naws_access_key_id = OLD\naws_secret_access_key = old\n")

        def renew(handler, request):
            new = path.with_name("new")
            new.write_text(profile("default", server))
            operator.own(new).rename(path)
            return handler.answer(400, error("ExpiredToken"))
        front.plans.append(times(1, "GET", "/owner", renew))
        assert register(operator).status == 0 and place.has("x")
        assert "Credential=OLD/" in front.seen[0].fields["authorization"]
        assert "Credential=S3RVER/" in front.seen[-1].fields["authorization"]


# ---- roles -------------------------------------------------------------------------------------------

ROLE = "arn:aws:iam::123456789012:role/blobs/of+cloister"


@pytest.fixture
def sts(operator, place):
    if SigV4Auth is None:
        pytest.skip("no botocore (package python3-botocore)")
    made = []

    def start(base=("AKBASE", "base secret".replace(" ", "/"), ""), **how):
        made.append(Sts(base, (place.server.id, place.server.secret, "session"), ROLE, **how))
        operator.env |= {"AWS_ENDPOINT_URL_STS": made[-1].url, "AWS_REGION": REGION}
        return made[-1]
    yield start
    for one in made:
        one.server.shutdown()
        one.server.server_close()


BASE = "[base]\naws_access_key_id = AKBASE\naws_secret_access_key = base/secret\n"


@pytest.mark.parametrize("config", [True, False])
def test_a_role_of_a_profile(operator, place, sts, config):
    """The key of another profile signs the question; the profiles are in either file."""
    with_role = f"role_arn = {ROLE}\nsource_profile = base\nexternal_id = ext=1,@:/-\nrole_session_name = me@here\n"
    service = sts(external="ext=1,@:/-")
    if config:
        operator.file("home/.aws/config", f"[default]\nregion = mars\n[profile big]\n{with_role}[big]\nrole_arn = other\n")
        operator.file("home/.aws/credentials", BASE)
    else:
        operator.file("home/.aws/credentials", f"[big]\n{with_role}" + BASE)
    operator.env["AWS_PROFILE"] = "big"
    assert register(operator).status == 0 and place.has("x"), service.refused
    assert not service.refused
    assert [(a["RoleArn"], a["RoleSessionName"]) for a in service.asked] == [(ROLE, "me@here")]


def test_a_role_that_somebody_else_has(operator, place, sts):
    service = sts(base=("AKBASE", "another", ""))
    operator.file("home/.aws/credentials", f"[default]\nrole_arn = {ROLE}\nsource_profile = base\n{BASE}")
    said = register(operator).sentence()
    assert "SignatureDoesNotMatch" in said and ROLE in said and service.refused
    assert "base/secret" not in said


def test_a_role_for_a_containers_key(operator, place, sts):
    """The container's service gives the key that takes the role, and a token with it."""
    service = sts(base=("AKCONTAINER", "of/the/container", "session/of+it="))
    answer = json.dumps({"AccessKeyId": "AKCONTAINER", "SecretAccessKey": "of/the/container", "Token": "session/of+it="})
    operator.file("home/.aws/config", f"[default]\nrole_arn = {ROLE}\ncredential_source = EcsContainer\n")
    with Service({("GET", "/key"): lambda fields: (200, answer)}) as container:
        operator.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = container.url + "/key"
        assert register(operator).status == 0 and place.has("x"), service.refused
    assert not service.refused and len(service.asked) >= 1


def test_the_key_that_takes_a_role_was_renewed(operator, place, sts):
    """The token service refuses the old one, and the file has a new one."""
    service = sts()
    path = operator.file("home/.aws/credentials", f"[default]\nrole_arn = {ROLE}\nsource_profile = base\n"
                         "[base]\naws_access_key_id = OLD\naws_secret_access_key = old\n")
    answer = service.answer

    def renew(handler):
        told = answer(handler)
        if service.refused and path.read_text().count("OLD"):
            new = path.with_name("new")
            new.write_text(f"[default]\nrole_arn = {ROLE}\nsource_profile = base\n{BASE}")
            operator.own(new).rename(path)
        return told
    service.answer = renew
    assert register(operator).status == 0 and place.has("x")
    assert len(service.refused) == 1 and service.asked


PRINTS = """#!/bin/sh
echo "$#|$1|$2" >>{log}
printf '{{"Version": 1, "AccessKeyId": "%s", "SecretAccessKey": "%s", "SessionToken": "", "Expiration": "%s"}}' {id} {secret} {until}
"""


def program(operator, server, name, seconds=3600):
    """A program that prints the server's key, and notes each time."""
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    log = operator.home / f"{name}.log"
    path = operator.file(f"home/{name}", PRINTS.format(log=log, id=server.id, secret=server.secret, until=until.strftime("%Y-%m-%dT%H:%M:%SZ")))
    path.chmod(0o700)
    return path, log


def test_a_program_that_prints_the_key(operator, place):
    """It gets its words without a shell, once for a key that lasts, and again for each that is about to end."""
    lasts, log = program(operator, place.server, "lasts")
    operator.file("home/.aws/config", f"[profile p]\ncredential_process = {lasts} \"a  b\" 'c $HOME'\n")
    operator.env["AWS_PROFILE"] = "p"
    assert register(operator).status == 0 and place.has("x")
    assert log.read_text() == "2|a  b|c $HOME\n"


def test_a_program_whose_key_is_about_to_end(operator, place):
    ends, log = program(operator, place.server, "ends", seconds=60)
    operator.file("home/.aws/credentials", f"[default]\ncredential_process = {ends}\n")
    assert register(operator).status == 0 and place.has("x")
    # A request later than 15 s would ask again; the first does in any case.
    assert log.read_text().startswith("0||\n")


@pytest.mark.parametrize("command,part", [("/no/such/program", "it failed"), ("false", "it failed"), ("echo nothing", "has no key"),
                                          ('"x', "a quote without its end"), ("yes", "it failed")])
def test_a_program_that_prints_no_key(operator, place, command, part):
    operator.file("home/.aws/credentials", f"[default]\ncredential_process = {command}\n")
    assert part in register(operator).sentence("credential_process")


def test_a_program_for_the_key_that_takes_a_role(operator, place, sts):
    service = sts()
    operator.file("key.json", json.dumps({"Version": 1, "AccessKeyId": "AKBASE", "SecretAccessKey": "base/secret"}))
    operator.file("home/.aws/config", f"[default]\nrole_arn = {ROLE}\nsource_profile = base\n"
                  f"[profile base]\ncredential_process = cat {operator.base / 'key.json'}\n")
    assert register(operator).status == 0 and place.has("x"), service.refused
    assert not service.refused and service.asked


def test_a_login_in_a_browser(operator, place):
    """`aws sso login` has left a token; the service gives the role's key for it."""
    expires = int((datetime.datetime.now() + datetime.timedelta(hours=1)).timestamp() * 1000)
    key = {"roleCredentials": {"accessKeyId": place.server.id, "secretAccessKey": place.server.secret, "sessionToken": "s",
                               "expiration": expires}}
    operator.file("home/.aws/config", "[profile in]\nsso_session = team\nsso_account_id = 123456789012\nsso_role_name = Blobs\n"
                  "[sso-session team]\nsso_region = eu-west-1\nsso_start_url = https://team.awsapps.com/start\n")
    name = hashlib.sha1(b"team").hexdigest()
    operator.env["AWS_PROFILE"] = "in"
    with Service({("GET", "/federation/credentials"): lambda fields: (200, json.dumps(key))
                  if fields.get("x-amz-sso_bearer_token") == "good" else (401, "{}")}) as portal:
        operator.env["AWS_ENDPOINT_URL_SSO"] = portal.url
        assert "aws sso login --profile in" in register(operator).sentence()
        operator.file(f"home/.aws/sso/cache/{name}.json", json.dumps({"accessToken": "old"}))
        assert "401" in register(operator).sentence()
        operator.file(f"home/.aws/sso/cache/{name}.json", json.dumps({"accessToken": "good"}))
        assert register(operator).status == 0 and place.has("x")
    asked = urllib.parse.parse_qs(urllib.parse.urlsplit(portal.seen[-1][1]).query)
    assert asked == {"role_name": ["Blobs"], "account_id": ["123456789012"]}


# ---- services ----------------------------------------------------------------------------------------


def test_the_service_of_a_container(operator, place):
    token = operator.file("token/now", "first\n")
    with Service({("GET", "/key"): lambda fields: (200, answer_of(place.server)) if fields.get("authorization") == "first"
                  else (403, "")}) as service:
        operator.env |= {"AWS_CONTAINER_CREDENTIALS_FULL_URI": service.url + "/key",
                         "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)}
        assert register(operator).status == 0 and place.has("x")
        assert len(service.seen) == 1
        token.write_text("another")
        operator.file("c/f", "y")
        assert "answers with 403" in fails(operator, "capability", "register", operator.base / "c")


def test_a_service_elsewhere_needs_tls(operator, place):
    operator.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://192.0.2.1/key"
    assert "another machine without TLS" in register(operator).sentence()


def test_the_service_of_a_machine(operator, place):
    def with_token(body):
        return lambda fields: (200, body) if fields.get("x-aws-ec2-metadata-token") == "T0ken" else (401, "")
    with Service({("PUT", TOKEN): lambda fields: (200, "T0ken") if fields.get("x-aws-ec2-metadata-token-ttl-seconds") else
                  (400, ""), ("GET", ROLES): with_token("box"),
                  ("GET", ROLES + "box"): with_token(answer_of(place.server))}) as service:
        operator.env |= {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url + "/"}
        assert register(operator).status == 0 and place.has("x")
        assert [path for _, path, _ in service.seen] == [TOKEN, ROLES, ROLES + "box"]


def test_a_machine_without_a_service(operator, place):
    operator.env |= {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    assert "there is no key to S3 in variables or files" in register(operator).sentence()


# ---- the token service -----------------------------------------------------------------------------

ROLE, JWT = "arn:aws:iam::123456789012:role/cells", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln+/="


def token_service(server, seen, seconds=3600):
    """Amazon's, as botocore describes it: it checks the request by that model, and answers as documented."""
    session = pytest.importorskip("botocore.session").get_session()
    from botocore.validate import ParamValidator
    operation = session.get_service_model("sts").operation_model("AssumeRoleWithWebIdentity")

    def answer(_):
        said = dict(urllib.parse.parse_qsl(seen()[-1][1].partition("?")[2], strict_parsing=True))
        assert (said.pop("Action"), said.pop("Version")) == (operation.name, operation.service_model.api_version)
        report = ParamValidator().validate(said, operation.input_shape)
        assert not report.has_errors(), report.generate_report()
        if (said["RoleArn"], said["WebIdentityToken"]) != (ROLE, JWT):
            return 400, "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>no</Message></Error></ErrorResponse>"
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
        return 200, (f"<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{server.id}"
                     f"</AccessKeyId><SecretAccessKey>{server.secret}</SecretAccessKey><SessionToken></SessionToken><Expiration>"
                     f"{until:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
                     "</AssumeRoleWithWebIdentityResponse>")
    return answer


def test_a_role_for_a_token(operator, place):
    answers = {}
    with Service(answers) as sts:
        answers["GET", "/"] = token_service(place.server, lambda: sts.seen)
        operator.env |= {"AWS_ROLE_ARN": ROLE, "AWS_ENDPOINT_URL_STS": sts.url,
                         "AWS_WEB_IDENTITY_TOKEN_FILE": str(operator.own(operator.file("token/jwt", JWT + "\n")))}
        # A file with a key comes after it.
        operator.file("home/.aws/credentials", profile("default", place.server, "wrong"))
        assert register(operator).status == 0 and place.has("x")
        assert "authorization" not in sts.seen[0][2]
        operator.own(operator.file("token/jwt", "another"))
        operator.file("c/f", "y")
        said = fails(operator, "capability", "register", operator.base / "c")
        assert "InvalidIdentityToken" in said and ROLE in said and "another" not in said
        operator.env["AWS_PROFILE"] = "default"
        assert "is another one" in fails(operator, "capability", "register", operator.base / "c")
    del operator.env["AWS_PROFILE"]
    operator.env["AWS_ENDPOINT_URL_STS"] = "http://sts.example.com"
    assert "without TLS" in fails(operator, "capability", "register", operator.base / "c")
