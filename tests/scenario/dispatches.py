"""Registers what can be dispatched, and dispatches it."""
import json

from operators import wait_until


def register(operator, kind, name, **said):
    """An agent, env or policy, as an operator writes it; its hash."""
    file = operator.file(f"{kind}-{name}.yaml", json.dumps({"name": name, **said}))
    told = json.loads(operator.cloister(kind, "register", "--json", file).ok())
    return told["hash"]


def policy(operator, name, *egress, **said):
    file = operator.file(f"policy-{name}.yaml", json.dumps({"version": 1, "egress": egress, **said}))
    return json.loads(operator.cloister("policy", "register", "--json", "--name", name, file).ok())["hash"]


def capability(operator, name, files=None, **said):
    folder = operator.folder(f"capability-{name}", {"capability.yaml": json.dumps({"name": name, **said}),
                                                    **(files or {})})
    return json.loads(operator.cloister("capability", "register", "--json", folder).ok())["hash"]


def agent(operator, name, script, **said):
    return register(operator, "agent", name, command=["sh", "-c", script], **said)


def dispatch(operator, *words, **how):
    """`cloister dispatch` to its end."""
    return operator.cloister("dispatch", *words, **how)


def detach(operator, *words, **how):
    """The id of a dispatch in the background."""
    return dispatch(operator, "--detach", *words, **how).ok().strip()


def show(operator, id):
    return json.loads(operator.cloister("dispatches", "show", "--json", id).ok())


def all_of(operator):
    """The newest first."""
    return json.loads(operator.cloister("dispatches", "--json", "--limit", "1000").ok())


def events(operator, id):
    told = operator.cloister("dispatches", "events", "--json", id).ok()
    return [json.loads(line) for line in told.splitlines()]


def await_state(operator, id, *states):
    """Until it is in one of STATES."""
    return wait_until(lambda: (d := show(operator, id))["state"] in states and d, f"{id} is {states}")


def await_over(operator, id):
    operator.cloister("dispatches", "events", "-f", id).ok()
    return await_state(operator, id, "finished", "failed", "cancelled", "timed_out")
