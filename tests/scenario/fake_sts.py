"""A stand-in for Amazon's token service.  botocore, which is Amazon's own, checks each request: its signature, and its shape by
the service's model."""
import datetime
import http.server
import threading
import urllib.parse

from fake_ecs import SigV4Auth, wrong_signature

if SigV4Auth is not None:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

ANSWER = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><AssumedRoleUser>
<AssumedRoleId>A:b</AssumedRoleId><Arn>{role}</Arn></AssumedRoleUser><Credentials><AccessKeyId>{id}</AccessKeyId>
<SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken><Expiration>{until}</Expiration></Credentials>
</AssumeRoleResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></AssumeRoleResponse>"""
REFUSAL = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>{code}</Code>
<Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"""


class Sts:
    """Gives KEY, (id, secret, token), for the role, to whoever signs with BASE, the same; for SECONDS."""

    def __init__(self, base, key, role, external=None, seconds=3600):
        self.base, self.key, self.role, self.external, self.seconds = base, key, role, external, seconds
        self.asked, self.refused = [], []
        sts = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                status, text = sts.answer(self)
                self.send_response(status)
                self.send_header("Content-Type", "text/xml")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wrong(self, handler):
        fields = {name.lower(): value for name, value in handler.headers.items()}
        why = wrong_signature("GET", self.url + handler.path, fields, b"", *self.base, service="sts", signed=())
        if why:
            return "SignatureDoesNotMatch", why
        said = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(handler.path).query, strict_parsing=True))
        if (said.pop("Action"), said.pop("Version")) != ("AssumeRole", "2011-06-15"):
            return "InvalidAction", "no such action"
        model = ServiceModel(Loader().load_service_model("sts", "service-2"))
        shape = model.operation_model("AssumeRole").input_shape
        report = ParamValidator().validate(said, shape)
        if report.has_errors() or set(said) - set(shape.members):
            return "ValidationError", report.generate_report() or str(said)
        if said["RoleArn"] != self.role or said.get("ExternalId") != self.external:
            return "AccessDenied", "not this role"
        self.asked.append(said)
        return None

    def answer(self, handler):
        wrong = self.wrong(handler)
        if wrong:
            self.refused.append(wrong)
            return 403, REFUSAL.format(code=wrong[0], message=wrong[1])
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.seconds)
        id, secret, token = self.key
        return 200, ANSWER.format(role=self.role, id=id, secret=secret, token=token, until=until.strftime("%Y-%m-%dT%H:%M:%SZ"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
