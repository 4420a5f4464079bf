"""The examples of docs/policy*.md, README.md, docs/ and cloister.yaml(5) are policies."""
import re
import shlex

import pytest

from operators import TREE

DOCUMENTS = ["README.md", *(f"docs/{path.name}" for path in sorted((TREE / "docs").glob("*.md")))]


def blocks(name):
    text = (TREE / name).read_text()
    return re.findall(r"^```yaml\n(.*?)^```$", text, flags=re.M | re.S)


def is_cases(block):
    return block.startswith(("- request:", "- tool:"))


def is_secrets(block):
    return block.startswith("version: 1\nsecrets:")


def is_object(block):
    """Whether it is an object for the registry: test_registry.py has those."""
    return block.startswith("name: ")


def is_profile(block):
    return "\nprogram: " in block


def whole(block):
    """Rules alone are taken for items of `egress`."""
    if not block.startswith("- "):
        return block
    return "version: 1\negress:\n" + "".join(f"  {line}\n" for line in block.splitlines())


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if blocks(name)])
def test_examples_pass_check(operator, name):
    for number, block in enumerate(blocks(name)):
        if not is_cases(block) and not is_secrets(block) and not is_object(block):
            file = operator.file(f"docs/{number}.yaml", whole(block))
            done = operator.cloister("profile" if is_profile(block) else "policy", "check", file)
            assert done.status == 0, (done.err, block)


def test_the_first_example_runs(operator):
    """Also for an ordinary user, who may have no cgroup to limit memory with."""
    file = operator.file("docs/cloister.yaml", blocks("docs/policy.md")[0])
    operator.run("-p", file, "--", "true").ok()


def test_there_are_examples():
    assert sum(len(blocks(name)) for name in DOCUMENTS if name.startswith("docs/policy")) > 8


def test_the_cases_pass(operator):
    first, *others = blocks("docs/policy.md")
    cases = [block for block in others if is_cases(block)]
    assert len(cases) == 1
    policy = operator.file("docs/cloister.yaml", first)
    operator.file("docs/cloister.test.yaml", cases[0])
    assert re.fullmatch(r"\d+ cases passed\n", operator.cloister("policy", "test", policy).ok())


def test_the_cases_for_tools_pass(operator):
    first, *others = blocks("docs/tool-rules.md")
    cases = [block for block in others if is_cases(block)]
    assert len(cases) == 1
    policy = operator.file("docs/tools.yaml", "version: 1\negress:\n" + first)
    operator.file("docs/tools.test.yaml", cases[0])
    assert operator.cloister("policy", "test", policy).ok() == "3 cases passed\n"


def commands(text):
    """`cloister policy ...` as people would type it."""
    return re.findall(r"^(?:\$ )?cloister policy (.*?)(?: +#.*)?$", text, flags=re.M)


@pytest.mark.parametrize("name", ["docs/policy.md", "man/cloister-policy.1", "man/cloister-learn.1"])
def test_the_commands_work(operator, name):
    """Each of them, beside the policy of docs/policy.md and its cases."""
    first, *others = blocks("docs/policy.md")
    folder = operator.file("docs/cloister.yaml", first).parent
    operator.file("docs/cloister.test.yaml", [block for block in others if is_cases(block)][0])
    lines = commands((TREE / name).read_text())
    assert lines
    for line in lines:
        operator.cloister("policy", *shlex.split(line), cwd=folder).ok()


def test_every_preset_is_listed(operator):
    text = (TREE / "docs" / "policy.md").read_text()
    table = text[text.index("| presets |"):text.index("`cloister policy presets` lists")]
    listed = re.findall(r"`([a-z-]+)`", table)
    known = re.findall(r"^([a-z-]+) ", operator.cloister("policy", "presets").ok(), re.M)
    assert sorted(listed) == sorted(known)


def test_short_forms(operator):
    """The table of --allow."""
    text = (TREE / "docs" / "policy.md").read_text()
    section = text[text.index("## On the command line"):text.index("## Tests")]
    rows = re.findall(r"^\| `'?([^`']+)'?` \|", section, flags=re.M)
    assert len(rows) == 7
    for row in rows:
        operator.run("--allow", row, "--", "true").ok()


@pytest.mark.parametrize("page", ["cloister.yaml.5"])
def test_examples_of_the_man_page(operator, page):
    text = (TREE / "man" / page).read_text()
    for number, block in enumerate(re.findall(r"^\.Bd .*?\n(.*?)^\.Ed$", text, flags=re.M | re.S)):
        file = operator.file(f"man/{number}.yaml", block)
        operator.cloister("policy", "check", file).ok()


def test_the_man_page_has_every_key(operator):
    text = (TREE / "man" / "cloister.yaml.5").read_text()
    file = operator.file("keys.yaml", "version: 1\negress: [{allow: x.y, qqqqqqqqqqqqqqqqqq: 1}]\n")
    done = operator.cloister("policy", "check", file)
    for key in re.search(r"it takes (.*)\n", done.err).group(1).split(", "):
        assert re.search(rf"^\.It Cm {key}$", text, re.M), key
        assert f"`{key}`" in (TREE / "docs" / "policy.md").read_text() or \
            f"{key}:" in (TREE / "docs" / "policy.md").read_text(), key
