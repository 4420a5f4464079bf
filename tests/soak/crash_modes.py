"""The modes of a crash: the service, supervisors or couriers are killed, or the disk is full.  Each
mode strikes in batches under load, and a judge checks the result of each batch."""
import collections
import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
import time

import remains
from cells import strike
from crash_judge import Judge
from crash_load import Load, Outside
from lab import Lab

SHOWN_MAX = 40
DISK = 256 << 20                # bytes
SAVED = "CLOISTER_CRASH_UNSHARED"


def helpers(lab, who, names):
    """Processes of WHO's that are one of these executables; as root also those in cells."""
    found = []
    for pid in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if pid.isdigit() and os.readlink(f"/proc/{pid}/exe") in names and is_of(pid, who, lab):
                found.append(int(pid))
    return found


def is_of(pid, who, lab):
    """Root's helpers have ids of their own; the only other user has one."""
    uid = os.stat(f"/proc/{pid}").st_uid
    others = [other.uid for other in lab.users if other is not who]
    return uid == who.uid or (who.uid == 0 and uid not in others)


class Mode:
    """One of the four; strike() is one strike."""
    traffic = 1

    def __init__(self, lab, load, rng):
        self.lab, self.load, self.rng = lab, load, rng
        self.libexec = str(lab.bin / "libexec")
        self.killed = collections.Counter()

    def kill_one(self, *names):
        found = helpers(self.lab, self.load.who, [f"{self.libexec}/cloister-{name}" for name in names])
        if found:
            victim = self.rng.choice(found)
            with contextlib.suppress(OSError):
                name = os.path.basename(os.readlink(f"/proc/{victim}/exe"))
                if strike(victim, signal.SIGKILL):
                    self.killed[name] += 1
                    return True
        return False

    def kill_serve(self):
        self.load.service.kill()
        self.killed["cloister-serve"] += 1
        self.load.service.start()

    def pause(self, mean):
        time.sleep(min(self.rng.expovariate(1 / mean), 10 * mean))

    def end(self):
        pass


class Serve(Mode):
    def strike(self):
        # Some while it is only just beginning.
        if self.rng.random() < 0.8:
            self.load.service.await_up()
        self.pause(0.15)
        self.kill_serve()
        if self.rng.random() < 0.2:
            self.kill_one("dispatch")
        return True


class Supervisor(Mode):
    def strike(self):
        self.pause(0.1)
        return self.kill_one("supervisor")


class Courier(Mode):
    traffic = 3

    def strike(self):
        self.pause(0.1)
        return self.kill_one(self.rng.choices(["courier", "gate", "inspect"], [8, 1, 1])[0])


class Disk(Mode):
    """Its folders are on a file system of their own, which is filled again and again."""

    def __init__(self, lab, load, rng):
        super().__init__(lab, load, rng)
        self.balloon = load.who.top / "disk/balloon"

    def fill(self):
        """To the last block, whoever else writes meanwhile."""
        fd = os.open(self.balloon, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            at, step = os.fstat(fd).st_size, 64 << 20
            while step >= 4096:
                try:
                    os.posix_fallocate(fd, at, step)
                    at += step
                except OSError as e:
                    if e.errno != errno.ENOSPC:
                        raise
                    step //= 2
        finally:
            os.close(fd)

    def strike(self):
        self.fill()
        end = time.monotonic() + min(self.rng.expovariate(1 / 0.3), 3)
        while time.monotonic() < end:
            self.pause(0.05)
            what = self.rng.random()
            if what < 0.1:
                self.kill_serve()
            elif what < 0.15:
                self.kill_one("supervisor")
            elif what < 0.2:
                self.kill_one("courier")
            self.fill()
        os.unlink(self.balloon)
        self.killed["disk"] += 1
        if self.load.service.process.poll() is not None:
            self.load.service.start()   # it could not begin without room
        self.pause(0.2)
        return True

    def end(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.balloon)


MODES = {"serve": Serve, "supervisor": Supervisor, "courier": Courier, "disk": Disk}


def mount_disk(who):
    """A small ext4 for WHO's folders; in memory if there is no loop device."""
    place, image = who.top / "disk", who.top / "disk.image"
    place.mkdir()
    with open(image, "wb") as f:
        f.truncate(DISK)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", image]).returncode == 0
    if not made or subprocess.run(["mount", "-o", "loop", image, place], stderr=subprocess.DEVNULL).returncode:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "none", place], check=True)
    os.chown(place, who.uid, who.gid)
    place.chmod(0o700)
    who.state = place / "state"
    who.state.mkdir(mode=0o700)
    os.chown(who.state, who.uid, who.gid)
    who.data = place / "data"
    who.env["CLOISTER_STATE_DIR"], who.env["CLOISTER_DATA_DIR"] = str(who.state), str(who.data)


def unmount_disk(who):
    subprocess.run(["umount", "-l", who.top / "disk"], check=False)


def in_own_mounts():
    """Run again in a private mount namespace: the mounts end with us."""
    if SAVED not in os.environ:
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv],
                   {**os.environ, SAVED: "1"})


def batches(rounds, size):
    while rounds > 0:
        yield min(size, rounds)
        rounds -= size


def run_batch(mode, judge, load, strikes, turn):
    load.service.start()
    load.start(turn)
    end, struck = time.monotonic() + 60 + 5 * strikes, 0
    try:
        while struck < strikes and time.monotonic() < end:
            struck += mode.strike()
    finally:
        mode.end()
        load.stop()
    if load.service.process.poll() is not None:
        load.service.start()
    judge.all()
    return struck


class Run:
    def __init__(self, name, args):
        self.name, self.args = name, args
        self.token = f"crash-{os.getpid()}-{args.seed}"
        self.struck = 0

    def prepare(self, lab, who):
        who.env["CRASH"] = self.token
        who.data = who.top / "data"
        if self.name == "disk":
            mount_disk(who)

    def one_user(self, lab, who, outside, rounds):
        rng = random.Random(f"{self.args.seed} {self.name} {who.name}")
        kind = MODES[self.name]
        load = Load(who, lab.cloister, outside, f"{self.args.seed} {self.name} {who.name}", kind.traffic)
        load.begin()
        judge = Judge(load, remains.Before(lab, self.token, rounds, True))
        load.service.stop()
        mode = kind(lab, load, rng)
        judge.seen = len(outside.noted)
        for turn, strikes in enumerate(batches(rounds, self.args.batch)):
            self.struck += run_batch(mode, judge, load, strikes, turn)
            print(f"  {self.name} {who.name}: {dict(mode.killed)}, judged {dict(judge.judged)}, "
                  f"{len(load.complaints)} complaints", flush=True)
            for line in load.complaints[:SHOWN_MAX] if turn == 0 else load.complaints[-3:]:
                print(f"    {line}", flush=True)
            if len(load.complaints) > SHOWN_MAX:
                break
        return mode.killed, judge.judged, load.complaints

    def all(self):
        killed, judged, complaints = collections.Counter(), collections.Counter(), []
        outside = Outside()
        with Lab("cloister-crash-") as lab:
            try:
                for i, who in enumerate(lab.users):
                    self.prepare(lab, who)
                    share = (self.args.rounds + i) // len(lab.users)
                    more = self.one_user(lab, who, outside, share) if share else ({}, {}, [])
                    killed.update(more[0])
                    judged.update(more[1])
                    complaints += more[2]
            finally:
                for pid in remains.our_processes(str(lab.top), self.token):
                    strike(pid, signal.SIGKILL)
                if self.name == "disk":
                    for who in lab.users:
                        unmount_disk(who)
        outside.close()
        print(f"{self.name}: {self.struck} strikes, seed {self.args.seed}: killed {dict(killed)}; judged "
              f"{dict(judged)}; {len(complaints)} complaints")
        for line in complaints[:SHOWN_MAX]:
            print(f"  {line}")
        return 1 if complaints or self.struck < self.args.rounds else 0
