"""Summarises the reports of the matrix's guests: a table, JUnit files, and the verdict."""
import json
import re
import tarfile
import xml.etree.ElementTree as ET


def read(disk, folder):
    """Unpack the archive that a guest wrote to DISK; its results.json, or None."""
    try:
        with tarfile.open(disk, "r:") as archive:
            for member in archive:
                # Names are a guest's: only plain files, under their last part.
                name = member.name.rsplit("/", 1)[-1]
                if member.isreg() and re.fullmatch(r"[\w.-]+\.(txt|xml|json)", name):
                    (folder / name).write_bytes(archive.extractfile(member).read())
        return json.loads((folder / "results.json").read_text())
    except (tarfile.TarError, OSError, ValueError):
        return None


def counts(folder, step):
    """"12 passed, 1 failed" of a step that counts, else ""."""
    stem = folder / f"{step['case']}.{step['place']}"
    try:
        suite = ET.parse(f"{stem}.xml").getroot().find("testsuite").attrib
    except (OSError, ET.ParseError):
        try:
            text = open(f"{stem}.txt", encoding="utf-8", errors="replace").read()
        except OSError:
            return ""
        found = re.findall(r"^(\d+ passed, \d+ failed(?:, \d+ skipped)?)$", text, re.M)
        return found[-1] if found else ""
    failed = int(suite["failures"]) + int(suite["errors"])
    skipped = int(suite["skipped"])
    passed = int(suite["tests"]) - failed - skipped
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def write(results, folder):
    """Write the table, all facts, and a JUnit file with a case for each step."""
    for name, facts in results.items():
        for step in facts.get("steps", ()):
            step["counts"] = counts(folder / name, step)
    (folder / "matrix.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "matrix.md").write_text(table(results))
    root = ET.Element("testsuites")
    for name, facts in results.items():
        suite = ET.SubElement(root, "testsuite", name=name)
        for step in facts.get("steps", ()):
            case = ET.SubElement(suite, "testcase", classname=f"{name}.{step['case']}",
                                 name=step["place"], time=str(step["seconds"]))
            if step["status"] != 0:
                ET.SubElement(case, "failure", message=describe(step))
        for kind in ("failure", "unreachable"):
            if kind in facts:
                case = ET.SubElement(suite, "testcase", classname=name, name="boot")
                ET.SubElement(case, "failure" if kind == "failure" else "skipped", message=facts[kind])
    ET.ElementTree(root).write(folder / "matrix.xml", encoding="utf-8", xml_declaration=True)


def describe(step):
    verdict = "ok" if step["status"] == 0 else "too late" if step["was_late"] else "FAILED"
    return f"{verdict} ({step['counts']})" if step.get("counts") else verdict


def table(results):
    """Markdown: a row for each case and place, a column for each system."""
    rows = {}
    for name, facts in results.items():
        for step in facts.get("steps", ()):
            rows.setdefault((step["case"], step["place"]), {})[name] = describe(step)
    lines = ["| | " + " | ".join(results) + " |", "| --- |" + " --- |" * len(results)]

    def row(title, cell):
        lines.append(f"| {title} | " + " | ".join(cell(n, f) for n, f in results.items()) + " |")

    row("kernel", lambda n, f: f.get("about", {}).get("kernel", "not reachable" if "unreachable" in f
                                                      else "FAILED"))
    row("systemd", lambda n, f: f.get("about", {}).get("systemd", "").replace("systemd ", "").split(" ")[0])
    row("with", lambda n, f: {"kvm": "KVM", "tcg": "emulation"}.get(f.get("accelerator"), ""))
    for (case, place), cells in rows.items():
        row(f"{case}, {place}", lambda n, f: cells.get(n, ""))
    for name, facts in results.items():
        for kind in ("failure", "unreachable"):
            if kind in facts:
                lines.append(f"\n{name}: {facts[kind]}")
    return "\n".join(lines) + "\n"


def verdict(results, asked=False):
    """The exit status.  A system that cannot be reached is a failure if it was asked for by name."""
    for facts in results.values():
        if "failure" in facts or asked and "unreachable" in facts:
            return 1
        if any(step["status"] != 0 for step in facts.get("steps", ())):
            return 1
    return 0 if any(facts.get("steps") for facts in results.values()) else 1
