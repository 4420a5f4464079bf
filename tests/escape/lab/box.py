"""The boxes: each turns the same request into its own command line."""
import dataclasses
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import textwrap

from . import tools
from .cell import NotApplicable, NotRun
from .internet import POLICY
from .world import World

UNIFIED = "/sys/fs/cgroup/unified"


class Box:
    """Nothing: the positive control."""
    name = "none"
    has = frozenset()           # overlay, apply, exec, detach, publish, helpers: what only some can do

    def missing(self, who):
        """Why it cannot be tried at all here, or None."""

    def environment(self, world):
        return {}

    def around(self, world):
        return []

    def command(self, world, request):
        return request.argv

    def programs(self, world):
        """The files of a private copy of it."""
        return [world.lab.host]

    def excuse(self, cell):
        """Raise NotApplicable if CELL was refused for a reason that is not a failure."""

    def clean(self, world):
        pass

    def flags(self, who):
        """The command line, for people."""
        return ""

    def need(self, what):
        if what not in self.has and self.name != "none":
            raise NotApplicable(f"{self.name} has no {what}")


class Cloister(Box):
    has = frozenset({"overlay", "apply", "exec", "detach", "publish"})

    def __init__(self, *options, name="cloister", off="", mutant=False):
        self.name, self.options, self.off, self.mutant = name, list(options), off, mutant or bool(off)

    def missing(self, who):
        if not (tools.product(self.mutant) / "cloister").exists():
            return "not built"

    def environment(self, world):
        return {"CLOISTER_OFF": self.off} if self.off else {}

    def tool(self, world):
        return str((world.tool or world.lab.product(world.who, self.mutant)) / "cloister")

    def programs(self, world):
        source = tools.product(self.mutant)
        return [source / "cloister", source / "libexec"]

    def words(self, world):
        """Options of each cell."""
        return self.options

    def grants(self, request):
        argv = []
        for path in [request.argv[0], *request.ro]:
            argv += ["-v", f"{path}:{path}:ro"]
        for path in request.rw:
            argv += ["-v", f"{path}:{path}"]
        if request.workspace:
            argv += ["-w", f"{request.workspace}:{request.workspace_mode}"]
        for name, value in request.limits.items():
            argv += [f"--{name}", str(value)]
        return argv

    def command(self, world, request):
        argv = [self.tool(world), "run", "-q", *self.words(world), *self.grants(request)]
        if request.name:
            argv += ["--name", request.name]
        if request.detach:
            argv += ["-d"]
        if request.publish:
            argv += ["--publish", f"{request.publish}:{request.publish}"]
        return [*argv, "--", *request.argv]

    def excuse(self, cell):
        if cell.process.returncode == 125 and any(words in cell.tail() for words in (
                "cannot be enforced", "the boundary 'process' has no")):
            raise NotApplicable(cell.tail().splitlines()[-1])

    def flags(self, who):
        return " ".join(["cloister run -q", *self.options, "-v PROBE:PROBE:ro [-v GRANT:GRANT[:ro]]",
                         "[-w WORKSPACE:overlay] [--LIMIT N] -- PROBE"])


class CloisterPolicy(Cloister):
    """With a policy: gate and courier run beside the cell before the probe begins."""
    has = Cloister.has | {"helpers"}

    def __init__(self, *options, name="cloister -p", **how):
        super().__init__(*options, name=name, **how)

    def words(self, world):
        return [*self.options, "-p", str(world.policy or world.lab.policy)]

    def grants(self, request):
        authority = ["--ca", str(request.internet.ca)] if request.internet else []
        return [*super().grants(request), *authority]

    def command(self, world, request):
        program, nonce, *words = request.argv
        return super().command(world, dataclasses.replace(request, argv=[program, nonce, "+wake", *words]))

    def flags(self, who):
        flags = super().flags(who).replace("-v PROBE", "-p POLICY [--ca CA] -v PROBE", 1)
        return f"{flags}; POLICY:\n{textwrap.indent(POLICY.strip(), ' ' * 8)}"


def processes():
    """Without namespaces: docs/process-boundary.md names the gaps of these."""
    return [Cloister("--boundary", "process", name="process"),
            CloisterPolicy("--boundary", "process", name="process -p")]


class CloisterExec(Cloister):
    """The probe is not what the cell was started for: it comes by `cloister exec`."""
    has = Cloister.has - {"publish"}

    def __init__(self):
        super().__init__(name="cloister exec")

    def environment(self, world):
        place = str(world.lab.shared(world.who))
        return {"CLOISTER_RUNTIME_DIR": place + "/run", "CLOISTER_STATE_DIR": place + "/state"}

    def start(self, world, grants):
        name = "e" + secrets.token_hex(6)
        status, text = world.tool_run("run", "-q", "-d", "--name", name, *grants, "--", "sleep", "1000")
        if status != 0:
            raise NotRun(f"no cell to join: {text.decode()}")
        return name

    def cell(self, world, request):
        """One cell serves all probes that ask for nothing more."""
        joined = world.lab.joined
        if request.ro or request.rw or world.tool:
            name = self.start(world, self.grants(request))
            world.stack.callback(world.forget, name)
            return name
        if world.who not in joined or world.tool_run("exec", joined[world.who], "--", "true")[0] != 0:
            joined[world.who] = self.start(world, self.grants(request))
            world.lab.stack.callback(self.end, world.lab, world.who, joined[world.who])
        return joined[world.who]

    def end(self, lab, who, name):
        with World(who, self, lab) as world:
            world.forget(name)

    def command(self, world, request):
        if request.limits or request.detach or request.workspace or request.name:
            raise NotApplicable("the same as for run")
        terminal = ["-t"] if request.tty else []
        return [self.tool(world), "exec", *terminal, self.cell(world, request), "--", *request.argv]

    def flags(self, who):
        return "cloister run -q -d --name CELL -v PROBE:PROBE:ro -- sleep 60; cloister exec CELL -- PROBE"


class Bubblewrap(Box):
    name = "bwrap"
    fixed = ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
             "--hostname", "box", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
             "--symlink", "usr/lib", "/lib", "--symlink", "usr/sbin", "/sbin", "--proc", "/proc",
             "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--tmpfs", "/home"]

    def missing(self, who):
        if not shutil.which("bwrap"):
            return "not installed"

    def programs(self, world):
        return [pathlib.Path(shutil.which("bwrap"))]

    def command(self, world, request):
        argv = [str(world.tool / "bwrap") if world.tool else "bwrap", *self.fixed]
        if request.internet:
            argv += ["--share-net", "--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]
        workspace = [request.workspace] if request.workspace else []
        for path in [request.argv[0], *request.ro]:
            argv += ["--ro-bind", path, path]
        for path in [*request.rw, *workspace]:
            argv += ["--bind", path, path]
        return [*argv, "--chdir", "/", "--", *request.argv]

    def flags(self, who):
        return " ".join(["bwrap", *self.fixed, "--ro-bind PROBE PROBE [--ro-bind|--bind GRANT GRANT]",
                         "[egress: --share-net --ro-bind /etc/resolv.conf /etc/resolv.conf] --chdir / -- PROBE"])


class Firejail(Box):
    name = "firejail"
    fixed = ["--quiet", "--noprofile", "--private", "--private-dev", "--private-tmp",
             "--private-etc=passwd,group,hosts,resolv.conf", "--caps.drop=all", "--seccomp", "--nonewprivs",
             "--net=none", "--ipc-namespace", "--hostname=box", "--deterministic-shutdown"]

    def missing(self, who):
        if not shutil.which("firejail"):
            return "not installed"

    def programs(self, world):
        raise NotApplicable("not tried: its program is setuid and cannot be copied")

    def around(self, world):
        """It wants its caller in /etc/passwd."""
        if os.geteuid() != 0 or world.who.uid == 0:
            return []
        if not (world.base / "passwd").exists():
            text = pathlib.Path("/etc/passwd").read_text()
            line = f"escape:x:{world.who.uid}:{world.who.gid}::{world.home}:/bin/sh\n"
            (world.base / "passwd").write_text(text + line)
        return ["--bind", f"{world.base}/passwd:/etc/passwd"]

    def command(self, world, request):
        argv = ["firejail", *[w for w in self.fixed if not (request.internet and w == "--net=none")]]
        workspace = [request.workspace] if request.workspace else []
        for path in [request.argv[0], *request.ro]:
            argv += [f"--whitelist={path}", f"--read-only={path}"]
        for path in [*request.rw, *workspace]:
            argv += [f"--whitelist={path}"]
        if "pids" in request.limits:
            argv += [f"--rlimit-nproc={request.limits['pids']}"]
        return [*argv, "--", *request.argv]

    def flags(self, who):
        return " ".join(["firejail", *self.fixed, "--whitelist=PROBE --read-only=PROBE",
                         "[--whitelist=GRANT [--read-only=GRANT]] [--rlimit-nproc=N] -- PROBE",
                         "(egress: without --net=none)"])


class Oci(Box):
    """crun and runc: the configuration that `runc spec` writes, and the grants."""

    def __init__(self, name):
        self.name = name

    def missing(self, who):
        if not shutil.which(self.name, path=tools.PATH):
            return "not installed"
        if not shutil.which("runc", path=tools.PATH):
            return "needs `runc spec` for its configuration"

    def programs(self, world):
        raise NotApplicable("its pid 1 is the program that was asked for")

    def around(self, world):
        """crun refuses hybrid cgroups: it is shown a machine without the second kind."""
        hybrid = self.name == "crun" and os.path.ismount(UNIFIED) and os.geteuid() == 0
        return ["--umount", UNIFIED] if hybrid else []

    def spec(self, world, bundle):
        argv = ["runc", "spec", "--bundle", str(bundle)]
        if world.who.uid != 0:
            argv.append("--rootless")
        subprocess.run(argv, check=True, env={"PATH": tools.PATH}, stdout=subprocess.DEVNULL)
        config = json.loads((bundle / "config.json").read_text())
        if world.who.uid != 0:
            for kind, own in (("uidMappings", world.who.uid), ("gidMappings", world.who.gid)):
                config["linux"][kind] = [{"containerID": 0, "hostID": own, "size": 1}]
        return config

    def command(self, world, request):
        if request.internet:
            raise NotApplicable("leaves networks to others")
        bundle = world.state / ("b" + secrets.token_hex(4))
        (bundle / "rootfs" / "usr").mkdir(parents=True)
        config = self.spec(world, bundle)
        workspace = [request.workspace] if request.workspace else []
        mounts = [("/usr", "ro"), (request.argv[0], "ro"), *[(p, "ro") for p in request.ro],
                  *[(p, "rw") for p in [*request.rw, *workspace]]]
        config["mounts"] += [{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}]
        config["mounts"] += [{"destination": str(p), "type": "none", "source": str(p),
                              "options": ["rbind", mode]} for p, mode in mounts]
        config["process"].update(terminal=request.tty, args=request.argv)
        config["hostname"] = "box"
        if world.who.uid == 0:
            self.limit(config, request.limits)
        (bundle / "config.json").write_text(json.dumps(config))
        for path in [bundle, *bundle.rglob("*")]:
            world.own(path)
        return [self.name, "--root", str(world.runtime / "oci"), "run", "--bundle", str(bundle),
                "c" + secrets.token_hex(6)]

    def limit(self, config, limits):
        resources = config["linux"].setdefault("resources", {})
        if "pids" in limits:
            resources["pids"] = {"limit": int(limits["pids"])}
        if "memory" in limits:
            resources["memory"] = {"limit": int(limits["memory"].rstrip("M")) << 20}
        if "cpus" in limits:
            resources["cpu"] = {"quota": int(float(limits["cpus"]) * 100000), "period": 100000}

    def clean(self, world):
        state = world.runtime / "oci"
        for name in os.listdir(state) if state.is_dir() else []:
            argv = [world.lab.host, "launch", *self.around(world), *world._as(world.who), "--",
                    self.name, "--root", state, "delete", "--force", name]
            subprocess.run([str(a) for a in argv], env=world.environment({}), cwd="/",
                           capture_output=True)

    def flags(self, who):
        rootless = " --rootless" if who.uid != 0 else ""
        note = " (in a mount namespace without the cgroup2 tree)" if self.name == "crun" else ""
        return (f"{self.name} --root DIR run --bundle BUNDLE ID{note}; BUNDLE: what `runc spec{rootless}` "
                "writes (its capabilities and masked paths, no seccomp profile), plus tmpfs /tmp, "
                "rbind,ro /usr and PROBE, and the grants; as root also the limits")


def peers():
    return [Bubblewrap(), Oci("crun"), Oci("runc"), Firejail()]


def cloisters():
    return [Cloister(), CloisterPolicy(), Cloister("--root", name="cloister --root"), CloisterExec()]
