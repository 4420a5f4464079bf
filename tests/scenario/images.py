"""Images of a test's own, put into an operator's store as `cloister image load` leaves them."""
import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from pathlib import Path

import pytest

# In place of a file's content.
WHITEOUT = object()                     # hides what a lower layer has there
FOLDER = object()

APPLETS = ["sh", "cat", "ls", "id", "touch", "env", "stat", "test", "sleep", "echo", "pwd", "mkdir", "readlink", "mount",
           "head", "wc", "find", "true"]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
VERSION = '{"imageLayoutVersion":"1.0.0"}'
NAME = "org.opencontainers.image.ref.name"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def busybox():
    """A layer with a shell and what scripts need."""
    path = shutil.which("busybox")
    if path is None:
        pytest.skip("no busybox (package busybox-static)")
    return {"bin/busybox": Path(path).read_bytes(), **{f"bin/{name}": Path("busybox") for name in APPLETS}}


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def hex_of(digest):
    return digest.removeprefix("sha256:")


def archive(files):
    """A tar of FILES."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.mode = 0o755
            if isinstance(content, Path):
                entry.type, entry.linkname = tarfile.SYMTYPE, str(content)
                tar.addfile(entry)
            else:
                data = content.encode() if isinstance(content, str) else content
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def documents(ids, config=None, layers=None, **more):
    """The descriptor of an image whose layers have these diff IDS, and its blobs.  LAYERS: theirs."""
    blobs = []

    def descriptor(kind, data):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        blobs.append(data)
        return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}

    about = {"architecture": ARCHITECTURE, "os": "linux", "config": config or {},
             "rootfs": {"type": "layers", "diff_ids": ids}, **more}
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, about),
                "layers": [descriptor(LAYER, data) for data in layers or [f"layer {id}".encode() for id in ids]]}
    return descriptor(MANIFEST, manifest), blobs


def layout(operator, *layers, config=None, name="layout"):
    """An OCI image layout in a folder of the operator's; LAYERS as in Store.layer(), without whiteouts."""
    tars = [archive(files) for files in layers]
    entry, blobs = documents([digest_of(data) for data in tars], config, layers=tars)
    for data in blobs:
        operator.file(f"{name}/blobs/sha256/{hex_of(digest_of(data))}", data)
    operator.file(f"{name}/oci-layout", VERSION)
    operator.file(f"{name}/index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    return operator.base / name


class Store:
    def __init__(self, operator):
        self.operator = operator
        self.top = operator.base / "data/images"

    def folder(self, name):
        path = self.operator.folder(f"data/images/{name}" if name else "data/images")
        path.chmod(0o700)
        return path

    def put(self, path, content, owner):
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is FOLDER:
            path.mkdir(exist_ok=True)
        elif content is WHITEOUT:
            os.mknod(path, stat.S_IFCHR, 0)
        elif isinstance(content, Path):
            path.symlink_to(content)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            path.chmod(0o755)
        if self.operator.is_root and owner:
            os.chown(path, owner, owner, follow_symlinks=False)

    def layer(self, files, opaque=(), owners=None):
        """A layer of FILES: {path: content, a Path for a link, WHITEOUT or FOLDER}.  Its diff id."""
        told = repr((sorted((k, v if isinstance(v, (str, bytes)) else str(v)) for k, v in files.items()), opaque, owners))
        diff_id = digest_of(told.encode())
        top = self.folder(f"layers/{hex_of(diff_id)}") / "fs"
        if top.exists():
            return diff_id
        top.mkdir()
        for name, content in files.items():
            self.put(top / name, content, (owners or {}).get(name))
        for name in opaque:
            os.setxattr(top / name, "user.overlay.opaque", b"y")
        if not self.operator.is_root:
            for path in [top, *top.rglob("*")]:
                self.operator.own(path)
        return diff_id

    def add(self, name, *layers, config=None, **more):
        """An image called NAME (None: it has no name) of LAYERS, each {path: content} or a diff id.  Its digest."""
        for part in "", "blobs", "blobs/sha256", "layers", "uses", "parts":
            self.folder(part)
        ids = [one if isinstance(one, str) else self.layer(one) for one in layers]
        entry, blobs = documents(ids, config, **more)
        for data in blobs:
            self.operator.file(f"data/images/blobs/sha256/{hex_of(digest_of(data))}", data)
        self.list(entry | ({"annotations": {NAME: name}} if name else {}))
        return entry["digest"]

    def list(self, entry):
        file = self.top / "index.json"
        entries = json.loads(file.read_text())["manifests"] if file.exists() else []
        for other in entries:
            if other.get("annotations") == entry.get("annotations"):
                other.pop("annotations", None)
        entries = [e for e in entries if e["digest"] != entry["digest"]] + [entry]
        self.operator.file("data/images/oci-layout", VERSION)
        self.operator.file("data/images/index.json", json.dumps({"schemaVersion": 2, "manifests": entries}))

    def tree(self, diff_id):
        return self.top / "layers" / hex_of(diff_id) / "fs"
