"""The boundary of a cell: what its walls are made of, and who chooses it."""
import json
import os
import pty

import pytest

import microvm
from dispatches import agent, dispatch, policy
from operators import SECONDS, as_one, only_root, read_until

LONG = SECONDS * 3
STRONGEST = "boundary: [strongest, namespace]\n"


def policy_file(operator, text, name="p.yaml"):
    return operator.file(name, "version: 1\n" + text)


def grant_of(operator, *options, **how):
    """What a cell's timeline has about its start."""
    id = operator.detach("--keep", *options, "--", "true", **how)
    operator.cloister("wait", id).ok()
    boot = json.loads(operator.cloister("events", "--json", id).ok().splitlines()[0])
    operator.cloister("discard", id).ok()
    return boot["grant"]


@pytest.fixture
def bare(operator):
    """An operator whose machine runs no virtual machines."""
    checks = json.loads(operator.cloister("doctor", "--json").out)["checks"]
    if any(check["name"] == "kvm" and check["state"] == "ok" for check in checks):
        pytest.skip("KVM works here")
    return operator


@pytest.fixture
def able(operator, ground):
    """An operator whose machine emulates them."""
    operator.env |= microvm.environment(ground)
    del operator.env["CLOISTER_BOUNDARY"]
    return operator


def check_microvm(operator, *options):
    """It would be a virtual machine, for nothing else needs modules.  There are none, so nothing boots."""
    operator.env["CLOISTER_VM_MODULES"] = str(operator.folder("empty"))
    operator.run(*options, "--", "true", seconds=LONG).sentence("not the folder of a kernel's modules")


def test_an_image_is_not_blamed_for_the_engine(operator):
    for image, parts in (("debian:12", ("DOCKER_HOST",)), ("oci-archive:x.tar", ("'oci-archive'", "docker load"))):
        said = operator.run("--boundary", "docker", "--image", image, "--", "true", env={"DOCKER_HOST": "unix:///nowhere"})
        said.sentence(*parts)
        assert "the image" not in said.err


def test_default_boundary_has_a_name(operator):
    assert operator.run("--boundary", "namespace", "--", "echo", "inside").ok() == "inside\n"
    id = operator.detach("--", "sleep", "1000")
    assert operator.cell(id)["boundary"] == "namespace"
    operator.cloister("kill", id).ok()
    grant = grant_of(operator)
    assert grant["boundary"] == "namespace" and "weaker" not in grant


def test_unknown_boundary_is_refused_with_the_list(operator):
    names = "use namespace, oci, gvisor, microvm, docker, process or strongest"
    operator.run("--boundary", "cardboard", "--", "true").sentence("no boundary 'cardboard'", names)
    operator.run("--boundary", "", "--", "true").sentence("no boundary ''", names)
    operator.run("--boundary", "microvm,namespace", "--", "true").sentence("only 'strongest'", "strongest,namespace")
    file = policy_file(operator, "boundary: cardboard\n")
    operator.run("-p", file, "--", "true").sentence("p.yaml:2:11: there is no boundary 'cardboard'", names)
    checked = operator.cloister("policy", "check", file)
    assert checked.status == 1 and "p.yaml:2:11: there is no boundary 'cardboard'" in checked.err
    operator.cloister("policy", "check", policy_file(operator, STRONGEST)).ok()


def test_strongest_without_a_virtual_machine(bare):
    cannot = "a virtual machine cannot run here: "
    assert bare.run("--boundary", "strongest", "--", "true").sentence().startswith(cannot)
    bare.env["CLOISTER_BOUNDARY"] = "strongest"
    assert bare.run("--", "true").sentence().startswith(cannot)
    # A weaker one, if that is allowed: with the reason on the timeline.
    for name, options in ("strongest,namespace", []), ("namespace", ["-p", policy_file(bare, STRONGEST)]):
        bare.env["CLOISTER_BOUNDARY"] = name
        grant = grant_of(bare, *options)
        assert grant["boundary"] == "namespace" and grant["weaker"].startswith(cannot)
    # All of them must allow it.
    bare.env["CLOISTER_BOUNDARY"] = "strongest,namespace"
    strict = policy_file(bare, "boundary: strongest\n", "strict.yaml")
    for options in ["-p", strict], ["-p", policy_file(bare, STRONGEST), "--within", strict]:
        bare.run(*options, "--", "true").sentence("the policy's boundary is 'strongest': " + cannot)
    # A kernel that is named and is not there is a mistake, and no reason for a weaker boundary.
    bare.run("--vm-accel", "tcg", "--vm-kernel", "/nowhere/vmlinuz", "--", "true").sentence("/nowhere/vmlinuz")
    assert grant_of(bare, "--vm-kernel", "/nowhere/vmlinuz")["boundary"] == "namespace"


@only_root
@pytest.mark.skipif(not os.path.exists("/dev/kvm"), reason="there is no /dev/kvm")
def test_a_failure_is_no_reason_for_a_weaker_boundary(operator):
    """A device that opens and fails: an agent may have used up what it needs."""
    def run(*options):
        return operator.do("unshare", "-m", "--propagation", "private", "sh", "-c",
                           'mount --bind /dev/null /dev/kvm && exec "$@"', "sh", operator.program, "run", *options,
                           "--", "true")
    fails = "a virtual machine cannot run here: /dev/kvm opens, but a guest of a few instructions fails in it: try again"
    assert run("--boundary", "strongest,namespace").sentence().startswith(fails)
    policy = policy_file(operator, STRONGEST)
    run("-p", policy).sentence("the policy's boundary is 'strongest,namespace': " + fails)
    run("--boundary", "namespace").ok()


@as_one
def test_a_weaker_boundary_is_reported_on_a_terminal(bare):
    for options, report in ([], "the cell has the boundary 'namespace': a virtual machine cannot"), (["-q"], ""):
        master, slave = pty.openpty()
        cell = bare.start("--boundary", "strongest,namespace", *options, "--", "echo", "the end", stdin=slave,
                          stdout=slave, stderr=slave)
        said = read_until(master, b"the end").decode()
        assert cell.wait(SECONDS) == 0
        assert report in said and (report != "") == ("boundary" in said)


def test_a_policy_demands_a_boundary(bare):
    file = policy_file(bare, "boundary: microvm\n")
    weaker = "asks for the boundary 'namespace', which is weaker than the policy's 'microvm'"
    bare.run("-p", file, "--boundary", "namespace", "--", "true").sentence("--boundary " + weaker)
    bare.run("--boundary", "namespace", "--within", file, "--", "true").sentence("--boundary " + weaker)
    bare.run("-p", file, "--boundary", "namespace", "--print-doc", "--", "true").sentence("--boundary " + weaker)
    bare.env["CLOISTER_BOUNDARY"] = "namespace"
    bare.run("-p", file, "--", "true").sentence("CLOISTER_BOUNDARY " + weaker)
    bare.run("-p", file, "--boundary", "microvm", "--", "true").sentence("cannot run here")
    del bare.env["CLOISTER_BOUNDARY"]
    bare.run("-p", file, "--", "true").sentence("the policy's boundary is 'microvm': ", "cannot run here")
    # One that is found in the workspace.
    project = bare.folder("project", {"cloister.yaml": "version: 1\nboundary: microvm\n"})
    bare.run("-w", project, "--", "true").sentence("the policy's boundary is 'microvm': ", "cannot run here")
    assert bare.run("-w", project, "--no-policy", "--", "echo", "inside").ok() == "inside\n"


def test_a_document_has_the_boundary_as_it_was_asked_for(bare):
    file = policy_file(bare, STRONGEST)
    text = bare.run("-p", file, "--boundary", "strongest", "--print-doc", "--", "echo", "inside").ok()
    doc = json.loads(text)
    assert doc["boundary"] == "strongest" and STRONGEST in doc["policy"]["text"]
    bare.run("--doc", bare.file("doc.json", text)).sentence("cannot run here")
    del doc["boundary"]
    assert bare.run("--doc", bare.file("doc.json", json.dumps(doc))).ok() == "inside\n"
    doc |= {"boundary": "namespace", "policy": {"name": "p", "text": "version: 1\nboundary: microvm\n"}}
    bare.run("--doc", bare.file("doc.json", json.dumps(doc))).sentence("the document asks for", "weaker")


def test_registered_agents(bare):
    policy(bare, "machine", boundary="microvm")
    policy(bare, "either", boundary=["strongest", "namespace"])
    agent(bare, "own", "echo inside", boundary="strongest")
    agent(bare, "weak", "echo inside", boundary="namespace", policy="machine")
    agent(bare, "silent", "echo inside", policy="machine")
    agent(bare, "either", "echo inside", policy="either")
    agent(bare, "allows", "echo inside", boundary=["strongest", "namespace"])
    shown = json.loads(bare.cloister("agent", "show", "--json", "allows").ok())
    assert shown["content"]["boundary"] == "strongest,namespace"
    dispatch(bare, "weak").sentence("the agent 'weak' asks for the boundary 'namespace'", "policy's 'microvm'")
    for name in "own", "silent":
        done = dispatch(bare, name)
        assert done.status != 0 and done.out == "" and "a virtual machine cannot run here" in done.err, done
    for name in "either", "allows":
        assert dispatch(bare, name).ok() == "inside\n"


def test_a_running_cell_keeps_its_boundary(bare):
    id = bare.detach("-p", policy_file(bare, STRONGEST), "--", "sleep", "1000")
    assert STRONGEST in bare.cloister("policy", "show", id).ok()
    other = bare.cloister("policy", "set", id, policy_file(bare, "boundary: microvm\n"))
    assert other.status == 1 and "`boundary` is settled when a cell starts" in other.err
    bare.cloister("policy", "set", id, policy_file(bare, "egress: [{allow: x.example}]\n")).ok()
    assert STRONGEST in bare.cloister("policy", "show", id).ok()
    bare.cloister("kill", id).ok()


@as_one
def test_strongest_is_a_virtual_machine(able):
    file = policy_file(able, STRONGEST)
    for options in (["--boundary", "strongest"], ["--boundary", "strongest,namespace"], ["-p", file],
                    ["-p", file, "--boundary", "microvm"], ["--boundary", "strongest,namespace", "-p",
                                                            policy_file(able, "boundary: microvm\n", "vm.yaml")]):
        check_microvm(able, *options)
    # Here the policy can have what it prefers.
    able.run("-p", file, "--boundary", "namespace", "--", "true").sentence("weaker than the policy's "
                                                                          "'strongest,namespace'")
