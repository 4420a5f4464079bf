"""Profiles: what may make namespaces of its own, and what may not."""
import os
import shutil

import pytest

NESTED = ("--profile", "nested")


def test_default_makes_no_namespaces(operator):
    for flag in ("-U", "-Ur", "-m", "-n", "-p", "-i", "-u", "-C"):
        assert operator.run("--", "unshare", flag, "true").status != 0, flag
        assert operator.run("--root", "--", "unshare", flag, "true").status != 0, flag


def test_nested_makes_its_own(operator):
    said = operator.run(*NESTED, "--", "unshare", "-Urmpfn", "--mount-proc", "sh", "-c",
                        "id -u; echo $$; mount -t tmpfs none /mnt && touch /mnt/x && ls /mnt;"
                        "ls /sys/class/net 2>/dev/null; cat /proc/net/dev | wc -l")
    assert said.out.startswith("0\n1\n"), said


def test_nested_sandbox(operator):
    if shutil.which("bwrap") is None:
        pytest.skip("no bwrap (package bubblewrap)")
    said = operator.run(*NESTED, "--", "bwrap", "--unshare-all", "--ro-bind", "/", "/",
                        "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
                        "sh", "-c", "id -u; touch /tmp/x; ls /tmp")
    assert said.ok() == "1000\nx\n"


def test_nested_is_still_a_cell(operator):
    """Root of a namespace inside has no more than the agent outside of it."""
    folder = operator.folder("granted", {"f": "x"})
    done = operator.run(*NESTED, "-v", f"{folder}:/data:ro", "--", "unshare", "-Urm", "sh", "-c",
                        "mount -o remount,rw,bind /data; echo evil >/data/f; mount -o remount,rw /;"
                        "echo evil >/etc/passwd; hostname evil; mknod /tmp/d b 254 0; echo tried")
    assert "tried\n" in done.out
    assert (folder / "f").read_text() == "x"


OPENAT2 = """
import ctypes, os
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(437, -100, b"program", how, 24) >= 0 or os.strerror(ctypes.get_errno()))
"""


def test_set_id_files_are_made_nowhere_on_the_host(operator):
    """The one call whose mode no filter can see is there only if nothing of the host's can be
    written."""
    folder = operator.folder("workspace")
    absent = "Function not implemented\n"
    for options in ((), (*NESTED, "-v", f"{folder}:/data")):
        assert operator.python(OPENAT2, "-w", str(folder), *options).ok() == absent, options
    assert operator.python(OPENAT2, *NESTED, "-w", f"{folder}:rw").ok() == absent
    assert list(folder.iterdir()) == []
    assert operator.sh("cd /tmp; exec /usr/bin/python3 -Ic \"$CODE\"", *NESTED, "-w", f"{folder}:ro",
                       "-e", f"CODE={OPENAT2}").ok() == "True\n"

    # Before Linux 6.6 these changes are on the host's disk from the start, and the call is absent.
    id = operator.change(folder, f"/usr/bin/python3 -Ic '{OPENAT2}'; >>program", *NESTED)
    assert [p for p in operator.state.rglob("*") if p.lstat().st_mode & 0o6000] == []
    operator.cloister("apply", id).ok()
    assert (folder / "program").stat().st_mode & 0o7777 in (0o755, 0o644)


# The capabilities of a program, as a kernel since 2.6.25 and one since 4.14 read them.
SETFCAP = """
import os
open("/data/program", "w").close()
for version, tail in ((2, b""), (3, b"\\0" * 4)):
    value = bytes([1, 0, 0, version]) + bytes([0, 0, 32, 0]) + b"\\0" * 12 + tail
    for path in "/data/program", os.open("/data/program", os.O_WRONLY):
        try: os.setxattr(path, "security.capability", value)
        except OSError as e: print(e.strerror)
"""


def test_programs_with_capabilities_are_made_nowhere_on_the_host(operator):
    """In a namespace of its own an agent has the right to give them away: in root's folder, whose
    owner it is inside, they would be the host's."""
    folder = operator.folder("granted")
    told = operator.run(*NESTED, "-v", f"{folder}:/data", "--", "unshare", "-Ur", "/usr/bin/python3", "-Ic", SETFCAP)
    assert told.ok() == 4 * "Operation not supported\n"
    assert os.listxattr(folder / "program") == []


def test_the_profiles_differ_in_nothing_else(operator):
    look = "id; env | grep -v CELL | sort; ls /; ls -A /dev /sys; cat /etc/passwd; hostname; umask"
    assert operator.sh(look).ok() == operator.sh(look, *NESTED).ok()
