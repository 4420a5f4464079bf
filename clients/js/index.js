// index.js - what users of the package see.
export { Client } from './lib/client.js';
export { Dispatch } from './lib/dispatch.js';
export { CloisterError } from './lib/error.js';
