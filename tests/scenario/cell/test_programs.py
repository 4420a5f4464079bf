"""`programs` in a policy: the agent starts the programs that it lists, and no other."""
import ast
import errno
import os

from operators import wait_until

LOADER = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}[os.uname().machine]
TRY = "for word in /usr/bin/id /usr/bin/true 'cat /etc/hostname' 'sh -c true'; do $word >/tmp/out 2>&1; echo $?; done"


def policy(operator, text, name="programs.yaml"):
    path = operator.file(name, "version: 1\n" + text)
    path.chmod(0o600)
    return path


def tried(done):
    return [int(line) for line in done.out.split()]


def test_only_listed_programs_start(operator):
    shell = ["--", "sh", "-c", TRY]
    assert tried(operator.run("-q", *shell)) == [0, 0, 0, 0]
    # The shell is the cell's first program, and stays so.
    rules = policy(operator, "programs: [id, /bin/cat]\n")
    assert tried(operator.run("-q", "-p", rules, *shell)) == [0, 126, 0, 0]
    # What all layers list; a layer without a list has no say.
    within = policy(operator, "programs: [cat, 'true']\n", "within.yaml")
    assert tried(operator.run("-q", "-p", rules, "--within", within, *shell)) == [126, 126, 0, 0]
    within = policy(operator, "syscalls: {deny: [ptrace]}\n", "within.yaml")
    assert tried(operator.run("-q", "-p", rules, "--within", within, *shell)) == [0, 126, 0, 0]
    # No program at all is `exec` in `syscalls`.
    rules = policy(operator, "programs: []\n")
    assert tried(operator.run("-q", "-p", rules, *shell)) == [126, 126, 126, 126]


def test_each_command_of_an_operator_is_a_first_program(operator):
    rules = policy(operator, "programs: [id]\n")
    id = operator.detach("-p", rules, "--", "sleep", "1000")
    assert tried(operator.cloister("exec", id, "--", "bash", "-c", TRY)) == [0, 126, 126, 126]
    assert operator.cloister("exec", id, "--", "cat", "/etc/hostname").ok()
    # It is settled when the cell starts.
    change = policy(operator, "programs: [id, cat]\n", "other.yaml")
    assert "settled when a cell starts" in operator.cloister("policy", "set", id, change).err
    operator.cloister("kill", id).ok()


def test_scripts_bring_their_interpreters(operator):
    folder = operator.folder("scripts", {"direct": "#!/bin/sh\necho one\n", "by-env": "#!/usr/bin/env -S sh\necho two\n",
                                         "nested": "#!{}/direct\n", "other": "#!/bin/sh\necho three\n"})
    (folder / "nested").write_text(f"#!{folder}/direct\n")
    for file in folder.iterdir():
        file.chmod(0o755)
    rules = policy(operator, f"programs: [{folder}/direct, {folder}/by-env, {folder}/nested]\n")
    run = f"import subprocess\nfor name in ('direct', 'by-env', 'nested', 'other'):\n try: subprocess.run(['{folder}/' + name])\n" \
          " except PermissionError: print('refused', flush=True)"
    done = operator.run("-q", "-p", rules, "-v", f"{folder}:{folder}:ro", "--", "python3", "-c", run)
    assert done.out.split() == ["one", "two", "one", "refused"], done


def test_a_refused_program_is_recorded(operator):
    rules = policy(operator, "programs: [id, sleep]\nwatch:\n- exec: refused\n  then: notify\n")
    id = operator.detach("-p", rules, "--", "sh", "-c", "id; /bin/cat /etc/hostname; no-such-program; exec sleep 1000")
    fired = wait_until(lambda: [line for line in operator.cloister("events", id, "--type", "watch").out.splitlines()
                                if "watch:" in line], "the rule fires")
    assert len(fired) == 1 and ("exec /usr/bin/cat" in fired[0] or "refused execve" in fired[0]), fired
    operator.cloister("kill", id)


def test_programs_of_their_own_namespaces_are_refused(operator):
    rules = policy(operator, "programs: [id]\n")
    operator.run("-p", rules, "--profile", "nested", "--", "true").sentence(
        "--profile nested is for programs that start others in namespaces of their own")


def test_mistakes_are_errors_before_the_start(operator):
    rules = policy(operator, "programs: [bin/id]\n")
    assert "a program is a name such as 'git'" in operator.cloister("policy", "check", rules).err
    assert operator.run("-p", rules, "--", "true").status == 125


# Each line is a way to start `cat`, which is not listed, and how that ended.
AROUND = r"""
import os, shutil, subprocess, sys
def child(start):
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            start()
        except OSError as error:
            os._exit(error.errno)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
words, env = ["cat", "/etc/hostname"], {"PATH": os.environ["HOME"] + ":/usr/bin"}
held = os.open(shutil.which("cat"), os.O_RDONLY)
path = os.open(shutil.which("cat"), os.O_PATH)
home = os.environ["HOME"]
shutil.copy(shutil.which("cat"), home + "/id")
shutil.copy(sys.argv[1], home + "/ld.so")
script = home + "/script"
open(script, "w").write("#!" + shutil.which("cat") + "\n")
os.chmod(script, 0o755)
ways = {"descriptor": lambda: os.execve(held, words, env), "path": lambda: os.execve(path, words, env),
        "proc": lambda: os.execve(f"/proc/self/fd/{held}", words, env),
        "copy": lambda: os.execve(home + "/id", words, env),
        "loader": lambda: os.execve(home + "/ld.so", ["ld.so", *words], env),
        "script": lambda: os.execve(script, words, env), "listed": lambda: os.execve(shutil.which("id"), ["id"], env)}
print({name: child(start) for name, start in ways.items()})
"""


def test_ways_around(operator):
    """Landlock looks at the file, whatever name or descriptor leads to it."""
    rules = policy(operator, "programs: [id]\n")
    done = operator.run("-q", "-p", rules, "--", "python3", "-c", AROUND, LOADER)
    assert ast.literal_eval(done.ok()) == {"listed": 0, **dict.fromkeys(
        ("descriptor", "path", "proc", "copy", "loader", "script"), errno.EACCES)}
