#!/usr/bin/python3
"""Try every probe on cloister and on its peers, and print what came of it."""
import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lab import box, catalogue, score, verdict, world  # noqa: E402, F401


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--json", metavar="FILE", help="write the verdicts here as well")
    p.add_argument("--score", metavar="FILE", help="write the page of the score here, after a whole run")
    p.add_argument("--box", action="append", help="only these boxes (cloister, bwrap, crun, ...)")
    p.add_argument("--as", dest="who", choices=("root", "user"), help="only as root, or only as a user")
    p.add_argument("-v", "--verbose", action="store_true", help="say why, for every verdict")
    p.add_argument("--off", default="", help="controls of the mutant build to switch off")
    p.add_argument("probe", nargs="*", help="only these probes")
    return p.parse_args()


def boxes(args, who):
    mine = [box.Cloister(off=args.off)] if args.off else box.cloisters()
    asked = box.processes() if args.box else []
    every = [b for b in mine + asked + box.peers() if not args.box or b.name in args.box]
    absent = [b.name for b in every if b.missing(who)]
    if absent:
        print(f"not tried as {who.name}: " + ", ".join(f"{b.name} ({b.missing(who)})" for b in every
                                                       if b.name in absent))
    return [b for b in every if b.name not in absent]


NAME_WIDTH = 2 + max(map(len, verdict.PROBES))


def row(name, cells, widths):
    return "  ".join([name.ljust(NAME_WIDTH), *[c.ljust(n) for c, n in zip(cells, widths)]]).rstrip()


def table(who, chosen, columns, judge, results):
    """Print one line for each probe as its verdicts come in."""
    widths = [max(9, len(b.name)) for b in columns]
    print(f"\nAs {who.name} (uid {who.uid})\n")
    print(row("", [*[b.name for b in columns], "seen"], [*widths, 4]))
    group = None
    for p in chosen:
        if p.group != group:
            group = p.group
            print(group)
        verdicts = [judge.judge(p, who, b) for b in columns]
        seen = next((v.seen for b, v in zip(columns, verdicts) if b.name == "cloister"), "")
        print(row("  " + p.name, [*[v.word for v in verdicts], seen], [*widths, 4]), flush=True)
        for b, v in zip(columns, verdicts):
            results.append(dict(probe=p.name, group=p.group, says=p.says, who=who.name, box=b.name,
                                verdict=v.word, why=v.why, seen=v.seen, by=v.by, ok=v.ok(p)))


def explain(results, everything):
    """The reason for all that is not simply contained; for peers, only if asked."""
    for r in results:
        mine = r["box"].startswith("cloister")
        if everything or (mine and r["verdict"] != verdict.CONTAINED):
            why = " | ".join(r["why"].splitlines()[-4:])
            print(f"{r['verdict']:9} {r['box']} as {r['who']}: {r['probe']}, {r['says']}: {why}")


def summary(results, seconds):
    print()
    for name in dict.fromkeys(r["box"] for r in results):
        for who in dict.fromkeys(r["who"] for r in results):
            n = collections.Counter(r["verdict"] for r in results if (r["box"], r["who"]) == (name, who))
            if n:
                print(f"{name:16} as {who:5} " + ", ".join(f"{n[w]} {w}" for w in sorted(n)))
    print(f"{seconds:.0f} s")


def with_bpffs():
    """Begin again with a bpffs of one's own, if root has none: else root's cells are recorded by `notify`."""
    if os.geteuid() != 0 or os.path.ismount("/sys/fs/bpf") or not os.path.isdir("/sys/fs/bpf"):
        return
    mount = "mount --make-rprivate / && mount -t bpf bpf /sys/fs/bpf"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], stderr=subprocess.DEVNULL).returncode == 0:
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", f'{mount} && exec "$0" "$@"', sys.executable, *sys.argv])


def main():
    # An interrupted run takes its canaries away, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args = options()
    with_bpffs()
    known = list(verdict.PROBES.values())
    unknown = set(args.probe) - set(verdict.PROBES)
    if unknown:
        sys.exit(f"no such probe: {', '.join(sorted(unknown))}")
    chosen = [p for p in known if not args.probe or p.name in args.probe]
    results, start, told = [], time.monotonic(), []
    with world.Lab() as lab:
        judge = verdict.Judge(lab)
        for who in world.everybody():
            if args.who in (None, who.name):
                columns = boxes(args, who)
                told += [f"{b.name} as {who.name}:\n    {b.flags(who)}" for b in columns]
                table(who, chosen, columns, judge, results)
    print("\nThe flags that each was given\n")
    print("\n".join(told) + "\n")
    explain(results, args.verbose)
    summary(results, time.monotonic() - start)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + "\n")
    if args.score and not (args.box or args.who or args.off or args.probe):
        score.write(args.score, results)
    blind = [name for name in score.unseen(results) if score.why_unseen(results, name) == score.UNEXPLAINED]
    if blind and args.who is None:
        print("not in the record, and no reason is known: " + ", ".join(blind))
    bad = [r for r in results if r["box"].startswith("cloister") and not r["ok"]]
    mine = [r for r in results if r["box"].startswith("cloister")]
    return 1 if bad or (not mine and not args.box) else 0


if __name__ == "__main__":
    sys.exit(main())
