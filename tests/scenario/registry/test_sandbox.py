"""Commands and files of a sandbox, over the walls that there are: whatever the agent leaves there, its files are read
and written in the cell, as the agent."""
import json
import os
from contextlib import closing

from operators import wait_until
from sandboxes import Box
from service import Events, Service, UnixConnection

CANARY = "canary-of-the-host"


def test_files_stay_in_the_cell(operator):
    service = Service(operator)
    secret = operator.file("secret", CANARY)
    shared = operator.folder("shared")
    service.post("/v1/agents", {"name": "box", "sandbox": True, "workspace": {"path": str(shared), "mode": "rw"}}).ok(201)
    box = Box(service)
    # Links, upwards and to the host: the cell has no such file, and the service opens none.
    box.sh(f"cd {shared}; ln -s {secret} link; ln -s {operator.base} up; mkfifo fifo; ln -s loop loop; echo in >file; "
           f"ln -s file near; mkdir -p /tmp/d; ln -s /etc/passwd /tmp/passwd")
    assert (shared / "link").resolve().read_text() == CANARY
    paths = (f"{shared}/link", f"{shared}/up/secret", f"{shared}/../secret", str(secret))
    for path in paths:
        assert box.read(path).status == 404, path
    for path in paths:
        answer = box.write(path, b"of the cell")
        assert answer.status in (204, 403, 404), (path, answer.data)
        assert secret.read_text() == CANARY and box.read(path).data != CANARY.encode(), path
    assert box.read(f"{shared}/near").data == b"in\n"
    assert box.read("/tmp/passwd").data == box.sh("cat /etc/passwd").encode() != open("/etc/passwd", "rb").read()
    # What would wait for ever, or has no end.
    for path in (f"{shared}/fifo", "/dev/zero", "/dev/tty", "/dev/ptmx"):
        for answer in (box.read(path), box.write(path, b"x")):
            assert answer.status in (400, 403, 404), (path, answer.data)
    for path in (f"{shared}/loop", "/tmp/d", "/proc/self/mem", "/proc/1/mem", "x" * 300):
        assert box.read(path).status in (400, 403), path
    assert box.write("/proc/self/mem", b"x").status in (400, 403)
    assert box.write("/usr/bin/true", b"x").status == 403
    assert box.read("/proc/self/status").data.startswith(b"Name:\tcloister")
    # Too large, also for one that says that it is empty.
    box.sh("truncate -s 1T /tmp/huge")
    assert box.read("/tmp/huge").error(413, "too_large", "64 MiB")
    data = os.urandom(3 << 20)
    assert box.write("/tmp/new/bin", data).status == 204 and box.read("/tmp/new/bin").data == data
    listed = box.list(str(shared)).ok()
    assert [(e["name"], e["type"]) for e in listed["entries"]] == [
        ("fifo", "pipe"), ("file", "file"), ("link", "link"), ("loop", "link"), ("near", "link"), ("up", "link")]
    box.sh("mkdir /tmp/many; cd /tmp/many; seq 10100 | xargs touch")
    many = box.list("/tmp/many").ok()
    assert len(many["entries"]) == 10000 and many["truncated"]
    assert box.list(f"{shared}/file").status == 400
    with closing(Events(service.socket, box.at("watch", path="/tmp/d"))) as watch:
        events = iter(watch)
        assert next(events)["data"] == {"event": "file.watching", "n": 1, "path": "/tmp/d"}
        box.write("/tmp/d/new", b"x")
        assert next(events)["data"] == {"event": "file.created", "n": 2, "path": "/tmp/d/new"}
    assert box.ask("GET", "file").status == 400
    # Neither kind of process is the service's: they ended, and so does the cell.
    box.kill()
    assert box.read("/tmp/new/bin").error(409, "over")
    assert service.stop() == 0, service.log()


def test_commands_end_with_their_client(operator):
    service = Service(operator)
    service.post("/v1/agents", {"name": "box", "sandbox": True}).ok(201)
    box = Box(service)
    assert box.exec("sh", "-c", "cat; echo e >&2; exit 4", input="é") == (4, "é", "e\n")
    # A client that only hangs up leaves nothing behind, nor does one that reads nothing of much.
    for command in (("sh", "-c", "sleep 1000 & exec sleep 1000"), ("dd", "if=/dev/zero")):
        client, response, _ = box.open(*command)
        client.close()
        response.close()
    wait_until(lambda: not {"sleep", "dd"} & set(box.sh("cat /proc/[0-9]*/comm 2>/dev/null; true").split()), "they are killed")
    # Input, step by step, and a signal.
    client, response, id = box.open("sh", "-c", "read a; echo $a; read b; echo $b$?", stdin=True)
    octets = {"Content-Type": "application/octet-stream"}
    assert box.ask("POST", f"exec/{id}/input", b"one\n", octets).status == 204
    assert json.loads(response.readline())["text"] == "one\n"
    assert box.ask("POST", f"exec/{id}/input", b"", octets, end="true").status == 204
    assert json.loads(response.readline())["text"] == "1\n"
    assert json.loads(response.readline())["exit_code"] == 0
    client.close()
    assert box.ask("POST", f"exec/{id}/input", b"x", octets).status == 404
    # A process in the background keeps its output, and does not hold up the end.
    assert box.exec("sh", "-c", "sleep 1000 & echo done")[1] == "done\n"
    # Nor does the agent, which can open the pipe of init's own program, end that, and write forever.
    with closing(UnixConnection(service.socket)) as client:
        client.request("HEAD", box.at("watch", path="/tmp"))
        assert client.getresponse().status == 200
        box.sh("""for p in /proc/[0-9]*; do grep -q ^cloister-watch $p/cmdline && pid=${p#/proc/}; done 2>/dev/null
               for i in 1 2 3; do yes '{"change":"overflow"}' | dd bs=4092 iflag=fullblock of=/proc/$pid/fd/1 2>/dev/null & done
               until grep -q "wchar: [0-9]\\{6\\}" /proc/$!/io; do :; done; kill -9 $pid""")
        assert service.get("/healthz").status == 200
    box.kill()
    assert service.stop() == 0, service.log()
