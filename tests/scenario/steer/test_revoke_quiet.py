"""`revoke --quiet`: the agent gets the service's own response to a key that is no longer valid."""
import json

import pytest

from egress_lab import CURL, await_event, needs_python
from operators import only_user
from service import Service
from test_egress_s3 import S3, Keys, s3  # noqa: F401  a fixture
from test_egress_secrets import canary

pytestmark = only_user

# Host, how the key is sent, status, and words of the answer.
SERVICES = [
    ("api.anthropic.com", "x-api-key: $KEY", 401, lambda a: a["error"]["type"] == "authentication_error"),
    ("api.anthropic.com", "authorization: Bearer $KEY", 401, lambda a: "expired" in a["error"]["message"]),
    ("api.openai.com", "authorization: Bearer $KEY", 401, lambda a: a["error"]["code"] == "invalid_api_key"),
    ("api.github.com", "authorization: token $KEY", 401, lambda a: a["message"] == "Bad credentials"),
    ("slack.com", "authorization: Bearer $KEY", 200, lambda a: a == {"ok": False, "error": "token_expired"}),
    ("api.stripe.com", "authorization: Bearer $KEY", 401, lambda a: a["error"]["code"] == "api_key_expired"),
    ("up.example.test", "authorization: Bearer $KEY", 401, lambda a: a["error"] == "invalid_token"),
    ("up.example.test", "x-my-key: $KEY", 401, lambda a: a["error"] == "Unauthorized"),
]


def says_nothing(text):
    return "cloister" not in text.lower() and "revoke" not in text.lower()


@pytest.mark.parametrize(("host", "field", "status", "fits"), SERVICES, ids=[f"{s[0]}-{s[1].split(':')[0]}" for s in SERVICES])
def test_is_the_services_own_answer(online, host, field, status, fits):
    real = canary()
    online.operator.cloister("secret", "add", "KEY", "--host", host, "--in", f"header:{field.split(':')[0]}",
                             input=real).ok()
    online.start(f"  - allow: {host}\n", "sleep", "1000", options=("-s", "KEY"))
    online.operator.cloister("revoke", online.cell, "KEY", "--quiet", "--why", "seen in a paste").ok()
    for extra in ("", "-d {} "):
        told = online.inside("sh", "-c", f'{" ".join(CURL)} -i {extra}-H "{field}" https://{host}/v1/x').ok()
        head, _, body = told.replace("\r", "").partition("\n\n")
        assert says_nothing(told), told
        assert head.split()[1] == str(status) and "\ndate: " in head.lower()
        assert fits(json.loads(body)), body
    assert not online.lab.seen(real)
    # The operator's own records say what it was.
    event = await_event(online, type="http", why="revoked")
    assert event["verdict"] == "deny" and event["status"] == status and "has been revoked" in event["note"]
    steer, = online.events(type="steer")
    assert (steer["did"], steer["quiet"], steer["why"]) == ("revoke", True, "seen in a paste")
    online.operator.cloister("kill", online.cell).ok()


def test_over_the_api(online):
    """And a courier that is started again keeps it."""
    real = canary()
    online.operator.cloister("secret", "add", "KEY", "--host", "up.example.test", input=real).ok()
    online.start("  - allow: up.example.test\n", "sleep", "1000", options=("-s", "KEY"))
    service = Service(online.operator)
    service.post(f"/v1/cells/{online.cell}/secrets/KEY/revoke", {"quiet": "yes"}).error(400, "invalid", "quiet")
    assert service.post(f"/v1/cells/{online.cell}/secrets/KEY/revoke", {"quiet": True}).ok()["cells"] == 1
    send = f'{" ".join(CURL)} -i -u "me:$KEY" https://up.example.test/echo'
    for _ in range(2):
        told = online.inside("sh", "-c", send).ok()
        assert says_nothing(told) and 'www-authenticate: basic realm=' in told.lower(), told
        service.post(f"/v1/cells/{online.cell}/secrets/KEY/revoke", {"why": "again"}).ok()
    service.stop()
    online.operator.cloister("kill", online.cell).ok()


BOTO = """
import boto3, botocore.exceptions, sys
s3 = boto3.client("s3", endpoint_url=sys.argv[1])
try:
    s3.list_buckets()
except botocore.exceptions.ClientError as error:
    print(error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"], error)
"""


@needs_python("boto3")
def test_amazons_library_reads_it(online, s3):  # noqa: F811
    Keys(online, False)
    online.start("  - allow: '**.amazonaws.com'\n", "sleep", "1000",
                 options=("-s", "AWS", "-e", "AWS_DEFAULT_REGION=eu-west-1"))
    online.operator.cloister("revoke", online.cell, "AWS", "--quiet").ok()
    told = online.inside("/usr/bin/python3", "-c", BOTO, S3).ok()
    assert told.startswith("InvalidAccessKeyId 403 ") and says_nothing(told), told
    online.operator.cloister("kill", online.cell).ok()
