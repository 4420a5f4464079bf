"""`cloister serve`: its answers, its access rules, and its refusals."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import closing

import pytest

from operators import CLOISTER, IS_ROOT, SECONDS, TREE, USER, only_root, wait_until
from service import Answer, Service, UnixConnection, connect, crowd, read_all
from terminal import Terminal


@pytest.fixture
def service(operator):
    return Service(operator)


def curl(service, *words, socket=None):
    return service.operator.do("curl", "-sS", "--unix-socket", socket or service.socket, *words)


# ---- what it tells of itself ------------------------------------------------------

def test_about(service):
    assert service.get("/v1/version").ok()["version"] in service.operator.cloister("version").ok()
    assert service.get("/healthz").ok() == {"status": "ok"}
    assert service.log() == f"cloister: serving at {os.path.realpath(service.socket)}\n"
    done = curl(service, "http://localhost/v1/version")
    assert json.loads(done.ok())["api"] == ["v1"]


def test_a_start_by_hand_mentions_the_dashboard(operator):
    terminal = Terminal(operator, operator.program, "serve", "--listen", "127.0.0.1:0")
    terminal.expect("cloister: `cloister dashboard` logs a browser in\r\n")
    terminal.process.terminate()
    terminal.end()
    terminal.close()


def test_metrics(service):
    service.get("/nosuch")
    answer = service.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = answer.data.decode()
    values = dict(re.findall(r"^(cloister_\S+) (\d+)$", text, re.M))
    assert int(values["cloister_http_requests_total"]) >= 2
    assert int(values['cloister_http_answers_total{status="4xx"}']) == 1
    for name in values:
        name = name.split("{")[0]
        assert f"# HELP {name} " in text and f"# TYPE {name} " in text
    promtool = "/usr/bin/promtool"
    if os.path.exists(promtool):
        service.operator.do(promtool, "check", "metrics", input=text).ok()


# ---- cells ------------------------------------------------------------------------

MOVING = {"memory", "peak", "pids", "cpu_ms", "read", "written", "pressure_cpu", "pressure_io", "pressure_memory"}


def steady(cell):
    return {key: value for key, value in cell.items() if key not in MOVING}


def test_cells(service):
    operator = service.operator
    assert service.get("/v1/cells").ok() == {"cells": []}
    cell = operator.detach("--name", "joe", "--", "sleep", "1000")
    listed, shown = service.get("/v1/cells").ok()["cells"], service.get("/v1/cells/joe").ok()
    for said in (*listed, shown):           # all of it is as `ps` has it
        assert steady(said) == steady(operator.cell(cell))
    assert len(listed) == 1
    frozen = service.post(f"/v1/cells/{cell[:5]}/freeze")
    if frozen.status == 501:                # this user has no cgroup that could
        frozen.error(501, "unsupported", "cgroup")
    else:
        assert frozen.ok()["state"] == "frozen"
        assert service.post(f"/v1/cells/{cell}/freeze").ok()["state"] == "frozen"
        assert service.post("/v1/cells/joe/thaw").ok()["state"] == "running"
    assert service.post("/v1/cells/joe/stop?grace=5s").ok()["status"] == 143
    assert service.get("/v1/cells").ok() == {"cells": []}
    ended = service.get("/v1/cells?all=true").ok()["cells"]
    assert ended == operator.cells("-a") and ended[0]["state"] == "ended"
    assert service.get(f"/v1/cells/{cell}").ok() == ended[0]
    service.post("/v1/cells/joe/stop").error(409, "over", "has ended")


def test_cells_kill(service):
    cell = service.operator.detach("--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    assert service.post(f"/v1/cells/{cell}/kill").ok()["status"] == 137
    service.get("/v1/cells/nosuch").error(404, "not_found", "nosuch")
    service.post("/v1/cells/nosuch/kill").error(404, "not_found", "nosuch")
    service.post("/v1/cells/x/stop?grace=2h").error(400, "invalid", "grace")
    service.post("/v1/cells/x/stop?grace=soon").error(400, "invalid", "grace")


# ---- errors that a new user makes ---------------------------------------------------

def test_wrong_paths_and_methods(service):
    service.get("/v1/nosuch").error(404, "not_found", "/v1/openapi.json")
    service.get("/").error(404, "not_found")
    service.get("/v1/cells/").error(404, "not_found")
    service.get("//v1/cells").error(404, "not_found")
    service.get("/v1/../../etc/passwd").error(404, "not_found")
    service.get("/v1/cells/..%2f..").error(400, "bad_request")
    answer = service.ask("DELETE", "/v1/cells")
    answer.error(405, "method_not_allowed", "Allow")
    assert answer.headers["allow"] == "GET, HEAD"
    assert service.ask("OPTIONS", "/v1/cells/x/stop").headers["allow"] == "POST"
    service.get("/v1/cells?al=true").error(400, "invalid", "'al'", "all")
    service.get("/v1/cells?all=yes").error(400, "invalid", "true or false")
    service.get("/v1/cells?all=true&all=true").error(400, "invalid", "twice")
    service.get("/v1/version?x=1").error(400, "invalid", "'x'")
    service.post("/healthz", {"a": 1}).error(405, "method_not_allowed")


def test_head(service):
    with closing(UnixConnection(service.socket)) as client:
        for _ in range(2):                  # the connection goes on behind it
            client.request("HEAD", "/v1/version")
            response = client.getresponse()
            assert response.status == 200 and int(response.headers["content-length"]) > 10
            assert response.read() == b""
        client.request("GET", "/v1/version")
        assert Answer(client.getresponse()).ok()


def test_unexpected_bodies(service):
    """They are refused before they are read."""
    answer = service.raw(b"DELETE /v1/agents/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ") and b"connection: close" in answer
    answer = service.raw(b"DELETE /v1/agents/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                         b"5\r\nhello\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    done = curl(service, "-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect: 100-continue",
                "--data-binary", "x" * 5000, "http://x/v1/cells/x/kill")
    assert done.ok() == "413"


# ---- connections --------------------------------------------------------------------

GET = b"GET /v1/version HTTP/1.1\r\nHost: x\r\n"


def count(answers):
    return len(re.findall(rb"HTTP/1\.1 \d\d\d ", answers))


def test_keep_alive(service):
    with closing(UnixConnection(service.socket)) as client:
        client.connect()
        port = client.sock.fileno()
        for _ in range(50):
            client.request("GET", "/v1/version")
            assert Answer(client.getresponse()).ok()
        client.request("GET", "/nosuch")
        assert Answer(client.getresponse()).status == 404
        client.request("POST", "/v1/cells/nosuch/kill")
        assert Answer(client.getresponse()).status == 404
        assert client.sock.fileno() == port


def test_pipelining(service):
    """Answered one after the other, in their order."""
    answers = service.raw((GET + b"\r\n") * 99 + b"GET /nosuch HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert count(answers) == 100 and answers.count(b"HTTP/1.1 200 OK") == 99
    assert b"404" in answers.split(b"HTTP/1.1 ")[-1]
    # Much more than is kept: it waits until the client reads.
    with closing(connect(service.socket)) as sock:
        data = (GET + b"X: " + b"x" * 4000 + b"\r\n\r\n") * 500
        sender = threading.Thread(target=sock.sendall, args=(data,))
        sender.start()
        answers = b""
        while count(answers) < 500:
            answers += sock.recv(65536)
        sender.join()


def test_old_clients(service):
    answer = service.raw(b"GET /v1/version HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and b"connection: close" in answer
    assert answer.endswith(b"}\n")


def test_half_requests(service):
    assert service.raw(b"GET /v1/ver", shut=True) == b""
    assert service.raw(b"", shut=True) == b""
    assert service.raw(b"POST /v1/cells/x/kill HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
                       shut=True).startswith(b"HTTP/1.1 404 ")
    answer = service.raw(GET + b"\r\n" + b"GET /v1/ver", shut=True)
    assert count(answer) == 1


BAD = {
    "bare-lf": GET.replace(b"\r\n", b"\n") + b"\n",
    "folded": GET + b"X: a\r\n b\r\n\r\n",
    "space-before-colon": GET + b"X : a\r\n\r\n",
    "no-host": b"GET /v1/version HTTP/1.1\r\n\r\n",
    "two-hosts": GET + b"Host: x\r\n\r\n",
    "two-lengths": b"POST /v1/cells/x/kill HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "both-lengths": b"POST /v1/cells/x/kill HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding": b"POST /v1/cells/x/kill HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "minus": b"POST /v1/cells/x/kill HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "plus": b"POST /v1/cells/x/kill HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx",
    "nul": GET + b"X: a\0b\r\n\r\n",
    "version": b"GET /v1/version HTTP/2.0\r\nHost: x\r\n\r\n",
    "no-version": b"GET /v1/version\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 300 + b"\r\n\r\n",
    "long-head": GET + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
    "many-fields": GET + b"X: 1\r\n" * 1000 + b"\r\n",
    "connect": b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n",
    "upgrade": GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "absolute-elsewhere": b"GET http://y/v1/version HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("who", ["user"])
def test_desync(service):
    """Requests that two readers could read differently are refused, and nothing behind them is read."""
    for name, data in BAD.items():
        answer = service.raw(data + GET + b"Connection: close\r\n\r\n")
        assert count(answer) == 1, (name, answer)
        assert re.match(rb"HTTP/1\.1 (4\d\d|501|505) ", answer), (name, answer)
        assert b"connection: close" in answer, name
        assert b'{"error":{"code":"' in answer, (name, answer)
    assert service.get("/v1/version").ok()


@pytest.mark.parametrize("who", ["user"])
def test_many_at_once(service):
    """More connections than there may be wait; idle ones make room."""
    idle = [connect(service.socket) for _ in range(300)]
    try:
        for sock in idle[100:]:             # the first ones have made room
            sock.sendall(GET + b"\r\n")
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        assert service.get("/v1/version").ok()
        # The agents' door is another one.
        assert service.get("/v1/version", socket=service.agents).ok()
    finally:
        for sock in idle:
            sock.close()
    results = []

    def ask():
        for _ in range(20):
            results.append(service.get("/v1/cells").status)
    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [200] * 400


# ---- who --------------------------------------------------------------------------

def routes(operator):
    lines = operator.cloister("serve", "--routes").ok().splitlines()
    return [line.split() for line in lines]


def test_roles(service):
    """On the agents' socket there is nothing of the operator's."""
    found = 0
    for roles, method, path in routes(service.operator):
        path = re.sub(r"\{\w+\*?\}", "nosuch", path)
        answer = service.ask(method, path, socket=service.agents)
        if "agent" in roles.split(","):
            assert answer.status != 405
        else:
            found += 1
            answer.error(404 if answer.status == 404 else 405, answer.json["error"]["code"])
            assert method not in answer.headers.get("allow", "")
        assert service.ask(method, path).status != 405
    assert found > 5
    document = service.get("/v1/openapi.json", socket=service.agents).ok()
    said = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert said == {(method, path.replace("*", "")) for roles, method, path in routes(service.operator)
                    if "agent" in roles.split(",")}


def test_socket_is_the_users_own(service):
    for path in (service.socket, service.agents):
        assert os.stat(path).st_mode & 0o777 == 0o600
    if IS_ROOT:
        # Somebody else cannot even reach it.
        stranger = subprocess.run(["curl", "-sS", "--unix-socket", service.socket, "http://x/v1/cells"],
                                  user=USER + 1, group=USER + 1, extra_groups=[], capture_output=True)
        assert stranger.returncode != 0


@only_root
def test_strangers_are_refused(operator):
    """Whatever the file's mode, the kernel identifies the peer."""
    service = Service(operator)
    os.chmod(service.socket, 0o666)
    for folder in (operator.base, operator.runtime):
        os.chmod(folder, 0o755)
    done = subprocess.run(["curl", "-sS", "--unix-socket", service.socket, "http://x/v1/cells"],
                          user=USER + 1, group=USER + 1, extra_groups=[], capture_output=True)
    os.chmod(operator.runtime, 0o700)
    assert json.loads(done.stdout)["error"]["code"] == "forbidden"


def test_pages_are_refused(service):
    service.get("/v1/cells", headers={"Origin": "http://localhost"}).error(403, "origin")
    service.get("/v1/cells", headers={"Origin": "null"}).error(403, "origin")
    answer = service.get("/v1/version")
    assert "access-control-allow-origin" not in answer.headers


# ---- TCP --------------------------------------------------------------------------

def test_tcp(operator):
    service = Service(operator, "--listen", "127.0.0.1:0")
    token = (operator.base / "data" / "serve" / "token").read_text().strip()
    assert len(token) == 64 and os.stat(operator.base / "data/serve/token").st_mode & 0o777 == 0o600
    assert service.tcp("GET", "/v1/cells", token).ok() == {"cells": []}
    service.tcp("GET", "/v1/cells").error(401, "unauthorized", "token file")
    for wrong in ("x", token[:-1], token + "0", token.upper(), ""):
        answer = service.tcp("GET", "/v1/cells", wrong)
        answer.error(401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    # curl knows it by the certificate that was made, and openssl has the same fingerprint.
    cert = operator.base / "data" / "serve" / "cert.pem"
    done = operator.do("curl", "-sS", "--cacert", cert, "-H", f"Authorization: Bearer {token}",
                       f"https://localhost:{service.port}/v1/cells")
    assert json.loads(done.ok()) == {"cells": []}
    print_ = operator.do("openssl", "x509", "-in", cert, "-noout", "-fingerprint", "-sha256").ok()
    assert print_.split("=")[1].strip() in service.log()
    # Without TLS a token is not taken, and without either nothing is there.
    service.tcp("GET", "/v1/cells", token, tls=False).error(400, "tls", "https://")
    done = operator.do("curl", "-sS", "--data", "x" * 5000, f"http://localhost:{service.port}/v1/cells")
    assert json.loads(done.ok())["error"]["code"] == "unauthorized"
    assert service.stop() == 0
    service.start()                         # the same token and certificate
    assert service.tcp("GET", "/v1/cells", token).ok() == {"cells": []}


@pytest.mark.parametrize("who", ["user"])
def test_clients_without_a_token_keep_nobody_out(operator):
    """Also if they get a refusal first, or a page that needs no token."""
    service = Service(operator, "--listen", "127.0.0.1:0", "--no-tls")
    token = (operator.base / "data" / "serve" / "token").read_text().strip()
    get = f"GET /%s HTTP/1.1\r\nHost: localhost:{service.port}\r\n%s\r\n"
    half = b"GET /v1/cells HTTP/1.1\r\nHost:"
    known = http.client.HTTPConnection("127.0.0.1", service.port, timeout=SECONDS)
    ask = lambda: known.request("GET", "/v1/cells", headers={"Authorization": f"Bearer {token}"})
    with closing(known):
        ask()
        assert Answer(known.getresponse()).ok() == {"cells": []}
        strangers = crowd(service.port, [half], [(get % ("", "")).encode(), half],
                          [(get % ("v1/cells", "Authorization: Bearer x\r\n")).encode(), half])
        began = time.monotonic()
        assert service.tcp("GET", "/v1/cells", token, tls=False).ok() == {"cells": []}
        assert time.monotonic() - began < 5
        known.auto_open = 0                 # who has shown one keeps its place
        ask()
        assert Answer(known.getresponse()).ok() == {"cells": []}
    for sock in strangers:
        sock.close()


def test_tcp_names(operator):
    """A page that has its name point here does not get in."""
    service = Service(operator, "--listen", "127.0.0.1:0", "--no-tls")
    assert "http://" in service.log()
    token = (operator.base / "data" / "serve" / "token").read_text().strip()

    def ask(host):
        return service.tcp("GET", "/v1/cells", token, {"Host": host}, tls=False)
    for host in (f"127.0.0.1:{service.port}", f"localhost:{service.port}", f"LOCALHOST:{service.port}"):
        ask(host).ok()
    for host in ("evil.example", f"evil.example:{service.port}", "127.0.0.1:1", f"127.0.0.2:{service.port}",
                 f"localhost.evil.example:{service.port}"):
        ask(host).error(421, "wrong_host")
    service.tcp("GET", "/v1/cells", token, {"Origin": f"http://127.0.0.1:{service.port}"},
                tls=False).error(403, "origin")


def test_tcp_agents_token(operator):
    own = operator.file("agent.token", "a-token-of-some-length\n")
    own.chmod(0o600)
    service = Service(operator, "--listen", "127.0.0.1:0", "--agent-token-file", own)
    token = (operator.base / "data" / "serve" / "token").read_text().strip()
    assert service.tcp("GET", "/v1/cells", token).status == 200
    assert service.tcp("GET", "/v1/version", "a-token-of-some-length").status == 200
    service.tcp("GET", "/v1/cells", "a-token-of-some-length").error(404, "not_found")
    # What rules may match on is not an agent's to say.
    service.post("/v1/agents", {"name": "worker", "command": ["true"]}).ok(201)
    said = json.dumps({"agent": "worker", "on_behalf_of": "ann@finance.example.com"})
    error = service.tcp("POST", "/v1/dispatches", "a-token-of-some-length",
                        {"Content-Type": "application/json"}, said).error(403, "forbidden")
    assert error["pointer"] == "/on_behalf_of"
    assert service.get("/v1/dispatches").ok()["items"] == []


def test_tcp_refusals(operator):
    def refused(*options):
        return operator.cloister("serve", *options)
    for address in ("0.0.0.0:80", "[::]:80", "192.0.2.1:80", "localhost.evil:80"):
        refused("--listen", address).sentence("only this machine")
    refused("--listen", "localhost:7878").sentence("write 127.0.0.1:7878")
    for address in ("80", "127.0.0.1", "127.0.0.1:70000", "127.0.0.1:x"):
        refused("--listen", address).sentence("127.0.0.1:PORT")
    open_file = operator.file("open.token", "x" * 40)
    refused("--listen", "127.0.0.1:0", "--token-file", open_file).sentence("chmod 600")
    short = operator.file("short.token", "x")
    short.chmod(0o600)
    refused("--listen", "127.0.0.1:0", "--token-file", short).sentence("16 characters")
    refused("--listen", "127.0.0.1:0", "--tls-cert", "/x").sentence("need each other")
    refused("--listen", "127.0.0.1:0", "--tls-cert", "/x", "--tls-key", "/y").sentence("/x")
    refused("--no-tls").sentence("--listen")
    refused("--concurrency", "0").sentence("--concurrency")
    refused("--idle-exit", "x").sentence("--idle-exit")
    refused("x").sentence("remove 'x'")


# ---- life -------------------------------------------------------------------------

def test_one_at_a_time(service):
    service.operator.cloister("serve").sentence("runs already", str(service.process.pid))


def test_socket_elsewhere(operator):
    operator.folder("elsewhere")
    service = Service.__new__(Service)
    service.operator, service.options = operator, ("--socket", operator.base / "elsewhere" / "a.sock",
                                                   "--agents-socket", operator.base / "elsewhere" / "b.sock")
    service.socket, service.agents = (str(operator.base / "elsewhere" / n) for n in ("a.sock", "b.sock"))
    service.start()
    assert service.get("/v1/cells").ok() == {"cells": []}
    assert service.get("/v1/cells", socket=service.agents).status == 404
    assert service.stop() == 0
    assert os.listdir(operator.base / "elsewhere") == []
    operator.file("elsewhere/a.sock", "precious")
    operator.cloister("serve", "--socket", operator.base / "elsewhere" / "a.sock").sentence("no socket")
    assert (operator.base / "elsewhere" / "a.sock").read_text() == "precious"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_stops_on_request(service, how):
    """Requests under way are answered; cells continue."""
    cell = service.operator.detach("--", "sh", "-c", "trap 'sleep 1; exit 7' TERM; echo up; sleep 1000 & wait")
    wait_until(lambda: "up" in service.operator.cloister("logs", cell).out, "the agent runs")
    with closing(UnixConnection(service.socket)) as client:
        client.request("POST", f"/v1/cells/{cell}/stop?grace=30s")
        assert service.stop_begins(how)
        answer = Answer(client.getresponse())
        assert answer.ok()["status"] == 7
        assert answer.headers["connection"] == "close"
    assert service.process.wait(SECONDS) == 0
    assert not os.path.exists(service.socket) and not os.path.exists(service.agents)


def test_waiting_requests_are_answered(service):
    """The service is stopped while requests wait that it has not read: they are answered."""
    service.process.send_signal(signal.SIGSTOP)
    waiting = [connect(service.socket) for _ in range(5)]
    for sock in waiting:
        sock.sendall(GET + b"\r\n")
    service.process.send_signal(signal.SIGTERM)
    service.process.send_signal(signal.SIGCONT)
    for sock in waiting:
        assert read_all(sock).startswith(b"HTTP/1.1 200 OK\r\n")
        sock.close()
    assert service.process.wait(SECONDS) == 0


def test_cells_outlive_it(service):
    cell = service.operator.detach("--", "sleep", "1000")
    service.stop(signal.SIGKILL)
    assert service.operator.cell(cell)
    service.start()                         # over the sockets that were left
    assert [c["cell"] for c in service.get("/v1/cells").ok()["cells"]] == [cell]


def test_slow_reader_holds_up_nobody(service):
    with closing(connect(service.socket)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall((b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n") * 20)
        for _ in range(20):
            assert service.get("/v1/version").ok()
        reader = slow.makefile("rb")
        whole = service.get("/v1/openapi.json").data
        for _ in range(20):
            assert reader.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = http.client.parse_headers(reader)
            assert reader.read(int(headers["content-length"])) == whole
        reader.close()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("kind", ["system", "user"])
def test_units(kind, tmp_path):
    """systemd has nothing to say against them."""
    for path in (TREE / "contrib" / "systemd" / kind).iterdir():
        text = path.read_text().replace("/usr/local/bin/cloister", str(CLOISTER))
        (tmp_path / path.name).write_text(text)
    units = sorted(str(path) for path in tmp_path.iterdir())
    assert len(units) == {"system": 4, "user": 3}[kind]
    done = subprocess.run(["systemd-analyze", f"--{kind}", "verify", "--man=no", *units], cwd=tmp_path,
                          env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0 and str(tmp_path) not in done.stderr, done


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="no systemd-sysusers")
def test_users_and_temporary_files(tmp_path):
    """systemd's own programs understand them, in a root of their own."""
    for folder in ("etc", "tmp/cloister-1000", "tmp/other"):
        (tmp_path / folder).mkdir(parents=True)
    folder = TREE / "contrib/systemd"
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", folder / "sysusers/cloister.conf"], check=True)
    assert "\ncloister:x:" in "\n" + (tmp_path / "etc/passwd").read_text()
    rules = tmp_path / "cloister.conf"
    rules.write_text("q /tmp 1777 - - 1us\n" + (folder / "tmpfiles/cloister.conf").read_text())
    subprocess.run(["systemd-tmpfiles", "--clean", f"--root={tmp_path}", rules], check=True)
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["cloister-1000"]


def test_idle_exit(operator):
    service = Service(operator, "--idle-exit", "1s")
    assert service.process.wait(SECONDS) == 0


def listening(operator, names):
    """Sockets as systemd opens them, and the variables that tell of them."""
    sockets = []
    for name in names:
        sock = socket.socket(socket.AF_UNIX)
        folder = os.open(operator.runtime, os.O_PATH)
        sock.bind(f"/proc/self/fd/{folder}/{name}.sock")
        os.close(folder)
        operator.own(operator.runtime / f"{name}.sock")
        sock.listen()
        sockets.append(sock)
    return sockets


def test_socket_activation(operator):
    """Sockets have names; readiness is reported; the sockets stay when the service ends."""
    sockets = listening(operator, ["agents", "serve"])
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.settimeout(SECONDS)
    notices.bind(str(operator.base / "notify"))
    operator.own(operator.base / "notify")
    script = ('import os, sys\n'
              'fds = [int(n) for n in sys.argv[1].split(",")]\n'
              'for i, fd in enumerate(fds): os.dup2(fd, 3 + i)\n'
              'os.environ["LISTEN_PID"] = str(os.getpid())\n'
              'os.execv(sys.argv[2], sys.argv[2:])\n')
    low = [os.dup2(s.fileno(), 100 + i) for i, s in enumerate(sockets)]
    process = operator.spawn("/usr/bin/python3", "-Ic", script, ",".join(map(str, low)),
                             operator.program, "serve", pass_fds=low,
                             env={"LISTEN_FDS": "2", "LISTEN_FDNAMES": "agents:serve",
                                  "NOTIFY_SOCKET": str(operator.base / "notify")})
    service = Service.__new__(Service)
    service.operator, service.process = operator, process
    service.socket, service.agents = (str(operator.runtime / n) for n in ("serve.sock", "agents.sock"))
    assert notices.recv(100) == b"READY=1"
    assert service.get("/v1/cells").ok() == {"cells": []}
    assert service.get("/v1/cells", socket=service.agents).status == 404
    process.send_signal(signal.SIGTERM)
    assert notices.recv(100) == b"STOPPING=1"
    assert process.wait(SECONDS) == 0
    for sock in (*sockets, notices):
        sock.close()
    for fd in low:
        os.close(fd)
    for name in ("serve.sock", "agents.sock"):
        os.unlink(operator.runtime / name)  # it was not its own to remove
