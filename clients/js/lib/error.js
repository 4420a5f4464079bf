// error.js - everything that goes wrong, as one class.

/**
 * `code` is what the service said (`not_found`, `invalid`, ...), how a dispatch ended
 * (`failed`, `cancelled`, `timed_out`), `unreachable` where nobody answered, or `protocol` where
 * the answer made no sense. `message` is one sentence for people.
 */
export class CloisterError extends Error {
  constructor(code, message, { status, pointer, dispatch, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'CloisterError';
    this.code = code;
    this.status = status; // of HTTP
    this.pointer = pointer; // which part of what was sent, as a JSON pointer
    this.dispatch = dispatch; // how it ended, if it is about a dispatch
  }
}
