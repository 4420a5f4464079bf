"""`cloister review` over real runs: the policy that it proposes is narrower, and enough for the same runs."""
import json
import re
import subprocess

from egress_lab import CURL
from test_egress_policy import CODE, UP, WWW

POLICY = """version: 1
egress:
  - allow: '*.example.test'
  - allow: [evil.test, other.test]
    methods: [GET, POST]
limits:
  pids: 500
"""
# What three runs do, and what they get with the wide policy.
RUNS = [
    [[f"{WWW}/hello"], [f"{UP}/echo?a=1"], ["-d", "x", f"{UP}/echo"]],
    [[f"{WWW}/up/echo"], ["-I", f"{WWW}/hello"], ["https://evil.test/hello"]],
    [["-X", "PUT", "-d", "x", f"{UP}/x/../echo"], ["http://www.example.test/hello"], ["https://nowhere.test/"]],
]


def again(online, file, folder, granted=()):
    """Each run's codes, its files and its processes are the same each time."""
    seen = []
    for i, requests in enumerate(RUNS):
        lines = "; echo; ".join(" ".join(f"'{word}'" for word in [*CURL, *CODE, *words]) for words in requests)
        done = online.sh(file, f"{lines}; echo; ls {folder} >/dev/null; echo {i} >>{folder}/log; (seq 20 | xargs -P 8 -n 1 true); "
                         "head -c 30000000 /dev/zero | tail -c 1 | od -An -c", options=granted)
        seen.append((done.status, done.out.split()))
    return seen


def test_the_proposed_policy_is_enough(online):
    operator = online.operator
    folder, idle = operator.folder("used"), operator.folder("idle", {"x": "y"})
    granted = ["-v", f"{folder}:{folder}:rw", "-v", f"{idle}:{idle}:ro"]
    # Of an ordinary user, not every machine can limit memory.
    wide = POLICY + ("  memory: 2G\n" if operator.is_root else "")
    file = online.policy(wide, "wide.yaml")
    first = again(online, file, folder, granted)
    assert [codes[:3] for _, codes in first] == [["200", "200", "200"], ["200", "200", "200"], ["200", "200", "000"]], first
    review = operator.cloister("review", "-p", file, "--last", "3", online.cell, "sh").ok()
    assert f"{idle} (ro)  never used" in review and "nowhere.test" in review, review
    diff = operator.cloister("review", "--diff", "-p", file, "--last", "3", "sh").ok()
    assert "-  - allow: '*.example.test'" in diff and "other.test" in diff, diff
    narrow = operator.file("narrow.yaml", file.read_text())
    subprocess.run(["patch", "-s", str(narrow)], input=diff.encode(), check=True)
    text = narrow.read_text()
    assert not re.search(r"other\.test|\*\.example", text) and text != wide, text
    operator.cloister("policy", "check", narrow).ok()
    # The same runs again: nothing that was permitted is refused, and limits are not in the way.
    assert again(online, narrow, folder, granted) == first, text
    # What they did not use is gone.
    for words in (["https://api.example.test/hello"], ["https://other.test/"], ["-X", "DELETE", f"{UP}/echo"]):
        assert online.curl(narrow, *CODE, *words).out in ("403", "000"), words
    # A second review has nothing more to say.
    later = operator.cloister("review", "--json", "-p", narrow, "--last", "3", "sh").ok()
    assert json.loads(later)["runs"] == 3
