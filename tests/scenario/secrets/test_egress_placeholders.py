"""A placeholder in a conversation passes where the policy says so; anywhere else it is a tripwire."""
import json

import pytest

from egress_lab import CURL, WEBSOCKET, needs_npm, needs_python
from test_egress_secrets import OPEN, UP, canary, fetch, give, sh

PASS = "  - allow: up.example.test\n    placeholders: pass\n"
REAL = "sk-ant-api03-" + "Zq9" * 31 + "AA"


def passed(online):
    """The notes that a placeholder passed."""
    return [e for e in online.events(type="secret") if e.get("why") == "passed"]


@pytest.mark.parametrize("words", [
    "my key is $KEY", '{\\"a\\":\\"$KEY\\"}', "$(printf %s $KEY | base64 -w0)", "$(printf %9999s.) $KEY"])
@pytest.mark.parametrize("how", ["-H content-type:application/json", "-H transfer-encoding:chunked"])
@pytest.mark.parametrize("places", [("--in", "header:authorization"), ("--in", "body")], ids=["header", "body"])
def test_in_a_body(online, words, how, places):
    """Unchanged, even if the secret itself may be in bodies: a message to a model is not a login."""
    real = canary()
    give(online, real, *places)
    done, fake, said = sh(online, f'printf %s "{words}" >said; sha256sum <said | cut -c-64;' +
                          fetch(how, "--data-binary @said", f"{UP}/echo"), rules=PASS)
    sent, _, said = said.partition("\n")
    assert json.loads(said)["sha256"] == sent
    (note,) = passed(online)
    assert note["verdict"] == "allow" and note["host"] == "up.example.test" and note["secret"] == "KEY"
    assert not online.events(verdict="deny")


def test_it_is_noted_once_for_each_host(online):
    give(online, canary())
    ask = fetch('-d "$KEY"', f"{UP}/echo") + ";"
    sh(online, ask * 3 + fetch('-d "$KEY"', "https://www.example.test/up/echo"),
       rules=PASS.replace("up.example.test", "'*.example.test'"))
    assert [e["host"] for e in passed(online)] == ["up.example.test", "www.example.test"]
    told = online.operator.cloister("events", online.cell).ok()
    assert told.count("passed as it is") == 2


@pytest.mark.parametrize("words", ['-H "X-Other: $KEY"', f'"{UP}/echo?key=$KEY"', f'"{UP}/echo/$KEY"'])
def test_not_in_a_head(online, words):
    give(online, canary())
    done, fake, said = sh(online, fetch(words, "" if UP in words else f"{UP}/echo"), rules=PASS)
    assert online.refusal()["why"] == "exfiltration" and not online.lab.seen(fake)


def test_placeholders_do_not_pass_without_the_outer_policys_consent(online):
    give(online, canary())
    outer = online.policy(f"version: 1\negress:\n{OPEN}secrets: [KEY]\n", "outer.yaml")
    done, fake, said = sh(online, fetch('-d "$KEY"', f"{UP}/echo"), rules=PASS,
                          options=("-s", "KEY", "--within", outer))
    assert online.refusal()["why"] == "exfiltration" and not online.lab.seen(fake)


def test_other_credentials_are_still_found(online):
    """Only placeholders, which are worthless, pass; other keys do not."""
    give(online, canary())
    aws = "AKIA" + "Q3EGRIKLMN5TZ7XY"
    done, _, said = sh(online, fetch(f'-d "$KEY aws_access_key_id={aws} aws_secret_access_key='
                                     'wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzabcdZKEY"', f"{UP}/echo"), rules=PASS)
    assert online.refusal()["why"] == "secret", online.events()


@pytest.mark.parametrize("rules", [
    "  - deny: api.anthropic.com\n    body: {regex: ['BEGIN CONFIDENTIAL']}\n  - include: anthropic\n",
    "  - allow: api.anthropic.com\n    body: {json: {/model: 'm*'}}\n    placeholders: pass\n",
    "  - include: anthropic\n"], ids=["refused by its body", "allowed by its body", "preset"])
def test_a_key_of_a_known_shape(online, rules):
    """It looks like a credential, which it is not."""
    online.operator.cloister("secret", "add", "ANTHROPIC_API_KEY", input=REAL).ok()
    ask = " ".join([*CURL, '-H "x-api-key: $ANTHROPIC_API_KEY" -H "content-type: application/json"',
                    '-d "{\\"model\\":\\"m\\",\\"messages\\":[{\\"role\\":\\"user\\",\\"content\\":'
                    '\\"$ANTHROPIC_API_KEY\\"}]}"', "https://api.anthropic.com/v1/messages"])
    done = online.sh(rules, ask, options=("-s", "ANTHROPIC_API_KEY"))
    assert "hello from the model" in done.ok(), (done, online.events())
    assert online.lab.seen(f'"key": "{REAL}"') and passed(online)


TALK = WEBSOCKET + """
async def main():
    async with websockets.connect("wss://ws.example.test/") as ws:
        await ws.recv()
        await ws.send("my key is " + os.environ["KEY"])
        print(os.environ["KEY"], await ws.recv())
asyncio.run(main())
"""


@needs_python("websockets")
def test_in_a_message(online):
    real = canary()
    online.operator.cloister("secret", "add", "KEY", "--host", "ws.example.test", "--in", "header", input=real).ok()
    done = online.python("  - allow: ws.example.test\n    websocket: true\n    placeholders: pass\n", TALK,
                         options=("-s", "KEY"))
    fake, said = done.ok().split(maxsplit=1)
    assert f"my key is {fake}" in said and online.lab.seen(f"my key is {fake}")
    assert [e["host"] for e in passed(online)] == ["ws.example.test"]


@needs_npm("claude")
def test_claude_prints_its_environment(online):
    """And goes on: the model gets the tool's output, and answers."""
    real = canary()
    give(online, real)
    online.operator.cloister("secret", "add", "ANTHROPIC_API_KEY", input=REAL).ok()
    done = online.run("  - include: anthropic\n", "claude", "--dangerously-skip-permissions", "-p", "run [[env]]",
                      options=("-s", "ANTHROPIC_API_KEY", "-s", "KEY", "-v", f"{online.lab.folder / 'npm'}:/opt/npm:ro",
                               "-e", "PATH=/opt/npm/node_modules/.bin:/usr/bin:/bin"), seconds=120)
    assert "the tool said: " in done.ok() and "\nKEY=" in done.out and "\nANTHROPIC_API_KEY=sk-ant-" in done.out, done.out
    assert REAL not in done.out and real not in done.out and online.lab.seen(REAL)
    assert not online.events(why="exfiltration") and not online.events(why="secret")
    assert [e["host"] for e in passed(online)] == ["api.anthropic.com"]
