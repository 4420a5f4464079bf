"""`diff --stat`: how much of each file changed."""
import re

import pytest

from terminal import Terminal

FILES = {"a": "one\n", "d/b": "two\n", "d/e/c": "three\n"}


@pytest.fixture
def workspace(operator):
    return operator.folder("workspace", FILES)


def stat(operator, id, *paths):
    return operator.cloister("diff", "--stat", id, *paths).ok()


def test_everything(operator, workspace):
    id = operator.change(workspace, "echo more >>a; rm d/b; seq 12 >new; head -c 100 /dev/zero >bin; ln -s a link;"
                         "chmod +x d/e/c; mkdir empty full; : >full/nothing; printf -- '-- x\\n++ y' >full/signs")
    assert stat(operator, id) == """\
 a            |  1 +
 bin          | Bin 0 -> 100 bytes
 d/b          |  1 -
 d/e/c        | (mode 0644 -> 0755)
 empty/       | (folder added)
 full/nothing |  0
 full/signs   |  2 ++
 link         | (link added)
 new          | 12 ++++++++++++
 9 files changed, 15 insertions(+), 1 deletion(-)
"""


def test_counts_equal_those_of_git(operator, workspace):
    operator.host("seq 1000 >n; seq 30 >m", cwd=workspace)
    id = operator.change(workspace, "seq 5 2000 | grep -v 7 >n; sort -r m >x; mv x m; rm -r d")
    numbers = {}
    for line in stat(operator, id).splitlines()[:-1]:
        name, count, bar = re.fullmatch(r" (\S+) +\| +(\d+) ([+-]+)", line).groups()
        numbers[name] = int(count)
        assert len(line) <= 80 and bar == "+" * bar.count("+") + "-" * bar.count("-")
    twin = operator.folder("twin", {"n": "", "m": ""})
    operator.host(f"cp {workspace}/n {workspace}/m .; mkdir new; seq 5 2000 | grep -v 7 >new/n; sort -r m >new/m",
                  cwd=twin)
    for name in ("n", "m"):
        out = operator.host(f"diff {name} new/{name} | grep -c '^[<>]'", cwd=twin)
        assert numbers.pop(name) == int(out)
    assert numbers == {"d/b": 1, "d/e/c": 1}


def test_held_is_marked(operator, workspace):
    id = operator.change(workspace, "echo x >.envrc; rm -r d; echo file >d")
    assert stat(operator, id) == """\
 .envrc | 1 + (held back)
 d      | 1 + (mode 0755 -> 0644)
 d/b    | 1 -
 d/e/c  | 1 -
 4 files changed, 2 insertions(+), 2 deletions(-)
"""


def test_only_some_paths(operator, workspace):
    id = operator.change(workspace, "echo x >>a; echo x >>d/b; echo x >>d/e/c")
    assert stat(operator, id, "d/e") == " d/e/c | 1 +\n 1 file changed, 1 insertion(+), 0 deletions(-)\n"


def test_nothing(operator, workspace):
    id = operator.change(workspace, "cp -p a saved; echo x >a; cp -p saved a; rm saved")
    assert stat(operator, id) == ""


def test_names_cannot_disturb_a_terminal(operator, workspace):
    id = operator.change(workspace, "echo x >\"$(printf 'a\\033[2J\\nb')\"; echo x >\u00fc\u00fc; echo x >plain")
    said = stat(operator, id)
    assert said.splitlines() == [r" a\x1b[2J\x0ab | 1 +", " plain         | 1 +", " \u00fc\u00fc            | 1 +",
                                 " 3 files changed, 3 insertions(+), 0 deletions(-)"]


def test_long_names_stick_out(operator, workspace):
    id = operator.change(workspace, f"mkdir {'x' * 200}; echo x >{'x' * 200}/y; echo x >>a")
    assert stat(operator, id).splitlines()[:2] == [f" a{' ' * 59} | 1 +", f" {'x' * 200}/y | 1 +"]


def test_colours_and_width_of_a_terminal(operator, workspace):
    id = operator.change(workspace, "seq 1000 >>a; rm d/b")
    t = Terminal(operator, operator.program, "diff", "--stat", id)
    assert t.end() == 0
    assert "\x1b[32m+" in t.text and "\x1b[31m-\x1b[m" in t.text
    t.close()
    t = Terminal(operator, operator.program, "diff", "--stat", id, env={"NO_COLOR": "1"})
    assert t.end() == 0 and "\x1b" not in t.text
    t.close()


def test_goes_with_no_other_form(operator, workspace):
    id = operator.change(workspace, "echo x >>a")
    for other in ("--json", "--name-status"):
        operator.cloister("diff", "--stat", other, id).sentence("--stat")


def test_files_that_cannot_be_compared_are_reported(operator, workspace):
    id = operator.change(workspace, "truncate -s 9G big; echo x >>a")
    done = operator.cloister("diff", "--stat", id)
    assert "\n 2 files changed, 1 insertion(+)" in done.out and " a   | 1 +\n" in done.out
    assert (done.status == 125 and "1 file could not be shown" in done.err and "not compared" in done.out) or \
        "Bin 0 -> 9663676416 bytes" in done.out
