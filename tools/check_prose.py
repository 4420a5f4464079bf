#!/usr/bin/python3
"""check_prose.py - reports sentences that are hard to read in documents and man pages.

check_prose.py [FILE...]; without arguments, every document except those in PENDING.
Prints FILE:LINE, the reason and the sentence.  A sentence is reported if it is long, if it
opens with a noun clause ("What was refused is ..."), or if it has a word of BANNED.  Code
blocks are ignored, a list of code spans counts as one word, and each table cell is a text of its own."""
import re
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
WORDS_MAX = 35

# Not rewritten in plain English yet.  Remove a file from here when it is.
PENDING = set()

# "That is the default" has a pronoun as its subject, "That it is tried is recorded" a clause.
OPENING = re.compile(r"(What|Who|Whoever|Of|That(?! (is|was|are|were|does|needs|works|means)\b))\b")
BANNED = re.compile(r"\b(told|(?:is|are|was|were|be) said)\b", re.I)
SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!vs)(?<!etc)[.!?][)\"'”]*(?=\s+[A-Z0-9(\"“'.-])|[.!?][)\"'”]*\s*$")
CODE = "CODE"
CODE_LIST = re.compile(r"CODE(?: \([^)]*\))?(?:[\s,.]+(?:and |or )?CODE(?: \([^)]*\))?)+")

# Macros of mdoc: those that end a paragraph, and those whose words are prose.
BREAKING = {"Pp", "Sh", "Ss", "It", "Bl", "El", "Bd", "Ed", "D1", "Dl", "Dd", "Dt", "Os", "Rs", "Re"}
PROSE = {"Dq", "Sq", "Qq", "Em", "Pq", "Nd", "Sy", "No"}
CALLABLE = {"Ns", "Ar", "Cm", "Fl", "Op", "Oo", "Oc", "Xr", "Pa", "Ev", "Li", "Ql", "Nm", "Va", "Ic", "Po", "Pc", "Do",
            "Dc", "Ad", "Er", "Dv", *PROSE}


def inline(text):
    """TEXT of Markdown as a reader sees it, of the same number of lines."""
    text = re.sub(r"(`+)(.+?)\1", lambda m: CODE + "\n" * m[2].count("\n"), text, flags=re.S)
    text = re.sub(r"!?\[([^][]*)\]\([^()\s]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", CODE, text)
    return re.sub(r"\*+|(?<!\w)_|_(?!\w)", "", text)


def markdown_paragraphs(lines):
    """(line, text) of each paragraph, list item, heading and table cell."""
    start, held, fence = 0, [], None
    for number, line in enumerate([*lines, ""], 1):
        mark = re.match(r"\s*(```|~~~)", line)
        is_row = line.lstrip().startswith("|")
        if fence or mark or not line.strip() or is_row or re.match(r"\s*([-*+]|\d+\.)\s|#", line):
            if held:
                yield start, inline("\n".join(held))
            held = []
        if mark:
            fence = None if fence else mark[1]
        elif fence:
            continue
        elif is_row:
            is_head = number < len(lines) and re.fullmatch(r"\s*\|[\s|:-]+\|\s*", lines[number])
            cells = [] if is_head else re.split(r"(?<!\\)\|", inline(line.strip().strip("|")))
            yield from ((number, cell.strip()) for cell in cells if re.search(r"\w", cell))
        elif line.strip():
            start = start if held else number
            held.append(line if held else re.sub(r"^\s*([-*+]|\d+\.)\s+|^#+\s*", "", line))


def macro_text(line):
    """The words that a macro line of mdoc adds to its sentence."""
    name, *words = line[1:].split()
    said, in_prose = [], name in PROSE
    for word in words:
        if word in CALLABLE:
            in_prose = word in PROSE
        elif re.fullmatch(r"[.,;:?!)]+", word):
            said.append(("", word))
        else:
            said.append((" ", word if in_prose else CODE))
    if not any(glue for glue, _ in said):
        said.insert(0, (" ", CODE))             # a bare .Nm
    return "".join(glue + word for glue, word in said).strip()


def mdoc_paragraphs(lines):
    start, held, literal = 0, [], False
    for number, line in enumerate([*lines, ".Pp"], 1):
        name = (line[1:].split() or [""])[0] if line.startswith(".") else ""
        literal = name == "Bd" or literal and name != "Ed"
        if name in BREAKING or literal:
            if held:
                yield start, "\n".join(held)
            held = []
        elif line and not line.startswith((".\\\"", "'")) and line != ".":
            start = start if held else number
            held.append(macro_text(line) if name else re.sub(r"\\[&e~]|\\f.", "", line))


def sentences(start, text):
    """(line, sentence) of a paragraph that begins at line START."""
    begin = 0
    for end in [m.end() for m in SENTENCE_END.finditer(text)] + [len(text)]:
        said = text[begin:end]
        if re.search(r"\w", said):
            skipped = len(said) - len(said.lstrip())
            yield start + text[:begin + skipped].count("\n"), " ".join(said.split())
        begin = end


def faults(sentence):
    words = len(re.findall(r"\w[\w'’/.-]*", CODE_LIST.sub(CODE, sentence)))
    if words > WORDS_MAX:
        yield f"{words} words"
    if OPENING.match(sentence.lstrip("(\"'“")) and not sentence.rstrip(")\"'”").endswith("?"):
        yield "opens with a noun clause"
    banned = BANNED.search(sentence)
    if banned:
        yield f"'{banned[0]}'"


def check(path, name):
    lines = path.read_text().split("\n")
    paragraphs = markdown_paragraphs if path.suffix == ".md" else mdoc_paragraphs
    count = 0
    for start, text in paragraphs(lines):
        for line, sentence in sentences(start, text):
            for fault in faults(sentence):
                print(f"{name}:{line}: {fault}: {sentence}")
                count += 1
    return count


def documents():
    for path in sorted([*TREE.glob("*.md"), *TREE.glob("docs/**/*.md"), *TREE.glob("man/*.[0-9]")]):
        name = path.relative_to(TREE)
        if not any(name.match(pattern) for pattern in PENDING):
            yield path, str(name)


def main():
    files = [(Path(name), name) for name in sys.argv[1:]] or documents()
    return sum(check(path, name) for path, name in files) > 0


if __name__ == "__main__":
    sys.exit(main())
