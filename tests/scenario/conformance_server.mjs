// The server that MCP's conformance suite expects, made with the SDK in the folder MCP_SDK: without arguments over standard
// input and output, or over streamable HTTP at a port.
import http from 'node:http';
import { randomUUID } from 'node:crypto';

const sdk = process.env.MCP_SDK;
const { Server } = await import(sdk + '/server/index.js');
const { StdioServerTransport } = await import(sdk + '/server/stdio.js');
const { StreamableHTTPServerTransport } = await import(sdk + '/server/streamableHttp.js');
const types = await import(sdk + '/types.js');

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SOUND = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';
const text = words => ({ type: 'text', text: words });
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const embedded = (uri, mimeType, words) => ({ type: 'resource', resource: { uri, mimeType, text: words } });
const wait = () => new Promise(resolve => setTimeout(resolve, 50));
const object = (properties = {}, required = []) => ({ type: 'object', properties, required });
const string = { type: 'string' };
const SCHEMA = {
	$schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object',
	$defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: string, city: string } } },
	properties: { name: string, address: { $ref: '#/$defs/address' }, contactMethod: { type: 'string', enum: ['phone', 'email'] },
		phone: string, email: string },
	allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
	if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
	then: { required: ['phone'] }, else: { required: ['email'] }, additionalProperties: false,
};
const DEFAULTS = object({
	name: { ...string, default: 'John Doe' }, age: { type: 'integer', default: 30 }, score: { type: 'number', default: 95.5 },
	status: { ...string, enum: ['active', 'inactive', 'pending'], default: 'active' }, verified: { type: 'boolean', default: true },
});
const titled = values => values.map(([value, title]) => ({ const: value, title }));
const ENUMS = object({
	untitledSingle: { ...string, enum: ['option1', 'option2', 'option3'] },
	titledSingle: { ...string, oneOf: titled([['value1', 'First Option'], ['value2', 'Second Option'], ['value3', 'Third Option']]) },
	legacyEnum: { ...string, enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
	untitledMulti: { type: 'array', items: { ...string, enum: ['option1', 'option2', 'option3'] } },
	titledMulti: { type: 'array', items: { anyOf: titled([['value1', 'First Choice'], ['value2', 'Second Choice'], ['value3', 'Third Choice']]) } },
});

async function elicit(server, message, requestedSchema, extra) {
	const params = { message, requestedSchema };
	const got = await extra.sendRequest({ method: 'elicitation/create', params }, types.ElicitResultSchema);
	return [text(`Elicitation completed: action=${got.action}, content=${JSON.stringify(got.content)}`)];
}

// NAME: [content(arguments, extra, server), schema]
const tools = {
	test_simple_text: [() => [text('This is a simple text response for testing.')]],
	test_image_content: [() => [image]],
	test_audio_content: [() => [{ type: 'audio', data: SOUND, mimeType: 'audio/wav' }]],
	test_embedded_resource: [() => [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')]],
	test_multiple_content_types: [() => [text('Multiple content types test:'), image,
		embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}')]],
	test_tool_with_logging: [async (given, extra) => {
		for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
			await extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data } });
			await wait();
		}
		return [text('logged')];
	}],
	test_error_handling: [() => { throw new Error('This tool intentionally returns an error for testing'); }],
	test_tool_with_progress: [async (given, extra) => {
		for (const progress of [0, 50, 100]) {
			if (extra._meta?.progressToken !== undefined)
				await extra.sendNotification({ method: 'notifications/progress',
					params: { progressToken: extra._meta.progressToken, progress, total: 100 } });
			await wait();
		}
		return [text('done')];
	}],
	test_sampling: [async ({ prompt }, extra) => {
		const got = await extra.sendRequest({ method: 'sampling/createMessage',
			params: { messages: [{ role: 'user', content: text(prompt) }], maxTokens: 100 } }, types.CreateMessageResultSchema);
		return [text(`LLM response: ${got.content.text}`)];
	}, object({ prompt: string }, ['prompt'])],
	test_elicitation: [async ({ message }, extra, server) => {
		const [got] = await elicit(server, message, object({ username: { ...string, description: "User's response" },
			email: { ...string, description: "User's email address" } }, ['username', 'email']), extra);
		return [text(`User response: ${got.text}`)];
	}, object({ message: string }, ['message'])],
	test_elicitation_sep1034_defaults: [(given, extra, server) => elicit(server, 'Check these', DEFAULTS, extra)],
	test_elicitation_sep1330_enums: [(given, extra, server) => elicit(server, 'Choose', ENUMS, extra)],
	json_schema_2020_12_tool: [given => [text(JSON.stringify(given))], SCHEMA],
};
const resources = {
	'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
	'test://static-binary': { mimeType: 'image/png', blob: PIXEL },
	'test://watched-resource': { mimeType: 'text/plain', text: 'watched' },
};
const argument = (name, description) => ({ name, description, required: true });
const user = content => ({ role: 'user', content });
// NAME: [messages(arguments), arguments]
const prompts = {
	test_simple_prompt: [() => [user(text('This is a simple prompt for testing.'))], []],
	test_prompt_with_arguments: [({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
		[argument('arg1', 'First test argument'), argument('arg2', 'Second test argument')]],
	test_prompt_with_embedded_resource: [({ resourceUri }) => [
		user(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.')),
		user(text('Please process the embedded resource above.'))], [argument('resourceUri', 'The resource')]],
	test_prompt_with_image: [() => [user(image), user(text('Please analyze the image above.'))], []],
};

function contents(uri) {
	const id = /^test:\/\/template\/(.+)\/data$/.exec(uri)?.[1];
	if (id)
		return { uri, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
	if (!resources[uri])
		throw new types.McpError(-32002, 'Resource not found', { uri });
	return { uri, ...resources[uri] };
}

async function call(server, { name, arguments: given = {} }, extra) {
	if (!tools[name])
		throw new types.McpError(types.ErrorCode.InvalidParams, `Unknown tool: ${name}`);
	try {
		return { content: await tools[name][0](given, extra, server) };
	} catch (error) {
		return { isError: true, content: [text(error.message)] };
	}
}

function make() {
	const server = new Server({ name: 'conformance', version: '1.0.0' }, { capabilities: {
		tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, prompts: { listChanged: true },
		logging: {}, completions: {} } });
	const on = (schema, answer) => server.setRequestHandler(types[schema + 'RequestSchema'], answer);
	on('ListTools', () => ({ tools: Object.entries(tools).map(([name, [, inputSchema = object()]]) =>
		({ name, description: `The tool ${name}`, inputSchema })) }));
	on('CallTool', (request, extra) => call(server, request.params, extra));
	on('ListResources', () => ({ resources: Object.entries(resources).map(([uri, { mimeType }]) =>
		({ uri, name: uri.slice(7), description: `The resource ${uri}`, mimeType })) }));
	on('ListResourceTemplates', () => ({ resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template',
		description: 'A template', mimeType: 'application/json' }] }));
	on('ReadResource', request => ({ contents: [contents(request.params.uri)] }));
	on('Subscribe', () => ({}));
	on('Unsubscribe', () => ({}));
	on('ListPrompts', () => ({ prompts: Object.entries(prompts).map(([name, [, given]]) =>
		({ name, description: `The prompt ${name}`, arguments: given })) }));
	on('GetPrompt', request => ({ messages: prompts[request.params.name][0](request.params.arguments ?? {}) }));
	on('Complete', () => ({ completion: { values: ['paris', 'park', 'party'], total: 3, hasMore: false } }));
	return server;
}

async function serve(port) {
	const sessions = new Map();
	const listener = http.createServer(async (request, response) => {
		let transport = sessions.get(request.headers['mcp-session-id']);
		if (request.headers['mcp-session-id'] && !transport) {
			response.writeHead(404).end();
			return;
		}
		if (!transport) {
			transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, enableDnsRebindingProtection: true,
				allowedHosts: [`127.0.0.1:${port}`, `localhost:${port}`],
				allowedOrigins: [`http://127.0.0.1:${port}`, `http://localhost:${port}`],
				onsessioninitialized: id => sessions.set(id, transport), onsessionclosed: id => sessions.delete(id) });
			await make().connect(transport);
		}
		await transport.handleRequest(request, response);
	});
	await new Promise(resolve => listener.listen(port, '127.0.0.1', resolve));
	console.log('ready');
}

if (process.argv[2])
	await serve(Number(process.argv[2]));
else
	await make().connect(new StdioServerTransport());
