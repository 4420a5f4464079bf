"""The list of a package's parts and the statement of how it was made, judged by others' programs."""
import base64
import hashlib
import json
import shutil
import subprocess
import tarfile

import pytest

from packing import TREE, run

JUDGES = ("@cyclonedx/cyclonedx-library@10", "ajv@8", "ajv-formats@3", "ajv-formats-draft2019@1", "@sigstore/core@2")
JUDGE_PARTS = """
import { readFileSync } from 'node:fs';
import { Spec, Validation } from '@cyclonedx/cyclonedx-library';
const text = readFileSync(process.argv[2], 'utf8');
console.log(JSON.stringify(await new Validation.JsonStrictValidator(Spec.Version.v1dot5).validate(text)));
"""
JUDGE_ENVELOPE = """
import { readFileSync } from 'node:fs';
import { crypto, dsse } from '@sigstore/core';
const [, , envelope, key] = process.argv.map((name) => readFileSync(name, 'utf8'));
const { payloadType, payload, signatures } = JSON.parse(envelope);
const signed = dsse.preAuthEncoding(payloadType, Buffer.from(payload, 'base64'));
console.log(crypto.verify(signed, crypto.createPublicKey(key), Buffer.from(signatures[0].sig, 'base64')));
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """Runs a judge's program with others' packages from npm."""
    folder = tmp_path_factory.mktemp("judge")
    if shutil.which("npm") is None:
        pytest.skip("no npm")
    (folder / "package.json").write_text('{"private": true}')
    got = subprocess.run(["npm", "install", "--no-audit", "--no-fund", *JUDGES], cwd=folder, capture_output=True,
                         text=True, timeout=600, check=False)
    if got.returncode != 0:
        pytest.skip(f"npm cannot fetch the judges: {got.stderr[-200:]}")

    def run_judge(text, *files):
        (folder / "judge.mjs").write_text(text)
        return json.loads(run("node", "judge.mjs", *files, cwd=folder))
    return run_judge


@pytest.fixture(scope="module")
def parts(archive):
    (path,) = archive[0].glob("*.cdx.json")
    return path


def test_parts_are_those_of_the_archive(archive, parts):
    (path,) = archive[0].glob("*.tar.gz")
    listed = json.loads(parts.read_text())["components"]
    files = {c["name"]: c["hashes"][0]["content"] for c in listed if c["type"] == "file"}
    with tarfile.open(path) as tar:
        packed = {m.name.split("/", 1)[1]: hashlib.sha256(tar.extractfile(m).read()).hexdigest()
                  for m in tar if m.isfile()}
    del packed["SHA256SUMS"]
    assert files == packed
    libraries = {(c["name"], c["properties"][0]["value"]): c["version"] for c in listed if c["type"] == "library"}
    # Static in most programs, and shared in the one that fetches images.
    for name, link in (("libssl-dev", "static"), ("libssl3", "shared"), ("libcurl4", "shared")):
        assert libraries[name, link] == run("dpkg-query", "-Wf", "${Version}", name)


def test_another_program_accepts_the_parts(judge, parts, tmp_path):
    assert judge(JUDGE_PARTS, parts) is None
    broken = json.loads(parts.read_text())
    del broken["components"][0]["name"]
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    assert "must have required property 'name'" in json.dumps(judge(JUDGE_PARTS, tmp_path / "broken.json"))


@pytest.fixture(scope="module")
def clean_tree(tmp_path_factory):
    """A clean checkout: of changes that no commit has, nothing can be stated."""
    tree = tmp_path_factory.mktemp("clean") / "tree"
    run("git", "clone", "-q", TREE, tree)
    return tree


def test_statement(archive, clean_tree, judge, tmp_path):
    out, public, key = archive
    (path,) = out.glob("*.tar.gz")
    made = tmp_path / "made.jsonl"
    made.write_text(run(clean_tree / "tools/provenance.py", key, path))
    envelope = json.loads(made.read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["subject"] == [{"name": path.name, "digest": {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"commands": ["make tarball"]}
    commit = run("git", "rev-parse", "HEAD", cwd=clean_tree).strip()
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": commit}
    assert judge(JUDGE_ENVELOPE, made, public) is True
    envelope["payload"] = base64.b64encode(json.dumps({**statement, "subject": []}).encode()).decode()
    made.write_text(json.dumps(envelope))
    assert judge(JUDGE_ENVELOPE, made, public) is False


def test_no_statement_of_a_changed_tree(archive, clean_tree):
    (path,) = archive[0].glob("*.tar.gz")
    (clean_tree / "README.md").write_text("")
    refused = subprocess.run([clean_tree / "tools/provenance.py", archive[2], path], capture_output=True, text=True,
                             check=False)
    assert refused.returncode == 1 and "the tree has changes" in refused.stderr
