"""An agent in a cell that dispatches others: by standard MCP, with the token that it was given."""
import http.client
import json
import os
import select
import signal
import socket
import threading
from contextlib import closing

import pytest

from cell_mcp import script
from dispatches import all_of, await_over, await_state, detach, dispatch, policy, register, show
from egress_lab import CURL
from mcp_lab import Http, message
from operators import SECONDS, as_one, children_of, wait_until
from service import Service
from test_egress_policy import CODE, UP, WWW
from test_egress_secrets import canary

DELEGATE = {"agents": ["child"], "depth": 3, "fan_out": 10}
# It tells its token, so that the test can try it, and waits for a file before it goes on.
WAITS = '''
mcp = Mcp().begin()
say(token=mcp.token, url=os.environ["CLOISTER_MCP_URL"])
while not os.path.exists("go"):
    time.sleep(0.05)
'''


def end_all(operator):
    for d in all_of(operator):
        if d["state"] in ("queued", "starting", "running"):
            operator.cloister("dispatches", "cancel", "--time", "0s", d["id"])
            await_over(operator, d["id"])


@pytest.fixture
def service(operator):
    service = Service(operator, "--mcp", "127.0.0.1:0")
    yield service
    # While there is somebody who drives what agents dispatched.
    end_all(operator)
    if service.process.poll() is None:
        service.stop()


def child(operator, text="echo done", name="child", **said):
    return register(operator, "agent", name, command=["sh", "-c", text], description=f"does {name}", **said)


def lead(operator, text, name="lead", delegate=None, **said):
    register(operator, "agent", name, command=script(text), delegate=delegate or DELEGATE, **said)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def told(operator, id, n=1):
    """The first N objects that a running agent has printed."""
    def look():
        done = operator.cloister("dispatches", "output", id)
        return done.out.count("\n") >= n and lines(done.out)
    return wait_until(look, f"{id} has said something")


def waiting(operator, name="lead", text="", words=(), **said):
    """A dispatch that runs and waits: (id, its output, the file that lets it continue)."""
    folder = operator.folder(f"go-{name}")
    lead(operator, WAITS + text, name, workspace={"path": str(folder), "mode": "ro"}, **said)
    id = detach(operator, name, *words)
    return id, told(operator, id)[0], folder / "go"


class Outside:
    """An attacker with a stolen token, at the port itself."""

    def __init__(self, operator, token, url):
        self.operator, self.token = operator, token
        self.port = int(url.rpartition(":")[2].partition("/")[0])

    def ask(self, host="127.0.0.1"):
        """The status of an attempt to begin a session."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)) as client:
            headers = {**Http.TYPES, "Host": f"{host}:{self.port}", "Authorization": f"Bearer {self.token}"}
            body = json.dumps(message("initialize", {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}))
            client.request("POST", "/mcp", body, headers)
            return client.getresponse().status


# ---- the whole way ---------------------------------------------------------------------

def test_an_agent_in_a_cell_has_another_one_work(operator, service):
    child(operator, "read word; echo \"$CLOISTER_CHAIN for $CLOISTER_PRINCIPAL: $word\"; echo oops >&2; echo x >/out/f")
    child(operator, "true", "secret-agent")
    lead(operator, '''
mcp = Mcp().begin()
say(agents=[(a["name"], a["description"]) for a in mcp.tool("list_agents")["agents"]])
done = mcp.tool("dispatch", agent="child", input="hello\\n")
say(**done)
say(out=mcp.tool("output", id=done["id"])["text"], err=mcp.tool("output", id=done["id"], stream="stderr")["text"],
    file=mcp.tool("result_files", id=done["id"], path="f")["text"], state=mcp.tool("status", id=done["id"])["state"])
other = mcp.tool("dispatch", agent="child", wait=False, idempotency_key="k")
say(same=mcp.tool("dispatch", agent="child", wait=False, idempotency_key="k")["id"] == other["id"])
''')
    agents, done, read, again = lines(dispatch(operator, "--on-behalf-of", "ann", "lead").ok())
    assert agents == {"agents": [["child", "does child"]]}
    assert (done["state"], done["exit_code"], done["stdout"]) == ("finished", 0, "lead/child for ann: hello\n")
    assert read == {"out": "lead/child for ann: hello\n", "err": "oops\n", "file": "x\n", "state": "finished"}
    assert again == {"same": True}
    d = show(operator, done["id"])
    parent = next(d for d in all_of(operator) if d["chain"] == "lead")
    assert (d["parent"], d["principal"], d["depth"]) == (parent["id"], "ann", 1)
    # Who asked is on record, and it was the dispatch.
    asked = [r["event"] for r in lines(operator.cloister("audit", "show", "--operator").ok())
             if r["event"].get("dispatch") == done["id"] and r["event"]["type"] == "dispatch.asked"]
    assert [e["peer"] for e in asked] == [f"dispatch {parent['id']}"], asked


def test_curl_is_enough(operator, service):
    child(operator)
    text = '''curl -sS -H "Authorization: Bearer $CLOISTER_MCP_TOKEN" -H 'Content-Type: application/json' \\
-H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' \\
-H 'Mcp-Name: dispatch' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"dispatch","arguments":{"agent":"child"},
"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}' "$CLOISTER_MCP_URL"'''
    register(operator, "agent", "lead", command=["sh", "-c", text], delegate=DELEGATE)
    said = dispatch(operator, "lead").ok()
    assert '"stdout":"done\\n"' in said, said


def test_a_dispatch_over_the_api(operator, service):
    """Driven by the service, as one of the command line's is by itself."""
    child(operator)
    lead(operator, 'say(**Mcp().begin().tool("dispatch", agent="child"))')
    id = service.post("/v1/dispatches", {"agent": "lead"}).ok(202)["id"]
    assert await_over(operator, id)["exit_code"] == 0
    assert told(operator, id)[0]["stdout"] == "done\n"


def test_the_child_is_confined(online, operator):
    """Judged by what servers saw."""
    service = Service(operator, "--mcp", "127.0.0.1:0")
    read, wrote, other = canary(), canary(), canary()
    policy(operator, "reading", {"allow": "up.example.test", "methods": ["GET"]})
    policy(operator, "all", {"allow": "*.example.test"})
    child(operator, "; echo; ".join(" ".join([*CURL, *CODE, *words]) for words in (
        [f"{UP}/echo?{read}"], ["-d", "x", f"{UP}/echo?{wrote}"], [f"{WWW}/hello?{other}"])) + "; echo; env", policy="all")
    assert dispatch(operator, "child").ok().split()[:3] == ["200", "200", "200"]
    before = {word: len(online.lab.seen(word)) for word in (read, wrote, other)}
    lead(operator, 'say(**Mcp().begin().tool("dispatch", agent="child"))', policy="reading")
    done = lines(dispatch(operator, "lead").ok())[0]
    assert done["stdout"].split()[:3] == ["200", "403", "000"]
    assert {word: len(online.lab.seen(word)) - n for word, n in before.items()} == {read: 1, wrote: 0, other: 0}
    # What is not for it, it does not get.
    assert "CLOISTER_MCP" not in done["stdout"]
    service.stop()


@as_one
@pytest.mark.parametrize("boundary", ["stream"])
def test_a_child_without_a_policy_has_the_walls_of_its_parents_policy(operator, boundary):
    del operator.env["CLOISTER_BOUNDARY"]
    service = Service(operator, "--mcp", "127.0.0.1:0")
    policy(operator, "walls", boundary=boundary)
    child(operator, "sleep 1000")
    lead(operator, 'Mcp().begin().tool("dispatch", agent="child")', policy="walls")
    detach(operator, "lead")
    d = wait_until(lambda: next((d for d in all_of(operator) if d["chain"] == "lead/child"
                                 and d["state"] == "running"), None), "the child runs")
    wall = operator.cell(d["cell"])["boundary"]
    end_all(operator)
    service.stop()
    assert wall == boundary


def test_a_consequence_is_not_got_round(online, operator):
    """No other agent does what this agent may no longer do."""
    service = Service(operator, "--mcp", "127.0.0.1:0")
    out = canary()
    policy(operator, "p", {"allow": "www.example.test", "then": {"narrow": [{"deny": "up.example.test"}]}},
           {"allow": "*.example.test"})
    child(operator, " ".join([*CURL, *CODE, f"{UP}/echo?{out}"]), policy="p")
    lead(operator, f'''
import subprocess
def get(url):
    return subprocess.run([*{CURL}, *{CODE}, url], stdout=subprocess.PIPE, text=True).stdout
mcp = Mcp().begin()
say(before=mcp.tool("dispatch", agent="child")["stdout"])
say(read=get("{WWW}/hello"))
say(after=mcp.tool("dispatch", agent="child"), own=get("{UP}/echo?{out}"))
''', policy="p")
    before, read, after = lines(dispatch(operator, "lead").ok())
    assert (before, read, after["own"]) == ({"before": "200"}, {"read": "200"}, "403")
    assert "'lead' may not dispatch others any more" in after["after"], after
    assert len(online.lab.seen(out)) == 1
    assert len([d for d in all_of(operator) if d["chain"] == "lead/child"]) == 1
    service.stop()


# ---- what is resolved --------------------------------------------------------------------

def rule(port):
    return {"allow": f"host.cloister.internal:{port}", "methods": ["POST", "GET", "DELETE"], "paths": ["/mcp"],
            "scheme": "http"}


def plan(operator, name="lead", *words):
    return json.loads(dispatch(operator, "--dry-run", "--json", *words, name).ok())


def in_force(operator, id):
    return json.loads((operator.base / "data" / "dispatches" / id / "policy.json").read_text())


def test_the_rule_is_shown(operator, service):
    child(operator)
    policy(operator, "p", {"deny": "host.cloister.internal"}, {"allow": "a.example.test"})
    id, said, _ = waiting(operator)
    port = int(said["url"].rpartition(":")[2].partition("/")[0])
    assert said["url"] == f"http://host.cloister.internal:{port}/mcp"
    assert show(operator, id)["resolved"]["mcp"] == {"url": said["url"]}
    assert in_force(operator, id) == {"egress": [rule(port)], "version": 1}
    assert f"host.cloister.internal:{port}/mcp" in operator.cloister("dispatches", "show", id).ok()
    id, _, _ = waiting(operator, policy="p")
    assert in_force(operator, id)["egress"] == [rule(port), {"deny": "host.cloister.internal"},
                                                {"allow": "a.example.test"}]
    # It is part of what the hash is of; and it is there once.
    with_it = plan(operator)["policy"]["hash"]
    policy(operator, "p", rule(port), {"allow": "a.example.test"})
    id, _, _ = waiting(operator, policy="p")
    assert in_force(operator, id)["egress"] == [rule(port), {"allow": "a.example.test"}]
    service.stop()
    assert plan(operator)["policy"]["hash"] != with_it


def test_delegation_needs_a_service(operator):
    child(operator)
    lead(operator, 'say(**dict(os.environ))')
    resolved = plan(operator)
    assert resolved["mcp"]["url"] is None and "serve --mcp" in resolved["mcp"]["reason"]
    assert resolved["policy"] is None
    assert not [name for name in lines(dispatch(operator, "lead").ok())[0] if name.startswith("CLOISTER_MCP")]
    assert "serve --mcp" in dispatch(operator, "--dry-run", "lead").out
    # One that listens for operators only is not such a service, nor one that was killed.
    service = Service(operator)
    assert plan(operator)["mcp"]["url"] is None
    service.stop()
    service = Service(operator, "--mcp", "127.0.0.1:0")
    assert plan(operator)["mcp"]["url"] is not None
    service.stop(signal.SIGKILL)
    assert plan(operator)["mcp"]["url"] is None
    assert "mcp" not in plan(operator, "child")


def test_secrets_need_a_rule_of_their_own(operator, service):
    lead(operator, "pass", secrets=["KEY"])
    dispatch(operator, "lead").sentence("no rule that lets them go anywhere")


# ---- who sees what -----------------------------------------------------------------------

def test_strangers_and_siblings(operator, service):
    child(operator, "cat; sleep 1000")
    stranger = detach(operator, "child")
    by_agents = service.post("/v1/dispatches", {"agent": "child"}, socket=service.agents).ok(202)["id"]
    first, said, _ = waiting(operator, "first")
    mine = service.ask("POST", "/v1/dispatches", {"agent": "child"}, {"Authorization": f"Bearer {said['token']}"},
                       socket=service.agents).ok(202)
    assert mine["parent"] == first
    lead(operator, '''
mcp = Mcp().begin()
own = mcp.tool("dispatch", agent="child", input="x", wait=False)["id"]
for id in sys.stdin.read().split() + ["a" * 16, "b" if own[0] == "a" else "a", own[:4], own]:
    say(id=id, status=mcp.tool("status", id=id), output=mcp.tool("output", id=id), files=mcp.tool("result_files", id=id),
        cancel=mcp.tool("cancel", id=id))
''', "second")
    asked = operator.file("ids", "\n".join([stranger, by_agents, mine["id"], first]))
    *others, by_start, own = lines(dispatch(operator, "--input", asked, "second").ok())
    assert len(others) == 6
    for other in others:
        # As if there were no such thing: in the same words.
        for verb in ("status", "output", "files", "cancel"):
            assert other[verb] == f"you have no dispatch '{other['id']}'", other
    assert own["status"]["state"] in ("queued", "starting", "running", "cancelled")
    for id in (stranger, by_agents, mine["id"], first):
        assert show(operator, id)["state"] == "running", id
    # Nor does an agent without a token see what one in a cell dispatched.
    service.get(f"/v1/dispatches/{mine['id']}", socket=service.agents).error(404, "not_found")
    service.get(f"/v1/dispatches/{by_agents}", socket=service.agents).ok()


def test_agents_choose_no_target(operator, service):
    """Other machines cost money: where an agent runs is for the operator to say."""
    child(operator, "sleep 1000")
    child(operator, "true", "elsewhere", target="pool:p")
    register(operator, "target", "big", engine="docker", image="cloister-worker")
    _, said, _ = waiting(operator)

    def ask(agent, target, who):
        return service.ask("POST", "/v1/dispatches", {"agent": agent, **({"target": target} if target else {})},
                           {"Authorization": f"Bearer {said['token']}"} if who == "lead" else {},
                           socket=service.socket if who == "operator" else service.agents)
    for who in ("lead", "agents"):
        for target in ("docker", "pool:p", "big", "nowhere"):
            ask("child", target, who).error(403, "forbidden", f"the agent 'child' has 'local', not '{target}'")
        for target in (None, "local"):
            ask("child", target, who).ok(202)
    ask("elsewhere", "local", "agents").error(403, "forbidden", "the agent 'elsewhere' has 'pool:p', not 'local'")
    assert ask("elsewhere", "local", "operator").status == 202
    assert all(d["target"] == "local" for d in all_of(operator))


def test_agents_that_are_not_named(operator, service):
    old = child(operator, "echo old")
    child(operator, "echo new")
    child(operator, "echo other", "other")
    lead(operator, f'''
mcp = Mcp().begin()
for name in ("other", "child@{old}", "nix", "../agents", "lead"):
    say(name=name, said=mcp.tool("dispatch", agent=name))
say(page=mcp.tool("list_agents", limit=1), rest=mcp.tool("list_agents", after="child"))
''')
    *refused, listed = lines(dispatch(operator, "lead").ok())
    for one in refused:
        assert isinstance(one["said"], str), one
    assert "may not dispatch 'other'" in refused[0]["said"] and "may not dispatch" in refused[1]["said"]
    assert [a["name"] for a in listed["page"]["agents"]] == ["child"] and listed["rest"]["agents"] == []
    assert not [d for d in all_of(operator) if d["parent"]]


def test_agents_that_are_pinned(operator, service):
    old = child(operator, "echo old")
    child(operator, "echo new")
    child(operator, "echo a", "a")
    child(operator, "true", "gone")
    lead(operator, '''
mcp = Mcp().begin()
page = mcp.tool("list_agents", limit=1)
more = mcp.tool("list_agents", limit=1, after=page["next"])
say(names=[[a["name"], a["hash"]] for a in page["agents"] + more["agents"]], end="next" not in more)
say(**mcp.tool("dispatch", agent="child@" + more["agents"][0]["hash"]))
''', delegate={"agents": [f"child@{old}", "a", "gone"], "depth": 1, "fan_out": 8})
    operator.cloister("agent", "retire", "gone").ok()
    listed, done = lines(dispatch(operator, "lead").ok())
    assert [name for name, _ in listed["names"]] == ["a", "child"] and listed["names"][1][1] == old
    assert listed["end"] is True and done["stdout"] == "old\n"


def test_members_that_an_agent_may_not_send(operator, service):
    child(operator)
    id, said, _ = waiting(operator, words=["--on-behalf-of", "ann"])
    bearer = {"Authorization": f"Bearer {said['token']}"}

    def ask(body, **more):
        return service.ask("POST", "/v1/dispatches", body, {**bearer, **more}, socket=service.agents)
    for principal in ("bob", "ann", ""):
        ask({"agent": "child", "on_behalf_of": principal}).error(403, "forbidden", "principal of its own dispatch")
    ask({"agent": "child", "parent": "x"}).error(400, "invalid")
    assert ask({"agent": "child"}).ok(202)["principal"] == "ann"
    # Whatever it may show, it is an agent; and the operator's sockets do not know tokens.
    service.ask("GET", "/v1/dispatches", None, bearer, socket=service.agents).error(405, "method_not_allowed")
    service.ask("GET", "/v1/agents/child", None, bearer, socket=service.agents).ok()
    for name in ("lead", "nix"):
        service.ask("GET", f"/v1/agents/{name}", None, bearer, socket=service.agents).error(
            404, "not_found", f"there is no agent '{name}' that you may dispatch")
    for wrong in ("Bearer x", f"Bearer {said['token'][:-1]}", f"Bearer {said['token']}0", "Basic x",
                  f"Bearer {id}", f"Bearer {id}." + "0" * 64, "Bearer " + "a" * 300):
        for path in ("/v1/agents", "/v1/version", "/v1/openapi.json"):
            service.ask("GET", path, None, {"Authorization": wrong}, socket=service.agents).error(401, "unauthorized")


# ---- how deep, how many --------------------------------------------------------------------

def test_fan_out(operator, service):
    child(operator)
    lead(operator, '''
mcp = Mcp().begin()
for _ in range(4):
    say(done=mcp.tool("dispatch", agent="child"))
''', delegate={"agents": ["child"], "depth": 1, "fan_out": 2})
    done = [one["done"] for one in lines(dispatch(operator, "lead").ok())]
    assert [one["stdout"] for one in done[:2]] == ["done\n", "done\n"]
    assert all("may not dispatch more" in one for one in done[2:])


def test_depth(operator, service):
    """Each dispatches itself, until it cannot."""
    lead(operator, '''
say(mcp="CLOISTER_MCP_TOKEN" in os.environ)
if "CLOISTER_MCP_TOKEN" in os.environ:
    say(**Mcp().begin().tool("dispatch", agent="lead"))
''', delegate={"agents": ["lead"], "depth": 2, "fan_out": 1})
    first, done = lines(dispatch(operator, "lead").ok())
    second, last = lines(done["stdout"])
    assert (first, second) == ({"mcp": True}, {"mcp": True}) and lines(last["stdout"]) == [{"mcp": False}]
    deepest = next(d for d in all_of(operator) if d["depth"] == 2)
    assert "as deep as" in show(operator, deepest["id"])["resolved"]["mcp"]["reason"]


# ---- tokens --------------------------------------------------------------------------------

def test_a_token_dies_with_its_dispatch(operator, service):
    child(operator)
    id, said, go = waiting(operator)
    outside = Outside(operator, **said)
    assert outside.ask() == 200
    # What is kept has its hash only.
    found = operator.do("grep", "-rlaF", said["token"].split(".")[1], str(operator.base / "data" / "registry"),
                        str(operator.base / "data" / "dispatches" / id / "policy.json"), str(operator.base / "data" / "audit"))
    assert found.out == "", found
    assert not (operator.base / "data" / "dispatches" / id / "env").exists()
    go.touch()
    assert await_over(operator, id)["state"] == "finished"
    assert outside.ask() == 401
    service.ask("POST", "/v1/dispatches", {"agent": "child"}, {"Authorization": f"Bearer {said['token']}"},
                socket=service.agents).error(401, "unauthorized", "no running dispatch")
    assert not [d for d in all_of(operator) if d["parent"]]


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_a_token_of_one_that_was_ended(operator, service, how):
    id, said, _ = waiting(operator)
    outside = Outside(operator, **said)
    assert outside.ask() == 200
    if how == "cancel":
        operator.cloister("dispatches", "cancel", "--time", "0s", id).ok()
    else:
        operator.cloister("kill", show(operator, id)["cell"]).ok()
    await_over(operator, id)
    assert outside.ask() == 401


def test_each_attempt_has_its_own(operator, service):
    lead(operator, '''
say(token=Mcp().begin().token, attempt=os.environ["CLOISTER_ATTEMPT"])
sys.exit(1)
''')
    id = detach(operator, "--retries", "1", "lead")
    await_over(operator, id)
    said = [json.loads(e["text"]) for e in map(json.loads, operator.cloister(
        "dispatches", "events", "--json", id).ok().splitlines()) if e["event"] == "agent.output"]
    assert [one["attempt"] for one in said] == ["1", "2"] and said[0]["token"] != said[1]["token"]


def test_a_service_that_was_killed(operator, service):
    """The agent asks again, and the next service knows it."""
    child(operator)
    id, said, go = waiting(operator, text='say(**Mcp().begin().tool("dispatch", agent="child"))')
    service.stop(signal.SIGKILL)
    service.start()
    go.touch()
    assert await_over(operator, id)["exit_code"] == 0
    assert told(operator, id, 2)[1]["stdout"] == "done\n"


def test_the_port_of_one_that_was_killed(operator, service):
    """Its parts end one after the other: the next one waits for the port that cells know."""
    def port():
        return int(service.log().rpartition("find MCP at port ")[2].split()[0])
    for _ in range(10):
        last = port()
        service.stop()
        try:
            held = socket.create_server(("127.0.0.1", last))
            break
        except OSError:
            # A connection of another test has it now, and the next service another one.
            service.start()
    threading.Timer(0.2, held.close).start()
    service.start()
    assert port() == last


def test_cloister_mcp_is_started_again(operator, service):
    _, said, _ = waiting(operator)
    outside = Outside(operator, **said)
    keeper = next(pid for pid in children_of(service.process.pid)
                  if os.readlink(f"/proc/{pid}/exe").endswith("cloister-mcp"))
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: keeper not in children_of(service.process.pid), "it has ended")
    # Who comes in between waits.
    assert outside.ask() == 200
    service.stop()


# ---- what the rule does not open -------------------------------------------------------------

def test_nothing_else_there(operator, service):
    """On the same port, other ports and other names: from inside, with and without the token."""
    listener = socket.create_server(("127.0.0.1", 0))
    lead(operator, '''
mcp = Mcp()
port = mcp.url.port
for path in ("/", "/mcp/", "/mcp/x", "/mcp%2f", "/v1/agents", "/v1/dispatches", "/healthz", "/metrics", "/x/../v1/agents", "//mcp"):
    say(path=path, status=mcp.http("GET", path=path)[0])
for method in ("PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "CONNECT"):
    say(method=method, status=mcp.http(method)[0])
for host, number in (("host.cloister.internal", OTHER), ("127.0.0.1", port), ("localhost", port), ("127.0.0.1", OTHER),
                     ("gate.cloister.internal", port), ("cell.cloister.internal", port)):
    client = http.client.HTTPConnection(host, number, timeout=20)
    try:
        client.request("POST", "/mcp", "{}", {"Authorization": "Bearer " + mcp.token})
        say(host=host, status=client.getresponse().status)
    except OSError as e:
        say(host=host, status=0)
for token in ("", "x", mcp.token[:-1], "a" * 16 + "." + "0" * 64):
    other = Mcp(token=token)
    other.token = token
    say(token=token, status=other.http("POST", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}))[0])
    say(token=token, status=other.http("GET")[0])
'''.replace("OTHER", str(listener.getsockname()[1])))
    said = lines(dispatch(operator, "lead").ok())
    assert all(one["status"] == 403 for one in said if "path" in one), said
    assert all(one["status"] in (400, 403) for one in said if "method" in one), [o for o in said if "method" in o]
    # Nobody came to that port of the machine.
    assert select.select([listener], [], [], 0)[0] == []
    listener.close()
    assert all(one["status"] in (0, 403) for one in said if "host" in one), said
    assert [one["status"] for one in said if "token" in one] == [401] * 8, said


def test_a_wider_rule_opens_no_more_without_a_token(operator, service):
    """A cell whose policy has a rule for the whole of that port."""
    id, said, _ = waiting(operator)
    port = int(said["url"].rpartition(":")[2].partition("/")[0])
    policy(operator, "wide", {"allow": f"host.cloister.internal:{port}"})
    register(operator, "agent", "snoop", policy="wide", command=script(f'''
mcp = Mcp("{said["url"]}", "")
for token in ("", "x" * 40):
    mcp.token = token
    for method in ("GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD"):
        for path in ("/", "/mcp", "/v1/agents", "/healthz", "/metrics", "/v1/openapi.json"):
            say(asked=[token, method, path], status=mcp.http(method, "{{}}" if method == "POST" else None, path=path)[0])
'''))
    said = lines(dispatch(operator, "snoop").ok())
    assert len(said) == 72 and {one["status"] for one in said} == {401}, [one for one in said if one["status"] != 401]


def test_another_name_is_a_page_s_trick(operator, service):
    _, said, _ = waiting(operator)
    outside = Outside(operator, **said)
    assert outside.ask(host="host.cloister.internal") == 200
    for host in ("evil.example", "gate.cloister.internal", "x.host.cloister.internal"):
        assert outside.ask(host=host) == 421


def test_a_session_is_its_token_s(operator, service):
    """A client that knows its name, but has another token, cannot use it."""
    _, first, _ = waiting(operator, "first")
    _, second, _ = waiting(operator, "second")
    outside = Outside(operator, **first)

    def ask(token, session=None):
        body = message("tools/list") if session else message("initialize", {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
        with closing(http.client.HTTPConnection("127.0.0.1", outside.port, timeout=SECONDS)) as client:
            client.request("POST", "/mcp", json.dumps(body), {
                **Http.TYPES, "Authorization": f"Bearer {token}",
                **({"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"} if session else {})})
            answer = client.getresponse()
            answer.read()
            return answer.status, answer.headers.get("mcp-session-id")
    status, session = ask(first["token"])
    assert status == 200
    assert ask(first["token"], session)[0] == 200
    assert ask(second["token"], session)[0] == 404
    # And nobody can crowd out the others' by opening many.
    for _ in range(80):
        assert ask(second["token"])[0] == 200
    assert ask(first["token"], session)[0] == 200


def test_possible_places_of_the_service(operator):
    for address in ("[::1]:0", "0.0.0.0:0", "10.0.0.1:80", "x"):
        operator.cloister("serve", "--mcp", address).sentence("127.0.0.1")
    for option in (["--agents-socket", "x"], ["--idle-exit", "1m"]):
        operator.cloister("serve", "--mcp", "127.0.0.1:0", *option).sentence("contradict", option[0])
