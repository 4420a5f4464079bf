// sandbox.js - a cell that stays: commands, files and ports in it.
import { randomUUID } from 'node:crypto';

import { Awaited } from './awaited.js';
import { Client } from './client.js';
import { CloisterError } from './error.js';
import { follow, parseEvents } from './events.js';
import { path } from './transport.js';

const PIECE = 1 << 20; // bytes of input in one request
const KEPT_MAX = 64 << 20; // bytes of each stream that a result has

const DISPOSE = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose');

/** What `create` takes, and what the API calls it. */
const NAMES = {
  agent: 'agent',
  env: 'env',
  image: 'worker_image',
  capabilities: 'capabilities',
  secrets: 'secrets',
  record: 'record',
  target: 'target',
  timeout: 'timeout',
  onBehalfOf: 'on_behalf_of',
  idempotencyKey: 'idempotency_key',
};

function bytes(data) {
  if (typeof data === 'string') return Buffer.from(data);
  if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  throw new CloisterError('invalid', 'this is neither text nor bytes');
}

/** The events of an answer, parsed. It is not taken up again: what it is about ends with it. */
async function* read(transport, answer) {
  try {
    for await (const { data } of parseEvents(answer)) yield JSON.parse(data);
  } catch (cause) {
    throw cause instanceof CloisterError ? cause : new CloisterError('unreachable', 'the connection to cloister broke off', { cause });
  }
}

/** What came of a command. */
export class ExecResult {
  constructor({ exitCode, timedOut, stdout, stderr, truncated }) {
    this.exitCode = exitCode;
    this.timedOut = timedOut;
    this.stdout = stdout.toString('utf8');
    this.stderr = stderr.toString('utf8');
    this.truncated = truncated;
    Object.defineProperty(this, 'bytes', { value: { stdout, stderr } });
  }
}

/**
 * A command that runs. Iterate over it for its output as it comes, or await it for its ExecResult.
 * Both may be done: what was iterated over is in the result too.
 */
export class Command extends Awaited {
  #transport;
  #parts;
  #signal;
  #opened;
  #events;
  #turn = Promise.resolve();
  #kept = { stdout: [], stderr: [] };
  #sizes = { stdout: 0, stderr: 0 };
  #truncated = false;
  #end;
  #result;

  constructor(transport, sandbox, { body, input, signal }) {
    super();
    this.#transport = transport;
    this.#signal = signal;
    this.#parts = ['sandboxes', sandbox, 'exec'];
    this.#opened = this.#open(body);
    // Whoever asks for something is told; nobody has to ask.
    this.#opened.catch(() => {});
    if (input !== undefined) this.#pump(input).catch(() => {});
  }

  async #open(body) {
    const answer = await this.#transport.open({
      method: 'POST', path: path(this.#parts), body, accept: 'text/event-stream', signal: this.#signal, once: true,
    });
    if (answer.statusCode !== 200) await this.#transport.read(answer);
    this.#events = read(this.#transport, answer);
    const first = await this.#events.next();
    if (first.value?.event !== 'exec.started') throw new CloisterError('protocol', 'the command has no beginning');
    return first.value.exec;
  }

  async #pump(input) {
    for await (const data of input) await this.write(data);
    await this.end();
  }

  #keep({ stream, data }) {
    this.#sizes[stream] += data.length;
    if (this.#sizes[stream] > KEPT_MAX) this.#truncated = true;
    else this.#kept[stream].push(data);
  }

  /** The next part of the output; undefined at the end. */
  #next() {
    const next = this.#turn.then(async () => {
      await this.#opened;
      if (this.#end !== undefined) return undefined;
      const { value: event } = await this.#events.next();
      if (event?.event === 'exec.output') {
        const data = event.base64 === undefined ? Buffer.from(event.text) : Buffer.from(event.base64, 'base64');
        const part = { stream: event.stream, data, text: data.toString('utf8') };
        this.#keep(part);
        return part;
      }
      if (event?.event === 'exec.exited') {
        this.#end = event;
        return undefined;
      }
      throw event?.event === 'exec.lost' ? new CloisterError('over', event.reason) :
        new CloisterError('unreachable', 'the connection to cloister broke off');
    });
    this.#turn = next.catch(() => {});
    return next;
  }

  async *[Symbol.asyncIterator]() {
    for (let part = await this.#next(); part !== undefined; part = await this.#next()) yield part;
  }

  get result() {
    this.#result ??= (async () => {
      while ((await this.#next()) !== undefined);
      return new ExecResult({
        exitCode: this.#end.exit_code,
        timedOut: this.#end.timed_out,
        stdout: Buffer.concat(this.#kept.stdout),
        stderr: Buffer.concat(this.#kept.stderr),
        truncated: this.#truncated,
      });
    })();
    return this.#result;
  }

  async #post(word, { query, ...rest }) {
    await this.#transport.bytes({ method: 'POST', path: path([...this.#parts, await this.#opened, word], query), ...rest });
  }

  /** To its standard input, if it was started with `stdin` or `tty`; settled once the command has taken it. */
  async write(data) {
    const all = bytes(data);
    for (let at = 0; at < all.length; at += PIECE) await this.#post('input', { raw: all.subarray(at, at + PIECE), once: true });
  }

  /** Its standard input ends. */
  async end() {
    await this.#post('input', { raw: Buffer.alloc(0), query: { end: true }, once: true });
  }

  async signal(name) {
    await this.#post('signal', { body: { signal: name } });
  }

  async kill() {
    await this.signal('KILL');
  }

  async resize(rows, columns) {
    await this.#post('resize', { body: { rows, columns } });
  }
}

/** The terminal of a cell's agent. Whoever leaves it, the cell goes on. */
export class Terminal {
  #transport;
  #parts;
  #answer;
  #events;
  #left = false;

  constructor(transport, parts, answer, events) {
    this.#transport = transport;
    this.#parts = parts;
    this.#answer = answer;
    this.#events = events;
    this.exitCode = undefined;
  }

  /** Joins the terminal at `parts`, a path. */
  static async join(transport, parts, { rows = 24, columns = 80, signal } = {}) {
    const answer = await transport.open({
      method: 'POST', path: path(parts), body: { rows, columns }, accept: 'text/event-stream', signal, once: true,
    });
    if (answer.statusCode !== 200) await transport.read(answer);
    const events = read(transport, answer);
    const first = await events.next();
    if (first.value?.event !== 'attach.started') throw new CloisterError('protocol', 'the terminal has no beginning');
    return new Terminal(transport, [...parts, first.value.attach], answer, events);
  }

  async #next() {
    try {
      return (await this.#events.next()).value;
    } catch (error) {
      if (this.#left) return undefined;
      throw error;
    }
  }

  async *[Symbol.asyncIterator]() {
    try {
      while (!this.#left && this.exitCode === undefined) {
        const event = await this.#next();
        if (event?.event === 'attach.output') {
          yield event.base64 === undefined ? Buffer.from(event.text) : Buffer.from(event.base64, 'base64');
        } else if (event?.event === 'attach.exited') {
          this.exitCode = event.exit_code;
        } else if (!this.#left) {
          throw event?.event === 'attach.lost' ? new CloisterError('over', event.reason) :
            new CloisterError('unreachable', 'the connection to cloister broke off');
        }
      }
    } finally {
      this.detach();
    }
  }

  async #post(word, rest) {
    await this.#transport.bytes({ method: 'POST', path: path([...this.#parts, word]), ...rest });
  }

  /** Types it; settled once the terminal has taken it. */
  async write(data) {
    const all = bytes(data);
    for (let at = 0; at < all.length; at += PIECE) await this.#post('input', { raw: all.subarray(at, at + PIECE), once: true });
  }

  async resize(rows, columns) {
    await this.#post('resize', { body: { rows, columns } });
  }

  detach() {
    this.#left = true;
    this.#answer.destroy();
  }

  [DISPOSE]() {
    this.detach();
    return Promise.resolve();
  }
}

/** Changes as they happen, from `watch` on; `close` or `break` ends it. */
export class Watch {
  #answer;
  #events;

  constructor(answer, events) {
    this.#answer = answer;
    this.#events = events;
  }

  async *[Symbol.asyncIterator]() {
    try {
      for await (const event of this.#events) {
        const name = event.path_base64 === undefined ? {} : { pathBytes: Buffer.from(event.path_base64, 'base64') };
        yield { change: event.event.replace(/^file\./, ''), path: event.path, ...name };
      }
    } finally {
      this.close();
    }
  }

  close() {
    this.#answer.destroy();
  }

  [DISPOSE]() {
    this.close();
    return Promise.resolve();
  }
}

/** Files of the cell, as its agent sees them. */
class Files {
  #transport;
  #id;

  constructor(transport, id) {
    this.#transport = transport;
    this.#id = id;
  }

  #at(word, query) {
    return path(['sandboxes', this.#id, word], query);
  }

  /** The bytes of a regular file. */
  async read(name) {
    return this.#transport.bytes({ path: this.#at('file', { path: name }), accept: 'application/octet-stream' });
  }

  async readText(name) {
    return (await this.read(name)).toString('utf8');
  }

  /** Text or bytes; missing folders are made. */
  async write(name, data) {
    await this.#transport.bytes({ method: 'PUT', path: this.#at('file', { path: name }), raw: bytes(data) });
  }

  /** {entries, truncated}, sorted by name. */
  async list(name) {
    const { entries, truncated } = await this.#transport.json({ path: this.#at('folder', { path: name }) });
    return {
      truncated,
      entries: entries.map(({ name: text, name_base64: coded, modified_ms: modified, target_base64: far, ...rest }) => ({
        name: text ?? Buffer.from(coded, 'base64').toString('utf8'),
        ...(coded === undefined ? {} : { nameBytes: Buffer.from(coded, 'base64') }),
        ...(far === undefined ? {} : { target: Buffer.from(far, 'base64').toString('utf8') }),
        modified: new Date(modified),
        ...rest,
      })),
    };
  }

  /** Settled once the file or folder is watched: later changes are not missed. */
  async watch(name, { recursive, signal } = {}) {
    const answer = await this.#transport.open({
      path: this.#at('watch', { path: name, recursive }), accept: 'text/event-stream', signal, once: true,
    });
    if (answer.statusCode !== 200) await this.#transport.read(answer);
    const events = read(this.#transport, answer);
    await events.next();
    return new Watch(answer, events);
  }
}

export class Sandbox {
  #transport;
  #close;

  /** A new one, settled once it can be used. Without a `client`, `new Client()` is used, and closed with the sandbox. */
  static create({ client, ...options }) {
    const own = client ?? new Client();
    return own.sandboxes.create(options, client === undefined ? () => own.close() : undefined);
  }

  /** One that was made before, by its id. */
  static connect(id, { client } = {}) {
    const own = client ?? new Client();
    return own.sandboxes.connect(id, client === undefined ? () => own.close() : undefined);
  }

  /** Use `Sandbox.create`, `Sandbox.connect` or `client.sandboxes`. */
  constructor(transport, id, close = () => {}) {
    this.#transport = transport;
    this.#close = close;
    this.id = id;
    this.files = new Files(transport, id);
  }

  /** As it is now. */
  async status() {
    return this.#transport.json({ path: path(['dispatches', this.id]) });
  }

  /** Begins at once: iterate over it, or await it. `command` is a list of words. */
  exec(command, { env, cwd, input, stdin, timeout, tty, signal } = {}) {
    if (!Array.isArray(command)) throw new CloisterError('invalid', "a command is a list of words: ['sh', '-c', 'ls | wc']");
    const body = { command, env, cwd, stdin, timeout, tty };
    const streams = input !== undefined && typeof input[Symbol.asyncIterator] === 'function';
    if (typeof input === 'string') body.input = input;
    else if (streams) body.stdin = true;
    else if (input !== undefined) body.input_base64 = bytes(input).toString('base64');
    return new Command(this.#transport, this.id, { body, input: streams ? input : undefined, signal });
  }

  /** The terminal of its agent, which is registered with `terminal: true`; settled once this client has joined it. */
  async attach(options) {
    return Terminal.join(this.#transport, ['sandboxes', this.id, 'attach'], options);
  }

  /** {host, port, url} of this machine, for a port of the cell's loopback. */
  async publish(port) {
    const { host, port: outer } = await this.#transport.json({
      method: 'POST', path: path(['sandboxes', this.id, 'publish']), body: { port },
    });
    return { host, port: outer, url: `http://localhost:${outer}` };
  }

  /** Ends it, with everything in it; settled once it has ended. */
  async kill() {
    try {
      await this.#transport.json({ method: 'POST', path: path(['dispatches', this.id, 'cancel']) });
    } catch (error) {
      if (error.code !== 'over') throw error;
    }
    for await (const event of follow(this.#transport, path(['dispatches', this.id, 'events']), isLast)) if (isLast(event)) break;
    const status = await this.status();
    this.#close();
    return status;
  }

  async [DISPOSE]() {
    await this.kill();
  }
}

function isLast(event) {
  return event.event === 'dispatch.finished';
}

export class Sandboxes {
  #transport;
  #target;

  constructor(transport, target) {
    this.#transport = transport;
    this.#target = target;
  }

  /** Settled once it can be used. */
  async create({ signal, ...rest }, close) {
    const body = { sandbox: true };
    for (const [name, value] of Object.entries(rest)) {
      if (NAMES[name] === undefined) throw new CloisterError('invalid', `a sandbox takes no '${name}'`);
      if (value !== undefined) body[NAMES[name]] = value;
    }
    if (typeof body.env === 'string') body.env = [body.env];
    // So that asking again, after an answer was lost, does not make two.
    body.idempotency_key ??= randomUUID();
    const begun = await this.#target.dispatch(body, signal);
    const events = path(['dispatches', begun.id, 'events']);
    for await (const event of follow(this.#transport, events, isLast, signal)) {
      if (event.event === 'agent.started') return new Sandbox(this.#transport, begun.id, close);
      if (isLast(event)) throw new CloisterError(event.state, event.reason ?? `the sandbox ${begun.id} is ${event.state}`);
    }
    throw new CloisterError('protocol', 'the sandbox has no end');
  }

  /** One that was made before, by whomever. */
  async connect(id, close) {
    const { id: whole, state } = await this.#transport.json({ path: path(['dispatches', id]) });
    if (state !== 'running' && state !== 'starting' && state !== 'queued') {
      throw new CloisterError('over', `the sandbox ${whole} is ${state}`);
    }
    return new Sandbox(this.#transport, whole, close);
  }
}
