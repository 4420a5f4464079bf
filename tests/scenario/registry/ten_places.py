"""Where the ten scenarios of test_ten.py run: a service, and what runs its dispatches."""
import json
import os
import signal

import fake_ecs
import fake_engine
import swarm_lab
from dispatches import detach, register
from forward import Forward
from operators import BUILD, wait_until
from ports import free_port
from service import Service
from test_link import Worker, joined


def give_secret(operator):
    operator.cloister("secret", "add", "TOKEN", "--host", "allowed.example", input="the-real-value-of-it").ok()


class Place:
    """A service, and what runs its dispatches: itself, or a worker with folders of its own."""
    is_contained = False            # the worker is a container, with which its cells end

    def __init__(self, operator, words, machine=None, options=()):
        self.operator, self.words, self.machine, self.options = operator, words, machine or operator, options
        give_secret(operator)
        self.service = Service(operator, *(["--workers", "127.0.0.1:0"] if machine else []))
        self.worker = joined(operator, machine, *options) if machine else None

    def runs(self, name, *words):
        return detach(self.operator, *self.words, *words, name)

    def restart(self):
        """What drives the dispatch is killed, and started again."""
        if self.worker is None:
            self.service.stop(signal.SIGKILL)
            self.service = Service(self.operator)
            return
        self.worker.end(signal.SIGKILL)
        self.worker = Worker(self.machine, *self.options)
        self.worker.says("connected to the service")

    def kill_supervisor(self, cell):
        os.kill(self.machine.cell(cell)["supervisor"], signal.SIGKILL)

    def run_another(self):
        """A cell beside that of the dispatch."""
        self.machine.run("--", "true").ok()

    def close(self):
        if self.worker is not None:
            assert self.worker.end() == 0
        assert self.service.stop() == 0, self.service.log()


class EcsPlace(Place):
    """A service whose target has tasks of tests/scenario/fake_ecs.py run workers: from none, for each scenario."""

    def __init__(self, operator, machines):
        self.tasks, self.ecs = [], fake_ecs.FakeEcs(machines, run=self.start)
        # Both have their key in the same variables.
        self.ecs.key |= {"id": operator.env["AWS_ACCESS_KEY_ID"], "secret": operator.env["AWS_SECRET_ACCESS_KEY"]}
        names = "CLOISTER_STORE", "CLOISTER_BLOBS", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
        self.ecs.secrets = {f"arn:{name}": operator.env[name] for name in names}
        operator.env.update(self.ecs.env())
        at = f"127.0.0.1:{free_port()}"
        register(operator, "target", "far", engine="ecs", image="worker:1", idle="2s", workers={"max": 1}, service=at,
                 secrets={name: f"arn:{name}" for name in names}, ecs={"cluster": "work", "subnets": ["s"], "launchType": "EC2"})
        give_secret(operator)
        self.operator, self.words, self.service = operator, ["--target", "far"], Service(operator, "--workers", at)

    def start(self, machines, words, env):
        task = fake_engine.worker_of(machines, words, env)
        task.how = words, env
        self.tasks.append(task)
        return task

    @property
    def machine(self):
        return self.tasks[-1].machine

    def restart(self):
        """Its worker is killed, and a worker with its folder, which is a volume's, starts."""
        task = self.tasks[-1]
        task.end()
        words, env = task.how
        task.__init__(task.machine, words, env)
        wait_until(lambda: "connected to the service" in (task.machine.base / "said").read_text(), "it is connected")

    def close(self):
        self.ecs.end()
        assert self.service.stop() == 0, self.service.log()
        assert not self.ecs.wrong, self.ecs.wrong


class FarPlace(Place):
    """A service whose target has an engine run workers in containers: from none, for each scenario."""
    is_contained = True

    def __init__(self, operator, engine, server):
        self.operator, self.words, self.engine = operator, ["--target", "far"], engine
        port = free_port()
        self.forwards = [engine.lead_to(port), engine.lead_to(server.port)]
        service, blobs = (f"{engine.address}:{forward.port}" for forward in self.forwards)
        secrets = {name: operator.env[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")} | {
            "CLOISTER_STORE": engine.store,
            "CLOISTER_BLOBS": operator.env["CLOISTER_BLOBS"].replace(f"127.0.0.1:{server.port}", blobs) + "&insecure=yes"}
        # The engine removes the workers at the end.
        register(operator, "target", "far", **{"idle": "10m", "workers": {"max": 1}, "service": service, **engine.target(secrets)})
        give_secret(operator)
        self.service = Service(operator, "--workers", f"127.0.0.1:{port}")

    def restart(self):
        """Its container is killed: if there is something to do, the service has another one started."""
        self.engine.kill()

    def kill_supervisor(self, cell):
        running = json.loads(self.engine.inside("cloister", "ps", "--json").ok())
        supervisor, = [one["supervisor"] for one in running if one["cell"] == cell]
        self.engine.inside("kill", "-9", str(supervisor)).ok()

    def run_another(self):
        self.engine.inside("cloister", "run", "--", "true").ok()

    def close(self):
        assert self.service.stop() == 0, self.service.log()
        self.engine.clear()
        for forward in self.forwards:
            forward.close()


class InSwarm:
    def __init__(self, operator, swarm):
        self.swarm, self.operator = swarm, operator
        self.address, self.lead_to, self.store = swarm.nodes[0].address, swarm.lead_to, swarm.store(operator.database)

    def target(self, secrets):
        names = {name: f"{name}-{self.operator.database}" for name in secrets}
        for name, value in secrets.items():
            self.swarm.secret(names[name], value)
        return {"engine": "swarm", "image": swarm_lab.IMAGE, "secrets": names, "swarm": {
            "host": f"unix://{self.swarm.nodes[0].socket}", "network": "host", "hostProc": True}}

    def worker(self):
        """Its node, and its container's id."""
        (found,) = [(node, one["Id"]) for node in self.swarm.nodes for one in node.ask("GET", "/containers/json")]
        return found

    def inside(self, *words):
        node, id = self.worker()
        return node.inside(id, *words)

    def kill(self):
        node, id = self.worker()
        node.ask("POST", f"/containers/{id}/kill")

    def clear(self):
        self.swarm.clear()


class InEngine(InSwarm):
    """The engine of the first node, without its swarm."""

    def target(self, secrets):
        folder = self.swarm.base / self.operator.database
        folder.mkdir()
        for name, value in secrets.items():
            (folder / name).write_text(value)
        return {"engine": "docker", "image": swarm_lab.IMAGE, "secrets": {name: str(folder / name) for name in secrets}, "docker": {
            "host": f"unix://{self.swarm.nodes[0].socket}", "network": "host", "seccomp": str(BUILD / "image/seccomp.json")}}

    def clear(self):
        node = self.swarm.nodes[0]
        for one in node.ask("GET", "/containers/json?all=1"):
            node.ask("DELETE", f"/containers/{one['Id']}?force=true&v=true")


class InEcs:
    """The stand-in of tests/scenario/fake_ecs.py, whose tasks are containers of the first node's engine."""

    def __init__(self, operator, swarm):
        self.tasks, self.operator = [], operator
        self.address, self.lead_to, self.store = swarm.nodes[0].address, swarm.lead_to, swarm.store(operator.database)
        self.ecs = fake_ecs.FakeEcs(None, run=lambda _, words, env: self.start(swarm.nodes[0], words, env))

    def start(self, *how):
        self.tasks.append(swarm_lab.Task(*how))
        return self.tasks[-1]

    def target(self, secrets):
        self.ecs.key |= {"id": secrets["AWS_ACCESS_KEY_ID"], "secret": secrets["AWS_SECRET_ACCESS_KEY"]}
        self.operator.env.update(self.ecs.env())
        self.ecs.secrets = {f"arn:{name}": value for name, value in secrets.items()}
        return {"engine": "ecs", "image": swarm_lab.IMAGE, "secrets": {name: f"arn:{name}" for name in secrets},
                "ecs": {"cluster": "work", "subnets": ["s"], "launchType": "EC2"}}

    def inside(self, *words):
        return self.tasks[-1].inside(*words)

    def kill(self):
        self.tasks[-1].kill()

    def clear(self):
        self.ecs.end()
        assert not self.ecs.wrong, self.ecs.wrong


class InKubernetes:
    """NAMESPACE: a place of tests/scenario/kubernetes/workers.py."""

    def __init__(self, operator, namespace):
        self.namespace, self.cluster = namespace, namespace.cluster
        self.address, self.store, self.clear = namespace.cluster.here, namespace.store, namespace.close
        operator.env["KUBECONFIG"] = str(self.cluster.admin)

    def lead_to(self, server):
        return Forward(self.address, server)

    def target(self, secrets):
        self.namespace.secret("all", **secrets)
        content = self.namespace.target(secrets={name: "all" for name in secrets})
        del content["name"]
        return content

    def pod(self):
        """The kubelet may report it later than its worker is at work."""
        (pod,) = wait_until(lambda: [one for one in self.namespace.get("pods") if one["status"]["phase"] == "Running"],
                            "its pod is known to run")
        return pod

    def inside(self, *words):
        return self.namespace.kubectl("exec", self.pod()["metadata"]["name"], "--", *words, check=False)

    def kill(self):
        (container,) = self.pod()["status"]["containerStatuses"]
        self.cluster.ctr("tasks", "kill", "-s", "SIGKILL", container["containerID"].removeprefix("containerd://"))
