"""Real programs in a virtual machine, all in one boot: they take the network, the files and the processes of a cell
as they do without one."""
import os

import pytest

from egress_lab import NPM, needs
from operators import IS_ROOT, SECONDS
from test_egress_clients import npm_registry  # noqa: F401  a fixture

pytestmark = pytest.mark.skipif(not os.environ.get("CLOISTER_TEST_VM"), reason="takes long: `make test-vm`")
# An emulated processor is 20 times slower, and a browser starts many processes.
LONG = SECONDS * 15
RULES = """
  - allow: npm.example.test
    methods: [GET]
  - allow: api.anthropic.com
    methods: [POST]
    paths: [/v1/messages]
"""
WORKSPACE = {
    "main.c": '#include <stdio.h>\nint main(void) { printf("compiled %d\\n", 6 * 7); return 0; }\n',
    "page.html": "<p id=p></p><script>document.getElementById('p').textContent = 'computed ' + 6 * 7</script>",
}
GIT = """
git init -q r && cd r && git config user.name a && git config user.email a@b && cp ../main.c . && git add main.c
git commit -qm first && git checkout -qb other && echo more >>main.c && git commit -qam second
git clone -q . ../copy && git -C ../copy log --format=%s && git fsck --strict 2>&1
"""
NODE = "require('child_process').exec('echo child', (e, out) => console.log(out.trim(), [1, 2].map(x => x * 21)))"
PYTHON = """
import concurrent.futures, sqlite3, ssl, subprocess, tempfile
base = sqlite3.connect(tempfile.mkdtemp() + "/db")
base.execute("create table t (n)"); base.executemany("insert into t values (?)", [(n,) for n in range(100)])
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    print(sum(pool.map(abs, range(10))), base.execute("select sum(n) from t").fetchone()[0])
"""
NPM_INSTALL = """
mkdir ~/p && cd ~/p && npm --version && npm init -y >/dev/null &&
npm install --no-audit --no-fund --silent --registry https://npm.example.test/npm/ tool && node -p "require('tool')"
"""
CHROMIUM = ("chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=1000 --timeout=600000 --dump-dom "
            "file://$PWD/page.html")
CLAUDE = "PATH=/opt/npm/node_modules/.bin:$PATH claude --dangerously-skip-permissions -p 'say hello'"


@pytest.fixture
def boundary():
    return "microvm"


@needs("git", "node", "npm", "gcc", "chromium")
@pytest.mark.parametrize("who", ["root"] if IS_ROOT else ["user"])
def test_programs(online, npm_registry):  # noqa: F811
    operator = online.operator
    has_claude = (NPM / "node_modules/.bin/claude").exists()
    more = ["-v", f"{online.lab.folder / 'npm'}:/opt/npm:ro", "-e", "ANTHROPIC_API_KEY=of-the-tests", "-e",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"] if has_claude else []
    workspace = operator.folder("workspace", WORKSPACE)
    online.cell = operator.detach("-p", online.policy(RULES), "--memory", "1536M", "--cpus", "2", "-w", str(workspace),
                                  *more, "--", "sleep", "100000", seconds=LONG)

    def said(script):
        return online.inside("sh", "-c", script, seconds=LONG).ok()

    assert said(GIT) == "second\nfirst\n"
    assert said("gcc -O2 -o ~/main main.c && ~/main") == "compiled 42\n"
    assert online.inside("python3", "-c", PYTHON, seconds=LONG).ok() == "45 4950\n"
    assert online.inside("node", "-e", NODE, seconds=LONG).ok() == "child [ 21, 42 ]\n"
    assert said(NPM_INSTALL).endswith("\nfrom the registry\n")
    assert "computed 42" in said(CHROMIUM)
    # An emulated processor has not all that its program demands.
    if has_claude and "avx2" in said("cat /proc/cpuinfo"):
        assert said(CLAUDE) == "hello from the model\n"
    operator.cloister("kill", online.cell).ok()
    changed = operator.cloister("diff", "--stat", online.cell).ok()
    assert "copy/main.c" in changed
