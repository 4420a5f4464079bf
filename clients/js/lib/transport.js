// transport.js - requests to the service, over its socket or TCP, each tried again while it restarts.
import { closeSync, constants, openSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { basename, dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { CloisterError } from './error.js';

const ANSWER_MAX = 256 << 20; // bytes of an answer that is read whole
const TRIES = 7; // with pauses of 0.1, 0.2, ... s between them: 6 s in all
const PAUSE_MS = 100;
const ADDRESS_MAX = 107; // bytes of a socket's path

// Nobody was there, or went away while it was asked.
const GONE = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE', 'ECONNABORTED']);
// Nobody was there, so nobody was asked.
const ABSENT = new Set(['ECONNREFUSED', 'ENOENT']);

/** Where `cloister serve` of this user listens, as the program itself decides. */
export function defaultSocket(env = process.env, uid = process.getuid?.()) {
  if (env.CLOISTER_RUNTIME_DIR?.startsWith('/')) return `${env.CLOISTER_RUNTIME_DIR}/serve.sock`;
  if (uid === 0) return '/run/cloister/serve.sock';
  if (env.XDG_RUNTIME_DIR?.startsWith('/')) return `${env.XDG_RUNTIME_DIR}/cloister/serve.sock`;
  return `/tmp/cloister-${uid}/serve.sock`;
}

function place({ socket, url, token, ca }) {
  if (socket !== undefined && url !== undefined) {
    throw new CloisterError('invalid', 'give a socket or a url, not both');
  }
  if (url === undefined) return { base: { socketPath: socket ?? defaultSocket(), host: 'localhost' }, http };
  const at = new URL(url);
  if (at.protocol !== 'http:' && at.protocol !== 'https:') {
    throw new CloisterError('invalid', `'${url}' is neither http nor https`);
  }
  if (at.pathname !== '/' || at.search !== '' || at.username !== '') {
    throw new CloisterError('invalid', `'${url}' is to be only a scheme, a host and a port`);
  }
  const base = { host: at.hostname.replace(/^\[|\]$/g, ''), port: at.port || undefined };
  if (ca !== undefined && at.protocol === 'https:') base.ca = ca;
  return { base, http: at.protocol === 'https:' ? https : http, token };
}

/** A socket's path may be longer than an address can be: then by way of its folder. */
function reach(base) {
  if (base.socketPath === undefined || Buffer.byteLength(base.socketPath) <= ADDRESS_MAX) return { base, close() {} };
  const folder = openSync(dirname(base.socketPath), constants.O_RDONLY | constants.O_DIRECTORY);
  const socketPath = `/proc/self/fd/${folder}/${basename(base.socketPath)}`;
  return { base: { ...base, socketPath }, close: () => closeSync(folder) };
}

export class Transport {
  #http;
  #base;
  #agent;
  #token;
  #name;
  #answered = false; // it was there once, so it may come back

  constructor(options) {
    const { base, http: module, token } = place(options);
    this.#http = module;
    this.#base = base;
    this.#token = token;
    this.#agent = new module.Agent({ keepAlive: true });
    this.#name = base.socketPath ?? options.url;
  }

  close() {
    this.#agent.destroy();
  }

  #unreachable(error) {
    const hint = this.#base.socketPath === undefined ? '' : ': is `cloister serve` running?';
    return new CloisterError('unreachable', `cannot reach cloister at ${this.#name} (${error.code ?? error.message})${hint}`, {
      cause: error,
    });
  }

  async #once({ method, path, headers, body, signal, once }) {
    const { base, close } = reach(this.#base);
    try {
      return await new Promise((resolve, reject) => {
        const request = this.#http.request({ ...base, agent: once ? false : this.#agent, method, path, headers, signal }, resolve);
        request.on('error', reject);
        request.end(body);
      });
    } finally {
      close();
    }
  }

  /** The answer's head; its body is the caller's to read. Whatever is asked may be asked twice, but with `once`: then
   * only as long as nobody was there. `body` is sent as JSON, `raw` as it is. */
  async open({ method = 'GET', path, body, raw, headers = {}, accept = 'application/json', signal, once = false }) {
    const all = { accept, ...headers };
    if (this.#token !== undefined) all.authorization = `Bearer ${this.#token}`;
    if (body !== undefined) {
      body = Buffer.from(JSON.stringify(body));
      all['content-type'] = 'application/json';
      all['content-length'] = body.length;
    } else if (method !== 'GET') {
      body = raw;
      if (raw !== undefined) all['content-type'] = 'application/octet-stream';
      all['content-length'] = raw?.length ?? 0;
    }
    for (let n = 1; ; n++) {
      try {
        const answer = await this.#once({ method, path, headers: all, body, signal, once });
        this.#answered = true;
        return answer;
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        const gone = once ? ABSENT : GONE;
        if (!this.#answered || !gone.has(error.code) || n === TRIES) throw this.#unreachable(error);
      }
      await sleep(PAUSE_MS * 2 ** (n - 1), undefined, { signal });
    }
  }

  /** The whole body of an answer, a Buffer; an error that the service told is thrown. */
  async read(answer) {
    const parts = [];
    let size = 0;
    try {
      for await (const part of answer) {
        size += part.length;
        if (size > ANSWER_MAX) throw new CloisterError('protocol', `an answer is over ${ANSWER_MAX >> 20} MiB`);
        parts.push(part);
      }
    } catch (error) {
      throw error instanceof CloisterError ? error : this.#unreachable(error);
    }
    const data = Buffer.concat(parts);
    if (answer.statusCode >= 200 && answer.statusCode < 300) return data;
    throw told(answer.statusCode, data);
  }

  /** Asks, and gives the body whole: a Buffer. */
  async bytes(what) {
    return this.read(await this.open(what));
  }

  async json(what) {
    const data = await this.bytes(what);
    try {
      return JSON.parse(data.toString('utf8'));
    } catch (cause) {
      throw new CloisterError('protocol', `the answer to ${what.method ?? 'GET'} ${what.path} is no JSON`, { cause });
    }
  }
}

function told(status, data) {
  try {
    const { code, message, pointer } = JSON.parse(data.toString('utf8')).error;
    return new CloisterError(String(code), String(message), { status, pointer });
  } catch {
    return new CloisterError('protocol', `the service answered ${status} without saying why`, { status });
  }
}

/** "/v1/a/b?c=d"; undefined in the query is left out. */
export function path(parts, query = {}) {
  const words = Object.entries(query).filter(([, value]) => value !== undefined);
  const search = new URLSearchParams(words.map(([key, value]) => [key, String(value)])).toString();
  return `/v1/${parts.map((part) => encodeURIComponent(part)).join('/')}${search === '' ? '' : `?${search}`}`;
}
