"""Registering and looking over the API of `cloister serve`, with the mistakes that people make."""
import base64
import json
import os
import subprocess
import threading
from contextlib import closing

import pytest

from egress_lab import needs_npm
from egress_world import NPM
from operators import wait_until
from service import Service, UnixConnection, connect, read_all

AGENT = {"name": "worker", "command": ["true"]}


@pytest.fixture
def service(operator):
    return Service(operator)


def test_register_and_look(service):
    first = service.post("/v1/agents", AGENT).ok(201)
    assert first["kind"] == "agent" and first["name"] == "worker" and first["new"] is True
    again = service.post("/v1/agents", AGENT).ok(200)
    assert again["hash"] == first["hash"] and again["new"] is False
    second = service.post("/v1/agents", {**AGENT, "description": "works"}).ok(201)
    assert second["hash"] != first["hash"] and second["number"] == 2
    # The command line has the same.
    listed = json.loads(service.operator.cloister("agent", "list", "--json").ok())
    assert [item["hash"] for item in listed] == [second["hash"]]
    page = service.get("/v1/agents").ok()
    assert page["items"][0]["hash"] == second["hash"] and page["items"][0]["description"] == "works"
    assert page["next"] is None
    assert service.get("/v1/agents/worker").ok()["content"]["description"] == "works"
    pinned = service.get(f"/v1/agents/worker@{first['hash']}").ok()
    assert pinned["content"]["description"] == "" and pinned["number"] == 1
    versions = service.get("/v1/agents/worker/versions").ok()["items"]
    assert [v["number"] for v in versions] == [2, 1]
    diff = service.get("/v1/agents/worker/diff").ok()
    assert diff["diff"] == [{"path": "/description", "from": "", "to": "works"}]
    back = service.get(f"/v1/agents/worker/diff?from={second['hash']}&to={first['hash']}").ok()
    assert back["diff"] == [{"path": "/description", "from": "works", "to": ""}]


def test_retire(service):
    first = service.post("/v1/envs", {"name": "e", "values": {"A": "1"}}).ok(201)
    service.post("/v1/envs", {"name": "e", "values": {"A": "2"}}).ok(201)
    told = service.ask("DELETE", f"/v1/envs/e?hash={first['hash']}").ok()
    assert told["changed"] == 1 and told["retired"] is True
    assert service.get("/v1/envs").ok()["items"]
    assert service.ask("DELETE", "/v1/envs/e").ok()["changed"] == 1
    assert service.get("/v1/envs").ok()["items"] == []
    assert service.get("/v1/envs?retired=true").ok()["items"][0]["retired"]
    assert service.get("/v1/envs/e").ok()["retired"]
    service.ask("DELETE", "/v1/envs/nosuch").error(404, "not_found", "nosuch")


def test_pages(service):
    for i in range(7):
        service.post("/v1/envs", {"name": f"e{i}", "values": {}}).ok(201)
    seen, after = [], ""
    while True:
        page = service.get(f"/v1/envs?limit=3&after={after}").ok()
        seen += [item["name"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [f"e{i}" for i in range(7)]
    service.get("/v1/envs?limit=0").error(400, "invalid", "limit")
    service.get("/v1/envs?limit=100000").error(400, "invalid", "limit")
    service.get("/v1/envs?limit=x").error(400, "invalid", "limit")


def test_capability_with_files(service):
    """Its hash is what the same folder has on the command line."""
    files = {"run.sh": b"#!/bin/sh\necho hi\n", "data/blob": bytes(range(256)) * 20_000}
    said = service.post("/v1/capabilities", {
        "name": "tools", "description": "some tools", "files": [
            {"path": "data/blob", "content_base64": base64.b64encode(files["data/blob"]).decode()},
            {"path": "run.sh", "content": files["run.sh"].decode(), "executable": True}]}).ok(201)
    operator = service.operator
    operator.folder("tools", {**files, "capability.yaml": "name: tools\ndescription: some tools\n"})
    (operator.base / "tools" / "run.sh").chmod(0o755)
    again = json.loads(operator.cloister("capability", "register", "--json", operator.base / "tools").ok())
    content = service.get("/v1/capabilities/tools").ok()["content"]
    assert [f["path"] for f in content["files"]][-2:] == ["data/blob", "run.sh"]
    assert {f["path"] for f in content["files"]} >= set(files)
    assert (again["hash"] == said["hash"]) == (len(content["files"]) == 2)
    # Nothing is left of the body that was too long for memory.
    assert sorted(os.listdir(operator.base / "data" / "serve")) == ["lock"]


BAD = [
    # body, status, code, pointer, words
    (b"", 400, "invalid", None, ["missing"]),
    (b"{", 400, "invalid", None, ["JSON"]),
    (b"[]", 400, "invalid", None, []),
    (b'{"name":"a","name":"b","command":["true"]}', 400, "invalid", None, ["JSON"]),
    (b'{"name":"a","command":["true"]} x', 400, "invalid", None, ["JSON"]),
    (b'{"name":"a","command":["tr\x00ue"]}', 400, "invalid", None, ["JSON"]),
    (b'{"name":"a","command":["tr\\u0000ue"]}', 400, "invalid", None, []),
    (b'{"name":"a","command":["\xff"]}', 400, "invalid", None, ["JSON"]),
    (b"[" * 100_000, 400, "invalid", None, ["JSON"]),
    (b'{"command":["true"]}', 400, "invalid", None, ["name"]),
    (b'{"name":"a","root":"moon"}', 400, "invalid", "/root", ["root"]),
    (b'{"name":"a","command":"true"}', 400, "invalid", "/command", []),
    (b'{"name":"a","command":[1]}', 400, "invalid", "/command/0", []),
    (b'{"name":"a","comand":["true"]}', 400, "invalid", "/comand", ["command"]),
    (b'{"name":"../a","command":["true"]}', 400, "invalid", "/name", []),
    (b'{"name":"A","command":["true"]}', 400, "invalid", "/name", []),
    (b'{"name":7,"command":["true"]}', 400, "invalid", "/name", []),
    (b'{"name":"a","command":["true"],"policy":7}', 400, "invalid", "/policy", []),
]


def test_bad_bodies(service):
    for body, status, code, pointer, words in BAD:
        answer = service.post("/v1/agents", body)
        error = answer.error(status, code, *words)
        if pointer is not None:
            assert error.get("pointer") == pointer, (body, error)
    assert service.get("/v1/agents").ok()["items"] == []
    service.post("/v1/capabilities", {"name": "c", "files": [{"path": "../x", "content": ""}]}).error(
        400, "invalid")
    service.post("/v1/capabilities", {"name": "c", "files": [{"path": "x", "content": ""}] * 2}).error(
        400, "invalid")
    service.post("/v1/capabilities", {"name": "c", "files": [{"path": "x", "content_base64": "!"}]}).error(
        400, "invalid")
    service.post("/v1/policies", {"name": "p", "document": {"version": 1, "egres": []}}).error(400, "invalid")
    assert service.get("/v1/capabilities?retired=true").ok()["items"] == []


def test_wrong_types_of_content(service):
    for kind in ("application/x-www-form-urlencoded", "text/plain", ""):
        answer = service.post("/v1/agents", json.dumps(AGENT), headers={"Content-Type": kind})
        answer.error(415, "not_json", "Content-Type: application/json")
    service.post("/v1/agents", json.dumps(AGENT), headers={"Content-Type": "Application/JSON; charset=utf-8"}).ok(201)


def test_too_large(service):
    service.post("/v1/agents", json.dumps({**AGENT, "description": "x" * (5 << 20)})).error(413, "too_large")
    head = b"POST /v1/capabilities HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
    assert service.raw(head + b"%d\r\n\r\n" % ((1 << 30) + 1)).startswith(b"HTTP/1.1 413 ")
    # Without a length it is cut off as it comes.
    with closing(connect(service.socket)) as sock:
        sock.sendall(b"POST /v1/agents HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        try:
            for _ in range(100):
                sock.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert read_all(sock).startswith(b"HTTP/1.1 413 ")
    assert service.get("/v1/agents").ok()["items"] == []


def test_cut_off_uploads(service):
    """A body that never came whole registers nothing, and leaves nothing."""
    body = json.dumps({"name": "c", "files": [{"path": "x", "content": "x" * (3 << 20)}]}).encode()
    head = b"POST /v1/capabilities HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    fds = f"/proc/{service.process.pid}/fd"
    before = len(os.listdir(fds))
    for n in (0, 100, 1 << 20, (1 << 20) + 1, len(body) - 1):
        assert service.raw(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:n], shut=True) == b""
    assert service.get("/v1/capabilities").ok()["items"] == []
    assert service.raw(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body).startswith(
        b"HTTP/1.1 201 ")
    wait_until(lambda: len(os.listdir(fds)) <= before, "all of it is closed")


def test_slow_upload_holds_up_nobody(service):
    with closing(connect(service.socket)) as sock:
        body = json.dumps(AGENT).encode()
        sock.sendall(b"POST /v1/agents HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        for i in range(len(body)):
            sock.sendall(body[i:i + 1])
            if i % 10 == 0:
                service.get("/healthz").ok()
        assert read_all(sock).startswith(b"HTTP/1.1 201 ")


def test_expect_continue(service):
    done = service.operator.do(
        "curl", "-sS", "--unix-socket", service.socket, "-H", "Expect: 100-continue", "-v",
        "-H", "Content-Type: application/json", "-d", json.dumps(AGENT), "http://x/v1/agents")
    assert "100 Continue" in done.err and json.loads(done.out)["new"] is True


@pytest.mark.parametrize("who", ["user"])
def test_registrations_at_the_same_time(service):
    """Many clients register the same and other things at the same time: each is there once."""
    hashes, errors = {}, []

    def register(i):
        with closing(UnixConnection(service.socket)) as client:
            for k in range(10):
                body = json.dumps({"name": f"e{k}", "values": {"K": str(k)}})
                client.request("POST", "/v1/envs", body, {"Content-Type": "application/json"})
                response = client.getresponse()
                said = json.loads(response.read())
                if response.status not in (200, 201):
                    errors.append(said)
                else:
                    hashes.setdefault(said["name"], []).append((said["hash"], said["new"]))
    threads = [threading.Thread(target=register, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for name, told in hashes.items():
        assert len(told) == 8 and len({h for h, _ in told}) == 1
        assert sum(new for _, new in told) == 1, name
    assert len(service.get("/v1/envs").ok()["items"]) == 10


def test_recorded(service):
    """The actions of operators are in their timeline, with the operator's name."""
    service.post("/v1/agents", AGENT).ok(201)
    service.post("/v1/agents", AGENT).ok(200)
    service.ask("DELETE", "/v1/agents/worker").ok()
    lines = service.get("/v1/audit/operator").data.splitlines()
    events = [json.loads(line)["event"] for line in lines]
    mine = [e for e in events if e["type"].startswith("agent.")]
    assert [e["type"] for e in mine] == ["agent.registered", "agent.retired"]
    assert {e["peer"] for e in mine} == {f"uid {os.geteuid()}"}
    rest = service.get("/v1/audit/operator?after=2&limit=1").data.splitlines()
    assert rest == lines[2:3]


def test_agents_see_the_purpose_of_others(service):
    service.post("/v1/agents", {**AGENT, "description": "works"}).ok(201)
    page = service.get("/v1/agents", socket=service.agents).ok()
    assert page["items"][0]["description"] == "works"
    shown = service.get("/v1/agents/worker", socket=service.agents).ok()
    assert shown["content"] == {"description": "works"}
    service.post("/v1/agents", AGENT, socket=service.agents).error(405, "method_not_allowed")
    service.ask("DELETE", "/v1/agents/worker", socket=service.agents).error(405, "method_not_allowed")


def test_openapi(service):
    """Every route is in it, and every schema that it names."""
    document = service.get("/v1/openapi.json").ok()
    text = json.dumps(document)
    schemas = document["components"]["schemas"]
    used = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used == set(schemas)
    ids = [op["operationId"] for item in document["paths"].values() for op in item.values()]
    assert len(ids) == len(set(ids))
    lines = service.operator.cloister("serve", "--routes").ok().splitlines()
    assert len(lines) == len(ids)


@pytest.mark.parametrize("who", ["user"])
@needs_npm("validate-api")
def test_openapi_by_others(service, tmp_path):
    for socket in (service.socket, service.agents):
        (tmp_path / "api.json").write_bytes(service.get("/v1/openapi.json", socket=socket).data)
        subprocess.run(["node", NPM / "node_modules/.bin/validate-api", tmp_path / "api.json"], check=True)
