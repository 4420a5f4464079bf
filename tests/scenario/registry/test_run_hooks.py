"""Options of `run` for programs that start cells: chosen ids, values and input from files, setups,
results, and streams that are kept apart."""
import json
import os
import signal
import subprocess

import pytest

from operators import SECONDS, end, only_root, read_until, wait_until

STREAM_MAX = 64 << 20
ID = "abcd2345"


def entry(operator, id=ID):
    return operator.state / f"{id}."


def ended(operator, id=ID):
    return next((c for c in operator.cells("-a") if c["cell"] == id and c["state"] == "ended"), None)


def dispatch(operator, *words, id=ID):
    """A cell as a dispatch starts it, to its end; its exit status."""
    operator.kept.add(id)
    assert operator.run("-d", "--id", id, "--keep", "--streams", *words).ok() == f"{id}\n"
    return operator.cloister("wait", id).status


def printed(operator, stream="stdout"):
    """The kept output of a stream: nothing, not even a file, until something comes."""
    try:
        return (entry(operator) / stream).read_bytes()
    except FileNotFoundError:
        return b""


def steps(operator, id=ID):
    return [json.loads(line) for line in (entry(operator, id) / "steps.jsonl").read_text().splitlines()]


# ---- ids -------------------------------------------------------------------------

def test_id_is_used_once(operator):
    assert operator.run("--id", ID, "--", "sh", "-c", "echo $CLOISTER_CELL").ok() == f"{ID}\n"
    assert operator.names(operator.state) == []             # in the foreground nothing is left
    assert dispatch(operator, "--", "true") == 0
    operator.run("--id", ID, "--", "true").sentence(ID, "already")
    assert ended(operator)["status"] == 0
    operator.cloister("discard", ID).ok()
    assert dispatch(operator, "--", "false") == 1


def test_id_of_a_running_cell_is_refused(operator):
    operator.kept.add(ID)
    operator.run("-d", "--id", ID, "--", "sleep", "1000").ok()
    pids = operator.pids(ID)
    for words in [(), ("-d",)]:
        operator.run(*words, "--id", ID, "--", "true").sentence(ID, "already")
    assert operator.pids(ID) == pids and operator.cell(ID)["state"] == "running"


def test_many_claim_one_id(operator):
    """Of many starts at the same time one runs, and the others touch nothing of it."""
    out = operator.folder("marks")
    operator.kept.add(ID)
    starts = [operator.start("-d", "--keep", "--id", ID, "-v", f"{out}:/marks", "--", "sh", "-c",
                             f"echo >/marks/{n}; sleep 1000", stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) for n in range(12)]
    told = [(p.communicate(timeout=SECONDS)[0], p.returncode) for p in starts]
    assert sorted(told) == sorted([(f"{ID}\n".encode(), 0)] + [(b"", 125)] * 11)
    wait_until(lambda: os.listdir(out), "it runs")
    assert operator.cell(ID)["state"] == "running" and len(operator.running()) == 1
    operator.cloister("kill", ID).ok()
    assert len(os.listdir(out)) == 1


def test_tombstone_keeps_an_id_from_starting(operator):
    """Somebody who gave a cell up has made its entry; a supervisor that comes late does nothing."""
    operator.folder(f"state/{ID}.").chmod(0o1700)
    operator.kept.add(ID)
    operator.sh("true")                                     # clears what was left behind
    mark = operator.folder("mark")
    operator.run("-d", "--id", ID, "-v", f"{mark}:/m", "--", "touch", "/m/ran").sentence(ID)
    assert os.listdir(mark) == [] and operator.names(entry(operator)) == []


def test_kept_entry_outlives_its_supervisor(operator):
    operator.kept |= {ID, "abcd2346"}
    operator.run("-d", "--id", ID, "--keep", "--streams", "--", "sh", "-c", "echo so far; sleep 1000").ok()
    operator.run("-d", "--id", "abcd2346", "--", "sleep", "1000").ok()
    wait_until(lambda: printed(operator), "it printed")
    for id in (ID, "abcd2346"):
        end(operator.cell(id)["supervisor"])
    wait_until(lambda: not operator.cells(), "they died")
    wait_until(lambda: operator.sh("true") and not operator.running(), "it was cleared")
    assert (entry(operator) / "stdout").read_text() == "so far\n"
    assert not (entry(operator) / "record").exists()
    assert not entry(operator, "abcd2346").exists()
    operator.run("--id", ID, "--", "true").sentence(ID)


# ---- values and input ------------------------------------------------------------

def test_env_file(operator):
    file = operator.file("lines", "# no value\nA=1\n\nB=x=y z\nC=\nA=2\n")
    script = 'echo "$A|$B|${C-unset}|$D"'
    assert operator.sh(script, "--env-file", file, "-e", "D=4").ok() == "2|x=y z||4\n"
    assert operator.sh(script, "-e", "A=0", "--env-file", file).ok() == "2|x=y z||\n"
    assert operator.sh(script, "--env-file", file, "-e", "A=9").ok() == "9|x=y z||\n"


def test_env_file_as_env_writes_it(operator):
    values = {"A": "two\nlines", "B": "#x", "C": ""}
    data = operator.do("env", "-i", *(f"{k}={v}" for k, v in values.items()), "env", "-0", binary=True).out
    file = operator.file("nul", data)
    assert operator.sh('printf "%s|" "$A" "$B" "${C-unset}"', "--env-file", file).ok() == "two\nlines|#x||"


@pytest.mark.parametrize("data", [b"A=1\nsecret-value\n", b"A=1\n=secret-value\n", b"1A=secret-value",
                                  b"A=1\0secret-value\0", b"A B=secret-value\n"])
def test_env_file_malformed(operator, data):
    """No message contains text that could be a value."""
    file = operator.file("bad", data)
    told = operator.run("--env-file", file, "--", "true").sentence(file, "NAME=VALUE")
    assert "secret-value" not in told


def test_an_invalid_env_file(operator):
    operator.run("--env-file", operator.home / "none", "--", "true").sentence("none")
    operator.run("--env-file", operator.home, "--", "true").sentence("home")
    operator.run("--env-file", operator.file("large", "A=" + "x" * (300 << 10)), "--", "true").sentence("large")


def test_input_is_a_file(operator):
    data = os.urandom(300_000)
    file = operator.file("input", data)
    assert dispatch(operator, "--input", file, "--", "sh", "-c", "cat; cat >&2") == 0
    assert (entry(operator) / "stdout").read_bytes() == data
    assert printed(operator, "stderr") == b""
    assert operator.do(operator.program, "run", "--input", file, "--", "cat", binary=True).out == data


def test_an_invalid_input(operator):
    os.mkfifo(operator.base / "fifo")
    operator.own(operator.base / "fifo")
    for name in ("fifo", "home", "none"):
        operator.run("-d", "--input", operator.base / name, "--", "true").sentence(name)
    assert operator.names(operator.state) == []


# ---- output ----------------------------------------------------------------------

def test_a_silent_agent_leaves_no_stream_files(operator):
    assert dispatch(operator, "--", "true") == 0
    assert operator.names(entry(operator)) == ["events.jsonl", "record", "steps.jsonl"]
    assert operator.cloister("logs", ID).ok() == ""


def test_streams_are_kept_apart(operator):
    assert dispatch(operator, "--", "sh", "-c", "echo out; echo err >&2; printf more") == 0
    assert (entry(operator) / "stdout").read_text() == "out\nmore"
    assert (entry(operator) / "stderr").read_text() == "err\n"
    for words in (ID,), ("-f", ID):
        told = operator.cloister("logs", *words)
        assert (told.ok(), told.err) == ("out\nmore", "err\n")


def test_streams_have_a_limit(operator):
    """The beginning is kept, and the agent is not held up by the rest."""
    over = STREAM_MAX + (3 << 20)
    assert dispatch(operator, "--", "sh", "-c", f"head -c {over} /dev/zero; echo end >&2; exit 3") == 3
    assert (entry(operator) / "stdout").stat().st_size == STREAM_MAX
    assert (entry(operator) / "stderr").read_text() == "end\n"
    assert operator.names(entry(operator)) == ["events.jsonl", "record", "stderr", "stdout", "steps.jsonl", "times"]


def test_streams_followed(operator):
    operator.kept.add(ID)
    operator.run("-d", "--id", ID, "--streams", "--", "sh", "-c",
                 "echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo two").ok()
    follower = operator.spawn(operator.program, "logs", "-f", ID, stdout=subprocess.PIPE)
    read_until(follower.stdout.fileno(), b"one\n")
    assert operator.cloister("exec", ID, "touch", "/tmp/go").status in (0, 125)
    assert follower.communicate(timeout=SECONDS)[0] == b"two\n" and follower.returncode == 0


def test_streams_followed_before_there_is_one(operator):
    operator.kept.add(ID)
    operator.run("-d", "--id", ID, "--streams", "--", "sh", "-c",
                 "until [ -e /tmp/go ]; do sleep 0.02; done; echo first").ok()
    assert printed(operator) == b""
    follower = operator.spawn(operator.program, "logs", "-f", ID, stdout=subprocess.PIPE)
    assert operator.cloister("exec", ID, "touch", "/tmp/go").status in (0, 125)
    assert follower.communicate(timeout=SECONDS)[0] == b"first\n" and follower.returncode == 0


# ---- setups ----------------------------------------------------------------------

SETUP = """#!/bin/sh
echo "$1$NAME $(pwd) $(id -u)"; cat; echo told >&2
echo "$NAME" >>/home/agent/done
"""


def test_setups_run_before_the_agent(operator):
    caps = operator.folder("caps", {"one.sh": SETUP, "two.sh": SETUP.replace("$NAME", "two")})
    for file in caps.iterdir():
        file.chmod(0o755)
    words = ("--setup", "/caps/one.sh", "--setup", "/caps/two.sh", "-v", f"{caps}:/caps:ro", "-e", "NAME=x",
             "--input", operator.file("input", "the agent's\n"), "--",
             "sh", "-c", "echo and so:; cat; cat /home/agent/done")
    assert dispatch(operator, *words) == 0
    want = "x /home/agent 1000\ntwo /home/agent 1000\nand so:\nthe agent's\nx\ntwo\n"
    assert (entry(operator) / "stdout").read_text() == want
    assert (entry(operator) / "stderr").read_text() == "told\ntold\n"
    assert [(s["event"], s.get("path"), s.get("status")) for s in steps(operator)] == [
        ("setup.ran", "/caps/one.sh", 0), ("setup.ran", "/caps/two.sh", 0), ("agent.started", None, None)]
    told = operator.run(*words)
    assert (told.ok(), told.err) == (want, "told\ntold\n")


@pytest.mark.parametrize("script, why", [
    ("exit 3", "failed with 3"), ("kill -9 $$", "failed with 137"),
])
def test_setup_that_fails_ends_the_cell(operator, script, why):
    caps = operator.folder("caps", {"bad": f"#!/bin/sh\necho trying\n{script}\n"})
    (caps / "bad").chmod(0o755)
    words = ("-v", f"{caps}:/caps:ro", "--setup", "/bin/true", "--setup", "/caps/bad", "--setup", "/bin/true",
             "--", "echo", "never")
    assert dispatch(operator, *words) == 125
    assert ended(operator)["cause"] == f"setup /caps/bad {why}"
    assert (entry(operator) / "stdout").read_text() == "trying\n"
    assert [s.get("path") for s in steps(operator)] == ["/bin/true", "/caps/bad"]
    told = operator.run("-q", *words)
    assert (told.status, told.out, told.err) == (125, "trying\n", f"cloister: setup /caps/bad {why}\n")


def test_an_invalid_setup(operator):
    """A path is one in the cell: a program that exists only outside is not found."""
    outside = operator.file("outside", "#!/bin/sh\n")
    outside.chmod(0o755)
    for path in "/none", outside:
        operator.run("-d", "--setup", path, "--", "true").sentence(f"setup {path} failed", "No such file")
    operator.run("--setup", "setup.sh", "--", "true").sentence("absolute")
    operator.run("-t", "--setup", "/bin/true", "--", "true").sentence("terminal")


def test_agent_that_cannot_run_after_a_setup(operator):
    assert dispatch(operator, "--setup", "/bin/true", "--", "no-such-command") == 127
    assert "no-such-command" in ended(operator)["cause"]


WAITING = ("--setup", "/caps/wait", "--", "true")


@pytest.fixture
def in_setup(operator):
    """A cell whose setup waits, and ignores requests to end."""
    caps = operator.folder("caps", {"wait": "#!/bin/sh\ntrap 'echo told' TERM\necho ready\n"
                                            "while :; do sleep 0.02; done\n"})
    (caps / "wait").chmod(0o755)
    operator.kept.add(ID)
    operator.run("-d", "--id", ID, "--keep", "--streams", "-v", f"{caps}:/caps:ro", *WAITING).ok()
    wait_until(lambda: printed(operator), "it runs")
    return operator


def test_cell_is_the_operators_during_a_setup(in_setup):
    assert in_setup.cell(ID)["state"] == "running"
    if in_setup.is_root:            # others may have no cgroup to do it with
        in_setup.cloister("freeze", ID).ok()
        assert in_setup.cell(ID)["state"] == "frozen"
        in_setup.cloister("thaw", ID).ok()
    assert in_setup.cloister("exec", ID, "echo", "in").ok() == "in\n"
    in_setup.cloister("stop", "-t", "1s", ID).ok()
    cell = ended(in_setup)
    assert (cell["status"], cell["cause"]) == (137, "an operator ended it")
    assert "told\n" in (entry(in_setup) / "stdout").read_text()


def test_time_limit_counts_setups(operator):
    assert dispatch(operator, "--time", "1s", "--setup", "/usr/bin/yes", "--", "true") == 137
    assert "--time" in ended(operator)["cause"]


def test_signal_reaches_a_setup(operator):
    caps = operator.folder("caps", {"wait": "#!/bin/sh\ntrap 'echo told; exit 9' INT\necho ready\n"
                                            "while :; do sleep 0.02; done\n"})
    (caps / "wait").chmod(0o755)
    process = operator.start("-v", f"{caps}:/caps:ro", *WAITING, stdout=subprocess.PIPE)
    read_until(process.stdout.fileno(), b"ready\n")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=SECONDS)[0] == b"told\n" and process.returncode == 125


# ---- results ---------------------------------------------------------------------

def test_overlay_volume(operator):
    """Changes to it are kept apart, within the disk limit, and applied only by name."""
    out = operator.folder("out", {"was": "1\n"})
    work = operator.folder("work", {"file": "1\n"})
    script = "cat was; echo 2 >was; echo new >new; ln -s /etc/passwd link; echo 2 >file"
    cell = operator.change(work, script.replace("was", "/out/was").replace(">new", ">/out/new")
                           .replace(" link", " /out/link"), "-v", f"{out}:/out:overlay")
    assert sorted(os.listdir(out)) == ["was"] and (out / "was").read_text() == "1\n"
    kept = operator.state / f"{cell}." / "changes" / "0"
    if not kept.exists() or not (kept / "new").exists():
        kept = operator.state / f"{cell}." / "changes" / "1"
    assert sorted(os.listdir(kept)) == ["link", "new", "was"] and (kept / "link").is_symlink()
    shown = operator.cloister("diff", "--name-status", cell).ok()
    assert f"M {out}/was\n" in shown and f"A {out}/new\n" in shown and "M file\n" in shown
    told = operator.cloister("apply", cell)
    assert told.ok() == "M file\n" and "3 changes to overlay volumes" in told.err
    assert (work / "file").read_text() == "2\n" and (out / "was").read_text() == "1\n"
    assert operator.cloister("apply", cell, out / "new").ok() == f"A {out}/new\n"
    assert (out / "new").read_text() == "new\n" and (out / "was").read_text() == "1\n"
    operator.cloister("discard", cell).ok()
    assert sorted(os.listdir(out)) == ["new", "was"]


def test_overlay_volume_is_within_the_disk_limit(operator):
    out = operator.folder("out")
    done = operator.sh("head -c 20M /dev/zero >/out/large; echo $?", "-v", f"{out}:/out:overlay", "--disk", "4M")
    cell = next(name for name in operator.names(operator.state))
    operator.kept.add(cell.split(".")[0])
    assert done.out == "1\n" and "No space left" in done.err
    assert (operator.state / cell / "changes" / "0" / "large").stat().st_size <= 4 << 20


def test_an_invalid_overlay_volume(operator):
    file = operator.file("file", "x")
    operator.run("-v", f"{file}:/out:overlay", "--", "true").sentence("not a folder")
    operator.run("-v", f"{operator.home}:/out:over", "--", "true").sentence("overlay")


@only_root
def test_folders_that_data_and_state_share(operator):
    """Root's registry is where its cells' records are; what it lends cannot be changed."""
    tree = operator.folder("state/registry/trees/ab", {"file": "lent\n"})
    lower = operator.folder("state/dispatches/x/out")
    assert operator.sh("cat /caps/file", "-v", f"{tree}:/caps:ro", "-v", f"{lower}:/out:overlay").ok() == "lent\n"
    for grant in (f"{tree}:/caps", f"{tree.parent}:/caps:ro", f"{lower}:/out:rw", f"{operator.state}:/x:ro"):
        operator.run("-v", grant, "--", "true").sentence("cannot be granted")
    operator.host(f"rm -r {operator.state}/registry {operator.state}/dispatches")


def test_no_cell_sees_the_data_folder(operator):
    """A grant that contains it shows an empty folder. Only lent files beneath it can be granted."""
    operator.folder("data/registry/trees/ab", {"file": "lent\n"})
    operator.folder("data/registry", {"db.sqlite": "x"})
    data = operator.base / "data"
    words = ("--", "sh", "-c", "ls -A $0; ls -A $0/registry", "/x/data")
    for mode in "ro", "rw", "overlay":
        told = operator.run("-v", f"{operator.base}:/x:{mode}", *words)
        assert told.out == "" and "No such file" in told.err, told
    if operator.is_root:            # to others "/" is the cell's own root
        mount = next(p for p in data.parents if p.is_mount())
        assert operator.run("-v", f"{mount}:/m:ro", "--", "ls", "-A", f"/m/{data.relative_to(mount)}").ok() == ""
    assert operator.sh("cat /caps/file", "-v", f"{data}/registry/trees/ab:/caps:ro").ok() == "lent\n"
    for path in data, data / "registry", data / "registry/db.sqlite":
        operator.run("-v", f"{path}:/x:ro", "--", "true").sentence("cannot be granted")
    nested = {"CLOISTER_STATE_DIR": str(operator.folder("data/state"))}
    (operator.base / "data/state").chmod(0o700)
    told = operator.run("-v", f"{operator.base}:/x:ro", *words, env=nested)
    assert told.out == "" and "No such file" in told.err, told


@only_root
def test_own_folders_on_other_mounts_are_not_in_the_way(operator):
    """Root's grants bring along what is on the one mount: nothing else of cloister is to be hidden."""
    operator.folder("data/registry", {"db.sqlite": "x"})
    base, elsewhere = operator.base, operator.folder("elsewhere")
    told = operator.do("unshare", "-m", "--propagation", "private", "sh", "-ec", f"""
        export CLOISTER_RUNTIME_DIR={elsewhere}/runtime
        mount -t tmpfs none {elsewhere}
        {operator.program} run -v {base}:/x:ro -- find /x/elsewhere /x/data
        umount {elsewhere}""")
    assert told.ok() == "/x/elsewhere\n/x/data\n"


@only_root
def test_own_folders_mounted_where_they_are(operator):
    """As services of systemd have them (ReadWritePaths=): on another mount, and all the same in the grant."""
    operator.folder("data/registry", {"db.sqlite": "x"})
    base = operator.base
    told = operator.do("unshare", "-m", "--propagation", "private", "sh", "-ec", f"""
        cd {base}; for own in runtime state data; do mount --bind $own $own; done
        {operator.program} run -v {base}:/x:ro -- find /x/runtime /x/state /x/data""")
    assert told.ok() == "/x/runtime\n/x/state\n/x/data\n"


# ---- who -------------------------------------------------------------------------

def test_principal_and_chain_are_on_record(operator):
    assert dispatch(operator, "--principal", "Jürgen <j@a.example>", "--chain", "lead/helper", "--", "true") == 0
    cell = ended(operator)
    assert (cell["principal"], cell["chain"]) == ("Jürgen <j@a.example>", "lead/helper")


@pytest.mark.parametrize("words, part", [
    (("--id", "abc"), "8 letters"), (("--id", "abcd.345"), "8 letters"), (("--id", "../abcde"), "8 letters"),
    (("--id", ID, "--name", "x"), "--name"), (("--streams",), "-d"),
    (("--principal", ""), "--principal"), (("--principal", "a\nb"), "--principal"),
    (("--principal", "x" * 257), "--principal"),
    (("--chain", ""), "--chain"), (("--chain", "a//b"), "--chain"), (("--chain", "A"), "--chain"),
    (("--chain", "/".join("a" * 17)), "--chain"),
    (sum([("--setup", "/bin/true")] * 65, ()), "64"),
])
def test_impossible_combinations(operator, words, part):
    operator.run(*words, "--", "true").sentence(part)
