"""Volumes: folders by name that cells mount, one after another.  What is in them comes from agents."""
import json
import os
import re
import secrets
import signal
import stat
import threading

import pytest

from dispatches import agent, dispatch, policy
from operators import descendants_of, is_alive, only_root, read_until, wait_until
from trees import tree

HELD = "echo $CLOISTER_CELL; read line"
SIZE = 4 << 20


def volume(operator, *words, **how):
    return operator.cloister("volume", *words, **how)


def create(operator, name="v", *options):
    return json.loads(volume(operator, "create", name, "--json", *options).ok())


def show(operator, name="v"):
    return json.loads(volume(operator, "show", name, "--json").ok())


def sh(operator, script, *mounts, options=()):
    named = [word for mount in mounts or ["v:/data"] for word in ("--volume-name", mount)]
    return operator.sh(script, "-q", "--no-policy", *named, *options)


def folder(operator):
    return operator.base / "data/volumes"


def trees(operator):
    return sorted(os.listdir(folder(operator) / "trees"))


def hold(operator, *mounts):
    """A cell that has these volumes until its input ends."""
    named = [word for mount in mounts for word in ("--volume-name", mount)]
    process = operator.start("-q", "--no-policy", *named, "--", "sh", "-c", HELD, stdin=-1, stdout=-1)
    read_until(process.stdout.fileno(), b"\n")
    return process


def let_go(process):
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait() == 0


# ---- use ------------------------------------------------------------------------

def test_the_next_cell_has_what_the_last_one_left(operator):
    create(operator)
    word = secrets.token_hex(8)
    sh(operator, f"id -un; echo {word} >/data/f; mkdir -p /data/d/e; ln -s f /data/l; echo x >/data/d/x; chmod 0 /data/d/x").ok()
    said = sh(operator, "cat /data/f /data/l; stat -c '%U %a' /data/d/x; chmod 600 /data/d/x; cat /data/d/x; rm -r /data/d; "
              "mkdir /data/d; echo y >/data/d/y")
    assert said.ok() == f"{word}\n{word}\nagent 0\nx\n"
    assert sh(operator, "find /data | sort", "v:/data:ro").ok().split() == ["/data", "/data/d", "/data/d/y", "/data/f", "/data/l"]
    assert operator.cells("-a") == []


def test_read_only(operator):
    create(operator)
    sh(operator, "echo one >/data/f").ok()
    done = sh(operator, "echo two >/data/f; touch /data/g; cat /data/f", "v:/data:ro")
    assert done.ok() == "one\n" and done.err.count("Read-only file system") == 2
    assert show(operator)["entries"] == 1


def test_other_ids_and_paths(operator):
    """Each cell of root has ids of its own; whoever is the agent owns the files."""
    create(operator)
    first = hold(operator, "v:/data:ro")
    sh(operator, "echo one >/data/f", options=["--root"]).ok()
    assert sh(operator, "stat -c %U /srv/x/f; echo two >>/srv/x/f; cat /srv/x/f", "v:/srv/x").ok() == "agent\none\ntwo\n"
    let_go(first)


def test_one_cell_writes(operator):
    create(operator)
    writer = hold(operator, "v:/data")
    operator.sh("true", "--volume-name", "v:/data", "--no-policy").sentence("another cell writes to the volume 'v'")
    assert show(operator)["writing"]
    # Readers have what the last writer left.
    assert sh(operator, "ls /data", "v:/data:ro").ok() == ""
    volume(operator, "remove", "v").sentence("'v'")
    let_go(writer)
    assert sh(operator, "echo x >/data/x").status == 0
    assert not show(operator)["in_use"]


def test_writers_at_the_same_time(operator):
    """Whoever gets it has it alone, and no addition is lost."""
    create(operator)
    done = []

    def add():
        done.append(sh(operator, "n=$(ls /data | wc -l); echo $n >/data/$n"))

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [d for d in done if d.status == 0]
    assert won and all(d.status in (0, 125) for d in done), done
    assert sh(operator, "ls /data | wc -l", "v:/data:ro").ok() == f"{len(won)}\n"


def test_a_reader_keeps_what_it_began_with(operator):
    create(operator)
    sh(operator, "echo old >/data/f").ok()
    reader = operator.start("-q", "--no-policy", "--volume-name", "v:/data:ro", "--", "sh", "-c",
                            "echo ready; read line; cat /data/f", stdin=-1, stdout=-1)
    read_until(reader.stdout.fileno(), b"ready\n")
    sh(operator, "echo new >/data/f").ok()
    volume(operator, "list").ok()
    volume(operator, "prune").ok()
    reader.stdin.write(b"\n")
    reader.stdin.close()
    assert reader.stdout.read() == b"old\n" and reader.wait() == 0
    assert len(trees(operator)) == 2
    volume(operator, "prune").ok()
    assert trees(operator) == [show(operator)["tree"]]


@pytest.mark.parametrize("word, said", [
    ("v", "is not NAME:PATH"), ("v:data", "is not NAME:PATH"), ("v:/data:rx", "not a plain path"), ("../x:/data", "'../x'"), (":/data", "''"),
    ("v:/proc/x", "the cell has its own /proc"), ("v:/", "'/'"), ("nothing:/data", "there is no volume 'nothing'"),
    ("v@none:/data", "no snapshot 'none'"), ("v@s:/data:rw", "is a snapshot"), ("v:/a/../b", "not a plain path")])
def test_what_is_no_volume(operator, word, said):
    create(operator)
    volume(operator, "snapshot", "v@s").ok()
    result = operator.sh("true", "--volume-name", word, "--no-policy")
    if word == "v:/data:rx":    # a path may have a colon in it
        assert result.status == 0
    else:
        result.sentence(said)


def test_twice(operator):
    create(operator)
    sh(operator, "true", "v:/a", "v:/b").sentence("mounted twice")
    sh(operator, "true", "v:/a:ro", "v:/b").sentence("mounted twice")
    assert sh(operator, "ls -d /a /b", "v:/a:ro", "v:/b:ro").ok() == "/a\n/b\n"
    create(operator, "w")
    sh(operator, "true", "v:/a", "w:/a").sentence("granted twice")


def test_documents_name_volumes(operator):
    create(operator)
    doc = operator.run("--no-policy", "--volume-name", "v:/data", "--print-doc", "--", "sh", "-c", "echo x >/data/x").ok()
    assert json.loads(doc)["volumes"] == [{"access": "rw", "cell": "/data", "name": "v"}]
    operator.run("-q", "--doc", operator.file("doc.json", doc)).ok()
    assert show(operator)["entries"] == 1
    bad = json.loads(doc)
    bad["volumes"][0]["access"] = "overlay"
    operator.run("--doc", operator.file("bad.json", json.dumps(bad))).sentence("volumes[0].access")


def policy_file(operator, *volumes, **how):
    return operator.file("volumes.yaml", json.dumps({"version": 1, "volumes": list(volumes), **how}))


def test_policies_name_volumes(operator):
    create(operator, "v")
    create(operator, "w")
    word = secrets.token_hex(8)
    file = policy_file(operator, "v:/data", "w:/more:ro")
    assert operator.run("-q", "-p", file, "--", "sh", "-c", f"echo {word} >/data/f; touch /more/g; ls /more").err.count("Read-only") == 1
    assert sh(operator, "cat /data/f", "v:/data:ro").ok() == f"{word}\n"
    # The command line takes precedence.
    done = operator.run("-q", "-p", file, "--volume-name", "v:/own:ro", "--", "sh", "-c", "cat /own/f; ls -d /data /more")
    assert (done.out, "'/data'" in done.err) == (f"{word}\n/more\n", True), done
    one = operator.file("one.yaml", 'version: 1\nvolumes: "v:/data:ro"\n')
    assert operator.run("-q", "-p", one, "--", "cat", "/data/f").ok() == f"{word}\n"
    # A document of it has each volume once.
    doc = json.loads(operator.run("-p", file, "--print-doc", "--", "sh", "-c", "cat /data/f").ok())
    assert doc["volumes"] == [{"access": "rw", "cell": "/data", "name": "v"}, {"access": "ro", "cell": "/more", "name": "w"}]
    assert operator.run("-q", "--doc", operator.file("doc.json", json.dumps(doc))).ok() == f"{word}\n"


@pytest.mark.parametrize("volumes, said", [
    (["v"], "NAME:PATH"), (["v:/a", "v:/a:ro"], "two at '/a'"), (["v:/proc/x"], "its own /proc"), ([], "a list"),
    (["v@s:/a:rw"], "read-only"), (["none:/a"], "no volume 'none'"), ([1], "NAME:PATH")])
def test_policies_that_name_no_volumes(operator, volumes, said):
    create(operator)
    operator.run("-p", policy_file(operator, *volumes), "--", "true").sentence(said)


def test_the_nearest_policy_names_the_volumes(operator):
    create(operator, "near")
    create(operator, "far")
    operator.file("far.yaml", 'version: 1\nvolumes: "far:/far"\n')
    file = operator.file("near.yaml", 'version: 1\nextends: far.yaml\nvolumes: "near:/near"\n')
    done = operator.run("-q", "-p", file, "--", "sh", "-c", "ls -d /near; ls -d /far")
    assert done.out == "/near\n" and "'/far'" in done.err
    file = operator.file("only.yaml", "version: 1\nextends: far.yaml\n")
    assert operator.run("-q", "-p", file, "--", "ls", "-d", "/far").ok() == "/far\n"


def test_a_found_policy_gives_no_volume(operator):
    """A stranger could name it."""
    create(operator)
    sh(operator, "echo mine >/data/f").ok()
    project = operator.folder("project", {"cloister.yaml": 'version: 1\nvolumes: "v:/data"\n'})
    operator.run("-w", project, "--", "sh", "-c", "cat /data/f").sentence("'v'", "not named", "-p", "--no-policy")
    named = operator.run("-q", "-w", project, "-p", project / "cloister.yaml", "--", "cat", "/data/f")
    assert named.ok() == "mine\n"


def test_registered_agents_have_the_volumes_of_their_policy(operator):
    create(operator)
    word = secrets.token_hex(8)
    policy(operator, "p", volumes=["v:/data"])
    agent(operator, "a", f"echo {word} >/data/f", policy="p")
    dispatch(operator, "a").ok()
    assert sh(operator, "cat /data/f", "v:/data:ro").ok() == f"{word}\n"


# ---- limits ---------------------------------------------------------------------

def test_the_size_holds(operator):
    create(operator, "v", "--size", str(SIZE))
    fill = "dd if=/dev/zero of=/data/{} bs=64k 2>&1 | grep -o 'No space left on device'"
    assert sh(operator, fill.format("a")).ok() == "No space left on device\n"
    assert SIZE - 65536 <= show(operator)["bytes"] <= SIZE
    # Also over several cells, for small files and for changed ones.
    sh(operator, "truncate -s 1M /data/a; rm /data/a; echo x >/data/b; " + fill.format("c") + "; true").ok()
    assert show(operator)["bytes"] <= SIZE
    sh(operator, "rm -f /data/*").ok()
    for number in range(3):
        sh(operator, f"dd if=/dev/zero of=/data/{number} bs=64k count=32 2>/dev/null; true").ok()
        assert show(operator)["bytes"] <= SIZE
    assert show(operator)["bytes"] >= SIZE - 65536


def test_the_number_of_files_holds(operator):
    most = SIZE // 4096 + 256
    create(operator, "v", "--size", str(SIZE))
    for number in range(3):
        said = operator.python("import os\nos.chdir('/data')\ntry:\n"
                               f"    for i in range({most + 500}): open(f'{number}.{{i}}', 'x').close()\n"
                               "except OSError as e:\n    print(e.strerror)", "-q", "--no-policy", "--volume-name", "v:/data").ok()
        assert said == "No space left on device\n"
        listed = volume(operator, "list", "--json")
        assert ("are dropped" in listed.err) == (number == 2)
        entries = json.loads(listed.out)[0]["entries"]
        assert min(number + 1, 2) * (most - 4) <= entries <= 2 * most
    # A full volume can still be emptied.
    for number in range(2):
        sh(operator, f"rm /data/{number}.*").ok()
    assert show(operator)["entries"] == 0


def test_one_file_with_many_names_counts_once(operator):
    create(operator, "v", "--size", str(2 * SIZE))
    sh(operator, "dd if=/dev/zero of=/data/a bs=1M count=2 2>/dev/null; for i in 1 2 3 4 5 6; do ln /data/a /data/$i; done").ok()
    assert 2 << 20 <= show(operator)["bytes"] < 3 << 20
    assert sh(operator, "stat -c %h /data/a; echo x >>/data/1", "v:/data").ok() == "7\n"


def test_holes_take_no_room(operator):
    create(operator, "v", "--size", str(SIZE))
    sh(operator, "truncate -s 3T /data/huge; echo end >>/data/huge").ok()
    assert show(operator)["bytes"] < 65536
    assert sh(operator, "stat -c %s /data/huge; tail -c 4 /data/huge", "v:/data:ro").ok() == f"{(3 << 40) + 4}\nend\n"


def test_two_volumes_have_limits_of_their_own(operator):
    create(operator, "v", "--size", "1M")
    create(operator, "w", "--size", "2M")
    sh(operator, "dd if=/dev/zero of=/a/f bs=64k 2>/dev/null; dd if=/dev/zero of=/b/f bs=64k 2>/dev/null; true", "v:/a", "w:/b").ok()
    assert (1 << 20) - 65536 <= show(operator, "v")["bytes"] <= 1 << 20
    assert (2 << 20) - 65536 <= show(operator, "w")["bytes"] <= 2 << 20


# ---- hostile contents -----------------------------------------------------------

def test_hostile_contents(operator):
    canary = operator.file("canary", "untouched")
    create(operator)
    operator.python(
        "import os, socket, stat\n"
        "os.chdir('/data')\n"
        f"os.symlink({str(canary)!r}, 'link'); os.symlink('/', 'root'); os.symlink('../../../..', 'up'); os.symlink('loop', 'loop')\n"
        "open(b'line\\nbreak', 'w').close(); open(b'\\xff\\x1b[2J', 'w').close(); open('--all', 'w').close()\n"
        "os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket')\n"
        "open('suid', 'w').close(); os.chmod('suid', 0o755); os.mkdir('locked'); open('locked/in', 'w').close(); os.chmod('locked', 0)\n"
        "os.mkdir('files'); open('done', 'w').close(); open('volume', 'w').write('{}')\n"
        "os.mkdir('.cloister-x.tmp')\n"
        "d = os.open('.', os.O_RDONLY)\n"
        "for i in range(200):\n"
        "    os.mkdir('n' * 200, dir_fd=d); d = os.open('n' * 200, os.O_RDONLY, dir_fd=d)\n",
        "-q", "--no-policy", "--volume-name", "v:/data").ok()
    for name in ("v", "w"):
        seen = sh(operator, "cd /data; stat -c '%a %F' suid; readlink link; ls locked; ls -b | grep break; test -e fifo || test -e socket "
                  "|| echo none; cat volume", f"{name}:/data").ok()
        assert seen == f"755 regular empty file\n{canary}\nin\nline\\nbreak\nnone\n{{}}", seen
        if name == "v":
            volume(operator, "clone", "v", "w").ok()
    volume(operator, "remove", "v", "w").ok()
    assert canary.read_text() == "untouched" and trees(operator) == [] and os.listdir(folder(operator) / "names") == []


def test_what_is_on_the_disk_is_harmless(operator):
    create(operator)
    sh(operator, "cp /bin/true /data/t; chmod 777 /data/t; chmod 1777 /data; mkdir /data/d; chmod 1777 /data/d").ok()
    at = folder(operator) / "trees" / show(operator)["tree"]
    for path in at.rglob("*"):
        st = path.lstat()
        assert st.st_uid == operator.uid and stat.S_IMODE(st.st_mode) & 0o7000 == 0, path
    for path in (at, *at.parents):
        if path == operator.base:
            break
        if path != folder(operator).parent.parent:
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert sh(operator, "grep ' /data ' /proc/mounts", "v:/data").ok().count("nosuid,nodev") == 1
    assert sh(operator, "grep ' /data ' /proc/mounts", "v:/data:ro").ok().count("ro,nosuid,nodev") == 1


def test_many_files(operator):
    create(operator, "v", "--size", "512M")
    sh(operator, "mkdir /data/d; cd /data/d; seq 1 30000 | xargs touch").ok()
    assert show(operator)["entries"] == 30001
    sh(operator, "rm /data/d/1; echo x >/data/d/2").ok()
    assert show(operator)["entries"] == 30000
    volume(operator, "remove", "v").ok()
    assert trees(operator) == []


# ---- snapshots and clones ---------------------------------------------------------

def test_snapshot_and_restore(operator):
    create(operator)
    sh(operator, "echo one >/data/f; echo keep >/data/k").ok()
    assert volume(operator, "snapshot", "v@good").ok() == "v@good\n"
    sh(operator, "echo two >/data/f; rm /data/k; echo evil >/data/e").ok()
    assert sh(operator, "cd /data; cat *", "v@good:/data").ok() == "keep\none\n".replace("keep\none", "one\nkeep")
    volume(operator, "restore", "v@good").ok()
    assert sh(operator, "cd /data; ls; cat f; echo three >f", "v:/data").ok() == "f\nk\none\n"
    assert sh(operator, "cat /data/f", "v@good:/data").ok() == "one\n"
    volume(operator, "snapshot", "v@good").sentence("already")
    label = volume(operator, "snapshot", "v").ok()
    assert re.fullmatch(r"v@\d{8}-\d{6}\n", label)
    volume(operator, "remove", label.strip()).ok()
    volume(operator, "remove", label.strip()).sentence("has no snapshot")
    assert [s["label"] for s in show(operator)["snapshots"]] == ["good"]
    volume(operator, "restore", "v").sentence("say which snapshot")


def test_clone(operator):
    create(operator, "v", "--size", "3M", "--ttl", "1h")
    sh(operator, "echo one >/data/f").ok()
    volume(operator, "snapshot", "v@s").ok()
    sh(operator, "echo two >/data/f").ok()
    volume(operator, "clone", "v", "w").ok()
    volume(operator, "clone", "v@s", "x").ok()
    volume(operator, "clone", "v", "w").sentence("already")
    volume(operator, "clone", "none", "y").sentence("there is no volume 'none'")
    sh(operator, "echo three >/data/f", "w:/data").ok()
    assert [sh(operator, "cat /data/f", f"{name}:/data:ro").ok() for name in "vwx"] == ["two\n", "three\n", "one\n"]
    cloned = show(operator, "w")
    assert cloned["size"] == 3 << 20 and cloned["ttl_ms"] == 3600000 and cloned["snapshots"] == []
    # The copies go on when the first is gone.
    volume(operator, "remove", "v").ok()
    assert sh(operator, "cat /data/f", "x:/data:ro").ok() == "one\n"


def test_restore_waits_for_the_writer(operator):
    create(operator)
    volume(operator, "snapshot", "v@s").ok()
    writer = hold(operator, "v:/data")
    volume(operator, "restore", "v@s").sentence("a cell writes to the volume 'v'")
    let_go(writer)
    volume(operator, "restore", "v@s").ok()


def test_the_list(operator):
    assert json.loads(volume(operator, "list", "--json").ok()) == []
    create(operator, "b", "--size", "2M")
    create(operator, "a", "--ttl", "2h")
    assert [v["name"] for v in json.loads(volume(operator, "list", "--json").ok())] == ["a", "b"]
    rows = volume(operator, "list").ok().splitlines()
    assert rows[0].split()[:3] == ["VOLUME", "BYTES", "SIZE"] and [row.split()[0] for row in rows[1:]] == ["a", "b"]
    volume(operator, "show", "none").sentence("there is no volume 'none'")
    volume(operator, "create", "a").sentence("already")
    volume(operator, "create", "c", "--size", "1K").sentence("64K")
    volume(operator, "create", "c", "--ttl", "0s").sentence("greater than 0")
    volume(operator, "create", "../c").sentence("cannot be the name")
    volume(operator, "list", "--size", "1M").sentence("has no option")
    volume(operator, "turn", "a").sentence("has no 'turn'")


def test_a_damaged_description(operator):
    create(operator, "a")
    create(operator, "b")
    (folder(operator) / "names/a/volume").write_text("{")
    listed = volume(operator, "list")
    assert listed.status == 0 and "damaged" in listed.out and "is damaged" in listed.err
    volume(operator, "remove", "a").ok()
    assert [v["name"] for v in json.loads(volume(operator, "list", "--json").ok())] == ["b"]


def test_the_operators_timeline(operator):
    create(operator)
    sh(operator, "echo x >/data/x").ok()
    volume(operator, "snapshot", "v@s").ok()
    volume(operator, "clone", "v", "w").ok()
    volume(operator, "restore", "v@s").ok()
    volume(operator, "remove", "v", "w").ok()
    lines = (operator.base / "data/audit/operator.jsonl").read_text().splitlines()
    events = [e["type"] for e in (json.loads(line).get("event") for line in lines) if e and e["type"].startswith("volume.")]
    assert events == ["volume.created", "volume.changed", "volume.snapshot", "volume.cloned", "volume.restored", "volume.removed",
                      "volume.removed"]
    operator.cloister("audit", "verify").ok()


# ---- time to live -----------------------------------------------------------------

def set_back(operator, name, seconds):
    """As if NAME had been used SECONDS earlier."""
    file = folder(operator) / "names" / name / "volume"
    known = json.loads(file.read_text())
    known["used"] -= seconds * 1000
    file.write_text(json.dumps(known, sort_keys=True, separators=(",", ":")))


def test_time_to_live(operator):
    create(operator, "v", "--ttl", "1h")
    create(operator, "w")
    set_back(operator, "v", 3500)
    set_back(operator, "w", 10 ** 8)
    assert json.loads(volume(operator, "prune", "--json").ok())["removed"] == []
    # A use begins it again.
    sh(operator, "true").ok()
    set_back(operator, "v", 3500)
    assert not show(operator)["expired"]
    set_back(operator, "v", 3601)
    assert show(operator)["expired"]
    sh(operator, "true").sentence("the time to live of the volume 'v' is over")
    assert json.loads(volume(operator, "prune", "--json").ok())["removed"] == ["v"]
    assert [v["name"] for v in json.loads(volume(operator, "list", "--json").ok())] == ["w"]


@pytest.mark.parametrize("mount", ["v:/data", "v:/data:ro"])
def test_a_volume_in_use_does_not_expire(operator, mount):
    create(operator, "v", "--ttl", "1h")
    cell = hold(operator, mount)
    set_back(operator, "v", 10 ** 6)
    assert json.loads(volume(operator, "prune", "--json").ok())["removed"] == []
    let_go(cell)
    if mount == "v:/data":      # the time of its end counts
        assert json.loads(volume(operator, "prune", "--json").ok())["removed"] == []
    else:
        assert json.loads(volume(operator, "prune", "--json").ok())["removed"] == ["v"]


# ---- the end of processes ----------------------------------------------------------

def test_a_killed_supervisor_leaves_the_volume_as_it_was(operator):
    create(operator)
    sh(operator, "echo one >/data/f").ok()
    cell = operator.start("-q", "--no-policy", "--volume-name", "v:/data", "--", "sh", "-c", "echo two >/data/f; echo x >/data/g; echo done; "
                          "sleep 1000", stdout=-1)
    read_until(cell.stdout.fileno(), b"done\n")
    started = descendants_of(cell.pid)
    cell.kill()
    cell.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in started), "the cell is gone")
    assert sh(operator, "cat /data/f; ls /data", "v:/data").ok() == "one\nf\n"


def test_a_killed_cell_keeps_its_changes(operator):
    create(operator)
    id = operator.detach("--no-policy", "--volume-name", "v:/data", "--", "sh", "-c", "echo two >/data/f; echo done; sleep 1000")
    wait_until(lambda: "done" in operator.cloister("logs", id).out, "it has written")
    operator.cloister("kill", id).ok()
    operator.cloister("wait", id)
    assert sh(operator, "cat /data/f", "v:/data:ro").ok() == "two\n"


def stopped_at(operator, calls, *words):
    """Runs `cloister volume WORDS`, and kills it at its CALLSth change of the disk; False if it came to its end."""
    names = "renameat,renameat2,linkat,mkdirat,unlinkat,fchmod,fsync,syncfs,openat"
    done = operator.do("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={names}", "-e",
                       f"inject={names}:signal=KILL:when={calls}", operator.program, "volume", *words)
    return done.status in (-signal.SIGKILL, 128 + signal.SIGKILL)


@only_root
@pytest.mark.parametrize("act", ["settle", "snapshot", "clone", "restore", "remove", "create"])
def test_killed_at_any_moment(operator, act):
    """Each change is there or is not, and the next command clears what is left."""
    words = {"settle": ["list"], "snapshot": ["snapshot", "v@new"], "clone": ["clone", "v", "w"], "restore": ["restore", "v@s"],
             "remove": ["remove", "v"], "create": ["create", "w"]}[act]
    kills = 0
    for calls in range(20, 400, 7) if act == "settle" else range(6, 400, 3):
        volume(operator, "remove", "v")
        volume(operator, "remove", "w")
        volume(operator, "prune").ok() if kills else None
        create(operator)
        sh(operator, "mkdir /data/d; cd /data; for i in 1 2 3 4; do echo $i >d/$i; done; echo old >f").ok()
        volume(operator, "snapshot", "v@s").ok()
        sh(operator, "rm -r /data/d; mkdir /data/d; echo 9 >/data/d/9; echo new >/data/f; chmod 0 /data/f").ok()
        if act != "settle":
            volume(operator, "list").ok()
        if not stopped_at(operator, calls, *words):
            break
        kills += 1
        names = {v["name"] for v in json.loads(volume(operator, "list", "--json").ok())}
        assert names in ({"v"}, {"v", "w"}) or (act == "remove" and not names), names
        for name in sorted(names):
            seen = sh(operator, "cd /data; chmod 600 f 2>/dev/null; find . -type f | sort; cat f 2>/dev/null; true", f"{name}:/data").ok()
            new, old = "./d/9\n./f\nnew\n", "./d/1\n./d/2\n./d/3\n./d/4\n./f\nold\n"
            assert seen == new or (act == "restore" and seen == old) or (act == "create" and name == "w" and seen == ""), (name, seen)
        volume(operator, "prune").ok()
        left = trees(operator)
        assert not any(name.startswith(".") for name in left + os.listdir(folder(operator) / "names")), left
    assert kills >= 3, kills


def test_without_the_room_it_is_refused_or_whole(operator):
    """A description that cannot be written changes nothing."""
    create(operator)
    os.chmod(folder(operator) / "names/v", 0o500)
    if operator.is_root:
        pytest.skip("root may write there")
    volume(operator, "snapshot", "v@s").sentence("'v'")
    os.chmod(folder(operator) / "names/v", 0o700)
    assert show(operator)["snapshots"] == []


def test_purge_knows_volumes(operator):
    create(operator)
    assert "volumes, their snapshots, and caches" in operator.cloister("purge").err + operator.cloister("purge").out
    assert tree(folder(operator))


@pytest.mark.parametrize("limit, kept", [("-Sn", 3), ("-n", 1)])
def test_deep_folders_do_not_spoil_a_volume(operator, limit, kept):
    """Each folder on the way down takes descriptors.  Changes that cannot be kept at all are dropped, and the volume stays."""
    def few(*words):
        return operator.do("/bin/sh", "-c", f'ulimit {limit} 900; exec "$@"', "sh", operator.program, *words)

    create(operator)
    for _ in range(3):
        few("run", "-q", "--no-policy", "--volume-name", "v:/data", "--", "sh", "-c", "cd /data; "
            "for i in $(seq 254); do mkdir -p d; cd -P d || exit 1; done; echo line >>bottom").ok()
    few("volume", "snapshot", "v@s").ok()
    few("volume", "restore", "v@s").ok()
    bottom = next((folder(operator) / "trees" / show(operator)["tree"]).rglob("bottom"))
    assert bottom.read_text() == kept * "line\n"
