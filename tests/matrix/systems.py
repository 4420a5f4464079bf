"""The systems of the matrix, and where their packages come from."""
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from boot import MACHINES

TREE = Path(__file__).resolve().parents[2]
PACKAGES = TREE / "tools" / "packages"


class Unreachable(Exception):
    """No mirror that this machine reaches has the system."""


@dataclass(frozen=True)
class Distribution:
    """The properties that the systems of one distribution share."""
    name: str
    keyring: str
    key_package: str            # holds the keyring
    fingerprints: frozenset     # of its keys, if the keyring is taken from a mirror; else empty
    components: str


DEBIAN = Distribution("debian", "debian-archive-keyring.gpg", "debian-archive-keyring",
                      frozenset(), "main")
UBUNTU = Distribution("ubuntu", "ubuntu-archive-keyring.gpg", "ubuntu-keyring", frozenset({
    "790BC7277767219C42C86F933B4FE6ACC0B21F32",     # archive, 2012
    "843938DF228D22F7B3742BC0D94AA3F0EFE21092",     # CD images, 2012
    "F6ECB3762474EDA9D21B7022871920D1991BC93C",     # archive, 2018
}), "main universe")


@dataclass(frozen=True)
class System:
    """One column of the matrix: a release on an architecture, with its own kernel."""
    distribution: Distribution
    version: str
    suite: str
    arch: str
    kernel: str                 # the package that depends on the newest kernel

    @property
    def name(self):
        return f"{self.distribution.name}{self.version}-{self.arch}"

    @property
    def machine(self):
        return MACHINES[self.arch]

    @property
    def archive(self):
        """The last part of the path of a mirror that has it."""
        if self.distribution is UBUNTU and self.arch != "amd64":
            return "ubuntu-ports"
        return self.distribution.name

    def sources(self):
        """Lines for sources.list."""
        base = mirror(self.archive)
        suites = [(base, self.suite), (base, f"{self.suite}-updates")]
        security = mirror("debian-security") if self.distribution is DEBIAN else base
        suites.append((security, f"{self.suite}-security"))
        return [f"deb {where} {suite} {self.distribution.components}" for where, suite in suites]

    def check_reachable(self):
        for line in self.sources():
            _, where, suite, components = line.split(maxsplit=3)
            index = f"{where}/dists/{suite}/{components.split()[0]}/binary-{self.arch}/Packages.xz"
            if not exists(index):
                raise Unreachable(f"no packages for {self.arch} at {where} {suite}: set "
                                  f"{variable(self.archive)} to a mirror that has them")


SYSTEMS = {s.name: s for s in (
    *(System(DEBIAN, "12", "bookworm", arch, f"linux-image-cloud-{arch}") for arch in MACHINES),
    *(System(DEBIAN, "13", "trixie", arch, f"linux-image-cloud-{arch}") for arch in MACHINES),
    *(System(UBUNTU, "24.04", "noble", arch, "linux-image-virtual") for arch in MACHINES),
)}


# ---- mirrors -------------------------------------------------------------------------------

def variable(archive):
    """The environment's name for the mirror of ARCHIVE: MATRIX_UBUNTU_PORTS and so on."""
    return "MATRIX_" + archive.upper().replace("-", "_")


def mirror(archive):
    """Where ARCHIVE is: as the environment says, or beside what this machine's apt uses."""
    if variable(archive) in os.environ:
        return os.environ[variable(archive)].rstrip("/")
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)",
                             "Created-By: Packages"], capture_output=True, text=True)
    found = pick_mirror(archive, listed.stdout.split())
    if found is None:
        raise Unreachable(f"apt has no sources here: set {variable(archive)} to a mirror")
    return found


def pick_mirror(archive, uris):
    """The one of URIS that ends with ARCHIVE, or its sibling on the first one's host."""
    uris = [uri.rstrip("/") for uri in uris]
    for uri in uris:
        if uri.endswith(f"/{archive}"):
            return uri
    for uri in uris:
        parts = urlsplit(uri)
        if parts.scheme in ("http", "https"):
            return f"{parts.scheme}://{parts.netloc}/{archive}"
    return None


def download(url, to):
    """Fetch URL to a file as this machine's apt would; whether it worked."""
    done = subprocess.run(["/usr/lib/apt/apt-helper", "download-file", url, str(to)],
                          capture_output=True)
    return done.returncode == 0


def exists(url):
    with tempfile.TemporaryDirectory() as folder:
        return download(url, Path(folder, "file"))


def apt_options():
    """The settings of this machine's apt that decide how a mirror is reached."""
    dump = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True).stdout
    wanted = re.compile(r'^Acquire::(Check-Valid-Until|https?::Proxy\S*) "[^"]*";$', re.M)
    return [m.group(0) for m in wanted.finditer(dump)]


# ---- packages ------------------------------------------------------------------------------

# What a guest needs to be a system with logins, besides the lists of tools/packages.
BASE = ("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "udev", "kmod",
        "apparmor", "sudo", "busybox-static", "python3")

# Large, slow to unpack and of no use to what runs under emulation.
NOT_EMULATED = re.compile(r"nodejs|npm|.*clang.*|.*-cross|binutils-.*|python3-(venv|botocore|grpcio)")
# Optional elsewhere, but wanted by what runs under emulation.
EMULATED_TOO = {"openssh-server", "qemu-system-arm", "qemu-system-x86", "virtiofsd"}


def listed_packages(text, lists, system):
    """(package, is optional) of the LISTS in TEXT, tools/packages, that SYSTEM wants."""
    found = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words or words[0] not in lists:
            continue
        facts = dict(w.split("=", 1) for w in words[2:] if "=" in w)
        release = f"{system.distribution.name}-{system.version}"
        if (facts.get("arch", system.arch) == system.arch
                and facts.get("not") != system.distribution.name
                and facts.get("only", release) == release):
            found.append((words[1], "optional" in words[2:]))
    return found


def guest_packages(system, accelerator):
    """(needed, optional) packages of a guest."""
    needed, optional = list(BASE), []
    for package, is_optional in listed_packages(PACKAGES.read_text(), ("build", "test"), system):
        if accelerator == "kvm":
            (optional if is_optional else needed).append(package)
        elif package in EMULATED_TOO or not is_optional and not NOT_EMULATED.fullmatch(package):
            needed.append(package)
    return sorted(set(needed)), sorted(set(optional))
