"""cloister-disk: a disk of a folder's programs, its cache, and a virtual machine that has it as its root."""
import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest

import microvm
from operators import SECONDS, only_root, only_user

LONG = SECONDS * 6
DAY = 24 * 3600


class Maker:
    def __init__(self, operator):
        self.operator = operator
        self.program = operator.program.parent / "libexec" / "cloister-disk"
        self.folder = microvm.small_rootfs(operator)
        self.cache = operator.folder("home/cache")
        self.cache.chmod(0o700)

    def words(self, **change):
        words = {"folder": self.folder, "agent": "1000", "cache": self.cache, **change}
        return [self.program, *(word for name, value in words.items() for word in (f"--{name}", value))]

    def make(self, **change):
        disk, hashed = self.operator.do(*self.words(**change)).ok().splitlines()
        assert hashed == "sha256:" + hashlib.sha256(Path(disk).read_bytes()).hexdigest()
        return Path(disk)

    def kept(self):
        return {name for name in os.listdir(self.cache) if not name.endswith(".sums")}


@pytest.fixture
def maker(operator):
    return Maker(operator)


def test_it_is_made_once(maker):
    first = maker.make()
    inode, sums = first.stat().st_ino, first.with_name(first.name + ".sums")
    os.utime(sums, (time.time() - DAY,) * 2)
    assert maker.make() == first and first.stat().st_ino == inode and time.time() - sums.stat().st_mtime < DAY / 2
    assert first.stat().st_mode & 0o777 == 0o444 and maker.kept() == {first.name}
    # What no cell is shown is not on it, and does not count.
    assert b"hello" in first.read_bytes() and b"canary" not in first.read_bytes()
    (maker.folder / "home/secret").write_text("another canary")
    (maker.folder / "var").mkdir()
    assert maker.make() == first


def test_another_state_is_another_disk(maker):
    made = {maker.make()}
    note = maker.folder / "usr/note"
    times = note.stat().st_atime_ns, note.stat().st_mtime_ns
    note.write_text("NOTE\n")
    os.utime(note, ns=times)
    made.add(maker.make())
    note.chmod(0o600)
    made.add(maker.make())
    note.rename(note.with_name("other"))
    made.add(maker.make())
    (maker.folder / "usr/empty").mkdir()
    made.add(maker.make())
    assert len(made) == 5 and {path.name for path in made} == maker.kept()


def test_the_same_files_make_the_same_bytes(maker):
    first = maker.make()
    copy = maker.operator.home / "copy"
    maker.operator.do("cp", "-a", maker.folder, copy).ok()
    second = maker.make(folder=copy)
    assert second != first and second.read_bytes() == first.read_bytes()


def test_a_damaged_one_is_made_again(maker):
    first = maker.make()
    data = first.read_bytes()
    for damage in data[:-4096], data[::-1], b"":
        times = first.stat().st_atime_ns, first.stat().st_mtime_ns
        first.chmod(0o644)
        first.write_bytes(damage)
        os.utime(first, ns=times)
        assert maker.make() == first and first.read_bytes() == data
    first.with_name(first.name + ".sums").unlink()
    assert maker.make() == first and first.read_bytes() == data


def test_a_part_is_never_used(maker):
    """Its maker was killed."""
    first = maker.make()
    data = first.read_bytes()
    first.with_name(first.name + ".sums").unlink()
    first.unlink()
    maker.operator.file(f"home/cache/part-{first.name}", data[:8192])
    assert maker.make() == first and first.read_bytes() == data and maker.kept() == {first.name}


@only_root
def test_what_is_mounted_in_it_stays_out(maker):
    """From the same file system too."""
    secret = maker.operator.folder("home/mine", {"file": "a canary of its own\n"})
    (maker.folder / "usr/mnt").mkdir()
    told = maker.operator.do("unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh",
                             secret, maker.folder / "usr/mnt", *maker.words()).ok()
    assert b"canary of its own" not in Path(told.splitlines()[0]).read_bytes()


def test_no_link_is_followed_to_it(maker):
    (maker.operator.home / "link").symlink_to(maker.folder.parent)
    done = maker.operator.do(*maker.words(folder=maker.operator.home / "link" / maker.folder.name))
    assert done.status != 0 and "cannot open it" in done.err and not maker.kept()


def test_too_much_is_refused(maker):
    os.truncate(maker.folder / "usr/note", 1 << 40)
    done = maker.operator.do(*maker.words())
    assert done.status != 0 and "32 GiB" in done.err and not maker.kept()


def test_two_at_once(maker):
    running = [maker.operator.spawn(*maker.words(), stdout=subprocess.PIPE) for _ in range(6)]
    said = {p.communicate(timeout=60)[0] for p in running}
    assert [p.returncode for p in running] == [0] * 6 and len(said) == 1 and len(maker.kept()) == 1


def test_unused_ones_go(maker):
    others = [maker.operator.file(f"home/cache/disk-{digit * 64}") for digit in "0123456789"]
    for days, path in enumerate(others):
        os.utime(path, (time.time() - (days + 1) * DAY,) * 2)
    os.utime(others[0], (time.time() - 31 * DAY,) * 2)
    kept = {maker.make().name, *(path.name for path in others[1:8])}
    assert maker.kept() == kept


@only_user
def test_files_that_cannot_be_read_are_left_out(maker):
    secret = maker.operator.file("rootfs/usr/secret", "canary")
    secret.chmod(0)
    closed = maker.operator.folder("rootfs/usr/closed")
    maker.operator.file("rootfs/usr/closed/file", "canary")
    closed.chmod(0)
    data = maker.make().read_bytes()
    closed.chmod(0o755)
    assert b"canary" not in data and b"note" in data


def test_a_sentence_when_it_fails(maker):
    done = maker.operator.do(*maker.words(folder=maker.operator.base / "nowhere"))
    done.sentence("no disk can be made of", "nowhere", "No such file")
    assert maker.kept() == set()


# ---- in a virtual machine --------------------------------------------------------------------

@pytest.fixture
def in_vms(operator, ground):
    operator.env |= {"CLOISTER_BOUNDARY": "microvm"} | microvm.environment(ground)
    microvm.begin(operator, ground)
    yield operator
    microvm.end(operator, ground)


TRUSTED = "cat /etc/ssl/certs/ca-certificates.crt; cat old; echo new >new; cat /srv/shown/file"


@pytest.mark.parametrize("who", ["user"])
def test_cells_share_a_disk(in_vms):
    """One cell has nothing but the disk, another has grants and a policy too."""
    operator = in_vms
    rootfs = microvm.small_rootfs(operator)
    id = operator.detach("--memory", "256M", "--rootfs", str(rootfs), "--", "/bin/sleep", "100000", seconds=LONG)

    def run(script):
        return operator.cloister("exec", id, "--", "/bin/sh", "-c", script, seconds=LONG)

    mounts = run("cat /proc/mounts").ok()
    for place in "/bin", "/usr":
        (line,) = (line for line in mounts.splitlines() if line.split()[1] == place)
        assert line.startswith(f"/dev/vda {place} erofs ro,nosuid,nodev")
    assert "virtiofs" not in mounts and str(operator.base) not in mounts
    assert run("cat /etc/motd /usr/note").ok() == "hello\nnote\n"
    assert run("stat -c %u:%a /usr/note /bin/busybox; ls -A /home; ls /dev/vda").out.split()[:3] == \
        ["1000:644", "1000:755", "agent"]
    assert run("touch /usr/x").status != 0 and run("touch /x").status != 0 and run("touch /tmp/x").status == 0
    # Nobody serves files.
    assert [name for name in map(os.readlink, (f"/proc/{pid}/exe" for pid in operator.pids(id)[1:]))
            if "virtiofsd" in name] == []
    (disk,) = microvm.disks(operator)
    inode = disk.stat().st_ino

    workspace = operator.folder("workspace", {"old": "old\n"})
    shown = operator.folder("shown", {"file": "shown\n"})
    done = operator.run("--memory", "256M", "--rootfs", str(rootfs), "-w", f"{workspace}:rw", "-v", f"{shown}:/srv/shown:ro",
                        "--allow", "www.example.test", "--", "/bin/sh", "-c", TRUSTED, seconds=LONG)
    said = done.ok()
    assert (workspace / "new").read_text() == "new\n" and said.endswith("old\nshown\n") and said.count("BEGIN CERTIFICATE") > 1
    assert microvm.disks(operator) == [disk] and disk.stat().st_ino == inode
    boots = [line for line in operator.cloister("events", "--json", id).ok().splitlines() if '"disk_hash"' in line]
    assert hashlib.sha256(disk.read_bytes()).hexdigest() in boots[0]
    # It is removed by its name, and the cell that has it goes on.
    assert disk.name.removeprefix("disk-")[:12] in operator.cloister("vm", "list").ok()
    operator.cloister("vm", "remove", disk.name.removeprefix("disk-")).ok()
    assert microvm.disks(operator) == [] and run("cat /usr/note").ok() == "note\n"
