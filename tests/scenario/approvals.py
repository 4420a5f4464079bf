"""Requests that wait for people, for the tests: a cell, what it asks for, and the answers."""
import json
import subprocess

from egress_lab import CURL
from operators import SECONDS, wait_until

UP = "https://up.example.test"


class Asking:
    """A cell whose requests wait, of one operator in the lab's world."""

    def __init__(self, online, rules, *options):
        self.online, self.operator = online, online.operator
        self.cell = online.start(rules, "sleep", "infinity", options=options)

    def curl(self, *words, seconds=SECONDS):
        """A request that is not waited for."""
        return self.operator.spawn(
            self.operator.program, "exec", self.cell, "--", "curl", "-sS", "--max-time", str(seconds),
            "-w", "\n%{http_code}", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, process):
        """Its status and its output."""
        out, err = process.communicate(timeout=SECONDS)
        body, _, code = out.decode().rpartition("\n")
        assert code, err
        return code, body

    def list(self, *options):
        told = self.operator.cloister("approvals", "--json", *options, self.cell).ok()
        return [json.loads(line) for line in told.splitlines()]

    def wait(self, n=1):
        """Until N requests wait: the last of them."""
        return wait_until(lambda: len(found := self.list()) == n and found, f"{n} of them")[-1]

    def state(self, id):
        return next(a for a in self.list("-a") if a["id"] == id)

    def await_state(self, id, state):
        return wait_until(lambda: (a := self.state(id))["state"] == state and a, f"{id} is {state}")

    def ask(self, *words, n=1, **how):
        """A request, and the approval that it waits for."""
        process = self.curl(*words, **how)
        return process, self.wait(n)

    def answer(self, *words):
        return self.operator.cloister(*words)

    def outcome(self, process):
        return self.end(process)[0]


__all__ = ["Asking", "CURL", "UP"]
