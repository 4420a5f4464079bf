"""Limits: each is finite, each strikes, and the one that struck is named."""
import os
import re
import signal
from pathlib import Path

import pytest

from egress_lab import CURL, helpers_of
from leftovers import cgroups
from operators import SECONDS, is_alive, only_root, only_user, wait_until

MIB = 1 << 20


def cgroup_value(operator, id, *names):
    """The contents of the first of NAMES that the cell's cgroups have, v2's or v1's."""
    for name in names:
        for folder in cgroups({id}):
            # On a hybrid host the v2 group has files of these names, without the limits.
            if Path(folder, name).exists() and (
                    "/unified/" not in folder or name.startswith("cgroup.")):
                return Path(folder, name).read_text().strip()
    raise AssertionError(f"none of {names} in {cgroups({id})}")


def can_limit(operator):
    """Whether this operator's cells have cgroups: root's always, a user's if delegated.  A virtual machine has its
    memory without one."""
    where = ["--boundary", "namespace"] if operator.env.get("CLOISTER_BOUNDARY") == "microvm" else []
    return operator.is_root or not operator.run(*where, "--memory", "1G", "--", "true").status


@pytest.fixture
def limited(operator):
    if not can_limit(operator):
        pytest.skip("this user has no delegated cgroup here")
    return operator


# ---- what is in force when nothing is asked for ----------------------------------

def test_defaults_are_finite(limited):
    id = limited.detach("--", "sleep", "1000")
    assert int(cgroup_value(limited, id, "memory.max", "memory.limit_in_bytes")) == 4096 * MIB
    assert int(cgroup_value(limited, id, "pids.max")) in (1024, 1025)
    quota = cgroup_value(limited, id, "cpu.max", "cpu.cfs_quota_us").split()
    period = quota[1] if len(quota) > 1 else cgroup_value(limited, id, "cpu.cfs_period_us")
    assert int(quota[0]) == min(len(os.sched_getaffinity(0)), 4) * int(period)
    said = cgroup_value(limited, id, "io.max", "blkio.throttle.read_bps_device")
    assert str(1 << 30) in said


def test_swap_is_not_added(limited):
    id = limited.detach("--memory", "256M", "--", "sleep", "1000")
    try:
        swap = cgroup_value(limited, id, "memory.swap.max", "memory.memsw.limit_in_bytes")
    except AssertionError:
        return                      # this kernel does not count swap: there is none
    assert swap in ("0", str(256 * MIB))


def test_scratch_is_finite(operator):
    said = operator.run("--", "stat", "-f", "-c", "%b %S %c", "/tmp", "/home/agent", "/dev/shm")
    for line in said.ok().splitlines():
        blocks, size, inodes = map(int, line.split())
        assert blocks * size == 2048 * MIB and 0 < inodes <= 1 << 20


def test_processes_are_finite(operator):
    assert 1024 <= int(operator.sh("ulimit -p").ok()) < 2000


@only_user
def test_a_default_limit_that_cannot_be_enforced_is_reported_once(operator):
    if can_limit(operator):
        pytest.skip("this user's cgroups are delegated")
    operator.shown_once.clear()
    for name in operator.names(operator.runtime):
        (operator.runtime / name).unlink()
    for _ in range(3):
        assert operator.run("--", "true").err == ""
    assert len(operator.shown_once) == 1
    line = operator.shown_once[0]
    assert line.startswith("cloister: ") and "memory" in line and "root" in line


@only_user
@pytest.mark.parametrize("option, value", [("--memory", "1G"), ("--cpus", "1"), ("--io", "1G")])
def test_a_requested_limit_that_cannot_be_enforced_is_an_error(operator, option, value):
    if can_limit(operator):
        pytest.skip("this user's cgroups are delegated")
    said = operator.run(option, value, "--", "true").sentence(option, "cannot")
    assert re.search(r"as root|systemd-run|Delegate", said)


# ---- memory ----------------------------------------------------------------------

EAT = "x = []\nwhile True: x.append(b'x' * 1000000)"


def test_memory(limited):
    done = limited.python(EAT, "--memory", "128M")
    assert done.status == 128 + signal.SIGKILL
    assert re.fullmatch(r"cloister: cell \w+.*memory.*--memory 128M.*\n", done.err), done


def test_memory_of_a_child(limited):
    """The agent continues, and the operator still sees a message."""
    done = limited.sh(f"/usr/bin/python3 -Ic \"{EAT}\"; echo $?; exit 3", "--memory", "128M")
    assert (done.status, done.out) == (3, "137\n") and "--memory 128M" in done.err, done


def test_memory_that_is_enough(limited):
    done = limited.python("x = b'x' * (40 << 20); print(len(x))", "--memory", "128M")
    assert (done.ok(), done.err) == (f"{40 * MIB}\n", "")


def test_scratch_counts_as_memory(limited):
    done = limited.sh("head -c 200M /dev/zero >/tmp/x", "--memory", "128M", "--disk", "1G")
    assert done.status != 0 and "--memory 128M" in done.err, done


# ---- processes -------------------------------------------------------------------

FORK = """
import os, sys, time
n = 0
try:
    while n < 5000:
        if os.fork() == 0:
            time.sleep(1000)
        n += 1
except OSError as e:
    print(n, e.strerror)
"""


@pytest.mark.parametrize("limit", [1, 2, 20])
def test_processes(operator, limit):
    done = operator.python(FORK, "--pids", str(limit))
    assert done.ok() == f"{limit - 1} Resource temporarily unavailable\n"


@only_root
def test_processes_are_named(operator):
    done = operator.python(FORK, "--pids", "20")
    assert re.fullmatch(r"cloister: cell \w+.*--pids 20.*\n", done.err), done


def test_threads_count_too(operator):
    script = ("import threading, time\nn = 0\ntry:\n while n < 5000:\n"
              "  threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(); n += 1\n"
              "except RuntimeError: print(n, flush=True)\nimport os; os._exit(0)")
    assert operator.python(script, "--pids", "20").ok() == "19\n"


def test_fork_bomb(operator):
    """The host stays usable, and the cell can still be ended."""
    id = operator.detach("--pids", "50", "--", "/usr/bin/python3", "-Ic",
                         "import os\nwhile True:\n try: os.fork()\n except OSError: pass")
    wait_until(lambda: len(operator.pids(id)) >= 50, "the bomb has gone off")
    pids = operator.pids(id)
    assert len(pids) <= 53
    operator.cloister("kill", id, seconds=SECONDS).ok()
    assert not any(is_alive(pid) for pid in pids[1:])


def test_each_cell_has_its_own(operator):
    """One user's cells do not use up each other's processes."""
    hold = FORK.replace("5000", "15") + "print('full', flush=True); time.sleep(1000)"
    cells = [operator.detach("--pids", "20", "--", "/usr/bin/python3", "-Ic", hold)
             for _ in range(3)]
    wait_until(lambda: all("full" in operator.cloister("logs", c).out for c in cells), "all full")
    assert not any("unavailable" in operator.cloister("logs", c).out for c in cells)


# ---- disk ------------------------------------------------------------------------

def test_disk(operator):
    done = operator.sh("head -c 20M /dev/zero >/tmp/x; stat -c %s /tmp/x; exit 4", "--disk", "10M")
    assert done.status == 4 and "No space left on device" in done.err
    assert int(done.out) <= 10 * MIB
    assert re.search(r"^cloister: cell \w+.*--disk 10M.*$", done.err, re.M), done


def test_disk_is_one_for_all_places(operator):
    done = operator.sh("for p in /tmp /var/tmp /home/agent /dev/shm; do head -c 4M /dev/zero >$p/x;"
                       " done 2>/dev/null; cat /tmp/x /var/tmp/x ~/x /dev/shm/x | wc -c",
                       "--disk", "10M")
    assert 8 * MIB < int(done.out) <= 10 * MIB


def test_disk_counts_workspace_changes(operator):
    workspace = operator.folder("workspace", {"there": b"x" * MIB})
    done = operator.sh("echo $CLOISTER_CELL; head -c 20M /dev/zero >new; exit 0", "--disk", "10M",
                       "-w", workspace)
    operator.kept.add(done.out.strip())
    assert "No space left on device" in done.err and "--disk 10M" in done.err
    assert os.listdir(workspace) == ["there"]


def test_inodes(operator):
    done = operator.python("n = 0\ntry:\n"
                           "    while True: open(f'/tmp/{n}', 'w'); n += 1\n"
                           "except OSError as e: print(n, e.strerror)", "--disk", "1M")
    number, why = done.ok().strip().split(" ", 1)
    assert 100 < int(number) <= MIB // 4096 + 256 and why == "No space left on device"


def test_skeleton_cannot_be_filled(operator):
    """Everything outside the scratch space is read-only, or counts as well."""
    done = operator.sh("df --output=target,avail -B1 -x proc -x devpts | tail -n +2",
                       "--disk", "10M")
    for line in done.ok().splitlines():
        target, avail = line.split()
        if target in ("/tmp", "/var/tmp", "/home/agent", "/dev/shm"):
            assert int(avail) <= 10 * MIB
        else:
            assert operator.sh(f"test -w {target}", "--disk", "10M").status != 0 or \
                target.startswith("/dev/")


def test_rw_grants_are_the_hosts(operator):
    folder = operator.folder("granted")
    operator.sh("head -c 2M /dev/zero >/data/x", "--disk", "1M", "-v", f"{folder}:/data").ok()
    assert (folder / "x").stat().st_size == 2 * MIB


# ---- time ------------------------------------------------------------------------

def test_time(operator):
    done = operator.sh("trap '' TERM; echo started; sleep 1000", "--time", "3s")
    assert (done.status, done.out) == (128 + signal.SIGKILL, "started\n")
    assert re.fullmatch(r"cloister: cell \w+.*time limit.*--time 3s.*\n", done.err), done


def test_ttl_is_gentle(operator):
    done = operator.sh("trap 'echo told; exit 9' TERM; while :; do sleep 0.01; done",
                       "--ttl", "3s")
    assert (done.status, done.out) == (9, "told\n")
    assert re.fullmatch(r"cloister: cell \w+.*--ttl 3s.*\n", done.err), done


def test_ttl_of_a_detached_cell(operator):
    id = operator.detach("--ttl", "200ms", "--", "sleep", "1000")
    assert operator.cloister("wait", id).status == 128 + signal.SIGTERM
    ended = next(c for c in operator.cells("-a") if c["cell"] == id)
    assert "--ttl 200ms" in ended["cause"]


def test_time_that_is_not_reached(operator):
    done = operator.sh("echo done", "--time", "1h", "--ttl", "30m")
    assert (done.ok(), done.err) == ("done\n", "")


def test_longest_times(operator):
    assert operator.run("--time", "10000d", "--ttl", "200000h", "--", "echo", "x").ok() == "x\n"


# ---- processors and disks --------------------------------------------------------

@pytest.mark.parametrize("asked, milli", [("0.5", 500), ("1", 1000), ("1.25", 1250), ("64", 64000)])
def test_cpus(limited, asked, milli):
    id = limited.detach("--cpus", asked, "--", "sleep", "1000")
    quota = cgroup_value(limited, id, "cpu.max", "cpu.cfs_quota_us").split()
    period = quota[1] if len(quota) > 1 else cgroup_value(limited, id, "cpu.cfs_period_us")
    assert int(quota[0]) * 1000 == milli * int(period)


def test_cpus_strike(limited):
    """Busy for a second of its own time at a quarter of a processor."""
    id = limited.detach("--cpus", "0.25", "--", "sh", "-c", "while :; do :; done")

    def throttled():
        stat = cgroup_value(limited, id, "cpu.stat")
        return int(re.search(r"nr_throttled (\d+)", stat).group(1)) > 2
    wait_until(throttled, "the cell is throttled")


def test_io(limited):
    id = limited.detach("--io", "3M", "--", "sleep", "1000")
    for names in (("io.max", "blkio.throttle.read_bps_device"),
                  ("io.max", "blkio.throttle.write_bps_device")):
        assert str(3 * MIB) in cgroup_value(limited, id, *names)


def test_memory_and_processes_as_asked(limited):
    id = limited.detach("--memory", "300M", "--pids", "77", "--", "sleep", "1000")
    assert int(cgroup_value(limited, id, "memory.max", "memory.limit_in_bytes")) == 300 * MIB
    assert int(cgroup_value(limited, id, "pids.max")) in (77, 78)
    told = limited.cell(id)
    assert 0 < told["memory"] < 300 * MIB and told["pids"] >= 2


def test_the_agent_cannot_see_or_change_them(limited):
    said = limited.sh("cat /proc/self/cgroup; grep -E ' - cgroup2? ' /proc/self/mountinfo;"
                      "ls -A /sys")
    assert all(line.endswith(":/") for line in said.out.splitlines()), said


def test_processes_are_in_the_cgroup(limited):
    """All processes of the cell, also those of exec, but not the supervisor."""
    id = limited.detach("--", "sh", "-c", "setsid sleep 1000 & sleep 1000")
    process = limited.spawn(limited.program, "exec", id, "sleep", "1000")
    wait_until(lambda: len(limited.pids(id)) >= 5, "all of them run")
    supervisor, *rest = limited.pids(id)
    inside = {int(p) for p in cgroup_value(limited, id, "cgroup.procs").split()}
    assert inside == set(rest) and supervisor not in inside
    process.kill()


# ---- what serves a cell -----------------------------------------------------------

def test_the_helpers_are_limited_beside_the_cell(limited, online):
    """Gate, courier and inspector work for the agent: with its share of the processors, and without
    counting as its memory."""
    id = online.start("  - allow: '*.example.test'\n    body: {regex: [x]}\n", "sleep", "1000",
                      options=["--cpus", "0.5", "--memory", "128M"])
    online.inside(*CURL, "-d", "x", "https://up.example.test/echo").ok()
    helpers = helpers_of(limited, id)
    assert set(helpers) == {"gate", "courier", "inspect"}
    folders = cgroups({id}, ("-egress",))
    inside = {int(p) for folder in folders for p in Path(folder, "cgroup.procs").read_text().split()}
    assert set(helpers.values()) <= inside
    for pid in helpers.values():
        groups = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        limited_by = [name for _, kinds, name in groups
                      if not kinds or {"cpu", "memory", "pids"} & set(kinds.split(","))]
        assert limited_by and all(f"cloister-{id}-egress" in name for name in limited_by), groups

    def value(*names):
        return next(Path(f, n).read_text().strip() for n in names for f in folders
                    if Path(f, n).exists() and "/unified/" not in f)
    quota = value("cpu.max", "cpu.cfs_quota_us").split()
    period = quota[1] if len(quota) > 1 else value("cpu.cfs_period_us")
    assert int(quota[0]) * 2 == int(period)
    assert int(value("memory.max", "memory.limit_in_bytes")) == 1536 * MIB
    assert int(value("pids.max")) == 16
    limited.cloister("kill", id).ok()
    wait_until(lambda: not cgroups({id}, ("", "-egress")), "they are removed")


def test_the_helpers_go_with_a_supervisor_that_was_killed(limited, online):
    id = online.start("  - allow: '*.example.test'\n", "sleep", "1000")
    online.inside(*CURL, "https://up.example.test/204").ok()
    assert cgroups({id}, ("-egress",))
    pids = limited.pids(id)
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)), "they are dead")
    limited.run("--", "true").ok()
    wait_until(lambda: not cgroups({id}, ("", "-egress")), "the next run has removed them")
