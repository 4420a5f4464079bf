"""Images made by hand: archives of layers entry by entry, good and bad, in OCI layouts."""
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass
class Entry:
    """One entry of an archive."""
    name: str
    data: bytes = b""
    type: bytes = tarfile.REGTYPE
    link: str = ""
    mode: int = 0o644
    uid: int = 0
    pax: dict = field(default_factory=dict)

    def info(self):
        info = tarfile.TarInfo(self.name)
        info.type, info.linkname, info.mode, info.uid, info.gid = self.type, self.link, self.mode, self.uid, self.uid
        info.size, info.pax_headers = len(self.data), self.pax
        return info


def folder(name, mode=0o755):
    return Entry(name, type=tarfile.DIRTYPE, mode=mode)


def symlink(name, to):
    return Entry(name, type=tarfile.SYMTYPE, link=to)


def link(name, to):
    return Entry(name, type=tarfile.LNKTYPE, link=to)


def archive(*entries, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for entry in entries:
            tar.addfile(entry.info(), io.BytesIO(entry.data))
    return out.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def squeeze(data):
    return gzip.compress(data, 1, mtime=0)


class Layout:
    """An OCI image layout with one image; ARCHIVES are its layers, or the bytes of their blobs with BLOBS."""

    def __init__(self, path, *archives, blobs=None, diff_ids=None, config=None, name=None, media=LAYER):
        self.path = Path(path)
        self.blobs = self.path / "blobs/sha256"
        self.blobs.mkdir(parents=True, exist_ok=True)
        blobs = blobs or [squeeze(data) for data in archives]
        self.diff_ids = diff_ids or [digest(data) for data in archives]
        self.config = json.dumps({"os": "linux", "architecture": ARCHITECTURE, "config": config or {},
                                  "rootfs": {"type": "layers", "diff_ids": self.diff_ids}}).encode()
        self.layers = [self.put(blob) for blob in blobs]
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": self.put(self.config), "size": len(self.config)},
            "layers": [{"mediaType": media, "digest": name, "size": len(blob)}
                       for name, blob in zip(self.layers, blobs)]}).encode()
        self.digest = self.put(self.manifest)
        annotations = {"annotations": {"org.opencontainers.image.ref.name": name}} if name else {}
        (self.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
            {"mediaType": MANIFEST, "digest": self.digest, "size": len(self.manifest), **annotations}]}))
        (self.path / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def put(self, data):
        name = digest(data)
        (self.blobs / name.removeprefix("sha256:")).write_bytes(data)
        return name

    @property
    def ref(self):
        return f"oci:{self.path}"


def store(operator):
    return operator.base / "data/images"


def tree(operator, diff_id):
    """The folder of an unpacked layer."""
    return store(operator) / "layers" / diff_id.removeprefix("sha256:") / "fs"


def images(operator):
    return json.loads(operator.cloister("image", "list", "--json").ok())


def leftovers(operator):
    """Everything in the store that belongs to no image, if there is no image."""
    found = [path for part in ("blobs/sha256", "layers", "parts") for path in (store(operator) / part).glob("*")]
    return found + list(store(operator).glob(".new-*"))


def picture(top, *but):
    """How everything beneath TOP looks, apart from the folders BUT."""
    seen = {}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if Path(folder, name) not in but]
        for name in [*folders, *files, "."]:
            path = Path(folder, name)
            st = path.lstat()
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            target = os.readlink(path) if path.is_symlink() else ""
            seen[str(path)] = (st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_mtime_ns, data, target)
    return seen
