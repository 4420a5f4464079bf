#!/usr/bin/python3
"""Measures the product against its peers and its bars.

    run.py [--only NAME] [--quick] [--strict] [--list]

Prints a table, and writes bench.json into the build folder: a list of objects
with name, value, unit, spread, peer, peer_value, ratio, bar, ok.  With --only the
other groups' objects in that file stay.  What could not be measured makes the
status 1; a missed bar does so with --strict, since another busy process on the
machine is enough to miss one."""
import argparse
import importlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))

import bench                    # noqa: E402
from lab import Lab, NoProduct  # noqa: E402

HELPERS = ("mcp_loop", "spawn_loop", "stamp", "syscall_loop")
LAYOUT = "{:<44} {:>9} {:<6} {:>17}  {:<18} {:>9} {:>6}  {:<14} {}"
HEADINGS = ("name", "value", "unit", "middle half", "peer", "peer's", "ratio", "bar", "ok")


def number(x):
    if x is None:
        return ""
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def say(row):
    if "note" in row:
        print(f"{row['name']:<44} not measured: {row['note']}", flush=True)
        return
    spread = "..".join(number(x) for x in row["spread"]) if row["spread"] else ""
    ratio = f"{row['ratio']:.2f}" if row["ratio"] else ""
    if row["bar"] and row["bar"].startswith("ratio"):
        ratio = f"{row['ratio']:.3f}"
    ok = {None: "", True: "yes", False: "NO"}[row["ok"]]
    print(LAYOUT.format(row["name"], number(row["value"]), row["unit"], spread,
                        row["peer"] or "", number(row["peer_value"]), ratio,
                        row["bar"] or "", ok).rstrip(), flush=True)


def load_groups():
    for path in sorted(HERE.glob("bench_*.py")):
        importlib.import_module(path.stem)


def write_json(path, by_group, partial):
    """Rows carry no group: what a partial run measured replaces its namesakes."""
    rows = [row for rows in by_group.values() for row in rows]
    if partial:
        try:
            old = json.loads(path.read_text())
        except (OSError, ValueError):
            old = []
        names = {row["name"] for row in rows}
        rows = [row for row in old if row["name"] not in names] + rows
    whole = path.with_suffix(".tmp")
    whole.write_text(json.dumps(rows, indent=1) + "\n")
    os.replace(whole, path)


def measure(names, quick):
    by_group, failed = {}, []
    with Lab("cloister-bench-", HELPERS) as lab:
        print(LAYOUT.format(*HEADINGS).rstrip())
        for name in names:
            report = bench.Report(quick, say)
            try:
                bench.GROUPS[name](lab, report)
            except (bench.Unmeasured, OSError, subprocess.SubprocessError) as e:
                print(f"{name:<44} FAILED: {e}", flush=True)
                failed.append(name)
            except Exception:
                traceback.print_exc()
                failed.append(name)
            by_group[name] = report.rows
        build = lab.build
    write_json(build / "bench.json", by_group, partial=len(names) < len(bench.GROUPS))
    return [row for rows in by_group.values() for row in rows], failed


def main():
    load_groups()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", action="append",
                        help="only this group; may be repeated")
    parser.add_argument("--quick", action="store_true", help="fewer of everything: a first look")
    parser.add_argument("--strict", action="store_true", help="a missed bar is a failure")
    parser.add_argument("--list", action="store_true", help="name the groups")
    args = parser.parse_args()
    if args.list:
        print("\n".join(bench.GROUPS))
        return 0
    unknown = [name for name in args.only or [] if name not in bench.GROUPS]
    if unknown:
        parser.error(f"no group '{unknown[0]}': there are {', '.join(bench.GROUPS)}")

    names = [name for name in bench.GROUPS if not args.only or name in args.only]
    try:
        rows, failed = measure(names, args.quick)
    except NoProduct as e:
        print(e, file=sys.stderr)
        return 1
    missed = [row["name"] for row in rows if row["ok"] is False]
    held = sum(row["ok"] is True for row in rows)
    print(f"{len(rows)} measured, {held} bars held, {len(missed)} missed"
          + (f", not measured: {', '.join(failed)}" if failed else ""))
    return 1 if failed or (args.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
