"""Completion in real shells: somebody types, presses Tab, and reads the line."""
import shutil

import pytest

from terminal import Terminal

PROMPT = "at-your-service:"
# How each shell is started without the user's own settings, and what it is told first.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "bind 'set enable-bracketed-paste off'; bind 'set show-all-if-ambiguous on'; PS1={prompt}; "
             "source <(cloister completion bash)"),
    "zsh": (["zsh", "-f", "-i"],
            "autoload -Uz compinit; compinit -D -u; PS1={prompt}; "
            "source <(cloister completion zsh)"),
    "fish": (["fish", "--no-config", "--interactive"],
             "function fish_prompt; echo -n {prompt}; end; cloister completion fish | source"),
}


@pytest.fixture(params=SHELLS)
def shell(request, operator):
    """A shell that knows cloister's words, and waits at its prompt."""
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param}")
    command, first = SHELLS[request.param]
    env = {"PATH": f"{operator.program.parent}:/usr/bin:/bin", "TERM": "vt100", "fish_greeting": ""}
    terminal = Terminal(operator, *command, columns=200, env=env)
    terminal.type(first.format(prompt=PROMPT) + "\n")
    terminal.expect(r"\n[^\n]*" + PROMPT)
    yield terminal
    terminal.type("\x03\nexit\n")
    terminal.end()
    terminal.close()


def tab(shell, line, pattern):
    """Types LINE and Tab; returns the match of PATTERN, and clears the line."""
    shell.type(line + "\t")
    found = shell.expect(pattern)
    shell.type("\x15")
    return found


def test_words(shell, operator):
    tab(shell, "cloister refu", r"cloister refuse\b")
    tab(shell, "cloister secret serv", r"secret services\b")
    tab(shell, "cloister run --worksp", r"--workspace\b")
    tab(shell, "cloister run --allow preset:anthr", r"preset:anthropic\b")
    tab(shell, "cloister run --boundary micro", r"--boundary microvm\b")


def test_cells_and_files(shell, operator):
    operator.detach("--name", "weaving", "--", "sleep", "100000")
    tab(shell, "cloister stop weav", r"stop weaving\b")
    operator.cloister("kill", "weaving").ok()
    folder = operator.folder("quarters", {"unusual.yaml": "version: 1\n"})
    shell.type(f"cd {folder}\n")
    shell.expect(PROMPT)
    tab(shell, "cloister policy check unu", r"sual\.yaml\b")


def words(operator, *line):
    said = operator.cloister("completion", "words", "--", *line).ok()
    return [each.split("\t")[0] for each in said.splitlines()]


def test_every_command_and_option(operator):
    """What is offered is what `help` lists."""
    said = operator.cloister("help").ok()
    commands = [line.split()[0] for line in said.splitlines() if line.startswith("  ")]
    assert words(operator, "") == commands and words(operator) == commands
    for command in commands:
        said = operator.cloister("help", command).ok()
        listed = [word for line in said.splitlines() if line.startswith("  ") for word in line.split()
                  if word.startswith("--") and line.index(word) == 6]
        assert words(operator, command, "--") == [*listed, "--help"], command


def test_places(operator):
    assert words(operator, "run", "-w", "") == [":files"]
    assert words(operator, "run", "--", "") == [":programs"]
    assert words(operator, "run", "cla") == ["claude", ":programs"]
    assert words(operator, "run", "--", "cla") == [":programs"]
    assert words(operator, "profile", "show", "cod") == ["codex"]
    assert words(operator, "profile", "new", "x", "--like", "gem") == ["gemini"]
    assert words(operator, "run", "--root", "m") == ["minimal", ":programs"]
    assert words(operator, "run", "echo", "--wor") == [":files"]
    assert words(operator, "help", "revo") == ["revoke"]
    assert words(operator, "nosuch", "") == []
    assert words(operator, "secret", "add", "--like", "anthr") == ["anthropic"]


def test_states_and_volumes(operator):
    """The names of those that exist, and no files for paths that are in a state."""
    assert words(operator, "state", "log", "") == words(operator, "volume", "show", "") == []
    operator.cloister("state", "create", "woven-brain").ok()
    operator.cloister("volume", "create", "woven-deps").ok()
    for verb in ("log", "show", "cat", "accept", "rollback", "verify", "remove", "export"):
        assert words(operator, "state", verb, "wov") == ["woven-brain"], verb
    for line in (["create", ""], ["import", ""], ["cat", "woven-brain", ""], ["checkpoint", ""]):
        assert words(operator, "state", *line) == [], line
    assert words(operator, "state", "import", "new", "") == words(operator, "state", "export", "woven-brain", "") == [":files"]
    for verb in ("show", "snapshot", "restore", "clone", "remove"):
        assert words(operator, "volume", verb, "") == ["woven-deps"], verb
    assert words(operator, "volume", "create", "") == []
    assert words(operator, "run", "--state", "") == ["woven-brain"]
    assert words(operator, "run", "--volume-name", "") == ["woven-deps"]
    assert words(operator, "dispatches", "--state", "") == []


def test_placeholders_are_no_words(operator):
    assert "always" in words(operator, "run", "--restart", "") and "N" not in words(operator, "run", "--restart", "")


def test_ended_cells_where_something_is_kept(operator):
    workspace = operator.folder("workspace", {"old": "old\n"})
    operator.cloister("run", "-w", str(workspace), "--name", "woven", "--", "touch", "new").ok()
    assert words(operator, "diff", "wo") == ["woven", ":files"]
    assert words(operator, "kill", "wo") == []
    operator.cloister("discard", "woven").ok()


def test_no_shell_is_named(operator):
    for line in ([], ["nosuch"], ["bash", "zsh"]):
        operator.cloister("completion", *line).sentence("bash, zsh or fish")
