"""Packages: built from the same sources they are the same, and what they install works in a root of its own."""
import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["CLOISTER_BUILD"]).resolve()
SECONDS = 1800
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes such roots")


def run(*argv, **how):
    done = subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
                          check=False, **how)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def sums(folder, pattern):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob(pattern)}


# ---- the archive --------------------------------------------------------------------------

@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tarball")
    key = folder / "key.pem"
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
    out = TREE / BUILD / "test-tarball"
    run("tools/tarball.sh", os.path.relpath(out, TREE), key, cwd=TREE, env={**os.environ, "B": str(BUILD)})
    yield out, key
    shutil.rmtree(out)


def test_archive_is_signed_and_the_same_again(archive, tmp_path):
    out, key = archive
    first = sums(out, "*.tar.gz")
    run("sha256sum", "-c", "SHA256SUMS", cwd=out)
    public = tmp_path / "public.pem"
    run("openssl", "pkey", "-in", key, "-pubout", "-out", public)
    verify = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public, "-in", out / "SHA256SUMS",
              "-sigfile", out / "SHA256SUMS.sig"]
    run(*verify)
    run("tools/tarball.sh", os.path.relpath(out, TREE), key, cwd=TREE, env={**os.environ, "B": str(BUILD)})
    assert sums(out, "*.tar.gz") == first and len(first) == 1


def test_archive_runs_where_it_is_and_is_installed(archive, tmp_path):
    (path,) = archive[0].glob("*.tar.gz")
    with tarfile.open(path) as tar:
        tar.extractall(tmp_path)
    (folder,) = tmp_path.glob("cloister-*")
    env = {**os.environ, "HOME": str(tmp_path), "CLOISTER_DATA_DIR": str(tmp_path / "data"),
           "CLOISTER_STATE_DIR": str(tmp_path / "state"), "CLOISTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    assert run(folder / "bin/cloister", "run", "--", "echo", "from the archive", env=env) == "from the archive\n"
    prefix = tmp_path / "elsewhere"
    run(folder / "install.sh", prefix, env=env)
    assert run(prefix / "bin/cloister", "run", "--", "echo", "installed", env=env) == "installed\n"
    run(folder / "install.sh", "--remove", prefix, env=env)
    assert [p for p in prefix.rglob("*") if p.is_file()] == []


# ---- Debian packages ----------------------------------------------------------------------

@pytest.fixture(scope="module")
def debs():
    """What `make deb` makes; lintian has judged it."""
    out = TREE / BUILD / "test-deb"
    run("tools/deb.sh", os.path.relpath(out, TREE), cwd=TREE)
    yield out
    shutil.rmtree(out)


def test_packages_are_the_same_again(debs):
    first = sums(debs, "*.deb")
    assert {name.split("_")[0] for name in first if "dbgsym" not in name} == {
        "cloister", "cloister-serve", "python3-cloister-client", "node-cloister-client"}
    run("tools/deb.sh", os.path.relpath(debs, TREE), cwd=TREE)
    assert sums(debs, "*.deb") == first


@is_root
def test_packages_install_in_a_clean_root(debs, tmp_path):
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    root = tmp_path / "root"
    packages = [path for path in debs.glob("*.deb") if "dbgsym" not in path.name]
    # The root sees the files of the packages while it is made.
    run("mmdebstrap", "--variant=apt", "--mode=root", "--hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount", *(f"--include={path}" for path in packages),
        "--include=ca-certificates", release["VERSION_CODENAME"].strip('"'), root)
    said = run("chroot", root, "cloister", "help")
    assert said.startswith("cloister runs AI agents")
    assert "usage" in run("chroot", root, "cloister", "help", "serve")
    run("chroot", root, "python3", "-c", "import cloister")
    run("chroot", root, "node", "-e", "import('/usr/share/nodejs/cloister-client/index.js')")
    assert (root / "usr/share/bash-completion/completions/cloister").exists()
