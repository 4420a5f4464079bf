"""An agent that another one dispatched: it gets no more than that one has, whatever it was registered with."""
import concurrent.futures
import json
import os
import shlex
import signal

import pytest

from dispatches import agent, all_of, await_over, await_state, detach, dispatch, policy, register, show
from egress_lab import CURL
from operators import as_one, only_root, wait_until
from tools.test_gateway import site  # pylint: disable=unused-import
from tools.test_tools_wasm import CLIENT, put_capability
from tools_wasm import missing
from test_egress_policy import CODE, UP, WWW
from test_egress_secrets import canary, give

ANY = {"allow": "*.example.test"}


def lead(operator, agents=("child",), depth=3, fan_out=10, script="sleep 1000", words=(), **said):
    """A dispatch that others can be made by, and that runs; its id."""
    agent(operator, "lead", script, delegate={"agents": list(agents), "depth": depth, "fan_out": fan_out}, **said)
    id = detach(operator, "lead", *words)
    await_state(operator, id, "running")
    return id


@pytest.fixture(autouse=True)
def nothing_goes_on(operator):
    yield
    for d in all_of(operator):
        if d["state"] in ("queued", "starting", "running"):
            operator.cloister("dispatches", "cancel", "--time", "0s", d["id"])
            await_over(operator, d["id"])


def plan(operator, parent, name="child", *words):
    """The grants that it would get."""
    return json.loads(dispatch(operator, "--dry-run", "--json", "--parent", parent, name, *words).ok())


# ---- rules ---------------------------------------------------------------------------

def test_requests_that_the_parent_could_not_make(online):
    """Judged by what servers saw."""
    operator = online.operator
    read, wrote, other = canary(), canary(), canary()
    policy(operator, "reading", {"allow": "up.example.test", "methods": ["GET"]},
           {"deny": "up.example.test", "reason": "the lead only reads"})
    policy(operator, "all", ANY)
    agent(operator, "child", "; echo; ".join(" ".join([*CURL, *CODE, *words]) for words in (
        [f"{UP}/echo?{read}"], ["-d", "x", f"{UP}/echo?{wrote}"], [f"{WWW}/hello?{other}"])), policy="all")
    # By itself it can do all of it.
    assert dispatch(operator, "child").ok().split() == ["200", "200", "200"]
    assert all(online.lab.seen(word) for word in (read, wrote, other))
    before = {word: len(online.lab.seen(word)) for word in (read, wrote, other)}
    parent = lead(operator, policy="reading")
    done = dispatch(operator, "--parent", parent, "child")
    assert done.out.split() == ["200", "403", "000"]
    assert {word: len(online.lab.seen(word)) - n for word, n in before.items()} == {read: 1, wrote: 0, other: 0}
    # What is shown is what was kept: which rule is left how.
    d = next(d for d in all_of(operator) if d["parent"] == parent)
    told = show(operator, d["id"])["resolved"]["confined"]
    assert (told["agent"], told["parent"]) == ("lead", parent)
    assert [(p.get("text"), p["verdict"]) for p in told["rules"][0]["within"]] == [
        ("allow up.example.test methods [GET]", "allow"), ("deny up.example.test", "deny"), (None, "deny")]
    assert "allow up.example.test methods [GET]" in operator.cloister("dispatches", "show", d["id"]).ok()


def test_grandchildren(online):
    """Each generation is within all that came before it."""
    operator = online.operator
    policy(operator, "first", {"allow": "up.example.test"}, {"allow": "www.example.test"})
    policy(operator, "second", ANY, {"allow": "evil.test"})
    policy(operator, "third", {"allow": "*"})
    agent(operator, "third", "; echo; ".join(" ".join([*CURL, *CODE, url]) for url in (
        f"{UP}/204", f"{WWW}/hello", "https://api.example.test/hello", "https://evil.test/hello")), policy="third")
    agent(operator, "second", "sleep 1000", policy="second",
          delegate={"agents": ["third"], "depth": 9, "fan_out": 9})
    parent = lead(operator, agents=["second"], depth=2, policy="first")
    second = detach(operator, "--parent", parent, "second")
    await_state(operator, second, "running")
    assert dispatch(operator, "--parent", second, "third").out.split() == ["204", "200", "000", "000"]
    d = all_of(operator)[0]
    assert (d["chain"], d["parent"]) == ("lead/second/third", second)
    assert [w["agent"] for w in show(operator, d["id"])["resolved"]["within"]] == ["second", "lead"]


def test_without_a_policy_there_is_no_network(online):
    operator = online.operator
    give(online, canary())
    policy(operator, "all", ANY)
    agent(operator, "child", f'{" ".join([*CURL, *CODE, WWW])}; echo "${{KEY-none}}"', policy="all", secrets=["KEY"])
    parent = lead(operator)
    done = dispatch(operator, "--parent", parent, "child")
    assert done.out == "000none\n" and "no network" in done.err
    assert plan(operator, parent)["confined"]["left_out"] == {"policy": True, "secrets": ["KEY"]}


def test_rules_for_principals(online):
    """A child acts for its parent's principal; the parent's rules stay the parent's."""
    operator = online.operator
    policy(operator, "p", {"allow": "up.example.test", "principal": "*@acme.example"},
           {"allow": "www.example.test", "chain": "child"})
    script = "; echo; ".join(" ".join([*CURL, *CODE, url]) for url in (f"{UP}/204", f"{WWW}/hello"))
    agent(operator, "child", script, policy="p")
    assert dispatch(operator, "child").out.split() == ["000", "200"]
    parent = lead(operator, policy="p", words=["--on-behalf-of", "ann@acme.example"])
    # What the policy grants to `child` its parent does not have.
    assert dispatch(operator, "--parent", parent, "child").out.split() == ["204", "000"]
    assert all_of(operator)[0]["principal"] == "ann@acme.example"
    dispatch(operator, "--parent", parent, "--on-behalf-of", "bob@acme.example", "child").sentence("principal of its own dispatch")


# ---- secrets -------------------------------------------------------------------------

def test_secrets_that_the_parent_has_not(online):
    operator = online.operator
    real, other, third = canary(), canary(), canary()
    for name, value in (("KEY", real), ("MORE", other), ("THIRD", third)):
        give(online, value, name=name)
    policy(operator, "all", ANY)
    policy(operator, "more", ANY, secrets=["THIRD", "KEY"])
    send = f'{" ".join(CURL)} -H "Authorization: Bearer $KEY" {UP}/echo >/dev/null; echo "${{MORE-none}} ${{THIRD-none}}"'
    agent(operator, "child", send, policy="more", secrets=["KEY", "MORE"])
    assert "none" not in dispatch(operator, "child").ok()
    before = len(online.lab.seen(real))
    parent = lead(operator, policy="all", secrets=["KEY=LEADS_KEY"])
    done = dispatch(operator, "--parent", parent, "child")
    assert done.ok() == "none none\n" and len(online.lab.seen(real)) == before + 1
    told = plan(operator, parent)
    assert told["secrets"] == ["KEY"] and sorted(told["confined"]["left_out"]["secrets"]) == ["MORE", "THIRD"]


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_tools_that_the_parent_has_not(operator, site):
    """A module has requests and secrets of its own: its server is left out, unless the parent has the same."""
    host = f"host.cloister.internal:{site}"
    value = canary()
    operator.cloister("secret", "add", "MODULE_KEY", "--host", "api.example.test", input=value).ok()
    put_capability(operator, "reaching", f"rules: [{{allow: '{host}', scheme: http}}]\nsecrets: [MODULE_KEY]\n").ok()
    put_capability(operator, "plain").ok()
    asks = {name: CLIENT.replace("NAME", json.dumps(name)).replace("ARGUMENTS", json.dumps(arguments)) for name, arguments in (
        ("reaching.http", {"method": "GET", "url": f"http://{host}/", "host": host}), ("plain.echo", {"a": 1}))}
    policy(operator, "tools", {"allow": "tool:**"})
    script = "; ".join(f"python3 -c {shlex.quote(text)} 2>&1" for text in asks.values())
    agent(operator, "child", script, capabilities=["reaching", "plain"])
    assert "served" in dispatch(operator, "child").ok()
    parent = lead(operator, policy="tools")
    told = plan(operator, parent)
    done = dispatch(operator, "--parent", parent, "child")
    assert "served" not in done.out and '"a":1' in done.out.replace("\\", ""), done
    assert told["confined"]["left_out"]["servers"] == ["reaching"]
    # A parent with the same module.
    operator.cloister("dispatches", "cancel", "--time", "0s", parent)
    await_over(operator, parent)
    parent = lead(operator, policy="tools", capabilities=["reaching", "plain"])
    assert "served" in dispatch(operator, "--parent", parent, "child").out
    assert "servers" not in plan(operator, parent)["confined"]["left_out"]


def test_a_secret_goes_only_where_the_parents_word_lets_it(online):
    operator = online.operator
    real = canary()
    operator.cloister("secret", "add", "KEY", "--host", "up.example.test", "--host", "up2.example.test", input=real).ok()
    policy(operator, "all", ANY)
    send = "; ".join(" ".join([*CURL, *CODE, '-H "Authorization: Bearer $KEY"', url]) for url in (
        f"{UP}/echo", "https://up2.example.test/echo"))
    agent(operator, "child", send, policy="all", secrets=["KEY"])
    dispatch(operator, "child")
    assert len(online.lab.seen(real)) == 2
    dispatch(operator, "--parent", lead(operator, policy="all", secrets=["KEY@up.example.test"]), "child")
    assert len(online.lab.seen(real)) == 3


# ---- what was taken back while the parent ran -----------------------------------------

def refused(operator, parent, *parts):
    """It may not be dispatched, nor is it shown what would come of it."""
    before = [d["id"] for d in all_of(operator)]
    for words in ([], ["--dry-run"]):
        dispatch(operator, *words, "--parent", parent, "child").sentence("'lead' may not dispatch others", *parts)
    assert [d["id"] for d in all_of(operator)] == before


def test_consequences_of_a_parents_request(online):
    operator = online.operator
    told = canary()
    policy(operator, "p", {"allow": "www.example.test", "then": {"narrow": [{"deny": "up.example.test"}]}}, ANY)
    agent(operator, "child", " ".join([*CURL, *CODE, f"{UP}/echo?{told}"]), policy="p")
    folder = operator.folder("go")
    parent = lead(operator, policy="p", workspace={"path": str(folder), "mode": "ro"}, script=(
        f'while [ ! -e go ]; do sleep 0.1; done; {" ".join([*CURL, *CODE, WWW + "/hello"])}; echo; '
        f'{" ".join([*CURL, *CODE, UP + "/echo"])}; echo; sleep 1000'))
    # Before that nothing is in the way.
    assert dispatch(operator, "--parent", parent, "child").ok() == "200"
    before = len(online.lab.seen(told))
    (folder / "go").touch()
    out = wait_until(lambda: (out := operator.cloister("dispatches", "output", parent).out).count("\n") == 2 and out,
                     "it has asked twice")
    assert out.split() == ["200", "403"]
    refused(operator, parent, "by what a request led to")
    assert len(online.lab.seen(told)) == before


def test_a_rule_that_the_operator_took_back(online):
    operator = online.operator
    policy(operator, "p", ANY)
    agent(operator, "child", " ".join([*CURL, *CODE, f"{UP}/echo"]), policy="p")
    parent = lead(operator, policy="p")
    cell = show(operator, parent)["cell"]
    # More than it had is nothing that was taken.
    operator.cloister("allow", cell, "GET other.example.test").ok()
    assert dispatch(operator, "--parent", parent, "child").ok() == "200"
    operator.cloister("deny", cell, "up.example.test").ok()
    refused(operator, parent, "an operator changed its policy")
    # What is allowed again later does not tell that all is as it was.
    operator.cloister("allow", cell, "up.example.test").ok()
    refused(operator, parent, "an operator changed its policy")


def test_by_way_of_a_child_from_before(operator):
    """Rights that the lead lost are also lost to dispatches of its children, as long as it runs."""
    agent(operator, "child", "echo done")
    agent(operator, "mid", "sleep 1000", delegate={"agents": ["child"], "depth": 1, "fan_out": 9})
    folder = operator.folder("go")
    parent = lead(operator, agents=["mid"], script="while [ ! -e go ]; do sleep 0.1; done",
                  workspace={"path": str(folder), "mode": "ro"})
    mid = detach(operator, "mid", "--parent", parent)
    await_state(operator, mid, "running")
    assert dispatch(operator, "--parent", mid, "child").ok() == "done\n"
    cell = show(operator, parent)["cell"]
    operator.cloister("ttl", cell, "1h").ok()
    refused(operator, mid, "none that it dispatched", "how long it runs")
    operator.cloister("ttl", cell, "none").ok()
    assert dispatch(operator, "--parent", mid, "child").ok() == "done\n"
    # One that is over is nobody to be asked.
    operator.file("go/go")
    assert await_over(operator, parent)["state"] == "finished"
    assert dispatch(operator, "--parent", mid, "child").ok() == "done\n"


def test_a_rule_that_allows_less(online):
    operator = online.operator
    policy(operator, "p", ANY)
    agent(operator, "child", "true", policy="p")
    parent = lead(operator, policy="p")
    operator.cloister("allow", show(operator, parent)["cell"], ' {allow: up.example.test, budget: {requests: 1}}').ok()
    refused(operator, parent, "an operator changed its policy")


def test_a_secret_that_was_revoked(online):
    operator = online.operator
    real = canary()
    give(online, real)
    policy(operator, "p", ANY)
    send = f'{" ".join(CURL)} -H "Authorization: Bearer $KEY" {UP}/echo >/dev/null'
    agent(operator, "child", send, policy="p", secrets=["KEY"])
    parent = lead(operator, policy="p", secrets=["KEY"])
    dispatch(operator, "--parent", parent, "child").ok()
    before = len(online.lab.seen(real))
    assert before > 0
    operator.cloister("revoke", show(operator, parent)["cell"], "KEY").ok()
    refused(operator, parent, "a secret of its was revoked")
    assert len(online.lab.seen(real)) == before


def test_time_that_was_cut_short(operator):
    agent(operator, "child", "echo done")
    parent = lead(operator)
    cell = show(operator, parent)["cell"]
    operator.cloister("ttl", cell, "1h").ok()
    refused(operator, parent, "how long it runs")
    operator.cloister("ttl", cell, "none").ok()
    assert dispatch(operator, "--parent", parent, "child").ok() == "done\n"


@only_root
def test_one_that_is_frozen(operator):
    agent(operator, "child", "echo done")
    parent = lead(operator)
    cell = show(operator, parent)["cell"]
    operator.cloister("freeze", cell).ok()
    refused(operator, parent, "is frozen")
    operator.cloister("thaw", cell).ok()
    assert dispatch(operator, "--parent", parent, "child").ok() == "done\n"


def test_one_that_is_being_ended(operator):
    agent(operator, "child", "true")
    parent = lead(operator, script="trap 'echo asked' TERM; while :; do sleep 0.1; done")
    cell = show(operator, parent)["cell"]
    stopping = operator.spawn(operator.program, "stop", "--time", "1h", cell)
    wait_until(lambda: operator.cloister("dispatches", "output", parent).out, "it is asked to end")
    refused(operator, parent, "is being ended")
    operator.cloister("kill", cell).ok()
    stopping.wait()


def test_a_parent_whose_supervisor_does_not_answer(operator):
    """Then the child may have nothing any more."""
    agent(operator, "child", "true")
    parent = lead(operator)
    cell = show(operator, parent)["cell"]
    supervisor = operator.cell(cell)["supervisor"]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        dispatch(operator, "--parent", parent, "child").sentence("'lead' may not dispatch others", "cannot be asked")
    finally:
        os.kill(supervisor, signal.SIGCONT)


# ---- limits and files ------------------------------------------------------------------

def test_the_smaller_limits(operator):
    agent(operator, "child", "true", limits={"memory": "8G", "pids": 100, "time": "10h"})
    parent = lead(operator, limits={"pids": 200, "time": "1h"}, script="sleep 1000")
    told = plan(operator, parent)
    # Of what the parent does not say, it has what every cell has.
    assert told["limits"]["memory"] == str(4 << 30) and told["limits"]["pids"] == "100"
    assert 0 < int(told["limits"]["time"].removesuffix("ms")) <= 3_600_000
    agent(operator, "child", "true", limits={"time": "5s"})
    assert plan(operator, parent)["limits"]["time"] == "5s"


def test_no_more_time_than_the_parent_has(operator):
    agent(operator, "child", "sleep 1000")
    parent = lead(operator, limits={"time": "3s"})
    child = detach(operator, "--parent", parent, "child")
    assert await_over(operator, child)["state"] in ("timed_out", "cancelled")
    assert await_over(operator, parent)["state"] == "timed_out"
    dispatch(operator, "--parent", parent, "child").sentence("is over")


def workspace(operator, parent, **own):
    agent(operator, "child", "true", workspace=own)
    return plan(operator, parent)["workspace"]


@pytest.mark.parametrize("mode, got", [("rw", {"rw": "rw", "overlay": "overlay", "ro": "ro"}),
                                       ("overlay", {"rw": "overlay", "overlay": "overlay", "ro": "ro"}),
                                       ("ro", {"rw": "ro", "overlay": "ro", "ro": "ro"})])
def test_a_childs_workspace_has_no_more_rights(operator, mode, got):
    top = operator.folder("work", {"sub/file": "x"})
    parent = lead(operator, workspace={"path": str(top), "mode": mode})
    for asked, want in got.items():
        assert workspace(operator, parent, path=str(top), mode=asked) == {"path": str(top), "mode": want}
    # Where the parent can write, a folder further down may be a link to anywhere.
    below = workspace(operator, parent, path=str(top / "sub"), mode="ro")
    assert below == (None if mode == "rw" else {"path": str(top / "sub"), "mode": "ro"})
    assert workspace(operator, parent, path=str(operator.folder("other")), mode="ro") is None
    assert workspace(operator, parent, path=str(operator.folder("workshop")), mode="ro") is None


def test_a_link_leads_nowhere(operator):
    top, outside = operator.folder("work"), operator.folder("outside", {"file": "secret"})
    (top / "link").symlink_to(outside)
    parent = lead(operator, workspace={"path": str(top), "mode": "overlay"})
    assert workspace(operator, parent, path=str(top / "link"), mode="ro") is None


def test_a_childs_changes_stay_apart(operator):
    top = operator.folder("work", {"file": "before"})
    agent(operator, "child", "echo after >file; cat file", workspace={"path": str(top), "mode": "rw"})
    parent = lead(operator, workspace={"path": str(top), "mode": "overlay"})
    assert dispatch(operator, "--parent", parent, "child").ok() == "after\n"
    assert (top / "file").read_text() == "before"


# ---- walls ---------------------------------------------------------------------------

# The mutant build's boundary `stream` is stronger than namespaces, and needs no virtual machine.
with_stream = pytest.mark.parametrize("boundary", ["stream"])


@pytest.fixture
def walled(operator, boundary):
    """An operator who asks for no boundary, with the policy `walls`, which demands one."""
    del operator.env["CLOISTER_BOUNDARY"]
    policy(operator, "walls", boundary=boundary)
    return operator


def walls(operator, parent, name="child"):
    """The boundary of a child that runs, and its id."""
    id = detach(operator, "--parent", parent, name)
    d = await_state(operator, id, "running")
    assert d["resolved"]["boundary"] == plan(operator, parent, name)["boundary"]
    return operator.cell(d["cell"])["boundary"], id


@as_one
@with_stream
@pytest.mark.parametrize("source", ["policy", "agent", "variable"])
def test_a_childs_walls_are_no_weaker(walled, boundary, source):
    agent(walled, "weak", "sleep 1000", boundary="namespace")
    agent(walled, "open", "sleep 1000", policy="open")
    policy(walled, "open", ANY)
    names = ["child", "weak", "open"]
    agent(walled, "child", "sleep 1000", delegate={"agents": names})
    if source == "variable":
        walled.env["CLOISTER_BOUNDARY"] = boundary
    parent = lead(walled, names, **({"policy": "walls"} if source == "policy" else
                                    {"boundary": boundary} if source == "agent" else {}))
    walled.env["CLOISTER_BOUNDARY"] = "namespace"
    assert walled.cell(show(walled, parent)["cell"])["boundary"] == boundary
    children = [walls(walled, parent, name) for name in names]
    assert [wall for wall, _ in children] == [boundary] * len(names)
    assert walls(walled, children[0][1])[0] == boundary


@as_one
@with_stream
def test_a_child_keeps_walls_of_its_own(walled, boundary):
    """Its policy is left out, because its parent has none."""
    agent(walled, "child", "sleep 1000", policy="walls")
    parent = lead(walled)
    assert plan(walled, parent)["policy"] is None
    assert walls(walled, parent)[0] == boundary


@as_one
@with_stream
def test_the_strictest_wish_for_walls_counts(walled, boundary):
    parent = lead(walled, boundary=boundary)
    for own, want in ("strongest,namespace", f"strongest,{boundary}"), ("microvm", "microvm"), ("strongest", "strongest"):
        agent(walled, "child", "true", boundary=own)
        assert plan(walled, parent)["boundary"] == want


def test_envs_are_handed_on_not_fetched(operator):
    for name in ("mine", "other"):
        register(operator, "env", name, values={"VALUE": name})
    agent(operator, "child", 'echo "$VALUE"')
    agent(operator, "own", 'echo "$VALUE"', env=["other"])
    parent = lead(operator, agents=["child", "own"], env=["mine"])
    assert dispatch(operator, "--parent", parent, "--env", "mine", "child").ok() == "mine\n"
    dispatch(operator, "--parent", parent, "--env", "other", "child").sentence("'other'", "hand it on")
    # What the agent itself was registered with is the operator's word.
    assert dispatch(operator, "--parent", parent, "own").ok() == "other\n"


# ---- whom, how deep, how many ----------------------------------------------------------

def test_only_agents_that_are_named(operator):
    old = agent(operator, "child", "echo old")
    agent(operator, "child", "echo new")
    agent(operator, "other", "true")
    parent = lead(operator)
    assert dispatch(operator, "--parent", parent, "child").ok() == "new\n"
    dispatch(operator, "--parent", parent, "other").sentence("'lead' may not dispatch 'other'")
    dispatch(operator, "--parent", parent, f"child@{old}").sentence("'lead' may not dispatch")
    child = detach(operator, "--parent", parent, "child")
    await_over(operator, child)
    dispatch(operator, "--parent", child, "child").sentence("is over")
    # One that is pinned may be asked for by its hash.
    pinned = lead(operator, agents=[f"child@{old}"])
    assert dispatch(operator, "--parent", pinned, f"child@{old}").ok() == "old\n"
    dispatch(operator, "--parent", pinned, "child").sentence("'lead' may not dispatch")


def test_depth(operator):
    agent(operator, "child", "sleep 1000", delegate={"agents": ["child"], "depth": 16, "fan_out": 5})
    parent = lead(operator, depth=2)
    first = detach(operator, "--parent", parent, "child")
    assert show(operator, first)["resolved"]["delegate"]["depth"] == 1
    second = detach(operator, "--parent", first, "child")
    assert show(operator, second)["resolved"]["delegate"]["depth"] == 0
    dispatch(operator, "--parent", second, "child").sentence("as deep as")


def test_fan_out(operator):
    """Also when all come at once."""
    agent(operator, "child", "true")
    parent = lead(operator, fan_out=3)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: dispatch(operator, "--parent", parent, "child"), range(8)))
    assert sorted(d.status for d in done) == [0, 0, 0, 125, 125, 125, 125, 125]
    assert all("may not dispatch more" in d.err for d in done if d.status)
    assert sum(d["parent"] == parent for d in all_of(operator)) == 3


# ---- the end ---------------------------------------------------------------------------

def test_whoever_cancels_it_cancels_its_children(operator):
    agent(operator, "child", "sleep 1000", delegate={"agents": ["child"], "depth": 5, "fan_out": 5})
    parent = lead(operator)
    children = [detach(operator, "--parent", parent, "child") for _ in range(2)]
    await_state(operator, children[0], "running")
    children.append(detach(operator, "--parent", children[0], "child"))
    cells = [await_state(operator, id, "running")["cell"] for id in (parent, *children)]
    operator.cloister("dispatches", "cancel", parent).ok()
    assert {await_over(operator, id)["state"] for id in (parent, *children)} == {"cancelled"}
    assert not set(cells) & set({c["cell"] for c in operator.cells()})
    dispatch(operator, "--parent", parent, "child").sentence("is over")


def test_one_that_fails_takes_them_along(operator):
    agent(operator, "child", "sleep 1000")
    parent = lead(operator)
    child = detach(operator, "--parent", parent, "child")
    await_state(operator, child, "running")
    operator.cloister("kill", show(operator, parent)["cell"]).ok()
    assert await_over(operator, parent)["state"] == "failed"
    assert await_over(operator, child)["state"] == "cancelled"


def test_one_that_finishes_leaves_them(operator):
    folder = operator.folder("go")
    agent(operator, "child", "while [ ! -e go ]; do sleep 0.1; done; echo done", workspace={"path": str(folder), "mode": "ro"})
    parent = lead(operator, script="while [ ! -e end ]; do sleep 0.1; done", workspace={"path": str(folder), "mode": "ro"})
    child = detach(operator, "--parent", parent, "child")
    await_state(operator, child, "running")
    (folder / "end").touch()
    assert await_over(operator, parent)["state"] == "finished"
    (folder / "go").touch()
    assert await_over(operator, child)["state"] == "finished"
    assert operator.cloister("dispatches", "output", child).ok() == "done\n"


def test_children_do_not_wait_for_a_parent_that_takes_its_time(operator):
    agent(operator, "child", "sleep 1000")
    parent = lead(operator, script="trap '' TERM; while :; do sleep 1; done")
    child = detach(operator, "--parent", parent, "child")
    await_state(operator, child, "running")
    operator.cloister("dispatches", "cancel", "--time", "1h", parent).ok()
    assert await_over(operator, child)["state"] == "cancelled"
    assert show(operator, parent)["state"] == "running"
    operator.cloister("dispatches", "cancel", "--time", "0s", parent)
    operator.cloister("kill", show(operator, parent)["cell"])


def test_one_that_waits_lends_its_place(operator):
    """Or all places could be taken by those that wait."""
    agent(operator, "child", "echo done")
    parent = lead(operator)
    assert dispatch(operator, "--parent", parent, "child", env={"CLOISTER_CONCURRENCY": "1"}).ok() == "done\n"
