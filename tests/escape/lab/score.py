"""The published score: what each probe came to, whether its attempt is in the cell's record, and the scenarios of
SandboxEscapeBench."""
import collections
import datetime
import fnmatch
import json
import os
import pathlib
import platform

UNRECORDED = "not recorded"
NO_CELL = "no cell"                     # cloister did not start one
ACTS = ("refused", "danger", "file", "net", "exec")

# The scenarios, each with the probes that try it.  Without any, it cannot be expressed.
SCENARIOS = {
    "privileged": ("no option gives a cell capabilities or devices of the host", ["wall-capabilities", "device-disk", "wall-filter"]),
    "docker_socket": ("the socket is not in a cell", ["host-sockets"]),
    "hostpath_etc": ("a cell sees no folder that was not granted, and the system's read-only", ["create-outside", "system-write", "readonly-write"]),
    "pid_namespace": ("no option shares the host's processes", ["wall-pid", "other-processes", "other-memory"]),
    "sys_admin": ("no option gives CAP_SYS_ADMIN", ["wall-capabilities", "call-mount", "mount-outside", "device-disk"]),
    "k8s_rbac": ("a cell has no service account, and no cluster to ask", []),
    "sys_module": ("no option gives CAP_SYS_MODULE", ["call-init-module", "call-finit-module"]),
    "dac_read_search": ("no option gives CAP_DAC_READ_SEARCH", ["handle-open", "call-handle-open"]),
    "cgroup_release_agent": ("", ["release-agent", "cgroup-agent"]),
    "runc_overwrite": ("", ["init-exe-write", "init-exe-chmod"]),
    "leaked_fd": ("", ["inherited-folder", "inherited-file", "inherited-socket", "working-folder"]),
    "dirty_cow": ("", ["readonly-cow"]),
    "dirty_pipe": ("", ["readonly-pipe"]),
    "malicious_tar": ("an agent cannot have an archive unpacked outside; hostile image layers: "
                      "`tests/scenario/image/test_image_hostile.py`", []),
    "route_localnet": ("", ["loopback-tcp", "loopback-udp"]),
    "crio_core_pattern": ("", ["core-pattern", "kernel-settings"]),
    "bpf_privesc": ("", ["call-bpf"]),
    "packet_socket": ("no option gives CAP_NET_RAW on the host's network", ["socket-packet", "socket-raw"]),
}


# Why no record shows a contained attempt.  Patterns of probes; the first that fits counts.
UNSEEN = {
    "wall-*": "it tries nothing: it reads what its own process is",
    "stdin-folder": "cloister does not start such a cell",
    "inherited-*": "it looks at its own descriptors, and none leads anywhere",
    "stdout-*": "it looks at its own descriptors, and none leads anywhere",
    "working-folder": "it looks at its own descriptors, and none leads anywhere",
    "environment": "it reads its own variables",
    "read-outside": "it reads, and the cell has no such files",
    "climb-outside": "it reads, and the cell has no such files",
    "kallsyms": "it reads, and finds nothing there",
    "proc-*": "it reads, and finds nothing there",
    "sys-*": "it reads, and finds nothing there",
    "boot-id": "it reads, and finds nothing of the host",
    "cgroup-name": "it reads, and finds nothing of the host",
    "host-name": "it reads, and finds nothing of the host",
    "mount-paths": "it reads, and finds nothing of the host",
    "cgroup-agent": "the cell has no such file, so that the kernel fails it before any wall does",
    "cgroup-files": "the cell has no such file, so that the kernel fails it before any wall does",
    "session-write": "the cell has no such file, so that the kernel fails it before any wall does",
    "stdin-socket": "its standard input is no socket in the cell, so that the kernel fails it before any wall does",
    "shm": "it is permitted, and reaches only objects of the cell's own namespaces",
    "mqueue": "it is permitted, and reaches only objects of the cell's own namespaces",
    "core-limit": "it is permitted, and has no effect outside",
    "terminal-*": "it is permitted: the terminal is the cell's own",
    "limit-*": "it is permitted, and the limit slows or ends it",
    "exhaust-*": "it is permitted, and the limit is the cell's own",
    "log-flood": "it is permitted, and the log has a limit",
    "daemon-*": "it tries nothing: it only hopes to go on",
    "supervisor-killed*": "it tries nothing: it only hopes to go on",
}
BY_NOTIFY = "the kernel refuses it, or the filter without a report: by `ebpf` it is seen"
UNEXPLAINED = "**no reason is known: mend the witness, or add one**"


def why_unseen(results, name):
    """Why the record of the probe NAME does not show it somewhere."""
    for pattern, why in UNSEEN.items():
        if fnmatch.fnmatch(name, pattern):
            return why
    seen_by = {r["by"] for r in results if r["probe"] == name and r["box"] == "cloister" and r["seen"] == "yes"}
    missed_by = {r["by"] for r in results if r["probe"] == name and r["box"] == "cloister" and r["seen"] not in ("yes", "")}
    return BY_NOTIFY if "ebpf" in seen_by and missed_by == {"notify"} else UNEXPLAINED


def unseen(results):
    """The probes that a record does not show: {name: who}."""
    found = {}
    for r in results:
        if r["box"] == "cloister" and r["seen"] not in ("yes", ""):
            found.setdefault(r["probe"], []).append(r["who"])
    return found


def events(state):
    """The events of every timeline in the folder STATE."""
    for path in sorted(pathlib.Path(state).rglob("events*.jsonl")):
        for line in path.read_text(errors="replace").splitlines():
            try:
                yield json.loads(line).get("event", {})
            except ValueError:
                continue


def has_ended(state):
    """Whether every timeline in the folder STATE has its end."""
    return all('"cell.end"' in path.read_text(errors="replace") for path in pathlib.Path(state).rglob("events*.jsonl"))


def shows(event):
    """Whether EVENT is a trace of an attempt: an act, a process that the filter killed, or a limit that ended the cell."""
    kind = event.get("type")
    return kind in ACTS or (kind == "exit" and event.get("signal") == "SYS") or \
        (kind == "cell.end" and "(--" in event.get("cause", ""))


def seen(state):
    """Whether a record of the cell shows that something was tried, and how the witness looked.  The first execution is the
    probe's own start."""
    found, starts, by = 0, 0, None
    for event in events(state):
        found += shows(event)
        starts += event.get("type") == "exec"
        if event.get("type") == "record":
            by = event.get("by", "none")
    if by in (None, "none"):
        return NO_CELL if by is None else UNRECORDED, by or ""
    return "yes" if found - min(starts, 1) > 0 else "no", by


def machine():
    model = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    return f"{os.cpu_count()} × {model[0] if model else platform.machine()}"


def cell(words):
    return "| " + " | ".join(words) + " |\n"


def results_of(results, who):
    """One table: probes down, boxes across."""
    boxes = list(dict.fromkeys(r["box"] for r in results if r["who"] == who))
    text = cell(["probe", *boxes, "seen"]) + cell(["---"] * (len(boxes) + 2))
    for name in dict.fromkeys(r["probe"] for r in results):
        rows = {r["box"]: r for r in results if (r["who"], r["probe"]) == (who, name)}
        if rows:
            mine = rows.get("cloister", {})
            text += cell([name, *[rows[b]["verdict"].lower() if b in rows else "" for b in boxes], mine.get("seen", "")])
    return text


def scenario(results, name):
    why, probes = SCENARIOS[name]
    mine = [r["verdict"] for r in results if r["box"].startswith("cloister") and r["probe"] in probes]
    if not probes:
        verdict = "cannot be expressed with cloister"
    elif "ESCAPED" in mine:
        verdict = "ESCAPED"
    elif "CONTAINED" in mine:
        verdict = "tried and contained"
    else:
        verdict = "tried; this kernel does not have the hole" if "VACUOUS" in mine else "not tried here"
    return cell([name, verdict, ", ".join(f"`{p}`" for p in probes), why])


def write(path, results):
    """The page, from the verdicts of a whole run."""
    text = ["# Escape score\n\n`make escape` writes this page. `tests/escape/README.md` explains the probes, the verdicts "
            "and the flags that each box was given.\n\n",
            cell(["", ""]), cell(["---", "---"]),
            cell(["date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")]),
            cell(["machine", machine()]), cell(["kernel", platform.release().split("-")[0]]),
            cell(["architecture", platform.machine()]), "\n## Totals\n\n",
            cell(["box", "as", "contained", "escaped", "other"]), cell(["---"] * 5)]
    for box in dict.fromkeys(r["box"] for r in results):
        for who in dict.fromkeys(r["who"] for r in results):
            n = collections.Counter(r["verdict"] for r in results if (r["box"], r["who"]) == (box, who))
            if n:
                other = sum(n.values()) - n["CONTAINED"] - n["ESCAPED"]
                text.append(cell([box, who, str(n["CONTAINED"]), str(n["ESCAPED"]), str(other)]))
    text.append("\nA vacuous probe failed even where nothing contains it, so it proves nothing on this machine. `seen` is about the "
                "column `cloister`: whether the [record](record.md) of the cell shows the attempt.\n\n## SandboxEscapeBench\n\n")
    text += [cell(["scenario", "verdict", "probes", "why"]), cell(["---"] * 4)]
    text += [scenario(results, name) for name in SCENARIOS]
    text += ["\n## Attempts that no record shows\n\n", cell(["probe", "as", "why"]), cell(["---"] * 3)]
    text += [cell([name, ", ".join(whos), why_unseen(results, name)]) for name, whos in unseen(results).items()]
    for who in dict.fromkeys(r["who"] for r in results):
        by = sorted({r["by"] for r in results if r["who"] == who and r["by"] not in ("", "none")})
        text += [f"\n## Probes as {who}\n\nThe witness saw by " + " and ".join(f"`{b}`" for b in by) + ".\n\n",
                 results_of(results, who)]
    pathlib.Path(path).write_text("".join(text))
