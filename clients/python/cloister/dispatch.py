"""One dispatch: its events as they come, and its results."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Optional

from .error import CloisterError
from .events import follow
from .result import DispatchResult
from .transport import Transport, path


def _is_last(event: Dict[str, Any]) -> bool:
    return event.get("event") == "dispatch.finished"


class Dispatch:
    """Iterating gives its events, from the first to the last, as they come.  `exit_code`, `stdout`,
    `stderr`, `ended`, `result()` and the files wait for its end."""

    def __init__(self, transport: Transport, begun: Dict[str, Any]):
        self._transport = transport
        self._begun = begun
        self._ended: Optional[Dict[str, Any]] = None
        self._outputs: Dict[str, bytes] = {}
        self._result: Optional[DispatchResult] = None

    def _at(self, *rest: str, **query: Any) -> str:
        return path(["dispatches", self.id, *rest], query)

    @property
    def id(self) -> str:
        return self._begun["id"]

    @property
    def resolved(self) -> Dict[str, Any]:
        """Names and content hashes of everything that it runs with."""
        if self._begun.get("resolved") is None:
            self._begun = {**self._begun, "resolved": self.status()["resolved"]}
        return self._begun["resolved"]

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return follow(self._transport, self._at("events"), _is_last)

    def status(self) -> Dict[str, Any]:
        """As it is now."""
        return self._transport.json("GET", self._at())

    @property
    def ended(self) -> Dict[str, Any]:
        """How it ended, also if that is not well."""
        if self._ended is None:
            for _ in self:
                pass
            self._ended = self.status()
        return self._ended

    def result(self) -> DispatchResult:
        """Everything that came of it, as values; also if it did not end well."""
        if self._result is None:
            events = list(self)
            self._ended = self._ended or self.status()
            self._result = DispatchResult(self, events)
        return self._result

    @property
    def exit_code(self) -> int:
        """The agent's; a CloisterError if it did not come to one."""
        end = self.ended
        if end["state"] == "finished":
            return end["exit_code"]
        raise CloisterError(end["state"], end.get("reason") or f"dispatch {self.id} is {end['state']}",
                            dispatch=end)

    def output(self, stream: str = "stdout") -> bytes:
        """All bytes of `stdout` or `stderr`."""
        if stream not in self._outputs:
            self.ended
            self._outputs[stream] = self._transport.bytes(self._at("output", stream=stream))
        return self._outputs[stream]

    @property
    def stdout(self) -> str:
        return self.output("stdout").decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.output("stderr").decode("utf-8", "replace")

    def files(self) -> Dict[str, Any]:
        """What the agent put in /out: {"files": [{"path", "hash", "size", "executable"}], ...}."""
        self.ended
        return self._transport.json("GET", self._at("files"))

    def file(self, name: str) -> bytes:
        """The bytes of one of them."""
        self.ended
        return self._transport.bytes(self._at("files", *name.split("/")))

    def cancel(self) -> Dict[str, Any]:
        return self._transport.json("POST", self._at("cancel"))
