// The real SDK of E2B against `cloister serve --e2b`, as a program written for it uses it.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import https from 'node:https';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const found = createRequire(process.env.E2B_FROM + '/package.json').resolve('e2b');
const e2b = await import(pathToFileURL(found));
const {
  Sandbox, CommandExitError, NotFoundError, TimeoutError, InvalidArgumentError, AuthenticationError, SandboxError,
  TemplateError,
} = e2b.default ?? e2b;
const FileNotFoundError = (e2b.default ?? e2b).FileNotFoundError ?? NotFoundError;

/** A promise, and the function that settles it. */
const awaited = () => {
  let settle;
  const promise = new Promise((resolve) => { settle = resolve; });
  return { promise, settle };
};

/** Events until one fits. */
const collect = () => {
  const all = [];
  const waiting = new Set();
  return {
    all,
    add: (event) => { all.push(event); for (const look of waiting) look(); },
    until: (fits) => new Promise((resolve) => {
      const look = () => { const one = all.find(fits); if (one) { waiting.delete(look); resolve(one); } };
      waiting.add(look);
      look();
    }),
  };
};

const box = await Sandbox.create();

test('create without a template is the agent "base"', async () => {
  const info = await box.getInfo();
  assert.equal(info.sandboxId, box.sandboxId);
  assert.equal(info.templateId, 'base');
  assert.equal(info.state, 'running');
  assert.deepEqual(info.metadata, {});
  assert.ok(info.endAt - info.startedAt <= 301_000 && info.endAt - Date.now() > 200_000, info);
  assert.ok(info.cpuCount >= 1 && info.memoryMB >= 64);
  assert.equal(await box.isRunning(), true);
});

test('run: output, exit code, error', async () => {
  const done = await box.commands.run('echo out; echo err >&2; printf "é\\0x"');
  assert.deepEqual([done.exitCode, done.stdout, done.stderr, done.error], [0, 'out\né\0x', 'err\n', undefined]);
  await assert.rejects(box.commands.run('echo before; exit 7'), (e) => {
    assert.ok(e instanceof CommandExitError && e instanceof SandboxError);
    assert.deepEqual([e.exitCode, e.stdout, e.error], [7, 'before\n', 'exit status 7']);
    return true;
  });
  await assert.rejects(box.commands.run('kill -9 $$'), { exitCode: -1, error: 'signal: killed' });
});

test('run: cwd, env, user', async () => {
  await box.files.makeDir('/tmp/deep/er');
  assert.equal((await box.commands.run('pwd', { cwd: '/tmp/deep/er' })).stdout, '/tmp/deep/er\n');
  assert.equal((await box.commands.run('echo "$A-$B"', { envs: { A: 'a b', B: '$x' } })).stdout, 'a b-$x\n');
  assert.equal((await box.commands.run('id -un', { user: 'user' })).stdout, 'agent\n');
  await assert.rejects(box.commands.run('true', { user: 'root' }), InvalidArgumentError);
  await assert.rejects(box.commands.run('true', { cwd: '/nowhere' }), InvalidArgumentError);
});

test('run: output as it comes', async () => {
  const seen = collect();
  await box.commands.run('mkfifo /tmp/go');
  const run = box.commands.run('echo one; read line </tmp/go; echo two >&2', {
    onStdout: (text) => seen.add(['out', text]), onStderr: (text) => seen.add(['err', text]),
  });
  await seen.until(([name, text]) => name === 'out' && text === 'one\n');
  assert.equal(seen.all.length, 1);
  await box.commands.run('echo go >/tmp/go');
  assert.deepEqual([(await run).exitCode, seen.all[1]], [0, ['err', 'two\n']]);
});

test('a command that takes too long is killed', async () => {
  await assert.rejects(box.commands.run('echo $$ >/tmp/late; sleep 1000', { timeoutMs: 1500 }), TimeoutError);
  for (;;) {
    const left = await box.commands.run('kill -0 $(cat /tmp/late) 2>&1 || echo gone');
    if (left.stdout.includes('gone')) break;
  }
});

test('a background command: list, input, connect, kill', async () => {
  const first = collect();
  const handle = await box.commands.run('while read a; do echo "got $a"; done; echo end', {
    background: true, stdin: true, timeoutMs: 0, onStdout: (text) => first.add(text),
  });
  const [one] = await box.commands.list();
  assert.equal(one.pid, handle.pid);
  assert.deepEqual([one.cmd, one.args.slice(0, 2)], ['/bin/bash', ['-l', '-c']]);
  await box.commands.sendStdin(handle.pid, 'x\n');
  await first.until((text) => text.includes('got x'));
  await handle.disconnect();
  // It goes on without anybody who follows it, and another joins.
  const second = collect();
  const other = await box.commands.connect(handle.pid, { onStdout: (text) => second.add(text), timeoutMs: 0 });
  await other.sendStdin('y\n');
  await second.until((text) => text.includes('got y'));
  await other.closeStdin();
  const done = await other.wait();
  assert.equal(done.exitCode, 0);
  assert.match(done.stdout, /end\n$/);
  assert.deepEqual(await box.commands.list(), []);
  // Its end is still known a moment later.
  assert.equal((await (await box.commands.connect(handle.pid)).wait()).exitCode, 0);
  assert.equal(await box.commands.kill(handle.pid), false);
  await assert.rejects(box.commands.sendStdin(handle.pid, 'z'), NotFoundError);
  await assert.rejects(box.commands.connect(99999), NotFoundError);

  const asleep = await box.commands.run('sleep 1000', { background: true });
  assert.equal(await asleep.kill(), true);
  await assert.rejects(asleep.wait(), { exitCode: -1, error: 'signal: killed' });
  await assert.rejects(box.commands.sendStdin(asleep.pid, 'z'), NotFoundError);
});

test('much output and much input arrive whole', async () => {
  const done = await box.commands.run('head -c 3000000 /dev/zero | tr "\\0" a');
  assert.equal(done.stdout, 'a'.repeat(3_000_000));
  const handle = await box.commands.run('wc -c', { background: true, stdin: true });
  for (let i = 0; i < 5; i++) await handle.sendStdin('b'.repeat(200_000));
  await handle.closeStdin();
  assert.equal((await handle.wait()).stdout.trim(), '1000000');
});

test('a terminal', async () => {
  const seen = collect();
  let text = '';
  const pty = await box.pty.create({
    cols: 80, rows: 24, timeoutMs: 0,
    onData: (data) => { text += new TextDecoder().decode(data); seen.add(text); },
  });
  await box.pty.sendInput(pty.pid, new TextEncoder().encode('stty size; echo "<$TERM>"\n'));
  await seen.until((all) => all.includes('24 80') && all.includes('<xterm-256color>'));
  await box.pty.resize(pty.pid, { cols: 100, rows: 30 });
  await box.pty.sendInput(pty.pid, new TextEncoder().encode('stty size\n'));
  await seen.until((all) => all.includes('30 100'));
  await box.pty.sendInput(pty.pid, new TextEncoder().encode('exit 3\n'));
  await assert.rejects(pty.wait(), { exitCode: 3 });
});

test('files: write and read', async () => {
  const info = await box.files.write('/tmp/files/a.txt', 'hello é');
  assert.deepEqual([info.name, info.path, info.type], ['a.txt', '/tmp/files/a.txt', 'file']);
  assert.equal(await box.files.read('/tmp/files/a.txt'), 'hello é');
  const bytes = new Uint8Array(300_000).map((_, i) => i * 7 % 251);
  await box.files.write('/tmp/files/b.bin', bytes.buffer);
  assert.deepEqual(await box.files.read('/tmp/files/b.bin', { format: 'bytes' }), bytes);
  assert.equal((await (await box.files.read('/tmp/files/b.bin', { format: 'blob' })).arrayBuffer()).byteLength, 300_000);
  let size = 0;
  for await (const part of await box.files.read('/tmp/files/b.bin', { format: 'stream' })) size += part.length;
  assert.equal(size, 300_000);
  await box.files.write('/tmp/files/a.txt', '');
  assert.equal(await box.files.read('/tmp/files/a.txt'), '');
  // As one body, and as a stream.
  await box.files.write('/tmp/files/c.txt', 'octets', { useOctetStream: true });
  assert.equal(await box.files.read('/tmp/files/c.txt'), 'octets');
  await box.files.write('/tmp/files/d.txt', new Blob(['streamed']).stream());
  assert.equal(await box.files.read('/tmp/files/d.txt'), 'streamed');
  const all = await box.files.write([
    { path: '/tmp/files/many/1', data: 'one' }, { path: '/tmp/files/many/2 "x"', data: 'two\r\n--two' },
    { path: '/tmp/files/many/3', data: '' },
  ]);
  assert.deepEqual(all.map((one) => one.path), ['/tmp/files/many/1', '/tmp/files/many/2 "x"', '/tmp/files/many/3']);
  assert.equal(await box.files.read('/tmp/files/many/2 "x"'), 'two\r\n--two');
  // Relative to the folder in which commands run.
  await box.files.write('relative.txt', 'r');
  assert.equal((await box.commands.run('cat relative.txt; echo; cat ~/home.txt 2>/dev/null || true')).stdout, 'r\n');
  await box.files.write('~/home.txt', 'h');
  assert.equal((await box.commands.run('cat ~/home.txt')).stdout, 'h');
  await assert.rejects(box.files.read('/tmp/files/none'), FileNotFoundError);
  await assert.rejects(box.files.read('/tmp/files'), InvalidArgumentError);
  await assert.rejects(box.files.write('/tmp/files', 'x'), InvalidArgumentError);
  await assert.rejects(box.files.write('/tmp/files/a.txt', 'x', { gzip: true }), InvalidArgumentError);
  await assert.rejects(box.files.write('/tmp/files/a.txt', 'x', { metadata: { a: 'b' } }), TemplateError);
});

test('files: entries', async () => {
  assert.equal(await box.files.makeDir('/tmp/entries/in/ner'), true);
  assert.equal(await box.files.makeDir('/tmp/entries/in/ner'), false);
  await box.files.write('/tmp/entries/file', '12345');
  await box.commands.run('cd /tmp/entries; chmod 640 file; ln -s file link; ln -s /nowhere dangling; mkfifo pipe');
  assert.equal(await box.files.exists('/tmp/entries/file'), true);
  assert.equal(await box.files.exists('/tmp/entries/none'), false);
  const file = await box.files.getInfo('/tmp/entries/file');
  assert.deepEqual({ ...file, modifiedTime: undefined }, {
    name: 'file', type: 'file', path: '/tmp/entries/file', size: 5, mode: 0o640, permissions: '-rw-r-----', owner: 'agent',
    group: 'agent', modifiedTime: undefined, symlinkTarget: undefined, metadata: undefined,
  });
  assert.ok(Math.abs(file.modifiedTime - Date.now()) < 3_600_000);
  const link = await box.files.getInfo('/tmp/entries/link');
  assert.deepEqual([link.type, link.symlinkTarget, link.permissions[0]], ['file', '/tmp/entries/file', 'L']);
  const names = async (depth) => (await box.files.list('/tmp/entries', depth && { depth })).map((e) => [e.path.slice(13), e.type]);
  // Neither a pipe nor a link to nowhere has a type that the SDK knows.
  assert.deepEqual(await names(), [['file', 'file'], ['in', 'dir'], ['link', 'file']]);
  assert.deepEqual(await names(2), [['file', 'file'], ['in', 'dir'], ['in/ner', 'dir'], ['link', 'file']]);
  const moved = await box.files.rename('/tmp/entries/file', '/tmp/entries/in/moved');
  assert.deepEqual([moved.name, moved.path, moved.size], ['moved', '/tmp/entries/in/moved', 5]);
  await box.files.remove('/tmp/entries/in');
  assert.equal(await box.files.exists('/tmp/entries/in/moved'), false);
  await assert.rejects(box.files.list('/tmp/entries/none'), FileNotFoundError);
  await assert.rejects(box.files.list('/tmp/entries/pipe'), InvalidArgumentError);
  await assert.rejects(box.files.getInfo('/tmp/entries/none'), FileNotFoundError);
  await assert.rejects(box.files.rename('/tmp/entries/none', '/tmp/x'), FileNotFoundError);
  await box.files.remove('/tmp/entries/none');
});

test('files: watchDir', async () => {
  await box.files.makeDir('/tmp/watched/sub');
  const seen = collect();
  const ended = awaited();
  const watch = await box.files.watchDir('/tmp/watched', (event) => seen.add(event), {
    recursive: true, timeoutMs: 0, onExit: (e) => ended.settle(e),
  });
  await box.files.write('/tmp/watched/sub/new', 'x');
  await seen.until((e) => e.type === 'create' && e.name === 'sub/new');
  await seen.until((e) => e.type === 'write' && e.name === 'sub/new');
  await box.commands.run('chmod 600 /tmp/watched/sub/new');
  await seen.until((e) => e.type === 'chmod' && e.name === 'sub/new');
  await box.files.rename('/tmp/watched/sub/new', '/tmp/watched/sub/old');
  await seen.until((e) => e.type === 'rename' && e.name === 'sub/new');
  await seen.until((e) => e.type === 'create' && e.name === 'sub/old');
  await box.files.remove('/tmp/watched/sub/old');
  await seen.until((e) => e.type === 'remove' && e.name === 'sub/old');
  await watch.stop();
  await ended.promise;
  await assert.rejects(box.files.watchDir('/tmp/none', () => {}), FileNotFoundError);
  await assert.rejects(box.files.watchDir('/etc/passwd', () => {}), InvalidArgumentError);
  await assert.rejects(box.files.watchDir('/tmp', () => {}, { includeEntry: true }), TemplateError);
});

test('signed addresses', async () => {
  await box.files.write('/tmp/signed', 'by address');
  const get = async (url) => { const r = await fetch(url); return [r.status, await r.text()]; };
  const url = await box.downloadUrl('/tmp/signed', { useSignatureExpiration: 60 });
  assert.deepEqual(await get(url), [200, 'by address']);
  const form = new FormData();
  form.append('file', new Blob(['uploaded']), 'x');
  assert.equal((await fetch(await box.uploadUrl('/tmp/up'), { method: 'POST', body: form })).status, 200);
  assert.equal(await box.files.read('/tmp/up'), 'uploaded');
  assert.equal((await get(url.replace('signed&', 'up&').replace('%2Fsigned', '%2Fup')))[0], 401);
  assert.equal((await get(await box.downloadUrl('/tmp/signed', { useSignatureExpiration: -5 })))[0], 401);
  assert.equal((await get(new URL('/files?path=/tmp/signed', url)))[0], 401);
  // One for reading does not write.
  assert.equal((await fetch(url, { method: 'POST', body: form })).status, 401);
});

test('metadata, variables and the list', async () => {
  const other = await Sandbox.create('base', { timeoutMs: 60_000, metadata: { run: 'a b&c=%', n: '1' }, envs: { WHO: 'other' } });
  try {
    assert.equal((await other.commands.run('echo $WHO; WHO=$WHO; ls /tmp')).stdout, 'other\n');
    assert.equal((await other.commands.run('echo $WHO', { envs: { WHO: 'again' } })).stdout, 'again\n');
    assert.equal((await box.commands.run('echo "[$WHO]"')).stdout, '[]\n');
    const pages = Sandbox.list({ query: { metadata: { run: 'a b&c=%' } } });
    const items = await pages.nextItems();
    assert.deepEqual(items.map((one) => [one.sandboxId, one.metadata.n]), [[other.sandboxId, '1']]);
    assert.equal(pages.hasNext, false);
    const one = Sandbox.list({ limit: 1 });
    const ids = [];
    while (one.hasNext) ids.push(...(await one.nextItems()).map((item) => item.sandboxId));
    assert.deepEqual(ids, [other.sandboxId, box.sandboxId]);
    assert.deepEqual((await Sandbox.list({ query: { template: 'else' } }).nextItems()), []);
    // One's token opens no other.
    const own = other.envdAccessToken;
    other.envdAccessToken = box.envdAccessToken;
    await assert.rejects(other.commands.run('true'), AuthenticationError);
    other.envdAccessToken = own;
    const [metric] = await other.getMetrics();
    assert.ok(metric.memUsed > 0 && metric.memTotal > metric.memUsed && metric.cpuUsedPct >= 0, JSON.stringify(metric));
  } finally {
    assert.equal(await other.kill(), true);
  }
  assert.equal(await other.isRunning(), false);
  assert.equal(await other.kill(), false);
  await assert.rejects(other.getInfo(), NotFoundError);
  await assert.rejects(other.commands.run('true'), (e) => e instanceof NotFoundError || e instanceof TimeoutError);
  await assert.rejects(other.files.read('/tmp/x'), TimeoutError);
  await assert.rejects(Sandbox.connect(other.sandboxId), NotFoundError);
});

test('setTimeout and connect', async () => {
  await box.setTimeout(120_000);
  const end = (await box.getInfo()).endAt;
  assert.ok(Math.abs(end - Date.now() - 120_000) < 30_000);
  const again = await Sandbox.connect(box.sandboxId, { timeoutMs: 60_000 });
  assert.equal((await again.getInfo()).endAt.getTime(), end.getTime());
  await again.connect({ timeoutMs: 200_000 });
  assert.ok((await box.getInfo()).endAt > end);
  await again.files.write('/tmp/again', 'same');
  assert.equal(await box.files.read('/tmp/again'), 'same');
  // The agent's own limit is 10 minutes.
  await assert.rejects(box.setTimeout(3_600_000), /time limit/);
  await assert.rejects(Sandbox.create('base', { timeoutMs: 3_600_000 }), /time limit/);
  await assert.rejects(Sandbox.setTimeout('0123456789abcdef', 1000), NotFoundError);
});

test('a sandbox ends with its timeout', async () => {
  const short = await Sandbox.create('base', { timeoutMs: 4000 });
  await assert.rejects(short.commands.run('sleep 1000', { timeoutMs: 0 }), TimeoutError);
  await assert.rejects(short.getInfo(), NotFoundError);
});

test('getHost leads to a port of the sandbox', async () => {
  const web = await Sandbox.create('web');
  try {
    const host = web.getHost(8000);
    assert.match(host, new RegExp(`^8000-${web.sandboxId}\\.e2b\\.localhost:\\d+$`));
    // Browsers and curl know that names below localhost are this machine; Node asks the system.
    const ask = (at, body, headers = {}) => new Promise((resolve, reject) => {
      const [hostname, port] = at.split(':');
      const request = https.request({ hostname, port, path: '/a?b', headers, method: body ? 'POST' : 'GET', agent: false,
        ca: process.env.E2B_CA, lookup: (_, options, done) =>
          options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4) }, (response) => {
        let text = '';
        response.on('data', (part) => { text += part; });
        response.on('end', () => resolve([response.statusCode, text]));
      });
      request.on('error', reject);
      request.on('upgrade', (response, socket) => {
        socket.on('data', (part) => { resolve([response.statusCode, String(part)]); socket.destroy(); });
        socket.write('over');
      });
      request.end(body);
    });
    assert.equal((await ask(host))[0], 502);
    await web.files.write('/tmp/server.py', `
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers["Upgrade"]:
            self.send_response(101)
            self.send_header("Upgrade", "echo")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            self.wfile.write(self.rfile.read(4))
            self.close_connection = True
            return
        self.answer((self.path + " " + self.headers["Host"]).encode())
    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))
    def answer(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler)
print("ready", flush=True)
server.serve_forever()
`);
    const seen = collect();
    await web.commands.run('python3 /tmp/server.py', { background: true, onStdout: (text) => seen.add(text), timeoutMs: 0 });
    await seen.until((text) => text.includes('ready'));
    assert.deepEqual(await ask(host), [200, `/a?b ${host}`]);
    const much = 'x'.repeat(3_000_000);
    assert.deepEqual(await ask(host, much, { 'Content-Length': much.length }), [200, much]);
    assert.deepEqual(await ask(host, undefined, { Connection: 'Upgrade', Upgrade: 'echo' }), [101, 'over']);
    // A page there asks its own server.
    assert.equal((await ask(host, undefined, { Origin: `https://${host}` }))[0], 200);
    assert.equal((await ask(web.getHost(8001)))[0], 403);
    assert.equal((await ask(host.replace(web.sandboxId, '0123456789abcdef')))[0], 404);
    assert.equal((await ask(host.replace('8000-', '80000-')))[0], 404);
    assert.equal((await ask(host.replace('8000-', 'x')))[0], 404);
    assert.equal((await ask(box.getHost(8000)))[0], 403);
    await web.kill();
    assert.equal((await ask(host))[0], 404);
  } finally {
    await web.kill();
  }
});

test('errors', async () => {
  await assert.rejects(Sandbox.create('base', { apiKey: 'e2b_0000000000000000000000000000000000000000' }), AuthenticationError);
  await assert.rejects(Sandbox.create('nobody'), /no agent 'nobody'|404/);
  await assert.rejects(Sandbox.create('closed'), /sandbox: true/);
  await assert.rejects(Sandbox.create('base', { volumeMounts: { '/v': 'v' } }), /volumes are not served/);
  await assert.rejects(Sandbox.create('base', { lifecycle: { onTimeout: 'pause' } }), /not paused/);
  await assert.rejects(Sandbox.create('base', { network: { denyOut: ['0.0.0.0/0'] } }), /policy/);
  await assert.rejects(Sandbox.create('net', { allowInternetAccess: false }), /policy/);
  await (await Sandbox.create('base', { allowInternetAccess: false })).kill();
  await assert.rejects(box.pause(), /501: this part of E2B's API is not served/);
  await assert.rejects(box.createSnapshot(), /not served/);
  const { envdAccessToken } = box;
  box.envdAccessToken = '0'.repeat(64);
  await assert.rejects(box.commands.run('true'), AuthenticationError);
  box.envdAccessToken = envdAccessToken;
});

test('the walls', async () => {
  const walls = await Sandbox.create('net');
  try {
    const run = (text) => walls.commands.run(text, { timeoutMs: 30_000 }).catch((e) => e);
    assert.notEqual((await run(`cat ${process.env.CANARY}`)).exitCode, 0);
    await assert.rejects(walls.files.read(process.env.CANARY), FileNotFoundError);
    const fetched = await run(`curl -sS -m 10 http://127.0.0.1:${process.env.CANARY_PORT}/`);
    assert.notEqual(fetched.exitCode, 0);
    // Its policy knows one name.
    const denied = await run('curl -sS -m 10 http://other.example/');
    assert.notEqual(denied.exitCode, 0);
    assert.equal((await run('cat /proc/self/status | grep NoNewPrivs')).stdout.trim().split('\t')[1], '1');
  } finally {
    await walls.kill();
  }
});

test('it ends', async () => {
  const running = await box.commands.run('sleep 1000', { background: true, timeoutMs: 0 });
  const over = assert.rejects(running.wait(), TimeoutError);
  assert.equal(await box.kill(), true);
  await over;
  assert.equal(await box.isRunning(), false);
});
