"""Notifications of the agent's filter report what strace(1) sees: each execution, and each change of a file."""
import os
import re
import shutil
import subprocess
from collections import Counter

import pytest

from operators import BUILD

# Programs, pipes, threads, failing executions, and files by every kind of call; no program in it acts by chance.
WORK = r"""
set -e
git init -q r
cd r
git config user.email a@b.example
git config user.name a
for i in 1 2 3; do echo $i >f$i; git add -A; git commit -qm c$i; done
git clone -q . ../copy
cd ..
mkdir -p d/e
for i in 1 2 3 4 5; do (echo $i | tee d/$i >/dev/null); done
mv d/1 d/e/one; ln d/2 d/two; ln -s ../d d/link; echo more >>d/link/3; rm -r d
printf 'all: a.o b.o\n%%.o: %%.c\n\t$(CC) -c -o $@ $<\n' >Makefile
echo 'int a;' >a.c; echo 'int b;' >b.c
make -s -j2
python3 -c 'import subprocess; subprocess.run(["true"]); subprocess.run(["sh", "-c", "exit 3"])'
no-such-program || true
"""
OPENS = {"open", "openat"}
CALLS = {"creat": "create", "mkdir": "create", "mkdirat": "create", "mknodat": "create", "truncate": "write",
         "unlink": "remove", "unlinkat": "remove", "rmdir": "remove", "rename": "rename", "renameat": "rename",
         "renameat2": "rename", "link": "link", "linkat": "link", "symlink": "link", "symlinkat": "link"}
WRITES = re.compile(r"\bO_(WRONLY|RDWR|CREAT|TRUNC)\b")


def do(folder, *argv):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "home").mkdir()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home"), "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*argv, "/bin/sh", "-c", WORK], cwd=folder, env=env, capture_output=True, text=True,
                          errors="replace", timeout=300, check=True)


def acts_of_notifications(folder):
    done = do(folder, BUILD / "tests" / "notify_acts")
    found = Counter()
    for line in done.stdout.splitlines():
        kind, what, path, how = line.split("\t")
        assert kind not in ("failed", "lost"), line
        assert path.startswith("/") or what == "link" or kind not in ("exec", "file"), line
        if kind == "exec":
            found["exec failed" if how == "error" else "exec"] += 1
            # Whatever ran was seen to run.  mkdir -p cuts its own argument while it works.
            assert how != "asked" or path == "/usr/bin/mkdir", line
        elif kind == "file":
            found[what] += 1
    return found


def acts_of_strace(folder, log):
    names = ",".join(sorted(OPENS | set(CALLS) | {"execve", "execveat"}))
    do(folder, "strace", "-f", "-qq", "-e", "signal=none", "-o", log, "-e", f"trace=?{names.replace(',', ',?')}")
    found, begun = Counter(), {}
    for line in log.read_text(errors="replace").splitlines():
        pid, text = line.split(None, 1)
        if text.endswith("<unfinished ...>"):
            begun[pid] = text.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
        text = begun.pop(pid) + resumed[1] if resumed else text
        name = text.split("(")[0]
        if name.startswith("exec"):
            found["exec" if text.endswith(" = 0") else "exec failed"] += 1
        elif name in CALLS:
            found[CALLS[name]] += 1
        elif WRITES.search(text):
            found["open"] += 1
    return found


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
@pytest.mark.skipif(not os.path.exists("/usr/bin/git") or not os.path.exists("/usr/bin/make"), reason="no git or make")
def test_notifications_see_what_strace_sees(tmp_path):
    ours, theirs = acts_of_notifications(tmp_path / "ours"), acts_of_strace(tmp_path / "theirs", tmp_path / "log")
    assert theirs["exec"] > 30 and theirs["open"] > 30
    # Whether an open makes a file is not in its text.
    ours["made or opened"] = ours.pop("create", 0) + ours.pop("write", 0)
    theirs["made or opened"] = theirs.pop("create", 0) + theirs.pop("write", 0) + theirs.pop("open", 0)
    assert {key: ours[key] for key in theirs} == theirs
