// What no well-behaved service does on demand: connections that break, answers that make no sense.
import assert from 'node:assert/strict';
import http from 'node:http';
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';

import { Client, CloisterError } from '../index.js';

/** A service that answers each request with the next of ANSWERS; what it was asked. */
async function stub(t, ...answers) {
  const folder = await mkdtemp(join(tmpdir(), 'cloister-js-'));
  const socket = join(folder, 'serve.sock');
  const asked = [];
  const server = http.createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    asked.push({ method: request.method, path: request.url, headers: request.headers, body: body && JSON.parse(body) });
    await answers.shift()(response, request);
  });
  await new Promise((done) => server.listen(socket, done));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
    await rm(folder, { recursive: true });
  });
  const client = new Client({ socket });
  t.after(() => client.close());
  return { client, asked };
}

const json = (value, status = 200) => (response) => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
};
const hangUp = (response) => response.destroy();
const events = (...list) => (response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.end(list.map((e) => `id: ${e.n}\ndata: ${JSON.stringify(e)}\n\n`).join(''));
};
const cut = (...list) => (response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(list.map((e) => `id: ${e.n}\ndata: ${JSON.stringify(e)}\n\n`).join('') + 'data: {"ha', () => response.destroy());
};
const event = (n, name) => ({ dispatch: 'd1', event: name, n, time: '' });

test('an answer that was lost is asked for again with the same key', async (t) => {
  const { client, asked } = await stub(t, json({ version: 'x' }), hangUp, json({ id: 'd1', resolved: { a: 1 } }, 202));
  await client.version();
  const run = client.dispatch({ subagent: 'a', env: 'e', input: Uint8Array.of(0, 255), onBehalfOf: 'me', timeout: '1m' });
  assert.equal(await run.id, 'd1');
  assert.deepEqual(await run.resolved, { a: 1 });
  const [first, second] = asked.slice(1).map((q) => q.body);
  assert.deepEqual(first, second);
  const { idempotency_key: key, ...rest } = first;
  assert.match(key, /^[0-9a-f-]{36}$/);
  assert.deepEqual(rest, { agent: 'a', env: ['e'], input_base64: 'AP8=', on_behalf_of: 'me', timeout: '1m' });
});

test('events go on behind the last one', async (t) => {
  const all = [event(1, 'dispatch.queued'), event(2, 'cell.boot'), event(3, 'agent.output'), event(4, 'dispatch.finished')];
  const { client, asked } = await stub(
    t, json({ id: 'd1' }, 202), cut(all[0]), hangUp, events(all[1]), events(all[2], all[3], event(5, 'never')),
  );
  const seen = [];
  for await (const e of client.dispatch({ subagent: 'a' })) seen.push(e);
  assert.deepEqual(seen, all);
  assert.deepEqual(asked.slice(1).map((q) => q.headers['last-event-id']), [undefined, '1', '1', '2']);
});

test('how a dispatch ended is told, and rejected where a code is asked for', async (t) => {
  const end = { id: 'd1', state: 'timed_out', exit_code: null, reason: 'it took over 1 s' };
  const { client } = await stub(t, json({ id: 'd1' }, 202), events(event(1, 'dispatch.finished')), json(end), json('so far'));
  const run = client.dispatch({ subagent: 'a' });
  await assert.rejects(run.exitCode, { name: 'CloisterError', code: 'timed_out', message: 'it took over 1 s', dispatch: end });
  assert.deepEqual(await run.ended, end);
  assert.equal(await run.stdout, '"so far"');
});

test('errors are one class', async (t) => {
  const error = { code: 'invalid', message: 'there is no such agent', pointer: '/agent' };
  const { client } = await stub(t, json({ error }, 404), json([], 500), (r) => r.end('{'), hangUp, json({ error }, 404));
  await assert.rejects(client.subagent.get('x'), { code: 'invalid', message: error.message, status: 404, pointer: '/agent' });
  await assert.rejects(client.subagent.get('x'), { code: 'protocol', status: 500 });
  await assert.rejects(client.subagent.get('x'), { code: 'protocol', message: /GET \/v1\/agents\/x is no JSON/ });
  const run = client.dispatch({ subagent: 'x' });
  await assert.rejects(run.id, CloisterError);
  await assert.rejects(async () => { for await (const e of run) assert.fail(e); }, { code: 'invalid' });
  await assert.rejects(new Client({ socket: '/nonexistent/sock' }).version(), { code: 'unreachable', message: /cloister serve/ });
  assert.throws(() => client.dispatch({ subagent: 'x', agnet: 1 }), { code: 'invalid', message: /agnet/ });
  assert.throws(() => new Client({ url: 'ftp://x' }), { code: 'invalid' });
  assert.throws(() => new Client({ url: 'http://x', socket: '/y' }), { code: 'invalid' });
});

test('a dispatch that nobody asks about rejects nothing', async (t) => {
  const refuse = json({ error: { code: 'invalid', message: 'no' } }, 400);
  let answered;
  const over = new Promise((done) => { answered = done; });
  const { client } = await stub(t, (r) => refuse(r.on('close', answered)), json({}), json({}));
  let unhandled = 0;
  const count = () => unhandled++;
  process.on('unhandledRejection', count);
  t.after(() => process.off('unhandledRejection', count));
  const run = client.dispatch({ subagent: 'a' });
  await over;
  await client.version();
  await client.version();
  assert.equal(unhandled, 0);
  await assert.rejects(run.exitCode, { code: 'invalid' });
});

test('a path that is too long for an address is reached', async (t) => {
  const short = await mkdtemp(join(tmpdir(), 'cloister-js-'));
  const long = join(short, 'x'.repeat(120));
  const server = http.createServer((_, response) => json({ version: 'x' })(response));
  await mkdir(long);
  const folder = await open(long);
  await new Promise((done) => server.listen(`/proc/self/fd/${folder.fd}/serve.sock`, done));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
    await folder.close();
    await rm(short, { recursive: true });
  });
  const client = new Client({ socket: join(long, 'serve.sock') });
  t.after(() => client.close());
  assert.deepEqual(await client.version(), { version: 'x' });
});

test('waiting can be broken off', async (t) => {
  let asked;
  const waiting = new Promise((done) => { asked = done; });
  const { client } = await stub(t, json({ id: 'd1' }, 202), (r) => { r.writeHead(200); r.flushHeaders(); asked(); });
  const stop = new AbortController();
  const run = client.dispatch({ subagent: 'a', signal: stop.signal });
  const ended = run.ended;
  await waiting;
  stop.abort();
  await assert.rejects(ended, { name: 'AbortError' });
});
