"""Cells with a versioned state: what a cell makes of it is committed at its end, however it ends."""
import json
import os
import secrets
import signal

import pytest
from operators import is_alive, only_root, wait_until
from cell_states import State, events, saver_of


@pytest.fixture
def brain(operator):
    return State(operator, "brain")


def canary():
    return secrets.token_hex(12)


def test_memory_lasts(operator, brain):
    first, second = canary(), canary()
    done = operator.sh(f"echo {first} >~/brain/notes; mkdir ~/brain/d; echo {second} >~/brain/d/x", "--state", "brain")
    assert done.status == 0 and "state 'brain' is at" in done.err, done
    brain.check()
    assert brain.files() == {"notes": f"{first}\n", "d/x": f"{second}\n"}
    done = operator.sh("cat ~/brain/notes ~/brain/d/x; rm -r ~/brain/d", "--state", "brain", "-q")
    assert done.ok() == f"{first}\n{second}\n" and done.err == ""
    assert brain.files() == {"notes": f"{first}\n"}
    assert len(brain.log()) == 3


def test_no_commit_without_a_change(operator, brain):
    operator.sh("echo x >~/brain/x", "--state", "brain", "-q").ok()
    head = brain.head()
    operator.sh("cat ~/brain/x; echo y >~/brain/y; rm ~/brain/y; touch ~/brain/x", "--state", "brain", "-q").ok()
    assert brain.head() == head


def test_a_place_of_its_own(operator, brain):
    word = canary()
    operator.sh(f"echo {word} >/srv/memory/x", "--state", "brain:/srv/memory", "-q").ok()
    assert operator.sh("cat ~/.claude/x", "--state", "brain:~/.claude", "-q").ok() == f"{word}\n"


def test_who_and_why_is_in_the_message(operator, brain):
    done = operator.sh("echo $CLOISTER_CELL; echo x >~/brain/x", "--state", "brain", "-q", "--name", "worker", "--principal",
                       "user@a.example")
    cell = done.ok().strip()
    message = brain.log()[0]
    for part in (cell, "worker", "user@a.example", "sha256:"):
        assert part in message, message
    boot, = events(operator, cell, "cell.boot")
    assert boot["hash"] in message
    assert [(s["name"], s["branch"]) for s in boot["grant"]["states"]] == [("brain", "main")]
    assert boot["grant"]["states"][0]["commit"] == brain.head("main~1")
    told, = events(operator, cell)
    assert (told["state"], told["commit"], told["reason"], told["added"]) == ("brain", brain.head(), "end", 1)
    assert "state brain committed as " + brain.head() in operator.cloister("events", cell).ok()


def test_the_operator_s_timeline_has_it(operator, brain):
    operator.sh("echo x >~/brain/x", "--state", "brain", "-q").ok()
    assert brain.head() in "".join(p.read_text() for p in (operator.base / "data" / "audit").glob("operator.jsonl*"))
    operator.cloister("audit", "verify").ok()


def test_nothing_of_it_is_applied_or_listed(operator, brain):
    operator.sh("echo x >~/brain/x", "--state", "brain", "-q").ok()
    assert operator.cells("-a") == []
    ws = operator.folder("ws", {"a": "1\n"})
    cell = operator.change(ws, "echo 2 >a; echo x >~/brain/y", "--state", "brain")
    assert "brain" not in operator.cloister("diff", cell).ok()
    operator.cloister("apply", cell).ok()
    assert (ws / "a").read_text() == "2\n" and brain.files()["y"] == "x\n"


def test_diff_of_a_running_cell_shows_it(operator, brain):
    cell = operator.detach("--state", "brain", "--", "sh", "-c", "echo new >~/brain/x; touch /tmp/done; sleep 600")
    wait_until(lambda: operator.cloister("exec", cell, "--", "test", "-e", "/tmp/done").status == 0, "it has written")
    shown = operator.cloister("diff", cell).ok()
    assert "+new" in shown and "\nA /home/agent/brain/x\n" in shown and str(operator.base / "data") not in shown
    # As it shows them, paths are accepted.
    assert "+new" in operator.cloister("diff", cell, "/home/agent/brain/x").ok()
    operator.cloister("kill", cell).ok()
    wait_until(lambda: brain.files() == {"x": "new\n"}, "it is committed")


def test_the_agent_cannot_reach_the_repository(operator, brain):
    operator.sh("echo x >~/brain/x", "--state", "brain", "-q").ok()
    state = operator.base / "data" / "states"
    done = operator.sh(f"ls -a ~/brain; ls {state} {brain.folder}/git; grep -o '{state}[^ ]*' /proc/self/mountinfo", "--state",
                       "brain", "-q")
    assert done.out == ".\n..\nx\n", done


@pytest.mark.parametrize("how", ["kill", "time", "crash"])
def test_a_cell_that_is_ended(operator, brain, how):
    word = canary()
    options = ["--time", "3"] if how == "time" else []
    cell = operator.detach("--state", "brain", *options, "--", "sh", "-c", f"echo {word} >~/brain/x; sleep 600")
    wait_until(lambda: how == "time" or operator.cloister("exec", cell, "--", "test", "-s", "/home/agent/brain/x").status == 0,
               "it has written")
    if how == "kill":
        operator.cloister("kill", cell).ok()
    elif how == "crash":
        os.kill(operator.cell(cell)["supervisor"], signal.SIGKILL)
    wait_until(lambda: brain.files() == {"x": f"{word}\n"}, "it is committed")
    brain.check()
    wait_until(lambda: operator.cell(cell) is None, "the cell has ended")
    # The next one has it.
    assert operator.sh("cat ~/brain/x", "--state", "brain", "-q").ok() == f"{word}\n"


def test_the_saver_dies(operator, brain):
    """The supervisor keeps the changes, and the next cell commits them first."""
    word = canary()
    done = operator.start("--state", "brain", "--name", "one", "--", "sh", "-c",
                          f"echo {word} >~/brain/x; while [ ! -e /tmp/go ]; do sleep 0.05; done")
    cell = wait_until(lambda: next((c["cell"] for c in operator.cells() if c["name"] == "one"), None), "it runs")
    wait_until(lambda: operator.cloister("exec", cell, "--", "test", "-s", "/home/agent/brain/x").status == 0, "it has written")
    os.kill(saver_of(cell, operator), signal.SIGKILL)
    operator.cloister("exec", cell, "--", "touch", "/tmp/go")
    assert done.wait() == 0
    operator.kept.add(cell)
    assert brain.files() == {}
    assert operator.sh("cat ~/brain/x", "--state", "brain", "-q").ok() == f"{word}\n"
    assert brain.files() == {"x": f"{word}\n"} and "recovered" in brain.log()[0]
    brain.check()


def test_both_die(operator, brain):
    """What was not committed is gone, but the state is whole, and can be used."""
    operator.sh("echo 1 >~/brain/x", "--state", "brain", "-q").ok()
    cell = operator.detach("--state", "brain", "--", "sh", "-c", "echo 2 >~/brain/x; sleep 600")
    os.kill(saver_of(cell, operator), signal.SIGKILL)
    os.kill(operator.cell(cell)["supervisor"], signal.SIGKILL)
    assert operator.sh("cat ~/brain/x", "--state", "brain", "-q").ok() == "1\n"
    brain.check()


def policy(operator, state, name="p.yaml"):
    return operator.file(name, json.dumps({"version": 1, "state": state}))


def test_in_a_policy(operator, brain):
    word = canary()
    file = policy(operator, {"brain": {"path": "~/memory"}})
    operator.sh(f"echo {word} >~/memory/x", "-p", file, "-q").ok()
    assert brain.files() == {"x": f"{word}\n"}
    # The command line chooses another place.
    assert operator.sh("cat /m/x", "-p", file, "--state", "brain:/m", "-q").ok() == f"{word}\n"


def test_a_policy_that_was_found_gives_none(operator, brain):
    ws = operator.folder("ws", {"cloister.yaml": "version: 1\nstate: brain\n"})
    operator.run("-w", ws, "--", "true").sentence("'brain'", "-p", "--no-policy")
    assert not brain.folder.exists()


def busy(operator, how="refuse"):
    file = policy(operator, {"brain": {"on_busy": how}})
    first = operator.detach("-p", file, "--", "sh", "-c", "echo first >~/brain/x; sleep 600")
    wait_until(lambda: operator.cloister("exec", first, "--", "test", "-s", "/home/agent/brain/x").status == 0, "it has written")
    return file, first


def test_busy_is_refused(operator, brain):
    file, first = busy(operator)
    operator.run("--state", "brain", "--", "true").sentence(first, "'brain'", "on_busy")
    operator.run("-p", file, "--", "true").sentence(first)
    operator.cloister("kill", first).ok()
    wait_until(lambda: operator.cell(first) is None, "the cell has ended")
    assert operator.sh("cat ~/brain/x", "--state", "brain", "-q").ok() == "first\n"


def test_busy_is_read_only(operator, brain):
    operator.sh("echo before >~/brain/x", "--state", "brain", "-q").ok()
    file, first = busy(operator, "read-only")
    done = operator.sh("cat ~/brain/x; echo y >~/brain/y || echo no", "-p", file)
    assert done.out == "before\nno\n" and f"cell {first} has the state 'brain'" in done.err, done
    operator.cloister("kill", first).ok()
    wait_until(lambda: brain.files() == {"x": "first\n"}, "it is committed")


def test_busy_gets_a_branch(operator, brain):
    operator.sh("echo before >~/brain/x", "--state", "brain", "-q").ok()
    file, first = busy(operator, "branch")
    done = operator.sh("cat ~/brain/x; echo $CLOISTER_CELL >~/brain/y", "-p", file)
    assert done.out == "before\n" and "gets the branch 'cell-" in done.err, done
    second = next(b for b in brain.branches() if b != "main")
    assert brain.files(second) == {"x": "before\n", "y": f"{second.removeprefix('cell-')}\n"}
    assert brain.files() == {"x": "before\n"}
    operator.cloister("kill", first).ok()
    wait_until(lambda: brain.files() == {"x": "first\n"}, "it is committed")
    brain.check()


@pytest.mark.parametrize("words,parts", [
    (["--state", "../x"], ["name of a state"]), (["--state", "a:b"], ["'b'", "absolute"]),
    (["--state", "a", "--state", "a:/x"], ["twice"]), (["--state-every", "10m"], ["--state NAME"]),
    (["--state", "a", "--state-every", "1s"], ["1m"]), (["--state", "a:/proc/x"], ["/proc"]),
])
def test_what_is_no_state(operator, words, parts):
    operator.run(*words, "--", "true").sentence(*parts)


def test_a_document_has_it(operator, brain):
    operator.sh("echo 1 >~/brain/x", "--state", "brain", "-q").ok()
    doc = json.loads(operator.run("--state", "brain:~/m", "--print-doc", "--", "sh", "-c", "cat ~/m/x").ok())
    assert doc["states"] == [{"name": "brain", "on_busy": "refuse", "path": "~/m"}]
    assert operator.run("-q", "--doc", operator.file("doc.json", json.dumps(doc))).ok() == "1\n"
    doc["states"][0]["commit"] = brain.head()
    assert operator.run("-q", "--doc", operator.file("doc.json", json.dumps(doc))).ok() == "1\n"
    doc["states"][0]["commit"] = brain.head("main~1")
    operator.run("-q", "--doc", operator.file("doc.json", json.dumps(doc))).sentence("'brain'", brain.head()[:12])


def test_a_checkpoint(operator, brain):
    """What is gone by the next commit is gone there, although the cell began without it."""
    cell = operator.detach("--state", "brain", "--", "sleep", "600")
    inside = lambda script: operator.cloister("exec", cell, "--", "sh", "-c", script).ok()  # noqa: E731
    inside("echo 1 >~/brain/x; echo 1 >~/brain/y")
    done = json.loads(operator.cloister("state", "checkpoint", "--json", cell).ok())
    assert done == [{"state": "brain", "branch": "main", "commit": brain.head(), "changed": True, "refused": 0, "pending": 0}]
    assert brain.files() == {"x": "1\n", "y": "1\n"} and "Reason: checkpoint" in brain.log()[0]
    assert operator.cell(cell)["state"] == "running"
    inside("rm ~/brain/x; echo 2 >~/brain/y")
    assert operator.cloister("state", "checkpoint", cell).ok() == f"brain {brain.head()[:12]}\n"
    assert brain.files() == {"y": "2\n"} and len(brain.log()) == 3
    assert operator.cloister("state", "checkpoint", cell).ok() == f"brain {brain.head()[:12]} (nothing changed)\n"
    inside("rm ~/brain/y")
    operator.cloister("kill", cell).ok()
    wait_until(lambda: brain.files() == {}, "it is committed")
    assert [e["reason"] for e in events(operator, cell)] == ["checkpoint", "checkpoint", "end"]
    brain.check()


def test_a_quiet_moment(operator, brain):
    cell = operator.detach("--state", "brain", "--state-every", "quiet", "--", "sh", "-c",
                           "echo 1 >~/brain/x; timeout 2 sh -c 'while :; do :; done'; sleep 600")
    wait_until(lambda: brain.folder.exists() and brain.files() == {"x": "1\n"}, "it is committed while it runs", 180)
    assert operator.cell(cell)["state"] == "running" and "quiet" in brain.log()[0]
    operator.cloister("kill", cell).ok()


@pytest.mark.parametrize("state,words", [(False, "no state that it may write"), (True, None)])
def test_a_checkpoint_of_a_cell_without(operator, state, words):
    cell = operator.detach(*(["--state", "brain"] if state else []), "--", "sleep", "600")
    done = operator.cloister("state", "checkpoint", cell)
    if words:
        done.sentence(words)
    else:
        assert "nothing changed" in done.ok()
    operator.cloister("kill", cell).ok()


def test_crash_points(operator, brain):
    """Supervisor or saver killed at any moment of a commit: the state is whole, and has the old or the new text."""
    operator.sh("echo 0 >~/brain/x; mkdir ~/brain/d; for i in $(seq 300); do echo $i >~/brain/d/$i; done", "--state", "brain",
                "-q").ok()
    for n in range(1, 13):
        run = operator.start("-q", "--state", "brain", "--name", f"c{n}", "--", "sh", "-c",
                             f"for i in $(seq 300); do echo {n} >~/brain/d/$i; done; echo {n} >~/brain/x; sleep 600")
        cell = wait_until(lambda: next((c["cell"] for c in operator.cells() if c["name"] == f"c{n}"), None), "it runs")
        operator.kept.add(cell)
        wait_until(lambda: operator.cloister("exec", cell, "--", "grep", "-qx", str(n), "/home/agent/brain/x").status == 0, "written")
        victims = [saver_of(cell, operator), operator.cell(cell)["supervisor"]]
        point = operator.spawn(operator.program, "state", "checkpoint", cell, stdout=-3, stderr=-3)
        for _ in range(secrets.randbelow(4000) * n):
            pass
        os.kill(victims[n % 2], signal.SIGKILL)
        point.wait()
        operator.cloister("kill", cell)
        run.wait()
        wait_until(lambda: operator.cell(cell) is None, "it has ended")
        seen = operator.sh("cat ~/brain/x; sort -u ~/brain/d/* | wc -l", "--state", "brain", "-q").ok()
        assert seen == f"{n}\n1\n", (n, seen)
        brain.check()


# ---- everybody is stopped while a state is committed

def commit_that_waits(operator, script):
    """(A cell whose commit is under way, its saver, which stands still, the command that waits for the commit)."""
    cell = operator.detach("--state", "brain", "-w", f"{operator.folder('out')}:rw", "--", "sh", "-c", script)
    wait_until(lambda: (operator.base / "out/count").exists(), "it has written")
    saver = saver_of(cell, operator)
    os.kill(saver, signal.SIGSTOP)
    asks = [operator.spawn(operator.program, "state", "checkpoint", cell, stdout=-3, stderr=-3) for _ in range(2)]
    # The second is refused once the first is under way.
    wait_until(lambda: any(ask.poll() is not None for ask in asks), "the commit is under way")
    waits, = [ask for ask in asks if ask.poll() is None]
    return cell, saver, waits


def test_kill_all_during_a_commit(operator, brain):
    """All processes are gone before the commit is done, and it has what they wrote."""
    word = canary()
    cell, saver, waits = commit_that_waits(operator, f"echo {word} >~/brain/x; echo 1 >count; exec sleep 600")
    first = operator.cell(cell)["init"]
    kill = operator.spawn(operator.program, "kill", "--all", stdout=-3)
    wait_until(lambda: not is_alive(first), "it is dead")
    os.kill(saver, signal.SIGCONT)
    assert kill.wait() == 0
    waits.wait()
    wait_until(lambda: operator.cell(cell) is None, "it has ended")
    brain.check()
    assert brain.files() == {"x": f"{word}\n"}
    assert operator.sh("cat ~/brain/x", "--state", "brain", "-q").ok() == f"{word}\n"


@only_root
def test_freeze_all_during_a_commit(operator, brain):
    """The cell stays frozen when the commit, for which it stood still anyway, is done."""
    word = canary()
    cell, saver, waits = commit_that_waits(operator, f"echo {word} >~/brain/x; while :; do echo x >>count; done")
    operator.cloister("freeze", "--all").ok()
    os.kill(saver, signal.SIGCONT)
    assert waits.wait() == 0
    count = operator.base / "out/count"
    stands = count.stat().st_size
    assert operator.cell(cell)["state"] == "frozen" and brain.files() == {"x": f"{word}\n"}
    # Another commit does not let it go on, either.
    operator.cloister("state", "checkpoint", cell).ok()
    assert operator.cell(cell)["state"] == "frozen" and count.stat().st_size == stands
    operator.cloister("thaw", "--all").ok()
    wait_until(lambda: count.stat().st_size > stands, "it goes on")
    brain.check()
    operator.cloister("kill", "--all").ok()
