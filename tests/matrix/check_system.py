"""Checks that this guest is what the matrix says: check_system.py, in a place (see cases.py).

Pure cgroup v2, AppArmor in force, and a real login: without these the other cases prove little.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

faults = []


def check(is_so, what):
    print(f"{'ok' if is_so else 'NOT SO'}: {what}")
    if not is_so:
        faults.append(what)


mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
check(["/sys/fs/cgroup"] == [m[1] for m in mounts if m[2] == "cgroup2"], "one cgroup v2 hierarchy")
check(not any(m[2] == "cgroup" for m in mounts), "no cgroup v1 hierarchy")
check(Path("/sys/module/apparmor/parameters/enabled").read_text() == "Y\n", "AppArmor is in force")
check(Path("/proc/1/comm").read_text() == "systemd\n", "systemd is the first process")
release = Path("/etc/os-release").read_text()
if re.search("^ID=ubuntu$", release, re.M):
    setting = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    check(setting.exists() and setting.read_text() == "1\n", "AppArmor restricts user namespaces")

group = Path("/proc/self/cgroup").read_text().strip()
session = os.environ.get("XDG_SESSION_ID", "")
said = subprocess.run(["loginctl", "show-session", session, "-p", "Name", "-p", "State", "-p", "User"],
                      capture_output=True, text=True).stdout
print(f"in {group}, session {session}: {' '.join(said.split())}")
check(f"User={os.geteuid()}\n" in said, "logind knows the session")
runtime = os.environ.get("XDG_RUNTIME_DIR", "/nowhere")
check(os.path.isdir(runtime) and os.stat(runtime).st_uid == os.geteuid(), f"XDG_RUNTIME_DIR {runtime}")
if f"user@{os.geteuid()}.service" in group:
    own = Path("/sys/fs/cgroup") / group.split("::/")[1]
    check(os.access(own / "cgroup.procs", os.W_OK), "the cgroup is delegated")
    print("its controllers:", (own / "cgroup.controllers").read_text().strip())
else:
    check(re.search(r"/session-\w+\.scope$", group) is not None, "in the session's scope")
sys.exit(1 if faults else 0)
