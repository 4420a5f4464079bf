"""OpenStack's Swift with its S3 interface: one disk, one copy.

swift_lab.py FOLDER ID SECRET PORTS     in a mount namespace of its own; says "ready", and ends with its input
"""
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

NEEDS = ("swift-proxy-server", "swift-object-server", "swift-container-server", "swift-account-server", "memcached")
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
bind_port = {proxy}
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
memcache_servers = 127.0.0.1:{memcache}
[filter:s3api]
use = egg:swift#s3api
location = eu-west-1
dns_compliant_bucket_names = false
min_segment_size = 1
storage_domain = localhost
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
SWIFT_SECONDS = 120     # four programs in Python, on a busy machine
PARTS = ("account", "container", "object")


def prepare(top, key_id, secret, ports):
    """Write its configuration and mount it where Swift looks for it; the programs to start."""
    from swift.common.ring import RingBuilder
    etc = top / "etc"
    etc.mkdir(parents=True)
    (top / "disks/disk").mkdir(parents=True)
    user = "root"
    account, name = key_id.split(":")
    (etc / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = of-the-tests\n"
                                    "[storage-policy:0]\nname = one\ndefault = yes\n")
    for kind in PARTS:
        (etc / f"{kind}.conf").write_text(SERVER.format(top=top, port=ports[kind], kind=kind, user=user))
        ring = RingBuilder(2, 1, 1)
        ring.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": ports[kind], "device": "disk", "weight": 1})
        ring.rebalance()
        ring.get_ring().save(str(etc / f"{kind}.ring.gz"))
    (etc / "proxy.conf").write_text(PROXY.format(top=top, user=user, account=account, name=name, secret=secret,
                                                 proxy=ports["proxy"], memcache=ports["memcache"]))
    # It knows no other place.
    subprocess.run(["mount", "--bind", etc, "/etc/swift"], check=True)
    return [["memcached", "-u", user, "-l", "127.0.0.1", "-p", str(ports["memcache"]), "-m", "16"],
            *([shutil.which(f"swift-{kind}-server"), f"/etc/swift/{kind}.conf"] for kind in (*PARTS, "proxy"))]


def main():
    from egress_world import await_each
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    folder, key_id, secret, ports = *sys.argv[1:4], json.loads(sys.argv[4])
    started = [subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr)
               for argv in prepare(Path(folder), key_id, secret, ports)]
    try:
        await_each([("127.0.0.1", port) for port in ports.values()], SWIFT_SECONDS)
        print("ready", flush=True)
        sys.stdin.read()
    finally:
        for process in started:
            process.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    main()
