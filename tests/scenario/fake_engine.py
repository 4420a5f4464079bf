"""An engine of a target that the tests hold in their hands: the part of Docker's API that `cloister-fleet` uses, at a Unix
socket.  A container is a `cloister worker` of this machine, with folders of its own."""
import http.server
import json
import os
import re
import signal
import socketserver
import threading
import urllib.parse

SECRETS = "/run/secrets/"


class Container:
    def __init__(self, engine, id, body):
        self.engine, self.id, self.body, self.process = engine, id, body, None
        self.labels = body["Labels"]
        self.machine = engine.machines()
        self.said = self.machine.base / "said"

    def start(self):
        binds = {mount["Target"]: mount["Source"] for mount in self.body["HostConfig"]["Mounts"] if mount["Type"] == "bind"}
        env = dict(line.split("=", 1) for line in self.body["Env"])
        env = {name: binds.get(value, value) for name, value in env.items()}
        if "CLOISTER_STORE_FILE" in env:
            del self.machine.env["CLOISTER_STORE"]
        with self.said.open("wb") as said:
            self.process = self.machine.spawn(self.machine.program, "worker", *self.body["Cmd"], env=env, stdout=said, stderr=said)

    def state(self):
        return "created" if self.process is None else "running" if self.process.poll() is None else "exited"

    def end(self):
        if self.state() == "running":
            self.process.kill()
            self.process.wait()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "client"

    def log_message(self, *_):
        pass

    def answer(self, status, value=None, raw=None):
        data = raw if raw is not None else b"" if status == 204 else json.dumps(value).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_any(self):
        engine = self.server.engine
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        path = re.sub(r"^/v1\.\d+", "", path)
        query = {key: value[0] for key, value in urllib.parse.parse_qs(query).items()}
        with engine.lock:
            engine.asked.append((self.command, path))
            said = engine.instead(self.command, path) if engine.instead else None
        if said is not None:
            return self.answer(*said)
        with engine.lock:
            return self.answer(*engine.do(self.command, path, query, json.loads(body) if body else None))

    do_GET = do_POST = do_DELETE = handle_any


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class TcpServer(http.server.ThreadingHTTPServer):
    """With TLS, for clients with a certificate alone."""
    daemon_threads = True

    def __init__(self, context):
        super().__init__(("127.0.0.1", 0), Handler)
        self.context = context

    def get_request(self):
        sock, address = self.socket.accept()
        sock.settimeout(10)
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, *_):
        pass


class FakeEngine:
    def __init__(self, path, machines):
        self.path, self.machines = path, machines
        self.containers, self.asked, self.instead = {}, [], None
        self.most, self.made, self.tls = 0, 0, None
        self.lock = threading.RLock()
        self.open()

    def open(self):
        self.path.unlink(missing_ok=True)
        self.server = Server(str(self.path), Handler)
        self.path.chmod(0o777)
        self.server.engine = self
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def open_tls(self, context):
        """The port at which it listens, too."""
        self.tls = TcpServer(context)
        self.tls.engine = self
        threading.Thread(target=self.tls.serve_forever, args=(0.01,), daemon=True).start()
        return self.tls.server_address[1]

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def end(self):
        self.close()
        if self.tls is not None:
            self.tls.shutdown()
            self.tls.server_close()
        for container in self.containers.values():
            container.end()

    def running(self):
        with self.lock:
            return [c for c in self.containers.values() if c.state() == "running"]

    def do(self, method, path, query, body):
        if path == "/version":
            return 200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12"}
        if path == "/info":
            return 200, {"ServerVersion": "20.10.24", "SecurityOptions": ["name=seccomp,profile=default"], "Runtimes": {"runc": {}}}
        if path.startswith("/images/"):
            return 200, {}
        if path == "/containers/create":
            id = os.urandom(32).hex()
            self.containers[id] = Container(self, id, body)
            self.made += 1
            return 201, {"Id": id}
        if path == "/containers/json":
            label, = json.loads(query["filters"])["label"]
            name, value = label.split("=")
            return 200, [{"Id": c.id, "State": c.state(), "Created": 2 ** 40} for c in self.containers.values()
                         if c.labels.get(name) == value]
        match = re.fullmatch(r"/containers/([0-9a-f]+)(/start|/json|/logs)?", path)
        container = self.containers.get(match[1]) if match else None
        if container is None:
            return 404, {"message": f"No such container: {path}"}
        if match[2] == "/start":
            container.start()
            self.most = max(self.most, len(self.running()))
            return 204, None
        if match[2] == "/logs":
            text = (container.said.read_text().splitlines() or [""])[-1].encode()
            return 200, None, bytes([2, 0, 0, 0]) + len(text).to_bytes(4, "big") + text
        if match[2] == "/json":
            code = 0 if container.process is None else container.process.poll()
            return 200, {"State": {"Status": container.state(), "ExitCode": code if code is None or code >= 0 else 128 - code,
                                   "Error": ""}}
        container.end()
        del self.containers[container.id]
        return 204, None

    def kill(self, container):
        """As a machine that loses power does."""
        container.process.send_signal(signal.SIGKILL)
        container.process.wait()


class Worker:
    """A `cloister worker` as another machine's, with these words and variables."""

    def __init__(self, machine, words, env):
        self.machine = machine
        machine.env.pop("CLOISTER_STORE", None)
        with (machine.base / "said").open("wb") as said:
            self.process = machine.spawn(machine.program, "worker", *words, env=env, stdout=said, stderr=said)

    def over(self):
        return self.process.poll() is not None

    def status(self):
        code = self.process.poll()
        return 128 - code if code < 0 else code

    def end(self):
        if not self.over():
            self.process.kill()
            self.process.wait()


def worker_of(machines, words, env):
    return Worker(machines(), words, env)
