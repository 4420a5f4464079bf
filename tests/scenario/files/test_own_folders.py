"""Cloister's own folders stay where they are, and hidden, whatever an agent does around them."""
import json
import os
import random
import secrets
import stat

import pytest

from operators import only_root, only_user

# Run in the cell: carries out operations and prints how each went.
AGENT = r"""
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def rename(a, b, flags):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), flags) < 0:
        raise OSError(ctypes.get_errno(), "rename")
def swap(a, b):
    new = f"{a}.{os.urandom(4).hex()}"
    os.symlink(b, new)
    os.replace(new, a)
does = {"rename": lambda a, b: rename(a, b, 0), "noreplace": lambda a, b: rename(a, b, 1),
        "exchange": lambda a, b: rename(a, b, 2), "rmdir": lambda a, b: os.rmdir(a),
        "unlink": lambda a, b: os.unlink(a), "link-over": swap, "mkdir": lambda a, b: os.mkdir(a)}
for verb, a, b in json.load(sys.stdin):
    try:
        does[verb](a, b)
        print(json.dumps(0), flush=True)
    except OSError as e:
        print(json.dumps(errno.errorcode[e.errno]), flush=True)
"""
OWN = ("top/.local/state/cloister", "top/.local/share/cloister", "top/run/cloister")


@pytest.fixture
def deep(operator):
    """An operator whose own folders are deep in a folder that can be granted."""
    for name in OWN:
        for i in range(1, name.count("/") + 1):
            operator.folder("/".join(name.split("/")[:i]))
    state, data, runtime = (operator.base / name for name in OWN)
    for folder in (state, data, runtime):
        operator.folder(folder.relative_to(operator.base)).chmod(0o700)
    operator.env.update({"CLOISTER_STATE_DIR": str(state), "CLOISTER_DATA_DIR": str(data),
                         "CLOISTER_RUNTIME_DIR": str(runtime)})
    operator.state, operator.runtime = state, runtime
    operator.file("agent.py", AGENT)
    for name in ("top/plain", "top/.local/plain", "top/.local/share/plain"):
        operator.folder(name)
    operator.canary = secrets.token_hex()
    operator.canaries = [operator.file(folder.relative_to(operator.base) / "ended/canary", operator.canary)
                         for folder in (state, data)]
    return operator


def identity(path):
    st = os.lstat(path)
    return st.st_ino, stat.S_IFMT(st.st_mode)


def steps(operator):
    """All folders on the way to our own, and those, with what they are."""
    found = {}
    for name in OWN:
        parts = name.split("/")
        for i in range(2, len(parts) + 1):
            path = operator.base.joinpath(*parts[:i])
            found["/".join(parts[1:i])] = identity(path)
    return found


def agent(operator, operations, *grants, options=()):
    said = operator.run("-q", *options, "-v", f"{operator.base}/agent.py:/agent.py:ro", *grants, "--",
                        "/usr/bin/python3", "/agent.py", input=json.dumps(operations))
    return [json.loads(line) for line in said.ok().splitlines()]


@pytest.mark.parametrize("seed", range(3))
def test_model(deep, seed):
    """Random operations: what is on the way cannot be changed, everything else can."""
    rng = random.Random(seed)
    way = steps(deep)
    grants = ("-v", f"{deep.base}/top:/h", "-v", f"{deep.base}/top:/again")
    plain = {"plain", ".local/plain", ".local/share/plain"}
    operations, wanted, fresh = [], [], 0
    for _ in range(150):
        verb = rng.choice(["rename", "noreplace", "exchange", "rmdir", "unlink", "link-over", "mkdir"])
        a, b = rng.choice([*way, *plain]), rng.choice([*way, *plain, "new"])
        if b == "new":
            b = f"new{fresh}"
            fresh += 1
        top, other = rng.choice(["/h", "/again"]), rng.choice(["/h", "/again"])
        operations.append((verb, f"{top}/{a}", f"{other}/{b}"))
        # Of a thing onto itself nothing becomes; the agent may remake what it removed.
        wanted.append(a != b and (a in way or (verb in ("rename", "exchange") and b in way)))
    went = agent(deep, operations, *grants)
    for operation, refused, got in zip(operations, wanted, went):
        if refused:
            assert got != 0, operation
    assert steps(deep) == way
    # Where nothing of ours is, the agent may do what it likes.
    assert agent(deep, [("mkdir", "/h/mine", ""), ("rename", "/h/mine", "/h/yours"),
                        ("rmdir", "/again/yours", "")], *grants) == [0, 0, 0]
    for canary in deep.canaries:
        assert canary.read_text() == deep.canary


@pytest.mark.parametrize("verb, to", [("rename", "/h/x"), ("exchange", "/h/plain"), ("noreplace", "/h/x"),
                                      ("rename", "/again/x"), ("link-over", "/h/plain")])
def test_a_parent_stays(deep, verb, to):
    """The folders above the cover: renaming one would leave a second cell without it."""
    way = steps(deep)
    grants = ("-v", f"{deep.base}/top:/h", "-v", f"{deep.base}/top:/again")
    ask = [(verb, f"{top}/{step}", to) for step in way for top in ("/h", "/again")]
    went = agent(deep, ask, *grants)
    assert all(got in ("EBUSY", "EISDIR", "EXDEV", "EROFS") for got in went), list(zip(ask, went))
    assert steps(deep) == way
    said = deep.run("-v", f"{deep.base}/top:/h", "--", "sh", "-c", f"grep -r {deep.canary} /h; true")
    assert deep.canary not in said.ok()


def test_a_workspace(deep):
    """At its own path, as an overlay and for writing; the first must not reach the host either."""
    way, top = steps(deep), deep.base / "top"
    for mode in ("overlay", "rw"):
        went = agent(deep, [("rename", f"{top}/.local", f"{top}/x")], "-w", f"{top}:{mode}")
        assert went in (["EBUSY"], ["EXDEV"])
    assert steps(deep) == way
    for id in {entry["cell"] for entry in deep.cells()}:
        deep.kept.add(id)


def test_a_grant_in_between(deep):
    """Another grant of what is in between, at the very place."""
    way, top = steps(deep), deep.base / "top"
    went = agent(deep, [("rename", f"{top}/.local", f"{top}/x"), ("rename", f"{top}/.local/state", f"{top}/.local/x"),
                        ("rename", "/l/state", "/l/x"), ("rmdir", "/l/share", "")],
                 "-v", f"{top}", "-v", f"{top}/.local", "-v", f"{top}/.local:/l")
    assert went == ["EBUSY"] * 4
    assert steps(deep) == way


def test_nested_cells_get_no_such_grant(deep):
    """One with mount namespaces of its own could leave the mounts behind that hold the cover."""
    top = deep.base / "top"
    deep.run("--profile", "nested", "-v", f"{top}:/h", "--", "true").sentence("nested", "own records")
    deep.run("--profile", "nested", "-v", f"{top}:/h:ro", "--", "true").ok()
    deep.run("--profile", "nested", "-v", f"{top}/plain:/h", "--", "true").ok()


def test_a_link_to_them(deep):
    """By which cloister finds them: who changes it has cloister believe another folder."""
    link = deep.base / "links/state"
    deep.folder("links")
    link.symlink_to(deep.state.parent)
    env = {"CLOISTER_STATE_DIR": str(link / "cloister")}
    deep.run("-v", f"{link.parent}:/h", "--", "true", env=env).sentence("link", "own records")
    deep.run("-v", f"{link.parent}:/h:ro", "--", "true", env=env).ok()


def test_folders_that_do_not_exist_yet(deep):
    """An agent that makes one would be its owner."""
    data = deep.base / "top/later/cloister"
    deep.run("-v", f"{deep.base}/top:/h", "--", "sh", "-c", "mkdir -p /h/later/cloister/vault; echo x "
             "> /h/later/cloister/mine; true", env={"CLOISTER_DATA_DIR": str(data)}).ok()
    assert {"vault", "mine"}.isdisjoint(os.listdir(data))


@only_root
def test_another_mount_of_them(deep):
    """Under another path it is the same folder."""
    deep.folder("other")
    script = (f"mount --bind {deep.base}/top {deep.base}/other && exec {deep.program} run -v {deep.base}/other:/h "
              f"-- sh -c 'grep -r {deep.canary} /h; mv /h/.local /h/x; true'")
    said = deep.do("unshare", "-m", "sh", "-c", script)
    assert said.status == 0 and deep.canary not in said.out
    assert "busy" in said.err
    script = script.replace(":/h ", "/.local/state/cloister:/h ")
    deep.do("unshare", "-m", "sh", "-c", script).sentence("own records")


@only_root
def test_beneath_another_mount(deep):
    """Root's grants end at mounts; the empty folder beneath one cannot be taken away either, because
    the kernel would take the mount with it."""
    script = (f"mount -t tmpfs none {deep.base}/top/.local && mkdir -p {deep.state} && "
              f"{deep.program} run -v {deep.base}/top:/h -- sh -c 'rmdir /h/.local; mv /h/.local /h/x; true'; "
              f"ls -d {deep.state}")
    said = deep.do("unshare", "-m", "sh", "-c", script)
    assert said.out == f"{deep.state}\n", said
    assert steps(deep)
