"""deps.sh knows what is missing and asks for just that."""
import os
import shutil
import subprocess
from pathlib import Path

DEPS = Path(__file__).resolve().parents[2] / "tools" / "deps.sh"
PACKAGES = """
build there
build bycommand  command=true
test  away       only=testos-7  # a comment
test  wish       optional
test  elsewhere  arch=no-such-arch
test  nothere    not=testos
test  others     only=testos-8
serve server     service=server.service service=server.socket
"""


def deps(tmp_path, *lists, apt=True, wish=True):
    """Run it with a dpkg that only has `there`, and an apt-get that records its arguments."""
    (tmp_path / "packages").write_text(PACKAGES)
    script = DEPS.read_text().replace("/etc/os-release", str(tmp_path / "os-release"))
    script = script.replace("/usr/sbin/policy-rc.d", str(tmp_path / "policy-rc.d"))
    script = script.replace("/var/lib/apt/lists", str(tmp_path / "lists"))
    (tmp_path / "deps.sh").write_text(script)
    (tmp_path / "os-release").write_text('ID="testos"\nVERSION_ID="7"\n')
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for tool in ("sh", "sed", "tr", "dirname", "mktemp", "rm", "cat", "env", "tee", "chmod",
                 "find"):
        (bin_ / tool).symlink_to(shutil.which(tool))
    fake(bin_ / "id", "echo 0")
    if apt:
        fake(bin_ / "dpkg", "echo arm64")
        fake(bin_ / "dpkg-query", "echo installed there; echo config-files away")
        fake(bin_ / "apt-get", f'echo "$@" >>{tmp_path}/asked\n'
             f'[ ! -x {tmp_path}/policy-rc.d ] || {tmp_path}/policy-rc.d || '
             f'echo "services held: $?" >>{tmp_path}/asked')
        fake(bin_ / "systemctl", f'echo "systemctl $@" >>{tmp_path}/asked')
        fake(bin_ / "apt-cache", f"echo '  Candidate: {'1.0' if wish else '(none)'}'")
    done = subprocess.run([bin_ / "sh", tmp_path / "deps.sh", *lists], capture_output=True,
                          text=True, env={"PATH": str(bin_)}, timeout=60)
    asked = tmp_path / "asked"
    return done, asked.read_text().splitlines() if asked.exists() else []


def fake(path, body):
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_nothing_to_do(tmp_path):
    done, asked = deps(tmp_path, "build")
    assert (done.returncode, done.stdout, done.stderr, asked) == (0, "", "", [])


def test_installs_missing_packages(tmp_path):
    done, asked = deps(tmp_path, "build", "test")
    assert done.returncode == 0, done.stderr
    assert asked == ["install -y --no-install-recommends away",
                     "install -y --no-install-recommends wish"]
    assert "Installing: away" in done.stdout


def test_unavailable_packages_are_reported(tmp_path):
    done, asked = deps(tmp_path, "test", wish=False)
    assert done.returncode == 0, done.stderr
    assert asked == ["install -y --no-install-recommends away", "update"]
    assert "no wish to be had" in done.stdout


def test_lists_of_today_are_not_asked_for_again(tmp_path):
    (tmp_path / "lists/partial").mkdir(parents=True)
    done, asked = deps(tmp_path, "test", wish=False)
    assert done.returncode == 0, done.stderr
    assert asked == ["install -y --no-install-recommends away"]


def test_a_service_is_neither_started_nor_enabled(tmp_path):
    done, asked = deps(tmp_path, "serve")
    assert done.returncode == 0, done.stderr
    assert asked == ["install -y --no-install-recommends server", "services held: 101",
                     "systemctl disable server.service", "systemctl disable server.socket"]
    assert not (tmp_path / "policy-rc.d").exists()


def test_somebody_elses_word_on_services_stays(tmp_path):
    (tmp_path / "policy-rc.d").write_text("#!/bin/sh\nexit 7\n")
    (tmp_path / "policy-rc.d").chmod(0o755)
    done, asked = deps(tmp_path, "serve")
    assert done.returncode == 0, done.stderr
    assert "services held: 7" in asked
    assert (tmp_path / "policy-rc.d").read_text() == "#!/bin/sh\nexit 7\n"


def test_lists_missing_packages_without_apt(tmp_path):
    done, asked = deps(tmp_path, "build", "test", apt=False)
    assert (done.returncode, asked) == (1, [])
    assert "there" in done.stderr and "away" in done.stderr
    assert "bycommand" not in done.stderr and "wish" not in done.stderr


def test_this_machine_is_a_matter_of_moments(tmp_path):
    """`make run` asks every time; what is asked for here is what runs this test."""
    done = subprocess.run([DEPS, "build"], capture_output=True, text=True, timeout=10,
                          env={"PATH": os.environ["PATH"]})
    assert (done.returncode, done.stdout) == (0, "")
