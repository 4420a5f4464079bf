"""Exit statuses, and one clear sentence for whatever cannot be done."""
import os
import shlex
import signal

import pytest

from operators import only_root, only_user


@pytest.mark.parametrize("status", [0, 1, 2, 3, 64, 100, 124, 125, 126, 127, 128, 129, 137, 143,
                                    200, 254, 255])
def test_the_commands_own_status(operator, status):
    done = operator.sh(f"exit {status}")
    assert (done.status, done.out, done.err) == (status, "", "")


def test_every_status_by_exec(operator):
    id = operator.detach("--", "sleep", "1000")
    for status in [*range(0, 256, 15), 255]:
        done = operator.cloister("exec", id, "sh", "-c", f"exit {status}")
        assert (done.status, done.err) == (status, "")


SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT,
           signal.SIGFPE, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV, signal.SIGPIPE,
           signal.SIGALRM, signal.SIGTERM, signal.SIGBUS, signal.SIGXCPU, signal.SIGSYS]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
def test_signals(operator, number):
    done = operator.sh(f"kill -{int(number)} $$; echo not reached")
    assert (done.status, done.out, done.err) == (128 + number, "", "")


def test_signals_by_exec(operator):
    id = operator.detach("--", "sleep", "1000")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        assert operator.cloister("exec", id, "sh", "-c", f"kill -{int(number)} $$").status == \
            128 + number


def test_real_time_signal(operator):
    number = signal.SIGRTMAX
    done = operator.python(f"import os; os.kill(os.getpid(), {int(number)})")
    assert done.status == 128 + number


def test_status_of_the_agent_not_of_its_children(operator):
    assert operator.sh("(exit 7) & (exit 8) & wait; setsid sleep 1000 & exit 5").status == 5


# ---- 126 and 127, as env(1) has it -----------------------------------------------

@pytest.mark.parametrize("command", ["no-such-command", "/no/such/command", "./x"])
def test_command_that_is_not_there(operator, command):
    done = operator.run("--", command)
    assert done.status == 127 and done.out == ""
    assert done.err.startswith("cloister: ") and command in done.err and done.err.count("\n") == 1
    assert ("install it" in done.err) == ("/" not in command)
    assert operator.do("env", command).status == 127


@pytest.mark.parametrize("command", ["/etc", "/etc/passwd", "/"])
def test_command_that_cannot_be_run(operator, command):
    done = operator.run("--", command)
    assert done.status == 126 and done.out == ""
    assert done.err.startswith("cloister: ") and command in done.err and done.err.count("\n") == 1
    assert operator.do("env", command).status == 126


def test_script_whose_interpreter_is_not_there(operator):
    script = operator.file("script", "#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = operator.run("-v", f"{script}:/script", "--", "/script")
    assert done.status == 127 == operator.do("env", script).status
    assert done.err.count("\n") == 1 and "'/no/such/interpreter', which is neither in the cell nor on" in done.err
    script.chmod(0o644)
    done = operator.run("-v", f"{script}:/script", "--", "/script")
    assert done.status == 126 and "chmod +x" in done.err and done.err.count("\n") == 1


def test_script_without_an_interpreter(operator):
    """A shell would run it, env(1) would, and so does a cell."""
    script = operator.file("script", "echo hello\n")
    script.chmod(0o755)
    outside = operator.do("env", script)
    done = operator.run("-v", f"{script}:/script", "--", "/script")
    assert (done.status, done.out) == (outside.status, outside.out)


def test_program_of_another_kind(operator):
    file = operator.file("program", b"\x7fELF" + bytes(60))
    file.chmod(0o755)
    done = operator.run("-v", f"{file}:/program", "--", "/program")
    assert done.status == operator.do("env", file).status in (126, 127)
    assert done.err.count("\n") == 1


def test_command_that_the_operator_has_elsewhere(operator):
    """The newcomer's first stumble: it says where it is and how to grant it."""
    tool = operator.file("home/bin/my-tool", "#!/bin/sh\n")
    tool.chmod(0o755)
    done = operator.run("--", "my-tool", env={"PATH": f"{tool.parent}:/usr/bin:/bin"})
    assert done.status == 127
    assert str(tool) in done.err and "-v" in done.err and done.err.count("\n") == 1
    done = operator.run("--", tool)
    assert done.status == 127
    assert f"'{tool}': it is not in the cell" in done.err and "-v" in done.err and done.err.count("\n") == 1


@pytest.fixture
def venv(operator):
    """A project whose interpreter is elsewhere, as those of uv and pyenv are."""
    python = operator.file("home/versions/3/bin/python3", "#!/bin/sh\necho it runs\n")
    python.chmod(0o755)
    operator.folder("home/versions/3/lib")
    project = operator.folder("project/venv/bin").parent.parent
    (project / "venv/bin/python3").symlink_to(python)
    (project / "venv/bin/python").symlink_to("python3")
    tool = operator.file("project/tool", f"#! {project}/venv/bin/python -x\n")
    tool.chmod(0o755)
    return project


def needs(done, *parts):
    assert done.status == 127 and done.out == "" and done.err.count("\n") == 1, done
    for part in parts:
        assert part in done.err, done


@pytest.mark.parametrize("command", ["venv/bin/python", "./tool", "../project/tool"])
def test_interpreter_that_is_not_granted(operator, venv, command):
    """The message names the missing path, and the grants for it and for the libraries beside it."""
    versions = operator.home / "versions/3"
    missing = f"'{versions}/bin/python3', which is not in the cell: grant that with -v {versions}:ro\n"
    needs(operator.run("-w", venv, "--", command), f"'{command}': it needs", missing)
    id = operator.detach("-w", venv, "--", "sleep", "1000")
    needs(operator.cloister("exec", id, command), missing)
    assert operator.run("-w", venv, "-v", f"{versions}:ro", "--", command).ok() == "it runs\n"


def test_interpreter_behind_a_linked_folder(operator, venv):
    """A grant by way of a link is where the link leads; here it has to be where it stands."""
    link = operator.home / "versions/latest"
    link.symlink_to("3")
    (venv / "venv/bin/python3").unlink()
    (venv / "venv/bin/python3").symlink_to(link / "bin/python3")
    needs(operator.run("-w", venv, "--", "./tool"), f"with -v {link}:{link}:ro\n")
    assert operator.run("-w", venv, "-v", f"{link}:{link}:ro", "--", "./tool").ok() == "it runs\n"


def test_interpreter_that_is_gone(operator, venv):
    (operator.home / "versions/3/bin/python3").unlink()
    needs(operator.run("-w", venv, "--", "./tool"), "neither in the cell nor on this machine")


def test_interpreter_beside_the_home(operator, venv):
    """All of ~/.local is more than anybody meant."""
    python = operator.file("home/.local/bin/python3", "#!/bin/sh\n")
    python.chmod(0o755)
    operator.folder("home/.local/lib")
    (venv / "venv/bin/python3").unlink()
    (venv / "venv/bin/python3").symlink_to(python)
    needs(operator.run("-w", venv, "--", "./tool"), f"with -v {python}:ro\n")


def test_an_interpreter_that_an_agent_left(operator, venv):
    """Cloister neither waits for it nor prints it raw."""
    (venv / "tool").write_text("#!/\033[31mred\n")
    needs(operator.run("-w", venv, "--", "./tool"), "\\x1b[31mred")
    (venv / "venv/bin/python3").unlink()
    os.mkfifo(venv / "venv/bin/python3")
    assert operator.run("-w", venv, "--", "venv/bin/python").status == 126
    (venv / "loop").symlink_to("loop")
    assert operator.run("-w", venv, "--", "./loop").status == 126


def test_program_of_the_workspace_by_its_name(operator, venv):
    env = {"PATH": f"{venv}/venv/bin:/usr/bin:/bin"}
    versions = operator.home / "versions/3"
    needs(operator.run("-w", venv, "--", "python", env=env), f"with -v {versions}:ro\n")
    needs(operator.run("-w", venv, "-v", f"{versions}:ro", "--", "python", env=env),
          f"name it by its path, '{venv}/venv/bin/python'\n")


def test_program_of_a_folder_that_was_not_granted(operator, venv):
    needs(operator.run("--", "./tool", cwd=venv), "-w . grants this folder")
    done = operator.run("--", venv / "tool")
    needs(done, f"grant it with -v {venv}/tool:ro -v ")
    # The hint has its interpreter, too.
    words = shlex.split(done.err.split("grant it with ")[1])
    assert operator.run(*words, "--", venv / "tool").ok() == "it runs\n"
    needs(operator.run("-w", venv, "--", "./nothing"), "there is no such file in the cell")


# Where npm, nvm, pipx and the like put a program: the files, and the link on the operator's PATH.
PACKAGE = {"lib/node_modules/@scope/tool/bin/tool.js": "#!/usr/bin/env runner\n",
           "lib/node_modules/@scope/tool/lib/part": "it runs"}
# As node does, it looks where the link leads.
RUNNER = "#!/bin/sh\ncat \"$(dirname \"$(realpath \"$1\")\")/../lib/part\"\n"
PLACES = {
    # npm's prefix in a folder of its own, with and without the interpreter.
    "prefix": ("home/.npm-global", "usr"),
    "nvm": ("home/.nvm/versions/node/v1", "prefix"),
    # npm's prefix is ~/.local, which is more than a program.
    "local": ("home/.local", "usr"),
    "local with nvm": ("home/.local", "elsewhere"),
}


def install(operator, prefix, interpreter):
    """A package and its interpreter; the folders for PATH."""
    for name, text in PACKAGE.items():
        if name.endswith(".js") and interpreter == "usr":
            text = RUNNER.replace("$1", "$0")
        operator.file(f"{prefix}/{name}", text).chmod(0o755)
    link = operator.folder(f"{prefix}/bin") / "tool"
    link.symlink_to("../lib/node_modules/@scope/tool/bin/tool.js")
    folders = [link.parent]
    if interpreter != "usr":
        where = prefix if interpreter == "prefix" else "home/versions/7"
        operator.folder(f"{where}/lib")
        operator.file(f"{where}/bin/runner", RUNNER).chmod(0o755)
        folders.append(operator.base / where / "bin")
    return folders


@pytest.mark.parametrize("by_path", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_the_hint_for_an_installed_program_leads_to_it(operator, place, by_path):
    """Followed to the letter, the program runs and nothing of it can be written."""
    folders = install(operator, *PLACES[place])
    env = {"PATH": ":".join(map(str, [*folders, "/usr/bin", "/bin"]))}
    command = str(folders[0] / "tool") if by_path else "tool"
    done = operator.run("--", command, env=env)
    assert done.status == 127, done
    words = shlex.split(done.err.split("grant it with ")[1])
    assert all(word.endswith(":ro") for option, word in zip(words, words[1:]) if option == "-v")
    words = words if "--" in words else [*words, "--", command]
    assert operator.run(*words, env=env).ok() == "it runs"


def test_port_as_other_tools_publish_it(operator):
    operator.run("-p", "8080:80", "--", "true").sentence("-p '8080:80' looks like a port, but -p names a policy", "--publish HOSTPORT:CELLPORT")


def test_command_and_its_words_in_one(operator):
    needs(operator.run("--", "ls -l"), "its words are given apart")


def test_detached_command_that_is_not_there(operator):
    done = operator.run("-d", "--", "no-such-command")
    operator.kept.update(name.split(".")[0] for name in operator.names(operator.state))
    assert done.status == 127 and done.out == ""
    assert "no-such-command" in done.err and done.err.count("\n") == 1


def test_exec_of_a_command_that_is_not_there(operator):
    id = operator.detach("--", "sleep", "1000")
    for command, status in (("no-such-command", 127), ("/etc", 126)):
        done = operator.cloister("exec", id, command)
        assert done.status == status and command in done.err and done.err.count("\n") == 1
    assert operator.cell(id)


# ---- 125 and its sentence --------------------------------------------------------

@pytest.mark.parametrize("words, nearest", [
    (["rnu"], "run"), (["exce"], "exec"), (["disscard"], "discard"), (["list"], None),
    (["Run"], "run"), ([""], None), (["-x"], None), (["--hepl"], None),
], ids=repr)
def test_unknown_commands(operator, words, nearest):
    said = operator.cloister(*words).sentence(f"'{words[0]}'")
    assert (f"did you mean '{nearest}'" in said) == (nearest is not None), said


@pytest.mark.parametrize("words, nearest", [
    (["run", "--memry", "1G", "--", "true"], "--memory"),
    (["run", "--tyy", "--", "true"], "--tty"),
    (["run", "--work-space", ".", "--", "true"], "--workspace"),
    (["run", "--memry=1G", "--", "true"], "--memory"),
    (["run", "--frobnicate", "--", "true"], None),
    (["run", "-x", "--", "true"], None),
    (["run", "-dx", "--", "true"], None),
    (["ps", "--jsn"], "--json"), (["kill", "--al"], "--all"), (["diff", "--name-only", "x"], None),
    (["apply", "--dryrun", "x"], "--dry-run"), (["exec", "--tt", "x", "true"], "--tty"),
], ids=repr)
def test_unknown_options(operator, words, nearest):
    option = next(w for w in words if w.startswith("-")).split("=")[0]
    said = operator.cloister(*words).sentence("option", f"'{'-x' if option == '-dx' else option}'")
    assert (f"did you mean '{nearest}'" in said) == (nearest is not None), said


def test_options_that_want_a_value(operator):
    for option in ("-w", "-v", "-e", "--name", "--memory", "--cpus", "--pids", "--time", "--disk",
                   "--io", "--ttl", "--rootfs", "--hostname", "--profile"):
        operator.run(option).sentence(option if option.startswith("--") else "needs a value")


def test_options_without_a_value(operator):
    for option in ("--detach=1", "--quiet=yes", "--keep=x", "--tty="):
        operator.run(option, "--", "true").sentence(option.split("=")[0], "no value")


def test_no_command(operator):
    for words in ([], ["--"], ["--quiet"], ["-q", "--"]):
        operator.run(*words).sentence("no command")


def test_no_words_at_all(operator):
    done = operator.cloister()
    assert done.status == 125 and "usage" in done.out + done.err


def test_too_many_words(operator):
    operator.run("--", "true", *["x"] * 5000).sentence("words")
    operator.run("--", "true", *["x" * 100000] * 4).sentence("KiB")


@pytest.mark.parametrize("option, values", [
    ("--memory", ["", "0", "-1", "1", "1K", "4095K", "x", "1X", "1 G", "G", "1.5.2G", "1e9", "0x10",
                  "99999999999999999999", "16777216T", "1GG", "+1G"]),
    ("--disk", ["", "0", "-1", "1", "63K", "x", "1 G", "99999999999999999999", "16777216T"]),
    ("--io", ["", "0", "-1", "1", "4095", "x", "99999999999999999999", "1G/s/s"]),
    ("--cpus", ["", "0", "-1", "0.001", "x", "1,5", "1.", ".5.", "1e3", "99999999999999999999"]),
    ("--pids", ["", "0", "-1", "x", "1.5", "4194305", "99999999999999999999", "1K"]),
    ("--time", ["", "0", "-1", "0s", "x", "1y", "1.5h", "1h1h", "1m1h", "s", "99999999999999999999"]),
    ("--ttl", ["", "0", "-1", "0ms", "x", "1y", "h1", "99999999999999999999d"]),
])
def test_unusable_numbers(operator, option, values):
    for value in values:
        assert operator.run(option, value, "--", "true").sentence(option).count(f"'{value}'") == 1


@pytest.mark.parametrize("name", ["", "a b", "-a", "_a", "a/b", "a.b", "ä", "x" * 49, "a\nb", ".."])
def test_names_that_cannot_be(operator, name):
    operator.run("--name", name, "--", "true").sentence("name")


def test_unknown_profile(operator):
    for name in ("x", "", "Default"):
        operator.run("--profile", name, "--", "true").sentence(f"'{name}'", "default", "nested")


def test_missing_paths(operator):
    for words in (["-w", "no/such"], ["-v", "/no/such:/data"], ["--rootfs", "/no/such"],
                  ["-w", "/no/such:rw"], ["-w", ""]):
        operator.run(*words, "--", "true").sentence("'")


def test_unknown_cells(operator):
    for words in (["exec", "nosuch", "true"], ["logs", "nosuch"], ["stop", "nosuch"],
                  ["kill", "nosuch"], ["wait", "nosuch"], ["diff", "nosuch"], ["apply", "nosuch"],
                  ["discard", "nosuch"]):
        operator.cloister(*words).sentence("'nosuch'")


def test_commands_without_a_cell(operator):
    for command in ("exec", "logs", "stop", "kill", "wait", "diff", "apply", "discard"):
        operator.cloister(command).sentence("no cell is given", command)


def test_words_too_many(operator):
    operator.cloister("ps", "x").sentence("'x'")
    operator.cloister("kill", "--all", "x").sentence("'x'")
    operator.cloister("version", "x").sentence("version")


def test_messages_cannot_disturb_a_terminal(operator):
    """A message may hold what a file or a habit of pasting brought in."""
    for words in (["run", "-w", "\x1b[2J\x07"], ["run", "--name", "a\x1b]0;x\x07", "true"],
                  ["run", "-v", "/\x1b[31m:/x", "true"], ["\x1b[2J"], ["kill", "\x9b31m\x1b"],
                  ["run", "--", "\x1b[2J"], ["run", "--memory", "\x1b[1G", "true"]):
        done = operator.cloister(*words)
        assert done.status in (125, 127) and done.err.count("\n") == 1
        assert all(c == "\n" or c.isprintable() for c in done.err), done


def test_a_start_that_fails_inside_is_always_explained(operator):
    """The process that found out is gone at once; what it said must still arrive."""
    folder = operator.folder("granted")
    for _ in range(25):
        operator.run("-v", f"{folder}:/usr/no-such-place/x", "--", "true").sentence("no-such-place")


# ---- where cloister keeps its own files ------------------------------------------

def test_runtime_folder_of_somebody_else(operator):
    operator.runtime.chmod(0o777)
    operator.run("--", "true").sentence(operator.runtime, "CLOISTER_RUNTIME_DIR")
    operator.runtime.chmod(0o700)
    link = operator.base / "link"
    link.symlink_to(operator.runtime)
    operator.run("--", "true", env={"CLOISTER_RUNTIME_DIR": str(link)}).sentence(link)


def test_runtime_folder_is_made(operator):
    """Where nothing is said, in the user's own runtime folder."""
    if operator.is_root:
        place = operator.base / "made" / "deep"
        env = {"CLOISTER_RUNTIME_DIR": str(place)}
        (operator.base / "made").mkdir()
    else:
        place, env = operator.base / "xdg" / "cloister", {"CLOISTER_RUNTIME_DIR": ""}
    assert operator.run("--", "echo", "hello", env=env).ok() == "hello\n"
    assert "slots" in operator.names(place) and place.stat().st_mode & 0o777 == 0o700
    assert [n for n in operator.names(place) if n != "slots" and not n.startswith("told")] == []


@only_user
def test_state_folder_is_made(operator):
    workspace = operator.folder("workspace")
    env = {"CLOISTER_STATE_DIR": ""}
    done = operator.sh("touch x", "-w", workspace, env=env)
    place = operator.home / ".local/state/cloister"
    assert done.status == 0 and len(operator.names(place)) == 1
    operator.cloister("discard", "--all", env=env).ok()
    assert operator.names(place) == []


def test_nobody_else_can_lock_the_state_folder(operator):
    """A user who could read it could lock it, and each start would wait for that."""
    operator.state.chmod(0o755)
    assert operator.sh("echo hello").ok() == "hello\n"
    assert operator.state.stat().st_mode & 0o777 == 0o700


def test_the_vault_makes_no_folder_that_others_can_lock(operator):
    """Root's vault is in the state folder, and may be there first."""
    env = {"CLOISTER_DATA_DIR": str(operator.base / "made" / "data")}
    operator.folder("made")
    operator.cloister("secret", "add", "A_KEY", "--host", "a.example.test", input="0123456789abcdef", env=env).ok()
    assert (operator.base / "made" / "data").stat().st_mode & 0o777 == 0o700


@only_user
def test_no_state_folder_can_be_found(operator):
    operator.run("-d", "--", "true", env={"CLOISTER_STATE_DIR": "", "HOME": "", "XDG_STATE_HOME": ""}
                 ).sentence("HOME", "CLOISTER_STATE_DIR")


@only_root
def test_root_of_another_user_namespace(operator):
    """It has no ids to map to, so it is treated as an ordinary user."""
    done = operator.do("unshare", "-Ur", operator.program, "run", "--", "id", "-u", user=12345,
                       group=12345, env={"CLOISTER_RUNTIME_DIR": f"/tmp/{operator.base.name}",
                                         "HOME": "/"}, cwd="/")
    operator.do("rm", "-rf", f"/tmp/{operator.base.name}")
    assert (done.status, done.out) in ((0, "1000\n"), (126, "")), done
