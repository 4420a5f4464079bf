"""Everything outside a box that a probe might reach, made afresh for each run of a probe."""
import array
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import random
import secrets
import selectors
import shutil
import socket
import subprocess
import tempfile

from . import tools
from .cell import Cell, NotApplicable
from .internet import POLICY, Internet

FS_IOC_GETFLAGS = 0x80086601


@dataclasses.dataclass(frozen=True)
class Who:
    """The user who starts the box."""
    name: str
    uid: int
    gid: int


ROOT = Who("root", 0, 0)


def user():
    """An ordinary user: borrowed by number when root asks, else whoever asks."""
    if os.geteuid() != 0:
        return Who("user", os.geteuid(), os.getegid())
    uid = int(os.environ.get("CLOISTER_TEST_UID", "61234"))
    return Who("user", uid, uid)


def everybody():
    return [ROOT, user()] if os.geteuid() == 0 else [user()]


@dataclasses.dataclass
class Request:
    """A request to a box, in terms that suit every kind of box."""
    argv: list
    ro: list = dataclasses.field(default_factory=list)
    rw: list = dataclasses.field(default_factory=list)
    workspace: object = None
    workspace_mode: str = "overlay"
    limits: dict = dataclasses.field(default_factory=dict)
    tty: bool = False
    detach: bool = False
    name: str = ""
    internet: object = None             # it is for this one: what a box has for a network is used
    publish: int = 0                    # a port inside that the host is to reach


class World:
    def __init__(self, who, box, lab):
        self.who, self.box, self.lab = who, box, lab
        self.control = box.name == "none"
        self.selector = selectors.DefaultSelector()
        self.stack = contextlib.ExitStack()
        self.cells = []
        self.heard = b""                # what reached the listeners
        self.tool = None
        self.policy = None              # of cells that have one; None: the lab's
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="w", dir=lab.base))
        self.base.chmod(0o755)
        self.own(self.base)
        self.state_token = self.token()
        self.state = self.folder("state-" + self.state_token)
        self.home = self.folder("home")
        self.runtime = self.folder("run", 0o700)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for cell in self.cells:
            cell.stop()
        self.box.clean(self)
        self.stack.close()
        self.selector.close()
        shutil.rmtree(self.base, ignore_errors=True)

    # Canaries

    def token(self):
        return "canary-" + secrets.token_hex(16)

    def own(self, path, uid=None, follow=False):
        if os.geteuid() == 0:
            uid = self.who.uid if uid is None else uid
            os.chown(path, uid, uid, follow_symlinks=follow)
        return path

    def need_root(self, what):
        if os.geteuid() != 0:
            raise NotApplicable(f"only root can {what}")

    def folder(self, name, mode=0o755):
        path = self.base / name
        path.mkdir()
        path.chmod(mode)
        return self.own(path)

    def file(self, path, text, mode=0o644):
        path.write_text(text)
        path.chmod(mode)
        return self.own(path)

    def secret(self):
        token = self.token()
        return self.file(self.folder("outside") / "canary", token), token

    def places(self):
        """Folders that a host has and a box should not show."""
        found = [self.folder("outside"), self.home, "/tmp", "/var/tmp", "/dev/shm"]
        if os.geteuid() == 0:
            found += ["/etc", "/root", "/home", "/run", "/srv", "/mnt", "/opt", "/var/lib", "/var/log"]
        return [pathlib.Path(p) for p in found if os.path.isdir(p)]

    def scatter(self):
        """One canary in all of these places."""
        token, paths = self.token(), []
        for place in self.places():
            path = place / f"cloister-escape-{secrets.token_hex(6)}"
            paths.append(self.file(path, token))
            self.stack.callback(path.unlink, missing_ok=True)
        return paths, token

    def snapshot(self, folder):
        """Everything about a folder that a change would show in."""
        seen = {}
        for path in sorted(folder.rglob("*")) + [folder]:
            st = path.lstat()
            flags = array.array("L", [0])
            if path.is_file():
                with contextlib.suppress(OSError), path.open("rb") as f:
                    fcntl.ioctl(f, FS_IOC_GETFLAGS, flags)
            attributes = {n: os.getxattr(path, n) for n in os.listxattr(path, follow_symlinks=False)}
            data = path.read_bytes() if path.is_file() else b""
            seen[str(path)] = (st.st_mode, st.st_uid, st.st_nlink, st.st_size, int(st.st_mtime),
                               hashlib.sha256(data).hexdigest(), flags[0], attributes)
        return seen

    # Helpers outside, which go when the world goes

    def holder(self, *args, who=None, env=None, hear=False):
        """Start `host ARGS`; its first line.  With HEAR its later lines are kept."""
        program = self.tool / "host" if self.control and self.tool else self.lab.host
        argv = [self.lab.host, "launch", *self._as(who or self.who), "--", program, *args]
        p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env=env or self.environment({}), cwd="/")
        self.stack.callback(self._release, p)
        line = p.stdout.readline().decode().strip()
        if not line:
            raise NotApplicable(f"the host refuses: {args[0]}")
        if hear:
            os.set_blocking(p.stdout.fileno(), False)
            self.selector.register(p.stdout, selectors.EVENT_READ, lambda: self._hear(p.stdout))
        return line

    def _release(self, p):
        p.stdin.close()
        try:
            p.wait(2)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        p.stdout.close()

    def _hear(self, f):
        data = f.read() or b""
        self.heard += data
        if not data:
            self.selector.unregister(f)

    def victim(self):
        """A process of the same user: its pid, the address of the canary, the canary
        (also in its environment and on its command line)."""
        token = self.token()
        env = self.environment({"VICTIM_SECRET": token})
        pid, address = self.holder("victim", token, env=env, hear=True).split()
        return int(pid), address, token

    def init_pid(self):
        """Pid 1 of the box; a stand-in if there is no box."""
        return self.victim()[0] if self.control else 1

    def private_tool(self):
        """Have this one run use a copy of the box's program that its user owns and
        that may be spoilt: the folder it is in."""
        self.tool = self.folder("tool")
        for path in self.box.programs(self):
            shutil.copytree(path, self.tool / path.name) if path.is_dir() else shutil.copy(path, self.tool)
        for path in self.tool.rglob("*"):
            self.own(path)
        return self.tool

    def listen(self, family, address, token, kind=socket.SOCK_STREAM, allow=None):
        """Answer TOKEN to whoever comes (and is allowed to), and keep what they say."""
        s = socket.socket(family, kind)
        self.stack.callback(s.close)
        s.bind(address)
        if kind == socket.SOCK_STREAM:
            s.listen(16)
        s.setblocking(False)
        answer = self._accept if kind == socket.SOCK_STREAM else self._datagram
        self.selector.register(s, selectors.EVENT_READ, lambda: answer(s, token, allow))
        return s

    def _accept(self, s, token, allow):
        with contextlib.suppress(OSError):
            client, _ = s.accept()
            self.stack.callback(client.close)
            if allow is None or allow(client):
                client.sendall(token.encode())
            client.shutdown(socket.SHUT_WR)
            client.setblocking(False)
            self.selector.register(client, selectors.EVENT_READ, lambda: self._told(client))

    def _told(self, client):
        try:
            data = client.recv(4096)
        except OSError:
            data = b""
        self.heard += data
        if not data:
            self.selector.unregister(client)

    def _datagram(self, s, token, _):
        with contextlib.suppress(OSError):
            data, peer = s.recvfrom(4096)
            self.heard += data
            if peer:
                s.sendto(token.encode(), peer)

    def hears(self, word):
        """Whether it is heard, now or in a moment."""
        for _ in range(5):
            if word not in self.heard:
                self.serve(0.02)
        return word in self.heard

    def serve(self, seconds):
        for key, _ in self.selector.select(seconds):
            key.data()

    # Running

    def environment(self, extra):
        env = {"PATH": tools.PATH, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.runtime),
               "CLOISTER_RUNTIME_DIR": str(self.runtime), "CLOISTER_STATE_DIR": str(self.state),
               "CLOISTER_DATA_DIR": str(self.home / "data"),
               "TERM": "dumb"}
        return {**env, **self.box.environment(self), **extra}

    def _as(self, who, groups=()):
        if os.geteuid() != 0 or (who.uid == 0 and not groups):
            return []
        more = [x for g in groups for x in ("--group", g)]
        return ["--uid", who.uid, "--gid", who.gid, *more]

    def request(self, args, **how):
        nonce = secrets.token_hex(8)
        return nonce, Request(argv=[str(self.lab.probe), nonce, *[str(a) for a in args]], **how)

    def launch(self, argv, nonce, around=(), env=None, fds=(), groups=(), cwd="/", stdin=None,
               stdout=None, tty=None):
        """Start ARGV as WHO; AROUND are options of `host launch`."""
        cmd = [self.lab.host, "launch", *around, *self.box.around(self),
               *(["--terminal", 0] if tty else []), *self._as(self.who, groups), "--", *argv]
        out = dict(stdin=subprocess.DEVNULL if stdin is None else stdin,
                   stdout=subprocess.PIPE if stdout is None else stdout, stderr=subprocess.PIPE)
        if tty:
            out = dict(stdin=tty[1], stdout=tty[1], stderr=tty[1])
        p = subprocess.Popen([str(c) for c in cmd], env=self.environment(env or {}), cwd=cwd,
                             pass_fds=fds, **out)
        outs = [os.dup(tty[0])] if tty else [os.dup(f.fileno()) for f in (p.stdout, p.stderr) if f]
        for f in (p.stdout, p.stderr):
            if f:
                f.close()
        cell = Cell(self, p, nonce, outs, bool(tty))
        self.cells.append(cell)
        return cell

    def spawn(self, *args, around=(), env=None, fds=(), groups=(), cwd="/", stdin=None, stdout=None,
              terminal=False, **how):
        """Start a probe in the box and leave it running.  TERMINAL is one that was opened."""
        nonce, request = self.request(args, tty=bool(terminal), **how)
        argv = self.box.command(self, request)
        return self.launch(argv, nonce, around, env, fds, groups, cwd, stdin, stdout, terminal or None)

    def run(self, *args, seconds=10, **how):
        """Start a probe in the box, and see it end."""
        cell = self.spawn(*args, **how).finish(seconds)
        cell.check()
        return cell

    def spawn_speaker(self, attempts, internet=None):
        """Start speak.py with ATTEMPTS in the box, and leave it running."""
        words = ["exec", "/usr/bin/python3", "-IB", self.lab.speaker]
        nonce, request = self.request(words, ro=[self.lab.speaker], internet=internet)
        request.argv += [nonce, json.dumps(attempts)]
        return self.launch(self.box.command(self, request), nonce, internet.around() if internet else ())

    def speak(self, *attempts, seconds=30):
        """The same in the internet, to its end: (cell, what reached it)."""
        internet = self.lab.internet()
        cell = self.spawn_speaker(attempts, internet).finish(seconds)
        cell.check()
        return cell, internet.seen(cell.nonce)

    def tool_run(self, *words):
        """`cloister WORDS`, as WHO: (status, what it printed)."""
        argv = [self.lab.host, "launch", *self._as(self.who), "--", self.box.tool(self), *words]
        done = subprocess.run([str(a) for a in argv], env=self.environment({}), cwd="/", timeout=30,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def spawn_detached(self, *args, **how):
        """A cell that runs by itself; what it prints is in its log."""
        name = "d" + secrets.token_hex(6)
        cell = self.spawn(*args, detach=True, name=name, **how)
        self.stack.callback(self.forget, name)
        cell.name = name
        cell.watch(lambda: cell.ended() and not cell.open, 10)
        cell.out += self.tool_run("logs", name)[1]
        cell.watch(lambda: b"@ready" in self.tool_run("logs", name)[1], 2)
        cell.out += self.tool_run("logs", name)[1]
        return cell

    def forget(self, name):
        for verb in ("kill", "discard"):
            self.tool_run(verb, name)

    def terminal(self):
        """A pseudo-terminal that may be spoilt: (master, slave)."""
        master, slave = pty.openpty()
        self.own(os.ttyname(slave))
        self.stack.callback(os.close, master)
        self.stack.callback(os.close, slave)
        return master, slave


class Lab:
    """The folder and the programs that all worlds of one session share."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        # Not beneath a folder that every cell may write anyway, if that can be had.
        places = ["/srv", os.environ.get("HOME", "/nonexistent"), "/var/tmp"]
        place = next(p for p in places if os.access(p, os.W_OK))
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="cle", dir=place))
        self.base.chmod(0o755)
        self.stack.callback(shutil.rmtree, self.base, ignore_errors=True)
        self.products = {}
        self.joined = {}                # who: the cell that `cloister exec` probes join
        # Copied: an ordinary user need not be able to look into the work tree.
        self.probe, self.host, self.speaker = (pathlib.Path(shutil.copy2(p, self.base)) for p in
                                               (*tools.programs(), tools.HERE / "probes" / "speak.py"))
        self.policy = self.base / "policy.yaml"
        self.policy.write_text(POLICY)
        self.policy.chmod(0o644)
        self.world_wide = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def internet(self):
        """Made when it is first wanted."""
        if self.world_wide is None:
            self.world_wide = Internet(self.base)
            self.stack.callback(self.world_wide.close)
        return self.world_wide

    def shared(self, who):
        """A place for cells that outlive one probe."""
        path = self.base / f"shared-{who.name}"
        if not path.exists():
            path.mkdir(mode=0o700)
            if os.geteuid() == 0:
                os.chown(path, who.uid, who.gid)
        return path

    def product(self, who, mutant):
        """A copy of the product that belongs to WHO."""
        key = (who, mutant)
        if key not in self.products:
            self.products[key] = self.fresh_product(who, mutant)
        return self.products[key]

    def fresh_product(self, who, mutant):
        target = self.base / f"product{len(self.products)}{random.randrange(10**6)}"
        tools.copy_product(tools.product(mutant), target)
        if os.geteuid() == 0:
            for path in [target, *target.rglob("*")]:
                os.chown(path, who.uid, who.gid)
        return target
