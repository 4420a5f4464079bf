"""Real agents work in a cell: they find their provider, trust the cell, and bear refusals.

They come with `make npm`.  The model is egress_model.py, at the providers' own names."""
import base64
import json
import time

import pytest

from egress_lab import CURL, needs, needs_npm
from operators import only_user, wait_until

SECONDS = 120
CLAUDE = ["claude", "--dangerously-skip-permissions", "-p"]
CODEX = ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
         # A name that it does not know gets its simplest tools.
         "-m", "a-model"]
PROMPTS = [("say hello", "hello from the model"),
           ("run [[echo $((6*7)) >~/made; cat ~/made]]", "the tool said: ")]
# Only what is needed, and no word about what else they would like.
NARROW = """
  - allow: api.anthropic.com
    methods: [POST]
    paths: [/v1/messages]
  - allow: api.openai.com
    methods: [POST]
    paths: [/v1/responses]
"""


@pytest.fixture
def ask(online):
    """Run an agent; what it said."""
    def ask(rules, *words, variables=(), more=(), **how):
        given = {"PATH": "/opt/npm/node_modules/.bin:/usr/bin:/bin",
                 "ANTHROPIC_API_KEY": "of-the-tests", "CODEX_API_KEY": "of-the-tests",
                 **dict(variables)}
        options = ["-v", f"{online.lab.folder / 'npm'}:/opt/npm:ro", *more]
        for name, value in given.items():
            options += ["-e", f"{name}={value}"]
        return online.run(rules, *words, options=options, seconds=SECONDS, **how)
    return ask


def answered(online, path):
    return [e["status"] for e in online.events(type="http", path=path, verdict="allow")]


@pytest.fixture
def by_profile(online):
    """Run an agent by its profile, from a clean home with nothing but a key in the vault."""
    def by_profile(key, name, *words):
        operator = online.operator
        operator.env["XDG_CONFIG_HOME"] = str(operator.folder("config"))
        operator.env["PATH"] = f"{online.lab.folder / 'npm/node_modules/.bin'}:{operator.env['PATH']}"
        if key:
            operator.cloister("secret", "add", *key, input="of-the-tests-of-the-tests").ok()
        project = operator.folder("project")
        done = operator.run("--name", "agent", "--keep", name, *words, cwd=project, seconds=SECONDS)
        online.cell = "agent"
        operator.kept |= {cell["cell"] for cell in operator.cells("-a")}
        return done
    return by_profile


@needs_npm("claude")
def test_claude_by_its_profile(online, by_profile):
    done = by_profile(["ANTHROPIC_API_KEY"], "claude", "-p", PROMPTS[1][0])
    assert PROMPTS[1][1] in done.ok() and done.out.split()[-1] == "42", done
    assert 200 in answered(online, "/v1/messages")
    # Its state is kept, and holds no key.
    [home] = (online.operator.base / "data/homes/claude").iterdir()
    kept = [path.read_bytes() for path in (home / ".claude").rglob("*") if path.is_file()]
    assert kept and not any(b"of-the-tests-of-the-tests" in text for text in kept)


@needs_npm("codex")
def test_codex_by_its_profile(online, by_profile):
    done = by_profile(["OPENAI_API_KEY"], "codex", "exec", "--skip-git-repo-check", "-m", "a-model", PROMPTS[1][0])
    assert PROMPTS[1][1] in done.ok() and done.out.split()[-1] == "42", done
    [home] = (online.operator.base / "data/homes/codex").iterdir()
    assert list((home / ".codex").iterdir())


@needs_npm("gemini")
def test_gemini_by_its_profile(online, by_profile):
    # It runs no command with a substitution in it.
    done = by_profile(["GEMINI_API_KEY"], "gemini", "-p", "run [[expr 21 + 21]]")
    assert PROMPTS[1][1] in done.ok() and "42" in done.out, done
    [home] = (online.operator.base / "data/homes/gemini").iterdir()
    assert list((home / ".gemini").iterdir())


@needs_npm("opencode")
def test_opencode_by_its_profile(online, by_profile):
    done = by_profile(["ANTHROPIC_API_KEY"], "opencode", "run", PROMPTS[1][0])
    assert PROMPTS[1][1] in done.ok() and "42" in done.out, done
    assert 200 in answered(online, "/v1/messages")


@pytest.mark.parametrize("name, words, key", [
    pytest.param("claude", ["-p"], ["ANTHROPIC_API_KEY"], marks=needs_npm("claude")),
    pytest.param("codex", ["exec", "--skip-git-repo-check", "-m", "a-model"], ["OPENAI_API_KEY"], marks=needs_npm("codex"))])
@only_user      # each starts an agent
def test_an_agent_calls_the_mcp_servers_of_its_profile(online, by_profile, name, words, key):
    online.operator.env["XDG_CONFIG_HOME"] = str(online.operator.folder("config"))
    text = online.operator.cloister("profile", "show", name).ok()
    server = f"mcp: {{as: {name}, servers: {{docs: {{url: 'https://www.example.test/mcp'}}}}}}"
    assert f"mcp: {{as: {name}}}\n" in text
    online.operator.file(f"config/cloister/profiles/{name}.yaml", text.replace(f"mcp: {{as: {name}}}", server))
    by_profile(key, name, *words, PROMPTS[0][0]).ok()
    assert online.events(type="http", host="www.example.test", method="POST", path="/mcp", verdict="allow")


TOKEN = "sk-ant-oat01-" + "aB3_x-Y9z7" * 8 + "abcdeAA"
REFRESH = "sk-ant-ort01-" + "kQ8_p-W2v4" * 8 + "abcdeAA"
PAYLOAD = base64.urlsafe_b64encode(json.dumps({"exp": 4102444800, "sub": "somebody"}).encode()).decode().rstrip("=")
JWT = f"eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.{PAYLOAD}." + "c2lnbmF0dXJl" * 20
GOOGLE = "ya29.a0" + "AfB_x-Y9z7" * 16
LOGINS = {"claude": (".claude/.credentials.json", TOKEN, {"claudeAiOauth": {
              "accessToken": TOKEN, "refreshToken": REFRESH, "expiresAt": 4102444800000, "scopes": ["user:inference"]}}),
          "codex": (".codex/auth.json", JWT, {"OPENAI_API_KEY": None, "last_refresh": "2026-01-01T00:00:00Z", "tokens": {
              "id_token": JWT, "access_token": JWT, "refresh_token": REFRESH, "account_id": "account-1"}}),
          "gemini": (".gemini/oauth_creds.json", GOOGLE, {
              "access_token": GOOGLE, "refresh_token": REFRESH, "scope": "https://www.googleapis.com/auth/cloud-platform",
              "token_type": "Bearer", "id_token": JWT, "expiry_date": 4102444800000})}


@pytest.mark.parametrize("name, words, host, prompt", [
    pytest.param("claude", ["-p"], "api.anthropic.com", PROMPTS[1][0], marks=needs_npm("claude")),
    pytest.param("codex", ["exec", "--skip-git-repo-check", "-m", "a-model"], "chatgpt.com", PROMPTS[1][0],
                 marks=needs_npm("codex")),
    # It runs no command with a substitution in it.
    pytest.param("gemini", ["-p"], "cloudcode-pa.googleapis.com", "run [[expr 21 + 21]]", marks=needs_npm("gemini"))])
@only_user      # each starts an agent
def test_an_agent_uses_the_operators_login(online, by_profile, name, words, host, prompt):
    """Its token reaches the provider, and never the cell, nor what the agent keeps."""
    path, token, login = LOGINS[name]
    online.operator.file(f"home/{path}", json.dumps(login))
    done = by_profile(None, name, *words, prompt)
    assert PROMPTS[1][1] in done.ok() and "42" in done.out, done
    assert online.events(type="http", host=host, verdict="allow")
    assert online.lab.seen(f"Bearer {token}"), "the provider never saw the token"
    kept = [file.read_text(errors="replace") for file in (online.operator.base / "data/homes").rglob("*") if file.is_file()]
    assert any("kept-outside-the-cell" in text for text in kept)
    assert not any(token in text or REFRESH in text for text in kept)
    assert json.loads((online.operator.home / path).read_text()) == login


RENEWED = {"claude": ("/claudeAiOauth/expiresAt", "['claudeAiOauth']['accessToken']", "api.anthropic.com/v1/models"),
           "codex": ("/until", "['tokens']['access_token']", "chatgpt.com/backend-api/models"),
           "gemini": ("/expiry_date", "['access_token']", "cloudcode-pa.googleapis.com/models")}


@pytest.mark.parametrize("name", list(LOGINS))
@only_user
def test_a_login_that_is_renewed_outside(online, name):
    """The agent outside has written new tokens to its file: the cell goes on, with the placeholder that it has."""
    operator = online.operator
    path, token, login = LOGINS[name]
    at, member, url = RENEWED[name]
    newer = token[:-4] + "AbCd"

    def write(value, seconds):
        text = json.dumps(login).replace(json.dumps(token), json.dumps(value))
        mine = json.loads(text)
        places = {"claude": mine.get("claudeAiOauth"), "codex": mine, "gemini": mine}[name]
        places[at.rsplit("/", maxsplit=1)[1]] = int((time.time() + seconds) * 1000)
        # As the agents do: another file in its place.
        operator.file(f"home/{path}.new", json.dumps(mine)).rename(operator.home / path)
    write(token, 4)
    operator.env["XDG_CONFIG_HOME"] = str(operator.folder("config"))
    operator.env["PATH"] = f"{operator.home}/.local/bin:{operator.env['PATH']}"
    operator.file("home/.local/bin/tester", "#!/bin/sh\nexec sleep infinity\n").chmod(0o755)
    operator.file("config/cloister/profiles/tester.yaml", f"""version: 1
program: tester
allow: [{url.split('/')[0]}]
secrets: [[ANTHROPIC_API_KEY, OPENAI_API_KEY]]
login: {{file: {path}, secret: {name}-login, expires: {at}}}
home: {{keep: [{path.split('/', maxsplit=1)[0]}]}}
""")
    online.cell = operator.run("-d", "tester", cwd=operator.folder("project")).ok().strip()
    operator.kept.add(online.cell)      # the project's changes would be kept
    read = f"import json, os; print(json.load(open(os.path.expanduser('~/{path}'))){member})"
    fake = online.inside("python3", "-c", read).ok().strip()
    assert fake not in (token, newer)
    ask = [*CURL, "-o", "/dev/null", "-H", f"Authorization: Bearer {fake}", f"https://{url}"]
    online.inside(*ask)
    assert online.lab.seen(f"Bearer {token}") and not online.lab.seen(newer)
    write(newer, 3600)
    wait_until(lambda: online.inside(*ask) and online.lab.seen(f"Bearer {newer}"), "the new token is sent")
    assert online.inside("python3", "-c", read).ok().strip() == fake
    operator.cloister("kill", online.cell).ok()


@needs_npm("claude")
@pytest.mark.parametrize("prompt, says", PROMPTS, ids=["text", "tool"])
def test_claude(online, ask, prompt, says):
    done = ask("  - include: anthropic\n", *CLAUDE, prompt)
    assert says in done.ok(), done
    assert "tool" not in says or done.out.split()[-1] == "42"
    assert "refused" not in done.err, "the preset lacks something"
    assert 200 in answered(online, "/v1/messages")


@needs_npm("claude")
def test_claude_where_it_is_sent(online, ask):
    """Another provider's address; everything else it would like to reach is refused."""
    done = ask("  - allow: model.example.test\n", *CLAUDE, "say hello",
               variables={"ANTHROPIC_BASE_URL": "https://model.example.test"})
    assert done.ok() == "hello from the model\n"
    assert {e["host"] for e in online.events(type="http", verdict="allow")} == {"model.example.test"}


@needs_npm("claude")
def test_claude_with_the_least(online, ask):
    assert ask(NARROW, *CLAUDE, "say hello").ok() == "hello from the model\n"
    assert online.events(type="http", host="api.anthropic.com", verdict="deny")


@needs_npm("claude")
def test_claude_shows_the_reason_of_a_refusal(online, ask):
    """A refusal ends it soon, and it shows its user the reason."""
    done = ask("  - deny: api.anthropic.com\n    reason: no models on Sundays\n", *CLAUDE, "say hello")
    assert done.status != 0
    assert "no models on Sundays" in done.out + done.err, done


@needs_npm("codex")
@pytest.mark.parametrize("prompt, says", PROMPTS, ids=["text", "tool"])
def test_codex(online, ask, prompt, says):
    """Over the WebSocket that it prefers."""
    done = ask("  - include: openai\n", *CODEX, prompt)
    assert says in done.ok(), done
    assert "tool" not in says or done.out.split()[-1] == "42"
    assert 101 in answered(online, "/v1/responses")


@needs_npm("codex")
@needs("bwrap")
def test_codex_in_its_own_sandbox(online, ask):
    """In a cell that permits one."""
    words = [word for word in CODEX if "bypass" not in word] + ["--sandbox", "workspace-write"]
    done = ask("  - include: openai\n", *words, "run [[echo $((6*7))]]",
               more=["--profile", "nested"])
    assert done.ok().split()[-1] == "42", done


@needs_npm("codex")
@only_user      # it tries its WebSocket for ten seconds before it gives up
def test_codex_with_the_least(online, ask):
    """Without the WebSocket it falls back to streamed answers."""
    assert ask(NARROW, *CODEX, "say hello").ok() == "hello from the model\n"
    assert answered(online, "/v1/responses") == [200]
