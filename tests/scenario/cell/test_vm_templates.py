"""`cloister vm`: the list of templates, without any virtual machine."""
import json
import os

import pytest


@pytest.fixture
def templates(operator):
    """Three files as templates are, the last one used last."""
    folder = operator.folder("data/vm")
    folder.chmod(0o700)
    names = ["ab" + "0" * 62, "ac" + "1" * 62, "d" * 64]
    for i, name in enumerate(names):
        path = operator.file(f"data/vm/template-{name}")
        os.truncate(path, (64 << 20) * (i + 1) + 1000)
        os.utime(path, (1000000 + i, 5000000 - i))
    operator.file("data/vm/part-template-" + "e" * 64)
    operator.file("data/vm/" + "f" * 64)
    return names


def kept(operator):
    return sorted(p.name.removeprefix("template-") for p in (operator.base / "data/vm").glob("template-*"))


@pytest.mark.parametrize("who", ["user"])
def test_list(operator, templates):
    told = json.loads(operator.cloister("vm", "list", "--json").ok())
    assert [t["template"] for t in told] == templates[::-1]
    assert [t["memory"] for t in told] == [192 << 20, 128 << 20, 64 << 20] and told[0]["used"] == 1000002
    lines = operator.cloister("vm", "list").ok().splitlines()
    assert len(lines) == 4 and lines[1].split()[:2] == [templates[2][:12], "192M"]


@pytest.mark.parametrize("who", ["user"])
def test_remove(operator, templates):
    operator.cloister("vm", "remove").sentence("--all")
    operator.cloister("vm", "remove", "a").sentence("more than one", "'a'")
    operator.cloister("vm", "remove", "f").sentence("no template 'f'")
    operator.cloister("vm", "remove", "").sentence("no template ''")
    assert kept(operator) == sorted(templates)
    operator.cloister("vm", "remove", "ab").ok()
    assert kept(operator) == sorted(templates[1:])
    operator.cloister("vm", "remove", "--all").ok()
    assert kept(operator) == []
    # Other files are not templates.
    assert len(list((operator.base / "data/vm").iterdir())) == 2
    assert operator.cloister("vm", "list").ok() == ""


@pytest.mark.parametrize("who", ["user"])
def test_mistakes(operator):
    operator.cloister("vm").sentence("template, list, remove or wait")
    operator.cloister("vm", "fry").sentence("template, list, remove or wait")
    operator.cloister("vm", "template", "extra").sentence("template, list, remove or wait")
    operator.cloister("vm", "template", "--memory", "much").sentence("much")
