#!/usr/bin/python3
"""check_order.py - no expression reads a variable that another part of it changes.

check_order.py FILE... [-- COMPILER FLAGS]: C does not define in which order the arguments of a call, the
operands of an operator and the values of an initializer are evaluated.  Compilers differ: gcc goes from
right to left on amd64, and from left to right on arm64.  They warn of `f(i++, i)` only.  This check also
finds `f(next(&word), word)` and, for functions whose name says that they move on, `f(take(b), b->len)`."""
import re
import subprocess
import sys

from clang.cindex import CursorKind, Index, TranslationUnit, TypeKind

# Functions that change the object behind their pointer.  Others, often getters, may take a pointer that is
# not const and change nothing.
MOVES_ON = re.compile(r"(^|_)(take|next|pop|cut|skip|shift|keep|append|add|put|read|buf_get)(_|$)")

SEQUENCED = {"&&", "||", ","}
ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
STEPS = {"++", "--"}
WRAPPERS = {CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR, CursorKind.CSTYLE_CAST_EXPR}


def spelling_of(cursor):
    """The operator's own token."""
    children = list(cursor.get_children())
    if cursor.kind == CursorKind.UNARY_OPERATOR:
        tokens = [t.spelling for t in cursor.get_tokens()]
        return tokens[0] if tokens and tokens[0] in {"++", "--", "&", "*", "!", "-", "~", "+"} else \
            tokens[-1] if tokens else ""
    if len(children) == 2:
        end = children[0].extent.end.offset
        for token in cursor.get_tokens():
            if token.extent.start.offset >= end and token.spelling != ")":
                return token.spelling
    return ""


def bare(cursor):
    """CURSOR without casts and parentheses."""
    while cursor.kind in WRAPPERS:
        inner = [child for child in cursor.get_children() if child.kind.is_expression()]
        if len(inner) != 1:
            return cursor
        cursor = inner[0]
    return cursor


def variable(cursor):
    """The variable that an expression names, or its member, as a path: (variable, member, ...), or None."""
    cursor = bare(cursor)
    if cursor.kind == CursorKind.DECL_REF_EXPR:
        found = cursor.referenced
        return (found.hash,) if found is not None and found.kind in (
            CursorKind.VAR_DECL, CursorKind.PARM_DECL) else None
    if cursor.kind == CursorKind.MEMBER_REF_EXPR:
        inner = list(cursor.get_children())
        # Behind a pointer there is another object.
        if inner and bare(inner[0]).type.get_canonical().kind != TypeKind.POINTER:
            outer = variable(inner[0])
            return outer and (*outer, cursor.spelling)
    return None


def overlap(one, other):
    """Whether one path names a part of what the other names."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def changes_what_it_gets(call, index):
    """Whether the function may write through this parameter."""
    function = call.type if call.referenced is None else call.referenced.type
    parameters = list(function.get_canonical().argument_types()) if function.kind in (
        TypeKind.FUNCTIONPROTO, TypeKind.TYPEDEF) else []
    if index >= len(parameters):
        return False
    kind = parameters[index].get_canonical()
    return kind.kind == TypeKind.POINTER and not kind.get_pointee().is_const_qualified()


class Touched:
    """The variables that an expression reads and changes, and those through which it does so."""

    def __init__(self, cursor):
        self.reads, self.writes, self.reads_through, self.writes_through = {}, {}, {}, {}
        self.look(cursor)

    def look(self, cursor):
        kind = cursor.kind
        if kind == CursorKind.CALL_EXPR:
            self.look_at_call(cursor)
            return
        if kind == CursorKind.UNARY_OPERATOR and spelling_of(cursor) in STEPS:
            self.note(self.writes, next(cursor.get_children()))
        elif kind in (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR) and \
                spelling_of(cursor) in ASSIGNS:
            self.note(self.writes, next(cursor.get_children()))
        elif kind == CursorKind.UNARY_OPERATOR and spelling_of(cursor) == "&":
            return          # an address is not what is there
        elif kind == CursorKind.CXX_UNARY_EXPR:
            return          # sizeof
        elif kind == CursorKind.MEMBER_REF_EXPR:
            inner = list(cursor.get_children())
            if inner and bare(inner[0]).type.get_canonical().kind == TypeKind.POINTER:
                self.note(self.reads_through, inner[0])
            elif variable(cursor) is not None:
                self.note(self.reads, cursor)
                return
        elif kind == CursorKind.UNARY_OPERATOR and spelling_of(cursor) == "*":
            self.note(self.reads_through, next(cursor.get_children()))
        elif kind == CursorKind.DECL_REF_EXPR:
            self.note(self.reads, cursor)
        for child in cursor.get_children():
            self.look(child)

    def look_at_call(self, call):
        for index, argument in enumerate(call.get_arguments()):
            inner = bare(argument)
            changed = changes_what_it_gets(call, index)
            moves_on = changed and MOVES_ON.search(call.spelling)
            if inner.kind == CursorKind.UNARY_OPERATOR and spelling_of(inner) == "&":
                self.note(self.writes if changed else self.reads, next(inner.get_children()))
            elif inner.type.get_canonical().kind == TypeKind.POINTER:
                self.note(self.writes_through if moves_on else self.reads_through, inner)
                self.look(argument)
            else:
                self.look(argument)

    def note(self, where, cursor):
        found = variable(cursor)
        if found is not None:
            where[found] = bare(cursor).spelling

    def clashes(self, other):
        for mine, theirs in ((self.writes, {**other.reads, **other.writes, **other.reads_through}),
                             (self.writes_through, {**other.reads_through, **other.writes_through})):
            yield from (name for path, name in mine.items() if any(overlap(path, key) for key in theirs))


def parts(cursor):
    """The expressions in CURSOR whose order is open."""
    if cursor.kind == CursorKind.CALL_EXPR:
        return list(cursor.get_arguments())
    if cursor.kind == CursorKind.INIT_LIST_EXPR:
        return list(cursor.get_children())
    if cursor.kind == CursorKind.BINARY_OPERATOR and spelling_of(cursor) not in SEQUENCED | ASSIGNS:
        return list(cursor.get_children())
    return []


def faults(cursor):
    operands = [Touched(part) for part in parts(cursor)]
    for i, one in enumerate(operands):
        for j, other in enumerate(operands):
            if i != j:
                for name in one.clashes(other):
                    yield cursor.location.line, name
    for child in cursor.get_children():
        yield from faults(child)


def preprocess(path, flags):
    """The text without macros, whose tokens libclang could not tell apart; and each line's origin."""
    text = subprocess.run(["clang", "-E", *flags, path], capture_output=True, text=True, check=True).stdout
    origins, origin = [], (path, 0)
    for line in text.split("\n"):
        if marker := re.match(r'# (\d+) "([^"]*)"', line):
            origin = marker[2], int(marker[1]) - 1
        else:
            origin = origin[0], origin[1] + 1
        origins.append(origin)
    return text, origins


def check(index, path, flags):
    """Prints the faults of one file; whether there are any."""
    text, origins = preprocess(path, flags)
    unit = index.parse("in.i", args=["-x", "cpp-output", "-std=gnu17"], unsaved_files=[("in.i", text)],
                       options=TranslationUnit.PARSE_NONE)
    broken = [d for d in unit.diagnostics if d.severity >= d.Error]
    found = set()
    for top in unit.cursor.get_children():
        if origins[top.location.line - 1][0] == path:
            found |= {(origins[line - 1][1], name) for line, name in faults(top)}
    for diagnostic in broken:
        print(f"{path}: {diagnostic}")
    for line, name in sorted(found):
        print(f"{path}:{line}: reads '{name}' and changes it in one expression: make it two")
    return bool(broken or found)


def main():
    words = sys.argv[1:]
    flags = words[words.index("--") + 1:] if "--" in words else []
    paths = words[:words.index("--")] if "--" in words else words
    index = Index.create()
    return any([check(index, path, flags) for path in paths])


sys.setrecursionlimit(10000)
sys.exit(main())
