"""Input and output: whatever they are outside, they work inside, to the last byte."""
import hashlib
import os
import select
import signal
import socket
import subprocess
import threading

import pytest

from operators import SECONDS, read_until, status_of

BIG = 100 << 20
PIPE = subprocess.PIPE


def pattern(size):
    """Bytes that are not alike anywhere."""
    block = hashlib.shake_128(b"pattern").digest(1 << 20)
    return (block * (size // len(block) + 1))[:size]


@pytest.fixture(scope="module")
def big():
    data = pattern(BIG)
    return data, hashlib.sha256(data).hexdigest()


@pytest.fixture(params=["run", "exec"])
def inside(request, operator):
    """The words in front of a command that start it in a cell."""
    if request.param == "run":
        return [operator.program, "run", "-q", "--"]
    return [operator.program, "exec", operator.detach("--", "sleep", "1000"), "--"]


# ---- pipes -----------------------------------------------------------------------

def test_pipes(operator, inside):
    done = operator.do(*inside, "sh", "-c", "cat; echo wrong >&2", input="through\n")
    assert (done.status, done.out, done.err) == (0, "through\n", "wrong\n")


def test_both_outputs_are_apart(operator, inside):
    done = operator.do(*inside, "sh", "-c", "for i in 1 2 3; do echo o$i; echo e$i >&2; done")
    assert (done.out, done.err) == ("o1\no2\no3\n", "e1\ne2\ne3\n")


def test_both_outputs_in_one_pipe(operator, inside):
    done = operator.do(*inside, "sh", "-c", "for i in 1 2 3; do echo o$i; echo e$i >&2; done",
                       stderr=subprocess.STDOUT)
    assert done.out == "o1\ne1\no2\ne2\no3\ne3\n"


def test_end_of_input(operator, inside):
    assert operator.do(*inside, "cat", input="").out == ""
    assert operator.do(*inside, "sh", "-c", "cat; echo over", input="x").out == "xover\n"


def test_a_line_at_a_time(operator, inside):
    """As a shell or a language server is spoken to."""
    process = operator.spawn(*inside, "sh", "-c", "while read l; do echo got $l; done",
                             stdin=PIPE, stdout=PIPE)
    for word in (b"one", b"two"):
        os.write(process.stdin.fileno(), word + b"\n")
        assert read_until(process.stdout.fileno(), b"\n") == b"got " + word + b"\n"
    process.stdin.close()
    assert process.wait(SECONDS) == 0


def test_much_through_pipes(operator, inside, big):
    data, digest = big
    done = operator.do(*inside, "sh", "-c", "tee /tmp/copy | sha256sum; cat /tmp/copy >&2",
                       input=data, binary=True)
    assert done.status == 0 and done.out.split()[0].decode() == digest
    assert hashlib.sha256(done.err).hexdigest() == digest


def test_devices_that_name_the_output(operator):
    """Scripts say /dev/stderr; the pipe belongs to whoever started cloister."""
    said = operator.host(f"echo in | {operator.program} run -- sh -c 'cat /dev/stdin >/dev/stdout;"
                         " echo wrong >/dev/stderr; echo fd >/dev/fd/1' 2>&1 | cat")
    assert "in\nwrong\nfd\n" in said


def test_a_reader_that_goes_away(operator, inside):
    process = operator.spawn(*inside, "sh", "-c", "trap 'echo told >&2; exit 3' PIPE; yes",
                             stdout=PIPE, stderr=PIPE)
    read_until(process.stdout.fileno(), b"y\ny\n")
    process.stdout.close()
    # yes(1) dies of SIGPIPE, the shell sees it.
    assert process.wait(SECONDS) in (3, 128 + signal.SIGPIPE)


def test_sigpipe_is_the_status(operator):
    done = operator.host(f"{operator.program} run -- yes | head -c 3; exit 0")
    assert done == "y\ny"
    process = operator.start("--", "yes", stdout=PIPE)
    read_until(process.stdout.fileno(), b"y")
    process.stdout.close()
    assert process.wait(SECONDS) == 128 + signal.SIGPIPE


def test_slow_reader(operator):
    """Nobody reads: the agent waits, and nothing in between fills the memory."""
    process = operator.start("-q", "--", "sh", "-c", "head -c 50000000 /dev/zero; echo done >&2",
                             stdout=PIPE, stderr=PIPE)
    read_until(process.stdout.fileno(), b"\0")
    assert not select.select([process.stderr], [], [], 0.3)[0]
    assert int(status_of(process.pid)["VmRSS"].split()[0]) < 20000
    out, err = process.communicate(timeout=SECONDS)
    assert err.endswith(b"done\n") and process.returncode == 0 and len(out) > 49000000


def test_output_is_complete_when_the_agent_ends_at_once(operator, inside):
    for _ in range(5):
        done = operator.do(*inside, "sh", "-c", "seq 20000; exit 7")
        assert done.status == 7 and done.out.endswith("\n20000\n")
        assert done.out.count("\n") == 20000


# ---- files -----------------------------------------------------------------------

def test_files(operator, inside):
    source, target, errors = operator.file("in", "from a file\n"), operator.file("out"), \
        operator.file("err")
    with open(source) as i, open(target, "w") as o, open(errors, "w") as e:
        operator.do(*inside, "sh", "-c", "cat; echo wrong >&2", stdin=i, stdout=o, stderr=e)
    assert (target.read_text(), errors.read_text()) == ("from a file\n", "wrong\n")


def test_much_through_files(operator, inside, big):
    source, target = operator.file("in", big[0]), operator.file("out")
    with open(source) as i, open(target, "w") as o:
        assert operator.do(*inside, "cat", stdin=i, stdout=o).status == 0
    assert hashlib.sha256(target.read_bytes()).hexdigest() == big[1]


def test_file_positions_are_kept(operator, inside):
    """As a shell's compound command has it: each goes on where the last one stopped."""
    file = operator.file("f", "first\nsecond\n")
    out = operator.file("out")
    words = " ".join(f"'{w}'" for w in map(str, inside))
    operator.host(f"{{ read a; echo $a; {words} cat; echo third; {words} echo fourth; }} "
                  f"<{file} >{out}", stderr=subprocess.DEVNULL)
    assert out.read_text() == "first\nsecond\nthird\nfourth\n"


def test_appending(operator, inside):
    file = operator.file("f", "first\n")
    with open(file, "a") as a:
        operator.do(*inside, "echo", "second", stdout=a)
        with open(file, "a") as b:
            b.write("third\n")
        operator.do(*inside, "echo", "fourth", stdout=a)
    assert file.read_text() == "first\nsecond\nthird\nfourth\n"


def test_files_cannot_be_reopened_inside(operator):
    """A log the operator writes to is not the agent's to rewrite or read."""
    file = operator.file("f", "operator's\n")
    with open(file, "a+") as f:
        operator.sh("cat <&1; (: >/proc/self/fd/1); (: >/dev/stdout); echo agent", stdout=f)
    assert file.read_text() == "operator's\nagent\n"


def test_one_file_for_both_outputs(operator):
    file = operator.file("f")
    with open(file, "w") as f:
        operator.sh("echo one; echo two >&2; echo three", "-q", stdout=f, stderr=f)
    assert sorted(file.read_text().split()) == ["one", "three", "two"]


def test_null(operator, inside):
    with open("/dev/null", "r+") as null:
        done = operator.do(*inside, "sh", "-c", "cat; echo x; echo y >&2; exit 4", stdin=null,
                           stdout=null, stderr=null)
    assert done.status == 4


def test_full_disk_outside(operator):
    with open("/dev/full", "w") as full:
        process = operator.start("-q", "--", "sh", "-c",
                                 "trap '' PIPE; while echo x; do :; done; exit 5",
                                 stdout=full, stderr=subprocess.DEVNULL)
        assert process.wait(SECONDS) == 5


def test_other_devices(operator):
    with open("/dev/zero", "rb") as zero:
        done = operator.run("--", "head", "-c", "200000", stdin=zero, binary=True)
    assert done.out == bytes(200000)


def test_named_pipe(operator):
    path = operator.base / "fifo"
    os.mkfifo(path)
    operator.own(path)
    process = operator.spawn("sh", "-c", f"{operator.program} run -q -- cat <{path}", stdout=PIPE)
    with open(path, "w") as f:
        f.write("by name\n")
    assert process.communicate(timeout=SECONDS)[0] == b"by name\n"


# ---- sockets ---------------------------------------------------------------------

def test_sockets(operator, inside):
    """As an ssh server or inetd starts programs."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = operator.spawn(*inside, "sh", "-c", "cat; echo over", stdin=theirs, stdout=theirs)
        theirs.close()
        ours.settimeout(SECONDS)
        ours.sendall(b"hello\n")
        assert read_until(ours.fileno(), b"\n") == b"hello\n"
        ours.shutdown(socket.SHUT_WR)
        assert read_until(ours.fileno(), b"\n") == b"over\n"
        assert process.wait(SECONDS) == 0
        assert ours.recv(1) == b""


def test_much_through_sockets(operator, big):
    data, digest = big
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = operator.start("--", "cat", stdin=theirs, stdout=theirs)
        theirs.close()
        writer = threading.Thread(target=lambda: (ours.sendall(data),
                                                  ours.shutdown(socket.SHUT_WR)))
        writer.start()
        came = hashlib.sha256()
        while chunk := ours.recv(1 << 20):
            came.update(chunk)
        writer.join(SECONDS)
        assert process.wait(SECONDS) == 0 and came.hexdigest() == digest


def test_socket_is_not_passed_inside(operator):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = operator.python("import os, stat; print(*(stat.S_ISSOCK(os.fstat(n).st_mode)"
                               " for n in (0, 1, 2)))", stdin=theirs, stderr=theirs)
    assert done.out == "False False False\n"


# ---- less than three -------------------------------------------------------------

@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["run", "exec"])
def test_closed(operator, command, closed):
    """Inside they are open, so that no file takes their place."""
    proof = operator.folder("proof")
    grant = ["-v", f"{proof}:/proof", "--"]
    words = ["run", "-q", *grant]
    if command == "exec":
        words = ["exec", operator.detach(*grant, "sleep", "1000"), "--"]
    look = ("import os; n = [f for f in (0, 1, 2) if os.path.exists(f'/proc/self/fd/{f}')];"
            "open('/proof/open', 'w').write(str(n)); os._exit(6)")
    done = operator.do("sh", "-c", f'exec "$@" {closed}', "sh", operator.program, *words,
                       "/usr/bin/python3", "-Ic", look)
    assert done.status == 6, done
    assert (proof / "open").read_text() == "[0, 1, 2]"


@pytest.mark.parametrize("command", ["run", "exec"])
def test_closed_input_is_at_its_end(operator, command):
    words = ["run", "-q"] if command == "run" else ["exec", operator.detach("--", "sleep", "1000")]
    done = operator.do("sh", "-c", 'exec "$@" wc -c <&-', "sh", operator.program, *words)
    assert (done.status, done.out.strip()) == (0, "0"), done


@pytest.mark.parametrize("command", ["run", "exec"])
def test_closed_output_writes_nowhere(operator, command):
    """Above all not into cloister's own files, which would take the number."""
    words = ["run", "-q"] if command == "run" else ["exec", operator.detach("--", "sleep", "1000")]
    done = operator.do("sh", "-c", 'exec "$@" sh -c "echo out; echo err >&2; exit 3" >&- 2>&-', "sh",
                       operator.program, *words)
    assert done.status == 3
    assert all((operator.runtime / name).stat().st_size == 0
               for name in operator.names(operator.runtime) if (operator.runtime / name).is_file())


def test_folder_as_input(operator, inside):
    fd = os.open(operator.home, os.O_RDONLY)
    try:
        operator.do(*inside, "true", stdin=fd).sentence("input", "folder")
    finally:
        os.close(fd)


def test_output_that_cannot_be_written(operator):
    """Open, but for reading only: the agent gets an error, as outside."""
    with open("/dev/zero") as f:
        process = operator.start("-q", "--", "sh", "-c",
                                 "trap '' PIPE; while echo x; do :; done; exit 5",
                                 stdout=f, stderr=subprocess.DEVNULL)
        assert process.wait(SECONDS) == 5


# ---- what outlives the agent -----------------------------------------------------

def test_background_processes_do_not_hold_the_output(operator):
    done = operator.sh("sleep 1000 & echo started")
    assert done.ok() == "started\n"


def test_no_command_reads_the_operators_input_unasked(operator):
    """`while read line; do cloister run true; done` must see every line, as with ssh -n."""
    said = operator.host(f"printf '1\\n2\\n3\\n' | while read l; do echo $l; {operator.program} run -q"
                         " -- true; done")
    assert said == "1\n2\n3\n"
