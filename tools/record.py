#!/usr/bin/python3
"""record.py - runs tools/story.sh on a terminal of its own, and writes what it prints as an asciicast (version 2).

    record.py FILE

The story takes a second or two.  The recording is slowed down for reading: commands are typed letter by letter,
and each step waits, so that all of it takes about 90 seconds.  The text is that of the run."""
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
WIDTH, HEIGHT = 110, 32
SECONDS = 90
KEY, LINE, STEP, END = 0.045, 0.6, 2.0, 6.0         # pauses before they are scaled, except for the last


def run():
    """The text of a run, with its colours."""
    main, child = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": str(HEIGHT)}
    env.pop("NO_COLOR", None)
    process = subprocess.Popen([TOOLS / "story.sh"], stdin=subprocess.DEVNULL, stdout=child, stderr=child, env=env)
    os.close(child)
    text = b""
    while True:
        try:
            data = os.read(main, 65536)
        except OSError:             # the end of a terminal
            break
        if not data:
            break
        text += data
    os.close(main)
    if process.wait() != 0:
        sys.exit(f"the story failed:\n{text.decode()}")
    return text.decode()


def pieces(text):
    """(pause before it, text) in order."""
    for line in text.splitlines(keepends=True):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if plain.startswith("  $ "):
            mark = line.index("$ ") + 2
            yield LINE, line[:mark]
            yield from ((KEY, letter) for letter in re.findall(r"\x1b\[[0-9;]*m|\r\n|.", line[mark:]))
        else:
            yield STEP if re.match(r"[A-Z]{5,} ", plain) else LINE, line


def cast(text):
    """The lines of the recording."""
    timed = list(pieces(text))
    scale = (SECONDS - END) / sum(pause for pause, _ in timed)
    yield {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "cloister in one screen"}
    now = 0.0
    for pause, piece in timed:
        now += pause * scale
        yield [round(now, 3), "o", piece]
    yield [SECONDS, "o", ""]


def main():
    text = run()
    Path(sys.argv[1]).write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in cast(text)))


if __name__ == "__main__":
    main()
