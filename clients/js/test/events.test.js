import assert from 'node:assert/strict';
import test from 'node:test';

import { parseEvents } from '../lib/events.js';
import { listFiles } from '../lib/registry.js';
import { defaultSocket, path } from '../lib/transport.js';

async function parse(...chunks) {
  const found = [];
  for await (const event of parseEvents(chunks.map((c) => Buffer.from(c)))) found.push(event);
  return found;
}

test('events are parsed however they are cut', async () => {
  const text = ': hello\nid: 1\nevent: a\ndata: {"x":"ü"}\n\nid: 2\r\ndata:one\r\ndata: two\r\n\r\ndata: unfinished';
  const want = [
    { id: '1', event: 'a', data: '{"x":"ü"}' },
    { id: '2', event: undefined, data: 'one\ntwo' },
  ];
  assert.deepEqual(await parse(text), want);
  const bytes = Buffer.from(text);
  for (let at = 1; at < bytes.length; at++) {
    assert.deepEqual(await parse(bytes.subarray(0, at), bytes.subarray(at)), want, `cut at ${at}`);
  }
  assert.deepEqual(await parse(...[...bytes].map((b) => Buffer.from([b]))), want);
});

test('paths and queries are escaped', () => {
  assert.equal(path(['agents', 'a/../b', 'x@y']), '/v1/agents/a%2F..%2Fb/x%40y');
  assert.equal(path(['dispatches'], { state: 'a b', after: undefined, limit: 3 }), '/v1/dispatches?state=a+b&limit=3');
});

test('files are given in either form', () => {
  const want = [
    { path: 'a/b', content: 'text' },
    { path: 'c', content_base64: 'AP8=' },
    { path: 'setup.sh', content: '#!/bin/sh\n', executable: true },
  ];
  const script = { content: '#!/bin/sh\n', executable: true };
  assert.deepEqual(listFiles({ 'a/b': 'text', c: Uint8Array.of(0, 255), 'setup.sh': script }), want);
  assert.deepEqual(
    listFiles([
      { path: 'a/b', content: 'text' },
      { path: 'c', content: Buffer.from([0, 255]) },
      { path: 'setup.sh', ...script },
    ]),
    want,
  );
  assert.throws(() => listFiles({ a: 3 }), { code: 'invalid', message: /'a' is neither/ });
});

test('the socket is where the program has it', () => {
  assert.equal(defaultSocket({ CLOISTER_RUNTIME_DIR: '/x' }, 0), '/x/serve.sock');
  assert.equal(defaultSocket({}, 0), '/run/cloister/serve.sock');
  assert.equal(defaultSocket({ XDG_RUNTIME_DIR: '/run/user/5' }, 5), '/run/user/5/cloister/serve.sock');
  assert.equal(defaultSocket({}, 5), '/tmp/cloister-5/serve.sock');
});
