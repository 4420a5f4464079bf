#!/usr/bin/python3
"""Real servers that verify credentials, for the egress tests: egress_front.py FOLDER KIND [WORD...]

KIND is `git` (git's own server behind nginx, for users with a password in FOLDER/git.users), `azure`
(azurite, with the account KEY) `swift` (OpenStack's object store with its S3 interface, with
ID and SECRET), or `mcp` (an MCP server over streamable HTTP, for who shows the bearer TOKEN).
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from egress_world import AZURE, FRONT, NPM, await_each

FOLDER = Path(sys.argv[1])
NGINX = """
daemon off;
worker_processes 1;
pid {folder}/front.pid;
error_log {folder}/front.err warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/front1; proxy_temp_path {folder}/front2;
    fastcgi_temp_path {folder}/front3; uwsgi_temp_path {folder}/front4; scgi_temp_path {folder}/front5;
    client_max_body_size 0;
    server {{
        listen {FRONT}:443 ssl;
        ssl_certificate {folder}/keys/services.crt;
        ssl_certificate_key {folder}/keys/services.key;
        {location}
    }}
}}
"""
GIT = """
        location ~ ^(/.*)$ {{
            auth_basic "for who has a token";
            auth_basic_user_file {folder}/git.users;
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend;
            fastcgi_param GIT_PROJECT_ROOT {folder}/git;
            fastcgi_param GIT_HTTP_EXPORT_ALL 1;
            fastcgi_param PATH_INFO $1;
            fastcgi_param REMOTE_USER $remote_user;
            fastcgi_pass unix:{folder}/fcgi.sock;
        }}
"""
SWIFT = """
        location / {{
            proxy_pass http://127.0.0.1:8090;
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_set_header Host $http_host;
        }}
"""

MCP = """
        location / {{
            if ($http_authorization != "Bearer {token}") {{ return 401; }}
            proxy_pass http://127.0.0.1:3001;
            proxy_http_version 1.1;
            proxy_buffering off;
        }}
"""


def start(*argv, **how):
    subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=sys.stderr, **how)


def nginx(location):
    text = NGINX.format(folder=FOLDER, FRONT=FRONT, location=location.format(folder=FOLDER))
    conf = FOLDER / "front.conf"
    conf.write_text(("" if os.geteuid() else "user root;\n") + text)
    start("nginx", "-p", FOLDER, "-e", FOLDER / "front.err", "-c", conf)


def git():
    nginx(GIT)
    return [(FRONT, 443)]


def mcp(token):
    nginx(MCP.replace("{token}", token))
    node = next(iter(sorted(NPM.glob("node_modules/node-linux-*/bin/node"))), "node")
    start(node, NPM / "node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp", cwd=FOLDER,
          env={**os.environ, "PORT": "3001"})
    return [(FRONT, 443), ("127.0.0.1", 3001)]


def azure(key):
    start(NPM / "node_modules/.bin/azurite-blob", "--silent", "--disableTelemetry", "--inMemoryPersistence",
          "--skipApiVersionCheck", "--blobHost", AZURE, "--blobPort", 443, "--cert", FOLDER / "keys/services.crt",
          "--key", FOLDER / "keys/services.key", cwd=FOLDER,
          env={**os.environ, "AZURITE_ACCOUNTS": f"account:{key}", "HOME": str(FOLDER)})
    return [(AZURE, 443)]


# ---- Swift: one disk, one copy ---------------------------------------------------------------

SERVER = """
[DEFAULT]
devices = {top}/disks
mount_check = false
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
log_name = {kind}
log_address = {top}/log
swift_dir = /etc/swift
user = {user}
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""
PROXY = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = 8090
workers = 0
log_address = {top}/log
swift_dir = /etc/swift
user = {user}
[pipeline:main]
pipeline = catch_errors cache s3api tempauth bulk slo copy proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:11211
[filter:s3api]
use = egg:swift#s3api
location = eu-west-1
dns_compliant_bucket_names = false
min_segment_size = 1
[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{name} = {secret} .admin
[filter:bulk]
use = egg:swift#bulk
[filter:slo]
use = egg:swift#slo
minimum_segment_size = 1
[filter:copy]
use = egg:swift#copy
"""
PORTS = {"account": 6202, "container": 6201, "object": 6200}


def swift(key_id, secret):
    from swift.common.ring import RingBuilder
    top = FOLDER / "swift"
    etc = top / "etc"
    etc.mkdir(parents=True)
    (top / "disks/disk").mkdir(parents=True)
    user = "root"
    account, name = key_id.split(":")
    (etc / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = of-the-tests\n"
                                    "[storage-policy:0]\nname = one\ndefault = yes\n")
    for kind, port in PORTS.items():
        (etc / f"{kind}.conf").write_text(SERVER.format(top=top, port=port, kind=kind, user=user))
        ring = RingBuilder(2, 1, 1)
        ring.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port, "device": "disk", "weight": 1})
        ring.rebalance()
        ring.get_ring().save(str(etc / f"{kind}.ring.gz"))
    (etc / "proxy.conf").write_text(PROXY.format(top=top, user=user, account=account, name=name,
                                                 secret=secret))
    # It knows no other place; this mount namespace is the tests' own.
    subprocess.run(["mount", "--bind", etc, "/etc/swift"], check=True)
    start("memcached", "-u", user, "-l", "127.0.0.1", "-m", "16")
    for kind in ("account", "container", "object", "proxy"):
        start(shutil.which(f"swift-{kind}-server"), f"/etc/swift/{kind}.conf")
    nginx(SWIFT)
    return [("127.0.0.1", port) for port in (11211, *PORTS.values(), 8090)] + [(FRONT, 443)]


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    kind = {"git": git, "azure": azure, "swift": swift, "mcp": mcp}[sys.argv[2]]
    await_each([*kind(*sys.argv[3:])], 50)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
