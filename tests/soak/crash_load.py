"""The load while processes are killed: a service that is always started again, registrations and
dispatches through it, and cells that send requests to an outside server without a pause."""
import contextlib
import http.client
import http.server
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time

TOO_LONG = 120                  # seconds, for what ought to take milliseconds
HOST = "host.cloister.internal"
# One request, and whether it was answered; bash itself connects, so that this starts at once.
# With a body it is one for the inspector.
ASK = """ask() {
    ( exec 3<>/dev/tcp/%(host)s/%(port)d || exit 1
      printf '%%s %%s HTTP/1.1\\r\\nHost: %(host)s:%(port)d\\r\\nConnection: close\\r\\n' "$1" "$2" >&3
      [ "$1" = GET ] || printf 'Content-Type: application/json\\r\\nContent-Length: 10\\r\\n' >&3
      printf '\\r\\n%%s' "${3-}" >&3
      read -r -t 20 _ status _ <&3 && [ "$status" = 200 ] ) 2>/dev/null
}
"""
# It runs once if one $$-$RANDOM is seen outside; that may take several tries.
MARKER = ASK + """run=$RANDOM$RANDOM
echo out
for i in 1 2 3 4 5 6 7 8; do
    ask GET /ran/$CLOISTER_DISPATCH/$CLOISTER_CELL/$run && ran=3 && break
    sleep 0.05
done
echo r >/out/r
echo end
exit ${ran-4}
"""
# One alone and several at once, in turns, so that their records wait for the disk together.
TRAFFIC = ASK + """n=0
while :; do
    for ((i = RANDOM %% 6; i >= 0; i--)); do
        n=$((n + 1))
        if ((RANDOM %% 4)); then ask GET /hit/$CLOISTER_CELL/$n
        else ask POST /hit/$CLOISTER_CELL/$n '{"a":true}'; fi &
    done
    wait
    sleep 0.0$((RANDOM %% 5))
done
"""


class Outside:
    """The server; it notes the path of each request, in order."""

    def __init__(self):
        noted = self.noted = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                noted.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass            # whoever asked was killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        # A socket's path may be longer than an address can be.
        folder = os.open(os.path.dirname(self.path), os.O_PATH | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(self.path)}")
        finally:
            os.close(folder)


class Service:
    """`cloister serve` of one user's."""

    def __init__(self, who, cloister):
        self.who, self.cloister = who, cloister
        self.process = None
        self.socket = str(who.runtime / "serve.sock")
        self.log = open(who.home / "serve.log", "ab+")

    def start(self):
        self.process = self.who.popen([self.cloister, "serve"], stdout=self.log, stderr=self.log,
                                      start_new_session=True)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(TOO_LONG)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def ask(self, method, path, body=None):
        """(status, answer), or None if there was no complete answer."""
        with contextlib.closing(Connection(self.socket)) as client:
            try:
                client.request(method, path, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json"})
                response = client.getresponse()
                return response.status, json.loads(response.read() or b"null")
            except (OSError, http.client.HTTPException, ValueError):
                return None

    def await_up(self, until=lambda: False):
        end = time.monotonic() + TOO_LONG
        while not until() and time.monotonic() < end:
            if self.ask("GET", "/healthz"):
                return True
            if self.process.poll() is not None:
                self.start()
            time.sleep(0.02)
        return False


def pick_object(rng, n):
    """(plural, body) of something to register; names come back with other contents."""
    name, value = f"n{rng.randrange(200)}", f"{n}-{rng.randrange(10**9)}"
    kind = rng.choice(["envs", "envs", "agents", "policies", "capabilities"])
    return kind, {
        "envs": {"name": name, "values": {"A": value}},
        "agents": {"name": name, "command": ["echo", value]},
        "policies": {"name": name, "document": {"version": 1, "egress": [{"deny": f"h{value}.example"}]}},
        "capabilities": {"name": name, "files": [{"path": "f", "content": value},
                                                 {"path": "d/g", "content": value * 500}]},
    }[kind]


class Load:
    """All of it, for one user.  What was acknowledged is in the lists."""

    def __init__(self, who, cloister, outside, seed, traffic):
        self.who, self.cloister, self.seed, self.n_traffic = who, cloister, seed, traffic
        self.service = Service(who, cloister)
        self.outside = outside
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.count = 0
        self.complaints = []
        self.registered = []            # (plural, name, hash)
        self.retired = []               # (plural, name, hash)
        self.dispatched = {}            # key: id
        self.traffic_cells = set()

    def run(self, *words, **how):
        return self.who.run([self.cloister, *words], **how)

    def complain(self, text):
        with self.lock:
            self.complaints.append(f"{self.who.name}: {text}")

    def number(self):
        with self.lock:
            self.count += 1
            return self.count

    def policy(self):
        place = f"{HOST}:{self.outside.port}"
        return {"version": 1, "audit": "strict", "egress": [
            {"allow": place, "methods": ["GET"]},
            {"allow": place, "methods": ["POST"], "body": {"json": {"/a": True}}}]}

    def begin(self):
        """Register the objects that the dispatches use."""
        file = self.who.home / "cloister.yaml"
        file.write_text(json.dumps(self.policy()))
        os.chown(file, self.who.uid, self.who.gid)
        self.service.start()
        self.service.await_up()
        script = MARKER % {"host": HOST, "port": self.outside.port}
        for kind, body in (("policies", {"name": "outside", "document": self.policy()}),
                           ("agents", {"name": "marker", "command": ["bash", "-c", script],
                                       "policy": "outside"})):
            said = self.service.ask("POST", f"/v1/{kind}", body)
            assert said and said[0] == 201, said

    # ---- registering ----
    def register_one(self, rng):
        kind, body = pick_object(rng, self.number())
        for _ in range(rng.choice([1, 2, 3])):
            said = self.service.ask("POST", f"/v1/{kind}", body)
            if said and said[0] in (200, 201):
                self.registered.append((kind, body["name"], said[1]["hash"]))
                return
            if said and said[0] not in (500, 503, 507):
                self.complain(f"{kind} {body['name']}: {said}")
            time.sleep(rng.random() * 0.1)

    def retire_one(self, rng):
        if not self.registered:
            return
        kind, name, hash = rng.choice(self.registered[-50:])
        said = self.service.ask("DELETE", f"/v1/{kind}/{name}?hash={hash}")
        if said and said[0] == 200:
            self.retired.append((kind, name, hash))

    def register_by_command(self, rng):
        n = self.number()
        file = self.who.home / f"env{n % 7}.yaml"
        body = {"name": f"c{n % 50}", "values": {"A": f"{n}-{rng.randrange(10**9)}"}}
        file.write_text(json.dumps(body))
        done = self.run("env", "register", "--json", file)
        if done.returncode == 0:
            self.registered.append(("envs", body["name"], json.loads(done.stdout)["hash"]))

    def registrar(self, rng):
        while not self.stopping.is_set():
            rng.choices([self.register_one, self.retire_one, self.register_by_command], [20, 2, 1])[0](rng)
            self.stopping.wait(rng.expovariate(1 / 0.05))

    # ---- dispatching ----
    def submit(self, key, rng):
        """Until it is acknowledged, as a client would; its id."""
        body = {"agent": "marker", "idempotency_key": key}
        end = time.monotonic() + TOO_LONG
        while time.monotonic() < end:
            said = self.service.ask("POST", "/v1/dispatches", body)
            if said and said[0] in (200, 202):
                return said[1]["id"]
            if said and said[0] not in (500, 503, 507):
                self.complain(f"{key}: {said}")
                return None
            if self.stopping.wait(rng.random() * 0.1):
                return None
        self.complain(f"{key}: nobody took it")
        return None

    def dispatcher(self, rng):
        while not self.stopping.is_set():
            key = f"key-{self.number()}"
            for _ in range(rng.choice([1, 1, 2, 3])):
                id = self.submit(key, rng)
                if id and self.dispatched.setdefault(key, id) != id:
                    self.complain(f"{key}: is {id} and {self.dispatched[key]}")
            end = time.monotonic() + 10
            while id and not self.stopping.wait(0.05) and time.monotonic() < end:
                said = self.service.ask("GET", f"/v1/dispatches/{id}")
                if said and said[0] == 404:
                    self.complain(f"{key}: {id} is not there any more")
                if said and said[0] == 200 and said[1]["ended"]:
                    break

    # ---- requests ----
    def carrier(self, _):
        """A cell that asks and asks; another one when it was killed."""
        script = TRAFFIC % {"host": HOST, "port": self.outside.port}
        cell = None
        while not self.stopping.wait(0.1):
            if cell is not None and self.is_running(cell):
                continue
            done = self.run("run", "-d", "-p", self.who.home / "cloister.yaml", "--", "bash", "-c", script)
            if done.returncode == 0:
                cell = done.stdout.strip()
                self.traffic_cells.add(cell)

    def is_running(self, cell):
        return any(entry.startswith(f"{cell}.") for entry in os.listdir(self.who.runtime)) and \
            self.run("ps", "--json").stdout.find(cell) >= 0

    # ---- all of it ----
    def start(self, turn):
        self.stopping.clear()
        jobs = [self.registrar] * 2 + [self.dispatcher] * 3 + [self.carrier] * self.n_traffic
        self.threads = [threading.Thread(target=self.guard, daemon=True,
                                         args=(job, random.Random(f"{self.seed} {turn} {i}")))
                        for i, job in enumerate(jobs)]
        for thread in self.threads:
            thread.start()

    def guard(self, job, rng):
        try:
            job(rng)
        except Exception as e:      # the judge must hear of it
            self.complain(f"{job.__name__} gave up: {e!r}")

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
