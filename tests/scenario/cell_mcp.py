"""An agent's own MCP client, as it runs in a cell: standard library only, and nothing of ours.

`python3 cell_mcp.py` is not how it is used: tests put SOURCE in front of what their agent does."""

SOURCE = '''
import http.client, json, os, sys, time, urllib.parse

class Mcp:
    """One session of revision 2025-11-25, over streamable HTTP."""

    def __init__(self, url=None, token=None):
        self.url = urllib.parse.urlsplit(url or os.environ["CLOISTER_MCP_URL"])
        self.token = os.environ.get("CLOISTER_MCP_TOKEN") if token is None else token
        self.session, self.ids = None, 0

    def http(self, method, body=None, headers=None, path=None):
        """(status, headers, bytes)"""
        client = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=60)
        fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.token:
            fields["Authorization"] = "Bearer " + self.token
        if self.session:
            fields.update({"Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"})
        client.request(method, path or self.url.path, body, {**fields, **(headers or {})})
        answer = client.getresponse()
        return answer.status, answer.headers, answer.read()

    def send(self, method, params=None, note=False):
        """The result, or the error."""
        self.ids += 1
        said = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not note:
            said["id"] = self.ids
        status, headers, data = self.http("POST", json.dumps(said))
        if status >= 400:
            raise PermissionError(status, data.decode())
        self.session = headers.get("mcp-session-id") or self.session
        if headers.get("content-type") == "text/event-stream":
            lines = [line[5:] for line in data.decode().splitlines() if line.startswith("data:")]
            data = [line for line in lines if line.strip()][-1]
        return json.loads(data) if data else None

    def begin(self):
        self.send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                 "clientInfo": {"name": "agent", "version": "1"}})
        self.send("notifications/initialized", note=True)
        return self

    def tool(self, name, **arguments):
        """What it gave; what it refused, as a text."""
        result = self.send("tools/call", {"name": name, "arguments": arguments})["result"]
        return result["content"][0]["text"] if result.get("isError") else result["structuredContent"]

def say(**what):
    print(json.dumps(what), flush=True)
'''


def script(text):
    """The command of an agent that does TEXT."""
    return ["/usr/bin/python3", "-c", SOURCE + "\n" + text]
