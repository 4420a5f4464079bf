"""The list of packages that a build needs (tools/packages) is whole: nothing else is in the root of this build."""
import os

import pytest

from packing import ARCH, TREE, clean_root, run, systems

RELEASES = ("debian12", "debian13", "ubuntu24.04")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes such roots")
@pytest.mark.parametrize("release", RELEASES)
def test_listed_packages_suffice(release, tmp_path):
    system = systems.SYSTEMS[f"{release}-{ARCH}"]
    try:
        system.check_reachable()
    except systems.Unreachable as e:
        pytest.skip(str(e))
    root = tmp_path / "root"
    listed = systems.listed_packages(systems.PACKAGES.read_text(), ("build",), system)
    clean_root(system, root, [name for name, _ in listed])
    (root / "tree").mkdir()
    run("sh", "-c", 'git ls-files -z | tar --null -T - -c | tar -x -C "$1"', "sh", root / "tree", cwd=TREE)
    run("chroot", root, "make", "-C", "/tree", f"-j{os.cpu_count()}", "all", "tests")
    assert run("chroot", root, "/tree/build/cloister", "version").startswith("cloister ")
    # And `make deps` finds nothing missing.
    assert run("chroot", root, "/tree/tools/deps.sh", "build") == ""
