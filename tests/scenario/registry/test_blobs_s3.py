"""Contents of files in S3: with servers that others wrote, and a front that fails as servers and networks do."""
import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dispatches import agent, await_over, capability, detach, dispatch
from operators import children_of, is_alive, status_of, wait_until
from ports import free_port
from s3_servers import BUCKET, Place, answers, cut, error, front_of, server_of, stall, stop_all, times
from service import Service

SECONDS = 240


@pytest.fixture(scope="module", autouse=True)
def servers():
    yield
    stop_all()


@pytest.fixture(params=["swift", "s3rver"])
def server(request, tmp_path_factory):
    return server_of(request.param, tmp_path_factory)


@pytest.fixture
def s3rver(tmp_path_factory):
    return server_of("s3rver", tmp_path_factory)


@pytest.fixture
def swift(tmp_path_factory):
    return server_of("swift", tmp_path_factory)


@pytest.fixture
def place(operator, server):
    return Place(operator, server, server.port)


@pytest.fixture
def behind(operator, s3rver):
    """A place, and the front that leads to it."""
    with front_of(s3rver) as front:
        yield Place(operator, s3rver, front.port, timeout=2), front


def folder_of(operator):
    return operator.base / "data/registry"


def local(operator):
    """Hashes of the blobs that this machine has."""
    return {a.name + b.name for a in (folder_of(operator) / "blobs").iterdir() for b in a.iterdir()}


def forget(operator):
    """Another machine with the same database: it has no blob, and no folder of a capability."""
    for part in ("blobs", "trees", "tmp"):
        for path in (folder_of(operator) / part).iterdir():
            for folder, _, _ in os.walk(path):
                os.chmod(folder, 0o700)
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def fails(operator, *words):
    """The one sentence in which `cloister` gives up."""
    return operator.cloister(*words, seconds=SECONDS).sentence()


# ---- what is kept --------------------------------------------------------------------------------


def test_a_dispatch_and_another_machine(operator, place):
    hello = f"hello {os.urandom(8).hex()}\n"
    capability(operator, "c", {"hello.txt": hello})
    assert place.has(hello)
    agent(operator, "a", "cat /capabilities/c/hello.txt; cat; echo left >/out/file", capabilities=["c"])
    done = dispatch(operator, "a", "--input", operator.file("in", "given"))
    assert done.ok() == hello + "given"
    # All that this machine has is there.
    assert {"owner", *(f"blobs/{hash[:2]}/{hash[2:]}" for hash in local(operator))} == place.server.keys(place.prefix)
    assert place.has("left\n") and place.has("given")
    id = json.loads(operator.cloister("dispatches", "--json").ok())[0]["id"]

    forget(operator)
    operator.cloister("dispatches", "files", id, "--to", operator.home / "got").ok()
    assert (operator.home / "got/file").read_text() == "left\n"
    assert hashlib.sha256(b"left\n").hexdigest() in local(operator)
    # The input is in the registry's folder before the cell needs it.
    assert dispatch(operator, "a", "--input", operator.file("in", "given")).ok() == hello + "given"
    assert list((folder_of(operator) / "tmp").iterdir()) == []


def test_the_service(operator, place):
    env = {name: operator.env.pop(name) for name in ("CLOISTER_BLOBS", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    agent(operator, "a", "env; cat; echo left >/out/file")
    service = Service(operator, "--blobs", env.pop("CLOISTER_BLOBS"), env=env)
    id = service.post("/v1/dispatches", {"agent": "a", "input": "given"}).ok(202)["id"]
    await_over(operator, id)
    assert place.has("left\n") and place.has("given")
    told = service.get(f"/v1/dispatches/{id}/output?stream=stdout").data.decode()
    assert "given" in told and "AWS_" not in told and place.server.secret not in told
    forget(operator)
    assert service.get(f"/v1/dispatches/{id}/files/file").data == b"left\n"
    assert service.stop() == 0


def test_a_large_one_in_parts(operator, server):
    with front_of(server) as front:
        place = Place(operator, server, front.port)
        data = os.urandom(1 << 20) * 70
        operator.folder("big", {"capability.yaml": '{"name": "big"}', "big.bin": data})
        operator.cloister("capability", "register", operator.base / "big", seconds=SECONDS).ok()
        parts = [request.path for request in front.requests("PUT", "partNumber=")]
        assert len(parts) == 3 and len(front.requests("POST", "uploadId=")) == 1
        assert place.has(data)
        forget(operator)
        agent(operator, "a", "sha256sum </capabilities/big/big.bin", capabilities=["big"])
        assert hashlib.sha256(data).hexdigest() in dispatch(operator, "a", seconds=SECONDS).ok()


def test_what_was_there_before(operator, server):
    """Blobs of a time without S3 are put there when something new refers to them."""
    content = os.urandom(8).hex()
    capability(operator, "c", {"f": content})
    place = Place(operator, server, server.port)
    assert not place.has(content)
    capability(operator, "c2", {"f": content})
    assert place.has(content)


def test_host_style(operator, swift):
    place = Place(operator, swift, 0, endpoint=f"http://localhost:{swift.port}", style="host")
    content = os.urandom(8).hex()
    capability(operator, "c", {"f": content})
    assert place.has(content)
    forget(operator)
    agent(operator, "a", "cat /capabilities/c/f", capabilities=["c"])
    assert dispatch(operator, "a").ok() == content


def test_encryption_and_conditions(operator, s3rver):
    with front_of(s3rver) as front:
        place = Place(operator, s3rver, front.port, sse="aws:kms", kms_key="arn:aws:kms:x:1:key/k")
        content = os.urandom(8).hex()
        capability(operator, "c", {"f": content})
        put, = front.requests("PUT", "/blobs/")
        assert put.fields["x-amz-server-side-encryption"] == "aws:kms"
        assert put.fields["x-amz-server-side-encryption-aws-kms-key-id"] == "arn:aws:kms:x:1:key/k"
        assert put.fields["if-none-match"] == "*"
        assert put.fields["x-amz-content-sha256"] == hashlib.sha256(content.encode()).hexdigest()
        for name in ("x-amz-server-side-encryption", "if-none-match", "host"):
            assert name in put.fields["authorization"]
        # It is there: nothing is put again.
        capability(operator, "c2", {"f": content})
        assert len(front.requests("PUT", "/blobs/")) == 1 and place.has(content)


# ---- what is wrong there ----------------------------------------------------------------------------


def test_a_changed_object(operator, place):
    content = f"good {os.urandom(8).hex()}"
    capability(operator, "c", {"f": content})
    agent(operator, "a", "cat /capabilities/c/f", capabilities=["c"])
    place.server.client().put_object(Bucket=BUCKET, Key=place.key(content), Body=content.replace("good", "evil").encode())
    forget(operator)
    done = dispatch(operator, "a")
    assert done.status != 0 and "evil" not in done.out
    assert "somebody has changed it there" in done.err
    assert hashlib.sha256(content.encode()).hexdigest() not in local(operator)
    assert list((folder_of(operator) / "tmp").iterdir()) == []


def test_one_that_was_cut_is_replaced(operator, place):
    content = f"good {os.urandom(8).hex()}"
    place.server.client().put_object(Bucket=BUCKET, Key=place.key(content), Body=b"go")
    capability(operator, "c", {"f": content})
    assert place.server.client().get_object(Bucket=BUCKET, Key=place.key(content))["Body"].read() == content.encode()


def test_a_missing_one(operator, place):
    content = os.urandom(8).hex()
    capability(operator, "c", {"f": content})
    agent(operator, "a", "true", capabilities=["c"])
    place.server.client().delete_object(Bucket=BUCKET, Key=place.key(content))
    forget(operator)
    done = dispatch(operator, "a")
    assert done.status != 0 and f"there is no such blob in s3://{BUCKET}/{place.prefix}" in done.err


# ---- servers and networks that fail -----------------------------------------------------------------


def test_a_torn_answer_goes_on(operator, behind):
    place, front = behind
    data = os.urandom(3 << 20)
    capability(operator, "c", {"f": data})
    agent(operator, "a", "sha256sum </capabilities/c/f", capabilities=["c"])
    forget(operator)
    front.plans.append(times(2, "GET", place.key(data), cut(0.5)))
    assert hashlib.sha256(data).hexdigest() in dispatch(operator, "a").ok()
    ranges = [request.fields.get("range") for request in front.requests("GET", place.key(data))]
    assert len(ranges) == 3 and ranges[0] is None
    assert ranges[1] == f"bytes={3 << 19}-" and int(ranges[2][6:-1]) > 3 << 19


@pytest.mark.parametrize("act", ["503", "SlowDown", "429", "500", "silent"])
def test_failures_that_pass(operator, behind, act):
    place, front = behind
    content = os.urandom(8).hex()
    plan = {"503": answers(503), "SlowDown": answers(503, error("SlowDown")), "429": answers(429, fields=[("Retry-After", "1")]),
            "500": answers(500, error("InternalError")), "silent": stall(front)}[act]
    front.plans.append(times(2, "PUT", "/blobs/", plan))
    capability(operator, "c", {"f": content})
    assert len(front.requests("PUT", "/blobs/")) == 3 and place.has(content)


def test_failures_that_do_not_pass(operator, behind):
    place, front = behind
    front.plans.append(answers(503, error("SlowDown", Message="Please reduce your request rate.")))
    operator.folder("c", {"capability.yaml": '{"name": "c"}', "f": "x"})
    told = fails(operator, "capability", "register", operator.base / "c")
    assert "503 SlowDown: Please reduce your request rate." in told and f"s3://{BUCKET}/{place.prefix}" in told
    assert 2 < len(front.seen) < 10
    assert list((folder_of(operator) / "tmp").iterdir()) == [] and local(operator) == set()


def test_a_result_waits_until_it_can_be_kept(operator, behind):
    place, front = behind
    agent(operator, "a", "echo done >/out/file; echo said")
    front.plans.append(times(8, "PUT", "/blobs/", answers(403, error("AccessDenied"))))
    assert dispatch(operator, "a", seconds=SECONDS).ok() == "said\n"
    assert len(front.requests("PUT", "/blobs/")) > 8 and place.has("done\n") and place.has("said\n")


def test_an_input_of_a_dispatch_that_waits(operator, place):
    agent(operator, "first", "while [ ! -e /out/go ]; do sleep 0.05; done")
    agent(operator, "second", "cat")
    service = Service(operator, "--concurrency", "1")
    first = service.post("/v1/dispatches", {"agent": "first"}).ok(202)["id"]
    cell = wait_until(lambda: next(iter(operator.cells()), None), "it runs")["cell"]
    second = service.post("/v1/dispatches", {"agent": "second", "input": "given"}).ok(202)["id"]
    forget(operator)
    # The agent may end, and its cell, before the command's own end is told.
    operator.cloister("exec", cell, "--", "touch", "/out/go")
    await_over(operator, first)
    assert await_over(operator, second)["state"] == "finished"
    assert service.get(f"/v1/dispatches/{second}/output?stream=stdout").data == b"given"
    assert service.stop() == 0


@pytest.mark.parametrize("status, body, fields, parts", [
    (403, error("AccessDenied", Message="Access Denied"), [], ["denies the key 'S3RVER' s3:PutObject on s3://"]),
    (403, error("InvalidAccessKeyId"), [], ["does not know the key 'S3RVER'"]),
    (403, error("SignatureDoesNotMatch"), [], ["the secret of the key 'S3RVER' is another one"]),
    (403, error("RequestTimeTooSkewed"), [("Date", "Thu, 19 Nov 2020 04:11:56 GMT")], ["clock", "set the clock"]),
    (301, error("PermanentRedirect"), [("x-amz-bucket-region", "us-west-2")], ["in the region 'us-west-2'", "region=us-west-2"]),
    (400, error("AuthorizationHeaderMalformed", Region="us-west-2"), [], ["in the region 'us-west-2'"]),
    (404, error("NoSuchBucket"), [], ["there is no bucket 'blob-box'", "create it"]),
    (400, error("ExpiredToken"), [], ["has expired"]),
])
def test_refusals_are_not_repeated(operator, behind, status, body, fields, parts):
    _, front = behind
    front.plans.append(times(-1, "PUT", "/blobs/", answers(status, body, fields)))
    operator.folder("c", {"capability.yaml": '{"name": "c"}', "f": "x"})
    told = fails(operator, "capability", "register", operator.base / "c")
    for part in parts:
        assert part in told, told
    assert len(front.requests("PUT", "/blobs/")) == 1


def test_a_refusal_without_a_body(operator, behind):
    """The answer to HEAD has none, so the reason is asked for."""
    place, front = behind
    front.plans.append(lambda handler, request: "/blobs/" in request.path and
                       handler.answer(403, error("InvalidAccessKeyId")))
    operator.folder("c", {"capability.yaml": '{"name": "c"}', "f": "x"})
    assert "does not know the key" in fails(operator, "capability", "register", operator.base / "c")
    assert [request.method for request in front.seen if "/blobs/" in request.path] == ["HEAD", "GET"]


def test_a_server_without_conditions(operator, behind):
    place, front = behind
    content = os.urandom(8).hex()

    def plan(handler, request):
        return "if-none-match" in request.fields and handler.answer(501, error("NotImplemented"))
    front.plans.append(plan)
    capability(operator, "c", {"f": content})
    # The owner's name is put twice: after that, it is known.
    assert place.has(content) and len(front.requests("PUT")) == 3


@pytest.mark.parametrize("url, part", [
    ("s3://blob-box?endpoint=http://127.0.0.1:{port}", "cannot reach '127.0.0.1'"),
    ("s3://blob-box?endpoint=https://nowhere.invalid", "nowhere.invalid"),
    ("s3://blob-box?endpoint=http://192.0.2.1", "no TLS"),
    ("s3://Box", "name of a bucket"),
    ("file:///tmp", "s3://BUCKET/PREFIX"),
])
def test_places_that_are_none(operator, url, part):
    operator.env |= {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    operator.folder("c", {"capability.yaml": '{"name": "c"}', "f": "x"})
    operator.env["CLOISTER_BLOBS"] = url.format(port=free_port())
    assert part in fails(operator, "capability", "register", operator.base / "c")
    told = json.loads(operator.cloister("doctor", "--json").out)
    blobs, = [check for check in told["checks"] if check["name"] == "blobs"]
    assert blobs["state"] == "missing" and part in blobs["found"] and told["can_run"] in (True, False)


def test_doctor(operator, place):
    def check():
        told = json.loads(operator.cloister("doctor", "--json").out)
        return next(check for check in told["checks"] if check["name"] == "blobs")
    assert check() == {"name": "blobs", "state": "ok", "todo": None,
                       "found": f"s3://{BUCKET}/{place.prefix}/ at 127.0.0.1 can be read and written"}
    assert place.server.keys(place.prefix) == set()
    operator.env["AWS_SECRET_ACCESS_KEY"] = "another"
    assert "is another one" in check()["found"]


# ---- unused ones ---------------------------------------------------------------------------------------


def prune(operator):
    return json.loads(operator.cloister("dispatches", "prune", "--json").ok())


def test_collecting(operator, s3rver):
    place = Place(operator, s3rver, s3rver.port)
    used, unused, young = (os.urandom(8).hex() for _ in range(3))
    capability(operator, "c", {"f": used})
    for content in (unused, young):
        s3rver.client().put_object(Bucket=BUCKET, Key=place.key(content), Body=content.encode())
    for content in (used, unused):
        s3rver.age(place.key(content))
    assert prune(operator) == {"dispatches": 0, "blobs": 1, "bytes": len(unused)}
    assert place.has(used) and place.has(young) and not place.has(unused)
    assert place.has(unused, "trash")
    # There it stays for a day.
    assert prune(operator)["blobs"] == 0 and place.has(unused, "trash")
    s3rver.age(place.key(unused, "trash"))
    assert prune(operator)["blobs"] == 0 and not place.has(unused, "trash")
    assert place.has(used) and not place.has(used, "trash")


def test_collecting_from_more_than_a_page(operator, s3rver):
    """A page has a thousand; what is to be removed is behind it, and among objects that are no blobs."""
    place = Place(operator, s3rver, s3rver.port)
    capability(operator, "c", {"f": "x"})
    s3, last = s3rver.client(), f"{place.prefix}/blobs/ff/{'f' * 62}"
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda i: s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}/blobs/{i % 200:02x}/{i:062x}", Body=b""),
                          range(1100)):
            pass
    for key in last, f"{place.prefix}/blobs/note", f"{place.prefix}/other":
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"last")
        s3rver.age(key)
    assert prune(operator) == {"dispatches": 0, "blobs": 1, "bytes": 4}
    left = s3rver.keys(place.prefix)
    assert last.replace(place.prefix + "/", "") not in left and {"blobs/note", "other"} < left and len(left) == 1105


def test_one_prefix_for_one_database(operator, place):
    """Another one would remove what this one has put."""
    content = os.urandom(8).hex()
    folder = operator.folder("c", {"capability.yaml": '{"name": "c"}', "f": content})
    operator.cloister("capability", "register", folder).ok()
    other = {"CLOISTER_DATA_DIR": str(operator.folder("other")), "CLOISTER_STORE": ""}
    Path(other["CLOISTER_DATA_DIR"]).chmod(0o700)
    for words in ("capability", "register", folder), ("dispatches", "prune"):
        told = operator.cloister(*words, env=other).sentence()
        assert "are those of another database" in told and f"'{place.prefix}/owner'" in told
    assert place.has(content)
    # The first is gone for good.
    place.server.client().delete_object(Bucket=BUCKET, Key=f"{place.prefix}/owner")
    operator.cloister("capability", "register", folder, env=other).ok()
    assert "are those of another database" in operator.cloister("dispatches", "prune").sentence()


def test_collected_in_the_moment_of_its_use(operator, s3rver):
    place = Place(operator, s3rver, s3rver.port)
    content = os.urandom(8).hex()
    capability(operator, "c", {"f": content})
    agent(operator, "a", "cat /capabilities/c/f", capabilities=["c"])

    def lose():
        s3 = s3rver.client()
        s3.copy_object(Bucket=BUCKET, Key=place.key(content, "trash"), CopySource={"Bucket": BUCKET, "Key": place.key(content)})
        s3.delete_object(Bucket=BUCKET, Key=place.key(content))
        forget(operator)
    # Somebody who reads it finds it, and so does the next collection.
    lose()
    assert dispatch(operator, "a").ok() == content
    assert place.has(content)
    lose()
    prune(operator)
    assert place.has(content) and not place.has(content, "trash")
    # Somebody who refers to it anew puts it back.
    lose()
    capability(operator, "c2", {"f": content})
    assert place.has(content)


def test_an_old_one_becomes_young(operator, s3rver):
    place = Place(operator, s3rver, s3rver.port)
    content = os.urandom(8).hex()
    capability(operator, "c", {"f": content})

    def modified():
        return s3rver.client().head_object(Bucket=BUCKET, Key=place.key(content))["LastModified"]
    fresh = modified()
    s3rver.age(place.key(content), 7 * 3600)
    assert modified() < fresh
    capability(operator, "c2", {"f": content})
    assert modified() >= fresh


# ---- the key ----------------------------------------------------------------------------------------------


def environments(pid):
    """What the environments of PID and of all below it hold."""
    found = {}
    for each in [pid, *children_of(pid)]:
        try:
            found[each] = Path(f"/proc/{each}/environ").read_bytes()
        except OSError:
            continue
        if each != pid:
            found |= environments(each)
    return found


def test_the_key_is_nowhere_else(operator, swift):
    """Not in a cell, not in the processes that keep it, not on a disk."""
    place = Place(operator, swift, swift.port)
    operator.env["AWS_SESSION_TOKEN"] = ""
    agent(operator, "b", "env; cat /proc/*/environ 2>/dev/null; while [ ! -e /out/go ]; do sleep 0.05; done")
    id = detach(operator, "b")
    cell = wait_until(lambda: next(iter(operator.cells()), None), "it runs")
    found = environments(cell["supervisor"])
    assert len(found) > 1
    assert not [pid for pid, text in found.items() if swift.secret.encode() in text or b"AWS_ACCESS_KEY_ID" in text]
    assert swift.secret not in operator.cloister("exec", cell["cell"], "--", "sh", "-c", "env; cat /proc/*/environ").out
    operator.cloister("exec", cell["cell"], "--", "touch", "/out/go")
    await_over(operator, id)
    assert place.server.keys(place.prefix)
    for folder, _, names in os.walk(operator.base):
        for name in names:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                assert swift.secret.encode() not in path.read_bytes(), path


def test_its_process_is_locked_down(operator, behind):
    place, front = behind
    operator.env["CLOISTER_BLOBS"] = place.url.replace("timeout=2", "timeout=3600")
    front.plans.append(stall(front))
    operator.folder("c", {"capability.yaml": '{"name": "c"}', "f": "x"})
    process = operator.spawn(operator.program, "capability", "register", operator.base / "c")
    wait_until(lambda: front.seen, "it asks")
    child, = children_of(process.pid)
    status = status_of(child)
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0
    # It ends with whoever it works for, in the middle of its work.
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(child), "it ends")
