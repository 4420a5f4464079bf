"""Uses every shape of the four lines by its type, for mypy.  It is also run, so the types must be true."""
from typing import Any, Dict, List, Optional

import cloister

client = cloister.Client()
registered: Dict[str, Any] = client.capabilities.register(
    name="echo-cap", files={"agora-setup.sh": "#!/bin/sh\necho hello from agora-worker\n", "setup.sh": "", "b": b"1",
                            "run": {"content": "#!/bin/sh\n", "executable": True}})
client.capabilities.register(name="more", files=[{"path": "f", "content": "text"}])
client.agents.register(name="whole", command=["sh", "-c", 'echo "$LOG_LEVEL"'], capabilities=["echo-cap"],
                       grantable={"capabilities": ["more"], "secrets": ["KEY"]})
client.subagent.register(name="echo", capabilities=["echo-cap"])
client.env.register(name="minimal", values={"LOG_LEVEL": "info"})
version: Dict[str, Any] = client.subagent.assign("echo", capabilities=["more"], env=["minimal"], secrets=["KEY"])
assert version["new"] and version["hash"] != registered["hash"]

running: cloister.Dispatch = client.dispatch(subagent="whole", env="minimal", target="local", worker_image="",
                                             capabilities=["more"])
result: cloister.DispatchResult = running.result()
resolved: cloister.Resolved = result.resolved
code: Optional[int] = result.exit_code
reason: Optional[str] = result.reason
text: str = result.stdout
output: Dict[str, str] = result.output
events: List[Dict[str, Any]] = result.events
image: Optional[Dict[str, str]] = resolved.image
programs: List[Dict[str, str]] = resolved.programs
starts: List[Dict[str, Any]] = resolved.starts
hash: str = resolved["subagent"]["contentHash"]
assert (code, result.state, reason) == (0, "finished", None)
assert output == {"stdout": "hello from agora-worker\ninfo\n", "stderr": ""}
assert list(resolved) == ["subagent", "capabilities", "env"] and hash == result.resolution["agent"]["hash"]
assert image is not None and image["digest"].startswith("sha256:") and programs and starts
assert [event["kind"] for event in events][-1] == "dispatch.finished" and text.count("\n") >= 2
fargate: cloister.Client = cloister.Client(target="fargate", cluster="agents", subnets=["subnet-1"], store="s3://bucket/prefix")
there: Dict[str, Any] = fargate.targets.register(name="far", engine="ecs", image="worker:1", ecs={"cluster": "agents"})
assert there["kind"] == "target"
try:
    client.dispatch(subagent="echo", secrets=["OTHER"]).result()
except cloister.CloisterError as error:
    refused: str = error.code
    assert refused
else:
    raise AssertionError("nothing beyond the rules is granted")
print("ok")
