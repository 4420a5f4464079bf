"""Cells with an image as their root: a start against one with the host's programs, and what many cells share."""
import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path

from bench import Unmeasured, group, in_parallel, in_turn
from lab import processes

MIB = 1024 * 1024
NAME = "bench.internal/image:1"
LAYERS = 4
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.mode, entry.size = 0o755, len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def make_image(lab, who, program):
    """An image of a few layers, in the store."""
    folder = who.home / "layout"

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        (folder / "blobs/sha256" / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    (folder / "blobs/sha256").mkdir(parents=True)
    layers = [tar({"bin/busybox": Path(program).read_bytes()}),
              *(tar({f"srv/{i}/{k}": b"x" for k in range(50)}) for i in range(1, LAYERS))]
    about = {"architecture": ARCHITECTURE, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [
        "sha256:" + hashlib.sha256(data).hexdigest() for data in layers]}}
    kind = "application/vnd.oci.image."
    manifest = {"schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
                "config": {"mediaType": kind + "config.v1+json", **blob(json.dumps(about).encode())},
                "layers": [{"mediaType": kind + "layer.v1.tar", **blob(data)} for data in layers]}
    index = {"schemaVersion": 2, "manifests": [
        {"mediaType": kind + "manifest.v1+json", **blob(json.dumps(manifest).encode())}]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, who.uid, who.gid)
    done = who.run([lab.cloister, "image", "load", "--name", NAME, f"oci:{folder}"])
    if done.returncode != 0:
        raise Unmeasured(done.stderr.strip())


def mapped(pid, path):
    """Bytes of PATH that PID has in memory and has not changed, and its share of them."""
    found, inside = {"Rss": 0, "Pss": 0, "Private_Dirty": 0}, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = words[-1] == path
        elif inside and words[0][:-1] in found:
            found[words[0][:-1]] += int(words[1]) * 1024
    return found["Rss"] - found["Private_Dirty"], found["Pss"] - found["Private_Dirty"]


def share_pages(lab, report, who, n):
    argv = [lab.cloister, "run", "-q", "-d", "--image", NAME, "--", "/bin/busybox", "sleep", "1000"]
    name = f"image: its program in the memory of {n} cells ({who.name})"
    in_parallel(lab, who, argv, 4, total=n)
    try:
        cells = json.loads(who.run([lab.cloister, "ps", "--json"]).stdout)
        tree = processes()
        sizes = [mapped(cell["agent"], "/bin/busybox") for cell in cells if cell["agent"] in tree]
    except PermissionError:
        report.note(name, "only root may look")
        return
    finally:
        who.run([lab.cloister, "kill", "--all"])
        who.run([lab.cloister, "discard", "--all"])
    if len(sizes) != n:
        raise Unmeasured(f"{len(sizes)} of {n} cells are alive")
    report.row(name, sum(pss for _, pss in sizes) / MIB, "MiB", None, "in one", max(rss for rss, _ in sizes) / MIB,
               "ratio <= 1.15")


@group("image-run")
def image_run(lab, report):
    program = shutil.which("busybox")
    if program is None:
        raise Unmeasured("no busybox (package busybox-static)")
    for who in lab.users:
        make_image(lab, who, program)
        times = in_turn(lab, who, {
            "image": [lab.cloister, "run", "-q", "--image", NAME, "--", "/bin/busybox", "true"],
            "host": [lab.cloister, "run", "-q", "--", program, "true"],
        }, report.pick(400, 40))
        report.row(f"image: run --image -- true ({who.name})", times["image"].median, "ms", times["image"].spread,
                   "without an image", times["host"].median, "ratio <= 1.15")
        share_pages(lab, report, who, report.pick(100, 20))
