"""Sandboxes over the service's API, for tests."""
import json
from contextlib import closing
from urllib.parse import urlencode

from operators import wait_until
from service import Events, UnixConnection

OCTETS = {"Content-Type": "application/octet-stream"}


class Box:
    """A running sandbox."""

    def __init__(self, service, name="box", socket=None, **more):
        self.service, self.socket = service, socket
        self.id = service.post("/v1/dispatches", {"agent": name, "sandbox": True, **more}, socket=socket).ok(202)["id"]
        with closing(Events(socket or service.socket, f"/v1/dispatches/{self.id}/events")) as events:
            for event in events:
                assert event["event"] != "dispatch.finished", event
                if event["event"] == "agent.started":
                    break

    def at(self, word, **query):
        return f"/v1/sandboxes/{self.id}/{word}" + (f"?{urlencode(query)}" if query else "")

    def ask(self, method, word, body=None, headers=None, **query):
        return self.service.ask(method, self.at(word, **query), body, headers, socket=self.socket)

    def read(self, path):
        return self.ask("GET", "file", path=path)

    def write(self, path, data):
        return self.ask("PUT", "file", data, OCTETS, path=path)

    def list(self, path):
        return self.ask("GET", "folder", path=path)

    def exec(self, *command, **more):
        """(exit code, stdout, stderr)"""
        answer = self.ask("POST", "exec", {"command": command, **more})
        assert answer.status == 200, answer.data
        events = [json.loads(line) for line in answer.data.splitlines()]
        assert [e["n"] for e in events] == list(range(1, len(events) + 1)), events
        text = {name: "".join(e["text"] for e in events if e.get("stream") == name) for name in ("stdout", "stderr")}
        return events[-1]["exit_code"], text["stdout"], text["stderr"]

    def sh(self, script):
        code, out, err = self.exec("sh", "-c", script)
        assert (code, err) == (0, ""), (code, err)
        return out

    def status(self):
        return self.service.get(f"/v1/dispatches/{self.id}").ok()

    def open(self, *command, **more):
        """A command that runs: (connection, response)."""
        client = UnixConnection(self.socket or self.service.socket)
        client.request("POST", self.at("exec"), json.dumps({"command": command, **more}),
                       {"Content-Type": "application/json"})
        response = client.getresponse()
        started = json.loads(response.readline())
        assert started["event"] == "exec.started"
        return client, response, started["exec"]

    def kill(self):
        self.service.post(f"/v1/dispatches/{self.id}/cancel", socket=self.socket).ok()
        wait_until(lambda: self.status()["state"] == "cancelled", "it has ended")
