"""Measures the cost of an approval without the person: a request that is asked about and answered at once, against
one that a rule allows."""
import json
import shutil
import socket
import struct
import threading

from bench import Samples, Unmeasured, group
from bench_5_egress import NAME, ORIGIN, Cell, free_port, make_certificates, nginx, running
from lab import await_quiet

APPROVALS, APPROVAL, APPROVE, DONE = 40, 41, 42, 14

# In the cell: each request by turns, over one connection; in milliseconds.
CLIENT = """
import http.client, json, ssl, sys, time
name, port, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
link = http.client.HTTPSConnection(name, port, context=ssl.create_default_context())
took = {"PUT": [], "POST": []}
for i in range(n):
    for method, list in took.items():
        began = time.perf_counter()
        link.request(method, "/small", '{"to": "ann", "amount": 7}', {"Content-Type": "application/json"})
        answer = link.getresponse()
        answer.read()
        list.append((time.perf_counter() - began) * 1e3)
        if answer.status != 200:
            sys.exit(f"{method}: {answer.status}")
print(json.dumps(took))
"""


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


class Approver:
    """Says yes at once, over the control socket, as `cloister approve` does."""

    def __init__(self, cell):
        entry = next(e for e in cell.who.runtime.iterdir() if e.name.startswith(cell.id + "."))
        self.path = str(entry / "control")
        self.failed = None
        threading.Thread(target=self.run, daemon=True).start()

    def connect(self):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.connect(self.path)
        return peer

    def approve(self, number):
        with self.connect() as peer:
            peer.send(struct.pack("<I", APPROVE) + text("") + text("") + struct.pack("<IQIQ", 0, number, 0, 0))
            kind, = struct.unpack("<I", peer.recv(65536)[:4])
            if kind != DONE:
                self.failed = f"approve: {kind}"

    def run(self):
        seen = 0
        with self.connect() as peer:
            while True:
                peer.send(struct.pack("<I", APPROVALS) + text("") + text("") + struct.pack("<IQI", 0, seen, 1))
                data = peer.recv(1 << 18)
                if len(data) < 16 or struct.unpack("<I", data[:4])[0] != APPROVAL:
                    return
                seen, = struct.unpack("<Q", data[4:12])
                shown = json.loads(data[16:].rstrip(b"\0"))
                if shown["state"] == "pending":
                    self.approve(int(shown["id"].split("-")[1]))


@group("approvals")
def approvals(lab, report):
    for tool in ("nginx", "openssl"):
        if shutil.which(tool) is None:
            raise Unmeasured(f"{tool} is missing")
    top = lab.top / "approvals"
    (top / "www").mkdir(parents=True)
    top.chmod(0o755)
    make_certificates(top)
    origin = free_port()
    with running(nginx(top, "origin", ORIGIN.format(port=origin, top=top)), origin):
        cell = Cell(lab, top, origin)
        cell.policy.write_text(f"version: 1\negress:\n  - ask: {NAME}:{origin}\n    methods: [POST]\n"
                               f"  - allow: {NAME}:{origin}\n")
        with cell:
            approver = Approver(cell)
            await_quiet()
            done = lab.user.run([*cell.prefix(), "/usr/bin/python3", "-c", CLIENT, NAME, str(origin),
                                 str(report.pick(500, 40))])
    if done.returncode != 0 or approver.failed:
        raise Unmeasured(approver.failed or done.stderr.strip()[-300:])
    took = json.loads(done.stdout)
    added = Samples(asked - allowed for asked, allowed in zip(took["POST"], took["PUT"]))
    report.row("approval, beyond the person", added.median, "ms", added.spread, bar="value < 5")
