"""`secrets:` in a policy: the policies that may have it, and its effects."""
import json

import pytest

from egress_lab import CURL
from test_egress_secrets import UP, canary, give

POLICY = "version: 1\negress:\n  - allow: '*.example.test'\nsecrets: {secrets}\n"
DEFINED = "{KEY: {hosts: up.example.test, in: ['header:authorization']}}"



def send(online, policy, *options, variable="KEY"):
    """The placeholder in VARIABLE, and whatever the server was sent as authorization."""
    done = online.sh(policy, f'echo ${variable}; {" ".join(CURL)} -H "Authorization: Bearer ${variable}" '
                     f"{UP}/echo", options=options)
    fake, _, said = done.ok().partition("\n")
    return fake, said


def policy(online, secrets, name="policy.yaml"):
    return online.policy(POLICY.replace("{secrets}", secrets), name)


@pytest.mark.parametrize("secrets, variable", [("[KEY]", "KEY"), ("[KEY=OTHER]", "OTHER"), ("{KEY: }", "KEY")])
def test_names(online, secrets, variable):
    real = canary()
    give(online, real)
    fake, said = send(online, policy(online, secrets), variable=variable)
    assert len(fake) == len(real) and fake != real
    assert online.lab.seen(real) and f"Bearer {fake}" in said


def test_a_definition_is_put_before_the_vaults(online):
    real = canary()
    online.operator.cloister("secret", "add", "KEY", "--host", "other.example.test", input=real).ok()
    send(online, policy(online, DEFINED))
    assert online.lab.seen(real)


def test_a_definition_with_a_file(online):
    real = canary()
    file = online.operator.file("home/token", real)
    send(online, policy(online, DEFINED.replace("}}", f", from: 'file:{file}'}}}}")))
    assert online.lab.seen(real)


def test_the_command_line_wins(online):
    real, other = canary(), canary()
    give(online, real)
    give(online, other, name="MORE")
    where = policy(online, "{KEY: {hosts: other.example.test}}")
    fake, _ = send(online, where, "-s", "KEY=VAR@up.example.test", "-s", "MORE", variable="VAR")
    assert fake and online.lab.seen(real)
    # What the policy says of it holds where -s says nothing.
    done = online.sh(where, f'{" ".join(CURL)} -H "Authorization: Bearer $VAR" {UP}/echo',
                     options=["-s", "KEY=VAR"])
    assert json.loads(done.out)["error"] == "refused by cloister"
    assert online.refusal()["why"] == "exfiltration"


def test_the_nearer_file_wins(online):
    real, base = canary(), canary()
    give(online, real)
    give(online, base, name="BASE")
    online.operator.file("base.yaml", "version: 1\nsecrets: {KEY: {hosts: other.example.test}, BASE: }\n")
    where = policy(online, DEFINED + "\nextends: base.yaml")
    send(online, where)
    assert online.lab.seen(real)
    send(online, where, variable="BASE")
    assert online.lab.seen(base)


def test_no_program_is_run_for_a_policy(online):
    ran = online.operator.base / "ran"
    where = policy(online, DEFINED.replace("}}", f", from: 'cmd:/usr/bin/touch {ran}'}}}}"))
    online.operator.run("-p", where, "--", "true").sentence(f"{where}:4:", "starts no program", "secret add KEY")
    assert not ran.exists()


def test_a_file_that_was_only_found_gives_nothing(online):
    """It may be a stranger's, as in a clone."""
    give(online, canary())
    folder = online.operator.folder("work", {"cloister.yaml": POLICY.replace("{secrets}", "[KEY]")})
    online.operator.run("-w", folder, "--", "true").sentence("cloister.yaml:4:", "-p", "--no-policy")
    online.operator.run("-w", folder, "-p", folder / "cloister.yaml", "--", "sh", "-c", 'test -n "$KEY"').ok()
    online.operator.run("-w", folder, "--no-policy", "--", "sh", "-c", 'test -z "$KEY"').ok()


def test_a_file_that_an_agent_could_write_gives_nothing(online):
    give(online, canary())
    folder = online.operator.folder("work", {"cloister.yaml": POLICY.replace("{secrets}", "[KEY]")})
    named = ["-p", folder / "cloister.yaml", "--", "true"]
    online.operator.run(*named).ok()
    online.operator.run("-w", f"{folder}:rw", *named).sentence("this cell could change", ":overlay")
    # A cell that was refused wrote nothing; one that ran could have.
    online.operator.run(*named).ok()
    online.operator.run("-w", f"{folder}:rw", "--no-policy", "--", "true").ok()
    online.operator.run(*named).sentence("an agent can or could write")


@pytest.mark.parametrize("way", ["work/link.yaml", "work/folder/other.yaml", "link.yaml"])
def test_a_link_that_an_agent_could_make_gives_nothing(online, way):
    """The agent would choose which of the operator's files is used, or change it during the check."""
    give(online, canary())
    theirs = policy(online, "[KEY]", "other.yaml")
    folder = online.operator.folder("work")
    (folder / "link.yaml").symlink_to(theirs)
    (folder / "folder").symlink_to(theirs.parent)
    (theirs.parent / "link.yaml").symlink_to("work/link.yaml")
    online.operator.run("-p", theirs.parent / way, "--", "true").ok()
    online.operator.run("-w", f"{folder}:rw", "--no-policy", "--", "true").ok()
    online.operator.run("-p", theirs.parent / way, "--", "true").sentence("an agent can or could write")
    online.operator.run("-p", theirs, "--", "true").ok()
    base = online.operator.file("extends.yaml", f"version: 1\nextends: ./{way}\negress: []\n")
    online.operator.run("-p", base, "--", "true").sentence("an agent can or could write")


@pytest.mark.parametrize("secrets, complaint", [
    ("KEY", ":4:10: `secrets` are a list"), ("[a b]", ":4:11: a secret is given as"),
    ("{a: {hots: x}}", ":4:15: there is no key 'hots'"),
])
def test_mistakes_have_a_place(online, secrets, complaint):
    where = policy(online, secrets)
    online.operator.run("-p", where, "--", "true").sentence(f"{where}{complaint}")
    for words in (["check", where], ["explain", where, f"{UP}/"], ["test", where]):
        done = online.operator.cloister("policy", *words)
        assert done.status == 1 and f"{where}{complaint}" in done.err + done.out


def test_policy_commands_read_it(online):
    where = policy(online, DEFINED)
    assert "1 rule" in online.operator.cloister("policy", "check", where).ok()
    assert "allow" in online.operator.cloister("policy", "explain", where, f"{UP}/").ok()


def test_two_in_one_variable(online):
    """The first would be lost, without a word."""
    for name in "KEY", "SECOND":
        online.operator.cloister("secret", "add", name, "--host", "up.example.test", input=canary()).ok()
    online.operator.run("-p", policy(online, "[KEY, SECOND=KEY]"), "--", "true").sentence("KEY", "-s")


def test_a_secret_without_a_value(online):
    online.operator.run("-p", policy(online, "[KEY]"), "--", "true").sentence("there is no secret 'KEY'")
    online.operator.run("-p", policy(online, DEFINED), "--", "true").sentence("there is no secret 'KEY' in the vault")
