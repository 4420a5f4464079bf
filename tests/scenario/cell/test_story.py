"""`make demo` holds what it claims, for root and an ordinary user; its recording is of this program."""
import json
import re
import subprocess

import pytest

from operators import TREE, as_one

STEPS = ["DENIED", "EXPLAINED", "ALLOWED", "ASKED", "SWAPPED", "REVOKED", "PROVED"]
RECORDING = TREE / "docs/recording/story.cast"
# What is another one at each run.
OWN = [(r"\bdemo_[\w+/-]{10,}", "PLACEHOLDER"), (r"internal:\d+", "internal:PORT"), (r"\b[a-z0-9]{8}(?=-1\b)", "CELL"),
       (r"cell/[a-z0-9]{8}\b", "cell/CELL"), (r"\x1b\[[0-9;]*m", ""), (r"\r", ""),
       (r"(prove agent|proves record) \d+", r"\1 N")]


def plain(text):
    for form, word in OWN:
        text = re.sub(form, word, text)
    return text


@pytest.fixture
def tell(operator):
    """Run the story; what it printed."""
    for name in ("story.sh", "story_service.py"):
        operator.file(f"tools/{name}", (TREE / "tools" / name).read_text()).chmod(0o755)
    tmp = operator.folder("tmp")

    def tell(cloister=None, **env):
        done = operator.do(operator.base / "tools/story.sh",
                           env={"CLOISTER": str(cloister or operator.program), "TMPDIR": str(tmp), **env})
        assert list(tmp.iterdir()) == [], "it left its folder behind"
        return done
    return tell


def test_the_story(tell):
    done = tell()
    said = done.ok()
    assert done.err == "" and "✗" not in said
    assert re.findall(r"^[A-Z]{5,}", said, flags=re.M) == STEPS
    assert len(said.splitlines()) <= 30 and max(map(len, said.splitlines())) <= 110, "it is one screen"
    # The recording shows the same.
    head, *events = map(json.loads, RECORDING.read_text().splitlines())
    assert head["version"] == 2 and (head["width"], head["height"]) == (110, 32)
    assert [e[1] for e in events] == ["o"] * len(events)
    times = [e[0] for e in events]
    assert times == sorted(times) and 85 <= times[-1] <= 95
    assert plain("".join(e[2] for e in events)) == plain(said)


# A stand-in that breaks one promise, and does the rest with the program itself.
BROKEN = """#!/bin/sh
case "$*" in
{when}) {instead} ;;
*) exec {program} "$@" ;;
esac
"""


@as_one
@pytest.mark.parametrize("when, instead, complaint", [
    ("'exec agent -- curl'*/notes", "echo three notes", "it was not refused"),
    ("'why agent'", "true", "there is no rule"),
    ("'exec agent -- sh -c echo'*", "echo nothing", "the agent has no placeholder"),
    ("'revoke agent'*", "true", "the key still works"),
    ("'audit verify '*forged*", "true", "a forged proof passes"),
], ids=["denied", "explained", "swapped", "revoked", "proved"])
def test_the_story_fails_where_a_claim_does_not_hold(operator, tell, when, instead, complaint):
    broken = operator.file("broken", BROKEN.format(when=when, instead=instead, program=operator.program))
    broken.chmod(0o755)
    done = tell(broken)
    assert done.status == 1 and complaint in done.out, done


@as_one
def test_the_recorder(operator, tell, tmp_path):
    """Its file plays the text of a run, in ninety seconds."""
    script = "\n".join(["#!/bin/sh", "echo An agent", "echo DENIED it is", "echo '  $ curl x'", "echo done"])
    folder = operator.folder("recorder", {"story.sh": script, "record.py": (TREE / "tools/record.py").read_text()})
    (folder / "story.sh").chmod(0o755)
    subprocess.run(["/usr/bin/python3", folder / "record.py", tmp_path / "cast"], check=True)
    _, *events = map(json.loads, (tmp_path / "cast").read_text().splitlines())
    assert "".join(e[2] for e in events).replace("\r", "") == "An agent\nDENIED it is\n  $ curl x\ndone\n"
    assert events[-1][0] == 90 and ["c", "u", "r", "l"] == [e[2] for e in events][3:7]
