"""Servers of MCP for tests of `cloister tools`: a folder with a policy, and what the commands find there."""
import json
import shutil
from pathlib import Path

import yaml

from egress_world import NPM

MODULES = NPM / "node_modules"
SERVER = Path(__file__).with_name("hostile_tools.py")


def copy_package(name, to, seen):
    """The package NAME with all that it needs."""
    if name in seen or not (MODULES / name).exists():
        return
    seen.add(name)
    shutil.copytree(MODULES / name, to / name, symlinks=True)
    about = json.loads((MODULES / name / "package.json").read_text())
    for needed in about.get("dependencies", {}):
        copy_package(needed, to, seen)


class Bench:
    """A folder of the operator's, with a server's program, a policy and a lock."""

    def __init__(self, operator, name="bench"):
        self.operator = operator
        self.folder = operator.folder(name)
        shutil.copy(SERVER, self.folder / "server.py")
        operator.own(self.folder / "server.py")
        self.servers = {}

    def server(self, name, *words, **more):
        """A server that does WORDS; see hostile_tools.py.  MORE are its keys; None takes one away."""
        self.servers[name] = {"command": ["python3", str(self.folder / "server.py"), *map(str, words)],
                              "read": [str(self.folder)], **more}
        self.servers[name] = {key: value for key, value in self.servers[name].items() if value is not None}
        self.write({"version": 1, "tools": {"servers": self.servers}})

    def write(self, policy, name="cloister.yaml"):
        self.operator.file(Path(self.folder.name) / name, yaml.safe_dump(policy, sort_keys=False))

    def tools(self, *words, **how):
        how.setdefault("cwd", self.folder)
        return self.operator.cloister("tools", *words, **how)

    @property
    def lock(self):
        return yaml.safe_load((self.folder / "tools.lock.yaml").read_text())

    def edit(self, change):
        """CHANGE gets the lock."""
        lock = self.lock
        change(lock)
        self.write(lock, "tools.lock.yaml")

    def scope(self, tool, scope=None, **more):
        """Completes the entry of "server.tool"."""
        server, name = tool.split(".", 1)

        def change(lock):
            lock["servers"][server]["tools"][name].update(scope=scope if scope is not None else {}, **more)
        self.edit(change)

    def check(self, *words, **how):
        """The findings, as (rule, server, tool), and the exit status."""
        done = self.tools("check", "--json", *words, **how)
        assert done.status in (0, 1), done
        found = json.loads(done.out)
        rules = [(f["rule"], f["server"], f["tool"]) for f in found["findings"] if f["level"] != "note"]
        assert done.status == (found["errors"] > 0), done
        return rules, found
