"""`cloister review`: what runs used of what they were permitted, and the narrower policy."""
import json
import shutil
import subprocess

import pytest

pytest.importorskip("cryptography")
from record_world import END, witnessed    # noqa: E402
from test_audit import World               # noqa: E402

POLICY = """version: 1
egress:
  # The forge.
  - allow: git.example
  - allow: '*.cdn.example'
    paths: ['/**']

  - allow: [npm.example, yarn.example]
    methods: [GET, POST]
  - {allow: flow.example}
  - ask: deploy.example
  - deny: evil.example
limits:
  memory: 4G
  pids: 1000
"""
GRANT = {"argv": ["/usr/bin/agent", "x"], "chain": "boss/fixer", "secrets": ["USED", "IDLE"],
         "grants": [{"access": "rw", "cell": "/work", "host": "/home/u/work"}, {"access": "ro", "cell": "/data", "host": "/data"},
                    {"access": "rw", "cell": "/out", "host": "/out"}],
         "limits": {"memory": 4 << 30, "pids": 1000, "time_ms": 86400000}}


def request(host, method="GET", rule=(4, "allow git.example"), **more):
    return {"type": "http", "verdict": "allow", "method": method, "scheme": "https", "host": host, "port": 443, "path": "/a/b",
            "status": 200, "sent": 0, "received": 1, "ms": 1, "rule": f"cloister.yaml:{rule[0]}:5", "rule_text": rule[1], **more}


CDN = (5, "allow *.cdn.example paths [/**]")
NPM = (8, "allow npm.example, yarn.example methods [GET, POST]")
ASK = (11, "ask deploy.example")
RUN = [{"type": "record", "level": "acts", "by": "ebpf"},
       request("git.example", secrets=["USED"]), request("git.example", "POST"), request("a.cdn.example", rule=CDN),
       request("npm.example", rule=NPM), request("deploy.example", "PUT", ASK, approved_by="uid:0", approval="1"),
       {"type": "http", "verdict": "deny", "why": "rule", "method": "GET", "scheme": "https", "host": "evil.example", "port": 443,
        "path": "/\x1b[2J", "rule": "cloister.yaml:12:5", "rule_text": "deny evil.example", "count": 3},
       {"type": "dns", "verdict": "deny", "why": "no-rule", "host": "x.example"},
       {"type": "refused", "pid": 2, "call": "ptrace", "args": "", "count": 5},
       {"type": "file", "pid": 2, "act": "read", "path": "/out/a", "grant": "/out", "count": 1},
       {"type": "file", "pid": 2, "act": "write", "path": "/work/a", "grant": "/work", "count": 2}]
DIFF = """--- cloister.yaml
+++ cloister.yaml
@@ -1,15 +1,17 @@
 version: 1
 egress:
   # The forge.
   - allow: git.example
+    methods: [GET, POST]
-  - allow: '*.cdn.example'
+  - allow: a.cdn.example
+    methods: [GET]
     paths: ['/**']
_
-  - allow: [npm.example, yarn.example]
+  - allow: npm.example
     methods: [GET, POST]
-  - {allow: flow.example}
   - ask: deploy.example
+    methods: [PUT]
   - deny: evil.example
 limits:
-  memory: 4G
+  memory: 64M
-  pids: 1000
+  pids: 32
""".replace("\n_\n", "\n \n")


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path / "w")
    world.file = tmp_path / "cloister.yaml"
    world.file.write_text(POLICY)
    for i, cell in enumerate(("aaaaaaaa", "bbbbbbbb")):
        boot = {"type": "cell.boot", "grant": GRANT}
        world.keep(witnessed(cell, RUN[:2] if i else RUN, boot, {**END, "peak": 9 << 20, "processes": 3}))
    return world


def test_a_review_finds_what_was_not_used(world):
    said = world.cloister("review", "-p", world.file, "fixer").ok()
    for line in ("2 runs, 2026-11-15 to 2026-11-15",
                 "  cloister.yaml:4:5  allow git.example\n      3 requests in 2 of 2 runs; methods GET, POST; hosts git.example",
                 "  cloister.yaml:10:5  allow flow.example\n      never used",
                 "      approved every time (1): an `allow` rule would do the same",
                 "Refused\n", "  rule evil.example  3 times in 1 of 2 runs", "  no-rule x.example  1 time in 1 of 2 runs",
                 "  call ptrace  5 times in 1 of 2 runs",
                 "  /work (rw)  used in 1 of 2 runs", "  /data (ro)  never used", "  /out (rw)  only read: `ro` is enough",
                 "  USED  2 requests in 2 of 2 runs", "  IDLE  never used",
                 "  memory  at most 9M of 4G: never near; 64M is enough", "  pids  at most 3 of 1000: never near; 32 is enough"):
        assert line in said, (line, said)
    assert said.endswith("This would have been enough:\n\n" + DIFF), said
    # By the cell, its agent and its program; the last run alone.
    for word in ("aaaaaaaa", "fixer", "agent"):
        assert json.loads(world.cloister("review", "--json", "--last", "1", word).ok())["runs"] == 1
    assert "name the policy with -p" in world.cloister("review", "agent").ok()
    for words, hint in ((["nobody"], "there is no run to review"), ([], "nothing to review"), (["--last", "0", "x"], "0")):
        assert hint in world.cloister("review", *words).err


def test_limits_have_headroom(world):
    """Processes may be known only as they were once a second, memory as it was at most."""
    for cell in ("aaaaaaaa", "bbbbbbbb"):
        world.keep(witnessed(cell, RUN, {"type": "cell.boot", "grant": GRANT}, {**END, "peak": 70 << 20, "processes": 20}))
    said = world.cloister("review", "-p", world.file, "fixer").ok()
    assert "at most 70M of 4G: never near; 256M is enough" in said and "at most 20 of 1000: never near; 128 is enough" in said


def test_the_diff_applies_and_the_narrower_policy_is_enough(world):
    diff = world.cloister("review", "--diff", "-p", world.file, "fixer").ok()
    assert diff == DIFF
    if shutil.which("patch"):
        subprocess.run(["patch", "-s", world.file], input=diff.encode(), check=True)
        world.cloister("policy", "check", world.file).ok()
        for method, host, verdict in (("POST", "git", "allow"), ("PUT", "git", "deny"), ("GET", "a.cdn", "allow"), ("GET", "b.cdn", "deny"),
                                      ("GET", "flow", "deny")):
            said = world.cloister("policy", "explain", world.file, method, f"https://{host}.example/a/b").ok()
            assert f"\n{verdict}" in said, said


def test_a_policy_that_would_refuse_what_was_allowed_is_not_proposed(world):
    """A record can claim anything: a rule that looks unused may be what allowed a request."""
    boot = {"type": "cell.boot", "grant": GRANT}
    world.keep(witnessed("cccccccc", [request("flow.example", rule=(4, "allow git.example"))], boot, END))
    said = world.cloister("review", "--diff", "-p", world.file, "cccccccc")
    assert said.status == 125 and "no narrower policy was found" in said.err, said


def test_a_program_that_ran_was_used(world):
    """The kernel reads a program that it starts, and its interpreter reads the script."""
    acts = [RUN[0], {"type": "exec", "pid": 2, "parent": 1, "path": "/opt/node", "script": "/data/lib/cli.js", "argv": ["node"]},
            {"type": "exec", "pid": 3, "parent": 2, "path": "/out/tool", "argv": ["tool"], "error": "EACCES"}]
    world.keep(witnessed("eeeeeeee", acts, {"type": "cell.boot", "grant": GRANT}, END))
    said = world.cloister("review", "eeeeeeee").ok()
    assert "  /data (ro)  used in 1 of 1 run" in said and "  /out (rw)  never used" in said, said


def test_a_cell_comes_before_a_program_of_its_name(world):
    named = {**GRANT, "argv": ["/usr/bin/aaaaaaaa"]}
    world.keep(witnessed("ffffffff", RUN[:1], {"type": "cell.boot", "grant": named}, END))
    assert json.loads(world.cloister("review", "--json", "aaaaaaaa").ok())["runs"] == 1
    # The runs of a profile are those of its program.
    mine = world.file.parent / "config/cloister/profiles/mine.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("version: 1\nprogram: agent\n")
    world.env["XDG_CONFIG_HOME"] = str(world.file.parent / "config")
    assert json.loads(world.cloister("review", "--json", "mine").ok())["runs"] == 2


def test_the_comment_of_a_rule_goes_with_it(world):
    world.file.write_text("version: 1\negress:\n  # 2 requests\n  - allow: git.example\n  # 1 request\n  - allow: old.example\n"
                          "  # Both.\n  - allow: flow.example\n  - allow: a.example\n")
    diff = world.cloister("review", "--diff", "-p", world.file, "fixer").ok()
    assert "-  # 1 request\n-  - allow: old.example\n" in diff and "   # 2 requests\n" in diff, diff
    assert "   # Both.\n-  - allow: flow.example\n" in diff, diff
