"""contrib/: the devcontainer feature, the GitHub action and the GitLab template, and the scripts in them."""
import hashlib
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
FEATURE = TREE / "contrib/devcontainer/cloister"
# https://containers.dev/implementors/features
KEYS = {"id", "version", "name", "description", "documentationURL", "licenseURL", "keywords", "options", "containerEnv",
        "privileged", "init", "capAdd", "securityOpt", "entrypoint", "customizations", "dependsOn", "installsAfter",
        "legacyIds", "deprecated", "mounts"}


@pytest.fixture
def archive(tmp_path):
    """An archive as `make tarball` makes it, with a program that only says its words."""
    root = tmp_path / "cloister-1"
    for name, text in (("bin/cloister", "#!/bin/sh\necho cloister \"$@\"\n"), ("libexec/cloister/x", ""), ("share/x", "")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    files = [path for path in root.rglob("*") if path.is_file()]
    (root / "SHA256SUMS").write_text("".join(f"{sha256(path)}  {path.relative_to(root)}\n" for path in files))
    (root / "install.sh").write_text((TREE / "packaging/install.sh").read_text())
    (root / "install.sh").chmod(0o755)
    file = tmp_path / "cloister.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        tar.add(root, "cloister-1")
    return file


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def sh(script, tmp_path, **env):
    """With a curl that copies what is at the end of a URL, and a sudo that does nothing."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in (("curl", 'for url; do :; done; while [ "$1" != -o ]; do shift; done; cp "${url#https://x}" "$2"'),
                       ("sudo", ":")):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    return subprocess.run(["sh", "-ec", script], text=True, capture_output=True, cwd=tmp_path, check=False,
                          env={"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path / "home"), **env})


def test_the_script_installs_what_has_the_hash(archive, tmp_path):
    def install(**env):
        return sh(f"{FEATURE}/install.sh", tmp_path, PREFIX=str(tmp_path / "to"), **env)
    for env, why in (({}, "no archive is given"), ({"TARBALL": "https://x/y"}, "needs its hash"),
                     ({"TARBALL": "http://x/y", "SHA256": "0"}, "is not an https URL"),
                     ({"TARBALL": str(archive), "SHA256": "0" * 64}, "not the one with this hash"),
                     ({"TARBALL": f"https://x{archive}", "SHA256": "0" * 64}, "not the one with this hash")):
        done = install(**env)
        assert done.returncode == 1 and why in done.stderr and not (tmp_path / "to").exists(), done
    for place in (str(archive), f"https://x{archive}"):
        done = install(TARBALL=place, SHA256=sha256(archive))
        assert done.returncode == 0 and os.access(tmp_path / "to/bin/cloister", os.X_OK), done


def test_the_feature():
    feature = json.loads((FEATURE / "devcontainer-feature.json").read_text())
    assert set(feature) <= KEYS and feature["id"] == FEATURE.name and re.fullmatch(r"\d+\.\d+\.\d+", feature["version"])
    for option in feature["options"].values():
        assert option["type"] == "string" and "default" in option and option["description"]
    # A feature gets its options as variables of their names in capitals.
    script = (FEATURE / "install.sh").read_text()
    assert all(f"${{{name.upper()}:-}}" in script for name in feature["options"])
    # The same words that `doctor` prints.
    place = (TREE / "src/boundary/place.c").read_text()
    assert all(f"--security-opt={word}" in place for word in feature["securityOpt"])


def test_the_action(archive, tmp_path):
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((TREE / "contrib/github/action.yml").read_text())
    assert action["runs"]["using"] == "composite" and set(action["inputs"]) == {"tarball", "sha256"}
    given = {"tarball": f"https://x{archive}", "sha256": sha256(archive)}
    path = tmp_path / "path"
    for step in action["runs"]["steps"]:
        assert step["shell"] == "sh" and set(step) <= {"name", "shell", "env", "run"}
        env = {name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: given[m[1]], value)
               for name, value in step.get("env", {}).items()}
        folder = path.read_text().strip() + ":" if path.exists() else ""
        script = f'PATH="{tmp_path}/home/.local/bin:{folder}$PATH"; {step["run"]}'
        # Only root installs elsewhere.
        done = sh(script, tmp_path, **env, GITHUB_ACTION_PATH=str(TREE / "contrib/github"), GITHUB_PATH=str(path),
                  PREFIX=str(tmp_path / "home/.local"))
        assert done.returncode == 0, done
    assert done.stdout == "cloister doctor\n"


def test_the_template(archive, tmp_path):
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((TREE / "contrib/gitlab/cloister.gitlab-ci.yml").read_text())[".cloister"]
    script = "\n".join(job["before_script"])
    env = {"CI_BUILDS_DIR": str(tmp_path), "CLOISTER_TARBALL": f"https://x{tmp_path}/given"}
    (tmp_path / "given").write_bytes(archive.read_bytes())
    done = sh(script, tmp_path, **env, CLOISTER_SHA256=sha256(archive))
    assert done.returncode == 0 and done.stdout == "cloister doctor\n", done
    assert sh(script, tmp_path, **env, CLOISTER_SHA256="0" * 64).returncode != 0
    assert sh(script, tmp_path, **env).returncode != 0


def test_each_program_is_confined_or_has_its_reason():
    """A new program gets a profile for AppArmor and one for SELinux, or its reason in docs/install.md."""
    programs = {path.name for path in (TREE / "src/proc").iterdir() if (path / "main.c").exists()}
    labels = (TREE / "contrib/selinux/cloister.fc").read_text()
    confined = set(re.findall(r"^profile cloister-(\w+) ", (TREE / "contrib/apparmor/cloister-helpers").read_text(), re.M))
    assert confined == set(re.findall(r"^cloister_helper\((\w+)\)$", (TREE / "contrib/selinux/cloister.te").read_text(), re.M))
    for place in ("/usr/libexec", "/usr/local/libexec", "/opt/cloister/libexec"):
        assert confined == set(re.findall(rf"^{place}/cloister/cloister-(\w+)\t--\t", labels, re.M)), place
    reasons = (TREE / "docs/install.md").read_text().partition("These programs have no profile:\n")[2].partition("\n\nA ")[0]
    free = set(re.findall(r"`cloister-(\w+)`", reasons))
    assert confined | free == programs and confined & free == set()
    explained = (TREE / "docs/install.md").read_text().partition("a profile lets them |\n")[2].partition("\n\n")[0]
    assert {name for row in explained.splitlines()[1:] for name in row.split("|")[1].replace(",", " ").split()} == confined
