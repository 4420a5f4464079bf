"""Requests to the service, over its socket or TCP, each tried again while it restarts."""
from __future__ import annotations

import builtins
import http.client
import json
import os
import socket
import ssl
import time
from typing import Any, Dict, Mapping, Optional, Sequence
from urllib.parse import quote, urlencode, urlsplit

from .error import CloisterError

ANSWER_MAX = 256 << 20          # bytes of an answer that is read whole
TRIES = 7                       # with pauses of 0.1, 0.2, ... s between them: 6 s in all
PAUSE = 0.1
ADDRESS_MAX = 107               # bytes of a socket's path
TIMEOUT = 120.0                 # without a byte, but for events


def default_socket(env: Mapping[str, str], uid: int) -> str:
    """Where `cloister serve` of this user listens, as the program itself decides."""
    if env.get("CLOISTER_RUNTIME_DIR", "").startswith("/"):
        return env["CLOISTER_RUNTIME_DIR"] + "/serve.sock"
    if uid == 0:
        return "/run/cloister/serve.sock"
    if env.get("XDG_RUNTIME_DIR", "").startswith("/"):
        return env["XDG_RUNTIME_DIR"] + "/cloister/serve.sock"
    return f"/tmp/cloister-{uid}/serve.sock"


def path(parts: Sequence[str], query: Optional[Mapping[str, Any]] = None) -> str:
    """"/v1/a/b?c=d"; None in the query is left out."""
    words = {key: str(value).lower() if isinstance(value, bool) else str(value)
             for key, value in (query or {}).items() if value is not None}
    return "/v1/" + "/".join(quote(part, safe="") for part in parts) + (
        "?" + urlencode(words) if words else "")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, place: str, timeout: Optional[float]):
        super().__init__("localhost", timeout=timeout)
        self._place = place

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        if len(os.fsencode(self._place)) <= ADDRESS_MAX:
            self.sock.connect(self._place)
            return
        folder = os.open(os.path.dirname(self._place), os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(self._place)}")
        finally:
            os.close(folder)


class Transport:
    def __init__(self, socket: Optional[str] = None, url: Optional[str] = None,
                 token: Optional[str] = None, ca: Optional[str] = None):
        if socket is not None and url is not None:
            raise CloisterError("invalid", "give a socket or a url, not both")
        self._socket = "" if url is not None else socket or default_socket(os.environ, os.getuid())
        self._token = token if url is not None else None
        self._url = urlsplit(url) if url is not None else None
        self._tls = None
        self._answered = False          # it was there once, so it may come back
        if self._url is None:
            return
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise CloisterError("invalid", f"'{url}' is neither http nor https")
        if self._url.path not in ("", "/") or self._url.query or self._url.username:
            raise CloisterError("invalid", f"'{url}' is to be only a scheme, a host and a port")
        if self._url.scheme == "https":
            self._tls = ssl.create_default_context(cadata=ca)

    def _connect(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        if self._url is None:
            return _UnixConnection(self._socket, timeout)
        host = self._url.hostname or ""
        if self._tls is not None:
            return http.client.HTTPSConnection(host, self._url.port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(host, self._url.port, timeout=timeout)

    def _unreachable(self, why: Exception) -> CloisterError:
        where = self._socket if self._url is None else self._url.geturl()
        hint = ": is `cloister serve` running?" if self._url is None else ""
        return CloisterError("unreachable", f"cannot reach cloister at {where} ({why}){hint}")

    def open(self, method: str, at: str, body: Any = None, accept: str = "application/json",
             headers: Optional[Dict[str, str]] = None, timeout: Optional[float] = TIMEOUT,
             raw: Optional[builtins.bytes] = None, once: bool = False) -> http.client.HTTPResponse:
        """The answer's head; its body is the caller's to read, and to close.  Whatever is asked may
        be asked twice, but with `once`: then only as long as nobody was there.  `body` is sent as JSON,
        `raw` as it is."""
        all_headers = {"Accept": accept, "Connection": "close", **(headers or {})}
        data = raw
        if raw is not None:
            all_headers["Content-Type"] = "application/octet-stream"
        if self._token is not None:
            all_headers["Authorization"] = "Bearer " + self._token
        if body is not None:
            data = json.dumps(body).encode()
            all_headers["Content-Type"] = "application/json"
        for n in range(1, TRIES + 1):
            connection = self._connect(timeout)
            try:
                connection.request(method, at, body=data, headers=all_headers)
                answer = connection.getresponse()
                self._answered = True
                return answer
            except (ConnectionError, FileNotFoundError, http.client.BadStatusLine) as error:
                connection.close()
                is_absent = isinstance(error, (ConnectionRefusedError, FileNotFoundError))
                if not self._answered or n == TRIES or (once and not is_absent):
                    raise self._unreachable(error) from error
            except OSError as error:
                connection.close()
                raise self._unreachable(error) from error
            time.sleep(PAUSE * 2 ** (n - 1))
        raise AssertionError

    def read(self, answer: http.client.HTTPResponse) -> bytes:
        """The whole body of an answer; an error that the service told is raised."""
        try:
            with answer:
                data = answer.read(ANSWER_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        if len(data) > ANSWER_MAX:
            raise CloisterError("protocol", f"an answer is over {ANSWER_MAX >> 20} MiB")
        if 200 <= answer.status < 300:
            return data
        raise _told(answer.status, data)

    def bytes(self, at: str) -> bytes:
        return self.read(self.open("GET", at, accept="application/octet-stream"))

    def json(self, method: str, at: str, body: Any = None) -> Any:
        data = self.read(self.open(method, at, body))
        try:
            return json.loads(data)
        except ValueError as error:
            raise CloisterError("protocol", f"the answer to {method} {at} is no JSON") from error


def _told(status: int, data: bytes) -> CloisterError:
    try:
        error = json.loads(data)["error"]
        return CloisterError(error["code"], error["message"], status=status, pointer=error.get("pointer"))
    except (ValueError, KeyError, TypeError):
        return CloisterError("protocol", f"the service answered {status} without saying why", status=status)
