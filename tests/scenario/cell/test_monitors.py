"""Monitors of virtual machines that are controlled by HTTP, tested by contract: a program of our own plays the API
as it is published, and judges each request.  test_microvm_cloud.py runs the program itself, where it is installed."""
import itertools

import pytest

import microvm
from operators import SECONDS, TREE, copy_mutant

numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def taps():
    microvm.open_taps()


@pytest.fixture
def boundary():
    return "microvm"


@pytest.fixture
def program(ground):
    """Only the mutant build takes a test's own monitor."""
    return copy_mutant(ground)


class Monitor:
    """A program in the place of the monitor NAME."""

    def __init__(self, operator, ground, name):
        self.operator, self.ground = operator, ground
        operator.env["CLOISTER_VM_MONITOR"] = name

    def run(self, behaviour, *options):
        program = self.ground / f"monitor-{next(numbers)}"
        program.write_text(f"#!/usr/bin/python3 -IB\nBEHAVIOUR = {behaviour!r}\n{self.code()}")
        program.chmod(0o755)
        self.operator.env["CLOISTER_MONITOR"] = str(program)
        return self.operator.run("--memory", "256M", *options, "--", "true", seconds=SECONDS * 3)


class Cloud(Monitor):
    def __init__(self, operator, ground):
        super().__init__(operator, ground, "cloud-hypervisor")

    def code(self):
        return (TREE / "tests/scenario/monitor_cloud.py").read_text().split("\n", 1)[1]


@pytest.fixture
def cloud(operator, ground):
    return Cloud(operator, ground)


def test_requests_keep_the_contract(cloud):
    """The guest's bytes go both ways: its verdict becomes the reason why the cell did not start."""
    cloud.run("", "--vm-boot").sentence("kept: vm.create vm.boot; greeted with version 2; 256 MiB")
    # The tap is given with a request of its own.
    cloud.run("", "--vm-boot", "--allow", "www.example.test").sentence(
        "kept: vm.create [guest0] vm.add-net vm.boot; greeted")


def test_a_template_keeps_the_contract(cloud, operator):
    """The machine of a template has no files, no network and no connection; its memory and its state come back."""
    before = microvm.templates(operator)
    cloud.run("", "--allow", "www.example.test").sentence(
        "kept: vm.restore vm.add-fs [guest0] vm.add-net vm.resume; greeted with version 2; 256 MiB")
    assert len(microvm.templates(operator)) == len(before) + 1


@pytest.mark.parametrize("call, start", [
    ("vm.create", "boot"), ("vm.add-net", "boot"), ("vm.boot", "boot"), ("vm.pause", "template"),
    ("vm.snapshot", "template"), ("vm.restore", "template"), ("vm.add-fs", "template"), ("vm.resume", "template"),
])
@pytest.mark.parametrize("who", ["user"])
def test_an_error_becomes_a_sentence(cloud, call, start):
    done = cloud.run(f"refuse {call}", "--allow", "www.example.test", *(["--vm-boot"] if start == "boot" else []))
    done.sentence("Cloud Hypervisor refused", call, "(400)", "Error from API", f"no {call}")


@pytest.mark.parametrize("who", ["user"])
@pytest.mark.parametrize("behaviour, sentence", [
    ("die", "the monitor has no KVM"), ("garbage", "Cloud Hypervisor does not answer in HTTP"),
])
def test_a_program_that_is_no_monitor(cloud, behaviour, sentence):
    cloud.run(behaviour, "--vm-boot").sentence(sentence)


@pytest.mark.parametrize("who", ["user"])
def test_silence_ends_the_start(cloud):
    cloud.run("stay silent", "--vm-boot", "--time", "1s").sentence("not ready in time")


class Fire(Monitor):
    """Firecracker shares no folders, so its cells have a disk."""

    def __init__(self, operator, ground):
        super().__init__(operator, ground, "firecracker")
        self.rootfs = microvm.small_rootfs(operator)

    def code(self):
        folder = TREE / "tests/scenario"
        both, _, _ = (folder / "monitor_cloud.py").read_text().split("\n", 1)[1].partition("\ndef main(")
        return f"{both}\n{(folder / 'monitor_fire.py').read_text()}"


@pytest.fixture
def fire(operator, ground):
    return Fire(operator, ground)


def test_firecracker_keeps_the_contract(fire):
    rootfs = ("--rootfs", str(fire.rootfs))
    fire.run("", *rootfs).sentence("kept: machine-config boot-source drives vsock entropy balloon actions; greeted with "
                                   "version 2, 4; 256 MiB, True")
    # It opens the tap by its name; the certificates go with the description.
    fire.run("", "--allow", "www.example.test", *rootfs).sentence("drives [guest0] network-interfaces vsock", "2, 13;")


@pytest.mark.parametrize("who", ["user"])
def test_firecracker_refuses(fire):
    rootfs = ("--rootfs", str(fire.rootfs))
    for call in "machine-config", "drives", "network-interfaces", "actions":
        done = fire.run(f"refuse {call}", "--allow", "www.example.test", *rootfs)
        done.sentence("Firecracker refused", f"/{call}", "(400)", f"no {call}")
    fire.run("is older", *rootfs).sentence("256 MiB, False")
    fire.run("die", *rootfs).sentence("the monitor has no KVM")
    fire.run("garbage", *rootfs).sentence("Firecracker does not answer in HTTP")
    fire.run("stay silent", "--time", "1s", *rootfs).sentence("not ready in time")


@pytest.mark.parametrize("who", ["user"])
def test_firecracker_shares_nothing(fire, operator):
    shown = str(operator.folder("shown"))
    fire.run("").sentence("Firecracker cannot share this machine's programs", "--rootfs")
    for grant in ("-w", shown), ("-v", f"{shown}:/srv:ro"):
        fire.run("", "--rootfs", str(fire.rootfs), *grant).sentence("Firecracker cannot share folders", "use --vm-monitor")


@pytest.mark.parametrize("who", ["user"])
def test_choice(operator):
    before = microvm.templates(operator)
    operator.run("--vm-monitor", "steam", "--", "true").sentence("'steam'", "use qemu, cloud-hypervisor or firecracker")
    operator.run("--vm-monitor", "cloud-hypervisor", "--", "true").sentence("there is no Cloud Hypervisor")
    operator.run("--vm-monitor", "firecracker", "--", "true").sentence("there is no Firecracker")
    assert microvm.templates(operator) == before
