"""Packages: built from the same sources they are the same, and what they install works in a root of its own."""
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from packing import ARCH, BUILD, TREE, check_cell, clean_root, image, pack, run, sums, systems

ROOTS = BUILD / "deb-roots"
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes such roots")


@pytest.fixture(scope="module")
def other_release(tmp_path_factory):
    root = tmp_path_factory.mktemp("other") / "root"
    clean_root(systems.SYSTEMS[f"debian13-{ARCH}"], root, [])
    return root


@pytest.fixture
def other_root(other_release, tmp_path):
    """A root of another release than this machine's, without any library that cloister needs."""
    run("cp", "-a", other_release, tmp_path)
    return tmp_path / "root"


# ---- the archive --------------------------------------------------------------------------

def test_archive_is_the_same_again(archive, tmp_path):
    """Built elsewhere, as somebody with other habits."""
    again = pack(tmp_path / "another" / "folder", archive[2], mask="077")
    assert sums(again, "*") == sums(archive[0], "*")
    assert len(sums(again, "*.tar.gz")) == 1


def environment(folder):
    return {**os.environ, "HOME": str(folder), "CLOISTER_DATA_DIR": str(folder / "data"),
            "CLOISTER_STATE_DIR": str(folder / "state"), "CLOISTER_RUNTIME_DIR": str(folder / "runtime")}


def test_archive_runs_where_it_is_and_is_installed(archive, tmp_path):
    (path,) = archive[0].glob("*.tar.gz")
    with tarfile.open(path) as tar:
        tar.extractall(tmp_path)
    (folder,) = tmp_path.glob("cloister-*")
    env = environment(tmp_path)
    assert run(folder / "bin/cloister", "run", "--", "echo", "from the archive", env=env) == "from the archive\n"
    prefix = tmp_path / "elsewhere"
    run(folder / "install.sh", prefix, env=env)
    assert run(prefix / "bin/cloister", "run", "--", "echo", "installed", env=env) == "installed\n"
    run(folder / "install.sh", "--remove", prefix, env=env)
    assert [p for p in prefix.rglob("*") if p.is_file()] == []
    with open(folder / "share/man/man1/cloister.1", "a", encoding="utf-8") as page:
        page.write(" ")
    refused = subprocess.run([folder / "install.sh", prefix], env=env, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "share/man/man1/cloister.1: FAILED" in refused.stderr
    assert [p for p in prefix.rglob("*") if p.is_file()] == []


def test_install_script_verifies_the_signature(archive, tmp_path):
    out, public, _ = archive
    there = tmp_path / "release"
    shutil.copytree(out, there)

    def install(*words):
        done = subprocess.run([there / "install.sh", *words, tmp_path / "prefix"], env=environment(tmp_path),
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert install("--key", public) == (0, "")
    assert (tmp_path / "prefix/bin/cloister").exists()
    shutil.rmtree(tmp_path / "prefix")
    stranger = tmp_path / "stranger.pem"
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", tmp_path / "key.pem")
    run("openssl", "pkey", "-in", tmp_path / "key.pem", "-pubout", "-out", stranger)
    assert "is not the signature" in install("--key", stranger)[1]
    (path,) = there.glob("*.tar.gz")
    path.write_bytes(path.read_bytes() + b"\0")
    assert "does not have the hash" in install("--key", public)[1]
    (there / "SHA256SUMS.sig").unlink()
    assert "nobody has signed this" in install("--key", public)[1]
    assert not (tmp_path / "prefix").exists()


@is_root
def test_archive_works_in_a_clean_root(archive, other_root):
    root = other_root
    shutil.copytree(archive[0], root / "release")
    said = run("chroot", root, "/release/install.sh")
    assert "libcurl.so.4" in said and "cloister is installed in /usr/local" in said
    check_cell(root, "/usr/local/bin/cloister")
    for name in ("gate", "courier", "inspect", "serve", "registry"):
        done = subprocess.run(["chroot", root, f"/usr/local/libexec/cloister/cloister-{name}"], capture_output=True,
                              text=True, check=False)
        assert "error while loading" not in done.stderr and done.returncode in (0, 1, 2, 125), (name, done)


# ---- Debian packages ----------------------------------------------------------------------

OURS = {"cloister", "cloister-serve", "python3-cloister-client", "node-cloister-client"}


@pytest.fixture(scope="session")
def debs(tmp_path_factory):
    """What `make deb` makes; lintian has judged it."""
    out = tmp_path_factory.mktemp("deb")
    run("tools/deb.sh", out, cwd=TREE)
    return out


def test_packages_are_the_same_again(debs, tmp_path):
    first = sums(debs, "*.deb")
    assert {name.split("_")[0] for name in first if "dbgsym" not in name} == OURS
    run("sh", "-c", 'umask 077; exec tools/deb.sh "$1"', "sh", tmp_path / "elsewhere", cwd=TREE)
    assert sums(tmp_path / "elsewhere", "*.deb") == first
    assert sums(tmp_path / "elsewhere", "*.cdx.json") == sums(debs, "*.cdx.json") != {}


@is_root
def test_packages_install_in_a_clean_root(debs, tmp_path):
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    suite = release["VERSION_CODENAME"].strip('"')
    system = next(s for s in systems.SYSTEMS.values() if (s.suite, s.arch) == (suite, ARCH))
    root = tmp_path / "root"
    clean_root(system, root, [path for path in debs.glob("*.deb") if "dbgsym" not in path.name])
    check_cell(root)
    assert "usage" in run("chroot", root, "cloister", "help", "serve")
    run("chroot", root, "python3", "-c", "import cloister")
    run("chroot", root, "node", "-e", "import('/usr/share/nodejs/cloister-client/index.js')")
    assert (root / "usr/share/bash-completion/completions/cloister").exists()


@is_root
@pytest.mark.parametrize("name", [name for name in systems.SYSTEMS])
def test_packages_of_other_systems(name, tmp_path):
    """Built in a root of that system, for another architecture with its cross compiler, and installed in a clean one."""
    system = systems.SYSTEMS[name]
    try:
        system.check_reachable()
    except systems.Unreachable as e:
        pytest.skip(str(e))
    if not system.machine.is_native:
        image.register_emulator(system.machine)
    made = run("/usr/bin/python3", "tools/deb_root.py", ROOTS, name, cwd=TREE)
    run("tools/deb.sh", tmp_path / "out", made.splitlines()[-1], system.arch, cwd=TREE)
    packages = [path for kind in ("cloister_*", "cloister-serve_*") for path in (tmp_path / "out").glob(f"{kind}.deb")]
    assert [path.name.split("_")[2] for path in packages] == [f"{system.arch}.deb"] * 2
    root = tmp_path / "root"
    clean_root(system, root, packages)
    # qemu-user does not know the system calls of a cell.
    if system.machine.is_native:
        check_cell(root)
    assert run("chroot", root, "cloister", "help").startswith("cloister runs AI agents")
    assert "usage" in run("chroot", root, "cloister", "help", "serve")
    for name in ("gate", "witness"):
        helper = run("file", "-bL", root / f"usr/libexec/cloister/cloister-{name}")
        assert {"amd64": "x86-64", "arm64": "ARM aarch64"}[system.arch] in helper


# ---- RPM packages -------------------------------------------------------------------------

@pytest.fixture(scope="session")
def rpms(archive, tmp_path_factory):
    """What `make rpm` makes; rpmlint has judged it."""
    out = tmp_path_factory.mktemp("rpm")
    run("tools/rpm.sh", out, archive[0], cwd=TREE)
    return out


def test_rpms_are_the_same_again(archive, rpms, tmp_path):
    run("sh", "-c", 'umask 077; exec tools/rpm.sh "$@"', "sh", tmp_path / "elsewhere", archive[0], cwd=TREE)
    assert sums(tmp_path / "elsewhere", "*") == sums(rpms, "*")
    assert [path.name.rsplit("-", 2)[0] for path in sorted(rpms.iterdir())] == ["cloister", "cloister-serve"]


@is_root
def test_rpms_install_in_a_clean_root(rpms, other_root):
    """Their files and scriptlets; the root's database of RPM packages is empty."""
    root = other_root
    packages = sorted(rpms.glob("*.rpm"))
    needed = run("rpm", "-qpR", *packages)
    assert "libcurl.so.4()(64bit)" in needed and "CURL_OPENSSL" not in needed
    # A systemctl that records its words shows what the scriptlets do.
    (root / "run/systemd/system").mkdir(parents=True)
    (root / "usr/bin/systemctl").write_text('#!/bin/sh\necho "$@" >>/log\n')
    (root / "usr/bin/systemctl").chmod(0o755)
    rpm = ["rpm", "--root", root, "--nodeps"]
    run(*rpm, "-i", *packages)
    run(*rpm, "-V", "cloister", "cloister-serve")
    check_cell(root)
    unit = (root / "usr/lib/systemd/system/cloister.service").read_text()
    assert "ExecStart=/usr/bin/cloister serve" in unit
    assert (root / "usr/share/man/man1/cloister.1.gz").exists()
    run(*rpm, "-e", "cloister-serve", "cloister")
    assert (root / "log").read_text().splitlines() == [
        "daemon-reload", "--no-reload disable --now cloister.service cloister.socket cloister-agents.socket",
        "daemon-reload"]
    assert not (root / "usr/libexec/cloister").exists() and not (root / "usr/lib/systemd/system/cloister.service").exists()
