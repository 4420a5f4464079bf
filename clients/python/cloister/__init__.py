"""Registers agents with `cloister serve` and dispatches them to cells.

    client = cloister.Client()
    client.capabilities.register(name="notes", files={"notes.txt": "..."})
    client.subagent.register(name="reader", capabilities=["notes"], command=["cat", "/capabilities/notes/notes.txt"])
    run = client.dispatch(subagent="reader")
    print(run.resolved, run.exit_code, run.stdout)
"""
from .client import Client
from .dispatch import Dispatch
from .error import CloisterError
from .result import DispatchResult, Resolved
from .sandbox import Change, Command, Entry, ExecResult, Folder, Output, Published, Sandbox, Terminal, Watch

__all__ = ["Change", "Client", "CloisterError", "Command", "Dispatch", "DispatchResult", "Entry", "ExecResult", "Folder",
           "Output", "Published", "Resolved", "Sandbox", "Terminal", "Watch"]
