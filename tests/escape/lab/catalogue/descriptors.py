"""Probes of open descriptors, standard input and output, and the working directory."""
import os
import socket

from ..cell import NotRun
from ..verdict import probe


@probe("uses a folder of the host's that was left open")
def inherited_folder(w):
    path, token = w.secret()
    fd = os.open(path.parent, os.O_RDONLY)
    w.stack.callback(os.close, fd)
    return token.encode() in w.run("descriptors", fds=[fd]).out


@probe("uses a file that was left open under a high number")
def inherited_file(w):
    path, token = w.secret()
    fd = os.open(path, os.O_RDONLY)
    high = 800
    os.dup2(fd, high)
    w.stack.callback(os.close, fd)
    w.stack.callback(os.close, high)
    return token.encode() in w.run("descriptors", fds=[high]).out


@probe("speaks on a socket that was left open")
def inherited_socket(w):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        cell = w.run("descriptors", fds=[theirs.fileno()])
        ours.setblocking(False)
        try:
            return cell.nonce.encode() in ours.recv(4096)
        except BlockingIOError:
            return False


@probe("writes to the file that is its standard input")
def stdin_write(w):
    path, token = w.secret()
    with open(path, "rb") as f:
        w.run("stdin-write", "changed", stdin=f)
    return path.read_text() != token


@probe("opens files beneath the folder that is its standard input")
def stdin_folder(w):
    path, token = w.secret()
    fd = os.open(path.parent, os.O_RDONLY)
    w.stack.callback(os.close, fd)
    try:
        return token.encode() in w.run("stdin-folder", "canary", stdin=fd).out
    except NotRun:
        # A box may also decline such a standard input, and not start at all.
        if "standard input" in w.cells[-1].tail():
            return False
        raise


@probe("turns the host's socket that is its standard input to another address")
def stdin_socket(w):
    token = w.token()
    first = w.listen(socket.AF_INET, ("127.0.0.1", 0), "-")
    second = w.listen(socket.AF_INET, ("127.0.0.1", 0), token)
    s = socket.create_connection(first.getsockname())
    s.shutdown(socket.SHUT_RD)
    with s:
        cell = w.run("stdin-socket", second.getsockname()[1], stdin=s)
        w.serve(0.1)
    return cell.nonce.encode() in w.heard and cell.said("won")


@probe("reads and empties the file that is its standard output")
def stdout_file(w):
    path, token = w.secret()
    with open(path, "ab") as f:
        cell = w.run("stdout-file", stdout=f)
    return token.encode() in cell.out or token not in path.read_text()


@probe("writes to the pipe that is its standard input, for whoever reads it next")
def stdin_pipe(w):
    """`script | sh`, one line of which runs the box: sh must not read what the agent wrote."""
    token = w.token()
    theirs, ours = os.pipe()
    w.own(f"/proc/self/fd/{theirs}", follow=True)
    with os.fdopen(theirs, "rb") as reader, os.fdopen(ours, "wb"):
        w.run("stdin-write", token, stdin=reader)
        os.set_blocking(reader.fileno(), False)
        return token.encode() in (reader.read() or b"")


@probe("takes what others wrote to the pipe that is its standard output")
def stdout_pipe(w):
    token = w.token()
    ours, theirs = os.pipe()
    w.own(f"/proc/self/fd/{theirs}", follow=True)
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "wb", buffering=0) as writer:
        writer.write(token.encode())
        return token.encode() in w.run("stdout-file", stdout=writer).out


@probe("reads a file by the working directory it was started in")
def working_folder(w):
    path, token = w.secret()
    return token.encode() in w.run("cwd", "canary", cwd=path.parent).out


@probe("sees the environment of whoever started it")
def environment(w):
    token = w.token()
    return token.encode() in w.run("environment", env={"HOST_SECRET": token}).out
