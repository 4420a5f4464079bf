"""The units of contrib/systemd under a real systemd: see systemd_lab.py."""
import pytest

from operators import TREE, wait_until
from systemd_lab import NEEDS, SYSTEMD, USER, boot

pytestmark = NEEDS


@pytest.fixture
def machine(tmp_path):
    with boot(tmp_path, TREE / "contrib/systemd/system") as machine:
        yield machine


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
