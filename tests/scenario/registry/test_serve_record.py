"""The acts inside a cell over the API: by type and by process, what was used over time, and numbers for
Prometheus."""
import json
import os
import re
import time

import pytest

from operators import IS_ROOT
from service import Service

pytestmark = pytest.mark.parametrize("who", ["root" if IS_ROOT else "user"])

ACTS = [
    {"type": "record", "level": "acts", "by": "ebpf", "unseen": []},
    {"type": "exec", "pid": 2, "parent": 1, "path": "/bin/sh", "argv": ["sh", "-c", "make"], "cwd": "/w", "sha256": "a" * 64},
    {"type": "resources", "cpu_ms": 500, "memory": 8 << 20, "peak": 9 << 20, "processes": 2, "disk": 4096, "read": 10,
     "written": 20, "pressure_cpu": 1234, "pressure_io": 0},
    {"type": "file", "pid": 2, "act": "write", "path": "/w/out", "count": 3},
    {"type": "exec", "pid": 3, "parent": 2, "path": "/bin/no", "argv": ["no"], "error": "ENOENT"},
    {"type": "refused", "pid": 3, "call": "mount", "args": "", "error": "EPERM", "by": "filter", "count": 4},
    {"type": "danger", "pid": 2, "call": "ptrace", "args": "PTRACE_ATTACH, 1", "count": 2},
    {"type": "lost", "what": "acts", "count": 70, "why": "the buffer was full"},
    {"type": "http", "pid": 2, "from": 40000, "host": "api.example", "method": "GET", "path": "/", "port": 443,
     "scheme": "https", "verdict": "allow", "status": 200, "sent": 5, "received": 6},
    {"type": "watch", "pid": 2, "rule": "write .git/hooks", "then": "freeze", "of": "sh wrote /w/.git/hooks/x"},
    {"type": "resources", "cpu_ms": 1500, "memory": 6 << 20, "processes": 1},
]


def write_timeline(operator, ident, events, at):
    """An ended cell's; one record each second, the first AT seconds since 1970."""
    folder = operator.folder(f"state/ended/{ident}.acts")
    with open(folder / "events.jsonl", "a", encoding="utf-8") as out:
        for n, event in enumerate(events, 1):
            when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at + n - 1))
            out.write(json.dumps({"cell": ident, "event": event, "n": n, "prev": "0" * 64, "time": when},
                                 separators=(",", ":"), sort_keys=True) + "\n")
    for path in (operator.state / "ended", folder, folder / "events.jsonl"):
        operator.own(path)
    return folder / "events.jsonl"


def numbers(service, promtool=False):
    text = service.get("/metrics").data.decode()
    if promtool and os.path.exists("/usr/bin/promtool"):
        service.operator.do("/usr/bin/promtool", "check", "metrics", input=text).ok()
    found = re.findall(r"^cloister_(cells?_\w+)(\{.*\})? (\S+)$", text, re.M)
    return {name if labels == "" else (name, re.search('cell="(.*?)"', labels).group(1)): float(value)
            for name, labels, value in found}


def test_acts_over_the_api(operator):
    service = Service(operator)
    now = int(time.time()) - 100
    write_timeline(operator, "ab12cd34", ACTS, now)
    path = "/v1/cells/ab12cd34"

    def found(query):
        return [r["n"] for r in service.get(f"{path}/timeline?{query}").ok()["records"]]
    assert found("type=exec,file") == [5, 4, 2] and found("pid=3") == [6, 5] and found("pid=2&type=http,exec") == [9, 2]
    assert found("pid=2&search=hooks") == [10] and found("pid=20") == []
    service.get(f"{path}/timeline?pid=x").error(400, "invalid", "'pid'")
    lines = service.get(f"{path}/events?type=refused,danger&follow=false").data.splitlines()
    assert [json.loads(line)["event"]["type"] for line in lines] == ["refused", "danger"]
    service.get(f"{path}/events?type={'x' * 300}").error(400, "invalid", "'type'")

    used = service.get(f"{path}/resources").ok()
    assert used["since"] == now and used["step_s"] == 1
    assert used["cpu_ms"] == [0, 0, 500] + 7 * [0] + [1000] and sum(used["written"]) == 20
    assert used["memory"] == [None, None] + 8 * [8 << 20] + [6 << 20] and used["processes"][-1] == 1
    for name in ("cpu_ms", "read", "written"):
        assert sum(service.get("/v1/resources?minutes=60&buckets=60").ok()[name]) == sum(used[name]), name

    ended = service.get("/v1/ended/ab12cd34").ok()
    assert {name: ended[name] for name in ("programs", "calls_refused", "calls_dangerous", "acts_lost", "watches", "cpu_ms", "refused")} == {
        "programs": 1, "calls_refused": 4, "calls_dangerous": 2, "acts_lost": 70, "watches": 1, "cpu_ms": 1500, "refused": 0}
    assert (ended["last_watch"]["what"], ended["last_watch"]["why"]) == ("sh wrote /w/.git/hooks/x", "write .git/hooks")


def test_metrics_of_cells(operator):
    service = Service(operator)
    now = int(time.time())
    write_timeline(operator, "before00", ACTS, now - 100)
    timeline = write_timeline(operator, "ab12cd34", ACTS, now + 5)
    said = numbers(service, promtool=True)
    cell = {name: value for (name, ident), value in ((k, v) for k, v in said.items() if isinstance(k, tuple)) if ident == "ab12cd34"}
    assert cell == {
        "cell_cpu_seconds_total": 1.5, "cell_read_bytes_total": 10, "cell_written_bytes_total": 20, "cell_requests_total": 1,
        "cell_requests_refused_total": 0, "cell_received_bytes_total": 6, "cell_sent_bytes_total": 5, "cell_programs_total": 1,
        "cell_calls_refused_total": 4, "cell_calls_dangerous_total": 2, "cell_acts_lost_total": 70, "cell_watches_total": 1,
        "cell_memory_bytes": 6 << 20, "cell_processes": 1, "cell_running": 0}
    # What was before the service is not its sum; what is not known is left out.
    assert (said["cells_cpu_seconds_total"], said["cells_acts_lost_total"], said["cells_left_out"]) == (1.5, 70, 0)
    # It has ended long ago, and then is gone: its numbers leave, and the sums do not shrink.
    os.utime(timeline, (now - 400, now - 400))
    again = numbers(service)
    assert not any(key[1] == "ab12cd34" for key in again if isinstance(key, tuple)) and again["cells_cpu_seconds_total"] == 1.5
    timeline.unlink()
    assert numbers(service)["cells_calls_refused_total"] == 4
    # The next one with more than there is room for.
    for n in range(1001):
        write_timeline(operator, f"many{n:04}", ACTS[:3], now + 20)
    said = numbers(service)
    assert said["cells_left_out"] == 2 and said["cells_programs_total"] == 1002
    assert sum(key[0] == "cell_running" for key in said if isinstance(key, tuple)) == 1000
