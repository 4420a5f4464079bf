// registry.js - registered objects of one kind.
import { CloisterError } from './error.js';
import { path } from './transport.js';

export class Registry {
  #transport;
  #kind;

  constructor(transport, kind) {
    this.#transport = transport;
    this.#kind = kind;
  }

  /** {kind, name, hash, new, created}; the same content again is the same version. */
  async register(object) {
    const body = this.#kind === 'capabilities' ? { ...object, files: listFiles(object.files ?? []) } : object;
    return this.#transport.json({ method: 'POST', path: path([this.#kind]), body });
  }

  async list({ limit, after } = {}) {
    return this.#transport.json({ path: path([this.#kind], { limit, after }) });
  }

  /** `name`, or `name@sha256:...`. */
  async get(reference) {
    return this.#transport.json({ path: path([this.#kind, reference]) });
  }

  async versions(name) {
    return this.#transport.json({ path: path([this.#kind, name, 'versions']) });
  }

  async diff(name, { from, to } = {}) {
    return this.#transport.json({ path: path([this.#kind, name, 'diff'], { from, to }) });
  }

  async retire(name, { hash } = {}) {
    return this.#transport.json({ method: 'DELETE', path: path([this.#kind, name], { hash }) });
  }
}

export class Agents extends Registry {
  #transport;

  constructor(transport, kind) {
    super(transport, kind);
    this.#transport = transport;
  }

  /** Its next version: {capabilities, env, secrets} are added to its own. */
  async assign(name, { capabilities, env, secrets }) {
    return this.#transport.json({
      method: 'POST',
      path: path(['agents', name, 'assign']),
      body: { capabilities, env, secrets },
    });
  }
}

function isPlain(file) {
  return typeof file === 'object' && file !== null && !ArrayBuffer.isView(file);
}

/** {"a/b": "text" | bytes | {content, executable}} or [{path, content, executable}], as the API has it. */
export function listFiles(files) {
  const list = Array.isArray(files)
    ? files
    : Object.entries(files).map(([name, file]) =>
        isPlain(file) ? { ...file, path: name } : { path: name, content: file },
      );
  return list.map(({ path: name, content, ...rest }) => {
    if (typeof content === 'string') return { path: name, content, ...rest };
    if (ArrayBuffer.isView(content)) {
      const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
      return { path: name, content_base64: bytes.toString('base64'), ...rest };
    }
    if (content === undefined) return { path: name, ...rest };
    throw new CloisterError('invalid', `the content of '${name}' is neither text nor bytes`);
  });
}
