#!/usr/bin/python3
"""check_owned.py - no function returns before what it owns was set.

check_owned.py FILE...: what OWN() declares is freed at every return, so a return must
not come between the declaration and the first mention of it.  Goes by lines, in our
style of declarations, and not by C."""
import re
import sys
from pathlib import Path

DECLARED = re.compile(r"\t+OWN\(\w+\) (?:const )?(?:struct |unsigned )?\w+ (.*);$")
BRACKETED = re.compile(r"\([^()]*\)|\{[^{}]*\}|\[[^][]*\]")


def unset(declarators):
    """The names that are declared without a value."""
    while BRACKETED.search(declarators):
        declarators = BRACKETED.sub("", declarators)
    return [name.strip(" *") for name in declarators.split(",") if "=" not in name]


def early_return(lines, name):
    """How many lines on, or None."""
    for i, line in enumerate(lines):
        if line == "}" or re.search(rf"\b{re.escape(name)}\b", line):
            return None
        if re.search(r"\breturn\b", line):
            return i
    return None


def main():
    faults = 0
    for path in sys.argv[1:]:
        lines = Path(path).read_text().split("\n")
        for i, line in enumerate(lines):
            declared = DECLARED.match(line)
            for name in unset(declared[1]) if declared else ():
                at = early_return(lines[i + 1:], name)
                if at is not None:
                    print(f"{path}:{i + at + 2}: returns before '{name}' of line {i + 1} is set: "
                          f"give it a value where it is declared")
                    faults += 1
    return faults > 0


sys.exit(main())
