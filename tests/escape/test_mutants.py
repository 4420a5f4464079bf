"""Each control, switched off in the mutant build, lets a probe through.

Layers hide one another: where a second control holds by itself, the case names it
(`under`).  Such a case shows three things: the second control off, the first still
holds; both off, the probe gets through; the first off, the second holds.  Some cannot be
switched off alone: the case names what has to go too (`besides`), which by itself opens
nothing."""
import dataclasses
import subprocess

import pytest

from lab import box, catalogue, tools, verdict, world  # noqa: F401


@dataclasses.dataclass(frozen=True)
class Case:
    control: str
    probe: str
    who: tuple = ("root", "user")
    under: str = ""             # other controls that would hold the probe by themselves
    besides: str = ""           # other controls without which nothing could be seen of it
    options: tuple = ()


ROOT = ("root",)
USER = ("user",)
CASES = [
    # Who it is.
    Case("userns-range", "socket-identity", ROOT, options=("--root",)),
    Case("groups", "groups-kept", ROOT),
    Case("caps", "wall-capabilities"),
    Case("nnp", "wall-privileges"),
    # Without these three, a setuid program of the host's is one inside as well.
    Case("nosuid", "setuid-system", ROOT, under="nnp,userns-range"),
    Case("nnp", "setuid-system", ROOT, under="nosuid,userns-range"),
    Case("userns-range", "setuid-system", ROOT, under="nosuid,nnp"),
    # What it sees and may change.
    Case("mount-ro", "readonly-chmod"),
    Case("landlock", "readonly-write", under="mount-ro"),
    Case("nodev", "device-granted"),
    Case("proc-mask", "proc-disks"),
    Case("boot-id", "boot-id"),
    Case("sys-empty", "sys-devices"),
    Case("workspace-overlay", "overlay-write"),
    Case("pidns", "signal-all", USER, under="landlock"),
    Case("netns", "loopback-tcp"),
    Case("ipcns", "shm"),
    Case("utsns", "host-name"),
    Case("cgroupns", "cgroup-name"),
    # What it was left with.
    Case("fds", "inherited-folder", under="landlock"),
    Case("env", "environment"),
    Case("stdio", "stdin-socket"),
    Case("stdio", "stdout-file"),
    Case("stdio", "stdin-write", USER, under="landlock"),
    Case("keyring", "key-session", under="seccomp-keyring"),
    # Its own pid 1, and its end.
    Case("dumpable", "init-maps"),
    Case("pdeath", "supervisor-killed-stuck"),
    # What it may ask of the kernel.
    Case("seccomp", "call-settimeofday"),
    Case("seccomp-clone", "call-setns"),
    Case("max-userns", "unshare-user", under="seccomp-clone"),
    Case("seccomp-socket", "socket-vsock"),
    Case("seccomp-ioctl", "ioctl-tioclinux"),
    Case("seccomp-arch", "foreign-program"),
    Case("seccomp-keyring", "call-keyctl"),
    Case("seccomp-iouring", "call-io-uring-setup"),
    Case("seccomp-bpf", "call-bpf"),
    Case("seccomp-perf", "call-perf"),
    Case("seccomp-uffd", "call-userfaultfd"),
    Case("seccomp-mount", "call-open-tree"),
    Case("seccomp-notify", "call-notify"),
    Case("seccomp-handle", "call-handle-open"),
    Case("seccomp-pidfd", "call-pidfd-getfd"),
    Case("seccomp-personality", "personality"),
    Case("seccomp-prctl", "call-prctl-mm"),
    Case("seccomp-mknod", "device-whiteout", under="landlock"),
    Case("seccomp-fanotify", "call-fanotify"),
    Case("seccomp-core", "core-limit"),
    Case("core", "core-limit"),
    Case("seccomp-setid", "setuid-planted"),
    Case("seccomp-aio", "exhaust-aio"),
    Case("seccomp-lease", "readonly-lease"),
    # How much.
    Case("limit-memory", "limit-memory-heap", ROOT),
    Case("limit-pids", "limit-pids", ROOT),
    Case("limit-disk", "limit-disk"),
    Case("limit-disk", "limit-inodes"),
    Case("limit-user", "exhaust-inotify", USER),
    Case("limit-user", "exhaust-signals", USER),
    # Where to, and what: whoever the operator is, the same process decides on it.
    Case("policy", "dns-proxy", USER),
    Case("policy", "proxy-connect", USER),
    Case("names", "fronting-pinned", USER),
    Case("names", "fronting-host", USER, under="policy"),
    Case("addresses", "private-names", USER),
    Case("addresses", "private-tcp", USER),
    Case("certificates", "certificate", USER),
    Case("secrets", "secret-body", USER),
    Case("doh", "dns-https", USER),
    Case("caps", "own-address", options=("--root",)),
    # Whom the operator asks about it.
    Case("hook", "hook-denied", USER),
    Case("hook-trust", "hook-program"),
    Case("hook-trust", "hook-socket", USER),
    Case("pidns", "hook-process", USER, under="landlock"),
    # What those who serve it could do.
    Case("helper-ids", "helper-uid", ROOT, besides="helper-namespaces"),
    Case("helper-ids", "taken-signal", ROOT, besides="helper-namespaces,seccomp,landlock"),
    Case("landlock", "taken-signal", USER, under="seccomp"),
    Case("helper-caps", "helper-capabilities"),
    Case("helper-namespaces", "helper-namespaces"),
    Case("helper-namespaces", "taken-open", under="seccomp,landlock"),
    Case("landlock", "taken-open", under="seccomp,helper-namespaces"),
    Case("seccomp", "taken-exec", under="landlock,helper-namespaces"),
    Case("seccomp", "taken-connect", under="landlock,helper-namespaces"),
    Case("landlock", "tools-open", under="seccomp,helper-namespaces"),
    Case("helper-namespaces", "tools-walls"),
    Case("tools-lock", "tools-unlocked", USER),
    Case("tools-scope", "tools-scope", USER),
    Case("programs", "tools-programs", USER),
    Case("seccomp", "tools-exec", under="landlock,helper-namespaces"),
    Case("seccomp", "tools-connect", under="landlock,helper-namespaces"),
]


# Named like controls in the sources, but no walls: they choose between two ways.
NO_WALLS = {"tmpfs-xattr", "helper-map"}
# Of a boundary that no case has: tests/scenario/cell/test_process.py switches it off.
OF_PROCESS = {"porter", "scopes", "sockets"}


def cases():
    for case in CASES:
        for who in world.everybody():
            if who.name in case.who:
                yield pytest.param(case, who, id=f"{who.name}-{case.control}-{case.probe}")


@pytest.fixture(scope="session")
def mutant():
    if tools.BUILD.name in ("asan", "fuzz"):
        pytest.skip("the mutant build is made of the plain one")
    if not (tools.product(True) / "cloister").exists():
        subprocess.run(["make", "-C", tools.ROOT, "mutant"], check=True, stdout=subprocess.DEVNULL)


def kind_for(probe):
    return box.CloisterPolicy if verdict.PROBES[probe].group in ("egress", "helpers") else box.Cloister


def try_without(judge, case, who, off):
    found = judge.judge(verdict.PROBES[case.probe], who, kind_for(case.probe)(*case.options, off=off))
    if found.word in (verdict.NA, verdict.VACUOUS):
        pytest.skip(f"{found.word}: {found.why}")
    return found


@pytest.mark.parametrize("case, who", cases())
def test_it_matters(lab, judge, mutant, case, who):
    if case.control == "landlock" and {"/tmp", "/var/tmp"} & {str(p) for p in lab.base.parents}:
        pytest.skip("Landlock lets everything beneath /tmp and /var/tmp be changed")
    if not case.under and not case.besides:
        found = try_without(judge, case, who, case.control)
        assert found.word == verdict.ESCAPED, f"without {case.control}, {case.probe}: {found.why}"
        return
    for off in (case.under, case.control) if case.under else (case.besides,):
        found = try_without(judge, case, who, off)
        assert found.word == verdict.CONTAINED, f"without {off} alone, {case.probe}: {found.why}"
    off = f"{case.under or case.besides},{case.control}"
    found = try_without(judge, case, who, off)
    assert found.word == verdict.ESCAPED, f"without {off}, {case.probe}: {found.why}"


def test_every_control_has_a_case():
    """A control that the sources name and no case switches off proves nothing."""
    grep = subprocess.run(["grep", "-rhoE", r'CONTROL_ON\("[a-z-]+"\)|"seccomp-[a-z]+"', tools.ROOT / "src"],
                          capture_output=True, text=True, check=True).stdout
    named = {line.split('"')[1] for line in grep.splitlines()}
    assert named - NO_WALLS - OF_PROCESS - {case.control for case in CASES} == set()


@pytest.mark.parametrize("who", world.everybody(), ids=lambda w: w.name)
@pytest.mark.parametrize("probe", ["call-settimeofday", "readonly-chmod", "environment", "wall-net", "proxy-connect",
                                   "helper-filter"])
def test_the_real_build_has_no_such_switch(judge, who, probe):
    off = ",".join(sorted({case.control for case in CASES}))

    class Deaf(kind_for(probe)):
        def environment(self, world):
            return {"CLOISTER_OFF": off}

    found = judge.judge(verdict.PROBES[probe], who, Deaf())
    if found.word == verdict.NA:
        pytest.skip(found.why)
    assert found.word == verdict.CONTAINED
