"""Real clients go out as they do without a cell: nothing is configured in any of them.

Each trusts the cell's authority because of where the cell puts its certificate, and is
captured because of how the cell's network is made.
"""
import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from egress_lab import CURL, needs, needs_npm, needs_python
from operators import wait_until
from test_real_programs import GIT_NAMES, wheel

OPEN = "  - allow: '*.example.test'\n"
SECONDS = 120           # package managers and virtual machines, on a busy machine


# ---- git -------------------------------------------------------------------------------

@pytest.fixture
def repository(online, tmp_path):
    """https://git.example.test/git/team/NAME.git with one commit on main; NAME."""
    lab = online.lab
    name = f"r{len(list(lab.folder.glob('git/team/*')))}"
    bare = lab.folder / "git/team" / f"{name}.git"
    git = ["git", "-c", "user.name=o", "-c", "user.email=o@example.org", "-c",
           "init.defaultBranch=main"]
    work = tmp_path / name
    for words in (["init", "-q", "--bare", bare], ["init", "-q", work]):
        subprocess.run([*git, *words], check=True)
    (work / "file").write_text("one\n")
    for words in (["add", "."], ["commit", "-q", "-m", "one"], ["push", "-q", bare, "main"]):
        subprocess.run([*git, "-C", work, *words], check=True)
    subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], check=True)
    return name


def refs(online, name):
    bare = online.lab.folder / "git/team" / f"{name}.git"
    told = subprocess.run(["git", "-c", "safe.directory=*", "-C", bare, "for-each-ref",
                           "--format=%(refname) %(subject)"], check=True, capture_output=True,
                          text=True).stdout
    return dict(line.split(" ", 1) for line in told.splitlines())


CLONE = """
set -e
git clone -q https://git.example.test/git/team/{name} ~/c 2>&1; cd ~/c
cat file; echo two >>file; git commit -q -a -m two
"""


@needs("git", "fcgiwrap")
def test_git_clones_and_pushes_where_it_may(online, repository):
    rules = ("  - allow: git.example.test\n    git: {fetch: true, repos: [git/team/*],"
             " push: [refs/heads/agent/*]}\n")
    done = online.sh(rules, CLONE.format(name=repository) +
                     "git push -q origin HEAD:refs/heads/agent/x 2>&1; git ls-remote -q",
                     options=GIT_NAMES, seconds=SECONDS)
    assert done.ok().startswith("one\n")
    assert "refs/heads/agent/x" in done.out
    assert refs(online, repository) == {"refs/heads/main": "one", "refs/heads/agent/x": "two"}


@needs("git", "fcgiwrap")
@pytest.mark.parametrize("push, named", [
    ("HEAD:refs/heads/main", ["refs/heads/main"]),
    ("HEAD:refs/heads/agent/x HEAD:main", ["refs/heads/agent/x", "refs/heads/main"]),
    ("HEAD:refs/tags/agent/x", ["refs/tags/agent/x"]),
    (":refs/heads/main", [":refs/heads/main"])], ids=["main", "one-of-two", "tag", "delete"])
def test_git_is_refused_other_refs(online, repository, push, named):
    """Git shows why, the record names the refs, and the rule that `why` prints lets them go."""
    rules = ("  - deny: git.example.test\n    git: {push: [refs/heads/main]}\n"
             "    reason: main is for people\n"
             "  - allow: git.example.test\n    git: {fetch: true, push: [refs/heads/agent/*]}\n")
    script = CLONE.format(name=repository) + f"git push origin {push} 2>&1"
    done = online.sh(rules, script, options=GIT_NAMES, seconds=SECONDS)
    reason = "main is for people" if "main" in push else "no rule allows it"
    assert done.status != 0 and f"(refused by cloister: {reason})" in done.out, done
    assert done.out.count("[remote rejected]") == len(named), done
    assert refs(online, repository) == {"refs/heads/main": "one"}
    refused = [e for e in online.events(type="http") if e["verdict"] == "deny"]
    assert refused and refused[-1]["path"].endswith("/git-receive-pack")
    assert sorted(refused[-1]["refs"]) == sorted(named)
    said = online.operator.cloister("why", online.cell).ok()
    assert f"/git-receive-pack ({' '.join(refused[-1]['refs'])})" in said
    rule = said[said.index("  - allow:"):]
    online.sh(rule + rules, script, options=GIT_NAMES, seconds=SECONDS)
    assert [e["verdict"] for e in online.events(refs=refused[-1]["refs"])] == ["allow"], rule


@needs("git", "fcgiwrap")
def test_git_shows_the_refusal_of_a_large_push(online, repository):
    """Longer than what git keeps in memory, so that it is sent in chunks."""
    rules = "  - allow: git.example.test\n    git: {push: [refs/heads/agent/*]}\n"
    done = online.sh(rules, CLONE.format(name=repository) +
                     "head -c 3000000 /dev/urandom >large; git add large; git commit -q -m large\n"
                     "git push origin HEAD:main 2>&1", options=GIT_NAMES, seconds=SECONDS)
    assert done.status != 0, done
    assert "refused by cloister: no rule allows it" in done.out or "HTTP 403" in done.out, done
    assert refs(online, repository) == {"refs/heads/main": "one"}


@needs("git", "fcgiwrap")
def test_git_is_refused_to_force(online, repository):
    force = CLONE.format(name=repository) + """
        git push -q origin HEAD:agent/x 2>&1
        git commit -q --amend -m other
        git push -q -f origin HEAD:agent/x 2>&1"""
    rules = "  - allow: git.example.test\n    git: {fetch: true, push: [refs/heads/agent/*]%s}\n"
    done = online.sh(rules % "", force, options=GIT_NAMES, seconds=SECONDS)
    assert done.status != 0
    assert refs(online, repository)["refs/heads/agent/x"] == "two"
    online.sh(rules % ", force: true", force.replace("HEAD:agent/x 2>&1\n", "HEAD:agent/y 2>&1\n")
              .replace("-f origin HEAD:agent/x", "-f origin HEAD:agent/y"), options=GIT_NAMES,
              seconds=SECONDS).ok()
    assert refs(online, repository)["refs/heads/agent/y"] == "other"


@needs("git", "fcgiwrap")
def test_git_may_fetch_only(online, repository):
    rules = "  - allow: git.example.test\n    git: fetch\n"
    done = online.sh(rules, CLONE.format(name=repository) + "git push -q origin HEAD:x 2>&1",
                     options=GIT_NAMES, seconds=SECONDS)
    assert done.out.startswith("one\n") and done.status != 0
    assert "remote: refused by cloister: no rule allows it" in done.out, done
    assert refs(online, repository) == {"refs/heads/main": "one"}


@needs("git", "fcgiwrap")
def test_git_is_learned(online, repository):
    """The policy that is learned from a clone and a push lets both through again."""
    script = CLONE.format(name=repository) + "git push -q origin HEAD:refs/heads/agent/{} 2>&1"
    policy = online.operator.home / "learned.yaml"
    done = online.operator.cloister("learn", "-q", "-o", policy, *GIT_NAMES, "--", "sh", "-c",
                                    script.format("x"), seconds=SECONDS)
    online.operator.kept |= {n.split(".")[0] for n in online.operator.names(online.operator.state)}
    assert done.status == 0, done
    online.operator.cloister("policy", "check", policy).ok()
    online.sh(policy, script.format("x2"), options=GIT_NAMES, seconds=SECONDS).ok()
    assert "refs/heads/agent/x2" in refs(online, repository), policy.read_text()


# ---- package managers ---------------------------------------------------------------------

@pytest.fixture
def npm_registry(online):
    """https://npm.example.test/npm/ with the package `tool`."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in (("package/package.json", '{"name": "tool", "version": "1.2.3"}'),
                           ("package/index.js", "module.exports = 'from the registry'\n")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    url = "https://npm.example.test/npm/tool/-/tool-1.2.3.tgz"
    online.lab.file("npm/tool/-/tool-1.2.3.tgz", data.getvalue())
    version = {"name": "tool", "version": "1.2.3", "dist": {
        "tarball": url, "shasum": hashlib.sha1(data.getvalue()).hexdigest()}}
    online.lab.file("npm/tool/index.json", json.dumps({
        "name": "tool", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": version}}))


@needs("node", "npm")
def test_npm_installs(online, npm_registry):
    rules = "  - allow: npm.example.test\n    methods: [GET]\n"
    done = online.sh(rules, """
        mkdir ~/p && cd ~/p && echo '{"name": "p", "version": "1.0.0"}' >package.json
        npm install --no-audit --no-fund --silent --registry https://npm.example.test/npm/ tool
        node -p "require('tool')"
    """, seconds=SECONDS)
    assert done.ok() == "from the registry\n"
    assert {"/npm/tool", "/npm/tool/-/tool-1.2.3.tgz"} <= {
        e["path"] for e in online.events(type="http", verdict="allow")}


@pytest.fixture
def verdaccio(online):
    """npm's options for https://npm.example.test/registry/, once it answers."""
    url = "https://npm.example.test/registry/"
    wait_until(lambda: online.outside(*CURL, "-f", f"{url}-/ping").status == 0, "the registry answers")
    return f"--registry {url} --{url.removeprefix('https:')}:_authToken=of-the-tests --loglevel=http"


@needs("node", "npm")
@needs_npm("verdaccio")
def test_npm_publishes_and_installs(online, verdaccio):
    """From a real registry; whoever may only read does not publish."""
    name = f"made-by-{online.operator.who}"
    publish = f"""
        mkdir ~/m && cd ~/m && echo "module.exports = 'published'" >index.js
        echo '{{"name": "{name}", "version": "1.0.0", "dependencies": {{}}}}' >package.json
        npm publish {verdaccio} 2>&1"""
    reading = "  - allow: npm.example.test\n    methods: [GET, HEAD]\n    paths: [/registry/**]\n"
    writing = (f"  - allow: npm.example.test\n    methods: [PUT]\n    paths: [/registry/{name}]\n" +
               reading)
    done = online.sh(reading, publish, seconds=SECONDS)
    assert done.status != 0 and "403" in done.out, done
    assert online.refusal(type="http")["method"] == "PUT"
    online.sh(writing, publish, seconds=SECONDS).ok()
    done = online.sh(reading, f"""
        mkdir ~/p && cd ~/p && echo '{{"name": "p", "version": "1.0.0"}}' >package.json
        npm install --no-audit --no-fund {verdaccio} {name} >&2 && npm ci --no-audit {verdaccio} >&2
        node -p "require('{name}')"
    """, seconds=SECONDS)
    assert done.ok() == "published\n"
    assert [e["path"] for e in online.events(type="http", verdict="allow") if "/-/" in e["path"]]


def test_pip_installs(online):
    pytest.importorskip("ensurepip")
    online.lab.file("pypi/local-thing/local_thing-0.1-py3-none-any.whl", wheel())
    online.lab.file("pypi/local-thing/index.html",
                    '<a href="local_thing-0.1-py3-none-any.whl">local_thing-0.1-py3-none-any.whl</a>')
    rules = "  - allow: pypi.example.test\n    methods: [GET]\n    paths: [/pypi/**]\n"
    done = online.sh(rules, """
        set -e
        /usr/bin/python3 -m venv ~/v
        ~/v/bin/pip install -q --disable-pip-version-check --index-url https://pypi.example.test/pypi local-thing
        ~/v/bin/python -c 'import local_thing; print(local_thing.VALUE)'
    """, seconds=SECONDS)
    assert done.ok() == "a local thing\n"


@pytest.fixture
def apt_repository(online, tmp_path):
    """deb https://deb.example.test/deb ./ with the package `thing`."""
    root = tmp_path / "thing"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "usr/share/thing").mkdir(parents=True)
    (root / "usr/share/thing/word").write_text("from apt\n")
    (root / "DEBIAN/control").write_text(
        "Package: thing\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.org>\n"
        "Description: a thing\n")
    deb = online.lab.folder / "files/deb/thing_1.0_all.deb"
    deb.parent.mkdir(exist_ok=True)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, deb], check=True,
                   stdout=subprocess.DEVNULL)
    data = deb.read_bytes()
    packages = ((root / "DEBIAN/control").read_text() +
                f"Filename: ./thing_1.0_all.deb\nSize: {len(data)}\n"
                f"SHA256: {hashlib.sha256(data).hexdigest()}\n\n").encode()
    packed = gzip.compress(packages)
    online.lab.file("deb/Packages", packages)
    online.lab.file("deb/Packages.gz", packed)
    sums = "".join(f" {hashlib.sha256(d).hexdigest()} {len(d)} {n}\n"
                   for n, d in (("Packages", packages), ("Packages.gz", packed)))
    online.lab.file("deb/Release", f"Date: Sat, 14 Nov 2026 00:00:00 UTC\nSHA256:\n{sums}")


APT = """
set -e
mkdir -p ~/a/lists/partial ~/a/archives/partial ~/a/parts && cd ~/a
touch status && echo 'deb [trusted=yes] {scheme}://deb.example.test/deb ./' >sources
apt="apt-get -qq -o Dir::State::lists=$PWD/lists -o Dir::State::status=$PWD/status
    -o Dir::Cache=$PWD -o Dir::Etc::sourcelist=$PWD/sources -o Dir::Etc::sourceparts=$PWD/parts
    -o Dir::Etc::parts=$PWD/parts -o Debug::NoLocking=1 -o APT::Sandbox::User=root
    -o Acquire::Languages=none"
$apt update
$apt download thing
dpkg-deb -x thing_1.0_all.deb x && cat x/usr/share/thing/word
"""


@needs("apt-get", "dpkg-deb")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_apt_updates_and_downloads(online, apt_repository, scheme):
    rules = "  - allow: deb.example.test\n    methods: [GET]\n"
    done = online.sh(rules, APT.format(scheme=scheme), seconds=SECONDS)
    assert done.ok().endswith("from apt\n")


# ---- libraries ------------------------------------------------------------------------------

PYTHON_CLIENTS = {
    "urllib": "import urllib.request as u\nprint(u.urlopen(url).read().decode(), end='')",
    "requests": "import requests\nprint(requests.get(url).text, end='')\n"
                "r = requests.post(echo, json={'a': 1})\nassert r.json()['size'] == 8, r.text",
    "httpx": "import httpx\nwith httpx.Client(http2=True) as c:\n    r = c.get(url)\n"
             "    print(r.text, end='')\n    assert r.http_version == 'HTTP/2'\n"
             "    assert c.post(echo, content=b'x' * 1000).json()['size'] == 1000",
    "aiohttp": "import aiohttp, asyncio\nasync def go():\n    async with aiohttp.ClientSession() as c:\n"
               "        async with c.get(url) as r: print(await r.text(), end='')\n"
               "        async with c.post(echo, data=b'x' * 1000) as r:\n"
               "            assert (await r.json())['size'] == 1000\nasyncio.run(go())",
}


@pytest.mark.parametrize("client", [
    pytest.param(name, marks=[needs_python(name)] + ([needs_python("h2")] if name == "httpx" else []))
    for name in PYTHON_CLIENTS])
def test_python(online, client):
    script = ("url = 'https://www.example.test/hello'; echo = 'https://up.example.test/echo'\n" +
              PYTHON_CLIENTS[client])
    assert online.python(OPEN, script).ok().startswith("hello from www.example.test")


NODE_FETCH = """
(async () => {
    const r = await fetch('https://www.example.test/hello');
    process.stdout.write(await r.text());
    const e = await (await fetch('https://up.example.test/echo',
        { method: 'POST', body: 'x'.repeat(1000) })).json();
    if (e.size !== 1000) throw new Error('size ' + e.size);
    const refused = await fetch('https://www.example.test/evil');
    console.log(refused.status, (await refused.json()).error);
})().catch(e => { console.error(e); process.exit(1); });
"""
NODE_HTTPS = """
const https = require('https'), http2 = require('http2');
https.get('https://www.example.test/hello', r => r.pipe(process.stdout));
const c = http2.connect('https://www.example.test');
const q = c.request({ ':path': '/hello' });
q.on('data', d => process.stdout.write(d));
q.on('end', () => c.close());
"""


@needs("node")
def test_node_fetch(online):
    rules = "  - deny: www.example.test\n    paths: [/evil]\n    reason: it is evil\n" + OPEN
    done = online.run(rules, "node", "-e", NODE_FETCH)
    assert done.ok() == "hello from www.example.test by HTTP/2.0\n403 refused by cloister\n"


@needs("node")
def test_node_https_and_http2(online):
    assert online.run(OPEN, "node", "-e", NODE_HTTPS).ok() == \
        "hello from www.example.test by HTTP/2.0\n" * 2


@needs("node")
def test_exec_has_the_same_trust(online):
    """A process that starts later has the same way out as the first."""
    online.start(OPEN, "sleep", "1000")
    script = "fetch('https://www.example.test/hello').then(async r => process.stdout.write(await r.text()))"
    assert online.inside("node", "-e", script).ok() == "hello from www.example.test by HTTP/2.0\n"


@needs("node", "npm")
def test_undici(online):
    """The library itself, where npm brings one."""
    places = ["/usr/share/nodejs/undici", "/usr/lib/node_modules/npm/node_modules/undici"]
    undici = next((p for p in places if Path(p).is_dir()), None)
    if undici is None:
        pytest.skip("there is no undici under /usr")
    script = (f"const u = require('{undici}');"
              "u.request('https://www.example.test/hello').then(async r =>"
              " process.stdout.write(r.statusCode + ' ' + await r.body.text()))")
    assert online.run(OPEN, "node", "-e", script).ok().startswith("200 hello from")


JAVA = """
import java.net.URI;
import java.net.http.*;

public class Main {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newHttpClient();
        var r = client.send(HttpRequest.newBuilder(URI.create("https://www.example.test/hello")).build(),
                            HttpResponse.BodyHandlers.ofString());
        System.out.print(r.version() + " " + r.body());
        var p = client.send(HttpRequest.newBuilder(URI.create("https://up.example.test/echo"))
                            .POST(HttpRequest.BodyPublishers.ofString("x".repeat(1000))).build(),
                            HttpResponse.BodyHandlers.ofString());
        System.out.println(p.body().contains("\\"size\\": 1000"));
        var c = new URI("https://www.example.test/hello").toURL().openConnection();
        System.out.print(new String(c.getInputStream().readAllBytes()));
    }
}
"""


@needs("java", "javac")
def test_java(online):
    source = online.operator.file("Main.java", JAVA)
    done = online.run(OPEN, "java", "/tmp/Main.java", options=("-v", f"{source}:/tmp/Main.java:ro"),
                      seconds=SECONDS)
    assert done.ok() == ("HTTP_2 hello from www.example.test by HTTP/2.0\ntrue\n"
                         "hello from www.example.test by HTTP/2.0\n")


@needs("wget")
def test_wget(online):
    assert online.run(OPEN, "wget", "-qO-", "https://www.example.test/hello").ok().startswith("hello")


@needs("openssl")
def test_openssl_verifies(online):
    done = online.sh(OPEN, "openssl s_client -connect www.example.test:443 -servername "
                     "www.example.test -verify_return_error -verify_hostname www.example.test "
                     "-brief </dev/null 2>&1")
    assert "Verification: OK" in done.ok()


@needs("perl")
def test_perl_resolves_and_connects(online):
    """Not a word about proxies or certificates: plain sockets."""
    done = online.run(OPEN, "perl", "-MIO::Socket::INET", "-we", """
        my $s = IO::Socket::INET->new(PeerAddr => 'www.example.test', PeerPort => 80) or die $@;
        print $s "GET /hello HTTP/1.0\\r\\nHost: www.example.test\\r\\n\\r\\n";
        print grep { /^hello/ } <$s>;
    """)
    assert done.ok().startswith("hello from www.example.test")


# ---- WebSocket -------------------------------------------------------------------------------

WEBSOCKET = """
import asyncio, sys, websockets
async def go():
    async with websockets.connect(sys.argv[1], compression=None, max_size=1 << 26) as ws:
        print(await ws.recv())
        for message in ('hello', b'bytes' * 20000, 'last'):
            await ws.send(message)
            assert await ws.recv() == message
        await ws.send('send 3000000')
        print(len(await ws.recv()))
        pong = await ws.ping()
        await asyncio.wait_for(pong, 10)
        await ws.send('bye')
        try:
            await ws.recv()
        except websockets.ConnectionClosed as e:
            print(e.rcvd.code, e.rcvd.reason)
asyncio.run(go())
"""


@needs_python("websockets")
@pytest.mark.parametrize("url", ["ws://ws.example.test/x", "wss://ws.example.test/x"])
def test_websocket(online, url):
    rules = "  - allow: ws.example.test\n    websocket: true\n"
    done = online.python(rules, WEBSOCKET, url)
    assert done.ok() == "welcome\n3000000\n4000 as you wish\n"
    event, = online.events(type="http", status=101)
    assert event["sent"] > 100000 and event["received"] > 3000000


@needs_python("websockets")
def test_websocket_needs_a_rule(online):
    done = online.python("  - allow: ws.example.test\n", WEBSOCKET, "wss://ws.example.test/x")
    assert done.status != 0 and "403" in done.err
    assert not [line for line in online.lab.seen('"websocket"') if online.cell in line]


@needs("node")
@needs_python("websockets")
def test_websocket_of_node(online):
    """By hand over node's own upgrade, as its libraries do."""
    script = """
const r = require('https').request({ host: 'ws.example.test', headers: { Connection: 'Upgrade',
    Upgrade: 'websocket', 'Sec-WebSocket-Version': 13, 'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==' } });
r.on('upgrade', (res, socket) => socket.once('data', d => {
    console.log(res.statusCode, d.subarray(2).toString()); socket.destroy(); }));
r.end();
"""
    rules = "  - allow: ws.example.test\n    websocket: true\n"
    assert online.run(rules, "node", "-e", script).ok() == "101 welcome\n"


# ---- gRPC ----------------------------------------------------------------------------------------

GRPC_CLIENT = """
import grpc, sys
if sys.argv[1] == 'tls':
    channel = grpc.secure_channel('grpc.example.test:443', grpc.ssl_channel_credentials())
else:
    channel = grpc.insecure_channel('grpc.example.test:50051')
unary = channel.unary_unary('/test.Echo/Unary')
answer, call = unary.with_call(b'hello', timeout=20)
print(answer, dict(call.trailing_metadata())['x-length'])
print(len(unary(b'x' * 2000000, timeout=20)))
try:
    unary(b'fail', timeout=20)
except grpc.RpcError as e:
    print(e.code().name, e.details())
print([int(m) for m in channel.unary_stream('/test.Echo/Out')(b'5', timeout=20)])
print(channel.stream_unary('/test.Echo/In')((b'x' * 1000 for _ in range(50)), timeout=20))
import queue
todo = queue.Queue()
both = channel.stream_stream('/test.Echo/Both')(iter(todo.get, None), timeout=20)
for word in (b'one', b'two'):
    todo.put(word)
    print(next(both))
todo.put(None)
print(list(both))
"""


@needs_python("grpc")
@pytest.mark.parametrize("how", ["tls", "plain"])
def test_grpc(online, how):
    rules = ("  - allow: [grpc.example.test, 'grpc.example.test:50051']\n"
             "    grpc: {service: test.Echo}\n")
    done = online.python(rules, GRPC_CLIENT, how, seconds=SECONDS,
                         options=("-e", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/etc/cloister/ca.crt"))
    assert done.ok() == ("b'echo hello' 5\n2000005\nFAILED_PRECONDITION as you wish\n"
                         "[0, 1, 2, 3, 4]\nb'50000'\nb'echo one'\nb'echo two'\n[]\n")


@needs_python("grpc")
def test_grpc_methods_are_distinguished(online):
    rules = "  - allow: grpc.example.test\n    grpc: {service: test.Echo, methods: [Out]}\n"
    script = """
import grpc
channel = grpc.secure_channel('grpc.example.test:443', grpc.ssl_channel_credentials())
print([int(m) for m in channel.unary_stream('/test.Echo/Out')(b'2', timeout=20)])
try:
    channel.unary_unary('/test.Echo/Unary')(b'hello', timeout=20)
except grpc.RpcError as e:
    print(e.code().name)
"""
    assert online.python(rules, script).ok() == "[0, 1]\nPERMISSION_DENIED\n"


@needs_python("grpc")
def test_grpc_trusts_the_cells_authority_without_configuration(online):
    script = """
import grpc
channel = grpc.secure_channel('grpc.example.test:443', grpc.ssl_channel_credentials())
print(channel.unary_unary('/test.Echo/Unary')(b'hello', timeout=20))
"""
    assert online.python(OPEN, script).ok() == "b'echo hello'\n"


# ---- UDP -----------------------------------------------------------------------------------------

def test_udp_is_refused_at_once(online):
    """So that HTTP/3 falls back without waiting."""
    done = online.python(OPEN, """
import socket, time
began = time.monotonic()
for family, address in ((socket.AF_INET, '93.184.216.10'), (socket.AF_INET6, '2606:2800:220:1::10')):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(5)
    try:
        s.connect((address, 443))
        s.send(b'x')
        s.recv(1)
        print('answered')
    except OSError as e:
        print(type(e).__name__)
print(time.monotonic() - began < 2)
""")
    said = done.ok().splitlines()
    assert said[-1] == "True" and "answered" not in said and "timeout" not in said, said
    assert online.outside(*CURL, "https://www.example.test/hello").status == 0
