"""Reads from a static C library's machine code which system calls each object file makes."""
import collections
import re
import subprocess

# These arm64 instructions do not write their first operand.
STORES = re.compile(r"(str|stp|stur|stlr|cmp|cmn|tst|cbz|cbnz|tbz|tbnz|b|bl|br|blr|ret|svc)\b")
X86_NAMES = {"rax": "eax", "rbx": "ebx", "rcx": "ecx", "rdx": "edx", "rsi": "esi", "rdi": "edi",
             "rbp": "ebp", "rsp": "esp"}


def x86_register(name):
    if name in X86_NAMES:
        return X86_NAMES[name]
    return name[:-1] if re.fullmatch(r"r\d+d", name) else name


def x86_step(known, code):
    """Follows constants through one instruction; the number of a system call, or None."""
    if code.startswith("syscall"):
        return known.get("eax", -1)
    if match := re.match(r"movl?q?\s+\$0x([0-9a-f]+),%(\w+)$", code):
        known[x86_register(match[2])] = int(match[1], 16)
    elif match := re.match(r"xorl?\s+%(\w+),%(\w+)$", code):
        if match[1] == match[2]:
            known[x86_register(match[1])] = 0
        else:
            known.pop(x86_register(match[2]), None)
    elif match := re.match(r"mov[lq]?\s+%(\w+),%(\w+)$", code):
        value = known.get(x86_register(match[1]))
        known[x86_register(match[2])] = value
        if value is None:
            del known[x86_register(match[2])]
    elif match := re.match(r"(?!cmp|test|push|j)\w+\s.*%(\w+)$", code):
        known.pop(x86_register(match[1]), None)
    elif code.startswith("call"):
        known.pop("eax", None)
    return None


def arm_step(known, code):
    if code.startswith("svc"):
        return known.get("8", -1)
    if match := re.match(r"mov\s+[xw](\d+), #0x([0-9a-f]+)", code):
        known[match[1]] = int(match[2], 16)
    elif match := re.match(r"mov\s+[xw](\d+), [xw](\d+)$", code):
        known[match[1]] = known.get(match[2])
        if known[match[1]] is None:
            del known[match[1]]
    elif not STORES.match(code) and (match := re.match(r"[\w.]+\s+[xw](\d+),", code)):
        known.pop(match[1], None)
    return None


STEP = {"x86_64": x86_step, "aarch64": arm_step}


def library_calls(arch, library):
    """{object file: its call numbers}, and the object files with a number that is not a constant."""
    text = subprocess.run([f"{arch}-linux-gnu-objdump", "-d", "--no-show-raw-insn", library],
                          capture_output=True, text=True, check=True).stdout
    calls, open_ended = collections.defaultdict(set), set()
    member, known = None, {}
    for line in text.splitlines():
        if match := re.match(r"(\S+\.o):\s+file format", line):
            member = match[1]
        elif line.endswith(">:"):
            known = {}
        elif match := re.match(r"\s+[0-9a-f]+:\t([^#<]*)" if arch == "x86_64" else
                               r"\s+[0-9a-f]+:\t(.*)", line):
            number = STEP[arch](known, match[1].split("//")[0].strip())
            if number == -1:
                open_ended.add(member)
            elif number is not None:
                calls[member].add(number)
    return calls, open_ended
