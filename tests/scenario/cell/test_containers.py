"""In containers of Podman: doctor says what `run` then does, and which flags help; they do."""
import os
import shutil
from pathlib import Path

import pytest

from operators import CLOISTER, IS_ROOT, IS_STATIC, end

pytestmark = [pytest.mark.skipif(shutil.which("podman") is None or shutil.which("crun") is None,
                                 reason="no podman (see `make npm`)"),
              pytest.mark.skipif(not IS_ROOT or not IS_STATIC, reason="it takes root, and static programs")]

FLAGS = ["--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL"]
CONF = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
# crun refuses machines that have both versions of cgroups: it must not see the second.
ENTER = ["unshare", "--mount", "sh", "-ec",
         'umount /sys/fs/cgroup/unified 2>/dev/null || true; exec "$@"', "sh"]
SCRIPT = "/cl/cloister doctor; echo doctor $?; /cl/cloister run -q -- echo ran; echo run $?"


@pytest.fixture
def podman(operator):
    """Runs a shell script in a container that is made of this machine's programs."""
    root = operator.folder("container")
    for name in ("usr", "proc", "sys", "dev", "tmp", "run", "etc", "root", "var", "cl"):
        operator.folder(f"container/{name}")
    for name in ("bin", "sbin", "lib", "lib64"):
        if os.path.islink(f"/{name}"):
            (root / name).symlink_to(os.readlink(f"/{name}"))
    operator.file("container/etc/passwd", "root:x:0:0::/root:/bin/sh\n")
    conf = operator.file("containers.conf", CONF)
    built = Path(operator.program).parent
    storage, runtime = operator.folder("podman"), operator.folder("podman-run")
    runtime.chmod(0o700)
    become = ["setpriv", f"--reuid={operator.uid}", f"--regid={operator.gid}", "--clear-groups"]

    def run(*flags):
        operator_uid, operator.uid = operator.uid, 0         # only root can hide a mount, and then becomes them
        operator_gid, operator.gid = operator.gid, 0
        try:
            return operator.do(
                *ENTER, *become, "podman", "--root", storage, "--runroot", runtime, "--runtime",
                "crun", "run", "--rm", "--network", "none", "--cgroups", "disabled", *flags, "-v", "/usr:/usr:ro",
                "-v", f"{built}:/cl:ro", "--rootfs", root, "sh", "-c", SCRIPT, cwd=operator.base,
                env={"CONTAINERS_CONF": str(conf), "XDG_RUNTIME_DIR": str(runtime)})
        finally:
            operator.uid, operator.gid = operator_uid, operator_gid
    yield run
    # What holds a user's namespaces open from container to container.
    for pid in [*operator.base.rglob("pause.pid"), *Path("/tmp").glob(f"podman-run-{operator.uid}/**/pause.pid")]:
        end(int(pid.read_text()))


def needs_podman(done):
    if "\nrun " not in done.out:
        pytest.skip(f"podman starts no container here: {done.err.strip()[-300:]}")


@pytest.mark.skipif(CLOISTER.name != "cloister", reason="it is another program")
def test_doctor_knows(podman):
    done = podman()
    needs_podman(done)
    assert "\nrun 125\n" in done.out and "\ndoctor 1\n" in done.out, done
    assert "Cells cannot run here" in done.out and " ".join(FLAGS) in done.out, done
    done = podman(*FLAGS)
    assert "Cells can run here.\ndoctor 0\nran\nrun 0\n" in done.out, done
