#!/usr/bin/python3
"""A strict S3, for the egress tests: egress_s3.py FOLDER

Each signature is computed with botocore, which shares nothing with our code.  Chunked
signatures and checksums are checked by code that was written here from AWS's description.
FOLDER/s3.keys has {id: [secret, token]} and is read for each request; FOLDER/s3.jsonl records
the requests.  Objects of the bucket "void" are checked like others and then forgotten.
"""
import base64
import calendar
import hashlib
import hmac
import html
import io
import json
import re
import ssl
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from egress_world import STORE

PIECE = 1 << 16
IN_HOST = re.compile(r"(.+)\.s3(?:\.eu-west-1)?\.amazonaws\.com")
AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=(.+)/(\d{8})/([^/,]+)/([^/,]+)/aws4_request, ?"
                           r"SignedHeaders=([a-z0-9;._-]+), ?Signature=([0-9a-f]{64})")


class Refused(Exception):
    """With S3's word for why."""

    def __init__(self, code, status=403, **told):
        super().__init__(code)
        self.code, self.status, self.told = code, status, told


# ---- signatures --------------------------------------------------------------------------

def only(kind, names):
    """KIND, signing the fields NAMES and no others."""
    class Signer(kind):
        def headers_to_sign(self, request):
            fields = auth.HTTPHeaders()
            for name, value in request.headers.items():
                if name.lower() in names:
                    fields[name.lower()] = value
            return fields
    return Signer


class Claim:
    """The request's own data about its signature, in a field or in the query."""

    def __init__(self, method, target, fields):
        self.method, self.target, self.fields = method, target, fields
        query = dict(parse_qsl(urlsplit(target).query, keep_blank_values=True))
        self.presigned = "X-Amz-Signature" in query
        if self.presigned:
            self.id, day, self.region, self.service, end = query["X-Amz-Credential"].rsplit("/", 4)
            names, self.signature = query["X-Amz-SignedHeaders"], query["X-Amz-Signature"]
            self.time, self.token = query["X-Amz-Date"], query.get("X-Amz-Security-Token")
            self.lasts = int(query["X-Amz-Expires"])
            self.target = re.sub(r"&?X-Amz-Signature=[0-9a-f]+", "", target)
        else:
            found = AUTHORIZATION.fullmatch(fields.get("authorization", ""))
            if not found:
                raise Refused("AccessDenied")
            self.id, day, self.region, self.service, names, self.signature = found.groups()
            self.time, self.token = fields["x-amz-date"], fields.get("x-amz-security-token")
            self.lasts = 900
        self.names = set(names.split(";"))
        if not self.time.startswith(day):
            raise Refused("AuthorizationHeaderMalformed", 400)

    def check(self, keys):
        """The secret."""
        if self.id not in keys:
            raise Refused("InvalidAccessKeyId", AWSAccessKeyId=self.id)
        secret, token = keys[self.id]
        if (self.token or "") != (token or ""):
            raise Refused("InvalidToken", 400)
        missing = {name.lower() for name in self.fields if name.lower().startswith("x-amz-")} - self.names
        if missing or "host" not in self.names:
            raise Refused("AccessDenied", Message=f"not signed: {sorted(missing)}")
        age = time.time() - calendar.timegm(time.strptime(self.time, "%Y%m%dT%H%M%SZ"))
        if not -900 < age < self.lasts:
            raise Refused("RequestTimeTooSkewed")
        kind = auth.S3SigV4QueryAuth if self.presigned else auth.S3SigV4Auth
        signer = only(kind, self.names)(Credentials(self.id, secret), self.service, self.region)
        request = AWSRequest(method=self.method, url=f"https://{self.fields['host']}{self.target}")
        for name, value in self.fields.items():
            request.headers[name] = value
        request.context["timestamp"] = self.time
        canonical = signer.canonical_request(request)
        text = signer.string_to_sign(request, canonical)
        if signer.signature(text, request) != self.signature:
            raise Refused("SignatureDoesNotMatch", AWSAccessKeyId=self.id, StringToSign=text,
                          CanonicalRequest=canonical, SignatureProvided=self.signature)
        return secret


class Chain:
    """The signatures of pieces: each covers the one before."""

    def __init__(self, claim, secret):
        day = claim.time[:8]
        key = b"AWS4" + secret.encode()
        for word in (day, claim.region, claim.service, "aws4_request"):
            key = hmac.new(key, word.encode(), "sha256").digest()
        self.key, self.last = key, claim.signature
        self.lines = [claim.time, f"{day}/{claim.region}/{claim.service}/aws4_request"]

    def follows(self, kind, given, *hashes):
        text = "\n".join([f"AWS4-HMAC-SHA256-{kind}", *self.lines, self.last, *hashes])
        self.last = hmac.new(self.key, text.encode(), "sha256").hexdigest()
        if self.last != given:
            raise Refused("SignatureDoesNotMatch", Message=f"of a {kind.lower()}")


# ---- bodies -------------------------------------------------------------------------------

class Wire(io.RawIOBase):
    """A body without what HTTP puts around it."""

    def __init__(self, source, length):
        self.source, self.left, self.chunked = source, length or 0, length is None
        self.over = self.chunked is False and self.left == 0

    def readable(self):
        return True

    def next_chunk(self):
        self.left = int(self.source.readline().split(b";")[0], 16)
        if self.left == 0:
            while self.source.readline().strip():
                pass
            self.over = True

    def readinto(self, room):
        if self.chunked and self.left == 0 and not self.over:
            self.next_chunk()
        if self.over:
            return 0
        data = self.source.read(min(self.left, len(room)))
        if not data:
            raise ConnectionError("cut")
        room[:len(data)] = data
        self.left -= len(data)
        if self.left == 0 and self.chunked:
            self.source.readline()
        self.over = self.left == 0 and not self.chunked
        return len(data)


EMPTY = hashlib.sha256(b"").hexdigest()


def decoded(wire, chain, trailer):
    """The pieces of an aws-chunked body; CHAIN: they are signed.  TRAILER gets its lines."""
    while True:
        line = wire.readline()
        found = re.fullmatch(rb"([0-9a-fA-F]+)(?:;chunk-signature=([0-9a-f]{64}))?\r\n", line)
        if not found or (found[2] is None) != (chain is None):
            raise Refused("IncompleteBody", 400)
        size = int(found[1], 16)
        data = wire.read(size)
        if len(data) != size:
            raise Refused("IncompleteBody", 400)
        if chain:
            chain.follows("PAYLOAD", found[2].decode(), EMPTY, hashlib.sha256(data).hexdigest())
        if size == 0:
            break
        yield data
        if wire.read(2) != b"\r\n":
            raise Refused("IncompleteBody", 400)
    while line := wire.readline().strip(b"\r\n"):
        name, _, value = line.decode().partition(":")
        trailer[name.lower()] = value.strip()


def check_trailer(chain, trailer, declared):
    given = trailer.pop("x-amz-trailer-signature", None)
    if (given is None) != (chain is None or not declared):
        raise Refused("MalformedTrailerError", 400)
    if set(trailer) != {name.strip().lower() for name in declared.split(",") if name.strip()}:
        raise Refused("MalformedTrailerError", 400)
    if given:
        text = "".join(f"{name}:{value}\n" for name, value in trailer.items())
        chain.follows("TRAILER", given, hashlib.sha256(text.encode()).hexdigest())


class Sums:
    """The declared checksums of a body."""

    def __init__(self):
        self.md5, self.sha1, self.sha256 = hashlib.md5(), hashlib.sha1(), hashlib.sha256()
        self.crc, self.size = 0, 0

    def add(self, data, declared):
        self.md5.update(data)
        self.size += len(data)
        if "x-amz-checksum-crc32" in declared:
            self.crc = zlib.crc32(data, self.crc)
        if "x-amz-checksum-sha1" in declared:
            self.sha1.update(data)
        if "sha256" in declared:
            self.sha256.update(data)

    def check(self, fields):
        mine = {"content-md5": self.md5.digest(), "x-amz-checksum-sha1": self.sha1.digest(),
                "x-amz-checksum-sha256": self.sha256.digest(),
                "x-amz-checksum-crc32": self.crc.to_bytes(4, "big")}
        for name, sum_ in mine.items():
            if name in fields and base64.b64decode(fields[name]) != sum_:
                raise Refused("BadDigest", 400, Message=name)


def take_body(handler, claim, secret, keep):
    """Check all of it; KEEP gets its bytes.  (sums, what is to be told of it)"""
    fields, trailer, sums = handler.headers, {}, Sums()
    chunked = "chunked" in fields.get("transfer-encoding", "")
    wire = io.BufferedReader(Wire(handler.rfile, None if chunked else
                                  int(fields.get("content-length") or 0)), PIECE)
    word = fields.get("x-amz-content-sha256") or ("UNSIGNED-PAYLOAD" if claim.presigned else "")
    declared = fields.get("x-amz-trailer", "")
    names = " ".join(fields.keys()).lower() + " " + declared
    if re.fullmatch("[0-9a-f]{64}", word):
        names += " sha256"
    chain = Chain(claim, secret) if word.startswith("STREAMING-AWS4-HMAC-SHA256-PAYLOAD") else None
    streams = word.startswith("STREAMING-")
    pieces = decoded(wire, chain, trailer) if streams else iter(lambda: wire.read(PIECE), b"")
    n = 0
    for data in pieces:
        sums.add(data, names)
        keep(data)
        n += 1
    if wire.read(1):
        raise Refused("IncompleteBody", 400)
    if streams:
        check_trailer(chain, trailer, declared)
        if int(fields["x-amz-decoded-content-length"]) != sums.size:
            raise Refused("IncompleteBody", 400)
    elif "sha256" in names.split() and sums.sha256.hexdigest() != word:
        raise Refused("XAmzContentSHA256Mismatch", 400)
    elif word != "UNSIGNED-PAYLOAD" and "sha256" not in names.split():
        raise Refused("InvalidRequest", 400)
    sums.check({**{k.lower(): v for k, v in fields.items()}, **trailer})
    return sums, {"word": word if len(word) != 64 else "hash", "chunks": n if streams else 0,
                  "size": sums.size, "trailer": sorted(trailer)}


# ---- objects -------------------------------------------------------------------------------

class Store:
    def __init__(self, folder):
        self.folder = folder / "s3"
        self.folder.mkdir()
        self.buckets, self.uploads, self.lock, self.n = {}, {}, threading.Lock(), 0
        self.known = None

    def keys(self):
        """With other keys there is nothing yet."""
        text = (self.folder.parent / "s3.keys").read_text()
        with self.lock:
            if text != self.known:
                self.known, self.buckets = text, {}
        return json.loads(text)

    def new_file(self):
        with self.lock:
            self.n += 1
            return self.folder / str(self.n)


def xml(root, *children):
    space = "" if root == "Error" else ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}{space}>{"".join(children)}</{root}>'.encode()


def tag(name, value):
    return f"<{name}>{value if value.startswith('<') else escape(value)}</{name}>"


DATE = "2026-01-01T00:00:00.000Z"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, data=b"", **fields):
        self.send_response(status)
        fields = {"content_length": str(len(data)), "x_amz_request_id": "1", **fields}
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def note(self, **what):
        with self.server.store.lock, open(self.server.folder / "s3.jsonl", "a") as log:
            log.write(json.dumps({"method": self.command, "host": self.headers["host"],
                                  "target": self.path, **what}) + "\n")

    def do_any(self):
        fields = {name.lower(): value for name, value in self.headers.items()}
        told = {}
        try:
            claim = Claim(self.command, self.path, fields)
            told = {"id": claim.id, "presigned": claim.presigned, "token": bool(claim.token)}
            secret = claim.check(self.server.store.keys())
            path = self.server.store.new_file()
            keep = io.BytesIO() if "void" in self.headers["host"] + self.path else open(path, "w+b")
            with keep:
                sink = (lambda data: None) if isinstance(keep, io.BytesIO) else keep.write
                sums, more = take_body(self, claim, secret, sink)
                told |= more
            self.note(**told, ok=True)
            self.act(path, sums)
        except Refused as no:
            self.note(**told, ok=False, why=no.code, told=no.told)
            self.close_connection = True
            self.answer(no.status, xml("Error", tag("Code", no.code), *(
                tag(k, v) for k, v in no.told.items())), content_type="application/xml",
                connection="close")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_any

    # ---- what is asked for ---------------------------------------------------------------
    def act(self, path, sums):
        url = urlsplit(self.path)
        self.query = dict(parse_qsl(url.query, keep_blank_values=True))
        host, key = self.headers["host"].partition(":")[0], unquote(url.path[1:])
        if named := IN_HOST.fullmatch(host):
            bucket = named[1]
        else:
            bucket, _, key = key.partition("/")
        if not bucket:
            return self.answer(200, xml("ListAllMyBucketsResult", "<Buckets>", *(
                tag("Bucket", tag("Name", b) + tag("CreationDate", DATE))
                for b in self.server.store.buckets), "</Buckets>"))
        name = ("object_" if key else "bucket_") + self.command.lower()
        return getattr(self, name)(bucket, key, path, sums)

    def objects(self, bucket):
        if bucket not in self.server.store.buckets:
            raise Refused("NoSuchBucket", 404)
        return self.server.store.buckets[bucket]

    def bucket_put(self, bucket, *_):
        self.server.store.buckets.setdefault(bucket, {})
        self.answer(200, location=f"/{bucket}")

    def bucket_head(self, bucket, *_):
        self.objects(bucket)
        self.answer(200)

    def bucket_delete(self, bucket, *_):
        self.server.store.buckets.pop(bucket, None)
        self.answer(204)

    def bucket_get(self, bucket, *_):
        if "location" in self.query:
            return self.answer(200, xml("LocationConstraint", "eu-west-1"))
        if "uploads" in self.query:
            return self.answer(200, xml("ListMultipartUploadsResult"))
        if set(self.query) & {"versioning", "acl", "policy", "object-lock"}:
            raise Refused("NotImplemented", 501)
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        found, common = [], []
        for key in sorted(k for k in self.objects(bucket) if k.startswith(prefix)):
            head, cut, _ = key[len(prefix):].partition(delimiter) if delimiter else (key, "", "")
            if cut and prefix + head + cut not in common:
                common.append(prefix + head + cut)
            elif not cut:
                found.append(key)
        after = self.query.get("start-after") or self.query.get("marker") or \
            self.query.get("continuation-token") or ""
        found = [key for key in found if key > after]
        most = int(self.query.get("max-keys", 1000))
        cut_off, found = len(found) > most, found[:most]
        parts = [tag("Name", bucket), tag("Prefix", prefix), tag("KeyCount", str(len(found))),
                 tag("MaxKeys", str(most)), tag("IsTruncated", str(cut_off).lower())]
        if cut_off:
            parts += [tag("NextContinuationToken", found[-1]), tag("NextMarker", found[-1])]
        coded = self.query.get("encoding-type") == "url"
        show = (lambda key: auth.quote(key, safe="/")) if coded else str
        if coded:
            parts.append(tag("EncodingType", "url"))
        for key in found:
            o = self.objects(bucket)[key]
            parts.append(tag("Contents", tag("Key", show(key)) + tag("LastModified", DATE) +
                             tag("ETag", o["etag"]) + tag("Size", str(o["size"])) +
                             tag("StorageClass", "STANDARD")))
        parts += [tag("CommonPrefixes", tag("Prefix", show(p))) for p in common]
        self.answer(200, xml("ListBucketResult", *parts), content_type="application/xml")

    def bucket_post(self, bucket, _key, path, _sums):
        if "delete" not in self.query:
            raise Refused("NotImplemented", 501)
        keys = re.findall(r"<Key>(.*?)</Key>", path.read_text(), re.S)
        for key in keys:
            self.objects(bucket).pop(html.unescape(key), None)
        self.answer(200, xml("DeleteResult", *(tag("Deleted", f"<Key>{key}</Key>") for key in keys)))

    def copied(self, o):
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("x-amz-copy-source-range", ""))
        if not asked:
            return o
        path = self.server.store.new_file()
        with open(o["path"], "rb") as data:
            data.seek(int(asked[1]))
            piece = data.read(int(asked[2]) + 1 - int(asked[1]))
        path.write_bytes(piece)
        return {**o, "path": path, "size": len(piece), "etag": f'"{hashlib.md5(piece).hexdigest()}"'}

    def object_put(self, bucket, key, path, sums):
        source = self.headers.get("x-amz-copy-source")
        data = {"path": path, "size": sums.size, "etag": f'"{sums.md5.hexdigest()}"',
                "meta": {k.lower(): v for k, v in self.headers.items() if k.lower().startswith("x-amz-meta-")},
                "type": self.headers.get("content-type", "binary/octet-stream")}
        if source:
            there, _, name = unquote(source).lstrip("/").partition("/")
            if name not in self.objects(there):
                raise Refused("NoSuchKey", 404)
            data = self.copied(self.objects(there)[name])
        if "uploadId" in self.query:
            self.server.store.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = data
        else:
            self.objects(bucket)[key] = data
        if source:
            return self.answer(200, xml("CopyObjectResult", tag("ETag", data["etag"]),
                                        tag("LastModified", DATE)), content_type="application/xml")
        return self.answer(200, etag=data["etag"])

    def object_post(self, bucket, key, _path, _sums):
        store = self.server.store
        if "uploads" in self.query:
            number = f"upload{store.new_file().name}"
            store.uploads[number] = {}
            return self.answer(200, xml("InitiateMultipartUploadResult", tag("Bucket", bucket),
                                        tag("Key", key), tag("UploadId", number)),
                               content_type="application/xml")
        parts = store.uploads.pop(self.query["uploadId"])
        whole, total, digest = store.new_file(), 0, b""
        with open(whole, "wb") as out:
            for _, part in sorted(parts.items()):
                digest += bytes.fromhex(part["etag"].strip('"'))
                total += part["size"]
                if part["path"].exists():
                    out.write(part["path"].read_bytes())
                    part["path"].unlink()
        etag = f'"{hashlib.md5(digest).hexdigest()}-{len(parts)}"'
        self.objects(bucket)[key] = {"path": whole, "size": total, "etag": etag, "meta": {},
                                     "type": "binary/octet-stream"}
        return self.answer(200, xml("CompleteMultipartUploadResult", tag("Bucket", bucket),
                                    tag("Key", key), tag("ETag", etag)), content_type="application/xml")

    def object_get(self, bucket, key, *_):
        for word, what in (("uploadId", xml("ListPartsResult")), ("tagging", xml("Tagging", "<TagSet/>")),
                           ("acl", xml("AccessControlPolicy", "<Owner/><AccessControlList/>"))):
            if word in self.query:
                return self.answer(200, what, content_type="application/xml")
        if key not in self.objects(bucket):
            raise Refused("NoSuchKey", 404)
        o = self.objects(bucket)[key]
        fields = {"etag": o["etag"], "content_type": o["type"], "accept_ranges": "bytes",
                  "last_modified": "Thu, 01 Jan 2026 00:00:00 GMT",
                  **{k.replace("-", "_"): v for k, v in o["meta"].items()}}
        first, last = 0, o["size"] - 1
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if asked:
            first, last = int(asked[1]), min(int(asked[2] or last), last)
            fields["content_range"] = f"bytes {first}-{last}/{o['size']}"
        self.send_response(206 if asked else 200)
        self.send_header("content-length", str(last + 1 - first))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            with open(o["path"], "rb") as data:
                data.seek(first)
                left = last + 1 - first
                while left > 0:
                    piece = data.read(min(left, 1 << 20))
                    self.wfile.write(piece)
                    left -= len(piece)
        return None

    object_head = object_get

    def object_delete(self, bucket, key, *_):
        if "uploadId" in self.query:
            self.server.store.uploads.pop(self.query["uploadId"], None)
        else:
            self.objects(bucket).pop(key, None)
        self.answer(204)


def main():
    folder = Path(sys.argv[1])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "keys/services.crt", folder / "keys/services.key")
    store = Store(folder)
    for port in (443, 80):
        server = ThreadingHTTPServer((STORE, port), Handler)
        server.daemon_threads = True
        server.folder, server.store = folder, store
        if port == 443:
            server.socket = context.wrap_socket(server.socket, server_side=True,
                                                do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
