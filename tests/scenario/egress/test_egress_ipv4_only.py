"""A machine without IPv6: what has addresses of both kinds is reached all the same."""
import json

import pytest

import vm
from egress_lab import CURL, Online, world
from operators import BUILD, IS_STATIC, wait_until

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
    """The cell and the gate choose the address family between them."""
    done = online.curl(OPEN, family, f"https://{name}.example.test/hello")
    assert done.ok().startswith(f"hello from {name}.example.test")


@pytest.mark.parametrize("host", ["v6.example.test", "[2606:2800:220:1::10]"])
def test_ipv6_only_names_are_reported(online, host):
    rules = f"  - allow: '{host}'\n" + OPEN
    online.start(rules, "sleep", "1000")
    done = online.inside(*CURL, "-k", "-w", "\n%{http_code}", f"https://{host}/hello")
    body, status = done.ok().rsplit("\n", 1)
    assert status == "502"
    assert json.loads(body)["error"] == "upstream unreachable"
    wait_until(lambda: online.events(type="http", why="unreachable"), "it is recorded")
    assert online.inside(*CURL, *CODE, "https://www.example.test/hello").ok() == "200"


def test_ports_of_the_machine(online):
    done = online.curl("  - allow: host.cloister.internal:8080\n",
                       "http://host.cloister.internal:8080/echo")
    assert json.loads(done.ok())["method"] == "GET"


def test_ports_of_the_cell(online):
    """--publish listens where it can."""
    server = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"
    online.start(OPEN, "/usr/bin/python3", "-c", server, options=("--publish", "18080:8000"))
    done = online.outside(*CURL, *CODE, "--retry", "20", "--retry-all-errors", "--retry-delay", "0",
                          "http://127.0.0.1:18080/")
    assert done.out.endswith("200"), done


# ---- a kernel that does not have it at all -----------------------------------------------

MODULES = ["ipv6", "overlay", "nf_tables", "nft_chain_nat", "nft_nat", "nft_ct", "nft_tproxy",
           "nft_reject_ipv4", "nft_reject_ipv6"]
SCRIPT = """
mkdir -p /usr/bin /usr/lib /var /home /www
cp /bin/busybox /usr/bin
for a in sh wget httpd sleep; do ln -s busybox /usr/bin/$a; done
ip link set lo up
echo from the machine >/www/file
httpd -p 127.0.0.1:8080 -h /www
ls /proc/net/if_inet6
/opt/cloister doctor | grep nftables
cell="/opt/cloister run -q --allow host.cloister.internal:8080"
$cell -- sh -c 'for i in 1 2; do wget -qO- http://host.cloister.internal:8080/file; done' 2>&1
$cell --publish 9000:8000 -- sh -c 'echo from the cell >/tmp/file; httpd -p 127.0.0.1:8000 -h /tmp; sleep 1000' &
i=0
until wget -qO- http://127.0.0.1:9000/file 2>/dev/null || [ $i = 100 ]; do i=$((i + 1)); sleep 0.1; done
/opt/cloister kill --all
"""


@pytest.mark.skipif(not IS_STATIC, reason="the sanitizers' programs are not static")
@pytest.mark.parametrize("append", ["", "ipv6.disable=1"], ids=["with", "without"])
def test_kernel(tmp_path, append):
    files = {f"opt/libexec/{p.name}": p for p in (BUILD / "libexec").iterdir()}
    for name in ("gate", "courier"):
        files |= {path.lstrip("/"): path for path in vm.libraries(BUILD / "libexec" / f"cloister-{name}")}
    out = vm.run(tmp_path, SCRIPT, {**files, "opt/cloister": BUILD / "cloister"}, MODULES, disk=128,
                 append=append)
    assert ("if_inet6: No such file" in out) == bool(append), out
    assert ("this machine has no IPv6" in out) == bool(append), out
    assert out.count("from the machine\n") == 2 and out.count("from the cell\n") == 1, out
    assert "cloister-gate" not in out, out
