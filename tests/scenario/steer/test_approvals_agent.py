"""A real agent works with a placeholder, waits for an approval, and goes on."""
import json
import subprocess

import pytest

from approvals import UP
from egress_lab import needs_npm
from operators import wait_until
from test_egress_agents import CLAUDE, SECONDS
from test_egress_secrets import canary

pytestmark = pytest.mark.parametrize("who", ["user"])

RULES = """  - include: anthropic
  - ask: up.example.test
    methods: [POST]
    reason: a person looks at what is sent
"""


@needs_npm("claude")
def test_claude_waits_and_goes_on(online, request):
    operator = online.operator
    # The model answers nobody without the real one.
    real = "sk-ant-api03-" + canary()
    keys = online.lab.folder / "model.keys"
    keys.write_text(real)
    request.addfinalizer(keys.unlink)
    operator.cloister("secret", "add", "ANTHROPIC_API_KEY", "--like", "anthropic", input=real).ok()
    options = ["-v", f"{online.lab.folder / 'npm'}:/opt/npm:ro", "-s", "ANTHROPIC_API_KEY",
               "-e", "PATH=/opt/npm/node_modules/.bin:/usr/bin:/bin"]
    agent = operator.start("-p", online.policy(RULES), "--id", "asks4one", *options, "--", *CLAUDE,
                           f"run [[curl -sS -d to=ann {UP}/echo | tr -d '\"']]",
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    operator.kept.add("asks4one")
    shown = json.loads(wait_until(lambda: operator.cloister("approvals", "--json").ok(), "it asks", SECONDS))
    assert shown["body"]["shape"] == 'to = "ann"' and shown["reason"] == "a person looks at what is sent"
    operator.cloister("approve", shown["id"]).ok()
    out, err = agent.communicate(timeout=SECONDS)
    assert agent.returncode == 0, (out, err)
    assert real not in out.decode() + err.decode()
    assert "method: POST" in out.decode() and "size: 6" in out.decode(), out
    # Whoever sits at the terminal was told where to look.
    assert f"cloister approve {shown['id']}" in err.decode()
