"""Old data is removed: dispatches, their results, and blobs that nothing refers to."""
import hashlib
import json
import os
import re

from dispatches import agent, all_of, await_state, capability, detach, dispatch
from operators import only_user, wait_until
from service import Service


def blobs(operator):
    """Their hashes, of all that are kept."""
    top = operator.base / "data/registry/blobs"
    return {folder.name + blob.name for folder in top.iterdir() for blob in folder.iterdir()}


def age(operator):
    """As if all blobs had been there for long."""
    for folder in (operator.base / "data/registry/blobs").iterdir():
        for blob in folder.iterdir():
            os.utime(blob, (1e9, 1e9))


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def prune(operator, *words):
    return json.loads(operator.cloister("dispatches", "prune", "--json", *words).ok())


def records(operator, type):
    lines = (operator.base / "data/audit/operator.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    return [event for event in events if event["type"] == type]


@only_user
def test_removed_and_kept_dispatches(operator):
    capability(operator, "files", {"keep.txt": "a capability's"})
    agent(operator, "a", "cat; echo $CLOISTER_DISPATCH; cat $CLOISTER_DISPATCH 2>/dev/null; "
                         "echo left-$CLOISTER_DISPATCH >/out/file", capabilities=["files"])
    for _ in range(3):
        dispatch(operator, "a", "--input", operator.file("in", "given")).ok()
    new, middle, old = [d["id"] for d in all_of(operator)]
    results = {id: digest(f"left-{id}\n") for id in (new, middle, old)}
    assert set(results.values()) < blobs(operator)
    age(operator)

    # Nothing is old enough, and nothing is done by looking.
    assert prune(operator) == {"dispatches": 0, "blobs": 0, "bytes": 0}
    before = blobs(operator)
    told = prune(operator, "--keep", "2", "--dry-run")
    assert told["dispatches"] == 1 and told["blobs"] >= 3 and told["bytes"] > 20
    assert len(all_of(operator)) == 3 and blobs(operator) == before

    # The oldest, what it printed and left, and the list of that.
    assert prune(operator, "--keep", "2") == told
    assert [d["id"] for d in all_of(operator)] == [new, middle]
    assert not (operator.base / "data/dispatches" / old).exists()
    assert results[old] not in blobs(operator) and {results[new], results[middle]} < blobs(operator)
    assert {digest("given"), digest("a capability's")} < blobs(operator)
    assert operator.cloister("dispatches", "files", new, "file").ok() == f"left-{new}\n"
    assert records(operator, "dispatch.pruned")[-1]["dispatches"] == [old]
    operator.cloister("audit", "verify").ok()

    # All that are over.
    told = operator.cloister("dispatches", "prune", "--older", "0").ok()
    assert re.match(r"removed 2 dispatches, and \d+ blobs? \(", told), told
    assert all_of(operator) == [] and results[new] not in blobs(operator)
    assert digest("a capability's") in blobs(operator)
    dispatch(operator, "a").ok()


@only_user
def test_running_dispatches_are_not_removed(operator):
    agent(operator, "a", "until [ -e go ]; do sleep 0.02; done",
          workspace={"path": str(operator.folder("ws")), "mode": "rw"})
    id = detach(operator, "a")
    await_state(operator, id, "running")
    assert prune(operator, "--older", "0", "--keep", "0")["dispatches"] == 0
    operator.file("ws/go", "")
    await_state(operator, id, "finished")
    wait_until(lambda: prune(operator, "--older", "0")["dispatches"] == 1, "it is nobody's any more")
    operator.cloister("dispatches", "show", id).sentence("there is no dispatch")


@only_user
def test_a_blob_that_is_wanted_again_stays(operator):
    """One that nothing refers to, and is put again just before somebody looks."""
    agent(operator, "a", "cat >/dev/null")
    file = operator.file("in", "wanted again")
    dispatch(operator, "a", "--input", file).ok()
    age(operator)
    prune(operator, "--older", "0")
    assert digest("wanted again") not in blobs(operator)
    dispatch(operator, "a", "--input", file).ok()
    age(operator)
    dispatch(operator, "a", "--input", file).ok()
    prune(operator, "--older", "0")
    assert digest("wanted again") in blobs(operator)


@only_user
def test_serve_prunes(operator):
    agent(operator, "a", "echo x")
    dispatch(operator, "a").ok()
    service = Service(operator, "--retain", "1ms")
    wait_until(lambda: service.get("/v1/dispatches").ok()["items"] == [], "it is gone")
    assert len(records(operator, "dispatch.pruned")) == 1
    operator.cloister("dispatches", "prune", "x").sentence("takes no argument")
    operator.cloister("dispatches", "prune", "--older", "soon").sentence("--older 'soon'")
