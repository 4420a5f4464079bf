"""Documents quote messages that the program has, and name tests that exist."""
import functools
import re
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
DOCS = TREE / "docs"


@functools.cache
def sources():
    """All of the program's text, with strings that are written in several parts put together."""
    text = "\n".join(path.read_text() for path in sorted(TREE.glob("src/**/*.[ch]")))
    return re.sub(r'"\s*\n\s*"', "", text).replace('\\"', '"')


def rows(name):
    """The cells of each row of each table in a document, without heads."""
    lines = (DOCS / name).read_text().splitlines()
    for number, line in enumerate(lines):
        is_head = number + 1 < len(lines) and re.fullmatch(r"\|[\s|-]+\|", lines[number + 1])
        if line.startswith("| ") and not is_head and not re.fullmatch(r"\|[\s|-]+\|", line):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def messages():
    return [row[0].strip("`") for row in rows("troubleshooting.md") if row[0].startswith("`")]


def has(message):
    """Whether the program can print MESSAGE, in which '...' is anything."""
    parts = [part.strip(" '") for part in message.split("...")]
    return all(part in sources() for part in parts if len(part) > 3) and any(len(part) > 10 for part in parts)


@pytest.mark.parametrize("message", messages())
def test_the_message_is_the_programs(message):
    assert has(message)


def test_there_are_messages_and_others_are_missed():
    assert len(messages()) > 30
    assert not has("no rule permits it at all, for ever") and not has("...")


def exists(name):
    """Whether there is a test PATH, or PATH::FUNCTION."""
    path, _, function = name.partition("::")
    places = [TREE / "tests" / path, TREE / "tests/scenario" / path]
    found = [place for place in places if place.is_file()]
    return bool(found) and (not function or re.search(rf"^def {function}\(", found[0].read_text(), flags=re.M) is not None)


def named(document):
    return re.findall(r"`([\w/]+\.py(?:::\w+)?)`", (DOCS / document).read_text())


@pytest.mark.parametrize("document", ["threats.md", "versioning.md"])
def test_the_named_tests_exist(document):
    assert named(document)
    assert [name for name in named(document) if not exists(name)] == []


def test_every_line_of_the_mapping_has_a_test():
    """But for one that cloister has no part in."""
    mapped = [row for row in rows("threats.md")]
    assert len(mapped) > 40
    assert [row[0] for row in mapped if "test_" not in row[-1]] == ["prompt hardening, content filters"]


def test_other_tests_are_missed():
    assert exists("steer/test_revoke.py") and not exists("steer/test_revoke.py::test_nothing_of_the_kind")
    assert not exists("steer/test_nothing.py")


@pytest.mark.parametrize("recipe", sorted(path.name for path in (DOCS / "recipes").glob("*.md")))
def test_recipes_end_with_how_far_they_were_tried(recipe):
    text = (DOCS / "recipes" / recipe).read_text()
    assert recipe == "README.md" or "\n## Tried\n" in text
    for name in re.findall(r"\(`(test_\w+)`\)", text):
        assert any(f"def {name}(" in path.read_text() for path in TREE.glob("tests/scenario/*/*.py")), name
