"""Where the key to S3 comes from: variables, files, and the services of containers and machines."""
import datetime
import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dispatches import capability
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
    ("[default]\nrole_arn = arn:aws:iam::1:role/x\n", "no key in the profile 'default'"),
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
