"""A registered agent is dispatched: its grants, its results, and the reports about it."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from dispatches import (agent, all_of, await_over, await_state, capability, detach, dispatch, events, policy, register,
                        show)
from operators import end, only_user, wait_until


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def last(operator):
    return all_of(operator)[0]


@pytest.fixture
def go(operator):
    """A folder at which agents wait until somebody says go."""
    return operator.folder("go")


@only_user
def test_installed(operator, tmp_path):
    """As `make install` puts it: the helpers' folder is called cloister, too."""
    tmp_path.chmod(0o755)
    built, there = Path(operator.program).parent, tmp_path / "libexec/cloister"
    (tmp_path / "bin").mkdir()
    shutil.copy2(built / "cloister", tmp_path / "bin/cloister")
    shutil.copytree(built / "libexec", there, ignore=shutil.ignore_patterns("*.*"))
    for folder in tmp_path.parents[:2]:
        folder.chmod(folder.stat().st_mode | 0o011)
    operator.program = tmp_path / "bin/cloister"
    agent(operator, "there", "echo here")
    assert dispatch(operator, "there").ok() == "here\n"


# ---- results -----------------------------------------------------------------------

def test_result(operator):
    agent(operator, "maker", "echo out; echo err >&2; cat; mkdir -p /out/a/b; printf x >/out/a/b/f; "
                             "printf '#!' >/out/run; chmod +x /out/run; ln -s /etc/passwd /out/link; "
                             "mkfifo /out/pipe; exit 7")
    done = dispatch(operator, "maker", "--input", operator.file("in", "given\n"))
    assert (done.status, done.out) == (7, "out\ngiven\n")
    assert "err\n" in done.err and "finished with exit status 7" in done.err
    d = last(operator)
    assert (d["state"], d["exit_code"], d["attempts"], d["reason"]) == ("finished", 7, 1, None)
    files = json.loads(operator.cloister("dispatches", "files", "--json", d["id"]).ok())
    assert files == {"files": [
        {"executable": False, "hash": sha256(b"x"), "path": "a/b/f", "size": 1},
        {"executable": True, "hash": sha256(b"#!"), "path": "run", "size": 2},
    ], "skipped": 2, "truncated": False}
    assert "2 others were left out: links, FIFOs, " in operator.cloister("dispatches", "files", d["id"]).err
    assert operator.cloister("dispatches", "files", d["id"], "a/b/f").ok() == "x"
    operator.cloister("dispatches", "files", d["id"], "../f").sentence("'../f'")
    assert operator.cloister("dispatches", "output", d["id"]).ok() == "out\ngiven\n"
    assert operator.cloister("dispatches", "output", "--stderr", d["id"]).ok() == "err\n"
    to = operator.home / "results"
    operator.cloister("dispatches", "files", d["id"], "--to", to).ok()
    assert (to / "a/b/f").read_text() == "x" and os.access(to / "run", os.X_OK)
    assert not os.access(to / "a/b/f", os.X_OK) and sorted(os.listdir(to)) == ["a", "run"]
    operator.cloister("dispatches", "files", d["id"], "--to", to).sentence("results")
    assert operator.names(operator.state) == []


def test_nothing_is_left_for_the_next_one(operator):
    agent(operator, "a", "ls -A /out $HOME /tmp; touch /out/x ~/x /tmp/x")
    for _ in range(2):
        assert dispatch(operator, "a").ok() == "/home/agent:\n\n/out:\n\n/tmp:\n"
    folder = operator.base / "data/dispatches" / last(operator)["id"]
    assert operator.names(folder) == ["events.jsonl"]
    # What every /out begins as is one folder for all of them: nobody gets what somebody put there.
    operator.file("data/dispatches/out/x", "x")
    done = dispatch(operator, "a")
    assert done.status != 0 and "is not empty" in done.err and last(operator)["state"] == "failed"


def test_events(operator):
    capability(operator, "c", {"setup.sh": "#!/bin/sh\necho setting up\n"})
    agent(operator, "a", "echo hello", capabilities=["c"])
    lines = dispatch(operator, "a", "--json").ok().splitlines()
    told = [json.loads(line) for line in lines]
    id = last(operator)["id"]
    assert [e["n"] for e in told] == list(range(1, len(told) + 1))
    assert {e["dispatch"] for e in told} == {id}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", e["time"]) for e in told)
    assert all(canonical(e).decode() == line for e, line in zip(told, lines))
    kinds = [e["event"] for e in told]
    assert kinds[:3] == ["dispatch.queued", "dispatch.resolved", "cell.boot"]
    assert kinds[-1] == "dispatch.finished" and kinds.count("dispatch.finished") == 1
    assert [(e["path"], e["status"]) for e in told if e["event"] == "setup.ran"] == [("/capabilities/c/setup.sh", 0)]
    assert "".join(e["text"] for e in told if e["event"] == "agent.output") == "setting up\nhello\n"
    assert (told[-1]["exit_code"], told[-1]["state"]) == (0, "finished")
    assert told[-1]["result"]["stdout"]["hash"] == sha256(b"setting up\nhello\n")
    assert events(operator, id) == told


def test_resolved_versions_are_the_registered_ones(operator):
    """Each hash can be computed again from the registered contents."""
    hashes = {
        "c": capability(operator, "c", {"f": "x"}, rules=[{"allow": "a.example"}]),
        "e": register(operator, "env", "e", values={"K": "v"}),
        "p": policy(operator, "p", {"allow": "b.example"}, limits={"pids": 100})}
    hashes["a"] = agent(operator, "a", "true", capabilities=["c"], policy="p", env=["e"], limits={"disk": "64M"})
    operator.cloister("dispatch", "a", "--timeout", "50s").ok()
    d = show(operator, last(operator)["id"])
    r = d["resolved"]
    assert r["agent"] == {"name": "a", "hash": hashes["a"]} and d["agent"]["hash"] == hashes["a"]
    assert [(c["name"], c["hash"]) for c in r["capabilities"]] == [("c", hashes["c"])]
    assert r["envs"] == [{"name": "e", "hash": hashes["e"]}]
    assert r["policy"]["from"] == {"name": "p", "hash": hashes["p"]}
    assert r["limits"] == {"disk": "64M", "pids": "100", "time": "50000ms"}
    text = (operator.base / "data/dispatches" / d["id"] / "policy.json").read_bytes()
    assert r["policy"]["hash"] == d["policy"] == sha256(text)
    assert json.loads(text)["egress"] == [{"allow": "b.example"}, {"allow": "a.example"}]
    libexec = operator.program.parent / "libexec"
    build = {p.name: sha256(p.read_bytes()) for p in [operator.program, *libexec.iterdir()]}
    assert r["build"] == d["build"] == sha256(canonical(build))


def test_dry_run_changes_nothing(operator):
    agent(operator, "a", "true")
    told = json.loads(dispatch(operator, "a", "--dry-run", "--json").ok())
    assert told["command"] == ["sh", "-c", "true"] and told["policy"] is None
    assert "no network" in dispatch(operator, "a", "--dry-run").ok()
    assert all_of(operator) == []


def test_output_that_is_not_text(operator):
    agent(operator, "a", r"printf 'caf\303'; sleep 0.05; printf '\251\n\377\376'; printf '\0x' >&2")
    done = dispatch(operator, "a", binary=True)
    assert done.out == b"caf\xc3\xa9\n\xff\xfe" and b"\0x" in done.err
    id = last(operator)["id"]
    told = [e for e in events(operator, id) if e["event"] == "agent.output"]
    assert any("base64" in e for e in told)
    # What was cut in the middle of a character is whole again.
    assert not any(e.get("base64", "").startswith("ww") for e in told)
    assert operator.cloister("dispatches", "output", id, binary=True).out == done.out


def test_other_kinds_of_files_are_counted(operator):
    """Also if there is nothing else. Files that were left elsewhere are not counted."""
    agent(operator, "a", "mkfifo /out/p /tmp/q; mkdir /out/d; mkfifo /out/d/r")
    dispatch(operator, "a").ok()
    d = last(operator)
    assert json.loads(operator.cloister("dispatches", "files", "--json", d["id"]).ok()) == {
        "files": [], "skipped": 2, "truncated": False}
    shown = json.loads(operator.cloister("dispatches", "show", "--json", d["id"]).ok())
    assert (shown["result"]["files"]["count"], shown["result"]["files"]["skipped"]) == (0, 2)


def test_output_that_exceeds_the_events(operator):
    agent(operator, "a", "head -c 9000000 /dev/zero | tr '\\0' x")
    done = dispatch(operator, "a")
    assert len(done.out) == 9000000 and set(done.out) == {"x"}
    told = [e for e in events(operator, last(operator)["id"]) if e["event"] == "agent.output"]
    assert sum(e["size"] for e in told) == 8 << 20 and told[-1]["cut"]


def test_hostile_results(operator):
    """A tree that is made to hurt whoever walks it: the rest of it is kept all the same."""
    agent(operator, "a", r"""
cd /out; truncate -s 1T big; printf ok >fine; printf x >"$(printf 'b\377d')"; printf x >'new
line'; mkdir closed; printf in >closed/f; chmod 0 closed fine; ln -s / root; ln fine same; mkfifo p
mkdir .cloister-x.tmp; i=0; while [ $i -lt 100 ]; do mkdir d; cd d; i=$((i+1)); done; printf deep >f""")
    dispatch(operator, "a").ok()
    files = json.loads(operator.cloister("dispatches", "files", "--json", last(operator)["id"]).ok())
    paths = {f["path"]: f for f in files["files"]}
    assert set(paths) == {"fine", "same", "new\nline", "closed/f", "/".join(["d"] * 100 + ["f"])}
    assert paths["fine"]["hash"] == sha256(b"ok") and files["truncated"]
    # A name that is no text, the link, the FIFO, and what has the name of a file that is half written.
    assert files["skipped"] == 4
    listed = operator.cloister("dispatches", "files", last(operator)["id"]).ok()
    assert len(listed.splitlines()) == 5


# ---- what it is given --------------------------------------------------------------

def test_capabilities(operator):
    setup = "#!/bin/sh\necho \"$CLOISTER_AGENT\" >~/prepared\n"
    capability(operator, "one", {"setup.sh": setup, "bin/tool": "#!/bin/sh\necho tooled\n"}, tools=["sh"])
    capability(operator, "two", {"data": "2"})
    agent(operator, "a", "cat ~/prepared /capabilities/two/data; sh /capabilities/one/bin/tool; "
                         "touch /capabilities/two/x || echo shut", capabilities=["one", "two"])
    assert dispatch(operator, "a").ok() == "a\n2tooled\nshut\n"


def test_tools_that_are_missing(operator):
    capability(operator, "c", tools=["sh", "no-such-tool"])
    agent(operator, "a", "echo ran", capabilities=["c"])
    done = dispatch(operator, "a")
    assert done.status == 125 and "ran" not in done.out
    d = last(operator)
    assert (d["state"], d["exit_code"]) == ("failed", None)
    assert d["reason"] == "the capability 'c' needs the command 'no-such-tool', which is not in the cell"


def test_setup_that_fails(operator):
    capability(operator, "c", {"setup.sh": "#!/bin/sh\necho no >&2; exit 4\n"})
    agent(operator, "a", "echo ran", capabilities=["c"])
    done = dispatch(operator, "a")
    assert (done.status, done.out) == (125, "")
    assert last(operator)["reason"] == "setup /capabilities/c/setup.sh failed with 4"


def test_environment(operator):
    """The agent's envs, then those that were asked for; ours are not theirs to change."""
    register(operator, "env", "base", values={"A": "base", "B": "base", "CLOISTER_AGENT": "other"})
    register(operator, "env", "more", values={"B": "more\nlines=", "C": ""})
    agent(operator, "a", "env -0 | sort -z | tr '\\0' '|'", env=["base"])
    told = dict(v.split("=", 1) for v in dispatch(operator, "a", "--env", "more", "--on-behalf-of", "jo@x.example",
                                                  env={"SECRET": "host's"}).ok().split("|") if v)
    cell, id = told.pop("CLOISTER_CELL"), last(operator)["id"]
    assert re.fullmatch(r"[a-z0-9]{8}", cell) and show(operator, id)["cell"] == cell
    assert told == {
        "A": "base", "B": "more\nlines=", "C": "", "CLOISTER_AGENT": "a", "CLOISTER_ATTEMPT": "1",
        "CLOISTER_CAPABILITIES": "/capabilities", "CLOISTER_CHAIN": "a", "CLOISTER_DISPATCH": id,
        "CLOISTER_OUT": "/out", "CLOISTER_PRINCIPAL": "jo@x.example", "HOME": "/home/agent", "LANG": "C.UTF-8",
        "LOGNAME": "agent", "PATH": told["PATH"], "PWD": "/home/agent", "SHELL": "/bin/sh", "USER": "agent",
        # Without a policy there is nothing to try again for.
        "CARGO_NET_RETRY": "0", "NPM_CONFIG_FETCH_RETRIES": "0", "PIP_RETRIES": "0"}
    assert last(operator)["principal"] == "jo@x.example"


def test_policy_in_force(operator):
    """The agent's rules first, then those of capabilities, but none twice."""
    policy(operator, "p", {"deny": "x.example", "reason": "no"}, {"allow": "a.example"})
    capability(operator, "c", rules=[{"allow": "x.example"}, {"allow": "c.example", "methods": ["GET"]}])
    capability(operator, "d", rules=[{"allow": "a.example", "paths": ["/x"]}, {"allow": "d.example"}])
    agent(operator, "a", "true", policy="p", capabilities=["c", "d"])
    dispatch(operator, "a").ok()
    file = operator.base / "data/dispatches" / last(operator)["id"] / "policy.json"
    assert json.loads(file.read_text()) == {"version": 1, "egress": [
        {"deny": "x.example", "reason": "no"}, {"allow": "a.example"}, {"allow": "c.example", "methods": ["GET"]},
        {"allow": "d.example"}]}
    operator.cloister("policy", "check", file).ok()


def test_names_mean_the_newest(operator):
    first = agent(operator, "a", "echo 1")
    agent(operator, "a", "echo 2")
    assert dispatch(operator, "a").ok() == "2\n"
    assert dispatch(operator, f"a@{first}").ok() == "1\n"
    operator.cloister("agent", "retire", f"a@{first}").ok()
    dispatch(operator, f"a@{first}").sentence("retired", f"`cloister agent retire --undo a@{first}`")


def test_workspace_and_state(operator):
    work = operator.folder("work", {"f": "old"})
    agent(operator, "a", "pwd; cat f; echo new >f", workspace={"path": str(work), "mode": "overlay"}, state="keep")
    assert dispatch(operator, "a").ok() == f"{work}\nold"
    cell = last(operator)["cell"]
    operator.kept.add(cell)
    assert "+new" in operator.cloister("diff", cell).out
    operator.cloister("apply", cell).ok()
    assert (work / "f").read_text() == "new\n"


MISTAKES = [
    ([], ["which agent"]), (["a", "b"], ["one agent"]), (["nosuch"], ["nosuch"]), (["A!"], ["A!"]),
    (["a", "--env", "nosuch"], ["nosuch"]), (["a", "--target", "moon"], ["moon", "local"]),
    (["a", "--retries", "-1"], ["--retries"]), (["a", "--retries", "101"], ["--retries"]),
    (["a", "--timeout", "0"], ["--timeout"]), (["a", "--timeout", "x"], ["--timeout"]),
    (["a", "--key", ""], ["key"]), (["a", "--key", "x y"], ["key"]), (["a", "--on-behalf-of", "a\nb"], ["principal"]),
    (["a", "--on-behalf-of", "x" * 256], ["principal"]), (["a", "--wait", "--detach"], ["--detach"]),
    (["a", "--input", "/nosuch"], ["/nosuch"]), (["a@sha256:12"], ["too short"]),
    (["secretive"], ["secretive", "policy"]), (["broken"], ["broken", "gone"]),
]


def test_mistakes(operator):
    agent(operator, "a", "true")
    agent(operator, "secretive", "true", secrets=["TOKEN"])
    agent(operator, "broken", "true", capabilities=["gone"])
    for words, parts in MISTAKES:
        dispatch(operator, *words).sentence(*parts)
    assert all_of(operator) == []


def test_questions_about_nothing(operator):
    assert operator.cloister("dispatches").ok() == ""
    agent(operator, "a", "true")
    for verb in ("show", "events", "output", "files", "cancel"):
        operator.cloister("dispatches", verb, "nosuch").sentence("nosuch")
        operator.cloister("dispatches", verb).sentence("which")
    operator.cloister("dispatches", "shwo", "x").sentence("did you mean 'show'")
    operator.cloister("dispatches", "5kq2mzr7").sentence("show, events, output", "each with an id")
    operator.cloister("dispatches", "--state", "x").sentence("'x'")


def test_command_that_is_not_there(operator):
    register(operator, "agent", "a", command=["no-such-command"])
    assert dispatch(operator, "a").status == 125
    d = last(operator)
    assert d["state"] == "failed" and "no-such-command" in d["reason"]
    assert operator.names(operator.state) == []


# ---- once --------------------------------------------------------------------------

def test_key_means_one_dispatch(operator, go):
    agent(operator, "a", "echo x >>f", workspace={"path": str(go), "mode": "rw"})
    dispatch(operator, "a", "--key", "k1").ok()
    again = dispatch(operator, "a", "--key", "k1")
    assert again.status == 0 and (go / "f").read_text() == "x\n" and len(all_of(operator)) == 1
    dispatch(operator, "a", "--key", "k1", "--retries", "1").sentence("k1", last(operator)["id"])
    dispatch(operator, "a", "--key", "k2").ok()
    assert (go / "f").read_text() == "x\nx\n" and len(all_of(operator)) == 2


def test_key_of_many_at_once(operator, go):
    agent(operator, "a", "echo x >>f; exit 3", workspace={"path": str(go), "mode": "rw"})
    many = [operator.spawn(operator.program, "dispatch", "a", "--key", "k", "--json", stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE) for _ in range(8)]
    told = [(p.communicate(), p.returncode) for p in many]
    assert {status for _, status in told} == {3}, told
    assert len({json.loads(out.splitlines()[0])["dispatch"] for (out, _), _ in told}) == 1
    assert (go / "f").read_text() == "x\n"


# ---- again -------------------------------------------------------------------------

def test_retries(operator, go):
    agent(operator, "a", "echo $CLOISTER_ATTEMPT >>f; [ $CLOISTER_ATTEMPT = 2 ]",
          workspace={"path": str(go), "mode": "rw"})
    done = dispatch(operator, "a", "--retries", "3")
    assert done.status == 0 and (go / "f").read_text() == "1\n2\n" and \
        "attempt 1 failed with exit status 1; again in" in done.err
    d = last(operator)
    assert (d["state"], d["attempts"], d["retries"]) == ("finished", 2, 3)
    told = events(operator, d["id"])
    assert [e["attempt"] for e in told if e["event"] == "cell.boot"] == [1, 2]
    assert [(e["attempt"], e["exit_code"]) for e in told if e["event"] == "attempt.failed"] == [(1, 1)]
    assert len({e["cell"] for e in told if e["event"] == "cell.boot"}) == 2


def test_retries_have_an_end(operator, go):
    agent(operator, "a", "echo >>f; exit 5", workspace={"path": str(go), "mode": "rw"})
    assert dispatch(operator, "a", "--retries", "1").status == 5
    assert (go / "f").read_text() == "\n\n" and last(operator)["attempts"] == 2


@pytest.mark.parametrize("words, reason", [
    (("deny", "www.example.com"), "an operator changed its policy"),
    (("ttl", "1h"), "an operator limited how long it runs"),
])
def test_another_attempt_does_not_get_revoked_secrets_back(operator, go, words, reason):
    policy(operator, "p", {"allow": "*.example.com"})
    agent(operator, "a", "while [ ! -e go ]; do sleep 0.1; done; exit 5", policy="p",
          workspace={"path": str(go), "mode": "ro"})
    id = detach(operator, "a", "--retries", "3")
    cell = await_state(operator, id, "running")["cell"]
    verb, *rest = words
    operator.cloister(verb, cell, *rest).ok()
    (go / "go").touch()
    d = await_over(operator, id)
    assert (d["state"], d["exit_code"], d["attempts"]) == ("finished", 5, 1)
    assert d["reason"].startswith(f"it was not tried again: {reason}")
    assert [e["event"] for e in events(operator, id)].count("attempt.failed") == 0


# ---- ends --------------------------------------------------------------------------

def test_timeout(operator):
    agent(operator, "a", "echo begun; sleep 1000")
    done = dispatch(operator, "a", "--timeout", "300ms")
    assert (done.status, done.out) == (124, "begun\n") and "timed out" in done.err
    d = last(operator)
    assert (d["state"], d["exit_code"]) == ("timed_out", None) and "time limit" in d["reason"]


def test_cancel(operator):
    agent(operator, "a", "echo begun; sleep 1000")
    id = detach(operator, "a")
    wait_until(lambda: operator.cloister("dispatches", "output", id).ok() == "begun\n", "it runs")
    operator.cloister("dispatches", "cancel", id).ok()
    d = await_over(operator, id)
    assert (d["state"], d["exit_code"], d["reason"]) == ("cancelled", None, None)
    assert operator.cloister("dispatches", "output", id).ok() == "begun\n"
    operator.cloister("dispatches", "cancel", id).sentence(id, "over")


def test_cancel_by_a_short_id(operator):
    """The record has the whole id; a dispatch that takes its time is shown as ending."""
    agent(operator, "a", "trap : TERM; echo begun; while :; do sleep 0.1; done")
    id = detach(operator, "a")
    wait_until(lambda: operator.cloister("dispatches", "output", id).ok() == "begun\n", "it runs")
    operator.cloister("dispatches", "cancel", "--time", "1h", id[:8]).ok()
    assert "running, being cancelled\n" in operator.cloister("dispatches", "show", id).ok()
    assert operator.cloister("dispatches").ok().endswith("being cancelled\n")
    noted = [json.loads(line)["event"] for line in operator.cloister("audit", "show", "--operator").ok().splitlines()]
    assert [e["dispatch"] for e in noted if e["type"] == "dispatch.cancelled"] == [id]
    operator.cloister("kill", show(operator, id)["cell"]).ok()
    assert await_over(operator, id)["state"] == "cancelled"


def test_output_that_cannot_be_written(operator):
    agent(operator, "a", "echo x")
    with open("/dev/full", "w") as full:
        done = operator.cloister("dispatch", "a", stdout=full)
    assert done.status == 125 and "cannot write all of the output" in done.err and "Success" not in done.err


def test_times_are_printed_as_people_write_them(operator):
    agent(operator, "a", "true")
    for given, told in (("90s", "1m30s"), ("20m", "20m"), ("1500ms", "1500ms"), ("2h", "2h")):
        assert f"  limits     time {told}\n" in dispatch(operator, "a", "--dry-run", "--timeout", given).ok()


def test_interrupt_cancels(operator):
    agent(operator, "a", "echo begun; sleep 1000")
    waiting = operator.spawn(operator.program, "dispatch", "a", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert waiting.stdout.readline() == b"begun\n"
    waiting.send_signal(signal.SIGINT)
    waiting.communicate()
    assert waiting.returncode == 130 and last(operator)["state"] == "cancelled"


def test_cell_that_is_killed(operator):
    agent(operator, "a", "sleep 1000")
    id = detach(operator, "a")
    cell = await_state(operator, id, "running")["cell"]
    operator.cloister("kill", cell).ok()
    d = await_over(operator, id)
    assert (d["state"], d["reason"]) == ("failed", "an operator ended it")


# ---- the queue ---------------------------------------------------------------------

def test_queue(operator, go):
    """One at a time, in order; one that waits can be cancelled."""
    one = {"CLOISTER_CONCURRENCY": "1"}
    agent(operator, "a", "echo $CLOISTER_DISPATCH >>order; until [ -e go ]; do sleep 0.02; done",
          workspace={"path": str(go), "mode": "rw"})
    ids = [detach(operator, "a", env=one) for _ in range(4)]
    await_state(operator, ids[0], "running")
    assert [show(operator, id)["state"] for id in ids[1:]] == ["queued"] * 3
    operator.cloister("dispatches", "cancel", ids[1]).ok()
    assert await_over(operator, ids[1])["state"] == "cancelled"
    operator.file("go/go")
    assert [await_over(operator, id)["state"] for id in ids] == ["finished", "cancelled", "finished", "finished"]
    assert (go / "order").read_text().split() == [ids[0], ids[2], ids[3]]
    assert show(operator, ids[1])["attempts"] == 0


# ---- crashes -----------------------------------------------------------------------

def drivers(operator):
    """Processes of cloister-dispatch of this operator's."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/exe").endswith("/cloister-dispatch") and \
                    str(operator.base).encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            pass
    return found


def is_dead(pid):
    """Its descriptors are closed, too, which comes later than the loss of its memory."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def kill_drivers(operator):
    pids = drivers(operator)
    for pid in pids:
        end(pid)
    wait_until(lambda: all(map(is_dead, pids)) and not drivers(operator), "they are dead")


def test_driver_is_killed_while_it_runs(operator, go):
    """The cell goes on, and whoever looks next sees it through."""
    agent(operator, "a", "echo one; until [ -e go ]; do sleep 0.02; done; echo two; echo x >>ran; echo r >/out/r",
          workspace={"path": str(go), "mode": "rw"})
    id = detach(operator, "a")
    await_state(operator, id, "running")
    wait_until(lambda: operator.cloister("dispatches", "output", id).out == "one\n", "it printed")
    kill_drivers(operator)
    assert show(operator, id)["state"] == "running" and operator.cell(show(operator, id)["cell"])
    operator.file("go/go")
    operator.cloister("dispatches").ok()
    d = await_over(operator, id)
    assert (d["state"], d["exit_code"], d["attempts"]) == ("finished", 0, 1)
    assert operator.cloister("dispatches", "output", id).ok() == "one\ntwo\n"
    told = events(operator, id)
    assert "".join(e["text"] for e in told if e["event"] == "agent.output") == "one\ntwo\n"
    assert [e["n"] for e in told] == list(range(1, len(told) + 1))
    assert operator.cloister("dispatches", "files", id, "r").ok() == "r\n"
    assert (go / "ran").read_text() == "x\n"


def test_a_cell_ends_without_a_driver(operator, go):
    agent(operator, "a", "until [ -e go ]; do sleep 0.02; done; echo x >>ran; exit 9",
          workspace={"path": str(go), "mode": "rw"})
    id = detach(operator, "a")
    cell = await_state(operator, id, "running")["cell"]
    kill_drivers(operator)
    operator.file("go/go")
    wait_until(lambda: operator.cell(cell) is None, "it ended")
    operator.cloister("dispatches").ok()
    assert await_over(operator, id)["exit_code"] == 9
    assert (go / "ran").read_text() == "x\n" and operator.names(operator.state) == []


def test_supervisor_is_killed(operator):
    agent(operator, "a", "echo begun; sleep 1000")
    id = detach(operator, "a")
    cell = await_state(operator, id, "running")["cell"]
    wait_until(lambda: operator.cloister("dispatches", "output", id).out == "begun\n", "it printed")
    end(operator.cell(cell)["supervisor"])
    d = await_over(operator, id)
    assert d["state"] == "failed" and "supervisor" in d["reason"]
    assert [e.get("text") for e in events(operator, id) if e["event"] == "agent.output"] == ["begun\n"]
    wait_until(lambda: operator.sh("true") and not operator.running(), "it was cleared")
    assert operator.names(operator.state) == []


def test_queued_one_that_lost_its_driver(operator, go):
    one = {"CLOISTER_CONCURRENCY": "1"}
    agent(operator, "a", "until [ -e go ]; do sleep 0.02; done", workspace={"path": str(go), "mode": "rw"})
    ids = [detach(operator, "a", env=one) for _ in range(2)]
    await_state(operator, ids[0], "running")
    wait_until(lambda: len(drivers(operator)) == 2, "each has a driver")
    kill_drivers(operator)
    assert show(operator, ids[1])["state"] == "queued"
    operator.cloister("dispatches", "cancel", ids[1]).ok()
    assert show(operator, ids[1])["state"] == "cancelled"
    assert events(operator, ids[1])[-1]["event"] == "dispatch.finished"
    operator.file("go/go")
    operator.cloister("dispatches", env=one).ok()
    await_over(operator, ids[0])


# Much of nothing: it fits any limit of the cell's, and is to take no more of the operator's disk.
MUCH = r"""
cd /out; truncate -s 100M hole; truncate -s 1M tail; printf x >>tail
n=$(printf '%0200d' 0); for i in 1 2 3 4 5 6 7 8 9 10; do mkdir $n; cd $n; done
seq 3000 | while read i; do : >$i; done
"""


def test_much_of_nothing(operator):
    agent(operator, "much", MUCH)
    dispatch(operator, "much").ok()
    id = last(operator)["id"]
    files = json.loads(operator.cloister("dispatches", "files", "--json", id).ok())
    paths = {f["path"]: f for f in files["files"]}
    assert paths["hole"]["size"] == 100 << 20 and paths["tail"]["hash"] == sha256(bytes(1 << 20) + b"x")
    # Of the rest as many as can be listed.
    assert files["truncated"] and 900 < len(paths) < 1100
    used = sum(f.stat().st_blocks * 512 for f in (operator.base / "data").rglob("*") if f.is_file())
    assert used < 32 << 20, used


@only_user
def test_errors_use_the_words_of_the_agents_definition(operator):
    """Nobody gave the options of `cloister run`."""
    policy(operator, "web", {"allow": "api.example.com"})
    register(operator, "agent", "keyless", command=["true"], secrets=["nope"], policy="web")
    done = dispatch(operator, "keyless")
    assert "there is no secret 'nope' in the vault: `cloister secret add nope` keeps it there\n" in done.err
    register(operator, "agent", "slow", command=["sleep", "100"], limits={"time": "100ms"})
    assert "it reached its time limit (limits: time 100ms)" in dispatch(operator, "slow").err
    file = operator.file("small.yaml", json.dumps({"name": "small", "command": ["true"], "limits": {"memory": "1K"}}))
    operator.cloister("agent", "register", file).sentence("small.yaml:1:", "under 4M nothing runs")


@only_user
def test_piped_input_is_not_lost_silently(operator):
    agent(operator, "a", "cat")
    done = dispatch(operator, "a", input="said\n")
    assert done.ok() == "" and done.err.endswith("--input - gives it to the agent\n")
    done = dispatch(operator, "a", "--input", "-", input="said\n")
    assert done.ok() == "said\n" and "--input -" not in done.err
    assert "--input -" not in dispatch(operator, "a").err


@only_user
def test_ids_cut_short(operator):
    agent(operator, "a", "true")
    dispatch(operator, "a").ok()
    id = last(operator)["id"]
    for n in 1, 3:
        operator.cloister("dispatches", "show", id[:n]).sentence("write 4 letters of its id at least")
    assert show(operator, id[:4])["id"] == id
