"""The units of contrib/systemd under a real systemd: pid 1 of namespaces of its own, on a copy-on-write
view of this machine, with cloister where `make install` puts it."""
import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from operators import CLOISTER, SECONDS, TREE, children_of, wait_until
from service import UnixConnection

SYSTEMD = "/lib/systemd/systemd"
USER = 1000                    # need not exist on this machine
NEEDED = ("unshare", "nsenter", "systemctl")
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists(SYSTEMD) or
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


@pytest.fixture
def machine(tmp_path):
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    at = next((m[4] for m in mounts if m[m.index("-") + 1] == "cgroup2" and "ro" not in m[5].split(",")), None)
    if at is None:
        pytest.skip("no cgroup v2 here")
    group = Path(at) / f"cloister-test-{os.getpid()}"
    group.mkdir()
    env = {**os.environ, "GROUP": str(group), "PLACE": str(tmp_path / "place"), "BUILT": str(CLOISTER.parent),
           "UNITS": str(TREE / "contrib/systemd/system"), "INSIDE": INSIDE, "USER": str(USER)}
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


def test_units_at_work(machine):
    assert machine.do("systemctl", "start", "cloister.socket", "cloister-agents.socket") == (0, "")
    assert machine.is_active("cloister.service") == "inactive"
    # Somebody asks, and it is there; it can do what a service must.
    short = machine.dispatch("short", "echo here; echo left >/out/file")
    assert machine.await_state(short, "finished")["exit_code"] == 0
    assert machine.is_active("cloister.service") == "active"
    assert machine.do("cloister", "dispatches", "output", short) == (0, "here")
    # Stopped, it leaves its cells, and the sockets are still systemd's.
    long = machine.dispatch("long", "while ! [ -e /tmp/go ]; do sleep 0.05; done; exit 7")
    cell = machine.await_state(long, "running")["cell"]
    assert machine.do("systemctl", "stop", "cloister.service")[0] == 0
    assert (machine.show("Result"), machine.show("ActiveState")) == ("success", "inactive")
    assert cell in machine.do("cloister", "ps")[1]
    # The next one, which whoever asks starts, finds them again.
    assert machine.ask("GET", f"/v1/dispatches/{long}")["state"] == "running"
    # Killed, it is started anew by itself, and they go on.
    assert machine.do("sh", "-c", "kill -9 $(systemctl show --property MainPID --value cloister.service)")[0] == 0
    wait_until(lambda: machine.show("NRestarts") == "1" and machine.is_active("cloister.service") == "active",
               "it was started again")
    # The cell may end before `touch` is reported to have.
    assert machine.do("cloister", "exec", cell, "--", "touch", "/tmp/go") in ((0, ""), (125, "cloister: the cell has ended"))
    assert machine.await_state(long, "finished")["exit_code"] == 7


def as_user(machine, script):
    """In a service of the system's, as a login session is: its group is root's."""
    return machine.do("systemd-run", "--quiet", f"--uid={USER}", "--wait", "--pipe", "--collect", "-E", "HOME=/tmp/home",
                      "-E", f"XDG_RUNTIME_DIR=/run/user/{USER}", "-E", "PATH=/usr/local/bin:/usr/bin:/bin", "sh", "-c", script)


def test_an_ordinary_users_cells_get_a_scope_of_their_systemd(machine):
    """Over D-Bus, with nothing set up: then they can be frozen, and the scope goes with them."""
    assert machine.do("sh", "-ec", f"install -d -o {USER} -m 700 /run/user/{USER} /tmp/home; chmod 755 /run/user")[0] == 0
    units = "systemctl --user list-units --all --plain --no-legend 'cloister-*.scope'"
    freeze = ("cloister run -d --name it -- sleep 1000 >/dev/null 2>&1; cloister freeze it; echo $?; "
              f"{units} 2>/dev/null | cut -d. -f2 | cut -c1-5; cloister kill it")
    assert as_user(machine, freeze)[1].endswith("125")
    assert machine.do("systemd-run", "--quiet", f"--uid={USER}", "--unit=manager", "-p", "Delegate=yes", "-E",
                      f"XDG_RUNTIME_DIR=/run/user/{USER}", SYSTEMD, "--user")[0] == 0
    private = f"/run/user/{USER}/systemd/private"
    wait_until(lambda: machine.do("test", "-S", private)[0] == 0, "the user's systemd listens")
    assert as_user(machine, freeze) == (0, "0\nscope")
    wait_until(lambda: as_user(machine, units) == (0, ""), "the scope is gone")
    # The same by way of a bus, which is what most people's systemd has.
    assert as_user(machine, "systemctl --user start dbus.socket") == (0, "")
    assert machine.do("mv", private, private + "-not")[0] == 0
    assert as_user(machine, freeze) == (0, "0\nscope")
