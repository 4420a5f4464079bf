"""The host's processes, and what listens there."""
import os
import secrets
import socket
import struct
import time

from ..verdict import probe


@probe("signals everything it can")
def signal_all(w):
    pid, _, _ = w.victim()
    w.run("signal", pid)
    return w.hears(b"signalled")


@probe("reads the host's System V shared memory")
def shm(w):
    token, key = w.token(), secrets.randbelow(1 << 30) + 1
    number = w.holder("shm", key, token)
    return token.encode() in w.run("shm", key, number).out


@probe("reads the host's message queue", may_be_vacuous="no message queues in this kernel")
def mqueue(w):
    token, name = w.token(), "/" + secrets.token_hex(8)
    w.holder("mqueue", name, token)
    return token.encode() in w.run("mqueue", name).out


@probe("connects to an abstract socket of the host")
def abstract_socket(w):
    token, name = w.token(), "cloister-escape-" + secrets.token_hex(8)
    w.listen(socket.AF_UNIX, "\0" + name, token)
    return token.encode() in w.run("abstract", name).out


@probe("connects to the sockets of D-Bus, ssh-agent, Docker and X11")
def host_sockets(w):
    token = w.token()
    paths = [w.runtime / "bus", w.home / "agent", x11_folder(w) + "/X" + str(1000 + secrets.randbelow(9000))]
    if os.geteuid() == 0:
        paths.append(f"/run/docker-{secrets.token_hex(6)}.sock")
    for path in paths:
        w.listen(socket.AF_UNIX, str(path), token)
        w.stack.callback(os.unlink, path)
        os.chmod(path, 0o777)
    env = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={paths[0]}", "SSH_AUTH_SOCK": str(paths[1]),
           "DISPLAY": ":" + paths[2].rsplit("X", 1)[1]}
    return token.encode() in w.run("unix", *paths, env=env).out


def x11_folder(w):
    folder = "/tmp/.X11-unix"
    if not os.path.exists(folder):
        os.mkdir(folder)
        os.chmod(folder, 0o1777)
        w.stack.callback(os.rmdir, folder)
    return folder if os.access(folder, os.W_OK) else str(w.home)


@probe("is taken for root by a host service whose socket was granted", who=("root",))
def socket_identity(w):
    def is_root(client):
        peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return struct.unpack("iII", peer)[1] == 0
    token, folder = w.token(), w.folder("granted", 0o777)
    w.listen(socket.AF_UNIX, str(folder / "socket"), token, allow=is_root)
    os.chmod(folder / "socket", 0o777)
    return token.encode() in w.run("granted-socket", folder / "socket", rw=[folder]).out


@probe("learns the host's name")
def host_name(w):
    w.need_root("name a host")
    name = "h" + secrets.token_hex(8)
    return name.encode() in w.run("names", around=["--uts", name]).out


@probe("learns the host's cgroup")
def cgroup_name(w):
    w.need_root("make a cgroup")
    name = "canary" + secrets.token_hex(8)
    around = []
    for tree in ("cpuset", "devices", "freezer", "perf_event", "systemd", "unified", "."):
        folder = f"/sys/fs/cgroup/{tree}"
        if os.path.exists(f"{folder}/cgroup.procs"):
            os.mkdir(f"{folder}/{name}")
            w.stack.callback(remove_soon, f"{folder}/{name}")
            if not (tree == "cpuset" and not fill_cpuset(folder, name)):
                around += ["--cgroup", f"{folder}/{name}"]
    return name.encode() in w.run("read", "/proc/self/cgroup", "/proc/1/cgroup", around=around).out


def fill_cpuset(folder, name):
    """A v1 cpuset takes no process until it has CPUs and memory."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        try:
            with open(f"{folder}/{file}") as source, open(f"{folder}/{name}/{file}", "w") as target:
                target.write(source.read())
        except OSError:
            return False
    return True


def remove_soon(folder):
    """Gone processes leave a cgroup a moment later."""
    for _ in range(100):
        try:
            os.rmdir(folder)
            return
        except OSError:
            time.sleep(0.01)
