"""The real Python SDK of E2B against `cloister serve --e2b`, as a program written for it uses it: first Sandbox, then
AsyncSandbox.  Prints one line for each check.

A handle that is never disconnected can hang Sandbox: a late collection of its stream takes a lock that httpcore holds."""
import asyncio
import faulthandler
import inspect
import io
import os
import sys
import time
import traceback
import urllib.error
import urllib.request
from datetime import datetime, timezone

import e2b
from e2b import (AsyncSandbox, AuthenticationException, CommandExitException, FileNotFoundException,
                 InvalidArgumentException, NotFoundException, PtySize, Sandbox, SandboxException, SandboxQuery,
                 TemplateException, TimeoutException)

AGENT_TIME_S = 600                      # `time` of the agent's limits
EXIT_SIGNAL = -1
STUCK_S = 240                           # then say where


async def settle(value):
    """The result of a call of either SDK."""
    return await value if inspect.isawaitable(value) else value


class Refusal:
    """What a call raised."""

    error = None

    def __init__(self, kind, text=""):
        self.kind, self.text = kind, text

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, trace):
        assert error is not None, f"{self.kind} was not raised"
        if not isinstance(error, self.kind):
            return False
        assert self.text in str(error), error
        self.error = error
        return True


async def run(box, text, **options):
    return await settle(box.commands.run(text, **options))


async def until(look):
    """Ask again until there is an answer: each question is a request, so this does not spin."""
    while not (found := await look()):
        pass
    return found


async def check_create(box, sdk):
    info = await settle(box.get_info())
    assert (info.sandbox_id, info.template_id, info.metadata) == (box.sandbox_id, "base", {}), info
    assert info.state == e2b.SandboxState.RUNNING and info.cpu_count >= 1 and info.memory_mb >= 64, info
    assert 200 < (info.end_at - datetime.now(timezone.utc)).total_seconds() <= 301, info
    assert await settle(box.is_running()) is True
    assert box.get_host(8000).startswith(f"8000-{box.sandbox_id}.e2b.localhost:"), box.get_host(8000)


async def check_run(box, sdk):
    done = await run(box, 'echo out; echo err >&2; printf "é\\0x"')
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out\né\0x", "err\n") and not done.error, done
    async with Refusal(CommandExitException) as refused:
        await run(box, "echo before; exit 7")
    assert (refused.error.exit_code, refused.error.stdout, refused.error.error) == (7, "before\n", "exit status 7")
    async with Refusal(CommandExitException) as refused:
        await run(box, "kill -9 $$")
    assert (refused.error.exit_code, refused.error.error) == (EXIT_SIGNAL, "signal: killed")
    await settle(box.files.make_dir("/tmp/deep/er"))
    assert (await run(box, "pwd", cwd="/tmp/deep/er")).stdout == "/tmp/deep/er\n"
    assert (await run(box, 'echo "$A-$B"', envs={"A": "a b", "B": "$x"})).stdout == "a b-$x\n"
    assert (await run(box, "id -un", user="user")).stdout == "agent\n"
    for wrong in ({"user": "root"}, {"cwd": "/nowhere"}):
        async with Refusal(InvalidArgumentException):
            await run(box, "true", **wrong)
    seen = []
    await run(box, "echo one; echo two >&2", on_stdout=lambda text: seen.append(("out", text)),
              on_stderr=lambda text: seen.append(("err", text)))
    assert sorted(seen) == [("err", "two\n"), ("out", "one\n")], seen
    assert (await run(box, 'head -c 3000000 /dev/zero | tr "\\0" a')).stdout == "a" * 3_000_000


async def check_late_command(box, sdk):
    async with Refusal(TimeoutException):
        await run(box, "echo $$ >/tmp/late; sleep 1000", timeout=1.5)

    async def is_gone():
        return "gone" in (await run(box, "kill -0 $(cat /tmp/late) 2>&1 || echo gone")).stdout
    await until(is_gone)
    # A follower's time ends what it follows only for itself.
    handle = await run(box, "sleep 1000", background=True, timeout=0)
    joined = await settle(box.commands.connect(handle.pid, timeout=1))
    async with Refusal(TimeoutException):
        await settle(joined.wait())
    assert [one.pid for one in await settle(box.commands.list())] == [handle.pid]
    assert await settle(box.commands.kill(handle.pid)) is True
    await settle(handle.disconnect())


async def check_background(box, sdk):
    handle = await run(box, 'while read a; do echo "got $a"; done; echo end', background=True, stdin=True, timeout=0)
    one, = await settle(box.commands.list())
    assert (one.pid, one.cmd, one.args[:2]) == (handle.pid, "/bin/bash", ["-l", "-c"]), one
    await settle(box.commands.send_stdin(handle.pid, "x\n"))
    await settle(handle.disconnect())
    # It goes on without anybody who follows it, and another joins.
    other = await settle(box.commands.connect(handle.pid, timeout=0))
    await settle(other.send_stdin("y\n"))
    await settle(other.close_stdin())
    done = await settle(other.wait())
    assert done.exit_code == 0 and done.stdout.endswith("got y\nend\n"), done
    assert await settle(box.commands.list()) == []
    assert (await settle((await settle(box.commands.connect(handle.pid))).wait())).exit_code == 0
    assert await settle(box.commands.kill(handle.pid)) is False
    async with Refusal(NotFoundException):
        await settle(box.commands.send_stdin(handle.pid, "z"))
    async with Refusal(NotFoundException):
        await settle(box.commands.connect(99999))
    asleep = await run(box, "sleep 1000", background=True)
    assert await settle(asleep.kill()) is True
    async with Refusal(CommandExitException) as refused:
        await settle(asleep.wait())
    assert (refused.error.exit_code, refused.error.error) == (EXIT_SIGNAL, "signal: killed")
    many = await run(box, "wc -c", background=True, stdin=True)
    for _ in range(5):
        await settle(many.send_stdin("b" * 200_000))
    await settle(many.close_stdin())
    assert (await settle(many.wait())).stdout.strip() == "1000000"


async def check_terminal(box, sdk):
    seen = bytearray()
    size = PtySize(rows=24, cols=80)
    follow = {"on_data": seen.extend} if sdk is AsyncSandbox else {}
    pty = await settle(box.pty.create(size, timeout=0, **follow))

    async def read_until(text):
        while text not in seen:
            if sdk is AsyncSandbox:
                await asyncio.sleep(0)
            else:
                _, _, data = next(pty_events)
                seen.extend(data or b"")
    pty_events = iter(pty) if sdk is Sandbox else None
    await settle(box.pty.send_stdin(pty.pid, b'stty size; echo "<$TERM>"\n'))
    await read_until(b"24 80")
    await read_until(b"<xterm-256color>")
    await settle(box.pty.resize(pty.pid, PtySize(rows=30, cols=100)))
    await settle(box.pty.send_stdin(pty.pid, b"stty size\n"))
    await read_until(b"30 100")
    await settle(pty.disconnect())
    again = await settle(box.pty.connect(pty.pid, timeout=0, **follow))
    await settle(box.pty.send_stdin(pty.pid, b"exit 3\n"))
    async with Refusal(CommandExitException) as refused:
        await settle(again.wait())
    assert refused.error.exit_code == 3
    ended = await settle(box.pty.create(size, **follow))
    assert await settle(box.pty.kill(ended.pid)) is True
    async with Refusal(CommandExitException):
        await settle(ended.wait())
    assert await settle(box.pty.kill(ended.pid)) is False


async def check_files(box, sdk):
    files = box.files
    info = await settle(files.write("/tmp/files/a.txt", "hello é"))
    assert (info.name, info.path, info.type) == ("a.txt", "/tmp/files/a.txt", e2b.FileType.FILE), info
    assert await settle(files.read("/tmp/files/a.txt")) == "hello é"
    data = bytes(i * 7 % 251 for i in range(300_000))
    await settle(files.write("/tmp/files/b.bin", data))
    assert await settle(files.read("/tmp/files/b.bin", format="bytes")) == data
    parts = await settle(files.read("/tmp/files/b.bin", format="stream"))
    got = b"".join([part async for part in parts] if sdk is AsyncSandbox else list(parts))
    assert got == data
    await settle(files.write("/tmp/files/a.txt", ""))
    assert await settle(files.read("/tmp/files/a.txt")) == ""
    await settle(files.write("/tmp/files/c.txt", "octets", use_octet_stream=True))
    assert await settle(files.read("/tmp/files/c.txt")) == "octets"
    await settle(files.write("/tmp/files/d.txt", io.BytesIO(b"streamed" * 40_000)))
    assert await settle(files.read("/tmp/files/d.txt", format="bytes")) == b"streamed" * 40_000
    many = [{"path": "/tmp/files/many/1", "data": "one"}, {"path": '/tmp/files/many/2 x', "data": "two\r\n--two"},
            {"path": "/tmp/files/many/3", "data": b""}]
    assert [one.path for one in await settle(files.write_files(many))] == [one["path"] for one in many]
    assert await settle(files.read("/tmp/files/many/2 x")) == "two\r\n--two"
    await settle(files.write("relative.txt", "r"))
    assert (await run(box, "cat relative.txt")).stdout == "r"
    await settle(files.write("~/home.txt", "h"))
    assert (await run(box, "cat ~/home.txt")).stdout == "h"
    async with Refusal(FileNotFoundException):
        await settle(files.read("/tmp/files/none"))
    for name, options in (("/tmp/files", {}), ("/tmp/files/a.txt", {"gzip": True})):
        async with Refusal(InvalidArgumentException):
            await settle(files.write(name, "x", **options))
    async with Refusal(InvalidArgumentException):
        await settle(files.read("/tmp/files"))
    async with Refusal(TemplateException):
        await settle(files.write("/tmp/files/a.txt", "x", metadata={"a": "b"}))


async def check_entries(box, sdk):
    files = box.files
    assert await settle(files.make_dir("/tmp/entries/in/ner")) is True
    assert await settle(files.make_dir("/tmp/entries/in/ner")) is False
    await settle(files.write("/tmp/entries/file", "12345"))
    await run(box, "cd /tmp/entries; chmod 640 file; ln -s file link; mkfifo pipe")
    assert await settle(files.exists("/tmp/entries/file")) is True
    assert await settle(files.exists("/tmp/entries/none")) is False
    file = await settle(files.get_info("/tmp/entries/file"))
    assert (file.name, file.type, file.path, file.size, file.mode, file.permissions, file.owner, file.group,
            file.symlink_target) == ("file", e2b.FileType.FILE, "/tmp/entries/file", 5, 0o640, "-rw-r-----", "agent",
                                     "agent", None), file
    assert abs(file.modified_time.timestamp() - time.time()) < 3600, file
    link = await settle(files.get_info("/tmp/entries/link"))
    assert (link.type, link.symlink_target) == (e2b.FileType.FILE, "/tmp/entries/file"), link

    async def names(**depth):
        return [(one.path[len("/tmp/entries/"):], one.type and one.type.value)
                for one in await settle(files.list("/tmp/entries", **depth))]
    assert await names() == [("file", "file"), ("in", "dir"), ("link", "file")]
    assert await names(depth=2) == [("file", "file"), ("in", "dir"), ("in/ner", "dir"), ("link", "file")]
    moved = await settle(files.rename("/tmp/entries/file", "/tmp/entries/in/moved"))
    assert (moved.name, moved.path, moved.size) == ("moved", "/tmp/entries/in/moved", 5)
    await settle(files.remove("/tmp/entries/in"))
    assert await settle(files.exists("/tmp/entries/in/moved")) is False
    for refused in (files.list, files.get_info):
        async with Refusal(FileNotFoundException):
            await settle(refused("/tmp/entries/none"))
    async with Refusal(FileNotFoundException):
        await settle(files.rename("/tmp/entries/none", "/tmp/x"))
    async with Refusal(InvalidArgumentException):
        await settle(files.list("/tmp/entries/pipe"))
    await settle(files.remove("/tmp/entries/none"))


async def check_watch(box, sdk):
    files, seen, ended = box.files, [], []
    await settle(files.make_dir("/tmp/watched/sub"))
    follow = {"on_event": seen.append, "on_exit": ended.append, "timeout": 0} if sdk is AsyncSandbox else {}
    watch = await settle(files.watch_dir("/tmp/watched", recursive=True, **follow))

    async def until_seen(kind, name):
        async def look():
            if sdk is Sandbox:
                seen.extend(watch.get_new_events())
            else:
                await asyncio.sleep(0)
            return any((one.type.value, one.name) == (kind, name) for one in seen)
        await until(look)
    await settle(files.write("/tmp/watched/sub/new", "x"))
    await until_seen("create", "sub/new")
    await until_seen("write", "sub/new")
    await run(box, "chmod 600 /tmp/watched/sub/new")
    await until_seen("chmod", "sub/new")
    await settle(files.rename("/tmp/watched/sub/new", "/tmp/watched/sub/old"))
    await until_seen("rename", "sub/new")
    await until_seen("create", "sub/old")
    await settle(files.remove("/tmp/watched/sub/old"))
    await until_seen("remove", "sub/old")
    await settle(watch.stop())
    if sdk is AsyncSandbox:
        assert ended == [None], ended
        late = await files.watch_dir("/tmp/watched", seen.append, on_exit=ended.append, timeout=1)
        while len(ended) == 1:
            await asyncio.sleep(0)
        assert isinstance(ended[1], TimeoutException), ended
        await late.stop()
    follow = {"on_event": seen.append} if sdk is AsyncSandbox else {}
    async with Refusal(FileNotFoundException):
        await settle(files.watch_dir("/tmp/none", **follow))
    async with Refusal(InvalidArgumentException):
        await settle(files.watch_dir("/etc/passwd", **follow))
    async with Refusal(TemplateException):
        await settle(files.watch_dir("/tmp", include_entry=True, **follow))


async def check_signed(box, sdk):
    def status(url, data=None, kind="application/octet-stream"):
        request = urllib.request.Request(url, data, {"Content-Type": kind} if data is not None else {})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, b""
    await settle(box.files.write("/tmp/signed", "by address"))
    url = box.download_url("/tmp/signed", use_signature_expiration=60)
    assert status(url) == (200, b"by address")
    assert status(box.upload_url("/tmp/up"), b"uploaded")[0] == 200
    assert await settle(box.files.read("/tmp/up")) == "uploaded"
    assert status(box.download_url("/tmp/signed", use_signature_expiration=-5))[0] == 401
    assert status(url, b"one for reading does not write")[0] == 401


async def check_list(box, sdk):
    other = await settle(sdk.create("base", timeout=60, metadata={"run": "a b&c=%", "n": "1"}, envs={"WHO": "other"}))
    try:
        assert (await run(other, "echo $WHO")).stdout == "other\n"
        assert (await run(other, "echo $WHO", envs={"WHO": "again"})).stdout == "again\n"
        assert (await run(box, 'echo "[$WHO]"')).stdout == "[]\n"
        pages = sdk.list(query=SandboxQuery(metadata={"run": "a b&c=%"}))
        one, = await settle(pages.next_items())
        assert (one.sandbox_id, one.metadata["n"], pages.has_next) == (other.sandbox_id, "1", False), one
        pages, ids = sdk.list(limit=1), []
        while pages.has_next:
            ids += [item.sandbox_id for item in await settle(pages.next_items())]
        assert ids == [other.sandbox_id, box.sandbox_id], ids
        metric, = await settle(other.get_metrics())
        # Without a cgroup nobody counts a user's memory.
        assert metric.mem_used < metric.mem_total and metric.cpu_used_pct >= 0, metric
        assert metric.mem_used > 0 or os.geteuid() != 0, metric
    finally:
        assert await settle(other.kill()) is True
    assert await settle(other.is_running()) is False
    assert await settle(other.kill()) is False
    for refused in (other.get_info, lambda: sdk.connect(other.sandbox_id)):
        async with Refusal(NotFoundException):
            await settle(refused())
    async with Refusal((NotFoundException, TimeoutException)):
        await run(other, "true")
    async with Refusal(TimeoutException):
        await settle(other.files.read("/tmp/x"))


async def check_timeouts(box, sdk):
    await settle(box.set_timeout(120))
    end = (await settle(box.get_info())).end_at
    assert abs((end - datetime.now(timezone.utc)).total_seconds() - 120) < 30, end
    again = await settle(sdk.connect(box.sandbox_id, timeout=60))
    assert (await settle(again.get_info())).end_at == end
    await settle(again.connect(timeout=200))
    assert (await settle(box.get_info())).end_at > end
    await settle(again.files.write("/tmp/again", "same"))
    assert await settle(box.files.read("/tmp/again")) == "same"
    for refused in (lambda: box.set_timeout(6 * AGENT_TIME_S), lambda: sdk.create("base", timeout=6 * AGENT_TIME_S)):
        async with Refusal(SandboxException, "time limit"):
            await settle(refused())
    async with Refusal(NotFoundException):
        await settle(sdk.set_timeout("0123456789abcdef", 1))
    short = await settle(sdk.create("base", timeout=4))
    async with Refusal(TimeoutException):
        await run(short, "sleep 1000", timeout=0)
    async with Refusal(NotFoundException):
        await settle(short.get_info())


async def check_errors(box, sdk):
    async with Refusal(AuthenticationException):
        await settle(sdk.create("base", api_key="e2b_" + "0" * 40))
    for options, text in (
            ({"template": "nobody"}, "no agent 'nobody'"), ({"template": "closed"}, "sandbox: true"),
            ({"volume_mounts": {"/v": "v"}}, "volumes are not served"),
            ({"lifecycle": {"on_timeout": "pause"}}, "not paused"),
            ({"network": {"deny_out": ["0.0.0.0/0"]}}, "policy"),
            ({"template": "net", "allow_internet_access": False}, "policy")):
        async with Refusal(SandboxException, text):
            await settle(sdk.create(**options))
    assert await settle((await settle(sdk.create(allow_internet_access=False))).kill()) is True
    for refused in (box.pause, box.create_snapshot):
        async with Refusal(SandboxException, "not served"):
            await settle(refused())


async def check_git(box, sdk):
    await settle(box.git.init("/tmp/repository"))
    await settle(box.files.write("/tmp/repository/file", "x"))
    await settle(box.git.add("/tmp/repository"))
    await settle(box.git.commit("/tmp/repository", "first", author_name="a", author_email="a@example.com"))
    assert (await settle(box.git.status("/tmp/repository"))).is_clean


async def check_end(box, sdk):
    running = await run(box, "sleep 1000", background=True, timeout=0)
    assert await settle(box.kill()) is True
    async with Refusal(TimeoutException):
        await settle(running.wait())
    assert await settle(box.is_running()) is False


CHECKS = [function for name, function in list(globals().items()) if name.startswith("check_")]


faulthandler.dump_traceback_later(STUCK_S, exit=True)


async def main():
    failed = 0
    for sdk in (Sandbox, AsyncSandbox):
        box = await settle(sdk.create())
        for check in CHECKS:
            name = f"{sdk.__name__}: {check.__name__[len('check_'):]}"
            try:
                await check(box, sdk)
                print("ok", name, flush=True)
            except Exception:
                failed += 1
                print("not ok", name, traceback.format_exc(), flush=True)
    return failed


sys.exit(1 if asyncio.run(main()) else 0)
