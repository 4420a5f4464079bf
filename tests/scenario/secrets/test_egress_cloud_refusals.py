"""A refusal comes in the error documents of the cloud that the client speaks with, so that its
library shows the reason."""
import base64
import json
import os

import pytest

from egress_lab import needs, needs_npm_module, needs_python

REASON = "ask <Ann> & wait"
DENY = f"  - deny: '**.amazonaws.com'\n    reason: '{REASON}'\n  - deny: '**.windows.net'\n    reason: '{REASON}'\n"


def run(online, *words, options=()):
    key_id, secret = "AKIA" + base64.b32encode(os.urandom(10)).decode(), base64.b64encode(os.urandom(30)).decode()
    online.operator.cloister("secret", "add", "AWS", "--like", "aws", input=f"{key_id}\n{secret}").ok()
    return online.run(DENY, *words, options=("-s", "AWS", "-e", "AWS_DEFAULT_REGION=eu-west-1", "-e",
                                             "AWS_MAX_ATTEMPTS=1", *options), seconds=60)


BOTO3 = """
import boto3, botocore.exceptions, json
def said(call, *args, **words):
    try:
        call(*args, **words)
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"], error.response["Error"]["Message"], str(error)
s3 = boto3.client("s3")
url = s3.generate_presigned_url("get_object", {"Bucket": "box", "Key": "x"})
print(json.dumps({
    "s3": said(s3.list_buckets),
    "s3-put": said(s3.put_object, Bucket="box", Key="k", Body=b"x"),
    "sts": said(boto3.client("sts").get_caller_identity),
    "ec2": said(boto3.client("ec2").describe_instances),
    "iam": said(boto3.client("iam").list_users),
    "sqs": said(boto3.client("sqs").list_queues),
    "dynamodb": said(boto3.client("dynamodb").list_tables),
    "lambda": said(boto3.client("lambda").list_functions),
    "route53": said(boto3.client("route53").list_hosted_zones),
    "logs": said(boto3.client("logs").describe_log_groups),
}))
"""


@needs_python("boto3")
def test_boto3_shows_the_reason(online):
    said = json.loads(run(online, "/usr/bin/python3", "-c", BOTO3).ok())
    for service, (code, message, text) in said.items():
        assert code in ("AccessDenied", "AccessDeniedException"), (service, code, message)
        assert message.startswith(f"refused by cloister: {REASON}. Do not try again"), (service, message)
        assert REASON in text
    assert {event["why"] for event in online.events(verdict="deny")} == {"rule"}


@needs("aws")
@pytest.mark.parametrize("words", [("s3", "ls"), ("dynamodb", "list-tables"), ("ec2", "describe-regions")],
                         ids=lambda words: words[0])
def test_awscli_shows_the_reason(online, words):
    done = run(online, "aws", *words)
    assert done.status != 0 and "AccessDenied" in done.err and f"refused by cloister: {REASON}" in done.err


AZURE = """
const { BlobServiceClient, StorageSharedKeyCredential } = require("/opt/npm/node_modules/@azure/storage-blob");
const key = new StorageSharedKeyCredential("box", Buffer.from("no key at all").toString("base64"));
const client = new BlobServiceClient("https://box.blob.core.windows.net", key, { retryOptions: { maxTries: 1 } });
client.getProperties().catch(error => console.log(JSON.stringify([error.code, error.message])));
"""


@needs("node")
@needs_npm_module("@azure/storage-blob")
def test_azures_library_shows_the_reason(online):
    done = run(online, "node", "-e", AZURE, options=("-v", f"{online.lab.folder / 'npm'}:/opt/npm:ro"))
    code, message = json.loads(done.ok())
    assert code == "AuthorizationFailure" and f"refused by cloister: {REASON}" in message
