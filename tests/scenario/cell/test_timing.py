"""`cloister run --timing`: the steps of a cell's start and end, and their cost."""
import json
import re

LINE = re.compile(r"^ +\d+\.\d{3} +\d+\.\d{3}  (cloister|supervisor|child|init) {2,}\S.*$")


def test_table(operator):
    """On standard error, also with -q; the command's own output is as ever."""
    done = operator.cloister("run", "-q", "--timing", "--", "echo", "hello")
    assert done.status == 0 and done.out == "hello\n"
    head, *lines = done.err.splitlines()
    assert head.split() == ["at", "ms", "took", "ms", "process", "step"]
    assert len(lines) > 20 and all(LINE.match(line) for line in lines)
    assert all(re.search(r"  \S", line[head.index("step") - 2:][:3]) for line in lines)
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)


def test_json(operator):
    done = operator.cloister("run", "-q", "--timing", "--json", "--", "true")
    told = json.loads(done.err)
    at = {step["step"]: step["at_ns"] for step in told["steps"]}
    assert re.fullmatch("[a-z0-9]{8}", told["cell"])
    assert {step["process"] for step in told["steps"]} == {"cloister", "supervisor", "child", "init"}
    # What is started comes after what starts it.
    order = ["described", "supervisor", "cloned", "root", "dropped", "init", "confined", "agent", "agent-ended",
             "dead", "removed"]
    assert [at[step] for step in order] == sorted(at[step] for step in order)
    assert all(0 <= step["took_ns"] <= step["at_ns"] for step in told["steps"])


def test_the_agent_gets_nothing_of_it(operator):
    look = "ls /proc/self/fd; cat /proc/self/maps | grep -c timing"
    plain = operator.cloister("run", "-q", "--", "sh", "-c", look).out
    assert operator.cloister("run", "-q", "--timing", "--", "sh", "-c", look).out == plain


def test_senseless_combinations(operator):
    operator.cloister("run", "-d", "--timing", "--", "true").sentence("--timing", "-d")
    operator.cloister("run", "--json", "--", "true").sentence("--json", "--timing")
