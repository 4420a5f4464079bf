#!/usr/bin/python3
"""worker_image.py FOLDER - builds what git has of this tree and puts `cloister worker` into a container image in FOLDER: an
archive for `docker load`, Podman and registries, the list of its parts (CycloneDX) and the seccomp profile for its engine.

The image has nothing but cloister's programs, the libraries that they load and the certificates of authorities.  The same
sources on the same system give the same image.
"""
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
# What `cloister worker` and `cloister serve` start, directly or not.
PROGRAMS = ["audit", "blobs", "collect", "courier", "dispatch", "fleet", "gate", "hook", "image", "init", "inspect", "layer",
            "link", "mint", "publish", "pull", "registry", "serve", "stdio", "supervisor", "tools", "unpack", "vault", "wasm",
            "witness"]
# Besides those of a normal build: nothing here starts before its libraries are there.
DYNAMIC = ["gate", "courier", "inspect", "registry", "dispatch", "tools", "unpack", "pull", "blobs", "fleet", "link",
           "serve", "wasm", "mint", "vault"]
# The reader of tar alone, without the libraries of other formats.
UNPACK = "-l:libarchive.a -lz -lzstd -lnettle"
LOADED = ["libpq.so.5"]                     # by name, when it is wanted
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
ID = 10001                                  # nobody's on common systems
ETC = {"passwd": f"root:x:0:0::/:/bin/false\ncloister:x:{ID}:{ID}::/data:/bin/false\n",
       "group": f"root:x:0:\ncloister:x:{ID}:\n", "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n"}
FOLDERS = {"data": (0o700, ID), "run/cloister": (0o700, ID), "tmp": (0o1777, 0), "proc": (0o755, 0), "sys": (0o755, 0),
           "dev": (0o755, 0)}
ENVIRONMENT = ["PATH=/usr/bin", "HOME=/data", "CLOISTER_DATA_DIR=/data", "CLOISTER_STATE_DIR=/data/state",
               "CLOISTER_RUNTIME_DIR=/run/cloister", f"SSL_CERT_FILE={CERTIFICATES}"]
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def output(*argv, **how):
    return subprocess.run([str(word) for word in argv], stdout=subprocess.PIPE, check=True, text=True, **how).stdout


def build(out, root):
    """Returns the folder that has the maps of what was linked."""
    source = out / "source"
    source.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, stdout=subprocess.PIPE, check=True).stdout
    packed = subprocess.run(["tar", "--null", "-T", "-", "-c"], cwd=TREE, input=listed, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", source], input=packed, check=True)
    how = ["make", "-s", "-C", source, f"-j{os.environ.get('JOBS', os.cpu_count())}", "MAPS=yes", f"DYNAMIC={' '.join(DYNAMIC)}",
           f"LIBS_unpack={UNPACK}", f"CFLAGS=-O2 -g -ffile-prefix-map={source}=."]
    targets = ["build/cloister", *(f"build/libexec/cloister-{name}" for name in PROGRAMS)]
    output(*how, *targets)
    for path in targets:
        to = root / ("usr/bin" if path == targets[0] else "usr/libexec/cloister") / Path(path).name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / path, to)
        output("strip", "--strip-unneeded", to)
        to.chmod(0o755)
    return source / "build"


def libraries(root):
    """Copies what the programs load to where the loader looks for it."""
    programs = [path for path in root.rglob("cloister*") if path.is_file()]
    wanted = {}
    for line in output("ldconfig", "-p", env={"PATH": "/usr/sbin:/sbin"}).splitlines():
        words = line.split()
        if words and words[0] in LOADED:
            programs.append(Path(words[-1]))
            wanted[words[0]] = Path(words[-1])
    for program in programs:
        said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
        for line in said.splitlines():
            words = line.split()
            if "=>" in words:
                wanted[words[0]] = Path(words[2])
            elif words[0].startswith("/"):
                wanted[words[0]] = Path(words[0])       # the loader
    if missing := set(LOADED) - set(wanted):
        sys.exit(f"worker_image.py: there is no {missing.pop()} here: `make image` installs it")
    for name, path in wanted.items():
        to = root / (name[1:] if name.startswith("/") else f"lib/{path.parent.name}/{name}")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path.resolve(), to)
        to.chmod(0o755)


def furnish(root):
    (root / "etc/ssl/certs").mkdir(parents=True)
    shutil.copy(CERTIFICATES, root / "etc/ssl/certs")
    (root / "etc/ssl/certs" / CERTIFICATES.name).chmod(0o644)
    for name, text in ETC.items():
        (root / "etc" / name).write_text(text)
        (root / "etc" / name).chmod(0o644)
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)


def layer(root, when):
    """A tar archive of ROOT that depends on nothing else."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            info = tar.gettarinfo(path, name)
            info.mtime, info.uid, info.gid, info.uname, info.gname = when, 0, 0, "", ""
            if info.isdir():
                info.mode, info.uid = FOLDERS.get(name, (0o755, 0))
                info.gid = info.uid
            if info.isreg():
                with path.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    return out.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def described(data, kind, **more):
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(data), "size": len(data), **more}


def encoded(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def pack(tar, version, revision, when):
    """The files of the archive: an OCI layout that `docker load` of older engines reads as well."""
    packed = gzip.compress(tar, 9, mtime=0)
    labels = {"org.opencontainers.image.title": "cloister worker", "org.opencontainers.image.version": version,
              "org.opencontainers.image.description": "Runs the dispatches of a pool, each in a cell of its own",
              "org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.revision": revision,
              "org.opencontainers.image.created": when}
    arch = MACHINES[os.uname().machine]
    config = encoded({"architecture": arch, "os": "linux", "created": when,
                      "config": {"User": f"{ID}:{ID}", "Env": ENVIRONMENT, "Entrypoint": ["/usr/bin/cloister", "worker"],
                                 "WorkingDir": "/data", "Labels": labels, "StopSignal": "SIGTERM"},
                      "rootfs": {"type": "layers", "diff_ids": [digest(tar)]}})
    manifest = encoded({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                        "config": described(config, "config.v1+json"),
                        "layers": [described(packed, "layer.v1.tar+gzip")], "annotations": labels})
    name = f"cloister-worker:{version}"
    index = encoded({"schemaVersion": 2, "manifests": [described(
        manifest, "manifest.v1+json", platform={"architecture": arch, "os": "linux"},
        annotations={"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/{name}"})]})
    files = {f"blobs/sha256/{digest(data)[7:]}": data for data in (packed, config, manifest)}
    docker = encoded([{"Config": f"blobs/sha256/{digest(config)[7:]}", "RepoTags": [name],
                       "Layers": [f"blobs/sha256/{digest(packed)[7:]}"]}])
    return {**files, "index.json": index, "manifest.json": docker,
            "oci-layout": encoded({"imageLayoutVersion": "1.0.0"})}, len(packed)


def main():
    out = Path(sys.argv[1]).absolute()
    shutil.rmtree(out, ignore_errors=True)
    root = out / "root"
    root.mkdir(parents=True)
    version = next(line.split('"')[1] for line in (TREE / "src/base/version.h").read_text().splitlines()
                   if "define CLOISTER_VERSION " in line)
    when = os.environ.setdefault("SOURCE_DATE_EPOCH", output("git", "log", "-1", "--format=%ct", cwd=TREE).strip())
    maps = build(out, root)
    libraries(root)
    furnish(root)
    name = f"cloister-worker-{version}-{MACHINES[os.uname().machine]}"
    (out / f"{name}.cdx.json").write_text(output(TREE / "tools/sbom.py", root, maps, version))
    tar = layer(root, int(when))
    stamp = output("date", "-u", "-d", f"@{when}", "+%Y-%m-%dT%H:%M:%SZ").strip()
    files, size = pack(tar, version, output("git", "rev-parse", "HEAD", cwd=TREE).strip(), stamp)
    with tarfile.open(out / f"{name}.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        for path, data in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size, info.mtime, info.mode = len(data), int(when), 0o644
            archive.addfile(info, io.BytesIO(data))
    shutil.copy(TREE / "packaging/image/seccomp.json", out)
    shutil.rmtree(out / "source")
    shutil.rmtree(root)
    print(f"{out / name}.tar: {size / 1e6:.1f} MB as registries count, {len(tar) / 1e6:.1f} MB unpacked")


if __name__ == "__main__":
    main()
