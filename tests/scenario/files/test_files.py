"""The host's files that a cell sees: programs, a small /etc, and the grants of -v."""
import os
import re
import shutil
import socket
import stat
from pathlib import Path

import pytest

import oci
from operators import IS_STATIC, SECONDS, only_root, only_user

PROGRAMS = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}
OWN = {"dev", "etc", "home", "proc", "run", "sys", "tmp", "usr", "var"}


def listing(said):
    return set(said.ok().split("\n")[:-1])


# ---- the skeleton ----------------------------------------------------------------

def test_root_folder(operator):
    seen = listing(operator.run("--", "ls", "-A", "/"))
    assert seen - PROGRAMS == OWN


def test_programs_are_the_hosts(operator):
    assert listing(operator.run("--", "ls", "-A", "/usr/bin")) == set(os.listdir("/usr/bin"))


@pytest.mark.parametrize("options", [(), ("--root",), ("--profile", "nested")],
                         ids=["agent", "root", "nested"])
def test_read_only_but_for_scratch(operator, options):
    places = ["/", "/usr", "/usr/bin", "/bin", "/etc", "/etc/ssl", "/home", "/run", "/sys",
              "/var", "/dev", "/dev/pts", "/proc", "/proc/sys/kernel"]
    said = operator.run(*options, "--", "sh", "-c",
                        'for p; do touch "$p/x" 2>/dev/null && echo "$p"; done; exit 0',
                        "sh", *places)
    assert said.ok() == ""


def test_files_of_the_skeleton_cannot_be_changed(operator):
    files = ["/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/usr/bin/env", "/etc/ld.so.cache"]
    said = operator.run("--root", "--", "sh", "-c",
                        'for f; do (: >>"$f") 2>/dev/null && echo "$f"; rm -f "$f" 2>/dev/null'
                        ' && echo "$f"; mv "$f" /tmp 2>/dev/null && echo "$f"; done; exit 0',
                        "sh", *files)
    assert said.ok() == ""


def test_scratch_is_writable_and_private(operator):
    places = ["/tmp", "/var/tmp", "/home/agent", "/dev/shm"]
    name = f"scratch-{os.getpid()}"
    look = 'for p; do ls -A "$p"; done'
    write = f'for p; do echo x >"$p/{name}" && cat "$p/{name}"; done'
    id = operator.detach("--", "sh", "-c", f"{write}; sleep 1000", "sh", *places)
    assert operator.run("--", "sh", "-c", look, "sh", *places).ok() == ""
    assert operator.run("--", "sh", "-c", write, "sh", *places).ok() == "x\n" * len(places)
    assert operator.cloister("exec", id, "cat", f"/tmp/{name}").ok() == "x\n"
    for place in places:
        assert not Path(place, name).exists()


def test_scratch_modes(operator):
    said = operator.run("--", "stat", "-c", "%a %U", "/tmp", "/var/tmp", "/dev/shm", "/home/agent")
    modes = said.ok().split("\n")
    assert [m.split()[0] for m in modes[:3]] == ["1777"] * 3
    assert modes[3] == "700 agent"


def test_host_files_are_not_there(operator):
    canary = operator.file("home/canary", "host")
    operator.file("home/.ssh/id_ed25519", "host")
    places = [canary, operator.home, operator.base, operator.runtime, operator.state,
              operator.program, "/root", "/boot", "/mnt", "/srv", "/opt", "/media",
              "/etc/shadow", "/etc/machine-id", "/etc/ssh", "/etc/hostid", "/etc/fstab",
              "/etc/environment", "/etc/profile.d", "/var/lib", "/var/log", "/run/systemd"]
    said = operator.run("--", "sh", "-c", 'for p; do test -e "$p" && echo "$p"; done; exit 0',
                        "sh", *map(str, places))
    assert said.ok() == ""


def test_etc(operator):
    said = operator.run("--", "sh", "-c", "cd /etc; cat passwd group hosts hostname resolv.conf")
    users = [line.split(":")[0] for line in said.ok().split("\n")[:3]]
    assert users == ["root", "agent", "nobody"]
    assert "127.0.0.1\tlocalhost cell\n" in said.out
    # The supervisor answers that there is no such name.
    assert re.findall("nameserver (.*)", said.out) == ["127.0.0.53"]
    assert socket.gethostname() not in said.out
    generated = {"passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf"}
    host = set(os.listdir("/etc"))
    seen = listing(operator.run("--", "ls", "-A", "/etc"))
    assert generated <= seen and seen - generated <= host
    for name in ("passwd", "group", "shadow", "sudoers", "ssh", "apt", "cron.d", "systemd"):
        assert name in generated or name not in seen


def test_certificates_are_there(operator):
    if not Path("/etc/ssl/certs/ca-certificates.crt").exists():
        pytest.skip("no certificates here")
    said = operator.run("--", "sha256sum", "/etc/ssl/certs/ca-certificates.crt")
    assert said.ok() == operator.host("sha256sum /etc/ssl/certs/ca-certificates.crt")


def test_devices(operator):
    nodes = {"null", "zero", "full", "random", "urandom", "tty"}
    links = {"fd", "stdin", "stdout", "stderr", "ptmx"}
    assert listing(operator.run("--", "ls", "-A", "/dev")) == nodes | links | {"pts", "shm"}
    said = operator.sh("head -c 3 /dev/zero | od -An -tx1; echo x >/dev/null && cat /dev/null;"
                       "head -c 8 /dev/urandom | wc -c; echo x 2>&1 >/dev/full | wc -l; ls /dev/pts")
    assert said.ok().split() == ["00", "00", "00", "8", "1", "ptmx"]


@pytest.mark.parametrize("options", [(), ("--root",)], ids=["agent", "root"])
def test_devices_cannot_be_made(operator, options):
    said = operator.sh("mknod /tmp/d c 1 3; mknod /tmp/b b 254 0; ls /tmp", *options)
    assert said.out == "" and said.err.count("mknod") == 2


def test_sys_is_empty(operator):
    assert operator.run("--", "find", "/sys", "-mindepth", "1").ok() == ""


def test_proc_masks(operator):
    files = ["kcore", "kallsyms", "keys", "modules", "cmdline", "sysrq-trigger", "timer_list",
             "interrupts", "iomem", "kmsg", "swaps", "partitions", "diskstats"]
    folders = ["acpi", "bus", "driver", "fs", "irq", "scsi", "tty", "pressure"]
    said = operator.sh("cd /proc; cat " + " ".join(files) + " 2>/dev/null;"
                       "find " + " ".join(folders) + " -mindepth 1 2>/dev/null; exit 0")
    assert said.ok() == ""
    said = operator.sh("echo b 2>/dev/null >/proc/sysrq-trigger;"
                       "for f in $(find /proc/sys -type f); do"
                       " (: >>$f) 2>/dev/null && echo $f; done; exit 0", "--root")
    assert said.ok() == ""


def test_proc_works(operator, boundary):
    said = operator.sh("cat /proc/cpuinfo /proc/meminfo /proc/stat /proc/version /proc/mounts"
                       " /proc/sys/kernel/random/uuid /proc/self/maps >/dev/null && nproc")
    # An emulated machine has one processor unless it is asked for more.
    assert int(said.ok()) == (1 if boundary == "microvm" else len(os.sched_getaffinity(0)))


def mountinfo(said):
    for line in said.ok().splitlines():
        words = line.split()
        yield words[4], set(words[5].split(","))


def test_mounts_are_quiet(operator):
    folder = operator.folder("granted")
    workspace = operator.folder("workspace")
    said = operator.run("-v", f"{folder}:/granted", "-w", workspace, "--",
                        "cat", "/proc/self/mountinfo")
    seen = dict(mountinfo(said))
    assert {"/", "/usr", "/tmp", "/proc", "/granted", str(workspace)} <= set(seen)
    # runc makes the devices in its /dev, which nobody can write.
    own = {"/dev"} if oci.is_container(operator) and "ro" in seen["/dev"] else set()
    for path, flags in seen.items():
        if path not in own and not path.startswith(("/dev/", "/proc/")):
            assert {"nosuid", "nodev"} <= flags, (path, flags)
    assert "ro" in seen["/"] and "ro" in seen["/usr"]


# ---- grants ----------------------------------------------------------------------

def test_folder(operator):
    folder = operator.folder("granted", {"there": "from the host\n"})
    said = operator.sh("cat /data/there; echo made >/data/made; mkdir /data/sub; ls -A /data",
                       "-v", f"{folder}:/data")
    assert said.ok() == "from the host\nmade\nsub\nthere\n"
    assert (folder / "made").read_text() == "made\n"


def test_read_only_folder(operator):
    folder = operator.folder("granted", {"there": "from the host\n"})
    said = operator.sh("cat /data/there; echo x >/data/made; echo x >>/data/there; rm /data/there;"
                       "chmod 777 /data; touch /data/there; exit 0", "-v", f"{folder}:/data:ro")
    assert said.ok() == "from the host\n"
    assert said.err.count("Read-only file system") == 5
    assert os.listdir(folder) == ["there"]


def test_file(operator):
    file = operator.file("granted", "from the host\n")
    said = operator.sh("cat /x/y/file; echo more >>/x/y/file", "-v", f"{file}:/x/y/file")
    assert said.ok() == "from the host\n"
    assert file.read_text() == "from the host\nmore\n"


def test_read_only_file(operator):
    file = operator.file("granted", "from the host\n")
    said = operator.sh("cat /file; echo more >>/file", "-v", f"{file}:/file:ro")
    assert said.status != 0 and said.out == "from the host\n" == file.read_text()


def test_rw_may_be_said(operator):
    folder = operator.folder("granted")
    operator.sh("echo x >/data/x", "-v", f"{folder}:/data:rw").ok()
    assert (folder / "x").exists()


def test_same_path(operator):
    folder = operator.folder("granted/deep", {"f": "x"})
    assert operator.run("-v", folder, "--", "cat", f"{folder}/f").ok() == "x"
    assert operator.run("-v", f"{folder}:ro", "--", "cat", f"{folder}/f").ok() == "x"
    assert operator.run("-v", folder, "--", "ls", "-A", folder.parent).ok() == "deep\n"


def test_relative_host_path(operator):
    operator.folder("home/granted", {"f": "x"})
    for word in ("granted", "./granted", "../home/granted", "granted/"):
        assert operator.run("-v", f"{word}:/data:ro", "--", "cat", "/data/f").ok() == "x"


def test_a_link_grants_its_target(operator):
    folder = operator.folder("granted", {"f": "x"})
    link = operator.base / "link"
    link.symlink_to(folder)
    assert operator.run("-v", f"{link}:/data", "--", "cat", "/data/f").ok() == "x"
    assert operator.run("-v", link, "--", "cat", f"{folder}/f").ok() == "x"


def test_no_grant_covers_the_target_of_a_hosts_link(operator):
    file = operator.file("f", "x")
    link = next(p for p in sorted(Path("/usr/bin").iterdir()) if p.is_symlink() and p.is_file())
    operator.run("-v", f"{file}:{link}:ro", "--", "true").sentence(f"'{link}' is a link to '{os.readlink(link)}'")


@pytest.mark.parametrize("name", ["with space", "ünï-€", "line\nbreak", "tab\there", "quote'\"$x`y",
                                  "-dash", b"\xff\xfe", "x" * 255, "a\\134b", "%s%n", ","],
                         ids=repr)
def test_names(operator, name):
    folder = operator.base / os.fsdecode(name)
    folder.mkdir()
    operator.own(folder)
    said = operator.run("-v", os.fsencode(folder), "-v", os.fsencode(folder) + b":/data/" +
                        os.fsencode(name), "--", "/usr/bin/python3", "-Ic",
                        "import os, sys; open(os.path.join(sys.argv[1], 'f'), 'w').write('x');"
                        "print(os.listdir(b'/data'))", os.fsencode(folder))
    assert said.ok() == f"{[os.fsencode(name)]!r}\n"
    assert (folder / "f").read_text() == "x"


def test_grant_beside_the_agents_own(operator):
    """The folders on the way belong to the cell: the agent can still use its home."""
    folder = operator.folder("granted", {"f": "x"})
    for place in ("/tmp/a/b", "/home/agent/.config/tool", "/run/x", "/opt/x", "/mnt", "/var/lib/x"):
        said = operator.run("-v", f"{folder}:{place}", "--", "sh", "-c",
                            f"cat {place}/f && touch {place}/made /tmp/x ~/x")
        assert said.ok() == "x"


@pytest.mark.parametrize("root", [[], ["--root"]], ids=["agent", "root"])
def test_folders_on_the_way_to_a_grant_are_the_agents(operator, root):
    """A tool's grant in ~/.config or ~/.cache does not keep other tools out of it."""
    folder = operator.folder("granted", {"f": "x"})
    for place in ("/home/agent/.cache/deep/tool", "/tmp/a/b/c", "/var/tmp/a/b/c"):
        said = operator.run(*root, "-v", f"{folder}:{place}:ro", "--", "sh", "-c",
                            f"touch {place}/../x {place}/../../x && cat {place}/f")
        assert said.ok() == "x", place


def test_over_a_file_of_the_cell(operator):
    file = operator.file("passwd", "someone:x:1000:1000::/:/bin/sh\n")
    assert operator.run("-v", f"{file}:/etc/passwd:ro", "--", "id", "-un").ok() == "someone\n"


def test_over_a_program(operator):
    file = operator.file("true", "#!/bin/sh\necho mine\n")
    file.chmod(0o755)
    assert operator.run("-v", f"{file}:/usr/bin/true:ro", "--", "true").ok() == "mine\n"


def test_grant_in_a_grant(operator):
    outer, inner = operator.folder("outer", {"sub/hidden": ""}), operator.folder("inner", {"f": "x"})
    said = operator.run("-v", f"{outer}:/data", "-v", f"{inner}:/data/sub:ro", "--",
                        "sh", "-c", "cat /data/sub/f; ls /data/sub; touch /data/x; touch /data/sub/x")
    assert said.status == 1 and said.out == "xf\n"
    assert sorted(os.listdir(outer)) == ["sub", "x"] and os.listdir(inner) == ["f"]


def test_grant_in_a_grant_that_lacks_the_place(operator):
    """Making it would write to the host without being asked to."""
    outer, inner = operator.folder("outer"), operator.folder("inner")
    operator.run("-v", f"{outer}:/data", "-v", f"{inner}:/data/sub", "--", "true").sentence(
        "/data/sub")
    assert os.listdir(outer) == []
    operator.run("-v", f"{inner}:/usr/no-such-place/x", "--", "true").sentence("/usr/no-such-place")


def test_many_grants(operator):
    folder = operator.folder("granted")
    options = [w for n in range(64) for w in ("-v", f"{folder}:/data/{n}")]
    assert operator.run(*options, "--", "sh", "-c", "ls /data | wc -l").ok() == "64\n"
    operator.run(*options, "-v", f"{folder}:/data/64", "--", "true").sentence("64 grants")


@pytest.mark.parametrize("place", ["/proc", "/proc/1", "/proc/self/x", "/sys", "/sys/x", "/dev",
                                   "/dev/shm", "/dev/null"])
def test_refused_places(operator, place):
    folder = operator.folder("granted")
    operator.run("-v", f"{folder}:{place}", "--", "true").sentence(place)
    operator.run("-v", f"{folder}:{place}:ro", "--", "true").sentence(place)


@pytest.mark.parametrize("place", ["/", "/..", "/../x", "/data/../proc", "/data/..", "/data/.",
                                   "/./data", "//data", "/data//x", "data", "./data", "../data", "",
                                   "/" + "x" * 256])
def test_places_that_are_no_plain_path(operator, place):
    folder = operator.folder("granted")
    operator.run("-v", f"{folder}:{place}", "--", "true").sentence("'")


@pytest.mark.parametrize("word", ["", ":", ":/data", "/:/data:rw:ro:x", "no-such", "/no/such:/data",
                                  "no-such:/data:ro"])
def test_host_paths_that_are_not_there(operator, word):
    operator.run("-v", word, "--", "true").sentence("'")


def test_the_hosts_own_proc_and_root(operator):
    for word in ("/", "/proc", "/sys", "/dev"):
        operator.run("-v", word, "--", "true").sentence(f"'{word}'")


def test_the_same_place_twice(operator):
    folder = operator.folder("granted")
    operator.run("-v", f"{folder}:/data", "-v", f"{folder}:/data:ro", "--", "true").sentence(
        "/data", "twice")
    operator.run("-v", f"{folder}:/data", "-v", f"{folder}:/data/", "--", "true").sentence(
        "/data", "twice")
    operator.run("-v", folder, "-w", folder, "--", "true").sentence(folder, "twice")


def test_one_folder_in_two_places(operator):
    folder = operator.folder("granted")
    said = operator.sh("echo x >/b/f; cat /a/f; touch /a/g", "-v", f"{folder}:/a:ro",
                       "-v", f"{folder}:/b")
    assert said.status == 1 and said.out == "x\n"


@only_user
def test_folder_that_the_user_may_not_enter(operator):
    if os.geteuid() != 0:
        pytest.skip("wants root to make it")
    secret = operator.base / "secret"
    secret.mkdir(mode=0o700)
    (secret / "f").write_text("x")
    os.chown(secret, 4321, 4321)
    said = operator.run("-v", f"{secret}:/data", "--", "cat", "/data/f")
    assert said.status in (1, 125) and "x" not in said.out
    operator.run("-v", f"{secret}/f:/data", "--", "cat", "/data").sentence("f")


# ---- whose files they are --------------------------------------------------------

def test_ownership_as_seen_inside(operator):
    folder = operator.folder("granted", {"f": "x"})
    said = operator.run("-v", f"{folder}:/data", "--", "stat", "-c", "%U:%G", "/data", "/data/f")
    assert said.ok() == "agent:agent\n" * 2
    said = operator.run("--root", "-v", f"{folder}:/data", "--", "stat", "-c", "%u:%g", "/data")
    assert said.ok() == "0:0\n"


def test_the_agents_files_belong_to_the_folders_owner(operator):
    folder = operator.folder("granted", {"f": "x"})
    for options in ((), ("--root",)):
        operator.sh("cd /data; mkdir -p d; echo x >d/f; ln -sf f d/l; echo x >>f; ln -f f d/h",
                    *options, "-v", f"{folder}:/data").ok()
        for path in [folder, *folder.rglob("*")]:
            assert (path.lstat().st_uid, path.lstat().st_gid) == (operator.uid, operator.gid), path
        shutil.rmtree(folder / "d")


@only_root
def test_somebody_elses_folder(operator):
    folder = operator.folder("granted", {"f": "x", "roots": "y"})
    for path in (folder, folder / "f"):
        os.chown(path, 4321, 5432)
    said = operator.sh("stat -c %U:%G /data /data/f /data/roots; echo x >/data/made;"
                       "echo x >>/data/roots; chown 1000:1000 /data/roots; chown 0 /data/f",
                       "-v", f"{folder}:/data")
    assert said.out == "agent:agent\nagent:agent\nnobody:nogroup\n"
    assert "cannot create /data/roots: Permission denied" in said.err
    assert said.err.count("chown: ") == 2
    made = (folder / "made").stat()
    assert (made.st_uid, made.st_gid) == (4321, 5432)
    assert (folder / "roots").stat().st_uid == 0 and (folder / "roots").read_text() == "y"


def test_modes_and_links_in_a_grant(operator):
    folder = operator.folder("granted", {"f": "x"})
    operator.sh("cd /data; chmod 640 f; ln f hard; mv f moved; mkdir -m 711 d; mv hard d/hard",
                "-v", f"{folder}:/data").ok()
    assert stat.S_IMODE((folder / "moved").stat().st_mode) == 0o640
    assert stat.S_IMODE((folder / "d").stat().st_mode) == 0o711
    assert (folder / "moved").stat().st_nlink == 2 and (folder / "d/hard").read_text() == "x"


def test_granted_socket(operator, boundary):
    """A socket is a file that can be granted, unless the cell has another kernel; its name alone leads nowhere."""
    folder = operator.folder("sockets")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "s"))
    operator.own(folder / "s")
    if boundary in ("microvm", "runsc"):
        server.close()
        refused = operator.run("-v", f"{folder}/s:/run/s", "--", "true")
        assert refused.status == 125 and f"the socket '{folder}/s' cannot be granted" in refused.err
        return
    server.listen(1)
    server.settimeout(SECONDS)
    client = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
              "s.sendall(b'hello'); print(s.recv(10).decode())")
    try:
        process = operator.start("-v", f"{folder}/s:/run/s", "--", "/usr/bin/python3", "-Ic",
                                 client, "/run/s", stdout=-1, stderr=-1)
        peer, _ = server.accept()
        assert peer.recv(10) == b"hello"
        peer.sendall(b"welcome")
        assert process.communicate(timeout=SECONDS)[0] == b"welcome\n"
        assert operator.python(client.replace("sys.argv[1]", repr(str(folder / "s")))).status == 1
    finally:
        server.close()


# ---- another root file system ----------------------------------------------------

@pytest.fixture
def rootfs(operator):
    """A root file system of one program."""
    if not IS_STATIC:
        pytest.skip("this init is not static")
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no busybox (package busybox-static)")
    root = operator.folder("rootfs", {"marker": "a rootfs\n", "etc/passwd": "host:x:7:7::/:\n",
                                      "etc/own.conf": "its own\n", "opt/f": "x", "tmp/x": "",
                                      "home/agent/x": "", "usr/share/f": "", "var/lib/f": ""})
    operator.folder("rootfs/bin")
    shutil.copy(busybox, root / "bin/busybox")
    operator.own(root / "bin/busybox")
    for name in ("sh", "cat", "ls", "id", "touch", "env", "stat", "test"):
        (root / "bin" / name).symlink_to("busybox")
    return root


def test_rootfs(operator, rootfs):
    said = operator.sh("id -u; id -un; cat /opt/f; cat /etc/own.conf; ls /usr /bin; ls -A /tmp ~",
                       "--rootfs", rootfs)
    assert said.ok().startswith("1000\nagent\nxits own\n")
    assert "share" in said.out and "busybox" in said.out and "\nlocal\n" not in said.out
    assert said.out.endswith("/home/agent:\n\n/tmp:\n"), said


@pytest.mark.parametrize("link", ["{outside}", "../outside", "/proc/self/cwd", "usr/elsewhere"])
def test_rootfs_whose_etc_is_a_link(operator, rootfs, link):
    """It is found as the cell finds it: never a folder of the host's."""
    outside = operator.folder("outside", {"own.conf": "of the host\n"})
    (rootfs / "etc").rename(rootfs / "usr/elsewhere")
    (rootfs / "etc").symlink_to(link.format(outside=outside))
    done = operator.sh("cat /etc/own.conf", "--rootfs", rootfs)
    assert done.out == ("its own\n" if link == "usr/elsewhere" else ""), done
    assert "of the host" not in done.out + done.err


def test_rootfs_is_read_only(operator, rootfs):
    before = set(rootfs.rglob("*"))
    said = operator.sh("for p in / /bin /opt /etc /usr /var; do touch $p/made && echo $p; done"
                       " 2>/dev/null; touch /tmp/made", "--root", "--rootfs", rootfs)
    assert said.ok() == ""
    assert set(rootfs.rglob("*")) == before


def test_rootfs_with_grants(operator, rootfs):
    folder = operator.folder("granted", {"f": "x"})
    said = operator.run("--rootfs", rootfs, "-v", f"{folder}:/data", "-v", f"{folder}:/opt:ro",
                        "--", "sh", "-c", "cat /data/f /opt/f; touch /data/made")
    assert said.ok() == "xx" and (folder / "made").exists()


def test_rootfs_without_the_command(operator, rootfs):
    done = operator.run("--rootfs", rootfs, "--", "perl")
    assert done.status == 127 and "perl" in done.err


def test_rootfs_around_own_folders(operator, rootfs):
    """It would show them to an agent that is the operator outside."""
    for name in "RUNTIME", "STATE", "DATA":
        operator.folder("rootfs/opt/own").chmod(0o700)
        operator.run("--root", "--rootfs", rootfs, "--", "ls", "/opt/own", env={
            f"CLOISTER_{name}_DIR": str(rootfs / "opt/own")}).sentence(f"'{rootfs}'", "root file system")


@pytest.mark.parametrize("word", ["/", "no-such", "", "/etc/passwd"])
def test_rootfs_that_cannot_be(operator, word):
    operator.run("--rootfs", word, "--", "true").sentence(f"'{word}'")
