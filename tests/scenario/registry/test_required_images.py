"""What policies require of images holds for every root of a cell, however the root is asked for."""
import json

import pytest

import images
from dispatches import agent, all_of, await_over, await_state, capability, detach, dispatch, policy
from operators import as_one

NAME = "docker.io/library/tiny:1"
DIGEST = {"require": "digest"}
SIGNATURE = {"require": "signature", "keys": ["/key.pub"]}


@pytest.fixture
def image(operator):
    """The digest of an image in the store."""
    return images.Store(operator).add(NAME, images.busybox())


@pytest.fixture
def lead(operator):
    """Starts agents that may dispatch `child`; their ids."""
    started = []

    def start(name="lead", *words, **said):
        agent(operator, name, "sleep 1000", delegate={"agents": ["child", "second"], "depth": 3, "fan_out": 10}, **said)
        started.append(detach(operator, name, *words))
        await_state(operator, started[-1], "running")
        return started[-1]

    yield start
    for id in started:
        operator.cloister("dispatches", "cancel", "--time", "0s", id)
        await_over(operator, id)


def test_an_agent_that_names_no_digest(operator, image):
    """The dispatch writes a digest into the cell's document: that is not one that the agent names."""
    policy(operator, "strict", images=DIGEST)
    agent(operator, "x", "echo ran", root={"image": NAME}, policy="strict")
    dispatch(operator, "x").sentence("the policy requires a digest")
    dispatch(operator, "x", "--image", NAME).sentence("the policy requires a digest")
    assert all_of(operator) == []
    agent(operator, "x", "echo ran", root={"image": image}, policy="strict")
    assert dispatch(operator, "x").ok() == "ran\n"
    assert dispatch(operator, "x", "--image", "").ok() == "ran\n"


@as_one
def test_a_child_without_a_policy(operator, image, lead):
    policy(operator, "strict", images=DIGEST)
    parent = lead(policy="strict")
    agent(operator, "second", "sleep 1000", delegate={"agents": ["child"], "depth": 3, "fan_out": 10})
    second = detach(operator, "--parent", parent, "second")
    await_state(operator, second, "running")
    agent(operator, "child", "echo ran", root={"image": NAME})
    assert dispatch(operator, "child").ok() == "ran\n"
    for id in parent, second:
        dispatch(operator, "--parent", id, "child").sentence("the policy requires a digest")
    agent(operator, "child", "echo ran", root={"image": image})
    for id in parent, second:
        assert dispatch(operator, "--parent", id, "child").ok() == "ran\n"


@as_one
def test_a_child_whose_policy_is_left_out(operator, image, lead):
    """A parent without a policy takes the child's rules away, and not what they require."""
    policy(operator, "strict", images=DIGEST)
    parent = lead()
    agent(operator, "child", "echo ran", root={"image": NAME}, policy="strict")
    dispatch(operator, "--parent", parent, "child").sentence("the policy requires a digest")
    agent(operator, "child", "echo ran", root={"image": image}, policy="strict")
    done = dispatch(operator, "--parent", parent, "--dry-run", "--json", "child")
    told = json.loads(done.ok())
    assert (told["policy"], told["images"]) == (None, "digest")
    assert dispatch(operator, "--parent", parent, "child").ok() == "ran\n"


@as_one
def test_no_signature(operator, lead):
    digest = images.Store(operator).add(None, images.busybox())
    policy(operator, "signed", images=SIGNATURE)
    agent(operator, "child", "echo ran", root={"image": digest}, policy="signed")
    dispatch(operator, "child").sentence("the policy requires a signature")
    agent(operator, "child", "echo ran", root={"image": digest})
    dispatch(operator, "--parent", lead(policy="signed"), "child").sentence("the policy requires a signature")


@as_one
@pytest.mark.parametrize("required, words", [(DIGEST, "requires a digest"), (SIGNATURE, "requires a signature")],
                         ids=["digest", "signature"])
def test_roots_outside_the_store(operator, required, words):
    """Neither a folder nor an engine's image can be checked as one of the store."""
    policy(operator, "strict", images=required)
    capability(operator, "root", {"bin/x": "x"})
    agent(operator, "folder", "true", root={"capability": "root"}, policy="strict")
    dispatch(operator, "folder").sentence(words, "a folder as root has none")
    agent(operator, "engine", "true", root={"image": "box:1"}, policy="strict")
    dispatch(operator, "--target", "docker", "engine").sentence(words)
    file = operator.file("p.yaml", json.dumps({"version": 1, "images": required}))
    operator.run("-p", file, "--rootfs", str(operator.folder("root", {"x": ""})), "--", "/x").sentence(words, "a folder")
    operator.run("-p", file, "--", "true").ok()


@as_one
def test_a_document_requires_it(operator, image):
    told = {"command": ["sh", "-c", "echo ran"], "image": {"name": NAME}, "images": "digest", "version": 1}
    operator.run("--doc", operator.file("d.json", json.dumps(told))).sentence("the policy requires a digest")
    told["image"]["digest"] = image
    file = operator.file("d.json", json.dumps(told))
    assert operator.run("--doc", file).ok() == "ran\n"
    assert json.loads(operator.run("--doc", file, "--print-doc").ok())["images"] == "digest"
    told["images"] = "digests"
    operator.run("--doc", operator.file("d.json", json.dumps(told))).sentence("the cell document's images")
