"""The way out of a workspace: what is applied to the real folder, and only that."""
import os
import secrets
import shutil

from ..verdict import probe


@probe("changes the real folder behind an overlay workspace")
def overlay_write(w):
    w.box.need("overlay")
    work = w.folder("work")
    w.file(work / "file", "real")
    before = w.snapshot(work)
    w.run("change", "write", work / "file", "changed", workspace=work)
    return w.snapshot(work) != before


def naive_apply(source, target):
    """Copy results out as a script would: the control of the probes below."""
    for folder, _, files in os.walk(source):
        there = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(there, exist_ok=True)
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                shutil.copy(path, os.path.join(there, name))


def plant_and_apply(w, work, remove, path, mode, apply=True):
    """Have the agent make PATH in the workspace (taking REMOVE away), then apply."""
    w.box.need("apply")
    if w.control:
        copy = w.base / "copy"
        shutil.copytree(work, copy, symlinks=True)
        for item in [copy, *copy.rglob("*")]:
            w.own(item)
        w.run("plant", copy / remove if remove else "-", copy / path, mode, "planted")
        if apply:
            naive_apply(copy, work)
        return
    name = w.cell_name = "a" + secrets.token_hex(6)
    w.stack.callback(w.forget, name)
    w.run("plant", work / remove if remove else "-", work / path, mode, "planted", workspace=work, name=name)
    if apply:
        w.tool_run("apply", name)


def workspace_with_link(w, name, target):
    work = w.folder("work")
    os.symlink(target, work / name)
    w.own(work / name)
    return work


@probe("puts a folder where the workspace had a link out, to write through it when applied")
def apply_folder_link(w):
    outside = w.folder("outside")
    work = workspace_with_link(w, "link", outside)
    plant_and_apply(w, work, "link", "link/evil", "644")
    return any(outside.iterdir())


@probe("puts a file where the workspace had a link out, to write through it when applied")
def apply_file_link(w):
    path, token = w.secret()
    work = workspace_with_link(w, "notes", path)
    plant_and_apply(w, work, "notes", "notes", "644")
    return path.read_text() != token


HELD = (".git/hooks/post-checkout", ".envrc", ".vscode/tasks.json")


def held(path):
    def run(w):
        work = w.folder("work")
        (work / ".git").mkdir()
        w.own(work / ".git")
        plant_and_apply(w, work, None, path, "755")
        return (work / path).exists()
    return run


for path in HELD:
    probe(f"has {path} applied without its being named", name="apply-" + path.strip(".").replace("/", "-"),
          group="workspace")(held(path))


@probe("has a setuid program applied")
def apply_setuid(w):
    work = w.folder("work")
    plant_and_apply(w, work, None, "program", "4755")
    return (work / "program").exists() and bool((work / "program").stat().st_mode & 0o6000)


@probe("has its file names read as commands by the operator's terminal")
def diff_names(w):
    work = w.folder("work")
    name = "evil\x1b]2;title\x07.txt"
    plant_and_apply(w, work, None, name, "644", apply=False)
    if w.control:
        return b"\x1b" in "\n".join(os.listdir(w.base / "copy")).encode()
    return any(b"\x1b" in w.tool_run(*words, w.cell_name)[1]
               for words in (["diff", "--name-status"], ["diff"], ["diff", "--json"], ["apply", "--dry-run"],
                             ["apply"]))
