"""Uses every shape of sandboxes by its type, for mypy.  It is also run, so the types must be true."""
from typing import Any, Dict, List, Optional

import cloister

client = cloister.Client()
client.agents.register(name="typed", sandbox=True)
client.agents.register(name="typed-desk", sandbox=True, terminal=True, command=["cat"])
with cloister.Sandbox.create("typed", client, timeout="5m", env=[], target="local") as box:
    again: cloister.Sandbox = client.sandboxes.connect(box.id)
    command: cloister.Command = again.exec(["sh", "-c", "cat; echo $A >&2"], env={"A": "b"}, cwd="/tmp", input=b"hi", timeout="10s")
    parts: List[cloister.Output] = list(command)
    result: cloister.ExecResult = command.result()
    code: int = result.exit_code
    text: str = result.stdout
    raw: bytes = result.stdout_bytes
    assert (code, text, raw, result.stderr, result.timed_out, result.truncated) == (0, "hi", b"hi", "b\n", False, False)
    assert {part.stream for part in parts} == {"stdout", "stderr"} and parts[0].data
    assert box.exec(["tty"], tty=(24, 80)).result().stdout.startswith("/dev/pts/")
    with cloister.Sandbox.create("typed-desk", client) as desk:
        terminal: cloister.Terminal = desk.attach(rows=24, columns=80)
        terminal.write("x\n")
        shown: bytes = next(iter(terminal))
        ended: Optional[int] = terminal.exit_code
        assert b"x" in shown and ended is None
        terminal.resize(25, 81)
        terminal.close()
    watch: cloister.Watch = box.files.watch("/tmp")
    box.files.write("/tmp/file", "text")
    change: cloister.Change = next(iter(watch))
    path: Optional[str] = change.path
    assert (change.change, path) == ("created", "/tmp/file")
    watch.close()
    folder: cloister.Folder = box.files.list("/tmp")
    entry: cloister.Entry = folder.entries[0]
    assert (entry.name, entry.type, entry.size, entry.target) == ("file", "file", 4, None)
    assert box.files.read("/tmp/file") == b"text" and box.files.read_text("/tmp/file") == "text"
    published: cloister.Published = box.publish(80)
    assert published.host == "127.0.0.1" and published.url.endswith(str(published.port))
    try:
        box.files.read("/none")
    except cloister.CloisterError as error:
        assert error.code == "not_found"
    else:
        raise AssertionError("it is not there")
    status: Dict[str, Any] = box.kill()
    assert status["state"] == "cancelled"
print("ok")
