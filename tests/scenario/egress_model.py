#!/usr/bin/python3
"""A model provider without a model, for the agents' tests: egress_model.py FOLDER

Speaks as much of Anthropic's Messages API, of OpenAI's Responses API and of Gemini's as their agents
need, streaming as they do.  It answers "hello from the model".  If a prompt asks to run
[[COMMAND]], it has the agent's own tool do so, and then repeats the output.

A test that makes FOLDER/prompts.jsonl finds there what Anthropic's agent has sent.  A model that somebody else has taken over
has its agent run the command in FOLDER/injection, whatever it was asked.
"""
import base64
import gzip
import hashlib
import json
import re
import ssl
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from egress_world import MODEL

PARTS = ("text", "content", "output")   # where text is in a message, at any depth
RESPONSES = ("/v1/responses", "/backend-api/codex/responses")     # the second for logins with ChatGPT
ACCOUNTS = {"accounts": [{"id": "account-1", "structure": "personal", "plan_type": "plus",
                          "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "us"}],
            "default_account_id": "account-1", "account_ordering": ["account-1"]}
HELLO = "hello from the model"
# OpenAI's agent has had several shells; each takes its command in its own way.
SHELLS = {"exec_command": lambda command: {"cmd": command},
          "shell_command": lambda command: {"command": command},
          "shell": lambda command: {"command": ["sh", "-c", command]}}


def pieces(text):
    """TEXT as a model would say it, word by word."""
    return re.findall(r"\S+\s*", text)


def command_in(text):
    """The command that was last asked for."""
    found = re.findall(r"\[\[(.+?)\]\]", text)
    return found[-1] if found else None


def tool_in(text, tools):
    """The tool that <<NAME ARGUMENTS>> asks for, by the name that the agent gave it, and its arguments."""
    found = re.findall(r"<<(\S+) (\{.*?\})>>", text)
    wanted = re.sub(r"\W", "_", found[-1][0]) if found else None
    name = next((name for name in tools if wanted and re.sub(r"\W", "_", name or "").endswith(wanted)), None)
    # An agent may quote the prompt.
    return (name, json.loads(found[-1][1].replace('\\"', '"'))) if name else None


def text_of(content):
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content.get(key, "") for key in PARTS]
    return "\n".join(filter(None, map(text_of, content or [])))


# ---- Anthropic ---------------------------------------------------------------------------

def anthropic_block(request):
    """The one block of the answer: text, or the use of a tool."""
    blocks = [block for message in request["messages"] if isinstance(message["content"], list)
              for block in message["content"]]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if results:
        return {"type": "text", "text": f"the tool said: {text_of(results)}"}
    names = [tool["name"] for tool in request.get("tools", [])]
    tool = tool_in(text_of(request["messages"]), names)
    if "<<" in text_of(request["messages"]) and not tool:
        return {"type": "text", "text": f"there is no such tool: {names}"}
    if tool:
        return {"type": "tool_use", "id": "toolu_1", "name": tool[0], "input": tool[1]}
    command = command_in(text_of(request["messages"]))
    shell = next((tool["name"] for tool in request.get("tools", []) if tool["name"].lower() == "bash"), None)
    if command and shell:
        return {"type": "tool_use", "id": "toolu_1", "name": shell,
                "input": {"command": command, "description": "as asked"}}
    return {"type": "text", "text": HELLO}


def anthropic_events(request):
    block = anthropic_block(request)
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
               "model": request["model"], "stop_reason": None, "stop_sequence": None,
               "usage": usage}
    yield {"type": "message_start", "message": message}
    if block["type"] == "text":
        empty = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        reason = "end_turn"
    else:
        empty = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        reason = "tool_use"
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "ping"}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
           "usage": usage}
    yield {"type": "message_stop"}


def anthropic_whole(request):
    block = anthropic_block(request)
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [block],
            "model": request["model"], "stop_sequence": None,
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1}}


# ---- OpenAI -------------------------------------------------------------------------------

def openai_item(request):
    outputs = [item for item in request["input"] if item.get("type") == "function_call_output"]
    if outputs:
        return {"type": "message", "id": "msg_2", "role": "assistant", "content": [
            {"type": "output_text", "text": f"the tool said: {text_of(outputs[-1])}"}]}
    command = command_in(text_of(request["input"]))
    tools = [tool.get("name") for tool in request.get("tools", [])]
    shell = next((name for name in SHELLS if name in tools), None)
    # Tools of MCP servers are in a namespace.
    spaces = {inner.get("name"): space["name"] for space in request.get("tools", []) if space.get("type") == "namespace"
              for inner in space["tools"]}
    tool = tool_in(text_of(request["input"]), [*tools, *spaces])
    if "<<" in text_of(request["input"]) and not tool:
        return {"type": "message", "id": "msg_1", "role": "assistant", "content": [
            {"type": "output_text", "text": f"there is no such tool: {[*tools, *spaces]}"}]}
    if tool:
        space = {"namespace": spaces[tool[0]]} if tool[0] in spaces else {}
        return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool[0],
                "arguments": json.dumps(tool[1]), **space}
    if command and shell:
        return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": shell,
                "arguments": json.dumps(SHELLS[shell](command))}
    return {"type": "message", "id": "msg_1", "role": "assistant",
            "content": [{"type": "output_text", "text": HELLO}]}


def openai_events(request):
    item = openai_item(request)
    yield {"type": "response.created", "response": {"id": "resp_1"}}
    yield {"type": "response.output_item.added", "output_index": 0,
           "item": {**item, "content": []} if item["type"] == "message" else item}
    if item["type"] == "message":
        for piece in pieces(item["content"][0]["text"]):
            yield {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0,
                   "content_index": 0, "delta": piece}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {"id": "resp_1", "usage": {
        "input_tokens": 1, "input_tokens_details": None, "output_tokens": 1,
        "output_tokens_details": None, "total_tokens": 2}}}


# ---- Gemini -------------------------------------------------------------------------------

def sample_of(schema):
    """A value that fits a JSON schema."""
    kind = str(schema.get("type", "string")).lower()
    if kind == "object":
        return {name: sample_of(part) for name, part in schema.get("properties", {}).items()}
    return schema["enum"][0] if "enum" in schema else {"array": [], "number": 1, "integer": 1, "boolean": False}.get(kind, "x")


def gemini_part(request):
    """The one part of the answer: text, or the call of a tool."""
    config = request.get("generationConfig", {})
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    if schema:
        return {"text": json.dumps(sample_of(schema))}
    parts = [part for content in request["contents"] for part in content.get("parts", [])]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    if results:
        return {"text": f"the tool said: {text_of(results[-1].get('response'))}"}
    command = command_in(text_of(parts))
    tools = [tool["name"] for group in request.get("tools", []) for tool in group.get("functionDeclarations", [])]
    tool = tool_in(text_of(parts), tools)
    if "<<" in text_of(parts) and not tool:
        return {"text": f"there is no such tool: {tools}"}
    if tool:
        return {"functionCall": {"name": tool[0], "args": tool[1]}}
    if command and "run_shell_command" in tools:
        return {"functionCall": {"name": "run_shell_command", "args": {"command": command, "description": "as asked"}}}
    return {"text": HELLO}


def gemini_whole(request):
    return {"candidates": [{"index": 0, "finishReason": "STOP",
                            "content": {"role": "model", "parts": [gemini_part(request)]}}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}


# Gemini by way of Code Assist, for logins with Google: each request and answer is wrapped.
TIER = {"id": "standard-tier", "name": "Standard", "description": "as for tests", "isDefault": True}
CODE_ASSIST = {
    "loadCodeAssist": {"currentTier": TIER, "allowedTiers": [TIER], "cloudaicompanionProject": "project-1", "gcpManaged": False},
    "onboardUser": {"name": "o", "done": True, "response": {"cloudaicompanionProject": {"id": "project-1", "name": "p"}}},
    "listExperiments": {"experimentIds": [], "flags": []}, "recordCodeAssistMetrics": {},
    "retrieveUserQuota": {"buckets": []}, "fetchAdminControls": {},
    "countTokens": {"totalTokens": 1},
}


# ---- HTTP ----------------------------------------------------------------------------------

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, **what):
        with open(self.server.folder / "seen.jsonl", "a") as log:
            log.write(json.dumps({"server": "model", "method": self.command, "target": self.path,
                                  "host": self.headers["host"], **what}) + "\n")

    def body(self):
        if "chunked" in self.headers.get("transfer-encoding", ""):
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        coding = self.headers.get("content-encoding", "")
        if coding == "gzip":
            data = gzip.decompress(data)
        elif coding == "deflate":
            data = zlib.decompress(data)
        elif coding == "zstd":
            import zstandard
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        return data

    def overhear(self, request):
        prompts, injection = self.server.folder / "prompts.jsonl", self.server.folder / "injection"
        if prompts.exists():
            with open(prompts, "a") as log:
                log.write(json.dumps([request.get("system"), request["messages"]]) + "\n")
        if injection.exists():
            request["messages"].append({"role": "user", "content": f"[[{injection.read_text()}]]"})

    def answer(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events):
        """Server-sent events; those of Gemini have no type."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            data = f"{name}data: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    # ---- WebSocket, as far as one peer needs it that sends whole messages ----
    def receive(self):
        """The next message; None when there is none any more."""
        head = self.rfile.read(2)
        if len(head) < 2 or head[0] & 15 == 8:
            return None
        size = head[1] & 127
        if size > 125:
            size = int.from_bytes(self.rfile.read(2 if size == 126 else 8), "big")
        mask, data = self.rfile.read(4), self.rfile.read(size)
        data = bytes(byte ^ mask[i & 3] for i, byte in enumerate(data))
        return data if head[0] & 15 in (1, 2) else self.receive()

    def send(self, text):
        data = text.encode()
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
        self.wfile.write(b"\x81" + size + data)
        self.wfile.flush()

    def talk(self):
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("upgrade", "websocket")
        self.send_header("connection", "Upgrade")
        self.send_header("sec-websocket-accept",
                         base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while data := self.receive():
            request = json.loads(data)
            self.note(message=request.get("type"), size=len(data))
            for event in openai_events(request):
                self.send(json.dumps(event))

    def do_GET(self):
        self.note(upgrade=self.headers.get("upgrade"), key=self.headers.get("authorization", ""))
        if self.headers.get("upgrade") == "websocket" and self.path in RESPONSES:
            self.talk()
        elif self.path.partition("?")[0] == "/backend-api/wham/accounts/check":
            self.answer(200, ACCOUNTS)
        elif self.path.startswith("/oauth2/v2/userinfo"):
            self.answer(200, {"id": "1", "email": "somebody@example.test", "name": "Somebody"})
        elif self.path.partition("?")[0].endswith("/models"):
            self.answer(200, {"object": "list", "data": [], "models": []})
        else:
            self.answer(404, {"error": {"type": "not_found_error", "message": "no such thing"}})

    def do_POST(self):
        data = self.body()
        path = self.path.partition("?")[0]
        key = (self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or
               self.headers.get("authorization", ""))
        self.note(key=key, coding=self.headers.get("content-encoding"), size=len(data))
        if path == "/tokeninfo":
            self.answer(200, {"expires_in": 3599, "scope": "https://www.googleapis.com/auth/cloud-platform"})
            return
        request = json.loads(data or b"{}")
        if path == "/v1/messages":
            self.overhear(request)
        keys = self.server.folder / "model.keys"
        # Where a test says which keys are good, no other is.
        if keys.exists() and key not in keys.read_text().split():
            self.answer(401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}})
        elif path == "/v1/messages/count_tokens":
            self.answer(200, {"input_tokens": 1})
        elif path == "/v1/messages" and not request.get("stream"):
            self.answer(200, anthropic_whole(request))
        elif path == "/v1/messages":
            self.stream(anthropic_events(request))
        elif path in RESPONSES:
            self.stream(openai_events(request))
        elif path.startswith("/v1internal:") and path[12:] in CODE_ASSIST:
            self.answer(200, CODE_ASSIST[path[12:]])
        elif path == "/v1internal:generateContent":
            self.answer(200, {"response": gemini_whole(request["request"]), "traceId": "t"})
        elif path == "/v1internal:streamGenerateContent":
            self.stream([{"response": gemini_whole(request["request"]), "traceId": "t"}])
        elif path.endswith(":generateContent"):
            self.answer(200, gemini_whole(request))
        elif path.endswith(":streamGenerateContent"):
            self.stream([gemini_whole(request)])
        elif path.endswith(":countTokens"):
            self.answer(200, {"totalTokens": 1})
        else:
            self.answer(404, {"error": {"type": "not_found_error", "message": "no such thing"}})


def main():
    folder = Path(sys.argv[1])
    server = ThreadingHTTPServer((MODEL, 443), Handler)
    server.folder = folder
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "keys/good.crt", folder / "keys/good.key")
    server.socket = context.wrap_socket(server.socket, server_side=True,
                                        do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    main()
