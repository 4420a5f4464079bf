"""A client of the gateway, in the cell: reads steps as JSON from its first argument, and prints what came, a line each.

A step is a message, or {"do": ...}: "forget" the session, "session": use this one, "when" a pipe is
written, "delete", "listen", "path", a call that is "cancelled"."""
import json
import sys
import threading
import urllib.error
import urllib.request

HOST = "http://tools.cloister.internal"
session, path, version = None, "/mcp", "2025-11-25"
ANSWERS = {"sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "me"}, "model": "m"},
           "roots/list": {"roots": [{"uri": "file:///here"}]},
           "elicitation/create": {"action": "accept", "content": {}}}


def request(message, method="POST", more=None):
    head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **(more or {})}
    if session is not None:
        head["Mcp-Session-Id"] = session
        head["MCP-Protocol-Version"] = version
    data = None if message is None else json.dumps(message).encode() if not isinstance(message, str) else message.encode()
    return urllib.request.urlopen(urllib.request.Request(HOST + path, data, head, method=method), timeout=60)


def events(answer):
    for line in answer:
        if line.startswith(b"data: ") and line.strip() != b"data:":
            yield json.loads(line[6:])


def take(message):
    # First, because an answer can end the call, whose result another thread prints.
    print(json.dumps(message), flush=True)
    if "method" in message and "id" in message:
        request({"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]}).read()


def listen():
    for message in events(request(None, "GET")):
        take(message)


def step(message):
    global session, path
    do = message.get("do") if isinstance(message, dict) else None
    if do == "forget":
        session = None
    elif do == "session":
        session = message["id"]
    elif do == "path":
        path = message["path"]
    elif do == "delete":
        print(json.dumps({"status": request(None, "DELETE").status}), flush=True)
    elif do == "listen":
        threading.Thread(target=listen, daemon=True).start()
    elif do == "when":
        with open(message["path"], encoding="utf-8") as fifo:
            fifo.read()
        step(message["then"])
    elif do == "cancelled":
        # Again until it ends: one that arrives before the request is for nothing.
        call = threading.Thread(target=step, args=[message["call"]])
        call.start()
        while call.is_alive():
            request({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["call"]["id"]}}).read()
            call.join(0.1)
    elif do == "together":
        threads = [threading.Thread(target=step, args=[one]) for one in message["steps"]]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    else:
        answer = request(message)
        if answer.headers.get("Mcp-Session-Id"):
            session = answer.headers["Mcp-Session-Id"]
        if answer.headers.get("Content-Type") == "text/event-stream":
            for one in events(answer):
                take(one)
        else:
            text = answer.read().decode()
            print(text or json.dumps({"status": answer.status}), flush=True)


for one in json.loads(sys.argv[1]):
    try:
        step(one)
    except urllib.error.HTTPError as error:
        print(json.dumps({"status": error.code, "body": error.read().decode()}), flush=True)
