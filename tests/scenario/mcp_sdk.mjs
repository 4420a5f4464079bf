// One of the SDKs as a client of `cloister mcp`: WHICH (v1, v2 or v2-auto) stdio PROGRAM, or http URL.
// The token is in MCP_TOKEN.  What it saw is printed as JSON; it checks results against the tools'
// schemas itself.
const [which, transport, where] = process.argv.slice(2);
const v1 = which === 'v1';
const sdk = '@modelcontextprotocol/';
const { Client } = await import(v1 ? sdk + 'sdk/client/index.js' : sdk + 'client');
const stdio = await import(v1 ? sdk + 'sdk/client/stdio.js' : sdk + 'client/stdio');
const http = await import(v1 ? sdk + 'sdk/client/streamableHttp.js' : sdk + 'client');

const options = v1 ? {} : { versionNegotiation: { mode: which === 'v2' ? { pin: '2026-07-28' } : 'auto' } };
const client = new Client({ name: 'judge', version: '1' }, options);
const errors = [];
client.onerror = error => errors.push(String(error));
const line = transport === 'stdio' ?
	new stdio.StdioClientTransport({ command: where, args: ['mcp'], env: process.env }) :
	new http.StreamableHTTPClientTransport(new URL(where), {
		requestInit: { headers: { Authorization: `Bearer ${process.env.MCP_TOKEN}` } } });
await client.connect(line);

const seen = { tools: (await client.listTools()).tools.map(tool => tool.name) };
const call = (name, args, how) => v1 ? client.callTool({ name, arguments: args }, undefined, how) :
	client.callTool({ name, arguments: args }, how);
seen.version = client.getNegotiatedProtocolVersion?.() ?? line.protocolVersion ?? null;
seen.server = client.getServerVersion()?.name;
seen.agents = (await call('list_agents', {})).structuredContent.agents.map(agent => agent.name);

const messages = [];
const agent = process.env.MCP_AGENT ?? 'echo';
const done = await call('dispatch', { agent, input: 'hello' },
	{ onprogress: progress => messages.push(progress.message) });
seen.done = done.structuredContent;
seen.progress = messages;
seen.status = (await call('status', { id: seen.done.id })).structuredContent;
seen.output = (await call('output', { id: seen.done.id })).structuredContent;
seen.files = (await call('result_files', { id: seen.done.id })).structuredContent.files;
const bad = await call('status', { id: 7 });
seen.bad = [bad.isError, bad.content[0].text];
try {
	await call('register', {});
	seen.unknown = 'called';
} catch (error) {
	seen.unknown = error.code;
}

// A call that is given up.
if (process.env.MCP_SLOW) {
	const stop = new AbortController();
	const slow = call('dispatch', { agent: process.env.MCP_SLOW }, { signal: stop.signal,
		onprogress: () => stop.abort('enough') });
	seen.given_up = await slow.then(() => 'finished', () => 'given up');
	// Who closes its connections at once may take back what it had to say.
	while ((await call('status', { id: seen.done.id })).structuredContent.state !== 'cancelled')
		await new Promise(resolve => setTimeout(resolve, 5));
}
seen.errors = errors;
await client.close();
console.log(JSON.stringify(seen));
