"""HTTP leaves a cell as its policy says, by the transparent way: every kind of exchange."""
import hashlib
import json
import os
import subprocess
import time

import pytest

from egress_lab import CURL, helpers_of, memory_of, needs
from egress_world import UP as UP_ADDRESS
from operators import SECONDS

OPEN = "  - allow: '*.example.test'\n"
# Bodies that are not searched are not held.
STREAMS = OPEN + "    secrets: allow\n    body: {max: 1G}\n"
BIG = "  - allow: '*.example.test'\n    body: {max: 1G}\n"
H1, H2 = "--http1.1", "--http2"


def echoed(done):
    return json.loads(done.ok())


@pytest.mark.parametrize("version", [H1, H2])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_page(online, version, scheme):
    if (version, scheme) == (H2, "http"):
        version = "--http2-prior-knowledge"
    done = online.curl(OPEN, version, "-w", "%{http_version} %{http_code}",
                       f"{scheme}://www.example.test/hello")
    assert done.ok().startswith("hello from www.example.test by HTTP/")
    assert done.out.endswith("1.1 200" if version == H1 else "2 200")
    assert done.err == ""
    event, = online.events(type="http")
    assert (event["verdict"], event["method"], event["scheme"], event["host"], event["path"],
            event["status"]) == ("allow", "GET", scheme, "www.example.test", "/hello", 200)
    assert event["received"] == len(done.out) - len("2 200" if version != H1 else "1.1 200")
    assert event["cell"] == online.cell and event["rule"] == "policy.yaml:3:5"


@pytest.mark.parametrize("version", [H1, H2])
def test_the_server_is_spoken_to_in_its_best_protocol(online, version):
    """Independent of the client's protocol."""
    said = online.curl(OPEN, version, "https://www.example.test/hello").ok()
    assert said == "hello from www.example.test by HTTP/2.0\n"
    assert echoed(online.curl(OPEN, version, "https://up.example.test/echo"))["method"] == "GET"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "REPORT"])
@pytest.mark.parametrize("version", [H1, H2])
def test_methods_and_bodies(online, method, version):
    body = os.urandom(100_000)
    file = online.operator.file("body", body)
    told = echoed(online.curl(BIG, version, "-X", method, "--data-binary", f"@{file}",
                              "https://up.example.test/echo?a=b&c", options=("-v", f"{file}:ro")))
    assert told["method"] == method and told["target"] == "/echo?a=b&c"
    assert told["sha256"] == hashlib.sha256(body).hexdigest()
    event, = online.events(type="http")
    assert event["sent"] == len(body) and event["path"] == "/echo" and event["query"] is True


@pytest.mark.parametrize("host", ["up.example.test", "www.example.test/up"],
                         ids=["h1-server", "h2-server"])
@pytest.mark.parametrize("version", [H1, H2])
def test_a_body_of_unknown_length(online, version, host):
    """Chunked by the client, streamed to the server."""
    script = f"head -c 300000 /dev/zero | {' '.join(CURL)} {version} -T - -X POST https://{host}/echo"
    told = echoed(online.sh(BIG, script))
    assert told["size"] == 300000


@pytest.mark.parametrize("host", ["up.example.test", "www.example.test/up"],
                         ids=["h1-server", "h2-server"])
@pytest.mark.parametrize("version", [H1, H2])
def test_head_has_no_body(online, version, host):
    done = online.curl(OPEN, version, "-I", f"https://{host}/echo")
    assert "200" in done.ok().split("\r\n")[0] and "content-length: " in done.out.lower()


@pytest.mark.parametrize("version", [H1, H2])
@pytest.mark.parametrize("path, code", [("204", 204), ("304", 304), ("echo?status=404", 404),
                                        ("echo?status=500", 500), ("until-close", 200)])
def test_answers_of_each_kind(online, version, path, code):
    done = online.curl(OPEN, version, "-o", "/dev/null", "-w", "%{http_code} %{size_download}",
                       f"https://up.example.test/{path}")
    assert done.ok().split()[0] == str(code)
    if path == "until-close":
        assert done.out.split()[1] == str(len("to the end\n"))
    assert online.events(type="http")[0]["status"] == code


def test_an_answer_to_an_old_client(online):
    assert online.curl(OPEN, "--http1.0", "http://up.example.test/trailers").ok() == "with trailers\n"


@pytest.mark.parametrize("version", [H1, H2])
def test_continue_is_waited_for(online, version):
    """The body is not sent before the server wants it."""
    done = online.sh(BIG, f"head -c 2000000 /dev/zero >~/b; {' '.join(CURL)} {version} -v -H "
                     "'Expect: 100-continue' --expect100-timeout 10 -T ~/b "
                     "https://up.example.test/echo")
    assert echoed(done)["size"] == 2000000
    if version == H1:
        assert "HTTP/1.1 100 Continue" in done.err


def test_a_body_that_is_refused_before_it_is_sent(online):
    done = online.sh(STREAMS, f"head -c 2000000 /dev/zero >~/b; {' '.join(CURL)} {H1} -H "
                     "'Expect: 100-continue' --expect100-timeout 10 -o /dev/null -w '%{http_code} "
                     "%{size_upload}' -T ~/b https://up.example.test/refuse")
    assert done.ok() == "413 0"


@pytest.mark.parametrize("version", [H1, H2])
def test_a_body_that_the_server_does_not_want(online, version):
    """It answers and closes while the body is still coming: the client sees the answer."""
    done = online.sh(BIG, f"head -c 20000000 /dev/zero >~/b; {' '.join(CURL)} {version} -H "
                     "'Expect:' -o /dev/null -w '%{http_code}' -T ~/b "
                     "https://up.example.test/refuse")
    assert done.out == "413"


def test_early_hints(online):
    done = online.curl(OPEN, H1, "-v", "https://up.example.test/hints")
    assert done.ok() == "after hints\n"


def test_trailers_reach_the_client(online):
    done = online.curl(OPEN, H1, "-i", "--raw", "https://up.example.test/trailers")
    assert "with trailers\n" in done.ok() and "0\r\nx-sum: 14\r\n\r\n" in done.out


def test_trailers_reach_the_server(online):
    send = """
import socket, ssl
s = ssl.create_default_context().wrap_socket(socket.create_connection(('up.example.test', 443)),
                                             server_hostname='up.example.test')
s.sendall(b'POST /echo HTTP/1.1\\r\\nHost: up.example.test\\r\\nTransfer-Encoding: chunked\\r\\n'
          b'Trailer: x-sum\\r\\nConnection: close\\r\\n\\r\\n5\\r\\nhello\\r\\n0\\r\\nX-Sum: 5\\r\\n\\r\\n')
data = b''
while piece := s.recv(65536):
    data += piece
print(data.partition(b'\\r\\n\\r\\n')[2].decode())
"""
    said = online.python(OPEN, send).ok()
    told = json.loads(said[said.index("{"):said.rindex("}") + 1])
    assert told["size"] == 5 and ["x-sum", "5"] in told["fields"]


@pytest.mark.parametrize("host", ["up.example.test", "www.example.test/up"],
                         ids=["h1-server", "h2-server"])
@pytest.mark.parametrize("version", [H1, H2])
def test_events_come_one_by_one(online, version, host):
    """Server-sent events are not gathered up on the way."""
    when = """
import subprocess, sys, time
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
for line in p.stdout:
    if line.startswith(b'data: '):
        print(time.monotonic(), line.decode().strip())
"""
    said = online.python(OPEN, when, *CURL, "-N", version,
                         f"https://{host}/events?n=4&every=0.15").ok().splitlines()
    times = [float(line.split()[0]) for line in said]
    assert [line.split("data: ")[1] for line in said] == [f"event {i}" for i in range(4)]
    assert times[-1] - times[0] > 0.3


def test_both_ways_at_once(online):
    """The server echoes data before the request is complete."""
    talk = """
import http.client, socket, ssl
s = ssl.create_default_context().wrap_socket(socket.create_connection(('up.example.test', 443)),
                                             server_hostname='up.example.test')
s.sendall(b'POST /turn HTTP/1.1\\r\\nHost: up.example.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n')
got = b''
for word in (b'one', b'two', b'three'):
    s.sendall(b'%x\\r\\n%s\\r\\n' % (len(word), word))
    while word not in got:
        got += s.recv(65536)
    print(word.decode(), 'came back')
s.sendall(b'0\\r\\n\\r\\n')
while b'0\\r\\n\\r\\n' not in got:
    got += s.recv(65536)
print('done')
"""
    assert online.python(STREAMS, talk).ok() == ("one came back\ntwo came back\nthree came back\n"
                                              "done\n")


def test_many_on_one_connection(online):
    urls = ["https://www.example.test/hello"] * 50
    done = online.curl(OPEN, H1, "-w", "%{num_connects}\n", *urls)
    assert done.ok().count("hello from") == 50
    assert [line for line in done.out.splitlines() if line.isdigit()].count("1") == 1
    assert len(online.events(type="http", status=200)) == 50


def test_many_at_once(online):
    """Over one HTTP/2 connection, and over many of HTTP/1.1."""
    file = online.operator.file("urls", "".join(
        f'url = "https://www.example.test/up/echo?n={i}"\noutput = "/dev/null"\n'
        for i in range(60)))
    for version in (H1, H2):
        done = online.curl(OPEN, version, "-Z", "--parallel-max", "8" if version == H1 else "30", "-w", "%{http_code}\n",
                           "-K", file, options=("-v", f"{file}:ro"))
        assert done.ok().split() == ["200"] * 60


def test_pipelined_requests_are_answered_in_order(online):
    send = """
import socket
s = socket.create_connection(('up.example.test', 80))
s.sendall(b''.join(b'GET /echo?n=%d HTTP/1.1\\r\\nHost: up.example.test\\r\\n\\r\\n' % i
                   for i in range(5)))
data = b''
while data.count(b'/echo?n=') < 5:
    data += s.recv(65536)
print([data.find(b'n=%d' % i) for i in range(5)] == sorted(data.find(b'n=%d' % i) for i in range(5)))
"""
    assert online.python(OPEN, send).ok() == "True\n"


@pytest.mark.parametrize("name", ["v6", "happy", "happy4", "alias"])
def test_names_lead_where_they_should(online, name):
    """IPv6 only; a first address that is dead; an alias."""
    said = online.curl(OPEN, f"https://{name}.example.test/hello").ok()
    assert said.startswith(f"hello from {name}.example.test")


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_both_families_in_the_cell(online, family):
    """The cell has addresses of both for every name, whatever the server has."""
    assert online.curl(OPEN, family, "https://up.example.test/echo").status == 0


def test_other_ports(online):
    rules = "  - allow: up.example.test:9000\n"
    assert online.curl(rules, "-d", "xy", "https://up.example.test:9000/").ok() == "all of it"
    assert online.curl(rules, "-o", "/dev/null", "-w", "%{http_code}",
                       "https://up.example.test/echo").out == "403"


def test_loopback_in_the_cell_is_left_alone(online):
    script = ("/usr/bin/python3 -Im http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 & "
              f"for i in $(seq 100); do {' '.join(CURL)} -fo /dev/null http://127.0.0.1:8000/ 2>/dev/null && "
              "exec echo served; sleep 0.05; done")
    assert online.sh(OPEN, script).ok() == "served\n"
    assert online.events() == []


def test_no_policy_no_network(online):
    done = online.operator.run("--", *CURL, "https://www.example.test/hello")
    assert done.status == 6 and done.out == ""


def test_a_policy_in_the_folder_is_found(online):
    folder = online.operator.folder("project", {
        "cloister.yaml": "version: 1\negress:\n  - allow: www.example.test\n"})
    done = online.operator.run("--", *CURL, "https://www.example.test/hello", cwd=folder)
    assert done.ok() == "hello from www.example.test by HTTP/2.0\n"
    done = online.operator.run("-w", ".", "--", *CURL, "https://www.example.test/hello", cwd=folder)
    assert done.ok() == "hello from www.example.test by HTTP/2.0\n"
    online.operator.kept |= {c.split(".")[0] for c in online.operator.names(online.operator.state)}


def test_short_forms(online):
    done = online.operator.run("--allow", "GET www.example.test/hel**", "--", "sh", "-c",
                               f"{' '.join(CURL)} https://www.example.test/hello; {' '.join(CURL)} "
                               "-w '%{http_code}' -o /dev/null https://www.example.test/other; "
                               f"{' '.join(CURL)} -w '%{{http_code}}' -o /dev/null -d x "
                               "https://www.example.test/hello")
    assert done.ok() == "hello from www.example.test by HTTP/2.0\n403403"
    online.operator.kept |= {c.split(".")[0] for c in online.operator.names(online.operator.state)}


def test_the_host_behind_its_own_name(online):
    rules = "  - allow: host.cloister.internal:8080\n"
    done = online.curl(rules, "http://host.cloister.internal:8080/echo")
    assert dict(echoed(done)["fields"])["host"] == "host.cloister.internal:8080"
    assert online.curl(OPEN, "-o", "/dev/null", "-w", "%{http_code}",
                       "http://host.cloister.internal:8080/echo").out in ("000", "403")


def test_a_port_of_the_cell_for_the_host(online):
    online.start(OPEN, "/usr/bin/python3", "-Im", "http.server", "8000", "--bind", "127.0.0.1",
                 options=("--publish", "18000:8000"))
    done = online.outside("sh", "-c", "for i in $(seq 100); do curl -fs http://127.0.0.1:18000/ && exit;"
                          " sleep 0.05; done")
    assert "Directory listing" in done.ok()


def test_raw_tcp_to_a_named_host(online):
    rules = "  - allow: up.example.test:7\n    protocol: tcp\n"
    talk = """
import socket
s = socket.create_connection(('up.example.test', 7))
print(s.recv(100))
s.sendall(b'hello')
print(s.recv(100))
s.shutdown(socket.SHUT_WR)
print(s.recv(100))
"""
    done = online.python(rules, talk)
    assert done.ok() == "b'220 welcome\\r\\n'\nb'hello'\nb'bye\\r\\n'\n"
    event = online.events(type="tcp")[-1]
    assert (event["verdict"], event["host"], event["port"]) == ("allow", "up.example.test", 7)
    # Only that port.
    done = online.curl(rules, "-o", "/dev/null", "-w", "%{http_code}", "http://up.example.test/echo")
    assert done.ok() == "403"


# Its first bytes are there before the gate is, which is only started for this connection: it finds
# a word that could become anything.
WORD = """
import socket, sys, time
began = time.monotonic()
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.sendall(b'HELLO')
s.settimeout(10)
got = b''
try:
    while not got.endswith(b'HELLO') and (more := s.recv(100)):
        got += more
except OSError as e:
    got = type(e).__name__.encode()
print(got, time.monotonic() - began < 8)
"""


def test_raw_tcp_that_begins_with_a_word(online):
    """The client waits for an answer to it, so the gate must not wait for the end of the line."""
    rules = f"  - allow: {UP_ADDRESS}:7\n    protocol: tcp\n"
    said = online.python(rules, WORD, UP_ADDRESS, "7").ok()
    assert said == "b'220 welcome\\r\\nHELLO' True\n"


def test_a_word_that_no_rule_allows(online):
    """It is refused, and that is recorded."""
    said = online.python("  - allow: www.example.test\n", WORD, UP_ADDRESS, "7").ok()
    assert said == "b'ConnectionResetError' True\n"
    event = online.refusal(type="tcp")
    assert (event["why"], event["host"], event["port"]) == ("no-rule", UP_ADDRESS, 7)


def test_a_request_line_that_comes_in_pieces(online):
    """It is a request, however slowly it comes."""
    talk = """
import select, socket, sys
s = socket.create_connection((sys.argv[1], 80))
for piece in (b'G', b'ET', b' ', b'/forbidden HTTP/1.1\\r\\nHost: ', sys.argv[1].encode() + b'\\r\\n\\r\\n'):
    s.sendall(piece)
    select.select([s], [], [], 0.3)
print(s.recv(100).split(b'\\r\\n')[0])
"""
    rules = f"  - allow: {UP_ADDRESS}\n    paths: [/echo]\n"
    assert online.python(rules, talk, UP_ADDRESS).ok() == "b'HTTP/1.1 403 Forbidden'\n"
    event = online.refusal(type="http")
    assert (event["why"], event["path"]) == ("no-rule", "/forbidden")


def test_slow_readers_hold_back_the_server(online):
    """Nothing is gathered for a client that does not read."""
    slow = """
import socket, time, ssl
s = ssl.create_default_context().wrap_socket(socket.create_connection(('up.example.test', 443)),
                                             server_hostname='up.example.test')
s.sendall(b'GET /generate?n=200000000 HTTP/1.1\\r\\nHost: up.example.test\\r\\n\\r\\n')
print(len(s.recv(1000)), flush=True)
time.sleep(1000)
"""
    cell = online.start(OPEN, "/usr/bin/python3", "-c", slow)
    end = time.monotonic() + SECONDS
    while len(helpers_of(online.operator, cell)) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    for _ in range(20):
        time.sleep(0.05)
    memory = memory_of(online.operator, cell)
    assert len(memory) >= 2 and max(memory.values()) < 12 << 20, memory


@needs("nghttp")
def test_another_http2_client(online):
    done = online.run(OPEN, "nghttp", "-n", "-v", "https://www.example.test/hello",
                      "https://www.example.test/up/echo")
    assert done.ok().count(":status: 200") == 2


def test_curl_outside_agrees(online):
    """A positive control: the world is as the tests think."""
    for url in ("https://www.example.test/hello", "http://up.example.test/echo",
                "http://inner.example.test/echo", "http://169.254.169.254/echo"):
        assert online.outside(*CURL, url).status == 0
    assert subprocess.run(CURL + ["https://www.example.test/hello"], check=False,
                          capture_output=True).returncode != 0
