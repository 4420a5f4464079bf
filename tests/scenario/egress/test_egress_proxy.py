"""Explicit proxies: the cell's own for programs that insist, and the operator's company's."""
import json
import uuid

import pytest

from egress_lab import CURL
from egress_world import NGINX, PROXY, UP

OPEN = "  - allow: '*.example.test'\n"
GATE, GATE6 = "198.18.0.1", "[fd63:6c6f:6973:7465::1]"
CODE = ["-o", "/dev/null", "-w", "%{http_code}"]
URLS = ["https://www.example.test/hello", "http://www.example.test/hello"]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("proxy", [f"http://{GATE}:3128", f"http://{GATE6}:3128",
                                   "http://gate.cloister.internal:3128",
                                   f"socks5h://{GATE}:1080", f"socks5://{GATE}:1080"])
def test_an_explicit_proxy(online, proxy, url):
    done = online.curl(OPEN, "-x", proxy, url)
    assert done.ok().startswith("hello from www.example.test by HTTP/")
    via = "socks" if proxy.startswith("socks5h") else None
    if via:
        assert online.events(type="http")[0]["via"] == via


def test_proxy_variables(online):
    """Many programs read them."""
    env = ("-e", f"https_proxy=http://{GATE}:3128", "-e", f"http_proxy=http://{GATE}:3128")
    for url in URLS:
        assert online.curl(OPEN, url, options=env).ok().startswith("hello from")
    script = "import urllib.request as u\nprint(u.urlopen('https://www.example.test/hello').read())"
    assert b"hello from" in online.python(OPEN, script, options=env).ok().encode()


@pytest.mark.parametrize("proxy", [f"http://{GATE}:3128", f"socks5h://{GATE}:1080"])
def test_the_same_rules_hold(online, proxy):
    rules = "  - allow: www.example.test\n    paths: [/hello]\n"
    assert online.curl(rules, *CODE, "-x", proxy, "https://www.example.test/hello").ok() == "200"
    assert online.curl(rules, *CODE, "-x", proxy, "https://www.example.test/other").ok() == "403"
    mark = uuid.uuid4().hex
    done = online.curl(rules, *CODE, "-x", proxy, f"https://evil.test/hello?{mark}")
    assert done.out in ("000", "403") and not online.lab.seen(mark)


TARGETS = ["up.example.test:22", "127.0.0.1:80", "127.0.0.1:3128", "[::1]:80", "198.18.0.1:3128",
           "198.18.0.1:53", "10.0.0.5:80", "169.254.169.254:80", "0.0.0.0:80", "localhost:80"]


def test_connect_leads_nowhere_else(online):
    """Neither to other ports than rules name, nor to the proxy itself, nor to this machine."""
    talk = """
import socket, sys
for target in sys.argv[1:]:
    s = socket.create_connection(('198.18.0.1', 3128), 5)
    s.sendall(b'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % ((target.encode(),) * 2))
    s.settimeout(5)
    try:
        head = s.recv(4096)
        s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
        print(target, head.split(b'\\r\\n')[0].decode(), s.recv(4096)[:400])
    except OSError as e:
        print(target, type(e).__name__)
"""
    rules = "  - allow: ['*.example.test:443', '*.example.test:80']\n"
    said = online.python(rules, talk, *TARGETS).ok()
    assert len(said.splitlines()) == len(TARGETS)
    assert '"method": "GET"' not in said and "SSH" not in said, said


ODD = ["GET http://www.example.test/hello HTTP/1.1\r\nHost: evil.test",
       "GET http://u:p@www.example.test/hello HTTP/1.1\r\nHost: www.example.test",
       "GET ftp://www.example.test/hello HTTP/1.1\r\nHost: www.example.test",
       "GET /hello HTTP/1.1",
       "CONNECT www.example.test HTTP/1.1\r\nHost: www.example.test",
       "CONNECT www.example.test:443@evil.test:443 HTTP/1.1\r\nHost: x"]


def test_odd_requests_to_the_proxy(online):
    talk = """
import socket, sys
for line in sys.argv[1:]:
    s = socket.create_connection(('198.18.0.1', 3128), 5)
    s.settimeout(5)
    try:
        s.sendall(line.encode() + b'\\r\\n\\r\\n')
        print(s.recv(4096)[:10].decode())
    except OSError:
        print()
print(socket.create_connection(('www.example.test', 80), 5) is not None)
"""
    said = online.python(OPEN, talk, *ODD).ok().splitlines()
    assert len(said) == len(ODD) + 1 and said[-1] == "True"
    assert all(line in ("", "HTTP/1.1 4") for line in said[:-1]), said


def test_refusals_of_the_proxy_come_with_advice(online):
    """Both those of the courier, and those of the proxy itself, which have no known destination."""
    talk = """
import socket, sys
def ask(s, *lines):
    s.sendall(b''.join(line.encode() + b'\\r\\n' for line in (*lines, '')))
    head, _, body = s.recv(65536).partition(b'\\r\\n\\r\\n')
    return body.decode()
s = [socket.create_connection(('198.18.0.1', 3128), 5) for _ in range(2)]
print(ask(s[0], 'CONNECT dead.example.test:22 HTTP/1.1', 'Host: dead.example.test:22'), end='')
ask(s[1], 'HEAD http://www.example.test/hello HTTP/1.1', 'Host: www.example.test')
print(ask(s[1], 'GET http://up.example.test/%5c HTTP/1.1', 'Host: up.example.test'), end='')
"""
    rules = OPEN + "  - allow: dead.example.test:22\n    protocol: tcp\n"
    connect, odd = map(json.loads, online.python(rules, talk).ok().splitlines())
    assert "refused" in connect.pop("reason")
    assert connect == {"error": "refused by cloister", "what": "CONNECT dead.example.test:22",
                       "hint": "Try again later."}
    assert odd == {"error": "refused by cloister", "what": None,
                   "reason": "the path has an escaped backslash", "hint": "Send it in its plain form."}
    assert "host" not in online.refusal(why="malformed")


def test_odd_requests_to_socks(online):
    odd = [b"\x05\x00", b"\x05\x01\x02", b"\x04\x01\x00\x50\x0a\x00\x00\x05\x00",
           b"\x05\x01\x00\x05\x02\x00\x01\x0a\x00\x00\x05\x00\x50",
           b"\x05\x01\x00\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00", b"\x05\x01\x00\x05\x01\x00\x09\x00"]
    talk = """
import socket, sys
for data in sys.argv[1:]:
    s = socket.create_connection(('198.18.0.1', 1080), 5)
    s.settimeout(2)
    s.sendall(bytes.fromhex(data))
    out = b''
    try:
        while len(out) < 3 and (more := s.recv(100)):
            out += more
    except OSError:
        pass
    print('got ' + out.hex())
"""
    said = online.python(OPEN, talk, *[data.hex() for data in odd]).ok().splitlines()
    assert len(said) == len(odd) and not any("05000500" in line for line in said), said
    assert online.curl(OPEN, "-x", f"socks5h://{GATE}:1080", *CODE, URLS[0]).ok() == "200"


# ---- the operator's ------------------------------------------------------------------------------

def through(online):
    return [line for line in online.lab.lines("seen.jsonl") if '"proxy"' in line]


def test_the_companys_proxy(online):
    before = len(through(online))
    env = {"HTTPS_PROXY": f"http://{PROXY}:3128"}
    done = online.curl(OPEN, "https://www.example.test/hello", env=env)
    assert done.ok().startswith("hello from www.example.test")
    line, = through(online)[before:]
    # To the address that was vetted: the proxy has no say in where the name leads.
    assert '"CONNECT"' in line and f'"{NGINX}:443"' in line
    # Rules hold before the proxy is asked.
    assert online.curl(OPEN, *CODE, "https://evil.test/", env=env).out in ("000", "403")
    assert len(through(online)) == before + 1


def test_plain_http_goes_through_the_companys_proxy_to_the_vetted_address(online):
    before = len(through(online))
    done = online.curl(OPEN, "http://www.example.test/hello", env={"HTTP_PROXY": f"http://{PROXY}:3128"})
    assert done.ok().startswith("hello from www.example.test")
    line, = through(online)[before:]
    assert '"CONNECT"' in line and f'"{NGINX}:80"' in line


def test_a_name_that_leads_elsewhere_later_does_not_behind_the_companys_proxy(online):
    """The courier's answer is the first; the proxy would have got the next, which is private."""
    before = len(through(online))
    name = f"{'root' if online.operator.is_root else 'user'}-rebind.example.test"
    done = online.curl(OPEN, *CODE, f"http://{name}/hello", env={"HTTP_PROXY": f"http://{PROXY}:3128"})
    assert f'"{UP}:80"' in through(online)[before] and done.out != "403"


@pytest.mark.parametrize("name", ["inner", "mixed", "meta6", "private-alias"])
def test_a_name_that_also_leads_inside_is_refused_behind_the_companys_proxy(online, name):
    before = len(through(online))
    for url in (f"https://{name}.example.test/", f"http://{name}.example.test/"):
        env = {"ALL_PROXY": f"http://{PROXY}:3128"}
        assert online.curl(OPEN, *CODE, url, env=env).out == "403"
        assert online.events(type="http")[-1]["why"] == "private-address"
    assert len(through(online)) == before


def test_a_name_that_only_the_companys_proxy_knows(online):
    """The operator decides whether it may resolve names."""
    before, url = len(through(online)), "https://nowhere.example.test/"
    env = {"HTTPS_PROXY": f"http://{PROXY}:3128"}
    done = online.curl(OPEN, url, env=env)
    assert "CLOISTER_PROXY_RESOLVES=1" in done.out and len(through(online)) == before
    online.curl(OPEN, url, env=env | {"CLOISTER_PROXY_RESOLVES": "1"})
    line, = through(online)[before:]
    assert '"nowhere.example.test:443"' in line
    # What is known here to lead inside is refused all the same.
    done = online.curl(OPEN, *CODE, "https://mixed.example.test/", env=env | {"CLOISTER_PROXY_RESOLVES": "1"})
    assert done.out == "403" and len(through(online)) == before + 1


def test_the_companys_proxy_takes_no_addresses(online):
    done = online.curl(OPEN, "https://www.example.test/hello", env={"HTTPS_PROXY": f"http://{PROXY}:3127"})
    assert f"the operator's proxy answered 403 to CONNECT {NGINX}:443" in done.out
    assert "CLOISTER_PROXY_RESOLVES=1" in done.out
    env = {"HTTPS_PROXY": f"http://{PROXY}:3127", "CLOISTER_PROXY_RESOLVES": "1"}
    assert online.curl(OPEN, "https://www.example.test/hello", env=env).ok().startswith("hello from www")


def test_the_companys_proxy_wants_a_password(online):
    before = len(through(online))
    url = "https://www.example.test/hello"
    done = online.curl(OPEN, url, env={"HTTPS_PROXY": f"http://u:p@{PROXY}:3129"})
    assert done.ok().startswith("hello")
    assert '"authorized": true' in through(online)[before]
    done = online.curl(OPEN, *CODE, url, env={"HTTPS_PROXY": f"http://{PROXY}:3129"})
    assert done.out in ("403", "502", "503")
    # The password is for the courier, not for the cell.
    said = online.sh(OPEN, "env; cat /proc/*/environ; :", env={"HTTPS_PROXY": f"http://u:p@{PROXY}:3129"})
    assert "u:p@" not in said.ok() and "3129" not in said.out


@pytest.mark.parametrize("exempt", ["www.example.test", ".example.test", "example.test", "*"])
def test_hosts_that_go_around_the_companys_proxy(online, exempt):
    before = len(through(online))
    env = {"HTTPS_PROXY": f"http://{PROXY}:3128", "NO_PROXY": exempt}
    assert online.curl(OPEN, *CODE, "https://www.example.test/hello", env=env).ok() == "200"
    assert len(through(online)) == before


BAD = [("HTTPS_PROXY", "socks5://me:5ecret@proxy.corp:1080", "only proxies that begin with http://"),
       ("http_proxy", "http://me:5ecret@pro xy/", "its host cannot be understood"),
       ("ALL_PROXY", "https://me:5ecret@proxy.corp", "only proxies that begin with http://"),
       ("https_proxy", f"http://{'x' * 600}@proxy.corp", "its name and password are too long")]


@pytest.mark.parametrize("name, value, problem", BAD, ids=["scheme", "host", "tls", "login"])
def test_the_companys_proxy_cannot_be_used(online, name, value, problem):
    """The error comes before anything is started, and without the password."""
    done = online.operator.run("-p", online.policy(OPEN), "--", "echo", "started", env={name: value})
    done.sentence(f"{name}: {problem}")
    assert "5ecret" not in done.err
    # A cell that goes nowhere, or always straight, does not need it.
    assert online.operator.run("--", "true", env={name: value}).status == 0
    done = online.operator.run("-p", online.policy(OPEN), "--", "true", env={name: value, "NO_PROXY": "*"})
    assert done.status == 0


def test_a_proxy_that_others_go_before_may_be_of_any_kind(online):
    env = {"https_proxy": f"http://{PROXY}:3128", "HTTP_PROXY": f"{PROXY}:3128",
           "all_proxy": "socks5://proxy.corp", "HTTPS_PROXY": "socks5://proxy.corp"}
    assert online.curl(OPEN, *CODE, URLS[0], env=env).ok() == "200"


def test_the_companys_proxy_is_dead(online):
    done = online.curl(OPEN, "-w", "%{http_code}", "https://www.example.test/hello",
                       env={"HTTPS_PROXY": "http://93.184.216.99:3128"})
    assert done.out[-3:] in ("403", "502", "503")
    assert "proxy" in online.operator.cloister("why", online.cell).out.lower()


def test_inside_the_proxy_variables_are_not_set(online):
    said = online.sh(OPEN, "env", env={"HTTPS_PROXY": f"http://{PROXY}:3128"}).ok()
    assert "proxy" not in said.lower()
    assert online.outside(*CURL, "-x", f"http://{PROXY}:3128", URLS[0]).ok().startswith("hello")
