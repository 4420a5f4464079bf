// Uses every shape of sandboxes by its type, as four_lines_types.ts does for dispatches.
import { Client, CloisterError, Command, ExecResult, Sandbox, Terminal, Watch } from './clients/js/index.js';
import type { Agent, Change, Entry, ExecOptions, Output, SandboxOptions, Status, TerminalSize } from './clients/js/index.js';

function check(truth: boolean, what: string): asserts truth {
  if (!truth) throw new Error(`not so: ${what}`);
}

const client = new Client();
const agent: Agent = { name: 'typed', sandbox: true };
await client.agents.register(agent);
const options: SandboxOptions = { agent: 'typed', timeout: '5m', env: [], target: 'local' };
const box: Sandbox = await Sandbox.create({ ...options, client });
const again: Sandbox = await client.sandboxes.connect(box.id);
// @ts-expect-error: a sandbox names its agent
void (() => Sandbox.create({ timeout: '5m' }));
// @ts-expect-error: it has no policy of the caller's
void (() => Sandbox.create({ agent: 'typed', policy: 'web' }));

const size: TerminalSize = { rows: 24, columns: 80 };
const how: ExecOptions = { env: { A: 'b' }, cwd: '/tmp', input: new Uint8Array([104, 105]), timeout: '10s' };
const command: Command = again.exec(['sh', '-c', 'cat; echo $A >&2'], how);
const parts: Output[] = [];
for await (const part of command) parts.push(part);
const result: ExecResult = await command;
const code: number = result.exitCode;
const text: string = result.stdout;
const late: boolean = result.timedOut;
check(code === 0 && text === 'hi' && result.stderr === 'b\n' && !late && !result.truncated, 'a command has a result');
check(parts.map((part) => part.text).join('').length === 4 && result.bytes.stdout.length === 2, 'and output');
check((await box.exec(['tty'], { tty: size })).stdout.startsWith('/dev/pts/'), 'a terminal');
// @ts-expect-error: a command is a list of words
void (() => box.exec('ls'));
// @ts-expect-error: this is no signal
void (() => command.signal('SIGTERM'));
// @ts-expect-error: results do not change
void (() => { result.exitCode = 0; });

await client.agents.register({ name: 'typed-desk', sandbox: true, terminal: true, command: ['cat'] });
const desk: Sandbox = await Sandbox.create({ agent: 'typed-desk', client });
const terminal: Terminal = await desk.attach(size);
await terminal.write('x\n');
for await (const data of terminal) {
  const shown: Buffer = data;
  const ended: number | undefined = terminal.exitCode;
  check(shown.length > 0 && ended === undefined, 'what is typed');
  break;
}
await desk.kill();

const watch: Watch = await box.files.watch('/tmp');
await box.files.write('/tmp/file', 'text');
for await (const change of watch) {
  const one: Change = change;
  check(one.change === 'created' && one.path === '/tmp/file', 'changes');
  break;
}
const entries: Entry[] = (await box.files.list('/tmp')).entries;
check(entries[0]?.name === 'file' && entries[0].type === 'file' && entries[0].modified instanceof Date, 'entries');
check((await box.files.read('/tmp/file')).length === 4 && (await box.files.readText('/tmp/file')) === 'text', 'files');
const { host, port, url }: { host: string; port: number; url: string } = await box.publish(80);
check(host === '127.0.0.1' && url.endsWith(String(port)), 'ports');
const missing = await box.files.read('/none').then(() => undefined, (error: unknown) => (error instanceof CloisterError ? error : undefined));
check(missing?.code === 'not_found', 'errors');
const status: Status = await box.kill();
check(status.state === 'cancelled', 'the end');
await again[Symbol.asyncDispose]();
client.close();
console.log('ok');
