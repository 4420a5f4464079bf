#!/usr/bin/python3
"""structure.py - counts the structure of a source folder.

structure.py [--struct NAME]... [--first FILE] [--calls] FOLDER...

For each FOLDER it prints:
  lines      lines of its .c and .h files
  files      how many there are
  declared   functions that its headers declare
  calls      calls of functions of one .c file in another, each pair of caller file and function once
  back       those of the calls that run back up
and for each --struct NAME the number of its members, and how many of them are booleans.

The files are put in an order, main.c first, in which a file stands above those that it calls.  A call from
a lower file to a higher one runs back up.  If files call each other in a circle, no order avoids that: the
tool tries to find the order with the fewest.  It is the result of a search, so compare counts of the
same tool only.  --calls lists the order, and the calls that run back.  A table of functions is not a call:
names without parentheses behind them are not counted.

The tool reads text, not C: it removes comments and strings, and takes a name at the start of a line with a
parenthesis behind it as a definition, as the house style writes them."""
import argparse
import re
import sys
from pathlib import Path

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DEFINED = re.compile(r"^([a-z_]\w*)\([^;{}]*\)\n\{", re.M)
STATIC = re.compile(r"^static\b[^;{}()]*\n([a-z_]\w*)\(", re.M)
DECLARED = re.compile(r"^(?!static\b|typedef\b|#|\s)[\w \t*]*?\b([a-z_]\w*)\([^{}]*?\)[^{};]*;", re.M)
CALLED = re.compile(r"\b([a-z_]\w*)\(")
ROUNDS = 50


def bare(text):
    """TEXT without comments, and with empty strings."""
    return COMMENT.sub(lambda found: '""' if found.group()[0] in "\"'" else " ", text)


def read(folder):
    """The files of FOLDER, by name, without comments."""
    return {path.name: bare(path.read_text()) for path in sorted(folder.glob("*.[ch]"))}


def calls_between(files):
    """(caller, callee) -> the functions of file CALLEE that file CALLER calls."""
    owner, own = {}, {}
    for name, text in files.items():
        if name.endswith(".c"):
            static = set(STATIC.findall(text))
            own[name] = set(DEFINED.findall(text))
            owner.update({function: name for function in own[name] - static})
    calls = {}
    for name in own:
        for function in set(CALLED.findall(files[name])) - own[name]:
            if function in owner:
                calls.setdefault((name, owner[function]), set()).add(function)
    return calls


def back(order, calls):
    """The pairs of CALLS in which the callee stands above its caller."""
    place = {name: i for i, name in enumerate(order)}
    return [pair for pair in calls if place[pair[1]] < place[pair[0]]]


def count(pairs, calls):
    return sum(len(calls[pair]) for pair in pairs)


def best_order(names, calls, first):
    """An order of NAMES with few calls back: each file moves to its best place, until none gains."""
    fixed = [name for name in names if name == first]
    order = fixed + sorted((name for name in names if name != first),
                           key=lambda name: sum(len(f) for p, f in calls.items() if p[1] == name) -
                           sum(len(f) for p, f in calls.items() if p[0] == name))
    for _ in range(ROUNDS):
        before = count(back(order, calls), calls)
        for name in [name for name in order if name not in fixed]:
            rest = [other for other in order if other != name]
            # Moving down past a file saves the calls from it, and costs those to it.
            cost, costs = 0, []
            for other in rest[len(fixed):]:
                costs.append(cost)
                cost += len(calls.get((name, other), ())) - len(calls.get((other, name), ()))
            costs.append(cost)
            at = costs.index(min(costs)) + len(fixed)
            order = rest[:at] + [name] + rest[at:]
        if count(back(order, calls), calls) == before:
            break
    return order


def members(files, name):
    """How many members struct NAME has, and how many of them are booleans; None: there is no such struct."""
    for text in files.values():
        found = re.search(rf"^struct {name} \{{\n(.*?)^\}};", text, re.M | re.S)
        if found is None:
            continue
        body = found.group(1)
        # A nested struct counts as one member.
        while "{" in body:
            body = re.sub(r"\b(struct|union|enum)\b[^;{}]*\{[^{}]*\}", "int", body)
        fields = [field for field in body.split(";") if field.strip()]
        n = [len(re.sub(r"\([^()]*\)|\[[^\]]*\]", "", field).split(",")) for field in fields]
        flags = [k for k, field in zip(n, fields) if re.match(r"\s*bool\b", field)]
        return sum(n), sum(flags)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--struct", action="append", default=[], help="count the members of this struct")
    parser.add_argument("--first", default="main.c", help="the file at the top (main.c)")
    parser.add_argument("--calls", action="store_true", help="list the order, and the calls that run back")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    for folder in options.folders:
        files = read(folder)
        if not files:
            sys.exit(f"structure.py: '{folder}' has no .c or .h file: name a folder of src/")
        calls = calls_between(files)
        order = best_order([name for name in files if name.endswith(".c")], calls, options.first)
        up = back(order, calls)
        declared = {name for file, text in files.items() if file.endswith(".h")
                    for name in DECLARED.findall(text)}
        lines = sum(len(path.read_text().splitlines()) for path in folder.glob("*.[ch]"))
        print(f"{folder}: lines {lines}, files {len(files)}, declared {len(declared)}, "
              f"calls {count(calls, calls)}, back {count(up, calls)}")
        for name in options.struct:
            found = members(files, name)
            if found is not None:
                print(f"  struct {name}: members {found[0]}, booleans {found[1]}")
        if options.calls:
            print(f"  order: {' '.join(order)}")
            for caller, callee in sorted(up):
                print(f"  {caller} -> {callee}: {' '.join(sorted(calls[caller, callee]))}")


if __name__ == "__main__":
    main()
