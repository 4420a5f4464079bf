"""An API server of a Kubernetes for tests that need what a real one does seldom: versions that are forgotten, changes at the wrong
moment, answers that are none.  Lists, watches, merge patches, versions, finalizers and owners are as the real one has them, as far
as `cloister operator` asks; tests/scenario/kubernetes judges it with the real one.
"""
import copy
import json
import re
import ssl
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PATH = re.compile(r"/apis/([^/]+)/[^/]+(?:/namespaces/([^/]+))?/([^/]+)(?:/([^/]+))?(/status)?")
WHEN = "2026-01-01T00:00:00Z"


def merged(old, patch):
    for key, value in patch.items():
        if value is None:
            old.pop(key, None)
        elif isinstance(value, dict):
            old[key] = merged(old[key] if isinstance(old.get(key), dict) else {}, value)
        else:
            old[key] = value
    return old


class Refused(Exception):
    pass


class Kube:
    """Its objects: {(group, namespace, plural, name): object}."""

    def __init__(self, folder, authority):
        self.objects, self.events, self.version, self.oldest = {}, [], 100, 0
        self.changed = threading.Condition()
        self.garbage = []               # lines that the next watches begin with
        self.on_patch = None            # called before a patch is judged
        kube = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def answer(self):
                kube.answer(self)
            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer
        authority.sign("api", "api", addresses=["127.0.0.1"])
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "api.crt", folder / "api.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    # ---- objects

    def note(self, type, at, one):
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, type, at, copy.deepcopy(one)))
        self.changed.notify_all()

    def remove(self, at):
        one = self.objects[at]
        if one["metadata"].get("finalizers"):
            if "deletionTimestamp" not in one["metadata"]:
                one["metadata"]["deletionTimestamp"] = WHEN
                self.note("MODIFIED", at, one)
            return
        del self.objects[at]
        self.note("DELETED", at, one)
        for other, owned in list(self.objects.items()):
            if any(o["uid"] == one["metadata"]["uid"] for o in owned["metadata"].get("ownerReferences", [])):
                self.remove(other)

    def make(self, at, one):
        if at in self.objects:
            raise Refused(409, "it is there already")
        one["metadata"].update(namespace=at[1], uid=str(uuid.uuid4()), generation=1, creationTimestamp=WHEN)
        one.pop("status", None)
        self.objects[at] = one
        self.note("ADDED", at, one)
        return one

    def change(self, at, said, method, of_status):
        old = self.objects[at]
        if said["metadata"].get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
            raise Refused(409, "it has changed meanwhile")
        new = merged(copy.deepcopy(old), said) if method == "PATCH" else {**said, "metadata": {**old["metadata"], **said["metadata"]}}
        if of_status:
            new = {**old, "status": new.get("status")}
        elif "status" in old:
            new["status"] = old["status"]
        new["metadata"]["generation"] += new.get("spec") != old.get("spec")
        self.objects[at] = new
        self.note("MODIFIED", at, new)
        if "deletionTimestamp" in new["metadata"]:
            self.remove(at)
        return new

    def forget_versions(self):
        """Whoever watches is told so, and lists again."""
        with self.changed:
            self.oldest = self.version + 1
            self.version += 2
            self.changed.notify_all()

    # ---- requests

    def answer(self, q):
        url = urlsplit(q.path)
        query = {key: value[0] for key, value in parse_qs(url.query).items()}
        size = int(q.headers.get("Content-Length") or 0)
        said = json.loads(q.rfile.read(size)) if size else None
        group, namespace, plural, name, status = PATH.fullmatch(url.path).groups()

        def is_listed(at):
            return at[0] == group and at[2] == plural and namespace in (None, at[1])
        if query.get("watch"):
            self.watch(q, int(query["resourceVersion"]), int(query["timeoutSeconds"]), is_listed)
            return
        try:
            if q.command == "PATCH" and self.on_patch is not None:
                self.on_patch(plural, name)
            with self.changed:
                code, body = 200, self.do(q.command, group, namespace, plural, name, status, said, is_listed, query)
        except Refused as refused:
            code, text = refused.args
            body = {"kind": "Status", "code": code, "message": text}
        data = json.dumps(body).encode()
        q.send_response(code)
        q.send_header("Content-Length", str(len(data)))
        q.end_headers()
        q.wfile.write(data)

    def do(self, method, group, namespace, plural, name, status, said, is_listed, query):
        if method == "GET" and name is None:
            found, first = [o for at, o in self.objects.items() if is_listed(at)], int(query.get("continue", 0))
            last = first + int(query["limit"])
            return {"metadata": {"resourceVersion": str(self.version), **({"continue": str(last)} if last < len(found) else {})},
                    "items": found[first:last]}
        at = (group, namespace, plural, name or said["metadata"]["name"])
        if method == "POST":
            return self.make(at, said)
        if at not in self.objects:
            raise Refused(404, "it is not there")
        if method == "DELETE":
            if said and said["preconditions"]["uid"] != self.objects[at]["metadata"]["uid"]:
                raise Refused(409, "it is another one")
            self.remove(at)
            return {"kind": "Status"}
        return self.objects[at] if method == "GET" else self.change(at, said, method, status)

    def watch(self, q, version, seconds, is_listed):
        end = time.monotonic() + seconds
        q.send_response(200)
        q.send_header("Transfer-Encoding", "chunked")
        q.end_headers()

        def send(data):
            q.wfile.write(b"%x\r\n%s\n\r\n" % (len(data) + 1, data))
            q.wfile.flush()
        try:
            for line in self.garbage:
                send(line)
            while time.monotonic() < end:
                with self.changed:
                    if version < self.oldest:
                        send(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}')
                        break
                    news = [e for e in self.events if e[0] > version and is_listed(e[2])]
                    if not news:
                        self.changed.wait(1)
                for version, type, _, one in news:
                    send(json.dumps({"type": type, "object": one}).encode())
            q.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass
