"""What the tests of workers on Kubernetes share: an image, a namespace of each test's own, and a way to its Postgres."""
import itertools

import alike
import dispatches
import fleet_client
import postgres_store
import pytest
from forward import Forward
from kube_lab import archive
from operators import BUILD, IS_ROOT, wait_until

ARCHIVES = sorted((BUILD / "image").glob("*.tar"))
IMAGE = "docker.io/library/worker:test"
PROFILE = "cloister/worker.json"
SECRET = "cloister-store"
numbers = itertools.count(1)

needs = [
    pytest.mark.skipif(not ARCHIVES, reason="there is no image: `make image`"),
    pytest.mark.skipif(not IS_ROOT, reason="only root can start a Kubernetes of its own"),
    pytest.mark.skipif(not postgres_store.PROGRAMS, reason="there is no postgresql"),
]


def make_image(cluster):
    """`make image`, and what agents need to do something."""
    cluster.load(archive(IMAGE, alike.layer(), base=ARCHIVES[0]))


@pytest.fixture(scope="session")
def cluster(kubernetes):
    make_image(kubernetes)
    kubernetes.seccomp(PROFILE, (BUILD / "image/seccomp.json").read_text())
    return kubernetes


class Place:
    """A namespace with what workers of OPERATOR's database need."""

    def __init__(self, cluster, operator):
        self.cluster, self.operator = cluster, operator
        self.name = f"test-{next(numbers)}"
        cluster.make_namespace(self.name)
        self.forward = Forward(cluster.here, postgres_store.shared().folder / ".s.PGSQL.5432")
        self.store = f"postgresql://cloister@{cluster.here}:{self.forward.port}/{operator.database}?sslmode=disable"
        self.secret(SECRET, CLOISTER_STORE=self.store)
        self.fleets = []

    def secret(self, name, **values):
        self.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values})

    def apply(self, *objects):
        for one in objects:
            one["metadata"]["namespace"] = self.name
        return self.cluster.apply(*objects)

    def kubectl(self, *words, **how):
        return self.cluster.kubectl("-n", self.name, *words, **how)

    def get(self, kind, *words):
        return self.cluster.get(kind, self.name, *words)

    def target(self, **said):
        """A target, as it is registered."""
        own = {"namespace": self.name, **said.pop("kubernetes", {})}
        return {"name": "builders", "engine": "kubernetes", "image": IMAGE, "secrets": {"CLOISTER_STORE": SECRET},
                "kubernetes": own, **said}

    def fleet(self, config=None, **said):
        """Its cloister-fleet, with administrators' rights unless CONFIG is given."""
        self.fleets.append(fleet_client.Fleet(self.target(**said), {"KUBECONFIG": str(config or self.cluster.admin)}))
        return self.fleets[-1]

    def limited(self, *rules):
        """The kubeconfig of an account of the namespace that has a role with RULES alone."""
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limited"}
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "limited"}},
                   {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "limited"}, "rules": [
                       {"apiGroups": [group], "resources": kinds, "verbs": verbs} for group, kinds, verbs in rules]},
                   {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "limited"},
                    "roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": "limited", "namespace": self.name}]})
        wait_until(lambda: "secrets" in self.kubectl("get", "serviceaccount", "limited", "-o", "json").out, "it has a token")
        return self.cluster.configured(f"limited-{self.name}", {"token": self.cluster.token("limited", self.name)}, self.name)

    def agent(self, name, *command, **said):
        dispatches.register(self.operator, "agent", name, command=list(command), **said)

    def dispatch(self, agent, *words):
        return dispatches.detach(self.operator, "--target", "pool:builders", *words, agent)

    def is_over(self, id, state="finished"):
        """A dispatch of a pool, to its end; its row."""
        shown = dispatches.await_over(self.operator, id)
        assert shown["state"] == state, (shown, self.why())
        return shown

    def why(self):
        """What happened here, for people."""
        return self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False).out[-3000:]

    def is_empty(self):
        return not self.get("jobs") and not self.get("pods") and not [
            s for s in self.get("secrets") if s["metadata"]["name"].startswith("cloister-builders-")]

    def close(self):
        for fleet in self.fleets:
            fleet.close()
        self.kubectl("delete", "jobs", "--all", "--wait=false", check=False)
        self.kubectl("delete", "pods", "--all", "--wait=false", "--grace-period=1", check=False)
        self.forward.close()
        self.cluster.kubectl("delete", "namespace", self.name, "--wait=false", check=False)


@pytest.fixture
def place(cluster, operator):
    place = Place(cluster, operator)
    yield place
    place.close()
