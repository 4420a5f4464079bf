"""The monitor's filter allows what a session needs, and little more: each call is taken away once."""
import ctypes
import os
import re

import pytest

from operators import IS_ROOT, TREE, copy_mutant

pytestmark = pytest.mark.skipif(not os.environ.get("CLOISTER_TEST_VM"), reason="takes long: `make test-vm`")
only_here = pytest.mark.parametrize("who", ["root"] if IS_ROOT else ["user"])
SECONDS = 300

SESSION = """
test "$(head -c 1000000 /dev/zero | wc -c)" = 1000000
cat /usr/bin/env >/tmp/env && cmp /tmp/env /usr/bin/env
read line; test "$line" = typed
getent hosts allowed.example >/dev/null
python3 -c "
import socket
s = socket.create_connection(('allowed.example', 80), 20)
s.sendall(b'GET / HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n')
assert s.recv(8) == b'HTTP/1.1'"
echo done
"""


@pytest.fixture
def boundary():
    return "microvm"


def calls_of_the_monitor():
    """{name: number here} of the calls in the monitor's table that a session needs; the rest of the table is
    for other machines, and its comments give the reasons."""
    table = (TREE / "src/confine/filter_machines.h").read_text()
    rows = re.search(r"filter_monitor\[\] = \{\n(.*?)\n\};", table, re.S).group(1)
    rows, spare = rows.split("/* ---- what an emulated session")
    assert spare
    rows = re.sub(r"/\*.*?\*/", "", rows, flags=re.S)
    names = " ".join(re.findall(r'"([^"]*)"', rows)).split()
    resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name
    numbers = {name: resolve(name.encode()) for name in names}
    return {name: number for name, number in numbers.items() if number >= 0}


def works(operator, number):
    """Whether a machine that boots, and one that is restored, can do without the call NUMBER."""
    operator.env["CLOISTER_OFF"] = f"monitor-call-{number}"

    def session(*options):
        done = operator.run("-q", "--memory", "256M", "--time", "60s", "--allow", "allowed.example", *options, "--",
                            "sh", "-ec", SESSION, input="typed\n", seconds=SECONDS)
        return done.status == 0 and done.out == "done\n" and done.err == ""

    return session() and session("--vm-boot")


@only_here
def test_no_call_is_spare(operator, ground):
    operator.program = copy_mutant(ground)
    assert works(operator, -1), "the session itself"
    unneeded = [name for name, number in calls_of_the_monitor().items() if works(operator, number)]
    assert " ".join(unneeded) == ""
