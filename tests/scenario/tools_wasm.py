"""WASI modules for tests, made by clang from tools_module.c."""
import ctypes.util
import functools
import json
import subprocess
import tempfile
from pathlib import Path

from operators import TREE

SOURCE = TREE / "tests/scenario/tools_module.c"
NAMES = ("echo", "counts", "reads", "writes", "lists", "files", "http", "sleeps", "loops", "eats", "floods", "traps", "fails",
         "bytes", "points")
READS = {"readOnlyHint": True, "openWorldHint": False}
TOOLS = {"name": "parts", "version": "1.2", "tools": [
    {"name": name, "description": f"Does what {name} is.", "inputSchema": {"type": "object"}, "annotations": READS,
     **({"outputSchema": {"type": "object"}} if name == "counts" else {})} for name in NAMES]}


def missing():
    """Why no module can be made or run here; None: it can."""
    if not any(ctypes.util.find_library(f"javascriptcoregtk-{n}") for n in ("4.1", "6.0")):
        return "libjavascriptcoregtk is not installed"
    return None if module_bytes() else "clang makes no WASI modules here: wasi-libc and libclang-rt-dev-wasm32 do"


@functools.cache
def module_bytes():
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "module.wasm"
        done = subprocess.run(["clang", "--target=wasm32-wasi", "-O1", "-o", made, SOURCE], check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return made.read_bytes() if done.returncode == 0 else b""


def put_module(operator, name="modules", tools=TOOLS):
    """A folder of the operator's with parts.wasm, and its list of tools unless TOOLS is None; the path of the module."""
    folder = operator.folder(name)
    module = folder / "parts.wasm"
    module.write_bytes(module_bytes())
    operator.own(module)
    if tools is not None:
        operator.file(f"{name}/parts.wasm.json", json.dumps(tools))
    return module
