"""A real agent waits for an approval, and goes on."""
import json
import subprocess

import pytest

from approvals import UP
from egress_lab import needs_npm
from operators import wait_until
from test_egress_agents import CLAUDE, SECONDS

pytestmark = pytest.mark.parametrize("who", ["user"])

RULES = """  - include: anthropic
  - ask: up.example.test
    methods: [POST]
    reason: a person looks at what is sent
"""


@needs_npm("claude")
def test_claude_waits_and_goes_on(online):
    operator = online.operator
    options = ["-v", f"{online.lab.folder / 'npm'}:/opt/npm:ro", "-e", "ANTHROPIC_API_KEY=of-the-tests",
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
    assert "method: POST" in out.decode() and "size: 6" in out.decode(), out
    # Whoever sits at the terminal was told where to look.
    assert f"cloister approve {shown['id']}" in err.decode()
