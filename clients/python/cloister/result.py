"""What a dispatch came to: values, once it is over."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from .dispatch import Dispatch

# Members of an event that are about the event, or have another name there.
_ABOUT = {"dispatch", "event", "kind", "n", "time", "step", "exitCode", "exit_code", "status", "path", "stdout_to",
          "stderr_to", "stderr", "attempts", "result", "offset", "size"}


class Resolved(Dict[str, Any]):
    """{"subagent", "capabilities", "env"}: names and content hashes.  The image and the programs can be read from it
    too, but are not printed with it."""

    def __init__(self, resolution: Dict[str, Any]):
        def name(one: Dict[str, Any]) -> Dict[str, str]:
            return {"name": one["name"], "contentHash": one["hash"]}

        super().__init__(subagent=name(resolution["agent"]),
                         capabilities=[name(one) for one in resolution["capabilities"]],
                         env=[name(one) for one in resolution["envs"]])
        self.image: Optional[Dict[str, str]] = resolution.get("image")
        self.programs: List[Dict[str, str]] = resolution.get("programs", [])
        self.starts: List[Dict[str, Any]] = resolution.get("starts", [])
        self.root: Any = resolution.get("root")
        self.build: Optional[str] = resolution.get("build")


def _line(event: Dict[str, Any]) -> Dict[str, Any]:
    kind = event["kind"]
    line = {"kind": kind, **({"exitCode": event["exitCode"]} if "exitCode" in event else {})}
    if kind == "setup-script.ran":
        names = ["stdout", "stdout_cut", *(["stderr", "stderr_cut"] if event["stderr"] else [])]
        return {**line, **{name: event[name] for name in names if name in event}}
    if kind == "dispatch.finished":
        return line if event["state"] == "finished" else {**line, "state": event["state"], "reason": event["reason"]}
    return {**line, **{name: value for name, value in event.items() if name not in _ABOUT}}


def shape_lines(events: List[Dict[str, Any]]) -> str:
    """The events of the last attempt as lines of JSON, from the start of its worker on.  What a set-up printed is in
    the line of its end alone."""
    boots = [i for i, event in enumerate(events) if event["kind"] == "worker.boot"]
    own = events[boots[-1] if boots else -1:]
    ends = {"stdout": 0, "stderr": 0}
    for event in own:
        if event["event"] == "setup.ran":
            ends = {"stdout": event.get("stdout_to", 0), "stderr": event.get("stderr_to", 0)}
    return "\n".join(
        json.dumps(_line(event), ensure_ascii=False, separators=(",", ":")) for event in own
        if event["kind"] != "tools.checked" and
        (event["kind"] != "agent.output" or event["offset"] >= ends[event["stream"]]))


class DispatchResult:
    """Everything is a value.  `stdout` has the events of the worker, one JSON object on each line; what the agent
    itself printed is in `output`."""

    def __init__(self, dispatch: Dispatch, events: List[Dict[str, Any]]):
        self._dispatch = dispatch
        self.events = events
        self.status: Dict[str, Any] = dispatch.ended
        self.resolution: Dict[str, Any] = dispatch.resolved
        self.id: str = dispatch.id
        self.state: str = self.status["state"]
        self.exit_code: Optional[int] = self.status["exit_code"]
        self.reason: Optional[str] = self.status.get("reason")
        self.resolved = Resolved(self.resolution)
        self.stdout = shape_lines(events)
        self.output: Dict[str, str] = {"stdout": dispatch.stdout, "stderr": dispatch.stderr}

    def files(self) -> Dict[str, Any]:
        """What the agent put in /out."""
        return self._dispatch.files()

    def file(self, name: str) -> bytes:
        return self._dispatch.file(name)
