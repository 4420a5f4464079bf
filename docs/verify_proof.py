#!/usr/bin/python3
"""verify_proof.py KEY PROOF.json - checks what `cloister audit prove` gave, without cloister, as
docs/audit.md tells.  KEY is the operator's (`cloister audit key`), and has to come from somebody
you trust.  It needs the package `cryptography` (python3-cryptography)."""
import base64
import hashlib
import json
import sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def need(condition, what):
    if not condition:
        sys.exit(f"NOT PROVED: {what}")


def check(proof, key):
    """The record that PROOF is about, if it is in the tree whose root KEY signed."""
    record, point = json.loads(proof["record"]), proof["checkpoint"]
    name = f"cell/{record['cell']}" if "cell" in record else record["log"]
    index, last = proof["index"], point["size"] - 1
    need(name == proof["timeline"] and 0 <= index == record["n"] - 1 <= last, "it is another record")
    at = hashlib.sha256(b"\0" + proof["record"].encode()).digest()
    for other in map(bytes.fromhex, proof["path"]):     # RFC 9162, 2.1.3.2: from leaf to root
        need(last > 0, "the path is too long")
        is_right = index & 1 or index == last
        at = hashlib.sha256(b"\1" + (other + at if is_right else at + other)).digest()
        while is_right and index and not index & 1:
            index, last = index >> 1, last >> 1
        index, last = index >> 1, last >> 1
    need(last == 0 and at.hex() == point["root"], "the path does not lead to the root")
    need(point["key"] == key, f"{name} is signed with another key")
    signed = f"cloister checkpoint v1\n{name}\n{point['size']}\n{point['root']}\n{point['time']}\n"
    signature = base64.b64decode(point["signature"], validate=True)
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, signed.encode())
    return record


if len(sys.argv) != 3 or len(sys.argv[1]) != 64:
    sys.exit("usage: verify_proof.py KEY PROOF.json (KEY is 64 hex digits: `cloister audit key`)")
try:
    key, proof = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
    if proof["anchor"]:         # the operator's record says which key is the cell's
        start = check(proof["anchor"], key)
        need("log" in start and start["event"]["type"] == "cell.started" and
             proof["timeline"] == f"cell/{start['event']['cell']}", "the anchor is of another cell")
        key = start["event"]["key"]
    print("proved:", json.dumps(check(proof, key), sort_keys=True))
except Exception as error:
    need(False, f"it cannot be read, is no proof, or its signature does not hold: {error!r}")
