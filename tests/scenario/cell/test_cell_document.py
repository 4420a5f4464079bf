"""One cell as a document: `run --print-doc` writes it, `run --doc` runs it, and both are the same cell."""
import hashlib
import json
import os
import secrets

import pytest

import dispatches

LEAST = {"version": 1, "command": ["true"]}
CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def printed(operator, *words, **how):
    text = operator.run("--print-doc", *words, **how).ok()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    return json.loads(text)


def doc(operator, **members):
    return operator.file(f"doc-{secrets.token_hex(4)}", json.dumps({**LEAST, **members}))


def again(operator, document):
    """The document of a cell that a document describes."""
    file = operator.file("again", json.dumps(document))
    return printed(operator, "--doc", file)


def test_a_document_is_the_same_cell(operator):
    w, shared = operator.folder("w", {"a": "1"}), operator.folder("shared", {"b": "2"})
    env = operator.file("variables", "B=from file\nA=lost\n")
    options = ["-w", f"{w}:ro", "-v", f"{shared}:/s:ro", "-e", "A=lost too", "--env-file", env, "-e", "A=x\ny",
               "--hostname", "there", "--pids", "50", "--disk", "64M", "--time", "1m", "--ttl", "50s", "--principal", "jo",
               "--chain", "a/b"]
    script = 'echo "$A|$B"; hostname; pwd; ls; cat /s/b; touch x || touch /s/x || ulimit -n'
    want = operator.sh(script, *options).ok()
    file = operator.base / "the.json"
    file.write_text(operator.run(*options, "--print-doc", "--", "sh", "-c", script).ok())
    operator.own(file)
    assert operator.run("--doc", file).ok() == want
    told = json.loads(file.read_text())
    assert told == again(operator, told)
    assert told["limits"] == {"pids": 50, "disk": 64 << 20, "time_ms": 60000, "ttl_ms": 50000}
    assert told["env"] == [{"name": "A", "value": "lost too"}, {"file": str(env)}, {"name": "A", "value": "x\ny"}]
    assert told["grants"] == [{"access": "ro", "host": str(w), "workspace": True},
                              {"access": "ro", "cell": "/s", "host": str(shared)}]
    assert (told["principal"], told["chain"], told["hostname"]) == ("jo", "a/b", "there")


def test_a_document_is_printed_again_byte_by_byte(operator):
    policy = operator.file("p.yaml", "version: 1\n# why\negress: [{allow: a.example}]\nlimits: {memory: 128M}\n")
    outer = operator.file("outer.yaml", "version: 1\negress: [{allow: '*'}]\n")
    ca, data = operator.file("ca.pem", CA), operator.file("given", "in")
    one = operator.run("-p", policy, "--within", outer, "--ca", ca, "--input", data, "--publish", "8000",
                       "--publish", "8001:80", "--root", "--profile", "nested", "-s", "K@a.example", "--setup", "/bin/true",
                       "--bandwidth", "1M", "--memory", "256M", "--cpus", "0.5", "--io", "100M", "--print-doc", "--",
                       "cat").ok()
    file = operator.file("one.json", one)
    assert operator.run("--doc", file, "--print-doc").ok() == one
    told = json.loads(one)
    assert told["limits"] == {"memory": 256 << 20, "cpus_milli": 500, "io": 100 << 20}
    assert "rate" not in told and "bandwidth: 1M" in told["policy"]["text"] and "a.example" in told["policy"]["text"]
    assert told["within"] == [{"name": str(outer), "text": outer.read_text()}]
    assert told["authorities"] == CA + "\n" and told["input"] == {"host": str(data)}
    assert told["ports"] == [{"cell": 8000}, {"cell": 80, "host": 8001}]
    assert (told["secrets"], told["setups"]) == (["K@a.example"], ["/bin/true"])
    assert (told["root"], told["profile"]) == (True, "nested")


def test_a_policy_in_one_file_is_in_the_document_unchanged(operator):
    policy = operator.file("p.yaml", "version: 1\n# why\negress: [{allow: a.example}]\n")
    told = printed(operator, "-p", policy, "--", "true")
    assert told["policy"] == {"name": str(policy), "text": policy.read_text()}
    policy.unlink()
    assert again(operator, told) == told


def test_files_that_a_policy_includes_are_in_the_document(operator):
    operator.file("base.yaml", "version: 1\negress: [{allow: base.example}]\n")
    policy = operator.file("p.yaml", "version: 1\nextends: base.yaml\negress: [{allow: own.example}]\n")
    told = printed(operator, "-p", policy, "--", "true")
    assert "base.example" in told["policy"]["text"] and "extends" not in told["policy"]["text"]
    assert again(operator, told) == told


def test_a_policy_that_is_found_is_not_for_documents(operator):
    """It counts when the document is made, and not where the document runs."""
    folder = operator.folder("f", {"cloister.yaml": "version: 1\negress: [{allow: a.example}]\n"})
    assert "a.example" in printed(operator, "--", "true", cwd=folder)["policy"]["text"]
    assert "policy" not in printed(operator, "--doc", doc(operator), cwd=folder)


def test_rules_of_a_document_decide(operator):
    told = printed(operator, "--allow", "GET a.example/**", "--", "sh", "-c", "getent hosts b.example || echo none")
    assert operator.run("--doc", operator.file("d", json.dumps(told))).ok() == "none\n"


def test_a_document_from_a_pipe(operator):
    program = operator.program
    script = f"{program} run --doc <({program} run -e A=1 --print-doc -- sh -c 'echo $A')"
    assert operator.do("bash", "-c", script).ok() == "1\n"


def test_options_of_the_start_go_with_a_document(operator):
    file = doc(operator, command=["sh", "-c", "echo $A; sleep 1000"])
    env = operator.file("e", "A=token\n")
    id = operator.run("-d", "--doc", file, "--env-file", env, "--name", "n", "-q").ok().strip()
    operator.cloister("exec", "n", "--", "true").ok()
    operator.cloister("stop", id).ok()
    assert operator.cloister("logs", id).ok() == "token\n"
    operator.cloister("discard", id).ok()
    assert "the agent runs" in operator.run("--doc", doc(operator), "--timing").err


@pytest.mark.parametrize("words, why", [
    (["-w", "."], "--workspace"), (["--memory", "1G"], "--memory"), (["--allow", "a.example"], "--allow"),
    (["--", "ls"], "ls"), (["-e", "A=1"], "--env"), (["--input", "/dev/null"], "--input")])
def test_the_document_is_the_whole_cell(operator, words, why):
    file = doc(operator)
    operator.run("--doc", file, *words).sentence("--doc", "remove", why)
    if words[0] != "--":
        operator.run(*words, "--doc", file).sentence("--doc", "remove", why)


@pytest.mark.parametrize("members, why", [
    ({"extra": 1}, "has no member 'extra'"), ({"version": 2}, "version is 2"),
    ({"env": [{"name": "A=B", "value": ""}]}, "env[0].name"), ({"env": [{"name": "1", "value": ""}]}, "variable"),
    ({"grants": [{"host": "/none", "access": "ro"}]}, "/none"),
    ({"grants": [{"host": "/etc", "cell": "/proc/x", "access": "ro"}]}, "/proc"),
    ({"grants": [{"host": "/etc/passwd", "cell": "/x", "access": "overlay"}]}, "overlay"),
    ({"grants": [{"blob": "sha256:" + "0" * 64, "cell": "/x"}]}, "sha256:000"),
    ({"input": {"blob": "sha256:" + "0" * 64}}, "sha256:000"),
    ({"policy": {"name": "p.yaml", "text": "version: 1\nnonsense: 2\n"}}, "p.yaml:2:1"),
    ({"policy": {"name": "p.yaml", "text": "version: 1\nextends: /etc/passwd\n"}}, "p.yaml:2:"),
    ({"within": [{"name": "w.yaml", "text": "x"}]}, "w.yaml:1:1"),
    ({"authorities": "text"}, "policy"), ({"secrets": ["K@a.example"]}, "policy"),
    ({"secrets": ["=="]}, "=="), ({"hostname": "a b"}, "host name"), ({"rootfs": "/none"}, "/none"),
    ({"principal": "a\nb"}, "principal"), ({"chain": "A B"}, "chain")])
def test_a_wrong_document_is_one_sentence(operator, members, why):
    operator.run("--doc", doc(operator, **members)).sentence(why)


def test_invalid_documents_are_refused(operator):
    for text in ("", "x", "[]", "{", '{"version": 1, "version": 1, "command": ["true"]}'):
        operator.run("--doc", operator.file("none", text)).sentence("none", "document")
    operator.run("--doc", operator.file("large", " " * ((16 << 20) + 1))).sentence("large")
    operator.run("--doc", operator.home).sentence("home")
    missing = operator.base / "missing"
    said = operator.run("--doc", missing).sentence("missing")
    assert said.count(str(missing)) == 1
    operator.run("--doc", doc(operator), "--doc", doc(operator)).sentence("twice")
    operator.cloister("learn", "--print-doc", "--", "true").sentence("--print-doc")


def test_no_value_of_a_secret_is_in_a_document(operator):
    key, token = f"sk-{secrets.token_hex(20)}", secrets.token_hex(20)
    operator.run("-e", f"OPENAI_API_KEY={key}", "--print-doc", "--", "true").sentence("keys", "-s")
    operator.cloister("secret", "init").ok()
    operator.cloister("secret", "add", "K", "--host", "a.example", input=token).ok()
    text = operator.run("-s", "K", "--allow", "a.example", "--env-file", operator.file("e", f"T={token}\n"),
                        "--print-doc", "--", "true").ok()
    assert token not in text and json.loads(text)["secrets"] == ["K"]
    told = operator.file("k.json", text.replace('["true"]', '["printenv","K"]'))
    said = operator.run("--doc", told).ok().strip()
    assert said and said != token


def test_a_cell_that_json_cannot_describe_has_no_document(operator):
    folder = os.fsencode(operator.base) + b"/\xff"
    os.mkdir(folder)
    operator.own(folder)
    operator.run("-v", os.fsdecode(folder) + ":/x:ro", "--print-doc", "--", "true").sentence("UTF-8")
    operator.run("-e", os.fsdecode(b"A=\xff"), "--print-doc", "--", "true").sentence("A is not UTF-8")


def test_capabilities_and_input_by_hash(operator):
    said = secrets.token_hex()
    hash = dispatches.capability(operator, "tool", {"tool.sh": f"echo {said}\n"})
    file = doc(operator, command=["sh", "/t/tool.sh"], grants=[{"blob": hash, "cell": "/t"}])
    operator.run("--doc", file).sentence(hash, "dispatch")
    dispatches.agent(operator, "user", "cat", capabilities=["tool"])
    dispatches.dispatch(operator, "user", "--input", operator.file("in", said)).ok()
    assert operator.run("--doc", file).ok() == said + "\n"
    assert again(operator, json.loads(file.read_text())) == json.loads(file.read_text())
    blob = "sha256:" + hashlib.sha256(said.encode()).hexdigest()
    with_input = doc(operator, command=["cat"], input={"blob": blob})
    assert operator.run("--doc", with_input).ok() == said
    # A changed file is refused.
    path = operator.base / "data/registry/blobs" / blob[7:9] / blob[9:]
    path.chmod(0o600)
    path.write_text("forged")
    operator.run("--doc", with_input).sentence(blob, "damaged")
    tree = operator.base / "data/registry/trees" / hash.removeprefix("sha256:") / "files"
    tree.chmod(0o700)
    (tree / "more").write_text("forged")
    operator.run("--doc", file).sentence("not what was registered", "more")
