"""Measures the cost of the walls for work behind them: a compile, git status, single calls.

The same clock, inside and outside: spawn_loop runs on either side and times its
commands there.  Keeping a workspace's changes after the end is a row of its own."""
import contextlib
import os
import shutil
import subprocess

from bench import Samples, Unmeasured, group
from lab import PATH, SEP

MODES = (("rw workspace", ":rw"), ("overlay workspace", ""))
CELL_SLICE_NS = 5_000_000               # what cloister-init asks for

UNIT = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
struct node{n} {{ struct node{n} *left, *right; char key[32]; double weight; }};
"""
FUNCTION = """
static struct node{n} *insert{n}_{i}(struct node{n} *t, const char *key, double w)
{{
	if (t == NULL) {{
		t = calloc(1, sizeof(*t));
		snprintf(t->key, sizeof(t->key), "%s-{i}", key);
		t->weight = sqrt(w) * {i};
		return t;
	}}
	int c = strcmp(key, t->key);
	if (c < 0)
		t->left = insert{n}_{i}(t->left, key, w);
	else if (c > 0)
		t->right = insert{n}_{i}(t->right, key, w);
	for (size_t k = 0; k < strlen(key); k++)
		t->weight += key[k] * {i} % 7;
	return t;
}}
double walk{n}_{i}(const char **keys, size_t len)
{{
	struct node{n} *t = NULL;
	double sum = 0;
	for (size_t k = 0; k < len; k++)
		t = insert{n}_{i}(t, keys[k], (double)k);
	while (t != NULL) {{
		sum += t->weight;
		t = sum > {i} ? t->left : t->right;
	}}
	return sum;
}}
"""
MAKEFILE = """OBJECTS := $(patsubst %.c,out/%.o,$(wildcard *.c))
out/program: $(OBJECTS)
\t$(CC) -o $@ $^ -lm
out/%.o: %.c
\t@mkdir -p out
\t$(CC) -O1 -c -o $@ $<
"""


def own(who, folder):
    for path, folders, files in os.walk(folder):
        for name in [".", *folders, *files]:
            os.chown(os.path.join(path, name), who.uid, who.gid)


def sources(who):
    folder = who.home / "compile"
    folder.mkdir()
    for n in range(20):
        text = UNIT.format(n=n) + "".join(FUNCTION.format(n=n, i=i) for i in range(1, 21))
        (folder / f"unit{n}.c").write_text(text)
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    (folder / "Makefile").write_text(MAKEFILE)
    own(who, folder)
    return folder


def repository(who):
    folder = who.home / "repository"
    for d in range(100):
        (folder / f"d{d}").mkdir(parents=True)
        for f in range(20):
            (folder / f"d{d}" / f"f{f}.txt").write_text(f"{d} {f}\n" * 20)
    own(who, folder)
    for args in (["init", "-q"], ["add", "."],
                 ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all"]):
        done = who.run(["git", "-C", folder, *args])
        if done.returncode != 0:
            raise Unmeasured(f"git: {done.stderr.strip()}")
    return folder


class Place:
    """Where a command is timed: outside, or in a cell with FOLDER as its workspace."""

    def __init__(self, lab, who, folder, mode=None, options=()):
        self.lab, self.who, self.folder, self.options = lab, who, folder, options
        self.argv = []
        if mode is not None:
            self.argv = [lab.cloister, "run", "-q", "-w", f"{folder}{mode}", "-e", f"PATH={PATH}",
                         "-v", f"{lab.bin}:{lab.bin}:ro", "--"]
        self.walls, self.cpus = Samples(), Samples()

    def loop(self, options, command):
        return [*self.argv, self.lab.bin / "spawn_loop", *self.options, *options, SEP, *command]

    def keep(self, line, what):
        """In milliseconds, what spawn_loop printed."""
        _, wall, cpu, status = map(int, line.split())
        if status != 0:
            raise Unmeasured(f"{what}: status {status}")
        self.walls.append(wall / 1e6)
        self.cpus.append(cpu / 1e6)

    def time(self, options, command, keep=True):
        what = f"{command[0]} in {self.argv or 'the open'}"
        run = self.who.run(self.loop(options, command), cwd=self.folder)
        lines = run.stdout.splitlines()
        if run.returncode != 0 or not lines:
            raise Unmeasured(f"{what}: status {run.returncode}: {run.stderr.strip()[-300:]}")
        for line in lines if keep else []:
            self.keep(line, what)

    def tidy(self):
        if self.argv:
            self.who.run([self.lab.cloister, "discard", "--all"])


def interleave(places, rounds, before, loop, command):
    """To and fro: what a place leaves behind (files just deleted, whose inodes ext4
    passes over for minutes) is not always paid by the same one."""
    order = list(places.values())
    for i in range(-1, rounds):
        order.reverse()
        for place in order:
            before()
            place.time(loop, command, keep=i >= 0)
            place.tidy()


def take_turns(places, turns, each, warmup, command):
    """As interleave(), for commands of milliseconds: all places are there the whole time, and a
    moment in which the machine is slower is one for all of them."""
    procs = {}
    try:
        for name, place in places.items():
            procs[name] = place.who.popen(place.loop(["-t", "-n", each, "-w", warmup], command),
                                          cwd=place.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, text=True)
        order = list(places)
        for turn in range(-3, turns):
            order.reverse()
            for name in order:
                procs[name].stdin.write(".")
                procs[name].stdin.flush()
                for _ in range(each):
                    line = procs[name].stdout.readline()
                    if not line:
                        raise Unmeasured(f"{command[0]}, {name}: it ended")
                    if turn >= 0:
                        places[name].keep(line, f"{command[0]}, {name}")
    finally:
        for proc in procs.values():
            proc.stdin.close()
            proc.stdout.close()
            proc.wait(timeout=20)
        for place in places.values():
            place.tidy()


@contextlib.contextmanager
def overlaid(lab, folder):
    """FOLDER beneath an overlay, as a cell's workspace is by default, but outside."""
    top = lab.memory / "overlay"
    upper, work, merged = (top / name for name in ("upper", "work", "merged"))
    for path in (upper, work, merged):
        path.mkdir(parents=True)
        os.chown(path, lab.user.uid, lab.user.gid)
    subprocess.run(["mount", "-t", "overlay", "-o",
                    f"lowerdir={folder},upperdir={upper},workdir={work}", "none", merged], check=True)
    try:
        yield merged
    finally:
        subprocess.run(["umount", merged], check=True)


def report_places(report, places, name, how, peers):
    """Noise only ever adds, so few long samples are compared by their fastest, and
    many short ones by their median.  CPU time suffers less from other processes.
    PEERS: with what each that has a bar is compared; all others with "outside"."""
    for mode, place in places.items():
        peer = peers.get(mode, "outside")
        if mode == peer:
            continue
        report.row(f"work: {name}, {mode}", how(place.walls), "ms", place.walls.spread,
                   peer, how(places[peer].walls), "ratio <= 1.03" if mode in peers else None)
        report.row(f"work: {name}, {mode}, CPU time", how(place.cpus), "ms",
                   place.cpus.spread, peer, how(places[peer].cpus))


def places_of(lab, folder):
    places = {"outside": Place(lab, lab.user, folder)}
    return places | {name: Place(lab, lab.user, folder, mode) for name, mode in MODES}


@group("compile")
def compile_project(lab, report):
    folder = sources(lab.user)
    places = places_of(lab, folder)
    interleave(places, report.pick(9, 2),
               lambda: shutil.rmtree(folder / "out", ignore_errors=True),
               ["-n", 1], ["make", "-s", "-j2"])
    report_places(report, places, "compile", min, {mode: "outside" for mode, _ in MODES})


@group("git")
def git_status(lab, report):
    folder = repository(lab.user)
    # What the walls alone cost is the difference to the first.
    slices = Place(lab, lab.user, folder, options=["-l", CELL_SLICE_NS])
    places = {"outside, a cell's slices": slices} | places_of(lab, folder)
    peers = {"rw workspace": "outside"}
    with contextlib.ExitStack() as stack:
        # Overlayfs makes stat() a third dearer, in a cell or not.
        if lab.root is not None:
            merged = stack.enter_context(overlaid(lab, folder))
            places["overlay outside"] = Place(lab, lab.user, merged)
            peers["overlay workspace"] = "overlay outside"
        # The first of each turn writes the index anew: owners and inodes look different.
        take_turns(places, report.pick(200, 20), 5, 2, ["git", "status", "--short"])
    report_places(report, places, "git status", lambda samples: samples.median, peers)


@group("calls")
def calls(lab, report):
    loop = lab.bin / "syscall_loop"
    inside = [lab.cloister, "run", "-q", "-v", f"{lab.bin}:{lab.bin}:ro", "--", loop]
    costs = {"inside": {}, "outside": {}}
    for _ in range(report.pick(5, 2)):
        for where, argv in (("inside", inside), ("outside", [loop])):
            run = lab.user.run(argv)
            if run.returncode != 0:
                raise Unmeasured(f"syscall_loop {where}: {run.stderr.strip()}")
            for line in run.stdout.splitlines():
                name, ns = line.split()
                costs[where].setdefault(name, Samples()).append(float(ns))
    for name, samples in costs["inside"].items():
        report.row(f"work: one {name}", min(samples), "ns", samples.spread,
                   "outside", min(costs["outside"][name]))
