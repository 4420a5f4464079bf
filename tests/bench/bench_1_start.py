"""Measures the duration of a cold start and end, `run -- true`, against the peers' own."""
import json
import os
import shutil

from bench import Unmeasured, group, in_turn

BWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
         "--tmpfs", "/tmp", "true"]
FIREJAIL = ["firejail", "--quiet", "--noprofile", "--net=none", "--private-tmp", "--private-dev",
            "--caps.drop=all", "--nonewprivs", "--seccomp", "true"]
# OCI runtimes refuse hosts that mix cgroup versions: they get a view without v2.
PLAIN = ["unshare", "-m", "sh", "-c", 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"', "sh"]
MERGED = ("bin", "lib", "lib64", "sbin")


def bundle(folder, tool, command):
    """An OCI bundle that shows the host's /usr, as a cell does."""
    folder.mkdir()
    (folder / "rootfs" / "usr").mkdir(parents=True)
    for name in MERGED:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), folder / "rootfs" / name)
    tool("spec", "--bundle", folder)
    config = json.loads((folder / "config.json").read_text())
    config["process"]["args"] = list(command)
    config["process"]["terminal"] = False
    config["mounts"].append({"destination": "/usr", "type": "bind", "source": "/usr",
                             "options": ["rbind", "ro", "nosuid"]})
    (folder / "config.json").write_text(json.dumps(config))


def oci(lab, name, *options, command=("true",)):
    """The command that runs a bundle once, or None where NAME is not installed."""
    if not shutil.which(name):
        return None
    folder = lab.root.top / name

    def tool(*args):
        done = lab.root.run([name, *args])
        if done.returncode != 0:
            raise Unmeasured(f"{name}: {done.stderr.strip()}")

    bundle(folder, tool, command)
    return [name, *options, "--root", f"{folder}.state", "run", "--bundle", folder, f"cloister-bench-{name}"]


def against(lab, report, who, label, argv, rounds, prefix=()):
    """One peer and us, by ourselves, so that a peer that fails spoils nothing."""
    if not shutil.which(argv[0]):
        report.note(label, f"{argv[0]} is not installed")
        return
    try:
        times = in_turn(lab, who, {"us": [lab.cloister, "run", "-q", "--", "true"], "peer": argv},
                        rounds, prefix=prefix)
    except Unmeasured as e:
        report.note(label, str(e))
        return
    report.row(label, times["us"].median, "ms", times["us"].spread,
               argv[0], times["peer"].median)


@group("start")
def start(lab, report):
    rounds = report.pick(400, 40)
    run = [lab.cloister, "run", "-q"]
    for who in lab.users:
        bar = "ratio <= 1.5" if who is lab.user else None
        folder = who.home / "start"
        folder.mkdir()
        os.chown(folder, who.uid, who.gid)
        times = in_turn(lab, who, {
            "run -- true": [*run, "--", "true"],
            "bwrap": BWRAP,
            "run -w DIR -- true": [*run, "-w", folder, "--", "true"],
        }, rounds)
        peer = times.pop("bwrap").median
        for name, samples in times.items():
            report.row(f"start: {name} ({who.name})", samples.median, "ms", samples.spread,
                       "bwrap", peer, bar if name == "run -- true" else None)
        times = in_turn(lab, who, {"us": [*run, "--", "true"], "peer": BWRAP},
                        rounds // 2, piped=True)
        report.row(f"start: run -- true, through pipes ({who.name})", times["us"].median, "ms",
                   times["us"].spread, "bwrap", times["peer"].median)


@group("start-peers")
def start_peers(lab, report):
    rounds = report.pick(60, 10)
    if not lab.root:
        report.note("start: beside crun, runc, firejail", "needs root")
        return
    for name in ("crun", "runc"):
        argv = oci(lab, name)
        if argv:
            against(lab, report, lab.root, f"start: beside {name} (root)", argv, rounds, PLAIN)
        else:
            report.note(f"start: beside {name} (root)", f"{name} is not installed")
    against(lab, report, lab.root, "start: beside firejail (root)", FIREJAIL, rounds)


STEPS = '"$0" --root "$1" create --bundle "$2" box >/dev/null && "$0" --root "$1" start box && ' \
        '"$0" --root "$1" delete --force box'


@group("start-oci")
def start_oci(lab, report):
    """A container of busybox as an engine starts it, step by step: with cloister-oci, and with crun."""
    label, busybox = "start: cloister-oci, create to delete (root)", shutil.which("busybox")
    if not lab.root or not busybox or not shutil.which("crun"):
        report.note(label, "needs root, busybox and crun")
        return
    folder = lab.root.top / "box"
    (folder / "rootfs/bin").mkdir(parents=True)
    shutil.copy2(busybox, folder / "rootfs/bin/true")
    lab.root.run(["crun", "spec", "--bundle", folder])
    config = json.loads((folder / "config.json").read_text())
    config["process"] |= {"args": ["/bin/true"], "terminal": False}
    (folder / "config.json").write_text(json.dumps(config))
    ours = lab.cloister.parent / "libexec" / "cloister-oci"
    times = in_turn(lab, lab.root, {name: ["sh", "-c", STEPS, str(program), f"{folder}.{name}", str(folder)]
                                    for name, program in (("us", ours), ("crun", "crun"))},
                    report.pick(100, 15), prefix=PLAIN)
    report.row(label, times["us"].median, "ms", times["us"].spread, "crun", times["crun"].median, "ratio <= 1.2")
