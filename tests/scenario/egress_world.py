#!/usr/bin/python3
"""The internet of the egress tests: addresses, names, certificates and servers.

    egress_world.py FOLDER

Runs in network, mount and pid namespaces of its own (egress_lab.py makes them), where
addresses of the real internet are put on the loopback, and the resolver and the list of
trusted authorities are those of the tests.  Says "ready" on standard output, and ends
with everything that it started when standard input does.  With NO_IPV6 in the environment the
machine has no IPv6, though the names still have such addresses.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
NPM = HERE.parents[1] / "build/npm"

NGINX, UP, WS, GRPC, MODEL, PROXY, DNS = (f"93.184.216.{n}" for n in (10, 20, 21, 22, 23, 30, 53))
DATABASES, STRANGER = "93.184.216.60", "93.184.216.61"  # egress_databases.py is there
DEAD = "93.184.216.99"                  # exists, and nobody listens
NGINX6, UP6, DEAD6 = (f"2606:2800:220:1::{n}" for n in (10, 20, 99))
# Where nothing in the world may lead; the server at UP listens here too, to see who comes.
PRIVATE = ["198.18.0.20", "203.0.113.5", "10.0.0.5", "172.16.0.5", "192.168.0.5", "169.254.169.254", "100.100.100.200",
           "100.64.0.5"]
HAS_IPV6 = "NO_IPV6" not in os.environ
PRIVATE6 = ["fd00:ec2::254", "fd12::5"] if HAS_IPV6 else []
REGISTRY = "127.0.0.1:4873"              # npm's, if it is there; nginx has it at /registry/
SINK_PORT = 9000                        # at UP: swallows bodies fast
STORE, FRONT, SAAS, AZURE = (f"93.184.216.{n}" for n in (40, 41, 42, 43))
# Well-known names, for servers that a test starts (Lab.serve): S3, what nginx fronts, APIs.
BOXES = ("", "first-box.", "second-box.", "void.")
SERVICES = {STORE: [f"{box}s3.{end}" for box in BOXES for end in ("eu-west-1.amazonaws.com", "amazonaws.com")] +
            ["store.example.test"],
            FRONT: ["swift.example.test", "github.com", "forge.example.test"], AZURE: ["account.blob.core.windows.net"],
            SAAS: ["api.stripe.com", "api.github.com", "slack.com"]}

# Public places that presets name: nginx serves each from its own folder below files/hosts.
HOSTS = ["registry.npmjs.org", "pypi.org", "files.pythonhosted.org", "index.crates.io", "static.crates.io",
         "deb.debian.org"]

ON_NGINX = ["www", "api", "git", "npm", "pypi", "deb", "big", "front", "a.b", "expired",
            "selfsigned", "untrusted", "corporate", "mtls", "maybe"]
NAMES = {f"{name}.example.test": {"A": [NGINX], "AAAA": [NGINX6]} for name in ON_NGINX}
NAMES |= {
    "evil.test": {"A": [NGINX], "AAAA": [NGINX6]},
    "wrongname.other.test": {"A": [NGINX]},
    "up.example.test": {"A": [UP]},
    "up2.example.test": {"A": [UP]},
    "ntfy.example.test": {"A": [UP]},
    "ws.example.test": {"A": [WS]},
    "grpc.example.test": {"A": [GRPC]},
    # Agents find their provider here as they do outside.
    "api.anthropic.com": {"A": [MODEL]},
    "api.openai.com": {"A": [MODEL]},
    "chatgpt.com": {"A": [MODEL]},
    "cloudcode-pa.googleapis.com": {"A": [MODEL]},
    "oauth2.googleapis.com": {"A": [MODEL]},
    "www.googleapis.com": {"A": [MODEL]},
    "generativelanguage.googleapis.com": {"A": [MODEL]},
    "model.example.test": {"A": [MODEL]},
    "v6.example.test": {"AAAA": [NGINX6]},
    "dead.example.test": {"A": [DEAD]},
    "db.example.test": {"A": [DATABASES]},
    "db2.example.test": {"A": [DATABASES]},
    "db.other.test": {"A": [DATABASES]},
    "stranger.example.test": {"A": [STRANGER]},
    # The first address of each is dead: the other must be tried.
    "happy.example.test": {"A": [NGINX], "AAAA": [DEAD6]},
    "happy4.example.test": {"A": [DEAD, NGINX]},
    "alias.example.test": {"CNAME": ["www.example.test"]},
    # What a rule for a name must not open.
    "inner.example.test": {"A": ["10.0.0.5"]},
    "loop.example.test": {"A": ["127.0.0.1"], "AAAA": ["::1"]},
    "zero.example.test": {"A": ["0.0.0.0"]},
    "meta.example.test": {"A": ["169.254.169.254"]},
    "meta6.example.test": {"AAAA": ["fd00:ec2::254"]},
    "mapped.example.test": {"AAAA": ["::ffff:10.0.0.5"]},
    "nat64.example.test": {"AAAA": ["64:ff9b::a00:5"]},
    "local6.example.test": {"AAAA": ["fe80::1"]},
    "synthetic.example.test": {"A": ["198.18.0.20"]},
    "shared.example.test": {"A": ["100.64.0.5"]},
    "private-alias.example.test": {"CNAME": ["inner.example.test"]},
    "mixed.example.test": {"A": ["10.0.0.5", NGINX]},
    # Another answer each time.
    "rebind.example.test": {"turns": [{"A": [UP]}, {"A": ["10.0.0.5"]}]},
}
NAMES |= {name: {"A": [address]} for address, names in SERVICES.items() for name in names}
NAMES |= {name: {"A": [NGINX]} for name in HOSTS}
for number in range(1, 9):              # a fresh one for each test that wants it
    NAMES[f"rebind{number}.example.test"] = NAMES["rebind.example.test"]
for who in ("root", "user"):
    NAMES[f"{who}-rebind.example.test"] = NAMES["rebind.example.test"]


def run(*argv, **how):
    return subprocess.run([str(word) for word in argv], check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **how)


# ---- network and files --------------------------------------------------------------------

def make_addresses():
    for which in () if HAS_IPV6 else ("all", "default", "lo"):
        Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("1")
    run("ip", "link", "set", "lo", "up")
    for address in (NGINX, UP, WS, GRPC, MODEL, PROXY, DNS, DATABASES, STRANGER, DEAD, *SERVICES, *PRIVATE):
        run("ip", "addr", "add", f"{address}/32", "dev", "lo")
    for address in (NGINX6, UP6, DEAD6, *PRIVATE6) if HAS_IPV6 else ():
        run("ip", "addr", "add", f"{address}/128", "dev", "lo", "nodad")


def validity(days):
    """The validity of a certificate. Newer versions refuse a negative number, older ones know no dates."""
    told = subprocess.run(["openssl", "x509", "-help"], check=False, capture_output=True, text=True)
    if days < 0 and "-not_after" in told.stdout + told.stderr:
        return ["-not_before", "20200101000000Z", "-not_after", "20200201000000Z"]
    return ["-days", days]


def make_key(folder, name, subject, extensions, authority=None, days=30):
    """FOLDER/NAME.key and NAME.crt; self-signed without AUTHORITY."""
    key, crt, csr, conf = (folder / f"{name}.{end}" for end in ("key", "crt", "csr", "cnf"))
    conf.write_text("\n".join(extensions) + "\n")
    run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-keyout", key, "-out", csr, "-subj", f"/CN={subject}")
    signer = (["-CA", folder / f"{authority}.crt", "-CAkey", folder / f"{authority}.key",
               "-CAcreateserial"] if authority else ["-signkey", key])
    run("openssl", "x509", "-req", "-in", csr, *signer, *validity(days), "-extfile", conf,
        "-out", crt)


def make_certificates(folder):
    ca = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign",
          "subjectKeyIdentifier=hash"]

    def leaf(*names):
        return ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=serverAuth",
                "subjectAltName=" + ",".join(f"{'IP' if n[0].isdigit() else 'DNS'}:{n}"
                                             for n in names)]
    make_key(folder, "ca", "Authority of the tests", ca)
    make_key(folder, "stranger", "Nobody's authority", ca)
    make_key(folder, "corporate-ca", "A company's own authority", ca)
    make_key(folder, "client-ca", "Who lets clients in", ca)
    make_key(folder, "client", "the real client", ["extendedKeyUsage=clientAuth"], "client-ca")
    make_key(folder, "good", "www.example.test",
             leaf("*.example.test", "a.b.example.test", "evil.test", "api.anthropic.com",
                  "api.openai.com", "chatgpt.com", "generativelanguage.googleapis.com",
                  "cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "www.googleapis.com", *HOSTS, NGINX, UP), "ca")
    make_key(folder, "services", "services", leaf(*(n for names in SERVICES.values() for n in names)),
             "ca")
    make_key(folder, "expired", "expired.example.test", leaf("expired.example.test"), "ca", days=-1)
    make_key(folder, "wrongname", "www.example.test", leaf("elsewhere.test"), "ca")
    make_key(folder, "untrusted", "untrusted.example.test", leaf("untrusted.example.test"),
             "stranger")
    make_key(folder, "corporate", "corporate.example.test", leaf("corporate.example.test"),
             "corporate-ca")
    make_key(folder, "selfsigned", "selfsigned.example.test", leaf("selfsigned.example.test"))


def make_etc(folder):
    """A resolver and a list of authorities that are the tests' own, over the machine's."""
    keys, certs = folder / "keys", folder / "certs"
    shutil.copytree("/etc/ssl/certs", certs, symlinks=True)
    ca = (keys / "ca.crt").read_text()
    digest = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", keys / "ca.crt"],
                            check=True, capture_output=True, text=True).stdout.strip()
    (certs / f"{digest}.0").write_text(ca)
    bundle = certs / "ca-certificates.crt"
    bundle.write_text((bundle.read_text() if bundle.exists() else "") + ca)
    (folder / "resolv.conf").write_text(f"nameserver {DNS}\noptions timeout:2 attempts:1\n")
    (folder / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    for ours, over in (("certs", "/etc/ssl/certs"), ("resolv.conf", "/etc/resolv.conf"),
                       ("hosts", "/etc/hosts")):
        run("mount", "--bind", folder / ours, over)


def show_npm(folder):
    """What `make npm` brought, at a place that every operator can reach."""
    place = folder / "npm"
    place.mkdir()
    if NPM.is_dir():
        run("mount", "--bind", NPM, place)


# ---- a name server ----------------------------------------------------------------------

TYPES = {1: "A", 5: "CNAME", 28: "AAAA"}


def packed_name(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


class NameServer:
    """Answers for NAMES, and writes down every question."""

    def __init__(self, log):
        self.log = open(log, "a", buffering=1)
        self.asked = {}
        self.lock = threading.Lock()

    def records(self, name, kind):
        entry = NAMES.get(name)
        if entry is None:
            return None
        if "turns" in entry:
            n = self.asked[name, kind] = self.asked.get((name, kind), -1) + 1
            entry = entry["turns"][min(n, len(entry["turns"]) - 1)]
        return entry

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1").lower())
            at += 1 + query[at]
        name, number = ".".join(labels), int.from_bytes(query[at + 1:at + 3], "big")
        question = query[12:at + 5]
        kind = TYPES.get(number, str(number))
        with self.lock:
            self.log.write(json.dumps({"name": name, "type": kind}) + "\n")
            entry = self.records(name, kind)
        answers = []
        owner = name
        while entry and "CNAME" in entry and kind != "CNAME":
            target = entry["CNAME"][0]
            answers.append((owner, 5, packed_name(target)))
            owner, entry = target, self.records(target, kind)
        for value in (entry or {}).get(kind, []):
            family = socket.AF_INET if kind == "A" else socket.AF_INET6
            answers.append((owner, number, socket.inet_pton(family, value)))
        code = 3 if entry is None and not answers else 0
        out = query[:2] + (0x8180 | code).to_bytes(2, "big") + b"\0\1" + \
            len(answers).to_bytes(2, "big") + b"\0\0\0\0" + question
        for owner, type_, data in answers:
            out += packed_name(owner) + type_.to_bytes(2, "big") + b"\0\1\0\0\0\0" + \
                len(data).to_bytes(2, "big") + data
        return out

    def serve_udp(self):
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind((DNS, 53))
        while True:
            query, peer = server.recvfrom(4096)
            try:
                server.sendto(self.answer(query), peer)
            except (IndexError, UnicodeError):
                pass

    def serve_tcp(self):
        server = socket.create_server((DNS, 53))
        while True:
            peer, _ = server.accept()
            with peer:
                data = peer.recv(4096)
                if len(data) > 14:
                    out = self.answer(data[2:])
                    peer.sendall(len(out).to_bytes(2, "big") + out)


# ---- servers -------------------------------------------------------------------------------

NGINX_CONF = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.err warn;
events {{ worker_connections 1024; }}
http {{
    include /etc/nginx/mime.types;
    log_format seen '$server_name|$request_method|$host|$request_uri|$server_protocol|$status'
                    '|$ssl_server_name|$remote_addr';
    access_log {folder}/nginx.log seen;
    client_body_temp_path {folder}/tmp1;
    proxy_temp_path {folder}/tmp2;
    fastcgi_temp_path {folder}/tmp3;
    uwsgi_temp_path {folder}/tmp4;
    scgi_temp_path {folder}/tmp5;
    client_max_body_size 0;
    ssl_session_cache shared:s:1m;
    sendfile on;
    keepalive_requests 1000000;
    server {{
        listen {NGINX}:80 default_server;
        listen [{NGINX6}]:80 default_server;
        listen {NGINX}:443 ssl http2 default_server;
        listen [{NGINX6}]:443 ssl http2 default_server;
        server_name good;
        ssl_certificate {folder}/keys/good.crt;
        ssl_certificate_key {folder}/keys/good.key;
        root {folder}/files;
        location = /hello {{
            default_type text/plain;
            return 200 "hello from $host by $server_protocol\\n";
        }}
        location = /away {{ return 302 $arg_to; }}
        location /npm/ {{ try_files $uri $uri/index.json =404; }}
        location /registry/ {{
            proxy_pass http://{REGISTRY}/;
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-Proto https;
        }}
        location /up/ {{
            proxy_pass http://127.0.0.1:8000/;
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_buffering off;
            proxy_set_header Host $host;
        }}
        location ~ ^/git(/.*)$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend;
            fastcgi_param GIT_PROJECT_ROOT {folder}/git;
            fastcgi_param GIT_HTTP_EXPORT_ALL 1;
            fastcgi_param PATH_INFO $1;
            fastcgi_param REMOTE_USER tester;
            fastcgi_pass unix:{folder}/fcgi.sock;
        }}
    }}
    server {{
        listen {NGINX}:80;
        listen {NGINX}:443 ssl http2;
        server_name {HOSTS};
        ssl_certificate {folder}/keys/good.crt;
        ssl_certificate_key {folder}/keys/good.key;
        root {folder}/files/hosts/$host;
        location / {{ try_files $uri $uri/index.json $uri/index.html =404; }}
    }}
    server {{
        listen {NGINX}:443 ssl http2;
        listen [{NGINX6}]:443 ssl http2;
        listen {NGINX}:8443 ssl;
        listen [{NGINX6}]:8443 ssl;
        server_name mtls.example.test;
        ssl_certificate {folder}/keys/good.crt;
        ssl_certificate_key {folder}/keys/good.key;
        ssl_client_certificate {folder}/keys/client-ca.crt;
        ssl_verify_client on;
        location / {{ return 200 "$ssl_client_s_dn $ssl_client_verify $server_protocol\\n"; }}
        location /up/ {{
            proxy_pass http://127.0.0.1:8000/;
            proxy_http_version 1.1;
            proxy_buffering off;
        }}
    }}
    server {{
        listen {NGINX}:443 ssl http2;
        listen [{NGINX6}]:443 ssl http2;
        server_name maybe.example.test;
        ssl_certificate {folder}/keys/good.crt;
        ssl_certificate_key {folder}/keys/good.key;
        ssl_client_certificate {folder}/keys/client-ca.crt;
        ssl_verify_client optional;
        location / {{ return 200 "$ssl_client_verify $connection\\n"; }}
    }}
    {bad}
}}
"""
BAD_SERVER = """
    server {{
        listen {NGINX}:443 ssl http2;
        listen [{NGINX6}]:443 ssl http2;
        server_name {name};
        ssl_certificate {folder}/keys/{key}.crt;
        ssl_certificate_key {folder}/keys/{key}.key;
        location / {{ return 200 "reached\\n"; }}
    }}
"""


def start(*argv, **how):
    subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, **how)


def start_nginx(folder):
    names = {"expired.example.test": "expired", "selfsigned.example.test": "selfsigned",
             "untrusted.example.test": "untrusted", "wrongname.other.test": "wrongname",
             "corporate.example.test": "corporate"}
    where = {"folder": folder, "NGINX": NGINX, "NGINX6": NGINX6, "REGISTRY": REGISTRY, "HOSTS": " ".join(HOSTS)}
    bad = "".join(BAD_SERVER.format(name=name, key=key, **where) for name, key in names.items())
    conf = ("" if os.geteuid() else "user root;\n") + NGINX_CONF.format(bad=bad, **where)
    if not HAS_IPV6:
        conf = "".join(line for line in conf.splitlines(True) if "listen [" not in line)
    (folder / "nginx.conf").write_text(conf)
    start("nginx", "-p", folder, "-e", folder / "nginx.err", "-c", folder / "nginx.conf")
    fcgiwrap = shutil.which("fcgiwrap")
    if fcgiwrap:
        start(fcgiwrap, "-s", f"unix:{folder}/fcgi.sock", "-c", "2",
              env={"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1",
                   "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})


REGISTRY_CONF = """
storage: {folder}/registry
auth: {{htpasswd: {{file: {folder}/registry.users}}}}
uplinks: {{}}
packages:
  '**': {{access: $all, publish: $all}}
log: {{type: stdout, level: warn}}
"""


def start_registry(folder, log):
    """A real one, without a way to any other; who wants it waits for it."""
    program = NPM / "node_modules/.bin/verdaccio"
    if program.exists():
        (folder / "registry.yaml").write_text(REGISTRY_CONF.format(folder=folder))
        start(program, "-c", folder / "registry.yaml", "-l", REGISTRY, stdout=log, stderr=log,
              env={**os.environ, "HOME": str(folder), "NODE_ENV": "production",
                   "VERDACCIO_PUBLIC_URL": "https://npm.example.test/registry/"})


def await_each(wanted, seconds, hint=""):
    """Until somebody listens at each of these addresses."""
    end = time.monotonic() + seconds
    for address in wanted:
        while True:
            try:
                socket.create_connection(address, 1).close()
                break
            except OSError as error:
                if time.monotonic() > end:
                    sys.exit(f"nobody listens at {address}: {error}{hint}")
                time.sleep(0.02)


def await_listeners(folder):
    """Until each server answers, or says why it does not."""
    wanted = [(NGINX, 443), (UP, 443), (UP, SINK_PORT), ("127.0.0.1", 8000), (PROXY, 3128),
              (MODEL, 443)]
    for part, address in (("websockets", (WS, 443)), ("grpc", (GRPC, 443))):
        if subprocess.run([sys.executable, "-c", f"import {part}"], check=False,
                          capture_output=True).returncode == 0:
            wanted.append(address)
    await_each(wanted, 30, f"; see {folder}")


def main():
    folder = Path(sys.argv[1])
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    make_addresses()
    keys = folder / "keys"
    keys.mkdir()
    make_certificates(keys)
    make_etc(folder)
    show_npm(folder)
    names = NameServer(folder / "dns.jsonl")
    for serve in (names.serve_udp, names.serve_tcp):
        threading.Thread(target=serve, daemon=True).start()
    log = open(folder / "servers.err", "ab")
    start_nginx(folder)
    for kind in ("http", "sink", "websocket", "grpc", "proxy"):
        start(sys.executable, HERE / "egress_servers.py", kind, folder, stderr=log)
    start(sys.executable, HERE / "egress_model.py", folder, stderr=log)
    start_registry(folder, log)
    await_listeners(folder)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
