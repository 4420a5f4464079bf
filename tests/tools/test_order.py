"""The check of evaluation order finds an expression whose parts depend on it, and nothing else."""
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_order.py"
HEAD = """struct part { int a, b; };
struct buf { int len; };
int next(char **word), take(struct buf *b), len_of(const struct buf *b), f(int a, int b);
int get(struct buf *b);
int
g(int i, int j, char *word, struct buf *b, struct part p)
{
"""


def check(tmp_path, body):
    source = tmp_path / "a.c"
    source.write_text(f"{HEAD}\t{body}\n\treturn 0;\n}}\n")
    return subprocess.run([CHECK, source], capture_output=True, text=True)


@pytest.mark.parametrize("body, name", [
    ("f(i++, i);", "i"),
    ("f(i, i = 2);", "i"),
    ("f(next(&word), *word);", "word"),
    ("f(*word, next(&word));", "word"),
    ("f(take(b), b->len);", "b"),
    ("f(take(b), take(b));", "b"),
    ("i = take(b) - len_of(b);", "b"),
    ("p = (struct part){ take(b), take(b) };", "b"),
    ("f(p.a++, p.a);", "a"),
])
def test_found(tmp_path, body, name):
    done = check(tmp_path, body)
    assert done.returncode == 1 and f"a.c:8: reads '{name}' and changes it" in done.stdout, done


@pytest.mark.parametrize("body", [
    "f(i, i);", "f(i++, j);", "i = next(&word); f(i, *word);", "if (next(&word) && *word) f(1, 2);",
    "f(len_of(b), b->len);", "f(get(b), b->len);", "i = i + 1;", "f(p.a++, p.b);", "f(sizeof(i), i++);",
])
def test_let_through(tmp_path, body):
    done = check(tmp_path, body)
    assert done.returncode == 0 and done.stdout == "", done
