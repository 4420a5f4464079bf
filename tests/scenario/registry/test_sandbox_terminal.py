"""The terminal of a cell's agent over the service: it is joined, left and joined again, and nobody who is at it can end
the cell, hold it up, or reach another one."""
import base64
import json
import re
import signal
import socket
from contextlib import closing

from operators import over_stream_too, wait_until
from sandboxes import OCTETS, Box
from service import Service, UnixConnection

# Echoes lines, and reports its size.
AGENT = r"""
import os, signal, sys
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"%d %d\n" % os.get_terminal_size()[::-1]))
print("\033[?2004h\033[6nnobody saw this", flush=True)
for line in sys.stdin:
    print("got", line, end="", flush=True)
    if line == "end\n":
        sys.exit(7)
"""


class Seat:
    """A client at the terminal of a sandbox, or of any cell: AT is the request's path."""

    def __init__(self, service, at, rows=24, columns=80, socket=None):
        self.service, self.at, self.socket, self.n = service, at, socket, 0
        self.client = UnixConnection(socket or service.socket)
        self.client.request("POST", at, json.dumps({"rows": rows, "columns": columns}), {"Content-Type": "application/json"})
        self.response = self.client.getresponse()
        assert self.response.status == 200, self.response.read()
        self.text, started = "", self.event()
        assert started["event"] == "attach.started"
        self.id = started["attach"]

    def event(self):
        event = json.loads(self.response.readline())
        self.n += 1
        assert event["n"] == self.n
        return event

    def expect(self, part):
        while part not in self.text:
            event = self.event()
            assert event["event"] == "attach.output" and "stream" not in event, (event, self.text)
            self.text += event["text"] if "text" in event else base64.b64decode(event["base64"]).decode(errors="replace")
        before, self.text = self.text.split(part, 1)
        return before

    def ask(self, word, body, headers=None):
        return self.service.ask("POST", f"{self.at}/{self.id}/{word}", body, headers, socket=self.socket)

    def type(self, text):
        return self.ask("input", text.encode(), OCTETS)

    def end(self):
        while (event := self.event())["event"] == "attach.output":
            pass
        self.leave()
        return event

    def leave(self):
        self.client.close()
        self.response.close()


def desk(service, **more):
    service.post("/v1/agents", {"name": "desk", "sandbox": True, "terminal": True,
                                "command": ["/usr/bin/python3", "-Ic", AGENT], **more}).ok(201)
    return Box(service, "desk")


def did(operator, cell):
    events = [json.loads(line) for line in operator.cloister("events", "--json", cell).ok().splitlines()]
    return [(e["did"], e["by"]) for e in events if e.get("did") in ("attached", "detached")]


def awaits_first_line(box):
    wait_until(lambda: "nobody saw this" in box.service.get(f"/v1/dispatches/{box.id}/output").data.decode(), "its first line")


@over_stream_too
def test_join_leave_and_join_again(operator):
    service = Service(operator)
    box = desk(service)
    awaits_first_line(box)
    cell = box.status()["cell"]
    first = Seat(service, box.at("attach"), 33, 101)
    before = first.expect("nobody saw this\r\n")
    assert "\033[?2004h" in before and "\033[6n" not in before
    first.expect("33 101\r\n")
    assert first.type("one\r").status == 204
    first.expect("got one\r\n")
    assert first.ask("resize", {"rows": 40, "columns": 90}).status == 204
    first.expect("40 90\r\n")
    # Another one, who is an operator at any cell: both see the same.
    second = Seat(service, f"/v1/cells/{cell}/attach", 20, 70)
    first.expect("20 70\r\n")
    assert second.type("two\r").status == 204
    first.expect("got two\r\n")
    second.expect("got two\r\n")
    # A client that goes away has left, and can do no more; the cell goes on.
    first.leave()
    wait_until(lambda: [verb for verb, _ in did(operator, cell)].count("detached") == 1, "its end to be noticed")
    first.type("x").error(404, "not_found", "no client")
    second.type("three\r")
    second.expect("got three\r\n")
    # So has everyone when the service is killed.
    service.stop(signal.SIGKILL)
    second.leave()
    wait_until(lambda: [verb for verb, _ in did(operator, cell)].count("detached") == 2, "its end to be noticed")
    service.start()
    third = Seat(service, box.at("attach"))
    third.expect("got three\r\n")
    third.type("end\r")
    ended = third.end()
    assert (ended["event"], ended["exit_code"], ended["cause"]) == ("attach.exited", 7, ""), ended
    # The requester is recorded, not the service; and what the terminal showed is the dispatch's output.
    assert all(re.fullmatch(r"uid \d+", by) for _, by in did(operator, cell)), did(operator, cell)
    wait_until(lambda: box.status()["state"] == "finished", "it has ended")
    assert "got end" in service.get(f"/v1/dispatches/{box.id}/output").data.decode()
    box.ask("POST", "attach", {"rows": 24, "columns": 80}).error(409, "over")
    assert service.stop() == 0, service.log()


def test_who_may_join(operator):
    token = operator.home / "agents-token"
    service = Service(operator, "--listen", "127.0.0.1:0", "--agent-token-file", str(token))
    box = desk(service)
    size = {"rows": 24, "columns": 80}
    seat = Seat(service, box.at("attach"))
    cell = box.status()["cell"]
    # To an agent, the operator's sandbox does not exist, nor does any cell; and who is at it is found by its place alone.
    service.post("/v1/agents", {"name": "other", "sandbox": True, "terminal": True, "command": ["cat"]}).ok(201)
    own = Box(service, "other", socket=service.agents)
    for at in (box.at("attach"), f"/v1/cells/{cell}/attach"):
        for path, body, headers in ((at, size, None), (f"{at}/{seat.id}/resize", size, None), (f"{at}/{seat.id}/input", b"x", OCTETS)):
            service.ask("POST", path, body, headers, socket=service.agents).error(404, "not_found")
    own.ask("POST", f"attach/{seat.id}/input", b"x", OCTETS).error(404, "not_found")
    service.ask("POST", f"/v1/cells/{cell}/attach/{seat.id}/input", b"x", OCTETS).error(404, "not_found")
    box.ask("POST", f"exec/{seat.id}/input", b"x", OCTETS).error(404, "not_found")
    box.ask("POST", f"exec/{seat.id}/signal", {"signal": "KILL"}).error(404, "not_found")
    its = Seat(service, own.at("attach"), socket=service.agents)
    its.type("mine\r")
    its.expect("mine\r\n")
    its.leave()
    # A cell without a terminal to join.
    service.post("/v1/agents", {"name": "plain", "sandbox": True}).ok(201)
    plain = Box(service, "plain")
    plain.ask("POST", "attach", size).error(409, "no_terminal", "has no terminal")
    for body in ({}, {"rows": 24}, {"rows": 0, "columns": 80}, {"rows": 24, "columns": 1001}, {"rows": 1, "columns": 1, "x": 1}):
        box.ask("POST", "attach", body).error(400, "invalid")
        assert seat.ask("resize", body).error(400, "invalid")
    # Eight are enough.
    more = [Seat(service, box.at("attach")) for _ in range(7)]
    box.ask("POST", "attach", size).error(409, "busy", "8 clients")
    for one in (*more, seat):
        one.leave()
    wait_until(lambda: [verb for verb, _ in did(operator, cell)].count("detached") == 8, "they have left")
    # The registration is checked.
    wrong = (({"terminal": "yes", "command": ["cat"]}, "true or false"), ({"terminal": True}, "needs a `command`"))
    for members, text in wrong:
        service.post("/v1/agents", {"name": "wrong", **members}).error(400, "invalid", text)
    service.post("/v1/dispatches", {"agent": "other", "input": "x"}).error(400, "invalid", "takes no input")
    for one in (box, own, plain):
        one.kill()
    assert service.stop() == 0, service.log()


def test_a_client_that_reads_nothing_does_not_hold_up_the_agent(operator):
    service = Service(operator)
    # More than every buffer between: it would wait for ever.
    box = desk(service, command=["sh", "-c", "read go; head -c 30000000 /dev/zero | tr '\\0' x; touch /tmp/done; exec sleep 1000"])
    deaf = Seat(service, box.at("attach"))
    assert deaf.type("go\r").status == 204
    with closing(socket.socket(socket.AF_UNIX)) as half:        # one that is never more than half a request
        half.connect(service.socket)
        half.sendall(f"POST {box.at('attach')} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{{".encode())
        wait_until(lambda: box.read("/tmp/done").status == 200, "the agent to go on", 40)
    # It is told, once it reads again.
    last = deaf.end()
    assert last["event"] == "attach.lost" and "took no output" in last["reason"], last
    # Input that nobody reads waits in its request, and no more of it is taken.
    typist = Seat(service, box.at("attach"))
    with closing(UnixConnection(service.socket)) as waiting:
        waiting.request("POST", f"{typist.at}/{typist.id}/input", b"x" * (1 << 20), OCTETS)
        wait_until(lambda: typist.type("y").status == 409, "there is room for no more")
        typist.leave()
        assert waiting.getresponse().status == 409
    assert box.status()["state"] == "running"
    box.kill()
    assert service.stop() == 0, service.log()
