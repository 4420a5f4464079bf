"""The dashboard's server side: its files, logging in with a browser, and what other pages cannot do."""
import http.client
import json
import os
import re
import signal
import stat
from contextlib import closing
from pathlib import Path

import pytest

from operators import SECONDS, TREE, wait_until
from service import Service, connect

pytestmark = pytest.mark.parametrize("who", ["user"])


class Browser:
    """Keeps one host's cookies, and says whose page asks."""

    def __init__(self, service, tls=False):
        self.service, self.tls = service, tls
        self.host = f"127.0.0.1:{service.port}"
        self.origin = f"{'https' if tls else 'http'}://{self.host}"
        self.cookies = {}
        self.csrf = None

    def ask(self, method, path, body=None, headers=None, **how):
        """A page of the dashboard's asks; HEADERS override what it would say, None leaves out."""
        said = {"Sec-Fetch-Site": "same-origin"}
        if self.cookies:
            said["Cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        if method not in ("GET", "HEAD"):
            said["Origin"] = self.origin
            if self.csrf:
                said["X-Cloister-Csrf"] = self.csrf
        if body is not None:
            said["Content-Type"] = "application/json"
        said.update(headers or {})
        said = {k: v for k, v in said.items() if v is not None}
        answer = self.service.tcp(method, path, headers=said, body=body, tls=self.tls)
        for field in answer.headers.get_all("set-cookie") or []:
            name, value = field.split(";")[0].split("=", 1)
            self.cookies.pop(name, None)
            if "Max-Age=0" not in field:
                self.cookies[name] = value
        return answer

    def get(self, path, **how):
        return self.ask("GET", path, **how)

    def login(self, **how):
        answer = self.ask("POST", "/login", json.dumps(how))
        if answer.status == 200:
            self.csrf = answer.json["csrf"]
        return answer


def token_of(operator):
    return (operator.base / "data" / "serve" / "token").read_text().strip()


@pytest.fixture
def plain(operator):
    """A service at TCP, not encrypted."""
    return Service(operator, "--listen", "127.0.0.1:0", "--no-tls")


# ---- pages

CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
       "form-action 'self'; base-uri 'none'; frame-ancestors 'none'")


def test_pages(plain):
    """As they are in web/, for whoever comes; nothing of it is on the unix sockets."""
    browser = Browser(plain)
    types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
             ".json": "application/json", ".png": "image/png", ".woff2": "font/woff2"}
    files = [path for path in sorted((TREE / "web").iterdir()) if path.suffix in types]
    assert files
    for path in files:
        answer = browser.get(f"/assets/{path.name}")
        assert (answer.status, answer.data) == (200, path.read_bytes())
        assert answer.headers["content-type"].split(";")[0] == types[path.suffix]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == CSP
    index = browser.get("/")
    assert index.data == (TREE / "web" / "index.html").read_bytes()
    assert index.headers["content-security-policy"] == CSP
    assert index.headers["x-frame-options"] == "DENY"
    assert index.headers["referrer-policy"] == "no-referrer"
    assert index.headers["cross-origin-opener-policy"] == "same-origin"
    assert index.headers["cross-origin-resource-policy"] == "same-origin"
    # What a browser has is not sent again.
    assert index.headers["cache-control"] == "no-cache"
    again = browser.get("/", headers={"If-None-Match": index.headers["etag"]})
    assert (again.status, again.data) == (304, b"")
    assert browser.get("/", headers={"If-None-Match": '"other"'}).status == 200
    for path in ("/assets/nosuch.js", "/assets/..%2fMakefile", "/assets/%2e%2e/app.js"):
        assert browser.get(path).status in (400, 401, 404), path
    plain.get("/").error(404, "not_found", "cloister dashboard")
    plain.get("/", socket=plain.agents).error(404, "not_found")


def parts_of(path):
    """A part that stands for a parameter is None."""
    return [None if "{" in part else part for part in re.sub(r"\$?\{[^}]*\}", "{}", path).split("/")]


def test_paths_are_routes(operator):
    """The service has every path that the pages request."""
    routes = [line.split()[-1] for line in operator.cloister("serve", "--routes").ok().splitlines()]
    text = "\n".join(path.read_text() for path in sorted((TREE / "web").glob("*.js")))
    asked = set(re.findall(r"[\"`](/v1/[^\"`?]*)[\"`?]", text))
    asked -= {path for path in asked if path.endswith("${rest}")}
    asked |= {"/v1/cells/{}" + rest for rest in re.findall(r"cellPath\([\w.]+, [\"`](/[^\"`]*)[\"`]\)", text)}
    assert len(asked) > 15
    for path in asked:
        want = parts_of(path)
        assert any(len(want) == len(parts) and all(None in pair or pair[0] == pair[1] for pair in zip(want, parts))
                   for parts in map(parts_of, routes)), path


def test_no_content_from_other_servers(who):
    """No file of the dashboard names another server."""
    for path in (TREE / "web").iterdir():
        if path.suffix in (".html", ".js", ".css"):
            for url in re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", path.read_text(), re.I):
                assert "www.w3.org" in url, (path.name, url)


# ---- logging in

def test_login_by_token(plain, operator):
    browser = Browser(plain)
    browser.get("/v1/cells").error(401, "unauthorized", "token file")
    browser.get("/v1/session").error(401, "unauthorized")
    browser.login(token="x" * 40).error(401, "unauthorized", "token")
    browser.login(token=token_of(operator)[:-1]).error(401, "unauthorized")
    assert browser.cookies == {}
    answer = browser.login(token=token_of(operator))
    assert answer.ok()["who"] == "token operator"
    field = answer.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert part in field
    assert "Domain" not in field and token_of(operator) not in field
    assert browser.get("/v1/cells").ok() == {"cells": []}
    session = browser.get("/v1/session").ok()
    assert session["who"] == "token operator" and session["csrf"] is None       # who has the cookie alone changes nothing
    browser.ask("POST", "/v1/cells/nosuch/kill").error(404, "not_found")
    assert browser.ask("POST", "/logout").status == 204
    assert browser.cookies == {}
    browser.get("/v1/cells").error(401, "unauthorized")


def test_login_errors(plain, operator):
    browser = Browser(plain)
    browser.login().error(400, "invalid", "'token' or with a 'code'")
    browser.login(token="x", code="y").error(400, "invalid")
    browser.login(tokn="x").error(400, "invalid", "did you mean 'token'")
    browser.login(token=5).error(400, "invalid", "text")
    browser.ask("POST", "/login", "{}", {"Content-Type": "text/plain"}).error(415, "not_json")
    browser.ask("POST", "/login", "x" * 5000).error(413, "too_large")
    assert browser.cookies == {}


def test_an_agents_token_cannot_log_in(operator):
    own = operator.file("agent.token", "a-token-of-some-length\n")
    own.chmod(0o600)
    service = Service(operator, "--listen", "127.0.0.1:0", "--no-tls", "--agent-token-file", own)
    browser = Browser(service)
    browser.login(token="a-token-of-some-length").error(403, "forbidden", "agent")
    assert browser.cookies == {}


def test_login_by_link(plain, operator):
    """What `cloister dashboard` prints logs in one browser, once, as who asked for it."""
    url = operator.cloister("dashboard").ok().strip()
    assert url.startswith(f"http://cloister.localhost:{plain.port}/#code=")
    code = url.split("=")[1]
    browser = Browser(plain)
    assert browser.login(code=code).ok()["who"] == f"uid {operator.uid}"
    assert browser.get("/v1/session").ok()["who"] == f"uid {operator.uid}"
    second = Browser(plain)
    second.login(code=code).error(401, "unauthorized", "cloister dashboard")
    assert second.cookies == {}
    # Codes are for who can reach the socket: not for sessions, tokens or agents.
    browser.ask("POST", "/v1/session/code").error(403, "forbidden")
    plain.tcp("POST", "/v1/session/code", token_of(operator), tls=False).error(403, "forbidden")
    plain.post("/v1/session/code", socket=plain.agents).error(404, "not_found")


def test_codes_are_bounded(plain):
    """If there are very many codes, the newest work."""
    codes = [plain.post("/v1/session/code").ok()["code"] for _ in range(20)]
    assert Browser(plain).login(code=codes[0]).status == 401
    assert Browser(plain).login(code=codes[-1]).status == 200


def test_sessions_are_bounded(plain, operator):
    """If there are very many sessions, those that were used last stay."""
    browsers = [Browser(plain) for _ in range(66)]
    token = token_of(operator)
    for browser in browsers[:64]:
        browser.login(token=token).ok()
    browsers[0].get("/v1/session").ok()
    for browser in browsers[64:]:
        browser.login(token=token).ok()
    assert browsers[0].get("/v1/session").status == 200
    assert [b.get("/v1/session").status for b in browsers[1:4]] == [401, 401, 200]


def test_sessions_end_with_the_service(plain, operator):
    browser = Browser(plain)
    browser.login(token=token_of(operator)).ok()
    assert plain.stop() == 0
    plain.start()
    plain.tcp("GET", "/v1/cells", headers={"Cookie": "; ".join(f"{k}={v}" for k, v in browser.cookies.items())},
              tls=False).error(401, "unauthorized")


def test_with_and_without_tls_at_one_port(operator):
    """Pages need no certificate on this machine; a token is sent with TLS only."""
    service = Service(operator, "--listen", "127.0.0.1:0")
    url = operator.cloister("dashboard").ok().strip()
    assert url.startswith(f"http://cloister.localhost:{service.port}/")
    browser = Browser(service)
    browser.host = f"cloister.localhost:{service.port}"
    browser.origin = f"http://{browser.host}"
    host = {"Host": browser.host}
    answer = browser.ask("POST", "/login", json.dumps({"code": url.split("#code=")[1]}), host)
    browser.csrf = answer.ok()["csrf"]
    assert answer.headers["set-cookie"].startswith("cloister-") and "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
    browser.ask("POST", "/v1/cells/nosuch/kill", headers=host).error(404, "not_found")
    browser.ask("POST", "/v1/cells/nosuch/kill", headers={**host, "X-Cloister-Csrf": None}).error(403, "csrf")
    browser.ask("POST", "/v1/cells/nosuch/kill", headers={**host, "Origin": f"https://{browser.host}"}).error(403, "origin")
    service.tcp("GET", "/v1/cells", token_of(operator), tls=False).error(400, "tls", "https://")
    browser.ask("POST", "/login", json.dumps({"token": token_of(operator)}), host).error(400, "tls", "cloister dashboard")
    encrypted = Browser(service, tls=True)
    answer = encrypted.login(token=token_of(operator))
    assert answer.status == 200
    assert answer.headers["set-cookie"].startswith("__Host-") and "Secure" in answer.headers["set-cookie"]
    encrypted.ask("POST", "/v1/cells/nosuch/kill").error(404, "not_found")
    # A cookie of one is none of the other.
    service.tcp("GET", "/v1/cells", headers={"Cookie": "; ".join(f"{k}={v}" for k, v in encrypted.cookies.items())}, tls=False).error(401, "unauthorized")


def test_changes_are_for_operators(plain, operator):
    """The same guards as for other changes, and the same checks as for `cloister apply`."""
    work = operator.folder("work", {"a": "1\n", "b  (held back)": "1\n"})
    operator.sh(f"echo 2 >{work}/a; echo 2 >'{work}/b  (held back)'; mkdir {work}/.vscode; echo x >{work}/.vscode/tasks.json", "-w", work, "--name", "coder").ok()
    browser = Browser(plain)
    browser.login(token=token_of(operator)).ok()
    path = "/v1/cells/coder/changes"
    assert {c["path"]: c["held"] for c in browser.get(path).ok()["changes"] if c["type"] == "file"} == {
        "a": False, "b  (held back)": False, ".vscode/tasks.json": True}
    assert "-1\n+2\n" in browser.get(f"{path}/diff?path=a").ok()["text"]
    browser.get(f"{path}/diff?path=nosuch").error(409, "refused", "changed nothing")
    browser.get("/v1/cells/nosuch/changes").error(404, "not_found")
    for verb in ("apply", "discard"):
        browser.ask("POST", f"{path}/{verb}", headers={"X-Cloister-Csrf": None}).error(403, "csrf")
        plain.post(f"{path}/{verb}", socket=plain.agents).error(404, "not_found")
    browser.ask("POST", f"{path}/apply", json.dumps({"path": "a"})).error(400, "invalid", "did you mean 'paths'")
    for name in ("a", "b  (held back)"):
        (work / name).write_text("3\n")
    done = browser.ask("POST", f"{path}/apply").ok()
    assert (done["applied"], done["held"] > 0, done["conflicts"], done["complete"]) == (0, True, 2, False) and "changed here" in done["note"]
    assert (work / "a").read_text() == "3\n"
    done = browser.ask("POST", f"{path}/apply", json.dumps({"paths": ["a"], "force": True})).ok()
    assert (done["applied"], done["conflicts"]) == (1, 0) and (work / "a").read_text() == "2\n"
    assert not (work / ".vscode").exists()
    # An option is no path.
    browser.ask("POST", f"{path}/apply", json.dumps({"paths": ["--help"]})).error(409, "refused")
    cell = browser.get("/v1/ended/coder").ok()
    assert cell["changes"] and cell["status"] == 0 and cell["thefts"] == 0
    browser.ask("POST", f"{path}/discard").ok()
    assert [(c["id"], c["changes"]) for c in browser.get("/v1/ended").ok()["cells"]] == [(cell["id"], False)]
    assert len(browser.get("/v1/traffic?minutes=10&buckets=5").ok()["thefts"]) == 5
    told = operator.cloister("audit", "show", "--operator").ok()
    assert '"peer":"token operator","type":"changes.discard"' in told and '"type":"changes.discarded"' in told


def test_a_diff_ends_with_its_client(plain, operator):
    """A command that only shows something is ended when nobody waits for it any more."""
    cell = operator.detach("-w", operator.folder("work", {"a": "1\n"}), "--", "sleep", "1000")
    supervisor = operator.cell(cell)["supervisor"]

    def diffs():
        return [int(pid) for task in Path(f"/proc/{plain.process.pid}/task").iterdir()
                for pid in (task / "children").read_text().split() if b"diff" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def is_asked_to_end(pid):
        found = re.search(r"ShdPnd:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1], 16) >> (signal.SIGTERM - 1) & 1
    # It waits for a supervisor that does not answer, long enough to be stopped itself.
    os.kill(supervisor, signal.SIGSTOP)
    try:
        client = connect(plain.socket)
        client.sendall(f"GET /v1/cells/{cell}/changes/diff HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        wait_until(diffs, "the command")
        (pid,) = diffs()
        os.kill(pid, signal.SIGSTOP)
        client.close()
        wait_until(lambda: is_asked_to_end(pid), "its end")
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not diffs(), "that it is gone")
    finally:
        os.kill(supervisor, signal.SIGCONT)


# ---- what others cannot do

def test_other_pages(plain, operator):
    """A session's cookie alone changes nothing, and reads nothing for other pages."""
    browser = Browser(plain)
    browser.login(token=token_of(operator)).ok()
    cell = operator.detach("--", "sleep", "1000")
    kill = f"/v1/cells/{cell}/kill"
    browser.ask("POST", kill, headers={"X-Cloister-Csrf": None}).error(403, "csrf", "/login")
    browser.ask("POST", kill, headers={"X-Cloister-Csrf": "0" * 64}).error(403, "csrf")
    browser.ask("POST", kill, headers={"Origin": None}).error(403, "origin")
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{plain.port}", "http://127.0.0.1",
                   f"http://localhost:{plain.port}", f"http://127.0.0.1:{plain.port}.evil.example",
                   f"http://127.0.0.1:{plain.port + 1}"):
        browser.ask("POST", kill, headers={"Origin": origin}).error(403, "origin")
        browser.get("/v1/cells", headers={"Origin": origin}).error(403, "origin")
    for site in ("cross-site", "same-site"):
        browser.get("/v1/cells", headers={"Sec-Fetch-Site": site}).error(401, "unauthorized")
        browser.ask("POST", kill, headers={"Sec-Fetch-Site": site}).error(401, "unauthorized")
        assert browser.get("/", headers={"Sec-Fetch-Site": site}).status == 200
    # A page whose name was made to point here.
    for host in ("evil.example", f"evil.example:{plain.port}", f"127.0.0.2:{plain.port}"):
        browser.get("/", headers={"Host": host}).error(421, "wrong_host")
        assert browser.get("/v1/cells", headers={"Host": host, "Origin": f"http://{host}"}).status in (403, 421)
    # Another's word is not this one's; and neither is a cookie that was made up.
    other = Browser(plain)
    other.login(token=token_of(operator)).ok()
    browser.ask("POST", kill, headers={"X-Cloister-Csrf": other.csrf}).error(403, "csrf")
    name = next(iter(browser.cookies))
    for wrong in ("", "0" * 64, browser.cookies[name][:-1], browser.cookies[name].upper()):
        browser.get("/v1/cells", headers={"Cookie": f"{name}={wrong}"}).error(401, "unauthorized")
    assert operator.cell(cell)["state"] == "running"
    # Among others' cookies it is found.
    cookie = f"a=b; x{name}=y; {name}={browser.cookies[name]}; c=d"
    browser.get("/v1/cells", headers={"Cookie": cookie}).ok()
    # And with all of it, it is done; the record says who it was.
    assert browser.ask("POST", kill).status == 200
    assert '"peer":"token operator"' in operator.cloister("audit", "show", "--operator").ok()


def test_logging_out_ends_streams(plain, operator):
    cell = operator.detach("--", "sleep", "1000")
    browser = Browser(plain)
    browser.login(token=token_of(operator)).ok()
    with closing(http.client.HTTPConnection("127.0.0.1", plain.port, timeout=SECONDS)) as client:
        cookie = "; ".join(f"{k}={v}" for k, v in browser.cookies.items())
        client.request("GET", f"/v1/cells/{cell}/events", headers={"Accept": "text/event-stream", "Cookie": cookie})
        stream = client.getresponse()
        assert stream.status == 200 and stream.readline().startswith(b"id: ")
        assert browser.ask("POST", "/logout").status == 204
        stream.read()                       # to its end
    assert operator.cloister("kill", cell).status == 0


# ---- the command

def test_command_errors(operator):
    operator.cloister("dashboard").sentence("no service is running", "cloister serve --listen")
    operator.cloister("dashboard", "x").sentence("takes no arguments")
    service = Service(operator)
    operator.cloister("dashboard").sentence("TCP", "--listen 127.0.0.1:")
    service.stop()


def test_command_opens_a_browser(plain, operator):
    """The link is in no program's words, where everybody could read it."""
    tools = operator.folder("tools")
    opener = operator.file("tools/xdg-open", '#!/bin/sh\necho "$@" >"$HOME/opened"\n')
    opener.chmod(0o755)
    done = operator.cloister("dashboard", "--open", env={"PATH": f"{tools}:/usr/bin:/bin"})
    url = done.ok().strip()
    opened = (operator.home / "opened").read_text().strip()
    code = url.split("code=")[1]
    assert code not in opened
    page = operator.base / "data" / "serve" / "dashboard.html"
    assert opened == str(page) and code in page.read_text()
    assert stat.S_IMODE(os.stat(page).st_mode) == 0o600
    # Not one that others may write, nor one that an agent could have put there.
    (operator.home / "opened").unlink()
    opener.chmod(0o775)
    done = operator.cloister("dashboard", "--open", env={"PATH": f"{tools}:/usr/bin:/bin"})
    assert "others may write the program" in done.err and not (operator.home / "opened").exists()
    opener.chmod(0o755)
    operator.run("-v", f"{tools}:/w", "--", "true").ok()
    done = operator.cloister("dashboard", "--open", env={"PATH": f"{tools}:/usr/bin:/bin"})
    assert "an agent can or could write" in done.err and not (operator.home / "opened").exists()
