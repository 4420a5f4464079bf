"""The way out of a cell against other proxies: TLS on both sides, one worker each."""
import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from bench import Samples, Unmeasured, group
from lab import await_quiet, descendants, private_bytes, processes

sys.path.append(str(Path(__file__).resolve().parents[1] / "scenario"))
from ports import free_port  # noqa: E402

NAME = "host.cloister.internal"
MIB = 1024 * 1024
BULK = 512 * MIB
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}

NGINX = """
worker_processes 1;
daemon off;
pid {top}/{role}.pid;
error_log {top}/{role}.log crit;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {top}/{role}-body; proxy_temp_path {top}/{role}-proxy;
    fastcgi_temp_path {top}/{role}-f; uwsgi_temp_path {top}/{role}-u; scgi_temp_path {top}/{role}-s;
    keepalive_requests 1000000000;
    sendfile on;
    tcp_nodelay on;
    ssl_certificate {top}/leaf.pem; ssl_certificate_key {top}/leaf.key;
    {body}
}}
"""
ORIGIN = """
    server {{ listen 127.0.0.1:{port} ssl; root {top}/www;
              location = /small {{ return 200 "hello, this is the origin\\n"; }} }}
"""
PROXY = """
    upstream origin {{ server 127.0.0.1:{origin}; keepalive 64; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port} ssl;
        location / {{
            proxy_pass https://origin; proxy_http_version 1.1;
            proxy_set_header Connection ""; proxy_set_header Host {name}:{origin};
            proxy_ssl_verify on; proxy_ssl_trusted_certificate {top}/ca.pem;
            proxy_ssl_name {name}; proxy_ssl_server_name on; proxy_ssl_session_reuse on;
            proxy_max_temp_file_size 0;
        }}
    }}
"""
HAPROXY = """
global
    nbthread 1
    maxconn 1000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    http-reuse always
frontend in
    bind 127.0.0.1:{port} ssl crt {top}/both.pem
    default_backend origin
backend origin
    http-request set-header Host {name}:{origin}
    server one 127.0.0.1:{origin} ssl verify required ca-file {top}/ca.pem verifyhost {name} sni str({name})
"""


def openssl(*argv):
    subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True)


def make_certificates(top):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", "/CN=bench CA", "-keyout", top / "ca.key", "-out", top / "ca.pem")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={NAME}", "-keyout", top / "leaf.key", "-out", top / "leaf.csr")
    (top / "ext").write_text(f"subjectAltName=DNS:{NAME},IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", top / "leaf.csr", "-CA", top / "ca.pem", "-CAkey", top / "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", top / "ext", "-out", top / "leaf.pem")
    (top / "both.pem").write_text((top / "leaf.pem").read_text() + (top / "leaf.key").read_text())


def await_port(port, proc, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end and proc.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise Unmeasured(f"{proc.args[0]} does not listen")


@contextlib.contextmanager
def running(argv, port):
    proc = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    try:
        await_port(port, proc)
        yield
    finally:
        proc.terminate()
        proc.wait(timeout=20)


def nginx(top, role, body):
    conf = top / f"{role}.conf"
    conf.write_text(NGINX.format(top=top, role=role, body=body))
    return ["nginx", "-p", top, "-c", conf, "-e", top / f"{role}.log"]


class Cell:
    """A running cell, from which commands are measured."""

    def __init__(self, lab, top, origin, mode="batched"):
        self.lab, self.who = lab, lab.user
        self.policy = top / f"{mode}.yaml"
        # More than a cell may record unless its policy says so is asked for here.
        self.policy.write_text(f"version: 1\negress:\n  - allow: {NAME}:{origin}\n"
                               f"audit: {{mode: {mode}, max: 16G}}\n")
        self.options = ["-p", self.policy, "--ca", top / "ca.pem"]

    def __enter__(self):
        done = self.who.run([self.lab.cloister, "run", "-q", "-d", *self.options, "--",
                             "sleep", "1000"])
        if done.returncode != 0:
            raise Unmeasured(f"run -d: {done.stderr.strip()}")
        self.id = done.stdout.strip()
        return self

    def __exit__(self, *_):
        self.who.run([self.lab.cloister, "kill", self.id])
        self.who.run([self.lab.cloister, "discard", self.id])

    def prefix(self):
        return [self.lab.cloister, "exec", self.id, "--"]

    def memory(self):
        """Private bytes of each helper of its egress."""
        tree = processes()
        listed = json.loads(self.who.run([self.lab.cloister, "ps", "--json"]).stdout)
        top = next(c for c in listed if c["cell"] == self.id)["supervisor"]
        sizes = {}
        for pid in descendants(top, tree):
            comm = Path(f"/proc/{pid}/comm").read_text().strip()
            if comm.startswith(("cloister-gate", "cloister-couri", "cloister-inspe")):
                sizes[comm] = private_bytes(pid) or 0
        return sizes


def wrk(who, prefix, url, connections, seconds):
    """(requests a second, median in microseconds)"""
    done = who.run([*prefix, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", url],
                   timeout=seconds + 60)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    half = re.search(r"50%\s+([\d.]+)(us|ms|s)", done.stdout)
    if not rate or not half or "Non-2xx" in done.stdout:
        raise Unmeasured(f"wrk {url}: {(done.stdout + done.stderr).strip()[-400:]}")
    return float(rate[1]), float(half[1]) * UNITS[half[2]] * 1e3


def download(who, prefix, url, version="--http1.1"):
    """Bytes a second of one big response, in the one version that all of them speak."""
    done = who.run([*prefix, "curl", "-sS", "-k", version, "-o", "/dev/null",
                    "-w", "%{size_download} %{time_total}", url], timeout=120)
    try:
        size, seconds = done.stdout.split()
    except ValueError:
        raise Unmeasured(f"curl {url}: {done.stderr.strip()[-300:]}") from None
    if int(size) != BULK:
        raise Unmeasured(f"curl {url}: {size} bytes came, not {BULK}")
    return int(size) / float(seconds)


def compare(report, who, ways):
    seconds, rounds = report.pick((4, 3), (1, 1))
    rates = {(name, n): Samples() for name in ways for n in (1, 32)}
    halves = {(name, n): Samples() for name in ways for n in (1, 32)}
    bulk = {name: Samples() for name in ways}
    bulk2 = Samples()
    for _ in range(rounds):
        for name, (prefix, base) in ways.items():
            for n in (1, 32):
                rate, half = wrk(who, prefix, f"{base}/small", n, seconds)
                rates[name, n].append(rate)
                halves[name, n].append(half)
            if name != "mitmproxy":
                bulk[name].append(download(who, prefix, f"{base}/bulk") / 1e6)
            if name == "cloister":
                bulk2.append(download(who, prefix, f"{base}/bulk", "--http2") / 1e6)
    for n in (1, 32):
        for peer, bar in (("nginx", "ratio >= 0.8"), ("haproxy", None), ("mitmproxy", "ratio >= 40"),
                          ("direct", None)):
            if peer in ways:
                report.row(f"egress: requests, {n} connections", rates["cloister", n].median, "/s",
                           rates["cloister", n].spread, peer, rates[peer, n].median,
                           bar if n == 32 else None)
        added = {name: halves[name, n].median - halves["direct", n].median for name in ways}
        for peer in ("nginx", "haproxy", "mitmproxy"):
            if peer in ways:
                report.row(f"egress: added median latency, {n} connections", added["cloister"], "us",
                           None, peer, added[peer],
                           "ratio <= 1.6" if peer == "nginx" and n == 1 else None)
    for peer, bar in (("nginx", "ratio >= 0.8"), ("haproxy", None), ("direct", None)):
        if peer in ways:
            report.row("egress: bulk", bulk["cloister"].median, "MB/s", bulk["cloister"].spread,
                       peer, bulk[peer].median, bar)
    report.row("egress: bulk, HTTP/2 in the cell", bulk2.median, "MB/s", bulk2.spread,
               "HTTP/1.1", bulk["cloister"].median)


def first_request(lab, report, cell, url):
    """Activation, certificate and handshake.  A client that reads all of the system's
    certificates for one request spends most of its time on that, in a cell or not."""
    for name, options, bar in (("", ["--cacert", "/etc/cloister/ca.crt"], "value < 25"),
                               (", the client reading the system's bundle", [], None)):
        times = Samples()
        for _ in range(report.pick(15, 3)):
            done = cell.who.run([lab.cloister, "run", "-q", *cell.options, "--", "curl", "-sS",
                                 *options, "-o", "/dev/null", "-w", "%{time_total}", url])
            if done.returncode != 0:
                raise Unmeasured(f"first request: {done.stderr.strip()[-300:]}")
            times.append(float(done.stdout) * 1e3)
        report.row(f"egress: first request of a cell{name}", times.median, "ms", times.spread, bar=bar)


def idle_memory(report, cell, url):
    cell.who.run([*cell.prefix(), "curl", "-sS", "-o", "/dev/null", url])
    time.sleep(2)
    sizes = cell.memory()
    both = sum(size for name, size in sizes.items() if not name.startswith("cloister-inspe"))
    if not both:
        raise Unmeasured("gate and courier were not found")
    report.row("egress: private memory of gate and courier, idle", both / MIB, "MiB",
               bar="value <= 4")


@group("egress")
def egress(lab, report):
    for tool in ("nginx", "wrk", "curl", "openssl"):
        if shutil.which(tool) is None:
            raise Unmeasured(f"{tool} is missing")
    top = lab.top / "egress"
    (top / "www").mkdir(parents=True)
    top.chmod(0o755)
    make_certificates(top)
    with open(top / "www" / "bulk", "wb") as f:
        f.truncate(BULK)
    origin, with_nginx, with_haproxy, with_mitm = (free_port() for _ in range(4))
    direct = f"https://127.0.0.1:{origin}"
    url = f"https://{NAME}:{origin}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(nginx(top, "origin", ORIGIN.format(port=origin, top=top)), origin))
        cell = stack.enter_context(Cell(lab, top, origin))
        ways = {"cloister": (cell.prefix(), url), "direct": ([], direct)}
        body = PROXY.format(port=with_nginx, origin=origin, top=top, name=NAME)
        stack.enter_context(running(nginx(top, "proxy", body), with_nginx))
        ways["nginx"] = ([], f"https://127.0.0.1:{with_nginx}")
        if shutil.which("haproxy"):
            (top / "haproxy.cfg").write_text(HAPROXY.format(port=with_haproxy, origin=origin, top=top,
                                                            name=NAME))
            stack.enter_context(running(["haproxy", "-db", "-f", top / "haproxy.cfg"], with_haproxy))
            ways["haproxy"] = ([], f"https://127.0.0.1:{with_haproxy}")
        if shutil.which("mitmdump"):
            stack.enter_context(running(
                ["mitmdump", "-q", "--mode", f"reverse:{direct}", "--ssl-insecure",
                 "--listen-host", "127.0.0.1", "-p", str(with_mitm), "--set",
                 f"confdir={top / 'mitm'}"], with_mitm))
            ways["mitmproxy"] = ([], f"https://127.0.0.1:{with_mitm}")
        first_request(lab, report, cell, url + "/small")
        idle_memory(report, cell, url + "/small")
        await_quiet()
        compare(report, lab.user, ways)
