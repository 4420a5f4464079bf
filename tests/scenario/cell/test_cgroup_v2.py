"""Limits on a machine that has cgroup v2 alone, in each place a cell may start.

The unit tests of the cgroup module run in a virtual machine, and then whole cells:
processes run into the limits.  Nothing may be left in the cgroup tree afterwards.
"""
import re

import pytest

import vm
from operators import BUILD

CG = "/sys/fs/cgroup"

# Processes started by in_group and as_user replace each other, so that no shell stays
# in the group.
SETUP = f"""
cat >/bin/in_group <<'END'
#!/bin/sh
echo $$ >{CG}/$1/cgroup.procs && shift && exec "$@"
END
cat >/bin/as_user <<'END'
#!/bin/sh
mkdir -p /tmp/user && chown user /tmp/user
exec su -s /bin/sh user -c "export HOME=/tmp/user; exec $*"
END
chmod 755 /bin/in_group /bin/as_user
mount -t cgroup2 none {CG}

place() {{
    echo "=== $1"
    shift
    "$@" 2>&1
    echo "--- left"
    find {CG} -name 'cloister*'
    for g in {CG} {CG}/svc; do
        test -e $g/cgroup.subtree_control && echo "$g:$(cat $g/cgroup.subtree_control)"
    done
}}
delegate() {{
    mkdir {CG}/$1
    chown user {CG}/$1 {CG}/$1/cgroup.procs {CG}/$1/cgroup.subtree_control {CG}/$1/cgroup.threads
}}

"""

UNIT_PLACES = f"""
place root /unit -v cgroup

echo "+memory +pids +cpu +io" >{CG}/cgroup.subtree_control
mkdir -p {CG}/a.slice/b.scope
place root_in_scope in_group a.slice/b.scope /unit -v cgroup

delegate user
mkdir {CG}/user/shell.scope && chown -R user {CG}/user/shell.scope
place user_delegated in_group user/shell.scope as_user /unit -v cgroup

delegate svc
place user_alone in_group svc as_user /cloister-unit -v cgroup
rmdir {CG}/svc

delegate svc
in_group svc sleep 1000 &
place user_occupied in_group svc as_user /cloister-unit -v cgroup

mkdir {CG}/login.scope
place user_undelegated in_group login.scope as_user /unit -v cgroup

place read_only in_group a.slice/b.scope sh -c "mount -o remount,ro {CG}; exec /unit -v cgroup"
"""

STRIKES = {"cgroup_memory_strikes", "cgroup_pids_strikes", "cgroup_cpus_strikes",
           "cgroup_io_strikes"}


def boot(tmp_path_factory, script, files, modules=()):
    """The output of each place."""
    out = vm.run(tmp_path_factory.mktemp("vm"), SETUP + script, files, modules, disk=128)
    parts = re.split(r"^=== (\w+)\n", out, flags=re.M)
    assert len(parts) > 1, out
    return dict(zip(parts[1::2], parts[2::2]))


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    unit = BUILD / "tests" / "unit"
    if b"__asan_init" in unit.read_bytes():
        pytest.skip("the sanitizers' programs are not static")
    return boot(tmp_path_factory, UNIT_PLACES,
                {"unit": unit, "cloister-unit": unit, **{path.lstrip("/"): path for path in vm.libraries(unit)}})


def results(text):
    found = {}
    for verdict, name in re.findall(r"^(ok|skipped|FAILED): (cgroup_\w+)(?::|$)", text, flags=re.M):
        found.setdefault(verdict, set()).add(name)
    assert "ok" in found, text
    assert "FAILED" not in found, text
    skipped = {name for name in found.get("skipped", ()) if "_v1_" not in name}
    return found["ok"], skipped


def left(text):
    return [l for l in text.split("--- left\n")[1].splitlines() if "/cloister" in l]


@pytest.mark.parametrize("place", ["root", "root_in_scope"])
def test_root(places, place):
    ok, skipped = results(places[place])
    assert STRIKES <= ok
    assert skipped == {"cgroup_users_cell_is_below_its_limits"}
    assert left(places[place]) == []


@pytest.mark.parametrize("place", ["user_delegated", "user_alone"])
def test_user_with_a_group_of_its_own(places, place):
    ok, skipped = results(places[place])
    assert STRIKES <= ok
    assert "cgroup_users_cell_is_below_its_limits" in ok
    assert skipped == set()
    assert left(places[place]) == []


def test_stepping_aside_is_undone(places):
    assert re.search(r"^/sys/fs/cgroup/svc:$", places["user_alone"], flags=re.M)


@pytest.mark.parametrize("place, reason", [
    ("user_occupied", "the only cgroup that may be divided has processes in it: move them"),
    ("user_undelegated", "this user has no delegated cgroup: start it as root"),
    ("read_only", "the cgroups are mounted read-only: give this container"),
])
def test_missing_controllers_are_reported(places, place, reason):
    ok, skipped = results(places[place])
    assert STRIKES <= skipped
    assert {"cgroup_missing_is_reported", "cgroup_nothing_asked"} <= ok
    assert f"memory cannot be limited: {reason}" in places[place]
    assert left(places[place]) == []


CELL_PLACES = f"""
mkdir -p /usr/bin /usr/lib /var /home
cp /bin/busybox /usr/bin
for a in sh dd cat sleep; do ln -s busybox /usr/bin/$a; done
cat >/bin/over <<'END'
#!/bin/sh
exec /opt/cloister run --memory 32M -- sh -c \
    'cat /proc/self/cgroup; dd if=/dev/zero of=/dev/null bs=96M count=1; echo "status $?"; sleep 1000 & exit 3'
END
cat >/bin/over_and_stay <<'END'
#!/bin/sh
over
echo "cell $?"
END
chmod 755 /bin/over /bin/over_and_stay
place root over_and_stay
echo "+memory +pids +cpu +io" >{CG}/cgroup.subtree_control
delegate user
mkdir {CG}/user/shell.scope && chown -R user {CG}/user/shell.scope
place user in_group user/shell.scope as_user over_and_stay
delegate svc
place alone in_group svc as_user over
place occupied in_group svc as_user over_and_stay
mkdir {CG}/login.scope
place undelegated in_group login.scope as_user over_and_stay
cat >/bin/freezes <<'END'
#!/bin/sh
export HOME=/tmp/home$$
mkdir $HOME
cell=$(/opt/cloister run -d -- sleep 1000)
/opt/cloister freeze $cell
echo "status $?"
group=$(find {CG} -name "cloister-$cell")
# The order is carried out a moment later.
test -n "$group" && until grep -q "frozen 1" $group/cgroup.events; do :; done
/opt/cloister ps
/opt/cloister thaw $cell
/opt/cloister exec $cell -- true && echo "goes on"
/opt/cloister freeze $cell
/opt/cloister kill $cell && echo "is dead"
END
chmod 755 /bin/freezes
place root_freezes freezes
place user_freezes in_group user/shell.scope as_user freezes
place undelegated_freezes in_group login.scope as_user freezes
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    cloister = BUILD / "cloister"
    if b"__asan_init" in cloister.read_bytes():
        pytest.skip("the sanitizers' programs are not static")
    files = {f"opt/libexec/{p.name}": p for p in (BUILD / "libexec").iterdir()}
    return boot(tmp_path_factory, CELL_PLACES, files | {"opt/cloister": cloister}, ["overlay"])


@pytest.mark.parametrize("place", ["root", "user", "alone"])
def test_cell_is_limited(cells, place):
    out = cells[place]
    assert out.startswith("0::/\n"), out           # of its cgroup namespace
    assert "status 137" in out and "(--memory 32M)" in out
    assert place == "alone" or "\ncell 3\n" in out
    assert left(out) == []


def test_cell_that_stepped_aside_is_back(cells):
    assert re.search(r"^/sys/fs/cgroup/svc:$", cells["alone"], flags=re.M)


@pytest.mark.parametrize("place", ["occupied", "undelegated"])
def test_cell_that_cannot_be_limited_does_not_start(cells, place):
    out = cells[place]
    assert out.startswith("cloister: --memory cannot be enforced, because ") and "\ncell 125\n" in out
    assert left(out) == []


@pytest.mark.parametrize("place", ["root_freezes", "user_freezes"])
def test_cell_is_frozen(cells, place):
    out = cells[place]
    assert "status 0\n" in out and "frozen " in out and "goes on\nis dead\n" in out, out
    assert left(out) == []


def test_cell_that_cannot_be_frozen(cells):
    out = cells["undelegated_freezes"]
    assert "cannot freeze the cell: it has no cgroup that can" in out and "status 125\n" in out
    assert "running " in out and "goes on\n" in out and "is dead\n" in out
    assert left(out) == []
