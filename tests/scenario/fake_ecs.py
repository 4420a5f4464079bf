"""A stand-in for Amazon's Elastic Container Service.  botocore, which is Amazon's own, checks each request: its signature, and
its shape by the service's model.  A task is a `cloister worker` of this machine, with folders of its own."""
import hashlib
import http.server
import json
import os
import re
import threading

from fake_engine import worker_of

try:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator
except ImportError:
    SigV4Auth = None

REGION = "eu-west-1"
ACCOUNT = f"arn:aws:ecs:{REGION}:123456789012"


def wrong_signature(method, url, headers, body, id, secret, token, service="ecs", signed=("x-amz-target",)):
    """Why the request is not signed by this key, or None.  SIGNED: fields that must be, besides the usual."""
    found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?"
                         r"Signature=([0-9a-f]{64})", headers.get("authorization", ""))
    if not found:
        return "there is no signature"
    if (found[1], found[3], found[4]) != (id, REGION, service):
        return f"wrong scope {found[0]}"
    if token and headers.get("x-amz-security-token") != token:
        return "no session token"
    names = found[5].split(";")
    if not {"host", "x-amz-date", *signed} <= set(names):
        return "too little is signed"
    if headers.get("x-amz-content-sha256") != hashlib.sha256(body).hexdigest():
        return "another body"
    request = AWSRequest(method=method, url=url, data=body, headers={name: headers[name] for name in names})
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(id, secret), service, REGION)
    signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return None if signature == found[6] else "the signature does not match"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        """The services of a container and of a machine that give out keys."""
        status, value = self.server.ecs.give_key(self.path, self.headers)
        self.send(status, value)

    do_PUT = do_GET

    def send(self, status, value):
        data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.ecs.lock:
            self.send(*self.server.ecs.answer(self.path, headers, body))


class FakeEcs:
    def __init__(self, machines, run=worker_of):
        self.machines, self.run = machines, run
        self.model = ServiceModel(Loader().load_service_model("ecs", "service-2"))
        self.key = {"id": "AKIDEXAMPLE", "secret": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "token": ""}
        self.tasks, self.definitions, self.revisions, self.asked, self.wrong, self.instead = {}, {}, {}, [], [], None
        self.lock = threading.RLock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.ecs = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def env(self):
        return {"AWS_ENDPOINT_URL_ECS": self.url, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": self.key["id"],
                "AWS_SECRET_ACCESS_KEY": self.key["secret"]}

    def end(self):
        self.server.shutdown()
        self.server.server_close()
        for task in self.tasks.values():
            task["worker"].end()

    def give_key(self, path, headers):
        given = {"AccessKeyId": self.key["id"], "SecretAccessKey": self.key["secret"], "Token": self.key["token"],
                 "Expiration": "2099-01-01T00:00:00Z"}
        if path == "/container":
            return 200, given
        if path == "/latest/api/token":
            return 200, "the-token"
        if headers.get("X-aws-ec2-metadata-token") != "the-token":
            return 401, ""
        role = "/latest/meta-data/iam/security-credentials/"
        return (200, "the-role") if path == role else (200, given) if path == role + "the-role" else (404, "")

    def answer(self, path, headers, body):
        why = wrong_signature("POST", f"http://{headers['host']}{path}", headers, body, **self.key)
        action = headers.get("x-amz-target", "").removeprefix("AmazonEC2ContainerServiceV20141113.")
        self.asked.append(action)
        if why is None and headers.get("content-type") != "application/x-amz-json-1.1":
            why = "another type"
        if why is not None:
            self.wrong.append(why)
            return 400, {"__type": "InvalidSignatureException", "message": why}
        said = json.loads(body)
        report = ParamValidator().validate(said, self.model.operation_model(action).input_shape)
        if report.has_errors():
            self.wrong.append(report.generate_report())
            return 400, {"__type": "InvalidParameterException", "message": report.generate_report()}
        if self.instead is not None and (answer := self.instead(action, said)) is not None:
            return answer
        return getattr(self, action)(said)

    # ---- what it can do

    def DescribeClusters(self, said):
        return 200, {"clusters": [{"clusterName": name, "status": "ACTIVE"} for name in said["clusters"] if name == "work"], "failures": []}

    def DescribeTaskDefinition(self, said):
        found = self.definitions.get(said["taskDefinition"])
        if found is None:
            return 400, {"__type": "ClientException", "message": "Unable to describe task definition."}
        return 200, {"taskDefinition": found}

    def RegisterTaskDefinition(self, said):
        arn = f"{ACCOUNT}:task-definition/{said['family']}:{len(self.revisions) + 1}"
        # The family's name is that of its newest.
        self.definitions[said["family"]] = self.revisions[arn] = {
            **said, "taskDefinitionArn": arn, "revision": len(self.revisions) + 1, "status": "ACTIVE", "volumes": []}
        return 200, {"taskDefinition": self.revisions[arn]}

    def RunTask(self, said):
        definition = self.revisions.get(said["taskDefinition"]) or self.definitions[said["taskDefinition"]]
        container, = definition["containerDefinitions"]
        override, = said["overrides"]["containerOverrides"]
        assert override["name"] == container["name"]
        env = {one["name"]: one["value"] for one in override["environment"]}
        # The agent of ECS fetches these.
        env |= {one["name"]: self.secrets[one["valueFrom"]] for one in container.get("secrets", [])}
        arn = f"{ACCOUNT}:task/{said['cluster']}/{os.urandom(16).hex()}"
        self.tasks[arn] = {"worker": self.run(self.machines, override["command"], env), "by": said["startedBy"], "said": said}
        return 200, {"tasks": [{"taskArn": arn, "lastStatus": "PROVISIONING", "desiredStatus": "RUNNING"}], "failures": []}

    def ListTasks(self, said):
        assert set(said) <= {"cluster", "startedBy", "nextToken"}
        arns = sorted(arn for arn, task in self.tasks.items() if task["by"] == said["startedBy"] and not task["worker"].over())
        first = int(said.get("nextToken", "0"))
        # Pages are small, so that they are tested.
        return 200, {"taskArns": arns[first:first + 2], **({"nextToken": str(first + 2)} if len(arns) > first + 2 else {})}

    def DescribeTasks(self, said):
        tasks = []
        for arn in said["tasks"]:
            worker = self.tasks[arn]["worker"]
            tasks.append({"taskArn": arn, "lastStatus": "STOPPED" if worker.over() else "RUNNING",
                          "stoppedReason": "Essential container in task exited" if worker.over() else "",
                          "containers": [{"name": "worker", **({"exitCode": worker.status()} if worker.over() else {})}]})
        return 200, {"tasks": tasks, "failures": []}

    def StopTask(self, said):
        self.tasks[said["task"]]["worker"].end()
        return 200, {"task": {"taskArn": said["task"]}}
