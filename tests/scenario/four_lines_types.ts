// Uses every shape of the four lines by its type.  Where a type must refuse something, the line before it expects an
// error, and without one this file does not compile.  It is also run, so the types must be true.
import { Client, client, CloisterError } from './clients/js/index.js';
import type {
  Agent, Capability, Content, Dispatch, DispatchOptions, DispatchResult, Env, Event, Hash, Registered, Resolution,
  ResolvedContents, Root, State,
} from './clients/js/index.js';

function check(truth: boolean, what: string): asserts truth {
  if (!truth) throw new Error(`not so: ${what}`);
}

// ---- registering

const echo: Capability = {
  name: 'echo-cap',
  files: { 'agora-setup.sh': '#!/bin/sh\necho hello from agora-worker\n', 'setup.sh': '', 'b': new Uint8Array([1]),
           'run': { content: '#!/bin/sh\n', executable: true } },
};
const listed: Capability = { name: 'more', files: [{ path: 'f', content: 'text', executable: false }] };
const roots: Root[] = ['host', 'none', 'minimal', 'image:tiny:1', 'capability:more', { image: 'tiny:1' }, { capability: 'more' }];
const plain: Agent = { name: 'echo', capabilities: ['echo-cap'] };
const whole: Agent = {
  name: 'whole', command: ['sh', '-c', 'echo "$LOG_LEVEL"'], capabilities: ['echo-cap'], env: ['minimal'], root: roots[2]!,
  grantable: { capabilities: ['more'], secrets: ['KEY'] },
};
const minimal: Env = { name: 'minimal', values: { LOG_LEVEL: 'info' } };
const registered: Registered = await client.capabilities.register(echo);
await client.capabilities.register(listed);
await client.subagent.register(plain);
await client.agents.register(whole);
await client.env.register(minimal);
const next: Registered = await client.subagent.assign('echo', { env: ['minimal'], capabilities: ['more'], secrets: ['KEY'] });
const hashes: Hash[] = [registered.hash, next.hash];
check(hashes.every((hash) => hash.startsWith('sha256:')) && next.new && next.kind === 'agent', 'versions have hashes');
// @ts-expect-error: a root is one of the words, an image or a capability
const wrongRoot: Root = 'debian';
// @ts-expect-error: values are texts
const wrongEnv: Env = { name: 'x', values: { N: 1 } };
// @ts-expect-error: a file has a content
const wrongFile: Capability = { name: 'x', files: [{ path: 'f' }] };
void [wrongRoot, wrongEnv, wrongFile];

// ---- dispatching

const options: DispatchOptions = { subagent: 'whole', env: 'minimal', target: 'local', workerImage: '', capabilities: ['more'] };
const running: Dispatch = client.dispatch(options);
const id: string = await running.id;
const early: Resolution = await running.resolved;
const result: DispatchResult = await running;
const again: DispatchResult = await client.dispatches.get(id);
check(early.agent.name === 'whole' && again.stdout === result.stdout, 'a dispatch is found again');
// @ts-expect-error: a dispatch names its agent
void (() => client.dispatch({ env: 'minimal' }));
// @ts-expect-error: an image is a text
void (() => client.dispatch({ subagent: 'echo', workerImage: 7 }));

// ---- values, not promises

const resolved: ResolvedContents = result.resolved;
const contents: Content[] = [resolved.subagent, ...resolved.capabilities, ...resolved.env];
const contentHash: Hash = resolved.subagent.contentHash;
const text: string = result.stdout;
const exitCode: number | null = result.exitCode;
const state: State = result.state;
const reason: string | null = result.reason;
const output: { stdout: string; stderr: string } = result.output;
const digest: Hash | undefined = resolved.image?.digest;
const program: Hash | undefined = resolved.programs[0]?.hash;
const starts: { start: string; hashes: Hash[] }[] = resolved.starts;
// @ts-expect-error: it is a text already
void (() => result.stdout.then);
// @ts-expect-error: our own name for it is in `resolution`
void (() => resolved.subagent.hash);
// @ts-expect-error: results do not change
void (() => { result.exitCode = 0; });
check(contents.every((one) => one.contentHash.startsWith('sha256:')) && contentHash === result.resolution.agent.hash, 'hashes');
check(exitCode === 0 && state === 'finished' && reason === null, `it finished: ${reason}`);
check(output.stdout === 'hello from agora-worker\ninfo\n' && output.stderr === '', 'output');
check(digest !== undefined && program !== undefined && starts.length > 0, 'an image has a digest, and programs have hashes');
check(JSON.stringify(Object.keys(resolved)) === '["subagent","capabilities","env"]', 'only these are printed');

// ---- events

const events: Event[] = result.events;
for await (const event of client.dispatches.get(id)) check(event.kind === events[event.n - 1]?.kind, 'events come again');
const ran: Event | undefined = events.find((event) => event.kind === 'setup-script.ran');
const printed: string | undefined = ran?.stdout;
const status: number | null | undefined = ran?.exitCode;
check(printed === 'hello from agora-worker\n' && status === 0, 'a set-up has its output');
check(text.split('\n').every((line) => typeof (JSON.parse(line) as Event).kind === 'string'), 'each line is an event');

// ---- failures

// ---- targets

const fargate = new Client({ target: 'fargate', cluster: 'agents', subnets: ['subnet-1'], store: 's3://bucket/prefix' });
const builders: Client = new Client({ target: 'builders', engine: 'swarm', image: 'worker:1', workers: { max: 4 } });
const here = new Client({ target: 'local' });
// @ts-expect-error: subnets are a list
void (() => new Client({ target: 'fargate', subnets: 'subnet-1' }));
// @ts-expect-error: there is no such key
void (() => new Client({ target: 'fargate', clutser: 'agents' }));
// @ts-expect-error: only a target has an engine's keys
void (() => new Client({ cluster: 'agents' }));
const there: Registered = await here.targets.register({ name: 'far', engine: 'ecs', image: 'worker:1', ecs: { cluster: 'agents' } });
check(there.kind === 'target', 'targets are registered');
for (const client of [fargate, builders, here]) client.close();

const one = new Client();
const failed: CloisterError | undefined = await one.dispatch({ subagent: 'echo', secrets: ['OTHER'] }).then(
  () => undefined, (error: unknown) => (error instanceof CloisterError ? error : undefined));
check(failed?.status === 403 || failed?.code !== undefined, 'nothing beyond the rules is granted');
one.close();
client.close();
console.log('ok');
