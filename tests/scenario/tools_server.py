"""A small MCP server over standard input and output, whose tools misbehave on demand: tools_server.py [FOLDER]."""
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request

FOLDER = sys.argv[1] if len(sys.argv) > 1 else None
LISTED = os.path.join(FOLDER, "tools.json") if FOLDER else None
ECHO = {"name": "echo", "description": "says it again", "inputSchema": {"type": "object"}}
NAMES = ["add", "ask", "big", "break", "change", "cross", "die", "fetch", "flood", "hang", "later", "progress",
         "read", "refuse", "roots", "run", "sample", "slow", "stray", "takes_back", "variable", "wordy", "write"]
calls = 0
state = 0
began = wrote = False


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tools():
    if LISTED and os.path.exists(LISTED):
        return json.load(open(LISTED, encoding="utf-8"))
    return [ECHO] + [dict(ECHO, name=name, icons=[{"src": "data:,"}]) for name in NAMES]


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def ask(method, params=None):
    """The agent's answer to a question of this server's."""
    global calls
    calls += 1
    send({"jsonrpc": "2.0", "id": f"q{calls}", "method": method, "params": params or {}})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == f"q{calls}" and "method" not in message:
            return message
    return sys.exit()


SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5}


def fetch(url, variable):
    """With the credential that is in the variable."""
    key = os.environ.get(variable)
    sent = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    return urllib.request.urlopen(sent, timeout=10).read().decode()


def call(id, name, arguments, meta):
    global state, wrote
    name = arguments.get("do", name)
    if "after" in arguments:
        open(arguments["after"], encoding="utf-8").read()
    if name == "add":
        state += arguments["n"]
        return text(str(state))
    if name == "big":
        return text("x" * arguments["n"])
    if name == "break":
        sys.stdout.write('{"jsonrpc":\n')
    if name == "change":
        with open(LISTED, "w", encoding="utf-8") as file:
            json.dump(arguments["tools"], file)
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if name == "cross":
        return {"content": [{"type": "resource_link", "uri": "mcp://other/secret", "name": "x"},
                            {"type": "resource", "resource": {"uri": "mcp://other/secret", "text": "x"}}]}
    if name == "die":
        sys.exit(3)
    if name == "hang" and (wrote or "if_wrote" not in arguments):
        time.sleep(1000)
    if name == "slow":
        time.sleep(arguments["s"])
    if name == "flood":
        for i in range(arguments["n"]):
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": i}})
    if name == "progress":
        for i in range(3):
            send({"jsonrpc": "2.0", "method": "notifications/progress",
                  "params": {"progressToken": meta["progressToken"], "progress": i, "total": 3}})
    if name == "roots":
        return text(json.dumps(ask("roots/list").get("result")))
    if name == "sample":
        answers = [ask("sampling/createMessage", SAMPLE) for _ in range(arguments["n"])]
        return text(json.dumps([a.get("result", a.get("error")) for a in answers]))
    if name == "stray":
        send({"jsonrpc": "2.0", "id": id, "result": text("one")})
        return text("two")
    if name == "refuse":
        return {"error": {"code": -32000, "message": arguments["why"]}}
    if name == "takes_back":
        # At once, so that the client cannot have answered.
        sys.stdout.write("".join(json.dumps(one) + "\n" for one in (
            {"jsonrpc": "2.0", "id": "late", "method": "sampling/createMessage", "params": SAMPLE},
            *({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": one, "reason": "\x1b[2J"}}
              for one in ("late", "never", 1, 2, None, {})))))
        sys.stdout.flush()
    if name == "wordy":
        print("\x1b[31mred\x07", file=sys.stderr, flush=True)
    if name == "write":
        open(arguments["path"], "w", encoding="utf-8").write("x")
        wrote = True
    if name == "read":
        return text(open(arguments["path"], encoding="utf-8").read())
    if name == "variable":
        return text(os.environ.get(arguments["variable"], "nothing"))
    if name == "run":
        return text(subprocess.run(arguments["argv"], capture_output=True, check=True, text=True).stdout)
    if name == "later":
        threading.Thread(target=lambda: (time.sleep(arguments["s"]), urllib.request.urlopen(arguments["url"]))).start()
        return text("later")
    if name == "fetch":
        return text(fetch(arguments["url"], arguments.get("key", "")))
    return text(json.dumps(arguments))


for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/initialized":
        began = True
    elif not began and message.get("method") not in ("initialize", "ping"):
        sys.exit("this came before notifications/initialized")
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method == "initialize":
        if "START_URL" in os.environ:
            try:
                os.environ["STARTED"] = fetch(os.environ["START_URL"], os.environ.get("START_KEY", ""))
            except OSError as error:
                os.environ["STARTED"] = str(error)
        send({"jsonrpc": "2.0", "id": id, "result": {
            "protocolVersion": params["protocolVersion"], "serverInfo": {"name": "test", "version": "1"},
            "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}, "logging": {}}}})
    elif method == "tools/list":
        send({"jsonrpc": "2.0", "id": id, "result": {"tools": tools()}})
    elif method == "resources/list":
        at = int(params.get("cursor", 0))
        more = {"nextCursor": str(at + 1)} if at < 2 else {}
        send({"jsonrpc": "2.0", "id": id, "result": {"resources": [{"uri": f"test://r{at}", "name": f"r{at}"}], **more}})
    elif method == "resources/read":
        send({"jsonrpc": "2.0", "id": id, "result": {"contents": [{"uri": params["uri"], "text": "content"}]}})
    elif method == "prompts/list":
        send({"jsonrpc": "2.0", "id": id, "result": {"prompts": [{"name": "p"}]}})
    elif method == "prompts/get":
        send({"jsonrpc": "2.0", "id": id, "result": {"messages": [
            {"role": "user", "content": {"type": "text", "text": params["name"]}}]}})
    elif method == "tools/call":
        try:
            result = call(id, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
        except Exception as error:  # pylint: disable=broad-except
            result = dict(text(f"{type(error).__name__}: {error}"), isError=True)
        send({"jsonrpc": "2.0", "id": id, **(result if "error" in result else {"result": result})})
    elif id is not None and method:
        send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
