"""What lies between two machines: a socket whose other end can be cut off, or fall silent."""
import contextlib
import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

NAME = ".s.PGSQL.5432"


class Wire:
    """REACH makes a socket of the other end, and LISTENER is this one's."""

    def __init__(self, listener, reach):
        self.listener, self.reach = listener, reach
        self.flows, self.over, self.whole = threading.Event(), False, True
        self.sockets, self.lock = set(), threading.Lock()
        self.flows.set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.over:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            # One that is not there is not waited for by others.
            threading.Thread(target=self.connect, args=(near,), daemon=True).start()

    def connect(self, near):
        self.flows.wait()
        try:
            if not self.whole:
                raise ConnectionRefusedError
            far = self.reach()
        except OSError:
            near.close()
            return
        with self.lock:
            self.sockets |= {near, far}
        # It was cut meanwhile.
        if not self.whole:
            self.cut()
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def carry(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                self.flows.wait()
                other.sendall(data)
        for sock in (one, other):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        with self.lock:
            self.sockets.discard(one)
        one.close()

    def cut(self):
        """Every connection breaks, and there are no new ones."""
        self.whole = False
        with self.lock:
            for sock in self.sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def silence(self):
        """Nothing passes, and nobody is told."""
        self.flows.clear()

    def mend(self):
        self.whole = True
        self.flows.set()

    def close(self):
        self.over = True
        self.cut()
        self.flows.set()
        # Closing it would leave whoever waits in accept().
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class PostgresWire(Wire):
    """Clients find it in FOLDER, as they find the socket in the folder TO."""

    def __init__(self, to):
        self.folder = Path(tempfile.mkdtemp(prefix="cloister-wire-"))
        self.folder.chmod(0o711)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / NAME))
        (self.folder / NAME).chmod(0o777)
        listener.listen(64)
        super().__init__(listener, lambda: reach_unix(Path(to) / NAME))

    def close(self):
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


class PortWire(Wire):
    """Clients find it at PORT, as they find what listens at the port TO of this machine."""

    def __init__(self, to=None):
        self.to = to
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        super().__init__(listener, lambda: socket.create_connection(("127.0.0.1", self.to)))


def reach_unix(path):
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(os.fspath(path))
    except OSError:
        sock.close()
        raise
    return sock
