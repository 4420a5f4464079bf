#!/usr/bin/python3
"""Real servers that verify credentials, for the egress tests: egress_front.py FOLDER KIND [WORD...]

KIND is `git` (git's own server behind nginx, for users with a password in FOLDER/git.users), `azure`
(azurite, with the account KEY) `swift` (OpenStack's object store with its S3 interface, with
ID and SECRET), or `mcp` (an MCP server over streamable HTTP, for who shows the bearer TOKEN).
"""
import os
import subprocess
import sys
from pathlib import Path

import swift_lab
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


def swift(key_id, secret):
    ports = {"proxy": 8090, "memcache": 11211, "account": 6202, "container": 6201, "object": 6200}
    for argv in swift_lab.prepare(FOLDER / "swift", key_id, secret, ports):
        start(*argv)
    nginx(SWIFT)
    return [("127.0.0.1", port) for port in ports.values()] + [(FRONT, 443)]


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    kind = {"git": git, "azure": azure, "swift": swift, "mcp": mcp}[sys.argv[2]]
    await_each([*kind(*sys.argv[3:])], 50)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
