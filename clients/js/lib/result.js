// result.js - what a dispatch came to: values, once it is over.

/** Members of an event that are about the event, or have another name there. */
const ABOUT = new Set([
  'dispatch', 'event', 'kind', 'n', 'time', 'step', 'exitCode', 'exit_code', 'status', 'path',
  'stdout_to', 'stderr_to', 'stderr', 'attempts', 'result', 'offset', 'size',
]);

/** {subagent, capabilities, env}: names and content hashes. All else that is resolved can be read from
 * it too (`resolved.image`), but is not printed with it. */
export function shapeResolved(resolution) {
  const name = ({ name, hash }) => ({ name, contentHash: hash });
  const shape = {
    subagent: name(resolution.agent),
    capabilities: resolution.capabilities.map(name),
    env: resolution.envs.map(name),
  };
  for (const [key, value] of Object.entries(resolution)) {
    if (!(key in shape)) Object.defineProperty(shape, key, { value, enumerable: false });
  }
  return shape;
}

function rest(event) {
  return Object.fromEntries(Object.entries(event).filter(([key]) => !ABOUT.has(key)));
}

function line(event) {
  const { kind, exitCode } = event;
  if (kind === 'setup-script.ran') {
    const { stderr, stdout_cut, stderr_cut } = event;
    const errors = stderr === '' ? {} : { stderr, stderr_cut };
    return { kind, exitCode, stdout: event.stdout, stdout_cut, ...errors };
  }
  if (kind === 'dispatch.finished') {
    const { state, reason } = event;
    return state === 'finished' ? { kind, exitCode } : { kind, exitCode, state, reason };
  }
  return { kind, ...(exitCode === undefined ? {} : { exitCode }), ...rest(event) };
}

/** The events of the last attempt as lines of JSON, from the start of its worker on. What a set-up
 * printed is in the line of its end alone. */
export function shapeLines(events) {
  const boot = events.findLastIndex((event) => event.kind === 'worker.boot');
  const end = { stdout: 0, stderr: 0 };
  const own = events.slice(boot < 0 ? events.length - 1 : boot);
  for (const event of own) {
    if (event.event !== 'setup.ran') continue;
    end.stdout = event.stdout_to ?? 0;
    end.stderr = event.stderr_to ?? 0;
  }
  return own
    .filter((event) => event.kind !== 'tools.checked')
    .filter((event) => event.kind !== 'agent.output' || event.offset >= end[event.stream])
    .map((event) => JSON.stringify(line(event)))
    .join('\n');
}

/**
 * What `await client.dispatch(...)` gives: everything is a value. `stdout` has the events of the
 * worker, one JSON object on each line; what the agent itself printed is in `output`.
 */
export class DispatchResult {
  #dispatch;

  constructor(dispatch, { status, resolution, events, output }) {
    this.#dispatch = dispatch;
    this.id = status.id;
    this.state = status.state;
    this.exitCode = status.exit_code;
    this.reason = status.reason;
    this.resolved = shapeResolved(resolution);
    this.stdout = shapeLines(events);
    this.output = output;
    for (const [key, value] of Object.entries({ status, resolution, events })) {
      Object.defineProperty(this, key, { value, enumerable: false });
    }
  }

  /** What the agent put in /out. */
  async files() {
    return this.#dispatch.files();
  }

  async file(name) {
    return this.#dispatch.file(name);
  }
}
