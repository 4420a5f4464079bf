"""Server-sent events, followed across reconnections."""
from __future__ import annotations

import http.client
import json
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from .error import CloisterError
from .transport import Transport

LINE_MAX = 16 << 20             # of one event's data
FAILURES_MAX = 8                # one after the other, without an event between them
PAUSE = 0.1


def parse(found: Iterable[bytes]) -> Iterator[Tuple[Optional[str], str]]:
    """(id, data) of each event; what is not ended by an empty line is none."""
    last: Optional[str] = None
    data: List[str] = []
    for line in found:
        if not line.endswith(b"\n"):
            return
        text = line.rstrip(b"\r\n").decode("utf-8", "replace")
        if text == "":
            if data:
                yield last, "\n".join(data)
            data = []
            continue
        field, _, value = text.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "data":
            data.append(value)
        elif field == "id":
            last = value


def lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        line = answer.readline(LINE_MAX + 1)
        if not line:
            return
        if len(line) > LINE_MAX:
            raise CloisterError("protocol", "an event is too large")
        yield line


def _read(data: str) -> Dict[str, Any]:
    try:
        return json.loads(data)
    except ValueError as error:
        raise CloisterError("protocol", "an event is no JSON") from error


def follow(transport: Transport, at: str, is_last: Callable[[Dict[str, Any]], bool]) -> Iterator[Dict[str, Any]]:
    """Each event until the last; a stream that breaks off is taken up again behind the one that
    came last."""
    last: Optional[str] = None
    failures = 0
    while True:
        try:
            answer = transport.open("GET", at, accept="text/event-stream", timeout=None,
                                    headers={} if last is None else {"Last-Event-ID": last})
            if answer.status != 200:
                transport.read(answer)
            with answer:
                for id, data in parse(lines(answer)):
                    failures = 0
                    last = id if id is not None else last
                    event = _read(data)
                    yield event
                    if is_last(event):
                        return
        except (OSError, http.client.HTTPException):
            pass
        except CloisterError as error:
            # What the service said is its word; what broke off is not.
            if error.code != "unreachable" or failures >= FAILURES_MAX:
                raise
        failures += 1
        if failures > FAILURES_MAX:
            raise CloisterError("protocol", f"the events at {at} end too early")
        time.sleep(PAUSE * 2 ** (failures - 1))
