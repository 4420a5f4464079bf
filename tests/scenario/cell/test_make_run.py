"""The claims of `make run` to a newcomer are true, and nothing of it stays."""
from operators import TREE


def test_the_demo_does_what_it_claims(operator):
    demo = operator.file("demo.sh", (TREE / "tools" / "demo.sh").read_text())
    home = operator.folder("home/tmp")
    done = operator.do("/bin/sh", demo, env={"CLOISTER": str(operator.program), "TMPDIR": str(home)})
    assert done.status == 0, done.out + done.err
    assert "✗" not in done.out and "Now yours:" in done.out
    assert list(home.iterdir()) == []
    assert list(operator.state.iterdir()) == [] and list((operator.base / "data").iterdir()) == []
