"""Things break on the way: what runs goes on, or is there again for the next request."""
import json
import os
import signal
import time
import uuid
from pathlib import Path

import pytest

from egress_lab import CURL, helpers_of
from operators import SECONDS, children_of, read_until, wait_until

OPEN = "  - allow: '*.example.test'\n    body: {max: 1G}\n"
CODE = ["-o", "/dev/null", "-w", "%{http_code}"]
UP = "https://up.example.test"


@pytest.fixture
def cell(online):
    online.start(OPEN, "sleep", "1000")
    assert online.inside(*CURL, *CODE, f"{UP}/echo").ok() == "200"
    yield online
    assert online.inside(*CURL, *CODE, f"{UP}/echo").ok() == "200", "it no longer serves"


def test_nothing_runs_before_it_is_needed(online):
    cell = online.start(OPEN, "sleep", "1000")
    assert helpers_of(online.operator, cell) == {}
    assert online.inside(*CURL, *CODE, f"{UP}/echo").ok() == "200"
    assert {"gate", "courier"} <= helpers_of(online.operator, cell).keys()


def test_the_starter_has_only_needed_descriptors(online):
    """A descriptor that it kept by accident could be the other end of its own channel: then it would never end."""
    cell = online.start(OPEN, "sleep", "1000")
    info = online.operator.cell(cell)
    starter, = (pid for pid in children_of(info["supervisor"]) if pid != info["init"] and
                b"cloister-witness" not in Path(f"/proc/{pid}/cmdline").read_bytes())
    held = {os.readlink(f"/proc/{starter}/fd/{fd}") for fd in os.listdir(f"/proc/{starter}/fd")}
    other = {link for link in held if not link.startswith(("socket:", "/memfd:names", "/dev/null"))}
    assert len(other) == 1 and other.pop().endswith("/libexec"), held


@pytest.mark.parametrize("victim", ["gate", "courier", "inspect"])
def test_a_helper_is_killed_mid_request(cell, victim):
    """The agent sees a reset; the next request is served, by new ones."""
    # What is packed is looked into, by the one that starts last.
    packed = ("printf x | gzip -c >/tmp/x; " + " ".join(CURL) + " -o /dev/null -w '%{http_code}' -H "
              f"'Content-Encoding: gzip' --data-binary @/tmp/x {UP}/echo")
    assert cell.inside("sh", "-c", packed).ok() == "200"
    helpers, mark = helpers_of(cell.operator, cell.cell), uuid.uuid4().hex
    waiting = cell.operator.spawn(cell.operator.program, "exec", cell.cell, "--", *CURL, *CODE,
                                  f"{UP}/stall?{mark}", stdout=-1, stderr=-1)
    wait_until(lambda: cell.lab.seen(mark), "the request arrives")
    os.kill(helpers[victim], signal.SIGKILL)
    began = time.monotonic()
    waiting.communicate(timeout=20)
    assert waiting.returncode != 0 and time.monotonic() - began < 10
    assert cell.inside("sh", "-c", packed).ok() == "200"
    again = helpers_of(cell.operator, cell.cell)
    assert again.keys() == helpers.keys() and not set(again.values()) & set(helpers.values())
    # The agent's own processes notice nothing else.
    assert cell.operator.cell(cell.cell) is not None


READ = """
import socket, sys
s = socket.create_connection(('up.example.test', int(sys.argv[1])), 10)
s.settimeout(20)
s.sendall(sys.argv[2].encode().decode('unicode_escape').encode())
try:
    while got := s.recv(65536):
        print(got, flush=True)
    print('an end')
except ConnectionResetError:
    print('a reset')
"""


@pytest.mark.parametrize("victim", ["gate", "courier"])
@pytest.mark.parametrize("port, says, begin", [
    # An end would be the end of the answer, for these two.
    ("80", "GET /events?every=600 HTTP/1.0\\r\\nHost: up.example.test\\r\\n\\r\\n", b"data: event 0"),
    ("7", "", b"welcome"),
    ("80", "GET /events?every=600 HTTP/1.1\\r\\nHost: up.example.test\\r\\n\\r\\n", b"data: event 0"),
], ids=["until-close", "tcp", "chunked"])
def test_a_cut_connection_ends_with_a_reset(online, victim, port, says, begin):
    online.start("  - allow: up.example.test:7\n    protocol: tcp\n" + OPEN, "sleep", "1000")
    reader = online.operator.spawn(online.operator.program, "exec", online.cell, "--",
                                   "/usr/bin/python3", "-c", READ, port, says, stdout=-1)
    read_until(reader.stdout.fileno(), begin)
    os.kill(helpers_of(online.operator, online.cell)[victim], signal.SIGKILL)
    assert reader.communicate(timeout=20)[0].split(b"\n")[-2] == b"a reset"


def test_killed_again_and_again(cell):
    for _ in range(5):
        for pid in helpers_of(cell.operator, cell.cell).values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        assert cell.inside(*CURL, *CODE, "--retry", "3", "--retry-all-errors", "--retry-delay", "0",
                           f"{UP}/echo").ok().endswith("200")


def test_names_keep_their_meaning(cell):
    """An address that was handed out before the gate died still stands for its name."""
    script = """
import socket, sys
address = socket.getaddrinfo('up.example.test', 80, socket.AF_INET)[0][4][0]
print(address, flush=True)
sys.stdin.readline()
s = socket.create_connection((address, 80), 10)
s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: up.example.test\\r\\nConnection: close\\r\\n\\r\\n')
print(s.recv(20), flush=True)
"""
    process = cell.operator.spawn(cell.operator.program, "exec", cell.cell, "--", "/usr/bin/python3",
                                  "-c", script, stdin=-1, stdout=-1)
    assert process.stdout.readline().startswith(b"198.18.")
    gate = helpers_of(cell.operator, cell.cell)["gate"]
    os.kill(gate, signal.SIGKILL)
    while gate in helpers_of(cell.operator, cell.cell).values():
        time.sleep(0.02)
    out, _ = process.communicate(b"go\n", timeout=20)
    assert b"HTTP/1.1 200" in out


@pytest.mark.parametrize("path, says", [
    ("/reset", "502"), ("/reset?after=10", "cut"), ("/short", "cut"),
    ("/until-close", "200"), ("/204", "204")])
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_upstream_breaks_off(cell, path, says, version):
    done = cell.inside(*CURL, version, *CODE, f"{UP}{path}")
    if says == "cut":
        # The client must notice that it is not all there.
        assert done.status != 0, done
    else:
        assert done.out in (says, "403") if says == "502" else done.out == says, done


LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"
CUT = "the server closed the connection "


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("answer, note", [
    (LENGTH + b"all of it", None), (LENGTH + b"all", CUT + "after 3 of 9 bytes"),
    (LENGTH, CUT + "after 0 of 9 bytes"),
    (CHUNKED + b"9\r\nall of it\r\n0\r\n\r\n", None),
    (CHUNKED + b"9\r\nall of it\r\n", CUT + "before the last chunk of the response"),
    (CHUNKED + b"9\r\nall", CUT + "before the last chunk of the response"),
    (CHUNKED + b"9\r\nall of it\r\n0\r\n", CUT + "before the last chunk of the response"),
    (UNTIL_CLOSE + b"all of it", CUT + "without ending TLS, so the response may be incomplete"),
], ids=["length", "length-short", "length-none", "chunked", "chunked-short", "chunk-short", "trailers-short",
        "until-close"])
def test_tls_ends_without_close_notify(cell, answer, note, version):
    """A complete response is good.  If only the end of the connection ends it, it may have been cut."""
    path = cell.lab.raw(answer)
    done = cell.inside(*CURL, version, f"{UP}{path}&bare=1")
    if note is None:
        assert done.ok() == "all of it"
    else:
        assert done.status != 0, done
        assert cell.events(type="http", path="/raw")[-1]["note"] == note


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("answer, note", [
    (LENGTH + b"all", CUT + "after 3 of 9 bytes"),
    (CHUNKED + b"9\r\nall", CUT + "before the last chunk of the response"),
], ids=["length", "chunked"])
def test_a_short_body_is_explained(cell, answer, note, scheme):
    done = cell.inside(*CURL, f"{scheme}://up.example.test{cell.lab.raw(answer)}")
    assert done.status != 0
    assert cell.events(type="http", path="/raw")[-1]["note"] == note
    said = cell.operator.cloister("why", cell.cell).ok()
    assert f"What happened: {note}\n" in said and "broke off its response" in said and "reached" not in said


def test_a_short_head_is_explained(online):
    """The server speaks HTTP: no hint about https://."""
    path = online.lab.raw(b"HTTP/1.1 200 OK\r\ncontent-le")
    done = online.curl("  - allow: host.cloister.internal:8080\n", f"http://host.cloister.internal:8080{path}")
    said = json.loads(done.out)
    assert said["reason"] == CUT + "in the middle of the response's head"
    assert said["hint"] == "Try again later."


def test_a_short_body_over_http2_is_explained(cell):
    done = cell.inside(*CURL, "https://www.example.test/up/short")
    assert done.status != 0
    assert cell.events(type="http", path="/up/short")[-1]["note"] == (
        "the server ended the response after 9 of 100 bytes: INTERNAL_ERROR")


def test_a_reset_is_explained(cell):
    cell.inside(*CURL, f"{UP}/reset?after=10")
    assert cell.events(type="http", path="/reset")[-1]["note"] == (
        "the connection to the server broke after 10 of 100 bytes: Connection reset by peer")


def test_upstream_is_not_there(cell):
    done = cell.inside(*CURL, "-w", "\n%{http_code}", "https://dead.example.test/")
    assert done.out[-3:] in ("502", "403"), done
    assert cell.events(type="http", host="dead.example.test", why="unreachable")
    done = cell.inside(*CURL, "-w", "\n%{http_code}", "https://nosuch.example.test/")
    assert done.out[-3:] in ("502", "403", "000"), done
    assert cell.events(host="nosuch.example.test", why="unresolved")


def test_failed_requests_are_summed_up(online):
    """Agents swallow a 502, so the operator would not know."""
    done = online.sh(OPEN, "; ".join([*(" ".join(CURL + ["-o /dev/null", url]) for url in (
        "https://dead.example.test/", "https://nowhere.example.test/", f"{UP}/echo?status=500"))]))
    assert "cloister: 2 requests were allowed, and failed on the way\n" in done.err and "refused" not in done.err
    assert "Failed in cell" in online.operator.cloister("why", online.cell).ok()
    assert online.curl(OPEN, *CODE, f"{UP}/echo?status=500").err == ""


def test_upstream_stalls_and_the_client_goes(cell):
    """A request that the client no longer waits for is given up."""
    done = cell.inside("curl", "-sS", "--max-time", "0.5", *CODE, f"{UP}/stall")
    assert done.status == 28
    files = {name: len(os.listdir(f"/proc/{pid}/fd"))
             for name, pid in helpers_of(cell.operator, cell.cell).items()}
    for _ in range(5):
        cell.inside("curl", "-sS", "--max-time", "0.3", *CODE, f"{UP}/stall")
    after = {name: len(os.listdir(f"/proc/{pid}/fd"))
             for name, pid in helpers_of(cell.operator, cell.cell).items()}
    assert all(after[name] <= files[name] + 2 for name in files), (files, after)


def test_a_stalled_stream_holds_up_no_other(cell):
    mark = uuid.uuid4().hex
    stalled = cell.operator.spawn(cell.operator.program, "exec", cell.cell, "--", *CURL, *CODE,
                                  f"{UP}/stall?{mark}", stdout=-1)
    wait_until(lambda: cell.lab.seen(mark), "the request arrives")
    began = time.monotonic()
    for _ in range(5):
        assert cell.inside(*CURL, *CODE, f"{UP}/echo").ok() == "200"
    assert time.monotonic() - began < 10
    stalled.kill()


def test_the_client_is_killed(cell):
    for _ in range(10):
        process = cell.operator.spawn(cell.operator.program, "exec", cell.cell, "--", "curl", "-s", "-o",
                                      "/dev/null", f"{UP}/generate?n=1000000000")
        time.sleep(0.05)
        process.kill()
        process.wait()


def test_the_cell_ends_with_requests_under_way(online):
    """And nothing is left; the fixture looks."""
    script = f"{' '.join(CURL)} {UP}/stall & {' '.join(CURL)} {UP}/silent & sleep 0.5"
    assert online.sh(OPEN, script).status == 0


def under_way(online, n=3):
    """Requests that have left, and wait for their answers."""
    cell, mark = online.start(OPEN, "sleep", "1000"), uuid.uuid4().hex
    requests = [online.operator.spawn(online.operator.program, "exec", cell, "--", *CURL, f"{UP}/stall?{mark}{i}",
                                      stdout=-1, stderr=-1) for i in range(n)]
    wait_until(lambda: all(online.lab.seen(f"{mark}{i}") for i in range(n)), "the requests arrive")
    return cell, requests


@pytest.mark.parametrize("how", ["gate", "kill", "stop"])
def test_requests_under_way_are_recorded(online, how):
    """However they are cut off: they have left the cell."""
    cell, requests = under_way(online)
    if how == "gate":
        os.kill(helpers_of(online.operator, cell)["gate"], signal.SIGKILL)
        [request.wait(SECONDS) for request in requests]
    else:
        online.operator.cloister(how, cell).ok()
    wait_until(lambda: len(online.events(type="http", verdict="allow")) == 3, "each is recorded")
    if how == "gate":
        online.operator.cloister("kill", cell).ok()


def test_a_possible_loss_of_records_is_recorded(online):
    """Cloister does not wait long for a courier that cannot send its last records."""
    cell, _ = under_way(online)
    os.kill(helpers_of(online.operator, cell)["courier"], signal.SIGSTOP)
    began = time.monotonic()
    online.operator.cloister("kill", cell).ok()
    assert time.monotonic() - began < 5
    assert online.events(type="http") == []
    cut = wait_until(lambda: online.events(type="cell", did="egress broke off"), "it is recorded")
    assert len(cut) == 1 and (cut[0]["by"], cut[0]["note"]) == ("supervisor", "it was killed")
    assert online.operator.cloister("audit", "verify", cell).status == 0


def test_the_supervisor_is_killed(online):
    cell = online.start(OPEN, "sleep", "1000")
    assert online.inside(*CURL, *CODE, f"{UP}/echo").ok() == "200"
    pids = online.operator.pids(cell)
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: not any(is_ours(pid) for pid in pids[1:]), "all of it dies")
    # What is left of a crash is cleared by the next cell.
    online.operator.run("--", "true").ok()
    online.operator.cloister("discard", "--all")


def is_ours(pid):
    try:
        return "cloister-" in os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
