"""The gateway to an agent's MCP servers: the time that it adds to a call, calls in a second, and the memory of idle
servers; beside proxies from npm, which put the same server behind HTTP.  And what a WASI module costs, beyond the cell
of each call."""
import json
import subprocess
from pathlib import Path

from bench import Samples, Unmeasured, group
from bench_5_egress import free_port, running
from lab import SEP, TREE, await_quiet, descendants, private_bytes, processes
from tools_wasm import TOOLS, missing, module_bytes

MIB = 1024 * 1024
NAME = "tools.cloister.internal"
NPM = TREE / "build/npm/node_modules"
SERVERS, SESSIONS = 25, 4


def server(lab):
    return [lab.bin / "mcp_loop", "serve"]


def stdio(lab):
    return ["stdio", "echo", *server(lab)]


def http(host, address, port, tool):
    return ["http", host, address, port, "/mcp", tool]


def native(lab, **more):
    return {"command": [str(word) for word in server(lab)], "read": [str(lab.bin)], "idle": "1h", **more}


class Agent:
    """A cell with SERVERS, from which their tools are called: a dictionary, or how many native ones, s0 and so on."""

    def __init__(self, lab, servers=1):
        self.lab, self.who = lab, lab.user
        if not isinstance(servers, dict):
            servers = {f"s{i}": native(lab) for i in range(servers)}
        self.file = lab.top / "tools.yaml"
        self.file.write_text(json.dumps({"version": 1, "tools": {"servers": servers},
                                         "egress": [{"allow": "tool:s*.echo"}], "audit": {"max": "16G"}}))

    def __enter__(self):
        done = self.who.run([self.lab.cloister, "run", "-q", "-d", "-p", self.file, "-v", f"{self.lab.bin}:{self.lab.bin}:ro",
                             "--", "sleep", "1000"])
        if done.returncode != 0:
            raise Unmeasured(f"run -d: {done.stderr.strip()}")
        self.id = done.stdout.strip()
        found = self.inside("getent", "ahostsv4", NAME)
        self.address = found.stdout.split()[0]
        return self

    def __exit__(self, *_):
        self.who.run([self.lab.cloister, "kill", self.id])
        self.who.run([self.lab.cloister, "discard", self.id])

    def words(self, *words):
        return [self.lab.cloister, "exec", self.id, "--", *words]

    def inside(self, *words):
        done = self.who.run(self.words(*words))
        if done.returncode != 0:
            raise Unmeasured(f"{words[0]}: {done.stderr.strip()[-300:]}")
        return done

    def target(self, server="s0"):
        return http(NAME, self.address, 80, f"{server}.echo")


def added(run, rounds, lab, target, near=None):
    """How much longer a call of TARGET takes than one of NEAR, or of the server itself, in microseconds."""
    await_quiet()
    done = run([lab.bin / "mcp_loop", "time", rounds, rounds // 10, SEP, *(near or stdio(lab)), SEP, *target])
    took = [Samples(), Samples()]
    for line in done.stdout.splitlines():
        which, ns = map(int, line.split())
        took[which].append(ns / 1e3)
    if len(took[1]) != rounds:
        raise Unmeasured(f"mcp_loop: {done.stderr.strip()[-300:]}")
    return Samples(far - near for near, far in zip(*took))


def per_second(run, ms, lab, target, links=8):
    await_quiet()
    done = run([lab.bin / "mcp_loop", "load", ms, links, SEP, *target])
    try:
        count, ns = map(int, done.stdout.split())
    except ValueError:
        raise Unmeasured(f"mcp_loop: {done.stderr.strip()[-300:]}") from None
    return count / (ns / 1e9)


def peers(lab):
    """NAME: (the command that listens on a port, the port)."""
    node = next(iter(sorted(NPM.glob("node-linux-*/bin/node"))), None)
    if node is None:
        return {}
    ports = free_port(), free_port()
    words = [str(word) for word in server(lab)]
    all = {"mcp-proxy": ([node, NPM / "mcp-proxy/dist/bin/mcp-proxy.mjs", "--host", "127.0.0.1", "--port", ports[0], "--server",
                          "stream", "--", *words], ports[0]),
           "supergateway": ([node, NPM / "supergateway/dist/index.js", "--stdio", " ".join(words), "--outputTransport",
                             "streamableHttp", "--stateful", "--port", ports[1], "--logLevel", "none"], ports[1])}
    return {name: peer for name, peer in all.items() if Path(peer[0][1]).exists()}


def ours_of(agent):
    """The private bytes of all of our processes of the cell and of its servers' cells; and how many servers there are."""
    tree = processes()
    cells = json.loads(agent.who.run([agent.lab.cloister, "ps", "--json"]).stdout)
    [top] = [cell["supervisor"] for cell in cells if cell["cell"] == agent.id]
    total = servers = 0
    for pid in descendants(top, tree):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/mcp_loop") or words[0] == b"sleep":
            servers += words[-2:-1] == [b"serve"]
            continue
        total += private_bytes(pid) or 0
    return total, servers


def memory(lab, report):
    """Of 100 servers, in sessions: each has a cell of each server."""
    with Agent(lab, SERVERS) as agent:
        agent.inside(lab.bin / "mcp_loop", "time", 1, 0, SEP, *agent.target())
        before, few = ours_of(agent)
        words = agent.words(lab.bin / "mcp_loop", "list", SESSIONS, SEP, *agent.target())
        with agent.who.popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            listed = client.stdout.readline()
            await_quiet()
            after, many = ours_of(agent)
            client.stdin.close()
    if many - few < SERVERS * SESSIONS - 1:
        raise Unmeasured(f"{many - few} servers run, and {listed.strip()} tools are listed")
    report.row(f"tools: our memory for each of {many - few} idle servers", (after - before) / MIB / (many - few), "MiB",
               bar="value < 2")


def module(lab, report):
    """A cold call of a WASI module, beside one of a native server that has a cell for each call too."""
    if missing() is not None:
        raise Unmeasured(missing())
    file = lab.top / "parts.wasm"
    file.write_bytes(module_bytes())
    file.with_name("parts.wasm.json").write_text(json.dumps(TOOLS))
    with Agent(lab, {"s0": native(lab, per="call"), "s1": {"wasm": str(file)}}) as agent:
        took = added(lambda words: agent.who.run(agent.words(*words)), report.pick(200, 10), lab, agent.target("s1"),
                     agent.target("s0"))
    report.row("tools: a WASI module, beyond the call's cell", took.median / 1e3, "ms",
               [us / 1e3 for us in took.spread], bar="value <= 20")


@group("tools")
def tools(lab, report):
    rounds, ms = report.pick(5000, 200), report.pick(5000, 500)
    late, fast = {}, {}
    for name, (words, port) in peers(lab).items():
        target = http("127.0.0.1", "127.0.0.1", port, "echo")
        with running(words, port):
            late[name] = added(lab.user.run, rounds // 5, lab, target).median
            fast[name] = per_second(lab.user.run, ms, lab, target)
    with Agent(lab) as agent:
        def run(words):
            return agent.who.run(agent.words(*words))
        took = added(run, rounds, lab, agent.target())
        rate = per_second(run, ms, lab, agent.target())
    report.row("tools: added to a call", took.median, "us", took.spread, bar="value <= 300")
    report.row("tools: calls in a second", rate, "/s", bar="value >= 2000")
    for name in late:
        report.row(f"tools: added to a call, beside {name}", took.median, "us", took.spread, name, late[name])
        report.row(f"tools: calls in a second, beside {name}", rate, "/s", None, name, fast[name])
    memory(lab, report)
    module(lab, report)
