"""A real systemd: pid 1 of namespaces of its own, on a copy-on-write view of this machine, with cloister where `make install`
puts it."""
import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from operators import CLOISTER, SECONDS, children_of, wait_until
from service import UnixConnection

SYSTEMD = "/lib/systemd/systemd"
USER = 1000                    # need not exist on this machine
NEEDED = ("unshare", "nsenter", "systemctl")
NEEDS = pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists(SYSTEMD) or
                           not all(map(shutil.which, NEEDED)), reason="no root, or no systemd here")

# A cgroup of its own first, then the namespaces; all that is mounted goes with them.
BOOT = """set -e
echo $$ >"$GROUP/cgroup.procs"
exec unshare --cgroup --mount --pid --uts --ipc --net --fork --kill-child --propagation private sh -ec "$INSIDE"
"""
INSIDE = """
mount -t tmpfs -o mode=755 none "$PLACE"
mkdir "$PLACE/upper" "$PLACE/work" "$PLACE/root"
mount -t overlay -o "lowerdir=/,upperdir=$PLACE/upper,workdir=$PLACE/work" none "$PLACE/root"
cd "$PLACE/root"
mount -t proc none proc
mount -t sysfs none sys
mount -t cgroup2 none sys/fs/cgroup
mount --rbind /dev dev
for folder in run tmp var/lib/cloister root; do
    mkdir -p $folder
    mount -t tmpfs -o mode=700 none $folder
done
chmod 755 run
chmod 1777 tmp
grep -q "^[^:]*:[^:]*:$USER:" etc/passwd || echo "someone:x:$USER:$USER::/tmp/home:/bin/sh" >>etc/passwd
mkdir -p usr/local/bin usr/local/libexec/cloister
cp "$BUILT/cloister" usr/local/bin/
cp "$BUILT"/libexec/cloister-* usr/local/libexec/cloister/
rm -rf etc/systemd/system
mkdir etc/systemd/system
cp "$UNITS"/* etc/systemd/system/
printf '[Unit]\\nRequires=basic.target\\nAfter=basic.target\\n' >etc/systemd/system/test.target
mkdir old
pivot_root . old
umount -l /old
exec env -i container=test PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD --system \\
    --unit=test.target --log-target=null --show-status=0
""".replace("SYSTEMD", SYSTEMD)


class Machine:
    def __init__(self, pid):
        self.pid = pid

    def do(self, *words):
        """Its status and all that it said."""
        done = subprocess.run(["nsenter", "--target", str(self.pid), "--all", "env", "-i", "-C", "/", "HOME=/root",
                               "PATH=/usr/local/bin:/usr/bin:/bin", *words], text=True, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.strip()

    def is_active(self, unit):
        return self.do("systemctl", "is-active", unit)[1]

    def show(self, what):
        return self.do("systemctl", "show", "--property", what, "--value", "cloister.service")[1]

    def ask(self, method, path, body=None):
        with contextlib.closing(UnixConnection(f"/proc/{self.pid}/root/run/cloister/serve.sock")) as c:
            c.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"} if body else {})
            answer = c.getresponse()
            said = json.loads(answer.read())
        assert answer.status < 300, said
        return said

    def dispatch(self, name, script):
        self.ask("POST", "/v1/agents", {"name": name, "command": ["sh", "-c", script]})
        return self.ask("POST", "/v1/dispatches", {"agent": name})["id"]

    def await_state(self, id, state):
        return wait_until(lambda: (d := self.ask("GET", f"/v1/dispatches/{id}"))["state"] == state and d,
                          f"{id} is {state}")


def remove_group(group):
    for folder, _, _ in os.walk(group, topdown=False):
        os.rmdir(folder)
    return True


def gone(group):
    with contextlib.suppress(OSError):
        return remove_group(group)
    return False


@contextlib.contextmanager
def boot(tmp_path, units):
    """A machine with these UNITS, the files of a folder."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    at = next((m[4] for m in mounts if m[m.index("-") + 1] == "cgroup2" and "ro" not in m[5].split(",")), None)
    if at is None:
        pytest.skip("no cgroup v2 here")
    group = Path(at) / f"cloister-test-{os.getpid()}"
    group.mkdir()
    env = {**os.environ, "GROUP": str(group), "PLACE": str(tmp_path / "place"), "BUILT": str(CLOISTER.parent),
           "UNITS": str(units), "INSIDE": INSIDE, "USER": str(USER)}
    (tmp_path / "place").mkdir()
    process = subprocess.Popen(["sh", "-c", BOOT], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: process.poll() is not None or children_of(process.pid), "it is begun")
        pids = children_of(process.pid)
        machine = Machine(pids[0] if pids else 0)
        wait_until(lambda: process.poll() is not None or
                   machine.do("systemctl", "is-system-running")[1] in ("running", "degraded"), "systemd runs")
        if process.poll() is not None:
            pytest.skip(f"systemd does not run here: {process.stdout.read()[-300:]!r}")
        yield machine
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        wait_until(lambda: gone(group), "all of it is gone")
