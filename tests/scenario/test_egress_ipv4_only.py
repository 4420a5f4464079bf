"""A machine without IPv6: what has addresses of both kinds is reached all the same."""
import json

import pytest

from egress_lab import CURL, Online, world

OPEN = "  - allow: '*.example.test'\n"
CODE = ["-o", "/dev/null", "-w", "%{http_code}"]


@pytest.fixture(scope="module")
def machine(ground):
    with world(ground / "ipv4", NO_IPV6="1") as lab:
        yield lab


@pytest.fixture
def online(operator, machine):
    online = Online(operator, machine)
    # A positive control of the machine: it has no such address, not even its own.
    assert online.outside("cat", "/proc/net/if_inet6").ok() == ""
    assert online.outside(*CURL, "-6", "https://www.example.test/hello").status == 7
    return online


@pytest.mark.parametrize("name", ["www", "happy", "alias"])
@pytest.mark.parametrize("family", ["-4", "-6"])
def test_names_of_both_kinds_are_reached(online, name, family):
    """Which one the cell connects to is between it and the gate."""
    done = online.curl(OPEN, family, f"https://{name}.example.test/hello")
    assert done.ok().startswith(f"hello from {name}.example.test")


@pytest.mark.parametrize("host", ["v6.example.test", "[2606:2800:220:1::10]"])
def test_what_is_ipv6_alone_is_told_of(online, host):
    rules = f"  - allow: '{host}'\n" + OPEN
    online.start(rules, "sleep", "1000")
    done = online.inside(*CURL, "-k", "-w", "\n%{http_code}", f"https://{host}/hello")
    body, status = done.ok().rsplit("\n", 1)
    assert status == "502"
    assert json.loads(body)["error"] == "upstream unreachable"
    assert online.events(type="http", why="unreachable")
    assert online.inside(*CURL, *CODE, "https://www.example.test/hello").ok() == "200"


def test_ports_of_the_machine(online):
    done = online.curl("  - allow: host.cloister.internal:8080\n",
                       "http://host.cloister.internal:8080/echo")
    assert json.loads(done.ok())["method"] == "GET"


def test_ports_of_the_cell(online):
    """--publish listens where it can."""
    server = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"
    online.start(OPEN, "/usr/bin/python3", "-c", server, options=("--publish", "8000:18080"))
    done = online.outside(*CURL, *CODE, "--retry", "20", "--retry-all-errors", "--retry-delay", "0",
                          "http://127.0.0.1:18080/")
    assert done.out.endswith("200"), done
