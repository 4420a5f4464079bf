// client.js - a connection to `cloister serve`.
import { randomUUID } from 'node:crypto';

import { Dispatch } from './dispatch.js';
import { CloisterError } from './error.js';
import { Agents, Registry } from './registry.js';
import { Sandboxes } from './sandbox.js';
import { Target } from './target.js';
import { path, Transport } from './transport.js';

/** What `dispatch` takes, and what the API calls it. */
const NAMES = {
  subagent: 'agent',
  env: 'env',
  target: 'target',
  workerImage: 'worker_image',
  capabilities: 'capabilities',
  secrets: 'secrets',
  record: 'record',
  onBehalfOf: 'on_behalf_of',
  retries: 'retries',
  timeout: 'timeout',
  idempotencyKey: 'idempotency_key',
};

function request({ input, signal, ...rest }) {
  const body = {};
  for (const [name, value] of Object.entries(rest)) {
    if (NAMES[name] === undefined) throw new CloisterError('invalid', `dispatch takes no '${name}'`);
    if (value !== undefined) body[NAMES[name]] = value;
  }
  if (typeof body.env === 'string') body.env = [body.env];
  if (typeof input === 'string') body.input = input;
  else if (ArrayBuffer.isView(input)) {
    body.input_base64 = Buffer.from(input.buffer, input.byteOffset, input.byteLength).toString('base64');
  } else if (input !== undefined) throw new CloisterError('invalid', 'the input is neither text nor bytes');
  // So that asking again, after an answer was lost, does not run it twice.
  body.idempotency_key ??= randomUUID();
  return { body, signal };
}

class Cells {
  #transport;

  constructor(transport) {
    this.#transport = transport;
  }

  async list({ all } = {}) {
    return this.#transport.json({ path: path(['cells'], { all }) });
  }

  async get(cell) {
    return this.#transport.json({ path: path(['cells', cell]) });
  }

  async #do(cell, verb, query) {
    return this.#transport.json({ method: 'POST', path: path(['cells', cell, verb], query) });
  }

  async stop(cell, { grace } = {}) {
    return this.#do(cell, 'stop', { grace });
  }

  async kill(cell) {
    return this.#do(cell, 'kill');
  }

  async freeze(cell) {
    return this.#do(cell, 'freeze');
  }

  async thaw(cell) {
    return this.#do(cell, 'thaw');
  }

  /** `kill`, `freeze` or `thaw` every cell. */
  async all(verb) {
    return this.#transport.json({ method: 'POST', path: path(['cells', verb]) });
  }

  async #post(parts, body) {
    return this.#transport.json({ method: 'POST', path: path(['cells', ...parts]), body });
  }

  async ttl(cell, ttl, { why } = {}) {
    return this.#post([cell, 'ttl'], { ttl, why });
  }

  /** A page: the newest first, or from `after` on. */
  async timeline(cell, { after, before, limit, type, search } = {}) {
    return this.#transport.json({ path: path(['cells', cell, 'timeline'], { after, before, limit, type, search }) });
  }

  async policy(cell) {
    return this.#transport.json({ path: path(['cells', cell, 'policy']) });
  }

  /** With `hash` only if that is the policy in force. */
  async setPolicy(cell, text, { why, now, hash } = {}) {
    return this.#transport.json({ method: 'PUT', path: path(['cells', cell, 'policy']), body: { text, why, now, hash } });
  }

  async allow(cell, rule, { why, now } = {}) {
    return this.#post([cell, 'allow'], { rule, why, now });
  }

  async deny(cell, rule, { why, now } = {}) {
    return this.#post([cell, 'deny'], { rule, why, now });
  }

  async budget(cell) {
    return this.#transport.json({ path: path(['cells', cell, 'budget']) });
  }

  async raiseBudget(cell, { name, kind, limit, why }) {
    return this.#post([cell, 'budget'], { name, kind, limit, why });
  }

  async secrets(cell) {
    return this.#transport.json({ path: path(['cells', cell, 'secrets']) });
  }

  async revoke(cell, secret, { why, quiet } = {}) {
    return this.#post([cell, 'secrets', secret, 'revoke'], { why, quiet });
  }

  async rotate(cell, secret, { why } = {}) {
    return this.#post([cell, 'secrets', secret, 'rotate'], { why });
  }
}

/** Requests that wait for people. */
class Approvals {
  #transport;

  constructor(transport) {
    this.#transport = transport;
  }

  async list({ cell, state } = {}) {
    return this.#transport.json({ path: path(['approvals'], { cell, state }) });
  }

  /** Once; with `for` all that its rule asks for, for so long; or with `how: 'rule'`. */
  async approve(id, { how, for: time, why } = {}) {
    const body = { how: how ?? (time === undefined ? 'once' : 'for'), for: time, why };

    return this.#transport.json({ method: 'POST', path: path(['approvals', id, 'approve']), body });
  }

  /** The agent is told the reason. */
  async refuse(id, reason) {
    return this.#transport.json({ method: 'POST', path: path(['approvals', id, 'refuse']), body: { reason } });
  }
}

class Dispatches {
  #transport;

  constructor(transport) {
    this.#transport = transport;
  }

  async list({ state, limit, after } = {}) {
    return this.#transport.json({ path: path(['dispatches'], { state, limit, after }) });
  }

  /** One that was begun before, by whomever. */
  get(id, { signal } = {}) {
    return new Dispatch(this.#transport, this.#transport.json({ path: path(['dispatches', id]), signal }), signal);
  }
}

export class Client {
  #transport;
  #target;

  /** {socket} or {url, token, ca}; by default the socket of this user's `cloister serve`. {target}, with its engine's
   * keys or without, is where its dispatches run. */
  constructor(options = {}) {
    const { CLOISTER_URL: url, CLOISTER_TOKEN: token } = process.env;
    const given = options.socket !== undefined || options.url !== undefined || url === undefined;

    this.#transport = new Transport(given ? options : { url, token, ...options });
    this.capabilities = new Registry(this.#transport, 'capabilities');
    this.subagent = this.agents = new Agents(this.#transport, 'agents');
    this.env = new Registry(this.#transport, 'envs');
    this.policies = new Registry(this.#transport, 'policies');
    this.dispatches = new Dispatches(this.#transport);
    this.targets = new Registry(this.#transport, 'targets');
    this.#target = new Target(this.#transport, options);
    this.sandboxes = new Sandboxes(this.#transport, this.#target);
    this.cells = new Cells(this.#transport);
    this.approvals = new Approvals(this.#transport);
  }

  async version() {
    return this.#transport.json({ path: path(['version']) });
  }

  /** Begins at once. Awaited, it is what came of it, as values; else what comes of it is in the Dispatch. */
  dispatch(options) {
    const { body, signal } = request(options);

    return new Dispatch(this.#transport, this.#target.dispatch(body, signal), signal);
  }

  /** Idle connections are closed; the client can still be used. */
  close() {
    this.#transport.close();
  }
}
