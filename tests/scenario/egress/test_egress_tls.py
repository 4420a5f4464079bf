"""TLS on both sides: the authorities that the cell trusts, those that the courier trusts, and TLS that passes
through."""
import json
import uuid

import pytest

from egress_lab import CURL, needs

OPEN = "  - allow: ['*.example.test', wrongname.other.test, '93.184.216.0/24']\n"
CODE = ["-o", "/dev/null", "-w", "%{http_code}"]

BAD = {"expired.example.test": "expired", "selfsigned.example.test": "itself",
       "untrusted.example.test": "authority", "wrongname.other.test": "name",
       "corporate.example.test": "authority"}


@pytest.mark.parametrize("host", BAD)
def test_a_bad_certificate_is_refused(online, host):
    done = online.curl(OPEN, "-w", "\n%{http_code}", f"https://{host}/")
    body, _, code = done.ok().rpartition("\n")
    assert code in ("403", "502") and "reached" not in body, done
    assert "certificate" in json.loads(body)["error"]
    refused = online.refusal(type="http")
    assert refused["why"] == "certificate" and refused["host"] == host
    assert BAD[host] in refused["note"], refused
    # It is the certificate: the server serves whoever does not look at it.
    assert online.outside(*CURL, "-k", f"https://{host}/").ok() == "reached\n"
    # Both are told the same.
    assert "--ca" in json.loads(body)["hint"]
    said = online.operator.cloister("why", online.cell).ok()
    assert "certificate" in said and "--ca FILE" in said and "SSL_CERT_FILE" not in said


def test_the_agent_cannot_switch_verification_off(online):
    """Its own -k is about the cell's authority, and no more."""
    assert online.curl(OPEN, "-k", *CODE, "https://expired.example.test/").out in ("403", "502")


def test_an_authority_that_the_operator_names(online):
    ca = online.lab.folder / "keys/corporate-ca.crt"
    file = online.operator.file("company.crt", ca.read_bytes())
    url = "https://corporate.example.test/"
    assert online.curl(OPEN, url, options=("--ca", str(file))).ok() == "reached\n"
    assert online.curl(OPEN, "https://www.example.test/hello",
                       options=("--ca", str(file))).ok().startswith("hello")
    # For this cell only.
    assert online.curl(OPEN, *CODE, url).out in ("403", "502")


def test_authorities_must_be_certificates(online):
    policy = online.policy(OPEN)
    junk = online.operator.file("junk", "no certificate\n")
    key = online.operator.file("key", (online.lab.folder / "keys/ca.key").read_bytes())
    for path in (junk, key, "/nonexistent"):
        online.operator.run("-p", policy, "--ca", path, "--", "true").sentence("--ca")


def test_an_agent_without_the_authority_trusts_nobody(online):
    """The cell's certificates are the cell's own: no one else would accept them."""
    done = online.curl(OPEN, "--cacert", "/dev/null", "--capath", "/tmp", "https://www.example.test/hello")
    assert done.status in (60, 77)
    ca = online.operator.file("world.crt", online.lab.ca.read_bytes())
    done = online.curl(OPEN, "--cacert", "/tmp/ca", "--capath", "/tmp",
                       "https://www.example.test/hello", options=("-v", f"{ca}:/tmp/ca:ro"))
    assert done.status == 60


@needs("openssl")
def test_each_cell_has_an_authority_of_its_own(online):
    told = [online.sh(OPEN, "cat /etc/cloister/ca.crt").ok() for _ in range(2)]
    assert told[0] != told[1] and all("BEGIN CERTIFICATE" in ca for ca in told)
    # A certificate for names only, and the key is nowhere inside.
    said = online.sh(OPEN, "openssl x509 -in /etc/cloister/ca.crt -noout -text; env; "
                     "ls -la /etc/cloister; grep -rl 'PRIVATE KEY' /etc /tmp /home /run 2>/dev/null || :").ok()
    assert "CA:TRUE" in said
    assert "PRIVATE KEY" not in said


@needs("openssl")
def test_leaf_certificates(online):
    """For the name that was asked for, backdated, not for longer than clients accept."""
    said = online.sh(OPEN, "date -u +%s; openssl s_client -connect www.example.test:443 -servername "
                     "www.example.test </dev/null 2>/dev/null | openssl x509 -noout -ext "
                     "subjectAltName -dates -dateopt iso_8601").ok()
    assert "DNS:www.example.test" in said
    from datetime import datetime
    now = int(said.split("\n")[0])
    dates = dict(line.split("=") for line in said.splitlines() if "=" in line)
    first, last = (datetime.fromisoformat(dates[k].replace("Z", "+00:00")).timestamp()
                   for k in ("notBefore", "notAfter"))
    assert first < now - 600 and now < last < first + 398 * 86400


def test_the_bundle_is_in_its_usual_places(online):
    said = online.sh(OPEN, """
        for f in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
                 /etc/ssl/cert.pem /etc/ssl/ca-bundle.pem /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem; do
            test -e $f && tail -c +1 $f | grep -c BEGIN
        done; env | grep -E '_CA_|CERT|CAINFO' | sort""").ok()
    counts = [line for line in said.splitlines() if line.isdigit()]
    assert len(counts) >= 1 and all(int(n) >= 2 for n in counts), said
    for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
                 "GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE"):
        assert f"{name}=" in said


def test_without_a_policy_nothing_of_it_is_there(online):
    said = online.operator.sh("ls /etc/cloister 2>&1; env").out
    assert "ca.crt" not in said and "CERT" not in said


# ---- passed through ---------------------------------------------------------------------------

def test_tls_passes_through_by_its_name(online):
    """For clients that pin: the certificate is the server's own."""
    rules = "  - allow: www.example.test\n    protocol: tls\n"
    ca = online.operator.file("world.crt", online.lab.ca.read_bytes())
    done = online.curl(rules, "--cacert", "/tmp/ca", "https://www.example.test/hello",
                       options=("-v", f"{ca}:/tmp/ca:ro"))
    assert done.ok() == "hello from www.example.test by HTTP/2.0\n"
    event = online.events(type="tls")[-1]
    assert (event["verdict"], event["host"], event["port"]) == ("allow", "www.example.test", 443)


def test_passed_through_tls_must_have_the_name(online):
    rules = "  - allow: www.example.test\n    protocol: tls\n"
    for words in (["--connect-to", "evil.test:443:www.example.test:443", "https://evil.test/hello?MARK"],
                  ["http://www.example.test:443/hello?MARK"],
                  ["http://www.example.test/hello?MARK"]):
        mark = uuid.uuid4().hex
        done = online.curl(rules, *CODE, "-k", *[word.replace("MARK", mark) for word in words])
        assert done.out in ("000", "403"), (words, done)
        assert not online.lab.seen(mark)


def test_tls_without_a_name(online):
    """An address as destination has no SNI: only a rule for the address helps."""
    rules = "  - allow: 93.184.216.10\n"
    assert online.curl(rules, *CODE, "-k", "https://93.184.216.10/hello").ok() == "200"
    rules = "  - allow: www.example.test\n"
    assert online.curl(rules, *CODE, "-k", "https://93.184.216.10/hello").out in ("000", "403")


@pytest.mark.parametrize("pieces", [1, 7])
def test_a_client_hello_in_pieces(online, pieces):
    """Split between packets, as large ones are."""
    script = f"""
import socket, ssl, time
context = ssl.create_default_context()
inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(inside, outside, server_hostname='www.example.test')
s = socket.create_connection(('www.example.test', 443))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def pump(call):
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            data = outside.read()
            for i in range(0, len(data), {pieces * 20}):
                s.sendall(data[i:i + {pieces * 20}])
                time.sleep(0.002)
            inside.write(s.recv(65536))
pump(tls.do_handshake)
tls.write(b'GET /hello HTTP/1.0\\r\\nHost: www.example.test\\r\\n\\r\\n')
print(b'hello from' in pump(lambda: tls.read(4096)) or b'hello from' in pump(lambda: tls.read(4096)))
"""
    assert online.python(OPEN, script).ok() == "True\n"


@needs("openssl")
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_versions_of_tls(online, version):
    done = online.sh(OPEN, f"openssl s_client {version} -connect www.example.test:443 -servername "
                     "www.example.test -brief </dev/null 2>&1")
    assert "Verification: OK" in done.ok()


@needs("openssl")
def test_old_tls_is_refused(online):
    done = online.sh(OPEN, "openssl s_client -tls1_1 -cipher ALL:@SECLEVEL=0 -connect "
                     "www.example.test:443 -servername www.example.test -brief </dev/null 2>&1")
    assert "Verification: OK" not in done.out
