"""Runs the cases in a guest: guest.py FOLDER DISK

FOLDER has plan.json and the tree.  Progress goes to the console; at the end a tar archive with
each step's output and results.json is written to DISK.
"""
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

USER = "tester"


def login(user, command, env):
    """argv that runs COMMAND as somebody who logged in: PAM registers a session with logind."""
    settings = [f"--setenv={name}={value}" for name, value in env.items()]
    return ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--property=User={user}",
            "--property=PAMName=login", "--property=KillMode=control-group",
            "--property=WorkingDirectory=/srv/cloister", *settings, "/bin/bash", "-lc", command]


def argv_for(place, command, env):
    if place == "root":
        return login("root", command, env)
    if place == "user":
        return login(USER, command, env)
    assert place == "delegated", place
    return login(USER, 'exec systemd-run --quiet --user --scope -p Delegate=yes -- /bin/bash -c "$STEP"',
                 {**env, "STEP": command})


def run_step(step, env, results):
    """Runs a step; what is to be known of it."""
    name = f"{step['case']}.{step['place']}"
    stem = results / name
    print(f"\n=== {name}: {step['command']}", flush=True)
    began = time.monotonic()
    env = {**env, "RESULT": str(stem), "PYTHONDONTWRITEBYTECODE": "1", "TERM": "dumb"}
    process = subprocess.Popen(argv_for(step["place"], step["command"], env),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGTERM))
    signal.alarm(step["seconds"])
    with open(f"{stem}.txt", "wb") as log:
        for line in process.stdout:
            log.write(line)
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
    status = process.wait()
    signal.alarm(0)
    took = time.monotonic() - began
    print(f"--- {name}: {'ok' if status == 0 else f'FAILED, status {status}'} ({took:.0f} s)", flush=True)
    return {"case": step["case"], "place": step["place"], "status": status, "seconds": round(took, 1),
            "was_late": took >= step["seconds"]}


def about_this_system():
    def said(*argv):
        return subprocess.run(argv, capture_output=True, text=True).stdout.split("\n")[0]
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines()
                   if "=" in line)
    return {"system": release["PRETTY_NAME"].strip('"'), "kernel": os.uname().release,
            "machine": os.uname().machine, "systemd": said("systemctl", "--version"),
            "cgroups": said("stat", "-fc", "%T", "/sys/fs/cgroup"),
            "lsm": Path("/sys/kernel/security/lsm").read_text().strip()}


def main():
    folder, disk = map(Path, sys.argv[1:])
    plan = json.loads((folder / "plan.json").read_text())
    results = folder / "results"
    results.mkdir()
    results.chmod(0o1777)
    facts = {"about": about_this_system(), "steps": []}
    print(f"\n{facts['about']}", flush=True)
    try:
        for step in plan["steps"]:
            facts["steps"].append(run_step(step, plan["env"], results))
    finally:
        (results / "results.json").write_text(json.dumps(facts, indent=1))
        # A journal is the first thing to read when a login failed.
        with open(results / "journal.txt", "wb") as log:
            subprocess.run(["journalctl", "--no-pager", "-b"], stdout=log, check=False)
        with open(disk, "r+b") as out, tarfile.open(fileobj=out, mode="w") as archive:
            archive.add(results, arcname=".")
        os.sync()


main()
