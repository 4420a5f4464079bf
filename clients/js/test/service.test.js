// Against a real `cloister serve`: CLOISTER_TEST_SOCKET is where it listens. With CLOISTER_TEST_URL,
// CLOISTER_TEST_TOKEN and CLOISTER_TEST_CA also over TLS.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import test from 'node:test';

import { Client } from '../index.js';

const { CLOISTER_TEST_SOCKET: socket, CLOISTER_TEST_URL: url, CLOISTER_TEST_TOKEN: token, CLOISTER_TEST_CA: ca } = process.env;
const skip = socket === undefined && 'CLOISTER_TEST_SOCKET is not set';
const name = (word) => `js-${word}`;
const sha256 = (data) => `sha256:${createHash('sha256').update(data).digest('hex')}`;

function connect(t, options = { socket }) {
  const client = new Client(options);
  t.after(() => client.close());
  return client;
}

/** An agent that runs SCRIPT. */
async function agent(client, word, script, more = {}) {
  await client.subagent.register({ name: name(word), command: ['sh', '-c', script], ...more });
  return name(word);
}

test('everything is registered, dispatched and fetched', { skip }, async (t) => {
  const client = connect(t);
  const capability = await client.capabilities.register({
    name: name('notes'),
    files: {
      'notes/a.txt': 'first\n',
      'notes/b.bin': Uint8Array.of(0, 255, 10),
      'setup.sh': { content: '#!/bin/sh\necho setting up\ncp -r /capabilities/js-notes/notes ~/\n', executable: true },
    },
  });
  assert.deepEqual({ kind: capability.kind, name: capability.name }, { kind: 'capability', name: name('notes') });
  assert.match(capability.hash, /^sha256:[0-9a-f]{64}$/);
  const env = await client.env.register({ name: name('values'), values: { WORD: 'über' } });
  const subagent = await client.subagent.register({
    name: name('reader'),
    capabilities: [name('notes')],
    command: ['sh', '-c', 'cat; cat ~/notes/a.txt; echo "$WORD"; echo problem >&2; mkdir /out/sub; cp ~/notes/b.bin "/out/sub/b ü.bin"; exit 3'],
  });
  const run = client.dispatch({ subagent: name('reader'), env: name('values'), target: 'local', input: 'the input\n' });
  const resolved = await run.resolved;
  assert.deepEqual([resolved.agent.name, resolved.agent.hash], [name('reader'), subagent.hash]);
  assert.deepEqual(resolved.capabilities.map((c) => c.hash), [capability.hash]);
  assert.deepEqual(resolved.envs.map((e) => e.hash), [env.hash]);
  assert.match(resolved.build, /^sha256:/);
  assert.equal(await run.exitCode, 3);
  assert.equal(await run.stdout, 'setting up\nthe input\nfirst\nüber\n');
  assert.equal(await run.stderr, 'problem\n');
  const { files } = await run.files();
  const want = Buffer.from([0, 255, 10]);
  assert.deepEqual(files.map((f) => [f.path, f.size, f.hash]), [['sub/b ü.bin', 3, sha256(want)]]);
  assert.deepEqual(await run.file('sub/b ü.bin'), want);
  await assert.rejects(run.file('sub/none'), { code: 'not_found' });
  const status = await run.status();
  assert.deepEqual([status.id, status.state, status.exit_code], [await run.id, 'finished', 3]);
});

test('an awaited dispatch is values', { skip }, async (t) => {
  const client = connect(t);
  assert.equal(client.agents, client.subagent);
  await client.capabilities.register({
    name: name('setup'),
    files: { 'agora-setup.sh': '#!/bin/sh\necho first\necho oops >&2\n', 'setup.sh': '' },
    tools: ['sh'],
  });
  const subagent = await agent(client, 'lines', 'echo agent; echo x >/out/f; exit 3', { capabilities: [name('setup')] });
  const run = client.dispatch({ subagent });
  const result = await run;
  const lines = result.stdout.split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines.map((line) => line.kind), [
    'worker.boot', 'setup-script.ran', 'setup-script.ran', 'agent.started', 'agent.output', 'dispatch.finished',
  ]);
  assert.deepEqual(lines.slice(1), [
    { kind: 'setup-script.ran', exitCode: 0, stdout: 'first\n', stderr: 'oops\n' },
    { kind: 'setup-script.ran', exitCode: 0, stdout: '' },
    { kind: 'agent.started' },
    { kind: 'agent.output', stream: 'stdout', text: 'agent\n' },
    { kind: 'dispatch.finished', exitCode: 3 },
  ]);
  assert.deepEqual([result.state, result.exitCode, result.reason], ['finished', 3, null]);
  assert.deepEqual(result.output, { stdout: 'first\nagent\n', stderr: 'oops\n' });
  assert.deepEqual(Object.keys(result.resolved), ['subagent', 'capabilities', 'env']);
  assert.equal(result.resolved.capabilities[0].contentHash, result.resolution.capabilities[0].hash);
  assert.deepEqual(result.resolved.programs, result.resolution.programs);
  assert.equal((await result.file('f')).toString(), 'x\n');
  // What was promised before is still promised.
  assert.equal(await run.stdout, 'first\nagent\n');
  assert.equal((await run.resolved).agent.name, subagent);
  assert.equal(await run, result);
});

test('an awaited dispatch that fails tells how', { skip }, async (t) => {
  const client = connect(t);
  await client.capabilities.register({ name: name('broken'), files: { 'setup.sh': '#!/bin/sh\necho half\nexit 9\n' } });
  await client.subagent.register({ name: name('broken'), capabilities: [name('broken')] });
  const { state, exitCode, reason, stdout } = await client.dispatch({ subagent: name('broken') });
  assert.deepEqual([state, exitCode], ['failed', null]);
  const lines = stdout.split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines.slice(1), [
    { kind: 'setup-script.ran', exitCode: 9, stdout: 'half\n' },
    { kind: 'dispatch.finished', exitCode: null, state: 'failed', reason },
  ]);
  await assert.rejects(client.dispatch({ subagent: 'js-none' }), { code: 'not_found' });
});

test('grants for one dispatch, and for good', { skip }, async (t) => {
  const client = connect(t);
  await client.capabilities.register({ name: name('more'), files: { f: 'more\n' } });
  const subagent = await agent(client, 'granted', 'cat /capabilities/js-more/f', { grantable: { capabilities: [name('more')] } });
  assert.equal((await client.dispatch({ subagent })).exitCode, 1);
  assert.equal((await client.dispatch({ subagent, capabilities: [name('more')] })).output.stdout, 'more\n');
  await assert.rejects(client.dispatch({ subagent, secrets: ['KEY'] }), { code: 'forbidden', message: /KEY/ });
  const { number } = await client.agents.assign(subagent, { capabilities: [name('more')] });
  assert.equal(number, 2);
  assert.equal((await client.dispatch({ subagent })).output.stdout, 'more\n');
});

test('what is recorded can be raised', { skip }, async (t) => {
  const client = connect(t);
  const subagent = await agent(client, 'quiet', 'true', { record: 'off' });
  assert.equal((await client.dispatch({ subagent }).resolved).record, 'off');
  assert.equal((await client.dispatch({ subagent, record: 'full' }).resolved).record, 'full');
  await assert.rejects(client.dispatch({ subagent, record: 'off' }), { code: 'invalid', message: /only raise/ });
});

test('events come in order, while it runs and afterwards', { skip }, async (t) => {
  const client = connect(t);
  const run = client.dispatch({ subagent: await agent(client, 'teller', 'echo one; echo two >&2') });
  const live = [];
  for await (const event of run) live.push(event);
  assert.deepEqual(live.map((e) => e.n), live.map((_, i) => i + 1));
  assert.equal(live[0].event, 'dispatch.queued');
  assert.equal(live.at(-1).event, 'dispatch.finished');
  assert.equal(live.at(-1).exit_code, 0);
  for (const word of ['dispatch.resolved', 'cell.boot', 'agent.output']) assert.ok(live.some((e) => e.event === word), word);
  const text = (stream) => live.filter((e) => e.event === 'agent.output' && e.stream === stream).map((e) => e.text).join('');
  assert.deepEqual([text('stdout'), text('stderr')], ['one\n', 'two\n']);
  const later = [];
  for await (const event of client.dispatches.get(await run.id)) later.push(event);
  assert.deepEqual(later, live);
});

test('an event comes before the end', { skip }, async (t) => {
  const client = connect(t);
  const run = client.dispatch({ subagent: await agent(client, 'waiter', 'echo ready; exec sleep 1000') });
  for await (const event of run) if (event.event === 'agent.output') break;
  assert.match((await run.status()).state, /^(starting|running)$/);
  await run.cancel();
  await assert.rejects(run.exitCode, { name: 'CloisterError', code: 'cancelled' });
  assert.equal((await run.ended).state, 'cancelled');
  assert.equal(await run.stdout, 'ready\n');
});

test('one key is one dispatch', { skip }, async (t) => {
  const client = connect(t);
  const subagent = await agent(client, 'once', 'echo ran');
  const idempotencyKey = `js-${process.pid}-${Date.now()}`;
  const runs = Array.from({ length: 8 }, () => client.dispatch({ subagent, idempotencyKey }));
  const ids = new Set(await Promise.all(runs.map((run) => run.id)));
  assert.equal(ids.size, 1);
  assert.equal(await runs[0].stdout, 'ran\n');
  const other = await agent(client, 'other', 'true');
  await assert.rejects(client.dispatch({ subagent: other, idempotencyKey }).id, { name: 'CloisterError', status: 409 });
});

test('versions', { skip }, async (t) => {
  const client = connect(t);
  const first = await client.env.register({ name: name('versions'), values: { A: '1' } });
  const again = await client.env.register({ name: name('versions'), values: { A: '1' } });
  assert.deepEqual([first.new, again.new, again.hash], [true, false, first.hash]);
  const second = await client.env.register({ name: name('versions'), values: { A: '2' } });
  assert.notEqual(second.hash, first.hash);
  const text = JSON.stringify(await client.env.versions(name('versions')));
  assert.ok(text.includes(first.hash) && text.includes(second.hash));
  assert.ok(JSON.stringify(await client.env.get(`${name('versions')}@${first.hash}`)).includes('"A":"1"'));
  assert.ok(JSON.stringify(await client.env.get(name('versions'))).includes('"A":"2"'));
  assert.ok(await client.env.diff(name('versions'), { from: first.hash, to: second.hash }));
  assert.ok(JSON.stringify(await client.env.list({ limit: 1000 })).includes(name('versions')));
  await client.env.retire(name('versions'));
  const subagent = await agent(client, 'retired', 'true');
  await assert.rejects(client.dispatch({ subagent, env: name('versions') }).id, { name: 'CloisterError' });
});

test('a policy', { skip }, async (t) => {
  const client = connect(t);
  const policy = await client.policies.register({ name: name('policy'), document: { version: 1, egress: [{ allow: 'a.example' }] } });
  assert.equal(policy.kind, 'policy');
  const subagent = await agent(client, 'governed', 'true', { policy: name('policy') });
  const run = client.dispatch({ subagent });
  assert.match((await run.resolved).policy.hash, /^sha256:/);
  assert.equal(await run.exitCode, 0);
});

test('what a new user does wrong is told', { skip }, async (t) => {
  const client = connect(t);
  await assert.rejects(client.subagent.get('js-none'), { code: 'not_found', status: 404, message: /js-none/ });
  await assert.rejects(client.dispatch({ subagent: 'js-none' }).resolved, { name: 'CloisterError', message: /js-none/ });
  await assert.rejects(client.env.register({ name: 'js-bad', values: { A: 1 } }), { name: 'CloisterError', pointer: '/values/A' });
  await assert.rejects(client.env.register({ name: '../x', values: {} }), { name: 'CloisterError', pointer: '/name' });
  await assert.rejects(client.capabilities.register({ name: 'js-bad', files: { '../x': '' } }), { name: 'CloisterError', message: /\.\.\/x|path/ });
  await assert.rejects(client.subagent.register({ name: 'js-bad', comand: ['x'] }), { name: 'CloisterError', message: /comand/ });
  const failing = client.dispatch({ subagent: await agent(client, 'missing', 'true', { command: ['no-such-program'] }) });
  await assert.rejects(failing.exitCode, { code: 'failed', message: /no-such-program/ });
});

test('cells', { skip }, async (t) => {
  const client = connect(t);
  const run = client.dispatch({ subagent: await agent(client, 'sleeper', 'echo ready; exec sleep 1000') });
  for await (const event of run) if (event.event === 'agent.output') break;
  const { cell } = await run.status();
  assert.ok((await client.cells.list()).cells.some((c) => c.cell === cell));
  assert.equal((await client.cells.get(cell)).state, 'running');
  await client.cells.ttl(cell, '1h', { why: 'it is slow' });
  const page = await client.cells.timeline(cell, { type: 'steer', limit: 5 });
  assert.equal(page.records[0].event.why, 'it is slow');
  assert.deepEqual(await client.cells.secrets(cell), { secrets: [] });
  assert.deepEqual(await client.cells.budget(cell), { budgets: [] });
  assert.deepEqual(await client.approvals.list({ cell, state: 'pending' }), { approvals: [] });
  await assert.rejects(client.cells.policy(cell), { code: 'no_policy' });
  await assert.rejects(client.cells.allow(cell, 'a.example'), { code: 'no_policy' });
  await assert.rejects(client.cells.revoke(cell, 'KEY'), { code: 'not_found' });
  await assert.rejects(client.approvals.approve(`${cell}-1`), { code: 'not_found' });
  await assert.rejects(client.approvals.refuse(`${cell}-1`, 'no'), { code: 'not_found' });
  await client.cells.kill(cell);
  await assert.rejects(run.exitCode, { name: 'CloisterError' });
});

test('over TLS with a token', { skip: skip || (url === undefined && 'CLOISTER_TEST_URL is not set') }, async (t) => {
  const client = connect(t, { url, token, ca: readFileSync(ca) });
  const run = client.dispatch({ subagent: await agent(client, 'far', 'echo far') });
  assert.equal(await run.stdout, 'far\n');
  await assert.rejects(connect(t, { url, token: 'wrong', ca: readFileSync(ca) }).version(), { status: 401 });
  await assert.rejects(connect(t, { url, token }).version(), { code: 'unreachable' });
});
