"""Versioned states: commits by the program that does what a cell's end does, and git as the judge."""
import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from operators import BUILD

NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}   # the leak sanitizer fails under strace
PROGRAM = BUILD / "tests" / "state_commit"
GIT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nonexistent",
       "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}


def git(folder, *words, check=True, config=()):
    options = [o for key, value in dict(config).items() for o in ("-c", f"{key}={value}")]
    done = subprocess.run(["git", *options, "-C", folder, *words], env=GIT, capture_output=True, text=True, errors="surrogateescape")
    assert not check or done.returncode == 0, done
    return done.stdout.strip() if check else done


class States:
    def __init__(self, operator, program):
        self.operator, self.program = operator, program
        self.data = operator.base / "data"

    def folder(self, name="brain"):
        return self.data / "states" / name

    def git(self, *words, name="brain", **how):
        return git(self.folder(name) / "git", *words, **how)

    def head(self, name="brain", branch="main"):
        return (self.folder(name) / "git/refs/heads" / branch).read_text().strip()

    def create(self, name="brain", *options):
        self.operator.cloister("state", "create", *options, name).ok()
        return self.head(name)

    def try_commit(self, folder, base=None, name="brain", branch="main", cell="c0ffee", guards="", **how):
        return self.operator.do(self.program, name, branch, base or self.head(name, branch), folder, cell, guards, **how)

    def commit(self, folder, **how):
        """The lines that it printed: the commit, and what was refused."""
        return self.try_commit(folder, **how).ok().splitlines()

    def commit_files(self, files, **how):
        changes = self.changes(files)
        return self.commit(changes, **how)[0]

    def changes(self, files):
        """A folder of changes: a value of None is a whiteout."""
        self.n = getattr(self, "n", 0) + 1
        folder = self.operator.folder(f"changes{self.n}")
        for path, data in files.items():
            if data is None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                os.mknod(folder / path, 0o020000, 0)
            else:
                self.operator.file(folder.relative_to(self.operator.base) / path, data)
        return folder

    def checkout(self, commit, name="brain"):
        return Path(self.operator.do(self.program, "--checkout", name, commit).ok().strip())

    def packs(self, name="brain"):
        return sorted((self.folder(name) / "git/objects/pack").glob("*.pack"))

    def damage(self, blob):
        """Change a byte of an object, whose place git knows."""
        for pack in self.packs():
            for line in self.git("verify-pack", "-v", pack.with_suffix(".idx")).splitlines():
                if line.startswith(blob):
                    pack.chmod(0o644)
                    with open(pack, "r+b") as file:
                        file.seek(int(line.split()[4]) + 1)
                        file.write(b"\0")
                    return
        raise AssertionError(f"no pack has {blob}")

    def records(self):
        """Events of the operator's timeline about states."""
        lines = (self.data / "audit/operator.jsonl").read_text().splitlines()
        return [e for e in (json.loads(line)["event"] for line in lines) if e["type"].startswith("state.")]

    def signers(self):
        """A file for git's gpg.ssh.allowedSignersFile, made from the timeline's key by us."""
        first = json.loads((self.data / "audit/operator.jsonl").read_text().splitlines()[0])
        blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes.fromhex(first["event"]["key"])
        path = self.operator.base / "signers"
        path.write_text(f'operator@cloister.invalid namespaces="git" ssh-ed25519 {base64.b64encode(blob).decode()}\n')
        return {"gpg.format": "ssh", "gpg.ssh.allowedSignersFile": str(path)}


@pytest.fixture
def states(operator):
    program = operator.program.parent / "state_commit"
    if not program.exists():
        shutil.copy2(PROGRAM, program)
        program.chmod(0o755)
    return States(operator, program)
