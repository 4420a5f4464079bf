#!/usr/bin/python3
"""chart.py [NAME=VALUE...] - prints contrib/helm/cloister as plain manifests, with values of its values.yaml changed.

It is no Helm, which Debian does not have.  The chart keeps to what this understands, and anything else is an error:
    {{ .Values.NAME }}, {{ .Release.Namespace }}       a value as it is, or with `| quote` as a text in quotes
    {{ .Files.Get "NAME" | indent N }}                 a file of the chart, each line moved to the right
    {{- if .Values.NAME }} ... {{- end }}              alone on their lines
"""
import json
import re
import sys
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[1] / "contrib/helm/cloister"
NAMESPACE = "cloister"


def value_of(path, values, namespace):
    if path == "Release.Namespace":
        return namespace
    at = values
    for name in path.removeprefix("Values.").split("."):
        at = at[name]
    return at


def expand(text, values, namespace):
    def put(found):
        words = found[1].strip().split(" | ")
        if file := re.fullmatch(r'\.Files\.Get "([a-z.]+)"', words[0]):
            spaces = " " * int(words[1].removeprefix("indent "))
            return "\n".join(spaces + line for line in (CHART / file[1]).read_text().splitlines())
        value = value_of(re.fullmatch(r"\.((?:Values\.[A-Za-z.]+)|Release\.Namespace)", words[0])[1], values, namespace)
        if words[1:] == ["quote"]:
            return json.dumps(str(value))
        assert not words[1:] and isinstance(value, (int, str)), found[0]
        return str(value)
    return re.sub(r"\{\{(.*?)\}\}", put, text)


def render(text, values, namespace=NAMESPACE):
    lines, shown = [], [True]
    for line in text.splitlines():
        if begin := re.fullmatch(r"\{\{- if \.(Values\.[A-Za-z.]+) \}\}", line):
            shown.append(shown[-1] and bool(value_of(begin[1], values, namespace)))
        elif line == "{{- end }}":
            shown.pop()
        elif shown[-1]:
            lines.append(expand(line, values, namespace))
    assert len(shown) == 1
    return "\n".join(lines)


def chart(changes=(), namespace=NAMESPACE):
    """All manifests, with CHANGES of values: (path, value)."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path, value in changes:
        at = values
        *way, last = path.split(".")
        for name in way:
            at = at[name]
        assert last in at, path
        at[last] = value
    # The namespace of the workers comes before what is in it.
    files = sorted((CHART / "templates").glob("*.yaml"), key=lambda path: (path.name != "namespace.yaml", path.name))
    parts = [render(path.read_text(), values, namespace) for path in files]
    return "\n---\n".join(part for part in parts if part.strip()) + "\n"


def main():
    print("# Made by tools/chart.py of contrib/helm/cloister: change that instead.", end="\n")
    print(chart([(word.split("=")[0], yaml.safe_load(word.split("=", 1)[1])) for word in sys.argv[1:]]), end="")


if __name__ == "__main__":
    main()
