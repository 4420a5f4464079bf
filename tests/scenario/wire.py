"""What lies between a machine and its Postgres: a socket whose other end can be cut off, or fall silent."""
import contextlib
import shutil
import socket
import tempfile
import threading
from pathlib import Path

NAME = ".s.PGSQL.5432"


class Wire:
    """Clients find it in FOLDER, as they find the socket in the folder TO."""

    def __init__(self, to):
        self.to, self.folder = Path(to), Path(tempfile.mkdtemp(prefix="cloister-wire-"))
        self.folder.chmod(0o711)
        self.flows, self.over, self.whole = threading.Event(), False, True
        self.sockets, self.lock = set(), threading.Lock()
        self.flows.set()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / NAME))
        (self.folder / NAME).chmod(0o777)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.over:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                if not self.whole:
                    raise ConnectionRefusedError
                far.connect(str(self.to / NAME))
            except OSError:
                near.close()
                far.close()
                continue
            with self.lock:
                self.sockets |= {near, far}
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
        self.mend()
        self.listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)
