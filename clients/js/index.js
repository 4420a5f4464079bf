// index.js - what users of the package see.
import { Client } from './lib/client.js';

export { Client };
export { Dispatch } from './lib/dispatch.js';
export { DispatchResult } from './lib/result.js';
export { Command, ExecResult, Sandbox, Terminal, Watch } from './lib/sandbox.js';
export { CloisterError } from './lib/error.js';

let usual;

/** `new Client()`, made when it is first used: what the environment says may be no concern of others. */
export const client = new Proxy(Object.create(Client.prototype), {
  get(_, name) {
    usual ??= new Client();
    const value = usual[name];
    return typeof value === 'function' ? value.bind(usual) : value;
  },
});
