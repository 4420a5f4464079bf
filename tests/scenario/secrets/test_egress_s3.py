"""S3's own clients work in a cell that holds placeholders: a server that works out every signature
with botocore (egress_s3.py), and Swift's, believe what they send."""
import base64
import hashlib
import hmac
import json
import os
import re

import pytest

from egress_lab import helpers_of, needs, needs_npm, needs_python
from operators import IS_STATIC, only_user, status_of, wait_until

SECONDS = 120
S3 = "https://s3.eu-west-1.amazonaws.com"
OPEN = "  - allow: '**.amazonaws.com'\n    body: {max: 64M}\n  - allow: '*.example.test'\n"


@pytest.fixture(scope="module")
def s3(lab):
    with lab.serve("egress_s3.py"):
        yield lab


class Keys:
    """The operator's keys, and the server's observations."""

    def __init__(self, online, token, *more):
        self.online = online
        self.id = ("ASIA" if token else "AKIA") + base64.b32encode(os.urandom(10)).decode()
        self.secret = base64.b64encode(os.urandom(30)).decode()
        self.token = base64.b64encode(os.urandom(150)).decode() if token else None
        values = "\n".join(filter(None, (self.id, self.secret, self.token)))
        online.operator.cloister("secret", "add", "AWS", "--like", "aws", *more, input=values).ok()
        (online.lab.folder / "s3.keys").write_text(json.dumps({self.id: [self.secret, self.token]}))
        self.before = len(online.lab.lines("s3.jsonl"))

    def seen(self):
        """All requests of the test; each of them was signed with the real key, and right."""
        told = [json.loads(line) for line in self.online.lab.lines("s3.jsonl")[self.before:]]
        assert told and not [t for t in told if not t["ok"] and t["why"] not in GENTLE], told
        assert {t["id"] for t in told} == {self.id}
        assert {t["token"] for t in told} == {self.token is not None}
        return told

    def run(self, *words, rules=OPEN, **how):
        options = ["-s", "AWS", "-e", "AWS_DEFAULT_REGION=eu-west-1", "-e", "AWS_REGION=eu-west-1",
                   *how.pop("options", ())]
        done = self.online.run(rules, *words, options=options, seconds=SECONDS, **how)
        for value in (self.id, self.secret, self.token):
            assert not value or value not in done.out + done.err
        return done


# What clients ask for to see whether it is there.
GENTLE = ("NoSuchKey", "NoSuchBucket", "NotImplemented")


@pytest.fixture
def keys(online, s3):
    return lambda token=False, *more: Keys(online, token, *more)


def words_of(told):
    return {t["word"] for t in told}


# ---- clients -----------------------------------------------------------------------------

BOTO3 = """
import boto3, hashlib, os, sys, urllib.request
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
KEYS = ["plain", "with blanks", "a+b", "pl%2Fain", "two//slashes", "uml\\u00e4ut/\\u6f22\\u5b57", "q?x=1&y#z",
        "star*'()!~", "dots/.../x", "=;,:@$"]
for style in ("virtual", "path"):
    s3 = boto3.client("s3", config=Config(signature_version="s3v4", s3={"addressing_style": style}, retries={"max_attempts": 1}))
    box = {"virtual": "first-box", "path": "second-box"}[style]
    s3.create_bucket(Bucket=box, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    for key in KEYS:
        s3.put_object(Bucket=box, Key=key, Body=key.encode(), Metadata={"note": "two  blanks"})
        assert s3.get_object(Bucket=box, Key=key)["Body"].read() == key.encode(), key
    assert {o["Key"] for o in s3.list_objects_v2(Bucket=box)["Contents"]} == set(KEYS)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=box, PaginationConfig={"PageSize": 3})
    assert sum(len(page["Contents"]) for page in pages) == len(KEYS)
    assert s3.get_object(Bucket=box, Key="plain", Range="bytes=1-3")["Body"].read() == b"lai"
    s3.copy_object(Bucket=box, Key="copy", CopySource={"Bucket": box, "Key": "a+b"})
    assert s3.get_object(Bucket=box, Key="copy")["Body"].read() == b"a+b"
    assert s3.head_object(Bucket=box, Key="plain")["Metadata"] == {"note": "two  blanks"}
    # A trailer with its sum, as newer versions always send it.
    s3.put_object(Bucket=box, Key="summed", Body=b"s" * 3000000, ChecksumAlgorithm="CRC32")
    data = os.urandom(11 << 20)
    open("big", "wb").write(data)
    s3.upload_file("big", box, "big", Config=TransferConfig(multipart_threshold=5 << 20,
                                                            multipart_chunksize=5 << 20))
    s3.download_file(box, "big", "back", Config=TransferConfig(multipart_threshold=4 << 20))
    assert open("back", "rb").read() == data
    url = s3.generate_presigned_url("get_object", {"Bucket": box, "Key": "uml\\u00e4ut/\\u6f22\\u5b57"})
    assert os.environ["AWS_ACCESS_KEY_ID"] in url
    assert urllib.request.urlopen(url).read().decode() == KEYS[5]
    url = s3.generate_presigned_url("put_object", {"Bucket": box, "Key": "put"})
    urllib.request.urlopen(urllib.request.Request(url, b"put by URL", method="PUT"))
    assert s3.get_object(Bucket=box, Key="put")["Body"].read() == b"put by URL"
    s3.delete_object(Bucket=box, Key="plain")
    s3.delete_objects(Bucket=box, Delete={"Objects": [{"Key": key} for key in ("a+b", "copy", "put")]})
    left = {o["Key"] for o in s3.list_objects(Bucket=box)["Contents"]}
    assert left == set(KEYS) - {"plain", "a+b"} | {"summed", "big"}, left
print("all of it")
"""


@needs_python("boto3")
@pytest.mark.parametrize("token", [False, True], ids=["key", "session"])
def test_boto3(keys, token):
    mine = keys(token)
    assert mine.run("/usr/bin/python3", "-c", BOTO3).ok() == "all of it\n"
    told = mine.seen()
    assert {"hash", "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"} <= words_of(told)
    assert [t for t in told if t["presigned"] and t["method"] == "PUT"]
    assert {"s3.eu-west-1.amazonaws.com", "first-box.s3.eu-west-1.amazonaws.com"} <= {t["host"] for t in told}


SHELL = {
    "aws": ("aws", """
        s3="aws s3 --only-show-errors"
        aws s3 mb s3://first-box >&2
        $s3 cp small "s3://first-box/a b+c.txt" && $s3 cp "s3://first-box/a b+c.txt" - | cmp - small
        $s3 cp big s3://first-box/big && $s3 cp s3://first-box/big back && cmp big back
        $s3 cp s3://first-box/big s3://first-box/copy
        aws s3api get-object --bucket first-box --key big --range bytes=5-9 part >&2 && [ $(wc -c <part) = 5 ]
        curl -sSf "$(aws s3 presign "s3://first-box/a b+c.txt")" | cmp - small
        aws s3 ls s3://first-box/ | wc -l
        $s3 rm --recursive s3://first-box/ && aws s3 ls s3://first-box/ | wc -l"""),
    "s3cmd": ("s3cmd", """
        printf '[default]\\naccess_key = %s\\nsecret_key = %s\\naccess_token = %s\\nbucket_location = eu-west-1\\n
host_base = s3.eu-west-1.amazonaws.com\\nhost_bucket = %%(bucket)s.s3.eu-west-1.amazonaws.com\\n' \\
            "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" "$AWS_SESSION_TOKEN" >cfg
        s3="s3cmd -c cfg -q"
        $s3 mb s3://first-box
        $s3 put small "s3://first-box/a b+c.txt" && $s3 get "s3://first-box/a b+c.txt" - | cmp - small
        $s3 put --multipart-chunk-size-mb=5 big s3://first-box/big
        $s3 get s3://first-box/big back && cmp big back
        head -c 100 big >part && $s3 get --continue s3://first-box/big part && cmp big part
        $s3 cp s3://first-box/big s3://first-box/copy
        s3cmd -c cfg ls s3://first-box/ | wc -l
        $s3 del -r -f s3://first-box/ && s3cmd -c cfg ls s3://first-box/ | wc -l"""),
    "rclone": ("rclone", """
        export RCLONE_CONFIG_X_TYPE=s3 RCLONE_CONFIG_X_PROVIDER=AWS RCLONE_CONFIG_X_ENV_AUTH=true \\
            RCLONE_CONFIG_X_REGION=eu-west-1 RCLONE_CONFIG=/dev/null RCLONE_S3_CHUNK_SIZE=5Mi \\
            RCLONE_S3_UPLOAD_CUTOFF=6Mi RCLONE_RETRIES=1
        unset AWS_CA_BUNDLE     # it gives up when that is set, whatever is in it
        r="rclone -q"
        $r mkdir x:first-box
        $r copyto small "x:first-box/a b+c.txt" && $r cat "x:first-box/a b+c.txt" | cmp - small
        $r copyto big x:first-box/big && $r copyto x:first-box/big back && cmp big back
        [ "$(rclone cat --offset 5 --count 5 x:first-box/big | wc -c)" = 5 ]
        $r copyto x:first-box/big x:first-box/copy
        curl -sSf "$(rclone link x:first-box/big)" | cmp - big
        rclone lsf x:first-box | wc -l
        $r delete x:first-box && rclone lsf x:first-box | wc -l"""),
}


@only_user
@pytest.mark.parametrize("client", [pytest.param(name, marks=needs(SHELL[name][0])) for name in SHELL])
@pytest.mark.parametrize("token", [True])
def test_on_the_command_line(keys, client, token):
    mine = keys(token)
    done = mine.run("sh", "-ec", "head -c 11000000 /dev/urandom >big; head -c 1000 big >small\n" + SHELL[client][1])
    assert done.ok().split() == ["3", "0"], done
    told = mine.seen()
    assert [t for t in told if "partNumber=" in t["target"]]
    assert [t for t in told if t["presigned"]] or client == "s3cmd"     # whose URLs are of version 2


@only_user
@needs("restic")
def test_restic_signs_chunks(keys):
    """Over plain HTTP its library signs each chunk."""
    mine = keys(False, "--plain", "--host", "store.example.test")
    done = mine.run("sh", "-ec", """
        export RESTIC_PASSWORD=x RESTIC_CACHE_DIR=$HOME/cache
        export RESTIC_REPOSITORY=s3:http://store.example.test/first-box/backups
        mkdir data && head -c 3000000 /dev/urandom >data/file && restic -q init
        restic -q backup data && restic -q restore latest --target back >log
        cmp data/file "$(find back -name file)" && restic snapshots --json | grep -c hostname""")
    assert done.ok() == "1\n"
    assert "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" in words_of(mine.seen())


# From AWS's description, not from ours: an upload whose every chunk is signed.
CHUNKS = """
import base64, hashlib, hmac, http.client, os, sys, time, zlib
word, host, size = sys.argv[1], "first-box.s3.eu-west-1.amazonaws.com", int(sys.argv[2])
def mac(key, text): return hmac.new(key, text.encode(), "sha256")
def sha(data): return hashlib.sha256(data).hexdigest()
now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
scope = f"{now[:8]}/eu-west-1/s3/aws4_request"
key = b"AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"].encode()
for part in scope.split("/"): key = mac(key, part).digest()
def request(method, path, fields, data, declared):
    fields = {**fields, "host": host, "x-amz-date": now, "x-amz-content-sha256": declared}
    names = ";".join(sorted(fields))
    text = "\\n".join([method, path, "", *(f"{n}:{fields[n]}" for n in sorted(fields)), "", names, declared])
    seed = mac(key, f"AWS4-HMAC-SHA256\\n{now}\\n{scope}\\n{sha(text.encode())}").hexdigest()
    fields["authorization"] = (f"AWS4-HMAC-SHA256 Credential={os.environ['AWS_ACCESS_KEY_ID']}/{scope}, "
                               f"SignedHeaders={names}, Signature={seed}")
    there = http.client.HTTPSConnection(host)
    body = data(seed) if callable(data) else data
    there.request(method, path, body, fields, encode_chunked=True)
    answer = there.getresponse()
    print(answer.status, answer.read().decode(errors="replace")[:600])
    return answer.status
def chunks(seed):
    last, sum_, left = seed, 0, size
    while True:
        data = os.urandom(min(left, 65536))
        left -= len(data)
        sum_ = zlib.crc32(data, sum_)
        last = mac(key, "\\n".join(["AWS4-HMAC-SHA256-PAYLOAD", now, scope, last, sha(b""), sha(data)])).hexdigest()
        if len(sys.argv) > 3 and left == 0: last = last[:-1] + "0"
        yield f"{len(data):x};chunk-signature={last}\\r\\n".encode() + data
        if not data: break
        yield b"\\r\\n"
    if word.endswith("TRAILER"):
        line = "x-amz-checksum-crc32:" + base64.b64encode(sum_.to_bytes(4, "big")).decode()
        last = mac(key, "\\n".join(["AWS4-HMAC-SHA256-TRAILER", now, scope, last, sha(line.encode() + b"\\n")])).hexdigest()
        yield f"{line}\\r\\nx-amz-trailer-signature:{last}\\r\\n".encode()
    yield b"\\r\\n"
request("PUT", "/", {}, b"", sha(b""))
fields = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(size), "transfer-encoding": "chunked"}
if word.endswith("TRAILER"): fields["x-amz-trailer"] = "x-amz-checksum-crc32"
sys.exit(request("PUT", "/object", fields, chunks, word) != 200)
"""
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"


@only_user
@pytest.mark.parametrize("word", [SIGNED, SIGNED + "-TRAILER"])
def test_signed_chunks(keys, word):
    mine = keys(True)
    mine.run("/usr/bin/python3", "-c", CHUNKS.replace("\"x-amz-date\": now", "\"x-amz-date\": now, "
             "\"x-amz-security-token\": os.environ[\"AWS_SESSION_TOKEN\"]"), word, "1000000").ok()
    last = mine.seen()[-1]
    assert last["word"] == word and last["size"] == 1000000 and last["chunks"] > 10
    assert last["trailer"] == (["x-amz-checksum-crc32"] if word.endswith("TRAILER") else [])


@only_user
def test_a_wrong_chunk_is_not_passed_on(keys, online):
    mine = keys()
    assert mine.run("/usr/bin/python3", "-c", CHUNKS, SIGNED, "300000", "wrong").status != 0
    assert online.refusal()["why"] == "credential"
    assert [t["target"] for t in mine.seen()] == ["/"]


# ---- what must not happen ------------------------------------------------------------------

ELSEWHERE = """
import boto3, sys
from botocore.config import Config
s3 = boto3.client("s3", endpoint_url=sys.argv[1], config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))
try:
    s3.put_object(Bucket="first-box", Key="key", Body=b"x")
except Exception as e:
    print(e)
"""


@needs_python("boto3")
def test_another_host_gets_nothing(keys, online):
    mine = keys()
    before = len(online.lab.lines("seen.jsonl"))
    mine.run("/usr/bin/python3", "-c", ELSEWHERE, "https://up.example.test")
    assert {e["why"] for e in online.events(verdict="deny")} == {"exfiltration"}
    assert len(online.lab.lines("seen.jsonl")) == before
    assert len(online.lab.lines("s3.jsonl")) == mine.before


@only_user
@needs_python("boto3")
def test_the_servers_errors_about_the_key(keys, online):
    """S3 repeats the key's id and the signed text: the cell sees its own."""
    mine = keys()
    (online.lab.folder / "s3.keys").write_text(json.dumps({mine.id: ["another", None]}))
    done = mine.run("/usr/bin/python3", "-c", ELSEWHERE, S3)
    assert "SignatureDoesNotMatch" in done.ok()
    (online.lab.folder / "s3.keys").write_text(json.dumps({}))
    done = mine.run("sh", "-c", "curl -sS --aws-sigv4 aws:amz:eu-west-1:s3 -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "
                    "-u $AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY " + S3 + "/first-box/x; echo; echo $AWS_ACCESS_KEY_ID")
    fake = done.ok().split("\n")[-2]
    assert f"<AWSAccessKeyId>{fake}</AWSAccessKeyId>" in done.out


# ---- much of it ------------------------------------------------------------------------------

UPLOAD_MB = int(os.environ.get("CLOISTER_UPLOAD_MB", 64))      # `make growth` has gigabytes
GROWN_MAX = 16 << 20            # windows and buffers of a few streams, a chunk of each
UPLOAD = """
import boto3, os, sys, time
from boto3.s3.transfer import TransferConfig
class Endless:
    left = int(sys.argv[1]) << 20
    def read(self, n=-1):
        n = min(n, self.left)
        self.left -= n
        return bytes(n)
s3 = boto3.client("s3")
s3.create_bucket(Bucket="void", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
s3.put_object(Bucket="void", Key="small", Body=b"x" * 100000, ChecksumAlgorithm="CRC32")
open("began", "w").close()
while not os.path.exists("go"): time.sleep(0.02)
s3.upload_fileobj(Endless(), "void", "large", ExtraArgs={"ChecksumAlgorithm": "CRC32"} if sys.argv[2] else {},
                  Config=TransferConfig(multipart_chunksize=8 << 20, max_concurrency=4))
open("done", "w").close()
time.sleep(1000)
"""


def peak_of(pid):
    """The most memory that a process ever had, in bytes."""
    return int(status_of(pid)["VmHWM"].split()[0]) << 10


@only_user
@needs_python("boto3")
@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
@pytest.mark.parametrize("trailers", ["", "trailers"], ids=["unsigned", "trailers"])
def test_uploads_of_any_size_in_flat_memory(keys, online, trailers):
    mine = keys(True)
    # What is not searched is not held.
    online.start("  - allow: '**.amazonaws.com'\n    body: {max: 64G}\n    secrets: allow\n", "/usr/bin/python3", "-c", UPLOAD,
                 str(UPLOAD_MB), trailers, options=("-s", "AWS", "-e", "AWS_DEFAULT_REGION=eu-west-1"))

    def is_there(name):
        return online.inside("test", "-e", name).status == 0
    wait_until(lambda: is_there("began"), "the small upload is over")
    before = {name: peak_of(pid) for name, pid in helpers_of(online.operator, online.cell).items()}
    online.inside("touch", "go").ok()
    wait_until(lambda: is_there("done"), "the large upload is over", SECONDS + UPLOAD_MB / 4)
    after = {name: peak_of(pid) for name, pid in helpers_of(online.operator, online.cell).items()}
    sizes = [t["size"] for t in mine.seen() if "partNumber=" in t["target"]]
    assert sum(sizes) == UPLOAD_MB << 20
    assert before.keys() == after.keys() and {"gate", "courier"} <= before.keys()
    assert {name: after[name] - before[name] for name in before if after[name] > before[name] + GROWN_MAX} == {}


# ---- npm's --------------------------------------------------------------------------------------

SDK = """
const { S3Client, CreateBucketCommand, PutObjectCommand, GetObjectCommand, CopyObjectCommand, HeadObjectCommand,
        ListObjectsV2Command, DeleteObjectCommand, DeleteObjectsCommand } = require("@aws-sdk/client-s3");
const { Upload } = require("@aws-sdk/lib-storage");
const { getSignedUrl } = require("@aws-sdk/s3-request-presigner");
const { Readable } = require("stream"), assert = require("assert"), crypto = require("crypto");
const KEYS = ["plain", "with blanks", "a+b", "pl%2Fain", "two//slashes", "uml\\u00e4ut/\\u6f22\\u5b57", "q?x=1&y#z",
              "star*'()!~", "=;,:@$"];
const text = async r => r.Body.transformToString();
(async () => {
    for (const [Bucket, forcePathStyle] of [["first-box", false], ["second-box", true]]) {
        const s3 = new S3Client({ region: "eu-west-1", forcePathStyle, maxAttempts: 1 });
        await s3.send(new CreateBucketCommand({ Bucket }));
        for (const Key of KEYS) {
            await s3.send(new PutObjectCommand({ Bucket, Key, Body: Key, Metadata: { note: "two  blanks" } }));
            assert.equal(await text(await s3.send(new GetObjectCommand({ Bucket, Key }))), Key);
        }
        const big = crypto.randomBytes(11 << 20);
        // What is not known beforehand is summed up in a trailer.
        await new Upload({ client: s3, params: { Bucket, Key: "big", Body: Readable.from([big]) } }).done();
        await s3.send(new PutObjectCommand({ Bucket, Key: "stream", Body: Readable.from([big]), ContentLength: big.length }));
        const back = await s3.send(new GetObjectCommand({ Bucket, Key: "big" }));
        assert(big.equals(Buffer.from(await back.Body.transformToByteArray())));
        const some = await s3.send(new GetObjectCommand({ Bucket, Key: "plain", Range: "bytes=1-3" }));
        assert.equal(await text(some), "lai");
        await s3.send(new CopyObjectCommand({ Bucket, Key: "copy", CopySource: Bucket + "/a%2Bb" }));
        await s3.send(new HeadObjectCommand({ Bucket, Key: "copy" }));
        const list = await s3.send(new ListObjectsV2Command({ Bucket }));
        assert.equal(list.Contents.length, KEYS.length + 3);
        const url = await getSignedUrl(s3, new GetObjectCommand({ Bucket, Key: KEYS[5] }), { expiresIn: 60 });
        assert(url.includes(process.env.AWS_ACCESS_KEY_ID));
        assert.equal(await (await fetch(url)).text(), KEYS[5]);
        const put = await getSignedUrl(s3, new PutObjectCommand({ Bucket, Key: "put" }), { expiresIn: 60 });
        assert.equal((await fetch(put, { method: "PUT", body: "by URL" })).status, 200);
        await s3.send(new DeleteObjectCommand({ Bucket, Key: "put" }));
        await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: KEYS.map(Key => ({ Key })) } }));
        const left = await s3.send(new ListObjectsV2Command({ Bucket }));
        assert.deepEqual(left.Contents.map(o => o.Key), ["big", "copy", "stream"]);
    }
    console.log("all of it");
})().catch(e => { console.error(e); process.exit(1); });
"""


@only_user
@needs_npm("../@aws-sdk/client-s3")
@pytest.mark.parametrize("token", [False, True], ids=["key", "session"])
def test_aws_sdk(keys, token):
    mine = keys(token)
    done = mine.run("node", "-e", SDK, options=("-v", f"{mine.online.lab.folder / 'npm'}:/opt/npm:ro",
                                                "-e", "NODE_PATH=/opt/npm/node_modules"))
    assert done.ok() == "all of it\n"
    assert {"hash", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "UNSIGNED-PAYLOAD"} <= words_of(mine.seen())


# ---- Swift's ----------------------------------------------------------------------------------

SWIFT_ID, SWIFT_SECRET = "team:" + os.urandom(12).hex(), os.urandom(20).hex()
ON_SWIFT = """
import boto3, os, urllib.request
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
s3 = boto3.client("s3", endpoint_url="https://swift.example.test",
                  config=Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"max_attempts": 1}))
s3.create_bucket(Bucket="first-box", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
KEYS = ["plain", "with blanks", "a+b", "pl%2Fain", "two//slashes", "uml\\u00e4ut/\\u6f22\\u5b57", "q?x=1&y#z",
        "star*'()!~", "=;,:@$"]
for key in KEYS:
    s3.put_object(Bucket="first-box", Key=key, Body=key.encode(), Metadata={"note": "two  blanks"})
    assert s3.get_object(Bucket="first-box", Key=key)["Body"].read() == key.encode(), key
assert {o["Key"] for o in s3.list_objects_v2(Bucket="first-box")["Contents"]} == set(KEYS)
assert s3.get_object(Bucket="first-box", Key="plain", Range="bytes=1-3")["Body"].read() == b"lai"
s3.copy_object(Bucket="first-box", Key="copy", CopySource={"Bucket": "first-box", "Key": "a+b"})
data = os.urandom(11 << 20)
open("big", "wb").write(data)
s3.upload_file("big", "first-box", "big", Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
assert s3.get_object(Bucket="first-box", Key="big")["Body"].read() == data
url = s3.generate_presigned_url("get_object", {"Bucket": "first-box", "Key": KEYS[5]})
assert urllib.request.urlopen(url).read().decode() == KEYS[5]
for key in [*KEYS, "copy", "big"]:
    s3.delete_object(Bucket="first-box", Key=key)
assert "Contents" not in s3.list_objects_v2(Bucket="first-box")
s3.delete_bucket(Bucket="first-box")
print("all of it")
"""


@pytest.fixture(scope="module")
def swift(lab):
    with lab.serve("egress_front.py", "swift", SWIFT_ID, SWIFT_SECRET):
        yield lab


@only_user
@needs("swift-proxy-server", "swift-object-server", "swift-container-server", "swift-account-server", "memcached")
@needs_python("boto3")
def test_swift(swift, online):
    """A server of others, that was never meant to be a judge of ours."""
    def run(secret):
        name = f"AWS_{secret[:8].upper()}"
        online.operator.cloister("secret", "add", name, "--like", "aws", "--host", "swift.example.test",
                                 input=f"{SWIFT_ID}\n{secret}\n").ok()
        return online.run("  - allow: swift.example.test\n", "/usr/bin/python3", "-c", ON_SWIFT, seconds=SECONDS,
                          options=("-s", name, "-e", "AWS_DEFAULT_REGION=eu-west-1"))
    done = run(SWIFT_SECRET)
    assert done.ok() == "all of it\n"
    assert SWIFT_SECRET not in done.out + done.err
    done = run(os.urandom(20).hex())
    assert done.status != 0 and "SignatureDoesNotMatch" in done.err


# ---- version 4A ---------------------------------------------------------------------------------

CRT = """
import os, urllib.error, urllib.request
from awscrt import auth, http
target, body = "/echo?b=2&a=1%20x", b"some=body"
request = http.HttpRequest("POST", target, http.HttpHeaders([("host", "up.example.test"), ("x-custom", "two  blanks")]))
provider = auth.AwsCredentialsProvider.new_static(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"],
                                                  os.environ["AWS_SESSION_TOKEN"])
signed = auth.aws_sign_request(request, auth.AwsSigningConfig(
    algorithm=auth.AwsSigningAlgorithm.V4_ASYMMETRIC, signature_type=auth.AwsSignatureType.HTTP_REQUEST_HEADERS,
    credentials_provider=provider, region="*",
    service="execute-api", signed_body_value=__import__("hashlib").sha256(body).hexdigest(),
    signed_body_header_type=auth.AwsSignedBodyHeaderType.X_AMZ_CONTENT_SHA_256)).result(10)
fields = {name: value for name, value in signed.headers if name.lower() != "host"}
print(urllib.request.urlopen(urllib.request.Request("https://up.example.test" + target, body, fields)).status)
"""


def key_of_4a(key_id, secret):
    """The public key, as AWS describes how to come by it."""
    from cryptography.hazmat.primitives.asymmetric import ec
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    for counter in range(1, 255):
        text = (b"\0\0\0\1AWS4-ECDSA-P256-SHA256\0" + key_id.encode() + bytes([counter]) + b"\0\0\1\0")
        number = int.from_bytes(hmac.new(b"AWS4A" + secret.encode(), text, "sha256").digest(), "big")
        if number <= order - 2:
            return ec.derive_private_key(number + 1, ec.SECP256R1()).public_key()
    raise AssertionError("no key")


@only_user
@needs_python("awscrt", "cryptography")
def test_version_4a(online):
    """Signed by AWS's own library; ECDSA's signatures differ each time, so this one is verified."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    key_id, secret, token = "ASIA" + base64.b32encode(os.urandom(10)).decode(), os.urandom(20).hex(), os.urandom(90).hex()
    online.operator.cloister("secret", "add", "AWS", "--like", "aws", "--host", "up.example.test",
                             input=f"{key_id}\n{secret}\n{token}\n").ok()
    assert online.python(OPEN, CRT, options=("-s", "AWS")).ok() == "200\n"
    seen = json.loads(online.lab.seen(key_id)[-1])
    fields = dict(seen["fields"])
    scope, names, signature = re.fullmatch(
        f"AWS4-ECDSA-P256-SHA256 Credential={key_id}/(.+), SignedHeaders=(.+), Signature=([0-9a-f]+)",
        fields["authorization"]).groups()
    assert fields["x-amz-security-token"] == token and "x-amz-region-set" in names
    canonical = "\n".join(["POST", "/echo", "a=1%20x&b=2", *(f"{n}:{' '.join(fields[n].split())}" for n in names.split(";")),
                           "", names, hashlib.sha256(b"some=body").hexdigest()])
    text = "\n".join(["AWS4-ECDSA-P256-SHA256", fields["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key_of_4a(key_id, secret).verify(bytes.fromhex(signature), text.encode(), ec.ECDSA(hashes.SHA256()))


# ---- what chunks do not hide -----------------------------------------------------------------------

STRAY = "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"


@only_user
@pytest.mark.parametrize("rule, coding, body, why", [
    ("", "aws-chunked", f"some={STRAY}", "secret"),
    ("    body: {regex: some}\n", "aws-chunked", "some=thing", "no-rule"),
    ("", "gzip,aws-chunked", "some=thing", "unreadable"),
    ("", "aws-chunked", "some=thing", None)], ids=["credential", "rule", "packed", "none"])
def test_chunks_hide_nothing(online, rule, coding, body, why):
    """Chunks are searched as they are; chunks that would have to be decoded first are refused."""
    online.curl("  - allow: up.example.test\n" + rule, "-H", f"content-encoding: {coding}", "-d", body,
                "https://up.example.test/echo")
    event, = online.events(type="http")
    assert (event["verdict"], event.get("why")) == ("deny" if why else "allow", why)


# Its requests without a body have `content-length: 0`.
PERL = """
use strict; use Net::Amazon::S3; use Net::Amazon::S3::Authorization::Basic;
use Net::Amazon::S3::Vendor::Generic; use Net::Amazon::S3::Signature::V4;
my $s3 = Net::Amazon::S3->new(retry => 0,
    vendor => Net::Amazon::S3::Vendor::Generic->new(host => "s3.eu-west-1.amazonaws.com", use_https => 1,
        use_virtual_host => 0, authorization_method => "Net::Amazon::S3::Signature::V4", default_region => "eu-west-1"),
    authorization_context => Net::Amazon::S3::Authorization::Basic->new(
        aws_access_key_id => $ENV{AWS_ACCESS_KEY_ID}, aws_secret_access_key => $ENV{AWS_SECRET_ACCESS_KEY}));
my $box = $s3->add_bucket({ bucket => "perls-box", location_constraint => "eu-west-1" }) or die $s3->err . ": " . $s3->errstr;
$box->add_key("a b+c~d", "hello", { content_type => "text/plain" }) or die $s3->err . ": " . $s3->errstr;
$box->get_key("a b+c~d")->{value} eq "hello" or die "it is another";
$box->delete_key("a b+c~d") or die $s3->err . ": " . $s3->errstr;
print "all of it\\n";
"""


@needs("perl")
def test_perl(keys):
    mine = keys()
    if mine.online.outside("/usr/bin/perl", "-MNet::Amazon::S3", "-e", "1").status != 0:
        pytest.skip("not installed: libnet-amazon-s3-perl")
    done = mine.run("/usr/bin/perl", "-e", PERL)
    assert done.ok() == "all of it\n", done
    assert {t["method"] for t in mine.seen()} >= {"GET", "PUT", "DELETE"}
