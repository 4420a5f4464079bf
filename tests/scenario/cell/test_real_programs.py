"""Real programs run in a cell as they run outside it, as root and as an ordinary user.

Each test starts a cell on a small project, lets the program do its work there, and
checks the result.  Programs that are not installed are skipped, with the reason.
"""
import fcntl
import os
import pty
import random
import re
import shutil
import struct
import termios
import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest

from operators import TREE

PYTHON = "/usr/bin/python3"
SECONDS = 300           # compilers and browsers, on a busy machine


def work(operator, script, files, *options):
    """The output of a script that worked in an overlay of a folder, or of FILES."""
    folder = files if isinstance(files, Path) else operator.folder("work", files)
    done = operator.sh(f"echo $CLOISTER_CELL; set -eu; {script}", "-w", folder, *options,
                       seconds=SECONDS)
    cell, _, out = done.out.partition("\n")
    operator.kept.add(cell)
    assert done.status == 0, done
    return out


def needs(*programs):
    """Skip unless all are installed where a cell sees them."""
    missing = [p for p in programs if shutil.which(p, path="/usr/bin:/usr/sbin") is None]
    return pytest.mark.skipif(bool(missing), reason=f"not under /usr: {', '.join(missing)}")


# ---- JavaScript ------------------------------------------------------------------

NODE_SCRIPT = """
const { Worker } = require('worker_threads');
const http = require('http');
const os = require('os');

function sum() {
    const code = `const { parentPort } = require('worker_threads');
        let s = 0; for (let i = 0; i <= 100000; i++) s += i; parentPort.postMessage(s)`;
    return new Promise((ok, no) => {
        const w = new Worker(code, { eval: true });
        w.on('message', ok);
        w.on('error', no);
    });
}

(async () => {
    const sums = await Promise.all([sum(), sum(), sum()]);
    const server = http.createServer((q, r) => r.end('served ' + q.url));
    await new Promise(ok => server.listen(0, 'localhost', ok));
    const answer = await fetch(`http://localhost:${server.address().port}/x`);
    console.log(sums.join(), await answer.text(), os.userInfo().username);
    server.close();
})();
"""


@needs("node")
def test_node_has_workers_a_server_and_fetch(operator):
    script = operator.file("main.js", NODE_SCRIPT)
    said = operator.run("-v", f"{script}:/tmp/main.js:ro", "--", "node", "/tmp/main.js")
    assert said.ok() == "5000050000,5000050000,5000050000 served /x agent\n"


@needs("node")
def test_node_evaluates(operator):
    assert operator.run("--", "node", "-p", "6 * 7").ok() == "42\n"


@needs("node", "npm")
def test_npm_installs_offline_and_runs_scripts(operator):
    """A tarball, a file: dependency, and scripts of the project's own."""
    out = work(operator, """
        cd tool && npm pack --silent >/dev/null && cd ../app
        npm install --offline --no-audit --no-fund --silent ../tool/tool-1.2.3.tgz file:../near
        npm test --silent
        node -p "require('tool/package.json').version"
    """, {
        "tool/package.json": '{"name": "tool", "version": "1.2.3", "bin": {"tool": "tool.js"}}',
        "tool/tool.js": "#!/usr/bin/env node\nconsole.log('tool ' + require('near'))\n",
        "near/package.json": '{"name": "near", "version": "1.0.0"}',
        "near/index.js": "module.exports = 'near by'\n",
        "app/package.json": '{"name": "app", "version": "1.0.0", '
                            '"scripts": {"pretest": "echo first", "test": "tool"}}',
    })
    assert out.splitlines()[-3:] == ["first", "tool near by", "1.2.3"]


# ---- Python -----------------------------------------------------------------------

def wheel():
    """A package that needs no build: what a build needs differs between releases."""
    info = "local_thing-0.1.dist-info"
    files = {"local_thing.py": "VALUE = 'a local thing'\n",
             f"{info}/METADATA": "Metadata-Version: 2.1\nName: local-thing\nVersion: 0.1\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
                              "Tag: py3-none-any\n"}
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
        file.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in files))
    return data.getvalue()


def test_python_makes_a_venv_and_pip_installs_into_it(operator):
    pytest.importorskip("ensurepip")
    out = work(operator, f"""
        {PYTHON} -m venv venv
        venv/bin/pip install -q --no-index ./*.whl
        venv/bin/python -c 'import local_thing; print(local_thing.VALUE)'
    """, {"local_thing-0.1-py3-none-any.whl": wheel()})
    assert out == "a local thing\n"


PYTHON_SCRIPT = """
import asyncio, multiprocessing, os, pwd, socket, sqlite3, ssl, subprocess, tempfile, threading

def square(n):
    return n * n

if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(pool.map(square, range(4)))
    with tempfile.NamedTemporaryFile() as f, sqlite3.connect(f.name) as db:
        db.execute("create table t(x)")
        db.execute("insert into t values (7)")
        print(db.execute("select * from t").fetchone()[0])
    server = socket.create_server(("localhost", 0))
    threading.Thread(target=lambda: server.accept()[0].sendall(b"hello")).start()
    print(socket.create_connection(server.getsockname()).recv(5).decode())
    print(subprocess.run(["tr", "a", "b"], input="aa", text=True, capture_output=True).stdout)

    async def child():
        p = await asyncio.create_subprocess_exec("echo", "awaited", stdout=-1)
        return (await p.communicate())[0].decode().strip()
    print(asyncio.run(child()))
    ssl.create_default_context()
    print(pwd.getpwuid(os.getuid()).pw_dir)
"""


def test_python_has_processes_sockets_and_a_database(operator):
    script = operator.file("main.py", PYTHON_SCRIPT)
    said = operator.run("-v", f"{script}:/tmp/main.py:ro", "--", PYTHON, "/tmp/main.py")
    assert said.ok().split("\n") == ["[0, 1, 4, 9]", "7", "hello", "bb", "awaited",
                                     "/home/agent", ""]


# ---- git ----------------------------------------------------------------------------

GIT_NAMES = [word for who in ("AUTHOR", "COMMITTER") for word in
             ("-e", f"GIT_{who}_NAME=a", "-e", f"GIT_{who}_EMAIL=a@example.org")]


def git(operator, folder, words):
    """git outside, as the operator; what it printed."""
    return operator.host(f"git -c user.name=o -c user.email=o@example.org -C {folder} {words}")


@pytest.fixture
def repository(operator):
    folder = operator.folder("repository", {"file": "one\n"})
    git(operator, folder, "init -q -b main")
    git(operator, folder, "add .")
    git(operator, folder, "commit -q -m one")
    return folder


@needs("git")
def test_git_clones_a_granted_repository_and_works_on_it(operator, repository):
    said = operator.sh("""
        set -eu
        git clone -q /src ~/clone && cd ~/clone
        git worktree add -q ../tree -b side && cd ../tree
        echo two >>file && git commit -q -a -m two
        git gc -q --aggressive --prune=now && git fsck --strict
        git log --format=%s side && git -C ~/clone branch --format='%(refname:short)'
    """, "-v", f"{repository}:/src:ro", *GIT_NAMES)
    assert said.ok().split() == ["two", "one", "main", "side"]
    assert git(operator, repository, "branch --format='%(refname:short)'") == "main\n"


@needs("git")
def test_git_adds_everything_in_a_workspace_and_finds_no_ghosts(operator, repository):
    out = work(operator, """
        git status --porcelain
        echo new >new && git add . && git commit -q -m two && git status --porcelain
        git show --format= --name-status HEAD
    """, repository, *GIT_NAMES)
    assert out == "A\tnew\n"
    assert git(operator, repository, "status --porcelain") == ""


@needs("git")
def test_git_works_in_a_linked_worktree(operator, repository):
    tree = operator.folder("tree")
    git(operator, repository, f"worktree add -q -b side {tree}")
    out = work(operator, """
        echo new >new && git add . && git commit -q -m two
        git status --porcelain && git log --format=%s
    """, tree, "--name", "tree", *GIT_NAMES)
    assert out == "two\none\n"
    assert git(operator, tree, "log --format=%s") == "one\n"
    operator.cloister("apply", "tree").ok()
    assert git(operator, tree, "log --format=%s") == "two\none\n"
    assert git(operator, tree, "status --porcelain") == ""
    git(operator, tree, "fsck --strict")


# ---- compilers and what they make ---------------------------------------------------------

MAKEFILE = """
CFLAGS = -O2 -Wall
OBJ = $(patsubst %.c,%.o,$(wildcard *.c))
program: $(OBJ)
\t$(CC) -o $@ $^ -lm
"""


@needs("gcc", "make")
def test_gcc_and_make_build_a_program_of_many_files(operator):
    parts = range(12)
    declared = "".join(f"double part{i}(void);\n" for i in parts)
    files = {f"part{i}.c": "#include <math.h>\n" + declared +
             f"double part{i}(void) {{ return sqrt({i} * {i}.0); }}\n" for i in parts}
    files["main.c"] = ("#include <stdio.h>\n" + declared + 'int main(void) { printf("%g\\n", ' +
                       " + ".join(f"part{i}()" for i in parts) + "); return 0; }\n")
    out = work(operator, "make -s -j4 && ./program && ls *.o | wc -l",
               {**files, "Makefile": MAKEFILE})
    assert out.split() == [str(sum(parts)), str(len(parts) + 1)]
    assert not (operator.base / "work/program").exists()


@needs("gcc", "make", "pkg-config")
def test_cloister_builds_part_of_itself(operator):
    folder = operator.folder("work")
    shutil.copy(TREE / "Makefile", folder)
    for name in ("src", "tools"):
        shutil.copytree(TREE / name, folder / name)
    for path in folder.rglob("*"):
        operator.own(path)
    objects = " ".join(f"build/obj/src/base/{source.stem}.o"
                       for source in sorted((TREE / "src/base").glob("*.c")))
    out = work(operator, f"make -s -j2 CC=gcc {objects} && ls {objects} | wc -l", folder)
    assert out.split()[-1] == str(len(objects.split()))


ASAN_PROGRAM = """
#include <stdlib.h>
int main(int argc, char **argv)
{
    char *volatile p = malloc(77);
    (void)argv;
    if (argc > 1)
        return p[77];
    p = NULL;
    return 0;
}
"""


@needs("gcc")
def test_the_address_sanitizer_finds_leaks_and_overruns(operator):
    out = work(operator, """
        gcc -fsanitize=address leak.c -o leak
        ./leak 2>&1 || echo "status $?"
        ./leak over 2>&1 || echo "status $?"
    """, {"leak.c": ASAN_PROGRAM}, "-e", "ASAN_OPTIONS=symbolize=0")
    assert "LeakSanitizer: detected memory leaks" in out
    assert "77 byte(s) leaked" in out
    assert "heap-buffer-overflow" in out
    assert out.count("status 1\n") + out.count("status 23\n") == 2


@needs("gcc", "gdb")
def test_gdb_stops_a_program_and_looks_into_it(operator):
    out = work(operator, """
        gcc -g p.c -o p
        gdb -nx -batch -ex 'break twice' -ex run -ex 'print n' -ex bt -ex continue ./p 2>&1
    """, {"p.c": "int twice(int n);\nint twice(int n) { return 2 * n; }\n"
                 "int main(void) { return twice(21) != 42; }\n"})
    assert "$1 = 21" in out and "in main ()" in out and "exited normally" in out


@needs("strace")
def test_strace_follows_children(operator):
    said = operator.sh("strace -f -e trace=openat -o ~/log sh -c 'cat /etc/passwd >/dev/null; :'"
                       " && grep -c '\"/etc/passwd\"' ~/log")
    assert said.ok() == "1\n"


@needs("perl")
def test_perl_forks_and_talks_to_its_child(operator):
    said = operator.run("--", "perl", "-we", """
        use strict; use Socket;
        socketpair(my $mine, my $its, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die $!;
        if (!fork) { close $mine; syswrite $its, (getpwuid $<)[0] . ' ' . 6 * 7; exit }
        close $its; print <$mine>, "\\n"; wait; exit $?;
    """)
    assert said.ok() == "agent 42\n"


JAVA_PROGRAM = """
import java.net.*;
import java.util.stream.*;

public class Main {
    public static void main(String[] args) throws Exception {
        var server = new ServerSocket(0);
        new Thread(() -> {
            try (var c = server.accept()) {
                c.getOutputStream().write("hello".getBytes());
            } catch (Exception e) {
                e.printStackTrace();
            }
        }).start();
        var client = new Socket("localhost", server.getLocalPort());
        System.out.println(new String(client.getInputStream().readAllBytes()) + " "
            + IntStream.range(0, 1000).parallel().sum() + " "
            + System.getProperty("user.home"));
    }
}
"""


@needs("java", "javac")
def test_java_compiles_and_runs(operator):
    source = operator.file("Main.java", JAVA_PROGRAM)
    said = operator.run("-v", f"{source}:/tmp/Main.java:ro", "--", "java", "/tmp/Main.java",
                        seconds=SECONDS)
    assert said.ok() == "hello 499500 /home/agent\n"


@needs("cargo")
def test_cargo_builds_and_tests(operator):
    out = work(operator, """
        cargo new -q --vcs none thing && cd thing
        cargo test -q --offline 2>&1 && cargo run -q --offline
    """, {})
    assert out.endswith("Hello, world!\n")


# ---- programs that guard secrets, and forbid core dumps for it ---------------------------------

@needs("ssh-agent", "ssh-keygen", "ssh-add")
def test_ssh_agent_keeps_a_key(operator):
    said = operator.sh("""
        set -eu
        eval "$(ssh-agent)" >/dev/null
        ssh-keygen -q -t ed25519 -N '' -C 'a key of the cell' -f ~/key
        ssh-add -q ~/key && ssh-add -l
    """)
    assert "a key of the cell (ED25519)" in said.ok()


@needs("gpg", "gpg-agent")
def test_gpg_makes_a_key_and_signs(operator):
    said = operator.sh("""
        set -eu
        export GNUPGHOME=~/g && mkdir -m 700 ~/g
        gpg -q --batch --passphrase '' --quick-generate-key agent@example.org ed25519 sign never
        echo text | gpg -q --batch --clearsign | gpg -q --batch --verify 2>&1
    """)
    assert "Good signature" in said.ok()


# ---- a browser ------------------------------------------------------------------------

# Serves one page, which the browser that it starts shows: the page computes a number, and
# asks back how the process that shows it is walled in.
BROWSER_SCRIPT = """
import http.server, pathlib, subprocess, sys, threading

seed, colour, *options = sys.argv[1:]
PAGE = f'''<!doctype html><body style="margin:0;background:{colour}"><p id=p>nothing</p><script>
const asked = new XMLHttpRequest();
asked.open('GET', '/renderer', false);
asked.send();
document.getElementById('p').textContent = 'computed ' + ({seed} * 31 + 7) + ', ' + asked.responseText;
</script>'''

def renderer():
    for p in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            if b'--type=renderer' in (p / 'cmdline').read_bytes():
                status = dict(line.split(':\\t', 1) for line in
                              (p / 'status').read_text().splitlines())
                return f"pids {len(status['NSpid'].split())} filters {status['Seccomp_filters']}"
        except OSError:
            pass
    return 'no renderer'

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = PAGE if self.path == '/' else renderer()
        self.send_response(200)
        self.send_header('Content-Type', 'text/html')
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(('localhost', 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.exit(subprocess.run(['chromium', '--headless', '--disable-gpu', *options,
                         f'http://localhost:{server.server_port}/']).returncode)
"""


class Page:
    def __init__(self, operator):
        self.operator = operator
        self.script = operator.file("browser.py", BROWSER_SCRIPT)
        self.seed = random.randrange(10**9)
        self.colour = random.randbytes(3)
        self.marker = f"computed {self.seed * 31 + 7}, "

    def show(self, *browser, cell=()):
        return self.operator.run(
            *cell, "-v", f"{self.script}:/tmp/browser.py:ro", "--", PYTHON, "/tmp/browser.py",
            str(self.seed), f"#{self.colour.hex()}", *browser, seconds=SECONDS)


def read_png(data):
    """Check a PNG from end to end; its size and first pixel."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, []
    while at < len(data):
        length, = struct.unpack_from(">I", data, at)
        body = data[at + 4:at + 8 + length]
        assert zlib.crc32(body) == struct.unpack_from(">I", data, at + 8 + length)[0]
        chunks.append((body[:4], body[4:]))
        at += 12 + length
    assert chunks[0][0] == b"IHDR" and chunks[-1][0] == b"IEND"
    width, height, depth, kind = struct.unpack_from(">IIBB", chunks[0][1])
    assert depth == 8 and kind in (2, 6)
    pixels = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    assert len(pixels) == height * (1 + width * (3 if kind == 2 else 4))
    # Whatever filter the first row has, nothing stands before its first pixel.
    return (width, height), pixels[1:4]


@needs("chromium")
def test_chromium_computes_a_page_of_a_server_in_the_cell(operator):
    page = Page(operator)
    said = page.show("--no-sandbox", "--dump-dom")
    assert page.marker + "pids 1 filters 1" in said.ok()


@needs("chromium")
def test_chromium_takes_a_screenshot(operator):
    page = Page(operator)
    folder = operator.folder("work")
    page.show("--no-sandbox", "--hide-scrollbars", "--window-size=320,240",
              f"--screenshot={folder}/shot.png", cell=["-w", f"{folder}:rw"]).ok()
    assert (folder / "shot.png").stat().st_uid == operator.uid
    assert read_png((folder / "shot.png").read_bytes()) == ((320, 240), page.colour)


@needs("chromium")
def test_chromium_has_its_own_sandbox_in_the_nested_profile_only(operator):
    page = Page(operator)
    said = page.show("--dump-dom")
    assert said.status not in (0, 125), said
    assert "No usable sandbox" in said.err
    said = page.show("--dump-dom", cell=["--profile", "nested"])
    # The zygote's pid namespace, and the renderer's, and a filter of its own.
    assert page.marker + "pids 3 filters 2" in said.ok()


# ---- sandboxes within -------------------------------------------------------------------

BWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
         "--tmpfs", "/tmp", "sh", "-c", "echo $$; ls /tmp; ls -d /proc/[0-9]* | wc -l"]


@needs("bwrap")
def test_bubblewrap_works_in_the_nested_profile_only(operator):
    said = operator.run("--", *BWRAP)
    assert said.status == 1 and re.search("No permissions to create (a )?new namespace", said.err)
    said = operator.run("--profile", "nested", "--", "sh", "-c", 'touch /tmp/outer; exec "$@"',
                        "sh", *BWRAP)
    pid, processes = said.ok().split()
    assert pid == "2" and int(processes) <= 5


# ---- terminals --------------------------------------------------------------------------

def test_programs_see_the_terminals_size(operator):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 37, 123, 0, 0))
    os.fchmod(slave, 0o666)
    script = ("stty size; tput lines; tput cols; "
              f"{PYTHON} -c 'import os; print(*os.get_terminal_size(2))'; tty")
    process = operator.start(
        "-qt", "--", "sh", "-c", script, env={"TERM": "xterm"}, stdin=slave, stdout=slave,
        stderr=slave, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    out = b""
    try:
        while data := os.read(master, 4096):
            out += data
    except OSError:         # the last one has closed the terminal
        pass
    os.close(master)
    assert process.wait(timeout=SECONDS) == 0, out
    assert out.decode().split() == ["37", "123", "37", "123", "123", "37", "/dev/pts/0"]
