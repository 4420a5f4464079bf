"""A registry that lies: each lie is a clear error, and nothing of it is stored.

And transfers that break off: they go on where they ended.
"""
import contextlib
import json
import os
import socket
import threading

import pytest

from operators import as_one
from registry_lab import MANIFEST, Honest, Image, Server, digest_of, encode
from test_pull import Puller, on_a_terminal

pytestmark = as_one


@pytest.fixture
def puller(operator):
    return Puller(operator)


@pytest.fixture
def liar():
    """An honest registry, until a test changes its answers."""
    answer = Honest(Image("x" * 1000, os.urandom(300000)))
    server = Server(answer)
    server.image, server.changes, server.name = answer.image, answer.changes, f"{server.host}/a:t"
    server.layer = max(answer.image.layers, key=lambda layer: layer["size"])
    server.data = answer.image.blobs[server.layer["digest"]]
    server.blob, server.manifest = f"/v2/a/blobs/{server.layer['digest']}", f"/v2/a/manifests/{answer.image.digest}"
    server.honest = answer.answer
    yield server
    server.close()


def nothing_stored(puller, liar):
    """No image, no wrong blob, and no beginning of one."""
    assert puller.names() == {} and puller.parts() == []
    assert all(digest_of(data) == digest for digest, data in puller.blobs().items())
    assert liar.layer["digest"] not in puller.blobs()


def hang_up(handler):
    handler.close_connection = True
    handler.connection.shutdown(2)


# ---- blobs -----------------------------------------------------------------------------------------------

def send_longer(handler, data):
    handler.send(200, data + b"!")


def send_shorter(handler, data):
    handler.send(200, data[:-1])


def send_endless(handler, data):
    """Chunks without an end."""
    handler.send_response(200)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    while True:
        handler.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")


def send_without_length(handler, data):
    """More than there should be, until the connection is closed."""
    handler.send_response(200)
    handler.send_header("connection", "close")
    handler.end_headers()
    handler.wfile.write(data + b"!")
    handler.close_connection = True


BLOBS = {
    "other bytes": (lambda handler, data: handler.send(200, bytes(len(data))), "is not what came"),
    "one byte more": (send_longer, "more than"),
    "one byte less": (send_shorter, "which should have"),
    "endless": (send_endless, "more than"),
    "no length": (send_without_length, "more than"),
    "nothing": (lambda handler, data: handler.send(200), "which should have"),
    "gone": (lambda handler, data: handler.send(404, b"{}"), "nothing by that name"),
    "forbidden": (lambda handler, data: handler.send(
        403, b'{"errors":[{"message":"no \x1b[31m way"}]}'), "no ?[31m way"),
    "packed": (lambda handler, data: handler.send(200, bytes(100), content_encoding="gzip"), "which should have"),
    "another part": (lambda handler, data: handler.send(206, data[5:], content_range=f"bytes 5-{len(data) - 1}/{len(data)}"),
                     "another part of it"),
    "loop": (lambda handler, data: handler.send(302, location=handler.path), "redirects more than 5 times"),
    "to a file": (lambda handler, data: handler.send(302, location="file:///etc/passwd"), "not an address"),
    "with a login": (lambda handler, data: handler.send(302, location="http://a:b@localhost/x"), "not an address"),
    "redirect to nothing": (lambda handler, data: handler.send(302, location="http://"), "not an address"),
}


@pytest.mark.parametrize("lie", BLOBS)
def test_a_blob(puller, liar, lie):
    send, why = BLOBS[lie]
    liar.changes[liar.blob] = lambda handler: send(handler, liar.data)
    puller(liar.name).sentence(why)
    nothing_stored(puller, liar)


# ---- manifests -------------------------------------------------------------------------------------------

def changed(liar, **members):
    return encode({**json.loads(liar.image.manifest), **members})


SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1+prettyjws"
MANIFESTS = {
    "another one": (lambda liar: (changed(liar, annotations={"a": "b"}), MANIFEST), "instead of sha256:"),
    "a page": (lambda liar: (liar.image.manifest, "text/html"), "sends 'text/html', which is no manifest"),
    "schema 1": (lambda liar: (liar.image.manifest, SCHEMA_1), "old schema 1"),
    "empty": (lambda liar: (b"", MANIFEST), "empty manifest"),
    "endless": (lambda liar: (bytes(5 << 20), MANIFEST), "more than the 4194304"),
}


@pytest.mark.parametrize("lie", MANIFESTS)
def test_a_manifest(puller, liar, lie):
    make, why = MANIFESTS[lie]

    def answer(handler):
        if handler.command == "HEAD":
            liar.honest(handler)
        else:
            text, kind = make(liar)
            handler.send(200, text, kind)
    liar.changes["/v2/a/manifests/"] = answer
    puller(liar.name).sentence(why)
    nothing_stored(puller, liar)


# A manifest may be malformed and have its right digest.
DOCUMENTS = {
    "schema 1 by itself": ({"schemaVersion": 1}, "schema version 1"),
    "no JSON": (b"{", "manifest"),
    "sizes that are too large": ({"layers": [{"mediaType": "x", "digest": "sha256:" + "0" * 64, "size": 1 << 50}]}, "size"),
    "another digest": ({"layers": [{"mediaType": "x", "digest": "md5:" + "0" * 32, "size": 1}]}, "digest"),
    "both kinds": ({"manifests": []}, "both an index and a manifest"),
    "a path": ({"config": {"mediaType": "x", "digest": "sha256:../../../../etc/passwd", "size": 1}}, "digest"),
}


@pytest.mark.parametrize("lie", DOCUMENTS)
def test_a_document(puller, liar, lie):
    change, why = DOCUMENTS[lie]
    text = change if isinstance(change, bytes) else changed(liar, **change)
    liar.changes["/v2/a/manifests/"] = lambda handler: handler.send(200, text, MANIFEST,
                                                                    docker_content_digest=digest_of(text))
    puller(liar.name).sentence(why)
    nothing_stored(puller, liar)


def test_a_digest_that_is_not_the_manifests(puller, liar):
    """Without an answer to HEAD, the digest that comes with the manifest is compared."""
    def answer(handler):
        if handler.command == "HEAD":
            handler.send(405)
        else:
            handler.send(200, liar.image.manifest, MANIFEST, docker_content_digest="sha256:" + "0" * 64)
    liar.changes["/v2/a/manifests/"] = answer
    puller(liar.name).sentence("calls its manifest sha256:0000")
    nothing_stored(puller, liar)


def test_a_manifest_that_changes_meanwhile(puller, liar):
    """The tag leads elsewhere after HEAD: what was found first is fetched, by its digest."""
    liar.changes["/v2/a/manifests/t"] = lambda handler: (
        liar.honest(handler) if handler.command == "HEAD" else handler.send(200, b"{}", MANIFEST))
    assert puller.pull(liar.name)["digest"] == liar.image.digest


@pytest.mark.parametrize("challenge", ["Bearer", 'Bearer realm="', "Digest x=y", 'Bearer realm="x",service="' + "y" * 9000])
def test_a_malformed_challenge(puller, liar, challenge):
    liar.changes["/v2/a/"] = lambda handler: handler.send(401, b"{}", www_authenticate=challenge)
    said = puller(liar.name).sentence()
    assert "malformed" in said or "does not say how" in said


@pytest.mark.parametrize("token", [b"", b"{}", b"[1]", b'{"token": "a\\r\\nx: y"}', b'{"token": 1}', b'{"token": ""}'])
def test_a_malformed_token(puller, liar, token):
    liar.changes["/v2/a/"] = lambda handler: handler.send(
        401, b"{}", www_authenticate=f'Bearer realm="{liar.url}/token"')
    liar.changes["/token"] = lambda handler: handler.send(200, token)
    puller(liar.name).sentence("has no token")
    assert not any("x" in request.headers for request in liar.seen)


# ---- slow ones -------------------------------------------------------------------------------------------

def test_a_server_that_sends_next_to_nothing(puller, liar):
    """Each try ends by itself."""
    def drip(handler):
        if handler.command == "HEAD":
            liar.honest(handler)
            return
        handler.send_response(200)
        handler.send_header("content-length", str(len(liar.data)))
        handler.end_headers()
        handler.wfile.write(b"x")
        handler.wfile.flush()
        handler.connection.recv(1)      # until the client hangs up
        handler.close_connection = True
    liar.changes["/v2/a/manifests/"] = drip
    liar.changes["/v2/a/blobs/"] = drip
    puller("--stall", "1", liar.name).sentence("does not answer, or sends next to nothing")
    nothing_stored(puller, liar)


# ---- transfers that break off ----------------------------------------------------------------------------

def breaking(liar, pieces):
    """Sends the blob in so many pieces, each on a connection that breaks."""
    size = len(liar.data) // pieces + 1

    def answer(handler):
        start = int(handler.headers.get("range", "bytes=0-")[6:-1])
        rest = liar.data[start:]
        handler.send_response(206 if start else 200)
        handler.send_header("content-length", str(len(rest)))
        if start:
            handler.send_header("content-range", f"bytes {start}-{len(liar.data) - 1}/{len(liar.data)}")
        handler.end_headers()
        handler.wfile.write(rest[:size])
        handler.wfile.flush()
        if len(rest) > size:
            hang_up(handler)
    return answer


def ranges(liar):
    return [request.headers.get("range") for request in liar.seen if request.path == liar.blob]


def test_a_transfer_goes_on_where_it_broke_off(puller, liar):
    liar.changes[liar.blob] = breaking(liar, 3)
    assert puller.pull(liar.name)["digest"] == liar.image.digest
    size = len(liar.data) // 3 + 1
    assert ranges(liar) == [None, f"bytes={size}-", f"bytes={2 * size}-"]
    assert puller.blobs() == liar.image.blobs


def broken(puller, liar):
    """A pull that gives up: a part of the blob stays."""
    first = breaking(liar, 3)
    liar.changes[liar.blob] = lambda handler: (first(handler) if len(ranges(liar)) == 1 else handler.send(403))
    puller(liar.name).sentence("answers with 403")
    assert puller.names() == {} and puller.parts() == [liar.layer["digest"].removeprefix("sha256:")]
    return len(liar.data) // 3 + 1


def test_the_next_pull_goes_on(puller, liar):
    size = broken(puller, liar)
    del liar.changes[liar.blob]
    liar.seen.clear()
    assert puller.pull(liar.name)
    assert ranges(liar) == [f"bytes={size}-"]
    assert puller.blobs() == liar.image.blobs and puller.parts() == []


def test_a_server_without_ranges_begins_anew(puller, liar):
    broken(puller, liar)
    liar.changes[liar.blob] = lambda handler: handler.send(200, liar.data)
    assert puller.pull(liar.name)
    assert puller.blobs() == liar.image.blobs


def test_a_part_that_is_wrong_is_fetched_anew(puller, liar):
    size = broken(puller, liar)
    part = puller.store / "parts" / puller.parts()[0]
    part.write_bytes(bytes(size))
    del liar.changes[liar.blob]
    liar.seen.clear()
    assert puller.pull(liar.name)
    assert ranges(liar) == [f"bytes={size}-", None]
    assert puller.blobs() == liar.image.blobs


def test_a_range_that_cannot_be_had(puller, liar):
    broken(puller, liar)
    liar.changes[liar.blob] = lambda handler: (handler.send(416) if "range" in handler.headers else liar.honest(handler))
    assert puller.pull(liar.name)
    assert puller.blobs() == liar.image.blobs


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(puller, liar, status):
    """When it says so, or after a while."""
    turns = {}

    def answer(handler):
        turns[handler.path] = turns.get(handler.path, 0) + 1
        if turns[handler.path] == 1:
            handler.send(status, b"{}", retry_after="0")
        else:
            liar.honest(handler)
    liar.changes[liar.blob] = answer
    out, into = os.pipe()
    done = puller("--progress-fd", str(into), liar.name, pass_fds=[into])
    os.close(into)
    with open(out, encoding="ascii") as lines:
        events = [json.loads(line) for line in lines]
    done.ok()
    assert [event["text"] for event in events if event["event"] == "retry"] == [
        f"'{liar.host}' answers with {status}"]


def test_retries_are_shown_on_a_terminal(puller, liar):
    liar.changes[liar.manifest] = lambda handler: handler.send(500, b"{}", retry_after=0)
    done, drawn = on_a_terminal(puller, liar.name)
    assert done.status == 125 and f"'{liar.host}' answers with 500: try 2 of 5" in drawn and "try 5 of 5" in drawn


def test_a_server_that_stays_broken(puller, liar):
    liar.changes[liar.blob] = lambda handler: handler.send(503, b'{"errors":[{"message":"overloaded"}]}',
                                                              retry_after=0)
    puller(liar.name).sentence("answers with 503: overloaded")
    assert len(ranges(liar)) == 5


def test_a_redirect_away_from_tls(puller, tmp_path):
    from registry_lab import make_certificates
    make_certificates(tmp_path)
    ca = puller.file("ca.pem", (tmp_path / "ca.pem").read_bytes())
    image = Image("x")
    plain, honest = Server(Honest(image)), Honest(image)
    honest.changes["/v2/a/blobs/"] = lambda handler: handler.send(307, location=plain.url + handler.path)
    server = Server(honest, tls=tmp_path)
    try:
        puller("--ca", ca, f"{server.host}/a:t").sentence("redirects from TLS to plain HTTP")
    finally:
        server.close()
        plain.close()
    assert not plain.seen and puller.names() == {}


def test_two_pulls_at_once(puller, liar):
    """One fetches a blob, the other waits for it."""
    go_on = threading.Event()

    def answer(handler):
        go_on.wait()
        liar.honest(handler)
    liar.changes[liar.blob] = answer
    program = puller.operator.program.parent / "libexec/cloister-pull"
    both = [puller.operator.spawn(program, liar.name, stdout=-1, stderr=-1) for _ in range(2)]
    liar.wait(lambda request: request.path == liar.blob, "the blob is asked for")
    go_on.set()
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["digest"] == liar.image.digest
    assert puller.blobs() == liar.image.blobs and ranges(liar) == [None]


# ---- other places ----------------------------------------------------------------------------------------

def local_name():
    """A name of this machine in /etc/hosts that does not say so."""
    for line in open("/etc/hosts", encoding="utf-8"):
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            if (address.startswith("127.") or address == "::1") and not name.endswith("localhost"):
                return name
    return None


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "[::]", "127.1", "2130706433", "0", "a name"])
def test_a_redirect_to_this_machine(puller, liar, host):
    """The registry is elsewhere: a proxy leads to it."""
    host = local_name() if host == "a name" else host
    if host is None:
        pytest.skip("no name of this machine in /etc/hosts")
    other = Server(lambda handler: handler.send(200, liar.data))
    liar.changes[liar.blob] = lambda handler: handler.send(307, location=f"http://{host}:{other.port}/x")
    puller.set_up({"r.invalid": {"insecure": True}})

    def connect(handler):
        handler.send_response(200)
        handler.end_headers()
        upstream = socket.create_connection(("127.0.0.1", liar.port))
        back = threading.Thread(target=pump, args=(upstream, handler.connection), daemon=True)
        back.start()
        pump(handler.connection, upstream)
        handler.close_connection = True

    proxy = Server(lambda handler: handler.send(500))
    proxy.server.RequestHandlerClass.do_CONNECT = connect
    try:
        puller("r.invalid/a:t", env={"HTTP_PROXY": proxy.host, "http_proxy": proxy.host, "NO_PROXY": host.strip("[]")}
               ).sentence("to this machine itself")
    finally:
        proxy.close()
        other.close()
    assert other.seen == []
    nothing_stored(puller, liar)


def pump(one, two):
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            two.sendall(data)
        two.shutdown(socket.SHUT_WR)


def test_a_mirror_writes_nothing_to_the_terminal(puller, liar):
    mirror = Server(lambda handler: handler.send(200, b"{}", "x\x1b]0\x07"))
    puller.set_up({liar.host: {"mirrors": [mirror.host]}})
    try:
        done = puller(liar.name)
    finally:
        mirror.close()
    assert done.status == 0 and "is passed over" in done.err and "\\x1b]0\\x07" in done.err
    assert "\x1b" not in done.err and "\x07" not in done.err
