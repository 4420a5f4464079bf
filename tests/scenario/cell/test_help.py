"""Help and version: every command, from the tables that the options are read from."""
import os
import pathlib
import re

import pytest

from operators import CLOISTER, only_root

COMMANDS = ["run", "init", "learn", "ps", "top", "exec", "attach", "events", "tree", "replay", "why", "review", "logs", "wait", "stop", "kill", "freeze", "thaw", "pause", "resume", "fork", "ttl",
            "allow", "deny", "budget", "approvals", "approve", "refuse", "revoke", "rotate",
            "diff", "apply", "discard", "purge", "trust", "policy", "profile", "capability", "agent", "env", "target", "assign", "secret",
            "dispatch", "dispatches", "serve", "worker", "operator", "store", "dashboard", "mcp", "audit", "image", "volume", "cache", "tools", "state", "plan", "rebuild", "vm", "doctor",
            "completion", "help", "version"]


def test_overview(operator):
    said = operator.cloister("help").ok()
    assert said.startswith("cloister runs AI agents in throwaway cells.\n")
    assert re.findall(r"^  ([a-z]+) ", said, re.M) == COMMANDS
    assert all(re.match(r"  .{39} [a-z]", line) for line in said.splitlines() if line[:2] == "  "), said
    for word in ("--help", "-h"):
        assert operator.cloister(word).ok() == said


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command(operator, command):
    said = operator.cloister("help", command).ok()
    assert said.startswith(f"usage: cloister {command}")
    for word in ("--help", "-h"):
        assert operator.cloister(command, word).ok() == said
        assert operator.cloister(word, command).ok() == said
    for line in said.splitlines():
        assert len(line) <= 100 and line == line.rstrip(), line
        # In columns; an option that is too long for its own stands alone.
        assert line[:2] != "  " or line[36:37] in (" ", "") or line.endswith("]"), line


def test_help_is_anywhere_on_the_line(operator):
    """Among a command's own words: what follows the command of a cell is that command's."""
    for line in (["run", "-w", ".", "--help"], ["diff", "nosuch", "--help"], ["image", "build", ".", "-h"],
                 ["secret", "add", "X", "--help"], ["exec", "--help", "x", "y"]):
        assert operator.cloister(*line).ok() == operator.cloister("help", line[0]).ok()
    assert operator.cloister("run", "--", "echo", "--help", "x").ok() == "--help x\n"
    operator.cloister("run", "--name", "--help").sentence("--help")


def test_verbs_that_mean_cells(operator):
    said = operator.cloister("help", "policy").ok()
    for verb in ("show CELL", "set CELL FILE", "edit CELL", "explain FILE [METHOD] URL"):
        assert f"\n  {verb} " in said, verb


def test_every_option_is_one(operator):
    """A command accepts every option that its help lists."""
    for command in COMMANDS:
        said = operator.cloister("help", command).ok()
        for option in re.findall(r"^  (?:-\w,|   ) (--[a-z0-9-]+)", said, re.M):
            done = operator.cloister(command, f"{option}=x", "nosuch", "nosuch")
            assert "there is no option" not in done.err, (command, option)


MAN = pathlib.Path(__file__).resolve().parents[3] / "man"
VERBS = {
    **dict.fromkeys(("capability", "agent", "env", "target"), ["register", "list", "show", "diff", "history", "retire"]),
    "policy": ["check", "test", "explain", "presets", "schema", "trust", "show", "set", "edit", "register", "list", "show", "diff",
               "history", "retire"],
    "secret": ["add", "list", "show", "rotate", "remove", "services", "init"],
    "dispatches": ["show", "events", "output", "files", "cancel", "prune"],
    "audit": ["verify", "show", "export", "prove", "key"],
    "image": ["pull", "load", "list", "show", "diff", "remove", "prune", "save", "build"],
    "vm": ["template", "list", "remove", "wait"],
    "worker": ["token", "list", "remove"],
    "profile": ["list", "show", "check", "new", "edit", "trust", "forget"],
}


@pytest.mark.parametrize("command", VERBS)
def test_verbs(operator, command):
    """All of them are listed, and the questions of new users are answered."""
    said = operator.cloister("help", command).ok()
    assert re.findall(r"^  ([a-z]+) .* [a-z]", said, re.M) == VERBS[command], said
    assert all(re.match(r"  .{34} [a-z]", line) or line.endswith("]") for line in said.splitlines()
               if line[:2] == "  "), said
    for verb in VERBS[command]:
        assert operator.cloister(command, verb, "--help").ok() == said
        assert "there is no `" not in operator.cloister(command, verb, "--no-such-option").err


def manual_verbs():
    """The verbs of each command whose manual page lists them in its synopsis."""
    for page in sorted(MAN.glob("cloister-*.1")):
        command = page.stem.removeprefix("cloister-")
        synopsis = page.read_text().partition(".Sh SYNOPSIS\n")[2].partition(".Sh")[0]
        verbs = set(re.findall(rf"^\.Nm cloister {command} (?:Cm )?([a-z]+)$", synopsis, re.M))
        if len(verbs) > 1:
            yield command, verbs


@pytest.mark.parametrize("command, verbs", [pytest.param(*each, id=each[0]) for each in manual_verbs()])
def test_verbs_of_the_manual(operator, command, verbs):
    """`help`, which completion follows, has the verbs of the manual page, and no others."""
    listed = re.findall(r"^  ([a-z]+)(?: .*)? [a-z]", operator.cloister("help", command).ok(), re.M)
    assert set(listed) == verbs


def test_run_options(operator):
    said = operator.cloister("help", "run").ok()
    for option in ("-w, --workspace", "-v, --volume", "-e, --env", "-d, --detach", "-t, --tty",
                   "-T, --no-tty", "-q, --quiet", "--name", "--memory", "--cpus", "--pids",
                   "--time", "--disk", "--io", "--ttl", "--rootfs", "--root", "--hostname",
                   "--profile", "-p, --policy", "--allow", "--no-policy", "--ca", "--publish"):
        assert option in said


def test_unknown_options(operator):
    operator.cloister("run", "-z", "--", "true").sentence("'-z'", "see `cloister help run`")
    operator.cloister("learn", "--qqqqqq", "--", "true").sentence("see `cloister help learn`")
    assert "takes the options of `cloister run`" in operator.cloister("help", "learn").ok()


def test_options_of_other_tools_are_understood(operator):
    operator.cloister("run", "-it", "--", "true").sentence("'-i', leave it out: standard input is connected")
    operator.cloister("run", "--rm", "--", "true").sentence("'--rm', leave it out: a cell leaves nothing behind")


def test_help_of_nothing(operator):
    operator.cloister("help", "nosuch").sentence("'nosuch'")
    operator.cloister("help", "rnu").sentence("'rnu'", "did you mean 'run'")


@pytest.mark.parametrize("word, here", [("rm", "discard"), ("list", "ps"), ("status", "ps"), ("unpause", "thaw"),
                                        ("build", "image build"), ("images", "image list")])
def test_names_of_other_tools_are_understood(operator, word, here):
    operator.cloister(word).sentence(f"there is no command '{word}': here it is `cloister {here}`")


def test_version(operator):
    said = operator.cloister("version").ok()
    assert re.fullmatch(r"cloister \d+\.\d+\.\d+\n", said)
    assert operator.cloister("--version").ok() == said


@only_root
def test_runs_in_place(operator):
    """Where it was built, by any path, and through a link."""
    assert operator.do(CLOISTER, "run", "--", "echo", "x").ok() == "x\n"
    said = operator.do(f"./{CLOISTER.name}", "run", "--", "echo", "x", cwd=CLOISTER.parent)
    assert said.ok() == "x\n"
    link = operator.base / "linked"
    link.symlink_to(CLOISTER)
    assert operator.do(link, "run", "--", "echo", "x").ok() == "x\n"


def test_found_by_path(operator):
    env = {"PATH": f"{operator.program.parent}:/usr/bin:/bin"}
    said = operator.do("sh", "-c", f"{operator.program.name} run -- echo x", env=env)
    assert said.ok() == "x\n"


def test_installed(operator, ground):
    """In PREFIX/bin, with the helpers in PREFIX/libexec/cloister."""
    libexec = operator.program.parent / "libexec"
    if not libexec.is_dir():
        pytest.skip("it is an installed one")
    operator.folder("prefix/bin"), operator.folder("prefix/libexec/cloister")
    operator.host(f"cp {operator.program} {operator.base}/prefix/bin/cloister;"
                  f"cp {libexec}/* {operator.base}/prefix/libexec/cloister/")
    assert operator.do(operator.base / "prefix/bin/cloister", "run", "--", "echo", "x").ok() == "x\n"


def test_helpers_are_not_for_people(operator):
    libexec = operator.program.parent / "libexec"
    if not libexec.is_dir():
        pytest.skip("it is an installed one")
    for name in sorted(os.listdir(libexec)):
        done = operator.do(libexec / name)
        assert done.status != 0 and len((done.out + done.err).splitlines()) <= 1, (name, done)


def test_output_that_cannot_be_written(operator):
    """`cloister help | head -1` and a full disk: no crash, no hang."""
    assert operator.host(f"{operator.program} help | head -1").startswith("cloister runs")
    with open("/dev/full", "w") as full:
        assert operator.cloister("help", stdout=full).status in (0, 125)
