"""Everything that goes wrong, as one class."""
from __future__ import annotations

from typing import Any, Dict, Optional


class CloisterError(Exception):
    """`code` is what the service said (`not_found`, `invalid`, ...), how a dispatch ended (`failed`,
    `cancelled`, `timed_out`), `unreachable` where nobody answered, or `protocol` where the answer
    made no sense.  `message` is one sentence for people."""

    def __init__(self, code: str, message: str, *, status: Optional[int] = None,
                 pointer: Optional[str] = None, dispatch: Optional[Dict[str, Any]] = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status            # of HTTP
        self.pointer = pointer          # which part of what was sent, as a JSON pointer
        self.dispatch = dispatch        # how it ended, if it is about a dispatch
