"""`diff` and `apply` where the workspace changed too: files are merged, or left alone and named."""
import json
import os
import stat
import subprocess

import pytest

from terminal import Terminal

NUMBERS = "".join(f"{n}\n" for n in range(1, 41))
FILES = {name: NUMBERS for name in ("both", "clash", "gone", "only", "mode", "old", "folder/moved")}
FILES["binary"] = "\0\n"

# Everything that the cell does to them.
AGENT = """
set -e
sed -i 's/^2$/two/' both clash gone
sed -i 's/^2$/two/; s/^33$/drei/' only
printf '\\0x\\n' >binary
chmod 700 mode
mkdir lib; mv folder/moved lib/moved; rm -r folder
mv old new; sed -i 's/^20$/twenty/' new
"""


def changed(text, number, word):
    return text.replace(f"\n{number}\n", f"\n{word}\n")


@pytest.fixture
def workspace(operator):
    return operator.folder("workspace", FILES)


@pytest.fixture
def cell(operator, workspace):
    """A cell that has ended, after which the operator went on to work."""
    id = operator.change(workspace, AGENT)
    operator.host("sed -i 's/^35$/here/' both mode; sed -i 's/^2$/TWO/' clash; rm gone; printf '\\0y\\n' >binary",
                  cwd=workspace)
    return id


def test_merges_and_leaves_the_rest_alone(operator, workspace, cell):
    assert operator.cloister("diff", "--name-status", cell).ok() == (
        "M binary  (changed here too)\nM both  (changed here too)\nM clash  (changed here too)\nD folder/\n"
        "A gone  (changed here too)\nA lib/\nR folder/moved -> lib/moved\nM mode  (changed here too)\nR old -> new\nM only\n")
    shown = operator.cloister("diff", cell).ok()
    assert "M both  (changed here too: apply merges both)\n" in shown
    assert "M clash  (changed here too: conflict)\n" in shown and "-TWO" not in shown
    listed = {c["path"]: c for c in json.loads(operator.cloister("diff", "--json", cell).ok())}
    assert listed["both"]["changed_here"] and not listed["only"]["changed_here"]
    assert listed["new"]["renamed_from"] == "old" and listed["lib"]["renamed_from"] is None

    said = operator.cloister("apply", cell)
    assert said.status == 1 and "3 changes are left alone" in said.err
    assert said.out == (
        "! binary  (it changed here too, and is not text that can be merged)\nM both  (merged)\n"
        "! clash  (conflict: the same lines changed here)\nD folder\n"
        "! gone  (one side removed it, the other changed it)\nA lib\nA lib/moved\nM mode  (merged)\nA new\nD old\nM only\n")
    assert (workspace / "both").read_text() == changed(changed(NUMBERS, 2, "two"), 35, "here")
    assert (workspace / "clash").read_text() == changed(NUMBERS, 2, "TWO")
    assert not (workspace / "gone").exists() and (workspace / "binary").read_text() == "\0y\n"
    assert (workspace / "mode").read_text() == changed(NUMBERS, 35, "here")
    assert stat.S_IMODE((workspace / "mode").stat().st_mode) == 0o700

    said = operator.cloister("apply", "--markers", cell, "clash")
    assert said.status == 1 and said.out == "M clash  (merged, with conflict markers)\n" and "<<<<<<<" in said.err
    assert (workspace / "clash").read_text().startswith(f"1\n<<<<<<< here\nTWO\n=======\ntwo\n>>>>>>> {cell}\n3\n")
    operator.cloister("apply", "--force", cell).ok()
    assert (workspace / "binary").read_text() == "\0x\n" and (workspace / "gone").exists()
    assert operator.names(operator.state) == []


def test_asks_about_files_and_hunks(operator, workspace, cell):
    operator.cloister("apply", "-i", cell).sentence("--interactive", "terminal")
    for option in ("--force", "--markers"):
        operator.cloister("apply", "-i", option, cell).sentence("--interactive", option)
    terminal = Terminal(operator, operator.program, "apply", "--interactive", cell, env={"NO_COLOR": "1"})
    answers = [(r"M binary .*leaves it alone\)\r\nM both .*merges both\)", None), (r"\(1/1\) Apply this hunk", "y"),
               (r"M clash .*conflict\)", None), (r"D folder/\r\nApply this deletion", "n"), (r"A lib/moved", None),
               (r"Apply this addition", "y"), (r"M mode .*merges", None), (r"Apply this change", "d"),
               (r"A new", None), (r"addition", "?"), (r"y - apply this addition", None), (r"Apply this addition", "n"),
               (r"D old", None), (r"deletion", "n"), (r"\(1/2\) Apply this hunk", "n"), (r"\+drei", None),
               (r"\(2/2\) Apply this hunk", "a")]
    for pattern, key in answers:
        terminal.expect(pattern)
        if key:
            terminal.type(f"{key}\n")
    assert terminal.end() == 1
    assert (workspace / "both").read_text() == changed(changed(NUMBERS, 2, "two"), 35, "here")
    assert (workspace / "only").read_text() == changed(NUMBERS, 33, "drei")
    assert (workspace / "lib/moved").exists() and (workspace / "folder/moved").exists()
    assert (workspace / "old").exists() and not (workspace / "new").exists()
    left = operator.cloister("diff", "--name-status", cell).ok()
    assert "M only  (changed here too)\n" in left and "both" not in left and "D folder/\n" in left

    # What is left of a file can be applied later.  "q" keeps what was chosen before it.
    terminal = Terminal(operator, operator.program, "apply", "--interactive", cell, "only", "new", "old")
    for pattern, key in ((r"addition \[", "q"),):
        terminal.expect(pattern)
        terminal.type(f"{key}\n")
    assert terminal.end() == 0 and not (workspace / "new").exists()
    assert operator.cloister("apply", cell, "only").ok() == "M only  (merged)\n"
    assert (workspace / "only").read_text() == changed(changed(NUMBERS, 2, "two"), 33, "drei")


def test_an_answer_is_about_what_was_shown(operator):
    """Links and modes are shown; a file that changes before the last answer is not applied."""
    workspace = operator.folder("shown", {"hunks": NUMBERS, "whole": "here\n"})
    os.symlink("old-target", workspace / "link")
    cell = operator.change(workspace, "sed -i 's/^2$/two/; s/^33$/drei/' hunks; ln -sfn /etc/passwd link; "
                                      "echo cell > whole; echo true > tool; chmod 755 tool")
    terminal = Terminal(operator, operator.program, "apply", "-i", cell, env={"NO_COLOR": "1"})
    for pattern in (r"\(1/2\) Apply this hunk", r"\(2/2\) Apply this hunk",
                    r"M link\r\n--> old-target\r\n\+-> /etc/passwd\r\nApply this change", r"A tool\r\n  mode 0755\r\n"):
        terminal.expect(pattern)
        terminal.type("n\n" if "1/2" in pattern else "y\n")
    terminal.expect("M whole")
    terminal.expect("Apply this")
    (workspace / "hunks").write_text("0\n" + NUMBERS)
    os.unlink(workspace / "link")
    os.symlink("mine", workspace / "link")
    terminal.type("y\n")
    assert terminal.end() == 1
    for name in ("hunks", "link"):
        assert f"! {name}  (it changed after it was shown: apply again)" in terminal.text
    assert (workspace / "hunks").read_text() == "0\n" + NUMBERS and os.readlink(workspace / "link") == "mine"
    assert (workspace / "whole").read_text() == "cell\n" and (workspace / "tool").exists()


# Names before and after, and how the contents change.
RENAMES = {
    "exact": ("a/one", "b/one", ""),
    "edited": ("two", "zwei", "s/line 7 .*/changed/"),
    "half": ("three", "drei", "1,18s/.*/other &&/"),
    "mostly-other": ("four", "vier", "1,36s/.*/& and & and &/"),
}


def test_finds_the_renames_that_git_finds(operator):
    text = {name: "".join(f"line {n} of {name}, with some words in it\n" for n in range(40)) for name in RENAMES}
    workspace = operator.folder("renames", {old: text[name] for name, (old, _, _) in RENAMES.items()})
    script = "mkdir -p b\n" + "".join(
        f"mv {old} {new}; sed -i '{edit}' {new}\n" for old, new, edit in RENAMES.values())
    cell = operator.change(workspace, script)
    ours = {line for line in operator.cloister("diff", "--name-status", cell).ok().splitlines() if line[0] == "R"}
    # git looks at a copy.
    copy = operator.folder("copy", {old: text[name] for name, (old, _, _) in RENAMES.items()})
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(copy)}
    def git(*words):
        return subprocess.run(["git", "-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
                              cwd=copy, env=env, check=True, capture_output=True, text=True).stdout
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "before")
    subprocess.run(["sh", "-c", script], cwd=copy, check=True)
    git("add", "-A")
    theirs = {f"R {old} -> {new}" for kind, old, new in
              (line.split("\t") for line in git("diff", "--cached", "-M", "--name-status").splitlines()
               if line[0] == "R")}
    assert ours == theirs and len(ours) >= 2
