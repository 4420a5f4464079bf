#!/usr/bin/python3
"""provenance.py KEY FILE... - prints a signed statement of how the packages FILE... were made.

KEY is a private key (Ed25519, in PEM).  The statement is in-toto's with a predicate of SLSA, in a DSSE envelope: the
commit, the command of each kind of package, and the hashes of the packages and of what dpkg recorded of the build.
"""
import base64
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
PAYLOAD = "application/vnd.in-toto+json"
COMMANDS = {".deb": "make deb", ".rpm": "make rpm", ".gz": "make tarball", ".tgz": "make npm-package",
            ".whl": "make wheel"}
HOME = "https://cloister.invalid"


def output(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout


def git(*words):
    return output("git", "-C", str(TREE), *words).decode().strip()


def described(path):
    return {"name": path.name, "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}


def statement(files):
    if git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("provenance.py: the tree has changes that no commit has: commit them, and build again")
    records = sorted({record for file in files for record in file.parent.glob("*.buildinfo")})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [described(file) for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{HOME}/build/v1",
                "externalParameters": {"commands": sorted({COMMANDS[file.suffix] for file in files})},
                "resolvedDependencies": [{"uri": f"git+{HOME}", "digest": {"gitCommit": git("rev-parse", "HEAD")}}],
            },
            "runDetails": {"builder": {"id": f"{HOME}/builder/local"},
                           "byproducts": [described(record) for record in records]},
        },
    }


def envelope(key, payload):
    """The DSSE envelope of PAYLOAD; its key's name is the public key in hex, as in `cloister audit export`."""
    signed = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)
    with tempfile.NamedTemporaryFile() as file:
        file.write(signed)
        file.flush()
        signature = output("openssl", "pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", file.name)
    public = output("openssl", "pkey", "-in", key, "-pubout", "-outform", "DER")[-32:]
    return {"payloadType": PAYLOAD, "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": public.hex(), "sig": base64.b64encode(signature).decode()}]}


def main():
    key, *files = sys.argv[1:]
    if not files:
        sys.exit("usage: provenance.py KEY FILE...")
    print(json.dumps(envelope(key, json.dumps(statement([Path(file) for file in files])).encode())))


if __name__ == "__main__":
    main()
