"""S3 that does not take the results of a dispatch: it waits and says so, or fails and keeps them."""
import json
import os
import subprocess

import pytest

from dispatches import agent, await_over, detach, show
from operators import as_one, read_until, wait_until
from s3_servers import BUCKET, Place, answers, error, front_of, server_of, stop_all

pytestmark = as_one


@pytest.fixture(scope="module", autouse=True)
def servers():
    yield
    stop_all()


@pytest.fixture
def place(operator, tmp_path_factory):
    """It takes everything but what `refused` names."""
    server = server_of("s3rver", tmp_path_factory)
    with front_of(server) as front:
        place = Place(operator, server, front.port, timeout=1)
        place.refused = set()
        front.plans.append(lambda handler, request: any(request.is_for("PUT", key) for key in list(place.refused)) and
                           answers(503, error("SlowDown"))(handler, request))
        yield place


def events(operator, id):
    return [json.loads(line) for line in (operator.base / f"data/dispatches/{id}/events.jsonl").read_text().splitlines()]


def test_it_comes_back(operator, place):
    canary = os.urandom(8).hex()
    agent(operator, "a", f"echo {canary}")
    place.refused.add(place.key(canary + "\n"))
    asked = operator.spawn(operator.program, "dispatch", "a", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    read_until(asked.stderr.fileno(), f"its results wait for s3://{BUCKET}/{place.prefix}/ for up to ".encode())
    assert asked.poll() is None
    place.refused.clear()
    out, _ = asked.communicate()
    assert asked.returncode == 0 and out.decode() == canary + "\n"
    assert place.has(canary + "\n")


def test_it_stays_away(operator, place):
    canary, inner = os.urandom(8).hex(), os.urandom(8).hex()
    agent(operator, "a", f"echo {canary}; echo {inner} >/out/file")
    place.refused.add(place.key(inner + "\n"))
    id = detach(operator, "a", "--retries", "2")
    over = await_over(operator, id)
    assert over["state"] == "failed" and over["attempts"] == 1, over
    assert "the files of /out: cannot keep blobs in" in over["reason"] and "SlowDown" in over["reason"] and "not tried again" in over["reason"]
    waits = [e for e in events(operator, id) if e["event"] == "results.wait"]
    assert 1 <= len(waits) <= 2 and "SlowDown" in waits[-1]["reason"]
    end = events(operator, id)[-1]
    cell = end["left"]
    assert cell == over["cell"] and f"cell {cell}" in over["reason"]
    # Nothing is lost.
    assert canary in operator.cloister("logs", cell).ok()
    assert [path.read_text() for path in operator.state.glob(f"**/*{cell}*/**/file")] == [inner + "\n"]
    operator.cloister("discard", cell).ok()


def test_cancelled_while_it_waits(operator, place):
    canary = os.urandom(8).hex()
    agent(operator, "a", f"echo {canary}")
    place.refused.add(place.key(canary + "\n"))
    id = detach(operator, "a")
    wait_until(lambda: "results.wait" in (operator.base / f"data/dispatches/{id}/events.jsonl").read_text(), "it waits")
    operator.cloister("dispatches", "cancel", id).ok()
    assert await_over(operator, id)["state"] == "cancelled"
    cell = show(operator, id)["cell"]
    assert canary in operator.cloister("logs", cell).ok()
    operator.cloister("discard", cell).ok()
