"""contrib/terraform: HashiCorp's own parser reads it, every name in it leads to something, and its rights are few.  Terraform
itself, with AWS's provider, cannot be had here: nothing is planned or applied."""
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from egress_lab import needs_npm_module
from egress_world import NPM
from operators import TREE

FOLDER = TREE / "contrib/terraform"
NODE = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")
PARSE = """const { parse } = require(process.argv[1] + '/node_modules/@cdktf/hcl2json');
const { readFileSync } = require('fs');
(async () => {
  const all = {};
  for (const file of process.argv.slice(2)) all[file] = await parse(file, readFileSync(file, 'utf8'));
  console.log(JSON.stringify(all));
})().catch((e) => { console.error(String(e)); process.exit(1); });
"""
pytestmark = [pytest.mark.skipif(NODE is None, reason="there is no node"), needs_npm_module("@cdktf/hcl2json")]
# AWS knows no resource for these, or only that of a condition.
ANYWHERE = {"ecr:GetAuthorizationToken", "ecs:ListTasks", "ecs:DescribeTaskDefinition", "ecs:RegisterTaskDefinition"}


def parse(*files):
    return subprocess.run([NODE, "-e", PARSE, str(NPM), *map(str, files)], text=True, capture_output=True, check=False)


@pytest.fixture(scope="module")
def module():
    done = parse(*sorted(FOLDER.glob("*.tf")))
    assert done.returncode == 0, done.stderr
    whole = {}
    for blocks in json.loads(done.stdout).values():
        for kind, named in blocks.items():
            if isinstance(named, dict):
                for name, value in named.items():
                    assert kind in ("resource", "data") or name not in whole.get(kind, {}), (kind, name)
                    at = whole.setdefault(kind, {})
                    at[name] = {**at.get(name, {}), **value} if kind in ("resource", "data") else value
            else:
                whole.setdefault(kind, []).extend(named)
    return whole


def texts(value):
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)


def test_the_parser_is_one(tmp_path):
    broken = tmp_path / "broken.tf"
    broken.write_text('resource "a" "b" {\n  c = \n}\n')
    assert parse(broken).returncode == 1


def test_names_lead_somewhere(module):
    said = set(re.findall(r"(?<![\w.])((?:data\.)?[a-z]\w*(?:\.[a-z]\w*)+)", " ".join(
        inner for text in texts(module) for inner in re.findall(r"\$\{(.*?)\}", text))))
    assert len(said) > 20, said
    used = set()
    for name in said:
        first, *rest = name.split(".")
        if first == "var":
            assert rest[0] in module["variable"], name
            used.add(rest[0])
        elif first == "local":
            assert rest[0] in module["locals"][0], name
        elif first == "data":
            assert rest[1] in module["data"].get(rest[0], {}), name
        else:
            assert rest[0] in module["resource"].get(first, {}), name
    assert used == set(module["variable"]), "each variable is used"
    for kind in ("variable", "output"):
        for name, (block,) in module[kind].items():
            assert block.get("description"), name


def statements(module):
    for name, (document,) in module["data"]["aws_iam_policy_document"].items():
        for statement in document.get("statement", []):
            yield name, statement


def test_rights_are_few(module):
    for name, statement in statements(module):
        actions, resources = statement["actions"], statement.get("resources", [])
        if statement.get("effect") == "Deny":
            assert name == "plain_http"
            continue
        assert not [action for action in actions if "*" in action], (name, actions)
        if "*" in resources:
            assert set(actions) <= ANYWHERE, (name, actions)
        if "iam:PassRole" in actions:
            assert statement["condition"] and resources == ["${aws_iam_role.worker.arn}", "${aws_iam_role.start.arn}"]
        if any(action.startswith("s3:") and action != "s3:ListBucket" for action in actions):
            assert resources == ["${local.objects}"]
    (bucket,) = module["resource"]["aws_s3_bucket_public_access_block"]["blobs"]
    assert all(bucket[key] is True for key in ("block_public_acls", "block_public_policy", "ignore_public_acls",
                                               "restrict_public_buckets"))
    # What the documents say that S3 is asked for.
    said = set(re.findall(r"`(s3:\w+)`", Path(TREE / "docs/store.md").read_text()))
    assert said == {action for name, s in statements(module) if name == "blobs" for action in s["actions"]}


def test_the_output_is_a_target(module):
    (block,) = module["output"]["target"]
    schema = json.loads((TREE / "share/openapi.schemas.json").read_text())["Target"]["properties"]
    target = block["value"]
    if isinstance(target, str):             # the parser leaves an object with references as it is written
        members = set(re.findall(r"^    (\w+) +=", target, re.M))
        keys = set(re.findall(r"^      (\w+) +=", target, re.M))
    else:
        members, keys = set(target), set(target["ecs"])
    assert {"name", "engine", "ecs"} <= members <= set(schema), members
    known = set(re.findall(r'\{ "(\w+)", KEY_', re.search(r'\{ "ecs", \{(.*?)\n\t\} \},', (
        TREE / "src/registry/object_target.c").read_text(), re.S)[1]))
    assert keys and keys <= known, keys - known
