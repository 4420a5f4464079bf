"""`make install` and `make uninstall`: what one puts there the other takes away, and nothing else."""
import os
import re
import secrets
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CLOISTER_BUILD", TREE / "build")).resolve()
SECONDS = 300

# The data folder's parts, and what else a person may have beside what is installed.
DATA = ["vault/key", "audit/operator.key", "audit/operator.jsonl", "registry/registry.db", "dispatches/abc/output",
        "serve/token", "budgets/day"]
# The static files of earlier versions, beneath share/cloister.
FORMER = ["policy.schema.json", "apparmor/cloister", *(f"systemd/{d}/{u}" for d in ("system", "user") for u in
                                                     ("cloister.service", "cloister.socket", "cloister-agents.socket"))]


def tree(folder):
    """Every file and folder in it: {relative path: contents or None}."""
    return {str(p.relative_to(folder)): None if p.is_dir() else p.read_bytes() for p in folder.rglob("*")}


def plant(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(secrets.token_hex())


def make(home, goal, *settings):
    # What is built is what is tested: `-o` keeps make from building it anew.
    done = subprocess.run(["make", "-C", TREE, "-s", "-o", "all", goal, f"B={BUILD}", *settings], text=True,
                          env={**os.environ, "HOME": str(home), "MAKEFLAGS": ""}, capture_output=True, timeout=SECONDS,
                          check=False)
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture
def home(tmp_path):
    """The home folder of a person who has data of cloister, and programs of their own."""
    plant(tmp_path / ".local/share/cloister", DATA)
    plant(tmp_path / ".local", ["bin/mine", "libexec/cloister/mine", "share/doc/cloister/notes", "share/man/man1/mine.1",
                                "share/man/man5/mine.5", "share/man/man8/mine.8", "share/zsh/site-functions/_mine",
                                "share/bash-completion/completions/mine", "share/fish/vendor_completions.d/mine.fish"])
    return tmp_path


@pytest.mark.parametrize("prefix", ["{home}/.local", "~/.local"])
def test_the_home_folder(home, prefix):
    before = tree(home)
    prefix = f"PREFIX={prefix.format(home=home)}"
    make(home, "install", prefix)
    there = tree(home)
    assert ".local/bin/cloister" in there and ".local/libexec/cloister/cloister-supervisor" in there
    # Nothing of the installation is where the data is.
    assert {p for p in there if p.startswith(".local/share/cloister")} == {p for p in before if
                                                                          p.startswith(".local/share/cloister")}
    said = make(home, "uninstall", prefix)
    assert "Your data stays" in said and "the PREFIX" not in said
    assert tree(home) == before


def test_uninstall_twice(home):
    before = tree(home)
    assert "the PREFIX" in make(home, "uninstall", f"PREFIX={home}/.local")
    assert tree(home) == before


def test_files_of_earlier_versions_beside_the_data(home):
    before = tree(home)
    for goal in ("install", "uninstall"):
        plant(home / ".local/share/cloister", FORMER)
        make(home, goal, f"PREFIX={home}/.local")
        assert {p for p in tree(home) if "share/cloister" in p} == {p for p in before if "share/cloister" in p}


def test_an_empty_machine(tmp_path):
    """A package: all of it beneath DESTDIR, readable for everybody, and gone again."""
    (tmp_path / "root").mkdir()
    make(tmp_path, "install", f"DESTDIR={tmp_path}/root", "PREFIX=/usr")
    there = tree(tmp_path / "root")
    assert {p.split("/")[0] for p in there} == {"usr"}
    for path in (tmp_path / "root").rglob("*"):
        mode = path.stat().st_mode & 0o777
        runs = path.is_dir() or path.parent.name == "bin" or path.parent.parent.name == "libexec"
        assert mode == (0o755 if runs else 0o644), path
    make(tmp_path, "uninstall", f"DESTDIR={tmp_path}/root", "PREFIX=/usr")
    assert [p for p, data in tree(tmp_path / "root").items() if data is not None] == []
    assert [p for p in tree(tmp_path / "root") if "cloister" in p] == []


def test_a_kernel_that_was_built(tmp_path):
    """It is installed if it is there, instead of one of another version."""
    built, place = tmp_path / "built", tmp_path / "usr/libexec/cloister/vm"
    plant(built, ["vmlinuz-1-cloister", "modules.builtin", "config-1-cloister", "key"])
    settings = f"PREFIX={tmp_path}/usr", f"VM_KERNEL={built}"
    make(tmp_path, "install", *settings)
    assert tree(place) == {n: (built / n).read_bytes() for n in ("vmlinuz-1-cloister", "modules.builtin")}
    assert {p.stat().st_mode & 0o777 for p in place.iterdir()} == {0o644}
    (built / "vmlinuz-1-cloister").rename(built / "vmlinuz-2-cloister")
    make(tmp_path, "install", *settings)
    assert set(tree(place)) == {"vmlinuz-2-cloister", "modules.builtin"}
    # A build folder without a kernel leaves the installed one alone.
    make(tmp_path, "install", settings[0], f"VM_KERNEL={tmp_path}/none")
    assert set(tree(place)) == {"vmlinuz-2-cloister", "modules.builtin"}
    plant(place, ["mine"])
    make(tmp_path, "uninstall", settings[0], f"VM_KERNEL={tmp_path}/none")
    assert set(tree(place)) == {"mine"}


def test_the_documents_know_where(tmp_path):
    """Each path beneath share that documents and help name is installed."""
    make(tmp_path, "install", f"PREFIX={tmp_path}")
    texts = [*TREE.glob("docs/*.md"), *TREE.glob("man/*"), TREE / "README.md", TREE / "contrib/apparmor/cloister",
             TREE / "src/cli/doctor.c"]
    named = {m for text in texts for m in re.findall(r"(?<!\.local/)\bshare/(?:doc/)?cloister[\w./-]*\w", text.read_text())}
    assert any("apparmor" in n for n in named) and any("schema" in n for n in named) and any("systemd" in n for n in named)
    assert all((tmp_path / n).exists() for n in named), named
