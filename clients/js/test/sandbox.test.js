// Against a real `cloister serve`: CLOISTER_TEST_SOCKET is where it listens.
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';

import { Client, CloisterError, ExecResult, Sandbox } from '../index.js';

const { CLOISTER_TEST_SOCKET: socket } = process.env;
const skip = socket === undefined && 'CLOISTER_TEST_SOCKET is not set';
const DISPOSE = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose');

async function refused(promise) {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof CloisterError, String(error));
    return error;
  }
  return assert.fail('it is not refused');
}

function get(url) {
  return new Promise((resolve, reject) => {
    http.get(url, { agent: false }, (answer) => {
      let text = '';
      answer.on('data', (data) => { text += data; }).on('end', () => resolve(text));
    }).on('error', reject);
  });
}

test('a sandbox', { skip }, async (t) => {
  const client = new Client({ socket });
  await client.agents.register({ name: 'js-box', sandbox: true });
  const box = await Sandbox.create({ agent: 'js-box', timeout: '5m', record: 'full', client });
  t.after(() => client.close());

  await t.test('raises what is recorded', async () => {
    assert.equal((await box.status()).resolved.record, 'full');
  });

  await t.test('runs commands', async () => {
    const done = await box.exec(['sh', '-c', 'cat; echo "$WORD" >&2; pwd; exit 3'], { input: 'in\n', env: { WORD: 'über' }, cwd: '/tmp' });
    assert.ok(done instanceof ExecResult);
    assert.deepEqual({ ...done }, { exitCode: 3, timedOut: false, stdout: 'in\n/tmp\n', stderr: 'über\n', truncated: false });
    const odd = await box.exec(['printf', '\\377\\000x']);
    assert.deepEqual(odd.bytes.stdout, Buffer.from([255, 0, 120]));
    assert.equal((await box.exec(['cat'], { input: Buffer.from([0, 255]) })).bytes.stdout.length, 2);
    assert.match((await refused(box.exec(['no-such-program']))).message, /no such command in the cell/);
    const late = await box.exec(['sleep', '1000'], { timeout: '50ms' });
    assert.deepEqual([late.timedOut, late.exitCode], [true, 137]);
    assert.throws(() => box.exec('ls'), { code: 'invalid' });
  });

  await t.test('streams', async () => {
    const command = box.exec(['sh', '-c', 'while read line; do echo "got $line"; done; echo end >&2'], { stdin: true });
    const seen = [];
    await command.write('one\n');
    for await (const { stream, text } of command) {
      seen.push(`${stream} ${text}`);
      if (text === 'got one\n') await command.write(Buffer.from('two\n'));
      if (text === 'got two\n') await command.end();
    }
    assert.deepEqual(seen, ['stdout got one\n', 'stdout got two\n', 'stderr end\n']);
    assert.equal((await command).stdout, 'got one\ngot two\n');
    assert.equal((await refused(command.write('more'))).code, 'not_found');
    const fed = await box.exec(['wc', '-c'], { input: (async function* () { yield 'ab'; yield new Uint8Array(3 << 20); })() });
    assert.equal(fed.stdout, `${2 + (3 << 20)}\n`);
    // More than any buffer holds, taken slowly.
    let size = 0;
    for await (const { data } of box.exec(['head', '-c', '3000000', '/dev/zero'])) size += data.length;
    assert.equal(size, 3000000);
  });

  await t.test('signals, a terminal, and a client that goes away', async () => {
    const stubborn = box.exec(['sh', '-c', 'trap "echo caught; exit 7" TERM; echo ready; while :; do sleep 0.01; done']);
    for await (const { text } of stubborn) if (text === 'ready\n') await stubborn.signal('TERM');
    assert.deepEqual([(await stubborn).exitCode, (await stubborn).stdout], [7, 'ready\ncaught\n']);
    const terminal = box.exec(['sh', '-c', 'stty size; read x; stty size'], { tty: { rows: 33, columns: 77 } });
    let screen = '';
    for await (const { stream, text } of terminal) {
      assert.equal(stream, 'stdout');
      screen += text;
      if (screen === '33 77\r\n') {
        await terminal.resize(20, 60);
        await terminal.write('\n');
      }
    }
    assert.match(screen, /^33 77\r\n[^]*20 60\r\n$/);
    const stop = new AbortController();
    const gone = box.exec(['sh', '-c', 'echo ready; exec sleep 4321'], { signal: stop.signal });
    for await (const { text } of gone) { assert.equal(text, 'ready\n'); break; }
    stop.abort();
    await assert.rejects(Promise.resolve(gone));
    while ((await box.exec(['pgrep', '-x', 'sleep'])).exitCode === 0); // until it is killed
  });

  await t.test('has files', async () => {
    const all = Buffer.alloc(2 << 20, 'canary');
    await box.files.write('/tmp/a/b/file', all);
    assert.ok((await box.files.read('/tmp/a/b/file')).equals(all));
    await box.files.write('/tmp/a/text', 'über\n');
    await box.files.write('/tmp/a/none', '');
    assert.equal(await box.files.readText('/tmp/a/text'), 'über\n');
    assert.equal((await box.files.read('/tmp/a/none')).length, 0);
    await box.exec(['sh', '-c', 'cd /tmp/a; ln -s /etc/passwd l; touch "$(printf "\\377")"']);
    const { entries, truncated } = await box.files.list('/tmp/a');
    assert.equal(truncated, false);
    assert.deepEqual(entries.map(({ name, type, target }) => [name, type, target]), [
      ['\ufffd', 'file', undefined], ['b', 'folder', undefined], ['l', 'link', '/etc/passwd'], ['none', 'file', undefined],
      ['text', 'file', undefined]]);
    assert.deepEqual(entries[0].nameBytes, Buffer.from([255]));
    assert.ok(Math.abs(entries[4].modified - Date.now()) < 600e3 && entries[4].mode === 0o644 && entries[4].size === 6);
    assert.deepEqual([(await refused(box.files.read('/none'))).status, (await refused(box.files.list('/none'))).status], [404, 404]);
    const watch = await box.files.watch('/tmp/a', { recursive: true });
    await box.files.write('/tmp/a/new/file', 'x');
    const seen = [];
    for await (const { change, path } of watch) {
      seen.push(`${change} ${path}`);
      if (path === '/tmp/a/new/file') break;
    }
    assert.deepEqual(seen, ['created /tmp/a/new', 'created /tmp/a/new/file']);
    assert.equal((await refused(box.files.watch('/none'))).code, 'not_found');
  });

  await t.test('publishes ports', async () => {
    const server = box.exec(['python3', '-u', '-m', 'http.server', '8123', '--bind', '127.0.0.1'], { cwd: '/tmp/a' });
    for await (const { text } of server) if (text.includes('Serving')) break;
    const { host, port, url } = await box.publish(8123);
    assert.deepEqual([host, url], ['127.0.0.1', `http://localhost:${port}`]);
    assert.equal((await box.publish(8123)).port, port);
    assert.equal(await get(`http://127.0.0.1:${port}/text`), 'über\n');
    await server.kill();
    assert.equal((await server).exitCode, 137);
  });

  await t.test('is found again, and ends', async () => {
    const again = await Sandbox.connect(box.id, { client });
    assert.equal(again.id, box.id);
    const running = again.exec(['sleep', '1000']);
    const lost = refused(Promise.resolve(running));
    assert.equal((await box.kill()).state, 'cancelled');
    assert.ok(['over', 'unreachable'].includes((await lost).code));
    assert.equal((await refused(box.files.read('/tmp/a/text'))).code, 'over');
    assert.equal((await refused(Promise.resolve(box.exec(['true'])))).code, 'over');
    assert.equal((await refused(Sandbox.connect(box.id, { client }))).code, 'over');
    assert.equal((await box.kill()).state, 'cancelled');
  });
});

test('a sandbox lives as long as it may, and no other agent is one', { skip }, async (t) => {
  const client = new Client({ socket });
  t.after(() => client.close());
  await client.agents.register({ name: 'js-box', sandbox: true });
  await client.agents.register({ name: 'js-plain', command: ['true'] });
  assert.match((await refused(Sandbox.create({ agent: 'js-plain', client }))).message, /is no sandbox/);
  assert.equal((await refused(client.sandboxes.create({ agent: 'js-box', image: 'no-such-image:1' }))).status >= 400, true);
  assert.equal((await refused(client.sandboxes.create({ agent: 'js-box', imgae: 'x' }))).code, 'invalid');
  const box = await client.sandboxes.create({ agent: 'js-box', timeout: '1s' });
  await refused(Promise.resolve(box.exec(['sleep', '1000'])));
  assert.equal((await client.dispatches.get(box.id).ended).state, 'timed_out');
  const other = await client.sandboxes.create({ agent: 'js-box' });
  await other[DISPOSE]();
  assert.equal((await other.status()).state, 'cancelled');
});

test('a terminal', { skip }, async (t) => {
  const client = new Client({ socket });
  await client.agents.register({ name: 'js-desk', sandbox: true, terminal: true, command: ['sh', '-c', 'while read a; do echo "got $a"; stty size; done; exit 3'] });
  const box = await Sandbox.create({ agent: 'js-desk', timeout: '5m', client });
  t.after(() => client.close());
  const terminal = await box.attach({ rows: 30, columns: 90 });
  await terminal.write('one\n');
  let text = '';
  for await (const data of terminal) {
    text += data;
    if (text.includes('30 90')) break;
  }
  assert.match(text, /got one\r\n30 90/);
  assert.equal(terminal.exitCode, undefined);
  assert.equal((await refused(terminal.write('x'))).code, 'not_found');
  // What was there is shown to the next; the end of the cell is the end of its terminal.
  const again = await box.attach();
  await again.resize(31, 91);
  await again.write('two\n');
  text = '';
  for await (const data of again) {
    text += data;
    if (text.includes('31 91')) again.write('\x04').catch(() => {});
  }
  assert.match(text, /got one[^]*got two\r\n31 91/);
  assert.equal(again.exitCode, 3);
  assert.equal((await refused(box.attach())).code, 'over');
});
