// awaited.js - objects that can be awaited for their `result`.

/** A class whose objects have a promise `result`, and are themselves promises of the same. */
export class Awaited {
  then(done, failed) {
    return this.result.then(done, failed);
  }

  catch(failed) {
    return this.result.catch(failed);
  }

  finally(always) {
    return this.result.finally(always);
  }
}
