"""Every probe on cloister, as root and as an ordinary user."""
import re

import pytest

from lab import box, catalogue, verdict, world  # noqa: F401

WITHOUT = ("egress", "helpers")         # there they try less than the group network
# The other ways in differ from a plain run only here; `make escape` tries all of them.
GROUPS = {
    "cloister -p": ("egress", "helpers", "network", "walls", "ipc", "proc", "supervisor"),
    "cloister --root": ("files", "proc", "namespaces", "walls", "ipc"),
    "cloister exec": ("descriptors", "terminal", "namespaces", "walls"),
    "cloister --profile nested": ("files", "proc", "namespaces", "walls"),
}
# What the nested profile gives up, and nothing else: namespaces and mounts of its own, and
# a /proc without masks, which the kernel wants before it lets a /proc be mounted inside.
NESTED = re.compile("(unshare|clone)-|uid-map$|proc-(disks|keys)$|boot-id$")


def applies(one, who, probe):
    if "nested" in one.name and NESTED.match(probe.name):
        return False
    if one.name not in GROUPS:
        return who.name in probe.who and probe.group not in WITHOUT
    return who.name in probe.who and probe.group in GROUPS[one.name]


def cases():
    nested = box.Cloister("--profile", "nested", name="cloister --profile nested")
    for one in [*box.cloisters(), nested]:
        for who in world.everybody():
            for probe in verdict.PROBES.values():
                if applies(one, who, probe):
                    name = f"{one.name.replace(' ', '')}-{who.name}-{probe.name}"
                    yield pytest.param(one, who, probe, id=name)


@pytest.mark.parametrize("one, who, probe", cases())
def test_contained(judge, one, who, probe):
    found = judge.judge(probe, who, one)
    if found.word == verdict.NA or (found.word == verdict.VACUOUS and probe.may_be_vacuous):
        pytest.skip(f"{found.word}: {found.why}")
    assert found.word == verdict.CONTAINED, f"{probe.says}: {found.why}"
