"""Where a client's dispatches run, as its constructor says."""
from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional

from .error import CloisterError
from .transport import Transport, path

# Members of every target; others are keys of its engine.
_MEMBERS = {"description", "pool", "workers", "slots", "once", "idle", "image", "service", "cpus", "memory", "env", "secrets"}
_ENGINES = {"docker": "docker", "swarm": "swarm", "kubernetes": "kubernetes", "ecs": "ecs", "fargate": "ecs"}
# Those of this machine, which nobody registers.
_OWN = {"local", "docker"}


def _describe(target: Optional[str], said: Optional[str], rest: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """The target that the options describe, as it is registered; None: they only name one, or none."""
    if not rest and said is None:
        return None
    first = "engine" if said is not None else next(iter(rest))
    if target is None:
        raise CloisterError("invalid", f"a client without a target takes no '{first}'")
    if target in _OWN:
        raise CloisterError("invalid", f"the target '{target}' is this machine, and takes no '{first}': give an engine of "
                            "another machine another name")
    engine = _ENGINES.get(said or target)
    if engine is None:
        raise CloisterError("invalid", f"the target '{target}' needs an 'engine': docker, swarm, kubernetes, ecs or fargate")
    object: Dict[str, Any] = {"name": target, "engine": engine}
    keys: Dict[str, Any] = {"launchType": "FARGATE"} if (said or target) == "fargate" else {}
    for key, value in rest.items():
        if key in _MEMBERS:
            object[key] = value
        else:
            keys[re.sub(r"_([a-z])", lambda found: found[1].upper(), key)] = value
    return {**object, engine: keys} if keys else object


def _place(url: str) -> str:
    """A place, without what is only for opening it."""
    return re.sub(r"^([^:]+://)[^/]*@", r"\1", url.split("?")[0]).rstrip("/")


class Target:
    def __init__(self, transport: Transport, name: Optional[str], engine: Optional[str], store: Optional[str],
                 keys: Mapping[str, Any]):
        self._transport = transport
        self._object = _describe(name, engine, {key: value for key, value in keys.items() if value is not None})
        self._store = store
        self._ready = store is None and self._object is None
        self.name = name

    def _check(self, store: str) -> None:
        said = self._transport.json("GET", path(["store"]))
        places = [place for place in (said["registry"], said["blobs"]) if place is not None]
        if _place(store) not in places:
            raise CloisterError("store", f"the service keeps everything in {' and '.join(places) or 'its data folder'}, not in "
                                f"{_place(store)}: start it with that store")

    def ready(self) -> None:
        """Returns once dispatches can go there: the store is that of the service, and the target is registered."""
        if self._ready:
            return
        if self._store is not None:
            self._check(self._store)
        if self._object is not None:
            self._transport.json("POST", path(["targets"]), self._object)
        self._ready = True

    def dispatch(self, body: Mapping[str, Any]) -> Dict[str, Any]:
        """Asks for a dispatch, there unless it names another target."""
        self.ready()
        said = {key: value for key, value in {"target": self.name, **body}.items() if value is not None}
        return self._transport.json("POST", path(["dispatches"]), said)
