"""Registries on this machine: Debian's docker-registry, with TLS, logins and tokens; and one that lies."""
import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import re
import secrets
import ssl
import subprocess
import tarfile
import threading
import time
import urllib.parse

import leftovers
from operators import SECONDS, wait_until

OCI = "application/vnd.oci.image."
INDEX, MANIFEST, CONFIG = OCI + "index.v1+json", OCI + "manifest.v1+json", OCI + "config.v1+json"
LAYER = OCI + "layer.v1.tar+gzip"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
OTHER = {"amd64": "arm64", "arm64": "amd64"}[ARCHITECTURE]
USER, PASSWORD = "me", "open sesame"
# Of that password, by bcrypt: docker-registry takes no other.
HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW\n"


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def encode(value):
    return json.dumps(value, separators=(",", ":")).encode()


# ---- images ----------------------------------------------------------------------------------------------

class Image:
    """An image with one layer for each of TEXTS, and its blobs."""

    def __init__(self, *texts, architecture=ARCHITECTURE):
        self.blobs, layers, diff_ids = {}, [], []
        for text in texts:
            packed = self.tar(text)
            diff_ids.append(digest_of(packed))
            layers.append(self.add(LAYER, gzip.compress(packed, mtime=0)))
        config = self.add(CONFIG, encode({"architecture": architecture, "os": "linux", "config": {"Cmd": ["x"]},
                                          "rootfs": {"type": "layers", "diff_ids": diff_ids}}))
        self.descriptor = self.add(MANIFEST, encode({"schemaVersion": 2, "mediaType": MANIFEST, "config": config,
                                                     "layers": layers}))
        self.descriptor["platform"] = {"os": "linux", "architecture": architecture}
        self.digest, self.layers, self.config = self.descriptor["digest"], layers, config
        self.manifest = self.blobs[self.digest]

    @staticmethod
    def tar(text):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            data = text if isinstance(text, bytes) else text.encode()
            entry = tarfile.TarInfo(f"file-{len(data)}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        return out.getvalue()

    def add(self, kind, data):
        self.blobs[digest_of(data)] = data
        return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}


class Index:
    """Images for several machines, under one name."""

    def __init__(self, *images):
        self.text = encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": [i.descriptor for i in images]})
        self.digest = digest_of(self.text)
        self.blobs = {self.digest: self.text}
        for image in images:
            self.blobs.update(image.blobs)
        self.descriptor = {"mediaType": INDEX, "digest": self.digest, "size": len(self.text)}


def write_layout(folder, image):
    """IMAGE as an OCI image layout, for skopeo."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    for digest, data in image.blobs.items():
        (blobs / digest.removeprefix("sha256:")).write_bytes(data)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    descriptor = {**image.descriptor, "annotations": {"org.opencontainers.image.ref.name": "t"}}
    (folder / "index.json").write_bytes(encode({"schemaVersion": 2, "manifests": [descriptor]}))
    return folder


# ---- certificates ----------------------------------------------------------------------------------------

def openssl(*words, **how):
    return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, **how).stdout


def make_certificates(folder):
    """ca.pem, and a certificate by it for this machine: server.crt, server.key."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=lab",
            "-days", 9, "-keyout", folder / "ca.key", "-out", folder / "ca.pem")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
            "-keyout", folder / "server.key", "-out", folder / "server.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", folder / "server.csr", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key",
            "-CAcreateserial", "-days", 9, "-extfile", folder / "names", "-out", folder / "server.crt")
    for path in folder.iterdir():
        path.chmod(0o644)
    folder.chmod(0o755)


# ---- docker-registry -------------------------------------------------------------------------------------

class Registry:
    """Debian's docker-registry.  TLS: a folder with certificates.  AUTH: a part of its configuration."""

    def __init__(self, folder, tls=None, auth=""):
        folder.mkdir()
        certificate = f", tls: {{certificate: {tls}/server.crt, key: {tls}/server.key}}" if tls else ""
        (folder / "registry.yml").write_text(f"""version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/images}}, delete: {{enabled: true}}}}
http: {{addr: '127.0.0.1:0', secret: x{certificate}}}
{auth}
log: {{level: info, formatter: json}}
""")
        self.folder, self.tls = folder, tls
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", folder / "registry.yml"], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        leftovers.LABS.append(self.process.pid)
        self.port = wait_until(self.look, "the registry listens", SECONDS)
        self.host = f"localhost:{self.port}"

    def look(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()
        found = re.search(r"listening on 127\.0\.0\.1:(\d+)", (self.folder / "log").read_text())
        return found and int(found[1])

    def requests(self):
        """[(method, path)] of all requests so far."""
        found = re.findall(r'"http.request.method":"(\w+)".*?"http.request.uri":"([^"]+)"',
                           (self.folder / "log").read_text())
        return found

    def push(self, layout, name, *options):
        """skopeo copies LAYOUT into the registry."""
        skopeo("copy", "--dest-tls-verify=false", *options, f"oci:{layout}:t", f"docker://{self.host}/{name}")

    def close(self):
        self.process.kill()
        self.process.wait()


def skopeo(*words):
    done = subprocess.run(["skopeo", "--insecure-policy", *map(str, words)], capture_output=True, check=False)
    assert done.returncode == 0, done
    return done.stdout.decode()


# ---- servers of the tests' own ---------------------------------------------------------------------------

class Seen:
    """A request; a handler serves several."""

    def __init__(self, handler):
        self.command, self.path, self.headers, self.body = handler.command, handler.path, handler.headers, handler.body

    def query(self):
        return urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)


class Server:
    """An HTTP server on loopback.  ANSWER(handler) sends an answer; SEEN has the requests."""

    def __init__(self, answer, tls=None):
        outer = self
        self.seen, self.lock = [], threading.Condition()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def go(self):
                length = int(self.headers.get("content-length", 0))
                self.body = self.rfile.read(length).decode()
                with outer.lock:
                    outer.seen.append(Seen(self))
                    outer.lock.notify_all()
                answer(self)

            do_GET = do_HEAD = do_POST = go

            def send(self, status, body=b"", kind="application/json", **fields):
                """BODY with its length, and FIELDS: underscores are dashes."""
                self.send_response(status)
                self.send_header("content-type", kind)
                if "content_length" not in fields:
                    self.send_header("content-length", str(len(body)))
                for name, value in fields.items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *args):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                """A client that hangs up is no failure."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "server.crt", tls / "server.key")
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.host, self.url = f"localhost:{self.port}", f"http{'s' if tls else ''}://localhost:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def wait(self, condition, what):
        """The first request for which CONDITION holds."""
        with self.lock:
            assert self.lock.wait_for(lambda: any(map(condition, self.seen)), SECONDS), what
            return next(filter(condition, self.seen))

    def paths(self, method="GET"):
        return [request.path for request in self.seen if request.command == method]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Honest:
    """Answers as a registry does; tests change single answers."""

    def __init__(self, image, tags=("t",)):
        self.image, self.tags = image, tags
        self.changes = {}           # how a path begins: another answer

    def __call__(self, handler):
        for start, answer in self.changes.items():
            if handler.path.startswith(start):
                answer(handler)
                return
        self.answer(handler)

    def answer(self, handler):
        kind, _, what = handler.path.partition("/v2/a/")[2].partition("/")
        if what in self.tags:
            what = self.image.digest
        if what not in self.image.blobs:
            handler.send(200 if handler.path == "/v2/" else 404, b"{}")
        elif kind == "manifests":
            text = self.image.blobs[what]
            handler.send(200, text, json.loads(text)["mediaType"], docker_content_digest=what)
        else:
            self.send_blob(handler, self.image.blobs[what])

    @staticmethod
    def send_blob(handler, data):
        start = int(re.match(r"bytes=(\d+)-", handler.headers.get("range", "bytes=0-"))[1])
        kind = "application/octet-stream"
        if start:
            handler.send(206, data[start:], kind, content_range=f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            handler.send(200, data, kind)


class TokenServer(Server):
    """Gives tokens that docker-registry takes, to those with a login if it WANTS one."""

    def __init__(self, folder, wants=True):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=tests", "-days", 9,
                "-keyout", folder / "token.key", "-out", folder / "token.crt")
        self.folder, self.wants = folder, wants
        super().__init__(self.answer)

    def answer(self, handler):
        if handler.command == "POST":
            asked = urllib.parse.parse_qs(handler.body)
            good = asked.get("refresh_token") == [PASSWORD] and asked["grant_type"] == ["refresh_token"]
        else:
            asked = Seen(handler).query()
            good = not self.wants or handler.headers.get("authorization") == basic()
        if good:
            handler.send(200, encode({"token": self.make(asked["service"][0], asked["scope"][0]), "expires_in": 300}))
        else:
            handler.send(401, b"{}")

    def make(self, service, scope):
        def coded(data):
            return base64.urlsafe_b64encode(data).decode().rstrip("=")
        certificate = (self.folder / "token.crt").read_text().split("-----")[2].replace("\n", "")
        now, (kind, name, actions) = int(time.time()), scope.split(":")
        claims = {"iss": "tests", "sub": USER, "aud": service, "exp": now + 300, "nbf": now - 10, "iat": now,
                  "jti": secrets.token_hex(8), "access": [{"type": kind, "name": name, "actions": actions.split(",")}]}
        text = ".".join(coded(encode(part)) for part in ({"alg": "RS256", "typ": "JWT", "x5c": [certificate]}, claims))
        return f"{text}.{coded(openssl('dgst', '-sha256', '-sign', self.folder / 'token.key', input=text.encode()))}"

    def settings(self):
        """The part of docker-registry's configuration."""
        return (f"auth: {{token: {{realm: '{self.url}/token', service: images, issuer: tests, "
                f"rootcertbundle: {self.folder}/token.crt}}}}")


def basic(user=USER, password=PASSWORD):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def login(user=USER, password=PASSWORD):
    """An entry of auth.json."""
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}
