// An SDK as a client of the gateway, with @modelcontextprotocol/server-everything behind it: WHICH (v1, v2, or v2-auto,
// which would speak a newer revision), http or stdio.  What it saw is printed as JSON.
const [which, transport] = process.argv.slice(2);
const v1 = which === 'v1';
const sdk = '@modelcontextprotocol/';
const { Client } = await import(v1 ? sdk + 'sdk/client/index.js' : sdk + 'client');
const stdio = await import(v1 ? sdk + 'sdk/client/stdio.js' : sdk + 'client/stdio');
const http = await import(v1 ? sdk + 'sdk/client/streamableHttp.js' : sdk + 'client');

const client = new Client({ name: 'test', version: '1' }, { capabilities: { sampling: {}, roots: { listChanged: true }, elicitation: {} },
	...(which === 'v2-auto' ? { versionNegotiation: { mode: 'auto' } } : {}) });
const asked = [];
const filled = { name: 'parsnip', check: true };
const answer = (method, result) => {
	const reply = request => { asked.push(request.method); return result; };
	return reply;
};
if (v1) {
	const types = await import(sdk + 'sdk/types.js');
	client.setRequestHandler(types.CreateMessageRequestSchema, answer('sampling/createMessage',
		{ role: 'assistant', model: 'm', content: { type: 'text', text: 'sampled' } }));
	client.setRequestHandler(types.ElicitRequestSchema, answer('elicitation/create', { action: 'accept', content: filled }));
	client.setRequestHandler(types.ListRootsRequestSchema, answer('roots/list', { roots: [{ uri: 'file:///here', name: 'here' }] }));
} else {
	client.setRequestHandler('sampling/createMessage', answer('sampling/createMessage',
		{ role: 'assistant', model: 'm', content: { type: 'text', text: 'sampled' } }));
	client.setRequestHandler('elicitation/create', answer('elicitation/create', { action: 'accept', content: filled }));
	client.setRequestHandler('roots/list', answer('roots/list', { roots: [{ uri: 'file:///here', name: 'here' }] }));
}
await client.connect(transport === 'stdio' ? new stdio.StdioClientTransport({ command: '/run/cloister/cloister-tools' }) :
	new http.StreamableHTTPClientTransport(new URL('http://tools.cloister.internal/mcp')));

const call = (name, args, how) => v1 ? client.callTool({ name, arguments: args }, undefined, how) :
	client.callTool({ name, arguments: args }, how);
const seen = { version: client.getNegotiatedProtocolVersion?.() ?? null, progress: [] };
seen.tools = (await client.listTools()).tools.map(tool => tool.name);
seen.echo = (await call('everything.echo', { message: 'hello' })).content[0].text;
seen.sum = (await call('everything.get-sum', { a: 2, b: 3 })).content[0].text;
await call('everything.trigger-long-running-operation', { duration: 1, steps: 2 },
	{ onprogress: progress => seen.progress.push(progress.progress) });
seen.sampled = (await call('everything.trigger-sampling-request', { prompt: 'x', maxTokens: 5 })).content.map(c => c.text).join(' ');
seen.elicited = (await call('everything.trigger-elicitation-request', {})).content.map(c => c.text).join(' ');
const resources = (await client.listResources()).resources;
seen.resources = resources.length;
seen.read = (await client.readResource({ uri: resources[0].uri })).contents[0].uri === resources[0].uri;
seen.templates = (await client.listResourceTemplates()).resourceTemplates.map(t => t.uriTemplate);
seen.prompts = (await client.listPrompts()).prompts.map(p => p.name);
seen.prompt = (await client.getPrompt({ name: seen.prompts[0] })).messages.length;
try {
	await call('everything.nothing', {});
} catch (error) {
	seen.unknown = String(error);
}
seen.asked = [...new Set(asked)];
console.log(JSON.stringify(seen));
await client.close();
process.exit(0);
