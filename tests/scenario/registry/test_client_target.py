"""The swap is in the constructor: the same four calls run here, in Docker, and on a registered engine's workers."""
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import dispatches
import postgres_store
import s3_servers
from fake_engine import FakeEngine
from operators import TREE, wait_until
from service import Service

pytestmark = pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql")
NODE = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")
LANGUAGES = {
    "javascript": ("four_lines.mjs", NODE, "import { client } from './clients/js/index.js';",
                   "import { Client } from './clients/js/index.js';\nconst client = new Client(%s);", ", target: 'local'"),
    "python": ("four_lines.py", sys.executable, "client = cloister.Client()", "client = cloister.Client(**json.loads('''%s'''))",
               ", target='local'"),
}
EITHER = pytest.mark.parametrize("language", [
    pytest.param("javascript", marks=pytest.mark.skipif(NODE is None, reason="there is no node")), "python"])


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture(scope="module", autouse=True)
def servers():
    yield
    s3_servers.stop_all()


@pytest.fixture
def far(operator, machines, tmp_path_factory):
    """The constructor's options for an engine elsewhere, and that engine.  Files go through S3."""
    server = s3_servers.server_of("s3rver", tmp_path_factory)
    store = f"s3://{s3_servers.BUCKET}/{os.urandom(4).hex()}"
    where = {"CLOISTER_BLOBS": f"{store}?endpoint=http://127.0.0.1:{server.port}&region={s3_servers.REGION}",
             "AWS_ACCESS_KEY_ID": server.id, "AWS_SECRET_ACCESS_KEY": server.secret}
    operator.env |= where

    def machine():
        made = machines()
        made.env |= where
        return made
    secret = operator.own(operator.file("secret", operator.env["CLOISTER_STORE"] + "\n"))
    # A socket's path is short.
    with tempfile.TemporaryDirectory(prefix="cloister-engine-") as folder:
        os.chmod(folder, 0o711)
        engine = FakeEngine(Path(folder) / "e.sock", machine)
        yield {"engine": "docker", "image": "worker:1", "idle": "1s", "host": f"unix://{engine.path}", "store": store,
               "secrets": {"CLOISTER_STORE": str(secret)}}, engine
        engine.end()


@pytest.fixture
def programs(operator):
    """Runs a program of the clients."""
    shutil.copytree(TREE / "clients", operator.base / "clients",
                    ignore=shutil.ignore_patterns("node_modules", "__pycache__", ".pytest_cache"))

    def run(language, text, file=None):
        name, program, *_ = LANGUAGES[language]
        return operator.do(program, operator.file(file or name, text), cwd=operator.base,
                           env={"PYTHONPATH": str(operator.base / "clients/python")})
    return run


def four_calls(language, options):
    """The four lines, with these OPTIONS of the constructor, and without a word about a target in the calls."""
    file, _, old, new, word = LANGUAGES[language]
    text = (TREE / "tests/scenario" / file).read_text()
    assert old in text and word in text
    return text.replace(old, new % json.dumps(options)).replace(word, "")


@EITHER
@pytest.mark.parametrize("place", ["local", "docker", "far"])
def test_same_calls(request, operator, engines_of, programs, language, place):
    options, engine = {"target": place}, None
    if place == "docker":
        if not operator.is_root:
            pytest.skip("the engine is root's")
        operator.env["DOCKER_HOST"] = f"unix://{engines_of('docker').socket}"
    if place == "far":
        more, engine = request.getfixturevalue("far")
        options |= more
    service = Service(operator)
    done = programs(language, four_calls(language, options)).ok()
    assert re.search(r'^\{"kind":"setup-script.ran","exitCode":0,"stdout":"hello from agora-worker\\n"\}$', done, re.M), done
    (one,) = dispatches.all_of(operator)
    assert (one["state"], one["target"]) == ("finished", "pool:far" if engine else place)
    if engine is not None:
        assert engine.most == 1
        # Again: the same version of the target, so nothing is registered twice.
        programs(language, four_calls(language, options)).ok()
        versions = service.get("/v1/targets/far/versions").ok()["items"]
        assert len(versions) == 1, versions
        wait_until(lambda: not engine.containers, "the workers leave")
    assert service.stop() == 0, service.log()


FARGATE = {"target": "fargate", "cluster": "agents", "subnets": ["subnet-1", "subnet-2"], "image": "worker:1",
           "workers": {"max": 3}}
CONTENT = {"engine": "ecs", "ecs": {"launchType": "FARGATE", "cluster": "agents", "subnets": ["subnet-1", "subnet-2"]},
           "image": "worker:1"}
BEGIN = {
    "javascript": """import {{ Client, CloisterError }} from './clients/js/index.js';
try {{ console.log(await new Client({}).dispatch({{ subagent: 'x' }}).id); }}
catch (e) {{ if (!(e instanceof CloisterError)) throw e; console.log(e.code, e.message); }}
""",
    "python": """import cloister, json
try: print(cloister.Client(**json.loads('''{}''')).dispatch(subagent="x").id)
except cloister.CloisterError as e: print(e.code, e)
""",
}


@EITHER
def test_fargate(operator, programs, language):
    """The constructor's keys are those of the registered target, and the dispatch waits for a worker of it."""
    dispatches.agent(operator, "x", "true")
    service = Service(operator)
    id = programs(language, BEGIN[language].format(json.dumps(FARGATE))).ok().strip()
    content = service.get("/v1/targets/fargate").ok()["content"]
    assert {key: content[key] for key in CONTENT} == CONTENT and content["workers"]["max"] == 3, content
    assert service.get(f"/v1/dispatches/{id}").ok()["target"] == "pool:fargate"
    service.post(f"/v1/dispatches/{id}/cancel").ok()
    assert service.stop() == 0, service.log()


@EITHER
def test_what_is_refused(operator, programs, language):
    dispatches.agent(operator, "x", "true")
    service = Service(operator, "--blobs", "s3://bucket/a/b?endpoint=http://127.0.0.1:9")
    store = service.get("/v1/store").ok()
    assert store["blobs"] == "s3://bucket/a/b"
    assert re.fullmatch(r"postgres(ql)?://[^@?]+", store["registry"]), store
    agents = service.get("/v1/store", socket=service.agents)
    assert agents.status == 404, agents.data
    for options, told in (
            ({"cluster": "c"}, "invalid a client without a target takes no 'cluster'"),
            ({"engine": "ecs"}, "invalid a client without a target takes no 'engine'"),
            ({"target": "local", "cluster": "c"}, "invalid the target 'local' is this machine, and takes no 'cluster'"),
            ({"target": "big", "cluster": "c"}, "invalid the target 'big' needs an 'engine'"),
            ({"target": "big", "engine": "nomad"}, "invalid the target 'big' needs an 'engine'"),
            ({"target": "fargate", "clutser": "c"}, "invalid "),
            ({"target": "local", "store": "s3://other/a"}, "store the service keeps everything in "),
            ({"target": "fargate", "cluster": "c", "store": "s3://bucket/a"}, "store the service keeps everything in "),
            ({"target": "nowhere"}, "invalid ")):
        done = programs(language, BEGIN[language].format(json.dumps(options))).out
        assert done.startswith(told), (options, done)
    # Nothing was registered or dispatched.
    assert service.get("/v1/targets").ok()["items"] == [] and dispatches.all_of(operator) == []
    for place in ("s3://bucket/a/b/?region=x", store["registry"], operator.env["CLOISTER_STORE"]):
        done = programs(language, BEGIN[language].format(json.dumps({"target": "nowhere", "store": place}))).out
        assert done.startswith("invalid there is no target") or "nowhere" in done, (place, done)
    assert service.stop() == 0, service.log()
