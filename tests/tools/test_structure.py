"""The tool that counts structure finds lines, functions, members and the calls that run back up."""
import subprocess
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "structure.py"

HEADER = """/* a.h - void in_comment(void); */
struct thing {
	int a, *b;
	bool c, d;              /* e, f */
	struct { int x, y; } at[2];
	void (*call)(int g, int h);
};
int low(int n);
void high(void);
typedef int fn(void);
"""
MAIN = """int
main(void)
{
	high();
	return low(1);
}
"""
HIGH = """static void
own(void)
{
}

void
high(void)
{
	own();
	/* low() is called below, and "other()" is only said. */
	low(2);
}

void
other(void)
{
}
"""
LOW = """static int (*const table[])(void) = { high };

static void
own(void)
{
}

int
low(int n)
{
	own();
%s	return n;
}
"""


def structure(tmp_path, low="", *options):
    for name, text in ("a.h", HEADER), ("main.c", MAIN), ("high.c", HIGH), ("low.c", LOW % low):
        (tmp_path / name).write_text(text)
    done = subprocess.run([TOOL, *options, tmp_path], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_counts(tmp_path):
    first, struct = structure(tmp_path, "", "--struct", "thing")
    lines = sum(len((tmp_path / name).read_text().splitlines()) for name in ("a.h", "main.c", "high.c", "low.c"))
    assert first == f"{tmp_path}: lines {lines}, files 4, declared 2, calls 3, back 0"
    assert struct == "  struct thing: members 6, booleans 2"


def test_back(tmp_path):
    """One of two calls in a circle runs back, and the order with the fewest is found."""
    first, order, back = structure(tmp_path, "\thigh();\n\tother();\n", "--calls")
    assert first.endswith("calls 5, back 1")
    assert order == "  order: main.c low.c high.c"
    assert back == "  high.c -> low.c: low"


def test_main_is_first(tmp_path):
    """A call of main.c's function runs back, however many there are."""
    first, *_ = structure(tmp_path, "\tmain();\n")
    assert first.endswith("calls 4, back 1")


def test_no_folder(tmp_path):
    done = subprocess.run([TOOL, tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 1 and "has no .c or .h file" in done.stderr
