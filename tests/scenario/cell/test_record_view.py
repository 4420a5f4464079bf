"""The commands that look at the record of a cell's processes: events, tree, replay, audit export."""
import fcntl
import json
import os
import pty
import re
import resource
import select
import struct
import subprocess
import termios

import pytest

pytest.importorskip("cryptography")
from operators import CLOISTER               # noqa: E402
from record_world import ACTS, witnessed    # noqa: E402
from test_audit import World                # noqa: E402


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "w")


def is_printable(text):
    return all(c == "\n" or c.isprintable() for c in text)


# ---- events ----

LINES = ["record: acts by ebpf (some acts are not seen: docs/record.md)",
         "2 exec /bin/sh -c 'git fetch; evil'",
         "3 connect 10.0.0.1:443",
         "GET https://git.example/x/info/refs (process 3)",
         "3 write /work/.git/FETCH_HEAD (grant /work), 3 times",
         "3 ended with 0 after 1s, CPU 40ms, memory 5M",
         "4 exec /tmp/evil 'a b\\x1b[2J\\x0a' (from a writable place)",
         "4 danger memfd_create(\"x\", 0)",
         "4 refused ptrace(PTRACE_ATTACH, 1): EPERM by filter, 7 times",
         "4 rename /work/a\\x1b]0;b to /work/b (grant /work)",
         "resources: CPU 900ms, memory 3M, peak 9M, 3 processes, read 4K, written 8K, CPU pressure 1.50%",
         "lost: 20 file  the buffer was full",
         "4 watch: write /work/.git/hooks/x: freeze (watch: write .git/hooks/**)",
         "4 calls in 1s: read 100, write 3",
         "4 killed by KILL after 900ms",
         "cell ended with 1; CPU 1s, peak 9M, 3 programs, 3 processes, 7 refused calls, read 4K, written 8K"]


def test_events_prints_acts_as_lines_of_text(world):
    world.keep(witnessed())
    said = world.cloister("events", "abcdefgh").ok()
    assert is_printable(said) and len(said.splitlines()) == len(ACTS) + 2
    assert [line for line in LINES if f"  {line}\n" not in said] == [], said
    # They are no decisions, so there is no reason to explain.
    assert "tcp evil.example:22" in world.cloister("why", "abcdefgh").ok()
    assert "is not a decision" in world.cloister("why", "abcdefgh", "3").err


def test_events_of_chosen_types(world):
    world.keep(witnessed())
    world.keep(witnessed("bbbbbbbb"))
    said = world.cloister("events", "--json", "--type", "exec,danger,cell", "abcdefgh", "bbbbbbbb").ok()
    events = [json.loads(line) for line in said.splitlines()]
    for cell in ("abcdefgh", "bbbbbbbb"):
        assert [e["type"] for e in events if e["cell"] == cell] == ["cell.boot", "exec", "exec", "exec", "danger", "cell.end"]
    assert world.cloister("events", "-f", "--type", "refused", "abcdefgh").ok().count("\n") == 1
    for wrong, hint in (("exek", "did you mean 'exec'?"), ("exec,", "there is no type ''"), ("x" * 99, "there is no type")):
        assert hint in world.cloister("events", "--type", wrong).err


# ---- tree ----

TREE = r"""abcdefgh: cell ended with 1; CPU 1s, peak 9M, 3 programs, 3 processes, 7 refused calls, read 4K, written 8K
record: acts by ebpf (some acts are not seen: docs/record.md)
1 (cloister-init)
`- 2 /bin/sh -c 'git fetch; evil'  ended with 1 after 3s, CPU 60ms, memory 1M
   |- 3 /usr/bin/git fetch  ended with 0 after 1s, CPU 40ms, memory 5M
   |       connect 10.0.0.1:443
   |       GET https://git.example/x/info/refs  200
   |       write /work/.git/FETCH_HEAD (grant /work), 3 times
   `- 4 /tmp/evil 'a b\x1b[2J\x0a'  killed by KILL after 900ms
           danger memfd_create("x", 0)
           refused ptrace(PTRACE_ATTACH, 1): EPERM by filter, 7 times
           rename /work/a\x1b]0;b to /work/b (grant /work)
           watch: write /work/.git/hooks/x: freeze (watch: write .git/hooks/**)
of unknown processes:
     tcp evil.example:22  refused: no rule allows it
20 acts could not be recorded; the last of them: lost: 20 file: the buffer was full
"""


def test_a_tree_of_processes_with_what_each_did(world):
    world.keep(witnessed())
    assert world.cloister("tree", "abcdefgh").ok() == TREE
    world.env["LANG"] = "C.UTF-8"
    assert "\n   └─ 4 /tmp/evil" in world.cloister("tree").ok()
    said = json.loads(world.cloister("tree", "--json", "abcdefgh").ok())
    ids = {p["pid"]: p["id"] for p in said["processes"]}
    assert {p["pid"]: p["parent"] for p in said["processes"]} == {1: None, 2: ids[1], 3: ids[2], 4: ids[2]}
    git, = (p for p in said["processes"] if p["pid"] == 3)
    assert (git["status"], git["ms"], git["cpu_ms"], git["peak"], git["sha256"]) == (0, 1200, 40, 5 << 20, "b" * 64)
    assert [d["type"] for d in git["did"]] == ["net", "request", "file"] and said["lost"] == 20


def test_a_tree_from_odd_records(world):
    """Numbers that are used again, circles, processes without a program, and records without a number."""
    acts = [{"type": "exec", "pid": 5, "parent": 6, "path": "/a"}, {"type": "exec", "pid": 6, "parent": 5, "path": "/b"},
            {"type": "exit", "pid": 6, "parent": 6, "status": 0}, {"type": "exec", "pid": 6, "parent": 5, "path": "/c"},
            {"type": "exec", "pid": 6, "parent": 5, "path": "/d", "argv": [1, "x"]},
            {"type": "exec", "pid": 6, "parent": 5, "path": "/e", "error": "ENOENT"},
            {"type": "file", "path": "/nobody"}, {"type": "exec", "pid": "x"}, {"type": "net", "pid": -1, "act": "bind"},
            *({"type": "file", "pid": 9, "act": "write", "path": f"/{i}"} for i in range(12)),
            {"type": "net", "pid": 9, "act": "connect", "address": "::1", "port": 80, "local": 4000},
            {"type": "http", "verdict": "allow", "method": "GET", "scheme": "http", "host": "a.b", "path": "/", "from": 4000}]
    world.keep(witnessed(acts=acts, end=None))
    said = world.cloister("tree", "abcdefgh").ok().splitlines()
    assert said[1:7] == ["6 /b  ended with 0", "`- 5 /a", "   `- 6 /c", "           exec /d x", "           exec /e: failed with ENOENT",
                         "9 (no program of its own)"], said
    assert said[-3:] == ["     connect [::1]:80", "     GET http://a.b/", "     and 2 more files"]
    assert "and 2 more" not in world.cloister("tree", "--all", "abcdefgh").ok()


def test_a_tree_of_many_records_is_drawn_in_bounded_memory(world):
    acts = [event for i in range(5000) for event in (
        {"type": "exec", "pid": i + 2, "parent": i + 1, "path": "/usr/bin/cc"},
        {"type": "file", "pid": i + 2, "act": "write", "path": "/" + "x" * 500})]
    world.keep(witnessed(acts=acts))
    said = world.cloister("tree", "abcdefgh", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (48 << 20,) * 2)).ok()
    assert said.count("/usr/bin/cc") == 5000


# ---- audit export ----

# What OCSF 1.8.0 requires of each class and object that is written, and of which one is enough.
BASE = {"activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"}
CLASSES = {0: set(), 1001: {"actor", "device", "file"}, 1007: {"actor", "device", "process"}, 2004: {"finding_info"},
           4001: set(), 4002: set(), 4003: set(), 6002: {"app"}}
ANY = {4001: {"dst_endpoint", "src_endpoint"}, 4002: {"http_request", "http_response"}}
OBJECTS = {"metadata": {"product", "version"}, "device": {"type_id"}, "file": {"name", "type_id"}, "file_result": {"name", "type_id"},
           "hashes": {"algorithm_id", "value"}, "finding_info": {"uid"}, "analytic": {"type_id"}, "api": {"operation"},
           "connection_info": {"direction_id"}, "http_response": {"code"}, "query": {"hostname"}}
ANY_OF = {"actor": {"process", "app_name"}, "process": {"pid"}, "parent_process": {"pid"}, "url": {"url_string", "path"},
          "src_endpoint": {"uid"}, "dst_endpoint": {"ip", "hostname", "svc_name"}, "container": {"uid"}, "product": {"name"}}


def lacks(name, value):
    """What an object and those in it lack."""
    if isinstance(value, list):
        return [fault for item in value for fault in lacks(name, item)]
    if not isinstance(value, dict) or name == "unmapped":
        return []
    missing = sorted(OBJECTS.get(name, set()) - set(value))
    missing += [] if name not in ANY_OF or ANY_OF[name] & set(value) else [f"one of {ANY_OF[name]}"]
    return [(name, m) for m in missing] + [fault for key, item in value.items() for fault in lacks(key, item)]


DNS = {"type": "dns", "verdict": "deny", "why": "no-rule", "host": "x.example"}
MINIMAL = [{"type": name} for name in ("exec", "exit", "file", "net", "http", "tcp", "tls", "refused", "danger", "watch", "new")]


def test_export_as_ocsf(world):
    world.keep(witnessed(acts=[*ACTS, DNS, *MINIMAL]))
    said = world.cloister("audit", "export", "--format", "ocsf", "abcdefgh").ok()
    assert is_printable(said)
    events = [json.loads(line) for line in said.splitlines()]
    assert len(events) == len(ACTS) + 3 + len(MINIMAL)
    for event in events:
        uid = event["class_uid"]
        assert (BASE | CLASSES[uid]) - set(event) == set() and (uid not in ANY or ANY[uid] & set(event)), event
        assert event["type_uid"] == uid * 100 + event["activity_id"] and event["category_uid"] == uid // 1000
        assert lacks("", event) == [], event
        assert event["metadata"]["version"] == "1.8.0" and event["device"]["container"]["uid"] == "abcdefgh"
    by_type = {event["metadata"]["event_code"]: event for event in reversed(events)}
    assert {name: by_type[name]["type_uid"] for name in ("exec", "exit", "file", "net", "http", "tcp", "dns", "refused",
                                                         "danger", "watch", "cell.boot", "cell.end", "lost")} == {
        "exec": 100701, "exit": 100702, "file": 100103, "net": 400101, "http": 400203, "tcp": 400105, "dns": 400301,
        "refused": 200401, "danger": 200401, "watch": 200401, "cell.boot": 600203, "cell.end": 600204, "lost": 99}
    assert by_type["http"]["actor"]["process"]["name"] == "git" and by_type["http"]["http_request"]["url"]["hostname"] == "git.example"
    assert (by_type["tcp"]["action_id"], by_type["tcp"]["disposition_id"]) == (2, 2)
    assert by_type["exec"]["process"]["file"]["hashes"] == [{"algorithm_id": 3, "algorithm": "SHA-256", "value": "a" * 64}]
    assert by_type["refused"]["count"] == 7 and by_type["refused"]["evidences"][0]["api"] == {"operation": "ptrace"}


def value_of(value):
    (kind, inner), = value.items()
    return {"stringValue": str, "intValue": int, "boolValue": bool,
            "arrayValue": lambda v: [value_of(i) for i in v["values"]]}[kind](inner)


def test_export_as_logs_of_opentelemetry(world):
    world.keep(witnessed(acts=ACTS * 20))
    said = world.cloister("audit", "export", "--format", "otel", "--all").ok()
    assert is_printable(said)
    messages = [json.loads(line)["resourceLogs"][0] for line in said.splitlines()]
    assert {a["key"]: value_of(a["value"]) for a in messages[0]["resource"]["attributes"]}["container.id"] == "abcdefgh"
    logs = [log for message in messages for log in message["scopeLogs"][0]["logRecords"]]
    assert len(messages) == 2 and len(logs) == 20 * len(ACTS) + 2
    for log in logs:
        assert isinstance(log["timeUnixNano"], str) and log["severityNumber"] in (9, 13, 17) and value_of(log["body"])
        log["is"] = {a["key"]: value_of(a["value"]) for a in log["attributes"]}
    exec_, http = (next(log["is"] for log in logs if log["eventName"] == f"cloister.{name}") for name in ("exec", "http"))
    assert exec_["process.command_args"] == ["sh", "-c", "git fetch; evil"] and exec_["process.pid"] == 2
    assert (http["http.request.method"], http["http.response.status_code"], http["server.address"], http["process.pid"],
            http["process.executable.path"]) == ("GET", 200, "git.example", 3, "/usr/bin/git")


def test_export_says_what_it_left_out(world):
    world.keep(witnessed(), data=b"{}\nno record\n")
    said = world.cloister("audit", "export", "--format", "ocsf", "abcdefgh")
    assert said.status == 125 and "2 lines are no records" in said.err and said.out == ""
    assert "use jsonl, ocsf, otel or dsse" in world.cloister("audit", "export", "--format", "x", "abcdefgh").err


# ---- replay ----

LOG = b"hello\n\x1b[31mred\x1b[0m\n\x9bodd\x07\nlast"
BEGIN_MS = 1794758400000        # of the first record
REPLAYED = ["16:00:00 cell started: sh -c make", "16:00:00 | hello", "16:00:03 | red", "16:00:03 | \\x9bodd\\x07",
            "16:00:05 > GET https://git.example/x/info/refs  200", "16:00:12 > tcp evil.example:22  refused: no rule allows it",
            "16:00:16 | last", "16:00:17 4 killed by KILL after 900ms"]


def on_terminal(world, columns, *words, keys=""):
    """Everything that the command writes to a terminal of that width, and its exit status."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    before = termios.tcgetattr(slave)
    os.write(master, keys.encode())
    with subprocess.Popen([CLOISTER, *words], env={**world.env, "NO_COLOR": "1"}, stdin=slave, stdout=slave, stderr=slave,
                          start_new_session=True) as process:
        said = b""
        while process.poll() is None or select.select([master], [], [], 0)[0]:
            if select.select([master], [], [], 0.05)[0]:
                said += os.read(master, 65536)
        after = termios.tcgetattr(slave)
    os.close(slave)
    os.close(master)
    assert after == before and process.returncode == 0
    return said.decode().replace("\r", "")


def test_a_replay_of_events_and_output(world):
    world.env["TZ"] = "UTC"
    folder = world.keep(witnessed()).parent
    assert "was not kept" in world.cloister("replay", "abcdefgh").err
    (folder / "log").write_bytes(LOG)
    said = world.cloister("replay", "abcdefgh")
    assert "has no times" in said.err and said.out.endswith("\n-        | last\n")
    (folder / "times").write_text(f"l 0 {BEGIN_MS + 200}\nl 6 {BEGIN_MS + 3300}\nnonsense\nl 25 {BEGIN_MS + 16100}\n")
    said = world.cloister("replay", "abcdefgh")
    lines = said.out.splitlines()
    assert said.err == "" and is_printable(said.out) and len(lines) == len(ACTS) + 2 - 2 + 4, said
    assert [line for line in lines if line in REPLAYED] == REPLAYED, said.out
    assert world.cloister("replay", "--type", "refused", "abcdefgh").ok().count("ptrace") == 1
    for wrong in ("0", "x", "1001"):
        assert "--speed takes a number" in world.cloister("replay", "--speed", wrong).err


def test_a_replay_on_terminals(world):
    world.env["TZ"] = "UTC"
    folder = world.keep(witnessed()).parent
    (folder / "log").write_bytes(LOG)
    (folder / "times").write_text(f"l 0 {BEGIN_MS + 200}\n")
    narrow = on_terminal(world, 60, "replay", "--max-gap", "1ms", "abcdefgh")
    assert is_printable(narrow) and "16:00:00 | hello\n" in narrow and max(map(len, narrow.splitlines())) <= 60
    wide = on_terminal(world, 129, "replay", "--max-gap", "1ms", "abcdefgh").splitlines()
    assert wide[0] == "TIME     " + "OUTPUT".ljust(40) + "PROCESSES".ljust(40) + "REQUESTS" and max(map(len, wide)) <= 129
    assert "16:00:00 hello" in wide and any(line[49:].startswith("4 killed by KILL") for line in wide)
    assert any(line[89:].startswith("GET https://git.example/") for line in wide), wide
    # The first event and the output after it by a key each, and no more.
    stepped = on_terminal(world, 60, "replay", "--step", "abcdefgh", keys="\nnq")
    assert "cell started" in stepped and "| last\n" in stepped and "record:" not in stepped, stepped


def test_the_output_of_a_cell_is_kept_with_its_times(operator):
    operator.run("-d", "--name", "job", "--", "sh", "-c", "echo one; echo two >&2").ok()
    operator.cloister("wait", "job").ok()
    said = operator.cloister("replay", "job")
    assert re.findall(r"^\d\d:\d\d:\d\d \| (\w+)$", said.ok(), re.M) == ["one", "two"] and said.err == "", said
    operator.cloister("discard", "job").ok()
