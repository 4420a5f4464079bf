"""A connection to `cloister serve`."""
from __future__ import annotations

import base64
import os
import uuid
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from .dispatch import Dispatch
from .error import CloisterError
from .sandbox import Sandboxes
from .target import Target
from .transport import Transport, path

Content = Union[str, bytes]
Files = Union[Mapping[str, Any], Sequence[Mapping[str, Any]]]


def _list_files(files: Files) -> List[Dict[str, Any]]:
    """{"a/b": text or bytes or {"content", "executable"}} or [{"path", "content", "executable"}], as
    the API has it."""
    if isinstance(files, Mapping):
        files = [{**file, "path": name} if isinstance(file, Mapping) else {"path": name, "content": file}
                 for name, file in files.items()]
    listed = []
    for file in files:
        file = dict(file)
        content = file.get("content")
        if isinstance(content, (bytes, bytearray, memoryview)):
            del file["content"]
            file["content_base64"] = base64.b64encode(content).decode()
        elif content is not None and not isinstance(content, str):
            raise CloisterError("invalid", f"the content of '{file.get('path')}' is neither text nor bytes")
        listed.append(file)
    return listed


class Registry:
    """Registered objects of one kind."""

    def __init__(self, transport: Transport, kind: str):
        self._transport = transport
        self._kind = kind

    def register(self, **object: Any) -> Dict[str, Any]:
        """{"kind", "name", "hash", "new", "created"}; the same content again is the same version."""
        if self._kind == "capabilities":
            object["files"] = _list_files(object.get("files", []))
        return self._transport.json("POST", path([self._kind]), object)

    def list(self, limit: Optional[int] = None, after: Optional[str] = None) -> Dict[str, Any]:
        return self._transport.json("GET", path([self._kind], {"limit": limit, "after": after}))

    def get(self, reference: str) -> Dict[str, Any]:
        """`name`, or `name@sha256:...`."""
        return self._transport.json("GET", path([self._kind, reference]))

    def versions(self, name: str) -> Dict[str, Any]:
        return self._transport.json("GET", path([self._kind, name, "versions"]))

    def diff(self, name: str, from_: Optional[str] = None, to: Optional[str] = None) -> Dict[str, Any]:
        return self._transport.json("GET", path([self._kind, name, "diff"], {"from": from_, "to": to}))

    def retire(self, name: str, hash: Optional[str] = None) -> Dict[str, Any]:
        """No new dispatch uses it; its history stays."""
        return self._transport.json("DELETE", path([self._kind, name], {"hash": hash}))


class Agents(Registry):
    def assign(self, name: str, capabilities: Optional[Sequence[str]] = None, env: Optional[Sequence[str]] = None,
               secrets: Optional[Sequence[str]] = None) -> Dict[str, Any]:
        """Its next version, with these added to its own."""
        return self._transport.json("POST", path([self._kind, name, "assign"]), _without_none(
            capabilities=capabilities and list(capabilities), env=env and list(env), secrets=secrets and list(secrets)))


class Dispatches:
    def __init__(self, transport: Transport):
        self._transport = transport

    def list(self, state: Optional[str] = None, limit: Optional[int] = None,
             after: Optional[str] = None) -> Dict[str, Any]:
        return self._transport.json("GET", path(["dispatches"], {"state": state, "limit": limit, "after": after}))

    def get(self, id: str) -> Dispatch:
        """One that was begun before, by whomever."""
        return Dispatch(self._transport, self._transport.json("GET", path(["dispatches", id])))


class Cells:
    def __init__(self, transport: Transport):
        self._transport = transport

    def list(self, all: Optional[bool] = None) -> Dict[str, Any]:
        return self._transport.json("GET", path(["cells"], {"all": all}))

    def get(self, cell: str) -> Dict[str, Any]:
        return self._transport.json("GET", path(["cells", cell]))

    def stop(self, cell: str, grace: Optional[str] = None) -> Dict[str, Any]:
        return self._transport.json("POST", path(["cells", cell, "stop"], {"grace": grace}))

    def kill(self, cell: str) -> Dict[str, Any]:
        return self._transport.json("POST", path(["cells", cell, "kill"]))

    def freeze(self, cell: str) -> Dict[str, Any]:
        return self._transport.json("POST", path(["cells", cell, "freeze"]))

    def thaw(self, cell: str) -> Dict[str, Any]:
        return self._transport.json("POST", path(["cells", cell, "thaw"]))

    def all(self, verb: str) -> Dict[str, Any]:
        """`kill`, `freeze` or `thaw` every cell."""
        return self._transport.json("POST", path(["cells", verb]))

    def ttl(self, cell: str, ttl: str, why: Optional[str] = None) -> Dict[str, Any]:
        return self._post([cell, "ttl"], ttl=ttl, why=why)

    def timeline(self, cell: str, after: Optional[int] = None, before: Optional[int] = None,
                 limit: Optional[int] = None, type: Optional[str] = None,
                 search: Optional[str] = None) -> Dict[str, Any]:
        """A page: the newest first, or from `after` on."""
        return self._transport.json("GET", path(["cells", cell, "timeline"], {
            "after": after, "before": before, "limit": limit, "type": type, "search": search}))

    def policy(self, cell: str) -> Dict[str, Any]:
        return self._transport.json("GET", path(["cells", cell, "policy"]))

    def set_policy(self, cell: str, text: str, why: Optional[str] = None, now: Optional[bool] = None,
                   hash: Optional[str] = None) -> Dict[str, Any]:
        """With `hash` only if that is the policy in force."""
        return self._transport.json("PUT", path(["cells", cell, "policy"]),
                                    _without_none(text=text, why=why, now=now, hash=hash))

    def allow(self, cell: str, rule: str, why: Optional[str] = None, now: Optional[bool] = None) -> Dict[str, Any]:
        return self._post([cell, "allow"], rule=rule, why=why, now=now)

    def deny(self, cell: str, rule: str, why: Optional[str] = None, now: Optional[bool] = None) -> Dict[str, Any]:
        return self._post([cell, "deny"], rule=rule, why=why, now=now)

    def budget(self, cell: str) -> Dict[str, Any]:
        return self._transport.json("GET", path(["cells", cell, "budget"]))

    def raise_budget(self, cell: str, name: str, kind: str, limit: Union[str, int],
                     why: Optional[str] = None) -> Dict[str, Any]:
        return self._post([cell, "budget"], name=name, kind=kind, limit=limit, why=why)

    def secrets(self, cell: str) -> Dict[str, Any]:
        return self._transport.json("GET", path(["cells", cell, "secrets"]))

    def revoke(self, cell: str, secret: str, why: Optional[str] = None, quiet: Optional[bool] = None) -> Dict[str, Any]:
        return self._post([cell, "secrets", secret, "revoke"], why=why, quiet=quiet)

    def rotate(self, cell: str, secret: str, why: Optional[str] = None) -> Dict[str, Any]:
        return self._post([cell, "secrets", secret, "rotate"], why=why)

    def _post(self, parts: Sequence[str], **body: Any) -> Dict[str, Any]:
        return self._transport.json("POST", path(["cells", *parts]), _without_none(**body))


class Approvals:
    """Requests that wait for people."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def list(self, cell: Optional[str] = None, state: Optional[str] = None) -> Dict[str, Any]:
        return self._transport.json("GET", path(["approvals"], {"cell": cell, "state": state}))

    def approve(self, id: str, how: Optional[str] = None, time: Optional[str] = None,
                why: Optional[str] = None) -> Dict[str, Any]:
        """Once; with a `time` all that its rule asks for, for so long; or `how="rule"`."""
        how = how or ("for" if time is not None else "once")
        return self._transport.json("POST", path(["approvals", id, "approve"]),
                                    _without_none(how=how, why=why, **{"for": time}))

    def refuse(self, id: str, reason: str) -> Dict[str, Any]:
        """The agent is told the reason."""
        return self._transport.json("POST", path(["approvals", id, "refuse"]), {"reason": reason})


def _without_none(**body: Any) -> Dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}


class Client:
    """With `socket`, or `url` (https://127.0.0.1:PORT) and `token`, and `ca` (PEM) for https; else
    CLOISTER_URL and CLOISTER_TOKEN, or this user's socket.

    Dispatches that name no target run at `target`. With an engine's keys (`cluster`, `subnets`, `security_groups`...) and
    members of a target (`image`, `workers`...), that target is registered before the first dispatch: its `engine` is
    docker, swarm, kubernetes, ecs or fargate, which its name may say. `store` (s3:// or postgres://) is an error with the
    code "store", before the first dispatch, if the service keeps everything elsewhere."""

    def __init__(self, socket: Optional[str] = None, url: Optional[str] = None,
                 token: Optional[str] = None, ca: Optional[str] = None, target: Optional[str] = None,
                 engine: Optional[str] = None, store: Optional[str] = None, **keys: Any):
        if socket is None and url is None and "CLOISTER_URL" in os.environ:
            url, token = os.environ["CLOISTER_URL"], token or os.environ.get("CLOISTER_TOKEN")
        self._transport = Transport(socket, url, token, ca)
        self.capabilities = Registry(self._transport, "capabilities")
        self.subagent = self.agents = Agents(self._transport, "agents")
        self.env = Registry(self._transport, "envs")
        self.policies = Registry(self._transport, "policies")
        self.dispatches = Dispatches(self._transport)
        self.targets = Registry(self._transport, "targets")
        self._target = Target(self._transport, target, engine, store, keys)
        self.sandboxes = Sandboxes(self._transport, self._target)
        self.cells = Cells(self._transport)
        self.approvals = Approvals(self._transport)

    def version(self) -> Dict[str, Any]:
        return self._transport.json("GET", path(["version"]))

    def dispatch(self, subagent: str, env: Union[None, str, Sequence[str]] = None,
                 target: Optional[str] = None, input: Union[None, str, bytes] = None,
                 on_behalf_of: Optional[str] = None, retries: Optional[int] = None,
                 timeout: Optional[str] = None, idempotency_key: Optional[str] = None,
                 worker_image: Optional[str] = None, capabilities: Optional[Sequence[str]] = None,
                 secrets: Optional[Sequence[str]] = None, record: Optional[str] = None) -> Dispatch:
        """Begins it; what comes of it is in the Dispatch, and in its result().

        The root of its cell is the image `worker_image` (empty: cloister's own), or the agent's.
        `capabilities` and `secrets` are granted for this dispatch only; the agent's `grantable` must name them.
        `record` ("acts", "full") raises what is recorded of its processes."""
        body = {"agent": subagent, "env": [env] if isinstance(env, str) else env and list(env),
                "target": target, "on_behalf_of": on_behalf_of, "retries": retries, "timeout": timeout,
                "worker_image": worker_image, "capabilities": capabilities and list(capabilities),
                "secrets": secrets and list(secrets), "record": record,
                # So that asking again, after an answer was lost, does not run it twice.
                "idempotency_key": idempotency_key or str(uuid.uuid4())}
        if isinstance(input, str):
            body["input"] = input
        elif input is not None:
            body["input_base64"] = base64.b64encode(input).decode()
        return Dispatch(self._transport, self._target.dispatch(
            {key: value for key, value in body.items() if value is not None}))
