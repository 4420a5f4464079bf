"""Targets on Amazon's Elastic Container Service, as tests/scenario/fake_ecs.py stands in for it."""
import json

import pytest

import dispatches
import fake_ecs
import postgres_store
from fake_sts import Sts
from operators import wait_until
from service import Service

pytestmark = [
    pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql"),
    pytest.mark.skipif(fake_ecs.SigV4Auth is None, reason="there is no python3-botocore"),
]
STORE = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:store"


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def ecs(operator, machines):
    ecs = fake_ecs.FakeEcs(machines)
    ecs.secrets = {STORE: operator.env["CLOISTER_STORE"]}
    operator.env.update(ecs.env())
    yield ecs
    ecs.end()
    assert not ecs.wrong, ecs.wrong


@pytest.fixture
def serve(operator):
    started = []

    def serve():
        started.append(Service(operator))
        return started[-1]
    yield serve
    for service in started:
        if service.process.poll() is None:
            service.stop()


def target(operator, own=None, **members):
    own = {"cluster": "work", "subnets": ["subnet-1"], "securityGroups": ["sg-1"], "executionRole": "arn:aws:iam::1:role/e",
           "logGroup": "workers", **(own or {})}
    dispatches.register(operator, "target", "far", **{"engine": "ecs", "image": "worker:1", "idle": "1s", "ecs": own,
                                                      "secrets": {"CLOISTER_STORE": STORE}, **members})


def words_of(run):
    override, = run["overrides"]["containerOverrides"]
    return override["command"]


def status(operator):
    return json.loads(operator.cloister("target", "show", "--json", "far").ok())["status"] or {}


def asked(operator):
    return dispatches.detach(operator, "--target", "far", "worker")


def test_from_zero_to_a_result_and_back(operator, ecs, serve):
    dispatches.agent(operator, "worker", "echo done")
    target(operator, cpus=2, memory="4G", slots=1, workers={"max": 5})
    serve()
    ids = [asked(operator) for _ in range(5)]
    for id in ids:
        assert dispatches.await_over(operator, id)["state"] == "finished"
    wait_until(lambda: status(operator) == {"workers": 0, "wanted": 0, "reserved": 0, "free": 0, "error": None, "since": None}, "they leave")
    definition, = ecs.definitions.values()
    assert (definition["cpu"], definition["memory"], definition["requiresCompatibilities"]) == ("2048", "4096", ["FARGATE"])
    run = next(iter(ecs.tasks.values()))["said"]
    # Fargate allows no namespaces.
    assert words_of(run)[:4] == ["--pool", "far", "--boundary", "process"]
    assert run["networkConfiguration"]["awsvpcConfiguration"] == {"subnets": ["subnet-1"], "securityGroups": ["sg-1"],
                                                                  "assignPublicIp": "DISABLED"}
    assert "postgres" not in json.dumps([run, definition]) and ecs.asked.count("RegisterTaskDefinition") == 1


def test_a_service_that_starts_anew(operator, ecs, serve):
    dispatches.agent(operator, "worker", "while :; do sleep 1; done")
    target(operator)
    service = serve()
    id = asked(operator)
    dispatches.await_state(operator, id, "running")
    service.process.kill()
    service.process.wait()
    before = len(ecs.asked)
    serve()
    wait_until(lambda: "ListTasks" in ecs.asked[before:] and status(operator)["workers"] == 1, "it finds the task")
    assert len(ecs.tasks) == 1 and ecs.asked.count("RegisterTaskDefinition") == 1
    operator.cloister("dispatches", "cancel", id).ok()


@pytest.mark.parametrize("other", [{"image": "evil:1"}, {"entryPoint": ["/evil"]}], ids=lambda other: next(iter(other)))
def test_a_revision_that_somebody_else_has_added(operator, ecs, serve, other):
    dispatches.agent(operator, "worker", "true")
    target(operator)
    service = serve()
    dispatches.await_over(operator, asked(operator))
    wait_until(lambda: all(task["worker"].over() for task in ecs.tasks.values()), "its worker leaves")
    service.stop()
    true, = ecs.revisions.values()
    ecs.RegisterTaskDefinition({**true, "containerDefinitions": [{**true["containerDefinitions"][0], **other}]})
    ran = len(ecs.tasks)
    serve()
    dispatches.await_over(operator, asked(operator))
    for task in list(ecs.tasks.values())[ran:]:
        container, = ecs.revisions[task["said"]["taskDefinition"]]["containerDefinitions"]
        assert container == true["containerDefinitions"][0]
    assert len(ecs.tasks) > ran


def test_a_definition_of_the_operators(operator, ecs, serve):
    dispatches.agent(operator, "worker", "true")
    ecs.definitions["mine:3"] = {"containerDefinitions": [{"name": "box", "secrets": [{"name": "CLOISTER_STORE", "valueFrom": STORE}]}]}
    target(operator, {"taskDefinition": "mine:3", "container": "box", "launchType": "EC2"}, image=None, secrets={})
    serve()
    assert dispatches.await_over(operator, asked(operator))["state"] == "finished"
    assert "RegisterTaskDefinition" not in ecs.asked
    assert "--boundary" not in words_of(next(iter(ecs.tasks.values()))["said"])


def test_a_boundary_of_the_targets_own(operator, ecs, serve):
    dispatches.agent(operator, "worker", "true")
    target(operator, boundary="namespace")
    serve()
    assert dispatches.await_over(operator, asked(operator))["state"] == "finished"
    assert words_of(next(iter(ecs.tasks.values()))["said"])[2:4] == ["--boundary", "namespace"]


@pytest.mark.parametrize("way", ["role", "program", "role of a program"])
def test_keys_of_profiles(operator, ecs, serve, way):
    """Amazon's token service gives a role's key; a program prints one."""
    role, until = "arn:aws:iam::123456789012:role/far", "2099-01-01T00:00:00Z"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del operator.env[name]
    base = ("AKBASE", "base/secret", "") if way != "program" else (ecs.key["id"], ecs.key["secret"], "")
    given = json.dumps({"Version": 1, "AccessKeyId": base[0], "SecretAccessKey": base[1], "Expiration": until})
    own = "aws_access_key_id = AKBASE\naws_secret_access_key = base/secret\n" if way == "role" else \
        f"credential_process = cat {operator.file('given', given)}\n"
    takes = "" if way == "program" else f"role_arn = {role}\nsource_profile = base\n"
    operator.file("home/.aws/config", f"[profile far]\n{takes or own}[profile base]\n{own}")
    operator.env["AWS_PROFILE"] = "far"
    sts = Sts(base, (ecs.key["id"], ecs.key["secret"], ecs.key.setdefault("token", "")), role)
    if way != "program":
        ecs.key["token"] = "of+the/role="
        sts.key = (ecs.key["id"], ecs.key["secret"], ecs.key["token"])
    operator.env["AWS_ENDPOINT_URL_STS"] = sts.url
    dispatches.agent(operator, "worker", "echo done")
    target(operator, slots=1)
    serve()
    assert dispatches.await_over(operator, asked(operator))["state"] == "finished"
    assert not sts.refused and bool(sts.asked) == (way != "program")
    sts.server.shutdown()
    sts.server.server_close()


@pytest.mark.parametrize("way", ["container", "machine"])
def test_keys_of_roles(operator, ecs, serve, way):
    dispatches.agent(operator, "worker", "true")
    ecs.key["token"] = "session/token=="
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del operator.env[name]
    if way == "container":
        operator.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = f"{ecs.url}/container"
    else:
        operator.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = ecs.url
    target(operator)
    serve()
    assert dispatches.await_over(operator, asked(operator))["state"] == "finished"


@pytest.mark.parametrize("answer, said", [
    ((400, {"__type": "AccessDeniedException", "message": "not authorized"}), "the key 'AKIDEXAMPLE' may not ecs:RunTask"),
    ((200, {"tasks": [], "failures": [{"reason": "RESOURCE:MEMORY"}]}), "starts no task: RESOURCE:MEMORY"),
    ((503, {}), "answers RunTask with 503"),
])
def test_failures(operator, ecs, serve, answer, said):
    dispatches.agent(operator, "worker", "true")
    ecs.instead = lambda action, _: answer if action == "RunTask" else None
    target(operator)
    serve()
    id = asked(operator)
    assert said in wait_until(lambda: status(operator).get("error"), "the error is known")
    ecs.instead = None
    assert dispatches.await_over(operator, id)["state"] == "finished"


def test_workers_that_cannot_start(operator, ecs, serve):
    dispatches.agent(operator, "worker", "true")
    ecs.secrets[STORE] = "postgres://me@/none?host=/nonexistent"
    target(operator)
    serve()
    asked(operator)
    assert "ended with status 125" in wait_until(lambda: status(operator).get("error"), "the error is known")
    assert len(ecs.tasks) <= 3


def test_doctor(operator, ecs):
    target(operator)
    told = json.loads(operator.cloister("doctor", "--target", "far", "--json").out)
    assert told["can_run"], told
    assert {"state": "ok", "found": "a worker there runs cells, and reaches the registry"} in told["checks"]
    ecs.secrets[STORE] = "postgres://me@/none?host=/nonexistent"
    told = json.loads(operator.cloister("doctor", "--target", "far", "--json").out)
    assert not told["can_run"] and any("cannot reach the registry" in check["found"] for check in told["checks"])
    target(operator, {"cluster": "none"})
    told = json.loads(operator.cloister("doctor", "--target", "far", "--json").out)
    assert [check["found"] for check in told["checks"]] == ["ECS in eu-west-1 has no active cluster 'none'"]
