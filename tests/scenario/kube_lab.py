"""A real Kubernetes of one node, which the tests start themselves: etcd, API server, controllers, scheduler and kubelet as
`make kubernetes-lab` builds them from Debian's source, and Debian's containerd.

All of it is in namespaces of its own, of processes too: whoever ends the first one ends everything.  A pair of interfaces
leads from this machine to the node, and a route to its pods.
"""
import base64
import contextlib
import datetime
import functools
import hashlib
import io
import ipaddress
import json
import os
import shutil
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest
from engines import ALONE, busybox
from leftovers import LABS
from operators import BUILD, IS_ROOT, Result, children_of, wait_until

PROGRAMS = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"]
FOLDER = Path(os.environ.get("CLOISTER_KUBERNETES", BUILD / "kubernetes"))
NEEDED = ["etcd", "containerd", "ctr", "runc", "busybox", "unshare", "nsenter", "ip", "iptables"]
NODE, BOX, PAUSE = "lab", "docker.io/library/box:1", "docker.io/library/pause:1"
PLUGINS = "/usr/lib/cni"
SOCKET = "/run/containerd.sock"
# Not everybody may spare what holds a pod's namespaces from the kernel's killer.
CONFIG = """version = 2
root = "{own}/root"
state = "/run/containerd"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{own}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.other]
runtime_type = "io.containerd.runc.v2"
"""
SERVICES, API = "10.96.0.0/24", "10.96.0.1"
ETCD = "http://127.0.0.1:2379"
SLOW = 180                      # seconds until a busy machine has a node that is ready
# With its alpha feature, containers may have all of /proc.
GATES = "ProcMountType=true"
TOP = "cloister-kubernetes"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def missing():
    """Why this machine cannot run it, or None."""
    if not IS_ROOT:
        return "only root can start a Kubernetes of its own"
    if not all((FOLDER / name).exists() for name in PROGRAMS):
        return f"there is no Kubernetes in {FOLDER}: `make kubernetes-lab`"
    if not Path(PLUGINS).exists():
        return f"there is no {PLUGINS}: `make test-kubernetes` installs it"
    lacking = [name for name in NEEDED if shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") is None]
    return f"there is no {lacking[0]}: `make test-kubernetes` installs it" if lacking else None


@functools.cache
def start(base):
    return Kubernetes(base)


@pytest.fixture(scope="session")
def kubernetes(ground):
    """One for all tests."""
    if (why := missing()) is not None:
        pytest.skip(why)
    cluster = start(ground / "kubernetes")
    yield cluster
    cluster.stop()


class Authority:
    """Certificates for everybody who speaks to the API server, and for itself."""

    def __init__(self, folder):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        self.folder, self.x509, self.hashes, self.serialization, self.ec = folder, x509, hashes, serialization, ec
        folder.mkdir(mode=0o700)
        self.key = self.certificate = None
        self.key, self.certificate = self.sign("ca", "lab's authority")

    def sign(self, name, common, group=None, addresses=(), names=()):
        """NAME.crt and NAME.key."""
        x509 = self.x509
        key = self.ec.generate_private_key(self.ec.SECP256R1())
        about = [x509.NameAttribute(x509.NameOID.COMMON_NAME, common)]
        if group is not None:
            about.insert(0, x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, group))
        now = datetime.datetime.utcnow()
        builder = (x509.CertificateBuilder().subject_name(x509.Name(about)).public_key(key.public_key())
                   .issuer_name(self.certificate.subject if self.certificate else x509.Name(about))
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
                   .not_valid_after(now + datetime.timedelta(days=7))
                   .add_extension(x509.BasicConstraints(ca=self.certificate is None, path_length=None), critical=True))
        if addresses or names:
            builder = builder.add_extension(x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address(a)) for a in addresses] + [x509.DNSName(n) for n in names]), critical=False)
        certificate = builder.sign(self.key or key, self.hashes.SHA256())
        pem = self.serialization
        (self.folder / f"{name}.crt").write_bytes(certificate.public_bytes(pem.Encoding.PEM))
        (self.folder / f"{name}.key").write_bytes(key.private_bytes(
            pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()))
        return key, certificate

    def text(self, name):
        return (self.folder / name).read_text()


def archive(name, layer, *command, base=None):
    """An image, as `docker load` takes it: LAYER alone, or upon the image in the archive BASE."""
    files, config, layers = {}, {"architecture": MACHINES[os.uname().machine], "os": "linux", "config": {}, "rootfs": {
        "type": "layers", "diff_ids": []}}, []
    if base is not None:
        with tarfile.open(base) as tar:
            about, = json.load(tar.extractfile("manifest.json"))
            config = json.load(tar.extractfile(about["Config"]))
            layers = about["Layers"]
            files = {path: tar.extractfile(path).read() for path in layers}
    digest = hashlib.sha256(layer).hexdigest()
    config["rootfs"]["diff_ids"].append(f"sha256:{digest}")
    if command:
        config["config"]["Cmd"] = list(command)
    files[f"{digest}.tar"], files["config.json"] = layer, json.dumps(config).encode()
    files["manifest.json"] = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": [*layers, f"{digest}.tar"]}]).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def encoded(text):
    return base64.b64encode(text.encode()).decode()


class Kubernetes:
    def __init__(self, base):
        self.base = base
        base.mkdir()
        base.chmod(0o711)
        for name in "log", "run", "home", "kubelet", "containerd":
            (base / name).mkdir()
        net = 16 + os.getpid() % 200
        self.here, self.node, self.pods = f"10.213.{net}.1", f"10.213.{net}.2", f"10.214.{net}.0/24"
        self.outside, self.inside = f"kube{net}a", f"kube{net}b"
        self.url = f"https://{self.node}:443"
        self.cgroup = f"{TOP}-{os.getpid()}"
        self.processes = {}
        self.authority = Authority(base / "pki")
        self.anchor = subprocess.Popen(
            ["unshare", "-m", "-n", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c", self.setup()],
            stdin=subprocess.DEVNULL, stdout=self.log("anchor"), stderr=subprocess.STDOUT, start_new_session=True, cwd=base)
        LABS.append(self.anchor.pid)
        try:
            self.begin()
        except BaseException:
            self.stop()
            raise

    # ---- processes

    def log(self, name):
        return (self.base / "log" / name).open("ab")

    def said(self, name):
        """The end of a process' log."""
        return (self.base / "log" / name).read_text(errors="replace")[-4000:]

    def setup(self):
        """What the first process does: it waits for all that are orphaned here."""
        own = self.base
        cpuset = "/sys/fs/cgroup/cpuset"
        return (f"{ALONE} mount -t tmpfs none /run; mount -t tmpfs none /var/log; mkdir -p /run/lock; "
                f"mount -t tmpfs none /var/lib; "
                f"for c in cpu cpuacct cpuset memory devices freezer blkio pids systemd; do "
                f"mkdir -p /sys/fs/cgroup/$c/{self.cgroup}; done; "
                f"for f in cpus mems; do cat {cpuset}/cpuset.$f >{cpuset}/{self.cgroup}/cpuset.$f; done; "
                f"ip link set lo up; ip address add {API}/32 dev lo; echo 1 >/proc/sys/net/ipv4/ip_forward; "
                f"touch {own}/ready; exec sleep infinity")

    def first(self):
        """The process that all namespaces are named by."""
        return children_of(self.anchor.pid)[0]

    def enter(self, *argv):
        return ["nsenter", "-t", str(self.first()), "-m", "-n", "-p", *map(str, argv)]

    def launch(self, name, *argv, env=None):
        """Starts a server of the lab's."""
        process = subprocess.Popen(self.enter(*argv), stdin=subprocess.DEVNULL, stdout=self.log(name), stderr=subprocess.STDOUT,
                                   start_new_session=True, cwd=self.base,
                                   env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.base / "home"), **(env or {})})
        LABS.append(process.pid)
        self.processes[name] = process, argv

    def alive(self, name):
        assert self.processes[name][0].poll() is None, f"{name} ended: {self.said(name)}"
        return True

    def kill(self, name):
        """As `kill -9`; `again` starts it anew."""
        process, _ = self.processes[name]
        for pid in children_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        LABS.remove(process.pid)

    def again(self, name):
        self.launch(name, *self.processes[name][1])

    # ---- its parts

    def begin(self):
        wait_until((self.base / "ready").exists, f"the namespaces are made: {self.said('anchor')}")
        self.connect()
        self.start_containerd()
        self.start_control()
        self.launch("kubelet", FOLDER / "kubelet", *self.kubelet())
        wait_until(lambda: self.alive("kubelet") and self.is_ready(), "the node is ready", SLOW)
        wait_until(lambda: self.kubectl("get", "serviceaccount", "default", check=False).status == 0,
                   "namespaces have their accounts", SLOW)

    def connect(self):
        run = functools.partial(subprocess.run, check=True)
        run(["ip", "link", "add", self.outside, "type", "veth", "peer", "name", self.inside, "netns", str(self.first())])
        run(["ip", "address", "add", f"{self.here}/30", "dev", self.outside])
        run(["ip", "link", "set", self.outside, "up"])
        run(self.enter("ip", "address", "add", f"{self.node}/30", "dev", self.inside))
        run(self.enter("ip", "link", "set", self.inside, "up"))
        run(self.enter("ip", "route", "add", "default", "via", self.here))
        run(["ip", "route", "add", self.pods, "via", self.node])

    def start_containerd(self):
        own = self.base / "containerd"
        (own / "cni").mkdir()
        (own / "cni" / "lab.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "lab", "plugins": [
            {"type": "bridge", "bridge": "pods", "isGateway": True, "ipMasq": False, "ipam": {
                "type": "host-local", "dataDir": f"{own}/addresses", "ranges": [[{"subnet": self.pods}]],
                "routes": [{"dst": "0.0.0.0/0"}]}}]}))
        (own / "config.toml").write_text(CONFIG.format(own=own, pause=PAUSE))
        self.launch("containerd", "containerd", "-c", own / "config.toml", "--address", SOCKET)
        wait_until(lambda: self.alive("containerd") and self.ctr("version", check=False).returncode == 0, "containerd answers")
        # BOX is for the pods of tests; what holds a pod's namespaces waits.
        self.load(archive(PAUSE, busybox(), "/bin/busybox", "sleep", "2147483647"))
        self.load(archive(BOX, busybox(), "/bin/sh"))

    def ctr(self, *words, check=True, **how):
        return subprocess.run(self.enter("ctr", "--address", SOCKET, "-n", "k8s.io", *words), check=check,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **how)

    def load(self, data):
        """An archive, as `docker save` writes it; nothing pulls images."""
        self.ctr("images", "import", "-", input=data)

    def config(self, name, namespace="default"):
        """A kubeconfig of a client that has a certificate."""
        pki = self.authority
        return self.configured(name, {"client-certificate-data": encoded(pki.text(f"{name}.crt")),
                                      "client-key-data": encoded(pki.text(f"{name}.key"))}, namespace)

    def configured(self, name, user, namespace="default"):
        """A kubeconfig in which USER is what a user has."""
        path = self.base / "pki" / f"{name}.config"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": self.url, "certificate-authority-data": encoded(
                self.authority.text("ca.crt"))}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name, "namespace": namespace}}]}))
        path.chmod(0o600)
        return path

    def start_control(self):
        pki, folder = self.authority, self.authority.folder
        pki.sign("api", "kube-apiserver", addresses=[self.node, API, "127.0.0.1"], names=["kubernetes", "kubernetes.default"])
        pki.sign("account", "accounts")
        pki.sign("kubelet-client", "kube-apiserver-kubelet", "system:masters")
        pki.sign("kubelet-server", NODE, addresses=[self.node], names=[NODE])
        for name, common, group in (("admin", "admin", "system:masters"), ("controllers", "system:kube-controller-manager", None),
                                    ("scheduler", "system:kube-scheduler", None), ("kubelet", f"system:node:{NODE}", "system:nodes")):
            pki.sign(name, common, group)
            self.config(name)
        self.admin = folder / "admin.config"
        self.launch("etcd", "etcd", "--data-dir", self.base / "etcd", "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD,
                    "--listen-peer-urls", "http://127.0.0.1:2380", "--unsafe-no-fsync",
                    env={"ETCD_UNSUPPORTED_ARCH": os.uname().machine.replace("aarch64", "arm64")})
        self.launch(
            "kube-apiserver", FOLDER / "kube-apiserver", f"--etcd-servers={ETCD}", "--bind-address=0.0.0.0", "--secure-port=443",
            f"--advertise-address={self.node}", f"--tls-cert-file={folder}/api.crt", f"--tls-private-key-file={folder}/api.key",
            f"--client-ca-file={folder}/ca.crt", f"--service-cluster-ip-range={SERVICES}", "--authorization-mode=Node,RBAC",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://lab", f"--service-account-signing-key-file={folder}/account.key",
            f"--service-account-key-file={folder}/account.crt", "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-client-certificate={folder}/kubelet-client.crt", f"--kubelet-client-key={folder}/kubelet-client.key",
            f"--kubelet-certificate-authority={folder}/ca.crt", f"--cert-dir={self.base}/run", f"--feature-gates={GATES}",
            "--allow-privileged=true", "--event-ttl=1h", "--profiling=false")
        wait_until(lambda: self.alive("etcd") and self.alive("kube-apiserver") and
                   self.kubectl("get", "--raw", "/readyz", check=False).status == 0, "the API server answers", SLOW)
        self.launch(
            "controllers", FOLDER / "kube-controller-manager", f"--kubeconfig={folder}/controllers.config", "--leader-elect=false",
            f"--service-account-private-key-file={folder}/account.key", f"--root-ca-file={folder}/ca.crt",
            "--use-service-account-credentials=true", "--port=0", "--bind-address=127.0.0.1", f"--cert-dir={self.base}/run",
            f"--cluster-signing-cert-file={folder}/ca.crt", f"--cluster-signing-key-file={folder}/ca.key")
        self.launch("scheduler", FOLDER / "kube-scheduler", f"--kubeconfig={folder}/scheduler.config", "--leader-elect=false",
                    "--port=0", "--bind-address=127.0.0.1", f"--cert-dir={self.base}/run")

    def kubelet(self):
        folder = self.authority.folder
        settings = {
            "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}", "failSwapOn": False, "address": "0.0.0.0", "readOnlyPort": 0,
            "authentication": {"x509": {"clientCAFile": f"{folder}/ca.crt"}, "webhook": {"enabled": True},
                               "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"}, "tlsCertFile": f"{folder}/kubelet-server.crt",
            "tlsPrivateKeyFile": f"{folder}/kubelet-server.key", "enforceNodeAllocatable": [], "clusterDNS": [self.node],
            "volumePluginDir": f"{self.base}/plugins", "featureGates": {GATES.split("=")[0]: True},
            # The disk of this machine is none of the lab's.
            "evictionHard": {"memory.available": "50Mi"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
            "resolvConf": "", "syncFrequency": "5s", "nodeStatusUpdateFrequency": "2s", "fileCheckFrequency": "1h",
            "protectKernelDefaults": False, "healthzPort": 0}
        (self.base / "kubelet.json").write_text(json.dumps(settings))
        return [f"--config={self.base}/kubelet.json", f"--kubeconfig={folder}/kubelet.config", f"--hostname-override={NODE}",
                f"--node-ip={self.node}", f"--root-dir={self.base}/kubelet", "--container-runtime=remote",
                f"--container-runtime-endpoint=unix://{SOCKET}",
                f"--cert-dir={self.base}/run"]

    def is_ready(self):
        node = self.kubectl("get", "node", NODE, "-o", "json", check=False)
        if node.status != 0:
            return False
        return any(c["type"] == "Ready" and c["status"] == "True" for c in json.loads(node.out)["status"]["conditions"])

    # ---- for tests

    def kubectl(self, *words, check=True, config=None, input=None):
        done = subprocess.run([FOLDER / "kubectl", f"--kubeconfig={config or self.admin}",
                               f"--cache-dir={self.base}/run/cache", *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, input=input or "", timeout=120,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(self.base / "home")})
        result = Result(done.returncode, done.stdout, done.stderr)
        assert not check or result.status == 0, result
        return result

    def get(self, kind, namespace="default", *words):
        """All objects of that kind, or those that WORDS select."""
        return json.loads(self.kubectl("-n", namespace, "get", kind, "-o", "json", *words).out)["items"]

    def apply(self, *objects):
        return self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})).out

    def make_namespace(self, name):
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        wait_until(lambda: self.kubectl("-n", name, "get", "serviceaccount", "default", check=False).status == 0,
                   "it has its account", SLOW)

    def token(self, account, namespace):
        """What a pod of this account has as its token."""
        secret = json.loads(self.kubectl("-n", namespace, "get", "serviceaccount", account, "-o", "json").out)["secrets"][0]["name"]
        data = json.loads(self.kubectl("-n", namespace, "get", "secret", secret, "-o", "json").out)["data"]["token"]
        return base64.b64decode(data).decode()

    def seccomp(self, name, text):
        """A profile that pods name as localhost/NAME."""
        path = self.profiles() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def profiles(self):
        """The folder of the node's profiles: its own /var/lib is empty at first."""
        return Path(f"/proc/{self.first()}/root/var/lib/kubelet/seccomp")

    # ---- the end

    def stop(self):
        for process, _ in self.processes.values():
            for pid in children_of(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        # Everything that is left in its namespaces ends with their first process: pods, too.
        self.anchor.kill()
        self.anchor.wait()
        for process, _ in self.processes.values():
            process.wait()
        for pid in [self.anchor.pid, *(process.pid for process, _ in self.processes.values())]:
            if pid in LABS:
                LABS.remove(pid)
        subprocess.run(["ip", "link", "delete", self.outside], check=False, stderr=subprocess.DEVNULL)
        for top in Path("/sys/fs/cgroup").glob(f"*/{self.cgroup}"):
            wait_until(lambda top=top: remove_cgroup(top), f"{top} is empty")
        subprocess.run(["rm", "-rf", "--one-file-system", self.base], check=False)


def remove_cgroup(top):
    """Whether it has gone, with all beneath it."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    return not top.exists()
