// target.js - where a client's dispatches run, as its constructor says.
import { CloisterError } from './error.js';
import { path } from './transport.js';

/** What the constructor takes besides a target. */
const CLIENTS = new Set(['socket', 'url', 'token', 'ca', 'target', 'engine', 'store']);

/** Members of every target; others are keys of its engine. */
const MEMBERS = new Set([
  'description', 'pool', 'workers', 'slots', 'once', 'idle', 'image', 'service', 'cpus', 'memory', 'env', 'secrets',
]);

const ENGINES = { docker: 'docker', swarm: 'swarm', kubernetes: 'kubernetes', ecs: 'ecs', fargate: 'ecs' };

/** Those of this machine, which nobody registers. */
const OWN = new Set(['local', 'docker']);

function invalid(text) {
  return new CloisterError('invalid', text);
}

/** The target that the options describe, as it is registered; undefined: they only name one, or none. */
function describe({ target, engine: said }, rest) {
  const keys = Object.keys(rest);
  if (keys.length === 0 && said === undefined) return undefined;
  if (target === undefined) throw invalid(`a client without a target takes no '${said === undefined ? keys[0] : 'engine'}'`);
  if (OWN.has(target)) {
    throw invalid(`the target '${target}' is this machine, and takes no '${said === undefined ? keys[0] : 'engine'}': ` +
      'give an engine of another machine another name');
  }
  const engine = ENGINES[said ?? target];
  if (engine === undefined) throw invalid(`the target '${target}' needs an 'engine': docker, swarm, kubernetes, ecs or fargate`);
  const object = { name: target, engine };
  const own = (said ?? target) === 'fargate' ? { launchType: 'FARGATE' } : {};
  for (const [key, value] of Object.entries(rest)) (MEMBERS.has(key) ? object : own)[key] = value;
  return Object.keys(own).length === 0 ? object : { ...object, [engine]: own };
}

/** A place, without what is only for opening it. */
function place(url) {
  return url.replace(/\?.*$/s, '').replace(/^([^:]+:\/\/)[^/]*@/, '$1').replace(/\/+$/, '');
}

export class Target {
  #transport;
  #object;
  #store;
  #ready;

  constructor(transport, options) {
    const rest = Object.entries(options).filter(([key, value]) => !CLIENTS.has(key) && value !== undefined);
    this.#transport = transport;
    this.#object = describe(options, Object.fromEntries(rest));
    this.#store = options.store;
    this.name = options.target;
    if (this.#store === undefined && this.#object === undefined) this.#ready = Promise.resolve();
  }

  async #check() {
    const { registry, blobs } = await this.#transport.json({ path: path(['store']) });
    const wanted = place(this.#store);
    if (wanted === registry || wanted === blobs) return;
    const has = [registry, blobs].filter((one) => one !== null).join(' and ') || 'its data folder';
    throw new CloisterError('store', `the service keeps everything in ${has}, not in ${wanted}: start it with that store`);
  }

  /** Settled once dispatches can go there: the store is that of the service, and the target is registered. */
  ready() {
    this.#ready ??= (async () => {
      if (this.#store !== undefined) await this.#check();
      if (this.#object !== undefined) await this.#transport.json({ method: 'POST', path: path(['targets']), body: this.#object });
    })();
    // Whoever asks again may have more luck.
    this.#ready.catch(() => { this.#ready = undefined; });
    return this.#ready;
  }

  /** Asks for the dispatch BODY, there unless it names another target. */
  async dispatch(body, signal) {
    await this.ready();
    const all = this.name === undefined || body.target !== undefined ? body : { ...body, target: this.name };
    return this.#transport.json({ method: 'POST', path: path(['dispatches']), body: all, signal });
  }
}
