"""Ports in network namespaces of tests, and at addresses of this machine, that lead to the tests' servers."""
import concurrent.futures
import contextlib
import ctypes
import os
import socket
import threading

CLONE_NEWNET = 0x40000000


def listen(address, port, namespace):
    """A socket stays in the network namespace in which it was made."""
    if namespace is None:
        return socket.create_server((address, port))

    def enter():
        libc = ctypes.CDLL(None, use_errno=True)
        with open(namespace, "rb") as there:
            if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)
        return socket.create_server((address, port))
    # Only this thread enters it, and then ends.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(enter).result()


def carry(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Forward:
    """A port at ADDRESS that leads to SERVER: the path of a socket, or a port of this machine's loopback.  NAMESPACE: the
    file of the network namespace that has the address, if it is another one."""

    def __init__(self, address, server, port=0, namespace=None):
        self.server = server
        self.listener = listen(address, port, namespace)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def dial(self):
        if isinstance(self.server, int):
            return socket.create_connection(("127.0.0.1", self.server))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(str(self.server))
        except OSError:
            server.close()
            raise
        return server

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = self.dial()
            except OSError:
                client.close()
                continue
            for a, b in (client, server), (server, client):
                threading.Thread(target=carry, args=(a, b), daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
