// events.js - server-sent events, followed across reconnections.
import { setTimeout as sleep } from 'node:timers/promises';

import { CloisterError } from './error.js';

const LINE_MAX = 16 << 20; // of one event's data
const FAILURES_MAX = 8; // one after the other, without an event between them
const PAUSE_MS = 100;

/** The events of one stream: {id, event, data}, data as text. */
export async function* parseEvents(chunks) {
  const decoder = new TextDecoder('utf-8');
  let text = '';
  let now = { data: [] };
  for await (const chunk of chunks) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > LINE_MAX) throw new CloisterError('protocol', 'an event is too large');
    // A CR at the end may be half of a line's end.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    text = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (now.data.length > 0) yield { id: now.id, event: now.event, data: now.data.join('\n') };
        now = { id: now.id, data: [] };
        continue;
      }
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'data') now.data.push(value);
      else if (field === 'id') now.id = value;
      else if (field === 'event') now.event = value;
    }
  }
}

function read(data) {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw new CloisterError('protocol', 'an event is no JSON', { cause });
  }
}

/** What `data` has, parsed, until `isLast` of it; a stream that breaks off is taken up again behind
 * the last one that came. */
export async function* follow(transport, path, isLast, signal) {
  let last;
  let failures = 0;
  for (;;) {
    try {
      const answer = await transport.open({
        path,
        accept: 'text/event-stream',
        headers: last === undefined ? {} : { 'last-event-id': last },
        signal,
      });
      if (answer.statusCode !== 200) await transport.read(answer);
      try {
        for await (const { id, data } of parseEvents(answer)) {
          failures = 0;
          if (id !== undefined) last = id;
          const event = read(data);
          yield event;
          if (isLast(event)) return;
        }
      } finally {
        answer.destroy();
      }
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      // What the service said is its word; what broke off is not.
      if (error instanceof CloisterError && error.code !== 'unreachable') throw error;
      if (++failures > FAILURES_MAX) throw error;
      await sleep(PAUSE_MS * 2 ** failures, undefined, { signal });
      continue;
    }
    // It ended in order and is not over: the service stops, or wants the connection back.
    if (++failures > FAILURES_MAX) throw new CloisterError('protocol', `the events at ${path} end too early`);
    await sleep(PAUSE_MS, undefined, { signal });
  }
}
