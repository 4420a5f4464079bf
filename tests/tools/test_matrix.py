"""The matrix: it finds mirrors, chooses packages, distrusts /dev/kvm, and fails when a guest does."""
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests" / "matrix"))
import boot         # noqa: E402
import cases        # noqa: E402
import image        # noqa: E402
import product      # noqa: E402
import report       # noqa: E402
import systems      # noqa: E402

RUN = TREE / "tests/matrix/run.py"


# ---- mirrors and packages --------------------------------------------------------------------

@pytest.mark.parametrize("archive, uris, found", [
    ("debian", ["http://m.example/debian/"], "http://m.example/debian"),
    ("debian", ["http://a.example/ubuntu/", "http://b.example/x/debian"], "http://b.example/x/debian"),
    ("ubuntu", ["http://m.example/debian/", "http://n.example/debian-security/"], "http://m.example/ubuntu"),
    ("debian-security", ["https://m.example/debian"], "https://m.example/debian-security"),
    ("debian", ["file:/srv/packages"], None),
    ("debian", [], None),
])
def test_mirror(archive, uris, found):
    assert systems.pick_mirror(archive, uris) == found


def test_mirror_of_the_environment(monkeypatch):
    monkeypatch.setenv("MATRIX_UBUNTU_PORTS", "http://m.example/ports/")
    system = systems.SYSTEMS["ubuntu24.04-arm64"]
    assert {line.split()[1] for line in system.sources()} == {"http://m.example/ports"}
    assert {line.split()[2] for line in system.sources()} == {"noble", "noble-updates", "noble-security"}


LISTS = """
build one            command=one
test  two            optional   # a comment
test  three          arch=amd64
test  four           not=ubuntu
build five           only=debian-13
large six
"""


@pytest.mark.parametrize("name, wanted", [
    ("debian12-amd64", ["one", "two", "three", "four"]),
    ("debian13-arm64", ["one", "two", "four", "five"]),
    ("ubuntu24.04-arm64", ["one", "two"]),
])
def test_packages_of_a_system(name, wanted):
    found = systems.listed_packages(LISTS, ("build", "test"), systems.SYSTEMS[name])
    assert [package for package, _ in found] == wanted
    assert ("two", True) in found and ("one", False) in found


def test_packages_are_known_by_name():
    """Names that no list has any more would go unnoticed."""
    listed = {line.split()[1] for line in systems.PACKAGES.read_text().splitlines()
              if line.strip() and not line.startswith("#")}
    assert systems.EMULATED_TOO <= listed


def test_all_of_it_where_everything_runs():
    system = systems.SYSTEMS["debian12-amd64"]
    needed, optional = systems.guest_packages(system, "kvm")
    small, none = systems.guest_packages(system, "tcg")
    assert "npm" in needed and "postgresql" in optional and set(small) < set(needed + optional)
    assert none == [] and "npm" not in small and {"gcc", "libssl-dev", "python3-pytest"} <= set(small)


def test_keys_that_are_not_known(tmp_path):
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    if shutil.which("gpg") is None or not keyring.exists():
        pytest.skip("no gpg, or no keyring to read")
    with pytest.raises(image.Failure, match="not known"):
        image.check_keys(keyring, systems.UBUNTU.fingerprints)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(image.Failure):
        image.check_keys(tmp_path / "empty", systems.UBUNTU.fingerprints)


# ---- KVM -------------------------------------------------------------------------------------

@pytest.mark.parametrize("qemu, accelerator, reason", [
    ("echo the-guest-runs", "kvm", ""),
    ("exec sleep 1000", "tcg", "did not boot in 1 s"),
    ("echo 'failed to initialize kvm: Permission denied' >&2; exit 1", "tcg", "Permission denied"),
    ("exit 0", "tcg", "did not boot"),
])
def test_kvm_is_used_if_a_guest_runs(tmp_path, monkeypatch, qemu, accelerator, reason):
    """That /dev/kvm can be opened proves nothing."""
    machine = boot.native_machine()
    if machine is None:
        pytest.skip("no machine of this architecture")
    (tmp_path / machine.qemu).write_text(f"#!/bin/sh\n{qemu}\n")
    (tmp_path / machine.qemu).chmod(0o755)
    (tmp_path / "busybox").write_bytes(b"")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(boot, "KVM_SECONDS", 1 if "sleep" in qemu else 60)
    chosen, why = boot.pick_accelerator(machine, tmp_path / "kernel", tmp_path / "busybox", tmp_path)
    assert chosen == accelerator and reason in why, why


def test_no_kvm_for_another_architecture(tmp_path):
    other = next(m for m in boot.MACHINES.values() if not m.is_native)
    assert boot.pick_accelerator(other, None, None, tmp_path)[0] == "tcg"
    assert boot.pick_accelerator(boot.native_machine(), None, None, tmp_path / "none")[0] == "tcg"


# ---- what runs -------------------------------------------------------------------------------

@pytest.mark.parametrize("accelerator", ["kvm", "tcg"])
def test_plan(accelerator):
    steps = {(s["case"], s["place"]) for s in cases.plan(accelerator)["steps"]}
    assert {("run", "root"), ("run", "user"), ("run", "delegated")} <= steps
    assert {("data-loss", "root"), ("data-loss", "user"), ("data-loss", "delegated")} <= steps
    assert (("test", "user") in steps) == (accelerator == "kvm")
    first = [s["case"] for s in cases.plan(accelerator, ["data-loss"])["steps"]]
    assert first == ["build"] * (accelerator == "kvm") + ["data-loss"] * 3


def test_cases_name_files_that_are_there():
    for case in cases.CASES.values():
        for path in re.findall(r"\b(?:tests|tools)/[\w./-]+\.(?:py|sh)", case.command):
            assert (TREE / path).exists(), path


def test_the_tree_goes_without_its_builds():
    names = product.sources()
    assert "Makefile" in names and not any(name.startswith(("build/", ".git/")) for name in names)


def test_lists(tmp_path):
    done = subprocess.run([sys.executable, RUN, "--list"], capture_output=True, text=True)
    assert done.returncode == 0
    for name in [*systems.SYSTEMS, *cases.CASES]:
        assert re.search(rf"^{re.escape(name)} ", done.stdout, re.M), name
    done = subprocess.run([sys.executable, RUN, "debian1"], capture_output=True, text=True)
    assert done.returncode == 2 and "no system 'debian1'" in done.stderr


# ---- results ---------------------------------------------------------------------------------

def disk_with(path, files):
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data.encode()))
    with open(path, "ab") as f:
        f.truncate(1 << 20)


def test_results_of_a_guest(tmp_path):
    disk, folder = tmp_path / "disk", tmp_path / "folder"
    folder.mkdir()
    facts = {"about": {}, "steps": []}
    disk_with(disk, {"./results.json": json.dumps(facts), "../../up.txt": "x", "./run.root.txt": "y",
                     "./program": "z"})
    assert report.read(disk, folder) == facts
    assert sorted(p.name for p in folder.iterdir()) == ["results.json", "run.root.txt", "up.txt"]


@pytest.mark.parametrize("files", [None, {"./run.root.txt": "y"}, {"./results.json": "{"}])
def test_guest_that_did_not_finish(tmp_path, files):
    disk = tmp_path / "disk"
    if files is None:
        disk.write_bytes(bytes(1 << 20))
    else:
        disk_with(disk, files)
    assert report.read(disk, tmp_path) is None


def step(status, **more):
    return {"case": "run", "place": "root", "status": status, "seconds": 1, "was_late": False, **more}


@pytest.mark.parametrize("results, asked, status", [
    ({"a": {"steps": [step(0)]}}, False, 0),
    ({"a": {"steps": [step(0), step(1)]}}, False, 1),
    ({"a": {"steps": [step(0)]}, "b": {"failure": "it did not boot"}}, False, 1),
    ({"a": {"steps": [step(0)]}, "b": {"unreachable": "no mirror"}}, False, 0),
    ({"a": {"steps": [step(0)]}, "b": {"unreachable": "no mirror"}}, True, 1),
    ({"b": {"unreachable": "no mirror"}}, False, 1),
    ({"a": {"steps": []}}, False, 1),
    ({}, False, 1),
])
def test_verdict(results, asked, status):
    assert report.verdict(results, asked) == status


def test_table(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.root.txt").write_text("...\n12 passed, 1 failed\n")
    results = {"a": {"about": {"kernel": "6.1", "systemd": "systemd 252 (252.1)"}, "accelerator": "tcg",
                     "steps": [step(1)]}, "b": {"unreachable": "no mirror has it"}}
    report.write(results, tmp_path)
    text = (tmp_path / "matrix.md").read_text()
    assert "| run, root | FAILED (12 passed, 1 failed) |  |" in text
    assert "| kernel | 6.1 | not reachable |" in text and "b: no mirror has it" in text
    junit = (tmp_path / "matrix.xml").read_text()
    assert junit.count("<failure") == 1 and junit.count("<skipped") == 1
