"""Measures how an image is unpacked, beside umoci with the same layer."""
import json
import shutil
import time

from bench import Samples, Unmeasured, group
from bench_4_work import own
from lab import await_quiet

FROM = "/usr/lib"


def tree(who, megabytes):
    """Files of this machine, of all sizes."""
    to, left = who.home / "image/tree", megabytes << 20
    done = who.run(["find", FROM, "-xdev", "-type", "f", "-readable", "-size", "-8M", "-printf", "%s %p\n"], timeout=300)
    for line in sorted(done.stdout.splitlines()):
        size, path = line.split(" ", 1)
        if left <= 0:
            break
        target = to / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        left -= int(size)
    own(who, who.home / "image")
    return to


def must(who, argv, cwd):
    begun = time.monotonic()
    done = who.run(argv, cwd=cwd, timeout=600)
    if done.returncode != 0:
        raise Unmeasured(f"{argv}: status {done.returncode}: {done.stderr.strip()[-300:]}")
    return (time.monotonic() - begun) * 1000, done.stdout


@group("image")
def image(lab, report):
    who, megabytes, rounds = lab.user, report.pick(300, 40), report.pick(5, 2)
    if shutil.which("umoci") is None:
        raise Unmeasured("there is no umoci here")
    tree(who, megabytes)
    folder = who.home / "image"
    for words in (["init", "--layout", "oci"], ["new", "--image", "oci:a"],
                  ["insert", "--rootless", "--image", "oci:a", "tree", "/usr"]):
        must(who, ["umoci", *words], folder)
    digest = json.loads(must(who, [lab.cloister, "image", "load", "oci:oci:a", "--json"], folder)[1])["digest"]
    store = must(who, [lab.cloister.parent / "libexec/cloister-image", "--resolve", digest], folder)[1]
    layers = [part["path"].removesuffix("/fs") for part in json.loads(store)["layers"]]
    ours, umoci = Samples(), Samples()
    await_quiet()
    for _ in range(rounds):
        must(who, ["sh", "-c", 'chmod -R u+rwX "$@" bundle 2>/dev/null; rm -rf "$@" bundle; sync', "sh", *layers], folder)
        ours.append(must(who, [lab.cloister.parent / "libexec/cloister-image", "--resolve", digest], folder)[0])
        umoci.append(must(who, ["umoci", "unpack", "--rootless", "--image", "oci:a", "bundle"], folder)[0])
    report.row(f"image: unpack {megabytes} MB", min(ours), "ms", ours.spread, "umoci unpack", min(umoci), "ratio <= 1.25")
