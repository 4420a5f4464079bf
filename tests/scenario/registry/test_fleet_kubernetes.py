"""The engine `kubernetes` against an API server of this file's, which says what a real one never would.  What a real one says
is in tests/scenario/kubernetes."""
import base64
import http.server
import json
import ssl
import struct
import threading

import pytest

pytest.importorskip("cryptography")

import fleet_client  # noqa: E402
from kube_lab import Authority  # noqa: E402

JOBS, PODS = "/apis/batch/v1/namespaces/here/jobs", "/api/v1/namespaces/here/pods"


class FakeServer:
    """ANSWERS: what a request gets, by "METHOD path" without its query: (status, value), or a function of the request."""

    def __init__(self, folder):
        self.authority = Authority(folder / "pki")
        self.authority.sign("api", "api", addresses=["127.0.0.1"])
        self.answers, self.asked = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.asked.append((self.command, self.path, dict(self.headers), body))
                answer = outer.answers.get(f"{self.command} {self.path.split('?')[0]}", (404, {"message": "there is none"}))
                status, value = answer(self.path) if callable(answer) else answer
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "pki/api.crt", folder / "pki/api.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.config = folder / "config"
        self.config.write_text(json.dumps({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "here"}}],
            "clusters": [{"name": "c", "cluster": {
                "server": f"https://127.0.0.1:{self.server.server_port}/prefix",
                "certificate-authority-data": base64.b64encode(self.authority.text("ca.crt").encode()).decode()}}],
            "users": [{"name": "u", "user": {"token": "the-token"}}]}))
        self.config.chmod(0o600)

    def on(self, what, answer):
        method, path = what.split(" ", 1)
        self.answers[f"{method} /prefix{path}"] = answer

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server(tmp_path):
    server = FakeServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def fleet(server, tmp_path):
    fleet = fleet_client.Fleet({"name": "far", "engine": "kubernetes", "image": "i:1", "service": "s.example:1"},
                               {"KUBECONFIG": str(server.config), "HOME": str(tmp_path)})
    yield fleet
    fleet.close()


def job(name, *conditions, **metadata):
    return {"metadata": {"name": name, **metadata}, "status": {"conditions": [{"type": c, "status": "True"} for c in conditions]}}


def test_what_is_asked(server, fleet):
    server.on(f"POST {JOBS}", (201, {"metadata": {"uid": "u-1"}}))
    server.on("POST /api/v1/namespaces/here/secrets", (201, {}))
    worker, = fleet.start("a token")
    (_, path, head, made), (_, _, _, secret) = server.asked
    assert path == f"/prefix{JOBS}" and head["Authorization"] == "Bearer the-token"
    assert json.loads(made)["metadata"]["name"] == worker and b"a token" not in made
    assert json.loads(secret)["stringData"] == {"token": "a token"}
    assert json.loads(secret)["metadata"]["ownerReferences"][0]["uid"] == "u-1"


def test_a_worker_without_its_token_is_not_left(server, fleet):
    server.on(f"POST {JOBS}", (201, {"metadata": {"uid": "u-1"}}))
    server.on("POST /api/v1/namespaces/here/secrets", (403, {"message": "no secrets for you"}))
    with pytest.raises(fleet_client.Refused, match="no secrets for you"):
        fleet.start("a token")
    assert [method for method, *_ in server.asked] == ["POST", "POST", "DELETE"]


def test_pages(server, fleet):
    """300 Jobs in three answers, of which those that have ended are removed."""
    def page(path):
        n = int(path.rsplit("continue=", 1)[1]) if "continue=" in path else 0
        jobs = [job(f"j{n}-{i}", *(["Complete"] if i == 0 else [])) for i in range(100)]
        return 200, {"items": jobs, "metadata": {"continue": str(n + 1) if n < 2 else ""}}
    server.on(f"GET {JOBS}", page)
    server.on(f"GET {PODS}", (200, {"items": []}))
    for n in range(3):
        server.on(f"DELETE {JOBS}/j{n}-0", (200, {}))
    # A look at the events of a Job without a pod costs a request, so there are few.
    server.on("GET /api/v1/namespaces/here/events", (200, {"items": [{"type": "Warning", "reason": "No", "message": "room"}]}))
    assert fleet.count() == (297, 0, "No: room")
    assert sum(method == "DELETE" for method, *_ in server.asked) == 3
    assert sum("/events?" in path for _, path, *_ in server.asked) == 4


def test_pages_without_an_end(server, fleet):
    server.on(f"GET {JOBS}", (200, {"items": [], "metadata": {"continue": "more"}}))
    with pytest.raises(fleet_client.Refused, match="there are over 4096 workers"):
        fleet.count()
    assert len(server.asked) < 100


@pytest.mark.parametrize("status, value, part", [
    (200, b"<html>", "is no Kubernetes"), (200, [], "is no Kubernetes"), (200, {"items": {}}, "is no Kubernetes"), (200, b"", "is no Kubernetes"),
    (500, b"oh", "refuses with 500"), (401, {"message": "x"}, "does not know who asks"),
    (403, {"message": "no\x1b[31m\nand no"}, "refuses with 403: no [31m and no"), (302, {}, "refuses with 302"),
    (200, b"[" * 100000, "is no Kubernetes"), (200, b" " * (5 << 20), "is over 4 MiB")])
def test_other_answers(server, fleet, status, value, part):
    server.on(f"GET {JOBS}", (status, value))
    with pytest.raises(fleet_client.Refused) as caught:
        fleet.count()
    assert part in str(caught.value) and "the-token" not in str(caught.value), caught.value


def test_values_of_other_types(server, fleet):
    """Nothing of an answer is where it should be."""
    strange = [None, 1, "x", [], {"metadata": 1, "status": []}, {"metadata": {"name": 5}, "status": {"conditions": {}}},
               job("../../../api/v1/secrets?x", "Complete"), job("a", "Failed"), job("b", deletionTimestamp=7)]
    pods = [None, {"metadata": {"labels": {"job-name": "a"}}, "status": {"phase": "Failed", "containerStatuses": [
        {"state": {"terminated": {"exitCode": "x", "reason": 7, "message": "y" * 100000}}}]}}]
    server.on(f"GET {JOBS}", (200, {"items": strange}))
    server.on(f"GET {PODS}", (200, {"items": pods}))
    server.on(f"DELETE {JOBS}/a", (200, {}))
    alive, failed, _ = fleet.count()
    assert failed == 1 and alive <= 6
    # A name cannot lead elsewhere.
    assert all(path.startswith((f"/prefix{JOBS}", f"/prefix{PODS}", "/prefix/api/v1/namespaces/here/events")) and ".." not in path
               .replace("..%2F", "") for _, path, _, _ in server.asked), [path for _, path, *_ in server.asked]


def test_a_node_that_is_lost(server, fleet):
    """The containers are said to run, and the pod is said not to be ready."""
    def pod(name, ready, container):
        return {"metadata": {"labels": {"job-name": name}}, "spec": {"nodeName": "n7"}, "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"ready": container, "state": {"running": {}}}]}}
    server.on(f"GET {JOBS}", (200, {"items": [job("good"), job("lost"), job("ending")]}))
    server.on(f"GET {PODS}", (200, {"items": [pod("good", "True", True), pod("lost", "False", True), pod("ending", "False", False)]}))
    assert fleet.count() == (2, 0, "the node does not answer: n7")


def test_nobody_waits_any_more(server, fleet):
    """An engine that is slow holds up nothing: once whoever asked is gone, no further worker is started."""
    begun, go = threading.Event(), threading.Event()

    def slow(_):
        begun.set()
        return (201, {"metadata": {"uid": "u"}}) if go.wait(fleet_client.SECONDS) else (500, {})
    server.on(f"POST {JOBS}", slow)
    fleet.channel.send(struct.pack("<III", fleet_client.START, 0, 3) + 3 * fleet_client.text(""))
    assert begun.wait(fleet_client.SECONDS)
    fleet.channel.close()
    go.set()
    assert fleet.process.wait(fleet_client.SECONDS) == 0
    assert [method for method, path, *_ in server.asked if path.endswith(JOBS)] == ["POST"]
