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


# ---- modules that no compiler makes

def _number(n):
    """LEB128."""
    out = bytearray()
    while True:
        out.append(n & 0x7f | (0x80 if n > 0x7f else 0))
        n >>= 7
        if n == 0:
            return bytes(out)


def _list(items):
    return _number(len(items)) + b"".join(items)


def _section(kind, body):
    return bytes([kind]) + _number(len(body)) + body


def _name(text):
    return _number(len(text)) + text.encode()


def raw_module(code, tables=(), types=(), more=b""):
    """A command of CODE, with these TABLES, further TYPES, and sections MORE behind the memory."""
    body = b"\x00" + code + b"\x0b"
    return (b"\0asm\1\0\0\0" + _section(1, _list([b"\x60\x00\x00", *types])) + _section(3, _list([b"\x00"]))
            + (_section(4, _list(list(tables))) if tables else b"") + _section(5, _list([b"\x00\x01"])) + more
            + _section(7, _list([_name("memory") + b"\x02\x00", _name("_start") + b"\x00\x00"]))
            + _section(10, _list([_number(len(body)) + body])))


def growing(n, entries=b"\x80\x89\xfa\x00"):
    """Grows each of N tables by 2,000,000 entries, and traps if it can."""
    one = b"\xd0\x6f\x41" + entries + b"\xfc\x0f%b\x41\x7f\x47\x04\x40\x00\x0b"
    return raw_module(b"".join(one.replace(b"%b", _number(i)) for i in range(n)), [b"\x6f\x00\x00"] * n)
