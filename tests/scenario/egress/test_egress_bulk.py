"""A gigabyte each way, with the memory of gate and courier flat."""
import os
import threading

import pytest

from egress_lab import CURL, helpers_of, memory_of
from egress_world import SINK_PORT
from operators import IS_ROOT, SECONDS, wait_until

GIGABYTE = 1 << 30
BULK_SECONDS = 5 * SECONDS
RULES = (f"  - allow: up.example.test:{SINK_PORT}\n    body: {{max: 4G}}\n"
         "  - allow: big.example.test\n")
# Windows, buffers and the heap's slack of a few streams: far below what passes.
PRIVATE_MAX = 16 << 20


class Watch:
    """The most private memory that each helper of a cell had."""

    def __init__(self, operator, cell):
        self.operator, self.cell = operator, cell
        self.most, self.over = {}, threading.Event()
        self.helpers = helpers_of(operator, cell)
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over.wait(0.1):
            for name, now in memory_of(self.operator, self.cell, self.helpers).items():
                self.most[name] = max(self.most.get(name, 0), now)

    def end(self):
        self.over.set()
        self.thread.join()
        return self.most


@pytest.fixture
def cell(online):
    online.start(RULES, "sleep", "1000")
    # So that the helpers run before they are looked at.
    assert online.inside(*CURL, "-o", "/dev/null", "https://big.example.test/hello").status == 0
    return online


@pytest.mark.parametrize("way", ["down", "up"])
def test_a_gigabyte(cell, way):
    # Once is enough for the time that it takes.
    size = GIGABYTE if cell.operator.is_root or not IS_ROOT else GIGABYTE // 8
    with open(cell.lab.folder / "files/big", "wb") as file:
        file.truncate(size)
    watch = Watch(cell.operator, cell.cell)
    if way == "down":
        done = cell.inside("curl", "-sS", "-o", "/dev/null", "-w", "%{size_download} %{http_code}",
                           "https://big.example.test/big", seconds=BULK_SECONDS)
    else:
        done = cell.inside("sh", "-c", f"head -c {size} /dev/zero | curl -sS -o /dev/null -w "
                           f"'%{{size_upload}} %{{http_code}}' -H 'Content-Length: {size}' -T - "
                           f"https://up.example.test:{SINK_PORT}/", seconds=BULK_SECONDS)
    most = watch.end()
    assert done.ok() == f"{size} 200"
    assert {"gate", "courier"} <= most.keys()
    assert max(most.values()) < PRIVATE_MAX, most
    host = "big.example.test" if way == "down" else "up.example.test"
    event = wait_until(lambda: [e for e in cell.events(type="http", host=host) if e.get("path") != "/hello"],
                       "it is recorded")[-1]
    assert event["received" if way == "down" else "sent"] == size


def test_many_requests_leave_nothing(cell):
    """Memory and descriptors after thousands are as after hundreds."""
    def load(n):
        done = cell.inside("sh", "-c", f"seq {n} | sed 's|.*|url=https://big.example.test/hello\\n"
                           "output=/dev/null|' | curl -sS -Z --parallel-max 16 -K -")
        assert done.status == 0, done

    def state():
        pids = helpers_of(cell.operator, cell.cell)
        memory = memory_of(cell.operator, cell.cell, pids)
        return {name: (memory[name], len(os.listdir(f"/proc/{pid}/fd"))) for name, pid in pids.items()}
    load(500)
    before = state()
    load(3000)
    after = state()
    assert before.keys() == after.keys()
    for name, (memory, files) in after.items():
        assert memory < before[name][0] + (1 << 20), (before, after)
        assert files <= before[name][1] + 8, (before, after)
