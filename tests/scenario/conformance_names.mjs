// Stands between the conformance suite and the gateway in a cell: the suite calls the tools of its own server by their bare
// names, and the gateway puts the server's name before each.  Nothing else is changed.  conformance_names.mjs PORT SERVER
import http from 'node:http';

const [port, server] = [Number(process.argv[2]), process.argv[3]];
const HOST = 'tools.cloister.internal';

function asked(text) {
	let message;
	try {
		message = JSON.parse(text);
	} catch {
		return text;
	}
	const params = message.params;
	if (['tools/call', 'prompts/get'].includes(message.method) && params?.name)
		params.name = `${server}.${params.name}`;
	if (/^resources\/(read|subscribe|unsubscribe)$/.test(message.method) && params?.uri)
		params.uri = `mcp://${server}/${params.uri}`;
	if (params?.ref?.name)
		params.ref.name = `${server}.${params.ref.name}`;
	return JSON.stringify(message);
}

const answered = text => text.replaceAll(`"${server}.`, '"').replaceAll(`mcp://${server}/`, '');

http.createServer(async (request, response) => {
	let body = '';
	for await (const piece of request)
		body += piece;
	const headers = { ...request.headers, host: HOST };
	delete headers['content-length'];
	delete headers['connection'];
	const text = request.method === 'POST' ? asked(body) : body;
	if (text)
		headers['content-length'] = Buffer.byteLength(text);
	// The cell's side believes only its own names; the suite tries others.
	if (request.headers.host !== `127.0.0.1:${port}` && request.headers.host !== `localhost:${port}`)
		headers.host = request.headers.host;
	const on = http.request({ host: HOST, method: request.method, path: request.url, headers }, back => {
		const given = { ...back.headers };
		delete given['content-length'];
		delete given['transfer-encoding'];
		delete given['connection'];
		response.writeHead(back.statusCode, given);
		let line = '';
		back.setEncoding('utf8');
		back.on('data', piece => {
			const lines = (line + piece).split('\n');
			line = lines.pop();
			for (const one of lines)
				response.write(answered(one) + '\n');
		});
		back.on('end', () => response.end(answered(line)));
	});
	on.on('error', () => response.destroy());
	response.on('close', () => on.destroy());
	on.end(text);
}).listen(port, '127.0.0.1', () => console.log('ready'));
