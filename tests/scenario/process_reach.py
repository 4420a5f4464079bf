"""Every way by which a program can reach a peer, one after the other: process_reach.py TARGETS [WAY...]

TARGETS is JSON: where canaries listen, and the word that they wait for.  Each way says that word, with its own name behind
it, in a process of its own.  Prints a line for each way: how it ended.  It is run outside too, where each way arrives.
"""
import array
import ctypes
import json
import os
import signal
import socket
import struct
import sys

T = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
SYS = {"socket": 41, "connect": 42, "sendmmsg": 307, "io_uring_setup": 425, "bpf": 321}
if os.uname().machine == "aarch64":
    SYS = {"socket": 198, "connect": 203, "sendmmsg": 269, "io_uring_setup": 425, "bpf": 280}
WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


def word(name):
    return f"{T['word']} {name} ".encode()


def tcp(family=socket.AF_INET):
    return socket.socket(family, socket.SOCK_STREAM)


def udp(family=socket.AF_INET):
    return socket.socket(family, socket.SOCK_DGRAM)


def call(number, *args):
    r = libc.syscall(number, *args)
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r


@way
def tcp4(say):
    s = tcp()
    s.connect(("127.0.0.1", T["tcp4"]))
    s.sendall(say)


@way
def tcp4_any(say):
    s = tcp()
    s.connect(("0.0.0.0", T["tcp4"]))
    s.sendall(say)


@way
def tcp4_other_loopback(say):
    s = tcp()
    s.connect(("127.3.2.1", T["tcp4"]))
    s.sendall(say)


@way
def tcp4_without_waiting(say):
    s = tcp()
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", T["tcp4"]))
    s.setblocking(True)
    s.sendall(say)


@way
def tcp4_address_of_the_machine(say):
    s = tcp()
    s.connect((T["address"], T["tcp4"]))
    s.sendall(say)


@way
def tcp4_bound_first(say):
    s = tcp()
    s.bind(("127.0.0.1", 0))
    s.connect(("127.0.0.1", T["tcp4"]))
    s.sendall(say)


@way
def tcp4_after_a_duplicate(say):
    s = tcp()
    t = socket.socket(fileno=os.dup(s.fileno()))
    t.connect(("127.0.0.1", T["tcp4"]))
    s.sendall(say)


@way
def tcp4_passed_to_another_process(say):
    a, b = socket.socketpair()
    s = tcp()
    if os.fork() == 0:
        _, control, _, _ = b.recvmsg(1, 64)
        fd = array.array("i", control[0][2][:4])[0]
        t = socket.socket(fileno=fd)
        os._exit(t.connect_ex(("127.0.0.1", T["tcp4"])) != 0 or t.send(say) != len(say))
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [s.fileno()]))])
    if os.wait()[1] != 0:
        raise OSError("refused")


@way
def tcp4_reconnected(say):
    own = tcp()
    own.bind(("127.0.0.1", 0))
    own.listen()
    s = tcp()
    s.connect(own.getsockname())
    call(SYS["connect"], s.fileno(), struct.pack("=H14x", socket.AF_UNSPEC), 16)
    s.connect(("127.0.0.1", T["tcp4"]))
    s.sendall(say)


@way
def tcp4_accepted_and_reconnected(say):
    own = tcp()
    own.bind(("127.0.0.1", 0))
    own.listen()
    s = tcp()
    s.connect(own.getsockname())
    c, _ = own.accept()
    call(SYS["connect"], c.fileno(), struct.pack("=H14x", socket.AF_UNSPEC), 16)
    c.connect(("127.0.0.1", T["tcp4"]))
    c.sendall(say)


@way
def tcp4_by_sendto_fast_open(say):
    s = tcp()
    s.sendto(say, 0x20000000, ("127.0.0.1", T["tcp4"]))


@way
def tcp4_by_sendmsg_fast_open(say):
    s = tcp()
    s.sendmsg([say], [], 0x20000000, ("127.0.0.1", T["tcp4"]))


@way
def tcp4_by_connect_fast_open(say):
    s = tcp()
    s.setsockopt(socket.IPPROTO_TCP, 30, 1)
    s.connect(("127.0.0.1", T["tcp4"]))
    s.sendall(say)


@way
def tcp4_by_multipath(say):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    s.connect(("127.0.0.1", T["tcp4"]))
    s.sendall(say)


@way
def tcp4_with_a_route_of_its_own(say):
    s = tcp()
    s.setsockopt(socket.IPPROTO_IP, 4, bytes([131, 7, 4, 127, 0, 0, 1, 0]))
    s.connect(("127.0.0.1", T["tcp4"]))
    s.sendall(say)


@way
def tcp4_at_a_device(say):
    s = tcp()
    s.setsockopt(socket.SOL_SOCKET, 25, b"lo\0")
    s.connect(("127.0.0.1", T["tcp4"]))
    s.sendall(say)


@way
def tcp6(say):
    s = tcp(socket.AF_INET6)
    s.connect(("::1", T["tcp6"]))
    s.sendall(say)


@way
def tcp6_of_an_ipv4_address(say):
    s = tcp(socket.AF_INET6)
    s.connect(("::ffff:127.0.0.1", T["tcp4"]))
    s.sendall(say)


@way
def udp4_sendto(say):
    udp().sendto(say, ("127.0.0.1", T["udp4"]))


@way
def udp4_connected(say):
    s = udp()
    s.connect(("127.0.0.1", T["udp4"]))
    s.send(say)


@way
def udp4_connected_and_sent_elsewhere(say):
    s = udp()
    s.connect(("127.0.0.1", 53))
    s.sendto(say, ("127.0.0.1", T["udp4"]))


@way
def udp4_sendmsg(say):
    udp().sendmsg([say], [], 0, ("127.0.0.1", T["udp4"]))


@way
def udp4_sendmmsg(say):
    s = udp()
    name = ctypes.create_string_buffer(struct.pack("=H", socket.AF_INET) + struct.pack("!H", T["udp4"]) +
                                       socket.inet_aton("127.0.0.1") + bytes(8))
    data = ctypes.create_string_buffer(say)
    part = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(data), len(say)))
    header = struct.pack("=QI4xQQQQi4xI4x", ctypes.addressof(name), 16, ctypes.addressof(part), 1, 0, 0, 0, 0)
    call(SYS["sendmmsg"], s.fileno(), ctypes.create_string_buffer(header), 1, 0)


@way
def udp4_lite(say):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)
    s.sendto(say, ("127.0.0.1", T["udplite"]))


@way
def udp6(say):
    udp(socket.AF_INET6).sendto(say, ("::1", T["udp6"]))


@way
def raw_udp(say):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
    s.sendto(struct.pack("!HHHH", 4000, T["udp4"], 8 + len(say), 0) + say, ("127.0.0.1", 0))


@way
def packet(say):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
    body = struct.pack("!HHHH", 4000, T["udp4"], 8 + len(say), 0) + say
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 1, 0, 64, 17, 0, socket.inet_aton("127.0.0.1"),
                       socket.inet_aton("127.0.0.1"))
    words = sum(struct.unpack("!10H", head))
    words = (words & 0xffff) + (words >> 16)
    head = head[:10] + struct.pack("!H", ~(words + (words >> 16)) & 0xffff) + head[12:]
    s.sendto(head + body, ("lo", 0x0800))


@way
def unix_stream(say):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(T["unix_stream"])
    s.sendall(say)


@way
def unix_stream_by_a_link(say):
    link = os.environ.get("TMPDIR", "/tmp") + f"/link{os.getpid()}"
    os.symlink(T["unix_stream"], link)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(link)
    s.sendall(say)


@way
def unix_stream_by_a_descriptor(say):
    fd = os.open(T["unix_stream"], os.O_PATH)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(f"/proc/self/fd/{fd}")
    s.sendall(say)


@way
def unix_seqpacket(say):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(T["unix_seqpacket"])
    s.send(say)


@way
def unix_dgram(say):
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(say, T["unix_dgram"])


@way
def unix_dgram_of_a_pair(say):
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(say, T["unix_dgram"])


@way
def unix_dgram_of_a_raw_pair(say):
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    a.sendto(say, T["unix_dgram"])


@way
def unix_of_a_datagram_socket(say):
    """What a socket for datagrams is made of must not be one of AF_UNIX for the agent."""
    s = udp()
    s.sendto(say, T["unix_dgram"]) if s.family == socket.AF_UNIX else s.sendmsg([say], [], 0, ("127.0.0.1", T["udp4"]))


@way
def abstract_stream(say):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect("\0" + T["abstract_stream"])
    s.sendall(say)


@way
def abstract_dgram(say):
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(say, "\0" + T["abstract_dgram"])


# ---- these only ask for what would do: outside, the kernel gives it ----

@way
def make_netlink(say):
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    return "made"


@way
def make_sctp(say):
    socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET)
    return "made"


@way
def make_icmp(say):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return "made"


@way
def make_vsock(say):
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    return "made"


@way
def make_alg(say):
    socket.socket(38, socket.SOCK_SEQPACKET)
    return "made"


@way
def make_io_uring(say):
    call(SYS["io_uring_setup"], 4, ctypes.create_string_buffer(120))
    return "made"


@way
def serve_the_machine(say):
    """A server that can be reached from outside of the machine."""
    s = tcp()
    s.bind(("0.0.0.0", T["free"]))
    s.listen()
    c, _ = s.accept()
    c.sendall(say)


def main():
    for name in sys.argv[2:] or WAYS:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            signal.alarm(3)
            try:
                print(name, WAYS[name](word(name)) or "done", flush=True)
            except OSError as e:
                print(name, e.strerror or e, flush=True)
            os._exit(0)
        if os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
            print(name, "no answer")


main()
