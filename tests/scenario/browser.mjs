// Chromium, driven by lines of JSON on standard input: {do, ...}; each is answered by one, {ok} or {error}.
// What a page complains of, and what it asks of anybody else, is kept for the op `problems`.
import readline from 'node:readline';

const { chromium } = (await import(process.env.PLAYWRIGHT)).default;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM,
	args: [...(process.getuid() === 0 ? ['--no-sandbox'] : []), '--disable-gpu', '--disable-lcd-text', '--disable-dev-shm-usage'] });
const patience = Number(process.env.PATIENCE_MS);
let context, page, problems = [];

function watch(origin) {
	page.on('pageerror', error => problems.push(`error: ${error.stack ?? error}`));
	page.on('console', message => {
		// A refusal that the page deals with is told there too.
		if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
			problems.push(`console: ${message.text()}`);
	});
	page.on('request', request => {
		if (!request.url().startsWith(origin) && !request.url().startsWith('data:'))
			problems.push(`asks elsewhere: ${request.url()}`);
	});
}

// Playwright's own waiting evaluates in the page, which the page's policy forbids.
async function until({ js }) {
	for (const end = Date.now() + patience; !await page.evaluate(js);) {
		if (Date.now() > end)
			throw new Error(`still not so: ${js}`);
		await new Promise(then => setTimeout(then, 20));
	}
}

const ops = {
	async open({ url, width = 1280, height = 800, scheme = 'light', time, tls }) {
		await context?.close();
		problems = [];
		context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce',
			ignoreHTTPSErrors: tls === 'any', locale: 'en-GB', timezoneId: 'UTC' });
		context.setDefaultTimeout(patience);
		page = await context.newPage();
		if (time)
			await page.clock.setFixedTime(time * 1000);
		watch(new URL(url).origin);
		await page.goto(url);
	},
	goto: ({ url }) => page.goto(url),
	reload: () => page.reload(),
	press: ({ key }) => page.keyboard.press(key),
	type: ({ text }) => page.keyboard.type(text),
	click: ({ what }) => page.locator(what).first().click(),
	fill: ({ what, text }) => page.locator(what).first().fill(text),
	choose: ({ what, value }) => page.locator(what).first().selectOption(value),
	text: ({ what }) => page.locator(what).first().innerText(),
	texts: ({ what }) => page.locator(what).allInnerTexts(),
	value: ({ what }) => page.locator(what).first().inputValue(),
	count: ({ what }) => page.locator(what).count(),
	see: ({ what }) => page.locator(what).first().waitFor(),
	gone: ({ what }) => page.locator(what).first().waitFor({ state: 'hidden' }),
	attached: ({ what }) => page.locator(what).first().waitFor({ state: 'attached' }),
	until,
	run: ({ js }) => page.evaluate(js),
	resize: ({ width, height }) => page.setViewportSize({ width, height }),
	scheme: ({ scheme }) => page.emulateMedia({ colorScheme: scheme }),
	axe: async ({ source, only }) => {
		await page.evaluate(source);
		const options = { resultTypes: ['violations'], ...(only.length > 0 ? { runOnly: only } : {}) };
		const found = await page.evaluate(`axe.run(document, ${JSON.stringify(options)})`);
		return found.violations.map(v => `${v.id}: ${v.help}: ${v.nodes.slice(0, 4).map(n => n.html.slice(0, 160)).join(' | ')}`);
	},
	shot: async ({ path }) => {
		await page.screenshot({ path });
	},
	problems: () => problems,
};

for await (const line of readline.createInterface({ input: process.stdin })) {
	const { do: op, ...how } = JSON.parse(line);
	let answer;
	try {
		const ok = await ops[op](how);
		answer = { ok: ['goto', 'reload'].includes(op) ? null : ok ?? null };
	} catch (error) {
		answer = { error: String(error.message ?? error) };
	}
	process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
