"""OCI bundles whose root file system is a static busybox, and containers of cloister-oci made of them."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from operators import wait_until

BUSYBOX = Path("/usr/bin/busybox") if Path("/usr/bin/busybox").exists() else Path("/bin/busybox")
APPLETS = ("sh", "true", "cat", "ls", "id", "sleep", "wget", "env", "touch", "mkdir", "tty", "stat", "echo", "dd", "kill",
           "pwd", "hostname", "readlink", "stty", "nslookup", "chmod", "ln")

needs_busybox = pytest.mark.skipif(not BUSYBOX.exists() or b"GLIBC_" in BUSYBOX.read_bytes()[:4096],
                                   reason="no static busybox")


def runtime_of(operator):
    return Path(operator.program).parent / "libexec" / "cloister-oci"


def root_folder(operator, name="bundle/rootfs"):
    """A root file system of the operator's."""
    root = operator.folder(name)
    for folder in ("bin", "etc", "tmp", "root"):
        operator.folder(f"{name}/{folder}")
    (root / "tmp").chmod(0o1777)
    shutil.copy2(BUSYBOX, operator.file(f"{name}/bin/busybox"))
    (root / "bin/busybox").chmod(0o755)
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
        operator.own(root / "bin" / applet)
    operator.file(f"{name}/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    return root


class Bundle:
    def __init__(self, operator):
        self.operator, self.runtime = operator, runtime_of(operator)
        self.root = root_folder(operator)
        self.folder = self.root.parent
        self.states = operator.home / "oci"
        self.options = ["--root", str(self.states)]
        self.config = {
            "ociVersion": "1.0.2", "root": {"path": "rootfs"}, "hostname": "box",
            "process": {"args": ["/bin/true"], "env": ["PATH=/bin"], "cwd": "/", "user": {"uid": 0, "gid": 0}},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]}}

    def write(self, *argv, **changes):
        """The bundle's config.json; CHANGES replace its parts."""
        if argv:
            self.config["process"]["args"] = list(argv)
        self.operator.file("bundle/config.json", json.dumps({**self.config, **changes}))

    def do(self, *words, **how):
        return self.operator.do(self.runtime, *self.options, *words, **how)

    def refused(self, *words, **how):
        """The sentence with which it refused.  A container that was made all the same would keep a pipe open."""
        with open(self.operator.file("refused.err"), "wb") as err:
            done = self.do(*words, stdout=subprocess.DEVNULL, stderr=err, **how)
        said = (self.operator.base / "refused.err").read_text()
        assert done.status == 1 and said.startswith("cloister: ") and said.count("\n") == 1, (done.status, said)
        return said

    def create(self, id, *options, argv=None, **changes):
        """A container that waits for its start; the pid of its supervisor."""
        self.write(*(argv or ()), **changes)
        with open(self.operator.file(f"{id}.out"), "wb") as out, open(self.operator.file(f"{id}.err"), "wb") as err:
            done = self.do("create", "--bundle", self.folder, "--pid-file", self.operator.base / "home" / f"{id}.pid",
                           *options, id, stdout=out, stderr=err)
        assert done.status == 0, (self.operator.base / f"{id}.err").read_text()
        return int((self.operator.base / "home" / f"{id}.pid").read_text())

    def start(self, id):
        assert self.do("start", id).ok() == ""

    def out(self, id):
        return (self.operator.base / f"{id}.out").read_text()

    def state(self, id):
        return json.loads(self.do("state", id).ok())

    def run(self, *argv, options=(), **changes):
        """A container from its beginning to its end: what `run` says."""
        self.write(*argv, **changes)
        return self.do("run", "--bundle", self.folder, *options, "box")

    def sh(self, script, **changes):
        return self.run("sh", "-c", script, **changes)


def end_of(pid):
    """How an orphan, which is a child of this process now, ended."""
    return wait_until(lambda: [status for done, status in [os.waitpid(pid, os.WNOHANG)] if done], f"the end of {pid}")[0]


@pytest.fixture
def bundle(operator):
    return Bundle(operator)
