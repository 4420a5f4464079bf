"""The check of prose finds sentences that are hard to read, and nothing else."""
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_prose.py"
LONG = "A " + "very " * 34 + "long"             # 36 words


def check(tmp_path, text, name="a.md"):
    (tmp_path / name).write_text(text)
    return subprocess.run([CHECK, name], cwd=tmp_path, capture_output=True, text=True)


@pytest.mark.parametrize("text, fault", [
    (f"One.\n{LONG} sentence.\n", "a.md:2: 37 words: A very"),
    (f"# Head\n\n- An item.\n- {LONG}\n  `a b c`.\n", "a.md:4: 37 words: A very"),
    (f"| a | b |\n| --- | --- |\n| x | {LONG} one |\n", "a.md:3: 37 words: A very"),
    ("It is so. What no rule\nallows is refused.\n", "a.md:1: opens with a noun clause: What no rule allows is refused."),
    ("Of limits the smaller one holds.\n", "a.md:1: opens with a noun clause"),
    ("Who is refused gets a reason.\n", "a.md:1: opens with a noun clause"),
    ("That it was tried is recorded.\n", "a.md:1: opens with a noun clause"),
    ("## What leaves\n", "a.md:1: opens with a noun clause"),
    ("The agent is told why.\n", "a.md:1: 'told'"),
    ("The cause is said\nonce.\n", "a.md:1: 'is said'"),
])
def test_found_in_documents(tmp_path, text, fault):
    done = check(tmp_path, text)
    assert done.returncode == 1 and done.stdout.startswith(fault) and done.stdout.count("\n") == 1, done.stdout


@pytest.mark.parametrize("text", [
    f"```\n{LONG} sentence. What is told?\n```\n",
    "It is `told` here, [as the page](that.md#what-is-told) has it.\n",
    "What is a cell? That is a sandbox.\n",
    "| What is told | b |\n| --- | --- |\n| x | y |\n",
    f"{LONG[:80]}. A {LONG[80:]}.\n",
    "An item has a colon:\n\n" + "".join("- " + "word " * 20 + "\n" for _ in range(3)),
    f"It has `{LONG} sentence` in it.\n",
])
def test_let_through_in_documents(tmp_path, text):
    done = check(tmp_path, text)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("text, fault", [
    (".Sh DESCRIPTION\nIt is so.\nOf\n.Fl -time\n.Ar T ,\nthe smaller holds.\n",
     "a.1:3: opens with a noun clause: Of CODE CODE, the smaller holds."),
    (f".It Fl x\n{LONG}\n.Em more words .\n", "a.1:2: 38 words"),
])
def test_found_in_man_pages(tmp_path, text, fault):
    done = check(tmp_path, text, "a.1")
    assert done.returncode == 1 and done.stdout.startswith(fault), done.stdout


@pytest.mark.parametrize("text", [
    f".Bd -literal\n{LONG} sentence.\n.Ed\n",
    f'.\\" {LONG} sentence.\n',
    f"{LONG[:80]}\n.Pp\n{LONG[80:]}\n",
])
def test_let_through_in_man_pages(tmp_path, text):
    done = check(tmp_path, text, "a.1")
    assert done.returncode == 0, done.stdout
