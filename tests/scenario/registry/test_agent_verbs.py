"""Everything that an agent can ask of cloister, anywhere: the list that was reviewed.

An agent cannot widen what it was given, because no interface that it can reach has a verb for it.
A verb that is not in this list fails a test here: before it is added, somebody has to ask whether
an agent could use it to get, or to let others get, more than an operator granted.  Granting,
registering, approving, reading secrets and changing policies are operators' verbs and never belong
here."""
import re

import pytest

from mcp_lab import META, Stand, Stdio
from operators import TREE
from service import Service

# ---- the list

# MCP: tools, and methods by revision.  "*" is every revision.
MCP_TOOLS = {
    "list_agents": "names, hashes and descriptions of agents",
    "dispatch": "runs what an operator registered, as it was registered",
    "status": "of a dispatch",
    "output": "of a dispatch",
    "result_files": "of a dispatch, to list and to read",
    "cancel": "ends a dispatch",
}
# What a tool takes: an argument can be a verb in disguise.
MCP_ARGUMENTS = {
    "list_agents": {"after", "limit"},
    "dispatch": {"agent", "input", "env", "timeout_seconds", "retries", "idempotency_key", "wait"},
    "status": {"id"}, "cancel": {"id"},
    "output": {"id", "stream", "offset", "max_bytes"},
    "result_files": {"id", "path", "offset", "max_bytes"},
}
MCP_METHODS = {
    "initialize": "OLD", "ping": "OLD", "server/discover": "NEW", "tools/list": "OLD | NEW",
    "tools/call": "OLD | NEW", "notifications/initialized": "NOTE", "notifications/cancelled": "NOTE",
}
# agents.sock, and TCP with an agent's token.
ROUTES = {
    ("GET", "/healthz"), ("GET", "/v1/version"), ("GET", "/v1/openapi.json"),
    ("GET", "/v1/agents"), ("GET", "/v1/agents/{name}"),
    ("POST", "/v1/dispatches"), ("GET", "/v1/dispatches/{id}"), ("GET", "/v1/dispatches/{id}/events"),
    ("GET", "/v1/dispatches/{id}/output"), ("GET", "/v1/dispatches/{id}/files"),
    ("GET", "/v1/dispatches/{id}/files/{path*}"), ("POST", "/v1/dispatches/{id}/cancel"),
    ("POST", "/v1/sandboxes/{id}/exec"), ("POST", "/v1/sandboxes/{id}/exec/{exec}/input"),
    ("POST", "/v1/sandboxes/{id}/exec/{exec}/signal"), ("POST", "/v1/sandboxes/{id}/exec/{exec}/resize"),
    ("POST", "/v1/sandboxes/{id}/attach"), ("POST", "/v1/sandboxes/{id}/attach/{attach}/input"),
    ("POST", "/v1/sandboxes/{id}/attach/{attach}/resize"),
    ("GET", "/v1/sandboxes/{id}/file"), ("PUT", "/v1/sandboxes/{id}/file"), ("GET", "/v1/sandboxes/{id}/folder"),
    ("GET", "/v1/sandboxes/{id}/watch"),
    # Starts workers up to a target's own bound, as dispatches do: and only over the socket.
    ("PUT", "/v1/reserves/{name}"),
}
# TCP, for a browser where nobody is logged in; nothing in a cell gets there.
GUESTS = {("GET", "/"), ("GET", "/assets/{name}"), ("POST", "/login")}
# Messages between processes, where one side has read an agent's bytes or is inside the wall.
MESSAGES = {
    "init_channel.h": {     # the cell's init and the supervisor
        "INIT_GO", "INIT_FAILED", "INIT_UPPER", "INIT_SCRATCH", "INIT_NET", "INIT_SSH", "INIT_READY",
        "INIT_SPAWN", "INIT_SPAWNED", "INIT_SIGNAL", "INIT_EXITED", "INIT_LIMIT",
        "INIT_PART", "INIT_RESIZE", "INIT_END", "INIT_SHUT", "INIT_OVER", "INIT_CONNECT", "INIT_ACCEPT",
        "INIT_CONNECTED", "INIT_LISTENER", "INIT_HOLD", "INIT_HELD"},
    "vm_fork_channel.h": {  # init in a virtual machine that can be copied, and the forker of its guest
        "FORK_READY", "FORK_HOLD", "FORK_GO_ON", "FORK_IS_COPY"},
    "egress_channel.h": {   # the gate and the courier
        "EGRESS_RESOLVE", "EGRESS_RESOLVED", "EGRESS_ROUTE", "EGRESS_ROUTED", "EGRESS_REQUEST",
        "EGRESS_RESPONSE", "EGRESS_END", "EGRESS_RESET", "EGRESS_NOTE", "EGRESS_LOGIN", "EGRESS_CANCEL",
        "EGRESS_SHUT", "EGRESS_LOGGED", "EGRESS_SSH_LIST", "EGRESS_SSH_KEYS", "EGRESS_SSH_SIGN", "EGRESS_SSH_SIGNED"},
    "compare_channel.h": {  # who compares files, and `diff`
        "COMPARE_ASK", "COMPARE_TEXT", "COMPARE_DONE", "COMPARE_MERGE", "COMPARE_PICK", "COMPARE_LIKENESS"},
    "inspect_channel.h": {  # who looks into bodies, and the courier
        "INSPECT_POLICY", "INSPECT_BODY", "INSPECT_END", "INSPECT_RESULT", "INSPECT_DROP",
        "INSPECT_USAGE", "INSPECT_USAGE_END", "INSPECT_USED", "INSPECT_REWRITE", "INSPECT_REWRITTEN"},
    "mcp_channel.h": {      # the half of cloister-mcp that reads, and its keeper
        "MCP_BEGIN", "MCP_CONNECT", "MCP_CONNECTED", "MCP_REFUSED"},
    "lock_channel.h": {     # the half of `cloister tools` that reads what servers send, and its keeper
        "LOCK_BEGIN", "LOCK_LIST", "LOCK_TEXT", "LOCK_FINDINGS", "LOCK_CALL", "LOCK_OBSERVE", "LOCK_PROPOSE", "LOCK_SCRIPT",
        "LOCK_LOGIN", "LOCK_VISIT", "LOCK_CHUNK", "LOCK_DONE", "LOCK_FAILED"},
    "tools_channel.h": {    # the courier, and the halves of the gateway to the agent's MCP servers
        "TOOLS_READY", "TOOLS_SERVE", "TOOLS_CONNECT", "TOOLS_EVENT", "TOOLS_ASK", "TOOLS_WITHDRAW", "TOOLS_ANSWER",
        "TOOLS_FROZEN", "TOOLS_START", "TOOLS_STARTED", "TOOLS_STOP", "TOOLS_ENDED", "TOOLS_HOLD", "TOOLS_HELD"},
    "state_channel.h": {    # the half of cloister-state that reads what agents changed, and who asks it
        "STATE_ASK_BEGIN", "STATE_ASK_TREE", "STATE_ASK_PUT_COMMIT", "STATE_ASK_GET_COMMIT", "STATE_ASK_CHECKOUT", "STATE_ASK_FILES",
        "STATE_ASK_CAT", "STATE_ASK_DIFF", "STATE_ASK_DIFF_FILE", "STATE_ASK_FIND", "STATE_ASK_MERGE", "STATE_ASK_ACCEPT",
        "STATE_ASK_SUM",
        "STATE_ASK_EXPORT", "STATE_ASK_IMPORT", "STATE_CHUNK", "STATE_REFUSED", "STATE_WITHHELD", "STATE_FLAG",
        "STATE_STEP", "STATE_DONE", "STATE_FAILED"},
    "witness_channel.h": {  # who looks at the agent's processes, and the supervisor
        "WITNESS_START", "WITNESS_ROOT", "WITNESS_LISTENER", "WITNESS_READY", "WITNESS_SOURCE", "WITNESS_EVENTS",
        "WITNESS_CONNECTED", "WITNESS_FINISH", "WITNESS_DONE", "WITNESS_RULES", "WITNESS_FIRED"},
}
# What a dispatch tells its agent by the environment; by the last two it can ask for something.
VARIABLES = {"CLOISTER_DISPATCH", "CLOISTER_ATTEMPT", "CLOISTER_AGENT", "CLOISTER_CHAIN", "CLOISTER_PRINCIPAL",
             "CLOISTER_OUT", "CLOISTER_CAPABILITIES", "CLOISTER_MCP_URL", "CLOISTER_MCP_TOKEN"}
# In the certificate that a service shows its workers: nobody looks it up.
CERTIFICATE = "service.cloister.internal"
# Where a cell finds something of cloister's own: names, and sockets that listen for it.
NAMES = {"gate.cloister.internal", "host.cloister.internal", "cell.cloister.internal", "tools.cloister.internal"}
LISTENERS = {"CAPTURE_TCP4", "CAPTURE_TCP6", "CAPTURE_DNS4", "CAPTURE_DNS6"}
OTHER_LISTENERS = {"BOUNDARY_SSH"}
# Sockets of cloister's that nothing in a cell can reach.
OUT_OF_REACH = ["control", "serve.sock", "agents.sock"]


# ---- MCP

@pytest.fixture
def client(operator):
    stand = Stand(operator)
    yield Stdio(operator)
    stand.close()


def test_mcp_tools(client):
    tools = {tool["name"]: tool for tool in client.ask("tools/list")["result"]["tools"]}
    assert set(tools) == set(MCP_TOOLS)
    assert {name: set(tool["inputSchema"]["properties"]) for name, tool in tools.items()} == MCP_ARGUMENTS


def enumerated(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def test_mcp_methods():
    text = (TREE / "src/mcp/mcp_server.c").read_text()
    table = re.search(r"\} methods\[\] = \{\n(.*?)\n\};", text, re.S)[1]
    rows = re.findall(r'\{ "([^"]+)", ([A-Z| ]+), \w+ \}', table)
    assert len(rows) == table.count("\n") + 1, table
    assert dict(rows) == MCP_METHODS


OTHERS = ["resources/list", "resources/read", "resources/templates/list", "resources/subscribe",
          "resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
          "roots/list", "sampling/createMessage", "elicitation/create", "tasks/get", "tasks/list",
          "tasks/cancel", "tasks/result", "tasks/update", "subscriptions/listen", "tools/register",
          "policy/set", "secret/get", "approve", "grant", "agents/register"]


def test_no_other_method_answers(client):
    for method in [*OTHERS, "server/discover"]:
        assert client.ask(method)["error"]["code"] == -32601, method
    for method in [*OTHERS, "ping", "initialize"]:
        assert client.ask(method, {"_meta": META})["error"]["code"] == -32601, method


# ---- the service

def routes(operator):
    """{(method, path): roles}"""
    rows = re.findall(r"^(\S+)\s+([A-Z]+)\s+(/\S*)$", operator.cloister("serve", "--routes").ok(), re.M)
    return {(method, path): set(roles.split(",")) for roles, method, path in rows}


def test_routes_of_agents(operator):
    found = routes(operator)
    assert {route for route, roles in found.items() if "agent" in roles} == ROUTES
    assert all(roles <= {"operator", "agent", "guest"} for roles in found.values())
    assert {route for route, roles in found.items() if "guest" in roles} == GUESTS


CLOSED = {403, 404, 405}                    # of a path that has something else for an agent


def test_operators_routes_are_closed_to_agents(operator):
    service = Service(operator)
    for method, path in sorted(routes(operator).keys() - ROUTES):
        path = re.sub(r"\{[^}]*\}", "x", path)
        body = {} if method == "POST" else None
        answer = service.ask(method, path, body, socket=service.agents)
        assert answer.status in CLOSED, (method, path, answer.status)
        # The role is the socket's: what the message says changes nothing.
        for field in ({"X-Role": "operator"}, {"Authorization": "Bearer operator"}):
            answer = service.ask(method, path, body, field, socket=service.agents)
            assert answer.status in CLOSED | {401}, (method, path, answer.status)
        # One that never ends is read elsewhere.
        if path != "/v1/live":
            assert service.ask(method, path, body).status not in (403, 405), (method, path)
    service.stop()


def test_the_document_for_agents_has_no_more(operator):
    service = Service(operator)
    document = service.get("/v1/openapi.json", socket=service.agents).ok()
    told = {(method.upper(), path.replace("{path}", "{path*}")) for path, item in document["paths"].items()
            for method in item}
    assert told <= ROUTES
    service.stop()


# ---- processes

@pytest.mark.parametrize("header", sorted(MESSAGES))
def test_messages_between_processes(header):
    text = enumerated((TREE / "src/ipc" / header).read_text())
    first = re.search(r"enum \w+ \{(.*?)\}", text, re.S)[1]
    assert set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", first)) - {"MUX_TYPES"} == MESSAGES[header]


def test_every_channel_is_known():
    """A new header of src/ipc/ is reviewed too: is an agent behind one of its ends?"""
    between_trusted = {"blobs_channel.h", "control_channel.h", "courier_channel.h", "fleet_channel.h", "hook_channel.h", "keeper_channel.h",
                       "lend_channel.h", "link_channel.h", "operator_channel.h", "publish_channel.h", "saver_channel.h", "warm_channel.h", "webhook_channel.h", "worker_channel.h"}
    found = {path.name for path in (TREE / "src/ipc").glob("*_channel.h")}
    assert found == set(MESSAGES) | between_trusted


def test_a_listener_in_a_cell():
    text = enumerated((TREE / "src/boundary/capture/capture.h").read_text())
    assert set(re.findall(r"\bCAPTURE_[A-Z0-9]+", text)) - {"CAPTURE_SOCKETS"} == LISTENERS
    text = (TREE / "src/boundary/boundary.h").read_text()
    assert re.search(r"#define BOUNDARY_SOCKETS \(CAPTURE_SOCKETS \+ 1\)", text)
    assert set(re.findall(r"#define (BOUNDARY_\w+) CAPTURE_SOCKETS", text)) == OTHER_LISTENERS
    names = set()
    for path in (TREE / "src").rglob("*.[ch]"):
        names |= set(re.findall(r"\b[a-z0-9-]+\.cloister\.internal\b", path.read_text()))
    assert names == NAMES | {CERTIFICATE}


def test_a_dispatch_describes_itself_to_its_agent():
    text = (TREE / "src/dispatch/dispatch_start.c").read_text()
    assert set(re.findall(r'"(CLOISTER_[A-Z_]+)[="]', text)) == VARIABLES


def test_a_cell_cannot_reach_the_operators_sockets(operator):
    """Neither by a path nor by an address: a cell's control socket, and the service's."""
    service = Service(operator, "--mcp", "127.0.0.1:0")
    said = operator.sh("find / -xdev -type s 2>/dev/null; cat /proc/net/unix; env").ok()
    for name in OUT_OF_REACH:
        assert not re.search(rf"/{re.escape(name)}\b", said), said
    assert str(operator.runtime) not in said
    assert "TOKEN" not in said and "MCP" not in said
    service.stop()
