"""cloister-pull fetches images from registries: real ones, with logins, tokens and TLS, and skopeo as the judge."""
import json
import os
import pty
import shutil
import subprocess

import pytest

from egress_lab import needs
from operators import as_one, text_of, wait_until
from registry_lab import (ARCHITECTURE, HTPASSWD, OTHER, PASSWORD, Honest, Image, Index, Registry, Server, TokenServer,
                          basic, login, make_certificates, openssl, skopeo, write_layout)

pytestmark = needs("docker-registry", "skopeo", "openssl")


class Puller:
    """An operator who pulls."""

    def __init__(self, operator):
        self.operator = operator
        self.store = operator.base / "data/images"
        self.file = operator.file

    def __call__(self, *words, **how):
        return self.operator.do(self.operator.program.parent / "libexec/cloister-pull", *words, **how)

    def pull(self, *words, **how):
        """What it says about the image that it got."""
        return json.loads(self(*words, **how).ok())

    def names(self):
        """{name: digest} of the store."""
        entries = json.loads((self.store / "index.json").read_text())["manifests"]
        return {e.get("annotations", {}).get("org.opencontainers.image.ref.name"): e["digest"] for e in entries}

    def blobs(self):
        return {f"sha256:{path.name}": path.read_bytes() for path in (self.store / "blobs/sha256").iterdir()}

    def parts(self):
        return os.listdir(self.store / "parts") if (self.store / "parts").exists() else []

    def log_in(self, **entries):
        """auth.json with ENTRIES: {registry: entry}."""
        self.file("home/.config/containers/auth.json", json.dumps({"auths": entries})).chmod(0o600)

    def set_up(self, registries, **more):
        self.file("home/.config/cloister/registries.yaml", json.dumps({"registries": registries, **more})).chmod(0o600)


@pytest.fixture
def puller(operator):
    return Puller(operator)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


@pytest.fixture
def ca(puller, certificates):
    return puller.file("ca.pem", (certificates / "ca.pem").read_bytes())


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Plain, for everybody, with the image a/b:1 and the index a/many:1."""
    folder = tmp_path_factory.mktemp("registry")
    server = Registry(folder / "plain")
    server.image = Image("one", "two", b"\0" * 3000000)
    server.other = Image("elsewhere", architecture=OTHER)
    server.many = Index(server.other, server.image)
    server.push(write_layout(folder / "image", server.image), "a/b:1")
    server.push(write_layout(folder / "many", server.many), "a/many:1", "--all")
    yield server
    server.close()


@pytest.fixture(scope="module")
def private(tmp_path_factory, certificates):
    """With TLS by an authority of its own, and a login."""
    folder = tmp_path_factory.mktemp("private")
    (folder / "htpasswd").write_text(HTPASSWD)
    server = Registry(folder / "tls", certificates, f"auth: {{htpasswd: {{realm: lab, path: {folder}/htpasswd}}}}")
    server.image = Image("private")
    server.push(write_layout(folder / "image", server.image), "p/q:1", "--dest-creds", f"me:{PASSWORD}")
    yield server
    server.close()


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """A registry that wants tokens of a server, and that server."""
    folder = tmp_path_factory.mktemp("tokens")
    giver = TokenServer(folder)
    server = Registry(folder / "registry", auth=giver.settings())
    server.giver, server.image = giver, Image("for token holders")
    server.push(write_layout(folder / "image", server.image), "x/y:1", "--dest-creds", f"me:{PASSWORD}")
    yield server
    server.close()
    giver.close()


# ---- images ----------------------------------------------------------------------------------------------

def test_the_store_has_what_was_pushed(puller, registry):
    name = f"{registry.host}/a/b:1"
    said = puller.pull(name)
    assert said == {"name": name, "digest": registry.image.digest, "index": None, "source": registry.host}
    assert puller.blobs() == registry.image.blobs and puller.parts() == []
    assert puller.names() == {name: registry.image.digest}
    # skopeo finds the same image there.
    shown = json.loads(skopeo("inspect", f"oci:{puller.store}:{name}"))
    assert shown["Digest"] == registry.image.digest and len(shown["Layers"]) == 3


@as_one
def test_a_second_pull_only_asks_for_the_digest(puller, registry):
    name = f"{registry.host}/a/b:1"
    puller.pull(name)
    before = len(registry.requests())
    puller.pull(name)
    new = registry.requests()[before:]
    assert [method for method, path in new if path != "/v2/"] == ["HEAD"], new


@as_one
def test_the_image_of_this_machine_is_chosen(puller, registry):
    said = puller.pull(f"{registry.host}/a/many:1")
    assert (said["digest"], said["index"]) == (registry.image.digest, registry.many.digest)
    assert puller.blobs() == {**registry.image.blobs, registry.many.digest: registry.many.text}


@as_one
def test_another_platform(puller, registry):
    for platform in (f"linux/{OTHER}", OTHER):
        assert puller.pull("--platform", platform, f"{registry.host}/a/many:1")["digest"] == registry.other.digest
    name = f"{registry.host}/a/many:1"
    puller("--platform", "linux/s390x", name).sentence("no image for linux/s390x", f"linux/{ARCHITECTURE}")
    puller("--platform", f"linux/{OTHER}/v9", name).sentence(f"no image for 'linux/{OTHER}/v9'")


@as_one
def test_by_digest(puller, registry):
    name = f"{registry.host}/a/b@{registry.image.digest}"
    assert puller.pull(name)["digest"] == registry.image.digest
    assert puller.names() == {name: registry.image.digest}
    puller(f"{registry.host}/a/b@sha256:{'0' * 64}").sentence("nothing by that name")


@as_one
@pytest.mark.parametrize("place, why", [("a/nothing:1", "has nothing by that name"), ("a/b:2", "has nothing by that name")])
def test_what_is_not_there(puller, registry, place, why):
    puller(f"{registry.host}/{place}").sentence(why)
    assert puller.names() == {}


@as_one
def test_a_wrong_tag_names_those_of_the_store(puller, registry):
    name = f"{registry.host}/a/b"
    puller.pull(f"{name}:1")
    puller(f"{name}:2").sentence(f"{name}:2 cannot be pulled (the store has {name}:1)", "nothing by that name")


@as_one
def test_zstd_layers_come_as_they_are(puller, tmp_path):
    if not shutil.which("zstd"):
        pytest.skip("there is no zstd")
    image = Image()
    packed = subprocess.run(["zstd", "-q", "-c"], input=Image.tar("zstd"), capture_output=True, check=True).stdout
    plain = Image("zstd")
    config = json.loads(plain.blobs[plain.config["digest"]])
    image.blobs = {}
    layer = image.add("application/vnd.oci.image.layer.v1.tar+zstd", packed)
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": image.add("application/vnd.oci.image.config.v1+json", json.dumps(config).encode()),
                "layers": [layer]}
    image.digest = image.add("x", json.dumps(manifest).encode())["digest"]
    server = Server(Honest(image))
    try:
        assert puller.pull(f"{server.host}/a:t")["digest"] == image.digest
    finally:
        server.close()
    assert puller.blobs() == image.blobs


# ---- logins ----------------------------------------------------------------------------------------------

def test_tls_and_a_login(puller, private, ca):
    name = f"{private.host}/p/q:1"
    puller(name).sentence("certificate", "not trusted")
    puller("--ca", ca, name).sentence("wants a login, and there is none")
    puller.log_in(**{private.host: login(password="wrong")})
    puller("--ca", ca, name).sentence("does not accept the login")
    puller.log_in(**{private.host: login()})
    assert puller.pull("--ca", ca, name)["digest"] == private.image.digest
    assert puller.blobs() == private.image.blobs


@as_one
def test_the_authority_of_the_configuration(puller, private, ca):
    puller.set_up({private.host: {"ca": str(ca)}})
    puller.log_in(**{private.host: login()})
    assert puller.pull(f"{private.host}/p/q:1")["digest"] == private.image.digest


@as_one
@pytest.mark.parametrize("place, env", [
    ("home/.config/containers/auth.json", {}), ("home/.docker/config.json", {}), ("xdg/containers/auth.json", {}),
    ("elsewhere.json", {"REGISTRY_AUTH_FILE": "{}/elsewhere.json"})])
def test_places_of_logins(puller, private, ca, place, env):
    puller.file(place, json.dumps({"auths": {f"https://{private.host}/v2/": login()}})).chmod(0o600)
    env = {name: value.format(puller.operator.base) for name, value in env.items()}
    assert puller.pull("--ca", ca, f"{private.host}/p/q:1", env=env)


@as_one
def test_the_nearest_login_counts(puller, private, ca):
    puller.log_in(**{private.host: login(password="wrong"), f"{private.host}/p": login(),
                     f"{private.host}/p/other": login(password="wrong")})
    assert puller.pull("--ca", ca, f"{private.host}/p/q:1")


HELPER = """#!/bin/sh
read server
echo "$1 $server" >> "$HOME/asked"
[ "$server" = {host} ] || {{ echo 'credentials not found in native keychain'; exit 1; }}
echo '{{"ServerURL": "x", "Username": "{user}", "Secret": "{password}"}}'
"""


@pytest.mark.parametrize("setting", ["credHelpers", "credsStore"])
def test_a_credential_helper(puller, private, ca, setting):
    path = puller.file("bin/docker-credential-lab", HELPER.format(host=private.host, user="me", password=PASSWORD))
    path.chmod(0o755)
    value = "lab" if setting == "credsStore" else {private.host: "lab"}
    puller.file("home/.docker/config.json", json.dumps({setting: value, "auths": {private.host: {}}})).chmod(0o600)
    env = {"PATH": f"{path.parent}:{puller.operator.env['PATH']}"}
    assert puller.pull("--ca", ca, f"{private.host}/p/q:1", env=env)
    assert (puller.operator.home / "asked").read_text() == f"get {private.host}\n"


@as_one
def test_a_helper_that_knows_nothing(puller, registry):
    path = puller.file("bin/docker-credential-lab", HELPER.format(host="other", user="me", password=PASSWORD))
    path.chmod(0o755)
    puller.file("home/.docker/config.json", json.dumps({"credsStore": "lab"})).chmod(0o600)
    env = {"PATH": f"{path.parent}:{puller.operator.env['PATH']}"}
    assert puller.pull(f"{registry.host}/a/b:1", env=env)
    path.write_text("#!/bin/sh\nexit 3\n")
    puller(f"{registry.host}/a/b:1", env=env).sentence("'docker-credential-lab' ended with status 3")
    path.unlink()
    puller(f"{registry.host}/a/b:1", env=env).sentence("docker-credential-lab")


# ---- tokens ----------------------------------------------------------------------------------------------

def test_tokens(puller, tokens):
    name = f"{tokens.host}/x/y:1"
    puller(name).sentence("no token for", "401")
    puller.log_in(**{tokens.host: login()})
    assert puller.pull(name)["digest"] == tokens.image.digest
    assert puller.blobs() == tokens.image.blobs
    asked = tokens.giver.seen[-1].query()
    assert asked == {"service": ["images"], "scope": ["repository:x/y:pull"]}


@as_one
def test_an_identity_token(puller, tokens):
    puller.log_in(**{tokens.host: {"identitytoken": PASSWORD}})
    assert puller.pull(f"{tokens.host}/x/y:1")["digest"] == tokens.image.digest
    assert tokens.giver.seen[-1].command == "POST"


@as_one
def test_a_token_that_expires_is_renewed(puller):
    """The first token is good for the manifest only."""
    image, given = Image("a", "b"), []

    def answer(handler):
        sent = handler.headers.get("authorization")
        if handler.path.startswith("/token"):
            given.append(f"Bearer token-{len(given)}")
            handler.send(200, json.dumps({"access_token": given[-1].split()[1], "expires_in": 300}).encode())
        elif sent in given and (sent != given[0] or "/manifests/" in handler.path):
            honest(handler)
        else:
            handler.send(401, b"{}", www_authenticate=f'Bearer realm="{server.url}/token",service="s"')

    honest = Honest(image)
    server = Server(answer)
    try:
        assert puller.pull(f"{server.host}/a:t")["digest"] == image.digest
    finally:
        server.close()
    assert len(given) == 2 and puller.blobs() == image.blobs


# ---- where logins go -------------------------------------------------------------------------------------

def realm_server(realm, image):
    """A registry that wants a token of REALM, and any at that."""
    honest = Honest(image)

    def answer(handler):
        if handler.headers.get("authorization", "").startswith("Bearer "):
            honest(handler)
        else:
            handler.send(401, b"{}", www_authenticate=f'Bearer realm="{realm}",service="s",scope="repository:z:push"')
    return Server(answer)


def give_token(handler):
    handler.send(200, b'{"token": "t"}')


@as_one
@pytest.mark.parametrize("allowed", [False, True])
def test_a_login_does_not_go_to_a_strange_realm(puller, allowed):
    giver = Server(give_token)
    image = Image("x")
    server = realm_server(f"http://127.0.0.1:{giver.port}/token", image)
    try:
        puller.log_in(**{server.host: login()})
        if allowed:
            puller.set_up({server.host: {"realm": "127.0.0.1"}})
        assert puller.pull(f"{server.host}/a:t")["digest"] == image.digest
    finally:
        server.close()
        giver.close()
    assert [r.headers.get("authorization") for r in giver.seen] == [basic() if allowed else None]
    # Whatever the registry wants the token for, it is one to pull with.
    assert giver.seen[0].query()["scope"] == ["repository:a:pull"]


@as_one
def test_a_strange_realm_that_wants_the_login(puller):
    giver = Server(lambda handler: handler.send(401, b"{}"))
    server = realm_server(f"http://127.0.0.1:{giver.port}/token", Image("x"))
    try:
        puller.log_in(**{server.host: login()})
        puller(f"{server.host}/a:t").sentence("the login for", "was not sent to '127.0.0.1'", "realm: 127.0.0.1")
    finally:
        server.close()
        giver.close()


@as_one
@pytest.mark.parametrize("realm, why", [
    ("http://tokens.example/x", "without TLS"), ("ftp://a.example/", "not an address"),
    ("https://me@a.example/", "not an address"), ("file:///etc/passwd", "not an address")])
def test_a_realm_that_is_refused(puller, realm, why):
    server = realm_server(realm, Image("x"))
    try:
        puller.log_in(**{server.host: login()})
        puller(f"{server.host}/a:t").sentence(why)
    finally:
        server.close()


@as_one
def test_a_token_server_that_redirects_gets_nothing_more(puller):
    other = Server(give_token)
    giver = Server(lambda handler: handler.send(307, b"", location=f"{other.url}/token"))
    server = realm_server(f"{giver.url}/token", Image("x"))
    try:
        puller.log_in(**{server.host: login()})
        puller(f"{server.host}/a:t").sentence("token server redirects")
    finally:
        for one in (server, giver, other):
            one.close()
    assert not other.seen


@as_one
def test_redirected_blobs_come_without_the_login(puller):
    image = Image("x")
    store = Server(lambda handler: Honest.send_blob(handler, image.blobs[handler.path[1:]]))
    honest = Honest(image)

    def answer(handler):
        if handler.headers.get("authorization") != basic():
            handler.send(401, b"{}", www_authenticate='Basic realm="x"')
        elif "/blobs/" in handler.path:
            digest = handler.path.rpartition("/")[2]
            handler.send(307, b"", location=f"http://127.0.0.1:{store.port}/{digest}")
        else:
            honest(handler)

    server = Server(answer)
    try:
        puller.log_in(**{server.host: login()})
        assert puller.pull(f"{server.host}/a:t")["digest"] == image.digest
    finally:
        server.close()
        store.close()
    assert len(store.seen) == 2 and all("authorization" not in request.headers for request in store.seen)


# ---- mirrors and plain HTTP ------------------------------------------------------------------------------

def test_mirrors(puller, registry):
    puller.set_up({"r.invalid": {"mirrors": ["localhost:1/x", f"{registry.host}/a"]}})
    done = puller("r.invalid/b:1")
    said = json.loads(done.ok())
    assert said["source"] == registry.host and said["digest"] == registry.image.digest
    assert "the mirror 'localhost:1' is passed over" in done.err
    assert puller.names() == {"r.invalid/b:1": registry.image.digest}


@as_one
def test_a_lying_mirror_is_passed_over(puller, registry):
    honest = Honest(registry.image)
    honest.changes["/v2/a/blobs/"] = lambda handler: handler.send(200, b"x" * 100)
    liar = Server(lambda handler: (setattr(handler, "path", handler.path.replace("/v2/a/b/", "/v2/a/")),
                                   honest(handler)))
    honest.tags = ("1",)
    puller.set_up({registry.host: {"mirrors": [liar.host]}})
    try:
        assert puller.pull(f"{registry.host}/a/b:1")["source"] == registry.host
    finally:
        liar.close()
    assert puller.blobs() == registry.image.blobs


@as_one
def test_a_mirror_does_not_get_the_registrys_login(puller, registry, private, ca):
    mirror = Server(lambda handler: handler.send(401, b"{}", www_authenticate='Basic realm="x"'))
    puller.set_up({private.host: {"mirrors": [mirror.host]}})
    puller.log_in(**{private.host: login()})
    try:
        assert puller.pull("--ca", ca, f"{private.host}/p/q:1")["source"] == private.host
    finally:
        mirror.close()
    assert mirror.seen and all("authorization" not in request.headers for request in mirror.seen)


@as_one
def test_plain_http_elsewhere_is_for_those_who_say_so(puller, registry):
    """0.0.0.0 is this machine too, but not by a name that we know as such."""
    host = f"0.0.0.0:{registry.port}"
    puller(f"{host}/a/b:1").sentence("does not speak TLS", "insecure: true")
    puller.set_up({host: {"insecure": True}})
    assert puller.pull(f"{host}/a/b:1")["digest"] == registry.image.digest


@as_one
def test_the_operators_proxy(puller):
    """It is asked to connect to the registry: nobody resolves the name here."""
    proxy = Server(lambda handler: handler.send(500, b"{}"))
    seen = []
    proxy.server.RequestHandlerClass.do_CONNECT = lambda handler: (seen.append(handler.path), handler.send(502, b""))
    try:
        puller("registry.invalid/a:t", env={"HTTPS_PROXY": proxy.host}).sentence("the proxy does not connect to 'registry.invalid': it answers with 502")
    finally:
        proxy.close()
    assert seen[0] == "registry.invalid:443"


@as_one
def test_a_bad_configuration(puller, registry):
    puller.file("home/.config/cloister/registries.yaml", "registries: {a.example: {mirror: b}}\n").chmod(0o600)
    puller(f"{registry.host}/a/b:1").sentence("registries.yaml:1:26: there is no key 'mirror' here")
    puller.file("home/.config/cloister/registries.yaml", "")
    puller.file("home/.docker/config.json", "[]")
    puller(f"{registry.host}/a/b:1").sentence(".docker/config.json", "not a file of logins")


# ---- limits and progress ---------------------------------------------------------------------------------

@as_one
def test_limits(puller, registry):
    name = f"{registry.host}/a/b:1"
    puller("--blob-max", "1K", name).sentence("the limit of a blob is 1K")
    puller.set_up({}, limits={"image": "2K"})
    puller(name).sentence("which is the limit of an image")
    assert puller.names() == {} and puller.parts() == []
    assert puller.pull("--image-max", "1G", name)


@as_one
def test_progress_as_json(puller, registry):
    out, into = os.pipe()
    done = puller("--progress-fd", str(into), f"{registry.host}/a/b:1", pass_fds=[into])
    os.close(into)
    with open(out, encoding="ascii") as lines:
        events = [json.loads(line) for line in lines]
    assert done.err == ""
    total = sum(layer["size"] for layer in registry.image.layers) + registry.image.config["size"]
    assert events[0]["event"] == "begin" and events[0]["total"] == total
    assert events[-1] == {"event": "end", "name": f"{registry.host}/a/b:1", "done": total, "total": total,
                          "blobs_done": 4, "blobs": 4}


def on_a_terminal(puller, *words):
    """Pull, and return what it drew as well."""
    leader, terminal = pty.openpty()
    os.set_blocking(leader, False)
    subprocess.run(["stty", "cols", "100"], stdin=terminal, check=True)
    done = puller(*words, stderr=terminal)
    os.close(terminal)
    drawn = b""
    try:
        while more := os.read(leader, 65536):
            drawn += more
    except OSError:
        pass
    os.close(leader)
    return done, text_of(drawn)


@as_one
@pytest.mark.parametrize("quiet", [False, True])
def test_bars_on_a_terminal(puller, registry, quiet):
    done, drawn = on_a_terminal(puller, *(["--quiet"] if quiet else []), f"{registry.host}/a/b:1")
    assert done.status == 0 and ("of 4" in drawn) != quiet


# ---- the process -----------------------------------------------------------------------------------------

def test_it_is_locked_down_before_its_first_byte(puller):
    held = []

    def answer(handler):
        held.append(handler)
        wait_until(lambda: len(held) > 1, "the test has looked")
        handler.send(500, b"{}")

    server = Server(answer)
    program = puller.operator.program.parent / "libexec/cloister-pull"
    process = puller.operator.spawn(program, f"{server.host}/a:t", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: held, "the first request")
        status = dict(line.split(":\t", 1) for line in
                      open(f"/proc/{process.pid}/status", encoding="ascii").read().splitlines() if ":\t" in line)
        assert (status["Seccomp"], status["NoNewPrivs"], int(status["CapEff"], 16)) == ("2", "1", 0)
        if os.geteuid() == 0:
            seen = os.listdir(f"/proc/{process.pid}/root")
            assert "home" not in seen and "usr" not in seen, seen
    finally:
        held.append(None)
        process.kill()
        process.wait()
        server.close()


# ---- signatures ------------------------------------------------------------------------------------------

KEYS = {"p256": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), "ed25519": ("ed25519",),
        "rsa": ("rsa", "-pkeyopt", "rsa_keygen_bits:2048")}


class Signer:
    """Signs as cosign does: a payload that names the image, and a signature in a manifest under sha256-HEX.sig."""

    def __init__(self, operator, name, kind="p256"):
        self.private, self.folder = operator.base / f"{name}.key", operator.base
        openssl("genpkey", "-algorithm", *KEYS[kind], "-out", self.private)
        self.public = operator.file(f"{name}.pub", openssl("pkey", "-in", self.private, "-pubout"))
        self.is_raw = kind == "ed25519"

    def sign(self, data):
        (self.folder / "payload").write_bytes(data)
        how = ["pkeyutl", "-sign", "-rawin", "-inkey", self.private, "-in", self.folder / "payload"] if self.is_raw else \
              ["dgst", "-sha256", "-sign", self.private, self.folder / "payload"]
        return openssl(*how)

    def add_to(self, image, subject, repository, kind="cosign container image signature"):
        """The manifest of signatures of SUBJECT, whose blobs are added to those of IMAGE."""
        payload = json.dumps({"critical": {"identity": {"docker-reference": repository}, "image": {
            "docker-manifest-digest": subject}, "type": kind}, "optional": None}).encode()
        layer = image.add("application/vnd.dev.cosign.simplesigning.v1+json", payload)
        import base64
        layer["annotations"] = {"dev.cosignproject.cosign/signature": base64.b64encode(self.sign(payload)).decode()}
        config = image.add("application/vnd.oci.image.config.v1+json", b'{"rootfs": {}}')
        manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                               "config": config, "layers": [layer]}).encode()
        return image.add("x", manifest)["digest"]


class Signed(Honest):
    """A registry whose image may have signatures."""

    def __init__(self, image):
        super().__init__(image)
        self.signatures = {}        # tag: digest

    def answer(self, handler):
        tag = handler.path.rpartition("/")[2]
        handler.path = handler.path.replace(tag, self.signatures.get(tag, tag))
        super().answer(handler)


@pytest.fixture
def signed():
    image = Image("signed")
    answer = Signed(image)
    server = Server(answer)
    server.image, server.answer = image, answer
    server.tag = f"{image.digest.replace(':', '-')}.sig"
    yield server
    server.close()


@pytest.mark.parametrize("kind", KEYS)
def test_a_signed_image(puller, signed, kind):
    signer = Signer(puller.operator, "good", kind)
    name, require = f"{signed.host}/a:t", ["--require", f"signature:{signer.public}"]
    puller(*require, name).sentence("it is not signed")
    assert puller.names() == {} and signed.image.layers[0]["digest"] not in puller.blobs()
    signed.answer.signatures[signed.tag] = signer.add_to(signed.image, signed.image.digest, f"{signed.host}/a")
    assert puller.pull(*require, name)["digest"] == signed.image.digest
    # The store knows it now: nobody is asked.
    before = len(signed.seen)
    assert puller.pull("--verify", *require, name)["digest"] == signed.image.digest
    assert len(signed.seen) == before
    # Its signatures stay as long as the image does.
    kept = puller.operator.base / "data/images/signatures"
    puller.operator.cloister("image", "prune").ok()
    assert [path.name for path in kept.iterdir()] == [signed.image.digest.removeprefix("sha256:")]
    puller.operator.cloister("image", "remove", name).ok()
    assert list(kept.iterdir()) == []


@as_one
@pytest.mark.parametrize("what, why", [
    ("key", "by none of the keys"), ("digest", "is of the image 'sha256:00"), ("name", "is for 'localhost:1/b'"),
    ("type", "not of the kind")])
def test_a_signature_that_does_not_count(puller, signed, what, why):
    good, bad = Signer(puller.operator, "good"), Signer(puller.operator, "bad")
    signed.answer.signatures[signed.tag] = (bad if what == "key" else good).add_to(
        signed.image, "sha256:" + "0" * 64 if what == "digest" else signed.image.digest,
        "localhost:1/b" if what == "name" else f"{signed.host}/a",
        **({"kind": "something"} if what == "type" else {}))
    puller("--key", good.public, f"{signed.host}/a:t").sentence(why)
    assert puller.names() == {}


@as_one
def test_each_set_of_keys_must_have_signed(puller, signed):
    one, two = Signer(puller.operator, "one"), Signer(puller.operator, "two")
    signed.answer.signatures[signed.tag] = one.add_to(signed.image, signed.image.digest, f"{signed.host}/a:t")
    name = f"{signed.host}/a:t"
    assert puller.pull("--require", f"signature:{two.public},{one.public}", name)
    both = f"signature:{one.public};signature:{two.public}"
    puller("--require", both, name).sentence("not all of the keys")
    puller("--verify", "--require", both, name).sentence("not all of the keys")


@as_one
def test_the_signature_of_an_index_covers_its_images(puller):
    image = Image("x")
    index = Index(image, Image("y", architecture=OTHER))
    index.add = lambda kind, data: image.__class__.add(index, kind, data)
    answer, signer = Signed(index), Signer(puller.operator, "good")
    server = Server(answer)
    answer.signatures[f"{index.digest.replace(':', '-')}.sig"] = signer.add_to(index, index.digest, f"{server.host}/a")
    try:
        said = puller.pull("--key", signer.public, f"{server.host}/a:t")
        assert (said["digest"], said["index"]) == (image.digest, index.digest)
    finally:
        server.close()
    assert puller.pull("--verify", "--key", signer.public, f"{server.host}/a:t")


@as_one
def test_signatures_among_referrers(puller, signed):
    signer = Signer(puller.operator, "good")
    digest = signer.add_to(signed.image, signed.image.digest, f"{signed.host}/a")
    listed = json.dumps({"schemaVersion": 2, "manifests": [
        {"artifactType": "application/vnd.dev.cosign.artifact.sig.v1+json", "digest": digest, "size": 1,
         "mediaType": "application/vnd.oci.image.manifest.v1+json"}]}).encode()
    signed.answer.changes["/v2/a/referrers/"] = lambda handler: handler.send(200, listed)
    assert puller.pull("--key", signer.public, f"{signed.host}/a:t")


@as_one
def test_a_digest_is_required(puller, registry):
    puller("--require", "digest", f"{registry.host}/a/b:1").sentence("the policy requires a digest")
    assert puller.pull("--require", "digest", f"{registry.host}/a/b@{registry.image.digest}")


@as_one
def test_keys_that_are_none(puller, registry):
    bad = puller.file("bad.pub", "-----BEGIN PUBLIC KEY-----\nxxxx\n-----END PUBLIC KEY-----\n")
    puller("--key", bad, f"{registry.host}/a/b:1").sentence("bad.pub", "no public key")
    small = openssl("pkey", "-pubout", input=openssl("genpkey", "-algorithm", "rsa", "-pkeyopt", "rsa_keygen_bits:1024"))
    puller("--key", puller.file("small.pub", small), f"{registry.host}/a/b:1").sentence("of a kind that is not used")


# ---- what policies require -------------------------------------------------------------------------------

def resolve(puller, *words):
    return puller.operator.do(puller.operator.program.parent / "libexec/cloister-image", "--resolve", *words)


@pytest.mark.parametrize("stored", [False, True])
def test_the_resolver_wants_a_signature(puller, signed, stored):
    signer, other = Signer(puller.operator, "good"), Signer(puller.operator, "other")
    name = f"{signed.host}/a:t"
    if stored:
        resolve(puller, name).ok()
    resolve(puller, "--require", f"signature:{signer.public}", name).sentence("it is not signed")
    signed.answer.signatures[signed.tag] = signer.add_to(signed.image, signed.image.digest, f"{signed.host}/a")
    resolve(puller, "--require", f"signature:{other.public}", name).sentence("by none of the keys")
    done = resolve(puller, "--require", f"signature:{signer.public}", name)
    assert json.loads(done.ok())["digest"] == signed.image.digest
    # By its digest it is the same image, and the store knows its signature.
    signed.close()
    resolve(puller, "--require", f"digest;signature:{signer.public}", signed.image.digest).ok()
    resolve(puller, "--require", f"signature:{other.public}", signed.image.digest).sentence(name)


@as_one
def test_the_resolver_wants_a_digest(puller, registry, tmp_path):
    name, digest = f"{registry.host}/a/b", registry.image.digest
    layout = write_layout(tmp_path / "layout", registry.image)
    resolve(puller, "--require", "digest", f"{name}:1").sentence("the policy requires a digest")
    resolve(puller, "--require", "digest", f"oci:{layout}:t").sentence("the policy requires a digest")
    assert json.loads(resolve(puller, "--require", "digest", f"{name}@{digest}").ok())["digest"] == digest
    assert json.loads(resolve(puller, "--require", "digest", digest).ok())["digest"] == digest


@as_one
def test_other_images_have_no_signatures(puller, registry, tmp_path):
    layout, signer = write_layout(tmp_path / "layout", registry.image), Signer(puller.operator, "good")
    require = ["--require", f"signature:{signer.public}"]
    resolve(puller, *require, f"oci:{layout}:t").sentence("only images of registries")
    if shutil.which("busybox"):
        resolve(puller, *require, "minimal:").ok()


def test_run_obeys_the_policy(puller, signed):
    """The image has no program: that a cell starts shows in the error."""
    operator, signer = puller.operator, Signer(puller.operator, "good")
    name = f"{signed.host}/a:t"
    policy = operator.file("signed.yaml", f"version: 1\nimages: {{require: signature, keys: ['{signer.public}']}}\n")
    pinned = operator.file("pinned.yaml", "version: 1\nimages: {require: digest}\n")
    assert "it is not signed" in operator.run("-p", policy, "--image", name, "--", "x").err
    signed.answer.signatures[signed.tag] = signer.add_to(signed.image, signed.image.digest, f"{signed.host}/a")
    assert "it is not signed" not in operator.run("-p", policy, "--image", name, "--", "x").err
    for rules in (["-p", pinned], ["-p", policy, "--within", pinned]):
        assert "the policy requires a digest" in operator.run(*rules, "--image", name, "--", "x").err
        pin = f"{signed.host}/a@{signed.image.digest}"
        assert "requires a digest" not in operator.run(*rules, "--image", pin, "--", "x").err


@pytest.mark.parametrize("stored", [False, True])
def test_the_image_that_was_checked_is_the_one_that_is_used(puller, signed, stored):
    """Another takes its name meanwhile."""
    operator, signer, evil = puller.operator, Signer(puller.operator, "good"), Image("evil")
    name, libexec = f"{signed.host}/a:t", operator.program.parent / "libexec"
    signed.answer.signatures[signed.tag] = signer.add_to(signed.image, signed.image.digest, f"{signed.host}/a")
    if stored:
        resolve(puller, name).ok()
    own = operator.folder("libexec")
    for program in ("cloister-image", "cloister-unpack"):
        shutil.copy(libexec / program, own / program)
    layout = write_layout(operator.folder("evil") / "layout", evil)
    take = f"{operator.program} image load oci:{layout}:t --name {name} >&2"
    operator.file("libexec/cloister-pull", f"#!/bin/sh\n{take if stored else ':'}\n{libexec}/cloister-pull \"$@\" || exit\n"
                  f"{':' if stored else take}\n").chmod(0o755)
    done = operator.do(own / "cloister-image", "--resolve", "--require", f"signature:{signer.public}", name)
    assert json.loads(done.ok())["digest"] == signed.image.digest and json.loads(done.out)["name"] == name
    assert puller.names()[name] == evil.digest
