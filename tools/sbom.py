#!/usr/bin/python3
"""sbom.py FOLDER BUILD VERSION - prints the parts of a package in CycloneDX's format.

FOLDER has the files of the package.  BUILD is where they were linked with maps (`make MAPS=yes`).  The list has each
file with its hash, and for each program the Debian packages of its libraries, static and shared.
"""
import datetime
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from urllib.parse import quote

DPKG = Path("/var/lib/dpkg/info")
ARCHIVE = re.compile(r"^(/\S+\.a)\(", re.M)
NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")


def output(*argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"})
    return done.stdout if done.returncode == 0 else ""


def release():
    words = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return words["ID"].strip('"'), words.get("VERSION_ID", "").strip('"')


@functools.lru_cache(maxsize=None)
def library(path, link):
    """The component that is the Debian package of the library PATH."""
    # The merged /usr: packages may list a file in either place.
    real = os.path.realpath(path)
    owner = owners().get(real) or owners().get(real.removeprefix("/usr"))
    if owner is None:
        sys.exit(f"sbom.py: no package has {path}")
    name, version, arch = output("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}", owner).split()
    vendor, number = release()
    purl = f"pkg:deb/{vendor}/{quote(name)}@{quote(version)}?arch={arch}&distro={vendor}-{number}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
            "properties": [{"name": "cloister:link", "value": link}]}


@functools.lru_cache(maxsize=None)
def owners():
    """The package of each library of this system."""
    listed = [(file.removesuffix(".list").split("/")[-1], file) for file in map(str, DPKG.glob("*.list"))]
    return {path: package for package, file in listed for path in Path(file).read_text(errors="replace").split("\n")
            if path.endswith(".a") or ".so" in path}


def machine(path):
    with open(path, "rb") as f:
        return f.read(20)[18:20]


def linked(program, build):
    """Components of the libraries that PROGRAM has in it, and of those that it loads."""
    if ".so." in program.name:
        yield library(next(str(p) for p in Path("/").glob(f"usr/lib*/**/{program.name}") if machine(p) == machine(program)), "copy")
        return
    for listed in (build / "libexec" / f"{program.name}.map", build / f"{program.name}.map"):
        if listed.exists():
            break
    else:
        sys.exit(f"sbom.py: {program} has no map in {build}")
    for path in sorted(set(ARCHIVE.findall(listed.read_text(errors="replace")))):
        if not path.startswith(str(build.resolve())):
            yield library(path, "static")
    for name in NEEDED.findall(output("readelf", "-d", str(program))):
        # In the folder of its architecture, or where the C library's loader is.
        found = [p for place in ("usr/lib/*", "usr/lib", "usr/lib64") for p in Path("/").glob(f"{place}/{name}")]
        yield library(next(str(p) for p in found if machine(p) == machine(program)), "shared")


def main():
    folder, build, version = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    own = {"type": "application", "bom-ref": f"pkg:generic/cloister@{version}", "name": "cloister", "version": version,
           "purl": f"pkg:generic/cloister@{version}", "licenses": [{"license": {"id": "Apache-2.0"}}]}
    files, libraries, edges = [], {}, []
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
        data, name = path.read_bytes(), str(path.relative_to(folder))
        files.append({"type": "file", "bom-ref": f"file:{name}", "name": name,
                      "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]})
        parts = {part["bom-ref"]: part for part in linked(path, build)} if data[:4] == b"\x7fELF" else {}
        libraries.update(parts)
        edges.append({"ref": f"file:{name}", "dependsOn": sorted(parts)})
    edges.insert(0, {"ref": own["bom-ref"], "dependsOn": [file["bom-ref"] for file in files]})
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    parts = [*files, *(libraries[ref] for ref in sorted(libraries))]
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(parts))
    print(json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{number}", "version": 1,
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": own},
        "components": parts, "dependencies": edges}, indent=1))


if __name__ == "__main__":
    main()
