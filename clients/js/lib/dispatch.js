// dispatch.js - one dispatch: its events as they come, and its results.
import { Awaited } from './awaited.js';
import { CloisterError } from './error.js';
import { follow } from './events.js';
import { DispatchResult } from './result.js';
import { path } from './transport.js';

/**
 * What comes of it is promised by `id`, `resolved`, `ended`, `exitCode`, `stdout` and `stderr`;
 * each is fetched when it is first asked for. It can be iterated over for its events, as often as
 * one likes: each time from the first. Awaiting the dispatch itself gives a DispatchResult once it
 * is over.
 */
export class Dispatch extends Awaited {
  #transport;
  #begun;
  #signal;
  #kept = new Map();

  /** `begun` is what POST /v1/dispatches answered, or will. */
  constructor(transport, begun, signal) {
    super();
    this.#transport = transport;
    this.#begun = begun;
    this.#signal = signal;
    // Whoever asks for something is told; nobody has to ask.
    begun.catch(() => {});
  }

  #once(name, get) {
    if (!this.#kept.has(name)) this.#kept.set(name, get());
    return this.#kept.get(name);
  }

  async #at(...rest) {
    return path(['dispatches', await this.id, ...rest]);
  }

  get id() {
    return this.#once('id', async () => (await this.#begun).id);
  }

  /** Names and content hashes of everything that it runs with. */
  get resolved() {
    return this.#once('resolved', async () => (await this.#begun).resolved ?? (await this.status()).resolved);
  }

  /** Everything that came of it, as values, once it is over; also if it did not end well. */
  get result() {
    return this.#once('result', async () => {
      const events = [];
      for await (const event of this) events.push(event);
      this.#kept.set('ended', this.#kept.get('ended') ?? this.status());
      const [status, resolution] = await Promise.all([this.ended, this.resolved]);
      const [stdout, stderr] = await Promise.all([this.stdout, this.stderr]);
      return new DispatchResult(this, { status, resolution, events, output: { stdout, stderr } });
    });
  }

  /** How it ended: {state, exit_code, reason, ...}; also if that is not well. */
  get ended() {
    return this.#once('ended', async () => {
      for await (const event of this) if (isLast(event)) break;
      return this.status();
    });
  }

  /** The agent's exit code; a CloisterError if it did not come to one. */
  get exitCode() {
    return this.#once('exitCode', async () => {
      const end = await this.ended;
      if (end.state === 'finished') return end.exit_code;
      throw new CloisterError(end.state, end.reason ?? `dispatch ${end.id} is ${end.state}`, { dispatch: end });
    });
  }

  /** All of it, as text, once the dispatch is over. */
  get stdout() {
    return this.#once('stdout', async () => (await this.output('stdout')).toString('utf8'));
  }

  get stderr() {
    return this.#once('stderr', async () => (await this.output('stderr')).toString('utf8'));
  }

  /** The bytes of `stdout` or `stderr`. */
  async output(stream = 'stdout') {
    await this.ended;
    return this.#transport.bytes({
      path: path(['dispatches', await this.id, 'output'], { stream }),
      accept: 'application/octet-stream',
      signal: this.#signal,
    });
  }

  /** As it is now. */
  async status() {
    return this.#transport.json({ path: await this.#at(), signal: this.#signal });
  }

  /** What the agent put in /out, once the dispatch is over: {files: [{path, hash, size, executable}], ...}. */
  async files() {
    await this.ended;
    return this.#transport.json({ path: await this.#at('files'), signal: this.#signal });
  }

  /** The bytes of one of them. */
  async file(name) {
    await this.ended;
    return this.#transport.bytes({
      path: await this.#at('files', ...name.split('/')),
      accept: 'application/octet-stream',
      signal: this.#signal,
    });
  }

  async cancel() {
    return this.#transport.json({ method: 'POST', path: await this.#at('cancel') });
  }

  async *[Symbol.asyncIterator]() {
    yield* follow(this.#transport, await this.#at('events'), isLast, this.#signal);
  }
}

function isLast(event) {
  return event.event === 'dispatch.finished';
}
