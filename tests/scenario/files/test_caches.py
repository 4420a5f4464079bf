"""Caches of packages: one cell fills a version, and others read it.  What is in them comes from agents."""
import hashlib
import json
import os
import re
import secrets
import signal
import stat

import pytest

from dispatches import agent, dispatch, policy
from operators import read_until, wait_until

HELD = "echo $CLOISTER_CELL; read line"


def cache(operator, *words, **how):
    return operator.cloister("cache", *words, **how)


def fill(operator, script, *options, name="c", kind="npm", run=("--no-policy", "-q"), **how):
    return cache(operator, "fill", name, "--kind", kind, *options, *run, "--", "sh", "-c", script, **how)


def show(operator, name="c"):
    return json.loads(cache(operator, "show", name, "--json").ok())


def current(operator, name="c"):
    return show(operator, name)["current"]


def use(operator, script, *mounts, options=()):
    return operator.sh(script, "-q", "--no-policy", *(word for mount in mounts or ["c"] for word in ("--cache", mount)), *options)


def folder(operator):
    return operator.base / "data/volumes"


def trees(operator):
    return sorted(os.listdir(folder(operator) / "trees"))


def hash_of(path):
    """As docs/caches.md defines it."""
    lines = []

    def walk(path, inner):
        for name in sorted(os.listdir(path)):
            one, rest = path + b"/" + name, inner + (b"/" if inner else b"") + name
            st = os.lstat(one)
            if stat.S_ISLNK(st.st_mode):
                what = b"l 0777 " + hashlib.sha256(os.readlink(one)).hexdigest().encode()
            elif stat.S_ISDIR(st.st_mode):
                what = b"d %04o -" % (st.st_mode & 0o777)
            else:
                with open(one, "rb") as f:
                    what = b"f %04o " % (st.st_mode & 0o777) + hashlib.sha256(f.read()).hexdigest().encode()
            lines.append(what + b" " + rest + b"\0")
            if stat.S_ISDIR(st.st_mode):
                walk(one, rest)
    walk(os.fsencode(path), b"")
    return hashlib.sha256(b"".join(lines)).hexdigest()


def files_of(operator, version):
    return folder(operator) / "trees" / version["tree"] / "files"


def hold(operator, *mounts):
    """A cell that has these caches until its input ends."""
    process = operator.start("-q", "--no-policy", *(word for mount in mounts for word in ("--cache", mount)), "--", "sh", "-c", HELD,
                             stdin=-1, stdout=-1)
    read_until(process.stdout.fileno(), b"\n")
    return process


def let_go(process):
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait() == 0


# ---- use ------------------------------------------------------------------------

def test_what_one_cell_fills_others_read(operator):
    word = secrets.token_hex(8)
    done = fill(operator, f"echo {word} >$npm_config_cache/f; mkdir -p /cache/c/d/e; ln -s ../f /cache/c/d/l; id -un")
    assert done.ok() == "agent\n"
    version, = show(operator)["versions"]
    assert version["hash"][:12] in done.err and version["entries"] == 4 and version["hosts"] == []
    assert use(operator, "cat /cache/c/d/l; stat -c %U /cache/c/f; echo $npm_config_cache").ok() == f"{word}\nagent\n/cache/c\n"
    assert use(operator, "cat /srv/f; echo $npm_config_cache", "c:/srv").ok() == f"{word}\n/srv\n"
    assert operator.sh("ls /cache; env", "-q", "--no-policy").out.find("npm_config_cache") < 0
    assert operator.cells("-a") == []
    row = cache(operator, "list").ok().splitlines()[1].split()
    assert row[:3] == ["c", "npm", version["hash"][:12]]
    shown = cache(operator, "show", "c").ok()
    assert version["cell"] in shown and re.search(r"by uid \d+, in cell", shown) and "none" in shown


def test_nothing_that_a_reader_does_lasts(operator):
    fill(operator, "echo good >/cache/c/f; mkdir /cache/c/d; echo good >/cache/c/d/g").ok()
    before = show(operator)["versions"]
    spoil = "echo bad >/cache/c/f; rm -r /cache/c/d; echo bad >/cache/c/new; cat /cache/c/f; ls /cache/c"
    assert use(operator, spoil).ok() == "bad\nf\nnew\n"
    reader = hold(operator, "c")
    assert use(operator, spoil).ok() == "bad\nf\nnew\n"
    let_go(reader)
    assert use(operator, "cat /cache/c/f /cache/c/d/g; ls /cache/c").ok() == "good\ngood\nd\nf\n"
    after = show(operator)["versions"]
    assert after == before and hash_of(files_of(operator, after[0])) == after[0]["hash"]
    assert operator.cells("-a") == [] and "in_use" in after[0] and not after[0]["in_use"]


def test_the_first_record_has_the_hash(operator):
    fill(operator, "echo x >/cache/c/f").ok()
    done = use(operator, "echo $CLOISTER_CELL")
    boot = next(e for e in map(json.loads, operator.cloister("events", "--json", done.ok().strip()).ok().splitlines())
                if e["type"] == "cell.boot")
    grant, = [g for g in boot["grant"]["grants"] if "cache" in g]
    assert (grant["access"], grant["cache"], grant["cell"]) == ("cache", "c@" + current(operator), "/cache/c")


def test_the_hash_is_of_all_that_is_in_it(operator):
    script = r"""cd /cache/c; printf 'a\0b' >bytes; : >empty; mkdir -m 700 d; mkdir d/sub; echo x >"d/$(printf 'a\nb')"
        ln -s '../../nowhere' d/link; ln bytes hard; echo '#!' >run; chmod 755 run; echo y >.hidden
        printf 1 >"$(printf '\377\376')"; printf 2 >"f 0644 x"; truncate -s 1M hole"""
    fill(operator, script).ok()
    first = show(operator)["versions"][0]
    assert first["hash"] == hash_of(files_of(operator, first))
    seen = {first["hash"]}
    for more in ("echo z >.hidden", "chmod 700 run", "mv d/sub d/sub2", "ln -sf other d/link", "printf 'a\\0c' >bytes"):
        fill(operator, script + "\n" + more).ok()
        shown = show(operator)
        now = next(v for v in shown["versions"] if v["hash"] == shown["current"])
        assert now["hash"] not in seen and now["hash"] == hash_of(files_of(operator, now)), more
        seen.add(now["hash"])
    cache(operator, "verify").ok()


def test_holes_count(operator):
    """To hash them costs as much as to hash bytes."""
    fill(operator, "truncate -s 1T /cache/c/hole").sentence("hash 'hole'", "too large")


def test_the_same_files_are_the_same_version(operator):
    fill(operator, "echo x >/cache/c/f").ok()
    first = show(operator)
    done = fill(operator, "echo x >/cache/c/f")
    assert "the same as before" in done.err and show(operator)["versions"] == first["versions"]
    assert len(trees(operator)) == 1


def test_each_filling_begins_empty(operator):
    fill(operator, "echo poison >/cache/c/old").ok()
    assert fill(operator, "ls /cache/c; echo x >/cache/c/new").ok() == ""
    assert use(operator, "ls /cache/c").ok() == "new\n"


def test_go_back(operator):
    fill(operator, "echo good >/cache/c/f").ok()
    good = current(operator)
    fill(operator, "echo bad >/cache/c/f").ok()
    bad = current(operator)
    assert use(operator, "cat /cache/c/f").ok() == "bad\n"
    assert use(operator, "cat /cache/c/f", "c@" + good[:8]).ok() == "good\n"
    cache(operator, "use", "c", good[:8]).ok()
    assert use(operator, "cat /cache/c/f").ok() == "good\n"
    assert use(operator, "cat /cache/c/f", "c@" + bad).ok() == "bad\n"
    cache(operator, "remove", "c@" + good[:8]).sentence("cache use")
    cache(operator, "remove", "c@" + bad[:10]).ok()
    assert [v["hash"] for v in show(operator)["versions"]] == [good] and len(trees(operator)) == 1
    for word in (bad[:8], "short", "", "0" * 65, good[:8].upper()):
        assert cache(operator, "use", "c", word).status != 0
    assert current(operator) == good
    types = [json.loads(line)["event"]["type"] for line in (operator.base / "data/audit/operator.jsonl").read_text().splitlines()
             if '"cache.' in line]
    assert types == ["cache.filled", "cache.filled", "cache.used", "cache.removed"]


def test_documents_and_policies_name_caches(operator):
    fill(operator, "echo mine >/cache/c/f").ok()
    doc = operator.run("--no-policy", "--cache", f"c@{current(operator)[:8]}:/srv/c", "--print-doc", "--", "cat", "/srv/c/f").ok()
    assert json.loads(doc)["caches"] == [{"cell": "/srv/c", "name": "c@" + current(operator)[:8]}]
    assert operator.run("-q", "--doc", operator.file("doc.json", doc)).ok() == "mine\n"
    one = operator.file("one.yaml", "version: 1\ncache: c\n")
    assert operator.run("-q", "-p", one, "--", "cat", "/cache/c/f").ok() == "mine\n"
    doc = operator.run("-p", one, "--print-doc", "--", "cat", "/cache/c/f").ok()
    assert json.loads(doc)["caches"] == [{"name": "c"}]
    assert operator.run("-q", "--doc", operator.file("doc.json", doc)).ok() == "mine\n"
    both = operator.file("both.yaml", 'version: 1\ncache: ["c:/other"]\n')
    assert operator.run("-q", "-p", both, "--", "cat", "/other/f").ok() == "mine\n"
    assert operator.run("-q", "-p", both, "--cache", "c", "--", "sh", "-c", "cat /cache/c/f; ls -d /other").out == "mine\n"
    for value, said in (("[]", "a list"), ("{}", "a list"), ("a@b", "NAME"), ("[c, c]", "twice"), ("none", "no cache 'none'")):
        operator.run("-p", operator.file("bad.yaml", f"version: 1\ncache: {value}\n"), "--", "true").sentence(said)
    project = operator.folder("project", {"cloister.yaml": "version: 1\ncache: c\n"})
    operator.run("-w", project, "--", "cat", "/cache/c/f").sentence("'c'", "not named", "-p", "--no-policy")
    policy(operator, "p", cache="c")
    agent(operator, "a", "cat /cache/c/f", policy="p")
    assert "mine" in dispatch(operator, "a").ok()


@pytest.mark.parametrize("word, said", [
    ("", "NAME"), ("c:", "NAME"), ("c:x", "NAME"), ("c@", "NAME"), ("c@12", "NAME"), ("../c", "NAME"), ("c@00000000", "no version"),
    ("none", "no cache 'none'"), ("c:/proc/x", "its own /proc"), ("c:/a/../b", "not a plain path"), ("c" * 33, "NAME")])
def test_what_is_no_cache(operator, word, said):
    fill(operator, "echo x >/cache/c/f").ok()
    use(operator, "true", word).sentence(said)


def test_two_caches(operator):
    fill(operator, "echo 1 >/cache/c/f").ok()
    fill(operator, "echo 2 >/cache/py/wheels/f", name="py", kind="pip").ok()
    fill(operator, "echo 3 >/cache/other/f", name="other").ok()
    assert use(operator, "cat /cache/c/f /cache/py/wheels/f; echo $PIP_FIND_LINKS", "c", "py").ok() == "1\n2\n/cache/py/wheels\n"
    use(operator, "true", "c", "other").sentence("both of the kind npm")
    use(operator, "true", "c", "c:/x").sentence("twice")
    use(operator, "true", "c:/x", "py:/x").sentence("granted twice")


def test_a_variable_of_the_operator_s_takes_precedence(operator):
    fill(operator, "echo x >/cache/c/f").ok()
    assert use(operator, "echo $npm_config_cache", options=["-e", "npm_config_cache=/tmp/mine"]).ok() == "/tmp/mine\n"


# ---- filling that fails ---------------------------------------------------------

def test_a_failed_filling_changes_nothing(operator):
    fill(operator, "echo good >/cache/c/f").ok()
    before, left = show(operator), trees(operator)
    done = fill(operator, "echo bad >/cache/c/f; exit 7")
    assert done.status == 7 and "stays as it was" in done.err
    fill(operator, "true").sentence("left nothing")
    fill(operator, "echo x >/cache/c/f; sleep 600", "--time", "1s")
    fill(operator, "echo x >/cache/c/f", kind="pip").sentence("of the kind npm")
    assert cache(operator, "fill", "c", "--kind", "npm", "-p", "/nonexistent", "--", "true").status != 0
    assert {**show(operator), "used": 0} == {**before, "used": 0}
    cache(operator, "prune").ok()
    assert trees(operator) == left and os.listdir(folder(operator) / "names") == []


@pytest.mark.parametrize("words, said", [
    ([], "which cache"), (["--kind", "npm"], "which cache"), (["c"], "no command"), (["c", "--", "true"], "--kind"),
    (["c", "--kind", "gem", "--", "true"], "'gem'"), (["c/d", "--kind", "npm", "--", "true"], "'c/d'"),
    (["c", "--kind", "npm", "--detach", "--", "true"], "--detach"), (["c", "--kind", "npm", "--size", "1", "--", "true"], "--size"),
    (["c", "--kind", "npm", "--ttl", "0s", "--", "true"], "--ttl"), (["c", "--kind", "npm", "--json", "--", "true"], "--json"),
    (["c", "--kind", "npm", "--no-such-option", "--", "true"], "no-such-option")])
def test_what_is_no_filling(operator, words, said):
    cache(operator, "fill", *words).sentence(said)
    assert cache(operator, "list", "--json").ok() == "[]\n"


@pytest.mark.parametrize("whom", ["command", "supervisor"])
def test_a_killed_filling_changes_nothing(operator, whom):
    fill(operator, "echo good >/cache/c/f").ok()
    before = show(operator)
    process = operator.spawn(operator.program, "cache", "fill", "c", "--kind", "npm", "--no-policy", "-q", "--", "sh", "-c",
                             "echo bad >/cache/c/f; echo $CLOISTER_CELL; read line", stdin=-1, stdout=-1)
    cell = read_until(process.stdout.fileno(), b"\n").decode().strip()
    os.kill(process.pid if whom == "command" else operator.cell(cell)["supervisor"], signal.SIGKILL)
    process.wait()
    wait_until(lambda: operator.cell(cell) is None, "the cell has ended")
    assert show(operator) == before
    assert use(operator, "cat /cache/c/f").ok() == "good\n"
    cache(operator, "prune").ok()
    assert len(trees(operator)) == 1 and os.listdir(folder(operator) / "names") == []


def test_two_fillings_at_once(operator):
    """The last one that ends is current, and each is whole."""
    both = [operator.spawn(operator.program, "cache", "fill", "c", "--kind", "npm", "--no-policy", "-q", "--", "sh", "-c",
                           f"echo {n} >/cache/c/a; echo in; read line; echo {n} >/cache/c/b", stdin=-1, stdout=-1) for n in (1, 2)]
    for one in both:
        read_until(one.stdout.fileno(), b"\n")
    # A command that clears up meanwhile leaves both.
    cache(operator, "prune").ok()
    for one in both:
        one.stdin.write(b"\n")
        one.stdin.close()
        assert one.wait() == 0
        shown = show(operator)
        assert use(operator, "cat /cache/c/a /cache/c/b | sort -u | wc -l").ok() == "1\n"
    assert len(shown["versions"]) == 2
    cache(operator, "verify").ok()


# ---- hostile fillings ------------------------------------------------------------

def test_links_devices_sockets_and_odd_names(operator):
    outside = operator.folder("outside", {"secret": "of the host\n"})
    script = r"""cd /cache/c; ln -s """ + str(outside) + r""" out; ln -s / root; ln -s ../../../../.. up; ln -s loop loop
        python3 -Ic 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
        mkfifo pipe; mknod device c 1 3 2>/dev/null; mkdir "$(printf 'a\nb')"; echo x >"$(printf 'a\nb')/$(printf '\033[31m')"
        echo x >-rf; echo x >'...'; ln -s $(printf '%04000d' 1) long; echo good >f; chmod 6755 f || chmod 755 f"""
    fill(operator, script).ok()
    version = show(operator)["versions"][0]
    assert version["hash"] == hash_of(files_of(operator, version))
    kinds = {stat.S_IFMT(os.lstat(os.path.join(at, name)).st_mode) for at, folders, files in os.walk(files_of(operator, version))
             for name in folders + files}
    assert kinds == {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
    assert os.lstat(files_of(operator, version) / "f").st_mode & 0o7000 == 0
    done = use(operator, "cat /cache/c/out/secret; ls /cache/c/root/cache; cat /cache/c/f")
    assert "of the host" not in done.out and done.out == "c\ngood\n"
    cache(operator, "verify").ok()
    assert "\033" not in cache(operator, "show", "c").ok()
    cache(operator, "remove", "c").ok()
    assert trees(operator) == [] and (outside / "secret").read_text() == "of the host\n"


def test_limits_hold(operator):
    big = "dd if=/dev/zero of=/cache/c/{} bs=64k 2>&1 | grep -o 'No space left on device'"
    assert fill(operator, big.format("a"), "--size", "4M").ok() == "No space left on device\n"
    assert show(operator)["versions"][0]["bytes"] <= 4 << 20
    # The size stays that of the cache.
    assert fill(operator, big.format("b")).ok() == "No space left on device\n"
    many = """import os
for n in range(100000):
    try: os.close(os.open(f"/cache/c/{n}", os.O_CREAT | os.O_WRONLY))
    except OSError as e: print(e.strerror); break
"""
    done = cache(operator, "fill", "c", "--kind", "npm", "--no-policy", "-q", "--", "python3", "-Ic", many)
    assert done.ok() == "No space left on device\n" and show(operator)["versions"][-1]["entries"] < 2000
    cache(operator, "verify").ok()


def test_100000_files(operator):
    many = """import os
for d in range(100):
    os.mkdir(f"/cache/c/{d}")
    for n in range(1000): os.close(os.open(f"/cache/c/{d}/{n}", os.O_CREAT | os.O_WRONLY))
"""
    cache(operator, "fill", "c", "--kind", "npm", "--no-policy", "-q", "--", "python3", "-Ic", many, seconds=300).ok()
    assert show(operator)["versions"][0]["entries"] == 100100
    assert use(operator, "ls /cache/c/99 | wc -l").ok() == "1000\n"


def test_folders_that_are_nested_deep(operator):
    deep = """import os
os.chdir("/cache/c")
for n in range(3000):
    os.mkdir("d"); os.chdir("d")
"""
    done = cache(operator, "fill", "c", "--kind", "npm", "--no-policy", "-q", "--", "python3", "-Ic", deep)
    assert done.status != 0 and "cloister: " in done.err, done
    assert cache(operator, "list", "--json").ok() == "[]\n"
    cache(operator, "prune").ok()
    assert trees(operator) == []


def test_a_file_that_cannot_be_read(operator):
    fill(operator, "echo x >/cache/c/f; chmod 0 /cache/c/f").sentence("'f'", "cannot hash")
    assert cache(operator, "list", "--json").ok() == "[]\n"


def test_the_command_is_printed_safely(operator):
    fill(operator, "echo x >/cache/c/f # \033[31m\n: " + "y" * 500).ok()
    shown = cache(operator, "show", "c").ok()
    assert "\033" not in shown and "??[31m"[1:] in shown and max(map(len, shown.splitlines())) < 400


# ---- verify, prune and remove ---------------------------------------------------

@pytest.mark.parametrize("how", ["content", "name", "mode", "more", "link"])
def test_changed_files_are_found(operator, how):
    fill(operator, "echo 1 >/cache/c/f; ln -s f /cache/c/l").ok()
    version = show(operator)["versions"][0]
    cache(operator, "verify", "c").ok()
    files = files_of(operator, version)
    as_owner = operator.do
    if how == "content":
        as_owner("sh", "-c", f"echo 2 >{files}/f").ok()
    elif how == "name":
        as_owner("mv", files / "f", files / "g").ok()
    elif how == "mode":
        as_owner("chmod", "755", files / "f").ok()
    elif how == "more":
        as_owner("sh", "-c", f"echo x >{files}/.cloister-x.tmp").ok()
    else:
        as_owner("ln", "-sfn", "g", files / "l").ok()
    done = cache(operator, "verify", "--json")
    assert done.status == 1 and json.loads(done.out) == [{"name": "c", "hash": version["hash"], "sound": False}]
    assert "not those that it was made of" in done.err
    assert cache(operator, "verify", "c@" + version["hash"][:8]).status == 1


def test_what_cells_use_is_not_removed(operator):
    fill(operator, "echo 1 >/cache/c/f").ok()
    old = current(operator)
    reader = hold(operator, "c")
    fill(operator, "echo 2 >/cache/c/f").ok()
    assert show(operator)["in_use"] and "in use" in cache(operator, "list").ok()
    assert cache(operator, "prune").ok() == "removed 0 caches, 0 versions and 0B\n"
    cache(operator, "remove", "c").sentence("a cell uses the cache 'c'")
    cache(operator, "remove", "c@" + old[:8]).sentence("a cell uses the version")
    let_go(reader)
    said = json.loads(cache(operator, "prune", "--json").ok())
    assert (said["removed"], said["versions"]) == ([], 1) and len(trees(operator)) == 1
    cache(operator, "remove", "c").ok()
    assert trees(operator) == []
    cache(operator, "show", "c").sentence("no cache 'c'")


def test_volumes_and_caches_do_not_see_each_other(operator):
    operator.cloister("volume", "create", "c").ok()
    fill(operator, "echo x >/cache/c/f").ok()
    assert json.loads(operator.cloister("volume", "list", "--json").ok())[0]["entries"] == 0
    operator.cloister("volume", "prune").ok()
    operator.cloister("volume", "remove", "c").ok()
    assert use(operator, "cat /cache/c/f").ok() == "x\n"
    operator.sh("true", "--no-policy", "--volume-name", "c:/c").sentence("no volume 'c'")


def test_time_to_live(operator):
    fill(operator, "echo x >/cache/c/f", "--ttl", "1h").ok()
    shown = show(operator)
    assert shown["ttl_ms"] == 3600000 and not shown["expired"]
    file = folder(operator) / "caches/c"
    file.write_text(re.sub(r'"used":\d+', '"used":1000', file.read_text()))
    assert show(operator)["expired"]
    use(operator, "true").sentence("time to live", "fill it again")
    assert json.loads(cache(operator, "prune", "--json").ok())["removed"] == ["c"]
    assert trees(operator) == []


def test_at_most_16_versions(operator):
    fill(operator, "echo first >/cache/c/f").ok()
    first = current(operator)
    for n in range(16):
        fill(operator, f"echo {n} >/cache/c/f").ok()
    shown = show(operator)
    assert len(shown["versions"]) == 16 and first not in [v["hash"] for v in shown["versions"]] and len(trees(operator)) == 16


def test_a_damaged_description(operator):
    fill(operator, "echo x >/cache/c/f").ok()
    fill(operator, "echo x >/cache/d/f", name="d").ok()
    (folder(operator) / "caches/c").write_text("{}")
    use(operator, "true").sentence("damaged", "cloister cache remove c")
    assert "damaged" in cache(operator, "list").err and "\nd " in cache(operator, "list").ok()
    # A damaged one may name any tree, so no tree is removed before it is gone.
    cache(operator, "prune")
    assert len(trees(operator)) == 2
    cache(operator, "remove", "c").ok()
    assert len(trees(operator)) == 1
