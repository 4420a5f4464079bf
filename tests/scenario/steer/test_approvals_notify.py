"""Notifications about waiting requests: programs of the operator, and webhooks, signed by the Standard Webhooks
specification, with retries."""
import base64
import hashlib
import hmac
import http.server
import json
import os
import subprocess
import threading

import pytest

from egress_world import NPM
from operators import SECONDS, wait_until

KEY = bytes(range(40, 72))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
POLICY = "version: 1\negress:\n  - ask: api.example.com\n    reason: people only\n"
JUDGE = """
const {Webhook} = require("standardwebhooks");
const [secret, body, headers] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const told = new Webhook(secret).verify(body, headers);
try { new Webhook(secret).verify(body + " ", headers); process.exit(2); } catch (e) {}
console.log(JSON.stringify(told));
"""

pytestmark = pytest.mark.parametrize("who", ["user"])


class Hook:
    """A webhook on this machine that answers with the next of STATUSES, then with 204."""

    def __init__(self, *statuses):
        self.statuses, self.seen = list(statuses), []
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                status = hook.statuses.pop(0) if hook.statuses else 204
                hook.seen.append((status, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hook():
    hook = Hook(500, 302)
    yield hook
    hook.close()


def configure(operator, text, mode=0o600):
    operator.env["XDG_CONFIG_HOME"] = str(operator.folder("config"))
    file = operator.file("config/cloister/notify.yaml", text)
    file.chmod(mode)
    return file


def begin(operator):
    """A cell that asks for something."""
    policy = operator.file("policy.yaml", POLICY)
    cell = operator.detach("-p", policy, "--", "curl", "-sS", "http://api.example.com/x")
    wait_until(lambda: operator.cloister("approvals", "--json").ok(), "it asks")
    return cell


def notes(operator, cell):
    told = operator.cloister("events", "--json", cell).ok()
    return [e["note"] for e in map(json.loads, told.splitlines()) if e.get("did") == "not_notified"]


def check_signature(headers, body):
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()
    wanted = base64.b64encode(hmac.new(KEY, content, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    assert headers["content-type"] == "application/json"


def test_a_command_and_a_webhook_are_notified(operator, hook):
    told = operator.folder("out") / "told"
    configure(operator, f"- command: [sh, -c, 'cat > {told}.new; echo $CLOISTER_EVENT >> {told}.new; mv {told}.new {told}']\n"
              f"  on: [ask]\n- webhook: {hook.url}\n  secret: {SECRET}\n"
              f"- command: [sh, -c, 'touch {told}.never']\n  on: budget\n")
    cell = begin(operator)
    data, event = wait_until(lambda: told.exists() and told.read_text(), "it was told").rsplit("}", 1)
    first = json.loads(data + "}")
    assert event.strip() == "ask" and first["type"] == "ask"
    shown = json.loads(operator.cloister("approvals", "--json").ok())
    assert first["data"] == shown and shown["id"] == f"{cell}-1"
    # What fails is tried again, under the same id, and what is elsewhere is not followed.
    wait_until(lambda: len(hook.seen) == 3, "the third try")
    assert [status for status, _, _ in hook.seen] == [500, 302, 204]
    assert len({headers["webhook-id"] for _, headers, _ in hook.seen}) == 1
    for _, headers, body in hook.seen:
        check_signature(headers, body)
        assert json.loads(body)["data"] == shown
    assert not told.with_name("told.never").exists() and notes(operator, cell) == []
    operator.cloister("refuse", f"{cell}-1", "--reason", "no").ok()


def test_the_end_of_a_budget_is_notified_with_its_owner(operator):
    """Also for a budget so small that its warning would come with its end."""
    hook = Hook()
    configure(operator, f"- webhook: {hook.url}\n  secret: {SECRET}\n")
    port = hook.server.server_port
    policy = operator.file("policy.yaml", "version: 1\nbudgets: [{per: cell, requests: 2}]\n"
                           f"egress:\n  - allow: host.cloister.internal:{port}\n")
    cell = operator.detach("-p", policy, "--name", "spender", "--principal", "ann", "--", "sh", "-c",
                           "for i in 1 2; do curl -sS -d x http://host.cloister.internal:$0/; done", str(port))
    bodies = lambda: [json.loads(b) for _, headers, b in list(hook.seen) if "webhook-id" in headers]
    wait_until(bodies, "it was told")
    operator.cloister("wait", cell)
    [told] = bodies()
    assert told["type"] == "budget"
    data = told["data"]
    assert (data["did"], data["used"], data["limit"]) == ("reached", 2, 2)
    assert (data["cell"], data["name"], data["principal"]) == (cell, "spender", "ann")
    hook.close()


@pytest.mark.skipif(not (NPM / "node_modules/standardwebhooks").exists(),
                    reason="standardwebhooks is not in build/npm: `make npm` brings it")
def test_the_reference_takes_the_signature(operator):
    hook = Hook()
    file = operator.file("key", SECRET + "\n")
    configure(operator, f"- webhook: {hook.url}\n  secret_file: {file}\n", 0o644)
    begin(operator)
    wait_until(lambda: hook.seen, "it was told")
    _, headers, body = hook.seen[0]
    done = subprocess.run(["node", "-e", JUDGE], input=json.dumps([SECRET, body, headers]), text=True,
                          cwd=NPM, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["data"]["host"] == "api.example.com"
    hook.close()


def test_errors_are_recorded(operator):
    """In the cell's timeline: nobody looks at the terminal of a detached cell."""
    cases = [
        ("- command: notify-send\n", "1:12: a command is a list of words"),
        (f"- webhook: http://example.com/\n  secret: {SECRET}\n", "1:12: a webhook is an https:// address"),
        ("- webhook: https://example.com/\n", "1:3: a webhook is signed"),
        ("- webhook: https://example.com/\n  secret: whsec_abc\n", "2:11: a webhook's secret"),
        (f"- command: ['true']\n  secret: {SECRET}\n", "only webhooks have a secret"),
        ("- command: ['true']\n  on: [everything]\n", "2:8: 'on' is a list of"),
        ("- comand: ['true']\n", "1:3: there is no key 'comand' here"),
    ]
    file = configure(operator, cases[0][0])
    cell = begin(operator)
    wait_until(lambda: "a command is a list of words" in str(notes(operator, cell)), "it was said")
    operator.cloister("kill", cell).ok()
    for text, wanted in cases[1:]:
        file.write_text(text)
        cell = begin(operator)
        assert wanted in wait_until(lambda: notes(operator, cell), f"it was said: {wanted}")[0]
        operator.cloister("kill", cell).ok()
    # Who could write it could have programs run.
    file.write_text("- command: ['true']\n")
    file.chmod(0o664)
    cell = begin(operator)
    assert "writable by others" in wait_until(lambda: notes(operator, cell), "it was said")[0]


def test_without_a_file_nobody_is_notified(operator):
    operator.env["XDG_CONFIG_HOME"] = str(operator.folder("config"))
    cell = begin(operator)
    names = {os.path.basename(os.readlink(f"/proc/{pid}/exe")) for pid in operator.pids(cell)}
    assert "cloister-supervisor" in names and "cloister-notify" not in names


# More questions than anybody is told of, then what somebody should hear of.
NOISE = """
import os, socket, time
held = []
def send(method, wait):
    held.append(socket.create_connection(("api.example.com", 80)))
    held[-1].sendall(method + b" /x HTTP/1.1\\r\\nhost: api.example.com\\r\\n\\r\\n")
    if wait: held[-1].recv(1)
for i in range(63): send(b"GET", False)
while not os.path.exists("/tmp/go"): time.sleep(0.05)
for i in range(3): send(b"DELETE", True)
time.sleep(1000)
"""


def test_noise_drowns_nothing(operator):
    """An endless flood of questions hides other questions, but not a tripwire."""
    told = operator.folder("out") / "told"
    configure(operator, f"- command: [sh, -c, 'touch {told}']\n  on: [tripwire]\n")
    policy = operator.file("policy.yaml", "version: 1\negress:\n  - deny: api.example.com\n    methods: [DELETE]\n"
                           "  - ask: api.example.com\ntripwires:\n  refusals: {count: 3, within: 10m, then: notify}\n")
    cell = operator.detach("-p", policy, "--", "/usr/bin/python3", "-c", NOISE)
    wait_until(lambda: "more than" in str(notes(operator, cell)), "there is too much noise")
    operator.cloister("exec", cell, "--", "touch", "/tmp/go").ok()
    wait_until(told.exists, "it was told")
    operator.cloister("kill", cell).ok()


# What leads to something, what trips something, and what is asked for and withdrawn: 150 of each.
FLOOD = """
import http.client, select, socket, sys
port = int(sys.argv[1])
c = http.client.HTTPConnection("host.cloister.internal", port)
for method in ("POST", "DELETE"):
    for i in range(150):
        c.request(method, "/x", "")
        c.getresponse().read()
for i in range(150):
    s = socket.create_connection(("host.cloister.internal", port))
    s.sendall(b"PUT /x HTTP/1.1\\r\\nhost: host.cloister.internal:%d\\r\\ncontent-length: 0\\r\\n\\r\\n" % port)
    select.select([s], [], [], 0.01)
    s.close()
"""


def test_a_flood_is_counted(operator):
    """The timeline has the number; recipients get 61 messages of each kind, and the number."""
    hook = Hook()
    configure(operator, f"- webhook: {hook.url}\n  secret: {SECRET}\n")
    port = hook.server.server_port
    policy = operator.file("policy.yaml", f"""
version: 1
tripwires: {{refusals: {{count: 1, within: 1s, then: notify}}}}
egress:
  - allow: host.cloister.internal:{port}
    methods: [POST]
    then: {{notify: true}}
  - ask: host.cloister.internal:{port}
    methods: [PUT]
""")
    cell = operator.detach("-p", policy, "--", "/usr/bin/python3", "-c", FLOOD, str(port))
    operator.cloister("wait", cell).ok()
    all = [json.loads(line) for line in operator.cloister("events", "--json", cell).ok().splitlines()]
    for wanted, at_least in (({"did": "consequence"}, 150), ({"tripwire": "refusals"}, 150),
                             ({"type": "approval", "did": "asked"}, 101), ({"type": "approval", "did": "gone"}, 101)):
        found = [e for e in all if wanted.items() <= e.items()]
        counted = sum(e.get("count", 1) for e in found)
        assert counted >= at_least and len(found) <= 100, (wanted, counted, len(found))
    bodies = lambda: [json.loads(b) for _, headers, b in list(hook.seen) if "webhook-id" in headers]
    for type in ("consequence", "tripwire", "ask"):
        of = lambda: [b["data"] for b in bodies() if b["type"] == type]
        wait_until(lambda: sum(1 + data.get("not_told", 0) for data in of()) > 100, f"all of {type}")
        assert 60 <= len(of()) <= 100
    hook.close()
