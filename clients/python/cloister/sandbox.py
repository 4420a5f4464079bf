"""A cell that stays: commands, files and ports in it."""
from __future__ import annotations

import asyncio
import base64
import http.client
import json
import uuid
from dataclasses import dataclass
from typing import (TYPE_CHECKING, Any, AsyncIterator, Dict, Generic, Iterator, List, Mapping, Optional, Sequence,
                    Tuple, TypeVar, Union)

from .error import CloisterError
from .events import follow, lines, parse
from .target import Target
from .transport import Transport, path

if TYPE_CHECKING:
    from .client import Client

PIECE = 1 << 20                 # bytes of input in one request
KEPT_MAX = 64 << 20             # bytes of each stream that a result has

Data = Union[str, bytes]
T = TypeVar("T")


def _bytes(data: Data) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def _is_last(event: Dict[str, Any]) -> bool:
    return event.get("event") == "dispatch.finished"


class _Stream(Generic[T]):
    """Iterated over once, also with `async for`: each item is awaited in a thread."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError

    async def __aiter__(self) -> AsyncIterator[T]:
        items, end = iter(self), object()
        while True:
            item: Any = await asyncio.to_thread(lambda: next(items, end))
            if item is end:
                return
            yield item


class _Events:
    """The events of an answer.  It is not taken up again: what it is about ends with it."""

    def __init__(self, transport: Transport, answer: http.client.HTTPResponse):
        if answer.status != 200:
            transport.read(answer)
        self._answer = answer
        self._parsed = parse(lines(answer))

    def next(self) -> Optional[Dict[str, Any]]:
        try:
            for _, data in self._parsed:
                event: Dict[str, Any] = json.loads(data)
                return event
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
            raise CloisterError("unreachable", "the connection to cloister broke off") from error
        return None

    def close(self) -> None:
        self._answer.close()


@dataclass(frozen=True)
class Output:
    stream: str                 # stdout or stderr
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class ExecResult:
    """What came of a command.  `exit_code` is as a shell has it: 128 and the signal's number if one ended it."""
    exit_code: int
    timed_out: bool
    stdout_bytes: bytes
    stderr_bytes: bytes
    truncated: bool             # a stream was over 64 MiB: the rest is missing

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")


class Command(_Stream[Output]):
    """A command that runs.  Iterate over it for its output as it comes; `result()` waits for its end."""

    def __init__(self, transport: Transport, sandbox: str, body: Dict[str, Any]):
        self._transport = transport
        self._parts = ["sandboxes", sandbox, "exec"]
        self._kept: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
        self._sizes = {"stdout": 0, "stderr": 0}
        self._end: Optional[Dict[str, Any]] = None
        self._events = _Events(transport, transport.open("POST", path(self._parts), body, accept="text/event-stream",
                                                         timeout=None, once=True))
        first = self._events.next()
        if first is None or first.get("event") != "exec.started":
            raise CloisterError("protocol", "the command has no beginning")
        self._id: str = first["exec"]

    def __iter__(self) -> Iterator[Output]:
        while self._end is None:
            event = self._events.next()
            kind = None if event is None else event.get("event")
            if event is not None and kind == "exec.output":
                data = event["text"].encode() if "text" in event else base64.b64decode(event["base64"])
                self._keep(event["stream"], data)
                yield Output(event["stream"], data)
            elif event is not None and kind == "exec.exited":
                self._end = event
                self._events.close()
            else:
                raise CloisterError("over", event["reason"]) if event is not None and kind == "exec.lost" else \
                    CloisterError("unreachable", "the connection to cloister broke off")

    def _keep(self, stream: str, data: bytes) -> None:
        self._sizes[stream] += len(data)
        if self._sizes[stream] <= KEPT_MAX:
            self._kept[stream].append(data)

    def result(self) -> ExecResult:
        """Everything that came of it; what was iterated over is in it too."""
        for _ in self:
            pass
        assert self._end is not None
        return ExecResult(self._end["exit_code"], self._end["timed_out"], b"".join(self._kept["stdout"]),
                          b"".join(self._kept["stderr"]), max(self._sizes.values()) > KEPT_MAX)

    def _post(self, word: str, body: Any = None, raw: Optional[bytes] = None, **query: Any) -> None:
        self._transport.read(self._transport.open("POST", path([*self._parts, self._id, word], query), body, raw=raw,
                                                  timeout=None, once=raw is not None))

    def write(self, data: Data) -> None:
        """To its standard input, if it was started with `stdin` or `tty`; returns once the command has taken it."""
        whole = _bytes(data)
        for at in range(0, len(whole), PIECE):
            self._post("input", raw=whole[at:at + PIECE])

    def end(self) -> None:
        """Its standard input ends."""
        self._post("input", raw=b"", end=True)

    def signal(self, name: str) -> None:
        """HUP, INT, QUIT, KILL, TERM, USR1, USR2, STOP or CONT."""
        self._post("signal", {"signal": name})

    def kill(self) -> None:
        self.signal("KILL")

    def resize(self, rows: int, columns: int) -> None:
        self._post("resize", {"rows": rows, "columns": columns})

    def close(self) -> None:
        """Hangs up: if the command still runs, it is killed."""
        self._events.close()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Terminal(_Stream[bytes]):
    """The terminal of a cell's agent.  Iterate over it for its output: first the screen as it is, until the cell ends.
    close(), the end of the block and a lost connection leave it; the cell goes on."""

    def __init__(self, transport: Transport, parts: List[str], rows: int, columns: int):
        self._transport = transport
        self.exit_code: Optional[int] = None    # of the cell, once it has ended
        self._left = False
        self._events = _Events(transport, transport.open("POST", path(parts), {"rows": rows, "columns": columns},
                                                         accept="text/event-stream", timeout=None, once=True))
        first = self._events.next()
        if first is None or first.get("event") != "attach.started":
            raise CloisterError("protocol", "the terminal has no beginning")
        self._parts = [*parts, str(first["attach"])]

    def __iter__(self) -> Iterator[bytes]:
        while self.exit_code is None and not self._left:
            event = self._events.next()
            kind = None if event is None else event.get("event")
            if event is not None and kind == "attach.output":
                yield event["text"].encode() if "text" in event else base64.b64decode(event["base64"])
            elif event is not None and kind == "attach.exited":
                self.exit_code = event["exit_code"]
                self._events.close()
            elif not self._left:
                raise CloisterError("over", event["reason"]) if event is not None and kind == "attach.lost" else \
                    CloisterError("unreachable", "the connection to cloister broke off")

    def _post(self, word: str, body: Any = None, raw: Optional[bytes] = None) -> None:
        self._transport.read(self._transport.open("POST", path([*self._parts, word]), body, raw=raw, timeout=None,
                                                  once=raw is not None))

    def write(self, data: Data) -> None:
        """Types it; returns once the terminal has taken it."""
        whole = _bytes(data)
        for at in range(0, len(whole), PIECE):
            self._post("input", raw=whole[at:at + PIECE])

    def resize(self, rows: int, columns: int) -> None:
        self._post("resize", {"rows": rows, "columns": columns})

    def close(self) -> None:
        """Leaves the terminal."""
        self._left = True
        self._events.close()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


@dataclass(frozen=True)
class Change:
    change: str                 # created, modified, removed; overflow: some were missed
    path: Optional[str]         # None if it is not UTF-8
    path_bytes: Optional[bytes]


class Watch(_Stream[Change]):
    """Changes as they happen."""

    def __init__(self, events: _Events):
        self._events = events

    def __iter__(self) -> Iterator[Change]:
        event = self._events.next()
        while event is not None:
            name, coded = event.get("path"), event.get("path_base64")
            yield Change(event["event"].split(".", 1)[1], name,
                         base64.b64decode(coded) if coded is not None else None if name is None else name.encode())
            event = self._events.next()

    def close(self) -> None:
        self._events.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


@dataclass(frozen=True)
class Entry:
    name: str                   # bytes that are not UTF-8 are replaced
    name_bytes: bytes
    type: str                   # file, folder, link, pipe, socket or device
    size: int
    mode: int
    modified: float             # seconds since 1970
    target: Optional[str]       # where a link leads


@dataclass(frozen=True)
class Folder:
    entries: List[Entry]
    truncated: bool             # there are more

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)


def _name(entry: Mapping[str, Any], key: str) -> Optional[bytes]:
    if key in entry:
        return bytes(entry[key].encode())
    return base64.b64decode(entry[f"{key}_base64"]) if f"{key}_base64" in entry else None


def _entry(entry: Mapping[str, Any]) -> Entry:
    name, target = _name(entry, "name") or b"", _name(entry, "target")
    return Entry(name.decode("utf-8", "replace"), name, entry["type"], entry["size"], entry["mode"],
                 entry["modified_ms"] / 1000, None if target is None else target.decode("utf-8", "replace"))


class Files:
    """Files of the cell, as its agent sees them."""

    def __init__(self, transport: Transport, id: str):
        self._transport = transport
        self._id = id

    def _at(self, word: str, **query: Any) -> str:
        return path(["sandboxes", self._id, word], query)

    def read(self, name: str) -> bytes:
        """The bytes of a regular file."""
        return self._transport.bytes(self._at("file", path=name))

    def read_text(self, name: str) -> str:
        return self.read(name).decode("utf-8", "replace")

    def write(self, name: str, data: Data) -> None:
        """Text or bytes; missing folders are made."""
        self._transport.read(self._transport.open("PUT", self._at("file", path=name), raw=_bytes(data)))

    def list(self, name: str) -> Folder:
        said = self._transport.json("GET", self._at("folder", path=name))
        return Folder([_entry(entry) for entry in said["entries"]], said["truncated"])

    def watch(self, name: str, recursive: bool = False) -> Watch:
        """Returns once the file or folder is watched: later changes are not missed."""
        events = _Events(self._transport, self._transport.open(
            "GET", self._at("watch", path=name, recursive=recursive), accept="text/event-stream", timeout=None, once=True))
        events.next()
        return Watch(events)


@dataclass(frozen=True)
class Published:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"


class Sandbox:
    """A cell that stays until its time is over, or kill().  As a context manager it ends with the block."""

    def __init__(self, transport: Transport, id: str):
        self._transport = transport
        self.id = id
        self.files = Files(transport, id)

    @staticmethod
    def create(agent: str, client: Optional[Client] = None, **options: Any) -> Sandbox:
        """A new one, with the options of `client.sandboxes.create`; without a client, of this user's service."""
        return _client(client).sandboxes.create(agent, **options)

    @staticmethod
    def connect(id: str, client: Optional[Client] = None) -> Sandbox:
        """One that was made before, by its id."""
        return _client(client).sandboxes.connect(id)

    def status(self) -> Dict[str, Any]:
        """As it is now."""
        return self._transport.json("GET", path(["dispatches", self.id]))

    def exec(self, command: Sequence[str], env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
             input: Optional[Data] = None, stdin: bool = False, timeout: Optional[str] = None,
             tty: Optional[Tuple[int, int]] = None) -> Command:
        """Begins it.  With `stdin`, its input stays open: see Command.write() and end().  `timeout` is a time such as
        "30s", and `tty` the rows and columns of a terminal."""
        if isinstance(command, str):
            raise CloisterError("invalid", 'a command is a list of words: ["sh", "-c", "ls | wc"]')
        body: Dict[str, Any] = {"command": list(command), "env": None if env is None else dict(env), "cwd": cwd,
                                "stdin": stdin or None, "timeout": timeout,
                                "tty": None if tty is None else {"rows": tty[0], "columns": tty[1]}}
        if isinstance(input, str):
            body["input"] = input
        elif input is not None:
            body["input_base64"] = base64.b64encode(input).decode()
        return Command(self._transport, self.id, {key: value for key, value in body.items() if value is not None})

    def attach(self, rows: int = 24, columns: int = 80) -> Terminal:
        """Joins the terminal of its agent, which is registered with `terminal: true`."""
        return Terminal(self._transport, ["sandboxes", self.id, "attach"], rows, columns)

    def publish(self, port: int) -> Published:
        """A port of this machine for a port of the cell's loopback."""
        said = self._transport.json("POST", path(["sandboxes", self.id, "publish"]), {"port": port})
        return Published(said["host"], said["port"])

    def kill(self) -> Dict[str, Any]:
        """Ends it, with everything in it; returns once it has ended."""
        try:
            self._transport.json("POST", path(["dispatches", self.id, "cancel"]))
        except CloisterError as error:
            if error.code != "over":
                raise
        for _ in follow(self._transport, path(["dispatches", self.id, "events"]), _is_last):
            pass
        return self.status()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: Any) -> None:
        self.kill()

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await asyncio.to_thread(self.kill)


def _client(client: Optional[Client]) -> Client:
    from .client import Client as Usual

    return client if client is not None else Usual()


class Sandboxes:
    def __init__(self, transport: Transport, target: Target):
        self._transport = transport
        self._target = target

    def create(self, agent: str, env: Union[None, str, Sequence[str]] = None, image: Optional[str] = None,
               capabilities: Optional[Sequence[str]] = None, secrets: Optional[Sequence[str]] = None,
               target: Optional[str] = None, timeout: Optional[str] = None, on_behalf_of: Optional[str] = None,
               idempotency_key: Optional[str] = None, record: Optional[str] = None) -> Sandbox:
        """Returns once it can be used.  `agent` is registered with `sandbox: true`.  `timeout` is how long it lives
        at most: it can only shorten the agent's own limit.  `record` ("acts", "full") can only raise the agent's."""
        body = {"agent": agent, "sandbox": True, "env": [env] if isinstance(env, str) else env and list(env),
                "worker_image": image, "capabilities": capabilities and list(capabilities),
                "secrets": secrets and list(secrets), "target": target, "timeout": timeout,
                "on_behalf_of": on_behalf_of, "record": record,
                # So that asking again, after an answer was lost, does not make two.
                "idempotency_key": idempotency_key or str(uuid.uuid4())}
        id = self._target.dispatch({key: value for key, value in body.items() if value is not None})["id"]
        for event in follow(self._transport, path(["dispatches", id, "events"]), _is_last):
            if event["event"] == "agent.started":
                return Sandbox(self._transport, id)
            if _is_last(event):
                raise CloisterError(event["state"], event.get("reason") or f"the sandbox {id} is {event['state']}")
        raise CloisterError("protocol", "the sandbox has no end")

    def connect(self, id: str) -> Sandbox:
        """One that was made before, by whomever."""
        said = self._transport.json("GET", path(["dispatches", id]))
        if said["state"] not in ("queued", "starting", "running"):
            raise CloisterError("over", f"the sandbox {said['id']} is {said['state']}")
        return Sandbox(self._transport, said["id"])
