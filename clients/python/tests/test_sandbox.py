"""Sandboxes against a real `cloister serve`: CLOISTER_TEST_SOCKET is where it listens."""
import asyncio
import os
import sys
import urllib.request

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import cloister

SOCKET = os.environ.get("CLOISTER_TEST_SOCKET")
pytestmark = pytest.mark.skipif(SOCKET is None, reason="CLOISTER_TEST_SOCKET is not set")


@pytest.fixture(scope="module")
def client():
    client = cloister.Client(socket=SOCKET)
    client.agents.register(name="py-box", sandbox=True)
    return client


@pytest.fixture(scope="module")
def box(client):
    with cloister.Sandbox.create("py-box", client, timeout="5m", record="full") as box:
        assert box.status()["resolved"]["record"] == "full"
        yield box


def refused(call, *words, **how):
    with pytest.raises(cloister.CloisterError) as caught:
        call(*words, **how)
    return caught.value


def test_commands(box):
    done = box.exec(["sh", "-c", 'cat; echo "$WORD" >&2; pwd; exit 3'], input="in\n", env={"WORD": "über"}, cwd="/tmp").result()
    assert (done.exit_code, done.stdout, done.stderr, done.timed_out) == (3, "in\n/tmp\n", "über\n", False)
    assert box.exec(["printf", "\\377\\000x"]).result().stdout_bytes == b"\xff\x00x"
    assert box.exec(["cat"], input=b"\x00\xff").result().stdout_bytes == b"\x00\xff"
    assert "no such command in the cell" in refused(box.exec, ["no-such-program"]).message
    late = box.exec(["sleep", "1000"], timeout="50ms").result()
    assert (late.timed_out, late.exit_code) == (True, 137)
    assert refused(box.exec, "ls").code == "invalid"


def test_streams(box):
    command = box.exec(["sh", "-c", 'while read line; do echo "got $line"; done; echo end >&2'], stdin=True)
    seen = []
    command.write("one\n")
    for part in command:
        seen.append((part.stream, part.text))
        if part.text == "got one\n":
            command.write(b"two\n")
        if part.text == "got two\n":
            command.end()
    assert seen == [("stdout", "got one\n"), ("stdout", "got two\n"), ("stderr", "end\n")]
    assert command.result().stdout == "got one\ngot two\n"
    assert refused(command.write, "more").code == "not_found"


def test_signals_and_terminals(box):
    stubborn = box.exec(["sh", "-c", 'trap "echo caught; exit 7" TERM; echo ready; while :; do sleep 0.01; done'])
    for part in stubborn:
        if part.text == "ready\n":
            stubborn.signal("TERM")
    assert (stubborn.result().exit_code, stubborn.result().stdout) == (7, "ready\ncaught\n")
    terminal = box.exec(["sh", "-c", "stty size; read x; stty size"], tty=(33, 77))
    assert next(iter(terminal)).text == "33 77\r\n"
    terminal.resize(20, 60)
    terminal.write("\n")
    assert terminal.result().stdout.endswith("20 60\r\n")
    with box.exec(["sh", "-c", "echo ready; exec sleep 1000"]) as gone:
        next(iter(gone))
    while box.exec(["pgrep", "-x", "sleep"]).result().exit_code == 0:    # until it is killed
        pass


def test_files(box):
    whole = b"canary" * 400000
    box.files.write("/tmp/a/b/file", whole)
    assert box.files.read("/tmp/a/b/file") == whole
    box.files.write("/tmp/a/text", "über\n")
    box.exec(["sh", "-c", 'cd /tmp/a; ln -s /etc/passwd l; touch "$(printf "\\377")"']).result()
    folder = box.files.list("/tmp/a")
    assert [(e.name_bytes, e.type, e.target) for e in folder] == [
        (b"\xff", "file", None), (b"b", "folder", None), (b"l", "link", "/etc/passwd"), (b"text", "file", None)]
    assert not folder.truncated and box.files.read_text("/tmp/a/text") == "über\n"
    assert refused(box.files.read, "/none").status == refused(box.files.list, "/none").status == 404
    with box.files.watch("/tmp/a", recursive=True) as watch:
        box.files.write("/tmp/a/new/file", "x")
        changes = iter(watch)
        assert [(c.change, c.path) for c in (next(changes), next(changes))] == [
            ("created", "/tmp/a/new"), ("created", "/tmp/a/new/file")]
    assert refused(box.files.watch, "/none").code == "not_found"


def test_ports(box):
    box.files.write("/tmp/web/text", "canary")
    server = box.exec(["python3", "-u", "-m", "http.server", "8124", "--bind", "127.0.0.1"], cwd="/tmp/web")
    next(iter(server))
    published = box.publish(8124)
    assert published.url == f"http://localhost:{published.port}" and published == box.publish(8124)
    with urllib.request.urlopen(f"http://127.0.0.1:{published.port}/text") as answer:
        assert answer.read() == b"canary"
    server.kill()
    assert server.result().exit_code == 137


def test_a_terminal(client):
    client.agents.register(name="py-desk", sandbox=True, terminal=True,
                           command=["sh", "-c", 'while read a; do echo "got $a"; stty size; done; exit 3'])
    box = cloister.Sandbox.create("py-desk", client, timeout="5m")
    text = b""
    with box.attach(30, 90) as terminal:
        terminal.write("one\n")
        for data in terminal:
            text += data
            if b"30 90" in text:
                break
    assert b"got one\r\n30 90" in text and terminal.exit_code is None and list(terminal) == []
    assert refused(terminal.write, "x").code == "not_found"
    # What was there is shown to the next; the end of the cell is the end of its terminal.
    again, text = box.attach(), b""
    again.resize(31, 91)
    again.write("two\n")
    for data in again:
        text += data
        if b"31 91" in text:
            again.write(b"\x04")
            break
    rest = b"".join(again)
    assert b"got one" in text and b"31 91" in text + rest and again.exit_code == 3
    assert refused(box.attach).code == "over"


def test_asynchronously(client):
    async def use():
        async with client.sandboxes.create("py-box") as box:
            seen = [part.text async for part in box.exec(["echo", "hello"])]
            watch = box.files.watch("/tmp")
            box.files.write("/tmp/x", "")
            async for change in watch:
                assert (change.change, change.path) == ("created", "/tmp/x")
                break
            watch.close()
            return box, seen

    box, seen = asyncio.run(use())
    assert seen == ["hello\n"] and box.status()["state"] == "cancelled"


def test_the_end(client):
    box = client.sandboxes.create("py-box")
    assert cloister.Sandbox.connect(box.id, client).id == box.id
    running = box.exec(["sleep", "1000"])
    assert box.kill()["state"] == "cancelled"
    assert refused(running.result).code in ("over", "unreachable")
    for call in (lambda: box.files.read("/etc/passwd"), lambda: box.exec(["true"]), lambda: client.sandboxes.connect(box.id)):
        assert refused(call).code == "over"
    client.agents.register(name="py-plain", command=["true"])
    assert "is no sandbox" in refused(client.sandboxes.create, "py-plain").message
    with client.sandboxes.create("py-box", timeout="1s") as box:
        refused(box.exec(["sleep", "1000"]).result)
        assert client.dispatches.get(box.id).ended["state"] == "timed_out"
