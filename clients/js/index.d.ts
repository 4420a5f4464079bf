/** What a version is called by: `name`, the newest, or `name@sha256:...`. */
export type Reference = string;
export type Hash = `sha256:${string}`;
export type Bytes = ArrayBufferView;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface ClientOptions {
  /** The socket of `cloister serve`; by default this user's. */
  socket?: string;
  /** `https://127.0.0.1:PORT`, in place of a socket; by default `CLOISTER_URL`. */
  url?: string;
  /** For a url; by default `CLOISTER_TOKEN`, where the url is `CLOISTER_URL`. */
  token?: string;
  /** For https: whom to trust, PEM. */
  ca?: string | Buffer;
  /** Where dispatches run that name no target; by default where their agents say. */
  target?: 'local' | 'docker' | 'fargate' | (string & {});
  /** `s3://BUCKET/PREFIX` or `postgres://HOST/DATABASE`: an error with the code `store`, before the first dispatch, if the
   * service keeps its contents of files, or its registry, elsewhere. */
  store?: string;
}

/** Registers the target before the first dispatch. `fargate` is `ecs` with the launch type FARGATE. */
export interface TargetOptions extends ClientOptions, Omit<Target, 'name' | 'engine' | Engine>, DockerKeys, SwarmKeys, KubernetesKeys, EcsKeys {
  target: string;
  /** By default what the target is called, if that is an engine. */
  engine?: Engine | 'fargate';
}

export type Engine = 'docker' | 'swarm' | 'kubernetes' | 'ecs';

export interface DockerKeys {
  host?: string;
  network?: string;
  runtime?: string;
  seccomp?: string;
  apparmor?: string;
}

export interface SwarmKeys extends Omit<DockerKeys, 'runtime'> {
  constraints?: string[];
  hostProc?: boolean;
}

export interface KubernetesKeys {
  context?: string;
  namespace?: string;
  serviceAccount?: string;
  runtimeClass?: string;
  nodeSelector?: { [label: string]: string };
  seccomp?: string;
  apparmor?: string;
  hostUsers?: boolean;
  pullSecrets?: string[];
  hostProc?: boolean;
  grace?: string;
}

export interface EcsKeys {
  region?: string;
  cluster?: string;
  subnets?: string[];
  securityGroups?: string[];
  assignPublicIp?: boolean;
  launchType?: string;
  taskDefinition?: string;
  container?: string;
  taskRole?: string;
  executionRole?: string;
  platformVersion?: string;
  logGroup?: string;
}

/** An engine on other machines that starts workers. */
export interface Target {
  name: string;
  engine: Engine;
  description?: string;
  /** The image of its workers. */
  image?: string;
  /** By default the target's name. */
  pool?: string;
  workers?: { min?: number; max?: number };
  slots?: number;
  once?: boolean;
  idle?: string;
  /** Which service the workers join: `HOST:PORT`. */
  service?: string;
  cpus?: string | number;
  memory?: string;
  /** Plain variables of workers. */
  env?: { [variable: string]: string };
  /** Variables of workers whose values are secrets of the engine. */
  secrets?: { [variable: string]: string };
  docker?: DockerKeys;
  swarm?: SwarmKeys;
  kubernetes?: KubernetesKeys;
  ecs?: EcsKeys;
}

export interface Registered {
  kind: 'capability' | 'agent' | 'env' | 'policy' | 'target';
  name: string;
  hash: Hash;
  /** Counts the versions of this name, from 1. */
  number: number;
  /** Whether this version was not there before. */
  new: boolean;
  /** When it was first registered. */
  created: string;
}

export interface File {
  path: string;
  content: string | Bytes;
  executable?: boolean;
}

export interface Capability {
  name: string;
  description?: string;
  /** `agora-setup.sh` and then `setup.sh` among them are run in the cell before the agent. */
  files?: File[] | { [path: string]: string | Bytes | Omit<File, 'path'> };
  rules?: Json[];
  secrets?: string[];
  tools?: string[];
  limits?: { [name: string]: Json };
}

export interface Agent {
  name: string;
  description?: string;
  /** Without one, the agent ends after its set-up. */
  command?: string[];
  capabilities?: Reference[];
  policy?: Reference | null;
  env?: Reference[];
  secrets?: string[];
  limits?: { [name: string]: Json };
  boundary?: 'namespace' | 'oci' | 'gvisor' | 'microvm' | 'strongest' | 'strongest,namespace' | 'strongest,oci' |
    'strongest,gvisor' | null;
  /** With the boundary oci or gvisor: a name such as crun, or an absolute path. */
  runtime?: string | null;
  /** What is recorded of its processes; by default `acts`, or what its policy demands. */
  record?: 'off' | 'acts' | 'full' | null;
  workspace?: { path: string; mode?: 'overlay' | 'ro' | 'rw' } | null;
  state?: 'none' | 'keep';
  delegate?: { agents: Reference[]; depth?: number; fan_out?: number };
  /** The root of its cells; by default the host's programs. */
  root?: Root | null;
  /** Whether clients may use its running cell: see Sandbox. */
  sandbox?: boolean;
  /** Its command has a terminal: see `Sandbox.attach`. */
  terminal?: boolean;
  /** What a dispatch may grant beyond all this; by default nothing. */
  grantable?: { capabilities?: Reference[]; secrets?: string[] } | null;
}

export type Root = 'host' | 'none' | 'minimal' | `image:${string}` | `capability:${Reference}` | { image: string } | { capability: Reference };

export interface Env {
  name: string;
  values: { [name: string]: string };
}

export interface Policy {
  name: string;
  /** What a cloister.yaml has, as JSON. */
  document: Json;
}

export interface Registry<T> {
  /** The same content again is the same version. */
  register(object: T): Promise<Registered>;
  list(options?: { limit?: number; after?: string }): Promise<any>;
  get(reference: Reference): Promise<any>;
  versions(name: string): Promise<any>;
  diff(name: string, options?: { from?: string; to?: string }): Promise<any>;
  /** No new dispatch uses it; its history stays. */
  retire(name: string, options?: { hash?: Hash }): Promise<any>;
}

export interface Agents extends Registry<Agent> {
  /** The agent's next version, with these added to its own. */
  assign(name: string, more: { capabilities?: Reference[]; env?: Reference[]; secrets?: string[] }): Promise<Registered>;
}

export interface DispatchOptions {
  subagent: Reference;
  env?: Reference | Reference[];
  target?: 'local' | 'docker' | (string & {});
  /** The root of its cell: an image; `''`: cloister's own minimal root. By default the agent's `root`. */
  workerImage?: string;
  /** Granted for this dispatch only; the agent's `grantable` must name them. */
  capabilities?: Reference[];
  secrets?: string[];
  /** What is recorded of its processes, at least: it can only raise the agent's. */
  record?: 'acts' | 'full';
  /** The agent's standard input. */
  input?: string | Bytes;
  /** On whose behalf. */
  onBehalfOf?: string;
  retries?: number;
  /** Of each attempt: `"90s"`, `"10m"`. */
  timeout?: string;
  /** Two requests with the same key are one dispatch; by default one of its own. */
  idempotencyKey?: string;
  /** Stops waiting; `cancel()` stops the dispatch. */
  signal?: AbortSignal;
}

export interface Named {
  name: string;
  hash: Hash;
}

/** Everything that a dispatch runs with, as the service records it. */
export interface Resolution {
  agent: Named;
  capabilities: Named[];
  envs: Named[];
  /** The policy in force; null: no network. */
  policy: { hash: Hash } | null;
  root: 'host' | 'none' | 'minimal' | { image: string } | { capability: Named };
  /** What is recorded of its processes; null: as its policy or the service has it. */
  record: 'off' | 'acts' | 'full' | null;
  /** The image that is the root. */
  image?: { name: string; digest: Hash };
  /** The programs of the root that are started by name, and the interpreters of scripts. */
  programs: { path: string; file: string; hash: Hash }[];
  /** The files that the kernel executes for each set-up and for the command. */
  starts: { start: string; hashes: Hash[] }[];
  /** Of the cloister that runs it. */
  build: Hash;
  [key: string]: unknown;
}

/** @deprecated The name of Resolution before there was a DispatchResult. */
export type Resolved = Resolution;

export interface Content {
  name: string;
  contentHash: Hash;
}

/** Names and content hashes. The other members of a Resolution can be read from it too, but JSON.stringify
 * leaves them out. */
export interface ResolvedContents {
  subagent: Content;
  capabilities: Content[];
  env: Content[];
  readonly image?: Resolution['image'];
  readonly programs: Resolution['programs'];
  readonly starts: Resolution['starts'];
  readonly root: Resolution['root'];
  readonly build: Hash;
}

export interface Event {
  dispatch: string;
  /** `dispatch.queued`, `dispatch.resolved`, `cell.boot`, `setup.ran`, `agent.output`, `dispatch.finished`... */
  event: string;
  /** The same as `event`, but for `worker.boot` (`cell.boot`), `setup-script.ran` and `tools.checked` (`setup.ran`). */
  kind: string;
  /** Of a set-up, an attempt or the dispatch; null if there is none. */
  exitCode?: number | null;
  /** What a set-up printed. */
  stdout?: string;
  stderr?: string;
  /** Counts from 1, without gaps. */
  n: number;
  time: string;
  [key: string]: any;
}

export type State = 'queued' | 'starting' | 'running' | 'finished' | 'failed' | 'cancelled' | 'timed_out';

export interface Status {
  id: string;
  state: State;
  /** The agent's, if it finished. */
  exit_code: number | null;
  /** Why it did not. */
  reason: string | null;
  attempts: number;
  [key: string]: any;
}

export interface ResultFile {
  path: string;
  hash: Hash;
  size: number;
  executable: boolean;
}

/** What came of a dispatch: everything is a value. */
export class DispatchResult {
  private constructor();
  readonly id: string;
  readonly state: State;
  /** The agent's; null if it did not come to one: see `state` and `reason`. */
  readonly exitCode: number | null;
  readonly reason: string | null;
  readonly resolved: ResolvedContents;
  /** The events of the worker, one JSON object on each line: `kind`, `exitCode`, `stdout`... */
  readonly stdout: string;
  /** What the agent printed, its set-up included. */
  readonly output: { stdout: string; stderr: string };
  readonly resolution: Resolution;
  readonly status: Status;
  readonly events: Event[];
  files(): Promise<{ files: ResultFile[]; [key: string]: any }>;
  file(path: string): Promise<Buffer>;
}

/** A dispatch while it runs; awaited, its DispatchResult. */
export interface Dispatch extends AsyncIterable<Event>, PromiseLike<DispatchResult> {
  readonly id: Promise<string>;
  /** Names and content hashes of everything that it runs with. */
  readonly resolved: Promise<Resolution>;
  /** What `await` gives. */
  readonly result: Promise<DispatchResult>;
  catch<T = never>(failed?: ((reason: any) => T | PromiseLike<T>) | null): Promise<DispatchResult | T>;
  finally(always?: (() => void) | null): Promise<DispatchResult>;
  /** How it ended, also if that is not well. */
  readonly ended: Promise<Status>;
  /** Rejected with a CloisterError whose code is the state, if the agent did not come to one. */
  readonly exitCode: Promise<number>;
  /** All of it, once the dispatch is over. */
  readonly stdout: Promise<string>;
  readonly stderr: Promise<string>;
  output(stream?: 'stdout' | 'stderr'): Promise<Buffer>;
  /** As it is now. */
  status(): Promise<Status>;
  /** What the agent put in /out. */
  files(): Promise<{ files: ResultFile[]; [key: string]: any }>;
  file(path: string): Promise<Buffer>;
  cancel(): Promise<Status>;
}

declare global {
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
}

export interface SandboxOptions {
  /** A registered agent with `sandbox: true`. */
  agent: Reference;
  env?: Reference | Reference[];
  /** The root of its cell, as `workerImage` of a dispatch. */
  image?: string;
  capabilities?: Reference[];
  secrets?: string[];
  /** What is recorded of its processes, at least: it can only raise the agent's. */
  record?: 'acts' | 'full';
  target?: 'local' | 'docker' | (string & {});
  /** How long it lives at most: `"10m"`. It can only shorten the agent's own limit. */
  timeout?: string;
  onBehalfOf?: string;
  idempotencyKey?: string;
  /** Stops waiting for its start. */
  signal?: AbortSignal;
}

export interface TerminalSize {
  rows: number;
  columns: number;
}

export interface ExecOptions {
  /** Variables besides the agent's. */
  env?: { [name: string]: string };
  /** An absolute path in the cell. */
  cwd?: string;
  /** All of its standard input; or a stream of it. */
  input?: string | Bytes | AsyncIterable<string | Bytes>;
  /** Its standard input stays open: see `write` and `end`. */
  stdin?: boolean;
  /** It is killed after this time: `"30s"`. */
  timeout?: string;
  /** It gets a terminal; all its output is `stdout` then. */
  tty?: TerminalSize;
  /** Kills the command. */
  signal?: AbortSignal;
}

export interface Output {
  stream: 'stdout' | 'stderr';
  data: Buffer;
  text: string;
}

/** What came of a command. */
export class ExecResult {
  private constructor();
  /** As a shell has it: 128 and the signal's number if one ended it. */
  readonly exitCode: number;
  readonly timedOut: boolean;
  readonly stdout: string;
  readonly stderr: string;
  /** A stream was over 64 MiB: the rest is missing. */
  readonly truncated: boolean;
  readonly bytes: { stdout: Buffer; stderr: Buffer };
}

/** A command that runs: iterate over its output, or await its result. */
export class Command implements AsyncIterable<Output>, PromiseLike<ExecResult> {
  private constructor();
  [Symbol.asyncIterator](): AsyncIterator<Output>;
  then<A = ExecResult, B = never>(
    done?: ((result: ExecResult) => A | PromiseLike<A>) | null, failed?: ((reason: any) => B | PromiseLike<B>) | null): Promise<A | B>;
  catch<T = never>(failed?: ((reason: any) => T | PromiseLike<T>) | null): Promise<ExecResult | T>;
  finally(always?: (() => void) | null): Promise<ExecResult>;
  /** What `await` gives. */
  readonly result: Promise<ExecResult>;
  /** Settled once the command has taken it. */
  write(data: string | Bytes): Promise<void>;
  end(): Promise<void>;
  signal(name: 'HUP' | 'INT' | 'QUIT' | 'KILL' | 'TERM' | 'USR1' | 'USR2' | 'STOP' | 'CONT'): Promise<void>;
  kill(): Promise<void>;
  resize(rows: number, columns: number): Promise<void>;
}

export interface AttachOptions extends Partial<TerminalSize> {
  /** Leaves the terminal. */
  signal?: AbortSignal;
}

/** The terminal of a cell's agent: iterate over its output. `break`, `detach` and a lost connection leave it; the cell goes on. */
export class Terminal implements AsyncIterable<Buffer> {
  private constructor();
  /** The screen as it is comes first; done when the cell has ended, or this client has left. */
  [Symbol.asyncIterator](): AsyncIterator<Buffer>;
  /** Of the cell, as a shell has it; undefined until it has ended. */
  readonly exitCode: number | undefined;
  /** Settled once the terminal has taken it. */
  write(data: string | Bytes): Promise<void>;
  resize(rows: number, columns: number): Promise<void>;
  detach(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface Change {
  /** `overflow`: some changes were missed. */
  change: 'created' | 'modified' | 'removed' | 'overflow';
  path?: string;
  /** Instead of a path that is not UTF-8. */
  pathBytes?: Buffer;
}

export class Watch implements AsyncIterable<Change> {
  private constructor();
  [Symbol.asyncIterator](): AsyncIterator<Change>;
  close(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface Entry {
  name: string;
  /** If the name is not UTF-8. */
  nameBytes?: Buffer;
  type: 'file' | 'folder' | 'link' | 'pipe' | 'socket' | 'device';
  size: number;
  mode: number;
  modified: Date;
  /** Where a link leads. */
  target?: string;
}

/** A cell that stays until its time is over, or `kill`. */
export class Sandbox {
  private constructor();
  /** Without a client, `new Client()`. */
  static create(options: SandboxOptions & { client?: Client }): Promise<Sandbox>;
  static connect(id: string, options?: { client?: Client }): Promise<Sandbox>;
  /** Of its dispatch. */
  readonly id: string;
  readonly files: {
    read(path: string): Promise<Buffer>;
    readText(path: string): Promise<string>;
    /** Missing folders are made. */
    write(path: string, data: string | Bytes): Promise<void>;
    list(path: string): Promise<{ entries: Entry[]; truncated: boolean }>;
    /** Settled once it watches. */
    watch(path: string, options?: { recursive?: boolean; signal?: AbortSignal }): Promise<Watch>;
  };
  exec(command: string[], options?: ExecOptions): Command;
  /** Joins the terminal of its agent, which is registered with `terminal: true`; settled once it has. */
  attach(options?: AttachOptions): Promise<Terminal>;
  /** A port of this machine for a port of the cell. */
  publish(port: number): Promise<{ host: string; port: number; url: string }>;
  status(): Promise<Status>;
  /** Settled once it has ended. */
  kill(): Promise<Status>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface Why {
  /** What is recorded with it. */
  why?: string;
}

export interface Done {
  /** How many cells it was done to. */
  cells: number;
  /** How many it could not be done to, and why. */
  failed: string[];
}

export class Client {
  constructor(options?: ClientOptions | TargetOptions);
  readonly capabilities: Registry<Capability>;
  readonly subagent: Agents;
  /** The same registry. */
  readonly agents: Agents;
  readonly env: Registry<Env>;
  readonly policies: Registry<Policy>;
  readonly targets: Registry<Target>;
  readonly dispatches: {
    list(options?: { state?: State; limit?: number; after?: string }): Promise<any>;
    /** One that was begun before. */
    get(id: string, options?: { signal?: AbortSignal }): Dispatch;
  };
  readonly sandboxes: {
    /** Settled once it can be used. */
    create(options: SandboxOptions): Promise<Sandbox>;
    connect(id: string): Promise<Sandbox>;
  };
  readonly cells: {
    list(options?: { all?: boolean }): Promise<{ cells: any[] }>;
    get(cell: string): Promise<any>;
    stop(cell: string, options?: { grace?: string }): Promise<any>;
    kill(cell: string): Promise<any>;
    freeze(cell: string): Promise<any>;
    thaw(cell: string): Promise<any>;
    /** Every cell. */
    all(verb: 'kill' | 'freeze' | 'thaw'): Promise<Done>;
    ttl(cell: string, ttl: string, options?: Why): Promise<Done>;
    /** A page: the newest first, or from `after` on. */
    timeline(cell: string, options?: { after?: number; before?: number; limit?: number; type?: string; search?: string }):
      Promise<{ records: any[]; more: boolean; next: number | null }>;
    policy(cell: string): Promise<{ hash: string; text: string; rules: any[]; [key: string]: any }>;
    /** With `hash` only if that is the policy in force. */
    setPolicy(cell: string, text: string, options?: Why & { now?: boolean; hash?: string }): Promise<{ hash: string; diff: string }>;
    allow(cell: string, rule: string, options?: Why & { now?: boolean }): Promise<{ hash: string; diff: string }>;
    deny(cell: string, rule: string, options?: Why & { now?: boolean }): Promise<{ hash: string; diff: string }>;
    budget(cell: string): Promise<{ budgets: any[] }>;
    raiseBudget(cell: string, more: Why & { name: string; kind: string; limit: string | number }): Promise<{ budgets: any[] }>;
    secrets(cell: string): Promise<{ secrets: any[] }>;
    revoke(cell: string, secret: string, options?: Why & { quiet?: boolean }): Promise<Done>;
    rotate(cell: string, secret: string, options?: Why): Promise<Done>;
  };
  /** Requests that wait for people. */
  readonly approvals: {
    list(options?: { cell?: string; state?: 'pending' | 'approved' | 'refused' | 'timed_out' | 'gone' }): Promise<{ approvals: any[] }>;
    /** Once; with `for` all that its rule asks for, for so long; or with `how: 'rule'`. */
    approve(id: string, options?: Why & { how?: 'once' | 'for' | 'rule'; for?: string }): Promise<any>;
    /** The agent is told the reason. */
    refuse(id: string, reason: string): Promise<any>;
  };
  version(): Promise<any>;
  /** Begins at once. Await it for its result, or use it while it runs. */
  dispatch(options: DispatchOptions): Dispatch;
  /** Idle connections are closed. */
  close(): void;
}

/** `new Client()`, made when it is first used. */
export const client: Client;

export class CloisterError extends Error {
  /** What the service said, how a dispatch ended, `unreachable` or `protocol`. */
  readonly code: string;
  /** Of HTTP, where the service answered. */
  readonly status?: number;
  /** Which part of what was sent is wrong: a JSON pointer. */
  readonly pointer?: string;
  /** How it ended, if this is about a dispatch. */
  readonly dispatch?: Status;
}
