"""Files in which tools look for credentials: real tools find placeholders there, servers get the
real thing."""
import base64
import json

import pytest

from egress_lab import CURL, await_event, needs, needs_python
from operators import wait_until
from test_egress_secrets import canary

RULES = "  - allow: ['*.example.test', oauth2.googleapis.com]\n    body: {max: 64M}\n    secrets: allow\n"


def give(online, name, value, *options, host="up.example.test"):
    online.operator.cloister("secret", "add", name, "--host", host, *options, input=value).ok()
    return value


def basic(user, password):
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def test_owners_of_the_files(online):
    give(online, "KEY", canary(), "--tool-file", "netrc", "--tool-file", "gh-hosts")
    for options, owner in (([], "agent"), (["--root"], "root")):
        done = online.sh(RULES, "cd; stat -c '%a %U %n' .netrc .config .config/gh .config/gh/hosts.yml; "
                         "grep -c \"$KEY\" .netrc; echo more >>.netrc", options=["-s", "KEY", *options])
        assert done.ok().splitlines() == [f"600 {owner} .netrc", f"700 {owner} .config", f"700 {owner} .config/gh",
                                          f"600 {owner} .config/gh/hosts.yml", "1"]


def test_a_grant_goes_before(online):
    give(online, "KEY", canary(), "--tool-file", "netrc")
    own = online.operator.file("mine", "machine x\n")
    done = online.sh(RULES, "cat ~/.netrc", options=["-s", "KEY", "-v", f"{own}:/home/agent/.netrc"])
    assert done.ok() == "machine x\n"


def test_mistakes(online):
    give(online, "KEY", canary(), "--tool-file", "google-service-account")
    online.operator.run("--allow", "x.y", "-s", "KEY:netcr", "--", "true").sentence("'KEY:'", "netrc, npmrc")
    online.operator.run("--allow", "x.y", "-s", "KEY", "--", "true").sentence("'google-service-account'", "as an id")
    online.operator.cloister("secret", "add", "X", "--host", "a.b", "--tool-file", "netcr", input="x").sentence(
        "did you mean 'netrc'?")


def test_two_machines_in_netrc(online):
    """curl and git read it; each machine gets its own."""
    one = give(online, "ONE", canary(), "--in", "basic-password", "--id", "me")
    two = give(online, "TWO", canary(), "--in", "basic-password", host="up2.example.test")
    done = online.sh(RULES, f"{' '.join(CURL)} -n https://up.example.test/echo https://up2.example.test/echo; "
                     "git ls-remote https://up.example.test/locked.git 2>&1; cat ~/.netrc",
                     options=["-s", "ONE:netrc", "-s", "TWO:netrc"])
    assert done.out.count("machine ") == 2
    for name, user, real in (("up", "me", one), ("up2", "token", two)):
        seen = online.lab.seen(basic(user, real))
        assert seen and all(f"{name}.example.test" in line for line in seen)
        assert real not in done.out and basic(user, real) not in done.out
    assert any("info/refs" in line for line in online.lab.seen(basic("me", one)))


def test_two_secrets_for_one_machine(online):
    give(online, "ONE", canary())
    give(online, "TWO", canary())
    online.operator.run("--allow", "x.y", "-s", "ONE:netrc", "-s", "TWO:netrc", "--", "true").sentence(
        "'netrc'", "two secrets", "up.example.test")


@needs("npm")
def test_npm(online):
    real = give(online, "NPM", canary(), "--in", "header:authorization")
    done = online.sh(RULES, "npm ping --registry https://up.example.test/ 2>&1; cat ~/.npmrc",
                     options=["-s", "NPM:npmrc"])
    assert online.lab.seen(f"Bearer {real}") and real not in done.out


@needs("gh")
def test_gh(online):
    real = give(online, "GH", canary(), "--in", "header:authorization")
    done = online.sh(RULES, "unset GH; gh api --hostname up.example.test user", options=["-s", "GH:gh-hosts"])
    assert online.lab.seen(f"token {real}"), done
    assert real not in done.out


@needs("twine")
def test_twine(online):
    real = give(online, "PYPI", canary(), "--in", "basic-password")
    script = """
import io, tarfile
with tarfile.open("x-1.tar.gz", "w:gz") as tar:
    data = b"Metadata-Version: 2.1\\nName: x\\nVersion: 1\\n"
    info = tarfile.TarInfo("x-1/PKG-INFO"); info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
    tar.addfile(tarfile.TarInfo("x-1/x.py"))
"""
    done = online.sh(RULES, f"cd; /usr/bin/python3 -c '{script}' && twine upload --non-interactive --disable-progress-bar "
                     "-r up.example.test x-1.tar.gz", options=["-s", "PYPI:pypirc"])
    assert online.lab.seen(basic("__token__", real)), done
    assert real not in done.out


LOADS = """
import botocore.session, os
for profile in ("default", "other"):
    found = botocore.session.Session(profile=profile).get_credentials()
    print(found.access_key, found.secret_key)
"""


@needs_python("botocore")
def test_two_profiles_of_aws(online):
    for name, profile in (("ONE", "default"), ("TWO", "other")):
        give(online, name, f"AKIAABCDEFGH234567QR\n{canary()}", "--scheme", "sigv4", "--with", f"profile={profile}")
    done = online.python(RULES, LOADS, options=["-s", "ONE:aws-credentials", "-s", "TWO:aws-credentials"])
    assert len(set(done.ok().split())) == 4 and "AKIAABCDEFGH234567QR" not in done.out
    # The file alone is enough: it is what the variable says, too.
    done = online.sh(RULES, "cat $AWS_SHARED_CREDENTIALS_FILE", options=["-s", "ONE:aws-credentials"])
    assert "[default]" in done.ok()


@needs("aws")
def test_awscli(online):
    give(online, "ONE", f"AKIAABCDEFGH234567QR\n{canary()}", "--scheme", "sigv4", "--with", "region=eu-west-1")
    done = online.sh(RULES, "aws --endpoint-url https://up.example.test s3api list-buckets 2>&1; env | grep ^AWS",
                     options=["-s", "ONE:aws-credentials"])
    assert online.lab.seen("Credential=AKIAABCDEFGH234567QR/"), done
    assert "AKIAABCDEFGH234567QR" not in done.out and "AWS_ACCESS_KEY_ID" not in done.out


GOOGLE = """
import google.auth
credentials, project = google.auth.default()
print(credentials.service_account_email, project, len(credentials.sign_bytes(b"x")))
"""


@needs_python("google.auth")
def test_google_auth(online):
    key = online.outside("openssl", "genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
    key = key.out if key.status == 0 else online.outside("openssl", "genpkey", "-algorithm", "RSA").ok()
    account = "robot@my-project.iam.gserviceaccount.com"
    online.operator.cloister("secret", "add", "GOOGLE_SERVICE_ACCOUNT",
                             input=json.dumps({"client_email": account, "private_key": key})).ok()
    done = online.python(RULES, GOOGLE, options=["-s", "GOOGLE_SERVICE_ACCOUNT"])
    assert done.ok().split() == [account, "my-project", "256"]
    done = online.sh(RULES, "cat $GOOGLE_APPLICATION_CREDENTIALS", options=["-s", "GOOGLE_SERVICE_ACCOUNT"])
    held = json.loads(done.ok())
    assert held["type"] == "service_account" and held["private_key"].split()[4] not in key


# ---- exec --------------------------------------------------------------------------------

def test_exec_has_them_too(online):
    real = give(online, "KEY", canary(), "--in", "header:authorization", "--tool-file", "aws-credentials", "--id", "AKIAX")
    online.start(RULES, "sh", "-c", "echo $KEY >/tmp/key; exec sleep infinity", options=["-s", "KEY", "-e", "OTHER=1"])
    wait_until(lambda: online.inside("test", "-s", "/tmp/key").status == 0, "the key was written down")
    script = (f'test "$KEY" = "$(cat /tmp/key)" || exit 1; test -z "$OTHER" || exit 2; '
              f'test -f "$AWS_SHARED_CREDENTIALS_FILE" || exit 3; {" ".join(CURL)} -H "Authorization: $KEY" '
              'https://up.example.test/echo')
    online.inside("sh", "-c", script).ok()
    assert online.lab.seen(real)
    await_event(online, type="http", verdict="allow")
    # What is said there wins.
    assert online.operator.cloister("exec", "-e", "KEY=mine", online.cell, "--", "sh", "-c", "echo $KEY").ok() == "mine\n"
    online.operator.cloister("kill", online.cell).ok()
