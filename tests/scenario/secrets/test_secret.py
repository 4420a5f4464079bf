"""`cloister secret`: keeps values, describes them, and never reveals one."""
import base64
import binascii
import fcntl
import json
import os
import re
import resource
import signal
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from operators import IS_ROOT, IS_STATIC, only_user, status_of, wait_until
from terminal import Terminal

# Nothing else on the machine has it.
CANARY = "canary7f3d9a1e5b2c8046" + binascii.hexlify(os.urandom(12)).decode()
GITHUB = "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"


def renderings(value):
    """The value as it is, and as it might have been written by somebody careless."""
    raw = value.encode()
    coded = [base64.b64encode(b"xyz"[:skip] + raw)[4 * bool(skip):-4] for skip in range(3)]
    return [raw, raw[::-1], binascii.hexlify(raw), *coded, raw[4:-4], value.upper().encode()]


def add(operator, name="KEY", value=CANARY, *options, **how):
    options = options or ("--host", "api.example.com")
    return operator.cloister("secret", "add", name, *options, input=value, **how)


def shown(operator, name="KEY"):
    return json.loads(operator.cloister("secret", "show", name, "--json").ok())


# ---- what it does ------------------------------------------------------------------------

def test_life_of_a_secret(operator):
    assert operator.cloister("secret", "list").ok() == ""
    assert json.loads(operator.cloister("secret", "list", "--json").ok()) == []
    operator.cloister("secret", "show", "KEY").sentence("'KEY'", "secret list")
    add(operator, "KEY", CANARY + "\n", "--host", "api.example.com", "--host", "*.b.example:8443",
        "--method", "GET", "--path", "/v1/**", "--in", "header:X-Api-Key", "--in", "query:key",
        "--env", "MY_KEY").ok()
    first = shown(operator)
    assert first["scheme"] == "swap" and first["from"] == "vault" and first["env"] == "MY_KEY"
    assert first["in"] == "header:x-api-key, query:key"
    assert first["with"] == {}
    for part in ("api.example.com", "*.b.example:8443", "GET", "/v1/**"):
        assert part in first["scope"]
    assert len(first["fingerprint"]) == 16
    assert "KEY" in operator.cloister("secret", "list").ok()
    add(operator).sentence("there is a secret 'KEY' already")

    operator.cloister("secret", "rotate", "KEY", input="another value").ok()
    second = shown(operator)
    assert second["fingerprint"] != first["fingerprint"] and second["added"] == first["added"]
    operator.cloister("secret", "rotate", "KEY", input=CANARY).ok()
    assert shown(operator)["fingerprint"] == first["fingerprint"]

    operator.cloister("secret", "remove", "KEY").ok()
    operator.cloister("secret", "remove", "KEY").sentence("there is no secret 'KEY'")
    assert json.loads(operator.cloister("secret", "list", "--json").ok()) == []


def test_the_name_is_enough(operator):
    done = operator.cloister("secret", "add", "GITHUB_TOKEN", input=GITHUB)
    done.ok()
    assert done.err == ""
    entry = shown(operator, "GITHUB_TOKEN")
    assert entry["service"] == "github" and "ghp_{w30}{crc62}" in entry["shape"]
    assert "api.github.com" in entry["scope"]
    # What was pasted in the wrong place is told at once, without repeating it.
    wrong = operator.cloister("secret", "add", "mine", "--like", "github", input=CANARY)
    assert wrong.status == 0 and CANARY not in wrong.err
    assert "does not look like a credential of" in wrong.err and "it is kept all the same" in wrong.err


def test_a_removal_is_reported_on_a_terminal(operator):
    operator.cloister("secret", "add", "GITHUB_TOKEN", input=GITHUB).ok()
    terminal = Terminal(operator, operator.program, "secret", "remove", "GITHUB_TOKEN")
    assert (terminal.end(), terminal.text) == (0, "GITHUB_TOKEN: removed\r\n")


def test_a_file_of_definitions(operator):
    file = operator.file("home/s.yaml", "version: 1\nsecrets:\n  db:\n    scheme: postgres\n"
                         "    hosts: 'db.example:5432'\n  STRIPE_API_KEY:\n")
    operator.cloister("secret", "add", "db", "-f", file, input=CANARY).ok()
    assert shown(operator, "db")["scheme"] == "postgres"
    operator.cloister("secret", "add", "nosuch", "-f", file, input=CANARY).sentence("'nosuch'")
    bad = operator.file("home/bad.yaml", "version: 1\nsecrets:\n  a:\n    hots: x.y\n")
    operator.cloister("secret", "add", "a", "-f", bad, input="x").sentence(
        f"{bad}:4:5: there is no key 'hots'", "did you mean 'hosts'")


def test_a_pair_of_lines_or_json(operator):
    operator.cloister("secret", "add", "one", "--like", "aws",
                      input=f"AKIAABCDEFGH234567QR\n{CANARY}\n").ok()
    operator.cloister("secret", "add", "two", "--like", "aws", input=json.dumps(
        {"AccessKeyId": "AKIAABCDEFGH234567QR", "SecretAccessKey": CANARY})).ok()
    assert shown(operator, "one")["fingerprint"] == shown(operator, "two")["fingerprint"]
    said = operator.cloister("secret", "add", "three", "--like", "aws", input=CANARY)
    assert CANARY not in said.sentence("needs an id")


def test_services(operator):
    said = operator.cloister("secret", "services").ok()
    assert "anthropic" in said and "ANTHROPIC_API_KEY" in said
    columns = [re.fullmatch(r"(\S+ +)([A-Z0-9_]+ +)\S.*", line) for line in said.splitlines()]
    assert len({(m.end(1), m.end(2)) for m in columns}) == 1, said
    assert "api.openai.com" in operator.cloister("secret", "services", "openai").ok()
    assert len(json.loads(operator.cloister("secret", "services", "--json").ok())) > 50
    operator.cloister("secret", "services", "nosuch").sentence("'nosuch'", "secret services")
    operator.cloister("secret", "services", "githb").sentence("did you mean 'github'")


def test_values_from_elsewhere_are_not_kept(operator):
    operator.cloister("secret", "add", "KEY", "--host", "a.example", "--from",
                      "cmd:/bin/echo x", "--expires", "1h").ok()
    entry = shown(operator)
    assert entry["from"] == "cmd:/bin/echo x" and entry["fingerprint"] is None
    assert entry["expires"] == 3600
    assert re.search(r"^expires +1h", operator.cloister("secret", "show", "KEY").ok(), re.M)
    operator.cloister("secret", "rotate", "KEY", input="x").sentence("change it there")
    operator.cloister("secret", "add", "OTHER", "--host", "a.example", "--from", "op://x").sentence(
        "env:NAME, file:PATH or cmd:")


def test_a_name_that_the_vault_does_not_have(operator):
    """Also for a known service: only the value is missing."""
    operator.run("--allow", "a.example", "-s", "OPENAI_API_KEY", "--", "true").sentence(
        "secret add OPENAI_API_KEY", "OPENAI_API_KEY@HOST")
    add(operator).ok()
    operator.run("--allow", "a.example", "-s", "KEYY", "--", "true").sentence("did you mean 'KEY'")


def test_a_definition_is_shown(operator):
    """All of it: a missing user or a truncated key would mislead the reader."""
    long = "ssh-ed25519 " + "A" * 300
    add(operator, "KEY", CANARY, "--like", "postgres", "--host", "db.example.com", "--id", "app").ok()
    assert shown(operator)["id"] == "app"
    assert re.search(r"^id +app$", operator.cloister("secret", "show", "KEY").ok(), re.M)
    add(operator, "LONG", CANARY, "--scheme", "jwt", "--host", "a.example", "--with", "algorithm=HS256", "--with",
        f"audience={long}").ok()
    assert f" audience: {long}\n" in operator.cloister("secret", "show", "LONG").ok()


@pytest.mark.parametrize("words, part", [
    ([], "`secret` needs a verb: add"),
    (["ad", "X"], "did you mean 'add'"),
    (["add"], "takes the NAME"),
    (["add", "X"], "(--host)"),
    (["add", "X", "--host", "*"], "any host is none"),
    (["add", "X", "--like", "gihub"], "did you mean 'github'"),
    (["list", "X"], "takes no arguments"),
    (["show", "X", "--host", "a.x"], "takes no definition"),
    (["add", "X", "--key", "file"], "secret init"),
    (["add", "X", "--host", "a.x", "--with", "region"], "NAME=TEXT"),
    (["add", "X", "--host", "a.x", "--with", "region=x"], "'swap' has no option 'region'"),
    (["add", "X", "--env", "A", "--env", "B"], "given twice"),
    (["init", "--key", "nonsense"], "file, passphrase"),
])
def test_refusals(operator, words, part):
    operator.cloister("secret", *words, input=CANARY).sentence(part)


# ---- what it never does ------------------------------------------------------------------

@pytest.mark.parametrize("words", [
    ["add", "X", CANARY], ["add", f"X={CANARY}"], ["rotate", "X", CANARY],
    ["add", "--host", "a.x", "X", CANARY], ["add", "X", f"--value={CANARY}"],
    ["add", f"X {CANARY}"], ["show", f"X {CANARY}"], [CANARY],
])
def test_a_value_among_the_words_is_refused_and_not_repeated(operator, words):
    said = operator.cloister("secret", *words, input="").sentence()
    assert CANARY not in said
    if words[0] in ("add", "rotate") and words[-1] == CANARY:
        assert "standard input" in said


@pytest.mark.parametrize("value", [
    CANARY * 4000, CANARY + "\0" + CANARY, "", "\n",
], ids=["long", "nul", "empty", "line"])
def test_a_value_that_is_refused_is_not_repeated(operator, value):
    said = add(operator, "KEY", value)
    assert CANARY not in said.sentence()
    assert CANARY[:12] not in said.err
    assert ("pipe it in" in said.err) == (value.strip() == "")


def reading(operator, value=CANARY, *options, **how):
    """A `secret add` that has read VALUE and waits for more."""
    options = options or ("--host", "a.example")
    process = operator.spawn(operator.program, "secret", "add", "KEY", *options,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             **how)
    process.stdin.write(value.encode())
    process.stdin.flush()

    def drained():
        left = fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, b"\0" * 4)
        return struct.unpack("i", left)[0] == 0
    wait_until(drained, "the value is read")
    return process


def test_no_process_shows_it(operator):
    """Not among the words or the variables of any process, while one has it."""
    process = reading(operator)
    assert (Path(f"/proc/{process.pid}/comm").read_text()).startswith("cloister-vault")
    for proc in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                data = (proc / name).read_bytes()
            except OSError:
                continue
            assert CANARY.encode() not in data, (proc, name)
    if IS_STATIC:       # the sanitizers have memory of their own ways
        assert int(status_of(process.pid)["VmLck"].split()[0]) > 0
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and CANARY.encode() not in out + err


@pytest.mark.parametrize("who", ["user"])
def test_nobody_looks_into_it(operator):
    """Not even its own user: it is not dumpable."""
    if not IS_ROOT:
        pytest.skip("the test itself must be somebody else")
    process = reading(operator)
    looked = operator.do("/usr/bin/python3", "-c", f"open('/proc/{process.pid}/mem','rb')")
    assert looked.status != 0 and "Permission denied" in looked.err
    process.communicate(timeout=60)


def test_it_leaves_no_core(operator):
    def dumped(process):
        process.send_signal(signal.SIGSEGV)
        _, status = os.waitpid(process.pid, 0)
        process.returncode = -os.WTERMSIG(status)
        return os.WCOREDUMP(status)

    folder = operator.folder("home/cores")
    how = {"cwd": folder, "preexec_fn": lambda: resource.setrlimit(
        resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))}
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("core dumps are limited here")
    process = reading(operator, **how)
    assert not dumped(process)
    assert list(folder.iterdir()) == []


def test_it_is_in_no_file(operator):
    add(operator).ok()
    operator.cloister("secret", "show", "KEY").ok()
    operator.cloister("secret", "rotate", "KEY", input=CANARY + "2").ok()
    add(operator, "bad/name!", CANARY)
    vault = operator.base / "data" / "vault"
    assert {path.name for path in vault.iterdir()} == {"vault", "key", "lock"}
    assert vault.stat().st_mode & 0o777 == 0o700
    for path in vault.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    seen = 0
    for path in operator.base.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            seen += 1
            for form in renderings(CANARY):
                assert form not in data, path
    assert seen >= 3
    # The search finds what is there.
    control = operator.file("home/control", base64.b64encode(b"x" + CANARY.encode()))
    assert any(form in control.read_bytes() for form in renderings(CANARY))


def test_others_may_not_read_it(operator):
    add(operator).ok()
    vault = operator.base / "data" / "vault"
    (vault / "vault").chmod(0o644)
    operator.cloister("secret", "list").sentence("can be read by others")
    (vault / "vault").chmod(0o600)
    vault.chmod(0o755)
    operator.cloister("secret", "list").sentence("others may look into")
    vault.chmod(0o700)
    operator.cloister("secret", "list").ok()


def test_a_changed_vault_is_refused(operator):
    add(operator).ok()
    vault = operator.base / "data" / "vault" / "vault"
    data = bytearray(vault.read_bytes())
    data[-1] ^= 1
    vault.write_bytes(data)
    operator.cloister("secret", "list").sentence("the vault", "changed")
    add(operator, "OTHER").sentence("the vault", "changed")


# ---- somebody at a terminal --------------------------------------------------------------

def test_a_prompt_shows_nothing(operator):
    terminal = Terminal(operator, operator.program, "secret", "add", "KEY", "--host", "a.example")
    try:
        terminal.expect(r"value of KEY \(not shown\): ")
        before = terminal.settings()
        assert not before[3] & termios.ECHO
        terminal.type(CANARY + "xy\x7f\x7f\r")
        terminal.expect("fingerprint")
        assert terminal.end() == 0
        assert CANARY not in terminal.text and terminal.settings() == terminal.before
    finally:
        terminal.close()
    add(operator, "SAME").ok()
    assert shown(operator)["fingerprint"] == shown(operator, "SAME")["fingerprint"]


def test_a_prompt_can_be_left(operator):
    terminal = Terminal(operator, operator.program, "secret", "add", "KEY", "--host", "a.example")
    try:
        terminal.expect(r"\(not shown\): ")
        terminal.type(CANARY + "\x03")
        assert terminal.end() == 125
        assert "nothing was given" in terminal.text and CANARY not in terminal.text
        assert terminal.settings() == terminal.before
    finally:
        terminal.close()
    operator.cloister("secret", "show", "KEY").sentence("no secret")


def test_no_prompt_for_the_value_of_an_existing_secret(operator):
    add(operator).ok()
    terminal = Terminal(operator, operator.program, "secret", "add", "KEY", "--host", "a.example")
    try:
        terminal.expect("there is a secret 'KEY' already")
        assert terminal.end() == 125 and "value of" not in terminal.text
    finally:
        terminal.close()


def test_a_passphrase(operator):
    operator.cloister("secret", "init", "--key", "passphrase").ok()
    add(operator).sentence("no terminal on which to ask for the new passphrase")

    def at_terminal(*words, answers):
        terminal = Terminal(operator, operator.program, "secret", *words)
        try:
            for question, answer in answers:
                terminal.expect(question)
                terminal.type(answer + "\r")
            status = terminal.end()
            assert "open sesame" not in terminal.text and CANARY not in terminal.text
            return status, terminal.text
        finally:
            terminal.close()

    new = [(r"value of KEY", CANARY), (r"new passphrase", "open sesame"), (r"the same again",
                                                                          "open sesame")]
    assert at_terminal("add", "KEY", "--host", "a.example", answers=[
        *new[:2], (r"the same again", "open sesamf")])[0] == 125
    assert at_terminal("add", "KEY", "--host", "a.example", answers=new)[0] == 0
    status, text = at_terminal("list", answers=[(r"passphrase of the vault", "open sesame")])
    assert status == 0 and "KEY" in text
    status, text = at_terminal("list", answers=[(r"passphrase of the vault", "wrong one")])
    assert status == 125 and "not the vault's passphrase" in text
    # Asked once, though the vault is opened twice.
    assert at_terminal("rotate", "KEY", answers=[(r"passphrase of", "open sesame"),
                                                 (r"value of KEY", CANARY)])[0] == 0
    operator.cloister("secret", "init").sentence("there is a vault already")


@only_user
def test_a_value_of_several_lines(operator):
    """Found when it is kept, not when it first goes out."""
    add(operator, "KEY", "one\ntwo\n", "--host", "a.example").sentence("'KEY' (swap) is one line")
    add(operator, "KEY", "one\ntwo\n", "--host", "a.example", "--in", "body").ok()
    operator.cloister("secret", "rotate", "KEY", input="one\n").ok()
    pem = subprocess.run(["openssl", "genpkey", "-algorithm", "ED25519"], check=True, capture_output=True, text=True).stdout
    add(operator, "PEM", pem, "--scheme", "message", "--host", "a.example").ok()


@only_user
def test_the_list_fits_a_terminal(operator):
    add(operator, "GITHUB_TOKEN", CANARY).ok()
    add(operator, "N" * 60, CANARY, "--scheme", "azure-sharedkey", "--id", "x", "--host", "a.example").ok()
    lines = operator.cloister("secret", "list").ok().splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= 80, lines
    assert "GITHUB_TOKEN " in lines[1] and "api.e" in lines[1] and "..." in lines[2]


@only_user
def test_a_file_behind_an_agents_link(operator):
    """The link could lead to any file of the operator."""
    value = operator.file("safe/value", CANARY)
    value.chmod(0o600)
    folder = operator.folder("ws")
    operator.host(f"ln -s {value} {folder}/link")
    operator.run("-w", f"{folder}:rw", "--", "true").ok()
    for name, path in ("LINKED", folder / "link"), ("DIRECT", value):
        operator.cloister("secret", "add", name, "--host", "a.example", "--from", f"file:{path}").ok()
    operator.run("--allow", "a.example", "-s", "LINKED", "--", "true").sentence("an agent can or could write")
    operator.run("--allow", "a.example", "-s", "DIRECT", "--", "true").ok()


@pytest.mark.parametrize("scheme", ["jwt", "message"])
@pytest.mark.parametrize("kind", [("X25519",), ("ED448",), ("EC", "-pkeyopt", "ec_paramgen_curve:secp256k1")],
                         ids=lambda kind: kind[-1])
def test_a_key_that_a_cell_could_not_use(operator, kind, scheme):
    """It is refused when it is added, not when somebody needs it."""
    pem = subprocess.run(["openssl", "genpkey", "-algorithm", *kind], check=True, capture_output=True, text=True).stdout
    options = ("--scheme", scheme, "--host", "api.example.com")
    add(operator, "KEY", pem, *options).sentence("no placeholder for 'KEY'", "no algorithm of this scheme")
    add(operator, "KEY", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", *options).sentence(
        "not a private key in PEM")
    good = subprocess.run(["openssl", "genpkey", "-algorithm", "ED25519"], check=True, capture_output=True,
                          text=True).stdout
    add(operator, "KEY", good, *options).ok()
    operator.cloister("secret", "rotate", "KEY", input=pem).sentence("no algorithm of this scheme")


def test_a_certificate_without_its_key(operator):
    add(operator, "KEY", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "--scheme", "mtls",
        "--host", "api.example.com").sentence("no placeholder for 'KEY'")


def test_the_name_that_was_asked_for_is_a_variable(operator):
    """Whatever the catalogue calls it; with another name given, only that one."""
    operator.cloister("secret", "add", "STRIPE_KEY", "--like", "stripe", input="sk_test_4eC39HqLyjWDarjtT1zdp7dc").ok()
    policy = operator.file("p.yaml", "version: 1\negress: [allow: api.stripe.com]\n")
    said = operator.run("-p", policy, "-s", "STRIPE_KEY", "--", "sh", "-c", "echo $STRIPE_KEY $STRIPE_API_KEY").ok().split()
    assert len(said) == 2 and said[0] == said[1] and said[0].startswith("sk_test_")
    said = operator.run("-p", policy, "-s", "STRIPE_KEY=OTHER", "--", "sh", "-c", "echo $STRIPE_KEY.$OTHER").ok()
    assert said.startswith(".sk_test_")
