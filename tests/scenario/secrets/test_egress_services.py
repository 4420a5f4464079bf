"""Services' own libraries and tools work in a cell that holds placeholders: servers that know the real
key, and git's and Azure's own, accept them; no other server gets anything, and no real value comes back."""
import base64
import json
import os
import string
from random import SystemRandom

import pytest

from egress_lab import needs, needs_npm
from operators import only_user
from test_egress_clients import refs, repository  # noqa: F401  a fixture
from test_real_programs import GIT_NAMES

SECONDS = 120


def letters(n):
    return "".join(SystemRandom().choices(string.ascii_letters + string.digits, k=n))


@pytest.fixture(scope="module")
def saas(lab):
    with lab.serve("egress_saas.py"):
        yield lab


@pytest.fixture(scope="module")
def git_server(lab):
    with lab.serve("egress_front.py", "git"):
        yield lab


class Service:
    """A secret of the operator, and the servers that got it."""

    def __init__(self, online, name, real, *hosts, id=""):
        self.online, self.name, self.real = online, name, real
        online.operator.cloister("secret", "add", name, input=f"{id}\n{real}" if id else real).ok()
        (online.lab.folder / "saas.keys").write_text(json.dumps(dict.fromkeys(hosts, real)))
        self.before = len(online.lab.lines("saas.jsonl"))
        self.rules = "".join(f"  - allow: {host}\n" for host in (*hosts, "up.example.test"))

    def run(self, *words, options=(), rules=None):
        npm = ["-v", f"{self.online.lab.folder / 'npm'}:/opt/npm:ro", "-e", "NODE_PATH=/opt/npm/node_modules"]
        done = self.online.run(rules or self.rules, *words, options=["-s", self.name, *npm, *options],
                               seconds=SECONDS)
        assert self.real not in done.out + done.err
        return done

    def seen(self):
        told = [json.loads(line) for line in self.online.lab.lines("saas.jsonl")[self.before:]]
        assert told and all(t["ok"] and t["key"] == self.real for t in told), told
        return [t["target"].partition("?")[0] for t in told]


@pytest.fixture
def service(online, saas):
    return lambda *words, **more: Service(online, *words, **more)


def refused_elsewhere(mine, *words, **how):
    """The same client, sent to another host: nothing of it arrives."""
    before = len(mine.online.lab.lines("seen.jsonl"))
    assert mine.run(*words, **how).status != 0
    assert "exfiltration" in {e.get("why") for e in mine.online.events(verdict="deny")}
    assert len(mine.online.lab.lines("seen.jsonl")) == before


STRIPE = """
const assert = require("assert"), stripe = require("stripe")(process.env.STRIPE_API_KEY,
    process.argv[1] ? { host: process.argv[1], maxNetworkRetries: 0 } : { maxNetworkRetries: 0 });
(async () => {
    assert.equal((await stripe.customers.create({ email: "a@example.org" })).email, "a@example.org");
    assert.equal((await stripe.balance.retrieve()).available[0].amount, 4200);
    console.log("all of it");
})().catch(e => { console.error(e.message); process.exit(1); });
"""


@needs_npm("../stripe")
def test_stripe(service):
    mine = service("STRIPE_API_KEY", "sk_live_" + letters(99), "api.stripe.com")
    assert mine.run("node", "-e", STRIPE).ok() == "all of it\n"
    assert mine.seen() == ["/v1/customers", "/v1/balance"]
    refused_elsewhere(mine, "node", "-e", STRIPE, "up.example.test")


OCTOKIT = """
import assert from "assert";
const { Octokit } = await import("/opt/npm/node_modules/octokit/dist-bundle/index.js");
const octokit = new Octokit({ auth: process.env.GITHUB_TOKEN, retry: { enabled: false },
                              ...(process.argv[2] ? { baseUrl: process.argv[2] } : {}) });
const { data } = await octokit.rest.users.getAuthenticated();
assert.equal(data.login, "tester");
assert.equal(data.your_token, process.env.GITHUB_TOKEN);    // what the service was told, it says
const issue = await octokit.rest.issues.create({ owner: "o", repo: "r", title: "a title" });
assert.equal(issue.data.title, "a title");
assert.equal((await octokit.graphql("{ viewer { login } }")).viewer.login, "tester");
console.log("all of it");
"""


@needs_npm("../octokit")
def test_octokit(service):
    mine = service("GITHUB_TOKEN", "github_pat_" + letters(22) + "_" + letters(59), "api.github.com")
    script = mine.online.operator.file("octokit.mjs", OCTOKIT)
    options = ("-v", f"{script}:/opt/octokit.mjs:ro")
    assert mine.run("node", "/opt/octokit.mjs", options=options).ok() == "all of it\n"
    assert mine.seen() == ["/user", "/repos/o/r/issues", "/graphql"]
    refused_elsewhere(mine, "node", "/opt/octokit.mjs", "https://up.example.test", options=options)


SLACK = """
const assert = require("assert"), { WebClient } = require("@slack/web-api");
const slack = new WebClient(process.env.SLACK_BOT_TOKEN, { retryConfig: { retries: 0 },
    ...(process.argv[1] ? { slackApiUrl: process.argv[1] } : {}) });
(async () => {
    const who = await slack.auth.test();
    assert.equal(who.user, "tester");
    assert.equal(who.told, process.env.SLACK_BOT_TOKEN);
    assert.equal((await slack.chat.postMessage({ channel: "C1", text: "hello & more" })).message.text, "hello & more");
    console.log("all of it");
})().catch(e => { console.error(e.message); process.exit(1); });
"""


@needs_npm("../@slack/web-api")
def test_slack(service):
    mine = service("SLACK_BOT_TOKEN", f"xoxb-{10**11 + 7}-{10**11 + 9}-{letters(24)}", "slack.com")
    assert mine.run("node", "-e", SLACK).ok() == "all of it\n"
    assert mine.seen() == ["/api/auth.test", "/api/chat.postMessage"]
    refused_elsewhere(mine, "node", "-e", SLACK, "https://up.example.test/api/")


MODELS = {
    "openai": ("OPENAI_API_KEY", f"sk-proj-{letters(74)}T3BlbkFJ{letters(74)}", "api.openai.com", """
        const OpenAI = require("openai").default, client = new OpenAI({ maxRetries: 0 });
        (async () => {
            const stream = await client.responses.create({ model: "a", input: [{ role: "user", content: "hi" }], stream: true });
            let said = "";
            for await (const event of stream) if (event.type === "response.output_text.delta") said += event.delta;
            console.log(said);
        })();"""),
    "@anthropic-ai/sdk": ("ANTHROPIC_API_KEY", f"sk-ant-api03-{letters(93)}AA", "api.anthropic.com", """
        const Anthropic = require("@anthropic-ai/sdk").default, client = new Anthropic({ maxRetries: 0 });
        (async () => {
            const request = { model: "a", max_tokens: 9, messages: [{ role: "user", content: "hi" }] };
            const message = await client.messages.create(request);
            console.log(await client.messages.stream(request).finalText() && message.content[0].text);
        })();"""),
}


@only_user
@pytest.mark.parametrize("library", [pytest.param(name, marks=needs_npm(f"../{name}")) for name in MODELS])
def test_models(service, library):
    name, real, host, script = MODELS[library]
    mine = service(name, real, host)
    assert mine.run("node", "-e", script).ok() == "hello from the model\n"
    assert mine.online.lab.seen(real)


# ---- tools -----------------------------------------------------------------------------------

@only_user
@needs("gh")
def test_gh(service):
    mine = service("GITHUB_TOKEN", "github_pat_" + letters(22) + "_" + letters(59), "api.github.com")
    done = mine.run("sh", "-c", "gh api user --jq '.login, .your_token'; echo $GITHUB_TOKEN")
    who, told, fake = done.ok().split()
    assert who == "tester" and told == fake
    assert mine.seen() == ["/user"]


@needs("git", "fcgiwrap")
def test_git_with_a_token(online, git_server, repository):  # noqa: F811
    real = "github_pat_" + letters(22) + "_" + letters(59)
    online.operator.cloister("secret", "add", "GITHUB_TOKEN", input=real).ok()
    (online.lab.folder / "git.users").write_text(f"x-access-token:{{PLAIN}}{real}\n")
    rules = ("  - allow: github.com\n    git: {fetch: true, push: [refs/heads/agent/*]}\n"
             "  - allow: forge.example.test\n")
    script = """
        set -e
        git clone -q https://x-access-token:$GITHUB_TOKEN@%s/team/%s ~/c 2>&1; cd ~/c
        echo two >>file; git commit -q -a -m two; git push -q origin HEAD:refs/heads/agent/x 2>&1"""
    online.sh(rules, script % ("github.com", repository), options=["-s", "GITHUB_TOKEN", *GIT_NAMES],
              seconds=SECONDS).ok()
    assert refs(online, repository)["refs/heads/agent/x"] == "two"
    # Without a token, and with the placeholder sent elsewhere, there is nothing.
    done = online.sh(rules, (script % ("github.com", repository)).replace("$GITHUB_TOKEN", "wrong"),
                     options=["-s", "GITHUB_TOKEN", *GIT_NAMES], seconds=SECONDS)
    assert done.status != 0
    done = online.sh(rules, script % ("forge.example.test", repository), options=["-s", "GITHUB_TOKEN", *GIT_NAMES],
                     seconds=SECONDS)
    assert done.status != 0 and online.refusal()["why"] == "exfiltration"


# ---- Azure -----------------------------------------------------------------------------------

AZURE_KEY = base64.b64encode(os.urandom(64)).decode()
AZURE = """
const { BlobServiceClient, StorageSharedKeyCredential } = require("@azure/storage-blob");
const assert = require("assert"), crypto = require("crypto");
const url = process.argv[1] || "https://account.blob.core.windows.net";
const credential = new StorageSharedKeyCredential("account", process.env.AZURE_STORAGE_KEY);
const service = new BlobServiceClient(url, credential, { retryOptions: { maxTries: 1 } });
const KEYS = ["plain", "with blanks", "a+b", "pl%2Fain", "uml\\u00e4ut/\\u6f22\\u5b57", "q?x=1&y#z", "star*'()!~"];
(async () => {
    const container = service.getContainerClient("box" + Date.now());
    await container.create();
    for (const key of KEYS) {
        const blob = container.getBlockBlobClient(key);
        await blob.upload(key, Buffer.byteLength(key), { metadata: { note: "two  blanks" },
                          blobHTTPHeaders: { blobContentType: "text/plain; charset=utf-8" } });
        assert.equal((await blob.downloadToBuffer()).toString(), key);
    }
    const big = crypto.randomBytes(9 << 20), blob = container.getBlockBlobClient("big");
    await blob.uploadData(big, { blockSize: 4 << 20, concurrency: 2, maxSingleShotSize: 1 << 20 });
    assert(big.equals(await blob.downloadToBuffer()));
    assert(big.subarray(5, 10).equals(await blob.downloadToBuffer(5, 5)));
    const names = [];
    for await (const item of container.listBlobsFlat({ includeMetadata: true })) names.push(item.name);
    assert.deepEqual(names.sort(), [...KEYS, "big"].sort());
    for await (const page of container.listBlobsByHierarchy("/", { prefix: "uml" }).byPage({ maxPageSize: 1 })) ;
    await blob.setMetadata({ a: "b" });
    await blob.createSnapshot();
    await blob.delete({ deleteSnapshots: "include" });
    await container.delete();
    console.log("all of it");
})().catch(e => { console.error(e.message); process.exit(1); });
"""


@pytest.fixture(scope="module")
def azure(lab):
    with lab.serve("egress_front.py", "azure", AZURE_KEY):
        yield lab


@needs_npm("../azurite")
@needs_npm("../@azure/storage-blob")
def test_azure(service, azure):
    mine = service("AZURE_STORAGE_KEY", AZURE_KEY, "account.blob.core.windows.net", id="account")
    assert mine.run("node", "-e", AZURE).ok() == "all of it\n"
    refused_elsewhere(mine, "node", "-e", AZURE, "https://up.example.test")


SAS = """
const az = require("@azure/storage-blob"), assert = require("assert");
const credential = new az.StorageSharedKeyCredential("account", process.env.AZURE_STORAGE_KEY);
const top = "https://account.blob.core.windows.net", retryOptions = { maxTries: 1 };
const service = new az.BlobServiceClient(top, credential, { retryOptions });
const startsOn = new Date(Date.now() - 60000), expiresOn = new Date(Date.now() + 600000);
const times = { startsOn, expiresOn, protocol: az.SASProtocol.Https };
(async () => {
    const containerName = "sas" + Date.now(), container = service.getContainerClient(containerName);
    await container.create();
    for (const version of ["2018-03-28", "2019-12-12", "2021-12-02", undefined]) {
        const blobName = "uml\u00e4ut/a b+c " + version, blob = container.getBlockBlobClient(blobName);
        const url = await blob.generateSasUrl({ ...times, version, permissions: az.BlobSASPermissions.parse("rcwd"),
                                                contentType: "text/x-mine" });
        const plain = new az.BlockBlobClient(url, undefined, { retryOptions });
        await plain.upload("hello", 5);
        const got = await plain.download();
        assert.equal(got.contentType, "text/x-mine");
        // As others would spell it.
        const again = await fetch(url.replace("sp=rcwd", "sp=%72cwd"));
        assert.equal(await again.text(), "hello");
        const all = await container.generateSasUrl({ ...times, version, permissions: az.ContainerSASPermissions.parse("rl") });
        const names = [];
        for await (const item of new az.ContainerClient(all, undefined, { retryOptions }).listBlobsFlat())
            names.push(item.name);
        assert(names.includes(blobName));
        const query = az.generateAccountSASQueryParameters({ ...times, version, services: "b", resourceTypes: "sco",
            permissions: az.AccountSASPermissions.parse("rl") }, credential).toString();
        let seen = 0;
        for await (const item of new az.BlobServiceClient(`${top}?${query}`, undefined, { retryOptions }).listContainers())
            seen++;
        assert(seen > 0);
        // What was signed for something else, or not by this key, is none.
        const other = await fetch(url.replace("sp=rcwd", "sp=racwd"));
        assert.equal(other.status, 403);
        assert.equal(other.headers.get("x-cloister-verdict"), null);
    }
    console.log("all of it");
})().catch(e => { console.error(e.message); process.exit(1); });
"""


@needs_npm("../azurite")
@needs_npm("../@azure/storage-blob")
def test_azure_shared_access_signatures(service, azure):
    mine = service("AZURE_STORAGE_KEY", AZURE_KEY, "account.blob.core.windows.net", id="account")
    assert mine.run("node", "-e", SAS).ok() == "all of it\n"


@only_user
@needs_npm("../azurite")
@needs_npm("../@azure/storage-blob")
def test_azure_refuses_another_key(service, azure):
    """A positive control: the server does look."""
    mine = service("AZURE_STORAGE_KEY", base64.b64encode(os.urandom(64)).decode(),
                   "account.blob.core.windows.net", id="account")
    done = mine.run("node", "-e", AZURE)
    assert done.status != 0 and "authenticate" in done.err
