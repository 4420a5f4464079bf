"""Caches of packages with the real package managers: one cell fills them, and cells without a network install from them."""
import base64
import hashlib
import io
import json
import secrets
import subprocess
import tarfile

import pytest

from egress_lab import needs
from test_egress_clients import APT, apt_repository  # noqa: F401
from test_real_programs import wheel

SECONDS = 120           # package managers, on a busy machine


class Cache:
    def __init__(self, online, kind):
        self.online, self.operator, self.kind, self.name = online, online.operator, kind, f"{kind}-of-tests"

    def fill(self, rules, script, *options):
        return self.operator.cloister("cache", "fill", self.name, "--kind", self.kind, "-p", self.online.policy(rules), *options,
                                      "--", "sh", "-c", script, seconds=SECONDS)

    def use(self, script, *options, cache=None):
        """In a cell without a network."""
        return self.operator.run("-q", "--no-policy", "--cache", cache or self.name, *options, "--", "sh", "-c", script,
                                 seconds=SECONDS)

    def show(self):
        return json.loads(self.operator.cloister("cache", "show", self.name, "--json").ok())

    def current(self):
        shown = self.show()
        return next(v for v in shown["versions"] if v["hash"] == shown["current"])


def is_cut_off(cache):
    """The cell that reads has no way to the registry: what it installs is from the cache."""
    return cache.use("curl -sS --max-time 5 https://npm.example.test/ 2>&1").status != 0


# ---- npm ------------------------------------------------------------------------

NPM = "npm --no-audit --no-fund --silent --registry https://npm.example.test/npm/"


def npm_package(online, name, version, text):
    """A package of https://npm.example.test/npm/."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for file, content in (("package.json", json.dumps({"name": name, "version": version})),
                              ("index.js", f"module.exports = {json.dumps(text)}\n")):
            info = tarfile.TarInfo(f"package/{file}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    tarball = f"npm/{name}/-/{name}-{version}.tgz"
    online.lab.file(tarball, data.getvalue())
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()
    online.lab.file(f"npm/{name}/index.json", json.dumps({
        "name": name, "dist-tags": {"latest": version},
        "versions": {version: {"name": name, "version": version, "dist": {
            "tarball": f"https://npm.example.test/{tarball}", "integrity": integrity}}}}))


def npm_install(name):
    return f"""
        mkdir ~/p && cd ~/p && echo '{{"name": "p", "version": "1.0.0"}}' >package.json
        {NPM} install {name} >&2 && node -p "require('{name}')"
    """


@needs("node", "npm", "curl")
def test_npm(online):
    cache, name, word = Cache(online, "npm"), f"tool-{online.operator.who}", secrets.token_hex(8)
    npm_package(online, name, "1.2.3", word)
    rules = "  - allow: npm.example.test\n    methods: [GET]\n"
    filled = cache.fill(rules, npm_install(name))
    assert filled.ok() == f"{word}\n"
    version = cache.current()
    assert version["hosts"] == ["npm.example.test"] and version["command"].startswith("sh -c") and len(version["cell"]) == 8
    assert version["hash"][:12] in filled.err
    assert is_cut_off(cache)
    assert cache.use(npm_install(name)).ok() == f"{word}\n"
    # Without the cache there is nothing.
    assert online.operator.run("-q", "--no-policy", "--", "sh", "-c", npm_install(name), seconds=SECONDS).status != 0
    # With a network, what is there is not asked for again.
    asked = len(online.lab.seen(f"{name}-1.2.3.tgz"))
    assert online.sh(rules, npm_install(name), options=["--cache", cache.name], seconds=SECONDS).ok() == f"{word}\n"
    assert len(online.lab.seen(f"{name}-1.2.3.tgz")) == asked == 1


@needs("node", "npm")
def test_npm_cannot_be_poisoned_by_a_reader(online):
    """A cell that changes everything in its cache harms only itself."""
    cache, name, word = Cache(online, "npm"), f"victim-{online.operator.who}", secrets.token_hex(8)
    npm_package(online, name, "1.0.0", word)
    cache.fill("  - allow: npm.example.test\n", npm_install(name)).ok()
    before = cache.show()["versions"]
    poison = f"""
        cd /cache/{cache.name} && find . -type f | while read file; do echo poisoned >"$file"; done
        rm -rf _cacache/index-v5; ln -s /etc _cacache/index-v5; grep -rl poisoned . | wc -l
    """
    assert int(cache.use(poison).ok()) > 0
    assert cache.use(npm_install(name)).ok() == f"{word}\n"
    assert cache.show()["versions"] == before
    online.operator.cloister("cache", "verify").ok()


# ---- pip ------------------------------------------------------------------------

PIP = "/usr/bin/python3 -m pip -q --disable-pip-version-check"
PIP_USE = PIP + " install --target ~/t local-thing && PYTHONPATH=~/t /usr/bin/python3 -c 'import local_thing; print(local_thing.VALUE)'"


def test_pip(online):
    if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode != 0:
        pytest.skip("Python has no pip")
    cache = Cache(online, "pip")
    online.lab.file("pypi/local-thing/local_thing-0.1-py3-none-any.whl", wheel())
    online.lab.file("pypi/local-thing/index.html",
                    '<a href="local_thing-0.1-py3-none-any.whl">local_thing-0.1-py3-none-any.whl</a>')
    rules = "  - allow: pypi.example.test\n    methods: [GET]\n    paths: [/pypi/**]\n"
    cache.fill(rules, PIP + " download --index-url https://pypi.example.test/pypi local-thing").ok()
    assert cache.current()["hosts"] == ["pypi.example.test"]
    assert cache.use(PIP_USE).ok() == "a local thing\n"
    assert online.operator.run("-q", "--no-policy", "--", "sh", "-c", PIP_USE, seconds=SECONDS).status != 0
    # At another path.
    assert cache.use(PIP_USE, cache=f"{cache.name}:/srv/wheels").ok() == "a local thing\n"


# ---- apt ------------------------------------------------------------------------

APT_USE = """
set -e
mkdir -p ~/a/parts && cd ~/a && touch status && echo 'deb [trusted=yes] https://deb.example.test/deb ./' >sources
apt="apt-get -qq -o Dir::State::status=$PWD/status -o Dir::Etc::sourcelist=$PWD/sources -o Dir::Etc::sourceparts=$PWD/parts
    -o Dir::Etc::parts=$PWD/parts -o Acquire::Languages=none"
"""


@needs("apt-get", "dpkg-deb")
def test_apt(online, apt_repository):  # noqa: F811
    cache = Cache(online, "apt")
    cache.fill("  - allow: deb.example.test\n", APT_USE + "$apt update && $apt install -y --download-only thing").ok()
    assert cache.current()["hosts"] == ["deb.example.test"]
    get = APT_USE + """
        $apt install -y --download-only thing && $apt -s install thing | grep ^Inst
        dpkg-deb -x /cache/*/archives/thing_1.0_all.deb x && cat x/usr/share/thing/word"""
    done = cache.use(get)
    assert done.ok().splitlines()[0].startswith("Inst thing (1.0") and done.out.endswith("from apt\n")
    assert online.operator.run("-q", "--no-policy", "--", "sh", "-c", get, seconds=SECONDS).status != 0
    cache.use("true", cache=f"{cache.name}:/elsewhere").sentence("/cache/" + cache.name)


# ---- cargo ----------------------------------------------------------------------

def crate(name, word):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for file, text in (("Cargo.toml", f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n'),
                           ("src/lib.rs", f'pub const WORD: &str = "{word}";\n')):
            info = tarfile.TarInfo(f"{name}-0.1.0/{file}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


def crates_index(online, work, name, data):
    """The index of a registry at https://git.example.test/git/team/INDEX.git; INDEX."""
    index = f"index-{name}"
    bare = online.lab.folder / "git/team" / f"{index}.git"
    git = ["git", "-c", "user.name=o", "-c", "user.email=o@example.org", "-c", "init.defaultBranch=master"]
    for words in (["init", "-q", "--bare", bare], ["init", "-q", work]):
        subprocess.run([*git, *words], check=True)
    folder = work / name[:2] / name[2:4]
    folder.mkdir(parents=True)
    (work / "config.json").write_text(json.dumps({"dl": "https://www.example.test/crates/{crate}-{version}.crate"}))
    (folder / name).write_text(json.dumps({"name": name, "vers": "0.1.0", "deps": [], "features": {}, "yanked": False,
                                           "cksum": hashlib.sha256(data).hexdigest()}) + "\n")
    for words in (["add", "."], ["commit", "-q", "-m", "one"], ["push", "-q", bare, "master"]):
        subprocess.run([*git, "-C", work, *words], check=True)
    return index


@needs("cargo", "git", "fcgiwrap")
def test_cargo(online, tmp_path):
    cache, name, word = Cache(online, "cargo"), f"thing{secrets.token_hex(4)}", secrets.token_hex(8)
    data = crate(name, word)
    online.lab.file(f"crates/{name}-0.1.0.crate", data)
    index = crates_index(online, tmp_path / "index", name, data)
    project = f"""
        set -e; mkdir -p ~/p/src ~/p/.cargo; cd ~/p
        echo 'fn main() {{ println!("{{}}", {name}::WORD); }}' >src/main.rs
        printf '[package]\\nname = "p"\\nversion = "0.1.0"\\nedition = "2021"\\n[dependencies]\\n{name} = "0.1.0"\\n' >Cargo.toml
        printf '[source.crates-io]\\nreplace-with = "own"\\n[source.own]\\n' >.cargo/config.toml
        echo 'registry = "https://git.example.test/git/team/{index}.git"' >>.cargo/config.toml
    """
    filled = cache.fill("  - allow: git.example.test\n    methods: [GET, POST]\n  - allow: www.example.test\n", project + "cargo -q fetch")
    filled.ok()
    assert sorted(cache.current()["hosts"]) == ["git.example.test", "www.example.test"]
    # A linker may not be there: whether the crate is unpacked and resolved is what counts.
    got = cache.use(project + f"cargo -q metadata --format-version 1 | grep -o '{name} 0.1.0' | head -n 1; "
                    f"cat /cache/{cache.name}/registry/src/*/{name}-0.1.0/src/lib.rs")
    assert word in got.ok() and f"{name} 0.1.0" in got.out
    assert online.operator.run("-q", "--no-policy", "--", "sh", "-c", project + "cargo -q fetch", seconds=SECONDS).status != 0
