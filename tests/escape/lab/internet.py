"""The internet of host/internet.py, seen by the judge: one for all probes of a session."""
import json
import os
import secrets
import subprocess
import tempfile
from pathlib import Path

from . import tools
from .cell import NotApplicable

# All that a cell with a policy may do in it.
POLICY = """version: 1
egress:
  - allow: [front.test, '*.wide.test', selfsigned.test, wrongname.test, rebind.test]
  - allow: [inner.test, loop.test, meta.test, alibaba.test, shared.test, zero.test, meta6.test, unique.test,
            loop6.test, mapped.test, nat64.test, nat64meta.test]
  - allow: [inner.test:7000, loop.test:7000, meta6.test:7000, nat64.test:7000]
    protocol: tcp
  - allow: pinned.test
    protocol: tls
  - allow: host.cloister.internal:8081
"""


class Internet:
    def __init__(self, base):
        if os.geteuid() != 0:
            raise NotApplicable("only root can lay out a network")
        self.folder = Path(tempfile.mkdtemp(prefix="internet", dir=base))
        self.folder.chmod(0o755)
        self.token = "canary-" + secrets.token_hex(16)
        self.process = subprocess.Popen(
            ["unshare", "-n", "/usr/bin/python3", "-IB", tools.HERE / "host" / "internet.py", self.folder,
             self.token], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.process.stdout.readline() != b"ready\n":
            self.close()
            raise NotApplicable("no internet could be made (are openssl and iproute2 installed?)")
        for name in ("resolv.conf", "hosts", "ca.crt"):
            (self.folder / name).chmod(0o644)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def around(self):
        """Options of `host launch`: to be in it."""
        return ["--net", self.process.pid, "--bind", f"{self.folder}/resolv.conf:/etc/resolv.conf",
                "--bind", f"{self.folder}/hosts:/etc/hosts"]

    @property
    def ca(self):
        return self.folder / "ca.crt"

    def seen(self, nonce):
        """The messages with NONCE that have reached it."""
        lines = (self.folder / "seen").read_text().splitlines()
        return [entry for entry in map(json.loads, lines) if nonce in entry["text"] or nonce in entry["sni"]]
